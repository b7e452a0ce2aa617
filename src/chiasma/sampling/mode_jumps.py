"""Jumps of the coldest replica between the modes that the warm-up of all chains has found.

The modes are a mixture of normal distributions, q(x) = sum_k w_k N(x; m_k, L_k L_k'), of all coordinates or of a group
of them. With r_k(x) = w_k N(x; m_k, L_k L_k') / q(x), a jump from x

    draws a component i with probability r_i(x), a component j with probability w_j, and z = L_i^-1 (x - m_i),
    proposes x' = m_j + L_j (rho z + sqrt(1 - rho^2) e), e standard normal, for any rho in [0, 1],
    accepts with probability min(1, pi(x') q(x) / (pi(x) q(x'))).

rho = 0 is an independent draw from the mixture; rho = 1 carries x to the same place of another mode, and is accepted
in any number of dimensions if the modes have the same shape. The step from z to z' keeps the standard normal
distribution reversibly, so that N(z), N(z') and det L cancel for every rho. A bad mixture only costs acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.kernels import vectors
from chiasma.models.density import Vector
from chiasma.sampling.replicas import Replicas
from chiasma.types import Floats, Integers

# Share of the steps of a random walk that are jumps, if there are modes.
JUMP_SHARE = 0.5
# Uniforms of a proposal: group, component i, component j, rho.
N_UNIFORMS = 4
# Vectors kept by one chain in warm-up, and those of all chains that a mixture is fitted to.
KEPT, FITTED = 2000, 1000
# Rungs from this beta on show where the modes are.
COLD = 0.2
# Multiples of it are spread evenly modulo 1: every other vector, whatever the number of rungs.
GOLDEN = 0.6180339887498949
# Coordinates of a mixture at most; principal components in which vectors are clustered; components before
# merging, of all coordinates and of a group.
LARGEST, PRINCIPAL, COMPONENTS, FEW = 100, 8, 64, 16
# Coordinates beyond this are replicas that run away.
HUGE = 1e100
# Mean correlation of the coordinates of a group, at least.
CORRELATED = 0.6
# Vectors per coordinate that the common shape of components is worth, the best of these.
TRUSTS = 0.5, 4.0, 40.0
# Share of the weights that counts vectors; the rest is what the density says of each component.
COUNTED = 0.1


class Modes(NamedTuple):
    """A mixture over some coordinates, and how often it is used."""

    share: float
    sites: Integers  # (d,)
    log_weights: Floats  # (K,)
    means: Floats  # (K, d)
    factors: Floats  # (K, d, d) lower triangles L_k
    inverses: Floats  # (K, d, d) transposes of L_k^-1
    log_scales: Floats  # (K,) log det L_k
    variances: Floats  # (d,) of the mixture


class ModeJumper:
    """Collects vectors of the coldest replica in warm-up, and proposes jumps between their modes.

    learned : where a step keeps what it learns; here arrays for the chain, not for its rungs (`SHARED`).
    """

    SHARED = ("jump_modes", "jump_kept", "jump_clock", "jump_lengths")

    def __init__(self, size: int, learned: dict[str, Floats]):
        self.learned = learned
        learned["jump_modes"] = np.zeros(0)  # `packed`
        learned["jump_kept"] = np.zeros((0, size + 2))  # vectors, log density and beta
        learned["jump_clock"] = np.array([0.0, 1.0, 0.0])  # steps since the last kept vectors, steps between, how many
        learned["jump_lengths"] = np.zeros((2, 2))  # of all coordinates, of groups: jumps tried, squared lengths
        self.pending = np.zeros((2, 2))
        self.groups: list[Modes] = []
        self.ends = np.zeros(0)
        self.last = (0, 0.0)  # of the last proposal: all coordinates or a group, and its squared length

    def take_over(self) -> None:
        """Use the modes that were learned."""
        self.groups = unpacked(self.learned["jump_modes"])
        self.ends = np.cumsum([group.share for group in self.groups])

    def propose(self, x: Vector, uniforms: Floats, normals: Floats, out: Vector) -> float:
        """Write a proposal to out; returns log q(x) - log q(out)."""
        n = min(int(np.searchsorted(self.ends, uniforms[0] * self.ends[-1], side="right")), len(self.ends) - 1)
        group = self.groups[n]
        correction, length = vectors.propose_jump(x, *group[1:], uniforms[1:], normals, out)
        self.last = (int(len(group.sites) < len(x)), length / len(x))
        return float(correction)

    @property
    def ready(self) -> bool:
        """Whether there are modes."""
        return bool(self.groups)

    def made(self, chance: float) -> None:
        """Count the last jump, which was taken with probability `chance`."""
        level, length = self.last
        self.pending[level] += 1.0, chance * length

    def see(self, replicas: Replicas) -> None:
        """Keep vectors, and how well jumps do, after a step in warm-up."""
        learned = self.learned
        learned["jump_lengths"] += self.pending
        self.pending[:] = 0.0
        clock = learned["jump_clock"]
        clock[0] += 1
        if clock[0] < clock[1]:
            return
        size = replicas.states.shape[1]
        cold = np.flatnonzero(replicas.betas >= COLD)
        if not len(learned["jump_kept"]):
            learned["jump_kept"] = np.empty((max(KEPT, len(cold)), size + 2))
        kept, n, clock[0] = learned["jump_kept"], int(clock[2]), 0
        if n + len(cold) > len(kept):
            half = kept[:n][np.arange(n) * GOLDEN % 1 < 0.5]
            n = len(half)
            kept[:n] = half
            clock[1] *= 2
        rows = kept[n : n + len(cold)]
        rows[:, :size], rows[:, size + 1] = replicas.states[cold], replicas.betas[cold]
        rows[:, size] = replicas.log_lik[cold] + replicas.log_prior[cold]
        clock[2] = n + len(cold)


def pool(jumpers: Sequence[ModeJumper], last: bool) -> None:
    """Let all chains use the modes that any of them has found in a round of the warm-up."""
    # The first half of a round may be on the way to a mode.
    n_kept = [int(jumper.learned["jump_clock"][2]) for jumper in jumpers]
    halves = [jumper.learned["jump_kept"][n // 2 : n] for jumper, n in zip(jumpers, n_kept, strict=True)]
    kept = np.concatenate([half[:: -(-len(jumpers) * len(half) // FITTED) or 1] for half in halves])
    jumped = np.sum([jumper.learned["jump_lengths"] for jumper in jumpers], axis=0)
    rates = (jumped[:, 1] + 0.01) / (jumped[:, 0] + 1)
    modes = packed(find_modes(kept[:, :-2], kept[:, -2], kept[:, -1], rates))
    for jumper in jumpers:
        jumper.learned["jump_modes"] = modes
        jumper.learned["jump_lengths"][:] = 0
        if last:
            jumper.learned["jump_kept"] = kept[:0].copy()
        jumper.take_over()


def find_modes(x: Floats, log_target: Floats, betas: Floats, rates: Floats) -> list[Modes]:
    """Mixtures of vectors x (n, d): of all coordinates, and of groups of coordinates that depend on each other.

    log_target, betas (n,) : log density of each, at beta = 1, and the beta of its rung.
    rates (2,) : mean squared length so far of jumps of all coordinates, and of groups.
    """
    size = x.shape[1]
    usable = (np.abs(x) < HUGE).all(axis=1) & np.isfinite(log_target)
    x, first = np.unique(x[usable], axis=0, return_index=True)
    log_target, betas = log_target[usable][first], betas[usable][first]
    if len(x) < max(20, 4 * min(size, LARGEST)) or not (x.std(axis=0) > 0).all():
        return []
    groups = [np.flatnonzero(part) for part in _groups(x)]
    whole = size <= LARGEST
    shares = (
        np.clip(rates / rates.sum(), 0.1, 0.9) if whole and len(groups) > 1 else np.array([whole, not whole], float)
    )
    found = [_mixture(x, np.arange(size), betas, log_target, float(shares[0]))] if whole else []
    if len(groups) > 1:
        parts = [part for part in groups if len(part) <= LARGEST]
        found += [_mixture(x, part, betas, None, float(shares[1]) / len(parts)) for part in parts]
    return [modes for modes in found if modes is not None]


def _groups(x: Floats) -> list[npt.NDArray[np.bool_]]:
    """Masks of the coordinates of each group: they are correlated."""
    size = x.shape[1]
    if size == 1:
        return [np.ones(1, bool)]
    apart = 1 - np.abs(np.nan_to_num(np.corrcoef(x.T)))[np.triu_indices(size, 1)]
    tree = scipy.cluster.hierarchy.linkage(apart, "average")
    labels = scipy.cluster.hierarchy.fcluster(tree, 1 - CORRELATED, "distance")
    return [labels == part for part in range(1, labels.max() + 1)]


def _mixture(x: Floats, sites: Integers, betas: Floats, log_target: Floats | None, share: float) -> Modes | None:
    """The mixture of coordinates `sites` of x (n, d), or None where rounding spoils it.

    log_target : None for a group, on which it does not depend alone.
    """
    x = x[:, sites]
    size = len(sites)
    labels = cluster(x, FEW if log_target is None else COMPONENTS)
    if log_target is not None:
        typical = _typical(labels, log_target, betas, size)
        x, log_target, betas = x[typical], log_target[typical], betas[typical]
        labels = np.unique(labels[typical], return_inverse=True)[1]
    counts = np.bincount(labels).astype(float)
    even = np.arange(len(x)) % 2 == 0
    # How far the components have a shape in common is judged by the other half of the vectors.
    half = [_gauss(x[even], labels[even], betas[even], len(counts), trust) for trust in TRUSTS]
    odd = [_distances(x[~even], labels[~even], betas[~even], *fit).mean() for fit in half]
    means, factors = _gauss(x, labels, betas, len(counts), TRUSTS[int(np.argmin(odd))])
    weights = counts / counts.sum()
    if log_target is not None:
        gain = log_target + _distances(x, labels, np.ones(len(x)), means, factors)
        mass = np.array([np.median(gain[labels == k]) for k in range(len(counts))])
        mass = np.exp(mass - mass.max())
        weights = COUNTED * weights + (1 - COUNTED) * mass / mass.sum()
    modes = _as_modes(share, sites, np.log(weights), means, factors)
    return modes if all(np.isfinite(part).all() for part in modes) else None


def _as_modes(share: float, sites: Integers, log_weights: Floats, means: Floats, factors: Floats) -> Modes:
    inverses = np.ascontiguousarray(np.linalg.inv(factors).transpose(0, 2, 1))
    log_scales = np.log(np.einsum("kii->ki", factors)).sum(axis=1)
    weights = np.exp(log_weights)
    variances = weights @ ((means - weights @ means) ** 2 + (factors**2).sum(axis=2))
    return Modes(share, sites, log_weights, means, factors, inverses, log_scales, variances)


def _gauss(x: Floats, labels: Integers, betas: Floats, n_components: int, trust: float) -> tuple[Floats, Floats]:
    """Means (K, d) and factors (K, d, d) of components; trust: weight of their common shape, in vectors per coordinate.

    Each component has a scale of its own, and the larger it is, its own shape.
    """
    size = x.shape[1]
    counts = np.bincount(labels, minlength=n_components).astype(float)
    total = np.maximum(np.bincount(labels, betas, n_components), 1e-300)
    means = np.array([betas[labels == k] @ x[labels == k] for k in range(n_components)]) / total[:, None]
    # A normal distribution is wider by 1 / sqrt(beta) at a higher temperature.
    apart = (x - means[labels]) * np.sqrt(betas)[:, None]
    scatters = np.array([apart[labels == k].T @ apart[labels == k] for k in range(n_components)])
    tiny = 1e-10 * np.diag(x.var(axis=0)) + 1e-300 * np.eye(size)
    inverse = np.linalg.inv(scatters.sum(axis=0) / len(x) + tiny)
    scales = np.einsum("kij,ji->k", scatters, inverse) / (size * np.maximum(counts - 1, 1))
    scales = np.where(counts > 1, np.maximum(scales, 1e-8), 1.0)
    common = np.einsum("kij,k->ij", scatters, 1 / scales) / len(x) + tiny
    weight = trust * size
    covariances = (scatters + weight * scales[:, None, None] * common) / (counts + weight)[:, None, None]
    try:
        return means, np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        return means, np.full(covariances.shape, np.nan)


def _distances(x: Floats, labels: Integers, betas: Floats, means: Floats, factors: Floats) -> Floats:
    """(n,) minus the log density of vectors in their components, up to a constant."""
    squares = np.empty(len(x))
    for k, inverse in enumerate(np.linalg.inv(factors)):
        own = labels == k
        squares[own] = (((x[own] - means[k]) @ inverse.T) ** 2).sum(axis=1)
    return 0.5 * betas * squares + np.log(np.einsum("kii->ki", factors)).sum(axis=1)[labels]


def _typical(labels: Integers, log_target: Floats, betas: Floats, size: int) -> npt.NDArray[np.bool_]:
    """Which vectors are not on the way to a mode: their density is not too low for a normal distribution around it."""
    top = np.array([log_target[labels == k].max() for k in range(int(labels.max()) + 1)])
    return np.asarray(betas * (top[labels] - log_target) < scipy.special.chdtri(size, 0.001))


def cluster(x: Floats, most: int) -> Integers:
    """Labels (n,) of vectors (n, d): small clusters, merged as long as one normal distribution describes two of them
    better than one each.
    """
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    _, _, axes = np.linalg.svd(y, full_matrices=False)
    y = y @ axes[:PRINCIPAL].T
    n = len(y)
    tree = scipy.cluster.hierarchy.linkage(y, "ward")
    labels = scipy.cluster.hierarchy.fcluster(tree, max(1, min(most, n // 4)), "maxclust") - 1
    counts = np.bincount(labels).astype(float)
    means = np.array([y[labels == k].mean(axis=0) for k in range(len(counts))])
    scatters = np.array([(y[labels == k] - means[k]).T @ (y[labels == k] - means[k]) for k in range(len(counts))])
    costs = _cost(counts, scatters, n)
    alive = np.arange(len(counts))
    gains = np.full((len(counts), len(counts)), -np.inf)

    def look(a: Integers, b: Integers) -> None:
        both, merged = _merged(counts, means, scatters, a, b)
        gains[a, b] = gains[b, a] = costs[a] + costs[b] - _cost(both, merged, n)

    look(*np.triu_indices(len(counts), 1))
    while len(alive) > 1:
        a, b = divmod(int(gains.argmax()), len(counts))
        if not gains[a, b] > 0:
            break
        both, merged = _merged(counts, means, scatters, np.array([a]), np.array([b]))
        means[a] = (counts[a] * means[a] + counts[b] * means[b]) / both[0]
        counts[a], scatters[a], costs[a] = both[0], merged[0], _cost(both, merged, n)[0]
        labels[labels == b] = a
        alive = alive[alive != b]
        gains[b] = gains[:, b] = -np.inf
        others = alive[alive != a]
        look(np.full(len(others), a), others)
    return np.unique(labels, return_inverse=True)[1]


def _merged(counts: Floats, means: Floats, scatters: Floats, a: Integers, b: Integers) -> tuple[Floats, Floats]:
    both = counts[a] + counts[b]
    apart = means[a] - means[b]
    between = (counts[a] * counts[b] / both)[:, None, None] * apart[:, :, None] * apart[:, None, :]
    return both, scatters[a] + scatters[b] + between


def _cost(counts: Floats, scatters: Floats, n: int) -> Floats:
    """Minus the log likelihood of clusters as normal components of a mixture, and the price of a component."""
    size = scatters.shape[1]
    trust = size + 2.0
    own = np.einsum("kii->k", scatters) / (size * counts) + 1e-12
    covariances = (scatters + (trust * own)[:, None, None] * np.eye(size)) / (counts + trust)[:, None, None]
    _, log_dets = np.linalg.slogdet(covariances)
    return 0.5 * counts * log_dets - counts * np.log(counts / n) + 0.5 * (size + 1) * np.log(n)


# ---- As arrays -------------------------------------------------------------------------------------------------------


def packed(groups: Sequence[Modes]) -> Floats:
    """Mixtures as one array, for checkpoints."""
    parts = [np.array([len(group.sites), len(group.log_weights), group.share]) for group in groups]
    return np.concatenate(
        [np.zeros(0)]
        + [
            np.concatenate([head, group.sites, group.log_weights, group.means.ravel(), group.factors.ravel()])
            for head, group in zip(parts, groups, strict=True)
        ]
    )


def unpacked(values: Floats) -> list[Modes]:
    """The mixtures of `packed`."""
    groups = []
    while len(values):
        size, n_components = int(values[0]), int(values[1])
        lengths = [3, size, n_components, n_components * size, n_components * size**2]
        head, sites, log_weights, means, factors, values = np.split(values, np.cumsum(lengths))
        factors = factors.reshape(n_components, size, size)
        means = means.reshape(n_components, size)
        groups.append(_as_modes(float(head[2]), sites.astype(int), log_weights.copy(), means.copy(), factors.copy()))
    return groups
