"""Column codes: bit k of the code of a column is row k."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from chiasma._jit import njit


def pack(states: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """(..., K, T) zeros and ones to (..., T) codes."""
    states = np.asarray(states)
    codes = np.zeros(states.shape[:-2] + states.shape[-1:], np.int64)
    for k in range(states.shape[-2]):
        codes |= states[..., k, :].astype(np.int64) << k
    return codes


def unpack(codes: npt.ArrayLike, n_rows: int) -> npt.NDArray[np.int8]:
    """(..., T) codes to (..., K, T) zeros and ones."""
    codes = np.asarray(codes).astype(np.int64)
    return (codes[..., None, :] >> np.arange(n_rows)[:, None] & 1).astype(np.int8)


def move_bits(codes: npt.NDArray[np.int64], source: Iterable[int], destination: Iterable[int]) -> npt.NDArray[np.int64]:
    """Bit source[i] of every code goes to bit destination[i]; other bits are dropped."""
    out = np.zeros_like(codes)
    for a, b in zip(source, destination, strict=True):
        out |= (codes >> a & 1) << b
    return out


def subset_sums(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """(n, ...) values to (2^n, ...): entry s is the sum of values[k] over the bits k of s."""
    values = np.asarray(values, float)
    sums = np.zeros((1, *values.shape[1:]))
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def smallest_dtype(n_rows: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned type that holds a code of `n_rows` bits."""
    return np.min_scalar_type((1 << n_rows) - 1)


@njit
def count_bits(code):
    count = 0
    while code:
        code &= code - 1
        count += 1
    return count


@njit
def add_levels(codes, weights, out):
    """out[n, d] += sum over the bits k of codes[n] of weights[k, d]."""
    for n in range(codes.shape[0]):
        for k in range(weights.shape[0]):
            if codes[n] >> k & 1:
                for d in range(weights.shape[1]):
                    out[n, d] += weights[k, d]


def without_lowest_bit(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """(n,) index of the offset that lacks the lowest bit of offsets[j]."""
    order = np.argsort(offsets)
    parents = order[np.searchsorted(offsets, offsets & offsets - 1, sorter=order)]
    assert np.array_equal(offsets[parents], offsets & offsets - 1), "an offset is there without its neighbour"
    return parents


@njit
def levels_around(centres, offsets, parents, weights, base, out):
    """out[t, j, d] = level of centres[t] ^ offsets[j], base included; out is C-contiguous.

    offsets: 0 first, and each of the others after the one that lacks its lowest bit, which parents[j] points to. Only
    the centre is summed; every other level is one flip away from one that is there. Where no row is left that counts,
    the level is the base itself and not what rounding leaves of it: counts are impossible at 0, and at 1e-17 are not.
    """
    n_offsets, n_channels = offsets.shape[0], weights.shape[1]
    counts = 0  # rows with a weight
    for k in range(weights.shape[0]):
        for d in range(n_channels):
            if weights[k, d] != 0.0:
                counts |= 1 << k
    rows = np.zeros(n_offsets, np.int64)
    for j in range(1, n_offsets):
        while not offsets[j] >> rows[j] & 1:
            rows[j] += 1
    flat, steps = out.ravel(), weights.ravel()
    for t in range(centres.shape[0]):
        first = t * n_offsets * n_channels
        for d in range(n_channels):
            level = base[d]
            for k in range(weights.shape[0]):
                level += steps[np.uint64(k * n_channels + d)] * (centres[t] >> k & 1)
            flat[np.uint64(first + d)] = level
        for j in range(1, n_offsets):
            if (centres[t] ^ offsets[j]) & counts == 0:
                for d in range(n_channels):
                    flat[np.uint64(first + j * n_channels + d)] = base[d]
                continue
            sign = -1.0 if centres[t] >> rows[j] & 1 else 1.0
            here, there, step = first + j * n_channels, first + parents[j] * n_channels, rows[j] * n_channels
            for d in range(n_channels):
                # Unsigned: a signed index would be checked for counting from the end.
                flat[np.uint64(here + d)] = flat[np.uint64(there + d)] + sign * steps[np.uint64(step + d)]
