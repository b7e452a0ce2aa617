"""Evidence from the ladder against the exact evidence: is it right, and is its standard error honest?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from run import on_all_cores

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

SEEDS = range(20)


class Problem(NamedTuple):
    title: str
    model: ch.FactorialHMM
    data: ch.Observations


def problems() -> list[Problem]:
    chains = ch.BinaryChains(0.01, 0.01)
    three = ch.FactorialHMM(chains=chains, emission=ch.Gaussian([0.21, 0.31, 0.48], depth=15.0, sd=1.0))
    four = ch.FactorialHMM(chains=chains, emission=ch.Gaussian([0.1, 0.2, 0.3, 0.4], depth=15.0, sd=1.0))
    _, y3 = three.simulate(200, seed=1)
    starts = [0, 100, 220]
    _, y4 = four.simulate(300, seed=2, starts=starts)
    y4[np.random.default_rng(3).random(300) < 0.1] = np.nan
    return [
        Problem("K = 3, T = 200", three, ch.Observations(y3)),
        Problem("K = 4, T = 300, three sequences, a tenth of the columns missing", four, ch.Observations(y4, starts)),
    ]


def estimate(problem: Problem, seed: int, draws: int = 1000) -> ch.Posterior:
    return ch.sample(
        problem.model,
        problem.data,
        update="row",
        exchange="mosaic",
        ladder=ch.Ladder.adapted(),
        draws=draws,
        warmup=1000,
        chains=2,
        seed=seed,
        workers=1,
        progress=False,
    )


def run(report: Report) -> None:
    for problem in problems():
        exact = ch.exact.log_evidence(problem.model, problem.data)
        for draws in (1000, 4000):
            rows = []
            for p in on_all_cores(lambda seed: estimate(problem, seed, draws), SEEDS):
                v, s = p.log_evidence
                rows.append(
                    [
                        v - exact,
                        s,
                        (v - exact) / s,
                        len(p.betas),
                        p.exchange_stats.rejection.values.max(),
                        p.exchange_stats.rejection.values.sum(),
                    ]
                )
            rows = np.array(rows)
            np.set_printoptions(suppress=True, precision=3, linewidth=150)
            print(problem.title, draws, exact)
            print(rows)
            print(
                "within3",
                (abs(rows[:, 2]) < 3).sum(),
                "mean se",
                rows[:, 1].mean(),
                "rms se",
                (rows[:, 1] ** 2).mean() ** 0.5,
                "sd",
                rows[:, 0].std(ddof=1),
                "bias",
                rows[:, 0].mean(),
                "rmse",
                (rows[:, 0] ** 2).mean() ** 0.5,
            )
