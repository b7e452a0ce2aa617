"""Target: a model and its data as arrays for the kernels, over free rows only.

Fixed rows are left out: they enter the likelihood as a constant level and cost no state space. Row i of a target
is row free[i] of the model; `expand` and `reduce` convert codes between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels.codes import move_bits, smallest_dtype
from chiasma.kernels.exponential import temper_table
from chiasma.kernels.layout import Layout, make_layout
from chiasma.kernels.sweeps import prior_sweep
from chiasma.kernels.transitions import LINEAR_FLOOR, is_linear, log_prior, path_log_likelihood, smallest
from chiasma.models.likelihood import Likelihood
from chiasma.types import Floats, Integers, as_floats, is_a, shown

TABLE_BYTES = 256 * 2**20


@dataclass(frozen=True, kw_only=True)
class Target:
    """edge (T,), trans (E, K, 4) and likelihood of the K free rows; see chiasma.kernels for the conventions."""

    edge: npt.NDArray[np.int32]
    trans: Floats
    likelihood: Likelihood
    free: tuple[int, ...]
    all_rows: int  # free and fixed
    fixed_code: int = 0
    table_bytes: int = TABLE_BYTES

    @property
    def n_columns(self) -> int:
        return len(self.edge)

    @property
    def n_rows(self) -> int:
        return len(self.free)

    axes_text: ClassVar[str] = "free rows"

    @property
    def n_axes(self) -> int:
        """What updates and exchanges move: rows. `models.state_target` has groups of rows beside them."""
        return len(self.free)

    @property
    def n_states(self) -> int:
        """Joint states of a column."""
        return 1 << self.n_rows

    def width(self, axes: Integers) -> int:
        """Joint states of some rows."""
        return 1 << len(axes)

    def widest(self, n: int) -> int:
        """The most joint states that n rows can have."""
        return 1 << n

    def axes_of(self, rows: Sequence[int]) -> Integers:
        """Free rows of the model by their numbers here."""
        return np.array([self.free.index(row) for row in rows])

    @property
    def n_operations(self) -> float:
        """Multiply-adds of a filter per column and joint state, about."""
        return self.n_rows + 2

    @property
    def tensor_operations(self) -> int:
        """Operations of a tensor pass per column."""
        return (self.n_rows + 1) << self.n_rows

    @property
    def layout(self) -> Layout:
        return make_layout([2] * self.n_rows)

    @property
    def size_text(self) -> str:
        return f"{self.n_rows} free rows"

    @cached_property
    def log_trans(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.trans)

    @property
    def tabulated(self) -> bool:
        """Whether a table of all codes fits into table_bytes; if not, updates evaluate only the codes they need."""
        return self.n_rows < 40 and 8 * self.n_columns << self.n_rows <= self.table_bytes

    @cached_property
    def log_lik(self) -> Floats:
        """(T, 2^K) table of log-likelihoods."""
        table = np.empty((self.n_columns, 1 << self.n_rows))
        step = max(1, 2**16 >> self.n_rows)
        for first in range(0, self.n_columns, step):
            table[first : first + step] = self.likelihood.all_codes(first, min(first + step, self.n_columns))
        return table

    @cached_property
    def bounds(self) -> Integers:
        """(n + 1,) first column of each run of columns with the same kind of edge, and T."""
        return np.concatenate([[0], np.flatnonzero(np.diff(self.edge)) + 1, [self.n_columns]])

    @cached_property
    def lowest(self) -> Floats:
        """(K,) smallest transition probability of each row."""
        return np.asarray(self.trans.min(axis=(0, 2)))

    def linear(self, rows: Integers | None = None) -> bool:
        """Whether passes over these rows (default: all) can use probabilities, not logarithms, without underflow."""
        if smallest(self.trans) ** self.n_rows >= LINEAR_FLOOR:
            return True
        return bool(is_linear(self.lowest, np.arange(self.n_rows) if rows is None else rows))

    def expand(self, codes: npt.NDArray[np.integer]) -> Integers:
        """Convert codes of the free rows to codes of all rows."""
        whole = np.asarray(codes, np.int64)
        if self.free != tuple(range(self.n_rows)):
            whole = move_bits(whole, range(self.n_rows), self.free)
        return whole | self.fixed_code

    def reduce(self, codes: npt.NDArray[np.integer]) -> Integers:
        """Convert codes of all rows to codes of the free rows."""
        return move_bits(np.asarray(codes, np.int64), self.free, range(self.n_rows))

    @property
    def record_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds codes of all rows."""
        return smallest_dtype(self.all_rows)

    def record(self, codes: npt.NDArray[np.integer]) -> npt.NDArray[np.unsignedinteger]:
        """Convert codes of the free rows to codes of all rows, in the type in which draws are stored."""
        return self.expand(codes).astype(self.record_dtype)

    def sample_prior(self, rng: np.random.Generator) -> Integers:
        """(T,) codes of the free rows: a path drawn from the prior."""
        codes = np.zeros(self.n_columns, np.int64)
        prior_sweep(self.trans, self.edge, rng.random(self.n_rows * self.n_columns), codes)
        return codes

    def log_prior(self, codes: Integers) -> float:
        """log p(X) of a path of the free rows."""
        return float(log_prior(codes, self.log_trans, self.edge))

    def log_likelihood(self, codes: Integers) -> float:
        """log p(y | X) of a path of the free rows."""
        if "log_lik" in self.__dict__:  # the cached table exists already
            return float(path_log_likelihood(self.log_lik, codes))
        return float(self.likelihood.at(codes[:, None]).sum())

    def log_parts(self, codes: Integers) -> tuple[float, float]:
        """log p(X) and log p(y | X) of a path of all rows."""
        reduced = self.reduce(codes)
        return self.log_prior(reduced), self.log_likelihood(reduced)


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
