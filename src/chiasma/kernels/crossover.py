"""Exchange moves between two replicas: scores of exchanged columns and edges, candidates, and their choice.

Replica i holds codes a, replica j holds b. `mask` has all bits of some rows and none of the others: exchanging these
rows of a column flips the bits d_t = (a_t ^ b_t) & mask in both. z_t says whether column t is exchanged.

columns (T, 2):  tempered log-likelihood of both replicas at column t for z_t = 0, 1.
edges (T, 4):    score of the edge that enters column t at 2 * z_{t-1} + z_t: log-probabilities of both replicas'
                 moves, up to what is common to all four. Replicas may have transition
                 and likelihood arrays of their own; with shared ones this is the same table with equal diagonals.

Scores are absolute and never subtracted: a candidate of probability zero is -inf and harmless.
"""

import math

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.log_passes import log_filter_block
from chiasma.kernels.logspace import forget_impossible
from chiasma.kernels.rows import RESCALE_BELOW, RESCALE_BY, TINY_PAIR
from chiasma.kernels.transitions import LINEAR_FLOOR, Matrices, entry, field, n_axes, state


@njit
def times_beta(beta, log_lik):
    """beta * log_lik, where beta = 0 ignores even impossible observations."""
    return beta * log_lik if beta > 0.0 else 0.0


@njit
def score_columns(a, b, mask, log_lik_i, log_lik_j, beta_i, beta_j, columns):
    for t in range(a.shape[0]):
        d = (a[t] ^ b[t]) & mask
        columns[t, 0] = times_beta(beta_i, log_lik_i[t, a[t]]) + times_beta(beta_j, log_lik_j[t, b[t]])
        columns[t, 1] = times_beta(beta_i, log_lik_i[t, a[t] ^ d]) + times_beta(beta_j, log_lik_j[t, b[t] ^ d])


@njit
def edge_table(a_before, b_before, a, b, mask, trans_i, trans_j, e, log):
    """The four scores of one edge, from transition probabilities, or from their logarithms if `log`.

    A row that is exchanged on neither side of the edge scores the same in all four and is left out.
    """
    d_before, d = (a_before ^ b_before) & mask, (a ^ b) & mask
    w00 = w01 = w10 = w11 = 0.0 if log else 1.0
    either = d | d_before
    for k in range(n_axes(trans_i)):
        own = field(trans_i, k)
        if either & own:
            x, y = state(trans_i, k, a_before), state(trans_i, k, a)
            u, v = state(trans_i, k, b_before), state(trans_i, k, b)
            # With row k exchanged on one side, each replica has the other's state there, if the states differ.
            x1, u1 = (u, x) if d_before & own else (x, u)
            y1, v1 = (v, y) if d & own else (y, v)
            if log:
                w00 += entry(trans_i, e, k, x, y) + entry(trans_j, e, k, u, v)
                w01 += entry(trans_i, e, k, x, y1) + entry(trans_j, e, k, u, v1)
                w10 += entry(trans_i, e, k, x1, y) + entry(trans_j, e, k, u1, v)
                w11 += entry(trans_i, e, k, x1, y1) + entry(trans_j, e, k, u1, v1)
            else:
                w00 *= entry(trans_i, e, k, x, y) * entry(trans_j, e, k, u, v)
                w01 *= entry(trans_i, e, k, x, y1) * entry(trans_j, e, k, u, v1)
                w10 *= entry(trans_i, e, k, x1, y) * entry(trans_j, e, k, u1, v)
                w11 *= entry(trans_i, e, k, x1, y1) * entry(trans_j, e, k, u1, v1)
    return w00, w01, w10, w11


@njit
def score_edges(a, b, mask, log_trans_i, log_trans_j, edge, edges):
    """Edge tables of all columns. Where neither path moves, the table is that of the column before."""
    a_before = b_before = 0
    known = -1  # kind of edge for which the table at hand is that of two paths that stay, -1 if none
    w00 = w01 = w10 = w11 = 0.0
    for t in range(a.shape[0]):
        e = edge[t]
        moves = (a[t] ^ a_before) | (b[t] ^ b_before)
        if moves or e != known:
            w00, w01, w10, w11 = edge_table(a_before, b_before, a[t], b[t], mask, log_trans_i, log_trans_j, e, True)
            known = -1 if moves else e
            a_before, b_before = a[t], b[t]
        edges[t, 0] = w00
        edges[t, 1] = w01
        edges[t, 2] = w10
        edges[t, 3] = w11


