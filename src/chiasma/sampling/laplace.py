"""Laplace's approximation: peaks of a log density with their curvature, and proposals made of them.

A Peak is quadratic: log pi_beta(x) = beta l(x) + log p(x) has the precision beta * data + prior there, where `data` and
`prior` are the curvatures of its parts at beta = 1. At other betas its top has moved by one Newton step.

`Proposals` is a mixture of multivariate Student-t densities, one per peak, for Metropolis-Hastings steps that do not
depend on where a chain is. Rows that can change places without changing the model give every peak as many equal ones;
a proposal takes one of these orders at random, and its density is the mean over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma, log, pi
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from chiasma.models.labels import CanonicalOrder
from chiasma.sampling.learning import Learning
from chiasma.types import Floats, Integers

# Degrees of freedom of the proposals: tails a little heavier than those of a posterior with some data; where they are
# not heavy enough, trajectories serve.
FREEDOM = 5.0
# Steps of the differences of gradients, in standard deviations of the posterior.
STEP = 0.03
# Guesses that are so many times too large are corrected, so many times.
TOO_WIDE, MOST_LOOKS = 4.0, 3
# A curvature is at least this in units of the prior's scale: flatter directions are bounded.
FLATTEST = 0.01
# Orders of exchangeable rows that proposals are averaged over: those of six rows.
MOST_ORDERS = 720
# Every peak keeps at least this share of the proposals, so that none is out of reach.
LEAST_SHARE = 0.02


NO_OFFSET = np.empty(0)


class Peak(NamedTuple):
    """A maximum: coordinates (d,), log density, curvatures (d, d) of data and prior, and slope (d,) of the log prior.

    strict : whether the density falls off in every direction.
    offset : values of the offset there; the coordinates are those of the other parameters, and the curvatures hold the
        offset fixed.
    shared : (d, d) how much of the curvature is lost when the offset may follow; None: nothing.
    log_width : the log of the integral over the offset, less the log density.
    """

    free: Floats
    log_density: float
    data: Floats
    prior: Floats
    prior_slope: Floats
    strict: bool
    offset: Floats = NO_OFFSET
    shared: Floats | None = None
    log_width: float = 0.0

    def at(self, beta: float, scale: Floats) -> tuple[Floats, Floats]:
        """Top (d,) and precision (d, d) at beta."""
        precision, _ = bounded(beta * self.data + self.prior, scale)
        return self.free + np.linalg.solve(precision, (1 - beta) * self.prior_slope), precision

    def log_mass(self, scale: Floats) -> float:
        """Laplace's approximation of the log of the integral around it, at beta = 1."""
        _, log_det = np.linalg.slogdet(self.precision(scale))
        return float(self.log_density + self.log_width + 0.5 * (len(self.free) * log(2 * pi) - log_det))

    def precision(self, scale: Floats) -> Floats:
        """(d, d) at beta = 1, the offset integrated out."""
        whole = self.data + self.prior
        return bounded(whole if self.shared is None else whole - self.shared, scale)[0]


def bounded(precision: Floats, scale: Floats) -> tuple[Floats, bool]:
    """A symmetric precision without directions that are flatter than the prior's scale allows; whether it was so."""
    scaled = precision * scale * scale[:, None]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    lifted = (vectors * np.maximum(values, FLATTEST)) @ vectors.T
    return lifted / scale / scale[:, None], bool(values.min(initial=np.inf) > FLATTEST)


def peak_at(learning: Learning, free: Floats, scale: Floats, widths: Floats) -> Peak:
    """The maximum near `free`: curvature from central differences of gradients, then a Newton step if that is a gain.

    widths (d,): guesses of standard deviations. Where they were far too large, so were the steps of the differences,
    which may then reach over the top to another one: they are taken again.
    """
    value, slope = learning.value_and_slope(free, 1.0)
    for _ in range(MOST_LOOKS):
        whole, prior = _curvatures(learning, free, widths)
        precision, strict = bounded(whole, scale)
        # A coordinate alone, the others held, varies by this much.
        alone = np.where(np.diag(whole) > 0, 1 / np.sqrt(np.maximum(np.diag(whole), 1e-300)), 0.1 * widths)
        if np.all(widths < TOO_WIDE * alone):
            break
        widths = np.minimum(widths, alone)
    newton = free + np.linalg.solve(precision, slope)
    higher = learning.log_density(newton, 1.0)
    top, value = (newton, higher) if higher > value else (free, value)
    return Peak(top, value, whole - prior, prior, prior_slope(learning, top), strict)


