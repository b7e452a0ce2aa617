"""Columns of K rows with any numbers of states, as integers.

The joint state of a column has two forms. Its **index** sum_k x_k * strides[k] counts the N = prod_k S_k joint states
without holes, row 0 fastest: it is a place in a message. Its **code** sum_k x_k << shifts[k] gives every row a field of
bits: what is stored and exchanged. With binary rows both are the same number.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma._jit import njit


class Layout(NamedTuple):
    """Where the rows are; all arrays are int64 (K,).

    sizes:   S_k, the number of states of row k.
    strides: what one state more of row k adds to an index.
    shifts:  the lowest bit of row k in a code.
    masks:   its bits once they are shifted down.
    first:   where its matrix begins in a row of `trans` (E, M), M = sum_k S_k^2: A_k[x, x'] of the edge kind e is
             trans[e, first[k] + x * S_k + x'].
    """

    sizes: npt.NDArray[np.int64]
    strides: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]


def make_layout(sizes: Sequence[int]) -> Layout:
    """The layout of rows with these numbers of states."""
    return _make_layout(tuple(sizes))


@lru_cache(maxsize=64)
def _make_layout(sizes: tuple[int, ...]) -> Layout:
    bits = [(size - 1).bit_length() for size in sizes]
    strides, shifts, first = [1], [0], [0]
    for size, width in zip(sizes, bits, strict=True):
        strides.append(strides[-1] * size)
        shifts.append(shifts[-1] + width)
        first.append(first[-1] + size**2)
    masks = [(1 << width) - 1 for width in bits]
    return Layout(*(np.array(part, np.int64) for part in (sizes, strides[:-1], shifts[:-1], masks, first[:-1])))


def sub_layout(layout: Layout, rows: npt.NDArray[np.integer]) -> Layout:
    """The layout of some of the rows. Their indices are those of a message over these rows alone; codes and `trans`
    remain those of all rows, so that neither has to be copied.
    """
    sizes = layout.sizes[rows]
    strides = np.ones_like(sizes)
    np.cumprod(sizes[:-1], out=strides[1:])
    return Layout(sizes, strides, layout.shifts[rows], layout.masks[rows], layout.first[rows])


def ball_size(layout: Layout, radius: int) -> int:
    """How many codes differ from a given one in at most `radius` rows.

    >>> ball_size(make_layout([2, 3, 4]), 1)
    7
    """
    counts = [1, *[0] * radius]  # codes that differ in 0, 1, ... of the rows so far
    for size in layout.sizes.tolist():
        for n in range(radius, 0, -1):
            counts[n] += counts[n - 1] * (size - 1)
    return sum(counts)


def ball_offsets(layout: Layout, radius: int) -> npt.NDArray[np.int64]:
    """Every code in which at most `radius` rows are in another state than 0, the nearest first.

    >>> ball_offsets(make_layout([2, 3]), 1).tolist()
    [0, 1, 2, 4]
    """
    sizes, shifts = layout.sizes.tolist(), layout.shifts.tolist()
    return np.array(
        [
            sum(state << shifts[k] for k, state in zip(rows, states, strict=True))
            for n in range(radius + 1)
            for rows in combinations(range(len(sizes)), n)
            for states in product(*(range(1, sizes[k]) for k in rows))
        ],
        np.int64,
    )


def n_bits(layout: Layout) -> int:
    """Bits of a code."""
    return int(layout.shifts[-1]) + int(layout.masks[-1]).bit_length()


def pack_states(states: npt.NDArray[np.integer], layout: Layout) -> npt.NDArray[np.int64]:
    """(..., K, T) states to (..., T) codes."""
    codes = np.zeros(states.shape[:-2] + states.shape[-1:], np.int64)
    for k, shift in enumerate(layout.shifts):
        codes |= states[..., k, :].astype(np.int64) << shift
    return codes


def unpack_codes(codes: npt.NDArray[np.integer], layout: Layout) -> npt.NDArray[np.integer]:
    """(..., T) codes to (..., K, T) states."""
    fields = np.asarray(codes).astype(np.int64)[..., None, :] >> layout.shifts[:, None] & layout.masks[:, None]
    return fields.astype(np.int8 if layout.sizes.max() <= 127 else np.int64)


def on_bits(codes: npt.NDArray[Any], layout: Layout) -> npt.NDArray[Any]:
    """Codes in which bit k says whether row k is in another state than 0; of binary rows, the codes themselves."""
    if np.all(layout.sizes == 2):
        return codes
    whole = codes.astype(np.int64)
    bits = np.zeros_like(whole)
    for k, (shift, mask) in enumerate(zip(layout.shifts, layout.masks, strict=True)):
        bits |= (whole >> shift & mask != 0).astype(np.int64) << k
    return bits


@njit
def binary_layout(n_rows):
    """make_layout([2] * n_rows)"""
    sizes, strides = np.full(n_rows, 2), np.ones(n_rows, np.int64)
    for k in range(1, n_rows):
        strides[k] = 2 * strides[k - 1]
    shifts = np.arange(n_rows)
    return Layout(sizes, strides, shifts, np.ones(n_rows, np.int64), 4 * shifts)


@njit
def bits_of(layout):
    """The bits of all rows of a layout: what an exchange of them, or of a block of them, masks."""
    bits = 0
    for k in range(layout.sizes.shape[0]):
        bits |= layout.masks[k] << layout.shifts[k]
    return bits


@njit
def code_of_index(index, layout):
    code = 0
    for k in range(layout.sizes.shape[0]):
        code |= index % layout.sizes[k] << layout.shifts[k]
        index //= layout.sizes[k]
    return code


@njit
def index_of_code(code, layout):
    index = 0
    for k in range(layout.sizes.shape[0]):
        index += (code >> layout.shifts[k] & layout.masks[k]) * layout.strides[k]
    return index


@njit
def codes_of_indices(indices, layout, out):
    """out (T,) = codes of indices (T,), which may be the same array. Runs of one index cost a comparison per column."""
    known = -1
    code = 0
    for t in range(indices.shape[0]):
        if indices[t] != known:
            known = indices[t]
            code = code_of_index(known, layout)
        out[t] = code


@njit
def index_of_codes(codes, layout, out):
    """out (T,) = indices of codes (T,), which may be the same array."""
    known = -1
    index = 0
    for t in range(codes.shape[0]):
        if codes[t] != known:
            known = codes[t]
            index = index_of_code(known, layout)
        out[t] = index


@njit
def put_in_codes(states, layout, k, codes):
    """Row k of a path of codes (T,) becomes states (T,)."""
    shift, field = layout.shifts[k], layout.masks[k] << layout.shifts[k]
    for t in range(codes.shape[0]):
        codes[t] = codes[t] & ~field | states[t] << shift


@njit
def add_levels(codes, layout, places, adds, out):
    """out[n, d] += what the states of all rows in codes[n] add to channel d.

    adds (A, D): one line per state of every row; those of row k begin at places[k]. Rows are added in their order, and
    nothing is ever taken away: a level of 0 stays 0, where counts may be impossible.
    """
    n_channels = adds.shape[1]
    for n in range(codes.shape[0]):
        for k in range(layout.sizes.shape[0]):
            state = places[k] + (codes[n] >> layout.shifts[k] & layout.masks[k])
            for d in range(n_channels):
                out[n, d] += adds[state, d]
