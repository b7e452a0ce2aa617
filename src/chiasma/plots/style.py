"""Shared style of the plots: colours, canvases, and the marks along the sites.

Column t of a path covers t - 1/2 to t + 1/2 of the x axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.legend import Legend
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from chiasma.errors import InvalidInput
from chiasma.models.observations import Observations
from chiasma.results.posterior import Posterior
from chiasma.types import Floats

Canvas = Figure | SubFigure
Value = TypeVar("Value")

BLUE, ORANGE, BLACK, PURPLE, SKY, VERMILLION = "#0072B2", "#E69F00", "#000000", "#CC79A7", "#56B4E9", "#D55E00"
QUIET = "0.45"
STATES = LinearSegmentedColormap.from_list("states", ["#eef2f6", "#12304f"])
# Artists with more points than this are rasterized: as vectors they would take megabytes in a PDF.
MANY_POINTS = 2_000
# Width in inches of the number of a sequence.
NARROW = 0.115


class Look(NamedTuple):
    """The look of one of several curves or boxes, distinct in colour and in grey."""

    colour: str
    line: Any
    marker: str
    hatch: str


LOOKS = (
    Look(BLUE, "-", "o", ""),
    Look(ORANGE, (0, (6, 2)), "s", "////"),
    Look(BLACK, (0, (5, 1.5, 1, 1.5)), "^", "...."),
    Look(PURPLE, (0, (1.5, 1.5)), "D", "xxxx"),
    Look(SKY, (0, (8, 1.5, 1, 1.5, 1, 1.5)), "v", "\\\\\\\\"),
    Look(VERMILLION, (0, (3, 1)), "P", "----"),
)


def look(i: int) -> Look:
    return LOOKS[i % len(LOOKS)]


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The given axes, or those of a new figure of that size in inches."""
    if ax is None:
        ax = plt.figure(figsize=size, layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def canvas_for(fig: Canvas | None, size: tuple[float, float]) -> Canvas:
    return plt.figure(figsize=size, layout="constrained") if fig is None else fig


def entitle(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize="medium")


def whole_ticks(axis: Any) -> None:
    """Ticks at round whole numbers, as many as there is room for."""
    axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))


def legend_below(ax: Axes, columns: int) -> Legend:
    """A legend under the axes and their label, for axes of any height."""
    below = ax.transAxes + ScaledTranslation(0, -30 / 72, ax.get_figure(root=True).dpi_scale_trans)  # type: ignore[union-attr]
    return ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=columns, frameon=False)


def legend_beside(ax: Axes, **options: Any) -> None:
    """A legend to the right of the axes, outside of them."""
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, **options)


def named(name: str, given: Mapping[str, Value]) -> dict[str, Value]:
    """The mapping as a dict; raises InvalidInput if it is empty."""
    if not given:
        raise InvalidInput(f"{name} must hold at least one entry, name -> values, got {given!r}")
    return dict(given)


def region(start: int, stop: int | None, n_sites: int) -> tuple[int, int]:
    """start and stop of the sites to show, checked."""
    end = n_sites if stop is None else stop
    if not 0 <= start < end <= n_sites:
        raise InvalidInput(f"start and stop must satisfy 0 <= start < stop <= {n_sites} (sites), got {start} and {end}")
    return start, end


def mark_starts(ax: Axes, data: Observations | None, start: int, stop: int, *, numbers: bool = True) -> None:
    """Dotted lines where sequences start between the two sites, and the sequences' numbers above, from 1."""
    inside = _starts_between(data, start, stop)
    if data is None or not inside.size:
        return
    limits = ax.get_ylim()
    place = ax.get_xaxis_transform()
    ax.vlines(inside - 0.5, 0, 1, transform=place, colors=QUIET, linestyles=":", linewidths=0.8, label="_starts")
    ax.set_ylim(limits)
    if not numbers:
        return
    edges = np.array([start, *inside, stop])
    first = int(np.searchsorted(data.starts, start, side="right"))
    inches = ax.get_window_extent().width / ax.get_figure(root=True).dpi / (stop - start)  # type: ignore[union-attr]
    roomy = [(i, a, b) for i, (a, b) in enumerate(pairwise(edges), first) if inches * (b - a) >= NARROW]
    # A separate axis, so that a title is placed above it.
    above = ax.secondary_xaxis("top")
    above.set_xticks([(a + b - 1) / 2 for _, a, b in roomy], labels=[str(i) for i, _, _ in roomy])
    above.tick_params(length=0, pad=2, labelsize=7, labelcolor=QUIET)
    above.spines[:].set_visible(False)


def label_sites(ax: Axes, data: Observations | None, start: int, stop: int) -> None:
    """Limits and name of the x axis."""
    ax.set_xlim(start - 0.5, stop - 0.5)
    whole_ticks(ax.xaxis)
    ax.set_xlabel("site (dotted: starts)" if _starts_between(data, start, stop).size else "site")


def _starts_between(data: Observations | None, start: int, stop: int) -> npt.NDArray[np.int64]:
    starts = np.zeros(0, np.int64) if data is None else data.starts
    return starts[(starts > start) & (starts < stop)]


def block_means(values: npt.NDArray[Any], axis: int, most: int) -> tuple[Floats, int]:
    """Means of blocks of neighbours along an axis, at most `most` of them, and the size of a block.

    >>> block_means(np.array([0, 1, 1, 1, 0]), axis=0, most=3)
    (array([0.5, 1. , 0. ]), 2)
    """
    n = values.shape[axis]
    step = -(-n // most)
    first = np.arange(0, n, step)
    counts = np.diff(first, append=n)
    shape = [1] * values.ndim
    shape[axis] = -1
    return np.add.reduceat(values, first, axis=axis, dtype=float) / counts.reshape(shape), step


def n_sites(posterior: Posterior) -> int:
    return int(posterior.draws.sizes["site"])
