"""Rows that cannot be told apart, and columns that differ only by exchanging them.

Rows with the same weight, values and Markov chain can be exchanged without changing the posterior, so draws place them
at random: of eight equal lamps three are on, and no data say which. Such columns are one explanation. The form that
stands for all of them has the states of every group in descending order: 0101 of four equal rows is sorted to 1100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import factorial, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.kernels.layout import Layout, n_bits, unpack_codes
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.types import Integers

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
    if model.rows is not None:
        found = model.rows.groups(model.emission.weights)
    elif any(prior.shape for prior in model.chains.priors.values()):
        return []
    else:
        kinds: dict[tuple[bytes, ...], list[int]] = {}
        per_row = [model.emission.weights]
        for name in model.chains.arguments:
            given = getattr(model.chains, name)
            if given is not None and given.ndim:
                per_row.append(given)
        for k in model.free_rows:
            kinds.setdefault(tuple(part[k].tobytes() for part in per_row), []).append(k)
        found = list(kinds.values())
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
        """How many columns the sorted one stands for."""
        if not self.groups:
            return 1
        states = unpack_codes(np.array([code]), self.layout)[:, 0].tolist()
        counts = [Counter(states[k] for k in group) for group in self.groups]
        return prod(factorial(sum(one.values())) // prod(map(factorial, one.values())) for one in counts)
