"""Checks of learned parameters: is each where its prior allows, in one heap of draws, and of one row?

Each function takes the model and the learned parameters, (chain, draw) or (chain, draw, row), and returns findings.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import xarray as xr

from chiasma.models.additive import Additive
from chiasma.models.density import Density
from chiasma.models.emissions import StudentT
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import RowSizes
from chiasma.results.findings import Finding, Set, Use
from chiasma.results.parameters import Entry, entries
from chiasma.types import Floats

# ---- Values where their priors have hardly any mass ------------------------------------------------------------------

# A value is in conflict with its prior where almost all its draws lie beyond all of these draws of the prior.
CONFLICT_DRAWS, ALMOST_ALL = 2_000, 0.95


def conflict_findings(model: FactorialHMM | Density | None, parameters: xr.Dataset) -> list[Finding]:
    """A finding that names the learned values which their priors hardly allow.

    Examples
    --------
    >>> import chiasma as ch
    >>> emission = ch.Gaussian([1.0], sd=ch.LogNormal(0.0, 0.1))
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    >>> draws = xr.Dataset({"sd": (("chain", "draw"), np.full((2, 10), 5.0))})
    >>> conflict_findings(model, draws)[0].facts
    {'names': ['sd near 5 (prior 0.677 to 1.36)']}
    """
    if not isinstance(model, FactorialHMM):
        return []
    priors = {slot.name: slot.prior for slot in model.parameters.slots}
    found = []
    for one in entries(parameters):
        if one.parameter not in priors:
            continue
        rng, marginal = np.random.default_rng(0), priors[one.parameter].marginal(one.place)
        expected = np.array([float(marginal.sample(rng)) for _ in range(CONFLICT_DRAWS)])
        if _beyond(one.values, expected):
            span = f"{expected.min():.3g} to {expected.max():.3g}"
            found.append(f"{one.name} near {np.median(one.values):.3g} (prior {span})")
    return [Finding("prior-conflict", "limited", {"names": found})] if found else []


def _beyond(values: Floats, expected: Floats) -> bool:
    return bool(max(np.mean(values < expected.min()), np.mean(values > expected.max())) >= ALMOST_ALL)


# ---- Baselines that their priors keep above zero ---------------------------------------------------------------------

# The weight of a baseline is at the edge where almost all its draws are below this quantile of its prior.
EDGE, EDGE_DRAWS = 0.005, 4_000


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
    edge = np.quantile([marginal.sample(rng) for _ in range(EDGE_DRAWS)], EDGE)
    return bool(np.quantile(entry.values, ALMOST_ALL) < edge)


def _row_text(model: FactorialHMM, row: int) -> str:
    return f"row {row}" if model.row_names is None else model.row_names[row]


# ---- Draws in two parts ----------------------------------------------------------------------------------------------

# Each part holds at least this share of the draws. Between their medians, the middle third holds less than this part of
# the draws of the smaller one: a valley. Of one heap, such as a normal or a uniform one, it would hold a third or more.
LEAST_PART, VALLEY = 0.01, 0.2
# With fewer draws, or fewer of a part, a valley says nothing.
FEWEST, FEWEST_OF_PART = 100, 10


class Halves(NamedTuple):
    """The share of the draws in the lower part, and the medians of both."""

    share: float
    low: float
    high: float

    @property
    def text(self) -> str:
        percent = round(100 * self.share)
        return f"{percent}% of the draws near {self.low:.3g}, {100 - percent}% near {self.high:.3g}"


def two_parts(values: Floats) -> Halves | None:
    """The two parts of some draws (n,), if they have two: a few draws may lie between them.

    >>> near = np.linspace(1, 2, 100)
    >>> two_parts(np.concatenate([near, 50 * near[:25]])).text
    '80% of the draws near 1.5, 20% near 56.1'
    >>> two_parts(near)
    """
    n = len(values)
    if n < FEWEST:
        return None
    ordered = np.sort(values)
    least = max(FEWEST_OF_PART, int(np.ceil(LEAST_PART * n)))
    # The split that leaves least variance within the parts (Otsu's).
    sizes = np.arange(least, n - least + 1)
    sums = np.cumsum(ordered - ordered.mean())[sizes - 1]
    split = int(sizes[np.argmax(sums**2 / (sizes * (n - sizes)))])
    low, high = (float(np.median(part)) for part in (ordered[:split], ordered[split:]))
    if low == high:
        return None
    middle = np.searchsorted(ordered, [low + (high - low) / 3, high - (high - low) / 3])
    if min(middle[0], n - middle[1]) < least or middle[1] - middle[0] >= VALLEY * min(split, n - split):
        return None
    return Halves(split / n, low, high)


def part_findings(parameters: xr.Dataset) -> list[Finding]:
    """A finding that names the learned values whose posteriors have two parts."""
    found = [(one.name, parts) for one in entries(parameters) if (parts := two_parts(one.values.ravel())) is not None]
    names = [f"{name} ({parts.text})" for name, parts in found]
    return [Finding("two-parts", "limited", {"names": names})] if names else []


# ---- Tails so heavy that any value is noise --------------------------------------------------------------------------

# With fewer degrees of freedom, the noise has no variance.
LEAST_DF, USUAL_DF = 2.0, 4


def tail_findings(model: FactorialHMM | Density | None, parameters: xr.Dataset) -> list[Finding]:
    """A finding if the learned degrees of freedom of a Student-t emission are few.

    Examples
    --------
    >>> import chiasma as ch
    >>> emission = ch.StudentT([1.0], df=ch.Gamma(2, 0.5))
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    >>> (found,) = tail_findings(model, xr.Dataset({"df": (("chain", "draw"), np.full((2, 10), 0.67))}))
    >>> found.code, found.facts
    ('heavy-tails', {'df': 0.67})
    """
    if not isinstance(model, FactorialHMM) or not isinstance(model.emission, StudentT) or "df" not in parameters:
        return []
    df = float(np.median(parameters["df"].values))
    if df >= LEAST_DF:
        return []
    return [Finding("heavy-tails", "limited", {"df": df}, (Set("df", USUAL_DF),))]


# ---- Rows that change places -----------------------------------------------------------------------------------------

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
