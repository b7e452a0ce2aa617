"""CPU time to a given error where exact draws are forbidden: every fixed setting, and what `auto` chooses.

The problems are those of tools/hard_problems.py, two at a time. HARD="ring; K = 40" in the environment runs those whose
names contain one of these texts, prints their tables and writes no file.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hard_problems import ANEW, FAR, MORE, SIX, STATES, Hard

import chiasma as ch
from chiasma.kernels.layout import unpack_codes
from chiasma.sampling import pilot

if TYPE_CHECKING:
    from run import Report

GOALS = (0.02, 0.01)
SEEDS = (1, 2, 3)
# Problems at a time, one on each core.
PROCESSES = 2
# CPU seconds of the longest run of a sampler, where explanations are far apart, and where an ensemble pays.
LIMIT, FAR_LIMIT, ANEW_LIMIT = 5.0, 10.0, 20.0
# Draws of a run that is not timed, since kernels are compiled in it: `auto` has kernels of its pilot, too.
COMPILING, COMPILING_AUTO = 60, 2700
# Draws of the first run, and how fast they grow.
FIRST, GROWTH = 100, 3.0
# Times as long as the fastest sampler so far, to the first goal and to the second, after which others are given up; and
# to the first as the fastest crossovers, where explanations are far apart.
BEHIND, FAR_BEHIND = dict(zip(GOALS, (1.8, 1.4), strict=True)), 3.2
# A sampler is given up sooner, from this share of that time on, if its error, falling with the root of the work, would
# reach the goal after this many times that time.
EARLY, HOPELESS = 0.1, 4.0
# What `auto` was before gets so many times as long as `auto` needs, in few runs.
TIMES_AS_FAST, BEFORE_GROWTH = 6.0, 6.0
BEFORE = "blocks of 5, mosaic, adapted ladder"


def blocks(size: int) -> dict[str, Any]:
    return {"update": ch.BlockGibbs(size=size), "exchange": None}


def ladder(size: int, exchange: str, rungs: Any) -> dict[str, Any]:
    return {"update": ch.BlockGibbs(size=size), "exchange": exchange, "ladder": rungs}


AUTO = {"auto": {"exact_seconds": 0}}
JUMPS: dict[str, dict[str, Any]] = {"blocks of 3, learned jumps": {"update": ch.Jumps(size=3), "exchange": None}}
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

    def needed(self, goal: float) -> float:
        """Seconds to the goal if the error of the longest run falls with the root of the work."""
        return self.seconds[-1] * (self.errors[-1] / goal) ** 2


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


def run_once(hard: Hard, settings: dict[str, Any], draws: int, seed: int) -> tuple[float, float, str]:
    """CPU seconds, error and plan of one chain from a draw of the prior, a fifth of it warm-up."""
    began = process_time()
    posterior = ch.sample(
        hard.model, hard.data, draws=draws, warmup=draws // 4, chains=1, workers=1, seed=seed, progress=False,
        **settings,
    )  # fmt: skip
    return process_time() - began, error(posterior, hard), str(posterior.info["plan"])


def measure(
    hard: Hard,
    settings: dict[str, Any],
    longest: float | Callable[[float], float],
    hopeless: float = HOPELESS,
    growth: float = GROWTH,
) -> Course:
    """Runs of growing length until the last goal is reached, or the sampler is given up.

    longest : seconds after which it is given up before it has reached a goal. hopeless : as HOPELESS.
    """
    run_once(hard, settings, COMPILING_AUTO if settings in AUTO.values() else COMPILING, 1)
    seconds, errors, plan, draws = [], [], "", FIRST
    while True:
        took, off, plans = zip(*(run_once(hard, settings, draws, seed) for seed in SEEDS), strict=True)
        seconds.append(float(np.mean(took)))
        errors.append(float(np.mean(off)))
        plan = plans[-1]
        goal = next((goal for goal in GOALS if min(errors) > goal), None)
        if goal is None:
            break
        end = longest(goal) if callable(longest) else longest
        needed = Course(seconds, errors, plan).needed(goal)
        if seconds[-1] > 0.95 * end or (seconds[-1] > EARLY * end and needed > hopeless * end):
            break
        draws = math.ceil(draws * min(growth, 1.05 * end / seconds[-1]))
    return Course(seconds, errors, plan)


def fits(hard: Hard, settings: dict[str, Any]) -> bool:
    """Whether an update can be used on this problem."""
    update = settings.get("update")
    if isinstance(update, ch.GaussianBlocks) and not isinstance(hard.model.emission, ch.Gaussian):
        return False
    return getattr(update, "size", 1) <= hard.model.n_rows


ALONE_FAR = {sampler: settings for sampler, settings in ALONE.items() if sampler != "ball (1)"}


class Section(NamedTuple):
    """Problems, their samplers, and the CPU seconds of the longest run of one."""

    title: str
    problems: dict[str, Callable[[], Hard]]
    samplers: dict[str, dict[str, Any]]
    limit: float


SECTIONS = [
    Section("Random weights", SIX, BINARY, LIMIT),
    Section("Where an ensemble pays", ANEW, ALONE_FAR | SWAPS | JUMPS | CROSSOVERS | AUTO, ANEW_LIMIT),
    Section("Explanations that are far apart", FAR, ALONE_FAR | SWAPS | CROSSOVERS | JUMPS | AUTO, FAR_LIMIT),
    Section("Sticky segments, several sequences, parts", MORE, BINARY, LIMIT),
    Section("Rows with more states", STATES, ANY, LIMIT),
]


def race(name: str) -> tuple[dict[str, Course], float]:
    """The courses of all samplers that fit a problem, and the CPU seconds that they took."""
    began = process_time()
    section = next(one for one in SECTIONS if name in one.problems)
    hard, samplers = section.problems[name](), section.samplers
    courses: dict[str, Course] = {}

    def longest(goal: float) -> float:
        crossovers = min((courses[one].until(goal) for one in CROSSOVERS if one in courses), default=math.inf)
        if goal == GOALS[0] and name in ANEW and math.isfinite(crossovers):
            return FAR_BEHIND * crossovers
        if goal == GOALS[0] and name in FAR:
            return min(section.limit, FAR_BEHIND * crossovers)
        return min(section.limit, BEHIND[goal] * min((one.until(goal) for one in courses.values()), default=math.inf))

    # Samplers are given up by what is there: the fastest ones first, which are the last of the table.
    for sampler in reversed(samplers):
        if sampler == BEFORE and name in SIX:  # `auto` has had its turn
            until = TIMES_AS_FAST * min(courses["auto"].until(GOALS[0]), section.limit)
            courses[sampler] = measure(hard, samplers[sampler], until, math.inf, BEFORE_GROWTH)
        elif fits(hard, samplers[sampler]):
            # Short runs of `auto` say nothing of longer ones, which have time for a pilot that tries more.
            courses[sampler] = measure(hard, samplers[sampler], longest, math.inf if sampler in AUTO else HOPELESS)
    print(f"done: {name}", file=sys.stderr, flush=True)
    return {sampler: courses[sampler] for sampler in samplers if sampler in courses}, process_time() - began


def show(report: Report, name: str, courses: dict[str, Course]) -> None:
    report.text(f"### {name}")
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


def run(report: Report) -> None:
    if "HARD" in os.environ:
        report.path = Path(os.devnull)
    asked = [text.strip() for text in os.environ.get("HARD", "").split(";")]
    names = [name for section in SECTIONS for name in section.problems if any(text in name for text in asked)]
    first, second = GOALS
    report.text(
        "CPU seconds (one process, one chain, set-up, pilot and warm-up included, compilation not; two problems at a "
        f"time, one on each core) until the mean error of the probabilities is {first} and {second}, from runs of "
        f"growing length, the mean over seeds {', '.join(map(str, SEEDS))}; exact draws are forbidden "
        f"(`exact_seconds=0`). A dash: given up, after {LIMIT:g} s, or {BEHIND[first]:g} times as long as the fastest "
        f"sampler needed to {first} and {BEHIND[second]:g} times to {second}. Where explanations are far apart, to "
        f"{first}: after {FAR_LIMIT:g} s, or {FAR_BEHIND:g} times as long as the fastest crossovers. Where an ensemble "
        f"pays: after {ANEW_LIMIT:g} s, and all but crossovers and `auto` after {FAR_BEHIND:g} times as long as the "
        f"fastest crossovers to {first}. All but `auto` sooner, if the error, falling with the root of the work, would "
        f"take {HOPELESS:g} times that to reach the goal. The error is of the longest run. The sampler that `auto` was "
        f"before the pilot: {BEFORE}; on the first six problems it gets {TIMES_AS_FAST:g} times as long as `auto` "
        "needs."
    )
    with ProcessPoolExecutor(PROCESSES) as pool:
        # Those that take longest begin.
        order = sorted(names, key=lambda name: (name not in ANEW, name not in FAR))
        raced = dict(zip(order, pool.map(race, order), strict=True))
    found = {name: raced[name][0] for name in names}
    for section in SECTIONS:
        own = {name: found[name] for name in names if name in section.problems}
        if not own:
            continue
        report.text(f"## {section.title}")
        for name, courses in own.items():
            show(report, name, courses)
        if section.problems is ANEW:
            report.text(
                "Rows that are on or off together, others in every sequence. Blocks stay where they began; swaps of "
                "whole paths have to fit in all sequences at once; crossovers take over the sequences that fit. Jumps "
                "along differences between chains have to learn another difference for every sequence, and try them "
                "one by one. The pilot recognises such problems by this rule: chains are stuck with blocks of the "
                f"default size (slowness above {pilot.STUCK:g}: they differ by more than the halves of each chain "
                "explain) and with larger blocks and jumps as well, and a few rungs with crossovers lower the score by "
                f"a factor of at least {1 / pilot.GAIN:g}; where two candidates are that close, both run again, longer."
            )
        elif section.problems is FAR:
            report.text(
                "Rows that flip together, the same ones in every sequence: what chains learn from one sequence serves "
                "all others, and jumps need no ladder. The pilot tries ladders only where chains are stuck with jumps."
            )
        if section.problems in (ANEW, FAR):
            groups = (ALONE_FAR, SWAPS, JUMPS, CROSSOVERS, AUTO)
            report.table(
                ["problem", "best blocks alone", "best swaps", "jumps", "best crossovers", "auto"],
                [[name, *(leader(courses, group) for group in groups)] for name, courses in own.items()],
            )
            report.text(
                f"How many times as fast to {GOALS[0]} the best crossovers are. '>': the others do not reach it, and "
                "would need so long if their errors fell on with the root of the work, as they would if they were not "
                "stuck; in brackets, how many times the time of the crossovers they were given:"
            )
            report.table(
                ["problem", "than blocks alone", "than swaps", "than jumps"],
                [[name, *(ahead(courses, group) for group in groups[:3])] for name, courses in own.items()],
            )
    report.text("## auto against the best fixed setting")
    report.table(
        ["problem", *(f"best fixed setting to {goal}" for goal in GOALS), *(f"ratio to {goal}" for goal in GOALS)],
        [[name, *best(courses)] for name, courses in found.items()],
    )
    report.text(f"Against {BEFORE}, to {GOALS[0]} or to the end of its longest run:")
    report.table(
        ["problem", "times as fast"], [[name, before(courses)] for name, courses in found.items() if BEFORE in courses]
    )
    minutes = sum(seconds for _, seconds in raced.values()) / 60
    report.text(f"All of this took {minutes:.0f} minutes of CPU time.")


def ahead(courses: dict[str, Course], names: Collection[str]) -> str:
    """How many times as fast the best crossovers are as the best sampler of a group."""
    own = min(courses[name].until(GOALS[0]) for name in CROSSOVERS)
    others = [courses[name] for name in names if name in courses]
    reached = min(course.until(GOALS[0]) for course in others)
    if not math.isfinite(own):
        return "–"
    if math.isfinite(reached):
        return f"{reached / own:.2g}"
    nearest = min(others, key=lambda course: course.needed(GOALS[0]))
    return f"> {nearest.needed(GOALS[0]) / own:.1f} ({nearest.seconds[-1] / own:.1f})"


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
        shares.append(
            f"{own / fixed[name]:.2f}" if reached and math.isfinite(own) else "not reached" if reached else "–"
        )
    return [*names, *shares]


def before(courses: dict[str, Course]) -> str:
    """How many times as fast auto is as what it was before; at least, where that does not reach the goal."""
    own, other = (courses[name].until(GOALS[0]) for name in ("auto", BEFORE))
    if math.isfinite(other):
        return f"{other / own:.1f}"
    return f"> {courses[BEFORE].seconds[-1] / own:.1f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if math.isfinite(seconds) else "–"
