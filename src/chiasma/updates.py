"""Updates within one replica: which candidates are drawn given what.

An update is a frozen configuration. `prepare(target, beta)` binds it to a target and returns a sweep, which
changes codes (T,) of the free rows in place from a fixed number of uniforms:

    sweep = ch.RowGibbs().prepare(model.target(data), beta=1.0)
    sweep(codes, rng.random(sweep.n_uniforms))

At beta = 0 every update is an independent draw from the prior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chiasma.errors import BudgetExceeded, InvalidInput
from chiasma.exact import MEMORY, Passes
from chiasma.kernels import sweeps
from chiasma.kernels.ball import draw_centres, scale_columns
from chiasma.kernels.codes import ball_offsets
from chiasma.kernels.rows import draw_row, filter_row
from chiasma.kernels.transitions import LINEAR_FLOOR
from chiasma.models.observations import Floats, Integers
from chiasma.models.target import Target, temper


class Sweep(ABC):
    """One update bound to a target and a beta."""

    n_uniforms: int

    @abstractmethod
    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        """Change codes (T,) in place, reading uniforms (n_uniforms,) in [0, 1)."""


class Update(ABC):
    """What is drawn given what, at any beta."""

    def prepare(self, target: Target, beta: float) -> Sweep:
        """Bind to a target; refuses what does not fit it."""
        self.check(target)
        return PriorSweep(target) if beta == 0 else self._bind(target, beta)

    def check(self, target: Target) -> None:  # noqa: B027 (most updates fit every target)
        """Raise InvalidInput where the update does not fit the target."""

    @abstractmethod
    def _bind(self, target: Target, beta: float) -> Sweep: ...


@dataclass(frozen=True, kw_only=True)
class RowGibbs(Update):
    """Each row in turn, as a whole path, given the other rows: the paper's Gibbs sampler."""

    def _bind(self, target: Target, beta: float) -> Sweep:
        if target.lowest.min() >= LINEAR_FLOOR:
            return RowSweep(target, beta)
        return BlockSweep(target, beta, orders=[np.arange(target.n_rows)], size=1)


@dataclass(frozen=True, kw_only=True)
class BlockGibbs(Update):
    """Blocks of rows jointly, given the others.

    size : rows per block. Every sweep deals the rows into blocks at random and updates each row once.
    blocks : fixed blocks in place of random ones, e.g. [(0, 1), (2, 3)]; a row may be in several or in none.
    """

    size: int = 2
    blocks: Sequence[Sequence[int]] | None = None

    def check(self, target: Target) -> None:
        n_rows = target.n_rows
        if self.blocks is None:
            if not 1 <= self.size <= n_rows:
                raise InvalidInput(f"size must be in 1..{n_rows} (free rows), got {self.size}")
            return
        for block in self.blocks:
            if not block or len(set(block)) < len(block) or not set(block) <= set(target.free):
                raise InvalidInput(f"a block lists distinct free rows, here of {list(target.free)}, got {list(block)}")

    def _bind(self, target: Target, beta: float) -> Sweep:
        if self.blocks is None:
            return BlockSweep(target, beta, orders=None, size=self.size)
        index = {row: i for i, row in enumerate(target.free)}
        orders = [np.array([index[row] for row in block]) for block in self.blocks]
        return BlockSweep(target, beta, orders=orders, size=target.n_rows)


@dataclass(frozen=True, kw_only=True)
class HammingBall(Update):
    """The whole path among columns within `radius` flips of an auxiliary path (Titsias and Yau)."""

    radius: int = 1

    def check(self, target: Target) -> None:
        if not 1 <= self.radius <= target.n_rows:
            raise InvalidInput(
                f"radius must be in 1..{target.n_rows} (free rows), got {self.radius}; use Exact() for the whole space"
            )

    def _bind(self, target: Target, beta: float) -> Sweep:
        return BallSweep(target, beta, ball_offsets(target.n_rows, self.radius))


@dataclass(frozen=True, kw_only=True)
class Exact(Update):
    """The whole path at once: independent draws. memory: bytes for the messages of one replica."""

    memory: int = MEMORY

    def _bind(self, target: Target, beta: float) -> Sweep:
        return ExactSweep(target, beta, self.memory)


@dataclass(frozen=True)
class Compose(Update):
    """Several updates, one after the other, as one sweep."""

    updates: Sequence[Update]

    def check(self, target: Target) -> None:
        if not self.updates:
            raise InvalidInput("Compose needs at least one update, got none")
        for update in self.updates:
            update.check(target)

    def _bind(self, target: Target, beta: float) -> Sweep:
        return ComposedSweep([update.prepare(target, beta) for update in self.updates])


class PriorSweep(Sweep):
    """All rows from the prior."""

    def __init__(self, target: Target):
        self.target = target
        self.n_uniforms = target.n_rows * target.n_columns

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        sweeps.prior_sweep(self.target.trans, self.target.edge, uniforms, codes)


class _TargetSweep(Sweep):
    """Shared by sweeps that read likelihoods: from a table, or streamed for the candidates they need."""

    def __init__(self, target: Target, beta: float, width: int, n_vector: int = 0):
        self.target = target
        self.beta = beta
        self.work = sweeps.make_work(target.n_columns, width, n_vector)
        self.tables: sweeps.Tables | None = None
        if target.tabulated:
            lik, _ = temper(target.log_lik, beta)
            self.tables = sweeps.Tables(lik, target.log_lik, target.trans, target.log_trans, target.edge, target.lowest)

    def streamed(self, centres: Integers, offsets: Integers, linear: bool) -> Floats:
        """(T, m) likelihoods of centres ^ offsets at this beta, or untempered logarithms when not linear."""
        lik = np.ascontiguousarray(self.target.likelihood.at(centres[:, None] ^ offsets))
        if linear:
            scale_columns(lik, self.beta)
        return lik


