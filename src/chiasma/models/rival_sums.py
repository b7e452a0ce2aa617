"""Sets of rows that can stand in for each other: sums of their weights that nearly coincide.

A set A of rows that goes off while a set B goes on changes the level by sum_B w - sum_A w. Where that is little against
the noise, A and B are rival explanations, and only an update that moves all of A and B at once goes between them.
"""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np

from chiasma.types import Floats, Integers

# Rows of a set, and the most sets of one size that are looked at: the search takes milliseconds.
LARGEST_SET = 4
MOST_LOOKED_AT = 40_000
# Sets that deserve less than this are left out; of the others so many are kept.
LEAST_WEIGHT = 0.01
MOST_KEPT = 2_000


def rival_sets(steps: Floats, largest: int) -> tuple[Integers, Floats]:
    """Sets of at most `largest` rows (n, m), padded with -1, and how much each deserves to be updated jointly (n,).

    steps (K, D): what each row adds to the mean of each channel, in standard deviations of the noise. The weight of a
    set is exp(-d^2 / 2), d the smallest change that moves all its rows, some on and some off; less what two pairs of it
    explain by themselves. Rows that no channel sees together are no set.

    >>> sets, weights = rival_sets(np.array([[2.1], [3.1], [4.9], [30.0]]), largest=3)
    >>> sets[np.argmax(weights)].tolist()
    [0, 1, 2]
    """
    n_rows = len(steps)
    width = min(largest, LARGEST_SET, n_rows)
    meets = np.abs(steps) @ np.abs(steps).T > 0
    pairs = np.zeros((n_rows, n_rows))
    all_sets, all_weights = [np.empty((0, max(width, 1)), np.int64)], [np.empty(0)]
    for size in range(2, width + 1):
        if comb(n_rows, size) > MOST_LOOKED_AT:
            break
        rows = np.array(list(combinations(range(n_rows), size)))
        rows = rows[_connected(meets[rows[:, :, None], rows[:, None, :]])]
        weights = np.exp(-0.5 * _smallest_change(steps, rows))
        if size == 2:
            pairs[rows[:, 0], rows[:, 1]] = pairs[rows[:, 1], rows[:, 0]] = weights
        elif size == 4:
            a, b, c, d = rows.T
            splits = [pairs[a, b] * pairs[c, d], pairs[a, c] * pairs[b, d], pairs[a, d] * pairs[b, c]]
            weights *= 1 - np.max(splits, axis=0)
        padded = np.full((len(rows), width), -1)
        padded[:, :size] = rows
        all_sets.append(padded)
        all_weights.append(weights)
    sets, weights = np.concatenate(all_sets), np.concatenate(all_weights)
    order = np.argsort(-weights, kind="stable")[:MOST_KEPT]
    order = order[weights[order] > LEAST_WEIGHT]
    return sets[order], weights[order]


def _smallest_change(steps: Floats, rows: Integers) -> Floats:
    """(n,) squared: over all ways in which the rows (n, m) of a set move, some on and some off."""
    nearest = np.full(len(rows), np.inf)
    # The first row goes on: the change in the opposite direction is as large.
    for signs in product((1.0, -1.0), repeat=rows.shape[1] - 1):
        if min(signs) < 0:
            change = np.einsum("nmd,m->nd", steps[rows], np.array([1.0, *signs]))
            nearest = np.minimum(nearest, np.sum(change**2, axis=1))
    return nearest


def _connected(meets: np.ndarray) -> np.ndarray:
    """(n,) whether every row of a set meets every other, directly or through others; meets (n, m, m)."""
    reached = meets.copy()
    for _ in range(meets.shape[1] - 2):
        reached = (reached.astype(np.int64) @ meets) > 0
    return np.asarray(reached[:, 0].all(axis=1))
