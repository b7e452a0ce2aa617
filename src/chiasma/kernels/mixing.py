"""One step of all rows of a block: a tensor of S = 2^b weights times one 2x2 matrix per axis.

With the probabilities of staying taken out of each matrix,

    zero' = A00 (zero + one * A10 / A00)        one' = A11 (one + zero * A01 / A11),

an axis costs one multiply-add per code. `mix` does these with fall = A10 / A00 and rise = A01 / A11, both (b,);
what was taken out, the product over rows of A00 or A11, is the `diagonal` (S,), which `weigh` puts back.
Fewer than eight codes do not fill the lanes and are mixed one by one.

A message is given as a flat array and the index where it begins: a slice made for every column would cost reference
counting, which takes longer than a step of three rows. So would an early return from an inlined function, and arrays
whose last use is in one of several branches: they would be released in every branch. Such functions end with a line
`_ = array.shape[0]`, where arrays are released once, and the compiler sees that nothing has to be counted: filters of
two to six rows then take a third to a half of the time.
"""

import math

import numpy as np

from chiasma._jit import inlined_njit, njit
from chiasma.kernels.lanes import lanes_of, load, spread, store, swap_neighbours, swap_pairs, total
from chiasma.kernels.transitions import stay_products

# Codes that `mix` takes at once on the lowest three axes.
EIGHT = 8
# Rescaling against underflow: by powers of two, which are exact, and only when a message has shrunk.
RESCALE_BELOW = 2.0**-32
RESCALE_BY = 2.0**32
LOG_RESCALE = 32 * math.log(2.0)
# Where an array begins. For a plain 0 every function would be compiled once more.
START = np.int64(0)


@njit
def load_ratios(trans, e, ratios):
    """ratios (2, b): fall and rise of an edge of kind e."""
    for k in range(trans.shape[1]):
        ratios[0, k] = trans[e, k, 2] / trans[e, k, 0]
        ratios[1, k] = trans[e, k, 1] / trans[e, k, 3]


@njit
def load_edge(trans, e, ratios, diagonal):
    """What `mix` needs of one kind of edge, and what it leaves out."""
    load_ratios(trans, e, ratios)
    stay_products(trans, e, diagonal)


@inlined_njit
def _mix_few(message, i, fall, rise, out, j):
    n_states = 1 << fall.shape[0]
    for s in range(n_states):
        out[j + s] = message[i + s]
    for k in range(fall.shape[0]):
        stride = 1 << k
        for s in range(j, j + n_states):
            if s - j & stride == 0:
                zero, one = out[s], out[s + stride]
                out[s] = zero + one * fall[k]
                out[s + stride] = one + zero * rise[k]


@inlined_njit
def _mix_low_axes(message, i, fall, rise, out, j):
    """Axes 0, 1 and 2."""
    by_neighbour = lanes_of(fall[0], rise[0], fall[0], rise[0])
    by_pair = lanes_of(fall[1], fall[1], rise[1], rise[1])
    falling = spread(fall[2])
    rising = spread(rise[2])
    for s in range(0, 1 << fall.shape[0], 8):
        zero = load(message, i + s)
        one = load(message, i + s + 4)
        zero = zero + swap_neighbours(zero) * by_neighbour
        one = one + swap_neighbours(one) * by_neighbour
        zero = zero + swap_pairs(zero) * by_pair
        one = one + swap_pairs(one) * by_pair
        store(out, j + s, zero + one * falling)
        store(out, j + s + 4, one + zero * rising)


@inlined_njit
def mix_axis(message, i, k, n_axes, falling, rising):
    """Axis k of n_axes of message[i:], in place, by fall and rise in lanes; k is 2 or more."""
    stride = 1 << k
    for block in range(1 << n_axes - k - 1):
        base = i + (block << k + 1)
        for s in range(base, base + stride, 4):
            zero = load(message, s)
            one = load(message, s + stride)
            store(message, s, zero + one * falling)
            store(message, s + stride, one + zero * rising)


@inlined_njit
def mix_two_axes(message, i, k, n_axes, fall_a, rise_a, fall_b, rise_b):
    """Axes k and k + 1 at once: half the loads and stores."""
    stride = 1 << k
    for block in range(1 << n_axes - k - 2):
        base = i + (block << k + 2)
        for s in range(base, base + stride, 4):
            x0 = load(message, s)
            x1 = load(message, s + stride)
            x2 = load(message, s + 2 * stride)
            x3 = load(message, s + 3 * stride)
            u0, u1 = x0 + x1 * fall_a, x1 + x0 * rise_a
            u2, u3 = x2 + x3 * fall_a, x3 + x2 * rise_a
            store(message, s, u0 + u2 * fall_b)
            store(message, s + stride, u1 + u3 * fall_b)
            store(message, s + 2 * stride, u2 + u0 * rise_b)
            store(message, s + 3 * stride, u3 + u1 * rise_b)


