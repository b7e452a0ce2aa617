"""Mains hum: whether a signal has a line of 50 or 60 Hz, and which harmonics, by its periodogram."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.models.observations import Observations
from chiasma.types import Floats

# A line is the highest value within LINE Hz of a frequency. It counts if it is this many times the median within
# BACKGROUND Hz: of noise, fewer than one in a thousand does.
LINE, BACKGROUND, TIMES = 0.6, (2.0, 15.0), 15.0
MOST_HARMONICS = 9
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}


class Mains(NamedTuple):
    """frequency in cycles per unit of time; None: no line was found."""

    frequency: float | None
    harmonics: list[int]
    text: str


def find_mains(data: Observations) -> Mains:
    """The stronger of the lines at 50 and 60 Hz, and its harmonics.

    >>> t = np.arange(20_000) * 1e-4
    >>> y = np.random.default_rng(1).normal(size=20_000) + 0.5 * np.sin(2 * np.pi * 50 * t)
    >>> find_mains(Observations(y, step=1e-4, unit="s")).text
    'mains: 50 Hz, harmonics 1'
    """
    if data.step is None or data.unit not in SECONDS:
        raise InvalidInput(
            f"mains frequencies are in Hz, got a signal without a known unit of time ({data.unit!r}); give "
            "ch.Observations(y, step=1e-4, unit='s'), or the frequency in cycles per column"
        )
    unit = SECONDS[data.unit]
    y = np.where(np.isnan(data.y), np.nanmean(data.y) if not data.missing.all() else 0.0, data.y)
    power = np.asarray(np.abs(np.fft.rfft(y - y.mean())) ** 2, float)
    hertz = np.asarray(np.fft.rfftfreq(len(y), data.step * unit), float)
    found = {}
    for base in (50.0, 60.0):
        ratios = [_line(power, hertz, base * h) for h in range(1, MOST_HARMONICS + 1)]
        found[base] = ratios, [h for h, ratio in enumerate(ratios, 1) if ratio > TIMES]
    base = max(found, key=lambda own: max(found[own][0]))
    _, harmonics = found[base]
    if not harmonics:
        return Mains(None, [], "mains: no line of 50 or 60 Hz was found")
    return Mains(base * unit, harmonics, f"mains: {base:g} Hz, harmonics {', '.join(map(str, harmonics))}")


def _line(power: Floats, hertz: Floats, at: float) -> float:
    """How many times the background a line is; 0 beyond the Nyquist frequency."""
    away = np.abs(hertz - at)
    line, background = away <= LINE, (away >= BACKGROUND[0]) & (away <= BACKGROUND[1])
    if at >= hertz[-1] or not line.any() or not background.any():
        return 0.0
    return float(power[line].max() / max(np.median(power[background]), 1e-300))
