"""Polishing: the maximum of the posterior near a start, and the mass of its basin.

The posterior of an explanation is its exact evidence times a prior, integrated over its basin by Laplace's method: a
normal about the maximum. How common copy-number states are differs from tumour to tumour, so their probabilities are
learned, too (`chiasma.tumour.copy_states`).

A joint explanation is a tuple with an entry for every sample of a patient: the copy numbers are shared, the parameters
are not. A patient with one sample has tuples of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, logit

from chiasma.exact import inference as exact
from chiasma.tumour.copy_states import CopyStates, learned, log_average
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.model import (
    LEAST_RUN,
    CopyColumns,
    CopyEvidence,
    PiecePosterior,
    TumourParameters,
    log_evidence,
    model_of,
    observations_of,
    shared_states,
)
from chiasma.tumour.pieces import HOMOZYGOUS_RUN, TumourData
from chiasma.types import Floats, Integers

# Doubled genomes are about a third of tumours.
DOUBLED = 0.3
# Slack of the level of a piece: a typical one, and the standard deviation of its logarithm.
SLACK, SLACK_SPREAD = 0.01, 1.0
# One tumour in fifty has a ploidy above 5.5, and hardly one above 6.5: not even two doublings lead there without
# losses.
USUAL_PLOIDY, PLOIDY_SPREAD = 4.5, 0.7
# The response of an array is known to about a tenth of its power, which moves the log odds of the purity by so much.
ARRAY_SPREAD = 0.15
LEAST_SHARE, LARGEST_SHARE = 0.03, 0.5
# Segments with a free level, and short pieces that are outliers: a typical share, and the standard deviation of its
# logit.
TYPICAL_SHARE, SHARE_SPREAD = 0.03, 1.5
# Log-range of the depth scale, for its uniform prior.
SCALE_RANGE = 2.0
STEPS, ROUGH_STEPS = 8, 2
TURNS = 3
# The coordinate of the purity, unless it is fixed.
PURITY = 2
CONVERGED = 0.02


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A maximum of the posterior. covariance: of `free`, the parameters on the real line; log_mass: of its basin.

    log_usual : the part of log_mass that is the prior of its ploidy and of a doubling.
    log_evidence : of the pieces, all copy numbers summed. log_likelihood : of the pieces, given the copy numbers, as
    expected over these. fits (C,) : the same of every piece.
    For samples that are explained together, these and log_mass are totals; the rest belongs to one sample.
    probabilities (S,) : learned, of the states of a new segment. fraction_slack : of the minor allele fractions.
    main (T, S), changes (T, C) each : posterior probabilities of the states of the rows, for the bins. Where the level
    is free, main has the states about it.
    free_level (T,) : posterior probability that a bin has a free level. outliers : share of the genome that is
    unexplained piece by piece. overdispersion : unexplained segments, by a free level or piece by piece, relative to
    what the model expects.
    known (T,) : probability that the alleles of a bin are not those of a germline run of
    homozygosity.
    """

    parameters: TumourParameters
    log_evidence: float
    log_likelihood: float
    fits: Floats
    log_mass: float
    log_usual: float
    free: Floats
    covariance: Floats
    states: CopyStates
    probabilities: Floats
    fraction_slack: float
    main: Floats
    changes: tuple[Floats, ...]
    free_level: Floats
    known: Floats
    outliers: float
    overdispersion: float
    ploidy: float

    def tempered(self, factor: float, array: bool = False) -> Explanation:
        """With the evidence, a sum over segments, to the power 1 / factor: its log and its curvature are divided.

        The prior of ploidy and doubling stays. array : whether the purity depends on the response of an array, too.
        """
        covariance = factor * self.covariance
        if array:
            covariance[PURITY, PURITY] += ARRAY_SPREAD**2
        log_mass = (self.log_mass - self.log_usual) / factor + self.log_usual
        return replace(self, log_mass=log_mass, covariance=covariance)

    @property
    def copies(self) -> Floats:
        """(T,) mean copies per tumour cell."""
        mean = self.main @ self.states.totals
        own = self.states.changes[:, :2].sum(axis=1)
        for share, change in zip(self.parameters.fractions, self.changes, strict=True):
            mean = mean + share * (change @ own)
        return np.asarray(mean)

    def unexplained(self, data: TumourData) -> float:
        """Share of the genome that no whole copy number explains."""
        length = (data.bins.end - data.bins.start).astype(float)
        return float(np.average(self.free_level, weights=length)) + self.outliers

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
        drawn = self.free[PURITY] + np.sqrt(self.covariance[PURITY, PURITY]) * rng.standard_normal(n)
        return _between(drawn, *bounds.purity)


