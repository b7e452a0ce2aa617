"""Forward filtering-backward sampling, and smoothing, of a block of b rows jointly: S = 2^b codes.

A distribution over the codes is seen as a 2x2x...x2 tensor. Rows move independently, so one step multiplies it by one
2x2 matrix per axis (`mixing`): O(b 2^b) and not O(4^b). One division per code more gives the probability of staying,
P(s_{t-1} = s | s_t = s, y) = message(s) / mixed(s).

alpha (n, S): filtered distributions of columns first..first+n-1, each up to a power of two: against underflow, messages
              are rescaled by exact factors and only when they have shrunk, so that they do not depend on where a pass
              is cut.
stay (n, S):  P(s_{t-1} = s | s_t = s, y), for the edge that enters column t. A draw that begins before the last
              column takes one row more, for the edge that leaves the columns it draws.
ratios (2, b): A10 / A00 and A01 / A11 of one kind of edge.
"""

import math

import numpy as np

from chiasma._jit import inlined_njit, njit, vector_njit
from chiasma.kernels.codes import count_bits
from chiasma.kernels.eight import filter_eight
from chiasma.kernels.mixing import (
    EIGHT,
    LOG_RESCALE,
    RESCALE_BELOW,
    RESCALE_BY,
    START,
    divide,
    dot,
    load_edge,
    load_ratios,
    mix,
    weigh,
)
from chiasma.kernels.picking import pick
from chiasma.kernels.transitions import into_products

# Below this the probability of staying is too close to underflow to serve as a normaliser.
TINY_STAY = 1e-250
# Filtered weights that all paths are drawn through before the next ones: what the first path has read is still in the
# cache for the others. Bounds on the number of columns that this makes.
TILE = 2**16
LONGEST_TILE = 256
SHORTEST_TILE = 16


@njit
def filter_block(lik, trans, edge, first, message, alpha, stay, diagonal):
    """Filter columns first..first+n-1 and return their share of the log evidence.

    lik (n, S): likelihoods, each column up to a factor. message (S,) enters as the filtered weights of column first-1
    (anything at column 0) and leaves as those of the last column. alpha may have fewer rows than there are columns:
    they are then used cyclically. `stay` of no rows: do not compute it; diagonal (S,) is scratch.
    """
    n_columns, n_states = lik.shape
    if n_states == EIGHT:
        return filter_eight(lik, trans, edge, first, message, alpha, stay)
    n_kept = alpha.shape[0]
    keep_stay = stay.shape[0] > 0
    ratios = np.empty((2, trans.shape[1]))
    fall, rise = ratios[0], ratios[1]
    flat_lik, flat_alpha, flat_stay = lik.ravel(), alpha.ravel(), stay.ravel()
    before = 0.0
    for s in range(n_states):
        before += message[s]
    total = before
    loaded = -1
    scale = 1.0
    n_rescaled = 0
    last = START
    row = START
    for i in range(n_columns):
        e = edge[first + i]
        if e != loaded:
            load_edge(trans, e, ratios, diagonal)
            loaded = e
        if i == 0:
            mix(message, START, fall, rise, flat_alpha, START)
            if keep_stay:
                divide(n_states, message, START, flat_alpha, START, flat_stay, START)
        else:
            row = last + n_states if last + n_states < n_kept * n_states else START
            mix(flat_alpha, last, fall, rise, flat_alpha, row)
            if keep_stay:
                divide(n_states, flat_alpha, last, flat_alpha, row, flat_stay, i * n_states)
        total = weigh(flat_alpha, row, diagonal, scale, flat_lik, i * n_states)
        last = row
        scale = 1.0
        while 0.0 < total * scale < RESCALE_BELOW:
            scale *= RESCALE_BY
            n_rescaled += 1
    if n_columns > 0:
        for s in range(n_states):
            message[s] = flat_alpha[last + s] * scale
    return math.log(total * scale) - math.log(before) - LOG_RESCALE * n_rescaled


@njit
def stay_after(trans, e, message, diagonal, out):
    """Stay probabilities of an edge of kind e, given the filtered distribution of the column that it leaves."""
    ratios = np.empty((2, trans.shape[1]))
    load_edge(trans, e, ratios, diagonal)
    mix(message, START, ratios[0], ratios[1], out, START)
    divide(out.shape[0], message, START, out, START, out, START)


@inlined_njit
def _pick_neighbour(alpha, first, ratios, code, chance, uniform):
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


