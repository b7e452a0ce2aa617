"""sample(): runs chains of replicas: warm-up with ladder adaptation, sampling, interrupts, resuming."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.arrays import per_draw
from chiasma.results.assembly import assemble
from chiasma.results.exchange_stats import rejections
from chiasma.results.posterior import Posterior
from chiasma.results.provenance import describe_data, describe_model, versions
from chiasma.results.run_info import run_info
from chiasma.sampling.engines import Engine, ExactEngine, RowsEngine, RowsStepEngine
from chiasma.sampling.exchanges import Swap
from chiasma.sampling.gaussian_engine import state_engine
from chiasma.sampling.gradient_engine import GradientEngine
from chiasma.sampling.interrupts import WaitingInterrupts
from chiasma.sampling.ladder import adapted_betas, resized
from chiasma.sampling.learning_engines import CollapsedEngine, ConditionalEngine
from chiasma.sampling.optimise import as_optima
from chiasma.sampling.pilot import decide, saves_a_table
from chiasma.sampling.plan import EXACT_SECONDS, Plan, as_budget, check_evidence, larger_blocks
from chiasma.sampling.problems import (
    CodesProblem,
    LearningProblem,
    PathProblem,
    Problem,
    RowsProblem,
    Start,
    pose,
)
from chiasma.sampling.progress import Progress
from chiasma.sampling.scouts import SCOUTS, learn_jumps
from chiasma.sampling.streams import Streams, fresh_entropy
from chiasma.sampling.updates import Collapsed, Exact, Jumps, Update
from chiasma.storage.locks import one_writer
from chiasma.storage.opening import open_posterior, reopen_store, stored_seed
from chiasma.storage.reading import RunLayout
from chiasma.storage.store import ZarrTrace, check_new, draws_per_chunk
from chiasma.storage.trace import Elapsed, MemoryTrace, Trace
from chiasma.types import Integers, as_count, shown

Model = FactorialHMM | Density

# Updates of parameters with the paths integrated out.
LEARNING_ENGINES: dict[type[Update], type[Engine]] = {Exact: CollapsedEngine, Collapsed: GradientEngine}
# Seconds that a chain keeps its thread while others wait, so that an interrupted run has draws of all chains.
TURN = 0.2


@one_writer
def sample(
    model: Model,
    data: Observations | npt.ArrayLike | None = None,
    *,
    update: Any = "auto",
    exchange: Any = "auto",
    ladder: Any = "auto",
    exchange_every: int = 1,
    exact_seconds: float = EXACT_SECONDS,
    evidence: bool = False,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    thin: int = 1,
    init: npt.ArrayLike | None = None,
    seed: int | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    resume: bool = False,
    durable: bool = True,
    progress: bool = True,
) -> Posterior:
    """Draw from the posterior of the hidden paths, and of parameters with a prior, or from any density.

    Parameters
    ----------
    model, data : a FactorialHMM and its observations, or a Density alone.
    update : "auto", "exact", "row", "block", "gaussian-blocks", "hamming-ball", "jumps", "collapsed", or an object
        such as ch.HammingBall(radius=3). Parameters with a prior are updated given the paths, or with the paths
        integrated out if update is "exact", or "collapsed", which follows gradients.
    exchange : "auto", None, "swap", "random", "augmented", "mosaic", or an object.
    ladder : "auto", a list of temperatures such as [1, 5], or a ch.Ladder.
    exchange_every : iterations between exchange steps.
    exact_seconds : time budget of one exact filter. Past it, update="auto" takes replicas in place of exact draws, and
        models with priors are learned given the paths; 0: never exact.
    evidence : whether log_evidence is wanted. It is a by-product of exact draws; otherwise update="auto" then takes a
        ladder from the prior to the target, which is slower than what it takes for the draws alone.
    draws, warmup : draws kept per chain, after thinning, and warm-up iterations before them.
    chains : independent runs. Each has a replica at every rung of the ladder; draws of the coldest one are kept.
    thin : keep every thin-th iteration.
    init : states (K, T) or codes (T,) from which every replica starts; default: a draw from the prior. For a model with
        priors, also a dictionary with some or all initial values: {"states": ..., "sd": 2.0}.
    seed : the same seed gives the same draws for any number of workers.
    workers : threads; default: one per core, at most one per chain.
    store : a path for a Zarr store, to which draws are written while sampling; ch.open_posterior reads it.
    resume : continue the run in `store` up to `draws`, as if it had never stopped; starts a new run if there is none.
    durable : sync every write to the disk, so that a power cut loses no more than a kill; False: for scratch stores.
    progress : show what was chosen and how far the run is: bars on a terminal, a line now and then elsewhere.

    Returns
    -------
    Posterior. Ctrl-C ends the run, which then returns what all chains have drawn.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([1.0, 2.0], sd=0.5))
    >>> _, y = model.simulate(50, seed=1)
    >>> posterior = ch.sample(model, y, draws=100, seed=1, progress=False)
    >>> posterior.codes.shape
    (4, 100, 50)
    """
    _check_counts(1, draws=draws, chains=chains, thin=thin, exchange_every=exchange_every)
    _check_counts(1, workers=1 if workers is None else workers)
    _check_counts(0, warmup=warmup, seed=0 if seed is None else seed)
    problem, plan, start = pose(model, data, update, exchange, ladder, init, as_budget(exact_seconds), evidence)
    check_evidence(plan, evidence, has_proper_prior(model))
    seen = None if data is None else Observations.of(data)
    path = None if store is None else Path(store)
    resumes = path is not None and resume and path.exists()
    if path is not None and not resumes:
        check_new(path)
    entropy = stored_seed(path) if path is not None and resumes and seed is None else fresh_entropy(seed)
    n_workers = min(workers or os.cpu_count() or 1, chains)
    began, left = time.perf_counter(), warmup
    because = plan.reason if plan.trial is None else f"a pilot chooses the update: {plan.trial.because}"
    display = Progress(progress, because, entropy)
    pilot_states: list[Integers] = []
    if plan.trial is not None:
        assert isinstance(problem, CodesProblem)
        # A run that is continued may ask for more draws and must not decide otherwise, hence by the warm-up.
        if saves_a_table(problem.target, plan, chains * (2 * warmup or draws * thin)):
            problem = PathProblem(replace(problem.target, table_bytes=0), problem.update, None)
        with closing(display):
            plan, problem, pilot_states, left = decide(problem, plan, entropy, chains, warmup, n_workers, display)
        display.tell(plan.reason)
    if isinstance(plan.update, Jumps) and plan.update.differences is None:
        with closing(display):
            jumps, pilot_states, left = learn_jumps(problem, plan.update, entropy, chains, left, n_workers, display)
        plan = replace(plan, update=jumps, reason=f"{plan.reason}; {jumps.differences} learned from {SCOUTS} scouts")
        problem.update = jumps  # type: ignore[attr-defined]  # learn_jumps takes problems that have one
    settings = {"exchange_every": exchange_every, "warmup": warmup, "chains": chains, "thin": thin, "seed": entropy}
    about = describe_run(model, seen, plan, settings, start)
    about |= {
        "update_kind": None if plan.update is None else type(plan.update).__name__,
        "update_named": not (isinstance(update, str) and update == "auto"),
        "larger_blocks": _larger(problem, plan),
        "starts": plan.update.starts if isinstance(plan.update, Collapsed) else None,
    }
    trace: Trace | None = reopen_store(path, about, draws, durable) if path is not None and resumes else None
    starts = [start] * chains
    if start.states is None:
        starts[: len(pilot_states)] = [Start(states) for states in pilot_states[:chains]]
    engines = make_engines(problem, plan, exchange_every, entropy, starts)
    with Run(engines, n_workers, display) as run:
        if pilot_states:
            run.timings["pilot"] = time.perf_counter() - began
        log_evidence = run.prepare()
        if not plan.is_exact and (trace is None or not trace.all_began):
            if trace is not None:
                display.say("not all chains had stored draws when the run stopped: it warms up again")
            run.warm_up(left, plan)
        if trace is None:
            if isinstance(problem, LearningProblem) and problem.peaks is not None:
                about["optima"] = as_optima(problem.learning, problem.peaks, about["starts"]).to_dict()
            trace = new_trace(path, about, problem, engines, draws, seen, log_evidence, durable, run.elapsed)
        trace.time_by(run.elapsed)
        trace.restore(engines)
        if resumes and min(trace.filled):
            run.display.resume(min(trace.filled), draws)
        run.keep(trace, draws, thin)
        trace.finish(engines)
    if path is not None:
        del run, engines, problem, trace  # of many columns they are large, and so is what is opened now
        return open_posterior(path, model=model)
    assert isinstance(trace, MemoryTrace)
    return assemble(
        draws=partial(per_draw, problem.name, trace.draws.states, "site"),
        log_prior=trace.draws.log_prior,
        log_lik=trace.draws.log_lik,
        values=trace.draws.values,
        work=trace.draws.work,
        betas=engines[0].betas,
        tallies=[engine.tally for engine in engines],
        exact_evidence=trace.log_evidence,
        info=run_info(about, run.timings),
        model=model,
        data=seen,
    )


def _larger(problem: Problem, plan: Plan) -> int | None:
    """Rows of larger blocks that a warning may name."""
    if plan.update is None:
        return None
    assert isinstance(problem, CodesProblem | LearningProblem)
    target = problem.learning.typical if isinstance(problem, LearningProblem) else problem.target
    return larger_blocks(target, plan.update)


def has_proper_prior(model: Model) -> bool:
    """Whether the prior is a distribution; without one there is no evidence."""
    return not isinstance(model, Density) or model.has_proper_prior


def describe_run(
    model: Model, data: Observations | None, plan: Plan, settings: dict[str, Any], start: Start
) -> dict[str, Any]:
    """Everything that the draws depend on, and how it was chosen, as plain JSON."""
    ladder = plan.ladder
    return {
        "model": describe_model(model),
        "data": describe_data(data),
        "run": settings
        | {
            "update": None if plan.update is None else repr(plan.update),
            "exchange": None if plan.exchange is None else repr(plan.exchange),
            "ladder": {"betas": list(ladder.betas), "adapt": ladder.adapt, "resize": ladder.resize},
            "init": start.describe(),
        },
        "plan": plan.reason,
        "follows_swaps": plan.exchange == Swap(),
        "independent": plan.is_exact,
        "proper_prior": has_proper_prior(model),
        "n_rows": model.n_rows if isinstance(model, FactorialHMM) else None,
        "row_sizes": model.layout.sizes.tolist() if isinstance(model, FactorialHMM) else None,
        "row_names": model.row_names if isinstance(model, FactorialHMM) else None,
        **(_for_other_programs(model) if isinstance(model, FactorialHMM) else {}),
        "versions": versions(),
    }


def _for_other_programs(model: FactorialHMM) -> dict[str, Any]:
    """What programs without chiasma need to read a store: the bits of every row, and the columns of `parameters`."""
    return {
        "row_shifts": model.layout.shifts.tolist(),
        "row_masks": model.layout.masks.tolist(),
        "parameter_names": model.parameters.value_names(),
    }


def make_engines(
    problem: Problem, plan: Plan, exchange_every: int, entropy: int, starts: Sequence[Start]
) -> list[Engine]:
    """One engine per chain, each with its own start and its own streams of random numbers."""
    kind: type[Engine]
    if isinstance(problem, RowsProblem):
        kind = RowsEngine if plan.is_exact else RowsStepEngine
    elif plan.is_exact:
        kind = ExactEngine
    elif isinstance(problem, LearningProblem):
        assert plan.update is not None
        kind = LEARNING_ENGINES.get(type(plan.update), ConditionalEngine)
    else:
        kind = state_engine(problem, plan.ladder.betas)
    every = exchange_every if plan.exchange is not None else 0
    return [
        kind(problem, plan.ladder.betas, every, Streams(entropy, chain), start) for chain, start in enumerate(starts)
    ]


def new_trace(
    path: Path | None,
    about: dict[str, Any],
    problem: Problem,
    engines: list[Engine],
    n_draws: int,
    data: Observations | None,
    log_evidence: float | None,
    durable: bool = True,
    elapsed: Elapsed = dict,
) -> Trace:
    """A new trace for the draws, in memory or in a store."""
    engine = engines[0]
    empty = engine.empty_draws(0, thin=0)
    if path is None:
        kept = empty._replace(states=problem.record(empty.states))
        return MemoryTrace(len(engines), n_draws, kept, log_evidence)
    n_replicas = len(engine.betas)
    layout = RunLayout(
        name=problem.name,
        n_chains=len(engines),
        n_draws=n_draws,
        n_sites=problem.n_sites,
        n_replicas=n_replicas,
        dtype=np.dtype(problem.record_dtype).name,
        n_rows=about["n_rows"] or 0,
        chunk_draws=draws_per_chunk(problem.n_sites, n_replicas, problem.record_dtype, engine.piece()),
        n_values=empty.values.shape[1],
        n_pairs=empty.work.shape[1],
    )
    static: dict[str, tuple[npt.NDArray[Any], str]] = {"beta": (engine.betas, "replica")}
    if data is not None:
        static["y"] = (data.y, "site" if data.y.ndim == 1 else "site channel")
        static["starts"] = (data.starts, "sequence")
        if data.gaps is not None and len(data.gaps):
            static["gaps"] = (data.gaps, "gap")
    return ZarrTrace.create(path, layout, static, about, log_evidence, durable, elapsed)


class Run:
    """The chains of one call, advanced together by a pool of threads."""

    def __init__(self, engines: list[Engine], workers: int, display: Progress):
        self.engines = engines
        self.display = display
        self.workers = workers
        self.stop = Event()
        self.pool = ThreadPoolExecutor(workers)
        self.timings: dict[str, float] = {}
        self.drawing_since: float | None = None

    def __enter__(self) -> Run:
        self.display.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        with WaitingInterrupts():
            self.pool.shutdown()
        self.display.close()

    def prepare(self) -> float | None:
        """Compute once what all chains share, such as an exact filter; returns the log evidence if that yields it."""
        began = time.perf_counter()
        log_evidence = self.engines[0].prepare()
        if log_evidence is not None:
            self.timings["filter"] = time.perf_counter() - began
        return log_evidence

    def warm_up(self, n: int, plan: Plan) -> None:
        """Warm up in rounds of doubling length. The ladder adapts between rounds and is fixed in the last."""
        began = time.perf_counter()
        for engine in self.engines:
            engine.begin(self.display, self.workers)
        rounds = warmup_rounds(n) if plan.ladder.adapt else [n]
        self.display.begin("warm-up", n, len(self.engines))
        for i, length in enumerate(rounds):
            self._all(partial(self._advance, self.engines[0].iteration + length))
            if i < len(rounds) - 1:
                # The number of rungs changes only in the first half, so that new replicas have time to warm up.
                self._adapt(resize=plan.ladder.resize and i < len(rounds) // 2)
        for engine in self.engines:
            engine.restart()
        self.timings["warmup"] = time.perf_counter() - began

    def _adapt(self, resize: bool) -> None:
        if not self.engines[0].tally.steps[0]:
            return  # no exchange yet, so there are no rejections to adapt to
        betas = self.engines[0].betas
        _, lengths = rejections([engine.tally for engine in self.engines], betas)
        adapted = adapted_betas(betas, lengths, resized(lengths) if resize else len(betas))
        for engine in self.engines:
            engine.set_betas(adapted)

    def keep(self, trace: Trace, n_draws: int, thin: int) -> None:
        self.drawing_since = time.perf_counter()
        done = [engine.iteration for engine in self.engines]
        self.display.begin("draws", n_draws * thin, len(self.engines), done)
        try:
            self._all(partial(self._record, n_draws * thin, thin, trace))
        except KeyboardInterrupt:
            if min(trace.filled) == 0:
                raise
        self.timings["draws"] = time.perf_counter() - self.drawing_since
        self.drawing_since = None

    def elapsed(self) -> dict[str, float]:
        """Seconds of every stage so far; that of the draws while they are being made."""
        since = self.drawing_since
        return self.timings | ({} if since is None else {"draws": time.perf_counter() - since})

    def _all(self, task: Callable[[Engine, int], bool]) -> None:
        """Run chains in turns until each is done; an interrupt or an error stops all after the current piece."""
        turns: dict[Future[bool], int] = {}
        with WaitingInterrupts() as interrupts:
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
                    interrupts.raise_noted()
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
            draws = engine.advance(step, thin)
            trace.append(chain, draws._replace(states=engine.problem.record(draws.states)), engine)
            self.display.advance(chain, step, engine, draws)
        return engine.iteration >= until


def warmup_rounds(n: int) -> list[int]:
    """Lengths of the warm-up rounds: they double and add up to n; the last one is at least half of n.

    >>> warmup_rounds(1000)
    [31, 62, 124, 248, 535]
    """
    lengths: list[int] = []
    length = max(4, n // 32)
    while 2 * length <= n - sum(lengths) - length:
        lengths.append(length)
        length *= 2
    return [*lengths, n - sum(lengths)]


def _check_counts(least: int, **counts: Any) -> None:
    for name, count in counts.items():
        if name != "seed" or not isinstance(count, int):  # a seed may be as large as it likes
            as_count(name, count, least)
        elif isinstance(count, bool) or count < 0:
            raise InvalidInput(f"seed must be a whole number of at least 0, got {shown(count)}")
