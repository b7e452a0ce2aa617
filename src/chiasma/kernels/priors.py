"""Priors of many parameters at once: values, free coordinates and log densities, entry by entry.

`chiasma.models.priors` makes the entries, one prior at a time. Entry i has kind[i] and two numbers a[i], b[i];
constant[i] holds what does not depend on the value. The entries of a simplex are consecutive, the last one of kind
SIMPLEX_END; it has no free coordinate.
"""

import math

from chiasma._jit import njit

NORMAL, LOG_NORMAL, HALF_NORMAL, GAMMA, BETA, UNIFORM, SIMPLEX, SIMPLEX_END = range(8)


@njit
def to_free(kind, a, b, values, free):
    """Coordinates (n_free,) of values (P,) inside their supports."""
    n = 0
    first = 0
    for i in range(kind.shape[0]):
        x = values[i]
        if kind[i] == NORMAL:
            free[n] = x
        elif kind[i] <= GAMMA:
            free[n] = math.log(x)
        elif kind[i] == BETA:
            free[n] = math.log(x) - math.log1p(-x)
        elif kind[i] == UNIFORM:
            free[n] = math.log(x - a[i]) - math.log(b[i] - x)
        elif kind[i] == SIMPLEX:
            free[n] = math.log(x)
        else:
            last = math.log(x)
            for j in range(first, n):
                free[j] -= last
            continue
        n += 1
        if kind[i] != SIMPLEX:
            first = n


@njit
def from_free(kind, a, b, free, values):
    """Values (P,) at coordinates (n_free,)."""
    n = 0
    first = 0
    for i in range(kind.shape[0]):
        if kind[i] == SIMPLEX_END:
            top = 0.0
            for j in range(i - first):
                top = max(top, free[n - 1 - j])
            total = math.exp(-top)
            values[i] = total
            for j in range(first, i):
                values[j] = math.exp(free[n - (i - j)] - top)
                total += values[j]
            for j in range(first, i + 1):
                values[j] /= total
            first = i + 1
            continue
        z = free[n]
        n += 1
        if kind[i] == SIMPLEX:
            continue
        first = i + 1
        if kind[i] == NORMAL:
            values[i] = z
        elif kind[i] <= GAMMA:
            values[i] = math.exp(z) if z < 709.0 else math.inf
        else:
            share = 1.0 / (1.0 + math.exp(-z)) if z > -709.0 else 0.0
            values[i] = share if kind[i] == BETA else a[i] + (b[i] - a[i]) * share


@njit
def log_density(kind, a, b, constant, values, free):
    """Sum of the log densities of values (P,), or of their free coordinates; -inf outside the supports."""
    total = 0.0
    for i in range(kind.shape[0]):
        x = values[i]
        if kind[i] == NORMAL:
            if not -math.inf < x < math.inf:
                return -math.inf
            z = (x - a[i]) / b[i]
            total += constant[i] - 0.5 * z * z
            continue
        low, high = 0.0, math.inf
        if kind[i] >= BETA:
            high = 1.0
        if kind[i] == UNIFORM:
            low, high = a[i], b[i]
        if not low < x < high:
            return -math.inf
        total += constant[i]
        if kind[i] == LOG_NORMAL:
            z = (math.log(x) - a[i]) / b[i]
            total += -0.5 * z * z - (0.0 if free else math.log(x))
        elif kind[i] == HALF_NORMAL:
            z = x / a[i]
            total += -0.5 * z * z + (math.log(x) if free else 0.0)
        elif kind[i] == GAMMA:
            total += (a[i] - (0.0 if free else 1.0)) * math.log(x) - b[i] * x
        elif kind[i] == BETA:
            one = 0.0 if free else 1.0
            total += (a[i] - one) * math.log(x) + (b[i] - one) * math.log1p(-x)
        elif kind[i] == UNIFORM:
            if free:
                total += math.log(x - low) + math.log(high - x) + constant[i]
        else:
            total += (a[i] - (0.0 if free else 1.0)) * math.log(x)
    return total
