"""The passes of `tensor` and the best path (Viterbi) in logarithms: slower, for transitions of almost zero probability.

Messages are log-weights up to a constant; -inf is a weight of zero. Shapes as in `tensor`.
"""

import math

from chiasma._jit import njit
from chiasma.kernels.picking import pick_log
from chiasma.kernels.tensor import row_marginals
from chiasma.kernels.transitions import into_log_sums


@njit
def log_add(a, b):
    top = max(a, b)
    if top == -math.inf:
        return top
    return top + math.log1p(math.exp(min(a, b) - top))


@njit
def log_sum(values):
    top = -math.inf
    for value in values:
        top = max(top, value)
    if top == -math.inf:
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


@njit
def _apply_axis(message, stride, a00, a01, a10, a11, best):
    for base in range(0, message.shape[0], 2 * stride):
        for i in range(base, base + stride):
            u = message[i]
            v = message[i + stride]
            if best:
                message[i] = max(u + a00, v + a10)
                message[i + stride] = max(u + a01, v + a11)
            else:
                message[i] = log_add(u + a00, v + a10)
                message[i + stride] = log_add(u + a01, v + a11)


@njit
def log_predict(log_trans, e, message, best):
    """One step forward in place; `best` takes the maximum over predecessors where the filter takes the sum."""
    for k in range(log_trans.shape[1]):
        _apply_axis(
            message,
            1 << k,
            log_trans[e, k, 0],
            log_trans[e, k, 1],
            log_trans[e, k, 2],
            log_trans[e, k, 3],
            best,
        )


@njit
def forget_impossible(log_lik):
    """Columns without a possible candidate become flat, as in linear passes: the data say nothing there."""
    for t in range(log_lik.shape[0]):
        if log_lik[t].max() == -math.inf:
            log_lik[t] = 0.0


@njit
def log_filter_block(log_lik, beta, log_trans, edge, first, message, alpha, best):
    """Log-weights of columns first..first+n-1 into alpha (n, S), each with its maximum at 0.

    message (S,) enters as the log-weights of column first-1 and leaves as those of the last column. Returns the
    sum of the maxima taken out, and the first column whose weights are all zero (-1 if there is none).
    """
    n_states = message.shape[0]
    log_total = 0.0
    for i in range(log_lik.shape[0]):
        log_predict(log_trans, edge[first + i], message, best)
        top = -math.inf
        for s in range(n_states):
            if beta > 0.0:
                message[s] += beta * log_lik[i, s]
            top = max(top, message[s])
        if top == -math.inf:
            return log_total, first + i
        log_total += top
        for s in range(n_states):
            message[s] -= top
            alpha[i, s] = message[s]
    return log_total, -1


@njit
def _weigh_before(alpha, log_trans, e, code, weights):
    into_log_sums(log_trans, e, code, weights)
    for s in range(weights.shape[0]):
        weights[s] += alpha[s]


@njit
def log_draw_block(alpha, log_trans, edge, first, uniforms, codes, weights):
    """As tensor.draw_block, from log-weights and without the stay shortcut."""
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == codes.shape[0] - 1:
            for s in range(weights.shape[0]):
                weights[s] = alpha[i, s]
        else:
            _weigh_before(alpha[i], log_trans, edge[t + 1], codes[t + 1], weights)
        codes[t] = pick_log(weights, uniforms[t])


@njit
def best_block(alpha, log_trans, edge, first, codes, weights):
    """Trace the best path back through columns first..first+n-1, from the messages of a `best` filter."""
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == codes.shape[0] - 1:
            for s in range(weights.shape[0]):
                weights[s] = alpha[i, s]
        else:
            _weigh_before(alpha[i], log_trans, edge[t + 1], codes[t + 1], weights)
        best = 0
        for s in range(weights.shape[0]):
            if weights[s] > weights[best]:
                best = s
        codes[t] = best


@njit
def log_smooth_block(alpha, log_trans, edge, first, gamma, marginals, predicted, scratch):
    """As tensor.smooth_block, with gamma in logarithms."""
    n_states = gamma.shape[0]
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == marginals.shape[0] - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            e = edge[t + 1]
            for s in range(n_states):
                predicted[s] = alpha[i, s]
            log_predict(log_trans, e, predicted, False)
            for s in range(n_states):
                # No mass arrives where none was predicted.
                gamma[s] = gamma[s] - predicted[s] if predicted[s] > -math.inf else -math.inf
            for k in range(log_trans.shape[1]):
                _apply_axis(
                    gamma,
                    1 << k,
                    log_trans[e, k, 0],
                    log_trans[e, k, 2],
                    log_trans[e, k, 1],
                    log_trans[e, k, 3],
                    False,
                )
            for s in range(n_states):
                gamma[s] += alpha[i, s]
        total = log_sum(gamma)
        for s in range(n_states):
            gamma[s] -= total
            predicted[s] = math.exp(gamma[s])
        row_marginals(predicted, marginals[t], scratch)
