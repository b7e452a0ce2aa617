"""The expected moves of `expected_moves` in logarithms: slower, for transitions of (almost) zero probability.

With alpha, gamma and the predicted weights in logarithms, every term of

    P(x, x' | y) = sum_rest exp(left(x, rest) + log A(x, x') + right(x', rest))

is at most 1, so that no maximum has to be taken out.
"""

import math

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.expected_moves import add_first_column
from chiasma.kernels.log_passes import largest, load_matrices, sum_axis
from chiasma.kernels.logspace import log_sum


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
def log_count_block(log_trans, alpha, edge, first, gamma, smoothed, counts, scratch):
    """As expected_moves.count_block, with alpha and gamma in logarithms and smoothed as probabilities."""
    table, layout = log_trans.table, log_trans.layout
    n_columns, n_states, n_rows = edge.shape[0], gamma.shape[0], layout.sizes.shape[0]
    matrix, spare = np.empty(table.shape[1]), np.empty((2, largest(layout.sizes)))
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == n_columns - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            e = edge[t + 1]
            if e != loaded:
                load_matrices(table, e, matrix)
                loaded = e
            for s in range(n_states):
                scratch[0, s] = alpha[i, s]
            for k in range(n_rows):
                for s in range(n_states):
                    scratch[k + 1, s] = scratch[k, s]
                _sum_one(table, e, layout, k, scratch[k + 1], False, matrix, spare)
            for s in range(n_states):
                # No mass arrives where none was predicted.
                gamma[s] = gamma[s] - scratch[n_rows, s] if scratch[n_rows, s] > -math.inf else -math.inf
            for k in range(n_rows - 1, -1, -1):
                stride, place = layout.strides[k], layout.first[k]
                _add_moves(scratch[k], gamma, layout.sizes[k], stride, table, e, place, counts)
                _sum_one(table, e, layout, k, gamma, True, matrix, spare)
            for s in range(n_states):
                gamma[s] += alpha[i, s]
        total = log_sum(gamma)
        for s in range(n_states):
            gamma[s] -= total
        for s in range(n_states):
            scratch[0, s] = math.exp(gamma[s])
        if smoothed.shape[0] > 0:
            for s in range(n_states):
                smoothed[i, s] = scratch[0, s]
        if t == 0:
            add_first_column(log_trans, scratch[0], edge[0], counts, scratch[1])
