"""The passes of `passes` and the best path, in logarithms: slower, for transitions of (almost) zero probability.

Messages are log-weights up to a constant; -inf is a weight of zero. log_trans: `transitions.Matrices` of logarithms, of
rows of two states as well. Paths are paths of indices. Shapes as in `passes`.
"""

import math

import numpy as np

from chiasma._jit import inlined_njit, njit
from chiasma.kernels.logspace import log_sum
from chiasma.kernels.picking import pick_log
from chiasma.kernels.step import row_marginals

# Sums of exponentials are taken against the largest weight. One that comes out smaller than this may have lost what
# underflowed, and is taken again against its own largest term.
LEAST_SUM = 1e-280


@inlined_njit
def _largest_term(message, here, stride, log_trans, e, first, down, size):
    """max_x (message[here + x * stride] + log_trans[e, first + x * down])."""
    top = -math.inf
    for x in range(size):
        top = max(top, message[here + x * stride] + log_trans[e, first + x * down])
    return top


@njit
def _sum_terms(message, here, stride, log_trans, e, first, down, size):
    """The logarithm of the sum of exponentials of the same terms."""
    top = _largest_term(message, here, stride, log_trans, e, first, down, size)
    if top == -math.inf:
        return top
    mass = 0.0
    for x in range(size):
        mass += math.exp(message[here + x * stride] + log_trans[e, first + x * down] - top)
    return top + math.log(mass)


@njit
def sum_axis(message, size, stride, log_trans, e, matrix, place, down, across, spare):
    """One axis in place: element (x, x') of its matrix stands at place + x * down + x' * across. spare (2, size)."""
    weights, results = spare[0], spare[1]
    for o in range(0, message.shape[0], size * stride):
        for here in range(o, o + stride):
            top = -math.inf
            for x in range(size):
                top = max(top, message[here + x * stride])
            if top > -math.inf:
                for x in range(size):
                    weights[x] = math.exp(message[here + x * stride] - top)
                for y in range(size):
                    first = place + y * across
                    mass = 0.0
                    for x in range(size):
                        mass += weights[x] * matrix[first + x * down]
                    if mass >= LEAST_SUM:
                        results[y] = top + math.log(mass)
                    else:
                        results[y] = _sum_terms(message, here, stride, log_trans, e, first, down, size)
                for y in range(size):
                    message[here + y * stride] = results[y]


@njit
def _maximise_axis(message, size, stride, log_trans, e, place, spare):
    """The largest term where `sum_axis` takes the sum."""
    results = spare[0]
    for o in range(0, message.shape[0], size * stride):
        for here in range(o, o + stride):
            for y in range(size):
                results[y] = _largest_term(message, here, stride, log_trans, e, place + y, size, size)
            for y in range(size):
                message[here + y * stride] = results[y]


@njit
def load_matrices(log_trans, e, matrix):
    for i in range(matrix.shape[0]):
        matrix[i] = math.exp(log_trans[e, i])


@njit
def _sum_step(log_trans, e, layout, message, back, matrix, spare):
    """One step of message (N,) in place, ahead or looking back. matrix (M,) = exp(log_trans[e]); spare is scratch."""
    for k in range(layout.sizes.shape[0]):
        size = layout.sizes[k]
        down, across = (1, size) if back else (size, 1)
        sum_axis(message, size, layout.strides[k], log_trans, e, matrix, layout.first[k], down, across, spare)


@njit
def largest(sizes):
    found = 0
    for size in sizes:
        found = max(found, size)
    return found


