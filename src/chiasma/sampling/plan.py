"""The defaults of `sample`: how "auto" chooses update, exchange and ladder, with the reason in words.

Exact draws are used when their filter fits the time and memory budgets. Otherwise `pilot` tries blocks of several
sizes, and where chains sit in different modes a few rungs with mosaic crossovers. A complete ladder, from the prior to
the target and adapted in warm-up, is used where the evidence is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.exact.passes import MEMORY
from chiasma.models.target import Target
from chiasma.sampling.exchanges import EXCHANGES, Exchange, MosaicCrossover, Swap
from chiasma.sampling.ladder import Ladder, as_ladder
from chiasma.sampling.updates import (
    UPDATES,
    BlockGibbs,
    Collapsed,
    Compose,
    Exact,
    GaussianBlocks,
    Jumps,
    Update,
    fits_memory,
)
from chiasma.types import as_floats, shown

# Default time budget of exact draws in seconds, `exact_seconds` of sample(); replicas are used above it.
EXACT_SECONDS = 60.0
# Cost of the exact filter per column, state and (row + 2); an order of magnitude.
FILTER_SECONDS = 1.0e-9
# Rows per block, down to FEW_BLOCK_ROWS for so many columns that messages would exceed BLOCK_BYTES. On 24 rows and
# 2,000 columns, blocks of five reach the same error in less than half the time (benchmarks/results/accuracy.md).
BLOCK_ROWS = 5
FEW_BLOCK_ROWS = 3
BLOCK_BYTES = 2**24
# The same for rows of any number of states: joint states of a block.
BLOCK_STATES = 64
# The largest block that a warning names: rows, and joint states of rows with more than two.
LARGE_ROWS, LARGE_STATES = 8, 256
# Candidates of the pilot, small, by default and large: rows per block with likelihoods computed on the fly, and from a
# table or on demand; joint states of a block of rows with any number of states. The large ones are tried where chains
# are stuck with the others. Messages of a candidate fit the last level of the caches.
FUSED_ROWS, TRIED_ROWS, TRIED_STATES = (6, 8, 10), (3, 6, 9), (27, 250, 1000)
TRIED_BYTES = 2**26
# Learning with the paths integrated out, by gradients: exact filters per effective draw (jumps, now and then a
# trajectory, the draw of a path), filters per start of the search for optima, and what a filter costs besides itself.
FILTERS_PER_DRAW = 12
FILTERS_PER_START = 160
EVALUATION_SECONDS = 1.5e-4
FEWEST_STARTS, MOST_STARTS = 4, 32
# Learning given the paths: effective draws of the slowest parameter per iteration (benchmarks/results/parameters.md:
# 0.07 to 0.7), the rungs of a ladder, and what an update of the parameters costs besides the paths.
EFFECTIVE_PER_ITERATION = 0.2
TYPICAL_RUNGS = 10
PARAMETER_SECONDS = 1.0e-3


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What the pilot is to choose from, and why there is one."""

    updates: tuple[tuple[Update, str], ...]  # candidates, each with its name
    larger: tuple[tuple[Update, str], ...]  # candidates for chains that are stuck
    ladders: bool  # whether ladders may be tried
    because: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Update, exchange and ladder of a run; reason says how they were chosen."""

    update: Update | None
    exchange: Exchange | None
    ladder: Ladder
    reason: str
    learns: bool = False  # whether parameters are learned
    trial: Trial | None = None  # what the pilot has still to decide

    @property
    def is_exact(self) -> bool:
        """Whether draws are independent, without warm-up and exchanges."""
        return isinstance(self.update, Exact) and len(self.ladder) == 1 and not self.learns


def as_budget(seconds: Any) -> float:
    """exact_seconds as a float, or an error."""
    given = as_floats("exact_seconds", seconds)
    if given.shape != () or not given >= 0:
        raise InvalidInput(f"exact_seconds must be a number of at least 0 (0: never exact), got {shown(seconds)}")
    return float(given)


def exact_cost(target: Target) -> tuple[float, float]:
    """Estimated seconds of one exact filter, and the minimum memory of its messages in bytes."""
    states = float(target.n_states)
    seconds = FILTER_SECONDS * target.n_columns * states * target.n_operations
    kept_columns = min(target.n_columns, 3 * math.isqrt(target.n_columns) + 3)
    return seconds, 8.0 * states * kept_columns


def exact_cost_text(target: Target) -> str:
    seconds, memory = exact_cost(target)
    size = f"{target.size_text} x {target.n_columns:,} sites"
    return f"the exact filter over {size} takes about {_seconds(seconds)} and {_mebibytes(memory)}"


def filters_of_draws(target: Target) -> int:
    """How often exact draws filter the data: again for the draws of a chain, where not all messages fit in memory.

    A chain draws thousands of paths at a time (`engines.exact_batch`), and a draw by itself takes less than a row
    sweep: filters are what counts.
    """
    kept = 2 * 8.0 * target.n_states * target.n_columns  # filtered distributions, and probabilities of staying
    return 1 if kept <= MEMORY else 2


def block_rows(target: Target) -> int:
    """The default number of rows that are updated jointly; equal rows count as one."""
    if not target.binary:
        return _block_axes(target)
    rows = BLOCK_ROWS
    while rows > FEW_BLOCK_ROWS and 8 * target.n_columns << rows > BLOCK_BYTES:
        rows -= 1
    return min(rows, target.n_axes)


def _block_axes(target: Target) -> int:
    """As many as a typical block can have within BLOCK_STATES, and the widest one within BLOCK_BYTES."""
    typical = math.exp(math.log(target.n_states) / target.n_axes)  # geometric mean of the numbers of states
    size = max(1, min(target.n_axes, int(math.log(BLOCK_STATES) / math.log(typical) + 1e-9)))
    while size > 1 and 8 * target.n_columns * target.widest(size) > BLOCK_BYTES:
        size -= 1
    return size


def larger_blocks(target: Target, update: Update) -> int | None:
    """Rows of a block to try in place of an update, or None where it draws as many jointly or paths as a whole.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0, 4.0]))
    >>> target = model.exact_target([0.0, 1.0])
    >>> larger_blocks(target, ch.RowGibbs()), larger_blocks(target, ch.BlockGibbs(size=3))
    (3, None)
    """
    if isinstance(update, Exact | Collapsed):
        return None
    size = min(LARGE_ROWS, target.n_axes)
    while size > 1 and (target.widest(size) > LARGE_STATES or not fits_memory(target, target.widest(size))):
        size -= 1
    return size if size > _rows_at_once(target, update) else None


def _rows_at_once(target: Target, update: Update) -> int:
    """Rows that an update draws jointly; raises InvalidInput for blocks that do not fit the target."""
    if isinstance(update, BlockGibbs):
        return max(step.size for step in update.steps(target))
    if isinstance(update, Jumps):
        return update.block_size(target)
    if isinstance(update, GaussianBlocks):
        update.prepare(target, 0.0)  # checks the size
        return update.size
    return 1


def plan_paths(
    target: Target,
    update: Any,
    exchange: Any,
    ladder: Any,
    exact_seconds: float = EXACT_SECONDS,
    evidence: bool = False,
) -> Plan:
    """Choose the update, the exchange and the ladder for a factorial HMM.

    evidence : whether the evidence is wanted, for which a ladder has to reach the prior.
    """
    _check_ladder_name(ladder)
    seconds, memory = exact_cost(target)
    n_filters = filters_of_draws(target)
    cost = exact_cost_text(target) + (", twice" if n_filters > 1 and seconds <= exact_seconds else "")
    affordable = n_filters * seconds <= exact_seconds and memory <= MEMORY
    if isinstance(update, str) and update == "auto":
        alone = ((isinstance(exchange, str) and exchange == "auto") or exchange is None) and (
            isinstance(ladder, str) or len(as_ladder(ladder)) == 1
        )
        if affordable and alone:
            return Plan(
                update=Exact(), exchange=None, ladder=Ladder(betas=(1.0,)), reason=f"exact independent draws: {cost}"
            )
        over = f"{cost}, over the budget of {exact_seconds:g} s and {MEMORY / 2**20:,.0f} MiB"
        if alone and not evidence:
            return _tried(target, exchange is not None and isinstance(ladder, str), over)
        chosen: Update = BlockGibbs(size=block_rows(target))
        why = f"blocks of {block_rows(target)} rows"
        why += "" if affordable else f": {over}"
    else:
        chosen, why = _named_update(update, target), "update as given"
    if isinstance(chosen, Exact) and exchange in ("auto", None) and isinstance(ladder, str):
        return Plan(update=chosen, exchange=None, ladder=Ladder(betas=(1.0,)), reason=f"exact draws as asked: {cost}")
    return plan_replicas(chosen, exchange, ladder, MosaicCrossover(), why)


def _tried(target: Target, ladders: bool, over: str) -> Plan:
    """Blocks of several sizes without a ladder, from which the pilot is to choose."""
    kind: type[BlockGibbs] | type[GaussianBlocks] = GaussianBlocks if GaussianBlocks.serves(target) else BlockGibbs
    small, middle, large = (min(size, kind.largest(target)) for size in _tried_sizes(target, kind))
    few = FEW_BLOCK_ROWS if target.binary else 1
    while middle > few and not _fits_caches(target, middle):
        middle -= 1
    first = sorted({min(small, middle), middle})
    larger = [large] if large > middle and _fits_caches(target, large) else []
    return Plan(
        update=kind(size=middle),
        exchange=None,
        ladder=Ladder(betas=(1.0,)),
        reason=f"blocks of {middle} rows: {over}",
        trial=Trial(
            updates=tuple((kind(size=size), f"blocks of {size} rows") for size in first),
            larger=tuple((kind(size=size), f"blocks of {size} rows") for size in larger),
            ladders=ladders,
            because=over,
        ),
    )


def _fits_caches(target: Target, size: int) -> bool:
    return 8 * target.n_columns * target.widest(size) <= TRIED_BYTES


def _tried_sizes(target: Target, kind: type[Update]) -> Sequence[int]:
    if target.binary:
        return FUSED_ROWS if kind is GaussianBlocks else TRIED_ROWS
    typical = math.log(target.n_states) / target.n_axes
    return [max(1, int(math.log(states) / typical + 1e-9)) for states in TRIED_STATES]


def check_evidence(plan: Plan, evidence: Any, proper_prior: bool = True) -> None:
    """Raise InvalidInput if a run that is asked for the evidence would not give it."""
    if not isinstance(evidence, bool | np.bool_):
        raise InvalidInput(f"evidence must be True or False, got {shown(evidence)}")
    if evidence and not proper_prior:
        raise InvalidInput(
            "evidence=True needs a log_prior: without one the prior of the Density is flat over the real numbers, "
            "which is not a distribution, so the evidence is meaningless; give ch.Density a log_prior"
        )
    if evidence and not (plan.is_exact or isinstance(plan.update, Collapsed) or plan.ladder.betas[0] == 0):
        raise InvalidInput(
            "evidence=True needs a ladder that reaches the prior, and exchanges; leave ladder='auto' and "
            f"exchange='auto', or use ladder=ch.Ladder.adapted(...), got {len(plan.ladder)} rung(s) from beta = "
            f"{plan.ladder.betas[0]:g}"
        )


def plan_learning(
    target: Target,
    update: Any,
    exchange: Any,
    ladder: Any,
    exact_seconds: float = EXACT_SECONDS,
) -> Plan:
    """Choose them for a model with parameters to learn; target: the paths at typical parameters.

    "auto" compares effective draws per second: with the paths integrated out, by gradients, and given the paths.
    """
    _check_ladder_name(ladder)
    if isinstance(update, str) and update == "auto":
        chosen, why = _auto_learning(target, exchange, exact_seconds)
    else:
        chosen, why = _named_update(update, target), "update as given"
    collapsed = isinstance(chosen, Exact | Collapsed)
    if isinstance(chosen, Collapsed) and isinstance(ladder, str) and exchange in ("auto", None):
        # Jumps between the optima do what a ladder is for, at one rung.
        exchange = None
    plan = plan_replicas(chosen, exchange, ladder, Swap() if collapsed else MosaicCrossover(), why)
    if collapsed and plan.exchange not in (None, Swap()):
        raise InvalidInput(
            f"{type(plan.exchange).__name__} exchanges parts of paths, but {type(chosen).__name__}() integrates paths "
            "out; use exchange='swap', or another update"
        )
    return replace(plan, learns=True)


def _auto_learning(target: Target, exchange: Any, exact_seconds: float) -> tuple[Update, str]:
    seconds, memory = exact_cost(target)
    seconds += EVALUATION_SECONDS
    rows = block_rows(target)
    per_state = rows + 2 if target.binary else target.n_operations * rows / target.n_axes
    sweep = FILTER_SECONDS * target.n_columns * per_state * math.ceil(target.n_axes / rows) * target.widest(rows)
    given_paths = EFFECTIVE_PER_ITERATION / (TYPICAL_RUNGS * (sweep + PARAMETER_SECONDS))
    integrated = 1 / (FILTERS_PER_DRAW * seconds)
    starts = int(min(MOST_STARTS, exact_seconds / (FILTERS_PER_START * seconds)))
    rates = f"about {_rate(integrated)} effective draws per second, {_rate(given_paths)} if paths were sampled, too"
    swaps = exchange is None or exchange in ("auto", "swap") or isinstance(exchange, Swap)
    if swaps and integrated >= given_paths and starts >= FEWEST_STARTS and memory <= MEMORY:
        return Collapsed(starts=starts), f"parameters with the paths integrated out, by gradients: {rates}"
    why = f"parameters given the paths, and blocks of {rows} rows"
    if not swaps:
        return BlockGibbs(size=rows), why
    search = f"the search for {FEWEST_STARTS} optima takes {_seconds(FEWEST_STARTS * FILTERS_PER_START * seconds)}"
    return BlockGibbs(size=rows), f"{why}: with the paths integrated out {rates}, and {search}"


def _rate(per_second: float) -> str:
    return f"{per_second:.2g}" if per_second < 10 else f"{per_second:,.0f}"


def plan_replicas(update: Update | None, exchange: Any, ladder: Any, favourite: Exchange, why: str) -> Plan:
    """Choose the exchange and the ladder for a given update."""
    _check_ladder_name(ladder)
    if isinstance(ladder, str):
        rungs = Ladder(betas=(1.0,)) if exchange is None else Ladder.adapted()
        why += "; one replica" if exchange is None else f"; {_adapted_text(rungs, exchange)}"
    else:
        rungs = as_ladder(ladder)
        why += "; one replica" if len(rungs) == 1 else f"; {len(rungs)} rungs as given"
    if isinstance(exchange, str):
        if exchange == "auto":
            chosen = favourite if len(rungs) > 1 else None
        elif exchange in EXCHANGES:
            chosen = EXCHANGES[exchange]()
        else:
            raise InvalidInput(
                f'exchange must be None, "auto", {", ".join(map(repr, EXCHANGES))} or an object, got "{exchange}"'
            )
    elif exchange is None or isinstance(exchange, Exchange):
        chosen = exchange
    else:
        raise InvalidInput(f"exchange must be a name or an Exchange such as ch.Swap(), got {shown(exchange)}")
    if chosen is not None and len(rungs) == 1:
        raise InvalidInput(
            f"{type(chosen).__name__} needs at least two replicas, got a ladder of one; give ladder=[1, 5] or "
            "ladder='auto', or exchange=None"
        )
    why += f"; {type(chosen).__name__} exchanges" if chosen is not None else ""
    return Plan(update=update, exchange=chosen, ladder=rungs, reason=why)


def _adapted_text(rungs: Ladder, exchange: Any) -> str:
    """A ladder that was not requested multiplies the work: how large it is, and how to do without."""
    text = f"ladder from the prior to the target, adapted in warm-up, {len(rungs)} replicas at first"
    unasked = isinstance(exchange, str) and exchange == "auto"
    return f"{text} (with no exchange: one, without evidence)" if unasked else text


def _named_update(update: Any, target: Target) -> Update:
    if isinstance(update, Update):
        _check_blocks(update, target)
        return update
    if isinstance(update, str) and update in UPDATES:
        kind = UPDATES[update]
        if kind is GaussianBlocks:
            return GaussianBlocks(size=min(GaussianBlocks.size, target.n_axes))
        return BlockGibbs(size=block_rows(target)) if kind is BlockGibbs else kind()
    if isinstance(update, type) and issubclass(update, Update):
        raise InvalidInput(f"update must be an object, got the class {update.__name__}; use ch.{update.__name__}()")
    raise InvalidInput(
        f'update must be "auto", {", ".join(map(repr, UPDATES))} or an object such as ch.HammingBall(radius=2), '
        f"got {shown(update)}"
    )


def _check_blocks(update: Update, target: Target) -> None:
    """Raise InvalidInput for given blocks that leave a row out: it would stay where it starts."""
    parts = update.updates if isinstance(update, Compose) else [update]
    if not all(isinstance(part, BlockGibbs) and part.blocks is not None for part in parts):
        return
    updated = {axis for step in update.steps(target) for axis in step.values.tolist()}
    left = [k for axis, rows in enumerate(target.groups) if axis not in updated for k in rows]
    if left:
        raise InvalidInput(
            f"blocks must update every free row, got none with row {left[0]}; add it to a block, or use "
            "ch.Compose([..., ch.RowGibbs()])"
        )


def _check_ladder_name(ladder: Any) -> None:
    if isinstance(ladder, str) and ladder != "auto":
        raise InvalidInput(f'ladder must be "auto", a list of temperatures or a Ladder, got "{ladder}"')


def _mebibytes(n_bytes: float) -> str:
    """
    >>> _mebibytes(1000), _mebibytes(3 * 2**20)
    ('less than 1 MiB', '3 MiB')
    """
    return "less than 1 MiB" if n_bytes < 2**20 else f"{n_bytes / 2**20:,.0f} MiB"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"
