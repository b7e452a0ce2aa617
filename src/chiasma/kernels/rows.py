"""One row given the others: two-state filter and backward draw.

pair (2, T): likelihood of x = 0 and of x = 1 at every column, up to a factor per column.
alpha (2, T): filtered weights, up to a factor per column; it may be the same array as pair.
The filter is linear in its message, so it is left unnormalised and only rescaled when it has shrunk: the chain of
divisions, one per column, disappears. Of what is left of the chain, two columns are done in one step.
Both passes go from stretch to stretch of columns with one kind of edge, whose transitions then stay in registers.
"""

import math

import numpy as np

from chiasma._jit import njit, vector_njit

RESCALE_BELOW = 2.0**-100
RESCALE_BY = 2.0**100
TINY_PAIR = 1e-20
# Columns drawn at a time, so that what one loop leaves is still in the nearest cache for the next.
PIECE = 1024
# Edges looked at one by one before all the others are compared at once.
NEAR = 16


@njit
def gather_pairs(lik, log_lik, beta, codes, bit, pair):
    """Look up both settings of the row `bit` in the tables; where both are tiny, go back to logarithms."""
    keep = ~bit
    for t in range(codes.shape[0]):
        # Unsigned: a signed index would be checked for counting from the end.
        off = np.uint64(codes[t] & keep)
        on = np.uint64(codes[t] | bit)
        zero = lik[t, off]
        one = lik[t, on]
        if zero + one < TINY_PAIR:
            log_zero = log_lik[t, off]
            log_one = log_lik[t, on]
            top = max(log_zero, log_one)
            if top == -math.inf:
                # The rest of the column is impossible whatever this row does: the data say nothing about it.
                zero = 1.0
                one = 1.0
            else:
                zero = math.exp(beta * (log_zero - top))
                one = math.exp(beta * (log_one - top))
        pair[0, t] = zero
        pair[1, t] = one


@vector_njit
def _all_equal(edge, e):
    different = 0
    for t in range(edge.shape[0]):
        different += 1 if edge[t] != e else 0
    return different == 0


@njit
def stretch_after(edge, first):
    """The first column after `first` that is entered by another kind of edge, or T."""
    e = edge[first]
    t = first + 1
    near = min(edge.shape[0], first + NEAR)
    while t < near and edge[t] == e:
        t += 1
    if t == near and _all_equal(edge[t:], e):
        return edge.shape[0]
    while t < edge.shape[0] and edge[t] == e:
        t += 1
    return t


@njit
def stretch_before(edge, last, lowest):
    """The last column before `last` that is entered by another kind of edge, or `lowest`."""
    e = edge[last]
    t = last - 1
    near = max(lowest, last - NEAR)
    while t > near and edge[t] == e:
        t -= 1
    if t == near and _all_equal(edge[lowest + 1 : t + 1], e):
        return lowest
    while t > lowest and edge[t] == e:
        t -= 1
    return t


@njit
def _filter_stretch(zero, one, a00, a01, a10, a11, u, v, zero_out, one_out):
    """Filter columns entered by one kind of edge from the weights u and v; returns those of the last column."""
    n_columns = zero.shape[0]
    for t in range(0, n_columns, 2):
        a0, a2 = zero[t] * a00, zero[t] * a10
        a1, a3 = one[t] * a01, one[t] * a11
        if t + 1 < n_columns:
            # The product over two columns does not wait for the columns before: u and v depend on each other once
            # for both.
            b0, b2 = zero[t + 1] * a00, zero[t + 1] * a10
            b1, b3 = one[t + 1] * a01, one[t + 1] * a11
            zero_out[t] = u * a0 + v * a2
            one_out[t] = u * a1 + v * a3
            a0, a1, a2, a3 = a0 * b0 + a1 * b2, a0 * b1 + a1 * b3, a2 * b0 + a3 * b2, a2 * b1 + a3 * b3
        u, v = u * a0 + v * a2, u * a1 + v * a3
        # A loop and not an `if`: the compiler would turn a branch into arithmetic on every column.
        while 0.0 < u + v < RESCALE_BELOW:
            u *= RESCALE_BY
            v *= RESCALE_BY
        last = min(t + 1, n_columns - 1)
        zero_out[last] = u
        one_out[last] = v
    return u, v


@njit
def filter_row(pair, trans, edge, k, alpha):
    u = 1.0
    v = 0.0
    first = 0
    while first < edge.shape[0]:
        stop = stretch_after(edge, first)
        e = edge[first]
        u, v = _filter_stretch(
            pair[0, first:stop],
            pair[1, first:stop],
            trans[e, k, 0],
            trans[e, k, 1],
            trans[e, k, 2],
            trans[e, k, 3],
            u,
            v,
            alpha[0, first:stop],
            alpha[1, first:stop],
        )
        first = stop


@vector_njit
def _answers(zero, one, uniforms, a00, a01, a10, a11, out):
    """out[t]: bit 0 is x_t if x_{t+1} = 0, bit 1 is x_t if x_{t+1} = 1."""
    for t in range(out.shape[0]):
        one_if_zero = one[t] * a10
        one_if_one = one[t] * a11
        if_zero = uniforms[t] * (zero[t] * a00 + one_if_zero) < one_if_zero
        if_one = uniforms[t] * (zero[t] * a01 + one_if_one) < one_if_one
        out[t] = (1 if if_zero else 0) + (2 if if_one else 0)


@njit
def draw_row(alpha, trans, edge, k, uniforms, bit, codes, answers):
    """Draw the row backwards and write it into bit `bit` of `codes`. Reads one uniform per column.

    Both answers of every column are computed before it is known which one counts: that vectorises, over stretches of
    one kind of edge, and what depends on the next column is only a selection. answers (T,) is scratch.
    """
    last = codes.shape[0] - 1
    x = 1 if uniforms[last] * (alpha[0, last] + alpha[1, last]) < alpha[1, last] else 0
    codes[last] = codes[last] & ~bit | x * bit
    stop = last
    while stop > 0:
        e = edge[stop]
        first = stretch_before(edge, stop, max(0, stop - PIECE))
        _answers(
            alpha[0, first:stop],
            alpha[1, first:stop],
            uniforms[first:stop],
            trans[e, k, 0],
            trans[e, k, 1],
            trans[e, k, 2],
            trans[e, k, 3],
            answers[first:stop],
        )
        for t in range(stop - 1, first - 1, -1):
            x = answers[t] >> x & 1
            codes[t] = codes[t] & ~bit | x * bit
        stop = first


@njit
def draw_prior_row(trans, edge, k, uniforms, bit, codes):
    """Draw the row from its prior, forwards, into bit `bit` of `codes`. Reads one uniform per column."""
    x = 0
    for t in range(codes.shape[0]):
        x = 1 if uniforms[t] < trans[edge[t], k, 2 * x + 1] else 0
        codes[t] = codes[t] & ~bit | (bit if x else 0)
