"""A baseline that its prior keeps above zero: the signal may lie below what the rows can reach."""

from __future__ import annotations

import numpy as np
import xarray as xr

from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.results.findings import Finding, Use
from chiasma.results.parameters import Entry, entries

# The weight of a baseline is at the edge where almost all its draws are below this quantile of its prior.
EDGE, PRIOR_DRAWS, ALMOST_ALL = 0.005, 4_000, 0.95


def edge_findings(model: FactorialHMM | Density | None, parameters: xr.Dataset) -> list[Finding]:
    """A finding about rows that are fixed on, and whose learned weight is as near to 0 as a prior of positive numbers
    allows. No positive weight explains a negative offset, and other parameters then make up for it.

    Examples
    --------
    >>> import chiasma as ch
    >>> chains, weights = ch.Switches(0.1, 0.1), ch.Gamma([2, 2], [1, 1])
    >>> model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(weights), fixed={1: 1})
    >>> draws = xr.Dataset({"weights": (("chain", "draw", "row"), np.array([[[1.0, 0.001], [1.1, 0.002]]]))})
    >>> edge_findings(model, draws)[0].facts
    {'names': ['row 1']}
    """
    if not isinstance(model, FactorialHMM):
        return []
    found = [_row_text(model, row) for row, entry in _baselines(model, parameters) if _is_at_edge(model, entry)]
    remedy = Use("weight", "ch.Normal(0, ...)", "[[row]] weight")
    return [Finding("prior-edge", "limited", {"names": found}, (remedy,))] if found else []


def _baselines(model: FactorialHMM, parameters: xr.Dataset) -> list[tuple[int, Entry]]:
    """Rows that are fixed on, with their learned weights."""
    own = {}
    if model.rows is not None:
        numbers = np.cumsum([0, *(row.copies for row in model.rows.given)]).tolist()
        own = {keys["weight"]: k for keys, k in zip(model.rows.keys, numbers, strict=False) if "weight" in keys}
    found = []
    for entry in entries(parameters):
        row = entry.place[0] if entry.parameter == "weights" and entry.place else own.get(entry.parameter)
        if row is not None and model.fixed.get(row):
            found.append((row, entry))
    return found


def _is_at_edge(model: FactorialHMM, entry: Entry) -> bool:
    prior = next((slot.prior for slot in model.parameters.slots if slot.name == entry.parameter), None)
    if prior is None or prior.marginal(entry.place).support != (0.0, np.inf):
        return False
    rng, marginal = np.random.default_rng(0), prior.marginal(entry.place)
    edge = np.quantile([marginal.sample(rng) for _ in range(PRIOR_DRAWS)], EDGE)
    return bool(np.quantile(entry.values, ALMOST_ALL) < edge)


def _row_text(model: FactorialHMM, row: int) -> str:
    return f"row {row}" if model.row_names is None else model.row_names[row]
