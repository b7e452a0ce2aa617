"""Slow twins of the package: plain Python and NumPy from first principles, nothing imported from chiasma.

Notation as in the package: K rows, T columns, S = 2^K codes, bit k of a code is row k. Dense matrices over codes
are Kronecker products; everything that could underflow is in logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.special import expit, logit, logsumexp


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


def bit(code, k):
    return (int(code) >> k) % 2


def level(code, weights):
    """Sum of the weights of the rows that are on; weights (K,) or (K, D)."""
    return sum((w for k, w in enumerate(np.asarray(weights, float)) if bit(code, k)), np.zeros(np.shape(weights)[1:]))


def level_table(y, weights, log_density):
    """(T, S) log-likelihoods of an additive emission, one scalar call at a time; NaN contributes 0."""
    table = np.zeros((len(y), 2 ** len(weights)))
    for t, s in np.ndindex(*table.shape):
        for d, (value, mean) in enumerate(zip(np.atleast_1d(y[t]), np.atleast_1d(level(s, weights)), strict=True)):
            if not np.isnan(value):
                table[t, s] += log_density(value, mean, d)
    return table


# ---- Models ---------------------------------------------------------------------------------------------------------


@dataclass
class Problem:
    """A factorial HMM with its data as plain numbers: log_lik (T, S), and (K,) probabilities per row."""

    log_lik: np.ndarray
    enter: np.ndarray
    leave: np.ndarray
    initial: np.ndarray
    starts: tuple[int, ...] = ()
    gaps: np.ndarray | None = None
    fixed: dict[int, int] = field(default_factory=dict)
    beta: float = 1.0

    @property
    def n_rows(self):
        return len(self.enter)

    @property
    def n_columns(self):
        return len(self.log_lik)

    @property
    def tempered(self):
        """(T, S) beta * log_lik, where 0 * -inf is 0: at beta = 0 the data do not exist."""
        return np.zeros_like(self.log_lik) if self.beta == 0 else self.beta * self.log_lik

    def row_matrix(self, k, t):
        """2x2 matrix of row k from column t-1 to column t; a fixed row moves to its value with probability 1."""
        if k in self.fixed:
            return np.array([[1.0 - self.fixed[k], self.fixed[k]]] * 2)
        if t == 0 or t in self.starts:
            return np.array([[1.0 - self.initial[k], self.initial[k]]] * 2)
        step = np.array([[1.0 - self.enter[k], self.enter[k]], [self.leave[k], 1.0 - self.leave[k]]])
        return matrix_power(step, 1.0 if self.gaps is None else self.gaps[t - 1])

    def log_column_matrix(self, t):
        """(S, S) log transition matrix between whole columns: a Kronecker product, added up in logarithms."""
        matrix = np.zeros((1, 1))
        for k in range(self.n_rows):
            row = log(self.row_matrix(k, t))
            # Row k is bit k: later rows are more significant.
            matrix = (row[:, None, :, None] + matrix[None, :, None, :]).reshape(2 * len(matrix), 2 * len(matrix))
        return matrix


def matrix_power(matrix, power):
    if power == int(power):
        return np.linalg.matrix_power(matrix, int(power))
    values, vectors = np.linalg.eig(matrix)
    return (vectors * np.clip(values, 0.0, None) ** power) @ np.linalg.inv(vectors)


def enumerate_paths(problem):
    """Every path (N, T) that agrees with the fixed rows, and its log p(X) + beta log p(y | X), (N,)."""
    columns = [s for s in range(2**problem.n_rows) if all(bit(s, k) == x for k, x in problem.fixed.items())]
    paths = np.array(list(product(columns, repeat=problem.n_columns)))
    scores = np.zeros(len(paths))
    for t in range(problem.n_columns):
        for k in range(problem.n_rows):
            matrix = log(problem.row_matrix(k, t))
            before = np.zeros(len(paths), int) if t == 0 else paths[:, t - 1] >> k & 1
            scores += matrix[before, paths[:, t] >> k & 1]
        scores += problem.tempered[t, paths[:, t]]
    return paths, scores


def path_marginals(paths, scores, n_rows):
    """(K, T): P(x[k, t] = 1) from enumerated paths."""
    chance = np.exp(scores - logsumexp(scores))
    return np.array([[chance[(column >> k & 1) == 1].sum() for column in paths.T] for k in range(n_rows)])


# ---- Dense passes in logarithms -------------------------------------------------------------------------------------


def dense_filter(problem):
    """(T, S) log filtered distributions, (T, S) log predicted ones, and the log evidence."""
    alpha, ahead = np.empty((2, *problem.log_lik.shape))
    evidence = 0.0
    message = np.zeros(2**problem.n_rows)
    message[1:] = -np.inf
    for t in range(problem.n_columns):
        ahead[t] = logsumexp(message[:, None] + problem.log_column_matrix(t), axis=0)
        message = ahead[t] + problem.tempered[t]
        total = logsumexp(message)
        evidence += total
        message = message - total
        alpha[t] = message
    return alpha, ahead, evidence


def dense_smoother(problem):
    """(T, S) smoothed distributions."""
    alpha, _, _ = dense_filter(problem)
    back = np.zeros(2**problem.n_rows)
    out = np.empty_like(alpha)
    for t in range(problem.n_columns - 1, -1, -1):
        joint = alpha[t] + back
        out[t] = np.exp(joint - logsumexp(joint))
        if t:
            back = logsumexp(problem.log_column_matrix(t) + problem.tempered[t] + back, axis=1)
            back -= back.max()
    return out


def dense_marginals(problem):
    """(K, T)."""
    smoothed = dense_smoother(problem)
    on = np.array([[bit(s, k) for s in range(2**problem.n_rows)] for k in range(problem.n_rows)])
    return on @ smoothed.T


def dense_viterbi(problem):
    """The best path, and its log joint."""
    score = problem.log_column_matrix(0)[0] + problem.tempered[0]
    pointers = []
    for t in range(1, problem.n_columns):
        steps = score[:, None] + problem.log_column_matrix(t)
        pointers.append(steps.argmax(axis=0))
        score = steps.max(axis=0) + problem.tempered[t]
    path = [int(score.argmax())]
    for pointer in reversed(pointers):
        path.append(int(pointer[path[-1]]))
    return np.array(path[::-1]), float(score.max())


def log_joint(problem, path):
    """log p(X) + beta log p(y | X) of one path of codes."""
    total = 0.0
    for t, code in enumerate(path):
        for k in range(problem.n_rows):
            x = bit(path[t - 1], k) if t else 0
            total += log(problem.row_matrix(k, t))[x, bit(code, k)]
        total += problem.tempered[t, code]
    return total


# ---- Draws by inversion ---------------------------------------------------------------------------------------------


def invert(log_weights, order, uniform):
    """The first entry of `order` at which the cumulative probability exceeds the uniform."""
    chance = np.exp(log_weights - logsumexp(log_weights))
    cumulative = 0.0
    for s in order:
        cumulative += chance[s]
        if uniform < cumulative:
            return int(s)
    return int([s for s in order if chance[s] > 0][-1])


def lazy_order(code, n_rows):
    """Where the lazy draw looks: the same code, those one bit away, two bits away, then all others in their order."""
    near = [code, *(code ^ 2**k for k in range(n_rows))]
    near += [code ^ 2**k ^ 2**j for k in range(n_rows) for j in range(k)]
    return near + [s for s in range(2**n_rows) if s not in near]


def draw_path(problem, uniforms, lazy):
    """Backward draw from the dense filter; uniforms[t] decides column t."""
    alpha, _, _ = dense_filter(problem)
    n_states = 2**problem.n_rows
    path = np.empty(problem.n_columns, int)
    path[-1] = invert(alpha[-1], range(n_states), uniforms[-1])
    for t in range(problem.n_columns - 2, -1, -1):
        weights = alpha[t] + problem.log_column_matrix(t + 1)[:, path[t + 1]]
        # The lazy draw measures all codes by the one that stays; where that is impossible, it is not lazy.
        stays = lazy and weights[path[t + 1]] > -np.inf
        order = lazy_order(int(path[t + 1]), problem.n_rows) if stays else range(n_states)
        path[t] = invert(weights, order, uniforms[t])
    return path


# ---- Free coordinates of priors: real numbers without bounds ---------------------------------------------------------


def is_simplex(prior):
    return type(prior).__name__ == "Dirichlet"


def to_free(prior, value):
    """(n_free,) coordinates of a value inside the support."""
    if is_simplex(prior):
        return np.log(value[:-1]) - np.log(value[-1])
    low, high = prior.support
    value = np.ravel(value)
    if high < np.inf:
        return logit((value - low) / (high - low))
    return value if low == -np.inf else np.log(value - low)


def from_free(prior, free):
    """The value at (n_free,) coordinates."""
    if is_simplex(prior):
        ratios = np.exp(np.append(free, 0.0))
        return ratios / ratios.sum()
    low, high = prior.support
    if high < np.inf:
        return (low + (high - low) * expit(free)).reshape(prior.shape)
    return (free if low == -np.inf else low + np.exp(free)).reshape(prior.shape)


def log_slope(prior, value):
    """log |d value / d free| at a value inside the support."""
    if is_simplex(prior):
        return np.log(value).sum()
    low, high = prior.support
    if high < np.inf:
        return np.sum(np.log(value - low) + np.log(high - value) - np.log(high - low))
    return 0.0 if low == -np.inf else np.log(value - low).sum()


# ---- Random problems ------------------------------------------------------------------------------------------------


def random_problem(rng, n_rows, n_columns, *, starts=False, gaps=False, zeros=False, fixed=False, scale=3.0):
    """Random parameters per row. gaps: whole and fractional ones. zeros: some switches are impossible, and some rows
    start at a certain value. fixed: one row is held (not where it is the only one).
    """
    enter, leave = rng.uniform(0.02, 0.48, (2, n_rows))
    initial = rng.uniform(0.05, 0.95, n_rows)
    log_lik = rng.normal(0.0, scale, (n_columns, 2**n_rows))
    if zeros:
        enter[rng.random(n_rows) < 0.4] = 0.0
        leave[rng.random(n_rows) < 0.4] = 0.0
        initial[rng.random(n_rows) < 0.3] = rng.integers(2)
    chosen_starts = 1 + np.flatnonzero(rng.random(n_columns - 1) < 0.4) if starts else ()
    chosen_gaps = rng.choice([1.0, 2.0, 5.0, 0.5, 1.7], n_columns - 1) if gaps else None
    held = {int(rng.integers(n_rows)): int(rng.integers(2))} if fixed and n_rows > 1 else {}
    return Problem(log_lik, enter, leave, initial, tuple(int(t) for t in chosen_starts), chosen_gaps, held)


# ---- Twins of kernels, where the dense passes above are not their twins already -------------------------------------


def temper(log_lik, beta):
    """(T, S) exp(beta * log_lik) over its column maximum, and (T,) the logarithms of these maxima."""
    if beta == 0:
        return np.ones_like(log_lik), np.zeros(len(log_lik))
    top = log_lik.max(axis=1)
    return np.exp(beta * (log_lik - top[:, None])), beta * top


def kernel_arrays(problem):
    """edge (T,) and trans (T + 1, K, 4) as the kernels take them: kind 0 for starts, else a kind of its own."""
    starts = {0, *problem.starts}
    edge = np.array([0 if t in starts else t + 1 for t in range(problem.n_columns)], np.int32)
    trans = np.empty((problem.n_columns + 1, problem.n_rows, 4))
    for e in range(problem.n_columns + 1):
        for k in range(problem.n_rows):
            trans[e, k] = problem.row_matrix(k, 0 if e == 0 or e - 1 in starts else e - 1).ravel()
    return edge, trans


def restricted(problem, centres, offsets):
    """The same problem with every code outside the balls impossible."""
    log_lik = np.full_like(problem.log_lik, -np.inf)
    for t, centre in enumerate(centres):
        for offset in offsets:
            log_lik[t, centre ^ offset] = problem.log_lik[t, centre ^ offset]
    return Problem(log_lik, problem.enter, problem.leave, problem.initial, problem.starts, problem.gaps)


def draw_in_ball(problem, centres, offsets, uniforms):
    """Backward draw among the candidates of each column, inverted in the order of the offsets."""
    inside = restricted(problem, centres, offsets)
    alpha, _, _ = dense_filter(inside)
    path = np.empty(problem.n_columns, int)
    for t in range(problem.n_columns - 1, -1, -1):
        last = t == problem.n_columns - 1
        weights = alpha[t] if last else alpha[t] + inside.log_column_matrix(t + 1)[:, path[t + 1]]
        path[t] = invert(weights, [centres[t] ^ offset for offset in offsets], uniforms[t])
    return path


def draw_mosaic(first, second, a, b, uniforms):
    """Deal the columns of two paths between two replicas: every z in {0, 1}^T scored by the joint densities of both
    paths, and drawn from the last column to the first, 1 before 0; uniforms[t] decides z_t. Returns both paths.
    """
    ways = np.array(list(product((0, 1), repeat=len(a))))
    dealt = [(np.where(z, b, a), np.where(z, a, b)) for z in ways]
    scores = np.array([log_joint(first, x) + log_joint(second, y) for x, y in dealt])
    for t in range(len(a) - 1, -1, -1):
        weights = np.array([logsumexp(np.where(ways[:, t] == x, scores, -np.inf)) for x in (0, 1)])
        scores[ways[:, t] != invert(weights, (1, 0), uniforms[t])] = -np.inf
    return dealt[int(scores.argmax())]


def applied(difference, states):
    """A column in which the rows of a difference, {row: (a, b)}, that are in one of its states go to the other."""
    return [{a: b, b: a}.get(x, x) for x, (a, b) in ((x, difference.get(k, (x, x))) for k, x in enumerate(states))]


def jump_matrices(matrices, edge, columns, difference):
    """(T, 2, 2): the product, over the rows of a difference, of their transitions into every column; [f, g]: with the
    difference applied before the edge (f) and after it (g). matrices[e][k]: (S_k, S_k). Column 0 is entered from 0.
    """
    found, before = [], [0] * len(columns[0])
    for e, column in zip(edge, columns, strict=True):
        left, entered = (before, applied(difference, before)), (column, applied(difference, column))
        found.append([[math.prod(matrices[e][k][a[k]][b[k]] for k in difference) for b in entered] for a in left])
        before = column
    return found
