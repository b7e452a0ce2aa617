"""Log evidences of several parameter values at a time, four in the lanes of one filter (`kernels.side_by_side`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chiasma.exact.passes import LARGE_CHUNK
from chiasma.kernels import side_by_side
from chiasma.kernels.gaussian import Factors
from chiasma.models.emissions import Gaussian
from chiasma.models.likelihood import Levels
from chiasma.models.target import Target
from chiasma.types import Floats

# Above this, four messages do not fit the cache, and one filter after the other takes as long.
MOST_STATES = 2**8


def fits_side_by_side(target: Target) -> bool:
    """Whether targets of this shape have a filter that takes four of them."""
    return (
        isinstance(target.likelihood, Levels)
        and target.likelihood.weights is not None
        and isinstance(target.likelihood.emission, Gaussian)
        and target.likelihood.emission.n_channels is None
        and target.n_states <= MOST_STATES
        and target.n_columns * target.n_states * side_by_side.FOUR <= LARGE_CHUNK
    )


def log_evidences(targets: Sequence[Target], y: Floats, beta: float) -> Floats | None:
    """(n,) log Z_beta of targets of one signal y (T,) that differ in their parameters only. None where a filter of one
    target at a time has to be used, for all of them or for some: transitions or noise that need logarithms.
    """
    factors = [_factors(target, beta) for target in targets]
    if not all(factors):
        return None
    found = np.empty(len(targets) + side_by_side.FOUR)
    for first in range(0, len(targets), side_by_side.FOUR):
        # The last target fills the lanes that are left.
        lanes = np.minimum(np.arange(first, first + side_by_side.FOUR), len(targets) - 1)
        trans = np.array([targets[i].trans for i in lanes])
        own = tuple(factors[i] for i in lanes)
        side_by_side.log_evidences(y, own, trans, targets[0].edge, found[first:])
    return found[: len(targets)]


def _factors(target: Target, beta: float) -> Factors | None:
    if not fits_side_by_side(target) or not target.linear():
        return None
    likelihood = target.likelihood
    assert isinstance(likelihood, Levels)
    assert likelihood.weights is not None
    assert isinstance(likelihood.emission, Gaussian)
    return likelihood.emission.factors(likelihood.weights, likelihood.base, beta)
