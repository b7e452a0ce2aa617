"""Figures of an answer: depth and alleles along the genome, purity and ploidy, clones, rivals of a region;
of several samples their data above the clones that they share, and the fractions of clones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chiasma import atomic
from chiasma.extras import extra
from chiasma.io.columns import same_chromosome
from chiasma.tumour.bins import Bins
from chiasma.tumour.exports import FLAT, chance, sample_folders, that_matter
from chiasma.tumour.genome import Assembly, GenomicRegion, find_region
from chiasma.tumour.polish import Explanation
from chiasma.tumour.segments import CopySegment, clone_names, expected_depth, segments
from chiasma.tumour.solutions import Answer, Patient, Solution
from chiasma.types import Floats

with extra("tumour"):
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from chiasma.report.figures.style import BLACK, QUIET

GAIN, LOSS, NEUTRAL, LOH = "#b2182b", "#2166ac", "0.55", "#5aae61"
# Copies 0, 1, 2, ...: losses blue, two grey, gains from yellow to purple; all can be seen as small points on white.
COPY_COLOURS = ("#2148c0", "#6baed6", "#a6a6a6", "#fec44f", "#fb8a3c", "#e34a33", "#b30000", "#7a0177", "#2d004b")
# The part of a clone's bar that marks the loss of one allele.
LOH_BAND = 0.25
LOST = "no minor allele (loss of heterozygosity)"
# Mean copies this near two are two.
NEAR_TWO = 0.05
SOLUTION_MARK: dict[str, Any] = {"ms": 11, "mfc": "white", "mec": BLACK, "mew": 1.2}
# Normal cells grey, then the main clone and its subclones.
CLONE_COLOURS = ("0.85", "#4c72b0", "#dd8452", "#55a868")
MEGABASE = 1e6
DPI = 130
# Solutions on one page.
MOST_SHOWN = 6
# Solutions whose fractions of clones are drawn side by side.
MOST_FRACTIONS = 4
# Lines at whole copies are drawn up to here.
MOST_LINES = 16
# Longer gaps without data are left blank.
LONG_GAP = 4e6
Span = tuple[float, float]  # left and right ends, in megabases


@dataclass(frozen=True)
class Places:
    """Where the bins are on one axis, in bases: chromosomes side by side, or a region in its own coordinates."""

    left: Floats
    right: Floats
    edges: tuple[tuple[str, float, float], ...]
    centromeres: tuple[tuple[float, float], ...]

    @property
    def middle(self) -> Floats:
        return (self.left + self.right) / 2


def places(bins: Bins, known: Assembly | None) -> Places:
    left = np.empty(bins.n_bins)
    edges, centromeres = [], []
    offset = 0.0
    for name, first, stop in zip(bins.chromosomes, bins.starts, [*bins.starts[1:], bins.n_bins], strict=True):
        length = float(bins.end[stop - 1])
        if known is not None:
            length = max(length, known.lengths.get(same_chromosome(name), 0))
            centre = known.centromere(name)
            if centre is not None:
                centromeres.append((offset + centre[0], offset + centre[1]))
        left[first:stop] = offset + bins.start[first:stop]
        edges.append((name, offset, offset + length))
        offset += length
    return Places(left, left + (bins.end - bins.start), tuple(edges), tuple(centromeres))


def plot_genome(answer: Answer, solution: Solution, known: Assembly | None, fig: Figure) -> None:
    """Depth, and alleles if there are any, along the genome, with the levels of a solution."""
    where = places(answer.bins, known)
    own = solution.best
    has_alleles = answer.data.has_alleles
    axes = fig.subplots(3 if has_alleles else 2, 1, sharex=True, height_ratios=[3, 1.6, 1] if has_alleles else [3, 1])
    found = segments(answer.data, own)
    draw_depth(axes[0], answer, own, found, where)
    if has_alleles:
        draw_alleles(axes[1], answer, own, where)
    draw_clones(axes[-1], answer.bins, own, found, where)
    for ax in axes:
        mark_chromosomes(ax, where)
    name_chromosomes(axes[0], where)
    megabases(axes[-1], where)
    axes[0].set_title(_title(answer, solution), fontsize="medium", pad=16)


def _title(answer: Answer, solution: Solution) -> str:
    if answer.flat:
        return f"{answer.bins.sample}: {FLAT}"
    rank = answer.solutions.index(solution) + 1
    return (
        f"{answer.bins.sample}, solution {rank} of {len(answer.solutions)}: purity {solution.purity:.2f}, "
        f"ploidy {solution.ploidy:.2f}, probability {chance(solution.probability)}"
    )


def draw_depth(ax: Axes, answer: Answer, own: Explanation, found: Sequence[CopySegment], where: Places) -> None:
    """Depth of the bins in the colours of `draw_clones`, by the mean copies of the tumour cells, and the level of every
    segment; a line at every whole copy.
    """
    y = answer.bins.depth
    seen = ~np.isnan(y)
    expected = expected_depth(own)
    high = float(np.nanquantile(y, 0.998)) * 1.05
    high = max(high, float(expected[seen].max(initial=0)) * 1.1)
    base = min(high, max(float(np.nanquantile(y, 0.9)) * 2.2, _copy_levels(own)[3]))
    top = min(high, base)
    clipped = seen & (y > top)
    colours = np.empty(len(y), dtype=object)
    for one in found:
        colours[one.first : one.stop] = _copy_colour(int(one.copies + 0.5))
    plain = seen & ~clipped
    ax.scatter(
        where.middle[plain] / MEGABASE, y[plain], s=2.5, c=list(colours[plain]), lw=0, alpha=0.8, rasterized=True
    )
    ax.scatter(
        where.middle[clipped] / MEGABASE,
        np.full(int(clipped.sum()), top * 0.985),
        s=14,
        marker="^",
        c=list(colours[clipped]),
        lw=0,
        label="above",
    )
    levels = []
    for one in found:
        level = float(expected[one.first : one.stop].mean())
        if level < top:
            levels += [(span, level) for span in _spans(answer.bins, one.first, one.stop, where)]
    _draw_levels(ax, levels, BLACK, 1.4)
    ax.set_ylim(0, top)
    ax.set_ylabel("depth")
    _mark_copies(ax, own, top).set_ylabel("copies")
    if clipped.any():
        ax.annotate(
            f"▲ {int(clipped.sum())} bin{'s' if clipped.sum() > 1 else ''} above",
            (1.0, 1.0),
            xycoords="axes fraction",
            xytext=(0, 16),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7,
        )


def _draw_levels(ax: Axes, levels: Sequence[tuple[Span, float]], colours: str | Sequence[str], width: float) -> None:
    """A horizontal line over every span. They are one artist: one for each would take most of the time of a figure."""
    lines = [[(left, level), (right, level)] for (left, right), level in levels]
    ax.add_collection(LineCollection(lines, colors=colours, linewidths=width, capstyle="butt"), autolim=False)


def _copy_levels(own: Explanation) -> list[float]:
    """The depth of 0, 1, 2, ... copies in all tumour cells."""
    purity, scale = own.parameters.purity, own.parameters.scale
    return [scale * (2 * (1 - purity) + purity * n) / 2 for n in range(MOST_LINES)]


def _mark_copies(ax: Axes, own: Explanation, top: float) -> Any:
    """A line at every whole copy below the top, and an axis that counts them as far as there is room."""
    shown = [(n, level) for n, level in enumerate(_copy_levels(own)) if level < top]
    for _, level in shown:
        ax.axhline(level, color=QUIET, lw=0.5, ls=":", zorder=0)
    right = ax.secondary_yaxis("right")
    gap = (shown[1][1] - shown[0][1]) / top if len(shown) > 1 else 1.0
    every = max(1, int(np.ceil(0.055 / max(gap, 1e-3))))
    right.set_yticks([level for _, level in shown[::every]], labels=[str(n) for n, _ in shown[::every]])
    return right


def draw_alleles(ax: Axes, answer: Answer, own: Explanation, where: Places) -> None:
    """The smaller allele fraction of every unit, mirrored about 1/2, and its expectation under the solution."""
    alleles = answer.bins.alleles
    assert alleles is not None
    x = where.middle[alleles.bin] / MEGABASE
    for share in (alleles.fraction, 1 - alleles.fraction):
        ax.scatter(x, share, s=2, c=NEUTRAL, lw=0, alpha=0.35, rasterized=True)
    expected = expected_fraction(own)
    cuts = np.unique(np.concatenate([answer.bins.starts, np.flatnonzero(np.abs(np.diff(expected)) > 0.004) + 1]))
    levels = []
    for first, stop in zip(cuts, [*cuts[1:], len(expected)], strict=True):
        level = float(expected[first:stop].mean())
        span = where.left[first] / MEGABASE, where.right[stop - 1] / MEGABASE
        levels += [(span, level), (span, 1 - level)]
    _draw_levels(ax, levels, BLACK, 1.1)
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 0.5, 1])
    ax.set_ylabel("allele\nfraction")


def expected_fraction(own: Explanation) -> Floats:
    """(T,) of the minor allele, from the most probable states."""
    purity = own.parameters.purity
    copies = own.states.values[own.main.argmax(axis=1), :2].copy()
    for share, change in zip(own.parameters.fractions, own.changes, strict=True):
        copies += share * own.states.changes[change.argmax(axis=1), :2]
    cells = (1 - purity) * np.array(own.states.normal, float) + purity * np.maximum(copies, 0)
    return np.asarray(cells.min(axis=1) / cells.sum(axis=1))


def draw_clones(ax: Axes, bins: Bins, own: Explanation, found: Sequence[CopySegment], where: Places) -> None:
    """Copies of every clone as colours, with the clones' shares of all cells, and the legend of the whole figure."""
    shares = own.parameters.clone_fractions[1:]
    for row in range(len(shares)):
        spans, colours, lost = [], [], []
        for one in found:
            own_spans = [(left, right - left) for left, right in _spans(bins, one.first, one.stop, where)]
            spans += own_spans
            colours += [_copy_colour(one.clones[row].total)] * len(own_spans)
            lost += own_spans if one.clones[row].lost else []
        ax.broken_barh(spans, (row - 0.42, 0.84), facecolors=colours, lw=0)
        ax.broken_barh(lost, (row + 0.42 - LOH_BAND, LOH_BAND), facecolors=LOH, lw=0)
    names = ["main", *(f"subclone {j}" for j in range(1, len(shares)))]
    ax.set_yticks(range(len(shares)), labels=[f"{n} {s:.0%}" for n, s in zip(names, shares, strict=True)], fontsize=8)
    ax.set_ylim(len(shares) - 0.5, -0.5)
    handles: list[Patch | Line2D] = [
        _patch(COPY_COLOURS[n], f"{n}{'+' if n == len(COPY_COLOURS) - 1 else ''}") for n in range(len(COPY_COLOURS))
    ]
    if own.states.alleles:
        handles.append(_patch(LOH, LOST))
    handles.append(Line2D([], [], color=BLACK, lw=1.4, label="expected by this solution"))
    ax.legend(
        handles=handles,
        title="copies (bars: of each clone; points of the depth: mean of the tumour cells, rounded)",
        ncols=len(handles),
        fontsize=7,
        title_fontsize=7,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.45),
        handlelength=1,
        columnspacing=1,
    )


