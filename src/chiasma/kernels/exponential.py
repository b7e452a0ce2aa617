"""Tempering a table of log-likelihoods: exp(beta * (x - column maximum)), with an exponential that vectorises.

exp(v) = 2^n exp(r), n the integer nearest to v / ln 2, |r| <= ln 2 / 2. Adding 1.5 * 2^52 rounds to an integer and
leaves it in the low bits of the double; shifted into the exponent field they make 2^n. exp(r) is its Taylor polynomial
of degree 13, whose remainder is below 1e-17. No `reassoc` here: it would cancel the rounding constant.
"""

import math

import numpy as np

from chiasma._jit import njit

ROUNDER = 1.5 * 2.0**52
PER_LN2 = 1.0 / math.log(2.0)
LN2_HIGH = 6.93147180369123816490e-01  # 33 bits of ln 2: its product with n is exact
LN2_LOW = 1.90821492927058770002e-10
# Below this the result is smaller than any normal double; such states are zero.
LOWEST = -708.0


@njit
def exp_in_place(x, bits):
    """x <- exp(x) for x <= 700; bits is int64 scratch of the same length."""
    scratch = bits.view(np.float64)
    for i in range(x.shape[0]):
        scratch[i] = max(x[i], LOWEST) * PER_LN2 + ROUNDER
    for i in range(x.shape[0]):
        v = max(x[i], LOWEST)
        n = scratch[i] - ROUNDER
        r = (v - n * LN2_HIGH) - n * LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        x[i] = p if x[i] >= LOWEST else 0.0
    for i in range(x.shape[0]):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(x.shape[0]):
        x[i] *= scratch[i]


@njit
def temper_table(log_lik, beta, lik):
    """lik (S, T): temper_columns of the whole table, transposed."""
    n_columns, n_states = log_lik.shape
    piece = min(64, n_columns)
    columns = np.empty((piece, n_states))
    tops = np.empty(piece)
    for first in range(0, n_columns, piece):
        n = min(piece, n_columns - first)
        temper_columns(log_lik[first : first + n], beta, columns[:n], tops)
        for s in range(n_states):
            for i in range(n):
                lik[s, first + i] = columns[i, s]


@njit
def temper_columns(log_lik, beta, lik, tops):
    """lik[t] = exp(beta * (log_lik[t] - max)), tops[t] = beta * max; a column of -inf becomes zeros, for the border to
    refuse. log_lik and lik may be the same array.
    """
    n_states = log_lik.shape[1]
    bits = np.empty(n_states, np.int64)
    for t in range(log_lik.shape[0]):
        row = log_lik[t]
        out = lik[t]
        top = -math.inf
        for s in range(n_states):
            top = max(top, row[s])
        if top == -math.inf:
            tops[t] = top
            out[:] = 0.0
            continue
        for s in range(n_states):
            out[s] = beta * (row[s] - top)
        exp_in_place(out, bits)
        tops[t] = beta * top
