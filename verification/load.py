"""Under load: ten million columns, a million draws, a thousand runs in one process, a run of many resumptions.

`python verification/load.py NAME` is one of them in a separate process; it prints what it cost as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

MOST_BYTES = 4 * 2**30
GROWTH = 32 * 2**20


def model(n_rows: int) -> ch.FactorialHMM:
    weights = np.linspace(1.0, 0.4, n_rows)
    return ch.FactorialHMM(rows=ch.Switches(0.001, 0.002), emission=ch.Gaussian(weights, sd=0.8))


def peak() -> int:
    """Bytes. Not ru_maxrss, which a process inherits from its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def columns(folder: Path) -> dict[str, Any]:
    """T = 10^7, K = 5: twelve exact draws in each of two chains, stored."""
    target = model(5)
    _, y = target.simulate(10**7, seed=1)
    found = ch.sample(target, y, update="exact", draws=12, chains=2, seed=1, store=folder / "run", progress=False)
    return {"draws": list(found.draws.shape), "sound": not ch.check_store(folder / "run").problems}


def draws(folder: Path) -> dict[str, Any]:
    """10^6 draws of a short path."""
    target = model(3)
    _, y = target.simulate(100, seed=1)
    found = ch.sample(target, y, update="exact", draws=10**6, chains=1, seed=1, store=folder / "run", progress=False)
    return {"draws": list(found.draws.shape), "sound": not ch.check_store(folder / "run").problems}


def runs(folder: Path) -> dict[str, Any]:
    """1,000 runs in one process, every tenth of them stored."""
    target = model(3)
    _, y = target.simulate(200, seed=1)
    sizes = []
    for n in range(1_000):
        store = folder / f"run-{n}" if n % 10 == 0 else None
        ch.sample(target, y, draws=50, chains=2, seed=n, store=store, progress=False)
        if n >= 100:
            sizes.append(peak())
    return {"grown": sizes[-1] - sizes[0]}


def resumptions(folder: Path) -> dict[str, Any]:
    """A long run in 200 pieces, each resumed; equal to one that never stopped."""
    target = model(3)
    _, y = target.simulate(200, seed=1)
    options: dict[str, Any] = {
        "update": "row",
        "exchange": None,
        "warmup": 50,
        "chains": 2,
        "seed": 1,
        "progress": False,
    }
    for n in range(1, 201):
        found = ch.sample(target, y, draws=20 * n, store=folder / "run", resume=True, **options)
    whole = ch.sample(target, y, draws=4_000, **options)
    return {
        "equal": bool(np.array_equal(found.draws, whole.draws)),
        "files": sum(1 for _ in (folder / "run").rglob("*")),
    }


def run(report: Report) -> None:
    rows, costs = [], {}
    for name in ("columns", "draws", "runs", "resumptions"):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
        costs[name] = json.loads(done.stdout)
        told = ", ".join(f"{key} {value}" for key, value in costs[name].items() if key != "peak")
        rows.append([name, f"{time.perf_counter() - began:.0f}", f"{costs[name]['peak'] / 2**20:,.0f}", told])
    report.table(["what", "seconds", "peak memory, MiB", "found"], rows)
    report.goal("ten million columns fit into 4 GiB", costs["columns"]["peak"] <= MOST_BYTES)
    report.goal("the stored runs are sound", all(costs[name]["sound"] for name in ("columns", "draws")))
    report.goal("a thousand runs take no more memory than a hundred, but for 32 MiB", costs["runs"]["grown"] <= GROWTH)
    report.goal("a run of 200 resumptions is that of one that never stopped", costs["resumptions"]["equal"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        answer = globals()[sys.argv[1]](Path(place))
        print(json.dumps(answer | {"peak": peak()}))
