"""A real house: one meter, several appliances of three or four states each, told apart by their sum.

Data: one month of minute means from UK-DALE house 2 (Kelly and Knottenbelt 2015), four appliances with meters of their
own. The first week is labelled: the states of the appliances are known from their meters, and powers, noise and
switching are learned from the sum and these states. The other weeks are disaggregated from the sum alone.

The rival is nilmtk's recipe: one hidden Markov model per meter (hmmlearn, four states, its own variance per
state), their product over all joint states, decoded by Viterbi. Then the mains meter, where most of the power belongs
to appliances without a meter: a smooth base load and unknown rows.
"""

from __future__ import annotations

import os
import warnings
from functools import reduce
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hmmlearn.hmm import GaussianHMM
from scipy.cluster.vq import kmeans2

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
STATES, FEWER = 4, 3  # of an appliance: for the sum of the meters, and for the mains
UNKNOWN = (1, 2, 3)
KNOTS = 28  # of the base load of a week: four a day

Meters = dict[str, np.ndarray]


def run(report: Report) -> None:
    if not DATA.exists():
        report.text(f"Not run: {DATA.name} is not at hand (see verification/README.md).")
        return
    columns = np.genfromtxt(DATA, delimiter=",", names=True, usecols=range(1, 6))
    meters = {name: columns[name] for name in APPLIANCES}
    sum_of_meters(report, meters)
    mains(report, columns["Aggregate"], meters)


def part(meters: Meters, first: int, stop: int | None = None) -> Meters:
    return {name: meter[first:stop] for name, meter in meters.items()}


# ---- The sum of the meters ------------------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """watts (T,), and the probability (T,) of being on."""

    watts: np.ndarray
    on: np.ndarray


def sum_of_meters(report: Report, meters: Meters) -> None:
    total, labelled, rest = sum(meters.values()), part(meters, 0, WEEK), part(meters, WEEK)
    began = process_time()
    best = learn(labelled, STATES)
    learned = process_time() - began
    report.text(f"{len(total):,} minutes, the first {WEEK:,} labelled. What was learned from these:")
    report.table(
        ["appliance", "watts of its states", "noise that they add, W"],
        [[name, listed(best.values[f"{name}.values"]), listed(best.values[f"{name}.spread"])] for name in meters],
    )
    began = process_time()
    ours = {name: estimate(best.model, total[WEEK:], name) for name in meters}
    seconds = process_time() - began
    theirs = product_of_hmms(labelled, total[WEEK:])
    nearest = nearest_sums({name: best.values[f"{name}.values"] for name in meters}, total[WEEK:])
    rows = [[name, f"{meter.mean():.1f}"] for name, meter in rest.items()] + [["mean", ""]]
    means = []
    for found in (ours, theirs, nearest):
        scores = [measure(found[name], meter) for name, meter in rest.items()]
        means.append(np.mean(scores, axis=0))
        for row, (error, f1) in zip(rows, [*scores, means[-1]], strict=True):
            row.append(f"{error:.1f}, {f1:.3f}")
    report.text("The sum of the four meters, the other weeks: mean absolute error in watts, and F1 of being on.")
    report.table(["appliance", "mean power, W", "chiasma", "product of HMMs", "nearest sum"], rows)
    report.text(
        f"{promise(ours, rest)} {STATES ** len(meters)} joint states; {learned:.0f} CPU s to learn, {seconds:.1f} for "
        "the exact probabilities. Nearest sum: at every minute the states whose powers add up to the nearest value "
        "(combinatorial optimisation)."
    )
    report.goal(
        "smaller mean error and higher mean F1 than the product of HMMs",
        bool(means[0][0] < means[1][0] and means[0][1] > means[1][1]),
    )


def learn(labelled: Meters, n_states: int) -> ch.Optimum:
    """Powers, spread and transitions of the appliances, from their sum and their states in a labelled week."""
    rows, known = [], {}
    for name, meter in labelled.items():
        known[name], watts = states_of(meter, n_states)
        values, spread = [ch.Normal(w, w / 3) for w in watts], [ch.HalfNormal(w / 3) for w in watts]
        chain = ch.Markov(ch.DirichletRows(np.ones((n_states, n_states))))
        rows.append(ch.Row([0, *values], chain, name, spread=[0, *spread]))
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=5.0))
    data = ch.Observations(sum(labelled.values()), known=known)
    return ch.optimise(model, data, starts=1, seed=1, progress=False).best


def states_of(meter: np.ndarray, n_states: int) -> tuple[np.ndarray, np.ndarray]:
    """States (T,) of a meter, 0 for off, and the watts of the others, by k-means of the logarithm of the power."""
    on, power = meter > ON, np.log(np.maximum(meter, ON))
    first = np.quantile(power[on], (np.arange(n_states - 1) + 0.5) / (n_states - 1))
    centres = np.sort(kmeans2(power[on], first, minit="matrix")[0])
    return np.where(on, 1 + np.abs(power[:, None] - centres).argmin(axis=1), 0), np.exp(centres)


def estimate(model: ch.FactorialHMM, y: np.ndarray | ch.Observations, name: str) -> Estimate:
    shares = ch.exact.probabilities(model, y, name)
    return Estimate(model.rows.given[model.row_number(name)].values @ shares, 1 - shares[0])


