"""Log-likelihoods of columns, for the axes of a target; fixed rows are already in them.

Two sources, one interface: `Levels` evaluates an additive emission on demand, `Lookup` reads a table. `Restricted`
excludes the states that contradict known ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from chiasma.errors import ImpossibleData
from chiasma.kernels.layout import (
    Layout,
    add_levels,
    bits_of,
    codes_of_indices,
    index_of_codes,
    make_layout,
    sub_layout,
)
from chiasma.kernels.logspace import temper_columns
from chiasma.models.additive import Additive, FusedFilter, GaussianParts
from chiasma.models.observations import Observations
from chiasma.types import Floats, Integers


class Candidates(Protocol):
    """Where updates and exchanges have log p(y_t | code) from."""

    def at(self, codes: Integers) -> Floats:
        """(T, m): the given codes, m at every column."""

    def around(self, centres: Integers, axes: Integers) -> Floats:
        """(T, m): all joint states of some axes, in the order of their indices; the others as in centres (T,)."""


class Likelihood(Candidates, Protocol):
    """The same, and what exact passes need of all N joint states."""

    def all_codes(self, first: int, stop: int) -> Floats:
        """(stop - first, N): every index at columns first..stop-1."""

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        """Write exp(beta * all_codes) into lik (n, N); column t is divided by exp(tops[t]) to be at most 1."""

    def fused_filter(self, beta: float, best: bool = False) -> FusedFilter | None:
        """A compiled filter that computes likelihoods on the fly; None where it has to use `tempered`."""

    def gaussian_parts(self) -> GaussianParts | None:
        """Data, steps and noise if the noise is Gaussian and all rows have two states; None if not."""


class Levels:
    """An additive emission, evaluated on demand.

    adds: (S_k,) or (S_k, D) what the states of every axis add; base: level of the fixed rows, () or (D,).
    """

    def __init__(self, emission: Additive, data: Observations, base: Floats, adds: Floats | Sequence[Floats]):
        self.emission = emission
        self.y = data.y
        self.base = base
        self.adds = adds

    @classmethod
    def of_switches(cls, emission: Additive, data: Observations, base: Floats, weights: Floats) -> Levels:
        """Rows of two states: what they add when they are on, (K,) or (K, D)."""
        adds = np.zeros((len(weights), 2, *weights.shape[1:]))
        adds[:, 1] = weights
        made = cls(emission, data, base, adds)
        made.weights = weights
        return made

    # Of `of_switches` only.
    weights: Floats | None = None

    @cached_property
    def levels(self) -> Floats:
        """(N,) or (N, D) of all indices of a column."""
        return self._joint(self.adds) + self.base

    def all_codes(self, first: int, stop: int) -> Floats:
        return _possible(self.emission.log_likelihood(self.y[first:stop], self.levels), first)

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        _temper(self.emission.log_likelihood(self.y[first:stop], self.levels), first, beta, lik, tops)

    def fused_filter(self, beta: float, best: bool = False) -> FusedFilter | None:
        return None if self.weights is None else self.emission.fused_filter(self.y, self.weights, self.base, beta, best)

    def gaussian_parts(self) -> GaussianParts | None:
        return None if self.weights is None else self.emission.gaussian_parts(self.y, self.weights, self.base)

    def at(self, codes: Integers) -> Floats:
        levels = self._levels(codes.ravel(), np.arange(len(self.adds)))
        return self.emission.log_likelihood(self.y, levels.reshape(*codes.shape, *self.base.shape))

    def around(self, centres: Integers, axes: Integers) -> Floats:
        others = self._levels(centres, np.delete(np.arange(len(self.adds)), axes))
        joint = self._joint([self.adds[k] for k in axes])
        return self.emission.log_likelihood(self.y, others[:, None] + joint)

    def _joint(self, adds: Floats | Sequence[Floats]) -> Floats:
        """(m, ...) what all joint states of some axes add."""
        levels = np.zeros((1, *self.base.shape))
        for own in adds:
            levels = (own[:, None] + levels).reshape(-1, *self.base.shape)
        return levels

    def _levels(self, codes: Integers, axes: Integers) -> Floats:
        """(n, ...) levels of codes (n,), as far as some axes add to them."""
        levels = np.empty((len(codes), *self.base.shape))
        levels[:] = self.base
        places, adds = self._states
        add_levels(codes, sub_layout(self._layout, axes), places[axes], adds, levels.reshape(len(codes), -1))
        return levels

    @cached_property
    def _layout(self) -> Layout:
        return make_layout([len(own) for own in self.adds])

    @cached_property
    def _states(self) -> tuple[Integers, Floats]:
        """(K,) where the states of every axis begin, and (A, D) what they add."""
        places = np.cumsum([0, *(len(own) for own in self.adds)])[:-1]
        return places, np.concatenate([own.reshape(len(own), -1) for own in self.adds])


class IndexTable:
    """Candidates out of a table (N, T) over all indices.

    In this order, because paths stay in one state for a while: what is read is mostly neighbours.
    """

    def __init__(self, table: Floats, layout: Layout):
        self.table = table.ravel()
        self.n_columns = table.shape[1]
        self.columns = np.arange(self.n_columns)[:, None]
        self.layout = layout

    def at(self, codes: Integers) -> Floats:
        return np.take(self.table, self._indices(codes) * self.n_columns + self.columns)

    def around(self, centres: Integers, axes: Integers) -> Floats:
        others = self._indices(centres & ~bits_of(sub_layout(self.layout, axes)))[:, None]
        return np.take(self.table, (others + joint_states(self.layout, axes)) * self.n_columns + self.columns)

    def _indices(self, codes: Integers) -> Integers:
        indices = np.empty(codes.size, np.int64)
        index_of_codes(codes.ravel(), self.layout, indices)
        return indices.reshape(codes.shape)


class Lookup:
    """A table (T, 2^K) of rows of two states."""

    def __init__(self, table: Floats, layout: Layout):
        self.table = table
        self.layout = layout

    def all_codes(self, first: int, stop: int) -> Floats:
        return _possible(self.table[first:stop], first)

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        _temper(self.table[first:stop], first, beta, lik, tops)

    def fused_filter(self, beta: float, best: bool = False) -> None:
        return None

    def gaussian_parts(self) -> None:
        return None

    def at(self, codes: Integers) -> Floats:
        return np.take_along_axis(self.table, codes, axis=1)

    def around(self, centres: Integers, axes: Integers) -> Floats:
        others = centres & ~bits_of(sub_layout(self.layout, axes))
        return self.at(others[:, None] + joint_states(self.layout, axes))


class KnownStates:
    """States that are known. axes (n,); states (n, T), -1: not known. They are certain, so no beta tempers them."""

    def __init__(self, axes: Sequence[int], states: Integers, layout: Layout):
        self.axes = tuple(axes)
        self.states = states
        self.layout = layout
        self.any: npt.NDArray[np.bool_] = np.asarray((states >= 0).any(axis=0))

    def allowed(self, first: int, stop: int) -> npt.NDArray[np.bool_]:
        """(stop - first, N): which indices do not contradict them."""
        index = np.arange(math.prod(self.layout.sizes.tolist()))
        found = np.ones((stop - first, len(index)), bool)
        (columns,) = np.nonzero(self.any[first:stop])
        for k, states in zip(self.axes, self.states[:, first:stop], strict=True):
            own = index // self.layout.strides[k] % self.layout.sizes[k]
            found[columns] &= (states[columns, None] < 0) | (states[columns, None] == own)
        return found

    def allow(self, codes: Integers) -> npt.NDArray[np.bool_]:
        """(T, m): which codes do not contradict them."""
        found = np.ones(codes.shape, bool)
        for k, states in zip(self.axes, self.states, strict=True):
            own = codes >> self.layout.shifts[k] & self.layout.masks[k]
            found &= (states[:, None] < 0) | (states[:, None] == own)
        return found


class Restricted:
    """A likelihood that is zero at states which contradict known ones."""

    def __init__(self, inner: Likelihood, known: KnownStates):
        self.inner = inner
        self.known = known

    @property
    def levels(self) -> Floats | None:
        """Those of `Levels`."""
        return getattr(self.inner, "levels", None)

    def all_codes(self, first: int, stop: int) -> Floats:
        table = self.inner.all_codes(first, stop)
        if self.known.any[first:stop].any():
            table = np.where(self.known.allowed(first, stop), table, -np.inf)
        return _possible(table, first)

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        _temper(self.all_codes(first, stop), first, beta, lik, tops)

    def fused_filter(self, beta: float, best: bool = False) -> None:
        return None

    def gaussian_parts(self) -> None:
        return None

    def at(self, codes: Integers) -> Floats:
        return np.where(self.known.allow(codes), self.inner.at(codes), -np.inf)

    def around(self, centres: Integers, axes: Integers) -> Floats:
        layout = self.known.layout
        others = centres & ~bits_of(sub_layout(layout, axes))
        codes = np.empty(math.prod(layout.sizes[axes].tolist()), np.int64)
        codes_of_indices(joint_states(layout, axes), layout, codes)
        return np.where(self.known.allow(others[:, None] | codes), self.inner.around(centres, axes), -np.inf)


def joint_states(layout: Layout, axes: Integers) -> Integers:
    """(m,) indices of a column in all joint states of some axes, the others in state 0.

    >>> joint_states(make_layout([2, 3, 2]), np.array([2, 0])).tolist()
    [0, 6, 1, 7]
    """
    found = np.zeros(1, np.int64)
    for size, stride in zip(layout.sizes[axes], layout.strides[axes], strict=True):
        found = (np.arange(size)[:, None] * stride + found).ravel()
    return found


def _temper(log_lik: Floats, first: int, beta: float, lik: Floats, tops: Floats) -> None:
    temper_columns(log_lik, beta, lik, tops)
    if tops.min() == -np.inf:
        _possible(log_lik, first)


def _possible(log_lik: Floats, first: int) -> Floats:
    """Return the table unchanged; raise ImpossibleData where all codes of a column have probability zero."""
    impossible = np.max(log_lik, axis=1) == -np.inf
    if impossible.any():
        raise ImpossibleData(
            f"the observation at column {first + int(np.argmax(impossible))} has probability zero under every "
            "configuration; check it against known states and the emission (a background keeps counts possible), or "
            "set it to NaN"
        )
    return log_lik
