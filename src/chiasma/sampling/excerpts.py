"""Excerpts: a few stretches of a signal, on which most starts of a search are judged.

The stretches are spread evenly and become separate sequences, so that any model of the signal is a model of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chiasma.models.arguments import shallow_copy
from chiasma.models.observations import Observations
from chiasma.models.offsets import BoundOffset, Offset
from chiasma.models.parameters import Parameters
from chiasma.sampling.learning import Learning
from chiasma.types import Integers


class Excerpt(NamedTuple):
    """Columns of the signal, where the stretches begin and end among them, and the problem of learning from them."""

    columns: Integers
    bounds: Integers
    learning: Learning


def stretches(data: Observations, length: int) -> list[tuple[int, int]]:
    """The signal cut into stretches of about `length` columns, none of which crosses a start.

    >>> stretches(Observations([0.0] * 10, starts=[6]), 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    found = []
    for a, b in zip(data.starts, np.append(data.starts[1:], data.n_columns), strict=True):
        cuts = np.linspace(a, b, max(1, round((b - a) / length)) + 1).round().astype(int).tolist()
        found += list(pairwise(cuts))
    return found


def evenly(pieces: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """n of the pieces, spread evenly; all if there are fewer."""
    if n >= len(pieces):
        return pieces
    return [pieces[int((i + 0.5) * len(pieces) / n)] for i in range(n)]


def excerpt(learning: Learning, pieces: list[tuple[int, int]]) -> Excerpt:
    """The problem of learning from some stretches; an offset is constant on each (`BoundOffset.local`)."""
    data = learning.data
    columns = np.concatenate([np.arange(a, b) for a, b in pieces])
    bounds = np.cumsum([0, *(b - a for a, b in pieces)])
    gaps = None
    if data.gaps is not None:
        gaps = np.append(data.gaps, 1.0)[columns][:-1]
    known = {row: states[columns] for row, states in data.known.items()}
    part = Observations(data.y[columns], bounds[1:-1], gaps, data.step, data.unit, known)
    other = shallow_copy(learning)
    vars(other).pop("typical", None)
    vars(other).pop("side_by_side", None)
    other.data = part
    offset = learning.parameters.offset
    if offset is not None:
        other.model = shallow_copy(learning.model)
        bound: BoundOffset = offset.local(part, columns)
        other.model.offset = Offset(terms=offset.terms, bound=bound)
        other.model.parameters = other.parameters = Parameters(
            learning.model.rows.priors, learning.model.emission.priors, bound
        )
    return Excerpt(columns, bounds, other)
