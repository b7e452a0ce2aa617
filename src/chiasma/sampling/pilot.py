"""The pilot: short runs that choose the size of blocks, and whether a ladder helps, before warm-up goes on.

A few chains start in different places, draws from the prior, and every candidate advances them from the same states by
the same work. Two numbers tell how it did. The disagreement of the chains is the mean over rows, states and columns of
the standard deviation, between chains, of the share of time in a state: the error that so much work leaves. The
slowness is the variance between chains over what the two halves of each chain say it is. It is 1 for chains that
forget where they began within a trial; for others it is about the number of trials that they need to forget. Later
errors fall with the root of the work divided by the slowness, so candidates are compared by

    score = disagreement * sqrt(slowness * work / work of a trial).

A trial is short, and its score uncertain. Leaving out one stretch of columns after the other tells how much (the
jackknife). Blocks of the default size are near the best on all problems that were measured, so they stay unless
another candidate is better by more than the standard error of the comparison:

- smaller blocks, where chains that have them are not stuck (slowness up to STUCK): too small blocks can be slower
  by any factor, too large ones cost what they cost;
- where chains with the default are stuck, larger blocks, and ladders with mosaic crossovers that make the score
  smaller by the factor GAIN.

Equal rows are one axis of counts here, so their labels play no part.

Decisions must not depend on the machine: work is counted by a model of the cost of an iteration, in nanoseconds of the
machine on which its constants were measured, and not by a clock. Pilot chains have random streams of their own, so
the number of workers does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chiasma.kernels.layout import unpack_codes
from chiasma.models.state_target import AnyTarget, StateTarget
from chiasma.sampling.engines import StateEngine
from chiasma.sampling.exchanges import MosaicCrossover
from chiasma.sampling.gaussian_engine import state_engine
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.plan import Plan
from chiasma.sampling.problems import CodesProblem, Start
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams
from chiasma.sampling.updates import BlockGibbs, GaussianBlocks
from chiasma.types import Floats, Integers

# The work of a trial, as a share of that of the warm-up of all chains. There are three of them, counting the one that all
# begin with, and three more where chains are stuck.
SHARE = 1 / 8
# Chains of the pilot, and the least number of iterations of a candidate.
FEWEST_CHAINS, MOST_CHAINS = 2, 4
FEWEST_ITERATIONS, MOST_ITERATIONS = 4, 1000
# Stretches of columns that are left out in turn.
STRETCHES = 12
# Chains are stuck where the slowness is above this. Ladders are taken where they make the score smaller by a factor.
STUCK = 2.0
GAIN = 0.8
# Temperatures of the ladders that are tried: a few rungs, for crossovers. A complete one serves the evidence only.
LADDERS = ((1.0, 5.0), (1.0, 3.0, 9.0, 27.0))
# Hot replicas move by small steps: rows of a block on a ladder. Tables for it may take so much of the warm-up.
LADDER_ROWS = 3
TABLE_SHARE = 1 / 4
# Nanoseconds per column of a block, per column and joint state of it, and per block, about. They are constants, so that
# a plan does not depend on the machine.
FUSED, TABULATED, STREAMED, STATES = (55.0, 1.7, 2e3), (60.0, 5.0, 1e3), (60.0, 12.0, 1e5), (100.0, 10.0, 6e4)
# The same of an exchange between two replicas, in the compiled loop and in Python; and of a sweep that Python calls.
EXCHANGE, LOOPED_EXCHANGE = (60.0, 1e3), (60.0, 1e5)
CALL = 5e4
# Numbers of chains that no run has, for the random streams.
FIRST_CHAIN = 2**30
# States that are kept at a time while a candidate runs, and columns that are compared.
PIECE = 32
COLUMNS = 2_000
# Nanoseconds per entry of a table of likelihoods.
TABLE = 15.0
# Shares of time that are as good as equal.
TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A candidate and how it did."""

    plan: Plan
    iterations: int
    slowness: float  # variance between chains over the same from halves of chains
    score: float  # what the disagreement would be after the same, much longer work: the less the better
    log_error: float  # standard error of the logarithm of the score
    states: list[Integers]  # (R, T) where the replicas of every chain ended

    def beats(self, other: Tried) -> bool:
        """Whether the score is smaller by more than the standard error of the comparison."""
        return math.log(other.score / self.score) > math.hypot(self.log_error, other.log_error)


def work_of(target: AnyTarget, plan: Plan) -> float:
    """Modelled nanoseconds of one iteration of a plan, all replicas together."""
    update, n_replicas = plan.update, len(plan.ladder)
    assert isinstance(update, BlockGibbs | GaussianBlocks)
    per_column, per_state, per_block = _cost(target, update)
    sweep = sum(
        per_block + target.n_columns * (per_column + per_state * _width(target, size))
        for size in update.block_sizes(target)
    )
    if isinstance(update, GaussianBlocks):
        compiled = n_replicas == 1
    else:
        compiled = not isinstance(target, StateTarget) and target.tabulated
    per_site, per_exchange = EXCHANGE if compiled else LOOPED_EXCHANGE
    exchanges = (n_replicas - 1) / 2 * (per_site * target.n_columns + per_exchange)
    return n_replicas * (sweep + (0.0 if compiled else CALL)) + exchanges


