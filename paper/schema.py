"""Figures specific to the experiments: the paper's two diagrams, and those of the toy target.

Figures are numbered as in the LaTeX source of the paper, in the order of its captions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from chiasma import plots
from chiasma.models.density import BlockModes, Vector
from chiasma.report.figures.style import BLACK, BLUE, ORANGE, SKY, STATES, entitle
from chiasma.results.posterior import Posterior
from chiasma.sampling.vector_exchanges import crossover_weights, exchange_candidate
from chiasma.types import Floats
from paper.result import ExperimentResult, Figure, Finding

DPI = 130
# The pair of figure 1, and the cut that makes its auxiliary pair: coordinates 0..5 exchanged.
X_I, X_J = (0, 0, 0, 1, 1, 1, 0, 0), (1, 1, 1, 0, 0, 0, 1, 0)
CUT = 5
# Figure 6: two of three rows together weigh as much as the third.
WEIGHTS = (0.2, 0.3, 0.5)
DEPTH, SD = 60.0, 4.0
BLOCK = 12


def save(picture: Picture, folder: Path, figure: Figure) -> Figure:
    """Write <stem>.png and <stem>.pdf; the same figure gives identical files."""
    picture.savefig(folder / f"{figure.stem}.png", dpi=DPI, metadata={"Software": None})
    picture.set_layout_engine("none")  # the layout is done already, and it is the slowest part
    picture.savefig(folder / f"{figure.stem}.pdf", metadata={"CreationDate": None})
    return figure


def canvas(width: float, height: float) -> Picture:
    return Picture(figsize=(width, height), layout="constrained")


def run(folder: Path, quick: bool, seed: int) -> ExperimentResult:
    """Draw both diagrams. `quick` has no effect; the seed determines the noise of figure 6."""
    began = perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    states = two_configurations()
    levels = np.asarray(WEIGHTS) @ states
    gap = float(np.abs(levels[0] - levels[1]).max())
    _, weights = auxiliary_weights()
    figures = [crossover_figure(folder), configurations_figure(folder, states, seed)]
    return ExperimentResult(
        name="schema",
        title="The two diagrams: the augmented crossover, and two explanations of one signal",
        settings={"x_i": X_I, "x_j": X_J, "weights": WEIGHTS, "depth": DEPTH, "sd": SD, "seed": seed},
        findings=[
            Finding(
                claim="Figure 1: all crossovers of the auxiliary pair are weighed, and one is taken.",
                ours=f"Drawn from the weights that the package computes: {len(weights)} candidates for {len(X_I)} "
                f"sites; the three heaviest hold {np.sort(weights)[-3:].sum():.0%} of the probability.",
                verdict="agrees",
                numbers={"candidates": len(weights), "probabilities": weights.tolist()},
            ),
            Finding(
                claim="Figure 6: two configurations of three subpopulations cannot be told apart by their sum.",
                ours=f"Largest difference between the two levels: {gap:.2g}; they differ in "
                f"{int(np.count_nonzero(states[0] != states[1]))} of {states[0].size} entries.",
                verdict="agrees" if gap < 1e-12 else "differs",
                numbers={"level_difference": gap},
            ),
        ],
        figures=figures,
        tables=[],
        seconds=perf_counter() - began,
        folder=folder,
    )


def auxiliary_weights() -> tuple[tuple[Vector, Vector], Floats]:
    """The auxiliary pair (u, v) of figure 1, and the probability of each of its crossovers."""
    target = BlockModes(blocks=2, size=len(X_I), alpha=0.2)
    u, v = np.array(X_I, np.int8), np.array(X_J, np.int8)
    exchange_candidate(u, v, CUT)
    log_weights = crossover_weights(target, u, v, 1.0, 0.2)
    weights = np.exp(log_weights - log_weights.max())
    return (u, v), weights / weights.sum()


def crossover_figure(folder: Path) -> Figure:
    """Figure 1: the pair, the auxiliary pair, and its 2T crossovers with their probabilities."""
    (u, v), weights = auxiliary_weights()
    n = len(u)
    origin = np.zeros(n, np.int8), np.ones(n, np.int8)
    auxiliary = origin[0].copy(), origin[1].copy()
    exchange_candidate(*auxiliary, CUT)
    best = int(weights.argmax())
    picture = canvas(10, 5.6)
    left, right = picture.subfigures(1, 2, width_ratios=[1, 1.7])
    before, between, after = left.subplots(3, 1)
    _strips(before, [np.array(X_I), np.array(X_J)], list(origin), ["$x_i$", "$x_j$"])
    entitle(before, "(a) the current pair")
    _strips(between, [u, v], list(auxiliary), ["$u$", "$v$"])
    between.axvline(CUT + 0.5, color=BLACK, lw=1.6, ls="--")
    entitle(between, f"(b) a uniform one-point crossover, here after site {CUT + 1}")
    taken, source = _candidate(u, v, best), _candidate(*auxiliary, best)
    _strips(after, list(taken), list(source), ["$x_i$", "$x_j$"])
    entitle(after, "(d) the new pair: a two-point crossover of (a)")
    z_i, z_j, bars = right.subplots(1, 3, width_ratios=[1, 1, 0.9])
    candidates = [(_candidate(u, v, c), _candidate(*auxiliary, c)) for c in range(2 * n)]
    for ax, side, name in ((z_i, 0, "$z_i$"), (z_j, 1, "$z_j$")):
        names = [f"{'prefix' if c < n else 'suffix'} {c % n + 1}" if side == 0 else "" for c in range(2 * n)]
        _strips(ax, [bits[side] for bits, _ in candidates], [origins[side] for _, origins in candidates], names)
        ax.axhline(best - 0.5, color=BLACK, lw=1)
        ax.axhline(best + 0.5, color=BLACK, lw=1)
        entitle(ax, name)
    bars.barh(np.arange(2 * n), weights, color=[BLACK if c == best else "0.65" for c in range(2 * n)], height=0.7)
    bars.set_ylim(2 * n - 0.5, -0.5)
    bars.set_yticks([])
    bars.spines[["top", "right", "left"]].set_visible(False)
    bars.set_xlabel("probability")
    entitle(bars, "$\\propto \\pi_i(z_i)\\,\\pi_j(z_j)$")
    right.suptitle("(c) all 2T crossovers of (u, v), one is drawn (black)", fontsize="medium")
    caption = (
        "The augmented crossover. Blue sites come from replica i, orange ones from replica j; digits are the states. "
        "The candidates and their probabilities are those of the package, for a target of two blocks at temperatures "
        "1 and 5. Together with the cut in (b), the one drawn in (c) gives a two-point crossover of the first pair."
    )
    return save(picture, folder, Figure(stem="figure-1-crossover", caption=caption, paper_figure="Figure 1"))


def _candidate(a: Vector, b: Vector, candidate: int) -> tuple[Vector, Vector]:
    pair = a.copy(), b.copy()
    exchange_candidate(*pair, candidate)
    return pair


def _strips(ax: Axes, bits: list[Vector], origins: list[Vector], names: list[str]) -> None:
    """Draw sequences below each other: digits show the states, colours the replica they came from."""
    colours = np.array([[0.63, 0.80, 0.92], [0.96, 0.80, 0.50]])
    ax.imshow(colours[np.stack(origins)], aspect="auto", interpolation="none")
    for y, row in enumerate(bits):
        for x, bit in enumerate(row):
            ax.text(x, y, str(bit), ha="center", va="center", fontsize=9 if len(bits) > 2 else 12)
    ax.hlines(np.arange(len(bits) - 1) + 0.5, -0.5, len(bits[0]) - 0.5, colors="white", linewidths=2)
    ax.set_yticks(range(len(bits)), labels=names)
    ax.set_xticks([])
    ax.tick_params(length=0)
    if len(bits) == 2:
        ax.set_box_aspect(0.3)
    for spine in ax.spines.values():
        spine.set_visible(False)


def two_configurations() -> npt.NDArray[np.int8]:
    """(2, K, T): in every second block, rows 0 and 1 together, or row 2 alone; the middle block is shared by both."""
    on = np.repeat([0, 1, 0, 1, 0, 1, 0], BLOCK)
    middle = np.repeat([0, 0, 0, 1, 0, 0, 0], BLOCK)
    first = np.stack([on, on, 0 * on])
    second = np.stack([middle, middle, on - middle])
    return np.stack([first, second]).astype(np.int8)


def configurations_figure(folder: Path, states: npt.NDArray[np.int8], seed: int) -> Figure:
    """Figure 6: a signal on top, and below it two configurations that explain it equally well."""
    level = DEPTH * np.asarray(WEIGHTS) @ states[0]
    signal = np.random.default_rng(seed).normal(level, SD)
    picture = canvas(8, 5)
    top, *panels = picture.subplots(3, 1, sharex=True, height_ratios=[2, 1, 1])
    top.plot(signal, "o", color="0.55", ms=3.5, mew=0, label="signal")
    top.plot(level, color=BLUE, drawstyle="steps-mid", lw=1.6, label="level, the same for both")
    top.set_ylabel("signal")
    top.spines[["top", "right"]].set_visible(False)
    top.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    for ax, matrix, name in zip(panels, states, "ab", strict=True):
        ax.imshow(matrix, cmap=STATES, vmin=0, vmax=1, aspect="auto", interpolation="none")
        ax.hlines(np.arange(len(matrix) - 1) + 0.5, -0.5, matrix.shape[1] - 0.5, colors="white", linewidths=2)
        ax.set_yticks(range(len(matrix)), labels=[f"row {k + 1}, {w:g}" for k, w in enumerate(WEIGHTS)])
        ax.tick_params(left=False)
        entitle(ax, f"({name}) one configuration" if name == "a" else f"({name}) another one")
        for spine in ax.spines.values():
            spine.set_visible(False)
    panels[-1].set_xlabel("locus")
    caption = (
        "Two configurations of three subpopulations with weights 0.2, 0.3 and 0.5 (dark: altered). Rows 1 and 2 "
        "together weigh as much as row 3, so that the signal on top has the same level under both."
    )
    return save(picture, folder, Figure(stem="figure-6-configurations", caption=caption, paper_figure="Figure 6"))


def block_law_figure(folder: Path, laws: Mapping[float, Floats]) -> Figure:
    """Figure 2: probability of one vector by its number of ones, and of all vectors with as many, at each beta."""
    picture = canvas(9, 5.2)
    panels = picture.subplots(2, len(laws), sharex=True, sharey="row", squeeze=False)
    for (one, total), (beta, law), name in zip(panels.T, laws.items(), "ab", strict=True):
        length = len(law) - 1
        ones = np.arange(length + 1)
        vectors = np.cumprod(np.r_[1.0, (length - ones[:-1]) / (ones[:-1] + 1)])
        each = law / vectors
        one.bar(ones, each / each.max(), color=SKY, edgecolor=BLUE, linewidth=0.7)
        total.bar(ones, law, color=ORANGE, edgecolor=BLACK, linewidth=0.5)
        entitle(one, f"({name}) {'the target' if beta == 1 else f'tempered, β = {beta:g}'}")
        total.set_xlabel("ones in the block")
        for ax in (one, total):
            ax.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("one vector\n(the mode: 1)")
    panels[1, 0].set_ylabel("all vectors with\nas many ones")
    caption = (
        "The two modes of a block of 25 sites, alpha = 0.03. Above: probability of one vector, relative to a mode. "
        "Below: of all vectors with as many ones together. Tempered, the vectors between the modes are so many that "
        "the modes themselves have almost no probability: this is where the hot replica is."
    )
    return save(picture, folder, Figure(stem="toy-block", caption=caption, paper_figure="Figure 2"))


def modes_figure(folder: Path, blocks: int = 5) -> Figure:
    """Figure 3: every mode, one line each."""
    modes = BlockModes(blocks=blocks, size=10 * blocks, alpha=0.03).modes
    picture = canvas(5, 5.5)
    ax = picture.subplots()
    ax.imshow(modes, cmap=STATES, vmin=0, vmax=1, aspect="auto", interpolation="none")
    ax.hlines(np.arange(len(modes) - 1) + 0.5, -0.5, modes.shape[1] - 0.5, colors="white", linewidths=1)
    ax.set_xticks(np.arange(blocks) * 10 + 4.5, labels=[str(j + 1) for j in range(blocks)])
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.set_xlabel("block")
    ax.set_ylabel(f"the {len(modes)} modes")
    caption = f"All modes for B = {blocks} blocks, one line each (dark: 1, light: 0)."
    return save(picture, folder, Figure(stem="toy-all-modes", caption=caption, paper_figure="Figure 3"))


def heatmap_figure(folder: Path, posteriors: Mapping[tuple[int, str, str], Posterior], reading: str) -> Figure:
    """Figure 4 and the supplement: x over the iterations, a line of panels for every number of blocks."""
    blocks = sorted({b for b, _, _ in posteriors}, reverse=True)
    samplers = list(dict.fromkeys(name for _, _, name in posteriors))
    picture = canvas(2.9 * len(samplers), 2.6 * len(blocks))
    panels = picture.subplots(len(blocks), len(samplers), sharex=True, sharey=True, squeeze=False)
    for line, b in zip(panels, blocks, strict=True):
        for ax, name in zip(line, samplers, strict=True):
            plots.plot_row(posteriors[b, reading, name], ax=ax)
            entitle(ax, name if b == blocks[0] else "")
            ax.set_ylabel(f"B = {b}\niteration" if name == samplers[0] else "")
            ax.set_xlabel("site" if b == blocks[-1] else "")
    stem = f"toy-heatmaps-{reading.replace(' ', '-')}"
    caption = (
        f"The cold replica over the iterations of one run, {reading} per iteration (dark: 1, light: 0). First line: "
        "B = 10, the paper's figure 4; the others are in its supplement."
    )
    return save(picture, folder, Figure(stem=stem, caption=caption, paper_figure="Figure 4 and supplement"))


def jumps_figure(folder: Path, jumps: Mapping[tuple[int, str, str], npt.NDArray[np.int64]]) -> Figure:
    """Figure 5: cumulative jumps, a line of panels for every reading."""
    blocks = sorted({b for b, _, _ in jumps})
    readings = list(dict.fromkeys(reading for _, reading, _ in jumps))
    samplers = list(dict.fromkeys(name for _, _, name in jumps))
    picture = canvas(3.5 * len(blocks), 2.7 * len(readings))
    panels = picture.subplots(len(readings), len(blocks), sharex=True, squeeze=False)
    for line, reading in zip(panels, readings, strict=True):
        for ax, b in zip(line, blocks, strict=True):
            plots.plot_jumps({name: jumps[b, reading, name] for name in samplers}, ax=ax)
            handles = ax.get_legend_handles_labels()[0]
            legend = ax.get_legend()
            assert legend is not None
            legend.remove()
            ax.set_ylim(0, max(5.0, ax.get_ylim()[1]))  # so that a curve without jumps is visibly flat
            entitle(ax, f"B = {b}, {reading}")
            ax.set_ylabel("jumps" if b == blocks[0] else "")
            ax.set_xlabel("iteration" if reading == readings[-1] else "")
    picture.legend(handles, samplers, loc="outside lower center", ncols=len(samplers), frameon=False, handlelength=3.5)
    runs = len(next(iter(jumps.values())))
    caption = (
        f"Cumulative jumps between modes, mean and quartiles of {runs} runs, for the three readings of what one "
        "iteration updates. Scales differ between panels."
    )
    return save(picture, folder, Figure(stem="toy-jumps", caption=caption, paper_figure="Figure 5"))
