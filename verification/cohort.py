"""A cohort of 200 simulated genomes whose workers and scheduler are killed: is it, once resumed, that of a serial run?

The cohort runs as `chiasma cohort --workers 2`, a separate process that holds the scheduler; its workers are its
children. A worker is killed twice, then the process itself. One data file is cut off in the middle.
"""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from compare_cohorts import differences

from chiasma.cohort.api import begin_cohort, cohort_settings, merge_cohort, run_cohort_task
from chiasma.datasets.genome import tumour_genome
from chiasma.io.settings import Settings, settings_of
from chiasma.io.tables import write_table

if TYPE_CHECKING:
    from run import Report

N_SAMPLES = 200
CORRUPT = "genome-137"
SETTINGS = {"draws": 250, "chains": 4}
SEED = 19
# Samples that are done at each kill: a worker, another worker, the scheduler.
WORKER_KILLS, SCHEDULER_KILL = (30, 70), 110


def make_samples(folder: Path) -> tuple[Path, Path]:
    """The sheet and the settings of all samples; the data file of one sample is cut off within a line."""
    lines = []
    for i in range(N_SAMPLES):
        genome = tumour_genome(seed=i)
        data = folder / f"genome-{i}.tsv"
        labels = genome.signal.chromosome or ()
        position = genome.signal.position
        assert position is not None
        write_table(data, ["chromosome", "position", "value"], zip(labels, position, genome.signal.data.y, strict=True))
        lines.append([data.stem, data.name])
    corrupt = folder / f"{CORRUPT}.tsv"
    corrupt.write_bytes(corrupt.read_bytes()[:100_000].rpartition(b"\t")[0])
    sheet, model = folder / "sheet.tsv", folder / "model.toml"
    write_table(sheet, ["sample", "path"], lines)
    columns = {"chromosome": "chromosome", "position": "position", "value": "value"}
    given = settings_of(genome.model) | {"data": columns, "sampler": SETTINGS}
    Settings(**given).write(model, "Settings of the verification of cohorts.")
    return sheet, model


def start(sheet: Path, model: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = ["cohort", str(sheet), "--out", str(out), "--workers", "2", "--seed", str(SEED), "--tables-only", *more]
    command += [] if "--resume" in more else ["--model", str(model)]
    program = "from chiasma.cli import main; main()"
    return subprocess.Popen([sys.executable, "-c", program, *command], stderr=subprocess.PIPE, text=True)


def wait_for(n_done: int, out: Path, process: subprocess.Popen[str]) -> int:
    """Wait until this many samples are done."""
    while process.poll() is None:
        found = len(list((out / "samples").glob("*"))) if (out / "samples").exists() else 0
        if found >= n_done:
            return found
        time.sleep(0.05)
    raise RuntimeError(f"the cohort ended too early: {process.communicate()[1]}")


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def kill_worker(process: subprocess.Popen[str]) -> None:
    """Kill a worker that has a sample in hand: a cohort of two workers always has."""
    os.kill(workers_of(process)[0].pid, signal.SIGKILL)


def gone(processes: list[psutil.Process]) -> bool:
    """Whether the workers end without their scheduler."""
    _, alive = psutil.wait_procs(processes, timeout=60)
    return not alive


def statuses(out: Path) -> dict[str, dict[str, str]]:
    with (out / "cohort.tsv").open(newline="") as file:
        return {row["sample"]: row for row in csv.DictReader(file, delimiter="\t")}


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sheet, model = make_samples(folder)
        began = time.perf_counter()
        directory, plan = begin_cohort(sheet, folder / "serial", cohort_settings(model), seed=SEED, tables_only=True)
        for task in range(plan.n_tasks):
            run_cohort_task(directory.path, task, lambda text: None)
        merge_cohort(directory, plan)
        serial = time.perf_counter() - began
        verify_kills(report, sheet, model, folder, serial)


def verify_kills(report: Report, sheet: Path, model: Path, folder: Path, serial: float) -> None:
    out, steps = folder / "killed", []
    process = start(sheet, model, out)
    for n_done in WORKER_KILLS:
        found = wait_for(n_done, out, process)
        kill_worker(process)
        steps.append(["a worker", f"{found}", "the cohort goes on"])
    found = wait_for(SCHEDULER_KILL, out, process)
    workers = workers_of(process)
    process.kill()
    process.wait()
    ended = gone(workers)
    left = sum(path.is_dir() for path in (out / "unfinished").iterdir())
    steps.append(["the scheduler", f"{found}", f"{left} samples are unfinished"])
    resumed = start(sheet, model, out, "--resume")
    _, told = resumed.communicate()
    report.text(
        f"{N_SAMPLES} simulated tumour genomes (K = 6, T = 10,877), {SETTINGS['chains']} chains of {SETTINGS['draws']} "
        "draws each, without figures, on a local cluster of two workers: `chiasma cohort SHEET --workers 2`. The data "
        "file of one sample is cut off within a line. Processes are killed with SIGKILL; the scheduler is in the "
        "process of the command, which is killed with it. Then `chiasma cohort SHEET --resume` does what is missing. A "
        f"serial run of the same plan, by `chiasma cohort init` and `run`, took {serial:.0f} s."
    )
    report.table(["killed", "samples that were done", "what followed"], steps)
    table = statuses(out)
    done = [row for row in table.values() if row["status"] == "done"]
    found_differences = differences(folder / "serial", out)
    report.text(f"The resumed command ended with exit code {resumed.returncode}. cohort.tsv says of the damaged file:")
    report.text(f"> {table[CORRUPT]['error'].replace(str(folder), 'DIR')}")
    report.goal("workers end when their scheduler is gone", ended)
    report.goal(f"{N_SAMPLES - 1} samples are done", len(done) == N_SAMPLES - 1)
    report.goal(
        "the damaged file is reported in cohort.tsv, on stderr and by the exit code",
        table[CORRUPT]["status"] == "failed"
        and "line" in table[CORRUPT]["error"]
        and f"{CORRUPT} failed" in told
        and resumed.returncode == 1,
    )
    n_files = sum(path.is_file() for path in out.rglob("*"))
    report.goal(
        f"all {n_files:,} files, of all run directories and of the cohort, are equal to those of the serial run, byte "
        f"by byte but for times ({len(found_differences)} differ{': ' if found_differences else ''}"
        f"{', '.join(found_differences[:5])})",
        not found_differences,
    )
