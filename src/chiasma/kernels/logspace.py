"""Sums of numbers given by their logarithms; -inf is zero."""

import math

from chiasma._jit import njit


@njit
def log_add(a, b):
    top = max(a, b)
    if top == -math.inf:
        return top
    return top + math.log1p(math.exp(min(a, b) - top))


@njit
def log_sum(values):
    top = -math.inf
    for value in values:
        top = max(top, value)
    if top == -math.inf:
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


@njit
def forget_impossible(log_lik):
    """Columns without a possible candidate become flat, as in linear passes: the data say nothing there."""
    for t in range(log_lik.shape[0]):
        top = -math.inf
        for s in range(log_lik.shape[1]):
            top = max(top, log_lik[t, s])
        if top == -math.inf:
            for s in range(log_lik.shape[1]):
                log_lik[t, s] = 0.0
