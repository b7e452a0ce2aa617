"""optimise(): the maxima of the posterior of the parameters, by gradients from many starts.

Every start climbs for a while; the highest of the distinct places they reach then climb to the top (L-BFGS on free
coordinates). Tops that agree up to the order of exchangeable rows are one. Their curvature gives Laplace's
approximation of the mass around each: the rivals among which a posterior is divided.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.errors import InvalidInput
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import CanonicalOrder
from chiasma.models.observations import Observations
from chiasma.models.parameters import Parameters
from chiasma.results.optima import Optima, Optimum
from chiasma.sampling.laplace import Peak, orders, peak_at
from chiasma.sampling.learning import Learning
from chiasma.sampling.pools import Pool
from chiasma.sampling.progress import Progress
from chiasma.sampling.starts import look_at, start_from_data
from chiasma.sampling.streams import fresh_entropy
from chiasma.types import Floats, shown

# Iterations of the first climb of every start, and of the second of the best.
FIRST_CLIMB, LAST_CLIMB = 50, 150
# At most this many tops are followed to the end and reported.
MOST = 16
# Two tops are one where they differ by less than this, in standard deviations of either, squared and summed.
SAME = 0.5
# Draws of a start from the prior before it counts as impossible.
TRIES = 50
# A climb ends where an iteration gains less than this share of the log density; one Newton step does the rest.
FLAT = 1e-10
# What an impossible point costs: more than any possible one.
IMPOSSIBLE = 1e100


class Climb(NamedTuple):
    """Where a climb ended: coordinates (d,), log density, and rough standard deviations (d,) there."""

    free: Floats
    log_density: float
    widths: Floats
    starts: int = 1


def optimise(
    model: FactorialHMM,
    data: Observations | npt.ArrayLike,
    starts: int = 32,
    seed: int | None = None,
    *,
    workers: int | None = None,
    progress: bool = True,
) -> Optima:
    """The distinct maxima of the posterior of the parameters with the paths integrated out, best first.

    Parameters
    ----------
    model : a model with priors.
    data : Observations, or the signal as an array (T,) or (T, D).
    starts : draws from the prior; every second one is moved to what the signal suggests (its noise, the range of its
        levels, how often it jumps).
    seed : the same seed gives the same optima for any number of workers.
    workers : threads; default: one per core.
    progress : say how far it is, on stderr.

    Returns
    -------
    Optima: print it for a table; `.best` has the most posterior mass around it, and `.best.values` its parameters.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(
    ...     rows=ch.Switches(0.05, 0.05),
    ...     emission=ch.Gaussian(ch.Dirichlet([2, 2]), depth=ch.Gamma(2, 0.2), sd=ch.HalfNormal(2)),
    ... )
    >>> _, y = model.at({"weights": [0.3, 0.7], "depth": 10.0, "sd": 0.5}).simulate(200, seed=1)
    >>> best = ch.optimise(model, y, starts=8, seed=1, progress=False).best
    >>> best.values["weights"].round(1).tolist(), round(float(best.values["depth"]))
    ([0.3, 0.7], 10)
    """
    if starts < 1 or starts != int(starts):
        raise InvalidInput(f"starts must be a whole number of at least 1, got {shown(starts)}")
    if not model.parameters:
        raise InvalidInput("optimise needs a model with priors, got none; try sd=ch.HalfNormal(1)")
    learning = Learning(model, Observations.of(data))
    entropy = fresh_entropy(seed)
    display = Progress(progress, f"optimise: {starts} starts", entropy, last="curvatures")
    try:
        peaks = find_peaks(learning, int(starts), entropy, workers, display)
    finally:
        display.close()
    optima = as_optima(learning, peaks, int(starts))
    for text in optima.warnings:
        display.say(f"warning: {text}")
    return optima


def find_peaks(
    learning: Learning, starts: int, entropy: int, workers: int | None, display: Progress
) -> list[tuple[Peak, int]]:
    """Peaks in the order of their masses, and how many starts led to each. Masses that are only guesses come last."""
    learning.parameters.check_gradients()
    signal = look_at(learning.data)

    def first(i: int) -> Climb | None:
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(i,)))
        for _ in range(TRIES):
            values = learning.sample_prior(rng)
            if i % 2:
                moved = start_from_data(learning.model, signal, values, rng)
                values = moved if learning.admits(moved) else values
            free = learning.parameters.to_free(values)
            if np.isfinite(free).all() and learning.log_density(free, 1.0) > -np.inf:
                return climb(learning, free, FIRST_CLIMB)
        return None

    at_once = workers or os.cpu_count() or 1
    with Pool(at_once) as pool:
        display.begin("first climbs", starts, at_once=at_once)
        low = [one for one in _each(pool, first, range(starts), display) if one is not None]
        if not low:
            raise InvalidInput(
                f"the posterior density is zero or not finite at all {starts} starts, {TRIES} draws from the priors "
                "each; check the data against the emission (a background keeps counts possible), and the priors "
                "against the data"
            )
        chosen = merge(learning, low)[:MOST]
        display.begin("last climbs", len(chosen), at_once=at_once)
        high = list(_each(pool, lambda one: _finish(learning, one), chosen, display))
        chosen = merge(learning, high)
        display.begin("curvatures", len(chosen), at_once=at_once)
        scale = learning.parameters.scale
        peaks = list(_each(pool, lambda one: peak_at(learning, one.free, scale, one.widths), chosen, display))
    found = _apart([(peak, one.starts) for peak, one in zip(peaks, chosen, strict=True)], scale)
    return sorted(found, key=lambda pair: (not pair[0].strict, -_log_mass(learning, pair[0])))


def _finish(learning: Learning, low: Climb) -> Climb:
    return climb(learning, low.free, LAST_CLIMB)._replace(starts=low.starts)


def _each(pool: Pool, function: Callable[[Any], Any], tasks: Sequence[Any], display: Progress) -> list[Any]:
    """Results in the order of the tasks."""
    found = []
    for one in pool.map(function, tasks):
        found.append(one)
        display.tick()
    return found


def climb(learning: Learning, start: Floats, most: int) -> Climb:
    """L-BFGS from a start, for at most so many iterations; the order of exchangeable rows is then the canonical one."""
    scale = learning.parameters.scale

    def cost(away: Floats) -> tuple[float, Floats]:
        value, slope = learning.value_and_slope(start + scale * away, 1.0)
        return (-value, -slope * scale) if np.isfinite(value) else (IMPOSSIBLE, np.zeros_like(slope))

    found = scipy.optimize.minimize(
        cost,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most, "maxcor": 20, "ftol": FLAT, "gtol": 1e-4},
    )
    widths = np.sqrt(np.maximum(np.diag(found.hess_inv.todense()), 1e-12)) * scale
    free = in_order(learning, start + scale * found.x)
    return Climb(free, -float(found.fun), np.clip(widths, 1e-5 * scale, scale))


def in_order(learning: Learning, free: Floats) -> Floats:
    """Free coordinates with exchangeable rows in canonical order."""
    _, values = CanonicalOrder(learning.model)(np.zeros(1, np.int64), learning.parameters.from_free(free))
    return learning.parameters.to_free(values)


def merge(learning: Learning, climbs: Sequence[Climb]) -> list[Climb]:
    """The distinct ones, highest first. Places of about the same height nearby are the same top."""
    distinct: list[Climb] = []
    for one in sorted(climbs, key=lambda climb: -climb.log_density):
        for i, other in enumerate(distinct):
            away = np.square((one.free - other.free) / np.maximum(one.widths, other.widths)).sum()
            if away < SAME and abs(one.log_density - other.log_density) < SAME:
                distinct[i] = other._replace(starts=other.starts + one.starts)
                break
        else:
            distinct.append(one)
    return distinct


def _apart(peaks: list[tuple[Peak, int]], scale: Floats) -> list[tuple[Peak, int]]:
    """Peaks that are further apart than their curvatures say is nothing."""
    kept: list[tuple[Peak, int]] = []
    for peak, starts in sorted(peaks, key=lambda pair: -pair[0].log_density):
        for i, (other, others) in enumerate(kept):
            away = peak.free - other.free
            if away @ other.at(1.0, scale)[1] @ away < SAME:
                kept[i] = other, others + starts
                break
        else:
            kept.append((peak, starts))
    return kept


def as_optima(learning: Learning, peaks: Sequence[tuple[Peak, int]], n_starts: int) -> Optima:
    """The peaks as `ch.optimise` returns them. n_starts: from how many starts they were searched."""
    parameters, scale = learning.parameters, learning.parameters.scale
    masses = np.array([_log_mass(learning, peak) for peak, _ in peaks])
    shares = scipy.special.softmax(masses)
    found = []
    for (peak, starts), mass, share in zip(peaks, masses, shares, strict=True):
        values = parameters.from_free(peak.free)
        named = parameters.unpack(values)
        covariance = np.asarray(np.linalg.inv(peak.at(1.0, scale)[1]), float)
        found.append(
            Optimum(
                values=named,
                sd=parameters.unpack(_deviations(parameters, peak.free, covariance)),
                log_density=peak.log_density,
                log_likelihood=peak.log_density - learning.log_prior_free(values),
                log_evidence=float(mass),
                share=float(share),
                free=peak.free,
                covariance=covariance,
                strict=peak.strict,
                starts=starts,
                model=learning.model.with_unchecked_values(named),
            )
        )
    return Optima(tuple(found), n_starts)


def _log_mass(learning: Learning, peak: Peak) -> float:
    """The log of the integral around a peak, in all orders of exchangeable rows.

    Orders that leave the peak where it is, because two of its rows are the same, are one.
    """
    scale = learning.parameters.scale
    away = orders(learning) @ peak.free - peak.free
    n_same = np.sum(np.einsum("ni,ij,nj->n", away, peak.at(1.0, scale)[1], away) < SAME)
    return float(peak.log_mass(scale) + np.log(CanonicalOrder(learning.model).n_orders / n_same))


def _deviations(parameters: Parameters, free: Floats, covariance: Floats) -> Floats:
    """(P,) standard deviations of the values at many points around an optimum."""
    noise = np.random.default_rng(0).standard_normal((len(free), 200))
    points = (free[:, None] + np.linalg.cholesky(covariance) @ noise).T
    return np.asarray(np.std([parameters.from_free(at) for at in points], axis=0))
