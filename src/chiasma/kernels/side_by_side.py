"""Evidences of four models of the same rows and the same Gaussian signal: the filter with a model in every lane.

The four weights of a code, one per model, are neighbours in memory. So a message is a tensor whose lowest two axes are
the models, and row k is axis k + 2 of it: nothing is exchanged within a register, and all codes of a column are worked
on at the same time. Four models take little more time than one by `gaussian.filter_gaussian`.

No lane looks at another, but for columns that are too far out for the products of some model: all four take one
exponential per code there, which may round differently.
"""

import math
from typing import NamedTuple

import numpy as np

from chiasma._jit import inlined_njit, njit
from chiasma.kernels.gaussian import WIDEST, direct_column
from chiasma.kernels.lanes import larger, load, smaller, spread, store
from chiasma.kernels.logspace import exp_in_place
from chiasma.kernels.mixing import (
    LOG_RESCALE,
    RESCALE_BELOW,
    RESCALE_BY,
    START,
    load_edge,
    mix_axis,
    mix_three_axes,
    mix_two_axes,
)

FOUR = 4
# Columns done at a time, so that their exponents stay in the L1 cache.
PIECE = 32


class Quads(NamedTuple):
    """What `gaussian.Factors` hold, in lanes: (4,) each, and the last two (4 K,) and (4 S,)."""

    precision: np.ndarray
    centre: np.ndarray
    reach: np.ndarray
    lowest: np.ndarray
    constant: np.ndarray
    slopes: np.ndarray  # precision * steps
    shape: np.ndarray


@njit
def _in_lanes(factors, n_rows):
    """Four Factors as Quads, and between which y products of all models are safe from underflow."""
    n_states = 1 << n_rows
    lanes = np.empty((5, FOUR))
    slopes, shape = np.empty(FOUR * n_rows), np.empty(FOUR * n_states)
    low, high = -math.inf, math.inf
    for lane in range(FOUR):
        own = factors[lane]
        lanes[0, lane], lanes[1, lane], lanes[2, lane] = own.precision, own.centre, own.reach
        lanes[3, lane], lanes[4, lane] = own.lowest, own.constant
        for k in range(n_rows):
            slopes[FOUR * k + lane] = own.precision * own.steps[k]
        for s in range(n_states):
            shape[FOUR * s + lane] = own.shape[s]
        if own.reach > 0.0:
            limit = WIDEST / (2.0 * own.precision * own.reach)
            low, high = max(low, own.centre - limit), min(high, own.centre + limit)
    return Quads(lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], slopes, shape), low, high


