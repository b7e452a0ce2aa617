"""Write results as JSON, as one self-contained HTML page, and as blocks of numbers in docs/paper.md.

A block of the document is between two comments, <!-- results: NAME PART --> and <!-- end -->, and is written by
`refresh`, never by hand. PART is "findings", "run", or the stem of a table; NAME alone may be "summary".
"""

from __future__ import annotations

import json
import math
import re
import shutil
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from chiasma import atomic
from chiasma.errors import InvalidInput
from chiasma.experiments.result import ExperimentResult, Figure, Finding, ResultTable, Verdict
from chiasma.files.tables import write_table

# Experiments in the order of the paper; each is a module with run(folder, quick, seed).
EXPERIMENTS = ("schema", "errata", "toy", "simulation", "timings", "tumour")
RESULT = "result.json"

# The page shows at most this many lines of a table, and names the file with the rest.
SHOWN_LINES = 60
BADGES: dict[Verdict, str] = {"agrees": "yes", "differs": "no", "beyond the paper": "own"}
SHOWN = re.compile(r"\]\(results/([\w-]+)\.png\)")
BLOCK = re.compile(r"(<!-- results: ([\w-]+)(?: ([\w.-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)

STYLE = """
:root { --ink: #1b2733; --quiet: #5a6875; --line: #d5dce3; --paper: #fff; --soft: #f4f7fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .75rem; padding-top: .75rem;
  border-top: 2px solid var(--ink); }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; }
a { color: #00588a; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; background: var(--soft); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.findings td:first-child { width: 36%; }
.findings td:last-child { width: 8.5rem; }
.scroll { overflow-x: auto; margin: 1.25rem 0; }
.badge { display: inline-block; padding: .05rem .5rem; border-radius: .25rem; font-size: .85rem; font-weight: 600;
  white-space: nowrap; border: 1px solid; }
.yes { color: #00543c; background: #e3f4ec; border-color: #7fbfa3; }
.no { color: #8a2d00; background: #fdebe2; border-color: #dfa080; }
.own { color: #29436b; background: #e8eef8; border-color: #9db2d3; }
.quick { padding: .5rem .75rem; background: #fff4d6; border: 1px solid #e0bf62; border-radius: .25rem; }
figure { margin: 1.25rem 0; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
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
  .findings thead { display: none; }
  .findings tr, .findings td { display: block; width: auto !important; border: 0; padding: .15rem 0; }
  .findings tr { border-bottom: 1px solid var(--line); padding: .6rem 0; }
  .findings td::before { content: attr(data-label); display: block; color: var(--quiet); font-size: .8rem; }
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


@dataclass(frozen=True, kw_only=True)
class Record:
    """A result with the command and the versions that produced it."""

    result: ExperimentResult
    quick: bool
    command: str
    versions: dict[str, str]


def in_words(result: ExperimentResult) -> str:
    """The verdicts of an experiment, counted.

    >>> from pathlib import Path
    >>> finding = Finding(claim="", ours="", verdict="agrees")
    >>> in_words(ExperimentResult(name="", title="", settings={}, findings=[finding], figures=[], tables=[],
    ...                           seconds=0.0, folder=Path()))
    'agrees: 1'
    """
    verdicts = [finding.verdict for finding in result.findings]
    return ", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in BADGES if verdict in verdicts)


def write_record(record: Record) -> None:
    """Write result.json and the tables into the folder of the result."""
    result = record.result
    content = {"command": record.command, "quick": record.quick, "versions": record.versions} | asdict(result)
    del content["folder"]
    for table in result.tables:
        write_table(result.folder / f"{table.stem}.tsv", table.header, table.rows)
    path = result.folder / RESULT
    atomic.write_text(path, json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_record(path: Path) -> Record:
    """Read a record from its JSON file; its figures are in the same folder."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    result = ExperimentResult(
        name=content["name"],
        title=content["title"],
        settings=content["settings"],
        findings=[Finding(**finding) for finding in content["findings"]],
        figures=[Figure(**figure) for figure in content["figures"]],
        tables=[ResultTable(**table) for table in content["tables"]],
        seconds=content["seconds"],
        folder=path.parent,
    )
    return Record(result=result, quick=content["quick"], command=content["command"], versions=content["versions"])


