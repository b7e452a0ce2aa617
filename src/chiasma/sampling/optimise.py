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
from chiasma.hints import hinted
from chiasma.limits import MOST_STARTS
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import CanonicalOrder
from chiasma.models.observations import Observations
from chiasma.models.parameters import Parameters
from chiasma.results.optima import Optima, Optimum
from chiasma.sampling.excerpts import Excerpt, evenly, excerpt, stretches
from chiasma.sampling.laplace import Peak, orders, peak_at
from chiasma.sampling.learning import Learning
from chiasma.sampling.offset_search import (
    Place,
    carry,
    climb_together,
    peak_with_offset,
    polish,
    settled,
    tilings,
    tracked,
    with_baselines,
    with_curve,
    without_hum,
)
from chiasma.sampling.progress import Progress
from chiasma.sampling.starts import SignalTraits, look_at, start_from_data
from chiasma.sampling.streams import fresh_entropy
from chiasma.sampling.threads import Pool
from chiasma.types import Floats, Seed, as_count

# Iterations of the first climb of every start, and of the second of the best.
FIRST_CLIMB, LAST_CLIMB = 50, 150
# Iterations on all columns of what an excerpt found.
SECOND_CLIMB = 15
# A long signal is judged by an excerpt of at least this many columns, in this many stretches.
FEW_COLUMNS, N_STRETCHES = 2000, 8
# Where an offset is learned: least stretches and columns of the two excerpts, iterations on each, and how many
# climbs go on to the second and to the whole signal.
EXCERPTS = ((2, 6_000), (6, 24_000))
LOW_CLIMB, MIDDLE_CLIMB, MIDDLE, HIGH = 12, 30, 8, 2
# Climbs are one where no parameter differs by more, in widths of its prior.
ALIKE = 0.03
# On all columns they also have the same height, for offsets may differ.
HEIGHT = 1.0
# Tops this far below the best have no share of the posterior, unless they are among the first few.
DEEPEST, LEAST = 60.0, 2
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


