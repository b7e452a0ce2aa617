"""Plots along the sites: the signal and its level, one row over draws, marginals, states, rivals of a region."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from chiasma.errors import InvalidInput
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.report.figures.sites import Labels, SiteRange
from chiasma.report.figures.style import (
    BLACK,
    BLUE,
    MANY_POINTS,
    ORANGE,
    SKY,
    STATES,
    Canvas,
    axes_for,
    block_means,
    canvas_for,
    draw_steps,
    entitle,
    label_sites,
    legend_below,
    mark_beyond,
    mark_starts,
    n_sites,
    region,
    robust_limits,
    row_name,
    whole_ticks,
)
from chiasma.results.configurations import Configuration, equal_runs, share_text
from chiasma.results.expected import Band, expected_signal, has_levels, less_offset
from chiasma.results.posterior import Posterior
from chiasma.results.row_groups import RowProbabilities, fixed_text, row_probabilities, shown_rows
from chiasma.types import Floats

# Pixels of a heatmap; finer data are averaged.
HEATMAP_SITES, HEATMAP_DRAWS = 2_000, 1_000
# More sites than this are drawn as this many blocks, each from its lowest to its highest value.
MOST_SITES, MOST_BLOCKS = 20_000, 3_000
# States of a row that a legend lists.
MOST_LEGEND = 6
# An event narrower than this part of the axis, about two pixels, is a line of this many points, about one.
NARROW, PIXEL = 600, 0.9
# Height in inches of the data above configurations.
DATA_HEIGHT = 1.8


def plot_level(
    posterior: Posterior,
    *,
    ax: Axes | None = None,
    start: int = 0,
    stop: int | None = None,
    channel: int = 0,
    labels: Labels | None = None,
    band: Band | None = None,
) -> Axes:
    """The data of sites start to stop - 1, with the posterior mean and 5-95% band of the expected signal.

    Stretches without data are blank. A few values far from all others do not stretch the axis: they are triangles at
    its edge.

    Parameters
    ----------
    posterior : Posterior of a FactorialHMM with an additive emission.
    ax : matplotlib axes to draw on; default: a new figure.
    start, stop : int, draw sites start..stop-1; default: all.
    channel : int, which of several channels.
    labels : names of chromosomes and positions, as ch.plots.Labels.
    band : the band of these sites, if it is known already.

    Returns
    -------
    The axes.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> ch.plots.plot_level(posterior).get_ylabel()
    'signal'
    """
    data = _data_with_levels(posterior)
    start, stop = region(start, stop, n_sites(posterior))
    y = _channel(less_offset(posterior, data), channel)[start:stop]
    band = expected_signal(posterior, start, stop, channel) if band is None else band
    ax = axes_for(ax, (9, 3.2))
    stretch = _stretch(posterior, start, stop, labels)
    pixels = stop - start > MANY_POINTS
    low, high, mean = stretch.lowest(band.low), stretch.highest(band.high), stretch.mean(band.mean)
    if stretch.is_thinned:
        tops, edges = stretch.steps(stretch.highest(y))
        feet, _ = stretch.steps(stretch.lowest(y))
        # The edge makes a peak visible that is narrower than a pixel.
        style: dict[str, Any] = {"color": "0.7", "edgecolor": "0.7", "linewidth": 0.7, "rasterized": True}
        draw_steps(ax, tops, edges, baseline=feet, label="data, lowest to highest", **style)
    else:
        size = float(np.interp(stop - start, [200, 5_000], [3.5, 1.2]))
        style = {"color": "0.6", "markersize": size, "markeredgewidth": 0, "rasterized": pixels}
        ax.plot(stretch.centre, y, "o", label="data", **style)
    tops, edges = stretch.steps(high)
    feet, _ = stretch.steps(low)
    draw_steps(ax, tops, edges, baseline=feet, color=SKY, alpha=0.6, rasterized=pixels, label="5–95% of draws")
    steps, edges = stretch.steps(mean)
    width = 0.9 if pixels else 1.5
    # Above the points, which would hide it on plateaus.
    draw_steps(ax, steps, edges, color=BLUE, lw=width, rasterized=pixels, label="posterior mean", zorder=3)
    shown = ~stretch.blank
    ax.set_ylim(*robust_limits(y, [low[shown], high[shown]]))
    tops, feet = stretch.highest(y), stretch.lowest(y)
    limits = ax.get_ylim()
    n_beyond = mark_beyond(ax, stretch.centre, np.where(tops > limits[1], tops, feet))
    mark_starts(ax, stretch)
    label_sites(ax, stretch)
    ax.set_ylabel(stretch.labels.value if data.y.ndim == 1 else f"{stretch.labels.value}, channel {channel}")
    notes = [f"{n_beyond:,} beyond the axis (triangles)"] if n_beyond else []
    n_missing = int(np.isnan(y).sum())
    notes += [f"{n_missing:,} of {stop - start:,} sites missing"] if n_missing else []
    entitle(ax, "Data and posterior of the expected signal" + (f"; {', '.join(notes)}" if notes else ""))
    dot = legend_below(ax, 3).legend_handles[0]
    if not stretch.is_thinned:
        assert dot is not None
        dot.set(markersize=5)
    return ax


def plot_row(
    posterior: Posterior,
    row: int | None = None,
    *,
    ax: Axes | None = None,
    chain: int = 0,
    draws: slice = slice(None),
    start: int = 0,
    stop: int | None = None,
    labels: Labels | None = None,
) -> Axes:
    """Heatmap of one row over the draws of a chain, sites start to stop - 1: dark is the highest state, light is 0.

    If there are more draws or sites than pixels, neighbours are averaged. Where labels give positions, sites are as
    wide as they are there, and stretches without data are blank.

    Parameters
    ----------
    posterior : Posterior.
    row : int, number of the row; omit it for a posterior over plain vectors.
    ax : matplotlib axes to draw on; default: a new figure.
    chain : int.
    draws : slice of the draws, such as slice(0, 100).
    start, stop : int, draw sites start..stop-1; default: all.
    labels : names of chromosomes and positions, as ch.plots.Labels.

    Returns
    -------
    The axes.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> ch.plots.plot_row(posterior, 1).get_ylabel()
    'draw'
    """
    start, stop = region(start, stop, n_sites(posterior))
    values, kept = _trace_of(posterior, row, chain, draws, start, stop)
    ax = axes_for(ax, (7, 4))
    low, high = (0, 1) if posterior.n_rows is not None else (values.min(), values.max())
    if row is not None:
        high = int(posterior.layout.sizes[row]) - 1
    lines, per_line = block_means(values, 0, HEATMAP_DRAWS)
    spacing = kept[1] - kept[0] if len(kept) > 1 else 1
    foot = kept[0] - 0.5 * spacing
    heights = foot + np.arange(len(lines) + 1) * per_line * spacing
    stretch = SiteRange(posterior.data, start, stop, labels, HEATMAP_SITES)
    if stretch.has_positions:
        grid = np.ma.masked_invalid(np.array([stretch.steps(stretch.mean(line))[0] for line in lines]))
        edges = stretch.steps(stretch.left)[1]
        ax.pcolormesh(edges, heights, grid, cmap=STATES, vmin=low, vmax=high, rasterized=True)
    else:
        small, per_column = block_means(lines, 1, HEATMAP_SITES)
        extent = (start - 0.5, start - 0.5 + small.shape[1] * per_column, heights[0], heights[-1])
        # Image smoothing blurs edges by about one cell; with cells this small the blur is invisible.
        fine = np.repeat(np.repeat(small, -(-500 // small.shape[0]), axis=0), -(-1_000 // small.shape[1]), axis=1)
        ax.imshow(fine, cmap=STATES, vmin=low, vmax=high, aspect="auto", origin="lower", extent=extent)
    ax.set_ylim(foot, foot + len(kept) * spacing)
    mark_starts(ax, stretch)
    label_sites(ax, stretch)
    whole_ticks(ax.yaxis)
    ax.set_ylabel("draw")
    shades = f"dark = {high:g}, light = {low:g}"
    name = "Draws" if row is None else row_name(posterior, row)
    entitle(ax, f"{name} of chain {chain} ({shades})")
    return ax


def plot_marginals(
    posterior: Posterior,
    *,
    fig: Canvas | None = None,
    exact: npt.ArrayLike | None = None,
    labels: Labels | None = None,
) -> Canvas:
    """Posterior probability that a row is on, one panel per row along the sites.

    A row of more than two states has the probabilities of its states on top of each other, the highest state darkest.
    Rows that cannot be told apart share a panel: the probabilities that 1, 2, ... of them are on. Fixed rows are named
    in the title. Stretches without data are blank.

    Parameters
    ----------
    posterior : Posterior of a FactorialHMM.
    fig : matplotlib figure or subfigure to draw on; default: a new figure.
    exact : (K, T) exact probabilities, such as from ch.exact.marginals, drawn over it.
    labels : names of chromosomes and positions, as ch.plots.Labels.

    Returns
    -------
    The figure.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> len(ch.plots.plot_marginals(posterior).axes)
    2
    """
    shape = (posterior.layout.sizes.size, n_sites(posterior))
    solution = None if exact is None else np.asarray(exact, float)
    if solution is not None and solution.shape != shape:
        raise InvalidInput(f"exact must have shape {shape} (rows, sites), got {solution.shape}")
    shown = row_probabilities(posterior, together=solution is None)
    n_rows = len(shown)
    fig = canvas_for(fig, marginals_size(posterior))
    heights = [2 if row.is_count else 1 for row in shown]
    panels = fig.subplots(n_rows, 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    stretch = _stretch(posterior, 0, shape[1], labels)
    pixels = shape[1] > MANY_POINTS
    for i, (ax, row) in enumerate(zip(panels, shown, strict=True)):
        ax.spines[["top", "right"]].set_visible(False)
        if row.is_count:
            _counted(ax, row, stretch)
        elif len(row.probabilities) > 1:
            _stacked(ax, row, stretch, pixels)
        else:
            peaks, edges = stretch.steps(stretch.highest(row.probabilities[0]))
            draw_steps(ax, peaks, edges, baseline=0.0, color=SKY, alpha=0.75, rasterized=pixels, label="draws")
            draw_steps(ax, peaks, edges, color=BLUE, lw=0.6, rasterized=pixels)
        if solution is not None:
            steps, edges = stretch.steps(stretch.highest(solution[row.rows[0]]))
            draw_steps(ax, steps, edges, color=BLACK, lw=0.9, ls=(0, (3, 1.5)), rasterized=pixels, label="exact")
        if not row.is_count:
            ax.set_ylim(-0.03, 1.06)
            ax.set_yticks([0, 1] if n_rows > 8 else [0, 0.5, 1])
        more = "\n(number on)" if row.is_count else ""
        ax.set_ylabel(f"{row.name}{more}", rotation=0, ha="right", va="center", labelpad=8)
        mark_starts(ax, stretch, names=i == 0)
    label_sites(panels[-1], stretch)
    overlay = "" if solution is None else " (filled), and the exact solution (dashed)"
    several = any(len(row.probabilities) > 1 and not row.is_count for row in shown)
    counted = any(row.is_count for row in shown)
    what = "of the states of each row (darker: higher)" if several else "that each row is on"
    what += "; of equal rows, of how many are on (darker: more probable)" if counted else ""
    entitle(panels[0], f"Posterior probability {what}{overlay}{_held(posterior)}")
    return fig


def marginals_size(posterior: Posterior) -> tuple[float, float]:
    """Figure size in inches for the rows of a posterior that are not fixed."""
    n_panels = sum(2 if len(rows) > 1 else 1 for rows in shown_rows(posterior))
    return 11.0, 1.0 + max(0.45, min(0.95, 8 / n_panels)) * n_panels


def _counted(ax: Axes, row: RowProbabilities, stretch: SiteRange) -> None:
    """A heatmap of the probabilities that 0, 1, 2, ... of several equal rows are on."""
    none = 1 - row.probabilities.sum(axis=0, keepdims=True)
    lines = [stretch.steps(stretch.mean(p)) for p in np.concatenate([none, row.probabilities])]
    grid = np.ma.masked_invalid(np.array([values for values, _ in lines]))
    highest = len(row.probabilities)
    ax.pcolormesh(lines[0][1], np.arange(highest + 2) - 0.5, grid, cmap=STATES, vmin=0, vmax=1, rasterized=True)
    ax.set_ylim(-0.5, highest + 0.5)
    whole_ticks(ax.yaxis)


def _stacked(ax: Axes, row: RowProbabilities, stretch: SiteRange, pixels: bool) -> None:
    """Probabilities of the states 1, 2, ... of a row on top of each other; what is left to 1 is state 0."""
    foot = np.zeros(len(stretch.first))
    highest = len(row.probabilities)
    for state in range(highest, 0, -1):
        top = foot + stretch.mean(row.probabilities[state - 1])
        values, edges = stretch.steps(top)
        under, _ = stretch.steps(foot)
        shade = STATES(0.25 + 0.75 * state / highest)
        name = f"{state} on" if row.is_count else f"state {state}"
        draw_steps(ax, values, edges, baseline=under, color=shade, lw=0, rasterized=pixels, label=name)
        foot = top
    if highest <= MOST_LEGEND:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="x-small", handlelength=1)


def plot_states(
    posterior: Posterior,
    *,
    ax: Axes | None = None,
    start: int = 0,
    stop: int | None = None,
    labels: Labels | None = None,
) -> Axes:
    """Heatmap of the most probable state of every row along sites start to stop - 1: dark is its highest state.

    Rows that cannot be told apart are one line: how many of them are on. Fixed rows are named in the title. Where there
    are more sites than pixels, neighbours are averaged, and an event is drawn at least one pixel wide. Stretches
    without data are blank.

    Parameters
    ----------
    posterior : Posterior of a FactorialHMM.
    ax : matplotlib axes to draw on; default: a new figure.
    start, stop : int, draw sites start..stop-1; default: all.
    labels : names of chromosomes and positions, as ch.plots.Labels.

    Returns
    -------
    The axes.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> [text.get_text() for text in ch.plots.plot_states(posterior).get_yticklabels()]
    ['row_0', 'row_1']
    """
    start, stop = region(start, stop, n_sites(posterior))
    shown = row_probabilities(posterior)
    n_rows = len(shown)
    ax = axes_for(ax, (9, 0.9 + 0.3 * n_rows))
    stretch = SiteRange(posterior.data, start, stop, labels, MOST_BLOCKS)
    shades = []
    for row in shown:
        p = row.probabilities[:, start:stop]
        shades.append(np.concatenate([1 - p.sum(axis=0, keepdims=True), p]).argmax(axis=0) / len(p))
    _shade_rows(ax, np.array(shades), stretch)
    ax.set_yticks(range(n_rows), labels=[_with_states(row) for row in shown])
    ax.tick_params(left=False)
    mark_starts(ax, stretch)
    label_sites(ax, stretch)
    entitle(ax, f"Most probable state of each row (light: state 0, dark: its highest state){_held(posterior)}")
    return ax


def _held(posterior: Posterior) -> str:
    """Rows that a figure leaves out, because they are in one state throughout."""
    held = fixed_text(posterior)
    return f"; fixed: {held}" if held else ""


def plot_configurations(
    configurations: Sequence[Any],
    *,
    fig: Canvas | None = None,
    posterior: Posterior | None = None,
    labels: Labels | None = None,
    title: str | None = None,
    focus: tuple[int, int] | None = None,
) -> Canvas:
    """Configurations of a region below each other, the darker the higher the state, each with its probability as a bar.

    Parameters
    ----------
    configurations : items of `Posterior.top_configurations`, or tuples (probability, states (K, L), start).
    fig : matplotlib figure or subfigure to draw on; default: a new figure.
    posterior : with it, the data of the region and their level are above, rows have their names, and fixed rows are
        left out.
    labels : names of chromosomes and positions, as ch.plots.Labels.
    title : of the panels; default: how much of the posterior the configurations hold.
    focus : sites start..stop-1 of the region that dashed lines enclose, where the rest of it is there for context.

    Returns
    -------
    The figure.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> fig = ch.plots.plot_configurations(posterior.top_configurations(0, 4), posterior=posterior)
    >>> fig.axes[0].get_ylabel()
    'signal'
    """
    patterns = [_pattern(item) for item in configurations]
    if not patterns:
        raise InvalidInput("configurations must hold at least one, got none; ask top_configurations for n >= 1")
    shapes = {(states.shape, start) for _, _, states, start in patterns}
    if len(shapes) > 1:
        raise InvalidInput(f"configurations must be of one region, got shapes and starts {sorted(shapes)}")
    ((n_rows, length), start) = shapes.pop()
    rows = list(range(n_rows)) if posterior is None else [k for (k,) in shown_rows(posterior, together=False)]
    with_data = posterior is not None and has_levels(posterior)
    fig = canvas_for(fig, configurations_size(len(patterns), len(rows), with_data))
    widest = max(probability for probability, *_ in patterns)
    highest = max(1, *(int(states.max()) for _, _, states, _ in patterns))
    heights = [max(0.5, 0.16 * len(rows) + 0.12)] * len(patterns)
    grid = fig.subplots(
        len(patterns) + with_data,
        2,
        squeeze=False,
        sharex="col",
        width_ratios=[5, 1],
        height_ratios=[DATA_HEIGHT, *heights] if with_data else heights,
    )
    panels = grid[1:] if with_data else grid
    stretch = SiteRange(None if posterior is None else posterior.data, start, start + length, labels, HEATMAP_SITES)
    if with_data:
        assert posterior is not None
        plot_level(posterior, ax=grid[0, 0], start=start, stop=start + length, labels=labels)
        legend = grid[0, 0].get_legend()
        words = [text.get_text() for text in legend.get_texts()]
        grid[0, 1].legend(legend.legend_handles, words, loc="center left", frameon=False, fontsize="small")
        legend.remove()
        grid[0, 0].set_xlabel("")
        grid[0, 0].tick_params(labelbottom=False)
        grid[0, 1].axis("off")
    names = [str(k) if posterior is None else row_name(posterior, k) for k in rows]
    for i, ((ax, bar), (probability, text, states, _)) in enumerate(zip(panels, patterns, strict=True)):
        _shade_rows(ax, states[rows].astype(float), stretch, highest)
        ax.set_yticks(range(len(rows)), labels=names, fontsize="small" if len(rows) <= 8 else 7)
        ax.tick_params(left=False, bottom=i == len(patterns) - 1)
        ax.set_ylabel(f"#{i + 1}", rotation=0, ha="right", va="center")
        for spine in ax.spines.values():
            spine.set_visible(False)
        bar.barh([0], [probability], height=0.5, color=ORANGE, edgecolor=BLACK, linewidth=0.6)
        bar.text(probability + 0.03 * widest, 0, text, va="center", fontsize="small")
        bar.set_ylim(-1, 1)
        bar.set_xlim(0, 2 * widest)
        bar.axis("off")
    if focus is not None:
        a, b = np.searchsorted(stretch.first, [focus[0] - start, focus[1] - 1 - start], side="right") - 1
        for ax in grid[:, 0]:
            ax.vlines([stretch.left[a], stretch.right[b]], 0, 1, ORANGE, "dashed", transform=ax.get_xaxis_transform())
    label_sites(panels[-1, 0], stretch)
    total = sum(probability for probability, *_ in patterns)
    shades_text = "(dark = 1, light = 0)" if highest == 1 else "(darker: higher states)"
    title = title or f"Configurations that hold {100 * total:.3g}% of the posterior"
    held = "" if posterior is None else _held(posterior)
    entitle(panels[0, 0], f"{title} {shades_text}{held}")
    entitle(panels[0, 1], "probability")
    return fig


def _shade_rows(ax: Axes, states: Floats, stretch: SiteRange, highest: float = 1.0) -> None:
    """A heatmap of states (K, sites): blocks of sites have the mean of their states.

    Events too short for a pixel, which the heatmap may lose, are lines as wide as one over it.
    """
    n_rows = len(states)
    lines = [stretch.steps(stretch.mean(own))[0] for own in states]
    grid = np.ma.masked_invalid(np.array(lines))
    edges = stretch.steps(stretch.left)[1]
    ax.pcolormesh(edges, np.arange(n_rows + 1) - 0.5, grid, cmap=STATES, vmin=0, vmax=highest, rasterized=True)
    for k, own in enumerate(states):
        x, shades = _events(own, stretch)
        if x.size:
            style: dict[str, Any] = {"colors": STATES(shades / highest), "linewidths": PIXEL, "rasterized": True}
            ax.vlines(x, k - 0.5, k + 0.5, **style, label="_events")
    # White lines separate neighbouring rows that are equal.
    ax.hlines(np.arange(n_rows - 1) + 0.5, *stretch.ends, colors="white", linewidths=1)
    ax.set_ylim(n_rows - 0.5, -0.5)


def _events(states: Floats, stretch: SiteRange) -> tuple[Floats, Floats]:
    """Where short events are on the axis, and their states: of narrow runs, those that differ from what is around.

    At most one per NARROW of the axis, the one that differs most.
    """
    first, stop = np.array(equal_runs(states, np.array([a for a, _ in stretch.bounds]))).T
    begin, end = (np.searchsorted(stretch.first, at, side="right") - 1 for at in (first, stop - 1))
    left, right = stretch.left[begin], stretch.right[end]
    cell = (stretch.ends[1] - stretch.ends[0]) / NARROW
    narrow = (right - left < cell) & ~stretch.blank[begin]
    x, own = ((left + right) / 2)[narrow], states[first[narrow]]
    _, groups = np.unique(np.floor((x - stretch.ends[0]) / cell), return_index=True)
    kept = []
    for low, high in pairwise([*groups.tolist(), len(x)]):
        a, b = np.searchsorted(stretch.left, [x[low] - 1.5 * cell, x[high - 1] + 1.5 * cell])
        around = states[stretch.first[a] : stretch.first[b] if b < len(stretch.first) else None]
        far = np.abs(own[low:high] - np.median(around))
        if far.max() > 0:
            kept.append(low + int(far.argmax()))
    return x[kept], own[kept]


def configurations_size(n: int, n_rows: int, with_data: bool) -> tuple[float, float]:
    """Figure size in inches for n configurations."""
    return 8.0, 0.9 + n * max(0.5, 0.16 * n_rows + 0.12) + DATA_HEIGHT * with_data


def _data_with_levels(posterior: Posterior) -> Observations:
    """The data; raises InvalidInput if the model has no levels, or is missing."""
    if posterior.model is None or posterior.data is None:
        raise InvalidInput(
            "the level needs the model and the data, and this posterior holds "
            f"{'no model' if posterior.model is None else 'no data'}; use plot_row or plot_marginals instead"
        )
    emission = posterior.model.emission if isinstance(posterior.model, FactorialHMM) else None
    if not isinstance(emission, Additive):
        what = type(posterior.model if emission is None else emission).__name__
        raise InvalidInput(f"a {what} has no expected signal; use plot_row or plot_marginals")
    return posterior.data


def _stretch(posterior: Posterior, start: int, stop: int, labels: Labels | None) -> SiteRange:
    most = MOST_BLOCKS if stop - start > MOST_SITES else None
    return SiteRange(posterior.data, start, stop, labels, most)


def _with_states(row: RowProbabilities) -> str:
    highest = len(row.probabilities)
    return row.name + ("" if highest == 1 else f" (0–{highest} on)" if row.is_count else f" (0–{highest})")


def _channel(data: Observations, channel: int) -> Floats:
    channels = data.y.reshape(data.n_columns, -1)
    if not 0 <= channel < channels.shape[1]:
        raise InvalidInput(f"channel must be in 0..{channels.shape[1] - 1}, got {channel}")
    return channels[:, channel]


def _trace_of(
    posterior: Posterior, row: int | None, chain: int, draws: slice, start: int, stop: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(draws, sites) values of one chain, and the indices of the draws."""
    if posterior.n_rows is None and row is not None:
        raise InvalidInput(f"this posterior is over plain vectors and has no rows, got row {row}; leave row out")
    if posterior.n_rows is not None and (row is None or not 0 <= row < posterior.n_rows):
        raise InvalidInput(f"row must be in 0..{posterior.n_rows - 1}, got {row}")
    n_chains = posterior.draws.sizes["chain"]
    if not 0 <= chain < n_chains:
        raise InvalidInput(f"chain must be in 0..{n_chains - 1}, got {chain}")
    if draws.step is not None and draws.step < 1:
        raise InvalidInput(f"draws must go forward, got step {draws.step}")
    kept = posterior.draws[chain, draws, start:stop]
    if not kept.sizes["draw"]:
        raise InvalidInput(f"draws must choose some of 0..{posterior.draws.sizes['draw'] - 1}, got {draws}")
    if row is None:
        return kept.values, kept["draw"].values
    shift, mask = int(posterior.layout.shifts[row]), int(posterior.layout.masks[row])
    return kept.values.astype(np.int64) >> shift & mask, kept["draw"].values


def _pattern(item: Any) -> tuple[float, str, npt.NDArray[np.int8], int]:
    """Probability, the same in words with its error, states (K, L) and start of a configuration in either form."""
    own = isinstance(item, Configuration)
    try:
        probability, states, start = (item.probability, item.states, item.start) if own else item
        states = np.asarray(states)
        if states.ndim != 2 or not states.size or states.dtype.kind not in "biu" or states.min() < 0:
            raise ValueError
        text = item.share_text if own else share_text(float(probability))
        return float(probability), text, states.astype(np.int8), int(start)
    except (TypeError, ValueError):
        raise InvalidInput(
            "a configuration must be an item of top_configurations or (probability, states (K, L) of whole numbers, "
            f"start), got {item!r}"
        ) from None
