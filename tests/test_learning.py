"""Parameters learned with the paths: conditionals against grids, invariance, evidence, labels, runs.

That updates keep the joint law of parameters, paths and data is in test_joint.py.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import numba
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta as beta_law

import chiasma as ch
from chiasma.kernels.ensemble import swap_probability
from chiasma.models.labels import CanonicalOrder
from chiasma.models.observations import Observations
from chiasma.results.ladder_stats import batch_error
from chiasma.sampling import given_paths
from chiasma.sampling.gradient_engine import WeightedMoments
from chiasma.sampling.learning import Learning
from chiasma.sampling.learning_engines import as_log_likelihoods
from chiasma.sampling.slices import SliceLines, slice_along
from joint import model_of

JIT = not numba.config.DISABLE_JIT
needs_jit = pytest.mark.skipif(not JIT, reason="long runs of compiled kernels")


EMISSIONS = ("gaussian", "weights", "integrated", "poisson", "student", "negative")


# ---- Slices ---------------------------------------------------------------------------------------------------------


def test_slice__keeps_a_bimodal_density():
    """Two modes that a line connects. Bounds are 5 standard errors by batch means: false alarms 6e-7 each."""

    def log_density(x: np.ndarray) -> float:
        return float(np.logaddexp(-0.5 * (x[0] / 0.5) ** 2 + np.log(0.3), -0.5 * ((x[0] - 4) / 0.5) ** 2 + np.log(0.7)))

    rng = np.random.default_rng(1)
    x = np.zeros(1)
    here = log_density(x)
    draws = np.empty((1, 20_000))
    for i in range(draws.shape[1]):
        x, here = slice_along(log_density, x, here, np.array([3.0]), rng)
        assert here == log_density(x)
        draws[0, i] = x[0]
    for function, expected in ((lambda v: v > 2, 0.7), (lambda v: v, 2.8), (lambda v: v**2, 0.25 + 0.7 * 16)):
        values = function(draws).astype(float)
        assert abs(values.mean() - expected) < 5 * batch_error(values)


def test_slice__stays_where_there_is_nothing_else():
    rng = np.random.default_rng(2)
    start = np.zeros(1)
    x, here = slice_along(lambda x: 0.0 if x[0] == 0 else -np.inf, start, 0.0, np.ones(1), rng)
    assert x is start
    assert here == 0.0


def test_lines__follow_what_was_seen():
    lines = SliceLines(2, [np.array([0]), np.array([1, 2])], 3)
    rng = np.random.default_rng(3)
    covariance = np.array([[4.0, 0, 0], [0, 1.0, 0.9], [0, 0.9, 1.0]])
    for x in rng.multivariate_normal([5, 0, 0], covariance, 5000):
        lines.see(1, x)
    lines.adapt()
    np.testing.assert_array_equal(lines.directions[0], np.eye(3))  # nothing seen there
    found = lines.directions[1]
    np.testing.assert_allclose(found.T @ found / 2.5**2, covariance, atol=0.3)
    assert found[0, 1] == found[1, 0] == 0  # blocks do not mix
    assert not lines.seen.any()
    lines.take_over(np.array([1, 1, 0]))
    np.testing.assert_array_equal(lines.directions[0], found)


# ---- Conditionals ---------------------------------------------------------------------------------------------------


def columns(kind: str, n: int, seed: int = 0) -> np.ndarray:
    model = model_of(kind)
    return model.simulate(n, seed=seed)[1]


def log_joint_of(learning: Learning, values: np.ndarray, codes: np.ndarray, beta: float) -> float:
    target = learning.target(values)
    return learning.log_prior(values) + target.log_prior(codes) + beta * target.log_likelihood(codes)


@pytest.mark.jit_off
@pytest.mark.parametrize("beta", [1.0, 0.4])
@pytest.mark.parametrize("name", ["enter", "initial"])
def test_conjugate_switching__is_the_normalised_joint(name, beta, monkeypatch):
    """The parameters of the Beta that is drawn, against the joint density on a grid."""
    model = model_of("gaussian", initial=ch.Beta(2, 3))
    data = Observations(columns("gaussian", 12), starts=[5])
    learning = Learning(model, data)
    rng = np.random.default_rng(4)
    values = learning.sample_prior(rng)
    codes = rng.integers(0, 4, 12)
    seen = {}

    class Spy:
        def beta(self, a, b):
            seen[len(seen)] = (a, b)
            return rng.beta(a, b)

    learning.given_paths.draw_counted(values, learning.given_paths.count(codes), Spy())
    slot = next(i for i, slot in enumerate(model.parameters.slots) if slot.name == name)
    a, b = seen[slot]
    grid = np.linspace(0.05, 0.95, 10)
    place = model.parameters.slots[slot].values.start
    joint = []
    for x in grid:
        at = values.copy()
        at[place] = x
        joint.append(log_joint_of(learning, at, codes, beta))
    difference = np.array(joint) - beta_law(a, b).logpdf(grid)
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)


@pytest.mark.jit_off
@pytest.mark.parametrize("beta", [1.0, 0.4])
@pytest.mark.parametrize("kind", ["gaussian", "weights"])
def test_conjugate_levels__have_the_moments_of_the_joint(kind, beta):
    """Depth or first weight: draws against the mean and deviation of the joint along that coordinate, given the rest.

    4,000 draws; bounds at 5 standard errors.
    """
    model = model_of(kind)
    data = Observations(columns(kind, 15))
    learning = Learning(model, data)
    rng = np.random.default_rng(5)
    start = learning.sample_prior(rng)
    codes = rng.integers(0, 4, 15)
    present, group = np.unique(codes, return_inverse=True)
    summary = model.emission.summarise(data.y, group, len(present))
    draw = partial(learning.given_paths.draw_linear, start, summary, learning.given_paths.levels_of(present), beta)
    name = "depth" if kind == "gaussian" else "weights"
    own = next(slot for slot in model.parameters.slots if slot.name == name).values
    draws = np.array([draw(rng)[own] for _ in range(4000)])
    precision = np.zeros((draws.shape[1], draws.shape[1]))
    centre = draws.mean(axis=0)

    def at(x: np.ndarray) -> float:
        values = start.copy()
        values[own] = x
        return log_joint_of(learning, values, codes, beta)

    step = 0.05
    units = step * np.eye(draws.shape[1])
    for i, j in product(range(len(units)), repeat=2):  # the joint is quadratic: differences are exact
        u, v = units[i], units[j]
        precision[i, j] = -(at(centre + u + v) - at(centre + u - v) - at(centre - u + v) + at(centre - u - v)) / (
            4 * step * step
        )
    slope = np.array([(at(centre + u) - at(centre - u)) / (2 * step) for u in units])
    covariance = np.linalg.inv(precision)
    mean = centre + covariance @ slope
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(centre - mean) < 5 * sd / np.sqrt(4000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=5 * sd.max() ** 2 * np.sqrt(2 / 4000))


@pytest.mark.jit_off
@pytest.mark.parametrize("kind", EMISSIONS)
def test_summaries__give_the_density_of_the_path(kind, monkeypatch):
    """What is sliced is the joint up to a constant: both halves, with gaps, starts, a missing and a fixed row."""
    plain = model_of(kind, initial=None)
    model = ch.FactorialHMM(rows=plain.rows.chains, emission=plain.emission, fixed={1: 1})
    model.rows.chains.priors.pop("leave")
    model = ch.FactorialHMM(rows=model.rows.chains, emission=plain.emission, fixed={1: 1})
    y = columns(kind, 14)
    y[3] = np.nan
    data = Observations(y, starts=[6], gaps=np.resize([1.0, 2.5], 13))
    learning = Learning(model, data)
    rng = np.random.default_rng(6)
    codes = rng.integers(0, 2, 14)
    seen = []

    def sliced(self, values, log_density, lines, rung, block, rng):
        for _ in range(6):
            at = learning.sample_prior(rng)
            mixed = learning.parameters.to_free(values)
            own = self.blocks[block]
            mixed[own] = learning.parameters.to_free(at)[own]
            at = learning.parameters.from_free(mixed)
            rest = log_joint_of(learning, at, codes, 0.6) - learning.log_prior(at)
            seen.append((block, log_density(at) - rest))
        return values

    monkeypatch.setattr(given_paths.GivenPaths, "_sliced", sliced)
    monkeypatch.setattr(given_paths.GivenPaths, "draw_linear", lambda self, values, *rest: values)
    values, path = learning.sample_prior(rng), learning.typical.expand(codes)
    learning.given_paths.update(values, path, 0.6, None, 0, rng)
    for block in (0, 1):
        offsets = [offset for own, offset in seen if own == block]
        np.testing.assert_allclose(offsets, offsets[0], atol=1e-8)
    assert len(seen) == 12


@pytest.mark.jit_off
def test_log_evidence__sums_over_paths():
    learning = Learning(model_of("gaussian"), Observations(columns("gaussian", 5), starts=[3]))
    values = learning.sample_prior(np.random.default_rng(7))
    target = learning.target(values)
    for beta in (0.0, 0.3, 1.0):
        paths = [np.array(path) for path in product(range(4), repeat=5)]
        terms = [target.log_prior(path) + beta * target.log_likelihood(path) for path in paths]
        np.testing.assert_allclose(learning.log_evidence(values, beta), logsumexp(terms), atol=1e-10)


@pytest.mark.parametrize("n", [1, 4, 6])
def test_log_evidences__side_by_side_are_those_one_by_one(n):
    """With fixed rows, sequences, gaps and missing columns, and also where one of the values needs logarithms."""
    y = np.array([0.3, 2.0, np.nan, 1.4, 5.0, -0.2])
    data = Observations(y, starts=[3], gaps=np.array([1.0, 2.0, 1.5, 1.0, 3.0]))
    emission = ch.Gaussian(ch.Normal([1, 2, 3], 0.5), depth=2.0, sd=ch.LogNormal(0, 0.3))
    chains = ch.Switches(ch.Beta(2, 6), 0.2)
    learning = Learning(ch.FactorialHMM(rows=chains, emission=emission, fixed={1: 1}), data)
    assert learning.side_by_side
    rng = np.random.default_rng(8)
    values = [learning.sample_prior(rng) for _ in range(n)]
    for beta in (0.0, 0.3, 1.0):
        expected = [learning.log_evidence(own, beta) for own in values]
        np.testing.assert_allclose(learning.log_evidences(values, beta), expected, rtol=1e-12)
    odd = values[0].copy()
    odd[learning.parameters.unpack(np.arange(len(odd)))["sd"]] = 1e-4
    expected = [learning.log_evidence(own, 1.0) for own in (odd, *values)]
    assert learning.log_evidences([odd, *values], 1.0) == expected


@pytest.mark.parametrize("kind", ["poisson", "student"])
def test_log_evidences__of_other_noise_come_one_by_one(kind):
    learning = Learning(model_of(kind), Observations(columns(kind, 5)))
    assert not learning.side_by_side
    values = [learning.sample_prior(np.random.default_rng(seed)) for seed in (1, 2)]
    assert learning.log_evidences(values, 1.0) == [learning.log_evidence(own, 1.0) for own in values]


def test_weighted_moments__of_two_peaks():
    """In several pieces, with weights that overflow a number, against NumPy's averages."""
    rng = np.random.default_rng(9)
    points, peaks = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    log_weights = 2000.0 + rng.normal(0, 2, 40)
    log_weights[[3, 17]] = -np.inf
    moments = WeightedMoments(2, 3)
    assert moments.effective == 0
    moments.add(peaks[:2], points[:2], np.full(2, -np.inf))
    assert moments.effective == 0
    for first in range(0, 40, 8):
        part = slice(first, first + 8)
        moments.add(peaks[part], points[part], log_weights[part] - 1990.0 * (first == 0))
    log_weights[:8] -= 1990.0
    weights = np.exp(log_weights - log_weights.max())
    assert moments.effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    weight, first, second = moments.sums()
    assert weight.sum() == pytest.approx(moments.effective)
    for peak in range(2):
        own = peaks == peak
        np.testing.assert_allclose(first[peak] / weight[peak], np.average(points[own], axis=0, weights=weights[own]))
        products = points[own, :, None] * points[own, None, :]
        expected = np.average(products, axis=0, weights=weights[own])
        np.testing.assert_allclose(second[peak] / weight[peak], expected)


