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
