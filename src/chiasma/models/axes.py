"""Axis: one free row of a model, or a group of rows that cannot be told apart and is counted (`models.groups`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chiasma.models.groups import Group, Unlumping, n_count_states
from chiasma.types import Floats


@dataclass(frozen=True, kw_only=True)
class Axis:
    """rows: their numbers in the model; matrices (E, S, S) of each of them."""

    rows: tuple[int, ...]
    matrices: Floats

    @property
    def n_row_states(self) -> int:
        """S, the states of a single row."""
        return self.matrices.shape[1]

    @property
    def size(self) -> int:
        """The states of the axis: those of the row, or the counts of the group."""
        return n_count_states(len(self.rows), self.n_row_states)

    @cached_property
    def group(self) -> Group:
        return Group(len(self.rows), self.n_row_states)

    @cached_property
    def tables(self) -> Floats:
        """(E, C, C)"""
        return self.matrices if len(self.rows) == 1 else self.group.lump(self.matrices)

    @property
    def log_tables(self) -> Floats:
        """(E, C, C): also of probabilities that are too small for a float."""
        return _log(self.matrices) if len(self.rows) == 1 else self.group.log_lump(self.matrices)

    @property
    def best_log_tables(self) -> Floats:
        """(E, C, C): of the best arrangement of the rows, for Viterbi."""
        return _log(self.matrices) if len(self.rows) == 1 else self.group.log_best(self.matrices)

    @cached_property
    def unlumping(self) -> Unlumping:
        return Unlumping(self.group, self.matrices)

    def levels(self, adds: Floats) -> Floats:
        """(C,) or (C, D) what the states of the axis add, from the (S,) or (S, D) that those of a row add."""
        return adds if len(self.rows) == 1 else self.group.levels(adds)

    def row_probabilities(self, smoothed: Floats) -> Floats:
        """(T, C) probabilities of the axis' states to (S, T) probabilities of the states of any of its rows."""
        if len(self.rows) == 1:
            return np.ascontiguousarray(smoothed.T)
        return np.asarray(self.group.counts.T @ smoothed.T) / len(self.rows)


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(values)