@njit
def exchange_columns(a, b, mask, first, stop):
    """Exchange the rows in `mask` of columns first..stop-1."""
    for t in range(first, stop):
        d = (a[t] ^ b[t]) & mask
        a[t] ^= d
        b[t] ^= d


@njit
def segment_score(columns, edges, first, stop):
    """Log-score of exchanging columns first..stop-1 and no others, less that of exchanging none."""
    exchanged = kept = 0.0
    last = columns.shape[0] - 1
    for t in range(first, stop):
        inside = t > first
        exchanged += columns[t, 1] + edges[t, 3 if inside else 1]
        kept += columns[t, 0] + edges[t, 0]
    if stop <= last:
        exchanged += edges[stop, 2]
        kept += edges[stop, 0]
    return exchanged - kept


@njit
def crossover_weights(columns, edges, flipped, weights):
    """Log-weights of every one-point crossover.

    weights[t]: columns 0..t exchanged; with `flipped`, weights[T + t]: columns t+1..T-1 exchanged.
    t = T-1 is the full swap, or nothing: without them the auxiliary draw would not be symmetric.
    """
    n_columns = columns.shape[0]
    kept = exchanged = 0.0
    for t in range(n_columns):
        kept += columns[t, 0] + edges[t, 0]
        exchanged += columns[t, 1] + edges[t, 3]
        weights[t] = exchanged
        if flipped:
            weights[n_columns + t] = kept
    kept = exchanged = 0.0
    for t in range(n_columns - 2, -1, -1):
        kept += columns[t + 1, 0]
        exchanged += columns[t + 1, 1]
        weights[t] += edges[t + 1, 2] + kept
        if flipped:
            weights[n_columns + t] += edges[t + 1, 1] + exchanged
        kept += edges[t + 1, 0]
        exchanged += edges[t + 1, 3]


@njit
def apply_crossover(a, b, mask, candidate):
    """Candidate of `crossover_weights` to the pair."""
    n_columns = a.shape[0]
    if candidate < n_columns:
        exchange_columns(a, b, mask, 0, candidate + 1)
    else:
        exchange_columns(a, b, mask, candidate - n_columns + 1, n_columns)


@njit
def exp_pair(x, y):
    """exp(x) and exp(y) up to a common factor."""
    top = max(x, y)
    # Impossible either way: only a start outside the support brings this about.
    if top == -math.inf:
        return 1.0, 1.0
    return math.exp(x - top), math.exp(y - top)


@njit
def filter_mosaic(a, b, mask, tables_i, tables_j, beta_i, beta_j, uniforms, answers):
    """Forward filtering of z (T,), a two-state chain with its own 2x2 table per edge, in linear space.

    answers[t], bit z: the draw of z_t if z_{t+1} = z. Both are computed as soon as the filter has passed the edge
    between them, so that filtered weights need not be kept; the last column has the same answer twice. Returns
    whether all edges are safe in linear space; if not, answers must not be used.
    """
    lik_i, lik_j, log_lik_i, log_lik_j = tables_i.lik, tables_j.lik, tables_i.log_lik, tables_j.log_lik
    trans_i, trans_j, edge = tables_i.trans, tables_j.trans, tables_i.edge
    last = a.shape[0] - 1
    u, v = 1.0, 0.0
    a_before = b_before = 0
    known = -1  # as in score_edges
    w00 = w01 = w10 = w11 = 1.0
    for t in range(last + 1):
        e = edge[t]
        moves = (a[t] ^ a_before) | (b[t] ^ b_before)
        if moves or e != known:
            w00, w01, w10, w11 = edge_table(a_before, b_before, a[t], b[t], mask, trans_i, trans_j, e, False)
            top = max(max(w00, w01), max(w10, w11))
            if top < LINEAR_FLOOR or min(min(w00, w01), min(w10, w11)) < LINEAR_FLOOR * top:
                return False
            w00, w01, w10, w11 = w00 / top, w01 / top, w10 / top, w11 / top
            known = -1 if moves else e
            a_before, b_before = a[t], b[t]
        # Equal columns are the same exchanged or not: one of the two is enough.
        kept, exchanged = 1.0, 0.0
        d = (a[t] ^ b[t]) & mask
        if d:
            kept = lik_i[t, a[t]] * lik_j[t, b[t]]
            exchanged = lik_i[t, a[t] ^ d] * lik_j[t, b[t] ^ d]
            # A loop, as below: the compiler would take the exponentials of every column.
            while kept < TINY_PAIR and exchanged < TINY_PAIR:
                kept, exchanged = exp_pair(
                    times_beta(beta_i, log_lik_i[t, a[t]]) + times_beta(beta_j, log_lik_j[t, b[t]]),
                    times_beta(beta_i, log_lik_i[t, a[t] ^ d]) + times_beta(beta_j, log_lik_j[t, b[t] ^ d]),
                )
        # Likelihood times transition first: these products do not depend on the previous column.
        one_to_zero = v * (kept * w10)
        one_to_one = v * (exchanged * w11)
        zero = u * (kept * w00) + one_to_zero
        one = u * (exchanged * w01) + one_to_one
        if t > 0:
            uniform = uniforms[t - 1]
            answers[t - 1] = (1 if uniform * zero < one_to_zero else 0) | (2 if uniform * one < one_to_one else 0)
        # A loop and not an `if`: the compiler would turn a branch into arithmetic on every column.
        while 0.0 < zero + one < RESCALE_BELOW:
            zero *= RESCALE_BY
            one *= RESCALE_BY
        u, v = zero, one
    answers[last] = 3 if uniforms[last] * (u + v) < v else 0
    return True


