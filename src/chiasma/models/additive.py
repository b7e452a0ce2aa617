"""Base classes of emissions: number of rows, weights, learned parameters, sufficient statistics of columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.limits import MOST_BITS
from chiasma.models.arguments import WEIGHTS, Argument, Learnable
from chiasma.models.observations import Observations
from chiasma.models.priors import Numbers, Prior, check_prior, mixed
from chiasma.types import Floats, Integers, as_floats, shown

# Parameters whose squares would overflow or vanish are refused: the data would silently have no say.
LARGEST = 1e150
# Pairs of column and state that slopes are evaluated for at a time.
_PIECE = 2**15


# A forward filter bound to data; it filters columns first..stop-1 like passes.filter_block: (trans, edge, first, stop,
# message, alpha, stay, diagonal, lik, tops) -> log evidence; lik (n, S) and tops (n,) are scratch for n columns.
FusedFilter = Callable[..., float]


class GaussianParts(NamedTuple):
    """y_d = sum of the steps of the rows that are on + normal noise, in every channel d."""

    y: Floats  # (D, T) less what fixed rows add; NaN: missing
    steps: Floats  # (K, D) of the free rows
    sd: Floats  # (D,)


class Emission(Learnable, ABC):
    """Base of all emissions: how many rows there are, and which data are accepted."""

    in_settings: ClassVar[bool] = True  # defined by numbers alone, so a settings file or a stored run can rebuild it
    n_rows: int

    @abstractmethod
    def check(self, data: Observations) -> None:
        """Raise InvalidInput where the data cannot come from this emission."""

    def _learn(self, name: str, value: Any, low: float = -np.inf, shapes: Any = ((),)) -> Any:
        """Return a number unchanged; keep a prior in `priors` and return its typical value."""
        if not isinstance(value, Prior):
            return value
        check_prior(name, value, shapes, low, np.inf)
        return self._learned(name, value)


class Additive(Emission):
    """Base class for an emission of your own: it depends on a column only through its level, the sum of what its rows
    add.

    A subclass defines

    - `arguments`, a description of every argument of its `__init__`, each of which is an attribute too;
    - `log_density(y, level)`, log p(y | level) with its constants, broadcast like NumPy's functions; y is never NaN;
    - `sample(level, rng)`, one y for every level, with a NumPy Generator;
    - `expected(level)`, the mean of y: without it there are no figures of the signal;
    - `tails(y, level)`, P(Y <= y) and P(Y >= y): without it the fit is not checked.

    `parameter` checks the value of an argument and lets it be a prior. `ch.register_emission` makes the class known to
    the command line.

    A level has D channels where the weights are (K, D), or the values of rows (S, D). Then y is (T, D), and its
    channels are independent given the level, unless a subclass says otherwise.

    Parameters
    ----------
    weights : (K,) one per row, or (K, D) for D channels; None where the values of the rows say all: each weight is 1.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> class Laplace(ch.Additive):
    ...     arguments = ch.Additive.arguments | {"scale": ch.Argument("mean distance of the noise from 0.")}
    ...
    ...     def __init__(self, weights=None, scale=1.0):
    ...         super().__init__(weights)
    ...         self.scale = self.parameter("scale", scale, positive=True)
    ...
    ...     def log_density(self, y, level):
    ...         return -np.abs(y - level) / self.scale - np.log(2 * self.scale)
    ...
    ...     def sample(self, level, rng):
    ...         return rng.laplace(level, self.scale)
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=Laplace([1.0, 3.0], scale=0.5))
    >>> ch.exact.marginals(model, [0.1, 1.2, 4.1, 3.9]).round(2).tolist()
    [[0.59, 0.92, 0.97, 0.96], [0.0, 0.02, 1.0, 1.0]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {"weights": WEIGHTS}
    n_channels: int | None = None  # of a level; None: a level is a number
    default_weights: bool = False  # whether weights were left out and are 1
    takes_spread: ClassVar[bool] = False  # whether states may add noise (`ch.Row(spread=)`)
    # Whether they do: then a level has two channels, the signal and the variance that the states add, and y has one.
    spreads: bool = False

    def __init__(self, weights: Numbers | None = None):
        if weights is None:
            self.default_weights = True
            self.weights: Floats = np.empty(0)
            self.n_rows = 0
            return
        self.weights = as_floats("weights", self._learn_weights(weights))
        shape = self.weights.shape
        # NaN is not <= anything.
        if len(shape) not in (1, 2) or 0 in shape[1:] or not np.all(np.abs(self.weights) <= LARGEST):
            raise InvalidInput(
                f"weights must be one finite number of at most {LARGEST:g} per row, or (rows, channels), "
                f"got shape {shape}: {shown(self.weights.tolist())}"
            )
        self.n_rows = row_count(shape[0])
        self.n_channels = None if self.weights.ndim == 1 else shape[1]

    def for_rows(self, n_rows: int, n_channels: int | None) -> Self:
        """The emission for this number of rows and channels; weights that were not given are 1."""
        if not self.default_weights and self.n_rows != n_rows:
            raise InvalidInput(
                f"{type(self).__name__} has {self.n_rows} weights and the model {n_rows} rows; give one weight per "
                "row, or leave them out"
            )
        if self.n_channels is not None and n_channels not in (None, self.n_channels):
            raise InvalidInput(
                f"the weights have {self.n_channels} channels and the values of the rows {n_channels}; give weights of "
                f"shape ({n_rows},) or ({n_rows}, {n_channels})"
            )
        other = copy(self)
        if self.default_weights:
            other.weights = np.ones(n_rows)
            other.n_rows = n_rows
        if n_channels is not None:
            other.n_channels = n_channels
        for name in self.arguments:
            value: object = getattr(other, name)
            if name != "weights" and isinstance(value, np.ndarray) and value.shape not in ((), (other.n_channels,)):
                raise InvalidInput(
                    f"{name} has shape {value.shape}, expected {_shape_text(other.n_channels)} like the values of the "
                    "rows"
                )
        return other

    def with_spread(self) -> Self:
        """The emission for rows whose states add noise."""
        if not self.takes_spread or self.n_channels is not None:
            raise InvalidInput(
                f"rows with spread= need Gaussian, StudentT or IntegratedDepth and one channel, got "
                f"{type(self).__name__} with {self.n_channels or 'one'}; leave spread out"
            )
        other = copy(self)
        other.spreads, other.n_channels = True, 2
        return other

    def split_level(self, level: Floats) -> tuple[Floats, Floats | float]:
        """The level of the signal, and the variance that states add to the noise."""
        return (level[..., 0], level[..., 1]) if self.spreads else (level, 0.0)

    def join_slopes(self, by_level: Floats, by_variance: Floats) -> Floats:
        """Derivatives by a level from those by what `split_level` gives."""
        return np.stack([by_level, by_variance], axis=-1) if self.spreads else by_level

    def given(self, name: str) -> Any:
        return None if name == "weights" and self.default_weights else super().given(name)

    def _learn_weights(self, weights: Any, low: float = -np.inf) -> Any:
        weights = mixed("weights", weights)
        if isinstance(weights, Prior) and weights.shape == ():
            raise InvalidInput(
                f"the prior of weights must have one value per row, got {weights}; three independent positive weights "
                "are Gamma([2, 2, 2], 2), three that add up to 1 are Dirichlet([1, 1, 1])"
            )
        return self._learn("weights", weights, low, (getattr(weights, "shape", ()),))

    def parameter(
        self, name: str, value: Any, positive: bool = False, least: float = -np.inf, per_channel: bool = True
    ) -> Floats:
        """The value of an argument of `__init__`, checked; a prior is remembered, and the parameter is then learned.

        Parameters
        ----------
        name : of the argument, for error messages.
        value : a number, an array (D,), or a prior.
        positive : whether it must be above 0.
        least : the least value that is allowed.
        per_channel : whether (D,), one number for every channel of a level, is allowed.

        Returns
        -------
        () or (D,): the number or the numbers; of a prior, a typical value.

        Examples
        --------
        >>> import chiasma as ch
        >>> emission = ch.Gaussian([1.0, 2.0])
        >>> emission.parameter("scale", 0.5, positive=True).tolist()
        0.5
        >>> emission.parameter("scale", ch.HalfNormal(2.0), positive=True).round(2).tolist()
        1.35
        """
        value = mixed(name, value)
        shapes: list[tuple[int, ...]] = [()]
        shape = value.shape if isinstance(value, Prior) else as_floats(name, value).shape
        if per_channel and self.default_weights and len(shape) == 1:
            shapes.append(shape)  # the rows will say how many channels there are, and for_rows checks it
        elif per_channel and self.n_channels is not None:
            shapes.append((self.n_channels,))
        given = as_floats(name, self._learn(name, value, 0.0 if positive else least, shapes))
        if given.shape not in shapes:
            expected = _shape_text(self.n_channels if per_channel else None)
            raise InvalidInput(f"{name} must be {expected}, got shape {given.shape}")
        if not np.all(np.isfinite(given)) or np.any(given < least) or (positive and np.any(given <= 0)):
            bound = "positive and finite" if positive else "finite" if least == -np.inf else f"finite and >= {least:g}"
            raise InvalidInput(f"{name} must be {bound}, got {given}")
        if np.any(np.abs(given) > LARGEST) or (positive and np.any(given < 1 / LARGEST)):
            raise InvalidInput(
                f"{name} must be in the range of {1 / LARGEST:g} to {LARGEST:g}, got {given}: its square "
                "would overflow; choose other units"
            )
        return given

    @abstractmethod
    def log_density(self, y: Floats, level: Floats) -> Floats:
        """log p(y | level), broadcast; y is never NaN here. Channels, if any, are the last axis of both."""

    @abstractmethod
    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        """Draw one y for every level."""

    def expected(self, level: Floats) -> Floats:
        """The expected signal at a level: the mean of y, or its centre where y has no mean."""
        raise InvalidInput(
            f"a {type(self).__name__} has no expected signal; use plot_row or plot_marginals, which do not need it, "
            "or add a method expected(level) to your own emission"
        )

    def tails(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        """P(Y <= y | level) and P(Y >= y | level), of every channel by itself; both, so that neither loses digits."""
        raise InvalidInput(f"a {type(self).__name__} has no distribution function; add a method tails(y, level)")

    def check(self, data: Observations) -> None:
        expected = None if self.spreads else self.n_channels
        wanted = "(T,)" if expected is None else f"(T, {expected})"
        channels = None if data.y.ndim == 1 else data.y.shape[1]
        if channels != expected:
            what = "rows" if self.default_weights else "weights"
            raise InvalidInput(f"{type(self).__name__} with these {what} needs y of shape {wanted}, got {data.y.shape}")

    def log_likelihood(self, y: Floats, level: Floats) -> Floats:
        """log p(y | level), shape (n, S) or (n, m), for y (n,) or (n, D) and levels (S,) or (n, m), plus axis D if any.

        Missing columns give 0.
        """
        if self.n_channels is not None and not self.spreads:
            return self._channels(y[:, None, :], level)
        seen = ~np.isnan(y)
        if seen.all():
            return self.log_density(y[:, None], level)
        of_signal, _ = self.split_level(level)
        out = np.zeros((len(y), of_signal.shape[-1]))
        out[seen] = self.log_density(y[seen, None], level if of_signal.ndim == 1 else level[seen])
        return out

    def slopes(self, y: Floats, level: Floats, names: Collection[str]) -> dict[str, Floats]:
        """Derivatives of `log_density` with respect to the "level" and to the parameters in `names`, broadcast.

        Here by central differences, which serve any density that is smooth; each emission has its own formulas.
        """

        def difference(step: Floats, ahead: Floats, behind: Floats) -> Floats:
            return np.asarray((ahead - behind) / (2 * step))

        step = difference_step(level)
        found = {"level": difference(step, self.log_density(y, level + step), self.log_density(y, level - step))}
        for name in names:
            value = getattr(self, name)
            width = difference_step(value)
            ahead, behind = copy(self), copy(self)
            setattr(ahead, name, value + width)
            setattr(behind, name, value - width)
            found[name] = difference(width, ahead.log_density(y, level), behind.log_density(y, level))
        return found

    def summed_slopes(self, y: Floats, level: Floats, weights: Floats, names: Collection[str]) -> dict[str, Floats]:
        """sum_t weights[t, s] * slopes of column t at level s: "level" (S,) or (S, D), a parameter () or (D,).

        y (n,) or (n, D), level (S,) or (S, D), weights (n, S); missing values contribute nothing.
        """
        found: dict[str, Floats] = {}
        # A few columns at a time, so that the arrays of all columns and states stay small.
        step = max(1, _PIECE // weights.shape[1])
        for a in range(0, len(y), step):
            for name, slope in self._piece_slopes(y[a : a + step], level, weights[a : a + step], names).items():
                found[name] = found.get(name, 0.0) + slope
        return found

    def _piece_slopes(self, y: Floats, level: Floats, weights: Floats, names: Collection[str]) -> dict[str, Floats]:
        missing = np.isnan(y)
        seen = filled(y)[:, None]
        found = {}
        of_signal, _ = self.split_level(level)
        shape = np.broadcast_shapes(seen.shape, of_signal.shape)
        for name, slope in self.slopes(seen, level, names).items():
            both = self.spreads and name == "level"
            whole = np.broadcast_to(slope, (*shape, 2) if both else shape)
            whole = np.where(missing[:, None, None] if both else missing[:, None], 0.0, whole)
            # A state without weight may have no slope: its density is zero.
            own = weights if whole.ndim == 2 else weights[..., None]
            terms = np.where(own > 0, own * whole, 0.0)
            found[name] = terms.sum(axis=0) if name == "level" else terms.sum(axis=(0, 1))
        return found

    takes_offset: ClassVar[bool] = False  # whether a shift of the signal is a shift of its mean

    def pull(self, y: Floats, level: Floats) -> tuple[Floats, Floats]:
        """Derivative of the log density with respect to an offset of y, and the precision of a normal density with the
        same derivative and its top at the mean; broadcast like NumPy's functions.
        """
        raise NotImplementedError

    def summed_pull(self, y: Floats, level: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """(n,) each: `pull` of columns y (n,), averaged over levels (S,) with weights (n, S); 0 where y is missing."""
        missing = np.isnan(y)
        slope, precision = self.pull(filled(y)[:, None], level)
        found = (np.where(missing, 0.0, (weights * own).sum(axis=1)) for own in (slope, precision))
        slope, precision = found
        return slope, precision

    def draw_precisions(self, y: Floats, level: Floats, beta: float, rng: np.random.Generator) -> Floats:
        """(n,) precisions that make the density to the power of beta normal in an offset, given what it is now: drawn
        where the density is a mixture of normal ones; 0 where y is missing.
        """
        return np.where(np.isnan(y), 0.0, beta * self.pull(filled(y), level)[1])

    def summarise(self, y: Floats, group: Integers, n_groups: int) -> Any:
        """A summary of columns y for `summed`; columns of the same group, 0..n_groups-1, have the same level.

        Subclasses return sufficient statistics where the density has them; here, the columns themselves.
        """
        if y.ndim == 2:
            return y, group
        seen = ~np.isnan(y)
        return y[seen], group[seen]

    def summed(self, summary: Any, level: Floats) -> float:
        """Sum of the log-likelihoods of the summarised columns, given the level of each group."""
        y, group = summary
        if y.ndim == 2:
            return float(self._channels(y, level[group]).sum())
        return float(self.log_density(y, level[group]).sum())

    def fused_filter(
        self, y: Floats, weights: Floats, base: Floats, beta: float, best: bool = False
    ) -> FusedFilter | None:
        """A compiled filter that computes the likelihoods of all codes of rows with these weights on the fly. None
        where the density has no such filter; likelihoods are then evaluated before columns are filtered. best: the
        filter of the most probable path.
        """
        return None

    def gaussian_parts(self, y: Floats, weights: Floats, base: Floats) -> GaussianParts | None:
        """Data, steps and noise for rows with these weights on top of the level `base`; None if not Gaussian."""
        return None

    def _channels(self, y: Floats, level: Floats) -> Floats:
        missing = np.isnan(y)
        log_density = self.log_density(filled(y), level)
        return np.where(missing, 0.0, log_density).sum(axis=-1)


def filled(y: Floats) -> Floats:
    """y (T,) or (T, D) with values that were measured in the place of missing ones, each in its channel; 0 where a
    channel has none. What a density makes of them is dropped, but a density need not take any number.

    >>> filled(np.array([[np.nan, 5.0], [2.0, np.nan], [3.0, 6.0]])).tolist()
    [[2.0, 5.0], [2.0, 5.0], [3.0, 6.0]]
    """
    missing = np.isnan(y)
    if not missing.any():
        return y
    first = np.take_along_axis(y, np.argmin(missing, axis=0)[None], axis=0)
    return np.where(missing, np.nan_to_num(first), y)


def difference_step(value: Floats) -> Floats:
    """A step of central differences: errors of rounding and of the third derivative are about equal."""
    return np.asarray(np.cbrt(np.finfo(float).eps) * np.maximum(1.0, np.abs(value)))


def row_count(n_rows: int) -> int:
    if not 1 <= n_rows <= MOST_BITS:
        raise InvalidInput(f"a model has 1..{MOST_BITS} rows, got {n_rows} weights")
    return n_rows


def _shape_text(n_channels: int | None) -> str:
    return "a single number" if n_channels is None else f"a number or {n_channels} numbers (channels)"
