"""Offsets: what is added to the signal beside the levels of the rows, such as drift, mains hum or known covariates.

    y_t = expected(level_t) + B_t c + noise,    c ~ N(0, Q^-1),    Q = lambda D'D + 1 / scale^2

Every term is a family of basis functions B with coefficients c. `Smooth` is a cubic B-spline, `Periodic` a sine and a
cosine at every harmonic, each multiplied by a B-spline because amplitude and phase wander, `Covariates` any matrix. D
takes second differences of the coefficients of a spline; its lambda, the smoothness, is learned. A new sequence starts
new splines.

The terms of a model are bound to data (`bind`): the basis functions depend on the columns. The coefficients are then
parameters of the model as any others, whose prior is not independent (`BoundOffset.log_density`). Given the precisions
W of the columns, they are Gaussian with the precision Q + B'WB. In time order this is a band, bordered by covariates:
a Cholesky factor costs O(T) (`Solved`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.errors import InvalidInput
from chiasma.kernels import offsets as kernel
from chiasma.limits import MOST_HARMONICS, MOST_KNOTS
from chiasma.models.hum import find_mains
from chiasma.models.observations import Observations
from chiasma.models.priors import Coefficients, Gamma, Prior
from chiasma.types import Floats, Integers, as_count, as_floats, is_a, is_count, shown

# The prior of a smoothness lambda is Gamma(1/2, (SMALLEST * scale)^2 / 2): second differences of neighbouring
# coefficients, 1 / sqrt(lambda), are about SMALLEST times the scale, or any number of times more at little cost.
SMALLEST = 1e-4
# Without a scale, coefficients have a prior standard deviation of this many times the largest values of the signal.
TIMES_SIGNAL = 3.0
# B-splines of fewer coefficients are not cubic.
CUBIC = 4


@dataclass(frozen=True, kw_only=True)
class Smooth:
    """A slow drift: a cubic B-spline along the columns, whose smoothness is learned.

    Parameters
    ----------
    knots : number of coefficients, over all sequences; one for every piece of the signal in which the drift may bend.
    scale : prior standard deviation of the offset. Default: three times the largest values of the signal.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(
    ...     rows=ch.Switches(0.02, 0.02), emission=ch.Gaussian([1.0], sd=0.2), offset=[ch.Smooth(knots=8)]
    ... )
    >>> _, y = ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=model.emission).simulate(400, seed=1)
    >>> drift = [t / 200 for t in range(400)]
    >>> best = ch.optimise(model, y + drift, starts=2, seed=1, progress=False).best
    >>> [round(float(best.model.offset.curve[t]), 1) for t in (50, 200, 350)]
    [0.2, 1.0, 1.7]
    """

    knots: int = 60
    scale: float | None = None

    def __post_init__(self) -> None:
        _check_knots(self.knots)
        _check_scale(self.scale)

    @property
    def name(self) -> str:
        """Of its coefficients among the parameters."""
        return "smooth"


@dataclass(frozen=True)
class Periodic:
    """A hum of one frequency and its harmonics. Amplitude and phase may wander: both are B-splines.

    Parameters
    ----------
    frequency : cycles per unit of time (`Observations(step=, unit=)`; without a step per column), or "mains": 50 or 60
        Hz, and those harmonics that the signal contains.
    knots : number of coefficients of every spline, over all sequences.
    harmonics : how many, the frequency itself included, or their numbers, such as [1, 3].
    scale : prior standard deviation of the offset. Default: three times the largest values of the signal.

    Examples
    --------
    >>> import chiasma as ch
    >>> data = ch.Observations([0.0] * 1000, step=1e-3, unit="s")
    >>> ch.models.offsets.bind([ch.Periodic(50.0, knots=4)], data).n_coefficients
    8
    """

    frequency: float | Literal["mains"]
    knots: int = 40
    harmonics: int | Sequence[int] = 1
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.frequency != "mains":
            given = as_floats("the frequency", self.frequency)
            if given.shape != () or not 0 < given < np.inf:
                raise InvalidInput(
                    f"the frequency must be a positive number or 'mains', got {shown(self.frequency)}; in cycles per "
                    "unit of time"
                )
            object.__setattr__(self, "frequency", float(given))
        _check_knots(self.knots)
        _check_scale(self.scale)
        if is_count(self.harmonics):
            as_count("harmonics", self.harmonics, most=MOST_HARMONICS)
        numbers = self.numbers
        if not numbers or not all(is_count(n, least=1) for n in numbers) or len(set(numbers)) < len(numbers):
            raise InvalidInput(f"harmonics must be a count or different numbers from 1, got {shown(self.harmonics)}")

    @property
    def numbers(self) -> list[int]:
        """The harmonics: 1 is the frequency itself."""
        if is_count(self.harmonics, least=1):
            return list(range(1, int(self.harmonics) + 1))  # type: ignore[arg-type]
        return list(self.harmonics) if is_a(self.harmonics, Sequence, np.ndarray) else []  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """Of its coefficients among the parameters."""
        return f"periodic_{self.frequency:g}" if isinstance(self.frequency, float) else "mains"


@dataclass(frozen=True, eq=False)
class Covariates:
    """Known series with learned effects, such as the GC content of bins or the hour of the day.

    Parameters
    ----------
    matrix : (T,) or (T, p) finite numbers. Columns are centred and scaled, so that a coefficient is the effect of one
        standard deviation.
    names : what the p series are called.
    scale : prior standard deviation of the effects. Default: three times the largest values of the signal.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> gc = np.linspace(0.3, 0.6, 200)
    >>> model = ch.FactorialHMM(
    ...     rows=ch.Switches(0.05, 0.05),
    ...     emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)),
    ...     offset=[ch.Covariates(gc, names=["gc"])],
    ... )
    >>> model.for_data(gc).parameters.names
    ['sd', 'covariates']
    """

    matrix: npt.ArrayLike
    names: Sequence[str] | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        given = as_floats("covariates", self.matrix)
        columns = given[:, None] if given.ndim == 1 else given
        if columns.ndim != 2 or 0 in columns.shape:
            raise InvalidInput(f"covariates must have shape (T,) or (T, p), got {given.shape}")
        bad = ~np.isfinite(columns)
        if bad.any():
            t, p = (int(i) for i in np.argwhere(bad)[0])
            raise InvalidInput(
                f"covariates must be finite, got {columns[t, p]} at column {t} of series {p}; fill it in, for example "
                "with the mean"
            )
        flat = np.flatnonzero(np.ptp(columns, axis=0) == 0)
        if len(flat):
            raise InvalidInput(f"series {flat[0]} of the covariates is constant; a constant is ch.Row([0, 1], fixed=1)")
        names = self.names
        if names is not None and (
            not is_a(names, Sequence) or isinstance(names, str) or len(names) != columns.shape[1]
        ):
            raise InvalidInput(f"names must be one per series, {columns.shape[1]}, got {shown(names)}")
        _check_scale(self.scale)
        object.__setattr__(self, "matrix", columns)

    @property
    def name(self) -> str:
        """Of its coefficients among the parameters."""
        return "covariates"


Term = Smooth | Periodic | Covariates


def _check_knots(knots: Any) -> None:
    if not is_count(knots, least=1) or knots > MOST_KNOTS:
        raise InvalidInput(f"knots must be a whole number in 1..{MOST_KNOTS:,}, got {shown(knots)}")


def _check_scale(scale: Any) -> None:
    if scale is not None:
        given = as_floats("scale", scale)
        if given.shape != () or not 0 < given < np.inf:
            raise InvalidInput(f"the scale of an offset must be a positive number, got {shown(scale)}")


@dataclass(frozen=True, kw_only=True)
class BoundTerm:
    """A term on given columns.

    place, value (T, n) : see `kernels.offsets`; places count from 0 within the term.
    shape : of the coefficients; (..., m), the splines of a shape share D.
    when (M,) : the column around which a coefficient matters; NaN: everywhere.
    smoothed : how many splines share one smoothness; 0: there is none.
    """

    name: str
    place: npt.NDArray[np.int32]
    value: Floats
    shape: tuple[int, ...]
    when: Floats
    differences: Floats  # D'D, (m, m)
    smoothed: int
    scale: float

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def n_smoothness(self) -> int:
        """How many smoothnesses are learned."""
        return self.size // (self.smoothed * self.shape[-1]) if self.smoothed else 0

    @property
    def smoothness_name(self) -> str:
        return f"{self.name}.smoothness"

    @cached_property
    def eigen(self) -> tuple[Floats, Floats]:
        """Eigenvalues (m,) and vectors of D'D; those of its null space are 0."""
        values, vectors = np.linalg.eigh(self.differences)
        return np.where(values > 1e-10 * max(values[-1], 1e-300), values, 0.0), vectors

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.eigen[0]))

    def priors(self) -> dict[str, Prior]:
        found: dict[str, Prior] = {self.name: Coefficients(np.zeros(self.shape), self.scale)}
        if self.n_smoothness:
            shape = () if len(self.shape) == 1 else (self.n_smoothness,)
            found[self.smoothness_name] = Gamma(np.full(shape, 0.5), 0.5 * (SMALLEST * self.scale) ** 2)
        return found

    def splines(self, coefficients: Floats) -> Floats:
        """(n_smoothness, smoothed, m)"""
        return coefficients.reshape(self.n_smoothness, self.smoothed, -1)

    def roughness(self, coefficients: Floats) -> Floats:
        """(n_smoothness,) c'D'Dc"""
        splines = self.splines(coefficients)
        return np.einsum("lri,ij,lrj->l", splines, self.differences, splines)


