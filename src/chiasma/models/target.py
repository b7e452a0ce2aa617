"""Target: a model and its data as arrays for the kernels.

An axis of a target is a free row, or a group of rows that cannot be told apart, which counts as one row whose states
are counts (`models.axes`). Fixed rows are left out: they enter the likelihood as a constant level and cost no state
space. A column has three forms: exact passes see its index over the axes, updates and exchanges its code over the axes
(`kernels.layout`), and what is recorded is its code over all rows of the model. `expand` and `reduce` convert between
the last two. Where all axes have two states, index and code are the same number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chiasma.errors import BudgetExceeded, ImpossibleData, InvalidInput
from chiasma.kernels.codes import smallest_dtype
from chiasma.kernels.layout import Layout, codes_of_indices, index_of_codes, make_layout, n_bits, put_in_codes
from chiasma.kernels.logspace import temper_table
from chiasma.kernels.state_rows import draw_known_row, draw_prior_row
from chiasma.kernels.sweeps import prior_sweep
from chiasma.kernels.transitions import LINEAR_FLOOR, Matrices, is_linear, log_prior, path_log_likelihood
from chiasma.models.axes import Axis
from chiasma.models.likelihood import Candidates, IndexTable, KnownStates, Likelihood, Restricted
from chiasma.types import Floats, Integers, as_floats, is_a, shown

TABLE_BYTES = 256 * 2**20
# Transition probabilities as kernels take them: the array of rows of two states, or matrices of any size.
Transitions = Floats | Matrices
# Bytes that the matrices of all kinds of edges may take.
MATRIX_BYTES = 2**30


@dataclass(frozen=True, kw_only=True)
class Target:
    """edge (T,), transition probabilities and likelihood of the axes; see chiasma.kernels for the conventions.

    trans : (E, K, 4) of axes of two states, else (E, M).
    groups : the rows of the model behind every axis.
    row_layout : all rows of the model, the fixed ones included.
    fixed_code : fixed rows in their states, the others in state 0.
    made_of : the axes, if they are not simply the rows of `trans`.
    """

    checks: ClassVar[bool] = False  # whether methods check what they are given (`checked_target`)

    edge: npt.NDArray[np.int32]
    trans: Floats
    likelihood: Likelihood
    layout: Layout
    groups: tuple[tuple[int, ...], ...]
    row_layout: Layout
    fixed_code: int = 0
    made_of: tuple[Axis, ...] = ()
    table_bytes: int = TABLE_BYTES

    @classmethod
    def of_axes(
        cls,
        edge: npt.NDArray[np.int32],
        axes: Sequence[Axis],
        likelihood: Likelihood,
        row_layout: Layout,
        fixed_code: int = 0,
        table_bytes: int = TABLE_BYTES,
    ) -> Target:
        """The target of these axes."""
        n_edges = len(axes[0].matrices)
        needed = 8 * n_edges * sum(axis.size**2 for axis in axes)
        if needed > MATRIX_BYTES:
            raise BudgetExceeded(
                f"the transition matrices of {n_edges} kinds of gaps need {needed / 2**20:,.0f} MiB, limit "
                f"{MATRIX_BYTES / 2**20:,.0f} MiB; round the gaps, or take fewer states or copies"
            )
        return cls(
            edge=edge,
            trans=_side_by_side([axis.tables for axis in axes]),
            likelihood=likelihood,
            layout=make_layout([axis.size for axis in axes]),
            groups=tuple(axis.rows for axis in axes),
            row_layout=row_layout,
            fixed_code=fixed_code,
            made_of=tuple(axes),
            table_bytes=table_bytes,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without tables."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def binary(self) -> bool:
        """Whether every axis has two states: the form of `trans`, and which kernels serve the target."""
        return self.trans.ndim == 3

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        if self.made_of:
            return self.made_of
        matrices = np.moveaxis(self.trans.reshape(*self.trans.shape[:2], 2, 2), 1, 0)
        return tuple(Axis(rows=rows, matrices=own) for rows, own in zip(self.groups, matrices, strict=True))

    @property
    def n_columns(self) -> int:
        return len(self.edge)

    @property
    def n_axes(self) -> int:
        """What updates and exchanges move: K."""
        return len(self.groups)

    @cached_property
    def n_states(self) -> int:
        """Joint states of a column."""
        return math.prod(self.layout.sizes.tolist())

    def width(self, axes: Integers) -> int:
        """Joint states of some axes."""
        return math.prod(self.layout.sizes[axes].tolist())

    def widest(self, n: int) -> int:
        """The most joint states that n axes can have."""
        return math.prod(sorted(self.layout.sizes.tolist(), reverse=True)[:n])

    @property
    def has_groups(self) -> bool:
        """Whether an axis counts rows, whose arrangement is then drawn when a path is expanded."""
        return len(self.groups) < sum(map(len, self.groups))

    @property
    def free(self) -> tuple[int, ...]:
        """Rows of the model that are not fixed."""
        return tuple(sorted(k for rows in self.groups for k in rows))

    def axes_of(self, rows: Sequence[int]) -> Integers:
        """Axes of some free rows of the model, in their order. Equal rows have one, and move together."""
        found = [g for k in rows for g, own in enumerate(self.groups) if k in own]
        return np.array(list(dict.fromkeys(found)), np.int64)

    @property
    def n_operations(self) -> float:
        """Multiply-adds of a filter per column and joint state, about."""
        return self.n_axes + 2 if self.binary else float(self.layout.sizes.sum())

    @property
    def tensor_operations(self) -> int:
        """Operations of a tensor pass per column."""
        return (self.n_axes + 1 if self.binary else int(self.layout.sizes.sum())) * self.n_states

    @property
    def axes_text(self) -> str:
        return "free rows" if self.binary else "free rows, equal ones counted as one"

    @property
    def size_text(self) -> str:
        """The axes in words: equal rows and what they count as.

        >>> import chiasma as ch
        >>> row = ch.Row([0, 100], ch.Switch(0.1, 0.1), copies=8)
        >>> ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=1.0)).target([0.0]).size_text
        '9 joint states (8 equal rows count as 9 states)'
        """
        if self.binary:
            return f"{self.n_axes} free rows"
        found = Counter(f"{len(a.rows)} equal rows count as {a.size} states" for a in self.axes if len(a.rows) > 1)
        groups = [text if n == 1 else f"{n} times {text}" for text, n in found.items()]
        return f"{self.n_states:,} joint states" + (f" ({', '.join(groups)})" if groups else "")

    @cached_property
    def log_trans(self) -> Floats:
        """Of the shape of `trans`; also of probabilities of counts that are too small for a float."""
        if self.has_groups:
            return _side_by_side([axis.log_tables for axis in self.axes])
        return _log(self.trans)

    @cached_property
    def best_log_trans(self) -> Floats:
        """The same for the best arrangement of equal rows, for Viterbi."""
        if self.has_groups:
            return _side_by_side([axis.best_log_tables for axis in self.axes])
        return self.log_trans

    @property
    def transitions(self) -> Transitions:
        """`trans` in the form that kernels take (`kernels.transitions`)."""
        return self._form(self.trans)

    @property
    def log_transitions(self) -> Transitions:
        return self._form(self.log_trans)

    def log_matrices(self, best: bool = False) -> Matrices:
        """Logarithms for passes, in one form; best: of the best arrangement of equal rows."""
        table = self.best_log_trans if best else self.log_trans
        return Matrices(table.reshape(len(table), -1), self.layout)

    def _form(self, table: Floats) -> Transitions:
        return table if self.binary else Matrices(table, self.layout)

    @cached_property
    def bounds(self) -> Integers:
        """(n + 1,) first column of each run of columns with the same kind of edge, and T."""
        return np.concatenate([[0], np.flatnonzero(np.diff(self.edge)) + 1, [self.n_columns]])

    @cached_property
    def lowest(self) -> Floats:
        """(K,) smallest transition probability of each axis."""
        if self.binary:
            return np.asarray(self.trans.min(axis=(0, 2)))
        return np.array([axis.tables.min() for axis in self.axes])

    def linear(self, axes: Integers | None = None) -> bool:
        """Whether passes over these axes (default: all) can use probabilities, not logarithms, without underflow."""
        if self.trans.min() ** self.n_axes >= LINEAR_FLOOR:
            return True
        return bool(is_linear(self.lowest, np.arange(self.n_axes) if axes is None else axes))

    @property
    def known(self) -> KnownStates | None:
        """States of axes that are known."""
        return self.likelihood.known if isinstance(self.likelihood, Restricted) else None

    @property
    def tabulated(self) -> bool:
        """Whether a table of all joint states fits into table_bytes; if not, updates evaluate only those they need.

        Compiled programs on tables of rows of two states do not know of known states.
        """
        if self.binary and self.known is not None:
            return False
        return 8 * self.n_columns * self.n_states <= self.table_bytes

    @cached_property
    def log_lik(self) -> Floats:
        """(T, N) table of log-likelihoods by index."""
        table = np.empty((self.n_columns, self.n_states))
        for first, stop in self._pieces():
            table[first:stop] = self.likelihood.all_codes(first, stop)
        return table

    @cached_property
    def candidates(self) -> Candidates:
        """Log-likelihoods of the codes that updates and exchanges ask for."""
        if self.binary or not self.tabulated:
            return self.likelihood
        table = np.empty((self.n_states, self.n_columns))
        for first, stop in self._pieces():
            table[:, first:stop] = self.likelihood.all_codes(first, stop).T
        return IndexTable(table, self.layout)

    def _pieces(self) -> list[tuple[int, int]]:
        """Columns whose likelihoods are evaluated together."""
        step = max(1, 2**16 // self.n_states)
        return [(first, min(first + step, self.n_columns)) for first in range(0, self.n_columns, step)]

    def to_codes(self, indices: Integers) -> Integers:
        """Codes of the axes from indices, of any shape."""
        if self.binary:
            return indices
        codes = np.empty(indices.size, np.int64)
        codes_of_indices(indices.ravel(), self.layout, codes)
        return codes.reshape(indices.shape)

    def to_indices(self, codes: Integers) -> Integers:
        """Indices from codes of the axes, of any shape."""
        if self.binary:
            return codes
        indices = np.empty(codes.size, np.int64)
        index_of_codes(codes.ravel(), self.layout, indices)
        return indices.reshape(codes.shape)

    def expand(self, codes: npt.NDArray[np.integer], rng: np.random.Generator | None = None) -> Integers:
        """Convert codes of the axes, of any shape, to codes of all rows.

        Rows of a group are drawn from rng given their counts, along one path (T,); without groups nothing is drawn.
        """

        def draw(axis: Axis, path: Integers) -> npt.NDArray[np.int8]:
            assert rng is not None
            return axis.unlumping.draw(path, self.edge, rng)

        return self._arranged(codes, draw)

    def best_codes(self, indices: Integers) -> Integers:
        """(T,) codes of all rows from a path of indices, with the best arrangement of the rows of a group."""
        return self._arranged(self.to_codes(indices), lambda axis, path: axis.unlumping.best(path, self.edge))

    def _arranged(
        self, codes: npt.NDArray[np.integer], arrange: Callable[[Axis, Integers], npt.NDArray[np.int8]]
    ) -> Integers:
        """arrange: (n, T) states of the rows of a group, from its axis and the path of its counts."""
        whole = np.asarray(codes, np.int64)
        if self._in_place:
            return whole | self.fixed_code
        out = np.full(whole.shape, self.fixed_code, np.int64)
        shifts = self.row_layout.shifts
        for g, rows in enumerate(self.groups):
            path = whole >> self.layout.shifts[g] & self.layout.masks[g]
            states = path[None] if len(rows) == 1 else arrange(self.axes[g], path)
            for k, own in zip(rows, states, strict=True):
                out |= own.astype(np.int64) << shifts[k]
        return out

    @property
    def records_codes(self) -> bool:
        """Whether paths of indices are recorded as they are: all rows have two states, and none is fixed."""
        return self.binary and self.fixed_code == 0 and self._in_place

    @cached_property
    def _in_place(self) -> bool:
        """Whether every axis is a row and has its bits in the code of the model."""
        return not self.has_groups and all(
            self.row_layout.shifts[k] == shift for (k,), shift in zip(self.groups, self.layout.shifts, strict=True)
        )

    def reduce(self, codes: npt.NDArray[np.integer]) -> Integers:
        """Convert codes of all rows, of any shape, to codes of the axes."""
        whole = np.asarray(codes, np.int64)
        out = np.zeros_like(whole)
        shifts, masks = self.row_layout.shifts, self.row_layout.masks
        for g, rows in enumerate(self.groups):
            states = np.array([whole >> shifts[k] & masks[k] for k in rows])
            if len(rows) == 1:
                own = states[0]
            else:
                counts = [(states == s).sum(axis=0) for s in range(self.axes[g].n_row_states)]
                own = self.axes[g].group.index(np.stack(counts, axis=-1))
            out |= own << self.layout.shifts[g]
        return out

    @property
    def record_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds codes of all rows."""
        return smallest_dtype(n_bits(self.row_layout))

    def record(
        self, codes: npt.NDArray[np.integer], rng: np.random.Generator | None = None
    ) -> npt.NDArray[np.unsignedinteger]:
        """`expand`, in the type in which draws are stored."""
        return self.expand(codes, rng).astype(self.record_dtype)

    def sample_prior(self, rng: np.random.Generator) -> Integers:
        """(T,) codes of the axes: a path drawn from the prior."""
        codes = np.zeros(self.n_columns, np.int64)
        self.draw_prior(rng.random(self.n_axes * self.n_columns), codes)
        return codes

    def draw_prior(self, uniforms: Floats, codes: Integers) -> None:
        """Draw a path from the prior, given the known states, into codes (T,). Reads K * T uniforms."""
        if self.known is not None:
            self._draw_known(self.known, uniforms, codes)
            return
        if self.binary:
            prior_sweep(self.trans, self.edge, uniforms, codes)
            return
        states = np.empty(self.n_columns, np.int64)
        for k, axis in enumerate(self.axes):
            own = uniforms[k * self.n_columns : (k + 1) * self.n_columns]
            draw_prior_row(axis.tables.reshape(len(axis.tables), -1), self.edge, own, states)
            put_in_codes(states, self.layout, k, codes)

    def _draw_known(self, known: KnownStates, uniforms: Floats, codes: Integers) -> float:
        """`draw_prior` given the known states; returns the log of their probability."""
        total = 0.0
        states = np.empty(self.n_columns, np.int64)
        unknown = np.full(self.n_columns, -1)
        for k, axis in enumerate(self.axes):
            own = known.states[known.axes.index(k)] if k in known.axes else unknown
            tables = axis.tables.reshape(len(axis.tables), -1)
            total += draw_known_row(tables, self.edge, own, uniforms[k * self.n_columns :], states)
            put_in_codes(states, self.layout, k, codes)
        if total == -np.inf:
            raise ImpossibleData(
                "the known states have probability zero: a transition of probability zero leads from one to the next; "
                "correct them, or give the transition a small probability"
            )
        return total

    @cached_property
    def log_known(self) -> float:
        """The log probability of the known states under the prior."""
        if self.known is None:
            return 0.0
        uniforms = np.full(self.n_axes * self.n_columns, 0.5)
        return self._draw_known(self.known, uniforms, np.zeros(self.n_columns, np.int64))

    def log_prior(self, codes: Integers) -> float:
        """log-probability of a path of codes of the axes: of a group, of its counts."""
        return float(log_prior(codes, self.log_transitions, self.edge))

    @cached_property
    def _free_layout(self) -> tuple[Layout, Floats]:
        """Layout in a code of all rows, and log-transitions (E, M), of the free rows one by one."""
        rows = sorted((k, axis) for axis in self.axes for k in axis.rows)
        layout = make_layout([axis.n_row_states for _, axis in rows])
        log_trans = _side_by_side([_log(axis.matrices) for _, axis in rows])
        return layout._replace(shifts=self.row_layout.shifts[[k for k, _ in rows]]), log_trans

    def log_row_prior(self, codes: Integers) -> float:
        """log p(X) of a path of codes of all rows."""
        if not self.has_groups:
            return self.log_prior(self.reduce(codes))
        layout, log_trans = self._free_layout
        return float(log_prior(codes, Matrices(log_trans, layout), self.edge))

    def log_likelihood(self, codes: Integers) -> float:
        """log p(y | X) of a path of codes of the axes."""
        if "log_lik" in self.__dict__:  # the cached table exists already
            return float(path_log_likelihood(self.log_lik, self.to_indices(codes)))
        return float(self.likelihood.at(codes[:, None]).sum())

    def log_parts(self, codes: Integers) -> tuple[float, float]:
        """log p(X) and log p(y | X) of a path of codes of all rows."""
        reduced = self.reduce(codes)
        log_prior = self.log_row_prior(codes) if self.has_groups else self.log_prior(reduced)
        return log_prior, self.log_likelihood(reduced)


def check_beta(beta: float) -> float:
    """The inverse temperature as a float, or an error."""
    if is_a(beta, float) and 0 <= beta < np.inf:
        return float(beta)
    given = as_floats("beta", beta)
    if given.shape != () or not 0 <= given < np.inf:
        raise InvalidInput(f"beta must be a finite number >= 0, got {shown(beta)}")
    return float(given)


def tempered_table(log_lik: Floats, beta: float, out: Floats | None = None) -> Floats:
    """(S, T): exp(beta * log_lik), every column divided by its maximum, transposed into the layout that sweeps read.

    beta = 0 ignores the data altogether, impossible observations included.
    """
    made = np.empty(log_lik.shape[::-1]) if out is None else out
    if beta == 0:
        made[:] = 1.0
    else:
        temper_table(log_lik, beta, made)
    return made


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _side_by_side(tables: Sequence[Floats]) -> Floats:
    """(E, M) from (E, C, C) of every axis."""
    return np.concatenate([table.reshape(len(table), -1) for table in tables], axis=1)
