"""Gaussian log-likelihoods of many levels in one pass, and likelihoods of all codes from K exponentials per column.

With z = y - centre and m_s = mean of code s - centre, the centre being half-way between the extreme means,

    log N(y; mean_s, sd^2)^beta = constant - p z^2 / 2 + (p z m_s - p m_s^2 / 2),        p = beta / sd^2.

m_s is a sum over the rows that are on, so exp(p z m_s) is a product over them, built by doubling, and
exp(-p m_s^2 / 2) does not depend on the column. The bracket is at most p (z m - m^2 / 2) at m = z, or at the nearest
end of the means where z is outside them; divided by that, no likelihood exceeds 1. Neighbouring means are no further
apart than the largest step of one row, so the largest likelihood of a column is at least exp(-p step^2 / 8).
"""

import math
from typing import NamedTuple

import numpy as np

from chiasma._jit import inlined_njit, njit
from chiasma.kernels.best import filter_best
from chiasma.kernels.lanes import lanes_of, load, spread, store
from chiasma.kernels.logspace import exp_in_place
from chiasma.kernels.passes import filter_block

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# Exponents of partial products stay within this, so that none underflows; past it, a column takes one exponential per
# code.
WIDEST = 600.0
# Columns done at a time, so that their exponents stay in the L1 cache.
PIECE = 64


class Factors(NamedTuple):
    """What all columns share."""

    precision: float  # p
    centre: float
    reach: float  # largest |m_s|
    farthest: float  # p step^2 / 8 for the largest step of one row
    constant: float  # beta * log(1 / (sd sqrt(2 pi)))
    lowest: float  # m of code 0
    steps: np.ndarray  # (K,) what each row adds to m
    shape: np.ndarray  # (S,) exp(-p m_s^2 / 2)
    means: np.ndarray  # (S,) m_s


@njit
def gaussian_log_likelihood(y, level, depth, sd, out):
    """out[n, m] = sum_d log N(y[n, d]; depth[d] * level[n, m, d], sd[d]^2), over the channels that are not NaN.

    level (N, M, D), or (1, M, D) when all columns share it.
    """
    n_columns, n_channels = y.shape
    constants = np.empty(n_channels)
    for d in range(n_channels):
        constants[d] = math.log(sd[d]) + HALF_LOG_TWO_PI
    for n in range(n_columns):
        own = n if level.shape[0] > 1 else 0
        for m in range(out.shape[1]):
            out[n, m] = 0.0
        for d in range(n_channels):
            if not math.isnan(y[n, d]):
                scale = 1.0 / sd[d]
                for m in range(out.shape[1]):
                    z = (y[n, d] - depth[d] * level[own, m, d]) * scale
                    out[n, m] -= 0.5 * z * z + constants[d]


@njit
def make_factors(weights, base, depth, sd, beta):
    """Factors of rows with these weights (K,) on top of the level `base`."""
    n_rows = weights.shape[0]
    # Without array expressions, min and max: each would be compiled as a function.
    steps = np.empty(n_rows)
    means = np.empty(1 << n_rows)
    shape = np.empty(1 << n_rows)
    means[0] = depth * base
    low = high = largest = 0.0
    for k in range(n_rows):
        steps[k] = depth * weights[k]
    for k in range(n_rows):
        size = 1 << k
        for s in range(size):
            means[size + s] = means[s] + steps[k]
        if steps[k] < 0.0:
            low += steps[k]
        else:
            high += steps[k]
        if abs(steps[k]) > largest:
            largest = abs(steps[k])
    centre = means[0] + 0.5 * (low + high)
    precision = beta / (sd * sd)
    for s in range(means.shape[0]):
        means[s] -= centre
        shape[s] = -0.5 * precision * means[s] * means[s]
    exp_in_place(shape)
    constant = -beta * (math.log(sd) + HALF_LOG_TWO_PI)
    farthest = 0.125 * precision * largest * largest
    return Factors(precision, centre, 0.5 * (high - low), farthest, constant, means[0], steps, shape, means)


