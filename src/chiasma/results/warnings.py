"""Every warning about a run, in words: chains, evidence, the ladder, misfit of the model.

Warnings of chains say what is wrong; what to try is the same for all of them and is told once (`remedies`). The others
name their remedies. A remedy is spelled for Python, as an argument or an object: draws=2000,
ladder=ch.Ladder.adapted(8). The command line makes options of them (`report/spelling.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.results.convergence import RHAT, Convergence, rhat_text
from chiasma.results.evidence import Evidence
from chiasma.results.exchange_stats import suggested_size
from chiasma.results.misfit import IMPROBABLE, Misfit
from chiasma.results.misfit_remedies import for_levels, for_outliers, for_width, needed, questions
from chiasma.results.parameters import ParameterSummary

# Vehtari and others (2021) recommend at least this effective sample size.
ESS_PER_CHAIN = 100
# An effective sample size is an estimate, and so is an error: advice for longer runs asks for so many times more draws.
MARGIN = 1.25
# With fewer draws per chain there is nothing to judge.
FEWEST = 4
# With parameters alone the evidence is a bridge between their draws and proposals near them: chains that differ this
# little leave it as it is.
BRIDGED_RHAT = 1.05
# In nats: two such standard errors are a factor e in a Bayes factor.
EVIDENCE_ERROR = 0.5
# A warning lists at most this many parameters.
SHOWN_NAMES = 4
# Neighbouring rungs with a higher rejection than this hardly ever swap.
DISCONNECTED = 0.98
# With a higher rejection, two rungs overlap too little to estimate the evidence (verification/results/evidence.md), and
# more of them may help chains to agree.
UNBRIDGED = 0.8
# A misfit is told where it is large, and so many standard errors from 0 that chance makes it in one of a million runs.
SURE = 5.0
BEYOND, UNLIKELY, WIDER, CORRELATED, DRIFTING = 0.002, 0.005, 1.25, 0.1, 0.3
# Where a larger share of the data is improbable, they may not be the data of this model at all.
ABSURD = 0.25


# How a remedy begins that several warnings may have, and what stands in its place once it is told.
MORE_RUNGS = "use more rungs (ladder=ch.Ladder.adapted("
AS_TOLD = "use more rungs, as told above"


def chain_warnings(
    parts: tuple[Convergence, ...],
    parameters: tuple[ParameterSummary, ...],
    n_chains: int,
    n_draws: int,
) -> list[str]:
    """Whether chains agree and have enough effective draws; `remedies.what_to_try` says what to do."""
    if n_draws < FEWEST:
        return [f"{count(n_draws, 'draw')} per chain are too few to judge the run; take at least {ESS_PER_CHAIN}"]
    found = []
    if n_chains == 1:
        found.append("one chain only: it cannot show whether other chains would find other modes; run chains=4")
    for part in parts:
        what = part.name.replace("_", " ")
        if part.rhat_worst > RHAT:
            place = f"{part.place} {part.worst_site}"
            worst = rhat_text(part.rhat_worst)
            many = f" ({worst})" if part.n == 1 else f" in {part.disagree} of {part.n} series, {worst} at {place}"
            stuck = f"; {part.stuck} never move within a chain" if part.stuck else ""
            found.append(_disagree(f"{what} is above {RHAT}{many}{stuck}"))
        if part.ess_worst < ESS_PER_CHAIN * n_chains:
            many = "" if part.n == 1 else f" (median of {part.n} series: {part.ess_median:,.0f})"
            found.append(_few_draws(f"{what} is {part.ess_worst:,.0f}{many}", n_chains))
    apart = sorted((one for one in parameters if one.rhat > RHAT), key=lambda one: -one.rhat)
    if apart:
        found.append(_disagree(f"{_listed([f'{one.name} ({rhat_text(one.rhat)})' for one in apart])} is above {RHAT}"))
    slow = sorted((one for one in parameters if one.ess < ESS_PER_CHAIN * n_chains), key=lambda one: one.ess)
    if slow:
        what = _listed([f"{one.name} ({one.ess:,.0f})" for one in slow])
        found.append(_few_draws(f"{what} is low", n_chains))
    return found


def _disagree(what: str) -> str:
    return f"the chains disagree: R-hat of {what}"


def wanted_draws(ess: float, n_chains: int, n_draws: int, least: float = 1.0) -> int:
    """Draws per chain that would be worth ESS_PER_CHAIN, with a margin; at least so many times those that there are.

    >>> wanted_draws(395.0, n_chains=4, n_draws=2000)
    2600
    """
    needed = MARGIN * ESS_PER_CHAIN * n_chains / max(ess, 1.0) if math.isfinite(ess) else least
    return _round_up(n_draws * max(needed, least))


def _few_draws(what: str, n_chains: int) -> str:
    each = f" ({ESS_PER_CHAIN} per chain)" if n_chains > 1 else ""
    return f"few effective draws: bulk ESS of {what}, expected at least {ESS_PER_CHAIN * n_chains:,}{each}"


def _listed(names: list[str]) -> str:
    """The first few names, and how many more there are.

    >>> _listed(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d and 2 more'
    """
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def _round_up(count: float) -> int:
    """Round up to two significant digits.

    >>> _round_up(1234.5)
    1300
    """
    unit = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return math.ceil(count / unit) * unit


def disagree(parts: Sequence[Convergence], parameters: Sequence[ParameterSummary], limit: float = RHAT) -> bool:
    """Whether any R-hat is above the limit."""
    return any(rhat > limit for rhat in [*(part.rhat_worst for part in parts), *(one.rhat for one in parameters)])


def evidence_warnings(evidence: Evidence | None, n_draws: int, apart: bool = False) -> list[str]:
    """n_draws: per chain; four times as many halve the error. apart: the evidence is that of chains that disagree."""
    if evidence is None or evidence.standard_error == 0:
        return []
    if not math.isfinite(evidence.value):
        return ["the evidence is unknown: a rung has impossible draws; take more draws, or adapt the ladder"]
    # The error is estimated within chains: what none of them visits, or only some, is not in it.
    doubt = (
        "the log evidence and its standard error are as uncertain as the draws, whose chains disagree; let these agree "
        "first"
    )
    return [doubt] * apart + _large_error(evidence.standard_error, n_draws, apart)


def _large_error(error: float, n_draws: int, apart: bool) -> list[str]:
    """apart: chains disagree, and to let them agree comes first."""
    if error <= EVIDENCE_ERROR:
        return []
    wanted = _round_up(n_draws * (MARGIN * (error / EVIDENCE_ERROR) ** 2 if math.isfinite(error) else 2.0))
    size = "unknown (too few draws)" if math.isnan(error) else f"{error:.2g} nats, above {EVIDENCE_ERROR}"
    remedy = f"; take more draws (draws={wanted}), or more rungs (ladder=ch.Ladder.adapted(...))"
    return [f"the standard error of the log evidence is {size}{'' if apart else remedy}"]


def ladder_warnings(follows_swaps: bool, stats: Mapping[str, npt.NDArray[Any]], has_evidence: bool = True) -> list[str]:
    """Problems of the ladder and their remedies. follows_swaps: exchanges are swaps of whole paths."""
    if not stats["moves"].any():
        return []
    rejection = stats["rejection"]
    more_rungs = f"{MORE_RUNGS}{suggested_size(stats['length'])}))"
    warnings = []
    if follows_swaps and rejection.max() > DISCONNECTED:
        worst = int(rejection.argmax())
        warnings.append(
            f"the ladder is too short: {_rungs(stats, worst)} would swap in "
            f"{100 * (1 - rejection[worst]):.1g}% of the steps; {more_rungs}, or a crossover, which exchanges segments "
            "(exchange='mosaic')"
        )
        more_rungs = AS_TOLD
    idle = (stats["changed"] < 0.01) & (stats["moves"] > 0)
    if idle.any():
        first = int(np.argmax(idle))
        warnings.append(
            f"{_rungs(stats, first)} exchange next to nothing ({count(int(idle.sum()), 'such pair')}); "
            "put rungs between them or adapt the ladder (ladder=ch.Ladder.adapted())"
        )
    if has_evidence and stats["beta_low"][0] == 0 and rejection.max() > UNBRIDGED:
        worst = int(rejection.argmax())
        warnings.append(
            f"the log evidence cannot be trusted, nor its standard error: {_rungs(stats, worst)} hardly overlap "
            f"(rejection {rejection[worst]:.2f}, at most {UNBRIDGED} is fine); {more_rungs}; the draws are not affected"
        )
    return warnings


def wanted_rungs(stats: Mapping[Any, Any]) -> int | None:
    """More rungs than there are, where some are too far apart; None where they are near enough."""
    rejection = np.asarray(stats["rejection"])
    if not np.any(stats["moves"]) or rejection.max() <= UNBRIDGED:
        return None
    return max(suggested_size(np.asarray(stats.get("length", rejection))), len(rejection) + 2)


def _rungs(stats: Mapping[str, npt.NDArray[Any]], pair: int) -> str:
    """
    >>> _rungs({"beta_low": np.array([0.0]), "beta_high": np.array([0.01])}, 0)
    'rungs 0 and 1 (beta 0 and 0.01)'
    """
    return f"rungs {pair} and {pair + 1} (beta {stats['beta_low'][pair]:.3g} and {stats['beta_high'][pair]:.3g})"


def misfit_warnings(found: Misfit | None) -> list[str]:
    """What the residuals say against the model, each with its remedy (`misfit_remedies`)."""
    if found is None:
        return []
    warnings = []
    if found.improbable > ABSURD:
        warnings.append(
            f"{found.improbable:.0%} of the data are improbable whatever the states are: are these the right data (the "
            "right column of the table, in the units of the model)?"
        )
    far = {"above the highest": found.above, "below the lowest": found.below}
    for where, share in far.items():
        if _is_excess(share, BEYOND, IMPROBABLE / 2, found.n):
            remedy = for_levels(found, too_high=where == "above the highest")
            warnings.append(
                f"{share:.1%} of the data ({round(share * found.n):,} values) lie far {where} level that the rows can "
                f"reach: {remedy}; the states at these sites mean little"
            )
    warnings += _level_warnings(found)
    rest = found.improbable - sum(far.values())
    if _is_excess(rest, UNLIKELY, IMPROBABLE, found.n):
        # Another share than the one of all data, which the summary prints: the words must differ where these do.
        within = " although the rows can reach their levels" if rest < found.improbable else ""
        warnings.append(
            f"{rest:.2%} of the data are improbable{within}, where {IMPROBABLE:.1%} are expected (worst at site "
            f"{found.worst_site}): {for_outliers(found)}"
        )
    if abs(math.log(found.spread or 1e-9)) > math.log(WIDER) and abs(found.spread - 1) * math.sqrt(2 * found.n) > SURE:
        wide = found.spread > 1
        what = "wider: the noise is underestimated" if wide else "narrower: the noise is overestimated"
        effect = "probabilities are too extreme" if wide else "the fit is less sure than the data allow"
        warnings.append(
            f"residuals have {found.spread:.2g} times the width that the model gives them, {what} and {effect}; "
            f"{for_width(found)}"
        )
    return warnings


def _level_warnings(found: Misfit) -> list[str]:
    """Residuals that stay on one side of the level: mostly the model lacks something, which is asked first, once."""
    warnings = []
    first_ask = f"{questions(found)} If all is well there: "
    r, n = found.autocorrelation, found.n_pairs
    if abs(r) > CORRELATED and abs(r) * math.sqrt(n) > SURE:
        warnings.append(
            f"residuals of neighbouring sites are correlated ({r:.2f}, expected 0): the fit is surer than it should "
            f"be. {first_ask}waves or filtered noise; correct the data for the waves, or average over wider sites"
        )
        # The questions stand once, but a warning reads alone: it names what they ask for.
        first_ask = f"If the model has {needed(found)}: "
    if abs(found.drift) > DRIFTING and abs(found.drift) * math.sqrt(found.per_window) > SURE + 1:
        first, last = found.drift_sites
        warnings.append(
            f"the signal drifts: between sites {first} and {last} it is {abs(found.drift):.2f} standard deviations of "
            f"the noise {'above' if found.drift > 0 else 'below'} its level. {first_ask}subtract the trend, or fit "
            "shorter pieces"
        )
    return warnings


def _is_excess(share: float, large: float, expected: float, n: int) -> bool:
    return share > large and (share - expected) * n > SURE * math.sqrt(expected * n)
