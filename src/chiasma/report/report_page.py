"""report.html: the answers of a run in words, then its charts, rivals, parameters, checks and settings on one page.

The page is one file that loads nothing: charts and their library are inside (`charts`), and so are the few lines that
connect its buttons with the charts (report.js). Links lead to the tables and figures beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chiasma import atomic
from chiasma.io.options import flags
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import exchangeable_blocks
from chiasma.report import page as parts
from chiasma.report.answers import answers, apart_text, same_level_text
from chiasma.report.charts import (
    MOST_BLOCKS,
    MOST_SITES,
    Charts,
    Sites,
    ladder_chart,
    parameter_chart,
    region_chart,
    region_points,
    signal_chart,
    trace_chart,
)
from chiasma.report.figures.parameters import histogram, prior_density
from chiasma.report.figures.sites import Stretch
from chiasma.report.page import Html
from chiasma.report.policy import with_policy
from chiasma.report.run_tables import SCHEMA
from chiasma.results.convergence import rhat_text
from chiasma.results.expected import signal_of_rows
from chiasma.results.findings import options
from chiasma.results.parameters import entries
from chiasma.results.rivals import CERTAIN, SERIOUS, Region, Rival
from chiasma.results.row_probabilities import RowProbabilities, names_of_rows, row_probabilities
from chiasma.results.summary import time_text
from chiasma.types import Floats, count

if TYPE_CHECKING:
    from chiasma.report.report import Found

# Rival regions and parameters that the page shows; the tables have all.
SHOWN_REGIONS, SHOWN_PARAMETERS = 40, 24
MOST_LISTED = 12  # rows whose share of the signal is told in a sentence
# Blocks of the chart of one region, and how far it reaches beyond the region on both sides.
REGION_BLOCKS, AROUND = 1_000, 0.25
# Explanations below this probability are left to the table.
NEGLIGIBLE = 0.005

STYLE = """
.chart { outline-offset: 4px; overflow: hidden; }
.moves { display: flex; flex-wrap: wrap; gap: .4rem; margin: .5rem 0; }
button { font: inherit; color: var(--link); background: var(--soft); border: 1px solid var(--line);
  border-radius: .25rem; padding: .15rem .6rem; cursor: pointer; text-align: left; }
button[aria-pressed="true"] { background: var(--note-back); color: var(--ink); border-color: var(--ink); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1rem; }
.bar { display: inline-block; height: .7rem; background: var(--mark); vertical-align: baseline; }
.list .scroll { max-height: 24rem; overflow-y: auto; border-bottom: 1px solid var(--line); }
@media (min-width: 40rem) { .list td { white-space: nowrap; } }
.list thead { position: sticky; top: 0; }
td.on, td.off { text-align: center; }
td.on { background: var(--mark); color: var(--paper); }
td.off { background: var(--unmark); }
.bk-Figure, .place { --bk-background-fill-color: transparent; --bk-border-fill-color: transparent;
  --bk-outline-line-color: var(--line); --bk-axis-label-text-color: var(--ink); --bk-axis-line-color: var(--quiet);
  --bk-major-label-text-color: var(--quiet); --bk-major-tick-line-color: var(--quiet);
  --bk-minor-tick-line-color: var(--line); --bk-grid-line-color: var(--line); --bk-title-text-color: var(--ink);
  --bk-text-color: var(--ink); --bk-label-text-color: var(--ink); --bk-legend-background-fill-color: var(--paper); }
"""


def write_page(found: Found, run: Path, content: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write report.html. content: that of summary.json. about: name, settings, the command that repeats the run,
    and how far it came if it was interrupted.
    """
    charts = Charts()
    name = about.get("name") or run.resolve().name
    n_sequences = len(found.signal.data.starts)
    noun = "chromosome" if found.signal.chromosome else "sequence"
    known = flags()
    told = answers(
        found.summary,
        found.regions,
        found.doubtful,
        found.where,
        found.command,
        names_of_rows(found.posterior),
        f" on {count(n_sequences, noun)}" if n_sequences > 1 else "",
        about.get("interrupted", ""),
        lambda finding: options(finding, known),
    )
    head = Html(f"<style>{STYLE}</style>\n")
    page = parts.document(
        f"{name}: chiasma report",
        parts.header(f"{name}: what the fit found", found.signal.in_words(), _rows_text(found)),
        parts.verdicts(told),
        _signal(found, charts),
        _rivals(found, charts),
        _parameters(found, charts),
        _checks(found, charts),
        _files(found, run),
        _settings(content, about),
        parts.footer(f"Made by chiasma {content.get('chiasma', '')}. This page needs no network."),
        _regions_script(found),
        head=head,
    )
    glue = files("chiasma.report").joinpath("report.js").read_text(encoding="utf-8")
    page = charts.filled(page).replace("</body>", f"<script>\n{glue}</script>\n</body>")
    atomic.write_text(run / "report.html", with_policy(page, evaluates=True))


