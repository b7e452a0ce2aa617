"""One row of S states: a draw from its prior.

`trans` is the table of this row alone, (E, S * S): A[x, x'] of the edge kind e at [e, x * S + x']. states (T,) is its
path.
"""

import math

import numpy as np

from chiasma._jit import inlined_njit, njit


@inlined_njit
def _invert(size, weights, place, target):
    """The first x at which the sum of weights[place:] exceeds the target, or the last of any weight."""
    x = 0
    cumulative = weights[np.uint64(place)]
    while x < size - 1 and not target < cumulative:
        x += 1
        cumulative += weights[np.uint64(place + x)]
    while weights[np.uint64(place + x)] == 0.0:  # rounding left the target at the very end
        x -= 1
    return x


@njit
def draw_prior_row(trans, edge, uniforms, states):
    """Draw the row from its prior, forwards, into states (T,). Reads one uniform per column."""
    size = round(math.sqrt(trans.shape[1]))
    matrices = trans.ravel()
    x = 0
    for t in range(states.shape[0]):
        x = _invert(size, matrices, (edge[t] * size + x) * size, uniforms[t])
        states[t] = x