def _cost(target: AnyTarget, update: BlockGibbs | GaussianBlocks) -> tuple[float, float, float]:
    if isinstance(update, GaussianBlocks):
        return FUSED
    if isinstance(target, StateTarget):
        return STATES
    return TABULATED if target.tabulated else STREAMED


def _width(target: AnyTarget, size: int) -> float:
    """Joint states of a block of so many rows, or of a typical one where rows differ."""
    return typical_width(target, size) if isinstance(target, StateTarget) else 1 << size


def saves_a_table(target: AnyTarget, plan: Plan, iterations: int) -> bool:
    """Whether computing likelihoods on demand in so many iterations, of all chains, takes less than a table of them."""
    if isinstance(target, StateTarget) or not target.tabulated or not isinstance(plan.update, BlockGibbs):
        return False
    on_demand = work_of(replace(target, table_bytes=0), plan) - work_of(target, plan)
    return iterations * on_demand < TABLE * target.n_columns * target.n_states


def _takes_all(target: AnyTarget, plan: Plan) -> bool:
    """Whether rows of different blocks are independent: then draws are."""
    assert isinstance(plan.update, BlockGibbs | GaussianBlocks)
    return plan.update.size >= plan.update.largest(target)


def typical_width(target: StateTarget, size: int) -> float:
    """Joint states of a typical block."""
    return math.exp(size * math.log(target.n_states) / target.n_axes)


def decide(
    problem: CodesProblem[Any],
    plan: Plan,
    entropy: int,
    chains: int,
    warmup: int,
    workers: int,
    display: Progress,
) -> tuple[Plan, list[Integers], int]:
    """The plan that the pilot chooses, states (R, T) to start chains from, and what is left of the warm-up.

    plan : one with a trial; its update is the candidate that all begin with.
    """
    assert plan.trial is not None
    target, trial = problem.target, plan.trial
    if len(trial.updates) == 1 and _takes_all(target, plan):
        return replace(plan, trial=None), [], warmup
    n_chains = min(max(chains, FEWEST_CHAINS), MOST_CHAINS)
    whole = chains * warmup * work_of(target, plan)
    work = SHARE * whole / n_chains
    first = [replace(plan, update=update, reason=reason) for update, reason in trial.updates]
    if work < FEWEST_ITERATIONS * work_of(target, plan):
        return replace(plan, reason=f"{plan.reason}; the warm-up is too short for a pilot", trial=None), [], warmup
    with ThreadPoolExecutor(workers) as pool:
        run = Pilot(problem, entropy, n_chains, pool, display)
        display.begin("pilot", 1 + len(first))
        begun = run.advance(plan, [problem.initial(streams.initial(0)) for streams in run.streams], work)
        cold = [states[-1] for states in begun.states]
        tried = [run.advance(one, cold, work) for one in first]
        best = next(one for one in tried if one.plan.update == plan.update)
        if best.slowness > STUCK and not _takes_all(target, best.plan):
            larger = [replace(plan, update=update, reason=reason) for update, reason in trial.larger]
            hot = [_with_ladder(_hot(target, first[0], whole), one) for one in LADDERS] if trial.ladders else []
            affordable = [one for one in [*larger, *hot] if work >= FEWEST_ITERATIONS * work_of(target, one)]
            display.begin("pilot where chains are stuck", len(affordable))
            tried += [run.advance(one, cold, work) for one in affordable]
        for one in tried:
            best = one if _preferred(one, best) else best
    spent = sum(one.iterations * work_of(target, one.plan) for one in [begun, *tried]) * n_chains
    left = warmup - math.ceil(spent / (chains * work_of(target, plan)))
    found = ", ".join(f"{one.score:.3f} with {one.plan.reason}" for one in tried)
    reason = (
        f"{best.plan.reason}: chosen by a pilot of {n_chains} chains (their disagreement at equal work times the root "
        f"of their slowness: {found}); {trial.because}; no evidence (ask for it with evidence=True)"
    )
    return replace(best.plan, reason=reason, trial=None), best.states, max(left, 0)


def _preferred(one: Tried, best: Tried) -> bool:
    """Whether a candidate takes the place of the best so far."""
    if len(one.plan.ladder) > len(best.plan.ladder) == 1 and not one.score < GAIN * best.score:
        return False
    smaller = _rows(one.plan) < _rows(best.plan) and len(one.plan.ladder) == 1
    return one.beats(best) and not (smaller and one.slowness > STUCK)


def _rows(plan: Plan) -> int:
    assert isinstance(plan.update, BlockGibbs | GaussianBlocks)
    return plan.update.size


