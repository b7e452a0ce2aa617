"""Transition probabilities between whole columns: products over rows.

They have one of two forms, and kernels that are written for both take either (`by_form`):

    array (E, K, 4)      all rows have two states: A_k[x, x'] at [e, k, 2 * x + x']
    Matrices             rows with any numbers of states

`log_trans` are logarithms in the same form.
"""

import math
from typing import NamedTuple

import numpy as np

from chiasma._jit import by_form, njit
from chiasma.kernels.layout import Layout

# A linear filter loses a state when its likelihood underflows. That is harmless while every state can be
# re-entered with a probability whose square still dwarfs the smallest double; below this floor, use logarithms.
LINEAR_FLOOR = 1e-120


class Matrices(NamedTuple):
    """table (E, M): A_k[x, x'] at [e, layout.first[k] + x * S_k + x']."""

    table: np.ndarray
    layout: Layout


# ---- What the two forms have in common -------------------------------------------------------------------------------


def _binary_n_axes(trans):
    return trans.shape[1]


def _general_n_axes(trans):
    return trans.layout.sizes.shape[0]


# How many rows there are.
n_axes = by_form(_binary_n_axes, _general_n_axes)


def _binary_field(trans, k):
    return 1 << k


def _general_field(trans, k):
    return trans.layout.masks[k] << trans.layout.shifts[k]


# field(trans, k): the bits of row k in a code.
field = by_form(_binary_field, _general_field)


def _binary_state(trans, k, code):
    return code >> k & 1


def _general_state(trans, k, code):
    return code >> trans.layout.shifts[k] & trans.layout.masks[k]


# state(trans, k, code): that of row k.
state = by_form(_binary_state, _general_state)


def _binary_with_state(trans, k, code, x):
    return code & ~(1 << k) | x << k


def _general_with_state(trans, k, code, x):
    return code & ~(trans.layout.masks[k] << trans.layout.shifts[k]) | x << trans.layout.shifts[k]


# with_state(trans, k, code, x): the code with row k in state x.
with_state = by_form(_binary_with_state, _general_with_state)


def _binary_n_states_of(trans, k):
    return 2


def _general_n_states_of(trans, k):
    return trans.layout.sizes[k]


# n_states_of(trans, k): how many states row k has.
n_states_of = by_form(_binary_n_states_of, _general_n_states_of)


def _binary_translate(trans, code, offset):
    return code ^ offset


def _general_translate(trans, code, offset):
    moved = code
    for k in range(trans.layout.sizes.shape[0]):
        x = state(trans, k, code)
        y = x + state(trans, k, offset)
        if y >= trans.layout.sizes[k]:
            y -= trans.layout.sizes[k]
        moved ^= (x ^ y) << trans.layout.shifts[k]
    return moved


# translate(trans, code, offset): the code whose rows are moved on by their states in `offset`, and around.
translate = by_form(_binary_translate, _general_translate)


def _binary_entry(trans, e, k, x, y):
    return trans[e, k, 2 * x + y]


def _general_entry(trans, e, k, x, y):
    return trans.table[e, trans.layout.first[k] + x * trans.layout.sizes[k] + y]


# entry(trans, e, k, x, y): A_k[x, y] of an edge of kind e.
entry = by_form(_binary_entry, _general_entry)


# ---- Moves of columns ------------------------------------------------------------------------------------------------


@njit
def is_linear(lowest, rows):
    """Whether linear passes over these rows are safe; lowest[k]: smallest transition probability of row k."""
    floor = 1.0
    for row in rows:
        floor *= lowest[row]
    return floor >= LINEAR_FLOOR


@njit
def move(trans, e, a, b):
    """Probability of the move from code a to code b."""
    product = 1.0
    for k in range(n_axes(trans)):
        product *= entry(trans, e, k, state(trans, k, a), state(trans, k, b))
    return product


@njit
def log_move(log_trans, e, a, b):
    """Log-probability of the move from code a to code b."""
    total = 0.0
    for k in range(n_axes(log_trans)):
        total += entry(log_trans, e, k, state(log_trans, k, a), state(log_trans, k, b))
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


def _binary_add_one(counts, e, k, x, y):
    counts[e, k, 2 * x + y] += 1


def _general_add_one(counts, e, k, x, y):
    counts.table[e, counts.layout.first[k] + x * counts.layout.sizes[k] + y] += 1


_add_one = by_form(_binary_add_one, _general_add_one)


@njit
def count_moves(codes, edge, counts):
    """Add to counts, integers in the form of transition probabilities, how often every row made each of its moves.

    Then log p(X) is the sum of counts * log_trans, for any transition probabilities. Column 0 is entered from state 0.
    """
    before = 0
    for t in range(codes.shape[0]):
        code = codes[t]
        for k in range(n_axes(counts)):
            _add_one(counts, edge[t], k, state(counts, k, before), state(counts, k, code))
        before = code


# ---- Whole matrices, a row or a column at a time ---------------------------------------------------------------------


def _binary_stay_products(trans, e, out):
    out[0] = 1.0
    size = 1
    for k in range(trans.shape[1]):
        for s in range(size):
            out[size + s] = out[s] * trans[e, k, 3]
            out[s] *= trans[e, k, 0]
        size *= 2


def _general_stay_products(trans, e, out):
    out[0] = 1.0
    n = 1
    for k in range(trans.layout.sizes.shape[0]):
        size = trans.layout.sizes[k]
        for x in range(size - 1, -1, -1):
            factor = trans.table[e, trans.layout.first[k] + x * (size + 1)]
            for s in range(n):
                out[x * n + s] = out[s] * factor
        n *= size


# stay_products(trans, e, out): out[s] = probability that all rows keep their state, for every index s.
stay_products = by_form(_binary_stay_products, _general_stay_products, inlined=False)


def _binary_into_products(trans, e, code, out):
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


def _general_into_products(trans, e, index, out):
    out[0] = 1.0
    n = 1
    for k in range(trans.layout.sizes.shape[0]):
        size = trans.layout.sizes[k]
        y = index % size
        index //= size
        for x in range(size - 1, -1, -1):
            factor = trans.table[e, trans.layout.first[k] + x * size + y]
            for s in range(n):
                out[x * n + s] = out[s] * factor
        n *= size


# into_products(trans, e, index, out): out[s] = probability of the move s -> index, for every index s.
into_products = by_form(_binary_into_products, _general_into_products, inlined=False)


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
            gone, came = enter[k] * share, leave[k] * share
            if gone > 1.0:  # `min` would be compiled as a function
                gone = 1.0
            if came > 1.0:
                came = 1.0
            trans[e, k, 0] = 1.0 - gone
            trans[e, k, 1] = gone
            trans[e, k, 2] = came
            trans[e, k, 3] = 1.0 - came


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
