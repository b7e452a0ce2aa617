"""The report of a run, in its directory: tables, a summary in JSON, and figures.

    states.tsv        one line per site: labels, value, mean level, most probable state, P(row on) for every row
    segments.tsv      runs of one most probable state, with its probability
    explanations.tsv  the rival states of every segment that is not certain, with their probabilities
    parameters.tsv    learned parameters, if any: means, intervals, R-hat and effective sample sizes
    summary.json      the summary with settings, seed and versions
    figures/*.png

A state is written as one digit per row, row 0 first. All files are written atomically.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from chiasma import atomic, plots
from chiasma.files.tables import Signal, write_table
from chiasma.kernels.layout import Layout
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.plots.parameters import MOST_PAIRS, pairs_size, parameters_size
from chiasma.results.configurations import Configuration, code_text, pieces
from chiasma.results.posterior import Posterior
from chiasma.results.segments import Segment
from chiasma.results.summary import Summary
from chiasma.types import Floats

# A segment counts as certain if its most probable state has at least this mean probability.
CERTAIN = 0.95
N_RIVALS = 5
DPI = 120

WIDE, TALL = (11.0, 3.6), (9.0, 4.5)

Picture = tuple[tuple[float, float], Callable[[Figure], object]]
NamedLines = tuple[list[str], Iterable[Iterable[Any]]]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A state of a segment and its mean probability over the sites."""

    state: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Region:
    """A segment with the states that may explain it, the most probable first."""

    segment: Segment
    explanations: tuple[Explanation, ...]

    @property
    def doubt(self) -> float:
        """Expected number of sites whose state is not the most probable one."""
        return (self.segment.stop - self.segment.start) * (1 - self.segment.probability)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written: the summary, the content of summary.json, the uncertain segments, and the names of
    the files.
    """

    summary: Summary
    content: dict[str, Any]
    n_segments: int
    regions: tuple[Region, ...]
    files: tuple[str, ...]


def uncertain_regions(posterior: Posterior, segments: Iterable[Segment]) -> list[Region]:
    """Segments that are not certain, with their rival states; the most doubtful first."""
    doubtful = [segment for segment in segments if segment.probability < CERTAIN]
    if not doubtful:
        return []
    shares: list[Counter[int]] = [Counter() for _ in doubtful]
    for _, _, part in pieces(posterior.codes):
        for segment, share in zip(doubtful, shares, strict=True):
            codes, counts = np.unique(part[:, segment.start : segment.stop], return_counts=True)
            share.update(dict(zip(codes.tolist(), counts.tolist(), strict=True)))
    n_draws = posterior.codes.sizes["chain"] * posterior.codes.sizes["draw"]
    regions = [_region(*found, n_draws, posterior.layout) for found in zip(doubtful, shares, strict=True)]
    return sorted(regions, key=lambda region: -region.doubt)


def _region(segment: Segment, share: Counter[int], n_draws: int, layout: Layout) -> Region:
    ranked = sorted(share.items(), key=lambda item: (-item[1], item[0]))[:N_RIVALS]
    total = n_draws * (segment.stop - segment.start)
    found = (Explanation(state=code_text(code, layout), probability=count / total) for code, count in ranked)
    return Region(segment=segment, explanations=tuple(found))


def region_text(signal: Signal, start: int, stop: int) -> str:
    """The location of sites start..stop-1, in a form that --region accepts."""
    sites = f"{start}-{stop - 1}"
    if signal.chromosome is None:
        return sites
    if signal.position is None:
        return f"{signal.chromosome[start]} (sites {sites})"
    return f"{signal.chromosome[start]}:{signal.position[start]:.0f}-{signal.position[stop - 1]:.0f}"


def write_report(posterior: Posterior, signal: Signal, run: Path, about: dict[str, Any]) -> Report:
    """Write all files of the report. about: first entries of summary.json, before the summary; ready for JSON."""
    segments = posterior.segments()
    regions = uncertain_regions(posterior, segments)
    summary = posterior.summary()
    content = about | summary.to_dict() | {"segments": len(segments), "uncertain_segments": len(regions)}
    tables = {
        "states.tsv": state_table(posterior, signal, segments),
        "segments.tsv": segment_table(signal, segments),
        "explanations.tsv": explanation_table(signal, regions),
    }
    if summary.parameters:
        tables["parameters.tsv"] = parameter_table(summary)
    for name, table in tables.items():
        write_table(run / name, *table)
    atomic.write_text(run / "summary.json", json.dumps(content, indent=2) + "\n")
    write_figures(posterior, run / "figures", regions)
    return Report(
        summary=summary,
        content=content,
        n_segments=len(segments),
        regions=tuple(regions),
        files=(*tables, "summary.json"),
    )


def state_table(posterior: Posterior, signal: Signal, segments: Iterable[Segment]) -> NamedLines:
    """Column names and lines of states.tsv."""
    marginals = posterior.marginals().values
    values = signal.data.y.reshape(signal.data.n_columns, -1).T
    columns: dict[str, Iterable[Any]] = {"site": range(signal.data.n_columns)}
    columns |= _labels(signal)
    columns |= {"value" if len(values) == 1 else f"value_{d}": y for d, y in enumerate(values)}
    level = _level(posterior, marginals)
    if level is not None:
        columns["level"] = _rounded(level)
    columns["state"] = [segment.state for segment in segments for _ in range(segment.start, segment.stop)]
    names = posterior.info.get("row_names") or range(len(marginals))
    columns |= {f"p_{name}": _rounded(row) for name, row in zip(names, marginals, strict=True)}
    return list(columns), zip(*columns.values(), strict=True)


def segment_table(signal: Signal, segments: Iterable[Segment]) -> NamedLines:
    """Column names and lines of segments.tsv."""
    names = [*_span_names(signal), "state", "rows_on", "probability", "least_probability"]
    rows = (
        [*_span(signal, one), one.state, one.rows_on, *_rounded([one.probability, one.minimum])] for one in segments
    )
    return names, rows


def explanation_table(signal: Signal, regions: Iterable[Region]) -> NamedLines:
    """Column names and lines of explanations.tsv, in the order of the sites."""
    names = [*_span_names(signal), "rank", "state", "probability"]
    rows = (
        [*_span(signal, region.segment), rank, one.state, *_rounded([one.probability])]
        for region in sorted(regions, key=lambda region: region.segment.start)
        for rank, one in enumerate(region.explanations, start=1)
    )
    return names, rows


def parameter_table(summary: Summary) -> NamedLines:
    """Column names and lines of parameters.tsv: one line for every learned value."""
    names = ["parameter", "mean", "sd", "q05", "q95", "rhat", "ess"]
    rows = (
        [one.name, *_rounded([one.mean, one.sd, one.low, one.high, one.rhat, one.ess])] for one in summary.parameters
    )
    return names, rows


def write_region(posterior: Posterior, start: int, stop: int, folder: Path) -> tuple[list[Configuration], list[Path]]:
    """The most probable patterns of sites start..stop-1, and two figures of them."""
    found = posterior.top_configurations(start, stop, n=N_RIVALS)
    pictures: dict[str, Picture] = {"patterns": (TALL, lambda fig: plots.plot_configurations(found, fig=fig))}
    if _is_additive(posterior):
        pictures["level"] = (WIDE, lambda fig: plots.plot_level(posterior, ax=fig.subplots(), start=start, stop=stop))
    return found, [_draw(folder / f"sites-{start}-{stop - 1}-{name}.png", *one) for name, one in pictures.items()]


def write_figures(posterior: Posterior, folder: Path, regions: Sequence[Region]) -> list[Path]:
    """Write the figures that apply to the run: the ladder only if there is one, rivals only if there are any."""
    tall = (11.0, 1 + 0.9 * (posterior.n_rows or 0))
    pictures: dict[str, Picture] = {
        "marginals": (tall, lambda fig: plots.plot_marginals(posterior, fig=fig)),
        "log-joint": (WIDE, lambda fig: plots.plot_log_joint(posterior, ax=fig.subplots())),
    }
    if _is_additive(posterior):
        pictures["level"] = (WIDE, lambda fig: plots.plot_level(posterior, ax=fig.subplots()))
    n_values = sum(variable[0, 0].size for variable in posterior.parameters.values())
    if n_values:
        pictures["parameters"] = (
            parameters_size(n_values),
            lambda fig: plots.plot_parameters(posterior, fig=fig),
        )
    if 2 <= n_values <= MOST_PAIRS:
        pictures["pairs"] = (pairs_size(n_values), lambda fig: plots.plot_pairs(posterior, fig=fig))
    if len(posterior.betas) > 1:
        pictures["ladder"] = (WIDE, lambda fig: plots.plot_ladder(posterior, fig=fig))
    if regions:
        start, stop = regions[0].segment.start, regions[0].segment.stop
        row = _most_doubtful_row(posterior, start, stop)
        found = posterior.top_configurations(start, stop, n=N_RIVALS)
        pictures["row"] = (WIDE, lambda fig: plots.plot_row(posterior, row, ax=fig.subplots()))
        pictures["explanations"] = (TALL, lambda fig: plots.plot_configurations(found, fig=fig))
    return [_draw(folder / f"{name}.png", *picture) for name, picture in pictures.items()]


def _is_additive(posterior: Posterior) -> bool:
    return isinstance(posterior.model, FactorialHMM) and isinstance(posterior.model.emission, Additive)


def _most_doubtful_row(posterior: Posterior, start: int, stop: int) -> int:
    share = posterior.marginals().values[:, start:stop]
    return int(np.argmax((share * (1 - share)).sum(axis=1)))


def _level(posterior: Posterior, marginals: Floats) -> Floats | None:
    model = posterior.model
    if not isinstance(model, FactorialHMM) or not isinstance(model.emission, Additive):
        return None
    if model.emission.n_channels is not None:
        return None
    if "weights" in posterior.parameters or model.rows is not None:
        return posterior.levels().mean(("chain", "draw")).values
    return marginals.T @ model.emission.weights


def _labels(signal: Signal) -> dict[str, Sequence[Any] | Floats]:
    """The site labels of the data file, by name."""
    labels = {"chromosome": signal.chromosome, "position": signal.position}
    return {name: label for name, label in labels.items() if label is not None}


def _span_names(signal: Signal) -> list[str]:
    spans = {"chromosome": ["chromosome"], "position": ["first_position", "last_position"]}
    return [name for label in _labels(signal) for name in spans[label]] + ["first_site", "last_site", "n_sites"]


def _span(signal: Signal, segment: Segment) -> list[Any]:
    """Labels and numbers of the first and the last site, in the order of _span_names."""
    first, last = segment.start, segment.stop - 1
    chromosome = [] if signal.chromosome is None else [signal.chromosome[first]]
    position = [] if signal.position is None else [signal.position[first], signal.position[last]]
    return [*chromosome, *position, first, last, segment.stop - segment.start]


def _rounded(values: Iterable[float]) -> list[str]:
    return ["NA" if np.isnan(value) else f"{value:.6g}" for value in values]


def _draw(path: Path, size: tuple[float, float], draw: Callable[[Figure], object]) -> Path:
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.whole_file(path) as partial:
        figure.savefig(partial, dpi=DPI, format="png")
    return path
