"""Rival explanations: segments whose state is not certain, and the states that may explain them.

A region is judged by its sites with data only: where nothing was measured there is nothing to explain. States that
differ only by exchanging equal rows are one explanation. Different states may have the same level: then the data cannot
tell them apart, and their probabilities come from the Markov chains alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from chiasma.kernels.layout import n_bits, unpack_codes
from chiasma.results.configurations import pieces, state_name
from chiasma.results.expected import draws_apart, noise_of_codes, signal_at_draw, signal_of_codes
from chiasma.results.posterior import Posterior
from chiasma.results.segments import TABLE_SIZE, Segment
from chiasma.types import Floats, Integers

# A segment counts as certain if its most probable state has at least this mean probability.
CERTAIN = 0.95
# Explanations that are kept of a region, and the least probability of one that is worth telling.
N_RIVALS = 5
SERIOUS = 0.05
# Signals that differ by less than this share of the largest one are the same.
SAME_LEVEL = 1e-9


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A state of a region.

    states : of every row, equal rows in descending order.
    probability : mean over the sites with data.
    level : the signal that it is expected to give, in the units of the data, at the parameters of the draws that have
        it there; None without levels or with channels.
    arrangements : how many states it represents, if some rows are equal.
    """

    code: int
    states: tuple[int, ...]
    probability: float
    level: float | None
    arrangements: int

    @property
    def name(self) -> str:
        return state_name(self.states)


@dataclass(frozen=True, kw_only=True)
class Region:
    """A segment with the states that may explain it, the most probable first.

    level_probability : that the signal equals the most probable state's, whichever state gives it; None without
    levels. noise : how far a value is from the signal of the most probable state, as a standard deviation; None where
    it is not known, or the segment is certain.
    """

    segment: Segment
    explanations: tuple[Rival, ...]
    level_probability: float | None
    noise: float | None = None

    @property
    def serious(self) -> tuple[Rival, ...]:
        """The explanations that are not negligible."""
        return tuple(one for one in self.explanations if one.probability >= SERIOUS)

    @property
    def same_level(self) -> bool:
        """Whether the data cannot tell the serious explanations apart."""
        found = [one.level for one in self.serious]
        return len(found) > 1 and all(level is not None and _same(level, found[0]) for level in found)

    @property
    def rival(self) -> Rival | None:
        return self.explanations[1] if len(self.explanations) > 1 else None

    @property
    def apart(self) -> float | None:
        """How far the signals of the first two explanations are from each other, in units of the noise; None where
        that is not known.
        """
        first, second = self.explanations[0].level, None if self.rival is None else self.rival.level
        if first is None or second is None:
            return None
        if _same(first, second):
            return 0.0
        return abs(first - second) / self.noise if self.noise else None


def explain(posterior: Posterior, segments: Iterable[Segment]) -> list[Region]:
    """Every segment with its explanations, in the given order."""
    asked = list(segments)
    shares = _shares(posterior, asked)
    known = sorted({code for share in shares for code in share})
    signals = signal_of_codes(posterior, known) if known else None
    levels = None if signals is None or signals.shape[1] > 1 else dict(zip(known, signals[:, 0].tolist(), strict=True))
    noise = {} if levels is None else _noise(posterior, asked)
    regions = [_region(posterior, one, share, levels, noise) for one, share in zip(asked, shares, strict=True)]
    return regions if levels is None or not posterior.parameters else _with_own_signals(posterior, regions)


def _with_own_signals(posterior: Posterior, regions: list[Region]) -> list[Region]:
    """The regions with the mean signals of their explanations over the sites of some draws that have them.

    Where parameters have several modes, a state may belong to one of them: its signal at the mean of all would be that
    of no draw.
    """
    known = np.array(sorted({one.code for region in regions for one in region.explanations}))
    owner, judged = _owners(posterior, [region.segment for region in regions])
    # A pair of a region and a code is one number; only those of explanations are counted.
    asked = [
        i * len(known) + np.searchsorted(known, one.code) for i, at in enumerate(regions) for one in at.explanations
    ]
    pairs = np.sort(asked)
    sums, counts = np.zeros((2, len(pairs)))
    every = draws_apart(posterior)
    for chain, first, part in pieces(posterior.codes):
        for draw in range(first + -first % every, first + len(part), every):
            codes = posterior.merging(part[draw - first][None])[0, judged]
            place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
            seen = (owner * len(known) + place)[known[place] == codes]
            index = np.minimum(np.searchsorted(pairs, seen), len(pairs) - 1)
            here = np.bincount(index[pairs[index] == seen], minlength=len(pairs))
            counts += here
            sums += here * signal_at_draw(posterior, known, chain, draw)[pairs % len(known)]
    with np.errstate(invalid="ignore"):
        means = sums / counts
    signals = iter(means[np.searchsorted(pairs, asked)].tolist())
    found = []
    for region in regions:
        own = [(one, next(signals)) for one in region.explanations]
        # A code that none of these draws has keeps its signal at the mean parameters.
        told = tuple(one if level != level else replace(one, level=level) for one, level in own)
        found.append(replace(region, explanations=told))
    return found


