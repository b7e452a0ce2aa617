"""Density: any log-density over vectors, discrete or continuous; BlockModes: the paper's toy target.

A replica at inverse temperature beta has the target

    log pi_beta(x) = log_prior(x) + beta * log_density(x),

up to a constant. The prior is not tempered. At beta = 0 only the prior remains, even where log_density = -inf.
x: a vector (size,), or n of them (n, size); log_density and log_prior: (n, size) -> (n,).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import BudgetExceeded, InvalidInput
from chiasma.kernels import block_modes
from chiasma.models.target import check_beta
from chiasma.types import Floats, Integers, as_array, as_count, as_floats, is_a, shown

Vector = npt.NDArray[Any]
LogDensity = Callable[[Vector], npt.ArrayLike]
Init = npt.ArrayLike | Callable[[np.random.Generator], npt.ArrayLike]
PriorDraw = Callable[[np.random.Generator], npt.ArrayLike]

# Size of the batch of vectors passed to a user's function at once, as doubles; the function may copy it a few times.
BATCH_BYTES = 16 * 2**20
MAX_MODES = 2**20


class Density:
    """Any target over vectors of one length.

    Parameters
    ----------
    log_density : the tempered part, a vectorised function (n, size) -> (n,), up to a constant. -inf is zero density.
        It is called only where log_prior is above -inf.
    size : length of a vector.
    init : where a run starts, an array (size,) or a function rng -> (size,). Its dtype is the dtype of every state.
    update : what changes a vector within a replica: ch.SiteGibbs(...), ch.RandomWalk(...), or a function
        (x, beta, rng) -> new x that leaves log_prior + beta * log_density invariant.
    log_prior : the part that is not tempered, (n, size) -> (n,). Default: 0, a flat prior. Over real numbers that is no
        distribution: log_evidence is then None, and the hottest replicas wander far off.
    prior_draw : a function rng -> (size,) that draws from log_prior exactly. With it a replica at beta = 0 makes
        independent draws; without it the update is used at beta = 0 too.

    Examples
    --------
    >>> import chiasma as ch
    >>> normal = ch.Density(
    ...     lambda x: -0.5 * (x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk(scale=1.0)
    ... )
    >>> posterior = ch.sample(normal, ladder=[1, 3], draws=500, warmup=100, seed=1, progress=False)
    >>> posterior.draws.shape, bool(abs(posterior.draws.std() - 1) < 0.2)
    ((4, 500, 2), True)
    """

    def __init__(
        self,
        log_density: LogDensity,
        size: int,
        init: Init,
        update: Any,
        log_prior: LogDensity | None = None,
        prior_draw: PriorDraw | None = None,
    ):
        _check_function("log_density", log_density)
        if log_prior is not None:
            _check_function("log_prior", log_prior)
        if prior_draw is not None:
            _check_function("prior_draw", prior_draw)
        self.size = _whole("size", size)
        self.init = init
        self.update = update
        self.prior_draw = prior_draw
        self._log_density = log_density
        self._log_prior = log_prior

    @property
    def has_proper_prior(self) -> bool:
        """Whether the prior is a distribution: log_prior was given, or a flat one is uniform over whole numbers or an
        alphabet. Otherwise there is no evidence.
        """
        return self._log_prior is not None or self.dtype.kind != "f" or hasattr(self.update, "alphabet")

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of every state: that of init, so that integers stay integers."""
        start = self.init(np.random.default_rng(0)) if callable(self.init) else self.init
        return _numbers("init", start).dtype

    def initial(self, rng: np.random.Generator) -> Vector:
        """A fresh vector to start from."""
        return self.check_state(self.init(rng) if callable(self.init) else self.init)

    def check_state(self, x: npt.ArrayLike, name: str = "init") -> Vector:
        """A copy of x as a state, checked to have positive density; `name` is the name of x in error messages."""
        state = self.as_state(x, name)
        log_density, log_prior = self.evaluate(state[None])
        for part, value in (("log_prior", log_prior[0]), ("log_density", log_density[0])):
            if value == -np.inf:
                raise InvalidInput(
                    f"{name} must have positive density, got {part} = -inf at {_show(state)}; start inside the support"
                )
        return state

    def as_state(self, x: npt.ArrayLike, name: str) -> Vector:
        """A copy of x with the shape and dtype of a state; its density is not checked."""
        given = _numbers(name, x)
        if given.shape != (self.size,):
            raise InvalidInput(f"{name} must have shape ({self.size},), the size of the density, got {given.shape}")
        state = given.astype(self.dtype)
        if not np.array_equal(state, given, equal_nan=given.dtype.kind == "f"):
            raise InvalidInput(
                f"{name} must hold values of dtype {self.dtype}, as init does, got {_show(given)}; "
                "for a continuous density let init hold floats"
            )
        return state

    def evaluate(self, x: Vector) -> tuple[Floats, Floats]:
        """log_density and log_prior, both (n,), of vectors (n, size)."""
        log_prior = self.evaluate_prior(x)
        inside = log_prior > -np.inf
        if inside.all():
            return _values("log_density", self._log_density, x), log_prior
        log_density = np.full(len(x), -np.inf)
        if inside.any():
            log_density[inside] = _values("log_density", self._log_density, x[inside])
        return log_density, log_prior

    def evaluate_prior(self, x: Vector) -> Floats:
        """log_prior (n,) of vectors (n, size)."""
        if not is_a(x, np.ndarray) or x.dtype.kind not in "biuf" or isinstance(x, np.ma.MaskedArray):
            raise InvalidInput(f"x must be an array of real numbers, got {shown(x)}; for one vector x pass x[None]")
        if x.ndim != 2 or x.shape[1] != self.size:
            raise InvalidInput(f"x must have shape (n, {self.size}), got {x.shape}; for one vector pass x[None]")
        return np.zeros(len(x)) if self._log_prior is None else _values("log_prior", self._log_prior, x)

    def tempered(self, x: Vector, beta: float) -> Floats:
        """log pi_beta, (n,), of vectors (n, size)."""
        beta = check_beta(beta)
        return self.evaluate_prior(x) if beta == 0 else temper(*self.evaluate(x), beta)

    def log_likelihood(self, x: Vector) -> float:
        """The tempered part, at beta = 1, of one vector."""
        return float(self.evaluate(self._alone(x))[0][0])

    def log_prior(self, x: Vector) -> float:
        """The part that is not tempered, of one vector."""
        return float(self.evaluate_prior(self._alone(x))[0])

    def _alone(self, x: npt.ArrayLike) -> Vector:
        """(1, size): one vector, as many are given."""
        given = as_array("x", x)
        if given.shape != (self.size,):
            raise InvalidInput(f"x must have shape ({self.size},), the size of the density, got {given.shape}")
        return given[None]

    def crossover_scores(self, u: Vector, v: Vector, cuts: Integers) -> tuple[Floats, Floats]:
        """log_density and log_prior, both (2, n), of u and v after exchanging coordinates 0..t, for each t in cuts.

        Exchanging t+1..size-1 instead gives the same two vectors, the other way round.
        """
        self._check_cuts(u, v, cuts)
        log_density, log_prior = np.empty((2, len(cuts))), np.empty((2, len(cuts)))
        sites = np.arange(self.size)
        step = max(1, BATCH_BYTES // (16 * self.size))
        for first in range(0, len(cuts), step):
            part = slice(first, first + step)
            exchanged = sites <= cuts[part, None]
            batch = np.concatenate([np.where(exchanged, v, u), np.where(exchanged, u, v)])
            for out, scores in zip((log_density, log_prior), self.evaluate(batch), strict=True):
                out[:, part] = scores.reshape(2, -1)
        return log_density, log_prior

    def _check_cuts(self, u: Vector, v: Vector, cuts: Integers) -> None:
        if not np.shape(u) == np.shape(v) == (self.size,):
            raise InvalidInput(f"u and v must have shape ({self.size},), got {np.shape(u)} and {np.shape(v)}")
        if not is_a(cuts, np.ndarray) or cuts.ndim != 1 or cuts.dtype.kind not in "iu":
            raise InvalidInput(f"cuts must be an array of coordinates in 0..{self.size - 1}, got {shown(cuts)}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, update={self.update!r})"


class BlockModes(Density):
    """The paper's toy target over {0, 1}^size: contiguous blocks, each with one mode of ones and one of zeros.

    log pi(x) = sum_j log(alpha_j) * min(ones_j, length_j - ones_j), so there are 2^blocks modes of equal height.

    Parameters
    ----------
    blocks : number of blocks. Where it does not divide size, the first blocks are one site longer.
    size : length of a vector.
    alpha : in (0, 1], one for all blocks or one each; the smaller, the more peaked the modes.
    init : default: blocks of ones and zeros in turn, which is a mode.
    update : default: a sweep of SiteGibbs().

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> toy = ch.BlockModes(blocks=2, size=6, alpha=0.1)
    >>> x = np.array([1, 1, 0, 0, 0, 0])
    >>> toy.log_likelihood(x), toy.nearest_mode(x).tolist()
    (-2.302585, [1, 0])
    """

    def __init__(self, blocks: int, size: int, alpha: npt.ArrayLike, init: Init | None = None, update: Any = None):
        self.blocks = _whole("blocks", blocks)
        if self.blocks > _whole("size", size):
            raise InvalidInput(f"blocks must be in 1..{size} (size), got {blocks}")
        lengths = np.full(self.blocks, size // self.blocks)
        lengths[: size % self.blocks] += 1
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.block = np.repeat(np.arange(self.blocks), lengths)
        self.alpha = _alpha(alpha, self.blocks)
        self.log_alpha = np.log(self.alpha)
        super().__init__(self._of_blocks, size, 1 - self.block % 2 if init is None else init, update)

    @property
    def lengths(self) -> Integers:
        """(blocks,) sites of each block."""
        return np.diff(self.starts)

    @property
    def modes(self) -> npt.NDArray[np.int8]:
        """(2^blocks, size): every mode; in mode n, block j holds bit j of n."""
        if 2**self.blocks * self.size > MAX_MODES * 50:
            raise BudgetExceeded(f"2^{self.blocks} modes of {self.size} sites are too many to list; use nearest_mode")
        return (np.arange(2**self.blocks)[:, None] >> self.block & 1).astype(np.int8)

    def nearest_mode(self, x: npt.ArrayLike) -> npt.NDArray[np.int8]:
        """(..., size) to (..., blocks): the majority in each block, 1 or 0, and -1 where it is a tie."""
        given = as_array("x", x)
        if given.dtype.kind not in "biu" or given.shape[-1:] != (self.size,):
            raise InvalidInput(
                f"x must be zeros and ones of shape (..., {self.size}), got {given.dtype} of shape {given.shape}"
            )
        excess = 2 * np.add.reduceat(given.astype(np.int64), self.starts[:-1], axis=-1) - self.lengths
        return np.where(excess == 0, -1, excess > 0).astype(np.int8)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of every state."""
        return np.dtype(np.int8)

    def crossover_scores(self, u: Vector, v: Vector, cuts: Integers) -> tuple[Floats, Floats]:
        self._check_cuts(u, v, cuts)
        scores = np.empty((2, self.size))
        block_modes.crossover_scores(u, v, self.starts, self.log_alpha, scores)
        return scores[:, cuts], np.zeros((2, len(cuts)))

    def _of_blocks(self, x: Vector) -> Floats:
        out = np.empty(len(x))
        block_modes.log_densities(np.ascontiguousarray(x), self.starts, self.log_alpha, out)
        return out

    def __repr__(self) -> str:
        return f"BlockModes(blocks={self.blocks}, size={self.size}, update={self.update!r})"


def temper(log_density: Floats, log_prior: Floats, beta: float) -> Floats:
    """log pi_beta from its parts; beta = 0 ignores even a log-density of -inf."""
    return log_prior + beta * log_density if beta > 0 else log_prior


def _values(name: str, function: LogDensity, x: Vector) -> Floats:
    """Call a user's function on vectors (n, size) and check what it returns."""
    try:
        # A copy, because a function may work in place.
        values = np.asarray(function(x.copy()), np.float64)
    except (TypeError, ValueError) as error:
        error.add_note(f"{name} was called with vectors of shape {x.shape} and must return an array ({len(x)},)")
        raise
    if values.shape != (len(x),):
        raise InvalidInput(
            f"{name} must map vectors of shape {x.shape} to an array ({len(x)},), got shape {values.shape}; for a "
            "function f of one vector pass lambda x: np.array([f(row) for row in x])"
        )
    # False for NaN and +inf.
    finite = values < np.inf
    if not finite.all():
        n = int(np.argmin(finite))
        raise InvalidInput(
            f"{name} must be a number or -inf, got {values[n]} at {_show(x[n])}; return -inf where the density is zero"
        )
    return values


def _check_function(name: str, function: object) -> None:
    if not callable(function):
        raise InvalidInput(f"{name} must be a function, got {type(function).__name__}; pass it without calling it")


def _numbers(name: str, x: npt.ArrayLike) -> Vector:
    try:
        given = np.array(x)
    except ValueError as error:
        raise InvalidInput(f"{name} must be a vector of numbers, got a ragged {type(x).__name__}") from error
    if given.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} must be a vector of real numbers, got dtype {given.dtype}")
    return given


def _whole(name: str, value: Any) -> int:
    return as_count(name, value)


def _alpha(alpha: npt.ArrayLike, blocks: int) -> Floats:
    given = as_floats("alpha", alpha)
    if given.shape not in ((), (blocks,)):
        raise InvalidInput(f"alpha must be one number or {blocks} (blocks), got shape {given.shape}")
    values = np.broadcast_to(given, (blocks,)).copy()
    bad = ~((values > 0) & (values <= 1))
    if bad.any():
        j = int(np.argmax(bad))
        raise InvalidInput(f"alpha must be in (0, 1], got {values[j]:g} for block {j}")
    return values


def _show(x: Vector) -> str:
    """A vector in an error message: long ones abridged."""
    return np.array2string(x, threshold=24, edgeitems=8, max_line_width=10_000)
