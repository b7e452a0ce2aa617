"""Column codes of rows of two states: bit k of the code of a column is row k. How often each row is on."""

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


# ---- How often each row is on: eight rows at a time as the eight bytes of one word -----------------------------------

# A byte counts up to 255 draws before it would overflow.
ROWS_PER_WORD = 8
DRAWS_PER_WORD = 255


def _spread_bytes() -> np.ndarray:
    """(256,) words: byte k of word s is bit k of s."""
    codes = np.arange(256, dtype=np.uint64)
    words = np.zeros(256, np.uint64)
    for k in range(ROWS_PER_WORD):
        words |= (codes >> np.uint64(k) & np.uint64(1)) << np.uint64(ROWS_PER_WORD * k)
    return words


SPREAD = _spread_bytes()


@njit
def add_words(codes, shift, spread, words):
    """words[t] += the spread bits shift..shift+7 of codes[n, t], over n (at most 255 of them)."""
    for n in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            words[t] += spread[(codes[n, t] >> shift) & 255]


def add_counts(codes: npt.NDArray[np.unsignedinteger], counts: npt.NDArray[np.int64]) -> None:
    """counts (K, T) += number of draws with row k on at site t, for codes (n, T) of any unsigned type."""
    n_rows, n_sites = counts.shape
    for first in range(0, len(codes), DRAWS_PER_WORD):
        part = codes[first : first + DRAWS_PER_WORD]
        for shift in range(0, n_rows, ROWS_PER_WORD):
            words = np.zeros(n_sites, np.uint64)
            add_words(part, shift, SPREAD, words)
            rows = words.view(np.uint8).reshape(n_sites, ROWS_PER_WORD).T
            counts[shift : shift + ROWS_PER_WORD] += rows[: n_rows - shift]