def _patch(colour: str, label: str) -> Patch:
    return Patch(facecolor=colour, edgecolor="0.7", label=label, lw=0.5)


def _copy_colour(copies: int) -> str:
    return COPY_COLOURS[min(copies, len(COPY_COLOURS) - 1)]


def _mean_colour(one: CopySegment) -> str:
    """Gain, loss or two copies, by the mean copies; LOH if the largest clone has two copies or more of one allele."""
    if one.seen.lost and one.copies >= 2 - NEAR_TWO:
        return LOH
    if abs(one.copies - 2) > NEAR_TWO:
        return GAIN if one.copies > 2 else LOSS
    return BLACK


def _spans(bins: Bins, first: int, stop: int, where: Places) -> list[Span]:
    """Left and right ends, in megabases, of what the bins first..stop-1 cover: without long gaps in the data."""
    seen = first + np.flatnonzero(~np.isnan(bins.depth[first:stop]))
    if not len(seen):
        return []
    breaks = np.flatnonzero(where.left[seen[1:]] - where.right[seen[:-1]] > LONG_GAP)
    starts, ends = np.append(seen[0], seen[breaks + 1]), np.append(seen[breaks], seen[-1])
    return [(where.left[a] / MEGABASE, where.right[b] / MEGABASE) for a, b in zip(starts, ends, strict=True)]


