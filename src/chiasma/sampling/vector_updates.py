"""Updates of plain vectors within the replicas of a Density: Metropolis, Gibbs, or a user's function.

The target of replica r is log_prior(x) + betas[r] * log_density(x), x (size,) of any dtype. A step is bound to a
density and the betas of a ladder, changes all replicas at once, and reads a fixed number of random numbers of each:

    step = ch.SiteGibbs().bind(density, betas)
    step(replicas, uniforms, normals)                 # (R, step.n_uniforms), (R, step.n_normals)

Every log-density is evaluated in one call for all replicas. What a step learns in warm-up, by `adapt`, is in `learned`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels import vectors
from chiasma.models.density import BlockModes, Density, Vector
from chiasma.sampling.mode_jumps import JUMP_SHARE, N_UNIFORMS, ModeJumper
from chiasma.sampling.replicas import Replicas
from chiasma.types import Floats, Integers, as_array, as_floats, is_count, shown

OwnUpdate = Callable[[Vector, float, np.random.Generator], npt.ArrayLike]
Generators = Callable[[int], np.random.Generator]

# Coordinates up to which a random walk learns all correlations; beyond, the scale of every coordinate.
FULL = 100
# Acceptance that adaptation aims at: all coordinates at once, one at a time.
WANTED, WANTED_ALONE = 0.234, 0.44


class VectorStep(ABC):
    """An update bound to a density and the betas of its replicas."""

    n_uniforms = 0
    n_normals = 0
    evaluations = 1.0  # vectors evaluated per replica and step
    exact = True  # log densities are evaluated, and not added up from changes
    n_parts = 1  # of a step, between which replicas may swap

    def __init__(self, density: Density, betas: Floats):
        self.density = density
        self.betas = betas
        self.learned: dict[str, Floats] = {}  # arrays (R, ...), or those of a jumper
        self.jumper: ModeJumper | None = None
        self.n_adapted = 0

    def __call__(self, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        """Change the replicas in place."""
        for part in range(self.n_parts):
            self.do(part, replicas, uniforms, normals)

    @abstractmethod
    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        """One part of the step, with the random numbers of the whole step."""

    def adapt(self, replicas: Replicas, normals: Floats) -> None:  # noqa: B027 - most steps learn nothing
        """Learn from the step just made; only ever called in warm-up."""

    def take_over(self, learned: Mapping[str, Floats]) -> None:
        """Continue with what was learned at rungs like these."""
        for name in self.learned:
            self.learned[name] = np.array(learned[name])
        if self.jumper is not None:
            self.jumper.take_over()


class VectorUpdate(ABC):
    """Base class of updates of vectors."""

    @abstractmethod
    def bind(self, density: Density, betas: npt.ArrayLike, n_free: int = 0) -> VectorStep:
        """Bind to a density; raises InvalidInput if the update does not fit it. n_free: hottest replicas that the step
        leaves alone or, if it is a Metropolis step, moves to `proposed` anyway.
        """

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

    def bind(self, density: Density, betas: npt.ArrayLike, n_free: int = 0) -> VectorStep:
        letters = fitting_letters(self.alphabet, density)
        return SiteGibbsStep(self.sites, letters, density, np.asarray(betas, float))


def fitting_letters(alphabet: Sequence[float], density: Density) -> Vector:
    """The alphabet as an array of the dtype of the states."""
    letters = np.asarray(alphabet).astype(density.dtype)
    if tuple(letters.tolist()) != alphabet:
        raise InvalidInput(
            f"alphabet must fit the dtype of the states, {density.dtype}, got {list(alphabet)}; "
            "give init a dtype that holds it"
        )
    return letters


@dataclass(frozen=True, kw_only=True)
class RandomWalk(VectorUpdate):
    """Gaussian random-walk Metropolis on continuous vectors.

    Parameters
    ----------
    scale : standard deviation of a proposal, one for all coordinates or one each; where adaptation begins.
    sites : int, coordinates per step, drawn at random with repeats and proposed one at a time; default: all of them
        in one proposal.
    adapt : whether warm-up learns the scale of every coordinate at every rung and, up to 100 of them proposed at once,
        their correlations. Draws are made with what was learned, which no longer changes.
    jumps : whether half of the steps of the coldest replica jump between the modes that all chains have found in
        warm-up; needs adapt, and all coordinates in one proposal.

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
    adapt: bool = True
    jumps: bool = True

    def __post_init__(self) -> None:
        _check_sites(self.sites)
        scale = as_floats("scale", self.scale)
        if scale.ndim > 1 or not np.all(np.isfinite(scale) & (scale > 0)):
            raise InvalidInput(f"scale must be positive, one number or one per coordinate, got {self.scale}")
        object.__setattr__(self, "scale", float(scale) if scale.ndim == 0 else tuple(scale.tolist()))

    def bind(self, density: Density, betas: npt.ArrayLike, n_free: int = 0) -> VectorStep:
        check_floats(self, density)
        if np.ndim(self.scale) and np.shape(self.scale) != (density.size,):
            raise InvalidInput(
                f"scale must be one number or {density.size} (size of the density), got {np.size(self.scale)}"
            )
        scale = np.broadcast_to(np.asarray(self.scale, float), (density.size,))
        if self.sites is None:
            return RandomWalkStep(self, scale, density, np.asarray(betas, float), n_free)
        return SiteWalkStep(self.sites, scale, self.adapt, density, np.asarray(betas, float))


