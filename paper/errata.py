"""Errata of the paper, measured: max |pi M - pi| of exchange moves as printed, as published in code, and corrected.

Two replicas of one row and T = 4 columns at beta 1 and 1/5. A pair of paths is a number n = a * 2^T + b, where bit t
of a is column t of replica i; M (4^T, 4^T) is the transition matrix of a move, summed over every random choice, and
pi = pi_i x pi_j. Candidate c < T exchanges columns 0..c, candidate T + t exchanges columns t+1..T-1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from chiasma.models.chains import Switches
from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.target import Target
from chiasma.types import Floats
from paper.result import ExperimentResult, Finding, ResultTable

N_COLUMNS = 4
BETAS = (1.0, 0.2)
# enter, leave of the row.
CHAINS = {"switching 0.1": (0.1, 0.1), "switching 0.4": (0.4, 0.4), "enter 0.05, leave 0.3": (0.05, 0.3)}
# Largest error that rounding can cause.
INVARIANT = 1e-12
# Errors above this count as a mistake; the actual mistakes are far larger.
WRONG = 1e-4

Pair = tuple[int, int]
Weights = Callable[["Replicas", Pair], Floats]


class Replicas:
    """The tempered targets of both replicas over all 2^T paths."""

    def __init__(self, target: Target):
        self.target = target
        self.n_columns = target.n_columns
        n_paths = 2**self.n_columns
        self.paths = (np.arange(n_paths)[:, None] >> np.arange(self.n_columns) & 1).astype(np.int64)
        self.log_lik = np.array([target.log_likelihood(path) for path in self.paths])
        self.log_prior = np.array([target.log_prior(path) for path in self.paths])

    def law(self, beta: float) -> Floats:
        """(2^T,) probabilities of the paths."""
        weights = np.exp(self.log_prior + beta * self.log_lik)
        return np.asarray(weights / weights.sum())

    @property
    def pi(self) -> Floats:
        """(4^T,) probabilities of the pairs."""
        return np.outer(self.law(BETAS[0]), self.law(BETAS[1])).ravel()

    def cross(self, pair: Pair, candidate: int) -> Pair:
        """Apply a candidate to a pair: swap the bits of the exchanged columns."""
        t = candidate % self.n_columns + 1
        prefix = (1 << t) - 1
        mask = prefix if candidate < self.n_columns else (1 << self.n_columns) - 1 - prefix
        differ = (pair[0] ^ pair[1]) & mask
        return pair[0] ^ differ, pair[1] ^ differ

    def error(self, matrix: Floats) -> float:
        """max |pi M - pi|."""
        return float(np.abs(self.pi @ matrix - self.pi).max())


def joint_weights(replicas: Replicas, pair: Pair) -> Floats:
    """Probabilities of all 2T candidates, each scored as pi_i(z_i) pi_j(z_j)."""
    pi_i, pi_j = (replicas.law(beta) for beta in BETAS)
    candidates = [replicas.cross(pair, c) for c in range(2 * replicas.n_columns)]
    weights = np.array([pi_i[a] * pi_j[b] for a, b in candidates])
    return weights / weights.sum()


def printed_weights(replicas: Replicas, pair: Pair) -> Floats:
    """As printed in Algorithm 2: the flipped candidate is named (z_j, z_i) and scored as pi_i(z_j) pi_j(z_i)."""
    pi_i, pi_j = (replicas.law(beta) for beta in BETAS)
    normal = [replicas.cross(pair, t) for t in range(replicas.n_columns)]
    weights = np.array([pi_i[a] * pi_j[b] for a, b in normal] * 2)
    return weights / weights.sum()


def augmented_matrix(replicas: Replicas, weights: Weights, cross_auxiliary: bool) -> Floats:
    """Augmented crossover. cross_auxiliary: the drawn candidate is applied to (u, v), and not to (x_i, x_j)."""
    n_paths, n_candidates = 2**replicas.n_columns, 2 * replicas.n_columns
    pairs = list(np.ndindex(n_paths, n_paths))
    scores = {pair: weights(replicas, pair) for pair in pairs}
    matrix = np.zeros((len(pairs), len(pairs)))
    for row, pair in enumerate(pairs):
        for first in range(n_candidates):
            auxiliary = replicas.cross(pair, first)
            for second, chance in enumerate(scores[auxiliary]):
                a, b = replicas.cross(auxiliary if cross_auxiliary else pair, second)
                matrix[row, a * n_paths + b] += chance / n_candidates
    return matrix


def random_matrix(replicas: Replicas, both_likelihoods: bool) -> Floats:
    """One-point random crossover; both_likelihoods=False leaves the likelihood of replica j out of the ratio."""
    n_paths = 2**replicas.n_columns
    log_i = replicas.log_prior + BETAS[0] * replicas.log_lik
    log_j = replicas.log_prior + (BETAS[1] * replicas.log_lik if both_likelihoods else 0.0)
    matrix = np.zeros((n_paths**2, n_paths**2))
    for row, (a, b) in enumerate(np.ndindex(n_paths, n_paths)):
        for cut in range(replicas.n_columns):
            c, d = replicas.cross((a, b), cut)
            chance = min(1.0, float(np.exp(log_i[c] + log_j[d] - log_i[a] - log_j[b])))
            matrix[row, c * n_paths + d] += chance / replicas.n_columns
            matrix[row, row] += (1 - chance) / replicas.n_columns
    return matrix


MOVES: dict[str, Callable[[Replicas], Floats]] = {
    "augmented, as printed": lambda r: augmented_matrix(r, printed_weights, cross_auxiliary=False),
    "augmented, only its last lines as printed": lambda r: augmented_matrix(r, joint_weights, cross_auxiliary=False),
    "augmented, only its weights as printed": lambda r: augmented_matrix(r, printed_weights, cross_auxiliary=True),
    "augmented, corrected": lambda r: augmented_matrix(r, joint_weights, cross_auxiliary=True),
    "random, as in the published code": lambda r: random_matrix(r, both_likelihoods=False),
    "random, corrected": lambda r: random_matrix(r, both_likelihoods=True),
}


def tiny_replicas(enter: float, leave: float, n_columns: int, seed: int) -> Replicas:
    """One row, simulated data."""
    model = FactorialHMM(rows=Switches(enter, leave), emission=Gaussian([1.0], sd=0.8))
    _, y = model.simulate(n_columns, seed)
    target = model.target(y)
    assert isinstance(target, Target)
    return Replicas(target)


def errors(n_columns: int, seed: int) -> dict[str, list[float]]:
    """max |pi M - pi| of every move on every chain."""
    tiny = [tiny_replicas(*chain, n_columns, seed) for chain in CHAINS.values()]
    return {name: [replicas.error(matrix(replicas)) for replicas in tiny] for name, matrix in MOVES.items()}


def run(folder: Path, quick: bool, seed: int) -> ExperimentResult:
    """Compute the table of errors. quick: three columns instead of four."""
    began = perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    n_columns = N_COLUMNS - 1 if quick else N_COLUMNS
    found = errors(n_columns, seed)
    return ExperimentResult(
        name="errata",
        title="Errata: do the moves leave the target invariant?",
        settings={
            "rows": 1, "columns": n_columns, "betas": BETAS, "seed": seed,
            "chains": {name: {"enter": enter, "leave": leave} for name, (enter, leave) in CHAINS.items()},
            "emission": "Gaussian, weight 1, sd 0.8",
        },
        findings=[
            _finding(
                "Algorithm 2 leaves the target invariant.",
                found, "augmented, as printed", "augmented, corrected",
                "Its last lines cross (x_i, x_j) where they must cross (u, v), and the weight of a flipped crossover "
                "has its arguments exchanged. Either mistake alone is enough.",
            ),
            _finding(
                "The authors' published code carries out the random crossover of the paper.",
                found, "random, as in the published code", "random, corrected",
                "The move as the paper describes it is right; the code forgets the likelihood of one chain in the "
                "acceptance ratio.",
            ),
        ],
        figures=[],
        tables=[
            ResultTable(
                stem="errata",
                caption="max |πM − π|, where M is the full transition matrix of a move between two replicas of one row "
                f"and {n_columns} columns. An invariant move has zero, up to rounding.",
                header=["move", *CHAINS, "invariant"],
                rows=[
                    [name, *(f"{value:.2g}" for value in values), "yes" if max(values) < INVARIANT else "no"]
                    for name, values in found.items()
                ],
            )
        ],
        seconds=perf_counter() - began,
        folder=folder,
    )  # fmt: skip


def _finding(claim: str, found: dict[str, list[float]], wrong: str, right: str, words: str) -> Finding:
    values: npt.NDArray[np.float64] = np.array([found[wrong], found[right]])
    differs = bool(values[0].max() > WRONG and values[1].max() < INVARIANT)
    return Finding(
        claim=claim,
        ours=f"Largest error of the transition matrix: {wrong} {values[0].max():.2g}, {right} {values[1].max():.2g}. "
        f"{words}",
        verdict="differs" if differs else "agrees",
        numbers={wrong: found[wrong], right: found[right]},
    )
