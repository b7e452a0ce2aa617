"""A real patch-clamp recording with a known number of open channels: equal rows, fitted to the current alone.

Data: RichardBJ/Deep-Channel, up to five identical channels, simulated currents played through a real amplifier.
Columns: time, current, true number of open channels. The truth is used to measure and for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

DATA = Path(os.environ.get("CHIASMA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / "ion"
RECORDING = "deepchannel_5ch_328"
RIVALS = {"QuB, segmental k-means": "SKM", "QuB, half-amplitude": "halfamp"}
MOST_CHANNELS = 7


def run(report: Report) -> None:
    path = DATA / f"{RECORDING}.csv.gz"
    if not path.exists():
        report.text(f"Not run: {path.name} is not at hand (see verification/README.md).")
        return
    _, current, truth = np.loadtxt(path, delimiter=",").T
    n_true = truth.astype(int)
    report.text(
        f"{len(current):,} samples. Each model is fitted to the current by maximising its exact log evidence over "
        "baseline, step, noise and switching probabilities. The start comes from quantiles of the current and from "
        "differences of neighbouring samples. Accuracy is the share of samples at which the most probable number of "
        "open channels is the true one; promised is its mean posterior probability."
    )
    scale = np.std(current)
    signal = current / scale
    rows, fits = [], {}
    for n in range(1, MOST_CHANNELS + 1):
        began = perf_counter()
        fits[n] = fit(switches(n), signal, start(signal, n))
        rows.append([str(n), f"{fits[n][1]:,.1f}", f"{fits[n][2]}", f"{perf_counter() - began:.0f}"])
    report.table(["channels", "log evidence at the maximum", "evaluations", "seconds"], rows)
    best = max(fits, key=lambda n: fits[n][1])
    values = fits[best][0]
    began = perf_counter()
    counts = ch.exact.count_probabilities(switches(best)(values), signal, "channel")
    seconds = perf_counter() - began
    found, promised = counts.argmax(axis=0), float(counts.max(axis=0).mean())
    accuracy = float((found == n_true).mean())
    table = [["chiasma, posterior mode", f"{accuracy:.4f}", f"{promised:.4f}"]]
    for name, suffix in RIVALS.items():
        classes = np.loadtxt(DATA / f"{RECORDING}_{suffix}.txt.gz", ndmin=2)[:, 0]
        table.append([name, f"{(classes == n_true[: len(classes)]).mean():.4f}", ""])
    report.table(["method", "accuracy", "promised"], table)
    baseline, step, sd, enter, leave = natural(values)
    report.text(
        f"The evidence is highest with {best} channels: baseline {baseline * scale:.4g}, step {step * scale:.4g}, "
        f"noise {sd * scale:.3g}, P(open) {enter:.3g} and P(close) {leave:.3g} per sample. Smoothing took "
        f"{seconds:.1f} s."
    )
    began = perf_counter()
    scheme = fit(two_closed(best), signal, np.concatenate([values, [np.log(enter), np.log(0.1 * leave)]]))
    penalty = 0.5 * 2 * np.log(len(signal))
    better = scheme[1] - fits[best][1] - penalty
    report.text(
        f"A kinetic scheme with two closed states and one open one per channel ({best} channels count as "
        f"{two_closed(best)(scheme[0]).target(signal[:1]).n_states} states): log evidence {scheme[1]:,.1f}, "
        f"{better:+,.1f} against the two-state channel after a penalty of {penalty:.1f} for two more parameters; "
        f"{scheme[2]} evaluations, {perf_counter() - began:.0f} s."
    )
    report.goal("accuracy above 0.97", accuracy > 0.97)
    report.goal("promised accuracy within 0.01 of the real one", abs(promised - accuracy) < 0.01)


def natural(values: np.ndarray) -> tuple[float, ...]:
    baseline, step, log_sd, log_enter, log_leave = values[:5]
    return baseline, step, np.exp(log_sd), np.exp(log_enter), np.exp(log_leave)


def switches(n: int) -> Callable[[np.ndarray], ch.FactorialHMM]:
    def model(values: np.ndarray) -> ch.FactorialHMM:
        baseline, step, sd, enter, leave = natural(values)
        channel = ch.Row([0, step], ch.Switch(min(enter, 0.5), min(leave, 0.5)), name="channel", copies=n)
        return ch.FactorialHMM(rows=[channel, base(baseline)], emission=ch.Gaussian(sd=sd))

    return model


def two_closed(n: int) -> Callable[[np.ndarray], ch.FactorialHMM]:
    """States: long closed, short closed, open. Extra values: log P(long to short), log P(short to long)."""

    def model(values: np.ndarray) -> ch.FactorialHMM:
        baseline, step, sd, enter, leave = natural(values)
        wake, sleep = np.minimum(np.exp(values[5:]), 0.5)
        enter, leave = min(enter, 0.5 - sleep / 2), min(leave, 0.5)
        matrix = [[1 - wake, wake, 0.0], [sleep, 1 - sleep - enter, enter], [0.0, leave, 1 - leave]]
        channel = ch.Row([0, 0, step], ch.Markov(matrix), name="channel", copies=n)
        return ch.FactorialHMM(rows=[channel, base(baseline)], emission=ch.Gaussian(sd=sd))

    return model


def base(baseline: float) -> ch.Row:
    return ch.Row([0, baseline], name="baseline", fixed=1)


def start(y: np.ndarray, n: int) -> np.ndarray:
    """Baseline and step from the extremes that are not noise, noise from neighbours, a switch in fifty samples."""
    low, high = np.quantile(y, [0.002, 0.998])
    sd = np.median(np.abs(np.diff(y))) / 0.6745 / np.sqrt(2)
    return np.array([low + 2 * sd, (high - low - 4 * sd) / n, np.log(sd), np.log(0.02), np.log(0.02)])


def fit(
    make: Callable[[np.ndarray], ch.FactorialHMM], y: np.ndarray, begin: np.ndarray
) -> tuple[np.ndarray, float, int]:
    """Maximise the exact evidence; returns the values, the log evidence and the number of evaluations."""

    def loss(values: np.ndarray) -> float:
        try:
            return -ch.exact.log_evidence(make(values), y)
        except ch.ChiasmaError:
            return np.inf

    options: dict[str, Any] = {"maxfev": 1_500, "xatol": 1e-3, "fatol": 0.1, "adaptive": True}
    done = minimize(loss, begin, method="Nelder-Mead", options=options)
    return done.x, -float(done.fun), int(done.nfev)
