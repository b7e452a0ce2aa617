"""Parts of an HTML page: header, verdicts, tables, facts, pictures, charts, and the document around them.

Every part is a function that returns Html. Text that is not Html is escaped wherever it enters a part, so that the name
of a file, a sample or a row cannot become markup. The style has light and dark colours, narrow screens and print.

>>> str(paragraph("a < b"))
'<p>a &lt; b</p>'
>>> str(paragraph("see ", link("the table", "segments.tsv")))
'<p>see <a href="segments.tsv">the table</a></p>'
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

# good: nothing to do. doubt: read it. bad: do something first. note: neither.
Tone = Literal["good", "doubt", "bad", "note"]
# A verdict is told by its sign and its words; the colour only repeats them.
SIGNS: dict[Tone, str] = {"good": "✓", "doubt": "?", "bad": "!", "note": "•"}

# A table shows at most this many lines, and says where the rest is.
SHOWN_LINES = 60


class Html(str):
    """Text that is HTML already and is not escaped again."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A judgement in words: a short answer, and what is behind it."""

    tone: Tone
    answer: str
    text: str = ""


def html(value: object) -> Html:
    """Html unchanged, anything else as escaped text."""
    return value if isinstance(value, Html) else Html(escape(str(value)))


def joined(*parts: object) -> Html:
    return Html("".join(html(part) for part in parts))


def element(tag: str, *parts: object, **attributes: object) -> Html:
    """An element. Attributes: class_ for class, data_label for data-label; True has no value, None is left out.

    >>> str(element("td", "<1", class_="number", data_label='a"b'))
    '<td class="number" data-label="a&quot;b">&lt;1</td>'
    """
    texts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        texts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    return Html(f"<{tag}{''.join(texts)}>{joined(*parts)}</{tag}>")


def document(title: str, *parts: object, head: Html | None = None) -> str:
    """The whole page. It loads nothing: style, pictures and scripts (`head`) are inside."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html(title)}</title>
<style>{STYLE}</style>
{head or ""}</head>
<body>
{joined(*parts)}
</body>
</html>
"""


def header(title: str, *lead: object) -> Html:
    """The head of a page: its title, and one line of what it is about."""
    return element("header", element("h1", title), paragraph(*lead) if lead else "")


def footer(*parts: object) -> Html:
    return element("footer", *parts)


def section(title: str, *parts: object, id_: str | None = None) -> Html:
    return element("section", element("h2", title), *parts, id_=id_)


def heading(text: str) -> Html:
    return element("h3", text)


def paragraph(*parts: object, class_: str | None = None) -> Html:
    return element("p", *parts, class_=class_)


def link(text: str, address: str) -> Html:
    return element("a", text, href=address)


def code(text: str) -> Html:
    return element("pre", text)


def badge(text: str, tone: Tone) -> Html:
    return element("span", text, class_=f"badge {tone}")


def verdicts(found: Iterable[Verdict]) -> Html:
    """Verdicts below each other, each with its sign, its answer in bold, and its text."""
    items = [
        element(
            "li",
            element("span", SIGNS[one.tone], class_="sign", aria_hidden="true"),
            element("div", element("b", one.answer), " " if one.text else "", one.text),
            class_=one.tone,
        )
        for one in found
    ]
    return element("ul", *items, class_="verdicts")


def facts(known: Mapping[str, object]) -> Html:
    """Names and values below each other."""
    return element("dl", *(joined(element("dt", name), element("dd", value)) for name, value in known.items()))


def table(
    names: Sequence[object],
    rows: Sequence[Sequence[object]],
    *,
    caption: str = "",
    rest: str = "",
    most: int = SHOWN_LINES,
    class_: str = "table",
) -> Html:
    """A table; columns of numbers are set flush right. rest: where the lines beyond `most` are, such as a file.

    On a narrow screen every cell carries the name of its column (class "cards") or the table scrolls (class "table").
    """
    numeric = _numeric(names, rows)
    marks = ["number" if is_number else None for is_number in numeric]
    head = element("tr", *(element("th", name, class_=m, scope="col") for name, m in zip(names, marks, strict=True)))
    body = [
        element("tr", *(_cell(x, name, m) for x, name, m in zip(row, names, marks, strict=True))) for row in rows[:most]
    ]
    more = len(rows) - most
    note = f" The other {more:,} lines are in {rest}." if more > 0 and rest else ""
    parts = [element("caption", caption, note)] if caption or note else []
    whole = element("table", *parts, element("thead", head), element("tbody", *body), class_=class_)
    return element("div", whole, class_="scroll", tabindex="0")


