"""Gaussian log-likelihoods of many levels in one pass, and likelihoods of all codes from K exponentials per column.

With z = y - centre and m_s = mean of code s - centre, the centre being half-way between the extreme means,

    log N(y; mean_s, sd^2)^beta = constant - p z^2 / 2 + (p z m_s - p m_s^2 / 2),        p = beta / sd^2.

m_s is a sum over the rows that are on, so exp(p z m_s) is a product over them, built by doubling, and
exp(-p m_s^2 / 2) does not depend on the column. The bracket is at most p (z m - m^2 / 2) at m = z, or at the nearest
end of the means where z lies outside; divided by that, no likelihood exceeds 1. Neighbouring means are no further apart
than the largest step of one row, so the largest likelihood of a column is at least exp(-p step^2 / 8).
"""

import math
from typing import NamedTuple

import numpy as np

from chiasma._jit import njit, vector_njit
from chiasma.kernels.exponential import exp_in_place

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# Exponents of partial products stay within this, so that none of them underflows; past it, a column is done directly.
WIDEST = 600.0


class Factors(NamedTuple):
    """What all columns share."""

    precision: float  # p
    centre: float
    reach: float  # largest |m_s|
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
    for n in range(y.shape[0]):
        row = level[n if level.shape[0] > 1 else 0]
        out[n] = 0.0
        for d in range(y.shape[1]):
            if math.isnan(y[n, d]):
                continue
            scale = 1.0 / sd[d]
            constant = math.log(sd[d]) + HALF_LOG_TWO_PI
            for m in range(out.shape[1]):
                z = (y[n, d] - depth[d] * row[m, d]) * scale
                out[n, m] -= 0.5 * z * z + constant


@njit
def make_factors(weights, base, depth, sd, beta):
    """Factors of rows with these weights (K,) on top of the level `base`."""
    n_rows = weights.shape[0]
    steps = depth * weights
    means = np.empty(1 << n_rows)
    means[0] = depth * base
    low = high = 0.0
    for k in range(n_rows):
        size = 1 << k
        for s in range(size):
            means[size + s] = means[s] + steps[k]
        low += min(steps[k], 0.0)
        high += max(steps[k], 0.0)
    centre = means[0] + 0.5 * (low + high)
    means -= centre
    precision = beta / (sd * sd)
    shape = np.empty_like(means)
    for s in range(means.shape[0]):
        shape[s] = -0.5 * precision * means[s] * means[s]
    exp_in_place(shape, np.empty(shape.shape[0], np.int64))
    constant = -beta * (math.log(sd) + HALF_LOG_TWO_PI)
    return Factors(precision, centre, 0.5 * (high - low), constant, means[0], steps, shape, means)


@vector_njit
def _double(size, factor, column):
    low = column[:size]
    high = column[size : 2 * size]
    for s in range(size):
        high[s] = low[s] * factor


@vector_njit
def _double_and_shape(size, factor, shape, column):
    low = column[:size]
    high = column[size : 2 * size]
    shape_low = shape[:size]
    shape_high = shape[size : 2 * size]
    for s in range(size):
        value = low[s]
        low[s] = value * shape_low[s]
        high[s] = value * factor * shape_high[s]


@njit
def _direct_column(factors, z, bits, column):
    """One exponential per code; returns the exponent that was taken out."""
    top = -math.inf
    for s in range(column.shape[0]):
        m = factors.means[s]
        column[s] = factors.precision * (z - 0.5 * m) * m
        top = max(top, column[s])
    for s in range(column.shape[0]):
        column[s] -= top
    exp_in_place(column, bits)
    return top


@njit
def gaussian_columns(y, factors, lik, tops):
    """lik[t] = likelihoods of all codes at column t, divided by exp(tops[t]). y (n,); NaN gives ones.

    Unlike a tempered table, the largest of a column need not be exactly 1.
    """
    n_columns = y.shape[0]
    n_rows = factors.steps.shape[0]
    half = lik.shape[1] // 2
    exponents = np.empty((n_columns, n_rows + 1))
    for t in range(n_columns):
        z = y[t] - factors.centre
        scaled = factors.precision * z
        m = min(max(z, -factors.reach), factors.reach)
        top = scaled * m - 0.5 * factors.precision * m * m
        exponents[t, 0] = scaled * factors.lowest - top
        for k in range(n_rows):
            exponents[t, k + 1] = scaled * factors.steps[k]
        tops[t] = factors.constant - 0.5 * scaled * z + top
    exp_in_place(exponents.ravel(), np.empty(n_columns * (n_rows + 1), np.int64))
    bits = np.empty(lik.shape[1], np.int64)
    for t in range(n_columns):
        column = lik[t]
        z = y[t] - factors.centre
        if math.isnan(z):
            column[:] = 1.0
            tops[t] = 0.0
        elif 2.0 * factors.precision * abs(z) * factors.reach > WIDEST:
            top = _direct_column(factors, z, bits, column)
            tops[t] = factors.constant - 0.5 * factors.precision * z * z + top
        else:
            column[0] = exponents[t, 0]
            size = 1
            for k in range(n_rows - 1):
                _double(size, exponents[t, k + 1], column)
                size *= 2
            _double_and_shape(half, exponents[t, n_rows], factors.shape, column)
