"""One exchange move between two replicas, from scores to new codes.

A move has three parts: begin (the auxiliary draw), score (from tables here, from the user's emission on the streamed
path), and finish (Metropolis-Hastings or a Gibbs draw). Everything is a function of a fixed number of uniforms.
"""

from typing import NamedTuple

import numpy as np

from chiasma._jit import njit
from chiasma.kernels import crossover
from chiasma.kernels.layout import Layout, make_layout
from chiasma.kernels.picking import is_accepted, pick_log
from chiasma.kernels.transitions import field, n_axes

SWAP, RANDOM_CROSSOVER, AUGMENTED, MOSAIC = range(4)
# Uniforms that choose a random subset of rows: 32 bits of each are used.
ROW_UNIFORMS = 2


class Move(NamedTuple):
    """An exchange move as numbers."""

    kind: int
    order: np.ndarray  # (m,) rows that may be exchanged, in the order in which axis="rows" cuts them
    random_rows: bool  # whether each move takes a random subset of them
    across_rows: bool  # cut between rows and not between columns
    points: int  # cuts of a random crossover
    flipped: bool  # augmented: suffixes as well as prefixes


class PairWork(NamedTuple):
    """Scratch of one move."""

    columns: np.ndarray  # (T, 2)
    edges: np.ndarray  # (T, 4)
    layout: Layout  # of one row of two states, for the mosaic
    alpha: np.ndarray  # (T, 2)
    weights: np.ndarray  # (2 T,)
    answers: np.ndarray  # (T,) of filter_mosaic
    before: np.ndarray  # (T,) codes of replica i before the move
    sites: np.ndarray  # (T,) 0..T-1
    scores: np.ndarray  # (K, 2)
    totals: np.ndarray  # (2 K + 1,)


def make_pair_work(n_columns: int, n_rows: int) -> PairWork:
    return PairWork(
        columns=np.empty((n_columns, 2)),
        edges=np.empty((n_columns, 4)),
        layout=make_layout([2]),
        alpha=np.empty((n_columns, 2)),
        weights=np.empty(2 * n_columns),
        answers=np.empty(n_columns, np.uint8),
        before=np.empty(n_columns, np.int64),
        sites=np.arange(n_columns, dtype=np.int32),  # as other edges: kernels are compiled once
        scores=np.empty((n_rows, 2)),
        totals=np.empty(2 * n_rows + 1),
    )


@njit
def swaps_whole_paths(move, n_rows):
    """Whether the move exchanges whole paths or nothing, so that replicas can be followed along the ladder."""
    return move.kind == SWAP and not move.random_rows and move.order.shape[0] == n_rows


@njit
def choose_rows(move, uniforms):
    """The rows that this move may exchange, in order. Reads ROW_UNIFORMS uniforms if they are random."""
    if not move.random_rows:
        return move.order
    chosen = np.empty_like(move.order)
    count = 0
    digits = uniforms[0]
    for n in range(move.order.shape[0]):
        if n == 32:
            digits = uniforms[1]
        digits = digits * 2.0
        bit = int(digits)
        digits = digits - bit
        if bit:
            chosen[count] = move.order[n]
            count += 1
    return chosen[:count]


@njit
def mask_of(rows):
    mask = 0
    for row in rows:
        mask |= 1 << row
    return mask


@njit
def draw_cuts(n, points, uniforms):
    """Cut points first <= last of 0..n-1: one cut gives 0 and it, two distinct ones are ordered.

    The move exchanges first..last-1; a single cut may be n, so that the full swap is among the moves.
    """
    first = 0
    last = int(uniforms[0] * n) + 1
    if points == 2:
        # Two of the n + 1 boundaries, distinct and unordered.
        first = int(uniforms[0] * (n + 1))
        last = int(uniforms[1] * n)
        if last >= first:
            last += 1
        if last < first:
            first, last = last, first
    return first, last


@njit
def begin_columns(move, mask, uniforms, a, b):
    """The auxiliary draw of the augmented crossover: the pair becomes (u, v)."""
    if move.kind == AUGMENTED:
        n_candidates = a.shape[0] * (2 if move.flipped else 1)
        crossover.apply_crossover(a, b, mask, int(uniforms[0] * n_candidates))


