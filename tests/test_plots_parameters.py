"""Pictures of learned parameters: the artists hold the numbers they stand for."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt
from scipy import stats

import chiasma as ch
from chiasma import plots
from chiasma.report.figures import parameters
from chiasma.results import expected as expected_module
from test_configurations import by_hand, some_codes
from test_learned import learned, learning_model
from test_plots import steps


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def curve(ax, label):
    return next(line for line in ax.get_lines() if line.get_label() == label)


def stairs(ax, label):
    return next(patch for patch in ax.patches if patch.get_label() == label).get_data()


def prior_at(ax, x):
    line = curve(ax, "prior")
    return np.interp(x, line.get_xdata(), line.get_ydata())


# Marginals


def test_parameters__a_panel_for_every_value():
    posterior = learned()
    fig = plots.plot_parameters(posterior)
    shown = [ax.get_title() for ax in fig.axes if ax.get_visible()]
    assert shown == ["enter[0]", "enter[1]", "enter[2]", "weights[0]", "weights[1]", "weights[2]", "depth"]
    assert len(fig.axes) == 8
    assert "prior (dashed)" in fig.get_suptitle()
    ax = fig.axes[6]
    values = posterior.parameters["depth"].values
    heights, edges, _ = stairs(ax, "posterior")
    np.testing.assert_allclose(heights, np.histogram(values, edges, density=True)[0])
    assert (edges[0], edges[-1]) == (values.min(), values.max())
    for c in range(4):
        np.testing.assert_allclose(stairs(ax, f"chain {c}")[0], np.histogram(values[c], edges, density=True)[0])
    assert curve(ax, "mean").get_xdata()[0] == pytest.approx(values.mean())
    np.testing.assert_allclose(curve(ax, "5–95%").get_xdata(), np.quantile(values, [0.05, 0.95]))


def test_parameters__priors_are_densities():
    fig = plots.plot_parameters(learned(), ["enter[1]", "depth"])
    enter, depth = fig.axes
    assert prior_at(enter, 0.05) == pytest.approx(stats.beta(1, 20).pdf(0.05), rel=1e-3)
    assert prior_at(depth, 17) == pytest.approx(stats.norm(15, 5).pdf(17), rel=1e-3)
    assert np.all(curve(enter, "prior").get_xdata() > 0)  # the bound itself has no density


def test_parameters__sorted_weights_have_a_sorted_prior():
    """Of three uniform weights on the simplex the smallest has density 6 (1 - 3 w) below 1/3, any one 2 (1 - w)."""
    fig = plots.plot_parameters(learned(), "weights")
    for w in (0.05, 0.1, 0.2):
        assert prior_at(fig.axes[0], w) == pytest.approx(6 * (1 - 3 * w), abs=0.35)
    told_apart = learning_model(weights=ch.Dirichlet([1, 2, 3]))
    fig = plots.plot_parameters(learned(told_apart), "weights")
    for ax, a in zip(fig.axes, (1, 2, 3), strict=True):
        assert prior_at(ax, 0.4) == pytest.approx(stats.beta(a, 6 - a).pdf(0.4), rel=1e-3)


def test_parameters__only_the_first_channel_is_sorted():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(ch.Gamma(np.full((3, 2), 2.0), 1.0)))
    fig = plots.plot_parameters(learned(model), ["weights[0, 0]", "weights[0, 1]"])
    least, free = (prior_at(ax, 0.3) for ax in fig.axes)
    law = stats.gamma(2)
    assert free == pytest.approx(law.pdf(0.3), rel=1e-2)  # between points of the curve
    assert least == pytest.approx(3 * law.pdf(0.3) * law.sf(0.3) ** 2, rel=0.1)


def test_parameters__weights_of_equal_rows_have_a_sorted_prior():
    rows = [ch.Row([0, 1], ch.Switch(ch.Beta(1, 9), 0.1), name=name, weight=ch.Gamma(2, 1)) for name in ("a", "b")]
    posterior = learned(ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.5)))
    smaller, larger, rate = plots.plot_parameters(posterior, ["a.weight", "b.weight", "a.enter"]).axes[:3]
    law = stats.gamma(2)
    assert prior_at(smaller, 0.5) == pytest.approx(2 * law.pdf(0.5) * law.sf(0.5), rel=0.1)
    assert prior_at(larger, 0.5) == pytest.approx(2 * law.pdf(0.5) * law.cdf(0.5), rel=0.2)
    assert prior_at(rate, 0.1) == pytest.approx(stats.beta(1, 9).pdf(0.1), rel=1e-2)


def test_parameters__a_constant_and_a_run_without_its_model():
    posterior = learned()
    still = posterior.parameters.assign(depth=posterior.parameters["depth"] * 0 + 3)
    fig = plots.plot_parameters(replace(posterior, parameters=still, model=None), "depth")
    (ax,) = fig.axes
    heights, edges, _ = stairs(ax, "posterior")
    assert edges[heights.argmax()] <= 3 <= edges[heights.argmax() + 1]
    assert [line.get_label() for line in ax.get_lines()] == ["5–95%", "mean"]


# Pairs


def test_pairs__every_pair_of_draws():
    posterior = learned()
    fig = plots.plot_pairs(posterior, ["weights", "depth"])
    panels = np.array(fig.axes).reshape(4, 4)
    depth, first = posterior.parameters["depth"].values, posterior.parameters["weights"].values[..., 0]
    (dots,) = panels[3, 0].get_lines()
    np.testing.assert_array_equal(dots.get_xdata(), first.ravel())
    np.testing.assert_array_equal(dots.get_ydata(), depth.ravel())
    heights, edges, _ = stairs(panels[3, 3], "posterior")
    np.testing.assert_allclose(heights, np.histogram(depth, edges, density=True)[0])
    assert [ax.get_xlabel() for ax in panels[3]] == ["weights[0]", "weights[1]", "weights[2]", "depth"]
    assert [ax.get_ylabel() for ax in panels[:, 0]] == ["", "weights[1]", "weights[2]", "depth"]
    assert [[ax.get_visible() for ax in line] for line in panels] == np.tri(4, dtype=bool).tolist()


def test_pairs__many_draws_are_counted(monkeypatch):
    monkeypatch.setattr(parameters, "MANY_POINTS", 100)
    fig = plots.plot_pairs(learned(), ["weights[0]", "depth"])
    (hexagons,) = fig.axes[2].collections
    assert hexagons.get_array().sum() == 240
    dark, light = (hexagons.cmap(hexagons.norm(count))[:3] for count in (hexagons.get_array().max(), 1))
    assert sum(dark) < sum(light)


# Both


@pytest.mark.parametrize("draw", [plots.plot_parameters, plots.plot_pairs])
def test_given_figures_are_used(draw):
    whole = plt.figure(layout="constrained")
    half, _ = whole.subfigures(1, 2)
    assert draw(learned(), ["weights"], fig=half) is half
    assert half.axes
    assert plt.get_fignums() == [whole.number]
    whole.canvas.draw()


@pytest.mark.parametrize("draw", [plots.plot_parameters, plots.plot_pairs])
def test_names__are_refused(draw):
    with pytest.raises(ch.InvalidInput, match="no learned parameters; give the model a prior in place of a number"):
        draw(by_hand(some_codes()))
    posterior = learned()
    with pytest.raises(ch.InvalidInput, match=r"no learned parameter 'weight\[0\]'; did you mean 'weights\[0\]'\?"):
        draw(posterior, ["weight[0]"])
    with pytest.raises(ch.InvalidInput, match="no learned parameter 'q'; there are enter, weights, depth"):
        draw(posterior, ["depth", "q"])
    with pytest.raises(ch.InvalidInput, match="names must hold at least one, got none"):
        draw(posterior, [])


def test_pairs__refuse_too_few_and_too_many(monkeypatch):
    with pytest.raises(ch.InvalidInput, match=r"pairs can be plotted of 2\.\.10 values, got 1; choose with"):
        plots.plot_pairs(learned(), ["depth"])
    monkeypatch.setattr(parameters, "MOST_PAIRS", 4)
    with pytest.raises(ch.InvalidInput, match=r"of 2\.\.4 values, got 7; choose with names=, such as names=\['enter"):
        plots.plot_pairs(learned())


# Level


@pytest.mark.parametrize("most", [400, 80])
def test_level__is_that_of_every_draw_s_parameters(most, monkeypatch):
    monkeypatch.setattr(expected_module, "BAND_DRAWS", most)
    posterior = learned()
    ax = plots.plot_level(posterior, start=2, stop=9)
    every = 240 // most + (240 % most > 0)
    depth = posterior.parameters["depth"].values[..., None]
    signal = (depth * posterior.levels().values)[:, ::every, 2:9].reshape(-1, 7)
    np.testing.assert_allclose(steps(ax, "posterior mean")[0], signal.mean(axis=0))
    low, high = np.quantile(signal, [0.05, 0.95], axis=0, method="inverted_cdf")
    found, _, _, foot = steps(ax, "5–95% of draws")
    np.testing.assert_allclose(found, high)
    np.testing.assert_allclose(foot, low)


def test_level__of_a_channel_has_its_own_learned_depth():
    model = learning_model(weights=ch.Gamma(np.full((3, 2), 2.0), 2.0), depth=ch.Normal([10, 20], 1))
    posterior = learned(model)
    ax = plots.plot_level(posterior, channel=1)
    depth = posterior.parameters["depth"].values[:, :, None, 1]
    expected = (depth * posterior.levels().values[..., 1]).mean(axis=(0, 1))
    np.testing.assert_allclose(steps(ax, "posterior mean")[0], expected)


def test_level__an_emission_that_does_not_say_its_signal():
    emission = ch.Custom(lambda y, level: -np.abs(y - level), weights=[0.2, 0.3, 0.5])
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    with pytest.raises(ch.InvalidInput, match="a Custom has no expected signal; use plot_row"):
        plots.plot_level(by_hand(some_codes(), model=model))
