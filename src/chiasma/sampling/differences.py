"""Which rows to move together: differences between columns (the dictionary of `Jumps`), rivals, independent parts.

Chains that start in different places and cannot go between two explanations of a column sit in both. Where they differ,
in which rows and between which states, is a way from one to the other, and it often serves other columns as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import Layout, bits_of, unpack_codes
from chiasma.models.target import Target
from chiasma.types import Floats, Integers

# Pairs of columns that are compared, and differences that are kept.
COMPARED = 20_000
MOST = 500


@dataclass(frozen=True, kw_only=True, repr=False)
class Differences:
    """n differences: the rows in which two columns differ change from their states in `a` to those in `b` or back.

    a, b : n codes of the axes of a target; rows that a difference leaves alone are in state 0 in both.
    weights : n whole numbers; differences are chosen in proportion to them.
    """

    a: tuple[int, ...] = ()
    b: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Short, and different for different dictionaries: a run that is continued must have the same."""
        digest = hashlib.sha256(self.values().tobytes()).hexdigest()[:8]
        return f"<{len(self.weights)} differences {digest}>"

    def values(self) -> Integers:
        """(3 n,): a, b and cumulative weights, as kernels take them."""
        return np.concatenate([self.a, self.b, np.cumsum(self.weights)]).astype(np.int64)

    def check(self, layout: Layout) -> None:
        """Raise InvalidInput if these are no differences between columns of this layout."""
        codes = np.array([*self.a, *self.b], np.int64)
        inside = np.all(unpack_codes(codes, layout) < layout.sizes[:, None])
        inside &= not np.any(codes & ~np.int64(bits_of(layout)))
        counted = len(self.a) == len(self.b) == len(self.weights) and min(self.weights, default=1) >= 1
        if not (inside and counted):
            raise InvalidInput(
                f"{self} do not fit this model of {len(layout.sizes)} free rows; learn them from the same model"
            )


def find_differences(
    seen: Integers,
    layout: Layout,
    more_than: int,
    rng: np.random.Generator,
    parts: Sequence[Integers] | None = None,
) -> Differences:
    """The most frequent differences between columns of different chains in more than `more_than` rows.

    seen (chains, n, T): codes that the chains have visited. parts: rows that belong together, see `parts_of`; what two
    columns differ by in one part is a difference by itself.

    >>> from chiasma.kernels.layout import make_layout
    >>> seen = np.array([[[7, 0, 5]], [[0, 7, 5]]])  # two chains
    >>> found = find_differences(seen, make_layout([2, 2, 2]), 1, np.random.default_rng(1))
    >>> found.a, found.b
    ((0,), (7,))
    """
    n_chains, n_seen, n_columns = seen.shape
    one = rng.integers(n_chains, size=COMPARED)
    other = (one + rng.integers(1, n_chains, size=COMPARED)) % n_chains
    column = rng.integers(n_columns, size=COMPARED)
    first = seen[one, rng.integers(n_seen, size=COMPARED), column].astype(np.int64)
    second = seen[other, rng.integers(n_seen, size=COMPARED), column].astype(np.int64)
    pairs = []
    for rows in [np.arange(len(layout.sizes))] if parts is None else parts:
        a, b, n_changed = (np.zeros(COMPARED, np.int64) for _ in range(3))
        for k in rows:
            field = layout.masks[k] << layout.shifts[k]
            differs = (first ^ second) & field != 0
            n_changed += differs
            # A row of two states flips, whichever of them comes first.
            a |= np.where(differs & (layout.sizes[k] > 2), first & field, 0)
            b |= np.where(differs, second & field if layout.sizes[k] > 2 else field, 0)
        pairs.append(np.sort(np.stack([a, b], axis=1)[n_changed > more_than], axis=1))
    found, counts = count_pairs(np.concatenate(pairs))
    order = np.argsort(-counts, kind="stable")[:MOST]
    return Differences(
        a=tuple(found[order, 0].tolist()), b=tuple(found[order, 1].tolist()), weights=tuple(counts[order].tolist())
    )


def count_pairs(pairs: Integers) -> tuple[Integers, Integers]:
    """The distinct lines of pairs (n, 2), in order, and how often each occurs.

    np.unique(pairs, axis=0, return_counts=True), which compares lines byte by byte and takes several times as long.

    >>> count_pairs(np.array([[3, 4], [0, 7], [3, 4]]))
    (array([[0, 7],
           [3, 4]]), array([1, 2]))
    """
    inner, outer = pairs[:, 1], pairs[:, 0]
    ordered = pairs[np.lexsort((inner, outer))]
    first = np.flatnonzero(np.any(ordered[1:] != ordered[:-1], axis=1)) + 1
    bounds = np.concatenate([[0], first, [len(pairs)]]) if len(pairs) else np.zeros(1, np.int64)
    return ordered[bounds[:-1]], np.diff(bounds)


def parts_of(target: Target) -> list[Integers]:
    """Axes that some channel ties together, directly or through others, where the noise is known to be independent
    between channels; else all of them.
    """
    gaussian = target.likelihood.gaussian_parts()
    return [np.arange(target.n_axes)] if gaussian is None else independent_parts(gaussian.steps)


# ---- Sets of rows that can stand in for each other: sums of weights that nearly coincide -----------------------------

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


# ---- Parts of a model that the data do not tie together --------------------------------------------------------------


def independent_parts(steps: Floats) -> list[Integers]:
    """The rows of every part, ascending, in the order of their first rows. steps (K, D): what row k adds to channel d.

    >>> steps = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [3.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    >>> [part.tolist() for part in independent_parts(steps)]
    [[0, 2, 3], [1]]
    """
    reached = np.eye(len(steps), dtype=bool) | (np.abs(steps) @ np.abs(steps).T > 0)
    # Squaring doubles the number of steps between rows that count: six times for 63 rows.
    for _ in range(max(len(steps) - 1, 1).bit_length()):
        reached = (reached.astype(np.int64) @ reached) > 0
    first = np.argmax(reached, axis=1)
    return [np.flatnonzero(first == row) for row in np.unique(first)]
