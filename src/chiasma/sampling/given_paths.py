"""Parameters given the paths of all rows: Gibbs sampling from sufficient statistics.

At any beta the target of a replica is p(theta) p(X | theta) p(y | X, theta)^beta. Given X it falls into two blocks:
- chains: how often every row made each of its moves, by kind of edge. Beta and Dirichlet priors are conjugate. A start
  from the stationary distribution is not: there the conjugate draw is a proposal, accepted by the ratio of the starts.
- levels, which are what states add and the emission: moments of the columns that have the same states. What is linear
  in the mean of Gaussian noise and has Normal priors is drawn directly.
Slices update the other parameters: those of the chains among themselves; those of the levels together with what was
drawn directly, because they trade off, unless all that the level depends on was drawn directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import unpack_codes
from chiasma.kernels.priors import NORMAL
from chiasma.kernels.transitions import Matrices, count_moves
from chiasma.models.additive import Additive
from chiasma.models.chains import Markov, RowChain, Sticky, Switch
from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.parameters import Slot
from chiasma.models.priors import Beta, Dirichlet, DirichletRows, Mixed, Normal
from chiasma.models.rows import SwitchRows
from chiasma.sampling.slices import LogDensity, SliceLines
from chiasma.types import Floats, Integers

# Indices of the blocks of lines.
CHAINS, LEVELS = range(2)
# For every parameter of Switches: the entries of a row's four transition counts that are successes, and failures.
_MOVES = {"enter": ([1], [0]), "leave": ([2], [3]), "initial": ([1, 3], [0, 2])}
_SMALLEST = np.finfo(float).tiny
# The level of every group of columns, (G,) or (G, D), at values (P,).
LevelsAt = Callable[[Floats], Floats]


class LearnedArgument(NamedTuple):
    """A learned argument of the chain of a row: the number of the row as it was given, and those of its copies."""

    given: int
    copies: range
    argument: str


class GivenPaths:
    """Updates of values (P,) of the parameters of a model, given the path (T,) of codes of all its rows."""

    def __init__(self, model: FactorialHMM, data: Observations, log_prior_free: Callable[[Floats], float]):
        """log_prior_free : log prior density of the free coordinates of values (P,)."""
        if model.parameters.offset is not None:
            raise InvalidInput("an offset is learned with the paths integrated out: use update='collapsed'")
        self.model = model
        self.data = data if model.offset is None else model.offset.subtracted(data)
        self.parameters = model.parameters
        self.log_prior_free = log_prior_free
        self.edge, self.gaps = data.edge_kinds()
        self.uses = _uses(model)
        of_chains = model.rows.chain_parameters
        self.chains = [slot for slot in self.parameters.slots if slot.name in of_chains]
        self.levels = [slot for slot in self.parameters.slots if slot.name not in of_chains]
        self.counted = {slot.name for slot in self.chains if self._is_counted(slot)}
        self.linear = _linear(model)
        drawn = {slot.name for batch in self.linear for slot in batch}
        rest = [slot for slot in self.levels if slot.name not in drawn]
        # Noise hardly depends on levels, which otherwise trade off with each other.
        self.levels_are_drawn = bool(drawn) and {slot.name for slot in rest} <= {"sd"}
        self.blocks = [
            self._coordinates(slot for slot in self.chains if slot.name not in self.counted),
            self._coordinates(rest if self.levels_are_drawn else self.levels),
        ]

    def _coordinates(self, slots: Iterable[Slot]) -> Integers:
        """Indices of the free coordinates of some parameters."""
        own = [np.arange(slot.free.start, slot.free.stop) for slot in slots]
        return np.concatenate([np.empty(0, np.int64), *own])

    def update(
        self, values: Floats, codes: Integers, beta: float, lines: SliceLines, rung: int, rng: np.random.Generator
    ) -> Floats:
        """New values given the path; rung: the index of the replica in `lines`."""
        if self.chains:
            values = self._update_chains(values, codes, lines, rung, rng)
        if self.levels:
            values = self._update_levels(values, codes, beta, lines, rung, rng)
        return values

    # ---- Chains -----------------------------------------------------------------------------------------------------

    def _update_chains(
        self, values: Floats, codes: Integers, lines: SliceLines, rung: int, rng: np.random.Generator
    ) -> Floats:
        counts = self.count(codes)
        values = self.draw_counted(values, counts, rng)
        if not len(self.blocks[CHAINS]):
            return values
        return self._sliced(values, lambda at: self.log_path(at, counts), lines, rung, CHAINS, rng)

    def _is_counted(self, slot: Slot) -> bool:
        """Whether outcomes of what a parameter decides can be counted: then it is conjugate.

        With gaps they cannot, for these have powers of matrices, nor for a Sticky row, which may come to where it was.
        """
        rows = self.model.rows
        if isinstance(rows, SwitchRows):
            plain = self.data.gaps is None and rows.chains.initial is not None
            return isinstance(slot.prior, Beta) and (plain or slot.name == "initial")
        arguments = {use.argument for use in self.uses[slot.name]}
        chains = {type(self.model.rows.given[use.given].chain) for use in self.uses[slot.name]}
        countable = {"enter", "leave", "transition"} if self.data.gaps is None else set()
        return (
            type(slot.prior) in _DRAWS and chains <= {Switch, Markov, Sticky} and arguments <= countable | {"initial"}
        )

    def count(self, codes: Integers) -> list[Integers]:
        """(E, S_k^2) how often every row made each of its moves, by kind of edge."""
        layout = self.model.layout
        counts = np.zeros((len(self.gaps), int(np.sum(layout.sizes**2))), np.int64)
        count_moves(codes, self.edge, Matrices(counts, layout))
        return np.split(counts, layout.first[1:], axis=1)

    def log_path(self, values: Floats, counts: Sequence[Integers]) -> float:
        """log p(X | theta), without the rows whose chains are not learned."""
        unpacked = self.parameters.unpack(values)
        if isinstance(self.model.rows, SwitchRows):
            free = list(self.model.free_rows)
            _, trans = self.model.rows.placed(unpacked).tables(self.data)
            return _sum_of_logs(np.stack([counts[k] for k in free], axis=1), trans[:, free])
        rows = {use.given: use for uses in self.uses.values() for use in uses}
        found = [(self._moves(use, counts), self._at(values, use)) for use in rows.values()]
        return sum(_sum_of_logs(made, chain.matrices(made.shape[1], self.gaps)) for made, chain in found)

    def draw_counted(self, values: Floats, counts: Sequence[Integers], rng: np.random.Generator) -> Floats:
        """New values, with a draw of the parameters of chains that are conjugate."""
        slots = [slot for slot in self.chains if slot.name in self.counted]
        if isinstance(self.model.rows, SwitchRows):
            return self._draw_switches(slots, values, counts, rng)
        for slot in slots:
            uses = self.uses[slot.name]
            moves = [self._moves(use, counts) for use in uses]
            outcomes = np.sum([_outcomes(use.argument, own) for use, own in zip(uses, moves, strict=True)], axis=0)
            proposed = values.copy()
            proposed[slot.values] = _DRAWS[type(slot.prior)](slot.prior, outcomes, rng).ravel()
            if np.log(rng.random()) < self._log_starts(slot, proposed, moves) - self._log_starts(slot, values, moves):
                values = proposed
        return values

    def _draw_switches(
        self, slots: Sequence[Slot], values: Floats, counts: Sequence[Integers], rng: np.random.Generator
    ) -> Floats:
        free = list(self.model.free_rows)
        values = values.copy()
        for slot in slots:
            prior: Any = slot.prior
            own = np.array([counts[k][0] if slot.name == "initial" else counts[k][1:].sum(axis=0) for k in free])
            made, other = np.zeros((2, self.model.n_rows))
            yes, no = _MOVES[slot.name]
            made[free] = own[:, yes].sum(axis=1)
            other[free] = own[:, no].sum(axis=1)
            if prior.shape == ():
                made, other = made.sum(), other.sum()
            values[slot.values] = _inside(rng.beta(prior.alpha + made, prior.beta + other))
        return values

    def _log_starts(self, slot: Slot, values: Floats, moves: Sequence[Integers]) -> float:
        """Log-probability of the starts of rows that start from a stationary distribution, as far as a parameter has a
        part in it.
        """
        total = 0.0
        for use, own in zip(self.uses[slot.name], moves, strict=True):
            if use.argument != "initial" and self._chain(use).initial is None:
                starts = own[0].sum(axis=0)
                total += _sum_of_logs(starts, self._at(values, use).initial_distribution(len(starts)))
        return total

    def _moves(self, use: LearnedArgument, counts: Sequence[Integers]) -> Integers:
        """(E, S, S) moves of all copies of a row."""
        n_states = self.model.layout.sizes[use.copies.start]
        return np.asarray(np.sum([counts[k] for k in use.copies], axis=0).reshape(-1, n_states, n_states))

    def _chain(self, use: LearnedArgument) -> RowChain:
        chain = self.model.rows.given[use.given].chain
        assert chain is not None
        return chain

    def _at(self, values: Floats, use: LearnedArgument) -> RowChain:
        """The chain of a row at values of the parameters."""
        chain, keys, unpacked = self._chain(use), self.model.rows.keys[use.given], self.parameters.unpack(values)
        return chain.with_unchecked_values({name: unpacked[keys[name]] for name in chain.priors})

    # ---- Levels -----------------------------------------------------------------------------------------------------

    def _update_levels(
        self, values: Floats, codes: Integers, beta: float, lines: SliceLines, rung: int, rng: np.random.Generator
    ) -> Floats:
        own = self.model.emission
        assert isinstance(own, Additive)
        present, group = np.unique(codes, return_inverse=True)
        summary = own.summarise(self.data.y, group, len(present))
        levels_at = self.levels_of(present)
        values = self.draw_linear(values, summary, levels_at, beta, rng)
        if not len(self.blocks[LEVELS]):
            return values
        level = levels_at(values)

        def log_likelihood(at: Floats) -> float:
            emission = own.with_unchecked_values(self.parameters.unpack(at))
            return beta * emission.summed(summary, level if self.levels_are_drawn else levels_at(at))

        return self._sliced(values, log_likelihood, lines, rung, LEVELS, rng)

    def draw_linear(
        self, values: Floats, summary: Any, levels_at: LevelsAt, beta: float, rng: np.random.Generator
    ) -> Floats:
        """New values, with a draw of what the mean of a Gaussian is linear in; summary: moments of groups of columns.

        Values of several rows are drawn jointly: the data may know little more than their sum.
        """
        values = values.copy()
        for slots in self.linear:
            now: Any = self.model.emission.with_unchecked_values(self.parameters.unpack(values))
            share = beta / now.sd**2
            places, means, sds = (np.concatenate(own) for own in zip(*map(_normal_entries, slots), strict=True))
            if slots[0].name == "depth":
                values[places] = _draw_depth(slots[0].prior, share, summary, levels_at(values), rng)
                continue
            at = values.copy()
            at[places] = 0.0
            base = now.depth * levels_at(at)
            columns = []
            for place in places:
                at[place] = 1.0
                columns.append((now.depth * levels_at(at) - base).ravel())
                at[place] = 0.0
            values[places] = _draw_linear(np.array(columns).T, base, share, summary, means, sds, rng)
        return values

    def levels_of(self, codes: Integers) -> LevelsAt:
        """The levels of columns with these codes (G,), as a function of the values."""
        states, emission = unpack_codes(codes, self.model.layout), self.model.emission
        assert isinstance(emission, Additive)
        slots = {slot.name: slot for slot in self.levels}

        def reader(name: str | None, number: Floats) -> LevelsAt:
            if name not in slots:
                return lambda values: number
            slot = slots[name]
            return lambda values: values[slot.values].reshape(slot.prior.shape)

        weights = reader("weights", emission.weights)
        if isinstance(self.model.rows, SwitchRows):
            on = states.T.astype(float)
            return lambda values: on @ weights(values)
        given = zip(self.model.rows.given, self.model.rows.keys, strict=True)
        rows = [
            tuple(reader(keys.get(name), getattr(row, name)) for name in ("values", "weight", "spread"))
            for row, keys in given
            for _ in range(row.copies)
        ]

        def at(values: Floats) -> Floats:
            level: Floats = np.zeros(())
            for path, weight, (own, factor, spread) in zip(states, weights(values), rows, strict=True):
                adds = factor(values) * own(values)
                adds = np.multiply.outer(adds, weight) if adds.ndim == 1 else adds * weight
                level = level + (np.stack([adds, spread(values) ** 2], axis=-1) if emission.spreads else adds)[path]
            return level

        return at

    # ---- Slices -----------------------------------------------------------------------------------------------------

    def _sliced(
        self, values: Floats, rest: LogDensity, lines: SliceLines, rung: int, block: int, rng: np.random.Generator
    ) -> Floats:
        """Slice updates of a block of free coordinates; rest: the log density of values without their prior."""

        def log_density(free: Floats) -> float:
            at = self.parameters.from_free(free)
            log_prior = self.log_prior_free(at)
            return log_prior + rest(at) if log_prior > -np.inf else -np.inf

        start = self.parameters.to_free(values)
        free, _ = lines.sweep(rung, block, log_density, start, log_density(start), rng)
        return values if free is start else self.parameters.from_free(free)


def _uses(model: FactorialHMM) -> dict[str, list[LearnedArgument]]:
    """Where the chains of rows use each of their learned parameters."""
    found: dict[str, list[LearnedArgument]] = {}
    levels = set()
    first = 0
    for given, (row, keys) in enumerate(zip(model.rows.given, model.rows.keys, strict=True)):
        for argument, name in keys.items():
            if argument in row.priors:
                levels.add(name)
            else:
                found.setdefault(name, []).append(LearnedArgument(given, range(first, first + row.copies), argument))
        first += row.copies
    both = sorted(levels & set(found))
    if both:
        raise InvalidInput(
            f"{both[0]!r} is shared between a chain and what states add to the level; give two names, or use "
            "update='collapsed'"
        )
    return found


def _sum_of_logs(counts: Integers, probabilities: Floats) -> float:
    """sum of counts * log(probabilities), 0 where nothing was counted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(counts == 0, 0.0, counts * np.log(probabilities)).sum())


