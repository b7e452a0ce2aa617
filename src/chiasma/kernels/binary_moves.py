"""Expected numbers of moves of binary rows: the pass of `expectations` in half its operations.

In the notation of `mixing`, with the diagonals taken out, the moves of all rows between two columns have the joint
weight alpha(s) prod_k M_k(x_k, x'_k) ratio(s'), M_k = [[1, rise_k], [fall_k, 1]] and ratio = smoothed / predicted. For
row k, with the axes below it mixed ahead (left) and those above it mixed back (right),

    P(0 -> 1) = rise_k sum_rest left(0, rest) right(1, rest)
    P(1 -> 0) = fall_k sum_rest left(1, rest) right(0, rest)

and the other two follow from P(x' = 1). Sums over columns of the same kind of edge are taken before anything else.
"""

import numpy as np

from chiasma._jit import inlined_njit, njit
from chiasma.kernels.lanes import lanes_of, load, spread, store, swap_neighbours, swap_pairs
from chiasma.kernels.mixing import START, load_ratios
from chiasma.kernels.passes import divide_by, multiply, normalise
from chiasma.kernels.step import masses_on

LANES = 4
# Lanes of the sums of one axis: those of P(0 -> 1), then those of P(1 -> 0).
WIDTH = 2 * LANES


@inlined_njit
def _mix_few(k, n_states, fall, rise, message, i, out, j):
    """Fewer codes than lanes, one by one."""
    stride = 1 << k
    for s in range(n_states):
        if s & stride:
            out[j + s] = message[i + s] + message[i + s - stride] * rise
        else:
            out[j + s] = message[i + s] + message[i + s + stride] * fall


@inlined_njit
def _mix_axis(k, n_states, fall, rise, message, i, out, j):
    """out[j:] = message[i:] after axis k alone; not the same place."""
    if n_states < LANES:
        _mix_few(k, n_states, fall, rise, message, i, out, j)
    elif k == 0:
        by = lanes_of(fall, rise, fall, rise)
        for s in range(0, n_states, LANES):
            own = load(message, i + s)
            store(out, j + s, own + swap_neighbours(own) * by)
    elif k == 1:
        by = lanes_of(fall, fall, rise, rise)
        for s in range(0, n_states, LANES):
            own = load(message, i + s)
            store(out, j + s, own + swap_pairs(own) * by)
    else:
        stride = 1 << k
        falling, rising = spread(fall), spread(rise)
        for o in range(0, n_states, 2 * stride):
            for s in range(o, o + stride, LANES):
                zero, one = load(message, i + s), load(message, i + s + stride)
                store(out, j + s, zero + one * falling)
                store(out, j + s + stride, one + zero * rising)
    _ = message.shape[0] + out.shape[0]  # see mixing


@inlined_njit
def _add_products(k, n_states, left, i, right, j, sums):
    """Add left(0) right(1) and left(1) right(0) of axis k to its lanes of sums."""
    place = k * WIDTH
    if n_states < LANES:
        stride = 1 << k
        for s in range(n_states):
            if s & stride:
                sums[place + LANES] += left[i + s] * right[j + s - stride]
            else:
                sums[place] += left[i + s] * right[j + s + stride]
    elif k < 2:
        # Both kinds of products are in one register; `_split` tells them apart.
        both = load(sums, place)
        for s in range(0, n_states, LANES):
            there = load(right, j + s)
            both = both + load(left, i + s) * (swap_neighbours(there) if k == 0 else swap_pairs(there))
        store(sums, place, both)
    else:
        stride = 1 << k
        up, down = load(sums, place), load(sums, place + LANES)
        for o in range(0, n_states, 2 * stride):
            for s in range(o, o + stride, LANES):
                up = up + load(left, i + s) * load(right, j + s + stride)
                down = down + load(left, i + s + stride) * load(right, j + s)
        store(sums, place, up)
        store(sums, place + LANES, down)
    _ = left.shape[0] + right.shape[0] + sums.shape[0]  # see mixing


@njit
def _split(k, n_states, sums):
    """The two sums of axis k."""
    place = k * WIDTH
    up = down = 0.0
    for lane in range(LANES):
        if n_states < LANES or k > 1:
            up += sums[place + lane]
            down += sums[place + LANES + lane]
        elif lane >> k & 1:
            down += sums[place + lane]
        else:
            up += sums[place + lane]
    return up, down


@njit
def _flush(ratios, e, n_edges, sums, smoothed, counts, marginals, scratch):
    """counts[e] += the moves of all rows over n_edges edges; empties the sums."""
    n_states = smoothed.shape[0]
    masses_on(smoothed, marginals, scratch)
    for k in range(marginals.shape[0]):
        up, down = _split(k, n_states, sums)
        up *= ratios[1, k]
        down *= ratios[0, k]
        counts[e, 4 * k] += n_edges - marginals[k] - down
        counts[e, 4 * k + 1] += up
        counts[e, 4 * k + 2] += down
        counts[e, 4 * k + 3] += marginals[k] - up
    sums.fill(0.0)
    smoothed.fill(0.0)


@njit
def count_binary(trans, alpha, edge, first, gamma, smoothed, counts, scratch):
    """expectations.count_block of rows of two states."""
    n_columns, n_states, n_rows = edge.shape[0], gamma.shape[0], trans.shape[1]
    ratios = np.empty((2, n_rows))
    sums, totals, marginals = np.zeros(n_rows * WIDTH), np.zeros(n_states), np.empty(n_rows)
    flat_alpha = alpha.ravel()
    flat = scratch.ravel()  # alpha after 0, 1, ... axes, and one row more
    loaded = -1
    n_edges = 0
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == n_columns - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            if edge[t + 1] != loaded:
                if n_edges:
                    _flush(ratios, loaded, n_edges, sums, totals, counts, marginals, scratch[0])
                loaded = edge[t + 1]
                load_ratios(trans, loaded, ratios)
                n_edges = 0
            n_edges += 1
            for s in range(n_states):
                totals[s] += gamma[s]
                flat[s] = flat_alpha[i * n_states + s]
            for k in range(n_rows):
                _mix_axis(k, n_states, ratios[0, k], ratios[1, k], flat, k * n_states, flat, (k + 1) * n_states)
            divide_by(flat, n_rows * n_states, gamma)
            for s in range(n_states):
                flat[n_rows * n_states + s] = gamma[s]
            # Looking back, rise and fall change places; what the axis held ahead is no longer needed.
            for k in range(n_rows - 1, -1, -1):
                here, there = (k + 1) * n_states, k * n_states
                _add_products(k, n_states, flat, there, flat, here, sums)
                _mix_axis(k, n_states, ratios[1, k], ratios[0, k], flat, here, flat, there)
            multiply(flat_alpha, i * n_states, flat, START, gamma)
        normalise(gamma)
        if smoothed.shape[0] > 0:
            for s in range(n_states):
                smoothed[i, s] = gamma[s]
        if t == 0:
            masses_on(gamma, marginals, scratch[0])
            for k in range(n_rows):
                counts[edge[0], 4 * k] += 1.0 - marginals[k]
                counts[edge[0], 4 * k + 1] += marginals[k]
    if n_edges:
        _flush(ratios, loaded, n_edges, sums, totals, counts, marginals, scratch[0])
