"""Parts of a page: text is escaped everywhere, and parts are readable without colours."""

import re
from html.parser import HTMLParser

import pytest

from chiasma.report import page

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
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    "part",
    [
        page.header(HARM, HARM),
        page.section(HARM, HARM, id_=HARM),
        page.verdicts([page.Verdict(tone="bad", answer=HARM, text=HARM)]),
        page.table([HARM], [[HARM]], caption=HARM, rest=HARM),
        page.table([HARM], [[HARM]] * 2, rest=HARM, most=1),
        page.facts({HARM: HARM}),
        page.code(HARM),
        page.badge(HARM, "good"),
        page.link(HARM, HARM),
        page.picture(b"png", HARM, HARM),
        page.chart(page.Html("<div></div>"), HARM, HARM),
        page.footer(HARM),
    ],
    ids=lambda part: str(part)[1:12],
)
def test_names_do_no_harm(part):
    reader = Reader(page.document("a page", part))
    assert "script" not in reader.tags
    assert not reader.open
    assert HARM in reader.text


def test_verdicts_are_told_by_signs_not_only_by_colours():
    tones = list(page.SIGNS)
    text = Reader(page.verdicts([page.Verdict(tone=tone, answer="so") for tone in tones])).text
    assert text == "".join(f"{page.SIGNS[tone]}so" for tone in tones)
    assert len(set(page.SIGNS.values())) == len(tones)


def test_table__numbers_are_flush_right_and_the_rest_is_named():
    html = page.table(["name", "value"], [["a", 1.5], ["b", None], ["c", 10_000]], rest="all.tsv", most=2)
    assert html.count('class="number"') == 3
    assert "The other 1 lines are in all.tsv." in html
    assert "10,000" not in html


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
    blocks = re.findall(r":root \{(.*?)\}", page.STYLE, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[scheme]))
    pairs = [("ink", "paper"), ("ink", "soft"), ("quiet", "paper"), ("link", "paper"), ("paper", "mark")]
    pairs += [(tone, f"{tone}-back") for tone in page.SIGNS] + [("ink", f"{tone}-back") for tone in page.SIGNS]
    for text, back in pairs:
        assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
