"""report.html: the verdict, ranked solutions, why the first is preferred, and figures, on one page.

Several samples of a patient have a page each, and one for all: joint solutions and fractions of clones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chiasma import atomic
from chiasma.extras import extra
from chiasma.results.findings import Finding, headline, trust_in
from chiasma.results.rivals import CERTAIN
from chiasma.tumour.doubts import Decision, decided, family, first_decision
from chiasma.tumour.exports import (
    FLAT,
    chance,
    file_name,
    interval,
    joint_findings,
    patient_verdict,
    sample_folders,
    solution_entries,
    that_matter,
    verdict,
)
from chiasma.tumour.figures import region_file
from chiasma.tumour.genome import GenomicRegion
from chiasma.tumour.solutions import Answer, Patient, noise_in_words

with extra("tumour"):
    from chiasma.report.page import Tone, Verdict, judged, plain_verdict, render

Entries = Sequence[dict[str, Any]]
TEMPLATE = Path(__file__).parent / "templates" / "tumour.html"


def write_pages(
    patient: Patient,
    out: Path,
    seed: int = 0,
    about: Mapping[str, Any] | None = None,
    regions: Sequence[GenomicRegion] = (),
) -> None:
    """The figures must have been written. about: the command, and facts such as versions and digests of the files.

    regions : those that were asked for; the page of a sample has their figures.
    """
    entries = [solution_entries(answer, seed) for answer in patient.answers]
    known = {"command": None, "settings": None, "facts": {"seed": str(seed)}} | dict(about or {})
    for answer, own, folder in zip(patient.answers, entries, sample_folders(patient, out), strict=True):
        _write(folder, _of_sample(answer, own) | {"about": known, "regions": regions})
    if len(patient.answers) > 1:
        _write(out, _of_patient(patient, entries) | {"about": known, "regions": []})


def _write(out: Path, content: dict[str, Any]) -> None:
    page = render(TEMPLATE, figures=out / "figures", region_file=region_file, **content)
    atomic.write_text(out / "report.html", page)


def _of_sample(answer: Answer, entries: Entries) -> dict[str, Any]:
    sample = answer.bins.sample
    findings = entries[0]["findings"]
    first = [_first(FLAT if answer.flat else verdict(answer), findings, entries[0])]
    if answer.together:
        text = f"Copy numbers and probabilities are those of {', '.join(answer.together)}, which share their clones."
        first.append(Verdict(tone="note", answer="Solved together.", text=text))
    if not answer.data.has_alleles:
        text = "A genome and its double, or one copy more everywhere, have the same levels: look at the rivals."
        first.append(Verdict(tone="note", answer="Depth alone.", text=text))
    return {
        "title": f"{sample}: tumour",
        "heading": f"{sample}: purity, ploidy and clones",
        "lead": answer.bins.in_words(),
        "answers": judged(findings, headline(findings, None), first),
        "several": False,
        "solutions": _solutions([sample], [entries], answer.tempered),
        "comparisons": [] if answer.flat else _comparisons(entries, [answer]),
        "landscape": "Log evidence of one clone" + (", this sample alone" if answer.together else ""),
        "data": "Depth and alleles" if answer.data.has_alleles else "Depth",
        "shown": len(that_matter(answer)),
        "notes": {
            "source": answer.bins.source,
            "taken for": answer.bins.kind,
            "notes": "; ".join(answer.bins.notes),
            "noise": noise_in_words(answer.data).removeprefix("noise "),
        },
    }


def _of_patient(patient: Patient, entries: Sequence[Entries]) -> dict[str, Any]:
    names = ", ".join(patient.samples)
    joint = joint_findings(patient.samples, entries)
    findings = [one for _, one in joint]
    whose = iter([samples for samples, _ in joint])

    def of_samples(finding: Finding) -> Verdict:
        found = plain_verdict(finding)
        return Verdict(tone=found.tone, answer=f"{next(whose)}: {found.answer}", text=found.text)

    first = _first(FLAT if patient.flat else patient_verdict(patient), findings, entries[0][0])
    return {
        "title": f"{names}: one patient",
        "heading": f"{names}: samples of one patient",
        "lead": "Clones are shared; purity and fractions of clones are not.",
        "answers": judged(findings, headline(findings, None), [first], of_samples),
        "several": True,
        "solutions": _solutions(patient.samples, entries, patient.answers[0].tempered),
        "comparisons": [] if patient.flat else _comparisons(entries[0], patient.answers),
        "folders": [(sample, file_name(sample)) for sample in patient.samples],
        "shown": len(that_matter(patient.answers[0])),
        "notes": {},
    }


def _first(answer: str, findings: Sequence[Finding], first: dict[str, Any]) -> Verdict:
    tone: Tone = "good" if trust_in(findings) == "good" and first.get("probability", 0.0) > CERTAIN else "note"
    return Verdict(tone=tone, answer=f"{answer.capitalize() if answer == FLAT else answer}.")


def _solutions(samples: Sequence[str], entries: Sequence[Entries], tempered: float) -> dict[str, Any]:
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
            interval(entry),
            f"{entry['ploidy']:.2f}",
            " + ".join(f"{share:.0%}" for share in list(entry["clone_fractions"].values())[1:]),
            f"{entry['doubled']:.0%}",
            f"{entry['altered']:.0%}",
            f"{entry['unexplained']:.0%}",
            *(_relative(entries[0][0], entry, tempered) if i else ["0", "0"]),
        ]
        for i, together in enumerate(zip(*entries, strict=True))
        for sample, entry in zip(samples, together, strict=True)
    ]
    return {"names": names, "rows": rows}


def _comparisons(entries: Entries, answers: Sequence[Answer]) -> list[str]:
    """What decides between solutions; those that differ only by doubling segment by segment."""
    return [comparison(entries, answers[0].tempered), *map(str, family(answers))]


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


def _relative(first: dict[str, Any], other: dict[str, Any], tempered: float) -> list[str]:
    """Fit and plausibility of a solution, less those of the first."""
    lead = Decision.between(first, other, tempered)
    return [f"{-lead.fit:+.1f}", f"{-lead.plausibility:+.1f}"]
