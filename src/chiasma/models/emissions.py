"""Emissions: log p(y_t | column), as vectorised functions of y and the column's level, sum_k w_k x[k, t].

Every density includes its normalising constant, so evidences are comparable. To add one: subclass `Additive`, write
`log_density`, `sample` and `expected`, describe the constructor's `arguments`, check the parameters and the range of y,
and add a line to `EMISSIONS`.

A parameter given as a prior is learned. The emission then holds a typical value of the prior; `with_values` returns the
emission at other values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.errors import InvalidInput
from chiasma.kernels.gaussian import gaussian_log_likelihood, make_factors
from chiasma.kernels.gaussian_filter import filter_gaussian
from chiasma.models.additive import Additive, Emission, FusedFilter
from chiasma.models.arguments import NARROW_LOG_NORMAL, NORMAL, WEIGHTS, Argument
from chiasma.models.observations import Observations
from chiasma.models.priors import Prior
from chiasma.types import Floats, Integers, as_floats

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
# The fused filter is not used where one row moves the mean so far that, for y midway between two means, all its scaled
# likelihoods could be below exp(-60).
_FARTHEST = 60.0

DEPTH = Argument("signal of a level of 1.", default_prior=NORMAL)
COUNTS_DEPTH = DEPTH._replace(default_prior=NARROW_LOG_NORMAL)  # above 0
SD = Argument("standard deviation of the noise.", required=True)
BACKGROUND = Argument("mean where no row is on.")


class Gaussian(Additive):
    """y ~ N(depth * level, sd^2). With D channels, depth and sd are numbers or one for each.

    >>> emission = Gaussian(weights=[0.5, 0.5], depth=10.0, sd=1.0)
    >>> emission.log_likelihood(np.array([10.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-50.919, -0.919]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {"weights": WEIGHTS, "depth": DEPTH, "sd": SD}

    def __init__(
        self,
        weights: npt.ArrayLike | Prior | None = None,
        depth: npt.ArrayLike | Prior = 1.0,
        sd: npt.ArrayLike | Prior = 1.0,
    ):
        super().__init__(weights)
        self.depth = self._parameter("depth", depth)
        self.sd = self._parameter("sd", sd, positive=True)

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

    def summarise(self, y: Floats, group: Integers, n_groups: int) -> Any:
        return _moments(y, group, n_groups)

    def summed(self, summary: Any, level: Floats) -> float:
        n, mean, squares = summary
        squares = squares + n * (mean - self.depth * level) ** 2
        return float(np.sum(-0.5 * squares / self.sd**2 - n * (np.log(self.sd) + _HALF_LOG_TWO_PI)))

    def fused_filter(self, y: Floats, weights: Floats, base: Floats, beta: float) -> FusedFilter | None:
        if self.n_channels is not None:
            return None
        factors = make_factors(weights, float(base), float(self.depth), float(self.sd), beta)
        return partial(filter_gaussian, y, factors) if factors.farthest < _FARTHEST else None

    def expected(self, level: Floats) -> Floats:
        return np.asarray(self.depth * level)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return rng.normal(self.depth * level, self.sd)


class IntegratedDepth(Additive):
    """y ~ N(depth_mean * level, sd^2 + depth_sd^2 * level^2): a depth N(depth_mean, depth_sd^2), integrated out
    at every site. The paper's tumour model.
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth_mean": DEPTH._replace(key="depth", required=True),
        "depth_sd": Argument("standard deviation of the depth.", required=True),
        "sd": SD,
    }

    def __init__(
        self,
        weights: npt.ArrayLike | Prior | None = None,
        depth_mean: float | Prior = 1.0,
        depth_sd: float | Prior = 0.0,
        sd: float | Prior = 1.0,
    ):
        super().__init__(weights)
        self.depth_mean = self._parameter("depth_mean", depth_mean)
        self.depth_sd = self._parameter("depth_sd", depth_sd, least=0.0)
        self.sd = self._parameter("sd", sd, positive=True)

    def _variance(self, level: Floats) -> Floats:
        return np.asarray(self.sd**2 + (self.depth_sd * level) ** 2)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        variance = self._variance(level)
        return -0.5 * ((y - self.depth_mean * level) ** 2 / variance + np.log(variance)) - _HALF_LOG_TWO_PI

    def summarise(self, y: Floats, group: Integers, n_groups: int) -> Any:
        return _moments(y, group, n_groups)

    def summed(self, summary: Any, level: Floats) -> float:
        n, mean, squares = summary
        variance = self._variance(level)
        squares = squares + n * (mean - self.depth_mean * level) ** 2
        return float(np.sum(-0.5 * (squares / variance + n * np.log(variance)) - n * _HALF_LOG_TWO_PI))

    def expected(self, level: Floats) -> Floats:
        return np.asarray(self.depth_mean * level)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return rng.normal(self.depth_mean * level, np.sqrt(self._variance(level)))


class StudentT(Additive):
    """y = depth * level + sd * t, with t Student's t of df degrees of freedom: Gaussian with outliers."""

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth": DEPTH,
        "sd": SD,
        "df": Argument("degrees of freedom."),
    }

    def __init__(
        self,
        weights: npt.ArrayLike | Prior | None = None,
        depth: float | Prior = 1.0,
        sd: float | Prior = 1.0,
        df: float | Prior = 4.0,
    ):
        super().__init__(weights)
        self.depth = self._parameter("depth", depth)
        self.sd = self._parameter("sd", sd, positive=True)
        self.df = self._parameter("df", df, positive=True, per_channel=False)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        df = float(self.df)
        constant = _log_rising(df / 2, np.array(0.5)) - 0.5 * np.log(df * np.pi) - np.log(self.sd)
        z = (y - self.depth * level) / self.sd
        return np.asarray(constant - 0.5 * (df + 1) * np.log1p(z * z / df))

    def expected(self, level: Floats) -> Floats:
        return np.asarray(self.depth * level)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(self.depth * level + self.sd * rng.standard_t(self.df, np.shape(level)))


class Counts(Additive):
    """Counts with mean depth * level + background."""

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth": COUNTS_DEPTH,
        "background": BACKGROUND,
    }

    def __init__(
        self,
        weights: npt.ArrayLike | Prior | None = None,
        depth: float | Prior = 1.0,
        background: float | Prior = 0.0,
    ):
        super().__init__(None if weights is None else self._learn_weights(weights, low=0.0))
        if np.any(self.weights < 0):
            raise InvalidInput(f"weights of counts must not be negative, got {self.weights.min():g}")
        self.depth = self._parameter("depth", depth, positive=True)
        self.background = self._parameter("background", background, least=0.0)

    def expected(self, level: Floats) -> Floats:
        return np.asarray(self.depth * level + self.background)

    def summarise(self, y: Floats, group: Integers, n_groups: int) -> Any:
        """Distinct pairs of count and group, and how often each occurs; with channels, the columns themselves."""
        if y.ndim == 2:
            return super().summarise(y, group, n_groups)
        seen = ~np.isnan(y)
        pairs, n = np.unique(np.stack([y[seen], group[seen]]), axis=1, return_counts=True)
        return pairs[0], pairs[1].astype(np.int64), n

    def summed(self, summary: Any, level: Floats) -> float:
        if len(summary) == 2:
            return super().summed(summary, level)
        y, group, n = summary
        return float(np.sum(n * self.log_density(y, level[group])))

    def check(self, data: Observations) -> None:
        super().check(data)
        bad = (data.y < 0) | (data.y != np.floor(data.y)) & ~np.isnan(data.y)
        if bad.any():
            at = tuple(np.argwhere(bad)[0])
            raise InvalidInput(
                f"{type(self).__name__} needs counts 0, 1, 2, ... (NaN: missing), got {data.y[at]:g} at column "
                f"{at[0]}; round the data, or use Gaussian or StudentT"
            )


