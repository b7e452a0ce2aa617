"""The landscape: log evidence over purity and depth scale, where explanations are found before they are polished.

Its maxima are narrow, so the grid is fine: some ten thousand points, each the evidence of some hundred pieces of the
genome. The search flattens the prior of states so that no explanation is overlooked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.ndimage import maximum_filter
from scipy.optimize import minimize

from chiasma.sampling.threads import Pool
from chiasma.tumour.copy_states import CopyStates
from chiasma.tumour.model import CopyColumns, TumourParameters, evidence_map
from chiasma.types import Floats

LEAST_PURITY, PURITY_STEP = 0.075, 0.025
PLOIDIES = (1.1, 8.0)
SCALE_STEP = 0.0075
# Limits of the search.
MOST_CLONES = 3
SLACK = 0.015
N_MAXIMA = 30
N_REFINED = 24
# After few steps all but the best are given up, and at their maxima those that are far below the best; of each kind,
# doubled or not, two are kept.
FEW_STEPS, N_HOPEFUL = 15, 10
STEPS, FAR_BELOW = 60, 150.0
FEWEST, FEWEST_OF_A_KIND = 6, 2
# Power of the probabilities of states.
ALIKE = 0.5
# Typical shares of segments with a free level and of short pieces that are outliers.
FREE, OUTLIERS = 0.03, 0.03
SHARES = (0.08, 0.14, 0.2, 0.26, 0.32, 0.38, 0.44, 0.5)
# Explanations nearer than this are one.
SAME_PURITY, SAME_SCALE, SAME_SHARE = 0.02, 0.01, 0.04


@dataclass(frozen=True)
class Bounds:
    """Bounds from the user: least and largest purity, ploidy of the tumour, numbers of clones."""

    purity: tuple[float, float] = (0.05, 1.0)
    ploidy: tuple[float, float] = PLOIDIES
    clones: tuple[int, int] = (1, 2)


@dataclass(frozen=True)
class Landscape:
    """log_evidence (P, Q) over purities (P,) and scales (Q,); -inf where the ploidy is out of bounds."""

    purities: Floats
    scales: Floats
    log_evidence: Floats
    unit: float

    def ploidy(self, purity: Floats, scale: Floats) -> Floats:
        return mean_ploidy(purity, scale, self.unit)

    def maxima(self, most: int) -> list[tuple[float, float, float]]:
        """(log evidence, purity, scale) of local maxima, the highest first."""
        height = self.log_evidence
        top = (height == maximum_filter(height, size=(3, 5), mode="nearest")) & np.isfinite(height)
        found = [(float(height[i, j]), float(self.purities[i]), float(self.scales[j])) for i, j in np.argwhere(top)]
        return sorted(found, reverse=True)[:most]


def mean_ploidy(purity: Floats, scale: Floats, unit: float) -> Floats:
    """Mean copies per tumour cell that make the mean depth `unit`."""
    return np.asarray((2 * unit / scale - 2 * (1 - purity)) / purity)


def survey(
    pieces: CopyColumns,
    states: CopyStates,
    bounds: Bounds,
    workers: int = 2,
    slack: float = SLACK,
    power: float = ALIKE,
    foreign: float = 0.0,
) -> Landscape:
    """The landscape of one clone. power: of the probabilities of states. foreign : reads, see `TumourParameters`."""
    low, high = bounds.purity
    alike = _alike(states, power)
    purities = np.unique(np.clip(np.arange(LEAST_PURITY, 1 + PURITY_STEP / 2, PURITY_STEP), low, high))
    unit = pieces.noise.unit
    corner = np.array([purities[0], purities[-1]])
    limits = [2 * unit / (2 * (1 - corner) + corner * ploidy) for ploidy in bounds.ploidy]
    first, last = np.log(np.min(limits)), np.log(np.max(limits))
    scales = np.exp(np.linspace(first, last, max(2, int((last - first) / SCALE_STEP) + 1)))

    def row(purity: float) -> Floats:
        ploidy = mean_ploidy(np.array(purity), scales, unit)
        inside = (ploidy >= bounds.ploidy[0]) & (ploidy <= bounds.ploidy[1])
        out = np.full(len(scales), -np.inf)
        if inside.any():
            at = np.array([purity]), scales[inside]
            out[inside] = evidence_map(
                pieces, states, alike, (), *at, slack, free=FREE, outliers=OUTLIERS, foreign=foreign
            )[0]
        return out

    if pieces.free_levels is not None:
        pieces.free_levels.over_normal(slack)  # before threads need it
    with Pool(workers) as pool:
        heights = list(pool.map(row, purities))
    return Landscape(purities, scales, np.array(heights), unit)


def _alike(states: CopyStates, power: float = ALIKE) -> Floats:
    """(S,) flattened prior probabilities of states."""
    alike = states.probabilities**power
    return np.asarray(alike / alike.sum())


def surveys(
    pieces: CopyColumns,
    most: int,
    bounds: Bounds,
    workers: int = 2,
    slack: float = SLACK,
    power: float = ALIKE,
    foreign: float = 0.0,
) -> dict[bool, Landscape]:
    """The landscapes of one clone, of a genome that was not doubled and of one that was."""
    states = {doubled: pieces.states(doubled, most) for doubled in (False, True)}
    return {doubled: survey(pieces, own, bounds, workers, slack, power, foreign) for doubled, own in states.items()}


def candidates(
    pieces: CopyColumns, maps: Mapping[bool, Landscape], most: int, bounds: Bounds, n_clones: int, workers: int = 2
) -> list[TumourParameters]:
    """Explanations with this number of clones that the pieces support, the best first."""
    seeds = [
        (
            height,
            TumourParameters(purity=purity, scale=scale, slack=SLACK, doubled=doubled, free=FREE, outliers=OUTLIERS),
        )
        for doubled, own in maps.items()
        for height, purity, scale in own.maxima(N_MAXIMA)
    ]
    with Pool(workers) as pool:
        for _ in range(1, n_clones):
            seeds = list(pool.map(partial(_with_subclone, pieces, most), seeds))
        found = sorted(seeds, key=lambda one: -one[0])[:N_REFINED]
        found = list(pool.map(partial(_refined, pieces, most, bounds, FEW_STEPS), [own for _, own in found]))
        # Depth alone has more rivals, and costs less.
        found = _first(found, N_HOPEFUL if pieces.has_alleles else N_REFINED)
        found = list(pool.map(partial(_refined, pieces, most, bounds, STEPS), [own for _, own in found]))
    best = max((height for height, _ in found), default=0.0)
    near_best = sum(height > best - FAR_BELOW for height, _ in found)
    return distinct([own for _, own in _first(found, max(near_best, FEWEST))])


def _first(found: list[tuple[float, TumourParameters]], n: int) -> list[tuple[float, TumourParameters]]:
    """The n best, and a few of each kind."""
    ranked = sorted(found, key=lambda one: -one[0])
    kept = ranked[:n]
    for doubled in (False, True):
        kept += [one for one in ranked if one[1].doubled is doubled][:FEWEST_OF_A_KIND]
    return sorted(dict.fromkeys(kept), key=lambda one: -one[0])


def _with_subclone(
    pieces: CopyColumns, most: int, seed: tuple[float, TumourParameters]
) -> tuple[float, TumourParameters]:
    """A seed with one subclone more, of the share that suits it best."""
    own = seed[1]
    states = pieces.states(own.doubled, most)
    at = np.array([own.purity]), np.array([own.scale])
    alike = _alike(states)
    heights = [
        float(
            evidence_map(
                pieces, states, alike, (*own.fractions, share), *at, own.slack, free=own.free, outliers=own.outliers
            )[0, 0]
        )
        for share in SHARES
    ]
    share = SHARES[int(np.argmax(heights))]
    return max(heights), replace(own, fractions=(*own.fractions, share))


def _refined(
    pieces: CopyColumns, most: int, bounds: Bounds, n_steps: int, start: TumourParameters
) -> tuple[float, TumourParameters]:
    """The maximum near a start, or the last point after a fixed number of steps (more if there are subclones)."""
    states = pieces.states(start.doubled, most)
    alike = _alike(states)
    low, high = bounds.purity
    n_shares = len(start.fractions)

    def at(x: Floats) -> TumourParameters:
        shares = tuple(float(share) for share in np.clip(x[2:], 0.03, 0.5))
        purity = float(np.clip(x[0], low, high))
        return replace(start, purity=purity, scale=float(np.exp(x[1])), fractions=shares)

    def loss(x: Floats) -> float:
        own = at(x)
        outside = abs(x[0] - own.purity) + sum(abs(x[2 + i] - own.fractions[i]) for i in range(n_shares))
        at_own = np.array([own.purity]), np.array([own.scale])
        found = evidence_map(
            pieces, states, alike, own.fractions, *at_own, own.slack, free=own.free, outliers=own.outliers
        )
        return float(-found[0, 0] + 1e3 * outside)

    x0 = np.array([start.purity, np.log(start.scale), *start.fractions])
    simplex = np.vstack([x0, x0 + np.diag([-0.01, 0.004, *([-0.03] * n_shares)])])
    most_calls = round(n_steps * (1 + 2 * n_shares / 3))
    options = {"initial_simplex": simplex, "maxfev": most_calls, "fatol": 0.1}
    found = minimize(loss, x0, method="Nelder-Mead", options=options)
    return -float(found.fun), at(found.x)


def distinct(ranked: Sequence[TumourParameters]) -> list[TumourParameters]:
    """Without explanations that are near a better one."""
    kept: list[TumourParameters] = []
    for own in ranked:
        if not any(near(own, other) for other in kept):
            kept.append(own)
    return kept


def near(one: TumourParameters, other: TumourParameters) -> bool:
    """Whether two explanations are one."""
    return (
        one.doubled == other.doubled
        and one.n_clones == other.n_clones
        and abs(one.purity - other.purity) < SAME_PURITY
        and abs(np.log(one.scale / other.scale)) < SAME_SCALE
        and all(abs(a - b) < SAME_SHARE for a, b in zip(one.fractions, other.fractions, strict=True))
    )
