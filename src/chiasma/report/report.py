"""The report of a run, in its directory: a page for people, tables and a summary for programs, and figures.

    report.html       all of it on one page, with charts; one file that needs no network (`report_page`)
    states.tsv        one line per site: labels, value, level, most probable state, probabilities of every row
    segments.tsv      runs of one most probable state, with its probability and its best rival
    explanations.tsv  the rival states of every segment that is not certain, with their probabilities
    parameters.tsv    learned parameters, if any: means, intervals, R-hat and effective sample sizes
    datapackage.json  what every column of the tables means (`run_tables`)
    summary.json      the summary with settings, seed and versions
    figures/*.png     and figures/diagnostics/*.png, of how the run went

All files are written atomically.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chiasma import atomic, plots
from chiasma.extras import extra
from chiasma.io.options import flags
from chiasma.io.regions import region_of
from chiasma.io.signal import Signal
from chiasma.io.times import as_zone
from chiasma.report.run_tables import (
    SCHEMA,
    explanation_columns,
    parameter_columns,
    segment_columns,
    state_columns,
    write_tables,
)
from chiasma.results.configurations import Configuration
from chiasma.results.expected import Band, expected_signal, has_levels
from chiasma.results.findings import on_command_line, site_text
from chiasma.results.posterior import Posterior
from chiasma.results.rivals import N_RIVALS, Region, explain, uncertain
from chiasma.results.row_groups import shown_rows
from chiasma.results.summary import Summary

with extra("report"):
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from chiasma.report.figures.parameters import MOST_PAIRS, pairs_size, parameters_size
    from chiasma.report.figures.paths import configurations_size, marginals_size
    from chiasma.report.figures.sites import Labels, chromosome

DPI = 120
WIDE = (11.0, 3.6)
PAGE = "report.html"
# A report that takes more seconds than this says what took the time.
LONG = 2.0
# Version of the layout of summary.json: raised when a key changes its meaning or goes.
SUMMARY_VERSION = 1

Picture = tuple[tuple[float, float], Callable[[Figure], object]]
Say = Callable[[str], None]
# Sites that are shown on either side of a region, at least.
CONTEXT = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What the files of a report are written from. regions: every segment; doubtful: those that are not certain."""

    posterior: Posterior
    signal: Signal
    labels: Labels
    summary: Summary
    regions: tuple[Region, ...]
    doubtful: tuple[Region, ...]
    band: Band | None

    def where(self, start: int, stop: int) -> str:
        """The location of sites start..stop-1 in words, and how long of it nothing was measured."""
        place, gap = place_text(self.labels, self.signal, start, stop), self.signal.gap_text(start, stop)
        return f"{place} ({gap})" if gap else place

    def command(self, start: int, stop: int) -> str:
        """The command that shows sites start..stop-1, to be copied."""
        return f"chiasma show RUN --region {shlex.quote(region_of(self.signal, start, stop))}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written: the summary, the content of summary.json, the uncertain segments, and the names of the files,
    the page first where there is one.
    """

    summary: Summary
    content: dict[str, Any]
    n_segments: int
    regions: tuple[Region, ...]
    files: tuple[str, ...]

    @property
    def has_page(self) -> bool:
        return PAGE in self.files


def region_text(signal: Signal, start: int, stop: int) -> str:
    """The location of sites start..stop-1, in a form that --region accepts."""
    sites = f"{start}-{stop - 1}"
    if signal.chromosome is None:
        return sites
    if signal.position is None or signal.ends is None:
        return f"{signal.chromosome[start]} (sites {sites})"
    if signal.zone is not None:
        return f"{signal.chromosome[start]}:{signal.range_text(start, stop - 1)}"
    # The end itself may be where the next site begins.
    end = signal.ends[stop - 1] - 1
    return f"{signal.chromosome[start]}:{signal.position[start]:.0f}-{max(end, signal.position[stop - 1]):.0f}"


def place_text(labels: Labels, signal: Signal, start: int, stop: int) -> str:
    """The location of sites start..stop-1 in words: chromosome 16, 2.1–90.0 Mb; time stamps as --region takes them."""
    if signal.zone is not None:
        where = signal.range_text(start, stop - 1)
    elif labels.position is None or labels.end is None:
        where = f"site {start}" if stop == start + 1 else f"sites {start}–{stop - 1}"
    else:
        ends = (labels.position[start] / labels.scale, labels.end[stop - 1] / labels.scale)
        where = "–".join(f"{end:,.1f}" if labels.unit else f"{end:,.15g}" for end in ends)
        where = f"{where} {labels.unit}" if labels.unit else f"positions {where}"
    return where if signal.chromosome is None else f"{chromosome(signal.chromosome[start])}, {where}"


def labels_of(signal: Signal) -> Labels:
    """The labels of the sites for figures."""
    names = None if signal.chromosome is None else tuple(signal.chromosome[t] for t in signal.data.starts)
    return Labels(
        names=names,
        position=signal.position,
        end=signal.ends,
        value=signal.value or "signal",
        axis=signal.axis or "position",
        zone=None if signal.zone is None else as_zone(signal.zone),
    )


def find(posterior: Posterior, signal: Signal) -> Found:
    """Compute once what all files of the report need."""
    regions = explain(posterior, posterior.segments())
    return Found(
        posterior=posterior,
        signal=signal,
        labels=labels_of(signal),
        summary=for_command_line(posterior.summary(), signal),
        regions=tuple(regions),
        doubtful=tuple(uncertain(regions)),
        band=expected_signal(posterior) if has_levels(posterior) else None,
    )


def for_command_line(summary: Summary, signal: Signal) -> Summary:
    """The summary, its findings written with options, and sites with their positions."""

    def place(first: int, last: int) -> str:
        sites = site_text(first, last)
        return sites if signal.position is None else f"{sites} ({signal.site_text(first, last)})"

    known = flags()
    return replace(summary, say=lambda finding: on_command_line(finding, known, place), place=place)


def write_report(
    posterior: Posterior,
    signal: Signal,
    run: Path,
    about: dict[str, Any],
    say: Say = lambda text: None,
    *,
    tables_only: bool = False,
) -> Report:
    """Write all files of the report.

    about : first entries of summary.json, before the summary; ready for JSON. Its "settings", "repeat", "resume" and
    "name" are for the page; "draws_wanted" says whether the run is complete. say : called with what was written, and
    how long it took. tables_only : leave out the page and the figures, which take most of the time and space.
    """
    clock = Clock(say)
    atomic.tidy(run, run / "figures", run / "figures" / "diagnostics")
    page: dict[str, Any] = {key: about[key] for key in ("settings", "repeat", "resume", "name") if key in about}
    found = find(posterior, signal)
    clock.lap("segments and checks")
    content: dict[str, Any] = {"summary_version": SUMMARY_VERSION}
    content |= {key: value for key, value in about.items() if key not in page}
    if (wanted := about.get("draws_wanted")) is not None:
        n_draws = posterior.draws.sizes["draw"]
        content["complete"] = n_draws >= wanted
        if n_draws < wanted:
            page["interrupted"] = f"{interrupted_text(n_draws, wanted)}; {about.get('resume', 'resume it')}."
    content |= {"versions": dict(posterior.info.get("versions", {}))}
    content |= found.summary.to_dict() | {"segments": len(found.regions), "uncertain_segments": len(found.doubtful)}
    tables = {
        "states": state_columns(posterior, signal, found.regions, found.band),
        "segments": segment_columns(posterior, signal, found.regions),
        "explanations": explanation_columns(signal, found.doubtful, found.regions[0].explanations[0].level is not None),
    }
    if found.summary.parameters:
        tables["parameters"] = parameter_columns(found.summary)
    write_tables(run, tables)
    atomic.write_text(run / "summary.json", json.dumps(content, indent=2) + "\n")
    clock.lap("tables")
    if not tables_only:
        from chiasma.report.report_page import write_page  # not needed for tables, and slow to import

        write_page(found, run, content, page)
        clock.lap(PAGE)
        write_figures(found, run / "figures")
        clock.lap("figures")
    elif (run / PAGE).exists():
        say(f"{PAGE} and figures/ come from an earlier report and may show fewer draws")
    clock.tell()
    return Report(
        summary=found.summary,
        content=content,
        n_segments=len(found.regions),
        regions=found.doubtful,
        files=(
            *([] if tables_only else [PAGE]),
            *(f"{name}.tsv" for name in tables),
            SCHEMA,
            "summary.json",
            *([] if tables_only else ["figures/"]),
        ),
    )


def interrupted_text(n_draws: int, wanted: int) -> str:
    """How far a run came that was interrupted."""
    return f"{n_draws:,} of {wanted:,} draws per chain"


class Clock:
    """How long each part of the report took; told where it took long."""

    def __init__(self, say: Say):
        self.say = say
        self.parts: list[str] = []
        self.began = self.start = time.perf_counter()

    def lap(self, part: str) -> None:
        now = time.perf_counter()
        self.parts.append(f"{part} {now - self.began:.1f} s")
        self.began = now

    def tell(self) -> None:
        if self.began - self.start > LONG:
            self.say(f"the report took {', '.join(self.parts)}")


def write_region(
    posterior: Posterior, signal: Signal, start: int, stop: int, folder: Path, *, tables_only: bool = False
) -> tuple[list[Configuration], list[Path]]:
    """The most probable configurations of sites start..stop-1, and figures of them with the data, or none."""
    found = posterior.top_configurations(start, stop, n=N_RIVALS)
    if tables_only:
        return found, []
    labels = labels_of(signal)
    pictures = {"configurations": _configurations(posterior, found, labels)}
    if has_levels(posterior):
        options: dict[str, Any] = {"start": start, "stop": stop, "labels": labels}
        pictures["level"] = (WIDE, lambda fig: plots.plot_level(posterior, ax=fig.subplots(), **options))
    return found, [_draw(folder / f"sites-{start}-{stop - 1}-{name}.png", *one) for name, one in pictures.items()]


def write_figures(found: Found, folder: Path) -> list[Path]:
    """Write the figures that apply to the run: the ladder only if there is one, rivals only if there are any."""
    posterior, labels = found.posterior, found.labels
    pictures: dict[str, Picture] = {}
    if found.band is not None:
        show = partial(plots.plot_level, posterior, labels=labels, band=found.band)
        pictures["level"] = (WIDE, lambda fig: show(ax=fig.subplots()))
    if found.doubtful:
        pictures["explanations"] = _rivals(found, found.doubtful[0])
    pictures["marginals"] = (
        marginals_size(posterior),
        lambda fig: plots.plot_marginals(posterior, fig=fig, labels=labels),
    )
    low = (11.0, 1.2 + 0.3 * len(shown_rows(posterior)))
    pictures["states"] = (low, lambda fig: plots.plot_states(posterior, ax=fig.subplots(), labels=labels))
    n_values = sum(variable[0, 0].size for variable in posterior.parameters.values())
    if n_values:
        pictures["parameters"] = (parameters_size(n_values), lambda fig: plots.plot_parameters(posterior, fig=fig))
    pictures |= {f"diagnostics/{name}": picture for name, picture in _diagnostics(found, n_values).items()}
    return [_draw(folder / f"{name}.png", *picture) for name, picture in pictures.items()]


def _diagnostics(found: Found, n_values: int) -> dict[str, Picture]:
    """Figures of how the run went; independent draws have nothing to show."""
    posterior, labels = found.posterior, found.labels
    pictures: dict[str, Picture] = {}
    if 2 <= n_values <= MOST_PAIRS:
        pictures["pairs"] = (pairs_size(n_values), lambda fig: plots.plot_pairs(posterior, fig=fig))
    if posterior.info.get("independent"):
        return pictures
    pictures["log-joint"] = (WIDE, lambda fig: plots.plot_log_joint(posterior, ax=fig.subplots()))
    if len(posterior.betas) > 1 and int(posterior.exchange_stats["moves"].sum()):
        pictures["ladder"] = (WIDE, lambda fig: plots.plot_ladder(posterior, fig=fig))
    row = _most_doubtful_row(posterior, found.doubtful[0]) if found.doubtful else None
    if row is not None:
        pictures["row"] = (WIDE, lambda fig: plots.plot_row(posterior, row, ax=fig.subplots(), labels=labels))
    return pictures


def _rivals(found: Found, region: Region) -> Picture:
    """The explanations of a region below its data, with the most probable states of the sites around it."""
    segment, starts = region.segment, found.signal.data.starts
    around = max(CONTEXT, segment.n_sites // 4)
    sequence = int(np.searchsorted(starts, segment.start, side="right"))
    end = starts[sequence] if sequence < len(starts) else found.signal.data.n_columns
    first, last = max(int(starts[sequence - 1]), segment.start - around), min(int(end), segment.stop + around)
    modes = np.repeat([one.segment.states for one in found.regions], [one.segment.n_sites for one in found.regions], 0)
    shown = region.serious if len(region.serious) > 1 else region.explanations[:2]
    listed = []
    for one in shown:
        states = modes[first:last].T.copy()
        states[:, segment.start - first : segment.stop - first] = np.array(one.states)[:, None]
        listed.append((one.probability, states, first))
    # A configuration is a whole course; these are states, each with its share of the sites.
    title = "States between the lines; rivals may hold in part"
    return _configurations(found.posterior, listed, found.labels, title, (segment.start, segment.stop))


def _configurations(
    posterior: Posterior,
    found: Sequence[Any],
    labels: Labels,
    title: str | None = None,
    focus: tuple[int, int] | None = None,
) -> Picture:
    size = configurations_size(len(found), len(shown_rows(posterior, together=False)), has_levels(posterior))
    show = partial(plots.plot_configurations, found, posterior=posterior, labels=labels, title=title, focus=focus)
    return (9.0, size[1]), lambda fig: show(fig=fig)


def _most_doubtful_row(posterior: Posterior, region: Region) -> int | None:
    """Of the distinguishable rows; None without any."""
    share = posterior.marginals().values[:, region.segment.start : region.segment.stop]
    doubt = (share * (1 - share)).sum(axis=1)
    doubt[[k for group in posterior.merging.groups for k in group]] = 0.0
    return int(doubt.argmax()) if doubt.any() else None


def _draw(path: Path, size: tuple[float, float], draw: Callable[[Figure], object]) -> Path:
    figure = Figure(figsize=size, layout="constrained")
    path.parent.mkdir(parents=True, exist_ok=True)
    # A dollar sign in a name from a data file begins no formula.
    with rc_context({"text.parse_math": False}), atomic.whole_file(path) as partial_file:
        draw(figure)
        figure.savefig(partial_file, dpi=DPI, format="png")
    return path