class Poisson(Counts):
    """y ~ Poisson(depth * level + background)."""

    def log_density(self, y: Floats, level: Floats) -> Floats:
        mean = self.expected(level)
        return _times_log(y, mean) - mean - scipy.special.gammaln(y + 1.0)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return rng.poisson(self.expected(level)).astype(float)


class NegativeBinomial(Counts):
    """Counts with mean m = depth * level + background and variance m + dispersion * m^2."""

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth": COUNTS_DEPTH,
        "dispersion": Argument("variance is m + dispersion m² for a mean m.", required=True),
        "background": BACKGROUND,
    }

    def __init__(
        self,
        weights: npt.ArrayLike | Prior | None = None,
        depth: float | Prior = 1.0,
        dispersion: float | Prior = 0.1,
        background: float | Prior = 0.0,
    ):
        super().__init__(weights, depth, background)
        self.dispersion = self._parameter("dispersion", dispersion, positive=True, per_channel=False)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        mean = self.expected(level)
        size = 1.0 / float(self.dispersion)
        log_choose = _log_rising(size, y) - scipy.special.gammaln(y + 1.0)
        return log_choose + _times_log(y, mean / (size + mean)) - size * np.log1p(mean / size)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        size = 1.0 / float(self.dispersion)
        return rng.poisson(rng.gamma(size, self.expected(level) / size)).astype(float)


