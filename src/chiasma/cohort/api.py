"""ch.cohort(): many samples on a Dask client or on local workers; the parts that jobs without a scheduler use; and
gathering what all samples left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from chiasma.cohort.directory import (
    DAMAGED,
    DONE,
    FAILED,
    MISSING,
    CohortDirectory,
    Outcome,
    common_grid,
    write_cohort_store,
    write_cohort_table,
)
from chiasma.cohort.page import write_page
from chiasma.cohort.plan import WORKFLOWS, CohortPlan, Records, read_samples
from chiasma.cohort.workers import (
    CohortProgress,
    SchedulerLost,
    cores,
    distributed,
    local_client,
    run_on,
    run_task,
    task_of,
    unencrypted,
)
from chiasma.cohort.workflow import plain
from chiasma.errors import ChiasmaError, InvalidInput, StoreError
from chiasma.io.options import all_settings
from chiasma.io.settings import Settings, fresh_seed, settings_of
from chiasma.models.factorial import FactorialHMM
from chiasma.report.page import UNKNOWN, digest_of
from chiasma.storage.locks import only_writer
from chiasma.types import as_count, count


@dataclass(frozen=True)
class Cohort:
    """What became of every sample of a cohort; `ch.cohort` returns it.

    Parameters
    ----------
    path : the directory of the cohort.
    outcomes : of every sample, in the order of the sheet: name, status, seed, error, trust, findings, ...

    Examples
    --------
    >>> import chiasma as ch
    >>> found = ch.cohort("sheet.tsv", "results", model="genome.toml")  # doctest: +SKIP
    >>> found.in_words  # doctest: +SKIP
    '2 of 2 samples done'
    """

    path: Path
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """Outcomes of the samples that could not be fitted, or whose files are damaged; `error` says why."""
        return tuple(outcome for outcome in self.outcomes if outcome.status in (FAILED, DAMAGED))

    def count(self, status: str) -> int:
        """Number of samples with a status: "done", "failed", "missing" or "damaged"."""
        return sum(outcome.status == status for outcome in self.outcomes)

    @property
    def on_other_sites(self) -> tuple[str, ...]:
        """Names of samples with other sites or rows than most: they are NaN in cohort.zarr."""
        common = common_grid(self.outcomes)
        return tuple(outcome.name for outcome in self.outcomes if outcome.grid and outcome.grid != common)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Names of directories in samples/ that are no samples of the sheet, and so in no table."""
        return tuple(CohortDirectory(self.path).strangers(outcome.name for outcome in self.outcomes))

    @property
    def in_words(self) -> str:
        """How many samples are done, and what became of the others, in a line.

        >>> Cohort(Path("x"), (Outcome(name="a", status="done", seed=1),)).in_words
        '1 of 1 sample done'
        """
        n = len(self.outcomes)
        others = [f", {self.count(status):,} {status}" for status in (FAILED, DAMAGED, MISSING) if self.count(status)]
        return f"{self.count(DONE):,} of {count(n, 'sample')} done{''.join(others)}"

    def summaries(self) -> xr.Dataset:
        """The content of cohort.zarr, lazily, once every file of it has been compared with its digest.

        Returns
        -------
        Dataset with a dimension `sample`.

        Examples
        --------
        >>> import chiasma as ch
        >>> found = ch.cohort("sheet.tsv", "results", model="genome.toml")  # doctest: +SKIP
        >>> found.summaries()["probability"].sel(sample="tumour-7")  # doctest: +SKIP
        """
        directory = CohortDirectory(self.path)
        directory.check_merged(f"{directory.store.name}/")
        return xr.open_zarr(directory.store)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C: what was done is kept, and the cohort can be resumed."""


def cohort(
    sheet: str | Path | Records,
    out: str | Path,
    client: Any = None,
    *,
    model: str | Path | FactorialHMM | Settings | None = None,
    learn: Iterable[str] = (),
    tumour: bool = False,
    seed: int | None = None,
    workers: int | None = None,
    resume: bool = False,
    again: Iterable[str] = (),
    retries: int = 2,
    tables_only: bool = False,
    progress: bool = True,
    note: Callable[[str], None] | None = None,
    **settings: Any,
) -> Cohort:
    """Fit many samples, one task each, on a Dask client or on local worker processes.

    A sample that cannot be fitted is recorded, and the others go on: see `Cohort.failed`. Ctrl-C, or the
    loss of the scheduler, ends the call with an exception; resume=True then does the rest.

    A script that starts local workers needs `if __name__ == "__main__":`, as with every module that starts processes.

    Parameters
    ----------
    sheet : a TSV or CSV file with the columns `sample`, `path` and any settings, or such records in memory.
    out : the directory of the cohort. Each sample becomes a run directory in out/samples; out/cohort.tsv,
        out/cohort.zarr and out/index.html cover all of them.
    client : a dask.distributed Client; its workers must see the same files. A sample takes one of their threads.
        Default: a local cluster.
    model : a FactorialHMM, or a TOML file with settings as `chiasma fit --model` takes it.
    learn : parameters of the model to learn from each sample.
    tumour : solve each sample as `chiasma tumour` does; model and learn then have no meaning.
    seed : the seed of a sample is made of this one and of the sample's name, so results do not depend on workers, on
        their number, or on other samples. Default: a fresh one, or the seed of the resumed cohort.
    workers : processes of the local cluster. Default: one per core, and no more than samples.
    resume : do what is missing or has failed in an earlier cohort in `out`, where there is one; samples may be added.
        A sample whose files are damaged is named, and left as it is.
    again : names of samples of an earlier cohort that are done anew, whatever there is of them.
    retries : how often a sample is submitted again after Dask gave it up because its workers were lost.
    tables_only : leave out report.html and the figures of every sample, which take most of the time of a short run and
        most of the space; `chiasma show` writes them for a sample later. A cohort that is resumed goes on as it began.
    progress : show a bar on a terminal, or a line from time to time elsewhere.
    note : called with a line about what happens. Default: prints to stderr, with `progress`.
    settings : of all samples, by their keys in a TOML file: draws=500, sd=12.0; for tumours by the names of their
        options: clones="1", purity="0.3-0.9".

    Returns
    -------
    Cohort: what became of every sample.

    Examples
    --------
    >>> import chiasma as ch
    >>> cohort = ch.cohort("sheet.tsv", "results", model="genome.toml", workers=4)  # doctest: +SKIP
    >>> cohort.summaries()["probability"].sel(sample="tumour-7")  # doctest: +SKIP
    """
    if workers is not None:
        as_count("workers", workers)
    as_count("retries", retries, 0)
    if seed is not None:
        as_count("seed", seed, 0)
    told = note or (_to_stderr if progress else _nowhere)
    if client is None and not CohortDirectory(out).plan.exists():
        distributed()  # must be there before anything is written; a cohort that is resumed may have nothing left to run
    directory, plan = begin_cohort(
        sheet,
        out,
        tumour_settings(model, learn, **settings) if tumour else cohort_settings(model, learn, **settings),
        workflow="tumour" if tumour else "fit",
        seed=seed,
        resume=resume,
        again=again,
        tables_only=tables_only,
    )
    told(f"{count(len(plan.samples), 'sample')}, seed {plan.seed}")
    known = {outcome.name: outcome for outcome in collect(directory, plan)}
    for outcome in known.values():
        if outcome.status == DAMAGED:
            told(f"{outcome.name} is damaged: {outcome.error}")
    for text in changed_data(plan, known.values()):
        told(text)
    todo = [sample for sample in plan.samples if known[sample.name].status not in (DONE, DAMAGED)]
    if todo:
        n_workers = min(workers or cores(), len(todo))
        # A worker that was asked for has one thread; cores that would be idle otherwise are shared out.
        threads = max(1, cores() // n_workers) if client is None and workers is None else 1
        tasks = [task_of(directory, plan, sample, threads) for sample in todo]
        with (
            _resumable(directory, plan),
            local_client(n_workers) if client is None else nullcontext(client) as used,
            CohortProgress(len(tasks), told, progress) as display,
        ):
            if client is not None:  # local workers have none: it would be open to every user of the machine
                told(f"dashboard: {used.dashboard_link}")
                if text := unencrypted(used.scheduler.address):
                    told(f"warning: {text}")
            for outcome in run_on(used, tasks, retries, told, display.restart):
                known[outcome.name] = outcome
                if display.add(outcome):
                    write_cohort_table(directory.table, list(known.values()))
    told("writing cohort.tsv, cohort.zarr and index.html")
    return merge_cohort(directory, plan)


def begin_cohort(
    sheet: str | Path | Records,
    out: str | Path,
    settings: dict[str, Any],
    *,
    workflow: str = "fit",
    seed: int | None = None,
    resume: bool = False,
    again: Iterable[str] = (),
    n_tasks: int | None = None,
    tables_only: bool = False,
) -> tuple[CohortDirectory, CohortPlan]:
    """Write the plan of a new cohort, or continue an earlier one."""
    directory = CohortDirectory(out)
    stored = CohortPlan.read(directory.plan) if resume and directory.plan.exists() else None
    if stored is None:
        directory.check_new()
    if stored is not None and not any(settings.values()) and workflow in ("fit", stored.workflow):
        settings, workflow = dict(stored.settings), stored.workflow
    samples = read_samples(sheet, WORKFLOWS[workflow])
    if n_tasks is not None and not 1 <= n_tasks <= len(samples):
        raise InvalidInput(f"the number of tasks must be in 1..{len(samples)} (samples), got {n_tasks}")
    if seed is None:
        seed = fresh_seed() if stored is None else stored.seed
    plan = CohortPlan(
        seed=seed,
        settings=settings,
        samples=samples,
        n_tasks=n_tasks or len(samples),
        tables_only=tables_only,
        workflow=workflow,
    )
    if stored is not None:
        plan = plan.continued(stored)
    wanted = list(again)
    if wanted and stored is None:
        raise InvalidInput(f"again needs an existing cohort, and {directory.path} has none; drop it")
    plan = plan.with_again(wanted)
    _check_settings(plan)
    directory.create()
    plan.write(directory.plan)
    for name in wanted:
        directory.forget(name)
    return directory, plan


def run_cohort_task(out: str | Path, task: int, note: Callable[[str], None]) -> list[Outcome]:
    """The samples of one job of an array, one after the other, on all cores; those that are done are left alone."""
    directory = CohortDirectory(out)
    plan = CohortPlan.read(directory.plan)
    outcomes = []
    for sample in plan.of_task(task):
        outcome = run_task(task_of(directory, plan, sample, cores()))
        note(f"{sample.name}: {outcome.status}{f': {outcome.error}' if outcome.error else ''}")
        outcomes.append(outcome)
    return outcomes


def merge_cohort(directory: CohortDirectory, plan: CohortPlan | None = None) -> Cohort:
    """Write cohort.tsv, cohort.zarr and index.html."""
    return Cohort(directory.path, tuple(merge(directory, plan or CohortPlan.read(directory.plan))))


def changed_data(plan: CohortPlan, outcomes: Iterable[Outcome]) -> list[str]:
    """What to say of samples whose data files have changed since they were done. Files that were moved are left out."""
    paths = {sample.name: sample.path for sample in plan.samples}
    found = {one.name: digest_of(Path(paths[one.name])) for one in outcomes if one.status == DONE}
    return [
        f"{paths[one.name]} was changed after the sample {one.name} was done; restore it, or resume the cohort with "
        f"--again {one.name}"
        for one in outcomes
        if one.name in found and found[one.name] not in (one.data, UNKNOWN)
    ]


def save_table(directory: CohortDirectory, plan: CohortPlan) -> Cohort:
    """Write cohort.tsv alone, which is quick."""
    outcomes = collect(directory, plan)
    write_cohort_table(directory.table, outcomes)
    return Cohort(directory.path, tuple(outcomes))


@contextmanager
def _resumable(directory: CohortDirectory, plan: CohortPlan) -> Iterator[None]:
    """Save the table when a cohort is stopped, and say how far it came."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: {save_table(directory, plan).in_words}") from None
    except SchedulerLost as error:
        raise SchedulerLost(f"{error}: {save_table(directory, plan).in_words}") from error


