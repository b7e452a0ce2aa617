"""Probabilities of the states of every row along the sites; equal rows together, by how many of them are on.

Rows that cannot be told apart have the same probabilities one by one. What the data know is how many are on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chiasma.models.factorial import FactorialHMM
from chiasma.results.configurations import pieces
from chiasma.results.posterior import Posterior
from chiasma.types import Floats


class RowProbabilities(NamedTuple):
    """A row, or several equal ones.

    probabilities : (S - 1, T) of the states 1, 2, ...; of equal rows of two states, that 1, 2, ... of them are on.
    fixed : the state at which the row is held.
    """

    name: str
    probabilities: Floats
    is_count: bool = False
    fixed: int | None = None


def names_of_rows(posterior: Posterior) -> list[str]:
    """The names of the rows; row_0, row_1, ... where they have none."""
    return posterior.info.get("row_names") or [f"row_{k}" for k in range(posterior.n_rows or 0)]


def row_probabilities(posterior: Posterior, together: bool = True) -> list[RowProbabilities]:
    """One entry per row, or (together) per group of equal rows of two states, in the order of the rows."""
    names, sizes = names_of_rows(posterior), posterior.layout.sizes
    marginals = posterior.marginals().values
    fixed = posterior.model.fixed_rows if isinstance(posterior.model, FactorialHMM) else {}
    groups = {group[0]: group for group in posterior.merging.groups if together and sizes[group[0]] == 2}
    inside = {k for group in groups.values() for k in group[1:]}
    found = []
    for k, name in enumerate(names):
        if k in inside:
            continue
        if k in groups:
            group = groups[k]
            counted = f"{name}–{names[group[-1]].rpartition('_')[2] or names[group[-1]]}"
            found.append(RowProbabilities(counted, _counts(posterior, group), is_count=True))
        elif sizes[k] == 2:
            found.append(RowProbabilities(name, marginals[k][None], fixed=fixed.get(k)))
        else:
            found.append(RowProbabilities(name, posterior.probabilities(k).values[1:], fixed=fixed.get(k)))
    return found


def _counts(posterior: Posterior, group: list[int]) -> Floats:
    """(n, T): share of draws with 1, 2, ..., n rows of the group on."""
    mask = sum(1 << int(posterior.layout.shifts[k]) for k in group)
    counts = np.zeros((len(group) + 1, posterior.draws.sizes["site"]), np.int64)
    for _, _, part in pieces(posterior.codes):
        on = np.bitwise_count(part.astype(np.int64) & mask)
        for n in range(1, len(group) + 1):
            counts[n] += (on == n).sum(axis=0)
    return counts[1:] / (posterior.draws.sizes["chain"] * posterior.draws.sizes["draw"])