def _owners(posterior: Posterior, segments: list[Segment]) -> tuple[Integers, Integers]:
    """For sites by which segments are judged: the number of the segment, and the site. These are the sites with data of
    a segment, or all of them where none has any.
    """
    seen = posterior.seen
    owner = np.full(len(seen), -1)
    for i, one in enumerate(segments):
        here = seen[one.start : one.stop] if one.n_data else slice(None)
        owner[one.start : one.stop][here] = i
    judged = np.flatnonzero(owner >= 0)
    return owner[judged], judged


def _noise(posterior: Posterior, segments: list[Segment]) -> dict[int, float]:
    """The noise at the most probable code of every segment that is not certain."""
    codes = sorted({one.code for one in segments if one.probability < CERTAIN})
    found = noise_of_codes(posterior, codes) if codes else None
    return {} if found is None else dict(zip(codes, found[:, 0].tolist(), strict=True))


def uncertain(regions: Iterable[Region]) -> list[Region]:
    """The regions with data that are not certain; first those with most sites that are expected to be wrong."""
    found = [one for one in regions if one.segment.n_data and one.segment.probability < CERTAIN]
    return sorted(found, key=lambda region: -region.segment.doubt)


def _shares(posterior: Posterior, segments: list[Segment]) -> list[Counter[int]]:
    """How often every code was drawn at the sites with data of each segment, or at all sites where none has any."""
    shares: list[Counter[int]] = [Counter() for _ in segments]
    merging, width = posterior.merging, n_bits(posterior.layout)
    owner, judged = _owners(posterior, segments)
    small = len(segments) << width <= TABLE_SIZE
    table = np.zeros(len(segments) << width if small else 0, np.int64)
    for _, _, part in pieces(posterior.codes):
        merged = merging(part)[:, judged]
        if small:
            table += np.bincount((merged.astype(np.int64) + (owner << width)).ravel(), minlength=len(table))
            continue
        known, index = np.unique(merged, return_inverse=True)
        pairs, counts = np.unique(index.reshape(merged.shape) + owner * len(known), return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            shares[pair // len(known)][int(known[pair % len(known)])] += count
    for pair in np.flatnonzero(table).tolist():
        shares[pair >> width][pair & ((1 << width) - 1)] = int(table[pair])
    return shares


def _region(
    posterior: Posterior,
    segment: Segment,
    share: Counter[int],
    levels: dict[int, float] | None,
    noise: dict[int, float],
) -> Region:
    total = sum(share.values())
    ranked = sorted(share.items(), key=lambda item: (-item[1], item[0]))
    kept = [code for code, _ in ranked[:N_RIVALS]]
    states = unpack_codes(np.array(kept), posterior.layout).T.tolist()
    found = tuple(
        Rival(
            code=code,
            states=tuple(own),
            probability=share[code] / total,
            level=None if levels is None else levels[code],
            arrangements=posterior.merging.arrangements(code),
        )
        for code, own in zip(kept, states, strict=True)
    )
    best = None if levels is None else levels[segment.code]
    level_probability = (
        None
        if levels is None or best is None
        else sum(count for code, count in share.items() if _same(levels[code], best)) / total
    )
    return Region(
        segment=segment, explanations=found, level_probability=level_probability, noise=noise.get(segment.code)
    )


def _same(one: float, other: float | None) -> bool:
    return other is not None and abs(one - other) <= SAME_LEVEL * max(abs(one), abs(other), 1e-300)


def data_means(posterior: Posterior, segments: Iterable[Segment], channel: int = 0) -> Floats:
    """(n,) the mean of the data of each segment; NaN without data."""
    assert posterior.data is not None
    y = posterior.data.y.reshape(posterior.data.n_columns, -1)[:, channel]
    parts = [y[one.start : one.stop] for one in segments]
    return np.array([part[~np.isnan(part)].mean() if not np.isnan(part).all() else np.nan for part in parts])
