"""The same exact work by other means: the expanded HMM of 2^K states in hmmlearn and dynamax, and the factorised
model as one would write it in NumPy, JAX or plain numba.

Jobs, emissions included: the log-likelihood, marginals, the most probable path, one draw of the whole path, and the
gradient of the log-likelihood. All results are asserted equal. Beside them, what a further draw at the same parameters
costs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

# One thread: then CPU seconds are seconds, also where other processes want the machine.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import jax.random as jr
import numba
import numpy as np
from core import example
from dynamax.hidden_markov_model import hmm_filter, hmm_posterior_mode, hmm_posterior_sample, hmm_smoother
from hmmlearn import _hmmc
from hmmlearn.stats import log_multivariate_normal_density
from jax import lax

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

jax.config.update("jax_enable_x64", True)

ROWS = (3, 6, 8, 10)
COLUMNS = (1_000, 10_877)
PATIENCE = 0.1  # CPU seconds of repeats per cell, about
LAG = 0.05
SLOW = 0.5  # seconds of a call that is timed in one turn only
LONGEST = 2.0  # seconds that a single call may take
TURNS = 2
FURTHER = 100
DYNAMAX_FURTHER = 20
GOALS = {  # (job, K): how many times faster than the faster of dynamax's two precisions, at the larger T
    ("log-likelihood", 6): 4,
    ("log-likelihood", 10): 15,
    ("draw", 6): 8,
    ("draw", 10): 15,
    ("further draw", 6): 100,
    ("further draw", 10): 300,
}


class Problem(NamedTuple):
    """A model, its data, and the arrays of its expanded form."""

    model: ch.FactorialHMM
    y: np.ndarray  # (T,)
    matrices: np.ndarray  # (K, 2, 2)
    initial: np.ndarray  # (S,)
    transition: np.ndarray  # (S, S)
    means: np.ndarray  # (S,)
    sd: float


def make_problem(n_rows: int, n_columns: int) -> Problem:
    model, data = example(n_rows, n_columns)
    target = model.target(data)
    initial, one = np.ones(1), np.ones((1, 1))
    for k in range(n_rows):  # bit k of the code is row k: later rows are the slower index
        initial = np.kron(target.trans[0, k, :2], initial)
        one = np.kron(target.trans[-1, k].reshape(2, 2), one)
    levels = np.array([sum(w for k, w in enumerate(model.emission.weights) if s >> k & 1) for s in range(1 << n_rows)])
    matrices = target.trans[-1].reshape(n_rows, 2, 2)
    return Problem(model, data.y, matrices, initial, one, levels * model.emission.depth, float(model.emission.sd))


JOBS = {
    "log-likelihood": "Log-likelihood",
    "marginals": "Marginals: the probability of every row to be on, in every column",
    "best path": "Most probable path (Viterbi)",
    "draw": "One draw of the path, from scratch",
    "gradient": "Log-likelihood and its gradient: K weights and the noise",
}
# How one package does the jobs that it can do; each is a function without arguments, made for a problem.
Peer = dict[str, Callable[[], Any]]


def ours(problem: Problem) -> Peer:
    model, y, stream = problem.model, problem.y, np.random.PCG64(1)
    n_rows = len(problem.matrices)
    flat = ch.Normal(0.0, 1e9)
    unknown = ch.FactorialHMM(
        rows=ch.Switches(enter=0.01, leave=0.01),
        emission=ch.Gaussian([flat] * n_rows, depth=model.emission.depth, sd=ch.HalfNormal(1e9)),
    )
    at = {"weights": model.emission.weights, "sd": float(model.emission.sd)}

    def gradient() -> np.ndarray:
        slopes = ch.exact.value_and_gradient(unknown, y, at)[1]
        return np.append(slopes["weights"], slopes["sd"])

    return {
        "log-likelihood": lambda: ch.exact.log_evidence(model, y),
        "marginals": lambda: ch.exact.marginals(model, y),
        "best path": lambda: ch.exact.map_states(model, y),
        "draw": lambda: ch.exact.draws(model, y, 1, seed=stream),
        "gradient": gradient,
    }


def states_of(codes: np.ndarray, n_rows: int) -> np.ndarray:
    """(K, T) states of rows from codes (T,)."""
    return codes >> np.arange(n_rows)[:, None] & 1


def log_densities(problem: Problem) -> np.ndarray:
    z = (problem.y[:, None] - problem.means) / problem.sd
    return -0.5 * z * z - (math.log(problem.sd) + 0.5 * math.log(2 * math.pi))


def dynamax(dtype: type) -> Callable[[Problem], Peer]:
    def make(problem: Problem) -> Peer:
        # The transitions are constants, which the compiler lays out as its products like them: passed, they would be
        # transposed at every step. The rest is passed, or it would do the emissions once and for all.
        initial, transition = jnp.asarray(problem.initial, dtype), jnp.asarray(problem.transition, dtype)
        arrays = [jnp.asarray(value, dtype) for value in (problem.y, problem.means, problem.sd)]
        key, n_rows = jr.key(1), len(problem.matrices)

        def emissions(y: jax.Array, means: jax.Array, sd: jax.Array) -> jax.Array:
            z = (y[:, None] - means) / sd
            return (-0.5 * z * z - jnp.log(sd) - 0.5 * math.log(2 * math.pi)).astype(dtype)

        @jax.jit
        def log_likelihood(*rest: jax.Array) -> jax.Array:
            return hmm_filter(initial, transition, emissions(*rest)).marginal_loglik

        @jax.jit
        def draw(key: jax.Array, *rest: jax.Array) -> jax.Array:
            return hmm_posterior_sample(key, initial, transition, emissions(*rest))[1]

        on = jnp.asarray(states_of(np.arange(len(problem.means)), n_rows), dtype)

        @jax.jit
        def marginals(*rest: jax.Array) -> jax.Array:
            return on @ hmm_smoother(initial, transition, emissions(*rest)).smoothed_probs.T

        @jax.jit
        def best(*rest: jax.Array) -> jax.Array:
            return hmm_posterior_mode(initial, transition, emissions(*rest))

        def of_parameters(parameters: jax.Array, y: jax.Array) -> jax.Array:
            means = problem.model.emission.depth * (parameters[:-1] @ on)
            return hmm_filter(initial, transition, emissions(y, means, parameters[-1])).marginal_loglik

        slopes = jax.jit(jax.value_and_grad(of_parameters))
        parameters = jnp.asarray(np.append(problem.model.emission.weights, problem.sd), dtype)
        return {
            "log-likelihood": lambda: float(log_likelihood(*arrays)),
            "marginals": lambda: np.asarray(marginals(*arrays)),
            "best path": lambda: states_of(np.asarray(best(*arrays)), n_rows),
            "draw": lambda: draw(key, *arrays).block_until_ready(),
            "gradient": lambda: np.asarray(slopes(parameters, arrays[0])[1]),
        }

    return make


def dynamax_many(problem: Problem, dtype: type) -> Callable[[], object]:
    """Several draws at once, so that they share one filter: dynamax's way to a further draw."""
    initial, transition = jnp.asarray(problem.initial, dtype), jnp.asarray(problem.transition, dtype)
    log_lik = jnp.asarray(log_densities(problem), dtype)
    keys = jr.split(jr.key(1), DYNAMAX_FURTHER)
    sample = jax.jit(jax.vmap(lambda key: hmm_posterior_sample(key, initial, transition, log_lik)[1]))
    return lambda: sample(keys).block_until_ready()


