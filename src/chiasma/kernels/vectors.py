"""Loops over the replicas of vectors: acceptance, swaps, crossovers, Gibbs draws of sites, adaptation of proposals.

betas, log_lik, log_prior (R,): rung, log-density and log prior of every replica, kept with it; states (R, T).
A replica has the log target log_prior + beta * log_lik, and beta = 0 ignores even a log_lik of -inf.
"""

import math

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.ensemble import Tally, first_pair, tally_log_liks, tally_move, tally_step
from chiasma.kernels.picking import is_accepted, pick, pick_log


@njit
def tempered(log_lik, log_prior, beta):
    return log_prior + beta * log_lik if beta > 0.0 else log_prior


@njit
def copy_row(source, target):
    for t in range(source.shape[0]):
        target[t] = source[t]


@njit
def settle(
    betas, states, log_lik, log_prior, proposed, new_lik, new_prior, log_hastings, uniforms, n_free, chance
):  # fmt: skip
    """Metropolis-Hastings of every replica; the first n_free take their proposal whatever it is. chance (R,): out."""
    for r in range(betas.shape[0]):
        gain = tempered(new_lik[r], new_prior[r], betas[r]) - tempered(log_lik[r], log_prior[r], betas[r])
        gain += log_hastings[r]
        # A NaN comes of two states without density: it is refused.
        chance[r] = 1.0 if r < n_free or gain >= 0.0 else (math.exp(gain) if gain < 0.0 else 0.0)
        if r < n_free or is_accepted(gain, uniforms[r]):
            copy_row(proposed[r], states[r])
            log_lik[r] = new_lik[r]
            log_prior[r] = new_prior[r]


@njit
def walk(states, factors, normals, out):
    """out (R, T): states + L z, with lower triangles L = factors (R, T, T)."""
    for r in range(states.shape[0]):
        for t in range(states.shape[1]):
            total = 0.0
            for j in range(t + 1):
                total += factors[r, t, j] * normals[r, j]
            out[r, t] = states[r, t] + total


@njit
def exchange_rows(states, log_lik, log_prior, p, q):
    """Swap two replicas; returns how many coordinates changed."""
    moved = 0
    for t in range(states.shape[1]):
        if states[p, t] != states[q, t]:
            states[p, t], states[q, t] = states[q, t], states[p, t]
            moved += 1
    log_lik[p], log_lik[q] = log_lik[q], log_lik[p]
    log_prior[p], log_prior[q] = log_prior[q], log_prior[p]
    return moved


@njit
def swap_gain(betas, log_lik, p, q):
    """Log ratio of exchanging two whole replicas; their priors cancel."""
    kept = tempered(log_lik[p], 0.0, betas[p]) + tempered(log_lik[q], 0.0, betas[q])
    return tempered(log_lik[q], 0.0, betas[p]) + tempered(log_lik[p], 0.0, betas[q]) - kept


@njit
def tally_of(sums, counts):
    """The arrays of a tally in sums (2 R - 1,) and counts (5 R - 1,): two arrays cost a call less than nine."""
    r = (sums.shape[0] + 1) // 2
    p = r - 1
    return Tally(
        counts[:1], sums[:p], sums[p:], counts[1 : 1 + p], counts[1 + p : 1 + 2 * p], counts[1 + 2 * p : 1 + 3 * p],
        counts[1 + 3 * p : 1 + 3 * p + r], counts[1 + 3 * p + r : 1 + 3 * p + 2 * r], counts[1 + 3 * p + 2 * r :],
    )  # fmt: skip


@njit
def swap_pairs(betas, states, log_lik, log_prior, uniforms, sums, counts, order):
    """Swaps of the pairs of this step's parity. uniforms (R - 1,); order (R,): which replica is at each rung now."""
    tally = tally_of(sums, counts)
    n_replicas = betas.shape[0]
    for r in range(n_replicas):
        order[r] = r
    tally_log_liks(tally, betas, log_lik)
    for p in range(first_pair(tally.steps[0], n_replicas), n_replicas - 1, 2):
        moved = 0
        swapped = is_accepted(swap_gain(betas, log_lik, p, p + 1), uniforms[p])
        if swapped:
            moved = exchange_rows(states, log_lik, log_prior, p, p + 1)
            order[p], order[p + 1] = p + 1, p
        tally_move(tally, p, moved, swapped)
    tally_step(tally)


@njit
def tally_pairs(betas, log_lik, sums, counts, pairs, moved):
    """Count the moves of an exchange step, other than swaps. log_lik: before they were made."""
    tally = tally_of(sums, counts)
    tally_log_liks(tally, betas, log_lik)
    for n in range(pairs.shape[0]):
        tally_move(tally, pairs[n], moved[n], False)
    tally_step(tally)


