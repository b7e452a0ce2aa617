"""Learned parameters of rows with any number of states: names, sharing, groups, posteriors, files, runs on disk."""

from __future__ import annotations

import tomllib

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.io.settings import Settings, read_rows, settings_of, write_rows
from chiasma.models.labels import CanonicalOrder, exchangeable_blocks
from chiasma.results.ladder_stats import batch_error
from chiasma.results.provenance import describe_model, rebuild_model

needs_jit = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="long runs of compiled kernels")
STEP = ch.Gamma(4, 2).shared("step")


def household() -> ch.FactorialHMM:
    """Two equal lamps, a washer of three states whose last row is learned, and a baseline."""
    return ch.FactorialHMM(
        rows=[
            ch.Row([0, 1], ch.Switch(ch.Beta(2, 8), 0.2), "lamp", copies=2, weight=STEP),
            ch.Row(ch.Normal([0, 5, 9], 0.5), ch.Sticky(ch.Beta(2, 9), ch.Dirichlet([2, 1, 1])), "washer"),
            ch.Row([0, 1], fixed=1, name="standby", weight=ch.Normal(1, 0.5)),
            ch.Row([0, 3], ch.Switch(0.1, 0.3), "fan", weight=STEP),
        ],
        emission=ch.Gaussian(sd=ch.HalfNormal(1)),
    )


def test_names__say_whose_they_are():
    model = household()
    assert model.parameters.names == [
        "step",
        "lamp.enter",
        "washer.values",
        "washer.renew",
        "washer.probabilities",
        "standby.weight",
        "sd",
    ]
    placed = model.at({"step": 2.0, "washer.values": [0, 4, 8]})
    assert placed.parameters.names == ["lamp.enter", "washer.renew", "washer.probabilities", "standby.weight", "sd"]
    assert [float(row.weight) for row in placed.rows.given] == [2.0, 1.0, 1.0, 2.0]
    assert placed.rows.given[1].values.tolist() == [0, 4, 8]
    with pytest.raises(ch.InvalidInput, match=r"lamp\.leave has no prior here"):
        model.at({"lamp.leave": 0.1})


def test_groups__stay_groups_whatever_the_values_are():
    """Copies share their parameters; rows with parameters of their own are not equal, even at equal typical values."""
    model = household()
    assert [axis.rows for axis in typical(model).axes] == [(0, 1), (2,), (4,)]
    own = [ch.Row([0, 1], ch.Switch(0.1, 0.1), weight=ch.Gamma(2, 1)) for _ in range(2)]
    assert typical(ch.FactorialHMM(rows=own, emission=ch.Gaussian())).n_states == 4
    shared = [ch.Row([0, 1], ch.Switch(0.1, 0.1), weight=STEP) for _ in range(3)]
    assert typical(ch.FactorialHMM(rows=shared, emission=ch.Gaussian())).n_states == 4  # counts 0..3
    beside = [*shared, ch.Row([0, 2], ch.Switch(0.1, 0.1))]  # the typical step is 2 as well
    assert typical(ch.FactorialHMM(rows=beside, emission=ch.Gaussian())).n_states == 8


def typical(model):
    at = model.parameters.unpack(model.parameters.centre)
    return model.with_unchecked_values(at).target(np.zeros(5))


@pytest.mark.slow
@needs_jit
def test_posterior__of_a_shared_step_is_that_of_a_grid():
    """A group and a row of three states with one step: mean and spread within 4 standard errors of the exact ones."""
    rows = [
        ch.Row([0, 1], ch.Switch(0.2, 0.3), copies=2, weight=STEP),
        ch.Row([0, 1, 3], ch.Sticky(0.2), weight=STEP),
    ]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=1.0))
    _, y = model.at({"step": 1.0}).simulate(12, seed=4)
    grid = np.linspace(0.02, 8, 400)
    log = np.array([ch.exact.log_evidence(model.at({"step": x}), y) + STEP.log_density(np.array(x)) for x in grid])
    weights = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    posterior = ch.sample(
        model, y, update=ch.Collapsed(starts=4), draws=400, warmup=64, chains=1, seed=1, progress=False
    )
    drawn = posterior.parameters["step"].values
    for power in (1, 2):
        error = batch_error(drawn**power)
        assert abs((drawn**power).mean() - weights @ grid**power) < 4 * error
    smoothed = np.array([ch.exact.marginals(model.at({"step": x}), y) for x in grid[::8]])
    expected = np.einsum("gkt,g->kt", smoothed, weights[::8] / weights[::8].sum())
    np.testing.assert_allclose(posterior.marginals().values, expected, atol=0.12)  # paths go with their parameters


