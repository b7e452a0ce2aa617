"""FactorialHMM: targets, simulation, impossible data, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import chiasma as ch
import reference
from chiasma.kernels.codes import pack

CHAINS = ch.Switches(0.1, 0.2)
MODEL = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian([1.0, 2.0]))
Y = [0.0, 1.0, 2.0]
EVERYTHING = [
    ch.exact.log_evidence,
    ch.exact.marginals,
    ch.exact.map_states,
    lambda model, data: ch.exact.draws(model, data, 1),
]


# ---- Targets --------------------------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("fixed", [{}, {1: 1}, {0: 1, 2: 0}], ids=str)
@pytest.mark.parametrize("channels", [False, True])
def test_a_target_holds_the_free_rows_and_the_level_of_the_fixed_ones(fixed, channels):
    rng = np.random.default_rng(20)
    weights = rng.normal(size=(3, 2) if channels else 3)
    y = rng.normal(size=(5, 2) if channels else 5)
    y[2] = np.nan
    emission = ch.Gaussian(weights, sd=0.7)
    model = ch.FactorialHMM(rows=ch.Switches([0.1, 0.2, 0.3], 0.2), emission=emission, fixed=fixed)
    target = model.target(y)
    free = [k for k in range(3) if k not in fixed]
    assert target.free == tuple(free) == model.free_rows
    np.testing.assert_allclose(target.trans[1, :, 1], np.array([0.1, 0.2, 0.3])[free], rtol=1e-15)
    table = reference.level_table(y, weights, lambda value, mean, d: stats.norm.logpdf(value, mean, 0.7))
    whole = target.expand(np.arange(2 ** len(free)))
    for i, code in enumerate(whole):
        assert all(reference.bit(code, k) == x for k, x in fixed.items())
        assert all(reference.bit(code, k) == reference.bit(i, j) for j, k in enumerate(free))
    np.testing.assert_array_equal(target.reduce(whole), np.arange(2 ** len(free)))
    np.testing.assert_allclose(target.log_lik, table[:, whole], rtol=1e-12)
    codes = rng.integers(2 ** len(free), size=(5, 4))
    np.testing.assert_allclose(target.likelihood.at(codes), np.take_along_axis(target.log_lik, codes, 1), rtol=1e-12)
    assert target.log_likelihood(codes[:, 0]) == pytest.approx(target.log_lik[np.arange(5), codes[:, 0]].sum())


def test_a_table_gives_a_target_the_same_values_by_both_ways():
    rng = np.random.default_rng(21)
    table = rng.normal(size=(5, 8))
    model = ch.FactorialHMM(rows=CHAINS, emission=ch.Table(table), fixed={1: 1})
    target = model.target([0.0, 0.0, np.nan, 0.0, 0.0])
    expected = table[:, [2, 3, 6, 7]]
    expected[2] = 0.0
    np.testing.assert_array_equal(target.log_lik, expected)
    codes = rng.integers(4, size=(5, 3))
    np.testing.assert_array_equal(target.likelihood.at(codes), np.take_along_axis(expected, codes, 1))
    assert (table[2] != 0).all()


@pytest.mark.jit_off
def test_the_table_of_a_target_is_the_same_in_one_piece_and_in_many():
    y = np.linspace(0, 3, 40)
    model = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian(np.linspace(0.1, 1, 12)))
    target = model.target(y)  # 2^12 codes: filled 16 columns at a time
    np.testing.assert_array_equal(target.log_lik, target.likelihood.all_codes(0, 40))


def test_a_target_is_tabulated_while_its_table_fits_the_budget():
    assert MODEL.target(Y, table_bytes=8 * 3 * 4).tabulated
    assert not MODEL.target(Y, table_bytes=8 * 3 * 4 - 1).tabulated
    large = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian(np.ones(63)))
    assert not large.target(Y).tabulated


def test_the_representation_names_rows_chains_emission_and_fixed_rows():
    assert repr(MODEL) == f"FactorialHMM(rows={MODEL.rows}, emission={MODEL.emission})"
    fixed = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian([1.0, 2.0]), fixed={1: 1})
    assert repr(fixed).endswith(", fixed={1: 1})")


# ---- Simulation -----------------------------------------------------------------------------------------------------


def test_simulated_states_follow_the_chains_and_the_signal_follows_the_states():
    n_columns = 20_000
    chains = ch.Switches(enter=[0.1, 0.3], leave=[0.2, 0.1])
    model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian([1.0, 2.0], depth=3.0, sd=0.5))
    states, y = model.simulate(n_columns, seed=22)
    assert states.shape == (2, n_columns)
    for k, (enter, leave) in enumerate([(0.1, 0.2), (0.3, 0.1)]):
        before, after = states[k, :-1], states[k, 1:]
        # Binomial tests with a fixed seed; for a new one the false-alarm rate is 1e-6 each.
        entered = stats.binomtest(int((after[before == 0] == 1).sum()), int((before == 0).sum()), enter)
        left = stats.binomtest(int((after[before == 1] == 0).sum()), int((before == 1).sum()), leave)
        assert entered.pvalue > 1e-6
        assert left.pvalue > 1e-6
    noise = (y - 3.0 * (states[0] + 2.0 * states[1])) / 0.5
    assert stats.kstest(noise, "norm").pvalue > 1e-6


def test_simulation_respects_starts_gaps_fixed_rows_and_the_seed():
    chains = ch.Switches(enter=0.0, leave=0.0, initial=0.5)
    emission = ch.Gaussian([1.0, 2.0])
    model = ch.FactorialHMM(rows=chains, emission=emission, fixed={1: 1})
    states, y = model.simulate(3000, seed=23, starts=np.arange(0, 3000, 3), gaps=np.full(2999, 4.0))
    blocks = states[0].reshape(-1, 3)
    assert (blocks == blocks[:, :1]).all()
    assert stats.binomtest(int(blocks[:, 0].sum()), 1000, 0.5).pvalue > 1e-6
    assert (states[1] == 1).all()
    again, y_again = model.simulate(3000, seed=23, starts=np.arange(0, 3000, 3), gaps=np.full(2999, 4.0))
    np.testing.assert_array_equal(states, again)
    np.testing.assert_array_equal(y, y_again)
    assert (model.simulate(3000, seed=24)[1] != y).any()


def test_simulation_with_channels_has_their_shape():
    model = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian([[1.0, 0.0, 2.0]], sd=1e-9))
    states, y = model.simulate(50, seed=np.random.default_rng(25))
    np.testing.assert_allclose(y, states.T * [1.0, 0.0, 2.0], atol=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MODEL.simulate(0), "number of columns must be a whole number of at least 1, got 0"),
        (
            lambda: ch.FactorialHMM(rows=CHAINS, emission=ch.Table(np.zeros((3, 2)))).simulate(3),
            "a Table has no sampler",
        ),
        (
            lambda: ch.FactorialHMM(rows=CHAINS, emission=ch.Custom(lambda y, level: y - level, [1.0])).simulate(3),
            "a Custom emission cannot simulate",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(call, message):
    with pytest.raises(ch.InvalidInput, match=message):
        call()


# ---- Impossible data ------------------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("call", EVERYTHING)
def test_an_observation_that_no_configuration_explains_is_named(call):
    model = ch.FactorialHMM(rows=CHAINS, emission=ch.Poisson([1.0, 2.0]), fixed={0: 0})
    table = np.zeros((5, 4))
    table[3] = -np.inf
    with pytest.raises(ch.ImpossibleData, match="observation at column 3 has probability zero under every config"):
        call(ch.FactorialHMM(rows=CHAINS, emission=ch.Table(table)), np.zeros(5))
    call(model, [0.0, 0.0, 5.0])
    blind = ch.FactorialHMM(rows=CHAINS, emission=ch.Poisson([1.0, 0.0]), fixed={0: 0})
    with pytest.raises(ch.ImpossibleData, match=r"observation at column 2 .* \(a background keeps counts possible"):
        call(blind, [0.0, 0.0, 5.0])


@pytest.mark.parametrize("call", EVERYTHING)
def test_an_observation_that_the_transitions_exclude_is_named(call):
    chains = ch.Switches(enter=0.0, leave=0.5, initial=0.0)
    model = ch.FactorialHMM(rows=chains, emission=ch.Poisson([1.0, 2.0]))
    call(model, [0.0, 0.0, np.nan, 0.0])
    with pytest.raises(ch.ImpossibleData, match="no path with positive probability reaches column 2: the transitions"):
        call(model, [0.0, 0.0, 5.0, 0.0])


def test_impossible_data_do_not_count_at_beta_zero():
    model = ch.FactorialHMM(rows=ch.Switches(0.0, 0.5, initial=0.0), emission=ch.Poisson([0.0]))
    assert ch.exact.log_evidence(model, [5.0, 5.0], beta=0.0) == 0.0
    assert ch.exact.marginals(model, [5.0, 5.0], beta=0.0).tolist() == [[0.0, 0.0]]
    assert ch.log_joint(model, [5.0, 5.0], [0, 0], beta=0.0) == 0.0


def test_the_log_joint_of_an_impossible_path_is_minus_infinity():
    model = ch.FactorialHMM(rows=ch.Switches(0.0, 0.5, initial=0.5), emission=ch.Poisson([1.0]))
    assert ch.log_joint(model, [0.0, 0.0], [0, 1]) == -np.inf
    assert ch.log_joint(model, [0.0, 2.0], [0, 0]) == -np.inf
    assert ch.log_joint(model, [0.0, 2.0], [0, 0], beta=0.0) == pytest.approx(np.log(0.5))


# ---- Refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({2: 1}, r"fixed maps rows 0\.\.1 to 0 or 1, got \{2: 1\}"),
        ({-1: 1}, r"fixed maps rows 0\.\.1 to 0 or 1, got \{-1: 1\}"),
        ({0: 2}, r"fixed maps rows 0\.\.1 to 0 or 1, got \{0: 2\}"),
        ({0.5: 1}, r"fixed maps rows 0\.\.1 to 0 or 1, got \{0.5: 1\}"),
        ({0: 0.5}, r"fixed maps rows 0\.\.1 to 0 or 1, got \{0: 0.5\}"),
        ({"first": 1}, r"fixed maps rows 0\.\.1 to 0 or 1, got \{first: 1\}"),
        ({0: 1, 1: 0}, "all 2 rows are fixed; leave at least one free"),
    ],
)
def test_bad_fixed_rows_are_refused(fixed, message):
    with pytest.raises(ch.InvalidInput, match=message):
        ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian([1.0, 2.0]), fixed=fixed)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.zeros((3, 3)), r"states must have shape \(2, 3\) .* or \(3,\) \(codes\), got \(3, 3\)"),
        (np.zeros((2, 4)), r"states must have shape \(2, 3\) .* got \(2, 4\)"),
        ([0, 0], r"states must have shape .* got \(2,\)"),
        ([[0, 1, 2], [0, 0, 0]], "states must be zeros and ones, got 2"),
        ([[0, 1, -1], [0, 0, 0]], "states must be zeros and ones, got -1"),
        ([[0, 1, 0.5], [0, 0, 0]], "states must be zeros and ones, got 0.5"),
        ([0, 4, 1], r"states must be codes in 0\.\.3, got 4"),
        ([0, -1, 1], r"states must be codes in 0\.\.3, got -1"),
        ([0, 1.5, 1], r"states must be codes in 0\.\.3, got 1.5"),
        ([0, np.nan, 1], r"states must be codes in 0\.\.3, got nan"),
        ([0, np.inf, 1], r"states must be codes in 0\.\.3, got inf"),
        (["a", "b", "c"], "states must be numbers, got <U1"),
        ([0, None, 1], "states must be numbers, got object"),
    ],
)
def test_bad_states_are_refused(states, message):
    with pytest.raises(ch.InvalidInput, match=message):
        ch.log_joint(MODEL, Y, states)


def test_states_that_contradict_fixed_rows_are_refused():
    model = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian([1.0, 2.0]), fixed={1: 1})
    message = "states contradict fixed: row 1 is fixed at 1, got 0 at column 2"
    with pytest.raises(ch.InvalidInput, match=message):
        ch.log_joint(model, Y, [2, 3, 1])
    with pytest.raises(ch.InvalidInput, match=message):
        ch.log_joint(model, Y, [[0, 1, 1], [1, 1, 0]])


def test_states_of_any_numeric_type_mean_the_same():
    states = np.array([[0, 1, 1], [1, 1, 0]])
    expected = ch.log_joint(MODEL, Y, states)
    for dtype in (bool, np.uint8, float):
        assert ch.log_joint(MODEL, Y, states.astype(dtype)) == expected
    for dtype in (np.uint64, np.int16, float):
        assert ch.log_joint(MODEL, Y, pack(states).astype(dtype)) == expected


@pytest.mark.parametrize("beta", [-0.1, np.nan, np.inf, [1.0, 2.0]])
def test_a_bad_beta_is_refused(beta):
    calls = [
        lambda: ch.exact.log_evidence(MODEL, Y, beta=beta),
        lambda: ch.exact.marginals(MODEL, Y, beta=beta),
        lambda: ch.exact.draws(MODEL, Y, 1, beta=beta),
        lambda: ch.log_joint(MODEL, Y, [0, 0, 0], beta=beta),
    ]
    for call in calls:
        with pytest.raises(ch.InvalidInput, match="beta must be a finite number >= 0, got"):
            call()


def test_a_beta_that_is_no_number_is_refused():
    with pytest.raises(ch.InvalidInput, match="beta must be numbers, got str"):
        ch.exact.log_evidence(MODEL, Y, beta="cold")


@pytest.mark.parametrize("n", [0, -3])
def test_fewer_than_one_draw_is_refused(n):
    with pytest.raises(ch.InvalidInput, match=f"n must be a whole number of at least 1, got {n}"):
        ch.exact.draws(MODEL, Y, n)


@pytest.mark.parametrize("call", EVERYTHING)
def test_a_plain_array_is_checked_like_observations(call):
    with pytest.raises(ch.InvalidInput, match="y must be finite or NaN"):
        call(MODEL, [0.0, np.inf])
    with pytest.raises(ch.InvalidInput, match="y must have at least one column"):
        call(MODEL, [])


def test_every_refusal_is_a_chiasma_error_and_a_builtin_one():
    assert issubclass(ch.InvalidInput, ch.ChiasmaError)
    assert issubclass(ch.InvalidInput, ValueError)
    assert issubclass(ch.ImpossibleData, ch.ChiasmaError)
    assert issubclass(ch.ImpossibleData, ValueError)
    assert issubclass(ch.BudgetExceeded, ch.ChiasmaError)
    assert issubclass(ch.BudgetExceeded, MemoryError)


@given(starts=st.sets(st.integers(1, 11)), gaps=st.lists(st.sampled_from([1.0, 2.0]), min_size=11, max_size=11))
def test_bounds_of_a_target_are_where_the_kind_of_edge_changes(starts, gaps):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]))
    target = model.target(ch.Observations(np.zeros(12), starts=sorted(starts), gaps=gaps))
    changes = [t for t in range(12) if t == 0 or target.edge[t] != target.edge[t - 1]]
    assert target.bounds.tolist() == [*changes, 12]
