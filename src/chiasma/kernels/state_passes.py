"""The passes of `tensor` for rows with any numbers of states: messages over N = prod_k S_k indices (see `layout`).

Rows move independently, so one step multiplies a message by one matrix per axis (`axes`): O(N sum_k S_k), not O(N^2).

alpha (n, N): filtered distributions of columns first..first+n-1, each up to a power of two: messages are rescaled by
              exact factors and only when they have shrunk, so that they do not depend on where a pass is cut.
stay (n, N):  P(s_{t-1} = s | s_t = s, y), for the edge that enters column t. A draw that begins before the last
              column takes one row more, for the edge that leaves the columns it draws.
trans (E, M): transition probabilities as `Layout.first` says.

Paths are paths of indices; `layout.codes_of_indices` makes codes of them.
"""

import math

import numpy as np

from chiasma._jit import inlined_njit, njit, vector_njit
from chiasma.kernels.axes import dot, into_products, load_step, make_step, mix, plan_axes, stay_products, staying, weigh
from chiasma.kernels.mixing import LOG_RESCALE, RESCALE_BELOW, RESCALE_BY, START
from chiasma.kernels.picking import pick
from chiasma.kernels.tensor import LONGEST_TILE, SHORTEST_TILE, TILE, TINY_STAY


@njit
def filter_block(lik, trans, layout, edge, first, message, alpha, stay, scratch):
    """Filter columns first..first+n-1 and return their share of the log evidence.

    lik (n, N): likelihoods, each column up to a factor. message (N,) enters as the filtered weights of column first-1
    (anything at column 0) and leaves as those of the last column. alpha may have fewer rows than there are columns:
    they are then used in turn. `stay` of no rows means that it is not wanted. scratch (3, N).
    """
    n_columns, n_states = lik.shape
    n_kept = alpha.shape[0]
    keep_stay = stay.shape[0] > 0
    flat_lik, flat_alpha, flat_stay = lik.ravel(), alpha.ravel(), stay.ravel()
    mixed, diagonal = scratch[:2].ravel(), scratch[2]
    axes = plan_axes(layout.sizes)
    step = make_step(axes)
    before = 0.0
    for s in range(n_states):
        before += message[s]
    total = before
    loaded = -1
    scale = 1.0
    n_rescaled = 0
    row = START
    for i in range(n_columns):
        e = edge[first + i]
        if e != loaded:
            load_step(trans, e, layout, axes, False, step)
            if keep_stay:
                stay_products(trans, e, layout, diagonal)
            loaded = e
        here = mix(axes, n_states, step, message, START, mixed)
        if keep_stay:
            staying(n_states, message, diagonal, mixed, here, flat_stay, i * n_states)
        total = weigh(n_states, mixed, here, scale, flat_lik, i * n_states, message, flat_alpha, row)
        row = row + n_states if row + n_states < n_kept * n_states else START
        scale = 1.0
        while 0.0 < total * scale < RESCALE_BELOW:
            scale *= RESCALE_BY
            n_rescaled += 1
    for s in range(n_states):
        message[s] *= scale
    return math.log(total * scale) - math.log(before) - LOG_RESCALE * n_rescaled


@njit
def stay_after(trans, e, layout, message, out, scratch):
    """Stay probabilities of an edge of kind e, given the filtered distribution of the column that it leaves.

    out (N,); scratch (3, N).
    """
    n_states = message.shape[0]
    mixed, diagonal = scratch[:2].ravel(), scratch[2]
    axes = plan_axes(layout.sizes)
    step = make_step(axes)
    load_step(trans, e, layout, axes, False, step)
    stay_products(trans, e, layout, diagonal)
    here = mix(axes, n_states, step, message, START, mixed)
    staying(n_states, message, diagonal, mixed, here, out, START)


@inlined_njit
def _pick_near(alpha, place, trans, e, sizes, strides, firsts, index, chance, uniform):
    """The index drawn if it is one in which a single row differs, else -1; alpha_t = alpha[place:].

    chance = P(s_t = index), which the uniform is not below, gives the normaliser. Nearly all changes end here; inlined
    and with a single way out for the reasons that `tensor._pick_near` gives.
    """
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
        per_row = per_weight / trans[e, np.uint64(into + x * size)]
        y = 0
        while near < 0 and y < size:
            other = index + (y - x) * strides[k]
            weight = alpha[np.uint64(place + other)] * (trans[e, np.uint64(into + y * size)] * per_row)
            if y != x:
                left -= weight
                if left < 0.0 < weight:
                    near = other
            y += 1
        k += 1
    return near


@njit
def _pick_far(alpha, i, trans, e, layout, index, chance, uniform, weights):
    """Draw s_t from alpha_t = alpha[i], given s_{t+1} = index, by a uniform that is not below P(s_t = index) = chance.

    `_pick_near` has not found it, so that it is one of the others, in their order: O(N). Where the chance is too small
    to serve as a normaliser, all indices in their order.
    """
    n_states = weights.shape[0]
    into_products(trans, e, layout, index, weights)
    for s in range(n_states):
        weights[s] *= alpha[i, s]
    if not chance > TINY_STAY:
        return pick(weights, uniform)
    per_weight = chance / weights[index]
    left = uniform - chance
    last = index
    weights[index] = 0.0
    for k in range(layout.sizes.shape[0]):
        stride = layout.strides[k]
        lowest = index - index // stride % layout.sizes[k] * stride
        for s in range(lowest, lowest + layout.sizes[k] * stride, stride):
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