def backward_numpy(alpha: np.ndarray, transition: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(1)
    uniforms = rng.random(len(alpha))
    codes = np.empty(len(alpha), np.int64)
    weights = alpha[-1]
    for t in range(len(alpha) - 1, -1, -1):
        if t < len(alpha) - 1:
            weights = alpha[t] * transition[:, codes[t + 1]]
        cumulative = np.cumsum(weights)
        codes[t] = np.searchsorted(cumulative, uniforms[t] * cumulative[-1], side="right")
    return codes


def hmmlearn(implementation: str) -> Callable[[Problem], Peer]:
    """Its density and its compiled passes, called as its `score` calls them; it has no path draw of its own."""

    def make(problem: Problem) -> Peer:
        variances = np.full((len(problem.means), 1), problem.sd**2)

        def densities() -> np.ndarray:
            return log_multivariate_normal_density(problem.y[:, None], problem.means[:, None], variances, "diag")

        def scaled() -> tuple[float, np.ndarray]:
            log_lik, alpha, _ = _hmmc.forward_scaling(problem.initial, problem.transition, np.exp(densities()))
            return log_lik, alpha

        def logarithms() -> tuple[float, np.ndarray]:
            log_lik, alpha = _hmmc.forward_log(problem.initial, problem.transition, densities())
            return log_lik, np.exp(alpha - alpha.max(axis=1, keepdims=True))

        def marginals() -> np.ndarray:
            if implementation == "scaling":
                lik = np.exp(densities())
                _, alpha, scales = _hmmc.forward_scaling(problem.initial, problem.transition, lik)
                weights = alpha * _hmmc.backward_scaling(problem.initial, problem.transition, lik, scales)
            else:
                log_lik = densities()
                _, alpha = _hmmc.forward_log(problem.initial, problem.transition, log_lik)
                total = alpha + _hmmc.backward_log(problem.initial, problem.transition, log_lik)
                weights = np.exp(total - total.max(axis=1, keepdims=True))
            return np.asarray(on @ (weights / weights.sum(axis=1, keepdims=True)).T)

        def best() -> np.ndarray:
            return states_of(_hmmc.viterbi(problem.initial, problem.transition, densities())[1], n_rows)

        n_rows = len(problem.matrices)
        on = states_of(np.arange(len(problem.means)), n_rows)
        forward = scaled if implementation == "scaling" else logarithms
        made: Peer = {
            "log-likelihood": lambda: forward()[0],
            "marginals": marginals,
            "draw": lambda: backward_numpy(forward()[1], problem.transition),
        }
        return made | ({"best path": best} if implementation == "log" else {})

    return make


def halves(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Transition matrices of the low and of the high rows: a step is low' M high on the message as a matrix."""
    both = []
    middle = len(problem.matrices) // 2
    for rows in (problem.matrices[:middle], problem.matrices[middle:]):
        one = np.ones((1, 1))
        for matrix in rows:
            one = np.kron(matrix, one)
        both.append(one)
    return both[0], both[1]


def factorised_numpy(problem: Problem) -> Peer:
    low, high = halves(problem)

    def forward() -> tuple[float, np.ndarray]:
        log_lik = log_densities(problem)
        top = log_lik.max(axis=1)
        lik = np.exp(log_lik - top[:, None])
        alpha = np.empty_like(lik)
        total = float(top.sum())
        alpha[0] = problem.initial * lik[0]
        for t in range(len(lik)):
            if t:
                message = alpha[t - 1].reshape(len(high), len(low))
                alpha[t] = (high.T @ message @ low).ravel() * lik[t]
            norm = alpha[t].sum()
            alpha[t] /= norm
            total += math.log(norm)
        return total, alpha

    return {
        "log-likelihood": lambda: forward()[0],
        "draw": lambda: backward_numpy(forward()[1], problem.transition),
    }


def factorised_jax(problem: Problem) -> Peer:
    """The filter only, in double precision: two small products per step."""
    low, high = (jnp.asarray(half) for half in halves(problem))
    arrays = [jnp.asarray(value) for value in (problem.y, problem.means, problem.initial)]

    @jax.jit
    def log_likelihood(y: jax.Array, means: jax.Array, initial: jax.Array) -> jax.Array:
        log_lik = -0.5 * ((y[:, None] - means) / problem.sd) ** 2 - jnp.log(problem.sd) - 0.5 * math.log(2 * math.pi)
        top = log_lik.max(axis=1)

        def step(predicted: jax.Array, lik: jax.Array) -> tuple[jax.Array, jax.Array]:
            filtered = predicted * lik
            norm = filtered.sum()
            message = (filtered / norm).reshape(len(high), len(low))
            return (high.T @ message @ low).ravel(), jnp.log(norm)

        _, norms = lax.scan(step, initial, jnp.exp(log_lik - top[:, None]))
        return norms.sum() + top.sum()

    return {"log-likelihood": lambda: float(log_likelihood(*arrays))}


@numba.njit(fastmath={"contract"}, cache=True)
def _butterfly(y, means, sd, initial, matrices, uniforms, alpha, codes):
    """What a first try looks like: one axis at a time, one exponential per state, full backward steps."""
    n_columns, n_states = alpha.shape
    total = 0.0
    for t in range(n_columns):
        row = alpha[t]
        for s in range(n_states):
            row[s] = alpha[t - 1, s] if t else initial[s]
        if t:
            for k in range(matrices.shape[0]):
                stride = 1 << k
                for base in range(0, n_states, 2 * stride):
                    for s in range(base, base + stride):
                        u, v = row[s], row[s + stride]
                        row[s] = u * matrices[k, 0, 0] + v * matrices[k, 1, 0]
                        row[s + stride] = u * matrices[k, 0, 1] + v * matrices[k, 1, 1]
        norm = 0.0
        for s in range(n_states):
            z = (y[t] - means[s]) / sd
            row[s] *= math.exp(-0.5 * z * z)
            norm += row[s]
        for s in range(n_states):
            row[s] /= norm
        total += math.log(norm)
    weights = np.empty(n_states)
    for t in range(uniforms.shape[0] - 1, -1, -1):
        for s in range(n_states):
            weights[s] = alpha[t, s]
            if t < n_columns - 1:
                for k in range(matrices.shape[0]):
                    weights[s] *= matrices[k, s >> k & 1, codes[t + 1] >> k & 1]
        left = uniforms[t] * weights.sum()
        for s in range(n_states):
            codes[t] = s
            left -= weights[s]
            if left < 0.0:
                break
    return total - n_columns * (math.log(sd) + 0.5 * math.log(2 * math.pi))


def plain_numba(problem: Problem) -> Peer:
    def run(n_uniforms: int) -> float:
        alpha = np.empty((len(problem.y), len(problem.means)))
        uniforms = np.random.default_rng(1).random(n_uniforms)
        codes = np.empty(len(problem.y), np.int64)
        arrays = problem.y, problem.means, problem.sd, problem.initial, problem.matrices
        return float(_butterfly(*arrays, uniforms, alpha, codes))

    return {"log-likelihood": lambda: run(0), "draw": lambda: run(len(problem.y))}


PEERS: dict[str, Callable[[Problem], Peer]] = {
    "chiasma": ours,
    "plain numba butterfly": plain_numba,
    "JAX, rows in two halves": factorised_jax,
    "NumPy, rows in two halves": factorised_numpy,
    "dynamax, single precision": dynamax(np.float32),
    "dynamax, double precision": dynamax(np.float64),
    "hmmlearn, scaling": hmmlearn("scaling"),
    "hmmlearn, logarithms": hmmlearn("log"),
}


def least(function: Callable[[], object], predicted: float = 0.0) -> float:
    """CPU seconds of a call: the least over batches. The first call, which may compile, is left out unless calls are
    slow. Batches last LAG or more, because the CPU time of a thread that is still running lags behind, and JAX computes
    in threads.
    """
    if predicted < 5.0:
        function()
    best, spent, calls, batches = math.inf, 0.0, 1, 0
    while batches < 3 and spent < 10 * PATIENCE:
        began = process_time()
        for _ in range(calls):
            function()
        took = process_time() - began
        spent += took
        if took < LAG:
            calls = max(2 * calls, math.ceil(1.2 * calls * LAG / max(took, 1e-4)))
        else:
            best, batches = min(best, took / calls), batches + 1
    return best


Cell = tuple[str, str, int, int]  # job, package, rows, columns
Seconds = dict[Cell, float]


def measure() -> tuple[Seconds, set[Cell]]:
    seconds: Seconds = {}
    skipped: set[Cell] = set()
    for n_columns in COLUMNS:
        for n_rows in ROWS:
            problem = make_problem(n_rows, n_columns)
            peers = {name: make(problem) for name, make in PEERS.items()}
            # In turns: where the machine is slow for some seconds, it is slow for all.
            for _ in range(TURNS):
                for name, peer in peers.items():
                    for job, function in peer.items():
                        shorter = seconds.get((job, name, n_rows, COLUMNS[0]), 0.0)
                        take(
                            seconds, skipped, (job, name, n_rows, n_columns), function, shorter * n_columns / COLUMNS[0]
                        )
                further(seconds, problem)
            compare(seconds, skipped, problem, peers)
    return seconds, skipped


def take(seconds: Seconds, skipped: set[Cell], cell: Cell, function: Callable[[], object], predicted: float) -> None:
    """One turn of a cell; slow calls have one turn, and the slowest none."""
    known = seconds.get(cell, math.inf)
    if predicted > LONGEST:
        skipped.add(cell)
        seconds[cell] = predicted
    elif cell not in seconds or known < SLOW:
        seconds[cell] = min(known, least(function, predicted))


def further(seconds: Seconds, problem: Problem) -> None:
    """What one more draw costs at the same parameters: many draws less one, over their number."""
    n_rows, n_columns = len(problem.matrices), len(problem.y)
    stream = np.random.PCG64(1)
    many = least(lambda: ch.exact.draws(problem.model, problem.y, 1 + FURTHER, seed=stream))
    one = least(lambda: ch.exact.draws(problem.model, problem.y, 1, seed=stream))
    costs = {"chiasma": max(0.0, many - one) / FURTHER}
    for name, dtype in (("dynamax, single precision", np.float32), ("dynamax, double precision", np.float64)):
        if ("further draw", name, n_rows, n_columns) not in seconds:  # once: it compiles, and takes long
            once = seconds["draw", name, n_rows, n_columns]
            costs[name] = max(least(dynamax_many(problem, dtype)) - once, 0.0) / (DYNAMAX_FURTHER - 1)
    for name, cost in costs.items():
        cell = "further draw", name, n_rows, n_columns
        seconds[cell] = min(seconds.get(cell, math.inf), cost)


def compare(seconds: Seconds, skipped: set[Cell], problem: Problem, peers: dict[str, Peer]) -> None:
    """Results are the same, wherever they can be had in reasonable time."""
    n_rows, n_columns = len(problem.matrices), len(problem.y)
    for job in JOBS:
        if job == "draw":
            continue
        reference = peers["chiasma"][job]()
        for name, peer in peers.items():
            cell = job, name, n_rows, n_columns
            if job not in peer or cell in skipped or seconds[cell] > LONGEST / 2:
                continue
            # Single precision adds up T roundings; everything else agrees to far more digits.
            single = "single" in name
            found = peer[job]()
            if job == "best path":
                # Of two paths that are equally probable either may be found.
                values = [ch.log_joint(problem.model, problem.y, path) for path in (found, reference)]
                assert math.isclose(*values, rel_tol=1e-4 if single else 1e-12), (name, n_rows, values)
            elif job == "marginals":
                np.testing.assert_allclose(found, reference, atol=1e-2 if single else 1e-8)
            else:
                np.testing.assert_allclose(
                    found,
                    reference,
                    rtol=1e-3 if single else 1e-8,
                    atol=1e-3 * np.max(np.abs(reference)) if single else 0.0,
                )


def run(report: Report) -> None:
    seconds, skipped = measure()
    report.text(
        "One Gaussian model with K rows: evenly spaced weights that sum to one, the largest three times the smallest; "
        "depth 15, sd 1, switching probability 0.01. CPU milliseconds from the data to the result, emissions "
        "included, after compilation, on one thread; packages take turns. The benchmark asserts that results agree: "
        "marginals to 1e-8, best paths in their probability, everything else to 1e-8 (relative), all to less in single "
        "precision. hmmlearn cannot draw paths; we add backward sampling in NumPy. In brackets: how many times as long "
        "as chiasma."
        + (
            f" ≈ marks cells that would take more than {LONGEST:.0f} s per call; they are extrapolated from "
            f"T = {COLUMNS[0]:,}."
            if skipped
            else ""
        )
    )
    cells = [(k, t) for t in COLUMNS for k in ROWS]

    def cell(job: str, name: str, k: int, t: int) -> str:
        if (job, name, k, t) not in seconds:
            return "–"
        value = seconds[job, name, k, t]
        mark = "≈ " if (job, name, k, t) in skipped else ""
        ratio = value / seconds[job, "chiasma", k, t]
        beside = "" if name == "chiasma" else f" ({ratio:.1f})" if ratio < 9.95 else f" ({ratio:,.0f})"
        return f"{mark}{value * 1e3:,.3g}{beside}" if value < 1 else f"{mark}{value * 1e3:,.0f}{beside}"

    header = ["", *(f"K = {k}, T = {t:,}" for k, t in cells)]
    for job, title in JOBS.items():
        report.text(f"## {title}, ms")
        names = [name for name in PEERS if (job, name, *cells[0]) in seconds]
        report.table(header, [[name, *(cell(job, name, k, t) for k, t in cells)] for name in names])
    report.text(
        "## A further draw at the same parameters, ms\n\n"
        f"chiasma: the mean of {FURTHER} further draws. dynamax filters again for every new draw (table above) unless "
        f"draws are batched. The table below gives the mean of {DYNAMAX_FURTHER - 1} further draws batched with "
        "`jax.vmap` over keys."
    )
    names = ["chiasma", "dynamax, single precision", "dynamax, double precision"]
    report.table(header, [[name, *(cell("further draw", name, k, t) for k, t in cells)] for name in names])
    rows = []
    last = COLUMNS[-1]
    for (job, k), goal in GOALS.items():
        peer_job = "draw" if job == "further draw" else job
        peer = min(seconds[peer_job, f"dynamax, {kind} precision", k, last] for kind in ("single", "double"))
        ratio = peer / seconds[job, "chiasma", k, last]
        rows.append([f"{job}, K = {k}", f"{goal} ×", f"{ratio:.1f} ×", "reached" if ratio >= goal else "missed"])
    report.text(
        f"## Goals at T = {last:,}, against the faster of dynamax's two precisions\n\n"
        "A further draw is compared with dynamax's draw from scratch, because dynamax filters again for a new draw."
    )
    report.table(["job", "required", "measured", "goal"], rows)
    factors = {
        job: min(
            seconds[cell] / seconds[job, "chiasma", cell[2], cell[3]]
            for cell in seconds
            if cell[0] == job and cell[1] != "chiasma"
        )
        for job in JOBS
    }
    smallest = ", ".join(f"{job} {factor:.1f} ×" for job, factor in factors.items())
    report.text(f"The smallest lead of chiasma in any cell, over all other rows: {smallest}.")
    worth = [
        f"{seconds['gradient', 'chiasma', k, t] / seconds['log-likelihood', 'chiasma', k, t]:.1f} (K = {k}, T = {t:,})"
        for k, t in cells
    ]
    report.text(f"What a gradient costs, in log-likelihoods: {', '.join(worth)}.")
