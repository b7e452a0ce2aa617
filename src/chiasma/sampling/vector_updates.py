"""Updates of plain vectors within a replica of a Density: Gibbs, random-walk Metropolis, or a user's function.

The target of a replica is log pi_beta(x) = log_prior(x) + beta * log_density(x), x (size,) of any dtype. A step is
bound to a density and a beta, changes a vector in place, and reads a fixed number of random numbers:

    step = ch.SiteGibbs().prepare(density, beta=1.0)         # or prepare_update(density, beta) for its own update
    step.step(x, rng)                                        # or step(x, rng.random(step.n_uniforms))

What `prepare` returns checks every vector that it is given; engines use `bind`, and check nothing. A step may own
scratch memory, so threads must not share one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels import block_modes
from chiasma.kernels.picking import is_accepted, pick_log
from chiasma.models.borders import check_generator
from chiasma.models.density import BlockModes, Density, Vector
from chiasma.models.target import check_beta
from chiasma.sampling.borders import check_density, check_normals, check_uniforms, check_vector
from chiasma.types import Floats, as_array, as_floats, is_count, shown

OwnUpdate = Callable[[Vector, float, np.random.Generator], npt.ArrayLike]


class VectorStep(ABC):
    """An update bound to a density and a beta."""

    @abstractmethod
    def step(self, x: Vector, rng: np.random.Generator) -> None:
        """Change x (size,) in place."""


class VectorUpdate(ABC):
    """Base class of updates of vectors, at any beta."""

    def prepare(self, density: Density, beta: float) -> VectorStep:
        """As `bind`, with checks of everything that the step is given."""
        check_density(density)
        return CheckedStep.of(density, self, self.bind(density, check_beta(beta)))

    @abstractmethod
    def bind(self, density: Density, beta: float) -> VectorStep:
        """Bind to a density; raises InvalidInput if the update does not fit it."""

    def check_values(self, name: str, x: Vector) -> None:  # noqa: B027 - most updates take any numbers
        """Raise InvalidInput for a vector that the update cannot change."""


@dataclass(frozen=True, kw_only=True)
class SiteGibbs(VectorUpdate):
    """Gibbs sampling of one coordinate at a time, given all others.

    Parameters
    ----------
    alphabet : the values that a coordinate may take.
    sites : int, coordinates per step, drawn at random with repeats; default: all of them, in order.

    Examples
    --------
    >>> import chiasma as ch
    >>> def smooth(x):
    ...     return -abs(x[:, 1:] - x[:, :-1]).sum(axis=1)
    >>> density = ch.Density(smooth, size=5, init=[0] * 5, update=ch.SiteGibbs(alphabet=(0, 1, 2)))
    >>> posterior = ch.sample(density, exchange=None, ladder=[1], draws=50, warmup=10, seed=1, progress=False)
    >>> sorted(set(posterior.draws.values.ravel().tolist()))
    [0, 1, 2]
    """

    alphabet: Sequence[float] = (0, 1)
    sites: int | None = None

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        values = tuple(as_array("alphabet", self.alphabet).ravel().tolist())
        if len(values) < 2 or len(set(values)) < len(values) or not np.all(np.isfinite(as_floats("alphabet", values))):
            raise InvalidInput(f"alphabet must list at least two distinct numbers, got {list(values)}")
        object.__setattr__(self, "alphabet", values)

    def check_values(self, name: str, x: Vector) -> None:
        outside = ~np.isin(x, self.alphabet)
        if outside.any():
            t = int(np.argmax(outside))
            raise InvalidInput(f"{name} must hold values of the alphabet {list(self.alphabet)}, got {x[t]} at site {t}")

    def bind(self, density: Density, beta: float) -> VectorStep:
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

    Parameters
    ----------
    scale : standard deviation of a proposal, one for all coordinates or one each.
    sites : int, coordinates per step, drawn at random with repeats and proposed one at a time; default: all of them
        in one proposal.

    Examples
    --------
    >>> import chiasma as ch
    >>> normal = ch.Density(
    ...     lambda x: -0.5 * (x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk(scale=[0.5, 2.0])
    ... )
    >>> ch.sample(normal, ladder=[1, 3], draws=50, warmup=10, seed=1, progress=False).draws.shape
    (4, 50, 2)
    """

    scale: float | Sequence[float] = 1.0
    sites: int | None = None

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        scale = as_floats("scale", self.scale)
        if scale.ndim > 1 or not np.all(np.isfinite(scale) & (scale > 0)):
            raise InvalidInput(f"scale must be positive, one number or one per coordinate, got {self.scale}")
        object.__setattr__(self, "scale", float(scale) if scale.ndim == 0 else tuple(scale.tolist()))

    def bind(self, density: Density, beta: float) -> VectorStep:
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
    """A step whose only random numbers are uniforms."""

    n_uniforms: int

    def step(self, x: Vector, rng: np.random.Generator) -> None:
        self(x, rng.random(self.n_uniforms))

    @abstractmethod
    def __call__(self, x: Vector, uniforms: Floats) -> None:
        """Change x in place, reading uniforms (n_uniforms,) in [0, 1)."""


