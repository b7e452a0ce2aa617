"""Simulation-based calibration (SBC): does a sampler draw from the correct posterior of a model?

Each replication draws parameters from their priors, simulates paths and data, and samples the posterior. The rank of
the true value among the draws is then uniform. It is not if the sampler is wrong or has not converged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # submodules load on first use
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.kernels.codes import pack
from chiasma.models.factorial import FactorialHMM
from chiasma.models.labels import CanonicalOrder
from chiasma.models.observations import Observations
from chiasma.sampling.sampler import sample

__all__ = ["calibration_ranks", "uniformity"]


def __dir__() -> list[str]:
    return __all__


def calibration_ranks(
    model: FactorialHMM,
    n_columns: int,
    replications: int,
    *,
    draws: int = 63,
    seed: int = 0,
    starts: Any = None,
    gaps: Any = None,
    **options: Any,
) -> xr.Dataset:
    """Ranks 0..draws of true values among posterior draws, (replication,) or (replication, row).

    One variable per learned parameter, and `rows_on`, the mean number of rows that are on (in another state than 0).
    Thin the draws until they are nearly independent (thin=10): correlated draws give too many ranks at both ends.

    Parameters
    ----------
    model : FactorialHMM with priors, or without: then only paths are calibrated.
    n_columns, starts, gaps : structure of the simulated data.
    replications : int, how many data sets to simulate and fit.
    draws : int, posterior draws of each; ranks are 0..draws.
    seed : int; the same seed gives the same ranks.
    options : arguments of ch.sample.

    Returns
    -------
    Dataset of ranks, for `uniformity`.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    >>> ranks = ch.calibration.calibration_ranks(model, 5, 3, draws=7, warmup=10, update="exact", exchange=None)
    >>> ranks.sizes["replication"], sorted(ranks)
    (3, ['rows_on', 'sd'])
    """
    model = model.for_data(Observations(np.zeros(n_columns), starts, gaps))
    in_order = CanonicalOrder(model)
    found: dict[str, list[Any]] = {}
    for i in range(replications):
        rng = np.random.default_rng((seed, i))
        values = model.parameters.sample(rng)
        states, y = model.at(model.parameters.unpack(values)).simulate(n_columns, rng, starts, gaps)
        _, values = in_order(pack(states[list(model.free_rows)] != 0), values)
        posterior = sample(
            model,
            Observations(y, starts, gaps),
            **{"chains": 1, "draws": draws, "seed": int(rng.integers(2**31)), "workers": 1, "progress": False}
            | options,
        )
        drawn = {str(name): array.values[0] for name, array in posterior.parameters.items()}
        drawn["rows_on"] = posterior.rows_on().mean("site").values[0]
        true = model.parameters.unpack(values) | {"rows_on": (states != 0).sum(axis=0).mean()}
        for name, value in true.items():
            below = (drawn[name] < value).sum(axis=0)
            ties = (drawn[name] == value).sum(axis=0)
            found.setdefault(name, []).append(below + rng.integers(0, ties + 1))
    arrays = {name: np.array(ranks) for name, ranks in found.items()}
    # Every parameter has its own dimensions: an offset has more values than there are rows.
    dims = {name: ("replication", *(f"{name}_{i}" for i in range(1, ranks.ndim))) for name, ranks in arrays.items()}
    return xr.Dataset({name: (dims[name], ranks) for name, ranks in arrays.items()})


def uniformity(ranks: xr.Dataset, draws: int = 63, bins: int = 8) -> xr.Dataset:
    """p-values of chi-squared tests that ranks are uniform over equal bins, per variable and row.

    Parameters
    ----------
    ranks : Dataset of `calibration_ranks`.
    draws : int, as given to `calibration_ranks`.
    bins : int, a divisor of draws + 1.

    Returns
    -------
    Dataset of p-values; a small one says that the sampler, or its length, is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import chiasma as ch
    >>> ranks = xr.Dataset({"sd": ("replication", np.arange(64))})
    >>> float(ch.calibration.uniformity(ranks)["sd"])
    1.0
    """
    if (draws + 1) % bins:
        raise InvalidInput(f"bins must divide draws + 1 = {draws + 1} evenly, got {bins}")

    def p_value(column: np.ndarray) -> float:
        counts = np.bincount(column.astype(int) * bins // (draws + 1), minlength=bins)
        return float(scipy.stats.chisquare(counts).pvalue)

    return xr.apply_ufunc(p_value, ranks, input_core_dims=[["replication"]], vectorize=True)
