"""The kernels of a pass over a target, linear or logarithmic, with what they need of it bound to them."""

from __future__ import annotations

import numpy as np

from chiasma.kernels import log_passes, passes
from chiasma.kernels.expectations import count_block, log_count_block
from chiasma.kernels.lanes import aligned_empty
from chiasma.models.target import Target
from chiasma.types import Floats, Integers


class PassKernels:
    """N joint states; alpha, stay, message and lik as in chiasma.kernels.passes, logarithms where not linear.

    best: maximise over paths where a filter sums.
    """

    def __init__(self, target: Target, linear: bool, best: bool):
        self.edge = target.edge
        self.linear = linear
        self.trans = target.transitions if linear else target.log_matrices(best)
        self.n_rows = target.n_axes
        self.scratch = aligned_empty(1 if target.binary and linear else 3, target.n_states).ravel()

    def filter(self, lik: Floats, first: int, message: Floats, alpha: Floats, stay: Floats) -> float:
        return float(passes.filter_block(lik, self.trans, self.edge, first, message, alpha, stay, self.scratch))

    def log_filter(
        self, log_lik: Floats, beta: float, first: int, message: Floats, alpha: Floats, best: bool
    ) -> tuple[float, int]:
        return log_passes.log_filter_block(log_lik, beta, self.trans, self.edge, first, message, alpha, best)

    def stay_after(self, column: int, message: Floats, out: Floats) -> None:
        passes.stay_after(self.trans, self.edge[column], message, self.scratch, out)

    def draw(self, alpha: Floats, stay: Floats, first: int, uniforms: Floats, paths: Integers) -> None:
        """Chains draw from one filter at the same time: nothing but paths is written."""
        weights = np.empty(alpha.shape[1])
        if self.linear:
            passes.draw_blocks(alpha, stay, self.trans, self.edge, first, uniforms, paths, weights)
        else:
            for numbers, path in zip(uniforms, paths, strict=True):
                log_passes.log_draw_block(alpha, self.trans, self.edge, first, numbers, path, weights)

    def best(self, alpha: Floats, first: int, path: Integers) -> None:
        log_passes.best_block(alpha, self.trans, self.edge, first, path, np.empty(alpha.shape[1]))

    def smooth(self, alpha: Floats, first: int, gamma: Floats, out: Floats) -> None:
        kernel = passes.smooth_block if self.linear else log_passes.log_smooth_block
        kernel(alpha, self.trans, self.edge, first, gamma, out, self.scratch)

    def count(self, alpha: Floats, first: int, gamma: Floats, counts: Floats) -> None:
        """Add the expected moves of all rows to counts (E, M); alpha is replaced by the smoothed distributions."""
        kernel = count_block if self.linear else log_count_block
        kernel(self.trans, alpha, self.edge, first, gamma, alpha, counts, np.empty((self.n_rows + 1, len(gamma))))