# An entry for every sample of a patient.
Joint = tuple[TumourParameters, ...]
Explained = tuple[Explanation, ...]


def rough_climb(
    samples: Sequence[TumourData], most: int, bounds: Sequence[Bounds], start: Joint
) -> tuple[float, Joint]:
    """Height and position after a few steps."""
    line = Coordinates(start, bounds)  # foreign reads are as usual
    evidence = CopyEvidence([data.pieces for data in samples], most, start[0].doubled)

    def height(x: Floats) -> float:
        return evidence.at(line.parameters(x)) + line.log_prior(x)

    free, top, _ = climb(height, line.begin, line.steps, ROUGH_STEPS, line.blocks)
    return top, line.parameters(free)


def polish(samples: Sequence[TumourData], most: int, bounds: Sequence[Bounds], start: Joint) -> Explained:
    """The maximum of the posterior near a start, by Newton's method with differences of the exact evidence.

    Probabilities of states and the slacks of fractions are improved in turns with the other parameters.
    """
    pieces, fraction_slacks = [data.pieces for data in samples], [0.0] * len(samples)
    states = shared_states(pieces, start[0].doubled, most)
    line = Coordinates(start, bounds, [data.foreign_spread for data in samples])
    probabilities, free, steps = states.probabilities, line.begin, line.steps
    for turn in range(TURNS):
        own = line.parameters(free)
        if turn:
            for number, data in enumerate(samples):
                if data.has_alleles:
                    fraction_slacks[number], pieces = _best_fraction_slack(
                        data, number, pieces, own, most, probabilities
                    )
            evidence = CopyEvidence(pieces, most, start[0].doubled, probabilities)
            probabilities = learned(states, _segment_counts(evidence.posterior(own), pieces[0].starts))
        evidence = CopyEvidence(pieces, most, start[0].doubled, probabilities)

        def height(x: Floats, at: Callable[[Joint], float] = evidence.at) -> float:
            return at(line.parameters(x)) + line.log_prior(x)

        # Blocks are nearly independent, given the copy numbers, so only the last curvature is computed jointly.
        last = turn == TURNS - 1
        n_steps = STEPS if last else ROUGH_STEPS
        free, top, covariance = climb(height, free, steps, n_steps, blocks=line.blocks, whole=last)
        steps = np.clip(0.5 * np.sqrt(np.diag(covariance)), 1e-5, 0.3)
    parameters = line.parameters(free)
    found = evidence.posterior(parameters)
    counts = _segment_counts(found, pieces[0].starts)
    _, log_volume = np.linalg.slogdet(2 * np.pi * covariance)
    # The evidence counts on the learned probabilities; the average over all probabilities takes their place.
    log_mass = top + 0.5 * log_volume + log_average(states, counts) - counts @ np.log(probabilities)
    on_bins = [_on_bins(samples[i], evidence, i, own, found) for i, own in enumerate(parameters)]
    columns = [
        data.columns(own.slack, 1 - free_level, known)
        for data, own, (free_level, known) in zip(samples, parameters, on_bins, strict=True)
    ]
    _, main, *changes = exact.all_probabilities(
        model_of(columns, parameters, most, probabilities), observations_of(columns)
    )
    surest = max(range(len(samples)), key=lambda number: parameters[number].purity)
    about = _states_about(samples[surest], pieces[surest], parameters[surest], states, found)
    free_level = on_bins[0][0]
    main = (1 - free_level)[:, None] * main.T + free_level[:, None] * samples[0].of_pieces(about)
    outside = [evidence.outliers(number, own, found) for number, own in enumerate(parameters)]
    total = evidence.at(parameters)
    explained = []
    for number, (data, part) in enumerate(zip(samples, line.slices, strict=True)):
        length = (data.bins.end - data.bins.start).astype(float)
        one = Explanation(
            parameters=parameters[number],
            log_evidence=total,
            log_likelihood=float(found.fit.sum()),
            fits=found.fit,
            log_mass=float(log_mass),
            log_usual=0.0,
            free=free[part],
            covariance=covariance[part, part],
            states=states,
            probabilities=probabilities,
            fraction_slack=fraction_slacks[number],
            main=main,
            changes=tuple(change.T for change in changes),
            free_level=free_level,
            known=on_bins[number][1],
            outliers=float(np.average(data.of_pieces(outside[number]), weights=length)),
            overdispersion=_overdispersion(pieces[number], found, outside[number]),
            ploidy=np.nan,
        )
        explained.append(replace(one, ploidy=float(np.average(one.copies, weights=length))))
    usual = _log_usual(float(np.mean([one.ploidy for one in explained])), start[0].doubled)
    return tuple(replace(one, log_mass=one.log_mass + usual, log_usual=usual) for one in explained)


