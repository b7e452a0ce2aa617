"""Priors: pass one in place of a parameter of a model, and the parameter is learned.

A prior has the shape of its parameter: scalars give one value, arrays one value per entry. Samplers work on free
(unconstrained) coordinates: log for positive values, scaled logit for values in an interval, log ratios to the last
entry for the simplex. `chiasma.kernels.priors` computes them from the `entries` of a prior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from chiasma.errors import InvalidInput
from chiasma.kernels import priors as kernel
from chiasma.types import Floats, as_floats, shown

_HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


class Prior(ABC):
    """Base of all priors: the distribution of a parameter, given in place of a number.

    Examples
    --------
    Each row has a separate weight, and both share the noise:

    >>> import chiasma as ch
    >>> emission = ch.Gaussian(weights=ch.Gamma([2.0, 2.0], 1.0), sd=ch.HalfNormal(1.0))
    >>> ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission).parameters.names
    ['weights', 'sd']
    """

    arguments: ClassVar[tuple[str, ...]]
    shape: tuple[int, ...]
    support: tuple[float, float]  # bounds of every value
    n_free: int
    shared_as: str | None = None  # the name of a parameter that several parts of a model have in common

    def shared(self, name: str) -> Self:
        """The same prior for one parameter that several rows share: all that are given this name have one value.

        Parameters
        ----------
        name : str, what the parameter is called in results.

        Returns
        -------
        A prior.

        Examples
        --------
        >>> import chiasma as ch
        >>> step = ch.Gamma(2, 1).shared("step")
        >>> row = ch.Row([0, 1, 2], ch.Sticky(0.1), weight=step)
        >>> row.priors["weight"]
        Gamma(2, 1).shared('step')
        """
        if not name or not isinstance(name, str):
            raise InvalidInput(f"a shared parameter needs a name, got {shown(name)}; give one, such as 'step'")
        other = copy(self)
        other.shared_as = name
        return other

    @property
    @abstractmethod
    def centre(self) -> Floats:
        """A typical value, of the prior's shape."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Floats:
        """A random draw, of the prior's shape."""

    @abstractmethod
    def log_density(self, value: Floats) -> float:
        """log p(value), constants included; -inf outside the support."""

    @abstractmethod
    def entries(self) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
        """kind, a, b and constant of every value, as chiasma.kernels.priors takes them."""

    @abstractmethod
    def alike(self) -> list[list[int]]:
        """Groups of exchangeable entries along the first axis: entries with the same prior."""

    @abstractmethod
    def marginal(self, entry: tuple[int, ...]) -> Prior:
        """The marginal prior of one entry."""

    def describe(self) -> dict[str, Any]:
        """The prior as plain JSON, from which `prior_of` rebuilds it."""
        told = {"prior": type(self).__name__} | {name: getattr(self, name).tolist() for name in self.arguments}
        return told if self.shared_as is None else told | {"shared": self.shared_as}

    def __repr__(self) -> str:
        shared = "" if self.shared_as is None else f".shared({self.shared_as!r})"
        return f"{type(self).__name__}({', '.join(short(getattr(self, name)) for name in self.arguments)}){shared}"


class Independent(Prior):
    """Independent entries, all with the same bounds."""

    def __init__(self, **arguments: npt.ArrayLike):
        given = {name: as_floats(f"{name} of {type(self).__name__}", value) for name, value in arguments.items()}
        try:
            self.shape = np.broadcast_shapes(*(values.shape for values in given.values()))
        except ValueError:
            sizes = ", ".join(f"{name} {values.shape}" for name, values in given.items())
            raise InvalidInput(f"arguments of {type(self).__name__} must have equal lengths, got {sizes}") from None
        for name, values in given.items():
            if not np.all(np.isfinite(values)):
                raise InvalidInput(f"{name} of {type(self).__name__} must be finite, got {short(values)}")
            setattr(self, name, values)
        self.n_free = int(np.prod(self.shape, dtype=int))

    def _positive(self, *names: str) -> None:
        for name in names:
            if np.any(getattr(self, name) <= 0):
                raise InvalidInput(
                    f"{name} of {type(self).__name__} must be positive, got {short(getattr(self, name))}"
                )

    @abstractmethod
    def _log_densities(self, value: Floats) -> Floats:
        """Log density of each entry, for values inside the support."""

    def log_density(self, value: Floats) -> float:
        value = np.asarray(value, float)
        low, high = self.support
        if not np.all((value > low) & (value < high)):
            return -np.inf
        return float(np.sum(self._log_densities(value)))

    kind: ClassVar[int]

    @abstractmethod
    def _constants(self) -> Floats:
        """Normalising constants of the log densities."""

    def entries(self) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
        first, last = self.arguments[0], self.arguments[-1]
        columns = (getattr(self, first), getattr(self, last), self._constants())
        a, b, constant = (np.broadcast_to(column, self.shape).astype(float).ravel() for column in columns)
        return np.full(self.n_free, self.kind), a, b, constant

    def marginal(self, entry: tuple[int, ...]) -> Prior:
        return type(self)(*(np.broadcast_to(getattr(self, name), self.shape)[entry] for name in self.arguments))

    def alike(self) -> list[list[int]]:
        if not self.shape:
            return []
        table = [np.broadcast_to(getattr(self, name), self.shape).reshape(self.shape[0], -1) for name in self.arguments]
        return groups_alike(np.concatenate(table, axis=1))


