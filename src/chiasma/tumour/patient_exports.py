"""Files of samples that were solved together; every sample has its own directory beside them, as if solved alone.

solutions.tsv              one line per solution and sample, the most probable solution first
clone_fractions.tsv        one line per solution, sample and clone
draws.npz                  copies of the main clone, and the purities of all samples, drawn from the joint posterior
summary.json               the same as numbers, with versions and what was read
solution_N/clones.tsv      copy numbers of the clones, which all samples share, with the data of every sample
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chiasma import atomic
from chiasma.io.tables import write_table
from chiasma.tumour.exports import (
    FLAT,
    Draws,
    Lines,
    chance,
    decision_entry,
    segment_table,
    solution_entries,
    solution_table,
    summary,
    that_matter,
)
from chiasma.tumour.patient import Patient
from chiasma.tumour.segments import clone_names, segments

# Columns of a table of segments that differ between samples.
OWN_DATA = ("depth_mean", "log2", "minor_allele_fraction", "mean_copies")


def write_patient(patient: Patient, out: Path, drawn: Draws, about: Mapping[str, Any], seed: int = 0) -> list[str]:
    """Write the joint files; returns their names. about: first entries of summary.json, ready for JSON."""
    out.mkdir(parents=True, exist_ok=True)
    write_table(out / "solutions.tsv", *joint_table(patient, seed))
    write_table(out / "clone_fractions.tsv", *fraction_table(patient))
    with atomic.whole_file(out / "draws.npz") as partial, partial.open("wb") as file:
        np.savez_compressed(
            file, solution=drawn.solution, copies=drawn.copies, purity=drawn.purities, sample=np.array(patient.samples)
        )
    content = {**about, **patient_summary(patient, seed)}
    atomic.write_text(out / "summary.json", json.dumps(content, indent=2) + "\n")
    written = ["solutions.tsv", "clone_fractions.tsv", "draws.npz", "summary.json"]
    for i in range(len(that_matter(patient.answers[0]))):
        folder = out / f"solution_{i + 1}"
        folder.mkdir(exist_ok=True)
        write_table(folder / "clones.tsv", *clone_table(patient, i))
        written.append(f"solution_{i + 1}/clones.tsv")
    return written


def joint_table(patient: Patient, seed: int = 0) -> Lines:
    """One line per solution and sample."""
    tables = [solution_table(answer, seed) for answer in patient.answers]
    names = tables[0][0]
    rows = [
        [row[0], sample, *row[1:]]
        for together in zip(*(list(map(list, rows)) for _, rows in tables), strict=True)
        for sample, row in zip(patient.samples, together, strict=True)
    ]
    return [names[0], "sample", *names[1:]], rows


def fraction_table(patient: Patient) -> Lines:
    """Shares of all cells of normal cells and of every clone."""
    rows = []
    for i in range(patient.n_solutions):
        for sample, answer in zip(patient.samples, patient.answers, strict=True):
            fractions = answer.solutions[i].best.parameters.clone_fractions
            names = ["normal", *clone_names(len(fractions) - 1)]
            rows += [[i + 1, sample, name, f"{share:.4f}"] for name, share in zip(names, fractions, strict=True)]
    return ["rank", "sample", "clone", "fraction"], rows


def clone_table(patient: Patient, number: int) -> Lines:
    """Segments of a solution: the states of the clones, then the data of every sample."""
    names: list[str] = []
    rows: list[list[Any]] = []
    for sample, answer in zip(patient.samples, patient.answers, strict=True):
        own = answer.solutions[number].best
        heading, lines = segment_table(segments(answer.data, own), own)
        mine = [heading.index(name) for name in OWN_DATA]
        cells = [list(line) for line in lines]
        if not names:
            shared = [i for i in range(len(heading)) if i not in mine]
            names = [heading[i] for i in shared]
            rows = [[line[i] for i in shared] for line in cells]
        names += [f"{heading[i]}_{sample}" for i in mine]
        for row, line in zip(rows, cells, strict=True):
            row += [line[i] for i in mine]
    return names, rows


def patient_summary(patient: Patient, seed: int = 0) -> dict[str, Any]:
    """What summary.json says about all samples."""
    entries = [solution_entries(answer, seed) for answer in patient.answers]
    return {
        "verdict": joint_verdict(patient),
        "flat": patient.flat,
        "decision": decision_entry(entries[0]),
        "solutions": [
            {
                "rank": i + 1,
                "probability": together[0]["probability"],
                "clones": together[0]["clones"],
                "doubled": together[0]["doubled"],
                "log_evidence": together[0]["log_evidence"],
                "samples": {
                    sample: {name: entry[name] for name in ("purity", "purity_low", "purity_high", "ploidy")}
                    | {"clone_fractions": entry["clone_fractions"], "warnings": entry["warnings"]}
                    for sample, entry in zip(patient.samples, together, strict=True)
                },
            }
            for i, together in enumerate(zip(*entries, strict=True))
        ],
        "samples": [summary(answer, seed) for answer in patient.answers],
    }


def joint_warnings(samples: Sequence[str], entries: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """What is doubtful about the first solution, and in which samples; what holds for several of them is told once."""
    told: dict[str, list[str]] = {}
    for sample, own in zip(samples, entries, strict=True):
        for text in own[0]["warnings"]:
            told.setdefault(text, []).append(sample)
    return [(", ".join(names), text) for text, names in told.items()]


def joint_verdict(patient: Patient) -> str:
    """The joint answer in a sentence."""
    if patient.flat:
        return FLAT
    firsts = [answer.solutions[0] for answer in patient.answers]
    each = "; ".join(
        f"{sample}: purity {one.purity:.2f}, ploidy {one.ploidy:.2f}"
        for sample, one in zip(patient.samples, firsts, strict=True)
    )
    return f"{each}; with probability {chance(firsts[0].probability)}"
