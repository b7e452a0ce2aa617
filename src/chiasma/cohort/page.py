"""index.html: all samples in a table that sorts, with small pictures and links to their reports.

Columns of learned parameters, mean and 5% to 95%, take the place of those of key results when they are asked for.

The page needs no network and no other files but the pictures, which load as they come into view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from chiasma import atomic
from chiasma.cohort.directory import DAMAGED, DONE, FAILED, MISSING, PICTURE, CohortDirectory, Outcome, names_in_order
from chiasma.cohort.pictures import in_words
from chiasma.report.page import (
    Html,
    Tone,
    badge,
    document,
    element,
    header,
    joined,
    link,
    number,
    paragraph,
    words,
)
from chiasma.types import count

TONES: dict[str, Tone] = {DONE: "good", FAILED: "bad", DAMAGED: "bad", MISSING: "note"}
TRUST: dict[str, Tone] = {"good": "good", "limited": "doubt", "none": "bad"}

STYLE = """
body { max-width: none; }
table { font-size: .85rem; }
td { padding: .35rem .3rem; }
th { position: sticky; top: 0; padding: 0; vertical-align: bottom; }
th button { all: unset; display: block; padding: .35rem .3rem; cursor: pointer; overflow-wrap: normal; }
th button:focus-visible { outline: 3px solid var(--link); }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
td img { display: block; max-width: 200px; image-rendering: pixelated; }
td small { color: var(--quiet); }
td.name { min-width: 5.5rem; overflow-wrap: anywhere; }
td.text { min-width: 9rem; max-width: 32rem; overflow-wrap: anywhere; }
table:not(.parameters) .parameter, .parameters .result { display: none; }
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
document.addEventListener("change", event => {
  document.querySelector("table").classList.toggle("parameters", event.target.checked);
});
"""
# Results of a tumour that are parts of its genome, or probabilities.
SHARES = ("doubled", "altered", "unexplained")


def write_page(directory: CohortDirectory, outcomes: Sequence[Outcome], picture_shows: str) -> None:
    results = names_in_order(outcome.key_results for outcome in outcomes)
    parameters = names_in_order(outcome.parameters for outcome in outcomes)
    rows = [_row(directory, outcome, results, parameters) for outcome in outcomes]
    heads = [
        *map(_head, ("sample", "status", "trust", "picture", "log evidence")),
        *(_head(words(name), "result") for name in results),
        *(_head(name, "parameter") for name in parameters),
        *map(_head, ("seconds", "findings")),
    ]
    counts = {status: sum(one.status == status for one in outcomes) for status in TONES}
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
            _switch() if parameters else "",
            element(
                "div",
                element("table", element("thead", element("tr", *heads)), element("tbody", Html("\n".join(rows)))),
                class_="scroll",
                tabindex=0,
            ),
            head=Html(f"<style>{STYLE}</style>\n<script>{SCRIPT}</script>\n"),
            pictures_beside=True,
        ),
    )


def _head(name: str, kind: str | None = None) -> Html:
    return element("th", element("button", name), scope="col", class_=kind)


def _switch() -> Html:
    # A browser that reloads the page would keep the tick, but not the columns.
    box = element("input", type="checkbox", autocomplete="off").removesuffix("</input>")
    text = " Show learned parameters, the mean and 5% to 95%, in place of other results"
    return paragraph(element("label", Html(box), text))


def _row(directory: CohortDirectory, outcome: Outcome, results: Sequence[str], parameters: Sequence[str]) -> Html:
    name, place = outcome.name, f"samples/{quote(outcome.name)}"
    done = outcome.status == DONE
    report = "report.html" if (directory.samples / name / "report.html").exists() else ""
    return element(
        "tr",
        _cell(name, link(name, f"{place}/{report}") if done else name, "name"),
        _cell(outcome.status, badge(outcome.status, TONES[outcome.status])),
        _cell(outcome.trust, badge(outcome.trust, TRUST[outcome.trust]) if outcome.trust else ""),
        _cell("", _picture(outcome, f"{place}/{PICTURE}") if done else ""),
        _number(None if outcome.evidence is None else outcome.evidence[0], digits=7),
        *(_result(result, outcome.key_results.get(result)) for result in results),
        *(_parameter(outcome.parameters.get(parameter)) for parameter in parameters),
        _number(outcome.seconds),
        _notes(outcome),
    )


def _picture(outcome: Outcome, source: str) -> Html:
    shown = in_words(outcome.name, outcome.bands, outcome.span)
    made = element("img", src=source, alt=shown, title=shown, loading="lazy")
    return joined(Html(made.removesuffix("</img>")), element("small", outcome.span) if outcome.span else "")


def _parameter(found: Mapping[str, float] | None) -> Html:
    if found is None:
        return _cell("", "", "number parameter")
    middle = joined(number(found["mean"]), Html("<br>"))
    ends = element("small", f"{number(found['q05'])} to {number(found['q95'])}")
    return _cell(repr(found["mean"]), joined(middle, ends), "number parameter")


def _cell(key: str, content: object, kind: str | None = None) -> Html:
    return element("td", content, class_=kind, data_key=key)


def _number(value: float | None, digits: int = 4, kind: str = "number") -> Html:
    known = value is not None and math.isfinite(value)
    return _cell(repr(value) if known else "", number(value, digits) if known else "", kind)


def _result(name: str, value: float | None) -> Html:
    if name in SHARES and value is not None and math.isfinite(value):
        return _cell(repr(value), f"{value:.0%}", "number result")
    return _number(value, kind="number result")


def _notes(outcome: Outcome) -> Html:
    text = outcome.error or " ".join(outcome.findings)
    return _cell(text, text, "text")