def mark_chromosomes(ax: Axes, where: Places) -> None:
    ax.set_xlim(where.edges[0][1] / MEGABASE, where.edges[-1][2] / MEGABASE)
    place = ax.get_xaxis_transform()
    borders = [[(end / MEGABASE, 0), (end / MEGABASE, 1)] for _, _, end in where.edges[:-1]]
    ax.add_collection(LineCollection(borders, colors="0.3", linewidths=0.5, transform=place), autolim=False)
    centromeres = [(a / MEGABASE, (b - a) / MEGABASE) for a, b in where.centromeres]
    limits = ax.get_ylim()
    ax.broken_barh(centromeres, (0, 1), facecolors="0.85", lw=0, zorder=0, transform=place)
    ax.set_ylim(limits)  # bars along the whole height must not change the limits
    ax.spines[["top", "right"]].set_visible(False)


def name_chromosomes(ax: Axes, where: Places) -> None:
    """Names above the chromosomes: as in the file, or without "chr" if they would not fit."""
    above = ax.secondary_xaxis("top")
    total = where.edges[-1][2] - where.edges[0][1]

    def fits(name: str, length: float) -> bool:
        return length / total > 0.0055 * len(name)

    whole = all(fits(name, b - a) for name, a, b in where.edges)
    named = [(name if whole else same_chromosome(name).upper(), a, b) for name, a, b in where.edges]
    shown = [(name, (a + b) / 2) for name, a, b in named if fits(name, b - a)]
    above.set_xticks([x / MEGABASE for _, x in shown], labels=[name for name, _ in shown])
    above.tick_params(length=0, pad=1, labelsize=8)
    above.spines[:].set_visible(False)


