"""Learned tails so heavy that any value is noise: what no row explains is then no misfit."""

from __future__ import annotations

import numpy as np
import xarray as xr

from chiasma.models.density import Density
from chiasma.models.emissions import StudentT
from chiasma.models.factorial import FactorialHMM

# With fewer degrees of freedom, the noise has no variance.
LEAST_DF = 2.0


def tail_warnings(model: FactorialHMM | Density | None, parameters: xr.Dataset) -> list[str]:
    """A warning where the learned degrees of freedom of a Student-t emission are few.

    Examples
    --------
    >>> import chiasma as ch
    >>> emission = ch.StudentT([1.0], df=ch.Gamma(2, 0.5))
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    >>> tail_warnings(model, xr.Dataset({"df": (("chain", "draw"), np.full((2, 10), 0.67))}))[0].partition(":")[0]
    'the learned noise has 0.67 degrees of freedom'
    """
    if not isinstance(model, FactorialHMM) or not isinstance(model.emission, StudentT) or "df" not in parameters:
        return []
    df = float(np.median(parameters["df"].values))
    if df >= LEAST_DF:
        return []
    return [
        f"the learned noise has {df:.2g} degrees of freedom: tails so heavy take any value for an outlier, and what "
        "the rows do not explain is then no misfit. A row may be missing; give it, or give df a number such as 4"
    ]
