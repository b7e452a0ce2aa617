"""Whole sweeps over one replica on the tabulated path, and the pieces that the streamed path shares.

Buffers are the flat arrays of `Work`, reshaped where they are used, so that every kernel gets contiguous arrays and is
compiled once.
"""

from typing import NamedTuple

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.ball import (
    draw_ball,
    draw_centres,
    filter_ball,
    filter_ball_tensor,
    gather_candidates,
    log_draw_ball,
    log_filter_ball,
    piece_size,
)
from chiasma.kernels.jumps import jump_tables, pick_difference
from chiasma.kernels.layout import binary_layout
from chiasma.kernels.log_passes import log_draw_block, log_filter_block
from chiasma.kernels.logspace import forget_impossible
from chiasma.kernels.passes import draw_block, filter_block
from chiasma.kernels.rows import draw_prior_row, draw_row, filter_row
from chiasma.kernels.transitions import Matrices, is_linear


class Work(NamedTuple):
    """Scratch of one sweep; `width` is the largest number of candidates per column, T the number of columns."""

    lik: np.ndarray  # (T * width,)
    alpha: np.ndarray  # (T * width,)
    piece: np.ndarray  # (piece_size(width),) likelihoods of a few columns
    vectors: np.ndarray  # (3, width) message, diagonal, weights
    codes: np.ndarray  # (T,) codes of the block
    centres: np.ndarray  # (T,)


class Tables(NamedTuple):
    """What a sweep reads of its target at one beta."""

    lik: np.ndarray  # (T, S), columns in Fortran order: paths stay in one code for a while, so reads are neighbours
    log_lik: np.ndarray  # (T, S)
    trans: np.ndarray  # (E, K, 4)
    log_trans: np.ndarray  # (E, K, 4)
    edge: np.ndarray  # (T,)
    bounds: np.ndarray  # (n + 1,) where stretches of one kind of edge begin, and T
    lowest: np.ndarray  # (K,) smallest transition probability of each row


def make_work(n_columns: int, width: int) -> Work:
    return Work(
        lik=np.empty(n_columns * width),
        alpha=np.empty(n_columns * width),
        piece=np.empty(piece_size(width)),
        vectors=np.empty((3, width)),
        codes=np.empty(n_columns, np.int64),
        centres=np.empty(n_columns, np.int64),
    )


@njit
def prior_sweep(trans, edge, uniforms, codes):
    """All rows from the prior. Reads K * T uniforms."""
    n_columns = codes.shape[0]
    for k in range(trans.shape[1]):
        draw_prior_row(trans, edge, k, uniforms[k * n_columns : (k + 1) * n_columns], 1 << k, codes)


@njit
def row_sweep(tables, beta, uniforms, codes, work):
    """Every row given the others, in order, in linear space. Reads K * T uniforms."""
    n_columns = codes.shape[0]
    alpha = work.alpha[: 2 * n_columns].reshape(2, n_columns)
    trans, edge = tables.trans, tables.edge
    for k in range(trans.shape[1]):
        bit = 1 << k
        filter_row(tables.lik, tables.log_lik, beta, codes, bit, trans, edge, tables.bounds, k, alpha)
        uniforms_of_row = uniforms[k * n_columns : (k + 1) * n_columns]
        draw_row(alpha, trans, edge, tables.bounds, k, uniforms_of_row, bit, codes, work.centres)


@njit
def spread_block(rows, spread):
    """spread[j] = code whose bits rows[i] are the bits i of j."""
    spread[0] = 0
    size = 1
    for row in rows:
        for j in range(size):
            spread[size + j] = spread[j] | 1 << row
        size *= 2


@njit
def clear_block(codes, rows, centres):
    mask = 0
    for row in rows:
        mask |= 1 << row
    for t in range(codes.shape[0]):
        centres[t] = codes[t] & ~mask


@njit
def gather_log(log_lik, centres, offsets, out):
    for t in range(centres.shape[0]):
        for j in range(offsets.shape[0]):
            out[t, j] = log_lik[t, centres[t] ^ offsets[j]]


