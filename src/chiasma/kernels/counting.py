"""How often each row is on, over many draws: eight rows at a time as the eight bytes of one word."""

import numpy as np
import numpy.typing as npt

from chiasma._jit import njit

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
