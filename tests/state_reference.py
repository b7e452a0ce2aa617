"""Slow twins for rows with any numbers of states: dense matrices over all joint states, nothing imported from chiasma.

A joint state has the index sum_k x_k * prod_{j<k} S_j, and the code that gives row k as many bits as S_k - 1 has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.special import logsumexp

from reference import invert, log


@dataclass
class StateProblem:
    """matrices[e][k] (S_k, S_k) of every kind of edge, edge (T,), and log_lik (T, N)."""

    sizes: tuple[int, ...]
    matrices: list[list[np.ndarray]]
    edge: np.ndarray
    log_lik: np.ndarray
    beta: float = 1.0

    @property
    def n_columns(self):
        return len(self.log_lik)

    @cached_property
    def states(self):
        """(N, K): x_k of every index."""
        return np.array([digits[::-1] for digits in product(*(range(size) for size in self.sizes[::-1]))])

    @property
    def tempered(self):
        return np.zeros_like(self.log_lik) if self.beta == 0 else self.beta * self.log_lik

    @property
    def trans(self):
        return np.array([np.concatenate([matrix.ravel() for matrix in kind]) for kind in self.matrices])

    @cached_property
    def dense(self):
        """(E, N, N) log transition matrices between joint states."""
        out = np.zeros((len(self.matrices), len(self.states), len(self.states)))
        for e, kind in enumerate(self.matrices):
            for k, matrix in enumerate(kind):
                x = self.states[:, k]
                out[e] += log(matrix)[x[:, None], x[None, :]]
        return out

    def codes(self, indices):
        out = []
        for index in indices:
            code = shift = 0
            for size, x in zip(self.sizes, self.states[index], strict=True):
                code += int(x) * 2**shift
                shift += len(format(size - 1, "b"))
            out.append(code)
        return np.array(out)

    def place(self, k, x, y):
        """Where the move x -> y of row k stands in a row of `trans`."""
        return sum(size**2 for size in self.sizes[:k]) + x * self.sizes[k] + y


def random_problem(rng, sizes, n_columns, *, n_kinds=3, zeros=False, scale=2.0, starts=0.2):
    """Random matrices with a heavier diagonal; kind 0 is a start. zeros: moves and initial states that are impossible,
    but never all ways out of a state.
    """
    matrices = []
    for e in range(n_kinds):
        kind = []
        for size in sizes:
            matrix = rng.uniform(0.05, 1.0, (size, size)) + 2.0 * np.eye(size)
            if zeros:
                matrix[rng.random((size, size)) < 0.4] = 0.0
                matrix[np.arange(size), rng.integers(size, size=size)] = 1.0
            matrix /= matrix.sum(axis=1, keepdims=True)
            kind.append(np.tile(matrix[0], (size, 1)) if e == 0 else matrix)
        matrices.append(kind)
    edge = rng.integers(1, n_kinds, size=n_columns).astype(np.int32)
    edge[rng.random(n_columns) < starts] = 0
    edge[0] = 0
    return StateProblem(sizes, matrices, edge, rng.normal(0.0, scale, (n_columns, int(np.prod(sizes)))))


def dense_filter(problem):
    """(T, N) log filtered and log predicted distributions, and the log evidence."""
    alpha, ahead = np.empty((2, *problem.log_lik.shape))
    message = np.full(len(problem.states), -np.inf)
    message[0] = 0.0
    evidence = 0.0
    for t, e in enumerate(problem.edge):
        ahead[t] = logsumexp(message[:, None] + problem.dense[e], axis=0)
        message = ahead[t] + problem.tempered[t]
        total = logsumexp(message)
        evidence += total
        message = alpha[t] = message - total
    return alpha, ahead, evidence


def dense_pairs(problem):
    """(T, N, N): P(s_{t-1}, s_t | y); column 0 is entered from index 0."""
    alpha, _, _ = dense_filter(problem)
    back = np.zeros(len(problem.states))
    out = np.empty((problem.n_columns, len(back), len(back)))
    for t in range(problem.n_columns - 1, -1, -1):
        before = alpha[t - 1] if t else log(np.eye(len(back))[0])
        into = problem.dense[problem.edge[t]] + (problem.tempered[t] + back)[None, :]
        joint = before[:, None] + into
        out[t] = np.exp(joint - logsumexp(joint))
        back = logsumexp(into, axis=1)
        back -= back.max()
    return out


def dense_smoother(problem):
    """(T, N)."""
    return dense_pairs(problem).sum(axis=1)


def marginals(problem, weights):
    """(T, sum_k S_k) masses of the states of all rows, for weights (T, N)."""
    columns = []
    for k, size in enumerate(problem.sizes):
        columns += [weights[:, problem.states[:, k] == x].sum(axis=1) for x in range(size)]
    return np.stack(columns, axis=1)


def expected_counts(problem):
    """(E, M)."""
    counts = np.zeros_like(problem.trans)
    for e, pairs in zip(problem.edge, dense_pairs(problem), strict=True):
        for (a, b), chance in np.ndenumerate(pairs):
            for k, (x, y) in enumerate(zip(problem.states[a], problem.states[b], strict=True)):
                counts[e, problem.place(k, x, y)] += chance
    return counts


def enumerate_paths(problem):
    """Every path of indices (n, T), and its log p(X) + beta log p(y | X), (n,)."""
    paths = np.array(list(product(range(len(problem.states)), repeat=problem.n_columns)))
    return paths, np.array([log_joint(problem, path) for path in paths])


def log_joint(problem, path):
    total = 0.0
    before = 0
    for t, index in enumerate(path):
        total += problem.dense[problem.edge[t], before, index] + problem.tempered[t, index]
        before = index
    return total


def lazy_order(problem, index):
    """Where the lazy draw looks: the same index, those in which one row differs (row by row), then all others."""
    differ = (problem.states != problem.states[index]).sum(axis=1)
    order = [index]
    for k in range(len(problem.sizes)):
        other = problem.states[:, k] != problem.states[index, k]
        order += np.flatnonzero(other & (differ == 1)).tolist()
    return order + np.flatnonzero(differ > 1).tolist()


def draw_path(problem, uniforms, lazy):
    """Backward draw from the dense filter; uniforms[t] decides column t."""
    alpha, _, _ = dense_filter(problem)
    path = np.empty(problem.n_columns, int)
    for t in range(problem.n_columns - 1, -1, -1):
        order = range(len(problem.states))
        weights = alpha[t]
        if t + 1 < problem.n_columns:
            weights = weights + problem.dense[problem.edge[t + 1]][:, path[t + 1]]
            if lazy:
                order = lazy_order(problem, path[t + 1])
        path[t] = invert(weights, order, uniforms[t])
    return path


def viterbi_score(problem):
    """The log joint of the best path."""
    score = np.full(len(problem.states), -np.inf)
    score[0] = 0.0
    for t, e in enumerate(problem.edge):
        score = (score[:, None] + problem.dense[e]).max(axis=0) + problem.tempered[t]
    return score.max()
