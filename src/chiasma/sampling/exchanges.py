"""Exchange moves between two replicas: swaps of whole paths (parallel tempering), and crossovers of segments.

An exchange is a frozen configuration. `prepare(target_i, target_j, beta_i, beta_j)` binds it to two replicas, which
may have likelihoods and transitions of their own, and returns a step that changes both paths in place from a fixed
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
from chiasma.models.target import Target, check_beta
from chiasma.sampling.updates import make_tables
from chiasma.types import Floats, Integers

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


@dataclass(frozen=True, kw_only=True)
class Exchange(ABC):
    """Base class of the moves.

    rows : "all" exchanges all rows together (the paper's choice); also a list of rows, or "random": a new subset
        for every move, which includes each row with probability one half.
    """

    rows: Rows = "all"

    def prepare(self, target_i: Target, target_j: Target, beta_i: float, beta_j: float) -> PairStep:
        """Bind to two replicas over the same columns and rows."""
        beta_i, beta_j = check_beta(beta_i), check_beta(beta_j)
        step = TabulatedPair if target_i.tabulated and target_j.tabulated else StreamedPair
        return step(self.move(target_i), self.n_uniforms(target_i), target_i, target_j, beta_i, beta_j)

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
        order = np.arange(target.n_rows)
        if not isinstance(self.rows, str):
            given = list(self.rows)
            if not given or len(set(given)) < len(given) or not set(given) <= set(target.free):
                raise InvalidInput(f"rows must be distinct free rows, here of {list(target.free)}, got {given}")
            order = np.array([target.free.index(row) for row in given])
        elif self.rows not in ("all", "random"):
            raise InvalidInput(f'rows must be "all", "random" or a list of free rows, got "{self.rows}"')
        return moves.Move(kind, order, self.rows == "random", across_rows, points, flipped)


@dataclass(frozen=True, kw_only=True)
class Swap(Exchange):
    """Swap of the whole paths (of the chosen rows) with a Metropolis-Hastings test, as in parallel tempering."""

    def move(self, target: Target) -> moves.Move:
        return self._move(target, moves.SWAP)

    def _own_uniforms(self, target: Target) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class _Crossover(Exchange):
    """axis : "sites" cuts along the sequence, "rows" between rows."""

    axis: Literal["sites", "rows"] = "sites"

    def __post_init__(self) -> None:
        if self.axis not in ("sites", "rows"):
            raise InvalidInput(f'axis must be "sites" or "rows", got "{self.axis}"')


@dataclass(frozen=True, kw_only=True)
class RandomCrossover(_Crossover):
    """Crossover of one segment, cut uniformly at one or two points, with a Metropolis-Hastings test."""

    points: Literal[1, 2] = 1

    def move(self, target: Target) -> moves.Move:
        if self.points not in (1, 2):
            raise InvalidInput(f"points must be 1 or 2, got {self.points}")
        return self._move(target, moves.RANDOM_CROSSOVER, self.axis == "rows", self.points)

    def _own_uniforms(self, target: Target) -> int:
        return self.points + 1


@dataclass(frozen=True, kw_only=True)
class AugmentedCrossover(_Crossover):
    """The paper's move: a random crossover to an auxiliary pair, then a Gibbs draw among its crossovers; no rejection.

    flipped : draw among all 2T prefixes and suffixes; False: among the T prefixes only.
    """

    flipped: bool = True

    def move(self, target: Target) -> moves.Move:
        return self._move(target, moves.AUGMENTED, self.axis == "rows", flipped=self.flipped)

    def _own_uniforms(self, target: Target) -> int:
        return 2


@dataclass(frozen=True, kw_only=True)
class MosaicCrossover(Exchange):
    """Exact Gibbs draw among all 2^T ways of exchanging columns between the two replicas; no rejection."""

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


class _TargetPair(PairStep):
    def __init__(
        self, move: moves.Move, n_uniforms: int, target_i: Target, target_j: Target, beta_i: float, beta_j: float
    ):
        self.move = move
        self.n_uniforms = n_uniforms
        self.is_swap = bool(moves.swaps_whole_paths(move, target_i.n_rows))
        self.targets = target_i, target_j
        self.betas = float(beta_i), float(beta_j)
        self.work = moves.make_pair_work(target_i.n_columns, target_i.n_rows)


class TabulatedPair(_TargetPair):
    """Compiled moves on the likelihood tables of both replicas."""

    def __init__(
        self, move: moves.Move, n_uniforms: int, target_i: Target, target_j: Target, beta_i: float, beta_j: float
    ):
        super().__init__(move, n_uniforms, target_i, target_j, beta_i, beta_j)
        self.tables: tuple[Tables, Tables] = make_tables(target_i, beta_i), make_tables(target_j, beta_j)

    def __call__(self, a: Integers, b: Integers, uniforms: Floats) -> int:
        return int(moves.exchange_pair(self.move, *self.tables, *self.betas, uniforms, a, b, self.work))


class StreamedPair(_TargetPair):
    """The same moves, with likelihoods evaluated on demand."""

    def __call__(self, a: Integers, b: Integers, uniforms: Floats) -> int:
        rows = moves.choose_rows(self.move, uniforms)
        if self.move.random_rows:
            uniforms = uniforms[moves.ROW_UNIFORMS :]
        if len(rows) == 0:
            return 0
        before = a.copy()
        first, second = self.targets
        shared = first.log_trans, second.log_trans, first.edge, uniforms, a, b, self.work
        if self.move.across_rows:
            masks = moves.candidate_masks(self.move, rows, uniforms)
            moves.begin_rows(self.move, masks, uniforms, a, b)
            self.work.totals[: len(masks)] = self._scores(a, b, masks).sum(axis=0)
            moves.finish_rows(self.move, rows, masks, *shared)
        else:
            mask = moves.mask_of(rows)
            moves.begin_columns(self.move, mask, uniforms, a, b)
            self.work.columns[:] = self._scores(a, b, np.array([0, mask]))
            moves.finish_columns(self.move, mask, *shared)
        return int(np.count_nonzero(before != a))

    def _scores(self, a: Integers, b: Integers, masks: Integers) -> Floats:
        """(T, m) summed tempered log-likelihood of both replicas after exchanging the rows of each mask."""
        flips = (a ^ b)[:, None] & masks
        total = np.zeros(flips.shape)
        for target, beta, codes in zip(self.targets, self.betas, (a, b), strict=True):
            if beta > 0:
                total += beta * target.likelihood.at(codes[:, None] ^ flips)
        return total
