"""The sheet of a cohort: a TSV or CSV file with one line per sample.

    sample   its name, which is also the name of its run directory
    path     its data file; a relative path starts at the folder of the sheet
    sample_in_file   which of several samples in that file it is
    ...      any setting of the workflow, such as sd or draws, where it differs from the settings of the cohort

An empty cell leaves the setting of the cohort as it is. Errors name the line of the sheet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chiasma.cohort.workflow import Workflow
from chiasma.errors import InvalidInput
from chiasma.io.sheets import MISSING, read_sheet

Records = Iterable[Mapping[str, Any]]

REQUIRED = ("sample", "path")
# The setting `sample` of a workflow has another name here, for `sample` is the name in the cohort.
IN_FILE = "sample_in_file"
# Names are those of directories, on every file system, and parts of links.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,150}")


class Sample(NamedTuple):
    """A line of the sheet.

    path : absolute, for workers run elsewhere.
    settings : what differs from the settings of the cohort, by key; values as a TOML file would hold them.
    """

    name: str
    path: str
    settings: dict[str, Any]


def read_samples(sheet: str | Path | Records, workflow: Workflow) -> list[Sample]:
    """The samples of a TSV or CSV file, or of records in memory, in their order."""
    if isinstance(sheet, str | Path):
        table = read_sheet(Path(sheet))
        lines = [
            (f"{table.path}, line {line}", dict(zip(table.names, cells, strict=True)))
            for line, *cells in zip(table.lines, *map(table.texts, range(len(table.names))), strict=True)
        ]
        _check_columns(table.names, str(table.path), workflow)
        folder = table.path.resolve().parent
    else:
        lines = [(f"record {i} of the sheet", dict(record)) for i, record in enumerate(sheet)]
        if not lines:
            raise InvalidInput("the sheet has no records; give one mapping per sample, with 'sample' and 'path'")
        for where, record in lines:
            _check_columns(list(record), where, workflow)
        folder = Path.cwd()
    samples = [_sample(record, where, folder, workflow) for where, record in lines]
    _check_names([(where, one.name) for (where, _), one in zip(lines, samples, strict=True)])
    return samples


def _check_columns(names: list[str], where: str, workflow: Workflow) -> None:
    absent = [repr(name) for name in REQUIRED if name not in names]
    if absent:
        raise InvalidInput(
            f"{where}: a sheet needs the columns 'sample' and 'path', and {' and '.join(absent)} is missing; "
            "add a header with these names"
        )
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{where}: the column {name!r} is there {names.count(name)} times; keep one")
        if name not in (*REQUIRED, IN_FILE):
            workflow.check_key(name, where)


def _sample(record: Mapping[str, Any], where: str, folder: Path, workflow: Workflow) -> Sample:
    given = {key: value for key, value in record.items() if not _is_empty(value)}
    for name in REQUIRED:
        if name not in given:
            raise InvalidInput(f"{where}: the column {name!r} is empty; fill it in or drop the line")
    try:
        named = {"sample" if key == IN_FILE else key: value for key, value in given.items() if key not in REQUIRED}
        settings = {key: workflow.value(key, value) for key, value in named.items()}
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    for key in workflow.files & settings.keys():
        settings[key] = _absolute(folder, settings[key])
    return Sample(str(given["sample"]), _absolute(folder, given["path"]), settings)


def _absolute(folder: Path, path: str) -> str:
    return str(folder / Path(path).expanduser())


def _is_empty(value: Any) -> bool:
    # NaN is how pandas marks an empty cell.
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING) or value != value


def _check_names(names: list[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for where, name in names:
        if not NAME.fullmatch(name):
            raise InvalidInput(
                f"{where}: the sample {name!r} cannot name a directory; use letters, digits and . _ + = -, "
                "and begin with a letter or a digit"
            )
        # Some file systems do not tell upper from lower case.
        if name.lower() in seen:
            raise InvalidInput(
                f"{where}: the sample {name!r} is there twice, first in {seen[name.lower()]}; rename one"
            )
        seen[name.lower()] = where