def cohort_settings(
    model: str | Path | FactorialHMM | Settings | None = None, learn: Iterable[str] = (), **own: Any
) -> dict[str, Any]:
    """The settings of a cohort as plain JSON: sections, [[row]] tables, and what to learn."""
    if isinstance(model, FactorialHMM):
        settings = Settings(**settings_of(model))
    elif isinstance(model, Settings):
        settings = model
    else:
        settings = Settings() if model is None else Settings.read(Path(model))
    work, sections = WORKFLOWS["fit"], {one.key: one.section for one in all_settings()}
    given: dict[str, dict[str, Any]] = {}
    for key, value in own.items():
        work.check_key(key, "cohort")
        given.setdefault(sections[key], {})[key] = work.value(key, value)
    return plain(settings.merged(**given), learn)


def tumour_settings(model: object = None, learn: Iterable[str] = (), **own: Any) -> dict[str, Any]:
    """The settings of a cohort of tumours as plain JSON; those that are None are left out."""
    if model is not None or learn:
        raise InvalidInput("a cohort of tumours has its own model; drop model and learn, or tumour")
    work, given = WORKFLOWS["tumour"], {key: value for key, value in own.items() if value is not None}
    for key in given:
        work.check_key(key, "cohort")
    found = {key: work.value(key, value) for key, value in given.items()}
    return found | {key: str(Path(found[key]).absolute()) for key in work.files & found.keys()}


