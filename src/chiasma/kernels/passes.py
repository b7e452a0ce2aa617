"""Forward filtering-backward sampling, and smoothing, of rows jointly: messages over all their joint states.

Rows move independently, so one step multiplies a message by one matrix per row (`step`): O(S sum_k S_k) and not O(S^2).
One division per state more gives the probability of staying,
P(s_{t-1} = s | s_t = s, y) = message(s) A(s, s) / mixed(s).

alpha (n, S): filtered distributions of columns first..first+n-1, each up to a power of two: against underflow, messages
              are rescaled by exact factors and only when they have shrunk, so that they do not depend on where a pass
              is cut.
stay (n, S):  P(s_{t-1} = s | s_t = s, y), for the edge that enters column t. A draw that begins before the last
              column takes one row more, for the edge that leaves the columns it draws.
trans:        transition probabilities in either form (`transitions`).

Paths are paths of indices (`layout`), which for rows of two states are their codes.
"""

import math

import numpy as np

from chiasma._jit import by_form, njit, vector_njit
from chiasma.kernels.axes import dot as general_dot
from chiasma.kernels.axes import load_step, plan_axes
from chiasma.kernels.axes import make_step as general_make_step
from chiasma.kernels.axes import mix as general_mix
from chiasma.kernels.axes import staying as general_staying
from chiasma.kernels.axes import weigh as general_weigh
from chiasma.kernels.lanes import sum_from
from chiasma.kernels.mixing import (
    EIGHT,
    LOG_RESCALE,
    RESCALE_BELOW,
    RESCALE_BY,
    START,
    divide,
    filter_eight,
    load_edge,
    load_ratios,
    mix,
)
from chiasma.kernels.mixing import dot as binary_dot
from chiasma.kernels.mixing import weigh as weigh_binary
from chiasma.kernels.picking import pick
from chiasma.kernels.step import (
    ahead,
    load,
    load_odds,
    make_step,
    pick_far,
    pick_near,
    row_marginals,
    staying,
)
from chiasma.kernels.transitions import into_products, n_axes, stay_products

# Filtered weights that all paths are drawn through before the next ones: what the first path has read is still in the
# cache for the others. Bounds on the number of columns that this makes.
TILE = 2**16
LONGEST_TILE = 256
SHORTEST_TILE = 16


@njit
def _filter_general(trans, lik, edge, first, message, alpha, stay, scratch):
    n_columns, n_states = lik.shape
    n_kept = alpha.shape[0]
    keep_stay = stay.shape[0] > 0
    flat_lik, flat_alpha, flat_stay = lik.ravel(), alpha.ravel(), stay.ravel()
    plan = plan_axes(trans.layout.sizes)
    matrices = general_make_step(plan)
    diagonal = scratch[2 * n_states :]
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
            load_step(trans.table, e, trans.layout, plan, False, matrices)
            if keep_stay:
                stay_products(trans, e, diagonal)
            loaded = e
        if i == 0:
            here = general_mix(plan, n_states, matrices, message, START, scratch)
            if keep_stay:
                general_staying(n_states, message, START, diagonal, scratch, here, flat_stay, START)
        else:
            row = last + n_states if last + n_states < n_kept * n_states else START
            here = general_mix(plan, n_states, matrices, flat_alpha, last, scratch)
            if keep_stay:
                general_staying(n_states, flat_alpha, last, diagonal, scratch, here, flat_stay, i * n_states)
        total = general_weigh(n_states, scratch, here, scale, flat_lik, i * n_states, flat_alpha, row)
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
def _filter_binary(trans, lik, edge, first, message, alpha, stay, diagonal):
    # Both have bodies of their own: through `step`, a column of 64 codes takes 2.8 times as long.
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
        total = weigh_binary(flat_alpha, row, diagonal, scale, flat_lik, i * n_states)
        last = row
        scale = 1.0
        while 0.0 < total * scale < RESCALE_BELOW:
            scale *= RESCALE_BY
            n_rescaled += 1
    if n_columns > 0:
        for s in range(n_states):
            message[s] = flat_alpha[last + s] * scale
    return math.log(total * scale) - math.log(before) - LOG_RESCALE * n_rescaled


_filter = by_form(_filter_binary, _filter_general, inlined=False)


@njit
def filter_block(lik, trans, edge, first, message, alpha, stay, scratch):
    """Filter columns first..first+n-1 and return their share of the log evidence.

    lik (n, S): likelihoods, each column up to a factor. message (S,) enters as the filtered weights of column first-1
    (anything at column 0) and leaves as those of the last column. alpha may have fewer rows than there are columns:
    they are then used cyclically. `stay` of no rows: do not compute it; scratch as step.make_step takes it.
    """
    return _filter(trans, lik, edge, first, message, alpha, stay, scratch)