@inlined_njit
def mix_three_axes(message, i, k, n_axes, fall_a, rise_a, fall_b, rise_b, fall_c, rise_c):
    """Axes k, k + 1 and k + 2 at once: a third of the loads and stores; more values would not fit the registers."""
    stride = 1 << k
    for block in range(1 << n_axes - k - 3):
        base = i + (block << k + 3)
        for s in range(base, base + stride, 4):
            x0 = load(message, s)
            x1 = load(message, s + stride)
            x2 = load(message, s + 2 * stride)
            x3 = load(message, s + 3 * stride)
            x4 = load(message, s + 4 * stride)
            x5 = load(message, s + 5 * stride)
            x6 = load(message, s + 6 * stride)
            x7 = load(message, s + 7 * stride)
            u0, u1 = x0 + x1 * fall_a, x1 + x0 * rise_a
            u2, u3 = x2 + x3 * fall_a, x3 + x2 * rise_a
            u4, u5 = x4 + x5 * fall_a, x5 + x4 * rise_a
            u6, u7 = x6 + x7 * fall_a, x7 + x6 * rise_a
            v0, v2 = u0 + u2 * fall_b, u2 + u0 * rise_b
            v1, v3 = u1 + u3 * fall_b, u3 + u1 * rise_b
            v4, v6 = u4 + u6 * fall_b, u6 + u4 * rise_b
            v5, v7 = u5 + u7 * fall_b, u7 + u5 * rise_b
            store(message, s, v0 + v4 * fall_c)
            store(message, s + stride, v1 + v5 * fall_c)
            store(message, s + 2 * stride, v2 + v6 * fall_c)
            store(message, s + 3 * stride, v3 + v7 * fall_c)
            store(message, s + 4 * stride, v4 + v0 * rise_c)
            store(message, s + 5 * stride, v5 + v1 * rise_c)
            store(message, s + 6 * stride, v6 + v2 * rise_c)
            store(message, s + 7 * stride, v7 + v3 * rise_c)


# Ratios are read in functions of their own: read in `mix` itself, whose loops they leave and enter, the filter takes up
# to 1.6 times as long (`tools/in_turns.py`).


@inlined_njit
def _one_axis(message, i, k, fall, rise):
    falling = spread(fall[k])
    rising = spread(rise[k])
    mix_axis(message, i, k, fall.shape[0], falling, rising)


@inlined_njit
def _two_axes(message, i, k, fall, rise):
    fall_a = spread(fall[k])
    rise_a = spread(rise[k])
    fall_b = spread(fall[k + 1])
    rise_b = spread(rise[k + 1])
    mix_two_axes(message, i, k, fall.shape[0], fall_a, rise_a, fall_b, rise_b)


@inlined_njit
def _three_axes(message, i, k, fall, rise):
    fall_a = spread(fall[k])
    rise_a = spread(rise[k])
    fall_b = spread(fall[k + 1])
    rise_b = spread(rise[k + 1])
    fall_c = spread(fall[k + 2])
    rise_c = spread(rise[k + 2])
    mix_three_axes(message, i, k, fall.shape[0], fall_a, rise_a, fall_b, rise_b, fall_c, rise_c)


