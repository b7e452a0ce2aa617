"""A sample for the model: its bins, and pieces of the genome in which depth does not change.

Depth has errors along the genome that are correlated between bins: waves, GC content, capture. The mean of a long
segment is therefore less precise than its thousand bins suggest. Purity and ploidy are fitted to pieces of at most
LONGEST bases, cut where the depth changes. The mean depth of a piece has the noise of its bins and a relative error,
the slack, which is learned. The minor allele fraction has a separate slack. Without slack, the finest comb of levels
would win.

Many bins or single sites are pooled first: neighbours of one chromosome, their depths averaged. Pieces lose nothing by
that; copy numbers lose resolution below a pool. The alleles of each site remain a separate unit. Many segments of
another program are merged to fewer pieces.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from chiasma.kernels.copy_number import four_nodes
from chiasma.tumour.bins import Bins
from chiasma.tumour.model import PIECE_DF, CopyColumns, DepthNoise
from chiasma.tumour.noise import (
    FOREIGN_SPREAD,
    PLAUSIBLE,
    AlleleTable,
    Reference,
    allele_cuts,
    allele_table,
    reference,
    table_at,
)
from chiasma.types import Floats, Integers

MOST_BINS = 10_000
# Bins farther apart than this are not pooled.
FAR_APART = 1_000_000
# Segments of another program that the search distinguishes. Hundreds more are of some kilobases.
MOST_SEGMENTS = 400
LONGEST = 10_000_000
MOST_PIECES = 1_000
UNEXPLAINED = 0.02
FINER = 4
# The share of outliers is learned for pieces shorter than this: repeats, pericentromeres, HLA.
SHORT = 3_000_000
# P(a piece is a germline run of homozygosity), if the file has homozygous sites.
HOMOZYGOUS_RUN = 0.03
# Free levels err by half a cell of their grid.
FREE_FRACTION_SLACK = 0.016
# Slack of minor allele fractions: one of these is chosen by the evidence. Without counts nothing else bounds what many
# SNPs tell: thousands of them do not make a fraction exact.
FRACTION_SLACKS = (0.0, 0.004, 0.008, 0.016, 0.03)
FRACTION_SLACKS_WITHOUT_COUNTS = (0.008, 0.016, 0.03)
USUAL_FRACTION_SLACK = 0.008


@dataclass(frozen=True, kw_only=True)
class TumourData:
    """A sample, its reference without a model, and its columns for the model. array : whether its signals were those of
    an array.
    """

    bins: Bins
    reference: Reference
    alleles: AlleleTable | None
    array: bool = False

    @classmethod
    def of(cls, bins: Bins) -> TumourData:
        known, alleles = reference(bins), allele_table(bins)
        if alleles is not None:
            cuts = np.union1d(known.cuts, allele_cuts(bins, alleles.log_lik))
            known = replace(known, cuts=cuts, change_rate=known.change_rate * len(cuts) / len(known.cuts))
        if bins.segments:
            cuts = merged_segments(bins)
            known = replace(known, cuts=cuts, change_rate=known.change_rate * len(cuts) / len(known.cuts))
        return cls(bins=bins, reference=known, alleles=alleles)

    @property
    def has_alleles(self) -> bool:
        return self.alleles is not None

    @property
    def fraction_slacks(self) -> tuple[float, ...]:
        """Those that are tried."""
        if self.alleles is None:
            return (0.0,)
        return FRACTION_SLACKS if self.alleles.counts else FRACTION_SLACKS_WITHOUT_COUNTS

    @property
    def foreign_spread(self) -> float:
        """Standard deviation of the share of foreign reads; 0 without alleles."""
        return FOREIGN_SPREAD if self.has_alleles else 0.0

    def with_response(self, response: float) -> TumourData:
        """The same pieces, for depth that grows like a power of the copies and is made linear."""
        if response == 1:
            return self
        bins = self.bins.with_linear_response(response)
        own = self.reference
        known = replace(reference(bins), cuts=own.cuts, change_rate=own.change_rate)
        return replace(self, bins=bins, reference=known, alleles=allele_table(bins), array=True)

    def noted(self, note: str) -> TumourData:
        return replace(self, bins=replace(self.bins, notes=(*self.bins.notes, note)))

    def with_allele_noise(self, level: float) -> TumourData:
        """The same sample, its alleles with another precision or standard deviation."""
        assert self.alleles is not None
        return replace(self, alleles=table_at(self.bins, level, self.alleles.kind))

    @cached_property
    def _table(self) -> Floats:
        return np.empty((self.bins.n_bins, 0)) if self.alleles is None else self.alleles.log_lik

    def columns(self, slack: float, weight: Floats | None = None, known: Floats | None = None) -> CopyColumns:
        """The bins. Bins are downweighted so that a segment is no more precise than the slack of its level allows.

        weight (T,) : of a bin in the likelihood, on top of that; known (T,) : of its alleles. Default: one.
        """
        noise, bins = self.reference, self.bins
        size = np.diff(noise.cuts, append=bins.n_bins)
        per_piece = np.minimum(np.repeat(size, size), self._longest)
        variance = (noise.sd / noise.unit) ** 2 / bins.weight
        inflation = noise.inflation + per_piece * slack**2 / variance
        weight = np.ones(bins.n_bins) if weight is None else weight
        return CopyColumns(
            depth=bins.depth,
            sd=noise.sd / np.sqrt(bins.weight),
            power=weight / inflation,
            table=self._table * (weight if known is None else weight * known)[:, None],
            starts=bins.starts,
            middle=bins.middle,
            change_rate=noise.change_rate,
            noise=DepthNoise(noise.df, noise.growth, noise.unit),
        )

    def of_pieces(self, values: Floats) -> Floats:
        """(T, ...) of bins what (C, ...) is of their pieces."""
        return np.repeat(values, np.diff(self.cuts, append=self.bins.n_bins), axis=0)

    @cached_property
    def _longest(self) -> int:
        """Bins of the longest piece. What an array shows of a level errs in the same way all along a segment."""
        if self.alleles is not None and not self.alleles.counts:
            return self.bins.n_bins
        width = float(np.median(np.diff(self.bins.middle))) if self.bins.n_bins > 1 else 1.0
        return max(1, round(LONGEST / max(width, 1.0)), -(-self.bins.n_bins // MOST_PIECES))

    @cached_property
    def cuts(self) -> Integers:
        """The first bin of every piece."""
        found = []
        known = self.reference.cuts
        for first, stop in zip(known, [*known[1:], self.bins.n_bins], strict=True):
            n = -(-(stop - first) // self._longest)
            found += [first + (stop - first) * i // n for i in range(n)]
        return np.array(found)

    @cached_property
    def pieces(self) -> CopyColumns:
        """The pieces, with the usual slack of minor allele fractions."""
        return self.pieces_with(USUAL_FRACTION_SLACK)

    def pieces_with(self, fraction_slack: float) -> CopyColumns:
        """The pieces; free levels of all slacks are computed once."""
        if fraction_slack not in self._made:
            self._made[fraction_slack] = self._pieces_with(fraction_slack)
        return self._made[fraction_slack]

    @cached_property
    def _made(self) -> dict[float, CopyColumns]:
        return {}

    @cached_property
    def _nodes(self) -> dict[float, dict[tuple[int, int], Floats]]:
        return defaultdict(dict)

    def _pieces_with(self, fraction_slack: float) -> CopyColumns:
        broad = max(fraction_slack, FREE_FRACTION_SLACK)
        known, bins, cuts = self.reference, self.bins, self.cuts
        seen = ~np.isnan(bins.depth)
        weight = np.where(seen, bins.weight, 0.0)
        spread = np.maximum(known.level / known.unit, 0.05) ** known.growth
        far = PLAUSIBLE * known.sd / np.sqrt(bins.weight) * spread
        near = np.clip(np.where(seen, bins.depth, 0.0), known.level - far, known.level + far)
        mass = np.add.reduceat(weight, cuts)
        with np.errstate(invalid="ignore", divide="ignore"):
            depth = np.add.reduceat(weight * near, cuts) / mass
            sd = known.clipped_sd * np.sqrt(known.inflation / mass)
        size = np.diff(cuts, append=bins.n_bins)
        length = np.add.reduceat((bins.end - bins.start).astype(float), cuts)
        if not bins.segments:
            length = np.maximum(length, bins.end[np.append(cuts[1:], bins.n_bins) - 1] - bins.start[cuts])
        return CopyColumns(
            depth=depth,
            sd=np.where(mass > 0, sd, 1.0),
            power=np.ones(len(cuts)),
            table=refined(self._with_runs(_with_slack(self._summed, fraction_slack))),
            starts=np.flatnonzero(np.isin(cuts, bins.starts)),
            middle=np.add.reduceat(bins.middle, cuts) / size,
            change_rate=known.change_rate,
            noise=DepthNoise(PIECE_DF, known.growth, known.unit, UNEXPLAINED),
            short=length < SHORT,
            broad=self._with_runs(_with_slack(self._summed, broad)),
            nodes=self._nodes[broad],
        )

    @property
    def has_homozygous(self) -> bool:
        """Whether sites are among those of the file that are homozygous in normal cells."""
        return self.alleles is not None and self.alleles.kind.homozygous > 0

    def _with_runs(self, table: Floats) -> Floats:
        """Allow for germline runs of homozygosity, where every site looks like a lost allele."""
        if not self.has_homozygous:
            return table
        share = HOMOZYGOUS_RUN
        return np.asarray(np.logaddexp(np.log1p(-share) + table, np.log(share) + table[:, :1]))

    @cached_property
    def fit_of_alleles(self) -> float:
        """Log-likelihood of the alleles if every piece had its best fraction."""
        return float(np.nansum(self._summed.max(axis=1))) if self.has_alleles else 0.0

    @cached_property
    def _summed(self) -> Floats:
        """(C, G) allele tables of the pieces."""
        table = self._table
        if not self.has_alleles:
            return np.empty((len(self.cuts), 0))
        summed = np.add.reduceat(np.nan_to_num(table), self.cuts, axis=0)
        known = np.add.reduceat(~np.isnan(table[:, 0]), self.cuts) > 0
        summed[~known] = np.nan
        return summed


def refined(table: Floats) -> Floats:
    """(C, G') log-likelihoods at FINER times as many steps, by cubics through four nodes: exact for the near-parabolas
    that they are. Between these nodes the likelihood is all but linear.
    """
    n_nodes = table.shape[1]
    return np.asarray(table @ _cubics(n_nodes).T) if n_nodes else table


@lru_cache(maxsize=16)
def _cubics(n_nodes: int) -> Floats:
    """(G', G) weights of the nodes at every step."""
    x = np.linspace(0, n_nodes - 1, FINER * (n_nodes - 1) + 1)
    weights = np.zeros((len(x), n_nodes))
    four = np.empty(4)
    for row, at in zip(weights, x, strict=True):
        first = four_nodes(float(at), n_nodes, four)
        row[first : first + 4] = four
    return weights


def _with_slack(table: Floats, slack: float) -> Floats:
    """Log-likelihoods of fractions that err by a normal of this standard deviation, mirrored at 1/2."""
    n_nodes = table.shape[1]
    if not n_nodes or not slack:
        return table
    top = table.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(np.exp(table - top) @ _folded_normal(n_nodes, slack).T), -500.0) + top)


@lru_cache(maxsize=16)
def _folded_normal(n_nodes: int, slack: float) -> Floats:
    """(G, G) probabilities of the nodes given each fraction."""
    p = np.linspace(0, 0.5, n_nodes)
    kernel = np.zeros((n_nodes, n_nodes))
    for mirrored in (p, 1 - p, -p):
        kernel += np.exp(-0.5 * ((p[:, None] - mirrored) / slack) ** 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    return kernel


# ---- Fewer bins and segments -----------------------------------------------------------------------------------------


def pooled(bins: Bins, most: int = MOST_BINS) -> Bins:
    """Pool to at most about this many bins. Segments of another program are unchanged.

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
    """The first segment of every stretch of merged neighbours, at most about this many.

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
