"""What a run leaves in its directory: tables for other programs, a summary for machines, figures for people.

    states.tsv        one line per site: labels, value, mean level, most probable state, P(row on) for every row
    segments.tsv      runs of one most probable state, with its probability
    explanations.tsv  the rival states of every segment that is not certain, with their probabilities
    summary.json      the summary with settings, seed and versions
    figures/*.png

A state is written as one digit per row, row 0 first. A file appears whole or not at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from chiasma import plots
from chiasma.configurations import pieces
from chiasma.kernels.codes import unpack
from chiasma.models.emissions import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Floats
from chiasma.posterior import Posterior
from chiasma.segments import Segment
from chiasma.tables import Signal

# A segment whose most probable state has at least this mean probability has no rivals worth a line.
CERTAIN = 0.95
N_RIVALS = 5
DPI = 120


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A state of a segment and its mean probability over the sites."""

    state: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Region:
    """A segment with what may explain it, the most probable first."""

    segment: Segment
    explanations: tuple[Explanation, ...]

    @property
    def doubt(self) -> float:
        """Expected number of sites whose state is another one than the most probable."""
        return (self.segment.stop - self.segment.start) * (1 - self.segment.probability)


def uncertain_regions(posterior: Posterior) -> list[Region]:
    """Segments that are not certain, with their rival states; the largest doubt first."""
    doubtful = [segment for segment in posterior.segments() if segment.probability < CERTAIN]
    if not doubtful:
        return []
    which = np.full(posterior.codes.sizes["site"], -1)
    for i, segment in enumerate(doubtful):
        which[segment.start : segment.stop] = i
    sites = np.flatnonzero(which >= 0)
    shares: list[dict[int, int]] = [{} for _ in doubtful]
    for _, _, part in pieces(posterior.codes):
        pairs = np.stack([np.broadcast_to(which[sites], (len(part), len(sites))), part[:, sites].astype(np.int64)], -1)
        distinct, counts = np.unique(pairs.reshape(-1, 2), axis=0, return_counts=True)
        for (i, code), count in zip(distinct.tolist(), counts.tolist(), strict=True):
            shares[i][code] = shares[i].get(code, 0) + count
    n_draws = posterior.codes.sizes["chain"] * posterior.codes.sizes["draw"]
    regions = [_region(segment, share, n_draws, posterior.n_rows or 0) for segment, share in zip(doubtful, shares)]
    return sorted(regions, key=lambda region: -region.doubt)


def _region(segment: Segment, share: dict[int, int], n_draws: int, n_rows: int) -> Region:
    ranked = sorted(share.items(), key=lambda item: (-item[1], item[0]))[:N_RIVALS]
    total = n_draws * (segment.stop - segment.start)
    found = (Explanation(state=state_text(code, n_rows), probability=count / total) for code, count in ranked)
    return Region(segment=segment, explanations=tuple(found))


def state_text(code: int, n_rows: int) -> str:
    """One digit per row, row 0 first.

    >>> state_text(3, 4)
    '1100'
    """
    return "".join(str(x) for x in unpack(np.array([code]), n_rows)[:, 0])


def place(signal: Signal, start: int, stop: int) -> str:
    """Where sites start..stop-1 are, in the words of the data file."""
    name = "" if signal.chromosome is None else f"chromosome {signal.chromosome[start]}, "
    if signal.position is None:
        return f"{name}sites {start:,}-{stop - 1:,}"
    return f"{name}{signal.position[start]:,.0f}-{signal.position[stop - 1]:,.0f}"


def write_report(posterior: Posterior, signal: Signal, run: Path, summary: dict[str, Any]) -> list[Path]:
    """All files of a run; returns their paths."""
    regions = uncertain_regions(posterior)
    segments = posterior.segments()
    written = [
        _table(run / "states.tsv", state_rows(posterior, signal, segments)),
        _table(run / "segments.tsv", segment_rows(signal, segments)),
        _table(run / "explanations.tsv", explanation_rows(signal, regions)),
        _whole(run / "summary.json", json.dumps(finite(summary), indent=2) + "\n"),
    ]
    return written + write_figures(posterior, run / "figures", regions)