def _log_usual(ploidy: float, doubled: bool) -> float:
    """Log prior of a doubling, and of a mean ploidy relative to usual ones: a normal tail above.

    >>> round(_log_usual(3.9, doubled=True), 1), round(_log_usual(5.5, doubled=True), 1)
    (-1.2, -2.2)
    """
    of_ploidy = -0.5 * (max(ploidy - USUAL_PLOIDY, 0.0) / PLOIDY_SPREAD) ** 2
    return float(np.log(DOUBLED if doubled else 1 - DOUBLED)) + of_ploidy


def _on_bins(
    data: TumourData, evidence: CopyEvidence, number: int, own: TumourParameters, found: PiecePosterior
) -> tuple[Floats, Floats]:
    """(T,) probability that a bin has a free level, and that its alleles are not those of a run of homozygosity."""
    known = np.ones(len(found.free))
    if data.has_homozygous:
        known -= evidence.homozygous_runs(number, own, found, HOMOZYGOUS_RUN)
    return data.of_pieces(found.free), data.of_pieces(known)


def _overdispersion(pieces: CopyColumns, found: PiecePosterior, outside: Floats) -> float:
    """Ratio of unexplained segments (free levels and outliers) to the number expected from their typical shares of all
    segments. One is added to both counts, because a ratio of few segments is unreliable.
    """
    path = np.where(found.free > 0.5, -1, found.main.argmax(axis=1))
    new = np.ones(len(path), bool)
    new[1:] = path[1:] != path[:-1]
    new[pieces.starts] = True
    whole = float(np.sum(new & (path >= 0) & (outside < 0.5)))
    odd = float(outside.sum() + found.runs.sum())
    n_short = 0 if pieces.short is None else int(pieces.short.sum())
    return (odd + 1) / (TYPICAL_SHARE * (odd + whole + n_short) + 1)


def _states_about(
    data: TumourData, pieces: CopyColumns, own: TumourParameters, states: CopyStates, found: PiecePosterior
) -> Floats:
    """(C, S) whole states about the free level of every piece, so that their mean is that level."""
    out = np.zeros(found.main.shape)
    if not found.free.any():
        out[:] = states.probabilities
        return out
    weight = np.where(np.isnan(pieces.depth), 0.0, 1 / pieces.sd**2)
    depth = np.cumsum(np.append(0.0, weight * np.nan_to_num(pieces.depth)))
    mass = np.cumsum(np.append(0.0, weight))
    table = np.nan_to_num(pieces.table)
    for run in np.flatnonzero(found.runs > LEAST_RUN):
        first, stop = found.first[run], found.last[run] + 1
        if mass[stop] == mass[first]:
            continue
        level = (depth[stop] - depth[first]) / (mass[stop] - mass[first])
        minor = np.nan
        if data.has_alleles:
            minor = table[first:stop].sum(axis=0).argmax() / (2 * (table.shape[1] - 1))
        out[first:stop] += found.runs[run] * states.about(*_copies(level, minor, own))
    nothing = out.sum(axis=1) == 0
    out[nothing] = states.probabilities
    return out / out.sum(axis=1, keepdims=True)


def _copies(level: float, minor: float, own: TumourParameters) -> tuple[float, float]:
    """Copies per tumour cell of the major and the minor allele at a depth and a minor fraction; of all and 0 if that is
    NaN.
    """
    per_cell = 2 * level / own.scale
    total = max((per_cell - 2 * (1 - own.purity)) / own.purity, 0.0)
    if np.isnan(minor):
        return total, 0.0
    minor = 0.5 - (0.5 - minor) / (1 - own.foreign)
    low = min(max((minor * per_cell - (1 - own.purity)) / own.purity, 0.0), total / 2)
    return total - low, low