def _outcomes(argument: str, moves: Integers) -> Integers:
    """How often each outcome of what an argument decides was seen, the success of a Beta last; moves (E, S, S)."""
    if argument == "initial":
        return np.asarray(moves[0].sum(axis=0))
    steps = moves[1:].sum(axis=0)
    return np.asarray({"enter": steps[0], "leave": steps[1][::-1], "transition": steps}[argument])


def _draw_beta(prior: Beta, outcomes: Integers, rng: np.random.Generator) -> Floats:
    failures, successes = outcomes
    return _inside(rng.beta(prior.alpha + successes, prior.beta + failures))


def _draw_dirichlet(prior: Dirichlet, outcomes: Integers, rng: np.random.Generator) -> Floats:
    drawn = np.maximum(rng.dirichlet(prior.concentration + outcomes), _SMALLEST)
    return np.asarray(drawn / drawn.sum())


def _draw_rows(prior: DirichletRows, outcomes: Integers, rng: np.random.Generator) -> Floats:
    return np.array([_draw_dirichlet(row, own, rng) for row, own in zip(prior.rows, outcomes, strict=True)])


_DRAWS: dict[type, Callable[[Any, Integers, np.random.Generator], Floats]] = {
    Beta: _draw_beta,
    Dirichlet: _draw_dirichlet,
    DirichletRows: _draw_rows,
}