def _hot(target: AnyTarget, smallest: Plan, whole: float) -> Plan:
    """Blocks for a ladder: from tables in the compiled loop, where tables of all rungs take little of the warm-up."""
    if isinstance(target, StateTarget) or not target.tabulated:
        return smallest
    # For the trials and for the run.
    tables = 2 * TABLE * target.n_columns * target.n_states * (1 + max(map(len, LADDERS)))
    if tables > TABLE_SHARE * whole:
        return smallest
    size = min(LADDER_ROWS, target.n_axes)
    return replace(smallest, update=BlockGibbs(size=size), reason=f"blocks of {size} rows")


def _with_ladder(plan: Plan, temperatures: Sequence[float]) -> Plan:
    return replace(
        plan,
        exchange=MosaicCrossover(),
        ladder=Ladder.of(temperatures),
        reason=f"{plan.reason} and {len(temperatures)} rungs, MosaicCrossover exchanges",
    )


class Pilot:
    """Chains that every candidate advances by the same work."""

    def __init__(
        self, problem: CodesProblem[Any], entropy: int, n_chains: int, pool: ThreadPoolExecutor, display: Progress
    ):
        self.problem = problem
        self.streams = [Streams(entropy, FIRST_CHAIN + i) for i in range(n_chains)]
        self.pool = pool
        self.display = display

    def advance(self, plan: Plan, states: Sequence[Integers], work: float) -> Tried:
        """Run a candidate from the given states (T,) of the chains, all replicas of a chain from the same."""
        assert plan.update is not None
        own = type(self.problem)(self.problem.target, plan.update, plan.exchange)
        half = int(work / work_of(self.problem.target, plan)) // 2
        half = min(max(half, FEWEST_ITERATIONS // 2), MOST_ITERATIONS // 2)

        def one(chain: int) -> tuple[Floats, Integers]:
            kind = state_engine(own, plan.ladder.betas)
            every = 1 if plan.exchange is not None else 0
            engine = kind(own, plan.ladder.betas, every, self.streams[chain], Start(states[chain]))
            halves = mean_states(engine, half), mean_states(engine, half)
            return np.array(halves), engine.states.copy()

        found = list(self.pool.map(one, range(len(states))))
        self.display.tick()
        halves = np.array([halves for halves, _ in found])  # (chain, half, row and state, column)
        slowness, score, log_error = compare(halves)
        spent = 2 * half * work_of(self.problem.target, plan) / work
        return Tried(
            plan=plan,
            iterations=2 * half,
            slowness=slowness,
            score=score * math.sqrt(spent),
            log_error=log_error,
            states=[state for _, state in found],
        )


def compare(halves: Floats) -> tuple[float, float, float]:
    """The slowness of chains, their score, and the standard error of its logarithm.

    halves (chain, half, row and state, column): shares of time in a state, in the two halves of every chain.
    """
    between = np.var(halves.mean(axis=1), axis=0, ddof=1)
    within = np.mean((halves[:, 0] - halves[:, 1]) ** 2, axis=0) / 4
    stretches = np.array_split(np.arange(between.shape[1]), min(STRETCHES, between.shape[1]))
    sums = np.array([[np.sum(part[:, own]) for own in stretches] for part in (np.sqrt(between), between, within)])
    sizes = between.shape[0] * np.array([len(own) for own in stretches])

    def evaluate(sums: Floats, size: Any) -> tuple[Any, Any]:
        disagreement, slowness = sums[0] / size, sums[1] / np.maximum(sums[2], TINY)
        return slowness, np.maximum(disagreement * np.sqrt(np.maximum(slowness, 1.0)), TINY)

    slowness, score = evaluate(sums.sum(axis=1), sizes.sum())
    # The score without one stretch after the other.
    _, without = evaluate(sums.sum(axis=1, keepdims=True) - sums, sizes.sum() - sizes + (len(sizes) == 1))
    log_error = math.sqrt((len(sizes) - 1) * float(np.var(np.log(without))))
    return float(slowness), float(score), log_error


def mean_states(engine: StateEngine, n: int) -> Floats:
    """(sum of S_k - 1, T): share of n iterations that every row spends in every state but the first.

    Of COLUMNS columns at most, evenly spaced.
    """
    target = engine.problem.target  # type: ignore[attr-defined]  # of codes
    layout, n_columns = target.layout, engine.states.shape[1]
    columns = np.linspace(0, n_columns - 1, min(n_columns, COLUMNS)).round().astype(int)
    total = np.zeros((int(np.sum(layout.sizes - 1)), len(columns)))
    done = 0
    while done < n:
        states = unpack_codes(engine.advance(min(PIECE, n - done), thin=1).states[:, columns], layout)
        done += len(states)
        place = 0
        for k, size in enumerate(layout.sizes):
            for s in range(1, int(size)):
                total[place] += np.count_nonzero(states[:, k] == s, axis=0)
                place += 1
    return np.asarray(total / n)
