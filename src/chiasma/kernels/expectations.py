"""Expectations over paths, for gradients: moves of every row, in linear space and in logarithms, and sums of features.

The moves of all rows between two columns have the joint weight alpha(s) prod_k A_k(x_k, x'_k) ratio(s'), where
ratio = smoothed / predicted of the second column. For one axis (see `axes`) the others are summed out half from the
left and half from the right,

    P(x, x' | y) = A(x, x') sum_rest left(x, rest) right(x', rest):

`left` is alpha after the axes below it, `right` is the ratio after the axes above it, looking back. Both sides are made
on the way of one step ahead and one step back, so that counting costs about as much as one step more.

In logarithms, for transitions of (almost) zero probability, every term of

    P(x, x' | y) = sum_rest exp(left(x, rest) + log A(x, x') + right(x', rest))

is at most 1, so that no maximum has to be taken out.
"""

import math

import numpy as np

from chiasma._jit import by_form, njit, vector_njit
from chiasma.kernels.axes import (
    FIRST,
    FIRST_ROW,
    LANES,
    SIZE,
    STOP_ROW,
    STRIDE,
    load_step,
    make_step,
    mix_one,
    plan_axes,
)
from chiasma.kernels.binary_moves import count_binary
from chiasma.kernels.lanes import load, spread, store, total
from chiasma.kernels.log_passes import largest, load_matrices, sum_axis
from chiasma.kernels.logspace import log_sum
from chiasma.kernels.mixing import START
from chiasma.kernels.passes import divide_by, multiply, normalise
from chiasma.kernels.step import row_marginals


@njit
def _multiply_lowest(size, n_states, left, i, right, j, out):
    """out[x * size + y] = sum_o left[o, x] * right[o, y]: four y at a time, the last of them perhaps once more."""
    for x in range(size):
        for y in range(0, size, LANES):
            y = min(y, size - LANES)
            sums = spread(0.0)
            for o in range(0, n_states, size):
                sums = sums + spread(left[np.uint64(i + o + x)]) * load(right, j + o + y)
            store(out, x * size + y, sums)


@njit
def _multiply_axis(size, stride, n_states, left, i, right, j, out, first):
    """out[first + x * size + y] = sum_{o, s} left[o, x, s] * right[o, y, s]: four y at a time, as above."""
    whole = stride - stride % LANES
    for x in range(size):
        for y in range(0, size, LANES):
            y_b, y_c, y_d = min(y + 1, size - 1), min(y + 2, size - 1), min(y + 3, size - 1)
            a = b = c = d = spread(0.0)
            tail_a = tail_b = tail_c = tail_d = 0.0
            for o in range(0, n_states, size * stride):
                here, there = i + o + x * stride, j + o
                to_a, to_b = there + y * stride, there + y_b * stride
                to_c, to_d = there + y_c * stride, there + y_d * stride
                for s in range(0, whole, LANES):
                    weights = load(left, here + s)
                    a = a + weights * load(right, to_a + s)
                    b = b + weights * load(right, to_b + s)
                    c = c + weights * load(right, to_c + s)
                    d = d + weights * load(right, to_d + s)
                for s in range(whole, stride):
                    weight = left[np.uint64(here + s)]
                    tail_a += weight * right[np.uint64(to_a + s)]
                    tail_b += weight * right[np.uint64(to_b + s)]
                    tail_c += weight * right[np.uint64(to_c + s)]
                    tail_d += weight * right[np.uint64(to_d + s)]
            place = first + x * size
            out[place + y] = total(a) + tail_a
            out[place + y_b] = total(b) + tail_b
            out[place + y_c] = total(c) + tail_c
            out[place + y_d] = total(d) + tail_d


@njit
def _add_products(axes, g, n_states, left, i, right, j, out, sums):
    """Add to the part of axis g in sums the products of left[i:] and right[j:]; out is scratch of that shape."""
    size, first = axes[g, SIZE], axes[g, FIRST]
    if g == 0 and size >= LANES:
        _multiply_lowest(size, n_states, left, i, right, j, out)
    else:
        _multiply_axis(size, axes[g, STRIDE], n_states, left, i, right, j, out, first)
    for n in range(first, first + size * size):
        sums[n] += out[n]


