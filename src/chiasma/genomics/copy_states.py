"""Copy-number states of a clone, and how probable each is before the data are seen.

A state is (major, minor), major >= minor, or a total where alleles are not seen; the last one is amplified: more copies
than `most`. The prior is parsimonious. Of a genome that was not doubled a state has weight RARER^d, d the copies by
which it differs from (1, 1); homozygous loss is rarer still. A doubled genome has such a state, twice; afterwards every
allele may have changed by one copy.

A subclone differs from the main clone by a change (major, minor), nearly everywhere (0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chiasma.types import Floats

RARER = 0.3
NO_COPY = 0.02
AMPLIFIED = 0.02
# After a doubling copies are lost more often than gained: doubled tumours have about three copies on average.
LATE_LOSS, LATE_GAIN = 0.25, 0.1
MOST_COPIES = 6
# A doubled genome has room for so many copies more.
DOUBLED_MORE = 4
UNCHANGED = 0.97
RARE_CHANGE = 0.3

CHANGES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1))
TOTAL_CHANGES = (0, 1, -1, 2, -2)


@dataclass(frozen=True)
class CopyStates:
    """The states of one clone.

    most : the largest total with a state of its own.
    alleles : whether states tell alleles apart.
    doubled : whether the genome was doubled.
    """

    most: int = MOST_COPIES
    alleles: bool = True
    doubled: bool = False

    @property
    def _largest(self) -> int:
        return self.most + (DOUBLED_MORE if self.doubled else 0)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """(major, minor) of all states but the amplified one; minor is 0 where alleles are not told apart."""
        totals = range(self._largest + 1)
        if not self.alleles:
            return [(n, 0) for n in totals]
        return [(n - minor, minor) for n in totals for minor in range(n // 2, -1, -1)]

    @property
    def n_states(self) -> int:
        return len(self.pairs) + 1

    @cached_property
    def values(self) -> Floats:
        """(S, 3): copies of the major and the minor allele, and 1 if amplified. An amplified state counts as the
        least number of copies that it stands for, balanced as (n - 1, 1).
        """
        least = self._largest + 1
        amplified = (least - 1, 1, 1) if self.alleles else (least, 0, 1)
        return np.array([*((*pair, 0) for pair in self.pairs), amplified], float)

    @property
    def totals(self) -> Floats:
        """(S,)"""
        return self.values[:, 0] + self.values[:, 1]

    @property
    def normal(self) -> tuple[int, int]:
        return (1, 1) if self.alleles else (2, 0)

    @cached_property
    def probabilities(self) -> Floats:
        """(S,) of a new segment."""
        prior = _doubled(self._largest) if self.doubled else _single(self._largest)
        if self.alleles:
            weights = np.array([prior[max(pair), min(pair)] for pair in self.pairs])
        else:
            totals = np.add.outer(np.arange(len(prior)), np.arange(len(prior)))
            weights = np.array([prior[totals == n].sum() for n, _ in self.pairs])
        weights = weights / weights.sum()
        return np.append(weights * (1 - AMPLIFIED), AMPLIFIED)

    @cached_property
    def texts(self) -> list[str]:
        """Names of the states: "2+1", or "CN3" of totals, which no program takes for numbers; ">6" where amplified."""
        own = [f"{major}+{minor}" if self.alleles else f"CN{major}" for major, minor in self.pairs]
        return [*own, f">{self._largest}"]

    @property
    def changes(self) -> Floats:
        """(C, 3): by how much a subclone may differ."""
        given = CHANGES if self.alleles else [(n, 0) for n in TOTAL_CHANGES]
        return np.array([(*change, 0) for change in given], float)

    @property
    def change_probabilities(self) -> Floats:
        """(C,)"""
        size = np.abs(self.changes).sum(axis=1)
        weights = np.where(size == 0, 0.0, np.where(size == 1, 1.0, RARE_CHANGE))
        weights *= (1 - UNCHANGED) / weights.sum()
        weights[size == 0] = UNCHANGED
        return weights


def _single(most: int) -> Floats:
    """(n, n) weights by major and minor copies, zero where major < minor."""
    copies = np.arange(most + 1)
    weights = RARER ** np.add.outer(np.abs(copies - 1.0), np.abs(copies - 1.0))
    weights[0, 0] *= NO_COPY
    return np.tril(weights)


def _doubled(most: int) -> Floats:
    """The same of a genome that was doubled once."""
    early = _single(most)
    moved = np.zeros_like(early)
    late = {0: 1 - LATE_LOSS - LATE_GAIN, 1: LATE_GAIN, -1: LATE_LOSS}
    for major in range(most + 1):
        for minor in range(major + 1):
            for up, chance_up in late.items():
                for more, chance_more in late.items():
                    pair = (2 * major + up, 2 * minor + more)
                    # A lost allele does not come back, and cannot be lost again.
                    lost = (major == 0 and up != 0) or (minor == 0 and more != 0)
                    if not lost and min(pair) >= 0 and max(pair) <= most:
                        moved[max(pair), min(pair)] += early[major, minor] * chance_up * chance_more
    return moved
