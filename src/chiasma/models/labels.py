"""Label switching: exchangeable rows can be permuted without changing the posterior, so draws are put in one order.

Rows are exchangeable where everything that says what they are is equal: states, numbers and priors. A permutation
moves the states of a row together with its own parameters: its entries of parameters with one value per row, and those
that belong to a `Row`. Copies of a `Row` share its parameters, so they move as one block. A row with known states is
like no other.

Within each group of exchangeable rows what they add to the level ascends: their weights, where values are 0 and 1. The
set of rows of a draw stays what it is, and the order is a function of the set. So the ordered draws come from the
posterior of the set, whatever names the sampler gave its rows.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from itertools import permutations, product
from math import factorial, prod

import numpy as np

from chiasma.models.additive import Additive
from chiasma.models.arguments import Learnable
from chiasma.models.factorial import FactorialHMM
from chiasma.models.priors import Prior
from chiasma.models.rows import Row, Rows, SwitchRows
from chiasma.types import Floats, Integers

Block = tuple[int, ...]


def exchangeable_blocks(model: FactorialHMM) -> list[list[Block]]:
    """Groups of blocks of free rows. The blocks of a group can be permuted without changing the model.

    A group whose rows are inside a block of another one comes before it.

    >>> import chiasma as ch
    >>> chains = ch.Switches(enter=[0.1, 0.1, 0.2], leave=0.1)
    >>> exchangeable_blocks(ch.FactorialHMM(rows=chains, emission=ch.Gaussian(ch.Dirichlet([1, 1, 1]))))
    [[(0,), (1,)]]
    >>> lamps = [ch.Row([0, 1], ch.Switch(0.1, 0.1), copies=2, weight=ch.Gamma(2, 1)) for _ in range(2)]
    >>> exchangeable_blocks(ch.FactorialHMM(rows=lamps, emission=ch.Gaussian()))
    [[(0, 1), (2, 3)]]
    """
    if not isinstance(model.emission, Additive):
        return []
    weights = _kinds(model.emission, "weights", model.n_rows)
    learns_weights = "weights" in model.emission.priors
    rows = model.rows
    if isinstance(rows, SwitchRows):
        chains = [_kinds(rows.chains, name, model.n_rows) for name in rows.chains.arguments]
        if not learns_weights and not any(prior.shape for prior in rows.priors.values()):
            return []  # equal rows without separate parameters are not ordered
        switches = [k for k in model.free_rows if k not in model.known_rows]
        return _alike(((k,), (weights[k], *(own[k] for own in chains))) for k in switches)
    own = own_parameters(rows)
    numbers = _numbers(rows)
    kinds = [_row_kind(row, names) for row, names in zip(rows.given, own, strict=True)]
    free = [g for g, row in enumerate(rows.given) if row.fixed is None and model.known_rows.isdisjoint(numbers[g])]
    found: list[list[Block]] = []
    if learns_weights:
        # Rows differ by their weights alone unless they belong to different rows with separate parameters.
        found += _alike(((k,), (g if own[g] else -1, kinds[g], weights[k])) for g in free for k in numbers[g])
    found += _alike((numbers[g], (kinds[g], tuple(weights[k] for k in numbers[g]))) for g in free if own[g])
    return found


def own_parameters(rows: Rows) -> list[dict[str, str]]:
    """For every given row, the names in the model of the learned arguments that it shares with no other."""
    names = [key for keys in rows.keys for key in keys.values()]
    return [{name: key for name, key in keys.items() if names.count(key) == 1} for keys in rows.keys]


def _alike(blocks: Iterable[tuple[Block, Hashable]]) -> list[list[Block]]:
    """Blocks of the same kind together, where there are several."""
    found: dict[Hashable, list[Block]] = {}
    for block, kind in blocks:
        found.setdefault(kind, []).append(block)
    return [group for group in found.values() if len(group) > 1]


def _numbers(rows: Rows) -> list[Block]:
    """The numbers of the copies of every given row."""
    ends = np.cumsum([row.copies for row in rows.given]).tolist()
    return [tuple(range(end - row.copies, end)) for row, end in zip(rows.given, ends, strict=True)]


def _kinds(part: Learnable, name: str, n_rows: int) -> list[Hashable]:
    """For every row a mark of its value of an argument, or of its prior: exchangeable rows have equal marks."""
    prior, given = part.priors.get(name), getattr(part, name)
    if prior is None:
        per_row = given is not None and given.ndim > 0
        return [given[k].tobytes() if per_row else None for k in range(n_rows)]
    if not prior.shape:
        return [None] * n_rows
    kinds = list(range(n_rows))
    for group in prior.alike():
        for row in group:
            kinds[row] = kinds[group[0]]
    return list(kinds)


def _row_kind(row: Row, own: dict[str, str]) -> Hashable:
    """All that says what a row is, but its name. Parameters of its own are known by their priors alone, shared ones by
    their names as well.
    """
    parts: list[Learnable] = [row] if row.chain is None else [row, row.chain]
    marks: list[Hashable] = [row.copies, row.n_states, *map(type, parts)]
    for part in parts:
        for name in part.arguments:
            given = part.given(name)
            if isinstance(given, Prior):
                told = given.describe()
                if name in own:
                    told.pop("shared", None)
                marks.append((type(given), json.dumps(told)))
            else:
                marks.append(None if given is None else (given.shape, given.tobytes()))
    return tuple(marks)


class RowSizes:
    """What every row adds to the level where it adds most, over what it adds in its first state; of channels, the
    first. This is the weight of a row that is off or on.

    Examples
    --------
    >>> import chiasma as ch
    >>> rows = [ch.Row([0, v], ch.Switch(0.1, 0.1), weight=ch.Gamma(2, 1)) for v in (1, 100)]
    >>> RowSizes(ch.FactorialHMM(rows=rows, emission=ch.Gaussian()))(np.array([2.0, 3.0])).tolist()
    [2.0, 300.0]
    """

    def __init__(self, model: FactorialHMM):
        assert isinstance(model.emission, Additive)
        places = {slot.name: np.arange(slot.values.start, slot.values.stop) for slot in model.parameters.slots}
        weights = model.emission.weights.reshape(model.n_rows, -1)[:, 0]
        learned = places["weights"].reshape(model.n_rows, -1)[:, 0] if "weights" in places else None
        # Of every row: a number, and the indices of learned values that it is multiplied with.
        self.numbers = np.ones(model.n_rows) if learned is not None else weights.astype(float)
        self.factors: list[list[int]] = [[] if learned is None else [int(learned[k])] for k in range(model.n_rows)]
        # Indices of the learned values of its states; None where they are numbers.
        self.values: list[Integers | None] = [None] * model.n_rows
        for row, keys, numbers in zip(model.rows.given, model.rows.keys, _numbers(model.rows), strict=True):
            for k in numbers:
                if "weight" in keys:
                    self.factors[k].append(int(places[keys["weight"]][0]))
                else:
                    self.numbers[k] *= row.weight
                if "values" in keys:
                    self.values[k] = places[keys["values"]].reshape(row.n_states, -1)[:, 0]
                else:
                    self.numbers[k] *= _most(row.values.reshape(row.n_states, -1)[:, 0])

    def __call__(self, values: Floats) -> Floats:
        """(..., K) from values (..., P) of the learned parameters."""
        sizes = np.empty((*values.shape[:-1], len(self.numbers)))
        for k, number in enumerate(self.numbers):
            sizes[..., k] = number
            for factor in self.factors[k]:
                sizes[..., k] *= values[..., factor]
            states = self.values[k]
            if states is not None:
                sizes[..., k] *= _most(values[..., states])
        return sizes


def _most(values: Floats) -> Floats:
    """(...) the value of (..., S) states that is furthest from the first, less the first."""
    away = values - values[..., :1]
    return np.asarray(np.take_along_axis(away, np.abs(away).argmax(axis=-1)[..., None], axis=-1)[..., 0])


class CanonicalOrder:
    """Undoes label switching: sorts exchangeable rows of a draw by what they add; does nothing without any.

    groups : those of `exchangeable_blocks`.
    """

    def __init__(self, model: FactorialHMM):
        self.groups = exchangeable_blocks(model)
        self.unchanged = np.arange(model.n_rows)
        if not self.groups:
            return
        self.sizes = RowSizes(model)
        self.shifts = {k: int(shift) for k, shift in enumerate(model.layout.shifts)}
        self.masks = model.layout.masks
        ends = [shift + int(self.masks[k]).bit_length() for k, shift in self.shifts.items()]
        self.n_codes = 1 << max(ends, default=0)
        self.places = _places(model)

    @property
    def n_orders(self) -> int:
        """In how many ways exchangeable rows can be permuted."""
        return prod(factorial(len(group)) for group in self.groups)

    def keys(self, row: int) -> list[int]:
        """The indices of the learned values by which a row is sorted; other values of it move along."""
        values = self.sizes.values[row]
        sizes = self.sizes.factors[row] + ([] if values is None else values.tolist())
        return sizes or self.places[row][:1].tolist()

    def orders(self) -> list[Integers]:
        """(K,) each: all these ways. Row k has what row order[k] had."""
        found = []
        for choice in product(*(permutations(group) for group in self.groups)):
            order = self.unchanged
            for group, blocks in zip(self.groups, choice, strict=True):
                order = _moved(order, group, blocks)
            found.append(order)
        return found

    def __call__(self, codes: Integers, values: Floats) -> tuple[Integers, Floats]:
        """Codes (T,) of all rows and values (P,), with exchangeable rows sorted."""
        if not self.groups:
            return codes, values
        sizes = self.sizes(values)
        order = self.unchanged
        for group in self.groups:
            # Rows that add the same numbers are sorted by their other parameters.
            keys = {block: (sizes[k], *values[self.places[k]]) for block in group for k in (int(order[block[0]]),)}
            order = _moved(order, group, sorted(group, key=keys.__getitem__))
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
        for k in np.flatnonzero(order != self.unchanged).tolist():
            moved[self.places[k]] = values[self.places[order[k]]]
        return moved


def _moved(order: Integers, group: Sequence[Block], blocks: Sequence[Block]) -> Integers:
    """The order in which each block of a group has what `order` has at another one."""
    moved = order.copy()
    for block, other in zip(group, blocks, strict=True):
        moved[list(block)] = order[list(other)]
    return moved


def _places(model: FactorialHMM) -> list[Integers]:
    """For every row, the indices of its own learned values in the vector of all, in an order that rows of one kind
    have in common.
    """
    slots = {slot.name: slot for slot in model.parameters.slots}
    found: list[list[int]] = [[] for _ in range(model.n_rows)]
    for name in ("weights", *(name for part in model.rows.parts for name in part.arguments)):
        if name in slots and slots[name].prior.shape:
            places = np.arange(slots[name].values.start, slots[name].values.stop).reshape(model.n_rows, -1)
            for own, several in zip(found, places.tolist(), strict=True):
                own += several
    for numbers, names in zip(_numbers(model.rows), own_parameters(model.rows), strict=True):
        for _, key in sorted(names.items()):
            for k in numbers:
                found[k] += range(slots[key].values.start, slots[key].values.stop)
    return [np.array(own, int) for own in found]
