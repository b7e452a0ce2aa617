"""FactorialHMM: a model made of Markov chains and an emission; its joint density and simulation from it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels.codes import pack, unpack
from chiasma.kernels.rows import draw_prior_row
from chiasma.models.additive import Additive, Emission
from chiasma.models.chains import BinaryChains
from chiasma.models.emissions import Table
from chiasma.models.likelihood import Levels, Likelihood, Lookup
from chiasma.models.observations import Observations
from chiasma.models.parameters import Parameters
from chiasma.models.target import TABLE_BYTES, Target, check_beta
from chiasma.types import Floats, Integers


class FactorialHMM:
    """K binary Markov chains seen through one signal.

    Parameters
    ----------
    chains : the prior of the rows.
    emission : the density of a column's observation given the rows; its weights set the number of rows.
    fixed_rows : rows held at 0 or 1, e.g. {5: 1} for a baseline that is always on. A fixed row costs no state
        space and contributes no prior term.

    A parameter given as a prior, such as sd=ch.HalfNormal(20), is learned: ch.sample draws it together with the paths.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(
    ...     chains=ch.BinaryChains(enter=0.01, leave=0.01),
    ...     emission=ch.Gaussian(weights=[0.21, 0.31, 0.48], depth=15.0, sd=1.0),
    ... )
    >>> states, y = model.simulate(100, seed=1)
    >>> states.shape, y.shape
    ((3, 100), (100,))
    """

    def __init__(self, *, chains: BinaryChains, emission: Emission, fixed_rows: Mapping[int, int] | None = None):
        self.chains = chains
        self.emission = emission
        self.fixed_rows = _fixed_rows(fixed_rows or {}, emission.n_rows)
        chains.probabilities(self.n_rows)
        self.parameters = Parameters(chains.priors, emission.priors)

    def at(self, values: Mapping[str, Any]) -> FactorialHMM:
        """The model with numbers in place of some or all priors.

        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(2)))
        >>> model.parameters.names, model.at({"sd": 0.5}).parameters.names
        (['sd'], [])
        """
        names = self.parameters.names
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise InvalidInput(
                f"{', '.join(unknown)} has no prior here; the parameters with priors are {', '.join(names) or 'none'}"
            )
        return FactorialHMM(
            chains=self.chains.with_values(values),
            emission=self.emission.with_values(values),
            fixed_rows=self.fixed_rows,
        )

    def with_unchecked_values(self, values: Mapping[str, Any]) -> FactorialHMM:
        """`at` without checks: values must cover all priors and lie inside their supports."""
        other = copy(self)
        other.chains = self.chains.with_unchecked_values(values)
        other.emission = self.emission.with_unchecked_values(values)
        other.parameters = Parameters({}, {})
        return other

    @property
    def n_rows(self) -> int:
        return self.emission.n_rows

    @property
    def free_rows(self) -> tuple[int, ...]:
        return tuple(k for k in range(self.n_rows) if k not in self.fixed_rows)

    @property
    def fixed_code(self) -> int:
        return sum(1 << k for k, x in self.fixed_rows.items() if x)

    def target(self, data: Observations | npt.ArrayLike, table_bytes: int = TABLE_BYTES) -> Target:
        """The arrays that the kernels work on."""
        data = Observations.of(data)
        if self.parameters:
            names = self.parameters.names
            raise InvalidInput(
                f"this needs numbers for all parameters, got priors for {', '.join(names)}; learn them with ch.sample, "
                f"or set them with model.at({{{', '.join(f'{name!r}: ...' for name in names)}}})"
            )
        self.emission.check(data)
        edge, trans = self.chains.tables(self.n_rows, data)
        free = self.free_rows
        return Target(
            edge=edge,
            trans=np.ascontiguousarray(trans[:, free]) if self.fixed_rows else trans,
            likelihood=self._likelihood(data),
            free=free,
            all_rows=self.n_rows,
            fixed_code=self.fixed_code,
            table_bytes=table_bytes,
        )

    def _likelihood(self, data: Observations) -> Likelihood:
        if isinstance(self.emission, Table):
            free = self.free_rows
            codes = np.arange(1 << len(free), dtype=np.int64)
            spread = sum(((codes >> i & 1) << k for i, k in enumerate(free)), np.full_like(codes, self.fixed_code))
            table = self.emission.log_lik[:, spread]
            table[data.missing] = 0.0
            return Lookup(table)
        assert isinstance(self.emission, Additive)
        weights = self.emission.weights
        base = np.zeros(weights.shape[1:])
        if not self.fixed_rows:
            return Levels(self.emission, data, weights, base)
        base = sum((weights[k] * x for k, x in self.fixed_rows.items()), base)
        return Levels(self.emission, data, weights[list(self.free_rows)], base)

    def simulate(
        self,
        n_columns: int,
        seed: int | np.random.Generator | None = None,
        starts: npt.ArrayLike | None = None,
        gaps: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[np.int8], Floats]:
        """Draw states (K, T) from the prior and a signal y, (T,) or (T, D), from the emission.

        Parameters with a prior take a typical value of it; use `at` to set others.
        """
        if not isinstance(self.emission, Additive):
            raise InvalidInput("a Table has no sampler for y; only additive emissions can simulate")
        if n_columns < 1:
            raise InvalidInput(f"simulate needs at least 1 column, got {n_columns}")
        rng = np.random.default_rng(seed)
        edge, trans = self.chains.tables(self.n_rows, Observations(np.zeros(n_columns), starts, gaps))
        codes = np.zeros(n_columns, np.int64)
        for k in range(self.n_rows):
            draw_prior_row(trans, edge, k, rng.random(n_columns), 1 << k, codes)
        for k, x in self.fixed_rows.items():
            codes = codes & ~np.int64(1 << k) | np.int64(x << k)
        states = unpack(codes, self.n_rows)
        level = states.T.astype(float) @ self.emission.weights
        return states, self.emission.sample(level, rng)

    def __repr__(self) -> str:
        fixed = f", fixed_rows={self.fixed_rows}" if self.fixed_rows else ""
        return f"FactorialHMM({self.n_rows} rows, {self.chains}, {type(self.emission).__name__}{fixed})"


def log_joint(
    model: FactorialHMM, data: Observations | npt.ArrayLike, states: npt.ArrayLike, beta: float = 1.0
) -> float:
    """log p(X) + beta * log p(y | X), for (K, T) states or (T,) codes. beta = 0 is the prior alone.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(chains=ch.BinaryChains(0.5, 0.5), emission=ch.Gaussian([1.0]))
    >>> round(ch.log_joint(model, [0.0, 1.0], [[0, 1]]), 4)
    -3.2242
    """
    beta = check_beta(beta)
    target = model.target(data)
    codes = target.reduce(check_states(model, target.n_columns, states))
    log_prior = target.log_prior(codes)
    return log_prior if beta == 0 else log_prior + beta * target.log_likelihood(codes)


def check_states(model: FactorialHMM, n_columns: int, states: npt.ArrayLike) -> Integers:
    """(T,) codes of all rows from (K, T) states or (T,) codes; raises InvalidInput where they do not fit the model."""
    given = np.asarray(states)
    if given.dtype.kind not in "biuf":
        raise InvalidInput(f"states must be numbers, got {given.dtype}; pass zeros and ones, or codes")
    if given.shape not in ((model.n_rows, n_columns), (n_columns,)):
        raise InvalidInput(
            f"states must have shape ({model.n_rows}, {n_columns}) (zeros and ones) or ({n_columns},) (codes), "
            f"got {given.shape}"
        )
    top = 1 if given.ndim == 2 else (1 << model.n_rows) - 1
    bad = ~((given >= 0) & (given <= top) & (given == np.floor(given)))
    if bad.any():
        what = "zeros and ones" if given.ndim == 2 else f"codes in 0..{top}"
        raise InvalidInput(f"states must be {what}, got {given[bad][0]}")
    codes = pack(given) if given.ndim == 2 else given.astype(np.int64)
    for k, x in model.fixed_rows.items():
        wrong = (codes >> k & 1) != x
        if wrong.any():
            raise InvalidInput(
                f"states contradict fixed_rows: row {k} is fixed at {x}, got {1 - x} at column {int(np.argmax(wrong))}"
            )
    return codes


def _fixed_rows(fixed: Mapping[int, int], n_rows: int) -> dict[int, int]:
    for k, x in fixed.items():
        if k not in range(n_rows) or x not in (0, 1):
            raise InvalidInput(f"fixed_rows maps rows 0..{n_rows - 1} to 0 or 1, got {{{k}: {x}}}")
    if len(fixed) == n_rows:
        raise InvalidInput(f"all {n_rows} rows are fixed; leave at least one free")
    return {int(k): int(x) for k, x in sorted(fixed.items())}
