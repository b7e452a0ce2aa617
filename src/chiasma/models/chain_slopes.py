"""Derivatives of transition matrices with respect to the parameters of a Markov chain, applied backwards.

A function f of the matrices A_e (E, S, S) of all kinds of edges has derivatives by_matrix[e, x, x'], df/dA_e[x, x'], of
every entry on its own. The functions here turn them into derivatives with respect to the parameters that the matrices
are made of (the chain rule from the outside in). Kind 0 is a start, all of whose rows are the initial distribution.
"""

from __future__ import annotations

import numpy as np

from chiasma.types import Floats

# Below this product of rate and gap, the derivative of (1 - (1 - rate)^gap) / rate is taken from its series.
_SMALL = 1e-4


def switch_slopes(
    enter: Floats, leave: Floats, stationary: bool, gaps: Floats, by_matrix: Floats
) -> tuple[Floats, Floats, Floats]:
    """Derivatives with respect to enter, leave and initial, each (K,), for by_matrix (E, K, 2, 2).

    stationary: initial is enter / (enter + leave), and its derivative is part of theirs.
    """
    rate = enter + leave
    by_start = (by_matrix[0, :, :, 1] - by_matrix[0, :, :, 0]).sum(axis=-1)
    by_gone = by_matrix[1:, :, 0, 1] - by_matrix[1:, :, 0, 0]
    by_came = by_matrix[1:, :, 1, 0] - by_matrix[1:, :, 1, 1]
    share, bend = _share(rate, gaps[1:, None])
    common = (by_gone * enter + by_came * leave) * bend
    by_enter = (by_gone * share + common).sum(axis=0)
    by_leave = (by_came * share + common).sum(axis=0)
    if stationary:
        by_enter = by_enter + by_start * leave / rate**2
        by_leave = by_leave - by_start * enter / rate**2
    return by_enter, by_leave, by_start


def _share(rate: Floats, gaps: Floats) -> tuple[Floats, Floats]:
    """(1 - (1 - rate)^gap) / rate and its derivative with respect to the rate, both (E, K)."""
    safe = np.where(rate > 0, rate, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = np.where(safe < 0.5, -np.expm1(gaps * np.log1p(-safe)), 1 - (1 - safe) ** gaps)
        slope = np.where(gaps == 1, 1.0, gaps * (1 - safe) ** (gaps - 1))
    share = np.where(rate > 0, mixed / safe, gaps)
    series = gaps * (gaps - 1) * (-0.5 + rate * (gaps - 2) / 3)
    return share, np.where(rate * gaps < _SMALL, series, (slope - share) / safe)


def sticky_slopes(renew: float, stationary: Floats, gaps: Floats, by_matrix: Floats) -> tuple[float, Floats]:
    """Derivatives with respect to renew and to the probabilities (S,), the start left out; by_matrix (E, S, S)."""
    steps = by_matrix[1:]
    kept = (1 - renew) ** gaps[1:]
    into = steps.sum(axis=1)  # (E, S)
    by_kept = np.trace(steps, axis1=1, axis2=2) - into @ stationary
    by_renew = -np.sum(by_kept * gaps[1:] * (1 - renew) ** (gaps[1:] - 1))
    return float(by_renew), (1 - kept) @ into


def power_slopes(matrix: Floats, powers: Floats, by_power: Floats) -> Floats:
    """(S, S) derivatives with respect to a matrix, from those with respect to its whole powers, by_power (E, S, S).

    The upper right block of [[A', G], [0, A']]^d is sum_i A'^i G A'^(d-1-i), which is what the chain rule asks for.
    """
    size = len(matrix)
    block = np.zeros((len(powers), 2 * size, 2 * size))
    block[:, :size, :size] = block[:, size:, size:] = matrix.T
    block[:, :size, size:] = by_power
    out = np.broadcast_to(np.eye(2 * size), block.shape).copy()
    whole = powers.astype(np.int64)
    for bit in range(int(whole.max(initial=0)).bit_length()):
        chosen = whole >> bit & 1 == 1
        out[chosen] = out[chosen] @ block[chosen]
        block = block @ block
    return np.asarray(out[:, :size, size:].sum(axis=0))


def stationary_slopes(matrix: Floats, stationary: Floats, by_stationary: Floats) -> Floats:
    """(S, S) derivatives with respect to a matrix, from those with respect to its stationary distribution (S,).

    Rows of a matrix add up to 1, so that only directions along which they do have a meaning.
    """
    fundamental = np.linalg.inv(np.eye(len(matrix)) - matrix + stationary)
    return np.outer(stationary, fundamental @ by_stationary)
