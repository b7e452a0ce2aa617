"""Emissions: log p(y_t | column), as vectorised functions of y and the column's level, sum_k w_k x[k, t].

Every density keeps its constants, so that evidence means what it says. To add one: subclass `Additive`, give
`log_density` and `sample`, and check the parameters and the range of y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from chiasma.errors import InvalidInput
from chiasma.kernels.gaussian import gaussian_log_likelihood
from chiasma.models.observations import Floats, Observations, as_floats

MAX_ROWS = 63
_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class Emission(ABC):
    """What a model needs to know of an emission: how many rows it has, and what data it accepts."""

    n_rows: int

    @abstractmethod
    def check(self, data: Observations) -> None:
        """Raise InvalidInput where the data cannot come from this emission."""


class Additive(Emission):
    """An emission that sees a column through its level alone."""

    n_channels: int | None = None

    def __init__(self, weights: npt.ArrayLike):
        self.weights = as_floats("weights", weights)
        if self.weights.ndim != 1 or not np.all(np.isfinite(self.weights)):
            raise InvalidInput(
                f"weights must be one finite number per row, got shape {self.weights.shape}: {self.weights}"
            )
        self.n_rows = _row_count(len(self.weights))

    @abstractmethod
    def log_density(self, y: Floats, level: Floats) -> Floats:
        """log p(y | level), broadcast; y is never NaN here. With channels, they are the last axis of both."""

    @abstractmethod
    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        """One y for every level."""

    def check(self, data: Observations) -> None:
        wanted = "(T,)" if self.n_channels is None else f"(T, {self.n_channels})"
        channels = None if data.y.ndim == 1 else data.y.shape[1]
        if channels != self.n_channels:
            raise InvalidInput(
                f"{type(self).__name__} with these weights needs y of shape {wanted}, got {data.y.shape}"
            )

    def log_likelihood(self, y: Floats, level: Floats) -> Floats:
        """(n,) or (n, D) y and (S,) or (n, m) levels (with channels: a last axis D) to (n, S) or (n, m).

        Missing columns give 0.
        """
        if self.n_channels is not None:
            return self._channels(y[:, None, :], level)
        seen = ~np.isnan(y)
        if seen.all():
            return self.log_density(y[:, None], level)
        out = np.zeros((len(y), level.shape[-1]))
        out[seen] = self.log_density(y[seen, None], level if level.ndim == 1 else level[seen])
        return out

    def _channels(self, y: Floats, level: Floats) -> Floats:
        missing = np.isnan(y)
        log_density = self.log_density(np.where(missing, 0.0, y), level)
        return np.where(missing, 0.0, log_density).sum(axis=-1)


class Gaussian(Additive):
    """y ~ N(depth * level, sd^2). With weights (K, D), y has D independent channels; depth and sd may too.

    >>> emission = Gaussian(weights=[0.5, 0.5], depth=10.0, sd=1.0)
    >>> emission.log_likelihood(np.array([10.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-50.919, -0.919]]
    """

    def __init__(self, weights: npt.ArrayLike, depth: npt.ArrayLike = 1.0, sd: npt.ArrayLike = 1.0):
        given = as_floats("weights", weights)
        if given.ndim == 2 and given.size and np.all(np.isfinite(given)):
            self.weights = given
            self.n_rows = _row_count(given.shape[0])
            self.n_channels = given.shape[1]
        else:
            super().__init__(weights)
        self.depth = _parameter("depth", depth, channels=self.n_channels)
        self.sd = _parameter("sd", sd, channels=self.n_channels, positive=True)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        z = (y - self.depth * level) / self.sd
        return -0.5 * z * z - (np.log(self.sd) + _HALF_LOG_TWO_PI)

    def log_likelihood(self, y: Floats, level: Floats) -> Floats:
        n_channels = self.n_channels or 1
        shared = level.ndim == (1 if self.n_channels is None else 2)
        levels = np.ascontiguousarray(level).reshape(1 if shared else len(y), -1, n_channels)
        depth, sd = (np.broadcast_to(value, (n_channels,)).copy() for value in (self.depth, self.sd))
        out = np.empty((len(y), levels.shape[1]))
        gaussian_log_likelihood(np.ascontiguousarray(y).reshape(len(y), n_channels), levels, depth, sd, out)
        return out

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return rng.normal(self.depth * level, self.sd)


class IntegratedDepth(Additive):
    """y ~ N(depth_mean * level, sd^2 + depth_sd^2 * level^2): a depth N(depth_mean, depth_sd^2), integrated out
    at every site. The paper's tumour model.
    """

    def __init__(self, weights: npt.ArrayLike, depth_mean: float, depth_sd: float, sd: float = 1.0):
        super().__init__(weights)
        self.depth_mean = _parameter("depth_mean", depth_mean)
        self.depth_sd = _parameter("depth_sd", depth_sd, least=0.0)
        self.sd = _parameter("sd", sd, positive=True)

    def _variance(self, level: Floats) -> Floats:
        return np.asarray(self.sd**2 + (self.depth_sd * level) ** 2)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        variance = self._variance(level)
        return -0.5 * ((y - self.depth_mean * level) ** 2 / variance + np.log(variance)) - _HALF_LOG_TWO_PI

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return rng.normal(self.depth_mean * level, np.sqrt(self._variance(level)))


class StudentT(Additive):
    """y = depth * level + sd * t, with t Student's t of df degrees of freedom: Gaussian with outliers."""

    def __init__(self, weights: npt.ArrayLike, depth: float = 1.0, sd: float = 1.0, df: float = 4.0):
        super().__init__(weights)
        self.depth = _parameter("depth", depth)
        self.sd = _parameter("sd", sd, positive=True)
        self.df = _parameter("df", df, positive=True)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        df = float(self.df)
        constant = _log_rising(df / 2, np.array(0.5)) - 0.5 * np.log(df * np.pi) - np.log(self.sd)
        z = (y - self.depth * level) / self.sd
        return np.asarray(constant - 0.5 * (df + 1) * np.log1p(z * z / df))

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(self.depth * level + self.sd * rng.standard_t(self.df, np.shape(level)))


class _Counts(Additive):
    """Counts with mean depth * level + background."""

    def __init__(self, weights: npt.ArrayLike, depth: float = 1.0, background: float = 0.0):
        super().__init__(weights)
        if np.any(self.weights < 0):
            raise InvalidInput(f"weights of counts must not be negative, got {self.weights.min():g}")
        self.depth = _parameter("depth", depth, positive=True)
        self.background = _parameter("background", background, least=0.0)

    def mean(self, level: Floats) -> Floats:
        return np.asarray(self.depth * level + self.background)

    def check(self, data: Observations) -> None:
        super().check(data)
        bad = (data.y < 0) | (data.y != np.floor(data.y)) & ~np.isnan(data.y)
        if bad.any():
            site = int(np.argmax(bad))
            raise InvalidInput(
                f"{type(self).__name__} needs counts 0, 1, 2, ... (NaN: missing), got {data.y[site]:g} at column "
                f"{site}; round the data, or use Gaussian or StudentT"
            )


class Poisson(_Counts):
    """y ~ Poisson(depth * level + background)."""

    def log_density(self, y: Floats, level: Floats) -> Floats:
        mean = self.mean(level)
        return _times_log(y, mean) - mean - gammaln(y + 1.0)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return rng.poisson(self.mean(level)).astype(float)


class NegativeBinomial(_Counts):
    """Counts with mean m = depth * level + background and variance m + dispersion * m^2."""

    def __init__(self, weights: npt.ArrayLike, depth: float = 1.0, dispersion: float = 0.1, background: float = 0.0):
        super().__init__(weights, depth, background)
        self.dispersion = _parameter("dispersion", dispersion, positive=True)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        mean = self.mean(level)
        size = 1.0 / float(self.dispersion)
        log_choose = _log_rising(size, y) - gammaln(y + 1.0)
        return log_choose + _times_log(y, mean / (size + mean)) - size * np.log1p(mean / size)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        size = 1.0 / float(self.dispersion)
        return rng.poisson(rng.gamma(size, self.mean(level) / size)).astype(float)


class Custom(Additive):
    """Any density of one's own: `function(y, level)` returns log p(y | level), broadcast like NumPy's functions.

    >>> emission = Custom(lambda y, level: -np.abs(y - 3 * level) - np.log(2), weights=[1.0, 2.0])
    >>> emission.log_likelihood(np.array([3.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-3.693, -0.693]]
    """

    def __init__(self, function: Callable[[Floats, Floats], Floats], weights: npt.ArrayLike):
        super().__init__(weights)
        self.function = function

    def log_density(self, y: Floats, level: Floats) -> Floats:
        wanted = np.broadcast_shapes(np.shape(y), np.shape(level))
        out = np.asarray(self.function(y, level), dtype=float)
        if out.shape != wanted:
            raise InvalidInput(
                f"the Custom emission's function returned shape {out.shape} for y {np.shape(y)} and level "
                f"{np.shape(level)}, expected {wanted}; use NumPy functions that broadcast"
            )
        bad = np.isnan(out) | (out == np.inf)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InvalidInput(
                f"the Custom emission's function returned {out[at]} for y = {np.broadcast_to(y, wanted)[at]:g}, "
                f"level = {np.broadcast_to(level, wanted)[at]:g}; expected a number below +inf (-inf: impossible)"
            )
        return out

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        raise InvalidInput("a Custom emission cannot simulate: it has a density and no sampler; draw y yourself")


class Table(Emission):
    """Any log-likelihoods, log_lik[t, code], for models that are not additive. y is used for its missing columns
    alone: pass `np.zeros(T)`.
    """

    def __init__(self, log_lik: npt.ArrayLike):
        self.log_lik = as_floats("log_lik", log_lik)
        shape = self.log_lik.shape
        if len(shape) != 2 or shape[0] == 0 or shape[1] < 2 or shape[1] & (shape[1] - 1):
            raise InvalidInput(f"log_lik must have shape (T, 2^K), one value per column and code, got {shape}")
        bad = np.isnan(self.log_lik) | (self.log_lik == np.inf)
        if bad.any():
            t, s = (int(i) for i in np.argwhere(bad)[0])
            raise InvalidInput(f"log_lik must be numbers or -inf, got {self.log_lik[t, s]} at column {t}, code {s}")
        self.n_rows = shape[1].bit_length() - 1

    def check(self, data: Observations) -> None:
        if data.y.shape != (len(self.log_lik),):
            raise InvalidInput(
                f"the Table has {len(self.log_lik)} columns, got y of shape {data.y.shape}; "
                f"pass y of shape ({len(self.log_lik)},)"
            )


def _row_count(n_rows: int) -> int:
    if not 1 <= n_rows <= MAX_ROWS:
        raise InvalidInput(f"a model has 1..{MAX_ROWS} rows, got {n_rows} weights")
    return n_rows


def _parameter(
    name: str,
    value: npt.ArrayLike,
    channels: int | None = None,
    positive: bool = False,
    least: float = -np.inf,
) -> Floats:
    given = as_floats(name, value)
    if given.shape not in ((), (channels,)):
        expected = "a single number" if channels is None else f"a number or {channels} numbers (channels)"
        raise InvalidInput(f"{name} must be {expected}, got shape {given.shape}")
    if not np.all(np.isfinite(given)) or np.any(given < least) or (positive and np.any(given <= 0)):
        bound = "positive and finite" if positive else "finite" if least == -np.inf else f"finite and >= {least:g}"
        raise InvalidInput(f"{name} must be {bound}, got {given}")
    return given


def _log_rising(x: float, y: Floats) -> Floats:
    """log(Gamma(x + y) / Gamma(x)), by Stirling's series where the difference of two large numbers would cancel."""
    if x < 1e3:
        return np.asarray(gammaln(x + y) - gammaln(x))
    end = x + y
    series = (1 / end - 1 / x) / 12 - ((1 / end) ** 3 - (1 / x) ** 3) / 360
    return np.asarray((end - 0.5) * np.log1p(y / x) + y * (np.log(x) - 1) + series)


def _times_log(y: Floats, x: Floats) -> Floats:
    """y log x, with 0 log 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(y == 0, 0.0, y * np.log(x))