@njit
def stay_after(trans, e, message, scratch, out):
    """Stay probabilities of an edge of kind e, given the filtered distribution of the column that it leaves."""
    n_states = message.shape[0]
    step = make_step(trans, n_states, scratch)
    load(trans, step, e, True)
    here = ahead(trans, step, n_states, message, START, out, START)
    staying(trans, step, n_states, message, START, out, here, out, START)


@njit
def draw_blocks(alpha, stay, trans, edge, first, uniforms, indices, weights):
    """Backward sampling of columns first..first+n-1 of several paths into indices (N, T), given indices[:, first + n]
    unless that is the end.

    Reads uniforms[:, t] for column t. Paths are mostly constant: one comparison with the stay probability settles
    most columns. weights (S,) is scratch.
    """
    n_paths, n_columns = indices.shape
    n_states = alpha.shape[1]
    tile = min(max(TILE // n_states, SHORTEST_TILE), LONGEST_TILE)
    flat_alpha = alpha.ravel()
    stop = first + alpha.shape[0]
    if stop == n_columns:
        stop -= 1
        for n in range(n_paths):
            indices[n, stop] = pick(alpha[-1], uniforms[n, stop])
    odds = np.empty((2, n_axes(trans)))
    loaded = -1
    while stop > first:
        start = max(first, stop - tile)
        for n in range(n_paths):
            index = indices[n, stop]
            for t in range(stop - 1, start - 1, -1):
                chance = stay[t + 1 - first, np.uint64(index)]  # unsigned: not checked for counting from the end
                if not uniforms[n, t] < chance:
                    if edge[t + 1] != loaded:
                        loaded = edge[t + 1]
                        load_odds(trans, loaded, odds)
                    uniform = uniforms[n, t]
                    i = t - first
                    near, left = pick_near(trans, odds, flat_alpha, i * n_states, loaded, index, chance, uniform)
                    if near < 0:
                        near = pick_far(trans, odds, alpha, i, loaded, index, chance, uniform, left, weights)
                    index = near
                indices[n, t] = index
        stop = start


@njit
def _draw_general(trans, alpha, edge, uniforms, indices, weights):
    n_columns, n_states = alpha.shape
    flat_alpha = alpha.ravel()
    into, scratch = weights[0, :n_states], weights[1, :n_states]
    odds = np.empty((2, n_axes(trans)))
    index = pick(alpha[-1], uniforms[n_columns - 1])
    indices[n_columns - 1] = index
    known_index = known_edge = -1
    for t in range(n_columns - 2, -1, -1):
        e = edge[t + 1]
        if e != known_edge:
            load_odds(trans, e, odds)
        if index != known_index or e != known_edge:
            into_products(trans, e, index, into)
            known_index, known_edge = index, e
        mass = general_dot(n_states, into, START, flat_alpha, t * n_states)
        # Unsigned: a signed index would be checked for counting from the end.
        weight = into[np.uint64(index)] * flat_alpha[np.uint64(t * n_states + index)]
        if not uniforms[t] * mass < weight:
            chance = weight / mass
            near, left = pick_near(trans, odds, flat_alpha, t * n_states, e, index, chance, uniforms[t])
            if near < 0:
                near = pick_far(trans, odds, alpha, t, e, index, chance, uniforms[t], left, scratch)
            index = near
        indices[t] = index


@njit
def _draw_binary(trans, alpha, edge, uniforms, indices, weights):
    # A body of its own for each form: with `dot` chosen by the form, references to `trans` are counted in every column,
    # and a draw takes 1.8 times as long.
    n_columns, n_states = alpha.shape
    flat_alpha = alpha.ravel()
    into, scratch = weights[0, :n_states], weights[1, :n_states]
    odds = np.empty((2, n_axes(trans)))
    index = pick(alpha[-1], uniforms[n_columns - 1])
    indices[n_columns - 1] = index
    known_index = known_edge = -1
    for t in range(n_columns - 2, -1, -1):
        e = edge[t + 1]
        if e != known_edge:
            load_odds(trans, e, odds)
        if index != known_index or e != known_edge:
            into_products(trans, e, index, into)
            known_index, known_edge = index, e
        mass = binary_dot(n_states, into, START, flat_alpha, t * n_states)
        # Unsigned: a signed index would be checked for counting from the end.
        weight = into[np.uint64(index)] * flat_alpha[np.uint64(t * n_states + index)]
        if not uniforms[t] * mass < weight:
            chance = weight / mass
            near, left = pick_near(trans, odds, flat_alpha, t * n_states, e, index, chance, uniforms[t])
            if near < 0:
                near = pick_far(trans, odds, alpha, t, e, index, chance, uniforms[t], left, scratch)
            index = near
        indices[t] = index


_draw = by_form(_draw_binary, _draw_general, inlined=False)


@njit
def draw_block(alpha, trans, edge, uniforms, indices, weights):
    """Backward sampling of one path of all columns into indices (T,). For a single path, the probability of staying is
    computed for its own state only, by a sum over states, and not for every state by divisions in the filter.

    Reads uniforms[t] for column t. weights (2, S or more) is scratch.
    """
    _draw(trans, alpha, edge, uniforms, indices, weights)


@vector_njit
def normalise(weights):
    mass = 0.0
    for s in range(weights.shape[0]):
        mass += weights[s]
    factor = 1.0 / mass
    for s in range(weights.shape[0]):
        weights[s] *= factor


# Like messages, their arguments are arrays and where in them to begin: references to a slice would be counted.


@vector_njit
def divide_by(divisors, i, weights):
    """weights /= divisors[i:]."""
    for s in range(weights.shape[0]):
        weights[s] /= divisors[i + s]


@vector_njit
def multiply(a, i, b, j, out):
    """out = a[i:] * b[j:]."""
    for s in range(out.shape[0]):
        out[s] = a[i + s] * b[j + s]


@njit
def _smooth_general(trans, alpha, edge, first, gamma, marginals, scratch):
    n_states = gamma.shape[0]
    flat_alpha = alpha.ravel()
    plan = plan_axes(trans.layout.sizes)
    there, back = general_make_step(plan), general_make_step(plan)
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == marginals.shape[0] - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            if edge[t + 1] != loaded:
                loaded = edge[t + 1]
                load_step(trans.table, loaded, trans.layout, plan, False, there)
                load_step(trans.table, loaded, trans.layout, plan, True, back)
            here = general_mix(plan, n_states, there, flat_alpha, i * n_states, scratch)
            divide_by(scratch, here, gamma)
            here = general_mix(plan, n_states, back, gamma, START, scratch)
            multiply(flat_alpha, i * n_states, scratch, here, gamma)
        normalise(gamma)
        row_marginals(trans, gamma, marginals[t], scratch)


@njit
def _smooth_binary(trans, alpha, edge, first, gamma, marginals, scratch):
    # A body of its own: through `step`, references to arrays are counted in every column, which takes longer than a
    # column of eight codes.
    n_states, n_rows = gamma.shape[0], trans.shape[1]
    flat_alpha, flat_marginals = alpha.ravel(), marginals.ravel()
    ratios = np.empty((2, n_rows))
    fall, rise = ratios[0], ratios[1]
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == marginals.shape[0] - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            if edge[t + 1] != loaded:
                loaded = edge[t + 1]
                load_ratios(trans, loaded, ratios)
            # The diagonals of the prediction and of the step backwards cancel.
            mix(flat_alpha, i * n_states, fall, rise, scratch, START)
            divide(n_states, gamma, START, scratch, START, gamma, START)
            mix(gamma, START, rise, fall, gamma, START)
            multiply(flat_alpha, i * n_states, gamma, START, gamma)
        normalise(gamma)
        # Fold the highest row first: O(S).
        half = n_states // 2
        on = sum_from(half, gamma, half)
        for s in range(half):
            scratch[s] = gamma[s] + gamma[half + s]
        place = (2 * t + 2) * n_rows - 2
        flat_marginals[place] = 1.0 - on
        flat_marginals[place + 1] = on
        for _ in range(n_rows - 1):
            half //= 2
            on = sum_from(half, scratch, half)
            for s in range(half):
                scratch[s] += scratch[half + s]
            place -= 2
            flat_marginals[place] = 1.0 - on
            flat_marginals[place + 1] = on


_smooth = by_form(_smooth_binary, _smooth_general, inlined=False)


@njit
def smooth_block(alpha, trans, edge, first, gamma, marginals, scratch):
    """P(x[k, t] = x | y) of columns first..first+n-1, backwards, into marginals (T, sum_k S_k): all states of row 0,
    then those of row 1, and so on.

    gamma (S,) enters as the smoothed distribution of column first+n (ignored at the end) and leaves as that of
    column first. Only filtered distributions are needed:
    gamma_t(s) = alpha_t(s) * sum_s' A(s, s') gamma_{t+1}(s') / predicted_{t+1}(s'). scratch (S,) of rows of two states,
    (2 S,) of others.
    """
    _smooth(trans, alpha, edge, first, gamma, marginals, scratch)