@hinted
def optimise(
    model: FactorialHMM,
    data: Observations | npt.ArrayLike,
    starts: int = 32,
    seed: Seed = None,
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
    seed : a number, a Generator or a SeedSequence. The same seed gives the same optima for any number of workers.
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
    as_count("starts", starts, most=MOST_STARTS)
    learning = Learning(model, Observations.of(data))
    if not learning.parameters:
        raise InvalidInput("optimise needs a model with priors, got none; try sd=ch.HalfNormal(1)")
    entropy = fresh_entropy(seed)
    display = Progress(progress, f"optimise: {starts} starts", entropy, last="curvatures")
    try:
        peaks = find_peaks(learning, int(starts), entropy, workers, display)
    finally:
        display.close()
    optima = as_optima(learning, peaks, int(starts))
    for finding in optima.findings:
        display.say(str(finding))
    return optima


optimize = optimise


def find_peaks(
    learning: Learning, starts: int, entropy: int, workers: int | None, display: Progress
) -> list[tuple[Peak, int]]:
    """Peaks in the order of their masses, and how many starts led to each. Masses that are only guesses come last."""
    learning.parameters.check_gradients()
    if learning.parameters.offset is not None:
        return _find_with_offset(learning, starts, entropy, workers, display)
    at_once = workers or os.cpu_count() or 1
    first = _first_excerpt(learning)
    signal = look_at(learning.data)

    def low(i: int) -> Climb | None:
        free = _start(first, signal, i, entropy)
        return None if free is None else climb(first, free, FIRST_CLIMB)

    with Pool(at_once) as pool:
        display.begin("first climbs", starts, at_once=at_once)
        chosen = merge(first, _possible(list(_each(pool, low, range(starts), display)), starts))[:MOST]
        if first is not learning:
            display.begin("climbs on all columns", len(chosen), at_once=at_once)
            chosen = merge(
                learning, list(_each(pool, lambda one: _finish(learning, one, SECOND_CLIMB), chosen, display))
            )
            chosen = _that_matter(chosen)
        display.begin("last climbs", len(chosen), at_once=at_once)
        chosen = merge(learning, list(_each(pool, lambda one: _finish(learning, one, LAST_CLIMB), chosen, display)))
        chosen = _that_matter(chosen)
        display.begin("curvatures", len(chosen), at_once=at_once)
        scale = learning.parameters.scale
        peaks = list(_each(pool, lambda one: peak_at(learning, one.free, scale, one.widths), chosen, display))
    return _sorted(learning, [(peak, one.starts) for peak, one in zip(peaks, chosen, strict=True)])


def _find_with_offset(
    learning: Learning, starts: int, entropy: int, workers: int | None, display: Progress
) -> list[tuple[Peak, int]]:
    """The same where an offset is learned, see `offset_search`."""
    for text in learning.parameters.offset.found if learning.parameters.offset is not None else ():
        display.say(text)
    at_once = workers or os.cpu_count() or 1
    cuts = tilings(learning)
    pieces = cuts[0]
    length = max(b - a for a, b in pieces)
    few, more = (excerpt(learning, evenly(pieces, max(n, n_columns // length))) for n, n_columns in EXCERPTS)
    wholes = [excerpt(learning, cut) for cut in cuts]
    hums = {id(part): without_hum(part) for part in (few, more, *wholes)}
    signal = look_at(few.learning.data.with_signal(_centred(few, hums[id(few)])))

    def search(part: Excerpt, free: Floats, most: int) -> Climb:
        placed = with_baselines(part, free, hums[id(part)])
        found = climb_together(part.learning, placed, most)
        return _climb(part.learning, found)

    def low(i: int) -> Climb | None:
        free = _start(few.learning, signal, i, entropy)
        return None if free is None else search(few, free, LOW_CLIMB)

    def middle(one: Climb) -> Climb:
        free = _moved(few.learning, more.learning, one.free)
        return search(more, free, MIDDLE_CLIMB)._replace(starts=one.starts)

    def high(one: Climb) -> Climb:
        curves = []
        for whole in wholes:
            found = carry(whole, _moved(more.learning, whole.learning, one.free), hums[id(whole)])
            curves += [_filled_in(learning, whole, curve) for curve in found]
        rivals = [with_curve(learning, one.free, curve, smoothness) for curve in curves]
        # Baselines that are wrong somewhere lose by far more than what climbing higher would gain.
        best = max((settled(learning, free) for free in rivals), key=lambda place: place.log_density)
        best = tracked(learning, polish(learning, best, 3, 10), smoothness)
        return _climb(learning, best)._replace(starts=one.starts)

    smoothness = learning.parameters.to_free(_rough_centre(learning))
    with Pool(at_once) as pool:
        display.begin("first climbs", starts, at_once=at_once)
        chosen = _possible(list(_each(pool, low, range(starts), display)), starts)
        chosen = _merge_alike(few.learning, chosen)[:MIDDLE]
        display.begin("climbs on more columns", len(chosen), at_once=at_once)
        chosen = _merge_alike(more.learning, list(_each(pool, middle, chosen, display)))[:HIGH]
        display.begin("climbs on all columns", len(chosen), at_once=at_once)
        chosen = _that_matter(_merge_alike(learning, list(_each(pool, high, chosen, display)), HEIGHT))
        display.begin("last climbs", len(chosen), at_once=at_once)
        last = [polish(learning, Place(one.free, one.log_density), 6, 25) for one in chosen]
        chosen = [_climb(learning, found)._replace(starts=one.starts) for found, one in zip(last, chosen, strict=True)]
        chosen = _that_matter(_merge_alike(learning, chosen, HEIGHT))
        display.begin("curvatures", len(chosen), at_once=at_once)
        peaks = list(_each(pool, lambda one: peak_with_offset(learning, one.free), chosen, display))
    return _sorted(learning, [(peak, one.starts) for peak, one in zip(peaks, chosen, strict=True)])


def _centred(part: Excerpt, hum: Floats) -> Floats:
    """The signal of an excerpt without hum, and every stretch without its median."""
    y = part.learning.data.y - hum
    for a, b in zip(part.bounds[:-1], part.bounds[1:], strict=True):
        if not np.isnan(y[a:b]).all():
            y[a:b] -= np.nanmedian(y[a:b])
    return y


def _rough_centre(learning: Learning) -> Floats:
    """(P,) typical values, with smoothnesses that leave an offset free to follow a curve."""
    parameters, offset = learning.parameters, learning.parameters.offset
    assert offset is not None
    named = parameters.unpack(parameters.centre)
    sizes = {own.smoothness_name: own.scale for own in offset.bound if own.n_smoothness}
    named |= {name: np.full(named[name].shape, (0.01 * size) ** -2) for name, size in sizes.items()}
    return np.concatenate([np.ravel(named[slot.name]) for slot in parameters.slots])


def _filled_in(learning: Learning, whole: Excerpt, curve: Floats) -> Floats:
    out = np.zeros(learning.data.n_columns)
    out[whole.columns] = curve
    return out


def _climb(learning: Learning, place: Place) -> Climb:
    parameters = learning.parameters
    n_own = len(parameters.of_chains) + len(parameters.of_emission)
    return Climb(in_order(learning, place.free), place.log_density, parameters.scale[:n_own])


def _merge_alike(learning: Learning, climbs: Sequence[Climb], height: float = np.inf) -> list[Climb]:
    """The distinct ones, highest first, of climbs that have not reached the top yet: those with about the same
    parameters of rows and emission are one, unless their heights differ by more.
    """
    distinct: list[Climb] = []
    for one in sorted(climbs, key=lambda climb: -climb.log_density):
        for i, other in enumerate(distinct):
            away = (one.free - other.free)[: len(one.widths)] / one.widths
            apart = np.max(np.abs(away), initial=0.0) >= ALIKE or other.log_density - one.log_density > height
            if not apart:
                distinct[i] = other._replace(starts=other.starts + one.starts)
                break
        else:
            distinct.append(one)
    return distinct


def _moved(one: Learning, other: Learning, free: Floats) -> Floats:
    """Free coordinates of another excerpt with the same parameters of rows and emission."""
    n_own = len(one.parameters.of_chains) + len(one.parameters.of_emission)
    moved = other.parameters.to_free(other.parameters.centre)
    moved[:n_own] = free[:n_own]
    return moved


def _first_excerpt(learning: Learning) -> Learning:
    """The problem on which starts are judged: all of the signal, or an eighth of a long one."""
    n_columns = learning.data.n_columns
    n = max(FEW_COLUMNS, n_columns // 8)
    if n_columns < 3 * n:
        return learning
    pieces = stretches(learning.data, max(n // N_STRETCHES, 1))
    return excerpt(learning, evenly(pieces, N_STRETCHES)).learning


def _start(learning: Learning, signal: SignalTraits, i: int, entropy: int) -> Floats | None:
    """Free coordinates of a start at which the data are possible."""
    rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(i,)))
    for _ in range(TRIES):
        values = learning.sample_prior(rng)
        if i % 2:
            moved = start_from_data(learning.model, signal, values, rng)
            values = moved if learning.admits(moved) else values
        free = learning.parameters.to_free(values)
        if np.isfinite(free).all() and learning.log_density(free, 1.0) > -np.inf:
            return free
    return None


def _possible(found: Sequence[Climb | None], starts: int) -> list[Climb]:
    possible = [one for one in found if one is not None and one.log_density > -IMPOSSIBLE]
    if not possible:
        raise InvalidInput(
            f"the posterior density is zero or not finite at all {starts} starts, {TRIES} draws from the priors "
            "each; check the data against the emission (a background keeps counts possible), and the priors "
            "against the data"
        )
    return possible


def _that_matter(climbs: Sequence[Climb]) -> list[Climb]:
    """Those that may have a part of the posterior, and the best few in any case."""
    best = climbs[0].log_density
    return [one for i, one in enumerate(climbs) if i < LEAST or one.log_density > best - DEEPEST]


def _sorted(learning: Learning, found: list[tuple[Peak, int]]) -> list[tuple[Peak, int]]:
    apart = _apart(found, _own_scale(learning))
    return sorted(apart, key=lambda pair: (not pair[0].strict, -_log_mass(learning, pair[0])))


def _own_scale(learning: Learning) -> Floats:
    """(d,) widths of the priors of all parameters but those of an offset."""
    parameters = learning.parameters
    return parameters.scale[: len(parameters.of_chains) + len(parameters.of_emission)]


def _finish(learning: Learning, low: Climb, most: int) -> Climb:
    return climb(learning, low.free, most)._replace(starts=low.starts)


def _each(pool: Pool, function: Callable[[Any], Any], tasks: Sequence[Any], display: Progress) -> list[Any]:
    """Results in the order of the tasks."""
    found = []
    for one in pool.map(function, tasks):
        found.append(one)
        display.tick()
    return found


def climb(learning: Learning, start: Floats, most: int) -> Climb:
    """L-BFGS from a start, for at most this many iterations; exchangeable rows are then in canonical order."""
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
    parameters, scale = learning.parameters, _own_scale(learning)
    masses = np.array([_log_mass(learning, peak) for peak, _ in peaks])
    shares = scipy.special.softmax(masses)
    found = []
    for (peak, starts), mass, share in zip(peaks, masses, shares, strict=True):
        own = learning.given(np.concatenate([parameters.centre[: parameters.n_own], peak.offset])).parameters
        values = np.concatenate([own.from_free(peak.free), peak.offset])
        named = parameters.unpack(values)
        covariance = np.asarray(np.linalg.inv(peak.precision(scale)), float)
        found.append(
            Optimum(
                values=named,
                sd=own.unpack(_deviations(own, peak.free, covariance)),
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
    scale = _own_scale(learning)
    away = orders(learning) @ peak.free - peak.free
    n_same = np.sum(np.einsum("ni,ij,nj->n", away, peak.at(1.0, scale)[1], away) < SAME)
    return float(peak.log_mass(scale) + np.log(CanonicalOrder(learning.model).n_orders / n_same))


def _deviations(parameters: Parameters, free: Floats, covariance: Floats) -> Floats:
    """(P,) standard deviations of the values at many points around an optimum."""
    noise = np.random.default_rng(0).standard_normal((len(free), 200))
    points = (free[:, None] + np.linalg.cholesky(covariance) @ noise).T
    return np.asarray(np.std([parameters.from_free(at) for at in points], axis=0))
