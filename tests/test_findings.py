"""Findings are data: every code has a message that its facts fill, and an anchor in the documentation."""

import re
from pathlib import Path

import pytest

import chiasma as ch
from chiasma.results.findings import (
    CODES,
    Finding,
    Set,
    Use,
    advice,
    headline,
    in_order,
    message,
    on_command_line,
    options,
    trust_in,
)

PAGE = Path(__file__).parents[1] / "docs/reference/findings.md"
NOTE, LIMITED, NONE = (
    Finding("few-draws", "note", {"draws": 3}),
    Finding("one-chain", "limited"),
    Finding("flat", "none"),
)


def test_page__has_an_anchor_for_every_code():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE) == list(CODES)
    assert re.findall(r"^### ([\w-]+)$", text, re.MULTILINE) == list(CODES)


@pytest.mark.parametrize("code", CODES)
def test_message__is_one_or_two_sentences_of_its_facts(code):
    names = re.findall(r"{(\w+)", CODES[code].message)
    texts = ("names", "side", "unit", "first", "second")
    facts = {name: (1, 2) if name == "sites" else name if name in texts else 3 for name in names}
    text = message(Finding(code, "note", facts))
    assert "{" not in text
    assert text.endswith(".")
    assert len(re.findall(r"[.:] [A-Z]", text)) <= 1


def test_finding__refuses_what_it_does_not_know():
    with pytest.raises(ch.InvalidInput, match="code must be one of"):
        Finding("unheard-of", "note")
    with pytest.raises(ch.InvalidInput, match="severity must be note, limited or none"):
        Finding("flat", "bad")


def test_trust__is_as_good_as_the_worst_finding():
    assert in_order([NOTE, LIMITED, NONE]) == (NONE, LIMITED, NOTE)
    assert [trust_in(found) for found in ([], [NOTE], [NOTE, LIMITED], [LIMITED, NONE])] == [
        "good", "good", "limited", "none",
    ]  # fmt: skip


def test_headline__says_why_not_and_never_promises_what_is_not_trusted():
    assert headline([NOTE], 0.9).startswith("Trust: good.")
    assert message(LIMITED) in headline([LIMITED], 0.9)
    assert "90.0%" in headline([LIMITED], 0.9)
    bad = headline([LIMITED, NONE], 0.9)
    assert bad.startswith("Trust: none. The probabilities cannot be trusted")
    assert message(NONE) in bad
    assert message(LIMITED) not in bad


def test_places__are_written_by_the_renderer():
    found = Finding("outliers", "limited", {"share": 0.01, "expected": 0.001, "site": 7})
    assert "site 7" in message(found)
    assert "noon" in message(found, lambda first, last: "noon" if (first, last) == (7, 7) else "")


def test_remedies__are_arguments_or_options():
    remedies = (Set("exact_seconds", 2), Use("offset", "[ch.Smooth(knots=60)]", "--drift 60"), Set("fixed", None))
    found = Finding("one-chain", "limited", {}, remedies)
    assert found.to_dict()["remedies"] == ["exact_seconds=2", "offset=[ch.Smooth(knots=60)]", "fixed=None"]
    listed = ["--exact-seconds 2", "--drift 60", "--fixed-row none"]
    assert options(found, {"fixed": "--fixed-row"}) == listed
    assert on_command_line(found, {}).endswith(advice(options(found, {})))
