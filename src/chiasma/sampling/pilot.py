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

- smaller blocks, where chains mix with them (slowness below MIXING): too small blocks can be
  slower by any factor, too large ones cost what they cost;
- where chains with the default are stuck, larger blocks and jumps along the differences between chains; and where they
  are stuck with these, too, ladders with mosaic crossovers that make the score smaller by the factor GAIN.

The slowness of chains that have not mixed is a rough guess. If the best two candidates are close
then, both go on for longer.

Equal rows are one axis of counts here, so their labels play no part.

Decisions must not depend on the machine: work is counted by a model of the cost of an iteration, in nanoseconds of the
machine on which its constants were measured, and not by a clock. Pilot chains have their own random streams, so
the number of workers does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from chiasma.kernels.layout import unpack_codes
from chiasma.models.target import Target
from chiasma.sampling.differences import Differences, find_differences
from chiasma.sampling.engines import PathEngine, path_engine
from chiasma.sampling.exchanges import MosaicCrossover
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.plan import TRIED_BYTES, Plan
from chiasma.sampling.problems import PathProblem, Start
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams
from chiasma.sampling.threads import Pool
from chiasma.sampling.updates import BlockGibbs, GaussianBlocks, Jumps
from chiasma.types import Floats, Integers

# The work of a trial, as a share of that of the warm-up of all chains. There are three of them, counting the one that
# all begin with, four more where chains are stuck, and two of twice the work where the best two are close.
SHARE = 1 / 8
# Chains of the pilot, and the least number of iterations of a candidate.
CHAINS = 4
FEWEST_ITERATIONS, MOST_ITERATIONS = 4, 1000
# How often the better candidates are given more weight in the mean that all are compared with.
ROUNDS = 3
# Stretches of columns that are left out in turn.
STRETCHES = 24
# Chains mix where the slowness is below the first of these, and are stuck where it is above the second.
MIXING, STUCK = 1.1, 1.5
# Ladders are taken where they make the score smaller by a factor.
GAIN = 0.8
# Work of the second trial of two candidates that are stuck, and whose scores differ by less than a factor.
FINAL, CLOSE = 2.0, 2.0
# Standard errors by which others have to be better: larger blocks and ladders, and smaller blocks.
LIKELY, SURE = 1.0, 2.0
# Temperatures of the ladders that are tried: a few rungs, for crossovers. A complete one serves the evidence only.
LADDERS = ((1.0, 5.0), (1.0, 3.0, 9.0, 27.0))
# Rows of a block on a ladder, or beside jumps. Tables for them may take so much of the work of the warm-up.
FEW_ROWS = 3
TABLE_SHARE = 1.0
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
    """A candidate, and what its chains did."""

    plan: Plan
    problem: PathProblem
    iterations: int
    spent: float  # work, as a multiple of what a trial is to take
    halves: Floats  # (chain, half, row and state, column): shares of time in a state
    seen: Integers  # (chain, n, T) codes of the cold replicas, some from the second half
    states: list[Integers]  # (R, T) where the replicas of every chain ended


@dataclass(frozen=True, kw_only=True)
class Score:
    """How a candidate did."""

    trial: Tried
    score: float  # what the disagreement would be after the same, much longer work: the less the better
    slowness: float  # the same over the disagreement by now, squared
    log_error: float  # standard error of the logarithm of the score

    def beats(self, other: Score, by: float) -> bool:
        """Whether the score is smaller by more than this many standard errors of the comparison."""
        return math.log(other.score / self.score) > by * math.hypot(self.log_error, other.log_error)