@njit
def draw_mosaic(answers, mask, a, b):
    """Backward sampling: read z off the answers, and exchange the columns where it is 1; returns how many differed."""
    changes = z = 0
    for t in range(a.shape[0] - 1, -1, -1):
        z = answers[t] >> z & 1
        d = (a[t] ^ b[t]) & mask if z else 0
        a[t] ^= d
        b[t] ^= d
        changes += d != 0
    return changes


@njit
def log_draw_mosaic(columns, edges, layout, sites, uniforms, alpha, mask, a, b):
    """The same in logarithms: draw z backwards from the scores, and exchange the columns where it is 1.

    layout: of one row of two states; sites = 0..T-1; alpha (T, 2) is scratch. Reads its uniforms as filter_mosaic does,
    small ones for z = 1: which of the two is used does not change the draw. A pair without a possible z stays as it is;
    only a start outside the support brings this about.
    """
    message = np.array([0.0, -math.inf])
    forget_impossible(columns)
    _, impossible = log_filter_block(columns, 1.0, Matrices(edges, layout), sites, 0, message, alpha, False)
    if impossible >= 0:
        return
    last = a.shape[0] - 1
    z = 0
    for t in range(last, -1, -1):
        zero, one = alpha[t, 0], alpha[t, 1]
        if t < last:
            zero += edges[t + 1, z]
            one += edges[t + 1, 2 + z]
        zero, one = exp_pair(zero, one)
        z = 1 if uniforms[t] * (zero + one) < one else 0
        if z:
            exchange_columns(a, b, mask, t, t + 1)


@njit
def count_changes(before, after):
    """Number of columns that differ."""
    changes = 0
    for t in range(before.shape[0]):
        if before[t] != after[t]:
            changes += 1
    return changes


@njit
def score_rows(a, b, order, log_trans_i, log_trans_j, edge, scores):
    """scores[n, z]: log prior of row order[n] in both replicas, kept (z = 0) or exchanged along all columns (1)."""
    for n in range(order.shape[0]):
        k = order[n]
        kept = exchanged = 0.0
        x = y = 0
        for t in range(a.shape[0]):
            e = edge[t]
            x1, y1 = state(log_trans_i, k, a[t]), state(log_trans_i, k, b[t])
            kept += entry(log_trans_i, e, k, x, x1) + entry(log_trans_j, e, k, y, y1)
            exchanged += entry(log_trans_i, e, k, y, y1) + entry(log_trans_j, e, k, x, x1)
            x, y = x1, y1
        scores[n, 0] = kept
        scores[n, 1] = exchanged


@njit
def score_masks(a, b, masks, log_lik_i, log_lik_j, beta_i, beta_j, totals):
    """totals[c]: tempered log-likelihood of both replicas with the rows in masks[c] exchanged in all columns."""
    for c in range(masks.shape[0]):
        total = 0.0
        for t in range(a.shape[0]):
            d = (a[t] ^ b[t]) & masks[c]
            total += times_beta(beta_i, log_lik_i[t, a[t] ^ d]) + times_beta(beta_j, log_lik_j[t, b[t] ^ d])
        totals[c] = total


@njit
def add_row_scores(scores, order, masks, totals):
    """Add to totals[c] the log prior of exchanging exactly the rows of `order` in masks[c]."""
    for c in range(masks.shape[0]):
        for n in range(order.shape[0]):
            totals[c] += scores[n, masks[c] >> order[n] & 1]
