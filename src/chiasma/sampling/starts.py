"""Starts for an optimiser: draws from the prior, half of them moved to what the signal itself suggests.

From the signal: the noise, from differences of neighbours; the range of the levels, from quantiles; how often rows
switch, from jumps of running means. Each suggestion is spread at random, so that several starts see different scales.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.priors import Dirichlet, Mixed
from chiasma.types import Floats

# The standard deviation of a normal law is its median absolute value times this.
_PER_MEDIAN = 1.4826
# A jump is a difference of two running means of this many columns that is this many of its standard errors.
WINDOW, JUMP = 6, 5.0


class SignalTraits(NamedTuple):
    """What a signal tells about itself; channels together."""

    noise: float  # standard deviation between neighbours
    low: float  # 5% and 95% quantiles of running medians
    high: float
    switching: float  # jumps per column


def look_at(data: Observations) -> SignalTraits:
    """Robust summaries of the signal.

    >>> y = np.repeat([0.0, 4.0, 0.0, 4.0], 50) + np.random.default_rng(1).normal(0, 0.5, 200)
    >>> found = look_at(Observations(y))
    >>> round(found.noise, 1), round(found.high - found.low), round(200 * found.switching)
    (0.5, 5, 4)
    """
    columns = data.y.reshape(data.n_columns, -1)
    noise, low, high, jumps = [], [], [], []
    for y in columns.T:
        parts = [part[~np.isnan(part)] for part in np.split(y, data.starts[1:])]
        steps = np.concatenate([np.diff(part) for part in parts])
        seen = np.concatenate(parts)
        own = _PER_MEDIAN * float(np.median(np.abs(steps))) / np.sqrt(2) if len(steps) else 0.0
        noise.append(own or float(np.std(seen)) or 1.0 if len(seen) else 1.0)
        low.append(float(np.quantile(seen, 0.05)) if len(seen) else 0.0)
        high.append(float(np.quantile(seen, 0.95)) if len(seen) else 1.0)
        jumps.append(sum(_jumps(part, noise[-1]) for part in parts))
    return SignalTraits(
        noise=float(np.median(noise)),
        low=float(np.min(low)),
        high=float(np.max(high)),
        switching=(max(jumps) + 1) / data.n_columns,
    )


def _jumps(y: Floats, noise: float) -> int:
    if len(y) < 2 * WINDOW:
        return 0
    means = np.convolve(y, np.full(WINDOW, 1 / WINDOW), "valid")
    steps = np.abs(means[WINDOW:] - means[:-WINDOW]) > JUMP * noise * np.sqrt(2 / WINDOW)
    return int(np.count_nonzero(np.diff(steps.astype(np.int8), prepend=0) == 1))


def start_from_data(model: FactorialHMM, signal: SignalTraits, drawn: Floats, rng: np.random.Generator) -> Floats:
    """(P,) a draw from the prior in which what the signal suggests has replaced what the prior says, where it may."""
    parameters = model.parameters
    named = parameters.unpack(drawn)
    span = max(signal.high - signal.low, signal.noise)
    scale = span * np.exp(rng.normal(0, 0.35))
    rate = signal.switching / max(len(model.free_rows), 1) * np.exp(rng.normal(0, 0.7))
    total = _total_weight(model, named)
    wanted = {
        "sd": signal.noise * np.exp(rng.normal(0, 0.2)),
        "enter": rate,
        "leave": rate,
        "renew": rate,
        "depth": scale / total,
        "depth_mean": scale / total,
        "background": max(signal.low, 0.0),
    }
    values = drawn.copy()
    for slot in parameters.slots:
        own = slot.name.rpartition(".")[2]
        if own in wanted:
            moved = np.full(slot.prior.shape, wanted[own]) * np.exp(rng.normal(0, 0.1, slot.prior.shape))
        elif own in ("weights", "values", "weight") and not isinstance(slot.prior, Dirichlet) and "depth" not in named:
            depth = float(np.max(getattr(model.emission, "depth", 1.0))) or 1.0
            moved = named[slot.name] * (scale / depth / max(total, 1e-300))
        else:
            continue
        if isinstance(slot.prior, Mixed):
            moved = np.where(slot.prior.is_number, named[slot.name], moved)
        if np.isfinite(slot.prior.log_density(moved)):
            values[slot.values] = moved.ravel()
    return values


def _total_weight(model: FactorialHMM, named: dict[str, Floats]) -> float:
    """The highest level, about: what all rows add together."""
    if not isinstance(model.emission, Additive):
        return 1.0
    weights = np.abs(named.get("weights", model.emission.weights))
    per_row = weights.reshape(len(weights), -1).max(axis=1) if len(weights) else np.ones(1)
    per_row = per_row * [np.abs(adds).max() for adds in model.rows.contributions(np.ones(model.n_rows))]
    return float(per_row.sum()) or 1.0
