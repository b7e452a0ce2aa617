"""DataTrees: ArviZ's own functions take them."""

from __future__ import annotations

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
from chiasma.results.arrays import per_draw
from test_configurations import by_hand, some_codes, with_dask


@pytest.fixture
def posterior():
    info = {"n_rows": 3, "seed": 2**100, "plan": "as given", "update": "RowGibbs()", "exchange": None}
    scores = per_draw("log_joint", np.random.default_rng(1).normal(size=(4, 60)))
    return by_hand(
        some_codes(n_chains=4, n_draws=60), starts=[4], info=info, log_joint=scores, log_likelihood=scores - 1
    )


def test_groups_and_their_variables(posterior):
    tree = posterior.to_datatree()
    xr.testing.assert_equal(tree["paths/codes"], posterior.codes)
    xr.testing.assert_equal(tree["paths/level"], posterior.levels())
    xr.testing.assert_equal(tree["paths/rows_on"], posterior.rows_on())
    xr.testing.assert_equal(tree["sample_stats/lp"], posterior.log_joint)
    xr.testing.assert_equal(tree["sample_stats/log_likelihood"], posterior.log_likelihood)
    assert tree["observed_data/y"].dims == ("site",)
    assert tree["constant_data/weights"].values.tolist() == [0.2, 0.3, 0.5]
    assert tree["constant_data/starts"].values.tolist() == [0, 4]
    assert np.allclose(
        tree["posterior/time_on"].sum("row") * posterior.codes.sizes["site"], posterior.rows_on().sum("site")
    )


OFFSET = np.linspace(0, 1, 40)


@pytest.mark.filterwarnings("ignore:Estimated shape")  # a path follows its column
@pytest.mark.parametrize(
    "rows",
    [
        ch.Switches(0.1, 0.2),
        [ch.Row([0, 1, 2], ch.Sticky(renew=0.2)), ch.Row([0, 3], ch.Switch(0.1, 0.2), copies=2)],
        [ch.Row([0, 1], ch.Switch(0.1, 0.2), spread=[0.0, 2.0])],
    ],
)
def test_likelihood_and_prediction__of_every_column(rows):
    weights = [1.0, 2.5] if isinstance(rows, ch.Switches) else None
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(weights, sd=ch.HalfNormal(1)), offset=OFFSET)
    _, y = model.simulate(40, seed=1)
    y[7] = np.nan
    posterior = ch.sample(model, y, draws=100, warmup=20, chains=2, seed=1, progress=False)
    tree = posterior.to_datatree()
    found = tree["log_likelihood/y"]
    assert found.dims == ("chain", "draw", "site")
    assert np.allclose(found.sum("site"), posterior.log_likelihood)
    assert 7 not in found["site"]
    assert arviz_stats.loo(tree).n_data_points == 39
    # Standardised by its own draw, a predicted value is standard normal: bounds of 5 standard errors of 8,000 values.
    noise = tree["posterior_predictive/y"] - posterior.levels() - OFFSET
    spread = 0.0 if len(posterior.layout.sizes) != 1 else 2.0 * posterior.levels()
    z = (noise / np.hypot(posterior.parameters["sd"], spread)).values
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)


def test_attributes_say_where_it_comes_from(posterior):
    tree = posterior.to_datatree()
    for attributes in (tree.attrs, tree["posterior"].attrs):
        assert attributes["seed"] == str(2**100)
        assert attributes["plan"] == "as given"
        assert attributes["inference_library"] == "chiasma"
        assert attributes["numpy_version"] == np.__version__
        assert attributes["inference_library_version"]
        assert "exchange" not in attributes
    posterior.info["versions"] = {"chiasma": "0.0.7", "numpy": "2.1"}
    assert posterior.to_datatree().attrs["inference_library_version"] == "0.0.7"


def test_arviz_summary_rhat_and_ess(posterior):
    tree = posterior.to_datatree()
    table = arviz_stats.summary(tree, round_to="none")
    assert list(table.index) == [f"time_on[{k}]" for k in range(3)]
    joint, level = posterior.summary().convergence
    assert float(arviz_stats.rhat(tree, group="paths")["level"].max()) == pytest.approx(level.rhat_worst)
    assert float(arviz_stats.ess(tree, group="paths")["level"].min()) == pytest.approx(level.ess_worst)
    assert float(arviz_stats.rhat(tree, group="sample_stats")["lp"]) == joint.rhat_worst


@pytest.mark.parametrize("lazy", [False, True])
def test_arviz_trace_plot(posterior, lazy):
    tree = (with_dask(posterior) if lazy else posterior).to_datatree()
    n_chains = posterior.draws.sizes["chain"]
    for shown, options, n_panels in (
        (tree.sel(site=[0, 5]).load(), {"group": "paths", "var_names": ["level", "codes"]}, 4),
        (tree, {"group": "sample_stats", "var_names": ["lp"]}, 1),
    ):
        arviz_plots.plot_trace(shown, backend="matplotlib", **options)
        panels = [axes for axes in plt.gcf().axes if axes.lines]
        assert len(panels) == n_panels
        assert all(len(axes.lines) >= n_chains for axes in panels)
        plt.close("all")


def test_lazy_draws_stay_lazy_until_loaded(posterior):
    lazy = with_dask(posterior).to_datatree()
    assert all(variable.chunks is not None for variable in lazy["paths"].data_vars.values())
    part = lazy.sel(site=[0, 5]).load()
    assert part["paths/level"].sizes["site"] == 2
    xr.testing.assert_equal(lazy.load(), posterior.to_datatree())


def test_channels_have_their_own_dimension():
    weights = np.array([[0.2, 1.0], [0.3, 2.0], [0.5, 3.0]])
    tree = by_hand(some_codes(), weights).to_datatree()
    assert tree["paths/level"].dims == ("chain", "draw", "site", "channel")
    assert tree["observed_data/y"].dims == ("site", "channel")
    assert tree["constant_data/weights"].dims == ("row", "channel")


def test_a_run_without_its_model_or_data(posterior):
    tree = replace(posterior, model=None, data=None).to_datatree()
    assert set(tree.children) == {"paths", "posterior", "sample_stats"}
    assert set(tree["paths"].data_vars) == {"codes", "rows_on"}


def test_plain_vectors(posterior):
    x = per_draw("x", np.random.default_rng(2).normal(size=(4, 60, 3)), "site")
    tree = replace(posterior, draws=x, model=None, data=None, info={}).to_datatree()
    assert set(tree["posterior"].data_vars) == {"x"}
    assert len(arviz_stats.summary(tree)) == 3


def test_saved_and_read_again(posterior, tmp_path):
    tree = replace(posterior, draws=posterior.draws.chunk({"chain": 2})).to_datatree()
    tree.to_zarr(tmp_path / "tree.zarr")
    xr.testing.assert_equal(xr.open_datatree(tmp_path / "tree.zarr", engine="zarr").load(), posterior.to_datatree())
