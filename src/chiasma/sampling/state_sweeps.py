"""Sweeps over rows with any number of states: blocks of axes and Hamming balls, by forward filtering-backward sampling.

A path is one of codes over the axes of a StateTarget. One kind of step does nearly all the work: it draws some axes
jointly given the others, from the likelihoods of their joint states alone. A row update is a block of one axis. A ball
in a small space is a block of all axes, with likelihood zero outside the ball; in a large one only candidates are
looked at. Likelihoods come from the target, out of a table or from the emission.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chiasma.kernels import state_ball
from chiasma.kernels.ball import scale_columns
from chiasma.kernels.jumps import list_jumps, state_jump_tables
from chiasma.kernels.layout import Layout, bits_of, codes_of_indices, make_layout, sub_layout
from chiasma.kernels.log_state_passes import log_draw_block, log_filter_block
from chiasma.kernels.logspace import forget_impossible
from chiasma.kernels.state_passes import draw_block, filter_block
from chiasma.models.state_target import StateTarget
from chiasma.types import Floats, Integers


class StateWork:
    """Scratch of one sweep; `width` is the largest number of candidates per column."""

    def __init__(self, n_columns: int, width: int):
        self.messages = np.empty(n_columns * width)
        self.vectors = np.empty((3, width))
        self.indices = np.empty(n_columns, np.int64)
        self.centres = np.empty(n_columns, np.int64)

    def alpha(self, n_columns: int, n_states: int) -> Floats:
        return self.messages[: n_columns * n_states].reshape(n_columns, n_states)


def update_block(
    target: StateTarget,
    beta: float,
    axes: Integers,
    log_lik: Floats,
    uniforms: Floats,
    codes: Integers,
    work: StateWork,
) -> None:
    """Draw some axes jointly given the others, in place. Reads T uniforms.

    log_lik (T, n): log-likelihoods of their joint states, overwritten. A block without a possible path stays as it is;
    only a start outside the support brings this about.
    """
    layout, linear = sub_layout(target.layout, axes), target.linear(axes)
    tables = target.trans if linear else target.log_trans
    if not draw_indices(linear, beta, log_lik, tables, layout, target.edge, uniforms, work):
        return
    codes_of_indices(work.indices, layout, work.indices)
    np.bitwise_and(codes, ~np.int64(bits_of(layout)), out=codes)
    np.bitwise_or(codes, work.indices, out=codes)


def draw_indices(
    linear: bool,
    beta: float,
    log_lik: Floats,
    tables: Floats,
    layout: Layout,
    edge: npt.NDArray[np.int32],
    uniforms: Floats,
    work: StateWork,
) -> bool:
    """Draw a path of indices into work.indices; False if there is no possible one. Reads T uniforms.

    tables (E, M): transition probabilities if linear, else their logarithms; log_lik (T, n) is overwritten.
    """
    n_columns, n_states = log_lik.shape
    alpha = work.alpha(n_columns, n_states)
    # Rows of a compact array of this width: kernels are compiled for contiguous ones.
    scratch = work.vectors.reshape(-1)[: 3 * n_states].reshape(3, n_states)
    message = np.zeros(n_states)
    if linear:
        scale_columns(log_lik, beta)
        message[0] = 1.0
        filter_block(log_lik, tables, layout, edge, 0, message, alpha, alpha[:0], scratch)
        draw_block(alpha, tables, layout, edge, uniforms, work.indices, scratch[:2])
        return True
    forget_impossible(log_lik)
    message[1:] = -np.inf
    _, impossible = log_filter_block(log_lik, beta, tables, layout, edge, 0, message, alpha, False)
    if impossible >= 0:
        return False
    log_draw_block(alpha, tables, layout, edge, 0, uniforms, work.indices, scratch[0])
    return True


def update_jump(
    target: StateTarget, beta: float, axes: Integers, a: int, b: int, uniforms: Floats, codes: Integers, work: StateWork
) -> None:
    """Draw some axes jointly with whether the states of a and b are swapped, in place. Reads T uniforms."""
    n_columns, layout = len(codes), target.layout
    block = sub_layout(layout, axes)
    outside = ~int(bits_of(block))
    a, b = a & outside, b & outside
    candidates = np.empty((n_columns, 2 * target.width(axes)), np.int64)
    list_jumps(codes, block, a, b, layout, candidates)
    own, linear = make_layout([*block.sizes.tolist(), 2]), target.linear()
    tables = np.empty((n_columns, int(own.first[-1]) + 4))
    kinds = np.empty(n_columns, np.int32)
    trans = target.trans if linear else target.log_trans
    state_jump_tables(trans, not linear, layout, target.edge, codes, axes, a, b, tables, kinds)
    log_lik = np.ascontiguousarray(target.candidates.at(candidates))
    if draw_indices(linear, beta, log_lik, tables, own, kinds, uniforms, work):
        codes[:] = candidates[np.arange(n_columns), work.indices]


def update_ball(
    target: StateTarget, beta: float, offsets: Integers, whole: bool, uniforms: Floats, codes: Integers, work: StateWork
) -> None:
    """Draw all axes among the columns near an auxiliary path, in place. Reads 2 T uniforms.

    whole: through all joint states, and not from candidate to candidate.
    """
    n_columns, layout = len(codes), target.layout
    state_ball.draw_centres(codes, offsets, layout, uniforms[:n_columns], work.centres)
    candidates = np.empty((n_columns, len(offsets)), np.int64)
    state_ball.list_candidates(work.centres, offsets, layout, candidates)
    log_lik = np.ascontiguousarray(target.candidates.at(candidates))
    forget_impossible(log_lik)
    uniforms = uniforms[n_columns:]
    if whole:
        table = np.full((n_columns, target.n_states), -np.inf)
        np.put_along_axis(table, target.to_indices(candidates), log_lik, axis=1)
        update_block(target, beta, np.arange(target.n_axes), table, uniforms, codes, work)
        return
    alpha = work.alpha(*candidates.shape)
    weights = np.empty(len(offsets))
    if target.linear():
        scale_columns(log_lik, beta)
        state_ball.filter_candidates(log_lik, candidates, target.trans, layout, target.edge, alpha)
        state_ball.draw_candidates(alpha, candidates, target.trans, layout, target.edge, uniforms, codes, weights)
        return
    log_lik *= beta
    arrays = candidates, target.log_trans, layout, target.edge
    if state_ball.log_filter_candidates(log_lik, *arrays, alpha) < 0:
        state_ball.log_draw_candidates(alpha, *arrays, uniforms, codes, weights)
