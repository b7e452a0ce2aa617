"""Learned parameters: updates given a path, and with the path integrated out.

At any beta the target of a replica is p(theta) p(X | theta) p(y | X, theta)^beta.
- Given X, the parameters of the chains and of the emission are independent. One pass over the columns computes
  sufficient statistics of both; conjugate parameters are drawn directly, the others by slice sampling.
- Without X, p(theta) sum_X p(X | theta) p(y | X, theta)^beta comes from the exact filter.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from chiasma.errors import ImpossibleData, InvalidInput
from chiasma.exact.passes import MEMORY, Passes
from chiasma.kernels.codes import unpack
from chiasma.kernels.transitions import count_moves
from chiasma.models.additive import Additive
from chiasma.models.chains import BinaryChains
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.target import Target
from chiasma.sampling.conjugate import draw_chains, draw_gaussian
from chiasma.sampling.slices import Lines, LogDensity
from chiasma.types import Floats, Integers

# Indices of the blocks of Lines that a conditional update uses.
CHAINS, EMISSION = range(2)


class Learning:
    """A model with priors and its data; computes targets, densities and updates for parameter values (P,)."""

    def __init__(self, model: FactorialHMM, data: Observations, memory: int = MEMORY):
        model.emission.check(data)
        self.model = model
        self.data = data
        self.memory = memory
        self.parameters = model.parameters

    @cached_property
    def typical(self) -> Target:
        """The target at typical values; targets at other values have the same shapes."""
        return self.target(np.concatenate([slot.prior.centre.ravel() for slot in self.parameters.slots]))

    def target(self, values: Floats) -> Target:
        made = self.model.with_unchecked_values(self.parameters.unpack(values)).exact_target(self.data)
        assert isinstance(made, Target)
        return made

    def admits(self, values: Floats) -> bool:
        """Whether enter + leave <= 1, as transitions over gaps require; the prior is restricted to such values."""
        if self.data.gaps is None or not {"enter", "leave"} & set(self.parameters.names):
            return True
        chains = self.model.chains
        assert isinstance(chains, BinaryChains)
        named = self.parameters.unpack(values)
        rate = named.get("enter", chains.enter) + named.get("leave", chains.leave)
        return bool(np.all(rate <= 1))

    def sample_prior(self, rng: np.random.Generator) -> Floats:
        """(P,) from the prior."""
        for _ in range(1000):
            values = self.parameters.sample(rng)
            if self.admits(values):
                return values
        raise InvalidInput(
            "gaps need enter + leave <= 1, got priors that hardly ever give that; use priors of smaller probabilities, "
            "such as Beta(1, 99), or drop the gaps"
        )

    def log_prior(self, values: Floats) -> float:
        return self.parameters.log_prior(values) if self.admits(values) else -np.inf

    def log_prior_free(self, values: Floats) -> float:
        return self.parameters.log_prior_free(values) if self.admits(values) else -np.inf

    def log_evidence(self, values: Floats, beta: float) -> float:
        """log sum_X p(X | theta) p(y | X, theta)^beta."""
        if beta == 0:
            return 0.0
        try:
            return Passes(self.target(values), beta, memory=self.memory, keep=False).log_evidence
        except ImpossibleData:
            return -np.inf

    def update_collapsed(
        self, values: Floats, log_evidence: float, beta: float, lines: Lines, rung: int, rng: np.random.Generator
    ) -> tuple[Floats, float]:
        """Update the values with the path integrated out; returns them and their log evidence at beta."""
        known = {values.tobytes(): log_evidence}

        def log_paths(at: Floats) -> float:
            known[at.tobytes()] = self.log_evidence(at, beta)
            return known[at.tobytes()]

        here = self.log_prior_free(values) + log_evidence
        start = self.parameters.to_free(values)
        free, _ = lines.sweep(rung, 0, self._with_prior(log_paths), start, here, rng)
        if free is start:
            return values, log_evidence
        values = self.parameters.from_free(free)
        return values, known[values.tobytes()]

    def draw_path(self, target: Target, beta: float, rng: np.random.Generator) -> Integers:
        """(T,) codes of the free rows: an exact draw from the posterior of the path at beta (FFBS)."""
        if beta == 0:
            return target.sample_prior(rng)
        passes = Passes(target, beta, memory=self.memory, stay=True)
        codes = np.empty((1, target.n_columns), np.int64)
        uniforms = rng.random(codes.shape)
        for segment in passes.backward():
            passes.draw(segment, uniforms, codes)
        return codes[0]

    def update_conditional(
        self, values: Floats, codes: Integers, beta: float, lines: Lines, rung: int, rng: np.random.Generator
    ) -> Floats:
        """Update the values given the path (T,) of the free rows."""
        if len(self.parameters.of_chains):
            values = self._update_chains(values, codes, lines, rung, rng)
        if len(self.parameters.of_emission):
            values = self._update_emission(values, codes, beta, lines, rung, rng)
        return values

    def _update_chains(
        self, values: Floats, codes: Integers, lines: Lines, rung: int, rng: np.random.Generator
    ) -> Floats:
        edge, gaps = self.data.edge_kinds()
        free_rows = list(self.model.free_rows)
        counts = np.zeros((len(gaps), len(free_rows), 4), np.int64)
        count_moves(codes, edge, counts)
        values, drawn = draw_chains(self.model, self.data, counts, values, rng)
        if drawn == set(self.model.chains.priors):
            return values

        def log_path(at: Floats) -> float:
            chains = self.model.chains.with_unchecked_values(self.parameters.unpack(at))
            _, trans = chains.tables(self.model.n_rows, self.data)
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(counts == 0, 0.0, counts * np.log(trans[:, free_rows]))
            return float(terms.sum())

        return self._sliced(values, self._with_prior(log_path), lines, rung, CHAINS, rng)

    def _update_emission(
        self, values: Floats, codes: Integers, beta: float, lines: Lines, rung: int, rng: np.random.Generator
    ) -> Floats:
        own = self.model.emission
        assert isinstance(own, Additive)
        present, group = np.unique(self.typical.expand(codes), return_inverse=True)
        on = unpack(present, self.model.n_rows).T.astype(float)
        summary = own.summarise(self.data.y, group, len(present))
        values, drawn = draw_gaussian(self.model, summary, on, beta, values, rng)
        if drawn == set(own.priors):
            return values

        def log_likelihood(at: Floats) -> float:
            emission = own.with_unchecked_values(self.parameters.unpack(at))
            return beta * emission.summed(summary, on @ emission.weights)

        return self._sliced(values, self._with_prior(log_likelihood), lines, rung, EMISSION, rng)

    def _with_prior(self, rest: LogDensity) -> LogDensity:
        """Log density of free coordinates: log prior plus `rest` of the values; -inf at impossible values."""

        def log_density(free: Floats) -> float:
            at = self.parameters.from_free(free)
            log_prior = self.log_prior_free(at)
            return log_prior + rest(at) if log_prior > -np.inf else -np.inf

        return log_density

    def _sliced(
        self, values: Floats, log_density: LogDensity, lines: Lines, rung: int, block: int, rng: np.random.Generator
    ) -> Floats:
        start = self.parameters.to_free(values)
        free, _ = lines.sweep(rung, block, log_density, start, log_density(start), rng)
        return values if free is start else self.parameters.from_free(free)
