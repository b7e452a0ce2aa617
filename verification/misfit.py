"""Checks of the fit: are they silent if the model is right, are their standard errors right, and what do they find?

Data are drawn from the model and fitted with it: every finding is a false alarm. With one draw per check each statistic
has a known distribution, so about 5% of the runs are beyond 1.96 standard errors. Then the data are spoilt in one way
after the other, a little or a lot. Then drifts of several sizes on simulated channels: is the share of wrong sites that
the check estimates the true one? Last, real recordings with a drifting baseline, with mains hum, and clean ones.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from ion_channels import DATA
from run import on_all_cores

import chiasma as ch
from chiasma.models.additive import Emission
from chiasma.results import misfit as module
from chiasma.results.findings import trust_in
from chiasma.results.misfit import IMPROBABLE, FitStatistics, misfit
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
# What is done to Gaussian data (a little, a lot), and the finding that it should give.
Spoil = Callable[[Floats, np.random.Generator, float], Floats]
WAYS: dict[str, tuple[str, Spoil, tuple[float, float]]] = {
    "values above the highest level": ("beyond-levels", lambda y, rng, x: _some(y, rng, x, 16.0), (0.003, 0.02)),
    "outliers": ("outliers", lambda y, rng, x: _some(y, rng, x, 2.6), (0.01, 0.05)),
    "more noise": ("noise-underestimated", lambda y, rng, x: y + rng.normal(0, 0.7 * x, len(y)), (0.5, 1.0)),
    "more noise at one level": ("noise-by-level", lambda y, rng, x: _noisy(y, rng, x), (0.3, 0.8)),
    "correlated noise": ("correlated", lambda y, rng, x: y + x * _waves(rng, len(y)), (0.3, 0.6)),
    "a shift": ("baseline", lambda y, rng, x: y + x, (0.1, 0.4)),
    "a trend": ("drift", lambda y, rng, x: y + np.linspace(-x, x, len(y)), (0.3, 0.8)),
    "a sine": ("hum", lambda y, rng, x: y + x * np.sin(np.arange(len(y)) / 4), (0.15, 0.4)),
}
# Simulated equal channels: number, noise, probability of a switch; sizes of a drift in noise SDs; its periods.
CHANNELS = [(5, 0.45, 0.02), (3, 0.45, 0.02), (5, 0.3, 0.01), (5, 0.2, 0.01), (5, 0.45, 0.2)]
DRIFTS, PERIODS, CHANNEL_SITES = (0.1, 0.2, 0.4, 0.8, 1.5), (2, 6, 15), 20_000
# Recordings, the numbers of their channels, and the finding by which the plain model must end with trust "none".
RECORDINGS = {
    "deepchannel_5ch_328": (5, ""),
    "deepchannel_3ch_1": (3, ""),
    "deepchannel_5ch_drift_985": (5, "drift"),
    "deepchannel_1ch_hum_78": (1, "hum"),
}


def _noisy(y: Floats, rng: np.random.Generator, by: float) -> Floats:
    return np.where(y < 1.5, y + rng.normal(0, by, len(y)), y)


def _some(y: Floats, rng: np.random.Generator, share: float, by: float) -> Floats:
    return np.where(rng.random(len(y)) < share, y + by, y)


def _waves(rng: np.random.Generator, n: int) -> Floats:
    return np.convolve(rng.normal(size=n + 9), np.full(10, 10**-0.5), "valid")


def model_of(emission: Emission) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=ch.Switches(0.01, 0.01), emission=emission)


def sampled(model: ch.FactorialHMM, y: Floats, seed: int) -> ch.Posterior:
    return ch.sample(model, y, draws=16, chains=2, seed=seed, progress=False, workers=1)


def checked(model: ch.FactorialHMM, y: Floats, seed: int) -> FitStatistics:
    found = misfit(sampled(model, y, seed))
    assert found is not None
    return found


def run(report: Report) -> None:
    report.text(f"{RUNS} data sets of {SITES} sites per emission, each fitted with the model that made it.")
    false_alarms(report)
    standard_errors(report)
    power(report)
    severities(report)
    recordings(report)


def false_alarms(report: Report) -> None:
    rows, total = [], 0
    for name, emission in EMISSIONS.items():
        model = model_of(emission)

        def alarms(seed: int, model: ch.FactorialHMM = model) -> int:
            return len(sampled(model, model.simulate(SITES, seed=seed)[1], seed).findings)

        found = on_all_cores(alarms, range(RUNS))
        total += sum(n > 0 for n in found)
        rows.append([name, str(RUNS), str(sum(n > 0 for n in found))])
    missing = [_with_gaps(seed) for seed in range(RUNS)]
    rows.append(["gaussian, missing data", str(RUNS), str(sum(missing))])
    learned = on_all_cores(_learned, range(RUNS // 3))
    rows.append(["gaussian, sd and weights learned", str(RUNS // 3), str(sum(learned))])
    without_a_run = {
        "states that add noise": ch.FactorialHMM(
            rows=[
                ch.Row([0, w], ch.Switch(0.01, 0.01), f"row {w}", spread=[0, ch.HalfNormal(1)]) for w in (3.0, 5.0, 8.0)
            ],
            emission=ch.Gaussian(sd=ch.HalfNormal(2.0)),
        ),
        "a drift": ch.FactorialHMM(
            rows=ch.Switches(0.01, 0.01),
            emission=ch.Gaussian([3.0, 5.0, 8.0], sd=ch.HalfNormal(2.0)),
            offset=[ch.Smooth(knots=6, scale=1.0)],
        ),
    }
    for name, model in without_a_run.items():
        found = on_all_cores(lambda seed, model=model: _optimised(model, seed), range(RUNS // 3))
        rows.append([f"gaussian, {name}, ch.optimise(...).check", str(RUNS // 3), str(sum(found))])
        total += sum(found)
    total += sum(missing) + sum(learned)
    n_runs = RUNS * (len(EMISSIONS) + 1) + RUNS // 3 * (1 + len(without_a_run))
    report.table(["emission", "runs", "runs with a finding"], rows)
    report.goal(f"false alarms in fewer than 1 of 100 runs ({total} of {n_runs:,})", total < n_runs / 100)


def _with_gaps(seed: int) -> bool:
    """Two sequences and a quarter of the data missing."""
    model, rng = model_of(EMISSIONS["gaussian"]), np.random.default_rng(seed)
    y = np.where(rng.random(SITES) < 0.25, np.nan, model.simulate(SITES, seed=seed)[1])
    data = ch.Observations(y, starts=[SITES // 3])
    return bool(ch.sample(model, data, draws=16, chains=2, seed=seed, progress=False, workers=1).findings)


def _learned(seed: int) -> bool:
    """Findings about the fit; those about so short a run are not false."""
    truth = model_of(EMISSIONS["gaussian"])
    emission = ch.Gaussian(ch.Gamma([2.0] * 3, 1.0), depth=3.0, sd=ch.HalfNormal(2.0))
    y = truth.simulate(SITES, seed=seed)[1]
    options = {"update": ch.Collapsed(starts=4), "draws": 16, "warmup": 32, "chains": 2, "seed": seed}
    posterior = ch.sample(model_of(emission), y, progress=False, workers=1, **options)
    return any(one.about == "fit" for one in posterior.findings)


def _optimised(model: ch.FactorialHMM, seed: int) -> bool:
    """The checks of an optimum; data from typical values of the priors."""
    y = model.simulate(SITES, seed=seed)[1]
    return bool(ch.optimise(model, y, starts=2, seed=seed, progress=False, workers=1).best.check(y))


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
    for name, (code, spoil, sizes) in WAYS.items():
        shares = []
        for size in sizes:

            def is_found(seed: int, spoil: Spoil = spoil, size: float = size, code: str = code) -> bool:
                y = spoil(model.simulate(SITES, seed=seed)[1], np.random.default_rng(seed), size)
                return code in {one.code for one in sampled(model, y, seed).findings}

            shares.append(float(np.mean(on_all_cores(is_found, range(SPOILT)))))
        rows.append([name, *(f"{size:g}: {share:.0%}" for size, share in zip(sizes, shares, strict=True))])
        found_all &= shares[1] >= 0.95
    report.table(["spoilt by", "a little: found", "a lot: found"], rows)
    report.goal("what is spoilt a lot is found in 95% of the runs, by its own finding", found_all)


def severities(report: Report) -> None:
    """True: the share of sites whose most probable number of open channels the drift changes."""
    rows, right = [], True
    for n, sd, switch in CHANNELS:
        row = ch.Row([0, 1], ch.Switch(switch, switch), "channel", weight=1.0, copies=n)
        model = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=sd))
        for size in DRIFTS:
            found = [_severity(model, size * sd * 2**0.5, i) for i in range(len(PERIODS))]
            seen = [(severity, share) for severity, share, _ in found if severity]
            true = float(np.mean([share for *_, share in found]))
            right &= not any(severity != "none" for severity, _ in seen) or true < 0.05
            estimate = f"{np.mean([share for _, share in seen]):.1%}" if seen else ""
            listed = ", ".join(severity or "not found" for severity, *_ in found)
            channels = f"{n} channels, noise {sd:g}, switch {switch:g}"
            rows.append([channels, f"{size:g}", f"{true:.1%}", estimate, listed])
    report.table(["channels, with their true numbers", "drift, noise SDs", "displaced", "estimated", "severity"], rows)
    report.goal("a drift that is found and displaces more than 5% of the sites is never less than none", right)


def _severity(model: ch.FactorialHMM, size: float, i: int) -> tuple[str, float, float]:
    """Severity and displaced sites as estimated, and truly displaced sites."""
    y = model.simulate(CHANNEL_SITES, seed=i)[1]
    drifting = y + size * np.sin(2 * np.pi * PERIODS[i] * np.arange(len(y)) / len(y))
    before, after = (ch.exact.count_probabilities(model, one, "channel").argmax(axis=0) for one in (y, drifting))
    drift = next((one for one in ch.check(model, drifting) if one.code == "drift"), None)
    severity, share = ("", 0.0) if drift is None else (drift.severity, float(drift.facts["displaced"]))
    return severity, share, float(np.mean(before != after))


def recordings(report: Report) -> None:
    """The plain model of equal channels, all numbers learned; the truth is used to measure and for nothing else."""
    if not all((DATA / f"{name}.csv.gz").exists() for name in RECORDINGS):
        report.text("Real recordings were not at hand (see verification/README.md).")
        return
    rows, right = [], True
    for name, (n, code) in RECORDINGS.items():
        _, current, truth = np.loadtxt(DATA / f"{name}.csv.gz", delimiter=",").T
        y = current / np.std(current)
        best = ch.optimise(plain(y, n), y, seed=1, progress=False).best
        counts = ch.exact.count_probabilities(best.model, y, "channel")
        open_channels = truth if np.corrcoef(y, truth)[0, 1] > 0 else n - truth  # some recordings point downwards
        accuracy = float(np.mean(counts.argmax(axis=0) == open_channels))
        began = process_time()
        findings = best.check(y)
        seconds = process_time() - began
        trust = trust_in(findings)
        listed = ", ".join(f"{one.code} ({one.severity})" for one in findings) or "none"
        promised = float(counts.max(axis=0).mean())
        rows.append([name, f"{accuracy:.3f} / {promised:.3f}", trust, listed, f"{seconds:.2f}"])
        named = [one.remedies[0].python() for one in findings if one.code == code and one.severity == "none"]
        right &= (trust == "none" and bool(named)) if code else trust != "none" and abs(accuracy - promised) < 0.015
    report.table(["recording", "accuracy / promised", "trust", "findings", "CPU s of the check"], rows)
    report.goal("drift and hum end with trust none and their remedy; clean recordings are as right as promised", right)


def plain(y: Floats, n: int) -> ch.FactorialHMM:
    """n equal channels and a baseline."""
    low, high = np.quantile(y, [0.002, 0.998])
    step = ch.LogNormal(np.log((high - low) / n), 1.0)
    chain = ch.Switch(ch.Beta(1, 50), ch.Beta(1, 50))
    rows = [
        ch.Row([0, 1], chain, "channel", weight=step, copies=n),
        ch.Row([0, 1], fixed=1, weight=ch.Normal(low, 1.0), name="base"),
    ]
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(1.0)))
