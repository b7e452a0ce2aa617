"""Simulated tumours: purity, clones, doubling, and depth and allele counts along 22 chromosomes.

A genome begins with one copy of either haplotype. Events hit a chromosome, an arm or a shorter stretch, and gain or
lose a copy of one haplotype; a doubling multiplies all copies by two and more events follow. Subclones inherit the
genome of the main clone and have further events. The simulation is independent of the fitted model: lengths of events,
levels of noise and counts have other distributions. Samples of one patient have the same clones in other
fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chiasma.datasets.genome import CHROMOSOMES, chromosome_sizes
from chiasma.errors import InvalidInput
from chiasma.limits import MOST_SAMPLES, MOST_SITES
from chiasma.types import Floats, Integers, as_count

N_BINS = 5_000
MEGABASE = 1_000_000
# Where the centromeres are, in megabases (GRCh38).
CENTROMERES = (123, 94, 91, 50, 49, 60, 60, 45, 43, 40, 53, 36, 18, 17, 19, 37, 25, 18, 26, 28, 12, 15)
KINDS = ("chromosome", "arm", "stretch")
KIND_CHANCES = (0.25, 0.4, 0.35)
LOSS = 0.55
SITES_PER_MEGABASE = 12.0
READS = 60.0
PRECISION = 150.0
# Reads that show the other allele by mistake.
ERROR = 0.002
NOISE = 0.08
# Of the samples of a patient after the first: P(only the subclone, only the main clone, a mixture).
OTHER_SHARES = (0.15, 0.25, 0.6)


@dataclass(frozen=True, kw_only=True)
class Tumour:
    """Bins (T,) with depth and allele counts, and the truth behind them.

    copies (C, 2, T) : copies of the two haplotypes in every clone, the main one first.
    fractions (1 + C,) : of all cells: normal ones, then the clones.
    """

    chromosome: npt.NDArray[np.str_]
    start: Integers
    end: Integers
    depth: Floats
    alpha: Integers
    beta: Integers
    sites: Integers
    copies: npt.NDArray[np.int64]
    fractions: Floats
    doubled: bool

    @property
    def purity(self) -> float:
        return float(1 - self.fractions[0])

    @property
    def mean_copies(self) -> Floats:
        """(T,) per tumour cell."""
        return np.asarray(np.einsum("c,cht->t", self.fractions[1:], self.copies) / self.purity)

    @property
    def ploidy(self) -> float:
        return float(np.average(self.mean_copies, weights=self.end - self.start))


def simulate_tumour(
    seed: int | None = None,
    n_bins: int = N_BINS,
    purity: float | None = None,
    doubled: bool | None = None,
    clones: int | None = None,
    noise: float = NOISE,
    events: int | None = None,
) -> Tumour:
    """Draw a tumour; what is None is drawn, too.

    purity : 0.2-0.9. clones : 1 or 2. noise : standard deviation of a bin's depth, relative to the mean depth.
    events : of the main clone. 0 gives a genome without any change.

    >>> tumour = simulate_tumour(seed=1, n_bins=500, purity=0.6, clones=2)
    >>> tumour.copies.shape, round(tumour.purity, 2), len(tumour.depth)
    ((2, 2, 500), 0.6, 500)
    """
    return simulate_patient(seed, 1, n_bins, None if purity is None else [purity], doubled, clones, noise, events)[0]


def simulate_patient(
    seed: int | None = None,
    n_samples: int = 2,
    n_bins: int = N_BINS,
    purities: Sequence[float] | None = None,
    doubled: bool | None = None,
    clones: int | None = None,
    noise: float = NOISE,
    events: int | None = None,
) -> list[Tumour]:
    """Draw samples of one patient: their clones are the same, purities and fractions of clones differ.

    The first sample is the tumour that `simulate_tumour` draws. In the others either clone may be absent.
    purities : one per sample. The rest: as in `simulate_tumour`.

    >>> one, other = simulate_patient(seed=1, n_bins=500, purities=[0.7, 0.3], clones=2)
    >>> bool((one.copies == other.copies).all()), other.fractions.round(2).tolist()
    (True, [0.7, 0.16, 0.14])
    """
    as_count("the number of bins", n_bins, len(CHROMOSOMES), MOST_SITES)  # at least one per chromosome
    as_count("the number of samples", n_samples, most=MOST_SAMPLES)
    if purities is not None and len(purities) != n_samples:
        raise InvalidInput(f"purities must be one per sample, {n_samples}, got {len(purities)}")
    for purity in purities or ():
        if not 0 < purity <= 1:
            raise InvalidInput(f"purity must be above 0 and at most 1, got {purity:g}")
    if clones not in (None, 1, 2):
        raise InvalidInput(f"clones must be 1 or 2, got {clones}")
    rng = np.random.default_rng(seed)
    purity = float(rng.uniform(0.2, 0.9)) if purities is None else purities[0]
    chosen_doubled = bool(rng.random() < 0.4) if doubled is None else doubled
    n_clones = int(rng.integers(1, 3)) if clones is None else clones
    sizes = chromosome_sizes(n_bins)
    copies = np.ones((n_clones, 2, n_bins), np.int64)
    n_events = int(rng.integers(12, 50)) if events is None else events
    _strike(copies[0], n_events, sizes, rng)
    if chosen_doubled:
        copies[0] *= 2
        _strike(copies[0], n_events // 2, sizes, rng)
    share = 1.0
    if n_clones == 2:
        copies[1] = copies[0]
        _strike(copies[1], max(4, n_events // 4), sizes, rng)
        share = float(rng.uniform(0.55, 0.85))
    found = []
    for number in range(n_samples):
        if number:
            purity = float(rng.uniform(0.2, 0.9)) if purities is None else purities[number]
            share = float(rng.choice([0.0, 1.0, rng.uniform()], p=OTHER_SHARES)) if n_clones == 2 else 1.0
        fractions = np.array([1 - purity, purity * share, purity * (1 - share)][: 1 + n_clones])
        found.append(_sequenced(copies, fractions, chosen_doubled, sizes, noise, rng))
    return found


def _sequenced(
    copies: npt.NDArray[np.int64],
    fractions: Floats,
    doubled: bool,
    sizes: list[int],
    noise: float,
    rng: np.random.Generator,
) -> Tumour:
    """Depth and allele counts of a sample with these fractions of normal cells and clones."""
    n_bins = sum(sizes)
    width = sum(CHROMOSOMES) * MEGABASE // n_bins
    start = np.concatenate([np.arange(n) * width for n in sizes])
    per_cell = fractions[0] + np.einsum("c,cht->ht", fractions[1:], copies)
    total = per_cell.sum(axis=0)
    relative = total / total.mean()
    scale = noise * np.sqrt(np.maximum(relative, 0.02))
    depth = np.maximum(relative + scale * rng.standard_normal(n_bins), 0.0)
    far = rng.random(n_bins) < 0.005
    depth[far] *= rng.uniform(0.3, 2.0, int(far.sum()))
    sites = rng.poisson(SITES_PER_MEGABASE * width / MEGABASE, n_bins)
    reads = rng.poisson(READS * sites * relative)
    first = per_cell[0] / total
    # Haplotypes are phased within a bin only: which one comes first changes from bin to bin.
    first = np.where(rng.random(n_bins) < 0.5, first, 1 - first)
    first = ERROR + (1 - 2 * ERROR) * first
    alpha = rng.binomial(reads, rng.beta(PRECISION * first, PRECISION * (1 - first)))
    return Tumour(
        chromosome=np.repeat([str(c + 1) for c in range(len(sizes))], sizes),
        start=start,
        end=start + width,
        depth=depth,
        alpha=alpha,
        beta=reads - alpha,
        sites=np.where(reads > 0, sites, 0),
        copies=copies,
        fractions=fractions,
        doubled=doubled,
    )


def _strike(copies: npt.NDArray[np.int64], n_events: int, sizes: list[int], rng: np.random.Generator) -> None:
    """Events on one genome (2, T): each changes the copies of one haplotype by one where there are any."""
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    for _ in range(n_events):
        c = int(rng.integers(len(sizes)))
        n = sizes[c]
        centre = max(1, min(n - 1, round(n * CENTROMERES[c] / CHROMOSOMES[c])))
        kind = rng.choice(KINDS, p=KIND_CHANCES)
        if kind == "chromosome":
            a, b = 0, n
        elif kind == "arm":
            a, b = (0, centre) if rng.random() < 0.5 else (centre, n)
        else:
            length = int(np.clip(rng.lognormal(np.log(n / 5), 0.8), 3, n))
            a = int(rng.integers(0, n - length + 1))
            b = a + length
        haplotype = int(rng.integers(2))
        here = copies[haplotype, firsts[c] + a : firsts[c] + b]
        if rng.random() < LOSS:
            # A stretch of which nothing is left would kill the cell, unless it is short.
            other = copies[1 - haplotype, firsts[c] + a : firsts[c] + b]
            here[(here > 0) & (here + other > 1)] -= 1
        else:
            here[(here > 0) & (here < 6)] += 1