class Coordinates:
    """The parameters of all samples as one vector on the real line.

    spreads : of the shares of foreign reads; 0: not learned. blocks : the numbers of coordinates that depend on each
    other: one block per sample, and one for each share of outliers or free levels.
    """

    def __init__(self, start: Joint, bounds: Sequence[Bounds], spreads: Sequence[float] | None = None):
        kind = _SampleCoordinates if len(start) == 1 else _SharedCoordinates
        given = zip(start, bounds, spreads or [0.0] * len(start), strict=True)
        self._each = [kind(own, bound, spread, not i) for i, (own, bound, spread) in enumerate(given)]
        self.begin = np.concatenate([one.begin for one in self._each])
        self.steps = np.concatenate([one.steps for one in self._each])
        ends = np.cumsum([len(one.begin) for one in self._each])
        self.slices = [slice(stop - len(one.begin), stop) for one, stop in zip(self._each, ends, strict=True)]
        self.blocks = np.zeros(len(self.begin), int)
        for number, (one, part) in enumerate(zip(self._each, self.slices, strict=True)):
            self.blocks[part] = number
            self.blocks[part][one.odd] = len(start) + np.arange(part.start, part.stop)[one.odd]

    def parameters(self, free: Floats) -> Joint:
        return tuple(one.parameters(free[part]) for one, part in zip(self._each, self.slices, strict=True))

    def log_prior(self, free: Floats) -> float:
        return sum(one.log_prior(free[part]) for one, part in zip(self._each, self.slices, strict=True))


class _SampleCoordinates:
    """Parameters as a vector on the real line: log scale, log slack, purity (unless it is fixed), foreign reads (if
    they are learned) in units of their spread, logit of the share of outliers, of the first sample also of free levels,
    shares of subclones.
    """

    def __init__(self, start: TumourParameters, bounds: Bounds, spread: float = 0.0, first: bool = True):
        self.start, self.bounds, self.spread = start, bounds, spread
        self.fixed = bounds.purity[0] == bounds.purity[1]
        purity = [] if self.fixed else [_to_line(start.purity, *bounds.purity)]
        foreign = [start.foreign / spread] if spread else []
        odd = [start.outliers, start.free] if first and start.free else [start.outliers]
        shares = self._shares_to_line(start.fractions)
        n = 2 + len(purity)
        self.foreign, self.odd = slice(n, n + len(foreign)), slice(n + len(foreign), n + len(foreign) + len(odd))
        self.begin = np.array(
            [
                *(np.log(start.scale), np.log(start.slack), *purity, *foreign),
                *(*(float(logit(max(x, 1e-4))) for x in odd), *shares),
            ]
        )
        self.steps = np.array(
            [
                *(0.002, 0.05, *([0.02] * len(purity)), *([0.2] * len(foreign))),
                *(*([0.2] * len(odd)), *([0.05] * len(shares))),
            ]
        )

    def parameters(self, free: Floats) -> TumourParameters:
        purity = self.bounds.purity[0] if self.fixed else float(_between(free[PURITY], *self.bounds.purity))
        scale, slack = (float(np.exp(x)) for x in np.clip(free[:2], -50, 50))
        outliers, *more = (float(expit(x)) for x in free[self.odd])
        return replace(
            self.start,
            purity=purity,
            scale=scale,
            slack=slack,
            fractions=self._shares(free[self.odd.stop :]),
            free=more[0] if more else self.start.free,
            outliers=outliers,
            foreign=float(sum(free[self.foreign])) * self.spread if self.spread else self.start.foreign,
        )

    def log_prior(self, free: Floats) -> float:
        """Log density on the line: purity Beta(2, 2) (samples are rarely pure, or without tumour), log scale uniform,
        log slack, foreign reads and logits of odd shares normal, shares of subclones as `_log_prior_of_shares` says.
        """
        total = 0.0 if self.fixed else 2 * _log_uniform(free[PURITY]) + np.log(6)
        total += _log_normal(free[1], np.log(SLACK), SLACK_SPREAD) - np.log(SCALE_RANGE)
        for x in free[self.foreign]:
            total += _log_normal(x, 0.0, 1.0)
        for x in free[self.odd]:
            total += _log_normal(x, float(logit(TYPICAL_SHARE)), SHARE_SPREAD)
        return float(total + self._log_prior_of_shares(free[self.odd.stop :]))

    def _shares_to_line(self, shares: Sequence[float]) -> list[float]:
        return [_to_line(share, LEAST_SHARE, LARGEST_SHARE) for share in shares]

    def _shares(self, free: Floats) -> tuple[float, ...]:
        return tuple(float(_between(x, LEAST_SHARE, LARGEST_SHARE)) for x in free)

    def _log_prior_of_shares(self, free: Floats) -> float:
        """Beta(1, 3). A share of one half would leave no main clone, and look like a doubled genome: the density falls
        to 0 there.
        """
        return float(sum(_log_uniform(x) + np.log(3) + 2 * log_expit(-x) for x in free))


