"""Priors: densities against SciPy, free coordinates, the compiled twin, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import chiasma as ch
import reference
from chiasma.errors import InvalidInput
from chiasma.models.labels import exchangeable_blocks
from chiasma.models.parameters import Parameters
from chiasma.models.priors import Mixed, prior_of

PRIORS = {
    "normal": (ch.Normal([1.0, -2.0], 0.7), stats.norm([1.0, -2.0], 0.7)),
    "log-normal": (ch.LogNormal(0.3, [0.5, 1.2]), stats.lognorm([0.5, 1.2], scale=np.exp(0.3))),
    "half-normal": (ch.HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    "gamma": (ch.Gamma([2.0, 0.5, 3.0], 1.5), stats.gamma([2.0, 0.5, 3.0], scale=1 / 1.5)),
    "beta": (ch.Beta(1.5, [9.0, 2.0]), stats.beta(1.5, [9.0, 2.0])),
    "uniform": (ch.Uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "dirichlet": (ch.Dirichlet([1.0, 2.0, 0.7]), stats.dirichlet([1.0, 2.0, 0.7])),
}
each_prior = pytest.mark.parametrize("name", PRIORS)


@pytest.mark.jit_off
@each_prior
def test_log_density__is_that_of_scipy(name):
    prior, law = PRIORS[name]
    rng = np.random.default_rng(1)
    for _ in range(20):
        value = prior.sample(rng)
        assert value.shape == prior.shape
        expected = np.sum(law.logpdf(value))
        np.testing.assert_allclose(prior.log_density(value), expected, rtol=1e-12)
        parameters = Parameters({}, {"theta": prior})
        np.testing.assert_allclose(parameters.log_prior(value.ravel()), expected, rtol=1e-12)


@pytest.mark.jit_off
@each_prior
def test_free_coordinates__go_there_and_back(name):
    prior, _ = PRIORS[name]
    parameters = Parameters({"other": ch.Normal(0, 1)}, {"theta": prior, "last": ch.HalfNormal(1)})
    rng = np.random.default_rng(2)
    for _ in range(20):
        values = parameters.sample(rng)
        free = parameters.to_free(values)
        assert free.shape == (prior.n_free + 2,)
        np.testing.assert_allclose(parameters.from_free(free), values, rtol=1e-12)
        own = values[parameters.slots[1].values].reshape(prior.shape)
        np.testing.assert_allclose(
            free[parameters.slots[1].free], reference.to_free(prior, own), rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(reference.from_free(prior, reference.to_free(prior, own)), own, rtol=1e-12)


@each_prior
def test_log_density_of_free_coordinates__has_the_slope(name):
    """log |d value / d free| by differences, over the free entries of a simplex."""
    prior, _ = PRIORS[name]
    parameters = Parameters({}, {"theta": prior})
    values = parameters.sample(np.random.default_rng(3))
    free = parameters.to_free(values)
    step = 1e-6
    columns = [
        (parameters.from_free(free + step * unit) - parameters.from_free(free - step * unit)) / (2 * step)
        for unit in np.eye(len(free))
    ]
    slope = np.linalg.slogdet(np.array(columns)[:, : len(free)])[1]
    np.testing.assert_allclose(parameters.log_prior_free(values) - parameters.log_prior(values), slope, atol=1e-6)
    np.testing.assert_allclose(reference.log_slope(prior, values.reshape(prior.shape)), slope, atol=1e-6)


@each_prior
def test_sample__follows_the_law(name):
    """Kolmogorov-Smirnov for the first entry; a correct sampler fails one of seven with probability 7e-6."""
    prior, law = PRIORS[name]
    rng = np.random.default_rng(4)
    draws = [prior.sample(rng) for _ in range(2000)]
    ranks = [stats.beta(1.0, 2.7).cdf(draw[0]) if name == "dirichlet" else np.ravel(law.cdf(draw))[0] for draw in draws]
    assert stats.kstest(ranks, "uniform").pvalue > 1e-6


@pytest.mark.jit_off
@each_prior
def test_outside_the_support__is_impossible(name):
    prior, _ = PRIORS[name]
    outside = {"normal": np.inf, "uniform": 3.0, "beta": 1.0, "dirichlet": 1.0}.get(name, 0.0)
    values = np.full(int(np.prod(prior.shape, dtype=int)), outside)
    assert prior.log_density(values.reshape(prior.shape)) == -np.inf
    assert Parameters({}, {"theta": prior}).log_prior_free(values) == -np.inf


@each_prior
def test_describe__makes_it_again(name):
    prior, _ = PRIORS[name]
    again = prior_of(prior.describe())
    assert repr(again) == repr(prior)
    assert again.shape == prior.shape
    np.testing.assert_allclose(again.centre, prior.centre)
    assert prior.centre.shape == prior.shape
    assert np.isfinite(prior.log_density(prior.centre))


@pytest.mark.jit_off
@given(st.floats(-2000, 2000))
def test_extreme_coordinates__give_numbers(z):
    """Nothing raises far out; a value on its bound is impossible, not an error."""
    parameters = Parameters({}, {name: prior for name, (prior, _) in PRIORS.items()})
    values = parameters.from_free(np.full(parameters.n_free, z))
    assert not np.isnan(values).any()
    with np.errstate(over="ignore"):  # plain Python would warn of what compiled code takes as -inf
        assert not np.isnan(parameters.log_prior_free(values))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ch.Normal(0, 0), "sd of Normal must be positive, got 0"),
        (lambda: ch.LogNormal(0, -1), "sd of LogNormal must be positive, got -1"),
        (lambda: ch.HalfNormal([1, -2]), r"sd of HalfNormal must be positive, got \[1.0, -2.0\]"),
        (lambda: ch.Gamma(1, 0), "beta of Gamma must be positive"),
        (lambda: ch.Beta(0, 1), "alpha of Beta must be positive"),
        (lambda: ch.Beta([1, 2], [1, 2, 3]), r"equal lengths, got alpha \(2,\), beta \(3,\)"),
        (lambda: ch.Normal(np.nan, 1), "mean of Normal must be finite, got nan"),
        (lambda: ch.Normal("a", 1), "mean of Normal must be numbers"),
        (lambda: ch.Uniform(2, 1), "low < high, got 2 and 1"),
        (lambda: ch.Dirichlet([1, -1]), r"concentration of Dirichlet must be positive, got \[1.0, -1.0\]"),
        (lambda: ch.Dirichlet([1]), r"at least two concentrations, one per row, got shape \(1,\)"),
        (lambda: ch.Gaussian([1.0], sd=ch.Normal(1, 1)), "sd must be above 0, and Normal.* use LogNormal, HalfNormal"),
        (lambda: ch.Gaussian([1.0], depth=ch.Normal([1, 2], 1)), r"depth must have a single value.*got .*shape \(2,\)"),
        (lambda: ch.Gaussian(ch.Normal(0, 1)), "one value per row, got Normal.*Dirichlet"),
        (lambda: ch.Poisson(ch.Normal([1, 2], 1)), "weights must be above 0"),
        (lambda: ch.IntegratedDepth([1.0], 100.0, ch.Normal(10, 1)), "depth_sd must be above 0"),
        (lambda: ch.Switches(ch.Gamma(1, 1), 0.1), "enter must be between 0 and 1, and Gamma.*use Beta"),
        (lambda: ch.Switches(ch.Dirichlet([1, 1]), 0.1), "enter of the rows need not add up to 1; use Beta"),
        (lambda: learned(enter=ch.Beta([1, 1], 9)), r"enter must be a scalar or have 3 values \(rows\), got 2"),
        (lambda: learned().target(np.zeros(3)), "got priors for weights, sd; .*ch.sample.*model.at"),
        (lambda: learned().at({"depth": 3.0}), "depth has no prior here; the parameters with priors are weights, sd"),
        (lambda: learned().at({"sd": -1.0}), "sd must be positive"),
    ],
)
def test_bad_priors__are_refused_with_the_remedy(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def learned(enter=0.1, **changes):
    emission = {"weights": ch.Dirichlet([1, 1, 1]), "depth": 10.0, "sd": ch.HalfNormal(2)} | changes
    return ch.FactorialHMM(rows=ch.Switches(enter, 0.1), emission=ch.Gaussian(**emission))


def test_at__puts_numbers_in_place_of_priors():
    model = learned(enter=ch.Beta(1, 9))
    assert model.parameters.names == ["enter", "weights", "sd"]
    partly = model.at({"sd": 0.5})
    assert partly.parameters.names == ["enter", "weights"]
    assert partly.emission.sd == 0.5
    values = {"enter": 0.2, "weights": [0.2, 0.3, 0.5], "sd": 0.5}
    whole, placed = (
        model.at(values),
        model.with_unchecked_values({name: np.asarray(value) for name, value in values.items()}),
    )
    for other in (whole, placed):
        assert not other.parameters
        np.testing.assert_array_equal(other.emission.weights, [0.2, 0.3, 0.5])
        np.testing.assert_array_equal(other.rows.chains.probabilities(3)[0], [0.2] * 3)
    y = np.linspace(0, 10, 7)
    assert ch.exact.log_evidence(whole, y) == ch.exact.log_evidence(placed, y)
    assert model.parameters.names == ["enter", "weights", "sd"]  # as it was


EMISSIONS = {
    "gaussian": (ch.Gaussian([0.5, 1.0, 2.0], depth=3.0, sd=0.7), lambda rng: rng.normal(4, 3, 60)),
    "channels": (
        ch.Gaussian([[0.5, 1.0], [1.0, 0.2], [2.0, 1.0]], depth=[3.0, 2.0], sd=[0.7, 0.9]),
        lambda rng: rng.normal(4, 3, (60, 2)),
    ),
    "integrated": (ch.IntegratedDepth([0.5, 1.0, 2.0], 3.0, 0.4, 0.7), lambda rng: rng.normal(4, 3, 60)),
    "student": (ch.StudentT([0.5, 1.0, 2.0], 3.0, 0.7, 5.0), lambda rng: rng.normal(4, 3, 60)),
    "poisson": (ch.Poisson([0.5, 1.0, 2.0], 3.0, 0.1), lambda rng: rng.poisson(4, 60).astype(float)),
    "negative": (ch.NegativeBinomial([0.5, 1.0, 2.0], 3.0, 0.3, 0.1), lambda rng: rng.poisson(4, 60).astype(float)),
}


@pytest.mark.parametrize("name", EMISSIONS)
def test_summed__is_the_sum_over_columns(name):
    """Sufficient statistics by group, against the density of every column; some values are missing."""
    emission, make = EMISSIONS[name]
    rng = np.random.default_rng(5)
    y = make(rng)
    y[::7] = np.nan
    group = rng.integers(0, 4, 60)
    level = rng.uniform(0.1, 3.0, (5, *emission.weights.shape[1:]))  # a fifth group has no columns
    summary = emission.summarise(y, group, 5)
    expected = emission.log_likelihood(y, level[group][:, None]).sum()
    np.testing.assert_allclose(emission.summed(summary, level), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "groups"),
    [
        (learned(), [[0, 1, 2]]),
        (learned(weights=ch.Dirichlet([1, 2, 1])), [[0, 2]]),
        (learned(weights=ch.Gamma([2, 2, 3], 1)), [[0, 1]]),
        (learned(weights=[0.2, 0.3, 0.5]), []),
        (learned(enter=ch.Beta([1, 1, 2], 9)), [[0, 1]]),
        (learned(enter=[0.1, 0.2, 0.2]), [[1, 2]]),
        (learned(enter=ch.Beta(1, 9)), [[0, 1, 2]]),
    ],
)
def test_exchangeable_rows(model, groups):
    assert exchangeable_blocks(model) == [[(row,) for row in group] for group in groups]


def test_exchangeable_rows__fixed_ones_are_told_apart():
    chains, emission = ch.Switches(0.1, 0.1), ch.Gaussian(ch.Dirichlet([1, 1, 1, 1]))
    model = ch.FactorialHMM(rows=chains, emission=emission, fixed={1: 1})
    assert exchangeable_blocks(model) == [[(0,), (2,), (3,)]]


@each_prior
def test_marginal__is_the_prior_of_one_entry(name):
    prior, law = PRIORS[name]
    for entry in np.ndindex(prior.shape):
        marginal = prior.marginal(entry)
        assert marginal.shape == ()
        x = float(marginal.centre)
        if name == "dirichlet":
            own = prior.concentration[entry]
            expected = stats.beta(own, prior.concentration.sum() - own).logpdf(x)
        else:
            expected = np.broadcast_to(law.logpdf(x), prior.shape)[entry]
        assert marginal.log_density(np.asarray(x)) == pytest.approx(expected)


MIXED = Mixed([0.5, ch.LogNormal(0.3, 0.5), -2.0, ch.Normal(1.0, 2.0), ch.Uniform(-1.0, 3.0), 4.0])


@pytest.mark.jit_off
def test_mixed__numbers_have_no_coordinate_and_no_density():
    """Between a simplex and another prior: what comes before and after keeps its places."""
    parameters = Parameters({"shares": ch.Dirichlet([1.0, 2.0])}, {"theta": MIXED, "last": ch.HalfNormal(1)})
    values = parameters.sample(np.random.default_rng(1))
    own = parameters.unpack(values)
    np.testing.assert_array_equal(own["theta"][MIXED.is_number], [0.5, -2.0, 4.0])
    free = parameters.to_free(values)
    assert len(free) == parameters.n_free == 1 + 3 + 1
    np.testing.assert_allclose(parameters.from_free(free), values, rtol=1e-12)
    expected = ch.Dirichlet([1.0, 2.0]).log_density(own["shares"]) + ch.HalfNormal(1).log_density(own["last"])
    expected += sum(MIXED.parts[i].log_density(own["theta"][i]) for i in (1, 3, 4))
    assert parameters.log_prior(values) == pytest.approx(expected, rel=1e-12)
    assert np.all(parameters.slopes(values)[2:8][MIXED.is_number] == 0)
    slope = parameters.free_slopes(values, np.zeros(len(values)))
    for i, step in enumerate(1e-6 * np.eye(len(free))):
        ends = [parameters.log_prior_free(parameters.from_free(free + sign * step)) for sign in (1, -1)]
        assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-6)


def test_mixed__is_described_and_made_again():
    again = prior_of(MIXED.describe())
    assert again.describe() == MIXED.describe()
    assert MIXED.log_density(MIXED.centre) > -np.inf
    assert MIXED.log_density(MIXED.centre + 0.01) == -np.inf
    assert Mixed([ch.Normal(0, 1), 2.0, ch.Normal(0, 1), 2.0]).alike() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, ch.Normal([1, 2], 1)], "one number"),
        ([0, ch.Normal(0, 1).shared("step")], "not shared"),
        ([0, ch.Normal(0, 1), None], "finite numbers"),
        ([0, ch.Normal(0, 1), np.nan], "finite numbers"),
        ([[0, 1], ch.Normal(0, 1)], "one shape"),
    ],
)
def test_mixed__bad_lists_are_refused(values, message):
    with pytest.raises(InvalidInput, match=message):
        ch.Row(values, ch.Sticky(0.1))


def test_mixed__values_are_learned_in_the_same_way_collapsed_and_given_the_paths():
    chain = ch.Sticky(0.1)
    _, y = ch.FactorialHMM(rows=[ch.Row([0, 3.0, 7.0], chain)], emission=ch.Gaussian(sd=0.5)).simulate(150, seed=2)
    row = ch.Row([0, ch.LogNormal(1, 0.5), 7.0], chain, "heater")
    model = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=0.5))
    options = {"draws": 150, "warmup": 50, "chains": 2, "seed": 1, "progress": False, "exchange": None, "ladder": [1.0]}
    for update in ("collapsed", "row"):
        posterior = ch.sample(model, y, update=update, **options)
        values = posterior.parameters["heater.values"].values
        assert np.all(values[..., [0, 2]] == [0.0, 7.0])
        assert abs(values[..., 1].mean() - 3.0) < 0.3
        assert [one.name for one in posterior.summary().parameters] == ["heater.values[1]"]


def test_mixed__weights_have_the_slope_of_the_evidence():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([ch.Normal(0, 1), 2.0], sd=0.3))
    density = ch.exact.log_density(model, [0.1, 1.1, 2.9, 2.1, 0.8])
    x = density.start({"weights": [0.9, 2.0]})
    _, slope = density.value_and_gradient(x)
    assert slope == pytest.approx((density(x + 1e-5) - density(x - 1e-5)) / 2e-5, rel=1e-5)
    with pytest.raises(InvalidInput, match="excludes"):
        density.start({"weights": [0.9, 2.1]})
