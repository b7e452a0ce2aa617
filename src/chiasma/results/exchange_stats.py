"""How well neighbouring rungs exchange: rejection, distance, barrier.

r_i, the rejection of a pair, is one minus the mean acceptance probability of a swap of whole paths; the communication
barrier is Lambda(beta_i) = r_1 + ... + r_i. Rungs are well placed when they divide the barrier evenly, and about
2 Lambda of them are enough for swaps. Pair p joins rungs p and p + 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.kernels.ensemble import Tally
from chiasma.types import Floats


def barrier(rejection: npt.ArrayLike) -> Floats:
    """(R,): the barrier from the lowest rung up to each rung."""
    return np.concatenate([[0.0], np.cumsum(rejection)])


def pair_lengths(betas: npt.ArrayLike, rejection: npt.ArrayLike, mean_log_lik: npt.ArrayLike) -> Floats:
    """(R - 1,): distances between neighbouring rungs in units of rejection, meaningful also where rejection saturates.

    For nearly normal log-likelihoods a pair with symmetrised divergence J = D_i (mean_i l - mean_{i-1} l) rejects
    about sqrt(J / pi) while that is small; above one half the rejection saturates, and J still measures the distance.
    """
    rejection = np.asarray(rejection, float)
    with np.errstate(invalid="ignore"):
        divergence = np.diff(betas) * np.diff(mean_log_lik)
    usable = np.isfinite(divergence) & (divergence > 0) & (rejection > 0.5)
    return np.where(usable, np.maximum(rejection, np.sqrt(np.where(usable, divergence, 0) / np.pi)), rejection)


def suggested_size(lengths: npt.ArrayLike) -> int:
    """Suggested number of rungs: about twice the barrier, plus one."""
    return max(2, math.ceil(2 * float(np.sum(lengths))) + 1)


def rejections(tallies: Sequence[Tally], betas: Floats) -> tuple[Floats, Floats]:
    """(R - 1,) rejection of every pair over all chains, and (R - 1,) the distance between its rungs."""
    steps = max(sum(int(tally.steps[0]) for tally in tallies), 1)
    rejection = 1 - np.sum([tally.acceptance for tally in tallies], axis=0) / steps
    mean_log_lik = np.sum([tally.log_lik for tally in tallies], axis=0) / steps
    return rejection, pair_lengths(betas, rejection, mean_log_lik)


def pair_stats(tallies: Sequence[Tally], betas: Floats) -> dict[str, npt.NDArray[Any]]:
    """Exchange statistics of every pair of neighbouring rungs, over all chains."""
    rejection, lengths = rejections(tallies, betas)
    moves = np.sum([tally.moves for tally in tallies], axis=0)
    tried = np.maximum(moves, 1)
    return {
        "rejection": rejection,
        "length": lengths,
        "barrier": barrier(rejection)[1:],
        "moves": moves,
        "changed": np.sum([tally.changed for tally in tallies], axis=0) / tried,
        "columns": np.sum([tally.columns for tally in tallies], axis=0) / tried,
        "beta_low": betas[:-1],
        "beta_high": betas[1:],
    }


def as_dataset(stats: Mapping[str, npt.NDArray[Any]]) -> xr.Dataset:
    """The output of `pair_stats` as a Dataset."""
    along = {name: ("pair", values) for name, values in stats.items()}
    coords = {name: along.pop(name) for name in ("beta_low", "beta_high")}
    return xr.Dataset(along, coords={"pair": np.arange(len(stats["moves"])), **coords})
