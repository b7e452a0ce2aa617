"""The paper's simulation study: K = 3 rows whose weights nearly satisfy w1 + w2 = w3.

A column (1, 1, 0) and a column (0, 0, 1) then give almost the same level, so each of the twenty blocks of the
signal has two explanations. Rows (3, T), T = 195: blocks of five columns, (1, 1, 0) and (0, 0, 0) in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, ParamSpec

import numpy as np
import numpy.typing as npt

from chiasma import exact
from chiasma.errors import InvalidInput
from chiasma.kernels.codes import pack, unpack
from chiasma.models.chains import BinaryChains
from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.sampling.updates import BlockGibbs, Exact, HammingBall, RowGibbs, Sweep, Update
from chiasma.types import Floats

WEIGHTS = (0.21, 0.31, 0.48)
DEPTH = 15.0
SD = 1.0
SWITCHING = 0.1
N_BLOCKS = 20
BLOCK_LENGTH = 5

UPDATES: dict[str, Update] = {
    "row Gibbs": RowGibbs(),
    "block Gibbs (2 rows)": BlockGibbs(size=2),
    "Hamming ball (radius 1)": HammingBall(radius=1),
    "exact draws": Exact(),
}

P = ParamSpec("P")


class Study(NamedTuple):
    """A model, the states (K, T) that made the data, and the data."""

    model: FactorialHMM
    states: npt.NDArray[np.int8]
    data: Observations


def simulation_study(seed: int | None = None, switching: float = SWITCHING) -> Study:
    """The study with fresh noise. switching: enter and leave of every row; smaller values make it harder.

    >>> study = simulation_study(seed=1)
    >>> study.states.shape, study.states[:, [0, 5, 10]].T.tolist()
    ((3, 195), [[1, 1, 0], [0, 0, 0], [1, 1, 0]])
    """
    model = FactorialHMM(
        chains=BinaryChains(enter=switching, leave=switching, initial=0.5),
        emission=Gaussian(weights=WEIGHTS, depth=DEPTH, sd=SD),
    )
    on = np.repeat(np.arange(2 * N_BLOCKS - 1) % 2 == 0, BLOCK_LENGTH)
    states = np.outer([1, 1, 0], on).astype(np.int8)
    y = np.random.default_rng(seed).normal(DEPTH * np.asarray(WEIGHTS) @ states, SD)
    return Study(model, states, Observations(y))


class Entry(NamedTuple):
    """One line of the comparison.

    error : mean over rows and columns of |marginal - exact marginal|.
    third_row : mean of P(x3 = 1) over the blocks: how much weight the explanation (0, 0, 1) gets.
    """

    name: str
    error: float
    third_row: float
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Entries: the exact solution, the start alone, then every update."""

    n_sweeps: int
    log_evidence: float
    entries: tuple[Entry, ...]

    def in_words(self) -> str:
        """The result in one sentence: which updates covered less than half of the way from the start."""
        _, start, *updates = self.entries
        stuck = [entry.name for entry in updates if entry.error > start.error / 2]
        arrived = [entry.name for entry in updates if entry.error <= start.error / 2]
        near = f"still near the explanation they started from: {', '.join(stuck)}" if stuck else ""
        free = f"free of it: {', '.join(arrived)}" if arrived else ""
        return f"After {self.n_sweeps:,} sweeps, {'; '.join(filter(None, [near, free]))}."


def compare_updates(study: Study, n_sweeps: int = 1_000, seed: int | None = None) -> Comparison:
    """Sample the study with every update, each from the true states, and compare the marginals with the exact ones.

    Times exclude compilation: everything runs once before it is timed.
    """
    if n_sweeps < 1:
        raise InvalidInput(f"the number of sweeps must be at least 1, got {n_sweeps}")
    model, states, data = study
    in_blocks = states.any(axis=0)

    def entry(name: str, marginals: Floats, seconds: float | None) -> Entry:
        error = np.abs(marginals - solution).mean()
        return Entry(name, float(error), float(marginals[2, in_blocks].mean()), seconds)

    exact.marginals(model, data)
    solution, seconds = _timed(exact.marginals, model, data)
    entries = [entry("exact solution", solution, seconds), entry("the start itself", states.astype(float), None)]
    streams = np.random.SeedSequence(seed).spawn(len(UPDATES))
    for (name, update), stream in zip(UPDATES.items(), streams, strict=True):
        sweep = update.prepare(model.exact_target(data), beta=1.0)
        _sampled_marginals(sweep, states, 1, stream)
        marginals, seconds = _timed(_sampled_marginals, sweep, states, n_sweeps, stream)
        entries.append(entry(name, marginals, seconds))
    return Comparison(n_sweeps=n_sweeps, log_evidence=exact.log_evidence(model, data), entries=tuple(entries))


def _timed(function: Callable[P, Floats], *args: P.args, **kwargs: P.kwargs) -> tuple[Floats, float]:
    began = perf_counter()
    result = function(*args, **kwargs)
    return result, perf_counter() - began


def _sampled_marginals(
    sweep: Sweep, start: npt.NDArray[np.int8], n_sweeps: int, stream: np.random.SeedSequence
) -> Floats:
    """(K, T) means of the states over sweeps from the given start."""
    rng = np.random.default_rng(stream)
    codes = pack(start)
    uniforms = np.empty(sweep.n_uniforms)
    total = np.zeros(start.shape)
    for _ in range(n_sweeps):
        sweep(codes, rng.random(out=uniforms))
        total += unpack(codes, len(start))
    return total / n_sweeps
