"""A posterior as a DataTree in ArviZ's schema. Lazy arrays stay lazy.

posterior             learned parameters, (chain, draw) or (chain, draw, row); time_on (chain, draw, row), the share of
                      columns that a row spends outside its first state; of a density, x (chain, draw, site) alone
paths                 codes, level, rows_on (chain, draw, site)
log_likelihood        y (chain, draw, site): log p(y_t | path, parameters) of every observed column
posterior_predictive  y (chain, draw, site): a signal drawn given every path and its parameters
sample_stats          lp, log_likelihood (chain, draw)
observed_data         y; constant_data: weights (row,) if they are not learned, starts (sequence,)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import on_bits
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.arrays import labelled
from chiasma.results.configurations import lazy_if_large
from chiasma.results.provenance import versions
from chiasma.types import Floats

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior


def to_datatree(posterior: Posterior, weights: Floats | xr.DataArray | None) -> xr.DataTree:
    """weights: of the rows, if the model has levels."""
    own, data = list(posterior.parameters.data_vars.values()), posterior.data
    groups: dict[str, xr.Dataset] = {}
    constant = {}
    if posterior.n_rows is None:
        own.append(posterior.draws)
    else:
        own.append(_time_on(posterior))
        level = None if weights is None else posterior.levels()
        paths = [posterior.codes, level, posterior.rows_on()]
        groups["paths"] = xr.Dataset({str(part.name): part for part in paths if part is not None})
        # Draws of some of the columns only cannot be set against the data.
        if data is not None and data.n_columns == posterior.draws.sizes["site"]:
            if isinstance(posterior.model, FactorialHMM):
                groups["log_likelihood"] = xr.Dataset({"y": _log_likelihood(posterior, posterior.model, data)})
            if level is not None and (drawn := _predictive(posterior, data)) is not None:
                groups["posterior_predictive"] = xr.Dataset({"y": drawn})
    groups["posterior"] = xr.Dataset({str(variable.name): variable for variable in own})
    groups["sample_stats"] = xr.Dataset({"lp": posterior.log_joint, "log_likelihood": posterior.log_likelihood})
    if isinstance(weights, np.ndarray):
        constant["weights"] = labelled(None, weights, *("row", "channel")[: weights.ndim])
    if data is not None:
        groups["observed_data"] = xr.Dataset({"y": labelled(None, data.y, *("site", "channel")[: data.y.ndim])})
        constant["starts"] = labelled(None, data.starts, "sequence")
    if constant:
        groups["constant_data"] = xr.Dataset(constant)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = _attributes(posterior)
    tree["posterior"].attrs = _attributes(posterior)
    return tree


def _time_on(posterior: Posterior) -> xr.DataArray:
    """(chain, draw, row) share of columns in which a row is not in its first state."""
    layout = posterior.layout

    def shares(codes: npt.NDArray[np.unsignedinteger]) -> Floats:
        on = on_bits(codes, layout)
        return np.stack([(on >> k & 1).mean(axis=-1) for k in range(len(layout.sizes))], axis=-1)

    found = _by_path(shares, posterior.codes, [["site"]], {"row": len(layout.sizes)})
    names = posterior.info.get("row_names") or range(len(layout.sizes))
    return found.assign_coords(row=list(names)).rename("time_on")


def _log_likelihood(posterior: Posterior, model: FactorialHMM, data: Observations) -> xr.DataArray:
    known = None if model.learns else model.exact_target(data)

    def one(path: npt.NDArray[Any], chain: int, draw: int) -> Floats:
        target = known or posterior.model_at(chain, draw).exact_target(data)
        return target.likelihood.at(target.reduce(path)[:, None])[:, 0]

    # A missing column has no likelihood, and leave-one-out cannot leave it out.
    return _by_draw(one, posterior.codes, {"site": data.n_columns}).isel(site=~data.missing)


def _predictive(posterior: Posterior, data: Observations) -> xr.DataArray | None:
    """None if the emission cannot draw a signal."""
    seed, layout = posterior.info.get("seed") or 0, posterior.layout

    def one(path: npt.NDArray[Any], chain: int, draw: int) -> Floats:
        model = posterior.model_at(chain, draw)
        assert isinstance(model.emission, Additive)
        adds = model.rows.contributions(model.emission.weights)
        codes = path.astype(np.int64)
        states = (codes >> shift & mask for shift, mask in zip(layout.shifts, layout.masks, strict=True))
        level = sum((own[state] for own, state in zip(adds, states, strict=True)), np.zeros(adds[0].shape[1:]))
        y = model.emission.sample(level, np.random.default_rng([seed, chain, draw]))
        return y if model.offset is None else y - model.offset.subtracted(data.with_signal(np.zeros_like(data.y))).y

    try:
        one(posterior.codes[0, 0].values, 0, 0)
    except (InvalidInput, NotImplementedError, IndexError):  # a density of the user's; no draws
        return None
    return _by_draw(one, posterior.codes, dict(zip(("site", "channel"), data.y.shape, strict=False)))


def _by_draw(
    one: Callable[[npt.NDArray[Any], int, int], Floats], codes: xr.DataArray, out: dict[str, int]
) -> xr.DataArray:
    """A function of every path, its chain and its draw. out: the dimensions of its result."""
    n_draws = codes.sizes["draw"]
    number = codes.isel(site=0, drop=True)
    number = number.copy(data=np.arange(number.size).reshape(number.shape))

    def several(part: npt.NDArray[Any], numbers: npt.NDArray[np.integer]) -> Floats:
        found = np.empty((*numbers.shape, *out.values()))
        for place in np.ndindex(numbers.shape):
            found[place] = one(part[place], *divmod(int(numbers[place]), n_draws))
        return found

    return _by_path(several, codes, [["site"], []], out, number).assign_coords(site=codes["site"])


def _by_path(
    function: Callable[..., Floats],
    codes: xr.DataArray,
    core: list[list[str]],
    out: dict[str, int],
    *others: xr.DataArray,
) -> xr.DataArray:
    """Apply a function to whole paths, lazily if they are lazy or the result would be large."""
    found: xr.DataArray = xr.apply_ufunc(
        function,
        lazy_if_large(codes, 8 * codes.size),
        *others,
        input_core_dims=core,
        output_core_dims=[list(out)],
        exclude_dims={"site"},
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"output_sizes": out, "allow_rechunk": True},
    )
    return found


def _attributes(posterior: Posterior) -> dict[str, Any]:
    """Attributes as strings: a seed from the operating system is too large for the integers of most file formats."""
    made_with = posterior.info.get("versions") or versions()
    given = {key: posterior.info.get(key) for key in ("seed", "plan", "update", "exchange")}
    attributes = {key: str(value) for key, value in given.items() if value is not None}
    attributes["inference_library"] = "chiasma"
    attributes["inference_library_version"] = made_with["chiasma"]
    return attributes | {f"{name}_version": number for name, number in made_with.items() if name != "chiasma"}