def work_of(target: Target, plan: Plan) -> float:
    """Modelled nanoseconds of one iteration of a plan, all replicas together."""
    update, n_replicas = plan.update, len(plan.ladder)
    assert isinstance(update, BlockGibbs | GaussianBlocks | Jumps)
    per_column, per_state, per_block = _cost(target, update)
    blocks = BlockGibbs(size=update.block_size(target)) if isinstance(update, Jumps) else update
    sweep = sum(
        per_block + target.n_columns * (per_column + per_state * _width(target, size))
        for size in blocks.block_sizes(target)
    )
    if isinstance(update, Jumps):  # a block, twice: with a difference and without
        sweep += per_block + 2 * target.n_columns * (per_column + 2 * per_state * _width(target, blocks.size))
    compiled = n_replicas == 1 if isinstance(update, GaussianBlocks) else target.binary and target.tabulated
    per_site, per_exchange = EXCHANGE if compiled else LOOPED_EXCHANGE
    exchanges = (n_replicas - 1) / 2 * (per_site * target.n_columns + per_exchange)
    return n_replicas * (sweep + (0.0 if compiled else CALL)) + exchanges


def _cost(target: Target, update: BlockGibbs | GaussianBlocks | Jumps) -> tuple[float, float, float]:
    if isinstance(update, GaussianBlocks):
        return FUSED
    if not target.binary:
        return STATES
    return TABULATED if target.tabulated else STREAMED


def _width(target: Target, size: int) -> float:
    """Joint states of a block of this many rows, or of a typical one where rows differ."""
    return 1 << size if target.binary else typical_width(target, size)


def saves_a_table(target: Target, plan: Plan, iterations: int) -> bool:
    """Whether likelihoods on demand, in this many iterations of all chains, take less time than a table of them."""
    if not target.binary or not target.tabulated or not isinstance(plan.update, BlockGibbs):
        return False
    on_demand = work_of(replace(target, table_bytes=0), plan) - work_of(target, plan)
    return iterations * on_demand < TABLE * target.n_columns * target.n_states


def _takes_all(target: Target, plan: Plan) -> bool:
    """Whether rows of different blocks are independent: then draws are."""
    assert isinstance(plan.update, BlockGibbs | GaussianBlocks)
    return plan.update.size >= plan.update.largest(target)


def typical_width(target: Target, size: int) -> float:
    """Joint states of a typical block."""
    return math.exp(size * math.log(target.n_states) / target.n_axes)


class Chosen(NamedTuple):
    """The plan of a pilot, its problem, states (R, T) to start chains from, and what is left of the warm-up."""

    plan: Plan
    problem: PathProblem
    states: list[Integers]
    left: int


