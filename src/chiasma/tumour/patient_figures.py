"""Figures of samples that were solved together: their data above the copy numbers that they share, and the fractions
of clones in every sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from chiasma.tumour.exports import FLAT, chance
from chiasma.tumour.figures import (
    draw_alleles,
    draw_clones,
    draw_depth,
    mark_chromosomes,
    megabases,
    name_chromosomes,
    places,
)
from chiasma.tumour.genome import Assembly
from chiasma.tumour.patient import Patient
from chiasma.tumour.segments import clone_names, segments

# Normal cells grey, then the main clone and its subclones.
CLONE_COLOURS = ("0.85", "#4c72b0", "#dd8452", "#55a868")


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
        probability = chance(patient.answers[0].solutions[number].probability)
        ax.set_title(f"solution {number + 1} ({probability})", fontsize="small")
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of cells")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(patient.samples)), labels=patient.samples, fontsize=8)
    axes[0].set_ylim(len(patient.samples) - 0.5, -0.5)
    names = ["normal", *(name.replace("_", " ") for name in clone_names(most - 1))]
    handles = [Patch(facecolor=colour, label=name) for colour, name in zip(CLONE_COLOURS, names, strict=False)]
    fig.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)
