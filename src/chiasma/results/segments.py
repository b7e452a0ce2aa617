"""Segmentation of the sites: the most probable code, its runs, and errors of marginals.

codes: (chain, draw, site). Draws are counted piece by piece, so memory grows with the sites and not with the draws.
Columns that differ only by exchanging equal rows are counted as one (`row_groups.Merging`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.kernels.codes import add_counts
from chiasma.kernels.layout import Layout, n_bits, on_bits, unpack_codes
from chiasma.results.configurations import equal_runs, pieces, state_name, state_text
from chiasma.results.ladder_stats import BATCHES
from chiasma.results.row_groups import Merging
from chiasma.types import Floats, Integers

# Up to this many counts (sites times codes) are kept in a table; beyond it, codes are sorted in blocks of sites.
TABLE_SIZE = 2**24
BLOCK_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Sites start..stop-1 with the same most probable code.

    states : of every row, equal rows in descending order. probability, minimum : mean and least posterior probability
    of the code over the sites with data, or over all sites where none has any. n_data : sites with data.
    """

    start: int
    stop: int
    code: int
    states: tuple[int, ...]
    probability: float
    minimum: float
    n_data: int

    @property
    def rows_on(self) -> int:
        return sum(state != 0 for state in self.states)

    @property
    def state(self) -> str:
        return state_text(self.states)

    @property
    def name(self) -> str:
        return state_name(self.states)

    @property
    def n_sites(self) -> int:
        return self.stop - self.start

    @property
    def doubt(self) -> float:
        """Expected number of sites with data whose state is not the most probable one."""
        return self.n_data * (1 - self.probability)


def segments(
    mode: Integers,
    share: Floats,
    layout: Layout,
    starts: Integers,
    seen: npt.NDArray[np.bool_],
    min_probability: float = 0.0,
) -> list[Segment]:
    """Runs of the most probable code; none crosses a start. Runs of mean probability < min_probability are dropped.

    mode, share : as `modal_codes` gives them. seen : (T,) sites with data.
    """
    found = [_segment(a, b, mode, share, seen, layout) for a, b in equal_runs(mode, starts)]
    return [segment for segment in found if segment.probability >= min_probability]


def _segment(
    start: int, stop: int, mode: Integers, share: Floats, seen: npt.NDArray[np.bool_], layout: Layout
) -> Segment:
    here = seen[start:stop]
    judged = share[start:stop][here] if here.any() else share[start:stop]
    return Segment(
        start=start,
        stop=stop,
        code=int(mode[start]),
        states=tuple(int(x) for x in unpack_codes(mode[start : start + 1], layout)[:, 0]),
        probability=float(judged.mean()),
        minimum=float(judged.min()),
        n_data=int(here.sum()),
    )


def modal_codes(codes: xr.DataArray, merging: Merging) -> tuple[Integers, Floats]:
    """(T,) most frequent code of every site (the smallest in a tie), and (T,) its share of the draws."""
    n_chains, n_draws, n_sites = codes.shape
    count = _tabulated if n_sites << n_bits(merging.layout) <= TABLE_SIZE else _sorted
    mode, n_mode = count(codes, merging)
    return mode, n_mode / (n_chains * n_draws)


def _tabulated(codes: xr.DataArray, merging: Merging) -> tuple[Integers, Integers]:
    n_sites, n_codes = codes.shape[2], 1 << n_bits(merging.layout)
    offset = np.arange(n_sites) * n_codes
    table = np.zeros(n_sites * n_codes, np.int64)
    for _, _, part in pieces(codes):
        table += np.bincount((merging(part).astype(np.int64) + offset).ravel(), minlength=len(table))
    counts = table.reshape(n_sites, n_codes)
    return counts.argmax(axis=1), counts.max(axis=1)


def _sorted(codes: xr.DataArray, merging: Merging) -> tuple[Integers, Integers]:
    n_chains, n_draws, n_sites = codes.shape
    mode, n_mode = np.zeros(n_sites, np.int64), np.zeros(n_sites, np.int64)
    width = max(1, BLOCK_BYTES // (n_chains * n_draws * codes.dtype.itemsize))
    for first in range(0, n_sites, width):
        block = merging(codes[:, :, first : first + width].values)
        for i in range(block.shape[2]):
            distinct, counts = np.unique(block[:, :, i], return_counts=True)
            best = counts.argmax()
            mode[first + i], n_mode[first + i] = distinct[best], counts[best]
    return mode, n_mode


def marginals_error(codes: xr.DataArray, layout: Layout) -> Floats:
    """(K, T): standard error of the share of draws with a row on, by batch means; NaN when there are too few draws.

    As `ladder_stats.batch_error`, for all rows and sites at once; the sums are of integers and therefore exact.
    """
    n_chains, n_draws, n_sites = codes.shape
    n_rows = len(layout.sizes)
    per_chain = min(BATCHES, n_draws // 2)
    if per_chain < 2:
        return np.full((n_rows, n_sites), np.nan)
    length = n_draws // per_chain
    total, squares = np.zeros((n_rows, n_sites), np.int64), np.zeros((n_rows, n_sites), np.int64)
    batch = np.zeros((n_rows, n_sites), np.int64)
    for _, first, part in pieces(codes[:, : per_chain * length], length):
        add_counts(on_bits(part, layout), batch)
        if (first + len(part)) % length == 0:
            total += batch
            squares += batch**2
            batch[:] = 0
    n = n_chains * per_chain
    return np.sqrt((n * squares - total**2) / (n - 1)) / (n * length)
