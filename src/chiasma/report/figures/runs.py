"""Plots of how a run went: log-joint traces, Hamming distances at lags, jumps between modes, the ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from chiasma.errors import InvalidInput
from chiasma.report.figures.style import (
    BLACK,
    BLUE,
    MANY_POINTS,
    SKY,
    Canvas,
    axes_for,
    block_means,
    canvas_for,
    entitle,
    legend_beside,
    look,
    named,
    whole_ticks,
)
from chiasma.results.diagnostics import hamming_distances
from chiasma.results.posterior import Posterior
from chiasma.types import Floats, as_floats

# A longer trace is drawn faintly, with the means of this many blocks over it.
TRACE_BLOCKS = 40
# Most codes that distances are computed from; for longer runs only the last draws are used.
HAMMING_CODES = 200_000_000
# Single values that are shown behind a box.
SHOWN_VALUES = 150
# Points of a curve of jumps.
CURVE_POINTS = 1_000


def plot_log_joint(
    posteriors: Posterior | Mapping[str, Posterior],
    *,
    ax: Axes | None = None,
    exact_band: tuple[float, float, float] | None = None,
) -> Axes:
    """Traces of the log joint density: one per chain, or of several named posteriors.

    A long trace is drawn faintly, with the means of blocks of draws over it.

    Parameters
    ----------
    posteriors : a Posterior, or several by name.
    ax : matplotlib axes to draw on; default: a new figure.
    exact_band : mean, low and high of the exact posterior, drawn as a line in a band.

    Returns
    -------
    The axes.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> ch.plots.plot_log_joint(posterior).get_xlabel()
    'draw'
    """
    ax = axes_for(ax, (8, 3.4))
    if exact_band is not None:
        mean, low, high = _ordered(exact_band)
        ax.axhspan(low, high, color="0.85", linewidth=0, label="exact, band")
        ax.axhline(mean, color=BLACK, lw=1, ls=(0, (5, 2)), label="exact, mean")
    blocks: set[int] = set()
    for i, (name, lines) in enumerate(_traces(posteriors).items()):
        own = look(i)
        for c, (draws, values) in enumerate(lines):
            n = len(values)
            long = n > 4 * TRACE_BLOCKS
            alpha, width = (0.3, 0.5) if long else (0.9, 0.9)
            ax.plot(draws, values, color=own.colour, alpha=alpha, lw=width, zorder=1, rasterized=n > MANY_POINTS)
            at, _ = block_means(draws, 0, TRACE_BLOCKS) if long else (draws, 1)
            means, block = block_means(values, 0, TRACE_BLOCKS) if long else (values, 1)
            blocks |= {block} if long else set()
            # Markers are at different positions on every trace.
            places = (2 * i % 5, max(1, len(means) // 8))
            marks = ax.plot(at, means, marker=own.marker, markevery=places, label=name if c == 0 else f"_{name}")
            marks[0].set(color=own.colour, markersize=6, markeredgecolor=BLACK, linewidth=1.6 if long else 0, zorder=3)
            marks[0].set_path_effects([withStroke(linewidth=3.2 if long else 0, foreground="white")])
    ax.margins(x=0.01)
    whole_ticks(ax.xaxis)
    ax.set_xlabel("draw")
    ax.set_ylabel("log joint density (nats)")
    against = "" if exact_band is None else ", against the exact posterior"
    size = f"{min(blocks):,}" if len(blocks) == 1 else "several"
    thick = f" (thin: every draw; thick: means of {size} draws)" if blocks else ""
    entitle(ax, f"Trace of log p(X, y){against}{thick}")
    legend_beside(ax)
    return ax


def plot_hamming(
    posteriors: Posterior | Mapping[str, Posterior], *, ax: Axes | None = None, lags: Sequence[int] = (1, 10, 50)
) -> Axes:
    """Box plots of the share of entries in which a draw differs from the draw `lag` later, all chains together.

    A box spans the quartiles, its whiskers 5% to 95%; the dots are single pairs of draws.

    Parameters
    ----------
    posteriors : a Posterior, or several by name.
    ax : matplotlib axes to draw on; default: a new figure.
    lags : numbers of draws between the two that are compared.

    Returns
    -------
    The axes.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> ch.plots.plot_hamming(posterior, lags=[1, 10]).get_xlabel()
    'lag (draws)'
    """
    several = named("posteriors", _several(posteriors, "draws"))
    distances = {name: _distances(posterior, lags) for name, posterior in several.items()}
    ax = axes_for(ax, (7, 3.6))
    width = 0.8 / len(several)
    for i, (name, per_lag) in enumerate(distances.items()):
        own = look(i)
        at = np.arange(len(lags)) + (i - (len(several) - 1) / 2) * width
        for x, values in zip(at, per_lag, strict=True):
            shown = values[:: -(-len(values) // SHOWN_VALUES)]
            # Steps of the golden ratio spread the dots evenly, without random numbers.
            spread = (np.arange(len(shown)) * 0.6180339887 % 1 - 0.5) * 0.7 * width
            ax.plot(x + spread, shown, "o", ms=2, mew=0, color="0.55", alpha=0.5, zorder=1, label="_values")
        boxes = ax.boxplot(
            per_lag, positions=at, widths=0.75 * width, whis=(5, 95), showfliers=False, patch_artist=True,
            manage_ticks=False, medianprops={"color": BLACK, "linewidth": 2.2}, zorder=2,
        )  # fmt: skip
        for box in boxes["boxes"]:
            box.set(facecolor=(own.colour, 0.5), hatch=own.hatch, label=name)
    ax.set_xticks(range(len(lags)), labels=[str(lag) for lag in lags])
    ax.set_xlabel("lag (draws)")
    ax.set_ylabel("normalised Hamming distance")
    ax.set_ylim(bottom=0)
    entitle(ax, "How far apart draws are (box: quartiles, whiskers: 5–95%)")
    if len(several) > 1:
        looks = [look(i) for i in range(len(several))]
        keys = [
            Patch(facecolor=(own.colour, 0.5), hatch=own.hatch, edgecolor=BLACK, label=name)
            for own, name in zip(looks, several, strict=True)
        ]
        legend_beside(ax, handles=keys, handleheight=1.2)
    return ax


def plot_jumps(curves: Mapping[str, npt.ArrayLike], *, ax: Axes | None = None) -> Axes:
    """Cumulative jumps between modes: the mean over runs, and a band of their quartiles.

    Parameters
    ----------
    curves : arrays (runs, iterations) by name, such as the `jumps` of ch.diagnostics.mode_jumps.
    ax : matplotlib axes to draw on; default: a new figure.

    Returns
    -------
    The axes.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> curves = {"swap": np.arange(20).reshape(1, 20), "mosaic": 2 * np.arange(20).reshape(1, 20)}
    >>> ch.plots.plot_jumps(curves).get_xlabel()
    'iteration'
    """
    checked = {name: _curve(name, values) for name, values in named("curves", curves).items()}
    ax = axes_for(ax, (6, 3.6))
    n_runs = {len(values) for values in checked.values()}
    for i, (name, values) in enumerate(checked.items()):
        own = look(i)
        n = values.shape[1]
        kept = np.unique(np.linspace(0, n - 1, CURVE_POINTS).astype(int)) if n > CURVE_POINTS else np.arange(n)
        low, high = np.quantile(values[:, kept], [0.25, 0.75], axis=0)
        ax.fill_between(kept + 1, low, high, color=own.colour, alpha=0.22, linewidth=0, label="_quartiles")
        ax.plot(kept + 1, values[:, kept].mean(axis=0), color=own.colour, ls=own.line, lw=1.8, label=name)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    whole_ticks(ax.xaxis)
    whole_ticks(ax.yaxis)
    ax.set_xlabel("iteration")
    ax.set_ylabel("jumps between modes (cumulative)")
    runs = f"{n_runs.pop()} runs" if len(n_runs) == 1 else "runs"
    entitle(ax, f"Jumps between modes: mean and quartiles of {runs}")
    # The legend lists the curves from top to bottom, as at the right end of the plot.
    order = sorted(checked, key=lambda name: -checked[name][:, -1].mean())
    handles = dict(zip(checked, ax.get_lines()[-len(checked) :], strict=True))
    legend_beside(ax, handles=[handles[name] for name in order], handlelength=3.5)
    return ax


def plot_ladder(posterior: Posterior, *, fig: Canvas | None = None) -> Canvas:
    """Health of the ladder: rejection of whole swaps and columns moved per exchange for each pair, and the barrier.

    Parameters
    ----------
    posterior : Posterior of a run with exchanges.
    fig : matplotlib figure or subfigure to draw on; default: a new figure.

    Returns
    -------
    The figure.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> options = {"update": "row", "exchange": "mosaic", "ladder": [1, 3, 9], "draws": 20, "warmup": 20, "seed": 1}
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], **options, progress=False)
    >>> len(ch.plots.plot_ladder(posterior).axes)
    3
    """
    stats = posterior.exchange_stats
    if not stats.sizes.get("pair", 0) or not int(stats["moves"].sum()):
        raise InvalidInput(
            "this run made no exchange, so there is no ladder to show; sample with an exchange and several rungs, "
            'such as exchange="mosaic", ladder="auto"'
        )
    fig = canvas_for(fig, (10, 3.2))
    rejection_ax, columns_ax, barrier_ax = fig.subplots(1, 3)
    pairs = stats["pair"].values
    mean = float(stats["rejection"].mean())
    _bars(rejection_ax, pairs, stats["rejection"].values, "rejection (share)", f"Whole swaps rejected, mean {mean:.2f}")
    rejection_ax.axhline(mean, color=BLACK, lw=1, ls=(0, (4, 2)))
    rejection_ax.set_ylim(0, 1.02)
    columns = stats["columns"].values
    _bars(columns_ax, pairs, columns, "sites", f"Sites moved per exchange, of {posterior.draws.sizes['site']:,}")
    columns_ax.set_ylim(0, max(1.0, 1.05 * columns.max()))
    _barrier(barrier_ax, posterior)
    for ax in (rejection_ax, columns_ax, barrier_ax):
        ax.spines[["top", "right"]].set_visible(False)
    return fig


def _bars(ax: Axes, pairs: npt.NDArray[np.int64], heights: Floats, label: str, title: str) -> None:
    ax.bar(pairs, heights, color=SKY, edgecolor=BLUE, linewidth=0.8)
    whole_ticks(ax.xaxis)
    ax.set_xlim(-0.8, len(pairs) - 0.2)
    ax.set_xlabel("pair of rungs (0: hottest)")
    ax.set_ylabel(label)
    entitle(ax, title)


def _barrier(ax: Axes, posterior: Posterior) -> None:
    """The barrier from the rejections; where those saturate, also the barrier from the distances of the rungs."""
    stats, betas = posterior.exchange_stats, posterior.betas
    barrier = np.concatenate([[0.0], stats["barrier"].values])
    distance = np.concatenate([[0.0], np.cumsum(stats["length"].values)])
    ax.plot(betas, barrier, "o-", color=BLUE, ms=4, lw=1.2, label="from rejections")
    if distance[-1] > 1.1 * barrier[-1]:
        ax.plot(betas, distance, "s", color=BLACK, ms=3.5, lw=1.2, ls=(0, (4, 2)), label="from log-likelihoods")
        ax.legend(loc="upper left", frameon=False, fontsize="small")
    _beta_axis(ax, betas)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("barrier Λ(β)")
    entitle(ax, f"Barrier from hottest to target, {max(barrier[-1], distance[-1]):.1f}")


def _beta_axis(ax: Axes, betas: Floats) -> None:
    """A logarithmic axis; if the ladder reaches the prior, linear between 0 and the first rung above it."""
    positive = betas[betas > 0]
    if betas[0] == 0:
        ax.set_xscale("symlog", linthresh=positive[0], linscale=0.6)
        ax.set_xlim(-0.15 * positive[0], 1.5)
        decades = 10.0 ** np.arange(np.ceil(np.log10(positive[0])), 1)
        ax.set_xticks([0, *decades], labels=["0", *(f"{beta:g}" for beta in decades)])
    else:
        ax.set_xscale("log")
        ticks = betas if len(betas) <= 5 else betas[:: -(-len(betas) // 5)]
        ax.set_xticks(ticks, labels=[f"{beta:.2g}" for beta in ticks])
    ax.tick_params(axis="x", which="minor", labelbottom=False, bottom=False)
    ax.set_xlabel("inverse temperature β")


def _traces(posteriors: Posterior | Mapping[str, Posterior]) -> dict[str, list[tuple[Floats, Floats]]]:
    """name -> (draws, log joint) of each of its chains; for a single posterior the names are its chains."""
    several = named("posteriors", _several(posteriors, ""))
    lines = {
        name: [(chain["draw"].values, chain.values) for chain in posterior.log_joint]
        for name, posterior in several.items()
    }
    return lines if isinstance(posteriors, Mapping) else {f"chain {c}": [line] for c, line in enumerate(lines[""])}


def _several(posteriors: Posterior | Mapping[str, Posterior], name: str) -> Mapping[str, Posterior]:
    return posteriors if isinstance(posteriors, Mapping) else {name: posteriors}


def _ordered(band: tuple[float, float, float]) -> tuple[float, float, float]:
    values = as_floats("exact_band", band)
    if values.shape != (3,) or not values[1] <= values[0] <= values[2]:
        raise InvalidInput(f"exact_band must be (mean, low, high) with low <= mean <= high, got {band}")
    mean, low, high = values.tolist()
    return mean, low, high


def _distances(posterior: Posterior, lags: Sequence[int]) -> list[Floats]:
    """Per lag, the distances of all chains."""
    if not len(lags):
        raise InvalidInput("lags must hold at least one, got none")
    sizes = posterior.draws.sizes
    most = max(HAMMING_CODES // (sizes["chain"] * sizes["site"]), *lags) + 1
    if sizes["draw"] > most:
        posterior = replace(posterior, draws=posterior.draws[:, -most:])
    distances = hamming_distances(posterior, lags).transpose("lag", "chain", "draw").values
    return [values[~np.isnan(values)] for values in distances]


def _curve(name: str, values: npt.ArrayLike) -> Floats:
    curve = as_floats(f"curves[{name!r}]", values)
    if curve.ndim != 2 or not curve.size:
        raise InvalidInput(f"curves[{name!r}] must have shape (runs, iterations), got {curve.shape}")
    return curve