def decide(
    problem: PathProblem,
    plan: Plan,
    entropy: int,
    chains: int,
    warmup: int,
    workers: int,
    display: Progress,
) -> Chosen:
    """What the pilot chooses.

    plan : one with a trial; its update is the candidate that all begin with.
    """
    assert plan.trial is not None
    target, trial = problem.target, plan.trial
    if len(trial.updates) == 1 and _takes_all(target, plan):
        return Chosen(replace(plan, trial=None), problem, [], warmup)
    whole = chains * warmup * work_of(target, plan)
    work = SHARE * whole / CHAINS
    first = [replace(plan, update=update, reason=reason) for update, reason in trial.updates]
    if work < FEWEST_ITERATIONS * work_of(target, plan):
        plan = replace(plan, reason=f"{plan.reason}; the warm-up is too short for a pilot", trial=None)
        return Chosen(plan, problem, [], warmup)
    with Pool(workers) as pool:
        run = Pilot(entropy, CHAINS, work, pool, display)
        display.begin("pilot", 1 + len(first))
        begun = run.advance(problem, plan, [problem.target.sample_prior(streams.initial(0)) for streams in run.streams])
        cold = [states[-1] for states in begun.states]
        tried = [run.advance(problem, one, cold) for one in first]
        found = compare(tried)
        spent = [begun, *tried]

        def widen(more: list[tuple[PathProblem, Plan]]) -> list[Score]:
            more = [(own, one) for own, one in more if work >= FEWEST_ITERATIONS * work_of(own.target, one)]
            display.begin("pilot where chains are stuck", len(more))
            tried.extend(run.advance(own, one, cold) for own, one in more)
            spent.extend(tried[len(tried) - len(more) :])
            return compare(tried)

        if _of_default(found, plan).slowness > STUCK and not _takes_all(target, plan):
            tables = PilotTables.of(target, whole)
            larger = [(problem, replace(plan, update=update, reason=reason)) for update, reason in trial.larger]
            found = widen(larger + _with_jumps(problem, first[0], run.differences(tried), tables))
            if trial.ladders and choose(found, plan).slowness > STUCK:
                found = widen([_with_ladder(problem, first[0], temperatures, tables) for temperatures in LADDERS])
            going_on = finalists(found, plan)
            display.begin("pilot, the best two again", len(going_on))
            for one in going_on:
                again = run.go_on(one.trial)
                spent.append(again)
                tried[tried.index(one.trial)] = again
            found = compare(tried)
    best = choose(found, plan)
    used = sum(one.iterations * work_of(one.problem.target, one.plan) for one in spent) * CHAINS
    left = warmup - math.ceil(used / (chains * work_of(target, plan)))
    scores = ", ".join(f"{one.score:.3f} with {one.trial.plan.reason}" for one in found)
    reason = (
        f"{best.trial.plan.reason}: chosen by a pilot of {CHAINS} chains (their disagreement at equal work times the "
        f"root of their slowness: {scores}); {trial.because}; no evidence, which was not asked for"
    )
    chosen = replace(best.trial.plan, reason=reason, trial=None)
    return Chosen(chosen, best.trial.problem, best.trial.states, max(left, 0))


def _of_default(found: Sequence[Score], plan: Plan) -> Score:
    return next(one for one in found if one.trial.plan.update == plan.update)


def choose(found: Sequence[Score], plan: Plan) -> Score:
    """The candidate to take: that of the plan, unless another is preferred."""
    best = _of_default(found, plan)
    for one in found:
        best = one if preferred(one, best) else best
    return best


def finalists(found: Sequence[Score], plan: Plan) -> list[Score]:
    """The chosen candidate and its best rival, if trials were too short for a clear answer, because chains have not yet
    forgotten where they began; else none.
    """
    best = choose(found, plan)
    others = sorted((one for one in found if one is not best), key=lambda one: one.score)
    close = [one for one in others[:1] if one.score < CLOSE * best.score]
    return [best, *close] if best.slowness > STUCK and close else []


def preferred(one: Score, best: Score) -> bool:
    """Whether a candidate takes the place of the best so far."""
    own, other = one.trial.plan, best.trial.plan
    if len(own.ladder) > len(other.ladder) == 1 and not one.score < GAIN * best.score:
        return False
    if isinstance(own.update, BlockGibbs | GaussianBlocks) and len(own.ladder) == 1 and _rows(own) < _rows(other):
        return one.slowness < MIXING and one.beats(best, SURE)
    return one.beats(best, LIKELY)


def _rows(plan: Plan) -> int:
    assert isinstance(plan.update, BlockGibbs | GaussianBlocks | Jumps)
    return plan.update.size


def _with_jumps(
    problem: PathProblem, smallest: Plan, differences: Differences, tables: PilotTables
) -> list[tuple[PathProblem, Plan]]:
    """The candidate that jumps along differences of the chains, if there are any."""
    size = _few_rows(problem.target, smallest)
    plan = replace(
        smallest,
        update=Jumps(size=size, differences=differences),
        reason=f"blocks of {size} rows and jumps along {len(differences.weights)} differences between chains",
    )
    return [(tables.pose(problem, plan), plan)] if differences.weights else []


def _few_rows(target: Target, smallest: Plan) -> int:
    return min(FEW_ROWS, target.n_axes) if target.binary else _rows(smallest)


