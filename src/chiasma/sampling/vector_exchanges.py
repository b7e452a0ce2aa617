"""Exchanges over plain vectors: the moves of chiasma.sampling.exchanges for any Density.

    pair = prepare_exchange(ch.AugmentedCrossover(), density, 1.0, 0.2)
    n_changed = pair.step(a, b, rng)                         # or pair(a, b, rng.random(pair.n_uniforms))

What `prepare_exchange` returns checks every vector that it is given; engines use `bind_exchange`, and check nothing.
Candidates of a crossover, for t = 0..size-1: prefix t exchanges coordinates 0..t, suffix t exchanges t+1..size-1.
A step may own scratch memory, so threads must not share one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels.moves import draw_cuts
from chiasma.kernels.picking import is_accepted, pick_log
from chiasma.models.borders import check_generator
from chiasma.models.density import Density, Vector, temper
from chiasma.models.target import check_beta
from chiasma.sampling.borders import check_density, check_two, check_uniforms
from chiasma.sampling.exchanges import AugmentedCrossover, Exchange, MosaicCrossover, RandomCrossover, Swap
from chiasma.sampling.vector_updates import check_state, require_possible, resolve_update
from chiasma.types import Floats, shown


class VectorPair(ABC):
    """An exchange bound to a density and the betas of two replicas."""

    n_uniforms: int
    is_swap = False

    def __init__(self, density: Density, beta_i: float, beta_j: float):
        self.density = density
        self.betas = float(beta_i), float(beta_j)

    def step(self, a: Vector, b: Vector, rng: np.random.Generator) -> int:
        """Change a and b in place; returns how many coordinates of a changed."""
        return self(a, b, rng.random(self.n_uniforms))

    def __call__(self, a: Vector, b: Vector, uniforms: Floats) -> int:
        """As step, reading uniforms (n_uniforms,) in [0, 1)."""
        before = a.copy()
        self.move(a, b, uniforms)
        return int(np.count_nonzero(before != a))

    @abstractmethod
    def move(self, a: Vector, b: Vector, uniforms: Floats) -> None: ...

    def joint(self, log_density: Floats, log_prior: Floats) -> Floats:
        """log pi_i + log pi_j, (...), from the parts (2, ...) of replicas i and j."""
        beta_i, beta_j = self.betas
        return temper(log_density[0], log_prior[0], beta_i) + temper(log_density[1], log_prior[1], beta_j)


class MetropolisPair(VectorPair):
    """Metropolis-Hastings exchange of one segment. points: 0 for whole vectors, else the cuts of a random crossover."""

    def __init__(self, points: int, density: Density, beta_i: float, beta_j: float):
        super().__init__(density, beta_i, beta_j)
        self.points = points
        self.is_swap = points == 0
        self.n_uniforms = points + 1

    def move(self, a: Vector, b: Vector, uniforms: Floats) -> None:
        size = self.density.size
        first, stop = draw_cuts(size, self.points, uniforms) if self.points else (0, size)
        whole = stop - first == size
        batch = np.stack([a, b] if whole else [a, b, a, b])
        if not whole:
            exchange_sites(batch[2], batch[3], first, stop)
        log_density, log_prior = self.density.evaluate(batch)
        kept, proposed = (
            # Rows of the batch that replicas i and j would hold; a swap takes the same two in reverse order.
            float(self.joint(log_density[[i, j]], log_prior[[i, j]]))
            for i, j in ((0, 1), (1, 0) if whole else (2, 3))
        )
        require_possible(kept, a, b)
        if is_accepted(proposed - kept, uniforms[self.points]):
            exchange_sites(a, b, first, stop)


class AugmentedPair(VectorPair):
    """A uniform one-point crossover to an auxiliary pair (u, v), then a draw among all crossovers of (u, v) by weight.

    Every crossover is its own inverse, so the auxiliary draw is symmetric and the second step is a Gibbs draw.
    """

    n_uniforms = 2

    def __init__(self, flipped: bool, density: Density, beta_i: float, beta_j: float):
        super().__init__(density, beta_i, beta_j)
        self.flipped = flipped
        self.n_candidates = density.size * (2 if flipped else 1)

    def move(self, a: Vector, b: Vector, uniforms: Floats) -> None:
        exchange_candidate(a, b, int(uniforms[0] * self.n_candidates))
        weights = self.weights(a, b)
        require_possible(weights, a, b)
        exchange_candidate(a, b, pick_log(weights, uniforms[1]))

    def weights(self, u: Vector, v: Vector) -> Floats:
        """(n_candidates,) log pi_i + log pi_j of every candidate of (u, v): prefixes, then suffixes if flipped."""
        differ = u != v
        # Exchanging equal coordinates changes nothing, so their cut has the same weight as the cut before.
        cuts = np.flatnonzero(differ)
        if len(cuts) == 0:
            return np.zeros(self.n_candidates)
        parts = self.density.crossover_scores(u, v, cuts)
        # The last cut is the full swap; reversed, it is the unchanged pair. That goes to index -1, for cuts before the
        # first difference.
        log_density, log_prior = (np.concatenate([part, part[::-1, -1:]], axis=1) for part in parts)
        index = np.cumsum(differ) - 1
        prefix = self.joint(log_density, log_prior)[index]
        if not self.flipped:
            return prefix
        return np.concatenate([prefix, self.joint(log_density[::-1], log_prior[::-1])[index]])


class CheckedVectorPair(VectorPair):
    """An exchange of vectors that checks what it is given."""

    def __init__(self, pair: VectorPair):
        super().__init__(pair.density, *pair.betas)
        self.pair = pair
        self.update = resolve_update(pair.density)
        self.n_uniforms, self.is_swap = pair.n_uniforms, pair.is_swap

    def step(self, a: Vector, b: Vector, rng: np.random.Generator) -> int:
        check_generator(rng)
        return super().step(a, b, rng)

    def __call__(self, a: Vector, b: Vector, uniforms: Floats) -> int:
        for name, x in (("a", a), ("b", b)):
            check_state(self.density, self.update, name, x)
        check_two(a, b)
        check_uniforms(uniforms, self.n_uniforms)
        return super().__call__(a, b, uniforms)

    def move(self, a: Vector, b: Vector, uniforms: Floats) -> None:
        self.pair.move(a, b, uniforms)


def prepare_exchange(exchange: Exchange, density: Density, beta_i: float, beta_j: float) -> VectorPair:
    """As `bind_exchange`, with checks of everything that the step is given."""
    check_density(density)
    return CheckedVectorPair(bind_exchange(exchange, density, check_beta(beta_i), check_beta(beta_j)))


def bind_exchange(exchange: Exchange, density: Density, beta_i: float, beta_j: float) -> VectorPair:
    """Bind an exchange to two replicas of one density."""
    check_exchange(exchange)
    if isinstance(exchange, AugmentedCrossover):
        return AugmentedPair(exchange.flipped, density, beta_i, beta_j)
    points = exchange.points if isinstance(exchange, RandomCrossover) else 0
    return MetropolisPair(points, density, beta_i, beta_j)


def check_exchange(exchange: Exchange) -> None:
    """Raise InvalidInput for exchanges that plain vectors do not support."""
    if isinstance(exchange, MosaicCrossover):
        raise InvalidInput(
            "MosaicCrossover needs the Markov structure of a FactorialHMM, got a Density; use AugmentedCrossover()"
        )
    if not isinstance(exchange, Swap | RandomCrossover | AugmentedCrossover):
        raise InvalidInput(f"exchange must be Swap(), RandomCrossover() or AugmentedCrossover(), got {shown(exchange)}")
    if exchange.rows != "all":
        raise InvalidInput(f'a vector has no rows to choose from: rows must be "all", got {shown(exchange.rows)}')
    if not isinstance(exchange, Swap) and exchange.axis != "sites":
        raise InvalidInput(f'a vector is cut along its coordinates: axis must be "sites", got "{exchange.axis}"')
    if isinstance(exchange, RandomCrossover) and exchange.points not in (1, 2):
        raise InvalidInput(f"points must be 1 or 2, got {exchange.points}")


def exchange_sites(a: Vector, b: Vector, first: int, stop: int) -> None:
    """Exchange coordinates first..stop-1."""
    kept = a[first:stop].copy()
    a[first:stop] = b[first:stop]
    b[first:stop] = kept


def exchange_candidate(a: Vector, b: Vector, candidate: int) -> None:
    """Prefix `candidate`, or from size on suffix `candidate - size`."""
    size = len(a)
    if candidate < size:
        exchange_sites(a, b, 0, candidate + 1)
    else:
        exchange_sites(a, b, candidate - size + 1, size)