def read_records(out: Path) -> list[Record]:
    """All records in `out`, in the order of the paper."""
    paths = [out / name / RESULT for name in EXPERIMENTS]
    return [read_record(path) for path in paths if path.exists()]


def plain(value: Any) -> Any:
    """Convert a value for JSON: tuples and arrays to lists, NaN and infinities to None (null).

    >>> plain({"a": (np.int64(1), float("inf"))})
    {'a': [1, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_page(records: Sequence[Record], path: Path) -> None:
    """Write one self-contained HTML file: figures and style included, no scripts."""
    overview = "".join(
        f'<tr><td><a href="#{r.result.name}">{escape(r.result.title)}</a></td>'
        f'<td>{escape(in_words(r.result))}</td><td class="number">{r.result.seconds:.0f} s</td></tr>'
        for r in records
    )
    known = " ".join(f"{name} {number}" for name, number in (records[0].versions if records else {}).items())
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title>
<style>{STYLE}</style>
</head>
<body>
<h1>The paper, reproduced</h1>
<p>Märtens, Titsias and Yau, <i>Augmented Ensemble MCMC sampling in Factorial Hidden Markov Models</i> (AISTATS 2019):
what it claims, what chiasma finds, experiment by experiment. Figures are numbered as in the LaTeX source.</p>
<div class="scroll"><table><thead><tr><th>experiment</th><th>findings</th><th class="number">time</th></tr></thead>
<tbody>{overview}</tbody></table></div>
{"".join(_section(record) for record in records)}
<footer>Made with {escape(known)}.</footer>
</body>
</html>
"""
    atomic.write_text(path, text)


def _section(record: Record) -> str:
    result = record.result
    quick = '<p class="quick">A quick run: sizes far below the paper\'s, so the verdicts mean nothing.</p>'
    return f"""
<section id="{result.name}">
<h2>{escape(result.title)}</h2>
{quick if record.quick else ""}
<table class="findings">
<thead><tr><th>the paper, or a question beyond it</th><th>chiasma</th><th>verdict</th></tr></thead>
<tbody>{"".join(_finding(finding) for finding in result.findings)}</tbody></table>
{"".join(_figure(figure, result.folder) for figure in result.figures)}
{"".join(_table(table) for table in result.tables)}
<h3>Settings and command</h3>
<pre>{escape(record.command)}</pre>
<dl>{"".join(f"<dt>{escape(_words(k))}</dt><dd>{escape(_value(v))}</dd>" for k, v in result.settings.items())}</dl>
</section>
"""


def _finding(finding: Finding) -> str:
    return (
        f'<tr><td data-label="the paper, or a question beyond it">{escape(finding.claim)}</td>'
        f'<td data-label="chiasma">{escape(finding.ours)}</td>'
        f'<td><span class="badge {BADGES[finding.verdict]}">{finding.verdict}</span></td></tr>'
    )


def _figure(figure: Figure, folder: Path) -> str:
    picture = b64encode((folder / f"{figure.stem}.png").read_bytes()).decode("ascii")
    where = f"<b>{escape(figure.paper_figure)} of the paper.</b> " if figure.paper_figure else ""
    return (
        f'<figure><img src="data:image/png;base64,{picture}" alt="{escape(figure.caption)}">'
        f"<figcaption>{where}{escape(figure.caption)}</figcaption></figure>"
    )