def test_conjugate_depth__of_every_channel():
    """Means and variances against normal-normal conjugacy by hand, at 5 standard errors; weights are left to slices."""
    weights, sd, beta = np.array([[1.0, 0.5], [0.4, 2.0]]), 0.7, 0.6
    model = ch.FactorialHMM(
        rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian(weights, depth=ch.Normal([3, 1], [0.5, 2.0]), sd=sd)
    )
    y = model.at({"depth": [3.0, 2.0]}).simulate(15, seed=1)[1]
    rng = np.random.default_rng(10)
    present, group = np.unique(rng.integers(0, 4, 15), return_inverse=True)
    on = (present[:, None] >> np.arange(2) & 1).astype(float)
    summary = model.emission.summarise(y, group, len(present))
    own = Learning(model, Observations(y)).given_paths
    levels, start = own.levels_of(present), np.array([3.0, 1.0])
    draws = np.array([own.draw_linear(start, summary, levels, beta, rng) for _ in range(2000)])
    level = (on @ weights)[group]
    precision = beta / sd**2 * (level**2).sum(axis=0) + np.array([0.5, 2.0]) ** -2
    mean = (beta / sd**2 * (level * y).sum(axis=0) + np.array([3, 1]) * np.array([0.5, 2.0]) ** -2) / precision
    assert np.all(np.abs(draws.mean(axis=0) - mean) * np.sqrt(precision) < 5 / np.sqrt(2000))
    assert np.all(np.abs(draws.var(axis=0) * precision - 1) < 5 * np.sqrt(2 / 2000))
    learned = ch.Gaussian(ch.Normal(weights, 1), depth=2.0, sd=sd)
    both = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=learned)
    assert Learning(both, Observations(y)).given_paths.linear == []