class SiteGibbsStep(UniformStep):
    """SiteGibbs for any density: evaluates all letters of the alphabet at one site after the other."""

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
        require_possible(weights, x)
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
        current = self.density.tempered(x[None], self.beta)
        require_possible(current, x)
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
        """Metropolis step: move x to the proposal or not; returns the log-density of x."""
        # Evaluate exactly the state that would be kept: x may have single precision.
        new = proposal.astype(x.dtype)
        proposed = float(self.density.tempered(new[None], self.beta)[0])
        if not is_accepted(proposed - log_density, uniform):
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
    """An independent draw from the prior, for beta = 0."""

    def __init__(self, density: Density):
        self.density = density

    def step(self, x: Vector, rng: np.random.Generator) -> None:
        draw = self.density.prior_draw
        assert draw is not None
        x[:] = self.density.as_state(draw(rng), "what prior_draw returns")


class CheckedStep(VectorStep):
    """A step that checks what it is given."""

    def __init__(self, density: Density, update: VectorUpdate | OwnUpdate, bound: Any):
        self.density = density
        self.update = update
        self.bound = bound

    @classmethod
    def of(cls, density: Density, update: VectorUpdate | OwnUpdate, bound: VectorStep) -> VectorStep:
        kinds: dict[type, type[CheckedStep]] = {UniformStep: CheckedUniformStep, RandomWalkStep: CheckedWalkStep}
        kind = next((kind for step, kind in kinds.items() if isinstance(bound, step)), cls)
        return kind(density, update, bound)

    def check(self, x: Any) -> None:
        check_state(self.density, self.update, "x", x)

    def step(self, x: Vector, rng: np.random.Generator) -> None:
        check_generator(rng)
        self.check(x)
        self.bound.step(x, rng)


class CheckedUniformStep(CheckedStep):
    """A checked step whose only random numbers are uniforms."""

    @property
    def n_uniforms(self) -> int:
        return int(self.bound.n_uniforms)

    def __call__(self, x: Vector, uniforms: Floats) -> None:
        self.check(x)
        check_uniforms(uniforms, self.n_uniforms)
        self.bound(x, uniforms)


class CheckedWalkStep(CheckedStep):
    """A checked step of RandomWalk."""

    @property
    def n_normals(self) -> int:
        return int(self.bound.n_normals)

    @property
    def n_uniforms(self) -> int:
        return int(self.bound.n_uniforms)

    def __call__(self, x: Vector, normals: Floats, uniforms: Floats) -> None:
        self.check(x)
        check_normals(normals, self.n_normals)
        check_uniforms(uniforms, self.n_uniforms)
        self.bound(x, normals, uniforms)


def check_state(density: Density, update: VectorUpdate | OwnUpdate, name: str, x: Any) -> None:
    """Raise InvalidInput for anything but a vector of the density that the update can change in place."""
    check_vector(name, x, density)
    if isinstance(update, VectorUpdate):
        update.check_values(name, x)


def resolve_update(density: Density) -> VectorUpdate | OwnUpdate:
    """The update of a density, the default of BlockModes included."""
    update = density.update
    if update is None and isinstance(density, BlockModes):
        return SiteGibbs()
    if isinstance(update, VectorUpdate) or (callable(update) and not isinstance(update, type)):
        return update
    raise InvalidInput(
        f"update must be SiteGibbs(...), RandomWalk(...) or a function (x, beta, rng) -> new x, got {shown(update)}; "
        "updates of rows and columns need a FactorialHMM"
    )


def bind_update(density: Density, beta: float) -> VectorStep:
    """The density's own update at one beta; at beta = 0 its prior_draw, where there is one."""
    update = resolve_update(density)
    if beta == 0 and density.prior_draw is not None:
        return PriorStep(density)
    return update.bind(density, beta) if isinstance(update, VectorUpdate) else OwnStep(update, density, beta)


def prepare_update(density: Density, beta: float) -> VectorStep:
    """As `bind_update`, with checks of everything that the step is given."""
    check_density(density)
    return CheckedStep.of(density, resolve_update(density), bind_update(density, check_beta(beta)))


def require_possible(log_densities: Any, *states: Vector) -> None:
    """Raise an error if a state has zero density, which only a user's own update can cause."""
    if np.max(log_densities) == -np.inf:
        shown = " and ".join(np.array2string(x, threshold=24, edgeitems=8) for x in states)
        raise InvalidInput(
            f"a state has zero density at its temperature: {shown}; an update must never move outside the support, "
            "and log_density must give the same value each time"
        )


def _check_sites(sites: int | None) -> None:
    if sites is not None and not is_count(sites):
        raise InvalidInput(f"sites must be a whole number of at least 1, or None for all of them, got {shown(sites)}")
