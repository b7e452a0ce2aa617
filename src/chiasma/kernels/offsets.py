"""Offsets of a signal as sums of a few basis functions per column.

place (T, n): the coefficients, of M, that column t depends on; value (T, n): by how much. Only the lower triangle of a
Gram matrix is filled.
"""

from chiasma._jit import njit


@njit
def combine(place, value, coefficients, out):
    """out[t] = sum_a value[t, a] * coefficients[place[t, a]]."""
    for t in range(place.shape[0]):
        total = 0.0
        for a in range(place.shape[1]):
            total += value[t, a] * coefficients[place[t, a]]
        out[t] = total


@njit
def project(place, value, signal, out):
    """out (M,) += B' signal, where B has `value` at `place`."""
    for t in range(place.shape[0]):
        for a in range(place.shape[1]):
            out[place[t, a]] += value[t, a] * signal[t]


@njit
def gram(place, value, weights, out):
    """The lower triangle of out (M, M) += B' diag(weights) B; the places of a column ascend."""
    n = place.shape[1]
    for t in range(place.shape[0]):
        if weights[t] == 0.0:
            continue
        for a in range(n):
            own = weights[t] * value[t, a]
            row = place[t, a]
            for b in range(a + 1):
                out[row, place[t, b]] += own * value[t, b]
