"""Emissions: log p(y_t | column), as vectorised functions of y and the column's level, sum_k w_k x[k, t].

Every density includes its normalising constant, so evidences are comparable. To add one: subclass `Additive`, write
`log_density`, `sample` and `expected`, describe the constructor's `arguments`, check the parameters and the range of y,
and add a line to `EMISSIONS`.

A parameter given as a prior is learned. The emission then holds a typical value of the prior; `with_values` returns the
emission at other values.
"""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.errors import InvalidInput
from chiasma.kernels.expectations import add_weighted
from chiasma.kernels.gaussian import Factors, best_gaussian, filter_gaussian, gaussian_log_likelihood, make_factors
from chiasma.models.additive import Additive, Emission, FusedFilter, GaussianParts, difference_step, filled
from chiasma.models.arguments import NARROW_LOG_NORMAL, NORMAL, WEIGHTS, Argument
from chiasma.models.observations import Observations
from chiasma.models.priors import Numbers, Prior
from chiasma.types import Floats, Integers, as_floats, is_a, shown

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)
# The fused filter is not used where one row moves the mean so far that, for y midway between two means, all its scaled
# likelihoods could be below exp(-60).
_FARTHEST = 60.0

DEPTH = Argument("signal of a level of 1.", default_prior=NORMAL)
COUNTS_DEPTH = replace(DEPTH, default_prior=NARROW_LOG_NORMAL)  # above 0
SD = Argument("standard deviation of the noise; of student-t its width, which is smaller.", required=True)
BACKGROUND = Argument("mean if no row is on.")


