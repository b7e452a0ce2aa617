"""Do 90% intervals of weights, depth and noise hold the truth, and do rival explanations get their due?

Simulated genomes with known parameters; then data that two sets of parameters explain, whose masses a fine grid of the
exact marginal likelihood gives.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from os import cpu_count
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

import chiasma as ch
from chiasma.results.ladder_stats import batch_error

if TYPE_CHECKING:
    from run import Report

GENOMES, COLUMNS = 100, 2_000
LOW, HIGH = 0.05, 0.95


def genome_model(n_rows: int) -> ch.FactorialHMM:
    """Weights that add up to 1, a depth and a noise that are hardly known, in the scale of the paper's tumour."""
    return ch.FactorialHMM(
        rows=ch.Switches(0.01, 0.01),
        emission=ch.Gaussian(ch.Dirichlet([4.0] * n_rows), depth=ch.Normal(180, 30), sd=ch.HalfNormal(15)),
    )


def covered(seed: int) -> dict[str, list[bool]]:
    """Whether each interval of one genome holds the truth; rows in the order of their weights."""
    rng = np.random.default_rng(seed)
    model = genome_model(3 + seed % 3)
    values = model.parameters.sample(rng)
    named = model.parameters.unpack(values)
    truth = named | {"weights": np.sort(named["weights"])}
    states, y = model.at(truth).simulate(COLUMNS, rng)
    posterior = ch.sample(
        model, y, update=ch.BlockGibbs(size=model.n_rows), exchange=None, init={"states": states, **truth},
        draws=600, warmup=200, thin=2, chains=1, workers=1, seed=seed, progress=False,
    )  # fmt: skip
    out = {}
    for name, value in truth.items():
        low, high = posterior.parameters[name].quantile([LOW, HIGH], ("chain", "draw")).values
        out[name] = np.atleast_1d((low <= value) & (value <= high)).tolist()
    return out


def rivals() -> tuple[ch.FactorialHMM, np.ndarray]:
    """A signal of two levels, 0 and 6: two rows that switch together at depth 6, or one of them at a greater depth."""
    model = ch.FactorialHMM(
        rows=ch.Switches(0.2, 0.2),
        emission=ch.Gaussian(ch.Dirichlet([3.0, 3.0]), depth=ch.Gamma(6, 0.6), sd=1.0),
    )
    on = np.repeat([0, 1, 0, 1, 0], [6, 8, 6, 4, 6])
    return model, 6.0 * on + np.random.default_rng(5).normal(0, 1.0, len(on))


def grid_mass(model: ch.FactorialHMM, y: np.ndarray, n: int = 240) -> float:
    """P(depth < 8 | y), on a grid of the smaller weight and the depth."""
    weights = (np.arange(n) + 0.5) / (2 * n)
    depths = (np.arange(n) + 0.5) * 30 / n
    prior = model.emission.priors
    log = np.empty((n, n))
    for i, w in enumerate(weights):
        pair = np.array([w, 1 - w])
        for j, depth in enumerate(depths):
            density = prior["weights"].log_density(pair) + prior["depth"].log_density(np.array(depth))
            log[i, j] = density + ch.exact.log_evidence(
                model.with_unchecked_values({"weights": pair, "depth": np.array(depth)}), y
            )
    return float(np.exp(logsumexp(log[:, depths < 8]) - logsumexp(log)))


def run(report: Report) -> None:
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("spawn")) as pool:
        found = list(pool.map(covered, range(GENOMES)))
    report.text(
        f"## Coverage\n\n{GENOMES} genomes of {COLUMNS:,} columns with 3, 4 or 5 rows. Weights, depth and sd are drawn "
        "from their priors. The 90% intervals come from 600 draws with blocks of all rows; the chains start at the "
        "truth, so they sample the correct mode. The last column is a two-sided binomial p-value: the probability of "
        "a coverage at least this far from 0.9 if the intervals were exact and independent."
    )
    rows, reached = [], True
    for name in ("weights", "depth", "sd"):
        hits = [hit for one in found for hit in one[name]]
        share = float(np.mean(hits))
        law = binom(len(hits), 0.9)
        tail = 2 * min(law.cdf(sum(hits)), law.sf(sum(hits) - 1))
        rows.append([name, f"{len(hits)}", f"{share:.3f}", f"{min(tail, 1.0):.2f}"])
        reached &= 0.85 <= share <= 0.95
    report.table(["parameter", "intervals", "coverage", "p-value"], rows)
    report.goal("for each parameter, between 85% and 95% of the intervals contain the truth", reached)

    model, y = rivals()
    exact = grid_mass(model, y)
    report.text(
        "## Rivals\n\n"
        "Thirty columns at levels 0 and 6. Two explanations fit: two rows that switch together at depth 6, or one row "
        "alone at a greater depth. The exact marginal likelihood on a fine grid gives P(depth < 8 | y) = "
        f"{exact:.4f}."
    )
    rows = []
    for name, options in {
        "collapsed, adapted ladder (auto)": {"update": "exact"},
        "rows given paths, mosaic and swap, adapted ladder": {"update": "row"},
        "collapsed, one rung": {"update": "exact", "exchange": None},
        "rows given paths, one rung": {"update": "row", "exchange": None},
    }.items():
        began = perf_counter()
        posterior = ch.sample(model, y, draws=1_000, warmup=300, chains=2, seed=1, progress=False, **options)
        inside = (posterior.parameters["depth"].values < 8).astype(float)
        spread = inside.mean(axis=1)
        error = batch_error(inside)
        rows.append(
            [name, f"{inside.mean():.4f}", f"{error:.4f}", f"{spread.min():.2f} to {spread.max():.2f}",
             f"{perf_counter() - began:.0f}"]
        )  # fmt: skip
        if "ladder" in name:
            report.goal(
                f"{name}: finds both modes, P(depth < 8 | y) = {inside.mean():.4f}, within 4 standard errors of "
                f"{exact:.4f}",
                abs(inside.mean() - exact) < 4 * error,
            )
    report.table(["sampler", "P(depth < 8)", "s.e.", "by chain", "seconds"], rows)
