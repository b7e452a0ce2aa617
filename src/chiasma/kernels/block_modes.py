"""The toy target over {0, 1}^T: log pi(x) = sum_j log_alpha[j] * min(ones_j, length_j - ones_j).

Block j is the sites starts[j]..starts[j + 1] - 1; starts (B + 1,), log_alpha (B,), block (T,) the block of a site.
Everything follows from the number of ones in each block, so a site costs O(1), and all prefix crossovers O(T).
"""

import math

import numpy as np

from chiasma._jit import njit


@njit
def distance(ones, length):
    """Flips from a block to the nearer of its two modes."""
    return min(ones, length - ones)


@njit
def count_ones(x, starts, ones):
    for j in range(ones.shape[0]):
        count = 0
        for t in range(starts[j], starts[j + 1]):
            if x[t] == 1:
                count += 1
        ones[j] = count


@njit
def log_densities(x, starts, log_alpha, out):
    """x (n, T) to out (n,); -inf where a value is neither 0 nor 1."""
    for n in range(x.shape[0]):
        total = 0.0
        for j in range(log_alpha.shape[0]):
            ones = 0
            for t in range(starts[j], starts[j + 1]):
                if x[n, t] == 1:
                    ones += 1
                elif x[n, t] != 0:
                    total = -math.inf
            total += log_alpha[j] * distance(ones, starts[j + 1] - starts[j])
        out[n] = total


@njit
def zero_chances(log_alpha, beta, out):
    """out (B, 3): P(x_t = 0 | others) in block j, where x_t = 1 is out[j, g + 1]'s g = -1, 0, 1 flips further away."""
    for j in range(log_alpha.shape[0]):
        for gain in range(-1, 2):
            log_odds = beta * log_alpha[j] * gain
            zero, one = math.exp(min(0.0, -log_odds)), math.exp(min(0.0, log_odds))
            out[j, gain + 1] = zero / (zero + one)


@njit
def draw_site(x, t, block, starts, chances, uniform, ones):
    """Draw x[t] given all others; ones (B,) is kept up to date."""
    j = block[t]
    length = starts[j + 1] - starts[j]
    others = ones[j] - (1 if x[t] == 1 else 0)
    gain = distance(others + 1, length) - distance(others, length)
    bit = 0 if uniform < chances[j, gain + 1] else 1
    x[t] = bit
    ones[j] = others + bit


@njit
def sweep_sites(x, block, starts, chances, uniforms, ones):
    """Every site in order, from T uniforms."""
    count_ones(x, starts, ones)
    for t in range(x.shape[0]):
        draw_site(x, t, block, starts, chances, uniforms[t], ones)


@njit
def random_sites(x, block, starts, chances, uniforms, ones):
    """Sites at random, from two uniforms each: which site, and its value."""
    count_ones(x, starts, ones)
    for n in range(uniforms.shape[0] // 2):
        t = int(uniforms[2 * n] * x.shape[0])
        draw_site(x, t, block, starts, chances, uniforms[2 * n + 1], ones)


@njit
def crossover_scores(u, v, starts, log_alpha, out):
    """out (2, T): log-density of both vectors after sites 0..t were exchanged."""
    n_blocks = log_alpha.shape[0]
    ones = np.empty((2, n_blocks), np.int64)
    count_ones(u, starts, ones[0])
    count_ones(v, starts, ones[1])
    # Blocks wholly before the cut are exchanged, those after it are not.
    behind_u = behind_v = ahead_u = ahead_v = 0.0
    for j in range(n_blocks - 1, -1, -1):
        length = starts[j + 1] - starts[j]
        for t in range(starts[j], starts[j + 1]):
            out[0, t] = ahead_u
            out[1, t] = ahead_v
        ahead_u += log_alpha[j] * distance(ones[0, j], length)
        ahead_v += log_alpha[j] * distance(ones[1, j], length)
    for j in range(n_blocks):
        length = starts[j + 1] - starts[j]
        ones_u, ones_v = ones[0, j], ones[1, j]
        for t in range(starts[j], starts[j + 1]):
            if u[t] != v[t]:
                shift = 1 if v[t] == 1 else -1
                ones_u += shift
                ones_v -= shift
            out[0, t] += behind_u + log_alpha[j] * distance(ones_u, length)
            out[1, t] += behind_v + log_alpha[j] * distance(ones_v, length)
        behind_u += log_alpha[j] * distance(ones_u, length)
        behind_v += log_alpha[j] * distance(ones_v, length)
