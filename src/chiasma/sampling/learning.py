"""Learned parameters: the targets at their values, and updates with the paths integrated out.

At any beta the target of a replica is p(theta) p(X | theta) p(y | X, theta)^beta. Summed over X it comes from the exact
filter; `given_paths` has the updates of theta given X.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from chiasma.errors import ImpossibleData, InvalidInput
from chiasma.exact import side_by_side
from chiasma.exact.log_density import ParameterDensity
from chiasma.exact.passes import MEMORY, Passes
from chiasma.models.additive import Additive, filled
from chiasma.models.arguments import shallow_copy
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.parameters import Parameters
from chiasma.models.target import Target
from chiasma.sampling.given_paths import GivenPaths
from chiasma.sampling.slices import LogDensity, SliceLines, slice_along
from chiasma.stopping import look
from chiasma.types import Floats, Integers

# Slice updates of a smoothness given the coefficients, which cost nothing beside a path.
SLICES = 3


class Learning:
    """A model with priors and its data; computes targets, densities and updates for parameter values (P,)."""

    def __init__(self, model: FactorialHMM, data: Observations, memory: int = MEMORY):
        model.emission.check(data)
        model = model.for_data(data)
        self.model = model
        self.data = data
        self.memory = memory
        self.parameters = model.parameters

    @cached_property
    def given_paths(self) -> GivenPaths:
        """Updates of the values given the paths."""
        return GivenPaths(self.model, self.data, self.log_prior_free)

    @cached_property
    def typical(self) -> Target:
        """The target at typical values; targets at other values have the same shapes."""
        return self.target(self.parameters.centre)

    def given(self, values: Floats) -> Learning:
        """The same without the offset: what is left to learn where the offset has these values (P,)."""
        offset = self.model.offset
        if offset is None:
            return self
        other = shallow_copy(self)
        named = self.parameters.unpack(values)
        other.data = offset.with_values(named).subtracted(self.data)
        other.model = shallow_copy(self.model)
        other.model.offset = None
        other.model.parameters = other.parameters = Parameters(self.model.rows.priors, self.model.emission.priors)
        for cached in ("typical", "given_paths", "plain", "side_by_side"):
            vars(other).pop(cached, None)
        return other

    @cached_property
    def plain(self) -> Learning:
        """The same without an offset, as far as it does not depend on the offset's values."""
        return self.given(self.parameters.centre)

    def update_given_path(
        self, values: Floats, codes: Integers, beta: float, lines: SliceLines, rung: int, rng: np.random.Generator
    ) -> Floats:
        """New values (P,) given the path (T,) of codes of all rows."""
        n_own = self.parameters.n_own
        if n_own:
            own = self.given(values).given_paths.update(values[:n_own], codes, beta, lines, rung, rng)
            values = np.concatenate([own, values[n_own:]])
        return self.update_offset(values, codes, beta, rng)

    def update_offset(self, values: Floats, codes: Integers, beta: float, rng: np.random.Generator) -> Floats:
        """New values (P,), in which coefficients and smoothnesses of the offset are drawn given the path (T,)."""
        bound, offset = self.parameters.offset, self.model.offset
        if bound is None or offset is None:
            return values
        named = self.parameters.unpack(values)
        model = self.model.with_unchecked_values(named)
        emission = model.emission
        assert isinstance(emission, Additive)
        y = self.data.y
        seen = offset.with_values(named).subtracted(self.data).y
        level = self.plain.given_paths.levels_of(codes)(values[: self.parameters.n_own])
        weights = emission.draw_precisions(seen, level, beta, rng)
        pulls = weights * (filled(y) - emission.expected(level))
        solved = bound.solve(named, weights, pulls)
        named |= bound.named(solved.draw(rng.standard_normal(bound.n_coefficients)))
        named |= self.draw_smoothness(named, rng)
        return np.concatenate([np.ravel(named[slot.name]) for slot in self.parameters.slots])

    def draw_smoothness(self, named: dict[str, Floats], rng: np.random.Generator) -> dict[str, Floats]:
        """Smoothnesses of the offset given its coefficients, by slices."""
        bound = self.parameters.offset
        assert bound is not None
        found = {name: np.array(named[name]) for name in bound.priors if name not in {own.name for own in bound.bound}}
        for name, i, log_density in bound.log_smoothness_densities(named):
            at = np.log(found[name].flat[i : i + 1])
            for _ in range(SLICES):
                at, _ = slice_along(log_density, at, log_density(at), np.ones(1), rng)
            found[name].flat[i] = np.exp(at[0])
        return found

    def target(self, values: Floats) -> Target:
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
        if beta == 0 and not self.data.known:
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
        look()
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
        return self.parameters.offset is None and side_by_side.fits_side_by_side(self.typical)

    def log_density(self, free: Floats, beta: float) -> float:
        """Log density of free coordinates with the paths integrated out, not normalised; -inf at impossible values."""
        return self._with_prior(partial(self.log_evidence, beta=beta))(free)

    def value_and_slope(self, free: Floats, beta: float) -> tuple[float, Floats]:
        """The same and its derivatives (n_free,), which are zeros where the density is."""
        return ParameterDensity(self.model, self.data, beta, self.memory).value_and_gradient(free)

    def update_collapsed(
        self, values: Floats, log_evidence: float, beta: float, lines: SliceLines, rung: int, rng: np.random.Generator
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
        """(T,) codes of all rows: an exact draw from the posterior of the path at beta (FFBS)."""
        if beta == 0:
            return self.prior_path(target, rng)
        passes = Passes(target, beta, memory=self.memory, stay=True)
        path = np.empty((1, target.n_columns), np.int64)
        uniforms = rng.random(path.shape)
        for segment in passes.backward():
            passes.draw(segment, uniforms, path)
        return target.expand(target.to_codes(path[0]), rng)

    def prior_path(self, target: Target, rng: np.random.Generator) -> Integers:
        """(T,) codes of all rows: a path from the prior."""
        return target.expand(target.sample_prior(rng), rng)

    def _with_prior(self, rest: LogDensity) -> LogDensity:
        """Log density of free coordinates: log prior plus `rest` of the values; -inf at impossible values."""

        def log_density(free: Floats) -> float:
            at = self.parameters.from_free(free)
            log_prior = self.log_prior_free(at)
            return log_prior + rest(at) if log_prior > -np.inf else -np.inf

        return log_density
