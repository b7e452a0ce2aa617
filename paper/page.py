"""Write results as JSON, as one self-contained HTML page, and as blocks of numbers in docs/paper.md.

A block of the document is between two comments, <!-- results: NAME PART --> and <!-- end -->, and is written by
`refresh`, never by hand. PART is "findings", "run", or the stem of a table; NAME alone may be "summary".
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from chiasma import atomic
from chiasma.errors import InvalidInput
from chiasma.io.tables import write_table
from chiasma.report import page
from paper.result import ExperimentResult, Figure, Finding, ResultTable, Verdict

# Experiments in the order of the paper; each is a module with run(folder, quick, seed).
EXPERIMENTS = ("schema", "errata", "toy", "simulation", "timings", "tumour")
RESULT = "result.json"
TEMPLATE = Path(__file__).parent / "templates" / "paper.html"

TONES: dict[Verdict, page.Tone] = {"agrees": "good", "differs": "bad", "beyond the paper": "note"}
SHOWN = re.compile(r"\]\(results/([\w-]+)\.png\)")
BLOCK = re.compile(r"(<!-- results: ([\w-]+)(?: ([\w.-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)


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
    return ", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in TONES if verdict in verdicts)


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
    overview = [
        [page.link(one.result.title, f"#{one.result.name}"), in_words(one.result), f"{one.result.seconds:.0f}"]
        for one in records
    ]
    known = " ".join(f"{name} {number}" for name, number in (records[0].versions if records else {}).items())
    text = page.render(
        TEMPLATE,
        title="The paper, reproduced",
        overview=overview,
        experiments=[_experiment(record) for record in records],
        footer=f"Made with {known}.",
    )
    atomic.write_text(path, text)


def _experiment(record: Record) -> dict[str, Any]:
    result = record.result
    quick = page.Verdict(
        tone="bad", answer="A quick run:", text="far below the size of the paper, so verdicts mean nothing."
    )
    return {
        "name": result.name,
        "title": result.title,
        "warnings": [quick] if record.quick else [],
        "findings": [[one.claim, one.ours, page.badge(one.verdict, TONES[one.verdict])] for one in result.findings],
        "figures": [
            {"paper_figure": one.paper_figure, "caption": one.caption, "png": result.folder / f"{one.stem}.png"}
            for one in result.figures
        ],
        "tables": [
            {
                "names": [page.words(name) for name in one.header],
                "rows": [[_cell(value) for value in row] for row in one.rows],
                "caption": one.caption,
                "rest": f"{one.stem}.tsv",
            }
            for one in result.tables
        ],
        "command": record.command,
        "settings": {page.words(key): _value(value) for key, value in result.settings.items()},
    }


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{page.words(str(k))}: {_value(v)}" for k, v in value.items())
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
        return f"No results are kept yet: `make paper EXPERIMENT={name}` makes them."
    record = records[name]
    if part == "findings":
        lines = [[finding.claim, finding.ours, f"**{finding.verdict}**"] for finding in record.result.findings]
        return _markdown(["the paper, or a question beyond it", "chiasma", "verdict"], lines)
    if part == "run":
        settings = "; ".join(f"{page.words(key)}: {_value(value)}" for key, value in record.result.settings.items())
        return f"`{record.command}`, {record.result.seconds:.0f} seconds. Settings: {settings}."
    for table in record.result.tables:
        if table.stem == part:
            return f"{table.caption}\n\n{_markdown(table.header, [[_cell(x) for x in row] for row in table.rows])}"
    known = ["findings", "run", *(table.stem for table in record.result.tables)]
    raise InvalidInput(f"{name} has no part {part!r}: it has {', '.join(known)}")


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
