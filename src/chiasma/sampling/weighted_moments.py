"""WeightedMoments: means and covariances of weighted points, apart for every peak that they belong to."""

from __future__ import annotations

import numpy as np

from chiasma.types import Floats, Integers


class WeightedMoments:
    """Sums over points (d,) of M peaks: of weights (M,), of weighted points (M, d) and of their products (M, d, d).

    Weights are given as logarithms and may be of any size: sums are relative to the largest weight so far.
    """

    def __init__(self, n_peaks: int, size: int):
        self.top = -np.inf
        self.weight = np.zeros(n_peaks)
        self.first = np.zeros((n_peaks, size))
        self.second = np.zeros((n_peaks, size, size))
        self.squares = 0.0  # sum of squared weights

    def add(self, peaks: Integers, points: Floats, log_weights: Floats) -> None:
        """Points (n, d) of some peaks (n,); a log weight of -inf counts nothing."""
        top = max(self.top, float(np.max(log_weights)))
        if top == -np.inf:
            return
        shrink = np.exp(self.top - top)
        for sums in (self.weight, self.first, self.second):
            sums *= shrink
        weights = np.exp(log_weights - top)
        self.squares = self.squares * shrink**2 + float(weights @ weights)
        self.top = top
        np.add.at(self.weight, peaks, weights)
        np.add.at(self.first, peaks, weights[:, None] * points)
        np.add.at(self.second, peaks, weights[:, None, None] * points[:, :, None] * points[:, None, :])

    @property
    def effective(self) -> float:
        """How many points of equal weights are worth as much."""
        return float(self.weight.sum() ** 2 / self.squares) if self.squares else 0.0

    def sums(self) -> tuple[Floats, Floats, Floats]:
        """Weights, weighted points and products, with weights that add up to the effective number of points.

        >>> moments = WeightedMoments(1, 2)
        >>> moments.add(np.array([0, 0]), np.array([[1.0, 0.0], [3.0, 2.0]]), np.array([700.0, 700.0]))
        >>> weight, first, _ = moments.sums()
        >>> float(weight[0]), (first[0] / weight[0]).tolist()
        (2.0, [2.0, 1.0])
        """
        scale = self.effective / self.weight.sum() if self.squares else 0.0
        return scale * self.weight, scale * self.first, scale * self.second
