"""Gaussian log-likelihoods of many levels in one pass, without temporaries."""

import math

from chiasma._jit import njit

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@njit
def gaussian_log_likelihood(y, level, depth, sd, out):
    """out[n, m] = sum_d log N(y[n, d]; depth[d] * level[n, m, d], sd[d]^2), over the channels that are not NaN.

    level (N, M, D), or (1, M, D) when all columns share it.
    """
    for n in range(y.shape[0]):
        row = level[n if level.shape[0] > 1 else 0]
        out[n] = 0.0
        for d in range(y.shape[1]):
            if math.isnan(y[n, d]):
                continue
            scale = 1.0 / sd[d]
            constant = math.log(sd[d]) + HALF_LOG_TWO_PI
            for m in range(out.shape[1]):
                z = (y[n, d] - depth[d] * row[m, d]) * scale
                out[n, m] -= 0.5 * z * z + constant
