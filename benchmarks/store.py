"""What storing costs: seconds per draw with and without a store, bytes per draw, and the peak memory of a long run.

Every measurement is a separate process: `python benchmarks/store.py UPDATE DRAWS PATH` makes one run, without a store
where PATH is empty, and prints what it cost as JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from run import Report

LONG = 100_000
# Update, draws and rounds of the runs whose times are compared.
COMPARED = (("exact", 20_000, 5), ("exact", LONG, 2), ("row", 5_000, 5))
MOST_BYTES = 2**30
MOST_TIME = 1.15


def measure(update: str, draws: int, path: str) -> dict[str, float]:
    """Costs of a whole call of sample() on the tumour genome, compiled code loaded before."""
    import chiasma as ch
    from chiasma.datasets.genome import tumour_genome

    warnings.simplefilter("ignore")
    genome = tumour_genome(seed=1)
    options: dict[str, Any] = {"warmup": 0, "chains": 1, "seed": 1, "progress": False}
    if update == "row":
        options |= {"exchange": None, "ladder": [1]}
    with tempfile.TemporaryDirectory() as folder:
        for store in (None, f"{folder}/run"):
            ch.sample(genome.model, genome.signal.data, update=update, draws=2, store=store, **options)
    wall, cpu = time.perf_counter(), time.process_time()
    ch.sample(genome.model, genome.signal.data, update=update, draws=draws, store=path or None, **options)
    return {
        "wall": (time.perf_counter() - wall) / draws,
        "cpu": (time.process_time() - cpu) / draws,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,  # Linux counts in KiB
    }


def measured(update: str, draws: int, path: Path | None) -> dict[str, float]:
    """The same in another process; with a store also its bytes, per draw and besides."""
    command = [sys.executable, __file__, update, str(draws), str(path or "")]
    costs: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if path is not None:
        grown = sum(
            file.stat().st_size
            for name in ("codes", "log_prior", "replica_log_likelihood")
            for file in (path / name).glob("c.*")
        )
        costs["per_draw"] = grown / draws
        costs["besides"] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) - grown
    return costs


def run(report: Report) -> None:
    report.text(
        "A simulated tumour genome with K = 6 rows (5 free, 1 fixed baseline), T = 10,877 bins and 22 chromosomes; one "
        "chain on one thread. Every run is a complete call of `sample` in its own process. With a store, this includes "
        "creating the store, compressing and writing draws, counting rows, writing checkpoints, and opening the "
        "posterior at the end."
    )
    with tempfile.TemporaryDirectory() as folder:
        compare(report, Path(folder))
        long_run(report, Path(folder))


def compare(report: Report, folder: Path) -> None:
    rows = []
    for update, draws, n_rounds in COMPARED:
        stores = [folder / f"{update}-{draws}-{i}" for i in range(n_rounds)]
        rounds = [[measured(update, draws, path) for path in (None, store)] for store in stores]
        for clock in ("cpu", "wall"):
            without, stored = (min(costs[side][clock] for costs in rounds) for side in (0, 1))
            pairs = [costs[1][clock] / costs[0][clock] for costs in rounds]
            rows.append(
                [
                    f"{update}, {clock}",
                    f"{draws:,}",
                    f"{without * 1e6:.1f}",
                    f"{stored * 1e6:.1f}",
                    f"{stored / without:.3f}",
                    f"{np.median(pairs):.3f}",
                    "reached" if stored / without <= MOST_TIME else "missed",
                ]
            )
    report.text(
        f"## Time\n\nGoal: at most {MOST_TIME:.2f} times as long as without a store. Runs with and without a store "
        f"alternate, five times each, or twice for {LONG:,} draws. The table gives the ratio of the minima and the "
        "median ratio of consecutive runs. CPU time is summed over all threads; wall-clock time also depends on other "
        "programs. Keeping draws in memory takes time too, because the system has to allocate the memory."
    )
    report.table(
        ["update, clock", "draws", "in memory, µs/draw", "stored, µs/draw", "ratio of minima", "median ratio", "goal"],
        rows,
    )


def long_run(report: Report, folder: Path) -> None:
    rows = []
    for draws in (LONG // 10, LONG):
        costs = measured("exact", draws, folder / f"long-{draws}")
        rows.append(
            [
                f"{draws:,}",
                f"{costs['peak'] / 2**20:,.0f}",
                f"{costs['cpu'] * draws:.1f}",
                f"{costs['wall'] * draws:.1f}",
                f"{costs['per_draw']:.0f}",
                f"{costs['besides'] / 2**20:.2f}",
                f"{draws * 10_877 / 2**20:,.0f}",
                "reached" if costs["peak"] < MOST_BYTES else "missed",
            ]
        )
    report.text(
        f"## {LONG:,} exact draws\n\nGoal: peak memory under {MOST_BYTES / 2**20:,.0f} MiB, for any number of draws. "
        "The bytes per draw are its codes (10,877 sites, one byte each before compression), log-likelihood and log "
        'prior. The column "besides" is the rest of the store: the data, one checkpoint per chain and metadata.'
    )
    report.table(
        ["draws", "peak, MiB", "CPU, s", "wall, s", "bytes per draw", "besides, MiB", "unpacked codes, MiB", "goal"],
        rows,
    )


if __name__ == "__main__":
    name, number, target = sys.argv[1:]
    print(json.dumps(measure(name, int(number), target)))
