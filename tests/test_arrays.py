"""Arrays with labels."""

import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from chiasma.results.arrays import labelled, per_draw


def test_labelled__is_what_xarray_makes_the_long_way():
    values = np.arange(6.0).reshape(2, 3)
    wanted = xr.DataArray(values, dims=("row", "site"), coords={"row": [0, 1], "site": [0, 1, 2]}, name="level")
    xr.testing.assert_identical(labelled("level", values, "row", "site"), wanted)


def test_labelled__wants_a_name_for_every_dimension():
    with pytest.raises(ValueError, match="zip"):
        labelled("level", np.zeros((2, 3)), "row")


def test_per_draw__begins_with_chain_and_draw():
    assert per_draw("codes", np.zeros((2, 3, 4)), "site").sizes == {"chain": 2, "draw": 3, "site": 4}


def test_a_fit_in_memory_does_without_packages_for_files_and_large_arrays():
    program = (
        "import sys, chiasma as ch\n"
        "model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))\n"
        "ch.sample(model, [0.1, 2.9, 3.2], draws=5, seed=1, progress=False).marginals()\n"
        "print(sorted({'dask', 'numcodecs', 'zarr', 'matplotlib', 'rich', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
