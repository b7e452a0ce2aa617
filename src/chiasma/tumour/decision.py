"""What decides between two solutions: the data, or what is usual of tumours.

The log mass of a solution is its fit, the log-likelihood of the data at its most probable copy numbers, and its
plausibility, the rest: which copy numbers are usual, how many changes, clones and doublings it takes, how well its
numbers are known. A solution can have nearly all of the probability by its plausibility alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What one solution must lead by, in fit or in plausibility, to be told apart from the other by it.
CLEAR = 3.0


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


def of_better_fits(entries: Sequence[Mapping[str, Any]]) -> list[str]:
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
