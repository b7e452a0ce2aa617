"""A baseline as one more row: its evidence against constant baselines, its doubts, and the drift that it finds."""

import numpy as np
import pytest
import scipy

import chiasma as ch
from chiasma.exact.walks import baseline_doubt, evidence_at, places, with_walk
from chiasma.sampling.learning import Learning
from chiasma.sampling.offset_search import walked

MODELS = {
    "switches": ch.FactorialHMM(
        rows=ch.Switches([0.1, 0.2], 0.3, 0.4), emission=ch.Gaussian([1.0, 0.6], depth=2.0, sd=0.4), fixed={1: 1}
    ),
    "rows": ch.FactorialHMM(
        rows=[
            ch.Row([0, 1.0], ch.Switch(0.1, 0.2), "a", copies=2, spread=[0, 0.5]),
            ch.Row([0, 0.4], fixed=1, name="base"),
        ],
        emission=ch.StudentT(depth=2.0, sd=0.4, df=4.0),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_walk__that_rests_is_a_mixture_of_constant_baselines(name):
    model = MODELS[name]
    y = model.simulate(40, seed=1)[1]
    y[7] = np.nan
    data = ch.Observations(y, starts=[15])
    at = np.linspace(-1.0, 1.0, 7)
    found = evidence_at(with_walk(model, at, 1e-13), data, 0.0)
    pieces = [data.only(slice(0, 15)), data.only(slice(15, 40))]
    each = [scipy.special.logsumexp([evidence_at(model, one, b) for b in at]) - np.log(len(at)) for one in pieces]
    assert found == pytest.approx(sum(each), abs=1e-8)


def drifting(n_columns, size, periods, seed):
    """Two equal channels under a sine, their model, and the sine."""
    channel = ch.Row([0, 1.0], ch.Switch(0.1, 0.15), "channel", copies=2)
    model = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.3))
    curve = size * np.sin(2 * np.pi * periods * np.arange(n_columns) / n_columns)
    return model, model.simulate(n_columns, seed=seed)[1] + curve, curve


def test_walk__follows_a_drift_that_stretches_cannot():
    """In a tenth of the signal the drift moves by more than a step."""
    model, y, curve = drifting(600, 3.0, 2.0, 2)
    learned = ch.FactorialHMM(rows=model.rows.given, emission=model.emission, offset=[ch.Smooth(knots=30)])
    learning = Learning(learned, ch.Observations(y))
    centre = learning.parameters.to_free(learning.parameters.centre)
    _, curves = walked(learning, centre)
    assert min(np.abs(found - curve).mean() for found in curves) < 0.25


def test_doubt__of_one_drift_and_of_another():
    """Channels that switch often under a slow drift say where it is; under a fast one they do not."""
    model, y, curve = drifting(1000, 1.0, 1.0, 3)
    assert baseline_doubt(model, ch.Observations(y), curve) < 0.01
    assert baseline_doubt(model, ch.Observations(y), curve + np.linspace(0, 1, 1000)) > 0.3
    model, y, curve = drifting(400, 3.0, 6.0, 3)
    assert baseline_doubt(model, ch.Observations(y), curve) > 0.1


def test_doubt__of_a_long_signal_is_that_of_some_stretches(monkeypatch):
    model, y, curve = drifting(1000, 1.0, 1.0, 3)
    monkeypatch.setattr("chiasma.exact.walks.OPERATIONS", 4e6)
    data = ch.Observations(y, starts=[130, 700], gaps=np.ones(999))
    assert (own := baseline_doubt(model, data, curve)) < 0.05
    wrong = curve + (np.arange(1000) < 100)  # only the first stretch has it
    assert own + 0.05 < baseline_doubt(model, data, wrong) < own + 0.25


def test_doubt__is_unknown_where_noise_depends_on_the_level_or_grids_are_large():
    emission = ch.IntegratedDepth([1.0], depth_mean=2.0, depth_sd=0.3, sd=0.4)
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    assert baseline_doubt(model, ch.Observations(np.zeros(9)), np.zeros(9)) is None
    precise = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=1e-3))
    data = ch.Observations(np.linspace(0, 1, 9))
    assert places(precise, data) is None
    assert baseline_doubt(precise, data, np.zeros(9)) is None


def test_finding__says_that_another_drift_explains_the_signal():
    model, y, curve = drifting(400, 3.0, 6.0, 3)
    unbound = ch.FactorialHMM(
        rows=model.rows.given,
        emission=model.emission,
        offset=[ch.Smooth(knots=60), ch.Covariates(np.cos(np.arange(400)))],
    )
    bound = unbound.for_data(ch.Observations(y))
    design = np.array([bound.offset.bound.curve(unit) for unit in np.eye(bound.offset.bound.n_coefficients)]).T
    best = np.linalg.lstsq(design, curve, rcond=None)[0]
    placed = bound.with_unchecked_values(bound.offset.bound.named(best))
    found = {one.code: one for one in ch.check(placed, y)}["offset-unsure"]
    assert found.severity == "none"
    assert found.facts["displaced"] > 0.1
