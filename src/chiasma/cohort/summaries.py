"""What cohort.zarr keeps of one sample: a Dataset of variables such as P(row on), (row, site), and their coordinates.

Samples can stand side by side if all their coordinates agree, chromosomes, positions and names of rows: they are then
on the same grid. In a run directory a Dataset is an NPZ file, which is written and read in milliseconds.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from chiasma import atomic
from chiasma.errors import StoreError

VARIABLE, COORDINATE = "variable", "coordinate"


def grid_of(summaries: xr.Dataset) -> str:
    """A fingerprint of the sizes and the coordinates.

    >>> one = xr.Dataset({"p": ("site", [0.1, 0.2])}, {"position": ("site", [0, 10])})
    >>> grid_of(one) == grid_of(one * 2) != grid_of(one.assign_coords(position=("site", [0, 20])))
    True
    """
    told = hashlib.sha256(repr(sorted(summaries.sizes.items())).encode())
    for name, values in sorted(summaries.coords.items()):
        told.update(f"{name} {values.dims} {values.dtype}".encode())
        told.update(np.ascontiguousarray(values.values).tobytes())
    return told.hexdigest()[:16]


def save_summaries(summaries: xr.Dataset, path: Path) -> None:
    """Write an NPZ file; an array is called by its kind, its name and its dimensions."""
    content: dict[str, Any] = {
        " ".join([kind, str(name), *map(str, values.dims)]): values.values
        for kind, part in ((VARIABLE, summaries.data_vars), (COORDINATE, summaries.coords))
        for name, values in part.items()
    }
    with atomic.whole_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **content)


def load_summaries(path: Path) -> xr.Dataset:
    """What `save_summaries` wrote."""
    parts: dict[str, dict[str, Any]] = {VARIABLE: {}, COORDINATE: {}}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                kind, name, *dims = key.split(" ")
                parts[kind][name] = dims, file[key]
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"{path} cannot be read ({error}); remove the directory {path.parent} and resume the cohort"
        ) from error
    return xr.Dataset(parts[VARIABLE], parts[COORDINATE])
