"""Exact passes for a block of b rows in linear space: filter, lazy backward draw, smoother.

A message over the S = 2^b codes of a column is a 2x2x...x2 tensor. Rows move independently, so one step
multiplies it by one 2x2 matrix per axis: O(b 2^b) and not O(4^b).

alpha (n, S): filtered distributions of columns first..first+n-1, each summing to 1.
stay (n, S):  P(s_{t-1} = s | s_t = s, y), for the edge that enters column t. A draw that begins before the last
              column takes one row more, for the edge that leaves the columns it draws.
"""

import math

from chiasma._jit import njit, vector_njit
from chiasma.kernels.codes import count_bits
from chiasma.kernels.transitions import into_products, stay_products

# Below this the stay probability is too close to underflow to serve as a normaliser.
TINY_STAY = 1e-250


@vector_njit
def _apply_axis(message, stride, a00, a01, a10, a11):
    for base in range(0, message.shape[0], 2 * stride):
        low = message[base : base + stride]
        high = message[base + stride : base + 2 * stride]
        for i in range(stride):
            u = low[i]
            v = high[i]
            low[i] = u * a00 + v * a10
            high[i] = u * a01 + v * a11


@vector_njit
def _apply_low_axes(message, a, b, c):
    """Axes 0, 1 and 2 together: eight neighbours are loaded once, where strides of 1, 2 and 4 would not vectorise."""
    for base in range(0, message.shape[0], 8):
        x = message[base : base + 8]
        u0, u1 = x[0] * a[0] + x[1] * a[2], x[0] * a[1] + x[1] * a[3]
        u2, u3 = x[2] * a[0] + x[3] * a[2], x[2] * a[1] + x[3] * a[3]
        u4, u5 = x[4] * a[0] + x[5] * a[2], x[4] * a[1] + x[5] * a[3]
        u6, u7 = x[6] * a[0] + x[7] * a[2], x[6] * a[1] + x[7] * a[3]
        v0, v2 = u0 * b[0] + u2 * b[2], u0 * b[1] + u2 * b[3]
        v1, v3 = u1 * b[0] + u3 * b[2], u1 * b[1] + u3 * b[3]
        v4, v6 = u4 * b[0] + u6 * b[2], u4 * b[1] + u6 * b[3]
        v5, v7 = u5 * b[0] + u7 * b[2], u5 * b[1] + u7 * b[3]
        x[0], x[4] = v0 * c[0] + v4 * c[2], v0 * c[1] + v4 * c[3]
        x[1], x[5] = v1 * c[0] + v5 * c[2], v1 * c[1] + v5 * c[3]
        x[2], x[6] = v2 * c[0] + v6 * c[2], v2 * c[1] + v6 * c[3]
        x[3], x[7] = v3 * c[0] + v7 * c[2], v3 * c[1] + v7 * c[3]


@njit
def _table(trans, e, k, back):
    """A_k of an edge kind, transposed to look back."""
    if back:
        return trans[e, k, 0], trans[e, k, 2], trans[e, k, 1], trans[e, k, 3]
    return trans[e, k, 0], trans[e, k, 1], trans[e, k, 2], trans[e, k, 3]


@njit
def _apply_all_axes(trans, e, message, back):
    n_rows = trans.shape[1]
    first = 0
    if n_rows >= 3:
        _apply_low_axes(message, _table(trans, e, 0, back), _table(trans, e, 1, back), _table(trans, e, 2, back))
        first = 3
    for k in range(first, n_rows):
        a00, a01, a10, a11 = _table(trans, e, k, back)
        _apply_axis(message, 1 << k, a00, a01, a10, a11)


@njit
def predict(trans, e, message):
    """One step forward in place: message(s') <- sum_s message(s) A(s, s')."""
    _apply_all_axes(trans, e, message, False)


@njit
def look_back(trans, e, message):
    """One step backward in place: message(s) <- sum_s' A(s, s') message(s')."""
    _apply_all_axes(trans, e, message, True)


@vector_njit
def _weigh(lik, message):
    """message *= lik; returns the sum."""
    total = 0.0
    for s in range(message.shape[0]):
        message[s] *= lik[s]
        total += message[s]
    return total


