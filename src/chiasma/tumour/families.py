"""Families: solutions that differ only by doubling, and what decides between two solutions.

Every copy number of a genome can be doubled without a change of any level, of depth or of alleles, if the purity
changes, too. Only segments with an odd copy number tell the two apart. Where there are few, the prior decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import numpy as np

from chiasma.tumour.doubts import CLEAR, Decision
from chiasma.tumour.polish import Explanation
from chiasma.tumour.solutions import Answer

# Relative to the mean depth: by how much the depth of the normal cells, and that of two copies more, may differ.
SAME_NORMAL, SAME_STEP = 0.04, 0.1
MOST_SEGMENTS = 4


@dataclass(frozen=True)
class Deciding:
    """A segment and the log-likelihood by which the first of two solutions fits it better."""

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
            "fit": float(self.lead.fit),
            "plausibility": float(self.lead.plausibility),
            "segments": [asdict(one) for one in self.segments],
        }

    def __str__(self) -> str:
        doubled = "doubled" if self.factor > 1 else "halved"
        told = f"Solution {self.rank} is solution 1 with every copy number {doubled}. {decided(self.lead, self.rank)}"
        places = ", ".join(f"{one.place} ({one.fit:+.1f})" for one in self.segments)
        return f"{told} Segments that decide most: {places}." if places else told


def decided(lead: Decision, rank: int) -> str:
    """What decides between solution 1 and another one, in a sentence; leads are those that probabilities follow from.

    >>> decided(Decision(fit=0.4, plausibility=6.2), rank=2)
    'The data fit both (+0.4 nats); the prior favours solution 1 (+6.2).'
    """
    fit, prior = f"{lead.fit / lead.tempered:+.1f} nats", f"{lead.plausibility / lead.tempered:+.1f}"
    if lead.by == "data":
        return f"The data favour solution 1 ({fit}; prior {prior})."
    if lead.by == "neither":
        return f"Neither the data ({fit}) nor the prior ({prior}) tell solutions 1 and {rank} apart."
    if lead.fit < -CLEAR * lead.tempered:
        return f"The data fit solution {rank} better ({fit}); the prior favours solution 1 ({prior})."
    return f"The data fit both ({fit}); the prior favours solution 1 ({prior})."


def family(answers: Sequence[Answer]) -> tuple[Relative, ...]:
    """The solutions that differ from the first one only by doubling, in every sample of a patient."""
    tempered = answers[0].tempered
    found = []
    for rank, *joint in zip(count(1), *(answer.solutions for answer in answers), strict=False):
        factors = {doubling(answer.solutions[0].best, own.best) for answer, own in zip(answers, joint, strict=True)}
        if rank > 1 and len(factors) == 1 and (factor := factors.pop()) is not None:
            # Likelihoods and log masses of an explanation are those of all samples.
            first, other = answers[0].solutions[0].best, joint[0].best
            fit = first.log_likelihood - other.log_likelihood
            lead = Decision(fit, first.log_mass - other.log_mass - fit, tempered)
            found.append(Relative(rank, factor, lead, deciding(answers[0], first, other)))
    return tuple(found)


def doubling(one: Explanation, other: Explanation) -> float | None:
    """2 or 1/2 if the levels of `other` are those of `one` with every copy number doubled or halved; else None."""
    a, b = one.parameters, other.parameters
    if abs(a.scale * (1 - a.purity) - b.scale * (1 - b.purity)) > SAME_NORMAL * a.scale:
        return None
    ratio = a.purity * a.scale / (b.purity * b.scale)
    return next((factor for factor in (2.0, 0.5) if abs(ratio / factor - 1) < SAME_STEP), None)


def deciding(answer: Answer, one: Explanation, other: Explanation) -> tuple[Deciding, ...]:
    """The segments that tell two explanations apart most: neighbouring pieces of one chromosome that favour one."""
    bins, cuts = answer.bins, answer.data.cuts
    difference = one.fits - other.fits
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