class Custom(Additive):
    """A user-defined density: `function(y, level)` returns log p(y | level), broadcast like NumPy's functions.

    Where y is (T, W), the function's y has a last axis W; where levels have D channels, its level has a last axis D. W
    and D need not agree. It returns one number for every column and level, without these axes. Columns that are missing
    altogether never reach the function; other NaN do.

    >>> emission = Custom(lambda y, level: -np.abs(y - 3 * level) - np.log(2), weights=[1.0, 2.0])
    >>> emission.log_likelihood(np.array([3.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-3.693, -0.693]]

    A count of reads and how many of them carry a variant, seen through total and variant copies of two clones:

    >>> def reads(y, level):
    ...     total, share = level[..., 0], level[..., 1] / level[..., 0]
    ...     return -((y[..., 0] - 10 * total) ** 2) / 200 + y[..., 1] * np.log(share)
    >>> emission = Custom(reads, weights=[[2.0, 1.0], [1.0, 0.5]])
    >>> emission.log_likelihood(np.array([[20.0, 4.0]]), np.array([[1.0, 0.5], [2.0, 1.0]])).round(3).tolist()
    [[-3.273, -2.773]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {"function": Argument("log p(y | level)."), "weights": WEIGHTS}
    in_settings = False  # a function cannot be written in a file

    def __init__(self, function: Callable[[Floats, Floats], Floats], weights: npt.ArrayLike | Prior | None = None):
        super().__init__(weights)
        self.function = function

    def check(self, data: Observations) -> None:
        """Any y: the function knows what it is."""

    def log_likelihood(self, y: Floats, level: Floats) -> Floats:
        shared = level.ndim == (1 if self.n_channels is None else 2)
        out = np.zeros((len(y), level.shape[0 if shared else 1]))
        seen = ~np.isnan(y.reshape(len(y), -1)).all(axis=1)
        out[seen] = self._evaluate(y[seen, None], level if shared else level[seen], y.ndim == 2)
        return out

    def summarise(self, y: Floats, group: Integers, n_groups: int) -> Any:
        seen = ~np.isnan(y.reshape(len(y), -1)).all(axis=1)
        return y[seen], group[seen]

    def summed(self, summary: Any, level: Floats) -> float:
        y, group = summary
        return float(self._evaluate(y, level[group], y.ndim == 2).sum())

    def log_density(self, y: Floats, level: Floats) -> Floats:
        return self._evaluate(y, level, False)

    def _evaluate(self, y: Floats, level: Floats, several: bool) -> Floats:
        """several: whether the last axis of y is its channels."""
        y_shape = np.shape(y)[:-1] if several else np.shape(y)
        level_shape = np.shape(level) if self.n_channels is None else np.shape(level)[:-1]
        wanted = np.broadcast_shapes(y_shape, level_shape)
        out = np.asarray(self.function(y, level), dtype=float)
        if out.shape != wanted:
            raise InvalidInput(
                f"the Custom emission's function returned shape {out.shape} for y {np.shape(y)} and level "
                f"{np.shape(level)}, expected {wanted}; use NumPy functions that broadcast"
            )
        bad = np.isnan(out) | (out == np.inf)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            here = np.broadcast_to(y, wanted + np.shape(y)[len(y_shape) :])[at]
            there = np.broadcast_to(level, wanted + np.shape(level)[len(level_shape) :])[at]
            raise InvalidInput(
                f"the Custom emission's function returned {out[at]} for y = {_short(here)}, level = {_short(there)}; "
                "expected a number below +inf (-inf: impossible)"
            )
        return out

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        raise InvalidInput("a Custom emission cannot simulate: it has a density and no sampler; draw y yourself")


class Table(Emission):
    """Any log-likelihoods, log_lik[t, code], for models that are not additive. Of y only the missing columns matter:
    pass `np.zeros(T)`.
    """

    arguments: ClassVar[Mapping[str, Argument]] = {"log_lik": Argument("log-likelihoods (T, 2^K).")}
    in_settings = False  # a table is data and does not belong in settings

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


# Registry of emissions by their names on the command line and in files; the first is the default.
EMISSIONS: dict[str, type[Additive]] = {
    "gaussian": Gaussian,
    "student-t": StudentT,
    "integrated-depth": IntegratedDepth,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
}


def _moments(y: Floats, group: Integers, n_groups: int) -> tuple[Floats, Floats, Floats]:
    """Number of columns, mean, and sum of squared deviations from it, for every group and channel."""
    columns = y.reshape(len(y), -1)
    seen = ~np.isnan(columns)
    parts = np.zeros((3, n_groups, columns.shape[1]))
    for d in range(columns.shape[1]):
        own, values = group[seen[:, d]], columns[seen[:, d], d]
        n = np.bincount(own, minlength=n_groups)
        mean = np.bincount(own, values, n_groups) / np.maximum(n, 1)
        parts[:, :, d] = n, mean, np.bincount(own, (values - mean[own]) ** 2, n_groups)
    n, mean, squares = parts.reshape(3, n_groups, *y.shape[1:])
    return n, mean, squares


def _log_rising(x: float, y: Floats) -> Floats:
    """log(Gamma(x + y) / Gamma(x)); Stirling's series avoids the cancellation of two large log-gammas."""
    if x < 1e3:
        return np.asarray(scipy.special.gammaln(x + y) - scipy.special.gammaln(x))
    end = x + y
    series = (1 / end - 1 / x) / 12 - ((1 / end) ** 3 - (1 / x) ** 3) / 360
    return np.asarray((end - 0.5) * np.log1p(y / x) + y * (np.log(x) - 1) + series)


def _short(values: Floats) -> str:
    return f"{values:g}" if np.ndim(values) == 0 else "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _times_log(y: Floats, x: Floats) -> Floats:
    """y log x, with 0 log 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(y == 0, 0.0, y * np.log(x))
