"""How common copy-number states are in one tumour: learned from its segments.

Early states have a Dirichlet prior with the parsimonious probabilities of `CopyStates` as its mean. Of a doubled genome
it is the states before the doubling that are learned, and how often an allele was lost or gained afterwards: whatever
the states, one rate serves all. How far tumours are from the mean is not known, so the weights of both priors are
averaged over, from hardly any to about as many segments as a tumour has. The ways to the states are hidden; their
expected counts are found by turns (variational Bayes, exact where a state has one way only, as without a doubling).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from chiasma.tumour.copy_states import LATE, CopyStates
from chiasma.types import Floats

# Weights of the priors in segments, or alleles of late changes; the typical one serves where one is needed.
CONCENTRATIONS, TYPICAL_CONCENTRATION = (5.0, 10.0, 20.0, 40.0), 15.0
TURNS = 20


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
