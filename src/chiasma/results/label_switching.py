"""Label switching that was not undone, in words: rows that change places in the draws though their priors differ."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import xarray as xr

from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import exchangeable_rows

# Two rows change places where each is the larger one in at least this share of the draws, and the difference of their
# weights has two signs rather than a wide spread: its size varies less than this share of itself.
LEAST_SHARE, MOST_SPREAD = 0.05, 0.5


def label_warnings(model: FactorialHMM | Density | None, parameters: xr.Dataset) -> list[str]:
    """Warnings about rows whose weights swap signs of their difference; none for rows that draws have in order.

    Examples
    --------
    >>> import chiasma as ch
    >>> chains = ch.BinaryChains(enter=[0.1, 0.2], leave=0.1)
    >>> model = ch.FactorialHMM(chains=chains, emission=ch.Gaussian(ch.Gamma([2, 2], 1)))
    >>> weights = np.array([[[1.0, 3.0], [3.1, 1.1], [0.9, 2.9], [3.0, 1.0]]])
    >>> draws = xr.Dataset({"weights": (("chain", "draw", "row"), weights)})
    >>> label_warnings(model, draws)[0].partition(":")[0]
    'rows 0 and 1 change places (label switching)'
    """
    if not isinstance(model, FactorialHMM) or "weights" not in parameters:
        return []
    values = parameters["weights"].transpose("chain", "draw", "row", ...).values
    if values.shape[1] < 4:
        return []
    flat = values.reshape(-1, *values.shape[2:])
    flat = flat.reshape(len(flat), flat.shape[1], -1)[:, :, 0]
    ordered = exchangeable_rows(model)
    found = []
    for i, j in combinations(model.free_rows, 2):
        away = flat[:, i] - flat[:, j]
        share = float(np.mean(away > 0))
        switched = min(share, 1 - share) >= LEAST_SHARE and np.std(np.abs(away)) < MOST_SPREAD * np.mean(np.abs(away))
        if switched and not any(i in group and j in group for group in ordered):
            found.append((i, j))
    if not found:
        return []
    pairs = ", ".join(f"{_name(model, i)} and {_name(model, j)}" for i, j in found[:3])
    return [
        f"rows {pairs} change places (label switching): the data do not say which is which, and their priors or rates "
        "differ too little to decide; means of single rows describe nothing; give such rows equal priors, and draws "
        "are put in the order of their weights"
    ]


def _name(model: FactorialHMM, row: int) -> str:
    return str(row) if model.row_names is None else model.row_names[row]
