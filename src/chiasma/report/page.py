"""Parts of an HTML page: header, verdicts, tables, facts, pictures, charts, and the document around them.

Every part is a function that returns Html. Text that is not Html is escaped wherever it enters a part, so that the name
of a file, a sample or a row cannot become markup. The style has light and dark colours, narrow screens and print.

>>> str(paragraph("a < b"))
'<p>a &lt; b</p>'
>>> str(paragraph("see ", link("the table", "segments.tsv")))
'<p>see <a href="segments.tsv">the table</a></p>'
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup as Html
from markupsafe import escape

from chiasma.report.policy import with_policy
from chiasma.report.render import MOST_ROWS as SHOWN_LINES
from chiasma.report.render import SIGNS, TEMPLATES, Tone, Verdict, number, numeric_columns, words

STYLE = (TEMPLATES / "style.css").read_text(encoding="utf-8")


def html(value: object) -> Html:
    """Html unchanged, anything else as escaped text."""
    return value if isinstance(value, Html) else escape(str(value))


def joined(*parts: object) -> Html:
    return Html("".join(html(part) for part in parts))


def element(tag: str, *parts: object, **attributes: object) -> Html:
    """An element. Attributes: class_ for class, data_label for data-label; True has no value, None is left out.

    >>> str(element("td", "<1", class_="number", data_label='a"b'))
    '<td class="number" data-label="a&#34;b">&lt;1</td>'
    """
    texts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        texts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    return Html(f"<{tag}{''.join(texts)}>{joined(*parts)}</{tag}>")


def document(title: str, *parts: object, head: Html | None = None, pictures_beside: bool = False) -> str:
    """The whole page. Style and scripts (`head`) are inside, and pictures, unless they are in its folder."""
    page = f"""<!DOCTYPE html>
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
    return with_policy(page, pictures_beside=pictures_beside)


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
    numeric = numeric_columns(len(names), rows)
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


def _cell(value: object, name: object, mark: str | None) -> Html:
    shown = value if isinstance(value, Html) else number(value)
    return element("td", shown, class_=mark, data_label=None if isinstance(name, Html) else str(name))


__all__ = ["SHOWN_LINES", "SIGNS", "STYLE", "Html", "Tone", "Verdict", "number", "words"]
