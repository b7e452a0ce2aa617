"""Learned parameters: updates given a path, and with the path integrated out.

At any beta the target of a replica is p(theta) p(X | theta) p(y | X, theta)^beta.
- Given X, the parameters of the chains and of the emission are independent. One pass over the columns computes
  sufficient statistics of both; conjugate parameters are drawn directly, the others by slice sampling.
- Without X, p(theta) sum_X p(X | theta) p(y | X, theta)^beta comes from the exact filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from chiasma.errors import ImpossibleData, InvalidInput
from chiasma.exact import side_by_side
from chiasma.exact.log_density import ParameterDensity
from chiasma.exact.passes import MEMORY, Passes
from chiasma.kernels.codes import unpack
from chiasma.kernels.transitions import count_moves
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.state_target import AnyTarget, StateTarget
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
    def typical(self) -> AnyTarget:
        """The target at typical values; targets at other values have the same shapes."""
        return self.target(self.parameters.centre)

    def target(self, values: Floats) -> AnyTarget:
        return self.model.with_unchecked_values(self.parameters.unpack(values)).exact_target(self.data)

    def admits(self, values: Floats) -> bool:
        """Whether the data allow these values at all; the prior is restricted to such values."""
        return self.model.admits(values, self.data)

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
            # A value at the far end of its prior may overflow: then its evidence is nothing.
            with np.errstate(all="ignore"):
                found = Passes(self.target(values), beta, memory=self.memory, keep=False).log_evidence
        except ImpossibleData:
            return -np.inf
        return -np.inf if np.isnan(found) else found

    def log_evidences(self, values: Sequence[Floats], beta: float) -> list[float]:
        """The same for several values (P,) each, side by side where there is such a filter."""
        if not self.side_by_side or beta == 0:
            return [self.log_evidence(own, beta) for own in values]
        with np.errstate(all="ignore"):
            found = side_by_side.log_evidences([self.target(own) for own in values], self.data.y, beta)
        if found is None:
            return [self.log_evidence(own, beta) for own in values]
        return np.where(np.isnan(found), -np.inf, found).tolist()

    @cached_property
    def side_by_side(self) -> bool:
        """Whether evidences of several values take little more time than that of one."""
        return side_by_side.fits_side_by_side(self.typical)

    def log_density(self, free: Floats, beta: float) -> float:
        """Log density of free coordinates with the paths integrated out, not normalised; -inf at impossible values."""
        return self._with_prior(partial(self.log_evidence, beta=beta))(free)

    def value_and_slope(self, free: Floats, beta: float) -> tuple[float, Floats]:
        """The same and its derivatives (n_free,), which are zeros where the density is."""
        return ParameterDensity(self.model, self.data, beta, self.memory).value_and_gradient(free)

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

    def draw_path(self, target: AnyTarget, beta: float, rng: np.random.Generator) -> Integers:
        """(T,) codes: an exact draw from the posterior of the path at beta (FFBS). They are codes of the free rows, or,
        where rows have more states or are equal, of all rows.
        """
        if beta == 0:
            return self.prior_path(target, rng)
        passes = Passes(target, beta, memory=self.memory, stay=True)
        path = np.empty((1, target.n_columns), np.int64)
        uniforms = rng.random(path.shape)
        for segment in passes.backward():
            passes.draw(segment, uniforms, path)
        return path[0] if isinstance(target, Target) else target.codes(path[0], rng)

    def prior_path(self, target: AnyTarget, rng: np.random.Generator) -> Integers:
        """(T,) codes of a path from the prior, as `draw_path` gives them."""
        drawn = target.sample_prior(rng)
        return drawn if isinstance(target, Target) else target.expand(drawn, rng)

    def log_parts(self, target: AnyTarget, codes: Integers) -> tuple[float, float]:
        """log p(X) and log p(y | X) of such a path."""
        if isinstance(target, StateTarget):
            return target.log_parts(codes)
        return target.log_prior(codes), target.log_likelihood(codes)

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
        assert isinstance(self.typical, Target)
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