def _rows_text(found: Found) -> str:
    names = names_of_rows(found.posterior)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    n_draws = found.posterior.draws.sizes["chain"] * found.posterior.draws.sizes["draw"]
    return f"; {count(len(names), 'row')} ({shown}); {count(n_draws, 'draw')}."


def _thinned_text(stretch: Stretch, n: int) -> str:
    """How many sites a mark stands for, and the command that shows single ones."""
    edges = np.append(stretch.first, n)
    middle = len(stretch.first) // 2
    first, last = edges[middle], edges[middle + 1] - 1
    return (
        f" There are {n:,} sites: each mark spans the lowest to the highest of up to {np.diff(edges).max():,} "
        f"neighbours, however far you zoom in. To see single sites: chiasma show RUN --region {first}-{last}"
    )


def _signal(found: Found, charts: Charts) -> Html:
    posterior, data = found.posterior, found.signal.data
    n = data.n_columns
    stretch = Stretch(data, 0, n, found.labels, MOST_BLOCKS if n > MOST_SITES else None)
    rows = [(_row_label(row), row.probabilities) for row in row_probabilities(posterior)]
    owner = np.repeat(np.arange(len(found.regions)), [one.segment.n_sites for one in found.regions])
    last = np.append(stretch.first[1:], n)
    sites = Sites(
        stretch=stretch,
        data=data,
        band=found.band,
        rows=rows,
        places=[
            f"site {a}: {found.where(a, b)}" if b == a + 1 else f"sites {a}–{b - 1}: {found.where(a, b)}"
            for a, b in zip(stretch.first.tolist(), last.tolist(), strict=True)
        ],
        states=[found.regions[i].segment.name for i in owner[stretch.first]],
        shares=np.array([found.regions[i].segment.probability for i in owner[stretch.first]]),
        value=found.labels.value,
    )
    top, below = signal_chart(sites)
    moves = {"all": "show all", "closer": "zoom in", "wider": "zoom out", "left": "← move", "right": "move →"}
    buttons = [parts.element("button", text, type_="button", data_move=move) for move, text in moves.items()]
    thinned = _thinned_text(stretch, n) if stretch.is_thinned else ""
    missing = int(data.missing.sum())
    blank = f" {missing:,} sites have no data; long gaps are blank." if missing else ""
    drawing = parts.joined(charts.add("signal", top), charts.add("rows", below))
    several = max(len(shares) for _, shares in rows) > 2
    darker = "; darker are higher states, or more of several equal rows" if several else ""
    return parts.section(
        "The signal and its rows",
        parts.paragraph(_what_rows_are(found)),
        parts.element("div", *buttons, class_="moves", role="toolbar", aria_label="Zoom and move the charts"),
        parts.element(
            "div",
            parts.chart(
                drawing,
                "Above: the data, the posterior mean of the signal and its 5–95% band. Below: the probability that "
                f"each row is on, as high as it is filled{darker}. Rivals of the same signal show as half-filled rows, "
                "not as a wide band. Drag to zoom; both charts move together. Keys: arrows, +, − and 0."
                f"{blank}{thinned}",
                f"Chart of {found.labels.value} along the sites, and of the probabilities of {len(rows)} rows",
            ),
            id_="along",
        ),
        id_="signal",
    )


def _what_rows_are(found: Found) -> str:
    """What a row and a state are, and what each row adds to the signal where that is known."""
    text = (
        "A row is one hidden source that is on or off (or in one of several states) at every site. The signal is made "
        "of what the rows add together. A state such as s101 has one digit per row, in the order below: 1 is on, 0 off."
    )
    text += _ordered_text(found)
    adds = signal_of_rows(found.posterior)
    if adds is None:
        return text
    model = found.posterior.model
    held = model.fixed if isinstance(model, FactorialHMM) else {}
    listed = [
        f"{name} {_adds_text(own, held.get(k))}"
        for k, (name, own) in enumerate(zip(names_of_rows(found.posterior), adds, strict=True))
    ]
    more = ", ..." if len(listed) > MOST_LISTED else ""
    return f"{text} When it is on, a row adds: {', '.join(listed[:MOST_LISTED])}{more}."


