"""One step of all rows: a message over N = prod_k S_k joint states times one S_k x S_k matrix per row.

A message is seen as a tensor with row 0 as its fastest axis. Neighbouring rows are taken together as one *axis*, whose
matrix is the Kronecker product of theirs, where that makes work for whole registers (`plan_axes`). Axis g has D states
at distance `stride`:

    out[o, x', i] = sum_x message[o, x, i] * step[x, x'],    o < N / (D stride), x' < D, i < stride.

The lowest axis has stride 1, and its lanes go along x'; all others have a stride of at least four, and their lanes go
along i. Where four do not divide a length, the last register overlaps the one before: it computes some numbers twice.

Messages are given as flat arrays with the place where they begin, for the reasons that `mixing` gives.

axes (G, 5): of every axis its number of states, its stride, where its matrix begins in `step`, its first row, and the
             row after its last.
step:        matrices of all axes for one kind of edge, one after the other; transposed they look back.
"""

import numpy as np

from chiasma._jit import inlined_njit, njit
from chiasma.kernels.lanes import load, spread, store, total
from chiasma.kernels.mixing import START

SIZE, STRIDE, FIRST, FIRST_ROW, STOP_ROW = range(5)
# Numbers in a register.
LANES = 4
# What a pass over a message costs beside its multiply-adds, in multiply-adds per number.
PASS = 4.0


@njit
def _axis_cost(size, stride, n_states):
    """Multiply-adds per number, counted in pairs of whole registers, of an axis; more than any for one that is
    too short.
    """
    along = size if stride == 1 else stride
    if along < LANES and size < n_states:
        return 1e300
    registers = (along + 2 * LANES - 1) // (2 * LANES) * 2
    return PASS + size * registers * LANES / along


@njit
def plan_axes(sizes):
    """The cheapest way to take neighbouring rows together, for rows of sizes (K,)."""
    n_rows = sizes.shape[0]
    n_states = sizes.prod()
    cost = np.full(n_rows + 1, np.inf)  # of the rows before each
    begin = np.zeros(n_rows + 1, np.int64)  # of the axis that ends there
    cost[0] = 0.0
    stride = 1
    for k in range(n_rows):
        size = 1
        for stop in range(k + 1, n_rows + 1):
            size *= sizes[stop - 1]
            added = cost[k] + _axis_cost(size, stride, n_states)
            if added < cost[stop]:
                cost[stop] = added
                begin[stop] = k
        stride *= sizes[k]
    n_axes = 0
    stop = n_rows
    while stop > 0:
        stop = begin[stop]
        n_axes += 1
    axes = np.empty((n_axes, 5), np.int64)
    stop = n_rows
    for g in range(n_axes - 1, -1, -1):
        axes[g, FIRST_ROW] = begin[stop]
        axes[g, STOP_ROW] = stop
        stop = begin[stop]
    stride = 1
    first = 0
    for g in range(n_axes):
        size = sizes[axes[g, FIRST_ROW] : axes[g, STOP_ROW]].prod()
        axes[g, SIZE] = size
        axes[g, STRIDE] = stride
        axes[g, FIRST] = first
        stride *= size
        first += size * size
    return axes


@njit
def make_step(axes):
    """Room for the matrices of all axes."""
    return np.empty((axes[:, SIZE] ** 2).sum())


@njit
def load_step(trans, e, layout, axes, back, step):
    """The matrices of an edge of kind e, or their transposes to look back."""
    for g in range(axes.shape[0]):
        size, first = axes[g, SIZE], axes[g, FIRST]
        n = 1  # states of the rows that are in already: the upper left corner
        step[first] = 1.0
        for k in range(axes[g, FIRST_ROW], axes[g, STOP_ROW]):
            n_row, place = layout.sizes[k], layout.first[k]
            down, across = (1, n_row) if back else (n_row, 1)
            # Backwards, because the corner itself is written last.
            for x in range(n_row - 1, -1, -1):
                for y in range(n_row - 1, -1, -1):
                    factor = trans[e, place + x * down + y * across]
                    for a in range(n):
                        there = first + (x * n + a) * size + y * n
                        here = first + a * size
                        for b in range(n):
                            step[there + b] = step[here + b] * factor
            n *= n_row