def product_of_hmms(labelled: Meters, y: np.ndarray) -> dict[str, Estimate]:
    """nilmtk's recipe, with its own variance for every state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        single = [fitted(meter) for meter in labelled.values()]
    joint = GaussianHMM(STATES ** len(single), "diag")
    joint.startprob_ = reduce(np.kron, [own.startprob_ for own in single])
    joint.transmat_ = reduce(np.kron, [own.transmat_ for own in single])
    joint.startprob_ /= joint.startprob_.sum()
    joint.transmat_ /= joint.transmat_.sum(axis=1, keepdims=True)
    joint.means_, joint.covars_ = (
        reduce(lambda a, b: np.add.outer(a, b).ravel(), [own.ravel() for own in part])[:, None]
        for part in ([own.means_ for own in single], [own.covars_ for own in single])
    )
    states = np.unravel_index(joint.predict(y[:, None]), [STATES] * len(single))
    watts = [own.means_.ravel()[path] for own, path in zip(single, states, strict=True)]
    return {name: Estimate(power, power > ON) for name, power in zip(labelled, watts, strict=True)}


def fitted(meter: np.ndarray) -> GaussianHMM:
    """By EM from the same states that ours are learned from."""
    _, watts = states_of(meter, STATES)
    made = GaussianHMM(STATES, "diag", n_iter=50, min_covar=1.0, init_params="stc", random_state=1)
    made.means_ = np.concatenate([[0.0], watts])[:, None]
    return made.fit(meter[:, None])


def nearest_sums(watts: Meters, y: np.ndarray) -> dict[str, Estimate]:
    grid = np.indices([len(own) for own in watts.values()]).reshape(len(watts), -1)
    sums = np.sum([own[states] for own, states in zip(watts.values(), grid, strict=True)], axis=0)
    order = np.argsort(sums, kind="stable")
    right = np.clip(np.searchsorted(sums[order], y), 1, len(sums) - 1)
    nearest = order[right - (y - sums[order][right - 1] <= sums[order][right] - y)]
    powers = [own[states[nearest]] for own, states in zip(watts.values(), grid, strict=True)]
    return {name: Estimate(power, power > ON) for name, power in zip(watts, powers, strict=True)}


def measure(found: Estimate, meter: np.ndarray) -> tuple[float, float]:
    """Mean absolute error in watts, and F1 of being on."""
    on, really = found.on > 0.5, meter > ON
    f1 = 2 * (on & really).sum() / max(on.sum() + really.sum(), 1)
    return float(np.abs(found.watts - meter).mean()), float(f1)


def promise(found: dict[str, Estimate], meters: Meters) -> str:
    promised = np.mean([np.maximum(found[name].on, 1 - found[name].on).mean() for name in meters])
    real = np.mean([((found[name].on > 0.5) == (meter > ON)).mean() for name, meter in meters.items()])
    return f"On or off is right in {real:.2%} of the minutes, promised {promised:.2%}."


# ---- The mains meter ------------------------------------------------------------------------------------------------


def mains(report: Report, y: np.ndarray, meters: Meters) -> None:
    """What the meters leave of the first week teaches the unknown rows; week 2 is disaggregated, its base load learned
    together with the states.
    """
    labelled, rest = part(meters, 0, WEEK), part(meters, WEEK, 2 * WEEK)
    left = y[:WEEK] - sum(labelled.values())
    fits = {n: ch.optimise(unknown_rows(n, left), left, starts=6, seed=1, progress=False).best for n in UNKNOWN}
    report.text(
        "The mains meter. Rows of two states and a smooth base load explain what the four meters leave of the first "
        "week; powers, switching, noise and base load are learned:"
    )
    rows = []
    for n, best in fits.items():
        powers = np.sort([best.values[f"unknown {i + 1}.weight"] for i in range(n)])
        rows.append([str(n), f"{best.log_evidence:,.0f}", listed(powers), f"{best.values['sd']:.1f}"])
    report.table(["rows", "log evidence", "watts", "noise, W"], rows)
    best = fits[max(UNKNOWN)]
    own = learn(labelled, FEWER).model.rows.given
    model = ch.FactorialHMM(
        rows=[*own, *best.model.rows.given],
        emission=ch.Gaussian(sd=ch.LogNormal(np.log(best.values["sd"]), 0.3)),
        offset=[ch.Smooth(knots=KNOTS)],
    )
    began = process_time()
    found = ch.optimise(model, y[WEEK : 2 * WEEK], starts=2, seed=1, progress=False).best
    estimates = {name: estimate(found.model, y[WEEK : 2 * WEEK], name) for name in meters}
    scores = [measure(estimates[name], meter) for name, meter in rest.items()]
    report.text(f"The second week of the mains, with {max(UNKNOWN)} unknown rows:")
    rows = [[name, f"{error:.1f}, {f1:.3f}"] for name, (error, f1) in zip(meters, scores, strict=True)]
    error, f1 = np.mean(scores, axis=0)
    report.table(["appliance", "mean absolute error in watts, F1"], [*rows, ["mean", f"{error:.1f}, {f1:.3f}"]])
    report.text(f"{promise(estimates, rest)} {process_time() - began:.0f} CPU s.")


def unknown_rows(n: int, y: np.ndarray) -> ch.FactorialHMM:
    chain = ch.Switch(ch.Beta(1, 30), ch.Beta(1, 30))
    rows = [ch.Row([0, 1], chain, f"unknown {i + 1}", weight=ch.LogNormal(np.log(100), 1.0)) for i in range(n)]
    return ch.FactorialHMM(
        rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(float(np.std(y)))), offset=[ch.Smooth(knots=KNOTS)]
    )


def listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.0f}" for value in values)
