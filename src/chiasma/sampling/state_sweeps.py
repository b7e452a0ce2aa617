"""Sweeps over rows with any number of states: blocks of axes and Hamming balls, by forward filtering-backward sampling.

A path is one of codes over the axes of a StateTarget. One kind of step does nearly all the work: it draws some axes
jointly given the others, from the likelihoods of their joint states alone. A row update is a block of one axis. A ball
in a small space is a block of all axes, with likelihood zero outside the ball; in a large one only candidates are
looked at. Likelihoods come from the target, out of a table or from the emission.
"""

from __future__ import annotations

import numpy as np

from chiasma.kernels import state_ball
from chiasma.kernels.ball import scale_columns
from chiasma.kernels.layout import bits_of, codes_of_indices, sub_layout
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
    layout, edge = sub_layout(target.layout, axes), target.edge
    n_columns, n_states = log_lik.shape
    alpha = work.alpha(n_columns, n_states)
    # Rows of a compact array of this width: kernels are compiled for contiguous ones.
    scratch = work.vectors.reshape(-1)[: 3 * n_states].reshape(3, n_states)
    message = np.zeros(n_states)
    if target.linear(axes):
        scale_columns(log_lik, beta)
        message[0] = 1.0
        filter_block(log_lik, target.trans, layout, edge, 0, message, alpha, alpha[:0], scratch)
        draw_block(alpha, target.trans, layout, edge, uniforms, work.indices, scratch[:2])
    else:
        forget_impossible(log_lik)
        message[1:] = -np.inf
        _, impossible = log_filter_block(log_lik, beta, target.log_trans, layout, edge, 0, message, alpha, False)
        if impossible >= 0:
            return
        log_draw_block(alpha, target.log_trans, layout, edge, 0, uniforms, work.indices, scratch[0])
    codes_of_indices(work.indices, layout, work.indices)
    np.bitwise_and(codes, ~np.int64(bits_of(layout)), out=codes)
    np.bitwise_or(codes, work.indices, out=codes)


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
