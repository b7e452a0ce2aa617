"""Numbers given by their logarithms: sums, and tempering a table with an exponential that vectorises.

The exponential: exp(v) = 2^n exp(r), n the integer nearest to v / ln 2, |r| <= ln 2 / 2. Adding 1.5 * 2^52 rounds to an
integer and leaves it in the low bits of the double; shifted into the exponent field they make 2^n. exp(r) is its Taylor
polynomial of degree 13, whose remainder is below 1e-17. No `reassoc` here: it would cancel the rounding constant.
"""

import math
from struct import pack, unpack

import numpy as np
from llvmlite import ir
from numba import types

from chiasma._jit import interpreted_as, njit


@njit
def log_add(a, b):
    top = max(a, b)
    if top == -math.inf:
        return top
    return top + math.log1p(math.exp(min(a, b) - top))


@njit
def log_sum(values):
    top = -math.inf
    for value in values:
        top = max(top, value)
    if top == -math.inf:
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


@njit
def forget_impossible(log_lik):
    """Columns without a possible candidate become flat, as in linear passes: the data say nothing there."""
    for t in range(log_lik.shape[0]):
        top = -math.inf
        for s in range(log_lik.shape[1]):
            top = max(top, log_lik[t, s])
        if top == -math.inf:
            for s in range(log_lik.shape[1]):
                log_lik[t, s] = 0.0


# ---- Tempering: exp(beta * (x - column maximum)) ---------------------------------------------------------------------

ROUNDER = 1.5 * 2.0**52
PER_LN2 = 1.0 / math.log(2.0)
LN2_HIGH = 6.93147180369123816490e-01  # 33 bits of ln 2: its product with n is exact
LN2_LOW = 1.90821492927058770002e-10
# Below this the exponential underflows the normal doubles; it is taken as zero.
LOWEST = -708.0
INT64 = ir.IntType(64)


def _shift_bits(rounded):
    (bits,) = unpack("<Q", pack("<d", rounded))
    return unpack("<d", pack("<Q", (bits + 1023 << 52) % 2**64))[0]


@interpreted_as(_shift_bits)
def _power_of_two(_, rounded):
    """2^n from n + ROUNDER."""

    def generate(context, builder, signature, args):
        bits = builder.add(builder.bitcast(args[0], INT64), INT64(1023))
        return builder.bitcast(builder.shl(bits, INT64(52)), ir.DoubleType())

    return types.float64(types.float64), generate


@njit
def exp_in_place(x):
    """x <- exp(x) for x <= 700; NaN and whatever is below LOWEST give 0, and larger numbers garbage."""
    for i in range(x.shape[0]):
        v = max(float(x[i]), LOWEST)  # plain Python computes faster with its own numbers than with NumPy's
        rounded = v * PER_LN2 + ROUNDER
        n = rounded - ROUNDER
        r = (v - n * LN2_HIGH) - n * LN2_LOW
        # The polynomial less 1 + r, by pairs and pairs of pairs: one multiply-add after the other would take longer.
        r2 = r * r
        r4 = r2 * r2
        c2 = (1.0 / 2.0 + 1.0 / 6.0 * r) + r2 * (1.0 / 24.0 + 1.0 / 120.0 * r)
        c6 = (1.0 / 720.0 + 1.0 / 5040.0 * r) + r2 * (1.0 / 40320.0 + 1.0 / 362880.0 * r)
        c10 = (1.0 / 3628800.0 + 1.0 / 39916800.0 * r) + r2 * (1.0 / 479001600.0 + 1.0 / 6227020800.0 * r)
        p = 1.0 + (r + r2 * (c2 + r4 * (c6 + r4 * c10)))
        x[i] = p * _power_of_two(rounded) if x[i] >= LOWEST else 0.0


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
    """lik[t] = exp(beta * (log_lik[t] - max)), tops[t] = beta * max; a column of -inf becomes zeros, which
    the caller must refuse. log_lik and lik may be the same array.
    """
    n_states = log_lik.shape[1]
    for t in range(log_lik.shape[0]):
        row = log_lik[t]
        out = lik[t]
        top = -math.inf
        for s in range(n_states):
            top = max(top, row[s])
        if top == -math.inf:
            tops[t] = top
            out.fill(0.0)
            continue
        for s in range(n_states):
            out[s] = beta * (row[s] - top)
        exp_in_place(out)
        tops[t] = beta * top
