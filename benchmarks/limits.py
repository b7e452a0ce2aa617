"""How far the building blocks are from what the machine can do at all, and what a start costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from core import example, fastest, sampler

import chiasma as ch
from chiasma._jit import vector_njit
from chiasma.exact.passes import CHUNK, Passes, draw_paths
from chiasma.kernels.lanes import aligned_empty
from chiasma.kernels.passes import filter_block
from chiasma.sampling.engines import CompiledEngine
from chiasma.sampling.problems import PathProblem, Start
from chiasma.sampling.streams import Streams

if TYPE_CHECKING:
    from run import Report

ROWS = 6
COLUMNS = 10_877
DRAWS = 1_000
# Operations of kernels.logspace on one number: products and sums, or both at once.
EXPONENTIAL = 20
# The authors' C++ package, nanoseconds per (replica, row, column), and how many times faster we want to be.
AUTHORS = {"row Gibbs": (1600.0, 100), "Hamming ball, radius 1": (700.0, 30), "Hamming ball, radius 3": (1400.0, 50)}


def run(report: Report) -> None:
    row_sweeps(report)
    exact_filter(report)
    exact_draws(report)
    authors(report)
    workers(report)
    starts(report)


def verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def engine(n_rows: int, n_columns: int, n_replicas: int) -> CompiledEngine:
    """Replicas with row updates, each where it is at home."""
    model, data = example(n_rows, n_columns)
    betas = np.linspace(0.3, 1.0, n_replicas) if n_replicas > 1 else np.ones(1)
    made = CompiledEngine(PathProblem(model.target(data), ch.RowGibbs(), None), betas, 0, Streams(1, 0), Start())
    made.states[:] = [ch.exact.draws(model, data, 1, seed=1, beta=beta)[0] for beta in betas]
    return made


def row_sweeps(report: Report, most: float = 4.0) -> None:
    rows = []
    rng = np.random.default_rng(1)
    for n_columns in (1_000, COLUMNS):
        for n_replicas in (1, 2, 8):
            made = engine(ROWS, n_columns, n_replicas)
            sweeps = made.piece()
            n_updates = sweeps * n_replicas * ROWS * n_columns
            buffer = np.empty(ROWS * n_columns)
            cost, uniform = fastest(partial(made.advance, sweeps, 0), partial(rng.random, out=buffer), repeats=31)
            cost, uniform = cost / n_updates, uniform / len(buffer)
            memory = sum(part.nbytes for part in (made.replicas.lik[0], made.states[0])) / 2**20
            rows.append(
                [
                    f"{n_columns:,}",
                    str(n_replicas),
                    f"{uniform * 1e9:.2f}",
                    f"{cost * 1e9:.2f}",
                    f"{cost / uniform:.2f}",
                    f"{memory:.2f}",
                    verdict(cost <= most * uniform) if n_replicas == 8 else "",
                ]
            )
    report.text(
        f"## Row sweep against bulk uniforms, K = {ROWS}\n\n"
        "CPU time of one thread, the minimum of several rounds, as in the tables below. Times are per replica, row and "
        "column and include drawing the uniform random numbers. The memory of a replica is its table of likelihoods "
        f"and its path. Goal: with 8 replicas, at most {most:g} times as long as a bulk uniform."
    )
    report.table(["T", "replicas", "uniform, ns", "sweep, ns", "in uniforms", "MiB per replica", "goal"], rows)


@vector_njit
def _multiply_add(x, y, rounds):
    for _ in range(rounds):
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.999 + y[i]


@vector_njit
def _triad(x, y, z):
    for i in range(x.shape[0]):
        x[i] = y[i] + 0.5 * z[i]


def exact_filter(report: Report, most: float = 4.0) -> None:
    """A step multiplies and adds K + 2 times per state, in place, on a message that fits the first cache.

    With the emissions it is K + 3 times per state, and K + 1 exponentials per column.
    """
    rows = []
    x, y = np.ones((2, 1024))
    large = np.ones((3, 2**23))
    for n_rows in (3, 4, 5, 6, 8, 10, 12):
        n_columns = max(200, min(COLUMNS, 2**22 >> n_rows))
        model, data = example(n_rows, n_columns)
        n_states = n_columns << n_rows
        passes = n_states * (n_rows + 2)
        everything = n_states * (n_rows + 3) + n_columns * (n_rows + 1) * EXPONENTIAL
        rounds = max(1, passes // len(x))
        filtered, evidence, plain, streamed = fastest(
            filter_only(model, data),
            partial(ch.exact.log_evidence, model, data),
            partial(_multiply_add, x, y, rounds),
            partial(_triad, *large),
            repeats=11,
        )
        plain /= rounds * len(x)
        ratios = filtered / (plain * passes), evidence / (plain * everything)
        rows.append(
            [
                str(n_rows),
                f"{plain * 1e9:.3f}",
                f"{filtered / n_states * 1e9:.2f}",
                f"{ratios[0]:.2f}",
                f"{evidence / n_states * 1e9:.2f}",
                f"{ratios[1]:.2f}",
                f"{evidence / n_states / (streamed / large.shape[1]):.2f}",
                verdict(max(ratios) <= most),
            ]
        )
    report.text(
        "## Exact filter against a multiply-add loop\n\n"
        "Times are per column and state. The first ratio compares the forward filter alone, with likelihoods given, "
        "with a simple vectorised loop of the same number of multiply-adds on an array in the L1 cache: K + 2 per "
        "state (one per axis, one for the likelihood, one for the normaliser). The second ratio compares "
        "`ch.exact.log_evidence` from the data, Python included, with K + 3 multiply-adds per state and "
        f"{EXPONENTIAL} for each of the K + 1 exponentials of a column. The last ratio is relative to one step of the "
        f"triad x = y + a z over 192 MiB of memory. Goal: both of the first two ratios are at most {most:g}."
    )
    report.table(
        ["K", "multiply-add, ns", "filter, ns", "ratio", "from the data, ns", "ratio", "in triad steps", "goal"], rows
    )


def filter_only(model: ch.FactorialHMM, data: ch.Observations) -> Callable[[], None]:
    """The filter over all columns, with likelihoods that are there already."""
    target = model.target(data)
    n_states = target.n_states
    step = max(1, CHUNK // n_states)
    n_together = min(step, target.n_columns)
    # Aligned as in `chiasma.exact.passes`.
    lik, alpha = aligned_empty(n_together, n_states), aligned_empty(2, n_states)
    target.likelihood.tempered(0, n_together, 1.0, lik, np.empty(n_together))
    message, diagonal = np.zeros(n_states), aligned_empty(1, n_states)[0]
    message[0] = 1.0

    def run() -> None:
        for first in range(0, target.n_columns, step):
            part = lik[: target.n_columns - first]
            filter_block(part, target.trans, target.edge, first, message, alpha, alpha[:0], diagonal)

    return run


def exact_draws(report: Report) -> None:
    model, data = example(ROWS, COLUMNS)
    row = sampler(ch.RowGibbs(), model, data)
    # As many changes per column with twice the rows: half the switching probability.
    wide = example(2 * ROWS, COLUMNS, 0.005)
    paths = [np.empty((DRAWS, COLUMNS), np.uint16) for _ in range(2)]
    jobs = [
        partial(draw_paths, Passes(model.target(data), 1.0, stay=True, memory=2**32), np.random.PCG64(1), out)
        for (model, data), out in zip(((model, data), wide), paths, strict=True)
    ]
    sweep, small, large = fastest(row.step, *jobs, repeats=31)
    small, large = small / DRAWS, large / DRAWS
    changes = [float(np.mean(np.diff(out.astype(int)) != 0)) for out in paths]
    report.text(
        f"## One exact draw after filtering, T = {COLUMNS:,}\n\n"
        f"{DRAWS:,} draws at a time, random numbers included, all forward messages in memory. A row sweep with "
        f"K = {ROWS} takes {sweep * 1e6:.0f} µs. Goal: a draw takes less than a quarter of a row sweep, and a draw "
        f"with K = {2 * ROWS} takes at most three times as long as one with K = {ROWS}. The paths of both change about "
        "equally often."
    )
    report.table(
        ["K", "changes per column", "draw, µs", "in row sweeps", f"in draws at K = {ROWS}", "goal"],
        [
            [
                str(ROWS),
                f"{changes[0]:.3f}",
                f"{small * 1e6:.0f}",
                f"{small / sweep:.3f}",
                "1",
                verdict(small < sweep / 4),
            ],
            [
                str(2 * ROWS),
                f"{changes[1]:.3f}",
                f"{large * 1e6:.0f}",
                f"{large / sweep:.3f}",
                f"{large / small:.2f}",
                verdict(large <= 3 * small),
            ],
        ],
    )


def authors(report: Report) -> None:
    cases: list[tuple[str, ch.RowGibbs | ch.HammingBall, int, int]] = [
        ("row Gibbs", ch.RowGibbs(), 5, COLUMNS),
        ("Hamming ball, radius 1", ch.HammingBall(radius=1), 3, 1_000),
        ("Hamming ball, radius 3", ch.HammingBall(radius=3), 5, COLUMNS),
    ]
    rows = []
    jobs = [sampler(update, *example(n_rows, n_columns)).step for _, update, n_rows, n_columns in cases]
    for (name, _, n_rows, n_columns), cost in zip(cases, fastest(*jobs, repeats=101), strict=True):
        per_site = cost / (n_rows * n_columns) * 1e9
        theirs, goal = AUTHORS[name]
        ratio = theirs / per_site
        size = f"K = {n_rows}, T = {n_columns:,}"
        rows.append([name, size, f"{theirs:.0f}", f"{per_site:.1f}", f"{ratio:.0f} ×", f"{goal} ×"])
        rows[-1].append(verdict(ratio >= goal))
    report.text(
        "## Against the authors' C++\n\n"
        "Nanoseconds per replica, row and column, random numbers included. The C++ code was measured on a similar "
        "machine, not in this run."
    )
    report.table(["update", "problem", "C++, ns", "chiasma, ns", "faster", "required", "goal"], rows)


def workers(report: Report, least: float = 1.8) -> None:
    """Two chains side by side: whole runs, and two threads that do nothing but multiply-adds."""
    model, data = example(ROWS, 1_000)
    settings: dict[str, Any] = {"update": "row", "exchange": "augmented", "ladder": [1, 5], "chains": 2, "seed": 1}

    def chains(n_workers: int) -> None:
        ch.sample(model, data, draws=1_000, warmup=1_000, workers=n_workers, progress=False, **settings)

    arrays = np.ones((2, 2, 1024))

    def bare(n_workers: int) -> None:
        with ThreadPoolExecutor(n_workers) as pool:
            list(pool.map(lambda pair: _multiply_add(pair[0], pair[1], 200_000), arrays))

    rows = []
    for name, job in (("two chains by ch.sample", chains), ("two bare loops", bare)):
        one, two = clock(partial(job, 1), partial(job, 2))
        gain = one / two
        goal = verdict(gain >= least) if job is chains else ""
        rows.append([name, f"{one:.3f}", f"{two:.3f}", f"{gain:.2f} ×", goal])
    report.text(
        "## Two workers\n\n"
        f"Wall-clock seconds. Goal: two workers finish two chains at least {least:g} times as fast as one. The second "
        "line is the speed-up of two threads that only do multiply-adds. The goal is meaningful only if that is close "
        f"to 2. Load average: {os.getloadavg()[0]:.1f}."
    )
    report.table(["job", "1 worker, s", "2 workers, s", "faster", "goal"], rows)


def clock(*functions: Callable[[], object], repeats: int = 9) -> list[float]:
    """Seconds by the clock of the fastest call of each, in turns."""
    best = [np.inf] * len(functions)
    for turn in range(repeats + 1):
        for i, function in enumerate(functions):
            began = perf_counter()
            function()
            if turn:  # the first may compile
                best[i] = min(best[i], perf_counter() - began)
    return best


IMPORT = "import chiasma"
FIT = (
    "import chiasma as ch; "
    "m = ch.FactorialHMM(rows=ch.Switches(0.01, 0.01), emission=ch.Gaussian([0.2, 0.3, 0.5], depth=15.0)); "
    "_, y = m.simulate(1000, seed=1); "
    "ch.sample(m, y, draws=100, seed=1, progress=False).marginals()"
)
DEMO = "from chiasma.cli import main; import sys; sys.argv = ['chiasma', 'demo']; main()"


def starts(report: Report) -> None:
    """Seconds of a fresh interpreter, with an empty cache of compiled code and then with the cache that it left."""
    rows = []
    goals = {"import chiasma": (1.0, 1.0), "exact fit": (20.0, 2.0)}
    for name, code in (("import chiasma", IMPORT), ("exact fit", FIT), ("chiasma demo", DEMO)):
        cache = Path(tempfile.mkdtemp())
        try:
            cold = fresh(code, cache)
            warm = min(fresh(code, cache) for _ in range(5))
        finally:
            shutil.rmtree(cache)
        goal = goals.get(name)
        reached = verdict(cold < goal[0] and warm < goal[1]) if goal else ""
        rows.append([name, f"{cold:.2f}", f"{warm:.2f}", f"{goal[0]:g} / {goal[1]:g}" if goal else "", reached])
    report.text(
        "## Start-up\n\n"
        "Wall-clock seconds of a new Python process, with an empty and with a filled cache of compiled code."
    )
    report.table(["what", "empty cache", "filled cache", "limit", "goal"], rows)


def fresh(code: str, cache: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            cwd=folder,
            env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return perf_counter() - began
