"""Engines: the replicas of one chain, advanced by iterations.

`CompiledEngine` keeps whole sweeps and exchanges inside numba; `StepEngine` does the same one step at a time, for
targets that must be asked in Python (streamed likelihoods, exact passes, any density). Both read the same streams
in the same order.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chiasma.kernels import ensemble, moves
from chiasma.kernels.codes import smallest_dtype
from chiasma.kernels.sweeps import prior_sweep
from chiasma.models.target import Target, tempered_table
from chiasma.sampling.exchanges import Exchange
from chiasma.sampling.streams import Streams
from chiasma.sampling.updates import Exact, Update, make_program, make_work, uniforms_per_sweep
from chiasma.types import Floats, Integers

# Uniforms drawn ahead per call of the compiled loop, over all replicas: 16 MiB.
BUFFER = 2**21
# Where they go, a thread at a time: fresh memory of that size takes longer to get and to give back than to fill.
_ROOM = threading.local()

State = npt.NDArray[Any]


class Chunk(NamedTuple):
    """Records of some iterations."""

    states: State  # (n, T) of the cold replica
    log_lik: Floats  # (n, R)
    log_prior: Floats  # (n,) of the cold replica, that of its parameters included
    values: Floats  # (n, P) learned parameters of the cold replica
    work: Floats  # (n, R - 1, 2) between rungs, where paths are integrated out; else (n, 0, 2)


class Recorded(Protocol):
    """What all engines need to know of what they draw."""

    name: str  # of the draws
    n_sites: int
    record_dtype: Any

    def record(self, states: State) -> State: ...


class Problem(Recorded, Protocol):
    """What a StepEngine needs to know of a target."""

    dtype: Any

    def initial(self, rng: np.random.Generator) -> State: ...
    def sweep(self, beta: float) -> Any: ...
    def pair(self, beta_i: float, beta_j: float) -> Any: ...
    def log_likelihood(self, state: State) -> float: ...
    def log_prior(self, state: State) -> float: ...


class PathProblem(Problem):
    """A path of a factorial HMM, with its update and its exchange."""

    name = "codes"
    dtype: Any = np.int64

    def __init__(self, target: Target, update: Update, exchange: Exchange | None):
        self.target = target
        self.update = update
        self.exchange = exchange
        self.n_sites = target.n_columns
        self.record_dtype = smallest_dtype(target.all_rows)
        self._tempered_at = np.empty(0)
        self._tempered = np.empty((0, 0, 0))

    def initial(self, rng: np.random.Generator) -> Integers:
        """A path from the prior."""
        codes = np.zeros(self.n_sites, np.int64)
        prior_sweep(self.target.trans, self.target.edge, rng.random(self.target.n_rows * self.n_sites), codes)
        return codes

    def sweep(self, beta: float) -> Any:
        return self.update.prepare(self.target, beta)

    def pair(self, beta_i: float, beta_j: float) -> Any:
        assert self.exchange is not None
        return self.exchange.prepare(self.target, self.target, beta_i, beta_j)

    def tempered(self, betas: Floats) -> Floats:
        """(R, S, T) likelihoods at every beta. The chains of a run share their rungs, and so this table."""
        if not np.array_equal(betas, self._tempered_at):
            self._tempered_at = betas.copy()
            self._tempered = np.empty((len(betas), *self.target.log_lik.shape[::-1]))
            for lik, beta in zip(self._tempered, betas, strict=True):
                tempered_table(self.target.log_lik, beta, lik)
        return self._tempered

    def log_likelihood(self, state: State) -> float:
        return self.target.log_likelihood(state)

    def log_prior(self, state: State) -> float:
        return self.target.log_prior(state)

    def record(self, states: State) -> State:
        """Codes of all rows, in the smallest type that holds them."""
        return self.target.expand(states).astype(self.record_dtype)


class Engine(ABC):
    """Replicas of one chain, from the hottest to the cold one."""

    problem: Recorded
    streams: Streams
    every: int  # iterations from one exchange step to the next; 0: none
    states: State  # (R, T)

    def place(self, betas: Sequence[float]) -> None:
        """Set the rungs. With another number of them, each takes the path of the nearest old one."""
        n_old, n_new = len(self.states), len(betas)
        if n_new != n_old:
            nearest = np.round(np.linspace(0, n_old - 1, n_new)).astype(int)
            self.states = self.states[nearest].copy()
        self.betas = np.asarray(betas, float)
        self.restart()
        self._bind()

    def restart(self) -> None:
        """Forget the tally and count iterations from 0."""
        self.iteration = 0
        self.tally = ensemble.make_tally(len(self.betas))

    @abstractmethod
    def _bind(self) -> None:
        """Make what depends on the betas."""

    @abstractmethod
    def advance(self, n: int, thin: int) -> Chunk:
        """Run n iterations and keep every thin-th (0: none)."""

    @abstractmethod
    def piece(self) -> int:
        """Iterations that make a reasonable single call of `advance`."""

    @abstractmethod
    def log_densities(self) -> Floats:
        """(2, R): log-likelihood and log prior of where the replicas are."""

    def checkpoint(self) -> dict[str, Any]:
        """All that the next iteration depends on, as arrays."""
        tally = {f"tally_{name}": values for name, values in self.tally._asdict().items()}
        streams = np.array(json.dumps(self.streams.state()))
        return tally | {"states": self.states, "betas": self.betas, "iteration": self.iteration, "streams": streams}

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.states = np.array(checkpoint["states"])
        self.place(checkpoint["betas"])
        self.iteration = int(checkpoint["iteration"])
        self.tally = ensemble.Tally(*(checkpoint[f"tally_{name}"].copy() for name in ensemble.Tally._fields))
        self.streams.restore(json.loads(str(checkpoint["streams"])))

    def empty_chunk(self, n: int, thin: int) -> Chunk:
        """Room for the records of the next n iterations."""
        n_kept = (self.iteration + n) // thin - self.iteration // thin if thin else 0
        n_replicas, n_sites = self.states.shape
        return Chunk(
            states=np.empty((n_kept, n_sites), self.states.dtype),
            log_lik=np.empty((n_kept, n_replicas)),
            log_prior=np.empty(n_kept),
            values=np.empty((n_kept, 0)),
            work=np.empty((n_kept, 0, 2)),
        )


class StateEngine(Engine):
    """Replicas that are nothing but their states."""

    problem: Problem

    def __init__(self, problem: Problem, betas: Sequence[float], every: int, streams: Streams, start: State | None):
        self.problem = problem
        self.every = every
        self.streams = streams
        rows = [problem.initial(streams.initial(r)) if start is None else start for r in range(len(betas))]
        self.states = np.array(rows, dtype=problem.dtype)
        self.place(betas)

    def log_densities(self) -> Floats:
        parts = (self.problem.log_likelihood, self.problem.log_prior)
        return np.array([[part(state) for state in self.states] for part in parts])


def _room(name: str, n_rows: int, n_columns: int) -> Floats:
    """(n_rows, n_columns): this thread's array of that name, to be used up before it is asked for again."""
    size = n_rows * n_columns
    room: Floats | None = getattr(_ROOM, name, None)
    if room is None or len(room) < size:
        room = np.empty(size)
        setattr(_ROOM, name, room)
    return room[:size].reshape(n_rows, n_columns)


