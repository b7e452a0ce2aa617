"""chiasma cohort: many samples on Dask, or as jobs of an array with init, run and merge; check reads them again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chiasma.cli.mistakes import printable, stop
from chiasma.cli.printing import Voice
from chiasma.cli.setting_options import (
    TABLES_ONLY,
    TABLES_ONLY_HELP,
    SettingsCommand,
    argument,
    borrowed_options,
    option,
    setting_options,
    with_options,
)
from chiasma.cli.signals import exit_code
from chiasma.cli.tumour import tumour
from chiasma.errors import InvalidInput
from chiasma.io.plugins import program

if TYPE_CHECKING:
    from chiasma.cohort.api import Cohort
    from chiasma.cohort.directory import Outcome

OUT = Path("chiasma-cohort")
SOME_FAILED = 1
TUMOURS = "Tumours"
# Options of `chiasma tumour` that make sense for many samples.
OF_TUMOURS = ("purity", "ploidy", "clones", "max_copies", "female", "gc", "mappability", "normal", "assembly", "region")
# Failures shown on the screen; cohort.tsv has them all.
SHOWN_FAILURES = 10
_BECAME = {"failed": "failed", "damaged": "is damaged"}


def cohort() -> None:
    """Fit many samples: chiasma cohort SHEET --out DIR.

    SHEET is a TSV or CSV file with one line per sample: sample, path, and any setting as a further column, which
    overrides the options. Every sample becomes a run directory in DIR/samples, as chiasma fit writes it, or with
    --tumour as chiasma tumour does. DIR/cohort.tsv lists all samples with their status, DIR/cohort.zarr holds their
    probabilities or copy numbers side by side, DIR/index.html shows them. The exit code is 1 if a sample failed.

    Without a scheduler, as jobs of an array: "init SHEET --out DIR" prints the number of tasks, "run DIR --task I" does
    one of them, from 0, and "merge DIR" gathers the results. "check DIR" compares every file with its digest.
    """
    # Only the name and the help of the command: CohortCommand adds the options, and `_cohort` does the work.


class CohortCommand(SettingsCommand):
    """`cohort` with its options. The seed and the workers of a cohort are its own."""

    def function(self) -> Callable[..., None]:
        cluster, output = "Cluster", "Output"
        parameters = [
            argument(
                "words",
                list[str],
                "SHEET; or init SHEET, run DIR, merge DIR, check DIR.",
                metavar="[init|run|merge|check] SHEET",
            ),
            option("workers", int | None, cluster, "Processes on this machine. Default: one per core.", min=1),
            option("scheduler", str | None, cluster, "Address of a Dask scheduler, such as tcp://10.0.0.1:8786."),
            option("scheduler_file", Path | None, cluster, "File that dask scheduler --scheduler-file wrote."),
            option("retries", int, cluster, "Times a sample is tried again after lost workers. Default: 2.", default=2),
            option("tasks", int | None, cluster, "init: number of tasks. Default: one per sample.", min=1),
            option("task", int | None, cluster, "run: which task, from 0.", min=0),
            option("seed", int | None, cluster, "Seed of all samples. Default: a fresh one, which is printed.", min=0),
            option("tumour", bool, TUMOURS, "Solve every sample as chiasma tumour does.", "--tumour", default=False),
            *borrowed_options(tumour, OF_TUMOURS, TUMOURS),
            *setting_options(without=("seed", "workers")),
            option("out", Path, output, f"Directory of the cohort. Default: {OUT}.", default=OUT),
            option("tables_only", bool, output, TABLES_ONLY_HELP, TABLES_ONLY, default=False),
            option("resume", bool, output, "Do what is missing or failed in --out.", "--resume", default=False),
            option(
                "again",
                list[str] | None,
                output,
                "With --resume: do this sample again, such as a damaged one; can be repeated.",
                metavar="SAMPLE",
            ),
            option("quiet", bool, output, "Print errors only.", "--quiet", "-q", default=False),
        ]
        return with_options(_cohort, parameters)


def _cohort(words: list[str], task: int | None, out: Path, quiet: bool, **options: Any) -> None:
    action, place = words if len(words) == 2 else ("", *words) if len(words) == 1 else ("?", "")
    if action not in ("", "init", "run", "merge", "check"):
        raise InvalidInput(f"expected SHEET, init SHEET, run DIR, merge DIR or check DIR, got {' '.join(words)!r}")
    if (action == "run") != (task is not None):
        raise InvalidInput("--task says which task to run, and only: chiasma cohort run DIR --task I")
    if action in ("run", "merge", "check") and options["again"]:
        raise InvalidInput("--again belongs to: chiasma cohort SHEET --resume, or init SHEET --resume")
    voice = Voice(quiet)
    if action == "run":
        assert task is not None
        _run_task(Path(place), task, voice)
    elif action == "merge":
        _merge(Path(place), voice)
    elif action == "check":
        _check(Path(place), voice)
    elif action == "init":
        _init(place, out, **options)
    else:
        _all(place, out, voice, **options)


def _all(
    sheet: str,
    out: Path,
    voice: Voice,
    *,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    tasks: int | None,
    retries: int,
    seed: int | None,
    resume: bool,
    again: list[str] | None,
    tables_only: bool,
    **options: Any,
) -> None:
    from chiasma.cohort.api import Interrupted, cohort
    from chiasma.cohort.workers import SchedulerLost, client_of

    if tasks is not None:
        raise InvalidInput("--tasks belongs to chiasma cohort init")
    if sum(one is not None for one in (workers, scheduler, scheduler_file)) > 1:
        raise InvalidInput("give one of --workers, --scheduler and --scheduler-file")
    remote = scheduler is not None or scheduler_file is not None
    how = f"continue with: {program()} cohort {shlex.quote(sheet)} --out {shlex.quote(str(out))} --resume"
    try:
        with client_of(scheduler, scheduler_file) if remote else nullcontext() as client:
            done = cohort(
                sheet,
                out,
                client,
                **_settings(**options),
                seed=seed,
                workers=workers,
                resume=resume,
                again=again or (),
                retries=retries,
                tables_only=tables_only,
                progress=voice.progress,
                note=voice.note,
            )
    except Interrupted as error:
        raise stop(f"{error}; {how}", exit_code()) from None
    except SchedulerLost as error:
        raise stop(f"error: {error}; {how}", SOME_FAILED) from None
    _report(done, voice)


def _init(
    sheet: str,
    out: Path,
    *,
    workers: int | None,
    scheduler: str | None,
    scheduler_file: Path | None,
    tasks: int | None,
    retries: int,
    seed: int | None,
    resume: bool,
    again: list[str] | None,
    tables_only: bool,
    **options: Any,
) -> None:
    from chiasma.cohort.api import begin_cohort, changed_data, cohort_settings, collect, tumour_settings

    if workers or scheduler or scheduler_file:
        raise InvalidInput("chiasma cohort init only prepares tasks; drop --workers, --scheduler and --scheduler-file")
    given = _settings(**options)
    is_tumour = given.pop("tumour")
    settings = tumour_settings(**given) if is_tumour else cohort_settings(**given)
    directory, plan = begin_cohort(
        sheet,
        out,
        settings,
        workflow="tumour" if is_tumour else "fit",
        seed=seed,
        resume=resume,
        again=again or (),
        n_tasks=tasks,
        tables_only=tables_only,
    )
    typer.echo(f"seed {plan.seed}", err=True)
    for text in changed_data(plan, collect(directory, plan)):
        typer.echo(printable(text), err=True)
    typer.echo(plan.n_tasks)


def _run_task(out: Path, task: int, voice: Voice) -> None:
    from chiasma.cohort.api import run_cohort_task

    _stop_if_failed(run_cohort_task(out, task, voice.note))


def _merge(out: Path, voice: Voice) -> None:
    from chiasma.cohort.api import merge_cohort
    from chiasma.cohort.directory import CohortDirectory

    _report(merge_cohort(CohortDirectory(out)), voice)


def _check(out: Path, voice: Voice) -> None:
    from chiasma.cohort.api import check_cohort

    found = check_cohort(out)
    for problem in found.problems:
        typer.echo(printable(problem), err=True)
    if found.problems:
        raise typer.Exit(SOME_FAILED)
    if not voice.quiet:
        typer.echo(
            f"{found.cohort.path} is sound: {found.n_files:,} files, {found.n_bytes:,} bytes; {found.cohort.in_words}"
        )


def _settings(tumour: bool, model: Path | None, learn: str | None, **options: Any) -> dict[str, Any]:
    """Arguments of `ch.cohort` from the options of settings."""
    from chiasma.io.options import as_sections, parse_names
    from chiasma.io.settings import Settings

    of_tumours = {key: options.pop(key) for key in OF_TUMOURS}
    of_fits = {"model": model, "learn": learn, **options}
    strangers = [key for key, value in (of_fits if tumour else of_tumours).items() if value not in (None, [])]
    if strangers:
        flags = ", ".join(f"--{key.replace('_', '-')}" for key in strangers)
        which = "chiasma fit; drop it, or --tumour" if tumour else "chiasma tumour; add --tumour"
        raise InvalidInput(f"{flags} belongs to {which}")
    if tumour:
        return {"tumour": True, **{key: value for key, value in of_tumours.items() if value not in (None, [])}}
    settings = Settings() if model is None else Settings.read(model)
    return {"tumour": False, "model": settings.merged(**as_sections(options)), "learn": parse_names(learn)}


def _report(done: Cohort, voice: Voice) -> None:
    """Print what became of the samples."""
    from chiasma.io.sheets import listed

    for outcome in done.failed[:SHOWN_FAILURES]:
        typer.echo(printable(f"{outcome.name} {_BECAME[outcome.status]}: {outcome.error}"), err=True)
    for name in done.strangers:
        typer.echo(printable(f"samples/{name} is not in the sheet and was left out"), err=True)
    more = len(done.failed) - SHOWN_FAILURES
    if more > 0:
        typer.echo(f"and {more:,} more failures in cohort.tsv", err=True)
    if not voice.quiet:
        typer.echo(f"{done.in_words}. Wrote cohort.tsv, cohort.zarr and index.html to {done.path}")
        if others := done.on_other_sites:
            typer.echo(
                f"Other sites or rows than those kept in cohort.zarr, where they are NaN: {listed(others)}; their "
                f"draws are in samples/{others[0]}/run.zarr" + (" and so on" if len(others) > 1 else "")
            )
    _stop_if_failed(done.outcomes)


def _stop_if_failed(outcomes: Sequence[Outcome]) -> None:
    if any(outcome.status != "done" for outcome in outcomes):
        raise typer.Exit(SOME_FAILED)
