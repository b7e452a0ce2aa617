"""The sheet of a cohort, and its plan: workflow, seed, settings and samples, fixed in cohort.json before anything runs.

A sheet is a TSV or CSV file with one line per sample:

    sample   its name, which is also the name of its run directory
    path     its data file; a relative path starts at the folder of the sheet
    sample_in_file   which of several samples in that file it is
    ...      any setting of the workflow, such as sd or draws, where it differs from the settings of the cohort

An empty cell leaves the setting of the cohort as it is. Errors name the line of the sheet.

Every worker, job and later command reads what to do from the plan or is handed a part of it, so a cohort that was
stopped goes on with the same settings. The seed of a sample depends on the seed of the cohort and on the sample's name,
and on nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import chiasma
from chiasma.cohort.workflow import FitWorkflow, TumourWorkflow, Workflow
from chiasma.errors import InvalidInput, StoreError
from chiasma.io.sheets import MISSING, listed, read_sheet
from chiasma.results.provenance import differences
from chiasma.storage.digests import fingerprint, read_sealed, reason, write_sealed
from chiasma.types import shown

# ---- The sheet ------------------------------------------------------------------------------------------------------

Records = Iterable[Mapping[str, Any]]

REQUIRED = ("sample", "path")
# The setting `sample` of a workflow has another name here, for `sample` is the name in the cohort.
IN_FILE = "sample_in_file"
# Names become directories, on every file system, and parts of links.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,150}")


class Sample(NamedTuple):
    """A line of the sheet.

    path : absolute, for workers run elsewhere.
    settings : what differs from the settings of the cohort, by key; values as a TOML file would hold them.
    again : how often it was requested anew, so that earlier results are not mistaken for the present ones.
    """

    name: str
    path: str
    settings: dict[str, Any]
    again: int = 0


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
        try:
            lines = [(f"record {i} of the sheet", dict(record)) for i, record in enumerate(sheet)]
        except (TypeError, ValueError):
            raise InvalidInput(f"a sheet is a file or a list of records, got {shown(sheet)}") from None
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
            f"{where}: a sheet needs the columns 'sample' and 'path', and it has no {' and no '.join(absent)}; "
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
    return str(folder / os.path.expanduser(path))


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


WORKFLOWS: dict[str, Workflow] = {"fit": FitWorkflow(), "tumour": TumourWorkflow()}


# Seeds up to 2^53 are exact in JSON, TOML and spreadsheets.
BITS = 53


def sample_seed(seed: int, name: str) -> int:
    """
    >>> sample_seed(1, "tumour-7") == sample_seed(1, "tumour-7") != sample_seed(1, "tumour-8")
    True
    """
    digest = hashlib.sha256(f"chiasma cohort {seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - BITS)


# ---- The plan -------------------------------------------------------------------------------------------------------

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class CohortPlan:
    """settings: of the cohort, plain JSON; n_tasks: jobs of an array, which share the samples.

    tables_only: run directories have no report.html and no figures.
    """

    seed: int
    settings: Mapping[str, Any]
    samples: Sequence[Sample]
    n_tasks: int
    tables_only: bool = False
    workflow: str = "fit"

    @property
    def work(self) -> Workflow:
        return WORKFLOWS[self.workflow]

    @property
    def repeat(self) -> dict[str, Any]:
        """What the page says of how to repeat the analysis."""
        options = " --tumour" if self.workflow == "tumour" else ""
        return {
            "command": f"chiasma cohort SHEET{options} --seed {self.seed} --out ANOTHER",
            "seed": self.seed,
            "settings": json.dumps(self.settings, indent=2),
        }

    def seed_of(self, sample: Sample) -> int:
        """The seed of its line in the sheet, or one made of its name."""
        own: int = sample.settings.get("seed", sample_seed(self.seed, sample.name))
        return own

    def settings_of(self, sample: Sample) -> dict[str, Any]:
        return self.work.combined(self.settings, sample.settings, self.seed_of(sample))

    def mark(self, sample: Sample) -> str:
        """A digest of all that the results of a sample depend on, but for the content of its data file."""
        told = [self.workflow, self.settings, sample._asdict(), self.seed_of(sample)]
        return f"{fingerprint(json.dumps(told, sort_keys=True).encode()):016x}"

    def of_task(self, task: int) -> list[Sample]:
        """The samples of one job: every n_tasks-th, so that long and short parts of a sheet are shared out."""
        if not 0 <= task < self.n_tasks:
            raise InvalidInput(f"the task must be in 0..{self.n_tasks - 1}, got {task}; tasks count from 0")
        return list(self.samples[task :: self.n_tasks])

    def write(self, path: Path) -> None:
        content = {
            "format": FORMAT,
            "chiasma": chiasma.__version__,
            "workflow": self.workflow,
            "seed": self.seed,
            "n_tasks": self.n_tasks,
            "tables_only": self.tables_only,
            "settings": self.settings,
            "samples": [sample._asdict() for sample in self.samples],
        }
        write_sealed(path, content)

    @classmethod
    def read(cls, path: Path) -> CohortPlan:
        try:
            content = read_sealed(path)
            if content.pop("format") != FORMAT:
                raise ValueError(f"it was written by chiasma {content['chiasma']}, in another format")
            del content["chiasma"]
            return cls(**content | {"samples": [Sample(**sample) for sample in content["samples"]]})
        except FileNotFoundError:
            raise InvalidInput(
                f"there is no cohort in {path.parent}; begin one with: chiasma cohort SHEET --out DIR"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path} cannot be read ({reason(error)}); restore it from a backup, or begin the cohort again in "
                "another directory"
            ) from error

    def with_again(self, names: Iterable[str]) -> CohortPlan:
        """The plan in which these samples are to be done again."""
        wanted, known = list(names), [sample.name for sample in self.samples]
        for name in wanted:
            if name not in known:
                raise InvalidInput(f"--again takes samples of the cohort, got {name!r}; the sheet has {listed(known)}")
        return replace(
            self, samples=[one._replace(again=one.again + 1) if one.name in wanted else one for one in self.samples]
        )

    def continued(self, stored: CohortPlan) -> CohortPlan:
        """This plan as the continuation of a stored one; raises InvalidInput if it would change a sample.

        Samples may be added, and samples that are no longer in the sheet are left out.
        """
        known = {sample.name: sample for sample in stored.samples}
        found = differences(
            {"workflow": stored.workflow, "settings": stored.settings},
            {"workflow": self.workflow, "settings": self.settings},
        )
        if self.seed != stored.seed:
            found.append(f"seed is {stored.seed} in the store, got {self.seed}")
        samples = [one._replace(again=known[one.name].again) if one.name in known else one for one in self.samples]
        for sample in samples:
            if sample.name in known and found == []:
                was, now = known[sample.name]._asdict(), sample._asdict()
                found += differences(was, now, f"sample {sample.name}: ")
        if found:
            raise InvalidInput(
                f"the cohort was begun in another way: {'; '.join(found[:5])}; resume it as it was, or choose another "
                "directory"
            )
        return replace(self, samples=samples, tables_only=stored.tables_only)
