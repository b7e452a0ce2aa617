"""Exchange moves between two replicas: swaps of whole paths (parallel tempering), and crossovers of segments.

An exchange is a frozen configuration. `prepare(target_i, target_j, beta_i, beta_j)` binds it to two replicas, which
may have their own likelihoods and transitions, and returns a step that changes both paths in place from a fixed
number of uniforms:

    step = ch.MosaicCrossover().prepare(target, target, 1.0, 0.2)
    n_moved = step(a, b, rng.random(step.n_uniforms))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels import moves
from chiasma.kernels.sweeps import Tables
from chiasma.models.checked_target import (
    are_rows,
    check_generator,
    check_pair,
    check_path,
    check_target,
    check_two,
    check_uniforms,
    is_checked,
)
from chiasma.models.target import Target, check_beta
from chiasma.sampling.updates import make_tables
from chiasma.types import Floats, Integers, is_a, is_count, shown

Rows = Sequence[int] | Literal["all", "random"]


class PairStep(ABC):
    """An exchange bound to two replicas."""

    n_uniforms: int
    is_swap: bool  # whether whole paths are swapped, so that they can be followed up and down the ladder

    @abstractmethod
    def __call__(self, a: Integers, b: Integers, uniforms: Floats) -> int:
        """Change codes a and b (T,) in place; returns in how many columns a changed."""

    def step(self, a: Integers, b: Integers, rng: np.random.Generator) -> int:
        """The same, with uniforms drawn from rng."""
        return self(a, b, rng.random(self.n_uniforms))


class CheckedPair(PairStep):
    """An exchange that checks what it is given."""

    def __init__(self, target: Target, pair: PairStep):
        # The other target has as many columns and the same rows (`check_pair`).
        self.n_columns, self.layout = target.n_columns, target.layout
        self.pair = pair
        self.n_uniforms, self.is_swap = pair.n_uniforms, pair.is_swap

    def __call__(self, a: Integers, b: Integers, uniforms: Floats) -> int:
        check_path("a", a, self.n_columns, self.layout)
        check_path("b", b, self.n_columns, self.layout)
        check_two(a, b)
        check_uniforms(uniforms, self.n_uniforms)
        return self.pair(a, b, uniforms)

    def step(self, a: Integers, b: Integers, rng: np.random.Generator) -> int:
        check_generator(rng)
        return super().step(a, b, rng)


@dataclass(frozen=True, kw_only=True)
class Exchange(ABC):
    """Base class of the exchanges. A new one defines `bind`; it then serves every model.

    rows : "all" exchanges all rows together (the paper's choice); also a list of rows, or "random": a new subset
        for every move, which includes each row with probability one half. Equal rows are exchanged together; one of
        them represents all.
    """

    rows: Rows = "all"

    def prepare(self, target_i: Target, target_j: Target, beta_i: float, beta_j: float) -> PairStep:
        """Bind to two replicas over the same columns and rows."""
        for target in (target_i, target_j):
            check_target(target)
        check_pair(target_i, target_j)
        pair = self.bind(target_i, target_j, (check_beta(beta_i), check_beta(beta_j)))
        return CheckedPair(target_i, pair) if is_checked(target_i, target_j) else pair

    @abstractmethod
    def bind(self, target_i: Target, target_j: Target, betas: tuple[float, float]) -> PairStep:
        """The step of two replicas with these targets at these betas."""

    def order(self, target: Target) -> Integers:
        """The axes that may be exchanged."""
        if isinstance(self.rows, str):
            if self.rows not in ("all", "random"):
                raise InvalidInput(f'rows must be "all", "random" or a list of free rows, got "{self.rows}"')
            return np.arange(target.n_axes)
        if not are_rows(self.rows, target.free):
            raise InvalidInput(f"rows must be distinct free rows, here of {list(target.free)}, got {shown(self.rows)}")
        return target.axes_of(self.rows)


@dataclass(frozen=True, kw_only=True)
class KernelExchange(Exchange):
    """Base class of the exchanges that `kernels.moves` makes: also inside whole compiled iterations."""

    def bind(self, target_i: Target, target_j: Target, betas: tuple[float, float]) -> PairStep:
        move, n_uniforms = self.move(target_i), self.n_uniforms(target_i)
        compiled = target_i.binary and target_i.tabulated and target_j.tabulated
        pair: type[TabulatedPair] | type[LoopPair] = TabulatedPair if compiled else LoopPair
        return pair(move, n_uniforms, (target_i, target_j), betas)

    @abstractmethod
    def move(self, target: Target) -> moves.Move:
        """The move, encoded as numbers for the kernels."""

    def n_uniforms(self, target: Target) -> int:
        """How many uniforms a move reads."""
        return self._own_uniforms(target) + (moves.ROW_UNIFORMS if self.rows == "random" else 0)

    @abstractmethod
    def _own_uniforms(self, target: Target) -> int: ...

    def _move(
        self, target: Target, kind: int, across_rows: bool = False, points: int = 0, flipped: bool = False
    ) -> moves.Move:
        return moves.Move(kind, self.order(target), self.rows == "random", across_rows, points, flipped)


@dataclass(frozen=True, kw_only=True)
class Swap(KernelExchange):
    """Swap of the whole paths (of the chosen rows) with a Metropolis-Hastings test, as in parallel tempering.

    Parameters
    ----------
    rows : "all", a list of rows, or "random": a new subset for every move.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> target = model.target([0.1, 2.9, 3.2])
    >>> step = ch.Swap().prepare(target, target, 1.0, 0.2)
    >>> cold, hot = np.array([0, 3, 0]), np.array([1, 3, 3])
    >>> moved = step(cold, hot, np.random.default_rng(1).random(step.n_uniforms))
    >>> cold.tolist(), hot.tolist()
    ([1, 3, 3], [0, 3, 0])
    """

    def move(self, target: Target) -> moves.Move:
        return self._move(target, moves.SWAP)

    def _own_uniforms(self, target: Target) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class _Crossover(KernelExchange):
    """axis : "sites" cuts along the sequence, "rows" between rows."""

    axis: Literal["sites", "rows"] = "sites"

    def __post_init__(self) -> None:
        if not is_a(self.axis, str) or self.axis not in ("sites", "rows"):
            raise InvalidInput(f'axis must be "sites" or "rows", got {shown(self.axis)}')


@dataclass(frozen=True, kw_only=True)
class RandomCrossover(_Crossover):
    """Crossover of one segment, cut uniformly at one or two points, with a Metropolis-Hastings test.

    Parameters
    ----------
    rows : "all", a list of rows, or "random": a new subset for every move.
    axis : "sites" cuts along the sequence, "rows" between rows.
    points : 1 or 2 cuts.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> target = model.target([0.1, 2.9, 3.2])
    >>> step = ch.RandomCrossover().prepare(target, target, 1.0, 0.2)
    >>> cold, hot = np.array([0, 3, 0]), np.array([1, 3, 3])
    >>> moved = step(cold, hot, np.random.default_rng(1).random(step.n_uniforms))
    >>> cold.tolist(), hot.tolist()
    ([0, 3, 0], [1, 3, 3])
    """

    points: Literal[1, 2] = 1

    def move(self, target: Target) -> moves.Move:
        if not is_count(self.points) or self.points > 2:
            raise InvalidInput(f"points must be 1 or 2, got {shown(self.points)}")
        return self._move(target, moves.RANDOM_CROSSOVER, self.axis == "rows", self.points)

    def _own_uniforms(self, target: Target) -> int:
        return self.points + 1


@dataclass(frozen=True, kw_only=True)
class AugmentedCrossover(_Crossover):
    """The paper's move: a random crossover to an auxiliary pair, then a Gibbs draw among its crossovers; no rejection.

    Parameters
    ----------
    rows : "all", a list of rows, or "random": a new subset for every move.
    axis : "sites" cuts along the sequence, "rows" between rows.
    flipped : bool, draw among all 2T prefixes and suffixes; False: among the T prefixes only.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> target = model.target([0.1, 2.9, 3.2])
    >>> step = ch.AugmentedCrossover().prepare(target, target, 1.0, 0.2)
    >>> cold, hot = np.array([0, 3, 0]), np.array([1, 3, 3])
    >>> moved = step(cold, hot, np.random.default_rng(1).random(step.n_uniforms))
    >>> cold.tolist(), hot.tolist()
    ([0, 3, 3], [1, 3, 0])
    """

    flipped: bool = True

    def move(self, target: Target) -> moves.Move:
        return self._move(target, moves.AUGMENTED, self.axis == "rows", flipped=self.flipped)

    def _own_uniforms(self, target: Target) -> int:
        return 2


@dataclass(frozen=True, kw_only=True)
class MosaicCrossover(KernelExchange):
    """Exact Gibbs draw among all 2^T ways of exchanging columns between the two replicas; no rejection.

    Parameters
    ----------
    rows : "all", a list of rows, or "random": a new subset for every move.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> target = model.target([0.1, 2.9, 3.2])
    >>> step = ch.MosaicCrossover().prepare(target, target, 1.0, 0.2)
    >>> cold, hot = np.array([0, 3, 0]), np.array([1, 3, 3])
    >>> moved = step(cold, hot, np.random.default_rng(1).random(step.n_uniforms))
    >>> cold.tolist(), hot.tolist()
    ([0, 3, 3], [1, 3, 0])
    """

    def move(self, target: Target) -> moves.Move:
        return self._move(target, moves.MOSAIC)

    def _own_uniforms(self, target: Target) -> int:
        return target.n_columns


# Registry of exchanges by their names on the command line, in files and in `sample`.
EXCHANGES: dict[str, type[Exchange]] = {
    "swap": Swap,
    "random": RandomCrossover,
    "augmented": AugmentedCrossover,
    "mosaic": MosaicCrossover,
}


class TabulatedPair(PairStep):
    """Compiled moves on the likelihood tables of both replicas."""

    def __init__(self, move: moves.Move, n_uniforms: int, targets: tuple[Target, Target], betas: tuple[float, float]):
        self.move = move
        self.n_uniforms = n_uniforms
        self.is_swap = bool(moves.swaps_whole_paths(move, targets[0].n_axes))
        self.betas = betas
        self.work = moves.make_pair_work(targets[0].n_columns, targets[0].n_axes)
        self.tables: tuple[Tables, Tables] = make_tables(targets[0], betas[0]), make_tables(targets[1], betas[1])

    def __call__(self, a: Integers, b: Integers, uniforms: Floats) -> int:
        return int(moves.exchange_pair(self.move, *self.tables, *self.betas, uniforms, a, b, self.work))


class LoopPair(PairStep):
    """The same moves part by part, with likelihoods of the two paths and their exchanges only. Inside a group of equal
    rows the counts move as one row.
    """

    def __init__(self, move: moves.Move, n_uniforms: int, targets: tuple[Target, Target], betas: tuple[float, float]):
        self.move = move
        self.n_uniforms = n_uniforms
        self.is_swap = bool(moves.swaps_whole_paths(move, targets[0].n_axes))
        self.betas = betas
        self.targets = targets
        self.transitions = targets[0].log_transitions, targets[1].log_transitions, targets[0].edge
        self.work = moves.make_pair_work(targets[0].n_columns, targets[0].n_axes)

    def __call__(self, a: Integers, b: Integers, uniforms: Floats) -> int:
        rows = moves.choose_rows(self.move, uniforms)
        if self.move.random_rows:
            uniforms = uniforms[moves.ROW_UNIFORMS :]
        if len(rows) == 0:
            return 0
        before = a.copy()
        if self.move.across_rows:
            masks = moves.candidate_masks(self.move, rows, uniforms)
            fields = moves.fields_of(masks, self.transitions[0])
            moves.begin_rows(self.move, fields, uniforms, a, b)
            self.work.totals[: len(masks)] = self._scores(a, b, fields).sum(axis=0)
            moves.finish_rows(self.move, rows, masks, *self.transitions, uniforms, a, b, self.work)
        else:
            fields = moves.fields_of(np.array([0, moves.mask_of(rows)]), self.transitions[0])
            mask = int(fields[1])
            moves.begin_columns(self.move, mask, uniforms, a, b)
            self.work.columns[:] = self._scores(a, b, fields)
            moves.finish_columns(self.move, mask, *self.transitions, uniforms, a, b, self.work)
        return int(np.count_nonzero(before != a))

    def _scores(self, a: Integers, b: Integers, fields: Integers) -> Floats:
        """(T, m) summed tempered log-likelihood of both replicas after exchanging the rows of each mask."""
        flips = (a ^ b)[:, None] & fields
        total = np.zeros(flips.shape)
        for target, beta, codes in zip(self.targets, self.betas, (a, b), strict=True):
            if beta > 0:
                total += beta * target.candidates.at(codes[:, None] ^ flips)
        return total