def test_conditional_update__of_conjugate_parameters_alone_is_their_draw():
    """Nothing else is learned, in the chains or in the emission: no slice moves, and no number more is read."""
    y, codes = columns("gaussian", 8), np.array([0, 1, 1, 3, 2, 2, 0, 0])
    depth = ch.FactorialHMM(
        rows=ch.Switches(0.3, 0.3, 0.5), emission=ch.Gaussian([1.0, 0.5], depth=ch.Normal(3, 1), sd=1.0)
    )
    enter = ch.FactorialHMM(
        rows=ch.Switches(ch.Beta(2, 6), 0.3, 0.5), emission=ch.Gaussian([1.0, 0.5], depth=3.0, sd=1.0)
    )
    for model in (depth, enter):
        learning = Learning(model, Observations(y))
        start = learning.parameters.centre
        lines = SliceLines(1, learning.given_paths.blocks, learning.parameters.n_free)
        found = learning.given_paths.update(start, codes, 0.8, lines, 0, np.random.default_rng(11))
        rng = np.random.default_rng(11)
        if model is enter:
            expected = learning.given_paths.draw_counted(start, learning.given_paths.count(codes), rng)
        else:
            present, group = np.unique(codes, return_inverse=True)
            summary = model.emission.summarise(y, group, len(present))
            levels = learning.given_paths.levels_of(present)
            expected = learning.given_paths.draw_linear(start, summary, levels, 0.8, rng)
        np.testing.assert_array_equal(found, expected)
        assert found != start