@njit
def log_filter_block(log_lik, beta, log_trans, edge, first, message, alpha, best):
    """Log-weights of columns first..first+n-1 into alpha (n, N), each with its maximum at 0.

    message (N,) enters as the log-weights of column first-1 and leaves as those of the last column. `best` takes the
    maximum over predecessors where the filter takes the sum. Returns the
    sum of the maxima taken out, and the first column whose weights are all zero (-1 if there is none).
    """
    n_states = message.shape[0]
    table, layout = log_trans.table, log_trans.layout
    matrix, spare = np.empty(table.shape[1]), np.empty((2, largest(layout.sizes)))
    loaded = -1
    log_total = 0.0
    for i in range(log_lik.shape[0]):
        e = edge[first + i]
        if e != loaded:
            load_matrices(table, e, matrix)
            loaded = e
        if best:
            for k in range(layout.sizes.shape[0]):
                _maximise_axis(message, layout.sizes[k], layout.strides[k], table, e, layout.first[k], spare)
        else:
            _sum_step(table, e, layout, message, False, matrix, spare)
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
def into_log_sums(log_trans, e, index, out):
    """out[s] = log-probability of the move s -> index, for every index s."""
    table, layout = log_trans.table, log_trans.layout
    out[0] = 0.0
    n = 1
    for k in range(layout.sizes.shape[0]):
        size = layout.sizes[k]
        y = index % size
        index //= size
        for x in range(size - 1, -1, -1):
            added = table[e, layout.first[k] + x * size + y]
            for s in range(n):
                out[x * n + s] = out[s] + added
        n *= size


@njit
def _weigh_before(alpha, i, log_trans, edge, t, indices, weights):
    """Log-weights of s_t, from alpha_t = alpha[i], given the column after it unless that is the end."""
    if t == indices.shape[0] - 1:
        for s in range(weights.shape[0]):
            weights[s] = alpha[i, s]
    else:
        into_log_sums(log_trans, edge[t + 1], indices[t + 1], weights)
        for s in range(weights.shape[0]):
            weights[s] += alpha[i, s]


@njit
def log_draw_block(alpha, log_trans, edge, first, uniforms, indices, weights):
    """Draw columns first..first+n-1 of one path backwards into indices (T,), given indices[first + n] unless that is
    the end; all indices in their order, by uniforms[t] for column t. weights (N,) is scratch.
    """
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        _weigh_before(alpha, i, log_trans, edge, t, indices, weights)
        indices[t] = pick_log(weights, uniforms[t])


@njit
def best_block(alpha, log_trans, edge, first, indices, weights):
    """Trace the best path back through columns first..first+n-1, from the messages of a `best` filter."""
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        _weigh_before(alpha, i, log_trans, edge, t, indices, weights)
        best = 0
        for s in range(weights.shape[0]):
            if weights[s] > weights[best]:
                best = s
        indices[t] = best


@njit
def log_smooth_block(alpha, log_trans, edge, first, gamma, marginals, scratch):
    """As passes.smooth_block, with gamma in logarithms; scratch (2 N,)."""
    n_states = gamma.shape[0]
    table, layout = log_trans.table, log_trans.layout
    matrix, spare = np.empty(table.shape[1]), np.empty((2, largest(layout.sizes)))
    predicted = scratch[:n_states]
    loaded = -1
    for i in range(alpha.shape[0] - 1, -1, -1):
        t = first + i
        if t == marginals.shape[0] - 1:
            for s in range(n_states):
                gamma[s] = alpha[i, s]
        else:
            e = edge[t + 1]
            if e != loaded:
                load_matrices(table, e, matrix)
                loaded = e
            for s in range(n_states):
                predicted[s] = alpha[i, s]
            _sum_step(table, e, layout, predicted, False, matrix, spare)
            for s in range(n_states):
                # No mass arrives where none was predicted.
                gamma[s] = gamma[s] - predicted[s] if predicted[s] > -math.inf else -math.inf
            _sum_step(table, e, layout, gamma, True, matrix, spare)
            for s in range(n_states):
                gamma[s] += alpha[i, s]
        total = log_sum(gamma)
        for s in range(n_states):
            gamma[s] -= total
            predicted[s] = math.exp(gamma[s])
        row_marginals(log_trans, predicted, marginals[t], scratch[n_states:])