def _check_settings(plan: CohortPlan) -> None:
    """Raise InvalidInput if the settings of a sample are no model, before anything runs."""
    different = {repr(sorted(sample.settings.items())): sample for sample in reversed(plan.samples)}
    for sample in different.values():
        try:
            plan.work.check(plan.settings_of(sample))
        except InvalidInput as error:
            raise InvalidInput(f"sample {sample.name}: {error}") from error


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _nowhere(text: str) -> None:
    pass


# ---- Gathering ------------------------------------------------------------------------------------------------------


def collect(directory: CohortDirectory, plan: CohortPlan) -> list[Outcome]:
    """What is known of every sample, in the order of the sheet."""
    return [directory.outcome(sample.name, plan.seed_of(sample), plan.mark(sample)) for sample in plan.samples]


def merge(directory: CohortDirectory, plan: CohortPlan) -> list[Outcome]:
    """Write the files of the whole cohort from the run directories; may be done again at any time."""
    outcomes = collect(directory, plan)
    try:
        with only_writer(directory.merged):
            directory.remove_leftovers(outcomes)
            write_cohort_table(directory.table, outcomes)
            write_cohort_store(directory, outcomes)
            write_page(directory, outcomes, plan.work.picture_shows, plan.repeat)
            directory.seal_merged()
    except OSError as error:
        if isinstance(error, ChiasmaError):
            raise
        raise StoreError(
            f"cannot write to {error.filename or directory.path}: {error.strerror or error}; make room or give "
            f"permission there, then: chiasma cohort merge {directory.path}"
        ) from error
    return outcomes


