"""Whether two cohorts hold the same bytes. Only how long things took may differ."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

# Entries of JSON files, and columns of tables, that tell how long something took, or are a digest of such entries.
TIMES = ("seconds", "timings", "digest", "files")
# It shows what is in cohort.tsv, the times among it; and the digests of both.
WITH_TIMES = {"index.html", "merged.json"}


def differences(one: Path, other: Path) -> list[str]:
    """Files that are in one directory only, or differ."""
    files = [{str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} for folder in (one, other)]
    alone = sorted(files[0] ^ files[1])
    both = sorted((files[0] & files[1]) - WITH_TIMES)
    return alone + [name for name in both if content(one / name) != content(other / name)]


def content(path: Path) -> Any:
    """The bytes of a file, or what it says apart from times."""
    if path.suffix == ".json":
        return _without_times(json.loads(path.read_text()))
    if path.name == "report.html":
        return re.sub("<dt>time</dt><dd>[^<]*</dd>", "", path.read_text())
    if path.name == "cohort.tsv":
        with path.open(newline="") as file:
            return [_without_times(row) for row in csv.DictReader(file, delimiter="\t")]
    return path.read_bytes()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    # NaN is not equal to itself.
    return repr(value)
