"""Segments of an explanation: runs of bins with one most probable state in every clone, with rivals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chiasma.tumour.pieces import TumourData
from chiasma.tumour.polish import Explanation
from chiasma.types import Floats, Integers

N_RIVALS = 4
LEAST_RIVAL = 0.01


@dataclass(frozen=True, kw_only=True)
class CloneState:
    """Copies of a clone on a segment; amplified: at least this many. lost: one allele is lost and the other is not."""

    text: str
    major: int
    minor: int
    amplified: bool = False
    lost: bool = False

    @property
    def total(self) -> int:
        return self.major + self.minor


@dataclass(frozen=True, kw_only=True)
class CopySegment:
    """Bins first..stop-1 of one chromosome, 0-based and half-open in bases.

    clones : the state of the main clone and of every subclone. probability : of the state of the main clone, mean over
    the bins. rivals : other states of the main clone with their mean probabilities. copies : mean copies per tumour
    cell. depth : weighted mean of the data, log2 of it relative to two copies. largest : the number of the clone with
    the largest share of the sample, and least_probability a lower bound of the probability of its state.
    """

    chromosome: str
    start: int
    end: int
    first: int
    stop: int
    clones: tuple[CloneState, ...]
    probability: float
    rivals: tuple[tuple[str, float], ...]
    copies: float
    depth: float
    log2: float
    minor_fraction: float
    largest: int
    least_probability: float

    @property
    def main(self) -> CloneState:
        return self.clones[0]

    @property
    def seen(self) -> CloneState:
        """The state of the clone with the largest share of the sample."""
        return self.clones[self.largest]


def segments(data: TumourData, explanation: Explanation) -> list[CopySegment]:
    """The segments of the whole genome."""
    main = explanation.main.argmax(axis=1)
    changes = [one.argmax(axis=1) for one in explanation.changes]
    cuts = _cuts(data, main, changes)
    found = []
    for first, stop in zip(cuts, [*cuts[1:], data.bins.n_bins], strict=True):
        found.append(
            _segment(data, explanation, int(first), int(stop), int(main[first]), [int(c[first]) for c in changes])
        )
    return found


def _cuts(data: TumourData, main: Integers, changes: list[Integers]) -> Integers:
    new = np.zeros(len(main), bool)
    new[data.bins.starts] = True
    for path in (main, *changes):
        new[1:] |= path[1:] != path[:-1]
    return np.flatnonzero(new)


def _segment(
    data: TumourData, explanation: Explanation, first: int, stop: int, state: int, changes: list[int]
) -> CopySegment:
    bins, states = data.bins, explanation.states
    share = explanation.main[first:stop].mean(axis=0)
    order = np.argsort(-share, kind="stable")
    rivals = [(states.texts[s], float(share[s])) for s in order if s != state and share[s] >= LEAST_RIVAL]
    largest = int(np.argmax(explanation.parameters.clone_fractions[1:]))
    # Both the main clone's state and the change must be right: P(both) >= P(one) + P(other) - 1.
    unsure = 0.0 if not largest else 1 - explanation.changes[largest - 1][first:stop, changes[largest - 1]].mean()
    weight = data.bins.weight[first:stop]
    depth = data.bins.depth[first:stop]
    seen = ~np.isnan(depth)
    mean = float(np.average(depth[seen], weights=weight[seen])) if seen.any() else np.nan
    with np.errstate(divide="ignore"):
        log2 = float(np.log2(mean / explanation.parameters.scale)) if mean > 0 else np.nan
    return CopySegment(
        chromosome=str(bins.chromosome[first]),
        start=int(bins.start[first]),
        end=int(bins.end[stop - 1]),
        first=first,
        stop=stop,
        clones=clone_states(explanation, state, changes),
        probability=float(share[state]),
        rivals=tuple(rivals[:N_RIVALS]),
        copies=float(explanation.copies[first:stop].mean()),
        depth=mean,
        log2=log2,
        minor_fraction=_minor_fraction(data, first, stop),
        largest=largest,
        least_probability=max(0.0, float(share[state] - unsure)),
    )


def clone_names(n_clones: int) -> list[str]:
    return ["main", *(f"subclone_{j}" for j in range(1, n_clones))]


def clone_states(explanation: Explanation, state: int, changes: list[int]) -> tuple[CloneState, ...]:
    """The states of all clones: of the main one by its number, of the others by the numbers of their changes."""
    states = explanation.states
    major, minor, amplified = (int(x) for x in states.values[state])
    lost = states.alleles and not amplified and minor == 0 < major
    clones = [CloneState(text=states.texts[state], major=major, minor=minor, amplified=bool(amplified), lost=lost)]
    for change in changes:
        up, more, _ = (int(x) for x in states.changes[change])
        if amplified or not (up or more):
            clones.append(clones[0])
            continue
        high, low = max(major + up, minor + more, 0), max(min(major + up, minor + more), 0)
        text = f"{high}+{low}" if states.alleles else f"CN{high}"
        clones.append(CloneState(text=text, major=high, minor=low, lost=states.alleles and low == 0 < high))
    return tuple(clones)


def _minor_fraction(data: TumourData, first: int, stop: int) -> float:
    """Median fraction of the smaller allele; NaN without alleles."""
    alleles = data.bins.alleles
    if alleles is None:
        return float("nan")
    a, b = np.searchsorted(alleles.bin, [first, stop])
    return float(np.median(alleles.fraction[a:b])) if b > a else float("nan")


def expected_depth(explanation: Explanation) -> Floats:
    """(T,) expected depth under the explanation."""
    purity = explanation.parameters.purity
    return np.asarray(explanation.parameters.scale * (2 * (1 - purity) + purity * explanation.copies) / 2)
