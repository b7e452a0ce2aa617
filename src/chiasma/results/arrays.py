"""Arrays as xarray objects, with every dimension counted from 0, and a posterior as a DataTree in ArviZ's schema.

posterior: codes, level, rows_on (or x), (chain, draw, site), and learned parameters under their names, (chain, draw) or
(chain, draw, row). sample_stats: lp and log_likelihood, (chain, draw). observed_data: y. constant_data: weights (row,)
if they are not learned, starts (sequence,). Lazy arrays stay lazy.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pandas as pd
import xarray as xr

from chiasma.models.observations import Observations
from chiasma.results.provenance import RunInfo, versions
from chiasma.types import Floats


def labelled(name: str | None, values: npt.NDArray[Any], *dims: str) -> xr.DataArray:
    """A DataArray with a coordinate for every dimension.

    >>> import numpy as np
    >>> labelled("level", np.zeros((2, 3)), "row", "site")["site"].values
    array([0, 1, 2])
    """
    # The fast path and a ready-made index avoid a check: for a plain array xarray tests whether it is a dask array, and
    # the test imports dask, which takes longer than a small fit.
    coords = {d: pd.RangeIndex(n) for d, n in zip(dims, values.shape, strict=True)}
    return xr.DataArray(xr.Variable(dims, values, fastpath=True), coords=coords, name=name)


def per_draw(name: str, values: npt.NDArray[Any], *last: str) -> xr.DataArray:
    """(chain, draw, ...) values."""
    return labelled(name, values, "chain", "draw", *last)


def to_datatree(
    *,
    variables: list[xr.DataArray],
    log_joint: xr.DataArray,
    log_likelihood: xr.DataArray,
    data: Observations | None,
    weights: Floats | None,
    info: RunInfo,
) -> xr.DataTree:
    """variables: the named arrays of the group `posterior`."""
    groups = {
        "posterior": xr.Dataset({str(variable.name): variable for variable in variables}),
        "sample_stats": xr.Dataset({"lp": log_joint, "log_likelihood": log_likelihood}),
    }
    constant = {}
    if weights is not None:
        constant["weights"] = labelled(None, weights, *("row", "channel")[: weights.ndim])
    if data is not None:
        groups["observed_data"] = xr.Dataset({"y": labelled(None, data.y, *("site", "channel")[: data.y.ndim])})
        constant["starts"] = labelled(None, data.starts, "sequence")
    if constant:
        groups["constant_data"] = xr.Dataset(constant)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = _attributes(info)
    tree["posterior"].attrs = _attributes(info)
    return tree


def _attributes(info: RunInfo) -> dict[str, Any]:
    """Attributes as strings: a seed from the operating system is too large for the integers of most file formats."""
    made_with = info.get("versions") or versions()
    told = {key: info.get(key) for key in ("seed", "plan", "update", "exchange")}
    attributes = {key: str(value) for key, value in told.items() if value is not None}
    attributes["inference_library"] = "chiasma"
    attributes["inference_library_version"] = made_with["chiasma"]
    return attributes | {f"{name}_version": number for name, number in made_with.items() if name != "chiasma"}
