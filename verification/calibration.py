"""Are posteriors over paths and parameters together what they claim to be? Simulation-based calibration.

Parameters from their priors, data from them, a posterior from the data: the rank of the truth among the draws must be
uniform, for every emission and every update, alone and inside a ladder.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from os import cpu_count
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

import chiasma as ch
from chiasma.sampling.learning import Learning

if TYPE_CHECKING:
    from run import Report

REPLICATIONS, COLUMNS, DRAWS, BINS = 200, 12, 31, 8
STARTS = [7]
# Probability that a correct sampler misses the goal, over all p-values together.
ALARM = 1e-3

UPDATES: dict[str, dict[str, Any]] = {
    "row": {"update": "row", "exchange": None, "thin": 8, "warmup": 80},
    "block": {"update": "block", "exchange": None, "thin": 8, "warmup": 80},
    "ball": {"update": "hamming-ball", "exchange": None, "thin": 8, "warmup": 80},
    "collapsed": {"update": "exact", "exchange": None, "thin": 2, "warmup": 40},
}

# Two rungs: mistakes at beta = 1/3 would reach the cold replica through the exchanges.
LADDERS: dict[str, dict[str, Any]] = {
    "row, mosaic and swap, betas 1/3 and 1": UPDATES["row"] | {"exchange": "mosaic", "ladder": [1, 3], "thin": 5},
    "collapsed, swap, betas 1/3 and 1": UPDATES["collapsed"] | {"exchange": "swap", "ladder": [1, 3], "thin": 1},
}


def model_of(kind: str) -> ch.FactorialHMM:
    emission = {
        "Gaussian": lambda: ch.Gaussian(ch.Dirichlet([2, 2]), depth=ch.Normal(3, 1), sd=ch.HalfNormal(1)),
        "IntegratedDepth": lambda: ch.IntegratedDepth(ch.Gamma([3, 3], 3), ch.Normal(3, 0.5), 0.3, ch.HalfNormal(1)),
        "Poisson": lambda: ch.Poisson(ch.Dirichlet([2, 2]), ch.Gamma(4, 1), ch.HalfNormal(0.5)),
    }[kind]()
    return ch.FactorialHMM(rows=ch.Switches(ch.Beta(2, 6), ch.Beta([2, 3], 5), 0.4), emission=emission)


def without_priors(self: Learning, values: np.ndarray) -> float:
    """A mutant: slices that know nothing of the priors."""
    return 0.0 if np.isfinite(self.parameters.log_prior_free(values)) else -np.inf


def ranks(task: tuple[str, str, int, bool]) -> xr.Dataset:
    kind, update, seed, mutant = task
    if mutant:
        Learning.log_prior_free = without_priors  # type: ignore[method-assign]
    return ch.calibration.calibration_ranks(
        model_of(kind), COLUMNS, REPLICATIONS // 4, draws=DRAWS, seed=seed, starts=STARTS, **(UPDATES | LADDERS)[update]
    )


def p_values(pool: ProcessPoolExecutor, kind: str, update: str, mutant: bool = False) -> dict[str, float]:
    parts = pool.map(ranks, [(kind, update, seed, mutant) for seed in range(4)])
    found = ch.calibration.uniformity(xr.concat(list(parts), "replication"), DRAWS, BINS)
    return {str(name): float(values.min()) * values.size for name, values in found.items()}


def run(report: Report) -> None:
    report.text(
        f"Simulation-based calibration: {REPLICATIONS} replications per line, {COLUMNS} columns in two sequences, two "
        f"rows. Each replication gives the rank of the true value among {DRAWS} thinned draws of one chain. The cells "
        f"are p-values of a chi-squared test for uniform ranks in {BINS} bins. A parameter with several values has the "
        "smallest of their p-values times their number (Bonferroni). No tempering unless the line says otherwise."
    )
    least = []
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("spawn")) as pool:
        for kind in ("Gaussian", "IntegratedDepth", "Poisson"):
            rows = []
            for update in UPDATES | LADDERS if kind == "Gaussian" else UPDATES:
                found = p_values(pool, kind, update)
                least += list(found.values())
                rows.append([update, *(f"{min(p, 1.0):.3f}" for p in found.values())])
            report.text(f"## {kind}")
            report.table(["update", *found], rows)
    report.goal(
        f"none of {len(least)} p-values is below {ALARM:g} / {len(least)} (smallest: {min(least):.2g}); a correct "
        f"sampler misses this goal with probability {ALARM:g}",
        min(least) > ALARM / len(least),
    )
    report.text("## Mutants\n\nSlice samplers that deliberately omit the priors:")
    rows = []
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("spawn")) as pool:
        for update in ("row", "collapsed"):
            found = p_values(pool, "Gaussian", update, mutant=True)
            rows.append([update, *(f"{min(p, 1.0):.2g}" for p in found.values())])
            least_mutant = min(found.values())
            report.goal(
                f"the mutant of {update!r} is rejected: p = {least_mutant:.1g}", least_mutant < ALARM / len(least)
            )
    report.table(["update", *found], rows)
