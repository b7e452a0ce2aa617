"""Misfit checks: are they silent where the model is right, are their standard errors right, and what do they find?

Data are drawn from the model and fitted with it: every warning is a false alarm. With one draw per check each statistic
has a known distribution, so about 5% of the runs are beyond 1.96 standard errors. Then the data are spoilt in one way
after the other, a little or a lot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from run import on_all_cores

import chiasma as ch
from chiasma.models.additive import Emission
from chiasma.results import misfit as module
from chiasma.results.misfit import IMPROBABLE, Misfit, misfit
from chiasma.results.warnings import misfit_warnings
from chiasma.types import Floats

if TYPE_CHECKING:
    from run import Report

RUNS, SITES, SPOILT = 300, 1_000, 40
WEIGHTS = [1.0, 1.7, 2.6]
EMISSIONS: dict[str, Emission] = {
    "gaussian": ch.Gaussian(WEIGHTS, depth=3.0, sd=0.7),
    "student-t": ch.StudentT(WEIGHTS, depth=3.0, sd=0.7, df=4.0),
    "integrated-depth": ch.IntegratedDepth(WEIGHTS, depth_mean=3.0, depth_sd=0.4, sd=0.7),
    "poisson": ch.Poisson(WEIGHTS, depth=4.0, background=0.5),
    "negative-binomial": ch.NegativeBinomial(WEIGHTS, depth=4.0, dispersion=0.1, background=0.5),
}
# What is done to Gaussian data (a little, a lot), and the words of the warning that it should give.
Spoil = Callable[[Floats, np.random.Generator, float], Floats]
WAYS: dict[str, tuple[str, Spoil, tuple[float, float]]] = {
    "values above the highest level": ("far above", lambda y, rng, x: _some(y, rng, x, 16.0), (0.003, 0.02)),
    "outliers": ("improbable", lambda y, rng, x: _some(y, rng, x, 2.6), (0.01, 0.05)),
    "more noise": ("wider", lambda y, rng, x: y + rng.normal(0, 0.7 * x, len(y)), (0.5, 1.0)),
    "correlated noise": ("correlated", lambda y, rng, x: y + x * _waves(rng, len(y)), (0.3, 0.6)),
    "a trend": ("drifts", lambda y, rng, x: y + np.linspace(-x, x, len(y)), (0.3, 0.8)),
}


def _some(y: Floats, rng: np.random.Generator, share: float, by: float) -> Floats:
    return np.where(rng.random(len(y)) < share, y + by, y)


def _waves(rng: np.random.Generator, n: int) -> Floats:
    return np.convolve(rng.normal(size=n + 9), np.full(10, 10**-0.5), "valid")


def model_of(emission: Emission) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=ch.Switches(0.01, 0.01), emission=emission)


def checked(model: ch.FactorialHMM, y: Floats, seed: int) -> Misfit:
    found = misfit(ch.sample(model, y, draws=16, chains=2, seed=seed, progress=False, workers=1))
    assert found is not None
    return found


def run(report: Report) -> None:
    report.text(f"{RUNS} data sets of {SITES} sites per emission, each fitted with the model that made it.")
    false_alarms(report)
    standard_errors(report)
    power(report)


def false_alarms(report: Report) -> None:
    rows, total = [], 0
    for name, emission in EMISSIONS.items():
        model = model_of(emission)

        def alarms(seed: int, model: ch.FactorialHMM = model) -> int:
            return len(misfit_warnings(checked(model, model.simulate(SITES, seed=seed)[1], seed)))

        found = on_all_cores(alarms, range(RUNS))
        total += sum(n > 0 for n in found)
        rows.append([name, str(RUNS), str(sum(n > 0 for n in found))])
    report.table(["emission", "runs", "runs with a warning"], rows)
    report.goal(f"no false alarm in {RUNS * len(EMISSIONS):,} runs", total == 0)


def standard_errors(report: Report) -> None:
    """With one draw per check every statistic is beyond 1.96 standard errors in 5% of the runs."""
    model = model_of(EMISSIONS["gaussian"])
    kept, module.DRAWS = module.DRAWS, 1
    try:
        found = on_all_cores(lambda seed: checked(model, model.simulate(SITES, seed=seed)[1], seed), range(2 * RUNS))
    finally:
        module.DRAWS = kept
    beyond = {
        "width of the residuals": [abs(one.spread - 1) * (2 * one.n) ** 0.5 > 1.96 for one in found],
        "correlation of neighbours": [abs(one.autocorrelation) * one.n_pairs**0.5 > 1.96 for one in found],
    }
    shares = {name: float(np.mean(values)) for name, values in beyond.items()}
    report.table(
        ["statistic, of one draw", "beyond 1.96 standard errors"], [[k, f"{v:.1%}"] for k, v in shares.items()]
    )
    n = 2 * RUNS
    margin = 4 * (0.05 * 0.95 / n) ** 0.5
    report.goal(
        f"both shares are within {margin:.1%} (four standard errors of {n} runs) of 5%",
        all(abs(share - 0.05) < margin for share in shares.values()),
    )
    mean = float(np.mean([one.improbable for one in found]))
    error = (IMPROBABLE / (n * SITES)) ** 0.5
    report.goal(
        f"{mean:.3%} of the values are improbable, expected {IMPROBABLE:.1%}", abs(mean - IMPROBABLE) < 4 * error
    )


def power(report: Report) -> None:
    model = model_of(EMISSIONS["gaussian"])
    rows, found_all = [], True
    for name, (words, spoil, sizes) in WAYS.items():
        shares = []
        for size in sizes:

            def is_found(seed: int, spoil: Spoil = spoil, size: float = size, words: str = words) -> bool:
                y = spoil(model.simulate(SITES, seed=seed)[1], np.random.default_rng(seed), size)
                return any(words in text for text in misfit_warnings(checked(model, y, seed)))

            shares.append(float(np.mean(on_all_cores(is_found, range(SPOILT)))))
        rows.append([name, *(f"{size:g}: {share:.0%}" for size, share in zip(sizes, shares, strict=True))])
        found_all &= shares[1] >= 0.95
    report.table(["spoilt by", "a little: found", "a lot: found"], rows)
    report.goal("what is spoilt a lot is found in 95% of the runs, by its own warning", found_all)
