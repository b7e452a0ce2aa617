"""The step of a pass: a message times the transition matrices of all rows, one row at a time: O(K S), not O(S^2).

Passes are written once (`passes`). What they do to a column is one of two implementations, chosen by the form of the
transition probabilities (`transitions`): of rows of two states (`mixing`), or of rows with any numbers of states
(`axes`).

A step has numbers of one kind of edge and scratch. Functions take both forms' arguments, and each uses its own:
`source[i:]` is the message before the step; `ahead` leaves it after the step either in out[j:] or in the scratch of the
step, at the place that is returned.
"""

from typing import NamedTuple

import numpy as np

from chiasma._jit import by_form, njit, vector_njit
from chiasma.kernels.axes import (
    load_step,
    plan_axes,
)
from chiasma.kernels.axes import (
    make_step as general_make_step,
)
from chiasma.kernels.axes import (
    mix as general_mix,
)
from chiasma.kernels.axes import (
    staying as general_staying,
)
from chiasma.kernels.codes import count_bits
from chiasma.kernels.mixing import (
    divide,
    load_edge,
    load_ratios,
)
from chiasma.kernels.mixing import (
    mix as binary_mix,
)
from chiasma.kernels.picking import pick
from chiasma.kernels.transitions import into_products, stay_products

# Below this the probability of staying is too close to underflow to serve as a normaliser.
TINY_STAY = 1e-250


class BinaryStep(NamedTuple):
    """Rows of two states, with the diagonals of their matrices taken out (`mixing`)."""

    ratios: np.ndarray  # (2, K)
    fall: np.ndarray  # (K,) ratios[0]
    rise: np.ndarray  # (K,) ratios[1]
    diagonal: np.ndarray  # (S,)


class GeneralStep(NamedTuple):
    """Rows with any numbers of states, some of them taken together (`axes`)."""

    axes: np.ndarray
    matrices: np.ndarray
    mixed: np.ndarray  # (2 S,) or more
    diagonal: np.ndarray  # (S,)


def _binary_make(trans, n_states, scratch):
    ratios = np.empty((2, trans.shape[1]))
    return BinaryStep(ratios, ratios[0], ratios[1], scratch)


def _general_make(trans, n_states, scratch):
    plan = plan_axes(trans.layout.sizes)
    return GeneralStep(plan, general_make_step(plan), scratch, scratch[2 * n_states :])


# make_step(trans, n_states, scratch): scratch (S,) of rows of two states, (3 S,) of others.
make_step = by_form(_binary_make, _general_make)


def _binary_load(trans, step, e, keep_stay):
    load_edge(trans, e, step.ratios, step.diagonal)


def _general_load(trans, step, e, keep_stay):
    load_step(trans.table, e, trans.layout, step.axes, False, step.matrices)
    if keep_stay:
        stay_products(trans, e, step.diagonal)


# load(trans, step, e, keep_stay): the numbers of an edge of kind e.
load = by_form(_binary_load, _general_load)


def _binary_ahead(trans, step, n_states, source, i, out, j):
    binary_mix(source, i, step.fall, step.rise, out, j)
    return j


def _general_ahead(trans, step, n_states, source, i, out, j):
    return general_mix(step.axes, n_states, step.matrices, source, i, step.mixed)


ahead = by_form(_binary_ahead, _general_ahead)


def _binary_staying(trans, step, n_states, source, i, out, here, stay, t):
    divide(n_states, source, i, out, here, stay, t)


def _general_staying(trans, step, n_states, source, i, out, here, stay, t):
    general_staying(n_states, source, i, step.diagonal, step.mixed, here, stay, t)


# staying(...): stay[t:] = P(s_{t-1} = s | s_t = s, y), from the message before the step and what `ahead` has left.
staying = by_form(_binary_staying, _general_staying)


def _binary_load_odds(trans, e, odds):
    load_ratios(trans, e, odds)


