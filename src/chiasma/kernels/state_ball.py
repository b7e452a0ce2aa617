"""Hamming-ball update of rows with any number of states: as `ball`, with rows that differ in place of bits.

offsets (B,): codes in which at most `radius` rows are in another state than 0, offsets[0] = 0. An offset moves every
row on by its state and around, x -> (x + o) mod S. These moves form a group, and with an offset its inverse is one, so
that all balls have one size and u is as likely from s as s is from u.

candidates (T, B): codes near the auxiliary path. alpha (T, B): their filtered weights. Every candidate to every
candidate; where all joint states are few, `state_passes` over all of them do less work.
"""

import math

from chiasma._jit import njit
from chiasma.kernels.logspace import log_add
from chiasma.kernels.picking import pick, pick_log
from chiasma.kernels.state_paths import log_move, move


@njit
def translate(code, offset, layout):
    """The code whose rows are moved on by their states in `offset`."""
    moved = code
    for k in range(layout.sizes.shape[0]):
        x = code >> layout.shifts[k] & layout.masks[k]
        y = x + (offset >> layout.shifts[k] & layout.masks[k])
        if y >= layout.sizes[k]:
            y -= layout.sizes[k]
        moved ^= (x ^ y) << layout.shifts[k]
    return moved


@njit
def draw_centres(codes, offsets, layout, uniforms, centres):
    """Uniform centre in the ball around every column."""
    for t in range(codes.shape[0]):
        centres[t] = translate(codes[t], offsets[int(uniforms[t] * offsets.shape[0])], layout)


@njit
def list_candidates(centres, offsets, layout, candidates):
    for t in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            candidates[t, j] = translate(centres[t], offsets[j], layout)


@njit
def filter_candidates(lik, candidates, trans, layout, edge, alpha):
    """lik (T, B): likelihoods of the candidates, each column up to a factor."""
    n_columns, n_candidates = candidates.shape
    for t in range(n_columns):
        total = 0.0
        for j in range(n_candidates):
            code = candidates[t, j]
            if t == 0:
                mass = move(trans, edge[0], layout, 0, code)
            else:
                mass = 0.0
                for i in range(n_candidates):
                    mass += alpha[t - 1, i] * move(trans, edge[t], layout, candidates[t - 1, i], code)
            alpha[t, j] = mass * lik[t, j]
            total += alpha[t, j]
        for j in range(n_candidates):
            alpha[t, j] /= total


@njit
def draw_candidates(alpha, candidates, trans, layout, edge, uniforms, codes, weights):
    """Draw the path backwards into codes. Reads one uniform per column; weights (B,) is scratch."""
    last = candidates.shape[0] - 1
    for t in range(last, -1, -1):
        for j in range(candidates.shape[1]):
            weights[j] = alpha[t, j]
            if t < last:
                weights[j] *= move(trans, edge[t + 1], layout, candidates[t, j], codes[t + 1])
        codes[t] = candidates[t, pick(weights, uniforms[t])]


@njit
def log_filter_candidates(log_lik, candidates, log_trans, layout, edge, alpha):
    """As filter_candidates, in logarithms, for transitions of (almost) zero probability; log_lik at the beta.

    Returns the first column that no candidate reaches (-1 if there is none).
    """
    n_columns, n_candidates = candidates.shape
    for t in range(n_columns):
        top = -math.inf
        for j in range(n_candidates):
            code = candidates[t, j]
            if t == 0:
                mass = log_move(log_trans, edge[0], layout, 0, code)
            else:
                mass = -math.inf
                for i in range(n_candidates):
                    step = log_move(log_trans, edge[t], layout, candidates[t - 1, i], code)
                    mass = log_add(mass, alpha[t - 1, i] + step)
            alpha[t, j] = mass + log_lik[t, j]
            top = max(top, alpha[t, j])
        if top == -math.inf:
            return t
        for j in range(n_candidates):
            alpha[t, j] -= top
    return -1


@njit
def log_draw_candidates(alpha, candidates, log_trans, layout, edge, uniforms, codes, weights):
    last = candidates.shape[0] - 1
    for t in range(last, -1, -1):
        for j in range(candidates.shape[1]):
            weights[j] = alpha[t, j]
            if t < last:
                weights[j] += log_move(log_trans, edge[t + 1], layout, candidates[t, j], codes[t + 1])
        codes[t] = candidates[t, pick_log(weights, uniforms[t])]