@njit
def draw_blocks(alpha, stay, trans, layout, edge, first, uniforms, indices, weights):
    """Draw columns first..first+n-1 of several paths backwards into indices (n_paths, T), given
    indices[:, first + n] unless that is the end.

    Reads uniforms[:, t] for column t. Paths are mostly constant: one comparison with the stay probability settles
    most columns. weights (N,) is scratch.
    """
    n_paths, n_columns = indices.shape
    n_states = alpha.shape[1]
    tile = min(max(TILE // n_states, SHORTEST_TILE), LONGEST_TILE)
    flat_alpha = alpha.ravel()
    sizes, strides, firsts = layout.sizes, layout.strides, layout.first
    stop = first + alpha.shape[0]
    if stop == n_columns:
        stop -= 1
        for n in range(n_paths):
            indices[n, stop] = pick(alpha[-1], uniforms[n, stop])
    while stop > first:
        start = max(first, stop - tile)
        for n in range(n_paths):
            index = indices[n, stop]
            for t in range(stop - 1, start - 1, -1):
                chance = stay[t + 1 - first, np.uint64(index)]  # unsigned: not checked for counting from the end
                if not uniforms[n, t] < chance:
                    e = edge[t + 1]
                    place = (t - first) * n_states
                    near = _pick_near(
                        flat_alpha, place, trans, e, sizes, strides, firsts, index, chance, uniforms[n, t]
                    )
                    if near < 0:
                        near = _pick_far(alpha, t - first, trans, e, layout, index, chance, uniforms[n, t], weights)
                    index = near
                indices[n, t] = index
        stop = start


@njit
def draw_block(alpha, trans, layout, edge, uniforms, indices, weights):
    """Draw one path of all columns into indices (T,): for a single one it does not pay to divide for the stay
    probabilities of every index, as that of the index at hand takes a sum.

    Reads uniforms[t] for column t. weights (2, N) is scratch.
    """
    n_columns, n_states = alpha.shape
    flat_alpha = alpha.ravel()
    into, scratch = weights[0], weights[1]
    sizes, strides, firsts = layout.sizes, layout.strides, layout.first
    index = pick(alpha[-1], uniforms[n_columns - 1])
    indices[n_columns - 1] = index
    known_index = known_edge = -1
    for t in range(n_columns - 2, -1, -1):
        e = edge[t + 1]
        if index != known_index or e != known_edge:
            into_products(trans, e, layout, index, into)
            known_index, known_edge = index, e
        place = t * n_states
        mass = dot(n_states, into, START, flat_alpha, place)
        weight = into[np.uint64(index)] * flat_alpha[np.uint64(place + index)]
        if not uniforms[t] * mass < weight:
            chance = weight / mass
            near = _pick_near(flat_alpha, place, trans, e, sizes, strides, firsts, index, chance, uniforms[t])
            if near < 0:
                near = _pick_far(alpha, t, trans, e, layout, index, chance, uniforms[t], scratch)
            index = near
        indices[t] = index


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


@njit
def row_marginals(weights, sizes, out, scratch):
    """Mass of every state of every row, one row after the other, into out (sum_k S_k,), for weights (N,).

    Folds the highest axis first: O(N).
    """
    scratch[:] = weights
    n_states = weights.shape[0]
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
def normalise(weights):
    mass = 0.0
    for s in range(weights.shape[0]):
        mass += weights[s]
    factor = 1.0 / mass
    for s in range(weights.shape[0]):
        weights[s] *= factor


@vector_njit
def divide_by(divisors, weights):
    for s in range(weights.shape[0]):
        weights[s] /= divisors[s]


@vector_njit
def multiply(a, b, out):
    for s in range(out.shape[0]):
        out[s] = a[s] * b[s]


@njit
def smooth_block(alpha, trans, layout, edge, first, gamma, marginals, scratch):
    """P(x[k, t] = x | y) of columns first..first+n-1, backwards, into marginals (T, sum_k S_k): all states of row 0,
    then those of row 1, and so on.

    gamma (N,) enters as the smoothed distribution of column first+n (ignored at the end) and leaves as that of
    column first. Only filtered distributions are needed:
    gamma_t(s) = alpha_t(s) * sum_s' A(s, s') gamma_{t+1}(s') / predicted_{t+1}(s'). scratch (2, N).
    """
    n_states = gamma.shape[0]
    flat_alpha, mixed = alpha.ravel(), scratch.ravel()
    axes = plan_axes(layout.sizes)
    ahead, back = make_step(axes), make_step(axes)
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == marginals.shape[0] - 1:
            gamma[:] = alpha[i]
        else:
            if edge[t + 1] != loaded:
                loaded = edge[t + 1]
                load_step(trans, loaded, layout, axes, False, ahead)
                load_step(trans, loaded, layout, axes, True, back)
            here = mix(axes, n_states, ahead, flat_alpha, i * n_states, mixed)
            divide_by(mixed[here : here + n_states], gamma)
            here = mix(axes, n_states, back, gamma, START, mixed)
            multiply(alpha[i], mixed[here : here + n_states], gamma)
        normalise(gamma)
        row_marginals(gamma, layout.sizes, marginals[t], scratch[0])
