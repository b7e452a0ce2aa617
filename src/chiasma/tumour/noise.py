"""The data of a sample without any model of copy numbers: noise of its depth and of its alleles.

The depth of a sample without any model of copy numbers: piecewise constant, at any level.

One row with a fine comb of levels, solved exactly. It estimates what does not depend on an explanation: the noise of a
bin, its tails and its growth with the level, the correlation of neighbouring bins, and how often the level changes.
Segments that another program made have one level each.

What the alleles of a bin say about the minor allele fraction p: log-likelihoods (T, G) on a grid of p in 0..1/2.

Counts are beta-binomial with one precision, and either allele may be the minor one. Fractions without counts are
Student's t. Some programs put the smaller count first at every site before they add the sites of a bin up; a balanced
bin then has less than 1/2. Which of the two it was, and the precision, is what makes the data most probable when p may
be anything in every window; the precision is measured again when there is an explanation.

Arrays, and counts without a normal sample, include homozygous sites, which are uninformative about the tumour. The
probability that a site is homozygous is chosen in the same way.

A site may be an artefact, and a bin may hold alleles of another state: at the edge of a segment, or by mistake. One of
them among a hundred that lost an allele would make the tumour look less pure, so with a small probability a site or
bin is uninformative about p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from chiasma.errors import InvalidInput
from chiasma.exact.inference import map_states
from chiasma.kernels.copy_number import TAILS, add_counts, add_fractions
from chiasma.models.chains import Sticky
from chiasma.models.emissions import Custom, StudentT
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.rows import Row
from chiasma.tumour.bins import Alleles, Bins
from chiasma.types import Floats, Integers

# Largest depth: larger squares overflow.
LARGEST = 1e100
N_LEVELS = 90
RENEW = 0.01
DEGREES = (3.0, 4.0, 6.0, 10.0, 20.0, 50.0)
# Autocorrelation is summed over at most this many neighbours, or until it is below the noise.
MOST_LAGS = 50
# Between a noise that does not grow with depth and one in proportion to it.
GROWTH = (0.0, 1.0)
USUAL_GROWTH = 0.5
# Typical noise of a bin or marker, for segments of another program, whose bins are unknown.
SEGMENT_NOISE = 0.2
# Outliers among bins count as far as this many times the scale of the noise.
PLAUSIBLE = 4.0
N_NODES = 201
# Share of reads from elsewhere, by mistake or from another person: mean and standard deviation over samples. A few
# percent are common, and a sample with more is discarded.
FOREIGN, FOREIGN_SPREAD = 0.01, 0.01
PRECISIONS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 1000.0, 4000.0)
# Extra standard deviation of the fractions of bins, beyond the noise of their sites.
EXTRA = (0.0, 0.01, 0.02, 0.04)
SDS = (0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16)
# P(the reads of a site, or the alleles of a bin, are not those of its state).
ASTRAY = 0.01
WINDOW = 16
# Step between the nodes that are used to choose the noise.
ROUGH = 10
# If more than this share of sites has a fraction below this, some may be homozygous: shares to try.
NO_MINOR, MUCH_HOMOZYGOUS = 0.1, 0.1
HOMOZYGOUS = (0.2, 0.35, 0.5, 0.65, 0.8)
# For changes of the fraction: step between nodes, and P(it is drawn anew) from bin to bin.
COMB, ALLELE_RENEW = 8, 0.005


@dataclass(frozen=True)
class Reference:
    """level (T,): the piecewise constant depth. cuts: where it changes, with the starts of chromosomes.

    sd : noise of a bin of weight 1 at depth `unit`, the scale of a Student's t of df degrees of freedom.
    clipped_sd : its standard deviation when outliers are clipped at PLAUSIBLE, from which the error of a mean follows.
    growth : noise grows like depth^growth. inflation : variance of a long mean, relative to independent bins.
    unit : mean depth. change_rate : changes of level per base.
    """

    level: Floats
    cuts: Integers
    sd: float
    clipped_sd: float
    growth: float
    df: float
    inflation: float
    unit: float
    change_rate: float


def reference(bins: Bins) -> Reference:
    seen = ~np.isnan(bins.depth)
    depth, weight = bins.depth[seen], bins.weight[seen]
    unit = float(
        np.average(np.clip(depth, *np.quantile(depth, [0.0, 0.98])), weights=bins.end[seen] - bins.start[seen])
    )
    if not (1 / LARGEST < unit < LARGEST and (bins.segments or np.ptp(depth) > 0)):
        raise InvalidInput(
            f"{bins.source}: depths of {depth.min():g} to {depth.max():g} do not show copies; give them as they were "
            "measured, of another column or file"
        )
    relative = bins.depth / unit
    starts = bins.starts
    covered = float(
        sum(bins.end[b - 1] - bins.start[a] for a, b in zip(starts, [*starts[1:], bins.n_bins], strict=True))
    )
    if bins.segments:
        return Reference(
            level=np.where(seen, bins.depth, unit),
            cuts=np.arange(bins.n_bins),
            sd=SEGMENT_NOISE * unit,
            clipped_sd=SEGMENT_NOISE * unit,
            growth=USUAL_GROWTH,
            df=DEGREES[-1],
            inflation=1.0,
            unit=unit,
            change_rate=_rate(bins.n_bins - len(starts), covered),
        )
    rough = _neighbour_sd(relative, weight=bins.weight, starts=starts)
    level = _piecewise(relative, np.median(rough / np.sqrt(weight)), starts) if len(depth) > 2 else relative
    error = (relative - level)[seen] * np.sqrt(weight)
    growth = _growth(error, level[seen])
    spread = np.maximum(level[seen], 0.05) ** growth
    df, sd = _tails(error / spread)
    changes = np.flatnonzero(np.diff(level) != 0) + 1
    cuts = np.unique(np.concatenate([starts, changes]))
    return Reference(
        level=level * unit,
        cuts=cuts,
        sd=sd * unit,
        clipped_sd=_clipped_sd(error / spread, sd, len(cuts)) * unit,
        growth=growth,
        df=df,
        inflation=_inflation(error / spread, bins, seen),
        unit=unit,
        change_rate=_rate(len(cuts) - len(starts), covered),
    )


def _rate(n_changes: int, covered: float) -> float:
    """Changes per base; a few are always possible."""
    return max(n_changes, 5) / covered


def _neighbour_sd(relative: Floats, weight: Floats, starts: Integers) -> float:
    """Noise of a bin of weight 1 from differences of neighbours, which a few changes of level do not matter for."""
    inside = np.ones(len(relative), bool)
    inside[starts] = False
    scale = np.sqrt(1 / weight[1:] + 1 / weight[:-1])
    difference = (np.diff(relative) / scale)[inside[1:]]
    difference = difference[~np.isnan(difference)]
    if len(difference) < 3:
        return 0.1
    return max(float(1.4826 * np.median(np.abs(difference))), 1e-3)


def _piecewise(relative: Floats, sd: float, starts: Integers) -> Floats:
    low, high = np.nanquantile(relative, [0.002, 0.998])
    levels = np.linspace(max(low - sd, 0.0), high + sd, N_LEVELS)
    model = FactorialHMM(
        rows=[Row(levels, Sticky(renew=RENEW))], emission=StudentT(sd=max(sd, float(levels[1] - levels[0])), df=4.0)
    )
    return levels[map_states(model, Observations(relative, starts))[0]]


def _growth(error: Floats, level: Floats) -> float:
    """Slope of log |error| over log level, between bounds; the usual one if all levels are about the same."""
    known = level > 0.2
    x, y = np.log(level[known]), np.log(np.abs(error[known]) + 1e-4)
    if len(x) < 100 or np.std(x) < 0.05:
        return USUAL_GROWTH
    slope = float(np.polyfit(x, y, 1)[0])
    return float(np.clip(slope, *GROWTH))


def _tails(error: Floats) -> tuple[float, float]:
    """Degrees of freedom and scale that make the errors most probable."""
    best = (-np.inf, DEGREES[0], 0.1)
    middle = max(float(np.median(np.abs(error))), 1e-4)
    for df in DEGREES:
        for factor in np.exp(np.linspace(-0.5, 0.5, 21)):
            scale = middle / stats.t.ppf(0.75, df) * factor
            score = float(stats.t.logpdf(error, df, scale=scale).sum())
            best = max(best, (score, df, scale))
    return best[1], best[2]


def _clipped_sd(error: Floats, scale: float, n_levels: int) -> float:
    """Standard deviation of errors, clipped as in a piece: the levels, which were fitted, took a part of it. The scale
    of a Student's t is much less than that if its tails are heavy.
    """
    clipped = np.clip(error, -PLAUSIBLE * scale, PLAUSIBLE * scale)
    return float(np.sqrt(np.sum(clipped**2) / max(len(error) - n_levels, 1 + len(error) // 2)))


def _inflation(error: Floats, bins: Bins, seen: np.ndarray) -> float:
    """1 + 2 * the sum of autocorrelations, until they are below the noise: the number of bins per independent one."""
    clipped = np.clip(error, *np.quantile(error, [0.01, 0.99]))
    whole = np.full(bins.n_bins, np.nan)
    whole[seen] = clipped - clipped.mean()
    number = np.repeat(np.arange(len(bins.starts)), np.diff(bins.starts, append=bins.n_bins))
    variance = float(np.nanvar(whole))
    total = 0.0
    for lag in range(1, min(MOST_LAGS, bins.n_bins // 4)):
        both = (number[lag:] == number[:-lag]) & ~np.isnan(whole[lag:]) & ~np.isnan(whole[:-lag])
        n = int(both.sum())
        if n < 50:
            break
        correlation = float(np.mean(whole[lag:][both] * whole[:-lag][both])) / variance
        if correlation < 2 / np.sqrt(n):
            break
        total += correlation
    return 1 + 2 * total


class Kind(NamedTuple):
    """folded : whether sites were mirrored one by one. extra : what the fractions of bins differ by beyond their sites.
    homozygous : P(a site is homozygous in normal cells).
    """

    folded: bool = False
    extra: float = 0.0
    homozygous: float = 0.0


@dataclass(frozen=True)
class AlleleTable:
    """log_lik (T, G), NaN in bins without alleles, and how it was made.

    level : precision of counts, or standard deviation of fractions, that of one SNP with balanced alleles; the fraction
    of n of them has 1 / sqrt(n) of it. kind : the rest of the noise.
    counts : whether there are counts.
    """

    log_lik: Floats
    level: float
    kind: Kind
    counts: bool

    @property
    def noise(self) -> str:
        """In words."""
        told = f"beta-binomial of precision {self.level:.3g}"
        if not self.counts:
            told = f"normal, the fraction of one SNP with standard deviation {self.level:.3g}"
        if self.kind.folded:
            told += f", sites mirrored one by one, bins differ by {self.kind.extra:g}"
        if self.kind.homozygous:
            told += f", {self.kind.homozygous:.0%} of sites homozygous in normal cells"
        return told


def nodes() -> Floats:
    """(G,) minor allele fractions of reads, at true fractions 0..1/2, with the usual share of foreign reads."""
    return 0.5 - (1 - FOREIGN) * np.linspace(0.5, 0, N_NODES)


def allele_table(bins: Bins) -> AlleleTable | None:
    """The table of a sample, its noise from windows of bins; None if it has no alleles."""
    if bins.alleles is None or not bins.alleles.n_units:
        return None
    alleles = bins.alleles
    levels = PRECISIONS if alleles.a is not None else SDS

    def score(level: float, kind: Kind) -> float:
        table = or_astray(_fill(alleles, bins.n_bins, level, kind, nodes()[::ROUGH]))
        return _window_score(bins, table) - _measure(alleles, kind.folded)

    _, kind, level = max((score(level, kind), kind, level) for kind in _kinds(alleles) for level in levels)
    return table_at(bins, level, kind)


def _kinds(alleles: Alleles) -> list[Kind]:
    """Candidate noise models of alleles."""
    kinds = [Kind()]
    if alleles.mirrored and np.any(alleles.sites > 1):
        kinds += [Kind(folded=True, extra=extra) for extra in EXTRA]
    if np.all(alleles.sites == 1) and np.mean(alleles.fraction < NO_MINOR) > MUCH_HOMOZYGOUS:
        kinds += [Kind(homozygous=share) for share in HOMOZYGOUS]
    return kinds


def table_at(bins: Bins, level: float, kind: Kind) -> AlleleTable:
    """The table of a sample with alleles whose noise is known."""
    assert bins.alleles is not None
    table = or_astray(_fill(bins.alleles, bins.n_bins, level, kind, nodes()))
    table[np.bincount(bins.alleles.bin, minlength=bins.n_bins) == 0] = np.nan
    return AlleleTable(table, level, kind, bins.alleles.a is not None)


def or_astray(table: Floats) -> Floats:
    """(T, G) log-likelihoods of bins that with probability ASTRAY have any fraction."""
    top = table.max(axis=1, keepdims=True)
    share = np.exp(table - top)
    return np.asarray(top + np.log((1 - ASTRAY) * share + ASTRAY * share.mean(axis=1, keepdims=True)))


def allele_cuts(bins: Bins, table: Floats) -> Integers:
    """Bins where the minor allele fraction changes: one row with a comb of fractions, most probable path."""
    comb = table[:, ::COMB]
    model = FactorialHMM(
        rows=[Row(np.arange(comb.shape[1]), Sticky(renew=ALLELE_RENEW))],
        emission=Custom(lambda y, level: np.take_along_axis(y, level.astype(int)[None, None, :], axis=2)[:, 0]),
    )
    path = map_states(model, Observations(comb, bins.starts))[0]
    return np.flatnonzero(np.diff(path) != 0) + 1


def _fill(alleles: Alleles, n_bins: int, level: float, kind: Kind, p: Floats) -> Floats:
    out = np.zeros((n_bins, len(p)))
    if alleles.a is not None and alleles.b is not None:
        if not kind.folded:
            order = np.lexsort((alleles.b, alleles.a))
            astray = ASTRAY if np.all(alleles.sites == 1) else 0.0
            add_counts(alleles.bin, alleles.a, alleles.b, order, p, level, kind.homozygous, astray, out)
            return out
        reads = (alleles.a + alleles.b) / alleles.sites
        variance = 1 / reads + (1 - 1 / reads) / (1 + level)
    else:
        # Four times: a fraction of 1/2 has the variance p (1 - p) = 1/4.
        variance = np.full(alleles.n_units, 4 * level**2) / (1.0 if kind.folded else alleles.sites)
    sites = alleles.sites if kind.folded else np.ones(alleles.n_units)
    log_hom = _log_density_of_homozygous(alleles.fraction) if kind.homozygous else np.zeros(alleles.n_units)
    add_fractions(alleles.bin, alleles.fraction, variance, sites, kind.extra**2, p, kind.homozygous, log_hom, out)
    return out


def _log_density_of_homozygous(fraction: Floats) -> Floats:
    """(J,) log density of fractions of homozygous sites: the near half of a Student's t about 0, as wide as the
    fractions near 0 are.
    """
    scale = max(float(np.sqrt(np.mean(fraction[fraction < NO_MINOR] ** 2))), 0.003)
    return np.asarray(np.log(2) + stats.t.logpdf(fraction, TAILS, scale=scale))


def _measure(alleles: Alleles, folded: bool) -> float:
    """What makes a density of mirrored fractions and a probability of counts comparable."""
    if alleles.a is None or alleles.b is None:
        return 0.0
    return float(np.log(alleles.a + alleles.b).sum()) if folded else -alleles.n_units * np.log(2.0)


def _window_score(bins: Bins, table: Floats) -> float:
    """Log-likelihood where every window of bins has its own p: one half, or uniform. The best p in place of all would
    follow the noise, and make it look smaller; so would a uniform p alone, as a small loss looks like noise.
    """
    cuts = np.unique(np.concatenate([bins.starts, np.arange(0, bins.n_bins, WINDOW)]))
    windows = np.add.reduceat(table, cuts, axis=0)
    anything = logsumexp(windows, axis=1) - np.log(table.shape[1])
    return float(np.logaddexp(windows[:, -1], anything).sum())