def megabases(ax: Axes, where: Places) -> None:
    if len(where.edges) == 1:
        ax.set_xlabel(f"position on chromosome {where.edges[0][0]} (Mb)")
    else:
        ax.tick_params(axis="x", labelsize=8)
        ax.set_xlabel("genome (Mb; grey: centromeres)" if where.centromeres else "genome (Mb)", labelpad=2)


def plot_landscape(answer: Answer, fig: Figure) -> None:
    """Log evidence of one clone over purity and ploidy, and the solutions: circles, and squares where they have several
    clones, whose fit the colours do not show.
    """
    ax = fig.subplots()
    shown = that_matter(answer)
    highest = max(7.0, *(one.ploidy + 0.2 for one in shown))
    ploidies = np.linspace(max(1.2, answer.bounds.ploidy[0]), min(highest, answer.bounds.ploidy[1]), 260)
    single = answer.landscapes[False]
    grid = np.full((len(single.purities), len(ploidies)), -np.inf)
    for one in answer.landscapes.values():
        for i, purity in enumerate(one.purities):
            own = one.ploidy(np.array(purity), one.scales)
            order = np.argsort(own)
            known = np.isfinite(one.log_evidence[i][order])
            if known.sum() > 1:
                line = np.interp(ploidies, own[order][known], one.log_evidence[i][order][known], np.nan, np.nan)
                grid[i] = np.fmax(grid[i], line)
    best = np.nanmax(grid[np.isfinite(grid)])
    drop = best - grid
    # A square root shows near rivals and the whole range alike.
    image = ax.pcolormesh(
        ploidies, single.purities, np.sqrt(np.where(np.isfinite(drop), drop, np.nan)), cmap="magma_r", rasterized=True
    )
    bar = fig.colorbar(image, ax=ax, pad=0.02)
    ticks = [
        x
        for x in (0, 10, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000)
        if x <= np.nanmax(drop[np.isfinite(drop)])
    ]
    bar.set_ticks([np.sqrt(x) for x in ticks], labels=[f"{x:,}" for x in ticks])
    bar.set_label("log evidence below the best, one clone")
    for i, solution in reversed(list(enumerate(shown, start=1))):
        ax.plot(solution.ploidy, solution.purity, _clone_marker(solution), **SOLUTION_MARK)
        ax.text(solution.ploidy, solution.purity, str(i), ha="center", va="center", fontsize=7)
    ax.set_xlabel("ploidy (mean copies per tumour cell)")
    ax.set_ylabel("purity")
    ax.set_xlim(ploidies[0], ploidies[-1])
    ax.set_ylim(0, 1.03)
    told = [f"{i}: {chance(one.probability)}" for i, one in enumerate(shown, start=1)]
    title = FLAT if answer.flat else f"probabilities {', '.join(told)}"
    ax.set_title(f"{answer.bins.sample}: {title}", fontsize="medium")
    meanings = {
        "o": "solution of one clone",
        "s": "solution of several clones, whose fit the colours (one clone) do not show",
    }
    used = {_clone_marker(solution) for solution in shown}
    handles = [
        Line2D([], [], ls="", marker=m, label=text, **SOLUTION_MARK) for m, text in meanings.items() if m in used
    ]
    fig.legend(handles=handles, loc="outside lower center", fontsize=8, frameon=False)


