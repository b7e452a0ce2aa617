"""How sites follow each other by their positions: where they end, how far apart they are, and what counts as a gap.

A gap is a distance that is clearly longer than the usual one. Two conditions must hold. More than BRIDGED sites of the
usual distance would fit in between: a few missing lines are like a few missing values, over which figures draw. And the
distance is far from all usual ones (FAR interquartile ranges beyond the quartile of their logarithms): positions that
are uneven throughout, such as genes, have no gaps.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from chiasma.types import Floats, Integers

# Up to this many missing sites in a row are like their neighbours; more are a gap.
BRIDGED = 3
FAR = 3.0


def apart(left: Floats, right: Floats) -> Floats:
    """(n - 1,) how far sites left..right are from the next; 0 up to half of their usual width.

    Ends may be rounded, or belong to the site, so that the next one begins a little later.

    >>> apart(np.array([0.0, 10.0, 25.0]), np.array([9.0, 19.0, 34.0])).tolist()
    [0.0, 6.0]
    """
    space = left[1:] - right[:-1]
    return np.where(space > 0.5 * float(np.median(right - left)), space, 0.0)


def site_ends(position: Floats, starts: Integers) -> Floats:
    """(T,) where sites end that say only where they begin: after the usual distance, or at the next site.

    >>> site_ends(np.array([0.0, 10.0, 20.0, 25.0, 0.0]), np.array([0, 4])).tolist()
    [10.0, 20.0, 25.0, 35.0, 10.0]
    >>> site_ends(np.array([9.1, 9.2, 9.3]), np.zeros(1, int)).tolist()
    [9.2, 9.3, 9.4]
    """
    inside = _inside(len(position), starts)
    known = np.diff(position)[inside[1:]]
    end = position + (float(np.median(known)) if known.size else 1.0)
    # Sums and differences of decimal numbers such as 0.1 differ in their last digits.
    top = float(np.abs(end).max(initial=1.0))
    end = np.round(end, 14 - math.ceil(math.log10(top)))
    end[:-1] = np.where(inside[1:], np.minimum(end[:-1], position[1:]), end[:-1])
    return end


class Spacing:
    """Sites position..end (T,) of sequences that begin at `starts`; seen: (T,) those with data.

    gaps : lengths of the gaps between neighbours. limit : a stretch without data is a gap if it is longer.

    >>> position = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 14.0, 15.0])
    >>> known = Spacing(position, position + 1, np.array([0]), np.ones(7, bool))
    >>> known.gaps.tolist(), known.longest(3, 6), known.longest(0, 5)
    ([9.0], 9.0, 0.0)
    """

    def __init__(self, position: Floats, end: Floats, starts: Integers, seen: npt.NDArray[np.bool_]):
        self.position, self.end, self.starts, self.seen = position, end, starts, seen
        self.smallest = 0.5 * float(np.median(end - position))
        inside = _inside(len(position), starts)[1:]
        distance = np.diff(position)[inside]
        self.limit = np.inf
        if distance.size:
            low, usual, high = np.quantile(distance, [0.25, 0.5, 0.75], method="lower")
            self.limit = max(BRIDGED * usual, high * (high / low) ** FAR - usual)
        space = apart(position, end)[inside]
        self.gaps: Floats = space[space > self.limit]

    def longest(self, start: int, stop: int) -> float:
        """The longest stretch of sites start..stop-1 in which nothing was measured; 0 where they follow each other."""
        cuts = self.starts[(self.starts > start) & (self.starts < stop)].tolist()
        return max(self._within(a, b) for a, b in zip([start, *cuts], [*cuts, stop], strict=True))

    def _within(self, start: int, stop: int) -> float:
        known = start + np.flatnonzero(self.seen[start:stop])
        begins = np.append(self.position[known], self.end[stop - 1])
        ended = np.append(self.position[start], self.end[known])
        longest = float((begins - ended).max())
        return longest if longest > self.smallest else 0.0


def _inside(n: int, starts: Integers) -> npt.NDArray[np.bool_]:
    """(n,) sites that follow another of their sequence."""
    inside = np.ones(n, bool)
    inside[starts] = False
    return inside
