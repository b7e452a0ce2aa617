"""Slice sampling along lines, for any log density, without tuning parameters.

The directions of the lines adapt to the covariance of the target during warm-up and are then fixed, so that the kept
draws come from a valid update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chiasma.types import Floats, Integers

# Maximum number of stepping-out steps, and the initial interval in standard deviations of the target along the line.
STEPS = 8
LENGTH = 2.5

LogDensity = Callable[[Floats], float]


def slice_along(
    log_density: LogDensity, x: Floats, here: float, direction: Floats, rng: np.random.Generator
) -> tuple[Floats, float]:
    """One slice update of x (d,) along a line, by stepping out and shrinkage (Neal 2003); here = log_density(x).

    Returns the new point and its log density.
    """
    level = here - rng.standard_exponential()
    left = -rng.random()
    right = left + 1.0
    grow_left = int(rng.integers(STEPS))
    grow_right = STEPS - 1 - grow_left
    while grow_left > 0 and log_density(x + left * direction) > level:
        left -= 1.0
        grow_left -= 1
    while grow_right > 0 and log_density(x + right * direction) > level:
        right += 1.0
        grow_right -= 1
    while True:
        at = left + (right - left) * rng.random()
        point = x + at * direction
        there = log_density(point)
        if there > level:
            return point, there
        if at < 0:
            left = at
        else:
            right = at
        if right - left < 1e-14:  # the interval has shrunk to x itself
            return x, here


class SliceLines:
    """Directions (R, d, d): d lines per rung, the rows of a matrix. Lines of one block move only its coordinates, and
    those of coordinates outside all blocks are not used.
    """

    def __init__(self, n_rungs: int, blocks: Sequence[Integers], size: int):
        self.blocks = blocks
        self.size = size
        self.directions = np.tile(np.eye(self.size), (n_rungs, 1, 1))
        self.forget()

    def forget(self) -> None:
        """Discard the accumulated moments."""
        n_rungs = len(self.directions)
        self.seen = np.zeros(n_rungs, np.int64)
        self.sums = np.zeros((n_rungs, self.size))
        self.products = np.zeros((n_rungs, self.size, self.size))

    def see(self, rung: int, x: Floats) -> None:
        self.seen[rung] += 1
        self.sums[rung] += x
        self.products[rung] += x[:, None] * x

    def take_over(self, nearest: Integers) -> None:
        """Change the number of rungs: rung r copies the lines of the old rung nearest[r]."""
        self.directions = self.directions[nearest].copy()
        self.forget()

    def adapt(self) -> None:
        """Set the lines to the principal axes of the points seen, if there are enough, and discard the points."""
        for rung, n in enumerate(self.seen):
            if n >= 4 * self.size:
                mean = self.sums[rung] / n
                self.directions[rung] = self._axes(self.products[rung] / n - np.outer(mean, mean))
        self.forget()

    def _axes(self, covariance: Floats) -> Floats:
        axes = np.zeros((self.size, self.size))
        for block in self.blocks:
            variances, vectors = np.linalg.eigh(covariance[np.ix_(block, block)])
            lengths = LENGTH * np.sqrt(np.maximum(variances, 1e-12))
            axes[np.ix_(block, block)] = (vectors * lengths).T
        return axes

    def sweep(
        self, rung: int, block: int, log_density: LogDensity, x: Floats, here: float, rng: np.random.Generator
    ) -> tuple[Floats, float]:
        """One slice update along every line of a block."""
        for i in self.blocks[block]:
            x, here = slice_along(log_density, x, here, self.directions[rung, i], rng)
        return x, here
