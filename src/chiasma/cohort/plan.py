"""The plan of a cohort: workflow, seed, settings and samples, fixed in cohort.json before anything runs.

Every worker, job and later command reads what to do from the plan or is handed a part of it, so a cohort that was
stopped goes on with the same settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import chiasma
from chiasma import atomic
from chiasma.cohort.seeds import sample_seed
from chiasma.cohort.sheet import Sample
from chiasma.cohort.workflow import Workflow
from chiasma.cohort.workflows import WORKFLOWS
from chiasma.errors import InvalidInput, StoreError
from chiasma.results.provenance import differences

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """settings: those of the cohort, plain JSON; n_tasks: jobs of an array, which share the samples.

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

    def seed_of(self, sample: Sample) -> int:
        """The seed of its line in the sheet, or one made of its name."""
        own: int = sample.settings.get("seed", sample_seed(self.seed, sample.name))
        return own

    def settings_of(self, sample: Sample) -> dict[str, Any]:
        return self.work.combined(self.settings, sample.settings, self.seed_of(sample))

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
        atomic.write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Plan:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise StoreError(
                    f"{path} was written in format {content['format']}, this version reads format {FORMAT}; "
                    "use the version of chiasma that wrote it"
                )
            return cls(
                seed=content["seed"],
                settings=content["settings"],
                samples=[Sample(**sample) for sample in content["samples"]],
                n_tasks=content["n_tasks"],
                tables_only=content["tables_only"],
                workflow=content["workflow"],
            )
        except FileNotFoundError:
            raise InvalidInput(
                f"there is no cohort in {path.parent}; begin one with: chiasma cohort SHEET --out DIR"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path} cannot be read ({error}); begin the cohort again in another directory") from error

    def continued(self, stored: Plan) -> Plan:
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
        for sample in self.samples:
            if sample.name in known and found == []:
                was, now = known[sample.name]._asdict(), sample._asdict()
                found += differences(was, now, f"sample {sample.name}: ")
        if found:
            raise InvalidInput(
                f"the cohort was begun in another way: {'; '.join(found[:5])}; resume it as it was, or choose another "
                "directory"
            )
        return replace(self, tables_only=stored.tables_only)