def _general_load_odds(trans, e, odds):
    pass


# load_odds(trans, e, odds): what `pick_near` needs of a kind of edge, into odds (2, K).
load_odds = by_form(_binary_load_odds, _general_load_odds)


def _binary_pick_near(trans, ratios, alpha, first, e, code, chance, uniform):
    """Draw s_t given s_{t+1} = code and s_t != code if it is a code one bit away, else -1; alpha_t = alpha[first:].

    chance = P(s_t = code), and the uniform is not below it. Also returns what the codes that were tried have left of
    the uniform. Nearly all draws end here.

    Inlined and with a single return: a call, like an early return, costs reference counting of its arrays, which takes
    longer than the draw.
    """
    near = -1
    k = 0
    left = uniform - chance
    # The normaliser is known from `chance`: weights are measured by that of `code`.
    per_weight = chance / alpha[np.uint64(first + code)] if chance > TINY_STAY else 0.0
    while near < 0 and k < ratios.shape[1]:
        weight = alpha[np.uint64(first + (code ^ (1 << k)))] * (ratios[np.uint64(code >> k & 1), k] * per_weight)
        left -= weight
        if left < 0.0 < weight:
            near = code ^ (1 << k)
        k += 1
    return near, left


def _general_pick_near(trans, ratios, alpha, place, e, index, chance, uniform):
    """The index drawn if it is one in which a single row differs, else -1; alpha_t = alpha[place:].

    chance = P(s_t = index), which the uniform is not below, gives the normaliser. Nearly all changes end here; inlined
    and with a single way out for the reasons that `_binary_pick_near` gives.
    """
    sizes, strides, firsts = trans.layout.sizes, trans.layout.strides, trans.layout.first
    table = trans.table
    near = -1
    k = 0
    rest = index
    left = uniform - chance
    per_weight = chance / alpha[np.uint64(place + index)] if chance > TINY_STAY else 0.0
    while near < 0 and k < sizes.shape[0]:
        size = sizes[k]
        x = rest % size
        rest //= size
        into = firsts[k] + x
        per_row = per_weight / table[e, np.uint64(into + x * size)]
        y = 0
        while near < 0 and y < size:
            other = index + (y - x) * strides[k]
            weight = alpha[np.uint64(place + other)] * (table[e, np.uint64(into + y * size)] * per_row)
            if y != x:
                left -= weight
                if left < 0.0 < weight:
                    near = other
            y += 1
        k += 1
    return near, left


# pick_near(trans, odds, flat_alpha, place, e, s, chance, uniform): s_t given s_{t+1} = s and s_t != s if it is a state
# in which a single row differs, else -1; and what is left of the uniform. chance = P(s_t = s).
pick_near = by_form(_binary_pick_near, _general_pick_near)


def _binary_pick_far(trans, ratios, alpha, i, e, code, chance, uniform, left, weights):
    """Go on after `_binary_pick_near` has found nothing: codes two bits away, then every other one; alpha_t = alpha[i].

    Where staying is all but impossible it cannot serve as the normaliser, and the draw is a plain one from all codes.
    """
    if chance <= TINY_STAY:
        into_products(trans, e, code, weights)
        for s in range(weights.shape[0]):
            weights[s] *= alpha[i, s]
        return pick(weights, uniform)
    # The last code with a weight is the draw if rounding leaves something of the uniform at the very end.
    last = code
    for k in range(ratios.shape[1]):
        if alpha[i, np.uint64(code ^ (1 << k))] * ratios[code >> k & 1, k] > 0.0:
            last = code ^ (1 << k)
    per_weight = chance / alpha[i, code]
    for k in range(1, ratios.shape[1]):
        step = ratios[code >> k & 1, k] * per_weight
        for j in range(k):
            near = code ^ (1 << k) ^ (1 << j)
            weight = alpha[i, np.uint64(near)] * (ratios[code >> j & 1, j] * step)
            left -= weight
            if weight > 0.0:
                last = near
            if left < 0.0:
                return last
    into_products(trans, e, code, weights)
    per_weight /= weights[code]
    for s in range(weights.shape[0]):
        if weights[s] * alpha[i, s] > 0.0 and count_bits(s ^ code) > 2:
            last = s
            left -= weights[s] * alpha[i, s] * per_weight
            if left < 0.0:
                return s
    return last


