"""hmmlearn on the expanded state space, an implementation that shares nothing with this one."""

from itertools import product

import numpy as np
import pytest
from hmmlearn import hmm

import chiasma as ch
import reference

RELATIVE = 1e-9


def expanded(oracle, chains, n_rows):
    """Give an hmmlearn model the 2^K states of a factorial one."""
    enter, leave, initial = (np.broadcast_to(p, n_rows) for p in (chains.enter, chains.leave, chains.initial))
    prior = reference.Problem(np.zeros((2, 2**n_rows)), enter, leave, initial)
    oracle.startprob_ = np.exp(prior.log_column_matrix(0)[0])
    oracle.transmat_ = np.exp(prior.log_column_matrix(1))
    return oracle


def row_marginals(state_posteriors, n_rows):
    on = np.array([[reference.bit(s, k) for s in range(2**n_rows)] for k in range(n_rows)])
    return on @ state_posteriors.T


def check(model, data, oracle, signal, lengths=None):
    """Log-likelihood, marginals, and the best path by its score: paths may tie."""
    log_lik, posteriors = oracle.score_samples(signal, lengths)
    assert ch.exact.log_evidence(model, data) == pytest.approx(log_lik, rel=RELATIVE)
    expected = row_marginals(posteriors, model.n_rows)
    np.testing.assert_allclose(ch.exact.marginals(model, data), expected, rtol=RELATIVE, atol=1e-13)
    log_best, path = oracle.decode(signal, lengths, algorithm="viterbi")
    best = ch.exact.map_states(model, data)
    assert ch.log_joint(model, data, best) == pytest.approx(log_best, rel=RELATIVE)
    assert ch.log_joint(model, data, path) == pytest.approx(log_best, rel=RELATIVE)


def gaussian_oracle(emission, chains, variances):
    n_rows = emission.n_rows
    oracle = hmm.GaussianHMM(2**n_rows, covariance_type="diag", implementation="log")
    oracle.means_ = np.array([reference.level(s, emission.weights) for s in range(2**n_rows)]).reshape(2**n_rows, -1)
    oracle.means_ = oracle.means_ * (emission.depth if hasattr(emission, "depth") else emission.depth_mean)
    oracle.covars_ = variances
    return expanded(oracle, chains, n_rows)


LENGTHS = {"one sequence": [400], "three sequences": [150, 1, 249]}


@pytest.mark.slow
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_gaussian_equals_hmmlearn(n_rows, lengths):
    chains = ch.Switches(np.linspace(0.05, 0.1, n_rows), np.linspace(0.1, 0.02, n_rows), np.full(n_rows, 0.3))
    emission = ch.Gaussian(np.linspace(0.5, 1.0, n_rows), depth=4.0, sd=0.9)
    model = ch.FactorialHMM(rows=chains, emission=emission)
    starts = np.cumsum([0, *lengths[:-1]])
    _, y = model.simulate(400, seed=n_rows, starts=starts)
    oracle = gaussian_oracle(emission, chains, np.full((2**n_rows, 1), 0.81))
    check(model, ch.Observations(y, starts=starts), oracle, y[:, None], lengths)


def test_gaussian_with_channels_equals_hmmlearn():
    chains = ch.Switches([0.05, 0.1, 0.2], 0.1, 0.5)
    emission = ch.Gaussian([[1.0, 0.0], [0.5, 1.0], [-0.3, 2.0]], depth=[3.0, 2.0], sd=[0.7, 1.1])
    model = ch.FactorialHMM(rows=chains, emission=emission)
    _, y = model.simulate(300, seed=5)
    oracle = gaussian_oracle(emission, chains, np.tile([0.49, 1.21], (8, 1)))
    check(model, y, oracle, y)


def test_integrated_depth_equals_hmmlearn_with_a_variance_per_state():
    chains = ch.Switches(0.05, 0.08, 0.4)
    emission = ch.IntegratedDepth([0.2, 0.3, 0.5], depth_mean=10.0, depth_sd=1.5, sd=0.6)
    model = ch.FactorialHMM(rows=chains, emission=emission)
    _, y = model.simulate(300, seed=6)
    levels = np.array([reference.level(s, emission.weights) for s in range(8)])
    oracle = gaussian_oracle(emission, chains, (0.36 + 2.25 * levels**2)[:, None])
    check(model, y, oracle, y[:, None])


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=list(LENGTHS))
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_a_table_of_categories_equals_hmmlearn(n_rows, lengths):
    rng = np.random.default_rng(n_rows)
    chains = ch.Switches(*rng.uniform(0.02, 0.4, (3, n_rows)))
    chance = rng.dirichlet(np.ones(6), 2**n_rows)
    symbols = rng.integers(6, size=400)
    oracle = expanded(hmm.CategoricalHMM(2**n_rows, n_features=6, implementation="log"), chains, n_rows)
    oracle.emissionprob_ = chance
    model = ch.FactorialHMM(rows=chains, emission=ch.Table(np.log(chance[:, symbols]).T))
    data = ch.Observations(np.zeros(400), starts=np.cumsum([0, *lengths[:-1]]))
    check(model, data, oracle, symbols[:, None], lengths)


