"""report.html of an answer: the verdict, ranked solutions, why the first is preferred, and figures, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chiasma import atomic
from chiasma.report import page
from chiasma.tumour.decision import Decision, first_decision
from chiasma.tumour.exports import FLAT, chance, that_matter, verdict
from chiasma.tumour.solutions import Answer, noise_in_words


def write_page(answer: Answer, entries: Sequence[dict[str, Any]], out: Path) -> Path:
    """entries: as `solution_entries` gives them. The figures must have been written."""
    sample = answer.bins.sample
    figures = out / "figures"
    parts = [
        page.header(f"{sample}: purity, ploidy and clones", answer.bins.in_words()),
        page.verdicts(_verdicts(answer, entries)),
        page.section("Solutions", _table(entries), page.paragraph(comparison(entries))),
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
    path = out / "report.html"
    atomic.write_text(path, page.document(f"{sample}: tumour", *parts))
    return path


def _verdicts(answer: Answer, entries: Sequence[dict[str, Any]]) -> list[page.Verdict]:
    if answer.flat:
        text = "Two copies everywhere explain the data as well; the solutions below are not to be trusted."
        return [page.Verdict(tone="bad", answer=FLAT.capitalize() + ".", text=text)]
    tone: page.Tone = "good" if entries[0]["probability"] > 0.95 and not entries[0]["warnings"] else "doubt"
    found = [page.Verdict(tone=tone, answer=verdict(answer) + ".")]
    found += [page.Verdict(tone="doubt", answer="First solution:", text=f"{text}.") for text in entries[0]["warnings"]]
    if answer.together:
        text = f"Copy numbers and probabilities are those of {', '.join(answer.together)}, which share their clones."
        found.append(page.Verdict(tone="note", answer="Solved together.", text=text))
    if not answer.data.has_alleles:
        text = "A genome and its double, or one copy more everywhere, have the same levels: look at the rivals."
        found.append(page.Verdict(tone="note", answer="Depth alone.", text=text))
    return found


def _of_landscape(answer: Answer) -> str:
    return "Log evidence of one clone" + (", this sample alone" if answer.together else "")


def _table(entries: Sequence[dict[str, Any]]) -> page.Html:
    names = ["solution", "probability", "purity", "90%", "ploidy", "clones", "doubled", "altered", "unexplained"]
    names += ["fit", "plausibility"]
    rows = [
        [
            entry["rank"],
            chance(entry["probability"]),
            f"{entry['purity']:.3f}",
            f"{entry['purity_low']:.3f}-{entry['purity_high']:.3f}",
            f"{entry['ploidy']:.2f}",
            " + ".join(f"{share:.0%}" for share in list(entry["clone_fractions"].values())[1:]),
            f"{entry['doubled']:.0%}",
            f"{entry['altered']:.0%}",
            f"{entry['unexplained']:.0%}",
            *(_relative(entries[0], entry) if i else ["0", "0"]),
        ]
        for i, entry in enumerate(entries)
    ]
    return page.table(names, rows, rest="solutions.tsv")


def comparison(entries: Sequence[dict[str, Any]]) -> str:
    """Whether the data or the prior decide between the first two solutions."""
    decision = first_decision(entries)
    if decision is None:
        return "There is no other solution."
    told = decision.in_words()
    return (
        "Fit is the log-likelihood of the data at the most probable copy numbers, relative to solution 1; plausibility "
        "is the rest of the posterior: which copy numbers are usual, how many changes, clones and doublings it takes, "
        f"how well its numbers are known. {told[0].upper()}{told[1:]}."
    )


def _relative(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Fit and plausibility of a solution, less those of the first."""
    lead = Decision.between(first, other)
    return [f"{-lead.fit:+.1f}", f"{-lead.plausibility:+.1f}"]


def picture(path: Path, caption: str) -> page.Html:
    return page.picture(path.read_bytes(), f"{caption}; larger in figures/{path.name}", caption)
