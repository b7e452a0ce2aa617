"""Tumours: simulated ones with a known truth, and four public samples with published answers.

The simulation (`chiasma.datasets.tumours`) knows nothing of the model that is fitted. A first solution is right if its
purity is within 0.1 of the truth and its ploidy within 0.3.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from run import on_all_cores

from chiasma.datasets.tumours import Tumour, simulate_tumour
from chiasma.genomics import read_bins
from chiasma.genomics.bins import simulated_bins
from chiasma.genomics.solutions import Answer, solve

if TYPE_CHECKING:
    from run import Report

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
N_TUMOURS = int(os.environ.get("TUMOURS", "100"))
NEAR_PURITY, NEAR_PLOIDY = 0.1, 0.3
LEAST_PURITY = 0.4
# File, sample, published purity and ploidy.
PUBLISHED = (
    ("rascal_hgsoc_300kb.tsv", "X17222", 0.81, 3.87),
    ("rascal_hgsoc_300kb.tsv", "Y17204", 0.50, 2.88),
    ("tumour/hatchet_demo-wes.bb", "WESDemo1", 0.928, 1.907),
    ("tumour/hatchet_demo-wes.bb", "WESDemo2", 0.753, 1.846),
)


class Outcome(NamedTuple):
    """What came out for one simulated tumour."""

    seed: int
    purity: float
    ploidy: float
    clones: int
    rank: int
    inside: bool
    promised: float
    correct: float


def run(report: Report) -> None:
    simulated(report)
    published(report)


def simulated(report: Report) -> None:
    outcomes = on_all_cores(one_tumour, range(N_TUMOURS))
    report.text(
        f"{N_TUMOURS} simulated tumours of 5,000 bins with allele counts: purity 0.2-0.9, doubled or not, one or two "
        "clones. Rank: of the true purity and ploidy among the solutions. Interval: whether the 90% interval of the "
        "purity holds the truth. Copy numbers: of the main clone, in the solution that is right."
    )
    clear = [one for one in outcomes if one.purity >= LEAST_PURITY]
    rows = []
    for name, group in (("all", outcomes), (f"purity >= {LEAST_PURITY}", clear)):
        right = [one for one in group if one.rank == 1]
        rows.append(
            [
                name,
                str(len(group)),
                f"{len(right)}",
                f"{sum(0 < one.rank <= 3 for one in group)}",
                f"{np.mean([one.inside for one in group]):.2f}",
                f"{np.mean([one.promised for one in right]):.4f}",
                f"{np.mean([one.correct for one in right]):.4f}",
            ]
        )
    report.table(["tumours", "n", "first", "first three", "in 90% interval", "promised", "correct"], rows)
    missed = [f"{one.seed} (purity {one.purity:.2f}, ploidy {one.ploidy:.2f})" for one in outcomes if one.rank != 1]
    report.text(f"Seeds whose first solution is not the true one: {', '.join(missed) or 'none'}.")
    share = np.mean([one.rank == 1 for one in clear])
    report.goal(f"the first solution is right in at least 90% where purity is at least {LEAST_PURITY}", share >= 0.9)
    inside = float(np.mean([one.inside for one in outcomes]))
    report.goal(f"90% intervals of purity hold the truth in 85-95%, here {inside:.0%}", 0.85 <= inside <= 0.95)
    right = [one for one in outcomes if one.rank == 1]
    gap = float(np.mean([one.promised for one in right]) - np.mean([one.correct for one in right]))
    report.goal(f"promised and real accuracy of copy numbers agree within 0.02, here {gap:+.4f}", abs(gap) <= 0.02)


def one_tumour(seed: int) -> Outcome:
    truth = simulate_tumour(seed)
    answer = solve(simulated_bins(truth), workers=1)
    low, high = np.quantile(answer.purity_draws(20_000), [0.05, 0.95])
    rank = rank_of(answer, truth.purity, truth.ploidy)
    promised, correct = accuracy(answer, truth)
    inside = bool(low <= truth.purity <= high)
    return Outcome(seed, truth.purity, truth.ploidy, len(truth.copies), rank, inside, promised, correct)


def rank_of(answer: Answer, purity: float, ploidy: float) -> int:
    """The rank of the first solution that is near; 0 if there is none."""
    for rank, one in enumerate(answer.solutions, start=1):
        if abs(one.purity - purity) <= NEAR_PURITY and abs(one.ploidy - ploidy) <= NEAR_PLOIDY:
            return rank
    return 0


def accuracy(answer: Answer, truth: Tumour) -> tuple[float, float]:
    """Mean probability of the most probable state of the main clone, and how often it is true; first solution."""
    best = answer.solutions[0].best
    numbers = {pair: state for state, pair in enumerate(best.states.pairs)}
    low, high = np.sort(truth.copies[0], axis=0)
    true = np.array([numbers.get((int(a), int(b)), len(numbers)) for a, b in zip(high, low, strict=True)])
    return float(best.main.max(axis=1).mean()), float((best.main.argmax(axis=1) == true).mean())


def published(report: Report) -> None:
    rows, ranks = [], []
    for file, sample, purity, ploidy in PUBLISHED:
        if not (DATA / file).exists():
            report.text(f"Not run: {file} is not at hand (see verification/README.md).")
            return
        began = perf_counter()
        answer = solve(read_bins(DATA / file, sample)[0].with_two_copies())
        ranks.append(rank_of(answer, purity, ploidy))
        found = "; ".join(
            f"{one.purity:.2f} / {one.ploidy:.2f} ({one.probability:.2g})" for one in answer.solutions[:3]
        )
        rows.append([sample, f"{purity:.2f} / {ploidy:.2f}", str(ranks[-1]), found, f"{perf_counter() - began:.0f}"])
    report.text("Public samples: purity / ploidy as published, and the first three solutions with their probabilities.")
    report.table(["sample", "published", "rank", "solutions", "seconds"], rows)
    report.goal("every published answer is among the first three", all(0 < rank <= 3 for rank in ranks))
    report.goal("at least two are first", sum(rank == 1 for rank in ranks) >= 2)