@inlined_njit
def _mix_few(size, step, message, i, out, j):
    """Fewer states than lanes, one by one."""
    for y in range(size):
        mass = 0.0
        for x in range(size):
            mass += message[i + x] * step[x * size + y]
        out[j + y] = mass


@inlined_njit
def _mix_lowest(size, n_states, step, message, i, out, j):
    """Two registers of x' and four blocks at a time."""
    last = size - 4
    for y in range(0, size, 8):
        y_a = min(y, last)
        y_b = min(y + 4, last)
        stop = n_states - n_states % (4 * size)
        for o in range(0, stop, 4 * size):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = spread(0.0)
            here = i + o
            for x in range(size):
                to_a = load(step, x * size + y_a)
                to_b = load(step, x * size + y_b)
                m0 = spread(message[np.uint64(here + x)])
                m1 = spread(message[np.uint64(here + size + x)])
                m2 = spread(message[np.uint64(here + 2 * size + x)])
                m3 = spread(message[np.uint64(here + 3 * size + x)])
                a0, b0 = a0 + m0 * to_a, b0 + m0 * to_b
                a1, b1 = a1 + m1 * to_a, b1 + m1 * to_b
                a2, b2 = a2 + m2 * to_a, b2 + m2 * to_b
                a3, b3 = a3 + m3 * to_a, b3 + m3 * to_b
            there = j + o
            store(out, there + y_a, a0)
            store(out, there + y_b, b0)
            store(out, there + size + y_a, a1)
            store(out, there + size + y_b, b1)
            store(out, there + 2 * size + y_a, a2)
            store(out, there + 2 * size + y_b, b2)
            store(out, there + 3 * size + y_a, a3)
            store(out, there + 3 * size + y_b, b3)
        for o in range(stop, n_states, size):
            a0 = b0 = spread(0.0)
            for x in range(size):
                m0 = spread(message[np.uint64(i + o + x)])
                a0 = a0 + m0 * load(step, x * size + y_a)
                b0 = b0 + m0 * load(step, x * size + y_b)
            store(out, j + o + y_a, a0)
            store(out, j + o + y_b, b0)


@inlined_njit
def _mix_to_four(size, stride, step, matrix, message, a, b, out, shift):
    """Four values of x' that begin at `matrix` in the step, for the numbers in the registers at a and b."""
    p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = spread(0.0)
    for x in range(size):
        u = load(message, a + x * stride)
        v = load(message, b + x * stride)
        c = matrix + x * size
        to_0 = spread(step[np.uint64(c)])
        to_1 = spread(step[np.uint64(c + 1)])
        to_2 = spread(step[np.uint64(c + 2)])
        to_3 = spread(step[np.uint64(c + 3)])
        p0, q0 = p0 + u * to_0, q0 + v * to_0
        p1, q1 = p1 + u * to_1, q1 + v * to_1
        p2, q2 = p2 + u * to_2, q2 + v * to_2
        p3, q3 = p3 + u * to_3, q3 + v * to_3
    there_a, there_b = a + shift, b + shift
    store(out, there_a, p0)
    store(out, there_b, q0)
    store(out, there_a + stride, p1)
    store(out, there_b + stride, q1)
    store(out, there_a + 2 * stride, p2)
    store(out, there_b + 2 * stride, q2)
    store(out, there_a + 3 * stride, p3)
    store(out, there_b + 3 * stride, q3)


@inlined_njit
def _mix_to_two(size, stride, step, matrix, message, a, b, out, shift):
    p0 = p1 = q0 = q1 = spread(0.0)
    for x in range(size):
        u = load(message, a + x * stride)
        v = load(message, b + x * stride)
        to_0 = spread(step[np.uint64(matrix + x * size)])
        to_1 = spread(step[np.uint64(matrix + x * size + 1)])
        p0, q0 = p0 + u * to_0, q0 + v * to_0
        p1, q1 = p1 + u * to_1, q1 + v * to_1
    store(out, a + shift, p0)
    store(out, b + shift, q0)
    store(out, a + shift + stride, p1)
    store(out, b + shift + stride, q1)