class PilotTables(NamedTuple):
    """The target with a table of likelihoods and without one; the work of the warm-up of all chains."""

    present: Target
    absent: Target
    n_built: int  # tables that the pilot has by now: the logarithms, and their exponentials at beta = 1
    whole: float

    @classmethod
    def of(cls, target: Target, whole: float) -> PilotTables:
        if not target.binary:
            return cls(target, target, 0, whole)
        absent = replace(target, table_bytes=0)
        if target.tabulated:
            return cls(target, absent, 2, whole)
        return cls(replace(target, table_bytes=TRIED_BYTES), absent, 0, whole)

    def pose(self, problem: PathProblem, plan: Plan) -> PathProblem:
        """The problem with a table at every rung if that takes little of the work of the warm-up, without if not."""
        target = self.present
        n_tables = 1 + len(plan.ladder) - self.n_built
        entries = n_tables * target.n_columns * target.n_states if target.binary else 0
        fits = target.tabulated and TABLE * entries <= TABLE_SHARE * self.whole
        assert plan.update is not None
        posed = target if fits else self.absent
        own = problem if posed is problem.target else PathProblem(posed, plan.update, plan.exchange)
        return own.with_moves(plan.update, plan.exchange)


def _with_ladder(
    problem: PathProblem, smallest: Plan, temperatures: Sequence[float], tables: PilotTables
) -> tuple[PathProblem, Plan]:
    """A candidate with a ladder: small blocks, since hot replicas move by small steps; in the compiled loop if that
    has its tables.
    """
    size = _few_rows(problem.target, smallest)
    plan = replace(
        smallest,
        update=BlockGibbs(size=size),
        exchange=MosaicCrossover(),
        ladder=Ladder.of(temperatures),
        reason=f"blocks of {size} rows and {len(temperatures)} rungs, MosaicCrossover exchanges",
    )
    tabled = tables.pose(problem, plan)
    if isinstance(smallest.update, GaussianBlocks) and not tabled.target.tabulated:
        reason = f"{smallest.reason} and {len(temperatures)} rungs, MosaicCrossover exchanges"
        plan = replace(plan, update=smallest.update, reason=reason)
    return tabled, plan