def _inside(drawn: Any) -> Floats:
    """A draw that was rounded to 0 or 1 would have an infinite free coordinate."""
    return np.clip(drawn, _SMALLEST, 1 - np.finfo(float).epsneg)


def _linear(model: FactorialHMM) -> list[list[Slot]]:
    """Parameters with Normal priors in batches, in each of which the mean of a Gaussian is linear."""
    if not isinstance(model.emission, Gaussian) or model.emission.spreads:
        return []
    slots = [slot for slot in model.parameters.slots if _is_normal(slot)]
    keys = model.rows.keys
    batches = [{own[name] for own in keys if name in own} for name in ("values", "weight")]
    if model.emission.n_channels is None:
        batches.append({"weights"})
    found = [[slot for slot in slots if slot.name in names] for names in (*batches, {"depth"})]
    return [batch for batch in found if batch]


def _is_normal(slot: Slot) -> bool:
    """Whether all learned entries are Normal."""
    if isinstance(slot.prior, Mixed):
        return slot.name != "depth" and all(isinstance(part, float | Normal) for part in slot.prior.parts)
    return isinstance(slot.prior, Normal)


def _normal_entries(slot: Slot) -> tuple[Integers, Floats, Floats]:
    """(p,) indices of the learned values, their means and standard deviations."""
    kind, mean, sd, _ = slot.prior.entries()
    learned = kind == NORMAL
    return np.arange(slot.values.start, slot.values.stop)[learned], mean[learned], sd[learned]


