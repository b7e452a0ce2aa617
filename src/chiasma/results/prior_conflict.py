"""Learned values that lie where their priors have hardly any mass: the prior and the data disagree."""

from __future__ import annotations

import numpy as np
import xarray as xr

from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.results.findings import Finding
from chiasma.results.parameters import entries
from chiasma.types import Floats

# A value is in conflict with its prior where almost all its draws lie beyond all of these draws of the prior.
PRIOR_DRAWS, ALMOST_ALL = 2_000, 0.95


def conflict_findings(model: FactorialHMM | Density | None, parameters: xr.Dataset) -> list[Finding]:
    """A finding that names the learned values which their priors hardly allow.

    Examples
    --------
    >>> import chiasma as ch
    >>> emission = ch.Gaussian([1.0], sd=ch.LogNormal(0.0, 0.1))
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    >>> draws = xr.Dataset({"sd": (("chain", "draw"), np.full((2, 10), 5.0))})
    >>> conflict_findings(model, draws)[0].facts
    {'names': ['sd near 5 (prior 0.677 to 1.36)']}
    """
    if not isinstance(model, FactorialHMM):
        return []
    priors = {slot.name: slot.prior for slot in model.parameters.slots}
    found = []
    for one in entries(parameters):
        if one.parameter not in priors:
            continue
        rng, marginal = np.random.default_rng(0), priors[one.parameter].marginal(one.place)
        expected = np.array([float(marginal.sample(rng)) for _ in range(PRIOR_DRAWS)])
        if _beyond(one.values, expected):
            span = f"{expected.min():.3g} to {expected.max():.3g}"
            found.append(f"{one.name} near {np.median(one.values):.3g} (prior {span})")
    return [Finding("prior-conflict", "limited", {"names": found})] if found else []


def _beyond(values: Floats, expected: Floats) -> bool:
    return bool(max(np.mean(values < expected.min()), np.mean(values > expected.max())) >= ALMOST_ALL)
