"""Misfit: does the fitted model explain the data? Checks on residuals of posterior draws.

If the model is right, a draw of the states and parameters given the data and the data themselves come from their joint
distribution. Then u[t] = P(Y <= y[t] | states and parameters of the draw), made continuous by a uniform random number
where y is a count, is uniform and independent from site to site, and z[t] = Phi^-1(u[t]) is standard normal. No
correction for having fitted is needed, for every draw is a draw from the posterior and not the best fit. (Johnson 2007,
"Bayesian model assessment using pivotal quantities"; in hidden Markov models such z are called pseudo-residuals.)

The figures below are means over a few draws; each is judged against its distribution for a single draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.special

from chiasma.errors import InvalidInput
from chiasma.models.additive import Additive, filled
from chiasma.models.emissions import Gaussian, IntegratedDepth, NegativeBinomial, Poisson, StudentT
from chiasma.models.factorial import FactorialHMM
from chiasma.results.expected import reachable
from chiasma.types import Floats

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior

Bools = npt.NDArray[np.bool_]

# Draws whose residuals are looked at.
DRAWS = 8
# A site is improbable where a value as extreme as its own has less than this probability.
IMPROBABLE = 0.001
# Windows of equal numbers of sites in which a drift is looked for, and the fewest sites of one.
WINDOWS, FEWEST_PER_WINDOW = 20, 30
# Parameters that say what a row adds.
WEIGHTS = ("weights", "weight", "values")
# Emissions whose remedies are known (`misfit_remedies`); one of a user's own may derive from them.
FAMILIES = (Gaussian, IntegratedDepth, StudentT, Poisson, NegativeBinomial)
# Parameters of these that say how wide the noise is, and how heavy its tails are.
NOISE, TAILS = ("sd", "depth_sd", "dispersion"), "df"
# Parameters that say what signal to expect, and not how far from it the data are.
SIGNAL = ("weights", "depth", "background")
# Residuals are held within this many standard deviations: beyond, probabilities are 0 in floating point.
FARTHEST = 8.0


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """How far residuals are from those of a right model.

    n : values that were checked. improbable : share of values of probability below IMPROBABLE, which is their share
    under the model. worst_site : the most improbable one. above, below : share of values that are improbable above the
    highest, or below the lowest, reachable level. spread : standard deviation of the residuals, 1 under the model.
    autocorrelation : correlation of the residuals of neighbouring sites, 0 under the model. drift : the largest mean
    of residuals in a window of sites, in standard deviations of the noise, 0 under the model. drift_sites : the window,
    first and last site. per_window : values in a window.

    What remedies depend on: has_baseline : a row is fixed, and not off, or counts have a background. learns_weights :
    what the rows add is learned. row_weights : the rows themselves say what they add (ch.Row), and no weights of the
    emission. family : the emission of FAMILIES that it is, or derives from; otherwise "". noise : its parameters that
    say how wide the noise is; of another emission, all but SIGNAL. learns_noise : one of these is learned.
    learns_tails : how heavy the tails are is learned. learns_background : that of counts is learned.
    """

    n: int
    improbable: float
    worst_site: int
    above: float
    below: float
    spread: float
    autocorrelation: float
    n_pairs: int
    drift: float
    drift_sites: tuple[int, int]
    per_window: int
    has_baseline: bool = False
    learns_weights: bool = False
    row_weights: bool = False
    family: str = "Gaussian"
    noise: tuple[str, ...] = ("sd",)
    learns_noise: bool = False
    learns_tails: bool = False
    learns_background: bool = False


def misfit(posterior: Posterior) -> Misfit | None:
    """The checks; None where the model has no distribution function (a Table, a user's own density), or no data."""
    try:
        return _checks(posterior)
    except InvalidInput:  # the emission does not say what is asked of it
        return None


def _checks(posterior: Posterior) -> Misfit | None:
    found = [_residuals(posterior, chain, draw) for chain, draw in _some_draws(posterior)]
    residuals = [one for one in found if one is not None]
    if not residuals or posterior.data is None:
        return None
    z = np.stack(residuals)  # (n, T, D)
    seen = ~np.isnan(z[0])
    if not seen.any():
        return None
    far = scipy.special.ndtri(1 - IMPROBABLE / 2)
    low, high = _beyond(posterior)
    extreme = np.abs(z) > far
    starts = np.zeros(z.shape[1], bool)
    starts[posterior.data.starts] = True
    pairs = seen[1:] & seen[:-1] & ~starts[1:, None]
    drift, drift_sites, per_window = _drift(z, seen)
    model = posterior.model
    assert isinstance(model, FactorialHMM)
    emission = model.emission
    assert isinstance(emission, Additive)
    learned = {name.rpartition(".")[2] for name in model.parameters.names}
    family = next((kind.__name__ for kind in FAMILIES if isinstance(emission, kind)), "")
    noise = tuple(name for name in emission.arguments if (name in NOISE if family else name not in SIGNAL))
    background = "background" in learned or bool(np.any(getattr(emission, "background", 0.0)))
    return Misfit(
        n=int(seen.sum()),
        improbable=float(extreme[:, seen].mean()),
        worst_site=int(np.abs(np.nan_to_num(z)).mean(axis=0).max(axis=1).argmax()),
        above=float((extreme & high)[:, seen].mean()),
        below=float((extreme & low)[:, seen].mean()),
        spread=float(np.mean([one[seen].std() for one in z])),
        autocorrelation=_autocorrelation(z, pairs),
        n_pairs=int(pairs.sum()),
        drift=drift,
        drift_sites=drift_sites,
        per_window=per_window,
        has_baseline=any(model.fixed.values()) or background,
        learns_weights=not learned.isdisjoint(WEIGHTS),
        row_weights=emission.default_weights,
        family=family,
        noise=noise,
        learns_noise=not learned.isdisjoint(noise),
        learns_tails=TAILS in learned,
        learns_background="background" in learned,
    )


def _some_draws(posterior: Posterior) -> list[tuple[int, int]]:
    """(chain, draw), spread evenly over chains and draws, the last ones first: they are warmed up best."""
    n_chains, n_draws = posterior.draws.sizes["chain"], posterior.draws.sizes["draw"]
    if n_draws == 0:
        return []
    return [(i % n_chains, n_draws - 1 - (i * n_draws) // (2 * DRAWS)) for i in range(min(DRAWS, n_chains * n_draws))]


def _residuals(posterior: Posterior, chain: int, draw: int) -> Floats | None:
    """(T, D) residuals of one draw, NaN where missing."""
    if not isinstance(posterior.model, FactorialHMM) or not isinstance(posterior.model.emission, Additive):
        return None
    # Draws of some of the sites only cannot be set against the data.
    if posterior.data is None or posterior.data.n_columns != posterior.draws.sizes["site"]:
        return None
    one = replace(posterior, draws=posterior.codes[chain : chain + 1, draw : draw + 1])
    level = one.levels().values[0, 0]
    y = posterior.data.y
    seen = ~np.isnan(y)
    emission = posterior.model_at(chain, draw).emission
    assert isinstance(emission, Additive)
    upto, beyond = emission.tails(filled(y), level)
    share = np.random.default_rng([chain, draw]).random(y.shape)
    own = np.maximum(upto + beyond - 1.0, 0.0)  # P(Y = y) of a count, 0 of other values
    lower, upper = upto - share * own, beyond - (1 - share) * own
    # The smaller tail has all its digits; 1 minus the larger one would have none.
    z = np.where(lower < upper, scipy.special.ndtri(lower), -scipy.special.ndtri(upper))
    return np.where(seen, np.clip(z, -FARTHEST, FARTHEST), np.nan).reshape(len(y), -1)


def _beyond(posterior: Posterior) -> tuple[Bools, Bools]:
    """(T, D) whether data lie below the lowest and above the highest reachable signal."""
    assert posterior.data is not None
    y = posterior.data.y.reshape(posterior.data.n_columns, -1)
    ends = reachable(posterior)
    if ends is None:
        return np.zeros(y.shape, bool), np.zeros(y.shape, bool)
    with np.errstate(invalid="ignore"):
        return y < ends[0], y > ends[1]


def _autocorrelation(z: Floats, pairs: Bools) -> float:
    if pairs.sum() < 3:
        return math.nan
    found = []
    for one in z:
        before, after = one[:-1][pairs], one[1:][pairs]
        spread = before.std() * after.std()
        found.append(float(np.mean((before - before.mean()) * (after - after.mean())) / spread) if spread else 0.0)
    return float(np.mean(found))


def _drift(z: Floats, seen: Bools) -> tuple[float, tuple[int, int], int]:
    """The largest mean over windows of equal numbers of sites with data; the window; values in one."""
    sites = np.flatnonzero(seen.any(axis=1))
    n_windows = min(WINDOWS, len(sites) // FEWEST_PER_WINDOW)
    if n_windows < 2:
        return math.nan, (0, z.shape[1] - 1), len(sites)
    windows = np.array_split(sites, n_windows)
    means = np.array([np.nanmean(z[:, window]) for window in windows])
    worst = int(np.abs(means).argmax())
    window = windows[worst]
    return float(means[worst]), (int(window[0]), int(window[-1])), len(window)
