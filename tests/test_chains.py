"""Switches: transition tables against powers of the 2x2 matrix, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chiasma as ch

EPSILON = np.finfo(float).eps

probability = st.floats(0.0, 1.0)


def tables(enter, leave, initial, gaps, starts=()):
    data = ch.Observations(np.zeros(len(gaps) + 1), starts=starts, gaps=gaps)
    edge, trans = ch.Switches(enter, leave, initial).tables(len(enter), data)
    return trans[edge].reshape(len(edge), len(enter), 2, 2)


def split(rate, share):
    """enter and leave that add up to at most 1."""
    enter, leave = rate * share, rate * (1 - share)
    return (enter if enter + leave <= 1 else 1 - leave), leave


@given(rate=probability, share=probability, initial=probability, gap=st.integers(1, 40))
def test_a_whole_gap_is_a_power_of_the_one_step_matrix(rate, share, initial, gap):
    enter, leave = split(rate, share)
    made = tables([enter], [leave], [initial], [gap])
    np.testing.assert_allclose(made[0, 0], [[1 - initial, initial]] * 2, rtol=1e-14)
    # In fractions: in floats 1 - enter alone loses more than what is asked for here.
    e, x = Fraction(enter), Fraction(leave)
    step = np.array([[1 - e, e], [x, 1 - x]])
    power = np.linalg.matrix_power(step, gap).astype(float)
    np.testing.assert_allclose(made[1, 0], power, rtol=1e-12, atol=2 * EPSILON)


@given(rate=probability, share=probability, first=st.floats(0.1, 40), second=st.floats(0.1, 40))
def test_two_gaps_in_turn_are_one_gap_of_their_sum(rate, share, first, second):
    """With whole gaps, this leaves no other choice for those between."""
    made = tables(*([value] for value in split(rate, share)), [0.5], [first, second, first + second])[1:, 0]
    np.testing.assert_allclose(made[0] @ made[1], made[2], rtol=1e-12, atol=4 * EPSILON)


@given(enter=st.lists(probability, min_size=1, max_size=4), leave=probability)
def test_one_step_is_the_plain_matrix_even_where_rows_switch_more_often_than_not(enter, leave):
    data = ch.Observations(np.zeros(2))
    _, trans = ch.Switches(enter, leave, 0.5).tables(len(enter), data)
    plain = [[1 - e, e, leave, 1 - leave] for e in enter]
    np.testing.assert_allclose(trans[1], plain, rtol=1e-14, atol=2e-16)


@given(enter=probability, leave=probability, gap=st.floats(0.1, 1e6))
def test_every_row_of_a_table_is_a_distribution(enter, leave, gap):
    scale = max(1.0, (enter + leave) * (1 + 1e-12))
    made = tables([enter / scale], [leave / scale], [0.5], [gap])
    assert (made >= 0).all()
    np.testing.assert_allclose(made.sum(axis=-1), 1.0, rtol=1e-15)


def test_tiny_switching_probabilities_keep_their_relative_precision_over_a_gap():
    made = tables([1e-12], [1e-15], [0.5], [1000.0])
    np.testing.assert_allclose(made[1, 0, 0, 1], 1e-9, rtol=1e-8)
    np.testing.assert_allclose(made[1, 0, 1, 0], 1e-12, rtol=1e-8)
    np.testing.assert_allclose(made[1, 0, 0, 1] / made[1, 0, 1, 0], 1000.0, rtol=1e-13)


def test_a_long_gap_forgets_the_past():
    made = tables([0.01], [0.03], [0.5], [1e9])
    np.testing.assert_allclose(made[1, 0], [[0.75, 0.25], [0.75, 0.25]], rtol=1e-14)


def test_gaps_of_half_a_step_compose_to_one_step():
    made = tables([0.2, 0.01], [0.3, 0.6], [0.5, 0.5], [0.5, 1.0])
    for k in range(2):
        np.testing.assert_allclose(made[1, k] @ made[1, k], made[2, k], rtol=1e-14)


def test_a_frozen_row_stays_frozen_over_a_gap():
    made = tables([0.0], [0.0], [0.3], [17.5])
    np.testing.assert_array_equal(made[1, 0], np.eye(2))


def test_at_a_start_the_gap_has_no_effect():
    made = tables([0.1], [0.2], [0.3], [5.0, 5.0], starts=[1])
    np.testing.assert_allclose(made[1, 0], [[0.7, 0.3], [0.7, 0.3]])


def test_scalars_spread_over_rows_and_the_default_start_is_stationary():
    enter, leave, initial = ch.Switches(0.1, [0.1, 0.3]).probabilities(2)
    assert enter.tolist() == [0.1, 0.1]
    assert leave.tolist() == [0.1, 0.3]
    np.testing.assert_allclose(initial, [0.5, 0.25])


def test_the_representation_names_the_parameters():
    assert repr(ch.Switches(0.1, 0.2)) == "Switches(enter=0.1, leave=0.2)"
    assert repr(ch.Switches(0.1, [0.2, 0.3], 0.5)) == "Switches(enter=0.1, leave=[0.2, 0.3], initial=0.5)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-0.1, 0.1), r"enter must be probabilities in \[0, 1\], got -0.1"),
        ((0.1, 1.5), r"leave must be probabilities in \[0, 1\], got 1.5"),
        ((0.1, 0.1, 2.0), r"initial must be probabilities in \[0, 1\], got 2"),
        ((np.nan, 0.1), r"enter must be probabilities in \[0, 1\], got nan"),
        ((0.1, [0.1, np.inf]), r"leave must be probabilities in \[0, 1\], got inf"),
        (([[0.1, 0.2]], 0.1), r"enter must be a scalar or one value per row, got shape \(1, 2\)"),
        (("often", 0.1), "enter must be numbers, got str"),
        ((0.1, 0.1, [0.1, "x"]), "initial must be numbers, got list"),
    ],
)
def test_bad_probabilities_are_refused_by_name(arguments, message):
    with pytest.raises(ch.InvalidInput, match=message):
        ch.Switches(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, 0.1, 0.1], 0.1), r"enter must be a scalar or have 2 values \(rows\), got 3"),
        ((0.1, [0.1]), r"leave must be a scalar or have 2 values \(rows\), got 1"),
        ((0.1, 0.1, [0.5] * 4), r"initial must be a scalar or have 2 values \(rows\), got 4"),
        ((0.0, 0.0), "row 0 has enter = leave = 0 and so no stationary distribution; give initial="),
        (([0.1, 0.0], [0.1, 0.0]), "row 1 has enter = leave = 0"),
    ],
)
def test_probabilities_that_do_not_fit_the_rows_are_refused_when_the_model_is_made(arguments, message):
    with pytest.raises(ch.InvalidInput, match=message):
        ch.FactorialHMM(rows=ch.Switches(*arguments), emission=ch.Gaussian([1.0, 2.0]))


def test_gaps_are_refused_where_a_row_switches_more_often_than_not():
    model = ch.FactorialHMM(rows=ch.Switches([0.1, 0.7], 0.4), emission=ch.Gaussian([1.0, 2.0]))
    assert np.isfinite(ch.exact.log_evidence(model, [0.0, 1.0]))
    with pytest.raises(ch.InvalidInput, match=r"gaps need enter \+ leave <= 1 in every row, got 1.1 in row 1; drop"):
        ch.exact.log_evidence(model, ch.Observations([0.0, 1.0], gaps=[2.0]))
