"""The expected moves of `expected_moves` in logarithms: slower, for transitions of (almost) zero probability.

With alpha, gamma and the predicted weights in logarithms, every term of

    P(x, x' | y) = sum_rest exp(left(x, rest) + log A(x, x') + right(x', rest))

is at most 1, so that no maximum has to be taken out.
"""

import math

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.log_state_passes import load_matrices, sum_axis
from chiasma.kernels.logspace import log_sum
from chiasma.kernels.state_passes import row_marginals


@njit
def _sum_one(log_trans, e, layout, k, message, back, matrix, spare):
    """One step of row k alone, in place."""
    size = layout.sizes[k]
    down, across = (1, size) if back else (size, 1)
    sum_axis(message, size, layout.strides[k], log_trans, e, matrix, layout.first[k], down, across, spare)


@njit
def _add_moves(left, right, size, stride, log_trans, e, first, counts):
    for x in range(size):
        for y in range(size):
            step = log_trans[e, first + x * size + y]
            if step == -math.inf:
                continue
            total = 0.0
            for o in range(0, left.shape[0], size * stride):
                for s in range(o, o + stride):
                    total += math.exp(left[s + x * stride] + step + right[s + y * stride])
            counts[e, first + x * size + y] += total


@njit
def log_count_block(alpha, log_trans, layout, edge, first, gamma, smoothed, counts, scratch):
    """As expected_moves.count_block, with alpha and gamma in logarithms and smoothed as probabilities."""
    n_columns, n_states, n_rows = edge.shape[0], gamma.shape[0], layout.sizes.shape[0]
    matrix, spare = np.empty(log_trans.shape[1]), np.empty((2, layout.sizes.max()))
    marginals = np.empty(layout.sizes.sum())
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == n_columns - 1:
            gamma[:] = alpha[i]
        else:
            e = edge[t + 1]
            if e != loaded:
                load_matrices(log_trans, e, matrix)
                loaded = e
            scratch[0] = alpha[i]
            for k in range(n_rows):
                scratch[k + 1] = scratch[k]
                _sum_one(log_trans, e, layout, k, scratch[k + 1], False, matrix, spare)
            for s in range(n_states):
                # No mass arrives where none was predicted.
                gamma[s] = gamma[s] - scratch[n_rows, s] if scratch[n_rows, s] > -math.inf else -math.inf
            for k in range(n_rows - 1, -1, -1):
                stride, place = layout.strides[k], layout.first[k]
                _add_moves(scratch[k], gamma, layout.sizes[k], stride, log_trans, e, place, counts)
                _sum_one(log_trans, e, layout, k, gamma, True, matrix, spare)
            for s in range(n_states):
                gamma[s] += alpha[i, s]
        total = log_sum(gamma)
        for s in range(n_states):
            gamma[s] -= total
        for s in range(n_states):
            scratch[0, s] = math.exp(gamma[s])
        if smoothed.shape[0] > 0:
            smoothed[i] = scratch[0]
        if t == 0:
            row_marginals(scratch[0], layout.sizes, marginals, scratch[1])
            place = 0
            for k in range(n_rows):
                for x in range(layout.sizes[k]):
                    counts[edge[0], layout.first[k] + x] += marginals[place + x]
                place += layout.sizes[k]
