"""Axes: the free rows of a model, and groups of rows that cannot be told apart, as one chain of counts each.

n equal rows have the same S states, values and Markov chain.

The likelihood sees only how many rows are in each state. These counts are a Markov chain themselves, for the joint
chain of the rows stays what it is when rows change places (strong lumpability). It has C = binomial(n + S - 1, S - 1)
states in place of S^n.

Order of count states: by the sorted states of the rows, as itertools.combinations_with_replacement lists them.
First all rows in state 0, last all in state S - 1; for two states the number of a count state is the number of rows
that are on, for a single row it is the row's state.

The best path of the rows (Viterbi) follows from counts as well. Let M(c, c') be the largest probability of moves that
take rows with counts c to counts c'. It is the same from each arrangement x of rows with counts c, and into each x'
with counts c': a maximum over tables of moves with margins c and c', each of which can be had between any x and some
x', and between some x and any x'. If the best score V_t(x) of a path that ends in x depends on the counts of x alone,
v_t(c), then so does the next one: V_t+1(x') = lik(c') max_x V_t(x) A(x, x') = lik(c') max_c v_t(c) M(c, c'). It does at
a start. So the largest joint probability is that of the best path of counts under M, and going along that path, each
time by a best table of moves from the arrangement at hand, gives rows that reach it. Sums in place of M would count
every arrangement, and prefer counts that can be had in many ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import numpy.typing as npt

from chiasma.errors import ImpossibleData, InvalidInput
from chiasma.kernels import lumping as kernel
from chiasma.types import Floats, Integers, as_floats

# Products of probabilities below this may have lost something to underflow; they are computed in logarithms.
_UNDERFLOW = 1e-290


def n_count_states(n_rows: int, n_states: int) -> int:
    """How many count states there are.

    >>> n_count_states(63, 2), n_count_states(5, 6)
    (64, 252)
    """
    return comb(n_rows + n_states - 1, n_states - 1)


class Group:
    """n equal rows of S states each as one row of C count states.

    counts : (C, S) rows in each state, for every count state.

    Examples
    --------
    >>> Group(2, 3).counts.tolist()
    [[2, 0, 0], [1, 1, 0], [1, 0, 1], [0, 2, 0], [0, 1, 1], [0, 0, 2]]
    >>> Group(2, 2).lump(np.array([[[0.9, 0.1], [0.5, 0.5]]])).round(12).tolist()
    [[[0.81, 0.18, 0.01], [0.45, 0.5, 0.05], [0.25, 0.5, 0.25]]]
    """

    def __init__(self, n_rows: int, n_states: int):
        if n_rows < 1 or n_states < 2:
            raise InvalidInput(
                f"a group has at least one row of at least two states, got {n_rows} rows of {n_states} states; "
                "drop the group, or hold its rows with fixed="
            )
        self.n_rows, self.n_states = n_rows, n_states
        arrangements = np.array(list(combinations_with_replacement(range(n_states), n_rows)))
        self.counts: Integers = np.stack([(arrangements == s).sum(axis=1) for s in range(n_states)], axis=1)
        # _rank[s, r]: the count states before one with r rows beyond state s, as far as s decides.
        self._rank = np.array(
            [[comb(r + n_states - 2 - s, n_states - 1 - s) for r in range(n_rows + 1)] for s in range(n_states - 1)]
        )
        self._sizes = np.array([n_count_states(m, n_states) for m in range(n_rows + 1)])
        # Ranks do not depend on rows in state 0: those of m rows are the first ones of those of n.
        fewer = self._beyond(self.counts[: self._sizes[n_rows - 1]])
        self._up = np.stack([self._number(fewer + (np.arange(n_states - 1) < y)) for y in range(n_states)], axis=1)

    @property
    def size(self) -> int:
        """C."""
        return len(self.counts)

    def index(self, counts: npt.ArrayLike) -> Integers:
        """(...) numbers of count states from (..., S) counts.

        >>> Group(2, 3).index([0, 1, 1]).tolist()
        4
        """
        given = as_floats("counts", counts)
        whole = given.astype(np.int64)
        fits = given.shape[-1:] == (self.n_states,) and bool(np.all((whole == given) & (given >= 0)))
        if not fits or np.any(whole.sum(axis=-1) != self.n_rows):
            raise InvalidInput(
                f"counts must be {self.n_states} whole numbers (states) that add up to {self.n_rows} (rows), got "
                f"{np.asarray(counts).tolist()}"
            )
        return self._number(self._beyond(whole))

    def _beyond(self, counts: Integers) -> Integers:
        """(..., S - 1): how many rows are in states above s."""
        return np.asarray(counts[..., ::-1].cumsum(axis=-1)[..., -2::-1])

    def _number(self, beyond: Integers) -> Integers:
        return np.asarray(self._rank[np.arange(self.n_states - 1), beyond].sum(axis=-1))

    def levels(self, values: npt.ArrayLike) -> Floats:
        """(C,) or (C, D): what all rows add together, from the (S,) or (S, D) values of one."""
        given = as_floats("values", values)
        if given.ndim not in (1, 2) or len(given) != self.n_states:
            raise InvalidInput(
                f"values must have shape ({self.n_states},), one number per state, or ({self.n_states}, channels), "
                f"got {given.shape}"
            )
        return np.asarray(self.counts @ given)

    def lump(self, matrices: Floats) -> Floats:
        """(E, C, C) transition matrices of the counts from (E, S, S) ones of a row, as `RowChain.matrices` gives them.

        At a start every row of the matrix is the initial distribution, for one row as for the counts.
        """
        out = self._table(matrices)
        kernel.lump(matrices, self.counts, self._sizes, self._up, out)
        return out

    def lump_slopes(self, matrices: Floats, by_lumped: Floats) -> Floats:
        """(E, S, S) derivatives with respect to the matrices of a row, from those with respect to `lump` of them.

        Of the c_x rows in state x, each may be the one that moves to y while the others do the rest:
        dL_n(c, c') / dA(x, y) = c_x L_{n-1}(c - x, c' - y).
        """
        rest = Group(self.n_rows - 1, self.n_states) if self.n_rows > 1 else None
        before = np.zeros((1, self.n_states), np.int64) if rest is None else rest.counts
        lumped = np.ones((len(matrices), 1, 1)) if rest is None else rest.lump(matrices)
        out = np.empty_like(matrices)
        for x in range(self.n_states):
            for y in range(self.n_states):
                terms = lumped * by_lumped[:, self._up[:, x]][:, :, self._up[:, y]]
                out[:, x, y] = np.einsum("ecd,c->e", terms, before[:, x] + 1.0)
        return out

    def log_lump(self, matrices: Floats) -> Floats:
        """(E, C, C) their logarithms, also of probabilities that are too small for a float."""
        out = self.lump(matrices)
        small = (out < _UNDERFLOW).any(axis=(1, 2))
        out = _log(out)
        if small.any():
            out[small] = self._log_table(matrices[small], best=False)
        return out

    def log_best(self, matrices: Floats) -> Floats:
        """(E, C, C) log-probabilities of the best moves of single rows from counts to counts: for best paths."""
        return self._log_table(matrices, best=True)

    def _log_table(self, matrices: Floats, best: bool) -> Floats:
        out = self._table(matrices)
        kernel.log_lump(_log(matrices), self.counts, self._sizes, self._up, best, out)
        return out

    def _table(self, matrices: Floats) -> Floats:
        if matrices.ndim != 3 or matrices.shape[1:] != (self.n_states, self.n_states):
            raise InvalidInput(
                f"matrices must have shape (kinds of edges, {self.n_states}, {self.n_states}), got {matrices.shape}; "
                f"make them with chain.matrices({self.n_states}, gaps)"
            )
        return np.empty((len(matrices), self.size, self.size))


class Unlumping:
    """From counts back to rows, for (E, S, S) matrices of a row.

    Examples
    --------
    >>> from chiasma.models.chains import Switch
    >>> rows = Unlumping(Group(3, 2), Switch(0.1, 0.2).matrices(2, np.array([np.inf, 1.0])))
    >>> path, edge = np.array([1, 1, 2]), np.array([0, 1, 1], np.int32)
    >>> rows.best(path, edge).tolist()
    [[1, 1, 1], [0, 0, 1], [0, 0, 0]]
    >>> rows.draw(path, edge, np.random.default_rng(1)).sum(axis=0).tolist()
    [1, 1, 2]
    """

    def __init__(self, group: Group, matrices: Floats):
        self.group = group
        self._log_matrices = _log(matrices)
        self._matrices = matrices
        self._log_lumped = group.log_lump(matrices)
        self._stays = np.exp(np.minimum(self._log_stay() - _diagonal(self._log_lumped), 0.0))
        size = range(group.n_rows + 1)
        self._log_choose = _log(np.array([[float(comb(n, k)) for k in size] for n in size]))

    def _log_stay(self) -> Floats:
        """(E, C) log-probabilities that every row stays where it is."""
        counts = self.group.counts
        stay = np.diagonal(self._log_matrices, axis1=1, axis2=2)[:, None, :]
        with np.errstate(invalid="ignore"):  # 0 rows that can never stay
            return np.where(counts > 0, counts * stay, 0.0).sum(axis=-1)

    def draw(self, path: Integers, edge: npt.NDArray[np.int32], rng: np.random.Generator) -> npt.NDArray[np.int8]:
        """(n, T) states of the rows from p(rows | counts), for a path (T,) of count states and its kinds of edges.

        Reads T uniforms, then n for each column where rows are placed or move.
        """
        group = self.group
        states = self._states(path, edge)
        uniforms = rng.random(len(path))
        picks = rng.random((kernel.count_moving(path, edge, self._stays, uniforms), group.n_rows))
        current, since = np.empty((2, group.n_rows), np.int64)
        if group.n_states == 2:
            log_tables = (self._log_matrices, self._log_lumped, self._stays, self._log_choose)
            order = np.empty(group.n_rows, np.int64)
            failed = kernel.draw_binary_rows(path, edge, *log_tables, uniforms, picks, order, current, since, states)
        else:
            tables = (self._log_matrices, group.counts, self._stays)
            failed = kernel.draw_rows(path, edge, *tables, uniforms, picks, current, since, *self._work(), states)
        return self._possible(failed, path, states)

    def best(self, path: Integers, edge: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
        """(n, T) states of the rows on the best of their paths with these counts; always the same one."""
        group = self.group
        states = self._states(path, edge)
        best_stays = self._log_stay() >= _diagonal(group.log_best(self._matrices)) - kernel.TIE
        current, since = np.empty((2, group.n_rows), np.int64)
        failed = kernel.best_rows(
            path, edge, self._log_matrices, group.counts, best_stays, current, since, *self._work(), states
        )
        return self._possible(failed, path, states)

    def _states(self, path: Integers, edge: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
        if len(path) != len(edge) or not len(path) or edge[0] != 0:
            raise InvalidInput(
                f"a path needs as many edges as columns, and a start (kind 0) at the first, got {len(path)} columns "
                f"and {len(edge)} edges; take them from Observations.edge_kinds()"
            )
        if path.min() < 0 or path.max() >= self.group.size:
            raise InvalidInput(
                f"count states are 0..{self.group.size - 1}, got a path from {path.min()} to {path.max()}; "
                "Group.index gives their numbers"
            )
        return np.empty((self.group.n_rows, len(path)), np.int8)

    def _work(self) -> tuple[Integers, Integers, Integers, Floats]:
        left, digits, strides = np.empty((3, self.group.n_states), np.int64)
        return left, digits, strides, np.empty(int((self.group.counts + 1).prod(axis=1).max()))

    def _possible(self, failed: int, path: Integers, states: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        if failed >= 0:
            raise ImpossibleData(
                f"column {failed}: counts {self.group.counts[path[failed]].tolist()} cannot be reached there; draw the "
                "path with the matrices that it is undone with"
            )
        return states


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _diagonal(tables: Floats) -> Floats:
    """(E, C) of (E, C, C); -inf, what cannot happen, as 0: nothing is below it."""
    diagonal = np.diagonal(tables, axis1=1, axis2=2)
    return np.where(diagonal == -np.inf, 0.0, diagonal)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """rows: their numbers in the model; matrices (E, S, S) of each of them."""

    rows: tuple[int, ...]
    matrices: Floats

    @property
    def n_row_states(self) -> int:
        """S, the states of a single row."""
        return self.matrices.shape[1]

    @property
    def size(self) -> int:
        """The states of the axis: of the row, or the counts of the group."""
        return n_count_states(len(self.rows), self.n_row_states)

    @cached_property
    def group(self) -> Group:
        return Group(len(self.rows), self.n_row_states)

    @cached_property
    def tables(self) -> Floats:
        """(E, C, C)"""
        return self.matrices if len(self.rows) == 1 else self.group.lump(self.matrices)

    @property
    def log_tables(self) -> Floats:
        """(E, C, C): also of probabilities that are too small for a float."""
        return _log(self.matrices) if len(self.rows) == 1 else self.group.log_lump(self.matrices)

    @property
    def best_log_tables(self) -> Floats:
        """(E, C, C): of the best arrangement of the rows, for Viterbi."""
        return _log(self.matrices) if len(self.rows) == 1 else self.group.log_best(self.matrices)

    @cached_property
    def unlumping(self) -> Unlumping:
        return Unlumping(self.group, self.matrices)

    def levels(self, adds: Floats) -> Floats:
        """(C,) or (C, D) what the states of the axis add, from the (S,) or (S, D) of a row."""
        return adds if len(self.rows) == 1 else self.group.levels(adds)

    def row_probabilities(self, smoothed: Floats) -> Floats:
        """(T, C) probabilities of the axis' states to (S, T) probabilities of the states of any of its rows."""
        if len(self.rows) == 1:
            return np.ascontiguousarray(smoothed.T)
        return np.minimum(np.asarray(self.group.counts.T @ smoothed.T) / len(self.rows), 1.0)
