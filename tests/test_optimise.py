"""optimise(): distinct maxima, ranked; starts from the signal; a density for other packages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import chiasma as ch
from chiasma.models.observations import Observations
from chiasma.results.findings import Set
from chiasma.results.optima import SHOWN, Optima
from chiasma.sampling import optimise, progress
from chiasma.sampling.laplace import peak_at
from chiasma.sampling.learning import Learning
from chiasma.sampling.starts import SignalTraits, look_at, start_from_data
from joint import model_of
from test_gradient_engine import rivals


def two_weights(**changes) -> tuple[ch.FactorialHMM, np.ndarray]:
    parts = {"weights": ch.Gamma([2, 2], 1), "depth": 3.0, "sd": ch.HalfNormal(1)} | changes
    model = ch.FactorialHMM(rows=ch.Switches(ch.Beta(1, 20), 0.1), emission=ch.Gaussian(**parts))
    truth = {"weights": [1.0, 2.5], "sd": 0.4, "enter": 0.1} | ({} if "depth" not in changes else {"depth": 3.0})
    return model, model.at(truth).simulate(120, seed=2)[1]


# ---- Optima ---------------------------------------------------------------------------------------------------------


def test_optima__are_maxima_in_canonical_order_and_the_same_for_any_workers():
    model, y = two_weights()
    found = ch.optimise(model, y, starts=6, seed=3, workers=2, progress=False)
    again = ch.optimise(model, y, starts=6, seed=3, workers=1, progress=False)
    assert found.to_dict() == again.to_dict()
    best = found.best
    np.testing.assert_allclose(best.values["weights"], [1.0, 2.5], atol=0.15)  # ascending, whatever the starts
    assert sum(one.starts for one in found) <= 6
    assert [one.log_evidence for one in found] == sorted((one.log_evidence for one in found), reverse=True)
    assert sum(one.share for one in found) == pytest.approx(1.0)
    function = ch.exact.log_density(model, y)
    value, slope = function.value_and_gradient(best.free)
    assert best.log_density == pytest.approx(value, rel=1e-9)
    sd = np.sqrt(np.diag(best.covariance))
    assert np.abs(slope * sd).max() < 0.02  # flat in units of the posterior
    assert best.log_likelihood == pytest.approx(ch.exact.log_evidence(best.model, y), rel=1e-10)
    for i in range(len(best.free)):
        away = 0.5 * sd[i] * np.eye(len(best.free))[i]
        assert max(function(best.free + away), function(best.free - away)) < value
    assert "weights" in str(found)
    assert "Optima, by evidence (Laplace)" in str(found)


def test_optima__evidence_is_exact_for_a_normal_posterior():
    """Depth alone, with a normal prior and one state that fits: the posterior is normal, Laplace's formula exact."""
    model = ch.FactorialHMM(
        rows=ch.Switches(0.5, 0.5), emission=ch.Gaussian([1.0], depth=ch.Normal(50, 1), sd=0.5), fixed={}
    )
    y = np.array([50.2, 49.9, 50.4])
    found = ch.optimise(model, y, starts=2, seed=1, progress=False).best
    grid = np.linspace(45, 55, 4001)
    log = [ch.exact.log_evidence(model.at({"depth": x}), y) - 0.5 * (x - 50) ** 2 for x in grid]
    expected = np.log(np.sum(np.exp(log)) * (grid[1] - grid[0]) / np.sqrt(2 * np.pi))
    assert found.log_evidence == pytest.approx(expected, abs=1e-4)
    assert found.covariance[0, 0] == pytest.approx(1 / (1 + 3 / 0.25), rel=1e-4)
    assert found.strict


def test_optima__of_rival_explanations():
    model, y = rivals()
    found = ch.optimise(model, y, starts=8, seed=1, progress=False)
    depths = [float(one.values["depth"]) for one in found]
    assert min(depths) < 8 < max(depths)
    assert len(found) == len({round(depth, 1) for depth in depths})  # none is listed twice


def test_optimise__refuses():
    model, y = two_weights()
    with pytest.raises(ch.InvalidInput, match=r"starts must be a whole number in 1\.\."):
        ch.optimise(model, y, starts=0)
    plain = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]))
    with pytest.raises(ch.InvalidInput, match="optimise needs a model with priors, got none"):
        ch.optimise(plain, [1.0])

    class Own(ch.Gamma):
        pass

    model, _ = two_weights(weights=Own([2, 2], 1))
    with pytest.raises(ch.InvalidInput, match=r"the prior of weights, .* has no gradient"):
        ch.optimise(model, y)
    counts = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1, initial=0.0), emission=ch.Poisson(ch.Gamma([2], 1)), fixed={})
    with pytest.raises(ch.InvalidInput, match="zero or not finite at all 2 starts, 50 draws from the priors each"):
        ch.optimise(counts, [3.0], starts=2, progress=False)
    with pytest.raises(ch.InvalidInput, match="zero or not finite at all 3 starts"):
        ch.sample(counts, [3.0], update=ch.Collapsed(starts=3), progress=False)


