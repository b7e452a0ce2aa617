"""Polishing: the maximum of the posterior near a start, and the mass of its basin.

The posterior of an explanation is its exact evidence times a prior, integrated over its basin by Laplace's method: a
normal about the maximum. How common copy-number states are differs from tumour to tumour, so their probabilities are
learned, too (`chiasma.tumour.copy_states`).

A joint explanation is a tuple with an entry for every sample of a patient: the copy numbers are shared, the numbers are
not. A patient with one sample has tuples of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit

from chiasma.exact import inference as exact
from chiasma.tumour.copy_states import CopyStates, learned, log_average
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.model import (
    Columns,
    Evidence,
    Parameters,
    Samples,
    log_evidence,
    model_of,
    observations_of,
    shared_states,
)
from chiasma.tumour.pieces import FRACTION_SLACKS, TumourData
from chiasma.types import Floats

# Doubled genomes are about a third of tumours.
DOUBLED = 0.3
# Slack of the level of a piece: a typical one, and the standard deviation of its logarithm.
SLACK, SLACK_SPREAD = 0.01, 1.0
LEAST_SHARE, LARGEST_SHARE = 0.03, 0.5
# Log-range of the depth scale, for its uniform prior.
SCALE_RANGE = 2.0
STEPS, ROUGH_STEPS = 8, 2
TURNS = 3
CONVERGED = 0.02


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A maximum of the posterior. covariance: of `free`, the parameters on the real line; log_mass: of its basin.

    log_evidence : of the pieces, all copy numbers summed. log_likelihood : of the pieces, at the most probable ones.
    Of samples that are explained together these and log_mass belong to all samples; the rest is that of one of them.
    probabilities (S,) : learned, of the states of a new segment. fraction_slack : of the minor allele fractions.
    main (T, S), changes (T, C) each : posterior probabilities of the states of the rows, for the bins.
    """

    parameters: Parameters
    log_evidence: float
    log_likelihood: float
    log_mass: float
    free: Floats
    covariance: Floats
    states: CopyStates
    probabilities: Floats
    fraction_slack: float
    main: Floats
    changes: tuple[Floats, ...]
    ploidy: float

    @property
    def copies(self) -> Floats:
        """(T,) mean copies per tumour cell."""
        mean = self.main @ self.states.totals
        own = self.states.changes[:, :2].sum(axis=1)
        for share, change in zip(self.parameters.fractions, self.changes, strict=True):
            mean = mean + share * (change @ own)
        return np.asarray(mean)

    @property
    def altered(self) -> Floats:
        """(T,) probability that the main clone is not as normal cells are."""
        normal = self.states.pairs.index(self.states.normal)
        return np.asarray(1 - self.main[:, normal])

    @property
    def subclones_differ(self) -> bool:
        """Whether every subclone differs from the main clone somewhere."""
        return all(bool(np.any(change.argmax(axis=1) != 0)) for change in self.changes)

    def purities(self, n: int, bounds: Bounds, rng: np.random.Generator) -> Floats:
        """Draws of the purity from the posterior of this explanation."""
        if bounds.purity[0] == bounds.purity[1]:
            return np.full(n, bounds.purity[0])
        drawn = self.free[0] + np.sqrt(self.covariance[0, 0]) * rng.standard_normal(n)
        return _between(drawn, *bounds.purity)


# An entry for every sample of a patient.
Joint = tuple[Parameters, ...]
Explained = tuple[Explanation, ...]


def rough_climb(
    samples: Sequence[TumourData], most: int, bounds: Sequence[Bounds], start: Joint
) -> tuple[float, Joint]:
    """The height that a few steps reach, and where."""
    line = Lines(start, bounds)
    evidence = Evidence([data.pieces for data in samples], most, start[0].doubled)

    def height(x: Floats) -> float:
        return evidence.at(line.parameters(x)) + line.log_prior(x)

    free, top, _ = climb(height, line.begin, line.steps, ROUGH_STEPS, line.slices)
    return top, line.parameters(free)


