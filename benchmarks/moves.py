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
    around_a_ring,
    going_together,
    known,
    lattice,
    on_a_grid,
    random_weights,
    sizes_only,
    sums_of_three,
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
    """The error after this many CPU seconds, in which pools are filled by short runs and then used after every block
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
