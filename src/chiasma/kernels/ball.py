"""Hamming-ball update: forward filtering-backward sampling of the whole path among columns near an auxiliary path.

centres (T,): auxiliary codes u_t. offsets (B,): codes in which at most `radius` rows are in another state than 0,
offsets[0] = 0. Candidate j of column t is the centre moved on by offsets[j]: every row by its state there, and around,
x -> (x + o) mod S, which flips a row of two states. These moves form a group, and with an offset its inverse is one, so
that all balls have one size and u is as likely from s as s is from u.

alpha (T, B): filtered weights of the candidates. trans as in `transitions`; what works on tables of all codes is for
rows of two states only.
"""

import math

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.lanes import load, store, sum_from, transpose
from chiasma.kernels.logspace import exp_in_place, log_add
from chiasma.kernels.passes import filter_block
from chiasma.kernels.picking import pick, pick_log
from chiasma.kernels.transitions import log_move, move, translate

# Columns whose likelihoods add up to less are computed again from logarithms: underflow would lose their ratios.
TINY_COLUMN = 1e-20
# Columns gathered at a time, so that they are still in the L1 cache when they are used.
PIECE = 32
# The same for columns of all codes: at most so many numbers, but at least so many columns.
NUMBERS = 1024
LEAST = 16


@njit
def draw_centres(trans, codes, offsets, uniforms, centres):
    """Uniform centre in the ball around every column; balls have one size, so the draw is symmetric."""
    for t in range(codes.shape[0]):
        centres[t] = translate(trans, codes[t], offsets[int(uniforms[t] * offsets.shape[0])])


@njit
def list_candidates(trans, centres, offsets, candidates):
    """candidates (T, B)"""
    for t in range(candidates.shape[0]):
        for j in range(candidates.shape[1]):
            candidates[t, j] = translate(trans, centres[t], offsets[j])


@njit
def gather_candidates(lik, log_lik, beta, centres, offsets, out):
    """Likelihood of every candidate; a column whose candidates are all tiny is computed from logarithms."""
    n_columns, n_candidates = out.shape
    flat = out.ravel()
    for first in range(0, n_columns, PIECE):
        stop = min(first + PIECE, n_columns)
        # One candidate at a time along the columns: that is the order of the table in memory.
        for j in range(n_candidates):
            for t in range(first, stop):
                out[t, j] = lik[t, np.uint64(centres[t] ^ offsets[j])]
        for t in range(first, stop):
            if sum_from(n_candidates, flat, t * n_candidates) < TINY_COLUMN:
                for j in range(n_candidates):
                    out[t, j] = log_lik[t, centres[t] ^ offsets[j]]
                scale_columns(out[t : t + 1], beta)


@njit
def spread_inside(offsets, n_states, inside):
    """inside (4 * S,), S at least 4: at p * S + s one if s ^ p is an offset, and zero if not.

    A centre permutes the codes of every aligned group of four (s ^ p); the four copies, one for each p, hold all these
    orders, so that four neighbouring codes can be loaded at once.
    """
    inside.fill(0.0)
    for offset in offsets:
        for p in range(4):
            inside[p * n_states + (offset ^ p)] = 1.0


@njit
def _from_logs(log_lik, beta, centre, offsets, out):
    """Likelihoods of one column inside the ball around its centre; log_lik and out (S,)."""
    column = np.empty(offsets.shape[0])
    for j in range(offsets.shape[0]):
        column[j] = log_lik[centre ^ offsets[j]]
    scale_columns(column.reshape(1, column.shape[0]), beta)
    for j in range(offsets.shape[0]):
        out[centre ^ offsets[j]] = column[j]


@njit
def gather_inside(lik, log_lik, beta, centres, offsets, inside, first, out):
    """out (n, S): likelihoods of all codes of columns first..first+n-1, zero outside the balls around their centres.

    lik in Fortran order. inside: as spread_inside makes it. Tiny columns as in gather_candidates.
    """
    n_columns, n_states = out.shape
    table, flat = lik.T.ravel(), out.ravel()
    n_all = centres.shape[0]
    n_fours = n_columns // 4 * 4 if n_states >= 4 else 0
    # Neighbours in the table are columns, neighbours in `out` are codes: 4x4 pieces are transposed in registers.
    for i in range(0, n_fours, 4):
        t = first + i
        c0, c1, c2, c3 = centres[t], centres[t + 1], centres[t + 2], centres[t + 3]
        p0, p1, p2, p3 = (c0 & 3) * n_states, (c1 & 3) * n_states, (c2 & 3) * n_states, (c3 & 3) * n_states
        for s in range(0, n_states, 4):
            at = s * n_all + t
            x0, x1, x2, x3 = transpose(
                load(table, at), load(table, at + n_all), load(table, at + 2 * n_all), load(table, at + 3 * n_all)
            )
            store(flat, i * n_states + s, x0 * load(inside, p0 + (c0 & ~3 ^ s)))
            store(flat, (i + 1) * n_states + s, x1 * load(inside, p1 + (c1 & ~3 ^ s)))
            store(flat, (i + 2) * n_states + s, x2 * load(inside, p2 + (c2 & ~3 ^ s)))
            store(flat, (i + 3) * n_states + s, x3 * load(inside, p3 + (c3 & ~3 ^ s)))
    for i in range(n_fours, n_columns):
        for s in range(n_states):
            out[i, s] = lik[first + i, s] * inside[centres[first + i] ^ s]
    for i in range(n_columns):
        if sum_from(n_states, flat, i * n_states) < TINY_COLUMN:
            _from_logs(log_lik[first + i], beta, centres[first + i], offsets, out[i])


