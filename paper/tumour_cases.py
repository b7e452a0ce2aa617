"""Genomes of the tumour analysis, the posteriors from each sampler, and the exact posterior for comparison.

A case holds the states (K, T) that made its data. Simulated: K = 6 rows, the last fixed to 1, T = 10,877 bins on 22
chromosomes, depth N(180, 30^2) integrated out. The patient of the paper is not public, so three chromosomes are built
to be ambiguous as its were (rows from 0):
    17    row 4, and row 2 in two of five segments; rows 0 and 1 together weigh as much as row 4 and may take turns
    21    row 2 alone: an extra copy
    22    rows 2 and 3, which weigh as much as rows 1 and 4: row 2 may or may not be there
Real: an ovarian tumour, K = 8, exchangeable rows over a baseline, read through the number of rows that are on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.datasets import genome
from chiasma.io.columns import Columns
from chiasma.io.tables import read_signal
from chiasma.kernels.codes import pack
from chiasma.kernels.layout import make_layout, unpack_codes
from chiasma.models.chains import Switches
from chiasma.models.emissions import Gaussian, IntegratedDepth
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results import configurations
from chiasma.results.configurations import state_text
from chiasma.results.posterior import Posterior
from chiasma.sampling.sampler import sample
from chiasma.sampling.updates import HammingBall
from paper import timings
from paper.timings import CHAINS, EXACT, PAPER

DEPTH_MEAN, DEPTH_SD, SD = 180.0, 30.0, 5.0
SWITCHING, RADIUS = 0.001, 3
SAMPLERS = (*PAPER, "mosaic")
AMBIGUOUS = (17, 21, 22)
BURN_IN = 5  # one part in five, as in the paper: 10,000 of 50,000
N_SEGMENTS, N_FREE, TOP = 5, 5, 4

# Location of the real profile, and how it is scaled: relative copy number x 100, divided by its median segment.
DATA_VARIABLE = "CHIASMA_DATA"
DATA_FILE, SAMPLE = "rascal_hgsoc_300kb.tsv", "Y17204"
REAL_WEIGHTS = (0.222, *(0.111,) * 7)
REAL_DEPTH, REAL_SD, REAL_SWITCHING = 184.0, 7.5, 0.0005
CLIP = (20.0, 200.0)

LAYOUT = make_layout([2] * len(genome.WEIGHTS))


class Case(NamedTuple):
    """A model, its data, the chromosome of every sequence, and the states (K, T); none where they are unknown."""

    model: FactorialHMM
    data: Observations
    chromosomes: tuple[int, ...]
    states: npt.NDArray[np.int8]

    def span(self, chromosome: int) -> tuple[int, int]:
        """First column of a chromosome, and the column after it."""
        edges = [*self.data.starts.tolist(), self.data.n_columns]
        place = self.chromosomes.index(chromosome)
        return edges[place], edges[place + 1]

    def only(self, chromosomes: tuple[int, ...]) -> Case:
        """These chromosomes alone."""
        spans = [self.span(chromosome) for chromosome in chromosomes]
        columns = np.concatenate([np.arange(*span) for span in spans])
        starts = np.cumsum([0, *(stop - first for first, stop in spans)])[:-1]
        return self._replace(
            data=Observations(self.data.y[columns], starts), chromosomes=chromosomes, states=self.states[:, columns]
        )


class Outcome(NamedTuple):
    """Posteriors of one case by name, the exact draws first; band: mean, 5% and 95% of the exact log joint."""

    case: Case
    posteriors: dict[str, Posterior]
    band: tuple[float, float, float]

    def seconds(self) -> dict[str, float]:
        return {name: float(posterior.info["timings"]["draws"]) for name, posterior in self.posteriors.items()}


def ambiguous_genome(seed: int, n_bins: int) -> Case:
    """States drawn from the prior, except on the three chromosomes; the signal drawn from the emission."""
    emission = IntegratedDepth(genome.WEIGHTS, depth_mean=DEPTH_MEAN, depth_sd=DEPTH_SD, sd=SD)
    chains = Switches(enter=SWITCHING, leave=SWITCHING, initial=0.5)
    model = FactorialHMM(rows=chains, emission=emission, fixed=genome.FIXED_ROWS)
    sizes = genome.chromosome_sizes(n_bins)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rng = np.random.default_rng(seed)
    states, _ = model.simulate(n_bins, rng, starts)
    case = Case(model, Observations(np.zeros(n_bins), starts), tuple(range(1, len(sizes) + 1)), states)
    for chromosome, rows in zip(AMBIGUOUS, ([4], [2], [2, 3]), strict=True):
        first, stop = case.span(chromosome)
        states[:N_FREE, first:stop] = 0
        states[rows, first:stop] = 1
    first, stop = case.span(AMBIGUOUS[0])
    states[2, first:stop] = N_SEGMENTS * np.arange(stop - first) // (stop - first) % 2
    y = emission.sample(states.T @ emission.weights, rng)
    return case._replace(data=Observations(y, starts))


def real_profile(path: Path, first_chromosome: int) -> Case:
    """The autosomes of the tumour from the given one on."""
    ratio = read_signal(path, Columns(value=f"ratio_{SAMPLE}", chromosome="chrom"))
    segmented = read_signal(path, Columns(value=f"seg_{SAMPLE}", chromosome="chrom")).data.y
    labels = np.array(ratio.chromosome)
    inside = np.isin(labels, [str(c) for c in range(first_chromosome, 23)])
    y = np.clip(100 * ratio.data.y[inside] / np.nanmedian(segmented), *CLIP)
    starts = np.flatnonzero(np.append(True, labels[inside][1:] != labels[inside][:-1]))
    emission = Gaussian(weights=REAL_WEIGHTS, depth=REAL_DEPTH, sd=REAL_SD)
    chains = Switches(enter=REAL_SWITCHING, leave=REAL_SWITCHING, initial=0.5)
    model = FactorialHMM(rows=chains, emission=emission, fixed={0: 1})
    chromosomes = tuple(int(label) for label in labels[inside][starts])
    return Case(model, Observations(y, starts), chromosomes, np.zeros((0, len(y)), np.int8))


def real_path() -> Path | None:
    """The file of the profile, if the environment variable gives its folder."""
    folder = os.environ.get(DATA_VARIABLE)
    return path if folder and (path := Path(folder) / DATA_FILE).is_file() else None


def examine(case: Case, n_iterations: int, thin: int, n_exact: int, seed: int) -> Outcome:
    """Exact draws, and all samplers from one draw of the prior."""
    model, data = case.model, case.data
    start, _ = model.simulate(data.n_columns, seed, data.starts)
    shared: dict[str, Any] = {"chains": CHAINS, "workers": timings.WORKERS, "progress": False}
    ball: dict[str, Any] = {"update": HammingBall(radius=RADIUS), "init": start} | shared
    # Run once at the smallest size, so that timings exclude compilation.
    for name in SAMPLERS:
        sample(model, data, **timings.options_of(name), draws=1, thin=timings.EXCHANGE_EVERY, seed=seed, **ball)
    sample(model, data, update="exact", draws=1, seed=seed, **shared)
    posteriors = {EXACT: sample(model, data, update="exact", draws=n_exact, seed=seed, **shared)}
    for i, name in enumerate(SAMPLERS):
        options: dict[str, Any] = timings.options_of(name) | {"seed": timings.own_seed(seed, i)}
        posteriors[name] = sample(model, data, **options, draws=n_iterations // thin, thin=thin, **ball)
    return Outcome(case, posteriors, timings.exact_band(posteriors[EXACT]))


def late(values: xr.DataArray) -> xr.DataArray:
    """(chain, draw, ...) without the burn-in."""
    return values[:, values.shape[1] // BURN_IN :]


def from_exact(outcome: Outcome) -> dict[str, list[float]]:
    """Mean log joint of the last fifth of every chain, minus the exact mean."""
    log = {name: posterior.log_joint.values for name, posterior in outcome.posteriors.items()}
    return {name: (v[:, -v.shape[1] // BURN_IN :].mean(axis=1) - outcome.band[0]).tolist() for name, v in log.items()}


def switches(codes: npt.NDArray[Any]) -> list[float]:
    """Mean number of switches of rows along codes (chain, draw, T), for every chain."""
    along = np.bitwise_count(codes[..., 1:] ^ codes[..., :-1]).sum(axis=-1)
    return [float(mean) for mean in along.mean(axis=1)]


class Share(NamedTuple):
    """A configuration at a few columns, and its probability by exact draws and by every chain of every sampler."""

    place: str
    configuration: str
    exact: float
    error: float  # standard error of the exact probability
    by_chain: dict[str, list[float]]

    def probability(self, sampler: str) -> float:
        return self.exact if sampler == EXACT else float(np.mean(self.by_chain[sampler]))

    @classmethod
    def of(cls, place: str, configuration: str, hits: Mapping[str, npt.NDArray[np.bool_]]) -> Share:  # (chain, draw)
        p = float(hits[EXACT].mean())
        by_chain = {name: hit.mean(axis=1).tolist() for name, hit in hits.items() if name != EXACT}
        return cls(place, configuration, p, float(np.sqrt(p * (1 - p) / hits[EXACT].size)), by_chain)


def shares(outcome: Outcome) -> list[Share]:
    """Configurations at the middles of segments: the most probable by exact draws, and those above 0.1 by a sampler."""
    first, stop = outcome.case.span(17)
    middles = [first + (2 * i + 1) * (stop - first) // (2 * N_SEGMENTS) for i in range(N_SEGMENTS)]
    places = {"17": middles, "21 and 22": [sum(outcome.case.span(c)) // 2 for c in (21, 22)]}
    out = []
    for place, columns in places.items():
        codes = {name: late(p.codes[..., columns]) for name, p in outcome.posteriors.items()}
        patterns: dict[bytes, npt.NDArray[Any]] = {}
        for name, some in codes.items():
            for top in configurations.top_configurations(some, LAYOUT, 0, len(columns), TOP):
                if name == EXACT or top.probability > 0.1:
                    patterns.setdefault(top.states.tobytes(), pack(top.states))
        for pattern in patterns.values():
            text = " | ".join(state_text(states)[:N_FREE] for states in unpack_codes(np.asarray(pattern), LAYOUT).T)
            out.append(Share.of(place, text, {n: (c.values == pattern).all(axis=-1) for n, c in codes.items()}))
    return out


def totals(outcome: Outcome) -> list[Share]:
    """Numbers of rows on at the observed bin where exact draws are least certain of it, on the last two chromosomes."""
    out = []
    counts = {name: late(p.rows_on()).values for name, p in outcome.posteriors.items()}
    for chromosome in (21, 22):
        first, stop = outcome.case.span(chromosome)
        seen = ~outcome.case.data.missing[first:stop]
        column = first + int((seen * counts[EXACT][..., first:stop].std(axis=(0, 1))).argmax())
        for total in np.unique(counts[EXACT][..., column]):
            hits = {name: count[..., column] == total for name, count in counts.items()}
            out.append(Share.of(f"{chromosome}, bin {column - first}", f"{total} rows on", hits))
    return out


def errors(listed: Sequence[Share], sampler: str) -> list[float]:
    """Mean absolute error of the probabilities, for every chain."""
    probabilities = np.array([share.by_chain[sampler] for share in listed])
    return [float(e) for e in np.abs(probabilities - np.array([[share.exact] for share in listed])).mean(axis=0)]
