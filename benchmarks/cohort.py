"""Cohorts: the time of one and of two workers, the cost of a sample beyond its fit, memory, and splitting a sample.

Every measurement is a separate process, as `chiasma cohort` is: `python benchmarks/cohort.py cohort SAMPLES SITES
DRAWS WORKERS TABLES_ONLY` prints what it cost as JSON, and `plain SAMPLES SITES DRAWS PROCESSES` the time of processes
that know nothing of each other.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from run import Report

GENOME = 10_877
TINY = 24
# Samples and rounds of the comparison of one and two workers.
SAMPLES, ROUNDS = 6, 3
MOST_TIME = 0.6
MOST_OVERHEAD = 0.050
MANY = 1_000
# Draws per chain whose memory is compared, and how much more of it counts as flat.
FEW_DRAWS, MANY_DRAWS, FLAT = 250, 2_500, 1.10


def make_samples(folder: Path, n: int, n_sites: int) -> tuple[Path, dict[str, Any]]:
    """A sheet of simulated genomes, and their settings. Arrays are read faster than tables: only the cohort counts."""
    from chiasma.datasets.genome import tumour_genome
    from chiasma.io.settings import settings_of
    from chiasma.io.tables import write_table

    for i in range(n):
        genome = tumour_genome(seed=i, n_bins=n_sites)
        np.save(folder / f"genome-{i}.npy", genome.signal.data.y)
    sheet = folder / "sheet.tsv"
    write_table(sheet, ["sample", "path"], ([f"genome-{i}", f"genome-{i}.npy"] for i in range(n)))
    return sheet, settings_of(genome.model)


def measure_cohort(n_samples: int, n_sites: int, draws: int, workers: int, tables_only: int) -> dict[str, float]:
    """Costs of a cohort on a local cluster, without the start of its processes."""
    from chiasma.cohort.api import cohort, merge_cohort
    from chiasma.cohort.directory import CohortDirectory
    from chiasma.cohort.workers import local_client
    from chiasma.io.settings import Settings

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sheet, given = make_samples(folder, n_samples, n_sites)
        options: dict[str, Any] = {
            "model": Settings(**given).merged(sampler={"draws": draws}),
            "tables_only": bool(tables_only),
            "seed": 1,
            "progress": False,
        }
        with local_client(workers) as client:
            # Loads compiled code into the workers; samples of the same names would be done already.
            warm = [{"sample": f"warm-{i}", "path": str(folder / "genome-0.npy")} for i in range(workers)]
            cohort(warm, folder / "warm", client, **options)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            worked = sum(client.run(time.process_time).values())
            began = time.perf_counter()
            cohort(sheet, folder / "out", client, **options)
            wall = time.perf_counter() - began
            worked = sum(client.run(time.process_time).values()) - worked
            peaks = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        with (folder / "out/cohort.tsv").open(newline="") as file:
            fits = [float(row["seconds"]) for row in csv.DictReader(file, delimiter="\t")]
        directory = CohortDirectory(folder / "out")
        began = time.perf_counter()
        merge_cohort(directory)
        return {
            "wall": wall,
            "fits": sum(fits),
            "cpu": worked / n_samples,
            "merge": time.perf_counter() - began,
            "client": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,  # Linux counts in KiB
            "grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024,
            "worker": max(peaks.values()) * 1024,
            "disk": sum(path.stat().st_size for path in directory.path.rglob("*") if path.is_file()) / n_samples,
        }


def measure_plain(n_samples: int, n_sites: int, draws: int, n_processes: int) -> dict[str, float]:
    """The time of the same fits in processes that share the samples, and nothing else: no scheduler, no merging."""
    from chiasma.cohort.api import begin_cohort, cohort_settings
    from chiasma.io.settings import Settings

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sheet, given = make_samples(folder, n_samples, n_sites)
        settings = cohort_settings(Settings(**given).merged(sampler={"draws": draws}))
        begin_cohort(sheet, folder / "out", settings, seed=1, n_tasks=n_processes)
        begin_cohort(sheet, folder / "warm", settings, seed=1, n_tasks=n_samples)
        context = multiprocessing.get_context("spawn")
        ready = context.Barrier(n_processes + 1)
        processes = [context.Process(target=_fit_share, args=(folder, i, ready)) for i in range(n_processes)]
        for process in processes:
            process.start()
        ready.wait()
        began = time.perf_counter()
        for process in processes:
            process.join()
        return {"wall": time.perf_counter() - began}


def _fit_share(folder: Path, number: int, ready: Any) -> None:
    """Fit the samples of one task in this process, on one thread, after one that loads compiled code."""
    from chiasma.cohort.directory import CohortDirectory
    from chiasma.cohort.plan import CohortPlan
    from chiasma.cohort.workers import run_task, task_of

    def fit(place: str, task: int) -> None:
        directory = CohortDirectory(folder / place)
        plan = CohortPlan.read(directory.plan)
        for sample in plan.of_task(task):
            run_task(task_of(directory, plan, sample))

    fit("warm", number)
    ready.wait()
    fit("out", number)


def measured(kind: str, *arguments: float) -> dict[str, float]:
    """The costs of a cohort, or of plain processes, measured in another process."""
    command = [sys.executable, __file__, kind, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    costs: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return costs


def run(report: Report) -> None:
    report.text(
        "Simulated tumour genomes with K = 6 rows (5 free, 1 fixed baseline) on a local cluster of worker processes "
        "with one thread each, as `chiasma cohort --workers N` starts it. A fit is all that `chiasma fit` does, tables "
        "and figures included. The start of the processes and the loading of compiled code are not counted."
    )
    many_samples(report)
    memory(report)
    split(report)
    compare_workers(report)


def compare_workers(report: Report) -> None:
    report.text(
        f"## Two workers\n\nGoal: at most {MOST_TIME} of the time of one worker. Cohorts of {SAMPLES} genomes "
        f"(T = {GENOME:,}, 4 chains of 1,000 draws), one and two workers in turn, {ROUNDS} times. Two cores that share "
        "a cache and a memory bus do not do twice the work of one; so the same fits were also made, in the same turns, "
        "by one and by two plain processes, which know neither Dask nor each other: their ratio is what the machine "
        "gives."
    )
    rows, ratios, floors = [], [], []
    for _ in range(ROUNDS):
        one, two = (measured("cohort", SAMPLES, GENOME, 1_000, workers, 0)["wall"] for workers in (1, 2))
        alone, both = (measured("plain", SAMPLES, GENOME, 1_000, n)["wall"] for n in (1, 2))
        ratios.append(two / one)
        floors.append(both / alone)
        seconds = [f"{wall:.1f}" for wall in (one, two, alone, both)]
        rows.append([*seconds[:2], f"{ratios[-1]:.3f}", *seconds[2:], f"{floors[-1]:.3f}"])
    report.table(
        ["one worker, s", "two workers, s", "ratio", "one process, s", "two processes, s", "ratio of processes"], rows
    )
    best = min(ratios)
    report.text(
        f"The best ratio is {best:.3f}, the median {np.median(ratios):.3f}: "
        f"{'reached' if best <= MOST_TIME else 'missed'}. That of plain processes: best {min(floors):.3f}, median "
        f"{np.median(floors):.3f}."
    )


def many_samples(report: Report) -> None:
    report.text(
        f"## The cost of a sample, and beyond its fit\n\nGoal: under {1000 * MOST_OVERHEAD:.0f} ms per sample beyond "
        "the fit: scheduling, moving the run directory into its place, the summaries for cohort.zarr, the small "
        "picture, and the share of the sample in cohort.tsv, cohort.zarr and index.html. It is the time of the cohort "
        "on one worker without the time of the fits in it. CPU: processor time of the worker. 4 chains."
    )
    rows = []
    for n, n_sites, draws, tables_only in (
        (MANY, TINY, 20, 1),
        (SAMPLES, GENOME, 1_000, 1),
        (SAMPLES, GENOME, 1_000, 0),
    ):
        cost = measured("cohort", n, n_sites, draws, 1, tables_only)
        overhead = (cost["wall"] - cost["fits"]) / n
        rows.append(
            [
                "tables only" if tables_only else "report and figures",
                f"{n:,}",
                f"{n_sites:,}",
                f"{draws:,}",
                f"{cost['wall']:.1f}",
                f"{1000 * cost['fits'] / n:,.0f}",
                f"{1000 * cost['cpu']:,.0f}",
                f"{1000 * overhead:.1f}",
                f"{1000 * cost['merge'] / n:.1f}",
                f"{cost['disk'] / 2**20:.2f}",
                "reached" if overhead <= MOST_OVERHEAD else "missed",
            ]
        )
    head = [
        "what",
        "samples",
        "sites",
        "draws",
        "cohort, s",
        "fit, ms",
        "CPU, ms",
        "beyond the fit, ms",
        "of which merge",
    ]
    report.table([*head, "disk, MiB", "goal"], rows)


def memory(report: Report) -> None:
    report.text(
        f"## Memory\n\nGoal: the process of the client and the scheduler needs no more memory for {MANY_DRAWS:,} draws "
        f"than for {FEW_DRAWS:,} (at most {FLAT:.2f} times as much). Peaks of the whole process, 2 genomes of "
        f"{GENOME:,} sites, 4 chains."
    )
    costs = {draws: measured("cohort", 2, GENOME, draws, 1, 1) for draws in (FEW_DRAWS, MANY_DRAWS)}
    report.table(
        ["draws per chain", "client and scheduler, MiB", "of which during the cohort", "worker, MiB", "disk, MiB"],
        [
            [f"{draws:,}", *(f"{cost[part] / 2**20:,.0f}" for part in ("client", "grown", "worker", "disk"))]
            for draws, cost in costs.items()
        ],
    )
    ratio = costs[MANY_DRAWS]["client"] / costs[FEW_DRAWS]["client"]
    report.text(f"Ratio: {ratio:.3f}, {'reached' if ratio <= FLAT else 'missed'}.")


def split(report: Report) -> None:
    """When would it pay to split a sample at its chromosomes?"""
    import chiasma as ch
    from chiasma.datasets.genome import tumour_genome
    from chiasma.report.report import write_report

    rows = []
    for n_sites in (GENOME, 10 * GENOME):
        model, _, signal = tumour_genome(seed=1, n_bins=n_sites)
        options: dict[str, Any] = {"seed": 1, "progress": False, "workers": 1}
        ch.sample(model, signal.data, draws=2, **options)
        with tempfile.TemporaryDirectory() as name:
            began = time.perf_counter()
            posterior = ch.sample(model, signal.data, store=f"{name}/run.zarr", **options)
            sampled = time.perf_counter() - began
            began = time.perf_counter()
            write_report(posterior, signal, Path(name), {})
            reported = time.perf_counter() - began
        rows.append([f"{n_sites:,}", f"{sampled:.2f}", f"{reported:.2f}", f"{sampled / (sampled + reported):.2f}"])
    report.text(
        "## Splitting a sample at its chromosomes\n\nWith given parameters the chromosomes of a sample are "
        "independent, and exact draws of each could be a task of their own. What could be shared out is the time of "
        "the sampler alone; tables and figures are those of the whole sample. One thread, 4 chains of 1,000 draws:"
    )
    report.table(["sites", "sampler, s", "tables and figures, s", "share of the sampler"], rows)
    report.text(
        "A cohort with as many samples as cores has nothing to gain, and chiasma does not split samples: a sample "
        "alone already has one thread per chain. Splitting would pay for a single sample on more cores than chains, "
        "and only as far as the share of the sampler goes."
    )


if __name__ == "__main__":
    measure = {"cohort": measure_cohort, "plain": measure_plain}[sys.argv[1]]
    print(json.dumps(measure(*map(int, sys.argv[2:]))))