def _curvatures(learning: Learning, free: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """(d, d) of the log density at beta = 1 and of the log prior, by central differences of gradients."""
    size = len(free)
    whole, prior = np.empty((2, size, size))
    for i in range(size):
        step = np.zeros(size)
        step[i] = STEP * widths[i]
        sides = [(learning.value_and_slope(free + sign * step, 1.0), free + sign * step) for sign in (1, -1)]
        (_, ahead), (_, behind) = (found for found, _ in sides)
        whole[i] = (behind - ahead) / (2 * step[i])
        prior[i] = np.subtract(*(prior_slope(learning, at) for _, at in reversed(sides))) / (2 * step[i])
    return (whole + whole.T) / 2, (prior + prior.T) / 2


def prior_slope(learning: Learning, free: Floats) -> Floats:
    """(d,) derivatives of the log prior of free coordinates."""
    parameters = learning.parameters
    return parameters.free_slopes(parameters.from_free(free), np.zeros(parameters.n_values))


def orders(learning: Learning) -> Floats:
    """(n, d, d) what every order of exchangeable rows does to free coordinates: a linear map with determinant 1 or -1.

    Only the identity where there are too many.
    """
    learning = learning.given(learning.parameters.centre)  # an offset does not depend on the order
    parameters, order = learning.parameters, CanonicalOrder(learning.model)
    identity = np.eye(parameters.n_free)
    if order.n_orders > MOST_ORDERS:
        return identity[None]
    maps = []
    for rows in order.orders():
        columns = [parameters.to_free(order.permuted(parameters.from_free(unit), rows)) for unit in identity]
        maps.append(np.array(columns).reshape(identity.shape).T)
    return np.array(maps)


class Proposals:
    """A mixture of Student-t densities: tops (M, d), covariances (M, d, d), shares (M,), maps as `orders` gives."""

    def __init__(self, tops: Floats, covariances: Floats, shares: Floats, maps: Floats):
        self.tops = tops
        self.covariances = covariances
        self.shares = shares
        self.maps = maps
        size = tops.shape[1]
        self.roots = np.linalg.cholesky(covariances)
        self._inverses = np.array(
            [scipy.linalg.solve_triangular(root, np.eye(size), lower=True) for root in self.roots]
        )
        self._constants = (
            np.log(self.shares)
            - np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
            + (lgamma((FREEDOM + size) / 2) - lgamma(FREEDOM / 2) - size / 2 * log(FREEDOM * pi) - log(len(maps)))
        )

    @classmethod
    def of(cls, peaks: Sequence[Peak], scale: Floats, beta: float, maps: Floats) -> Proposals:
        """The proposals of some peaks at beta."""
        placed = [peak.at(beta, scale) for peak in peaks]
        masses = np.array([beta * peak.log_mass(scale) for peak in peaks])
        covariances = np.array([np.linalg.inv(precision) for _, precision in placed])
        shares = no_share_too_small(np.exp(masses - masses.max()))
        return cls(np.array([top for top, _ in placed]), covariances, shares, maps)

    def draw(self, rng: np.random.Generator, n: int, spread: float = 1.0) -> Floats:
        """(n, d); spread: how many times as wide."""
        peak = np.minimum(np.searchsorted(np.cumsum(self.shares), rng.random(n)), len(self.shares) - 1)
        noise = rng.standard_normal((n, self.tops.shape[1]))
        stretch = spread * np.sqrt(FREEDOM / rng.chisquare(FREEDOM, n))
        drawn = self.tops[peak] + (self.roots[peak] @ noise[:, :, None])[:, :, 0] * stretch[:, None]
        if len(self.maps) == 1:
            return drawn
        order = rng.integers(len(self.maps), size=n)
        return np.asarray((self.maps[order] @ drawn[:, :, None])[:, :, 0])

    def log_density(self, x: Floats) -> Floats:
        """(n,) log density of proposing each of x (n, d)."""
        terms = self._terms(x).reshape(-1, len(x))
        top = terms.max(axis=0)
        return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)))

    def nearest(self, x: Floats) -> tuple[Integers, Floats]:
        """(n,) the peaks that points x (n, d) most likely come from, and (n, d) the points in the order of rows in
        which they do.
        """
        best = self._terms(x).reshape(-1, len(x)).argmax(axis=0)
        peaks, order = np.divmod(best, len(self.maps))
        return peaks, np.asarray((self.maps[order] @ x[:, :, None])[:, :, 0])

    def claim(self, x: Floats, rng: np.random.Generator) -> tuple[int, Floats, float]:
        """Draw the part of the mixture that a point x (d,) comes from, in proportion to their densities there: its
        peak, x in the order of rows of that part, and the log of its probability, which is `log_share` there.
        """
        log_shares = self._log_shares(x)
        part = min(int(np.searchsorted(np.cumsum(np.exp(log_shares)), rng.random())), log_shares.size - 1)
        peak, order = divmod(part, len(self.maps))
        return peak, self.maps[order] @ x, float(log_shares.flat[part])

    def log_share(self, x: Floats, peak: int) -> float:
        """Log probability that x (d,) comes from a peak, with its rows in the order that they have."""
        return float(self._log_shares(x).flat[peak * len(self.maps)])  # the first of the orders changes nothing

    def _log_shares(self, x: Floats) -> Floats:
        """(M, orders): how the density at x (d,) is divided among all parts."""
        terms = self._terms(x[None])[:, :, 0]
        return np.asarray(terms - scipy.special.logsumexp(terms))

    def _terms(self, x: Floats) -> Floats:
        """(M, orders, n): logs of the parts of all peaks and orders in the density at x (n, d)."""
        size = x.shape[1]
        moved = np.moveaxis(self.maps @ x.T, 1, 0).reshape(size, len(self.maps) * len(x))
        squares = np.square(self._inverses @ (moved - self.tops[:, :, None])).sum(axis=1)
        terms = self._constants[:, None] - (FREEDOM + size) / 2 * np.log1p(squares / FREEDOM)
        return np.asarray(terms.reshape(len(self.tops), len(self.maps), len(x)))


def no_share_too_small(shares: Floats) -> Floats:
    """Positive numbers as shares that add up to 1, each large enough to be proposed now and then."""
    lifted = np.maximum(shares / shares.sum(), LEAST_SHARE)
    return np.asarray(lifted / lifted.sum())