def test_collapsed_update__stays_where_there_is_nothing_else(monkeypatch):
    """As slices do: values and log evidence come back as they are."""
    learning = Learning(model_of("gaussian"), Observations(columns("gaussian", 5)))
    start = learning.sample_prior(np.random.default_rng(12))
    monkeypatch.setattr(learning, "log_evidence", lambda values, beta: -np.inf)
    lines = SliceLines(1, [np.arange(learning.parameters.n_free)], learning.parameters.n_free)
    values, log_evidence = learning.update_collapsed(start, -3.5, 1.0, lines, 0, np.random.default_rng(13))
    assert values is start
    assert log_evidence == -3.5


# ---- Invariance by enumeration, parameters on a grid -----------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("exchange", [ch.MosaicCrossover(), ch.AugmentedCrossover()])
def test_exchange__of_replicas_with_their_own_parameters_is_invariant(exchange):
    """Joint law of two replicas over (theta, X) with theta of two values: crossover of the paths, each replica with its
    own arrays, then a swap of both. The crossover's transition matrix comes from tests/branches.py elsewhere; here the
    whole swap, whose ratio may use log-likelihoods alone because prior terms move along.
    """
    learning = Learning(model_of("gaussian"), Observations(columns("gaussian", 2)))
    rng = np.random.default_rng(8)
    thetas = [learning.sample_prior(rng) for _ in range(2)]
    states = [(theta, np.array(path)) for theta in thetas for path in product(range(4), repeat=2)]
    betas = (0.3, 1.0)
    log_lik = np.array([learning.target(theta).log_likelihood(path) for theta, path in states])
    log_prior = np.array([learning.target(theta).log_prior(path) + learning.log_prior(theta) for theta, path in states])
    laws = [np.exp(w - logsumexp(w)) for w in (log_prior + betas[0] * log_lik, log_prior + betas[1] * log_lik)]
    joint = np.outer(*laws)
    moved = np.zeros_like(joint)
    for i, j in product(range(len(states)), repeat=2):
        accept = swap_probability(*betas, log_lik[i], log_lik[j])
        moved[j, i] += joint[i, j] * accept
        moved[i, j] += joint[i, j] * (1 - accept)
    np.testing.assert_allclose(moved, joint, atol=1e-14)
    assert exchange.prepare(learning.target(thetas[0]), learning.target(thetas[1]), *betas).n_uniforms > 0


