"""What all priors share: shapes, free coordinates, how they are told apart and written down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from chiasma.errors import InvalidInput
from chiasma.types import Floats, as_floats


class Prior(ABC):
    """A distribution of a parameter."""

    arguments: ClassVar[tuple[str, ...]]
    shape: tuple[int, ...]
    support: tuple[float, float]  # bounds of every value
    n_free: int

    @property
    @abstractmethod
    def centre(self) -> Floats:
        """A typical value, of the prior's shape."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Floats:
        """A draw, of the prior's shape."""

    @abstractmethod
    def log_density(self, value: Floats) -> float:
        """log p(value), constants included; -inf outside the support."""

    @abstractmethod
    def to_free(self, value: Floats) -> Floats:
        """(n_free,) coordinates of a value inside the support."""

    @abstractmethod
    def from_free(self, free: Floats) -> Floats:
        """The value at (n_free,) coordinates."""

    @abstractmethod
    def log_slope(self, value: Floats) -> float:
        """log |d value / d free|, at a value inside the support."""

    @abstractmethod
    def entries(self) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
        """kind, a, b and constant of every value, as chiasma.kernels.priors takes them."""

    @abstractmethod
    def alike(self) -> list[list[int]]:
        """Groups of entries along the first axis that the prior does not tell apart."""

    @abstractmethod
    def marginal(self, entry: tuple[int, ...]) -> Prior:
        """The prior of one entry, whatever the others are: a single value."""

    def describe(self) -> dict[str, Any]:
        """Plain JSON from which `prior_of` makes it again."""
        return {"prior": type(self).__name__} | {name: getattr(self, name).tolist() for name in self.arguments}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(short(getattr(self, name)) for name in self.arguments)})"


class Independent(Prior):
    """Entries that are independent of each other, each within the same bounds."""

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
        """Entry by entry, inside the support."""

    def log_density(self, value: Floats) -> float:
        value = np.asarray(value, float)
        low, high = self.support
        if not np.all((value > low) & (value < high)):
            return -np.inf
        return float(np.sum(self._log_densities(value)))

    kind: ClassVar[int]

    @abstractmethod
    def _constants(self) -> Floats:
        """What the log density adds whatever the value."""

    def entries(self) -> tuple[npt.NDArray[np.int64], Floats, Floats, Floats]:
        first, last = self.arguments[0], self.arguments[-1]
        columns = (getattr(self, first), getattr(self, last), self._constants())
        a, b, constant = (np.broadcast_to(column, self.shape).astype(float).ravel() for column in columns)
        return np.full(self.n_free, self.kind), a, b, constant

    def to_free(self, value: Floats) -> Floats:
        low, high = self.support
        value = np.asarray(value, float).ravel()
        if high < np.inf:
            return np.asarray(scipy.special.logit((value - low) / (high - low)))
        return value.copy() if low == -np.inf else np.log(value - low)

    def from_free(self, free: Floats) -> Floats:
        low, high = self.support
        if high < np.inf:
            value = low + (high - low) * scipy.special.expit(free)
        elif low > -np.inf:
            with np.errstate(over="ignore"):
                value = low + np.exp(free)
        else:
            value = free
        return np.asarray(value, float).reshape(self.shape)

    def log_slope(self, value: Floats) -> float:
        low, high = self.support
        if high < np.inf:
            return float(np.sum(np.log(value - low) + np.log(high - value) - np.log(high - low)))
        return 0.0 if low == -np.inf else float(np.sum(np.log(value - low)))

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