def check_floats(update: VectorUpdate, density: Density) -> None:
    """Raise InvalidInput for a density of whole numbers."""
    if density.dtype.kind != "f":
        raise InvalidInput(
            f"{type(update).__name__} needs states of floats, got init of dtype {density.dtype}; "
            "pass init=np.array(init, float), or update discrete vectors with SiteGibbs(alphabet=...)"
        )


class SiteGibbsStep(VectorStep):
    """SiteGibbs: all letters at the coordinates of one class, in all replicas, in one call."""

    def __init__(self, sites: int | None, letters: Vector, density: Density, betas: Floats):
        super().__init__(density, betas)
        self.letters = letters
        self.classes = density.colours() if sites is None else []
        self.random = sites
        self.n_parts = len(self.classes) or sites or 1
        self.n_uniforms = density.size if sites is None else 2 * sites
        self.evaluations = (density.size if sites is None else sites) * (len(letters) - 1)
        self.exact = not density.has_local and all(len(sites) == 1 for sites in self.classes)
        # Indices of letters by their rank: letters need not be sorted.
        self.ranks = np.argsort(letters)
        self.further = np.arange(1, len(letters))
        self.weights = np.empty(len(letters))
        self.rows = np.arange(len(betas))[:, None]

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        n_replicas = len(self.betas)
        if self.random is None:
            sites = self.classes[part]
            self.draw(replicas, np.repeat(sites[None], n_replicas, axis=0), uniforms[:, sites])
        else:
            random = (uniforms[:, 2 * part, None] * self.density.size).astype(int)
            self.draw(replicas, random, uniforms[:, 2 * part + 1, None])

    def draw(self, replicas: Replicas, sites: Integers, uniforms: Floats) -> None:
        """Draw coordinates sites (R, m) given the others."""
        m = sites.shape[1]
        n_others = len(self.further)
        rows = np.repeat(self.rows, m * n_others)
        present = replicas.states[self.rows, sites]
        current = self.ranks[np.searchsorted(self.letters, present, sorter=self.ranks)]
        values = self.letters[(current[:, :, None] + self.further) % len(self.letters)]
        parts = self.density.changed(
            replicas.states[rows], replicas.log_lik[rows], np.repeat(sites.ravel(), n_others), values.ravel()
        )
        lik, prior = (part.reshape(values.shape) for part in parts)
        vectors.draw_sites(
            self.betas, replicas.states, replicas.log_lik, replicas.log_prior, self.letters, current, sites,
            lik, prior, uniforms, self.weights,
        )  # fmt: skip
        if m > 1 and not replicas.log_lik.min() > -np.inf:
            replicas.log_lik[:], replicas.log_prior[:] = self.density.parts(replicas.states)


class MetropolisStep(VectorStep):
    """A proposal for every replica, evaluated in one call. The n_free hottest take theirs: draws from the prior."""

    def __init__(self, density: Density, betas: Floats, n_free: int):
        super().__init__(density, betas)
        self.n_free = n_free
        self.chance = np.zeros(len(betas))
        self.no_correction = np.zeros(len(betas))
        self.drawn = np.empty((n_free, density.size), density.dtype)

    def settle(self, replicas: Replicas, proposed: Vector, correction: Floats, uniforms: Floats) -> None:
        """Accept or refuse. correction (R,): log of the ratio of proposal densities."""
        # Evaluate exactly the state that would be kept: states may have single precision.
        new = proposed.astype(replicas.states.dtype, copy=False)
        if self.n_free:
            new[: self.n_free] = self.drawn
        lik, prior = self.density.parts(new)
        vectors.settle(
            self.betas, replicas.states, replicas.log_lik, replicas.log_prior, new, lik, prior, correction, uniforms,
            self.n_free, self.chance,
        )  # fmt: skip