class CompiledEngine(StateEngine):
    """Whole iterations inside numba; needs a tabulated target and an update made of steps."""

    problem: PathProblem

    @staticmethod
    def serves(problem: Problem) -> bool:
        return isinstance(problem, PathProblem) and problem.target.tabulated and not isinstance(problem.update, Exact)

    def _bind(self) -> None:
        target = self.problem.target
        steps = self.problem.update.steps(target)
        self.program = make_program(steps)
        self.work = make_work(target, steps)
        self.n_sweep = np.array([uniforms_per_sweep(target, steps, beta) for beta in self.betas])
        exchange = self.problem.exchange
        if exchange is None:
            self.move, self.n_pair = moves.Move(moves.SWAP, np.arange(target.n_rows), False, False, 0, False), 0
        else:
            self.move, self.n_pair = exchange.move(target), exchange.n_uniforms(target)
        self.pair_work = moves.make_pair_work(target.n_columns, target.n_rows)
        self.replicas = ensemble.Replicas(
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

    def advance(self, n: int, thin: int) -> Chunk:
        chunk = self.empty_chunk(n, thin)
        kept = 0
        for first in range(0, n, self.piece()):
            kept += self._run(min(self.piece(), n - first), thin, Chunk(*(part[kept:] for part in chunk)))
        return chunk

    def _run(self, n: int, thin: int, chunk: Chunk) -> int:
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
            ensemble.Records(chunk.states, chunk.log_lik, chunk.log_prior),
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
        """Numbers for the next n_steps exchange steps; a pair reads only at steps of its parity."""
        n_pairs = len(self.betas) - 1
        uniforms = _room("pairs", max(n_pairs, 1), n_steps * self.n_pair)
        for p in range(n_pairs):
            n_used = ensemble.count_turns(p, int(self.tally.steps[0]), n_steps, n_pairs + 1) * self.n_pair
            self.streams.pair(p).random(out=uniforms[p, :n_used])
        return uniforms


class StepEngine(StateEngine):
    """One Python call per sweep and per exchange, for any target."""

    def _bind(self) -> None:
        self.sweeps = [self.problem.sweep(beta) for beta in self.betas]
        self.pairs = (
            [self.problem.pair(low, high) for low, high in zip(self.betas[:-1], self.betas[1:], strict=True)]
            if self.every
            else []
        )

    def piece(self) -> int:
        return 1

    def advance(self, n: int, thin: int) -> Chunk:
        chunk = self.empty_chunk(n, thin)
        kept = 0
        for i in range(self.iteration, self.iteration + n):
            for r, (sweep, state) in enumerate(zip(self.sweeps, self.states, strict=True)):
                sweep.step(state, self.streams.replica(r))
            record = thin > 0 and (i + 1) % thin == 0
            exchange = bool(self.pairs) and (i + 1) % self.every == 0
            log_liks = (
                np.array([self.problem.log_likelihood(state) for state in self.states]) if record or exchange else None
            )
            if record:
                assert log_liks is not None
                chunk.states[kept] = self.states[-1]
                chunk.log_lik[kept] = log_liks
                chunk.log_prior[kept] = self.problem.log_prior(self.states[-1])
                kept += 1
            if exchange:
                assert log_liks is not None
                self._exchange(log_liks)
        self.iteration += n
        return chunk

    def _exchange(self, log_liks: Floats) -> None:
        tally = self.tally
        ensemble.tally_log_liks(tally, self.betas, log_liks)
        for p in range(ensemble.first_pair(int(tally.steps[0]), len(self.betas)), len(self.pairs), 2):
            a, b = self.states[p], self.states[p + 1]
            moved = self.pairs[p].step(a, b, self.streams.pair(p))
            tally.moves[p] += 1
            tally.columns[p] += moved
            tally.changed[p] += moved > 0
            if self.pairs[p].is_swap and (moved > 0 or np.array_equal(a, b)):
                ensemble.tally_swap(tally, p)
        ensemble.tally_trips(tally)
        tally.steps[0] += 1
