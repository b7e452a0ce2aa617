"""Tumours: simulated ones with a known truth, and four public samples with published answers.

The simulation (`chiasma.datasets.tumours`) knows nothing of the model that is fitted. A first solution is right if its
purity is within 0.1 of the truth and its ploidy within 0.3.

TUMOURS=20 runs fewer. TUMOURS_KEPT=FILE keeps the outcome of every tumour there as soon as it is known, one line of
JSON each; those that are in the file are not run again.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from itertools import count, islice
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from run import on_all_cores

from chiasma.datasets.tumours import Tumour, simulate_tumour
from chiasma.tumour import read_bins
from chiasma.tumour.bins import simulated_bins
from chiasma.tumour.solutions import Answer, solve

if TYPE_CHECKING:
    from run import Report

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ALL_TUMOURS = 100
N_TUMOURS = int(os.environ.get("TUMOURS", ALL_TUMOURS))
KEPT = os.environ.get("TUMOURS_KEPT")
PLOIDIES = (1.6, 4.5)
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
    probability: float
    inside: bool
    promised: float
    correct: float


def run(report: Report) -> None:
    simulated(report)
    published(report)


def simulated(report: Report) -> None:
    before = process_time()
    outcomes = on_all_cores(one_tumour, islice(seeds(), N_TUMOURS))
    seconds = process_time() - before
    report.text(
        f"{N_TUMOURS} simulated tumours of 5,000 bins with allele counts: purity 0.2-0.9, ploidy "
        f"{PLOIDIES[0]}-{PLOIDIES[1]}, doubled or not, one or two clones. Rank: of the true purity and ploidy among "
        "the solutions. Interval: whether the 90% interval of the purity, over all solutions, holds the truth. Copy "
        "numbers: major and minor ones of the main clone in every bin, over all solutions; promised is the mean "
        "probability of the most probable one, correct how often it is true."
    )
    if N_TUMOURS < ALL_TUMOURS:
        report.text(f"This is a part of the {ALL_TUMOURS} tumours, made with `TUMOURS={N_TUMOURS}`.")
    if KEPT:
        report.text("Outcomes were kept from run to run, so the time below is not that of all tumours.")
    else:
        report.text(f"A tumour takes {seconds / N_TUMOURS:.1f} s of CPU time.")
    clear = [one for one in outcomes if one.purity >= LEAST_PURITY]
    groups = {
        "all": outcomes,
        f"purity >= {LEAST_PURITY}": clear,
        "one clone": [one for one in outcomes if one.clones == 1],
        "two clones": [one for one in outcomes if one.clones == 2],
    }
    rows = [
        [
            name,
            str(len(group)),
            str(sum(one.rank == 1 for one in group)),
            str(sum(0 < one.rank <= 3 for one in group)),
            f"{np.mean([one.inside for one in group]):.2f}",
            f"{np.mean([one.promised for one in group]):.4f}",
            f"{np.mean([one.correct for one in group]):.4f}",
        ]
        for name, group in groups.items()
        if group
    ]
    report.table(["tumours", "n", "first", "first three", "in 90% interval", "promised", "correct"], rows)
    missed = [
        f"{one.seed} (purity {one.purity:.2f}, ploidy {one.ploidy:.2f}, {one.clones} clones; the truth has rank "
        f"{one.rank or 'none'}, the first probability {one.probability:.3f})"
        for one in outcomes
        if one.rank != 1
    ]
    report.text(f"Seeds whose first solution is not the true one: {'; '.join(missed) or 'none'}.")
    share = float(np.mean([one.rank == 1 for one in clear]))
    report.goal(
        f"the first solution is right in at least 90% where purity is at least {LEAST_PURITY}, here {share:.0%}",
        share >= 0.9,
    )
    inside = float(np.mean([one.inside for one in outcomes]))
    report.goal(f"90% intervals of purity hold the truth in 85-95%, here {inside:.0%}", 0.85 <= inside <= 0.95)
    gap = float(np.mean([one.promised - one.correct for one in outcomes]))
    report.goal(f"promised and real accuracy of copy numbers agree within 0.02, here {gap:+.4f}", abs(gap) <= 0.02)


def seeds() -> Any:
    """Seeds whose tumour has a ploidy within PLOIDIES."""
    return (seed for seed in count() if PLOIDIES[0] <= simulate_tumour(seed).ploidy <= PLOIDIES[1])


def one_tumour(seed: int) -> Outcome:
    """From the file of kept outcomes, or solved now."""
    lines = Path(KEPT).read_text().splitlines() if KEPT and Path(KEPT).exists() else []
    kept = [outcome for outcome in map(json.loads, lines) if outcome[0] == seed]
    if kept:
        return Outcome(*kept[0])
    outcome = solved(seed)
    if KEPT:
        with Path(KEPT).open("a") as file:
            file.write(json.dumps(outcome) + "\n")
    return outcome


def solved(seed: int) -> Outcome:
    truth = simulate_tumour(seed)
    answer = solve([simulated_bins(truth)], workers=1).answers[0]
    low, high = np.quantile(answer.purity_draws(20_000), [0.05, 0.95])
    return Outcome(
        seed,
        truth.purity,
        truth.ploidy,
        len(truth.copies),
        rank_of(answer, truth.purity, truth.ploidy),
        answer.solutions[0].probability,
        bool(low <= truth.purity <= high),
        *accuracy(answer, truth),
    )


def rank_of(answer: Answer, purity: float, ploidy: float) -> int:
    """The rank of the first solution that is near; 0 if there is none."""
    for rank, one in enumerate(answer.solutions, start=1):
        if abs(one.purity - purity) <= NEAR_PURITY and abs(one.ploidy - ploidy) <= NEAR_PLOIDY:
            return rank
    return 0


def accuracy(answer: Answer, truth: Tumour) -> tuple[float, float]:
    """Mean probability of the most probable copies (major, minor) of the main clone over all solutions, and how often
    they are true. An amplified state is true where there are more copies than it says.
    """
    major, minor = np.sort(truth.copies[0], axis=0)[::-1]
    shares: dict[tuple[int, int, int], Any] = defaultdict(float)
    for solution in answer.solutions:
        for share, one in zip(solution.shares, solution.explanations, strict=True):
            for s, state in enumerate(one.states.values.astype(int)):
                shares[tuple(state)] += solution.probability * share * one.main[:, s]
    states, table = np.array(list(shares)), np.array(list(shares.values()))
    called = states[table.argmax(axis=0)]
    exact = (called[:, 0] == major) & (called[:, 1] == minor)
    above = major + minor >= called[:, 0] + called[:, 1]
    true = np.where(called[:, 2] == 1, above, exact)
    return float((table.max(axis=0) / table.sum(axis=0)).mean()), float(true.mean())


def published(report: Report) -> None:
    rows, ranks = [], []
    for file, sample, purity, ploidy in PUBLISHED:
        if not (DATA / file).exists():
            report.text(f"Not run: {file} is not at hand (see verification/README.md).")
            return
        began = process_time()
        answer = solve([read_bins(DATA / file, sample)[0].with_two_copies()]).answers[0]
        ranks.append(rank_of(answer, purity, ploidy))
        found = "; ".join(
            f"{one.purity:.2f} / {one.ploidy:.2f} ({one.probability:.2g})" for one in answer.solutions[:3]
        )
        rows.append([sample, f"{purity:.2f} / {ploidy:.2f}", str(ranks[-1]), found, f"{process_time() - began:.0f}"])
    report.text("Public samples: purity / ploidy as published, and the first three solutions with their probabilities.")
    report.table(["sample", "published", "rank", "solutions", "CPU seconds"], rows)
    report.goal("every published answer is among the first three", all(0 < rank <= 3 for rank in ranks))
    report.goal("at least two are first", sum(rank == 1 for rank in ranks) >= 2)
