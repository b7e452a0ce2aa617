"""Priors of many parameters at once: values, free coordinates and log densities, entry by entry.

`chiasma.models.priors` makes the entries, one prior at a time. Entry i has kind[i] and two numbers a[i], b[i];
constant[i] holds what does not depend on the value. The entries of a simplex are consecutive, the last one of kind
SIMPLEX_END; it has no free coordinate, nor has a FIXED entry, whose value is always a[i].
"""

import math

from chiasma._jit import njit

NORMAL, LOG_NORMAL, HALF_NORMAL, GAMMA, BETA, UNIFORM, SIMPLEX, SIMPLEX_END, FIXED = range(9)


@njit
def to_free(kind, a, b, values, free):
    """Coordinates (n_free,) of values (P,) inside their supports."""
    n = 0
    first = 0
    for i in range(kind.shape[0]):
        x = values[i]
        if kind[i] == FIXED:
            first = n
            continue
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
            first = n
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
        if kind[i] == FIXED:
            values[i] = a[i]
            first = i + 1
            continue
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
        if kind[i] == FIXED:
            continue
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


@njit
def log_density_slopes(kind, a, b, values, free, out):
    """out (P,) = derivatives of the log density of values (P,) with respect to the values. With `free`, those of the
    log density of the free coordinates, with respect to these, in the first n_free places.
    """
    n = 0
    first = 0
    total = 0.0  # concentrations of the simplex at hand
    for i in range(kind.shape[0]):
        x = values[i]
        if kind[i] == FIXED:
            if not free:
                out[i] = 0.0
            continue
        if kind[i] >= SIMPLEX:
            if i == 0 or kind[i - 1] != SIMPLEX:
                first = n
                total = 0.0
            total += a[i]
            if not free:
                out[i] = (a[i] - 1.0) / x
            elif kind[i] == SIMPLEX:
                out[n] = a[i]
                n += 1
            else:
                for j in range(first, n):
                    out[j] -= values[i - (n - j)] * total
            continue
        if kind[i] == NORMAL:
            slope = -(x - a[i]) / (b[i] * b[i])
        elif kind[i] == LOG_NORMAL:
            z = (math.log(x) - a[i]) / (b[i] * b[i])
            slope = -z if free else -(z + 1.0) / x
        elif kind[i] == HALF_NORMAL:
            slope = 1.0 - x * x / (a[i] * a[i]) if free else -x / (a[i] * a[i])
        elif kind[i] == GAMMA:
            slope = a[i] - b[i] * x if free else (a[i] - 1.0) / x - b[i]
        elif kind[i] == BETA:
            slope = a[i] * (1.0 - x) - b[i] * x if free else (a[i] - 1.0) / x - (b[i] - 1.0) / (1.0 - x)
        else:
            slope = (a[i] + b[i] - 2.0 * x) / (b[i] - a[i]) if free else 0.0
        out[n if free else i] = slope
        n += 1


@njit
def pull_to_free(kind, a, b, values, slopes, out):
    """out (n_free,) = derivatives with respect to the free coordinates, from those with respect to values (P,)."""
    n = 0
    first = 0
    mean = 0.0  # of the slopes over the simplex at hand
    for i in range(kind.shape[0]):
        x = values[i]
        if kind[i] == FIXED:
            continue
        if kind[i] >= SIMPLEX:
            if i == 0 or kind[i - 1] != SIMPLEX:
                first = n
                mean = 0.0
            mean += x * slopes[i]
            if kind[i] == SIMPLEX:
                out[n] = x * slopes[i]
                n += 1
            else:
                for j in range(first, n):
                    out[j] -= values[i - (n - j)] * mean
            continue
        if kind[i] == NORMAL:
            scale = 1.0
        elif kind[i] <= GAMMA:
            scale = x
        elif kind[i] == BETA:
            scale = x * (1.0 - x)
        else:
            scale = (x - a[i]) * (b[i] - x) / (b[i] - a[i])
        out[n] = scale * slopes[i]
        n += 1
