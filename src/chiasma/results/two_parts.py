"""Learned parameters whose draws fall into two parts: their means lie where there are no draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from chiasma.results.findings import Finding
from chiasma.results.parameters import entries
from chiasma.types import Floats

# Each part holds at least this share of the draws. Between their medians, the middle third holds less than this part of
# the draws of the smaller one: a valley. Of one heap, such as a normal or a uniform one, it would hold a third or more.
LEAST_SHARE, VALLEY = 0.01, 0.2
# With fewer draws, or fewer of a part, a valley says nothing.
FEWEST, FEWEST_OF_PART = 100, 10


class Halves(NamedTuple):
    """The share of the draws in the lower part, and the medians of both."""

    share: float
    low: float
    high: float

    @property
    def text(self) -> str:
        percent = round(100 * self.share)
        return f"{percent}% of the draws near {self.low:.3g}, {100 - percent}% near {self.high:.3g}"


def two_parts(values: Floats) -> Halves | None:
    """The two parts of some draws (n,), if they have two: a few draws may lie between them.

    >>> near = np.linspace(1, 2, 100)
    >>> two_parts(np.concatenate([near, 50 * near[:25]])).text
    '80% of the draws near 1.5, 20% near 56.1'
    >>> two_parts(near)
    """
    n = len(values)
    if n < FEWEST:
        return None
    ordered = np.sort(values)
    least = max(FEWEST_OF_PART, int(np.ceil(LEAST_SHARE * n)))
    # The split that leaves least variance within the parts (Otsu's).
    sizes = np.arange(least, n - least + 1)
    sums = np.cumsum(ordered - ordered.mean())[sizes - 1]
    split = int(sizes[np.argmax(sums**2 / (sizes * (n - sizes)))])
    low, high = (float(np.median(part)) for part in (ordered[:split], ordered[split:]))
    if low == high:
        return None
    middle = np.searchsorted(ordered, [low + (high - low) / 3, high - (high - low) / 3])
    if min(middle[0], n - middle[1]) < least or middle[1] - middle[0] >= VALLEY * min(split, n - split):
        return None
    return Halves(split / n, low, high)


def part_findings(parameters: xr.Dataset) -> list[Finding]:
    """A finding that names the learned values whose posteriors have two parts."""
    found = [(one.name, parts) for one in entries(parameters) if (parts := two_parts(one.values.ravel())) is not None]
    names = [f"{name} ({parts.text})" for name, parts in found]
    return [Finding("two-parts", "limited", {"names": names})] if names else []
