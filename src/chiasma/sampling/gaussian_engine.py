"""The engine of GaussianBlocks without a ladder: many sweeps in one call of a compiled loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chiasma.kernels.gaussian_runs import gaussian_run
from chiasma.sampling.engines import BUFFER, CompiledEngine, StateEngine, StepEngine
from chiasma.sampling.problems import PathProblem, Problem
from chiasma.sampling.updates import GaussianBlocks, GaussianSweep
from chiasma.storage.trace import Draws


class GaussianEngine(StateEngine):
    """One replica, advanced as StepEngine would: the same uniforms in the same places."""

    problem: PathProblem

    @staticmethod
    def serves(problem: Problem, betas: Sequence[float]) -> bool:
        return (
            isinstance(problem, PathProblem)
            and isinstance(problem.update, GaussianBlocks)
            and len(betas) == 1
            and betas[0] > 0
        )

    def _bind(self) -> None:
        target = self.problem.target
        sweep = self.problem.sweep(self.betas[0])
        parts = target.likelihood.gaussian_parts()
        assert isinstance(sweep, GaussianSweep)
        assert parts is not None
        self.n_sweep = sweep.n_uniforms
        self.sweep = sweep.noise, sweep.parts, sweep.size, *sweep.transitions, sweep.scratch
        n_seen = np.count_nonzero(~np.isnan(parts.y), axis=1)
        self.halves = 0.5 / parts.sd**2
        self.constant = -float(np.sum(n_seen * (np.log(parts.sd) + 0.5 * np.log(2 * np.pi))))

    def piece(self) -> int:
        return max(1, BUFFER // self.n_sweep)

    def advance(self, n: int, thin: int) -> Draws:
        draws = self.empty_draws(n, thin)
        log_trans, rng = self.problem.target.log_trans, self.streams.replica(0)
        kept = 0
        for first in range(0, n, self.piece()):
            uniforms = rng.random((min(self.piece(), n - first), self.n_sweep))
            kept += gaussian_run(
                self.sweep, self.halves, self.constant, log_trans, uniforms, self.iteration, thin, self.states[0],
                draws.states[kept:], draws.log_lik[kept:], draws.log_prior[kept:],
            )  # fmt: skip
            self.iteration += len(uniforms)
        return draws


def state_engine(problem: Problem, betas: Sequence[float]) -> type[StateEngine]:
    """The fastest engine that serves a problem without learned parameters."""
    if GaussianEngine.serves(problem, betas):
        return GaussianEngine
    return CompiledEngine if CompiledEngine.serves(problem) else StepEngine
