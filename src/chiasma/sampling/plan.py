"""The defaults of `sample`: how "auto" chooses update, exchange and ladder, with the reason in words.

Exact draws are used when their filter fits the time and memory budgets. Otherwise replicas on an adapted ladder
use block Gibbs updates of a few rows and mosaic crossovers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from chiasma.errors import InvalidInput
from chiasma.exact.passes import MEMORY
from chiasma.models.state_target import AnyTarget, StateTarget
from chiasma.sampling.exchanges import EXCHANGES, Exchange, MosaicCrossover, Swap
from chiasma.sampling.ladder import Ladder, as_ladder
from chiasma.sampling.updates import UPDATES, BlockGibbs, Exact, Update

# Time budget of an exact filter in seconds; replicas are used above it.
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
# Density evaluations per slice update along a line, and the time budget for all of them in one iteration; above it,
# parameters are updated given the paths.
EVALUATIONS = 6
EVALUATION_SECONDS = 2.0e-4  # overhead of an evaluation, without its filter
COLLAPSED_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Update, exchange and ladder of a run; reason says how they were chosen."""

    update: Update | None
    exchange: Exchange | None
    ladder: Ladder
    reason: str
    learns: bool = False  # whether parameters are learned

    @property
    def is_exact(self) -> bool:
        """Whether draws are independent, without warm-up and exchanges."""
        return isinstance(self.update, Exact) and len(self.ladder) == 1 and not self.learns


def exact_cost(target: AnyTarget) -> tuple[float, float]:
    """Estimated seconds of one exact filter, and the minimum memory of its messages in bytes."""
    states = float(target.n_states)
    seconds = FILTER_SECONDS * target.n_columns * states * target.n_operations
    kept_columns = min(target.n_columns, 3 * math.isqrt(target.n_columns) + 3)
    return seconds, 8.0 * states * kept_columns


def exact_cost_text(target: AnyTarget) -> str:
    seconds, memory = exact_cost(target)
    size = f"{target.size_text} x {target.n_columns:,} columns"
    return f"the exact filter over {size} takes about {_seconds(seconds)} and {memory / 2**20:,.0f} MiB"


def block_rows(target: AnyTarget) -> int:
    """The default number of rows that are updated jointly; equal rows count as one."""
    if isinstance(target, StateTarget):
        return _block_axes(target)
    rows = BLOCK_ROWS
    while rows > FEW_BLOCK_ROWS and 8 * target.n_columns << rows > BLOCK_BYTES:
        rows -= 1
    return min(rows, target.n_rows)


def _block_axes(target: StateTarget) -> int:
    """As many as a typical block can have within BLOCK_STATES, and the widest one within BLOCK_BYTES."""
    typical = math.exp(math.log(target.n_states) / target.n_axes)  # geometric mean of the numbers of states
    size = max(1, min(target.n_axes, int(math.log(BLOCK_STATES) / math.log(typical) + 1e-9)))
    while size > 1 and 8 * target.n_columns * target.widest(size) > BLOCK_BYTES:
        size -= 1
    return size


def plan_paths(target: AnyTarget, update: Any, exchange: Any, ladder: Any) -> Plan:
    """Choose the update, the exchange and the ladder for a factorial HMM."""
    _check_ladder_name(ladder)
    seconds, memory = exact_cost(target)
    cost = exact_cost_text(target)
    affordable = seconds <= EXACT_SECONDS and memory <= MEMORY
    if isinstance(update, str) and update == "auto":
        alone = ((isinstance(exchange, str) and exchange == "auto") or exchange is None) and (
            isinstance(ladder, str) or len(as_ladder(ladder)) == 1
        )
        if affordable and alone:
            return Plan(
                update=Exact(), exchange=None, ladder=Ladder(betas=(1.0,)), reason=f"exact independent draws: {cost}"
            )
        chosen: Update = BlockGibbs(size=block_rows(target))
        why = f"blocks of {block_rows(target)} rows"
        why += "" if affordable else f": {cost}, over the budget of {EXACT_SECONDS:.0f} s and {MEMORY / 2**20:,.0f} MiB"
    else:
        chosen, why = _named_update(update, target), "update as given"
    if isinstance(chosen, Exact) and exchange in ("auto", None) and isinstance(ladder, str):
        return Plan(update=chosen, exchange=None, ladder=Ladder(betas=(1.0,)), reason=f"exact draws as asked: {cost}")
    return plan_replicas(chosen, exchange, ladder, MosaicCrossover(), why)


