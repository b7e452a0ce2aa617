"""Plots of learned parameters: marginals with their priors, and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import gaussian_kde

from chiasma.errors import InvalidInput
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import CanonicalOrder
from chiasma.report.figures.style import BLACK, BLUE, MANY_POINTS, SKY, STATES, Canvas, canvas_for, entitle
from chiasma.results.parameters import QUANTILES, Entry, entries
from chiasma.results.posterior import Posterior
from chiasma.types import Floats

COLUMNS = 4
MOST_PAIRS = 10
# Points of a curve, and Monte Carlo draws for a prior density without a formula.
CURVE_POINTS = 200
PRIOR_DRAWS = 4_000


def plot_parameters(posterior: Posterior, names: Sequence[str] | None = None, *, fig: Canvas | None = None) -> Canvas:
    """Posterior of every learned value as a histogram, chains as lines, and its prior as a dashed curve.

    The bar under a histogram spans 5% to 95%, its dot is the mean. Exchangeable rows are sorted by weight (label
    switching); their priors are the priors of sorted weights.

    Parameters
    ----------
    posterior : Posterior of a model with priors.
    names : parameters ("weights") or single values of them ("weights[0]"); default: all.
    fig : matplotlib figure or subfigure to draw on; default: a new figure.

    Returns
    -------
    The figure.

    Examples
    --------
    >>> import chiasma as ch
    >>> emission = ch.Gaussian([1.0], depth=ch.Normal(1, 1), sd=ch.HalfNormal(1))
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    >>> options = {"update": "exact", "exchange": None, "draws": 50, "warmup": 50, "seed": 1, "progress": False}
    >>> posterior = ch.sample(model, [0.1, 1.2, 0.9], **options)
    >>> len(ch.plots.plot_parameters(posterior).axes)
    2
    """
    chosen = _chosen(posterior, names)
    n_lines, n_columns = _grid(len(chosen))
    fig = canvas_for(fig, parameters_size(len(chosen)))
    panels = fig.subplots(n_lines, n_columns, squeeze=False).ravel()
    for ax, entry in zip(panels, chosen, strict=False):
        _marginal(ax, posterior, entry)
    for ax in panels[len(chosen) :]:
        ax.set_visible(False)
    fig.supylabel("density", fontsize="medium")
    fig.suptitle("Posterior (filled; a line per chain) and prior (dashed) of the parameters", fontsize="medium")
    return fig


def plot_pairs(posterior: Posterior, names: Sequence[str] | None = None, *, fig: Canvas | None = None) -> Canvas:
    """Scatter plots of all pairs of learned values, as hexagonal bins if there are many draws; histograms on the
    diagonal.

    Parameters
    ----------
    posterior : Posterior of a model with priors.
    names : parameters ("weights") or single values of them ("weights[0]"); default: all.
    fig : matplotlib figure or subfigure to draw on; default: a new figure.

    Returns
    -------
    The figure.

    Examples
    --------
    >>> import chiasma as ch
    >>> emission = ch.Gaussian([1.0], depth=ch.Normal(1, 1), sd=ch.HalfNormal(1))
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    >>> options = {"update": "exact", "exchange": None, "draws": 50, "warmup": 50, "seed": 1, "progress": False}
    >>> posterior = ch.sample(model, [0.1, 1.2, 0.9], **options)
    >>> len(ch.plots.plot_pairs(posterior, ["depth", "sd"]).axes)
    4
    """
    chosen = _chosen(posterior, names)
    n = len(chosen)
    if not 2 <= n <= MOST_PAIRS:
        raise InvalidInput(
            f"pairs can be plotted of 2..{MOST_PAIRS} values, got {n}; choose with names=, {_example(posterior)}"
        )
    fig = canvas_for(fig, pairs_size(n))
    panels = fig.subplots(n, n, squeeze=False, sharex="col")
    for i in range(n):
        for j in range(n):
            ax = panels[i, j]
            if j > i:
                ax.set_visible(False)
                continue
            ax.spines[["top", "right"]].set_visible(False)
            if i == j:
                _filled(ax, chosen[i].values)
            else:
                _pair(ax, chosen[j].values.ravel(), chosen[i].values.ravel())
            _ticks(ax)
            if i == n - 1:
                ax.set_xlabel(chosen[j].name)
            if j == 0 and i > 0:
                ax.set_ylabel(chosen[i].name)
            elif j > 0 and i != j:
                ax.tick_params(labelleft=False)
    fig.suptitle("Pairs of parameters over the draws", fontsize="medium")
    return fig


def parameters_size(n: int) -> tuple[float, float]:
    """Figure size in inches for the marginals of n values."""
    n_lines, n_columns = _grid(n)
    return max(2.6 * n_columns, 5.5), 0.5 + 2.1 * n_lines


def pairs_size(n: int) -> tuple[float, float]:
    """Figure size in inches for the pairs of n values."""
    return 1.0 + 1.7 * n, 1.0 + 1.7 * n


def _grid(n: int) -> tuple[int, int]:
    n_columns = min(COLUMNS, n)
    return -(-n // n_columns), n_columns


def _marginal(ax: Axes, posterior: Posterior, entry: Entry) -> None:
    ax.spines[["top", "right", "left"]].set_visible(False)
    edges = _filled(ax, entry.values)
    top = 0.0
    for i, chain in enumerate(entry.values):
        heights, _ = np.histogram(chain, edges, density=True)
        ax.stairs(heights, edges, color=BLUE, linewidth=0.7, alpha=0.7, label=f"chain {i}")
        top = max(top, float(heights.max()))
    prior = prior_density(posterior, entry, edges)
    if prior is not None:
        ax.plot(*prior, color=BLACK, lw=1.4, ls=(0, (4, 2)), label="prior")
        # A prior with a peak at its bound would squeeze the histogram of the draws.
        top = max(top, min(float(prior[1].max()), 1.5 * top))
    low, high = np.quantile(entry.values, QUANTILES)
    foot = -0.06 * top
    ax.plot([low, high], [foot, foot], color=BLACK, lw=2, solid_capstyle="butt", label="5–95%", clip_on=False)
    ax.plot([entry.values.mean()], [foot], "o", color=BLACK, ms=5, mec="white", label="mean", clip_on=False)
    ax.set_ylim(1.8 * foot, 1.05 * top)
    _ticks(ax)
    entitle(ax, entry.name)


def histogram(values: Floats) -> tuple[Floats, Floats]:
    """Edges and densities of all chains together, with no more bins than as many independent draws would need."""
    ends = (values.min(), values.max())
    if ends[0] == ends[1]:
        ends = (ends[0] - 0.5, ends[1] + 0.5)
    edges = np.linspace(*ends, int(np.clip(2 * values.size ** (1 / 3), 5, 40)) + 1)
    return edges, np.histogram(values, edges, density=True)[0]


def _filled(ax: Axes, values: Floats) -> Floats:
    """Draw a filled histogram; its edges."""
    edges, heights = histogram(values)
    ax.stairs(heights, edges, fill=True, color=SKY, alpha=0.6, label="posterior")
    ax.set_yticks([])
    return edges


def _ticks(ax: Axes) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.tick_params(labelsize="small")


def prior_density(posterior: Posterior, entry: Entry, edges: Floats) -> tuple[Floats, Floats] | None:
    """Points around the draws and the prior density there; None if a stored run could not keep its model."""
    model = posterior.model
    if not isinstance(model, FactorialHMM):
        return None
    prior = next(slot.prior for slot in model.parameters.slots if slot.name == entry.parameter)
    margin = 0.25 * (edges[-1] - edges[0])
    marginal = prior.marginal(entry.place)
    low, high = max(edges[0] - margin, marginal.support[0]), min(edges[-1] + margin, marginal.support[1])
    # Without the ends, because the bounds do not belong to the support.
    x = np.linspace(low, high, CURVE_POINTS + 2)[1:-1]
    draws = _ordered_draws(model, entry)
    if draws is not None:
        return x, _smooth_density(draws, marginal.support, x)
    return x, np.exp([marginal.log_density(np.asarray(at)) for at in x])


def _ordered_draws(model: FactorialHMM, entry: Entry) -> Floats | None:
    """Draws of a value from the priors where exchangeable rows are sorted by it; None where they are not."""
    order = CanonicalOrder(model)
    slot = next(slot for slot in model.parameters.slots if slot.name == entry.parameter)
    at = slot.values.start + int(np.ravel_multi_index(entry.place, slot.prior.shape or (1,)) if entry.place else 0)
    if not any(at in order.keys(k) for group in order.groups for block in group for k in block):
        return None
    rng, code = np.random.default_rng(0), np.zeros(1, np.int64)
    return np.array([order(code, model.parameters.sample(rng))[1][at] for _ in range(PRIOR_DRAWS)])


def _smooth_density(draws: Floats, support: tuple[float, float], x: Floats) -> Floats:
    """Kernel density estimate at x."""
    smooth = gaussian_kde(draws)
    density = smooth(x)
    # Reflect the mass that the estimate puts outside the support.
    for bound in support:
        if np.isfinite(bound):
            density = density + smooth(2 * bound - x)
    return np.asarray(density)


def _pair(ax: Axes, x: Floats, y: Floats) -> None:
    if len(x) > MANY_POINTS:
        ax.hexbin(x, y, gridsize=30, cmap=STATES, mincnt=1, linewidths=0.1, rasterized=True)
    else:
        ax.plot(x, y, "o", color=BLUE, ms=2, mew=0, alpha=0.5)
    ax.yaxis.set_major_locator(MaxNLocator(3))


def _chosen(posterior: Posterior, names: Sequence[str] | None) -> list[Entry]:
    found = list(entries(posterior.parameters))
    if not found:
        raise InvalidInput(
            "this posterior has no learned parameters; give the model a prior in place of a number, such as "
            "sd=ch.HalfNormal(20)"
        )
    if names is None:
        return found
    wanted = [names] if isinstance(names, str) else list(names)
    known = list(dict.fromkeys(name for entry in found for name in (entry.parameter, entry.name)))
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(map(str, posterior.parameters))}"
            raise InvalidInput(f"there is no learned parameter {name!r}; {hint}")
    if not wanted:
        raise InvalidInput("names must hold at least one, got none; leave names out for all")
    return [entry for name in wanted for entry in found if name in (entry.parameter, entry.name)]


def _example(posterior: Posterior) -> str:
    first = next(entries(posterior.parameters)).name
    return f"such as names=[{first!r}, ...]"
