"""One row given the others: two-state filter and backward draw.

pair (T, 2): likelihood of x = 0 and of x = 1 at every column, up to a factor per column.
alpha (T, 2): filtered weights, up to a factor per column. The filter is linear in its message, so it is left
unnormalised and only rescaled when it has shrunk: the chain of divisions, one per column, disappears.
"""

import math

from chiasma._jit import njit

RESCALE_BELOW = 2.0**-100
RESCALE_BY = 2.0**100
TINY_PAIR = 1e-20


@njit
def gather_pairs(lik, log_lik, beta, codes, bit, pair):
    """Look up both settings of the row `bit` in the tables; where both are tiny, go back to logarithms."""
    for t in range(codes.shape[0]):
        off = codes[t] & ~bit
        zero = lik[t, off]
        one = lik[t, off | bit]
        if zero < TINY_PAIR and one < TINY_PAIR:
            log_zero = log_lik[t, off]
            log_one = log_lik[t, off | bit]
            top = max(log_zero, log_one)
            if top == -math.inf:
                # The rest of the column is impossible whatever this row does: the data say nothing about it.
                zero = 1.0
                one = 1.0
            else:
                zero = math.exp(beta * (log_zero - top))
                one = math.exp(beta * (log_one - top))
        pair[t, 0] = zero
        pair[t, 1] = one


@njit
def filter_row(pair, trans, edge, k, alpha):
    u = 1.0
    v = 0.0
    for t in range(pair.shape[0]):
        e = edge[t]
        # Likelihood times transition first: it does not wait for the previous column.
        zero = u * (pair[t, 0] * trans[e, k, 0]) + v * (pair[t, 0] * trans[e, k, 2])
        one = u * (pair[t, 1] * trans[e, k, 1]) + v * (pair[t, 1] * trans[e, k, 3])
        # A loop and not an `if`: the compiler would turn a branch into arithmetic on every column.
        while 0.0 < zero + one < RESCALE_BELOW:
            zero *= RESCALE_BY
            one *= RESCALE_BY
        alpha[t, 0] = zero
        alpha[t, 1] = one
        u = zero
        v = one


@njit
def draw_row(alpha, trans, edge, k, uniforms, bit, codes):
    """Draw the row backwards and write it into bit `bit` of `codes`. Reads one uniform per column."""
    last = alpha.shape[0] - 1
    zero = alpha[last, 0]
    one = alpha[last, 1]
    x = 1 if uniforms[last] * (zero + one) < one else 0
    codes[last] = codes[last] & ~bit | (bit if x else 0)
    for t in range(last - 1, -1, -1):
        e = edge[t + 1]
        zero = alpha[t, 0]
        one = alpha[t, 1]
        # Both answers are computed before it is known which one counts: the columns then depend on each
        # other through a selection only.
        one_if_zero = one * trans[e, k, 2]
        one_if_one = one * trans[e, k, 3]
        if_zero = uniforms[t] * (zero * trans[e, k, 0] + one_if_zero) < one_if_zero
        if_one = uniforms[t] * (zero * trans[e, k, 1] + one_if_one) < one_if_one
        x = 1 if (if_one if x else if_zero) else 0
        codes[t] = codes[t] & ~bit | (bit if x else 0)


@njit
def draw_prior_row(trans, edge, k, uniforms, bit, codes):
    """Draw the row from its prior, forwards, into bit `bit` of `codes`. Reads one uniform per column."""
    x = 0
    for t in range(codes.shape[0]):
        x = 1 if uniforms[t] < trans[edge[t], k, 2 * x + 1] else 0
        codes[t] = codes[t] & ~bit | (bit if x else 0)