@njit
def update_block(linear, beta, lik, spread, trans, log_trans, edge, uniforms, centres, codes, work):
    """Draw a block jointly given the others. lik (T, 2^b): tempered likelihoods of the codes centres[t] ^ spread[j], or
    their untempered logarithms when not linear. trans holds the block's rows only. Reads T uniforms.

    A block without a possible path stays as it is; only a start outside the support brings this about.
    """
    n_columns = codes.shape[0]
    n_states = spread.shape[0]
    alpha = work.alpha[: n_columns * n_states].reshape(n_columns, n_states)
    message = work.vectors[0, :n_states]
    diagonal = work.vectors[1, :n_states]
    weights = work.vectors[2, :n_states]
    if linear:
        for s in range(n_states):
            message[s] = 1.0 if s == 0 else 0.0
        filter_block(lik, trans, edge, 0, message, alpha, alpha[:0], diagonal)
        draw_block(alpha, trans, edge, uniforms, work.codes, work.vectors)
    else:
        for s in range(n_states):
            message[s] = 0.0 if s == 0 else -np.inf
        forget_impossible(lik)
        logs = Matrices(
            log_trans.reshape(log_trans.shape[0], 4 * log_trans.shape[1]), binary_layout(log_trans.shape[1])
        )
        _, impossible = log_filter_block(lik, beta, logs, edge, 0, message, alpha, False)
        if impossible >= 0:
            return
        log_draw_block(alpha, logs, edge, 0, uniforms, work.codes, weights)
    for t in range(n_columns):
        codes[t] = centres[t] ^ spread[work.codes[t]]


@njit
def block_sweep(tables, beta, order, size, uniforms, codes, work):
    """Rows order[0..size-1] jointly, then the next `size`, and so on. Reads T uniforms per block."""
    n_columns = codes.shape[0]
    n_rows = order.shape[0]
    for start in range(0, n_rows, size):
        rows = order[start : start + size]
        linear = is_linear(tables.lowest, rows)
        spread = np.empty(1 << rows.shape[0], np.int64)
        spread_block(rows, spread)
        trans = np.empty((tables.trans.shape[0], rows.shape[0], 4))
        log_trans = np.empty_like(trans)
        for i in range(rows.shape[0]):
            for e in range(trans.shape[0]):
                for x in range(4):
                    trans[e, i, x] = tables.trans[e, rows[i], x]
                    log_trans[e, i, x] = tables.log_trans[e, rows[i], x]
        lik = work.lik[: n_columns * spread.shape[0]].reshape(n_columns, spread.shape[0])
        clear_block(codes, rows, work.centres)
        if linear:
            gather_candidates(tables.lik, tables.log_lik, beta, work.centres, spread, lik)
        else:
            gather_log(tables.log_lik, work.centres, spread, lik)
        block = start // size
        update_block(
            linear,
            beta,
            lik,
            spread,
            trans,
            log_trans,
            tables.edge,
            uniforms[block * n_columns : (block + 1) * n_columns],
            work.centres,
            codes,
            work,
        )


@njit
def shuffle(uniforms, order):
    """Uniformly random order of 0..K-1. Reads K uniforms."""
    for i in range(order.shape[0]):
        order[i] = i
    for i in range(order.shape[0] - 1, 0, -1):
        j = int(uniforms[i] * (i + 1))
        order[i], order[j] = order[j], order[i]


@njit
def spread_jump(rows, difference, spread):
    """spread (2^(b + 1),): settings of the block as in spread_block, then the same with the difference."""
    half = 1 << rows.shape[0]
    spread_block(rows, spread[:half])
    for j in range(half):
        spread[half + j] = spread[j] ^ difference


