"""docs/paper.md and the README: numbers of the paper's experiments are those of docs/results, and nobody typed them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from paper import page

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "paper.md").read_text(encoding="utf-8")
PROSE = page.BLOCK.sub("", TEXT)

# What the prose may count: the year, sections, figures, the table, the algorithm; the paper's B and its temperature;
# states, rows, lags and chromosomes.
ALLOWED = {"2019", "2", "4.1", "4.2.1", "4.2.2", "1", "5", "6", "7", "8", "9", "10", "0", "3", "50", "17", "21", "22"}


@pytest.mark.parametrize("document", page.documents(DOCS), ids=lambda path: path.name)
def test_blocks__are_what_the_results_say(document):
    text = document.read_text(encoding="utf-8")
    assert page.BLOCK.search(text)
    assert page.render(text, page.committed(DOCS)) == text


def test_blocks__change_when_a_result_changes():
    records = page.committed(DOCS)
    for name, record in records.items():
        finding = record.result.findings[0]
        changed = replace(
            record.result, findings=[replace(finding, ours=finding.ours + " 0"), *record.result.findings[1:]]
        )
        assert page.render(TEXT, records | {name: replace(record, result=changed)}) != TEXT


def test_prose__has_no_numbers_of_ours():
    assert set(re.findall(r"\d+(?:\.\d+)*", PROSE)) <= ALLOWED


def test_every_experiment_has_its_findings_in_the_document():
    for name in page.EXPERIMENTS:
        assert f"<!-- results: {name} findings -->" in TEXT


def test_results__are_of_full_runs():
    records = page.committed(DOCS)
    assert set(records) == set(page.EXPERIMENTS)
    assert not any(record.quick for record in records.values())
    assert records["tumour"].result.settings["real"] != "skipped"


def test_links__lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", PROSE):
        assert (DOCS / target).exists(), target


def test_figures__are_those_of_the_results_and_small():
    shown = page.SHOWN.findall(TEXT)
    stems = {figure.stem for record in page.committed(DOCS).values() for figure in record.result.figures}
    assert set(shown) <= stems
    assert {path.stem for path in (DOCS / "results").glob("*.png")} == set(shown)
    assert all((DOCS / "results" / f"{stem}.png").stat().st_size < 300_000 for stem in shown)
