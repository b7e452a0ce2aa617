"""StateTarget: a model whose rows have any number of states, and its data, as arrays for the kernels.

An axis of a target is a free row, or a group of rows that cannot be told apart, which counts as one row whose states
are counts (`models.groups`). A column has three forms: exact passes see its index over the axes, updates and exchanges
its code over the axes (`kernels.layout`), and what is recorded is its code over all rows of the model. `expand` makes
that of a path, and chooses which of the rows of a group are in which state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from chiasma.errors import BudgetExceeded
from chiasma.kernels.codes import smallest_dtype
from chiasma.kernels.layout import Layout, codes_of_indices, index_of_codes, make_layout, put_in_codes
from chiasma.kernels.state_paths import log_prior
from chiasma.kernels.state_rows import draw_prior_row
from chiasma.kernels.transitions import LINEAR_FLOOR
from chiasma.models.groups import Group, Unlumping, n_count_states
from chiasma.models.likelihood import IndexLevels, IndexTable, StateLikelihood
from chiasma.models.rows import Rows
from chiasma.models.target import TABLE_BYTES, Target
from chiasma.types import Floats, Integers

# Bytes that the matrices of all kinds of edges may take.
MATRIX_BYTES = 2**30


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Rows of the model that cannot be told apart, or one row; matrices (E, S, S) and what each state adds, (S,) or
    (S, D).
    """

    rows: tuple[int, ...]
    matrices: Floats
    adds: Floats

    @cached_property
    def group(self) -> Group:
        return Group(len(self.rows), len(self.adds))

    @property
    def size(self) -> int:
        return n_count_states(len(self.rows), len(self.adds))

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

    def levels(self) -> Floats:
        """(C,) or (C, D)"""
        return self.adds if len(self.rows) == 1 else self.group.levels(self.adds)

    def row_probabilities(self, smoothed: Floats) -> Floats:
        """(T, C) probabilities of the axis' states to (S, T) probabilities of the states of any of its rows."""
        if len(self.rows) == 1:
            return np.ascontiguousarray(smoothed.T)
        return np.asarray(self.group.counts.T @ smoothed.T) / len(self.rows)


