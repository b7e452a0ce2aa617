"""Where sites are on the x axis: by their number, by their position, or along chromosomes in megabases.

A site covers left..right of the axis: t - 1/2 to t + 1/2 where sites have numbers only. A stretch is what a figure
shows: sites start..stop-1, or blocks of neighbours where there are more sites than pixels. A block keeps the lowest and
the highest of its values, so that no peak is lost. Where nothing was measured for more than a few sites, and between
sites that are apart, a stretch is blank.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.models.observations import Observations
from chiasma.results.spacing import BRIDGED, apart, site_ends
from chiasma.types import Floats, Integers, as_floats

MEGABASE = 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
    """What a data file says of its sites: pass it as `labels` of a plot.

    Parameters
    ----------
    names : of the sequences, in their order; default: 1, 2, ...
    position, end : (T,) where each site begins and ends; default of the ends: `site_ends`.
    value : the name of the signal.
    axis : the name of the positions where there are no chromosomes.
    zone : time zone of positions that are seconds since 1970, such as datetime.UTC: the axis has dates and times.
        Default: positions are numbers.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> labels = ch.plots.Labels(position=[10.0, 20.0, 30.0, 40.0], value="current (pA)")
    >>> ch.plots.plot_level(posterior, labels=labels).get_ylabel()
    'current (pA)'
    """

    names: tuple[str, ...] | None = None
    position: Floats | None = None
    end: Floats | None = None
    value: str = "signal"
    axis: str = "position"
    zone: tzinfo | None = None

    def __post_init__(self) -> None:
        for name in ("position", "end"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_floats(name, getattr(self, name)))

    @property
    def scale(self) -> float:
        """What one unit of the axis is in the units of the positions: a megabase where there are chromosomes."""
        return MEGABASE if self.unit else 1.0

    @property
    def unit(self) -> str:
        """Of the axis; empty where positions have no unit."""
        return "Mb" if self.names is not None and self.zone is None else ""


class Piece(NamedTuple):
    """The part of a sequence that a stretch shows: its name, and where it is on the axis.

    A position is (x - left + offset) of a point x of the axis.
    """

    name: str
    left: float
    right: float
    offset: float


class SiteRange:
    """Sites start..stop-1 as they are drawn.

    left, right : (n,) ends of the blocks on the axis. pieces : the sequences. blank : (n,) nothing to draw there.
    """

    def __init__(
        self,
        data: Observations | None,
        start: int,
        stop: int,
        labels: Labels | None = None,
        most: int | None = None,
    ):
        self.start, self.stop = start, stop
        self.labels = labels or Labels()
        self.starts = starts = np.zeros(1, np.int64) if data is None else data.starts
        inside = starts[(starts > start) & (starts < stop)] - start
        self.bounds: list[tuple[int, int]] = list(pairwise([0, *inside.tolist(), stop - start]))
        self.first_sequence = int(np.searchsorted(starts, start, side="right")) - 1
        left, right, self.pieces = self._places()
        self.first = _firsts(self.bounds, stop - start, most)
        last = np.append(self.first[1:], stop - start) - 1
        self.left, self.right = left[self.first], right[last]
        missing = np.zeros(stop - start, bool) if data is None else _unmeasured(data, start, stop)
        self.blank = np.asarray(np.logical_and.reduceat(missing, self.first))
        self._edges, self._place = self._bins()

    @property
    def is_thinned(self) -> bool:
        return len(self.first) < self.stop - self.start

    @property
    def centre(self) -> Floats:
        return np.asarray((self.left + self.right) / 2)

    @property
    def ends(self) -> tuple[float, float]:
        return float(self.left[0]), float(self.right[-1])

    @property
    def has_positions(self) -> bool:
        return self.labels.position is not None

    @property
    def axis_name(self) -> str:
        """The name of the x axis."""
        if not self.has_positions:
            return "site"
        if len(self.pieces) > 1:
            return "chromosome" if self.labels.names is not None else "sequence"
        if self.labels.names is None:
            return self.labels.axis
        where = self.labels.axis if self.labels.zone is not None else f"position ({self.labels.unit})"
        return f"{chromosome(self.pieces[0].name)}, {where}"

    def lowest(self, values: Floats) -> Floats:
        """(n,) of (stop - start,) values; NaN where all are."""
        return np.asarray(np.fmin.reduceat(values, self.first))

    def highest(self, values: Floats) -> Floats:
        return np.asarray(np.fmax.reduceat(values, self.first))

    def mean(self, values: Floats) -> Floats:
        known = ~np.isnan(values)
        sums = np.add.reduceat(np.where(known, values, 0.0), self.first)
        counts = np.add.reduceat(known, self.first, dtype=float)
        return np.asarray(np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0))

    def steps(self, values: Floats) -> tuple[Floats, Floats]:
        """(b,) values and (b + 1,) edges of a step function of (n,) values: NaN where it is blank."""
        steps = np.full(len(self._edges) - 1, np.nan)
        steps[self._place] = np.where(self.blank, np.nan, values)
        return steps, self._edges

    def _places(self) -> tuple[Floats, Floats, list[Piece]]:
        """Ends of the sites on the axis. Several sequences with positions are put one after the other."""
        n = self.stop - self.start
        if self.labels.position is None:
            left: Floats = np.arange(self.start, self.stop, dtype=float) - 0.5
            pieces = [Piece(self._name(i), left[a], left[b - 1] + 1, left[a]) for i, (a, b) in enumerate(self.bounds)]
            return left, left + 1, pieces
        begin, end = self.labels.position, self.labels.end
        end = site_ends(begin, self.starts) if end is None else end
        left, right = (part[self.start : self.stop] / self.labels.scale for part in (begin, end))
        inner = np.ones(n, bool)
        inner[[b - 1 for _, b in self.bounds]] = False
        right[:-1] = np.where(inner[:-1], np.minimum(right[:-1], left[1:]), right[:-1])
        pieces, at = [], float(left[0])
        for i, (a, b) in enumerate(self.bounds):
            offset = float(left[a])
            left[a:b] += at - offset
            right[a:b] += at - offset
            pieces.append(Piece(self._name(i), at, float(right[b - 1]), offset))
            at = float(right[b - 1])
        return left, right, pieces

    def _name(self, i: int) -> str:
        number = self.first_sequence + i
        return str(number + 1) if self.labels.names is None else self.labels.names[number]

    def _bins(self) -> tuple[Floats, Integers]:
        """Edges of the steps, with an empty one wherever blocks are apart, and the step of every block."""
        begins = np.isin(self.first, [a for a, _ in self.bounds])
        empty = (apart(self.left, self.right) > 0) | begins[1:]
        place = np.arange(len(self.left)) + np.concatenate([[0], np.cumsum(empty)])
        edges = np.empty(place[-1] + 2)
        edges[place + 1] = self.right
        edges[place] = self.left
        return edges, place


def chromosome(name: str) -> str:
    """The name of a chromosome in a sentence.

    >>> chromosome("16"), chromosome("chrX"), chromosome("contig_7")
    ('chromosome 16', 'chromosome X', 'contig_7')
    """
    plain = name.removeprefix("chr").removeprefix("Chr")
    return f"chromosome {plain}" if plain != name or plain.isdecimal() or plain in ("X", "Y", "M", "MT") else name


def _firsts(bounds: list[tuple[int, int]], n: int, most: int | None) -> Integers:
    """The first site of every block: no block crosses a sequence, and there are hardly more than `most`."""
    step = 1 if most is None else -(-n // most)
    return np.concatenate([np.arange(a, b, step) for a, b in bounds])


def _unmeasured(data: Observations, start: int, stop: int) -> npt.NDArray[np.bool_]:
    """(stop - start,) sites in runs of more than BRIDGED missing ones."""
    missing = data.missing
    edge = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
    out = np.zeros(len(missing), bool)
    for a, b in zip(edge[::2].tolist(), edge[1::2].tolist(), strict=True):
        out[a:b] = b - a > BRIDGED
    return out[start:stop]
