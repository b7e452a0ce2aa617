"""Joint passes over a block of b rows whose states fit one tensor: S = 2^b.

A distribution over the codes is seen as a 2x2x...x2 tensor. Rows move independently, so one step multiplies it by one
2x2 matrix per axis: O(b 2^b) and not O(4^b). With the probabilities of staying taken out of each matrix,

    zero' = A00 (zero + one * A10 / A00)        one' = A11 (one + zero * A01 / A11),

an axis costs one multiply-add per code. `mix` does these; what was taken out, the product over rows of A00 or A11, is
the `diagonal`. Mixed messages also give P(s_{t-1} = s | s_t = s, y) = message(s) / mixed(s) for nothing.

alpha (n, S): filtered distributions of columns first..first+n-1, each up to a power of two: messages are rescaled by
              exact factors and only when they have shrunk, so that they do not depend on where a pass is cut.
stay (n, S):  P(s_{t-1} = s | s_t = s, y), for the edge that enters column t. A draw that begins before the last
              column takes one row more, for the edge that leaves the columns it draws.
ratios (2, b): A10 / A00 and A01 / A11 of one kind of edge.
"""

import math

import numpy as np

from chiasma._jit import njit, vector_njit
from chiasma.kernels.codes import count_bits
from chiasma.kernels.transitions import into_products, stay_products

# Below this the stay probability is too close to underflow to serve as a normaliser.
TINY_STAY = 1e-250
RESCALE_BELOW = 2.0**-32
RESCALE_BY = 2.0**32
LOG_RESCALE = 32 * math.log(2.0)


@vector_njit
def _mix_axis(message, stride, fall, rise):
    for base in range(0, message.shape[0], 2 * stride):
        zero = message[base : base + stride]
        one = message[base + stride : base + 2 * stride]
        for i in range(stride):
            u = zero[i]
            v = one[i]
            zero[i] = u + v * fall
            one[i] = v + u * rise


@vector_njit
def _mix_two_axes(message, stride, fall_a, rise_a, fall_b, rise_b):
    """Two neighbouring axes at once: half the traffic."""
    for base in range(0, message.shape[0], 4 * stride):
        x0 = message[base : base + stride]
        x1 = message[base + stride : base + 2 * stride]
        x2 = message[base + 2 * stride : base + 3 * stride]
        x3 = message[base + 3 * stride : base + 4 * stride]
        for i in range(stride):
            u0, u1 = x0[i] + x1[i] * fall_a, x1[i] + x0[i] * rise_a
            u2, u3 = x2[i] + x3[i] * fall_a, x3[i] + x2[i] * rise_a
            x0[i] = u0 + u2 * fall_b
            x1[i] = u1 + u3 * fall_b
            x2[i] = u2 + u0 * rise_b
            x3[i] = u3 + u1 * rise_b


@vector_njit
def _mix_eight(x0, x1, x2, x3, x4, x5, x6, x7, fall_a, rise_a, fall_b, rise_b, fall_c, rise_c):
    u0, u1 = x0 + x1 * fall_a, x1 + x0 * rise_a
    u2, u3 = x2 + x3 * fall_a, x3 + x2 * rise_a
    u4, u5 = x4 + x5 * fall_a, x5 + x4 * rise_a
    u6, u7 = x6 + x7 * fall_a, x7 + x6 * rise_a
    v0, v2 = u0 + u2 * fall_b, u2 + u0 * rise_b
    v1, v3 = u1 + u3 * fall_b, u3 + u1 * rise_b
    v4, v6 = u4 + u6 * fall_b, u6 + u4 * rise_b
    v5, v7 = u5 + u7 * fall_b, u7 + u5 * rise_b
    return (
        v0 + v4 * fall_c,
        v1 + v5 * fall_c,
        v2 + v6 * fall_c,
        v3 + v7 * fall_c,
        v4 + v0 * rise_c,
        v5 + v1 * rise_c,
        v6 + v2 * rise_c,
        v7 + v3 * rise_c,
    )