def polish(samples: Sequence[TumourData], most: int, bounds: Sequence[Bounds], start: Joint) -> Explained:
    """The maximum of the posterior near a start, by Newton's method with differences of the exact evidence.

    Probabilities of states and the slacks of fractions are improved in turns with the other parameters.
    """
    pieces, fraction_slacks = [data.pieces for data in samples], [0.0] * len(samples)
    states = shared_states(pieces, start[0].doubled, most)
    line = Lines(start, bounds)
    probabilities, free, steps = states.probabilities, line.begin, line.steps
    for turn in range(TURNS):
        own = line.parameters(free)
        if turn:
            for number, data in enumerate(samples):
                if data.has_alleles:
                    fraction_slacks[number], pieces = _best_fraction_slack(
                        data, number, pieces, own, most, probabilities
                    )
            probabilities = learned(states, _segment_counts(pieces, own, most, probabilities))
        evidence = Evidence(pieces, most, start[0].doubled, probabilities)

        def height(x: Floats, at: Callable[[Joint], float] = evidence.at) -> float:
            return at(line.parameters(x)) + line.log_prior(x)

        # Samples are nearly independent, given their copy numbers: only the last curvature is that of all together.
        last = turn == TURNS - 1
        free, top, covariance = climb(height, free, steps, blocks=line.slices, whole=last)
        steps = np.clip(0.5 * np.sqrt(np.diag(covariance)), 1e-5, 0.3)
    parameters = line.parameters(free)
    counts = _segment_counts(pieces, parameters, most, probabilities)
    _, log_volume = np.linalg.slogdet(2 * np.pi * covariance)
    # The evidence counts on the learned probabilities; the average over all probabilities takes their place.
    log_mass = top + 0.5 * log_volume + log_average(states, counts) - counts @ np.log(probabilities)
    log_mass += np.log(DOUBLED if start[0].doubled else 1 - DOUBLED)
    columns = [data.columns(own.slack) for data, own in zip(samples, parameters, strict=True)]
    _, main, *changes = exact.all_probabilities(
        model_of(columns, parameters, most, probabilities), observations_of(columns)
    )
    total, log_likelihood = evidence.at(parameters), _log_likelihood(pieces, parameters, most, probabilities)
    found = []
    for number, (data, part) in enumerate(zip(samples, line.slices, strict=True)):
        one = Explanation(
            parameters=parameters[number],
            log_evidence=total,
            log_likelihood=log_likelihood,
            log_mass=float(log_mass),
            free=free[part],
            covariance=covariance[part, part],
            states=states,
            probabilities=probabilities,
            fraction_slack=fraction_slacks[number],
            main=main.T,
            changes=tuple(change.T for change in changes),
            ploidy=np.nan,
        )
        length = data.bins.end - data.bins.start
        found.append(replace(one, ploidy=float(np.average(one.copies, weights=length))))
    return tuple(found)


class Lines:
    """The parameters of all samples as one vector on the real line."""

    def __init__(self, start: Joint, bounds: Sequence[Bounds]):
        kind = _Line if len(start) == 1 else _SharedLine
        self._each = [kind(own, bound) for own, bound in zip(start, bounds, strict=True)]
        self.begin = np.concatenate([one.begin for one in self._each])
        self.steps = np.concatenate([one.steps for one in self._each])
        ends = np.cumsum([len(one.begin) for one in self._each])
        self.slices = [slice(stop - len(one.begin), stop) for one, stop in zip(self._each, ends, strict=True)]

    def parameters(self, free: Floats) -> Joint:
        return tuple(one.parameters(free[part]) for one, part in zip(self._each, self.slices, strict=True))

    def log_prior(self, free: Floats) -> float:
        return sum(one.log_prior(free[part]) for one, part in zip(self._each, self.slices, strict=True))


