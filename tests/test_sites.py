"""Places on the x axis: names from the data, megabases, blocks that keep every peak, gaps that stay blank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chiasma as ch
from chiasma.report.figures.sites import BRIDGED, Labels, SiteRange

STARTS = [0, 6]
POSITION = np.r_[np.arange(6) * 1e6, np.array([0.0, 1e6, 2e6, 9e6])]
LABELS = Labels(names=("1", "X"), position=POSITION, value="ratio")


def data(y=None):
    return ch.Observations(np.zeros(10) if y is None else y, starts=STARTS)


def test_names_are_those_of_the_data():
    assert [piece.name for piece in SiteRange(data(), 0, 10, LABELS).pieces] == ["1", "X"]
    assert [piece.name for piece in SiteRange(data(), 7, 10, LABELS).pieces] == ["X"]
    assert [piece.name for piece in SiteRange(data(), 0, 10).pieces] == ["1", "2"]
    assert SiteRange(data(), 7, 10, LABELS).axis_name == "chromosome X, position (Mb)"
    assert SiteRange(data(), 0, 10, LABELS).axis_name == "chromosome"
    assert SiteRange(data(), 0, 10).axis_name == "site"
    times = Labels(position=np.arange(10.0))
    assert SiteRange(data(), 0, 5, times).axis_name == "position"
    assert SiteRange(data(), 0, 10, times).axis_name == "sequence"
    assert SiteRange(data(), 0, 5, Labels(position=np.arange(10.0), axis="seconds")).axis_name == "seconds"


def test_places__in_megabases_one_chromosome_after_the_other():
    whole = SiteRange(data(), 0, 10, LABELS)
    np.testing.assert_allclose(whole.left, [0, 1, 2, 3, 4, 5, 6, 7, 8, 15])
    np.testing.assert_allclose(whole.right, [1, 2, 3, 4, 5, 6, 7, 8, 9, 16])
    assert whole.pieces[1][1:] == (6.0, 16.0, 0.0)
    alone = SiteRange(data(), 7, 10, LABELS)
    np.testing.assert_allclose(alone.left, [1, 2, 9])
    assert alone.ends == (1.0, 10.0)
    numbers = SiteRange(data(), 3, 8)
    assert numbers.ends == (2.5, 7.5)


def test_steps__are_empty_between_sites_that_are_apart_and_between_chromosomes():
    stretch = SiteRange(data(), 0, 10, LABELS)
    values, edges = stretch.steps(np.arange(10.0))
    assert len(edges) == len(values) + 1
    assert np.all(np.diff(edges) >= 0)
    assert np.isnan(values).sum() == 2
    known = ~np.isnan(values)
    assert values[known].tolist() == list(range(10))
    np.testing.assert_allclose(edges[:-1][known], stretch.left)
    np.testing.assert_allclose(edges[1:][known], stretch.right)


def test_long_gaps_are_blank_and_short_ones_are_not():
    y = np.zeros(10)
    y[[1, 2]] = np.nan
    assert not SiteRange(data(y), 0, 10).blank.any()
    y[1 : 2 + BRIDGED] = np.nan
    assert SiteRange(data(y), 0, 10).blank.tolist() == [1 <= t < 2 + BRIDGED for t in range(10)]
    values, _ = SiteRange(data(y), 0, 6).steps(np.ones(6))
    assert np.isnan(values).sum() == BRIDGED + 1


@given(
    st.lists(st.one_of(st.floats(-100, 100), st.just(float("nan"))), min_size=1, max_size=60),
    st.integers(1, 70),
    st.sets(st.integers(1, 59), max_size=4),
)
def test_blocks__keep_the_lowest_and_the_highest(values, most, starts):
    y = np.array(values)
    n = len(y)
    inside = sorted(start for start in starts if start < n)
    stretch = SiteRange(ch.Observations(y, starts=[0, *inside]), 0, n, most=most)
    low, high, mean = stretch.lowest(y), stretch.highest(y), stretch.mean(y)
    assert len(stretch.first) <= most + len(inside)
    assert set(inside) <= set(stretch.first.tolist())
    ends = [*stretch.first[1:].tolist(), n]
    for i, (a, b) in enumerate(zip(stretch.first.tolist(), ends, strict=True)):
        known = y[a:b][~np.isnan(y[a:b])]
        if known.size:
            assert (low[i], high[i]) == (known.min(), known.max())
            assert mean[i] == pytest.approx(known.mean())
        else:
            assert np.isnan([low[i], high[i], mean[i]]).all()
        assert (stretch.left[i], stretch.right[i]) == (a - 0.5, b - 0.5)