def state_rows(posterior: Posterior, signal: Signal, segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Lines of states.tsv."""
    marginals = posterior.marginals().values
    level = _level(posterior, marginals)
    text = [""] * signal.data.n_columns
    for segment in segments:
        text[segment.start : segment.stop] = ["".join(map(str, segment.states))] * (segment.stop - segment.start)
    values = signal.data.y.reshape(signal.data.n_columns, -1)
    names = ["value"] if values.shape[1] == 1 else [f"value_{d}" for d in range(values.shape[1])]
    return [
        {"site": t}
        | _labels(signal, t)
        | {name: _number(value) for name, value in zip(names, values[t], strict=True)}
        | ({} if level is None else {"level": f"{level[t]:.6g}"})
        | {"state": text[t]}
        | {f"p_{k}": f"{p:.6g}" for k, p in enumerate(marginals[:, t])}
        for t in range(signal.data.n_columns)
    ]


def segment_rows(signal: Signal, segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Lines of segments.tsv."""
    return [
        _span(signal, segment)
        | {
            "state": "".join(map(str, segment.states)),
            "rows_on": segment.rows_on,
            "probability": f"{segment.probability:.6g}",
            "least_probability": f"{segment.minimum:.6g}",
        }
        for segment in segments
    ]


def explanation_rows(signal: Signal, regions: Iterable[Region]) -> list[dict[str, Any]]:
    """Lines of explanations.tsv, in the order of the sites."""
    return [
        _span(signal, region.segment)
        | {"rank": rank, "state": one.state, "probability": f"{one.probability:.6g}"}
        for region in sorted(regions, key=lambda region: region.segment.start)
        for rank, one in enumerate(region.explanations, start=1)
    ]


def write_figures(posterior: Posterior, folder: Path, regions: Sequence[Region]) -> list[Path]:
    """The pictures that fit the run: a ladder only where there is one, rivals only where there are some."""
    pictures: dict[str, tuple[tuple[float, float], Callable[[Figure], object]]] = {
        "level": ((11, 3.6), lambda fig: plots.plot_level(posterior, ax=fig.subplots())),
        "marginals": (
            (11, 1 + 0.9 * (posterior.n_rows or 0)),
            lambda fig: plots.plot_marginals(posterior, fig=fig),
        ),
        "log-joint": ((8, 3.6), lambda fig: plots.plot_log_joint(posterior, ax=fig.subplots())),
    }
    if not isinstance(posterior.model, FactorialHMM) or not isinstance(posterior.model.emission, Additive):
        del pictures["level"]
    if len(posterior.betas) > 1:
        pictures["ladder"] = ((9, 3.6), lambda fig: plots.plot_ladder(posterior, fig=fig))
    if regions:
        segment = regions[0].segment
        row = _most_doubtful_row(posterior, segment)
        pictures["row"] = ((11, 3.6), lambda fig: plots.plot_row(posterior, row, ax=fig.subplots()))
        pictures["explanations"] = (
            (9, 4.5),
            lambda fig: plots.plot_configurations(
                posterior.top_configurations(segment.start, segment.stop, n=N_RIVALS), fig=fig
            ),
        )
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(folder / f"{name}.png", *picture) for name, picture in pictures.items()]


def finite(value: Any) -> Any:
    """The same with null for NaN and infinities, which JSON does not have.

    >>> finite({"rhat": float("nan"), "ess": [1.5]})
    {'rhat': None, 'ess': [1.5]}
    """
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [finite(item) for item in value]
    if isinstance(value, np.generic):
        return finite(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _most_doubtful_row(posterior: Posterior, segment: Segment) -> int:
    share = posterior.marginals().values[:, segment.start : segment.stop]
    return int(np.argmax((share * (1 - share)).sum(axis=1)))


def _level(posterior: Posterior, marginals: Floats) -> Floats | None:
    model = posterior.model
    if not isinstance(model, FactorialHMM) or not isinstance(model.emission, Additive):
        return None
    return marginals.T @ model.emission.weights if model.emission.weights.ndim == 1 else None


def _labels(signal: Signal, t: int) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    if signal.chromosome is not None:
        labels["chromosome"] = signal.chromosome[t]
    if signal.position is not None:
        labels["position"] = _number(signal.position[t])
    return labels


def _span(signal: Signal, segment: Segment) -> dict[str, Any]:
    """First and last site, both included, with their labels."""
    first, last = segment.start, segment.stop - 1
    span: dict[str, Any] = {} if signal.chromosome is None else {"chromosome": signal.chromosome[first]}
    if signal.position is not None:
        span |= {"first_position": _number(signal.position[first]), "last_position": _number(signal.position[last])}
    return span | {"first_site": first, "last_site": last, "n_sites": segment.stop - segment.start}


def _number(value: float) -> str:
    if math.isnan(value):
        return "NA"
    return str(int(value)) if value == int(value) else repr(float(value))


def _table(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    lines = ["\t".join(rows[0])] if rows else []
    lines += ["\t".join(map(str, row.values())) for row in rows]
    return _whole(path, "\n".join(lines) + "\n")


def _whole(path: Path, text: str) -> Path:
    aside = path.with_name(path.name + ".partial")
    aside.write_text(text, encoding="utf-8")
    return aside.replace(path)


def _draw(path: Path, size: tuple[float, float], draw: Callable[[Figure], object]) -> Path:
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    aside = path.with_name(path.name + ".partial")
    figure.savefig(aside, dpi=DPI, format="png")
    return aside.replace(path)
