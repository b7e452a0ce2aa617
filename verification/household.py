"""A real house: one meter, several appliances of two to four states each, told apart by their sum.

Data: one month of minute means from UK-DALE house 2 (Kelly and Knottenbelt 2015), four appliances with meters of their
own. States, powers and switching of each appliance come from its meter in the first week; the other weeks are
disaggregated from the sum alone, and their meters are used to measure and for nothing else. Then the same for the
mains meter, where most of the power belongs to appliances without a meter: rows whose powers are found by maximising
the exact evidence of what the first week leaves unexplained.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

DATA = (
    Path(os.environ.get("CHIASMA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    / "nilm"
    / "UKDALE_House2_2013-06.csv.gz"
)
APPLIANCES = ("Kettle", "Dishwasher", "WashingMachine", "Microwave")
WEEK = 7 * 24 * 60
ON = 15.0  # watts: an appliance that takes more is on
STATES = (2, 3, 4)
UNKNOWN = (1, 2, 3, 4, 5)
RESOLUTION = 1.0  # watts of a meter: an appliance that is off reads 0 exactly, which is no noise at all
DF = 2  # of Student's t: minutes in which something switches lie between two levels
CONSTANT = gammaln((DF + 1) / 2) - gammaln(DF / 2) - 0.5 * np.log(DF * np.pi)


def run(report: Report) -> None:
    if not DATA.exists():
        report.text(f"Not run: {DATA.name} is not at hand (see verification/README.md).")
        return
    columns = np.genfromtxt(DATA, delimiter=",", names=True, usecols=range(1, 6))
    mains, meters = columns["Aggregate"], {name: columns[name] for name in APPLIANCES}
    found = [states_of(name, meters[name][:WEEK]) for name in APPLIANCES]
    report.text(
        f"{len(mains):,} minutes. States of the appliances, from the first week of their own meters; their number by "
        "the evidence of a hidden Markov model with a penalty of half the logarithm of the minutes per parameter:"
    )
    report.table(
        ["appliance", "watts of its states", "share of time in each"],
        [[one.name, listed(one.values), listed(one.share, 4)] for one in found],
    )
    total = np.sum([meters[name] for name in APPLIANCES], axis=0)
    report.text("The sum of the four meters, weeks 2 to 5:")
    ours = disaggregate(report, found, total, meters)
    unknown = find_unknown(report, (mains - total)[:WEEK])
    report.text("The mains meter, weeks 2 to 5, with these rows added:")
    disaggregate(report, [*found, *unknown], mains, meters)
    report.goal(
        "the sum of the meters: smaller error and higher F1 than the combinatorial baseline, over all appliances",
        ours[0][0] < ours[1][0] and ours[0][1] > ours[1][1],
    )


@dataclass(frozen=True)
class Appliance:
    name: str
    values: np.ndarray  # (S,) watts
    transition: np.ndarray  # (S, S)

    @property
    def share(self) -> np.ndarray:
        values, vectors = np.linalg.eig(self.transition.T)
        first = np.real(vectors[:, np.argmax(np.real(values))])
        return np.asarray(first / first.sum())

    @property
    def row(self) -> ch.Row:
        if len(self.values) == 1:
            return ch.Row([0.0, self.values[0]], name=self.name, fixed=1)
        return ch.Row(self.values, ch.Markov(self.transition), name=self.name)


def states_of(name: str, meter: np.ndarray) -> Appliance:
    """Levels by k-means from quantiles of what lies above ON, moves counted with half a move of each kind added."""
    best: tuple[float, Appliance] | None = None
    for n_states in STATES:
        on = meter[meter > ON]
        levels = np.quantile(on, (np.arange(n_states - 1) + 0.5) / (n_states - 1))
        for _ in range(100):
            near = np.abs(on[:, None] - levels).argmin(axis=1)
            levels = np.array([on[near == s].mean() if (near == s).any() else levels[s] for s in range(n_states - 1)])
        values = np.concatenate([[0.0], np.sort(levels)])
        path = np.where(meter > ON, 1 + np.abs(meter[:, None] - values[1:]).argmin(axis=1), 0)
        moves = np.full((n_states, n_states), 0.5)
        np.add.at(moves, (path[:-1], path[1:]), 1)
        one = Appliance(name, values, moves / moves.sum(axis=1, keepdims=True))
        _, log_evidence = fit_noise([one], meter)
        score = log_evidence - 0.5 * (n_states**2 - 1) * np.log(len(meter))
        if best is None or score > best[0]:
            best = (score, one)
    assert best is not None
    return best[1]


@dataclass(frozen=True)
class Noise:
    """Student's t, its scale in watts where nothing is on, and as a share of the power that is."""

    watts: float
    share: float

    def __call__(self, y: np.ndarray, level: np.ndarray) -> np.ndarray:
        scale = np.hypot(self.watts, self.share * level)
        return np.asarray(CONSTANT - 0.5 * (DF + 1) * np.log1p(((y - level) / scale) ** 2 / DF) - np.log(scale))


def model_of(appliances: list[Appliance], noise: Noise) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=[one.row for one in appliances], emission=ch.Custom(noise))


def fit_noise(appliances: list[Appliance], y: np.ndarray) -> tuple[Noise, float]:
    """The noise with the highest evidence, and that evidence."""

    def loss(x: np.ndarray) -> float:
        return -ch.exact.log_evidence(model_of(appliances, Noise(*np.exp(x))), y)

    bounds = np.log([(RESOLUTION, 1_000.0), (0.001, 1.0)])
    done = minimize(
        loss, np.log([5.0, 0.03]), method="Nelder-Mead", bounds=bounds, options={"xatol": 0.05, "fatol": 0.5}
    )
    return Noise(*np.exp(done.x)), -float(done.fun)


