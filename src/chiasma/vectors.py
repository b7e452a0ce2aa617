"""Updates and exchanges over plain vectors: what a run needs of a Density.

The target of a replica is log pi_beta(x) = log_prior(x) + beta * log_density(x), x (size,) of any dtype. A step is
bound to its density and beta (an exchange: to two of them), changes its vectors in place, and reads a number of
draws that is fixed beforehand, whatever comes out:

    update = prepare_update(density, beta=1.0)
    update.step(x, rng)                                      # update(x, rng.random(update.n_uniforms))
    pair = prepare_exchange(ch.AugmentedCrossover(), density, 1.0, 0.2)
    n_changed = pair.step(a, b, rng)                         # pair(a, b, rng.random(pair.n_uniforms))

Candidates of a crossover, for t = 0..size-1: prefix t exchanges coordinates 0..t, suffix t exchanges t+1..size-1.
A step may own scratch: threads do not share one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.exchange import AugmentedCrossover, Exchange, MosaicCrossover, RandomCrossover, Swap
from chiasma.kernels import block_modes
from chiasma.kernels.crossover import pick_log
from chiasma.kernels.moves import accepts, draw_cuts
from chiasma.models.density import BlockModes, Density, Vector, temper
from chiasma.models.observations import Floats, as_floats

OwnUpdate = Callable[[Vector, float, np.random.Generator], npt.ArrayLike]


class VectorStep(ABC):
    """An update bound to a density and a beta."""

    @abstractmethod
    def step(self, x: Vector, rng: np.random.Generator) -> None:
        """Change x (size,) in place."""


class VectorUpdate(ABC):
    """What is drawn given what, at any beta."""

    @abstractmethod
    def prepare(self, density: Density, beta: float) -> VectorStep:
        """Bind to a density; refuses what does not fit it."""


@dataclass(frozen=True, kw_only=True)
class SiteGibbs(VectorUpdate):
    """One coordinate at a time, drawn from its values given all others.

    alphabet : the values that a coordinate may take.
    sites : coordinates per step, drawn at random with repeats; default: all of them, in order.
    """

    alphabet: Sequence[float] = (0, 1)
    sites: int | None = None

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        values = tuple(np.asarray(self.alphabet).ravel().tolist())
        if len(values) < 2 or len(set(values)) < len(values) or not np.all(np.isfinite(as_floats("alphabet", values))):
            raise InvalidInput(f"alphabet must list at least two distinct numbers, got {list(values)}")
        object.__setattr__(self, "alphabet", values)

    def prepare(self, density: Density, beta: float) -> VectorStep:
        letters = np.asarray(self.alphabet).astype(density.dtype)
        if tuple(letters.tolist()) != self.alphabet:
            raise InvalidInput(
                f"alphabet must fit the dtype of the states, {density.dtype}, got {list(self.alphabet)}; "
                "give init a dtype that holds it"
            )
        if isinstance(density, BlockModes) and self.alphabet == (0, 1):
            return BlockModesStep(self.sites, density, beta)
        return SiteGibbsStep(self.sites, letters, density, beta)


@dataclass(frozen=True, kw_only=True)
class RandomWalk(VectorUpdate):
    """Gaussian random-walk Metropolis on continuous vectors.

    scale : standard deviation of a proposal, one for all coordinates or one each.
    sites : coordinates per step, drawn at random with repeats and proposed one at a time; default: all of them in
        one proposal.
    """

    scale: float | Sequence[float] = 1.0
    sites: int | None = None

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        scale = as_floats("scale", self.scale)
        if scale.ndim > 1 or not np.all(np.isfinite(scale) & (scale > 0)):
            raise InvalidInput(f"scale must be positive, one number or one per coordinate, got {self.scale}")
        object.__setattr__(self, "scale", float(scale) if scale.ndim == 0 else tuple(scale.tolist()))

    def prepare(self, density: Density, beta: float) -> VectorStep:
        if density.dtype.kind != "f":
            raise InvalidInput(
                f"RandomWalk needs states of floats, got init of dtype {density.dtype}; "
                "pass init=np.array(init, float), or update discrete vectors with SiteGibbs(alphabet=...)"
            )
        if np.ndim(self.scale) and np.shape(self.scale) != (density.size,):
            raise InvalidInput(
                f"scale must be one number or {density.size} (size of the density), got {np.size(self.scale)}"
            )
        scale = np.broadcast_to(np.asarray(self.scale, float), (density.size,))
        return RandomWalkStep(self.sites, scale, density, beta)


class UniformStep(VectorStep):
    """A step that is a function of uniforms alone."""

    n_uniforms: int

    def step(self, x: Vector, rng: np.random.Generator) -> None:
        self(x, rng.random(self.n_uniforms))

    @abstractmethod
    def __call__(self, x: Vector, uniforms: Floats) -> None:
        """Change x in place, reading uniforms (n_uniforms,) in [0, 1)."""


class SiteGibbsStep(UniformStep):
    """SiteGibbs with the log-densities of all letters at a site, one site after the other."""

    def __init__(self, sites: int | None, letters: Vector, density: Density, beta: float):
        self.sites = sites
        self.letters = letters
        self.density = density
        self.beta = float(beta)
        self.n_uniforms = density.size if sites is None else 2 * sites
        self.batch = np.empty((len(letters), density.size), density.dtype)

    def __call__(self, x: Vector, uniforms: Floats) -> None:
        if self.sites is None:
            for t in range(len(x)):
                self.draw(x, t, uniforms[t])
            return
        for n in range(self.sites):
            self.draw(x, int(uniforms[2 * n] * len(x)), uniforms[2 * n + 1])

    def draw(self, x: Vector, t: int, uniform: float) -> None:
        self.batch[:] = x
        self.batch[:, t] = self.letters
        weights = self.density.tempered(self.batch, self.beta)
        _require_possible(weights, x)
        x[t] = self.letters[pick_log(weights.copy(), uniform)]


class BlockModesStep(UniformStep):
    """SiteGibbs on BlockModes, compiled: the odds of a site follow from the number of ones in its block."""

    def __init__(self, sites: int | None, density: BlockModes, beta: float):
        self.run = block_modes.sweep_sites if sites is None else block_modes.random_sites
        self.n_uniforms = density.size if sites is None else 2 * sites
        self.block, self.starts = density.block, density.starts
        self.ones = np.empty(density.blocks, np.int64)
        self.chances = np.empty((density.blocks, 3))
        block_modes.zero_chances(density.log_alpha, float(beta), self.chances)

    def __call__(self, x: Vector, uniforms: Floats) -> None:
        self.run(x, self.block, self.starts, self.chances, uniforms, self.ones)


class RandomWalkStep(VectorStep):
    """RandomWalk, from n_normals standard normals and n_uniforms uniforms."""

    def __init__(self, sites: int | None, scale: Floats, density: Density, beta: float):
        self.sites = sites
        self.scale = scale
        self.density = density
        self.beta = float(beta)
        self.n_normals = density.size if sites is None else sites
        self.n_uniforms = 1 if sites is None else 2 * sites

    def step(self, x: Vector, rng: np.random.Generator) -> None:
        self(x, rng.standard_normal(self.n_normals), rng.random(self.n_uniforms))

    def __call__(self, x: Vector, normals: Floats, uniforms: Floats) -> None:
        current = self.density.tempered(x[None].copy(), self.beta)
        _require_possible(current, x)
        log_density = float(current[0])
        if self.sites is None:
            self.propose(x, x + self.scale * normals, log_density, uniforms[0])
            return
        for n in range(self.sites):
            t = int(uniforms[2 * n] * len(x))
            proposal = x.copy()
            proposal[t] += self.scale[t] * normals[n]
            log_density = self.propose(x, proposal, log_density, uniforms[2 * n + 1])

    def propose(self, x: Vector, proposal: Vector, log_density: float, uniform: float) -> float:
        """Move x to the proposal or not; returns its log-density."""
        # The state that is scored is the one that is kept: x may be of single precision.
        new = proposal.astype(x.dtype)
        proposed = float(self.density.tempered(new[None].copy(), self.beta)[0])
        if not accepts(uniform, proposed - log_density):
            return log_density
        x[:] = new
        return proposed


class OwnStep(VectorStep):
    """A user's own update."""

    def __init__(self, function: OwnUpdate, density: Density, beta: float):
        self.function = function
        self.density = density
        self.beta = float(beta)

    def step(self, x: Vector, rng: np.random.Generator) -> None:
        x[:] = self.density.as_state(self.function(x.copy(), self.beta, rng), "what update returns")


