"""Parameters by jumps between optima and by trajectories: calibration, mutants, coverage, two modes against a grid.

Simulation-based calibration of the collapsed sampler alone and inside a ladder; of samplers with deliberate mistakes;
coverage of its intervals on simulated genomes, from separate starts; and masses of rival explanations.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from os import cpu_count
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from calibration import model_of
from intervals import HIGH, LOW, genome_model, grid_mass, rivals
from scipy.stats import binom

import chiasma as ch
from chiasma.results.ladder_stats import batch_error
from chiasma.sampling.gradient_engine import GradientEngine
from chiasma.sampling.laplace import Proposals

if TYPE_CHECKING:
    from run import Report

REPLICATIONS, COLUMNS, DRAWS, BINS = 80, 12, 31, 8
# Probability that a correct sampler misses the goal of calibration, over all p-values together.
ALARM = 1e-3
GENOMES, SITES = 40, 1_000

SAMPLERS: dict[str, dict[str, Any]] = {
    "alone": {"update": ch.Collapsed(starts=2), "exchange": None, "warmup": 40},
    "betas 1/3 and 1": {"update": ch.Collapsed(starts=2), "exchange": "swap", "ladder": [1, 3], "warmup": 40},
}


def jumps_only() -> None:
    GradientEngine._trajectory = lambda self, r, rng: None  # type: ignore[method-assign]


def trajectories_only() -> None:
    GradientEngine._jump = lambda self, r, weight, rng: weight  # type: ignore[method-assign]
    adapt = GradientEngine._adapt

    def adapted(self: GradientEngine, r: int) -> None:
        adapt(self, r)
        self.every_hmc[r] = 1

    GradientEngine._adapt = adapted  # type: ignore[method-assign]


def no_proposal_density() -> None:
    jumps_only()
    Proposals.log_density = lambda self, x: np.zeros(len(x))  # type: ignore[method-assign]


def no_jacobian() -> None:
    jumps_only()
    GradientEngine._log_prior = lambda self, values: self.learning.log_prior(values)  # type: ignore[method-assign]


def metric_of_the_state() -> None:
    trajectories_only()
    plain = GradientEngine._trajectory

    def stretched(self: GradientEngine, r: int, rng: np.random.Generator) -> None:
        kept = self.proposals[r].roots
        self.proposals[r].roots = kept * (1.5 if self._here(r)[0].sum() > -1.0 else 0.3)
        plain(self, r, rng)
        self.proposals[r].roots = kept

    GradientEngine._trajectory = stretched  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "without the proposal density": no_proposal_density,
    "without the Jacobian": no_jacobian,
    "with a metric that depends on the state": metric_of_the_state,
}


def ranks(task: tuple[str, str, int]) -> xr.Dataset:
    kind, sampler, seed = task
    if sampler in MUTANTS:
        MUTANTS[sampler]()
    options = SAMPLERS.get(sampler, SAMPLERS["alone"])
    return ch.calibration.calibration_ranks(
        model_of(kind), COLUMNS, REPLICATIONS // 4, draws=DRAWS, seed=seed, starts=[7], **options
    )


def p_values(kind: str, sampler: str) -> dict[str, float]:
    # A separate pool: changes to a class stay in its processes.
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("spawn")) as pool:
        parts = pool.map(ranks, [(kind, sampler, seed) for seed in range(4)])
        found = ch.calibration.uniformity(xr.concat(list(parts), "replication"), DRAWS, BINS)
    return {str(name): float(values.min()) * values.size for name, values in found.items()}


def covered(seed: int) -> dict[str, list[bool]]:
    """Whether each 90% interval of one genome holds the truth; chains start where the search for optima leads."""
    rng = np.random.default_rng(seed)
    model = genome_model(3)
    named = model.parameters.unpack(model.parameters.sample(rng))
    truth = named | {"weights": np.sort(named["weights"])}
    _, y = model.at(truth).simulate(SITES, rng)
    posterior = ch.sample(
        model, y, update=ch.Collapsed(starts=8), draws=200, warmup=64, chains=1, workers=1, seed=seed, progress=False
    )
    out = {}
    for name, value in truth.items():
        low, high = posterior.parameters[name].quantile([LOW, HIGH], ("chain", "draw")).values
        out[name] = np.atleast_1d((low <= value) & (value <= high)).tolist()
    return out


def run(report: Report) -> None:
    _calibration(report)
    _coverage(report)
    _modes(report)


def _calibration(report: Report) -> None:
    report.text(
        f"## Calibration\n\n{REPLICATIONS} replications per line, {COLUMNS} columns in two sequences, two rows; "
        f"p-values of uniform ranks among {DRAWS} draws in {BINS} bins, as in calibration.md."
    )
    rows, least = [], []
    for kind, sampler in [("Gaussian", name) for name in SAMPLERS] + [("Poisson", "alone")]:
        found = p_values(kind, sampler)
        least += list(found.values())
        rows.append([f"{kind}, {sampler}", *(f"{min(found.get(name, np.nan), 1.0):.3f}" for name in NAMES)])
    report.table(["sampler", *NAMES], rows)
    report.goal(
        f"none of {len(least)} p-values is below {ALARM:g} / {len(least)} (smallest: {min(least):.2g}); a correct "
        f"sampler misses this goal with probability {ALARM:g}",
        min(least) > ALARM / len(least),
    )
    for mutant in MUTANTS:
        smallest = min(p_values("Gaussian", mutant).values())
        report.goal(f"a sampler {mutant} is rejected: p = {smallest:.1g}", smallest < ALARM / len(least))


NAMES = ("enter", "leave", "weights", "depth", "sd", "background", "rows_on")


def _coverage(report: Report) -> None:
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("spawn")) as pool:
        found = list(pool.map(covered, range(GENOMES)))
    report.text(
        f"## Coverage\n\n{GENOMES} genomes of {SITES:,} columns with 3 rows; parameters from their priors, chains from "
        "starts of their own: a chain in the wrong mode would miss the truth."
    )
    rows, reached = [], True
    for name in ("weights", "depth", "sd"):
        hits = [hit for one in found for hit in one[name]]
        law = binom(len(hits), 0.9)
        tail = 2 * min(law.cdf(sum(hits)), law.sf(sum(hits) - 1))
        rows.append([name, f"{len(hits)}", f"{np.mean(hits):.3f}", f"{min(tail, 1.0):.2f}"])
        reached &= tail > 0.003
    report.table(["parameter", "intervals", "coverage", "p-value"], rows)
    report.goal("for each parameter, the coverage of 90% intervals has a p-value above 0.003", reached)


def _modes(report: Report) -> None:
    model, y = rivals()
    exact = grid_mass(model, y)
    report.text(f"## Rivals\n\nThe example of intervals.md: P(depth < 8 | y) = {exact:.4f} by a fine grid.")
    rows = []
    for name, options in {"one rung": {}, "betas 1/4 and 1": {"ladder": [1, 4]}}.items():
        began = perf_counter()
        posterior = ch.sample(
            model, y, update="collapsed", draws=1_500, warmup=200, chains=2, seed=1, progress=False, **options
        )
        inside = (posterior.parameters["depth"].values < 8).astype(float)
        error = batch_error(inside)
        spread = inside.mean(axis=1)
        rows.append(
            [name, f"{inside.mean():.4f}", f"{error:.4f}", f"{spread.min():.2f} to {spread.max():.2f}",
             f"{perf_counter() - began:.0f}"]
        )  # fmt: skip
        report.goal(
            f"{name}: {inside.mean():.4f}, within 3 standard errors of {exact:.4f}",
            abs(inside.mean() - exact) < 3 * error,
        )
    report.table(["sampler", "P(depth < 8)", "s.e.", "by chain", "seconds"], rows)
