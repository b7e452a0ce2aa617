"""Copy-number states of a clone, and how probable each is before the data are seen.

A state is (major, minor), major >= minor, or a total where alleles are not seen; the last one is amplified: more copies
than `most`. The prior is parsimonious. Of a genome that was not doubled a state has weight RARER^d, d the copies by
which it differs from (1, 1); homozygous loss is rarer still. A doubled genome has such a state, twice; afterwards every
allele that is left may have changed by one copy. `Origins` are all such ways to a state.

A subclone differs from the main clone by a change (major, minor), nearly everywhere (0, 0).

How common states are in one tumour is learned from its segments. Early states have a Dirichlet prior with the
parsimonious probabilities as its mean. Of a doubled genome it is the states before the doubling that are learned, and
how often an allele was lost or gained afterwards: whatever the states, one rate serves all. How far tumours are from
the mean is not known, so the weights of both priors are averaged over, from hardly any to about as many segments as a
tumour has. The ways to the states are hidden; their expected counts are found by turns (variational Bayes, exact where
a state has one way only, as without a doubling).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from chiasma.types import Floats, Integers

RARER = 0.3
NO_COPY = 0.02
AMPLIFIED = 0.02
# After a doubling an allele is kept, lost once, or gained once: doubled tumours have about three copies on average.
LATE = (0.65, 0.25, 0.1)
LATE_STEPS = (0, -1, 1)
MOST_COPIES = 6
# Extra copies for doubled genomes: 3+3 becomes 6+6, and an explanation must not win only because the doubled one has no
# state for it.
DOUBLED_MORE = 6
UNCHANGED = 0.97
RARE_CHANGE = 0.3
# Weights of the priors in segments, or alleles of late changes; the typical one serves where one is needed.
CONCENTRATIONS, TYPICAL_CONCENTRATION = (5.0, 10.0, 20.0, 40.0), 15.0
TURNS = 20

CHANGES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1))
TOTAL_CHANGES = (0, 1, -1, 2, -2)


@dataclass(frozen=True)
class Origins:
    """Ways (W,) to the states: the state, the number of the early state, and late (W, 3), alleles that were kept, lost
    or gained after the doubling. given (W,) : probability of the alleles of the way, given an early total.
    early (E,) : probabilities of early states, the last one amplified.
    """

    state: Integers
    source: Integers
    given: Floats
    late: Floats
    early: Floats

    def weights(self, early: Floats, late: Floats) -> Floats:
        """(W,) probabilities of the ways, given those of early states (E,) and of late changes (3,)."""
        return np.asarray(early[self.source] * self.given * np.prod(late**self.late, axis=1))


@dataclass(frozen=True)
class CopyStates:
    """The states of one clone.

    most : the largest total with a separate state.
    alleles : whether states tell alleles apart.
    doubled : whether the genome was doubled.
    """

    most: int = MOST_COPIES
    alleles: bool = True
    doubled: bool = False

    @property
    def _largest(self) -> int:
        return self.most + (DOUBLED_MORE if self.doubled else 0)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """(major, minor) of all states but the amplified one; minor is 0 where alleles are not told apart."""
        totals = range(self._largest + 1)
        if not self.alleles:
            return [(n, 0) for n in totals]
        return [(n - minor, minor) for n in totals for minor in range(n // 2, -1, -1)]

    @property
    def n_states(self) -> int:
        return len(self.pairs) + 1

    @cached_property
    def values(self) -> Floats:
        """(S, 3): copies of the major and the minor allele, and 1 if amplified. An amplified state counts as the
        smallest number of copies that it represents, balanced as (n - 1, 1).
        """
        least = self._largest + 1
        amplified = (least - 1, 1, 1) if self.alleles else (least, 0, 1)
        return np.array([*((*pair, 0) for pair in self.pairs), amplified], float)

    @property
    def totals(self) -> Floats:
        """(S,)"""
        return self.values[:, 0] + self.values[:, 1]

    @cached_property
    def levels(self) -> tuple[Floats, Integers]:
        """The totals that occur with a mark of amplification (L, 2), and that of every state (S,)."""
        return _levels(self.values)

    @cached_property
    def change_levels(self) -> tuple[Floats, Integers]:
        """The same of the changes."""
        return _levels(self.changes)

    @property
    def normal(self) -> tuple[int, int]:
        return (1, 1) if self.alleles else (2, 0)

    @cached_property
    def probabilities(self) -> Floats:
        """(S,) of a new segment."""
        own = self.origins
        weights = np.bincount(own.state, own.weights(own.early, np.array(LATE)), self.n_states)
        weights = weights[:-1] / weights[:-1].sum()
        return np.append(weights * (1 - AMPLIFIED), AMPLIFIED)

    @cached_property
    def origins(self) -> Origins:
        """All ways to the states. Early states are pairs, or totals where alleles are not told apart."""
        number = {pair: s for s, pair in enumerate(self.pairs)}
        early: dict[tuple[int, int], float] = {}
        ways = []
        for major in range(self._largest + 1):
            for minor in range(major + 1):
                source = self._seen(major, minor)
                weight = RARER ** (abs(major - 1) + abs(minor - 1)) * (NO_COPY if major == 0 else 1.0)
                endings = [(self._seen(*pair), late) for pair, late in _endings(major, minor, self.doubled)]
                inside = [(number[seen], source, weight, late) for seen, late in endings if seen in number]
                if inside:
                    early[source] = early.get(source, 0.0) + weight
                    ways += inside
        order = {source: e for e, source in enumerate(early)}
        total = sum(early.values()) / (1 - AMPLIFIED)
        return Origins(
            state=np.array([*(way[0] for way in ways), self.n_states - 1]),
            source=np.array([*(order[way[1]] for way in ways), len(early)]),
            given=np.array([*(way[2] / early[way[1]] for way in ways), 1.0]),
            late=np.array([*(way[3] for way in ways), (0, 0, 0)], float),
            early=np.array([*(weight / total for weight in early.values()), AMPLIFIED]),
        )

    def _seen(self, one: int, other: int) -> tuple[int, int]:
        """Copies of two alleles as the states name them."""
        return (max(one, other), min(one, other)) if self.alleles else (one + other, 0)

    @cached_property
    def texts(self) -> list[str]:
        """Names of the states: "2+1", or "CN3" of totals, which no program takes for numbers; ">6" where amplified."""
        own = [f"{major}+{minor}" if self.alleles else f"CN{major}" for major, minor in self.pairs]
        return [*own, f">{self._largest}"]

    @property
    def changes(self) -> Floats:
        """(C, 3): by how much a subclone may differ."""
        given = CHANGES if self.alleles else [(n, 0) for n in TOTAL_CHANGES]
        return np.array([(*change, 0) for change in given], float)

    def about(self, major: float, minor: float) -> Floats:
        """(S,) weights of the states about these copies, whose mean they are."""
        out = np.zeros(self.n_states)
        number = {pair: s for s, pair in enumerate(self.pairs)}
        for up in (0, 1):
            for more in (0, 1):
                high, low = int(major) + up, int(minor) + more
                weight = (major % 1 if up else 1 - major % 1) * (minor % 1 if more else 1 - minor % 1)
                out[number.get(self._seen(high, low), self.n_states - 1)] += weight
        return out

    @property
    def change_probabilities(self) -> Floats:
        """(C,)"""
        size = np.abs(self.changes).sum(axis=1)
        weights = np.where(size == 0, 0.0, np.where(size == 1, 1.0, RARE_CHANGE))
        weights *= (1 - UNCHANGED) / weights.sum()
        weights[size == 0] = UNCHANGED
        return weights


def _levels(values: Floats) -> tuple[Floats, Integers]:
    totals = np.column_stack([values[:, 0] + values[:, 1], values[:, 2]])
    levels, which = np.unique(totals, axis=0, return_inverse=True)
    return levels, which.ravel()


def _endings(major: int, minor: int, doubled: bool) -> list[tuple[tuple[int, int], tuple[int, int, int]]]:
    """Copies that an early state may end with, and how many alleles were kept, lost or gained on the way."""
    if not doubled:
        return [((major, minor), (0, 0, 0))]
    found = []
    # A lost allele does not come back, and cannot be lost again.
    for up in LATE_STEPS if major else (0,):
        for more in LATE_STEPS if minor else (0,):
            steps = [step for step, copies in ((up, major), (more, minor)) if copies]
            late = (steps.count(0), steps.count(-1), steps.count(1))
            found.append(((2 * major + up, 2 * minor + more), late))
    return found


# ---- Learned from the segments of a tumour ---------------------------------------------------------------------------


def learned(states: CopyStates, counts: Floats) -> Floats:
    """(S,) probabilities of the states of a new segment, after segments with these counts (S,)."""
    early, late, _ = _fitted(states, counts)
    own = states.origins
    weights = np.bincount(own.state, own.weights(early, late), states.n_states)
    return np.asarray(weights / weights.sum())


def log_average(states: CopyStates, counts: Floats) -> float:
    """log P(the states of segments in their order), averaged over all probabilities; counts (S,) of the states."""
    own = states.origins
    _, _, share = _fitted(states, counts)
    best = np.zeros(states.n_states)
    np.maximum.at(best, own.state, share)
    # Where the prior of a way is small, a bit of a segment costs as much as a whole one: then one way is the better
    # bound.
    return max(_log_bound(states, counts, share), _log_bound(states, counts, (share == best[own.state]) * 1.0))


def _log_bound(states: CopyStates, counts: Floats, share: Floats) -> float:
    """A lower bound of it, at shares (W,) of the ways to each state."""
    own = states.origins
    share = share / np.bincount(own.state, share, states.n_states)[own.state]
    ways = share * counts[own.state]
    early = np.bincount(own.source, ways).astype(float)
    hidden = xlogy(ways, own.given).sum() - xlogy(ways, share).sum()
    return _log_averaged(own.early, early) + _log_averaged(np.array(LATE), ways @ own.late) + float(hidden)


def _fitted(states: CopyStates, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Posterior means of the probabilities of early states and late changes, and shares (W,) of the ways to a state."""
    own = states.origins
    early, late = own.early, np.array(LATE)
    for _ in range(TURNS):
        weights = own.weights(early, late)
        share = weights / np.bincount(own.state, weights, states.n_states)[own.state]
        ways = share * counts[own.state]
        early = _mean(TYPICAL_CONCENTRATION * own.early + np.bincount(own.source, ways))
        late = _mean(TYPICAL_CONCENTRATION * np.array(LATE) + ways @ own.late)
    return early, late, share


def _mean(mass: Floats) -> Floats:
    return np.asarray(mass / mass.sum())


def _log_polya(mass: Floats, counts: Floats) -> float:
    """log P(a sequence with these counts), its probabilities Dirichlet(mass)."""
    total = gammaln(mass.sum()) - gammaln(mass.sum() + counts.sum())
    return float(total + np.sum(gammaln(mass + counts) - gammaln(mass)))


def _log_averaged(prior: Floats, counts: Floats) -> float:
    """The same, averaged over the weights of a prior with this mean."""
    each = [_log_polya(weight * prior, counts) for weight in CONCENTRATIONS]
    return float(logsumexp(each) - np.log(len(each)))
