"""Parts of a page: text is escaped everywhere, and parts are readable without colours."""

import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from chiasma.report.page import SIGNS, TEMPLATES, Verdict, badge, link, render

HARM = "<script>alert('x')</script>\"'&"


class Reader(HTMLParser):
    """The elements of a page, its text, and whether every element is closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("meta", "img", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def page_of(tmp_path):
    """A page with one part, as HTML."""

    def made(part, **context):
        names = "verdicts, facts, table, figure, chart"
        text = f'{{% extends "base.html" %}}{{% from "macros.html" import {names} %}}'
        (tmp_path / "page.html").write_text(f"{text}{{% block content %}}{{{{ {part} }}}}{{% endblock %}}")
        return render(tmp_path / "page.html", **{"title": "a page"} | context)

    return made


@pytest.mark.parametrize(
    "part",
    [
        "harm",
        "verdicts([verdict])",
        "table([harm], [[harm]], caption=harm, rest=harm)",
        "table([harm], [[harm]] * 2, rest=harm, most=1, kind='cards')",
        "facts({harm: harm})",
        "badge(harm, 'good')",
        "link(harm, harm)",
        "table(['a'], [[link(harm, harm)]])",
        "figure(png, harm)",
        "chart(harm, harm, harm)",
    ],
)
def test_names_do_no_harm(page_of, part):
    verdict = Verdict(tone="bad", answer=HARM, text=HARM)
    reader = Reader(page_of(part, harm=HARM, verdict=verdict, png=b"png"))
    assert "script" not in reader.tags
    assert not reader.open
    assert HARM in reader.text


@pytest.mark.parametrize("place", ["title", "heading", "lead", "footer"])
def test_frame__names_do_no_harm(page_of, place):
    reader = Reader(page_of("''", **{place: HARM}))
    assert "script" not in reader.tags
    assert HARM in reader.text


def test_json_does_no_harm_and_is_json(page_of):
    assert "script" not in Reader(page_of("harm | tojson", harm=HARM)).tags
    with pytest.raises(ValueError, match="not JSON compliant"):
        page_of("number | tojson", number=float("nan"))


def test_a_missing_value_is_an_error_not_a_blank(page_of):
    with pytest.raises(UndefinedError, match="forgotten"):
        page_of("forgotten")


def test_links_and_badges_are_not_escaped_twice():
    assert link("a & b", "?x=1&y=2") == '<a href="?x=1&amp;y=2">a &amp; b</a>'
    assert badge("<", "bad") == '<span class="badge bad">&lt;</span>'


def test_verdicts_are_told_by_signs_not_only_by_colours(page_of):
    found = [Verdict(tone=tone, answer="so") for tone in SIGNS]
    text = Reader(page_of("verdicts(found)", found=found)).text
    assert re.findall(r"(\S)so\b", text) == list(SIGNS.values())
    assert len(set(SIGNS.values())) == len(SIGNS)


def test_table__numbers_are_flush_right_and_the_rest_is_named(page_of):
    rows = [["a", 1.5], ["b", None], ["c", 10_000]]
    html = page_of("table(['name', 'value'], rows, rest='all.tsv', most=2)", rows=rows)
    assert html.count('class="number"') == 3
    assert "all.tsv" in html
    assert "10,000" not in html
    assert "<thead>" in page_of("table(['name', 'value'], [])")


def contrast(one, other):
    """The contrast of two colours, as WCAG 2 has it."""
    light = []
    for colour in (one, other):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(scheme):
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme]))
    pairs = [("ink", "paper"), ("ink", "soft"), ("quiet", "paper"), ("link", "paper"), ("paper", "mark")]
    pairs += [(tone, f"{tone}-back") for tone in SIGNS] + [("ink", f"{tone}-back") for tone in SIGNS]
    for text, back in pairs:
        assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