def disaggregate(
    report: Report, appliances: list[Appliance], y: np.ndarray, meters: dict[str, np.ndarray]
) -> list[tuple[float, float]]:
    """A table of errors; returns mean error and mean F1 of the posterior and of the baseline."""
    noise, _ = fit_noise(appliances, y[:WEEK])
    rest = y[WEEK:]
    began = perf_counter()
    model = model_of(appliances, noise)
    estimates = {}
    for one in appliances[: len(APPLIANCES)]:
        share = ch.exact.probabilities(model, rest, one.name)
        estimates[one.name] = one.values @ share, share[one.values > ON].sum(axis=0) > 0.5
    seconds = perf_counter() - began
    baseline = nearest_sums(appliances, rest)
    rows, ours, theirs = [], [], []
    for k, one in enumerate(appliances[: len(APPLIANCES)]):
        truth = meters[one.name][WEEK:]
        nearest = one.values[baseline[k]]
        mine, other = measure(*estimates[one.name], truth), measure(nearest, nearest > ON, truth)
        ours.append(mine)
        theirs.append(other)
        rows.append([one.name, f"{truth.mean():.1f}", *(f"{a:.1f}, {b:.1f}" for a, b in [(mine[0], other[0])])])
        rows[-1] += [f"{mine[1]:.3f}, {other[1]:.3f}", f"{(estimates[one.name][0].sum() / truth.sum()):.2f}"]
    means = [tuple(np.mean(part, axis=0)) for part in (ours, theirs)]
    rows.append(["mean", "", f"{means[0][0]:.1f}, {means[1][0]:.1f}", f"{means[0][1]:.3f}, {means[1][1]:.3f}", ""])
    head = [
        "appliance",
        "mean power, W",
        "mean absolute error, W: chiasma, nearest sum",
        "F1 of being on",
        "energy share",
    ]
    report.table(head, rows)
    report.text(
        f"{model.exact_target(rest[:1]).size_text}, noise {noise.watts:.1f} W and {noise.share:.1%} of the power; "
        f"{seconds:.1f} s for the exact probabilities of {len(rest):,} minutes. Nearest sum: at every minute the "
        "states whose powers add up to the nearest value, with the same states and powers (combinatorial "
        "optimisation). Energy share: estimated over true energy."
    )
    return means


def nearest_sums(appliances: list[Appliance], y: np.ndarray) -> np.ndarray:
    """(rows, T) states whose sum is nearest at every minute."""
    sizes = [max(len(one.values), 1) for one in appliances]
    grid = np.indices(sizes).reshape(len(sizes), -1)
    sums = np.sum([one.values[own] for one, own in zip(appliances, grid, strict=True)], axis=0)
    order = np.argsort(sums, kind="stable")
    right = np.clip(np.searchsorted(sums[order], y), 1, len(sums) - 1)
    nearer = right - (y - sums[order][right - 1] <= sums[order][right] - y)
    return np.asarray(grid[:, order[nearer]])


def measure(power: np.ndarray, on: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Mean absolute error in watts, and F1 of being on."""
    really = truth > ON
    both = (on & really).sum()
    return float(np.abs(power - truth).mean()), float(2 * both / max(on.sum() + really.sum(), 1))


def find_unknown(report: Report, left: np.ndarray) -> list[Appliance]:
    """Rows of two states and a base load that explain the rest of the mains, as many as the evidence wants."""
    rows, best = [], None
    levels = np.quantile(left, [0.05, 0.3, 0.6, 0.85, 0.95, 0.99])
    steps = np.maximum(np.diff(levels), 5.0)
    for n in UNKNOWN:
        start = np.concatenate([[np.log(max(levels[0], 5.0)), np.log(20.0)], *([np.log(s), -3.0] for s in steps[:n])])
        began = perf_counter()
        done = minimize(
            lambda x, n=n: -evidence_of_unknown(x, n, left),
            start,
            method="Nelder-Mead",
            options={"maxfev": 250 * n, "xatol": 0.01, "fatol": 1.0, "adaptive": True},
        )
        score = -done.fun - 0.5 * len(start) * np.log(len(left))
        powers = np.exp(done.x[2::2])
        rows.append([str(n), f"{-done.fun:,.0f}", f"{score:,.0f}", listed(np.sort(powers))])
        rows[-1].append(f"{perf_counter() - began:.0f}")
        if best is None or score > best[0]:
            best = (score, unknown_rows(done.x, n)[0])
    report.text(
        "Appliances without a meter: the mains less the four meters, first week. So many rows of two states besides a "
        "base load; powers, switching and noise maximise the exact evidence:"
    )
    report.table(["rows", "log evidence", "less the penalty", "watts", "seconds"], rows)
    assert best is not None
    return best[1]


def unknown_rows(x: np.ndarray, n: int) -> tuple[list[Appliance], Noise]:
    """Rows and noise from log base load, log noise, then log power and log-odds of switching of every row."""
    rows = [Appliance("base load", np.array([np.exp(x[0])]), np.eye(1))]
    for k in range(n):
        power, switch = np.exp(x[2 + 2 * k]), 0.5 / (1 + np.exp(-x[3 + 2 * k]))
        matrix = np.array([[1 - switch, switch], [switch, 1 - switch]])
        rows.append(Appliance(f"unknown {k + 1}", np.array([0.0, power]), matrix))
    return rows, Noise(float(np.exp(x[1])), 0.0)


def evidence_of_unknown(x: np.ndarray, n: int, y: np.ndarray) -> float:
    if not np.all(np.abs(x) < 12):
        return -np.inf
    return ch.exact.log_evidence(model_of(*unknown_rows(x, n)), y)


def listed(values: np.ndarray, digits: int = 0) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)