@vector_njit
def _scale(factor, message):
    for s in range(message.shape[0]):
        message[s] *= factor


@vector_njit
def _stay_probability(before, diagonal, predicted, out):
    for s in range(out.shape[0]):
        out[s] = before[s] * diagonal[s] / predicted[s]


@njit
def filter_block(lik, trans, edge, first, message, alpha, stay, diagonal):
    """Filter columns first..first+n-1 and return the sum of their log normalisers.

    message (S,) enters as the filtered distribution of column first-1 (anything normalised at column 0) and
    leaves as that of the last column. `stay` of no rows means that it is not wanted; diagonal (S,) is scratch.
    """
    log_total = 0.0
    n_states = message.shape[0]
    keep_stay = stay.shape[0] > 0
    diagonal_of = -1
    for i in range(lik.shape[0]):
        e = edge[first + i]
        row = alpha[i]
        for s in range(n_states):
            row[s] = message[s]
        predict(trans, e, row)
        if keep_stay:
            if e != diagonal_of:
                stay_products(trans, e, diagonal)
                diagonal_of = e
            _stay_probability(message, diagonal, row, stay[i])
        total = _weigh(lik[i], row)
        _scale(1.0 / total, row)
        log_total += math.log(total)
        for s in range(n_states):
            message[s] = row[s]
    return log_total


@njit
def stay_after(trans, e, message, diagonal, out):
    """Stay probabilities of an edge of kind e, given the filtered distribution of the column that it leaves."""
    for s in range(message.shape[0]):
        out[s] = message[s]
    predict(trans, e, out)
    stay_products(trans, e, diagonal)
    _stay_probability(message, diagonal, out, out)


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
def _pick_elsewhere(alpha, trans, e, code, chance, left, weights):
    """Draw s_t given s_{t+1} = code and s_t != code; chance = P(s_t = code), left = the uniform less chance.

    The normaliser is known from `chance`, so the one-bit neighbours are tried first, and every other code only
    if none of them takes the draw.
    """
    diagonal = 1.0
    for k in range(trans.shape[1]):
        diagonal *= trans[e, k, 3 * (code >> k & 1)]
    per_weight = chance / (alpha[code] * diagonal)
    for k in range(trans.shape[1]):
        x = code >> k & 1
        step = diagonal / trans[e, k, 3 * x] * trans[e, k, 2 - x]
        left -= alpha[code ^ (1 << k)] * step * per_weight
        if left < 0.0:
            return code ^ (1 << k)
    into_products(trans, e, code, weights)
    last = code
    for s in range(weights.shape[0]):
        if weights[s] * alpha[s] > 0.0 and count_bits(s ^ code) > 1:
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
    code = codes[stop]
    for t in range(stop - 1, first - 1, -1):
        chance = stay[t + 1 - first, code]
        if not uniforms[t] < chance:
            row = alpha[t - first]
            if chance > TINY_STAY:
                code = _pick_elsewhere(row, trans, edge[t + 1], code, chance, uniforms[t] - chance, weights)
            else:
                code = _pick_before(row, trans, edge[t + 1], code, uniforms[t], weights)
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


@njit
def smooth_block(alpha, trans, edge, first, gamma, marginals, predicted, scratch):
    """P(x[k, t] = 1 | y) of columns first..first+n-1, backwards, into marginals (T, b).

    gamma (S,) enters as the smoothed distribution of column first+n (ignored at the end) and leaves as that of
    column first. Only filtered distributions are needed:
    gamma_t(s) = alpha_t(s) * sum_s' A(s, s') gamma_{t+1}(s') / predicted_{t+1}(s').
    """
    n_states = gamma.shape[0]
    n_columns = marginals.shape[0]
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == n_columns - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            for s in range(n_states):
                predicted[s] = alpha[i, s]
            predict(trans, edge[t + 1], predicted)
            for s in range(n_states):
                gamma[s] /= predicted[s]
            look_back(trans, edge[t + 1], gamma)
            total = _weigh(alpha[i], gamma)
            _scale(1.0 / total, gamma)
        row_marginals(gamma, marginals[t], scratch)
