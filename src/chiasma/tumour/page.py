"""report.html: the verdict, ranked solutions, why the first is preferred, and figures, on one page.

Several samples of a patient have a page each, and one for all: joint solutions and fractions of clones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chiasma import atomic
from chiasma.report import page
from chiasma.report.answers import TONES
from chiasma.results.findings import Finding, advice, headline, message, options, trust_in
from chiasma.results.rivals import CERTAIN
from chiasma.tumour.doubts import Decision, first_decision
from chiasma.tumour.exports import (
    FLAT,
    chance,
    file_name,
    joint_findings,
    patient_verdict,
    sample_folders,
    solution_entries,
    that_matter,
    verdict,
)
from chiasma.tumour.families import decided, family
from chiasma.tumour.solutions import Answer, Patient, noise_in_words

Entries = Sequence[dict[str, Any]]


def write_pages(patient: Patient, out: Path, seed: int = 0) -> None:
    """The figures must have been written."""
    entries = [solution_entries(answer, seed) for answer in patient.answers]
    for answer, own, folder in zip(patient.answers, entries, sample_folders(patient, out), strict=True):
        _write_sample_page(answer, own, folder)
    if len(patient.answers) > 1:
        _write_joint_page(patient, entries, out)


def _write_sample_page(answer: Answer, entries: Entries, out: Path) -> None:
    sample = answer.bins.sample
    figures = out / "figures"
    parts = [
        page.header(f"{sample}: purity, ploidy and clones", answer.bins.in_words()),
        page.verdicts(_verdicts(answer, entries)),
        page.section(
            "Solutions",
            _table([sample], [entries]),
            *([] if answer.flat else _comparisons(entries, [answer])),
        ),
        page.section("Purity and ploidy", picture(figures / "purity-ploidy.png", _of_landscape(answer))),
        page.section("All solutions", picture(figures / "solutions.png", "Copies per tumour cell")),
    ]
    for i in range(1, len(that_matter(answer)) + 1):
        told = page.paragraph(
            page.link("segments", f"solution_{i}/segments.tsv"), f"; SEG, BED and VCF are in solution_{i}/"
        )
        data = "Depth and alleles" if answer.data.has_alleles else "Depth"
        shown = picture(figures / f"solution-{i}.png", f"{data} with the levels of solution {i}")
        parts.append(page.section(f"Solution {i}", shown, told))
    notes = {
        "source": answer.bins.source,
        "taken for": answer.bins.kind,
        "notes": "; ".join(answer.bins.notes),
        "noise": noise_in_words(answer.data).removeprefix("noise "),
    }
    parts.append(page.section("Data", page.facts(notes)))
    atomic.write_text(out / "report.html", page.document(f"{sample}: tumour", *parts))


def _verdicts(answer: Answer, entries: Entries) -> list[page.Verdict]:
    findings = entries[0]["findings"]
    found = [_trusted(findings), _first(FLAT if answer.flat else verdict(answer), _tone(findings, entries[0]))]
    found += [_verdict(one) for one in findings]
    if answer.together:
        text = f"Copy numbers and probabilities are those of {', '.join(answer.together)}, which share their clones."
        found.append(page.Verdict(tone="note", answer="Solved together.", text=text))
    if not answer.data.has_alleles:
        text = "A genome and its double, or one copy more everywhere, have the same levels: look at the rivals."
        found.append(page.Verdict(tone="note", answer="Depth alone.", text=text))
    return found


def _of_landscape(answer: Answer) -> str:
    return "Log evidence of one clone" + (", this sample alone" if answer.together else "")


def _trusted(findings: Sequence[Finding]) -> page.Verdict:
    answer, _, text = headline(findings, None).partition(". ")
    return page.Verdict(tone=TONES[trust_in(findings)], answer=f"{answer}.", text=text)


def _first(answer: str, tone: page.Tone) -> page.Verdict:
    return page.Verdict(tone=tone, answer=f"{answer.capitalize() if answer == FLAT else answer}.")


def _tone(findings: Sequence[Finding], first: dict[str, Any]) -> page.Tone:
    return "good" if trust_in(findings) == "good" and first.get("probability", 0.0) > CERTAIN else "note"


def _verdict(finding: Finding, whose: str = "") -> page.Verdict:
    text = message(finding) if not whose else f"{whose}: {message(finding)}"
    return page.Verdict(tone=TONES[finding.severity], answer=text, text=advice(options(finding, {})))


def _table(samples: Sequence[str], entries: Sequence[Entries]) -> page.Html:
    """One line per solution and sample; the name of a sample only if there are several."""
    several = len(samples) > 1
    likely = "probability" in entries[0][0]
    names = [
        "solution",
        *(["probability"] if likely else []),
        *(["sample"] if several else []),
        "purity",
        "90%",
        "ploidy",
        "clones",
    ]
    names += ["doubled", "altered", "unexplained", "fit", "plausibility"]
    rows = [
        [
            entry["rank"],
            *([chance(entry["probability"])] if likely else []),
            *([sample] if several else []),
            f"{entry['purity']:.2f}",
            f"{entry['purity_low']:.2f}-{entry['purity_high']:.2f}",
            f"{entry['ploidy']:.2f}",
            " + ".join(f"{share:.0%}" for share in list(entry["clone_fractions"].values())[1:]),
            f"{entry['doubled']:.0%}",
            f"{entry['altered']:.0%}",
            f"{entry['unexplained']:.0%}",
            *(_relative(entries[0][0], entry) if i else ["0", "0"]),
        ]
        for i, together in enumerate(zip(*entries, strict=True))
        for sample, entry in zip(samples, together, strict=True)
    ]
    return page.table(names, rows, rest="solutions.tsv")


def _comparisons(entries: Entries, answers: Sequence[Answer]) -> list[page.Html]:
    """What decides between solutions; those that differ only by doubling segment by segment."""
    texts = [comparison(entries, answers[0].tempered), *map(str, family(answers))]
    return [page.paragraph(text) for text in texts]


def comparison(entries: Entries, tempered: float = 1.0) -> str:
    """Whether the data or the prior decide between the first two solutions."""
    decision = first_decision(entries, tempered)
    if decision is None:
        return "There is no other solution."
    return (
        "Fit is the log-likelihood of the data at the most probable copy numbers, relative to solution 1; plausibility "
        "is the rest of the posterior: which copy numbers are usual, how many changes, clones and doublings it takes, "
        f"how well its numbers are known. {decided(decision, 2)}"
    )


def _relative(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Fit and plausibility of a solution, less those of the first."""
    lead = Decision.between(first, other)
    return [f"{-lead.fit:+.1f}", f"{-lead.plausibility:+.1f}"]


def picture(path: Path, caption: str) -> page.Html:
    return page.picture(path.read_bytes(), f"{caption}; larger in figures/{path.name}", caption)


def _write_joint_page(patient: Patient, entries: Sequence[Entries], out: Path) -> None:
    figures = out / "figures"
    names = ", ".join(patient.samples)
    links = [
        part for sample in patient.samples for part in (page.link(sample, f"{file_name(sample)}/report.html"), " ")
    ]
    parts = [
        page.header(f"{names}: samples of one patient", "Clones are shared; purity and fractions of clones are not."),
        page.verdicts(_joint_verdicts(patient, entries)),
        page.section(
            "Joint solutions",
            _table(patient.samples, entries),
            *([] if patient.flat else _comparisons(entries[0], patient.answers)),
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
    atomic.write_text(out / "report.html", page.document(f"{names}: one patient", *parts))


def _joint_verdicts(patient: Patient, entries: Sequence[Entries]) -> list[page.Verdict]:
    joint = joint_findings(patient.samples, entries)
    findings = [one for _, one in joint]
    found = [_trusted(findings)]
    found.append(_first(FLAT if patient.flat else patient_verdict(patient), _tone(findings, entries[0][0])))
    return found + [_verdict(one, names) for names, one in joint]
