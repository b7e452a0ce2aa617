"""Rows with any number of states: the filter against as many multiply-adds and against a dense filter over all joint
states, what the other passes cost beside it, and what updates and exchanges cost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from core import fastest
from limits import _multiply_add, verdict

import chiasma as ch
from chiasma._jit import vector_njit
from chiasma.kernels import expectations, log_passes
from chiasma.kernels import passes as kernels
from chiasma.kernels.layout import Layout, make_layout
from chiasma.kernels.transitions import Matrices
from chiasma.types import Floats

if TYPE_CHECKING:
    from run import Report

CASES = {
    "3 rows of 5": (5, 5, 5),
    "2 rows of 16": (16, 16),
    "4 of 3 and 4 of 2": (3, 3, 3, 3, 2, 2, 2, 2),
    "1 row of 21": (21,),
}
COLUMNS = 10_877
# Columns of likelihoods that are there; passes that keep messages see as many, the filter goes over them in turn.
KEPT = 1_024
DRAWS = 20
SWITCHING = 0.01


class Problem(NamedTuple):
    layout: Layout
    trans: Floats
    edge: np.ndarray
    lik: Floats

    @property
    def n_states(self) -> int:
        return self.lik.shape[1]


def make_problem(sizes: tuple[int, ...]) -> Problem:
    """Rows that switch with probability SWITCHING, from and to any state; likelihoods that leave some doubt."""
    rng = np.random.default_rng(1)
    start = np.concatenate([np.full(size * size, 1.0 / size) for size in sizes])
    step = np.concatenate(
        [
            (np.full((s, s), SWITCHING / (s - 1)) + (1 - SWITCHING - SWITCHING / (s - 1)) * np.eye(s)).ravel()
            for s in sizes
        ]
    )
    edge = np.ones(COLUMNS, np.int32)
    edge[0] = 0
    lik = rng.random((KEPT, int(np.prod(sizes)))) ** 3
    return Problem(make_layout(sizes), np.array([start, step]), edge, lik / lik.max(axis=1, keepdims=True))


def run(report: Report) -> None:
    filters(report)
    passes(report)
    sweeps(report)


def filter_columns(problem: Problem, stay: Floats) -> float:
    """The log evidence of all columns, no messages kept; stay probabilities if there is room for them."""
    n_states = problem.n_states
    message, alpha, scratch = np.eye(n_states)[0], np.empty((2, n_states)), np.empty(3 * n_states)
    total = 0.0
    for first in range(0, COLUMNS, KEPT):
        lik = problem.lik[: COLUMNS - first]
        arrays = message, alpha, stay[: len(lik)], scratch
        total += kernels.filter_block(lik, Matrices(problem.trans, problem.layout), problem.edge, first, *arrays)
    return total


@vector_njit
def _dense_filter(lik, start, step, n_columns):
    """The filter of a model with one row of N states, as one would write it: N^2 multiply-adds per column."""
    n_states = lik.shape[1]
    message, ahead = start * lik[0], np.empty(n_states)
    evidence = 0.0
    for t in range(n_columns):
        if t > 0:
            ahead[:] = 0.0
            for s in range(n_states):
                for j in range(n_states):
                    ahead[j] += message[s] * step[s, j]
            for j in range(n_states):
                message[j] = ahead[j] * lik[t % lik.shape[0], j]
        total = message.sum()
        evidence += np.log(total)
        message /= total
    return evidence


def expand(problem: Problem) -> tuple[Floats, Floats]:
    """Initial distribution (N,) and transition matrix (N, N) of the joint states."""
    start, step = np.ones(1), np.ones((1, 1))
    for size, first in zip(problem.layout.sizes, problem.layout.first, strict=True):
        own = problem.trans[:, first : first + size * size].reshape(2, size, size)
        start, step = np.kron(own[0, 0], start), np.kron(own[1], step)
    return start, step


def dynamax_filter(problem: Problem, start: Floats, step: Floats) -> Callable[[], float]:
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import hmm_filter

    jax.config.update("jax_enable_x64", True)
    table = np.log(np.resize(problem.lik, (COLUMNS, problem.n_states)))
    arrays = jnp.array(start), jnp.array(step), jnp.array(table)
    compiled = jax.jit(lambda *arrays: hmm_filter(*arrays).marginal_loglik)
    return lambda: float(compiled(*arrays))


def of_all_threads(function: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of CPU time of the whole process, because JAX has its own threads."""
    function()
    best = np.inf
    for _ in range(repeats):
        began = process_time()
        function()
        best = min(best, process_time() - began)
    return best


