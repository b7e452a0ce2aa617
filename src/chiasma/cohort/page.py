"""index.html: all samples in a table that sorts, with small pictures and links to their reports.

The page needs no network and no other files but the pictures, which load as they come into view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from urllib.parse import quote

from chiasma import atomic
from chiasma.cohort.directory import CohortDirectory
from chiasma.cohort.outcome import DONE, FAILED, MISSING, Outcome
from chiasma.cohort.table import names_in_order
from chiasma.files.page import (
    Html,
    Tone,
    badge,
    document,
    element,
    header,
    link,
    number,
    paragraph,
    words,
)
from chiasma.results.warnings import count

TONES: dict[str, Tone] = {DONE: "good", FAILED: "bad", MISSING: "note"}

STYLE = """
body { max-width: none; }
th { position: sticky; top: 0; padding: 0; }
th button { all: unset; display: block; padding: .45rem .6rem; cursor: pointer; white-space: nowrap; }
th button:focus-visible { outline: 3px solid var(--link); }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
td img { display: block; image-rendering: pixelated; }
td.text { max-width: 32rem; overflow-wrap: anywhere; }
"""
# Numbers sort as numbers, everything else as text; unknown values come last, either way.
SCRIPT = """
document.addEventListener("click", event => {
  const head = event.target.closest("th");
  if (!head) return;
  const down = head.getAttribute("aria-sort") === "ascending", column = head.cellIndex;
  const body = document.querySelector("tbody"), key = row => row.cells[column].dataset.key;
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return down ? -order : order;
  };
  for (const other of document.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...[...body.rows].sort(compare));
});
"""


def write_page(directory: CohortDirectory, outcomes: Sequence[Outcome], picture_shows: str) -> None:
    results = names_in_order(outcome.key_results for outcome in outcomes)
    names = ["sample", "status", "picture", "log evidence", *results, "seconds", "notes"]
    heads = [element("th", element("button", words(name)), scope="col") for name in names]
    rows = [_row(directory, outcome, results) for outcome in outcomes]
    counts = {status: sum(one.status == status for one in outcomes) for status in (DONE, FAILED, MISSING)}
    told = ", ".join(f"{n:,} {status}" for status, n in counts.items() if n)
    atomic.write_text(
        directory.page,
        document(
            f"Cohort {directory.path.name}",
            header(f"Cohort {directory.path.name}", f"{count(len(outcomes), 'sample')}: {told}."),
            paragraph(
                "The table is also in ",
                link("cohort.tsv", "cohort.tsv"),
                f"; cohort.zarr has the probabilities along the sites. A picture has {picture_shows}. "
                "Click on a heading to sort.",
            ),
            element("table", element("thead", element("tr", *heads)), element("tbody", Html("\n".join(rows)))),
            head=Html(f"<style>{STYLE}</style>\n<script>{SCRIPT}</script>\n"),
        ),
    )


def _row(directory: CohortDirectory, outcome: Outcome, results: Sequence[str]) -> Html:
    name, place = outcome.name, f"samples/{quote(outcome.name)}"
    done = outcome.status == DONE
    report = "report.html" if (directory.samples / name / "report.html").exists() else ""
    return element(
        "tr",
        _cell(name, link(name, f"{place}/{report}") if done else name),
        _cell(outcome.status, badge(outcome.status, TONES[outcome.status])),
        _cell("", _picture(name, f"{place}/picture.png") if done else ""),
        _number(None if outcome.evidence is None else outcome.evidence[0], digits=7),
        *(_number(outcome.key_results.get(result)) for result in results),
        _number(outcome.seconds),
        _notes(outcome),
    )


def _picture(name: str, source: str) -> Html:
    made = element("img", src=source, alt=f"rows of {name} along the sites", loading="lazy")
    return Html(made.removesuffix("</img>"))


def _cell(key: str, content: object, kind: str | None = None) -> Html:
    return element("td", content, class_=kind, data_key=key)


def _number(value: float | None, digits: int = 4) -> Html:
    known = value is not None and math.isfinite(value)
    return _cell(repr(value) if known else "", number(value, digits) if known else "", "number")


def _notes(outcome: Outcome) -> Html:
    text = outcome.error or " | ".join(outcome.warnings)
    return _cell(text, text, "text")
