"""Pictures: the artists hold the numbers they stand for, given axes are used, mistakes are named."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

import chiasma as ch
from chiasma import plots
from chiasma.report.figures import paths, runs
from chiasma.report.figures.style import block_means
from chiasma.results import expected as expected_module
from test_configurations import by_hand

WEIGHTS = np.array([0.2, 0.3, 0.5])


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def posterior():
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian(WEIGHTS, depth=10.0, sd=2.0), fixed={2: 1})
    _, y = model.simulate(24, seed=1, starts=[0, 10])
    y[[4, 5, 17]] = np.nan
    return run(model, ch.Observations(y, starts=[0, 10]))


def run(model, data, **options):
    settings = {"update": "row", "exchange": "swap", "ladder": [1, 2, 4], "draws": 30, "warmup": 3, "chains": 2}
    return ch.sample(model, data, seed=1, progress=False, **settings | options)


@pytest.fixture(scope="module")
def vectors():
    return ch.sample(ch.BlockModes(2, 6, 0.05), draws=12, warmup=0, chains=1, seed=1, progress=False)


def curve(ax, label):
    return next(line for line in ax.get_lines() if line.get_label() == label)


def steps(ax, label):
    """Values and edges of a step function, without its gaps."""
    (found,) = [patch for patch in ax.patches if patch.get_label() == label]
    values, edges, baseline = found.get_data()
    known = ~np.isnan(values)
    foot = None if baseline is None or np.ndim(baseline) == 0 else np.asarray(baseline)[known]
    return values[known], edges[:-1][known], edges[1:][known], foot


def band(ax, at):
    """Lowest and highest y of a filled band at x."""
    (path,) = ax.collections[0].get_paths()
    crossings = []
    for (x0, y0), (x1, y1) in pairwise(path.vertices):
        if x0 != x1 and min(x0, x1) <= at <= max(x0, x1):
            crossings.append(y0 + (at - x0) / (x1 - x0) * (y1 - y0))
    return min(crossings), max(crossings)


def pixel(ax, x, y):
    """The value that a heatmap shows at a point of the axes."""
    (image,) = ax.images
    left, right, foot, top = image.get_extent()
    values = image.get_array()
    rows, columns = values.shape
    row = (y - foot) / (top - foot) if image.origin == "lower" else (y - top) / (foot - top)
    return values[int(row * rows), int((x - left) / (right - left) * columns)]


def cells(ax):
    """The values of a grid of cells, row by row, without its gaps."""
    values = np.ma.filled(ax.collections[0].get_array().astype(float), np.nan)
    return values[:, ~np.isnan(values).all(axis=0)]


def signals(posterior):
    """(n, T): the expected signal of every draw, the plain way."""
    states = np.stack([posterior.states(k).values for k in range(3)], axis=-1)
    return 10 * (states @ WEIGHTS).reshape(-1, states.shape[2])


# Level


def test_level__mean_band_data_and_missing(posterior):
    ax = plots.plot_level(posterior)
    expected = signals(posterior)
    values, left, right, _ = steps(ax, "posterior mean")
    np.testing.assert_allclose(values, expected.mean(axis=0))
    np.testing.assert_array_equal(left, np.arange(24) - 0.5)
    np.testing.assert_array_equal(right, np.arange(24) + 0.5)
    np.testing.assert_array_equal(curve(ax, "data").get_ydata(), posterior.data.y)
    assert "3 of 24 sites missing" in ax.get_title()
    ordered = np.sort(expected, axis=0)  # 60 draws: the 3rd and the 57th end the band
    high, _, _, low = steps(ax, "5–95% of draws")
    np.testing.assert_allclose(low, ordered[2])
    np.testing.assert_allclose(high, ordered[56])


def test_level__one_outlier_does_not_flatten_the_picture(posterior):
    y = posterior.data.y.copy()
    y[7] = 5_000.0
    ax = plots.plot_level(replace(posterior, data=ch.Observations(y, starts=[0, 10])))
    assert ax.get_ylim()[1] < 60
    assert curve(ax, "_beyond").get_xdata().tolist() == [7]
    assert "1 beyond the axis" in ax.get_title()
    assert not [line for line in plots.plot_level(posterior).get_lines() if line.get_label() == "_beyond"]


def test_level__long_gaps_are_blank(posterior):
    y = posterior.data.y.copy()
    y[11:20] = np.nan
    ax = plots.plot_level(replace(posterior, data=ch.Observations(y, starts=[0, 10])))
    for name in ("posterior mean", "5–95% of draws"):
        _, left, _, _ = steps(ax, name)
        assert left.tolist() == [t - 0.5 for t in range(24) if not 11 <= t < 20]


def test_level__chromosomes_have_their_names_and_positions_are_megabases(posterior):
    labels = plots.Labels(names=("1", "X"), position=np.r_[np.arange(10), np.arange(14)] * 2e6, value="log2 ratio")
    ax = plots.plot_level(posterior, labels=labels)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "X"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("chromosome", "log2 ratio")
    assert ax.get_xlim() == pytest.approx((0, 48))
    ax = plots.plot_level(posterior, start=12, stop=20, labels=labels)
    assert ax.get_xlabel() == "chromosome X, position (Mb)"
    assert ax.get_xlim() == pytest.approx((4, 20))


def test_level__more_sites_than_pixels_keep_their_extremes(posterior, monkeypatch):
    monkeypatch.setattr(paths, "MOST_SITES", 20)
    monkeypatch.setattr(paths, "MOST_BLOCKS", 6)
    ax = plots.plot_level(posterior)
    high, left, right, low = steps(ax, "data, lowest to highest")
    y = posterior.data.y
    for a, b, foot, top in zip(left + 0.5, right + 0.5, low, high, strict=True):
        here = y[int(a) : int(b)]
        assert (foot, top) == (np.nanmin(here), np.nanmax(here))
    assert right.max() - left.min() == 24


def test_level__region_and_starts(posterior):
    ax = plots.plot_level(posterior, start=3, stop=20)
    assert steps(ax, "posterior mean")[1].tolist() == [t - 0.5 for t in range(3, 20)]
    assert ax.get_xlim() == (2.5, 19.5)
    starts = next(c for c in ax.collections if c.get_label() == "_starts")
    assert [segment[0, 0] for segment in starts.get_segments()] == [9.5]
    (numbers,) = ax.child_axes
    assert [label.get_text() for label in numbers.get_xticklabels()] == ["1", "2"]
    assert "starts" in ax.get_xlabel()
    alone = plots.plot_level(posterior, start=12)
    assert not alone.child_axes
    assert alone.get_xlabel() == "site"


def test_level__names_of_sequences_do_not_touch(posterior):
    """24 chromosomes as long as those of man, in the figure of a report; all but two of the shortest have names."""
    lengths = [249, 243, 198, 191, 181, 171, 159, 146, 141, 136, 135, 134, 115, 107, 103, 90, 81, 78, 59, 63, 48, 51]
    names = (*map(str, range(1, 23)), "X", "Y")
    labels = plots.Labels(names=names, position=np.zeros(24), end=np.array([*lengths, 155, 59]) * 1e6)
    fig, ax = plt.subplots(figsize=(11, 3.6), layout="constrained")
    plots.plot_level(replace(posterior, data=ch.Observations(posterior.data.y, starts=range(24))), ax=ax, labels=labels)
    fig.canvas.draw()
    shown = ax.get_xticklabels()
    assert len(shown) >= 22
    boxes = [text.get_window_extent() for text in shown]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_level__of_names_that_touch_one_is_shown(posterior):
    data = ch.Observations(posterior.data.y, starts=[0, 10, 11, 12])
    _, ax = plt.subplots(figsize=(2, 2))
    plots.plot_level(replace(posterior, data=data), ax=ax)
    (numbers,) = ax.child_axes
    assert [label.get_text() for label in numbers.get_xticklabels()] == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("emission", "signal"),
    [
        (ch.IntegratedDepth([1.0, 2.0], depth_mean=5.0, depth_sd=0.5), lambda level: 5 * level),
        (ch.StudentT([1.0, 2.0], depth=3.0), lambda level: 3 * level),
        (ch.Poisson([1.0, 2.0], depth=3.0, background=0.5), lambda level: 3 * level + 0.5),
        (ch.NegativeBinomial([1.0, 2.0], depth=4.0, background=1.0), lambda level: 4 * level + 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_level__every_emission(emission, signal):
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=emission)
    posterior = run(model, model.simulate(8, seed=1)[1], draws=5)
    ax = plots.plot_level(posterior)
    codes = posterior.codes.values.reshape(-1, 8)
    expected = signal((codes & 1) + 2.0 * (codes >> 1 & 1)).mean(axis=0)
    np.testing.assert_allclose(steps(ax, "posterior mean")[0], expected)


def test_level__one_of_several_channels():
    emission = ch.Gaussian([[1.0, 4.0], [2.0, 8.0]], depth=[1.0, 3.0])
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=emission)
    y = model.simulate(8, seed=1)[1]
    posterior = run(model, y, draws=5)
    ax = plots.plot_level(posterior, channel=1)
    codes = posterior.codes.values.reshape(-1, 8)
    expected = 3 * (4 * (codes & 1) + 8.0 * (codes >> 1 & 1)).mean(axis=0)
    np.testing.assert_allclose(steps(ax, "posterior mean")[0], expected)
    np.testing.assert_array_equal(curve(ax, "data").get_ydata(), y[:, 1])
    with pytest.raises(ch.InvalidInput, match=r"channel must be in 0\.\.1, got 2"):
        plots.plot_level(posterior, channel=2)


def test_level__long_runs_are_thinned(posterior, monkeypatch):
    monkeypatch.setattr(expected_module, "BAND_DRAWS", 20)
    ax = plots.plot_level(posterior)
    thinned = signals(replace(posterior, draws=posterior.draws[:, ::3]))
    np.testing.assert_allclose(steps(ax, "posterior mean")[0], thinned.mean(axis=0))


def test_level__raises(posterior, vectors):
    with pytest.raises(ch.InvalidInput, match="holds no model; use plot_row"):
        plots.plot_level(replace(posterior, model=None))
    with pytest.raises(ch.InvalidInput, match="holds no data"):
        plots.plot_level(vectors)
    with pytest.raises(ch.InvalidInput, match=r"0 <= start < stop <= 24 \(sites\), got 9 and 9"):
        plots.plot_level(posterior, start=9, stop=9)
    table = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Table(np.zeros((24, 8))))
    with pytest.raises(ch.InvalidInput, match="a Table has no expected signal"):
        plots.plot_level(replace(posterior, model=table))


# Row


def test_row__every_site_of_every_draw(posterior):
    ax = plots.plot_row(posterior, 1, chain=1)
    states = posterior.states(1).values[1]
    shown = [[pixel(ax, t, draw) for t in range(24)] for draw in range(30)]
    np.testing.assert_array_equal(shown, states)
    assert ax.get_ylim() == (-0.5, 29.5)
    assert "row_1 of chain 1 (dark = 1, light = 0)" in ax.get_title()
    dark, light = (ax.images[0].cmap(ax.images[0].norm(value))[:3] for value in (1.0, 0.0))
    assert sum(dark) < sum(light)


def test_row__slices_of_draws_and_sites(posterior):
    ax = plots.plot_row(posterior, 0, draws=slice(10, 20, 2), start=5, stop=9)
    states = posterior.states(0).values[0]
    shown = [[pixel(ax, t, draw) for t in range(5, 9)] for draw in range(10, 20, 2)]
    np.testing.assert_array_equal(shown, states[10:20:2, 5:9])
    assert ax.get_ylim() == (9, 19)


def test_row__neighbours_are_averaged(posterior, monkeypatch):
    monkeypatch.setattr(paths, "HEATMAP_DRAWS", 10)
    monkeypatch.setattr(paths, "HEATMAP_SITES", 7)
    ax = plots.plot_row(posterior, 0)
    states = posterior.states(0).values[0]
    for draw in range(0, 30, 3):
        for t in range(0, 24, 4):
            assert pixel(ax, t, draw) == pytest.approx(states[draw : draw + 3, t : t + 4].mean())


def test_row__plain_vectors(vectors):
    ax = plots.plot_row(vectors)
    shown = [[pixel(ax, t, draw) for t in range(6)] for draw in range(12)]
    np.testing.assert_array_equal(shown, vectors.draws.values[0])


def test_row__raises(posterior, vectors):
    with pytest.raises(ch.InvalidInput, match=r"row must be in 0\.\.2, got 3"):
        plots.plot_row(posterior, 3)
    with pytest.raises(ch.InvalidInput, match="got None"):
        plots.plot_row(posterior)
    with pytest.raises(ch.InvalidInput, match="no rows, got row 0; leave row out"):
        plots.plot_row(vectors, 0)
    with pytest.raises(ch.InvalidInput, match=r"chain must be in 0\.\.1, got 2"):
        plots.plot_row(posterior, 0, chain=2)
    with pytest.raises(ch.InvalidInput, match=r"some of 0\.\.29"):
        plots.plot_row(posterior, 0, draws=slice(40, 50))
    with pytest.raises(ch.InvalidInput, match="forward"):
        plots.plot_row(posterior, 0, draws=slice(None, None, -1))


def test_block_means__match_a_plain_loop():
    values = np.random.default_rng(1).integers(0, 2, (11, 5))
    for most in (1, 3, 4, 11, 50):
        means, step = block_means(values, 0, most)
        assert len(means) <= most
        np.testing.assert_allclose(means, [values[i : i + step].mean(axis=0) for i in range(0, 11, step)])


# Marginals


def test_marginals__with_the_exact_ones(posterior):
    exact = ch.exact.marginals(posterior.model, posterior.data)
    fig = plots.plot_marginals(posterior, exact=exact)
    for k, ax in enumerate(fig.axes):
        mean = posterior.states(k).values.mean(axis=(0, 1))
        np.testing.assert_allclose(steps(ax, "draws")[0], mean)
        np.testing.assert_array_equal(steps(ax, "exact")[0], exact[k])
        assert any(c.get_label() == "_starts" for c in ax.collections)
    assert [ax.get_ylabel() for ax in fig.axes] == ["row_0", "row_1"]  # row 2 is fixed


def test_marginals__without_model_and_data(posterior):
    fig = plots.plot_marginals(replace(posterior, model=None, data=None))
    assert [ax.get_ylabel() for ax in fig.axes] == ["row_0", "row_1", "row_2"]
    assert not [patch for patch in fig.axes[0].patches if patch.get_label() == "exact"]


def test_marginals__raise(posterior, vectors):
    with pytest.raises(ch.InvalidInput, match=r"exact must have shape \(3, 24\) \(rows, sites\), got \(2, 24\)"):
        plots.plot_marginals(posterior, exact=np.zeros((2, 24)))
    with pytest.raises(ch.InvalidInput, match="no rows"):
        plots.plot_marginals(vectors)


# Configurations


def test_configurations__states_and_probabilities(posterior):
    found = posterior.top_configurations(6, 12, n=3)
    fig = plots.plot_configurations(found)
    panels = np.array(fig.axes).reshape(3, 2)
    for (ax, bar), configuration in zip(panels, found, strict=True):
        np.testing.assert_array_equal(cells(ax), configuration.states)
        assert bar.patches[0].get_width() == pytest.approx(configuration.probability)
        assert bar.texts[0].get_text().startswith(f"{configuration.probability:.3g} ± ")
    total = 100 * sum(configuration.probability for configuration in found)
    assert f"{total:.3g}% of the posterior" in panels[0, 0].get_title()


def test_configurations__a_bound_where_all_draws_agree():
    fig = plots.plot_configurations(by_hand(np.full((1, 1_200, 4), 2)).top_configurations(0, 4))
    assert fig.axes[1].texts[0].get_text() == "> 0.997"


def test_configurations__plain_tuples():
    fig = plots.plot_configurations([(0.5, [[0, 1], [1, 1]], 7)])
    ax, bar = fig.axes
    assert cells(ax).tolist() == [[0, 1], [1, 1]]
    assert ax.get_xlim() == (6.5, 8.5)
    assert bar.texts[0].get_text() == "0.5"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one, got none"),
        ([(0.5, [[0, -2]], 0)], "whole numbers"),
        ([(0.5, [0, 1], 0)], "whole numbers"),
        ([(0.5, [[0, 1]])], "a configuration must be"),
        ([0.5], "a configuration must be"),
        ([(0.5, [[0, 1]], 0), (0.4, [[0, 1]], 3)], "of one region"),
    ],
)
def test_configurations__raise(given, message):
    with pytest.raises(ch.InvalidInput, match=message):
        plots.plot_configurations(given)


def test_configurations__below_the_data_with_names(posterior):
    labels = plots.Labels(names=("1", "X"), position=np.r_[np.arange(10), np.arange(14)] * 1e6)
    named = replace(posterior, info=posterior.info | {"row_names": ["kettle", "oven", "base"]})
    found = named.top_configurations(12, 20, n=2)
    fig = plots.plot_configurations(found, posterior=named, labels=labels)
    data, _, first, _, second, _ = fig.axes
    np.testing.assert_array_equal(curve(data, "data").get_ydata(), posterior.data.y[12:20])
    assert steps(data, "posterior mean")[0].shape == (8,)
    assert [label.get_text() for label in first.get_yticklabels()] == ["kettle", "oven"]  # the base is fixed
    assert second.get_xlabel() == "chromosome X, position (Mb)"
    np.testing.assert_array_equal(cells(second), found[1].states[:2])


# States


@pytest.fixture(scope="module")
def washer():
    model = ch.FactorialHMM(
        rows=[
            ch.Row(name="washer", values=[0, 150, 2000], chain=ch.Sticky(renew=0.1)),
            ch.Row(name="lamp", values=[0, 100], chain=ch.Switch(enter=0.1, leave=0.1)),
        ],
        emission=ch.Gaussian(sd=60.0),
    )
    return ch.sample(model, model.simulate(30, seed=3)[1], draws=40, chains=2, seed=1, progress=False)


def test_marginals__states_on_top_of_each_other(washer):
    fig = plots.plot_marginals(washer)
    top, below = fig.axes
    p = washer.probabilities("washer").values
    values, _, _, foot = steps(top, "state 2")
    np.testing.assert_allclose(values, p[2])
    np.testing.assert_allclose(foot, 0)
    values, _, _, foot = steps(top, "state 1")
    np.testing.assert_allclose(foot, p[2])
    np.testing.assert_allclose(values, p[1] + p[2])
    assert [text.get_text() for text in top.get_legend().get_texts()] == ["state 2", "state 1"]
    np.testing.assert_allclose(steps(below, "draws")[0], washer.marginals().values[1])
    assert [ax.get_ylabel() for ax in fig.axes] == ["washer", "lamp"]


def test_marginals__equal_rows_by_how_many_are_on():
    model = ch.FactorialHMM(
        rows=[ch.Row(name="lamp", values=[0, 100], chain=ch.Switch(enter=0.1, leave=0.1), copies=3)],
        emission=ch.Gaussian(sd=60.0),
    )
    posterior = ch.sample(model, model.simulate(30, seed=3)[1], draws=40, chains=2, seed=1, progress=False)
    (ax,) = plots.plot_marginals(posterior).axes
    on = sum(posterior.states(k).values for k in range(3))
    np.testing.assert_allclose(cells(ax), [(on == n).mean(axis=(0, 1)) for n in range(4)], atol=1e-12)
    assert ax.get_ylabel() == "lamp_1-3\n(number on)"
    assert ax.get_ylim() == (-0.5, 3.5)


def test_fixed_rows__are_named_in_the_title_and_have_no_room():
    oven = ch.Row(name="oven", values=[0, 100], chain=ch.Switch(enter=0.1, leave=0.1))
    standby = ch.Row(name="standby", values=[0, 20], fixed=1)
    model = ch.FactorialHMM(rows=[standby, oven], emission=ch.Gaussian(sd=20.0))
    posterior = ch.sample(model, model.simulate(30, seed=3)[1], draws=40, chains=2, seed=1, progress=False)
    (panel,) = plots.plot_marginals(posterior, exact=posterior.marginals().values).axes
    assert panel.get_ylabel() == "oven"
    np.testing.assert_allclose(steps(panel, "exact")[0], posterior.marginals().sel(row="oven").values)
    states = plots.plot_states(posterior)
    assert [label.get_text() for label in states.get_yticklabels()] == ["oven"]
    assert all(ax.get_title().endswith("; fixed: standby = 1") for ax in (panel, states))
    below = plots.plot_configurations(posterior.top_configurations(0, 30, n=1), posterior=posterior).axes[2]
    assert below.get_title().endswith("(dark = 1, light = 0); fixed: standby = 1")
    assert [label.get_text() for label in below.get_yticklabels()] == ["oven"]
    np.testing.assert_array_equal(cells(below), posterior.top_configurations(0, 30, n=1)[0].states[1:])


def test_states__the_most_probable_of_every_row(washer):
    ax = plots.plot_states(washer, start=5, stop=25)
    best = [washer.probabilities(k).values[:, 5:25].argmax(axis=0) for k in range(2)]
    np.testing.assert_allclose(cells(ax), [best[0] / 2, best[1]])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["washer (0–2)", "lamp"]


@pytest.mark.parametrize("shape", [[1], [1, 0, 1], [1, 1, 0, 1, 1]])
def test_states__no_event_is_lost_between_pixels(shape):
    """A site of 5,000 is a fifth of a pixel: an event of row 0 and a break of row 1 are lines of about a pixel."""
    for at in np.random.default_rng(1).integers(10, 4_980, 8).tolist():
        codes = np.full((1, 2, 5_000), 2)
        codes[:, :, at : at + len(shape)] = 2 - np.array(shape)  # code 1 in an event: row 0 on, row 1 off
        ax = plots.plot_states(by_hand(codes), ax=plt.figure(figsize=(9, 2), dpi=100).add_subplot())
        ax.figure.canvas.draw()
        pixels = np.asarray(ax.figure.canvas.buffer_rgba())[:, :, 0].astype(int)
        box = ax.get_window_extent()
        heights = [round(len(pixels) - box.y0 - box.height * (1 - share)) for share in (1 / 6, 1 / 2)]
        first, second = (pixels[y, round(box.x0) + 3 : round(box.x1) - 3] for y in heights)
        assert first.min() < 150 < first.max()
        assert second.min() < 100 < second.max()
        assert np.median(first) > 200
        assert np.median(second) < 50


def test_states__a_long_signal_of_short_events_is_drawn_at_once():
    codes = np.tile(np.array([0, 0, 0, 1]), 50_000)[None, None].repeat(2, axis=1)
    ax = plots.plot_states(by_hand(codes))
    lines = [one for one in ax.collections if one.get_label() == "_events"]
    assert len(lines) == 1
    assert len(lines[0].get_segments()) <= paths.NARROW + 1


# Log joint


def test_log_joint__a_trace_per_chain_and_the_exact_band(posterior):
    ax = plots.plot_log_joint(posterior, exact_band=(-50.0, -60.0, -45.0))
    for c in range(2):
        np.testing.assert_array_equal(curve(ax, f"chain {c}").get_ydata(), posterior.log_joint.values[c])
    assert set(curve(ax, "exact, mean").get_ydata()) == {-50.0}
    (span,) = ax.patches
    assert (span.get_y(), span.get_y() + span.get_height()) == (-60.0, -45.0)


def test_log_joint__several_posteriors_one_colour_each(posterior):
    ax = plots.plot_log_joint({"swap": posterior, "again": posterior})
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["swap", "again"]
    assert curve(ax, "swap").get_color() != curve(ax, "again").get_color()
    assert curve(ax, "swap").get_marker() != curve(ax, "again").get_marker()
    assert curve(ax, "_swap").get_color() == curve(ax, "swap").get_color()  # its other chain


def test_log_joint__a_long_trace_has_its_block_means(posterior, monkeypatch):
    monkeypatch.setattr(runs, "TRACE_BLOCKS", 5)
    ax = plots.plot_log_joint(posterior)
    values = posterior.log_joint.values[0]
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), values)
    np.testing.assert_allclose(curve(ax, "chain 0").get_ydata(), values.reshape(5, 6).mean(axis=1))
    np.testing.assert_allclose(curve(ax, "chain 0").get_xdata(), np.arange(30).reshape(5, 6).mean(axis=1))
    assert ax.get_title() == "Trace of log p(X, y) (thin: every draw; thick: means of 6 draws)"


def test_log_joint__raises(posterior):
    with pytest.raises(ch.InvalidInput, match=r"\(mean, low, high\) with low <= mean <= high"):
        plots.plot_log_joint(posterior, exact_band=(0.0, 1.0, 2.0))
    with pytest.raises(ch.InvalidInput, match="posteriors must hold at least one"):
        plots.plot_log_joint({})


# Hamming distances


def plain_hamming(posterior, lag):
    states = np.stack([posterior.states(k).values for k in range(3)])
    return (states[:, :, lag:] != states[:, :, :-lag]).mean(axis=(0, 3)).ravel()


def test_hamming__boxes_are_quartiles(posterior):
    ax = plots.plot_hamming({"a": posterior, "b": posterior}, lags=(1, 4))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "4"]
    boxes = [patch for patch in ax.patches if patch.get_label() == "a"]
    for box, lag in zip(boxes, (1, 4), strict=True):
        heights = box.get_path().vertices[:, 1]
        low, high = np.quantile(plain_hamming(posterior, lag), [0.25, 0.75])
        assert (heights[heights > 0].min(), heights.max()) == pytest.approx((low, high))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["a", "b"]


def test_hamming__single_values_lie_behind(posterior):
    ax = plots.plot_hamming(posterior, lags=(2,))
    assert ax.get_legend() is None
    dots = curve(ax, "_values").get_ydata()
    np.testing.assert_allclose(np.sort(dots), np.sort(plain_hamming(posterior, 2)))


def test_hamming__long_runs_are_seen_through_their_last_draws(posterior, monkeypatch):
    monkeypatch.setattr(runs, "HAMMING_CODES", 10 * 2 * 24)
    ax = plots.plot_hamming(posterior, lags=(2,))
    last = replace(posterior, draws=posterior.draws[:, -11:])
    np.testing.assert_allclose(np.sort(curve(ax, "_values").get_ydata()), np.sort(plain_hamming(last, 2)))


def test_hamming__raises(posterior):
    with pytest.raises(ch.InvalidInput, match="lags must hold at least one"):
        plots.plot_hamming(posterior, lags=())
    with pytest.raises(ch.InvalidInput, match=r"lags must be whole numbers in 1\.\.29"):
        plots.plot_hamming(posterior, lags=(1, 50))


# Jumps


def test_jumps__mean_and_quartiles():
    rng = np.random.default_rng(1)
    few, many = (np.cumsum(rng.random((10, 50)) < rate, axis=1) for rate in (0.1, 0.6))
    ax = plots.plot_jumps({"few": few, "many": many})
    np.testing.assert_allclose(curve(ax, "few").get_ydata(), few.mean(axis=0))
    assert curve(ax, "few").get_xdata().tolist() == list(range(1, 51))
    low, high = np.quantile(few, [0.25, 0.75], axis=0)
    for i in (9, 30):
        assert band(ax, i + 1) == pytest.approx((low[i], high[i]))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["many", "few"]
    assert curve(ax, "few").get_linestyle() != curve(ax, "many").get_linestyle()
    assert "10 runs" in ax.get_title()


def test_jumps__long_curves_keep_their_ends(monkeypatch):
    monkeypatch.setattr(runs, "CURVE_POINTS", 7)
    ax = plots.plot_jumps({"a": np.arange(100)[None]})
    x, y = curve(ax, "a").get_data()
    assert len(x) == 7
    assert (x[0], x[-1], y[-1]) == (1, 100, 99)
    np.testing.assert_array_equal(y, np.asarray(x) - 1)


def test_jumps__raises():
    with pytest.raises(ch.InvalidInput, match=r"curves\['a'\] must have shape \(runs, iterations\), got \(5,\)"):
        plots.plot_jumps({"a": np.arange(5)})
    with pytest.raises(ch.InvalidInput, match="curves must hold at least one"):
        plots.plot_jumps({})


# Ladder


def test_ladder__rejection_sites_and_barrier(posterior):
    fig = plots.plot_ladder(posterior)
    rejection, sites, barrier = fig.axes
    stats = posterior.exchange_stats
    assert [bar.get_height() for bar in rejection.patches] == stats["rejection"].values.tolist()
    assert [bar.get_height() for bar in sites.patches] == stats["columns"].values.tolist()
    line = curve(barrier, "from rejections")
    np.testing.assert_array_equal(line.get_xdata(), posterior.betas)
    np.testing.assert_allclose(line.get_ydata(), [0, *np.cumsum(stats["rejection"].values)])
    assert barrier.get_xscale() == "log"
    assert [tick.get_text() for tick in barrier.get_xticklabels()] == ["0.25", "0.5", "1"]


def test_ladder__that_reaches_the_prior(posterior):
    ladder = ch.Ladder(betas=(0.0, 0.05, 0.3, 1.0))
    barrier = plots.plot_ladder(run(posterior.model, posterior.data, ladder=ladder, draws=5)).axes[2]
    assert barrier.get_xscale() == "symlog"
    assert [tick.get_text() for tick in barrier.get_xticklabels()] == ["0", "0.1", "1"]
    x = barrier.transData.transform([(beta, 0) for beta in ladder.betas])[:, 0]
    assert np.all(np.diff(x) > 10)  # pixels: all rungs can be told apart


def test_ladder__where_rejection_saturates(posterior):
    stats = posterior.exchange_stats.assign(length=("pair", [2.0, 3.0]))
    barrier = plots.plot_ladder(replace(posterior, exchange_stats=stats)).axes[2]
    assert curve(barrier, "from log-likelihoods").get_ydata().tolist() == [0, 2, 5]


def test_ladder__raises_without_exchanges(posterior):
    alone = run(posterior.model, posterior.data, exchange=None, ladder=[1], draws=5)
    with pytest.raises(ch.InvalidInput, match="made no exchange"):
        plots.plot_ladder(alone)


# All


def test_given_axes_are_used(posterior):
    curves = {"a": np.arange(6).reshape(2, 3)}
    for draw in (
        lambda ax: plots.plot_level(posterior, ax=ax),
        lambda ax: plots.plot_row(posterior, 0, ax=ax),
        lambda ax: plots.plot_log_joint(posterior, ax=ax),
        lambda ax: plots.plot_hamming(posterior, ax=ax, lags=(1,)),
        lambda ax: plots.plot_jumps(curves, ax=ax),
    ):
        fig, ax = plt.subplots()
        assert draw(ax) is ax
        assert plt.get_fignums() == [fig.number]
        assert ax.get_title()
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        fig.canvas.draw()
        plt.close(fig)


def test_given_figures_are_used(posterior):
    found = [(0.5, [[0, 1]], 0)]
    for draw in (
        lambda fig: plots.plot_marginals(posterior, fig=fig),
        lambda fig: plots.plot_ladder(posterior, fig=fig),
        lambda fig: plots.plot_configurations(found, fig=fig),
    ):
        whole = plt.figure(layout="constrained")
        half, _ = whole.subfigures(1, 2)
        assert draw(half) is half
        assert half.axes
        assert plt.get_fignums() == [whole.number]
        whole.canvas.draw()
        plt.close(whole)


def test_pictures_are_not_imported_with_the_package():
    code = "import sys, chiasma; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("step", "zone", "labels", "offset"),
    [
        (300.0, UTC, ["08:30", "09:00", "09:30", "10:00"], "2024-05-01"),
        (300.0, timezone(timedelta(hours=2)), ["10:30", "11:00", "11:30", "12:00"], "2024-05-01"),
        (3600.0, UTC, ["20:00", "00:00\n2024-05-02", "04:00"], "2024-05-01 – 2024-05-02"),
        (1.0, UTC, ["05", "10", "15", "20"], "2024-05-01 08:00"),
    ],
)
def test_level__time_stamps_are_dates_on_the_axis(posterior, step, zone, labels, offset):
    data = ch.Observations(posterior.data.y)
    position = 1714550400 + step * np.arange(24)  # 2024-05-01 08:00
    ax = plots.plot_level(
        replace(posterior, data=data), start=2, labels=plots.Labels(position=position, axis="time", zone=zone)
    )
    ax.figure.canvas.draw()
    shown = [text.get_text() for text in ax.get_xticklabels()]
    assert set(labels) <= set(shown)
    assert ax.xaxis.get_offset_text().get_text() == offset
    assert ax.get_xlabel() == "time"


def test_level__the_legend_is_below_a_date_in_a_second_line(posterior):
    data = ch.Observations(posterior.data.y)
    position = 1714550400 + 3600 * np.arange(24)
    ax = plots.plot_level(replace(posterior, data=data), labels=plots.Labels(position=position, axis="time", zone=UTC))
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y1 < ax.xaxis.label.get_window_extent().y0 + 2


def test_row__time_stamps_are_dates_on_the_axis(posterior):
    # The last 12 sites are three times as far apart.
    position = 1714550400 + 300 * np.where(np.arange(24) < 12, np.arange(24), 3 * np.arange(24) - 24)
    known = plots.Labels(position=position, axis="time", zone=UTC)
    whole = replace(posterior, data=ch.Observations(posterior.data.y))
    ax = plots.plot_row(whole, 1, chain=1, draws=slice(5, 15), labels=known)
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "time"
    assert ax.xaxis.get_offset_text().get_text() == "2024-05-01"
    assert "10:00" in [text.get_text() for text in ax.get_xticklabels()]
    np.testing.assert_array_equal(cells(ax), posterior.states(1).values[1, 5:15])
    assert ax.get_ylim() == (4.5, 14.5)


def test_level__time_stamps_of_one_sequence(posterior):
    position = 1714550400 + 300 * np.arange(24.0)
    known = plots.Labels(position=position, names=("house a", "house b"), axis="time", zone=UTC)
    ax = plots.plot_level(posterior, start=12, labels=known)
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "house b, time"
    assert "09:10" in [text.get_text() for text in ax.get_xticklabels()]