@pytest.mark.jit_off
def test_collapsed_swap__is_invariant():
    """The same with paths summed out: log Z at the other rung takes the place of the log-likelihood."""
    learning = Learning(model_of("gaussian"), Observations(columns("gaussian", 4)))
    rng = np.random.default_rng(9)
    thetas = [learning.sample_prior(rng) for _ in range(5)]
    betas = np.array([0.0, 0.3, 1.0])
    log_z = np.array([[learning.log_evidence(theta, beta) for theta in thetas] for beta in betas])
    log_prior = np.array([learning.log_prior(theta) for theta in thetas])
    for p in range(2):
        laws = [np.exp(w - logsumexp(w)) for w in (log_prior + log_z[p], log_prior + log_z[p + 1])]
        joint, moved = np.outer(*laws), np.zeros((5, 5))
        for i, j in product(range(5), repeat=2):
            work = np.zeros((2, 2))
            work[p] = log_z[p + 1, i] - log_z[p, i], log_z[p + 1, j] - log_z[p, j]
            accept = min(1.0, np.exp(work[p, 0] - work[p, 1]))
            alike = as_log_likelihoods(work, betas)
            assert np.exp(min(0.0, (betas[p + 1] - betas[p]) * (alike[p] - alike[p + 1]))) == pytest.approx(accept)
            moved[j, i] += joint[i, j] * accept
            moved[i, j] += joint[i, j] * (1 - accept)
        np.testing.assert_allclose(moved, joint, atol=1e-14)