def _ordered_text(found: Found) -> str:
    """Which rows have names that mean nothing but their order."""
    model = found.posterior.model
    groups = exchangeable_blocks(model) if isinstance(model, FactorialHMM) else []
    if not groups:
        return ""
    names = names_of_rows(found.posterior)
    told = "; ".join(", ".join(" and ".join(names[k] for k in block) for block in group) for group in groups)
    return (
        f" Rows that only their learned parameters tell apart ({told}) are in one order in every draw, ascending by "
        "what they add, or by how they switch where that is equal: their names mean no more than that."
    )


def _adds_text(adds: Floats, held: int | None) -> str:
    """What the states of a row add; a state 0 that adds nothing is not worth telling."""
    told = [(s, add) for s, add in enumerate(adds.tolist()) if s or add]
    if held is not None and len(told) > 1:
        told = [(held, adds[held])]
    here = "" if held is None else f" (held at {held})"
    if len(told) == 1:
        return f"{told[0][1]:.4g}{here}"
    return " or ".join(f"{add:.4g} (state {s})" for s, add in told)


def _share(probability: float) -> str:
    """In per cent; what is not certain does not look so.

    >>> _share(0.52), _share(0.9491), _share(0.97)
    ('52%', '94.9%', '97%')
    """
    rounded = f"{probability:.0%}"
    return f"{probability:.1%}" if probability < CERTAIN and rounded == f"{CERTAIN:.0%}" else rounded


def _row_label(row: RowProbabilities) -> str:
    return f"{row.name} on" if row.is_count else row.name


def _rivals(found: Found, charts: Charts) -> Html:
    title = "Rival explanations"
    if not found.doubtful:
        text = f"There are none: every segment with data has one state with a probability of {CERTAIN:.0%} or more."
        return parts.section(title, parts.paragraph(text), id_="rivals")
    shown = found.doubtful[:SHOWN_REGIONS]
    rows = [
        [
            parts.element(
                "button",
                found.where(one.segment.start, one.segment.stop),
                type_="button",
                data_region=i,
                aria_pressed="false",
            ),
            one.segment.n_data,
            len(one.serious),
            f"{one.explanations[0].name} {_share(one.explanations[0].probability)}",
            f"{one.rival.name} {one.rival.probability:.0%}" if one.rival else "",
            "the same" if one.same_level else apart_text(one),
            f"{one.segment.doubt:,.1f}",
        ]
        for i, one in enumerate(shown)
    ]
    more = len(found.doubtful) - len(shown)
    rest = f" {more:,} more are in explanations.tsv." if more else ""
    names = ["where", "sites with data", "explanations", "first", "second", "signals", "wrong sites expected"]
    merged = _merged_text(found)
    detail = [_region(found, i, one) for i, one in enumerate(shown)]
    chart = Html("")
    if found.band is not None:
        chart = parts.chart(
            charts.add("region", region_chart("region", found.labels)),
            "The data of the chosen region (shaded) and around it; lines are the signals of its explanations.",
            "Chart of the chosen region with the signals of its explanations",
        )
    return parts.section(
        title,
        parts.paragraph(
            f"Segments in which no state has a probability of {CERTAIN:.0%}, first those with most sites that are "
            f"expected to be wrong. Explanations are states of {SERIOUS:.0%} or more. Signals: how far apart those of "
            "the first two are at one site, in standard deviations of normal noise that is on average as far from its "
            "mean as the noise of the model there; many sites of one state tell smaller distances apart. Choose a "
            "segment to look at it. Probabilities are means over its sites: a rival may concern only its ends."
            f"{rest}{merged}"
        ),
        parts.element("div", parts.table(names, rows, class_="cards"), class_="list"),
        parts.element("div", chart, *detail, id_="rivals-of", aria_live="polite"),
        id_="rivals",
    )


