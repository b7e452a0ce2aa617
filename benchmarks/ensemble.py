"""What the ensemble costs around its sweeps: Python, exchanges, a second worker, one exchange by itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter, process_time, thread_time
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from core import example, fastest

import chiasma as ch
from chiasma._jit import njit
from chiasma.kernels import ensemble, moves
from chiasma.sampling.engines import CompiledEngine
from chiasma.sampling.problems import PathProblem, Start
from chiasma.sampling.streams import Streams

if TYPE_CHECKING:
    from run import Report

BETAS = (0.2, 1.0)
EXCHANGES: dict[str, Any] = {
    "swap": ch.Swap(),
    "random, 1 point": ch.RandomCrossover(points=1),
    "random, 2 points": ch.RandomCrossover(points=2),
    "augmented, T": ch.AugmentedCrossover(flipped=False),
    "augmented, 2T": ch.AugmentedCrossover(),
    "mosaic": ch.MosaicCrossover(),
}


def run(report: Report) -> None:
    report.text("All tables: two replicas at temperatures 1 and 5, with row updates.")
    overhead(report)
    every_tenth(report)
    workers(report)
    one_exchange(report)


def settings(exchange: Any, **more: Any) -> dict[str, Any]:
    return {"update": "row", "exchange": exchange, "ladder": [1, 5], "seed": 1, "progress": False} | more


def verdict(share: float, most: float) -> str:
    return "reached" if share <= most else "missed"


def overhead(report: Report, most: float = 0.10) -> None:
    """Share of `sample` that is spent outside the compiled loop and its random numbers."""
    model, data = example(3, 200)
    compiled = ensemble.run_iterations
    draw, draw_for_pairs = CompiledEngine._sweep_uniforms, CompiledEngine._pair_uniforms
    rows = []
    for chains, sweeps in ((1, 2_000), (4, 2_000), (1, 20_000)):
        best = np.full(3, np.inf)
        for _ in range(15):
            inside = {"loop": 0.0, "uniforms": 0.0}

            def timed(name: str, function: Callable[..., Any], spent: dict[str, float] = inside) -> Callable[..., Any]:
                def call(*args: Any) -> Any:
                    began = thread_time()
                    out = function(*args)
                    spent[name] += thread_time() - began
                    return out

                return call

            with (
                patch.object(ensemble, "run_iterations", timed("loop", compiled)),
                patch.object(CompiledEngine, "_sweep_uniforms", timed("uniforms", draw)),
                patch.object(CompiledEngine, "_pair_uniforms", timed("uniforms", draw_for_pairs)),
            ):
                began = process_time()
                ch.sample(model, data, **settings("mosaic", draws=sweeps // 2, warmup=sweeps // 2, chains=chains))
                total = process_time() - began
            parts = np.array([total, inside["loop"], inside["uniforms"]])
            best = parts if total < best[0] else best
        total, loop, uniforms = best / (chains * sweeps) * 1e6
        share = (total - loop - uniforms) / (loop + uniforms)
        cells = [f"{value:.2f}" for value in (total, loop, uniforms, total - loop - uniforms)]
        rows.append([f"{chains} × {sweeps:,}", *cells, f"{100 * share:.1f}%", verdict(share, most)])
    report.text(
        "## Python around the compiled loop\n\n"
        "One call of `ch.sample` with T = 200, K = 3, a mosaic exchange after every sweep, and half of the sweeps as "
        "warm-up. CPU microseconds per sweep of both replicas, from the fastest of 15 calls. Goal: an overhead of at "
        f"most {100 * most:.0f}% over the compiled loop and the random numbers for its sweeps and exchanges. The "
        "default of `sample` is 4 chains × 2,000 sweeps."
    )
    report.table(["chains × sweeps", "sample", "compiled loop", "uniforms", "the rest", "overhead", "goal"], rows)


def engine(model: ch.FactorialHMM, data: ch.Observations, exchange: Any, every: int) -> CompiledEngine:
    """Two replicas that start where they are at home, so that a sweep costs what it costs in a long run."""
    made = CompiledEngine(
        PathProblem(model.target(data), ch.RowGibbs(), exchange), BETAS, every, Streams(1, 0), Start()
    )
    made.states[:] = [ch.exact.draws(model, data, 1, seed=1, beta=beta)[0] for beta in BETAS]
    return made


def every_tenth(report: Report, sweeps: int = 500, most: float = 0.05) -> None:
    """What an exchange after every tenth sweep adds to a run without any."""
    model, data = example(3, 1_000)
    names = list(EXCHANGES)
    alone = engine(model, data, EXCHANGES["swap"], 0)
    start = alone.states.copy()

    def advance(one: CompiledEngine) -> None:
        one.states[:] = start
        one.advance(sweeps, 1)

    engines = [alone, *(engine(model, data, EXCHANGES[name], 10) for name in names)]
    base, *seconds = fastest(*(partial(advance, one) for one in engines), repeats=31)
    rows = []
    for name, cost in zip(names, seconds, strict=True):
        added = cost / base - 1
        rows.append([name, f"{cost / sweeps * 1e6:.2f}", f"{100 * added:+.1f}%", verdict(added, most)])
    report.text(
        "## An exchange after every tenth sweep\n\n"
        "T = 1,000, K = 3. All runs start from the same state and record every sweep. Microseconds per sweep of both "
        f"replicas, random numbers included. Without exchanges: {base / sweeps * 1e6:.2f}. Goal: at most "
        f"{100 * most:.0f}% more."
    )
    report.table(["exchange", "µs per sweep", "added", "goal"], rows)


def workers(report: Report, most: float = 0.6, repeats: int = 31) -> None:
    """Two chains on two workers against one, by the clock, and beside it what the machine gives two threads at all."""
    buffers = np.empty((2, 10_000_000))
    streams = [np.random.default_rng(seed) for seed in range(2)]

    def fill(n_threads: int) -> None:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda stream, buffer: stream.random(out=buffer), streams, buffers))

    rows = []
    for n_rows, n_columns, draws in ((6, 10_877, 100), (6, 1_000, 600), (3, 1_000, 1_200)):
        model, data = example(n_rows, n_columns)
        chains = partial(ch.sample, model, data, **settings("augmented", draws=draws, warmup=0, chains=2))
        tasks = [partial(chains, workers=1), partial(chains, workers=2), partial(fill, 1), partial(fill, 2)]
        one, two, *plain = np.min([[seconds(task) for task in tasks] for _ in range(repeats)], axis=0)
        free = plain[1] / plain[0]
        goal = verdict(two / one, most) if free < most else "no free core"
        times = [f"{draws:,}", f"{one:.3f}", f"{two:.3f}", f"{two / one:.2f}", f"{free:.2f}"]
        rows.append([f"K = {n_rows}, T = {n_columns:,}", *times, goal])
    report.text(
        "## A second worker\n\n"
        "Two chains, an augmented crossover after every sweep. Wall-clock seconds, including set-up and the tables of "
        f"likelihoods, the minimum of {repeats} runs. Goal: two workers take at most {most} times as long as one. The "
        "last ratio is the same for two threads that only fill arrays with random numbers: 0.5 if both cores are free, "
        "1 if only one is."
    )
    report.table(["problem", "draws", "1 worker, s", "2 workers, s", "ratio", "of the machine", "goal"], rows)


def seconds(task: Callable[[], object]) -> float:
    began = perf_counter()
    task()
    return perf_counter() - began


@njit
def repeat_exchange(n, move, tables_i, tables_j, beta_i, beta_j, n_uniforms, uniforms, a, b, work):
    moved = 0
    for i in range(n):
        own = uniforms[i * n_uniforms : (i + 1) * n_uniforms]
        moved += moves.exchange_pair(move, tables_i, tables_j, beta_i, beta_j, own, a, b, work)
    return moved


def one_exchange(report: Report, repeats: int = 20) -> None:
    """One exchange by itself, given its random numbers, per column."""
    rows = []
    for n_rows, n_columns in ((3, 1_000), (6, 1_000), (6, 10_877)):
        model, data = example(n_rows, n_columns)
        rng = np.random.default_rng(1)
        uniforms = np.empty(repeats * n_columns)
        (uniform,) = fastest(lambda rng=rng, buffer=uniforms: rng.random(out=buffer), repeats=11)
        uniform /= repeats * n_columns
        start = engine(model, data, EXCHANGES["mosaic"], 1)
        start.advance(200, 0)
        steps = {name: exchange.prepare(*2 * (model.target(data),), *BETAS) for name, exchange in EXCHANGES.items()}
        calls = []
        for step in steps.values():
            a, b = start.states.copy()
            fixed = repeats, step.move, *step.tables, *step.betas, step.n_uniforms, uniforms, a, b, step.work
            calls.append(lambda fixed=fixed: repeat_exchange(*fixed))
        costs = np.array(fastest(*calls, repeats=11)) / (repeats * n_columns)
        rows.append([f"K = {n_rows}, T = {n_columns:,}", f"{uniform * 1e9:.2f}"])
        rows[-1] += [f"{cost * 1e9:.1f} ({cost / uniform:.1f})" for cost in costs]
    report.text(
        "## One exchange\n\n"
        "Nanoseconds per column, without drawing the random numbers. In brackets: the same in units of one bulk "
        "uniform. The mosaic also needs one uniform per column; the others need two or three in total."
    )
    report.table(["problem", "uniform", *EXCHANGES], rows)
