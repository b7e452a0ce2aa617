"""Learned parameters whose draws fall into two parts: their means lie where there are no draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from chiasma.results.parameters import entries
from chiasma.types import Floats

# Each part holds at least this share of the draws, and the gap between the two is so many times as wide as the standard
# deviation within either.
LEAST_SHARE, WIDE_GAP = 0.01, 3.0
# With fewer draws a gap says nothing.
FEWEST = 100
# Parameters that are described.
SHOWN = 3


class Parts(NamedTuple):
    """The share of the draws in the lower part, and the medians of both."""

    share: float
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.share:.0%} of the draws near {self.low:.3g}, {1 - self.share:.0%} near {self.high:.3g}"


def two_parts(values: Floats) -> Parts | None:
    """The two parts of some draws (n,), if they have two.

    >>> near = np.linspace(-1, 1, 100)
    >>> two_parts(np.concatenate([near, 50 + near[:25]])).text
    '80% of the draws near 0, 20% near 49.2'
    >>> two_parts(near)
    """
    if len(values) < FEWEST:
        return None
    ordered = np.sort(values)
    least = max(2, int(np.ceil(LEAST_SHARE * len(values))))
    gaps = np.diff(ordered)[least - 1 : len(values) - least]
    split = least + int(np.argmax(gaps))
    low, high = ordered[:split], ordered[split:]
    if gaps.max() <= WIDE_GAP * max(low.std(), high.std()):
        return None
    return Parts(split / len(values), float(np.median(low)), float(np.median(high)))


def part_warnings(parameters: xr.Dataset) -> list[str]:
    """A warning that names the learned values whose posteriors have two parts."""
    found = [(one.name, parts) for one in entries(parameters) if (parts := two_parts(one.values.ravel())) is not None]
    if not found:
        return []
    told = "; ".join(f"{name}: {parts.text}" for name, parts in found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    values = "value" if len(found) == 1 else "values"
    return [
        f"the posterior of {len(found)} learned {values} has two parts ({told}{more}): these are rival explanations, "
        "and means over both describe neither. Rows that are in ascending order of their weights may be other ones in "
        "each part. A row that the data do not need has such parts: compare the evidence of fewer rows"
    ]