@inlined_njit
def mix(message, i, fall, rise, out, j):
    """out[j:] = message[i:] after all axes; with fall and rise exchanged, one step backwards. Both may be the same
    place.
    """
    n_rows = fall.shape[0]
    rest = n_rows - 3
    if rest < 0:
        _mix_few(message, i, fall, rise, out, j)
    else:
        _mix_low_axes(message, i, fall, rise, out, j)
    # As many pairs as leave a multiple of three.
    n_pairs = 2 * rest % 3 if rest > 1 else 0
    for n in range(n_pairs):
        _two_axes(out, j, 3 + 2 * n, fall, rise)
    for n in range((rest - 2 * n_pairs) // 3 if rest > 1 else 0):
        _three_axes(out, j, 3 + 2 * n_pairs + 3 * n, fall, rise)
    if rest == 1:
        _one_axis(out, j, n_rows - 1, fall, rise)
    _ = message.shape[0] + out.shape[0] + fall.shape[0] + rise.shape[0]


@inlined_njit
def weigh(mixed, j, diagonal, scale, lik, t):
    """mixed[j:] *= diagonal * scale * lik[t:]; returns the sum."""
    n_states = diagonal.shape[0]
    few = 0.0
    scales = spread(scale)
    sum_a = spread(0.0)
    sum_b = spread(0.0)
    if n_states < EIGHT:
        for s in range(n_states):
            mixed[j + s] *= diagonal[s] * (lik[t + s] * scale)
            few += mixed[j + s]
    else:
        for s in range(0, n_states, 8):
            a = load(mixed, j + s) * (load(diagonal, s) * (load(lik, t + s) * scales))
            b = load(mixed, j + s + 4) * (load(diagonal, s + 4) * (load(lik, t + s + 4) * scales))
            store(mixed, j + s, a)
            store(mixed, j + s + 4, b)
            sum_a = sum_a + a
            sum_b = sum_b + b
    _ = mixed.shape[0] + diagonal.shape[0] + lik.shape[0]
    return total(sum_a + sum_b) + few


@inlined_njit
def divide(n_states, before, i, mixed, j, out, k):
    """out[k:] = before[i:] / mixed[j:], n_states of each."""
    if n_states < EIGHT:
        for s in range(n_states):
            out[k + s] = before[i + s] / mixed[j + s]
    else:
        for s in range(0, n_states, 4):
            store(out, k + s, load(before, i + s) / load(mixed, j + s))
    _ = before.shape[0] + mixed.shape[0] + out.shape[0]


@inlined_njit
def dot(n_states, a, i, b, j):
    """Sum of the products of a[i:] and b[j:], n_states of each."""
    few = 0.0
    sum_a = spread(0.0)
    sum_b = spread(0.0)
    if n_states < EIGHT:
        for s in range(n_states):
            few += a[i + s] * b[j + s]
    else:
        for s in range(0, n_states, 8):
            sum_a = sum_a + load(a, i + s) * load(b, j + s)
            sum_b = sum_b + load(a, i + s + 4) * load(b, j + s + 4)
    _ = a.shape[0] + b.shape[0]
    return total(sum_a + sum_b) + few


# ---- Three rows: a column of eight codes stays in two registers between steps ----------------------------------------


@njit
def filter_eight(lik, trans, edge, first, message, alpha, stay):
    """As passes.filter_block, whose arguments these are: the same numbers in 0.32 to 0.38 of the time of the general
    filter (T = 10,877 and 1,000, with and without stay).
    """
    n_columns = lik.shape[0]
    n_kept = alpha.shape[0]
    keep_stay = stay.shape[0] > 0
    flat_lik, flat_alpha, flat_stay = lik.ravel(), alpha.ravel(), stay.ravel()
    ratios, diagonal = np.empty((2, 3)), np.empty(8)
    by_neighbour = by_pair = falling = rising = spread(0.0)
    low_diagonal = high_diagonal = spread(0.0)
    low, high = load(message, 0), load(message, 4)
    before = total(low + high)
    mass = before
    scale = 1.0
    n_rescaled = 0
    loaded = -1
    row = -8
    for i in range(n_columns):
        e = edge[first + i]
        if e != loaded:
            load_edge(trans, e, ratios, diagonal)
            loaded = e
            by_neighbour = lanes_of(ratios[0, 0], ratios[1, 0], ratios[0, 0], ratios[1, 0])
            by_pair = lanes_of(ratios[0, 1], ratios[0, 1], ratios[1, 1], ratios[1, 1])
            falling, rising = spread(ratios[0, 2]), spread(ratios[1, 2])
            low_diagonal, high_diagonal = load(diagonal, 0), load(diagonal, 4)
        row = row + 8 if row + 8 < 8 * n_kept else 0
        u = low + swap_neighbours(low) * by_neighbour
        v = high + swap_neighbours(high) * by_neighbour
        u = u + swap_pairs(u) * by_pair
        v = v + swap_pairs(v) * by_pair
        mixed_low, mixed_high = u + v * falling, v + u * rising
        if keep_stay:
            store(flat_stay, 8 * i, low / mixed_low)
            store(flat_stay, 8 * i + 4, high / mixed_high)
        scales = spread(scale)
        low = mixed_low * (low_diagonal * (load(flat_lik, 8 * i) * scales))
        high = mixed_high * (high_diagonal * (load(flat_lik, 8 * i + 4) * scales))
        store(flat_alpha, row, low)
        store(flat_alpha, row + 4, high)
        mass = total(low + high)
        scale = 1.0
        while 0.0 < mass * scale < RESCALE_BELOW:
            scale *= RESCALE_BY
            n_rescaled += 1
    store(message, 0, low * spread(scale))
    store(message, 4, high * spread(scale))
    return math.log(mass * scale) - math.log(before) - LOG_RESCALE * n_rescaled