@inlined_njit
def code_products(powers, i, n, lik, first, shape):
    """lik[first + s] = shape[s] * powers[i] * the product of powers[(k + 1) * n + i] over the rows k of s."""
    n_states = shape.shape[0]
    n_rows = powers.shape[0] // n - 1
    half = n_states // 2
    base = powers[i]
    last = powers[n_rows * n + i]
    if n_rows < 3:
        other = powers[n + i] if n_rows == 2 else 1.0
        for s in range(half):
            value = base * other if s == 1 else base
            lik[first + s] = value * shape[s]
            lik[first + half + s] = value * last * shape[half + s]
    else:
        a, b = powers[n + i], powers[2 * n + i]
        low = lanes_of(base, base * a, base * b, base * a * b)
        high = low * spread(powers[3 * n + i])
        if n_rows == 3:
            low = low * load(shape, 0)
            high = high * load(shape, 4)
        store(lik, first, low)
        store(lik, first + 4, high)
        # Every row doubles the number of products; the last one also multiplies by the shape.
        for k in range(3, n_rows - 1):
            factor = spread(powers[(k + 1) * n + i])
            for s in range(first, first + (1 << k), 4):
                store(lik, s + (1 << k), load(lik, s) * factor)
        if n_rows > 3:
            factor = spread(last)
            for s in range(0, half, 4):
                value = load(lik, first + s)
                store(lik, first + s, value * load(shape, s))
                store(lik, first + half + s, value * factor * load(shape, half + s))


@njit
def direct_column(factors, z, column):
    """One exponential per code; returns the exponent that was taken out."""
    top = -math.inf
    for s in range(column.shape[0]):
        m = factors.means[s]
        column[s] = factors.precision * (z - 0.5 * m) * m
        top = max(top, column[s])
    for s in range(column.shape[0]):
        column[s] -= top
    exp_in_place(column)
    return top


@njit
def _exponents(y, factors, out, tops):
    """out (K + 1, n) flat: exponents of what the products of n columns are made of, and what is taken out of them."""
    n_columns = y.shape[0]
    precision, reach = factors.precision, factors.reach
    for t in range(n_columns):
        z = y[t] - factors.centre
        scaled = precision * z
        m = min(max(z, -reach), reach)
        top = scaled * m - 0.5 * precision * m * m
        out[t] = scaled * factors.lowest - top
        tops[t] = factors.constant - 0.5 * scaled * z + top
    for k in range(factors.steps.shape[0]):
        row = out[(k + 1) * n_columns : (k + 2) * n_columns]
        slope = precision * factors.steps[k]
        for t in range(n_columns):
            row[t] = slope * (y[t] - factors.centre)


@njit
def gaussian_columns(y, factors, lik, tops):
    """lik[t] = likelihoods of all codes at column t, divided by exp(tops[t]). y (n,); NaN gives ones.

    Unlike a tempered table, the largest of a column need not be exactly 1.
    """
    n_columns, n_states = lik.shape
    flat, shape = lik.ravel(), factors.shape
    scratch = np.empty(PIECE * (factors.steps.shape[0] + 1))
    # Farther from the centre than this, a product could underflow.
    limit = WIDEST / (2.0 * factors.precision * factors.reach) if factors.reach > 0.0 else math.inf
    for first in range(0, n_columns, PIECE):
        n = min(PIECE, n_columns - first)
        powers = scratch[: n * (factors.steps.shape[0] + 1)]
        _exponents(y[first : first + n], factors, powers, tops[first : first + n])
        exp_in_place(powers)
        for t in range(first, first + n):
            z = y[t] - factors.centre
            if abs(z) <= limit:
                code_products(powers, t - first, n, flat, t * n_states, shape)
            elif math.isnan(z):
                for s in range(n_states):
                    lik[t, s] = 1.0
                tops[t] = 0.0
            else:
                top = direct_column(factors, z, lik[t])
                tops[t] = factors.constant - 0.5 * factors.precision * z * z + top


@njit
def filter_gaussian(y, factors, trans, edge, first, stop, message, alpha, stay, diagonal, lik, tops):
    """passes.filter_block for columns first..stop-1 of y (T,), with its arguments.

    lik (n, S) and tops (n,) are scratch for n columns at a time. Returns the share of the log evidence, what was taken
    out of the likelihoods included.
    """
    n_together = lik.shape[0]
    keep_alpha = alpha.shape[0] >= stop - first
    total = 0.0
    for a in range(first, stop, n_together):
        b = min(a + n_together, stop)
        gaussian_columns(y[a:b], factors, lik[: b - a], tops[: b - a])
        kept = alpha[a - first : b - first] if keep_alpha else alpha
        total += filter_block(lik[: b - a], trans, edge, a, message, kept, stay[a - first : b - first], diagonal)
        for i in range(b - a):
            total += tops[i]
    return total


@njit
def best_gaussian(y, factors, trans, edge, first, stop, message, alpha, stay, diagonal, lik, tops):
    """best.filter_best for columns first..stop-1, with the arguments of `filter_gaussian`."""
    n_together = lik.shape[0]
    for a in range(first, stop, n_together):
        b = min(a + n_together, stop)
        gaussian_columns(y[a:b], factors, lik[: b - a], tops[: b - a])
        filter_best(lik[: b - a], trans, edge, a, message, alpha[a - first : b - first], diagonal)
    return 0.0
