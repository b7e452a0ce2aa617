"""Bins: intervals of the genome in order, with the depth and the allele counts of one sample in them.

start, end (T,): 0-based, half-open, for every file format. Depth is linear, in arbitrary units, NaN if
missing. Alleles are units of evidence, each with its bin: a heterozygous site, or all sites of a bin together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from chiasma.datasets.tumours import Tumour
from chiasma.errors import InvalidInput
from chiasma.io.columns import same_chromosome
from chiasma.io.sheets import listed
from chiasma.types import Floats, Integers

# All other chromosomes have two copies in the normal cells of either sex, in any mammal.
SEX = ("x", "y")
OTHERS = ("m", "mt")
# Some programs number X, Y and the mitochondrion of man.
NUMBERED = {"23": "x", "24": "y", "25": "mt"}
# Samples must have this share of their bins in common.
LEAST_COMMON = 0.5


@dataclass(frozen=True, kw_only=True)
class Alleles:
    """Units of allele evidence (J,), ordered by bin.

    bin : the bin of a unit.
    a, b : reads of the two alleles. Which allele is the major one is unknown.
    baf : in place of counts, a B-allele fraction.
    sites : heterozygous sites of a unit.
    mirrored : the smaller one was put first in every unit, or every BAF is below 1/2.
    usual : share of b among the reads if both alleles have equal copy numbers; its deviation from 1/2 was corrected.
    columns, sites_column : of the file, for reads or fractions and for the number of sites.
    """

    bin: Integers
    a: Floats | None = None
    b: Floats | None = None
    baf: Floats | None = None
    sites: Floats
    mirrored: bool = False
    usual: float = 0.5
    columns: tuple[str, ...] = ()
    sites_column: str | None = None

    @property
    def n_units(self) -> int:
        return len(self.bin)

    @property
    def fraction(self) -> Floats:
        """(J,) of the smaller allele, 0..1/2."""
        if self.baf is not None:
            share = self.baf
        else:
            assert self.a is not None
            assert self.b is not None
            share = self.a / (self.a + self.b)
        return np.minimum(share, 1 - share)

    def in_words(self) -> str:
        """How the columns of the file were interpreted."""
        if self.baf is None:
            told = f"columns {' and '.join(map(repr, self.columns))} are taken as reads of the two alleles"
        else:
            told = f"column {self.columns[0]!r} is taken as the allele fraction"
            if self.sites_column is None:
                told += ", of one SNP in every line, as no column has their number"
        return told if self.sites_column is None else f"{told}, column {self.sites_column!r} as the number of SNPs"

    def ordered(self, units: Integers, bins: Integers) -> Alleles:
        """Some of the units, in another order, and the bins that they belong to now."""
        names = ("a", "b", "baf", "sites")
        part = {name: value[units] for name in names if (value := getattr(self, name)) is not None}
        return replace(self, bin=bins, **part)

    def taken(self, bins: Integers, n_bins: int) -> Alleles:
        """The units in some of the n_bins bins, which are numbered anew in the order given."""
        number = np.full(n_bins, -1)
        number[bins] = np.arange(len(bins))
        units = np.flatnonzero(number[self.bin] >= 0)
        units = units[np.argsort(number[self.bin[units]], kind="stable")]
        return self.ordered(units, number[self.bin[units]])


@dataclass(frozen=True, kw_only=True)
class Bins:
    """One sample as read from a file.

    sample : its name. kind : the recognised format. notes : guesses and conversions, one sentence each.
    depth (T,) : linear, NaN where missing. weight (T,) : precision of a bin relative to the others.
    segments : whether a bin is a segment that another program made.
    lengths : of the chromosomes, if the file states them.
    lacking : why the depth cannot be trusted as it is, and the remedy; "" if nothing is missing.
    """

    sample: str
    source: str
    kind: str
    chromosome: npt.NDArray[np.str_]
    start: Integers
    end: Integers
    depth: Floats
    weight: Floats
    alleles: Alleles | None = None
    segments: bool = False
    lengths: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lacking: str = ""

    @property
    def n_bins(self) -> int:
        return len(self.start)

    @property
    def starts(self) -> Integers:
        """The first bin of every chromosome."""
        new = np.ones(self.n_bins, bool)
        new[1:] = self.chromosome[1:] != self.chromosome[:-1]
        return np.flatnonzero(new)

    @property
    def chromosomes(self) -> list[str]:
        return [str(name) for name in self.chromosome[self.starts]]

    @property
    def middle(self) -> Floats:
        return (self.start + self.end) / 2

    def noted(self, *notes: str) -> Bins:
        return replace(self, notes=self.notes + notes)

    def chosen(self, keep: npt.NDArray[np.bool_], *notes: str) -> Bins:
        """The bins to keep, (T,)."""
        return self.taken(np.flatnonzero(keep), *notes)

    def taken(self, bins: Integers, *notes: str) -> Bins:
        """Some of the bins, in the order given."""
        part = {name: getattr(self, name)[bins] for name in ("chromosome", "start", "end", "depth", "weight")}
        alleles = None if self.alleles is None else self.alleles.taken(bins, self.n_bins)
        return replace(self, **part, alleles=alleles, notes=self.notes + notes)

    def with_two_copies(self, female: bool = False) -> Bins:
        """The chromosomes of which normal cells have two copies: autosomes, and X of a woman."""
        left_out = {"y", *OTHERS} if female else {*SEX, *OTHERS}
        names = [same_chromosome(name) for name in self.chromosomes]
        if not {"x", "y", "26"}.intersection(names):
            names = [NUMBERED.get(name, name) for name in names]
        keep = np.array([name not in left_out for name in names])
        if keep.all() or not keep.any():
            return self
        told = ", ".join(name for name, kept in zip(self.chromosomes, keep, strict=True) if not kept)
        sizes = np.diff(self.starts, append=self.n_bins)
        return self.chosen(np.repeat(keep, sizes), f"left out, as normal cells may not have two copies: {told}")

    def with_linear_response(self, response: float) -> Bins:
        """Depth and allele fractions of an array, made linear.

        Signals grow like copies^response, the sum of the two alleles as well as each of them. An array tells alleles
        apart by the angle of their signals: baf = 2 / pi * atan(b^response / a^response).
        """
        note = f"signals are taken to grow like copies^{response:g}, as those of arrays do, and made linear"
        alleles = self.alleles
        if alleles is not None and alleles.baf is not None:
            angle = np.pi / 2 * np.clip(alleles.baf, 0, 1)
            a, b = (np.maximum(side(angle), 0) ** (1 / response) for side in (np.cos, np.sin))
            alleles = replace(alleles, baf=b / (a + b))
        return replace(self, depth=self.depth ** (1 / response), alleles=alleles, notes=(*self.notes, note))

    def in_words(self) -> str:
        what = "segments" if self.segments else "bins"
        n_missing = int(np.isnan(self.depth).sum())
        n = len(self.starts)
        parts = [f"sample {self.sample}", f"{self.n_bins:,} {what}", f"{n} chromosome{'s' if n > 1 else ''}"]
        if n_missing:
            parts.append(f"{n_missing:,} without depth")
        if self.alleles is not None:
            parts.append(f"{int(self.alleles.sites.sum()):,} heterozygous sites")
        return f"{self.kind}: {', '.join(parts)}"


def attach_alleles(bins: Bins, sites: Bins) -> Bins:
    """Give the bins the allele counts of another file.

    Every site goes to the bin that contains it, or to the nearest bin of its chromosome.

    Parameters
    ----------
    bins : depths, from one file.
    sites : heterozygous sites, from another.

    Returns
    -------
    The bins with these alleles.

    Examples
    --------
    >>> import chiasma as ch
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     depths, counts = Path(folder, "depths.csv"), Path(folder, "counts.csv")
    ...     _ = depths.write_text("chromosome,start,end,log2\\n1,0,50000,0.1\\n1,50000,100000,-0.4\\n")
    ...     _ = counts.write_text("CONTIG,POSITION,REF_COUNT,ALT_COUNT\\n1,700,20,17\\n1,80000,9,21\\n")
    ...     bins, sites = (ch.tumour.read_bins(file)[0] for file in (depths, counts))
    >>> ch.tumour.attach_alleles(bins, sites).alleles.bin.tolist()
    [0, 1]
    """
    alleles = sites.alleles or _fractions(sites)
    if alleles is None:
        raise InvalidInput(f"{sites.source} ({sites.kind}) has no allele counts; give a file of heterozygous sites")
    middle = sites.middle[alleles.bin]
    where = _names(sites)[alleles.bin]
    bin_of = np.full(alleles.n_units, -1)
    for name, first, stop in zip(bins.chromosomes, bins.starts, [*bins.starts[1:], bins.n_bins], strict=True):
        here = where == same_chromosome(name)
        centres = bins.middle[first:stop]
        right = np.minimum(np.searchsorted(centres, middle[here]), stop - first - 1)
        left = np.maximum(right - 1, 0)
        nearer = np.abs(centres[right] - middle[here]) < np.abs(centres[left] - middle[here])
        bin_of[here] = first + np.where(nearer, right, left)
    known = bin_of >= 0
    if not known.any():
        raise InvalidInput(
            f"{sites.source} and {bins.source} have no chromosome in common ({listed(sites.chromosomes)} and "
            f"{listed(bins.chromosomes)}); are both of one genome?"
        )
    order = np.flatnonzero(known)[np.argsort(bin_of[known], kind="stable")]
    note = f"{len(order):,} of {alleles.n_units:,} heterozygous sites of {sites.source} ({sites.kind}) are used"
    return replace(bins, alleles=alleles.ordered(order, bin_of[order]), notes=(*bins.notes, note))


def _fractions(sites: Bins) -> Alleles | None:
    """Values of a file that has no allele counts, if they can be B-allele fractions, as arrays come with."""
    seen = np.flatnonzero(~np.isnan(sites.depth))
    baf = sites.depth[seen]
    if sites.segments or np.any(baf > 1) or not np.any((baf > 0) & (baf < 1)):
        return None
    return Alleles(bin=seen, baf=baf, sites=np.ones(len(seen)), mirrored=bool(np.all(baf <= 0.5)))


def simulated_bins(tumour: Tumour, sample: str = "simulated") -> Bins:
    """The bins of a simulated tumour, as if they had been read from a file."""
    seen = np.flatnonzero(tumour.sites > 0)
    alleles = Alleles(
        bin=seen,
        a=tumour.alpha[seen].astype(float),
        b=tumour.beta[seen].astype(float),
        sites=tumour.sites[seen].astype(float),
    )
    return Bins(
        sample=sample,
        source="simulated",
        kind="simulated",
        chromosome=tumour.chromosome,
        start=tumour.start,
        end=tumour.end,
        depth=tumour.depth,
        weight=np.ones(len(tumour.depth)),
        alleles=alleles,
    )


# ---- Samples of one patient on the same bins -------------------------------------------------------------------------


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
    if all(_places(bins) == _places(first) for bins in samples[1:]):
        return list(samples)
    kinds = {bins.segments for bins in samples}
    if len(kinds) > 1:
        segmented = listed([bins.sample for bins in samples if bins.segments])
        raise InvalidInput(
            f"{segmented} has segments and the others have bins; give bins, or segments, of all samples of a patient"
        )
    return _cut_alike(samples) if first.segments else _in_common(samples)


def _places(bins: Bins) -> list[tuple[str, int, int]]:
    return list(zip(_names(bins).tolist(), bins.start.tolist(), bins.end.tolist(), strict=True))


def _names(bins: Bins) -> npt.NDArray[np.str_]:
    """(T,) chromosomes as names that can be compared between files."""
    names = [same_chromosome(name) for name in bins.chromosomes]
    return np.repeat(np.array(names), np.diff(bins.starts, append=bins.n_bins))


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
        here = [np.flatnonzero(_names(bins) == name) for bins in samples]
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
    """Parts of segments, weighted by length."""
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