@njit
def finish_columns(move, mask, log_trans_i, log_trans_j, edge, uniforms, a, b, work):
    """Choose and apply, given work.columns."""
    crossover.score_edges(a, b, mask, log_trans_i, log_trans_j, edge, work.edges)
    n_columns = a.shape[0]
    if move.kind == MOSAIC:
        crossover.log_draw_mosaic(work.columns, work.edges, work.layout, work.sites, uniforms, work.alpha, mask, a, b)
        return
    if move.kind == AUGMENTED:
        weights = work.weights[: n_columns * (2 if move.flipped else 1)]
        crossover.crossover_weights(work.columns, work.edges, move.flipped, weights)
        crossover.apply_crossover(a, b, mask, pick_log(weights, uniforms[1]))
        return
    first, last = 0, n_columns
    if move.kind == RANDOM_CROSSOVER:
        first, last = draw_cuts(n_columns, move.points, uniforms)
    if is_accepted(crossover.segment_score(work.columns, work.edges, first, last), uniforms[move.points]):
        crossover.exchange_columns(a, b, mask, first, last)


@njit
def candidate_masks(move, rows, uniforms):
    """Masks of the row sets that a move across rows chooses from; the last is the empty one.

    Augmented: every prefix of `rows`, and with `flipped` every suffix but the whole. Random: the one proposed.
    """
    n_rows = rows.shape[0]
    if move.kind != AUGMENTED:
        first, last = draw_cuts(n_rows, move.points, uniforms)
        masks = np.zeros(2, np.int64)
        masks[0] = mask_of(rows[first:last])
        return masks
    masks = np.zeros(n_rows * (2 if move.flipped else 1) + 1, np.int64)
    for n in range(n_rows):
        masks[n] = mask_of(rows[: n + 1])
        if move.flipped:
            masks[n_rows + n] = mask_of(rows[n + 1 :])
    return masks


@njit
def begin_rows(move, masks, uniforms, a, b):
    if move.kind == AUGMENTED:
        n_candidates = masks.shape[0] - 1
        crossover.exchange_columns(a, b, masks[int(uniforms[0] * n_candidates)], 0, a.shape[0])


@njit
def fields_of(masks, trans):
    """(n,) the bits in a code of the rows in masks of row numbers; for rows of two states these are the masks."""
    fields = np.zeros_like(masks)
    for c in range(masks.shape[0]):
        for k in range(n_axes(trans)):
            if masks[c] >> k & 1:
                fields[c] |= field(trans, k)
    return fields


@njit
def finish_rows(move, rows, masks, log_trans_i, log_trans_j, edge, uniforms, a, b, work):
    """Choose and apply, given in work.totals the likelihood scores of the masks, which are of row numbers."""
    crossover.score_rows(a, b, rows, log_trans_i, log_trans_j, edge, work.scores)
    totals = work.totals[: masks.shape[0]]
    crossover.add_row_scores(work.scores, rows, masks, totals)
    if move.kind == AUGMENTED:
        chosen = pick_log(totals[:-1], uniforms[1])
    elif is_accepted(totals[0] - totals[1], uniforms[move.points]):
        chosen = 0
    else:
        return
    fields = fields_of(masks[chosen : chosen + 1], log_trans_i)
    crossover.exchange_columns(a, b, fields[0], 0, a.shape[0])


@njit
def exchange_pair(move, tables_i, tables_j, beta_i, beta_j, uniforms, a, b, work):
    """The whole move on the tabulated path; returns the number of columns in which replica i changed."""
    rows = choose_rows(move, uniforms)
    if move.random_rows:
        uniforms = uniforms[ROW_UNIFORMS:]
    if rows.shape[0] == 0:
        return 0
    mask = mask_of(rows)
    if move.kind == MOSAIC:
        if crossover.filter_mosaic(a, b, mask, tables_i, tables_j, beta_i, beta_j, uniforms, work.answers):
            return crossover.draw_mosaic(work.answers, mask, a, b)
    for t in range(a.shape[0]):
        work.before[t] = a[t]
    if move.across_rows:
        _exchange_rows(move, rows, tables_i, tables_j, beta_i, beta_j, uniforms, a, b, work)
    else:
        _exchange_columns(move, mask, tables_i, tables_j, beta_i, beta_j, uniforms, a, b, work)
    return crossover.count_changes(work.before, a)


@njit
def _exchange_rows(move, rows, tables_i, tables_j, beta_i, beta_j, uniforms, a, b, work):
    masks = candidate_masks(move, rows, uniforms)
    begin_rows(move, masks, uniforms, a, b)
    crossover.score_masks(a, b, masks, tables_i.log_lik, tables_j.log_lik, beta_i, beta_j, work.totals)
    finish_rows(move, rows, masks, tables_i.log_trans, tables_j.log_trans, tables_i.edge, uniforms, a, b, work)


@njit
def _exchange_columns(move, mask, tables_i, tables_j, beta_i, beta_j, uniforms, a, b, work):
    begin_columns(move, mask, uniforms, a, b)
    crossover.score_columns(a, b, mask, tables_i.log_lik, tables_j.log_lik, beta_i, beta_j, work.columns)
    finish_columns(move, mask, tables_i.log_trans, tables_j.log_trans, tables_i.edge, uniforms, a, b, work)
