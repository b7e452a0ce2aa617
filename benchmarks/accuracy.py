"""Error per second: mean error of the posterior marginals against the exact ones, as wall time passes.

Every update with every exchange on the paper's two rungs, with an adapted ladder, and what `auto` chooses; on the
simulation study, the tumour genome and a problem of 24 rows whose exact marginals are known by construction.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import chiasma as ch
from chiasma.datasets.genome import tumour_genome
from chiasma.kernels.codes import unpack

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "verification"))
from groups import problem as grouped_problem

from paper.study import simulation_study

if TYPE_CHECKING:
    from run import Report

GOAL = 0.02
FASTER = 100
SEEDS = (1, 2)
UPDATES: dict[str, Any] = {"row": "row", "block (3)": ch.BlockGibbs(size=3), "HB(1)": ch.HammingBall(radius=1)}
EXCHANGES = {"none": None, "swap": "swap", "random": "random", "augmented": "augmented", "mosaic": "mosaic"}


class Problem(NamedTuple):
    """A model with data, its exact marginals (K, T), and seconds that a sampler gets."""

    name: str
    model: ch.FactorialHMM
    data: ch.Observations
    exact: np.ndarray
    seconds: float
    samplers: dict[str, dict[str, Any]]


class Curve(NamedTuple):
    """Seconds and the error by then, and what the sampler was."""

    seconds: np.ndarray
    errors: np.ndarray
    plan: str

    def until(self, goal: float) -> float:
        """Seconds until the error is at most `goal` and stays there; infinity if never."""
        above = np.flatnonzero(self.errors > goal)
        reached = 0 if not len(above) else above[-1] + 1
        return float(self.seconds[reached]) if reached < len(self.seconds) else np.inf

    def at(self, seconds: float) -> float:
        """Error after this many seconds; NaN before the first draw."""
        made = int(np.searchsorted(self.seconds, seconds, side="right"))
        return float(self.errors[made - 1]) if made else np.nan


def samplers(extra: dict[str, dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    paper = {"ladder": [1, 5]}
    made: dict[str, dict[str, Any]] = {}
    for update, chosen in UPDATES.items():
        for exchange, move in EXCHANGES.items():
            made[f"{update}, {exchange}"] = {"update": chosen, "exchange": move} | (paper if move else {})
    for exchange in ("swap", "augmented", "mosaic"):
        made[f"block (3), {exchange}, adapted ladder"] = {"update": UPDATES["block (3)"], "exchange": exchange}
    return made | (extra or {}) | {"auto": {}}


def problems() -> list[Problem]:
    study = simulation_study(seed=1)
    genome = tumour_genome(seed=1)
    model, y, exact = grouped_problem()
    ball = {"HB(3), augmented (paper)": {"update": ch.HammingBall(radius=3), "exchange": "augmented", "ladder": [1, 5]}}
    return [
        Problem(
            "simulation study, K = 3, T = 195",
            study.model,
            study.data,
            ch.exact.marginals(study.model, study.data),
            0.5,
            samplers(),
        ),
        Problem(
            "tumour genome, K = 6, T = 10,877",
            genome.model,
            genome.signal.data,
            ch.exact.marginals(genome.model, genome.signal.data),
            3.0,
            samplers(ball),
        ),
        Problem(
            "8 groups of 3 rows, K = 24, T = 2,000",
            model,
            ch.Observations(y),
            exact,
            12.0,
            samplers(),
        ),
    ]


def measure(problem: Problem, settings: dict[str, Any], seconds: float) -> Curve:
    """One chain from zeros, as many sweeps as the time allows, a fifth of them warm-up; mean over the seeds.

    Seconds of a draw are those of a call that makes next to nothing, and the rest in proportion to the sweeps made.
    """
    start = np.zeros((problem.model.n_rows, problem.data.n_columns), int)
    for row, x in problem.model.fixed.items():
        start[row] = x
    run = partial(ch.sample, problem.model, problem.data, chains=1, init=start, workers=1, progress=False, **settings)

    def timed(draws: int, warmup: int, seed: int = 1) -> tuple[ch.Posterior, float]:
        began = perf_counter()
        return run(draws=draws, warmup=warmup, seed=seed), perf_counter() - began

    timed(1, 1)  # compiles
    fixed = min(timed(1, 1)[1] for _ in range(3))
    per_sweep = max(timed(24, 8)[1] - fixed, 1e-5) / 30
    draws = int(np.clip(0.8 * seconds / per_sweep, 8, 20_000))
    points = np.unique(np.geomspace(1, draws, 40).astype(int))
    curves = []
    for seed in SEEDS:
        posterior, took = timed(draws, draws // 4, seed)
        # Independent draws need no warm-up.
        warmup = 0 if str(posterior.info["plan"]).startswith("exact") else draws // 4
        times = fixed + max(took - fixed, 0.0) * (warmup + points) / (warmup + draws)
        curves.append((times, errors(posterior.codes.values[0], points, problem.exact)))
    return Curve(*np.mean(curves, axis=0), plan=str(posterior.info["plan"]))


def errors(codes: np.ndarray, points: np.ndarray, exact: np.ndarray) -> list[float]:
    """Mean error of the marginals of the first n paths, for n in points."""
    total, done = np.zeros(exact.shape), 0
    found = []
    for n in points:
        for block in np.array_split(codes[done:n], 1 + (n - done) // 64):
            total += unpack(block, len(total)).sum(axis=0)
        done = n
        found.append(float(np.abs(total / n - exact).mean()))
    return found


def run(report: Report) -> None:
    curves: dict[str, dict[str, Curve]] = {}
    report.text(
        "Mean over rows and columns of |marginal − exact marginal| after a given wall-clock time, for one chain that "
        "starts from zeros; the mean of "
        f"{len(SEEDS)} runs. Times include set-up and warm-up (a fifth of the sweeps) but not compilation. Without "
        "an adapted ladder, an exchange uses the paper's temperatures 1 and 5 and follows every sweep. An adapted "
        "ladder runs from the prior to the target. The last column is the time until the error falls to "
        f"{GOAL} and stays there. A dash means that warm-up had not finished by then or, in the last column, that the "
        f"error did not settle at {GOAL} or below."
    )
    for problem in problems():
        curves[problem.name] = {
            # The paper's sampler, which auto is compared with, gets enough time to show that it is slow.
            name: measure(problem, settings, problem.seconds * (12 if "paper" in name else 1))
            for name, settings in problem.samplers.items()
        }
        times = [problem.seconds * share for share in (0.03, 0.1, 0.3, 1.0)]
        report.text(f"## {problem.name[0].upper()}{problem.name[1:]}")
        report.table(
            ["sampler", *(f"{t:.2g} s" for t in times), f"to {GOAL}"],
            [
                [name, *(_number(curve.at(t), ".4f") for t in times), _number(curve.until(GOAL), ".3g", " s")]
                for name, curve in curves[problem.name].items()
            ],
        )
        report.text(f"`auto` chose: {curves[problem.name]['auto'].plan}.")
    genome = next(value for name, value in curves.items() if "genome" in name)
    paper = genome["HB(3), augmented (paper)"]
    spent = min(paper.until(GOAL), float(paper.seconds[-1]))
    ratio = spent / genome["auto"].until(GOAL)
    more = "" if np.isfinite(paper.until(GOAL)) else "more than "
    report.text(
        f"Time to an error of {GOAL} on the genome: auto is {more}{ratio:.0f} times as fast as HB(3) with augmented "
        f"crossovers on the paper's ladder. Goal: {FASTER} times; "
        f"{'reached' if ratio >= FASTER else 'not shown within the time given'}.\n\n"
        "![error against time](accuracy.png)"
    )
    picture(curves)


def _number(value: float, form: str, unit: str = "") -> str:
    return f"{value:{form}}{unit}" if np.isfinite(value) else "–"


def picture(curves: dict[str, dict[str, Curve]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = ("row, none", "row, swap", "row, augmented", "row, mosaic", "HB(3), augmented (paper)", "auto")
    shown += ("block (3), mosaic, adapted ladder",)
    figure, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.6), constrained_layout=True)
    for axis, (title, lines) in zip(axes, curves.items(), strict=True):
        for i, name in enumerate(shown):
            if name in lines:
                axis.loglog(
                    lines[name].seconds, lines[name].errors, color=f"C{i}", label=name, lw=2 if name == "auto" else 1
                )
        axis.axhline(GOAL, color="0.7", lw=0.8)
        axis.set(title=title, xlabel="seconds", ylabel="mean marginal error")
        axis.title.set_fontsize(9)
    handles = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(Path(__file__).resolve().parent / "results" / "accuracy.png", dpi=110)
    plt.close(figure)