class BoundOffset:
    """Terms on the columns of given data: the prior of the coefficients c (M,), all terms in a row, and their curve."""

    def __init__(self, terms: Sequence[Term], bound: Sequence[BoundTerm], n_columns: int, found: Sequence[str] = ()):
        self.terms = tuple(terms)
        self.bound = tuple(bound)
        self.n_columns = n_columns
        self.found = tuple(found)  # what was found in the data, in words
        firsts = np.cumsum([0, *(own.size for own in bound)])
        self.n_coefficients = int(firsts[-1])
        self.slices = [slice(a, b) for a, b in pairwise(firsts)]
        self.priors = {name: prior for own in bound for name, prior in own.priors().items()}
        when = np.concatenate([np.empty(0), *(own.when for own in bound)])
        # Time order; what matters everywhere comes last.
        self.order = np.argsort(np.where(np.isnan(when), np.inf, when), kind="stable")
        self.n_banded = int(np.count_nonzero(~np.isnan(when)))
        ranks = np.argsort(self.order)
        places = [ranks[own.place + a] for own, a in zip(bound, firsts[:-1], strict=True)]
        place = np.concatenate([np.empty((n_columns, 0), np.int64), *places], axis=1)
        value = np.concatenate([np.empty((n_columns, 0)), *(own.value for own in bound)], axis=1)
        ascending = np.argsort(place, axis=1, kind="stable")
        self.place = np.ascontiguousarray(np.take_along_axis(place, ascending, axis=1)).astype(np.int32)
        self.value = np.ascontiguousarray(np.take_along_axis(value, ascending, axis=1))
        local = np.where(self.place < self.n_banded, self.place, -1)
        lowest = np.where(local < 0, self.n_banded, local).min(axis=1, initial=self.n_banded)
        width = int((local.max(axis=1, initial=-1) - lowest).max(initial=0))
        self.width = max(width, self._penalty_width())

    def _penalty_width(self) -> int:
        rows, columns = np.nonzero(np.tril(self._dense_prior(None)))
        inside = rows < self.n_banded
        return int((rows - columns)[inside].max(initial=0))

    def curve(self, coefficients: Floats) -> Floats:
        """(T,)"""
        out = np.empty(self.n_columns)
        kernel.combine(self.place, self.value, coefficients[self.order], out)
        return out

    def project(self, signal: Floats) -> Floats:
        """(M,) B' signal"""
        out = np.zeros(self.n_coefficients)
        kernel.project(self.place, self.value, signal, out)
        return self.from_time(out)

    def from_time(self, ordered: Floats) -> Floats:
        """Coefficients in the order of the terms from those in time order."""
        out = np.empty_like(ordered)
        out[self.order] = ordered
        return out

    def coefficients(self, values: Mapping[str, Floats]) -> Floats:
        """(M,) from values by name."""
        return np.concatenate([np.empty(0), *(np.ravel(values[own.name]) for own in self.bound)])

    def named(self, coefficients: Floats) -> dict[str, Floats]:
        """Coefficients (M,) by name."""
        return {
            own.name: coefficients[where].reshape(own.shape) for own, where in zip(self.bound, self.slices, strict=True)
        }

    def parts(self, coefficients: Floats) -> dict[str, Floats]:
        """(T,) what every term adds, by name."""
        found = {}
        for own, where in zip(self.bound, self.slices, strict=True):
            alone = np.zeros(self.n_coefficients)
            alone[where] = coefficients[where]
            found[own.name] = self.curve(alone)
        return found

    def log_density(self, values: Mapping[str, Floats]) -> float:
        """log p(c | smoothness), less the density of independent N(0, scale^2)."""
        total = 0.0
        for own in self.bound:
            if own.n_smoothness:
                smoothness = np.atleast_1d(values[own.smoothness_name])
                gains = np.log1p(np.multiply.outer(smoothness, own.eigen[0]) * own.scale**2)
                total += 0.5 * float(own.smoothed * gains.sum() - smoothness @ own.roughness(values[own.name]))
        return total

    def slopes(self, values: Mapping[str, Floats]) -> dict[str, Floats]:
        """Derivatives of `log_density` by name."""
        found = {}
        for own in self.bound:
            found[own.name] = np.zeros(own.shape)
            if own.n_smoothness:
                given = values[own.smoothness_name]
                smoothness, c = np.atleast_1d(given), own.splines(values[own.name])
                found[own.name] = -(smoothness[:, None, None] * (c @ own.differences)).reshape(own.shape)
                shares = own.eigen[0] / (np.multiply.outer(smoothness, own.eigen[0]) + own.scale**-2)
                by = 0.5 * (own.smoothed * shares.sum(axis=1) - own.roughness(values[own.name]))
                found[own.smoothness_name] = by.reshape(np.shape(given))
        return found

    def sample(self, smoothness: Mapping[str, Floats], rng: np.random.Generator) -> dict[str, Floats]:
        """Coefficients by name from their prior."""
        found = {}
        for own in self.bound:
            noise = rng.standard_normal(own.shape)
            if own.n_smoothness:
                values, vectors = own.eigen
                lambdas = np.atleast_1d(smoothness[own.smoothness_name])
                sds = (np.multiply.outer(lambdas, values) + own.scale**-2) ** -0.5
                found[own.name] = ((own.splines(noise) * sds[:, None]) @ vectors.T).reshape(own.shape)
            else:
                found[own.name] = own.scale * noise
        return found

    def solve(self, smoothness: Mapping[str, Floats], weights: Floats, pulls: Floats) -> Solved:
        """The Gaussian of the coefficients given what the columns say: weights (T,) are their precisions, pulls (T,)
        the weights times the residuals.
        """
        precision = self._dense_prior(smoothness)
        kernel.gram(self.place, self.value, weights, precision)
        right = np.zeros(self.n_coefficients)
        kernel.project(self.place, self.value, pulls, right)
        return Solved(self, precision, right)

    def _dense_prior(self, smoothness: Mapping[str, Floats] | None) -> Floats:
        """(M, M) Q in time order; without a smoothness, each is 1."""
        whole = np.zeros((self.n_coefficients, self.n_coefficients))
        for own, where in zip(self.bound, self.slices, strict=True):
            block = np.eye(own.size) * own.scale**-2
            if own.n_smoothness:
                lambdas = np.ones(own.n_smoothness) if smoothness is None else smoothness[own.smoothness_name]
                block += np.kron(np.diag(np.repeat(lambdas, own.smoothed)), own.differences)
            whole[where, where] = block
        return whole[np.ix_(self.order, self.order)]

    def local(self, data: Observations, columns: Integers) -> BoundOffset:
        """The terms on an excerpt of the columns, each of whose sequences is so short that drift and the amplitudes of
        hum are constant in it.
        """
        bound = []
        for term, own in zip(self.terms, self.bound, strict=True):
            if isinstance(term, Covariates):
                bound.append(replace(own, place=own.place[columns], value=own.value[columns]))
            else:
                bound.append(_bound(replace(term, knots=1), data))
        return BoundOffset(self.terms, bound, data.n_columns)

    def smoothness_from(self, coefficients: Floats, covariance: Floats) -> dict[str, Floats]:
        """The smoothnesses that an EM step gives, from the mean (M,) and the covariance (M, M) of the coefficients."""
        found = {}
        for own, where in zip(self.bound, self.slices, strict=True):
            if not own.n_smoothness:
                continue
            m, spread = own.shape[-1], np.zeros(own.n_smoothness)
            block = covariance[where, where]
            for i in range(own.size // m):
                part = block[i * m : (i + 1) * m, i * m : (i + 1) * m]
                spread[i // own.smoothed] += np.sum(part * own.differences)
            prior = own.priors()[own.smoothness_name]
            assert isinstance(prior, Gamma)
            rough = own.roughness(coefficients[where]) + spread + 2 * np.ravel(prior.beta)
            found[own.smoothness_name] = ((own.smoothed * own.rank + 1) / rough).reshape(prior.shape)
        return found

    def log_smoothness_densities(
        self, values: Mapping[str, Floats]
    ) -> Iterator[tuple[str, int, Callable[[Floats], float]]]:
        """For every smoothness: its name, its number, and the log density of its logarithm given the coefficients."""
        for own in self.bound:
            if not own.n_smoothness:
                continue
            prior = own.priors()[own.smoothness_name]
            assert isinstance(prior, Gamma)
            for i, rough in enumerate(own.roughness(values[own.name])):
                yield (
                    own.smoothness_name,
                    i,
                    partial(_log_smoothness, own, float(np.ravel(prior.beta)[0]) + 0.5 * rough),
                )


def _log_smoothness(own: BoundTerm, rate: float, log: Floats) -> float:
    smoothness = np.exp(np.minimum(log, 700.0))
    gains = np.log1p(smoothness * own.eigen[0] * own.scale**2)
    return float(0.5 * log[0] - rate * smoothness[0] + 0.5 * own.smoothed * gains.sum())


class Solved:
    """N(P^-1 right, P^-1) of the coefficients; P (M, M) is a band bordered by the last rows, of which the lower
    triangle is given.
    """

    def __init__(self, offset: BoundOffset, precision: Floats, right: Floats):
        self.offset = offset
        n, width = offset.n_banded, offset.width
        band = np.zeros((width + 1, n))
        for d in range(min(width + 1, n)):
            band[d, : n - d] = np.diagonal(precision, -d)[: n - d]
        self._band = scipy.linalg.cholesky_banded(band, lower=True) if n else band
        self._border = self._forward(np.ascontiguousarray(precision[n:, :n].T))
        corner = precision[n:, n:]
        corner = np.tril(corner) + np.tril(corner, -1).T
        self._corner = np.linalg.cholesky(corner - self._border.T @ self._border)
        self._ordered_mean = self._backward_all(self._forward_all(right))
        self.mean = offset.from_time(self._ordered_mean)

    @property
    def log_det(self) -> float:
        """Of the precision."""
        return float(2 * (np.log(self._band[0]).sum() + np.log(np.diagonal(self._corner)).sum()))

    def draw(self, noise: Floats) -> Floats:
        """(M,) the mean plus noise with the covariance; noise (M,): independent N(0, 1)."""
        return self.offset.from_time(self._ordered_mean + self._backward_all(noise))

    def spread(self, noise: Floats) -> Floats:
        """(M,) or (M, n): noise times a root of the covariance, in the order of the terms."""
        return self.offset.from_time(self._backward_all(noise))

    def spread_transposed(self, slope: Floats) -> Floats:
        """The transpose of `spread`, for slopes (M,)."""
        return self._forward_all(slope[self.offset.order])

    def covariance(self) -> Floats:
        """(M, M)"""
        root = self._backward_all(np.eye(self.offset.n_coefficients))
        whole = root @ root.T
        ranks = np.argsort(self.offset.order)
        return np.asarray(whole[np.ix_(ranks, ranks)])

    def _forward(self, right: Floats) -> Floats:
        """L11^-1 right"""
        if not self.offset.n_banded or not right.size:
            return np.zeros_like(right)
        return np.asarray(scipy.linalg.lapack.dtbtrs(self._band, right, uplo="L")[0]).reshape(right.shape)

    def _forward_all(self, right: Floats) -> Floats:
        n = self.offset.n_banded
        top = self._forward(right[:n])
        bottom = scipy.linalg.solve_triangular(self._corner, right[n:] - self._border.T @ top, lower=True)
        return np.concatenate([top, bottom])

    def _backward_all(self, right: Floats) -> Floats:
        n = self.offset.n_banded
        bottom = scipy.linalg.solve_triangular(self._corner, right[n:], lower=True, trans="T")
        top = right[:n] - self._border @ bottom
        if n:
            top = np.asarray(scipy.linalg.lapack.dtbtrs(self._band, top, uplo="L", trans="T")[0]).reshape(top.shape)
        return np.concatenate([top, bottom])


def bind(terms: Sequence[Term], data: Observations) -> BoundOffset:
    """The terms on the columns of the data, with numbers in place of what the data decide: scales, mains frequency."""
    if data.y.ndim != 1:
        raise InvalidInput(
            f"offsets to learn need a signal of one channel, got {data.y.shape[1]}; give known ones as an array (T, D)"
        )
    seen = np.abs(data.y[~data.missing])
    size = float(np.quantile(seen, 0.95)) if len(seen) else 0.0
    kept: list[Term] = []
    found: list[str] = []
    for term in terms:
        own = term
        if isinstance(own, Periodic) and own.frequency == "mains":
            mains = find_mains(data)
            found.append(mains.text)
            if mains.frequency is None:
                continue
            own = replace(own, frequency=mains.frequency, harmonics=mains.harmonics)
        if own.scale is None:
            own = replace(own, scale=TIMES_SIGNAL * size or 1.0)
        kept.append(own)
    bound = [_bound(term, data) for term in kept]
    names = [own.name for own in bound]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidInput(f"offsets must differ, got several of {', '.join(sorted(twice))}; join them into one")
    return BoundOffset(kept, bound, data.n_columns, found)


def _bound(term: Term, data: Observations) -> BoundTerm:
    assert term.scale is not None
    n_columns = data.n_columns
    if isinstance(term, Covariates):
        matrix = np.asarray(term.matrix, float)
        if len(matrix) != n_columns:
            raise InvalidInput(f"covariates must have a row per column of the signal, {n_columns}, got {len(matrix)}")
        matrix = (matrix - matrix.mean(axis=0)) / matrix.std(axis=0)
        p = matrix.shape[1]
        place = np.broadcast_to(np.arange(p, dtype=np.int32), matrix.shape)
        nowhere = np.full(p, np.nan)
        return BoundTerm(
            name=term.name, place=place, value=matrix, shape=(p,), when=nowhere, differences=np.zeros((p, p)),
            smoothed=0, scale=term.scale,
        )  # fmt: skip
    if term.knots > n_columns:
        raise InvalidInput(
            f"{type(term).__name__} has {term.knots} knots and the signal {n_columns} columns; take fewer knots"
        )
    place, value, when, differences = _splines(term.knots, data)
    m = len(when)
    if isinstance(term, Smooth):
        return BoundTerm(
            name=term.name, place=place, value=value, shape=(m,), when=when, differences=differences, smoothed=1,
            scale=term.scale,
        )  # fmt: skip
    assert isinstance(term.frequency, float)
    numbers = term.numbers
    highest = term.frequency * max(numbers) * data.time_step
    if highest > 0.5:
        raise InvalidInput(
            f"a frequency of {term.frequency * max(numbers):g} is above the Nyquist frequency, "
            f"{0.5 / data.time_step:g} cycles per {data.time_unit}; give frequencies per {data.time_unit}, or set "
            "step= and unit= of ch.Observations"
        )
    angles = 2 * np.pi * term.frequency * np.multiply.outer(data.times, numbers)
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(n_columns, -1)
    places = [place + m * i for i in range(2 * len(numbers))]
    values = [value * wave[:, None] for wave in waves.T]
    return BoundTerm(
        name=term.name, place=np.concatenate(places, axis=1), value=np.concatenate(values, axis=1),
        shape=(len(numbers), 2, m), when=np.tile(when, 2 * len(numbers)), differences=differences, smoothed=2,
        scale=term.scale,
    )  # fmt: skip


def _splines(knots: int, data: Observations) -> tuple[npt.NDArray[np.int32], Floats, Floats, Floats]:
    """place and value (T, n) of B-splines with about `knots` coefficients, where each matters (m,), and D'D (m, m)."""
    bounds = np.append(data.starts, data.n_columns)
    lengths = np.diff(bounds)
    # Every sequence has its share.
    counts = [int(min(max(round(knots * n / data.n_columns), min(CUBIC, knots)), n)) for n in lengths]
    degree = 3 if min(counts) >= CUBIC else 1 if min(counts) >= 2 else 0
    if degree == 0:
        counts = [1] * len(counts)
    m = sum(counts)
    place = np.empty((data.n_columns, degree + 1), np.int32)
    value = np.empty((data.n_columns, degree + 1))
    when, differences = np.empty(m), np.zeros((m, m))
    first = 0
    for a, b, n in zip(bounds[:-1], bounds[1:], counts, strict=True):
        positions = data.positions[a:b]
        span = (positions[-1] - positions[0]) or 1.0
        pieces = max(n - degree, 1)
        u = (positions - positions[0]) / span * pieces
        piece = np.minimum(u.astype(np.int64), pieces - 1)
        place[a:b] = first + piece[:, None] + np.arange(degree + 1)
        value[a:b] = _basis(u - piece, degree)
        when[first : first + n] = a + (np.arange(n) - (degree - 1) / 2) / pieces * (b - a)
        if n > 2:
            d = np.diff(np.eye(n), 2, axis=0)
            differences[first : first + n, first : first + n] = d.T @ d
        first += n
    return place, value, when, differences


def _basis(t: Floats, degree: int) -> Floats:
    """(n, degree + 1) uniform B-splines at places t in 0..1 of a piece."""
    if degree == 0:
        return np.ones((len(t), 1))
    if degree == 1:
        return np.stack([1 - t, t], axis=1)
    cubic = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
    return np.stack(cubic, axis=1) / 6


@dataclass(frozen=True, eq=False)
class Offset:
    """What is added to the signal of a model: known values, or terms to learn.

    terms : as the user gave them, or as `bind` completed them.
    bound : the terms on the columns of the data; None: not bound yet.
    curve : (T,) or (T, D) the values; None: to be learned.
    coefficients : (M,) of the terms, where they are known.
    """

    terms: tuple[Term, ...] = ()
    bound: BoundOffset | None = None
    curve: Floats | None = None
    coefficients: Floats | None = None

    @classmethod
    def of(cls, given: Any) -> Offset | None:
        """From the argument of FactorialHMM."""
        if given is None or isinstance(given, Offset):
            return given
        if isinstance(given, Term):
            given = [given]
        if is_a(given, Sequence) and len(given) and all(isinstance(term, Term) for term in given):
            return cls(terms=tuple(given))
        if is_a(given, Sequence) and not len(given):
            return None
        if is_a(given, Sequence) and any(isinstance(term, Term) for term in given):
            raise InvalidInput(
                f"offset must be a list of ch.Smooth, ch.Periodic and ch.Covariates, or known values (T,), got "
                f"{shown(given)}; known values are ch.Covariates among other terms"
            )
        curve = as_floats("offset", given)
        if curve.ndim not in (1, 2) or not np.all(np.isfinite(curve)):
            raise InvalidInput(
                f"known values of an offset must be finite and of shape (T,) or (T, D), got {curve.shape}"
            )
        return cls(curve=curve)

    @property
    def priors(self) -> Mapping[str, Prior]:
        return {} if self.bound is None or self.curve is not None else self.bound.priors

    @property
    def learned(self) -> bool:
        """Whether there is anything to learn yet."""
        return self.curve is None

    def for_data(self, data: Observations) -> Offset:
        """The same, bound to the columns of the data."""
        if self.curve is not None or (self.bound is not None and self.bound.n_columns == data.n_columns):
            return self
        bound = bind(self.terms, data)
        if not bound.bound:
            return Offset(terms=(), bound=bound, curve=np.zeros(data.n_columns), coefficients=np.empty(0))
        return Offset(terms=bound.terms, bound=bound)

    def with_values(self, values: Mapping[str, Any]) -> Offset:
        """With coefficients (by name) in place of the terms; values must have all of them."""
        if self.bound is None or self.curve is not None:
            return self
        coefficients = self.bound.coefficients(values)
        return replace(self, curve=self.bound.curve(coefficients), coefficients=coefficients)

    def subtracted(self, data: Observations) -> Observations:
        """The signal without the offset: what emissions see."""
        if self.curve is None:
            raise InvalidInput(
                "this needs a known offset, got terms to learn; learn them with ch.optimise or ch.sample, and take the "
                "model that they return"
            )
        if self.curve.shape != data.y.shape:
            raise InvalidInput(f"the offset must have the shape of the signal, {data.y.shape}, got {self.curve.shape}")
        return data.with_signal(data.y - self.curve)


def describe_offset(offset: Offset) -> dict[str, Any]:
    """An offset as plain JSON, from which `rebuild_offset` rebuilds it."""
    if not offset.terms:
        return {"known": None if offset.curve is None else offset.curve.tolist()}
    told: dict[str, Any] = {"terms": [_described(term) for term in offset.terms]}
    return told if offset.coefficients is None else told | {"coefficients": offset.coefficients.tolist()}


def _described(term: Term) -> dict[str, Any]:
    own = {field.name: getattr(term, field.name) for field in fields(term)}
    if isinstance(term, Covariates):
        names = None if term.names is None else [str(name) for name in term.names]
        own |= {"matrix": np.asarray(term.matrix).tolist(), "names": names}
    if isinstance(term, Periodic):
        own["harmonics"] = term.numbers
    return {"term": type(term).__name__} | own


def rebuild_offset(told: dict[str, Any] | None, data: Observations | None) -> Offset | None:
    """The offset that was described, bound to the data if there are any."""
    if told is None:
        return None
    if "known" in told:
        return Offset.of(told["known"])
    kinds = {kind.__name__: kind for kind in (Smooth, Periodic, Covariates)}
    terms = [
        kinds[one["term"]](**{name: value for name, value in one.items() if name != "term"}) for one in told["terms"]
    ]
    offset = Offset(terms=tuple(terms))
    if data is None:
        return offset
    offset = offset.for_data(data)
    if "coefficients" in told and offset.bound is not None:
        offset = offset.with_values(offset.bound.named(np.array(told["coefficients"])))
    return offset
