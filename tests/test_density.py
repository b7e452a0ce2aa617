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
from chiasma.sampling.problems import VectorProblem
from chiasma.sampling.updates import RowGibbs
from chiasma.sampling.vector_exchanges import AugmentedPair, bind_exchange, exchange_candidate
from chiasma.sampling.vector_updates import BlockModesStep, RandomWalk, SiteGibbs, SiteGibbsStep, bind_update

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
    step = bind_update(target.density(update=SiteGibbs(alphabet=alphabet, sites=sites)), beta)
    assert isinstance(step, BlockModesStep if isinstance(target, Toy) else SiteGibbsStep)
    proof = prove(path_step(step), target.pi(beta), step.n_uniforms)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    assert proof.irreducible
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
    pair = bind_exchange(exchange, target.density(), *betas)
    proof = prove_exchange(name, pair, *betas)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    expected = exchange_matrix(exchange, target.pi(betas[0]), target.pi(betas[1]))
    assert np.abs(proof.matrix - expected).max() <= EXACT


class AsPrinted(AugmentedPair):
    """Algorithm 2 as the paper prints it: the last step crosses the first pair and not the auxiliary one."""

    def move(self, a, b, uniforms):
        u, v = a.copy(), b.copy()
        exchange_candidate(u, v, int(uniforms[0] * self.n_candidates))
        exchange_candidate(a, b, pick_log(self.weights(u, v), uniforms[1]))


@pytest.mark.symbolic
@pytest.mark.parametrize("name", ["small", "toy"])
def test_exchange__mutants_are_rejected(name):
    density, betas = case(name).density(), (1.0, 0.3)
    mutants = {
        "as printed": AsPrinted(True, density, *betas),
        "as printed, T candidates": AsPrinted(False, density, *betas),
        **{f"{move} forgets replica j": bind_exchange(EXCHANGES[move], density, 1.0, 0.0) for move in EXCHANGES},
        "random forgets replica i": bind_exchange(RandomCrossover(), density, 0.0, 0.3),
        "random forgets the beta of j": bind_exchange(RandomCrossover(), density, 1.0, 1.0),
    }
    errors = {mutant: prove_exchange(name, move, *betas).error for mutant, move in mutants.items()}
    assert {mutant: error for mutant, error in errors.items() if error < REJECTED} == {}


@pytest.mark.symbolic
@pytest.mark.parametrize("name", ["prior", "toy"])
def test_site_gibbs__mutants_are_rejected(name):
    target = case(name)
    wrong_beta = bind_update(target.density(), 0.5)
    assert prove(path_step(wrong_beta), target.pi(1.0), wrong_beta.n_uniforms).error > REJECTED


# BlockModes against the generic path.


def generic(toy: BlockModes, update: Any) -> Density:
    """The same density without its structure: plain NumPy on whole vectors."""

    def log_density(x):
        parts = np.split(x.astype(np.int64), toy.starts[1:-1], axis=1)
        ones = np.stack([part.sum(axis=1) for part in parts], axis=1)
        return (np.log(toy.alpha) * np.minimum(ones, toy.lengths - ones)).sum(axis=1)

    return Density(log_density, toy.size, toy.initial(np.random.default_rng(0)), update)


def toys() -> list[BlockModes]:
    rng = np.random.default_rng(2)
    shapes = [(1, 1), (1, 7), (3, 10), (10, 50), (6, 6), (2, 300)]
    return [BlockModes(blocks, size, rng.uniform(0.01, 1, blocks)) for blocks, size in shapes]


@pytest.mark.jit_off
@pytest.mark.parametrize("toy", toys(), ids=repr)
def test_block_modes__weights_equal_generic(toy):
    rng = np.random.default_rng(3)
    plain = generic(toy, SiteGibbs())
    for p in (0.1, 0.5, 0.9):
        u, v = (rng.random((2, toy.size)) < p).astype(np.int8)
        batch = np.stack([u, v])
        np.testing.assert_allclose(toy.evaluate(batch)[0], plain.evaluate(batch)[0], rtol=0, atol=EXACT)
        cuts = np.arange(toy.size)
        for fast, slow in zip(toy.crossover_scores(u, v, cuts), plain.crossover_scores(u, v, cuts), strict=True):
            np.testing.assert_allclose(fast, slow, rtol=0, atol=EXACT)
        for flipped in (True, False):
            fast, slow = (AugmentedPair(flipped, target, 1.0, 0.2).weights(u, v) for target in (toy, plain))
            np.testing.assert_allclose(fast, slow, rtol=0, atol=EXACT)
            # And by brute force, without the shortcut over equal coordinates.
            for candidate, weight in enumerate(slow):
                a, b = u.copy(), v.copy()
                exchange_candidate(a, b, candidate)
                assert weight == pytest.approx(plain.log_likelihood(a) + 0.2 * plain.log_likelihood(b), abs=EXACT)


