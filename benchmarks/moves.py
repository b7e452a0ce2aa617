"""Moves between far explanations: jumps along learned differences, beside blocks, ladders and what was dropped.

The problems are of the kinds of tools/hard_problems.py, with other seeds than the suite `hard` has.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from hard import GOALS, Course, _seconds, fits, measure
from hard_problems import (
    Hard,
    along_a_line,
    around_a_ring,
    down_a_tree,
    going_together,
    known,
    lattice,
    on_a_grid,
    random_weights,
    sizes_only,
    sums_of_three,
    wired_anew,
)
from hard_problems import states as state_rows

import chiasma as ch
from chiasma.kernels.layout import unpack_codes
from chiasma.kernels.picking import pick
from chiasma.kernels.transitions import move
from chiasma.models.target import Target

if TYPE_CHECKING:
    from run import Report

LIMIT = 2.0
SEEDS = (11, 12)
FAR: dict[str, Callable[[int], Hard]] = {
    "sizes of differences in a ring": lambda seed: known(*sizes_only(around_a_ring(12), 60, 0.5, seed)),
    "sizes of differences on a grid": lambda seed: known(*sizes_only(on_a_grid(3, 4), 60, 0.6, seed)),
    "sizes of sums of three": lambda seed: known(*sizes_only(sums_of_three(14, seed), 60, 0.5, seed)),
    "rows that go together": lambda seed: going_together(12, 60, 0.5, seed),
}
NEAR: dict[str, Callable[[int], Hard]] = {
    "sharp and sticky": lambda seed: random_weights(14, 600, 0.1, 0.01, seed),
    "seven rows at once": lambda seed: lattice(600, seed),
    "7 rows of 3 states": lambda seed: state_rows([3] * 7, 300, 0.3, seed),
}
ANEW: dict[str, Callable[[int], Hard]] = {
    "differences along lines": lambda seed: wired_anew(along_a_line, 13, 1000, 2, 0.28, seed),
    "differences down trees": lambda seed: wired_anew(down_a_tree, 13, 1000, 2, 0.28, seed),
}
JUMPS = "jumps (3)"
SAMPLERS: dict[str, dict[str, Any]] = {
    "blocks of 3": {"update": ch.BlockGibbs(size=3), "exchange": None},
    "Gaussian blocks of 9": {"update": ch.GaussianBlocks(size=9), "exchange": None},
    "swaps, two rungs": {"update": ch.BlockGibbs(size=3), "exchange": "swap", "ladder": [1, 5]},
    "mosaic, two rungs": {"update": ch.BlockGibbs(size=3), "exchange": "mosaic", "ladder": [1, 5]},
    "mosaic of random rows, two rungs": {
        "update": ch.BlockGibbs(size=3),
        "exchange": ch.MosaicCrossover(rows="random"),
        "ladder": [1, 5],
    },
    JUMPS: {"update": ch.Jumps(size=3), "exchange": None},
}


# ---- Dropped: an embedded HMM with frozen pools ----------------------------------------------------------------------

# Columns that share a pool, codes of a pool, runs that fill it and the share of the time that they take.
WINDOW, POOL, SCOUTS, SHARE = 16, 64, 4, 0.3


@numba.njit
def pool_tables(pools, sizes, trans, edge):
    """Transitions between the codes of two pools (n, P, P), once for all sweeps, and which ones enter a column (T,)."""
    n_columns, n = edge.shape[0], 0
    which, key = np.zeros(n_columns, np.int64), np.full((n_columns, 3), -1)
    for t in range(1, n_columns):
        own = np.array([(t - 1) // WINDOW, t // WINDOW, edge[t]])
        for m in range(n, -1, -1):
            if (key[m] == own).all():
                which[t] = m
                break
        else:
            key[n], which[t] = own, n
            n += 1
    tables = np.zeros((n, pools.shape[1], pools.shape[1]))
    for m in range(n):
        a, b, e = key[m]
        for i in range(sizes[a]):
            for j in range(sizes[b]):
                tables[m, i, j] = move(trans, e, pools[a, i], pools[b, j])
    return tables, which


@numba.njit
def pool_sweep(lik, pools, sizes, tables, which, trans, edge, uniforms, codes, alpha, inside):
    """FFBS among the codes of the pools. A column outside its pool stays as it is: pools and single codes outside are
    the cells of a partition that does not depend on the path, so this is a Gibbs update.
    """
    n_columns, weights = codes.shape[0], np.empty(pools.shape[1])
    for t in range(n_columns):
        own = pools[t // WINDOW, : sizes[t // WINDOW]]
        place = np.searchsorted(own, codes[t])
        inside[t] = place < len(own) and own[place] == codes[t]
        if inside[t]:
            if t > 0 and inside[t - 1]:
                alpha[t] = 0.0
                for i in range(sizes[(t - 1) // WINDOW]):
                    if alpha[t - 1, i] > 0.0:
                        for j in range(len(own)):
                            alpha[t, j] += alpha[t - 1, i] * tables[which[t], i, j]
            else:
                for j in range(len(own)):
                    alpha[t, j] = move(trans, edge[t], codes[t - 1] if t > 0 else 0, own[j])
            for j in range(len(own)):
                alpha[t, j] *= lik[t, own[j]]
            alpha[t, : len(own)] /= alpha[t, : len(own)].sum()
    place = -1
    for t in range(n_columns - 1, -1, -1):
        own = pools[t // WINDOW, : sizes[t // WINDOW]]
        for j in range(len(own)):
            weights[j] = alpha[t, j]
            if place >= 0:
                weights[j] *= tables[which[t + 1], j, place]
            elif t < n_columns - 1:
                weights[j] *= move(trans, edge[t + 1], own[j], codes[t + 1])
        place = pick(weights[: len(own)], uniforms[t]) if inside[t] else -1
        if inside[t]:
            codes[t] = own[place]


def fill_pools(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent codes of every window, in order, and how many there are; seen (n, T)."""
    n_windows = -(-seen.shape[1] // WINDOW)
    pools, sizes = np.zeros((n_windows, POOL), np.int64), np.zeros(n_windows, np.int64)
    for w in range(n_windows):
        found, counts = np.unique(seen[:, w * WINDOW : (w + 1) * WINDOW], return_counts=True)
        own = np.sort(found[np.argsort(-counts, kind="stable")[:POOL]])
        pools[w, : len(own)], sizes[w] = own, len(own)
    return pools, sizes


def run_pools(hard: Hard, seconds: float, seed: int) -> float:
    """The error after so many CPU seconds, in which pools are filled by short runs and then used after every block
    sweep.
    """
    target = hard.model.target(hard.data)
    assert isinstance(target, Target)
    began, rng = process_time(), np.random.default_rng(seed)
    lik = np.exp(target.log_lik - target.log_lik.max(axis=1, keepdims=True))
    sweep = ch.BlockGibbs(size=3).prepare(target, 1.0)
    seen: list[np.ndarray] = []
    for scout in range(SCOUTS):
        codes, own = target.sample_prior(rng), []
        while process_time() - began < SHARE * seconds * (scout + 1) / SCOUTS or len(own) < 4:
            sweep.step(codes, rng)
            own.append(codes.copy())
        seen += own[len(own) // 2 :]
    pools, sizes = fill_pools(np.array(seen))
    tables, which = pool_tables(pools, sizes, target.trans, target.edge)
    alpha, inside, kept = np.empty((len(codes), POOL)), np.empty(len(codes), np.bool_), []
    while process_time() - began < seconds or not kept:
        sweep.step(codes, rng)
        uniforms = rng.random(len(codes))
        pool_sweep(lik, pools, sizes, tables, which, target.trans, target.edge, uniforms, codes, alpha, inside)
        kept.append(codes.copy())
    found = unpack_codes(np.array(kept), hard.model.layout).mean(axis=0)
    return float(np.mean([np.abs(own - exact[1]) for own, exact in zip(found, hard.exact, strict=True)]))


def measure_pools(hard: Hard) -> Course:
    run_pools(hard, 0.01, 1)  # compiles
    seconds = [0.25, 1.0, LIMIT]
    return Course(seconds, [run_pools(hard, one, 1) for one in seconds], "")


# ---- Not in use: rungs that are not swept in every iteration ---------------------------------------------------------

# Iterations, and the schedules: sweeps of the cold rung and of the hot one, each in every n-th iteration.
ITERATIONS = 1200
SCHEDULES = {
    "both rungs in every iteration": (1, 1),
    "the cold rung in every second": (2, 1),
    "the cold rung in every third": (3, 1),
    "the hot rung in every second": (1, 2),
    "the hot rung in every third": (1, 3),
}


def run_schedule(hard: Hard, hot: ch.Update, every: tuple[int, int], n: int, seed: int) -> tuple[float, float]:
    """CPU seconds and error of n iterations of two rungs, temperatures 1 and 5, with a mosaic crossover in each."""
    target, rng = hard.model.target(hard.data), np.random.default_rng(seed)
    sweeps = ch.BlockGibbs(size=3).prepare(target, 1.0), hot.prepare(target, 0.2)
    exchange = ch.MosaicCrossover().prepare(target, target, 1.0, 0.2)
    rungs = target.sample_prior(rng), target.sample_prior(rng)
    began, kept = process_time(), []
    for i in range(n):
        for sweep, codes, own in zip(sweeps, rungs, every, strict=True):
            if i % own == 0:
                sweep.step(codes, rng)
        exchange.step(*rungs, rng)
        kept.append(rungs[0].copy())
    seconds = process_time() - began
    found = unpack_codes(np.array(kept[n // 5 :]), hard.model.layout).mean(axis=0)
    return seconds, float(np.mean([np.abs(own - exact[1]) for own, exact in zip(found, hard.exact, strict=True)]))


def compare_schedules(report: Report, hards: list[Hard]) -> None:
    ways = {name: (ch.BlockGibbs(size=3), every) for name, every in SCHEDULES.items()}
    ways["both, the hot one by row Gibbs"] = (ch.RowGibbs(), (1, 1))
    lines = []
    for name, way in ways.items():
        run_schedule(hards[0], *way, 10, 1)  # compiles
        found = [run_schedule(hard, *way, ITERATIONS, 1) for hard in hards]
        lines.append(
            [
                name,
                ", ".join(f"{off:.4f}" for _, off in found),
                ", ".join(f"{took:.2g} s" for took, _ in found),
                ", ".join(_seconds(Course([took], [off], "").needed(GOALS[0])) for took, off in found),
            ]
        )
    report.table(["sweeps of", "error", "after", f"to {GOALS[0]}, about"], lines)


def run(report: Report) -> None:
    report.text(
        "CPU seconds (one process, one chain, learning and warm-up included, compilation not) until the mean error of "
        f"the probabilities is {GOALS[0]} and {GOALS[1]}, and the error of the longest run, of about {LIMIT:g} s or "
        f"less; data sets of seeds {' and '.join(map(str, SEEDS))}. `python benchmarks/run.py hard` has more samplers."
    )
    for title, problems in (("Far explanations", FAR), ("Others", NEAR)):
        report.text(f"## {title}")
        for name, make in problems.items():
            report.text(f"### {name}")
            hards = [make(seed) for seed in SEEDS]
            usable = {sampler: settings for sampler, settings in SAMPLERS.items() if fits(hards[0], settings)}
            courses = {
                sampler: [measure(hard, settings, LIMIT) for hard in hards] for sampler, settings in usable.items()
            }
            if isinstance(hards[0].model.exact_target(hards[0].data), Target):
                courses["frozen pools"] = [measure_pools(hard) for hard in hards]
            report.table(
                ["sampler", *(f"to {goal}" for goal in GOALS), "error"],
                [
                    [
                        sampler,
                        *(", ".join(_seconds(course.until(goal)) for course in found) for goal in GOALS),
                        ", ".join(f"{course.errors[-1]:.4f}" for course in found),
                    ]
                    for sampler, found in courses.items()
                ],
            )
            report.write()
    report.text("## Rivals of their own in every sequence: which rungs to sweep")
    report.text(
        f"Two rungs, temperatures 1 and 5, blocks of three rows, a mosaic crossover in each of {ITERATIONS:,} "
        "iterations. The last column: if the error falls with the root of the work."
    )
    for name, make in ANEW.items():
        report.text(f"### {name}")
        compare_schedules(report, [make(seed) for seed in SEEDS])
        report.write()
