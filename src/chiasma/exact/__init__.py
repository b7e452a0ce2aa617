"""Exact inference by factorised passes over all states: `ch.exact`."""

from chiasma.exact.inference import (
    all_probabilities,
    count_probabilities,
    draws,
    log_evidence,
    map_states,
    marginals,
    probabilities,
)
from chiasma.models.factorial import log_joint

__all__ = [
    "all_probabilities",
    "count_probabilities",
    "draws",
    "log_evidence",
    "log_joint",
    "map_states",
    "marginals",
    "probabilities",
]
