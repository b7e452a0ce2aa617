"""One row of S states given the others: filter, backward draw, and draw from the prior.

A row is a block of its own, so the filters are those of `state_passes` and `log_state_passes`. `trans` and `log_trans`
are the tables of this row alone, (E, S * S): A[x, x'] of the edge kind e at [e, x * S + x']. states (T,) is its path.
"""

import math

import numpy as np

from chiasma._jit import inlined_njit, njit
from chiasma.kernels.layout import Layout
from chiasma.kernels.log_state_passes import log_draw_block, log_filter_block
from chiasma.kernels.mixing import START
from chiasma.kernels.picking import pick
from chiasma.kernels.rows import TINY_PAIR
from chiasma.kernels.state_passes import filter_block


@njit
def _alone(size):
    """The layout of a single row."""
    mask = 1
    while mask < size - 1:
        mask = 2 * mask + 1
    return Layout(np.array([size]), np.array([1]), np.array([0]), np.array([mask]), np.array([0]))


@njit
def row_likelihoods(lik, log_lik, beta, indices, layout, k, out):
    """out (T, S_k): likelihoods of the states of row k, given the others on a path of indices (T,), each column up to a
    factor.

    lik, log_lik (T, N): tables of all indices, tempered and not. Where all states of the row are tiny, the logarithms
    decide; where all are impossible whatever this row does, the data say nothing about it.
    """
    size, stride = layout.sizes[k], layout.strides[k]
    for t in range(indices.shape[0]):
        lowest = indices[t] - indices[t] // stride % size * stride
        mass = 0.0
        for x in range(size):
            out[t, x] = lik[t, lowest + x * stride]
            mass += out[t, x]
        if mass < TINY_PAIR:
            top = -math.inf
            for x in range(size):
                top = max(top, log_lik[t, lowest + x * stride])
            for x in range(size):
                impossible = top == -math.inf
                out[t, x] = 1.0 if impossible else math.exp(beta * (log_lik[t, lowest + x * stride] - top))


@njit
def filter_row(lik, trans, edge, alpha):
    """Filtered weights of a row from lik (T, S) into alpha (T, S), each column up to a factor.

    Returns the log evidence, up to the factors of lik.
    """
    size = lik.shape[1]
    message, scratch = np.zeros(size), np.empty((3, size))
    message[0] = 1.0
    return filter_block(lik, trans, _alone(size), edge, 0, message, alpha, alpha[:0], scratch)


@inlined_njit
def _invert(size, weights, place, target):
    """The first x at which the sum of weights[place:] exceeds the target, or the last of any weight."""
    x = 0
    cumulative = weights[np.uint64(place)]
    while x < size - 1 and not target < cumulative:
        x += 1
        cumulative += weights[np.uint64(place + x)]
    while weights[np.uint64(place + x)] == 0.0:  # rounding left the target at the very end
        x -= 1
    return x


@njit
def draw_row(alpha, trans, edge, uniforms, states):
    """Draw the row backwards into states (T,), by inversion of uniforms[t] for column t over x = 0, 1, ..."""
    n_columns, size = alpha.shape
    flat_alpha, matrices = alpha.ravel(), trans.ravel()
    weights = np.empty(size)
    last = n_columns - 1
    x = pick(alpha[last], uniforms[last])
    states[last] = x
    for t in range(last - 1, -1, -1):
        here, into = t * size, edge[t + 1] * size * size + x
        mass = 0.0
        for y in range(size):
            weights[y] = flat_alpha[np.uint64(here + y)] * matrices[np.uint64(into + y * size)]
            mass += weights[y]
        x = _invert(size, weights, START, uniforms[t] * mass)
        states[t] = x


@njit
def log_filter_row(log_lik, beta, log_trans, edge, alpha):
    """As filter_row in logarithms, from untempered log_lik (T, S); returns what log_filter_block does."""
    message = np.full(log_lik.shape[1], -math.inf)
    message[0] = 0.0
    return log_filter_block(log_lik, beta, log_trans, _alone(log_lik.shape[1]), edge, 0, message, alpha, False)


@njit
def log_draw_row(alpha, log_trans, edge, uniforms, states):
    """As draw_row, from log-weights."""
    size = alpha.shape[1]
    log_draw_block(alpha, log_trans, _alone(size), edge, 0, uniforms, states, np.empty(size))


@njit
def draw_prior_row(trans, edge, uniforms, states):
    """Draw the row from its prior, forwards, into states (T,). Reads one uniform per column."""
    size = round(math.sqrt(trans.shape[1]))
    matrices = trans.ravel()
    x = 0
    for t in range(states.shape[0]):
        x = _invert(size, matrices, (edge[t] * size + x) * size, uniforms[t])
        states[t] = x
