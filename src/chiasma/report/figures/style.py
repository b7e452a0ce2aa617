"""Shared style of the plots: colours, canvases, limits of the axes, and the marks along the sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.legend import Legend
from matplotlib.patches import StepPatch
from matplotlib.ticker import Formatter, Locator, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from chiasma.errors import InvalidInput
from chiasma.report.figures.sites import SiteRange
from chiasma.results.posterior import Posterior
from chiasma.results.row_groups import names_of_rows
from chiasma.types import Floats

Canvas = Figure | SubFigure
Value = TypeVar("Value")

BLUE, ORANGE, BLACK, PURPLE, SKY, VERMILLION = "#0072B2", "#E69F00", "#000000", "#CC79A7", "#56B4E9", "#D55E00"
QUIET = "0.45"
STATES = LinearSegmentedColormap.from_list("states", ["#eef2f6", "#12304f"])
# Artists with more points than this are rasterized: as vectors they would take megabytes in a PDF.
MANY_POINTS = 2_000
# Values farther than this many interquartile ranges from the quartiles do not stretch an axis.
FAR = 6.0
# Sizes in points of the names of sequences, below and above the axes; width of a letter and of the space between names
# in units of it.
BELOW, ABOVE = 8, 7
LETTER, SPACE = 0.64, 0.15
# Height in points of a further line of the names of ticks.
LINE = 14
# Matplotlib counts days since 1970; this part of it has no types.
DAY = 86_400.0
DATES: Any = dates


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
    """The given axes, or a new figure of that size in inches."""
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
    # The label is under the names of the ticks, which may have a date in a second line.
    lines = max((text.get_text().count("\n") for text in ax.get_xticklabels()), default=0)
    below = ax.transAxes + ScaledTranslation(0, -(30 + LINE * lines) / 72, ax.get_figure(root=True).dpi_scale_trans)  # type: ignore[union-attr]
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


def robust_limits(values: Floats, shown: Sequence[Floats]) -> tuple[float, float]:
    """Limits of an axis that a few far values cannot stretch; what is `shown` with them is always inside.

    >>> low, high = robust_limits(np.array([*np.linspace(0, 1, 500), 1000.0]), [np.array([0.5])])
    >>> -0.1 < low < 0 and 1 < high < 1.1
    True
    """
    inside = np.concatenate([part[np.isfinite(part)] for part in shown])
    known = values[np.isfinite(values)]
    if not known.size:
        known = inside if inside.size else np.zeros(1)
    quarter, three_quarters = np.quantile(known, [0.25, 0.75])
    reach = FAR * (three_quarters - quarter)
    near = known[(known >= quarter - reach) & (known <= three_quarters + reach)]
    low, high = near.min(), near.max()
    if inside.size:
        low, high = min(low, inside.min()), max(high, inside.max())
    margin = 0.05 * (high - low) or 0.5
    return float(low - margin), float(high + margin)


def draw_steps(
    ax: Axes, values: Floats, edges: Floats, *, baseline: Floats | float | None = None, **options: Any
) -> StepPatch:
    """A step function; with a baseline, filled between the two. The limits of the axes stay as they are.

    As `Axes.stairs`, which takes seconds for thousands of steps: it looks at every step for the limits.
    """
    filled = baseline is not None
    style = {"linewidth": 0, "edgecolor": "none", "facecolor": options.pop("color")} if filled else {"fill": False}
    if not filled:
        style["edgecolor"] = options.pop("color")
    patch = StepPatch(values, edges, baseline=baseline, **style | options)  # type: ignore[arg-type]  # or an array
    ax.add_artist(patch)
    return patch


def mark_beyond(ax: Axes, x: Floats, y: Floats) -> int:
    """Triangles at the edge of the axes for points outside of its limits; how many points these are."""
    low, high = ax.get_ylim()
    n = 0
    with np.errstate(invalid="ignore"):
        sides = ((y > high, 0.985, "^"), (y < low, 0.015, "v"))
    for outside, height, marker in sides:
        if outside.any():
            n += int(outside.sum())
            at = np.full(int(outside.sum()), height)
            place = ax.get_xaxis_transform()
            ax.plot(x[outside], at, marker, color=VERMILLION, ms=4, mew=0, transform=place, label="_beyond")
    return n


def mark_starts(ax: Axes, stretch: SiteRange, *, names: bool = True) -> None:
    """Dotted lines where sequences start, and the names of the sequences above; below where the axis has no numbers."""
    if len(stretch.pieces) < 2:
        return
    limits = ax.get_ylim()
    place = ax.get_xaxis_transform()
    at = [piece.left for piece in stretch.pieces[1:]]
    ax.vlines(at, 0, 1, transform=place, colors=QUIET, linestyles=":", linewidths=0.8, label="_starts")
    ax.set_ylim(limits)
    if not names or stretch.has_positions:
        return
    # A separate axis, so that a title is placed above it.
    above = ax.secondary_xaxis("top")
    centres, labels = _roomy(ax, stretch, ABOVE)
    above.set_xticks(centres, labels=labels)
    above.tick_params(length=0, pad=2, labelsize=ABOVE, labelcolor=QUIET)
    above.spines[:].set_visible(False)


def label_sites(ax: Axes, stretch: SiteRange) -> None:
    """Limits, ticks and name of the x axis: names of chromosomes, or positions within one, or numbers of sites."""
    ax.set_xlim(*stretch.ends)
    if stretch.has_positions and len(stretch.pieces) > 1:
        centres, labels = _roomy(ax, stretch, BELOW)
        ax.set_xticks(centres, labels=labels)
        ax.tick_params(axis="x", length=0, labelsize=BELOW)
    elif not stretch.has_positions:
        whole_ticks(ax.xaxis)
    elif stretch.labels.zone is not None:
        ax.xaxis.set_major_locator(Moments(stretch.labels.zone))
        ax.xaxis.set_major_formatter(MomentFormatter(stretch.labels.zone))
    dotted = " (dotted: starts)" if len(stretch.pieces) > 1 and not stretch.has_positions else ""
    ax.set_xlabel(f"{stretch.axis_name}{dotted}")


class Moments(Locator):
    """Ticks at round dates and times of an axis in seconds since 1970."""

    def __init__(self, zone: tzinfo):
        self.dates = DATES.AutoDateLocator(tz=zone, minticks=3, maxticks=7)

    def __call__(self) -> Sequence[float]:
        assert self.axis is not None
        return self.tick_values(*sorted(self.axis.get_view_interval()))

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        days = self.dates.tick_values(DATES.num2date(vmin / DAY), DATES.num2date(vmax / DAY))
        return [DAY * float(day) for day in days]


class MomentFormatter(Formatter):
    """Short labels of such ticks; what they have in common, such as the day, is at the end of the axis.

    A day that begins among clock times has its date below midnight.
    """

    def __init__(self, zone: tzinfo):
        self.zone, self.offset = zone, ""
        self.dates = DATES.ConciseDateFormatter(
            DATES.AutoDateLocator(tz=zone),
            tz=zone,
            offset_formats=["", "%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d %H:%M"],
            zero_formats=["", "%Y", "%b", "%H:%M\n%Y-%m-%d", "%H:%M", "%H:%M"],
        )

    def __call__(self, x: float, pos: int | None = None) -> str:
        return str(self.dates(x / DAY, pos))

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        # Rounded to microseconds: a tick a moment before midnight would have the wrong day.
        days = np.round(np.asarray(values), 6) / DAY
        labels = list(self.dates.format_ticks(days))
        last = str(self.dates.get_offset())
        first = DATES.num2date(days[0], self.zone).strftime("%Y-%m-%d %H:%M")[: len(last)] if labels else ""
        self.offset = last if first == last else f"{first} – {last}"
        return labels

    def get_offset(self) -> str:
        return self.offset


def _roomy(ax: Axes, stretch: SiteRange, points: float) -> tuple[list[float], list[str]]:
    """Centres and names of the sequences; of names that would touch, the longest sequence keeps its name."""
    low, high = stretch.ends
    inches = ax.get_window_extent().width / ax.get_figure(root=True).dpi / (high - low)  # type: ignore[union-attr]
    found: list[tuple[float, float, str]] = []
    for piece in sorted(stretch.pieces, key=lambda piece: piece.left - piece.right):
        centre, half = (piece.left + piece.right) / 2, LETTER * len(piece.name) * points / 144
        if all(inches * abs(centre - other) >= half + width + SPACE * points / 72 for other, width, _ in found):
            found.append((centre, half, piece.name))
    return [centre for centre, _, _ in sorted(found)], [name for _, _, name in sorted(found)]


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


def row_name(posterior: Posterior, k: int) -> str:
    """The name of a row, as tables have it."""
    return names_of_rows(posterior)[k]


def n_sites(posterior: Posterior) -> int:
    return int(posterior.draws.sizes["site"])
