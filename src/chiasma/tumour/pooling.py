"""Many bins, or single sites, pooled to fewer bins: neighbours of one chromosome, their depths averaged.

Many segments of another program, merged to fewer pieces.

Purity and ploidy are judged on pieces of megabases, which lose nothing; copy numbers lose resolution below a pool. The
alleles of a site stay a unit of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chiasma.tumour.bins import Bins
from chiasma.types import Floats, Integers

MOST_BINS = 10_000
# Bins farther apart than this are not pooled.
FAR_APART = 1_000_000
# Segments of another program that the search distinguishes. Hundreds more are of some kilobases.
MOST_SEGMENTS = 400


def pooled(bins: Bins, most: int = MOST_BINS) -> Bins:
    """At most about so many bins. Segments of another program are left as they are.

    Examples
    --------
    >>> from chiasma.datasets.tumours import simulate_tumour
    >>> from chiasma.tumour.bins import simulated_bins
    >>> bins = simulated_bins(simulate_tumour(1, n_bins=3000))
    >>> pooled(bins, 1000).n_bins, len(pooled(bins, 3000).notes)
    (1008, 0)
    """
    if bins.n_bins <= most or bins.segments:
        return bins
    size = -(-bins.n_bins // most)
    new = np.zeros(bins.n_bins, bool)
    new[bins.starts] = True
    new[1:] |= bins.start[1:] - bins.end[:-1] > FAR_APART
    begins = np.flatnonzero(new)
    within = np.arange(bins.n_bins) - np.repeat(begins, np.diff(begins, append=bins.n_bins))
    first = np.flatnonzero(within % size == 0)
    seen = ~np.isnan(bins.depth)
    weight = np.where(seen, bins.weight, 0.0)
    mass = np.add.reduceat(weight, first)
    with np.errstate(invalid="ignore", divide="ignore"):
        depth = np.add.reduceat(weight * np.where(seen, bins.depth, 0.0), first) / mass
    last = np.append(first[1:], bins.n_bins) - 1
    alleles = bins.alleles
    if alleles is not None:
        pool = np.repeat(np.arange(len(first)), np.diff(first, append=bins.n_bins))
        alleles = replace(alleles, bin=pool[alleles.bin])
    note = f"{bins.n_bins:,} bins are pooled to {len(first):,}, {size} neighbours each"
    return replace(
        bins,
        chromosome=bins.chromosome[first],
        start=bins.start[first],
        end=np.maximum.reduceat(bins.end, first),
        depth=depth,
        weight=np.where(mass > 0, mass / size, bins.weight[last]),
        alleles=alleles,
        notes=(*bins.notes, note),
    )


def merged_segments(bins: Bins, most: int = MOST_SEGMENTS) -> Integers:
    """The first segment of every stretch of neighbouring segments that are taken for one, at most about so many.

    Ward's method: the two neighbours whose mean differs least are merged first, weighted by length: squared difference
    of log depth, and of twice the minor allele fraction, times the harmonic length.

    Examples
    --------
    >>> from chiasma.datasets.tumours import simulate_tumour
    >>> from chiasma.tumour.bins import simulated_bins
    >>> bins = simulated_bins(simulate_tumour(1, n_bins=500))
    >>> len(merged_segments(bins, 60)), len(merged_segments(bins, 500))
    (60, 500)
    """
    first = np.arange(bins.n_bins)
    if bins.n_bins <= most:
        return first
    length = (bins.end - bins.start).astype(float)
    seen = bins.depth > 0
    values = np.column_stack([np.log(np.where(seen, bins.depth, 1.0)), np.zeros(bins.n_bins)])
    mass = np.column_stack([np.where(seen, length, 1e-3), np.full(bins.n_bins, 1e-3)])
    if bins.alleles is not None:
        sites = np.bincount(bins.alleles.bin, bins.alleles.sites, bins.n_bins)
        total = np.bincount(bins.alleles.bin, bins.alleles.sites * bins.alleles.fraction, bins.n_bins)
        values[:, 1] = 2 * np.divide(total, sites, out=np.zeros(bins.n_bins), where=sites > 0)
        mass[sites > 0, 1] = length[sites > 0]
    inside = np.ones(bins.n_bins, bool)
    inside[bins.starts] = False

    def cost(left: Floats, right: Floats, of_left: Floats, of_right: Floats) -> Floats:
        return np.asarray(((left - right) ** 2 * of_left * of_right / (of_left + of_right)).sum(axis=-1))

    costs = np.where(inside[1:], cost(values[:-1], values[1:], mass[:-1], mass[1:]), np.inf)
    while len(first) > most:
        i = int(costs.argmin())
        if not np.isfinite(costs[i]):
            break
        both = mass[i] + mass[i + 1]
        values[i] = (values[i] * mass[i] + values[i + 1] * mass[i + 1]) / both
        mass[i] = both
        first, values, mass, costs = (
            np.delete(one, at, axis=0) for one, at in ((first, i + 1), (values, i + 1), (mass, i + 1), (costs, i))
        )
        for j in (i - 1, i):
            if 0 <= j < len(costs) and np.isfinite(costs[j]):
                costs[j] = cost(values[j], values[j + 1], mass[j], mass[j + 1])
    return first
