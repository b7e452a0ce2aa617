"""The tumour model: clones are rows of copy-number states, normal cells a fixed row, cell fractions the weights.

Levels of a column are the mean copies per cell, of the major and of the minor allele, and a mark of amplification:

    level = (1 - purity) * normal + purity * (main clone + sum_j fraction_j * change_j)

The main clone is a row of all copy-number states. A subclone j, a share fraction_j of the tumour cells, is a row of
changes against the main clone, nearly everywhere none. Depth is Student's t about scale * (copies per cell) / 2, and
alleles are a table over the minor allele fraction (`chiasma.tumour.noise`). Rows switch per base, through
gaps.

Columns are bins, or pieces of the genome (`chiasma.tumour.pieces`): purity, scale and fractions are learned on pieces
and copy numbers on bins.

Samples of one patient share the rows, that is the copy numbers of the clones, and differ in their parameters: each has
its own purity, scale, slack and fractions, and its own data on the same columns. Given the copy numbers they are
independent, so the likelihood of a column is a product over samples. Most functions here take a sequence of columns and
one of parameters, with an entry for every sample; a single sample is a sequence of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from chiasma.kernels.copy_number import (
    add_alleles,
    add_depth,
    allele_likelihoods,
    between,
    landscape,
    node_of,
    or_outside,
    piece_likelihoods,
)
from chiasma.kernels.copy_paths import cell_likelihoods, forward, posterior, run_evidence
from chiasma.models.additive import Additive
from chiasma.models.arguments import WEIGHTS, Argument
from chiasma.models.chains import Sticky
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.rows import Row
from chiasma.stopping import look
from chiasma.tumour.copy_states import CopyStates
from chiasma.types import Floats, Integers

# A gap is rounded to this share of itself: few kinds of gaps make few matrices.
GAP_ROUNDING = 0.1
LEAST_SPREAD = 0.05
# Depth of an unexplained column is uniform over 0 to this many times the mean depth.
WIDEST = 3.0
# Means of many bins have lighter tails than bins. The kernel of the evidence counts on seven degrees of freedom.
PIECE_DF = 7.0
# Cached likelihoods per sample: enough parameter sets for the finite differences of Newton's method.
KEPT_LIKELIHOODS = 10
# Levels of one allele in the grid of free levels: steps of a twentieth of the mean ploidy, up to twice the ploidy.
CELLS = 41
# Shares of the mean depth that come from normal cells, 1 - exp(first + k * step), and slacks, where free levels are
# computed; in between they are interpolated.
N_NORMAL, N_SLACKS = 25, 6
NORMAL_GRID = (float(np.log(0.025)), float(-np.log(0.025) / (N_NORMAL - 1)))
# Less probable runs with a free level are ignored in expectations.
LEAST_RUN = 1e-3
SLACK_NODES = 0.0025 * 2.0 ** np.arange(N_SLACKS)


@dataclass(frozen=True, kw_only=True)
class TumourParameters:
    """An explanation in numbers.

    purity : share of tumour cells. scale : depth of two copies. slack : relative error of the level of a piece.
    fractions : share of the tumour cells that each subclone makes up. doubled : whether the genome was doubled.
    free : probability that a new segment has a free level. outliers : probability that a short piece is unexplained.
    foreign : share of foreign reads, beyond the usual one: allele fractions are this much nearer to 1/2.
    """

    purity: float
    scale: float
    slack: float = 0.0
    fractions: tuple[float, ...] = ()
    doubled: bool = False
    free: float = 0.0
    outliers: float = 0.0
    foreign: float = 0.0

    @property
    def n_clones(self) -> int:
        return 1 + len(self.fractions)

    @property
    def clone_fractions(self) -> tuple[float, ...]:
        """Of all cells: normal, main clone, subclones."""
        subclones = tuple(self.purity * share for share in self.fractions)
        return (1 - self.purity, self.purity - sum(subclones), *subclones)


@dataclass(frozen=True)
class DepthNoise:
    """Of depth: df degrees of freedom, growth with the level, the mean depth, P(a long column is unexplained)."""

    df: float
    growth: float
    unit: float
    unexplained: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CopyColumns:
    """Bins or pieces (T,), ready for the model.

    depth, its standard error sd at mean depth, NaN: missing; power : weight of its log-likelihood.
    table (T, G) : log-likelihoods of minor allele fractions, (T, 0) if alleles are unknown. middle : in bases.
    change_rate : changes of state per base. short (T,) : columns whose share of outliers is learned; default: none.
    broad (T, G) : the table for free levels, which err by half a cell; None: no free levels. nodes : cache of
    free levels, shared by columns with the same broad table.
    """

    depth: Floats
    sd: Floats
    power: Floats
    table: Floats
    starts: Integers
    middle: Floats
    change_rate: float
    noise: DepthNoise
    short: np.ndarray | None = None
    broad: Floats | None = None
    nodes: dict[tuple[int, int], Floats] = field(default_factory=dict, repr=False, compare=False)

    @property
    def has_alleles(self) -> bool:
        return self.table.shape[1] > 0

    def states(self, doubled: bool, most: int) -> CopyStates:
        return shared_states((self,), doubled, most)

    @cached_property
    def flat(self) -> Floats:
        """(T,) log of the mean likelihood over all fractions; NaN if there are no alleles."""
        if not self.has_alleles:
            return np.full(len(self.depth), np.nan)
        top = self.table.max(axis=1)
        return np.asarray(top + np.log(np.exp(self.table - top[:, None]).mean(axis=1)))

    @cached_property
    def scaled_table(self) -> tuple[Floats, Floats, float, Floats]:
        """Likelihoods (T, G), 1 at the largest, their means (T,), and logs of the largest: their sum over the columns
        that have a depth, and each (T,).
        """
        if not self.has_alleles:
            return self.table, self.flat, 0.0, np.zeros(len(self.depth))
        top = self.table.max(axis=1)
        seen = ~np.isnan(self.depth)
        every = np.where(seen, np.nan_to_num(top), 0.0)
        return np.exp(self.table - top[:, None]), np.exp(self.flat - top), float(every.sum()), every

    @cached_property
    def stay(self) -> Floats:
        """(T,) probability that a column continues the state before it."""
        return np.asarray(np.append(0.0, np.where(self._inside[1:], (1 - self.renew) ** self._gaps, 0.0)))

    @cached_property
    def observations(self) -> Observations:
        """y (T, 4 + G): depth, sd, power, flat, table; gaps in units of the median distance."""
        y = np.column_stack([self.depth, self.sd, self.power, self.flat, self.table])
        return Observations(y, self.starts, self._gaps)

    @cached_property
    def gap_unit(self) -> float:
        distance = np.diff(self.middle)[self._inside[1:]]
        return float(np.median(distance)) if len(distance) else 1.0

    @cached_property
    def _inside(self) -> np.ndarray:
        inside = np.ones(len(self.depth), bool)
        inside[self.starts] = False
        return inside

    @property
    def _gaps(self) -> Floats:
        gaps = np.where(self._inside[1:], np.maximum(np.diff(self.middle) / self.gap_unit, 1e-6), 1.0)
        return np.exp(np.round(np.log(gaps) / GAP_ROUNDING) * GAP_ROUNDING)

    def unexplained(self, outliers: float) -> Floats:
        """(T,) probability that a column is unexplained."""
        usual = np.full(len(self.depth), self.noise.unexplained)
        return usual if self.short is None else np.where(self.short, outliers, usual)

    @cached_property
    def free_levels(self) -> FreeLevels | None:
        return None if self.broad is None else FreeLevels(self)

    @property
    def renew(self) -> float:
        """Probability that a row is drawn anew over one unit of gaps."""
        return float(-np.expm1(-self.change_rate * self.gap_unit))


class FreeLevels:
    """Log evidence (P,) of all runs of pieces of one sample, each at one free level (`chiasma.kernels.copy_paths`).

    It depends on the depth of the normal cells, relative to the mean, and on the slack: it is computed at nodes of both
    when they are needed, and interpolated. It is relative to the constant of `CopyColumns.scaled_table`.
    """

    def __init__(self, pieces: CopyColumns):
        self.pieces = pieces
        self.offset, self.ends = runs_of(pieces.starts, len(pieces.depth))
        self._known = pieces.nodes
        self._stacked: dict[int, Floats] = {}
        table = pieces.broad
        assert table is not None
        top, own = (np.nan_to_num(one.max(axis=1)) if one.shape[1] else 0.0 for one in (table, pieces.table))
        self._alleles = np.exp(table - np.reshape(top, (-1, 1))) if table.shape[1] else table
        self._flat = self._alleles.mean(axis=1) if table.shape[1] else pieces.flat
        seen = ~np.isnan(pieces.depth)
        more = np.cumsum(np.append(0.0, np.where(seen, top - own, 0.0)))
        first = np.repeat(np.arange(len(self.ends)), self.ends - np.arange(len(self.ends)))
        last = np.arange(len(first)) - self.offset[first] + first
        self.first, self.last = first, last
        self._more = more[last + 1] - more[first]

    def at(self, own: TumourParameters) -> Floats:
        """(P,) interpolated."""
        noise = self.pieces.noise
        x = node_of(own.scale * (1 - own.purity) / noise.unit, NORMAL_GRID)
        y = np.clip(np.log(own.slack / SLACK_NODES[0]) / np.log(SLACK_NODES[1] / SLACK_NODES[0]), 0, N_SLACKS - 1.001)
        k = min(max(int(x) - 1, 0), N_NORMAL - 4)
        out, low = np.empty((2, len(self._more))), int(y)
        for i in range(2):
            four = np.array([self._node(j, low + i) for j in range(k, k + 4)])
            between(four, min(max(x, 0.0), N_NORMAL - 1.0) - k, out[i])
        return np.asarray(out[0] + (y - low) * (out[1] - out[0]) + self._more)

    def over_normal(self, slack: float) -> Floats:
        """(K, P) at all nodes of the normal cells, for the slack of the grid that is the nearest."""
        near = int(np.argmin(np.abs(np.log(SLACK_NODES / slack))))
        if near not in self._stacked:
            self._stacked[near] = np.array([self._node(k, near) for k in range(N_NORMAL)]) + self._more
        return self._stacked[near]

    def _node(self, k: int, slack: int) -> Floats:
        if (k, slack) not in self._known:
            pieces, noise = self.pieces, self.pieces.noise
            normal = 1 - np.exp(NORMAL_GRID[0] + k * NORMAL_GRID[1])
            n = CELLS * (CELLS + 1) // 2 if pieces.has_alleles else 2 * CELLS - 1
            cells, out = np.empty((len(pieces.depth), n)), np.empty(len(self._more))
            cell_likelihoods(
                *(pieces.depth, pieces.sd, self._alleles, self._flat, normal * noise.unit, noise.growth, noise.unit),
                *(float(SLACK_NODES[slack]), noise.unexplained, cells),
            )
            run_evidence(cells, self.offset, self.ends, out)
            self._known[k, slack] = out
        return self._known[k, slack]


def runs_of(starts: Integers, n: int) -> tuple[Integers, Integers]:
    """offset and ends (C,) of the runs of n pieces, see `chiasma.kernels.copy_paths`."""
    sizes = np.diff(starts, append=n)
    ends = np.repeat(starts + sizes, sizes)
    return np.append(0, np.cumsum(ends - np.arange(n))[:-1]), ends


def shared_states(samples: Sequence[CopyColumns], doubled: bool, most: int) -> CopyStates:
    """The states of clones that these samples share: they tell alleles apart if one of the samples does."""
    return _states(most, any(one.has_alleles for one in samples), doubled)


@lru_cache
def _states(most: int, alleles: bool, doubled: bool) -> CopyStates:
    """One of each, as its tables are made once."""
    return CopyStates(most=most, alleles=alleles, doubled=doubled)


class CopyNumber(Additive):
    """Depth and alleles of a column, given copies per cell: levels (N, 3), y as `CopyColumns.observations` has it.

    own : scale, slack and foreign reads. least : least copies per cell of either allele, those of normal cells; a
    subclone cannot lose what is not there.
    """

    arguments: ClassVar[Mapping[str, Argument]] = {"weights": WEIGHTS}
    in_settings = False

    def __init__(self, own: TumourParameters, noise: DepthNoise, least: Floats):
        super().__init__(None)
        self.own, self.noise, self.least = own, noise, least

    def check(self, data: Observations) -> None:
        """The columns of y are made by `CopyColumns`."""

    def log_likelihood(self, y: Floats, level: Floats) -> Floats:
        out = np.zeros((len(y), len(level)))
        noise = self.noise
        amplified = level[:, 2] > 0
        total = level[:, 0] + level[:, 1] - 0.5 * level[:, 2]
        mu = self.own.scale * np.maximum(total, 1e-3) / 2
        spread = np.maximum(mu / noise.unit, LEAST_SPREAD) ** noise.growth
        depth, sd, power, flat = (np.ascontiguousarray(y[:, i]) for i in range(4))
        add_depth(depth, sd, mu, spread, amplified, noise.df, power, self.own.slack, out)
        if y.shape[1] > 4:
            fraction = seen_fraction(level[:, :2], self.own.foreign)
            add_alleles(y[:, 4:], flat, fraction, amplified, out)
        if noise.unexplained:
            outside = np.log(noise.unexplained / (WIDEST * noise.unit)) + np.nan_to_num(flat)
            or_outside(out, outside, np.log1p(-noise.unexplained), depth)
        out[:, np.any(level[:, :2] < self.least - 1e-9, axis=1)] = -np.inf
        return out

    def log_density(self, y: Floats, level: Floats) -> Floats:
        raise NotImplementedError("the density of a column is that of depth and alleles together: log_likelihood")

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        raise NotImplementedError("simulate a tumour with chiasma.datasets.tumours")


class Samples(Additive):
    """Samples that share their clones: levels (N, 3 each) and y side by side, independent given the levels.

    parts : the emission of every sample. widths : how many columns of y are its own.
    """

    arguments: ClassVar[Mapping[str, Argument]] = {"weights": WEIGHTS}
    in_settings = False

    def __init__(self, parts: Sequence[CopyNumber], widths: Sequence[int]):
        super().__init__(None)
        self.parts, self.ends = tuple(parts), np.cumsum(widths)

    def check(self, data: Observations) -> None:
        """The columns of y are made by `CopyColumns`."""

    def log_likelihoods(self, y: Floats, level: Floats) -> list[Floats]:
        """Those of every sample by itself."""
        own_y = np.split(y, self.ends[:-1], axis=1)
        own_levels = np.split(level, len(self.parts), axis=1)
        return [one.log_likelihood(*given) for one, *given in zip(self.parts, own_y, own_levels, strict=True)]

    def log_likelihood(self, y: Floats, level: Floats) -> Floats:
        return np.asarray(sum(self.log_likelihoods(y, level)))

    def log_density(self, y: Floats, level: Floats) -> Floats:
        raise NotImplementedError("the density of a column is that of all samples together: log_likelihood")

    def sample(self, level: Floats, rng: np.random.Generator) -> Floats:
        raise NotImplementedError("simulate a tumour with chiasma.datasets.tumours")


def model_of(
    samples: Sequence[CopyColumns],
    parameters: Sequence[TumourParameters],
    most: int,
    probabilities: Floats | None = None,
) -> FactorialHMM:
    """The model at these parameters: normal cells, the main clone, and the changes of subclones.

    probabilities (S,) : of the states of a new segment; default: those of `CopyStates`.
    """
    first = samples[0]
    states = shared_states(samples, parameters[0].doubled, most)
    normal = [(1 - own.purity) * np.array([[0.0, 0.0, 0.0], [*states.normal, 0.0]]) for own in parameters]
    main = [own.purity * states.values for own in parameters]
    chain = Sticky(first.renew, states.probabilities if probabilities is None else probabilities)
    rows = [Row(np.hstack(normal), name="normal", fixed=1), Row(np.hstack(main), chain, name="main")]
    for j in range(1, parameters[0].n_clones):
        change = Sticky(first.renew, states.change_probabilities)
        values = [own.purity * own.fractions[j - 1] * states.changes for own in parameters]
        rows.append(Row(np.hstack(values), change, name=f"subclone_{j}"))
    parts = [
        CopyNumber(own, one.noise, least[1, :2]) for one, own, least in zip(samples, parameters, normal, strict=True)
    ]
    emission = Samples(parts, [one.observations.y.shape[1] for one in samples])
    return FactorialHMM(rows=rows, emission=emission)


def observations_of(samples: Sequence[CopyColumns]) -> Observations:
    """The data of all samples on their columns, for `model_of`."""
    first = samples[0].observations
    return Observations(np.hstack([one.observations.y for one in samples]), first.starts, first.gaps)


# ---- Evidence of pieces ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JointStates:
    """The joint states (N,) of all clones at the shares of the subclones in a sample.

    values (N, 2) : copies per tumour cell. levels (L, 2), which (N,) : their totals. sizes (R,) : states of the rows,
    with probabilities (sum of sizes,).
    """

    values: Floats
    levels: Floats
    which: Integers
    sizes: Integers
    probabilities: Floats

    @classmethod
    def of(cls, states: CopyStates, shares: Sequence[float], probabilities: Floats) -> JointStates:
        """probabilities (S,) : of the states of the main clone."""
        values, every, sizes = states.values, [probabilities], [states.n_states]
        levels, which = states.levels
        more, which_more = states.change_levels
        for share in shares:
            values = (values[:, None] + share * states.changes).reshape(-1, 3)
            levels = (levels[:, None] + share * more).reshape(-1, 2)
            which = (which[:, None] * len(more) + which_more).ravel()
            every.append(states.change_probabilities)
            sizes.append(len(states.changes))
        return cls(np.ascontiguousarray(values[:, :2]), levels, which, np.array(sizes), np.concatenate(every))


def seen_fraction(copies: Floats, foreign: float) -> Floats:
    """(N,) minor allele fractions, relative to those of usual foreign reads, at copies per cell of two alleles (N, 2).

    >>> seen_fraction(np.array([[3.0, 1.0], [2.0, 0.0]]), foreign=0.02).tolist()
    [0.255, 0.01]
    """
    fraction = np.maximum(copies.min(axis=1), 0) / np.maximum(copies.sum(axis=1), 1e-3)
    return np.asarray(0.5 - (1 - foreign) * (0.5 - fraction))


def likelihoods(pieces: CopyColumns, states: CopyStates, own: TumourParameters) -> tuple[Floats, float]:
    """(C, N) likelihood of the pieces of one sample in all joint states, and the log of a factor that is left out."""
    joint = JointStates.of(states, own.fractions, states.probabilities)
    table, flat, constant, _ = pieces.scaled_table
    out = np.empty((len(pieces.depth), len(joint.values)))
    alleles = np.empty((len(table) if pieces.has_alleles else 0, len(joint.values)))
    if pieces.has_alleles:
        allele_likelihoods(table, joint.values, own.purity, own.foreign, alleles)
    piece_likelihoods(
        *(pieces.depth, pieces.sd, flat, alleles, joint.values, joint.levels, joint.which),
        *(own.purity, own.scale, _noise_of(pieces, own.slack), pieces.unexplained(own.outliers), out),
    )
    return out, constant


@dataclass(frozen=True)
class PiecePosterior:
    """Posterior probabilities of pieces: joint (C, N) of the states of all clones, free (C,) of a free level.

    main (C, S) : of the states of the main clone. runs (P,) : of runs with a free level, from piece first to piece last
    (P,). fit (C,) : expected log-likelihood of the data, given the copy numbers.
    """

    joint: Floats
    main: Floats
    free: Floats
    runs: Floats
    first: Integers
    last: Integers
    fit: Floats


class CopyEvidence:
    """log p(depth, alleles | parameters) of the pieces of samples, all copy-number paths summed.

    The same as the exact passes give for `model_of`, but much faster. Likelihoods of the last few parameters are kept:
    if only one sample's parameters change, the others are not recomputed.

    A segment with a free level has a different one in every sample.

    probabilities (S,) : of the states of a new segment; default: those of `CopyStates`.
    """

    def __init__(self, samples: Sequence[CopyColumns], most: int, doubled: bool, probabilities: Floats | None = None):
        self.samples, self.states = samples, shared_states(samples, doubled, most)
        self.probabilities = self.states.probabilities if probabilities is None else probabilities
        self.offset, self.ends = runs_of(samples[0].starts, len(samples[0].depth))
        self._known: dict[tuple[int, TumourParameters], tuple[Floats, float]] = {}
        self._known_runs: dict[tuple[int, TumourParameters], Floats] = {}

    def _likelihoods(self, number: int, own: TumourParameters) -> tuple[Floats, float]:
        key = (number, replace(own, free=0.0))
        if key not in self._known:
            self._make_room(self._known)
            self._known[key] = likelihoods(self.samples[number], self.states, own)
        return self._known[key]

    def _runs(self, number: int, own: TumourParameters) -> Floats:
        key = (number, TumourParameters(purity=own.purity, scale=own.scale, slack=own.slack))
        if key not in self._known_runs:
            self._make_room(self._known_runs)
            levels = self.samples[number].free_levels
            assert levels is not None
            self._known_runs[key] = levels.at(own)
        return self._known_runs[key]

    def _make_room(self, known: dict[tuple[int, TumourParameters], Any]) -> None:
        """Drop the oldest entries. A cache of bound methods would keep this object, and megabytes, alive."""
        if len(known) >= KEPT_LIKELIHOODS * len(self.samples):
            del known[next(iter(known))]

    def _parts(self, parameters: Sequence[TumourParameters]) -> tuple[Floats, Floats, JointStates, Floats, float]:
        """Likelihoods of the first sample, of the others together, the joint states, the runs, the constant."""
        found = [self._likelihoods(number, own) for number, own in enumerate(parameters)]
        free = parameters[0].free if all(one.broad is not None for one in self.samples) else 0.0
        joint = JointStates.of(self.states, parameters[0].fractions, self.probabilities * (1 - free))
        (first, _), *more = found
        others = np.empty((0, first.shape[1])) if not more else np.prod([one for one, _ in more], axis=0)
        runs = np.empty(0)
        if free:
            each = [self._runs(number, own) for number, own in enumerate(parameters)]
            runs = np.sum(each, axis=0)
        return first, others, joint, runs, float(sum(constant for _, constant in found))

    def at(self, parameters: Sequence[TumourParameters]) -> float:
        look()
        first, others, joint, runs, constant = self._parts(parameters)
        stay = self.samples[0].stay
        total = forward(first, others, stay, joint.probabilities, joint.sizes, runs, self.offset, self.ends)
        return float(total + constant)

    def outliers(self, number: int, own: TumourParameters, found: PiecePosterior) -> Floats:
        """(C,) posterior probability that a piece of this sample is an outlier; not within a free level."""
        every, _ = self._likelihoods(number, own)
        pieces = self.samples[number]
        _, flat, _, _ = pieces.scaled_table
        outside = pieces.unexplained(own.outliers) / (WIDEST * pieces.noise.unit) * np.where(np.isnan(flat), 1.0, flat)
        share = np.divide(outside[:, None], every, out=np.zeros_like(every), where=every > 0)
        return np.where(np.isnan(pieces.depth), 0.0, (found.joint * share).sum(axis=1))

    def homozygous_runs(self, number: int, own: TumourParameters, found: PiecePosterior, share: float) -> Floats:
        """(C,) posterior probability that a piece of this sample is a germline run of homozygosity, not within a free
        level. share : its prior, of which the table is a mixture.
        """
        table = self.samples[number].table
        joint = JointStates.of(self.states, own.fractions, self.probabilities)
        fraction = seen_fraction(1 - own.purity + own.purity * joint.values, own.foreign)
        node = np.round(2 * np.clip(fraction, 0, 0.5) * (table.shape[1] - 1)).astype(int)
        runs = np.minimum(share * np.exp(np.minimum(table[:, :1] - table[:, node], 0.0 - np.log(share))), 1.0)
        return np.nan_to_num((found.joint * runs).sum(axis=1))

    def posterior(self, parameters: Sequence[TumourParameters]) -> PiecePosterior:
        """Posterior probabilities of the pieces."""
        every, others, joint, runs, _ = self._parts(parameters)
        every = every * others if len(others) else every
        n_pieces = len(every)
        out, free = np.empty_like(every), np.zeros(max(len(runs), 1))
        posterior(
            *(every, self.samples[0].stay, joint.probabilities, joint.sizes, runs, self.offset, self.ends, out, free)
        )
        first = np.repeat(np.arange(n_pieces), self.ends - np.arange(n_pieces))
        last = np.arange(len(first)) - self.offset[first] + first
        covered = np.zeros(n_pieces + 1)
        if len(runs):
            np.add.at(covered, first, free)
            np.add.at(covered, last + 1, -free)
        with np.errstate(divide="ignore", invalid="ignore"):
            fit = np.where(out > 0, out * np.log(every), 0.0).sum(axis=1)
        fit += sum(one.scaled_table[3] for one in self.samples)
        # The evidence of a run belongs to all of its pieces.
        for run in np.flatnonzero(free > LEAST_RUN):
            fit[first[run] : last[run] + 1] += free[run] * runs[run] / (last[run] + 1 - first[run])
        return PiecePosterior(
            joint=out,
            main=out.reshape(n_pieces, joint.sizes[0], -1).sum(axis=2),
            free=np.clip(np.cumsum(covered)[:-1], 0.0, 1.0),
            runs=free,
            first=first,
            last=last,
            fit=fit,
        )


def log_evidence(
    samples: Sequence[CopyColumns],
    parameters: Sequence[TumourParameters],
    most: int,
    probabilities: Floats | None = None,
) -> float:
    """The evidence of the pieces of samples at one set of parameters, see `CopyEvidence`."""
    return CopyEvidence(samples, most, parameters[0].doubled, probabilities).at(parameters)


def evidence_map(
    pieces: CopyColumns,
    states: CopyStates,
    probabilities: Floats,
    shares: Sequence[float],
    purities: Floats,
    scales: Floats,
    slack: float,
    others: Floats | None = None,
    free: float = 0.0,
    outliers: float = 0.0,
    foreign: float = 0.0,
) -> Floats:
    """(P, Q) log evidence at purities (P,) and scales (Q,); probabilities (S,) of the states of the main clone.

    others (C, N) : likelihoods of other samples with the same clones, see `likelihoods`. free, outliers, foreign : see
    `TumourParameters`; the slack of free levels is rounded.
    """
    levels = pieces.free_levels if free else None
    joint = JointStates.of(states, shares, probabilities * (1 - (free if levels else 0.0)))
    table, flat, constant, _ = pieces.scaled_table
    out = np.empty((len(purities), len(scales)))
    offset, ends = runs_of(pieces.starts, len(pieces.depth))
    landscape(
        *(pieces.depth, pieces.sd, table, flat, np.empty((0, len(joint.values))) if others is None else others),
        *(pieces.stay, joint.probabilities, joint.sizes, joint.values, joint.levels, joint.which),
        *(purities, scales, _noise_of(pieces, slack), pieces.unexplained(outliers), foreign, NORMAL_GRID),
        *(np.empty((0, 0)) if levels is None else levels.over_normal(slack), offset, ends, out),
    )
    return out + constant


def _noise_of(pieces: CopyColumns, slack: float) -> tuple[float, float, float]:
    """Growth, unit, slack, for the kernels."""
    noise = pieces.noise
    if noise.df != PIECE_DF:
        raise ValueError(f"pieces have {PIECE_DF:g} degrees of freedom, got {noise.df:g}")
    return noise.growth, noise.unit, slack
