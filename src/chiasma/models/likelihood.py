"""Log-likelihoods of columns, for the codes of the free rows only.

Two sources, one interface: `Levels` evaluates an additive emission on demand, `Lookup` reads a table. The same for rows
with any number of states: `IndexLevels` and `IndexTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from chiasma.errors import ImpossibleData
from chiasma.kernels.codes import add_levels, levels_around, subset_sums, without_lowest_bit
from chiasma.kernels.exponential import temper_columns
from chiasma.kernels.layout import Layout, bits_of, index_of_codes, make_layout, sub_layout
from chiasma.kernels.state_paths import add_levels as add_state_levels
from chiasma.models.additive import Additive, FusedFilter, GaussianParts
from chiasma.models.observations import Observations
from chiasma.types import Floats, Integers


class Likelihood(Protocol):
    """Where log p(y_t | code) comes from; K is the number of free rows."""

    def all_codes(self, first: int, stop: int) -> Floats:
        """(stop - first, 2^K): every code at columns first..stop-1."""

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        """Write exp(beta * all_codes) into lik (n, 2^K); column t is divided by exp(tops[t]) to be at most 1."""

    def fused_filter(self, beta: float) -> FusedFilter | None:
        """A compiled filter that computes likelihoods on the fly; None where it has to use `tempered`."""

    def gaussian_parts(self) -> GaussianParts | None:
        """Data, steps and noise if the noise is Gaussian; None if not."""

    def at(self, codes: Integers) -> Floats:
        """(T, m): the given codes, m at every column."""

    def around(self, centres: Integers, offsets: Integers) -> Floats:
        """(T, m): the codes centres[t] ^ offsets[j]. offsets[0] is 0; each other offset comes after the same offset
        without its lowest bit.
        """


class Levels:
    """An additive emission, evaluated on demand. base: level of the fixed rows."""

    def __init__(self, emission: Additive, data: Observations, weights: Floats, base: Floats):
        self.emission = emission
        self.y = data.y
        self.weights = weights
        self.base = base

    @cached_property
    def levels(self) -> Floats:
        """(2^K,) or (2^K, D) of all codes."""
        return np.asarray(subset_sums(self.weights) + self.base)

    def all_codes(self, first: int, stop: int) -> Floats:
        return _possible(self.emission.log_likelihood(self.y[first:stop], self.levels), first)

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        _temper(self.emission.log_likelihood(self.y[first:stop], self.levels), first, beta, lik, tops)

    def fused_filter(self, beta: float) -> FusedFilter | None:
        return self.emission.fused_filter(self.y, self.weights, self.base, beta)

    def gaussian_parts(self) -> GaussianParts | None:
        return self.emission.gaussian_parts(self.y, self.weights, self.base)

    def at(self, codes: Integers) -> Floats:
        channels = self.weights.shape[1:]
        level = np.empty((codes.size, *channels))
        level[:] = self.base
        add_levels(codes.ravel(), self.weights.reshape(len(self.weights), -1), level.reshape(codes.size, -1))
        return self.emission.log_likelihood(self.y, level.reshape(*codes.shape, *channels))

    def around(self, centres: Integers, offsets: Integers) -> Floats:
        channels = self.weights.shape[1:]
        weights = self.weights.reshape(len(self.weights), -1)
        level = np.empty((len(centres), len(offsets), weights.shape[1]))
        levels_around(centres, offsets, without_lowest_bit(offsets), weights, self.base.reshape(-1), level)
        return self.emission.log_likelihood(self.y, level.reshape(len(centres), len(offsets), *channels))


class StateLikelihood(Protocol):
    """Where log p(y_t | code) comes from for rows with any number of states; a code is one of the axes of a target."""

    def at(self, codes: Integers) -> Floats:
        """(T, m): the given codes, m at every column."""

    def around(self, centres: Integers, axes: Integers) -> Floats:
        """(T, m): all joint states of some axes, in the order of their indices; the others as in centres (T,)."""


class IndexLevels:
    """An additive emission over rows with any number of states.

    adds: (S_k,) or (S_k, D) what the states of every axis add; base: level of the fixed rows, () or (D,).
    """

    def __init__(self, emission: Additive, data: Observations, base: Floats, adds: Sequence[Floats]):
        self.emission = emission
        self.y = data.y
        self.base = base
        self.adds = adds

    @cached_property
    def levels(self) -> Floats:
        """(N,) or (N, D) of all indices of a column."""
        return self._joint(self.base, self.adds)

    def all_codes(self, first: int, stop: int) -> Floats:
        return _possible(self.emission.log_likelihood(self.y[first:stop], self.levels), first)

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        _temper(self.emission.log_likelihood(self.y[first:stop], self.levels), first, beta, lik, tops)

    def fused_filter(self, beta: float) -> None:
        return None

    def at(self, codes: Integers) -> Floats:
        levels = self._levels(codes.ravel(), np.arange(len(self.adds)))
        return self.emission.log_likelihood(self.y, levels.reshape(*codes.shape, *self.base.shape))

    def around(self, centres: Integers, axes: Integers) -> Floats:
        others = self._levels(centres, np.delete(np.arange(len(self.adds)), axes))
        joint = self._joint(np.zeros_like(self.base), [self.adds[k] for k in axes])
        return self.emission.log_likelihood(self.y, others[:, None] + joint)

    def _joint(self, base: Floats, adds: Sequence[Floats]) -> Floats:
        """(m, ...) levels of all joint states of some axes."""
        levels = base[None]
        for own in adds:
            levels = (own[:, None] + levels).reshape(-1, *base.shape)
        return levels

    def _levels(self, codes: Integers, axes: Integers) -> Floats:
        """(n, ...) levels of codes (n,), as far as some axes add to them."""
        levels = np.empty((len(codes), *self.base.shape))
        levels[:] = self.base
        places, adds = self._states
        add_state_levels(codes, sub_layout(self._layout, axes), places[axes], adds, levels.reshape(len(codes), -1))
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
    """A table (N, T) over all indices of rows with any number of states.

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
        block = sub_layout(self.layout, axes)
        steps = np.zeros(1, np.int64)
        for size, stride in zip(block.sizes, self.layout.strides[axes], strict=True):
            steps = (np.arange(size)[:, None] * stride + steps).ravel()
        others = self._indices(centres & ~bits_of(block))[:, None] * self.n_columns + self.columns
        return np.take(self.table, others + steps * self.n_columns)

    def _indices(self, codes: Integers) -> Integers:
        indices = np.empty(codes.size, np.int64)
        index_of_codes(codes.ravel(), self.layout, indices)
        return indices.reshape(codes.shape)


class Lookup:
    """A table (T, 2^K)."""

    def __init__(self, table: Floats):
        self.table = table

    def all_codes(self, first: int, stop: int) -> Floats:
        return _possible(self.table[first:stop], first)

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        _temper(self.table[first:stop], first, beta, lik, tops)

    def fused_filter(self, beta: float) -> None:
        return None

    def gaussian_parts(self) -> None:
        return None

    def at(self, codes: Integers) -> Floats:
        return np.take_along_axis(self.table, codes, axis=1)

    def around(self, centres: Integers, offsets: Integers) -> Floats:
        return self.at(centres[:, None] ^ offsets)


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
            "configuration; check it against the emission (a background keeps counts possible), or set it to NaN"
        )
    return log_lik