def groups_alike(rows: Floats) -> list[list[int]]:
    found: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(rows):
        found.setdefault(tuple(row.tolist()), []).append(i)
    return [group for group in found.values() if len(group) > 1]


def short(values: Floats) -> str:
    return f"{values:g}" if values.ndim == 0 else str(values.tolist())


class Normal(Independent):
    """N(mean, sd^2).

    Parameters
    ----------
    mean, sd : numbers, or arrays of one value per entry of the parameter.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Normal([0.0, 5.0], 1.0).shape
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


class Coefficients(Normal):
    """The marginal part of the prior of the coefficients of an offset; what ties neighbours together is in
    `models.offsets`.
    """

    in_settings: ClassVar[bool] = False  # it comes with the offset

    def alike(self) -> list[list[int]]:
        return []  # a coefficient has its place in time


class LogNormal(Independent):
    """exp(N(mean, sd^2)): positive values, whose logarithm is normal.

    Parameters
    ----------
    mean, sd : of the logarithm: numbers, or arrays of one value per entry of the parameter.

    Examples
    --------
    Between about 5 and 20, most probably near 10:

    >>> import numpy as np
    >>> import chiasma as ch
    >>> ch.LogNormal(np.log(10), 0.35).centre.round(2)
    np.float64(10.0)
    """

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
    """The absolute value of N(0, sd^2): for a standard deviation of which the size is roughly known.

    Parameters
    ----------
    sd : a number, or an array of one value per entry of the parameter.

    Examples
    --------
    >>> import chiasma as ch
    >>> round(ch.HalfNormal(2.0).log_density(1.0), 3)
    -1.044
    """

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
    """Positive values with mean alpha / beta and variance alpha / beta^2.

    Parameters
    ----------
    alpha, beta : shape and rate: numbers, or arrays of one value per entry of the parameter.

    Examples
    --------
    Three positive weights, each with mean 2:

    >>> import chiasma as ch
    >>> ch.Gamma([2.0, 2.0, 2.0], 1.0).centre.tolist()
    [2.0, 2.0, 2.0]
    """

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
    """Probabilities with mean alpha / (alpha + beta).

    Parameters
    ----------
    alpha, beta : numbers, or arrays of one value per entry of the parameter.

    Examples
    --------
    One switch in a hundred columns is expected:

    >>> import chiasma as ch
    >>> ch.Switches(enter=ch.Beta(1, 99), leave=ch.Beta(1, 99)).priors["enter"].centre.tolist()
    0.01
    """

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
    """Equal density between low and high.

    Parameters
    ----------
    low, high : numbers.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Uniform(0.0, 4.0).centre.tolist()
    2.0
    """

    kind = kernel.UNIFORM
    arguments = ("low", "high")
    low: Floats
    high: Floats

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike):
        super().__init__(low=low, high=high)
        if self.low.ndim or self.high.ndim or not self.low < self.high:
            raise InvalidInput(
                f"Uniform takes two numbers, low < high, got {short(self.low)} and {short(self.high)}; for several "
                "values use another prior, such as Gamma([2, 2], 1)"
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
    """Positive values that add up to 1, such as shares of cells; equal concentrations make the rows exchangeable.

    Parameters
    ----------
    concentration : (K,) positive; the greater they are, the closer the values are to their means.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Dirichlet([1, 1, 1]).centre.round(3).tolist()
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

    def marginal(self, entry: tuple[int, ...]) -> Prior:
        own = self.concentration[entry]
        return Beta(own, self.concentration.sum() - own)

    def alike(self) -> list[list[int]]:
        return groups_alike(self.concentration[:, None])


