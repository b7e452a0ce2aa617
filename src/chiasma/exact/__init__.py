"""Exact inference by factorised passes over all states: `ch.exact`."""

from chiasma.exact.gradients import value_and_gradient
from chiasma.exact.inference import (
    all_probabilities,
    count_probabilities,
    draws,
    log_evidence,
    map_states,
    marginals,
    probabilities,
)
from chiasma.exact.log_density import ParameterDensity, log_density
from chiasma.models.factorial import log_joint

__all__ = [
    "ParameterDensity",
    "all_probabilities",
    "count_probabilities",
    "draws",
    "log_density",
    "log_evidence",
    "log_joint",
    "map_states",
    "marginals",
    "probabilities",
    "value_and_gradient",
]


def __dir__() -> list[str]:
    return __all__
