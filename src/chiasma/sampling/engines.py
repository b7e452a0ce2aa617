"""Engines: the replicas of one chain, advanced by iterations.

An iteration updates every replica, and every `every`-th one ends with exchanges between neighbouring rungs.
`CompiledEngine` runs whole iterations inside numba; `LoopEngine` does the same with one Python call per step, for
targets that need Python (streamed likelihoods, rows with more than two states, learned parameters). Both read the same
random streams in the same order, and so does `GaussianEngine`. `ExactEngine` draws independent whole paths.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.exact.passes import draw_paths
from chiasma.kernels import ensemble, moves
from chiasma.kernels.gaussian_blocks import gaussian_run
from chiasma.kernels.layout import Layout
from chiasma.models.checked_target import check_codes
from chiasma.sampling.exchanges import KernelExchange, PairStep, Swap
from chiasma.sampling.problems import PathProblem, Problem, Start, State
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams
from chiasma.sampling.updates import Exact, GaussianBlocks, GaussianSweep, make_program, make_work, uniforms_per_sweep
from chiasma.stopping import look
from chiasma.storage.trace import Draws
from chiasma.types import Floats, Integers

# Uniforms drawn ahead per call of the compiled loop, over all replicas: 16 MiB.
BUFFER = 2**21
# Reusable buffers for them, one set per thread: allocating and freeing that much memory takes longer than filling it.
_ROOM = threading.local()
# Exact draws at a time. Where the messages do not all fit in memory they are filtered again every time: then as many as
# codes (eight bytes per column) of AGAIN_COLUMNS columns, 32 MiB, hold. Long signals take fewer: at most BATCH_COLUMNS
# columns, 256 MiB.
BATCH = 256
AGAIN_COLUMNS = 2**22
BATCH_COLUMNS = 2**25


class Engine(ABC):
    """Replicas of one chain, from the hottest to the cold one."""

    problem: Problem
    betas: Floats  # (R,)
    states: State  # (R, T)
    bound: ClassVar[tuple[str, ...]] = ()  # what `_bind` makes anew from the rest, for engines that are pickled

    def __init__(self, problem: Problem, betas: Sequence[float], every: int, streams: Streams, start: Start):
        """every: iterations between exchange steps; 0: no exchanges."""
        self.problem = problem
        self.every = every
        self.streams = streams
        self.states = self._first_states(len(betas), start)
        self.set_betas(betas)

    @abstractmethod
    def _first_states(self, n_replicas: int, start: Start) -> State:
        """(R, T)"""

    def prepare(self) -> float | None:
        """Compute what all chains of the problem share; returns the exact log evidence if that yields it."""
        return None

    def begin(self, display: Progress, workers: int) -> None:  # noqa: B027 - most engines have nothing to do
        """Called once before the first iteration of a new run, for what takes long enough to be shown."""

    @property
    def pools(self) -> bool:
        """Whether the chains learn from each other in warm-up, by `pool`."""
        return False

    def pool(self, engines: Sequence[Engine], last: bool) -> None:  # noqa: B027 - most engines learn nothing
        """Let all chains learn from each other, before the last round of the warm-up and at its end."""

    def set_betas(self, betas: Sequence[float]) -> None:
        """Set the rungs. If their number changes, each new rung copies the state of the nearest old one."""
        n_old, n_new = len(self.states), len(betas)
        if n_new != n_old:
            self._take_over(np.round(np.linspace(0, n_old - 1, n_new)).astype(int))
        self.betas = np.asarray(betas, float)
        self.restart()
        self._bind()

    def _take_over(self, nearest: Integers) -> None:
        """Copy the state of the old rung nearest[r] to rung r."""
        self.states = self.states[nearest].copy()

    def restart(self) -> None:
        """Reset the tally, and count iterations from 0."""
        self.iteration = 0
        self.tally = ensemble.make_tally(len(self.betas))

    @abstractmethod
    def _bind(self) -> None:
        """Prepare everything that depends on the betas."""

    @abstractmethod
    def advance(self, n: int, thin: int) -> Draws:
        """Run n iterations and keep every thin-th (0: none)."""

    @abstractmethod
    def piece(self) -> int:
        """A reasonable number of iterations for one call of `advance`."""

    @abstractmethod
    def log_densities(self) -> Floats:
        """(2, R): log-likelihood and log prior of the current states of the replicas."""

    def checkpoint(self) -> dict[str, Any]:
        """The complete state of the chain as arrays: everything that the next iteration depends on."""
        tally = {f"tally_{name}": values for name, values in self.tally._asdict().items()}
        streams = np.array(json.dumps(self.streams.state()))
        return tally | {"states": self.states, "betas": self.betas, "iteration": self.iteration, "streams": streams}

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        """Continue from a checkpoint; raises InvalidInput if it does not fit."""
        check_checkpoint(checkpoint, self.states, self.code_layout())
        self.states = np.array(checkpoint["states"])
        self.set_betas(checkpoint["betas"])
        self.iteration = int(checkpoint["iteration"])
        self.tally = ensemble.Tally(*(checkpoint[f"tally_{name}"].copy() for name in ensemble.Tally._fields))
        self.streams.restore(json.loads(str(checkpoint["streams"])))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.bound}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.bound:
            self._bind()

    def code_layout(self) -> Layout | None:
        """The rows of the codes that are the states; None for vectors."""
        return None

    def record(self, draws: Draws) -> Draws:
        """Draws as they are kept: states in the smallest type."""
        return draws._replace(states=draws.states.astype(self.problem.record_dtype, copy=False))

    def empty_draws(self, n: int, thin: int) -> Draws:
        """Allocate arrays for the kept draws of the next n iterations."""
        n_kept = (self.iteration + n) // thin - self.iteration // thin if thin else 0
        n_replicas, n_sites = self.states.shape
        return Draws(
            states=np.empty((n_kept, n_sites), self.states.dtype),
            log_lik=np.empty((n_kept, n_replicas)),
            log_prior=np.empty(n_kept),
            values=np.empty((n_kept, 0)),
            work=np.empty((n_kept, 0, 2)),
        )


class PathEngine(Engine):
    """Replicas that are paths, codes of the axes of a target."""

    problem: PathProblem

    def _first_states(self, n_replicas: int, start: Start) -> State:
        if start.states is not None:
            # Without `order` the copy of one state for all replicas has them innermost, and kernels compile once more.
            shape = (n_replicas, self.problem.n_sites)
            return np.array(np.broadcast_to(start.states, shape), np.int64, order="C")
        return np.array([self.problem.target.sample_prior(self.streams.initial(r)) for r in range(n_replicas)])

    def log_densities(self) -> Floats:
        target = self.problem.target
        return np.array([[part(state) for state in self.states] for part in (target.log_likelihood, target.log_prior)])

    def code_layout(self) -> Layout:
        return self.problem.target.layout

    def record(self, draws: Draws) -> Draws:
        """Codes of all rows. Which of the equal rows are in which state is drawn here, from a separate stream:
        replicas know counts only.
        """
        target = self.problem.target
        if not target.has_groups:
            return draws._replace(states=target.record(draws.states))
        states = np.empty_like(draws.states)
        log_prior = np.empty(len(states))
        for i, path in enumerate(draws.states):
            states[i] = target.expand(path, self.streams.arrangement())
            log_prior[i] = target.log_row_prior(states[i])
        return super().record(draws._replace(states=states, log_prior=log_prior))


class LoopEngine(Engine):
    """One Python call per replica and iteration, and one per pair and exchange."""

    @abstractmethod
    def _iterate(self, r: int, warming_up: bool) -> None:
        """Update a replica."""

    @abstractmethod
    def _look(self) -> Floats:
        """(R,) log-likelihoods that enter the swap probabilities of neighbouring rungs."""

    @abstractmethod
    def _keep(self, draws: Draws, n: int, log_liks: Floats) -> None:
        """Write the cold replica and the output of `_look` into draw n."""

    @abstractmethod
    def _exchange_pair(self, p: int) -> tuple[int, bool]:
        """Exchange between rungs p and p + 1; returns how many columns of p changed, and whether the two swapped."""

    def piece(self) -> int:
        return 1

    def advance(self, n: int, thin: int) -> Draws:
        draws = self.empty_draws(n, thin)
        kept = 0
        for i in range(self.iteration, self.iteration + n):
            look()
            for r in range(len(self.betas)):
                self._iterate(r, warming_up=not thin)
            record = thin > 0 and (i + 1) % thin == 0
            exchange = self.every > 0 and (i + 1) % self.every == 0 and len(self.betas) > 1
            if record or exchange:
                log_liks = self._look()
            if record:
                self._keep(draws, kept, log_liks)
                kept += 1
            if exchange:
                self._exchange(log_liks)
        self.iteration += n
        return draws

    def _exchange(self, log_liks: Floats) -> None:
        """One exchange step: the pairs of the current parity."""
        n_replicas = len(self.betas)
        ensemble.tally_log_liks(self.tally, self.betas, log_liks)
        for p in range(ensemble.first_pair(int(self.tally.steps[0]), n_replicas), n_replicas - 1, 2):
            ensemble.tally_move(self.tally, p, *self._exchange_pair(p))
        ensemble.tally_step(self.tally)


class StepEngine(LoopEngine, PathEngine):
    """Runs any update and exchange, step by step."""

    bound = ("sweeps", "pairs")

    def _bind(self) -> None:
        target, exchange = self.problem.target, self.problem.exchange
        self.sweeps = [self.problem.update.prepare(target, beta) for beta in self.betas]
        self.pairs: list[PairStep] = []
        if self.every and exchange is not None:
            self.pairs = [exchange.prepare(target, target, *pair) for pair in pairwise(self.betas.tolist())]

    def _iterate(self, r: int, warming_up: bool) -> None:
        self.sweeps[r].step(self.states[r], self.streams.replica(r))

    def _look(self) -> Floats:
        return np.array([self.problem.target.log_likelihood(state) for state in self.states])

    def _keep(self, draws: Draws, n: int, log_liks: Floats) -> None:
        draws.states[n] = self.states[-1]
        draws.log_lik[n] = log_liks
        draws.log_prior[n] = self.problem.target.log_prior(self.states[-1])

    def _exchange_pair(self, p: int) -> tuple[int, bool]:
        a, b = self.states[p], self.states[p + 1]
        moved = self.pairs[p].step(a, b, self.streams.pair(p))
        return moved, self.pairs[p].is_swap and (moved > 0 or np.array_equal(a, b))


def _room(name: str, n_rows: int, n_columns: int) -> Floats:
    """(n_rows, n_columns): this thread's buffer of that name; the next call overwrites it."""
    size = n_rows * n_columns
    room: Floats | None = getattr(_ROOM, name, None)
    if room is None or len(room) < size:
        room = np.empty(size)
        setattr(_ROOM, name, room)
    return room[:size].reshape(n_rows, n_columns)


