"""Priors: what stands in a model for a parameter that is to be learned.

A prior has the shape of its parameter: scalars give one value, arrays one value each. Samplers work on free
coordinates, real numbers without bounds: a positive value is exp(free), one in an interval a scaled logistic, a point
of the simplex the ratios to its last entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from chiasma.errors import InvalidInput
from chiasma.kernels import priors as kernel
from chiasma.models.prior import Independent, Prior, groups_alike, short
from chiasma.types import Floats, as_floats

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class Normal(Independent):
    """N(mean, sd^2).

    >>> Normal([0.0, 5.0], 1.0).shape
    (2,)
    """

    arguments = ("mean", "sd")
    mean: Floats
    sd: Floats
    kind = kernel.NORMAL
    support = (-np.inf, np.inf)

    def __init__(self, mean: npt.ArrayLike, sd: npt.ArrayLike):
        super().__init__(mean=mean, sd=sd)
        self._positive("sd")

    @property
    def centre(self) -> Floats:
        return np.broadcast_to(self.mean, self.shape).copy()

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.normal(self.mean, self.sd, self.shape))

    def _constants(self) -> Floats:
        return np.asarray(-np.log(self.sd) - _HALF_LOG_TWO_PI)

    def _log_densities(self, value: Floats) -> Floats:
        return np.asarray(self._constants() - 0.5 * ((value - self.mean) / self.sd) ** 2)


class LogNormal(Independent):
    """exp(N(mean, sd^2)): mean and sd are those of the logarithm."""

    arguments = ("mean", "sd")
    mean: Floats
    sd: Floats
    kind = kernel.LOG_NORMAL
    support = (0.0, np.inf)

    def __init__(self, mean: npt.ArrayLike, sd: npt.ArrayLike):
        super().__init__(mean=mean, sd=sd)
        self._positive("sd")

    @property
    def centre(self) -> Floats:
        return np.exp(np.broadcast_to(self.mean, self.shape))

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.lognormal(self.mean, self.sd, self.shape))

    def _constants(self) -> Floats:
        return np.asarray(-np.log(self.sd) - _HALF_LOG_TWO_PI)

    def _log_densities(self, value: Floats) -> Floats:
        log = np.log(value)
        return np.asarray(self._constants() - 0.5 * ((log - self.mean) / self.sd) ** 2 - log)


class HalfNormal(Independent):
    """|N(0, sd^2)|."""

    arguments = ("sd",)
    sd: Floats
    kind = kernel.HALF_NORMAL
    support = (0.0, np.inf)

    def __init__(self, sd: npt.ArrayLike):
        super().__init__(sd=sd)
        self._positive("sd")

    @property
    def centre(self) -> Floats:
        return np.asarray(0.6744897501960817 * self.sd)

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.asarray(np.abs(rng.normal(0.0, self.sd, self.shape)))

    def _constants(self) -> Floats:
        return np.asarray(np.log(2) - np.log(self.sd) - _HALF_LOG_TWO_PI)

    def _log_densities(self, value: Floats) -> Floats:
        return np.asarray(self._constants() - 0.5 * (value / self.sd) ** 2)


class Gamma(Independent):
    """Positive values with mean alpha / beta and variance alpha / beta^2."""

    arguments = ("alpha", "beta")
    alpha: Floats
    beta: Floats
    kind = kernel.GAMMA
    support = (0.0, np.inf)

    def __init__(self, alpha: npt.ArrayLike, beta: npt.ArrayLike):
        super().__init__(alpha=alpha, beta=beta)
        self._positive("alpha", "beta")

    @property
    def centre(self) -> Floats:
        return np.broadcast_to(self.alpha / self.beta, self.shape).copy()

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.gamma(self.alpha, 1 / self.beta, self.shape))

    def _constants(self) -> Floats:
        return np.asarray(self.alpha * np.log(self.beta) - scipy.special.gammaln(self.alpha))

    def _log_densities(self, value: Floats) -> Floats:
        return np.asarray(self._constants() + (self.alpha - 1) * np.log(value) - self.beta * value)


class Beta(Independent):
    """Probabilities with mean alpha / (alpha + beta); Beta(1, 99) expects one switch in a hundred columns."""

    arguments = ("alpha", "beta")
    alpha: Floats
    beta: Floats
    kind = kernel.BETA
    support = (0.0, 1.0)

    def __init__(self, alpha: npt.ArrayLike, beta: npt.ArrayLike):
        super().__init__(alpha=alpha, beta=beta)
        self._positive("alpha", "beta")

    @property
    def centre(self) -> Floats:
        return np.broadcast_to(self.alpha / (self.alpha + self.beta), self.shape).copy()

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.beta(self.alpha, self.beta, self.shape))

    def _constants(self) -> Floats:
        return np.asarray(-scipy.special.betaln(self.alpha, self.beta))

    def _log_densities(self, value: Floats) -> Floats:
        logs = (self.alpha - 1) * np.log(value) + (self.beta - 1) * np.log1p(-value)
        return np.asarray(logs + self._constants())


class Uniform(Independent):
    """Equal density between low and high."""

    kind = kernel.UNIFORM
    arguments = ("low", "high")
    low: Floats
    high: Floats

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike):
        super().__init__(low=low, high=high)
        if self.low.ndim or self.high.ndim or not self.low < self.high:
            raise InvalidInput(
                f"Uniform takes two numbers, low < high, got {short(self.low)} and {short(self.high)}; for several "
                "values give size through another prior, such as Gamma([2, 2], 1)"
            )
        self.support = (float(self.low), float(self.high))

    @property
    def centre(self) -> Floats:
        return np.asarray((self.low + self.high) / 2)

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.uniform(self.low, self.high))

    def _constants(self) -> Floats:
        return np.asarray(-np.log(self.high - self.low))

    def _log_densities(self, value: Floats) -> Floats:
        return np.full(np.shape(value), self._constants())


class Dirichlet(Prior):
    """Positive values that add up to 1; equal concentrations make the rows exchangeable.

    >>> Dirichlet([1, 1, 1]).centre.round(3).tolist()
    [0.333, 0.333, 0.333]
    """

    arguments = ("concentration",)
    support = (0.0, 1.0)

    def __init__(self, concentration: npt.ArrayLike):
        self.concentration = as_floats("concentration of Dirichlet", concentration)
        if self.concentration.ndim != 1 or len(self.concentration) < 2:
            raise InvalidInput(
                f"Dirichlet needs at least two concentrations, one per row, got shape {self.concentration.shape}"
            )
        if not np.all((self.concentration > 0) & np.isfinite(self.concentration)):
            raise InvalidInput(f"concentration of Dirichlet must be positive, got {short(self.concentration)}")
        self.shape = self.concentration.shape
        self.n_free = len(self.concentration) - 1

    @property
    def centre(self) -> Floats:
        return np.asarray(self.concentration / self.concentration.sum())

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.dirichlet(self.concentration))

    def log_density(self, value: Floats) -> float:
        value = np.asarray(value, float)
        if not np.all(value > 0) or abs(value.sum() - 1) > 1e-9:
            return -np.inf
        return float(self._constant() + np.sum((self.concentration - 1) * np.log(value)))

    def _constant(self) -> float:
        return float(scipy.special.gammaln(self.concentration.sum()) - scipy.special.gammaln(self.concentration).sum())

    def entries(self) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
        kind = np.append(np.full(self.n_free, kernel.SIMPLEX), kernel.SIMPLEX_END)
        constant = np.append(self._constant(), np.zeros(self.n_free))
        return kind, self.concentration, self.concentration, constant

    def to_free(self, value: Floats) -> Floats:
        return np.asarray(np.log(value[:-1]) - np.log(value[-1]))

    def from_free(self, free: Floats) -> Floats:
        ratios = np.exp(np.append(free, 0.0) - max(free.max(), 0.0))
        return np.asarray(ratios / ratios.sum())

    def log_slope(self, value: Floats) -> float:
        return float(np.sum(np.log(value)))

    def marginal(self, entry: tuple[int, ...]) -> Prior:
        own = self.concentration[entry]
        return Beta(own, self.concentration.sum() - own)

    def alike(self) -> list[list[int]]:
        return groups_alike(self.concentration[:, None])


PRIORS: dict[str, type[Prior]] = {
    kind.__name__: kind for kind in (Normal, LogNormal, HalfNormal, Gamma, Beta, Uniform, Dirichlet)
}


def prior_of(description: Any) -> Any:
    """What `Prior.describe` gave as a prior; anything else as it is."""
    if not isinstance(description, dict) or "prior" not in description:
        return description
    return PRIORS[description["prior"]](**{name: value for name, value in description.items() if name != "prior"})


def check_prior(name: str, prior: Prior, shapes: tuple[tuple[int, ...], ...], low: float, high: float) -> None:
    """Refuse a prior of another shape than the parameter has, or with values that the parameter cannot take."""
    if prior.shape not in shapes:
        wanted = " or ".join("a single value" if shape == () else f"shape {shape}" for shape in shapes)
        raise InvalidInput(f"the prior of {name} must have {wanted}, got {prior} with shape {prior.shape}")
    if prior.support[0] < low or prior.support[1] > high:
        fitting = (kind.__name__ for kind in PRIORS.values() if _fits(kind, low, high))
        bounds = f"above {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
        raise InvalidInput(
            f"{name} must be {bounds}, and {prior} also gives values outside; use {', '.join(fitting)} or Uniform"
        )


def _fits(kind: type[Prior], low: float, high: float) -> bool:
    support = getattr(kind, "support", None)
    return support is not None and support[0] >= low and support[1] <= high
