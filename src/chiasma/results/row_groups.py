"""Rows as results show them: those that cannot be told apart together, with their names and probabilities.

Rows with the same weight, values and Markov chain can be exchanged without changing the posterior, so draws place them
at random: of eight equal lamps three are on, and no data say which. Such columns are one explanation. The form that
represents all of them has the states of every group in descending order: 0101 of four equal rows is sorted to 1100.
Equal rows have the same probabilities one by one; what the data know is how many are on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import factorial, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.kernels.layout import Layout, n_bits, unpack_codes
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.types import Floats, Integers

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior

# Codes of up to this many bits are sorted by a table of all of them.
TABLE_BITS = 16


def equal_rows(model: object) -> list[list[int]]:
    """Groups of at least two free rows that cannot be told apart.

    Rows whose weights or switching probabilities are learned one by one are not equal: draws have them in the order of
    their weights.

    >>> import chiasma as ch
    >>> chains = ch.Switches(enter=[0.1, 0.1, 0.2, 0.1], leave=0.1)
    >>> equal_rows(ch.FactorialHMM(rows=chains, emission=ch.Gaussian([1.0, 1.0, 1.0, 2.0])))
    [[0, 1]]
    """
    if not isinstance(model, FactorialHMM) or not isinstance(model.emission, Additive):
        return []
    if "weights" in model.emission.priors:
        return []
    found = [[k for k in group if k not in model.known_rows] for group in model.rows.groups(model.emission.weights)]
    return [group for group in found if len(group) > 1]


class Merging:
    """Sorts the states of equal rows in column codes.

    Examples
    --------
    >>> from chiasma.kernels.layout import make_layout
    >>> merging = Merging(make_layout([2, 2, 2, 2]), [[0, 1, 3]])
    >>> merging(np.array([0b1000, 0b0110, 0b1110])).tolist()
    [1, 5, 7]
    >>> merging.arrangements(0b0110)
    3
    """

    def __init__(self, layout: Layout, groups: Sequence[Sequence[int]]):
        self.layout = layout
        self.groups = [list(group) for group in groups]

    def __call__(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Codes of any shape and integer type, sorted."""
        if not self.groups:
            return codes
        if n_bits(self.layout) <= TABLE_BITS:
            return self._table.astype(codes.dtype)[codes]
        return self._sorted(codes).astype(codes.dtype)

    @cached_property
    def _table(self) -> Integers:
        return self._sorted(np.arange(1 << n_bits(self.layout)))

    def _sorted(self, codes: npt.NDArray[Any]) -> Integers:
        out = codes.astype(np.int64)
        for group in self.groups:
            shifts, mask = self.layout.shifts[group], self.layout.masks[group[0]]
            states = np.sort(out[..., None] >> shifts & mask, axis=-1)[..., ::-1]
            out &= ~np.int64((mask << shifts).sum())
            out |= (states << shifts).sum(axis=-1)
        return out

    def arrangements(self, code: int) -> int:
        """How many states the sorted one represents."""
        if not self.groups:
            return 1
        states = unpack_codes(np.array([code]), self.layout)[:, 0].tolist()
        counts = [Counter(states[k] for k in group) for group in self.groups]
        return prod(factorial(sum(one.values())) // prod(map(factorial, one.values())) for one in counts)


# ---- Names and probabilities -----------------------------------------------------------------------------------------


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
    """The rows that are held at one state, in words; empty without any."""
    names = names_of_rows(posterior)
    fixed = posterior.model.fixed if isinstance(posterior.model, FactorialHMM) else {}
    return ", ".join(f"{names[k]} = {state}" for k, state in fixed.items())
