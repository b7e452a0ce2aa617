"""Any target: densities over vectors, their updates and exchanges.

Transition matrices are enumerated from the code that runs (branches.py) and must keep pi to 1e-12; they are also
compared, entry by entry, with matrices written down from the definition of each move. BlockModes must equal the
generic path. Continuous targets start from exact draws, so that after any number of steps the law is known and
replicates are independent: every |z| is below 4.5, which a correct sampler fails with probability 7e-6 each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats

import chiasma as ch
from branches import Path, Proof, pair_step, path_step, prove, prove_pair
from chiasma.errors import BudgetExceeded, InvalidInput
from chiasma.kernels.picking import pick_log
from chiasma.models import density as density_module
from chiasma.models.density import BlockModes, Density
from chiasma.sampling.exchanges import AugmentedCrossover, Exchange, MosaicCrossover, RandomCrossover, Swap
from chiasma.sampling.replicas import Replicas
from chiasma.sampling.updates import RowGibbs
from chiasma.sampling.vector_exchanges import (
    AugmentedStep,
    bind_exchange,
    crossover_scores,
    crossover_weights,
    exchange_candidate,
)
from chiasma.sampling.vector_problem import VectorProblem
from chiasma.sampling.vector_updates import RandomWalk, SiteGibbs, bind_update

EXACT = 1e-12
REJECTED = 1e-4
MAX_Z = 4.5
# Independent replicates of a sampled law: fewer where the kernels run as plain Python.
N_CHAINS = 600 if numba.config.DISABLE_JIT else 2000
LETTERS = (0, 1, 3)
INF, NAN = math.inf, math.nan

EXCHANGES = {
    "swap": Swap(),
    "random-1": RandomCrossover(points=1),
    "random-2": RandomCrossover(points=2),
    "augmented-2T": AugmentedCrossover(flipped=True),
    "augmented-T": AugmentedCrossover(flipped=False),
}


class Table:
    """A density over LETTERS^size as a table of numbers, and as the package's object."""

    def __init__(self, log_density: np.ndarray, log_prior: np.ndarray | None = None):
        self.values = log_density
        self.prior = np.zeros_like(log_density) if log_prior is None else log_prior
        self.has_prior = log_prior is not None
        self.size = log_density.ndim
        self.states: list[Path] = list(product(LETTERS, repeat=self.size))

    def pi(self, beta: float) -> dict[Path, float]:
        """Probability of every state that has one."""
        out = {}
        for state in self.states:
            at = tuple(LETTERS.index(letter) for letter in state)
            tempered = beta * self.values[at] if beta > 0 and self.prior[at] > -INF else 0.0
            out[state] = math.exp(self.prior[at] + tempered)
        return {state: weight / sum(out.values()) for state, weight in out.items() if weight > 0}

    def density(self, **options: Any) -> Density:
        def look_up(values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
            return lambda x: values[tuple(np.searchsorted(LETTERS, x).T)]

        options = {"update": SiteGibbs(alphabet=LETTERS), "init": np.array(next(iter(self.pi(1.0))))} | options
        log_prior = look_up(self.prior) if self.has_prior else None
        return Density(look_up(self.values), self.size, log_prior=log_prior, **options)


def is_kept(replicas: Replicas) -> bool:
    """Whether the log-densities kept with the vectors are those of the vectors; proofs ask at every branch."""
    log_lik, log_prior = replicas.density.parts(replicas.states)
    kept = [*replicas.log_lik.tolist(), *replicas.log_prior.tolist()]
    pairs = zip(kept, [*log_lik.tolist(), *log_prior.tolist()], strict=True)
    return all(one == other or abs(one - other) <= 1e-9 or (one != one and other != other) for one, other in pairs)


class Alone:
    """The update of a density as a step on a single vector, changed in place."""

    def __init__(self, density: Density, beta: float):
        self.density, self.beta = density, beta
        self.n_uniforms = bind_update(density, [beta]).n_uniforms

    def __call__(self, x: np.ndarray, uniforms: np.ndarray) -> None:
        x[:] = self.after(bind_update(self.density, [self.beta]), x, uniforms[None], np.empty((1, 0)))

    def step(self, x: np.ndarray, rng: np.random.Generator) -> None:
        bound = bind_update(self.density, [self.beta], lambda r: rng)
        x[:] = self.after(bound, x, rng.random((1, bound.n_uniforms)), rng.standard_normal((1, bound.n_normals)))

    def after(self, bound: Any, x: np.ndarray, uniforms: np.ndarray, normals: np.ndarray) -> np.ndarray:
        replicas = Replicas(self.density, [self.beta], x[None].astype(self.density.dtype))
        bound(replicas, uniforms, normals)
        assert is_kept(replicas)
        return replicas.states[0]


def repeated(density: Density, beta: float, x: np.ndarray, n_steps: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors x (n, size) after some steps of each by itself, all at one beta."""
    step, replicas = bind_update(density, np.full(len(x), beta)), Replicas(density, np.full(len(x), beta), x.copy())
    for _ in range(n_steps):
        step(replicas, rng.random((len(x), step.n_uniforms)), rng.standard_normal((len(x), step.n_normals)))
    return replicas.states


class Pair:
    """An exchange of two vectors, changed in place, at two betas in any order."""

    def __init__(self, bound: Any, beta_i: float, beta_j: float):
        self.bound, self.betas, self.n_uniforms = bound, (beta_i, beta_j), bound.n_uniforms

    def __call__(self, a: np.ndarray, b: np.ndarray, uniforms: np.ndarray) -> int:
        replicas = Replicas(self.bound.density, self.betas, np.stack([a, b]).astype(self.bound.density.dtype))
        moved = self.bound(replicas, np.array([0]), uniforms[None])
        a[:], b[:] = replicas.states
        assert isinstance(self.bound, AsPrinted) or is_kept(replicas)
        return int(moved[0])

    def step(self, a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> int:
        return self(a, b, rng.random(self.n_uniforms))


def pair_of(exchange: Exchange, density: Density, beta_i: float, beta_j: float) -> Pair:
    return Pair(bind_exchange(exchange, density), beta_i, beta_j)


class Toy:
    """BlockModes, from the definition."""

    def __init__(self, lengths: Sequence[int], alpha: Sequence[float]):
        self.lengths, self.alpha = lengths, alpha
        self.size = sum(lengths)
        self.states: list[Path] = list(product((0, 1), repeat=self.size))

    def pi(self, beta: float) -> dict[Path, float]:
        out = {}
        for state in self.states:
            weight, first = 1.0, 0
            for length, alpha in zip(self.lengths, self.alpha, strict=True):
                ones = sum(state[first : first + length])
                weight *= alpha ** (beta * min(ones, length - ones))
                first += length
            out[state] = weight
        return {state: weight / sum(out.values()) for state, weight in out.items()}

    def density(self, **options: Any) -> BlockModes:
        return BlockModes(len(self.lengths), self.size, self.alpha, **options)


@lru_cache
def case(name: str) -> Table | Toy:
    rng = np.random.default_rng(5)
    log_density, log_prior = rng.normal(0, 1.2, (3, 3, 3)), rng.normal(0, 0.8, (3, 3, 3))
    if name == "toy":
        return Toy((2, 1), (0.3, 0.6))
    if name == "toy-4":
        return Toy((2, 2), (0.2, 0.5))
    if name == "no-prior":
        return Table(log_density)
    if name == "prior":
        return Table(log_density, log_prior)
    if name == "small":
        return Table(log_density[0], log_prior[0])
    assert name == "holes"
    # Zero density here and there; and outside the prior's support, where log_density makes no sense.
    log_density[0, 1, 2] = log_density[2, 2, 0] = -INF
    log_prior[1, 1, 1], log_density[1, 1, 1] = -INF, NAN
    return Table(log_density, log_prior)


CASES = ["no-prior", "prior", "holes", "toy", "toy-4"]


# What each move should be, as matrices.


def exchanged(pair: tuple[Path, Path], first: int, stop: int) -> tuple[Path, Path]:
    a, b = pair
    return a[:first] + b[first:stop] + a[stop:], b[:first] + a[first:stop] + b[stop:]


def segments_of(exchange: Exchange, size: int) -> list[tuple[int, int]]:
    if isinstance(exchange, Swap):
        return [(0, size)]
    if isinstance(exchange, RandomCrossover) and exchange.points == 2:
        return list(combinations(range(size + 1), 2))
    prefixes = [(0, t + 1) for t in range(size)]
    suffixes = [(t + 1, size) for t in range(size)]
    return prefixes + (suffixes if isinstance(exchange, AugmentedCrossover) and exchange.flipped else [])


def exchange_matrix(exchange: Exchange, pi_i: dict[Path, float], pi_j: dict[Path, float]) -> np.ndarray:
    pi = {(a, b): pi_i[a] * pi_j[b] for a, b in product(pi_i, pi_j)}
    index = {pair: n for n, pair in enumerate(pi)}
    segments = segments_of(exchange, len(next(iter(pi_i))))
    matrix = np.zeros((len(pi), len(pi)))
    for pair, n in index.items():
        for segment in segments:
            new = exchanged(pair, *segment)
            if isinstance(exchange, AugmentedCrossover):
                candidates = [exchanged(new, *other) for other in segments]
                weights = np.array([pi.get(candidate, 0.0) for candidate in candidates])
                for candidate, weight in zip(candidates, weights / weights.sum(), strict=True):
                    if weight > 0:
                        matrix[n, index[candidate]] += weight / len(segments)
            else:
                accept = min(1.0, pi.get(new, 0.0) / pi[pair])
                matrix[n, n] += (1 - accept) / len(segments)
                if accept > 0:
                    matrix[n, index[new]] += accept / len(segments)
    return matrix


def site_matrix(pi: dict[Path, float], t: int) -> np.ndarray:
    """Coordinate t drawn given the others."""
    matrix = np.zeros((len(pi), len(pi)))
    for n, state in enumerate(pi):
        for m, other in enumerate(pi):
            if other[:t] + other[t + 1 :] == state[:t] + state[t + 1 :]:
                matrix[n, m] = pi[other]
    return matrix / matrix.sum(axis=1, keepdims=True)


def sites_matrix(pi: dict[Path, float], sites: int | None) -> np.ndarray:
    size = len(next(iter(pi)))
    singles = [site_matrix(pi, t) for t in range(size)]
    if sites is None:
        return np.linalg.multi_dot(singles)
    return np.linalg.matrix_power(np.mean(singles, axis=0), sites)


def prove_exchange(name: str, move: Any, beta_i: float, beta_j: float) -> Proof:
    target = case(name)
    return prove_pair(pair_step(move), target.pi(beta_i), target.pi(beta_j), move.n_uniforms)


@pytest.mark.symbolic
@pytest.mark.parametrize("sites", [None, 1, 2])
@pytest.mark.parametrize("beta", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("name", CASES)
def test_site_gibbs__keeps_its_target(name, beta, sites):
    target = case(name)
    alphabet = (0, 1) if isinstance(target, Toy) else LETTERS
    step = Alone(target.density(update=SiteGibbs(alphabet=alphabet, sites=sites)), beta)
    proof = prove(path_step(step), target.pi(beta), step.n_uniforms)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    assert proof.irreducible
    if isinstance(target, Toy) and sites is None:
        return  # one class of coordinates after another, and not in their order
    assert np.abs(proof.matrix - sites_matrix(target.pi(beta), sites)).max() <= EXACT


@pytest.mark.symbolic
@pytest.mark.parametrize(
    ("name", "betas"),
    [
        ("no-prior", (1.0, 0.3)),
        ("holes", (0.0, 0.7)),
        ("toy", (1.0, 0.3)),
        ("toy", (0.0, 0.7)),
    ],
)
@pytest.mark.parametrize("move", EXCHANGES)
def test_exchange__keeps_its_target(move, name, betas):
    target, exchange = case(name), EXCHANGES[move]
    pair = pair_of(exchange, target.density(), *betas)
    proof = prove_exchange(name, pair, *betas)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    expected = exchange_matrix(exchange, target.pi(betas[0]), target.pi(betas[1]))
    assert np.abs(proof.matrix - expected).max() <= EXACT


class AsPrinted(AugmentedStep):
    """Algorithm 2 as the paper prints it: the last step crosses the first pair and not the auxiliary one."""

    def __call__(self, replicas, pairs, uniforms):
        a, b = replicas.states
        u, v = a.copy(), b.copy()
        exchange_candidate(u, v, int(uniforms[0, 0] * self.n_candidates))
        weights = crossover_weights(self.density, u, v, *replicas.betas)[: self.n_candidates]
        before = a.copy()
        exchange_candidate(a, b, pick_log(weights, uniforms[0, 1]))
        return np.array([np.count_nonzero(before != a)])


@pytest.mark.symbolic
@pytest.mark.parametrize("name", ["small", "toy"])
def test_exchange__mutants_are_rejected(name):
    density, betas = case(name).density(), (1.0, 0.3)
    mutants = {
        "as printed": Pair(AsPrinted(True, density), *betas),
        "as printed, T candidates": Pair(AsPrinted(False, density), *betas),
        **{f"{move} forgets replica j": pair_of(EXCHANGES[move], density, 1.0, 0.0) for move in EXCHANGES},
        "random forgets replica i": pair_of(RandomCrossover(), density, 0.0, 0.3),
        "random forgets the beta of j": pair_of(RandomCrossover(), density, 1.0, 1.0),
    }
    errors = {mutant: prove_exchange(name, move, *betas).error for mutant, move in mutants.items()}
    assert {mutant: error for mutant, error in errors.items() if error < REJECTED} == {}


@pytest.mark.symbolic
@pytest.mark.parametrize("name", ["prior", "toy"])
def test_site_gibbs__mutants_are_rejected(name):
    target = case(name)
    wrong_beta = Alone(target.density(), 0.5)
    assert prove(path_step(wrong_beta), target.pi(1.0), wrong_beta.n_uniforms).error > REJECTED


# BlockModes against the generic path.


def plain(toy: BlockModes, update: Any) -> Density:
    """The same density from its definition, without local changes or neighbours."""

    def log_density(x):
        parts = np.split(x.astype(np.int64), toy.starts[1:-1], axis=1)
        ones = np.stack([part.sum(axis=1) for part in parts], axis=1)
        return (np.log(toy.alpha) * np.minimum(ones, toy.lengths - ones)).sum(axis=1)

    return Density(log_density, toy.size, toy.initial(np.random.default_rng(0)), update)


def toys() -> list[BlockModes]:
    rng = np.random.default_rng(2)
    shapes = [(1, 1), (1, 7), (3, 10), (5, 25), (6, 6)]
    return [BlockModes(blocks, size, rng.uniform(0.01, 1, blocks)) for blocks, size in shapes]


@pytest.mark.jit_off
@pytest.mark.parametrize("toy", toys(), ids=repr)
def test_crossover_weights__added_up_equal_whole_evaluations(toy):
    rng = np.random.default_rng(3)
    whole = plain(toy, SiteGibbs())
    for p in (0.1, 0.5, 0.9):
        u, v = (rng.random((2, toy.size)) < p).astype(np.int8)
        np.testing.assert_allclose(toy.evaluate(np.stack([u, v]))[0], whole.evaluate(np.stack([u, v]))[0], atol=EXACT)
        weights = crossover_weights(whole, u, v, 1.0, 0.2)
        for candidate, weight in enumerate(weights if (u != v).any() else ()):
            a, b = u.copy(), v.copy()
            exchange_candidate(a, b, candidate)
            assert weight == pytest.approx(whole.log_likelihood(a) + 0.2 * whole.log_likelihood(b), abs=EXACT)
            # The same from the changes by single coordinates, beginning at that candidate.
            replicas = Replicas(toy, [1.0, 0.2], np.stack([a, b]))
            differ = (u != v)[None]
            place = np.array([0]), np.array([candidate])
            added = crossover_scores(toy, u[None], v[None], differ, replicas, *place)
            for one, other in zip(added, crossover_scores(whole, u[None], v[None], differ), strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)


@pytest.mark.jit_off
def test_block_modes__modes_and_blocks():
    toy = BlockModes(blocks=3, size=8, alpha=0.1)
    assert toy.lengths.tolist() == [3, 3, 2]
    assert toy.modes.shape == (8, 8)
    assert len(np.unique(toy.modes, axis=0)) == 8
    assert toy.evaluate(toy.modes)[0].tolist() == [0.0] * 8
    assert toy.nearest_mode(toy.modes).tolist() == [[n >> j & 1 for j in range(3)] for n in range(8)]
    assert toy.initial(np.random.default_rng(0)).tolist() == [1, 1, 1, 0, 0, 0, 1, 1]
    # Two ones of three, one of three, one of two: a majority, another, and a tie.
    assert toy.nearest_mode([1, 0, 1, 0, 1, 0, 0, 1]).tolist() == [1, 0, -1]
    assert toy.nearest_mode(np.zeros((4, 5, 8), bool)).shape == (4, 5, 3)
    assert toy.log_likelihood(np.array([1, 0, 1, 0, 1, 0, 0, 1])) == pytest.approx(3 * math.log(0.1))
    assert toy.log_likelihood(np.array([2, 0, 1, 0, 1, 0, 0, 1])) == -INF
    with pytest.raises(BudgetExceeded, match=r"2\^60 modes"):
        _ = BlockModes(60, 60, 0.1).modes


# The law of a step by sampling.


def worst_z(values: np.ndarray, exact: Sequence[float] | np.ndarray) -> float:
    """Largest |z| of the means of independent rows (n, m) against exact means (m,)."""
    return float(np.abs((values.mean(axis=0) - exact) / (values.std(axis=0) / math.sqrt(len(values)))).max())


MEANS = np.array([[-1.5, 0.0], [1.2, 1.0]])
SDS = np.array([[0.7, 1.0], [0.9, 0.5]])
SHARES = np.array([0.3, 0.7])


def mixture(update: Any) -> Density:
    def log_density(x):
        parts = np.exp(-0.5 * (((x[:, None, :] - MEANS) / SDS) ** 2).sum(axis=2))
        return np.log(parts @ (SHARES / SDS.prod(axis=1)))

    return Density(log_density, 2, np.zeros(2), update)


def walk_z(update: RandomWalk, beta: float = 1.0, n_chains: int = N_CHAINS, n_steps: int = 12) -> float:
    """Worst z of the moments after some steps from exact draws of the mixture."""
    rng = np.random.default_rng(21)
    which = (rng.random(n_chains) < SHARES[1]).astype(int)
    x = rng.normal(MEANS[which], SDS[which])
    start, x = x, repeated(mixture(update), beta, x, n_steps, rng)
    assert np.mean(np.any(x != start, axis=1)) > 0.9
    first, second = SHARES @ MEANS, SHARES @ (MEANS**2 + SDS**2)
    below = SHARES @ stats.norm.cdf(0, MEANS[:, 0], SDS[:, 0])
    values = np.column_stack([x, x**2, x[:, 0] * x[:, 1], x[:, 0] < 0])
    return worst_z(values, [*first, *second, SHARES @ MEANS.prod(axis=1), below])


@pytest.mark.slow
@pytest.mark.parametrize("update", [RandomWalk(scale=1.3), RandomWalk(scale=[1.5, 0.8], sites=2)], ids=repr)
def test_random_walk__keeps_a_mixture(update):
    assert walk_z(update) < MAX_Z


@pytest.mark.slow
def test_random_walk__wrong_beta_is_noticed():
    assert walk_z(RandomWalk(scale=1.3), beta=0.3) > 1.5 * MAX_Z


def test_random_walk__single_precision_and_support():
    box = Density(
        lambda x: np.log(1 - x[:, 0]),  # a NaN and a warning outside of the prior's support
        1,
        np.array([0.5], np.float32),
        RandomWalk(scale=0.8),
        log_prior=lambda x: np.where((x[:, 0] > 0) & (x[:, 0] < 1), 0.0, -np.inf),
    )
    problem, rng = VectorProblem(box), np.random.default_rng(4)
    # Density 2 (1 - x) on (0, 1), from an exact draw.
    x = (1 - np.sqrt(rng.random((N_CHAINS, 1)))).astype(np.float32)
    x = repeated(box, 1.0, x, 8, rng)
    assert problem.density.dtype == np.float32
    assert worst_z(np.column_stack([x, x**2]), [1 / 3, 1 / 6]) < MAX_Z


@pytest.mark.jit_off
@pytest.mark.parametrize("sites", [None, 4])
def test_site_gibbs__law_after_some_steps(sites):
    """Chi-square of the visited states against a power of the exact matrix; false alarms: one in 10^5."""
    target = case("prior")
    pi, rng = target.pi(0.6), np.random.default_rng(9)
    n_chains, n_steps = N_CHAINS, 3
    counts = dict.fromkeys(pi, 0)
    density = target.density(update=SiteGibbs(alphabet=LETTERS, sites=sites))
    for x in repeated(density, 0.6, np.repeat([target.states[4]], n_chains, axis=0), n_steps, rng):
        counts[tuple(x.tolist())] += 1
    law = np.linalg.matrix_power(sites_matrix(pi, sites), n_steps)[4]
    assert stats.chisquare(list(counts.values()), n_chains * law).pvalue > 1e-5


PRECISION = np.array([[2.0, 1.2, 0.0], [1.2, 2.0, -0.9], [0.0, -0.9, 1.5]])
CENTRE = np.array([1.0, -0.5, 2.0])


def conjugate() -> Density:
    """Prior N(0, I) and a Gaussian log-density: Gaussian at every beta, precision I + beta * PRECISION."""

    def log_density(x):
        return -0.5 * np.einsum("ni,ij,nj->n", x - CENTRE, PRECISION, x - CENTRE)

    return Density(log_density, 3, np.zeros(3), RandomWalk(), log_prior=lambda x: -0.5 * (x**2).sum(axis=1))


def conjugate_law(beta: float) -> tuple[np.ndarray, np.ndarray]:
    covariance = np.linalg.inv(np.eye(3) + beta * PRECISION)
    return covariance @ (beta * PRECISION @ CENTRE), covariance


def exchange_z(move: Any, betas: tuple[float, float], n_pairs: int = N_CHAINS) -> float:
    """Worst z of the moments of both replicas after exchanges between exact draws."""
    rng = np.random.default_rng(31)
    laws = [conjugate_law(beta) for beta in betas]
    a, b = (rng.multivariate_normal(*law, size=n_pairs) for law in laws)
    states = np.stack([a, b], axis=1).reshape(-1, 3)
    replicas = Replicas(move.bound.density, np.tile(move.betas, n_pairs), states)
    pairs, moved = np.arange(0, 2 * n_pairs, 2), 0
    if isinstance(move.bound, AsPrinted):
        for a_, b_ in states.reshape(-1, 2, 3):
            moved += sum(move.step(a_, b_, rng) for _ in range(3))
    else:
        for _ in range(3):
            moved += int(move.bound(replicas, pairs, rng.random((n_pairs, move.n_uniforms))).sum())
    assert moved > 0.1 * n_pairs
    a, b = states.reshape(-1, 2, 3).transpose(1, 0, 2)
    upper = np.triu_indices(3)
    values, exact = [], []
    for x, (mean, covariance) in zip((a, b), laws, strict=True):
        values += [x, (x[:, :, None] * x[:, None, :])[:, *upper]]
        exact += [mean, (covariance + np.outer(mean, mean))[upper]]
    return worst_z(np.column_stack(values), np.concatenate(exact))


@pytest.mark.jit_off
@pytest.mark.parametrize("betas", [(1.0, 0.2), (0.0, 0.3)])
@pytest.mark.parametrize("move", EXCHANGES)
def test_exchange__keeps_continuous_targets(move, betas):
    assert exchange_z(pair_of(EXCHANGES[move], conjugate(), *betas), betas) < MAX_Z


def test_exchange__continuous_mutants_are_rejected():
    betas = (1.0, 0.2)
    assert exchange_z(Pair(AsPrinted(True, conjugate()), *betas), betas) > 2 * MAX_Z
    assert exchange_z(pair_of(RandomCrossover(), conjugate(), 0.0, 0.2), betas) > 2 * MAX_Z


# Contracts.


def test_exchange__counts_changed_coordinates():
    flat = Density(lambda x: np.zeros(len(x)), 4, np.zeros(4), RandomWalk())
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.0, 3.0, 0.0])
    swap = pair_of(Swap(), flat, 1.0, 0.5)
    assert swap(a, b, np.array([0.5])) == 2
    assert a.tolist() == [1.0, 0.0, 3.0, 0.0]
    assert b.tolist() == [1.0, 2.0, 3.0, 4.0]
    augmented = pair_of(AugmentedCrossover(), flat, 1.0, 0.5)
    # Prefix 0 twice, where coordinate 0 is equal: nothing moves.
    assert augmented(a, b, np.array([0.0, 0.0])) == 0
    # Suffix 1 (candidate 5 of 8), then prefix 3 (candidate 3): coordinates 0 and 1 end up exchanged.
    assert augmented(a, b, np.array([5.5 / 8, 3.5 / 8])) == 1
    assert a.tolist() == [1.0, 2.0, 3.0, 0.0]


def test_crossover_scores__in_batches(monkeypatch):
    shapes = []

    def log_density(x):
        shapes.append(x.shape)
        return -(x**2).sum(axis=1)

    target = Density(log_density, 40, np.zeros(40), RandomWalk())
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 40))
    pair = u[None], v[None], (u != v)[None]
    whole = crossover_scores(target, *pair)
    monkeypatch.setattr(density_module, "BATCH_BYTES", 40 * 8 * 7)
    shapes.clear()
    parts = crossover_scores(target, *pair)
    assert set(shapes) == {(7, 40), (3, 40)}
    np.testing.assert_array_equal(whole[0], parts[0])
    np.testing.assert_array_equal(whole[1], parts[1])


def test_density__functions_may_change_what_they_get():
    def log_density(x):
        x -= 1.0
        return -(x**2).sum(axis=1)

    careless = Density(log_density, 2, np.ones(2), RandomWalk(sites=1))
    careful = Density(lambda x: -((x - 1) ** 2).sum(axis=1), 2, np.ones(2), RandomWalk(sites=1))
    ends = []
    for target in (careless, careful):
        rng = np.random.default_rng(0)
        a, b = target.initial(rng), target.initial(rng)
        for _ in range(20):
            Alone(target, 1.0).step(a, rng)
            Alone(target, 0.5).step(b, rng)
            pair_of(AugmentedCrossover(), target, 1.0, 0.5).step(a, b, rng)
        ends.append([*a.tolist(), *b.tolist(), target.log_likelihood(a)])
    assert ends[0] == ends[1]


def test_density__own_update_and_prior_draw():
    def metropolis(x, beta, rng):
        proposal = x + rng.choice([-1, 1], size=x.shape)
        gain = -0.5 * beta * float((proposal**2).sum() - (x**2).sum())
        return proposal if rng.random() < math.exp(min(0.0, gain)) else x

    target = Density(lambda x: -0.5 * (x**2).sum(axis=1), 2, lambda rng: rng.integers(-2, 3, 2), metropolis)
    problem, rng = VectorProblem(target), np.random.default_rng(0)
    x = problem.initial(rng)
    assert problem.density.dtype == problem.record_dtype == x.dtype == np.int64
    assert problem.n_sites == 2
    step, path = Alone(target, 0.5), []
    for _ in range(50):
        step.step(x, rng)
        path.append(tuple(x))
    assert len(set(path)) > 3
    assert target.log_prior(x) == 0.0
    assert target.log_likelihood(x) == -0.5 * float((x**2).sum())
    drawn = Density(
        lambda x: np.full(len(x), -np.inf), 2, [0, 0], metropolis, prior_draw=lambda rng: rng.integers(5, 9, 2)
    )
    state = np.array([0, 0])
    Alone(drawn, 0.0).step(state, rng)
    assert state.min() >= 5


def test_density__beta_zero_ignores_zero_density():
    half = Density(
        lambda x: np.where(x[:, 0] > 0, 0.0, -np.inf),
        1,
        np.array([1.0]),
        RandomWalk(),
        log_prior=lambda x: -(x[:, 0] ** 2),
    )
    at = np.array([[-1.0], [2.0]])
    assert half.tempered(at, 0.0).tolist() == [-1.0, -4.0]
    assert half.tempered(at, 0.5).tolist() == [-INF, -4.0]


def constant(value: Any) -> Callable[[np.ndarray], Any]:
    return lambda x: np.full(len(x), value)


def normal(**options: Any) -> Density:
    options = {"log_density": constant(0.0), "size": 3, "init": np.zeros(3), "update": RandomWalk()} | options
    return Density(**options)


def start(**options: Any) -> Any:
    return VectorProblem(normal(**options)).initial(np.random.default_rng(0))


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "log_density NaN": (
        lambda: normal(log_density=lambda x: np.where(x[:, 1] > 1, np.nan, 0.0)).evaluate(
            np.array([[0.0] * 3, [2.0] * 3])
        ),
        r"log_density must be a number or -inf, got nan at \[2\. 2\. 2\.\]; return -inf where",
    ),
    "log_density +inf": (lambda: start(log_density=constant(np.inf)), r"got inf at \[0\. 0\. 0\.\]"),
    "log_prior NaN": (lambda: start(log_prior=constant(np.nan)), "log_prior must be a number or -inf, got nan"),
    "long vectors are abridged": (
        lambda: normal(size=100, init=np.zeros(100), log_density=constant(np.nan)).initial(np.random.default_rng(0)),
        r"0\. \.\.\. 0\.",
    ),
    "not vectorised": (
        lambda: start(log_density=lambda x: 0.0),
        r"must map vectors of shape \(1, 3\) to an array \(1,\), got shape \(\); for a function of one vector",
    ),
    "log_density no function": (lambda: normal(log_density=3.0), "log_density must be a function, got float"),
    "log_prior no function": (lambda: normal(log_prior=3.0), "log_prior must be a function, got float"),
    "prior_draw no function": (lambda: normal(prior_draw=3.0), "prior_draw must be a function, got float"),
    "size": (lambda: normal(size=0), "size must be a whole number of at least 1, got 0"),
    "init shape": (lambda: start(init=np.zeros(4)), r"init must have shape \(3,\), .* got \(4,\)"),
    "init callable shape": (lambda: start(init=lambda rng: rng.random(2)), r"init must have shape \(3,\)"),
    "init ragged": (lambda: start(init=[[1], [1, 2]]), "init must be a vector of numbers, got a ragged list"),
    "init strings": (lambda: start(init=["a", "b", "c"]), "init must be a vector of real numbers, got dtype <U1"),
    "init of zero density": (
        lambda: start(log_density=constant(-np.inf)),
        r"init must have positive density, got log_density = -inf at \[0\. 0\. 0\.\]; start inside the support",
    ),
    "init outside the prior": (lambda: start(log_prior=constant(-np.inf)), "got log_prior = -inf"),
    "init outside the alphabet": (
        lambda: start(init=[0, 5, 1], update=SiteGibbs()),
        r"init must hold values of the alphabet \[0, 1\], got 5 at site 1",
    ),
    "state of another dtype": (
        lambda: VectorProblem(normal(init=[0, 0, 0], update=SiteGibbs())).check_state([0.5, 0, 0]),
        r"init must hold values of dtype int64, as init does, got \[0\.5 0\.  0\. \]; for a continuous density",
    ),
    "x of another shape": (lambda: normal().evaluate(np.zeros(3)), r"x must have shape \(n, 3\), got \(3,\)"),
    "update of rows": (lambda: start(update=RowGibbs()), r"update must be RandomWalk\(\.\.\.\), .* got RowGibbs\(\)"),
    "update as a class": (lambda: start(update=SiteGibbs), "update must be RandomWalk"),
    "no update of whole numbers": (lambda: start(update=None, init=[0, 0, 0]), "update must be RandomWalk"),
    "own update of wrong shape": (
        lambda: Alone(normal(update=lambda x, beta, rng: x[:2]), 1.0).step(np.zeros(3), np.random.default_rng()),
        r"what update returns must have shape \(3,\)",
    ),
    "alphabet of one": (lambda: SiteGibbs(alphabet=[1]), r"at least two distinct numbers, got \[1\]"),
    "alphabet repeats": (lambda: SiteGibbs(alphabet=[1, 1]), r"at least two distinct numbers, got \[1, 1\]"),
    "alphabet and dtype": (
        lambda: start(init=[0, 0, 0], update=SiteGibbs(alphabet=(0, 0.5))),
        r"alphabet must fit the dtype of the states, int64, got \[0\.0, 0\.5\]; give init a dtype",
    ),
    "sites": (lambda: SiteGibbs(sites=0), "sites must be a whole number of at least 1, or None for all of them, got 0"),
    "scale": (lambda: RandomWalk(scale=0), "scale must be positive, one number or one per coordinate, got 0"),
    "scale length": (lambda: start(update=RandomWalk(scale=[1, 2])), r"scale must be one number or 3 .*, got 2"),
    "walk on integers": (
        lambda: start(init=[0, 0, 0]),
        r"RandomWalk needs states of floats, got init of dtype int64; pass init=np\.array\(init, float\)",
    ),
    "mosaic": (lambda: VectorProblem(normal(), MosaicCrossover()), r"Markov structure .* use AugmentedCrossover\(\)"),
    "rows": (lambda: VectorProblem(normal(), Swap(rows="random")), "rows must be \"all\", got 'random'"),
    "axis": (lambda: VectorProblem(normal(), AugmentedCrossover(axis="rows")), 'axis must be "sites", got "rows"'),
    "points": (lambda: VectorProblem(normal(), RandomCrossover(points=3)), "points must be 1 or 2, got 3"),
    "exchange of another kind": (lambda: bind_exchange("swap", normal()), r"exchange must be Swap\(\)"),
    "blocks": (lambda: BlockModes(5, 4, 0.1), r"blocks must be in 1\.\.4 \(size\), got 5"),
    "alpha zero": (lambda: BlockModes(2, 4, [0.1, 0.0]), r"alpha must be in \(0, 1\], got 0 for block 1"),
    "alpha shape": (lambda: BlockModes(2, 4, [0.1] * 3), r"alpha must be one number or 2 \(blocks\), got shape \(3,\)"),
    "toy init": (
        lambda: VectorProblem(BlockModes(2, 4, 0.1, init=[0, 2, 0, 0])).initial(np.random.default_rng(0)),
        r"init must hold|positive density",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input(name):
    call, message = ERRORS[name]
    with pytest.raises(InvalidInput, match=message):
        call()


def test_bad_input__an_update_that_leaves_the_support():
    half = normal(log_density=lambda x: np.where(x[:, 0] > 0, 0.0, -np.inf), init=np.ones(3))
    lost, rng = np.full(3, -1.0), np.random.default_rng(0)
    half.update = lambda x, beta, rng: lost
    with pytest.raises(InvalidInput, match=r"zero density at its temperature: \[-1\. -1\. -1\.\]"):
        Alone(half, 1.0).step(np.ones(3), rng)
    drawn = normal(log_prior=lambda x: np.where(x[:, 0] > 0, 0.0, -np.inf), prior_draw=lambda rng: lost)
    with pytest.raises(InvalidInput, match="prior_draw must draw from log_prior"):
        Alone(drawn, 0.0).step(np.ones(3), rng)


def test_bad_input__errors_of_a_function_are_its_own():
    def log_density(x):
        raise ValueError("my own")

    with pytest.raises(ValueError, match="my own") as caught:
        normal(log_density=log_density).evaluate(np.zeros((2, 3)))
    assert "log_density fails at [0. 0. 0.], vector 0 of 2" in caught.value.__notes__[0]


def test_repr():
    assert repr(normal()) == "Density(size=3, update=RandomWalk(scale=1.0, sites=None, adapt=True, jumps=True))"
    assert repr(BlockModes(2, 6, 0.1)) == "BlockModes(blocks=2, size=6, update=None)"


def calls_per_iteration(size: int, letters: int, replicas: int, **options: Any) -> tuple[float, float]:
    """Calls of log_density, and vectors in them, of one iteration of one chain."""
    made: list[int] = []

    def log_density(x):
        made.append(len(x))
        return 0.3 * (x * np.roll(x, 1, axis=1)).sum(axis=1)

    update = SiteGibbs(alphabet=tuple(range(letters)), sites=options.pop("sites", None))
    density = Density(log_density, size, np.zeros(size, int), update)
    betas = tuple(np.linspace(0.2, 1.0, replicas))
    options |= {"ladder": ch.Ladder(betas=betas), "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    ends = []
    for draws in (4, 24):
        made.clear()
        ch.sample(density, draws=draws, **options)
        ends.append((len(made), sum(made)))
    (calls, vectors), (more_calls, more_vectors) = ends
    return (more_calls - calls) / 20, (more_vectors - vectors) / 20


@pytest.mark.parametrize(("size", "letters", "replicas"), [(8, 2, 4), (16, 2, 4), (8, 3, 4), (8, 2, 8)])
def test_cost__gibbs_evaluates_what_may_change_and_swaps_nothing(size, letters, replicas):
    calls, vectors = calls_per_iteration(size, letters, replicas, exchange="swap")
    assert (calls, vectors) == (size, replicas * size * (letters - 1))
    crossed, compared = calls_per_iteration(size, letters, replicas, exchange="augmented")
    assert crossed == size + 1
    assert vectors < compared <= vectors + 2 * size * (replicas / 2)
    assert calls_per_iteration(size, letters, replicas, exchange="swap", sites=5) == (5, 5 * replicas * (letters - 1))


@pytest.mark.parametrize("replicas", [2, 5, 8])
@pytest.mark.parametrize("prior", [False, True])
def test_cost__a_random_walk_evaluates_each_rung_once(replicas, prior):
    made: list[int] = []

    def log_density(x):
        made.append(len(x))
        return -0.5 * (x**2).sum(axis=1)

    options: dict[str, Any] = {"ladder": ch.Ladder.geometric(replicas, 50.0), "exchange": "swap", "warmup": 30}
    target = Density(log_density, 6, np.zeros(6), RandomWalk())
    if prior:
        options["ladder"] = ch.Ladder.geometric(replicas, 50.0, prior=True)
        target = normal(log_density=log_density, log_prior=log_density, prior_draw=lambda rng: rng.normal(size=3))
        replicas += 1
    ends = []
    for draws in (10, 110):
        made.clear()
        ch.sample(target, draws=draws, chains=1, seed=1, progress=False, **options)
        ends.append((len(made), sum(made)))
    functions = 2 if prior else 1
    assert ends[1][0] - ends[0][0] == 100 * functions
    assert ends[1][1] - ends[0][1] == 100 * functions * replicas