class _Line:
    """Parameters as a vector on the real line: purity (unless it is fixed), log scale, log slack, shares."""

    def __init__(self, start: Parameters, bounds: Bounds):
        self.doubled, self.bounds = start.doubled, bounds
        self.fixed = bounds.purity[0] == bounds.purity[1]
        purity = [] if self.fixed else [_to_line(start.purity, *bounds.purity)]
        shares = self._shares_to_line(start.fractions)
        self.begin = np.array([*purity, np.log(start.scale), np.log(start.slack), *shares])
        self.steps = np.array([*([] if self.fixed else [0.02]), 0.002, 0.05, *([0.05] * len(shares))])

    def _rest(self, free: Floats) -> Floats:
        return free if self.fixed else free[1:]

    def parameters(self, free: Floats) -> Parameters:
        rest = self._rest(free)
        purity = self.bounds.purity[0] if self.fixed else float(_between(free[0], *self.bounds.purity))
        shares = self._shares(rest[2:])
        scale, slack = (float(np.exp(x)) for x in np.clip(rest[:2], -50, 50))
        return Parameters(purity=purity, scale=scale, slack=slack, fractions=shares, doubled=self.doubled)

    def log_prior(self, free: Floats) -> float:
        """Log density on the line: purity Beta(2, 2) (samples are rarely pure, or without tumour), log scale uniform,
        log slack normal, shares as `_log_prior_of_shares` says.
        """
        rest = self._rest(free)
        total = 0.0 if self.fixed else 2 * _log_uniform(free[0]) + np.log(6)
        z = (rest[1] - np.log(SLACK)) / SLACK_SPREAD
        total += -0.5 * z * z - np.log(SLACK_SPREAD * np.sqrt(2 * np.pi)) - np.log(SCALE_RANGE)
        return float(total + self._log_prior_of_shares(rest[2:]))

    def _shares_to_line(self, shares: Sequence[float]) -> list[float]:
        return [_to_line(share, LEAST_SHARE, LARGEST_SHARE) for share in shares]

    def _shares(self, free: Floats) -> tuple[float, ...]:
        return tuple(float(_between(x, LEAST_SHARE, LARGEST_SHARE)) for x in free)

    def _log_prior_of_shares(self, free: Floats) -> float:
        """Beta(1, 3). A share of one half would leave no main clone, and look like a doubled genome: the density falls
        to 0 there.
        """
        return float(sum(_log_uniform(x) + np.log(3) + 2 * log_expit(-x) for x in free))


class _SharedLine(_Line):
    """The same for a sample of several: any clone may be absent from it, the main one, too. So the shares of all
    clones are uniform over all that add up to one. Coordinates break off a stick: each is the share of a subclone in
    what the subclones before it have left.
    """

    def _shares_to_line(self, shares: Sequence[float]) -> list[float]:
        left = 1 - np.cumsum([0.0, *shares[:-1]])
        return [_to_line(share, 0.0, float(rest)) for share, rest in zip(shares, left, strict=False)]

    def _shares(self, free: Floats) -> tuple[float, ...]:
        broken, left = [], 1.0
        for x in free:
            broken.append(float(left * expit(x)))
            left -= broken[-1]
        return tuple(broken)

    def _log_prior_of_shares(self, free: Floats) -> float:
        more = np.arange(len(free) - 1, -1, -1)
        return float(sum(_log_uniform(x) + np.log(1 + n) + n * log_expit(-x) for x, n in zip(free, more, strict=True)))


def _best_fraction_slack(
    data: TumourData, number: int, pieces: Sequence[Columns], own: Joint, most: int, probabilities: Floats
) -> tuple[float, list[Columns]]:
    """The slack of minor allele fractions of one sample with the highest evidence, and the pieces with it."""
    every = [(slack, [*pieces[:number], data.pieces_with(slack), *pieces[number + 1 :]]) for slack in FRACTION_SLACKS]
    return max(every, key=lambda one: log_evidence(one[1], own, most, probabilities))


def _segment_counts(pieces: Sequence[Columns], own: Joint, most: int, probabilities: Floats) -> Floats:
    """(S,) segments of the main clone in each state, on its most probable states."""
    model = model_of(pieces, own, most, probabilities)
    path = exact.probabilities(model, observations_of(pieces), "main").argmax(axis=0)
    new = np.ones(len(path), bool)
    new[1:] = path[1:] != path[:-1]
    new[pieces[0].starts] = True
    return np.bincount(path[new], minlength=len(probabilities)).astype(float)