class RandomWalkStep(MetropolisStep):
    """RandomWalk of all coordinates at once."""

    def __init__(self, update: RandomWalk, scale: Floats, density: Density, betas: Floats, n_free: int):
        super().__init__(density, betas, n_free)
        self.n_normals = density.size
        self.adapts = update.adapt
        self.full = update.adapt and density.size <= FULL
        self.n_uniforms = 1
        if update.adapt and update.jumps:
            self.jumper = ModeJumper(density.size, self.learned)
            self.n_uniforms += 1 + N_UNIFORMS
        self.jumped = False
        shape = (len(betas), density.size)
        begin = np.broadcast_to(scale, shape)
        self.proposed = np.empty(shape)
        self.learned["scale"] = begin[:, :, None] * np.eye(density.size) if self.full else begin.copy()

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        scale = self.learned["scale"]
        if self.full:
            vectors.walk(replicas.states, scale, normals, self.proposed)
        else:
            np.add(replicas.states, scale * normals, out=self.proposed)
        correction = self.no_correction
        self.jumped = self.jumper is not None and self.jumper.ready and uniforms[-1, 1] < JUMP_SHARE
        if self.jumped:
            assert self.jumper is not None
            correction = correction.copy()
            correction[-1] = self.jumper.propose(replicas.states[-1], uniforms[-1, 2:], normals[-1], self.proposed[-1])
        self.settle(replicas, self.proposed, correction, uniforms[:, 0])
        if self.jumped:
            assert self.jumper is not None
            self.jumper.made(float(self.chance[-1]))

    def adapt(self, replicas: Replicas, normals: Floats) -> None:
        if not self.adapts:
            return
        self.n_adapted += 1
        gain = min(1.0, self.density.size * self.n_adapted**-0.6)
        wanted = WANTED_ALONE if self.density.size == 1 else WANTED
        if self.jumper is not None:
            self.jumper.see(replicas)
        if self.jumped:
            self.chance[-1] = wanted  # says nothing about the walk
        if self.full:
            vectors.adapt_factors(self.learned["scale"], normals, self.chance, wanted, gain, self.n_free)
        else:
            share = normals**2 / (normals**2).sum(axis=1, keepdims=True)
            factor = 1 + gain * (self.chance - wanted)[:, None] * share
            self.learned["scale"][self.n_free :] *= np.sqrt(factor)[self.n_free :]


class SiteWalkStep(VectorStep):
    """RandomWalk of one random coordinate after another; every replica has coordinates of its own."""

    def __init__(self, sites: int, scale: Floats, adapts: bool, density: Density, betas: Floats):
        super().__init__(density, betas)
        self.sites = sites
        self.adapts = adapts
        self.n_normals = sites
        self.n_uniforms = 2 * sites
        self.evaluations = sites
        self.exact = not density.has_local
        self.learned["scale"] = np.broadcast_to(scale, (len(betas), density.size)).copy()
        self.rows = np.arange(len(betas))
        self.chosen = np.zeros((sites, len(betas)), int)
        self.chances = np.zeros((sites, len(betas)))
        self.no_correction = np.zeros(len(betas))

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        scale = self.learned["scale"]
        self.chosen[:] = (uniforms[:, 0::2] * self.density.size).astype(int).T
        for n, sites in enumerate(self.chosen):
            proposed = replicas.states.copy()
            proposed[self.rows, sites] += (scale[self.rows, sites] * normals[:, n]).astype(proposed.dtype)
            values = proposed[self.rows, sites]
            lik, prior = self.density.changed(replicas.states, replicas.log_lik, sites, values)
            vectors.settle(
                self.betas, replicas.states, replicas.log_lik, replicas.log_prior, proposed, lik, prior,
                self.no_correction, uniforms[:, 2 * n + 1], 0, self.chances[n],
            )  # fmt: skip

    def adapt(self, replicas: Replicas, normals: Floats) -> None:
        if not self.adapts:
            return
        self.n_adapted += 1
        gain = min(1.0, 3 * (self.n_adapted * self.sites / self.density.size + 1) ** (-2 / 3))
        for sites, chance in zip(self.chosen, self.chances, strict=True):
            self.learned["scale"][self.rows, sites] *= np.exp(gain * (chance - WANTED_ALONE))


