"""Updates of the path within one replica: Gibbs sampling of rows, blocks of rows, Hamming balls, or the whole path.

An update is a frozen configuration. `prepare(target, beta)` binds it to a target and returns a sweep, which
changes codes (T,) of the free rows or groups of rows (the axes, see `models.target`) in place from a fixed number of
uniforms:

    sweep = ch.RowGibbs().prepare(model.target(data), beta=1.0)
    sweep(codes, rng.random(sweep.n_uniforms))

Most updates consist of steps: small records that a compiled program runs on tables of rows of two states, and
`LoopSweep` on any target, with likelihoods from a table or evaluated on demand. At beta = 0 every update is an
independent draw from the prior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from chiasma.errors import BudgetExceeded, InvalidInput
from chiasma.exact.passes import MEMORY, Passes
from chiasma.kernels import gaussian_blocks, sweeps
from chiasma.kernels.jumps import pick_difference
from chiasma.kernels.layout import ball_offsets, ball_size
from chiasma.kernels.transitions import LINEAR_FLOOR
from chiasma.limits import MOST_STARTS
from chiasma.models.checked_target import (
    are_rows,
    check_generator,
    check_path,
    check_target,
    check_uniforms,
    is_checked,
)
from chiasma.models.target import Target, check_beta, tempered_table
from chiasma.sampling.differences import Differences, independent_parts, rival_sets
from chiasma.sampling.loop_sweeps import LoopWork, update_ball, update_block, update_jump, update_row
from chiasma.types import Floats, Integers, as_count, is_a, is_count, shown

# Operations per (SIMD) instruction in the tensor pass of a Hamming ball; the dense pass does one.
TENSOR_LANES = 4
# Memory that an update may take.
MOST_BYTES = 4 * MEMORY


class Sweep(ABC):
    """One update bound to a target and a beta."""

    n_uniforms: int

    @abstractmethod
    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        """Change codes (T,) in place, reading uniforms (n_uniforms,) in [0, 1)."""

    def step(self, codes: Integers, rng: np.random.Generator) -> None:
        """The same, with uniforms drawn from rng."""
        self(codes, rng.random(self.n_uniforms))


class CheckedSweep(Sweep):
    """A sweep that checks what it is given."""

    def __init__(self, target: Target, sweep: Sweep):
        self.n_columns, self.layout = target.n_columns, target.layout
        self.sweep = sweep
        self.n_uniforms = sweep.n_uniforms

    @classmethod
    def of(cls, target: Target, sweep: Sweep) -> Sweep:
        """A checked sweep over a checked target; over others, as engines have them, the sweep itself."""
        return cls(target, sweep) if is_checked(target) else sweep

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        check_path("codes", codes, self.n_columns, self.layout)
        check_uniforms(uniforms, self.n_uniforms)
        self.sweep(codes, uniforms)

    def step(self, codes: Integers, rng: np.random.Generator) -> None:
        check_generator(rng)
        super().step(codes, rng)


class Step(NamedTuple):
    """One step of a program; see chiasma.kernels.sweeps.Program."""

    kind: int
    size: int
    values: Integers
    n_uniforms: int
    width: int  # candidates per column


class Update(ABC):
    """Base class of updates: an MCMC move of the path that leaves the target invariant at any beta."""

    number: ClassVar[str | None] = None  # the field set by the number in a name such as "hamming-ball:3"
    in_settings: ClassVar[bool] = True  # whether a settings file can name it

    def prepare(self, target: Target, beta: float) -> Sweep:
        """Bind to a target; raises InvalidInput if the update does not fit it."""
        check_target(target)
        beta = check_beta(beta)
        steps = self.steps(target)
        compiled = target.binary and target.tabulated
        return CheckedSweep.of(target, (StepSweep if compiled else LoopSweep)(target, beta, steps))

    @abstractmethod
    def steps(self, target: Target) -> list[Step]:
        """The steps of a sweep over this target; raises InvalidInput if the update does not fit it."""


@dataclass(frozen=True, kw_only=True)
class RowGibbs(Update):
    """Row by row: FFBS of the whole path of a row given the other rows. The paper's Gibbs sampler.

    Equal rows are updated together, as one row of counts.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> sweep = ch.RowGibbs().prepare(model.target([0.1, 2.9, 3.2]), beta=1.0)
    >>> codes = np.zeros(3, np.int64)
    >>> sweep(codes, np.random.default_rng(1).random(sweep.n_uniforms))
    >>> codes.tolist()
    [0, 3, 3]
    """

    def steps(self, target: Target) -> list[Step]:
        kind = sweeps.ROW if target.lowest.min() >= LINEAR_FLOOR else sweeps.BLOCK
        n_axes = target.n_axes
        return [Step(kind, 1, np.arange(n_axes), n_axes * target.n_columns, target.widest(1))]


@dataclass(frozen=True, kw_only=True)
class BlockGibbs(Update):
    """Block Gibbs: FFBS of several rows jointly, given the others.

    Equal rows count as one row: they are in a block together, and one of them represents all.

    Parameters
    ----------
    size : int, rows per block. Every sweep assigns the rows to blocks at random and updates each row once.
    blocks : fixed blocks in place of random ones, e.g. [(0, 1), (2, 3)]; a row may be in several. `ch.sample` needs
        every free row in one of them, or another update beside (ch.Compose).

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> sweep = ch.BlockGibbs(size=2).prepare(model.target([0.1, 2.9, 3.2]), beta=1.0)
    >>> codes = np.zeros(3, np.int64)
    >>> sweep(codes, np.random.default_rng(1).random(sweep.n_uniforms))
    >>> codes.tolist()
    [0, 3, 3]
    """

    number: ClassVar[str] = "size"
    size: int = 2
    blocks: Sequence[Sequence[int]] | None = None

    def steps(self, target: Target) -> list[Step]:
        if self.blocks is not None:
            if not is_a(self.blocks, Sequence) or not self.blocks:
                raise InvalidInput(
                    f"blocks must list at least one block, such as [(0, 1)], got {shown(self.blocks)}; leave it out "
                    "for random blocks"
                )
            return [self._block(target, block) for block in self.blocks]
        n_axes = target.n_axes
        if not is_count(self.size) or self.size > n_axes:
            raise InvalidInput(f"size must be in 1..{n_axes} ({target.axes_text}), got {shown(self.size)}")
        width = target.widest(self.size)
        _check_memory(target, width)
        n_blocks = -(-n_axes // self.size)
        n_uniforms = n_axes + n_blocks * target.n_columns
        return [Step(sweeps.RANDOM_BLOCKS, self.size, np.arange(n_axes), n_uniforms, width)]

    @staticmethod
    def largest(target: Target) -> int:
        """The most rows that it makes sense to update jointly: all of them."""
        return target.n_axes

    def block_sizes(self, target: Target) -> list[int]:
        """The rows of every random block of a sweep."""
        return _cut(target.n_axes, self.size)

    def _block(self, target: Target, block: Sequence[int]) -> Step:
        if not are_rows(block, target.free):
            raise InvalidInput(f"a block lists distinct free rows, here of {list(target.free)}, got {shown(block)}")
        axes = target.axes_of(block)
        width = target.width(axes)
        _check_memory(target, width)
        return Step(sweeps.BLOCK, len(axes), axes, target.n_columns, width)


@dataclass(frozen=True, kw_only=True)
class HammingBall(Update):
    """FFBS of all rows, restricted to columns in which at most `radius` rows differ from an auxiliary path (Titsias and
    Yau). Equal rows count as one row.

    A filter step is dense, from every candidate to every candidate, or uses the tensor of all codes: whichever needs
    fewer operations.

    Parameters
    ----------
    radius : int, rows in which a column may differ from the auxiliary path.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> sweep = ch.HammingBall(radius=1).prepare(model.target([0.1, 2.9, 3.2]), beta=1.0)
    >>> codes = np.zeros(3, np.int64)
    >>> sweep(codes, np.random.default_rng(1).random(sweep.n_uniforms))
    >>> codes.tolist()
    [0, 3, 2]
    """

    number: ClassVar[str] = "radius"
    radius: int = 1

    def steps(self, target: Target) -> list[Step]:
        n_axes = target.n_axes
        if not is_count(self.radius) or self.radius > n_axes:
            raise InvalidInput(
                f"radius must be in 1..{n_axes} ({target.axes_text}), got {shown(self.radius)}; use Exact() for the "
                "whole space"
            )
        size = ball_size(target.layout, self.radius)
        _check_memory(target, size)  # before the candidates are listed: there may be very many
        offsets = ball_offsets(target.layout, self.radius)
        cheaper = TENSOR_LANES * size * size * n_axes < target.tensor_operations
        if cheaper or not fits_memory(target, target.n_states):
            return [Step(sweeps.BALL_DENSE, 0, offsets, 2 * target.n_columns, size)]
        return [Step(sweeps.BALL_TENSOR, 0, offsets, 2 * target.n_columns, target.n_states)]


@dataclass(frozen=True, kw_only=True)
class GaussianBlocks(Update):
    """Block Gibbs for rows of two states under Gaussian noise: faster than BlockGibbs, and it needs no table.

    The likelihoods of a block are products of one exponential per row, computed on the fly. Every sweep updates each
    row once. Half of the sweeps cut a random order of the rows into blocks; in the others, rows whose sums of weights
    nearly coincide, rival explanations of the same level, are in one block. Rows that no channel ties together,
    directly or through others, are never in one block: they are independent.

    Parameters
    ----------
    size : int, rows per block.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> sweep = ch.GaussianBlocks(size=2).prepare(model.target([0.1, 2.9, 3.2]), beta=1.0)
    >>> codes = np.zeros(3, np.int64)
    >>> sweep(codes, np.random.default_rng(1).random(sweep.n_uniforms))
    >>> codes.tolist()
    [0, 3, 3]
    """

    number: ClassVar[str] = "size"
    size: int = 7

    @staticmethod
    def serves(target: Target) -> bool:
        """Whether the target has rows of two states, Gaussian noise, and transitions that need no logarithms."""
        return target.likelihood.gaussian_parts() is not None and target.linear()

    @staticmethod
    def largest(target: Target) -> int:
        """The most rows that it makes sense to update jointly: those of the largest part."""
        return max(map(len, _parts_of(target)))

    def block_sizes(self, target: Target) -> list[int]:
        """The rows of every block of a sweep."""
        return [size for part in _parts_of(target) for size in _cut(len(part), self.size)]

    def prepare(self, target: Target, beta: float) -> Sweep:
        check_target(target)
        beta = check_beta(beta)
        if not self.serves(target):
            raise InvalidInput(
                "GaussianBlocks() needs rows of two states, Gaussian noise and transition probabilities above zero; "
                "use BlockGibbs(), which takes any model"
            )
        if not is_count(self.size) or self.size > target.n_axes:
            raise InvalidInput(f"size must be in 1..{target.n_axes} ({target.axes_text}), got {shown(self.size)}")
        _check_memory(target, target.widest(self.size))
        if beta == 0:
            return CheckedSweep.of(target, LoopSweep(target, beta, []))
        return CheckedSweep.of(target, GaussianSweep(target, beta, self.size))

    def steps(self, target: Target) -> list[Step]:
        raise InvalidInput("GaussianBlocks() cannot be composed with other updates; use BlockGibbs() in its place")


@dataclass(frozen=True, kw_only=True)
class Jumps(Update):
    """Block Gibbs, and in every sweep a jump: a learned difference between columns is applied as a whole, or not.

    Short runs that start in different places end in different explanations of the same columns. The differences between
    them, sets of rows that change together, make the dictionary of jumps: it is learned before the warm-up and frozen.
    A jump draws, jointly and at every column, whether one of these differences is applied and the states of a few
    random rows, by FFBS. It goes between explanations that are too far apart for blocks, without a ladder; see "Jumps
    along learned differences" in the documentation.

    Parameters
    ----------
    size : int, rows per block, and random rows of a jump; all rows where there are fewer.
    differences : what `sample` has learned; None: to be learned.

    Examples
    --------
    >>> import chiasma as ch
    >>> weights = [[1.0, 0.0, -1.0], [-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]]  # differences around a ring
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=ch.Gaussian(weights, sd=0.1))
    >>> options = {"exchange": None, "draws": 200, "warmup": 100, "chains": 1, "seed": 1, "progress": False}
    >>> posterior = ch.sample(model, [[0.0, 0.0, 0.0]] * 3, update=ch.Jumps(size=1), **options)
    >>> bool(0.3 < posterior.marginals().mean() < 0.7)  # all three on, or all three off
    True
    """

    number: ClassVar[str] = "size"
    size: int = 3
    differences: Differences | None = None

    def block_size(self, target: Target) -> int:
        """Rows per block on this target."""
        if not is_count(self.size):
            raise InvalidInput(f"size must be a whole number of at least 1, got {shown(self.size)}")
        return min(self.size, target.n_axes)

    def steps(self, target: Target) -> list[Step]:
        size = self.block_size(target)
        if not isinstance(self.differences, Differences):
            raise InvalidInput(
                "Jumps() has no differences yet; ch.sample(model, data, update=ch.Jumps()) learns them, for models "
                f"without priors, got differences={shown(self.differences)}"
            )
        self.differences.check(target.layout)
        blocks = BlockGibbs(size=size).steps(target)
        if not self.differences.weights:
            return blocks
        width = 2 * target.widest(size)
        _check_memory(target, width)
        n_uniforms = target.n_axes + 1 + target.n_columns
        return [Step(sweeps.JUMP, size, self.differences.values(), n_uniforms, width), *blocks]


@dataclass(frozen=True)
class Compose(Update):
    """Several updates, one after the other, as one sweep.

    Parameters
    ----------
    updates : list of updates, such as [ch.RowGibbs(), ch.BlockGibbs(size=3)].

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> both = ch.Compose(updates=[ch.RowGibbs(), ch.HammingBall(radius=1)])
    >>> sweep = both.prepare(model.target([0.1, 2.9, 3.2]), beta=1.0)
    >>> codes = np.zeros(3, np.int64)
    >>> sweep(codes, np.random.default_rng(1).random(sweep.n_uniforms))
    >>> codes.tolist()
    [0, 3, 3]
    """

    in_settings: ClassVar[bool] = False  # made of other updates, so no single name describes it
    updates: Sequence[Update]

    def steps(self, target: Target) -> list[Step]:
        if not self.updates:
            raise InvalidInput("Compose needs at least one update, got none")
        return [step for update in self.updates for step in update.steps(target)]


@dataclass(frozen=True, kw_only=True)
class Exact(Update):
    """FFBS of the whole path at once: independent draws.

    Parameters
    ----------
    memory : int, bytes for the messages of one replica.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> sweep = ch.Exact().prepare(model.target([0.1, 2.9, 3.2]), beta=1.0)
    >>> codes = np.zeros(3, np.int64)
    >>> sweep(codes, np.random.default_rng(1).random(sweep.n_uniforms))
    >>> codes.tolist()
    [0, 3, 3]
    """

    memory: int = MEMORY

    def prepare(self, target: Target, beta: float) -> Sweep:
        check_target(target)
        beta = check_beta(beta)
        if beta > 0:
            return CheckedSweep.of(target, ExactSweep(target, beta, self.memory))
        return CheckedSweep.of(target, LoopSweep(target, beta, []))

    def steps(self, target: Target) -> list[Step]:
        raise InvalidInput("Exact() draws the whole path and cannot be composed with other updates; use it alone")


@dataclass(frozen=True, kw_only=True)
class Collapsed(Update):
    """For models with priors: parameters with the paths integrated out, by gradients; paths are drawn exactly (FFBS).

    Chains start near the optima of the posterior, jump between them, and move by Hamiltonian Monte Carlo.

    Parameters
    ----------
    starts : int, starts of the search for the optima, see ch.optimise.
    memory : int, bytes for the messages of one replica.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    >>> _, y = model.at({"sd": 0.3}).simulate(50, seed=1)
    >>> options = {"draws": 50, "warmup": 50, "chains": 2, "seed": 1, "progress": False}
    >>> posterior = ch.sample(model, y, update=ch.Collapsed(starts=4), **options)
    >>> posterior.parameters["sd"].shape
    (2, 50)
    """

    number: ClassVar[str] = "starts"
    starts: int = 32
    memory: int = MEMORY

    def __post_init__(self) -> None:
        as_count("starts", self.starts, most=MOST_STARTS)

    def steps(self, target: Target) -> list[Step]:
        raise InvalidInput(
            "Collapsed() updates parameters, and this model has none to learn; give one a prior, such as "
            "sd=ch.HalfNormal(1), or use another update"
        )


# Registry of updates by their names on the command line, in files and in `sample`.
UPDATES: dict[str, type[Update]] = {
    "exact": Exact,
    "row": RowGibbs,
    "collapsed": Collapsed,
    "block": BlockGibbs,
    "gaussian-blocks": GaussianBlocks,
    "hamming-ball": HammingBall,
    "jumps": Jumps,
}


def make_program(steps: Sequence[Step]) -> sweeps.Program:
    """The steps as arrays for the compiled loop."""
    return sweeps.Program(
        kinds=np.array([step.kind for step in steps], np.int64),
        sizes=np.array([step.size for step in steps], np.int64),
        n_uniforms=np.array([step.n_uniforms for step in steps], np.int64),
        first=np.cumsum([0, *(len(step.values) for step in steps)]),
        values=np.concatenate([np.empty(0, np.int64), *(step.values for step in steps)]),
    )


def make_work(target: Target, steps: Sequence[Step]) -> sweeps.Work:
    """Scratch arrays that are large enough for every step."""
    width = max((step.width for step in steps), default=1)
    return sweeps.make_work(target.n_columns, width)


def uniforms_per_sweep(target: Target, steps: Sequence[Step], beta: float) -> int:
    """How many uniforms a sweep reads."""
    return target.n_axes * target.n_columns if beta == 0 else sum(step.n_uniforms for step in steps)


def make_tables(target: Target, beta: float) -> sweeps.Tables:
    """The tables of a tabulated target at one beta."""
    log_lik = target.log_lik
    lik = tempered_table(log_lik, beta)
    return sweeps.Tables(lik.T, log_lik, target.trans, target.log_trans, target.edge, target.bounds, target.lowest)


class StepSweep(Sweep):
    """Runs the steps as a compiled program on tables."""

    def __init__(self, target: Target, beta: float, steps: Sequence[Step]):
        self.beta = float(beta)
        self.n_uniforms = uniforms_per_sweep(target, steps, beta)
        self.program = make_program(steps)
        self.tables = make_tables(target, beta)
        self.work = make_work(target, steps)

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        sweeps.run_program(self.program, self.tables, self.beta, uniforms, codes, self.work)


class LoopSweep(Sweep):
    """The same steps, one at a time from Python: for targets without a table, or with rows of any number of states."""

    def __init__(self, target: Target, beta: float, steps: Sequence[Step]):
        self.target = target
        self.beta = float(beta)
        self.steps = steps
        self.n_uniforms = uniforms_per_sweep(target, steps, beta)
        width = max((step.width for step in steps), default=0) if beta > 0 else 0
        self.work = LoopWork(target.n_columns, width)

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        if self.beta == 0:
            self.target.draw_prior(uniforms, codes)
            return
        for step in self.steps:
            self._run(step, codes, uniforms)
            uniforms = uniforms[step.n_uniforms :]

    def _run(self, step: Step, codes: Integers, uniforms: Floats) -> None:
        target, beta, work, n_axes = self.target, self.beta, self.work, self.target.n_axes
        if step.kind == sweeps.ROW and target.binary:
            for k in range(n_axes):
                update_row(target, beta, k, uniforms[k * len(codes) : (k + 1) * len(codes)], codes, work)
        elif step.kind in (sweeps.ROW, sweeps.BLOCK):
            self._blocks(step.values, step.size, codes, uniforms)
        elif step.kind == sweeps.RANDOM_BLOCKS:
            self._blocks(self._order(uniforms), step.size, codes, uniforms[n_axes:])
        elif step.kind == sweeps.JUMP:
            a, b, _ = step.values.reshape(3, -1)
            chosen = pick_difference(step.values, uniforms[n_axes])
            axes = self._order(uniforms)[: step.size]
            own = uniforms[n_axes + 1 : step.n_uniforms]
            update_jump(target, beta, axes, int(a[chosen]), int(b[chosen]), own, codes, work)
        else:
            whole = step.kind == sweeps.BALL_TENSOR
            update_ball(target, beta, step.values, whole, uniforms[: step.n_uniforms], codes, work)

    def _order(self, uniforms: Floats) -> Integers:
        order = np.empty(self.target.n_axes, np.int64)
        sweeps.shuffle(uniforms[: len(order)], order)
        return order

    def _blocks(self, order: Integers, size: int, codes: Integers, uniforms: Floats) -> None:
        """The first `size` of these axes jointly, then the next."""
        for start in range(0, len(order), size):
            axes = order[start : start + size]
            log_lik = np.ascontiguousarray(self.target.candidates.around(codes, axes))
            update_block(self.target, self.beta, axes, log_lik, uniforms[: len(codes)], codes, self.work)
            uniforms = uniforms[len(codes) :]


class GaussianSweep(Sweep):
    """GaussianBlocks on its target."""

    def __init__(self, target: Target, beta: float, size: int):
        parts = target.likelihood.gaussian_parts()
        assert parts is not None
        self.size = size
        self.parts = make_parts(parts.steps / parts.sd, size)
        n_rows = np.diff(self.parts.first)
        self.n_uniforms = int(np.sum(1 + 2 * n_rows + -(-n_rows // size) * target.n_columns))
        self.noise = gaussian_blocks.Noise(
            parts.y, parts.steps, beta / parts.sd**2, np.asarray(~np.isnan(parts.y).any(axis=0))
        )
        self.transitions = target.trans, target.edge
        self.scratch = gaussian_blocks.make_scratch(len(parts.y), target.n_columns, size)

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        gaussian_blocks.gaussian_sweep(
            self.noise, self.parts, self.size, *self.transitions, uniforms, codes, self.scratch
        )


def make_parts(steps: Floats, size: int) -> gaussian_blocks.Parts:
    """Parts of the rows, and the sets of at most `size` rivals of each. steps (K, D) in standard deviations."""
    return _make_parts(steps.shape, np.ascontiguousarray(steps, float).tobytes(), size)


@lru_cache(maxsize=16)
def _make_parts(shape: tuple[int, int], contents: bytes, size: int) -> gaussian_blocks.Parts:
    """The same, once for all chains of a run and candidates of its pilot."""
    steps = np.frombuffer(contents).reshape(shape)
    rows = independent_parts(steps)
    found = [rival_sets(steps[own], size) for own in rows]
    width = max(sets.shape[1] for sets, _ in found)
    return gaussian_blocks.Parts(
        rows=np.concatenate(rows),
        first=np.cumsum([0, *map(len, rows)]),
        sets=np.concatenate([_padded(sets, width) for sets, _ in found]),
        first_set=np.cumsum([0, *(len(sets) for sets, _ in found)]),
        cumulative=np.concatenate([np.cumsum(weights / weights.sum()) for _, weights in found]),
    )


def _parts_of(target: Target) -> list[Integers]:
    """The parts of a target that GaussianBlocks serves."""
    gaussian = target.likelihood.gaussian_parts()
    assert gaussian is not None
    return independent_parts(gaussian.steps)


def _cut(n_rows: int, size: int) -> list[int]:
    """The sizes of blocks into which rows are cut.

    >>> _cut(12, 5)
    [5, 5, 2]
    """
    return [min(size, n_rows - start) for start in range(0, n_rows, size)]


def _padded(sets: Integers, width: int) -> Integers:
    return np.pad(sets, ((0, 0), (0, width - sets.shape[1])), constant_values=-1)


class ExactSweep(Sweep):
    """FFBS of the whole path: the data are filtered once; every sweep is one backward pass."""

    def __init__(self, target: Target, beta: float, memory: int):
        self.target = target
        self.passes = Passes(target, beta, memory=memory, stay=True)
        self.n_uniforms = target.n_columns

    def __call__(self, codes: Integers, uniforms: Floats) -> None:
        for segment in self.passes.backward():
            self.passes.draw(segment, uniforms[None], codes[None])
        codes[:] = self.target.to_codes(codes)


def _bytes(target: Target, width: int) -> int:
    """Likelihoods and messages of this many candidates at every column."""
    return 8 * 2 * target.n_columns * width


def fits_memory(target: Target, width: int) -> bool:
    """Whether an update may have this many candidates at every column."""
    return _bytes(target, width) <= MOST_BYTES


def _check_memory(target: Target, width: int) -> None:
    if not fits_memory(target, width):
        raise BudgetExceeded(
            f"an update with {width:,} candidates at each of {target.n_columns} sites "
            f"needs {_bytes(target, width) / 2**20:,.0f} MiB, limit {MOST_BYTES / 2**20:,.0f} MiB; "
            "take smaller blocks or a smaller ball"
        )
