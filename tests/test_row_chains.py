"""The Markov chain of one row: matrices over gaps against powers in fractions, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chiasma as ch
from chiasma.models.chains import Markov, Sticky, Switch
from chiasma.models.parameters import Parameters
from chiasma.models.priors import DirichletRows
from reference import log_slope, to_free

pytestmark = pytest.mark.jit_off

EPSILON = np.finfo(float).eps
SEEDS = st.integers(0, 2**32 - 1)
STEP = np.array([np.inf, 1.0])

probability = st.floats(0.0, 1.0)

CYCLE = [[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.4, 0.0, 0.6]]
RATES = [[-0.3, 0.1, 0.2], [0.0, -0.5, 0.5], [0.4, 0.1, -0.5]]


def over(*gaps):
    """Gaps of the kinds of edges: kind 0 is a start."""
    return np.array([np.inf, *gaps])


def random_stochastic(rng, n_states):
    return rng.dirichlet(np.full(n_states, 0.7), n_states)


def exact_power(matrix, power):
    """In fractions, rows scaled to add up to 1 exactly."""
    exact = np.array([[Fraction(value) for value in row] for row in np.asarray(matrix).tolist()])
    exact /= exact.sum(axis=1)[:, None]
    return np.linalg.matrix_power(exact, power).astype(float)


# ---- Switch ---------------------------------------------------------------------------------------------------------


@given(enter=probability, leave=probability, initial=probability, gap=st.floats(0.1, 1e4))
def test_a_switch_is_bit_by_bit_a_row_of_binary_chains(enter, leave, initial, gap):
    scale = max(1.0, (enter + leave) * (1 + 1e-12))
    enter, leave = enter / scale, leave / scale
    data = ch.Observations(np.zeros(4), gaps=[gap, 1.0, 2.0])
    _, gaps = data.edge_kinds()
    for start in (initial, None) if enter + leave > 0 else (initial,):
        _, trans = ch.Switches(enter, leave, start).tables(1, data)
        np.testing.assert_array_equal(Switch(enter, leave, start).matrices(2, gaps), trans.reshape(-1, 2, 2))


def test_a_switch_may_switch_more_often_than_not_where_there_are_no_gaps():
    np.testing.assert_allclose(Switch(0.7, 0.6).matrices(2, STEP)[1], [[0.3, 0.7], [0.6, 0.4]], rtol=1e-15)
    with pytest.raises(ch.InvalidInput, match=r"gaps need enter \+ leave <= 1, got 1.3; drop the gaps or lower"):
        Switch(0.7, 0.6).matrices(2, over(1.0, 2.0))


# ---- Sticky ---------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, renew=probability, n_states=st.integers(2, 5), gap=st.integers(1, 30))
def test_a_whole_gap_is_a_power_of_the_sticky_matrix(seed, renew, n_states, gap):
    pi = np.random.default_rng(seed).dirichlet(np.ones(n_states))
    start, made = Sticky(renew, pi).matrices(n_states, over(gap))
    np.testing.assert_array_equal(start, np.tile(pi, (n_states, 1)))
    r = Fraction(renew)
    exact = [Fraction(value) / sum(map(Fraction, pi)) for value in pi]
    step = np.array([[(1 - r) * (x == y) + r * exact[y] for y in range(n_states)] for x in range(n_states)])
    power = np.linalg.matrix_power(step, gap).astype(float)
    np.testing.assert_allclose(made, power, rtol=1e-12, atol=4 * EPSILON)


@given(renew=probability, first=st.floats(0.1, 40), second=st.floats(0.1, 40))
def test_two_gaps_of_a_sticky_row_are_one_of_their_sum(renew, first, second):
    made = Sticky(renew, [0.2, 0.5, 0.3]).matrices(3, over(first, second, first + second))
    np.testing.assert_allclose(made[1] @ made[2], made[3], rtol=1e-12, atol=4 * EPSILON)


def test_tiny_renewals_keep_their_relative_precision_over_a_gap():
    made = Sticky(1e-15, [0.25, 0.75]).matrices(2, over(1000.0))
    np.testing.assert_allclose(made[1, 0, 1], 0.75e-12, rtol=1e-11)
    np.testing.assert_allclose(made[1, 1, 0], 0.25e-12, rtol=1e-11)


def test_a_sticky_row_is_told_its_number_of_states_and_all_are_equally_probable():
    chain = Sticky(0.3)
    assert chain.n_states is None
    for n_states in (2, 5):
        expected = 0.7 * np.eye(n_states) + 0.3 / n_states
        np.testing.assert_allclose(chain.matrices(n_states, STEP)[1], expected, rtol=1e-14)
        np.testing.assert_allclose(chain.initial_distribution(n_states), 1 / n_states)


def test_a_row_that_always_or_never_renews():
    always, never = (Sticky(renew, [0.2, 0.8]).matrices(2, over(0.5, 1.0, 7.0))[1:] for renew in (1.0, 0.0))
    np.testing.assert_array_equal(always, np.full((3, 2, 2), [0.2, 0.8]))
    np.testing.assert_array_equal(never, np.full((3, 2, 2), np.eye(2)))


# ---- Markov ---------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_states=st.integers(2, 5))
def test_whole_gaps_are_powers_and_one_step_is_the_matrix_itself(seed, n_states):
    matrix = random_stochastic(np.random.default_rng(seed), n_states)
    matrix /= matrix.sum(axis=1, keepdims=True)
    gaps = [1.0, 2.0, 7.0, 12.0]
    made = Markov(matrix).matrices(n_states, over(*gaps))
    np.testing.assert_array_equal(made[1], matrix)
    for gap, power in zip(gaps, made[1:], strict=True):
        np.testing.assert_allclose(power, exact_power(matrix, int(gap)), rtol=1e-13)
        np.testing.assert_allclose(power.sum(axis=1), 1.0, rtol=0, atol=4 * EPSILON)


def test_powers_keep_small_entries_and_add_up_to_1_over_very_long_gaps():
    tiny = [[1 - 1e-9, 1e-9, 0.0], [0.0, 1 - 1e-12, 1e-12], [1e-3, 0.0, 1 - 1e-3]]
    made = Markov(tiny).matrices(3, over(3.0, 1e9, 2.0**70))
    np.testing.assert_allclose(made[1], exact_power(tiny, 3), rtol=1e-13)
    assert made[1, 0, 2] == pytest.approx(3e-21, rel=1e-8)
    np.testing.assert_allclose(made.sum(axis=-1), 1.0, rtol=0, atol=4 * EPSILON)
    np.testing.assert_allclose(made[3], made[0], rtol=1e-9)  # forgotten: the stationary distribution


def test_a_chain_that_alternates_does_so_over_whole_gaps():
    made = Markov([[0.0, 1.0], [1.0, 0.0]]).matrices(2, over(2.0, 5.0))
    np.testing.assert_array_equal(made[1:], [np.eye(2), 1 - np.eye(2)])


@given(first=st.floats(0.1, 30), second=st.floats(0.1, 30))
def test_two_gaps_in_turn_are_one_gap_of_their_sum(first, second):
    for chain in (Markov(rates=RATES), Markov([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])):
        made = chain.matrices(3, over(first, second, first + second))
        np.testing.assert_allclose(made[1] @ made[2], made[3], rtol=1e-11)


def test_rates_of_two_states_are_a_switch():
    enter, leave = 0.02, 0.05
    rate = -np.log1p(-(enter + leave)) / (enter + leave)
    chain = Markov(rates=[[-enter * rate, enter * rate], [leave * rate, -leave * rate]])
    gaps = over(0.3, 1.0, 17.5)
    np.testing.assert_allclose(chain.matrices(2, gaps), Switch(enter, leave).matrices(2, gaps), rtol=1e-12)


def test_a_matrix_with_rates_serves_real_gaps_as_they_do():
    sticky, gaps = Sticky(0.3, [0.5, 0.3, 0.2]), over(0.25, 1.0, 2.0, 3.7)
    chain = Markov(sticky.matrices(3, STEP)[1])
    np.testing.assert_allclose(chain.matrices(3, gaps)[1:], sticky.matrices(3, gaps)[1:], rtol=1e-11)


def test_small_rates_keep_their_relative_precision():
    made = Markov(rates=[[-1e-12, 1e-12, 0.0], [0.0, -1e-9, 1e-9], [1.0, 0.0, -1.0]]).matrices(3, over(2.0))
    assert made[1, 0, 1] == pytest.approx(2e-12, rel=1e-8)
    # 0 -> 1 -> 2 and not yet on to 0: 1e-12 * 1e-9 times the integral of (2 - t) exp(-t) over the time t in state 2.
    assert made[1, 0, 2] == pytest.approx(1e-21 * (1 + np.exp(-2.0)), rel=1e-8)


@given(seed=SEEDS, n_states=st.integers(2, 6), scale=st.integers(0, 12))
def test_the_default_start_is_stationary_to_relative_precision(seed, n_states, scale):
    rng = np.random.default_rng(seed)
    flows = rng.random((n_states, n_states)) * 10.0 ** -rng.integers(0, scale + 1, (n_states, 1))
    np.fill_diagonal(flows, 0.0)
    rates = flows - np.diag(flows.sum(axis=1))
    pi = Markov(rates=rates).initial_distribution(n_states)
    assert pi.sum() == pytest.approx(1.0, abs=4 * EPSILON)
    # What flows into a state flows out of it.
    np.testing.assert_allclose(pi @ flows, pi * flows.sum(axis=1), rtol=1e-12)


def test_states_that_are_left_for_good_have_no_stationary_probability():
    chain = Markov([[0.5, 0.25, 0.25], [0.0, 0.9, 0.1], [0.0, 0.3, 0.7]])
    np.testing.assert_allclose(chain.initial_distribution(3), [0.0, 0.75, 0.25], rtol=1e-14)


def test_at_a_start_every_row_of_the_matrix_is_the_initial_distribution():
    for chain in (Markov(CYCLE, [0.2, 0.3, 0.5]), Sticky(0.1, initial=[0.2, 0.3, 0.5])):
        np.testing.assert_array_equal(chain.matrices(3, STEP)[0], [[0.2, 0.3, 0.5]] * 3)
    np.testing.assert_array_equal(Switch(0.1, 0.2, 0.25).matrices(2, STEP)[0], [[0.75, 0.25]] * 2)


# ---- Priors and forms -----------------------------------------------------------------------------------------------

LEARNED = [
    Switch(ch.Beta(1, 9), 0.2, ch.Beta(2, 2)),
    Switch(0.1, ch.Uniform(0.0, 0.5)),
    Sticky(ch.Beta(1, 9), ch.Dirichlet([2, 1, 1])),
    Sticky(0.1, [0.5, 0.25, 0.25], ch.Dirichlet([2, 1, 1])),
    Markov(DirichletRows([[8, 1, 1], [1, 8, 1], [1, 2, 8]]), ch.Dirichlet([1, 1, 1])),
]
PLAIN = [Switch(0.1, 0.2), Sticky(0.1), Markov(CYCLE), Markov(rates=RATES, initial=[0.2, 0.3, 0.5])]


def told(chain):
    """A chain as it would be stored."""
    return {
        name: chain.priors[name].describe()
        if name in chain.priors
        else None
        if getattr(chain, name) is None
        else getattr(chain, name).tolist()
        for name in chain.arguments
    }


@pytest.mark.parametrize("chain", [*LEARNED, *PLAIN], ids=repr)
def test_arguments_make_a_chain_again(chain):
    again = chain.with_values({})
    assert told(again) == told(chain)
    plain = type(chain)(**{name: getattr(chain, name) for name in chain.arguments})
    assert plain.priors == {}
    n_states = chain.n_states or 3
    np.testing.assert_array_equal(plain.matrices(n_states, STEP), chain.matrices(n_states, STEP))


@pytest.mark.parametrize("chain", LEARNED, ids=repr)
def test_priors_are_remembered_and_typical_values_stand_in_for_them(chain):
    rng = np.random.default_rng(1)
    for name, prior in chain.priors.items():
        np.testing.assert_array_equal(getattr(chain, name), prior.centre)
    values = {name: prior.sample(rng) for name, prior in chain.priors.items()}
    placed, checked = chain.with_unchecked_values(values), chain.with_values(values)
    assert placed.priors == checked.priors == {}
    assert chain.priors  # it keeps its own
    np.testing.assert_array_equal(
        placed.matrices(chain.n_states, over(1.0, 2.0)), checked.matrices(chain.n_states, over(1.0, 2.0))
    )


def test_a_list_of_dirichlets_is_a_prior_of_the_matrix():
    chain = Markov([ch.Dirichlet([8, 2]), ch.Dirichlet([1, 3])])
    assert chain.priors["transition"].describe() == {"prior": "DirichletRows", "concentration": [[8, 2], [1, 3]]}
    np.testing.assert_allclose(chain.initial_distribution(2), [0.25 / 0.45, 0.2 / 0.45])


def test_dirichlet_rows_are_a_dirichlet_for_each_row():
    """In values, in free coordinates, and as the kernels take them."""
    prior, rng = DirichletRows([[8, 1, 1], [1, 5, 2], [1, 1, 3]]), np.random.default_rng(2)
    value = prior.sample(rng)
    rows = [ch.Dirichlet(row) for row in prior.concentration]
    assert prior.log_density(value) == pytest.approx(sum(r.log_density(v) for r, v in zip(rows, value, strict=True)))
    free = np.concatenate([to_free(r, v) for r, v in zip(rows, value, strict=True)])
    together = Parameters({"transition": prior}, {})
    np.testing.assert_allclose(together.to_free(value.ravel()), free, rtol=1e-12)
    np.testing.assert_allclose(together.from_free(free), value.ravel(), rtol=1e-12)
    assert together.log_prior(value.ravel()) == pytest.approx(prior.log_density(value), rel=1e-12)
    slope = prior.log_density(value) + sum(log_slope(r, v) for r, v in zip(rows, value, strict=True))
    assert together.log_prior_free(value.ravel()) == pytest.approx(slope, rel=1e-12)
    assert prior.marginal((1, 2)).describe() == {"prior": "Beta", "alpha": 2.0, "beta": 6.0}
    assert prior.alike() == []


def test_the_representation_names_the_parameters():
    assert repr(Switch(0.1, 0.2)) == "Switch(enter=0.1, leave=0.2)"
    assert repr(Sticky(ch.Beta(1, 9), [0.5, 0.5])) == "Sticky(renew=Beta(1, 9), probabilities=[0.5, 0.5])"
    assert repr(Markov(rates=[[-1, 1], [2, -2]])) == "Markov(rates=[[-1.0, 1.0], [2.0, -2.0]])"


# ---- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Switch(1.5, 0.1), r"enter must be probabilities in \[0, 1\], got 1.5; check"),
        (lambda: Switch(0.1, np.nan), r"leave must be probabilities in \[0, 1\], got nan"),
        (lambda: Switch([0.1, 0.2], 0.1), r"enter must be a single probability, got shape \(2,\); a row has one chain"),
        (lambda: Switch("often", 0.1), "enter must be numbers, got str"),
        (lambda: Switch(ch.Gamma(1, 1), 0.1), "enter must be between 0 and 1, and Gamma"),
        (lambda: Switch(ch.Beta([1, 1], 1), 0.1), "the prior of enter must have a single value, got Beta"),
        (lambda: Sticky(-0.1), r"renew must be probabilities in \[0, 1\], got -0.1"),
        (lambda: Sticky(0.1, [0.5, 0.4]), "probabilities must add up to 1 within 1e-12, got 0.9; divide it by its sum"),
        (lambda: Sticky(0.1, [1.5, -0.5]), r"probabilities must be probabilities in \[0, 1\], got 1.5"),
        (
            lambda: Sticky(0.1, [[0.5, 0.5]]),
            r"probabilities must be one probability per state, at least two, got shape",
        ),
        (lambda: Sticky(0.1, [1.0]), r"one probability per state, at least two, got shape \(1,\)"),
        (
            lambda: Sticky(0.1, [0.5, 0.5], [1, 0, 0]),
            "Sticky must have one number of states, got probabilities 2 and in",
        ),
        (lambda: Sticky(0.1, ch.Beta(1, 1)), r"the prior of probabilities must give values that add up to 1, got Beta"),
        (lambda: Markov(), "Markov needs a transition matrix or rates, got neither; give one of the two"),
        (lambda: Markov(CYCLE, rates=RATES), "Markov needs a transition matrix or rates, got both"),
        (lambda: Markov([[0.5, 0.5]]), r"transition must be a square matrix, one row and one .* got shape \(1, 2\)"),
        (lambda: Markov([[0.5, 0.5], [0.5, 0.6]]), r"row 1 of transition must add up to 1 within 1e-12, got 1.1; div"),
        (lambda: Markov([[0.5, 0.5], [np.nan, 1.0]]), r"transition must be probabilities in \[0, 1\], got nan"),
        (lambda: Markov(CYCLE, [0.5, 0.5]), "Markov must have one number of states, got transition 3 and initial 2"),
        (
            lambda: Markov(ch.Dirichlet([1, 1])),
            "the prior of transition must be one Dirichlet per row in a list, got D",
        ),
        (
            lambda: Markov(rates=[[-1, 1], [-1, 1]]),
            "rates between different states must be finite and >= 0, got -1; on",
        ),
        (lambda: Markov(rates=[[-1, np.inf], [1, -1]]), "rates between different states must be finite .* got inf"),
        (lambda: Markov(rates=[[-1, 1], [1, -2]]), "row 1 of rates must add up to 0 .* got -1; put minus the sum"),
        (lambda: Markov(rates=ch.Gamma([1, 1], 1)), r"rates are not learned, got Gamma.*; give transition=\[Dirichlet"),
        (
            lambda: DirichletRows([1, 1]),
            r"DirichletRows needs a square matrix .* got shape \(2,\); for one distribution",
        ),
        (lambda: DirichletRows([[1, 0], [1, 1]]), "concentration of Dirichlet must be positive"),
    ],
)
def test_bad_parameters_are_refused_by_name(make, message):
    with pytest.raises(ch.InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        (Switch(0.0, 0.0), "enter = leave = 0 has no single stationary distribution; give initial="),
        (Markov(np.eye(2)), "not unique: a row in state 0 and one in state 1 never come together; give initial="),
        (Markov([[1, 0, 0], [0.1, 0.8, 0.1], [0, 0, 1]]), "a row in state 0 and one in state 2 never come together"),
    ],
    ids=repr,
)
def test_a_start_without_a_single_stationary_distribution_is_asked_for(chain, message):
    with pytest.raises(ch.InvalidInput, match=message):
        chain.initial_distribution(chain.n_states)


def test_a_row_with_another_number_of_states_is_refused():
    message = "the Markov chain has 2 states and its row 3; give a row one value per state"
    for chain in (Switch(0.1, 0.2), Switch(0.1, 0.2, 0.5), Sticky(0.1, [0.5, 0.5]), Markov([[0.5, 0.5], [0.5, 0.5]])):
        with pytest.raises(ch.InvalidInput, match=message):
            chain.matrices(3, STEP)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        # One eigenvalue is 0; one is negative; and 0 -> 2 takes two steps, so rates would have to be negative.
        ([[0.5, 0.5], [0.5, 0.5]], "the gap 0.5 needs rates, and a singular transition matrix has none; give rates=Q"),
        ([[0.1, 0.9], [0.8, 0.2]], "the gap 0.5 needs rates, and the principal logarithm .* has negative or complex"),
        (CYCLE, "the principal logarithm of the transition matrix has negative or complex ones; give rates=Q in place"),
    ],
)
def test_real_gaps_are_refused_for_matrices_without_rates(transition, message):
    chain = Markov(transition)
    chain.matrices(chain.n_states, over(1.0, 2.0))
    with pytest.raises(ch.InvalidInput, match=message):
        chain.matrices(chain.n_states, over(1.0, 0.5))
