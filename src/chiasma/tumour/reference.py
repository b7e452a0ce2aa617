"""The depth of a sample without any model of copy numbers: piecewise constant, at any level.

One row with a fine comb of levels, solved exactly. It tells what does not depend on an explanation: the noise of a bin,
its tails and its growth with the level, how much neighbouring bins err together, and how often the level changes. Of
segments that another program made every one has its own level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from chiasma.exact.inference import map_states
from chiasma.models.emissions import StudentT
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.row_chains import Sticky
from chiasma.models.rows import Row
from chiasma.tumour.bins import Bins
from chiasma.types import Floats, Integers

N_LEVELS = 90
RENEW = 0.01
DEGREES = (3.0, 4.0, 6.0, 10.0, 20.0, 50.0)
# Autocorrelation is summed over so many neighbours, or until it is lost in the noise.
MOST_LAGS = 50
# Between a noise that does not grow with depth and one in proportion to it.
GROWTH = (0.0, 1.0)
USUAL_GROWTH = 0.5
# Segments of another program do not show the noise of their bins: what is usual of a bin or marker.
SEGMENT_NOISE = 0.2
# Outliers among bins count as far as this many times the scale of the noise.
PLAUSIBLE = 4.0


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
    """1 + 2 * the sum of autocorrelations, until they are lost in the noise: how many bins count as one."""
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
