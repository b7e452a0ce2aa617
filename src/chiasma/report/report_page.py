"""report.html: the answers of a run in words, then its charts, rivals, parameters, checks and settings on one page.

The page is one file that loads nothing: charts and their library are inside (`charts`), and so are the few lines that
connect its buttons with the charts (templates/report.js). Links lead to the tables and figures beside it. Here is what
templates/report.html prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chiasma import atomic
from chiasma.io.options import flags
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import exchangeable_blocks
from chiasma.report.answers import answers, apart_text, same_level_text
from chiasma.report.charts import (
    MOST_BLOCKS,
    MOST_SITES,
    Along,
    embedded,
    ladder_chart,
    parameter_chart,
    region_chart,
    region_points,
    signal_chart,
    trace_chart,
)
from chiasma.report.figures.parameters import histogram, prior_density
from chiasma.report.figures.sites import SiteRange
from chiasma.report.page import Verdict, link, render, words
from chiasma.report.run_tables import SCHEMA
from chiasma.results.convergence import rhat_text
from chiasma.results.expected import less_offset, mean_offset, signal_of_rows
from chiasma.results.findings import options, site_text
from chiasma.results.parameters import entries
from chiasma.results.rivals import CERTAIN, SERIOUS, Region, Rival
from chiasma.results.row_groups import RowProbabilities, names_of_rows, row_probabilities
from chiasma.results.summary import time_text
from chiasma.types import Floats, count

if TYPE_CHECKING:
    from markupsafe import Markup

    from chiasma.report.report import Found

# Rival regions and parameters that the page shows; the tables have all.
SHOWN_REGIONS, SHOWN_PARAMETERS = 40, 24
MOST_LISTED = 12  # rows whose share of the signal is listed in a sentence
# Blocks of the chart of one region, and how far it reaches beyond the region on both sides.
REGION_BLOCKS, AROUND = 1_000, 0.25
# Explanations below this probability are left to the table.
NEGLIGIBLE = 0.005


def write_page(found: Found, run: Path, content: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write report.html. content: that of summary.json. about: name, settings, command, and how far an interrupted run
    came.
    """
    name = about.get("name") or run.resolve().name
    models: dict[str, Any] = {}
    parts: dict[str, Any] = {
        "signal": _signal(found, models),
        "rivals": _rivals(found, models),
        "parameters": _parameters(found, models),
        "checks": _checks(found, models),
    }
    page = render(
        "report.html",
        evaluates=True,
        title=f"{name}: chiasma report",
        heading=f"{name}: what the fit found",
        lead=_lead(found),
        answers=_answers(found, about.get("interrupted", "")),
        charts=embedded(models),
        files=_files(found),
        about=_repeat(content, about, found.signal.digest),
        regions=_regions(found),
        version=content.get("chiasma", ""),
        **parts,
    )
    atomic.write_text(run / "report.html", page)


def _answers(found: Found, interrupted: str) -> list[Verdict]:
    n_sequences = len(found.signal.data.starts)
    noun = "chromosome" if found.signal.chromosome else "sequence"
    known = flags()
    return answers(
        found.summary,
        found.regions,
        found.doubtful,
        found.where,
        found.command,
        names_of_rows(found.posterior),
        f" on {count(n_sequences, noun)}" if n_sequences > 1 else "",
        interrupted,
        lambda finding: options(finding, known),
    )


def _lead(found: Found) -> str:
    names = names_of_rows(found.posterior)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    n_draws = found.posterior.draws.sizes["chain"] * found.posterior.draws.sizes["draw"]
    return f"{found.signal.in_words()}; {count(len(names), 'row')} ({shown}); {count(n_draws, 'draw')}."


# ---- The signal ------------------------------------------------------------------------------------------------------


