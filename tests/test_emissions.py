"""Emission densities against scipy.stats, their samplers, and what they refuse."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import chiasma as ch

LEVELS = np.array([0.0, 0.3, 1.0, 2.7, 40.0])
REALS = np.array([-30.0, -0.4, 0.0, 1.0, 2.5, 90.0])
COUNTS = np.array([0.0, 1.0, 2.0, 17.0, 500.0, 1e6])
positive = st.floats(1e-3, 1e3)


def check_density(emission, y, expected):
    """(n, S) log-likelihoods for all levels, and the same for one level at a time."""
    made = emission.log_likelihood(y, LEVELS)
    np.testing.assert_allclose(made, expected(y[:, None], LEVELS), rtol=1e-9, atol=1e-9)
    each = np.tile(LEVELS, (len(y), 1))
    np.testing.assert_array_equal(emission.log_likelihood(y, each), made)


@given(depth=st.floats(-50, 50), sd=positive)
def test_gaussian_is_the_normal_density(depth, sd):
    emission = ch.Gaussian([1.0], depth=depth, sd=sd)
    check_density(emission, REALS, lambda y, level: stats.norm.logpdf(y, depth * level, sd))


@given(mean=st.floats(-50, 50), depth_sd=st.floats(0, 30), sd=positive)
def test_integrated_depth_is_a_normal_density_with_the_variance_of_both(mean, depth_sd, sd):
    emission = ch.IntegratedDepth([1.0], depth_mean=mean, depth_sd=depth_sd, sd=sd)
    check_density(
        emission, REALS, lambda y, level: stats.norm.logpdf(y, mean * level, np.sqrt(sd**2 + (depth_sd * level) ** 2))
    )


def test_integrated_depth_is_the_integral_over_the_depth():
    emission = ch.IntegratedDepth([1.0], depth_mean=3.0, depth_sd=0.8, sd=0.5)
    depth = np.linspace(3 - 8, 3 + 8, 20_001)
    for y in (0.2, 4.0):
        for level in (0.5, 2.0):
            integrand = stats.norm.pdf(y, depth * level, 0.5) * stats.norm.pdf(depth, 3.0, 0.8)
            expected = np.log(np.trapezoid(integrand, depth))
            made = emission.log_likelihood(np.array([y]), np.array([level]))
            np.testing.assert_allclose(made, [[expected]], rtol=1e-9)


@given(depth=st.floats(-50, 50), sd=positive, df=st.floats(0.5, 1e5))
def test_student_t_is_the_t_density(depth, sd, df):
    emission = ch.StudentT([1.0], depth=depth, sd=sd, df=df)
    check_density(emission, REALS, lambda y, level: stats.t.logpdf(y, df, depth * level, sd))


@pytest.mark.parametrize("df", [1e8, 1e12, 1e100])
def test_student_t_of_many_degrees_of_freedom_is_normal(df):
    emission = ch.StudentT([1.0], sd=2.0, df=df)
    y = np.array([-3.0, 0.0, 5.0])
    np.testing.assert_allclose(
        emission.log_likelihood(y, LEVELS[:4]), stats.norm.logpdf(y[:, None], LEVELS[:4], 2.0), rtol=100 / df + 1e-12
    )


@given(depth=positive, background=st.floats(1e-6, 1e3))
def test_poisson_is_the_poisson_probability(depth, background):
    emission = ch.Poisson([1.0], depth=depth, background=background)
    check_density(emission, COUNTS, lambda y, level: stats.poisson.logpmf(y, depth * level + background))


def test_poisson_without_background_allows_only_zero_at_level_zero():
    made = ch.Poisson([1.0], depth=2.0).log_likelihood(np.array([0.0, 3.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(made, [[0.0, -2.0], [-np.inf, stats.poisson.logpmf(3, 2.0)]])


@given(depth=positive, background=st.floats(1e-3, 1e3), dispersion=st.floats(1e-3, 1e3))
def test_negative_binomial_is_the_negative_binomial_probability(depth, background, dispersion):
    emission = ch.NegativeBinomial([1.0], depth=depth, background=background, dispersion=dispersion)

    def expected(y, level):
        mean = depth * level + background
        return stats.nbinom.logpmf(y, 1 / dispersion, 1 / (1 + dispersion * mean))

    check_density(emission, COUNTS[:-1], expected)


@pytest.mark.parametrize("dispersion", [1e-9, 1e-12, 1e-100])
def test_negative_binomial_of_vanishing_dispersion_is_poisson(dispersion):
    levels = np.array([0.3, 1.0, 2.7])
    y = np.array([0.0, 1.0, 7.0, 30.0])
    made = ch.NegativeBinomial([1.0], depth=5.0, dispersion=dispersion).log_likelihood(y, levels)
    np.testing.assert_allclose(made, stats.poisson.logpmf(y[:, None], 5.0 * levels), rtol=1e3 * dispersion + 1e-12)


def test_negative_binomial_without_background_allows_only_zero_at_level_zero():
    made = ch.NegativeBinomial([1.0]).log_likelihood(np.array([0.0, 3.0]), np.array([0.0]))
    np.testing.assert_array_equal(made, [[0.0], [-np.inf]])


# Below 1,000 two large logarithms are subtracted, above it Stirling's series loses nothing.
@pytest.mark.parametrize(("size", "relative"), [(999.9, 1e-11), (1000.1, 1e-12), (2e5, 1e-12)])
def test_negative_binomial_keeps_its_precision_where_its_series_takes_over(size, relative):
    dispersion = 1 / size
    size = 1 / dispersion
    for y in (0, 1, 40, 400):
        terms = [np.log((size + i) / (i + 1)) for i in range(y)]
        expected = math.fsum([*terms, y * np.log(400.0 / (size + 400.0)), -size * np.log1p(400.0 / size)])
        made = ch.NegativeBinomial([1.0], depth=400.0, dispersion=dispersion).log_likelihood(
            np.array([float(y)]), np.array([1.0])
        )
        assert made[0, 0] == pytest.approx(expected, rel=relative)


def test_channels_are_independent_and_missing_ones_contribute_nothing():
    emission = ch.Gaussian([[1.0, 2.0], [0.5, 0.0]], depth=[2.0, 1.0], sd=[0.5, 3.0])
    y = np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, np.nan], [np.nan, np.nan]])
    levels = np.array([[0.0, 0.0], [1.5, 2.0]])
    first = stats.norm.logpdf(1.0, 2.0 * levels[:, 0], 0.5)
    second = stats.norm.logpdf(2.0, levels[:, 1], 3.0)
    np.testing.assert_allclose(emission.log_likelihood(y, levels), [first + second, second, first, [0.0, 0.0]])


def test_a_missing_value_contributes_nothing():
    for emission in (ch.Gaussian([1.0]), ch.Poisson([1.0]), ch.Custom(lambda y, level: y + level, [1.0])):
        made = emission.log_likelihood(np.array([1.0, np.nan]), np.array([0.5, 1.0]))
        assert (made[1] == 0).all()
        assert (made[0] != 0).all()


# ---- Samplers -------------------------------------------------------------------------------------------------------

SAMPLERS = {
    "Gaussian": (ch.Gaussian([1.0], depth=3.0, sd=0.7), stats.norm(4.5, 0.7)),
    "IntegratedDepth": (ch.IntegratedDepth([1.0], 3.0, 0.4, 0.7), stats.norm(4.5, np.hypot(0.7, 0.6))),
    "StudentT": (ch.StudentT([1.0], 3.0, 0.7, 3.0), stats.t(3.0, 4.5, 0.7)),
    "Poisson": (ch.Poisson([1.0], 3.0, 0.5), stats.poisson(5.0)),
    "NegativeBinomial": (ch.NegativeBinomial([1.0], 3.0, 0.3, 0.5), stats.nbinom(1 / 0.3, 1 / 2.5)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samples_have_the_distribution_of_the_density(name):
    emission, law = SAMPLERS[name]
    y = emission.sample(np.full(20_000, 1.5), np.random.default_rng(19))
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    observed = np.bincount(np.searchsorted(edges, y), minlength=len(edges) + 1)
    expected = len(y) * np.diff(law.cdf(edges), prepend=0.0, append=1.0)
    # Fixed seed; for a new one the false-alarm rate is 1e-6.
    assert stats.chisquare(observed, expected).pvalue > 1e-6


@pytest.mark.parametrize("name", SAMPLERS)
def test_expected_signal_is_the_mean_of_the_density(name):
    emission, law = SAMPLERS[name]
    nothing_on = float(getattr(emission, "background", 0.0))
    np.testing.assert_allclose(emission.expected(np.array([1.5, 0.0])), [law.mean(), nothing_on])


def test_expected_signal_of_channels():
    emission = ch.Gaussian([[1.0, 2.0]], depth=[3.0, 5.0])
    np.testing.assert_array_equal(emission.expected(np.array([[1.0, 2.0], [0.0, 1.0]])), [[3.0, 10.0], [0.0, 5.0]])


def test_expected_signal_of_a_density_of_one_s_own_is_not_known():
    with pytest.raises(ch.InvalidInput, match="a Custom has no expected signal; use plot_row"):
        ch.Custom(lambda y, level: y + level, [1.0]).expected(np.zeros(1))


# ---- Refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ch.Gaussian([]), r"a model has 1\.\.63 rows, got 0 weights"),
        (lambda: ch.Gaussian(np.ones(64)), r"a model has 1\.\.63 rows, got 64 weights"),
        (lambda: ch.Gaussian(np.ones((64, 2))), r"a model has 1\.\.63 rows, got 64 weights"),
        (lambda: ch.Gaussian([1.0, np.nan]), "weights must be one finite number"),
        (lambda: ch.Gaussian([[1.0, np.inf]]), "weights must be one finite number"),
        (
            lambda: ch.Gaussian(np.ones((2, 2, 2))),
            r"or \(rows, channels\), got shape \(2, 2, 2\)",
        ),
        (lambda: ch.Gaussian("heavy"), "weights must be numbers, got str"),
        (lambda: ch.Gaussian([1.0], sd=0.0), "sd must be positive and finite, got 0"),
        (lambda: ch.Gaussian([1.0], sd=-1.0), "sd must be positive and finite, got -1"),
        (lambda: ch.Gaussian([1.0], sd=np.nan), "sd must be positive and finite, got nan"),
        (lambda: ch.Gaussian([1.0], depth=np.inf), "depth must be finite, got inf"),
        (lambda: ch.Gaussian([1.0], sd=[1.0, 1.0]), r"sd must be a single number, got shape \(2,\)"),
        (lambda: ch.Gaussian([[1.0, 1.0]], sd=[1.0] * 3), r"sd must be a number or 2 numbers \(channels\), got shape"),
        (lambda: ch.Gaussian([[1.0, 1.0]], sd=[1.0, 0.0]), "sd must be positive and finite"),
        (lambda: ch.Gaussian([1.0], sd="wide"), "sd must be numbers, got str"),
        (lambda: ch.IntegratedDepth([1.0], 1.0, -0.1, 1.0), "depth_sd must be finite and >= 0, got -0.1"),
        (lambda: ch.IntegratedDepth([1.0], 1.0, 0.1, 0.0), "sd must be positive and finite, got 0"),
        (lambda: ch.IntegratedDepth([1.0], np.nan, 0.1, 1.0), "depth_mean must be finite, got nan"),
        (lambda: ch.StudentT([1.0], sd=0.0), "sd must be positive and finite"),
        (lambda: ch.StudentT([1.0], df=0.0), "df must be positive and finite"),
        (lambda: ch.Poisson([1.0, -1.0]), "weights of counts must not be negative, got -1"),
        (lambda: ch.Poisson([[1.0, -1.0]]), "weights of counts must not be negative, got -1"),
        (lambda: ch.StudentT([[1.0, 1.0]], df=[4.0, 5.0]), r"df must be a single number, got shape \(2,\)"),
        (lambda: ch.Poisson([1.0], depth=0.0), "depth must be positive and finite"),
        (lambda: ch.Poisson([1.0], background=-1.0), "background must be finite and >= 0, got -1"),
        (lambda: ch.NegativeBinomial([1.0], dispersion=0.0), "dispersion must be positive and finite"),
        (lambda: ch.Table(np.zeros(4)), r"log_lik must have shape \(T, 2\^K\), .* got \(4,\)"),
        (lambda: ch.Table(np.zeros((5, 3))), r"log_lik must have shape \(T, 2\^K\), .* got \(5, 3\)"),
        (lambda: ch.Table(np.zeros((5, 1))), r"log_lik must have shape \(T, 2\^K\), .* got \(5, 1\)"),
        (lambda: ch.Table(np.zeros((0, 4))), r"log_lik must have shape \(T, 2\^K\), .* got \(0, 4\)"),
        (lambda: ch.Table([[0.0, 0.0], [0.0, np.nan]]), "log_lik must be numbers or -inf, got nan at column 1, code 1"),
        (lambda: ch.Table([[np.inf, 0.0]]), "log_lik must be numbers or -inf, got inf at column 0, code 0"),
        (lambda: ch.Table("table"), "log_lik must be numbers, got str"),
    ],
)
def test_bad_parameters_are_refused_by_name(make, message):
    with pytest.raises(ch.InvalidInput, match=message):
        make()


CHAINS = ch.Switches(0.1, 0.1)


@pytest.mark.parametrize(
    ("emission", "y", "message"),
    [
        (ch.Gaussian([1.0]), np.zeros((3, 2)), r"Gaussian with these weights needs y of shape \(T,\), got \(3, 2\)"),
        (ch.Gaussian([[1.0, 1.0]]), np.zeros(3), r"needs y of shape \(T, 2\), got \(3,\)"),
        (ch.Gaussian([[1.0, 1.0]]), np.zeros((3, 3)), r"needs y of shape \(T, 2\), got \(3, 3\)"),
        (ch.Poisson([1.0]), np.zeros((3, 1)), r"Poisson with these weights needs y of shape \(T,\), got \(3, 1\)"),
        (ch.Poisson([1.0]), [0.0, -2.0], r"Poisson needs counts 0, 1, 2, .* got -2 at column 1; round the data"),
        (ch.Poisson([1.0]), [0.0, np.nan, 1.5], "got 1.5 at column 2"),
        (ch.NegativeBinomial([1.0]), [-1.0], "NegativeBinomial needs counts .* got -1 at column 0"),
        (ch.NegativeBinomial([1.0]), [0.25], "NegativeBinomial needs counts .* got 0.25 at column 0"),
        (ch.Table(np.zeros((3, 2))), np.zeros(4), r"the Table has 3 columns, got y of shape \(4,\)"),
        (ch.Table(np.zeros((3, 2))), np.zeros((3, 2)), r"the Table has 3 columns, got y of shape \(3, 2\)"),
        (
            ch.Custom(lambda y, level: np.zeros(7), [1.0]),
            [1.0, 2.0],
            r"function returned shape \(7,\) for y \(2, 1\) and level \(2,\), expected \(2, 2\); use NumPy functions",
        ),
        (ch.Custom(lambda y, level: 0.0, [1.0]), [1.0], r"function returned shape \(\)"),
        (
            ch.Custom(lambda y, level: np.where(level > 0, np.nan, y + level), [3.0]),
            [1.0, 2.0],
            r"function returned nan for y = 1, level = 3; expected a number below \+inf",
        ),
        (ch.Custom(lambda y, level: np.inf + y + level, [3.0]), [1.0], "function returned inf for y = 1, level = 0"),
    ],
)
def test_data_that_an_emission_cannot_take_are_refused(emission, y, message):
    model = ch.FactorialHMM(rows=CHAINS, emission=emission)
    with pytest.raises(ch.InvalidInput, match=message):
        ch.exact.log_evidence(model, y)
