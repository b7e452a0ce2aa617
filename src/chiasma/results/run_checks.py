"""Checks of a run: do its chains agree, do they have enough effective draws, do rungs exchange, is the evidence known?

R-hat is compared with the limit of Vehtari and others (2021), and effective sample sizes with 100 per chain. Remedies
are those that the run can take, in the order of the page "Know that a run converged".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chiasma.results.convergence import RHAT, Convergence
from chiasma.results.findings import Finding, Remedy, Set, Severity, Use
from chiasma.results.ladder_stats import Evidence, suggested_size
from chiasma.results.parameters import ParameterSummary
from chiasma.results.provenance import RunInfo
from chiasma.types import Floats

ESS_PER_CHAIN = 100
# An effective sample size is an estimate, and so is an error: advice for longer runs asks for so many times more draws.
MARGIN = 1.25
# With fewer draws per chain there is nothing to judge.
FEWEST = 4
# Chains with a larger R-hat are in different places: their probabilities are not worth anything.
APART = 1.1
# Of hundreds of series that converged some are just above RHAT by chance.
NEARLY, FEW_SERIES = 1.05, 0.05
# In nats: two such standard errors are a factor e in a Bayes factor.
EVIDENCE_ERROR = 0.5
# Neighbouring rungs with a higher rejection than this hardly ever swap.
DISCONNECTED = 0.98
# With a higher rejection, two rungs overlap too little to estimate the evidence (verification/results/evidence.md), and
# more of them may help chains to agree.
UNBRIDGED = 0.8
# Exchanges of two rungs that change a path more rarely than this are as good as none.
IDLE = 0.01
# Starts of a search for optima whose number is not known.
USUAL_STARTS = 32


def chain_findings(
    series: Sequence[Convergence],
    parameters: Sequence[ParameterSummary],
    n_chains: int,
    n_draws: int,
    moves: Sequence[Remedy] = (),
) -> list[Finding]:
    """Whether chains agree and have enough effective draws. moves: ways to move better, tried before longer runs."""
    if n_draws < FEWEST:
        return [Finding("few-draws", "none", {"draws": n_draws}, (Set("draws", ESS_PER_CHAIN),))]
    found = [Finding("one-chain", "limited", {}, (Set("chains", 4),))] if n_chains == 1 else []
    rhats = {one.name.replace("_", " "): one.rhat_worst for one in series} | {one.name: one.rhat for one in parameters}
    sizes = {one.name.replace("_", " "): one.ess_worst for one in series} | {one.name: one.ess for one in parameters}
    apart = sorted((name for name, rhat in rhats.items() if rhat > RHAT), key=lambda name: -rhats[name])
    if apart:
        facts = {"names": apart, "rhat": rhats[apart[0]], "limit": RHAT}
        longer = Set("draws", wanted_draws(min(known(sizes.values())), n_chains, n_draws, least=2.0))
        severity = _of_rhat(series, parameters)
        found.append(Finding("chains-disagree", severity, facts, (*moves, longer) if severity == "none" else (longer,)))
        return found
    least = ESS_PER_CHAIN * n_chains
    slow = sorted((name for name, ess in sizes.items() if ess < least), key=lambda name: sizes[name])
    if slow:
        ess = sizes[slow[0]]
        facts = {"names": slow, "ess": ess, "expected": least}
        found.append(Finding("low-ess", "limited", facts, (Set("draws", wanted_draws(ess, n_chains, n_draws)),)))
    return found


def known(numbers: Any) -> list[float]:
    """The finite ones, or NaN alone."""
    return [one for one in numbers if math.isfinite(one)] or [math.nan]


def _of_rhat(series: Sequence[Convergence], parameters: Sequence[ParameterSummary]) -> Severity:
    worst = max(known([one.rhat_worst for one in series] + [one.rhat for one in parameters]))
    if worst > APART or any(one.stuck for one in series) or any(math.isinf(one.rhat) for one in parameters):
        return "none"
    rare = all(one.disagree <= FEW_SERIES * one.n for one in series) and all(one.rhat <= RHAT for one in parameters)
    return "note" if rare and worst <= NEARLY else "limited"


def wanted_draws(ess: float, n_chains: int, n_draws: int, least: float = 1.0) -> int:
    """Draws per chain that would be worth ESS_PER_CHAIN, with a margin; at least this many times the present ones.

    >>> wanted_draws(395.0, n_chains=4, n_draws=2000)
    2600
    """
    needed = MARGIN * ESS_PER_CHAIN * n_chains / max(ess, 1.0) if math.isfinite(ess) else least
    return _round_up(n_draws * max(needed, least))


def _round_up(count: float) -> int:
    """Round up to two significant digits.

    >>> _round_up(1234.5)
    1300
    """
    unit = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return math.ceil(count / unit) * unit


def better_moves(info: RunInfo, betas: Floats, learns: bool, rungs: int | None = None) -> list[Remedy]:
    """Ways to move better, the first to try first. learns: whether the model has parameters to learn. rungs: how many
    the ladder should have (`wanted_rungs`); None: its rungs are near enough, and more of them would not help.

    >>> info = RunInfo(update_kind="RowGibbs", update_named=True, larger_blocks=3)
    >>> for remedy in better_moves(info, np.ones(1), learns=False):
    ...     print(remedy.python())
    update='auto'
    update=ch.BlockGibbs(size=3)
    update='jumps'
    exchange='mosaic'
    """
    kind = info.get("update_kind")
    moves_rows = kind not in (None, "Exact", "Collapsed")
    found: list[Remedy] = [Set("update", "auto")] if info.get("update_named") else []
    size = info.get("larger_blocks")
    if size is not None:
        found.append(Use("update", f"ch.BlockGibbs(size={size})", f"block:{size}"))
    if moves_rows and not learns and kind != "Jumps":
        found.append(Set("update", "jumps"))
    if len(betas) == 1 and kind == "Collapsed":
        starts = 2 * (info.get("starts") or USUAL_STARTS)
        found.append(Use("update", f"ch.Collapsed(starts={starts})", f"collapsed:{starts}"))
    elif len(betas) == 1:
        found.append(Set("exchange", "mosaic" if moves_rows else "auto"))
    elif betas[0] > 0:
        found.append(Set("ladder", "auto"))
    elif rungs is not None:
        found.append(_rungs(rungs))
    return found


def _rungs(size: int) -> Use:
    return Use("ladder", f"ch.Ladder.adapted({size})", f"auto:{size}")


def wanted_rungs(stats: Mapping[Any, Any]) -> int | None:
    """More rungs than there are, where some are too far apart; None where they are near enough."""
    rejection = np.asarray(stats["rejection"])
    if not np.any(stats["moves"]) or rejection.max() <= UNBRIDGED:
        return None
    return max(suggested_size(np.asarray(stats.get("length", rejection))), len(rejection) + 2)


def init_findings(info: RunInfo, n_chains: int) -> list[Finding]:
    """One start for all chains. Independent draws do not depend on it."""
    begun = (info.get("settings") or {}).get("init")
    if not begun or n_chains == 1 or info.get("independent"):
        return []
    return [Finding("one-init", "limited", {}, (Set("init", None),))]


def ladder_findings(follows_swaps: bool, stats: Mapping[Any, Any]) -> list[Finding]:
    """Rungs that exchange next to nothing. follows_swaps: exchanges are swaps of whole paths."""
    if not np.any(stats["moves"]):
        return []
    rejection, changed = np.asarray(stats["rejection"]), np.asarray(stats["changed"])
    idle = (rejection > DISCONNECTED) if follows_swaps else (changed < IDLE) & (np.asarray(stats["moves"]) > 0)
    if not idle.any():
        return []
    worst = int(np.argmax(np.where(idle, rejection, -1.0)))
    size = max(suggested_size(np.asarray(stats.get("length", rejection))), len(rejection) + 2)
    remedies = (Set("exchange", "mosaic"), _rungs(size)) if follows_swaps else (_rungs(size),)
    facts = {"rung": worst, "next_rung": worst + 1, "rejection": float(rejection[worst]), "n": int(idle.sum())}
    return [Finding("ladder-gap", "limited", facts, remedies)]


def evidence_findings(
    evidence: Evidence | None, n_draws: int, betas: Floats, stats: Mapping[Any, Any]
) -> list[Finding]:
    """n_draws: per chain; four times as many halve the error."""
    if evidence is None or evidence.standard_error == 0:
        return []
    if not math.isfinite(evidence.value):
        return [Finding("evidence-unknown", "limited", {}, (Set("draws", 2 * n_draws), Set("ladder", "auto")))]
    rejection = np.asarray(stats["rejection"])
    if betas[0] == 0 and np.any(stats["moves"]) and rejection.max() > UNBRIDGED:
        worst, size = int(rejection.argmax()), wanted_rungs(stats)
        assert size is not None
        facts = {"rung": worst, "next_rung": worst + 1, "rejection": float(rejection[worst]), "limit": UNBRIDGED}
        return [Finding("evidence-overlap", "note", facts, (_rungs(size),))]
    error = evidence.standard_error
    if error <= EVIDENCE_ERROR:
        return []
    wanted = _round_up(n_draws * (MARGIN * (error / EVIDENCE_ERROR) ** 2 if math.isfinite(error) else 2.0))
    return [Finding("evidence-error", "note", {"error": error, "limit": EVIDENCE_ERROR}, (Set("draws", wanted),))]
