"""report.html of a recording: the verdict, the trace with linked zoom down to single samples, dwell times, estimates.

The page holds the samples as 16-bit integers and draws them on a canvas; recordings of more than a million samples are
thinned to pairs of the smallest and the largest value.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import chiasma
from chiasma import atomic
from chiasma.channels.analysis import ChannelAnswer
from chiasma.channels.exports import PAGE
from chiasma.channels.kinetics import BINS_PER_DECADE, log_bins
from chiasma.channels.summary_text import number_in_words, verdict_in_words
from chiasma.extras import extra
from chiasma.types import Floats

with extra("channels"):
    from chiasma.report.page import Verdict, judged, render

MOST_SAMPLES = 1_000_000
TEMPLATE = Path(__file__).parent / "templates" / "channels.html"
# Size of a histogram, in pixels.
WIDTH, HEIGHT = 340, 200


@dataclass(frozen=True)
class Histogram:
    """Dwell times with k open channels as paths of an SVG: the outline of the bars, and the fitted density."""

    k: int
    n: int
    bars: str
    curve: str
    ticks: tuple[tuple[float, str], ...]
    highest: int


def write_page(answer: ChannelAnswer, folder: Path, command: str, facts: Mapping[str, str]) -> None:
    """command, facts : for whoever repeats the analysis: the seed and the digest of the recording."""
    atomic.write_text(folder / PAGE, page(answer, command, facts))


def page(answer: ChannelAnswer, command: str = "", facts: Mapping[str, str] | None = None) -> str:
    """The page as text."""
    return render(
        TEMPLATE,
        title=f"{answer.recording.name}: ion channels",
        lead=lead(answer),
        answers=verdicts(answer),
        answer=answer,
        trace=trace(answer),
        histograms=histograms(answer),
        probabilities=[
            (
                fit.n_channels,
                f"{answer.probabilities[fit.n_channels]:.3f}" if fit.counts else "does not count",
                f"{fit.log_evidence:,.1f}",
            )
            for fit in answer.fits
        ],
        estimates=[
            (f"{one.name} [{one.unit}]" if one.unit else one.name, one.value, one.low, one.high)
            for one in answer.estimates
        ],
        about={
            "command": command,
            "settings": None,
            "facts": {"chiasma": chiasma.__version__, "scheme": str(answer.scheme), "hum": answer.mains.text}
            | dict(facts or {}),
        },
        width=WIDTH,
        height=HEIGHT,
    )


def lead(answer: ChannelAnswer) -> str:
    recording = answer.recording
    return f"{len(recording.current):,} samples, {recording.seconds:.4g} s, {', '.join(recording.notes)}"


def verdicts(answer: ChannelAnswer) -> list[Verdict]:
    """What to read first."""
    trust, *why = judged(answer.findings, verdict_in_words(answer))
    # The headline has the first reason for limited trust already.
    return [trust, Verdict(tone="note", answer=number_in_words(answer)), *why[answer.trust != "good" :]]


# ---- The trace ------------------------------------------------------------------------------------------------------


def trace(answer: ChannelAnswer) -> dict[str, Any]:
    """What the script draws: samples, offset and idealised level on one scale of 16 bits, and probabilities."""
    recording, offset = answer.recording, answer.offset
    y = recording.current
    chosen = thinned(y)
    low, high = float(np.nanmin(y)), float(np.nanmax(y))
    pad = 0.05 * (high - low) or 1.0
    low, high = low - pad, high + pad

    def packed(values: Floats) -> str:
        scaled = np.clip(np.round((values - low) / (high - low) * 65_000), 0, 65_000)
        return _base64(np.where(np.isnan(values), 65_535, scaled).astype("<u2"))

    return {
        "n": len(chosen),
        "low": low,
        "high": high,
        "step": recording.step * len(y) / len(chosen),
        "unit": recording.unit,
        "thinned": len(chosen) < len(y),
        "y": packed(y[chosen]),
        "offset": packed(offset[chosen]),
        "level": packed(answer.level[chosen]),
        "open": _base64(answer.n_open[chosen].astype("u1")),
        "starts": np.searchsorted(chosen, recording.starts).tolist(),
        "probability": _base64(np.round(answer.probability[chosen] * 255).astype("u1")),
    }


def thinned(y: Floats) -> npt.NDArray[np.int64]:
    """Places of the samples that are drawn: all, or the smallest and the largest of each piece.

    >>> len(thinned(np.zeros(10))), len(thinned(np.zeros(2_500_000))) <= MOST_SAMPLES
    (10, True)
    """
    if len(y) <= MOST_SAMPLES:
        return np.arange(len(y))
    size = -(-2 * len(y) // MOST_SAMPLES)
    n = len(y) // size
    pieces = np.nan_to_num(y[: n * size]).reshape(n, size)
    both = np.stack([pieces.argmin(axis=1), pieces.argmax(axis=1)], axis=1)
    return np.asarray((np.sort(both, axis=1) + size * np.arange(n)[:, None]).ravel())


def _base64(values: npt.NDArray[Any]) -> str:
    return b64encode(values.tobytes()).decode("ascii")


# ---- Dwell times ----------------------------------------------------------------------------------------------------


def histograms(answer: ChannelAnswer) -> list[Histogram]:
    """For every number of open channels with at least a few whole dwells."""
    if answer.ensemble is None:
        return []
    found = []
    for k in range(answer.n_channels + 1):
        dwells = answer.dwells.of_level(k)
        if len(dwells) >= 5:
            found.append(_histogram(answer, k, dwells))
    return found


def _histogram(answer: ChannelAnswer, k: int, dwells: Floats) -> Histogram:
    """Logarithmic bins, square-root ordinate.

    Dwells last whole samples, so short bins are wider than the others: counts are those of a bin of the usual width.
    """
    assert answer.ensemble is not None
    step = answer.recording.step
    edges = log_bins(step, float(dwells.max()))
    usual = np.diff(np.log10(edges)) * BINS_PER_DECADE
    counts = np.histogram(dwells, edges)[0] / usual
    # Only dwells of half a step and more can be seen: what is expected among those that were.
    longer = answer.ensemble.survivor(k, edges)
    expected = len(dwells) * -np.diff(longer) / max(longer[0] - longer[-1], 1e-12) / usual
    top = np.sqrt(max(counts.max(), expected.max(), 1.0))
    x = (np.log10(edges) - np.log10(edges[0])) / np.log10(edges[-1] / edges[0]) * WIDTH
    heights = HEIGHT * (1 - np.sqrt(counts) / top)
    bars = f"M{x[0]:.1f},{HEIGHT}" + "".join(
        f"L{a:.1f},{h:.1f}L{b:.1f},{h:.1f}" for a, b, h in zip(x[:-1], x[1:], heights, strict=True)
    )
    middles = (x[:-1] + x[1:]) / 2
    places = HEIGHT * (1 - np.sqrt(expected) / top)
    curve = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(middles, places, strict=True))
    decades = range(int(np.ceil(np.log10(edges[0]))), int(np.floor(np.log10(edges[-1]))) + 1)
    scale = WIDTH / np.log10(edges[-1] / edges[0])
    ticks = tuple((float((d - np.log10(edges[0])) * scale), _seconds(10.0**d)) for d in decades)
    return Histogram(k, len(dwells), f"{bars}L{x[-1]:.1f},{HEIGHT}Z", curve, ticks, round(counts.max()))


def _seconds(value: float) -> str:
    """
    >>> _seconds(0.001), _seconds(1.0)
    ('1 ms', '1 s')
    """
    return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms"
