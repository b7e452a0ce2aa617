"""The kernels of a pass over a target: those of binary rows, or those of rows with any number of states.

Linear or logarithmic, as the pass is; both kinds take the same arguments, so that `passes` need not tell them apart.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from chiasma.kernels import (
    binary_moves,
    expected_moves,
    log_expected_moves,
    log_state_passes,
    logspace,
    state_passes,
    tensor,
)
from chiasma.kernels.alignment import aligned_empty
from chiasma.kernels.layout import make_layout
from chiasma.models.state_target import StateTarget
from chiasma.models.target import Target
from chiasma.types import Floats, Integers


class PassKernels(Protocol):
    """N joint states; alpha, stay, message and lik as in chiasma.kernels.tensor, logarithms where not linear."""

    diagonal: Floats  # (N,) scratch
    trans: Floats

    def filter(self, lik: Floats, first: int, message: Floats, alpha: Floats, stay: Floats) -> float: ...
    def log_filter(
        self, log_lik: Floats, beta: float, first: int, message: Floats, alpha: Floats, best: bool
    ) -> tuple[float, int]: ...
    def stay_after(self, column: int, message: Floats, out: Floats) -> None: ...
    def draw(self, alpha: Floats, stay: Floats, first: int, uniforms: Floats, paths: Integers) -> None:
        """Chains draw from one filter at the same time: nothing but paths is written."""

    def best(self, alpha: Floats, first: int, path: Integers) -> None: ...
    def smooth(self, alpha: Floats, first: int, gamma: Floats, out: Floats) -> None: ...
    def count(self, alpha: Floats, first: int, gamma: Floats, counts: Floats) -> None:
        """Add the expected moves of all rows to counts (E, M); alpha is replaced by the smoothed distributions."""


class BinaryKernels:
    """Rows of two states."""

    def __init__(self, target: Target, linear: bool):
        self.edge = target.edge
        self.linear = linear
        self.trans = target.trans if linear else target.log_trans
        self.diagonal = aligned_empty(1, target.n_states)[0]

    def filter(self, lik: Floats, first: int, message: Floats, alpha: Floats, stay: Floats) -> float:
        return float(tensor.filter_block(lik, self.trans, self.edge, first, message, alpha, stay, self.diagonal))

    def log_filter(
        self, log_lik: Floats, beta: float, first: int, message: Floats, alpha: Floats, best: bool
    ) -> tuple[float, int]:
        return logspace.log_filter_block(log_lik, beta, self.trans, self.edge, first, message, alpha, best)

    def stay_after(self, column: int, message: Floats, out: Floats) -> None:
        tensor.stay_after(self.trans, self.edge[column], message, self.diagonal, out)

    def draw(self, alpha: Floats, stay: Floats, first: int, uniforms: Floats, paths: Integers) -> None:
        weights = np.empty_like(self.diagonal)
        if self.linear:
            tensor.draw_blocks(alpha, stay, self.trans, self.edge, first, uniforms, paths, weights)
        else:
            for numbers, path in zip(uniforms, paths, strict=True):
                logspace.log_draw_block(alpha, self.trans, self.edge, first, numbers, path, weights)

    def best(self, alpha: Floats, first: int, path: Integers) -> None:
        logspace.best_block(alpha, self.trans, self.edge, first, path, np.empty_like(self.diagonal))

    def smooth(self, alpha: Floats, first: int, gamma: Floats, out: Floats) -> None:
        kernel = tensor.smooth_block if self.linear else logspace.log_smooth_block
        kernel(alpha, self.trans, self.edge, first, gamma, out, self.diagonal, np.empty_like(self.diagonal))

    def count(self, alpha: Floats, first: int, gamma: Floats, counts: Floats) -> None:
        n_kinds, n_rows, _ = self.trans.shape
        scratch = np.empty((n_rows + 1, len(gamma)))
        if self.linear:
            binary_moves.count_block(alpha, self.trans, self.edge, first, gamma, alpha, counts, scratch)
        else:
            flat, layout = self.trans.reshape(n_kinds, -1), make_layout([2] * n_rows)
            log_expected_moves.log_count_block(alpha, flat, layout, self.edge, first, gamma, alpha, counts, scratch)


class StateKernels:
    """Rows of any number of states; paths are paths of indices (chiasma.kernels.layout)."""

    def __init__(self, target: StateTarget, linear: bool, best: bool):
        self.edge = target.edge
        self.layout = target.layout
        self.linear = linear
        self.trans = target.trans if linear else target.best_log_trans if best else target.log_trans
        self.diagonal = np.empty(target.n_states)
        self.scratch = np.empty((3, target.n_states))

    def filter(self, lik: Floats, first: int, message: Floats, alpha: Floats, stay: Floats) -> float:
        arrays = self.trans, self.layout, self.edge
        return float(state_passes.filter_block(lik, *arrays, first, message, alpha, stay, self.scratch))

    def log_filter(
        self, log_lik: Floats, beta: float, first: int, message: Floats, alpha: Floats, best: bool
    ) -> tuple[float, int]:
        arrays = self.trans, self.layout, self.edge
        return log_state_passes.log_filter_block(log_lik, beta, *arrays, first, message, alpha, best)

    def stay_after(self, column: int, message: Floats, out: Floats) -> None:
        state_passes.stay_after(self.trans, self.edge[column], self.layout, message, out, self.scratch)

    def draw(self, alpha: Floats, stay: Floats, first: int, uniforms: Floats, paths: Integers) -> None:
        arrays = self.trans, self.layout, self.edge
        weights = np.empty_like(self.diagonal)
        if self.linear:
            state_passes.draw_blocks(alpha, stay, *arrays, first, uniforms, paths, weights)
        else:
            for numbers, path in zip(uniforms, paths, strict=True):
                log_state_passes.log_draw_block(alpha, *arrays, first, numbers, path, weights)

    def best(self, alpha: Floats, first: int, path: Integers) -> None:
        log_state_passes.best_block(alpha, self.trans, self.layout, self.edge, first, path, self.diagonal)

    def smooth(self, alpha: Floats, first: int, gamma: Floats, out: Floats) -> None:
        kernel = state_passes.smooth_block if self.linear else log_state_passes.log_smooth_block
        kernel(alpha, self.trans, self.layout, self.edge, first, gamma, out, self.scratch[:2])

    def count(self, alpha: Floats, first: int, gamma: Floats, counts: Floats) -> None:
        kernel = expected_moves.count_block if self.linear else log_expected_moves.log_count_block
        scratch = np.empty((len(self.layout.sizes) + 1, len(gamma)))
        kernel(alpha, self.trans, self.layout, self.edge, first, gamma, alpha, counts, scratch)


def pass_kernels(target: Target | StateTarget, linear: bool, best: bool) -> PassKernels:
    """best: maximise over paths where a filter sums."""
    if isinstance(target, StateTarget):
        return StateKernels(target, linear, best)
    return BinaryKernels(target, linear)