def filters(report: Report, most: float = 4.0, least: float = 5.0, least_from: int = 250) -> None:
    """most: times the multiply-adds. least: times as fast as dynamax, for so many joint states and more."""
    rows = []
    x, y = np.ones((2, 1024))
    has_dynamax = find_spec("dynamax") is not None
    for name, sizes in CASES.items():
        problem = make_problem(sizes)
        start, step = expand(problem)
        multiply_adds = sum(sizes) * problem.n_states * COLUMNS
        rounds = max(1, multiply_adds // len(x))
        none, stay = np.empty((0, problem.n_states)), np.empty((KEPT, problem.n_states))
        plain_filter = partial(filter_columns, problem, none)
        evidence = plain_filter()
        np.testing.assert_allclose(_dense_filter(problem.lik, start, step, COLUMNS), evidence, rtol=1e-9)
        filtered, with_stay, plain = fastest(
            plain_filter,
            partial(filter_columns, problem, stay),
            partial(_multiply_add, x, y, rounds),
            repeats=11,
        )
        # It takes long for many states, and needs no turns: the ratio is far from 1.
        dense = fastest(partial(_dense_filter, problem.lik, start, step, COLUMNS), repeats=2)[0]
        plain *= multiply_adds / (rounds * len(x))
        peer = np.nan
        if has_dynamax:
            theirs = dynamax_filter(problem, start, step)
            np.testing.assert_allclose(theirs(), evidence, rtol=1e-9)
            peer = of_all_threads(theirs) / of_all_threads(plain_filter)
        fast = filtered <= most * plain and (not has_dynamax or problem.n_states < least_from or peer >= least)
        rows.append(
            [
                name,
                f"{problem.n_states:,}",
                f"{plain / COLUMNS * 1e9:,.0f}",
                f"{filtered / COLUMNS * 1e9:,.0f}",
                f"{filtered / plain:.2f}",
                f"{with_stay / plain:.2f}",
                f"{dense / filtered:.1f} ×",
                f"{peer:.1f} ×" if has_dynamax else "-",
                verdict(fast),
            ]
        )
    report.text(
        f"## Filter, T = {COLUMNS:,}\n\n"
        "CPU time of one thread per column, likelihoods given: beside a plain vectorised loop of (sum of S) times N "
        "multiply-adds on an array in the first cache; with the stay probabilities that make draws lazy; and how many "
        "times as long a dense filter over the N joint states takes, in numba and in dynamax (CPU time of all its "
        "threads"
        + ("" if has_dynamax else "; not installed here")
        + f"). All log evidences are asserted equal. To keep: at most {most:g} times the multiply-adds, and at least "
        f"{least:g} times as fast as dynamax from {least_from} joint states on."
    )
    header = ["rows", "N", "multiply-adds, ns", "filter, ns", "ratio", "with stay", "dense", "dynamax", "goal"]
    report.table(header, rows)


def passes(report: Report) -> None:
    rows = []
    for name, sizes in CASES.items():
        layout, trans, edge, lik = problem = make_problem(sizes)
        n_states = problem.n_states
        edge = edge[:KEPT]
        alpha, stay, log_alpha = np.empty((3, KEPT, n_states))
        scratch, many = np.empty(3 * n_states), np.empty((len(sizes) + 1, n_states))
        log_trans, log_lik = Matrices(np.log(trans), layout), np.log(lik)
        weights, trans = np.empty((2, n_states)), Matrices(trans, layout)
        uniforms = np.random.default_rng(2).random((DRAWS, KEPT))
        paths, gamma = np.empty((DRAWS, KEPT), np.int64), np.empty(n_states)
        marginals, counts = np.empty((KEPT, sum(sizes))), np.zeros_like(trans.table)

        def log_filter(best, log_alpha=log_alpha, log_lik=log_lik, log_trans=log_trans, edge=edge):
            message = np.full(log_lik.shape[1], -np.inf)
            message[0] = 0.0
            log_passes.log_filter_block(log_lik, 1.0, log_trans, edge, 0, message, log_alpha, best)

        message = np.eye(n_states)[0]
        kernels.filter_block(lik, trans, edge, 0, message, alpha, stay, scratch)
        times = fastest(
            partial(kernels.draw_blocks, alpha, stay, trans, edge, 0, uniforms, paths, gamma.copy()),
            partial(kernels.draw_block, alpha, trans, edge, uniforms[0], paths[0].copy(), weights),
            partial(kernels.smooth_block, alpha, trans, edge, 0, gamma, marginals, scratch),
            partial(expectations.count_block, trans, alpha, edge, 0, gamma, alpha[:0], counts, many),
            partial(log_filter, False),
            partial(log_filter, True),
        )
        times[0] /= DRAWS
        changes = np.mean(np.diff(paths) != 0)
        rows.append([name, f"{changes:.3f}", *(f"{seconds / KEPT * 1e9:,.0f}" for seconds in times)])
    report.text(
        f"## Other passes\n\nNanoseconds of CPU time per column: one of {DRAWS} lazy draws side by side (messages and "
        "stay probabilities there, uniforms given), a single draw without them, smoothing, smoothing with "
        "expected moves, and in logarithms the filter and the one that maximises."
    )
    report.table(
        ["rows", "changes per column", "lazy draw", "single draw", "smooth", "count moves", "log filter", "best path"],
        rows,
    )


def house(n_rows: int) -> ch.FactorialHMM:
    """Rows of 2, 3, 4 and 5 states in turn, and ten equal ones."""
    rows = [
        ch.Row(np.arange(2 + k % 4) * (1.0 + 0.17 * k), ch.Sticky(renew=0.02), name=f"row_{k}") for k in range(n_rows)
    ]
    lamps = ch.Row([0, 0.3], ch.Switch(enter=0.01, leave=0.02), name="lamp", copies=10)
    return ch.FactorialHMM(rows=[*rows, lamps], emission=ch.Gaussian(sd=0.5))


def sweeps(report: Report) -> None:
    updates = [ch.RowGibbs(), ch.BlockGibbs(size=2), ch.BlockGibbs(size=3), ch.HammingBall()]
    moves = [ch.Swap(), ch.AugmentedCrossover(), ch.MosaicCrossover()]
    header = ["rows", "N", *(f"{type(one).__name__}{getattr(one, 'size', '')}" for one in updates)]
    header += [type(one).__name__ for one in moves]
    table = []
    n_columns = 2_000
    for n_rows in (3, 12):
        model = house(n_rows)
        target = model.target(model.simulate(n_columns, seed=1)[1])
        rng = np.random.default_rng(1)
        a, b = target.sample_prior(rng), target.sample_prior(rng)
        steps = [update.prepare(target, 1.0) for update in updates]
        pairs = [move.prepare(target, target, 1.0, 0.3) for move in moves]
        calls = [partial(step, a, rng.random(step.n_uniforms)) for step in steps]
        calls += [partial(pair, a, b, rng.random(pair.n_uniforms)) for pair in pairs]
        where = "tabulated" if target.tabulated else "streamed"
        times = [f"{seconds / n_columns * 1e9:,.0f}" for seconds in fastest(*calls)]
        table.append([f"{n_rows} and a group of 10, {where}", f"{float(target.n_states):.3g}", *times])
    report.text(
        f"## Updates and exchanges, T = {n_columns:,}\n\nNanoseconds of CPU time per column for one sweep over all "
        "rows, or one exchange. Rows have 2, 3, 4 and 5 states in turn; ten equal ones count as eleven states."
    )
    report.table(header, table)
