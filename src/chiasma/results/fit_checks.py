"""Checks of the fit: which statistics of the residuals are worse than chance explains, what it means, what to do.

A finding needs an effect that is large, and a probability under the model below RARE for each check, so that all checks
together raise a false alarm in fewer than one of a hundred runs (verification/results/misfit.md). Remedies depend on
the emission and on what is learned already: counts have no sd, and what is learned need not be learned.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from chiasma.exact.walks import baseline_doubt
from chiasma.models.additive import Additive
from chiasma.models.arguments import shallow_copy
from chiasma.models.density import Density
from chiasma.models.emissions import Gaussian, IntegratedDepth, NegativeBinomial, Poisson, StudentT
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.offsets import Smooth
from chiasma.results.findings import Finding, Learn, Remedy, Severity, Use
from chiasma.results.misfit import IMPROBABLE, FitStatistics

# Probability under the model of what a finding reports; SURE standard errors are rarer.
RARE, SURE = 1e-4, 5.0
# Effects that matter: shares of data, widths of residuals, correlations, noise SDs of waves.
BEYOND, UNLIKELY, WIDER, CORRELATED, WAVE = 0.002, 0.005, 1.25, 0.1, 0.3
# Beyond these, probabilities are worth nothing.
MANY, MUCH_CORRELATED, MUCH_WIDER = 0.05, 0.3, 1.6
# Where a larger share of the data is improbable, they may not be the data of this model at all.
ABSURD = 0.25
# Shares of displaced sites that limit the results, and that make them worthless: a displaced site is a wrong one.
DISPLACED, MUCH_DISPLACED = 0.02, 0.05
# Shares of sites at which another drift than the learned one is possible. A walk is rougher than a spline, so they are
# larger than the share of wrong sites: up to 0.03 in simulated channels whose drift was found, from 0.3 otherwise.
UNSURE, MUCH_UNSURE = 0.04, 0.1
# Improbable values in longer runs are no outliers.
RUN = 1.5
# Knots of a smooth offset per length of a wave.
KNOTS, MOST_KNOTS = 4, 400

# Parameters that say what a row adds, how wide the noise is, and how heavy its tails are.
WEIGHTS, NOISE, TAILS = ("weights", "weight", "values"), ("sd", "depth_sd", "dispersion"), "df"
# Parameters that say what signal to expect, and not how far from it the data are.
SIGNAL = ("weights", "depth", "background")
# Emissions whose parameters are known; one of a user's own may derive from them.
FAMILIES = (Gaussian, IntegratedDepth, StudentT, Poisson, NegativeBinomial)
COUNTS = ("Poisson", "NegativeBinomial")


class Traits(NamedTuple):
    """What remedies depend on. learned : names of learned parameters. row_weights : the rows themselves say what they
    add (ch.Row), and no weights of the emission. family : the emission of FAMILIES that it is, or derives from;
    otherwise "". noise : its parameters that say how wide the noise is.
    """

    learned: frozenset[str] = frozenset()
    row_weights: bool = False
    family: str = "Gaussian"
    noise: tuple[str, ...] = ("sd",)

    @classmethod
    def of(cls, model: FactorialHMM | Density | None) -> Traits:
        if not isinstance(model, FactorialHMM) or not isinstance(model.emission, Additive):
            return cls()
        emission = model.emission
        family = next((kind.__name__ for kind in FAMILIES if isinstance(emission, kind)), "")
        noise = tuple(name for name in emission.arguments if (name in NOISE if family else name not in SIGNAL))
        learned = frozenset(name.rpartition(".")[2] for name in model.parameters.names)
        return cls(learned, emission.default_weights, family, noise)

    @property
    def learn_noise(self) -> tuple[Remedy, ...]:
        """The parameters of the noise, unless one of them is learned already."""
        return tuple(map(Learn, self.noise)) if self.learned.isdisjoint(self.noise) else ()


def fit_findings(found: FitStatistics | None, traits: Traits) -> list[Finding]:
    """What the residuals say against the model."""
    if found is None:
        return []
    if found.improbable > ABSURD and _is_excess(found.improbable, UNLIKELY, IMPROBABLE, found.n):
        return [Finding("wrong-data", "none", {"share": found.improbable})]
    moving = [*_waves(found), *_lines(found), *_shift(found, traits)]
    findings = [*moving, *_beyond_levels(found, traits), *_improbable(found, traits), *_width(found, traits)]
    findings += _by_level(found, traits)
    r = found.autocorrelation
    # Waves and hum correlate neighbours: one finding is enough.
    if abs(r) > CORRELATED and abs(r) * math.sqrt(found.n_pairs) > SURE and not any(_is_bad(one) for one in moving):
        findings.append(Finding("correlated", "none" if abs(r) > MUCH_CORRELATED else "limited", {"r": r}))
    return findings


def offset_findings(model: FactorialHMM | Density | None, data: Observations | None) -> list[Finding]:
    """Whether a drift that was learned could as well be another one, with other states. `model` has no priors."""
    offset = model.offset if isinstance(model, FactorialHMM) else None
    if offset is None or offset.bound is None or offset.coefficients is None or data is None:
        return []
    assert isinstance(model, FactorialHMM)
    smooth = np.zeros(offset.bound.n_coefficients)
    for term, own in zip(offset.bound.terms, offset.bound.slices, strict=True):
        if isinstance(term, Smooth):
            smooth[own] = offset.coefficients[own]
    if not smooth.any():
        return []
    plain = shallow_copy(model)
    plain.offset = None
    rest = offset.bound.curve(offset.coefficients - smooth)
    doubt = baseline_doubt(plain, data.with_signal(data.y - rest), offset.bound.curve(smooth))
    if doubt is None or doubt < UNSURE:
        return []
    return [Finding("offset-unsure", "none" if doubt > MUCH_UNSURE else "limited", {"displaced": doubt})]


def _is_bad(finding: Finding) -> bool:
    return finding.severity == "none"


def _shift(found: FitStatistics, traits: Traits) -> list[Finding]:
    shift = found.shift
    if shift is None or abs(shift.z) < SURE or abs(shift.mean) < CORRELATED:
        return []
    facts = {"mean": shift.mean, "displaced": shift.displaced}
    counts = traits.family in COUNTS and "background" not in traits.learned
    remedies = (Learn("background", "Gamma"),) if counts else ()
    return [Finding("baseline", _of_displaced(shift.displaced, abs(shift.mean)), facts, remedies)]


def _waves(found: FitStatistics) -> list[Finding]:
    waves = found.waves
    if waves is None or waves.log_p > math.log(RARE):
        return []
    severity = _of_displaced(waves.displaced, waves.sd)
    facts = {"length": waves.length, "sd": waves.sd, "sites": found.wave_sites, "displaced": waves.displaced}
    knots = min(max(KNOTS * found.n // waves.length, 10), MOST_KNOTS)
    return [Finding("drift", severity, facts, (Use("offset", f"[ch.Smooth(knots={knots})]", f"--drift {knots}"),))]


def _lines(found: FitStatistics) -> list[Finding]:
    lines = found.lines
    if lines is None:
        return []
    # In three digits: lines that wander in phase are some frequencies wide.
    frequency = float(f"{lines.frequency / found.time_step:.3g}")
    facts = {"frequency": frequency, "unit": found.time_unit, "sd": lines.sd, "displaced": lines.displaced}
    remedy = Use("offset", f"[ch.Periodic({frequency:g})]", f"--hum {frequency:g}")
    return [Finding("hum", _of_displaced(lines.displaced, lines.sd), facts, (remedy,))]


def _of_displaced(displaced: float, sd: float) -> Severity:
    if displaced > MUCH_DISPLACED:
        return "none"
    return "limited" if displaced > DISPLACED or sd > WAVE else "note"


def _beyond_levels(found: FitStatistics, traits: Traits) -> list[Finding]:
    findings = []
    for side, share in (("above", found.above), ("below", found.below)):
        if not _is_excess(share, BEYOND, IMPROBABLE / 2, found.n):
            continue
        remedies: tuple[Remedy, ...] = ()
        if traits.family in COUNTS and side == "below":  # no further row takes counts away
            remedies = () if "background" in traits.learned else (Learn("background", "Gamma"),)
        elif traits.learned.isdisjoint(WEIGHTS) and not traits.row_weights:
            remedies = (Learn("weights", "Gamma"),)
        severity: Severity = "none" if share > MANY else "limited"
        findings.append(Finding("beyond-levels", severity, {"share": share, "side": side}, remedies))
    return findings


def _improbable(found: FitStatistics, traits: Traits) -> list[Finding]:
    rest = found.improbable - found.above - found.below
    if not _is_excess(rest, UNLIKELY, IMPROBABLE, found.n):
        return []
    severity: Severity = "none" if rest > MANY else "limited"
    if found.run > RUN:
        return [Finding("row-missing", severity, {"share": rest, "run": found.run, "site": found.worst_site})]
    facts = {"share": rest, "expected": IMPROBABLE, "site": found.worst_site}
    return [Finding("outliers", severity, facts, (*_heavier_tails(traits), *traits.learn_noise))]


def _heavier_tails(traits: Traits) -> tuple[Remedy, ...]:
    if traits.family in ("Gaussian", "IntegratedDepth"):
        return (Use("emission", "ch.StudentT(...)", "student-t"),)
    if traits.family == "StudentT" and TAILS not in traits.learned:
        return (Learn(TAILS, "Gamma"),)
    return _more_than_poisson(traits)


def _more_than_poisson(traits: Traits) -> tuple[Remedy, ...]:
    return (Use("emission", "ch.NegativeBinomial(...)", "negative-binomial"),) if traits.family == "Poisson" else ()


def _width(found: FitStatistics, traits: Traits) -> list[Finding]:
    spread = found.spread
    large = abs(math.log(max(spread, 1e-9))) > math.log(WIDER)
    if not large or abs(spread - 1) * math.sqrt(2 * found.n) <= SURE:
        return []
    if spread < 1:
        return [Finding("noise-overestimated", "limited", {"spread": spread}, traits.learn_noise)]
    remedies = _more_than_poisson(traits) or traits.learn_noise
    severity: Severity = "none" if spread > MUCH_WIDER else "limited"
    return [Finding("noise-underestimated", severity, {"spread": spread}, remedies)]


def _by_level(found: FitStatistics, traits: Traits) -> list[Finding]:
    noise = found.level_noise
    if noise is None or noise.z < SURE or abs(math.log(noise.ratio)) < math.log(WIDER):
        return []
    remedies = _more_than_poisson(traits)
    severity: Severity = "none" if abs(math.log(noise.ratio)) > math.log(MUCH_WIDER) else "limited"
    return [Finding("noise-by-level", severity, {"level": noise.level, "ratio": noise.ratio}, remedies)]


def _is_excess(share: float, large: float, expected: float, n: int) -> bool:
    """Whether a share is large, and larger than the expected one by more than chance."""
    return share > large and float(scipy.special.bdtrc(np.floor(share * n) - 1, n, expected)) < RARE