def _clone_marker(solution: Solution) -> str:
    return "s" if solution.best.parameters.n_clones > 1 else "o"


def plot_solutions(answer: Answer, shown: Sequence[Solution], known: Assembly | None, fig: Figure) -> None:
    """Mean copies per tumour cell along the genome in the solutions to be shown, on one page."""
    where = places(answer.bins, known)
    axes = np.atleast_1d(fig.subplots(len(shown), 1, sharex=True))
    clipped = False
    for i, (ax, solution) in enumerate(zip(axes, shown, strict=True), start=1):
        own = solution.best
        purity, scale = own.parameters.purity, own.parameters.scale
        copies = (2 * answer.bins.depth / scale - 2 * (1 - purity)) / purity
        top = max(4.6, float(own.copies.max()) + 0.6, float(np.nanquantile(copies, 0.99)))
        x = where.middle / MEGABASE
        above = copies > top
        ax.scatter(x[~above], np.maximum(copies[~above], -0.5), s=1.5, c="0.7", lw=0, rasterized=True)
        ax.scatter(x[above], np.full(int(above.sum()), top), s=9, marker="^", c="0.5", lw=0, clip_on=False)
        clipped = clipped or bool(above.any())
        levels, colours = [], []
        for one in segments(answer.data, own):
            spans = _spans(answer.bins, one.first, one.stop, where)
            levels += [(span, one.copies) for span in spans]
            colours += [_mean_colour(one)] * len(spans)
        _draw_levels(ax, levels, colours, 2)
        ax.set_ylim(-0.5, top)
        ax.set_yticks(range(0, int(top) + 1, 1 if top < 7 else 2))
        ax.grid(axis="y", lw=0.4, color="0.85")
        ax.set_ylabel("copies")
        likely = "" if answer.flat else f"probability {chance(solution.probability)}, "
        doubled = f", doubled {solution.doubled:.0%}" if solution.doubled > 0.005 else ""
        clones = own.parameters.n_clones
        ax.set_title(
            f"{i}: {likely}purity {purity:.2f}, ploidy {solution.ploidy:.2f}, "
            f"{clones} clone{'s' if clones > 1 else ''}{doubled}",
            fontsize="small",
            loc="left",
            pad=3,
        )
        mark_chromosomes(ax, where)
    name_chromosomes(axes[0], where)
    axes[0].set_title(axes[0].get_title(loc="left"), fontsize="small", loc="left", pad=14)
    megabases(axes[-1], where)
    handles = [
        Line2D([], [], color=GAIN, lw=2, label="more than two copies (gain)"),
        Line2D([], [], color=BLACK, lw=2, label="two copies"),
        Line2D([], [], color=LOSS, lw=2, label="fewer than two copies (loss)"),
        Line2D([], [], color="0.7", ls="", marker="o", ms=3, label="depth of a bin, as copies"),
    ]
    if any(solution.best.states.alleles for solution in shown):
        handles.insert(2, Line2D([], [], color=LOH, lw=2, label=f"two copies or more, {LOST}"))
    if clipped:
        handles.append(Line2D([], [], color="0.5", ls="", marker="^", ms=4, label="bin above the axis"))
    fig.legend(
        handles=handles,
        title="bars: mean copies per tumour cell",
        loc="outside lower center",
        ncols=len(handles),
        fontsize=7,
        title_fontsize=7,
        frameon=False,
    )


