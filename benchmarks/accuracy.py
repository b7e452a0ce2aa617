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
from chiasma.experiments.genome import tumour_genome
from chiasma.experiments.study import simulation_study
from chiasma.kernels.codes import unpack

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "verification"))
from groups import problem as grouped_problem

if TYPE_CHECKING:
    from run import Report

GOAL = 0.02
FASTER = 100
UPDATES: dict[str, Any] = {"row": "row", "block (3)": "block", "HB(1)": ch.HammingBall(radius=1)}
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
    """Seconds and the error by then."""

    seconds: np.ndarray
    errors: np.ndarray

    def until(self, goal: float) -> float:
        """Seconds until the error is at most `goal` and stays there; infinity if never."""
        above = np.flatnonzero(self.errors > goal)
        reached = 0 if not len(above) else above[-1] + 1
        return float(self.seconds[reached]) if reached < len(self.seconds) else np.inf

    def at(self, seconds: float) -> float:
        """Error after so many seconds."""
        return float(self.errors[max(0, np.searchsorted(self.seconds, seconds, side="right") - 1)])


def samplers(extra: dict[str, dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    paper = {"ladder": [1, 5]}
    made: dict[str, dict[str, Any]] = {}
    for update, chosen in UPDATES.items():
        for exchange, move in EXCHANGES.items():
            made[f"{update}, {exchange}"] = {"update": chosen, "exchange": move} | (paper if move else {})
    for exchange in ("swap", "augmented", "mosaic"):
        made[f"block (3), {exchange}, adapted ladder"] = {"update": "block", "exchange": exchange}
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
    """One chain from zeros, as many sweeps as the time allows; a fifth of them is warm-up.

    Seconds of a draw are those of a call that makes next to nothing, and the rest in proportion to the sweeps made.
    """
    start = np.zeros((problem.model.n_rows, problem.data.n_columns), int)
    for row, x in problem.model.fixed_rows.items():
        start[row] = x
    run = partial(
        ch.sample, problem.model, problem.data, chains=1, init=start, seed=1, workers=1, progress=False, **settings
    )

    def timed(draws: int, warmup: int) -> tuple[ch.Posterior, float]:
        began = perf_counter()
        return run(draws=draws, warmup=warmup), perf_counter() - began

    timed(1, 1)  # compiles
    fixed = min(timed(1, 1)[1] for _ in range(3))
    per_sweep = max(timed(24, 8)[1] - fixed, 1e-5) / 30
    draws = int(np.clip(0.8 * seconds / per_sweep, 8, 20_000))
    warmup = draws // 4
    posterior, took = timed(draws, warmup)
    if str(posterior.info["plan"]).startswith("exact"):
        warmup = 0  # independent draws need none
    codes = posterior.codes.values[0]
    points = np.unique(np.geomspace(1, draws, 40).astype(int))
    total, done = np.zeros(problem.exact.shape), 0
    errors = []
    for n in points:
        total += sum(
            unpack(block, len(total)).sum(axis=0) for block in np.array_split(codes[done:n], 1 + (n - done) // 64)
        )
        done = n
        errors.append(np.abs(total / n - problem.exact).mean())
    return Curve(fixed + max(took - fixed, 0.0) * (warmup + points) / (warmup + draws), np.array(errors))


def run(report: Report) -> None:
    curves: dict[str, dict[str, Curve]] = {}
    report.text(
        "Mean over rows and columns of |marginal − exact marginal| after some seconds by the clock, one chain from "
        "zeros, set-up and warm-up (a fifth of the sweeps) included, compilation not. Two rungs are the paper's "
        "temperatures 1 and 5 with an exchange after every sweep; an adapted ladder runs from the prior to the target. "
        "Where warm-up alone takes longer than that, the error is the one after the first draw. "
        f"The last column: seconds until the error is at most {GOAL} and stays there."
    )
    for problem in problems():
        curves[problem.name] = {
            # What auto is held against gets the time to show that it is slow.
            name: measure(problem, settings, problem.seconds * (12 if "paper" in name else 1))
            for name, settings in problem.samplers.items()
        }
        times = [problem.seconds * share for share in (0.03, 0.1, 0.3, 1.0)]
        report.text(f"## {problem.name[0].upper()}{problem.name[1:]}")
        report.table(
            ["sampler", *(f"{t:.2g} s" for t in times), f"to {GOAL}"],
            [
                [name, *(f"{curve.at(t):.4f}" for t in times), _seconds(curve.until(GOAL))]
                for name, curve in curves[problem.name].items()
            ],
        )
    genome = next(value for name, value in curves.items() if "genome" in name)
    paper = genome["HB(3), augmented (paper)"]
    spent = min(paper.until(GOAL), float(paper.seconds[-1]))
    ratio = spent / genome["auto"].until(GOAL)
    more = "" if np.isfinite(paper.until(GOAL)) else "more than "
    report.text(
        f"Time to {GOAL} on the genome: auto is {more}{ratio:.0f} times as fast as HB(3) with augmented crossovers on "
        f"the paper's ladder. To reach: {FASTER}; "
        f"{'reached' if ratio >= FASTER else 'not shown within the time given'}.\n\n"
        "![error against time](accuracy.png)"
    )
    picture(curves)


def _seconds(value: float) -> str:
    return "–" if np.isinf(value) else f"{value:.3g} s"


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
    axes[1].legend(fontsize=7)
    figure.savefig(Path(__file__).resolve().parent / "results" / "accuracy.png", dpi=110)
    plt.close(figure)
