"""What the rungs of a ladder say: how well neighbours exchange (rejection, distance, barrier), and the evidence.

r_i, the rejection of a pair, is one minus the mean acceptance probability of a swap of whole paths; the communication
barrier is Lambda(beta_i) = r_1 + ... + r_i. Rungs are well placed when they divide the barrier evenly, and about
2 Lambda of them are enough for swaps. Pair p joins rungs p and p + 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use
import xarray as xr

from chiasma.kernels.ensemble import Tally
from chiasma.types import Floats

# ---- Exchanges -------------------------------------------------------------------------------------------------------


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


# ---- Evidence --------------------------------------------------------------------------------------------------------
#
# By bridge sampling between rungs of a ladder that reaches the prior,
#
#     log Z = sum_i log( mean_{i-1} exp(D_i l / 2) / mean_i exp(-D_i l / 2) ),      D_i = beta_i - beta_{i-1},
#
# l the log-likelihood of a draw of that rung. The standard error uses the delta method: iteration by iteration,
# sum_i (a_i / mean a_i - b_i / mean b_i) is added up over all rungs, which includes their covariances; batch means of
# this sum account for its autocorrelation. Chains that differ by more than their batches explain have not forgotten
# where they began within a batch; the spread of the chains is then the error.


# Batches per chain: enough to estimate a variance, long enough to hold the autocorrelation.
BATCHES = 20
# Longer batches for the evidence: with 1,000 draws the usual ones report 0.7 of the spread between runs
# (verification/evidence.py, 8 seeds), these 0.9.
LONG_BATCHES = 5
# How often chains that agree are taken to differ.
DOUBTED = 0.01


class Evidence(NamedTuple):
    """log p(y), the log marginal likelihood of the data.

    Parameters
    ----------
    value : float, the estimate, or the exact value.
    standard_error : float; 0 when the value is exact.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> posterior.log_evidence
    Evidence(value=-7.736, standard_error=0.0)
    """

    value: float
    standard_error: float


def ladder_evidence(log_lik: Floats, betas: Floats) -> Evidence:
    """log_lik (C, n, R): log-likelihood of every rung at every iteration; betas (R,) from 0 to 1.

    A draw from the prior may be impossible, -inf; it then counts as 0. Where no draw from the prior is possible, or a
    higher rung has impossible draws, the evidence is unknown: (-inf, inf).
    """
    steps = np.diff(betas)
    return bridge_evidence(np.stack([log_lik[..., :-1] * steps, log_lik[..., 1:] * steps], axis=-1))


def bridge_evidence(work: Floats) -> Evidence:
    """work (C, n, R - 1, 2): for every pair of rungs, the increase of the log weight from the lower to the upper rung,
    at a draw of the lower one and at a draw of the upper one.
    """
    # Subtracting the maxima keeps exponentials in range; they are added back below.
    low = work[..., 0] / 2
    high = -work[..., 1] / 2
    low_top = low.max(axis=(0, 1))
    high_top = high.max(axis=(0, 1))
    if not np.isfinite(low_top).all() or not np.isfinite(high_top).all():
        return Evidence(-np.inf, np.inf)
    up = np.exp(low - low_top)
    down = np.exp(high - high_top)
    up_mean, down_mean = up.mean(axis=(0, 1)), down.mean(axis=(0, 1))
    value = float(np.sum(np.log(up_mean) + low_top - np.log(down_mean) - high_top))
    influence = (up / up_mean - down / down_mean).sum(axis=-1)
    return Evidence(value, chain_error(influence))


def chain_error(values: Floats) -> float:
    """Standard error of the mean of values (C, n): by batch means, or by chains if these differ significantly more.

    Both estimate the same error where batches forget each other; one well mixed run in a hundred is judged otherwise.
    Longer batches tell whether the usual ones do: the larger error counts.
    """
    by_batches = float(np.maximum(batch_error(values), batch_error(values, LONG_BATCHES)))
    n_chains = len(values)
    if n_chains < 2 or not by_batches > 0:
        return by_batches
    by_chains = float(values.mean(axis=1).std(ddof=1) / np.sqrt(n_chains))
    n_batches = n_chains * min(BATCHES, values.shape[1] // 2)
    limit = scipy.special.fdtri(n_chains - 1, n_batches - 1, 1 - DOUBTED)
    return by_chains if (by_chains / by_batches) ** 2 > limit else by_batches


def batch_error(values: Floats, most: int = BATCHES) -> float:
    """Standard error of the mean of values (C, n) by batch means, at most this many per chain; NaN for too few."""
    n_batches = min(most, values.shape[1] // 2)
    if n_batches < 2:
        return float("nan")
    length = values.shape[1] // n_batches
    batches = values[:, : n_batches * length].reshape(len(values), n_batches, length).mean(axis=-1).ravel()
    return float(batches.std(ddof=1) / np.sqrt(len(batches)))