def test_curvature__is_that_of_differences():
    model = model_of("integrated")
    learning = Learning(model, Observations(model.simulate(40, seed=2)[1]))
    x = learning.parameters.to_free(learning.sample_prior(np.random.default_rng(3)))
    top = optimise.climb(learning, x, 200)
    scale = learning.parameters.scale
    peak = peak_at(learning, top.free, scale, top.widths)
    assert peak.log_density >= top.log_density
    step = 1e-3
    units = np.eye(len(x)) * step
    _, precision = peak.at(1.0, scale)
    for i, u in enumerate(units):
        second = learning.log_density(top.free + u, 1.0) - 2 * learning.log_density(top.free, 1.0)
        second += learning.log_density(top.free - u, 1.0)
        assert precision[i, i] == pytest.approx(-second / step**2, rel=0.05, abs=0.05)
    # At beta = 0 only the prior is left, whose top is one Newton step away.
    _, loose = peak.at(0.0, scale)
    np.testing.assert_allclose(np.diag(loose), np.maximum(np.diag(peak.prior), 0.01), rtol=0.5)


# ---- Starts ---------------------------------------------------------------------------------------------------------


def test_signal__tells_its_noise_its_range_and_its_jumps():
    rng = np.random.default_rng(1)
    y = np.repeat([0.0, 5.0, 0.0, 5.0, 10.0], 40) + rng.normal(0, 0.5, 200)
    y[[10, 11, 90]] = np.nan
    found = look_at(Observations(y, starts=[100]))
    assert found.noise == pytest.approx(0.5, rel=0.2)
    assert found.low == pytest.approx(0.0, abs=1.0)
    assert found.high == pytest.approx(10.0, abs=1.0)
    assert round(200 * found.switching) in (4, 5, 6)
    flat = look_at(Observations(np.full(5, np.nan)))
    assert flat.noise > 0
    assert look_at(Observations([2.0])).noise > 0


def test_starts__are_possible_and_near_the_signal():
    model, y = two_weights(depth=ch.Normal(3, 5))
    signal = look_at(Observations(y))
    rng = np.random.default_rng(2)
    for _ in range(20):
        drawn = model.parameters.sample(rng)
        moved = start_from_data(model, signal, drawn, rng)
        assert np.isfinite(model.parameters.log_prior(moved))
        named = model.parameters.unpack(moved)
        assert 0.2 < named["sd"] < 1.2
        level = named["depth"] * named["weights"].sum()
        assert 3 < level < 40


def test_starts__keep_what_the_signal_may_not_replace():
    """A suggestion that the prior excludes, and parameters of which a table's signal says nothing."""
    table = ch.Table(np.log([[0.9, 0.1], [0.2, 0.8]]))
    model = ch.FactorialHMM(rows=ch.Switches(ch.Beta(1, 9), 0.2, ch.Beta(1, 1)), emission=table)
    drawn = np.array([0.07, 0.6])
    rng = np.random.default_rng(5)
    jumping = SignalTraits(noise=1.0, low=0.0, high=1.0, switching=1e3)
    np.testing.assert_array_equal(start_from_data(model, jumping, drawn, rng), drawn)
    moved = start_from_data(model, jumping._replace(switching=0.02), drawn, rng)
    assert moved[0] != 0.07
    assert moved[1] == 0.6


def test_optima__are_a_sequence_and_say_how_many_are_not_shown():
    model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(2)))
    found = ch.optimise(model, [0.1, 1.4, 0.8, -0.3, 1.1], starts=2, seed=1, progress=False)
    assert list(found) == [found[i] for i in range(len(found))]
    assert found[0] is found.best
    assert "more" not in str(found)
    assert "and 3 more" in str(Optima((found.best,) * (SHOWN + 3), 2))


