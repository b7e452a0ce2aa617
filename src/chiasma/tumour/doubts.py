"""Checks of an answer: data or prior between solutions, misfit of a solution, too few or identical clones.

The log mass of a solution is the sum of two parts. Its fit is the log-likelihood of the data at the most probable copy
numbers. Its plausibility is the rest: the prior of copy numbers, changes, clones and doublings, and the width of the
posterior. If two solutions fit about equally well, the prior can give nearly all of the probability to one of them.

Families are solutions that differ only by doubling. Every copy number of a genome can be doubled without a change of
any level, of depth or of alleles, if the purity changes, too. Only segments with an odd copy number tell the two apart.
If there are few, the prior decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy import stats

from chiasma.results.findings import Finding, Severity, Use
from chiasma.tumour.bins import Bins
from chiasma.tumour.landscape import MOST_CLONES
from chiasma.tumour.pieces import TumourData
from chiasma.tumour.pileups import NO_NORMAL
from chiasma.tumour.polish import Explanation
from chiasma.tumour.segments import clone_names, clone_states, expected_depth
from chiasma.tumour.solutions import MOST_TEMPERED, Answer
from chiasma.tumour.tracks import RAW_COUNTS

# Lead in fit or plausibility, in nats, above which it decides between two solutions.
CLEAR = 3.0
# A piece of the genome is unexplained if the error of its mean exceeds both limits.
FAR_SE, FAR_SHARE = 4.0, 0.04
MUCH_UNEXPLAINED = 0.05
MUCH_ABOVE = 0.005
MUCH_CORRELATED = 0.1
MUCH_WAVES = 0.05
OUTLIER = 4.0
# Up to this divisor of the log odds, printed probabilities hardly change.
HARDLY_TEMPERED = 1.05
# If k unexplained segments are Poisson, (k + 1) / (mean + 1) exceeds 2 by chance in less than 10% of samples, whatever
# their mean.
MUCH_TEMPERED = 2.0
# Tolerances for equal levels, relative to the mean depth: depth of the normal cells, depth of two more copies.
SAME_NORMAL, SAME_STEP = 0.04, 0.1
MOST_SEGMENTS = 4
# What to try.
MORE_COPIES = Use("max_copies", "...", "--max-copies N")
KNOWN = (Use("purity", "...", "--purity LOW-HIGH"), Use("ploidy", "...", "--ploidy LOW-HIGH"))


@dataclass(frozen=True)
class Decision:
    """By how much the first solution leads another one, after tempering: their log odds are the sum of both leads."""

    fit: float
    plausibility: float

    @classmethod
    def between(cls, first: Mapping[str, Any], other: Mapping[str, Any], tempered: float = 1.0) -> Decision:
        """Of solutions as `solution_entries` gives them."""
        fit = (first["log_likelihood"] - other["log_likelihood"]) / tempered
        return cls(float(fit), float(first["log_mass"] - other["log_mass"] - fit))

    @property
    def by(self) -> str:
        """ "data", "prior", or "neither": the two solutions are nearly as probable."""
        if self.fit > CLEAR:
            return "data"
        return "prior" if self.plausibility > CLEAR else "neither"


def better_fits(entries: Sequence[Mapping[str, Any]], tempered: float = 1.0) -> list[Finding]:
    """Warn if the prior, not the data, prefers solution 1; of several such rivals, name the one that fits best."""
    behind = [(Decision.between(entries[0], other, tempered), other["rank"]) for other in entries[1:]]
    by_prior = [(lead, rank) for lead, rank in behind if lead.by == "prior" and (rank == 2 or lead.fit < -CLEAR)]
    if not by_prior:
        return []
    lead, rank = min(by_prior, key=lambda one: one[0].fit)
    facts = {"rank": rank, "fit": lead.fit, "plausibility": lead.plausibility}
    return [Finding("prior-decides", "limited", facts, KNOWN)]


def first_decision(entries: Sequence[Mapping[str, Any]], tempered: float = 1.0) -> Decision | None:
    """Between the first two solutions; None if there is only one."""
    return Decision.between(entries[0], entries[1], tempered) if len(entries) > 1 else None


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """above : share of bins above the highest level with a state. outliers : share of bins far from their level, less
    the share expected from noise. unexplained : share of the genome in pieces whose mean differs from its level by more
    than noise and waves explain. autocorrelation : of neighbouring residuals. waves : learned relative error of levels
    along the genome (the slack).
    """

    above: float
    outliers: float
    unexplained: float
    autocorrelation: float
    waves: float

    def findings(self, rank: int = 1) -> list[Finding]:
        """Of the solution of this rank."""
        found = []
        if self.above > MUCH_ABOVE:
            found.append(Finding("amplified", "note", {"share": self.above}, (MORE_COPIES,)))
        if self.unexplained > MUCH_UNEXPLAINED:
            found.append(Finding("between-levels", "limited", {"share": self.unexplained, "rank": rank}))
        if self.outliers > MUCH_UNEXPLAINED:
            found.append(Finding("far-bins", "limited", {"share": self.outliers}))
        if self.waves > MUCH_WAVES:
            found.append(Finding("waves", "limited", {"share": self.waves}))
        elif abs(self.autocorrelation) > MUCH_CORRELATED:
            found.append(Finding("correlated-bins", "limited", {"r": self.autocorrelation}))
        return found


def misfit(data: TumourData, explanation: Explanation) -> Misfit:
    noise, own = data.reference, explanation.parameters
    mean = expected_depth(explanation)
    depth, weight = data.bins.depth, data.bins.weight
    seen = ~np.isnan(depth)
    spread = np.maximum(mean / noise.unit, 0.05) ** noise.growth
    z = (depth - mean) / (noise.sd * spread / np.sqrt(weight))
    top = own.scale * (2 * (1 - own.purity) + own.purity * (explanation.states.totals[-2] + 0.5)) / 2
    amplified = explanation.main[:, -1] > 0.5
    usual = 2 * stats.t.sf(OUTLIER, noise.df)
    outliers = float(np.mean(np.abs(z[seen & ~amplified]) > OUTLIER) - usual) if (seen & ~amplified).any() else 0.0
    return Misfit(
        above=float(np.mean(depth[seen] > top)),
        outliers=max(outliers, 0.0),
        unexplained=max(_unexplained(data, mean, amplified, own.slack), explanation.unexplained(data)),
        autocorrelation=_autocorrelation(data, z, seen),
        waves=own.slack,
    )


def _unexplained(data: TumourData, mean: np.ndarray, amplified: np.ndarray, slack: float) -> float:
    noise, bins = data.reference, data.bins
    off = np.where(np.isnan(data.bins.depth) | amplified, 0.0, noise.level - mean)
    cuts = np.unique(np.concatenate([noise.cuts, np.flatnonzero(np.diff(np.round(mean / noise.unit, 2))) + 1]))
    size = np.diff(cuts, append=bins.n_bins)
    average = np.add.reduceat(off, cuts) / size
    waves = slack * np.add.reduceat(mean, cuts) / size
    error = np.hypot(noise.sd * np.sqrt(noise.inflation / np.add.reduceat(data.bins.weight, cuts)), waves)
    far = (np.abs(average) > FAR_SE * error) & (np.abs(average) > FAR_SHARE * noise.unit)
    length = np.add.reduceat((bins.end - bins.start).astype(float), cuts)
    return float(length[far].sum() / length.sum())


def _autocorrelation(data: TumourData, z: np.ndarray, seen: np.ndarray) -> float:
    both = seen[1:] & seen[:-1]
    both[data.bins.starts[1:] - 1] = False
    if both.sum() < 10:
        return 0.0
    left, right = np.clip(z[:-1][both], -OUTLIER, OUTLIER), np.clip(z[1:][both], -OUTLIER, OUTLIER)
    return float(np.corrcoef(left, right)[0, 1])


def tempered(answer: Answer) -> list[Finding]:
    """Log evidence was divided, because more segments are unexplained than the model expects."""
    if answer.tempered <= HARDLY_TEMPERED:
        return []
    if answer.tempered >= MOST_TEMPERED:
        return [Finding("odds-too-extreme", "none", {"factor": answer.tempered})]
    severity: Severity = "limited" if answer.tempered > MUCH_TEMPERED else "note"
    return [Finding("odds-tempered", severity, {"factor": answer.tempered})]


def uncorrected(bins: Bins) -> Finding:
    """Depth that lacks a correction (`Bins.lacking`)."""
    if bins.lacking == RAW_COUNTS:
        return Finding("raw-counts", "limited", {}, (Use("gc", "...", "--gc FILE"),))
    if bins.lacking == NO_NORMAL:
        return Finding("sites-alone", "limited", {}, (Use("alleles", "...", "BINS --alleles FILE"),))
    return Finding("no-reference", "limited", {}, (Use("normal", "...", "--normal FILE"),))


def too_few_clones(answer: Answer) -> list[Finding]:
    """The first solution has as many clones as were allowed: with one more, another purity and ploidy may win."""
    most = answer.bounds.clones[1]
    best = answer.solutions[0].best
    if not 1 < best.parameters.n_clones == most < MOST_CLONES or _alike(best):
        return []
    return [Finding("most-clones", "limited", {"clones": most}, (_up_to(most + 1),))]


def equal_clones(explanation: Explanation) -> list[Finding]:
    """Identical clones, which the search keeps if the user does not allow fewer."""
    n = explanation.parameters.n_clones
    names = clone_names(n)
    return [
        Finding("equal-clones", "limited", {"first": names[i], "second": names[j]}, (_up_to(n - 1),))
        for i, j in _alike(explanation)
    ]


def _up_to(clones: int) -> Use:
    return Use("clones", f"(1, {clones})", "--clones 1" if clones == 1 else f"--clones 1-{clones}")


def _alike(explanation: Explanation) -> list[tuple[int, int]]:
    """Clones whose most probable copy numbers equal those of an earlier clone everywhere."""
    paths = [explanation.main.argmax(axis=1), *(change.argmax(axis=1) for change in explanation.changes)]
    every = [clone_states(explanation, main, changes) for main, *changes in np.unique(paths, axis=1).T.tolist()]
    by_clone = list(zip(*every, strict=True))
    return [(by_clone.index(own), j) for j, own in enumerate(by_clone) if by_clone.index(own) < j]


# ---- Solutions that differ only by doubling --------------------------------------------------------------------------


@dataclass(frozen=True)
class Deciding:
    """A segment and the log-likelihood, after tempering, by which the first of two solutions fits it better."""

    chromosome: str
    start: int
    end: int
    fit: float

    @property
    def place(self) -> str:
        return f"{self.chromosome}:{self.start / 1e6:.0f}-{self.end / 1e6:.0f}Mb"


@dataclass(frozen=True)
class Relative:
    """A solution of the family of the first one, by its rank.

    factor : its copy numbers relative to those of solution 1: 2 or 1/2. lead : of solution 1. segments : those that
    decide most, for either.
    """

    rank: int
    factor: float
    lead: Decision
    segments: tuple[Deciding, ...]

    def entry(self) -> dict[str, Any]:
        """As names and numbers, ready for JSON."""
        return {
            "rank": self.rank,
            "factor": self.factor,
            "by": self.lead.by,
            "fit": self.lead.fit,
            "plausibility": self.lead.plausibility,
            "segments": [asdict(one) for one in self.segments],
        }

    def __str__(self) -> str:
        doubled = "doubled" if self.factor > 1 else "halved"
        told = f"Solution {self.rank} is solution 1 with every copy number {doubled}. {decided(self.lead, self.rank)}"
        places = ", ".join(f"{one.place} ({one.fit:+.1f})" for one in self.segments)
        return f"{told} Segments that decide most: {places}." if places else told


def decided(lead: Decision, rank: int) -> str:
    """What decides between solution 1 and another one, in a sentence.

    >>> decided(Decision(fit=0.4, plausibility=6.2), rank=2)
    'The data fit both (+0.4 nats); the prior favours solution 1 (+6.2).'
    """
    fit, prior = f"{lead.fit:+.1f} nats", f"{lead.plausibility:+.1f}"
    if lead.by == "data":
        return f"The data favour solution 1 ({fit}; prior {prior})."
    if lead.by == "neither":
        return f"Neither the data ({fit}) nor the prior ({prior}) tell solutions 1 and {rank} apart."
    if lead.fit < -CLEAR:
        return f"The data fit solution {rank} better ({fit}); the prior favours solution 1 ({prior})."
    return f"The data fit both ({fit}); the prior favours solution 1 ({prior})."


def family(answers: Sequence[Answer]) -> tuple[Relative, ...]:
    """The solutions that differ from the first one only by doubling, in every sample of a patient."""
    tempered = answers[0].tempered
    found = []
    for rank, *joint in zip(count(1), *(answer.solutions for answer in answers), strict=False):
        factors = {doubling(answer.solutions[0].best, own.best) for answer, own in zip(answers, joint, strict=True)}
        if rank > 1 and len(factors) == 1 and (factor := factors.pop()) is not None:
            # Likelihoods and log masses of an explanation are totals over all samples.
            first, other = answers[0].solutions[0].best, joint[0].best
            lead = Decision.between(vars(first), vars(other), tempered)
            found.append(Relative(rank, factor, lead, deciding(answers[0], first, other, tempered)))
    return tuple(found)


def doubling(one: Explanation, other: Explanation) -> float | None:
    """2 or 1/2 if the levels of `other` are those of `one` with every copy number doubled or halved; else None."""
    a, b = one.parameters, other.parameters
    if abs(a.scale * (1 - a.purity) - b.scale * (1 - b.purity)) > SAME_NORMAL * a.scale:
        return None
    ratio = a.purity * a.scale / (b.purity * b.scale)
    return next((factor for factor in (2.0, 0.5) if abs(ratio / factor - 1) < SAME_STEP), None)


def deciding(answer: Answer, one: Explanation, other: Explanation, tempered: float = 1.0) -> tuple[Deciding, ...]:
    """The segments that tell two explanations apart most: neighbouring pieces of one chromosome that favour one."""
    bins, cuts = answer.bins, answer.data.cuts
    difference = (one.fits - other.fits) / tempered
    new = np.ones(len(difference), bool)
    new[1:] = (np.sign(difference[1:]) != np.sign(difference[:-1])) | np.isin(cuts[1:], bins.starts)
    first = np.flatnonzero(new)
    total = np.add.reduceat(difference, first)
    stops = np.append(cuts[first[1:]], bins.n_bins)
    order = np.argsort(-np.abs(total))[:MOST_SEGMENTS]
    return tuple(
        Deciding(
            str(bins.chromosome[cuts[first[i]]]),
            int(bins.start[cuts[first[i]]]),
            int(bins.end[stops[i] - 1]),
            float(total[i]),
        )
        for i in order
    )