@pytest.mark.jit_off
@pytest.mark.parametrize("sites", [None, 5])
@pytest.mark.parametrize("move", EXCHANGES)
def test_block_modes__draws_equal_generic(move, sites):
    update = SiteGibbs(sites=sites)
    toy = BlockModes(4, 18, [0.05, 0.3, 0.6, 1.0], update=update)
    runs = []
    for target in (toy, generic(toy, update)):
        problem = VectorProblem(target, EXCHANGES[move])
        rng = np.random.default_rng(11)
        a, b = problem.initial(rng), problem.initial(rng)
        steps, pair = (problem.sweep(1.0), problem.sweep(0.2)), problem.pair(1.0, 0.2)
        history = []
        for _ in range(60):
            steps[0].step(a, rng)
            steps[1].step(b, rng)
            moved = pair.step(a, b, rng)
            history.append((a.tolist(), b.tolist(), moved))
        runs.append(history)
    assert runs[0] == runs[1]
    assert any(moved for *_, moved in runs[0])


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


def test_block_modes__other_updates_take_the_generic_path():
    step = bind_update(BlockModes(2, 6, 0.1, update=SiteGibbs(alphabet=(1, 0))), 1.0)
    assert isinstance(step, SiteGibbsStep)


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
    step = bind_update(mixture(update), beta)
    start = x.copy()
    for chain in x:
        for _ in range(n_steps):
            step.step(chain, rng)
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
    step = problem.sweep(1.0)
    for chain in x:
        for _ in range(8):
            step.step(chain, rng)
    assert problem.dtype == np.float32
    assert worst_z(np.column_stack([x, x**2]), [1 / 3, 1 / 6]) < MAX_Z


@pytest.mark.jit_off
@pytest.mark.parametrize("sites", [None, 4])
def test_site_gibbs__law_after_some_steps(sites):
    """Chi-square of the visited states against a power of the exact matrix; false alarms: one in 10^5."""
    target = case("prior")
    pi, rng = target.pi(0.6), np.random.default_rng(9)
    step = bind_update(target.density(update=SiteGibbs(alphabet=LETTERS, sites=sites)), 0.6)
    n_chains, n_steps = N_CHAINS, 3
    counts = dict.fromkeys(pi, 0)
    for _ in range(n_chains):
        x = np.array(target.states[4])
        for _ in range(n_steps):
            step.step(x, rng)
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
    moved = 0
    for pair in zip(a, b, strict=True):
        moved += sum(move.step(*pair, rng) for _ in range(3))
    assert moved > 0.1 * n_pairs
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
    assert exchange_z(bind_exchange(EXCHANGES[move], conjugate(), *betas), betas) < MAX_Z


def test_exchange__continuous_mutants_are_rejected():
    betas = (1.0, 0.2)
    assert exchange_z(AsPrinted(True, conjugate(), *betas), betas) > 2 * MAX_Z
    assert exchange_z(bind_exchange(RandomCrossover(), conjugate(), 0.0, 0.2), betas) > 2 * MAX_Z


# Contracts.


@pytest.mark.jit_off
def test_draws_consumed_never_depend_on_outcomes():
    toy, target = BlockModes(2, 9, 0.01), case("prior").density()
    steps = [(bind_update(toy, 1.0), toy), (bind_update(target, 1.0), target)]
    pairs = [
        (bind_exchange(exchange, density, 1.0, 0.1), density)
        for exchange in EXCHANGES.values()
        for density in (toy, target)
    ]
    for step, density in steps:
        ends = []
        for start in (density.initial(np.random.default_rng(0)), np.zeros(density.size, density.dtype)):
            rng = np.random.default_rng(1)
            for _ in range(20):
                step.step(start, rng)
            ends.append(rng.bit_generator.state)
        assert ends[0] == ends[1]
    for pair, density in pairs:
        ends = []
        for other in (density.initial(np.random.default_rng(0)), np.zeros(density.size, density.dtype)):
            rng, a = np.random.default_rng(1), density.initial(np.random.default_rng(0))
            for _ in range(20):
                pair.step(a, other, rng)
            ends.append(rng.bit_generator.state)
        assert ends[0] == ends[1]


