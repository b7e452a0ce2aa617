"""Label switching: exchangeable rows can be permuted without changing the posterior, so draws are put in one order.

Within each group of exchangeable rows the weights ascend. States and other parameters of a row are permuted with its
weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chiasma.models.factorial import FactorialHMM
from chiasma.models.priors import Prior
from chiasma.types import Floats, Integers


def exchangeable_rows(model: FactorialHMM) -> list[list[int]]:
    """Groups of free rows with learned weights that can be permuted without changing the model.

    >>> import chiasma as ch
    >>> chains = ch.BinaryChains(enter=[0.1, 0.1, 0.2], leave=0.1)
    >>> exchangeable_rows(ch.FactorialHMM(chains=chains, emission=ch.Gaussian(ch.Dirichlet([1, 1, 1]))))
    [[0, 1]]
    """
    weights = model.emission.priors.get("weights")
    if weights is None:
        return []
    rest = [list(range(model.n_rows))]
    for prior in (weights, *(model.chains.priors.values() if model.rows is None else ())):
        if prior.shape:
            rest = _split(rest, _kinds(prior, model.n_rows))
    for name in set(model.chains.arguments) - set(model.chains.priors):
        given = getattr(model.chains, name)
        if given is not None and given.ndim:
            rest = _split(rest, given.tolist())
    if model.rows is not None:
        rest = _split(rest, [f"{row.chain} {row.adds.tolist()} {row.learned}" for row in model.rows.rows])
    rest = [[row for row in group if row not in model.fixed_rows] for group in rest]
    return [group for group in rest if len(group) > 1]


def _kinds(prior: Prior, n_rows: int) -> list[float]:
    """One number per entry; exchangeable entries of the prior have equal numbers."""
    kinds = list(map(float, range(n_rows)))
    for group in prior.alike():
        for row in group:
            kinds[row] = kinds[group[0]]
    return kinds


def _split(groups: list[list[int]], kinds: Sequence[float | str]) -> list[list[int]]:
    found: dict[tuple[int, float | str], list[int]] = {}
    for i, group in enumerate(groups):
        for row in group:
            found.setdefault((i, kinds[row]), []).append(row)
    return list(found.values())


class CanonicalOrder:
    """Undoes label switching: sorts exchangeable rows of a draw by weight; does nothing where there are none."""

    def __init__(self, model: FactorialHMM):
        self.groups = [np.array(group) for group in exchangeable_rows(model)]
        self.unchanged = np.arange(model.n_rows)
        # Codes are those of the free rows, a bit each, or of all rows, a field each.
        self.shifts = {k: i for i, k in enumerate(model.free_rows)}
        if model.has_states:
            self.shifts = {k: int(shift) for k, shift in enumerate(model.layout.shifts)}
        self.masks = model.layout.masks
        ends = [shift + int(self.masks[k]).bit_length() for k, shift in self.shifts.items()]
        self.n_codes = 1 << max(ends, default=0)
        # Indices of every per-row parameter in the vector of values.
        self.places = [
            np.arange(slot.values.start, slot.values.stop).reshape(model.n_rows, -1)
            for slot in model.parameters.slots
            if slot.name in ("weights", *model.chains.arguments) and slot.prior.shape[:1] == (model.n_rows,)
        ]
        self.weights = next((slot.values for slot in model.parameters.slots if slot.name == "weights"), slice(0))
        self.n_rows = model.n_rows

    def __call__(self, codes: Integers, values: Floats) -> tuple[Integers, Floats]:
        """Codes (T,) and values (P,), with exchangeable rows sorted."""
        if not self.groups:
            return codes, values
        weights = values[self.weights].reshape(self.n_rows, -1)[:, 0]
        order = self.unchanged.copy()
        for group in self.groups:
            order[group] = group[np.argsort(weights[group], kind="stable")]
        if np.array_equal(order, self.unchanged):
            return codes, values
        sorted_values = self.permuted(values, order)
        # Where there are fewer codes than columns, each is moved once.
        table = np.arange(self.n_codes) if self.n_codes < len(codes) else codes
        moved = np.zeros_like(table)
        for row, shift in self.shifts.items():
            moved |= (table >> self.shifts[int(order[row])] & self.masks[row]) << shift
        return moved if table is codes else moved[codes], sorted_values

    def permuted(self, values: Floats, order: Integers) -> Floats:
        """(P,) values in which row k has those of row order[k]."""
        moved = values.copy()
        for places in self.places:
            moved[places] = values[places[order]]
        return moved
