"""Samples of one patient: is a sample of low purity explained better together with the others than alone?

Patients are simulated (`chiasma.datasets.tumours`): two or three samples with the same one or two clones in other
fractions, of which the last has a low purity. A first solution is right for a sample if its purity is within 0.05 of
the truth and its ploidy within 0.3. The public patient is HATCHet's demonstration.

PATIENTS=5 runs fewer. PATIENTS_KEPT=FILE keeps the outcome of every patient there as soon as it is known, one line of
JSON each; those that are in the file are not run again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from run import on_all_cores
from tumours import DATA, accuracy

from chiasma.datasets.tumours import Tumour, simulate_patient
from chiasma.tumour import Answer, Bounds, Patient, read_bins, solve
from chiasma.tumour.bins import simulated_bins

if TYPE_CHECKING:
    from run import Report

ALL_PATIENTS = 20
N_PATIENTS = int(os.environ.get("PATIENTS", ALL_PATIENTS))
KEPT = os.environ.get("PATIENTS_KEPT")
N_BINS = 1_000
NEAR_PURITY, NEAR_PLOIDY = 0.05, 0.3
BOUNDS = Bounds(clones=(1, 2))
FILE = "tumour/hatchet_demo-wes.bb"
# Purity and ploidy as published by HATCHet.
PUBLISHED = {"WESDemo1": (0.928, 1.907), "WESDemo2": (0.753, 1.846)}


class Outcome(NamedTuple):
    """What came out for one patient; of lists there is an entry for every sample, the last one of low purity."""

    seed: int
    purities: list[float]
    clones: int
    alone: list[bool]
    together: list[bool]
    alone_probability: list[float]
    probability: float
    inside_alone: list[bool]
    inside_together: list[bool]
    promised: float
    correct: float


def run(report: Report) -> None:
    simulated(report)
    published(report)


def simulated(report: Report) -> None:
    outcomes = on_all_cores(one_patient, range(N_PATIENTS))
    report.text(
        f"{N_PATIENTS} simulated patients of two or three samples, {N_BINS:,} bins with allele counts, one or two "
        "clones and searched with as many, doubled or not; purity of the last sample 0.08-0.25, of the others 0.3-0.9. "
        f"A sample is right if the purity of the first solution is within {NEAR_PURITY} and its ploidy within "
        f"{NEAR_PLOIDY}. Promised: the mean probability of first solutions. Interval: the share of samples whose 90% "
        "interval of purity, over all solutions, holds the truth."
    )
    if N_PATIENTS < ALL_PATIENTS:
        report.text(f"This is a part of the {ALL_PATIENTS} patients, made with `PATIENTS={N_PATIENTS}`.")
    if KEPT:
        report.text("Outcomes were kept from run to run, so the time below is not that of all patients.")
    rows = []
    for name, part in (("low purity", slice(-1, None)), ("the others", slice(0, -1)), ("all", slice(None))):
        for how in ("alone", "together"):
            right = [own for one in outcomes for own in getattr(one, how)[part]]
            inside = [own for one in outcomes for own in getattr(one, f"inside_{how}")[part]]
            promised = [
                own
                for one in outcomes
                for own in (one.alone_probability if how == "alone" else [one.probability] * len(one.alone))[part]
            ]
            cells = [f"{sum(right)} of {len(right)}", f"{np.mean(promised):.3f}", f"{np.mean(inside):.2f}"]
            rows.append([name, how, *cells])
    report.table(["samples", "solved", "right", "promised", "in 90% interval"], rows)
    missed = [
        f"{one.seed} (purities {', '.join(f'{p:.2f}' for p in one.purities)}, {one.clones} clones; probability "
        f"{one.probability:.3f})"
        for one in outcomes
        if not all(one.together)
    ]
    report.text(f"Seeds with a sample that is not right together: {'; '.join(missed) or 'none'}.")
    promised, correct = (float(np.mean([getattr(one, name) for one in outcomes])) for name in ("promised", "correct"))
    report.text(
        "Copy numbers, major and minor, of the main clone in every bin over all solutions, compared with the true "
        f"clone that they are nearest to: promised {promised:.4f}, correct {correct:.4f}."
    )
    low = [(one.alone[-1], one.together[-1]) for one in outcomes]
    alone, together = (sum(pair[i] for pair in low) for i in (0, 1))
    report.goal(
        f"samples of low purity are right more often together, here {together} against {alone} of {len(low)}",
        together > alone or together == len(low),
    )
    both = [own for one in outcomes for own in one.together]
    report.goal(f"at least 90% of samples are right together, here {np.mean(both):.0%}", np.mean(both) >= 0.9)
    report.goal(
        f"promised and real accuracy of copy numbers agree within 0.02, here {promised - correct:+.4f}",
        abs(promised - correct) <= 0.02,
    )


def one_patient(seed: int) -> Outcome:
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
    rng = np.random.default_rng([18, seed])
    n_samples = int(rng.integers(2, 4))
    purities = [*rng.uniform(0.3, 0.9, n_samples - 1), rng.uniform(0.08, 0.25)]
    truth = simulate_patient(seed, n_samples, N_BINS, purities=purities)
    samples = [simulated_bins(one, f"sample_{i}") for i, one in enumerate(truth, start=1)]
    alone = [solve([bins], BOUNDS, workers=1).answers[0] for bins in samples]
    patient = solve(samples, BOUNDS, workers=1)
    return Outcome(
        seed,
        [float(p) for p in purities],
        len(truth[0].copies),
        [right(answer, one) for answer, one in zip(alone, truth, strict=True)],
        [right(answer, one) for answer, one in zip(patient.answers, truth, strict=True)],
        [answer.solutions[0].probability for answer in alone],
        patient.answers[0].solutions[0].probability,
        [inside(answer, one) for answer, one in zip(alone, truth, strict=True)],
        [inside(answer, one) for answer, one in zip(patient.answers, truth, strict=True)],
        *nearest_accuracy(patient, truth[0]),
    )


def right(answer: Answer, truth: Tumour) -> bool:
    first = answer.solutions[0]
    return abs(first.purity - truth.purity) <= NEAR_PURITY and abs(first.ploidy - truth.ploidy) <= NEAR_PLOIDY


def inside(answer: Answer, truth: Tumour) -> bool:
    low, high = np.quantile(answer.purity_draws(20_000), [0.05, 0.95])
    return bool(low <= truth.purity <= high)


def nearest_accuracy(patient: Patient, truth: Tumour) -> tuple[float, float]:
    """Promised and real accuracy of the main clone. Which of two clones is the main one is a matter of names."""
    return max((accuracy(patient.answers[0], own) for own in truth.copies), key=lambda pair: pair[1])


def published(report: Report) -> None:
    if not (DATA / FILE).exists():
        report.text(f"Not run: {FILE} is not at hand (see verification/README.md).")
        return
    began = process_time()
    patient = solve([bins.with_two_copies() for bins in read_bins(DATA / FILE)])
    seconds = process_time() - began
    probabilities = ", ".join(f"{one.probability:.2g}" for one in patient.answers[0].solutions[:3])
    report.text(
        f"HATCHet's demonstration, two exomes of one patient, solved together in {seconds:.0f} s of CPU time; joint "
        f"solutions with probabilities {probabilities}."
    )
    rows = []
    for sample, answer in zip(patient.samples, patient.answers, strict=True):
        first = answer.solutions[0]
        fractions = " + ".join(f"{share:.0%}" for share in first.best.parameters.clone_fractions[1:])
        purity, ploidy = PUBLISHED[sample]
        rows.append([sample, f"{purity:.2f} / {ploidy:.2f}", f"{first.purity:.2f} / {first.ploidy:.2f}", fractions])
    report.table(["sample", "published", "first joint solution", "clones"], rows)
    near = all(
        abs(answer.solutions[0].purity - PUBLISHED[sample][0]) <= 0.1
        and abs(answer.solutions[0].ploidy - PUBLISHED[sample][1]) <= 0.3
        for sample, answer in zip(patient.samples, patient.answers, strict=True)
    )
    report.goal("the first joint solution is near the published answer in both samples", near)
