"""Conjugate Gibbs updates given a path: Beta for switching probabilities, Normal for depth or weights of a Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np

from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.priors import Beta, Normal
from chiasma.types import Floats, Integers

# For every parameter: the entries of a row's four transition counts that are successes, and those that are failures.
_MOVES = {"enter": ([1], [0]), "leave": ([2], [3]), "initial": ([1, 3], [0, 2])}


def draw_chains(
    model: FactorialHMM, data: Observations, counts: Integers, values: Floats, rng: np.random.Generator
) -> tuple[Floats, set[str]]:
    """Gibbs draw of the conjugate switching probabilities: new values (P,), and the names of the drawn parameters.

    counts (E, K, 4): transitions of the free rows by kind of edge. With gaps, or a stationary start, enter and leave
    are not conjugate; they are updated by slice sampling elsewhere.
    """
    plain = data.gaps is None and model.chains.initial is not None
    values, drawn = values.copy(), set()
    for slot in model.parameters.slots:
        if not isinstance(slot.prior, Beta) or slot.name not in _MOVES or not (plain or slot.name == "initial"):
            continue
        own = counts[0] if slot.name == "initial" else counts[1:].sum(axis=0)
        made, other = np.zeros((2, model.n_rows))
        yes, no = _MOVES[slot.name]
        made[list(model.free_rows)] = own[:, yes].sum(axis=1)
        other[list(model.free_rows)] = own[:, no].sum(axis=1)
        if slot.prior.shape == ():
            made, other = made.sum(), other.sum()
        drawn_values = rng.beta(slot.prior.alpha + made, slot.prior.beta + other)
        # A draw that was rounded to 0 or 1 would have an infinite free coordinate.
        values[slot.values] = np.clip(drawn_values, np.finfo(float).tiny, 1 - np.finfo(float).epsneg)
        drawn.add(slot.name)
    return values, drawn


def draw_gaussian(
    model: FactorialHMM, summary: Any, on: Floats, beta: float, values: Floats, rng: np.random.Generator
) -> tuple[Floats, set[str]]:
    """Gibbs draw of Normal depth or Normal weights of a Gaussian: new values (P,), and the names of those drawn.

    summary: moments of groups of columns; on (G, K): which rows are on in each.
    """
    values = values.copy()
    drawn: set[str] = set()
    if not isinstance(model.emission, Gaussian):
        return values, drawn
    n, mean, _ = summary
    for slot in model.parameters.slots:
        prior = slot.prior
        if not isinstance(prior, Normal) or slot.name not in ("depth", "weights"):
            continue
        now = model.emission.with_unchecked_values(model.parameters.unpack(values))
        share = beta / now.sd**2
        if slot.name == "depth":
            level = on @ now.weights
            precision, pull = share * n * level**2, share * n * level * mean
            if prior.shape == ():
                precision, pull = precision.sum(), pull.sum()
            else:
                precision, pull = precision.sum(axis=0), pull.sum(axis=0)
            precision = precision + 1 / prior.sd**2
            centre = (pull + prior.mean / prior.sd**2) / precision
            values[slot.values] = rng.normal(centre, 1 / np.sqrt(precision))
        elif now.n_channels is None:
            scaled = on * now.depth
            precision = (scaled * (share * n)[:, None]).T @ scaled + np.diag(
                np.broadcast_to(prior.sd**-2.0, prior.shape)
            )
            pull = scaled.T @ (share * n * mean) + prior.mean / prior.sd**2
            root = np.linalg.cholesky(precision)
            noise = np.linalg.solve(root.T, rng.standard_normal(len(pull)))
            values[slot.values] = np.linalg.solve(precision, pull) + noise
        else:
            continue
        drawn.add(slot.name)
    return values, drawn