class PriorStep(VectorStep):
    """A fresh draw of the prior, for beta = 0."""

    def __init__(self, density: Density):
        self.density = density

    def step(self, x: Vector, rng: np.random.Generator) -> None:
        draw = self.density.prior_draw
        assert draw is not None
        x[:] = self.density.as_state(draw(rng), "what prior_draw returns")


def resolve_update(density: Density) -> VectorUpdate | OwnUpdate:
    """The update of a density, the default of BlockModes included."""
    update = density.update
    if update is None and isinstance(density, BlockModes):
        return SiteGibbs()
    if isinstance(update, VectorUpdate) or (callable(update) and not isinstance(update, type)):
        return update
    raise InvalidInput(
        f"update must be SiteGibbs(...), RandomWalk(...) or a function (x, beta, rng) -> new x, got {update!r}; "
        "updates of rows and columns need a FactorialHMM"
    )


def prepare_update(density: Density, beta: float) -> VectorStep:
    """The density's own update at one beta; at beta = 0 its prior_draw, where there is one."""
    update = resolve_update(density)
    if beta == 0 and density.prior_draw is not None:
        return PriorStep(density)
    return update.prepare(density, beta) if isinstance(update, VectorUpdate) else OwnStep(update, density, beta)


class VectorPair(ABC):
    """An exchange bound to a density and the betas of two replicas."""

    n_uniforms: int
    is_swap = False

    def __init__(self, density: Density, beta_i: float, beta_j: float):
        self.density = density
        self.betas = float(beta_i), float(beta_j)

    def step(self, a: Vector, b: Vector, rng: np.random.Generator) -> int:
        """Change a and b in place; returns how many coordinates of a changed."""
        return self(a, b, rng.random(self.n_uniforms))

    def __call__(self, a: Vector, b: Vector, uniforms: Floats) -> int:
        """As step, reading uniforms (n_uniforms,) in [0, 1)."""
        before = a.copy()
        self.move(a, b, uniforms)
        return int(np.count_nonzero(before != a))

    @abstractmethod
    def move(self, a: Vector, b: Vector, uniforms: Floats) -> None: ...

    def joint(self, log_density: Floats, log_prior: Floats) -> Floats:
        """log pi_i + log pi_j, (n,), from the parts (2, n) of replica i and j."""
        beta_i, beta_j = self.betas
        return temper(log_density[0], log_prior[0], beta_i) + temper(log_density[1], log_prior[1], beta_j)


