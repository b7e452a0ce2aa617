"""Label switching that was not undone: rows that change places in the draws though their priors differ."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import xarray as xr

from chiasma.models.additive import Additive
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import RowSizes
from chiasma.results.findings import Finding
from chiasma.types import Floats

# Two rows change places where each is the larger one in at least this share of the draws, the difference of what they
# add has two signs rather than a wide spread (its size varies less than this share of itself), and the larger one adds
# about the same whichever it is: a row of two possible sizes on both sides of a known one changes no places.
LEAST_SHARE, MOST_SPREAD = 0.05, 0.5


def label_findings(model: FactorialHMM | Density | None, parameters: xr.Dataset) -> list[Finding]:
    """A finding about rows of as many states each, if what they add swaps the sign of its difference.

    Draws that were put in order have none.

    Examples
    --------
    >>> import chiasma as ch
    >>> chains = ch.Switches(enter=[0.1, 0.2], leave=0.1)
    >>> model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(ch.Gamma([2, 2], 1)))
    >>> weights = np.array([[[1.0, 3.0], [3.1, 1.1], [0.9, 2.9], [3.0, 1.0]]])
    >>> draws = xr.Dataset({"weights": (("chain", "draw", "row"), weights)})
    >>> label_findings(model, draws)[0].facts
    {'names': ['0 and 1']}
    """
    if not isinstance(model, FactorialHMM) or not isinstance(model.emission, Additive) or not model.parameters:
        return []
    if not set(model.parameters.names) <= set(parameters) or parameters.sizes["draw"] < 4:
        return []
    drawn = [parameters[name].transpose("chain", "draw", ...).values for name in model.parameters.names]
    flat = np.concatenate([values.reshape(values.shape[0] * values.shape[1], -1) for values in drawn], axis=1)
    sizes, n_states = RowSizes(model)(flat), model.layout.sizes
    found = []
    for i, j in combinations(model.free_rows, 2):
        if n_states[i] == n_states[j] and _switched(sizes[:, i], sizes[:, j]):
            found.append((i, j))
    if not found:
        return []
    return [Finding("label-switching", "limited", {"names": [_pair(model, i, j) for i, j in found]})]


def _switched(one: Floats, other: Floats) -> bool:
    """Whether two rows change places, from what each adds in every draw."""
    away = one - other
    larger = away > 0
    share = float(np.mean(larger))
    least = MOST_SPREAD * np.mean(np.abs(away))
    if min(share, 1 - share) < LEAST_SHARE or np.std(np.abs(away)) >= least:
        return False
    ends = ((one[larger], other[~larger]), (other[larger], one[~larger]))
    return all(abs(np.median(here) - np.median(there)) < least for here, there in ends)


def _pair(model: FactorialHMM, i: int, j: int) -> str:
    names = model.row_names
    return f"{i} and {j}" if names is None else f"{names[i]} and {names[j]}"