class StateTarget:
    """edge (T,), the axes, and the likelihood over all indices; rows: all rows of the model."""

    axes_text: ClassVar[str] = "free rows, equal ones counted as one"

    def __init__(
        self,
        edge: npt.NDArray[np.int32],
        axes: list[Axis],
        likelihood: IndexLevels,
        rows: Rows,
        table_bytes: int = TABLE_BYTES,
    ):
        n_edges = len(axes[0].matrices)
        needed = 8 * n_edges * sum(axis.size**2 for axis in axes)
        if needed > MATRIX_BYTES:
            raise BudgetExceeded(
                f"the transition matrices of {n_edges} kinds of gaps need {needed / 2**20:,.0f} MiB, limit "
                f"{MATRIX_BYTES / 2**20:,.0f} MiB; round the gaps, or take fewer states or copies"
            )
        self.edge = edge
        self.axes = axes
        self.likelihood = likelihood
        self.rows = rows
        self.table_bytes = table_bytes

    @cached_property
    def layout(self) -> Layout:
        return make_layout([axis.size for axis in self.axes])

    @property
    def n_columns(self) -> int:
        return len(self.edge)

    @property
    def n_axes(self) -> int:
        return len(self.axes)

    @cached_property
    def n_states(self) -> int:
        """Joint states of a column."""
        return self.width(np.arange(self.n_axes))

    def width(self, axes: Integers) -> int:
        """Joint states of some axes."""
        return math.prod(self.axes[k].size for k in axes)

    def widest(self, n: int) -> int:
        """The most joint states that n axes can have."""
        return math.prod(sorted((axis.size for axis in self.axes), reverse=True)[:n])

    @property
    def free(self) -> tuple[int, ...]:
        """Rows of the model that are not fixed."""
        return tuple(sorted(k for axis in self.axes for k in axis.rows))

    def axes_of(self, rows: Sequence[int]) -> Integers:
        """Axes of some free rows of the model, in their order. Equal rows have one, and move together."""
        found = [g for k in rows for g, axis in enumerate(self.axes) if k in axis.rows]
        return np.array(list(dict.fromkeys(found)), np.int64)

    @property
    def n_operations(self) -> float:
        """Multiply-adds of a filter per column and joint state."""
        return float(sum(axis.size for axis in self.axes))

    @property
    def tensor_operations(self) -> int:
        """Multiply-adds of a filter per column."""
        return int(self.n_operations) * self.n_states

    @property
    def size_text(self) -> str:
        """The axes in words: equal rows and what they count as.

        >>> import chiasma as ch
        >>> row = ch.Row([0, 100], ch.Switch(0.1, 0.1), copies=8)
        >>> ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=1.0)).target([0.0]).size_text
        '9 joint states (8 equal rows count as 9 states)'
        """
        found = Counter(f"{len(a.rows)} equal rows count as {a.size} states" for a in self.axes if len(a.rows) > 1)
        groups = [text if n == 1 else f"{n} times {text}" for text, n in found.items()]
        return f"{self.n_states:,} joint states" + (f" ({', '.join(groups)})" if groups else "")

    @cached_property
    def trans(self) -> Floats:
        """(E, M)"""
        return _side_by_side([axis.tables for axis in self.axes])

    @cached_property
    def log_trans(self) -> Floats:
        return _side_by_side([axis.log_tables for axis in self.axes])

    @cached_property
    def best_log_trans(self) -> Floats:
        return _side_by_side([axis.best_log_tables for axis in self.axes])

    @cached_property
    def lowest(self) -> Floats:
        """(K,) smallest transition probability of each axis."""
        return np.array([axis.tables.min() for axis in self.axes])

    def linear(self, axes: Integers | None = None) -> bool:
        """Whether passes over these axes (default: all) are safe in linear space."""
        return float(np.prod(self.lowest if axes is None else self.lowest[axes])) >= LINEAR_FLOOR

    @property
    def tabulated(self) -> bool:
        """Whether a table of all joint states fits into table_bytes; if not, updates evaluate only those they need."""
        return 8 * self.n_columns * self.n_states <= self.table_bytes

    @cached_property
    def candidates(self) -> StateLikelihood:
        """Log-likelihoods of the codes that updates and exchanges ask for."""
        if not self.tabulated:
            return self.likelihood
        table = np.empty((self.n_states, self.n_columns))
        step = max(1, 2**16 // self.n_states)
        for first in range(0, self.n_columns, step):
            table[:, first : first + step] = self.likelihood.all_codes(first, min(first + step, self.n_columns)).T
        return IndexTable(table, self.layout)

    @property
    def record_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds codes of all rows."""
        return smallest_dtype(sum(row.n_bits for row in self.rows.rows))

    @property
    def fixed_code(self) -> np.int64:
        """Fixed rows in their states, the others in state 0."""
        shifts = self.rows.layout.shifts
        return np.int64(sum(state << int(shifts[k]) for k, state in self.rows.fixed.items()))

    def to_codes(self, indices: Integers) -> Integers:
        """Codes of the axes from indices, of any shape."""
        codes = np.empty(indices.size, np.int64)
        codes_of_indices(indices.ravel(), self.layout, codes)
        return codes.reshape(indices.shape)

    def to_indices(self, codes: Integers) -> Integers:
        """Indices from codes of the axes, of any shape."""
        indices = np.empty(codes.size, np.int64)
        index_of_codes(codes.ravel(), self.layout, indices)
        return indices.reshape(codes.shape)

    def expand(self, codes: Integers, rng: np.random.Generator) -> Integers:
        """(T,) codes of all rows from codes of the axes; rows of a group are drawn given their counts."""
        return self.codes(self.to_indices(codes), rng)

    def reduce(self, codes: Integers) -> Integers:
        """(T,) codes of the axes from codes of all rows."""
        return self.to_codes(self.indices(codes))

    def sample_prior(self, rng: np.random.Generator) -> Integers:
        """(T,) codes of the axes: a path drawn from the prior."""
        codes = np.zeros(self.n_columns, np.int64)
        self.draw_prior(rng.random(self.n_axes * self.n_columns), codes)
        return codes

    def draw_prior(self, uniforms: Floats, codes: Integers) -> None:
        """Draw a path from the prior into codes (T,). Reads K * T uniforms."""
        states = np.empty(self.n_columns, np.int64)
        for k, axis in enumerate(self.axes):
            own = uniforms[k * self.n_columns : (k + 1) * self.n_columns]
            draw_prior_row(axis.tables.reshape(len(axis.tables), -1), self.edge, own, states)
            put_in_codes(states, self.layout, k, codes)

    def codes(self, indices: Integers, rng: np.random.Generator) -> Integers:
        """(T,) codes of all rows from a path of indices; rows of a group are drawn given their counts."""
        return self._codes(indices, lambda axis, path: axis.unlumping.draw(path, self.edge, rng))

    def best_codes(self, indices: Integers) -> Integers:
        """The same with the best arrangement of the rows of a group, for the most probable path."""
        return self._codes(indices, lambda axis, path: axis.unlumping.best(path, self.edge))

    def _codes(self, indices: Integers, arrange: Callable[[Axis, Integers], npt.NDArray[np.int8]]) -> Integers:
        """arrange: (n, T) states of the rows of a group, from its axis and the path of its counts."""
        shifts = self.rows.layout.shifts
        codes = np.full(len(indices), self.fixed_code)
        for axis, stride, size in zip(self.axes, self.layout.strides, self.layout.sizes, strict=True):
            path = indices // stride % size
            states = path[None] if len(axis.rows) == 1 else arrange(axis, path)
            for k, own in zip(axis.rows, states, strict=True):
                codes |= own.astype(np.int64) << shifts[k]
        return codes

    def indices(self, codes: Integers) -> Integers:
        """(T,) indices of the axes from codes of all rows."""
        layout = self.rows.layout
        out = np.zeros(len(codes), np.int64)
        for axis, stride in zip(self.axes, self.layout.strides, strict=True):
            states = np.array([codes >> layout.shifts[k] & layout.masks[k] for k in axis.rows])
            if len(axis.rows) == 1:
                out += states[0] * stride
            else:
                counts = np.stack([(states == s).sum(axis=0) for s in range(len(axis.adds))], axis=-1)
                out += axis.group.index(counts) * stride
        return out

    @cached_property
    def _free_layout(self) -> tuple[Layout, Floats, Integers]:
        """Layout and log-transitions (E, M) of the free rows one by one, and which rows they are."""
        rows = sorted((k, axis) for axis in self.axes for k in axis.rows)
        layout = make_layout([len(axis.adds) for _, axis in rows])
        log_trans = _side_by_side([_log(axis.matrices) for _, axis in rows])
        return layout, log_trans, np.array([k for k, _ in rows])

    def log_row_prior(self, codes: Integers) -> float:
        """log p(X) of a path of codes of all rows."""
        layout, log_trans, free = self._free_layout
        shifts = self.rows.layout.shifts[free]
        return float(log_prior(codes, log_trans, layout._replace(shifts=shifts), self.edge))

    def log_prior(self, codes: Integers) -> float:
        """log-probability of a path of codes of the axes: of a group, of its counts."""
        return float(log_prior(codes, self.log_trans, self.layout, self.edge))

    def log_likelihood(self, codes: Integers) -> float:
        """log p(y | X) of a path of codes of the axes."""
        return float(self.likelihood.at(codes[:, None]).sum())

    def log_parts(self, codes: Integers) -> tuple[float, float]:
        """log p(X) and log p(y | X) of a path of all rows."""
        return self.log_row_prior(codes), self.log_likelihood(self.reduce(codes))


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _side_by_side(tables: Sequence[Floats]) -> Floats:
    """(E, M) from (E, C, C) of every axis."""
    return np.concatenate([table.reshape(len(table), -1) for table in tables], axis=1)


# What updates, exchanges and exact passes work on.
AnyTarget = Target | StateTarget
