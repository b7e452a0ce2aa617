"""The pilot: short runs that choose the size of blocks, and whether a ladder helps, before warm-up goes on.

A few chains start in different places, draws from the prior, and every candidate advances them from the same states by
the same work. What is compared is the disagreement of the chains: the mean over rows, states and columns of the
standard deviation, between chains, of the share of time in a state. It estimates the error of the marginals that this
much work leaves, and chains that sit in different modes for good keep it high. Equal rows are one axis of counts here,
so their labels play no part.

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
from chiasma.sampling.engines import CompiledEngine, StateEngine, StepEngine
from chiasma.sampling.exchanges import MosaicCrossover
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.plan import Plan
from chiasma.sampling.problems import CodesProblem, Start
from chiasma.sampling.streams import Streams
from chiasma.sampling.updates import BlockGibbs, GaussianBlocks
from chiasma.types import Floats, Integers

# Share of the warm-up of all chains that the pilot may take.
SHARE = 0.5
# Chains of the pilot, and the least number of iterations of a candidate.
FEWEST_CHAINS, MOST_CHAINS = 2, 4
FEWEST_ITERATIONS, MOST_ITERATIONS = 4, 400
# A ladder is tried where chains are stuck: where the variance between chains is so many times what each of them shows
# within itself. It is taken where it makes the disagreement smaller by a factor.
STUCK = 2.0
GAIN = 0.8
# Temperatures of the ladders that are tried: a few rungs, for crossovers. A complete one serves the evidence only.
LADDERS = ((1.0, 5.0), (1.0, 3.0, 9.0, 27.0))
# Nanoseconds per column of a block of n joint states, and per block, about. They are constants, so that a plan does not
# depend on the machine.
FUSED, TABULATED, STREAMED, STATES = (45.0, 1.2, 2e3), (60.0, 5.0, 1e3), (60.0, 12.0, 1e5), (100.0, 10.0, 1e5)
# The same of an exchange between two replicas.
EXCHANGE = (60.0, 1e5)
# Numbers of chains that no run has, for the random streams.
FIRST_CHAIN = 2**30
# States that are kept at a time while a candidate runs, and columns that are compared.
PIECE = 32
COLUMNS = 2_000
# Nanoseconds per entry of a table of likelihoods.
TABLE = 15.0


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A candidate and how it did."""

    plan: Plan
    iterations: int
    disagreement: float
    stuck: float  # variance between chains over the same from halves of chains
    states: list[Integers]  # (T,) where the cold replica of every chain ended


def work_of(target: AnyTarget, plan: Plan) -> float:
    """Modelled nanoseconds of one iteration of a plan, all replicas together."""
    update = plan.update
    assert isinstance(update, BlockGibbs | GaussianBlocks)
    if isinstance(update, GaussianBlocks):
        per_column, per_state, per_block = FUSED
    elif isinstance(target, StateTarget):
        per_column, per_state, per_block = STATES
    else:
        per_column, per_state, per_block = TABULATED if target.tabulated else STREAMED
    width = 1 << update.size if not isinstance(target, StateTarget) else typical_width(target, update.size)
    n_blocks = math.ceil(target.n_axes / update.size)
    sweep = n_blocks * (per_block + target.n_columns * (per_column + per_state * width))
    n_replicas = len(plan.ladder)
    per_exchange = EXCHANGE[0] * target.n_columns + EXCHANGE[1]
    return n_replicas * sweep + (n_replicas - 1) / 2 * per_exchange


def saves_a_table(target: AnyTarget, plan: Plan, iterations: int) -> bool:
    """Whether computing likelihoods on demand in so many iterations, of all chains, takes less than a table of them."""
    if isinstance(target, StateTarget) or not target.tabulated or not isinstance(plan.update, BlockGibbs):
        return False
    on_demand = work_of(replace(target, table_bytes=0), plan) - work_of(target, plan)
    return iterations * on_demand < TABLE * target.n_columns * target.n_states


def _takes_all(target: AnyTarget, plan: Plan) -> bool:
    """Whether one block holds all rows: draws are independent."""
    assert isinstance(plan.update, BlockGibbs | GaussianBlocks)
    return plan.update.size == target.n_axes


def typical_width(target: StateTarget, size: int) -> float:
    """Joint states of a typical block."""
    return math.exp(size * math.log(target.n_states) / target.n_axes)


