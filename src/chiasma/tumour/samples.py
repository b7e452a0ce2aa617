"""The samples of a file, completed from others: allele counts, corrections, a normal sample."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chiasma.errors import InvalidInput
from chiasma.tumour.bins import Bins, attach_alleles
from chiasma.tumour.formats import read_bins
from chiasma.tumour.tracks import corrected, divided, with_found_tracks

FEWEST_BINS = 20


def read_samples(
    path: Path,
    *,
    sample: str | None = None,
    alleles: Path | None = None,
    gc: Path | None = None,
    mappability: Path | None = None,
    normal: Path | None = None,
    female: bool = False,
) -> list[Bins]:
    """The samples of a file: with allele counts of another one, corrected, without chromosomes of unknown copies.

    Raw counts without a named GC track are corrected with one that is found. A correction that is still missing is the
    first note.
    """
    found = read_bins(path, sample)
    if alleles is not None:
        sites = read_bins(alleles)
        if len(sites) > 1:
            sites = [one for one in sites if one.sample == sample] or sites
        if len(found) != 1 or len(sites) != 1:
            raise InvalidInput(
                f"{path} has {len(found)} samples and {alleles} {len(sites)}; choose one with --sample, so that the "
                "allele counts belong to it"
            )
        found = [attach_alleles(found[0], sites[0])]
    found = [bins.noted(*_allele_notes(bins)) for bins in found]
    if normal is not None:
        other = read_bins(normal)[0]
        found = [divided(bins, other) for bins in found]
    if gc is not None or mappability is not None:
        others = [None if one is None else read_bins(one)[0] for one in (gc, mappability)]
        found = [corrected(bins, *others) for bins in found]
    found = [with_found_tracks(bins).with_two_copies(female) for bins in found]
    for bins in found:
        if bins.n_bins < FEWEST_BINS and not bins.segments:
            raise InvalidInput(
                f"{path} has {bins.n_bins} bins of sample {bins.sample!r}; a tumour needs at least {FEWEST_BINS}"
            )
    return [replace(bins, notes=(bins.lacking, *bins.notes)) if bins.lacking else bins for bins in found]


def _allele_notes(bins: Bins) -> list[str]:
    """Not reported by the reader, because `chiasma fit` does not use alleles."""
    alleles = bins.alleles
    if alleles is None:
        return []
    biased = f"balanced alleles have {alleles.usual:.1%} of their reads from the alternative one: weighted to one half"
    return [*([alleles.in_words()] if alleles.columns else []), *([biased] if abs(alleles.usual - 0.5) > 0.001 else [])]