def _general_pick_far(trans, ratios, alpha, i, e, index, chance, uniform, left, weights):
    """Draw s_t from alpha_t = alpha[i], given s_{t+1} = index, by a uniform that is not below P(s_t = index) = chance.

    `_general_pick_near` has not found it, so that it is one of the others, in their order: O(N). If the chance is too
    small to serve as a normaliser, all indices in their order.
    """
    n_states = weights.shape[0]
    into_products(trans, e, index, weights)
    for s in range(n_states):
        weights[s] *= alpha[i, s]
    if not chance > TINY_STAY:
        return pick(weights, uniform)
    per_weight = chance / weights[index]
    left = uniform - chance
    last = index
    weights[index] = 0.0
    for k in range(trans.layout.sizes.shape[0]):
        stride = trans.layout.strides[k]
        lowest = index - index // stride % trans.layout.sizes[k] * stride
        for s in range(lowest, lowest + trans.layout.sizes[k] * stride, stride):
            if weights[s] > 0.0:
                last = s
            left -= weights[s] * per_weight
            weights[s] = 0.0
    for s in range(n_states):
        if weights[s] > 0.0:
            last = s
            left -= weights[s] * per_weight
            if left < 0.0:
                return s
    return last  # rounding left the uniform at the very end


# pick_far(trans, odds, alpha, i, e, s, chance, uniform, left, weights): the draw among the others.
pick_far = by_form(_binary_pick_far, _general_pick_far, inlined=False)


# ---- Marginals ------------------------------------------------------------------------------------------------------


@njit
def masses_on(weights, out, scratch):
    """out[k] = mass of the codes with bit k set, for weights (S,): fold the highest row first, O(S)."""
    n_states = weights.shape[0]
    for s in range(n_states):
        scratch[s] = weights[s]
    half = n_states // 2
    for k in range(out.shape[0] - 1, -1, -1):
        mass = 0.0
        for s in range(half):
            mass += scratch[half + s]
            scratch[s] += scratch[half + s]
        out[k] = mass
        half //= 2


def _binary_marginals(trans, weights, out, scratch):
    n_rows = trans.shape[1]
    masses_on(weights, out[:n_rows], scratch)
    for k in range(n_rows - 1, -1, -1):  # in place: from the highest row
        on = out[k]
        out[2 * k] = 1.0 - on
        out[2 * k + 1] = on


def _general_marginals(trans, weights, out, scratch):
    sizes = trans.layout.sizes
    n_states = weights.shape[0]
    for s in range(n_states):
        scratch[s] = weights[s]
    place = out.shape[0]
    for k in range(sizes.shape[0] - 1, -1, -1):
        size = sizes[k]
        n_states //= size
        place -= size
        lowest = scratch[:n_states]
        out[place] = _sum(lowest)
        for x in range(1, size):
            part = scratch[x * n_states : (x + 1) * n_states]
            out[place + x] = _sum(part)
            _add(part, lowest)


@vector_njit
def _sum(weights):
    mass = 0.0
    for s in range(weights.shape[0]):
        mass += weights[s]
    return mass


@vector_njit
def _add(values, out):
    for s in range(out.shape[0]):
        out[s] += values[s]


# row_marginals(trans, weights, out, scratch): the probability of every state of every row, one row after the other,
# into out (sum_k S_k,), for weights (S,) that add up to 1. Folds the highest row first: O(S). scratch (S,).
row_marginals = by_form(_binary_marginals, _general_marginals, inlined=False)