def _signal(found: Found, models: dict[str, Any]) -> dict[str, Any]:
    posterior, data = found.posterior, found.signal.data
    n = data.n_columns
    stretch = SiteRange(data, 0, n, found.labels, MOST_BLOCKS if n > MOST_SITES else None)
    rows = [(_row_label(row), row.probabilities) for row in row_probabilities(posterior)]
    owner = np.repeat(np.arange(len(found.regions)), [one.segment.n_sites for one in found.regions])
    edges = np.append(stretch.first, n)
    first, last = edges[:-1].tolist(), edges[1:].tolist()
    segments = [found.regions[i].segment for i in owner[stretch.first]]
    offset = mean_offset(posterior)
    along = Along(
        stretch=stretch,
        data=less_offset(posterior, data),
        band=found.band,
        rows=rows,
        places=[f"{site_text(a, b - 1)}: {found.where(a, b)}" for a, b in zip(first, last, strict=True)],
        states=[one.name for one in segments],
        shares=np.array([one.probability for one in segments]),
        value=found.labels.value,
        offset=None if offset is None else offset.reshape(n, -1)[:, 0],
    )
    models["signal"], models["rows"] = signal_chart(along)
    middle = len(first) // 2
    thinned = {"n": n, "most": int(np.diff(edges).max()), "example": f"{first[middle]}-{last[middle] - 1}"}
    return {
        "in_order": _in_order(found),
        "adds": _adds(found),
        "several": max(len(shares) for _, shares in rows) > 2,
        "missing": int(data.missing.sum()),
        "thinned": thinned if stretch.is_thinned else None,
        "value": found.labels.value,
        "n_rows": len(rows),
    }


def _adds(found: Found) -> str:
    """What each row adds to the signal where that is known."""
    adds = signal_of_rows(found.posterior)
    if adds is None:
        return ""
    model = found.posterior.model
    held = model.fixed if isinstance(model, FactorialHMM) else {}
    listed = [
        f"{name} {_adds_text(own, held.get(k))}"
        for k, (name, own) in enumerate(zip(names_of_rows(found.posterior), adds, strict=True))
    ]
    return ", ".join(listed[:MOST_LISTED]) + (", ..." if len(listed) > MOST_LISTED else "")


def _in_order(found: Found) -> str:
    """Rows whose names mean nothing but their order."""
    model = found.posterior.model
    groups = exchangeable_blocks(model) if isinstance(model, FactorialHMM) else []
    names = names_of_rows(found.posterior)
    return "; ".join(", ".join(" and ".join(names[k] for k in block) for block in group) for group in groups)


def _adds_text(adds: Floats, held: int | None) -> str:
    """What the states of a row add; a state 0 that adds nothing is left out."""
    told = [(s, add) for s, add in enumerate(adds.tolist()) if s or add]
    if held is not None and len(told) > 1:
        told = [(held, adds[held])]
    here = "" if held is None else f" (held at {held})"
    if len(told) == 1:
        return f"{told[0][1]:.4g}{here}"
    return " or ".join(f"{add:.4g} (state {s})" for s, add in told)


# ---- Rivals ----------------------------------------------------------------------------------------------------------


def _share(probability: float) -> str:
    """In per cent; what is not certain does not look so.

    >>> _share(0.52), _share(0.9491), _share(0.97)
    ('52%', '94.9%', '97%')
    """
    rounded = f"{probability:.0%}"
    return f"{probability:.1%}" if probability < CERTAIN and rounded == f"{CERTAIN:.0%}" else rounded


def _row_label(row: RowProbabilities) -> str:
    return f"{row.name} on" if row.is_count else row.name


def _rivals(found: Found, models: dict[str, Any]) -> dict[str, Any]:
    shown = found.doubtful[:SHOWN_REGIONS]
    if shown and found.band is not None:
        models["region"] = region_chart("region", found.labels)
    names = names_of_rows(found.posterior)
    return {
        "certain": f"{CERTAIN:.0%}",
        "serious": f"{SERIOUS:.0%}",
        "regions": [_region(found, one) for one in shown],
        "more": len(found.doubtful) - len(shown),
        "merged": "; ".join(", ".join(names[k] for k in group) for group in found.posterior.merging.groups),
        "names": names,
    }


def _region(found: Found, region: Region) -> dict[str, Any]:
    """A segment and its explanations: the state of every row, the signal and the probability."""
    best, rival = region.explanations[0], region.rival
    ends = region.segment.start, region.segment.stop
    return {
        "place": found.where(*ends),
        "cells": [
            region.segment.n_data,
            len(region.serious),
            f"{best.name} {_share(best.probability)}",
            f"{rival.name} {rival.probability:.0%}" if rival else "",
            "the same" if region.same_level else apart_text(region),
            f"{region.segment.doubt:,.1f}",
        ],
        "text": f"{count(region.segment.n_data, 'site')} with data. {same_level_text(region)}",
        "command": found.command(*ends),
        "with_levels": best.level is not None,
        "several": any(one.arrangements > 1 for one in region.explanations),
        "explanations": [one for i, one in enumerate(region.explanations) if one.probability >= NEGLIGIBLE or i < 2],
    }


