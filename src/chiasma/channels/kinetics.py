"""Kinetics of n equal channels: schemes, dwell times and events that a fit predicts, and those of an idealised trace.

rates Q (S, S) are those of one channel, rows adding up to 0; from one sample to the next its states move by exp(Q). The
channels together are in a *composition*: how many are in each state, a Markov chain of C(n + S - 1, S - 1) states.
While k channels are open, the compositions with k open ones form a set A. The time spent in it has the survivor
function phi exp(Q_AA t) 1, phi the distribution at entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.models.arguments import Argument
from chiasma.models.chains import RowChain, stationary_slopes
from chiasma.models.priors import Beta, LogNormal, Prior, mixed
from chiasma.types import Floats, Integers

# Bins of a histogram of dwell times per factor of ten, as the field draws them.
BINS_PER_DECADE = 8
# States of a scheme, at most: n channels have C(n + S - 1, S - 1) compositions.
MOST_STATES = 6
# A rate per sample is a priori within a factor of e^4 of this one with a probability of 95%.
USUAL_RATE = 0.03
# Of the series of an exponential; the next one is less than a rounding error.
TERMS = 14
SHARES = {"C": 0.0, "O": 1.0}  # of the unit current; that of a subconductance state S is learned


@dataclass(frozen=True)
class Scheme:
    """The states of one channel, by name, and the moves between them: pairs (from, to), in both directions."""

    states: tuple[str, ...]
    moves: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """
        >>> Scheme.parse("C-C-O").states, Scheme.parse("C-C-O").moves
        (('C1', 'C2', 'O'), ((0, 1), (1, 0), (1, 2), (2, 1)))
        >>> len(Scheme.parse("C1-C2-O, C1-O").moves)
        6
        """
        paths = [[one.strip().upper() for one in part.split("-")] for part in text.split(",")]
        tokens = [one for path in paths for one in path]
        if not all(re.fullmatch(r"[COS]\d*", one) for one in tokens) or min(map(len, paths)) < 2:
            raise InvalidInput(
                f"a scheme joins closed states C, open ones O and subconductance states S by dashes, such as C-C-O or "
                f"C1-C2-O,C1-O, got {text!r}"
            )
        if len(paths) == 1:
            paths = [_numbered(tokens)]
        states = list(dict.fromkeys(one for path in paths for one in path))
        kinds = {one[0] for one in states}
        if not {"C", "O"} <= kinds or len(states) > MOST_STATES:
            raise InvalidInput(
                f"a scheme has a closed and an open state and at most {MOST_STATES} in all, got {text!r}"
            )
        pairs = [(states.index(a), states.index(b)) for path in paths for a, b in pairwise(path)]
        if any(a == b for a, b in pairs):
            raise InvalidInput(f"a state cannot follow itself, got {text!r}; number the states, such as C1-C2-O")
        return cls(tuple(states), tuple(dict.fromkeys(one for a, b in pairs for one in ((a, b), (b, a)))))

    def __str__(self) -> str:
        return ", ".join(f"{self.states[a]}-{self.states[b]}" for a, b in self.moves if a < b)

    @property
    def conducts(self) -> npt.NDArray[np.bool_]:
        """(S,) which states carry any current."""
        return np.array([not one.startswith("C") for one in self.states])

    @property
    def has_sub(self) -> bool:
        """Whether a state carries a part of the current."""
        return any(one.startswith("S") for one in self.states)

    @property
    def values(self) -> Prior | list[float]:
        """(S,) current of every state in units of a fully open channel."""
        given: Prior | list[float] = mixed("values", [SHARES.get(one[0], Beta(2, 2)) for one in self.states])
        return given

    @property
    def names(self) -> list[str]:
        """Of the rates."""
        if self.states == ("C", "O"):
            return ["opening rate", "closing rate"]
        return [f"rate {self.states[a]} to {self.states[b]}" for a, b in self.moves]

    def rates(self, of_moves: Floats) -> Floats:
        """(S, S) from the rates of the moves."""
        out = np.zeros((len(self.states), len(self.states)))
        for (a, b), rate in zip(self.moves, of_moves, strict=True):
            out[a, b] = rate
        np.fill_diagonal(out, -out.sum(axis=1))
        return out


def _numbered(tokens: list[str]) -> list[str]:
    """Names that differ: a letter that comes several times has numbers.

    >>> _numbered(["C", "C", "O"]), _numbered(["C1", "O", "C1"])
    (['C1', 'C2', 'O'], ['C1', 'O', 'C1'])
    """
    seen = dict.fromkeys(tokens, 0)
    out = []
    for one in tokens:
        seen[one] += 1
        out.append(f"{one}{seen[one]}" if tokens.count(one) > 1 and len(one) == 1 else one)
    return out


class Kinetics(RowChain):
    """A channel with a scheme. rates (moves,) per sample, or their prior."""

    arguments: ClassVar[Mapping[str, Argument]] = {"rates": Argument("of the moves of the scheme, per sample.")}
    initial = None

    def __init__(self, scheme: Scheme, rates: Floats | Prior | None = None):
        self.scheme = scheme
        if rates is None:
            rates = LogNormal(np.full(len(scheme.moves), np.log(USUAL_RATE)), 2.0).shared("rates")
        self.rates = self._learned("rates", rates) if isinstance(rates, Prior) else np.asarray(rates, float)

    @property
    def n_states(self) -> int:
        return len(self.scheme.states)

    @property
    def _step(self) -> Floats:
        return transitions(self.scheme.rates(self.rates))

    def _stationary(self, n_states: int) -> Floats:
        return stationary(self.scheme.rates(self.rates))

    def _steps(self, n_states: int, gaps: Floats) -> Floats:
        return np.repeat(self._step[None], len(gaps), axis=0)  # samples are evenly spaced

    def slopes(self, n_states: int, gaps: Floats, by_matrix: Floats) -> dict[str, Floats]:
        by_step = by_matrix[1:].sum(axis=0) + stationary_slopes(
            self._step, self._stationary(n_states), by_matrix[0].sum(axis=0)
        )
        by_rates = transition_slopes(self.scheme.rates(self.rates), by_step)
        return {"rates": np.array([by_rates[a, b] - by_rates[a, a] for a, b in self.scheme.moves])}


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
        compositions = cls.compositions_of(size, n)
        places = {tuple(one.tolist()): i for i, one in enumerate(compositions)}
        generator = np.zeros((len(compositions), len(compositions)))
        for i, counts in enumerate(compositions):
            for a, b in zip(*np.nonzero(rates > 0), strict=True):
                if counts[a]:
                    moved = counts.copy()
                    moved[a] -= 1
                    moved[b] += 1
                    generator[i, places[tuple(moved.tolist())]] += counts[a] * rates[a, b]
        np.fill_diagonal(generator, -generator.sum(axis=1))
        return cls(compositions, generator, stationary(generator), compositions @ conducts.astype(np.int64))

    @staticmethod
    def compositions_of(size: int, n: int) -> Integers:
        """(C, S) how many of n channels are in each state, for all compositions.

        >>> Ensemble.compositions_of(2, 2).tolist()
        [[2, 0], [1, 1], [0, 2]]
        """
        return np.array([np.bincount(one, minlength=size) for one in combinations_with_replacement(range(size), n)])

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
        phi, own = self._entry(k, self.generator)
        return np.array([float((phi @ transitions(own * t)).sum()) for t in times])

    def survivor_in_samples(self, k: int, longest: int, step: float) -> Floats:
        """(longest + 1,) P(a dwell is longer than so many samples), `step` seconds apart."""
        phi, own = self._entry(k, transitions(self.generator * step))
        out = np.empty(longest + 1)
        for n in range(longest + 1):
            out[n] = phi.sum()
            phi = phi @ own
        return out

    def _entry(self, k: int, flows: Floats) -> tuple[Floats, Floats]:
        """The distribution at entry into the compositions with k open ones, and the flows between these."""
        inside = self.n_open == k
        entering = (self.stationary * ~inside) @ flows[:, inside]
        total = entering.sum()
        return entering / total if total else entering, flows[np.ix_(inside, inside)]


# ---- Small matrices -------------------------------------------------------------------------------------------------
#
# These are called at every step of a search. LAPACK is slower for a few states, and its threads wait for each other
# where other processes run: with two of those, a search took seven times as long.


def transitions(rates: Floats) -> Floats:
    """exp(Q) for rates off the diagonal that are not negative, without cancellation: exp(Q) = exp(-r) exp(Q + r), r the
    largest rate at which a state is left, by a Taylor series and repeated squares.

    >>> np.allclose(transitions(np.array([[-20.0, 20.0], [50.0, -50.0]])), [[5 / 7, 2 / 7], [5 / 7, 2 / 7]])
    True
    """
    part, squares = _part(rates)
    out = power = np.exp(-part[1]) * np.eye(len(rates))
    for n in range(1, TERMS):
        power = power @ part[0] / n
        out = out + power
    for _ in range(squares):
        out = out @ out
    return out


def transition_slopes(rates: Floats, by_transitions: Floats) -> Floats:
    """(S, S) derivatives with respect to Q from those with respect to exp(Q): the derivative of the series and of the
    squares, transposed.
    """
    part, squares = _part(rates)
    change = by_transitions * 0.5**squares
    step = part[0].T
    out = power = np.exp(-part[1]) * np.eye(len(rates))
    d_out = d_power = np.zeros_like(out)
    for n in range(1, TERMS):
        d_power = (d_power @ step + power @ change) / n
        power = power @ step / n
        out, d_out = out + power, d_out + d_power
    for _ in range(squares):
        out, d_out = out @ out, d_out @ out + out @ d_out
    return d_out


def _part(rates: Floats) -> tuple[tuple[Floats, float], int]:
    """(Q + r) and r, both divided by 2^n so that r becomes less than a half; and n."""
    most = float(-rates.diagonal().min())
    squares = max(int(np.ceil(np.log2(2 * most))), 0) if 0 < most < np.inf else 0
    scale = 0.5**squares
    return ((rates + most * np.eye(len(rates))) * scale, most * scale), squares


def stationary(generator: Floats) -> Floats:
    """(C,) of a matrix of rates: states are removed one by one, without any subtraction (Grassmann and others 1985).

    >>> stationary(np.array([[-1.0, 1.0], [3.0, -3.0]])).tolist()
    [0.75, 0.25]
    """
    flows = generator.copy()
    size = len(flows)
    for i in range(size - 1, 0, -1):
        flows[:i, i] /= flows[i, :i].sum()
        flows[:i, :i] += flows[:i, i, None] * flows[i, :i]
    found = np.ones(size)
    for i in range(1, size):
        found[i] = found[:i] @ flows[:i, i]
    return np.asarray(found / found.sum())


@dataclass(frozen=True)
class Dwells:
    """Stretches of an idealised trace: how many channels conduct, how many of these partly, when each begins and how
    long it lasts, in seconds.

    whole : whether it begins and ends within its sweep; the others are cut off, so their durations are lower bounds.
    """

    n_open: Integers
    n_sub: Integers
    begin: Floats
    seconds: Floats
    whole: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, n_open: Integers, n_sub: Integers, starts: Integers, step: float) -> Dwells:
        """
        >>> found = Dwells.of(np.array([0, 0, 1, 1, 1, 0]), np.zeros(6, int), np.array([0]), 0.5)
        >>> found.n_open.tolist(), found.seconds.tolist(), found.whole.tolist()
        ([0, 1, 0], [1.0, 1.5, 0.5], [False, True, False])
        """
        new = np.concatenate([[True], (np.diff(n_open) != 0) | (np.diff(n_sub) != 0)])
        new[starts] = True
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(n_open))
        at_edge = np.isin(first, starts) | np.isin(last, np.append(starts, len(n_open)))
        begin, seconds = (np.asarray(one * step, float) for one in (first, last - first))
        return cls(n_open[first], n_sub[first], begin, seconds, ~at_edge)

    @property
    def n_events(self) -> int:
        """How often the number of conducting channels changes."""
        return int(np.count_nonzero(np.diff(self.n_open)))

    def of_level(self, k: int) -> Floats:
        """Whole dwells with k open channels."""
        return self.seconds[(self.n_open == k) & self.whole]


def log_bins(step: float, longest: float) -> Floats:
    """Edges of bins of about equal logarithmic width, from half a step up, halfway between whole steps.

    >>> log_bins(1.0, 4.0).tolist()
    [0.5, 1.5, 2.5, 3.5, 4.5]
    """
    n = int(np.log10(4 * longest / step) * BINS_PER_DECADE) + 1
    whole = np.floor(0.5 * 10 ** (np.arange(n + 1) / BINS_PER_DECADE) + 0.5)
    edges = (np.unique(whole) + 0.5)[: int(np.searchsorted(np.unique(whole) + 0.5, longest / step)) + 1]
    return np.asarray(step * np.concatenate([[0.5], edges[edges > 0.5]]))
