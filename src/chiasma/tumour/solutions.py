"""Ranked solutions: polished explanations with their posterior probabilities.

The posterior of an explanation is its exact evidence times a prior, integrated over its basin by Laplace's method: a
normal about the maximum. Which copy-number states are common differs from tumour to tumour, so their probabilities are
learned, too (`chiasma.tumour.state_prior`). Explanations that agree in purity and ploidy are one solution, whatever
they say about clones and doubling; their probabilities add up.

Samples of one patient (`chiasma.tumour.patient`) are explained together: a joint explanation is a tuple with an
`Explanation` of every sample, in which the copy numbers are the same. A single sample is a tuple of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from chiasma.exact import inference as exact
from chiasma.sampling.pools import Pool
from chiasma.tumour.bins import Bins
from chiasma.tumour.copy_states import MOST_COPIES, CopyStates
from chiasma.tumour.landscape import Bounds, Landscape, candidates, near, surveys
from chiasma.tumour.model import (
    Columns,
    CopyNumber,
    Evidence,
    Parameters,
    Samples,
    log_evidence,
    model_of,
    observations_of,
    shared_states,
)
from chiasma.tumour.pieces import FRACTION_SLACKS, TumourData
from chiasma.tumour.state_prior import learned, log_average
from chiasma.types import Floats

# Doubled genomes are about a third of tumours.
DOUBLED = 0.3
# Slack of the level of a piece: a typical one, and the standard deviation of its logarithm.
SLACK, SLACK_SPREAD = 0.01, 1.0
LEAST_SHARE, LARGEST_SHARE = 0.03, 0.5
# Log-range of the depth scale, for its uniform prior.
SCALE_RANGE = 2.0
# Explanations to polish: the best, if they are not much less probable than the best of all, and at least a few.
N_POLISHED, FEWEST_POLISHED, FAR_BELOW = 8, 4, 40.0
N_ALIASED = 3
STEPS, ROUGH_STEPS = 8, 2
TURNS = 3
# Depth grows like copies to one of these powers: of arrays about 0.55.
RESPONSES = (1.0, 0.75, 0.55)
PEAK_STEP, MOST_MOVES = 1.3, 6
CONVERGED = 0.02
# Solutions this near are one.
NEAR_PURITY, NEAR_PLOIDY = 0.05, 0.15
# What is less probable is not listed, unless there are fewer than LISTED solutions.
LEAST_PROBABILITY = 1e-6
LISTED = 6
# Log evidence by which the best explanation must beat a genome without any change.
SIGNAL = 6.0


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


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Explanations with about the same purity and ploidy, the most probable first, and their probability together."""

    explanations: tuple[Explanation, ...]
    shares: Floats
    probability: float

    @property
    def best(self) -> Explanation:
        return self.explanations[0]

    @property
    def purity(self) -> float:
        return self.best.parameters.purity

    @property
    def ploidy(self) -> float:
        return self.best.ploidy

    @property
    def doubled(self) -> float:
        """Probability that the genome was doubled, given this solution."""
        return float(sum(w for w, one in zip(self.shares, self.explanations, strict=True) if one.parameters.doubled))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Everything about one sample. flat: no copy-number signal, so that the purity cannot be known.

    together : names of the samples of the patient that were explained together; none if the sample was solved alone.
    """

    data: TumourData
    bounds: Bounds
    most: int
    solutions: tuple[Solution, ...]
    flat: bool
    null_log_evidence: float
    together: tuple[str, ...] = ()

    @cached_property
    def landscapes(self) -> dict[bool, Landscape]:
        """Log evidence of one clone, not doubled and doubled, with the slacks of the best solution."""
        best = self.solutions[0].best
        pieces = self.data.pieces_with(best.fraction_slack)
        return surveys(pieces, self.most, self.bounds, slack=best.parameters.slack, power=1.0)

    @property
    def bins(self) -> Bins:
        return self.data.bins

    def purity_draws(self, n: int, seed: int = 0) -> Floats:
        """Draws of the purity, solutions and explanations in proportion to their probabilities."""
        rng = np.random.default_rng(seed)
        weights = np.concatenate([solution.probability * solution.shares for solution in self.solutions])
        every = [one for solution in self.solutions for one in solution.explanations]
        counts = rng.multinomial(n, weights / weights.sum())
        return np.concatenate([one.purities(k, self.bounds, rng) for one, k in zip(every, counts, strict=True) if k])


# Of samples that share their clones, an entry for each of them.
Joint = tuple[Parameters, ...]
Explained = tuple[Explanation, ...]


def solve(
    bins: Bins,
    bounds: Bounds | None = None,
    most: int = MOST_COPIES,
    workers: int = 2,
    note: Callable[[str], None] = lambda text: None,
) -> Answer:
    """All plausible explanations of a sample, ranked.

    bins : of chromosomes with two copies in normal cells, see `Bins.with_two_copies`.
    most : the largest number of copies with a state of its own.
    note : told what is being done.
    """
    bounds = bounds or Bounds()
    data = TumourData.of(bins)
    note(noise_in_words(data))
    note(f"searching purity x ploidy on {len(data.cuts):,} pieces of the genome")
    data, maps = surveyed(data, most, bounds, workers)
    if data.bins.notes != bins.notes:
        note(data.bins.notes[-1])
    explanations: list[Explained] = []
    numbers = range(bounds.clones[0], bounds.clones[1] + 1)
    with Pool(workers) as pool:
        rough = {}
        for n_clones in numbers:
            note(f"searching explanations with {clones_in_words(n_clones)}")
            found = candidates(data.pieces, maps, most, bounds, n_clones, workers)
            rough[n_clones] = rough_explanations(data, most, bounds, found, pool)
        data = with_measured_alleles(data, most, [one for own in rough.values() for one in own])
        if data.alleles is not None:
            note(f"measured again: alleles {data.alleles.noise}")
        for n_clones in numbers:
            note(f"polishing explanations with {clones_in_words(n_clones)}")
            polished = pool.map(partial(polish, (data,), most, (bounds,)), chosen(rough[n_clones]))
            explanations += kept_explanations(polished, (bounds,), n_clones)
    return answers_of((data,), (bounds,), most, explanations)[0]


def surveyed(data: TumourData, most: int, bounds: Bounds, workers: int) -> tuple[TumourData, dict[bool, Landscape]]:
    """The sample with the response of depth to copies that explains it best, and its landscapes.

    Reads count copies. Arrays, which have allele fractions without counts, respond less than that.
    """
    from_reads = data.alleles is None or data.alleles.counts
    found = []
    for response in RESPONSES[:1] if from_reads else RESPONSES:
        other = data.with_response(response)
        maps = surveys(other.pieces, most, bounds, workers)
        # The density of a power of the depth is not that of the depth.
        depth = data.pieces.depth[data.pieces.depth > 0]
        log_slope = float(np.sum((1 / response - 1) * np.log(depth) - np.log(response)))
        found.append((max(one.log_evidence.max() for one in maps.values()) + log_slope, other, maps))
    _, data, maps = max(found, key=lambda one: one[0])
    return data, maps


def rough_explanations(
    data: TumourData, most: int, bounds: Bounds, found: Sequence[Parameters], pool: Pool
) -> list[tuple[float, Joint]]:
    """Candidates of one sample and their aliases after a few steps, with their heights."""
    begun = list(pool.map(partial(rough_climb, (data,), most, (bounds,)), [(own,) for own in found]))
    more = _aliases([(height, own) for height, (own,) in begun], data, bounds)
    return begun + list(pool.map(partial(rough_climb, (data,), most, (bounds,)), [(own,) for own in more]))


def with_measured_alleles(data: TumourData, most: int, rough: Sequence[tuple[float, Joint]]) -> TumourData:
    """The data with the noise of alleles that is most probable under the best explanation.

    Without one it cannot be known well: where fractions are near one half, noise is hard to tell from a small loss.
    """
    if data.alleles is None or not rough:
        return data
    _, own = max(rough, key=lambda one: one[0])

    def score(level: float) -> float:
        other = data.with_allele_noise(level)
        return max(log_evidence((other.pieces_with(slack),), own, most) for slack in FRACTION_SLACKS)

    return data.with_allele_noise(_peak(score, data.alleles.level))


def _peak(score: Callable[[float], float], at: float) -> float:
    """Where a function of a positive number is highest near `at`: the vertex of a parabola over its logarithm."""
    known = {at: score(at)}
    for _ in range(MOST_MOVES):
        around = [at / PEAK_STEP, at, at * PEAK_STEP]
        low, middle, high = (known[x] if x in known else known.setdefault(x, score(x)) for x in around)
        if middle >= max(low, high):
            bend = low - 2 * middle + high
            return at * PEAK_STEP ** (0.5 * (low - high) / bend) if bend < 0 else at
        at = around[0] if low > high else around[2]
    return at


def kept_explanations(found: Iterable[Explained], bounds: Sequence[Bounds], n_clones: int) -> list[Explained]:
    """Those with ploidies within their bounds. A subclone that differs nowhere is none: fewer clones say the same."""
    return [
        joint
        for joint in found
        if all(own.ploidy[0] <= one.ploidy <= own.ploidy[1] for one, own in zip(joint, bounds, strict=True))
        and (n_clones == bounds[0].clones[0] or joint[0].subclones_differ)
    ]


def answers_of(
    samples: Sequence[TumourData], bounds: Sequence[Bounds], most: int, explanations: Sequence[Explained]
) -> tuple[Answer, ...]:
    """The answers of samples that were explained together, one each, with the same ranks and probabilities."""
    null = sum(_without_changes(data) for data in samples)
    best = max((joint[0].log_evidence for joint in explanations), default=-np.inf)
    ranked = rank(explanations) or tuple(() for _ in samples)
    together = tuple(data.bins.sample for data in samples) if len(samples) > 1 else ()
    return tuple(
        Answer(
            data=data,
            bounds=own,
            most=most,
            solutions=solutions,
            flat=bool(best < null + SIGNAL),
            null_log_evidence=null,
            together=together,
        )
        for data, own, solutions in zip(samples, bounds, ranked, strict=True)
    )


def chosen(rough: Sequence[tuple[float, Joint]]) -> list[Joint]:
    """The best, those that are not far below, and at least two of each kind, doubled or not."""
    ranked = sorted(rough, key=lambda one: -one[0])
    best = ranked[0][0] if ranked else 0.0
    found = distinct_joint([own for _, own in ranked])
    near_best = distinct_joint([own for height, own in ranked if height > best - FAR_BELOW])[:N_POLISHED]
    kept = near_best if len(near_best) >= FEWEST_POLISHED else found[:FEWEST_POLISHED]
    for doubled in (False, True):
        kept += [own for own in found if own[0].doubled is doubled][:2]
    return list(dict.fromkeys(kept))


def distinct_joint(ranked: Iterable[Joint]) -> list[Joint]:
    """Without explanations that are near a better one in every sample."""
    kept: list[Joint] = []
    for own in ranked:
        if not any(all(map(near, own, other)) for other in kept):
            kept.append(own)
    return kept


def _aliases(rough: list[tuple[float, Parameters]], data: TumourData, bounds: Bounds) -> list[Parameters]:
    """Explanations with the same levels of depth as the best ones: every copy number doubled or halved, or, where there
    are no alleles, shifted by one. Depth alone cannot tell them apart.
    """
    found: list[Parameters] = []
    taken = [own for _, own in rough]
    for _, own in sorted(rough, key=lambda one: -one[0])[:N_ALIASED]:
        step = own.purity * own.scale
        shifts = [] if data.has_alleles else [(step, -step / 2), (step, step / 2)]
        for other_step, more in ((step / 2, -step / 2), (step * 2, step), *shifts):
            scale = own.scale + more
            purity = other_step / scale if scale > 0 else 2.0
            if not bounds.purity[0] <= purity <= bounds.purity[1]:
                continue
            for doubled in (False, True):
                alias = replace(own, purity=float(purity), scale=float(scale), doubled=doubled)
                if not any(near(alias, other) for other in (*taken, *found)):
                    found.append(alias)
    return found


def clones_in_words(n: int) -> str:
    return "one clone" if n == 1 else f"{n} clones"


def noise_in_words(data: TumourData) -> str:
    noise = data.reference
    sd = noise.sd / np.sqrt(np.median(data.bins.weight)) / noise.unit
    told = f"noise {sd:.1%} of the mean depth, {len(noise.cuts) - len(data.bins.starts):,} changes"
    if noise.inflation > 1.05:
        told += f"; neighbouring bins err together: {noise.inflation:.1f} of them count as one"
    if data.alleles is not None:
        told += f"; alleles {data.alleles.noise}"
    return told


# ---- Polishing -------------------------------------------------------------------------------------------------------


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


# ---- Ranking ---------------------------------------------------------------------------------------------------------


def rank(explanations: Sequence[Explained]) -> tuple[tuple[Solution, ...], ...]:
    """For every sample its solutions with their posterior probabilities, the most probable first. Samples that were
    explained together have the same ranks and probabilities.
    """
    ordered = _unique(sorted(explanations, key=lambda joint: -joint[0].log_mass))
    total = logsumexp([joint[0].log_mass for joint in ordered]) if ordered else 0.0
    groups: list[list[Explained]] = []
    for joint in ordered:
        near = next((group for group in groups if all(map(_agree, joint, group[0]))), None)
        if near is None:
            groups.append([joint])
        else:
            near.append(joint)
    ranked: list[tuple[float, tuple[Solution, ...]]] = []
    for group in groups:
        masses = np.array([joint[0].log_mass for joint in group])
        mass = logsumexp(masses)
        probability = float(np.exp(mass - total))
        shares = np.exp(masses - mass)
        each = zip(*group, strict=True)
        ranked.append(
            (probability, tuple(Solution(explanations=own, shares=shares, probability=probability) for own in each))
        )
    ranked.sort(key=lambda one: -one[0])
    listed = [own for i, (probability, own) in enumerate(ranked) if i < LISTED or probability >= LEAST_PROBABILITY]
    return tuple(zip(*listed, strict=True))


def _unique(ordered: list[Explained]) -> list[Explained]:
    """Without those that climbed to the same maximum as a better one: it would count twice."""
    kept: list[Explained] = []
    for joint in ordered:
        if not any(all(map(_same, joint, other)) for other in kept):
            kept.append(joint)
    return kept


def _same(one: Explanation, other: Explanation) -> bool:
    """Whether an explanation is at the maximum of another one."""
    return (
        other.parameters.doubled == one.parameters.doubled
        and other.parameters.n_clones == one.parameters.n_clones
        and bool(np.all(np.abs(other.free - one.free) < 0.5 * np.sqrt(np.diag(other.covariance)) + 1e-3))
    )


def _agree(one: Explanation, other: Explanation) -> bool:
    near = abs(one.parameters.purity - other.parameters.purity) < NEAR_PURITY
    return near and abs(one.ploidy - other.ploidy) < NEAR_PLOIDY


def _without_changes(data: TumourData) -> float:
    """The best log-likelihood of a genome with two copies everywhere, on the pieces."""
    best = -np.inf
    normal = np.array([[*data.pieces.states(False, 2).normal, 0.0]])
    for fraction_slack in FRACTION_SLACKS if data.has_alleles else (0.0,):
        pieces = data.pieces_with(fraction_slack)
        for slack in SLACK * np.exp(np.linspace(-2, 2, 9)):
            prior = -0.5 * (np.log(slack / SLACK) / SLACK_SPREAD) ** 2
            for scale in pieces.noise.unit * np.exp(np.linspace(-0.04, 0.04, 17)):
                emission = CopyNumber(float(scale), float(slack), pieces.noise, np.zeros(2))
                best = max(best, prior + float(emission.log_likelihood(pieces.observations.y, normal).sum()))
    return best
