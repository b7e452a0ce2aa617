"""Learned parameters by name, summaries of their values, and the model at the values of a draw.

parameters: a Dataset, each variable (chain, draw, ...), the last dimensions being row or channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.models.additive import Additive
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.parameters import label
from chiasma.models.priors import Mixed
from chiasma.results.arrays import per_draw
from chiasma.results.convergence import judge
from chiasma.types import Floats, shown

# The quantiles that a summary calls low and high.
QUANTILES = (0.05, 0.95)


# Curves of this many draws give the bands of an offset.
MOST_CURVES = 500
# Marks coefficients of an offset: they are many, and what they mean is the curve (`Posterior.offset`).
COEFFICIENTS = "coefficients"
# Marks which entries of a parameter are numbers in a list with priors: they are not learned.
NUMBERS = "numbers"
# Parameters whose values, if there are several, are one per row.
_BY_ROW = ("weights", "enter", "leave", "initial")


def named_parameters(values: Floats | None, model: FactorialHMM | Density | None) -> xr.Dataset:
    """Learned parameters (C, n, P) as a Dataset by name, with a coordinate for rows."""
    if values is None or not values.shape[-1]:
        return xr.Dataset()
    if not isinstance(model, FactorialHMM):
        return xr.Dataset({"parameters": per_draw("parameters", values, "parameter")})
    arrays = {}
    for name, array in model.parameters.unpack(values).items():
        arrays[name] = per_draw(name, array, *_dims(name, array.ndim - 2, name in model.rows.priors, model))
        prior = next(slot.prior for slot in model.parameters.slots if slot.name == name)
        if isinstance(prior, Mixed):
            arrays[name].attrs[NUMBERS] = prior.is_number
        if model.offset is not None and name in model.offset.priors and not name.endswith(".smoothness"):
            arrays[name].attrs[COEFFICIENTS] = True
    return xr.Dataset(arrays)


def _dims(name: str, n: int, of_chains: bool, model: FactorialHMM) -> tuple[str, ...]:
    """Names of the dimensions of a parameter. Rows may have different numbers of states, so each has its own names."""
    if model.offset is not None and name in model.offset.priors:
        parts = ("harmonic", "wave", "knot") if n == 3 else ("harmonic",) if "." in name else ("knot",)
        return tuple(f"{name}_{part}" for part in parts[:n])
    if of_chains and model.rows.given:
        return (f"{name}_state",) if n == 1 else (f"{name}_from", f"{name}_to") if n == 2 else ()
    return (("row", "channel") if name in _BY_ROW else ("channel",))[:n]


class Entry(NamedTuple):
    """One value of a parameter: its name, such as weights[2], its index in the parameter, its draws (chain, draw)."""

    name: str
    parameter: str
    place: tuple[int, ...]
    values: Floats


def entries(parameters: xr.Dataset) -> Iterator[Entry]:
    """Every learned value of every parameter but the coefficients of offsets, in order."""
    for parameter, array in parameters.data_vars.items():
        if array.attrs.get(COEFFICIENTS):
            continue
        values = array.transpose("chain", "draw", ...).values
        numbers = array.attrs.get(NUMBERS)
        for place in np.ndindex(values.shape[2:]):
            if numbers is not None and numbers[place]:
                continue
            yield Entry(label(str(parameter), place), str(parameter), place, values[:, :, *place])


@dataclass(frozen=True, kw_only=True)
class ParameterSummary:
    """Posterior mean and standard deviation, 5% and 95% quantiles, R-hat and bulk effective sample size."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    rhat: float
    ess: float


def summarise_parameters(parameters: xr.Dataset) -> tuple[ParameterSummary, ...]:
    return tuple(_summarised(entry) for entry in entries(parameters))


def _summarised(entry: Entry) -> ParameterSummary:
    judged = judge(entry.values[:, :, None])
    low, high = np.quantile(entry.values, QUANTILES)
    return ParameterSummary(
        name=entry.name,
        mean=float(entry.values.mean()),
        sd=float(entry.values.std(ddof=1)) if entry.values.size > 1 else 0.0,
        low=float(low),
        high=float(high),
        rhat=float(judged.rhat[0]),
        ess=float(judged.ess[0]),
    )


def model_at_mean(model: FactorialHMM, parameters: xr.Dataset) -> FactorialHMM:
    """The model at the posterior means. Supports are convex (intervals or a simplex), so the means lie inside."""
    means = parameters.mean(("chain", "draw"))
    return model.at({name: means[name].values for name in model.parameters.names})


def model_at_draw(model: FactorialHMM, parameters: xr.Dataset, chain: int, draw: int) -> FactorialHMM:
    """The model at the parameters of one draw."""
    return model.with_unchecked_values({name: parameters[name].values[chain, draw] for name in model.parameters.names})


def adds_of_draws(model: FactorialHMM, parameters: xr.Dataset) -> list[xr.DataArray]:
    """For every row, (chain, draw, state) or (chain, draw, state, channel): what its states add to the level in every
    draw, for a model of rows with values.
    """
    n_chains, n_draws = parameters.sizes["chain"], parameters.sizes["draw"]
    found: list[list[Floats]] = []
    for chain, draw in np.ndindex(n_chains, n_draws):
        placed = model_at_draw(model, parameters, chain, draw)
        assert isinstance(placed.emission, Additive)
        found.append(placed.rows.contributions(placed.emission.weights))
    arrays = (np.array(own).reshape(n_chains, n_draws, *own[0].shape) for own in zip(*found, strict=True))
    coords = {name: parameters[name] for name in ("chain", "draw")}
    return [xr.DataArray(own, coords, ("chain", "draw", "state", "channel")[: own.ndim]) for own in arrays]


def signal_level(model: FactorialHMM | Density | None, levels: xr.DataArray) -> xr.DataArray:
    """Levels without the variances that states add, if they add any."""
    spreads = isinstance(model, FactorialHMM) and model.rows.spreads
    return levels.isel(channel=0) if spreads else levels


def offset_bands(model: FactorialHMM | Density | None, parameters: xr.Dataset, term: str | None) -> xr.Dataset:
    """Mean and quantiles over the draws of what an offset, or one of its terms, adds to every column."""
    offset = model.offset if isinstance(model, FactorialHMM) else None
    if offset is None:
        raise InvalidInput("this model has no offset; give the model offset=[ch.Smooth(...)]")
    if offset.curve is not None:
        curves = offset.curve[None]
    else:
        assert offset.bound is not None
        names = [own.name for own in offset.bound.bound]
        if term is not None and term not in names:
            raise InvalidInput(f"there is no term {shown(term)}; this offset has {', '.join(names)}")
        n_draws = parameters.sizes["chain"] * parameters.sizes["draw"]
        used = np.unique(np.linspace(0, n_draws - 1, min(n_draws, MOST_CURVES)).round().astype(int))
        blank = {name: np.zeros(offset.priors[name].shape) for name in names}
        wanted = names if term is None else [term]
        draws = {name: parameters[name].values.reshape(n_draws, *blank[name].shape)[used] for name in wanted}
        curves = np.array(
            [
                offset.bound.curve(offset.bound.coefficients(blank | {name: own[i] for name, own in draws.items()}))
                for i in range(len(used))
            ]
        )
    low, high = np.quantile(curves, QUANTILES, axis=0)
    dims = ("site", "channel")[: curves.ndim - 1]
    arrays = {"mean": curves.mean(axis=0), "low": low, "high": high}
    return xr.Dataset({name: (dims, values) for name, values in arrays.items()})