@njit
def crossover_weights(log_lik, log_prior, differ, beta_i, beta_j, flipped, out):
    """Joint log target of every crossover of (u, v): prefixes t = 0..T-1, then suffixes if flipped.

    log_lik, log_prior (2, d): of u (row 0) and v (row 1) after exchanging all coordinates up to the k-th of the d that
    differ. Suffix t is prefix t the other way round, and the unchanged pair is the full swap the other way round.
    """
    last = log_lik.shape[1] - 1
    k = -1
    for t in range(differ.shape[0]):
        if differ[t]:
            k += 1
        i, at = (0, k) if k >= 0 else (1, last)
        j = 1 - i
        out[t] = tempered(log_lik[i, at], log_prior[i, at], beta_i) + tempered(log_lik[j, at], log_prior[j, at], beta_j)
        if flipped:
            out[differ.shape[0] + t] = tempered(log_lik[j, at], log_prior[j, at], beta_i) + tempered(
                log_lik[i, at], log_prior[i, at], beta_j
            )


@njit
def draw_crossover(log_lik, log_prior, differ, beta_i, beta_j, flipped, uniform, weights, new_lik, new_prior):
    """The crossover drawn by weight; new_lik, new_prior (2,): of the pair that it makes."""
    crossover_weights(log_lik, log_prior, differ, beta_i, beta_j, flipped, weights)
    candidate = pick_log(weights, uniform)
    size = differ.shape[0]
    k = -1
    for t in range(candidate % size + 1):
        if differ[t]:
            k += 1
    i, at = (0, k) if k >= 0 else (1, log_lik.shape[1] - 1)
    if candidate >= size:
        i = 1 - i
    for n in range(2):
        j = i if n == 0 else 1 - i
        new_lik[n] = log_lik[j, at]
        new_prior[n] = log_prior[j, at]
    return candidate


@njit
def draw_sites(betas, states, log_lik, log_prior, letters, current, sites, new_lik, new_prior, uniforms, weights):
    """Gibbs draws of sites (R, m) of every replica, which do not depend on each other given the rest.

    current (R, m): index of the letter there. new_lik, new_prior (R, m, A - 1): with that letter replaced by the one
    1, 2, ... places further on, cyclically. The gains of several sites add up.
    """
    n_letters = letters.shape[0]
    for r in range(betas.shape[0]):
        old_lik, old_prior = log_lik[r], log_prior[r]
        for m in range(sites.shape[1]):
            weights[0] = tempered(old_lik, old_prior, betas[r])
            for a in range(n_letters - 1):
                weights[a + 1] = tempered(new_lik[r, m, a], new_prior[r, m, a], betas[r])
            a = pick_log(weights, uniforms[r, m])
            if a > 0:
                states[r, sites[r, m]] = letters[(current[r, m] + a) % n_letters]
                # Assigned for a single site, so that nothing is lost where the old value was -inf.
                if sites.shape[1] == 1:
                    log_lik[r], log_prior[r] = new_lik[r, m, a - 1], new_prior[r, m, a - 1]
                else:
                    log_lik[r] += new_lik[r, m, a - 1] - old_lik
                    log_prior[r] += new_prior[r, m, a - 1] - old_prior


@njit
def adapt_factors(factors, normals, chance, wanted, gain, n_free):
    """Robust adaptive Metropolis (Vihola 2012). factors (R, T, T): triangles L of proposals L z; normals (R, T): z.

    L L' becomes L (I + gain * (chance - wanted) z z' / |z|^2) L', by an update of rank one.
    """
    size = normals.shape[1]
    x = np.empty(size)
    for r in range(n_free, factors.shape[0]):
        length = 0.0
        for t in range(size):
            length += normals[r, t] ** 2
        change = gain * (chance[r] - wanted)
        sign = 1.0 if change > 0.0 else -1.0
        root = math.sqrt(abs(change) / length)
        for i in range(size):
            total = 0.0
            for j in range(i + 1):
                total += factors[r, i, j] * normals[r, j]
            x[i] = root * total
        for k in range(size):
            old = factors[r, k, k]
            new = math.sqrt(max(old * old + sign * x[k] * x[k], 1e-12 * old * old))
            c, s = new / old, x[k] / old
            factors[r, k, k] = new
            for i in range(k + 1, size):
                factors[r, i, k] = (factors[r, i, k] + sign * s * x[i]) / c
                x[i] = c * x[i] - s * factors[r, i, k]


