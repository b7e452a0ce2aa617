"""Do chains agree? Rank-normalised R-hat and bulk effective sample size of many series, computed by ArviZ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.types import Floats

# Vehtari and others (2021): R-hat should be below this.
RHAT = 1.01


def rhat_text(rhat: float) -> str:
    """An R-hat in three digits, or in as many as show that it is above the limit.

    >>> rhat_text(1.2), rhat_text(1.0104), rhat_text(1.0096), rhat_text(float("inf"))
    ('1.200', '1.0104', '1.010', 'inf')
    """
    digits = 3
    while rhat > RHAT >= float(f"{rhat:.{digits}f}"):
        digits += 1
    return f"{rhat:.{digits}f}"


class Judged(NamedTuple):
    """R-hat and bulk effective sample size of every series, (S,) each; NaN where they cannot be computed.

    constant : the same value in all draws. stuck : constant within every chain, but not equal across chains.
    """

    rhat: Floats
    ess: Floats
    constant: npt.NDArray[np.bool_]
    stuck: npt.NDArray[np.bool_]


def judge(values: Floats) -> Judged:
    """Convergence diagnostics of S series, values (chain, draw, S)."""
    from arviz_stats.base import array

    arviz: Any = array.array_stats
    still = (values == values[:, :1]).all(axis=(0, 1))
    constant = still & (values == values[:1, :1]).all(axis=(0, 1))
    rhat, ess = np.full(values.shape[2], np.nan), np.full(values.shape[2], np.nan)
    for i in np.flatnonzero(~constant):
        # Chains that do not move have no variance: R-hat is then infinite, or huge by rounding.
        with np.errstate(divide="ignore", invalid="ignore"):
            rhat[i] = arviz.rhat(values[:, :, i])
            ess[i] = arviz.ess(values[:, :, i])
    rhat[rhat > 1e6] = np.inf
    return Judged(rhat, ess, constant, still & ~constant)


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """R-hat and bulk effective sample size of n series; NaN where they cannot be computed.

    constant : series with the same value in all draws, left out of the rest. stuck : series constant within every
    chain and differ between chains: their R-hat is infinite. disagree : series with R-hat above 1.01.
    worst_site : site of the worst R-hat, or of the lowest effective sample size where there is no R-hat.
    """

    name: str
    n: int
    constant: int
    stuck: int
    disagree: int
    rhat_worst: float
    rhat_median: float
    ess_worst: float
    ess_median: float
    worst_site: int | None

    @property
    def place(self) -> str:
        """What a series belongs to: vectors have coordinates, paths have sites."""
        return "coordinate" if self.name == "x" else "site"


def convergence(series: xr.DataArray) -> Convergence:
    """Convergence of one series (chain, draw), or of one per site (and channel), (chain, draw, site, ...)."""
    rhat, ess, constant, stuck = judge(series.values.reshape(*series.shape[:2], -1))
    worst = _worst(rhat, ess)
    site = None
    if "site" in series.dims and worst is not None:
        site = int(series["site"].values[worst // math.prod(series.shape[3:])])
    return Convergence(
        name=str(series.name),
        n=len(rhat),
        constant=int(constant.sum()),
        stuck=int(stuck.sum()),
        disagree=int((rhat > RHAT).sum()),
        rhat_worst=_over(np.max, rhat),
        rhat_median=_over(np.median, rhat),
        ess_worst=_over(np.min, ess),
        ess_median=_over(np.median, ess),
        worst_site=site,
    )


def _worst(rhat: Floats, ess: Floats) -> int | None:
    if not np.isnan(rhat).all():
        return int(np.nanargmax(rhat))
    return None if np.isnan(ess).all() else int(np.nanargmin(ess))


def _over(statistic: Any, values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(statistic(known)) if known.size else math.nan