class CompiledEngine(PathEngine):
    """Runs whole iterations inside numba; needs a tabulated target and an update made of steps."""

    bound = ("program", "work", "n_sweep", "move", "n_pair", "pair_work", "replicas")

    @staticmethod
    def serves(problem: PathProblem) -> bool:
        return (
            problem.target.binary
            and problem.target.tabulated
            and not isinstance(problem.update, Exact | GaussianBlocks)
            and isinstance(problem.exchange, KernelExchange | None)
        )

    def _bind(self) -> None:
        target = self.problem.target
        steps = self.problem.update.steps(target)
        self.program = make_program(steps)
        self.work = make_work(target, steps)
        self.n_sweep = np.array([uniforms_per_sweep(target, steps, beta) for beta in self.betas])
        exchange = self.problem.exchange or Swap()
        assert isinstance(exchange, KernelExchange)
        self.move = exchange.move(target)
        self.n_pair = 0 if self.problem.exchange is None else exchange.n_uniforms(target)
        self.pair_work = moves.make_pair_work(target.n_columns, target.n_axes)
        self.replicas = ensemble.PathReplicas(
            self.betas,
            self.problem.tempered(self.betas),
            target.log_lik[None],
            target.trans[None],
            target.log_trans[None],
            target.lowest[None],
            target.edge,
            target.bounds,
            self.states,
        )

    def piece(self) -> int:
        return max(1, BUFFER // int(self.n_sweep.sum()))

    def advance(self, n: int, thin: int) -> Draws:
        draws = self.empty_draws(n, thin)
        kept = 0
        for first in range(0, n, self.piece()):
            look()
            kept += self._run(min(self.piece(), n - first), thin, Draws(*(part[kept:] for part in draws)))
        return draws

    def _run(self, n: int, thin: int, draws: Draws) -> int:
        start, stop = self.iteration, self.iteration + n
        every = self.every if self.problem.exchange is not None else 0
        n_kept = ensemble.run_iterations(
            self.replicas,
            self.program,
            self._sweep_uniforms(n),
            self.n_sweep,
            self.move,
            self._pair_uniforms(stop // every - start // every if every else 0),
            self.n_pair,
            start,
            stop,
            every,
            thin,
            self.tally,
            ensemble.Kept(draws.states, draws.log_lik, draws.log_prior),
            self.work,
            self.pair_work,
        )
        self.iteration = stop
        return int(n_kept)

    def _sweep_uniforms(self, n: int) -> Floats:
        uniforms = _room("sweeps", len(self.betas), n * int(self.n_sweep.max()))
        for r, n_used in enumerate(self.n_sweep):
            self.streams.replica(r).random(out=uniforms[r, : n * n_used])
        return uniforms

    def _pair_uniforms(self, n_steps: int) -> Floats:
        """Uniforms for the next n_steps exchange steps; a pair reads only at steps of its parity."""
        n_pairs = len(self.betas) - 1
        uniforms = _room("pairs", max(n_pairs, 1), n_steps * self.n_pair)
        for p in range(n_pairs):
            n_used = ensemble.count_turns(p, int(self.tally.steps[0]), n_steps, n_pairs + 1) * self.n_pair
            self.streams.pair(p).random(out=uniforms[p, :n_used])
        return uniforms


class GaussianEngine(PathEngine):
    """GaussianBlocks without a ladder: many sweeps in one call, with the uniforms of StepEngine in the same places."""

    bound = ("n_sweep", "sweep", "halves", "constant")

    @staticmethod
    def serves(problem: PathProblem, betas: Sequence[float]) -> bool:
        return isinstance(problem.update, GaussianBlocks) and len(betas) == 1 and betas[0] > 0

    def _bind(self) -> None:
        target = self.problem.target
        sweep = self.problem.update.prepare(target, self.betas[0])
        parts = target.likelihood.gaussian_parts()
        assert isinstance(sweep, GaussianSweep)
        assert parts is not None
        self.n_sweep = sweep.n_uniforms
        self.sweep = sweep.noise, sweep.parts, sweep.size, *sweep.transitions, sweep.scratch
        n_seen = np.count_nonzero(~np.isnan(parts.y), axis=1)
        self.halves = 0.5 / parts.sd**2
        self.constant = -float(np.sum(n_seen * (np.log(parts.sd) + 0.5 * np.log(2 * np.pi))))

    def piece(self) -> int:
        return max(1, BUFFER // self.n_sweep)

    def advance(self, n: int, thin: int) -> Draws:
        draws = self.empty_draws(n, thin)
        log_trans, rng = self.problem.target.log_trans, self.streams.replica(0)
        kept = 0
        for first in range(0, n, self.piece()):
            look()
            uniforms = rng.random((min(self.piece(), n - first), self.n_sweep))
            kept += gaussian_run(
                self.sweep, self.halves, self.constant, log_trans, uniforms, self.iteration, thin, self.states[0],
                draws.states[kept:], draws.log_lik[kept:], draws.log_prior[kept:],
            )  # fmt: skip
            self.iteration += len(uniforms)
        return draws


class ExactEngine(PathEngine):
    """One replica with independent draws: no warm-up and no exchanges."""

    def _first_states(self, n_replicas: int, start: Start) -> State:
        """Draws do not depend on them."""
        return np.zeros((n_replicas, self.problem.n_sites), np.int64)

    def prepare(self) -> float | None:
        return self.problem.passes.log_evidence

    def _bind(self) -> None:
        """Nothing depends on the betas."""

    def piece(self) -> int:
        return exact_batch(self.problem.n_sites, self.problem.passes.n_segments > 1)

    def advance(self, n: int, thin: int) -> Draws:
        draws, target = self.empty_draws(n, thin), self.problem.target
        self._draw(draws.states)
        for i, path in enumerate(draws.states):
            path[:] = target.to_codes(path)
            draws.log_lik[i, 0] = target.log_likelihood(path)
            draws.log_prior[i] = target.log_prior(path)
        if len(draws.states):
            self.states[0] = draws.states[-1]
        self.iteration += n
        return draws

    def _draw(self, paths: State) -> None:
        """Fill paths (n, T) of indices by the filter that all chains share."""
        passes, stream = self.problem.passes, self.streams.replica(0).bit_generator
        assert isinstance(stream, np.random.PCG64)
        # Segments share their buffers, so chains take turns; a single segment is only read.
        with self.problem.reading if passes.n_segments > 1 else nullcontext():
            draw_paths(passes, stream, paths)


def exact_batch(n_columns: int, again: bool) -> int:
    """How many exact draws are made at a time; again: whether each time takes another filter.

    >>> exact_batch(500, False), exact_batch(500, True), exact_batch(10**7, True)
    (256, 8388, 3)
    """
    most = max(BATCH, AGAIN_COLUMNS // n_columns) if again else BATCH
    return max(1, min(most, BATCH_COLUMNS // n_columns))


def path_engine(problem: PathProblem, betas: Sequence[float]) -> type[PathEngine]:
    """The fastest engine of replicas that serves a problem."""
    if GaussianEngine.serves(problem, betas):
        return GaussianEngine
    return CompiledEngine if CompiledEngine.serves(problem) else StepEngine


def check_checkpoint(checkpoint: Mapping[str, Any], present: Any, layout: Layout | None) -> None:
    """Raise InvalidInput where a checkpoint does not fit an engine with these present states (R, T)."""
    states, betas = np.asarray(checkpoint["states"]), np.asarray(checkpoint["betas"])
    n_sites, dtype = present.shape[1], present.dtype
    if betas.ndim != 1 or betas.dtype != float or not np.all(np.diff(betas, prepend=-1.0, append=2.0) > 0):
        raise InvalidInput(f"betas must increase, between 0 and 1, got {betas}")
    if states.shape != (len(betas), n_sites) or states.dtype != dtype:
        raise InvalidInput(
            f"states must be {dtype} of shape ({len(betas)}, {n_sites}), got {states.dtype} of shape {states.shape}"
        )
    if layout is not None:
        check_codes("states", states, layout)
    for name, made in ensemble.make_tally(len(betas))._asdict().items():
        found = np.asarray(checkpoint[f"tally_{name}"])
        if found.shape != made.shape or found.dtype != made.dtype:
            raise InvalidInput(f"tally_{name} must be {made.dtype} of shape {made.shape}, got {found.shape}")
    if not np.array_equal(np.sort(checkpoint["tally_labels"]), np.arange(len(betas))):
        raise InvalidInput(f"tally_labels must name every replica once, got {checkpoint['tally_labels']}")
    if int(checkpoint["iteration"]) < 0:
        raise InvalidInput(f"iteration must not be negative, got {checkpoint['iteration']}")