@njit
def jump_sweep(tables, beta, linear, values, size, uniforms, codes, work):
    """A jump along one of the differences `values`, with `size` random rows. Reads K + 1 + T uniforms."""
    n_columns = codes.shape[0]
    n_rows = tables.trans.shape[1]
    order = np.empty(n_rows, np.int64)
    shuffle(uniforms[:n_rows], order)
    rows = order[:size]
    chosen = pick_difference(values, uniforms[n_rows])
    outside = -1
    for row in rows:
        outside &= ~(1 << row)
    a, b = values[chosen] & outside, values[values.shape[0] // 3 + chosen] & outside
    spread = np.empty(2 << size, np.int64)
    spread_jump(rows, a ^ b, spread)
    own = np.empty((n_columns, size + 1, 4))
    flat = own.reshape(n_columns, 4 * (size + 1))
    kinds = np.empty(n_columns, np.int32)
    lik = work.lik[: n_columns * spread.shape[0]].reshape(n_columns, spread.shape[0])
    clear_block(codes, rows, work.centres)
    if linear:
        jump_tables(tables.trans, False, tables.edge, codes, rows, a, b, flat, kinds)
        gather_candidates(tables.lik, tables.log_lik, beta, work.centres, spread, lik)
    else:
        jump_tables(tables.log_trans, True, tables.edge, codes, rows, a, b, flat, kinds)
        gather_log(tables.log_lik, work.centres, spread, lik)
    uniforms = uniforms[n_rows + 1 : n_rows + 1 + n_columns]
    update_block(linear, beta, lik, spread, own, own, kinds, uniforms, work.centres, codes, work)


@njit
def update_ball(linear, beta, lik, offsets, trans, log_trans, edge, uniforms, codes, work):
    """Path among the candidates around work.centres. lik (T, B) as in update_block. Reads T uniforms."""
    n_columns, n_candidates = lik.shape
    alpha = work.alpha[: n_columns * n_candidates].reshape(n_columns, n_candidates)
    weights = work.vectors[2, :n_candidates]
    if linear:
        filter_ball(lik, work.centres, offsets, trans, edge, alpha)
        draw_ball(alpha, work.centres, offsets, trans, edge, uniforms, codes, weights)
    else:
        forget_impossible(lik)
        for t in range(n_columns):
            for j in range(n_candidates):
                lik[t, j] *= beta
        if log_filter_ball(lik, work.centres, offsets, log_trans, edge, alpha) < 0:
            log_draw_ball(alpha, work.centres, offsets, log_trans, edge, uniforms, codes, weights)


@njit
def update_ball_tensor(lik, log_lik, beta, offsets, trans, edge, uniforms, codes, work):
    """The same through the tensor of all codes; lik and log_lik (T, S) as in Tables. Reads T uniforms."""
    n_columns, n_states = lik.shape
    alpha = work.alpha[: n_columns * n_states].reshape(n_columns, n_states)
    filter_ball_tensor(lik, log_lik, beta, work.centres, offsets, trans, edge, alpha, work.vectors, work.piece)
    draw_block(alpha, trans, edge, uniforms, codes, work.vectors)


@njit
def ball_sweep(tables, beta, linear, offsets, dense, uniforms, codes, work):
    """Hamming-ball update. Reads 2 T uniforms."""
    n_columns = codes.shape[0]
    trans, edge = tables.trans, tables.edge
    draw_centres(trans, codes, offsets, uniforms[:n_columns], work.centres)
    uniforms = uniforms[n_columns:]
    if linear and not dense:
        update_ball_tensor(tables.lik, tables.log_lik, beta, offsets, trans, edge, uniforms, codes, work)
        return
    lik = work.lik[: n_columns * offsets.shape[0]].reshape(n_columns, offsets.shape[0])
    if linear:
        gather_candidates(tables.lik, tables.log_lik, beta, work.centres, offsets, lik)
    else:
        gather_log(tables.log_lik, work.centres, offsets, lik)
    update_ball(linear, beta, lik, offsets, trans, tables.log_trans, edge, uniforms, codes, work)


ROW, RANDOM_BLOCKS, BLOCK, BALL_DENSE, BALL_TENSOR, JUMP = range(6)


class Program(NamedTuple):
    """A sequence of updates as arrays; step n uses values[first[n] : first[n + 1]] (rows, ball offsets or
    differences)."""

    kinds: np.ndarray  # (n,)
    sizes: np.ndarray  # (n,) rows per block
    n_uniforms: np.ndarray  # (n,)
    first: np.ndarray  # (n + 1,)
    values: np.ndarray  # (first[n],)


@njit
def run_program(program, tables, beta, uniforms, codes, work):
    """One sweep: every step of the program in turn; at beta = 0 a draw from the prior."""
    if beta == 0.0:
        prior_sweep(tables.trans, tables.edge, uniforms, codes)
        return
    n_rows = tables.trans.shape[1]
    for n in range(program.kinds.shape[0]):
        kind = program.kinds[n]
        values = program.values[program.first[n] : program.first[n + 1]]
        if kind == ROW:
            row_sweep(tables, beta, uniforms, codes, work)
        elif kind == RANDOM_BLOCKS:
            order = np.empty(n_rows, np.int64)
            shuffle(uniforms[:n_rows], order)
            block_sweep(tables, beta, order, program.sizes[n], uniforms[n_rows:], codes, work)
        elif kind == BLOCK:
            block_sweep(tables, beta, values, program.sizes[n], uniforms, codes, work)
        elif kind == JUMP:
            linear = is_linear(tables.lowest, np.arange(n_rows))
            jump_sweep(tables, beta, linear, values, program.sizes[n], uniforms, codes, work)
        else:
            linear = is_linear(tables.lowest, np.arange(n_rows))
            ball_sweep(tables, beta, linear, values, kind == BALL_DENSE, uniforms, codes, work)
        uniforms = uniforms[program.n_uniforms[n] :]
