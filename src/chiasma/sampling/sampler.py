"""sample(): chains of replicas, warm-up with an adapting ladder, kept draws, interrupts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM, check_states
from chiasma.models.observations import Observations
from chiasma.results.posterior import Posterior
from chiasma.sampling.engines import CompiledEngine, Engine, PathProblem, StepEngine
from chiasma.sampling.exact_engine import ExactEngine, SharedPasses
from chiasma.sampling.exchanges import AugmentedCrossover
from chiasma.sampling.ladder import adapted_betas, pair_lengths, resized
from chiasma.sampling.learning import Learning
from chiasma.sampling.learning_engines import CollapsedEngine, ConditionalEngine, LearningProblem
from chiasma.sampling.plan import Plan, plan_learning, plan_paths, plan_replicas
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams, fresh_entropy
from chiasma.sampling.updates import Exact
from chiasma.sampling.vectors import VectorProblem
from chiasma.storage.records import begin, describe_run, open_posterior, posterior_in_memory, stored_seed, take_up
from chiasma.storage.store_files import check_new
from chiasma.storage.trace import Trace
from chiasma.types import Floats

Model = FactorialHMM | Density
AnyProblem = PathProblem | VectorProblem | LearningProblem

# Seconds that a chain keeps its thread while others wait for one: an interrupt then finds draws of them all.
TURN = 0.2


def sample(
    model: Model,
    data: Observations | npt.ArrayLike | None = None,
    *,
    update: Any = "auto",
    exchange: Any = "auto",
    ladder: Any = "auto",
    exchange_every: int = 1,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    thin: int = 1,
    init: npt.ArrayLike | None = None,
    seed: int | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Posterior:
    """Draw from the posterior of the hidden paths, and of parameters with a prior, or from any density.

    Parameters
    ----------
    model, data : a FactorialHMM and its observations, or a Density alone.
    update : "auto", "exact", "row", "block", "hamming-ball", or an object such as ch.HammingBall(radius=3). Parameters
        with a prior are updated given the paths; with "exact", with the paths integrated out.
    exchange : "auto", None, "swap", "random", "augmented", "mosaic", or an object.
    ladder : "auto", a list of temperatures such as [1, 5], or a ch.Ladder.
    exchange_every : iterations from one exchange step to the next.
    draws, warmup : iterations kept per chain, after thinning, and iterations before them.
    chains : independent repeats. Each has all rungs of the ladder; the coldest one is kept.
    thin : keep every thin-th iteration.
    init : states (K, T) or codes (T,) from which every replica starts; default: a draw from the prior. Where the model
        has priors, also a dictionary: {"states": ..., "sd": 2.0}, any of them.
    seed : the same seed gives the same draws for any number of workers.
    workers : threads; default: one per core, at most one per chain.
    store : a path for a Zarr store, to which draws are written as they come; ch.open_posterior reads it.
    resume : go on with the run in `store`, as if it had never stopped, up to `draws`; a new run if there is none.
    progress : show a progress display where the output is a terminal, and say what was chosen.

    Ctrl-C ends the run and returns what all chains have drawn.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(chains=ch.BinaryChains(0.05, 0.05), emission=ch.Gaussian([1.0, 2.0], sd=0.5))
    >>> _, y = model.simulate(50, seed=1)
    >>> posterior = ch.sample(model, y, draws=100, seed=1, progress=False)
    >>> posterior.codes.shape
    (4, 100, 50)
    """
    _check_counts(1, draws=draws, chains=chains, thin=thin, exchange_every=exchange_every)
    _check_counts(1, workers=1 if workers is None else workers)
    _check_counts(0, warmup=warmup, seed=0 if seed is None else seed)
    problem, plan, start = _settle(model, data, update, exchange, ladder, init)
    seen = None if data is None else Observations.of(data)
    path = None if store is None else Path(store)
    resumes = path is not None and resume and path.exists()
    if path is not None and not resumes:
        check_new(path)
    entropy = stored_seed(path) if path is not None and resumes and seed is None else fresh_entropy(seed)
    engines = _engines(problem, plan, exchange_every, entropy, chains, start)
    settings = {"exchange_every": exchange_every, "warmup": warmup, "chains": chains, "thin": thin, "seed": entropy}
    about = describe_run(model, seen, plan, settings, start, engines[0])
    trace: Trace | None = take_up(path, about, draws) if path is not None and resumes else None
    with Run(engines, min(workers or os.cpu_count() or 1, chains), Progress(progress, plan.reason, entropy)) as run:
        if not plan.is_exact and (trace is None or not trace.all_began):
            run.warm_up(warmup, plan)
        if trace is None:
            trace = begin(path, about, problem, engines, draws, seen)
        trace.restore(engines)
        run.keep(trace, draws, thin)
        trace.finish(engines, run.timings)
    if path is not None:
        return open_posterior(path, model=model)
    return posterior_in_memory(trace, about, engines, run.timings, model, seen)


class Run:
    """The chains of one call, advanced together by a pool of threads."""

    def __init__(self, engines: list[Engine], workers: int, display: Progress):
        self.engines = engines
        self.display = display
        self.stop = Event()
        self.pool = ThreadPoolExecutor(workers)
        self.timings: dict[str, float] = {}

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.pool.shutdown()
        self.display.close()

    def warm_up(self, n: int, plan: Plan) -> None:
        """Rounds of doubling length. The ladder moves between rounds and stays put during the last, longest one."""
        began = time.perf_counter()
        rounds = warmup_rounds(n) if plan.ladder.adapt else [n]
        self.display.begin("warm-up", n, len(self.engines))
        for i, length in enumerate(rounds):
            self._all(partial(self._advance, self.engines[0].iteration + length))
            if i < len(rounds) - 1:
                # The number of rungs settles in the first half, so that new replicas have time to warm up.
                self._adapt(resize=plan.ladder.resize and i < len(rounds) // 2)
        for engine in self.engines:
            engine.restart()
        self.timings["warmup"] = time.perf_counter() - began

    def _adapt(self, resize: bool) -> None:
        if not self.engines[0].tally.steps[0]:
            return  # no exchange yet: nothing is known of the ladder
        betas = self.engines[0].betas
        lengths = pooled_lengths(self.engines)
        placed = adapted_betas(betas, lengths, resized(lengths) if resize else len(betas))
        for engine in self.engines:
            engine.place(placed)

    def keep(self, trace: Trace, n_draws: int, thin: int) -> None:
        began = time.perf_counter()
        self.display.begin("draws", n_draws * thin, len(self.engines))
        try:
            self._all(partial(self._record, n_draws * thin, thin, trace))
        except KeyboardInterrupt:
            if min(trace.filled) == 0:
                raise
        self.timings["draws"] = time.perf_counter() - began

    def _all(self, task: Callable[[Engine, int], bool]) -> None:
        """Give chains turns until the task of each is done; an interrupt or an error stops all at their next piece."""
        turns: dict[Future[bool], int] = {}
        try:
            for chain, engine in enumerate(self.engines):
                turns[self.pool.submit(task, engine, chain)] = chain
            while turns:
                ended, _ = wait(turns, timeout=0.1, return_when=FIRST_COMPLETED)
                self.display.refresh()
                for future in ended:
                    chain = turns.pop(future)
                    if not future.result():
                        turns[self.pool.submit(task, self.engines[chain], chain)] = chain
        except BaseException:
            self.stop.set()
            wait(turns)
            raise

    def _pieces(self, until: int, engine: Engine) -> Iterator[int]:
        """Lengths of the pieces of one turn on the way to iteration `until`."""
        end = time.monotonic() + TURN
        while engine.iteration < until and not self.stop.is_set():
            yield min(engine.piece(), until - engine.iteration)
            if time.monotonic() > end:
                return

    def _advance(self, until: int, engine: Engine, chain: int) -> bool:
        for step in self._pieces(until, engine):
            engine.advance(step, thin=0)
            self.display.advance(chain, step, engine, None)
        return engine.iteration >= until

    def _record(self, until: int, thin: int, trace: Trace, engine: Engine, chain: int) -> bool:
        for step in self._pieces(until, engine):
            chunk = engine.advance(step, thin)
            trace.append(chain, chunk._replace(states=engine.problem.record(chunk.states)), engine)
            self.display.advance(chain, step, engine, chunk)
        return engine.iteration >= until


def warmup_rounds(n: int) -> list[int]:
    """Lengths that double and add up to n; the last one holds at least half of it.

    >>> warmup_rounds(1000)
    [31, 62, 124, 248, 535]
    """
    lengths: list[int] = []
    length = max(4, n // 32)
    while 2 * length <= n - sum(lengths) - length:
        lengths.append(length)
        length *= 2
    return [*lengths, n - sum(lengths)]


def pooled_lengths(engines: list[Engine]) -> Floats:
    """(R - 1,): distances of neighbouring rungs, from the tallies of all chains."""
    steps = max(sum(int(engine.tally.steps[0]) for engine in engines), 1)
    rejection = 1 - np.sum([engine.tally.acceptance for engine in engines], axis=0) / steps
    mean_log_lik = np.sum([engine.tally.log_lik for engine in engines], axis=0) / steps
    return pair_lengths(engines[0].betas, rejection, mean_log_lik)


def _settle(
    model: Model, data: Any, update: Any, exchange: Any, ladder: Any, init: Any
) -> tuple[AnyProblem, Plan, Any]:
    if isinstance(model, Density):
        if data is not None:
            raise InvalidInput("a Density carries its data itself; call sample(density) without data")
        if update != "auto":
            raise InvalidInput("a Density carries its update; give it there: ch.Density(..., update=...)")
        plan = plan_replicas(None, exchange, ladder, AugmentedCrossover(), "update of the density")
        vectors = VectorProblem(model, plan.exchange)
        return vectors, plan, None if init is None else vectors.check_state(init)
    if not isinstance(model, FactorialHMM):
        raise InvalidInput(f"model must be a FactorialHMM or a Density, got {type(model).__name__}")
    if data is None:
        raise InvalidInput("a FactorialHMM needs data: sample(model, y)")
    if model.parameters:
        return _settle_learning(model, Observations.of(data), update, exchange, ladder, init)
    target = model.target(data)
    plan = plan_paths(target, update, exchange, ladder)
    start = None if init is None else target.reduce(check_states(model, target.n_columns, init))
    assert plan.update is not None
    return PathProblem(target, plan.update, plan.exchange), plan, start


def _settle_learning(
    model: FactorialHMM, data: Observations, update: Any, exchange: Any, ladder: Any, init: Any
) -> tuple[AnyProblem, Plan, tuple[npt.NDArray[Any] | None, dict[str, Any]]]:
    learning = Learning(model, data)
    plan = plan_learning(learning.typical, learning.parameters.n_free, update, exchange, ladder)
    assert plan.update is not None
    if isinstance(plan.update, Exact):
        learning.memory = plan.update.memory
    named = dict(init) if isinstance(init, Mapping) else {} if init is None else {"states": init}
    states = named.pop("states", None)
    learning.parameters.pack(named, learning.sample_prior(np.random.default_rng(0)))  # refuses what does not fit
    codes = None if states is None else learning.typical.reduce(check_states(model, data.n_columns, states))
    return LearningProblem(learning, plan.update, plan.exchange), plan, (codes, named)


def _engines(problem: AnyProblem, plan: Plan, every: int, entropy: int, n_chains: int, start: Any) -> list[Engine]:
    streams = [Streams(entropy, chain) for chain in range(n_chains)]
    if plan.is_exact:
        assert isinstance(problem, PathProblem)
        assert isinstance(plan.update, Exact)
        shared = SharedPasses(problem, plan.update.memory)
        return [ExactEngine(problem, shared, own) for own in streams]
    betas = plan.ladder.betas
    every = every if plan.exchange is not None else 0
    if isinstance(problem, LearningProblem):
        learner = CollapsedEngine if isinstance(plan.update, Exact) else ConditionalEngine
        return [learner(problem, betas, every, own, start) for own in streams]
    kind = CompiledEngine if CompiledEngine.serves(problem) else StepEngine
    return [kind(problem, betas, every, own, start) for own in streams]


def _check_counts(least: int, **counts: Any) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
            raise InvalidInput(f"{name} must be a whole number of at least {least}, got {count!r}")