class OwnStep(VectorStep):
    """A user's own update, and one evaluation of what it returns."""

    def __init__(self, function: OwnUpdate, density: Density, betas: Floats, generators: Generators):
        super().__init__(density, betas)
        self.function = function
        self.rngs = [generators(r) for r in range(len(betas))]

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        for x, beta, rng in zip(replicas.states, self.betas.tolist(), self.rngs, strict=True):
            try:
                new = self.function(x.copy(), beta, rng)
            except Exception as error:
                error.add_note(f"update fails at {np.array2string(x, threshold=24, edgeitems=8)}, beta = {beta:g}")
                raise
            x[:] = self.density.as_state(new, "what update returns")
        replicas.log_lik[:], replicas.log_prior[:] = self.density.parts(replicas.states)
        replicas.check_possible()


class WithPrior(VectorStep):
    """Independent draws from the prior at beta = 0, and a step at the other rungs."""

    def __init__(self, step: VectorStep, density: Density, betas: Floats, rng: np.random.Generator):
        super().__init__(density, betas)
        self.step = step
        self.rng = rng
        self.n_uniforms, self.n_normals, self.evaluations = step.n_uniforms, step.n_normals, step.evaluations
        self.n_parts = step.n_parts
        self.exact, self.learned, self.jumper = step.exact, step.learned, step.jumper

    def draw(self) -> Vector:
        assert self.density.prior_draw is not None
        return self.density.as_state(self.density.prior_draw(self.rng), "what prior_draw returns")

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        if isinstance(self.step, MetropolisStep):
            self.step.drawn[0] = self.draw()
            self.step.do(part, replicas, uniforms, normals)
        else:
            self.step.do(part, replicas, uniforms, normals)
            replicas.states[0] = self.draw()
            replicas.stale[0] = True
            replicas.log_lik[:1], replicas.log_prior[:1] = self.density.parts(replicas.states[:1])
        if not replicas.log_prior[0] > -np.inf:
            replicas.check_possible()

    def adapt(self, replicas: Replicas, normals: Floats) -> None:
        self.step.adapt(replicas, normals)

    def take_over(self, learned: Mapping[str, Floats]) -> None:
        self.step.take_over(learned)
        self.learned = self.step.learned


def resolve_update(density: Density) -> VectorUpdate | OwnUpdate:
    """The update of a density, or its default."""
    update = density.update
    if update is None:
        if isinstance(density, BlockModes):
            return SiteGibbs()
        if density.dtype.kind == "f":
            from chiasma.sampling.vector_moves import Hamiltonian  # which builds on this module

            return Hamiltonian() if density.has_gradient else RandomWalk()
    if isinstance(update, VectorUpdate) or (callable(update) and not isinstance(update, type)):
        return update
    raise InvalidInput(
        "update must be RandomWalk(...), SiteGibbs(alphabet=...), another update of vectors, or a function "
        f"(x, beta, rng) -> new x, got {shown(update)}; updates of rows and columns need a FactorialHMM"
    )


def bind_update(density: Density, betas: npt.ArrayLike, generators: Generators | None = None) -> VectorStep:
    """The density's own update at every beta; at beta = 0 its prior_draw, where there is one.

    generators : of each replica, for the functions of a user; default: fresh ones.
    """
    rungs = np.asarray(betas, float)
    rng_of = generators or np.random.default_rng
    update = resolve_update(density)
    if not isinstance(update, VectorUpdate):
        step: VectorStep = OwnStep(update, density, rungs, rng_of)
    else:
        step = update.bind(density, rungs, int(rungs[0] == 0 and density.prior_draw is not None))
    if rungs[0] == 0 and density.prior_draw is not None:
        return WithPrior(step, density, rungs, rng_of(0))
    return step


def _check_sites(sites: int | None) -> None:
    if sites is not None and not is_count(sites):
        raise InvalidInput(f"sites must be a whole number of at least 1, or None for all of them, got {shown(sites)}")
