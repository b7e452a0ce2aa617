"""Four numbers at a time: what every operation of `kernels.lanes` does, compiled and interpreted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiasma._jit import njit
from chiasma.kernels.lanes import (
    lanes_of,
    larger,
    load,
    smaller,
    spread,
    store,
    sum_from,
    swap_neighbours,
    swap_pairs,
    total,
    transpose,
)

pytestmark = pytest.mark.jit_off


@njit
def use(values, out):
    """Every operation once; out (11, 4) flat."""
    a, b = load(values, 1), load(values, 5)
    store(out, 0, a + b)
    store(out, 4, a * b)
    store(out, 8, a / b)
    store(out, 12, swap_neighbours(a))
    store(out, 16, swap_pairs(a))
    store(out, 20, lanes_of(values[0], values[1], values[2], values[3]))
    store(out, 24, spread(values[8]))
    store(out, 28, a + a * b)
    store(out, 32, a - b)
    store(out, 36, smaller(a, b))
    store(out, 40, larger(a, b))
    return total(a)


def test_lanes_do_what_numpy_does_with_four_numbers():
    values = np.array([3.0, 1.5, -2.0, 7.0, 0.25, 9.0, -4.0, 0.5, 11.0, 6.0])
    out = np.full(46, np.nan)
    summed = use(values, out)
    a, b = values[1:5], values[5:9]
    expected = [a + b, a * b, a / b, a[[1, 0, 3, 2]], a[[2, 3, 0, 1]], values[:4], np.full(4, values[8]), a + a * b]
    expected += [a - b, np.minimum(a, b), np.maximum(a, b)]
    np.testing.assert_array_equal(out[:44].reshape(11, 4), expected)
    assert np.isnan(out[44:]).all()
    assert summed == a.sum()


@njit
def turn(matrix, out):
    a, b, c, d = transpose(load(matrix, 0), load(matrix, 4), load(matrix, 8), load(matrix, 12))
    store(out, 0, a)
    store(out, 4, b)
    store(out, 8, c)
    store(out, 12, d)


def test_rows_become_columns():
    matrix, out = np.arange(16.0), np.empty(16)
    turn(matrix, out)
    np.testing.assert_array_equal(out.reshape(4, 4), matrix.reshape(4, 4).T)


@njit
def sum_between(array, first, stop):
    return sum_from(stop - first, array, first)


@given(st.lists(st.integers(-100, 100), max_size=13), st.data())
def test_a_sum_of_any_length_from_any_place(numbers, data):
    first = data.draw(st.integers(0, len(numbers)))
    stop = data.draw(st.integers(first, len(numbers)))
    assert sum_between(np.array(numbers, float), first, stop) == sum(numbers[first:stop])
