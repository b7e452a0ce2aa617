"""Rows of several states, and equal rows: every exchange against an exact posterior, and a space too large for one.

Large: every channel of the signal is the sum of four rows of its own: one of three states, one of four, and two that
are equal. The posterior is a product over channels, and each factor has exact probabilities and evidence. The sampler
is not told: it sees all rows at once, and draws which of two equal rows it is that are on.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import chiasma as ch
from chiasma.sampling.exchanges import EXCHANGES

if TYPE_CHECKING:
    from run import Report

# The exchanges, one channel.
SMALL_COLUMNS, SMALL_WARMUP, SMALL_DRAWS, LADDER = 400, 200, 600, [1, 2, 4, 8]
# The large space.
CHANNELS, COLUMNS, WARMUP, DRAWS = 6, 300, 200, 200
CHAINS = 2
ERROR, SCORE = 0.02, 4.0


def rows(channel: int, n_channels: int) -> list[ch.Row]:
    """Sums of values that nearly coincide: a washer at 1.0 is a lamp of 0.55 and a heater at 0.45."""

    def seen(values: list[float]) -> np.ndarray:
        return np.outer(values, np.eye(n_channels)[channel])

    return [
        ch.Row(seen([0, 1.0, 1.9]), ch.Sticky(renew=0.03, probabilities=[0.5, 0.3, 0.2]), f"washer_{channel}"),
        ch.Row(seen([0, 0.45, 0.8, 1.4]), ch.Sticky(renew=0.02), f"heater_{channel}"),
        ch.Row(seen([0, 0.55]), ch.Switch(enter=0.02, leave=0.03), f"lamp_{channel}", copies=2),
    ]


def model_of(n_channels: int) -> ch.FactorialHMM:
    every = [row for d in range(n_channels) for row in rows(d, n_channels)]
    return ch.FactorialHMM(rows=every, emission=ch.Gaussian(sd=0.25))


def exact_answers(y: np.ndarray) -> tuple[list[np.ndarray], float]:
    """Probabilities (S, T) of the states of every row, and the log evidence, channel by channel."""
    one = model_of(1)
    channels = [y[:, d : d + 1] for d in range(y.shape[1])]
    exact = [ch.exact.probabilities(one, own, k) for own in channels for k in range(one.n_rows)]
    return exact, sum(ch.exact.log_evidence(one, own) for own in channels)


def error(posterior: ch.Posterior, exact: list[np.ndarray]) -> float:
    """Mean absolute error over rows, states and columns."""
    found = [posterior.probabilities(k).values for k in range(len(exact))]
    return float(np.mean([np.abs(own - wanted).mean() for own, wanted in zip(found, exact, strict=True)]))


def sample(model: ch.FactorialHMM, y: np.ndarray, **settings: Any) -> tuple[ch.Posterior, float]:
    began = perf_counter()
    posterior = ch.sample(model, y, **{"chains": CHAINS, "seed": 1, "progress": False} | settings)
    return posterior, perf_counter() - began


def run(report: Report) -> None:
    exchanges(report)
    large(report)


def exchanges(report: Report) -> None:
    model = model_of(1)
    _, y = model.simulate(SMALL_COLUMNS, seed=1)
    exact, _ = exact_answers(y)
    budget = {"warmup": SMALL_WARMUP, "draws": SMALL_DRAWS}
    table, errors = [], {}
    for name, settings in {
        "rows alone": {"update": "row", "exchange": None},
        **{f"rows, {name}": {"update": "row", "exchange": name, "ladder": LADDER} for name in EXCHANGES},
        "ball, mosaic": {"update": "hamming-ball", "exchange": "mosaic", "ladder": LADDER},
        "blocks of 2, mosaic": {"update": ch.BlockGibbs(size=2), "exchange": "mosaic", "ladder": LADDER},
        "exact draws": {"update": "exact"},
    }.items():
        posterior, seconds = sample(model, y, **budget | settings)
        errors[name] = error(posterior, exact)
        table.append([name, f"{errors[name]:.4f}", f"{seconds:.0f}"])
    report.text(
        f"## Exchanges\n\n{model.n_rows} rows, {model.target(y).size_text}, {SMALL_COLUMNS} columns, temperatures "
        f"{LADDER}, {SMALL_WARMUP} sweeps of warm-up and {SMALL_DRAWS} draws, {CHAINS} chains. Mean absolute error of "
        "the probabilities of all states of all rows:"
    )
    report.table(["sampler", "error", "seconds"], table)
    crossovers = max(errors["rows, augmented"], errors["rows, mosaic"])
    report.goal("both rejection-free crossovers have a smaller error than swaps", crossovers < errors["rows, swap"])
    report.goal(f"blocks with mosaic crossovers have an error under {ERROR}", errors["blocks of 2, mosaic"] < ERROR)


def large(report: Report) -> None:
    model = model_of(CHANNELS)
    _, y = model.simulate(COLUMNS, seed=2)
    exact, log_evidence = exact_answers(y)
    budget = {"warmup": WARMUP, "draws": DRAWS}
    runs = {
        "auto": sample(model, y, **budget),
        "the same blocks alone": sample(model, y, exchange=None, **budget),
        "the same blocks alone, 10 sweeps per draw": sample(model, y, exchange=None, thin=10, **budget),
        "rows alone, 10 sweeps per draw": sample(model, y, update="row", exchange=None, thin=10, **budget),
    }
    auto = runs["auto"][0]
    report.text(
        f"## A large space\n\n{model.n_rows} rows, {COLUMNS} columns, {CHANNELS} channels that do not depend on each "
        f"other. `ch.sample(model, y)` with default settings chose: {auto.info['plan']}. It ended with "
        f"{len(auto.betas)} replicas. Budget: {WARMUP} sweeps of warm-up and {DRAWS} draws, {CHAINS} chains."
    )
    report.table(
        ["sampler", "error", "seconds"],
        [[name, f"{error(done, exact):.4f}", f"{seconds:.0f}"] for name, (done, seconds) in runs.items()],
    )
    evidence = auto.log_evidence
    assert evidence is not None
    score = (evidence.value - log_evidence) / evidence.standard_error
    on = [np.mean([auto.states(f"lamp_{d}_{k}").values.mean() for d in range(CHANNELS)]) for k in (1, 2)]
    report.text(
        f"Log evidence from the ladder: {evidence.value:.2f} ± {evidence.standard_error:.2f}; exact: "
        f"{log_evidence:.2f}. Of two equal rows the first is on in {on[0]:.3f} of all columns and draws, the second "
        f"in {on[1]:.3f}."
    )
    blocks, _ = runs["the same blocks alone, 10 sweeps per draw"]
    report.goal(f"blocks alone have an error under {ERROR} after {10 * DRAWS} sweeps", error(blocks, exact) < ERROR)
    report.goal(f"the evidence of auto is within {SCORE:g} standard errors of the exact one", abs(score) < SCORE)