def test_run__keeps_parameters_of_rows(tmp_path):
    model = household()
    y = model.simulate(25, seed=5)[1]
    options = {"update": ch.Collapsed(starts=2), "warmup": 6, "chains": 2, "seed": 3, "progress": False}
    whole = ch.sample(model, y, draws=4, **options)
    ch.sample(model, y, draws=2, store=tmp_path / "run.zarr", **options)
    again = ch.sample(model, y, draws=4, store=tmp_path / "run.zarr", resume=True, **options)
    opened = ch.open_posterior(tmp_path / "run.zarr")
    for name in model.parameters.names:
        np.testing.assert_array_equal(whole.parameters[name], again.parameters[name])
        np.testing.assert_array_equal(whole.parameters[name], opened.parameters[name])
    np.testing.assert_array_equal(whole.codes, opened.codes)
    assert whole.parameters["washer.probabilities"].dims == ("chain", "draw", "washer.probabilities_state")
    placed = whole.model_at(1, 2)
    adds = placed.rows.contributions(placed.emission.weights)
    states = np.array([whole.states(name).values[1, 2] for name in model.row_names])
    level = sum(own[path] for own, path in zip(adds, states, strict=True))
    np.testing.assert_allclose(whole.levels().values[1, 2], level)
    np.testing.assert_allclose(opened.levels().values[1, 2], level)
    assert np.isfinite(whole.log_joint.values).all()
    expected = ch.log_joint(placed, y, states) + model.parameters.log_prior(
        np.concatenate([np.ravel(whole.parameters[name].values[1, 2]) for name in model.parameters.names])
    )
    assert whole.log_joint.values[1, 2] == pytest.approx(expected)


def test_description__of_learned_rows():
    model = household()
    again = rebuild_model(describe_model(model))
    assert again is not None
    assert describe_model(again) == describe_model(model)
    assert again.parameters.names == model.parameters.names


def test_settings__of_learned_rows(tmp_path):
    model = household()
    sections = settings_of(model)
    assert sections["row"][0]["weight"] == {"gamma": [4.0, 2.0], "shared": "step"}
    assert sections["row"][1]["sticky"]["renew"] == {"beta": [2.0, 9.0]}
    Settings(**sections).write(tmp_path / "m.toml", "rows")
    read = Settings.read(tmp_path / "m.toml")
    assert describe_model(read.model()) == describe_model(model)
    assert write_rows(read_rows(tomllib.loads((tmp_path / "m.toml").read_text())["row"])) == sections["row"]
    with pytest.raises(ch.InvalidInput, match=r"the prior of weight of \[\[row\]\] number 1: there is no 'gama'"):
        read_rows([{"values": [0, 1], "switch": {"enter": 0.1, "leave": 0.1}, "weight": {"gama": [1, 1]}}])


def test_labels__of_rows_with_states():
    """Rows of equal values and chains with weights of their own are exchangeable; others are not."""
    chain = ch.Sticky(0.2)
    rows = [ch.Row([0, 1, 2], chain), ch.Row([0, 1, 2], chain), ch.Row([0, 1, 3], chain)]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(ch.Gamma([2, 2, 2], 1)))
    assert exchangeable_blocks(model) == [[(0,), (1,)]]
    codes = np.array([0b10_01_00, 0b00_10_01])
    moved, values = CanonicalOrder(model)(codes, np.array([3.0, 1.0, 2.0]))
    assert values.tolist() == [1.0, 3.0, 2.0]
    assert moved.tolist() == [0b10_00_01, 0b00_01_10]


def test_settings__refuse_rows_that_are_no_tables_and_chains_of_ones_own():
    class Own(ch.Switch):
        pass

    for tables in ("lamp", [1], {"name": "lamp"}):
        with pytest.raises(InvalidInput, match=r"rows must be \[\[row\]\] tables, got "):
            read_rows(tables)
    with pytest.raises(InvalidInput, match=r"settings know the chains .*, got Own; keep this model as Python code"):
        write_rows([ch.Row([0, 1], Own(0.1, 0.1))])