@vector_njit
def _mix_low_axes(message, fall, rise, out):
    """Axes 0, 1 and 2 together: eight neighbours are loaded once, where strides of 1, 2 and 4 would not vectorise."""
    a, b, c, d, e, f = fall[0], rise[0], fall[1], rise[1], fall[2], rise[2]
    for base in range(0, message.shape[0], 8):
        x = message[base : base + 8]
        y = out[base : base + 8]
        y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7] = _mix_eight(
            x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], a, b, c, d, e, f
        )


@vector_njit
def _mix_middle_axes(message, fall, rise):
    """Axes 3, 4 and 5 together, in place. All offsets are constants, so nothing has to be checked for overlap."""
    a, b, c, d, e, f = fall[3], rise[3], fall[4], rise[4], fall[5], rise[5]
    for base in range(0, message.shape[0], 64):
        x = message[base : base + 64]
        for i in range(8):
            x[i], x[8 + i], x[16 + i], x[24 + i], x[32 + i], x[40 + i], x[48 + i], x[56 + i] = _mix_eight(
                x[i], x[8 + i], x[16 + i], x[24 + i], x[32 + i], x[40 + i], x[48 + i], x[56 + i], a, b, c, d, e, f
            )


@njit
def mix(message, fall, rise, out):
    """out = message after all axes; fall and rise exchanged look back. They may be one array."""
    n_rows = fall.shape[0]
    if n_rows >= 3:
        _mix_low_axes(message, fall, rise, out)
        k = 3
    else:
        for s in range(message.shape[0]):
            out[s] = message[s]
        k = 0
    if n_rows >= 6:
        _mix_middle_axes(out, fall, rise)
        k = 6
    while k + 1 < n_rows and k > 3:
        _mix_two_axes(out, 1 << k, fall[k], rise[k], fall[k + 1], rise[k + 1])
        k += 2
    while k < n_rows:
        _mix_axis(out, 1 << k, fall[k], rise[k])
        k += 1


@njit
def load_ratios(trans, e, ratios):
    for k in range(trans.shape[1]):
        ratios[0, k] = trans[e, k, 2] / trans[e, k, 0]
        ratios[1, k] = trans[e, k, 1] / trans[e, k, 3]


@njit
def load_edge(trans, e, ratios, diagonal):
    """What `mix` needs of one kind of edge, and what it leaves out."""
    load_ratios(trans, e, ratios)
    stay_products(trans, e, diagonal)


@vector_njit
def weigh(mixed, diagonal, scale, lik):
    """mixed *= diagonal * scale * lik; returns the sum."""
    total = 0.0
    for s in range(mixed.shape[0]):
        mixed[s] *= diagonal[s] * scale * lik[s]
        total += mixed[s]
    return total


@vector_njit
def divide(before, mixed, out):
    for s in range(out.shape[0]):
        out[s] = before[s] / mixed[s]


@njit
def filter_block(lik, trans, edge, first, message, alpha, stay, diagonal):
    """Filter columns first..first+n-1 and return their share of the log evidence.

    lik (n, S): likelihoods, each column up to a factor. message (S,) enters as the filtered weights of column first-1
    (anything at column 0) and leaves as those of the last column. alpha may have fewer rows than there are columns:
    they are then used in turn. `stay` of no rows means that it is not wanted; diagonal (S,) is scratch.
    """
    n_columns, n_states = lik.shape
    n_kept = alpha.shape[0]
    keep_stay = stay.shape[0] > 0
    ratios = np.empty((2, trans.shape[1]))
    before = 0.0
    for s in range(n_states):
        before += message[s]
    total = before
    loaded = -1
    scale = 1.0
    n_rescaled = 0
    for i in range(n_columns):
        e = edge[first + i]
        if e != loaded:
            load_edge(trans, e, ratios, diagonal)
            loaded = e
        row = alpha[i % n_kept]
        source = message if i == 0 else alpha[(i - 1) % n_kept]
        mix(source, ratios[0], ratios[1], row)
        if keep_stay:
            divide(source, row, stay[i])
        total = weigh(row, diagonal, scale, lik[i])
        scale = 1.0
        while 0.0 < total * scale < RESCALE_BELOW:
            scale *= RESCALE_BY
            n_rescaled += 1
    if n_columns > 0:
        for s in range(n_states):
            message[s] = alpha[(n_columns - 1) % n_kept, s] * scale
    return math.log(total * scale) - math.log(before) - LOG_RESCALE * n_rescaled


