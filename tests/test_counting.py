"""Counting rows over draws, eight at a time, against a loop over rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiasma.kernels.codes import DRAWS_PER_WORD, SPREAD, add_counts, smallest_dtype

pytestmark = pytest.mark.jit_off


def slow_counts(codes: np.ndarray, n_rows: int) -> np.ndarray:
    return np.array([[sum(int(c) >> k & 1 for c in column) for column in codes.T] for k in range(n_rows)])


@given(n_rows=st.integers(1, 63), n_draws=st.integers(0, 9), n_sites=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_add_counts__equals_a_loop_over_rows(n_rows, n_draws, n_sites, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**n_rows, (n_draws, n_sites), dtype=np.uint64).astype(smallest_dtype(n_rows))
    before = rng.integers(0, 10**12, (n_rows, n_sites))
    counts = before.copy()
    add_counts(codes, counts)
    np.testing.assert_array_equal(counts, before + slow_counts(codes, n_rows))


@pytest.mark.parametrize("n_draws", [DRAWS_PER_WORD - 1, DRAWS_PER_WORD, DRAWS_PER_WORD + 1, 3 * DRAWS_PER_WORD + 7])
@pytest.mark.parametrize("n_rows", [1, 8, 9, 17, 33, 63])
def test_add_counts__bytes_do_not_overflow(n_rows, n_draws):
    """All rows on in every draw: each byte of a word counts as far as it can."""
    codes = np.full((n_draws, 2), 2**n_rows - 1, smallest_dtype(n_rows))
    counts = np.zeros((n_rows, 2), np.int64)
    add_counts(codes, counts)
    assert (counts == n_draws).all()


def test_spread__has_one_byte_per_bit():
    for code in (0, 1, 2, 129, 255):
        assert SPREAD[code : code + 1].view(np.uint8).tolist() == [code >> k & 1 for k in range(8)]