def _regions(found: Found) -> list[dict[str, Any]]:
    """The regions for report.js: where they are in both charts, their data, and the signals of their explanations."""
    data = found.signal.data
    whole = SiteRange(data, 0, data.n_columns, found.labels)
    y = less_offset(found.posterior, data).y.reshape(data.n_columns, -1)[:, 0]
    known = []
    for one in found.doubtful[:SHOWN_REGIONS]:
        start, stop = one.segment.start, one.segment.stop
        first, end = _around(data.starts, start, stop, data.n_columns)
        near = SiteRange(data, first, end, found.labels, REGION_BLOCKS)
        exact = SiteRange(data, first, end, found.labels)
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
    return known


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


# ---- Parameters, checks, files ---------------------------------------------------------------------------------------


def _parameters(found: Found, models: dict[str, Any]) -> dict[str, Any]:
    drawn = {}
    for i, entry in enumerate(list(entries(found.posterior.parameters))[:SHOWN_PARAMETERS]):
        edges, heights = histogram(entry.values)
        prior = prior_density(found.posterior, entry, edges)
        drawn[f"parameter{i}"] = parameter_chart(entry.name, edges, heights, prior)
    models |= drawn
    rows = [
        [one.name, one.mean, one.sd, one.low, one.high, _rhat(one.rhat), one.ess] for one in found.summary.parameters
    ]
    return {"rows": rows, "charts": list(drawn)}


def _rhat(rhat: float) -> str:
    return "" if np.isnan(rhat) else rhat_text(rhat)


def _checks(found: Found, models: dict[str, Any]) -> dict[str, Any]:
    posterior, summary = found.posterior, found.summary
    known: dict[str, Any] = {"plan": summary.run["plan"], "convergence": [], "exchange": {}, "evidence": ""}
    if not posterior.info.get("independent"):
        known["convergence"] = [
            [words(part.name), part.n, _rhat(part.rhat_worst), part.ess_worst, part.constant, part.worst_site]
            for part in summary.convergence
        ]
        models["trace"] = trace_chart(np.asarray(posterior.log_joint.values), "log joint density")
    if (health := summary.exchanges) is not None:
        known["exchange"] = {
            "exchange": health.move,
            "worst rejection": f"{health.worst_rejection:.3f}, rungs {health.worst_pair} and {health.worst_pair + 1}",
            "sites moved per exchange": f"{health.columns:.1f}",
            "exchanges that change a path": f"{health.changed:.0%}",
            **({} if health.round_trips is None else {"round trips": f"{health.round_trips:,}"}),
        }
        models["ladder"] = ladder_chart(np.asarray(posterior.exchange_stats["rejection"].values))
    if (evidence := summary.evidence) is not None:
        error = f" ± {evidence.standard_error:.2g}" if evidence.standard_error else " (exact)"
        known["evidence"] = f"{evidence.value:.3f}{error}"
    return known


def _files(found: Found) -> dict[str, Markup]:
    tables = {
        "segments.tsv": "segments with state, level, probability and best rival",
        "explanations.tsv": "all explanations of the segments that are not certain",
        "states.tsv": "every site, with the probability of every row",
        **({"parameters.tsv": "learned parameters"} if found.summary.parameters else {}),
        SCHEMA: "what every column means",
        "summary.json": "this page for programs",
        "figures/": "figures for print",
    }
    return {text: link(name, name) for name, text in tables.items()}


def _repeat(content: Mapping[str, Any], about: Mapping[str, Any], digest: str | None) -> dict[str, Any]:
    run = content["run"]
    known = {"seed": str(run["seed"]), "chains": run["chains"], "draws per chain": run["draws"], "time": time_text(run)}
    known |= {} if digest is None else {"SHA-256 of the data file": digest}
    known |= content.get("versions", {})
    return {"command": about.get("repeat"), "facts": known, "settings": about.get("settings")}
