"""report.html of samples that were solved together: joint solutions, fractions of clones, all samples side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chiasma import atomic
from chiasma.report import page
from chiasma.tumour.exports import FLAT, chance, file_name, solution_entries, that_matter
from chiasma.tumour.page import comparison, picture
from chiasma.tumour.patient import Patient
from chiasma.tumour.patient_exports import joint_verdict, joint_warnings


def write_patient_page(patient: Patient, out: Path, seed: int = 0) -> Path:
    """The figures must have been written."""
    entries = [solution_entries(answer, seed) for answer in patient.answers]
    figures = out / "figures"
    names = ", ".join(patient.samples)
    links = [
        part for sample in patient.samples for part in (page.link(sample, f"{file_name(sample)}/report.html"), " ")
    ]
    parts = [
        page.header(f"{names}: samples of one patient", "Clones are shared; purity and fractions of clones are not."),
        page.verdicts(_verdicts(patient, entries)),
        page.section(
            "Joint solutions",
            _table(patient, entries),
            page.paragraph(comparison(entries[0])),
            page.paragraph("Every sample has a page of its own: ", *links),
        ),
        page.section("Fractions of clones", picture(figures / "clone-fractions.png", "Normal cells and clones")),
    ]
    for i in range(1, len(that_matter(patient.answers[0])) + 1):
        told = page.paragraph(
            page.link("clones", f"solution_{i}/clones.tsv"), "; segments, SEG, BED and VCF are with the samples"
        )
        shown = picture(figures / f"solution-{i}.png", f"All samples with the clones of solution {i}")
        parts.append(page.section(f"Solution {i}", shown, told))
    path = out / "report.html"
    atomic.write_text(path, page.document(f"{names}: one patient", *parts))
    return path


def _verdicts(patient: Patient, entries: Sequence[Sequence[dict[str, Any]]]) -> list[page.Verdict]:
    if patient.flat:
        text = "Two copies everywhere explain the data as well; the solutions below are not to be trusted."
        return [page.Verdict(tone="bad", answer=FLAT.capitalize() + ".", text=text)]
    warnings = joint_warnings(patient.samples, entries)
    tone: page.Tone = "good" if entries[0][0]["probability"] > 0.95 and not warnings else "doubt"
    found = [page.Verdict(tone=tone, answer=joint_verdict(patient) + ".")]
    return found + [page.Verdict(tone="doubt", answer=f"{names}:", text=f"{text}.") for names, text in warnings]


def _table(patient: Patient, entries: Sequence[Sequence[dict[str, Any]]]) -> page.Html:
    names = ["solution", "probability", "sample", "purity", "90%", "ploidy", "clones", "doubled", "unexplained"]
    rows = [
        [
            entry["rank"],
            chance(entry["probability"]),
            sample,
            f"{entry['purity']:.3f}",
            f"{entry['purity_low']:.3f}-{entry['purity_high']:.3f}",
            f"{entry['ploidy']:.2f}",
            " + ".join(f"{share:.0%}" for share in list(entry["clone_fractions"].values())[1:]),
            f"{entry['doubled']:.0%}",
            f"{entry['unexplained']:.0%}",
        ]
        for together in zip(*entries, strict=True)
        for sample, entry in zip(patient.samples, together, strict=True)
    ]
    return page.table(names, rows, rest="solutions.tsv")
