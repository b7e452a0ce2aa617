"""Learned tails so heavy that any value is noise: what no row explains is then no misfit."""

from __future__ import annotations

import numpy as np
import xarray as xr

from chiasma.models.density import Density
from chiasma.models.emissions import StudentT
from chiasma.models.factorial import FactorialHMM
from chiasma.results.findings import Finding, Set

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
