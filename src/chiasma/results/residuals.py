"""Residuals of posterior draws, and what is wrong with them: waves, hum, noise that depends on the level.

If the model is right, a draw of the states and parameters given the data and the data themselves come from their joint
distribution. Then u[t] = P(Y <= y[t] | states and parameters of the draw), made continuous by a uniform random number
where y is a count, is uniform and independent from site to site, and z[t] = Phi^-1(u[t]) is standard normal. No
correction for having fitted is needed, for every draw is a draw from the posterior and not the best fit. (Johnson 2007,
"Bayesian model assessment using pivotal quantities"; in hidden Markov models such z are called pseudo-residuals.)

z: (n, S), n draws at S sites with data. A mean of S standard normal numbers, times sqrt(S), is standard normal, and so
is every Fourier coefficient; averages over draws vary less, so tests by the normal distribution are conservative.

How much a wave harms. Let r be the part of the variance of a mean (or Fourier coefficient) that lies between draws; the
draws differ by their states only. If the model is right, r is also how far states follow a wave that is added to the
data (linear response: the posterior variance of a sum of levels over the variance of the noise). So residuals show
1 - r of a wave and the states have swallowed r of it: a wave w of the residuals comes with an error w r / (1 - r) of
the levels. Divided by the distance between rival levels, it is the share of displaced sites. Both w and r are taken
from windows of which there are many. A drift may be most significant in windows of a tenth of the signal,
and from ten windows r is unknown; but a slow wave is in shorter windows too, and r depends little on their length once
they are longer than the errors of the states. Windows also average out the faster part of a drift, so the w of the
longest ones would be too small.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.types import Floats

# Windows have these numbers of sites with data and more, by factors of two.
SHORTEST = 32
# Waves are measured at lengths with this many windows: r is then known to about a fifteenth, with eight draws.
MANY = 64
# Waves with fewer periods than this along the signal are drift and not hum.
FEWEST_PERIODS = 8
# Frequencies on either side by which the level of the spectrum and the response are estimated.
AROUND = 50
# Lines with a larger probability are noise; the largest share of a response.
LINE, MOST_RESPONSE = 1e-4, 0.95
# A line is a harmonic if it is this near to a multiple, in fundamental frequencies.
NEAR = 0.02
# Levels with fewer sites, or a smaller share of them, are not judged.
FEWEST_OF_LEVEL, LEAST_OF_LEVEL = 100, 0.01


class Waves(NamedTuple):
    """Slow waves. sd: of the residual means of windows, beyond what chance explains, in windows that are long but many.
    length: of the windows whose means are least probable, in sites with data. first, last: the worst of these, by place
    among these sites. log_p: log probability of so large a mean under the model, whatever the window. displaced: share
    of sites with a wrong state because of the waves. response: how far states follow them.
    """

    sd: float
    length: int
    first: int
    last: int
    log_p: float
    displaced: float
    response: float


class Shift(NamedTuple):
    """A mean residual that is not 0. z: in standard errors."""

    mean: float
    z: float
    displaced: float


class Hum(NamedTuple):
    """Periodic residuals. frequency: of the fundamental, per site. sd: of all lines together."""

    frequency: float
    sd: float
    log_p: float
    displaced: float


class LevelNoise(NamedTuple):
    """The level whose noise differs most from the rest: ratio of the widths; z: in standard errors."""

    level: float
    ratio: float
    z: float


def distance(z: Floats) -> float:
    """Mean distance of two draws at sites where they differ, in noise SDs; NaN where they never do."""
    apart = np.abs(np.diff(z, axis=0))
    apart = apart[apart > 1e-9]
    return float(apart.mean()) if apart.size else math.nan


def slow_waves(z: Floats) -> Waves | None:
    """Where means of windows are least probable under the model, and how large the waves are; None for few sites.

    >>> rng = np.random.default_rng(1)
    >>> noise = rng.standard_normal((1, 4_000))
    >>> found = slow_waves(noise + np.sin(np.arange(4_000) / 300))
    >>> slow_waves(noise).log_p > -5, found.log_p < -100, round(found.sd, 1)
    (True, True, 0.6)
    """
    n, size = z.shape
    if size < 2 * SHORTEST:
        return None
    # The mean of all is judged by itself (`shift`).
    sums = np.concatenate([np.zeros((n, 1)), np.cumsum(z - z.mean(), axis=1)], axis=1)
    n_lengths = 1 + int(math.log2(size / (2 * SHORTEST)))
    found = []
    for length in (SHORTEST << np.arange(n_lengths)).tolist():
        first = np.arange(0, size - length + 1, length // 2)
        means = (sums[:, first + length] - sums[:, first]) / math.sqrt(length)
        average = means.mean(axis=0)
        worst = int(np.abs(average).argmax())
        log_p = math.log(2 * len(first) * n_lengths) + float(scipy.special.log_ndtr(-np.abs(average[worst])))
        found.append((log_p, length, int(first[worst]), means))
    log_p, length, start, _ = min(found, key=itemgetter(0))
    many = [one for one in found if size >= MANY * one[1]] or found[:1]
    _, measured, _, measured_means = min(many, key=itemgetter(0))
    response, sd = _amplitude(measured, measured_means)
    return Waves(sd, length, start, start + length - 1, log_p, _displaced(sd, response, distance(z)), response)


def _amplitude(length: int, means: Floats) -> tuple[float, float]:
    """How far states follow, and the sd of the residual means beyond what chance explains."""
    n = len(means)
    response = float(means.var(axis=0, ddof=1).mean()) if n > 1 else 0.0
    excess = float(np.mean(means.mean(axis=0) ** 2)) - _expected(response, n)
    return response, math.sqrt(max(excess, 0.0) / length)


def shift(z: Floats, response: float) -> Shift:
    """The mean residual. response: how far states follow slow waves."""
    mean = float(z.mean())
    return Shift(mean, mean * math.sqrt(z.shape[1]), _displaced(abs(mean), response, distance(z)))


def periodic(z: Floats, sites: npt.NDArray[np.integer], n_sites: int) -> Hum | None:
    """Lines in the periodogram of the residuals at `sites` of n_sites; None where there are none.

    >>> rng, t = np.random.default_rng(1), np.arange(5_000)
    >>> hum = np.sin(2 * np.pi * t / 20) + 0.5 * np.sin(2 * np.pi * 3 * t / 20)
    >>> noise = rng.standard_normal((1, 5_000))
    >>> periodic(noise, t, 5_000), round(periodic(noise + hum, t, 5_000).frequency, 4)
    (None, 0.05)
    """
    n, size = z.shape
    top = (n_sites - 1) // 2  # the highest frequency has another distribution
    if top <= FEWEST_PERIODS + 2:
        return None
    whole = np.zeros((n, n_sites))
    whole[:, sites] = z
    waves = np.fft.rfft(whole, axis=1)[:, FEWEST_PERIODS : top + 1] / math.sqrt(size)
    power = np.abs(waves.mean(axis=0)) ** 2
    # Filtered noise lifts wide parts of the spectrum; of exponential numbers, log 2 is the median.
    base = np.maximum(_running_median(power) / math.log(2), 1.0)
    log_p = math.log(len(power)) - power / base
    lines = np.flatnonzero(log_p < math.log(LINE))
    if not len(lines):
        return None
    between = (np.abs(waves - waves.mean(axis=0)) ** 2).sum(axis=0) / (n - 1) if n > 1 else np.zeros(len(power))
    gap = distance(z)
    sds = np.sqrt(2 * np.maximum(power[lines] - base[lines], 0.0) / size)
    near = [between[max(0, i - AROUND) : i + AROUND + 1].mean() for i in lines.tolist()]
    moved = [_displaced(float(sd), float(response), gap) for sd, response in zip(sds, near, strict=True)]
    frequency = _fundamental((lines + FEWEST_PERIODS) / n_sites, power[lines])
    return Hum(frequency, float(np.hypot.reduce(sds)), float(log_p.min()), min(1.0, float(np.hypot.reduce(moved))))


def _running_median(power: Floats) -> Floats:
    """The median of blocks of frequencies, interpolated."""
    width = 2 * AROUND
    cuts = np.arange(0, max(len(power) - width, 0) + 1, width)
    middle = [float(np.median(power[a : a + width])) for a in cuts]
    return np.interp(np.arange(len(power)), cuts + width / 2, middle)


def _fundamental(frequencies: Floats, power: Floats) -> float:
    """The line of whose multiples the lines have most power; the highest such line."""
    multiples = frequencies[None, :] / frequencies[:, None]
    harmonic = (np.abs(multiples - np.round(multiples)) < NEAR) & (np.round(multiples) >= 1)
    held = harmonic @ power
    return float(frequencies[np.flatnonzero(held >= 0.999 * held.max())].max())


def _expected(response: float, n: int) -> float:
    """Variance of an average over n draws if the model is right: what all have in common, and a part of the rest."""
    return 1 - response + response / n


def _displaced(sd: float, response: float, gap: float) -> float:
    if math.isnan(gap):
        return 0.0
    return min(1.0, sd * response / max(1 - response, 1 - MOST_RESPONSE) / gap)


def noise_by_level(z: Floats, signal: Floats) -> LevelNoise | None:
    """One draw, z and signal (S,): the level with the most surely different noise; None where all sites have one.

    >>> rng, signal = np.random.default_rng(1), np.repeat([1.0, 2.0], 1_000)
    >>> found = noise_by_level(rng.standard_normal(2_000) * signal, signal)
    >>> found.level, round(found.ratio, 1), found.z > 10
    (2.0, 2.1, True)
    """
    levels, group, counts = np.unique(np.round(signal, 9), return_inverse=True, return_counts=True)
    n = len(z)
    judged = (counts >= np.maximum(FEWEST_OF_LEVEL, LEAST_OF_LEVEL * n)) & (n - counts >= FEWEST_OF_LEVEL)
    if not judged.any():
        return None
    squares = np.bincount(group, z**2)
    own, rest = squares[judged] / counts[judged], (squares.sum() - squares[judged]) / (n - counts[judged])
    log_ratio = 0.5 * np.log(own / rest)
    score = np.abs(log_ratio) / np.sqrt(0.5 / counts[judged] + 0.5 / (n - counts[judged]))
    worst = int(score.argmax())
    ratio, level = math.exp(log_ratio[worst]), float(levels[judged][worst])
    # Of two levels each differs as surely from the other: the wider one is named.
    if ratio < 1 and judged.sum() == len(levels) == 2:
        ratio, level = 1 / ratio, float(levels[1 - worst])
    return LevelNoise(level, ratio, float(score[worst]))


def autocorrelation(z: Floats, pairs: npt.NDArray[np.bool_]) -> float:
    """Of neighbours, z (n, T) and pairs (T - 1,) those that both have data; the mean over draws."""
    if pairs.sum() < 3:
        return math.nan
    found = []
    for one in z:
        before, after = one[:-1][pairs], one[1:][pairs]
        spread = before.std() * after.std()
        found.append(float(np.mean((before - before.mean()) * (after - after.mean())) / spread) if spread else 0.0)
    return float(np.mean(found))


def run_length(extreme: npt.NDArray[np.bool_], pairs: npt.NDArray[np.bool_]) -> float:
    """Mean length of runs of extreme values, (n, T) draws: 1 / (1 - P(the next is extreme as well)).

    >>> extreme = np.array([[True, True, True, False, True, True, True, False]])
    >>> run_length(extreme, np.ones(7, bool))
    3.0
    """
    here = (extreme[:, :-1] & pairs).sum()
    both = (extreme[:, :-1] & extreme[:, 1:] & pairs).sum()
    return float(here / max(here - both, 1)) if here else 1.0