def picture(png: bytes, caption: object, alternative: str) -> Html:
    """A PNG inside the page. alternative: what it shows, for those who do not see it."""
    source = f"data:image/png;base64,{b64encode(png).decode('ascii')}"
    image = Html(f'<img src="{source}" alt="{escape(alternative)}">')
    return element("figure", image, element("figcaption", caption))


def chart(drawing: Html, caption: object, label: str) -> Html:
    """An interactive chart. label: what it shows, for those who do not see it; keys reach it by Tab."""
    return element(
        "figure",
        element("div", drawing, class_="chart", role="group", tabindex="0", aria_label=label),
        element("figcaption", caption),
    )


def number(value: Any, digits: int = 4) -> str:
    """A number for readers: counts with commas, others to some significant digits; empty where unknown.

    >>> number(10877), number(0.123456), number(None), number(float("nan"))
    ('10,877', '0.1235', '', '')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def words(key: str) -> str:
    """The name of a setting or a column, without underscores."""
    return key.replace("_", " ")


def _cell(value: object, name: object, mark: str | None) -> Html:
    shown = value if isinstance(value, Html) else number(value)
    return element("td", shown, class_=mark, data_label=None if isinstance(name, Html) else str(name))


def _numeric(names: Sequence[object], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Which columns hold numbers, or texts of numbers."""
    columns: Iterable[Sequence[object]] = zip(*rows, strict=True) if rows else ([] for _ in names)
    return [all(x is None or re.fullmatch(r"(-?[\d.,]+(e[-+]?\d+)?%?)?", str(x)) for x in one) for one in columns]


STYLE = """
:root { --ink: #1b2733; --quiet: #55626f; --line: #d5dce3; --paper: #ffffff; --soft: #f4f7fa; --link: #00588a;
  --good: #00543c; --good-back: #e3f4ec; --doubt: #6b4a00; --doubt-back: #fff4d6; --bad: #8a2d00; --bad-back: #fdebe2;
  --note: #29436b; --note-back: #e8eef8; --mark: #12304f; --unmark: #eef2f6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --quiet: #a3afba; --line: #37424d; --paper: #12171c; --soft: #1b2229; --link: #79bdf0;
    --good: #9fdcc0; --good-back: #12352a; --doubt: #f2d48a; --doubt-back: #3a2f10; --bad: #ffb994;
    --bad-back: #44200f; --note: #b4caf0; --note-back: #1c2b45; --mark: #9fc6ee; --unmark: #26303a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .75rem; padding-top: .75rem;
  border-top: 2px solid var(--ink); }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; }
header p { color: var(--quiet); margin: 0; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; background: var(--soft); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.scroll { overflow-x: auto; margin: 1.25rem 0; }
.badge { display: inline-block; padding: .05rem .5rem; border-radius: .25rem; font-size: .85rem; font-weight: 600;
  white-space: nowrap; border: 1px solid; }
.verdicts { list-style: none; margin: 1rem 0; padding: 0; }
.verdicts li { display: flex; gap: .75rem; padding: .5rem .75rem; margin: .4rem 0; border-left: .35rem solid;
  border-radius: .25rem; }
.verdicts li > div { color: var(--ink); }
.sign { font-weight: 700; width: 1rem; text-align: center; }
.good { color: var(--good); background: var(--good-back); }
.doubt { color: var(--doubt); background: var(--doubt-back); }
.bad { color: var(--bad); background: var(--bad-back); }
.note { color: var(--note); background: var(--note-back); }
figure { margin: 1.25rem 0; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; background: #fff; }
figcaption, caption { color: var(--quiet); font-size: .9rem; text-align: left; padding: .35rem 0; }
figcaption b { color: var(--ink); }
caption { caption-side: top; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .25rem; padding: .5rem .75rem;
  white-space: pre-wrap; font-size: .88rem; margin: .5rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .88rem; margin: .5rem 0; }
dt { color: var(--quiet); }
dd { margin: 0; }
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
@media (max-width: 40rem) {
  .cards thead { display: none; }
  .cards tr, .cards td { display: block; width: auto !important; border: 0; padding: .15rem 0; text-align: left; }
  .cards tr { border-bottom: 1px solid var(--line); padding: .6rem 0; }
  .cards td::before { content: attr(data-label); display: block; color: var(--quiet); font-size: .8rem; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .4rem; }
}
@media print {
  body { font-size: 10pt; max-width: none; padding: 0; }
  h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  .scroll { overflow: visible; }
  .table { font-size: 8pt; }
}
"""