def _merged_text(found: Found) -> str:
    groups = found.posterior.merging.groups
    if not groups:
        return ""
    names = names_of_rows(found.posterior)
    told = "; ".join(", ".join(names[k] for k in group) for group in groups)
    return (
        f" Rows that cannot be told apart ({told}) count as one explanation however they are exchanged: arrangements "
        "says for how many columns it stands."
    )


def _region(found: Found, i: int, region: Region) -> Html:
    """The explanations of one region side by side: the state of every row, the signal and the probability."""
    names = names_of_rows(found.posterior)
    several = any(one.arrangements > 1 for one in region.explanations)
    with_levels = region.explanations[0].level is not None
    head = [
        "state",
        *names,
        *(["signal"] if with_levels else []),
        *(["arrangements"] if several else []),
        "probability",
    ]
    body = [
        parts.element(
            "tr",
            parts.element("td", one.name),
            *(parts.element("td", state, class_="on" if state else "off", title=name) for name, state in
              zip(names, one.states, strict=True)),
            *([parts.element("td", _known(one.level), class_="number")] if with_levels else []),
            *([parts.element("td", f"{one.arrangements:,}", class_="number")] if several else []),
            _probability(one),
        )
        for i, one in enumerate(region.explanations)
        if one.probability >= NEGLIGIBLE or i < 2
    ]  # fmt: skip
    table = parts.element(
        "table",
        parts.element("thead", parts.element("tr", *(parts.element("th", name, scope="col") for name in head))),
        parts.element("tbody", *body),
    )
    ends = region.segment.start, region.segment.stop
    return parts.element(
        "div",
        parts.heading(found.where(*ends)),
        parts.paragraph(f"{count(region.segment.n_data, 'site')} with data. {same_level_text(region)}"),
        parts.paragraph("To look at it: ", parts.element("code", found.command(*ends))),
        parts.element("div", table, class_="scroll", tabindex="0"),
        class_="rivals",
        id_=f"region-{i}",
        hidden=i > 0,
    )


def _probability(one: Rival) -> Html:
    bar = parts.element("span", class_="bar", style=f"width: {8 * one.probability:.2f}rem", aria_hidden="true")
    return parts.element("td", f"{one.probability:.3f} ", bar)


def _known(level: float | None) -> str:
    return "" if level is None else f"{level:.5g}"


def _regions_script(found: Found) -> Html:
    """The regions for report.js: where they are in both charts, their data, and the signals of their explanations."""
    data = found.signal.data
    whole = Stretch(data, 0, data.n_columns, found.labels)
    y = data.y.reshape(data.n_columns, -1)[:, 0]
    known = []
    for one in found.doubtful[:SHOWN_REGIONS]:
        start, stop = one.segment.start, one.segment.stop
        first, end = _around(data.starts, start, stop, data.n_columns)
        near = Stretch(data, first, end, found.labels, REGION_BLOCKS)
        exact = Stretch(data, first, end, found.labels)
        known.append(
            {
                "left": float(whole.left[start]),
                "right": float(whole.right[stop - 1]),
                "from": near.ends[0],
                "to": near.ends[1],
                "shown_left": float(exact.left[start - first]),
                "shown_right": float(exact.right[stop - 1 - first]),
                "axis": near.axis_name,
                "levels": _levels(one.serious or one.explanations[:1]),
                **region_points(near, y[first:end]),
            }
        )
    text = json.dumps(known, allow_nan=False).replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="regions">{text}</script>')


def _around(starts: Any, start: int, stop: int, n: int) -> tuple[int, int]:
    """The region and some sites on both sides, within its sequence."""
    margin = max(5, int(AROUND * (stop - start)))
    own = int(np.searchsorted(starts, start, side="right")) - 1
    end = int(starts[own + 1]) if own + 1 < len(starts) else n
    return max(int(starts[own]), start - margin), min(end, stop + margin)


def _levels(explanations: Sequence[Rival]) -> list[dict[str, Any]]:
    """Distinct signals, each with the states that give it."""
    found: dict[float, list[str]] = {}
    for one in explanations:
        if one.level is not None:
            found.setdefault(float(f"{one.level:.9g}"), []).append(one.name)
    return [{"level": level, "label": ", ".join(names)} for level, names in found.items()]


