"""Genome coordinates: assemblies, chromosome bands, centromeres, and regions such as 8:100-120Mb, 8q or 8q24.

Bands and lengths come from bioframe, an optional dependency, the extra `genomics`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.io.columns import same_chromosome
from chiasma.io.sheets import listed
from chiasma.tumour.bins import Bins

# Tried in this order. A bin may reach past the end of a chromosome by its own length.
ASSEMBLIES = ("hg38", "hg19")
NEEDS_BIOFRAME = "chromosome bands come from bioframe; install it with: pip install 'chiasma-fhmm[tumour]'"
MOST = 0.6
UNITS = {"": 1, "b": 1, "bp": 1, "k": 1_000, "kb": 1_000, "m": 1_000_000, "mb": 1_000_000}


@dataclass(frozen=True)
class Assembly:
    """lengths by plain chromosome name, and the bands as (chromosome, start, end, name, stain)."""

    name: str
    lengths: dict[str, int]
    bands: tuple[tuple[str, int, int, str, str], ...]

    def centromere(self, chromosome: str) -> tuple[int, int] | None:
        key = same_chromosome(chromosome)
        spans = [(start, end) for name, start, end, _, stain in self.bands if name == key and stain == "acen"]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def span(self, chromosome: str, band: str) -> tuple[int, int] | None:
        """From the first to the last band whose name begins so: p, q, q24, q24.21."""
        key = same_chromosome(chromosome)
        spans = [
            (start, end)
            for name, start, end, own, _ in self.bands
            if name == key and own.startswith(band) and (len(band) == 1 or _ends_well(own[len(band) :], band))
        ]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None


def _ends_well(rest: str, band: str) -> bool:
    """q2 stands for q21 to q29, q24 for q24.1 to q24.3, but q24.2 not for q24.21 of another kind of digit."""
    return not rest or rest[0] in "0123456789."


def _has_bioframe() -> bool:
    return find_spec("bioframe") is not None


@cache
def assembly(name: str) -> Assembly | None:
    """An assembly by its name; None where bioframe is not installed."""
    try:
        import bioframe
    except ImportError:
        return None
    try:
        info = bioframe.assembly_info(name)
    except (ValueError, KeyError):
        raise InvalidInput(f"there is no assembly {name!r}; use one of {', '.join(ASSEMBLIES)}") from None
    lengths = {same_chromosome(str(chrom)): int(length) for chrom, length in info.chromsizes.items()}
    return Assembly(name, lengths, _bands(info))


def _bands(info: Any) -> tuple[tuple[str, int, int, str, str], ...]:
    table = info.cytobands
    if table is None:
        return ()
    return tuple(
        (same_chromosome(str(row.chrom)), int(row.start), int(row.end), str(row.band), str(row.stain))
        for row in table.itertuples()
    )


def assembly_of(bins: Bins) -> Assembly | None:
    """The assembly whose chromosomes suit the bins best; None if most suit none, or bioframe is not installed."""
    found = [one for name in ASSEMBLIES if (one := assembly(name)) is not None]
    ranked = sorted(found, key=lambda one: -_suits(one, bins))  # the first of equals
    return ranked[0] if ranked and _suits(ranked[0], bins) > MOST else None


def _suits(known: Assembly, bins: Bins) -> float:
    """Share of the chromosomes whose length is the one that the file states, or that are long enough."""
    width = 0 if bins.segments else int(np.median(bins.end - bins.start))
    good = 0
    for name, stop in zip(bins.chromosomes, [*bins.starts[1:], bins.n_bins], strict=True):
        length, stated = known.lengths.get(same_chromosome(name)), bins.lengths.get(name)
        good += length is not None and (
            stated == length if stated is not None else bool(bins.end[stop - 1] <= length + width)
        )
    return good / len(bins.chromosomes)


@dataclass(frozen=True)
class GenomicRegion:
    """Bins first..stop-1 of one chromosome, and where they were asked for, in bases."""

    text: str
    chromosome: str
    start: int
    end: int
    first: int
    stop: int


def find_region(bins: Bins, text: str, known: Assembly | None) -> GenomicRegion:
    """A region by its name: 8, 8:100-120Mb, chr8:100,000,000-120,000,000, 8q, 8q24."""
    given = text.strip()
    match = re.fullmatch(r"(?P<chromosome>(?:chr)?[0-9]+|(?:chr)?[XYxy])(?P<band>[pq][0-9.]*)?", given)
    if match and match["band"]:
        label = _label(bins, match["chromosome"], text)
        if known is None:
            remedy = f"give --assembly, or {label}:START-END" if _has_bioframe() else NEEDS_BIOFRAME
            raise InvalidInput(f"{text!r} names a chromosome band, and bands are not known here; {remedy}")
        span = known.span(label, match["band"])
        if span is None:
            raise InvalidInput(f"chromosome {label} of {known.name} has no band {match['band']!r}; check its name")
        return _region(bins, text, label, *span)
    name, _, place = given.partition(":")
    label = _label(bins, name, text)
    if not place:
        return _region(bins, text, label, 0, int(bins.end.max()))
    start, end = _places(place, text)
    return _region(bins, text, label, start, end)


def _places(place: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*([\d,.]+)\s*([kKmM]?[bB]?[pP]?)\s*-\s*([\d,.]+)\s*([kKmM]?[bB]?[pP]?)\s*", place)
    if not match:
        raise InvalidInput(f"{text!r} is not a region; write 8:100-120Mb, 8:100000000-120000000, 8q or 8q24")
    last_unit = match[4].lower()
    first_unit = match[2].lower() or last_unit
    ends = [
        round(float(number.replace(",", "")) * UNITS[unit])
        for number, unit in ((match[1], first_unit), (match[3], last_unit))
    ]
    if ends[0] >= ends[1]:
        raise InvalidInput(f"{text!r} ends before it begins; write START-END")
    return ends[0], ends[1]


def _label(bins: Bins, name: str, text: str) -> str:
    for label in bins.chromosomes:
        if same_chromosome(label) == same_chromosome(name):
            return label
    raise InvalidInput(f"{text!r}: there is no chromosome {name!r}; choose one of {listed(bins.chromosomes)}")


def _region(bins: Bins, text: str, label: str, start: int, end: int) -> GenomicRegion:
    here = np.flatnonzero((bins.chromosome == label) & (bins.end > start) & (bins.start < end))
    if not len(here):
        raise InvalidInput(f"there is no bin in {text!r}; widen it")
    return GenomicRegion(text.strip(), label, start, min(end, int(bins.end[here[-1]])), int(here[0]), int(here[-1]) + 1)
