"""Plots along the sites: the signal and its level, one row over draws, marginals, configurations of a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from chiasma.errors import InvalidInput
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.plots.style import (
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
    entitle,
    label_sites,
    legend_below,
    mark_starts,
    n_sites,
    region,
    whole_ticks,
)
from chiasma.results.configurations import Configuration
from chiasma.results.posterior import Posterior
from chiasma.types import Floats

# Draws that a level band is computed from; more would make no visible difference.
BAND_DRAWS = 400
# Pixels of a heatmap; finer data are averaged.
HEATMAP_SITES, HEATMAP_DRAWS = 2_000, 1_000


def plot_level(
    posterior: Posterior, *, ax: Axes | None = None, start: int = 0, stop: int | None = None, channel: int = 0
) -> Axes:
    """The data of sites start to stop - 1, with the posterior mean and 5-95% band of the expected signal.

    Missing sites are ticks at the bottom. `channel` selects one of several channels.
    """
    data = _data_with_levels(posterior)
    start, stop = region(start, stop, n_sites(posterior))
    y = _channel(data, channel)[start:stop]
    mean, low, high = _band(posterior, start, stop, channel)
    ax = axes_for(ax, (9, 3.2))
    sites = np.arange(start, stop)
    pixels = stop - start > MANY_POINTS
    size = float(np.interp(stop - start, [200, 5_000], [3.5, 1.2]))
    ax.plot(sites, y, "o", color="0.65", markersize=size, markeredgewidth=0, rasterized=pixels, label="data")
    ax.fill_between(
        sites, low, high, step="mid", color=SKY, alpha=0.6, linewidth=0, rasterized=pixels, label="5–95% of draws"
    )
    width = 0.9 if pixels else 1.5
    ax.plot(sites, mean, color=BLUE, drawstyle="steps-mid", lw=width, rasterized=pixels, label="posterior mean")
    missing = sites[np.isnan(y)]
    limits = ax.get_ylim()
    if missing.size:
        at_foot = np.full(missing.size, 0.02)
        ax.plot(missing, at_foot, "|", color=BLACK, markersize=8, transform=ax.get_xaxis_transform(), label="missing")
    ax.set_ylim(limits)
    mark_starts(ax, data, start, stop)
    label_sites(ax, data, start, stop)
    ax.set_ylabel("signal (units of y)" if data.y.ndim == 1 else f"signal, channel {channel} (units of y)")
    entitle(ax, "Data and posterior of the expected signal")
    dot = legend_below(ax, 4).legend_handles[0]
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
) -> Axes:
    """Heatmap of one row over the draws of a chain, sites start to stop - 1: dark is 1, light is 0.

    Omit `row` for a posterior over plain vectors. If there are more draws or sites than pixels, neighbours are
    averaged.
    """
    start, stop = region(start, stop, n_sites(posterior))
    values, kept = _trace_of(posterior, row, chain, draws, start, stop)
    ax = axes_for(ax, (7, 4))
    low, high = (0, 1) if posterior.n_rows is not None else (values.min(), values.max())
    small, per_line = block_means(values, 0, HEATMAP_DRAWS)
    small, per_column = block_means(small, 1, HEATMAP_SITES)
    spacing = kept[1] - kept[0] if len(kept) > 1 else 1
    foot = kept[0] - 0.5 * spacing
    extent = (start - 0.5, start - 0.5 + small.shape[1] * per_column, foot, foot + small.shape[0] * per_line * spacing)
    # Image smoothing blurs edges by about one cell; with cells this small the blur is invisible.
    fine = np.repeat(np.repeat(small, -(-500 // small.shape[0]), axis=0), -(-1_000 // small.shape[1]), axis=1)
    ax.imshow(fine, cmap=STATES, vmin=low, vmax=high, aspect="auto", origin="lower", extent=extent)
    ax.set_ylim(foot, foot + len(kept) * spacing)
    mark_starts(ax, posterior.data, start, stop)
    label_sites(ax, posterior.data, start, stop)
    whole_ticks(ax.yaxis)
    ax.set_ylabel("draw")
    shades = f"dark = {high:g}, light = {low:g}"
    entitle(ax, f"{'Draws' if row is None else f'Row {row}'} of chain {chain} ({shades})")
    return ax


def plot_marginals(posterior: Posterior, *, fig: Canvas | None = None, exact: npt.ArrayLike | None = None) -> Canvas:
    """Posterior probability that a row is on, one panel per row along the sites; `exact`, (K, T), is overlaid."""
    marginals = posterior.marginals().values
    solution = None if exact is None else np.asarray(exact, float)
    if solution is not None and solution.shape != marginals.shape:
        raise InvalidInput(f"exact must have shape {marginals.shape} (rows, sites), got {solution.shape}")
    n_rows, stop = marginals.shape
    fixed = posterior.model.fixed_rows if isinstance(posterior.model, FactorialHMM) else {}
    fig = canvas_for(fig, (9, 1.0 + max(0.35, min(0.95, 8 / n_rows)) * n_rows))
    panels = fig.subplots(n_rows, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    sites = np.arange(stop)
    pixels = stop > MANY_POINTS
    for k, (ax, p) in enumerate(zip(panels, marginals, strict=True)):
        ax.spines[["top", "right"]].set_visible(False)
        ax.fill_between(sites, 0, p, step="mid", color=SKY, linewidth=0, alpha=0.75, rasterized=pixels, label="draws")
        ax.plot(sites, p, color=BLUE, drawstyle="steps-mid", lw=0.6, rasterized=pixels)
        if solution is not None:
            exact_line = ax.plot(sites, solution[k], color=BLACK, drawstyle="steps-mid", lw=0.9, rasterized=pixels)
            exact_line[0].set(linestyle=(0, (3, 1.5)), label="exact")
        ax.set_ylim(-0.03, 1.06)
        ax.set_yticks([0, 1] if n_rows > 8 else [0, 0.5, 1])
        held = f"\n(fixed at {fixed[k]})" if k in fixed else ""
        ax.set_ylabel(f"row {k}{held}", rotation=0, ha="right", va="center", labelpad=8)
        mark_starts(ax, posterior.data, 0, stop, numbers=k == 0)
    label_sites(panels[-1], posterior.data, 0, stop)
    overlay = "" if solution is None else " (filled), and the exact solution (dashed)"
    entitle(panels[0], f"Posterior probability that each row is on{overlay}")
    return fig


def plot_configurations(configurations: Sequence[Any], *, fig: Canvas | None = None) -> Canvas:
    """Configurations of a region below each other, dark is 1, each with its probability as a bar.

    A configuration is an item of `Posterior.top_configurations`, or (probability, states (K, L), start).
    """
    patterns = [_pattern(item) for item in configurations]
    if not patterns:
        raise InvalidInput("configurations must hold at least one, got none; ask top_configurations for n >= 1")
    shapes = {(states.shape, start) for _, _, states, start in patterns}
    if len(shapes) > 1:
        raise InvalidInput(f"configurations must be of one region, got shapes and starts {sorted(shapes)}")
    ((n_rows, length), start) = shapes.pop()
    fig = canvas_for(fig, (8, 0.9 + len(patterns) * max(0.5, 0.16 * n_rows + 0.12)))
    widest = max(probability for probability, *_ in patterns)
    panels = fig.subplots(len(patterns), 2, squeeze=False, sharex="col", width_ratios=[5, 1])
    for i, ((ax, bar), (probability, error, states, _)) in enumerate(zip(panels, patterns, strict=True)):
        extent = (start - 0.5, start + length - 0.5, n_rows - 0.5, -0.5)
        ax.imshow(states, cmap=STATES, vmin=0, vmax=1, aspect="auto", extent=extent, interpolation="none")
        # White lines separate neighbouring rows that are equal.
        ax.hlines(np.arange(n_rows - 1) + 0.5, *extent[:2], colors="white", linewidths=1)
        ax.set_yticks(range(n_rows), labels=[str(k) if n_rows <= 8 else "" for k in range(n_rows)], fontsize="small")
        ax.tick_params(left=False, bottom=i == len(patterns) - 1)
        ax.set_ylabel(f"#{i + 1}", rotation=0, ha="right", va="center")
        for spine in ax.spines.values():
            spine.set_visible(False)
        bar.barh([0], [probability], height=0.5, color=ORANGE, edgecolor=BLACK, linewidth=0.6)
        bar.text(probability + 0.03 * widest, 0, f"{probability:.3g}{error}", va="center", fontsize="small")
        bar.set_ylim(-1, 1)
        bar.set_xlim(0, 2 * widest)
        bar.axis("off")
    label_sites(panels[-1, 0], None, start, start + length)
    total = sum(probability for probability, *_ in patterns)
    entitle(panels[0, 0], f"Configurations that hold {100 * total:.3g}% of the posterior (dark = 1, light = 0)")
    entitle(panels[0, 1], "probability")
    return fig


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


def _channel(data: Observations, channel: int) -> Floats:
    channels = data.y.reshape(data.n_columns, -1)
    if not 0 <= channel < channels.shape[1]:
        raise InvalidInput(f"channel must be in 0..{channels.shape[1] - 1}, got {channel}")
    return channels[:, channel]


def _band(posterior: Posterior, start: int, stop: int, channel: int) -> tuple[Floats, Floats, Floats]:
    """Mean, 5% and 95% of the expected signal, (stop - start,) each, over draws spread evenly over the run."""
    sizes = posterior.draws.sizes
    every = -(-sizes["chain"] * sizes["draw"] // BAND_DRAWS)
    levels = replace(posterior, draws=posterior.codes[:, ::every, start:stop]).levels().values
    signal = np.array(
        [
            _emission(posterior, chain, every * i).expected(level).reshape(stop - start, -1)[:, channel]
            for chain, several in enumerate(levels)
            for i, level in enumerate(several)
        ]
    )
    # Quantiles without interpolation: a level that was drawn, not a value between two of them.
    low, high = np.quantile(signal, [0.05, 0.95], axis=0, method="inverted_cdf")
    return signal.mean(axis=0), low, high


def _emission(posterior: Posterior, chain: int, draw: int) -> Additive:
    emission = posterior.model_at(chain, draw).emission
    assert isinstance(emission, Additive)
    return emission


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
    values = kept.values if row is None else kept.values >> row & 1
    return values, kept["draw"].values


def _pattern(item: Any) -> tuple[float, str, npt.NDArray[np.int8], int]:
    """Probability, its error in words, states (K, L) and start of a configuration in either form."""
    own = isinstance(item, Configuration)
    try:
        probability, states, start = (item.probability, item.states, item.start) if own else item
        states = np.asarray(states)
        if states.ndim != 2 or not states.size or not np.isin(states, (0, 1)).all():
            raise ValueError
        error = f" ± {item.standard_error:.1g}" if own else ""
        return float(probability), error, states.astype(np.int8), int(start)
    except (TypeError, ValueError):
        raise InvalidInput(
            "a configuration must be an item of top_configurations or (probability, states (K, L) of zeros and ones, "
            f"start), got {item!r}"
        ) from None