@njit
def _add_moves(axes, layout, step, sums, e, counts):
    """counts[e] += moves of single rows out of sums, those of whole axes without their probabilities; empties sums."""
    for g in range(axes.shape[0]):
        size, first = axes[g, SIZE], axes[g, FIRST]
        stride = 1  # of row k within the axis
        for k in range(axes[g, FIRST_ROW], axes[g, STOP_ROW]):
            n_row, place = layout.sizes[k], layout.first[k]
            for x in range(size):
                for y in range(size):
                    move = x // stride % n_row * n_row + y // stride % n_row
                    counts[e, place + move] += step[first + x * size + y] * sums[first + x * size + y]
            stride *= n_row
    sums.fill(0.0)


@njit
def add_first_column(trans, gamma, e, counts, scratch):
    """Column 0 is entered from state 0 of every row, as in a count of the moves of a path."""
    layout = trans.layout
    marginals = np.empty(layout.sizes.sum())
    row_marginals(trans, gamma, marginals, scratch)
    place = 0
    for k in range(layout.sizes.shape[0]):
        for x in range(layout.sizes[k]):
            counts[e, layout.first[k] + x] += marginals[place + x]
        place += layout.sizes[k]


@njit
def _count_general(trans, alpha, edge, first, gamma, smoothed, counts, scratch):
    table, layout = trans.table, trans.layout
    n_columns, n_states = edge.shape[0], gamma.shape[0]
    axes = plan_axes(layout.sizes)
    n_axes = axes.shape[0]
    ahead, back = make_step(axes), make_step(axes)
    products, sums = np.empty(ahead.shape[0]), np.zeros(ahead.shape[0])
    flat_alpha = alpha.ravel()
    flat = scratch.ravel()  # alpha after 0, 1, ... axes
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == n_columns - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            if edge[t + 1] != loaded:
                if loaded >= 0:
                    _add_moves(axes, layout, ahead, sums, loaded, counts)
                loaded = edge[t + 1]
                load_step(table, loaded, layout, axes, False, ahead)
                load_step(table, loaded, layout, axes, True, back)
            for s in range(n_states):
                flat[s] = flat_alpha[i * n_states + s]
            for g in range(n_axes):
                mix_one(axes, g, n_states, ahead, flat, g * n_states, flat, (g + 1) * n_states)
            divide_by(flat, n_axes * n_states, gamma)
            for s in range(n_states):
                flat[n_axes * n_states + s] = gamma[s]
            # The axes' results are no longer needed once they are counted: the way back overwrites them.
            for g in range(n_axes - 1, -1, -1):
                here, there = (g + 1) * n_states, g * n_states
                _add_products(axes, g, n_states, flat, there, flat, here, products, sums)
                mix_one(axes, g, n_states, back, flat, here, flat, there)
            multiply(flat_alpha, i * n_states, flat, START, gamma)
        normalise(gamma)
        if smoothed.shape[0] > 0:
            for s in range(n_states):
                smoothed[i, s] = gamma[s]
        if t == 0:
            add_first_column(trans, gamma, edge[0], counts, scratch[0])
    if loaded >= 0:
        _add_moves(axes, layout, ahead, sums, loaded, counts)


# count_block(trans, alpha, edge, first, gamma, smoothed, counts, scratch): add to counts (E, M)
# P(x[k, t-1] = x, x[k, t] = x' | y), by kind of edge and in the order of Matrices.table, for the edges that leave
# columns first..first+n-1 and the one that enters column 0. alpha (n, S) and gamma (S,) as in passes.smooth_block.
# smoothed (n, S), the smoothed distributions, may be alpha itself, and have no rows if it is not wanted.
# scratch (K + 1, S).
count_block = by_form(count_binary, _count_general, inlined=False)


# ---- In logarithms ---------------------------------------------------------------------------------------------------


@njit
def _sum_one(log_trans, e, layout, k, message, back, matrix, spare):
    """One step of row k alone, in place."""
    size = layout.sizes[k]
    down, across = (1, size) if back else (size, 1)
    sum_axis(message, size, layout.strides[k], log_trans, e, matrix, layout.first[k], down, across, spare)


@njit
def _add_moves_of_logs(left, right, size, stride, log_trans, e, first, counts):
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
    """As count_block, with alpha and gamma in logarithms and smoothed as probabilities."""
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
                _add_moves_of_logs(scratch[k], gamma, layout.sizes[k], stride, table, e, place, counts)
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


# ---- Sums of features ------------------------------------------------------------------------------------------------


@vector_njit
def add_weighted(weights, features, out):
    """out[f, s] += sum_t weights[t, s] * features[t, f]; weights (n, S), features (n, F), out (F, S)."""
    n_states = weights.shape[1]
    for t in range(weights.shape[0]):
        for f in range(features.shape[1]):
            factor = features[t, f]
            for s in range(n_states):
                out[f, s] += weights[t, s] * factor
