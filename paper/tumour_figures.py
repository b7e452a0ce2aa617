"""Tables and figures of the tumour analysis: traces, rows on chosen chromosomes, probabilities of configurations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chiasma import plots
from chiasma.report.figures.sites import SiteRange
from chiasma.report.figures.style import ORANGE, STATES, entitle, legend_beside, look, mark_starts
from paper import tumour_cases as cases
from paper.result import Figure, ResultTable
from paper.schema import canvas, save
from paper.timings import EXACT
from paper.tumour_cases import N_FREE, SAMPLERS, Outcome, Share

# Number of draws shown in a figure of rows.
N_SHOWN = 100


def tables(outcome: Outcome, listed: Sequence[Share], stem: str, what: str) -> list[ResultTable]:
    """Distance of each sampler from the exact log joint, and the probabilities it gives."""
    reached, seconds = cases.from_exact(outcome), outcome.seconds()
    on = {name: cases.late(p.rows_on()).values.mean(axis=(0, 1)) for name, p in outcome.posteriors.items()}
    moved = {name: float(p.exchange_stats["columns"].sum()) for name, p in outcome.posteriors.items()}
    runs = ResultTable(
        stem=f"tumour-{stem}-runs",
        caption="Mean log joint of the last fifth of the iterations, counted from the exact mean; mean error of the "
        f"number of rows on; columns moved per exchange; seconds of two chains on two workers: {what}.",
        header=["sampler", "log_joint_from_exact", "error_rows_on", "columns_moved", "seconds"],
        rows=[
            [name, round(float(np.mean(reached[name])), 1), round(float(np.abs(on[name] - on[EXACT]).mean()), 4),
             round(moved[name], 1), round(seconds[name], 2)]
            for name in outcome.posteriors
        ],
    )  # fmt: skip
    several = ResultTable(
        stem=f"tumour-{stem}-configurations",
        caption=f"Probability of configurations by exact draws and by each sampler after its burn-in: {what}. A "
        "configuration has one digit per free row, row 0 first, at columns separated by |; or it is the number of rows "
        "on where that is least certain.",
        header=["chromosome", "configuration", *outcome.posteriors, "standard_error_of_exact"],
        rows=[
            [s.place, s.configuration, *(round(s.probability(name), 4) for name in outcome.posteriors),
             round(s.error, 4)]
            for s in listed
        ],
    )  # fmt: skip
    return [runs, several]


def traces(folder: Path, outcome: Outcome, stem: str, what: str, of_paper: bool) -> Figure:
    """Log joint of every chain against the exact band."""
    ax = (picture := canvas(11, 4)).subplots()
    plots.plot_log_joint({name: outcome.posteriors[name] for name in SAMPLERS}, ax=ax, exact_band=outcome.band)
    lowest = min(float(cases.late(outcome.posteriors[name].log_joint).min()) for name in SAMPLERS)
    ax.set_ylim(lowest, outcome.band[2] + 0.1 * (outcome.band[2] - lowest))
    ax.set_xlabel("kept draw")
    caption = f"Log joint of HB(3) alone and with exchanges against the exact mean and 5-95% band: {what}"
    paper = "Figure 9 (a)" if of_paper else None
    return save(picture, folder, Figure(stem=f"tumour-{stem}-traces", caption=caption, paper_figure=paper))


def rows(folder: Path, outcome: Outcome, stem: str, what: str) -> Figure:
    """The free rows on the ambiguous chromosomes, draw by draw."""
    picture = canvas(16, 9)
    panels = picture.subplots(2, len(outcome.posteriors), sharex="row", sharey=True)
    for line, (first, last) in zip(panels, ((17, 17), (21, 22)), strict=True):
        start, stop = outcome.case.span(first)[0], outcome.case.span(last)[1]
        for ax, (name, posterior) in zip(line, outcome.posteriors.items(), strict=True):
            codes = posterior.codes[0, :, start:stop].values
            # Single draws, not means of neighbours: averages would be grey, a value that no draw has.
            codes = codes[:: -(-len(codes) // N_SHOWN)]
            bands = [(codes >> k & 1)[::-1] for k in range(N_FREE)]
            extent = (start - 0.5, stop - 0.5, N_FREE, 0)
            ax.imshow(
                np.concatenate(bands), cmap=STATES, vmin=0, vmax=1, aspect="auto", extent=extent, interpolation="none"
            )
            ax.hlines(range(1, N_FREE), start - 0.5, stop - 0.5, colors=ORANGE, linewidths=0.8)
            mark_starts(ax, SiteRange(outcome.case.data, start, stop), names=False)
            ax.set_yticks(np.arange(N_FREE) + 0.5, labels=[f"row {k}" for k in range(N_FREE)])
            entitle(ax, name)
        line[0].set_xlabel(f"site (chromosome {first})" if first == last else f"site (chromosomes {first}, {last})")
    caption = (
        f"Rows 0 to 4 (dark = 1), {what}; in every band the draws of one chain go up, {N_SHOWN} of them. On the left: "
        "independent exact draws, the goal"
    )
    return save(picture, folder, Figure(stem=f"tumour-{stem}-rows", caption=caption, paper_figure="Figure 9 (b)"))


def probabilities(folder: Path, listed: Sequence[Share], stem: str, what: str) -> Figure:
    """Bar chart of the probability of each configuration by exact draws and by each sampler."""
    ax = (picture := canvas(11, 1.5 + 0.62 * len(listed))).subplots()
    names = (EXACT, *SAMPLERS)
    for i, name in enumerate(names):
        at = np.arange(len(listed)) + (i - (len(names) - 1) / 2) * 0.14
        own = look(i - 1)
        style: dict[str, Any] = {"color": "0.25"} if name == EXACT else {"color": own.colour, "hatch": own.hatch}
        ax.barh(at, [s.probability(name) for s in listed], height=0.13, label=name, edgecolor="white", **style)
    ax.hlines(np.arange(len(listed) - 1) + 0.5, 0, 1, transform=ax.get_yaxis_transform(), colors="0.85", linewidths=0.8)
    ax.set_yticks(range(len(listed)), labels=[f"{s.place}: {s.configuration}" for s in listed], family="monospace")
    ax.set_ylim(len(listed) - 0.5, -0.5)
    ax.set_xlabel("probability")
    ax.spines[["top", "right"]].set_visible(False)
    legend_beside(ax)
    caption = f"Probability of each configuration by exact draws and by each sampler after its burn-in: {what}"
    return save(picture, folder, Figure(stem=f"tumour-{stem}-configurations", caption=caption))


def level(folder: Path, outcome: Outcome) -> Figure:
    """The real profile, its exact level, and the number of rows on by every sampler."""
    picture = canvas(13, 7)
    top, ax = picture.subplots(2, 1)
    plots.plot_level(outcome.posteriors[EXACT], ax=top)
    start, stop = outcome.case.span(20)[0], outcome.case.span(22)[1]
    for i, (name, posterior) in enumerate(outcome.posteriors.items()):
        total = cases.late(posterior.rows_on()[..., start:stop]).values.mean(axis=(0, 1))
        own = look(i - 1)._replace(colour="0.6", line="-") if name == EXACT else look(i - 1)
        ax.plot(np.arange(start, stop), total, color=own.colour, ls=own.line, label=name, lw=1.2 if i else 4)
    ax.set_xlim(start - 0.5, stop - 0.5)
    mark_starts(ax, SiteRange(outcome.case.data, start, stop), names=False)
    for chromosome in (20, 21, 22):
        first, end = outcome.case.span(chromosome)
        ax.annotate(str(chromosome), ((first + end) / 2, 1.02), xycoords=ax.get_xaxis_transform(), ha="center")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(xlabel="site (chromosomes 20, 21, 22)", ylabel="mean number of rows on")
    legend_beside(ax)
    caption = (
        f"Relative copy number x 100 of {cases.SAMPLE}, the exact posterior of its level, and rows on by each sampler"
    )
    return save(picture, folder, Figure(stem="tumour-real-level", caption=caption))
