"""CPU time to a given error where exact draws are forbidden: every fixed setting, and what `auto` chooses.

The problems are those of tools/hard_problems.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hard_problems import FAR, MORE, SIX, STATES, Hard

import chiasma as ch
from chiasma.kernels.layout import unpack_codes

if TYPE_CHECKING:
    from run import Report

GOALS = (0.02, 0.01)
SEEDS = (1,)
# CPU seconds of the longest run of a sampler, the draws of the first one, and how fast they grow.
LIMIT, FAR_LIMIT = 2.5, 7.0
FIRST = 40
GROWTH = 2.5
# A sampler is given up if its error, falling with the root of the work, would end so many times above the first goal.
HOPELESS = 6.0
BEFORE = "blocks of 5, mosaic, adapted ladder"


def blocks(size: int) -> dict[str, Any]:
    return {"update": ch.BlockGibbs(size=size), "exchange": None}


def ladder(size: int, exchange: str, rungs: Any) -> dict[str, Any]:
    return {"update": ch.BlockGibbs(size=size), "exchange": exchange, "ladder": rungs}


AUTO = {"auto": {"exact_seconds": 0}}
ALONE: dict[str, dict[str, Any]] = {
    "row Gibbs": {"update": "row", "exchange": None},
    "ball (1)": {"update": ch.HammingBall(radius=1), "exchange": None},
    **{f"blocks of {size}": blocks(size) for size in (3, 5, 8, 10)},
    "Gaussian blocks of 9": {"update": ch.GaussianBlocks(size=9), "exchange": None},
}
BINARY = ALONE | {
    "blocks of 5, mosaic, two rungs": ladder(5, "mosaic", [1, 5]),
    BEFORE: ladder(5, "mosaic", ch.Ladder.adapted()),
    **AUTO,
}
ANY: dict[str, dict[str, Any]] = {
    "row Gibbs": {"update": "row", "exchange": None},
    **{f"blocks of {size}": blocks(size) for size in (2, 3, 4)},
    "blocks of 3, mosaic, adapted ladder": ladder(3, "mosaic", ch.Ladder.adapted()),
    **AUTO,
}
# The same ladders for crossovers and for swaps, and the one that warm-up sizes for swaps.
CROSSOVERS = {
    "blocks of 3, mosaic, two rungs": ladder(3, "mosaic", [1, 5]),
    "blocks of 3, mosaic, four rungs": ladder(3, "mosaic", [1, 3, 9, 27]),
}
SWAPS = {
    "blocks of 3, swaps, two rungs": ladder(3, "swap", [1, 5]),
    "blocks of 3, swaps, four rungs": ladder(3, "swap", [1, 3, 9, 27]),
    "blocks of 3, swaps, adapted ladder": ladder(3, "swap", ch.Ladder.adapted()),
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
        if errors[-1] * math.sqrt(seconds[-1] / limit) > HOPELESS * GOALS[0]:
            break
    return Course(seconds[1:], errors[1:], plan)


def fits(hard: Hard, settings: dict[str, Any]) -> bool:
    """Whether an update can be used on this problem."""
    update = settings.get("update")
    if isinstance(update, ch.GaussianBlocks) and not isinstance(hard.model.emission, ch.Gaussian):
        return False
    return getattr(update, "size", 1) <= hard.model.n_rows


def race(report: Report, name: str, hard: Hard, samplers: dict[str, dict[str, Any]], limit: float) -> dict[str, Course]:
    """The courses of all samplers that fit a problem, and their table."""
    report.text(f"### {name}")
    usable = {sampler: settings for sampler, settings in samplers.items() if fits(hard, settings)}
    courses = {sampler: measure(hard, settings, limit) for sampler, settings in usable.items()}
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
    report.write()  # what there is, should the rest take too long
    return courses


def races(
    report: Report,
    title: str,
    problems: Mapping[str, Callable[[], Hard]],
    samplers: dict[str, dict[str, Any]],
    limit: float = LIMIT,
) -> dict[str, dict[str, Course]]:
    report.text(f"## {title}")
    return {name: race(report, name, make(), samplers, limit) for name, make in problems.items()}


def run(report: Report) -> None:
    report.text(
        "CPU seconds (one process, one chain, set-up, pilot and warm-up included, compilation not) until the mean "
        f"error of the probabilities is {GOALS[0]} and {GOALS[1]}, from runs of growing length, the mean over "
        f"seeds {', '.join(map(str, SEEDS))}; exact draws are forbidden (`exact_seconds=0`). A dash: not within about "
        f"{LIMIT:g} s ({FAR_LIMIT:g} s where an ensemble pays), or given up because its error, falling with the "
        f"root of the work, would end above {HOPELESS * GOALS[0]:g}; the error is of the longest run. The sampler that "
        f"`auto` was before the pilot: {BEFORE}."
    )
    courses = races(report, "Random weights", SIX, BINARY)
    far = races(report, "Where an ensemble pays", FAR, ALONE | CROSSOVERS | SWAPS | AUTO, FAR_LIMIT)
    report.text(
        "Rival explanations in which all rows are changed at once, in every sequence by itself. Single replicas stay "
        "where they began; swaps of whole paths have to fit in all sequences at once; crossovers take over the "
        "sequences that fit."
    )
    report.table(
        ["problem", "best single replica", "best swaps", "best crossovers", "auto"],
        [[name, *(leader(found, group) for group in (ALONE, SWAPS, CROSSOVERS, AUTO))] for name, found in far.items()],
    )
    courses |= races(report, "Sticky segments, several sequences, parts", MORE, BINARY)
    courses |= races(report, "Rows with more states", STATES, ANY)
    report.text("## auto against the best fixed setting")
    report.table(
        ["problem", *(f"best fixed setting to {goal}" for goal in GOALS), *(f"ratio to {goal}" for goal in GOALS)],
        [[name, *best(found)] for name, found in (courses | far).items()],
    )
    report.text(f"Against {BEFORE}, to {GOALS[0]} or to the end of its longest run:")
    report.table(["problem", "times as fast"], [[name, before(courses[name])] for name in [*SIX, *MORE]])


def leader(courses: dict[str, Course], names: Collection[str]) -> str:
    """The sampler of a group that reaches the first goal soonest, or comes nearest to it."""
    name = min(
        (name for name in names if name in courses),
        key=lambda one: (courses[one].until(GOALS[0]), courses[one].errors[-1]),
    )
    seconds = courses[name].until(GOALS[0])
    end = f"{GOALS[0]} in {seconds:.2g} s" if math.isfinite(seconds) else f"{courses[name].errors[-1]:.3f} at the end"
    return end if name == "auto" else f"{name}: {end}"


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


def before(courses: dict[str, Course]) -> str:
    """How many times as fast auto is as what it was before; at least, where that does not reach the goal."""
    own, other = (courses[name].until(GOALS[0]) for name in ("auto", BEFORE))
    if math.isfinite(other):
        return f"{other / own:.1f}"
    return f"> {courses[BEFORE].seconds[-1] / own:.1f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if math.isfinite(seconds) else "–"