def test_poisson_equals_hmmlearn():
    chains = ch.Switches(0.05, 0.08, 0.4)
    emission = ch.Poisson([1.0, 2.0, 4.0], depth=3.0, background=0.5)
    model = ch.FactorialHMM(rows=chains, emission=emission)
    _, y = model.simulate(300, seed=7)
    oracle = expanded(hmm.PoissonHMM(8, implementation="log"), chains, 3)
    oracle.lambdas_ = np.array([[3.0 * reference.level(s, emission.weights) + 0.5] for s in range(8)])
    check(model, y, oracle, y.astype(int)[:, None])


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=list(LENGTHS))
def test_rows_of_two_to_four_states_and_equal_rows_equal_hmmlearn(lengths):
    """hmmlearn sees all 96 joint states of the rows one by one; here they are 72, for the equal rows are counted."""
    four = [[0.8, 0.1, 0.1, 0.0], [0.1, 0.7, 0.1, 0.1], [0.0, 0.2, 0.7, 0.1], [0.2, 0.0, 0.2, 0.6]]
    rows = [
        ch.Row([0, 0.8], ch.Switch(0.05, 0.1, 0.3), copies=2),
        ch.Row([0, 1.1, 2.3], ch.Sticky(0.1, [0.5, 0.3, 0.2])),
        ch.Row([0, 1.7, 3.1, 4.4], ch.Markov(four, [0.4, 0.3, 0.2, 0.1])),
        ch.Row([0.0, 0.6], ch.Switch(0.02, 0.02)),
        ch.Row([0.0, 0.5, 1.0], fixed=1),
    ]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.7))
    two, three = np.array([[0.95, 0.05], [0.1, 0.9]]), 0.9 * np.eye(3) + 0.1 * np.array([0.5, 0.3, 0.2])
    last = np.array([[0.98, 0.02], [0.02, 0.98]])
    steps = [two, two, three, np.array(four), last, np.eye(3)]
    begin = [[0.7, 0.3], [0.7, 0.3], [0.5, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1], [0.5, 0.5], [0.0, 1.0, 0.0]]
    states = np.array(list(product(range(2), range(2), range(3), range(4), range(2), [1])))
    oracle = hmm.GaussianHMM(len(states), covariance_type="diag", implementation="log")
    oracle.startprob_ = np.prod([np.array(own)[x] for own, x in zip(begin, states.T, strict=True)], axis=0)
    oracle.transmat_ = np.prod([own[np.ix_(x, x)] for own, x in zip(steps, states.T, strict=True)], axis=0)
    values = [[0, 0.8], [0, 0.8], [0, 1.1, 2.3], [0, 1.7, 3.1, 4.4], [0, 0.6], [0, 0.5, 1.0]]
    oracle.means_ = sum(np.array(own)[x] for own, x in zip(values, states.T, strict=True))[:, None]
    oracle.covars_ = np.full((len(states), 1), 0.49)
    starts = np.cumsum([0, *lengths[:-1]])
    y = model.simulate(400, seed=4, starts=starts)[1]
    data = ch.Observations(y, starts=starts)
    assert model.target(data).n_states == 72
    log_lik, smoothed = oracle.score_samples(y[:, None], lengths)
    assert ch.exact.log_evidence(model, data) == pytest.approx(log_lik, rel=RELATIVE)
    for k, own in enumerate(values):
        expected = [smoothed[:, states[:, k] == x].sum(axis=1) for x in range(len(own))]
        np.testing.assert_allclose(ch.exact.probabilities(model, data, k), expected, rtol=RELATIVE, atol=1e-12)
    log_best, _ = oracle.decode(y[:, None], lengths, algorithm="viterbi")
    assert ch.log_joint(model, data, ch.exact.map_states(model, data)) == pytest.approx(log_best, rel=RELATIVE)


def test_the_umbrella_example_of_wikipedia_has_the_log_likelihood_that_hmmlearn_documents():
    # Forward-backward algorithm; rain is 0, no rain is 1; the umbrella is seen on days 1, 2, 4 and 5.
    table = np.log([[0.9, 0.2], [0.9, 0.2], [0.1, 0.8], [0.9, 0.2], [0.9, 0.2]])
    model = ch.FactorialHMM(rows=ch.Switches(enter=0.3, leave=0.3, initial=0.5), emission=ch.Table(table))
    assert ch.exact.log_evidence(model, np.zeros(5)) == pytest.approx(-3.3725020443, abs=5e-11)
    np.testing.assert_allclose(
        ch.exact.marginals(model, np.zeros(5)), [[0.1327, 0.1796, 0.6925, 0.1796, 0.1327]], atol=5e-5
    )
    assert ch.exact.map_states(model, np.zeros(5)).tolist() == [[0, 0, 1, 0, 0]]


def test_the_weather_example_of_wikipedia_has_the_best_path_that_hmmlearn_documents():
    # Viterbi algorithm; rainy is 0, sunny is 1; observed: walk, shop, clean.
    table = np.log([[0.1, 0.6], [0.4, 0.3], [0.5, 0.1]])
    model = ch.FactorialHMM(rows=ch.Switches(enter=0.3, leave=0.4, initial=0.4), emission=ch.Table(table))
    best = ch.exact.map_states(model, np.zeros(3))
    assert best.tolist() == [[1, 0, 0]]
    assert np.exp(ch.log_joint(model, np.zeros(3), best)) == pytest.approx(0.01344, rel=RELATIVE)