class NormalNoise(Additive):
    """Base of densities N(mean, variance), both of which depend on the level."""

    takes_offset = True
    takes_spread = True

    @abstractmethod
    def _normal(self, level: Floats) -> tuple[Floats, Floats]:
        """Mean and variance."""

    @abstractmethod
    def _slopes(self, level: Floats, by_mean: Floats, by_variance: Floats) -> dict[str, Floats]:
        """Derivatives with respect to the level and all parameters, from those with respect to mean and variance."""

    def log_density(self, y: Floats, level: Floats) -> Floats:
        mean, variance = self._normal(level)
        return -0.5 * ((y - mean) ** 2 / variance + np.log(variance)) - _HALF_LOG_TWO_PI

    def summarise(self, y: Floats, group: Integers, n_groups: int) -> Any:
        return _moments(y, group, n_groups)

    def summed(self, summary: Any, level: Floats) -> float:
        n, mean, squares = summary
        expected, variance = self._normal(level)
        squares = squares + n * (mean - expected) ** 2
        return float(np.sum(-0.5 * (squares / variance + n * np.log(variance)) - n * _HALF_LOG_TWO_PI))

    def slopes(self, y: Floats, level: Floats, names: Collection[str]) -> dict[str, Floats]:
        mean, variance = self._normal(level)
        z = (y - mean) / variance
        return self._slopes(level, z, 0.5 * (z * z - 1 / variance))

    def summed_slopes(self, y: Floats, level: Floats, weights: Floats, names: Collection[str]) -> dict[str, Floats]:
        mean, variance = self._normal(level)
        n, total, squares = _weighted_moments(y, weights, mean)
        found = self._slopes(level, total / variance, 0.5 * (squares / variance - n) / variance)
        return {name: slope if name == "level" else slope.sum(axis=0) for name, slope in found.items()}

    def pull(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        mean, variance = self._normal(level)
        return (y - mean) / variance, np.broadcast_to(1 / variance, np.broadcast_shapes(np.shape(y), np.shape(mean)))

    def expected(self, level: Floats) -> Floats:
        return self._normal(level)[0]

    def tails(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        mean, variance = self._normal(level)
        return _normal_tails((y - mean) / np.sqrt(variance))

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        mean, variance = self._normal(level)
        return rng.normal(mean, np.sqrt(variance))


class Gaussian(NormalNoise):
    """y ~ N(depth * level, sd^2), where the level of a column is the sum of the weights of its rows that are on.

    Every parameter may be a prior, and is then learned: sd=ch.HalfNormal(2).

    Parameters
    ----------
    weights : (K,) one per row, or (K, D) for D channels; leave them out where rows have values (ch.Row).
    depth : signal of a level of 1: a number, or (D,).
    sd : standard deviation of the noise: a number, or (D,).

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> emission = ch.Gaussian(weights=[0.5, 0.5], depth=10.0, sd=1.0)
    >>> emission.log_likelihood(np.array([10.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-50.919, -0.919]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {"weights": WEIGHTS, "depth": DEPTH, "sd": SD}

    def __init__(
        self,
        weights: Numbers | None = None,
        depth: npt.ArrayLike | Prior = 1.0,
        sd: npt.ArrayLike | Prior = 1.0,
    ):
        super().__init__(weights)
        self.depth = self.parameter("depth", depth)
        self.sd = self.parameter("sd", sd, positive=True)

    def _normal(self, level: Floats) -> tuple[Floats, Floats]:
        level, added = self.split_level(level)
        return np.asarray(self.depth * level), np.asarray(self.sd**2 + added)

    def _slopes(self, level: Floats, by_mean: Floats, by_variance: Floats) -> dict[str, Floats]:
        of_signal, _ = self.split_level(level)
        return {
            "level": self.join_slopes(self.depth * by_mean, by_variance),
            "depth": of_signal * by_mean,
            "sd": 2 * self.sd * by_variance,
        }

    # Without spread the variance is one number, which makes everything faster.

    def log_density(self, y: Floats, level: Floats) -> Floats:
        if self.spreads:
            return super().log_density(y, level)
        z = (y - self.depth * level) / self.sd
        return -0.5 * z * z - (np.log(self.sd) + _HALF_LOG_TWO_PI)

    def log_likelihood(self, y: Floats, level: Floats) -> Floats:
        if self.spreads:
            return super().log_likelihood(y, level)
        n_channels = self.n_channels or 1
        shared = level.ndim == (1 if self.n_channels is None else 2)
        levels = np.ascontiguousarray(level).reshape(1 if shared else len(y), -1, n_channels)
        depth, sd = np.full(n_channels, self.depth, float), np.full(n_channels, self.sd, float)
        out = np.empty((len(y), levels.shape[1]))
        gaussian_log_likelihood(np.ascontiguousarray(y).reshape(len(y), n_channels), levels, depth, sd, out)
        return out

    def summed(self, summary: Any, level: Floats) -> float:
        if self.spreads:
            return super().summed(summary, level)
        n, mean, squares = summary
        squares = squares + n * (mean - self.depth * level) ** 2
        return float(np.sum(-0.5 * squares / self.sd**2 - n * (np.log(self.sd) + _HALF_LOG_TWO_PI)))

    def slopes(self, y: Floats, level: Floats, names: Collection[str]) -> dict[str, Floats]:
        if self.spreads:
            return super().slopes(y, level, names)
        z = (y - self.depth * level) / self.sd
        return {"level": self.depth * z / self.sd, "depth": level * z / self.sd, "sd": (z * z - 1) / self.sd}

    def summed_slopes(self, y: Floats, level: Floats, weights: Floats, names: Collection[str]) -> dict[str, Floats]:
        if self.spreads:
            return super().summed_slopes(y, level, weights, names)
        n, total, squares = _weighted_moments(y, weights, self.depth * level)
        found = {"depth": level * total / self.sd**2, "sd": squares / self.sd**3 - n / self.sd}
        summed = {name: slope.sum(axis=0) for name, slope in found.items()}
        return summed | {"level": self.depth * total / self.sd**2}

    def fused_filter(
        self, y: Floats, weights: Floats, base: Floats, beta: float, best: bool = False
    ) -> FusedFilter | None:
        factors = self.factors(weights, base, beta)
        return None if factors is None else partial(best_gaussian if best else filter_gaussian, y, factors)

    def factors(self, weights: Floats, base: Floats, beta: float) -> Factors | None:
        """What likelihoods of all codes are made of; None where products would underflow, or there are channels."""
        if self.n_channels is not None:
            return None
        factors: Factors = make_factors(weights, float(base), float(self.depth), float(self.sd), beta)
        return factors if factors.farthest < _FARTHEST else None

    def gaussian_parts(self, y: Floats, weights: Floats, base: Floats) -> GaussianParts | None:
        if self.spreads:
            return None
        n_channels = self.n_channels or 1
        depth, sd = (np.broadcast_to(value, (n_channels,)).copy() for value in (self.depth, self.sd))
        seen = y.reshape(len(y), n_channels) - depth * base.reshape(-1)
        return GaussianParts(
            np.ascontiguousarray(seen.T), np.ascontiguousarray(depth * weights.reshape(len(weights), n_channels)), sd
        )

    def pull(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        if self.spreads:
            return super().pull(y, level)
        precision = np.broadcast_to(self.sd**-2.0, np.broadcast_shapes(np.shape(y), np.shape(level)))
        return (y - self.depth * level) * precision, precision

    def summed_pull(self, y: Floats, level: Floats, weights: Floats) -> tuple[Floats, Floats]:
        if self.spreads:
            return super().summed_pull(y, level, weights)
        precision = np.where(np.isnan(y), 0.0, self.sd**-2.0)
        return np.nan_to_num(y - self.depth * (weights @ level)) * precision, precision


class IntegratedDepth(NormalNoise):
    """y ~ N(depth_mean * level, sd^2 + depth_sd^2 * level^2): a depth N(depth_mean, depth_sd^2), integrated out
    at every site. The paper's tumour model.

    Every parameter may be a prior, and is then learned.

    Parameters
    ----------
    weights : (K,) one per row, or (K, D) for D channels; leave them out where rows have values (ch.Row).
    depth_mean : mean signal of a level of 1.
    depth_sd : standard deviation of that signal; the noise grows with the level.
    sd : standard deviation of the noise where no row is on.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> emission = ch.IntegratedDepth([0.4, 0.6], depth_mean=10.0, depth_sd=2.0, sd=1.0)
    >>> emission.log_likelihood(np.array([10.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-50.919, -1.724]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth_mean": replace(DEPTH, key="depth", required=True),
        "depth_sd": Argument("standard deviation of the depth.", required=True),
        "sd": SD,
    }

    def __init__(
        self,
        weights: Numbers | None = None,
        depth_mean: float | Prior = 1.0,
        depth_sd: float | Prior = 0.0,
        sd: float | Prior = 1.0,
    ):
        super().__init__(weights)
        self.depth_mean = self.parameter("depth_mean", depth_mean)
        self.depth_sd = self.parameter("depth_sd", depth_sd, least=0.0)
        self.sd = self.parameter("sd", sd, positive=True)

    def _normal(self, level: Floats) -> tuple[Floats, Floats]:
        level, added = self.split_level(level)
        return np.asarray(self.depth_mean * level), np.asarray(self.sd**2 + (self.depth_sd * level) ** 2 + added)

    def _slopes(self, level: Floats, by_mean: Floats, by_variance: Floats) -> dict[str, Floats]:
        of_signal, _ = self.split_level(level)
        by_level = self.depth_mean * by_mean + 2 * self.depth_sd**2 * of_signal * by_variance
        return {
            "level": self.join_slopes(by_level, by_variance),
            "depth_mean": of_signal * by_mean,
            "depth_sd": 2 * self.depth_sd * of_signal**2 * by_variance,
            "sd": 2 * self.sd * by_variance,
        }


class StudentT(Additive):
    """y = depth * level + sd * t, with t Student's t of df degrees of freedom: Gaussian with outliers.

    Every parameter may be a prior, and is then learned.

    Parameters
    ----------
    weights : (K,) one per row, or (K, D) for D channels; leave them out where rows have values (ch.Row).
    depth : signal of a level of 1.
    sd : scale of the noise; its standard deviation is sqrt(df / (df - 2)) times as large, where df > 2.
    df : degrees of freedom; the fewer, the more outliers.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> outlier, levels = np.array([9.0]), np.array([0.0, 1.0])
    >>> ch.Gaussian([1.0]).log_likelihood(outlier, levels).round(2).tolist()
    [[-41.42, -32.92]]
    >>> ch.StudentT([1.0], df=4).log_likelihood(outlier, levels).round(2).tolist()
    [[-8.62, -8.06]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth": DEPTH,
        "sd": SD,
        "df": Argument("degrees of freedom."),
    }

    def __init__(
        self,
        weights: Numbers | None = None,
        depth: float | Prior = 1.0,
        sd: float | Prior = 1.0,
        df: float | Prior = 4.0,
    ):
        super().__init__(weights)
        self.depth = self.parameter("depth", depth)
        self.sd = self.parameter("sd", sd, positive=True)
        self.df = self.parameter("df", df, positive=True, per_channel=False)

    takes_offset = True
    takes_spread = True

    def _scaled(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        """The residual in widths of the noise, and the width."""
        of_signal, added = self.split_level(level)
        width = np.sqrt(self.sd**2 + added) if self.spreads else self.sd
        return (y - self.depth * of_signal) / width, width

    def log_density(self, y: Floats, level: Floats) -> Floats:
        df = float(self.df)
        z, width = self._scaled(y, level)
        constant = _log_rising(df / 2, np.array(0.5)) - 0.5 * np.log(df * np.pi) - np.log(width)
        return np.asarray(constant - 0.5 * (df + 1) * np.log1p(z * z / df))

    def slopes(self, y: Floats, level: Floats, names: Collection[str]) -> dict[str, Floats]:
        df, (of_signal, _) = float(self.df), self.split_level(level)
        z, width = self._scaled(y, level)
        pull = (df + 1) * z / (df + z * z)
        by_df = _digamma_step(df / 2, np.array(0.5)) - 1 / df - np.log1p(z * z / df) + z * pull / df
        by_width = (z * pull - 1) / width
        return {
            "level": self.join_slopes(self.depth * pull / width, by_width / (2 * width)),
            "depth": of_signal * pull / width,
            "sd": by_width * (self.sd / width) if self.spreads else by_width,
            "df": 0.5 * by_df,
        }

    def pull(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        z, width = self._scaled(y, level)
        precision = (self.df + 1) / (self.df + z * z) / width**2
        return z * width * precision, precision

    def draw_precisions(self, y: Floats, level: Floats, beta: float, rng: np.random.Generator) -> Floats:
        # (1 + z^2 / df)^-a is the mean of exp(-u z^2 / df) over u ~ Gamma(a, 1).
        z, width = self._scaled(filled(y), level)
        u = rng.gamma(0.5 * beta * (self.df + 1), 1 / (1 + z * z / self.df))
        return np.where(np.isnan(y), 0.0, 2 * u / (self.df * width**2))

    def expected(self, level: Floats) -> Floats:
        return np.asarray(self.depth * self.split_level(level)[0])

    def tails(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        z, _ = self._scaled(y, level)
        return np.asarray(scipy.special.stdtr(self.df, z)), np.asarray(scipy.special.stdtr(self.df, -z))

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        mean = self.expected(level)
        _, width = self._scaled(mean, level)
        return np.asarray(mean + width * rng.standard_t(self.df, np.shape(mean)))


class Counts(Additive):
    """Counts with mean depth * level + background."""

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth": COUNTS_DEPTH,
        "background": BACKGROUND,
    }

    def __init__(
        self,
        weights: Numbers | None = None,
        depth: float | Prior = 1.0,
        background: float | Prior = 0.0,
    ):
        super().__init__(None if weights is None else self._learn_weights(weights, low=0.0))
        if np.any(self.weights < 0):
            raise InvalidInput(f"weights of counts must not be negative, got {self.weights.min():g}")
        self.depth = self.parameter("depth", depth, positive=True)
        self.background = self.parameter("background", background, least=0.0)

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

    @abstractmethod
    def _mean_slopes(self, n: Floats, total: Floats, mean: Floats) -> Floats:
        """Derivative with respect to the mean of n counts that add up to `total`; linear in both."""

    def slopes(self, y: Floats, level: Floats, names: Collection[str]) -> dict[str, Floats]:
        by_mean = self._mean_slopes(np.ones_like(y), y, self.expected(level))
        return {"level": self.depth * by_mean, "depth": level * by_mean, "background": by_mean}

    def summed_slopes(self, y: Floats, level: Floats, weights: Floats, names: Collection[str]) -> dict[str, Floats]:
        by_mean = self._mean_slopes(*_weighted_sums(y, weights), self.expected(level))
        found = {"depth": (level * by_mean).sum(axis=0), "background": by_mean.sum(axis=0)}
        return found | {"level": self.depth * by_mean}

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
    """y ~ Poisson(depth * level + background).

    Every parameter may be a prior, and is then learned.

    Parameters
    ----------
    weights : (K,) one per row, or (K, D) for D channels; leave them out where rows have values (ch.Row). Not
        negative.
    depth : counts of a level of 1.
    background : mean count where no row is on.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> emission = ch.Poisson([1.0, 2.0], depth=5.0, background=0.5)
    >>> emission.log_likelihood(np.array([5.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-8.753, -1.764]]
    """

    def log_density(self, y: Floats, level: Floats) -> Floats:
        mean = self.expected(level)
        return _times_log(y, mean) - mean - scipy.special.gammaln(y + 1.0)

    def _mean_slopes(self, n: Floats, total: Floats, mean: Floats) -> Floats:
        return _ratio(total, mean) - n

    def tails(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        mean = self.expected(level)
        return np.asarray(scipy.special.pdtr(y, mean)), np.where(y > 0, scipy.special.pdtrc(y - 1, mean), 1.0)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        return rng.poisson(self.expected(level)).astype(float)


class NegativeBinomial(Counts):
    """Counts with mean m = depth * level + background and variance m + dispersion * m^2.

    Every parameter may be a prior, and is then learned.

    Parameters
    ----------
    weights : (K,) one per row, or (K, D) for D channels; leave them out where rows have values (ch.Row). Not
        negative.
    depth : counts of a level of 1.
    dispersion : above 0; Poisson is its limit at 0.
    background : mean count where no row is on.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> emission = ch.NegativeBinomial([1.0, 2.0], depth=5.0, dispersion=0.2, background=0.5)
    >>> emission.log_likelihood(np.array([5.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-7.63, -2.107]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "weights": WEIGHTS,
        "depth": COUNTS_DEPTH,
        "dispersion": Argument("variance is m + dispersion m² for a mean m.", required=True),
        "background": BACKGROUND,
    }

    def __init__(
        self,
        weights: Numbers | None = None,
        depth: float | Prior = 1.0,
        dispersion: float | Prior = 0.1,
        background: float | Prior = 0.0,
    ):
        super().__init__(weights, depth, background)
        self.dispersion = self.parameter("dispersion", dispersion, positive=True, per_channel=False)

    def log_density(self, y: Floats, level: Floats) -> Floats:
        mean = self.expected(level)
        size = 1.0 / float(self.dispersion)
        log_choose = _log_rising(size, y) - scipy.special.gammaln(y + 1.0)
        return log_choose + _times_log(y, mean / (size + mean)) - size * np.log1p(mean / size)

    def _mean_slopes(self, n: Floats, total: Floats, mean: Floats) -> Floats:
        size = 1.0 / float(self.dispersion)
        return _ratio(total, mean) - (total + n * size) / (size + mean)

    def slopes(self, y: Floats, level: Floats, names: Collection[str]) -> dict[str, Floats]:
        size, mean = 1.0 / float(self.dispersion), self.expected(level)
        by_size = _digamma_step(size, y) + self._size_slopes(np.ones_like(y), y, mean)
        return super().slopes(y, level, names) | {"dispersion": -(size**2) * by_size}

    def summed_slopes(self, y: Floats, level: Floats, weights: Floats, names: Collection[str]) -> dict[str, Floats]:
        size = 1.0 / float(self.dispersion)
        # One part does not depend on the level; the other is linear in the counts.
        alone = _weighted_sums(_digamma_step(size, y), weights)[1]
        by_size = alone.sum() + self._size_slopes(*_weighted_sums(y, weights), self.expected(level)).sum()
        return super().summed_slopes(y, level, weights, names) | {"dispersion": np.asarray(-(size**2) * by_size)}

    def _size_slopes(self, n: Floats, total: Floats, mean: Floats) -> Floats:
        """The part of the derivative with respect to 1 / dispersion that depends on the mean."""
        size = 1.0 / float(self.dispersion)
        return np.asarray((n * mean - total) / (size + mean) - n * np.log1p(mean / size))

    def tails(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        size = 1.0 / float(self.dispersion)
        off = size / (size + self.expected(level))
        # Of y or fewer counts: the regularised incomplete beta function.
        upto = scipy.special.betainc(size, y + 1, off)
        return np.asarray(upto), np.where(y > 0, scipy.special.betainc(np.maximum(y, 1), size, 1 - off), 1.0)

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        size = 1.0 / float(self.dispersion)
        return rng.poisson(rng.gamma(size, self.expected(level) / size)).astype(float)


class Custom(Additive):
    """Your own density of a column's observation, as a function of the level.

    Where y is (T, W), the function's y has a last axis W; where levels have D channels, its level has a last axis D. W
    and D need not agree. It returns one number for every column and level, without these axes. Columns that are missing
    altogether never reach the function; other NaN do.

    Parameters
    ----------
    function : function(y, level) returns log p(y | level), broadcast like NumPy's functions. Constants matter only
        where evidences are compared.
    weights : (K,) one per row, or (K, D) for D channels; leave them out where rows have values (ch.Row).
    derivative : derivative(y, level) returns d log p / d level, for gradients; without it, by central differences.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> emission = ch.Custom(lambda y, level: -np.abs(y - 3 * level) - np.log(2), weights=[1.0, 2.0])
    >>> emission.log_likelihood(np.array([3.0]), np.array([0.0, 1.0])).round(3).tolist()
    [[-3.693, -0.693]]

    A count of reads and how many of them carry a variant, seen through total and variant copies of two clones:

    >>> def reads(y, level):
    ...     total, share = level[..., 0], level[..., 1] / level[..., 0]
    ...     return -((y[..., 0] - 10 * total) ** 2) / 200 + y[..., 1] * np.log(share)
    >>> emission = ch.Custom(reads, weights=[[2.0, 1.0], [1.0, 0.5]])
    >>> emission.log_likelihood(np.array([[20.0, 4.0]]), np.array([[1.0, 0.5], [2.0, 1.0]])).round(3).tolist()
    [[-3.273, -2.773]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "function": Argument("log p(y | level)."),
        "weights": WEIGHTS,
        "derivative": Argument("its derivative with respect to the level."),
    }
    in_settings = False  # a function cannot be written in a file

    def __init__(
        self,
        function: Callable[[Floats, Floats], Floats],
        weights: Numbers | None = None,
        derivative: Callable[[Floats, Floats], Floats] | None = None,
    ):
        super().__init__(weights)
        self.function = function
        self.derivative = derivative

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

    def _piece_slopes(self, y: Floats, level: Floats, weights: Floats, names: Collection[str]) -> dict[str, Floats]:
        seen = ~np.isnan(y.reshape(len(y), -1)).all(axis=1)
        slopes = self._level_slopes(y[seen, None], level, y.ndim == 2)
        own = weights[seen].reshape(*slopes.shape[:2], *(1 for _ in level.shape[1:]))
        return {"level": np.where(own > 0, own * slopes, 0.0).sum(axis=0)}

    def _level_slopes(self, y: Floats, level: Floats, several: bool) -> Floats:
        """(n, S) or (n, S, D) derivatives with respect to the level, by central differences if none are given."""
        if self.derivative is None:
            steps = [difference_step(level)] if level.ndim == 1 else _one_channel_each(difference_step(level))
            found = [
                (self._evaluate(y, level + step, several) - self._evaluate(y, level - step, several))
                / (2 * (step if level.ndim == 1 else step.sum(axis=-1)))
                for step in steps
            ]
            return np.stack(found, axis=-1) if level.ndim == 2 else found[0]
        wanted = len(y), *level.shape
        out = np.asarray(self.derivative(y, level), dtype=float)
        if out.shape != wanted or np.isnan(out).any():
            got = "NaN" if out.shape == wanted else f"shape {out.shape}"
            raise InvalidInput(
                f"the Custom emission's derivative must return numbers of shape {wanted}, got {got}; use NumPy "
                "functions that broadcast, or leave the derivative out"
            )
        return out

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        raise InvalidInput("a Custom emission cannot simulate: it has a density and no sampler; draw y yourself")


class Table(Emission):
    """Any log-likelihoods, log_lik[t, code], for models that are not additive.

    Of the data only the missing columns matter: pass `np.zeros(T)` as y.

    Parameters
    ----------
    log_lik : (T, 2^K) log p(y_t | code): bit k of a code is the state of row k.

    Examples
    --------
    Two switches of which only the difference is seen: the codes 0 (both off) and 3 (both on) give the same signal.

    >>> import numpy as np
    >>> import chiasma as ch
    >>> y, signal = np.array([0.1, 0.9, -1.1]), np.array([0.0, 1.0, -1.0, 0.0])
    >>> emission = ch.Table(-((y[:, None] - signal) ** 2) / (2 * 0.2**2))
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=emission)
    >>> ch.exact.marginals(model, np.zeros(3)).round(2).tolist()
    [[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]
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


def _one_channel_each(steps: Floats) -> Iterator[Floats]:
    """(S, D) steps of one channel and zeros elsewhere, for every channel."""
    for d in range(steps.shape[1]):
        yield np.where(np.arange(steps.shape[1]) == d, steps, 0.0)


def _weighted_sums(y: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """For every state s: sum_t w[t, s] and sum_t w[t, s] y_t, over what was observed; (S,) or (S, D)."""
    seen = ~np.isnan(y)
    n, total = _summed(weights, seen, np.where(seen, y, 0.0))
    return n, total


def _weighted_moments(y: Floats, weights: Floats, mean: Floats) -> tuple[Floats, Floats, Floats]:
    """For every state s: sum_t w[t, s], sum_t w (y_t - mean_s), sum_t w (y_t - mean_s)^2, over what was observed.

    y (n,) or (n, D), weights (n, S), mean (S,) or (S, D), as are the results.
    """
    seen = ~np.isnan(y)
    # Moments about a value in the middle of the data: sums of squares would lose digits otherwise.
    middle = np.where(seen, y, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    near = np.where(seen, y - middle, 0.0)
    n, total, squares = _summed(weights, seen, near, near * near)
    centre = mean - middle
    return n, total - n * centre, squares - 2 * centre * total + n * centre**2


def _summed(weights: Floats, *features: npt.NDArray[Any]) -> Floats:
    """For every feature (n,) or (n, D) of columns: its sums with weights (n, S), (S,) or (S, D)."""
    flat = np.stack(features, axis=1).astype(float)
    out = np.zeros((flat[0].size, weights.shape[1]))
    add_weighted(weights, flat.reshape(len(flat), -1), out)
    return np.moveaxis(out.reshape(*flat.shape[1:], -1), -1, 1)


def _ratio(total: Floats, mean: Floats) -> Floats:
    """total / mean, 0 where the mean is 0: there counts above 0 are impossible, and have no weight."""
    return np.asarray(
        np.divide(total, mean, out=np.zeros(np.broadcast_shapes(total.shape, mean.shape)), where=mean > 0)
    )


def _digamma_step(x: float, y: Floats) -> Floats:
    """digamma(x + y) - digamma(x), the derivative of `_log_rising`."""
    if x < 1e3:
        return np.asarray(scipy.special.digamma(x + y) - scipy.special.digamma(x))
    end = x + y
    series = (1 / x - 1 / end) / 2 + (1 / x**2 - 1 / end**2) / 12 - (1 / x**4 - 1 / end**4) / 120
    return np.asarray(np.log1p(y / x) + series)


def _log_rising(x: float, y: Floats) -> Floats:
    """log(Gamma(x + y) / Gamma(x)); Stirling's series avoids the cancellation of two large log-gammas."""
    if x < 1e3:
        return np.asarray(scipy.special.gammaln(x + y) - scipy.special.gammaln(x))
    end = x + y
    series = (1 / end - 1 / x) / 12 - ((1 / end) ** 3 - (1 / x) ** 3) / 360
    return np.asarray((end - 0.5) * np.log1p(y / x) + y * (np.log(x) - 1) + series)


def _normal_tails(z: Floats) -> tuple[Floats, Floats]:
    return np.asarray(scipy.special.ndtr(z)), np.asarray(scipy.special.ndtr(-z))


def _short(values: Floats) -> str:
    return f"{values:g}" if np.ndim(values) == 0 else "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _times_log(y: Floats, x: Floats) -> Floats:
    """y log x, with 0 log 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(y == 0, 0.0, y * np.log(x))


# ---- Emissions of a user's own ---------------------------------------------------------------------------------------


_BUILT_IN = frozenset(EMISSIONS)


def register_emission(name: str, emission: type[Additive]) -> None:
    """Make an emission of your own known by a name, as "gaussian" is.

    Settings files, `chiasma fit --emission NAME`, its options and help, --learn, and runs that are opened again then
    find it. A command is a separate process: write class and call in a file, and give that file to
    `chiasma --plugin FILE.py`.

    Parameters
    ----------
    name : lower-case letters, digits and hyphens. A name that was registered before is replaced.
    emission : a subclass of ch.Additive that describes every argument of its `__init__` in `arguments`.

    Examples
    --------
    >>> import chiasma as ch
    >>> from laplace import Laplace  # doctest: +SKIP
    >>> ch.register_emission("laplace", Laplace)  # doctest: +SKIP
    >>> emission = ch.Gaussian  # those of chiasma are registered already
    >>> ch.register_emission("gaussian", emission)
    Traceback (most recent call last):
    chiasma.errors.InvalidInput: 'gaussian' is an emission of chiasma; choose another name
    """
    if not is_a(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise InvalidInput(
            f"the name of an emission has lower-case letters, digits and hyphens, such as 'laplace', got {shown(name)}"
        )
    if name in _BUILT_IN:
        raise InvalidInput(f"{name!r} is an emission of chiasma; choose another name")
    if not is_a(emission, type) or not issubclass(emission, Additive):
        raise InvalidInput(f"an emission is a subclass of ch.Additive, got {shown(emission)}; pass the class itself")
    if inspect.isabstract(emission):
        missing = ", ".join(sorted(emission.__abstractmethods__))
        raise InvalidInput(f"{emission.__name__} needs the methods {missing}; write them, then register it")
    taken, described = list(inspect.signature(emission).parameters), list(emission.arguments)
    if set(taken) != set(described):
        raise InvalidInput(
            f"{emission.__name__}.arguments must describe what __init__ takes, {', '.join(taken)}, got "
            f"{', '.join(described)}; write arguments = ch.Additive.arguments | {{'scale': ch.Argument('...')}}"
        )
    EMISSIONS[name] = emission
