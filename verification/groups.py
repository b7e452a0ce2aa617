"""More rows than any exact pass can hold, with a posterior that is known all the same.

24 rows in 8 groups of 3; group g is seen in channel g alone. The posterior is a product over groups, and each factor
is a 3-row model with exact marginals. The sampler is not told.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from exchanges import marginal_error

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

GROUPS, COLUMNS = 8, 2_000
WEIGHTS = (0.21, 0.31, 0.48)
WARMUP, DRAWS, CHAINS = 100, 100, 2
GOAL = 0.02


def problem() -> tuple[ch.FactorialHMM, np.ndarray, np.ndarray]:
    """The model, its data (T, D) and the exact marginals (K, T)."""
    chains = ch.Switches(0.01, 0.01)
    weights = np.kron(np.eye(GROUPS), np.array(WEIGHTS)[:, None])
    model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(weights, depth=15.0, sd=1.0))
    _, y = model.simulate(COLUMNS, seed=1)
    group = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(WEIGHTS, depth=15.0, sd=1.0))
    return model, y, np.concatenate([ch.exact.marginals(group, channel) for channel in y.T])


def run(report: Report) -> None:
    model, y, exact = problem()
    start = np.zeros((model.n_rows, COLUMNS), int)

    def posterior(**settings: Any) -> tuple[ch.Posterior, float]:
        began = perf_counter()
        out = ch.sample(
            model, y, **{"warmup": WARMUP, "draws": DRAWS, "chains": CHAINS, "seed": 1, "progress": False} | settings
        )
        return out, perf_counter() - began

    auto, auto_seconds = posterior(init=start)
    n_replicas = len(auto.betas)
    fresh, fresh_seconds = posterior()
    rows, row_seconds = posterior(update="row", exchange=None, init=start)
    # As many sweeps of one replica as the ensemble spends on all of them.
    long, long_seconds = posterior(update="row", exchange=None, init=start, warmup=WARMUP * n_replicas, thin=n_replicas)
    report.text(
        f"{model.n_rows} rows, {COLUMNS:,} columns, {GROUPS} independent groups with weights {WEIGHTS}, depth 15, sd "
        f"1, switching probability 0.01. `ch.sample(model, y)` with default settings chose: {auto.info['plan']}. "
        f"It ended with {n_replicas} replicas. Budget: {WARMUP} sweeps of warm-up and {DRAWS} draws, {CHAINS} chains "
        'on two cores, a tenth of the defaults. "From zeros" means that every replica starts with all rows off. A '
        f"single exact draw would have an error of {np.mean(2 * exact * (1 - exact)):.3f}."
    )
    kept = [n for n in (1, 5, 10, 20, 50, 100, 200, 500, 1000) if n <= DRAWS]
    runs = {
        "auto, from zeros": (auto, auto_seconds),
        "auto, from the prior": (fresh, fresh_seconds),
        "row Gibbs alone, from zeros": (rows, row_seconds),
        f"the same, {n_replicas} sweeps per draw": (long, long_seconds),
    }

    def error(run: ch.Posterior, n: int) -> float:
        return marginal_error(run.codes.values[:, :n].reshape(-1, COLUMNS), exact)

    report.text("Mean absolute error of the marginals (both chains together) as draws accumulate:")
    report.table(
        ["sampler", *(f"{n} draw{'s' if n > 1 else ''}" for n in kept), "seconds"],
        [[name, *(f"{error(done, n):.4f}" for n in kept), f"{seconds:.0f}"] for name, (done, seconds) in runs.items()],
    )
    report.goal(f"auto has a mean marginal error under {GOAL} within the budget", error(auto, DRAWS) < GOAL)
    report.goal("row Gibbs alone from the same start misses that after as many sweeps", error(rows, DRAWS) > GOAL)
    report.goal("it also misses it after as many sweeps as all replicas made together", error(long, DRAWS) > GOAL)
