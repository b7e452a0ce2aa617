"""Evidence (marginal likelihood) from a ladder that reaches the prior, by bridge sampling between rungs.

log Z = sum_i log( mean_{i-1} exp(D_i l / 2) / mean_i exp(-D_i l / 2) ), D_i = beta_i - beta_{i-1}, l the log-likelihood
of a draw of that rung. The standard error uses the delta method: iteration by iteration,
sum_i (a_i / mean a_i - b_i / mean b_i) is added up over all rungs, which includes their covariances; batch means of
this sum account for its autocorrelation. Chains that differ by more than their batches explain have not forgotten
where they began within a batch; the spread of the chains is then the error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from chiasma.types import Floats

# Batches per chain: enough to estimate a variance, long enough to hold the autocorrelation.
BATCHES = 20
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
    """
    by_batches = batch_error(values)
    n_chains = len(values)
    if n_chains < 2 or not by_batches > 0:
        return by_batches
    by_chains = float(values.mean(axis=1).std(ddof=1) / np.sqrt(n_chains))
    n_batches = n_chains * min(BATCHES, values.shape[1] // 2)
    limit = scipy.special.fdtri(n_chains - 1, n_batches - 1, 1 - DOUBTED)
    return by_chains if (by_chains / by_batches) ** 2 > limit else by_batches


def batch_error(values: Floats) -> float:
    """Standard error of the mean of values (C, n) by batch means; NaN when there are too few."""
    n_batches = min(BATCHES, values.shape[1] // 2)
    if n_batches < 2:
        return float("nan")
    length = values.shape[1] // n_batches
    batches = values[:, : n_batches * length].reshape(len(values), n_batches, length).mean(axis=-1).ravel()
    return float(batches.std(ddof=1) / np.sqrt(len(batches)))
