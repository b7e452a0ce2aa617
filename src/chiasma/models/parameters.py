"""The learned parameters of a model, as one vector of values and one of free coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels import priors as kernel
from chiasma.models.priors import PRIORS, Coefficients, Mixed, Prior
from chiasma.types import Floats, as_floats

if TYPE_CHECKING:
    from chiasma.models.offsets import BoundOffset


def label(name: str, place: tuple[int, ...]) -> str:
    """The name of one value of a parameter.

    >>> label("sd", ()), label("weights", (1,))
    ('sd', 'weights[1]')
    """
    return f"{name}[{', '.join(map(str, place))}]" if place else name


class Slot(NamedTuple):
    """One parameter and its slices of both vectors."""

    name: str
    prior: Prior
    values: slice
    free: slice


class Parameters:
    """Values (P,) of all learned parameters, first of the chains, then of the emission and of the offset.

    of_chains, of_emission, of_offset : indices of their free coordinates; given a path the chains are independent of
    the others.
    n_own : how many of the values are not the offset's.
    """

    def __init__(self, chains: Mapping[str, Prior], emission: Mapping[str, Prior], offset: BoundOffset | None = None):
        self.slots: list[Slot] = []
        self.offset = offset
        n_values = n_free = 0
        for name, prior in (*chains.items(), *emission.items(), *({} if offset is None else offset.priors).items()):
            size = int(np.prod(prior.shape, dtype=int))
            values, free = slice(n_values, n_values + size), slice(n_free, n_free + prior.n_free)
            self.slots.append(Slot(name, prior, values, free))
            n_values, n_free = values.stop, free.stop
        self.n_values, self.n_free = n_values, n_free
        entries = [slot.prior.entries() for slot in self.slots]
        nothing = (np.empty(0, np.int64), *np.empty((3, 0)))
        self._entries = tuple(np.concatenate(column) for column in zip(nothing, *entries, strict=True))
        n_chains = sum(prior.n_free for prior in chains.values())
        n_emission = sum(prior.n_free for prior in emission.values())
        self.of_chains = np.arange(n_chains)
        self.of_emission = np.arange(n_chains, n_chains + n_emission)
        self.of_offset = np.arange(n_chains + n_emission, n_free)
        first = len(chains) + len(emission)
        self.n_own = self.slots[first].values.start if first < len(self.slots) else n_values

    def __bool__(self) -> bool:
        return bool(self.slots)

    @property
    def names(self) -> list[str]:
        return [slot.name for slot in self.slots]

    def value_names(self) -> list[str]:
        """(P,) a name for every value, in order: sd, weights[0], weights[1]."""
        return [label(slot.name, place) for slot in self.slots for place in np.ndindex(slot.prior.shape)]

    def sample(self, rng: np.random.Generator) -> Floats:
        """(P,) from the prior."""
        drawn = {slot.name: slot.prior.sample(rng) for slot in self.slots}
        if self.offset is not None:
            drawn |= self.offset.sample(drawn, rng)
        return np.concatenate([np.empty(0), *(drawn[slot.name].ravel() for slot in self.slots)])

    def unpack(self, values: Floats) -> dict[str, Floats]:
        """Values (..., P) as arrays by name, each of shape (..., *shape of the parameter)."""
        before = values.shape[:-1]
        return {slot.name: values[..., slot.values].reshape(before + slot.prior.shape) for slot in self.slots}

    def pack(self, given: Mapping[str, Any], missing: Floats) -> Floats:
        """(P,) from values by name, each inside the support of its prior; `missing` (P,) fills in the others."""
        values = missing.copy()
        unknown = sorted(set(given) - set(self.names))
        if unknown:
            raise InvalidInput(
                f"{', '.join(unknown)} is not learned here; the learned parameters are {', '.join(self.names)}"
            )
        for slot in self.slots:
            if slot.name in given:
                value = as_floats(slot.name, given[slot.name])
                if value.shape != slot.prior.shape:
                    raise InvalidInput(f"{slot.name} must have shape {slot.prior.shape}, got {value.shape}")
                if not np.isfinite(slot.prior.log_density(value)):
                    raise InvalidInput(
                        f"the prior of {slot.name}, {slot.prior}, excludes the start {value.tolist()}; start inside "
                        "its support, or widen the prior"
                    )
                values[slot.values] = value.ravel()
        return values

    def log_prior(self, values: Floats) -> float:
        """Log prior density of values (P,); -inf outside the supports."""
        return float(kernel.log_density(*self._entries, values, False)) + self._ties(values)

    def log_prior_free(self, values: Floats) -> float:
        """Log prior density of the free coordinates of `values`; -inf where a value was rounded onto its bound."""
        return float(kernel.log_density(*self._entries, values, True)) + self._ties(values)

    def _ties(self, values: Floats) -> float:
        """What ties the coefficients of an offset together."""
        if self.offset is None or not np.isfinite(values[self.n_own :]).all():
            return 0.0
        return self.offset.log_density(self.unpack(values))

    def _tie_slopes(self, values: Floats) -> Floats:
        """(P,) its derivatives."""
        out = np.zeros(self.n_values)
        if self.offset is not None:
            found = self.offset.slopes(self.unpack(values))
            for slot in self.slots:
                if slot.name in found:
                    out[slot.values] = found[slot.name].ravel()
        return out

    def to_free(self, values: Floats) -> Floats:
        """(n_free,) coordinates of values inside the support."""
        free = np.empty(self.n_free)
        kernel.to_free(*self._entries[:3], values, free)
        return free

    def from_free(self, free: Floats) -> Floats:
        """(P,) values at free coordinates."""
        values = np.empty(self.n_values)
        kernel.from_free(*self._entries[:3], free, values)
        return values

    @property
    def centre(self) -> Floats:
        """(P,) typical values."""
        return np.concatenate([np.empty(0), *(slot.prior.centre.ravel() for slot in self.slots)])

    @property
    def scale(self) -> Floats:
        """(n_free,) widths of the priors in free coordinates, in orders of magnitude: 1 for logarithms and logits."""
        kind, _, spread, _ = self._entries
        free = (kind != kernel.SIMPLEX_END) & (kind != kernel.FIXED)
        return np.where(kind[free] == kernel.NORMAL, spread[free], 1.0)

    def check_gradients(self) -> None:
        """Raise InvalidInput where a prior has no gradient: one of a class of the user's own."""
        for slot in self.slots:
            parts = slot.prior.parts if isinstance(slot.prior, Mixed) else [slot.prior]
            if any(isinstance(one, Prior) and type(one) not in (*PRIORS.values(), Coefficients) for one in parts):
                raise InvalidInput(
                    f"the prior of {slot.name}, {slot.prior}, has no gradient; use one of {', '.join(PRIORS)}, or "
                    "sample without gradients (update='row' or update='exact')"
                )

    def slopes(self, values: Floats) -> Floats:
        """(P,) derivatives of `log_prior`."""
        out = np.empty(self.n_values)
        kernel.log_density_slopes(*self._entries[:3], values, False, out)
        return out + self._tie_slopes(values)

    def free_slopes(self, values: Floats, slopes: Floats) -> Floats:
        """(n_free,) derivatives of `log_prior_free` plus a function of the values whose derivatives are slopes (P,)."""
        out = np.empty(self.n_values)
        kernel.log_density_slopes(*self._entries[:3], values, True, out)
        own = np.empty(self.n_free)
        kernel.pull_to_free(*self._entries[:3], values, slopes + self._tie_slopes(values), own)
        return out[: self.n_free] + own

    def tangent(self, slopes: Floats) -> Floats:
        """(P,) slopes whose values on a simplex are a direction in it: they add up to 0."""
        out = slopes.copy()
        ends = np.flatnonzero(self._entries[0] == kernel.SIMPLEX_END)
        for end in ends:
            first = end
            while first > 0 and self._entries[0][first - 1] == kernel.SIMPLEX:
                first -= 1
            out[first : end + 1] -= out[first : end + 1].mean()
        return out
