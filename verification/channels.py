"""Simulated patch-clamp recordings with known numbers of channels and rates, analysed with default settings.

The simulator shares nothing with the package: every channel jumps in continuous time and is read at the sampling
instants; white noise, a drift and mains hum of wandering amplitude are added. Half of the recordings drift and hum.
Results are kept in build/channels.jsonl as they come, so an interrupted run goes on where it was; with
CHIASMA_RECORDINGS=20 in the environment it ends after 20 of the 50 recordings.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import binom

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

KEPT = Path(__file__).resolve().parents[1] / "build" / "channels.jsonl"
N_RECORDINGS, N_SAMPLES, STEP = 50, 10_000, 1e-4


@dataclass(frozen=True)
class Truth:
    """One recording: current (T,), how many channels are open (T,), and the true rates per second by name."""

    n: int
    scheme: str
    moving: bool
    noise: float
    open_probability: float
    current: np.ndarray
    n_open: np.ndarray
    rates: dict[str, float]


def run(report: Report) -> None:
    wanted = min(int(os.environ.get("CHIASMA_RECORDINGS", N_RECORDINGS)), N_RECORDINGS)
    which = f"The first {wanted} of {N_RECORDINGS}" if wanted < N_RECORDINGS else str(N_RECORDINGS)
    report.text(
        f"{which} recordings of {N_SAMPLES:,} samples at {1 / STEP:,.0f} Hz: 1 to 6 channels, open "
        "probabilities of .05 to .95, unit currents of 2 to 8 noise SDs. Every second recording has a drift of some "
        "unit currents and 50 Hz hum. Every fifth has channels of two closed states and is analysed with "
        "`--scheme C-C-O` (one or two channels). The number of channels can be known if all were open at once; a star "
        "marks the others. Rates count if the number is right."
    )
    KEPT.parent.mkdir(exist_ok=True)
    kept = {one["i"]: one for one in map(json.loads, KEPT.read_text().splitlines())} if KEPT.exists() else {}
    found = []
    for i in range(wanted):
        if i not in kept:
            kept[i] = {"i": i} | analysed(simulated(i))
            with KEPT.open("a") as file:
                file.write(json.dumps(kept[i]) + "\n")
        found.append(kept[i])
    header = ["", "channels", "found", "P", "P(open)", "unit / noise", "moving", "scheme", "accuracy", "promised"]
    report.table([*header, "trust", "CPU s"], [row(one) for one in found])
    knowable = [one for one in found if one["knowable"]]
    right = sum(one["found"] == one["n"] for one in knowable)
    report.text(f"Of {len(knowable)} numbers of channels that can be known, {right} are right.")
    right_if: dict[bool, list[bool]] = {True: [], False: []}
    for one in found:
        right_if[one["share"] >= 0.9].append(one["found"] == one["n"])
    report.text(
        f"Of the {len(right_if[True])} numbers with a probability of at least 0.9, {sum(right_if[True])} are right; of "
        f"the {len(right_if[False])} others, {sum(right_if[False])}."
    )
    others = [one for one in found if not one["knowable"]]
    warned = sum(one["trust"] != "good" for one in others if one["found"] != one["n"])
    wrong = sum(one["found"] != one["n"] for one in others)
    report.text(f"Of the other {len(others)}, {wrong} are wrong, and trust is limited in {warned} of these.")
    rates = [inside for one in found if one["found"] == one["n"] for inside in one["inside"]]
    share = float(np.mean(rates))
    report.text(f"The 90% intervals of {len(rates)} rates hold the truth in {share:.0%}.")
    seen = [(one, *informed(simulated(one["i"]))) for one in knowable if one["scheme"] == "C-O"]
    inside = [inside for one, _, own in seen if one["found"] == one["n"] for inside in own]
    report.text(
        "For comparison, an observer who is given the true number of open channels at every sample, with the same "
        f"priors: of the {len(seen)} numbers that can be known, of channels of two states, "
        f"{sum(best == one['n'] for one, best, _ in seen)} are right (ours: "
        f"{sum(one['found'] == one['n'] for one, _, _ in seen)}), and the 90% intervals of the {len(inside)} rates of "
        f"those that are counted above hold the truth in {np.mean(inside):.0%}."
    )
    gaps = [abs(one["promised"] - one["accuracy"]) for one in found]
    report.text(f"Promised and real accuracy differ by {np.mean(gaps):.4f} on average, at most by {max(gaps):.4f}.")
    report.goal("number of channels right in 90% where it can be known", right >= 0.9 * len(knowable))
    report.goal("90% intervals of rates hold the truth in 85% to 95%", 0.85 <= share <= 0.95)


def row(one: dict[str, Any]) -> list[str]:
    marks = ["yes" if one["moving"] else "", one["scheme"]]
    numbers = [str(one["i"]), f"{one['n']}{'' if one['knowable'] else ' *'}", str(one["found"]), f"{one['share']:.3f}"]
    sizes = [f"{one['open_probability']:.2f}", f"{1 / one['noise']:.1f}"]
    shares = [f"{one['accuracy']:.4f}", f"{one['promised']:.4f}"]
    return [*numbers, *sizes, *marks, *shares, one["trust"], f"{one['cpu']:.0f}"]


def analysed(truth: Truth) -> dict[str, Any]:
    began = process_time()
    recording = ch.channels.Recording(current=truth.current, step=STEP)
    answer = ch.channels.analyse(recording, scheme=truth.scheme, workers=1, progress=False)
    trust, cpu = answer.trust, process_time() - began
    inside = []
    for one in answer.estimates:
        if one.name in truth.rates:
            inside.append(bool(one.low < truth.rates[one.name] < one.high))
    return {
        "n": truth.n,
        "found": answer.n_channels,
        "share": answer.probabilities[answer.n_channels],
        "knowable": bool(truth.n_open.max() == truth.n),
        "open_probability": truth.open_probability,
        "noise": truth.noise,
        "moving": truth.moving,
        "scheme": truth.scheme,
        "accuracy": float(np.mean(answer.n_open == truth.n_open)),
        "promised": answer.promised_accuracy,
        "trust": trust,
        "log_evidence": {fit.n_channels: fit.log_evidence for fit in answer.fits},
        "not_counted": list(answer.not_counted),
        "mains": answer.mains.text,
        "codes": [finding.code for finding in answer.findings],
        "inside": inside,
        "rates": [[one.name, one.value, one.low, one.high, truth.rates.get(one.name)] for one in answer.estimates],
        "cpu": cpu,
    }


def informed(truth: Truth) -> tuple[int, list[bool]]:
    """The most probable number of channels, and whether the 90% intervals of the rates hold the truth, for an observer
    who sees how many are open: the likelihood of their counts, a Markov chain, with the priors of the package.
    """
    size = int(truth.n_open.max()) + 1
    moves = np.zeros((size, size))
    np.add.at(moves, (truth.n_open[:-1], truth.n_open[1:]), 1)

    def cost(logs: np.ndarray, n: int) -> float:
        opening, closing = np.exp(logs)
        moved = -np.expm1(-(opening + closing)) / (opening + closing)
        opens, closes = opening * moved, closing * moved
        steps = [
            np.convolve(binom.pmf(np.arange(k + 1), k, 1 - closes), binom.pmf(np.arange(n - k + 1), n - k, opens))[
                :size
            ]
            for k in range(size)
        ]
        first = binom.logpmf(truth.n_open[0], n, opening / (opening + closing))
        prior = -0.5 * np.sum(((logs - np.log(0.03)) / 2) ** 2)
        return -float(np.sum(moves * np.log(np.maximum(steps, 1e-300))) + first + prior - np.log(n))

    masses, inside = {}, []
    for n in range(max(size - 1, 1), 9):
        true = np.log(np.array(list(truth.rates.values())) * STEP)
        begin = true + np.array([np.log(truth.n / n), 0.0])
        top = minimize(cost, begin, (n,), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-5})
        steps = 1e-3 * np.eye(2)
        curvature = [
            [sum(a * b * cost(top.x + a * i + b * j, n) for a in (1, -1) for b in (1, -1)) / 4e-6 for j in steps]
            for i in steps
        ]
        masses[n] = -top.fun - 0.5 * np.linalg.slogdet(curvature)[1]
        if n == truth.n:
            widths = np.sqrt(np.diag(np.linalg.inv(curvature)))
            inside = [bool(one) for one in np.abs(top.x - true) < 1.645 * widths]
    return max(masses, key=lambda n: masses[n]), inside


def simulated(seed: int) -> Truth:
    """Recording number `seed`."""
    rng = np.random.default_rng([seed, 2026])
    two_closed = seed % 5 == 4
    n = int(rng.integers(1, 3 if two_closed else 7))
    share = float(rng.uniform(0.05, 0.95))
    # Mean time of an opening or a closure, whichever is shorter: 5 to 50 samples.
    pace = 1 / (STEP * np.exp(rng.uniform(np.log(5), np.log(50))))
    opening, closing = (pace, pace * (1 - share) / share) if share > 0.5 else (pace * share / (1 - share), pace)
    if two_closed:
        # C1 - C2 - O; long closures of C1 interrupt bursts.
        wake, sleep = pace * rng.uniform(0.03, 0.1), pace * rng.uniform(0.1, 0.3)
        matrix = np.array([[0, wake, 0], [sleep, 0, opening], [0, closing, 0]])
        names = {"rate C1 to C2": wake, "rate C2 to C1": sleep, "rate C2 to O": opening, "rate O to C2": closing}
    else:
        matrix = np.array([[0, opening], [closing, 0]])
        names = {"opening rate": opening, "closing rate": closing}
    n_open = sum(channel(matrix, rng) for _ in range(n))
    noise, moving = float(1 / rng.uniform(2, 8)), seed % 2 == 1
    current = n_open + rng.normal(0, noise, N_SAMPLES)
    if moving:
        current += drift(rng) + hum(rng)
    chance = stationary(matrix)[-1]
    scheme = "C-C-O" if two_closed else "C-O"
    return Truth(n, scheme, moving, noise, float(chance), current, np.asarray(n_open), names)


def channel(rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(T,) 1 where the channel is in its last state, the open one."""
    size, total = len(rates), rates.sum(axis=1)
    state = int(rng.choice(size, p=stationary(rates)))
    out, time = np.zeros(N_SAMPLES, int), 0.0
    while time < N_SAMPLES * STEP:
        until = time + rng.exponential(1 / total[state])
        out[int(np.ceil(time / STEP)) : int(np.ceil(until / STEP))] = state == size - 1
        time, state = until, int(rng.choice(size, p=rates[state] / total[state]))
    return out


