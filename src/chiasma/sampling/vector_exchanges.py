"""Exchanges over plain vectors: the moves of chiasma.sampling.exchanges for any Density.

    step = bind_exchange(ch.AugmentedCrossover(), density)
    moved = step(replicas, pairs, uniforms)       # pairs p of rungs p and p + 1; uniforms (P, step.n_uniforms)

A swap evaluates nothing, because log-densities are kept with their vectors. The candidates of crossovers of all pairs
are evaluated in one call. Candidates of a crossover, for t = 0..size-1: prefix t exchanges coordinates 0..t, suffix t
exchanges t+1..size-1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels import vectors
from chiasma.kernels.moves import draw_cuts
from chiasma.kernels.picking import is_accepted
from chiasma.models.density import Density, Vector
from chiasma.sampling.exchanges import AugmentedCrossover, Exchange, MosaicCrossover, RandomCrossover, Swap
from chiasma.sampling.replicas import Replicas
from chiasma.types import Floats, Integers, shown


@dataclass(frozen=True, kw_only=True)
class BalancedCrossover(AugmentedCrossover):
    """Swaps, and in between augmented crossovers: as often as they are worth their evaluations.

    A swap of whole vectors evaluates nothing. A crossover evaluates its candidates, so the steps that cross over are
    spaced out until crossovers take at most as many evaluations as the updates, and on a ladder from the prior a fifth
    as many. Warm-up spaces them further by the share of them that exchange a part of a vector, at the pair of rungs
    where that share is least. Vectors also swap between the parts of an update, such as the classes of ch.SiteGibbs.

    Parameters
    ----------
    rows, axis, flipped : as for ch.AugmentedCrossover; vectors take the defaults.

    Examples
    --------
    >>> import chiasma as ch
    >>> normal = ch.Density(lambda x: -0.5 * (x**2).sum(axis=1), size=3, init=[0.0] * 3)
    >>> posterior = ch.sample(normal, ladder=[1, 2, 4], draws=50, warmup=10, seed=1, progress=False)
    >>> posterior.info["exchange"]
    "BalancedCrossover(rows='all', axis='sites', flipped=True)"
    """

    in_settings: ClassVar[bool] = False  # of vectors, which no settings file describes


class VectorExchange(ABC):
    """An exchange between neighbouring replicas of a density."""

    n_uniforms: int

    def __init__(self, density: Density):
        self.density = density

    @abstractmethod
    def __call__(self, replicas: Replicas, pairs: Integers, uniforms: Floats) -> Integers:
        """Change replicas p and p + 1 for each of the pairs p, which share none; returns how many coordinates of each
        lower replica changed.
        """


class SwapStep(VectorExchange):
    """Swaps of whole vectors."""

    n_uniforms = 1

    def __call__(self, replicas: Replicas, pairs: Integers, uniforms: Floats) -> Integers:
        moved = np.zeros(len(pairs), int)
        order = np.arange(len(replicas.betas))
        for n, p in enumerate(pairs):
            gain = vectors.swap_gain(replicas.betas, replicas.log_lik, p, p + 1)
            if is_accepted(gain, uniforms[n, 0]):
                moved[n] = vectors.exchange_rows(replicas.states, replicas.log_lik, replicas.log_prior, p, p + 1)
                order[[p, p + 1]] = p + 1, p
        replicas.reorder(order)
        return moved


class RandomStep(VectorExchange):
    """Metropolis-Hastings exchange of one segment, between one or two random cuts."""

    def __init__(self, points: int, density: Density):
        super().__init__(density)
        self.points = points
        self.n_uniforms = points + 1

    def __call__(self, replicas: Replicas, pairs: Integers, uniforms: Floats) -> Integers:
        states, betas = replicas.states, replicas.betas
        new = states[np.stack([pairs, pairs + 1])]
        for n in range(len(pairs)):
            segment = slice(*draw_cuts(self.density.size, self.points, uniforms[n]))
            new[:, n, segment] = new[::-1, n, segment].copy()
        lik, prior = (part.reshape(2, -1) for part in self.density.parts(new.reshape(-1, self.density.size)))
        moved = np.zeros(len(pairs), int)
        for n, p in enumerate(pairs):
            gain = 0.0
            for i in range(2):
                gain += vectors.tempered(lik[i, n], prior[i, n], betas[p + i])
                gain -= vectors.tempered(replicas.log_lik[p + i], replicas.log_prior[p + i], betas[p + i])
            if is_accepted(gain, uniforms[n, self.points]):
                moved[n] = np.count_nonzero(states[p] != new[0, n])
                for i in range(2):
                    _put(replicas, p + i, new[i, n], lik[i, n], prior[i, n])
        return moved


class AugmentedStep(VectorExchange):
    """A uniform one-point crossover to an auxiliary pair (u, v), then a draw among all crossovers of (u, v) by weight.

    Every crossover is its own inverse, so the auxiliary draw is symmetric and the second step is a Gibbs draw.
    """

    n_uniforms = 2

    def __init__(self, flipped: bool, density: Density):
        super().__init__(density)
        self.flipped = flipped
        self.n_candidates = density.size * (2 if flipped else 1)

    def __call__(self, replicas: Replicas, pairs: Integers, uniforms: Floats) -> Integers:
        states = replicas.states
        u, v = states[pairs], states[pairs + 1]
        cuts = [int(uniform * self.n_candidates) for uniform in uniforms[:, 0]]
        for n, cut in enumerate(cuts):
            exchange_candidate(u[n], v[n], cut)
        differ = u != v
        log_lik, log_prior = crossover_scores(self.density, u, v, differ, replicas, pairs, np.array(cuts, int))
        ends = np.cumsum(np.count_nonzero(differ, axis=1))
        moved, weights, lik, prior = np.zeros(len(pairs), int), np.empty(self.n_candidates), np.empty(2), np.empty(2)
        for n, p in enumerate(pairs):
            part = slice(ends[n - 1] if n else 0, ends[n])
            if part.start == part.stop:
                continue
            candidate = self.draw(
                log_lik[:, part], log_prior[:, part], differ[n], replicas.betas[p], replicas.betas[p + 1],
                uniforms[n, 1], weights, lik, prior,
            )  # fmt: skip
            exchange_candidate(u[n], v[n], candidate)
            moved[n] = np.count_nonzero(states[p] != u[n])
            if moved[n]:
                _put(replicas, p, u[n], lik[0], prior[0])
                _put(replicas, p + 1, v[n], lik[1], prior[1])
        return moved

    def draw(
        self,
        log_lik: Floats,
        log_prior: Floats,
        differ: Vector,
        beta_i: float,
        beta_j: float,
        uniform: float,
        weights: Floats,
        lik: Floats,
        prior: Floats,
    ) -> int:
        """The candidate that is taken; lik and prior are set to those of the pair that it makes."""
        return int(
            vectors.draw_crossover(
                log_lik, log_prior, differ, beta_i, beta_j, self.flipped, uniform, weights, lik, prior
            )
        )


def crossover_weights(density: Density, u: Vector, v: Vector, beta_i: float, beta_j: float) -> Floats:
    """(2 size,) joint log target of every crossover of the pair (u, v): prefixes, then suffixes."""
    out = np.zeros(2 * density.size)
    differ = u != v
    if differ.any():
        scores = crossover_scores(density, u[None], v[None], differ[None])
        vectors.crossover_weights(*scores, differ, beta_i, beta_j, True, out)
    return out


def crossover_scores(
    density: Density,
    u: Vector,
    v: Vector,
    differ: Vector,
    replicas: Replicas | None = None,
    pairs: Integers | None = None,
    cuts: Integers | None = None,
) -> tuple[Floats, Floats]:
    """log_density and log_prior (2, d) of all crossovers of pairs u, v (P, size), at the d places where they differ.

    Row 0: of u with v's coordinates up to that place, row 1: of v with those of u. replicas, pairs, cuts: candidate
    cuts[n] of pair n is replicas pairs[n] and pairs[n] + 1, whose densities are known.
    """
    rows, places = np.nonzero(differ)
    if density.has_local and replicas is not None and pairs is not None and cuts is not None:
        scores = _added_up(density, u, v, differ, rows, places, replicas, pairs, cuts)
        if scores is not None:
            return scores
    exchanged = np.arange(density.size) <= places[:, None]
    a, b = u[rows], v[rows]
    batch = np.concatenate([np.where(exchanged, b, a), np.where(exchanged, a, b)])
    lik, prior = density.parts(batch)
    return lik.reshape(2, -1), prior.reshape(2, -1)


def _added_up(
    density: Density,
    u: Vector,
    v: Vector,
    differ: Vector,
    rows: Integers,
    places: Integers,
    replicas: Replicas,
    pairs: Integers,
    cuts: Integers,
) -> tuple[Floats, Floats] | None:
    """`crossover_scores` from the changes by one coordinate after the other; None where a density is zero."""
    known = np.stack([replicas.log_lik[pairs], replicas.log_lik[pairs + 1]])
    if not known.min() > -np.inf:
        return None
    before = np.arange(density.size) < places[:, None]
    a, b = u[rows], v[rows]
    hybrids = np.concatenate([np.where(before, b, a), np.where(before, a, b)])
    values = np.concatenate([v[rows, places], u[rows, places]])
    changes, log_prior = density.changes(hybrids, np.concatenate([places, places]), values)
    if not np.isfinite(changes).all():
        return None
    changes = changes.reshape(2, -1)
    log_lik = np.empty(changes.shape)
    counts = np.cumsum(differ, axis=1)
    ends = np.cumsum(counts[:, -1])
    for n, cut in enumerate(cuts):
        part = slice(ends[n] - counts[n, -1], ends[n])
        # The candidate of known density has exchanged the first `done` of the places that differ; or, if it is a
        # suffix, it is that pair the other way round.
        done = counts[n, cut % density.size]
        for side in range(2):
            total = np.cumsum(changes[side, part])
            value = known[side if cut < density.size else 1 - side, n]
            log_lik[side, part] = total + value - (total[done - 1] if done else 0.0)
    return log_lik, log_prior.reshape(2, -1)


def _put(replicas: Replicas, r: int, x: Vector, log_lik: float, log_prior: float) -> None:
    replicas.states[r], replicas.log_lik[r], replicas.log_prior[r] = x, log_lik, log_prior
    replicas.stale[r] = True


def bind_exchange(exchange: Exchange, density: Density) -> VectorExchange:
    """Bind an exchange to the replicas of a density."""
    check_exchange(exchange)
    if isinstance(exchange, AugmentedCrossover):
        return AugmentedStep(exchange.flipped, density)
    return RandomStep(exchange.points, density) if isinstance(exchange, RandomCrossover) else SwapStep(density)


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