def _named(rank: int, solution: Solution, flat: bool) -> str:
    return f"solution {rank}" if flat else f"solution {rank} ({chance(solution.probability)})"


def plot_region(answer: Answer, region: GenomicRegion, known: Assembly | None, fig: Figure, most: int = 4) -> None:
    """A region: the data with the levels of each solution, and the probabilities of the main clone's states."""
    shown = [one for one in answer.solutions if one.probability > 1e-4][:most] or list(answer.solutions[:1])
    axes = fig.subplots(2, len(shown), squeeze=False, sharex=True, height_ratios=[2, 1])
    cut = slice(region.first, region.stop)
    x = answer.bins.middle[cut] / MEGABASE
    y = answer.bins.depth[cut]
    for column, solution in enumerate(shown):
        own = solution.best
        ax, below = axes[:, column]
        ax.scatter(x, y, s=6, c="0.6", lw=0)
        ax.step(x, expected_depth(own)[cut], where="mid", color=BLACK, lw=1.5)
        top = max(float(np.nanmax(y)) * 1.05, 1e-3)
        ax.set_ylim(0, top)
        _mark_copies(ax, own, top)
        rank = answer.solutions.index(solution) + 1
        ax.set_title(_named(rank, solution, answer.flat), fontsize="small")
        share = own.main[cut]
        for s in np.argsort(-share.mean(axis=0), kind="stable")[:4]:
            if share[:, s].max() > 0.02:
                below.step(x, share[:, s], where="mid", label=own.states.texts[s], lw=1.3)
        below.set_ylim(-0.02, 1.02)
        below.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        below.set_xlabel(f"chromosome {same_chromosome(region.chromosome).upper()} (Mb)")
        centre = None if known is None else known.centromere(region.chromosome)
        for one in (ax, below):
            if centre is not None:
                one.axvspan(centre[0] / MEGABASE, centre[1] / MEGABASE, color="0.85", lw=0, zorder=0)
            one.set_xlim(x[0], x[-1] if len(x) > 1 else x[0] + 1)
    axes[0, 0].set_ylabel("depth")
    axes[1, 0].set_ylabel("P(state of the\nmain clone)")
    fig.suptitle(f"{answer.bins.sample}, {region.text}", fontsize="medium")


def plot_patient(patient: Patient, number: int, known: Assembly | None, fig: Figure) -> None:
    """Depth, and alleles if there are any, of every sample along the genome, above the clones of a joint solution."""
    first = patient.answers[0]
    where = places(first.bins, known)
    heights: list[float] = []
    for answer in patient.answers:
        heights += [2.4, 1.4] if answer.data.has_alleles else [2.4]
    own = [answer.solutions[number].best for answer in patient.answers]
    axes = list(np.atleast_1d(fig.subplots(len(heights) + 1, 1, sharex=True, height_ratios=[*heights, 1.1])))
    panels = iter(axes)
    for sample, answer, one in zip(patient.samples, patient.answers, own, strict=True):
        ax = next(panels)
        draw_depth(ax, answer, one, segments(answer.data, one), where)
        solution = answer.solutions[number]
        title = f"{sample}: purity {solution.purity:.2f}, ploidy {solution.ploidy:.2f}"
        ax.set_title(title, fontsize="small", loc="left", pad=14 if ax is axes[0] else 3)
        if answer.data.has_alleles:
            draw_alleles(next(panels), answer, one, where)
    ax = next(panels)
    draw_clones(ax, first.bins, own[0], segments(first.data, own[0]), where)
    shares = [one.parameters.clone_fractions[1:] for one in own]
    ax.set_yticks(
        range(len(shares[0])),
        labels=[
            f"{name.replace('_', ' ')} {', '.join(f'{own[row]:.0%}' for own in shares)}"
            for row, name in enumerate(clone_names(len(shares[0])))
        ],
        fontsize=7,
    )
    for ax in axes:
        mark_chromosomes(ax, where)
    name_chromosomes(axes[0], where)
    megabases(axes[-1], where)
    probability = chance(first.solutions[number].probability)
    told = FLAT if patient.flat else f"solution {number + 1} of {patient.n_solutions}, probability {probability}"
    fig.suptitle(f"{', '.join(patient.samples)}: {told}", fontsize="medium")


