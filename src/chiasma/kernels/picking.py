"""Random choices from one uniform in [0, 1): an index in proportion to weights or log-weights, or acceptance.

An index is drawn by inversion: the first one at which the cumulative weight exceeds uniform * total weight.
"""

import math

from chiasma._jit import njit

# exp(-50) relative to the largest weight is lost in the rounding of the sum.
NEGLIGIBLE = -50.0


@njit
def _invert(weights, target):
    """First index at which the cumulative weight exceeds the target."""
    cumulative = 0.0
    last = 0
    for n in range(weights.shape[0]):
        if weights[n] > 0.0:
            cumulative += weights[n]
            last = n
            if target < cumulative:
                return n
    return last  # rounding left the target at the very end


@njit
def pick(weights, uniform):
    """Index drawn in proportion to weights (n,)."""
    total = 0.0
    for n in range(weights.shape[0]):
        total += weights[n]
    return _invert(weights, uniform * total)


@njit
def pick_log(log_weights, uniform):
    """Index drawn in proportion to exp(log_weights) (n,), which are overwritten."""
    top = -math.inf
    for log_weight in log_weights:
        top = max(top, log_weight)
    # Summed in the same loop: without the sum, the compiler would take the exponentials of negligible weights too.
    total = 0.0
    for n in range(log_weights.shape[0]):
        less = log_weights[n] - top
        log_weights[n] = math.exp(less) if less > NEGLIGIBLE else 0.0
        total += log_weights[n]
    return _invert(log_weights, uniform * total)


@njit
def is_accepted(log_ratio, uniform):
    """Metropolis-Hastings: True with probability min(1, exp(log_ratio))."""
    return log_ratio >= 0.0 or uniform < math.exp(log_ratio)