class RowSweep(_TargetSweep):
    """Rows one by one in linear space."""

    def __init__(self, target: Target, beta: float):
        super().__init__(target, beta, width=2)
        self.n_uniforms = target.n_rows * target.n_columns

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        if self.tables is not None:
            sweeps.row_sweep(self.tables, self.beta, uniforms, codes, self.work)
            return
        target = self.target
        alpha = self.work.alpha.reshape(-1, 2)
        for k, row_uniforms in enumerate(uniforms.reshape(target.n_rows, -1)):
            bit = np.int64(1 << k)
            pair = self.streamed(codes & ~bit, np.array([0, bit]), linear=True)
            filter_row(pair, target.trans, target.edge, k, alpha)
            draw_row(alpha, target.trans, target.edge, k, row_uniforms, int(bit), codes)


class BlockSweep(_TargetSweep):
    """Blocks of rows, at random (orders is None) or as listed."""

    def __init__(self, target: Target, beta: float, orders: list[Integers] | None, size: int):
        largest = size if orders is None else max(min(size, len(order)) for order in orders)
        _fits(target, 8 * 3 * target.n_columns << largest, f"a block of {largest} rows")
        super().__init__(target, beta, width=1 << largest)
        self.orders = orders
        self.size = size
        n_rows = target.n_rows
        n_blocks = sum(-(-len(order) // size) for order in orders or [np.arange(n_rows)])
        self.n_uniforms = n_blocks * target.n_columns + (n_rows if orders is None else 0)

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        if self.orders is not None:
            for order in self.orders:
                n_used = -(-len(order) // self.size) * len(codes)
                self._blocks(order, codes, uniforms[:n_used])
                uniforms = uniforms[n_used:]
            return
        order = np.empty(self.target.n_rows, np.int64)
        sweeps.shuffle(uniforms[: len(order)], order)
        self._blocks(order, codes, uniforms[len(order) :])

    def _blocks(self, order: Integers, codes: Integers, uniforms: Floats) -> None:
        target, work = self.target, self.work
        if self.tables is not None:
            sweeps.block_sweep(self.tables, self.beta, order, self.size, uniforms, codes, work)
            return
        for start in range(0, len(order), self.size):
            rows = order[start : start + self.size]
            linear = target.linear(rows)
            spread = np.empty(1 << len(rows), np.int64)
            sweeps.spread_block(rows, spread)
            sweeps.clear_block(codes, rows, work.centres)
            lik = self.streamed(work.centres, spread, linear)
            trans = np.ascontiguousarray(target.trans[:, rows])
            log_trans = np.ascontiguousarray(target.log_trans[:, rows])
            first = start // self.size * len(codes)
            sweeps.update_block(
                linear,
                self.beta,
                lik,
                spread,
                trans,
                log_trans,
                target.edge,
                uniforms[first : first + len(codes)],
                work.centres,
                codes,
                work,
            )


class BallSweep(_TargetSweep):
    """Hamming ball; steps of its filter are dense or through the tensor, whichever counts fewer operations."""

    def __init__(self, target: Target, beta: float, offsets: Integers):
        n_rows, size = target.n_rows, len(offsets)
        self.dense = size * size * n_rows < (n_rows + 1) << n_rows
        _fits(target, 8 * 2 * target.n_columns * size, f"a ball of {size} candidates")
        super().__init__(target, beta, width=size, n_vector=0 if self.dense else 1 << n_rows)
        self.offsets = offsets
        self.linear = target.linear()
        self.n_uniforms = 2 * target.n_columns

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        target, work = self.target, self.work
        if self.tables is not None:
            sweeps.ball_sweep(self.tables, self.beta, self.linear, self.offsets, self.dense, uniforms, codes, work)
            return
        draw_centres(codes, self.offsets, uniforms[: len(codes)], work.centres)
        sweeps.update_ball(
            self.linear,
            self.beta,
            self.streamed(work.centres, self.offsets, self.linear),
            self.offsets,
            self.dense,
            target.trans,
            target.log_trans,
            target.edge,
            uniforms[len(codes) :],
            codes,
            work,
        )


class ExactSweep(Sweep):
    """Filtered once, then one backward pass per sweep."""

    def __init__(self, target: Target, beta: float, memory: int):
        self.passes = Passes(target, beta, memory=memory, stay=True)
        self.n_uniforms = target.n_columns
        self.scratch = np.empty(self.passes.n_states)

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        for segment in self.passes.backward():
            self.passes.draw(segment, uniforms, codes, self.scratch)


class ComposedSweep(Sweep):
    """Sweeps one after the other."""

    def __init__(self, parts: list[Sweep]):
        self.parts = parts
        self.n_uniforms = sum(part.n_uniforms for part in parts)

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        first = 0
        for part in self.parts:
            part(codes, uniforms[first : first + part.n_uniforms])
            first += part.n_uniforms


def _fits(target: Target, needed: int, what: str) -> None:
    if needed > 4 * MEMORY:
        raise BudgetExceeded(
            f"{what} over {target.n_columns} columns needs {needed / 2**20:,.0f} MiB of messages, "
            f"limit {4 * MEMORY / 2**20:,.0f} MiB; take a smaller one"
        )
