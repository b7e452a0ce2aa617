"""Evidence from a ladder: against exact values, with an honest standard error.

z-scores of correct estimates exceed 5 with probability 6e-7 each; other false-alarm rates stand where they are used.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import poisson

import chiasma as ch
from chiasma.results.ladder_stats import Evidence, batch_error, chain_error, ladder_evidence

JIT = not numba.config.DISABLE_JIT
needs_jit = pytest.mark.skipif(not JIT, reason="long runs of compiled kernels")
INF = math.inf


def problem(n_columns: int = 40) -> tuple[ch.FactorialHMM, np.ndarray]:
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.15), emission=ch.Gaussian([1.0, 0.8, 0.55], sd=0.7))
    return model, model.simulate(n_columns, seed=1)[1]


def counts() -> tuple[ch.FactorialHMM, np.ndarray]:
    """Without background, a column with a count needs a row that is on: many paths of the prior are impossible."""
    model = ch.FactorialHMM(rows=ch.Switches(0.4, 0.3), emission=ch.Poisson([2.0, 3.0], background=0.0))
    return model, np.array([2.0, 0.0, 3.0, 1.0, 0.0])


# ---- A handful of states, drawn independently -----------------------------------------------------------------------


class Toy:
    """x in 0..n-1 with prior p and log-likelihood l; draws of every rung are independent."""

    def __init__(self, log_lik: np.ndarray, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.log_lik = log_lik
        self.prior = self.rng.dirichlet(np.ones(len(log_lik)))
        self.log_evidence = float(logsumexp(log_lik, b=self.prior))

    def draws(self, betas: np.ndarray, n_chains: int, n: int) -> np.ndarray:
        out = np.empty((n_chains, n, len(betas)))
        for r, beta in enumerate(betas):
            weights = self.prior * (np.exp(beta * (self.log_lik - self.log_lik.max())) if beta else 1.0)
            out[..., r] = self.rng.choice(self.log_lik, size=(n_chains, n), p=weights / weights.sum())
        return out


@pytest.mark.parametrize("impossible", [0, 3])
def test_ladder_evidence__agrees_with_a_sum_over_states(impossible):
    """400 repeats: z has mean 0 and variance 1. The variance of the variance is 2/400: bounds at five of its errors."""
    log_lik = np.linspace(-720.0, -709.0, 8)  # far out of the range of exp
    log_lik[:impossible] = -INF
    toy = Toy(log_lik, seed=impossible)
    betas = np.array([0.0, 0.1, 0.4, 1.0])
    z = []
    for _ in range(400):
        value, error = ladder_evidence(toy.draws(betas, 2, 500), betas)
        z.append((value - toy.log_evidence) / error)
    assert abs(np.mean(z)) < 5 / math.sqrt(400)
    assert abs(np.var(z) - 1) < 5 * math.sqrt(2 / 400)


def test_ladder_evidence__a_constant_likelihood_is_known_exactly():
    assert ladder_evidence(np.full((2, 8, 3), -7.5), np.array([0.0, 0.5, 1.0])) == Evidence(-7.5, 0.0)


def test_ladder_evidence__knows_nothing_without_a_possible_draw():
    betas = np.array([0.0, 0.5, 1.0])
    log_lik = np.full((1, 10, 3), -5.0)
    log_lik[..., 0] = -INF
    assert ladder_evidence(log_lik, betas) == (-INF, INF)
    log_lik[0, 0, 0] = -5.0
    log_lik[0, 3, 1] = -INF
    assert ladder_evidence(log_lik, betas) == (-INF, INF)


def test_ladder_evidence__counts_the_covariance_of_rungs():
    """Rungs that move together: the error of the sum is not that of independent rungs. 300 repeats; the spread is then
    known to 4%, and the mean reported error has to be within five times that, 20%."""
    rng = np.random.default_rng(2)
    betas = np.array([0.0, 0.5, 1.0])
    found = []
    for _ in range(300):
        shared = rng.normal(size=(4, 400, 1))
        found.append(ladder_evidence(-3 + 0.5 * shared + 0.05 * rng.normal(size=(4, 400, 3)), betas))
    values, errors = np.array(found).T
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.2)


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_batch_error__of_independent_and_autocorrelated_series(phi):
    """AR(1): the variance of the mean of N is (1 + phi) / (1 - phi) / N for unit variance. 80 batches give the error to
    8%: five times that is 40%."""
    rng = np.random.default_rng(3)
    n_chains, n = 4, 20_000
    noise = rng.normal(size=(n_chains, n)) * math.sqrt(1 - phi**2)
    series = np.empty_like(noise)
    series[:, 0] = rng.normal(size=n_chains)
    for i in range(1, n):
        series[:, i] = phi * series[:, i - 1] + noise[:, i]
    expected = math.sqrt((1 + phi) / (1 - phi) / (n_chains * n))
    assert batch_error(series) == pytest.approx(expected, rel=0.4)


def test_batch_error__few_values():
    assert math.isnan(batch_error(np.zeros((4, 3))))
    assert batch_error(np.array([[0.0, 0.0, 1.0, 1.0]])) == pytest.approx(0.5)


# ---- Runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize("exchange", ["swap", "mosaic"])
def test_evidence__of_an_ensemble_agrees_with_the_exact_one(exchange):
    """20 seeds. A normal estimate is 3 errors off twice or more with probability 0.002; the spread of 20 values is out
    by a factor 2 with probability below 1e-4."""
    model, y = problem()
    exact = ch.exact.log_evidence(model, y)
    found = []
    for seed in range(20):
        posterior = ch.sample(
            model, y, update="row", exchange=exchange, ladder=ch.Ladder.adapted(6), draws=2500, warmup=500, chains=2,
            seed=seed, progress=False,
        )  # fmt: skip
        found.append(posterior.log_evidence)
    values, errors = np.array(found).T
    assert np.sum(np.abs(values - exact) < 3 * errors) >= 19
    assert 0.5 < errors.mean() / values.std(ddof=1) < 2


def test_evidence__exact_runs_are_exact():
    model, y = problem(12)
    posterior = ch.sample(model, y, update="exact", draws=2, chains=1, seed=1, progress=False)
    assert posterior.log_evidence == Evidence(ch.exact.log_evidence(model, y), 0.0)


@pytest.mark.parametrize(
    ("exchange", "ladder"), [("swap", [1, 5]), (None, [1]), (None, "auto"), ("mosaic", ch.Ladder(betas=(1e-9, 1.0)))]
)
def test_evidence__none_where_the_ladder_does_not_reach_the_prior(exchange, ladder):
    model, y = problem(8)
    options = {"update": "row", "draws": 4, "warmup": 2, "chains": 1, "seed": 1, "progress": False}
    assert ch.sample(model, y, exchange=exchange, ladder=ladder, **options).log_evidence is None


def test_evidence__none_where_the_prior_is_no_distribution(tmp_path):
    """A flat prior over real numbers; over a finite alphabet it is uniform, and the evidence is known."""

    def log_density(x):
        return -0.5 * (x**2).sum(axis=1)

    flat = ch.Density(log_density, 1, [0.0], ch.RandomWalk(scale=1.0))
    options = {"draws": 20, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
    run = ch.sample(flat, store=tmp_path / "run.zarr", **options)
    for posterior in (run, ch.sample(flat, **options), ch.open_posterior(tmp_path / "run.zarr")):
        assert posterior.betas[0] == 0.01
        assert posterior.log_evidence is None
        assert posterior.info["plan"].endswith("; no evidence, for there is no log_prior")
        assert not any(one.about == "evidence" for one in posterior.findings)
    with pytest.raises(ch.InvalidInput, match=r"evidence=True needs a log_prior: .*; give ch\.Density a log_prior"):
        ch.sample(flat, evidence=True, **options)
    proper = ch.Density(log_density, 1, [0.0], ch.RandomWalk(scale=1.0), log_prior=log_density)
    letters = ch.Density(log_density, 1, [0.0], ch.SiteGibbs(alphabet=(-1.0, 0.0, 1.0)))
    for density in (proper, letters):
        posterior = ch.sample(density, evidence=True, **options)
        assert math.isfinite(posterior.log_evidence.value)
        assert "no evidence" not in posterior.info["plan"]


def test_evidence__too_few_draws_for_an_error():
    model, y = problem(8)
    posterior = ch.sample(
        model, y, update="row", ladder=[1, np.inf], draws=3, warmup=2, chains=1, seed=1, progress=False
    )
    assert math.isfinite(posterior.log_evidence.value)
    assert math.isnan(posterior.log_evidence.standard_error)


# ---- Impossible paths of the prior ----------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", ["swap", "random", "augmented", "mosaic"])
@pytest.mark.parametrize("update", ["row", "block", "exact"])
def test_impossible_prior_draws__break_nothing(update, exchange):
    """Swap probabilities, adaptation and evidence with log-likelihoods of -inf at beta = 0, marginals included.

    17 z-scores below 5 for each of 12 runs: a false alarm in 1e-4 of seeds. Plain Python runs too briefly for them.
    """
    model, y = counts()
    n = (2000 if update == "exact" else 8000) if JIT else 40
    posterior = ch.sample(
        model, y, update=update, exchange=exchange, ladder=ch.Ladder.adapted(4), draws=n, warmup=n // 4, chains=2,
        seed=3, progress=False,
    )  # fmt: skip
    log_lik = posterior.replica_log_likelihood.values
    impossible = (log_lik == -INF).mean(axis=(0, 1))
    assert impossible[0] > 0.2
    assert (impossible[1:] == 0).all()
    assert np.isfinite(posterior.betas).all()
    assert (np.diff(posterior.betas) > 0).all()
    rejection = posterior.exchange_stats["rejection"].values
    assert ((rejection >= 0) & (rejection <= 1)).all()
    assert np.isfinite(posterior.exchange_stats["length"]).all()
    value, error = posterior.log_evidence
    assert math.isfinite(value)
    assert math.isfinite(error)
    if not JIT:
        return
    assert abs(value - ch.exact.log_evidence(model, y)) < 5 * error
    exact = ch.exact.marginals(model, y)
    for k in range(2):
        states = posterior.states(k).values
        for t in range(len(y)):
            if 0.01 < exact[k, t] < 0.99:
                assert abs(states[..., t].mean() - exact[k, t]) < 5 * batch_error(states[..., t])


@needs_jit
def test_impossible_prior_draws__rejection_of_the_first_pair():
    """Against enumeration of all paths: an impossible one is never accepted upwards."""
    model, y = counts()
    beta = 0.5
    posterior = ch.sample(
        model, y, update="exact", exchange="swap", ladder=ch.Ladder(betas=(0.0, beta, 1.0)), draws=4000, warmup=0,
        chains=2, seed=4, progress=False,
    )  # fmt: skip
    codes = np.stack(np.meshgrid(*[np.arange(4)] * len(y), indexing="ij"), axis=-1).reshape(-1, len(y))
    prior = np.exp([ch.log_joint(model, y, path, beta=0.0) for path in codes])
    level = 2.0 * (codes & 1) + 3.0 * (codes >> 1)
    log_lik = poisson.logpmf(y, level).sum(axis=1)
    ok = log_lik > -INF
    prior, log_lik = prior[ok], log_lik[ok]
    warm = prior * np.exp(beta * log_lik)
    gain = beta * (log_lik[:, None] - log_lik)
    accept = prior @ np.exp(np.minimum(gain, 0.0)) @ warm / warm.sum()
    found = 1 - posterior.exchange_stats["rejection"].values[0]
    assert abs(found - accept) < 5 * math.sqrt(0.25 / 8000)  # a mean of 8,000 numbers in [0, 1]


def test_impossible_prior_draws__all_of_them():
    """No draw of the prior explains the data: that is said, and the cold replica is right all the same."""
    model = ch.FactorialHMM(rows=ch.Switches(1e-3, 0.5), emission=ch.Poisson([2.0], background=0.0))
    y = np.array([2.0, 0.0, 3.0, 2.0, 3.0, 2.0])
    posterior = ch.sample(
        model, y, update="row", ladder=[1, np.inf], draws=20, warmup=5, chains=2, seed=5, progress=False
    )
    assert (posterior.replica_log_likelihood[..., 0] == -INF).all()
    assert posterior.log_evidence == (-INF, INF)
    assert posterior.exchange_stats["rejection"].values.tolist() == [1.0]
    assert (posterior.codes.values[..., y > 0] == 1).all()


def autoregressive(n_chains: int, n: int, memory: float, rng: np.random.Generator) -> np.ndarray:
    """Chains of mean 0 and variance 1 that forget a share 1 / memory of themselves per draw."""
    rho = 1 - 1 / memory
    values = np.empty((n_chains, n))
    values[:, 0] = rng.normal(size=n_chains)
    for t in range(1, n):
        values[:, t] = rho * values[:, t - 1] + math.sqrt(1 - rho**2) * rng.normal(size=n_chains)
    return values


def test_chain_error__is_that_of_batches_where_chains_agree():
    """Of 1,000 repeats ten differ, on average; more than 26 have a probability of 1e-5."""
    rng = np.random.default_rng(1)
    repeats = rng.normal(size=(1000, 4, 200))

    def by_batches(values):
        return max(batch_error(values), batch_error(values, 5))

    assert sum(chain_error(values) != by_batches(values) for values in repeats) <= 26
    assert chain_error(repeats[0, :1]) == by_batches(repeats[0, :1])
    assert math.isnan(chain_error(repeats[0, :, :3]))


def test_chain_error__takes_longer_batches_where_draws_remember():
    """Four chains of 1,000 draws with a memory of 40: the mean errors over 200 repeats are known to about 1%."""
    rng, n, rho = np.random.default_rng(3), 1000, 1 - 1 / 40
    repeats = [autoregressive(4, n, 40.0, rng) for _ in range(200)]
    variance = ((1 + rho) / (1 - rho) - 2 * rho * (1 - rho**n) / (n * (1 - rho) ** 2)) / n
    short, found = np.mean([[batch_error(values), chain_error(values)] for values in repeats], axis=0)
    assert short < 0.75 * math.sqrt(variance / 4)
    assert 0.8 < found / math.sqrt(variance / 4) < 1.1


def test_chain_error__widens_where_chains_remember_longer_than_a_batch():
    """Batches of 50 draws, chains that remember 200: the mean is often many batch errors off, and no longer."""
    rng = np.random.default_rng(2)
    repeats = [autoregressive(4, 1000, 200.0, rng) for _ in range(200)]
    far = [sum(abs(values.mean()) > 4 * error(values) for values in repeats) for error in (batch_error, chain_error)]
    assert far[0] >= 20
    assert far[1] <= far[0] / 2