def test_optima__no_two_starts_agree_on_the_best(capsys):
    model, y = two_weights()
    alone = ch.optimise(model, y, starts=1, seed=3)
    (finding,) = alone.findings
    assert (finding.code, finding.facts, finding.remedies) == ("one-start", {"starts": 1}, (Set("starts", 4),))
    assert str(finding) in " ".join(str(alone).split())
    assert str(finding) in " ".join(capsys.readouterr().err.split())
    several = ch.optimise(model, y, starts=6, seed=3)
    assert several.best.starts > 1
    assert several.findings == ()
    assert "starts reached" not in capsys.readouterr().err


# ---- Progress -------------------------------------------------------------------------------------------------------


def test_progress__in_a_file_is_lines(capfd, monkeypatch):
    """No terminal: lines from time to time; nothing at all for a short run."""
    model, y = two_weights()
    ch.optimise(model, y, starts=2, seed=1)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "LONGEST_WAIT", 0.0)
    ch.optimise(model, y, starts=2, seed=1)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == "chiasma: optimise: 2 starts"
    assert lines[1].startswith("chiasma: first climbs 1 of 2 (50%), ")
    assert any(line.startswith("chiasma: curvatures ") for line in lines)


# ---- For other packages ---------------------------------------------------------------------------------------------


def test_log_density__for_scipy():
    model, y = two_weights()
    function = ch.exact.log_density(model, y)

    def cost(x):
        value, slope = function.value_and_gradient(x)
        return -value, -slope

    found = minimize(cost, function.start({"weights": [0.8, 2.0]}), jac=True, method="BFGS")
    best = ch.optimise(model, y, starts=4, seed=1, progress=False).best
    assert -found.fun == pytest.approx(best.log_density, abs=0.01)
    np.testing.assert_allclose(function.values(found.x)["weights"], best.values["weights"], rtol=0.01)
    assert function(found.x) == pytest.approx(-found.fun)
    assert ch.exact.log_density(model, y, beta=0.5)(found.x) != pytest.approx(-found.fun)


def test_log_density__refuses_and_is_minus_infinity_where_nothing_is_possible():
    model, y = two_weights()
    function = ch.exact.log_density(model, y)
    with pytest.raises(ch.InvalidInput, match=r"x must have shape \(4,\), one number per free coordinate, got \(2,\)"):
        function([1.0, 2.0])
    with pytest.raises(ch.InvalidInput, match="needs priors, got none"):
        ch.exact.log_density(model.at({"weights": [1, 2], "sd": 1.0, "enter": 0.1}), y)
    value, slope = function.value_and_gradient(np.array([0.0, 0.0, 0.0, 1e6]))
    assert value == -np.inf
    np.testing.assert_array_equal(slope, 0.0)
    gaps = Observations([1.0, 2.0], gaps=[2.5])
    rates = ch.FactorialHMM(rows=ch.Switches(ch.Beta(1, 1), 0.9), emission=ch.Gaussian([1.0]))
    assert ch.exact.log_density(rates, gaps)([2.0]) == -np.inf  # gaps need enter + leave <= 1


def test_log_density__for_jax_and_blackjax():
    jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'chiasma-fhmm[jax]'")
    blackjax = pytest.importorskip("blackjax", reason="blackjax is not installed: pip install 'chiasma-fhmm[jax]'")
    jax.config.update("jax_enable_x64", True)
    model, y = two_weights()
    density = ch.exact.log_density(model, y)
    function = density.as_jax()
    x = density.start({"weights": [1.0, 2.5], "sd": 0.4, "enter": 0.1})
    value, slope = density.value_and_gradient(x)
    assert float(function(x)) == pytest.approx(value)
    np.testing.assert_allclose(jax.grad(function)(x), slope)
    sampler = blackjax.hmc(function, step_size=0.005, inverse_mass_matrix=np.ones(len(x)), num_integration_steps=5)
    state = sampler.init(jax.numpy.asarray(x))
    key = jax.random.PRNGKey(1)
    for one in jax.random.split(key, 5):
        state, _ = sampler.step(one, state)
    assert np.isfinite(state.logdensity)
    assert not np.array_equal(state.position, x)


def test_log_density__for_pymc():
    pymc = pytest.importorskip("pymc", reason="pymc is not installed: pip install 'chiasma-fhmm[pymc]'")
    model, y = two_weights()
    density = ch.exact.log_density(model, y)
    operation = density.as_pytensor()
    with pymc.Model() as outer:
        x = pymc.Flat("x", shape=density.size, initval=density.start())
        pymc.Potential("density", operation(x))
    at = {"x": density.start()}
    value, slope = density.value_and_gradient(at["x"])
    assert float(outer.compile_logp()(at)) == pytest.approx(value)
    np.testing.assert_allclose(outer.compile_dlogp()(at), slope)