def _parameters(found: Found, charts: Charts) -> Html:
    learned = found.summary.parameters
    if not learned:
        return Html("")
    drawn = []
    for i, entry in enumerate(list(entries(found.posterior.parameters))[:SHOWN_PARAMETERS]):
        edges, heights = histogram(entry.values)
        prior = prior_density(found.posterior, entry, edges)
        drawn.append(charts.add(f"parameter{i}", parameter_chart(entry.name, edges, heights, prior)))
    rows = [[one.name, one.mean, one.sd, one.low, one.high, _rhat(one.rhat), one.ess] for one in learned]
    return parts.section(
        "Learned parameters",
        parts.table(["parameter", "mean", "sd", "5%", "95%", "R-hat", "effective draws"], rows, rest="parameters.tsv"),
        parts.element("div", *drawn, class_="grid"),
        parts.paragraph("Filled: the posterior. Dashed: the prior. Where the two are alike, the data say little."),
        id_="parameters",
    )


def _rhat(rhat: float) -> str:
    return "" if np.isnan(rhat) else rhat_text(rhat)


def _checks(found: Found, charts: Charts) -> Html:
    posterior, summary = found.posterior, found.summary
    shown: list[object] = [parts.paragraph(f"Plan: {summary.run['plan'] or '-'}.")]
    if not posterior.info.get("independent"):
        rows = [
            [
                part.name.replace("_", " "),
                part.n,
                _rhat(part.rhat_worst),
                part.ess_worst,
                part.constant,
                part.worst_site,
            ]
            for part in summary.convergence
        ]
        names = ["quantity", "series", "worst R-hat", "fewest effective draws", "constant", "worst site"]
        caption = "R-hat above 1.01: the chains disagree. Fewer than 100 effective draws per chain: take more."
        shown.append(parts.table(names, rows, caption=caption))
        trace = trace_chart(np.asarray(posterior.log_joint.values), "log joint density")
        what = "One line per chain. Chains that stay apart have found different modes."
        shown.append(parts.chart(charts.add("trace", trace), what, "Trace of the log joint density of every chain"))
    if summary.exchanges is not None:
        health = summary.exchanges
        known: dict[str, object] = {
            "exchange": health.move,
            "worst rejection": f"{health.worst_rejection:.3f}, rungs {health.worst_pair} and {health.worst_pair + 1}",
            "sites moved per exchange": f"{health.columns:.1f}",
            "exchanges that change a path": f"{health.changed:.0%}",
        }
        if health.round_trips is not None:
            known["round trips"] = f"{health.round_trips:,}"
        ladder = ladder_chart(np.asarray(posterior.exchange_stats["rejection"].values))
        what = "Rejection near 1 between two rungs cuts the ladder in two."
        drawn = parts.chart(charts.add("ladder", ladder), what, "Rejection of every pair of rungs")
        shown += [parts.heading("Exchange between replicas"), parts.facts(known), drawn]
    if summary.evidence is not None:
        error = f" ± {summary.evidence.standard_error:.2g}" if summary.evidence.standard_error else " (exact)"
        shown.append(parts.facts({"log evidence": f"{summary.evidence.value:.3f}{error}"}))
    title = "How it was drawn" if posterior.info.get("independent") else "Convergence and exchange"
    return parts.section(title, *shown, id_="checks")


def _files(found: Found, run: Path) -> Html:
    tables = {
        "segments.tsv": "segments with state, level, probability and best rival",
        "explanations.tsv": "all explanations of the segments that are not certain",
        "states.tsv": "every site, with the probability of every row",
        **({"parameters.tsv": "learned parameters"} if found.summary.parameters else {}),
        SCHEMA: "what every column means",
        "summary.json": "this page for programs",
        "figures/": "figures for print",
    }
    links = {text: parts.link(name, name) for name, text in tables.items()}
    return parts.section("Tables and figures", parts.facts(links), id_="files")


def _settings(content: Mapping[str, Any], about: Mapping[str, Any]) -> Html:
    run = content["run"]
    known = {"seed": run["seed"], "chains": run["chains"], "draws per chain": run["draws"], "time": time_text(run)}
    shown: list[object] = [parts.facts(known)]
    if about.get("repeat"):
        shown += [parts.heading("To repeat it"), parts.code(str(about["repeat"]))]
    if about.get("settings"):
        shown += [parts.heading("Settings"), parts.code(str(about["settings"]))]
    versions = content.get("versions")
    if versions:
        shown += [parts.heading("Versions"), parts.facts(versions)]
    return parts.section("Settings, seed and versions", *shown, id_="settings")
