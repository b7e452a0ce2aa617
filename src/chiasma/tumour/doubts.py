"""Doubts about an answer: what decides between solutions, what a solution does not explain, how many clones it has.

What decides between two solutions: the data, or what is usual of tumours.

The log mass of a solution is its fit, the log-likelihood of the data at its most probable copy numbers, and its
plausibility, the rest: which copy numbers are usual, how many changes, clones and doublings it takes, how well its
numbers are known. A solution can have nearly all of the probability by its plausibility alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from chiasma.tumour.landscape import MOST_CLONES
from chiasma.tumour.pieces import TumourData
from chiasma.tumour.polish import Explanation
from chiasma.tumour.segments import clone_names, clone_states, expected_depth
from chiasma.tumour.solutions import Answer

# What one solution must lead by, in fit or in plausibility, to be told apart from the other by it.
CLEAR = 3.0
# A piece of the genome is unexplained if its mean is off by more than both.
FAR_SE, FAR_SHARE = 4.0, 0.04
MUCH_UNEXPLAINED = 0.05
MUCH_ABOVE = 0.005
MUCH_CORRELATED = 0.1
MUCH_WAVES = 0.05
OUTLIER = 4.0


@dataclass(frozen=True)
class Decision:
    """By how much the first solution leads another one."""

    fit: float
    plausibility: float

    @classmethod
    def between(cls, first: Mapping[str, Any], other: Mapping[str, Any]) -> Decision:
        """Of solutions as `solution_entries` gives them."""
        fit = first["log_likelihood"] - other["log_likelihood"]
        return cls(fit, first["log_mass"] - other["log_mass"] - fit)

    @property
    def by(self) -> str:
        """ "data", "prior", or "neither": the two solutions are nearly as probable."""
        if self.fit > CLEAR:
            return "data"
        return "prior" if self.plausibility > CLEAR else "neither"

    def in_words(self) -> str:
        """A sentence on the first two solutions, without its capital and its full stop."""
        fit, usual = f"{self.fit:+.1f} in log-likelihood", f"{self.plausibility:+.1f}"
        if self.by == "data":
            also = "and it is more plausible, too" if self.plausibility > 0 else "though it is less plausible"
            return f"the data fit solution 1 better than solution 2 ({fit}), {also} ({usual})"
        if self.by == "neither":
            return f"neither the data ({fit}) nor what is usual of tumours ({usual}) tell solutions 1 and 2 apart"
        found = "hardly tell solutions 1 and 2 apart" if abs(self.fit) <= CLEAR else "even fit solution 2 better"
        return (
            f"the data {found} ({fit}): what is usual of tumours decides for solution 1 ({usual}), so look at both, or "
            "give what you know by --purity or --ploidy"
        )


def better_fits(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning of the solution after the second that fits best, if it fits clearly better than the first.

    `Decision.in_words` tells of the second.
    """
    behind = [(Decision.between(entries[0], other), other["rank"]) for other in entries[2:]]
    lead, rank = min(behind, key=lambda one: one[0].fit, default=(Decision(0.0, 0.0), 0))
    if lead.fit >= -CLEAR:
        return []
    return [
        f"the data fit solution {rank} better than solution 1 ({-lead.fit:+.1f} in log-likelihood): what is usual of "
        f"tumours decides for solution 1 ({lead.plausibility:+.1f}), so look at both"
    ]


def first_decision(entries: Sequence[Mapping[str, Any]]) -> Decision | None:
    """Between the first two solutions; None if there is only one."""
    return Decision.between(*entries[:2]) if len(entries) > 1 else None


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """above : share of bins above the highest level with a state. outliers : share of bins far from their level, less
    what the noise lets expect. unexplained : share of the genome in pieces whose mean is off, by more than noise and
    waves explain. autocorrelation : of neighbouring residuals. waves : by how much levels err along the genome,
    relative to themselves: the slack that was learned.
    """

    above: float
    outliers: float
    unexplained: float
    autocorrelation: float
    waves: float

    def in_words(self) -> list[str]:
        told = []
        if self.above > MUCH_ABOVE:
            told.append(
                f"{self.above:.1%} of bins lie above the highest level; raise --max-copies if their copies matter"
            )
        if self.unexplained > MUCH_UNEXPLAINED:
            told.append(
                f"{self.unexplained:.0%} of the genome lies between the levels of this solution: subclones that it "
                "does not have, or another purity or ploidy"
            )
        if self.outliers > MUCH_UNEXPLAINED:
            told.append(f"{self.outliers:.0%} of bins are farther from their level than the noise explains")
        if self.waves > MUCH_WAVES:
            told.append(
                f"depth wavers by {self.waves:.0%} of its level along the genome (GC content, capture, replication): "
                "correct it, or compare with a normal sample, if you can"
            )
        if abs(self.autocorrelation) > MUCH_CORRELATED:
            told.append(
                f"neighbouring residuals are correlated ({self.autocorrelation:.2f}): waves in the depth, or missed "
                "segments"
            )
        return told


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
        unexplained=_unexplained(data, mean, amplified, own.slack),
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


def too_few_clones(answer: Answer) -> list[str]:
    """The first solution has as many clones as were allowed: with one more, another purity and ploidy may win."""
    most = answer.bounds.clones[1]
    best = answer.solutions[0].best
    if not 1 < best.parameters.n_clones == most < MOST_CLONES or _alike(best):
        return []
    return [
        f"probabilities hold for at most {most} clones, as many as solution 1 has: try --clones 1-{most + 1}, with "
        "which another purity and ploidy may be more probable"
    ]


def equal_clones(explanation: Explanation) -> list[str]:
    """Clones with the same copy numbers everywhere, which the search keeps where it may not have fewer."""
    names = clone_names(explanation.parameters.n_clones)
    return [
        f"{names[j]} does not differ from {names[i]} anywhere: how cells split between the two means nothing, and the "
        "data need one clone fewer; lower --clones"
        for i, j in _alike(explanation)
    ]


def _alike(explanation: Explanation) -> list[tuple[int, int]]:
    """Every clone that has the most probable copy numbers of an earlier one throughout, after the first such one."""
    paths = [explanation.main.argmax(axis=1), *(change.argmax(axis=1) for change in explanation.changes)]
    every = [clone_states(explanation, main, changes) for main, *changes in np.unique(paths, axis=1).T.tolist()]
    by_clone = list(zip(*every, strict=True))
    return [(by_clone.index(own), j) for j, own in enumerate(by_clone) if by_clone.index(own) < j]