def plot_fractions(patient: Patient, shown: Sequence[int], fig: Figure) -> None:
    """The fractions of normal cells and of clones in every sample, for the solutions to be shown."""
    axes = np.atleast_1d(fig.subplots(1, len(shown), sharey=True))
    most = 0
    for ax, number in zip(axes, shown, strict=True):
        for row, answer in enumerate(patient.answers):
            fractions = answer.solutions[number].best.parameters.clone_fractions
            most = max(most, len(fractions))
            left = 0.0
            for colour, share in zip(CLONE_COLOURS, fractions, strict=False):
                ax.barh(row, share, left=left, color=colour, height=0.7, lw=0)
                if share > 0.08:
                    ax.text(left + share / 2, row, f"{share:.0%}", ha="center", va="center", fontsize=7)
                left += share
        ax.set_title(_named(number + 1, patient.answers[0].solutions[number], patient.flat), fontsize="small")
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of cells")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(patient.samples)), labels=patient.samples, fontsize=8)
    axes[0].set_ylim(len(patient.samples) - 0.5, -0.5)
    names = ["normal", *(name.replace("_", " ") for name in clone_names(most - 1))]
    handles = [Patch(facecolor=colour, label=name) for colour, name in zip(CLONE_COLOURS, names, strict=False)]
    fig.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)


# ---- Files -----------------------------------------------------------------------------------------------------------


def write_figures(patient: Patient, out: Path, known: Assembly | None, regions: Sequence[str] = ()) -> None:
    """Figures of every sample, and of several samples those of all together; regions: in words."""
    for answer, folder in zip(patient.answers, sample_folders(patient, out), strict=True):
        _write_sample_figures(answer, folder / "figures", known)
        for region in [find_region(answer.bins, text, known) for text in regions]:
            n = max(1, min(4, sum(one.probability > 1e-4 for one in answer.solutions)))
            _draw(folder / "figures" / region_file(region), (4.6 * n, 5), partial(plot_region, answer, region, known))
    if len(patient.answers) > 1:
        _write_joint_figures(patient, out / "figures", known)


def region_file(region: GenomicRegion) -> str:
    return f"region-{''.join(c if c.isalnum() else '-' for c in region.text)}.png"


def _write_sample_figures(answer: Answer, folder: Path, known: Assembly | None) -> None:
    """The genome in every solution that matters, the landscape, and all solutions on one page."""
    shown = that_matter(answer)[:MOST_SHOWN]
    _draw(folder / "purity-ploidy.png", (7.5, 5), lambda fig: plot_landscape(answer, fig))
    _draw(
        folder / "solutions.png",
        (13, 1.2 + 1.5 * len(shown)),
        lambda fig: plot_solutions(answer, shown, known, fig),
    )
    height = 6.4 if answer.data.has_alleles else 5.0
    for i, solution in enumerate(that_matter(answer), start=1):
        _draw(folder / f"solution-{i}.png", (13, height), partial(plot_genome, answer, solution, known))


def _write_joint_figures(patient: Patient, folder: Path, known: Assembly | None) -> None:
    """All samples above their clones, for every joint solution that matters, and the fractions of clones."""
    shown = range(len(that_matter(patient.answers[0])))
    n, few = len(patient.samples), list(shown)[:MOST_FRACTIONS]
    _draw(
        folder / "clone-fractions.png",
        (2.4 + 2.6 * len(few), 1.4 + 0.45 * n),
        lambda fig: plot_fractions(patient, few, fig),
    )
    height = 2.2 + sum(3.2 if answer.data.has_alleles else 2.1 for answer in patient.answers)
    for number in shown:
        _draw(folder / f"solution-{number + 1}.png", (13, height), partial(plot_patient, patient, number, known))


def _draw(path: Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> None:
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.whole_file(path) as file:
        figure.savefig(file, dpi=DPI, format="png")
