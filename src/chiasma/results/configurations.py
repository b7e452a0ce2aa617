"""Quantities computed from codes: levels, rows on, runs of equal codes, configurations of a region with probabilities.

codes: (chain, draw, site), in memory or lazily on disk. They are read in pieces of draws, so memory stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.kernels.codes import pack, subset_sums
from chiasma.kernels.layout import Layout, on_bits, unpack_codes
from chiasma.results.ladder_stats import batch_error
from chiasma.types import Floats, Integers

Codes = npt.NDArray[Any]

# Bytes of draws read at once, and the size from which a result is computed lazily.
PIECE_BYTES = 4 * 2**20
LAZY_BYTES = 256 * 2**20


def pieces(draws: xr.DataArray, length: int | None = None) -> Iterator[tuple[int, int, Codes]]:
    """Yield (chain, first draw, (m, site) values) over all draws; no piece crosses a multiple of `length`."""
    n_chains, n_draws, n_sites = draws.shape
    length = length or n_draws
    data = draws.data  # a NumPy or dask array; slicing the DataArray would wrap every piece again
    step = max(1, PIECE_BYTES // (n_sites * draws.dtype.itemsize))
    for chain in range(n_chains):
        for begin in range(0, n_draws, length):
            end = min(begin + length, n_draws)
            for first in range(begin, end, step):
                yield chain, first, np.asarray(data[chain, first : min(first + step, end)])


def levels(codes: xr.DataArray, weights: Floats | xr.DataArray) -> xr.DataArray:
    """Sum of the weights of the rows that are on: codes.shape, plus a last axis D for weights (K, D).

    Learned weights have dimensions chain and draw: every draw has its own. The result is lazy if the codes are, or if
    it would be large.
    """
    own = isinstance(weights, xr.DataArray)
    channels = weights.shape[3 if own else 1 :]
    lazy = lazy_if_large(codes, 8 * codes.size * math.prod(channels))
    options = _level_options(channels)
    level: xr.DataArray
    if isinstance(weights, xr.DataArray):
        kept = weights.sel(chain=codes["chain"], draw=codes["draw"])
        core: list[list[str]] = [[], ["row", "channel"] if channels else ["row"]]
        level = xr.apply_ufunc(_own_levels, lazy, kept, input_core_dims=core, **options)
    else:
        level = xr.apply_ufunc(partial(_levels, weights=weights), lazy, **options)
    return level.rename("level")


def _levels(codes: Codes, weights: Floats) -> Floats:
    out = np.zeros(codes.shape + weights.shape[1:])
    for shift in range(0, len(weights), 8):
        # Eight rows at a time, from a table of their 256 sums; if fewer rows are left, their bits are never set.
        out += subset_sums(weights[shift : shift + 8])[codes >> shift & 255]
    return out


def _own_levels(codes: Codes, weights: Floats) -> Floats:
    """codes (C, n, T) and weights (C, n, 1, K) or (C, n, 1, K, D) to (C, n, T) or (C, n, T, D)."""
    channels = weights.shape[4:]
    on = codes.reshape(codes.shape + (1,) * len(channels))
    out = np.zeros(codes.shape + channels)
    for k in range(weights.shape[3]):
        out += (on >> k & 1) * weights[:, :, :, k]
    return out


def levels_of_rows(codes: xr.DataArray, layout: Layout, adds: Sequence[Floats]) -> xr.DataArray:
    """As `levels`, for rows with any number of states; adds: (S_k,) or (S_k, D) what each state of every row adds."""
    channels = adds[0].shape[1:]

    def level(part: Codes) -> Floats:
        out = np.zeros(part.shape + channels)
        for own, shift, mask in zip(adds, layout.shifts, layout.masks, strict=True):
            out += own[part.astype(np.int64) >> shift & mask]
        return out

    lazy = lazy_if_large(codes, 8 * codes.size * math.prod(channels))
    found: xr.DataArray = xr.apply_ufunc(level, lazy, **_level_options(channels))
    return found.rename("level")


def levels_of_draws(codes: xr.DataArray, layout: Layout, adds: Sequence[xr.DataArray]) -> xr.DataArray:
    """As `levels_of_rows` where every draw has its own: adds (chain, draw, state) or (chain, draw, state, channel)."""
    channels = adds[0].shape[3:]

    def level(part: Codes, *own: Floats) -> Floats:
        out = np.zeros(part.shape + channels)
        for values, shift, mask in zip(own, layout.shifts, layout.masks, strict=True):
            state = part.astype(np.int64) >> shift & mask
            for x in range(values.shape[3]):
                chosen = state == x
                out += chosen.reshape(chosen.shape + (1,) * len(channels)) * values[:, :, :, x]
        return out

    lazy = lazy_if_large(codes, 8 * codes.size * math.prod(channels))
    renamed = [own.rename(state=f"state_{k}") for k, own in enumerate(adds)]
    core = [[], *([f"state_{k}", *(["channel"] if channels else [])] for k in range(len(adds)))]
    found: xr.DataArray = xr.apply_ufunc(level, lazy, *renamed, input_core_dims=core, **_level_options(channels))
    return found.rename("level")


def _level_options(channels: tuple[int, ...]) -> dict[str, Any]:
    return {
        "output_core_dims": [["channel"] if channels else []],
        "dask": "parallelized",
        "output_dtypes": [np.float64],
        "dask_gufunc_kwargs": {"output_sizes": {"channel": channels[0]}} if channels else None,
    }


def rows_on(codes: xr.DataArray, layout: Layout, rows: Sequence[int] | None = None) -> xr.DataArray:
    """codes.shape: number of rows that are on, or of these, unaffected by label switching. Lazy under the same rule as
    levels.
    """
    chosen = _bits(range(len(layout.sizes)) if rows is None else rows)
    lazy = lazy_if_large(codes, codes.size)
    count: xr.DataArray = xr.apply_ufunc(
        lambda part: np.bitwise_count(on_bits(part, layout) & chosen),
        lazy,
        dask="parallelized",
        output_dtypes=[np.uint8],
    )
    return count.rename("rows_on")


def count_shares(codes: xr.DataArray, layout: Layout, rows: Sequence[int]) -> Floats:
    """(n + 1, T): share of draws with 0, 1, ..., n of these rows on."""
    chosen = _bits(rows)
    counts = np.zeros((len(rows) + 1, codes.sizes["site"]), np.int64)
    for _, _, part in pieces(codes):
        on = np.bitwise_count(on_bits(part, layout) & chosen)
        for n, own in enumerate(counts):
            own += (on == n).sum(axis=0)
    return counts / (codes.sizes["chain"] * codes.sizes["draw"])


def _bits(rows: Iterable[int]) -> int:
    """Numbers of rows as bits, as `on_bits` has them."""
    return sum(1 << k for k in rows)


def lazy_if_large(codes: xr.DataArray, n_bytes: int) -> xr.DataArray:
    """The codes, chunked (dask) if a result of n_bytes is too large to compute at once."""
    if codes.chunks is not None or n_bytes <= LAZY_BYTES:
        return codes
    per_draw = codes.dtype.itemsize * codes.shape[2]
    return codes.chunk({"chain": 1, "draw": max(1, PIECE_BYTES // per_draw)})


def equal_runs(values: npt.NDArray[Any], starts: Integers | None = None) -> list[tuple[int, int]]:
    """(first, last + 1) of every run of equal values (T,); no run crosses a start.

    >>> equal_runs(np.array([3, 3, 1, 1, 1]), np.array([0, 4]))
    [(0, 2), (2, 4), (4, 5)]
    """
    begins = np.ones(len(values), bool)
    begins[1:] = values[1:] != values[:-1]
    if starts is not None:
        begins[starts] = True
    edges = [*np.flatnonzero(begins).tolist(), len(values)]
    return list(pairwise(edges))


def state_text(states: Iterable[int]) -> str:
    """One digit per row, row 0 first; with - between them where a number has two digits.

    >>> state_text([1, 1, 0, 0]), state_text([12, 0])
    ('1100', '12-0')
    """
    texts = [str(int(x)) for x in states]
    return ("" if all(len(text) == 1 for text in texts) else "-").join(texts)


def state_name(states: Iterable[int]) -> str:
    """The state as it is named in tables and on the screen: text that no program takes for a number.

    >>> state_name([0, 1, 0, 1])
    's0101'
    """
    return f"s{state_text(states)}"


def share_text(probability: float, standard_error: float | None = None, n_draws: int | None = None) -> str:
    """A share of the draws with its error. Where all agree, their number gives a bound, by the rule of three.

    >>> share_text(0.25, 0.0123), share_text(1.0, 0.0, 1200), share_text(1.0, 0.0, 100_000), share_text(0.5)
    ('0.25 ± 0.01', '> 0.997', '> 0.999', '0.5')
    """
    if probability == 1 and n_draws is not None and n_draws > 3:
        # A state of probability 3/n stays unseen in n independent draws with a chance of 5%. Draws of a chain are fewer
        # than they seem, so that no bound is finer than three digits.
        return f"> {math.floor(1_000 * (1 - 3 / n_draws)) / 1_000:g}"
    known = standard_error is not None and math.isfinite(standard_error)
    return f"{probability:.3g} ± {standard_error:.1g}" if known else f"{probability:.3g}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Configuration:
    """One configuration of a region and its share of the draws.

    states : (K, stop - start) of every row, equal rows in descending order. codes : (stop - start,).
    standard_error : Monte Carlo error of the probability. n_draws : of all chains together; None: not known.
    """

    probability: float
    standard_error: float
    start: int
    stop: int
    states: npt.NDArray[Any]
    codes: Integers | None = None  # default: those of rows of two states
    n_draws: int | None = None

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """(first, last + 1, code) of every run of equal columns, in the columns of the whole signal."""
        codes = self._codes()
        return [(self.start + a, self.start + b, int(codes[a])) for a, b in equal_runs(codes)]

    @property
    def share_text(self) -> str:
        """The probability with its error, or a bound of it."""
        return share_text(self.probability, self.standard_error, self.n_draws)

    def differences(self, other: Configuration) -> list[tuple[int, int]]:
        """(first, last + 1) of every run of sites at which another configuration of the region has another state.

        Both are in one state each within a run.
        """
        own, theirs = self._codes(), other._codes()
        ends = {*(a for a, _ in equal_runs(own)), *(a for a, _ in equal_runs(theirs))}
        found = equal_runs(own != theirs, np.array(sorted(ends)))
        return [(self.start + a, self.start + b) for a, b in found if own[a] != theirs[a]]

    def _codes(self) -> Integers:
        return np.asarray(pack(self.states) if self.codes is None else self.codes)

    def state_at(self, site: int) -> str:
        """The state of a site of the whole signal, as text."""
        return state_text(self.states[:, site - self.start])

    def __repr__(self) -> str:
        runs = ", ".join(f"{self.state_at(a)} at {a}..{b - 1}" for a, b, _ in self.runs)
        return f"Configuration({self.share_text}: {runs})"


def top_configurations(
    codes: xr.DataArray, layout: Layout, start: int, stop: int, n: int, merge: Callable[[Codes], Codes] | None = None
) -> list[Configuration]:
    """The n most frequent configurations of columns start..stop-1, most frequent first; ties go to the one drawn first.

    merge : codes to codes, of columns that count as one (`row_groups.Merging`).
    """
    n_sites = codes.shape[2]
    if not 0 <= start < stop <= n_sites:
        raise InvalidInput(f"a region needs 0 <= start < stop <= {n_sites} (columns), got {start} and {stop}")
    if n < 1:
        raise InvalidInput(f"n must be at least 1, got {n}")
    region = codes[:, :, start:stop]
    label = np.empty(region.shape[:2], np.int64)
    seen: dict[bytes, int] = {}
    for chain, first, part in pieces(region):
        for i, one in enumerate(np.ascontiguousarray(part if merge is None else merge(part))):
            label[chain, first + i] = seen.setdefault(one.tobytes(), len(seen))
    counts = np.bincount(label.ravel())
    found = [np.frombuffer(one, codes.dtype).astype(np.int64) for one in seen]
    return [
        Configuration(
            probability=float(counts[i] / label.size),
            standard_error=batch_error((label == i).astype(float)),
            start=start,
            stop=stop,
            states=unpack_codes(found[i], layout),
            codes=found[i],
            n_draws=label.size,
        )
        for i in np.argsort(-counts, kind="stable")[:n]
    ]