class _SharedCoordinates(_SampleCoordinates):
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
    data: TumourData, number: int, pieces: Sequence[CopyColumns], own: Joint, most: int, probabilities: Floats
) -> tuple[float, list[CopyColumns]]:
    """The slack of minor allele fractions of one sample with the highest evidence, and the pieces with it."""
    every = [
        (slack, [*pieces[:number], data.pieces_with(slack), *pieces[number + 1 :]]) for slack in data.fraction_slacks
    ]
    return max(every, key=lambda one: log_evidence(one[1], own, most, probabilities))


def _segment_counts(found: PiecePosterior, starts: Integers) -> Floats:
    """(S,) segments of the main clone in each state, on its most probable states; those with a free level left out."""
    n_states = found.main.shape[1]
    path = np.where(found.free > 0.5, n_states, found.main.argmax(axis=1))
    new = np.ones(len(path), bool)
    new[1:] = path[1:] != path[:-1]
    new[starts] = True
    return np.bincount(path[new], minlength=n_states + 1)[:n_states].astype(float)


def climb(
    height: Callable[[Floats], float],
    begin: Floats,
    steps: Floats,
    most_steps: int = STEPS,
    blocks: Integers | None = None,
    whole: bool = False,
) -> tuple[Floats, float, Floats]:
    """Newton's method: the maximum, its height, and the inverse of the negative Hessian there, all by differences.

    blocks : mixed derivatives are computed between coordinates of the same number only; default: all. whole : at the
    maximum, all are.
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
    # No coordinate is known worse than to a standard deviation of 10.
    values = np.maximum(np.abs(values), 1e-2)
    return x, top, np.asarray((vectors / values) @ vectors.T)


def _differences(
    height: Callable[[Floats], float], x: Floats, top: float, steps: Floats, blocks: Integers | None
) -> tuple[Floats, Floats]:
    """Gradient and Hessian by central differences; without mixed derivatives between blocks."""
    n = len(x)
    gradient, hessian = np.empty(n), np.zeros((n, n))
    up, down = np.empty(n), np.empty(n)
    for i in range(n):
        shift = np.zeros(n)
        shift[i] = steps[i]
        up[i], down[i] = height(x + shift), height(x - shift)
        gradient[i] = (up[i] - down[i]) / (2 * steps[i])
        hessian[i, i] = (up[i] - 2 * top + down[i]) / steps[i] ** 2
    for i in range(n):
        for j in range(i):
            if blocks is not None and blocks[j] != blocks[i]:
                continue
            shift = np.zeros(n)
            shift[[i, j]] = steps[[i, j]]
            both = height(x + shift)
            mixed = (both - up[i] - up[j] + top) / (steps[i] * steps[j])
            hessian[i, j] = hessian[j, i] = mixed
    return gradient, hessian


def _log_normal(x: float, mean: float, sd: float) -> float:
    return float(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)))


def _log_uniform(x: float) -> float:
    """Log density of x whose logistic function is uniform."""
    return float(-np.logaddexp(0, x) - np.logaddexp(0, -x))


def _between(x: Floats | float, low: float, high: float) -> Floats:
    return np.asarray(low + (high - low) * expit(x))


def _to_line(value: float, low: float, high: float) -> float:
    share = np.clip((value - low) / (high - low), 0.005, 0.995)
    return float(np.log(share / (1 - share)))
