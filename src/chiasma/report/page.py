"""Pages from Jinja2 templates: the environment, what every page says first, and its Content-Security-Policy.

A template extends base.html and takes parts from macros.html. Whatever it prints is escaped unless it is Markup, so
that the name of a file, a sample or a row cannot become HTML. Style sheets and scripts are files among the templates.

>>> str(link("a < b", "segments.tsv"))
'<a href="segments.tsv">a &lt; b</a>'
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal

from chiasma.extras import extra
from chiasma.results.findings import Finding, Severity, Trust, advice, message, options, trust_in

with extra("report"):
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"

# good: nothing to do. doubt: read it. bad: do something first. note: neither.
Tone = Literal["good", "doubt", "bad", "note"]
# The sign of a verdict tells its tone; the colour only repeats it.
SIGNS: dict[Tone, str] = {"good": "✓", "doubt": "?", "bad": "!", "note": "•"}
TONES: dict[Trust | Severity, Tone] = {"good": "good", "limited": "doubt", "none": "bad", "note": "note"}
# Rows of a table on a page.
MOST_ROWS = 60
SCRIPT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)


# ---- What a page says first ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A judgement in words: a short answer, and what is behind it."""

    tone: Tone
    answer: str
    text: str = ""


def plain_verdict(finding: Finding) -> Verdict:
    """A finding with its remedies as options of the command line."""
    return Verdict(tone=TONES[finding.severity], answer=message(finding), text=advice(options(finding, {})))


def judged(
    findings: Sequence[Finding],
    headline: str,
    answers: Iterable[Verdict] = (),
    verdict: Callable[[Finding], Verdict] = plain_verdict,
) -> list[Verdict]:
    """The top of every page: whether to trust it, the findings, then the answers.

    An answer has no green mark unless the trust is good. headline : of the same findings, in words.
    """
    trust = trust_in(findings)
    first, _, text = headline.partition(". ")
    whole = Verdict(tone=TONES[trust], answer=f"{first}.", text=text)
    if trust != "good":
        answers = [replace(one, tone="note") if one.tone == "good" else one for one in answers]
    return [whole, *map(verdict, findings), *answers]


UNKNOWN = "unknown"


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, by which readers can check their copy; UNKNOWN if there is none, or a pipe."""
    if not file.is_file():  # opening a pipe again would wait for another writer
        return UNKNOWN
    try:
        with file.open("rb") as content:
            return file_digest(content, "sha256").hexdigest()
    except OSError:
        return UNKNOWN


# ---- Templates -------------------------------------------------------------------------------------------------------


def render(template: str | Path, /, *, evaluates: bool = False, pictures_beside: bool = False, **context: Any) -> str:
    """A page as text. template: a name among the templates of this package, or the path of another one.

    evaluates : its scripts compile others, as Bokeh does. pictures_beside : it shows pictures of its folder.
    """
    folder = template.parent if isinstance(template, Path) else TEMPLATES
    name = template.name if isinstance(template, Path) else template
    page = _environment(folder).get_template(name).render(context)
    return page.replace("<head>\n", f"<head>\n{_policy(page, evaluates, pictures_beside)}\n", 1)


def _policy(page: str, evaluates: bool, pictures_beside: bool) -> str:
    """The page runs the scripts that it has inside, named by their hashes, and loads nothing from elsewhere."""
    bodies = [body for about, body in SCRIPT.findall(page) if "application/json" not in about]
    hashes = [f"'sha256-{b64encode(sha256(body.encode()).digest()).decode()}'" for body in bodies]
    scripts = " ".join(dict.fromkeys(hashes)) + (" 'unsafe-eval'" if evaluates else "")
    parts = {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "img-src": "data: 'self' file:" if pictures_beside else "data:",
        "style-src": "'unsafe-inline'",
        "script-src": scripts.strip() or "'none'",
    }
    content = "; ".join(f"{name} {allowed}" for name, allowed in parts.items())
    return f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{content}">'


@cache
def _environment(folder: Path) -> Environment:
    found = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.policies["json.dumps_kwargs"] = {"allow_nan": False}
    found.filters |= {"number": number, "words": words, "data_uri": data_uri}
    found.globals |= {
        "SIGNS": SIGNS,
        "MOST_ROWS": MOST_ROWS,
        "asset": lambda name: _asset(folder, name),
        "badge": badge,
        "link": link,
        "numeric_columns": numeric_columns,
    }
    return found


def _asset(folder: Path, name: str) -> Markup:
    """A style sheet or a script as it is, which Jinja must not read: braces mean other things there."""
    path = next(place / name for place in (folder, TEMPLATES) if (place / name).exists())
    return Markup(path.read_text(encoding="utf-8").rstrip("\n"))


def link(text: object, address: str) -> Markup:
    return Markup('<a href="{}">{}</a>').format(address, text)


def badge(text: object, tone: Tone) -> Markup:
    return Markup('<span class="badge {}">{}</span>').format(tone, text)


def data_uri(png: bytes | Path) -> str:
    content = png.read_bytes() if isinstance(png, Path) else png
    return f"data:image/png;base64,{b64encode(content).decode('ascii')}"


def number(value: Any, digits: int = 4) -> Any:
    """A number for readers: counts with commas, others to some significant digits; empty if unknown. Text unchanged.

    >>> number(10877), number(0.123456), number(None), number(float("nan"))
    ('10,877', '0.1235', '', '')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}g}" if isinstance(value, float) else value


def words(key: str) -> str:
    """The name of a setting or a column, without underscores."""
    return key.replace("_", " ")


def numeric_columns(n: int, rows: Sequence[Sequence[object]]) -> list[bool]:
    """Which of the n columns of a table hold numbers, or text of numbers.

    >>> numeric_columns(3, [["a", 1.5, "12%"], ["b", None, ""]])
    [False, True, True]
    """
    shape = re.compile(r"(-?[\d.,]+(e[-+]?\d+)?%?)?")
    return [all(row[i] is None or shape.fullmatch(str(row[i])) for row in rows) for i in range(n)]