class MetropolisPair(VectorPair):
    """One segment proposed and accepted or not. points: 0 for the whole vectors, else cuts of a random crossover."""

    def __init__(self, points: int, density: Density, beta_i: float, beta_j: float):
        super().__init__(density, beta_i, beta_j)
        self.points = points
        self.is_swap = points == 0
        self.n_uniforms = points + 1

    def move(self, a: Vector, b: Vector, uniforms: Floats) -> None:
        size = self.density.size
        first, stop = draw_cuts(size, self.points, uniforms) if self.points else (0, size)
        whole = stop - first == size
        batch = np.stack([a, b] if whole else [a, b, a, b])
        if not whole:
            exchange_sites(batch[2], batch[3], first, stop)
        # One column per pair: as it is, and as proposed; a swap is the same two vectors the other way round.
        log_density, log_prior = (
            np.column_stack([part[:2], part[1::-1] if whole else part[2:]]) for part in self.density.evaluate(batch)
        )
        kept, proposed = self.joint(log_density, log_prior)
        _require_possible(kept, a, b)
        if accepts(uniforms[self.points], proposed - kept):
            exchange_sites(a, b, first, stop)


class AugmentedPair(VectorPair):
    """A uniform one-point crossover to an auxiliary pair (u, v), then one of all crossovers of (u, v) by its weight.

    Every candidate undoes itself, so the auxiliary draw is symmetric and the second step is a Gibbs draw.
    """

    n_uniforms = 2

    def __init__(self, flipped: bool, density: Density, beta_i: float, beta_j: float):
        super().__init__(density, beta_i, beta_j)
        self.flipped = flipped
        self.n_candidates = density.size * (2 if flipped else 1)

    def move(self, a: Vector, b: Vector, uniforms: Floats) -> None:
        exchange_candidate(a, b, int(uniforms[0] * self.n_candidates))
        weights = self.weights(a, b)
        _require_possible(weights, a, b)
        exchange_candidate(a, b, pick_log(weights, uniforms[1]))

    def weights(self, u: Vector, v: Vector) -> Floats:
        """(n_candidates,) log pi_i + log pi_j of every candidate of (u, v): prefixes, then suffixes if flipped."""
        differ = u != v
        # Coordinates that are equal change nothing: the cut before them has the same weight.
        cuts = np.flatnonzero(differ)
        if len(cuts) == 0:
            return np.zeros(self.n_candidates)
        parts = self.density.crossover_scores(u, v, cuts)
        # The last cut is the full swap, and its mirror image the pair as it is: index -1, where nothing differs yet.
        log_density, log_prior = (np.column_stack([part, part[::-1, -1]]) for part in parts)
        index = np.cumsum(differ) - 1
        prefix = self.joint(log_density, log_prior)[index]
        if not self.flipped:
            return prefix
        return np.concatenate([prefix, self.joint(log_density[::-1], log_prior[::-1])[index]])


