"""How well a run mixes: Hamming distances at lags, jumps between modes, round trips.

The rejection per pair, the barrier and the columns moved per exchange are in `Posterior.exchange_stats`, the evidence
in `Posterior.log_evidence`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import on_bits
from chiasma.models.density import BlockModes
from chiasma.results.posterior import Posterior
from chiasma.types import Floats

__all__ = ["ModeCounts", "hamming_distances", "mode_jumps", "predicted_round_trips", "round_trip_rate"]


def __dir__() -> list[str]:
    return __all__


def hamming_distances(posterior: Posterior, lags: npt.ArrayLike = (1, 10, 50)) -> xr.DataArray:
    """(chain, lag, draw): share of entries in which a draw differs from the draw `lag` later.

    Entries are the K x T states of a path, or the coordinates of a vector. Draws without a partner are NaN.

    Parameters
    ----------
    posterior : Posterior of a run.
    lags : numbers of draws between the two that are compared.

    Returns
    -------
    DataArray (chain, lag, draw).

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian([1.0]))
    >>> posterior = ch.sample(model, [0.5, 0.4, 0.6], draws=50, seed=1, progress=False)
    >>> ch.diagnostics.hamming_distances(posterior, lags=[1, 10]).sizes["lag"]
    2
    """
    draws = posterior.draws.values
    n_draws = draws.shape[1]
    lags = np.atleast_1d(lags)
    if lags.dtype.kind not in "iu" or np.any(lags < 1) or np.any(lags >= n_draws):
        raise InvalidInput(f"lags must be whole numbers in 1..{n_draws - 1} (draws), got {lags.tolist()}")
    out = np.full((len(draws), len(lags), n_draws), np.nan)
    for i, lag in enumerate(lags):
        early, late = draws[:, :-lag], draws[:, lag:]
        if posterior.n_rows is None:
            out[:, i, :-lag] = (early != late).mean(axis=-1)
        else:
            out[:, i, :-lag] = (
                np.bitwise_count(on_bits(early ^ late, posterior.layout)).mean(axis=-1) / posterior.n_rows
            )
    return xr.DataArray(
        out, dims=("chain", "lag", "draw"), coords={"lag": lags, "draw": np.arange(n_draws)}, name="hamming"
    )


class ModeCounts(NamedTuple):
    """How often chains jumped between modes, and how many modes they visited."""

    jumps: npt.NDArray[np.int64]  # (chain, draw) cumulative number of changes of the nearest mode
    visited: npt.NDArray[np.int64]  # (chain,) distinct modes


def mode_jumps(posterior: Posterior, target: BlockModes) -> ModeCounts:
    """Changes of the nearest mode along each chain, and the number of modes it visited. A tie counts as no change.

    Parameters
    ----------
    posterior : Posterior of a run on `target`.
    target : BlockModes, the density with known modes.

    Returns
    -------
    jumps (chain, draw), the changes so far, and visited (chain,), distinct modes, as a named tuple.

    Examples
    --------
    >>> import chiasma as ch
    >>> target = ch.BlockModes(blocks=2, size=6, alpha=0.5)
    >>> posterior = ch.sample(target, draws=50, warmup=10, chains=1, seed=1, progress=False)
    >>> ch.diagnostics.mode_jumps(posterior, target).jumps.shape
    (1, 50)
    """
    modes = target.nearest_mode(posterior.draws.values)
    jumps = np.zeros(modes.shape[:2], np.int64)
    visited = np.zeros(len(modes), np.int64)
    for c, chain in enumerate(modes):
        seen = _carry_ties(chain)
        changed = (seen[1:] != seen[:-1]).any(axis=1)
        jumps[c, 1:] = np.cumsum(changed)
        visited[c] = len(np.unique(seen, axis=0))
    return ModeCounts(jumps, visited)


def _carry_ties(modes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Modes (n, B) with every tie (-1) replaced by the block's last clear mode, or by its first if none came before."""
    clear = modes >= 0
    # A block that is never clear stays a tie: argmax is then 0, and draw 0 is a tie.
    last = np.where(clear, np.arange(len(modes))[:, None], clear.argmax(axis=0))
    return np.take_along_axis(modes, np.maximum.accumulate(last, axis=0), axis=0)


def predicted_round_trips(rejection: npt.ArrayLike) -> float:
    """Expected round trips per exchange step, for the even-odd schedule and independent swaps with these rejections.

    Parameters
    ----------
    rejection : (R - 1,) rejection probability of each pair of neighbouring rungs.

    Returns
    -------
    A float.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.diagnostics.predicted_round_trips([0.5, 0.5])
    0.16666666666666666
    """
    r = np.asarray(rejection, float)
    if r.size == 1:
        return float(1 - r.sum())  # a lone pair has no idle turns: every second swap ends the trip of either replica
    with np.errstate(divide="ignore"):
        return float(1 / (2 + 2 * np.sum(r / (1 - r))))


def round_trip_rate(posterior: Posterior) -> Floats:
    """(chain,): round trips per exchange step. Only for swaps of whole paths; crossovers mix the paths of replicas.

    Parameters
    ----------
    posterior : Posterior of a run with exchange="swap".

    Returns
    -------
    An array (chain,).

    Examples
    --------
    >>> import chiasma as ch
    >>> target = ch.BlockModes(blocks=2, size=6, alpha=0.5)
    >>> options = {"draws": 50, "warmup": 10, "chains": 2, "seed": 1, "progress": False}
    >>> posterior = ch.sample(target, exchange="swap", ladder=[1, 5], **options)
    >>> ch.diagnostics.round_trip_rate(posterior).shape
    (2,)
    """
    steps = np.maximum(np.array(posterior.info["exchange_steps"]), 1)
    return np.array(posterior.info["round_trips"]) / steps
