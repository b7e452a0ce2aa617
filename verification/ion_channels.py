"""Real patch-clamp recordings with a known number of open channels, analysed with the default settings.

Data: RichardBJ/Deep-Channel, simulated currents played through a real amplifier. Columns: time, current, true number of
open channels. The truth is used to measure and for nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

DATA = Path(os.environ.get("CHIASMA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / "ion"
RECORDINGS = ("deepchannel_5ch_328", "deepchannel_3ch_1", "deepchannel_5ch_drift_985", "deepchannel_1ch_hum_78")
RIVALS = {"QuB, segmental k-means": "SKM", "QuB, half-amplitude": "halfamp"}


def run(report: Report) -> None:
    there = [name for name in RECORDINGS if (DATA / f"{name}.csv.gz").exists()]
    if not there:
        report.text("Not run: the recordings are not at hand (see verification/README.md).")
        return
    report.text(
        "`ch.channels.analyse` with its defaults, on the current alone. Accuracy is the share of samples at which the "
        "most probable number of open channels is the true one; promised is its mean posterior probability. "
        "Half-amplitude takes the nearest of equally spaced levels and is given what it needs from the answer: the "
        "number of channels, the unit current, and the median of the drift or, in the last column, the drift and hum."
    )
    rows, rivals, goals = [], [], []
    for name in there:
        path = DATA / f"{name}.csv.gz"
        truth = np.loadtxt(path, delimiter=",", usecols=2).astype(int)
        recording = ch.channels.read_recording(path)
        began = process_time()
        answer = ch.channels.analyse(recording, workers=1, progress=False)
        trust, seconds = answer.trust, process_time() - began
        accuracy, promised = float(np.mean(answer.n_open == truth)), answer.promised_accuracy
        counts = f"{truth.max()} / {answer.n_channels}"
        figures = [f"{answer.probabilities[answer.n_channels]:.3f}", f"{accuracy:.4f}", f"{promised:.4f}"]
        unit = next(one.value for one in answer.estimates if one.name == "unit current")
        halves = [
            float(np.mean(half_amplitude(recording.current - base, unit, answer.n_channels) == truth))
            for base in (np.median(answer.offset), answer.offset)
        ]
        rows.append([name, counts, *figures, trust, f"{seconds:.0f}", *(f"{one:.4f}" for one in halves)])
        least = 0.99 if truth.max() == 1 else 0.97
        goals += [
            (f"{name}: number of channels", answer.n_channels == truth.max()),
            (f"{name}: accuracy at least {least}", accuracy >= least),
            (f"{name}: promised accuracy within 0.01", abs(promised - accuracy) < 0.01),
            (f"{name}: at most 120 CPU seconds", seconds <= 120),
        ]
        for rival, suffix in RIVALS.items():
            other = DATA / f"{name}_{suffix}.txt.gz"
            if other.exists():
                classes = np.loadtxt(other, ndmin=2)[:, 0]
                rivals.append([name, rival, f"{(classes == truth[: len(classes)]).mean():.4f}"])
    header = ["recording", "channels, true / found", "P", "accuracy", "promised", "trust", "CPU s"]
    report.table([*header, "half-amplitude", "without drift and hum"], rows)
    if rivals:
        report.text("What QuB made of one of them:")
        report.table(["recording", "method", "accuracy"], rivals)
    for what, reached in goals:
        report.goal(what, bool(reached))


def half_amplitude(current: np.ndarray, unit: float, n: int) -> np.ndarray:
    return np.clip(np.round(current / unit), 0, n)