# ---- Evidence, labels, runs -----------------------------------------------------------------------------------------


def grid_evidence(y: np.ndarray) -> float:
    """log of the integral over sd of the exact evidence times the prior, by the midpoint rule in log sd."""
    model = one_unknown()
    points = np.linspace(-4, 2.5, 400)
    step = points[1] - points[0]
    prior = model.emission.priors["sd"]
    terms = [ch.exact.log_evidence(model.at({"sd": np.exp(z)}), y) + prior.log_density(np.exp(z)) + z for z in points]
    return float(logsumexp(terms) + np.log(step))


def one_unknown() -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 0.6], depth=2.0, sd=ch.HalfNormal(1)))


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize("update", ["exact", "row"])
def test_evidence__is_the_integral_over_parameters(update):
    """Within 4 standard errors: one false alarm in 16,000."""
    y = one_unknown().at({"sd": 0.4}).simulate(30, seed=3)[1]
    options = {"draws": 200, "warmup": 100, "chains": 2, "seed": 1, "progress": False}
    found = ch.sample(one_unknown(), y, update=update, ladder=ch.Ladder.adapted(size=8), **options)
    assert found.log_evidence is not None
    assert found.log_evidence.standard_error < 0.3
    assert abs(found.log_evidence.value - grid_evidence(y)) < 4 * found.log_evidence.standard_error


def test_canonical_order__moves_rows_with_their_weights():
    model = ch.FactorialHMM(
        rows=ch.Switches(ch.Beta([1, 1, 1, 1], 9), 0.1),
        emission=ch.Gaussian(ch.Dirichlet([1, 1, 1, 1])),
        fixed={1: 1},
    )
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.1, 0.15, 0.25])  # enter, then weights; rows 0, 2, 3 are exchangeable
    codes = np.array([0b0011, 0b1110, 0b0111])
    moved, sorted_values = CanonicalOrder(model)(codes, values)
    np.testing.assert_array_equal(sorted_values, [0.3, 0.2, 0.4, 0.1, 0.15, 0.1, 0.25, 0.5])
    np.testing.assert_array_equal(moved, [0b1010, 0b0111, 0b1011])
    many, _ = CanonicalOrder(model)(np.tile(codes, 4), values)  # more columns than codes
    np.testing.assert_array_equal(many, np.tile(moved, 4))
    again = CanonicalOrder(model)(moved, sorted_values)
    assert again[0] is moved
    learning = Learning(model, Observations(np.array([0.2, 0.5, 0.9])))
    before, after = (learning.target(values).reduce(codes), learning.target(sorted_values).reduce(moved))
    assert log_joint_of(learning, values, before, 1.0) == pytest.approx(
        log_joint_of(learning, sorted_values, after, 1.0)
    )