class DirichletRows(Prior):
    """A transition matrix whose rows are independent Dirichlets: given a path, each row is one again.

    Parameters
    ----------
    concentration : (S, S), one row per state that is left.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.DirichletRows([[8, 2], [1, 3]]).centre.tolist()
    [[0.8, 0.2], [0.25, 0.75]]
    """

    arguments = ("concentration",)
    support = (0.0, 1.0)

    def __init__(self, concentration: npt.ArrayLike):
        self.concentration = as_floats("concentration of DirichletRows", concentration)
        if self.concentration.ndim != 2 or self.concentration.shape[0] != self.concentration.shape[1]:
            raise InvalidInput(
                "DirichletRows needs a square matrix of concentrations, one row per state that is left, got shape "
                f"{self.concentration.shape}; for one distribution use Dirichlet"
            )
        self.rows = [Dirichlet(row) for row in self.concentration]
        self.shape = self.concentration.shape
        self.n_free = sum(row.n_free for row in self.rows)

    @property
    def centre(self) -> Floats:
        return np.array([row.centre for row in self.rows])

    def sample(self, rng: np.random.Generator) -> Floats:
        return np.array([row.sample(rng) for row in self.rows])

    def log_density(self, value: Floats) -> float:
        return sum(row.log_density(own) for row, own in zip(self.rows, value, strict=True))

    def entries(self) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
        kind, a, b, constant = zip(*(row.entries() for row in self.rows), strict=True)
        return np.concatenate(kind), np.concatenate(a), np.concatenate(b), np.concatenate(constant)

    def marginal(self, entry: tuple[int, ...]) -> Prior:
        return self.rows[entry[0]].marginal(entry[1:])

    def alike(self) -> list[list[int]]:
        # A state is a row and a column of the matrix, and has a value besides: rows of it are no parts to exchange.
        return []


class Mixed(Prior):
    """Numbers and priors in one list: the numbers stay what they are. Made by `mixed` from what a user gives.

    >>> Mixed([0.0, Normal(150, 30), 2000.0]).centre.tolist()
    [0.0, 150.0, 2000.0]
    """

    in_settings: ClassVar[bool] = False  # in files it is a list

    def __init__(self, parts: Any):
        self.shape = _nested_shape(parts)
        self.parts = [part if isinstance(part, Prior) else float(part) for part in _leaves(parts)]
        self.n_free = sum(part.n_free for part in self.parts if isinstance(part, Prior))
        bounds = [
            part.support if isinstance(part, Prior) else (np.nextafter(part, -np.inf), part) for part in self.parts
        ]
        self.support = min(low for low, _ in bounds), max(high for _, high in bounds)

    @property
    def is_number(self) -> npt.NDArray[np.bool_]:
        """Which entries are numbers, of the prior's shape."""
        return np.array([not isinstance(part, Prior) for part in self.parts]).reshape(self.shape)

    @property
    def centre(self) -> Floats:
        return self._array(part.centre if isinstance(part, Prior) else part for part in self.parts)

    def sample(self, rng: np.random.Generator) -> Floats:
        return self._array(part.sample(rng) if isinstance(part, Prior) else part for part in self.parts)

    def _array(self, values: Iterable[Any]) -> Floats:
        return np.array(list(values), float).reshape(self.shape)

    def log_density(self, value: Floats) -> float:
        total = 0.0
        for part, x in zip(self.parts, np.ravel(value), strict=True):
            total += part.log_density(np.asarray(x)) if isinstance(part, Prior) else 0.0 if x == part else -np.inf
        return total

    def entries(self) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
        nothing = np.zeros(1)
        found = [
            part.entries()
            if isinstance(part, Prior)
            else (np.array([kernel.FIXED]), np.array([part]), nothing, nothing)
            for part in self.parts
        ]
        kind, a, b, constant = zip(*found, strict=True)
        return np.concatenate(kind), np.concatenate(a), np.concatenate(b), np.concatenate(constant)

    def alike(self) -> list[list[int]]:
        return groups_alike(
            np.stack([np.asarray(own, float) for own in self.entries()], axis=1).reshape(self.shape[0], -1)
        )

    def marginal(self, entry: tuple[int, ...]) -> Prior:
        part = self.parts[int(np.ravel_multi_index(entry, self.shape))]
        assert isinstance(part, Prior)
        return part

    def described(self, tell: Callable[[Prior], Any]) -> Any:
        """The nested list, each prior as `tell` has it."""
        told = np.empty(len(self.parts), object)
        told[:] = [tell(part) if isinstance(part, Prior) else part for part in self.parts]
        return told.reshape(self.shape).tolist()

    def describe(self) -> dict[str, Any]:
        return {"prior": "Mixed", "entries": self.described(Prior.describe)}

    def __repr__(self) -> str:
        return repr(self.described(lambda part: part)).replace(".0,", ",").replace(".0]", "]")


