"""Posteriors of learned parameters: whatever depends on them is read with those of every draw."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")

import arviz_plots
import arviz_stats
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot as plt

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.results import configurations
from chiasma.results.arrays import per_draw
from chiasma.results.parameter_checks import label_findings
from chiasma.results.parameters import entries, named_parameters, summarise_parameters
from test_configurations import by_hand, some_codes, with_dask

N_CHAINS, N_DRAWS, N_SITES = 4, 60, 12


def learning_model(**changes) -> ch.FactorialHMM:
    parts = {"weights": ch.Dirichlet([1, 1, 1]), "depth": ch.Normal(15, 5), "sd": 0.5} | changes
    return ch.FactorialHMM(rows=ch.Switches(ch.Beta([1, 1, 1], 20), 0.2, 0.5), emission=ch.Gaussian(**parts))


def learned(model=None, n_draws=N_DRAWS, n_chains=N_CHAINS, **changes) -> ch.Posterior:
    """Codes and parameters made by hand: values are independent draws of the priors."""
    model = learning_model() if model is None else model
    rng = np.random.default_rng(3)
    values = np.array([[model.parameters.sample(rng) for _ in range(n_draws)] for _ in range(n_chains)])
    parts = {
        "parameters": named_parameters(values, model),
        "model": model,
        "log_joint": per_draw("log_joint", rng.normal(size=(n_chains, n_draws))),
    }
    codes = some_codes(n_chains=n_chains, n_draws=n_draws, n_sites=N_SITES)
    return by_hand(codes, model.emission.weights, **(parts | changes))


def plain_levels(posterior) -> np.ndarray:
    """One draw after the other."""
    codes, weights = posterior.codes.values, posterior.parameters["weights"].values
    out = np.zeros(codes.shape + weights.shape[3:])
    for c, i, t in np.ndindex(codes.shape):
        for k in range(weights.shape[2]):
            if codes[c, i, t] >> k & 1:
                out[c, i, t] += weights[c, i, k]
    return out


# ---- Levels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["memory", "dask", "large"])
def test_levels__are_those_of_every_draw_s_weights(kept, monkeypatch):
    posterior = learned()
    if kept == "large":
        monkeypatch.setattr(configurations, "LAZY_BYTES", 100)
        monkeypatch.setattr(configurations, "PIECE_BYTES", 100)
    level = (with_dask(posterior) if kept == "dask" else posterior).levels()
    assert level.dims == ("chain", "draw", "site")
    assert level.name == "level"
    assert (level.chunks is not None) == (kept != "memory")
    np.testing.assert_allclose(level.values, plain_levels(posterior), rtol=1e-14, atol=0)
    given = replace(posterior, model=posterior.fitted_model, parameters=xr.Dataset())
    assert not np.allclose(level.values, given.levels().values, atol=0.05)


def test_levels__of_channels():
    model = learning_model(weights=ch.Gamma(np.full((3, 2), 2.0), 2.0), depth=ch.Normal([10, 20], 1))
    posterior = learned(model)
    assert posterior.parameters["depth"].dims == ("chain", "draw", "channel")
    for one in (posterior, with_dask(posterior)):
        assert one.levels().dims == ("chain", "draw", "site", "channel")
        np.testing.assert_allclose(one.levels().values, plain_levels(posterior), rtol=1e-14, atol=0)


def test_levels__of_some_draws_have_their_own_weights():
    posterior = learned()
    some = replace(posterior, draws=posterior.draws[1:3, 5:50:3])
    np.testing.assert_allclose(some.levels().values, plain_levels(posterior)[1:3, 5:50:3], rtol=1e-14, atol=0)


def test_levels__given_weights_stay_beside_other_learned_parameters():
    posterior = learned(learning_model(weights=[0.2, 0.3, 0.5]))
    assert "weights" not in posterior.parameters
    on = np.stack([posterior.states(k).values for k in range(3)], axis=-1)
    np.testing.assert_allclose(posterior.levels().values, on @ [0.2, 0.3, 0.5])


# ---- Models ----------------------------------------------------------------------------------------------------------


def test_fitted_model__stands_at_posterior_means():
    posterior = learned()
    fitted = posterior.fitted_model
    assert not fitted.parameters
    np.testing.assert_allclose(fitted.emission.weights, posterior.parameters["weights"].values.mean(axis=(0, 1)))
    np.testing.assert_allclose(fitted.emission.depth, posterior.parameters["depth"].values.mean())
    np.testing.assert_allclose(fitted.rows.chains.enter, posterior.parameters["enter"].values.mean(axis=(0, 1)))
    assert fitted.emission.sd == 0.5
    assert np.isfinite(ch.exact.log_evidence(fitted, posterior.data))


def test_fitted_model__is_the_model_where_nothing_is_learned():
    posterior = by_hand(some_codes())
    assert posterior.fitted_model is posterior.model
    assert replace(posterior, model=None).fitted_model is None
    density = ch.BlockModes(blocks=2, size=6, alpha=0.5)
    assert replace(posterior, model=density).fitted_model is density


def test_model_at__has_the_parameters_of_a_draw():
    posterior = learned()
    model = posterior.model_at(2, 17)
    assert not model.parameters
    np.testing.assert_array_equal(model.emission.weights, posterior.parameters["weights"].values[2, 17])
    assert model.emission.depth == posterior.parameters["depth"].values[2, 17]
    np.testing.assert_array_equal(model.rows.chains.enter, posterior.parameters["enter"].values[2, 17])


def test_model_at__refuses():
    posterior = learned()
    with pytest.raises(InvalidInput, match=r"chain must be in 0\.\.3, got 4"):
        posterior.model_at(4, 0)
    with pytest.raises(InvalidInput, match=r"draw must be in 0\.\.59, got -1"):
        posterior.model_at(0, -1)
    with pytest.raises(InvalidInput, match="this posterior holds no FactorialHMM; if a stored run could not keep"):
        replace(posterior, model=None).model_at(0, 0)


# ---- Summary ---------------------------------------------------------------------------------------------------------


def about(posterior, code):
    return [one for one in posterior.findings if one.code == code]


def test_summary__of_parameters_is_that_of_arviz():
    posterior = learned(n_draws=200)
    found = {one.name: one for one in posterior.summary().parameters}
    assert list(found) == ["enter[0]", "enter[1]", "enter[2]", "weights[0]", "weights[1]", "weights[2]", "depth"]
    for name, values in (
        ("enter[1]", posterior.parameters["enter"][..., 1]),
        ("weights[2]", posterior.parameters["weights"][..., 2]),
        ("depth", posterior.parameters["depth"]),
    ):
        one, plain = found[name], values.values.ravel()
        assert one.mean == pytest.approx(plain.mean())
        assert one.sd == pytest.approx(plain.std(ddof=1))
        assert [one.low, one.high] == pytest.approx(np.quantile(plain, [0.05, 0.95]))
        assert one.rhat == float(arviz_stats.rhat(values))
        assert one.ess == float(arviz_stats.ess(values))


def test_summary__judges_levels_with_every_draw_s_weights():
    """Codes that never move: only the weights make the levels move, and they differ between chains."""
    posterior = learned(n_draws=200)
    still = per_draw("codes", np.full((N_CHAINS, 200, 3), 3, np.uint8), "site")
    weights = posterior.parameters["weights"].values.copy()
    weights[0] += 3
    far = posterior.parameters.assign(weights=per_draw("weights", weights, "row"))
    level = replace(posterior, draws=still, parameters=far).summary().convergence[1]
    assert (level.name, level.constant) == ("level", 0)
    assert level.rhat_worst > 1.5
    given = replace(posterior, draws=still, model=posterior.fitted_model, parameters=xr.Dataset()).summary()
    assert given.convergence[1].constant == 3


def test_summary__a_good_run_has_no_findings():
    posterior = learned(n_draws=600)
    codes = np.random.default_rng(1).integers(0, 8, (N_CHAINS, 600, 3)).astype(np.uint8)
    found = replace(posterior, draws=per_draw("codes", codes, "site")).summary()
    # The states are noise here, of which a note speaks.
    assert {one.code for one in found.findings} <= {"rows-unknown"}
    assert found.trust == "good"
    text = str(found)
    assert "Learned parameters" in text
    assert "weights[2]" in text
    assert "nan" not in text
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [one["name"] for one in content["parameters"]][-2:] == ["weights[2]", "depth"]
    assert content["parameters"][-1]["mean"] == pytest.approx(float(posterior.parameters["depth"].mean()))


def test_summary__parameters_on_which_chains_disagree_are_named():
    posterior = learned(n_draws=600)
    depth = posterior.parameters["depth"].values.copy()
    depth[1] += 30
    apart = replace(posterior, parameters=posterior.parameters.assign(depth=per_draw("depth", depth)))
    rhat = apart.summary().parameters[-1].rhat
    assert rhat > 1.1
    (found,) = about(apart, "chains-disagree")
    assert found.facts["names"] == ["depth"]
    assert found.facts["rhat"] == rhat
    assert [one.argument for one in found.remedies] == ["exchange", "draws"]
    ess = apart.summary().parameters[-1].ess
    assert 600 * 400 / ess <= found.remedies[-1].value < 1.1 * 1.25 * 600 * 400 / ess


def test_findings__name_the_worst_parameters_first():
    posterior = learned(n_draws=100)
    moved = posterior.parameters + xr.DataArray(10.0 * np.arange(N_CHAINS), dims="chain")
    apart = replace(posterior, parameters=moved)
    (found,) = about(apart, "chains-disagree")
    rhats = {one.name: one.rhat for one in apart.summary().parameters}
    own = [rhats[name] for name in found.facts["names"] if name in rhats]
    assert len(own) > 4
    assert own == sorted(own, reverse=True)
    assert str(found).count(",") < len(own)  # the message counts the others


def test_summary__learned_parameters_are_chains_even_with_exact_paths():
    alone = learned(n_chains=1, info={"n_rows": 3, "update": "Exact(memory=1)", "independent": False})
    assert about(alone, "one-chain")
    independent = {"n_rows": 3, "update": "Exact(memory=1)", "independent": True}
    assert not about(by_hand(some_codes(n_chains=1), info=independent), "one chain only")
    (one, *_) = alone.summary().parameters
    assert math.isnan(one.rhat)
    assert "-" in str(alone.summary())
    assert alone.summary().to_dict()["parameters"][0]["rhat"] is None


def test_summary__of_a_single_draw_and_of_unnamed_parameters():
    (one,) = summarise_parameters(xr.Dataset({"sd": per_draw("sd", np.full((1, 1), 2.0))}))
    assert (one.mean, one.sd, one.low, one.high) == (2.0, 0.0, 2.0, 2.0)
    assert math.isnan(one.rhat)
    unnamed = named_parameters(np.zeros((2, 5, 3)), None)
    assert [entry.name for entry in entries(unnamed)] == ["parameters[0]", "parameters[1]", "parameters[2]"]
    two = named_parameters(np.arange(24.0).reshape(1, 4, 6), ch.FactorialHMM(
        rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(ch.Gamma(np.ones((3, 2)), 1.0))
    ))  # fmt: skip
    found = list(entries(two))
    assert found[3].name == "weights[1, 1]"
    np.testing.assert_array_equal(found[3].values, [[3.0, 9.0, 15.0, 21.0]])


# ---- ArviZ -----------------------------------------------------------------------------------------------------------


def test_datatree__parameters_are_ordinary_variables():
    posterior = learned()
    tree = posterior.to_datatree()
    for name in ("enter", "weights", "depth"):
        xr.testing.assert_equal(tree[f"posterior/{name}"], posterior.parameters[name])
    assert tree["posterior/weights"].coords["row"].values.tolist() == [0, 1, 2]
    xr.testing.assert_equal(tree["paths/level"], posterior.levels())
    assert set(tree["constant_data"].data_vars) == {"starts"}
    assert set(learned(learning_model(weights=[0.2, 0.3, 0.5])).to_datatree()["constant_data"].data_vars) == {
        "starts",
        "weights",
    }


def test_datatree__arviz_summarises_and_plots_parameters():
    posterior = learned(n_draws=200)
    tree = posterior.to_datatree()
    table = arviz_stats.summary(tree, var_names=["weights", "depth"], round_to="none")
    assert list(table.index) == ["weights[0]", "weights[1]", "weights[2]", "depth"]
    assert table.loc["depth", "mean"] == pytest.approx(float(posterior.parameters["depth"].mean()))
    own = {one.name: one for one in posterior.summary().parameters}
    assert float(arviz_stats.rhat(tree)["weights"][1]) == pytest.approx(own["weights[1]"].rhat)
    assert float(arviz_stats.ess(tree)["depth"]) == pytest.approx(own["depth"].ess)
    arviz_plots.plot_dist(tree, var_names=["weights", "depth"], backend="matplotlib")
    plt.close("all")


# ---- A run -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    model = learning_model(sd=ch.HalfNormal(1))
    path = tmp_path_factory.mktemp("run") / "run.zarr"
    y = model.at({"enter": [0.1] * 3, "weights": [0.2, 0.3, 0.5], "depth": 15, "sd": 1}).simulate(6, seed=1)[1]
    ch.sample(model, y, update="row", exchange=None, draws=12, warmup=4, chains=2, seed=1, progress=False, store=path)
    return ch.open_posterior(path)


def test_run__opened_again_reads_levels_of_its_draws(stored):
    assert stored.levels().chunks is not None
    np.testing.assert_allclose(stored.levels().values, plain_levels(stored), rtol=1e-14)
    assert [one.name for one in stored.summary().parameters][-2:] == ["depth", "sd"]
    assert set(stored.parameters) <= set(stored.to_datatree()["posterior"].data_vars)


def test_run__log_likelihood_is_that_of_every_draw_s_model(stored):
    for chain, draw in ((0, 3), (1, 11)):
        model, codes = stored.model_at(chain, draw), stored.codes.values[chain, draw]
        target = model.target(stored.data)
        expected = target.log_likelihood(target.reduce(codes.astype(np.int64)))
        assert float(stored.log_likelihood[chain, draw]) == pytest.approx(expected)


def test_labels__that_switch_are_reported():
    """Rates differ, so that rows are not exchangeable and draws are not put in order."""
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=[0.1, 0.11, 0.1], leave=0.1),
        emission=ch.Gaussian(ch.Gamma([2, 2, 2], 1), sd=0.5),
    )
    rng = np.random.default_rng(1)
    values = np.array([1.0, 3.0, 3.1]) + 0.05 * rng.normal(size=(4, 50, 3))
    assert label_findings(model, named_parameters(values, model)) == []  # close, but each where it is
    values[1:3] = values[1:3][..., [1, 0, 2]]
    (found,) = label_findings(model, named_parameters(values, model))
    assert found.facts == {"names": ["0 and 1"]}
    equal = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=model.emission)
    in_order = np.sort(values, axis=-1)  # as runs keep them; a store of an earlier version may not
    assert label_findings(equal, named_parameters(in_order, equal)) == []
    assert len(label_findings(equal, named_parameters(values, equal))) == 1
    posterior = learned(model, n_draws=50, parameters=named_parameters(values, model))
    assert about(posterior, "label-switching")