def _table(table: ResultTable) -> str:
    numeric = _numeric(table)
    mark = [' class="number"' if is_number else "" for is_number in numeric]
    head = "".join(f"<th{m}>{escape(_words(name))}</th>" for m, name in zip(mark, table.header, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{m}>{escape(_cell(x))}</td>" for m, x in zip(mark, row, strict=True)) + "</tr>"
        for row in table.rows[:SHOWN_LINES]
    )
    more = len(table.rows) - SHOWN_LINES
    rest = f" The other {more:,} lines are in {escape(table.stem)}.tsv." if more > 0 else ""
    return (
        f'<div class="scroll"><table class="table"><caption>{escape(table.caption)}{rest}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _numeric(table: ResultTable) -> list[bool]:
    """Which columns hold numbers, or texts of numbers."""
    columns = zip(*table.rows, strict=True) if table.rows else ([] for _ in table.header)
    return [all(x is None or re.fullmatch(r"-?[\d.,]+(e-?\d+)?%?", str(x)) for x in column) for column in columns]


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{_words(str(k))}: {_value(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_value(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def refresh(docs: Path, records: Sequence[Record]) -> None:
    """Write docs/results/NAME.json and the figures that paper.md shows, and refresh the blocks of the documents."""
    for record in records:
        if record.quick:
            raise InvalidInput(f"{record.result.name} was a quick run, and a document quotes full ones; drop --quick")
    kept = docs / "results"
    kept.mkdir(parents=True, exist_ok=True)
    shown = set(SHOWN.findall((docs / "paper.md").read_text(encoding="utf-8")))
    for result in (record.result for record in records):
        shutil.copyfile(result.folder / RESULT, kept / f"{result.name}.json")
        for stem in shown & {figure.stem for figure in result.figures}:
            # A colour palette makes such a PNG a third as large, without visible loss.
            with Image.open(result.folder / f"{stem}.png") as picture:
                picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(kept / f"{stem}.png", optimize=True)
    for document in documents(docs):
        document.write_text(render(document.read_text(encoding="utf-8"), committed(docs)), encoding="utf-8")


def documents(docs: Path) -> list[Path]:
    """The documents with blocks: paper.md, and the README next to `docs` if there is one."""
    readme = docs.parent / "README.md"
    return [docs / "paper.md", *([readme] if readme.exists() else [])]


def committed(docs: Path) -> dict[str, Record]:
    """The results that a document quotes."""
    paths = {name: docs / "results" / f"{name}.json" for name in EXPERIMENTS}
    return {name: read_record(path) for name, path in paths.items() if path.exists()}


def render(text: str, records: Mapping[str, Record]) -> str:
    """A document with all its blocks written from the records."""

    def block(match: re.Match[str]) -> str:
        opening, name, part, closing = match.groups()
        return f"{opening}\n{_block(name, part, records)}\n\n{closing}"

    return BLOCK.sub(block, text)


def _block(name: str, part: str | None, records: Mapping[str, Record]) -> str:
    if name == "summary":
        header = ["experiment", "findings", "seconds"]
        return _markdown(
            header, [[r.result.title, in_words(r.result), f"{r.result.seconds:.0f}"] for r in records.values()]
        )
    if name not in records:
        return f"No results are kept yet: `chiasma reproduce {name}` makes them."
    record = records[name]
    if part == "findings":
        lines = [[finding.claim, finding.ours, f"**{finding.verdict}**"] for finding in record.result.findings]
        return _markdown(["the paper, or a question beyond it", "chiasma", "verdict"], lines)
    if part == "run":
        settings = "; ".join(f"{_words(key)}: {_value(value)}" for key, value in record.result.settings.items())
        return f"`{record.command}`, {record.result.seconds:.0f} seconds. Settings: {settings}."
    for table in record.result.tables:
        if table.stem == part:
            return f"{table.caption}\n\n{_markdown(table.header, [[_cell(x) for x in row] for row in table.rows])}"
    parts = ["findings", "run", *(table.stem for table in record.result.tables)]
    raise InvalidInput(f"{name} has no part {part!r}: it has {', '.join(parts)}")


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
