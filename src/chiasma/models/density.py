"""Density: any log-density over vectors, discrete or continuous; BlockModes: the paper's toy target.

A replica at inverse temperature beta has the target

    log pi_beta(x) = log_prior(x) + beta * log_density(x),

up to a constant. The prior is not tempered. At beta = 0 only the prior remains, even where log_density = -inf.
x: a vector (size,), or n of them (n, size); log_density and log_prior: (n, size) -> (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import BudgetExceeded, InvalidInput
from chiasma.models.target import check_beta
from chiasma.types import Floats, Integers, as_array, as_count, as_floats, is_a, is_count, shown

Vector = npt.NDArray[Any]
LogDensity = Callable[[Vector], npt.ArrayLike]
Gradient = Callable[[Vector], npt.ArrayLike]
Local = Callable[[Vector, Integers, Vector], npt.ArrayLike]
Init = npt.ArrayLike | Callable[[np.random.Generator], npt.ArrayLike]
PriorDraw = Callable[[np.random.Generator], npt.ArrayLike]

# Size of the batch of vectors passed to a user's function at once, as doubles; the function may copy it a few times.
BATCH_BYTES = 16 * 2**20
MAX_MODES = 2**20
# Two evaluations of one vector may differ by rounding, for example in matrix products of other sizes.
ROUNDING = 1e-7


class Density:
    """Any target over vectors of one length.

    Parameters
    ----------
    log_density : the tempered part, a vectorised function (n, size) -> (n,), up to a constant. -inf is zero density.
        It is called only where log_prior is above -inf.
    size : length of a vector.
    init : where a run starts, an array (size,) or a function rng -> (size,). Its dtype is the dtype of every state.
    update : what changes a vector within a replica: ch.RandomWalk(...), ch.Hamiltonian(...), ch.Stretch(...),
        ch.SiteGibbs(...), ch.LocallyInformed(...), or a function (x, beta, rng) -> new x that leaves
        log_prior + beta * log_density invariant. Default: Hamiltonian() with a gradient, else RandomWalk().
    log_prior : the part that is not tempered, (n, size) -> (n,). Default: 0, a flat prior. Over real numbers that is no
        distribution: log_evidence is then None, and ladder="auto" ends at a finite temperature.
    prior_draw : a function rng -> (size,) that draws from log_prior exactly. With it a replica at beta = 0 makes
        independent draws; without it the update is used at beta = 0 too.
    gradient, prior_gradient : the gradients of log_density and of log_prior, (n, size) -> (n, size).
    local : the change of log_density when one coordinate changes, (x, sites, values) -> (n,): in vector x[i] the
        coordinate sites[i] becomes values[i]. Gibbs draws and crossovers then need no whole evaluations.
    neighbours : for each coordinate, those that it interacts with. Coordinates that do not interact are updated in one
        call by SiteGibbs.
    vectorised : False if the functions take one vector (size,). They are then called in a loop, which is slow.

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
        update: Any = None,
        log_prior: LogDensity | None = None,
        prior_draw: PriorDraw | None = None,
        *,
        gradient: Gradient | None = None,
        prior_gradient: Gradient | None = None,
        local: Local | None = None,
        neighbours: Sequence[Sequence[int]] | None = None,
        vectorised: bool = True,
    ):
        _check_function("log_density", log_density)
        functions: dict[str, Any] = {"log_prior": log_prior, "prior_draw": prior_draw, "gradient": gradient}
        functions |= {"prior_gradient": prior_gradient, "local": local}
        for name, function in functions.items():
            if function is not None:
                _check_function(name, function)
        if not isinstance(vectorised, bool | np.bool_):
            raise InvalidInput(f"vectorised must be True or False, got {shown(vectorised)}")
        if gradient is not None and log_prior is not None and prior_gradient is None:
            raise InvalidInput("gradient covers log_density only; give that of log_prior, too: prior_gradient=...")
        self.size = _whole("size", size)
        self.init = init
        self.update = update
        self.prior_draw = prior_draw
        self.vectorised = bool(vectorised)
        self._neighbours = None if neighbours is None else _adjacency(neighbours, self.size)
        self._log_density = log_density if vectorised else _in_a_loop(log_density)
        self._log_prior = log_prior if vectorised or log_prior is None else _in_a_loop(log_prior)
        self._gradient = gradient if vectorised or gradient is None else _in_a_loop(gradient)
        self._prior_gradient = prior_gradient if vectorised or prior_gradient is None else _in_a_loop(prior_gradient)
        self._local = local

    @classmethod
    def from_jax(cls, log_density: Any, size: int, init: Init, log_prior: Any = None, **options: Any) -> Density:
        """A density from JAX functions of one vector; its gradients are derived.

        Parameters
        ----------
        log_density, log_prior : functions (size,) -> () that JAX can trace.
        size, init : as for Density.
        options : further arguments of Density.

        Returns
        -------
        Density.

        Examples
        --------
        >>> import chiasma as ch
        >>> banana = ch.Density.from_jax(  # doctest: +SKIP
        ...     lambda x: -x[0] ** 2 / 8 - (x[1] + x[0] ** 2 / 4) ** 2, size=2, init=[0.0, 0.0]
        ... )
        """
        from chiasma.models.jax_functions import batched

        value, gradient = batched(log_density)
        prior, prior_gradient = (None, None) if log_prior is None else batched(log_prior)
        return cls(value, size, init, log_prior=prior, gradient=gradient, prior_gradient=prior_gradient, **options)

    @property
    def has_proper_prior(self) -> bool:
        """Whether the prior is a distribution: log_prior was given, or a flat one is uniform over whole numbers or an
        alphabet. Otherwise there is no evidence.
        """
        return self._log_prior is not None or self.dtype.kind != "f" or hasattr(self.update, "alphabet")

    @property
    def has_gradient(self) -> bool:
        """Whether the gradient of the whole density is known."""
        return self._gradient is not None

    @property
    def has_local(self) -> bool:
        """Whether the change by a single coordinate is known."""
        return self._local is not None

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of every state, taken from init, so that integers stay integers."""
        start = self.init(np.random.default_rng(0)) if callable(self.init) else self.init
        return _numbers("init", start).dtype

    def colours(self) -> list[Integers]:
        """Classes of coordinates that do not interact; where neighbours are not given, each is its own."""
        if self._neighbours is None:
            return [np.array([t]) for t in range(self.size)]
        colour = np.full(self.size, -1)
        for t, others in enumerate(self._neighbours):
            taken = set(colour[others].tolist())
            colour[t] = next(c for c in range(self.size) if c not in taken)
        return [np.flatnonzero(colour == c) for c in range(int(colour.max()) + 1)]

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

    def check_functions(self, x: Vector) -> None:
        """Raise InvalidInput if values at x (size,) change with time or with other vectors of a batch, or if the
        gradient there is not finite.
        """
        n = 3 if self.size != 3 else 4
        for name, function in (("log_density", self._log_density), ("log_prior", self._log_prior)):
            if function is None:
                continue
            alone = _values(name, function, x[None])[0]
            together = _values(name, function, np.repeat(x[None], n, axis=0))
            apart = together[~np.isclose(together, alone, rtol=ROUNDING, atol=ROUNDING)]
            if len(apart):
                raise InvalidInput(
                    f"{name} must give every vector its own value, always the same, got {alone} for {_show(x)} alone "
                    f"and {apart[0]} in a batch of {n}; sum over axis 1, and for a function of one vector pass "
                    "vectorised=False"
                )
        if self.has_gradient:
            for name, slope in zip(("gradient", "prior_gradient"), self.slopes(x[None]), strict=True):
                if not np.isfinite(slope).all():
                    raise InvalidInput(f"{name} must be finite where a run starts, got {_show(slope[0])} at {_show(x)}")

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
        self._check_batch(x)
        return self.parts(x)

    def parts(self, x: Vector) -> tuple[Floats, Floats]:
        """As `evaluate`, of an array that need not be checked, in batches of a bounded size."""
        step = max(2, BATCH_BYTES // (8 * self.size))
        if len(x) > step:
            several = [self.parts(x[first : first + step]) for first in range(0, len(x), step)]
            return np.concatenate([part[0] for part in several]), np.concatenate([part[1] for part in several])
        if self._log_prior is None:
            return _values("log_density", self._log_density, x), np.zeros(len(x))
        log_prior = _values("log_prior", self._log_prior, x)
        inside = log_prior > -np.inf
        if inside.all():
            return _values("log_density", self._log_density, x), log_prior
        log_density = np.full(len(x), -np.inf)
        if inside.any():
            log_density[inside] = _values("log_density", self._log_density, x[inside])
        return log_density, log_prior

    def evaluate_prior(self, x: Vector) -> Floats:
        """log_prior (n,) of vectors (n, size)."""
        self._check_batch(x)
        return np.zeros(len(x)) if self._log_prior is None else _values("log_prior", self._log_prior, x)

    def changed(self, x: Vector, log_density: Floats, sites: Integers, values: Vector) -> tuple[Floats, Floats]:
        """log_density and log_prior (n,) of x (n, size) after x[i, sites[i]] = values[i]; log_density (n,): before."""
        if self._local is None or not np.all(log_density > -np.inf):
            new = x.copy()
            new[np.arange(len(x)), sites] = values
            return self.parts(new)
        changes, log_prior = self.changes(x, sites, values)
        wrong = ~(changes < np.inf)
        if wrong.any():
            n = int(np.argmax(wrong))
            raise InvalidInput(
                f"local must be a number or -inf, got {changes[n]} where coordinate {sites[n]} becomes {values[n]} in "
                f"{_show(x[n])}"
            )
        return log_density + changes, log_prior

    def changes(self, x: Vector, sites: Integers, values: Vector) -> tuple[Floats, Floats]:
        """What `local` gives, whatever it is, and log_prior after the changes."""
        assert self._local is not None
        log_prior = np.zeros(len(x))
        if self._log_prior is not None:
            new = x.copy()
            new[np.arange(len(x)), sites] = values
            log_prior = _values("log_prior", self._log_prior, new)
        return _call("local", self._local, x.copy(), sites.copy(), values.copy()), log_prior

    def slopes(self, x: Vector) -> tuple[Floats, Floats]:
        """Gradients of log_density and log_prior, both (n, size), of vectors (n, size)."""
        assert self._gradient is not None
        prior = (
            np.zeros(x.shape) if self._prior_gradient is None else _slopes("prior_gradient", self._prior_gradient, x)
        )
        return _slopes("gradient", self._gradient, x), prior

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

    def _check_batch(self, x: Vector) -> None:
        if not is_a(x, np.ndarray) or x.dtype.kind not in "biuf" or isinstance(x, np.ma.MaskedArray):
            raise InvalidInput(f"x must be an array of real numbers, got {shown(x)}; for one vector x pass x[None]")
        if x.ndim != 2 or x.shape[1] != self.size:
            raise InvalidInput(f"x must have shape (n, {self.size}), got {x.shape}; for one vector pass x[None]")

    def _alone(self, x: npt.ArrayLike) -> Vector:
        """(1, size): one vector, as many are given."""
        given = as_array("x", x)
        if given.shape != (self.size,):
            raise InvalidInput(f"x must have shape ({self.size},), the size of the density, got {given.shape}")
        return given[None]

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
        self._lengths = lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.block = np.repeat(np.arange(self.blocks), lengths)
        self.alpha = _alpha(alpha, self.blocks)
        self.log_alpha = np.log(self.alpha)
        self._member = (self.block[:, None] == np.arange(self.blocks)).astype(float)
        neighbours = [np.flatnonzero(self.block == block).tolist() for block in self.block]
        start = (1 - self.block % 2).astype(np.int8) if init is None else init
        super().__init__(self._of_blocks, size, start, update, local=self._of_flips, neighbours=neighbours)

    @property
    def lengths(self) -> Integers:
        """(blocks,) sites of each block."""
        return self._lengths

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

    def _of_blocks(self, x: Vector) -> Floats:
        ones = x @ self._member
        out = np.minimum(ones, self.lengths - ones) @ self.log_alpha
        if x.min(initial=0) < 0 or x.max(initial=1) > 1:
            out[((x != 0) & (x != 1)).any(axis=1)] = -np.inf
        return out

    def _of_flips(self, x: Vector, sites: Integers, values: Vector) -> Floats:
        block = self.block[sites]
        ones = (x @ self._member)[np.arange(len(x)), block]
        rows = np.arange(len(x))
        after = ones + values.astype(float) - x[rows, sites]
        lengths = self.lengths[block]
        gain = np.minimum(after, lengths - after) - np.minimum(ones, lengths - ones)
        return np.where((values == 0) | (values == 1), gain * self.log_alpha[block], -np.inf)

    def __repr__(self) -> str:
        return f"BlockModes(blocks={self.blocks}, size={self.size}, update={self.update!r})"


def temper(log_density: Floats, log_prior: Floats, beta: float) -> Floats:
    """log pi_beta from its parts; beta = 0 ignores even a log-density of -inf."""
    return log_prior + beta * log_density if beta > 0 else log_prior


def _values(name: str, function: LogDensity, x: Vector) -> Floats:
    """Call a user's function on vectors (n, size) and check what it returns."""
    # A copy, because a function may work in place.
    values = _call(name, function, x.copy())
    if not values.max(initial=-np.inf) < np.inf:  # NaN or +inf
        n = int(np.argmin(values < np.inf))
        raise InvalidInput(
            f"{name} must be a number or -inf, got {values[n]} at {_show(x[n])}; return -inf where the density is zero"
        )
    return values