def decide(
    problem: CodesProblem[Any], plan: Plan, entropy: int, chains: int, warmup: int, workers: int
) -> tuple[Plan, list[Integers], int]:
    """The plan that the pilot chooses, states (T,) to start chains from, and what is left of the warm-up.

    plan : one with a trial; its update is the candidate that all begin with.
    """
    assert plan.trial is not None
    target, trial = problem.target, plan.trial
    if len(trial.updates) == 1 and _takes_all(target, plan):
        return replace(plan, trial=None), [], warmup
    n_chains = min(max(chains, FEWEST_CHAINS), MOST_CHAINS)
    budget = SHARE * chains * warmup * work_of(target, plan) / n_chains
    first = [replace(plan, update=update, reason=reason) for update, reason in trial.updates]
    n_stages = 1 + len(first) + (len(LADDERS) if trial.ladders else 0)
    work = budget / n_stages
    if work < FEWEST_ITERATIONS * max(work_of(target, one) for one in first):
        return replace(plan, reason=f"{plan.reason}; the warm-up is too short for a pilot", trial=None), [], warmup
    with ThreadPoolExecutor(workers) as pool:
        run = Pilot(problem, entropy, n_chains, work, pool)
        begun = run.advance(plan, [problem.initial(streams.initial(0)) for streams in run.streams])
        tried = [run.advance(one, begun.states) for one in first]
        best = min(tried, key=lambda one: one.disagreement)
        if trial.ladders and best.stuck > STUCK and not _takes_all(target, best.plan):
            hot = [run.advance(_with_ladder(best.plan, temperatures), begun.states) for temperatures in LADDERS]
            tried += hot
            hottest = min(hot, key=lambda one: one.disagreement)
            if hottest.disagreement < GAIN * best.disagreement:
                best = hottest
    spent = sum(one.iterations * work_of(target, one.plan) for one in [begun, *tried]) * n_chains
    left = warmup - math.ceil(spent / (chains * work_of(target, plan)))
    found = ", ".join(f"{one.disagreement:.3f} with {one.plan.reason}" for one in tried)
    reason = (
        f"{best.plan.reason}: {n_chains} chains of a pilot disagree least at equal work ({found}); {trial.because}; "
        "no evidence (ask for it with evidence=True)"
    )
    return replace(best.plan, reason=reason, trial=None), best.states, max(left, 0)


def _with_ladder(plan: Plan, temperatures: Sequence[float]) -> Plan:
    return replace(
        plan,
        exchange=MosaicCrossover(),
        ladder=Ladder.of(temperatures),
        reason=f"{plan.reason} and {len(temperatures)} rungs, MosaicCrossover exchanges",
    )


class Pilot:
    """Chains that every candidate advances by the same work."""

    def __init__(self, problem: CodesProblem[Any], entropy: int, n_chains: int, work: float, pool: ThreadPoolExecutor):
        self.problem = problem
        self.streams = [Streams(entropy, FIRST_CHAIN + i) for i in range(n_chains)]
        self.work = work
        self.pool = pool

    def advance(self, plan: Plan, states: Sequence[Integers]) -> Tried:
        """Run a candidate from the given states of the chains."""
        assert plan.update is not None
        own = type(self.problem)(self.problem.target, plan.update, plan.exchange)
        half = int(self.work / work_of(self.problem.target, plan)) // 2
        half = min(max(half, FEWEST_ITERATIONS // 2), MOST_ITERATIONS // 2)

        def one(chain: int) -> tuple[Floats, Integers]:
            kind: type[StateEngine] = CompiledEngine if CompiledEngine.serves(own) else StepEngine
            every = 1 if plan.exchange is not None else 0
            engine = kind(own, plan.ladder.betas, every, self.streams[chain], Start(states[chain]))
            halves = mean_states(engine, half), mean_states(engine, half)
            return np.array(halves), engine.states[-1].copy()

        found = list(self.pool.map(one, range(len(states))))
        halves = np.array([halves for halves, _ in found])  # (chain, half, row and state, column)
        between = np.var(halves.mean(axis=1), axis=0, ddof=1)
        within = np.mean((halves[:, 0] - halves[:, 1]) ** 2) / 4
        return Tried(
            plan=plan,
            iterations=2 * half,
            disagreement=float(np.mean(np.sqrt(between))),
            stuck=float(between.mean() / max(within, 1e-12)),
            states=[state for _, state in found],
        )


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