def prepare_exchange(exchange: Exchange, density: Density, beta_i: float, beta_j: float) -> VectorPair:
    """Bind an exchange to two replicas of one density."""
    check_exchange(exchange)
    if isinstance(exchange, AugmentedCrossover):
        return AugmentedPair(exchange.flipped, density, beta_i, beta_j)
    points = exchange.points if isinstance(exchange, RandomCrossover) else 0
    return MetropolisPair(points, density, beta_i, beta_j)


def check_exchange(exchange: Exchange) -> None:
    """Refuse what plain vectors do not support."""
    if isinstance(exchange, MosaicCrossover):
        raise InvalidInput(
            "MosaicCrossover needs the Markov structure of a FactorialHMM, got a Density; use AugmentedCrossover()"
        )
    if not isinstance(exchange, Swap | RandomCrossover | AugmentedCrossover):
        raise InvalidInput(f"exchange must be Swap(), RandomCrossover() or AugmentedCrossover(), got {exchange!r}")
    if exchange.rows != "all":
        raise InvalidInput(f'a vector has no rows to choose from: rows must be "all", got {exchange.rows!r}')
    if not isinstance(exchange, Swap) and exchange.axis != "sites":
        raise InvalidInput(f'a vector is cut along its coordinates: axis must be "sites", got "{exchange.axis}"')
    if isinstance(exchange, RandomCrossover) and exchange.points not in (1, 2):
        raise InvalidInput(f"points must be 1 or 2, got {exchange.points}")


class VectorProblem:
    """A density and the exchange between its replicas, as a sampler drives them."""

    def __init__(self, density: Density, exchange: Exchange | None = None):
        if exchange is not None:
            check_exchange(exchange)
        self.density = density
        self.exchange = exchange
        self.n_sites = density.size
        self.dtype = self.record_dtype = density.dtype
        # An update that does not fit is refused before anything runs.
        self.sweep(1.0)

    def initial(self, rng: np.random.Generator) -> Vector:
        """A fresh state of positive density that the update can change."""
        return self.check_state(self.density.initial(rng))

    def check_state(self, x: npt.ArrayLike, name: str = "init") -> Vector:
        """A copy of x as a state, or an error that says what is wrong with it."""
        state = self.density.as_state(x, name)
        update = resolve_update(self.density)
        if isinstance(update, SiteGibbs):
            outside = ~np.isin(state, update.alphabet)
            if outside.any():
                t = int(np.argmax(outside))
                raise InvalidInput(
                    f"{name} must hold values of the alphabet {list(update.alphabet)}, got {state[t]} at site {t}"
                )
        return self.density.check_state(state, name)

    def sweep(self, beta: float) -> VectorStep:
        return prepare_update(self.density, beta)

    def pair(self, beta_i: float, beta_j: float) -> VectorPair:
        if self.exchange is None:
            raise InvalidInput("a pair of replicas needs an exchange, got None; pass exchange=AugmentedCrossover()")
        return prepare_exchange(self.exchange, self.density, beta_i, beta_j)

    def log_likelihood(self, state: Vector) -> float:
        """The tempered part of the log target."""
        return self.density.log_likelihood(state)

    def log_prior(self, state: Vector) -> float:
        """The part that is not tempered."""
        return self.density.log_prior(state)

    def record(self, states: Vector) -> Vector:
        """What is kept of states (n, size): all of it."""
        return states


def exchange_sites(a: Vector, b: Vector, first: int, stop: int) -> None:
    """Exchange coordinates first..stop-1."""
    kept = a[first:stop].copy()
    a[first:stop] = b[first:stop]
    b[first:stop] = kept


def exchange_candidate(a: Vector, b: Vector, candidate: int) -> None:
    """Prefix `candidate`, or from size on suffix `candidate - size`."""
    size = len(a)
    if candidate < size:
        exchange_sites(a, b, 0, candidate + 1)
    else:
        exchange_sites(a, b, candidate - size + 1, size)


def _require_possible(log_densities: Any, *states: Vector) -> None:
    """Whatever a run does, its states keep a positive density: only a user's own update can lose it."""
    if np.max(log_densities) == -np.inf:
        shown = " and ".join(np.array2string(x, threshold=24, edgeitems=8) for x in states)
        raise InvalidInput(
            f"a state has zero density at its temperature: {shown}; an update must never move outside the support, "
            "and log_density must give the same value each time"
        )


def _check_sites(sites: int | None) -> None:
    if sites is not None and (np.asarray(sites).dtype.kind not in "iu" or sites < 1):
        raise InvalidInput(f"sites must be a whole number of at least 1, or None for all of them, got {sites!r}")
