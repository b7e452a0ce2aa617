"""Runs and commands killed with SIGKILL at random instants, with draws on disk: what is left, and does it go on?

Every victim is a fork of this process, so that kernels are compiled and a kill costs little more than the run. A run
commits after every piece, so that much of its time goes into writing, and notes each commit in a file beside its store.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from compare_cohorts import differences
from faults import Tally, end, fork, is_prefix
from tampering import carried_out, fits, tumours

import chiasma as ch
from chiasma.cohort.api import check_cohort
from chiasma.errors import ChiasmaError
from chiasma.io.tables import write_table
from chiasma.storage import store
from chiasma.storage.reading import read_header

if TYPE_CHECKING:
    from run import Report

KILLS = 40  # of every kind of run
COMMAND_KILLS = 8  # of every kind of command
N_SITES = 80
COMMON: dict[str, Any] = {"chains": 2, "workers": 2, "seed": 1, "warmup": 10, "progress": False}
SWITCHES = ch.Switches(0.02, 0.03)
LEARNED = ch.Gaussian([1.0, 0.6], sd=ch.HalfNormal(1.0))
KNOWN = ch.Gaussian([1.0, 0.6, 0.4], sd=0.6)
STATES = [ch.Row([0, 1, 2.5], ch.Sticky(renew=0.05)), ch.Row([0, 1.7], ch.Switch(0.02, 0.03))]

# Model, and arguments of `sample`; exact draws and ladders are killed in faults.py.
KINDS: dict[str, tuple[ch.FactorialHMM, dict[str, Any]]] = {
    "learned parameters": (
        ch.FactorialHMM(rows=SWITCHES, emission=LEARNED),
        {"update": ch.Collapsed(starts=1), "draws": 40},
    ),
    "rows of several states": (
        ch.FactorialHMM(rows=STATES, emission=ch.Gaussian(sd=0.6)),
        {"update": "row", "draws": 20},
    ),
    "an offset": (
        ch.FactorialHMM(rows=SWITCHES, emission=ch.Gaussian([1.0, 0.6], sd=0.6), offset=ch.Smooth(knots=5)),
        {"update": ch.Collapsed(starts=1), "draws": 40},
    ),
    "jumps": (
        ch.FactorialHMM(rows=SWITCHES, emission=KNOWN),
        {"update": ch.Jumps(size=1), "draws": 60},
    ),
}


def sample(kind: str, path: Path | None, **more: Any) -> ch.Posterior:
    model, own = KINDS[kind]
    y = np.random.default_rng(3).normal(np.repeat([0.2, 1.1, 1.6, 0.7], N_SITES // 4), 0.5)
    return ch.sample(model, y, store=path, **COMMON | own | more)


def noting(path: Path) -> None:
    """The run that gets killed: it notes every commit."""
    store.FLUSH_SECONDS = -1.0
    commit = store.ZarrTrace._commit
    log = os.open(f"{path}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def noted(trace: store.ZarrTrace) -> None:
        commit(trace)
        if trace.path == path:
            os.write(log, f"{json.dumps(trace.header['committed'])}\n".encode())

    store.ZarrTrace._commit = noted  # type: ignore[method-assign]


def commits(path: Path) -> list[list[int]]:
    log = Path(f"{path}.log")
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def has_draws(path: Path) -> bool:
    return any(min(noted) > 0 for noted in commits(path))


def killed_run(kind: str, path: Path, after: float | None) -> float:
    """Run until this many seconds after the first draws of all chains were committed, or to the end."""

    def work() -> None:
        noting(path)
        sample(kind, path)

    child = fork(work)
    while not has_draws(path) and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    began = time.perf_counter()
    if after is not None:
        time.sleep(after)
        end(child)
    else:
        with suppress(ChildProcessError):  # it ended at once
            os.waitpid(child, 0)
    return time.perf_counter() - began


def run_kills(kind: str, folder: Path, rng: np.random.Generator) -> Tally:
    tally, whole = Tally(f"SIGKILL of a run with {kind}"), sample(kind, None)
    lasted = killed_run(kind, folder / "whole", None)
    for n in range(KILLS):
        path = folder / str(n)
        killed_run(kind, path, float(rng.random()) * lasted)
        tally.tried += 1
        try:
            noted, found = commits(path)[-1], read_header(path)["committed"]
            tally.lost += sum(max(0, was - now) for was, now in zip(noted, found, strict=True))
            tally.silent += not is_prefix(ch.open_posterior(path), whole)
            resumed = sample(kind, path, resume=True)
            same = is_prefix(resumed, whole) and resumed.draws.shape == whole.draws.shape
            same = same and np.array_equal(resumed.marginals(), whole.marginals())
            tally.whole += same
            tally.silent += not same
            tally.refused += bool(ch.check_store(path).problems)
        except ChiasmaError:
            tally.refused += 1
        except Exception:
            tally.tracebacks += 1
        shutil.rmtree(path)
    return tally


def cohort_kills(make: Callable[[Path, Path], None], folder: Path, rng: np.random.Generator) -> Tally:
    """The jobs of a cohort and its merging, killed, and done again."""
    tally = Tally(f"SIGKILL of a cohort of {make.__name__}")
    whole = folder / "whole"
    make(folder, whole)
    carried_out(whole)
    lasted = time.perf_counter()
    make(folder, folder / "again")
    carried_out(folder / "again")
    lasted = time.perf_counter() - lasted
    for n in range(COMMAND_KILLS):
        out = folder / str(n)
        make(folder, out)
        child = fork(lambda out=out: carried_out(out))  # type: ignore[misc]
        time.sleep(float(rng.random()) * lasted)
        end(child)
        tally.tried += 1
        try:
            carried_out(out)
            different = [name for name in differences(whole, out) if name != "cohort.json"]
            left = [*different, *check_cohort(out).problems, *(str(path) for path in out.rglob("*.partial"))]
            tally.silent += bool(different)
            tally.whole += not left
            if left:
                print(f"kill {n} of {make.__name__} left {left}", flush=True)
        except ChiasmaError:
            tally.refused += 1
        except Exception:
            tally.tracebacks += 1
        shutil.rmtree(out)
    return tally


def command_kills(words: list[str], folder: Path, rng: np.random.Generator) -> Tally:
    """A command that writes a directory, killed anywhere: the directory is refused, or the command does it again."""
    from typer.testing import CliRunner

    from chiasma.cli import app

    def command(out: Path, *more: str) -> Any:
        return CliRunner().invoke(app, [*words, "--out", str(out), "-q", *more])

    tally = Tally(f"SIGKILL of chiasma {words[0]}")
    command(folder / "first")
    lasted = time.perf_counter()
    assert command(folder / "whole").exit_code == 0
    lasted = time.perf_counter() - lasted
    for n in range(COMMAND_KILLS):
        out = folder / str(n)
        child = fork(lambda out=out: command(out))  # type: ignore[misc]
        time.sleep(float(rng.random()) * lasted)
        end(child)
        tally.tried += 1
        result = command(out, *(["--resume"] if words[0] == "fit" and (out / "settings.toml").exists() else []))
        if result.exit_code == 2:  # it does not overwrite: the files of a killed command are removed by hand
            tally.refused += 1
            shutil.rmtree(out)
            result = command(out)
        same = result.exit_code == 0 and not differences(folder / "whole", out)
        tally.whole += same
        tally.silent += result.exit_code == 0 and not same
        tally.tracebacks += result.exit_code not in (0, 2)
        shutil.rmtree(out)
    return tally


def run(report: Report) -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(20)
    tallies = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def tried(made: Callable[[Path], Tally]) -> None:
            place = folder / str(len(tallies))
            place.mkdir()
            tallies.append(made(place))
            shutil.rmtree(place)
            print(" ".join(tallies[-1].row()), flush=True)

        for kind in KINDS:
            tried(lambda place, kind=kind: run_kills(kind, place, rng))  # type: ignore[misc]
        for make in (fits, tumours):
            tried(lambda place, make=make: cohort_kills(make, place, rng))  # type: ignore[misc]
        tumours(folder, folder / "unused")
        tumour = ["tumour", str(folder / "a.tsv"), "--tables-only", "--clones", "1", "--ploidy", "1.6-2.4"]
        tried(lambda place: command_kills(tumour, place, rng))
        channel = ch.Row([0, 1.0], ch.Switch(0.02, 0.04), copies=2)
        _, current = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.25)).simulate(600, seed=1)
        write_table(folder / "recording.csv", ["time", "current"], zip(np.arange(600) / 1000, current, strict=True))
        channels = ["channels", str(folder / "recording.csv"), "--channels", "1", "--knots", "1"]
        tried(lambda place: command_kills([*channels, "--tables-only"], place, rng))
    report.text(
        f"Runs of T = {N_SITES} columns, two chains on two workers, which commit after every piece; cohorts of three "
        "small samples, with their merging. Each is killed after a uniformly random fraction of its time: runs "
        "once all chains have draws on disk. Then the store is opened and compared with an uninterrupted run, resumed, "
        "and compared again; draws, log densities and marginals must be equal bit for bit, files of a cohort or a "
        "command byte by byte but for times. *Refused* counts commands that do not overwrite what a killed one left, "
        "and say so; they were repeated in an empty directory."
    )
    report.table(
        ["killed", "tried", "went on", "refused", "lost", "silent", "tracebacks", "hangs"],
        [one.row() for one in tallies],
    )
    report.goal("no committed draw is lost", not any(one.lost for one in tallies))
    report.goal("no answer is wrong without notice", not any(one.silent for one in tallies))
    report.goal("no traceback", not any(one.tracebacks for one in tallies))
    report.goal("everything goes on", all(one.whole == one.tried for one in tallies))


if __name__ == "__main__":
    sys.exit("run it as: python verification/run.py kills")
