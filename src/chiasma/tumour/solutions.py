"""A patient: samples that were solved together, and their ranked solutions.

Explanations that agree in purity and ploidy are one solution, even if clones and doubling differ; their
probabilities add up. Samples of one patient share the copy numbers of their clones, so their solutions have the same
ranks and probabilities; purities, ploidies and fractions of clones differ. A patient often has one sample only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import logsumexp

from chiasma.errors import InvalidInput
from chiasma.sampling.threads import Pool
from chiasma.tumour.bins import Bins, aligned
from chiasma.tumour.copy_states import MOST_COPIES
from chiasma.tumour.landscape import FREE, MOST_CLONES, OUTLIERS, Bounds, Landscape, surveys
from chiasma.tumour.model import evidence_map
from chiasma.tumour.pieces import TumourData
from chiasma.tumour.polish import SLACK, SLACK_SPREAD, Explained, Explanation, polish
from chiasma.tumour.search import (
    MANY_CLONES,
    Response,
    Search,
    halved_and_doubled,
    prepared,
    with_measured_alleles,
    without_mirror_images,
)
from chiasma.types import Floats

# Solutions this near are one.
NEAR_PURITY, NEAR_PLOIDY = 0.05, 0.15
# Less probable solutions are listed only if there are fewer than LISTED in total.
LEAST_PROBABILITY = 1e-6
LISTED = 6
# Log mass, after tempering, by which an explanation with a clone more must be better.
CLEARLY = 3.0
# Log masses are divided by the overdispersion of the best explanation, but not by more than this.
MOST_TEMPERED = 10.0
# Log evidence by which the best explanation must beat a genome without any change.
SIGNAL = 6.0
# Numbers of clones for several samples, which can resolve more clones than one.
CLONES = (1, MOST_CLONES)


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Explanations with about the same purity and ploidy, and their probability together. The first is the most
    probable one, or one with fewer clones that is nearly as probable.
    """

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

    tempered : divisor of the log evidence, above 1 if more segments are unexplained than the model expects.
    together : names of the samples of the patient that were explained together; none if the sample was solved alone.
    """

    data: TumourData
    bounds: Bounds
    most: int
    solutions: tuple[Solution, ...]
    flat: bool
    null_log_evidence: float
    tempered: float = 1.0
    together: tuple[str, ...] = ()

    @cached_property
    def landscapes(self) -> dict[bool, Landscape]:
        """Log evidence of one clone, not doubled and doubled, with the noise of the best solution."""
        best = self.solutions[0].best
        pieces = self.data.pieces_with(best.fraction_slack)
        own = best.parameters
        return surveys(pieces, self.most, self.bounds, slack=own.slack, power=1.0, foreign=own.foreign)

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


@dataclass(frozen=True, kw_only=True)
class Patient:
    """The answers of samples that were solved together. The first solution of every answer belongs to one joint
    explanation, and so on: solutions have the same ranks, probabilities and copy numbers in all of them.

    Examples
    --------
    >>> from chiasma.tumour import read_bins, solve
    >>> patient = solve([bins.with_two_copies() for bins in read_bins("two.bb")])  # doctest: +SKIP
    >>> [answer.solutions[0].purity for answer in patient.answers]  # doctest: +SKIP
    [0.93, 0.75]
    """

    answers: tuple[Answer, ...]

    @property
    def samples(self) -> list[str]:
        return [answer.bins.sample for answer in self.answers]

    @property
    def n_solutions(self) -> int:
        return len(self.answers[0].solutions)

    @property
    def flat(self) -> bool:
        """Whether no sample has a copy-number signal."""
        return self.answers[0].flat


def solve(
    samples: Sequence[Bins],
    bounds: Bounds | Sequence[Bounds] | None = None,
    most: int = MOST_COPIES,
    workers: int = 2,
    note: Callable[[str], None] = lambda text: None,
    response: Response = None,
) -> Patient:
    """All plausible explanations of the samples of one patient, ranked.

    Parameters
    ----------
    samples : one or more, of chromosomes with two copies in normal cells, see `Bins.with_two_copies`. Several samples
        need the same bins; bins that not all of them have are left out.
    bounds : for all samples, or for each. The numbers of clones are those of the first. Default: one or two clones, of
        several samples up to three.
    most : the largest number of copies with a separate state.
    workers : threads.
    note : called with each step of the search, in words.
    response : of depth to copies: "linear", as that of sequencing, or "array". Default: decided by the data.

    Returns
    -------
    Patient, with an `Answer` for every sample.

    Examples
    --------
    >>> import chiasma as ch
    >>> from chiasma.datasets.tumours import simulate_patient
    >>> from chiasma.tumour.bins import simulated_bins
    >>> truth = simulate_patient(4, 2, n_bins=200, purities=[0.8, 0.5], doubled=False, clones=1, noise=0.03)
    >>> bins = [simulated_bins(one, name) for one, name in zip(truth, ["primary", "metastasis"], strict=True)]
    >>> known = ch.tumour.Bounds(purity=(0.4, 0.9), ploidy=(1.5, 2.6), clones=(1, 1))
    >>> patient = ch.tumour.solve(bins, known, workers=1)
    >>> [round(answer.solutions[0].purity, 1) for answer in patient.answers]
    [0.8, 0.5]
    """
    if not samples:
        raise InvalidInput("a patient needs at least one sample, got none")
    bounds = bounds or Bounds(clones=usual_clones(len(samples)))
    each = [bounds] * len(samples) if isinstance(bounds, Bounds) else list(bounds)
    if len(each) != len(samples):
        raise InvalidInput(f"bounds must be one for all, or one per sample ({len(samples)}), got {len(each)}")
    data = prepared(aligned(samples), most, each, workers, response)
    for own, given in zip(data, samples, strict=True):
        note(f"{own.bins.sample}: {noise_in_words(own)}")
        if own.bins.notes[: len(given.notes)] == given.notes:
            for text in own.bins.notes[len(given.notes) :]:
                note(f"{own.bins.sample}: {text}")
    numbers = range(each[0].clones[0], each[0].clones[1] + 1)
    explanations: list[Explained] = []
    with Pool(workers) as pool:
        search = Search(data, most, each, workers, pool)
        rough = {}
        for n_clones in search.first_numbers(numbers):
            note(f"searching explanations with {clones_in_words(n_clones)} on {len(data[0].cuts):,} pieces")
            rough[n_clones] = search.rough(n_clones)
        every = [one for own in rough.values() for one in own]
        data = [
            with_measured_alleles(own, most, [(height, (joint[i],)) for height, joint in every])
            for i, own in enumerate(data)
        ]
        for own in data:
            if own.alleles is not None:
                note(f"{own.bins.sample}: measured again: alleles {own.alleles.noise}")
        search.use(data)
        highest = {False: -np.inf, True: -np.inf}
        for n_clones in numbers:
            note(f"polishing explanations with {clones_in_words(n_clones)}")
            found = rough[n_clones] if n_clones in rough else search.rough(n_clones)
            polish_one = partial(polish, data, most, each)
            polished = list(pool.map(polish_one, search.chosen(found, n_clones)))
            if n_clones <= MANY_CLONES:
                polished += pool.map(polish_one, halved_and_doubled(polished, each))
            more = kept_explanations(polished, each, n_clones)
            explanations += more
            # Stop if one more clone improves neither doubled nor undoubled explanations. One sample alone is
            # quick: try all.
            best = {
                kind: max((one.log_mass for one, *_ in more if one.parameters.doubled is kind), default=-np.inf)
                for kind in highest
            }
            if len(samples) > 1 and all(best[kind] < highest[kind] for kind in highest):
                break
            highest = best
    return Patient(answers=answers_of(data, each, most, without_mirror_images(explanations)))


def usual_clones(n_samples: int) -> tuple[int, int]:
    """Default numbers of clones to search."""
    return CLONES if n_samples > 1 else Bounds().clones


def kept_explanations(found: Iterable[Explained], bounds: Sequence[Bounds], n_clones: int) -> list[Explained]:
    """Explanations with ploidies within bounds. Identical clones are not counted twice unless bounds require it."""
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
    tempered = temper_of(explanations)
    widened = [
        tuple(one.tempered(tempered, data.array) for one, data in zip(joint, samples, strict=True))
        for joint in explanations
    ]
    ranked = rank(widened) or tuple(() for _ in samples)
    together = tuple(data.bins.sample for data in samples) if len(samples) > 1 else ()
    return tuple(
        Answer(
            data=data,
            bounds=own,
            most=most,
            solutions=solutions,
            flat=bool(best < null + SIGNAL),
            null_log_evidence=null,
            tempered=tempered,
            together=together,
        )
        for data, own, solutions in zip(samples, bounds, ranked, strict=True)
    )


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


def temper_of(explanations: Sequence[Explained]) -> float:
    """Unexplained segments of the best explanation, relative to the number that the model expects; at least 1.

    The log evidence is a sum over segments. If the model is wrong about many of them, their contributions vary more
    than it expects, so the log evidence is divided by this overdispersion.
    """
    best = max(explanations, key=lambda joint: joint[0].log_mass, default=())
    return float(np.clip(max((one.overdispersion for one in best), default=1.0), 1.0, MOST_TEMPERED))


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
    for group in map(_simplest_first, groups):
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


def _simplest_first(group: list[Explained]) -> list[Explained]:
    """Explanations of one solution. The first is the most probable one, or the best of those with fewer clones if it is
    not clearly worse: a clone more always absorbs some misfit.
    """
    best = group[0]
    near = [joint for joint in group if best[0].log_mass - joint[0].log_mass < CLEARLY]
    simplest = min(near, key=lambda joint: (joint[0].parameters.n_clones, -joint[0].log_mass))
    if simplest[0].parameters.n_clones == best[0].parameters.n_clones:
        return group
    return [simplest, *(joint for joint in group if joint is not simplest)]


def _unique(ordered: list[Explained]) -> list[Explained]:
    """Without those that climbed to the same maximum as a better one: it would be counted twice."""
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
    """The best log evidence of a genome with two copies everywhere: only free levels and outliers explain the rest."""
    best = -np.inf
    states = data.pieces.states(False, 2)
    normal = np.zeros(states.n_states)
    normal[states.pairs.index(states.normal)] = 1.0
    purity = np.array([0.5])
    for fraction_slack in data.fraction_slacks:
        pieces = data.pieces_with(fraction_slack)
        scales = pieces.noise.unit * np.exp(np.linspace(-0.04, 0.04, 17))
        for slack in SLACK * np.exp(np.linspace(-2, 2, 9)):
            prior = -0.5 * (np.log(slack / SLACK) / SLACK_SPREAD) ** 2
            found = evidence_map(pieces, states, normal, (), purity, scales, float(slack), free=FREE, outliers=OUTLIERS)
            best = max(best, prior + float(found.max()))
    return best
