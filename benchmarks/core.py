"""What the building blocks cost: a row sweep, the exact filter, one exact draw, and how they grow with T."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14)
COLUMNS = (1_000, 10_000, 100_000, 1_000_000)
# A row sweep keeps two arrays of T * 2^K doubles (log-likelihoods and likelihoods), a draw two of messages.
MOST_CELLS = 2 * 10**8
MANY_CELLS = 10**7
SHORTEST = 0.02


def fastest(*functions: Callable[[], object], repeats: int = 5) -> list[float]:
    """CPU seconds of one call of each function: the minimum over rounds in which they take turns.

    Short calls are repeated until they last SHORTEST together.
    """
    calls = []
    for function in functions:
        function()  # may still load compiled code
        began = process_time()
        function()
        calls.append(1 + int(SHORTEST / (process_time() - began)))
    best = [np.inf] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            began = process_time()
            for _ in range(calls[i]):
                function()
            best[i] = min(best[i], (process_time() - began) / calls[i])
    return best


def example(n_rows: int, n_columns: int, switching: float = 0.01) -> tuple[ch.FactorialHMM, ch.Observations]:
    """Weights from 1 to 3 that sum to one, depth 15, sd 1: steps of the signal are about as large as its noise."""
    weights = np.linspace(1.0, 3.0, n_rows)
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=switching, leave=switching),
        emission=ch.Gaussian(weights=weights / weights.sum(), depth=15.0, sd=1.0),
    )
    _, y = model.simulate(n_columns, seed=1)
    return model, ch.Observations(y)


class Sampler(NamedTuple):
    """One update in its steady state: `step` draws its uniforms and sweeps, `uniforms` only draws them."""

    step: Callable[[], object]
    uniforms: Callable[[], object]


def sampler(update: ch.RowGibbs | ch.Exact, model: ch.FactorialHMM, data: ch.Observations) -> Sampler:
    target = model.exact_target(data, table_bytes=8 * MOST_CELLS)  # as engines have it, without checks of arguments
    sweep = update.prepare(target, 1.0)
    rng = np.random.default_rng(1)
    codes = np.zeros(target.n_columns, np.int64)
    buffer = np.empty(sweep.n_uniforms)
    return Sampler(lambda: sweep(codes, rng.random(out=buffer)), lambda: rng.random(out=buffer))


class Costs(NamedTuple):
    """Seconds of one row sweep, of its uniforms alone, of one filter and of one draw."""

    sweep: float
    uniforms: float
    filter: float
    draw: float


def measure(n_rows: int, n_columns: int) -> Costs:
    model, data = example(n_rows, n_columns)
    repeats = 5 if n_columns << n_rows < MANY_CELLS else 3
    row = sampler(ch.RowGibbs(), model, data)
    sweep, uniforms = fastest(row.step, row.uniforms)
    del row
    exact = sampler(ch.Exact(memory=16 * MOST_CELLS), model, data)
    (draw,) = fastest(exact.step)
    del exact
    gc.collect()
    (filtered,) = fastest(lambda: ch.exact.log_evidence(model, data), repeats=repeats)
    return Costs(sweep, uniforms, filtered, draw)


def growth(n_columns: list[int], seconds: list[float]) -> str:
    """Exponent a of seconds ~ T^a, by least squares on logarithms."""
    return f"{np.polyfit(np.log(n_columns), np.log(seconds), 1)[0]:.2f}"


def run(report: Report) -> None:
    measure(2, 10)  # compiles
    costs = {(k, t): measure(k, t) for k in ROWS for t in COLUMNS if t << k <= MOST_CELLS}

    def table(title: str, cell: Callable[[int, int, Costs], float], seconds: Callable[[Costs], float]) -> None:
        rows = []
        for k in ROWS:
            done = [t for t in COLUMNS if (k, t) in costs]
            cells = [f"{cell(k, t, costs[k, t]):.2f}" if t in done else "–" for t in COLUMNS]
            rows.append([str(k), *cells, growth(done, [seconds(costs[k, t]) for t in done])])
        report.text(f"## {title}")
        report.table(["K", *(f"T = {t:,}" for t in COLUMNS), "exponent of T"], rows)

    report.text(
        "CPU time of one thread, the minimum of several rounds. "
        "K rows with evenly spaced weights that sum to one, the largest three times the smallest; depth 15, sd 1, "
        "switching probability 0.01. The last column is the exponent a of a fit seconds ~ T^a: 1 means linear growth. "
        "It is slightly below 1 where a fixed cost per call matters at T = 1,000, and above 1 where the tables no "
        "longer fit the CPU caches. A dash marks a combination that was skipped: it needs two arrays of T 2^K "
        f"doubles, more than {16 * MOST_CELLS / 1e9:.1f} GB."
    )
    table(
        "Row sweep: time per column and row, in units of one bulk uniform",
        lambda k, t, cost: cost.sweep / cost.uniforms,
        lambda cost: cost.sweep,
    )
    table(
        "Exact filter, emissions included: nanoseconds per column and state",
        lambda k, t, cost: cost.filter / (t << k) * 1e9,
        lambda cost: cost.filter,
    )
    table(
        "One exact draw, uniforms included: nanoseconds per column",
        lambda k, t, cost: cost.draw / t * 1e9,
        lambda cost: cost.draw,
    )
    acceptance(report)


def acceptance(report: Report, n_rows: int = 6, n_columns: int = 10_877) -> None:
    """The two ratios that the core has to keep."""
    rows = []
    for switching in (0.1, 0.01, 0.001):
        model, data = example(n_rows, n_columns, switching)
        row = sampler(ch.RowGibbs(), model, data)
        independent = partial(ch.exact.draws, model, data, 1_000, seed=1)
        draws, sweep, uniforms = fastest(independent, row.step, row.uniforms, repeats=7)
        rows.append(
            [
                f"{switching:g}",
                f"{uniforms / (n_rows * n_columns) * 1e9:.2f}",
                f"{sweep * 1e6:.0f}",
                f"{sweep / uniforms:.2f}",
                f"{draws * 1e3:.0f}",
                f"{draws / sweep:.0f}",
            ]
        )
    report.text(
        f"## K = {n_rows}, T = {n_columns:,}\n\n"
        "Goal at a switching probability of 0.01: a row sweep takes at most as long as 6 bulk uniforms per column and "
        "row, and 1,000 independent draws (filter included) take less time than 500 row sweeps. The other lines show "
        "how both depend on how often paths change: a draw needs one comparison for a column that equals its "
        "neighbour, and more for one that does not."
    )
    report.table(
        [
            "switching",
            "uniform, ns",
            "row sweep, µs",
            "row sweep, uniforms",
            "1,000 draws, ms",
            "1,000 draws, row sweeps",
        ],
        rows,
    )