# What an argument with several entries takes: numbers, a prior of all of them, or both in one list.
Numbers = Prior | npt.NDArray[Any] | float | Sequence[float | Prior | Sequence[float | Prior]]


def mixed(name: str, given: Any) -> Any:
    """A list in which there are priors as one prior; anything else as it is."""
    if not isinstance(given, list | tuple) or not any(isinstance(part, Prior) for part in _leaves(given)):
        return given
    for part in _leaves(given):
        if isinstance(part, Prior):
            if part.shape != () or part.shared_as is not None:
                raise InvalidInput(
                    f"a prior in the list of {name} must be for one number and not shared, got {part}; share a "
                    "prior of the whole list"
                )
        elif as_floats(name, part).shape != () or not np.isfinite(as_floats(name, part)):
            raise InvalidInput(f"{name} lists finite numbers and priors, got {shown(part)}")
    return Mixed(given)


def _leaves(given: Any) -> Iterator[Any]:
    for part in given:
        if isinstance(part, list | tuple):
            yield from _leaves(part)
        else:
            yield part


def _nested_shape(given: Any) -> tuple[int, ...]:
    shapes = {_nested_shape(part) if isinstance(part, list | tuple) else () for part in given}
    if len(shapes) != 1:
        raise InvalidInput(f"a list of numbers and priors needs entries of one shape, got {shown(given)}")
    return (len(given), *shapes.pop())


# Registry of priors by name, for files, help texts and stored runs.
PRIORS: dict[str, type[Prior]] = {
    kind.__name__: kind
    for kind in (
        Normal,
        LogNormal,
        HalfNormal,
        Gamma,
        Beta,
        Uniform,
        Dirichlet,
        DirichletRows,
    )
}


def prior_of(description: Any) -> Any:
    """Rebuild a prior from what `Prior.describe` returned; return anything else unchanged."""
    if not isinstance(description, dict) or "prior" not in description:
        return description
    if description["prior"] == "Mixed":
        return Mixed(_rebuilt(description["entries"]))
    own = {name: value for name, value in description.items() if name not in ("prior", "shared")}
    prior = PRIORS[description["prior"]](**own)
    return prior.shared(description["shared"]) if "shared" in description else prior


def _rebuilt(entries: Any) -> Any:
    return [_rebuilt(one) if isinstance(one, list) else prior_of(one) for one in entries]


def check_prior(name: str, prior: Prior, shapes: tuple[tuple[int, ...], ...], low: float, high: float) -> None:
    """Raise InvalidInput where the prior has another shape than the parameter, or values that it cannot take."""
    if prior.shape not in shapes:
        wanted = " or ".join("a single value" if shape == () else f"shape {shape}" for shape in shapes)
        raise InvalidInput(f"the prior of {name} must have {wanted}, got {prior} with shape {prior.shape}")
    if prior.support[0] < low or prior.support[1] > high:
        fitting = ", ".join(known for known, kind in PRIORS.items() if _fits(kind, low, high))
        bounds = f"above {low:g}" if high == np.inf else f"between {low:g} and {high:g}"
        raise InvalidInput(f"{name} must be {bounds}, and {prior} also gives values outside; use {fitting}")


def _fits(kind: type[Prior], low: float, high: float) -> bool:
    if not hasattr(kind, "support"):
        return True  # its bounds are arguments
    return kind.support[0] >= low and kind.support[1] <= high
