"""Proofs for replicas with offsets of their own: exchanges by enumeration, the Gibbs step by its density.

A replica is a path X and a coefficient c on a grid. An exchange leaves c where it is, so it is right if it leaves
pi(X_i | c_i) pi(X_j | c_j) invariant for every pair on the grid.
"""

from itertools import product

import numpy as np
import pytest

import chiasma as ch
from branches import pair_step, prove_pair
from chiasma.models.observations import Observations
from chiasma.sampling.learning import Learning

Y = Observations([0.3, np.nan, 0.9], starts=[2])
DRIFT = np.array([-1.0, 0.2, 1.0])
BETAS = 1.0, 0.2
EXACT, REJECTED = 1e-12, 1e-4


def model(c):
    return ch.FactorialHMM(
        rows=ch.Switches(enter=0.2, leave=0.3, initial=0.4), emission=ch.Gaussian([1.0], sd=0.7), offset=c * DRIFT
    )


def posterior(c, beta):
    """pi_beta(X | c) by enumeration, written without the package's offset."""
    plain = ch.FactorialHMM(rows=ch.Switches(enter=0.2, leave=0.3, initial=0.4), emission=ch.Gaussian([1.0], sd=0.7))
    shifted = Y.with_signal(Y.y - c * DRIFT)
    paths = list(product((0, 1), repeat=3))
    logs = np.array([ch.log_joint(plain, shifted, np.array(path), beta) for path in paths])
    masses = np.exp(logs - logs.max())
    return dict(zip(paths, masses / masses.sum(), strict=True))


MOVES = {
    "swap": ch.Swap(),
    "random": ch.RandomCrossover(),
    "augmented": ch.AugmentedCrossover(),
    "mosaic": ch.MosaicCrossover(),
}


@pytest.mark.symbolic
@pytest.mark.parametrize("exchange", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("pair", [(-0.5, 0.8), (0.8, 0.0)])
def test_exchanges_with_offsets_of_their_own(exchange, pair):
    step = exchange.prepare(*(model(c).exact_target(Y) for c in pair), *BETAS)
    proof = prove_pair(pair_step(step), posterior(pair[0], 1.0), posterior(pair[1], 0.2), step.n_uniforms)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT


@pytest.mark.symbolic
@pytest.mark.parametrize("exchange", MOVES.values(), ids=MOVES)
def test_an_offset_that_is_not_subtracted_is_rejected(exchange):
    """A mutant: the second replica is scored on the signal with its offset."""
    step = exchange.prepare(model(-0.5).exact_target(Y), model(0.0).exact_target(Y), *BETAS)
    proof = prove_pair(pair_step(step), posterior(-0.5, 1.0), posterior(0.8, 0.2), step.n_uniforms)
    assert proof.error > REJECTED


EMISSIONS = {
    "gaussian": ch.Gaussian([1.0, 0.6], sd=0.4),
    "integrated": ch.IntegratedDepth([1.0, 0.6], depth_mean=1.0, depth_sd=0.3, sd=0.4),
}


class Recorded(np.random.Generator):
    """A generator whose normal numbers are given."""

    def __init__(self, normals):
        super().__init__(np.random.PCG64(0))
        self.normals = normals

    def standard_normal(self, size=None):
        return self.normals


@pytest.mark.parametrize("name", EMISSIONS)
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("forgotten", [False, True], ids=["right", "precisions forgotten"])
def test_the_gibbs_step_draws_from_the_conditional_density(name, beta, forgotten, monkeypatch):
    """log p(c | X, y) from the joint density and from the draws differ by a constant; not if W is forgotten."""
    rng = np.random.default_rng(1)
    n = 30
    y = Observations(np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)), starts=[12])
    emission = EMISSIONS[name]
    terms = [ch.Smooth(knots=8, scale=2.0), ch.Periodic(0.1, knots=1, scale=1.0), ch.Covariates(rng.normal(size=n))]
    learning = Learning(ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=emission, offset=terms), y)
    bound, parameters = learning.parameters.offset, learning.parameters
    codes = rng.integers(0, 4, n)
    start = parameters.pack({"smooth.smoothness": 3.0, "periodic_0.1.smoothness": [2.0]}, parameters.centre)
    if forgotten:
        # In a signal of constant precision forgetting it is an error of scale.
        precisions = type(emission).draw_precisions
        monkeypatch.setattr(
            type(emission), "draw_precisions", lambda *given: np.where(precisions(*given) > 0, 1.0, 0.0)
        )
    monkeypatch.setattr(learning, "draw_smoothness", lambda named, rng: {})
    noises = rng.normal(size=(6, bound.n_coefficients))
    errors = []
    for noise in noises:
        drawn = learning.update_offset(start, codes, beta, Recorded(noise))
        target = learning.target(drawn)
        joint = parameters.log_prior(drawn) + beta * target.log_parts(codes)[1]
        errors.append(joint + 0.5 * noise @ noise)  # the density of a draw is that of its noise, times a constant
    spread = np.ptp(errors)
    assert spread > 1e-2 if forgotten else spread < 1e-7


