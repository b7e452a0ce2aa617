"""One row given the others: forward filtering-backward sampling of a two-state chain.

alpha (2, T): filtered weights of x = 0 and of x = 1 at every column, up to a factor per column.
The filter is linear in its message, so it is left unnormalised and only rescaled when it has shrunk, against underflow:
this saves one division per column, each of which would wait for the one before. Two columns are done in one step.
Both passes work on one stretch of columns with the same kind of edge at a time, so that its transitions stay in
registers. bounds (n + 1,): where every stretch begins, and T.
"""

import math

import numpy as np

from chiasma._jit import njit, vector_njit
from chiasma.kernels.lanes import prefetch

RESCALE_BELOW = 2.0**-100
RESCALE_BY = 2.0**100
# Two likelihoods that add up to less are computed again from logarithms: underflow would lose their ratio.
TINY_PAIR = 1e-20
# How many columns ahead likelihoods are prefetched: tables of several replicas do not fit the caches.
AHEAD = 64
# Columns drawn at a time, so that what one loop writes is still in the L1 cache when the next one reads it.
PIECE = 1024


@njit
def _settings(zero, one, log_lik, beta, t, code, bit):
    """Likelihoods of both settings of a row at column t as they are, or from logarithms if they are tiny."""
    if zero + one >= TINY_PAIR:
        return zero, one
    off, on = code & ~bit, code | bit
    top = max(log_lik[t, off], log_lik[t, on])
    if top == -math.inf:
        # The rest of the column is impossible whatever this row does: the data say nothing about it.
        return 1.0, 1.0
    return math.exp(beta * (log_lik[t, off] - top)), math.exp(beta * (log_lik[t, on] - top))


@njit
def _filter_stretch(table, log_lik, beta, codes, bit, first, stop, a00, a01, a10, a11, u, v, alpha):
    """Filter columns first..stop-1, entered by one kind of edge, from the weights u and v; returns those of the last
    column. table: `lik` of filter_row, flat: codes one after the other.
    """
    n_columns = codes.shape[0]
    across = bit * n_columns
    for t in range(first, stop - 1, 2):
        ahead = min(t + AHEAD, n_columns - 1)
        # Of the setting that the path does not have: the other one was read for the row before.
        prefetch(table, (codes[ahead] ^ bit) * n_columns + ahead)
        # Unsigned: a signed index would be checked for counting from the end.
        i = np.uint64((codes[t] & ~bit) * n_columns + t)
        j = np.uint64((codes[t + 1] & ~bit) * n_columns + t + 1)
        zero, one = table[i], table[i + np.uint64(across)]
        next_zero, next_one = table[j], table[j + np.uint64(across)]
        if min(zero + one, next_zero + next_one) < TINY_PAIR:
            zero, one = _settings(zero, one, log_lik, beta, t, codes[t], bit)
            next_zero, next_one = _settings(next_zero, next_one, log_lik, beta, t + 1, codes[t + 1], bit)
        a0, a1, a2, a3 = zero * a00, one * a01, zero * a10, one * a11
        b0, b1, b2, b3 = next_zero * a00, next_one * a01, next_zero * a10, next_one * a11
        alpha[0, t] = u * a0 + v * a2
        alpha[1, t] = u * a1 + v * a3
        # Products of two columns do not depend on earlier ones: there is one dependent step for both.
        u, v = u * (a0 * b0 + a1 * b2) + v * (a2 * b0 + a3 * b2), u * (a0 * b1 + a1 * b3) + v * (a2 * b1 + a3 * b3)
        # A loop and not an `if`: the compiler would turn a branch into arithmetic on every column.
        while 0.0 < u + v < RESCALE_BELOW:
            u *= RESCALE_BY
            v *= RESCALE_BY
        alpha[0, t + 1] = u
        alpha[1, t + 1] = v
    if (stop - first) % 2 == 1:
        t = stop - 1
        i = (codes[t] & ~bit) * n_columns + t
        zero, one = _settings(table[i], table[i + across], log_lik, beta, t, codes[t], bit)
        u, v = u * zero * a00 + v * zero * a10, u * one * a01 + v * one * a11
        while 0.0 < u + v < RESCALE_BELOW:
            u *= RESCALE_BY
            v *= RESCALE_BY
        alpha[0, stop - 1] = u
        alpha[1, stop - 1] = v
    return u, v


@njit
def filter_row(lik, log_lik, beta, codes, bit, trans, edge, bounds, k, alpha):
    """Filter row k, whose settings are the two values of `bit` in codes (T,).

    lik, log_lik (T, S): tables of all codes, tempered (in Fortran order) and not. Where both settings are tiny, the
    logarithms decide.
    """
    table = lik.T.ravel()
    u = 1.0
    v = 0.0
    for i in range(bounds.shape[0] - 1):
        first, stop = bounds[i], bounds[i + 1]
        a = trans[edge[first], k]
        u, v = _filter_stretch(table, log_lik, beta, codes, bit, first, stop, a[0], a[1], a[2], a[3], u, v, alpha)


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
def draw_row(alpha, trans, edge, bounds, k, uniforms, bit, codes, answers):
    """Backward sampling of the row, written into bit `bit` of `codes`. Reads one uniform per column.

    The draw of every column is computed for both values of the next one: that vectorises, and what remains to be done
    one column after the other is a selection. answers (T,) is scratch.
    """
    last = codes.shape[0] - 1
    x = 1 if uniforms[last] * (alpha[0, last] + alpha[1, last]) < alpha[1, last] else 0
    codes[last] = codes[last] & ~bit | x * bit
    stop = last
    i = bounds.shape[0] - 2
    while stop > 0:
        # The stretch of column `stop`: its columns are entered from first..stop-1.
        while bounds[i] > stop:
            i -= 1
        first = max(bounds[i] - 1, stop - PIECE, 0)
        a = trans[edge[stop], k]
        zero, one = alpha[0, first:stop], alpha[1, first:stop]
        _answers(zero, one, uniforms[first:stop], a[0], a[1], a[2], a[3], answers[first:stop])
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
