"""NumPy arrays as xarray objects, with every dimension counted from 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr


def labelled(name: str | None, values: npt.NDArray[Any], *dims: str) -> xr.DataArray:
    """A DataArray with a coordinate for every dimension.

    >>> labelled("level", np.zeros((2, 3)), "row", "site")["site"].values
    array([0, 1, 2])
    """
    coords = {d: _variable((d,), np.arange(n)) for d, n in zip(dims, values.shape, strict=True)}
    return xr.DataArray(_variable(dims, values), coords=coords, name=name)


def per_draw(name: str, values: npt.NDArray[Any], *last: str) -> xr.DataArray:
    """(chain, draw, ...) values."""
    return labelled(name, values, "chain", "draw", *last)


def _variable(dims: tuple[str, ...], values: npt.NDArray[Any]) -> xr.Variable:
    # The fast path takes an array as it is. The other one asks first whether it is one of dask's, and asking imports
    # dask, which takes longer than a small fit.
    return xr.Variable(dims, values, fastpath=True)
