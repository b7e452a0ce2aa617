"""Exchange moves between two replicas of rows with any number of states: what `crossover` and `moves` do for bits.

A move masks and flips codes, which is the same for fields of bits; only the scores of transitions look at states. A
mask has all bits of a row or none. Masks of row numbers (bit k is row k) come from `moves`; `fields_of` turns them into
masks of codes. Shapes as in `crossover`.
"""

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.moves import pick_columns, pick_rows


@njit
def fields_of(rows, layout):
    """The bits in a code of the rows in a mask of row numbers."""
    fields = 0
    for k in range(layout.sizes.shape[0]):
        if rows >> k & 1:
            fields |= layout.masks[k] << layout.shifts[k]
    return fields


@njit
def fields_of_all(masks, layout):
    """(n,) the same for several masks."""
    fields = np.empty_like(masks)
    for c in range(masks.shape[0]):
        fields[c] = fields_of(masks[c], layout)
    return fields


@njit
def edge_scores(a_before, b_before, a, b, mask, layout, log_trans_i, log_trans_j, e):
    """The four scores of one edge at 2 * z_before + z, as crossover.edge_table in logarithms."""
    d_before, d = (a_before ^ b_before) & mask, (a ^ b) & mask
    either = d | d_before
    w00 = w01 = w10 = w11 = 0.0
    for k in range(layout.sizes.shape[0]):
        shift, field = layout.shifts[k], layout.masks[k]
        # A row that is exchanged on neither side of the edge scores the same in all four.
        if either >> shift & field:
            x, y = a_before >> shift & field, a >> shift & field
            u, v = b_before >> shift & field, b >> shift & field
            x1, u1 = (u, x) if d_before >> shift & field else (x, u)
            y1, v1 = (v, y) if d >> shift & field else (y, v)
            first, size = layout.first[k], layout.sizes[k]
            w00 += log_trans_i[e, first + x * size + y] + log_trans_j[e, first + u * size + v]
            w01 += log_trans_i[e, first + x * size + y1] + log_trans_j[e, first + u * size + v1]
            w10 += log_trans_i[e, first + x1 * size + y] + log_trans_j[e, first + u1 * size + v]
            w11 += log_trans_i[e, first + x1 * size + y1] + log_trans_j[e, first + u1 * size + v1]
    return w00, w01, w10, w11


@njit
def score_edges(a, b, mask, layout, log_trans_i, log_trans_j, edge, edges):
    """Scores of all edges. Where neither path moves, they are those of the column before."""
    a_before = b_before = 0
    known = -1  # kind of edge for which the scores at hand are those of two paths that stay, -1 if none
    w00 = w01 = w10 = w11 = 0.0
    for t in range(a.shape[0]):
        e = edge[t]
        moves = (a[t] ^ a_before) | (b[t] ^ b_before)
        if moves or e != known:
            w00, w01, w10, w11 = edge_scores(a_before, b_before, a[t], b[t], mask, layout, log_trans_i, log_trans_j, e)
            known = -1 if moves else e
            a_before, b_before = a[t], b[t]
        edges[t, 0, 0] = w00
        edges[t, 0, 1] = w01
        edges[t, 0, 2] = w10
        edges[t, 0, 3] = w11


@njit
def score_rows(a, b, order, layout, log_trans_i, log_trans_j, edge, scores):
    """scores[n, z]: log prior of row order[n] in both replicas, kept (z = 0) or exchanged along all columns (1)."""
    for n in range(order.shape[0]):
        k = order[n]
        shift, field, size, first = layout.shifts[k], layout.masks[k], layout.sizes[k], layout.first[k]
        kept = exchanged = 0.0
        x = y = 0
        for t in range(a.shape[0]):
            e = edge[t]
            x1, y1 = a[t] >> shift & field, b[t] >> shift & field
            move_a, move_b = first + x * size + x1, first + y * size + y1
            kept += log_trans_i[e, move_a] + log_trans_j[e, move_b]
            exchanged += log_trans_i[e, move_b] + log_trans_j[e, move_a]
            x, y = x1, y1
        scores[n, 0] = kept
        scores[n, 1] = exchanged


@njit
def finish_columns(move, mask, layout, log_trans_i, log_trans_j, edge, uniforms, a, b, work):
    """As moves.finish_columns; mask: of codes."""
    score_edges(a, b, mask, layout, log_trans_i, log_trans_j, edge, work.edges)
    pick_columns(move, mask, uniforms, a, b, work)


@njit
def finish_rows(move, rows, masks, layout, log_trans_i, log_trans_j, edge, uniforms, a, b, work):
    """As moves.finish_rows; masks: of row numbers."""
    score_rows(a, b, rows, layout, log_trans_i, log_trans_j, edge, work.scores)
    pick_rows(move, rows, masks, fields_of_all(masks, layout), uniforms, a, b, work)
