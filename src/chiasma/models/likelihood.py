"""Log-likelihoods of columns, for the codes of the free rows only.

Two sources, one interface: `Levels` evaluates an additive emission on demand, `Lookup` reads a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from chiasma.errors import ImpossibleData
from chiasma.kernels.codes import add_levels, levels_around, subset_sums, without_lowest_bit
from chiasma.kernels.exponential import temper_columns
from chiasma.models.additive import Additive, FusedFilter
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
        levels = self.base[None]
        for own in self.adds:
            levels = (own[:, None] + levels).reshape(-1, *self.base.shape)
        return levels

    def all_codes(self, first: int, stop: int) -> Floats:
        return _possible(self.emission.log_likelihood(self.y[first:stop], self.levels), first)

    def tempered(self, first: int, stop: int, beta: float, lik: Floats, tops: Floats) -> None:
        _temper(self.emission.log_likelihood(self.y[first:stop], self.levels), first, beta, lik, tops)

    def fused_filter(self, beta: float) -> None:
        return None

    def at(self, indices: Integers) -> Floats:
        return self.emission.log_likelihood(self.y, self.levels[indices])


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