@njit
def scale_columns(columns, beta):
    """Log-likelihoods (T, m), C-contiguous, to tempered likelihoods, the largest of a column 1, in place."""
    for t in range(columns.shape[0]):
        top = -math.inf
        for j in range(columns.shape[1]):
            top = max(top, columns[t, j])
        for j in range(columns.shape[1]):
            # A column without a possible candidate: the data say nothing here, all have likelihood exp(0).
            columns[t, j] = beta * (columns[t, j] - top) if top > -math.inf else 0.0
    exp_in_place(columns.ravel())


@njit
def _column(trans, centre, offsets, out):
    """out (B,): the candidates of a column."""
    for j in range(offsets.shape[0]):
        out[j] = translate(trans, centre, offsets[j])


@njit
def filter_ball(lik, centres, offsets, trans, edge, alpha):
    """lik (T, B): likelihood of the candidates. Every candidate to every candidate."""
    n_candidates = offsets.shape[0]
    before, here = np.empty(n_candidates, np.int64), np.empty(n_candidates, np.int64)
    for t in range(centres.shape[0]):
        e = edge[t]
        _column(trans, centres[t], offsets, here)
        total = 0.0
        for j in range(n_candidates):
            if t == 0:
                mass = move(trans, e, 0, here[j])
            else:
                mass = 0.0
                for i in range(n_candidates):
                    mass += alpha[t - 1, i] * move(trans, e, before[i], here[j])
            alpha[t, j] = mass * lik[t, j]
            total += alpha[t, j]
        for j in range(n_candidates):
            alpha[t, j] /= total
        before, here = here, before


@njit
def piece_size(n_states):
    return max(NUMBERS, LEAST * n_states)


@njit
def filter_ball_tensor(lik, log_lik, beta, centres, offsets, trans, edge, alpha, vectors, piece):
    """The same over the tensor of all codes, with the tables of the target: lik (T, S) at this beta, log_lik (T, S).

    alpha (T, S) as in `passes`, whose `draw_block` goes on from here. vectors (2, S or more) and piece
    (`piece_size` of S,) are scratch.
    """
    n_columns, n_states = alpha.shape
    message, diagonal = vectors[0, :n_states], vectors[1, :n_states]
    inside = np.empty(4 * max(n_states, 4))
    spread_inside(offsets, max(n_states, 4), inside)
    for s in range(n_states):
        message[s] = 1.0 if s == 0 else 0.0
    n_together = piece_size(n_states) // n_states
    for first in range(0, n_columns, n_together):
        stop = min(first + n_together, n_columns)
        columns = piece[: (stop - first) * n_states].reshape(stop - first, n_states)
        gather_inside(lik, log_lik, beta, centres, offsets, inside, first, columns)
        filter_block(columns, trans, edge, first, message, alpha[first:stop], alpha[:0], diagonal)


@njit
def draw_ball(alpha, centres, offsets, trans, edge, uniforms, codes, weights):
    """Draw the path backwards into codes. Reads one uniform per column; weights (B,) is scratch."""
    last = centres.shape[0] - 1
    for t in range(last, -1, -1):
        for j in range(offsets.shape[0]):
            weights[j] = alpha[t, j]
            if t < last:
                weights[j] *= move(trans, edge[t + 1], translate(trans, centres[t], offsets[j]), codes[t + 1])
        codes[t] = translate(trans, centres[t], offsets[pick(weights, uniforms[t])])


@njit
def log_filter_ball(log_lik, centres, offsets, log_trans, edge, alpha):
    """As filter_ball, in logarithms, for transitions of (almost) zero probability; log_lik at the beta.

    Returns the first column that no candidate reaches (-1 if there is none).
    """
    n_candidates = offsets.shape[0]
    before, here = np.empty(n_candidates, np.int64), np.empty(n_candidates, np.int64)
    for t in range(centres.shape[0]):
        e = edge[t]
        _column(log_trans, centres[t], offsets, here)
        top = -math.inf
        for j in range(n_candidates):
            if t == 0:
                mass = log_move(log_trans, e, 0, here[j])
            else:
                mass = -math.inf
                for i in range(n_candidates):
                    mass = log_add(mass, alpha[t - 1, i] + log_move(log_trans, e, before[i], here[j]))
            alpha[t, j] = mass + log_lik[t, j]
            top = max(top, alpha[t, j])
        if top == -math.inf:
            return t
        for j in range(n_candidates):
            alpha[t, j] -= top
        before, here = here, before
    return -1


@njit
def log_draw_ball(alpha, centres, offsets, log_trans, edge, uniforms, codes, weights):
    last = centres.shape[0] - 1
    for t in range(last, -1, -1):
        for j in range(offsets.shape[0]):
            weights[j] = alpha[t, j]
            if t < last:
                code = translate(log_trans, centres[t], offsets[j])
                weights[j] += log_move(log_trans, edge[t + 1], code, codes[t + 1])
        codes[t] = translate(log_trans, centres[t], offsets[pick_log(weights, uniforms[t])])
