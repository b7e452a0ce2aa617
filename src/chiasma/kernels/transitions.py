"""Transition probabilities between whole columns: products over rows of the 2x2 tables in `trans`."""

import math

from chiasma._jit import njit

# A linear filter loses a state when its likelihood underflows. That is harmless while every state can be
# re-entered with a probability whose square still dwarfs the smallest double; below this floor, use logspace.
LINEAR_FLOOR = 1e-120


@njit
def smallest(trans):
    """trans.min(), in a sixth of the time for a few rows."""
    found = math.inf
    for probability in trans.flat:
        found = min(found, probability)
    return found


@njit
def is_linear(lowest, rows):
    """Whether linear passes over these rows are safe; lowest[k]: smallest transition probability of row k."""
    floor = 1.0
    for row in rows:
        floor *= lowest[row]
    return floor >= LINEAR_FLOOR


@njit
def fill_transitions(enter, leave, initial, gaps, trans):
    """trans (E, K, 4) of every kind of edge: kind 0 is a start, kind e > 0 has the gap gaps[e].

    A gap d turns the matrix A into 1 pi' + (1 - enter - leave)^d (I - 1 pi'), pi its stationary distribution.
    """
    for k in range(enter.shape[0]):
        trans[0, k, 0] = trans[0, k, 2] = 1.0 - initial[k]
        trans[0, k, 1] = trans[0, k, 3] = initial[k]
        rate = enter[k] + leave[k]
        for e in range(1, gaps.shape[0]):
            # 1 - (1 - rate)^gap: without cancellation for rates as small as 1e-12, real for a rate above 1 at gap 1.
            if rate < 0.5:
                mixed = -math.expm1(gaps[e] * math.log1p(-rate))
            else:
                mixed = 1.0 - (1.0 - rate) ** gaps[e]
            share = mixed / rate if rate > 0.0 else gaps[e]
            gone = min(enter[k] * share, 1.0)
            came = min(leave[k] * share, 1.0)
            trans[e, k, 0] = 1.0 - gone
            trans[e, k, 1] = gone
            trans[e, k, 2] = came
            trans[e, k, 3] = 1.0 - came


@njit
def stay_products(trans, e, out):
    """out[s] = probability that all rows keep their setting, for every code s; built by doubling."""
    out[0] = 1.0
    size = 1
    for k in range(trans.shape[1]):
        for s in range(size):
            out[size + s] = out[s] * trans[e, k, 3]
            out[s] *= trans[e, k, 0]
        size *= 2


@njit
def into_products(trans, e, code, out):
    """out[s] = probability of the move s -> code, for every s; built by doubling."""
    out[0] = 1.0
    size = 1
    for k in range(trans.shape[1]):
        x = code >> k & 1
        from_zero = trans[e, k, x]
        from_one = trans[e, k, 2 + x]
        for s in range(size):
            out[size + s] = out[s] * from_one
            out[s] *= from_zero
        size *= 2


@njit
def into_log_sums(log_trans, e, code, out):
    """out[s] = log-probability of the move s -> code, for every s."""
    out[0] = 0.0
    size = 1
    for k in range(log_trans.shape[1]):
        x = code >> k & 1
        from_zero = log_trans[e, k, x]
        from_one = log_trans[e, k, 2 + x]
        for s in range(size):
            out[size + s] = out[s] + from_one
            out[s] += from_zero
        size *= 2


@njit
def move(trans, e, a, b):
    """Probability of the move from code a to code b."""
    product = 1.0
    for k in range(trans.shape[1]):
        product *= trans[e, k, 2 * (a >> k & 1) + (b >> k & 1)]
    return product


@njit
def log_move(log_trans, e, a, b):
    """Log-probability of the move from code a to code b."""
    total = 0.0
    for k in range(log_trans.shape[1]):
        total += log_trans[e, k, 2 * (a >> k & 1) + (b >> k & 1)]
    return total


@njit
def log_prior(codes, log_trans, edge):
    """log p(X) of a path. While neither the code nor the kind of edge changes, a column costs one comparison."""
    total = 0.0
    before = 0
    known_before = known_code = known_edge = -1
    known = 0.0
    for t in range(codes.shape[0]):
        code = codes[t]
        e = edge[t]
        if code != known_code or before != known_before or e != known_edge:
            known = log_move(log_trans, e, before, code)
            known_before, known_code, known_edge = before, code, e
        total += known
        before = code
    return total


@njit
def count_moves(codes, edge, counts):
    """Add to counts (E, K, 4) how often every row made each of its four moves, by kind of edge.

    Then log p(X) is the sum of counts * log_trans, for any transition probabilities.
    """
    before = 0
    for t in range(codes.shape[0]):
        code = codes[t]
        e = edge[t]
        for k in range(counts.shape[1]):
            counts[e, k, 2 * (before >> k & 1) + (code >> k & 1)] += 1
        before = code


@njit
def path_log_likelihood(log_lik, codes):
    """Sum of the table along a path.

    In this order and no other: allowed to reassociate, the compiler would split the sum differently in every function
    that inlines it, and a run that is continued in another process would differ in the last digits. A vectorised sum
    would be no faster, as the time goes into reading the table.
    """
    total = 0.0
    for t in range(codes.shape[0]):
        total += log_lik[t, codes[t]]
    return total
