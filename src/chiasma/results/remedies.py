"""What to try where chains disagree, or have few effective draws, in the order of the page "Know that a run converged".

Only what can be taken as it stands is named: jumps serve paths of models without priors, and blocks those that are not
drawn as a whole. A remedy is spelled for Python, see `warnings`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from chiasma.results.convergence import Convergence
from chiasma.results.parameters import ParameterSummary
from chiasma.results.run_info import RunInfo
from chiasma.results.warnings import AS_TOLD, ESS_PER_CHAIN, FEWEST, MORE_RUNGS, disagree, wanted_draws
from chiasma.types import Floats

# Of a run that does not say how many starts it had, as older stores.
USUAL_STARTS = 32
# Which exchange of vectors is better depends on the density: parts of two vectors fit together only where these parts
# are independent, or nearly so.
SWAPS = "swap whole vectors, where all coordinates depend on each other (exchange='swap')"


def what_to_try(
    parts: Sequence[Convergence],
    parameters: Sequence[ParameterSummary],
    n_chains: int,
    n_draws: int,
    moves: Sequence[str],
    modes_apart: bool,
    warned: Sequence[str],
) -> list[str]:
    """What to try for all warnings of the chains, the first to try first; nothing where there is no such warning.

    moves : ways to move better (`remedies`), tried before longer runs.
    modes_apart : chains sit in different modes, which R-hat need not show.
    warned : other warnings of the run, whose remedies are not repeated.
    """
    told = any(MORE_RUNGS in text for text in warned)
    better = [AS_TOLD if told and text.startswith(MORE_RUNGS) else text for text in moves]
    sizes = [part.ess_worst for part in parts] + [one.ess for one in parameters]
    ess = min((size for size in sizes if math.isfinite(size)), default=math.nan)
    if n_draws >= FEWEST and (disagree(parts, parameters) or (modes_apart and not better)):
        wanted = wanted_draws(ess, n_chains, n_draws, least=2.0)
        return [*better, f"warm up longer (warmup=...) and take more draws (draws={wanted})"]
    if n_draws >= FEWEST and ess < ESS_PER_CHAIN * n_chains:
        wanted = wanted_draws(ess, n_chains, n_draws)
        longer = f"take about draws={wanted}, or thin={math.ceil(wanted / n_draws)} with as many draws as now"
        # Another exchange of vectors costs no more than this one: it is worth a try even where chains agree.
        return [*(text for text in better if modes_apart or text == SWAPS), longer]
    return better if modes_apart else []


def in_order(remedies: Sequence[str]) -> str:
    """What to try, in one line; nothing where there is nothing to try.

    >>> in_order(["sit", "walk"]), in_order(["sit"]), in_order([])
    ('what to try, in this order: 1. sit; 2. walk', 'what to try: sit', '')
    """
    if len(remedies) < 2:
        return "".join(f"what to try: {text}" for text in remedies)
    return f"what to try, in this order: {'; '.join(f'{i}. {text}' for i, text in enumerate(remedies, start=1))}"


def remedies(info: RunInfo, betas: Floats, learns: bool, rungs: int | None = None) -> list[str]:
    """Ways to move better, the first to try first. learns: whether the model has parameters to learn. rungs: how many
    the ladder should have (`wanted_rungs`); None: its rungs are near enough, and more of them would not help.

    >>> import numpy as np
    >>> info = RunInfo(update_kind="RowGibbs", update_named=True, larger_blocks=3)
    >>> for text in remedies(info, np.ones(1), learns=False):
    ...     print(text)
    let update='auto' choose
    take larger blocks (update=ch.BlockGibbs(size=3), exchange=None)
    let jumps be learned (update='jumps', exchange=None)
    add a ladder with crossovers (exchange='mosaic', ladder='auto')
    """
    kind = info.get("update_kind")
    moves_rows = kind not in (None, "Exact", "Collapsed")
    alone = ", exchange=None" if len(betas) == 1 else ""  # else a named update would come with a ladder
    found = ["let update='auto' choose"] if info.get("update_named") else []
    size = info.get("larger_blocks")
    if size is not None:
        found.append(f"take larger blocks (update=ch.BlockGibbs(size={size}){alone})")
    if moves_rows and not learns and kind != "Jumps":
        found.append(f"let jumps be learned (update='jumps'{alone})")
    if len(betas) == 1 and kind == "Collapsed":
        starts = 2 * (info.get("starts") or USUAL_STARTS)
        found.append(f"look for optima from more starts (update=ch.Collapsed(starts={starts}))")
    elif betas[0] > 0:
        found.append(_better_ladder(betas, moves_rows))
    if info.get("n_rows") is None and info.get("exchange") and not info.get("follows_swaps"):
        found.append(SWAPS)
    if betas[0] == 0 and rungs is not None:
        found.append(f"{MORE_RUNGS}{rungs}))")
    return found


def _better_ladder(betas: Floats, moves_rows: bool) -> str:
    if moves_rows:
        # The exchange is named, since a pilot chooses where nothing is.
        what = "add a ladder with crossovers" if len(betas) == 1 else "let the ladder reach hotter"
        return f"{what} (exchange='mosaic', ladder='auto')"
    if len(betas) == 1:
        return "add tempered replicas (exchange='auto', ladder='auto')"
    return "let the ladder reach hotter (ladder='auto')"
