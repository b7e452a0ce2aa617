"""cohort.zarr: the summaries of all samples as one Dataset, written in regions of samples.

    probability (sample, row, site) and other variables of the workflow, NaN where a sample is not done or is on another
        grid than most; grid (sample,) tells which one
    log_evidence, log_evidence_error (sample,)
    parameter_mean, parameter_sd, parameter_q05, parameter_q95 (sample, parameter), NaN where it was not learned
    coordinates: sample, parameter, row, and the labels of the sites

Memory holds the samples of one chunk, however many there are. The store takes its place when it is complete.
"""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
import zarr

from chiasma.cohort.directory import CohortDirectory
from chiasma.cohort.outcome import Outcome
from chiasma.cohort.summaries import load_summaries
from chiasma.cohort.table import names_in_order

# Uncompressed size of a chunk of samples.
CHUNK_BYTES = 8 * 2**20
STATISTICS = ("mean", "sd", "q05", "q95")


def write_cohort_store(directory: CohortDirectory, outcomes: Sequence[Outcome]) -> None:
    """Write cohort.zarr, in place of an earlier one."""
    partial = directory.store.with_name(f"{directory.store.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    _per_sample(outcomes).to_zarr(partial, mode="w", consolidated=False)
    _along_sites(directory, outcomes, partial)
    with warnings.catch_warnings():
        # Not yet in the standard, but xarray looks for it first.
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        zarr.consolidate_metadata(partial)
    shutil.rmtree(directory.store, ignore_errors=True)
    partial.rename(directory.store)


def common_grid(outcomes: Sequence[Outcome]) -> str:
    """The grid of most samples, of the first one where several have as many; empty if no sample has any."""
    counts = Counter(outcome.grid for outcome in outcomes if outcome.grid)
    return counts.most_common(1)[0][0] if counts else ""


def _per_sample(outcomes: Sequence[Outcome]) -> xr.Dataset:
    evidence = np.array([outcome.evidence or (nan, nan) for outcome in outcomes]).reshape(-1, 2)
    parameters = names_in_order(outcome.parameters for outcome in outcomes)
    variables: dict[str, Any] = {
        "status": ("sample", _texts([outcome.status for outcome in outcomes])),
        "grid": ("sample", _texts([outcome.grid for outcome in outcomes])),
        "log_evidence": ("sample", evidence[:, 0]),
        "log_evidence_error": ("sample", evidence[:, 1]),
    }
    for statistic in STATISTICS if parameters else ():
        values = [[one.parameters.get(name, {}).get(statistic, nan) for name in parameters] for one in outcomes]
        variables[f"parameter_{statistic}"] = (("sample", "parameter"), np.array(values, float))
    coordinates = {"sample": _texts([outcome.name for outcome in outcomes])}
    return xr.Dataset(variables, coordinates | ({"parameter": _texts(parameters)} if parameters else {}))


def _along_sites(directory: CohortDirectory, outcomes: Sequence[Outcome], path: Path) -> None:
    grid = common_grid(outcomes)
    if not grid:
        return
    on_grid = [i for i, outcome in enumerate(outcomes) if outcome.grid == grid]
    first = load_summaries(directory.samples / outcomes[on_grid[0]].name / "summaries.npz")
    labels = {
        name: values.copy(data=_texts(values.values)) if values.dtype.kind == "U" else values
        for name, values in first.coords.items()
    }
    xr.Dataset(coords=labels).to_zarr(path, mode="a", consolidated=False)
    group = zarr.open_group(path, mode="a")
    arrays = {}
    for name, variable in first.data_vars.items():
        length = max(1, min(len(outcomes), CHUNK_BYTES // max(1, variable.nbytes)))
        arrays[str(name)] = group.create_array(
            str(name),
            shape=(len(outcomes), *variable.shape),
            chunks=(length, *variable.shape),
            dtype=variable.dtype,
            fill_value=nan,
            dimension_names=("sample", *map(str, variable.dims)),
        )
    step = max(array.chunks[0] for array in arrays.values())
    for begin in range(0, len(outcomes), step):
        _write_region(directory, outcomes[begin : begin + step], begin, grid, arrays)


def _write_region(
    directory: CohortDirectory, outcomes: Sequence[Outcome], begin: int, grid: str, arrays: dict[str, Any]
) -> None:
    found = {
        i: load_summaries(directory.samples / outcome.name / "summaries.npz")
        for i, outcome in enumerate(outcomes)
        if outcome.grid == grid
    }
    for name, array in arrays.items():
        region = np.full((len(outcomes), *array.shape[1:]), nan, array.dtype)
        for i, summaries in found.items():
            region[i] = summaries[name].values
        array[begin : begin + len(outcomes)] = region


def _texts(texts: Sequence[str]) -> npt.NDArray[np.object_]:
    # Texts of a fixed length have no standard form in Zarr.
    return np.array(texts, object)