def plan_learning(target: AnyTarget, n_free: int, update: Any, exchange: Any, ladder: Any) -> Plan:
    """Choose them for a model with n_free coordinates to learn; target: the paths at typical parameters.

    With Exact the paths are integrated out and only parameters are updated and swapped.
    """
    _check_ladder_name(ladder)
    seconds, memory = exact_cost(target)
    seconds = EVALUATIONS * n_free * (seconds + EVALUATION_SECONDS)
    cost = f"an iteration takes about {EVALUATIONS * n_free} exact filters, {_seconds(seconds)}"
    if isinstance(update, str) and update == "auto":
        swaps = exchange is None or exchange in ("auto", "swap") or isinstance(exchange, Swap)
        if swaps and seconds <= COLLAPSED_SECONDS and memory <= MEMORY:
            chosen: Update = Exact()
            why = f"parameters with the paths integrated out: {cost}"
        else:
            chosen = BlockGibbs(size=block_rows(target))
            why = f"parameters given the paths, and blocks of {block_rows(target)} rows"
            why += (
                f": {cost} with the paths integrated out, over the budget of {COLLAPSED_SECONDS:g} s" if swaps else ""
            )
    else:
        chosen, why = _named_update(update, target), "update as given"
    collapsed = isinstance(chosen, Exact)
    plan = plan_replicas(chosen, exchange, ladder, Swap() if collapsed else MosaicCrossover(), why)
    if collapsed and plan.exchange not in (None, Swap()):
        raise InvalidInput(
            f"{type(plan.exchange).__name__} exchanges parts of paths, but update='exact' integrates paths out; use "
            "exchange='swap', or another update"
        )
    return replace(plan, learns=True)


def plan_replicas(update: Update | None, exchange: Any, ladder: Any, favourite: Exchange, why: str) -> Plan:
    """Choose the exchange and the ladder for a given update."""
    _check_ladder_name(ladder)
    if isinstance(ladder, str):
        rungs = Ladder(betas=(1.0,)) if exchange is None else Ladder.adapted()
        why += "; one replica" if exchange is None else "; ladder from the prior to the target, adapted in warm-up"
    else:
        rungs = as_ladder(ladder)
        why += f"; {len(rungs)} rungs as given"
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
        raise InvalidInput(f"exchange must be a name or an Exchange such as ch.Swap(), got {exchange!r}")
    if chosen is not None and len(rungs) == 1:
        raise InvalidInput(
            f"{type(chosen).__name__} needs at least two replicas, got a ladder of one; give ladder=[1, 5] or 'auto', "
            "or exchange=None"
        )
    why += f"; {type(chosen).__name__} exchanges" if chosen is not None else ""
    return Plan(update=update, exchange=chosen, ladder=rungs, reason=why)


def _named_update(update: Any, target: AnyTarget) -> Update:
    if isinstance(update, Update):
        return update
    if isinstance(update, str) and update in UPDATES:
        kind = UPDATES[update]
        return BlockGibbs(size=block_rows(target)) if kind is BlockGibbs else kind()
    raise InvalidInput(
        f'update must be "auto", {", ".join(map(repr, UPDATES))} or an object such as ch.HammingBall(radius=2), '
        f"got {update!r}"
    )


def _check_ladder_name(ladder: Any) -> None:
    if isinstance(ladder, str) and ladder != "auto":
        raise InvalidInput(f'ladder must be "auto", a list of temperatures or a Ladder, got "{ladder}"')


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"
