"""Effective draws per second of learned parameters: given the paths, and with the paths integrated out."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import arviz_stats as azs
import numpy as np

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

SIZES = ((3, 400), (3, 2_000), (5, 2_000))
WAYS: dict[str, tuple[int, dict[str, Any]]] = {
    "given the paths, row by row": (2_000, {"update": "row"}),
    "given the paths, all rows at once": (2_000, {"update": "block of all"}),
    "paths integrated out, by slices": (300, {"update": "exact"}),
    "paths integrated out, by jumps and trajectories": (1_000, {"update": "collapsed"}),
}
# Size of a genome: weights, depth, noise and switching learned, from separate starts.
GENOME = (6, 10_877)


def example(n_rows: int, n_columns: int) -> tuple[ch.FactorialHMM, np.ndarray, dict[str, Any]]:
    """Weights, depth, noise and switching unknown; data from typical values, where every chain starts."""
    model = ch.FactorialHMM(
        rows=ch.Switches(ch.Beta(1, 99), ch.Beta(1, 99), 0.5),
        emission=ch.Gaussian(ch.Dirichlet([2.0] * n_rows), depth=ch.Normal(15, 5), sd=ch.HalfNormal(3)),
    )
    weights = np.arange(1, n_rows + 1) + 0.3 * np.arange(n_rows) ** 2
    truth = {"enter": 0.01, "leave": 0.01, "weights": weights / weights.sum(), "depth": 15.0, "sd": 1.0}
    states, y = model.at(truth).simulate(n_columns, seed=2)
    return model, y, truth | {"states": states}


def run(report: Report) -> None:
    report.text(
        "Effective sample size per wall-clock second (bulk ESS of ArviZ): the minimum over all weights, and the values "
        "for depth, sd and enter. One chain, no tempering, started at the truth, without warm-up. All samplers have "
        "the same posterior. Given the paths, an iteration is cheap, but the correlation of paths and parameters can "
        "slow mixing. With the paths integrated out (a collapsed sampler), an iteration costs more."
    )
    rows = []
    for n_rows, n_columns in SIZES:
        model, y, start = example(n_rows, n_columns)
        for name, (draws, options) in WAYS.items():
            update = ch.BlockGibbs(size=n_rows) if options["update"] == "block of all" else options["update"]
            settings = {"update": update, "exchange": None, "chains": 1, "workers": 1, "seed": 1, "progress": False}
            ch.sample(model, y, init=start, draws=2, warmup=2, **settings)
            posterior = ch.sample(model, y, init=start, draws=draws, warmup=draws // 4, **settings)
            seconds = posterior.info["timings"]["draws"]
            ess = {
                key: float(np.min(azs.ess(posterior.parameters[key].values, chain_axis=0, draw_axis=1)))
                for key in ("weights", "depth", "sd", "enter")
            }
            per_second = [f"{value / seconds:,.1f}" for value in ess.values()]
            per_draw = min(ess.values()) / draws
            rows.append(
                [
                    f"K = {n_rows}, T = {n_columns:,}: {name}",
                    f"{1e3 * seconds / draws:.1f}",
                    f"{per_draw:.2f}",
                    *per_second,
                ]
            )
    header = ["problem", "ms per draw", "least ESS per draw", "weights /s", "depth /s", "sd /s", "enter /s"]
    report.table(header, rows)
    _genome(report)


def _genome(report: Report) -> None:
    """Four chains from separate starts, the search for optima included."""
    model, y, _ = example(*GENOME)
    began = perf_counter()
    posterior = ch.sample(model, y, draws=400, warmup=200, chains=4, seed=1, progress=False)
    seconds = perf_counter() - began
    names = ("weights", "depth", "sd", "enter", "leave")
    draws = [posterior.parameters[name].values for name in names]
    ess = [float(np.min(azs.ess(values, chain_axis=0, draw_axis=1))) for values in draws]
    rhat = [float(np.max(azs.rhat(values, chain_axis=0, draw_axis=1))) for values in draws]
    report.text(
        f"Size of a genome, K = {GENOME[0]} and T = {GENOME[1]:,}: four chains of 400 draws after 200 iterations of "
        "warm-up, from separate starts (`ch.sample` with its defaults). The time includes the search for optima."
    )
    row = [f"{seconds:.0f}", f"{min(ess):,.0f}", f"{max(rhat):.4f}", str(len(posterior.info["optima"]))]
    report.table(["seconds", "least ESS", "largest R-hat", "optima"], [row])
