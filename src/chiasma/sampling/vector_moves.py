"""Further updates of vectors: Hamiltonian Monte Carlo, the stretch move, locally informed proposals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels import vectors
from chiasma.models.density import Density, Vector
from chiasma.sampling.mode_jumps import N_UNIFORMS, ModeJumper
from chiasma.sampling.replicas import Replicas
from chiasma.sampling.vector_updates import (
    MetropolisStep,
    SiteGibbs,
    VectorStep,
    VectorUpdate,
    check_floats,
    fitting_letters,
)
from chiasma.types import Floats, as_floats, is_count, shown

# Acceptance that adaptation aims at: a single leapfrog step, and several.
WANTED_LANGEVIN, WANTED_HAMILTONIAN = 0.574, 0.8
# Leapfrog steps of long and short trajectories, and the share of long ones on a ladder. Short ones explore separated
# modes three to four times as fast per evaluation (modes_32 and blocks of benchmarks/vectors.py), long ones narrow and
# bent densities twice as fast (volatility, banana). The mixture gives about equal parts of the work to both.
LONG, SHORT, LONG_SHARE = 8, 2, 0.2
# Jumps between modes after a trajectory: one vector each, beside the gradients of all replicas.
JUMPS_PER_STEP = 4
# Shares of steps that stretch and that jump, the others being a random walk; share of jumps that go all the way.
STRETCHES, JUMPS, FULL_JUMPS = 0.4, 0.4, 0.1
# Kept vectors of every rung that the stretch move refers to.
KEPT = 100


@dataclass(frozen=True, kw_only=True)
class Hamiltonian(VectorUpdate):
    """Hamiltonian Monte Carlo with the gradient of the density; one step is the Langevin algorithm (MALA).

    Warm-up learns the step size and the scale of every coordinate at every rung.

    Parameters
    ----------
    steps : leapfrog steps of a trajectory, each one gradient; default: 8, and 2 on a ladder, whose swaps need no more
        than a short trajectory in between; one in five has 8 there, too.
    step_size : where adaptation begins, in units of the scale of a coordinate.
    adapt : whether warm-up adapts.
    jumps : whether the coldest replica also jumps between the modes that all chains have found in
        warm-up; needs adapt.

    Examples
    --------
    >>> import chiasma as ch
    >>> normal = ch.Density(
    ...     lambda x: -0.5 * (x**2).sum(axis=1), size=2, init=[0.0, 0.0], gradient=lambda x: -x,
    ...     update=ch.Hamiltonian(steps=4),
    ... )
    >>> posterior = ch.sample(normal, ladder=[1, 3], draws=200, warmup=100, seed=1, progress=False)
    >>> bool(abs(posterior.draws.std() - 1) < 0.2)
    True
    """

    steps: int | None = None
    step_size: float = 0.2
    adapt: bool = True
    jumps: bool = True

    def __post_init__(self) -> None:
        if self.steps is not None and not is_count(self.steps):
            raise InvalidInput(f"steps must be a whole number of at least 1, got {shown(self.steps)}")
        size = as_floats("step_size", self.step_size)
        if size.shape != () or not 0 < size < np.inf:
            raise InvalidInput(f"step_size must be a positive number, got {shown(self.step_size)}")

    def bind(self, density: Density, betas: npt.ArrayLike, n_free: int = 0) -> VectorStep:
        check_floats(self, density)
        if not density.has_gradient:
            raise InvalidInput("Hamiltonian needs the gradient of the density: ch.Density(..., gradient=...)")
        return HamiltonianStep(self, density, np.asarray(betas, float), n_free)


class HamiltonianStep(MetropolisStep):
    """Leapfrog trajectories of all replicas side by side."""

    def __init__(self, update: Hamiltonian, density: Density, betas: Floats, n_free: int):
        super().__init__(density, betas, n_free)
        self.update = update
        self.n_uniforms, self.n_normals = 3, density.size
        if update.adapt and update.jumps:
            self.jumper = ModeJumper(density.size, self.learned)
            self.n_uniforms += JUMPS_PER_STEP * (1 + N_UNIFORMS)
            self.n_normals *= 1 + JUMPS_PER_STEP
        self.longest = update.steps or LONG
        self.shortest = update.steps or (LONG if len(betas) == 1 else SHORT)
        self.evaluations = 1 + LONG_SHARE * self.longest + (1 - LONG_SHARE) * self.shortest
        shape = len(betas), density.size
        self.hot = betas[:, None] == 0
        self.learned["step_size"] = np.full(len(betas), float(update.step_size))
        self.learned["scale"] = np.ones(shape)
        # Mean and sum of squares of the states so far, and their number.
        self.learned["moments"] = np.zeros((len(betas), 2, density.size))
        self.learned["seen"] = np.zeros(len(betas))

    def slopes(self, x: Vector) -> Floats:
        """(n, 2, size) gradients of log_density and log_prior."""
        return np.stack(self.density.slopes(x), axis=1)

    def tempered(self, slopes: Floats) -> Floats:
        """(R, size) gradients of the targets of the rungs."""
        return slopes[:, 1] + np.where(self.hot, 0.0, self.betas[:, None] * slopes[:, 0])

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        if not replicas.carried:
            replicas.carried.append(np.zeros((len(self.betas), 2, self.density.size)))
        normals, others = normals[:, : self.density.size], normals[-1, self.density.size :]
        known, stale = replicas.carried[0], replicas.stale
        if stale.any():
            known[stale] = self.slopes(replicas.states[stale])
            stale[:] = False
        # A jittered step avoids trajectories that return to where they began.
        step = (self.learned["step_size"] * (0.8 + 0.4 * uniforms[:, 1]))[:, None] * self.learned["scale"]
        n_steps = self.longest if uniforms[0, 2] < LONG_SHARE else self.shortest
        x, p = replicas.states.astype(float), normals.copy()
        with np.errstate(invalid="ignore", over="ignore"):
            p += 0.5 * step * self.tempered(known)
            for i in range(n_steps):
                x += step * p
                slopes = self.slopes(x)
                p += (1.0 if i < n_steps - 1 else 0.5) * step * self.tempered(slopes)
            correction = 0.5 * ((normals**2).sum(axis=1) - (p**2).sum(axis=1))
        lost = ~(np.isfinite(x).all(axis=1) & np.isfinite(correction))
        x[lost], correction[lost] = replicas.states[lost], -np.inf
        self.settle(replicas, x, correction, uniforms[:, 0])
        accepted = uniforms[:, 0] < self.chance
        known[accepted] = slopes[accepted]
        stale[: self.n_free] = True
        if self.jumper is not None and self.jumper.ready:
            for i in range(JUMPS_PER_STEP):
                own = uniforms[-1:, 3 + i * (1 + N_UNIFORMS) :]
                self.jump(self.jumper, replicas, own, others[i * self.density.size :])

    def jump(self, jumper: ModeJumper, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        """A jump of the coldest replica; uniforms (1, 1 + N_UNIFORMS or more)."""
        new, chance = np.empty((1, self.density.size)), np.empty(1)
        states = replicas.states[-1:]
        correction = jumper.propose(states[0], uniforms[0, 1:], normals, new[0])
        new = new.astype(states.dtype, copy=False)
        vectors.settle(
            self.betas[-1:], states, replicas.log_lik[-1:], replicas.log_prior[-1:], new, *self.density.parts(new),
            np.array([correction]), uniforms[:, 0], 0, chance,
        )  # fmt: skip
        jumper.made(float(chance[0]))
        replicas.stale[-1] |= uniforms[0, 0] < chance[0]

    def adapt(self, replicas: Replicas, normals: Floats) -> None:
        if not self.update.adapt:
            return
        self.n_adapted += 1
        wanted = WANTED_LANGEVIN if self.longest == 1 else WANTED_HAMILTONIAN
        if self.jumper is not None:
            self.jumper.see(replicas)
        gain = 2.0 * (self.n_adapted + 3) ** (-0.6)
        self.learned["step_size"][self.n_free :] *= np.exp(gain * (self.chance - wanted))[self.n_free :]
        seen, moments = self.learned["seen"], self.learned["moments"]
        seen += 1
        before = replicas.states - moments[:, 0]
        moments[:, 0] += before / seen[:, None]
        moments[:, 1] += before * (replicas.states - moments[:, 0])
        if self.n_adapted % 50 == 0:
            # Few states say little: the scale shrinks towards what it was.
            weight = (seen / (seen + 10))[:, None]
            variance = moments[:, 1] / seen[:, None]
            self.learned["scale"][:] = np.sqrt(weight * variance + (1 - weight) * self.learned["scale"] ** 2)
            moments[:], seen[:] = 0.0, 0.0


@dataclass(frozen=True, kw_only=True)
class Stretch(VectorUpdate):
    """The affine-invariant stretch move, and jumps by differences of vectors, of any shape and scale.

    A stretch moves a vector along the line through a vector that its rung has visited in warm-up (Goodman and Weare
    2010); a jump adds the difference of two of them (ter Braak 2006). Every fifth step is a random walk. Warm-up
    collects these vectors and learns the length of jumps and walks; nothing changes while draws are made.

    Parameters
    ----------
    widest : largest factor by which a stretch lengthens or shortens a line.

    Examples
    --------
    >>> import chiasma as ch
    >>> narrow = ch.Density(
    ...     lambda x: -0.5 * (x[:, 0] ** 2 + (100 * (x[:, 1] - x[:, 0])) ** 2), size=2, init=[0.0, 0.0],
    ...     update=ch.Stretch(),
    ... )
    >>> ch.sample(narrow, ladder=[1, 3], draws=50, warmup=50, seed=1, progress=False).draws.shape
    (4, 50, 2)
    """

    widest: float = 2.0

    def __post_init__(self) -> None:
        widest = as_floats("widest", self.widest)
        if widest.shape != () or not 1 < widest < np.inf:
            raise InvalidInput(f"widest must be a number above 1, got {shown(self.widest)}")

    def bind(self, density: Density, betas: npt.ArrayLike, n_free: int = 0) -> VectorStep:
        check_floats(self, density)
        return StretchStep(self.widest, density, np.asarray(betas, float), n_free)


class StretchStep(MetropolisStep):
    """Proposals that refer to kept vectors of the same rung; random walks make every vector reachable."""

    n_uniforms = 5

    def __init__(self, widest: float, density: Density, betas: Floats, n_free: int):
        super().__init__(density, betas, n_free)
        self.widest = widest
        self.n_normals = density.size
        self.learned["kept"] = np.zeros((len(betas), KEPT, density.size))
        self.learned["n_kept"] = np.zeros(len(betas))
        self.learned["jump"] = np.full(len(betas), 2.38 / np.sqrt(2 * density.size))
        self.learned["walk"] = np.full(len(betas), 2.38 / np.sqrt(density.size))
        self.rows = np.arange(len(betas))
        self.jumps = self.walks = np.zeros(len(betas), bool)

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        kept, n_kept = self.learned["kept"], self.learned["n_kept"]
        a, b = (kept[self.rows, (uniforms[:, i] * n_kept).astype(int)] for i in (1, 2))
        x = replicas.states
        self.walks = (uniforms[:, 3] >= STRETCHES + JUMPS) | (n_kept < 2)
        stretches = (uniforms[:, 3] < STRETCHES) & ~self.walks
        # Density proportional to 1 / sqrt(z) on [1 / widest, widest].
        root = np.sqrt(self.widest)
        z = ((root - 1 / root) * uniforms[:, 4] + 1 / root) ** 2
        full = uniforms[:, 4] < FULL_JUMPS
        self.jumps = ~(self.walks | stretches | full)
        step = np.where(full, 1.0, self.learned["jump"])[:, None] * (a - b)
        step[self.walks] = 0.0
        noise = np.where(self.walks, 1.0, 0.1) * self.learned["walk"]
        step += noise[:, None] * normals
        step[stretches] = ((z[:, None] - 1) * (x - a))[stretches]
        correction = np.where(stretches, (self.density.size - 1) * np.log(z), 0.0)
        self.settle(replicas, x + step, correction, uniforms[:, 0])

    def adapt(self, replicas: Replicas, normals: Floats) -> None:
        self.n_adapted += 1
        gain = min(1.0, 3 * self.n_adapted ** (-2 / 3))
        for name, made in (("jump", self.jumps), ("walk", self.walks)):
            made[: self.n_free] = False
            self.learned[name] *= np.exp(np.where(made, gain * (self.chance - 0.234), 0.0))
        n_kept = self.learned["n_kept"]
        # Vectors of the first iterations are replaced by later ones, in turn.
        place = (self.n_adapted % KEPT) if n_kept[0] >= KEPT else int(n_kept[0])
        if n_kept[0] < KEPT or self.n_adapted % max(1, self.density.size // 4) == 0:
            self.learned["kept"][:, place] = replicas.states
            n_kept[:] = np.minimum(n_kept + 1, KEPT)


@dataclass(frozen=True, kw_only=True)
class LocallyInformed(SiteGibbs):
    """Locally informed proposals (Zanella 2020) for discrete vectors: changes of one coordinate that raise the density
    are proposed more often.

    A step evaluates every vector that differs in one coordinate, all in one call: with `local` in the density that is
    cheap. Proposals are weighted by w / (1 + w), w the ratio of densities.

    Parameters
    ----------
    alphabet : the values that a coordinate may take.
    sites : int, steps per iteration; default: 1.

    Examples
    --------
    >>> import chiasma as ch
    >>> def smooth(x):
    ...     return -abs(x[:, 1:] - x[:, :-1]).sum(axis=1)
    >>> density = ch.Density(smooth, size=5, init=[0] * 5, update=ch.LocallyInformed(alphabet=(0, 1, 2)))
    >>> ch.sample(density, ladder=[1, 2], draws=50, warmup=10, seed=1, progress=False).draws.shape
    (4, 50, 5)
    """

    def bind(self, density: Density, betas: npt.ArrayLike, n_free: int = 0) -> VectorStep:
        letters = fitting_letters(self.alphabet, density)
        return InformedStep(self.sites or 1, letters, density, np.asarray(betas, float))


class InformedStep(VectorStep):
    """All changes of one coordinate in all replicas; those of the states are carried along with them."""

    def __init__(self, steps: int, letters: Vector, density: Density, betas: Floats):
        super().__init__(density, betas)
        self.steps = steps
        self.letters = letters
        self.ranks = np.argsort(letters)
        self.n_uniforms = 2 * steps
        self.n_changes = density.size * (len(letters) - 1)
        self.evaluations = steps * self.n_changes
        self.exact = not density.has_local
        self.sites = np.repeat(np.arange(density.size), len(letters) - 1)
        self.further = np.tile(np.arange(1, len(letters)), density.size)
        self.rows = np.arange(len(betas))

    def scores(self, states: Vector, log_lik: Floats) -> Floats:
        """(R, 2, n_changes) log_density and log_prior after every change."""
        n = len(states)
        rows, sites = np.repeat(np.arange(n), self.n_changes), np.tile(self.sites, n)
        parts = self.density.changed(states[rows], log_lik[rows], sites, self.values(states).ravel())
        return np.stack([part.reshape(n, -1) for part in parts], axis=1)

    def values(self, states: Vector) -> Vector:
        """(R, n_changes) the new value of every change."""
        current = self.ranks[np.searchsorted(self.letters, states, sorter=self.ranks)]
        return self.letters[(current[:, self.sites] + self.further) % len(self.letters)]

    def do(self, part: int, replicas: Replicas, uniforms: Floats, normals: Floats) -> None:
        if not replicas.carried:
            replicas.carried.append(np.zeros((len(self.betas), 2, self.n_changes)))
        if replicas.stale.any():
            at = replicas.stale
            replicas.carried[0][at] = self.scores(replicas.states[at], replicas.log_lik[at])
            replicas.stale[:] = False
        scores = replicas.carried[0]
        for n in range(self.steps):
            chosen = np.zeros(len(self.betas), int)
            vectors.pick_informed(self.betas, replicas.log_lik, replicas.log_prior, scores, uniforms[:, 2 * n], chosen)
            sites = self.sites[chosen]
            proposed = replicas.states.copy()
            proposed[self.rows, sites] = self.values(replicas.states)[self.rows, chosen]
            lik, prior = scores[self.rows, 0, chosen], scores[self.rows, 1, chosen]
            new = self.scores(proposed, lik)
            vectors.settle_informed(
                self.betas, replicas.states, replicas.log_lik, replicas.log_prior, scores, proposed, lik, prior, new,
                uniforms[:, 2 * n + 1],
            )  # fmt: skip