def test_smoothness_is_drawn_from_its_conditional():
    """Chain of smoothnesses given coefficients against its density on a grid; 6-sigma, one false alarm in 10^8."""
    data = Observations(np.zeros(20))
    model = ch.FactorialHMM(
        rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian([1.0]), offset=[ch.Smooth(knots=6, scale=0.5)]
    )
    learning = Learning(model, data)
    bound = learning.parameters.offset
    rng = np.random.default_rng(2)
    values = {"smooth": 0.3 * rng.normal(size=6), "smooth.smoothness": np.array(2.0)}
    prior = bound.priors["smooth.smoothness"]
    logs = np.linspace(-25, 15, 8001)
    at = np.exp(logs)
    heights = np.array(
        [bound.log_density(values | {"smooth.smoothness": np.array(a)}) + prior.log_density(a) for a in at]
    )
    weights = np.exp(heights + logs - (heights + logs).max())
    weights /= weights.sum()
    mean, sd = weights @ logs, np.sqrt(weights @ logs**2 - (weights @ logs) ** 2)
    drawn = []
    for _ in range(4000):
        values |= learning.draw_smoothness(values, rng)
        drawn.append(float(np.log(values["smooth.smoothness"])))
    assert abs(np.mean(drawn) - mean) < 6 * sd / np.sqrt(1000)  # a quarter of the draws are independent


STEPS = {"collapsed": "collapsed", "exact": "exact", "given paths": "row"}


@pytest.mark.parametrize("update", STEPS.values(), ids=STEPS)
def test_every_way_of_sampling_finds_the_offset(update):
    plain = ch.FactorialHMM(rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([1.0], sd=0.2))
    states, y = plain.simulate(150, seed=3)
    curve = np.linspace(0, 0.6, 150)
    model = ch.FactorialHMM(
        rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)), offset=[ch.Smooth(knots=4)]
    )
    options = {"ladder": [1, 3]} if update == "row" else {"ladder": [1]}
    posterior = ch.sample(
        model, y + curve, update=update, draws=60, warmup=60, chains=1, seed=2, workers=1, progress=False, **options
    )
    assert ((posterior.marginals().values > 0.5) == states).mean() > 0.97
    bands = posterior.offset()
    assert float(np.abs(bands["mean"] - curve).mean()) < 0.1
    assert bool((bands["low"] <= bands["high"]).all())
    assert "smooth.smoothness" in [one.name for one in posterior.summary().parameters]
    assert not any(one.name.startswith("smooth[") for one in posterior.summary().parameters)


def test_runs_are_stored_and_resumed(tmp_path):
    rng = np.random.default_rng(4)
    data = Observations(rng.normal(size=40) + np.linspace(0, 2, 40), step=0.5, unit="ms")
    model = ch.FactorialHMM(
        rows=[ch.Row([0, 1], ch.Switch(0.1, 0.1))],
        emission=ch.Gaussian(sd=0.5),
        offset=[ch.Smooth(knots=4), ch.Periodic(0.2, knots=2), ch.Covariates(rng.normal(size=40), names=["gc"])],
    )
    options = {"update": "collapsed", "warmup": 5, "chains": 1, "seed": 1, "progress": False}
    whole = ch.sample(model, data, draws=12, **options)
    path = tmp_path / "run.zarr"
    ch.sample(model, data, draws=6, store=path, **options)
    opened = ch.open_posterior(path)
    assert opened.data.step == 0.5
    assert opened.data.unit == "ms"
    np.testing.assert_array_equal(opened.offset()["mean"], opened.offset()["mean"])
    resumed = ch.sample(model, data, draws=12, store=path, resume=True, **options)
    for name, drawn in whole.parameters.items():
        np.testing.assert_array_equal(drawn, resumed.parameters[name])
    np.testing.assert_array_equal(whole.codes, resumed.codes)
    np.testing.assert_allclose(resumed.offset("covariates")["mean"], whole.offset("covariates")["mean"])
