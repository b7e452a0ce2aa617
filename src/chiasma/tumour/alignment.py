"""Samples of one patient on the same bins: bins that all samples have, segments cut at the ends of each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.io.columns import same_chromosome
from chiasma.io.sheets import listed
from chiasma.tumour.bins import Alleles, Bins
from chiasma.types import Floats, Integers

# Samples must have this share of their bins in common.
LEAST_COMMON = 0.5


def aligned(samples: Sequence[Bins]) -> list[Bins]:
    """The samples on the bins, or on the parts of segments, that all of them have, in the order of the first one.

    Examples
    --------
    >>> from chiasma.datasets.tumours import simulate_patient
    >>> from chiasma.tumour.bins import simulated_bins
    >>> one, other = (simulated_bins(t, name) for t, name in zip(simulate_patient(1, 2, 300), "ab", strict=True))
    >>> [bins.n_bins for bins in aligned([one, other.taken(np.arange(10, 300))])]
    [290, 290]
    """
    twice = [name for name, n in Counter(bins.sample for bins in samples).items() if n > 1]
    if twice:
        raise InvalidInput(
            f"several samples are called {twice[0]!r}; samples of one patient need names of their own: rename the "
            "files, or the sample in one of them"
        )
    first = samples[0]
    if all(_places(bins) == _places(first) for bins in samples):
        return list(samples)
    kinds = {bins.segments for bins in samples}
    if len(kinds) > 1:
        segmented = listed([bins.sample for bins in samples if bins.segments])
        raise InvalidInput(
            f"{segmented} has segments and the others have bins; give bins, or segments, of all samples of a patient"
        )
    return _cut_alike(samples) if first.segments else _in_common(samples)


def _places(bins: Bins) -> list[tuple[str, int, int]]:
    names = [same_chromosome(str(name)) for name in bins.chromosome]
    return list(zip(names, bins.start.tolist(), bins.end.tolist(), strict=True))


def _in_common(samples: Sequence[Bins]) -> list[Bins]:
    numbers = [{place: t for t, place in enumerate(_places(bins))} for bins in samples]
    common = [place for place in numbers[0] if all(place in other for other in numbers[1:])]
    if len(common) < LEAST_COMMON * max(bins.n_bins for bins in samples):
        width = [np.median(bins.end - bins.start) for bins in samples]
        sizes = ", ".join(f"{b.sample}: {b.n_bins:,} of {w:,.0f}" for b, w in zip(samples, width, strict=True))
        raise InvalidInput(
            f"the samples have {len(common):,} bins in common, and other bins otherwise ({sizes} bases); count the "
            "reads of all samples of a patient in the same bins"
        )
    note = "left out, as not all samples have them: {:,} bins"
    return [
        bins.taken(np.array([own[place] for place in common]), note.format(bins.n_bins - len(common)))
        for bins, own in zip(samples, numbers, strict=True)
    ]


def _cut_alike(samples: Sequence[Bins]) -> list[Bins]:
    """Segments cut wherever one of the samples has an end; what not all samples cover is left out."""
    starts: list[int] = []
    ends: list[int] = []
    pieces: list[list[int]] = [[] for _ in samples]
    for name in dict.fromkeys(same_chromosome(name) for name in samples[0].chromosomes):
        here = [np.flatnonzero([same_chromosome(str(other)) == name for other in bins.chromosome]) for bins in samples]
        edges = np.unique(
            np.concatenate([np.append(one.start[at], one.end[at]) for one, at in zip(samples, here, strict=True)])
        )
        for start, end in pairwise(edges):
            inside = [
                at[(one.start[at] <= start) & (one.end[at] >= end)] for one, at in zip(samples, here, strict=True)
            ]
            if all(len(found) for found in inside):
                starts.append(int(start))
                ends.append(int(end))
                for own, found in zip(pieces, inside, strict=True):
                    own.append(int(found[0]))
    if not starts:
        raise InvalidInput("the samples have no part of the genome in common; are all of one genome?")
    begin, stop = np.array(starts), np.array(ends)
    return [_cut(bins, np.array(own), begin, stop) for bins, own in zip(samples, pieces, strict=True)]


def _cut(bins: Bins, segment: Integers, start: Integers, end: Integers) -> Bins:
    """Parts of segments: each counts as much as its length says."""
    share = (end - start) / (bins.end - bins.start)[segment]
    note = f"segments are cut where another sample has an end: {bins.n_bins:,} become {len(segment):,}"
    return replace(
        bins,
        chromosome=bins.chromosome[segment],
        start=start,
        end=end,
        depth=bins.depth[segment],
        weight=bins.weight[segment] * share,
        alleles=None if bins.alleles is None else _cut_alleles(bins.alleles, segment, share),
        notes=(*bins.notes, note),
    )


def _cut_alleles(alleles: Alleles, segment: Integers, share: Floats) -> Alleles:
    """A segment's alleles in each of its parts."""
    units, parts = np.nonzero(alleles.bin[:, None] == segment)
    order = np.argsort(parts, kind="stable")
    units, parts = units[order], parts[order]
    part = alleles.ordered(units, parts)
    own = share[parts]
    return replace(
        part,
        a=None if part.a is None else part.a * own,
        b=None if part.b is None else part.b * own,
        sites=np.maximum(part.sites * own, 1.0),
    )