# ---- Checking -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CohortCheck:
    """What `check_cohort` found.

    Parameters
    ----------
    cohort : what became of every sample.
    n_files, n_bytes : how much was read.
    problems : what is wrong, each with the file and the remedy; empty where every file is as it was written.
    """

    cohort: Cohort
    n_files: int
    n_bytes: int
    problems: tuple[str, ...]


def check_cohort(out: str | Path) -> CohortCheck:
    """Read every file of a cohort and compare it with its digest; nothing is changed."""
    directory = CohortDirectory(out)
    plan = CohortPlan.read(directory.plan)
    cohort = Cohort(directory.path, tuple(collect(directory, plan)))
    problems, n_files, n_bytes = [], 0, 0
    for outcome in cohort.outcomes:
        if outcome.status == DAMAGED:
            problems.append(outcome.error)
        found, n_read, size = directory.check_files(outcome)
        problems += found
        n_files, n_bytes = n_files + n_read, n_bytes + size
    problems += [
        f"{directory.samples / name} is not in the sheet; add its line and resume, or move it away"
        for name in cohort.strangers
    ]
    problems += changed_data(plan, cohort.outcomes)
    for outcome in cohort.outcomes:
        if outcome.status == FAILED:
            try:
                directory.failure(outcome.name, outcome.mark)
            except StoreError as error:
                problems.append(f"{outcome.name}: {error}")
    if os.path.lexists(directory.merged) or directory.table.exists():
        try:
            n_read, size = directory.check_merged()
            n_files, n_bytes = n_files + n_read, n_bytes + size
        except StoreError as error:
            problems.append(str(error))
    return CohortCheck(cohort=cohort, n_files=n_files, n_bytes=n_bytes, problems=tuple(problems))
