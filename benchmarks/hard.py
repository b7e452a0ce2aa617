"""CPU time to a given error where exact draws are forbidden: every fixed setting, and what `auto` chooses.

The problems are those of tools/hard_problems.py.
"""

from __future__ import annotations

import math
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hard_problems import MORE, SIX, STATES, Hard

import chiasma as ch
from chiasma.kernels.layout import unpack_codes

if TYPE_CHECKING:
    from run import Report

GOALS = (0.02, 0.01)
SEEDS = (1, 2)
# CPU seconds of the longest run of a sampler, the draws of the first one, and how fast they grow.
LIMIT = 2.5
FIRST = 40
GROWTH = 2.0
BEFORE = "blocks of 5, mosaic, adapted ladder"


def blocks(size: int) -> dict[str, Any]:
    return {"update": ch.BlockGibbs(size=size), "exchange": None}


ADAPTED = {"update": ch.BlockGibbs(size=5), "exchange": "mosaic", "ladder": ch.Ladder.adapted()}
BINARY: dict[str, dict[str, Any]] = {
    "row Gibbs": {"update": "row", "exchange": None},
    "ball (1)": {"update": ch.HammingBall(radius=1), "exchange": None},
    **{f"blocks of {size}": blocks(size) for size in (3, 5, 8, 10)},
    "blocks of 5, mosaic, two rungs": {"update": ch.BlockGibbs(size=5), "exchange": "mosaic", "ladder": [1, 5]},
    BEFORE: ADAPTED,
    "auto": {"exact_seconds": 0},
}
ANY: dict[str, dict[str, Any]] = {
    "row Gibbs": {"update": "row", "exchange": None},
    **{f"blocks of {size}": blocks(size) for size in (2, 3, 4)},
    "blocks of 3, mosaic, adapted ladder": ADAPTED | {"update": ch.BlockGibbs(size=3)},
    "auto": {"exact_seconds": 0},
}


class Course(NamedTuple):
    """Mean CPU seconds and mean error of runs of growing length, and what the last one was."""

    seconds: list[float]
    errors: list[float]
    plan: str

    def until(self, goal: float) -> float:
        """Seconds until the error is at most the goal, between two runs on a log-log scale; infinity if never."""
        for i, error in enumerate(self.errors):
            if error <= goal:
                if i == 0:
                    return self.seconds[0]
                share = math.log(self.errors[i - 1] / goal) / math.log(self.errors[i - 1] / error)
                return self.seconds[i - 1] * (self.seconds[i] / self.seconds[i - 1]) ** share
        return math.inf


def error(posterior: ch.Posterior, hard: Hard) -> float:
    """Mean over rows, states (but for the first of each row) and columns of |probability - exact probability|."""
    layout = hard.model.layout
    codes = posterior.codes.values.reshape(-1, hard.data.n_columns)
    counts = [np.zeros(exact[1:].shape) for exact in hard.exact]
    for some in np.array_split(codes, 1 + len(codes) // 64):
        states = unpack_codes(some, layout)
        for k, count in enumerate(counts):
            for s in range(len(count)):
                count[s] += np.count_nonzero(states[:, k] == s + 1, axis=0)
    off = [np.abs(count / len(codes) - exact[1:]).ravel() for count, exact in zip(counts, hard.exact, strict=True)]
    return float(np.concatenate(off).mean())


def measure(hard: Hard, settings: dict[str, Any], limit: float) -> Course:
    """Runs of one chain from a draw of the prior, each longer than the last, a fifth of it warm-up."""

    def run(draws: int, seed: int) -> tuple[float, float, str]:
        began = process_time()
        posterior = ch.sample(
            hard.model, hard.data, draws=draws, warmup=draws // 4, chains=1, workers=1, seed=seed, progress=False,
            **settings,
        )  # fmt: skip
        return process_time() - began, error(posterior, hard), str(posterior.info["plan"])

    run(8, 1)  # compiles
    seconds, errors, plan, draws = [0.0], [1.0], "", FIRST
    while errors[-1] > GOALS[-1] and seconds[-1] * GROWTH < limit:
        took, off, plans = zip(*(run(draws, seed) for seed in SEEDS), strict=True)
        seconds.append(float(np.mean(took)))
        errors.append(float(np.mean(off)))
        plan = plans[-1]
        # Short runs are mostly set-up: grow faster while they take no time.
        draws = int(draws * (GROWTH if seconds[-1] > 0.1 * limit else 2 * GROWTH))
    return Course(seconds[1:], errors[1:], plan)


def run(report: Report) -> None:
    report.text(
        "CPU seconds (one process, one chain, set-up and warm-up included, compilation not) until the mean error of "
        f"the probabilities is {GOALS[0]} and {GOALS[1]}, from runs of growing length, the mean of {len(SEEDS)} seeds; "
        f"exact draws are forbidden (`exact_seconds=0`). A dash: not within about {LIMIT:g} s; the error is of the "
        f"longest run. The sampler that `auto` was before the pilot: {BEFORE}."
    )
    ratios = []
    for title, problems, samplers in (
        ("Random weights", SIX, BINARY),
        ("Sticky segments, several sequences, parts", MORE, BINARY),
        ("Rows with more states", STATES, ANY),
    ):
        report.text(f"## {title}")
        for name, make in problems.items():
            hard = make()
            report.text(f"### {name}")
            usable = {
                sampler: settings
                for sampler, settings in samplers.items()
                if getattr(settings.get("update"), "size", 1) <= hard.model.n_rows
            }
            courses = {sampler: measure(hard, settings, LIMIT) for sampler, settings in usable.items()}
            report.table(
                ["sampler", *(f"to {goal}" for goal in GOALS), "error", "after"],
                [
                    [
                        sampler,
                        *(_seconds(course.until(goal)) for goal in GOALS),
                        f"{course.errors[-1]:.4f}",
                        f"{course.seconds[-1]:.2g} s",
                    ]
                    for sampler, course in courses.items()
                ],
            )
            report.text(f"`auto`: {courses['auto'].plan}.")
            ratios.append((name, courses))
    report.text("## auto against the best fixed setting")
    report.table(
        ["problem", *(f"best fixed setting to {goal}" for goal in GOALS), *(f"ratio to {goal}" for goal in GOALS)],
        [[name, *best(courses)] for name, courses in ratios],
    )


def best(courses: dict[str, Course]) -> list[str]:
    """The best fixed setting for every goal, and the time of auto as a share of its time."""
    names, shares = [], []
    for goal in GOALS:
        fixed = {name: course.until(goal) for name, course in courses.items() if name != "auto"}
        name = min(fixed, key=lambda one: fixed[one])
        reached = math.isfinite(fixed[name])
        own = courses["auto"].until(goal)
        names.append(f"{name}, {_seconds(fixed[name])}" if reached else "none")
        shares.append(f"{own / fixed[name]:.2f}" if reached and math.isfinite(own) else "–")
    return [*names, *shares]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if math.isfinite(seconds) else "–"