def _log_likelihood(pieces: Sequence[Columns], own: Joint, most: int, probabilities: Floats) -> float:
    """Of the pieces, at the most probable copy numbers."""
    model, data = model_of(pieces, own, most, probabilities), observations_of(pieces)
    states = shared_states(pieces, own[0].doubled, most)
    _, main, *changes = exact.map_states(model, data)
    levels = []
    for one in own:
        copies = states.values[main]
        for share, change in zip(one.fractions, changes, strict=True):
            copies = copies + share * states.changes[change]
        levels.append((1 - one.purity) * np.array([*states.normal, 0.0]) + one.purity * copies)
    level, which = np.unique(np.hstack(levels), axis=0, return_inverse=True)
    assert isinstance(model.emission, Samples)
    each = model.emission.log_likelihood(data.y, level)
    return float(each[np.arange(len(which)), which.ravel()].sum())


def climb(
    height: Callable[[Floats], float],
    begin: Floats,
    steps: Floats,
    most_steps: int = STEPS,
    blocks: Sequence[slice] | None = None,
    whole: bool = False,
) -> tuple[Floats, float, Floats]:
    """Newton's method: the maximum, its height, and the inverse of the negative Hessian there, all by differences.

    blocks : mixed derivatives are computed within these coordinates only; default: all. whole : at the maximum, all
    are.
    """
    x, top = begin.copy(), height(begin)
    covariance = np.diag(steps**2)
    for _ in range(most_steps):
        gradient, hessian = _differences(height, x, top, steps, blocks)
        # Where the surface is not a hill, its absolute curvature gives a safe step.
        values, vectors = np.linalg.eigh(-hessian)
        values = np.maximum(np.abs(values), 1e-3 / np.max(steps) ** 2 * 1e-3)
        covariance = (vectors / values) @ vectors.T
        move = covariance @ gradient
        gain = float(gradient @ move)
        moved = False
        for shrink in (1.0, 0.5, 0.2, 0.05, 0.01):
            there = x + shrink * move
            reached = height(there)
            if reached > top:
                x, rise, top, moved = there, reached - top, reached, True
                break
        steps = np.clip(0.5 * np.sqrt(np.diag(covariance)), 1e-5, 0.3)
        if not moved or (gain < CONVERGED and rise < CONVERGED):
            break
    if most_steps <= ROUGH_STEPS:
        return x, top, covariance
    _, hessian = _differences(height, x, top, steps, None if whole else blocks)
    values, vectors = np.linalg.eigh(-hessian)
    values = np.maximum(values, 1e-2)  # no coordinate is known worse than to a standard deviation of 10
    return x, top, np.asarray((vectors / values) @ vectors.T)


def _differences(
    height: Callable[[Floats], float], x: Floats, top: float, steps: Floats, blocks: Sequence[slice] | None
) -> tuple[Floats, Floats]:
    """Gradient and Hessian by central differences; without mixed derivatives between blocks."""
    n = len(x)
    gradient, hessian = np.empty(n), np.zeros((n, n))
    block = np.zeros(n, int)
    for number, own in enumerate(blocks or ()):
        block[own] = number
    up, down = np.empty(n), np.empty(n)
    for i in range(n):
        shift = np.zeros(n)
        shift[i] = steps[i]
        up[i], down[i] = height(x + shift), height(x - shift)
        gradient[i] = (up[i] - down[i]) / (2 * steps[i])
        hessian[i, i] = (up[i] - 2 * top + down[i]) / steps[i] ** 2
    for i in range(n):
        for j in range(i):
            if block[j] != block[i]:
                continue
            shift = np.zeros(n)
            shift[[i, j]] = steps[[i, j]]
            both = height(x + shift)
            mixed = (both - up[i] - up[j] + top) / (steps[i] * steps[j])
            hessian[i, j] = hessian[j, i] = mixed
    return gradient, hessian


def _log_uniform(x: float) -> float:
    """Log density of x whose logistic function is uniform."""
    return float(-np.logaddexp(0, x) - np.logaddexp(0, -x))


def _between(x: Floats | float, low: float, high: float) -> Floats:
    return np.asarray(low + (high - low) * expit(x))


def _to_line(value: float, low: float, high: float) -> float:
    share = np.clip((value - low) / (high - low), 0.005, 0.995)
    return float(np.log(share / (1 - share)))