class Pilot:
    """Chains that every candidate advances by the same work."""

    def __init__(self, entropy: int, n_chains: int, work: float, pool: Pool, display: Progress):
        self.entropy = entropy
        self.work = work  # of a trial of one chain
        self.streams, self.later_streams = (
            [Streams(entropy, FIRST_CHAIN + first + i) for i in range(n_chains)] for first in (0, n_chains + 1)
        )
        self.pool = pool
        self.display = display

    def differences(self, trials: Sequence[Tried]) -> Differences:
        """In what the columns of different chains differ, if in more rows than small blocks have."""
        seen = np.concatenate([trial.seen for trial in trials], axis=1)
        rng = Streams(self.entropy, FIRST_CHAIN + len(self.streams)).initial(0)
        return find_differences(
            seen, trials[0].problem.target.layout, _few_rows(trials[0].problem.target, trials[0].plan), rng
        )

    def advance(self, problem: PathProblem, plan: Plan, states: Sequence[Integers]) -> Tried:
        """Run a candidate from the given states (T,) of the chains, all replicas of a chain from the same."""
        assert plan.update is not None
        own = problem.with_moves(plan.update, plan.exchange)  # kept for the run, with its tables
        return self._run(own, plan, states, self.work, self.streams)

    def go_on(self, trial: Tried) -> Tried:
        """Run a candidate again, and longer, from where its replicas ended."""
        return self._run(trial.problem, trial.plan, trial.states, FINAL * self.work, self.later_streams)

    def _run(
        self,
        own: PathProblem,
        plan: Plan,
        states: Sequence[Integers],
        work: float,
        streams: Sequence[Streams],
    ) -> Tried:
        cost = work_of(own.target, plan)
        half = min(max(int(work / cost) // 2, FEWEST_ITERATIONS // 2), MOST_ITERATIONS // 2)

        def one(chain: int) -> tuple[Floats, Integers, Integers]:
            kind = path_engine(own, plan.ladder.betas)
            every = 1 if plan.exchange is not None else 0
            engine = kind(own, plan.ladder.betas, every, streams[chain], Start(states[chain]))
            (early, _), (late, seen) = mean_states(engine, half), mean_states(engine, half)
            return np.array([early, late]), seen, engine.states.copy()

        found = list(self.pool.map(one, range(len(states))))
        self.display.tick()
        return Tried(
            plan=plan,
            problem=own,
            iterations=2 * half,
            spent=2 * half * cost / self.work,
            halves=np.array([halves for halves, _, _ in found]),
            seen=np.array([seen for _, seen, _ in found]),
            states=[state for _, _, state in found],
        )


def compare(trials: Sequence[Tried]) -> list[Score]:
    """How every candidate did, against the mean of the chains of all of them; the better ones count more in it."""
    means = np.array([trial.halves.mean(axis=1) for trial in trials])  # (candidate, chain, row and state, column)
    weights = np.full(len(trials), 1 / len(trials))
    for _ in range(ROUNDS):
        centre = np.einsum("c,cirt->rt", weights / means.shape[1], means)
        # A chain is a part of the mean, and nearer to it for that.
        own_part = 1 - weights / means.shape[1]
        errors = np.mean((means - centre) ** 2, axis=1) / own_part[:, None, None]
        found = [_score(trial, error) for trial, error in zip(trials, errors, strict=True)]
        weights = np.array([one.score**-2 for one in found])
        weights /= weights.sum()
    return found


def _score(trial: Tried, errors: Floats) -> Score:
    """errors (row and state, column): mean squares, over chains, of what is off."""
    within = np.mean((trial.halves[:, 0] - trial.halves[:, 1]) ** 2, axis=0) / 4
    bounds = np.linspace(0, errors.shape[1], min(STRETCHES, errors.shape[1]) + 1).astype(int)
    lengths = np.diff(bounds)
    off, noise = (np.add.reduceat(part, bounds[:-1], axis=1) / lengths for part in (errors, within))
    slowness = np.maximum(off / np.maximum(noise + within.mean(), TINY), 1.0)
    later, now = (np.sqrt(part).mean(axis=0) @ lengths for part in (off * slowness, off))
    scores = np.sqrt(off * slowness).mean(axis=0) * lengths + TINY
    without = (scores.sum() - scores) / (lengths.sum() - lengths + (len(lengths) == 1))
    return Score(
        trial=trial,
        score=float(scores.sum() / lengths.sum() * math.sqrt(trial.spent)),
        slowness=float((later / max(now, TINY)) ** 2),
        log_error=math.sqrt((len(lengths) - 1) * float(np.var(np.log(without)))),
    )


def mean_states(engine: PathEngine, n: int) -> tuple[Floats, Integers]:
    """(sum of S_k - 1, T): share of n iterations that every row spends in every state but the first, of COLUMNS columns
    at most, evenly spaced. And some of the codes (m, T).
    """
    target = engine.problem.target
    layout, n_columns = target.layout, engine.states.shape[1]
    columns = np.linspace(0, n_columns - 1, min(n_columns, COLUMNS)).round().astype(int)
    first = np.cumsum(layout.sizes - 1) - (layout.sizes - 1)
    total = np.zeros((int(np.sum(layout.sizes - 1)), len(columns)))
    done, seen = 0, []
    while done < n:
        codes = engine.advance(min(PIECE, n - done), thin=1).states
        seen.append(codes[-1])
        states = unpack_codes(codes[:, columns], layout)
        done += len(states)
        for s in range(1, int(layout.sizes.max())):
            rows = np.flatnonzero(layout.sizes > s)
            total[first[rows] + s - 1] += np.count_nonzero(states[:, rows] == s, axis=0)
    return np.asarray(total / n), np.array(seen)
