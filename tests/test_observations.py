"""Observations: what they accept, and what they say when they do not."""

import numpy as np
import pytest

import chiasma as ch

NAN, INF = np.nan, np.inf
Y = [0.0, 1.0, 2.0, 3.0]


def test_column_zero_is_an_implied_start():
    assert ch.Observations(Y).starts.tolist() == [0]
    assert ch.Observations(Y, starts=[]).starts.tolist() == [0]
    assert ch.Observations(Y, starts=[2]).starts.tolist() == [0, 2]
    assert ch.Observations(Y, starts=[0, 2]).starts.tolist() == [0, 2]


def test_edges_name_their_gap_and_a_start_overrides_it():
    edge, gaps = ch.Observations(Y, starts=[2], gaps=[3.0, 7.0, 0.5]).edge_kinds()
    assert edge[0] == edge[2] == 0
    assert gaps[edge].tolist() == [INF, 3.0, INF, 0.5]


def test_without_gaps_every_edge_is_one_step():
    edge, gaps = ch.Observations(Y).edge_kinds()
    assert edge.tolist() == [0, 1, 1, 1]
    assert gaps.tolist() == [INF, 1.0]


def test_a_single_column_has_no_edge_but_its_start():
    edge, gaps = ch.Observations([1.0], gaps=[]).edge_kinds()
    assert edge.tolist() == [0]
    assert gaps.tolist() == [INF]


def test_a_column_is_missing_where_all_its_channels_are():
    assert ch.Observations([NAN, 1.0]).missing.tolist() == [True, False]
    assert ch.Observations([[NAN, NAN], [NAN, 1.0], [0.0, 1.0]]).missing.tolist() == [True, False, False]


def test_the_signal_is_copied():
    y = np.array(Y)
    data = ch.Observations(y)
    y[:] = -1.0
    assert data.y.tolist() == Y


def test_of_passes_observations_through_and_wraps_arrays():
    data = ch.Observations(Y)
    assert ch.Observations.of(data) is data
    assert ch.Observations.of(Y).n_columns == 4


def test_the_representation_counts_columns_channels_sequences_and_missing_values():
    assert repr(ch.Observations(Y, starts=[1])) == "Observations(4 columns, 2 sequence(s), 0 missing)"
    assert repr(ch.Observations([[NAN, NAN]])) == "Observations(1 columns, 2 channels, 1 sequence(s), 1 missing)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": []}, r"y must have at least one column, got shape \(0,\)"),
        ({"y": np.zeros((3, 0))}, r"y must have at least one column, got shape \(3, 0\)"),
        ({"y": 1.0}, r"y must have shape \(T,\) or \(T, channels\), got \(\)"),
        ({"y": np.zeros((2, 2, 2))}, r"y must have shape .* got \(2, 2, 2\)"),
        ({"y": [0.0, INF]}, r"y must be finite or NaN, got inf at column 1; replace infinities by NaN"),
        ({"y": [-INF, 0.0]}, r"got -inf at column 0"),
        ({"y": [[0.0, 0.0], [0.0, -INF]]}, r"got \[ *0\. -inf\] at column 1"),
        ({"y": ["a", "b"]}, "y must be numbers, got list"),
        ({"y": [[1.0, 2.0], [3.0]]}, "y must be numbers, got list"),
        ({"y": "signal"}, "y must be numbers, got str"),
        ({"y": Y, "starts": [0.5]}, "starts must be whole column numbers, got 0.5"),
        ({"y": Y, "starts": [NAN]}, "starts must be whole column numbers, got nan"),
        ({"y": Y, "starts": [2, 1]}, "starts must increase, got 1 after a larger or equal one; sort them"),
        ({"y": Y, "starts": [1, 3, 3]}, "starts must increase, got 3 after a larger or equal one"),
        ({"y": Y, "starts": [4]}, r"starts must lie in 0\.\.3 \(columns of y\), got 4"),
        ({"y": Y, "starts": [-1, 2]}, r"starts must lie in 0\.\.3 \(columns of y\), got -1"),
        ({"y": Y, "starts": [INF]}, r"starts must lie in 0\.\.3 \(columns of y\), got inf"),
        ({"y": Y, "starts": "first"}, "starts must be numbers, got str"),
        ({"y": Y, "gaps": [1.0, 0.0, 1.0]}, "gaps must be finite and positive, got 0.0 between columns 1 and 2"),
        ({"y": Y, "gaps": [1.0, 1.0, -2.0]}, "got -2.0 between columns 2 and 3; merge columns at one position"),
        ({"y": Y, "gaps": [INF, 1.0, 1.0]}, "got inf between columns 0 and 1"),
        ({"y": Y, "gaps": [NAN, 1.0, 1.0]}, "got nan between columns 0 and 1"),
        ({"y": Y, "gaps": [1.0, 1.0, 1.0, 1.0]}, r"gaps must have shape \(3,\), .* got \(4,\); np.diff"),
        ({"y": Y, "gaps": 2.0}, r"gaps must have shape \(3,\), .* got \(\)"),
        ({"y": Y, "gaps": ["far"] * 3}, "gaps must be numbers, got list"),
    ],
)
def test_bad_observations_are_refused_by_name(arguments, message):
    with pytest.raises(ch.InvalidInput, match=message):
        ch.Observations(**arguments)


def test_gaps__that_are_all_one_are_none():
    assert ch.Observations([1.0, 2.0, 3.0], gaps=[1, 1]).gaps is None
    assert ch.Observations([1.0, 2.0, 3.0], starts=[1], gaps=[7, 1]).gaps is None  # the first is across a start
    assert ch.Observations([1.0, 2.0, 3.0], starts=[1], gaps=[1, 7]).gaps.tolist() == [1, 7]
    assert ch.Observations([1.0], gaps=[]).gaps is None
