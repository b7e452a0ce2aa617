"""sample() in six phases: validate, plan, pilot, build, run, assemble.

Each phase is one function, which takes and returns named objects: a `Request` (what was asked for), a `PlannedRun` (the
problem, the plan and the starts of the chains), the engines of the chains, and what they have `Drawn`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.hints import hinted
from chiasma.kernels.ensemble import Tally
from chiasma.limits import MOST_CHAINS
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results import assembly
from chiasma.results.arrays import per_draw
from chiasma.results.posterior import Posterior
from chiasma.results.provenance import describe_data, describe_model, run_info, versions
from chiasma.sampling.engines import Engine, ExactEngine, path_engine
from chiasma.sampling.exchanges import Exchange, Swap
from chiasma.sampling.gradient_engine import GradientEngine
from chiasma.sampling.jump_learning import SCOUTS, learn_jumps
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.learning_engines import CollapsedEngine, ConditionalEngine
from chiasma.sampling.optimise import as_optima
from chiasma.sampling.pilot import decide, saves_a_table
from chiasma.sampling.plan import EXACT_SECONDS, Plan, as_budget, check_evidence, larger_blocks
from chiasma.sampling.problems import LearningProblem, PathProblem, Problem, Start, pose
from chiasma.sampling.progress import Progress
from chiasma.sampling.remote import RemoteRun, check_client
from chiasma.sampling.running import Run, WorkClock
from chiasma.sampling.streams import Streams, fresh_entropy
from chiasma.sampling.updates import Collapsed, Exact, Jumps, Update
from chiasma.sampling.vector_engine import VectorEngine
from chiasma.sampling.vector_exchanges import BalancedCrossover
from chiasma.sampling.vector_problem import VectorProblem, pose_vectors
from chiasma.storage.locks import one_writer
from chiasma.storage.opening import open_posterior, reopen_store, stored_seed
from chiasma.storage.reading import RunLayout
from chiasma.storage.store import ZarrTrace, check_new, draws_per_chunk, save_run
from chiasma.storage.trace import Draws, MemoryTrace, Trace
from chiasma.types import Floats, Integers, Seed, as_count

Model = FactorialHMM | Density

# Updates of parameters with the paths integrated out.
LEARNING_ENGINES: dict[type[Update | None], type[Engine]] = {Exact: CollapsedEngine, Collapsed: GradientEngine}


@hinted
@one_writer
def sample(
    model: Model,
    data: Observations | npt.ArrayLike | None = None,
    *,
    update: str | Update = "auto",
    exchange: str | Exchange | None = "auto",
    ladder: str | Sequence[float] | Floats | Ladder = "auto",
    exchange_every: int = 1,
    exact_seconds: float = EXACT_SECONDS,
    evidence: bool = False,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    thin: int = 1,
    init: npt.ArrayLike | None = None,
    seed: Seed = None,
    workers: int | None = None,
    store: str | Path | None = None,
    resume: bool = False,
    durable: bool = True,
    progress: bool = True,
    client: Any = None,
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
    seed : a number, a Generator or a SeedSequence. The same seed gives the same draws for any number of workers.
    workers : threads; default: one per core, at most one per chain.
    store : a path for a Zarr store, to which draws are written while sampling; ch.open_posterior reads it.
    resume : continue the run in `store` up to `draws`, as if it had never stopped; starts a new run if there is none.
    durable : sync every write to the disk, so that a power cut loses no more than a kill; False: for scratch stores.
    progress : show what was chosen and how far the run is: bars on a terminal, a line now and then elsewhere.
    client : a dask.distributed.Client whose workers run the chains. Draws equal those of threads, bit for bit on the
        same kind of processor; a worker that is lost costs some seconds. This process writes `store`.

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
    if isinstance(model, FactorialHMM) and data is not None:
        model = model.for_data(data)
    request = validate(
        model, data, update, exchange, ladder, exchange_every, exact_seconds, evidence, draws, warmup, chains, thin,
        init, seed, workers, store, resume, durable, client,
    )  # fmt: skip
    choice = plan_run(request)
    display = Progress(progress, choice.because, request.entropy)
    with WorkClock() as clock:
        choice = pilot(request, choice, display, clock)
        drawn = run(request, choice, build(request, choice), display, clock)
    del choice  # of many columns it is large, and so is a store that is opened
    return assemble(request, drawn)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for, checked."""

    model: Model
    data: Observations | npt.ArrayLike | None
    update: Any
    exchange: Any
    ladder: Any
    init: Any
    exchange_every: int
    exact_seconds: float
    evidence: Any
    draws: int
    warmup: int
    chains: int
    thin: int
    entropy: int
    workers: int
    store: Path | None
    resumes: bool  # there is a run to continue
    durable: bool
    client: Any


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """How the request is carried out."""

    problem: Problem
    plan: Plan
    start: Start  # as it was given
    starts: tuple[Start, ...]  # of every chain
    warmup: int  # iterations that are left of it
    seconds: float | None = None  # that the pilot took

    @property
    def because(self) -> str:
        trial = self.plan.trial
        return self.plan.reason if trial is None else f"a pilot chooses the update: {trial.because}"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What the chains have drawn."""

    name: str  # of the states
    trace: Trace
    betas: Floats
    tallies: Sequence[Tally]
    about: dict[str, Any]
    timings: dict[str, float]
    save: Callable[[str | Path], None] | None


def validate(
    model: Any, data: Any, update: Any, exchange: Any, ladder: Any, exchange_every: int, exact_seconds: float,
    evidence: Any, draws: int, warmup: int, chains: int, thin: int, init: Any, seed: Seed, workers: int | None,
    store: str | Path | None, resume: bool, durable: bool, client: Any = None,
) -> Request:  # fmt: skip
    """Check what does not depend on the model; whether a store is new is checked before anything is computed."""
    as_count("chains", chains, most=MOST_CHAINS)
    counts = {"draws": draws, "thin": thin, "exchange_every": exchange_every}
    for name, number in (counts if workers is None else counts | {"workers": workers}).items():
        as_count(name, number)
    as_count("warmup", warmup, least=0)
    if client is not None:
        check_client(client)
    path = None if store is None else Path(store)
    resumes = path is not None and resume and path.exists()
    return Request(
        model=model, data=data, update=update, exchange=exchange, ladder=ladder, init=init,
        exchange_every=exchange_every, exact_seconds=as_budget(exact_seconds), evidence=evidence,
        draws=draws, warmup=warmup, chains=chains, thin=thin,
        entropy=stored_seed(path) if path is not None and resumes and seed is None else fresh_entropy(seed),
        workers=min(workers or os.cpu_count() or 1, chains), store=path, resumes=resumes, durable=durable,
        client=client,
    )  # fmt: skip


def plan_run(request: Request) -> PlannedRun:
    """Pose the problem and choose update, exchange and ladder."""
    model, moves = request.model, (request.update, request.exchange, request.ladder, request.init)
    if isinstance(model, Density):
        problem, plan, start = pose_vectors(model, request.data, *moves)
    else:
        problem, plan, start = pose(model, request.data, *moves, request.exact_seconds, request.evidence)
    check_evidence(plan, request.evidence, has_proper_prior(model))
    if request.store is not None and not request.resumes:
        check_new(request.store)
    starts = (start,) * request.chains
    return PlannedRun(problem=problem, plan=plan, start=start, starts=starts, warmup=request.warmup)


def pilot(request: Request, choice: PlannedRun, display: Progress, clock: WorkClock) -> PlannedRun:
    """Let short runs choose the update, or learn its jumps, if the plan leaves that to them."""
    began, plan, problem = clock(), choice.plan, choice.problem
    states: list[Integers] = []
    left = choice.warmup
    given = request.entropy, request.chains
    if plan.trial is not None:
        assert isinstance(problem, PathProblem)
        # A run that is continued may ask for more draws and must not decide otherwise, hence by the warm-up.
        iterations = request.chains * (2 * request.warmup or request.draws * request.thin)
        if saves_a_table(problem.target, plan, iterations):
            problem = PathProblem(replace(problem.target, table_bytes=0), problem.update, None)
        with closing(display):
            plan, problem, states, left = decide(problem, plan, *given, left, request.workers, display)
        display.tell(plan.reason)
    if isinstance(plan.update, Jumps) and plan.update.differences is None:
        with closing(display):
            jumps, states, left = learn_jumps(problem, plan.update, *given, left, request.workers, display)
        plan = replace(plan, update=jumps, reason=f"{plan.reason}; {jumps.differences} learned from {SCOUTS} scouts")
        problem.update = jumps  # type: ignore[attr-defined]  # learn_jumps takes problems that have one
    if not states:
        return replace(choice, problem=problem, plan=plan, warmup=left)
    starts = list(choice.starts)
    if choice.start.states is None:
        starts[: len(states)] = [Start(own) for own in states[: len(starts)]]
    return replace(choice, problem=problem, plan=plan, starts=tuple(starts), warmup=left, seconds=clock() - began)


def build(request: Request, choice: PlannedRun) -> list[Engine]:
    """One engine per chain, each with its own start and its own streams of random numbers."""
    problem, plan = choice.problem, choice.plan
    kind: type[Engine]
    if isinstance(problem, LearningProblem):
        kind = LEARNING_ENGINES.get(type(plan.update), ConditionalEngine)
    elif isinstance(problem, VectorProblem):
        kind = VectorEngine
    else:
        assert isinstance(problem, PathProblem)
        kind = ExactEngine if plan.is_exact else path_engine(problem, plan.ladder.betas)
    every = request.exchange_every if plan.exchange is not None else 0
    return [
        kind(problem, plan.ladder.betas, every, Streams(request.entropy, chain), start)
        for chain, start in enumerate(choice.starts)
    ]


def run(request: Request, choice: PlannedRun, engines: list[Engine], display: Progress, clock: WorkClock) -> Drawn:
    """Warm the chains up, or take them from the store, and keep their draws."""
    plan, about, path = choice.plan, describe_run(request, choice), request.store
    trace: Trace | None = None
    if path is not None and request.resumes:
        trace = reopen_store(path, about, request.draws, request.durable)
    kind = Run if request.client is None else partial(RemoteRun, request.client)
    with kind(engines, request.workers, display, clock) as chains:
        if choice.seconds is not None:
            chains.timings["pilot"] = choice.seconds
        log_evidence = chains.prepare()
        if not plan.is_exact and (trace is None or not trace.all_began):
            if trace is not None:
                display.say("not all chains had stored draws when the run stopped: it warms up again")
            chains.warm_up(choice.warmup, plan.ladder)
        if trace is None:
            trace = new_trace(request, choice.problem, about, chains, log_evidence)
        trace.time_by(chains.elapsed)
        trace.restore(engines)
        if request.resumes and min(trace.filled):
            display.resume(min(trace.filled), request.draws)
        chains.keep(trace, request.draws, request.thin)
        trace.finish(engines)
    timings, save = dict(chains.elapsed()), None
    if isinstance(trace, MemoryTrace):
        parts = store_parts(request, choice.problem, about, engines[0], Draws(*(part[0] for part in trace.draws)))
        save = partial(save_run, *parts, about, trace, timings)
    return Drawn(
        name=choice.problem.name,
        trace=trace,
        betas=engines[0].betas,
        tallies=[engine.tally for engine in engines],
        about=about,
        timings=timings,
        save=save,
    )


def assemble(request: Request, drawn: Drawn) -> Posterior:
    """The posterior of the draws, opened from the store where they are in one."""
    if request.store is not None:
        return open_posterior(request.store, model=request.model)
    trace = drawn.trace
    assert isinstance(trace, MemoryTrace)
    return assembly.assemble(
        draws=partial(per_draw, drawn.name, trace.draws.states, "site"),
        log_prior=trace.draws.log_prior,
        log_lik=trace.draws.log_lik,
        values=trace.draws.values,
        work=trace.draws.work,
        betas=drawn.betas,
        tallies=drawn.tallies,
        exact_evidence=trace.log_evidence,
        info=run_info(drawn.about, drawn.timings),
        model=request.model,
        data=_observations(request),
        save=drawn.save,
    )


def _observations(request: Request) -> Observations | None:
    return None if request.data is None else Observations.of(request.data)


def _larger(problem: Problem, plan: Plan) -> int | None:
    """Rows of larger blocks that a warning may name."""
    if plan.update is None:
        return None
    assert isinstance(problem, PathProblem | LearningProblem)
    target = problem.learning.typical if isinstance(problem, LearningProblem) else problem.target
    return larger_blocks(target, plan.update)


def has_proper_prior(model: Model) -> bool:
    """Whether the prior is a distribution; without one there is no evidence."""
    return not isinstance(model, Density) or model.has_proper_prior


def describe_run(request: Request, choice: PlannedRun) -> dict[str, Any]:
    """Everything that the draws depend on, and how it was chosen, as plain JSON."""
    model, plan, update, ladder = request.model, choice.plan, choice.plan.update, choice.plan.ladder
    return {
        "model": describe_model(model),
        "data": describe_data(_observations(request)),
        "run": {
            "exchange_every": request.exchange_every,
            "warmup": request.warmup,
            "chains": request.chains,
            "thin": request.thin,
            "seed": request.entropy,
            "update": None if update is None else repr(update),
            "exchange": None if plan.exchange is None else repr(plan.exchange),
            "ladder": {"betas": list(ladder.betas), "adapt": ladder.adapt, "resize": ladder.resize},
            "init": choice.start.describe(),
        },
        "plan": plan.reason,
        "follows_swaps": isinstance(plan.exchange, BalancedCrossover) or plan.exchange == Swap(),
        "independent": plan.is_exact,
        "proper_prior": has_proper_prior(model),
        "n_rows": model.n_rows if isinstance(model, FactorialHMM) else None,
        "row_sizes": model.layout.sizes.tolist() if isinstance(model, FactorialHMM) else None,
        "row_names": model.row_names if isinstance(model, FactorialHMM) else None,
        **(_for_other_programs(model) if isinstance(model, FactorialHMM) else {}),
        "versions": versions(),
        "update_kind": None if update is None else type(update).__name__,
        "update_named": not (isinstance(request.update, str) and request.update == "auto"),
        "larger_blocks": _larger(choice.problem, plan),
        "starts": update.starts if isinstance(update, Collapsed) else None,
        "one_start": not plan.is_exact and (choice.start.states is not None or bool(choice.start.values)),
    }


def _for_other_programs(model: FactorialHMM) -> dict[str, Any]:
    """What programs without chiasma need to read a store: the bits of every row, and the columns of `parameters`."""
    return {
        "row_shifts": model.layout.shifts.tolist(),
        "row_masks": model.layout.masks.tolist(),
        "parameter_names": model.parameters.value_names(),
    }


def new_trace(
    request: Request, problem: Problem, about: dict[str, Any], chains: Run, log_evidence: float | None
) -> Trace:
    """A new trace for the draws, in memory or in a store."""
    engine, n_chains = chains.engines[0], len(chains.engines)
    empty = engine.record(engine.empty_draws(0, thin=0))
    if isinstance(problem, LearningProblem) and problem.peaks is not None:
        about["optima"] = as_optima(problem.learning, problem.peaks, about["starts"]).to_dict()
    if request.store is None:
        return MemoryTrace(n_chains, request.draws, empty, log_evidence)
    layout, static = store_parts(request, problem, about, engine, empty)
    return ZarrTrace.create(request.store, layout, static, about, log_evidence, request.durable, chains.elapsed)


def store_parts(
    request: Request, problem: Problem, about: dict[str, Any], engine: Engine, empty: Draws
) -> tuple[RunLayout, dict[str, tuple[npt.NDArray[Any], str]]]:
    """The layout of a store, and its arrays of fixed size, each with the names of its dimensions."""
    n_replicas = len(engine.betas)
    layout = RunLayout(
        name=problem.name,
        n_chains=request.chains,
        n_draws=request.draws,
        n_sites=problem.n_sites,
        n_replicas=n_replicas,
        dtype=np.dtype(problem.record_dtype).name,
        n_rows=about["n_rows"] or 0,
        chunk_draws=draws_per_chunk(problem.n_sites, n_replicas, problem.record_dtype, engine.piece()),
        n_values=empty.values.shape[1],
        n_pairs=empty.work.shape[1],
    )
    static: dict[str, tuple[npt.NDArray[Any], str]] = {"beta": (engine.betas, "replica")}
    data = _observations(request)
    if data is not None:
        static["y"] = (data.y, "site" if data.y.ndim == 1 else "site channel")
        static["starts"] = (data.starts, "sequence")
        if data.gaps is not None and len(data.gaps):
            static["gaps"] = (data.gaps, "gap")
        if data.known:
            static["known"] = (data.known_array.T, "site labelled")
    return layout, static