@njit
def _pick_farther(alpha, i, trans, e, ratios, code, chance, uniform, left, weights):
    """Go on after `_pick_neighbour` has found nothing: codes two bits away, then every other one; alpha_t = alpha[i].

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


@njit
def draw_blocks(alpha, stay, trans, edge, first, uniforms, codes, weights):
    """Backward sampling of columns first..first+n-1 of several paths into codes (N, T), given codes[:, first + n]
    unless that is the end.

    Reads uniforms[:, t] for column t. Paths are mostly constant: one comparison with the stay probability settles
    most columns. weights (S,) is scratch.
    """
    n_paths, n_columns = codes.shape
    n_states = alpha.shape[1]
    tile = min(max(TILE // n_states, SHORTEST_TILE), LONGEST_TILE)
    flat_alpha = alpha.ravel()
    stop = first + alpha.shape[0]
    if stop == n_columns:
        stop -= 1
        for n in range(n_paths):
            codes[n, stop] = pick(alpha[-1], uniforms[n, stop])
    ratios = np.empty((2, trans.shape[1]))
    loaded = -1
    while stop > first:
        start = max(first, stop - tile)
        for n in range(n_paths):
            code = codes[n, stop]
            for t in range(stop - 1, start - 1, -1):
                chance = stay[t + 1 - first, np.uint64(code)]  # unsigned: not checked for counting from the end
                if not uniforms[n, t] < chance:
                    if edge[t + 1] != loaded:
                        loaded = edge[t + 1]
                        load_ratios(trans, loaded, ratios)
                    uniform = uniforms[n, t]
                    i = t - first
                    near, left = _pick_neighbour(flat_alpha, i * n_states, ratios, code, chance, uniform)
                    if near < 0:
                        near = _pick_farther(alpha, i, trans, loaded, ratios, code, chance, uniform, left, weights)
                    code = near
                codes[n, t] = code
        stop = start


@njit
def draw_block(alpha, trans, edge, uniforms, codes, weights):
    """Backward sampling of one path of all columns into codes (T,). For a single path, the probability of staying is
    computed for its own code only, by a sum over codes, and not for every code by divisions in the filter.

    Reads uniforms[t] for column t. weights (2, S or more) is scratch.
    """
    n_columns, n_states = alpha.shape
    flat_alpha = alpha.ravel()
    into, scratch = weights[0, :n_states], weights[1, :n_states]
    ratios = np.empty((2, trans.shape[1]))
    code = pick(alpha[-1], uniforms[n_columns - 1])
    codes[n_columns - 1] = code
    known_code = known_edge = -1
    for t in range(n_columns - 2, -1, -1):
        e = edge[t + 1]
        if e != known_edge:
            load_ratios(trans, e, ratios)
        if code != known_code or e != known_edge:
            into_products(trans, e, code, into)
            known_code, known_edge = code, e
        mass = dot(n_states, into, START, flat_alpha, t * n_states)
        # Unsigned: a signed index would be checked for counting from the end.
        staying = into[np.uint64(code)] * flat_alpha[np.uint64(t * n_states + code)]
        if not uniforms[t] * mass < staying:
            chance = staying / mass
            near, left = _pick_neighbour(flat_alpha, t * n_states, ratios, code, chance, uniforms[t])
            if near < 0:
                near = _pick_farther(alpha, t, trans, e, ratios, code, chance, uniforms[t], left, scratch)
            code = near
        codes[t] = code


@njit
def row_marginals(weights, out, scratch):
    """out[k] = mass of the codes with bit k set, for weights (S,): fold the highest axis first, O(2^b)."""
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


@vector_njit
def _scale(factor, message):
    for s in range(message.shape[0]):
        message[s] *= factor


@vector_njit
def _multiply(factors, message):
    """message *= factors; returns the sum."""
    total = 0.0
    for s in range(message.shape[0]):
        message[s] *= factors[s]
        total += message[s]
    return total


@njit
def smooth_block(alpha, trans, edge, first, gamma, marginals, predicted, scratch):
    """P(x[k, t] = 1 | y) of columns first..first+n-1, backwards, into marginals (T, b).

    gamma (S,) enters as the smoothed distribution of column first+n (ignored at the end) and leaves as that of
    column first. Only filtered distributions are needed:
    gamma_t(s) = alpha_t(s) * sum_s' A(s, s') gamma_{t+1}(s') / predicted_{t+1}(s').
    """
    n_states = gamma.shape[0]
    n_columns = marginals.shape[0]
    ratios = np.empty((2, trans.shape[1]))
    fall, rise = ratios[0], ratios[1]
    flat_alpha = alpha.ravel()
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == n_columns - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
            _scale(1.0 / gamma.sum(), gamma)
        else:
            e = edge[t + 1]
            if e != loaded:
                load_edge(trans, e, ratios, scratch)
                loaded = e
            # The diagonals of the prediction and of the step backwards cancel.
            mix(flat_alpha, i * n_states, fall, rise, predicted, START)
            divide(n_states, gamma, START, predicted, START, gamma, START)
            mix(gamma, START, rise, fall, gamma, START)
            _scale(1.0 / _multiply(alpha[i], gamma), gamma)
        row_marginals(gamma, marginals[t], predicted)
