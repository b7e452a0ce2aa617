"""Posterior: draws of a run and what can be read off them, as xarray objects.

codes (chain, draw, site) for a factorial HMM, x (chain, draw, site) for any other density.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.evidence import Evidence
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Floats, Observations


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Draws of the target, and how the run went.

    draws : codes (or vectors) of the cold replica, (chain, draw, site).
    log_joint, log_likelihood : (chain, draw).
    replica_log_likelihood : (chain, draw, replica), of every rung.
    betas : (replica,), ascending.
    exchange_stats : per pair of neighbouring rungs: rejection, barrier, moves, changed, columns moved.
    log_evidence : value and standard error, or None where the ladder does not reach the prior.
    model, data : what was sampled; None where a stored run could not keep them (a user's own functions).
    info : seed, plan, timings, round trips, warnings.
    """

    draws: xr.DataArray
    log_joint: xr.DataArray
    log_likelihood: xr.DataArray
    replica_log_likelihood: xr.DataArray
    betas: Floats
    exchange_stats: xr.Dataset
    log_evidence: Evidence | None
    model: FactorialHMM | Density | None = None
    data: Observations | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def codes(self) -> xr.DataArray:
        """(chain, draw, site) column codes, bit k for row k."""
        self._rows()
        return self.draws

    def states(self, row: int) -> xr.DataArray:
        """(chain, draw, site) zeros and ones of one row."""
        if not 0 <= row < self._rows():
            raise InvalidInput(f"row must be in 0..{self._rows() - 1}, got {row}")
        return (self.draws >> row & 1).astype(np.int8).rename("states")

    def marginals(self) -> xr.DataArray:
        """(row, site): share of draws with the row on."""
        n_rows = self._rows()
        means = [self.states(k).mean(("chain", "draw")) for k in range(n_rows)]
        return xr.concat(means, dim=xr.DataArray(np.arange(n_rows), dims="row", name="row")).rename("marginals")

    @property
    def n_rows(self) -> int | None:
        """Rows of a path; None for plain vectors."""
        return self.info.get("n_rows")

    def _rows(self) -> int:
        if self.n_rows is None:
            raise InvalidInput("this posterior is over plain vectors and has no rows; its draws are in .draws")
        return self.n_rows

    def __repr__(self) -> str:
        sizes = dict(self.draws.sizes)
        evidence = f", log evidence {self.log_evidence.value:.3f}" if self.log_evidence else ""
        return (
            f"Posterior({sizes['chain']} chains x {sizes['draw']} draws x {sizes['site']} sites, "
            f"{len(self.betas)} replica(s){evidence})"
        )


def labelled(name: str, values: npt.NDArray[Any], *last: str) -> xr.DataArray:
    """(chain, draw, ...) values as a DataArray with coordinates."""
    dims = ("chain", "draw", *last)
    return xr.DataArray(
        values, dims=dims, coords={d: np.arange(n) for d, n in zip(dims, values.shape, strict=True)}, name=name
    )
