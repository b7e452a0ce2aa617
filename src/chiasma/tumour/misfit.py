"""What an explanation does not explain, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from chiasma.tumour.pieces import TumourData
from chiasma.tumour.segments import expected_depth
from chiasma.tumour.solutions import Explanation

# A piece of the genome is unexplained if its mean is off by more than both.
FAR_SE, FAR_SHARE = 4.0, 0.04
MUCH_UNEXPLAINED = 0.05
MUCH_ABOVE = 0.005
MUCH_CORRELATED = 0.1
MUCH_WAVES = 0.05
OUTLIER = 4.0


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """above : share of bins above the highest level with a state. outliers : share of bins far from their level, less
    what the noise lets expect. unexplained : share of the genome in pieces whose mean is off, by more than noise and
    waves explain. autocorrelation : of neighbouring residuals. waves : by how much levels err along the genome,
    relative to themselves: the slack that was learned.
    """

    above: float
    outliers: float
    unexplained: float
    autocorrelation: float
    waves: float

    def in_words(self) -> list[str]:
        told = []
        if self.above > MUCH_ABOVE:
            told.append(
                f"{self.above:.1%} of bins lie above the highest level; raise --max-copies if their copies matter"
            )
        if self.unexplained > MUCH_UNEXPLAINED:
            told.append(
                f"{self.unexplained:.0%} of the genome lies between the levels of this solution: subclones that it "
                "does not have, or another purity or ploidy"
            )
        if self.outliers > MUCH_UNEXPLAINED:
            told.append(f"{self.outliers:.0%} of bins are farther from their level than the noise explains")
        if self.waves > MUCH_WAVES:
            told.append(
                f"depth wavers by {self.waves:.0%} of its level along the genome (GC content, capture, replication): "
                "correct it, or compare with a normal sample, if you can"
            )
        if abs(self.autocorrelation) > MUCH_CORRELATED:
            told.append(
                f"neighbouring residuals are correlated ({self.autocorrelation:.2f}): waves in the depth, or missed "
                "segments"
            )
        return told


def misfit(data: TumourData, explanation: Explanation) -> Misfit:
    noise, own = data.reference, explanation.parameters
    mean = expected_depth(explanation)
    depth, weight = data.bins.depth, data.bins.weight
    seen = ~np.isnan(depth)
    spread = np.maximum(mean / noise.unit, 0.05) ** noise.growth
    z = (depth - mean) / (noise.sd * spread / np.sqrt(weight))
    top = own.scale * (2 * (1 - own.purity) + own.purity * (explanation.states.totals[-2] + 0.5)) / 2
    amplified = explanation.main[:, -1] > 0.5
    usual = 2 * stats.t.sf(OUTLIER, noise.df)
    outliers = float(np.mean(np.abs(z[seen & ~amplified]) > OUTLIER) - usual) if (seen & ~amplified).any() else 0.0
    return Misfit(
        above=float(np.mean(depth[seen] > top)),
        outliers=max(outliers, 0.0),
        unexplained=_unexplained(data, mean, amplified, own.slack),
        autocorrelation=_autocorrelation(data, z, seen),
        waves=own.slack,
    )


def _unexplained(data: TumourData, mean: np.ndarray, amplified: np.ndarray, slack: float) -> float:
    noise, bins = data.reference, data.bins
    off = np.where(np.isnan(data.bins.depth) | amplified, 0.0, noise.level - mean)
    cuts = np.unique(np.concatenate([noise.cuts, np.flatnonzero(np.diff(np.round(mean / noise.unit, 2))) + 1]))
    size = np.diff(cuts, append=bins.n_bins)
    average = np.add.reduceat(off, cuts) / size
    waves = slack * np.add.reduceat(mean, cuts) / size
    error = np.hypot(noise.sd * np.sqrt(noise.inflation / np.add.reduceat(data.bins.weight, cuts)), waves)
    far = (np.abs(average) > FAR_SE * error) & (np.abs(average) > FAR_SHARE * noise.unit)
    length = np.add.reduceat((bins.end - bins.start).astype(float), cuts)
    return float(length[far].sum() / length.sum())


def _autocorrelation(data: TumourData, z: np.ndarray, seen: np.ndarray) -> float:
    both = seen[1:] & seen[:-1]
    both[data.bins.starts[1:] - 1] = False
    if both.sum() < 10:
        return 0.0
    left, right = np.clip(z[:-1][both], -OUTLIER, OUTLIER), np.clip(z[1:][both], -OUTLIER, OUTLIER)
    return float(np.corrcoef(left, right)[0, 1])
