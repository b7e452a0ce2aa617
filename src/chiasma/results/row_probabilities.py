"""Probabilities of the states of every row along the sites; equal rows together, by how many of them are on.

Rows that cannot be told apart have the same probabilities one by one. What the data know is how many are on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from chiasma.models.factorial import FactorialHMM
from chiasma.types import Floats

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior


class RowProbabilities(NamedTuple):
    """A row, or several equal ones.

    rows : its number, or theirs.
    probabilities : (S - 1, T) of the states 1, 2, ...; of equal rows of two states, that 1, 2, ... of them are on.
    """

    name: str
    rows: list[int]
    probabilities: Floats

    @property
    def is_count(self) -> bool:
        return len(self.rows) > 1


def names_of_rows(posterior: Posterior) -> list[str]:
    """The names of the rows; row_0, row_1, ... where they have none."""
    return posterior.info.get("row_names") or [f"row_{k}" for k in range(posterior.n_rows or 0)]


def name_of_group(posterior: Posterior, group: Sequence[int]) -> str:
    """The first and the last of equal rows: channel_1-3 of channel_1, channel_2 and channel_3."""
    names = names_of_rows(posterior)
    first, last = names[group[0]], names[group[-1]]
    base, _, number = last.rpartition("_")
    return f"{first}-{number if base and first.startswith(f'{base}_') else last}"


def shown_rows(posterior: Posterior, together: bool = True) -> list[list[int]]:
    """The rows that are not fixed one by one, or (together) equal rows of two states in one entry, in their order."""
    fixed = posterior.model.fixed if isinstance(posterior.model, FactorialHMM) else {}
    free = [k for k in range(len(posterior.layout.sizes)) if k not in fixed]
    groups = [group for group in posterior.merging.groups if together and posterior.layout.sizes[group[0]] == 2]
    first = {k: group for group in groups for k in group[:1]}
    inside = {k for group in groups for k in group[1:]}
    return [first.get(k, [k]) for k in free if k not in inside]


def row_probabilities(posterior: Posterior, together: bool = True) -> list[RowProbabilities]:
    """One entry per row that is not fixed, or (together) per group of equal rows of two states, in their order."""
    names, marginals = names_of_rows(posterior), posterior.marginals().values
    found = []
    for rows in shown_rows(posterior, together):
        k = rows[0]
        if len(rows) > 1:
            counted = posterior.count_probabilities(k).values[1:]
            found.append(RowProbabilities(name_of_group(posterior, rows), rows, counted))
        elif posterior.layout.sizes[k] == 2:
            found.append(RowProbabilities(names[k], rows, marginals[k][None]))
        else:
            found.append(RowProbabilities(names[k], rows, posterior.probabilities(k).values[1:]))
    return found


def fixed_text(posterior: Posterior) -> str:
    """The rows that are held at one state, in words; empty where there are none."""
    names = names_of_rows(posterior)
    fixed = posterior.model.fixed if isinstance(posterior.model, FactorialHMM) else {}
    return ", ".join(f"{names[k]} = {state}" for k, state in fixed.items())
