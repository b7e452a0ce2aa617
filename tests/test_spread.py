"""Spread: states that add noise. Evidence and gradients against formulas of their own, learning, stores, refusals."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import chiasma as ch
from chiasma.io.settings import read_rows, write_rows
from chiasma.results.provenance import describe_model, rebuild_model
from chiasma.sampling.learning import Learning

NAN = np.nan
Y = [0.3, NAN, 2.7]
SPREADS = {"a": [0.0, 0.5, 2.0], "b": [0.1, 0.0]}


def rows(copies=1, spread=True):
    own = SPREADS if spread else {"a": None, "b": None}
    return [
        ch.Row([0, 1.0, 3.0], ch.Sticky(0.3), "a", spread=own["a"]),
        ch.Row([0, 0.6], ch.Switch(0.1, 0.3), "b", copies=copies, spread=own["b"]),
    ]


EMISSIONS = {
    "gaussian": (ch.Gaussian(depth=1.1, sd=0.4), lambda m, v: stats.norm(1.1 * m, np.sqrt(0.4**2 + v))),
    "student-t": (ch.StudentT(depth=1.1, sd=0.4, df=3.0), lambda m, v: stats.t(3.0, 1.1 * m, np.sqrt(0.4**2 + v))),
    "integrated": (
        ch.IntegratedDepth(depth_mean=1.1, depth_sd=0.2, sd=0.4),
        lambda m, v: stats.norm(1.1 * m, np.sqrt(0.4**2 + 0.04 * m**2 + v)),
    ),
}


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", EMISSIONS)
def test_evidence_by_enumeration(name, copies):
    """Densities from scipy; equal rows, which are counted, one by one."""
    emission, density = EMISSIONS[name]
    model = ch.FactorialHMM(rows=rows(copies), emission=emission)
    plain = ch.FactorialHMM(rows=rows(copies, spread=False), emission=emission)
    values, spreads = [[0, 1.0, 3.0], *[[0, 0.6]] * copies], [SPREADS["a"], *[SPREADS["b"]] * copies]
    columns, logs, data = list(product(*(range(len(own)) for own in values))), [], ch.Observations(Y[1:])
    for path in product(columns, repeat=len(data.y)):
        log_prior = ch.log_joint(plain, data, np.array(path).T, beta=0.0)
        for y, states in zip(data.y, path, strict=True):
            level = sum(own[x] for own, x in zip(values, states, strict=True))
            variance = sum(own[x] ** 2 for own, x in zip(spreads, states, strict=True))
            log_prior += 0.0 if np.isnan(y) else density(level, variance).logpdf(y)
        logs.append(log_prior)
    assert ch.exact.log_evidence(model, data) == pytest.approx(np.logaddexp.reduce(logs), abs=1e-10)


LEARNED = {
    "gaussian": ch.Gaussian(depth=ch.Gamma(4, 4), sd=ch.HalfNormal(1)),
    "student-t": ch.StudentT(depth=ch.Gamma(4, 4), sd=ch.HalfNormal(1), df=4.0),
    "integrated": ch.IntegratedDepth(depth_mean=ch.Gamma(4, 4), depth_sd=0.2, sd=ch.HalfNormal(1)),
}


def learned(name, offset=None):
    spread = [0.0, ch.HalfNormal(1.0), ch.HalfNormal(2.0)]
    own = [
        ch.Row([0, 1.0, 3.0], ch.Sticky(ch.Beta(1, 5)), "a", weight=ch.Gamma(2, 1), spread=spread),
        ch.Row([0, 0.6], ch.Switch(0.1, 0.3), "b", copies=2, spread=ch.HalfNormal([1.0, 1.0])),
    ]
    return ch.FactorialHMM(rows=own, emission=LEARNED[name], offset=offset)


@pytest.mark.parametrize("name", LEARNED)
def test_gradients(name):
    rng = np.random.default_rng(1)
    model = learned(name, [ch.Smooth(knots=4, scale=1.0)])
    data = ch.Observations(np.where(np.arange(30) == 4, NAN, rng.normal(1, 1.5, 30)), starts=[9])
    model = model.for_data(data)
    centre = model.parameters.unpack(model.parameters.centre)
    values = {own: np.array(value) for own, value in centre.items()} | {
        "smooth": 0.2 * rng.normal(size=8),
        "smooth.smoothness": np.array(1.0),
    }
    _, gradient = ch.exact.value_and_gradient(model, data, values)
    for own in ("a.spread", "b.spread", "a.weight", "sd", "smooth"):
        for i in range(own == "a.spread", values[own].size):  # the first of these is a number
            ends = []
            for step in (1e-6, -1e-6):
                moved = values[own].copy()
                moved.flat[i] += step
                ends.append(ch.exact.value_and_gradient(model, data, values | {own: moved})[0])
            expected = (ends[0] - ends[1]) / 2e-6
            assert gradient[own].flat[i] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", LEARNED)
def test_given_paths_and_targets_agree(name):
    """The levels of `given_paths` and the sums over groups of columns against the log-likelihood of the target."""
    rng = np.random.default_rng(2)
    data = ch.Observations(rng.normal(1, 1.5, 40))
    learning = Learning(learned(name), data)
    values = learning.sample_prior(rng)
    target = learning.target(values)
    codes = target.expand(target.sample_prior(rng), rng)
    given = learning.given_paths
    present, group = np.unique(codes, return_inverse=True)
    emission = learning.model.emission.with_unchecked_values(learning.parameters.unpack(values))
    found = emission.summed(emission.summarise(data.y, group, len(present)), given.levels_of(present)(values))
    assert found == pytest.approx(target.log_parts(codes)[1], abs=1e-9)


def test_spread_is_learned_and_checked():
    truth = {"heater.spread": [0.0, 40.0], "heater.values": [0.0, 500.0], "sd": 5.0}
    row = ch.Row([0, ch.Normal(400, 200)], ch.Switch(0.03, 0.05), "heater", spread=[0, ch.HalfNormal(100)])
    model = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=ch.HalfNormal(50)))
    states, y = model.at(truth).simulate(600, seed=1)
    best = ch.optimise(model, y, starts=2, seed=1, progress=False).best
    assert best.values["heater.spread"][1] == pytest.approx(40, abs=5)
    assert best.values["sd"] == pytest.approx(5, abs=0.7)
    assert best.check(y) == ()
    one_sd = ch.FactorialHMM(rows=[ch.Row([0, 500.0], ch.Switch(0.03, 0.05))], emission=ch.Gaussian(sd=27.0))
    assert "noise-by-level" in [found.code for found in ch.check(one_sd, y)]
    posterior = ch.sample(model, y, draws=9, warmup=9, chains=1, seed=1, update="row", progress=False)
    assert posterior.levels().dims == ("chain", "draw", "site")
    assert np.corrcoef(posterior.levels().mean(("chain", "draw")), states[0])[0, 1] > 0.99


def test_simulated_noise_is_that_of_the_states():
    """Standard deviations of 20,000 values by state, within six standard errors: one false alarm in 10^8."""
    model = ch.FactorialHMM(rows=rows(), emission=ch.Gaussian(sd=0.4))
    states, y = model.simulate(20_000, seed=1)
    for a, b in product(range(3), range(2)):
        own = (states[0] == a) & (states[1] == b)
        z = (y - np.take([0, 1.0, 3.0], a) - 0.6 * b)[own] / np.sqrt(0.16 + SPREADS["a"][a] ** 2 + SPREADS["b"][b] ** 2)
        assert abs(z.std() - 1) < 6 / np.sqrt(2 * own.sum())


def test_described_and_written():
    model = learned("gaussian")
    assert describe_model(rebuild_model(describe_model(model))) == describe_model(model)
    assert repr(read_rows(write_rows(model.rows.given))) == repr(list(model.rows.given))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: ch.Row([0, 1.0], ch.Switch(0.1, 0.1), spread=[1.0]), "2 standard deviations"),
        (lambda: ch.Row([0, 1.0], ch.Switch(0.1, 0.1), spread=[0.0, -1.0]), "2 standard deviations"),
        (lambda: ch.Row([0, 1.0], ch.Switch(0.1, 0.1), spread=[0.0, ch.Normal(0, 1)]), "spread"),
        (lambda: ch.Row([[0, 0], [1, 1]], ch.Switch(0.1, 0.1), spread=[0.0, 1.0]), "several channels"),
        (lambda: ch.FactorialHMM(rows=rows(), emission=ch.Poisson()), "Gaussian, StudentT or IntegratedDepth"),
        (lambda: ch.FactorialHMM(rows=rows(), emission=ch.Custom(lambda y, level: y * level)), "Gaussian, StudentT"),
    ],
)
def test_refusals(made, words):
    with pytest.raises(ch.InvalidInput, match=words):
        made()
