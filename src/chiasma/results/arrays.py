"""NumPy arrays as xarray objects, with every dimension counted from 0."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pandas as pd
import xarray as xr


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