def test_exchange__counts_changed_coordinates():
    flat = Density(lambda x: np.zeros(len(x)), 4, np.zeros(4), RandomWalk())
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.0, 3.0, 0.0])
    swap = bind_exchange(Swap(), flat, 1.0, 0.5)
    assert swap.is_swap
    assert swap(a, b, np.array([0.5])) == 2
    assert a.tolist() == [1.0, 0.0, 3.0, 0.0]
    assert b.tolist() == [1.0, 2.0, 3.0, 4.0]
    augmented = bind_exchange(AugmentedCrossover(), flat, 1.0, 0.5)
    assert not augmented.is_swap
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
    whole = target.crossover_scores(u, v, np.arange(40))
    monkeypatch.setattr(density_module, "BATCH_BYTES", 40 * 8 * 7)
    shapes.clear()
    parts = target.crossover_scores(u, v, np.arange(40))
    assert set(shapes) == {(6, 40), (2, 40)}
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
        problem, rng = VectorProblem(target, AugmentedCrossover()), np.random.default_rng(0)
        a, b = problem.initial(rng), problem.initial(rng)
        for _ in range(20):
            problem.sweep(1.0).step(a, rng)
            problem.sweep(0.5).step(b, rng)
            problem.pair(1.0, 0.5).step(a, b, rng)
        ends.append([*a.tolist(), *b.tolist(), problem.log_likelihood(a)])
    assert ends[0] == ends[1]


def test_density__own_update_and_prior_draw():
    def metropolis(x, beta, rng):
        proposal = x + rng.choice([-1, 1], size=x.shape)
        gain = -0.5 * beta * float((proposal**2).sum() - (x**2).sum())
        return proposal if rng.random() < math.exp(min(0.0, gain)) else x

    target = Density(lambda x: -0.5 * (x**2).sum(axis=1), 2, lambda rng: rng.integers(-2, 3, 2), metropolis)
    problem, rng = VectorProblem(target), np.random.default_rng(0)
    x = problem.initial(rng)
    assert problem.dtype == problem.record_dtype == x.dtype == np.int64
    assert problem.record(x) is x
    assert problem.n_sites == 2
    step, path = problem.sweep(0.5), []
    for _ in range(50):
        step.step(x, rng)
        path.append(tuple(x))
    assert len(set(path)) > 3
    assert problem.log_prior(x) == 0.0
    assert problem.log_likelihood(x) == -0.5 * float((x**2).sum())
    drawn = Density(
        lambda x: np.full(len(x), -np.inf), 2, [0, 0], metropolis, prior_draw=lambda rng: rng.integers(5, 9, 2)
    )
    state = np.array([0, 0])
    bind_update(drawn, 0.0).step(state, rng)
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
        r"must map vectors of shape \(1, 3\) to an array \(1,\), got shape \(\); for a function f of one vector",
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
    "update of rows": (lambda: start(update=RowGibbs()), r"update must be SiteGibbs\(\.\.\.\), .* got RowGibbs\(\)"),
    "update as a class": (lambda: start(update=SiteGibbs), "update must be SiteGibbs"),
    "no update": (lambda: start(update=None), "update must be SiteGibbs"),
    "own update of wrong shape": (
        lambda: bind_update(normal(update=lambda x, beta, rng: x[:2]), 1.0).step(np.zeros(3), np.random.default_rng()),
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
    "exchange of another kind": (lambda: bind_exchange("swap", normal(), 1, 0.5), r"exchange must be Swap\(\)"),
    "no exchange": (lambda: VectorProblem(normal()).pair(1.0, 0.5), "needs an exchange, got None"),
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
    for step in (bind_update(half, 1.0).step, bind_update(_on_letters(half), 1.0).step):
        with pytest.raises(InvalidInput, match=r"zero density at its temperature: \[-1\. -1\. -1\.\]"):
            step(lost.copy(), rng)
    for exchange in (Swap(), AugmentedCrossover()):
        with pytest.raises(InvalidInput, match="an update must never move outside the support"):
            bind_exchange(exchange, half, 1.0, 0.5).step(lost.copy(), lost - 1, rng)


def _on_letters(target: Density) -> Density:
    """The same density, with values that never leave the half that has none."""
    return Density(target._log_density, 3, target.init, SiteGibbs(alphabet=(-1, -2)))


def test_bad_input__errors_of_a_function_are_its_own():
    def log_density(x):
        raise ValueError("my own")

    with pytest.raises(ValueError, match="my own") as caught:
        normal(log_density=log_density).evaluate(np.zeros((2, 3)))
    assert "vectors of shape (2, 3)" in caught.value.__notes__[0]


def test_repr():
    assert repr(normal()) == "Density(size=3, update=RandomWalk(scale=1.0, sites=None))"
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
def test_cost__is_what_the_page_on_speed_says(size, letters, replicas):
    pairs = (replicas - 1) / 2  # even and odd ones in turn: about half as many as replicas
    calls, vectors = calls_per_iteration(size, letters, replicas, exchange="swap")
    assert calls == replicas * (size + 1) + pairs
    assert vectors == replicas * (size * letters + 1) + 2 * pairs
    crossed, compared = calls_per_iteration(size, letters, replicas)
    assert crossed <= calls
    assert vectors < compared <= replicas * (size * letters + 1) + 2 * size * pairs
    assert calls_per_iteration(size, letters, replicas, exchange="swap", sites=5)[0] == replicas * 6 + pairs