def _draw_depth(prior: Any, share: Floats, summary: Any, level: Floats, rng: np.random.Generator) -> Floats:
    n, mean, _ = summary
    precision, pull = share * n * level**2, share * n * level * mean
    if prior.shape == ():
        precision, pull = precision.sum(), pull.sum()
    else:
        precision, pull = precision.sum(axis=0), pull.sum(axis=0)
    precision = precision + 1 / prior.sd**2
    centre = (pull + prior.mean / prior.sd**2) / precision
    return np.asarray(rng.normal(centre, 1 / np.sqrt(precision)))


def _draw_linear(
    columns: Floats, base: Floats, share: Floats, summary: Any, means: Floats, sds: Floats, rng: np.random.Generator
) -> Floats:
    """(p,) coefficients of the mean: of columns (G, p) on top of base (G,), or of (G D, p) on top of (G, D)."""
    n, mean, _ = summary
    precision = (columns * (share * n).reshape(-1, 1)).T @ columns + np.diag(sds**-2.0)
    pull = columns.T @ (share * n * (mean - base)).ravel() + means / sds**2
    root = np.linalg.cholesky(precision)
    noise = np.linalg.solve(root.T, rng.standard_normal(len(pull)))
    return np.asarray(np.linalg.solve(precision, pull) + noise)