@pytest.mark.jit_off
@pytest.mark.parametrize("update", ["exact", "row"])
def test_sample__gives_parameters_with_coordinates(update):
    y = columns("gaussian", 8)
    posterior = ch.sample(
        model_of("gaussian"), y, update=update, ladder=[1, 3], draws=6, warmup=4, chains=2, seed=1, progress=False
    )
    assert list(posterior.parameters) == ["enter", "leave", "weights", "depth", "sd"]
    assert posterior.parameters["weights"].dims == ("chain", "draw", "row")
    assert posterior.parameters["sd"].dims == ("chain", "draw")
    np.testing.assert_allclose(posterior.parameters["weights"].sum("row"), 1.0)
    assert posterior.codes.shape == (2, 6, 8)
    again = ch.sample(
        model_of("gaussian"),
        y,
        update=update,
        ladder=[1, 3],
        draws=6,
        warmup=4,
        chains=2,
        seed=1,
        progress=False,
        workers=1,
    )
    np.testing.assert_array_equal(posterior.parameters["sd"], again.parameters["sd"])
    np.testing.assert_array_equal(posterior.codes, again.codes)
    values = {name: posterior.parameters[name].values[1, 3] for name in posterior.parameters}
    at = model_of("gaussian").at(values)
    expected = ch.log_joint(at, y, posterior.codes.values[1, 3].astype(int))
    learned = Learning(model_of("gaussian"), Observations(y))
    flat = np.concatenate([np.ravel(value) for value in values.values()])
    assert posterior.log_joint.values[1, 3] == pytest.approx(expected + learned.log_prior(flat))


@pytest.mark.parametrize("update", ["exact", "row"])
def test_store__resumes_parameters_bitwise(update, tmp_path):
    y = columns("gaussian", 8)
    run = partial(
        ch.sample, model_of("gaussian"), y, update=update, ladder=[1, 3], warmup=4, chains=2, seed=1, progress=False
    )
    whole = run(draws=7)
    run(draws=3, store=tmp_path / "run")
    resumed = run(draws=7, store=tmp_path / "run", resume=True)
    for found in (resumed, ch.open_posterior(tmp_path / "run")):
        np.testing.assert_array_equal(found.codes, whole.codes)
        assert list(found.parameters) == list(whole.parameters)
        for name in whole.parameters:
            np.testing.assert_array_equal(found.parameters[name], whole.parameters[name])
        assert repr(found.log_evidence) == repr(whole.log_evidence)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"update": "exact", "exchange": "mosaic"}, "MosaicCrossover exchanges parts of paths.*exchange='swap'"),
        ({"init": {"sd": -1.0}}, "the prior of sd.*excludes the start -1.0; start inside its support"),
        ({"init": {"sd": [1.0, 2.0]}}, r"sd must have shape \(\), got \(2,\)"),
        ({"init": {"depht": 1.0}}, "depht is not learned here; the learned parameters are enter, leave, weights"),
        ({"init": {"states": np.zeros((3, 4))}}, "states must have shape"),
    ],
)
def test_sample__refuses(options, message):
    with pytest.raises(ch.InvalidInput, match=message):
        ch.sample(model_of("gaussian"), columns("gaussian", 8), draws=2, progress=False, **options)


def test_gaps__restrict_the_prior():
    model = model_of("gaussian", initial=None, enter=ch.Beta(1, 1), leave=ch.Beta(1, 1))
    learning = Learning(model, Observations(columns("gaussian", 5), gaps=[1, 2, 1, 3.5]))
    rng = np.random.default_rng(1)
    drawn = np.array([learning.sample_prior(rng)[:2].sum() for _ in range(50)])
    assert drawn.max() <= 1
    assert learning.log_prior(np.array([0.7, 0.6, 0.5, 0.5, 3.0, 1.0])) == -np.inf
    impossible = model_of("gaussian", initial=None, enter=ch.Beta(1e6, 1), leave=ch.Beta(1e6, 1))
    with pytest.raises(ch.InvalidInput, match=r"gaps need enter \+ leave <= 1.*Beta\(1, 99\)"):
        Learning(impossible, learning.data).sample_prior(rng)


def test_impossible_data__are_named():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Poisson([1.0], depth=ch.Gamma(2, 1)))
    table = ch.Observations(np.array([0.0, 3.0]))
    frozen = ch.FactorialHMM(rows=ch.Switches(0.0, 1.0, 0.0), emission=model.emission)
    with pytest.raises(ch.ImpossibleData, match="probability zero under 1,000 draws"):
        ch.sample(frozen, table, update="exact", exchange=None, draws=2, warmup=2, chains=1, progress=False)