@inlined_njit
def _mix_to_one(size, stride, step, matrix, message, a, b, out, shift):
    p = q = spread(0.0)
    for x in range(size):
        to = spread(step[np.uint64(matrix + x * size)])
        p = p + load(message, a + x * stride) * to
        q = q + load(message, b + x * stride) * to
    store(out, a + shift, p)
    store(out, b + shift, q)


@inlined_njit
def _mix_axis(size, stride, n_states, step, matrix, message, i, out, j):
    last = stride - 4
    for o in range(i, i + n_states, size * stride):
        for s in range(0, stride, 8):
            a = o + min(s, last)
            b = o + min(s + 4, last)
            y = 0
            while y + 4 <= size:
                _mix_to_four(size, stride, step, matrix + y, message, a, b, out, j - i + y * stride)
                y += 4
            if y + 2 <= size:
                _mix_to_two(size, stride, step, matrix + y, message, a, b, out, j - i + y * stride)
                y += 2
            if y < size:
                _mix_to_one(size, stride, step, matrix + y, message, a, b, out, j - i + y * stride)


@inlined_njit
def mix(axes, n_states, step, message, i, scratch):
    """message[i:] after all axes, in scratch (2 N,) from the place that is returned: 0 or N."""
    if n_states < LANES:
        _mix_few(n_states, step, message, i, scratch, START)
    else:
        _mix_lowest(axes[0, SIZE], n_states, step, message, i, scratch, START)
    here = START
    for g in range(1, axes.shape[0]):
        there = n_states - here
        _mix_axis(axes[g, SIZE], axes[g, STRIDE], n_states, step, axes[g, FIRST], scratch, here, scratch, there)
        here = there
    _ = message.shape[0] + step.shape[0]  # see mixing
    return here


@njit
def mix_one(axes, g, n_states, step, message, i, out, j):
    """out[j:] = message[i:] after axis g alone; not the same place."""
    if n_states < LANES:
        _mix_few(n_states, step, message, i, out, j)
    elif g == 0:
        _mix_lowest(axes[0, SIZE], n_states, step, message, i, out, j)
    else:
        _mix_axis(axes[g, SIZE], axes[g, STRIDE], n_states, step, axes[g, FIRST], message, i, out, j)


@inlined_njit
def weigh(n_states, mixed, i, scale, lik, t, out, j):
    """out[j:] = mixed[i:] * scale * lik[t:]; returns the sum."""
    rest = n_states % LANES
    tail = 0.0
    for s in range(rest):
        out[j + s] = mixed[i + s] * (lik[t + s] * scale)
        tail += out[j + s]
    scales = spread(scale)
    sums = spread(0.0)
    for s in range(rest, n_states, LANES):
        weights = load(mixed, i + s) * (load(lik, t + s) * scales)
        store(out, j + s, weights)
        sums = sums + weights
    return total(sums) + tail


@inlined_njit
def staying(n_states, message, i, diagonal, mixed, j, stay, t):
    """stay[t:] = message[i:] * diagonal / mixed[j:], n_states of each."""
    rest = n_states % LANES
    for s in range(rest):
        stay[t + s] = message[i + s] * diagonal[s] / mixed[j + s]
    for s in range(rest, n_states, LANES):
        store(stay, t + s, load(message, i + s) * load(diagonal, s) / load(mixed, j + s))


@inlined_njit
def dot(n, a, i, b, j):
    """Sum of the products of a[i:] and b[j:], n of each."""
    rest = n % LANES
    tail = 0.0
    for s in range(rest):
        tail += a[i + s] * b[j + s]
    sums = spread(0.0)
    for s in range(rest, n, LANES):
        sums = sums + load(a, i + s) * load(b, j + s)
    return total(sums) + tail