@njit
def stay_after(trans, e, message, diagonal, out):
    """Stay probabilities of an edge of kind e, given the filtered distribution of the column that it leaves."""
    ratios = np.empty((2, trans.shape[1]))
    load_edge(trans, e, ratios, diagonal)
    mix(message, ratios[0], ratios[1], out)
    divide(message, out, out)


@njit
def pick(weights, uniform):
    """Index drawn in proportion to weights (S,), by inversion of one uniform."""
    total = 0.0
    for s in range(weights.shape[0]):
        total += weights[s]
    target = uniform * total
    cumulative = 0.0
    last = 0
    for s in range(weights.shape[0]):
        if weights[s] > 0.0:
            cumulative += weights[s]
            last = s
            if target < cumulative:
                return s
    return last  # rounding left the target at the very end


@njit
def _pick_before(alpha, trans, e, code, uniform, weights):
    """Draw s_t given s_{t+1} = code from all of alpha_t: the plain O(2^b) step."""
    into_products(trans, e, code, weights)
    for s in range(weights.shape[0]):
        weights[s] *= alpha[s]
    return pick(weights, uniform)


@njit
def _pick_elsewhere(alpha, trans, e, ratios, code, chance, left, weights):
    """Draw s_t given s_{t+1} = code and s_t != code; chance = P(s_t = code), left = the uniform less chance.

    The normaliser is known from `chance`, so the codes one bit away are tried first, then those two bits away, and
    every other one only if none of them takes the draw.
    """
    n_rows = ratios.shape[1]
    per_weight = chance / alpha[code]
    last = code
    # All of them are far apart in memory: asked for together, they arrive together.
    for k in range(n_rows):
        weights[k] = alpha[code ^ (1 << k)] * (ratios[code >> k & 1, k] * per_weight)
    for k in range(n_rows):
        left -= weights[k]
        if weights[k] > 0.0:
            last = code ^ (1 << k)
        if left < 0.0:
            return last
    for k in range(1, n_rows):
        step = ratios[code >> k & 1, k] * per_weight
        for j in range(k):
            near = code ^ (1 << k) ^ (1 << j)
            weight = alpha[near] * (ratios[code >> j & 1, j] * step)
            left -= weight
            if weight > 0.0:
                last = near
            if left < 0.0:
                return last
    into_products(trans, e, code, weights)
    per_weight /= weights[code]
    for s in range(weights.shape[0]):
        if weights[s] * alpha[s] > 0.0 and count_bits(s ^ code) > 2:
            last = s
            left -= weights[s] * alpha[s] * per_weight
            if left < 0.0:
                return s
    return last


@njit
def draw_block(alpha, stay, trans, edge, first, uniforms, codes, weights):
    """Draw columns first..first+n-1 backwards into codes (T,), given codes[first + n] unless that is the end.

    Reads uniforms[t] for column t. Paths are mostly constant: one comparison with the stay probability settles
    most columns. weights (S,) is scratch.
    """
    stop = first + alpha.shape[0]
    if stop == codes.shape[0]:
        stop -= 1
        codes[stop] = pick(alpha[-1], uniforms[stop])
    ratios = np.empty((2, trans.shape[1]))
    loaded = -1
    code = codes[stop]
    for t in range(stop - 1, first - 1, -1):
        chance = stay[t + 1 - first, np.uint64(code)]  # unsigned: not checked for counting from the end
        if not uniforms[t] < chance:
            e = edge[t + 1]
            row = alpha[t - first]
            if chance > TINY_STAY:
                if e != loaded:
                    load_ratios(trans, e, ratios)
                    loaded = e
                code = _pick_elsewhere(row, trans, e, ratios, code, chance, uniforms[t] - chance, weights)
            else:
                code = _pick_before(row, trans, e, code, uniforms[t], weights)
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
            # The diagonal of the prediction and the one of the way back cancel.
            mix(alpha[i], ratios[0], ratios[1], predicted)
            divide(gamma, predicted, gamma)
            mix(gamma, ratios[1], ratios[0], gamma)
            _scale(1.0 / _multiply(alpha[i], gamma), gamma)
        row_marginals(gamma, marginals[t], predicted)
