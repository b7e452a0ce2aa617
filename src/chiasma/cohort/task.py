"""One sample, from its line in the plan to its place in the cohort: what a worker or a job runs.

A failure is an outcome like another one. Only an interrupt, or the end of the process, leaves the sample unfinished.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import dask

from chiasma.cohort.directory import CohortDirectory
from chiasma.cohort.outcome import DONE, FAILED, Outcome
from chiasma.cohort.pictures import write_picture
from chiasma.cohort.plan import Plan
from chiasma.cohort.sheet import Sample
from chiasma.cohort.summaries import grid_of, save_summaries
from chiasma.cohort.workflow import Result
from chiasma.cohort.workflows import WORKFLOWS
from chiasma.errors import ChiasmaError
from chiasma.io.plugins import load_plugins, loaded_plugins


class Task(NamedTuple):
    """Everything a worker needs to know of a sample; small, since a scheduler holds thousands of them.

    tables_only : leave out report.html and figures.
    threads : of the sampler, where the settings name no number.
    plugins : files that register the emissions of the cohort.
    """

    cohort: str
    workflow: str
    name: str
    path: str
    settings: Mapping[str, Any]
    seed: int
    tables_only: bool
    threads: int
    plugins: tuple[str, ...] = ()


def task_of(directory: CohortDirectory, plan: Plan, sample: Sample, threads: int = 1) -> Task:
    return Task(
        cohort=str(directory.path),
        workflow=plan.workflow,
        name=sample.name,
        path=sample.path,
        settings=plan.settings_of(sample),
        seed=plan.seed_of(sample),
        tables_only=plan.tables_only,
        threads=threads,
        plugins=loaded_plugins(),
    )


def run_task(task: Task) -> Outcome:
    """Run the sample, unless it is done."""
    directory = CohortDirectory(task.cohort)
    if directory.is_done(task.name):
        return directory.outcome(task.name, task.seed)
    began = perf_counter()
    with directory.attempt(task.name) as own:
        try:
            load_plugins(task.plugins)
            result = _run_or_start_again(task, directory, own)
            seconds = perf_counter() - began
            save_summaries(result.summaries, own / "summaries.npz")
            write_picture(result.picture, own / "picture.png")
            outcome = Outcome(
                name=task.name,
                status=DONE,
                seed=task.seed,
                seconds=seconds,
                evidence=result.evidence,
                warnings=tuple(result.warnings),
                key_results=result.key_results,
                parameters=result.parameters,
                bands=tuple(result.bands),
                span=result.span,
                grid=grid_of(result.summaries),
            )
            return directory.complete(own, outcome)
        except Exception as error:
            directory.discard(own)
            known = isinstance(error, ChiasmaError)
            return directory.fail(
                Outcome(
                    name=task.name,
                    status=FAILED,
                    seed=task.seed,
                    seconds=perf_counter() - began,
                    error=str(error) if known else f"{type(error).__name__}: {error}",
                    traceback="" if known else traceback.format_exc(),
                )
            )


def _run_or_start_again(task: Task, directory: CohortDirectory, own: Path) -> Result:
    left = any(own.iterdir())
    try:
        return _run(task, own)
    except ChiasmaError:
        if not left:
            raise
        # What an earlier attempt left is of other data, or damaged.
        directory.empty(own)
        return _run(task, own)


def _run(task: Task, own: Path) -> Result:
    with computing_alone():
        return WORKFLOWS[task.workflow].run(
            Path(task.path), task.settings, own, workers=task.threads, tables_only=task.tables_only
        )


def compile_kernels(task: Task) -> None:
    """Compile once, before many processes begin: each would compile for itself, and their code might round otherwise.

    A sample that cannot be read is no reason to stop: it will be an outcome.
    """
    with suppress(ChiasmaError):
        load_plugins(task.plugins)
        WORKFLOWS[task.workflow].compile(Path(task.path), task.settings)


_computing = 0
_before: dict[str, Any] = {}
_lock = Lock()


@contextmanager
def computing_alone() -> Iterator[None]:
    """Dask arrays, such as the draws of a stored run, are computed by the thread that needs them.

    A worker of Dask would hand them to its own scheduler and wait for an answer while it holds the only thread that
    could give one; other processes would start more threads than there are cores. The setting belongs to the whole
    process: the first sample makes it, and the last one that runs takes it back.
    """
    global _computing
    with _lock:
        if _computing == 0:
            _before["scheduler"] = dask.config.get("scheduler", None)
            dask.config.set(scheduler="synchronous")
        _computing += 1
    try:
        yield
    finally:
        with _lock:
            _computing -= 1
            if _computing == 0:
                dask.config.set(scheduler=_before["scheduler"])