@njit
def _powers(y, quads, powers, tops):
    """powers (K + 1, 4 n) flat: what the products of n columns are made of; tops (4 n,): what was taken out of them."""
    n = y.shape[0]
    precision, centre, reach = load(quads.precision, START), load(quads.centre, START), load(quads.reach, START)
    lowest, constant = load(quads.lowest, START), load(quads.constant, START)
    half = spread(0.5)
    least = spread(0.0) - reach
    for t in range(n):
        z = spread(y[t]) - centre
        scaled = precision * z
        m = smaller(larger(z, least), reach)
        top = scaled * m - half * precision * m * m
        store(powers, FOUR * t, scaled * lowest - top)
        store(tops, FOUR * t, constant - half * scaled * z + top)
    for k in range(quads.slopes.shape[0] // FOUR):
        slope = load(quads.slopes, FOUR * k)
        for t in range(n):
            store(powers, FOUR * ((k + 1) * n + t), slope * (spread(y[t]) - centre))
    exp_in_place(powers)


@inlined_njit
def _products(powers, t, n, n_rows, shape, lik):
    """lik (4 S,): likelihoods of all codes of a column. Every row doubles their number; the last also multiplies by the
    shape.
    """
    store(lik, START, load(powers, FOUR * t))
    for k in range(n_rows - 1):
        factor = load(powers, FOUR * ((k + 1) * n + t))
        size = FOUR << k
        for s in range(0, size, FOUR):
            store(lik, size + s, load(lik, s) * factor)
    factor = load(powers, FOUR * (n_rows * n + t))
    half = FOUR << n_rows - 1
    for s in range(0, half, FOUR):
        value = load(lik, s)
        store(lik, s, value * load(shape, s))
        store(lik, half + s, value * factor * load(shape, half + s))


@njit
def _far_column(y, factors, column, top, lik):
    """lik and top (4,) of a y that is missing, or too far out for products: one exponential per code."""
    column.fill(1.0)
    top.fill(0.0)
    for lane in range(FOUR):
        own = factors[lane]
        z = y - own.centre
        if not math.isnan(z):
            top[lane] = own.constant - 0.5 * own.precision * z * z + direct_column(own, z, column)
        for s in range(column.shape[0]):
            lik[FOUR * s + lane] = column[s]


@inlined_njit
def _mix(message, n_rows, ratios):
    """One step of all rows. ratios (8 K,): fall of row k in four lanes, then its rise."""
    n_axes = n_rows + 2
    done = 0
    while n_rows - done >= 3:
        a = 8 * done
        low = load(ratios, a), load(ratios, a + 4), load(ratios, a + 8), load(ratios, a + 12)
        mix_three_axes(message, START, done + 2, n_axes, *low, load(ratios, a + 16), load(ratios, a + 20))
        done += 3
    a = 8 * done
    if n_rows - done == 2:
        pair = load(ratios, a), load(ratios, a + 4)
        mix_two_axes(message, START, done + 2, n_axes, *pair, load(ratios, a + 8), load(ratios, a + 12))
    if n_rows - done == 1:
        mix_axis(message, START, done + 2, n_axes, load(ratios, a), load(ratios, a + 4))


@inlined_njit
def _weigh(message, diagonal, scale, lik):
    """message *= diagonal * scale * lik; returns the sums of the four models."""
    scales = load(scale, START)
    sum_a = spread(0.0)
    sum_b = spread(0.0)
    for s in range(0, message.shape[0], 8):
        a = load(message, s) * (load(diagonal, s) * (load(lik, s) * scales))
        b = load(message, s + 4) * (load(diagonal, s + 4) * (load(lik, s + 4) * scales))
        store(message, s, a)
        store(message, s + 4, b)
        sum_a = sum_a + a
        sum_b = sum_b + b
    return sum_a + sum_b


@njit
def _load_edges(trans, e, own_ratios, own_diagonal, ratios, diagonal):
    """mixing.load_edge of four models, into lanes."""
    for lane in range(FOUR):
        load_edge(trans[lane], e, own_ratios, own_diagonal)
        for k in range(own_ratios.shape[1]):
            ratios[8 * k + lane] = own_ratios[0, k]
            ratios[8 * k + 4 + lane] = own_ratios[1, k]
        for s in range(own_diagonal.shape[0]):
            diagonal[FOUR * s + lane] = own_diagonal[s]


@njit
def _rescale(mass, scale, n_rescaled):
    """Of every model on its own: as `tensor` does."""
    for lane in range(FOUR):
        while 0.0 < mass[lane] * scale[lane] < RESCALE_BELOW:
            scale[lane] *= RESCALE_BY
            n_rescaled[lane] += 1


@njit
def log_evidences(y, factors, trans, edge, out):
    """out (4,): log evidences of y (T,), given four `gaussian.Factors` and trans (4, E, K, 4)."""
    n_columns, n_rows = y.shape[0], trans.shape[2]
    n_states = 1 << n_rows
    quads, low, high = _in_lanes(factors, n_rows)
    shape = quads.shape
    own_ratios, own_diagonal = np.empty((2, n_rows)), np.empty(n_states)
    ratios, diagonal = np.empty(8 * n_rows), np.empty(FOUR * n_states)
    scratch, tops = np.empty(FOUR * PIECE * (n_rows + 1)), np.empty(FOUR * PIECE)
    lik, column = np.empty(FOUR * n_states), np.empty(n_states)
    # Any normalised message works before column 0: a start edge does not depend on the previous state.
    message = np.zeros(FOUR * n_states)
    message[:FOUR] = 1.0
    mass, scale, n_rescaled = np.ones(FOUR), np.ones(FOUR), np.zeros(FOUR)
    taken_out = spread(0.0)
    loaded = -1
    for first in range(0, n_columns, PIECE):
        n = min(PIECE, n_columns - first)
        powers = scratch[: FOUR * n * (n_rows + 1)]
        _powers(y[first : first + n], quads, powers, tops)
        for t in range(n):
            e = edge[first + t]
            if e != loaded:
                _load_edges(trans, e, own_ratios, own_diagonal, ratios, diagonal)
                loaded = e
            _products(powers, t, n, n_rows, shape, lik)
            if not low <= y[first + t] <= high:
                _far_column(y[first + t], factors, column, tops[FOUR * t : FOUR * t + FOUR], lik)
            taken_out = taken_out + load(tops, FOUR * t)
            _mix(message, n_rows, ratios)
            store(mass, START, _weigh(message, diagonal, scale, lik))
            store(scale, START, spread(1.0))
            if min(min(mass[0], mass[1]), min(mass[2], mass[3])) < RESCALE_BELOW:
                _rescale(mass, scale, n_rescaled)
    store(out, START, taken_out)
    for lane in range(FOUR):
        out[lane] += math.log(mass[lane] * scale[lane]) - LOG_RESCALE * n_rescaled[lane]