def stationary(rates: np.ndarray) -> np.ndarray:
    generator = rates - np.diag(rates.sum(axis=1))
    values, vectors = np.linalg.eig(generator.T)
    found = np.abs(vectors[:, np.argmin(np.abs(values))])
    return np.asarray(found / found.sum())


def drift(rng: np.random.Generator) -> np.ndarray:
    """(T,) a few slow waves."""
    t = np.arange(N_SAMPLES) / N_SAMPLES
    waves = [rng.normal(0, 0.7) * np.sin(2 * np.pi * (f * t + rng.random())) for f in (0.4, 0.9, 1.7)]
    return np.sum(waves, axis=0)


def hum(rng: np.random.Generator) -> np.ndarray:
    """(T,) 50 Hz with a third harmonic; amplitude and phase wander."""
    t = np.arange(N_SAMPLES) * STEP
    size = rng.uniform(0.2, 0.6) * (1 + 0.3 * np.sin(2 * np.pi * (t * 0.7 + rng.random())))
    phase = 2 * np.pi * rng.random() + 0.5 * np.sin(2 * np.pi * (t * 0.5 + rng.random()))
    return np.asarray(size * (np.sin(2 * np.pi * 50 * t + phase) + 0.2 * np.sin(2 * np.pi * 150 * t + 3 * phase)))
