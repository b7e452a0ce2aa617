"""Parameters of rows with any number of states, learned given the paths: conditionals, joint laws, runs.

The joint law of parameters, paths and data is looked at in test_joint.py, for these models as well.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy.stats import dirichlet

import chiasma as ch
from chiasma.kernels.layout import pack_states
from chiasma.models.observations import Observations
from chiasma.results.ladder_stats import batch_error
from chiasma.sampling.given_paths import CHAINS, LEVELS, GivenPaths
from chiasma.sampling.learning import Learning
from joint import model_of

needs_jit = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="long runs of compiled kernels")
STATES = [ch.Dirichlet([4, 1, 1]), ch.Dirichlet([1, 5, 1]), ch.Dirichlet([2, 1, 3])]


def path_of(model: ch.FactorialHMM, n: int, rng: np.random.Generator) -> np.ndarray:
    """Codes (n,) of any states, fixed rows in theirs."""
    states = rng.integers(0, model.layout.sizes[:, None], (model.n_rows, n))
    for k, state in model.fixed.items():
        states[k] = state
    return pack_states(states, model.layout)


def log_joint_of(learning: Learning, values: np.ndarray, codes: np.ndarray, beta: float) -> float:
    log_prior, log_lik = learning.target(values).log_parts(codes)
    return learning.log_prior(values) + log_prior + beta * log_lik


def mixed(**chain) -> ch.FactorialHMM:
    """A row of each kind of chain, copies, a shared parameter, and a baseline."""
    often = ch.Beta(2, 5).shared("often")
    rows = [
        ch.Row(ch.Normal([0, 1, 3], 0.5), ch.Markov(STATES, **chain), "markov"),
        ch.Row([0, 1], ch.Switch(often, ch.Beta(3, 4)), "lamp", copies=2, weight=ch.Normal(1, 0.5)),
        ch.Row([0, 2, 5, 7], ch.Sticky(often, ch.Dirichlet([1, 2, 1, 1])), "sticky"),
        ch.Row([0, 1], fixed=1, name="baseline", weight=ch.LogNormal(0, 0.5)),
    ]
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(depth=ch.Normal(2, 0.5), sd=ch.HalfNormal(1)))


@pytest.mark.jit_off
@pytest.mark.parametrize("gaps", [None, [1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0]])
def test_slices__see_the_density_of_the_path(gaps, monkeypatch):
    """What is sliced is the joint up to a constant, in both blocks, with starts, gaps, copies and a baseline."""
    model = mixed(initial=ch.Dirichlet([1, 2, 1]))
    data = Observations(np.random.default_rng(1).normal(4, 3, 12), starts=[5], gaps=gaps)
    data.y[3] = np.nan
    learning = Learning(model, data)
    rng = np.random.default_rng(2)
    codes = path_of(model, 12, rng)
    seen = {CHAINS: [], LEVELS: []}

    def sliced(self, values, log_density, lines, rung, block, rng):
        for _ in range(6):
            free = self.parameters.to_free(values)
            free[self.blocks[block]] = self.parameters.to_free(learning.sample_prior(rng))[self.blocks[block]]
            at = self.parameters.from_free(free)
            rest = log_joint_of(learning, at, codes, 0.6) - learning.log_prior(at)
            seen[block].append(log_density(at) - rest)
        return values

    monkeypatch.setattr(GivenPaths, "_sliced", sliced)
    learning.given_paths.update(learning.sample_prior(rng), codes, 0.6, None, 0, rng)
    for offsets in seen.values():
        assert len(offsets) == 6
        np.testing.assert_allclose(offsets, offsets[0], atol=1e-8)


@pytest.mark.jit_off
@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_counted__matrices_and_starts_are_the_normalised_joint(beta):
    """What a draw of a Dirichlet is given, against the joint density at random points of the simplex."""
    model = mixed(initial=ch.Dirichlet([1, 2, 1]))
    learning = Learning(model, Observations(np.random.default_rng(3).normal(4, 3, 15), starts=[6]))
    rng = np.random.default_rng(4)
    codes, values = path_of(model, 15, rng), learning.sample_prior(rng)
    own = learning.given_paths
    assert own.counted == {"markov.transition", "markov.initial", "lamp.leave"}
    seen = []

    class Spy:
        def dirichlet(self, concentration):
            seen.append(concentration)
            return rng.dirichlet(concentration)

        def __getattr__(self, name):
            return getattr(rng, name)

    own.draw_counted(values, own.count(codes), Spy())
    slots = {slot.name: slot for slot in model.parameters.slots}
    for place, concentration in zip(
        [*range(slots["markov.transition"].values.start, slots["markov.transition"].values.stop, 3),
         slots["markov.initial"].values.start],
        seen,
        strict=True,
    ):  # fmt: skip
        differences = []
        for _ in range(6):
            at = values.copy()
            at[place : place + 3] = rng.dirichlet([2, 2, 2])
            law = dirichlet(concentration).logpdf(at[place : place + 3])
            differences.append(log_joint_of(learning, at, codes, beta) - law)
        np.testing.assert_allclose(differences, differences[0], atol=1e-8)


@pytest.mark.parametrize("exact_starts", [True, False])
def test_counted__with_a_stationary_start_keeps_the_joint(exact_starts, monkeypatch):
    """enter of a Switch that starts from its stationary distribution, against the joint density on a grid: mean and
    second moment of 20,000 draws, at 5 standard errors by batch means. The mutant forgets the starts.
    """
    rows = [ch.Row([0, 1], ch.Switch(ch.Beta(2, 5), 0.3), "a"), ch.Row([0, 1, 3], ch.Sticky(0.2), "b")]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=1.0))
    learning = Learning(model, Observations(np.zeros(8), starts=[2, 4, 6]))
    codes = pack_states(np.array([[1, 1, 1, 1, 1, 0, 1, 1], [0] * 8]), model.layout)
    own = learning.given_paths
    assert own.counted == {"a.enter"}
    if not exact_starts:
        monkeypatch.setattr(GivenPaths, "_log_starts", lambda *_: 0.0)
    grid = np.linspace(0.0005, 0.9995, 1000)
    log = np.array([log_joint_of(learning, np.array([x]), codes, 1.0) for x in grid])
    weights = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    rng = np.random.default_rng(5)
    values, draws = np.array([0.3]), np.empty((1, 20_000))
    counts = own.count(codes)
    for i in range(draws.shape[1]):
        values = own.draw_counted(values, counts, rng)
        draws[0, i] = values[0]
    scores = [abs((draws**p).mean() - weights @ grid**p) / batch_error(draws**p) for p in (1, 2)]
    assert max(scores) < 5 if exact_starts else min(scores) > 10


@pytest.mark.jit_off
@pytest.mark.parametrize("beta", [1.0, 0.4])
@pytest.mark.parametrize("channels", [False, True])
def test_linear__values_have_the_moments_of_the_joint(beta, channels):
    """Values of two rows, drawn jointly: the joint density is quadratic in them, so its second differences and its
    slope give the mean and the covariance. 4,000 draws; bounds at 5 standard errors.
    """
    values_of = [[[0, 1], [1, 0], [2, 2]], [[0, 0], [3, 1]]] if channels else [[0, 1, 3], [0, 2]]
    rows = [
        ch.Row(ch.Normal(own, 0.7), chain, name)
        for own, chain, name in zip(values_of, (ch.Sticky(0.3), ch.Switch(0.2, 0.3)), "ab", strict=True)
    ]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(depth=1.5, sd=0.8))
    shape = (15, 2) if channels else (15,)
    learning = Learning(model, Observations(np.random.default_rng(6).normal(2, 2, shape)))
    rng = np.random.default_rng(7)
    codes, start = path_of(model, 15, rng), learning.sample_prior(rng)
    own = learning.given_paths
    present, group = np.unique(codes, return_inverse=True)
    summary = model.emission.summarise(learning.data.y, group, len(present))
    levels = own.levels_of(present)
    draws = np.array([own.draw_linear(start, summary, levels, beta, rng) for _ in range(4000)])
    centre, step = draws.mean(axis=0), 0.05
    units = step * np.eye(len(start))

    def at(x):
        return log_joint_of(learning, x, codes, beta)

    precision = np.array(
        [
            [-(at(centre + u + v) - at(centre + u - v) - at(centre - u + v) + at(centre - u - v)) for v in units]
            for u in units
        ]
    ) / (4 * step**2)
    slope = np.array([(at(centre + u) - at(centre - u)) / (2 * step) for u in units])
    covariance = np.linalg.inv(precision)
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(covariance @ slope) < 5 * sd / np.sqrt(4000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=5 * sd.max() ** 2 * np.sqrt(2 / 4000))


def test_shared_name__of_a_chain_and_a_level_is_refused():
    share = ch.Beta(2, 2).shared("share")
    row = ch.Row([0, 1, 2], ch.Sticky(share), weight=share)
    model = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=1.0))
    with pytest.raises(ch.InvalidInput, match="'share' is shared between a chain and what states add to the level"):
        ch.sample(model, [0.0, 1.0], update="row", exchange=None, draws=2, warmup=2, progress=False)


def four_rows() -> ch.FactorialHMM:
    rows = [ch.Row(ch.Normal([0, 1 + k, 2.5 + 2 * k], 0.3), ch.Markov(STATES), f"r{k}") for k in range(4)]
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(1)))


def test_run__of_four_rows_of_three_states_with_blocks_and_a_ladder(tmp_path):
    """It runs, is stored and continued; all that it reports is of the same draw."""
    model = four_rows()
    y = model.simulate(30, seed=1)[1]
    options = {"update": "block", "ladder": [1, 3], "warmup": 4, "chains": 2, "seed": 3, "progress": False}
    whole = ch.sample(model, y, draws=6, **options)
    ch.sample(model, y, draws=3, store=tmp_path / "run.zarr", **options)
    again = ch.sample(model, y, draws=6, store=tmp_path / "run.zarr", resume=True, **options)
    np.testing.assert_array_equal(whole.codes, again.codes)
    for name in model.parameters.names:
        np.testing.assert_array_equal(whole.parameters[name], again.parameters[name])
    placed, states = whole.model_at(1, 2), np.array([whole.states(f"r{k}").values[1, 2] for k in range(4)])
    values = np.concatenate([np.ravel(whole.parameters[name].values[1, 2]) for name in model.parameters.names])
    expected = ch.log_joint(placed, y, states) + model.parameters.log_prior(values)
    assert whole.log_joint.values[1, 2] == pytest.approx(expected)


def test_run__of_copies_has_the_log_joint_of_its_rows():
    """The prior of a draw is that of the rows one by one, not of their counts."""
    model = mixed()
    y = model.simulate(20, seed=2)[1]
    options = {"update": "row", "exchange": None, "warmup": 2, "chains": 1, "seed": 3, "progress": False}
    posterior = ch.sample(model, y, draws=3, init={"sd": 0.7}, **options)
    values = np.concatenate([np.ravel(posterior.parameters[name].values[0, 2]) for name in model.parameters.names])
    states = np.array([posterior.states(name).values[0, 2] for name in model.row_names])
    expected = ch.log_joint(posterior.model_at(0, 2), y, states) + model.parameters.log_prior(values)
    assert posterior.log_joint.values[0, 2] == pytest.approx(expected)


@pytest.mark.slow
@needs_jit
def test_posterior__given_paths_agrees_with_integrated_paths():
    """Means and second moments of all parameters by the two samplers within 5 standard errors, 18 comparisons: one
    false alarm in 90,000.
    """
    model = model_of("states")
    y = model.simulate(15, seed=6)[1]
    options = {"chains": 2, "seed": 1, "progress": False}
    given = ch.sample(model, y, update="block", ladder=[1, 3], draws=240, warmup=40, **options)
    without = ch.sample(model, y, update=ch.Collapsed(starts=2), draws=60, warmup=32, **options)
    for name in model.parameters.names:
        for power in (1, 2):
            a, b = (
                run.parameters[name].values.reshape(*run.parameters[name].shape[:2], -1) ** power
                for run in (given, without)
            )
            for i in range(a.shape[-1]):
                error = np.hypot(batch_error(a[..., i]), batch_error(b[..., i]))
                assert abs(a[..., i].mean() - b[..., i].mean()) < 5 * error
