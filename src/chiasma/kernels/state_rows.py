"""One row of S states: a draw from its prior, alone or given states that are known.

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


@njit
def draw_known_row(trans, edge, known, uniforms, states):
    """The same given that the row is in state known[t] wherever that is not -1: filtered backwards, drawn forwards.

    Returns the log probability of the known states; where that is -inf, nothing is drawn.
    """
    n_columns = states.shape[0]
    size = round(math.sqrt(trans.shape[1]))
    matrices = trans.ravel()
    ahead = np.ones((n_columns + 1, size))  # p(known states from t on | state at t), up to a factor
    weights = np.empty(size)
    total = 0.0
    for t in range(n_columns - 1, -1, -1):
        top = 0.0
        for x in range(size):
            own = 0.0
            if known[t] == -1 or known[t] == x:
                own = 1.0
                if t + 1 < n_columns:
                    place = (edge[t + 1] * size + x) * size
                    own = 0.0
                    for y in range(size):
                        own += matrices[place + y] * ahead[t + 1, y]
            ahead[t, x] = own
            top = max(top, own)
        if top == 0.0:
            return -math.inf
        total += math.log(top)
        for x in range(size):
            ahead[t, x] /= top
    x = 0
    for t in range(n_columns):
        place = (edge[t] * size + x) * size
        whole = 0.0
        for y in range(size):
            weights[y] = matrices[place + y] * ahead[t, y]
            whole += weights[y]
        if whole == 0.0:
            return -math.inf
        if t == 0:
            total += math.log(whole)
        x = _invert(size, weights, 0, uniforms[t] * whole)
        states[t] = x
    return total
