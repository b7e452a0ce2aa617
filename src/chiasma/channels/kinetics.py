"""Kinetics of n equal channels: dwell times and events that a fit predicts, and those of an idealised trace.

rates (S, S) are those of one channel, per second, rows adding up to 0; conducts (S,) says which states are open. The
channels together are in a *composition*: how many are in each state, a Markov chain of C(n + S - 1, S - 1) states.
While k channels are open, the compositions with k open ones form a set A. The time spent in it has the survivor
function phi exp(Q_AA t) 1, phi the distribution at entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.types import Floats, Integers

# Bins of a histogram of dwell times per factor of ten, as the field draws them.
BINS_PER_DECADE = 8


@dataclass(frozen=True)
class Ensemble:
    """n channels together: compositions (C, S), their generator (C, C) and stationary distribution (C,), and how many
    channels are open in each (C,).
    """

    compositions: Integers
    generator: Floats
    stationary: Floats
    n_open: Integers

    @classmethod
    def of(cls, rates: Floats, conducts: npt.NDArray[np.bool_], n: int) -> Ensemble:
        """
        >>> two = Ensemble.of(np.array([[-1.0, 1.0], [3.0, -3.0]]), np.array([False, True]), 2)
        >>> two.n_open.tolist(), two.generator[0].tolist()
        ([0, 1, 2], [-2.0, 2.0, 0.0])
        """
        size = len(rates)
        lists = [np.bincount(one, minlength=size) for one in combinations_with_replacement(range(size), n)]
        places = {tuple(one.tolist()): i for i, one in enumerate(lists)}
        generator = np.zeros((len(lists), len(lists)))
        for i, counts in enumerate(lists):
            for a, b in zip(*np.nonzero(rates > 0), strict=True):
                if counts[a]:
                    moved = counts.copy()
                    moved[a] -= 1
                    moved[b] += 1
                    generator[i, places[tuple(moved.tolist())]] += counts[a] * rates[a, b]
        np.fill_diagonal(generator, -generator.sum(axis=1))
        compositions = np.array(lists)
        return cls(compositions, generator, _stationary(generator), compositions @ conducts.astype(np.int64))

    @property
    def open_probability(self) -> float:
        """Of one channel."""
        return float(self.stationary @ self.n_open) / int(self.compositions[0].sum())

    @property
    def events_per_second(self) -> float:
        """How often the number of open channels changes."""
        changes = np.where(self.n_open[:, None] != self.n_open, self.generator, 0.0)
        return float(self.stationary @ changes.sum(axis=1))

    def survivor(self, k: int, times: Floats) -> Floats:
        """(n,) P(a dwell with k open channels is longer than each of the times, in seconds)."""
        inside = self.n_open == k
        entering = (self.stationary * ~inside) @ np.where(inside, self.generator, 0.0)[:, inside]
        if not entering.sum():
            return np.zeros(len(times))
        phi = entering / entering.sum()
        own = self.generator[np.ix_(inside, inside)]
        return np.array([float((phi @ scipy.linalg.expm(own * t)).sum()) for t in times])


def _stationary(generator: Floats) -> Floats:
    system = np.vstack([generator.T, np.ones(len(generator))])
    right = np.zeros(len(system))
    right[-1] = 1.0
    found = np.maximum(np.linalg.lstsq(system, right, rcond=None)[0], 0.0)
    return np.asarray(found / found.sum())


@dataclass(frozen=True)
class Dwells:
    """Stretches of an idealised trace: how many channels are open, when each begins and how long it lasts, in seconds.

    whole : whether it begins and ends within its sweep; others are longer than they look.
    """

    n_open: Integers
    begin: Floats
    seconds: Floats
    whole: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, n_open: Integers, starts: Integers, step: float) -> Dwells:
        """
        >>> found = Dwells.of(np.array([0, 0, 1, 1, 1, 0]), np.array([0]), 0.5)
        >>> found.n_open.tolist(), found.seconds.tolist(), found.whole.tolist()
        ([0, 1, 0], [1.0, 1.5, 0.5], [False, True, False])
        """
        new = np.concatenate([[True], np.diff(n_open) != 0])
        new[starts] = True
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(n_open))
        at_edge = np.isin(first, starts) | np.isin(last, np.append(starts, len(n_open)))
        begin, seconds = (np.asarray(one * step, float) for one in (first, last - first))
        return cls(n_open[first], begin, seconds, ~at_edge)

    @property
    def n_events(self) -> int:
        """How often the number of open channels changes."""
        return int(np.count_nonzero(np.diff(self.n_open)))

    def of_level(self, k: int) -> Floats:
        """Whole dwells with k open channels."""
        return self.seconds[(self.n_open == k) & self.whole]


def log_bins(step: float, longest: float) -> Floats:
    """Edges of bins of equal logarithmic width from half a step up."""
    n = int(np.log10(2 * longest / step) * BINS_PER_DECADE) + 1
    return np.asarray(step / 2 * 10 ** (np.arange(n + 1) / BINS_PER_DECADE))


def rates_of_switch(enter: float, leave: float, step: float) -> tuple[float, float]:
    """Rates of opening and closing per second, from the probabilities of one step.

    >>> opening, closing = rates_of_switch(0.01, 0.03, 1e-3)
    >>> round(opening, 2), round(closing, 2)
    (10.21, 30.62)
    """
    both = enter + leave
    if both <= 0:
        return 0.0, 0.0
    total = -np.log1p(-min(both, 1 - 1e-12)) / step
    return float(total * enter / both), float(total * leave / both)