@njit
def informed_weights(log_lik, log_prior, scores, beta, weights):
    """weights (n,): w / (1 + w), w the ratio of densities after and before each change; returns their sum.

    scores (2, n): log-density and log prior after each change.
    """
    before = tempered(log_lik, log_prior, beta)
    total = 0.0
    for n in range(weights.shape[0]):
        gain = tempered(scores[0, n], scores[1, n], beta) - before
        # Without overflow for either sign.
        weights[n] = 1.0 / (1.0 + math.exp(-gain)) if gain > 0.0 else math.exp(gain) / (1.0 + math.exp(gain))
        total += weights[n]
    return total


@njit
def pick_informed(betas, log_lik, log_prior, scores, uniforms, chosen):
    """chosen (R,): a change of each replica, drawn by the weights of `scores` (R, 2, n)."""
    weights = np.empty(scores.shape[2])
    for r in range(betas.shape[0]):
        informed_weights(log_lik[r], log_prior[r], scores[r], betas[r], weights)
        chosen[r] = pick(weights, uniforms[r])


@njit
def settle_informed(betas, states, log_lik, log_prior, scores, proposed, new_lik, new_prior, new_scores, uniforms):
    """Accept with the ratio of the sums of weights before and after: all that is left, as w / (1 + w) is balanced."""
    weights = np.empty(scores.shape[2])
    for r in range(betas.shape[0]):
        here = informed_weights(log_lik[r], log_prior[r], scores[r], betas[r], weights)
        there = informed_weights(new_lik[r], new_prior[r], new_scores[r], betas[r], weights)
        if here > 0.0 and is_accepted(math.log(here) - math.log(there), uniforms[r]):
            copy_row(proposed[r], states[r])
            log_lik[r], log_prior[r] = new_lik[r], new_prior[r]
            for part in range(2):
                copy_row(new_scores[r, part], scores[r, part])


@njit
def standardise(x, sites, mean, inverse, z):
    """z (d,): L^-1 (x[sites] - mean); inverse (d, d): the transpose of L^-1, so that the inner loop runs over z."""
    z[:] = 0.0
    for s in range(sites.shape[0]):
        apart = x[sites[s]] - mean[s]
        for t in range(s, sites.shape[0]):
            z[t] += inverse[s, t] * apart


@njit
def log_mixture(x, sites, log_weights, means, inverses, log_scales, logs):
    """log of sum_k w_k N(x[sites]; m_k, L_k L_k'), up to a constant; logs (K,): out, the terms."""
    top = -np.inf
    z = np.empty(sites.shape[0])
    for k in range(log_weights.shape[0]):
        standardise(x, sites, means[k], inverses[k], z)
        square = 0.0
        for t in range(sites.shape[0]):
            square += z[t] * z[t]
        logs[k] = log_weights[k] - log_scales[k] - 0.5 * square
        top = max(top, logs[k])
    total = 0.0
    for k in range(log_weights.shape[0]):
        total += math.exp(logs[k] - top)
    return top + math.log(total)


@njit
def propose_jump(x, sites, log_weights, means, factors, inverses, log_scales, variances, uniforms, normals, out):
    """A jump between the components of a mixture (`sampling/mode_jumps.py`); out (T,): the proposal.

    uniforms (3,): component left, component entered, rho. Returns log q(x) - log q(out), and the squared length of the
    jump in units of `variances`.
    """
    logs = np.empty(log_weights.shape[0])
    before = log_mixture(x, sites, log_weights, means, inverses, log_scales, logs)
    i = pick_log(logs, uniforms[0])
    copy_row(log_weights, logs)
    j = pick_log(logs, uniforms[1])
    # Half of the jumps to another component carry x over as it is.
    if i == j:
        rho = uniforms[2]
    else:
        rho = 1.0 if uniforms[2] < 0.5 else 2.0 * uniforms[2] - 1.0
    rest = math.sqrt(1.0 - rho * rho)
    size = sites.shape[0]
    z = np.empty(size)
    standardise(x, sites, means[i], inverses[i], z)
    for t in range(size):
        z[t] = rho * z[t] + rest * normals[t]
    copy_row(x, out)
    for t in range(size):
        total = means[j, t]
        for s in range(t + 1):
            total += factors[j, t, s] * z[s]
        out[sites[t]] = total
    length = 0.0
    for t in range(size):
        length += (out[sites[t]] - x[sites[t]]) ** 2 / variances[t]
    return before - log_mixture(out, sites, log_weights, means, inverses, log_scales, logs), length
