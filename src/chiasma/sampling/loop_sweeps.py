"""Steps of a sweep one at a time from Python: for targets without a table, or with rows of any number of states.

A path is one of codes over the axes of a target. One kind of step does nearly all the work: it draws some axes
jointly given the others, from the likelihoods of their joint states alone. A row update is a block of one axis. A ball
in a small space is a block of all axes, with likelihood zero outside the ball; in a large one only candidates are
looked at. Likelihoods come from the target, out of a table or from the emission.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chiasma.kernels import ball
from chiasma.kernels.jumps import jump_tables, list_jumps
from chiasma.kernels.layout import Layout, bits_of, codes_of_indices, make_layout, sub_layout
from chiasma.kernels.log_passes import log_draw_block, log_filter_block
from chiasma.kernels.logspace import forget_impossible
from chiasma.kernels.passes import draw_block, filter_block
from chiasma.kernels.rows import draw_row, filter_row
from chiasma.kernels.transitions import Matrices
from chiasma.models.target import Target, Transitions
from chiasma.types import Floats, Integers

# An empty table: kernels need no log-likelihoods when likelihoods are scaled.
NO_TABLE = np.empty((0, 0))


class LoopWork:
    """Scratch of one sweep; `width` is the largest number of candidates per column."""

    def __init__(self, n_columns: int, width: int):
        self.messages = np.empty(n_columns * width)
        self.vectors = np.empty(3 * width)
        self.indices = np.empty(n_columns, np.int64)
        self.centres = np.empty(n_columns, np.int64)

    def alpha(self, n_columns: int, n_states: int) -> Floats:
        return self.messages[: n_columns * n_states].reshape(n_columns, n_states)


def update_row(target: Target, beta: float, k: int, uniforms: Floats, codes: Integers, work: LoopWork) -> None:
    """Draw one axis given the others, in place. Reads T uniforms. Two states, and no need of logarithms: the kernels
    that the compiled sweep has, too.
    """
    n_columns, edge, bounds, bit = len(codes), target.edge, target.bounds, 1 << k
    log_lik = np.ascontiguousarray(target.candidates.around(codes, np.array([k])))
    ball.scale_columns(log_lik, beta)
    alpha = work.alpha(2, n_columns)
    # A table of two codes: the row is the only one in it.
    pair, off = np.asfortranarray(log_lik), np.zeros(n_columns, np.int64)
    filter_row(pair, NO_TABLE, beta, off, 1, target.trans, edge, bounds, k, alpha)
    draw_row(alpha, target.trans, edge, bounds, k, uniforms, bit, codes, work.centres)


def update_block(
    target: Target,
    beta: float,
    axes: Integers,
    log_lik: Floats,
    uniforms: Floats,
    codes: Integers,
    work: LoopWork,
) -> None:
    """Draw some axes jointly given the others, in place. Reads T uniforms.

    log_lik (T, n): log-likelihoods of their joint states, overwritten. A block without a possible path stays as it is;
    only a start outside the support brings this about.
    """
    layout, linear = sub_layout(target.layout, axes), target.linear(axes)
    table, own = target.trans if linear else target.log_trans, layout
    if target.binary:
        table, own = np.ascontiguousarray(table[:, axes]), make_layout([2] * len(axes))
    if not draw_indices(linear, beta, log_lik, table, own, target.edge, uniforms, work):
        return
    codes_of_indices(work.indices, layout, work.indices)
    np.bitwise_and(codes, ~np.int64(bits_of(layout)), out=codes)
    np.bitwise_or(codes, work.indices, out=codes)


def draw_indices(
    linear: bool,
    beta: float,
    log_lik: Floats,
    table: Floats,
    layout: Layout,
    edge: npt.NDArray[np.int32],
    uniforms: Floats,
    work: LoopWork,
) -> bool:
    """Draw a path of indices into work.indices; False if there is no possible one. Reads T uniforms.

    table: transition probabilities (E, b, 4) or (E, M) if linear, else their logarithms; log_lik (T, n) is overwritten.
    """
    n_columns, n_states = log_lik.shape
    alpha = work.alpha(n_columns, n_states)
    scratch = work.vectors[: 3 * n_states]
    message = np.zeros(n_states)
    if linear:
        ball.scale_columns(log_lik, beta)
        message[0] = 1.0
        binary = table.ndim == 3
        trans: Transitions = table if binary else Matrices(table, layout)
        filter_block(log_lik, trans, edge, 0, message, alpha, alpha[:0], scratch[:n_states] if binary else scratch)
        draw_block(alpha, trans, edge, uniforms, work.indices, scratch[: 2 * n_states].reshape(2, n_states))
        return True
    logs = Matrices(table.reshape(len(table), -1), layout)
    forget_impossible(log_lik)
    message[1:] = -np.inf
    _, impossible = log_filter_block(log_lik, beta, logs, edge, 0, message, alpha, False)
    if impossible >= 0:
        return False
    log_draw_block(alpha, logs, edge, 0, uniforms, work.indices, scratch[:n_states])
    return True


def update_jump(
    target: Target, beta: float, axes: Integers, a: int, b: int, uniforms: Floats, codes: Integers, work: LoopWork
) -> None:
    """Draw some axes jointly with whether the states of a and b are swapped, in place. Reads T uniforms."""
    n_columns, linear = len(codes), target.linear()
    block = sub_layout(target.layout, axes)
    outside = ~int(bits_of(block))
    a, b = a & outside, b & outside
    trans = target.transitions if linear else target.log_transitions
    candidates = np.empty((n_columns, 2 * target.width(axes)), np.int64)
    list_jumps(codes, block, a, b, trans, candidates)
    own = make_layout([*block.sizes.tolist(), 2])
    tables = np.empty((n_columns, int(own.first[-1]) + 4))
    kinds = np.empty(n_columns, np.int32)
    jump_tables(trans, not linear, target.edge, codes, axes, a, b, tables, kinds)
    log_lik = np.ascontiguousarray(target.candidates.at(candidates))
    table = tables.reshape(n_columns, -1, 4) if target.binary else tables
    if draw_indices(linear, beta, log_lik, table, own, kinds, uniforms, work):
        codes[:] = candidates[np.arange(n_columns), work.indices]


def update_ball(
    target: Target, beta: float, offsets: Integers, whole: bool, uniforms: Floats, codes: Integers, work: LoopWork
) -> None:
    """Draw all axes among the columns near an auxiliary path, in place. Reads 2 T uniforms.

    whole: through all joint states, and not from candidate to candidate.
    """
    n_columns, trans, linear = len(codes), target.transitions, target.linear()
    ball.draw_centres(trans, codes, offsets, uniforms[:n_columns], work.centres)
    candidates = np.empty((n_columns, len(offsets)), np.int64)
    ball.list_candidates(trans, work.centres, offsets, candidates)
    log_lik = np.ascontiguousarray(target.candidates.at(candidates))
    forget_impossible(log_lik)
    uniforms = uniforms[n_columns:]
    if whole and (linear or not target.binary):
        table = np.full((n_columns, target.n_states), -np.inf)
        np.put_along_axis(table, target.to_indices(candidates), log_lik, axis=1)
        update_block(target, beta, np.arange(target.n_axes), table, uniforms, codes, work)
        return
    alpha = work.alpha(*candidates.shape)
    weights = np.empty(len(offsets))
    arrays = work.centres, offsets, trans if linear else target.log_transitions, target.edge
    if linear:
        ball.scale_columns(log_lik, beta)
        ball.filter_ball(log_lik, *arrays, alpha)
        ball.draw_ball(alpha, *arrays, uniforms, codes, weights)
        return
    log_lik *= beta
    if ball.log_filter_ball(log_lik, *arrays, alpha) < 0:
        ball.log_draw_ball(alpha, *arrays, uniforms, codes, weights)