def _call(name: str, function: Callable[..., npt.ArrayLike], x: Vector, *others: Vector) -> Floats:
    """The values (n,) of a user's function of vectors (n, size)."""
    try:
        given = np.asarray(function(x, *others))
        if given.dtype.kind == "c":
            raise InvalidInput(f"{name} must return real numbers, got {given.dtype}; take the real part, or -inf")
        values = given.astype(np.float64, copy=False)
    except Exception as error:
        _note_cause(name, function, error, x, *others)
        raise
    if values.shape != (len(x),):
        raise InvalidInput(
            f"{name} must map vectors of shape {x.shape} to an array ({len(x)},), got shape {values.shape}; for a "
            "function of one vector pass vectorised=False, which is slower"
        )
    return values


def _slopes(name: str, function: Gradient, x: Vector) -> Floats:
    """The gradients (n, size) that a user's function gives."""
    try:
        slopes = np.asarray(function(x.copy()), np.float64)
    except Exception as error:
        _note_cause(name, function, error, x)
        raise
    if slopes.shape != x.shape:
        raise InvalidInput(f"{name} must map vectors of shape {x.shape} to as many gradients, got shape {slopes.shape}")
    return slopes


def _note_cause(name: str, function: Callable[..., Any], error: Exception, *batch: Vector) -> None:
    """Add to an error of a user's function which vector caused it, if one alone does."""
    if len(batch) == 1 and _is_of_one_vector(function, batch[0][0]):
        error.add_note(f"{name} must take vectors (n, size); a function of one needs vectorised=False, which is slow")
        return
    for i, x in enumerate(batch[0]):
        try:
            function(*(part[i : i + 1].copy() for part in batch))
        except Exception:
            error.add_note(f"{name} fails at {_show(x)}, vector {i} of {len(batch[0])}")
            return
    error.add_note(
        f"{name} fails for vectors of shape {batch[0].shape} together, and for none of them alone; it must map them to "
        f"an array ({len(batch[0])},). For a function of one vector pass vectorised=False, which is slower"
    )


def _is_of_one_vector(function: Callable[..., Any], x: Vector) -> bool:
    try:
        return np.asarray(function(x.copy()), float).ndim == 0
    except Exception:
        return False


def _in_a_loop(function: Callable[[Vector], Any]) -> Callable[[Vector], Vector]:
    return lambda x: np.array([np.asarray(function(row), float) for row in x])


def _adjacency(neighbours: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """Symmetric lists of the other coordinates that each one interacts with."""
    if not is_a(neighbours, list, tuple, np.ndarray) or len(neighbours) != size:
        raise InvalidInput(f"neighbours must have a list for each of the {size} coordinates, got {shown(neighbours)}")
    out: list[set[int]] = [set() for _ in range(size)]
    for t, others in enumerate(neighbours):
        for other in others:
            if not is_count(other, least=0) or other >= size:
                raise InvalidInput(f"neighbours must be coordinates in 0..{size - 1}, got {shown(other)} for {t}")
            if other != t:
                out[t].add(int(other))
                out[int(other)].add(t)
    return [sorted(others) for others in out]


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
