"""GaussianBlocks: likelihoods computed on the fly, blocks of rival rows, and the proof that the sweep is a Gibbs one.

The likelihoods are compared with those of the emission, the orders of the rows with what they promise, and the whole
sweep with a product of conditional distributions, branch by branch. Mutants of the kernel must fail that proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats

import chiasma as ch
from branches import distribution
from chiasma.errors import BudgetExceeded, InvalidInput
from chiasma.kernels import gaussian_blocks
from chiasma.kernels.codes import unpack
from chiasma.sampling.differences import independent_parts, rival_sets
from chiasma.sampling.engines import CompiledEngine, GaussianEngine, StepEngine, path_engine
from chiasma.sampling.problems import PathProblem, Start
from chiasma.sampling.streams import Streams
from chiasma.sampling.updates import GaussianSweep
from test_invariance import CASES, EXACT, REJECTED, Case, accept, blocks_matrix, random_blocks_matrix, sweep_proof

NAN = float("nan")
JIT = not numba.config.DISABLE_JIT


def channels(n_columns: int = 40, n_rows: int = 5) -> tuple[ch.FactorialHMM, np.ndarray]:
    """Rows 0..2 are seen in channel 0, the others in channel 1, one of them in both; some values are missing."""
    rng = np.random.default_rng(5)
    weights = np.zeros((n_rows, 2))
    weights[:3, 0], weights[2:, 1] = rng.uniform(0.4, 1.2, 3), rng.uniform(-1.0, 1.0, n_rows - 2)
    emission = ch.Gaussian(weights, depth=[1.5, 1.0], sd=[0.5, 0.7])
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=emission)
    _, y = model.simulate(n_columns, seed=2)
    y[3] = NAN
    y[7, 0] = y[9, 1] = NAN
    return model, y


def single(sd: float, n_rows: int = 6, n_columns: int = 70) -> tuple[ch.FactorialHMM, np.ndarray]:
    rng = np.random.default_rng(8)
    emission = ch.Gaussian(rng.uniform(0.3, 1.0, n_rows), depth=2.0, sd=sd)
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=emission, fixed={1: 1})
    _, y = model.simulate(n_columns, seed=2)
    y[4] = NAN
    y[11] = 60.0
    return model, y


def parts(n_columns: int = 40) -> tuple[ch.FactorialHMM, np.ndarray]:
    """Rows 0, 2 and 3 are tied by channels 0 and 1, rows 1 and 4 by channel 2."""
    weights = np.zeros((5, 3))
    weights[[0, 2], 0], weights[[2, 3], 1], weights[[1, 4], 2] = [0.8, 1.1], [0.5, -0.7], [0.6, 0.7]
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian(weights, sd=0.6))
    _, y = model.simulate(n_columns, seed=2)
    y[7, 0] = NAN
    return model, y


PROBLEMS: dict[str, Callable[[], tuple[ch.FactorialHMM, np.ndarray]]] = {
    "channels": channels,
    "parts": parts,
    "noisy": lambda: single(0.7),
    # Likelihoods that underflow in products: one exponential per code.
    "sharp": lambda: single(0.01),
}


# ---- Likelihoods ----------------------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("rows", [[0], [3, 1], [2, 0, 3], [4, 3, 0, 1], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("name", PROBLEMS)
def test_likelihoods__are_those_of_the_emission(name, rows, beta):
    model, y = PROBLEMS[name]()
    target = model.target(y)
    sweep = ch.GaussianBlocks(size=5).prepare(target, beta).sweep
    assert isinstance(sweep, GaussianSweep)
    codes = np.random.default_rng(1).integers(0, 1 << target.n_axes, target.n_columns)
    chosen = np.array(rows)
    noise, scratch = sweep.noise, sweep.scratch
    scratch.resid[:] = noise.y
    others = np.setdiff1d(np.arange(target.n_axes), chosen)
    gaussian_blocks.add_rows(noise.steps, others, -1.0, codes, scratch.resid)
    block = gaussian_blocks.make_block(noise.steps[chosen], noise.precision)
    lik = np.empty((target.n_columns, 1 << len(rows)))
    for first in range(0, target.n_columns, gaussian_blocks.PIECE):
        piece = lik[first : first + gaussian_blocks.PIECE]
        gaussian_blocks.block_likelihoods(scratch.resid, noise, block, first, piece, scratch.powers)
    settings = unpack(np.arange(1 << len(rows)), len(rows))
    spread = (settings.T.astype(np.int64) << chosen).sum(axis=1)
    mask = sum(1 << row for row in rows)
    log_lik = beta * target.likelihood.at((codes & ~mask)[:, None] | spread)
    expected = np.exp(log_lik - log_lik.max(axis=1, keepdims=True))
    np.testing.assert_allclose(lik / lik.max(axis=1, keepdims=True), expected, rtol=1e-9, atol=1e-250)


# ---- Rows that belong together --------------------------------------------------------------------------------------


def test_rival_sets__finds_sums_that_coincide():
    """0.21 + 0.31 is nearly 0.48; in two channels the same three rows again, and none of both channels."""
    steps = 15 * np.kron(np.eye(2), np.array([[0.21], [0.31], [0.48]]))
    sets, weights = rival_sets(steps, largest=7)
    assert sets[:2].tolist() == [[0, 1, 2, -1], [3, 4, 5, -1]]
    np.testing.assert_allclose(weights[:2], np.exp(-0.5 * 0.6**2))
    assert all(len({row // 3 for row in found if row >= 0}) == 1 for found in sets)
    assert np.all(np.diff(weights) <= 0)


def test_rival_sets__two_pairs_are_no_set_of_four():
    """Each pair is explained by itself. Three rows against one are a set that nothing smaller explains."""
    sets, _ = rival_sets(np.array([[10.0], [10.0], [70.0], [70.0]]), largest=4)
    assert sets.tolist() == [[0, 1, -1, -1], [2, 3, -1, -1]]
    sets, _ = rival_sets(np.array([[10.0], [17.0], [31.0], [58.0]]), largest=4)
    assert sets.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("n_rows", [1, 2, 63])
def test_rival_sets__of_any_number_of_rows(n_rows):
    sets, weights = rival_sets(np.linspace(50, 9000, n_rows)[:, None], largest=7)
    assert len(sets) == len(weights)
    assert sets.shape[1] == min(4, n_rows)
    assert rival_sets(np.ones((n_rows, 1)), largest=1)[0].shape == (0, 1)


@pytest.mark.symbolic
def test_order__is_half_random_and_half_of_sets():
    """Four rows in blocks of two; sets {0, 3} and {1, 2}, of which the first is three times as probable."""
    sets, cumulative = np.array([[0, 3], [1, 2]]), np.array([0.75, 1.0])

    def order(uniforms: np.ndarray) -> tuple[int, ...]:
        out = np.empty(4, np.int64)
        gaussian_blocks.order_rows(sets, cumulative, 2, uniforms, out)
        return tuple(out.tolist())

    found = distribution(order, 9)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(sorted(one) == [0, 1, 2, 3] for one in found)

    def together(one: tuple[int, ...]) -> bool:
        return {one[0], one[1]} in ({0, 3}, {1, 2})

    # Of random orders a third has these blocks; of the others all.
    assert sum(p for one, p in found.items() if together(one)) == pytest.approx(0.5 / 3 + 0.5, abs=1e-12)


@pytest.mark.jit_off
def test_order__keeps_sets_in_one_block():
    sets = np.array([[0, 5, 7], [1, 2, -1], [3, 4, 6]])
    cumulative = np.array([0.4, 0.7, 1.0])
    rng = np.random.default_rng(3)
    for _ in range(50):
        uniforms = rng.random(17)
        uniforms[0] = 0.2
        order = np.empty(8, np.int64)
        gaussian_blocks.order_rows(sets, cumulative, 4, uniforms, order)
        assert sorted(order.tolist()) == list(range(8))
        first = sets[int(np.searchsorted(cumulative, uniforms[9], side="right"))]
        assert set(first[first >= 0]) <= set(order[:4].tolist())


# ---- Parts that no channel ties together ----------------------------------------------------------------------------


def test_parts__rows_meet_through_others():
    chain = np.zeros((63, 63))
    chain[np.arange(63), np.arange(63)] = chain[np.arange(62), np.arange(1, 63)] = 1.0
    assert [part.tolist() for part in independent_parts(chain)] == [list(range(63))]
    chain[30, 31] = 0.0
    assert [part.tolist() for part in independent_parts(chain)] == [list(range(31)), list(range(31, 63))]
    assert [part.tolist() for part in independent_parts(np.zeros((3, 1)))] == [[0], [1], [2]]


def test_parts__are_cut_one_by_one():
    target = parts()[0].target(parts()[1])
    assert ch.GaussianBlocks.largest(target) == 3
    assert ch.GaussianBlocks(size=2).block_sizes(target) == [2, 1, 2]
    sweep = ch.GaussianBlocks(size=2).prepare(target, 1.0).sweep
    assert isinstance(sweep, GaussianSweep)
    assert sweep.parts.rows.tolist() == [0, 2, 3, 1, 4]
    assert sweep.n_uniforms == 2 + 2 * 5 + 3 * target.n_columns


@pytest.mark.jit_off
@pytest.mark.parametrize(("size", "forgets"), [(3, True), (5, True), (2, False)])
def test_parts__that_fit_a_block_are_drawn_independently(size, forgets):
    """The same uniforms, and paths that are all on and all off: one sweep forgets which it was."""
    model, y = parts()
    target = model.target(y)
    sweep = ch.GaussianBlocks(size=size).prepare(target, 1.0)
    uniforms = np.random.default_rng(3).random(sweep.n_uniforms)
    paths = [np.full(target.n_columns, code, np.int64) for code in (0, 31)]
    for path in paths:
        sweep(path, uniforms)
    assert np.array_equal(*paths) == forgets


# ---- Invariance -----------------------------------------------------------------------------------------------------


@pytest.mark.symbolic
@pytest.mark.parametrize("name", ["one-row", "tiny", "tiny-fixed"])
def test_proof__all_rows_at_once(name):
    case = CASES[name]
    proof = sweep_proof(name, ch.GaussianBlocks(size=len(case.free)), 0.6, case.target())
    accept(proof, np.tile(proof.pi, (len(proof.pi), 1)))


@pytest.mark.symbolic
def test_proof__random_blocks():
    """Blocks of one row: sets of rows do not matter."""
    proof = sweep_proof("tiny", ch.GaussianBlocks(size=1), 0.6, CASES["tiny"].target())
    accept(proof, random_blocks_matrix("tiny", 0.6, 1))


@pytest.mark.symbolic
def test_proof__blocks_of_rivals():
    """Half of the sweeps put the rows that nearly coincide, 0 and 1, into one block."""
    name = "three-rows-once"
    target = CASES[name].target()
    proof = sweep_proof(name, OnlyRivals(size=2), 0.6, target)
    rivals = blocks_matrix(name, 0.6, [(0, 1), (2,)])
    accept(proof, 0.5 * random_blocks_matrix(name, 0.6, 2) + 0.5 * rivals)


@pytest.mark.symbolic
@pytest.mark.parametrize("size", [1, 2])
def test_proof__parts(size, monkeypatch):
    """Two rows in channels of their own: blocks of one row are enough for independent draws."""
    weights, y = np.diag([1.0, -0.6]), np.array([[0.3, -0.2], [0.9, 0.1]])
    emission = ch.Gaussian(weights, sd=0.8)

    def log_density(t: int, bits: tuple[int, ...]) -> float:
        return float(stats.norm.logpdf(y[t], weights.T @ bits, 0.8).sum())

    case = Case(enter=(0.2, 0.35), leave=(0.3, 0.15), n_columns=2, log_density=log_density, emission=emission, y=(0, 0))
    monkeypatch.setitem(CASES, "two-parts", case)
    model = ch.FactorialHMM(rows=ch.Switches(case.enter, case.leave), emission=emission)
    proof = sweep_proof("two-parts", ch.GaussianBlocks(size=size), 0.6, model.exact_target(y))
    accept(proof, np.tile(proof.pi, (len(proof.pi), 1)))


class OnlyRivals(ch.GaussianBlocks):
    """With one set of rivals, so that there are few branches."""

    def prepare(self, target: Any, beta: float) -> Any:
        sweep = super().prepare(target, beta)
        assert isinstance(sweep, GaussianSweep)
        sweep.parts = sweep.parts._replace(
            sets=np.array([[0, 1]]), first_set=np.array([0, 1]), cumulative=np.array([1.0])
        )
        return sweep


def _forgotten_beta(patch: Any) -> None:
    original = gaussian_blocks.Noise
    patch.setattr(gaussian_blocks, "Noise", lambda y, steps, p, whole: original(y, steps, p / 0.6, whole))


def _forgotten_others(patch: Any) -> None:
    """The block is drawn as if all other rows were off."""
    patch.setattr(gaussian_blocks, "add_rows", lambda *args: None)


def _forgotten_shape(patch: Any) -> None:
    original = gaussian_blocks.make_block

    def flat(steps: Any, precision: Any) -> Any:
        block = original(steps, precision)
        return block._replace(shape=np.ones_like(block.shape))

    patch.setattr(gaussian_blocks, "make_block", flat)


def _dependent_order(patch: Any) -> None:
    """The row that is on goes first: an order that depends on the path."""
    original = gaussian_blocks.gaussian_sweep

    def broken(*args: Any) -> None:
        first = int(args[-2][0] & 1)

        def order_rows(sets: Any, cumulative: Any, size: Any, uniforms: Any, order: Any) -> None:
            order[:] = first, 1 - first

        patch.setattr(gaussian_blocks, "order_rows", order_rows)
        original(*args)

    patch.setattr(gaussian_blocks, "gaussian_sweep", broken)


@pytest.mark.symbolic
@pytest.mark.parametrize("broken", [_forgotten_beta, _forgotten_others, _forgotten_shape, _dependent_order])
def test_proof__rejects_mutants(broken, monkeypatch):
    broken(monkeypatch)
    # A lone row has two means, equally far from their centre.
    size = 2 if broken is _forgotten_shape else 1
    proof = sweep_proof("tiny", ch.GaussianBlocks(size=size), 0.6, CASES["tiny"].target())
    assert proof.error > REJECTED > EXACT


# ---- At real size ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not JIT, reason="a long run of compiled kernels")
@pytest.mark.parametrize("name", ["channels", "parts", "noisy"])
def test_marginals__are_the_exact_ones(name):
    """6,000 draws in 20 batches: no marginal further than six standard errors of the batch means from the exact one.

    Some 200 marginals each; Student's t with 19 degrees of freedom exceeds 6 once in 10^5: a false alarm in 500 runs.
    """
    model, y = PROBLEMS[name]()
    posterior = ch.sample(
        model, y, update=ch.GaussianBlocks(size=2), exchange=None, draws=6000, warmup=100, chains=1, seed=4,
        progress=False,
    )  # fmt: skip
    states = unpack(posterior.codes.values[0], model.n_rows)
    batches = states.reshape(20, 300, *states.shape[1:]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(20)
    exact = ch.exact.marginals(model, y)
    assert np.all(np.abs(batches.mean(axis=0) - exact) <= 6 * error + 1e-3)


def test_prior__at_beta_zero():
    model, y = channels()
    sweep = ch.GaussianBlocks(size=2).prepare(model.target(y), beta=0.0)
    codes = np.zeros(len(y), np.int64)
    uniforms = np.random.default_rng(1).random(sweep.n_uniforms)
    sweep(codes, uniforms)
    expected = np.zeros(len(y), np.int64)
    ch.RowGibbs().prepare(model.target(y), beta=0.0)(expected, uniforms)
    np.testing.assert_array_equal(codes, expected)


# ---- The engine without a ladder -------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("buffer", [2**12, 1])
@pytest.mark.parametrize("name", PROBLEMS)
def test_engine__does_what_step_by_step_does(name, buffer, monkeypatch):
    """The same uniforms in the same places, however many sweeps a call makes; log-likelihoods up to rounding."""
    monkeypatch.setattr("chiasma.sampling.engines.BUFFER", buffer)
    model, y = PROBLEMS[name]()
    problem = PathProblem(model.exact_target(y, table_bytes=0), ch.GaussianBlocks(size=2), None)
    engines = [kind(problem, (0.7,), 0, Streams(3, 0), Start()) for kind in (StepEngine, GaussianEngine)]
    for n, thin in ((2, 0), (5, 3), (2, 1)):
        expected, draws = (engine.advance(n, thin) for engine in engines)
        np.testing.assert_array_equal(draws.states, expected.states)
        np.testing.assert_allclose(draws.log_lik, expected.log_lik, rtol=1e-10)
        np.testing.assert_allclose(draws.log_prior, expected.log_prior, rtol=1e-12)
    assert engines[0].iteration == engines[1].iteration == 9


@pytest.mark.parametrize(
    ("update", "betas", "kind"),
    [
        (ch.GaussianBlocks(size=2), (1.0,), GaussianEngine),
        (ch.GaussianBlocks(size=2), (0.0,), StepEngine),
        (ch.GaussianBlocks(size=2), (0.2, 1.0), StepEngine),
        (ch.BlockGibbs(size=2), (1.0,), CompiledEngine),
    ],
)
def test_engine__serves_one_replica(update, betas, kind):
    model, y = channels(n_columns=10)
    assert path_engine(PathProblem(model.exact_target(y), update, None), betas) is kind


def test_size__does_not_depend_on_a_table():
    """63 rows: codes alone, and no table of any size."""
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(np.linspace(1, 2, 63), sd=0.5))
    _, y = model.simulate(30, seed=1)
    posterior = ch.sample(
        model, y, update="gaussian-blocks", exchange=None, draws=5, warmup=2, chains=1, seed=1, progress=False
    )
    assert posterior.codes.shape == (1, 5, 30)


@pytest.mark.parametrize(
    ("update", "emission", "message"),
    [
        (ch.GaussianBlocks(size=3), ch.Gaussian([1.0, 2.0]), r"size must be in 1..2 \(free rows\), got 3"),
        (ch.GaussianBlocks(size=1), ch.Poisson([1.0, 2.0]), "use BlockGibbs.., which takes any model"),
        (ch.GaussianBlocks(size=1), ch.Table(np.zeros((4, 4))), "needs rows of two states, Gaussian noise"),
    ],
)
def test_refused(update, emission, message):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    with pytest.raises(InvalidInput, match=message):
        ch.sample(model, np.zeros(4), update=update, exchange=None, draws=1, progress=False)


def test_refused__rows_of_many_states_and_transitions_of_zero():
    rows = ch.FactorialHMM(rows=[ch.Row([0, 1.0, 2.0], ch.Sticky(renew=0.1))], emission=ch.Gaussian(sd=1.0))
    frozen = ch.FactorialHMM(rows=ch.Switches(0.0, 0.1, 0.5), emission=ch.Gaussian([1.0, 2.0]))
    for model in (rows, frozen):
        with pytest.raises(InvalidInput, match="transition probabilities above zero"):
            ch.GaussianBlocks(size=1).prepare(model.exact_target(np.zeros(4)), 1.0)


def test_refused__memory():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(np.ones(40), sd=0.5))
    with pytest.raises(BudgetExceeded, match="take smaller blocks"):
        ch.GaussianBlocks(size=30).prepare(model.target(np.zeros(100)), 1.0)


def test_refused__in_compose():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
    with pytest.raises(InvalidInput, match="cannot be composed with other updates"):
        ch.Compose([ch.GaussianBlocks(size=2)]).prepare(model.target(np.zeros(4)), 1.0)
