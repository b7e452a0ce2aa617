"""Codes, priors of paths and single rows with any numbers of states, against their slow twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

import state_reference as twin
from chiasma.kernels import layout as layouts
from chiasma.kernels import state_paths, state_rows
from chiasma.kernels.layout import make_layout
from reference import invert, log, temper

pytestmark = pytest.mark.jit_off

TIGHT = 1e-12
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([(2,), (3,), (4, 5), (2, 2, 2), (3, 2, 9), (5, 3, 2, 2)])
ROWS = st.sampled_from([2, 3, 4, 5, 8, 9, 21])


def make(seed, sizes, n_columns, **options):
    rng = np.random.default_rng(seed)
    return rng, twin.random_problem(rng, sizes, n_columns, **options), make_layout(sizes)


# ---- Codes and paths ------------------------------------------------------------------------------------------------


@given(seed=SEEDS, sizes=SIZES)
def test_indices_and_codes_are_two_forms_of_the_same_states(seed, sizes):
    rng, problem, layout = make(seed, sizes, 1)
    indices = rng.integers(len(problem.states), size=12).repeat(rng.integers(1, 3, size=12))
    codes, back = np.empty_like(indices), np.empty_like(indices)
    layouts.codes_of_indices(indices, layout, codes)
    np.testing.assert_array_equal(codes, problem.codes(indices))
    layouts.index_of_codes(codes, layout, back)
    np.testing.assert_array_equal(back, indices)
    np.testing.assert_array_equal(layout.strides @ problem.states[indices].T, indices)
    k = seed % len(sizes)
    states = rng.integers(sizes[k], size=len(indices))
    layouts.put_in_indices(states, layout, k, indices)
    np.testing.assert_array_equal(problem.states[indices, k], states)
    others = np.delete(np.arange(len(sizes)), k)
    np.testing.assert_array_equal(problem.states[indices][:, others], problem.states[back][:, others])
    layouts.put_in_codes(states, layout, k, codes)
    np.testing.assert_array_equal(codes, problem.codes(indices))


def test_a_row_has_as_many_bits_as_its_highest_state_needs():
    layout = make_layout([2, 3, 4, 5, 8, 9, 21])
    assert layout.shifts.tolist() == [0, 1, 3, 5, 8, 11, 15]
    assert layout.masks.tolist() == [1, 3, 3, 7, 7, 15, 31]
    assert layout.strides.tolist() == [1, 2, 6, 24, 120, 960, 8640]
    assert layout.first.tolist() == [0, 4, 13, 29, 54, 118, 199]
    top = make_layout([2] * 63)
    assert layouts.code_of_index(1 << 62, top) == 1 << 62 == layouts.index_of_code(1 << 62, top)


@given(seed=SEEDS, sizes=SIZES, zeros=st.booleans(), constant=st.booleans())
def test_log_prior_and_moves_add_up_along_the_path(seed, sizes, zeros, constant):
    rng, problem, layout = make(seed, sizes, 7, zeros=zeros)
    problem.beta = 0.0
    path = rng.integers(len(problem.states), size=7)
    if constant:
        path[:] = path[0]
    codes = problem.codes(path)
    made = state_paths.log_prior(codes, log(problem.trans), layout, problem.edge)
    assert made == pytest.approx(twin.log_joint(problem, path), rel=TIGHT)
    counts = np.ones(problem.trans.shape, np.int64)
    state_paths.count_moves(codes, layout, problem.edge, counts)
    expected = np.ones_like(counts)
    before = 0
    for t, index in enumerate(path):
        for k in range(len(sizes)):
            place = problem.place(k, problem.states[before, k], problem.states[index, k])
            expected[problem.edge[t], place] += 1
        before = index
    np.testing.assert_array_equal(counts, expected)


# ---- One row --------------------------------------------------------------------------------------------------------


def in_order(problem, alpha, uniforms):
    """Backward draw over x = 0, 1, ... from log filtered weights."""
    path = np.empty(len(alpha), np.int64)
    for t in range(len(alpha) - 1, -1, -1):
        last = t == len(alpha) - 1
        weights = alpha[t] if last else alpha[t] + problem.dense[problem.edge[t + 1]][:, path[t + 1]]
        path[t] = invert(weights, range(len(weights)), uniforms[t])
    return path


@pytest.mark.slow
@given(seed=SEEDS, size=ROWS, n_columns=st.integers(1, 30), scale=st.sampled_from([1.0, 30.0, 300.0]))
def test_the_row_filter_and_draw_equal_the_dense_twin(seed, size, n_columns, scale):
    rng, problem, _ = make(seed, (size,), n_columns, scale=scale)
    lik = temper(problem.log_lik, 1.0)[0]
    alpha, states = np.empty((n_columns, size)), np.empty(n_columns, np.int64)
    total = state_rows.filter_row(lik, problem.trans, problem.edge, alpha)
    expected, _, evidence = twin.dense_filter(problem)
    assert total + problem.log_lik.max(axis=1).sum() == pytest.approx(evidence, rel=1e-10, abs=1e-10)
    made = alpha / alpha.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(made, np.exp(expected), rtol=1e-10, atol=1e-200)
    uniforms = rng.random(n_columns)
    state_rows.draw_row(alpha, problem.trans, problem.edge, uniforms, states)
    np.testing.assert_array_equal(states, in_order(problem, expected, uniforms))


@pytest.mark.slow
@given(seed=SEEDS, size=ROWS, n_columns=st.integers(1, 12), beta=st.sampled_from([0.0, 0.5, 1.0]))
def test_the_row_passes_in_logarithms_equal_the_dense_twin(seed, size, n_columns, beta):
    rng, problem, _ = make(seed, (size,), n_columns, zeros=True)
    problem.beta = beta
    log_trans = log(problem.trans)
    alpha, states = np.empty((n_columns, size)), np.empty(n_columns, np.int64)
    total, impossible = state_rows.log_filter_row(problem.log_lik, beta, log_trans, problem.edge, alpha)
    expected, _, evidence = twin.dense_filter(problem)
    assert impossible == -1
    assert total + logsumexp(alpha[-1]) == pytest.approx(evidence, rel=1e-11, abs=TIGHT)
    uniforms = rng.random(n_columns)
    state_rows.log_draw_row(alpha, log_trans, problem.edge, uniforms, states)
    np.testing.assert_array_equal(states, in_order(problem, expected, uniforms))


def test_a_long_row_never_vanishes():
    n_columns = 1500
    lik = np.tile([1e-19, 1e-20, 1e-18], (n_columns, 1))
    _, problem, _ = make(1, (3,), n_columns)
    problem.log_lik[:] = np.log(lik)
    alpha = np.empty((n_columns, 3))
    total = state_rows.filter_row(lik, problem.trans, problem.edge, alpha)
    expected, _, evidence = twin.dense_filter(problem)
    assert total == pytest.approx(evidence, rel=1e-11)
    np.testing.assert_allclose(alpha / alpha.sum(axis=1, keepdims=True), np.exp(expected), rtol=1e-9)


@given(seed=SEEDS, size=ROWS, zeros=st.booleans())
def test_prior_rows_follow_the_inverse_of_their_transitions(seed, size, zeros):
    rng, problem, _ = make(seed, (size,), 20, zeros=zeros)
    uniforms, states = rng.random(20), np.empty(20, np.int64)
    uniforms[3], uniforms[7] = 0.0, np.nextafter(1.0, 0.0)
    state_rows.draw_prior_row(problem.trans, problem.edge, uniforms, states)
    x = 0
    for t in range(20):
        x = invert(problem.dense[problem.edge[t], x], range(size), uniforms[t])
        assert states[t] == x


def test_a_uniform_at_the_very_end_picks_the_last_possible_state():
    trans = np.array([[0.5, 0.5, 0.0] * 3, [0.25, 0.75, 0.0] * 3])
    edge, states = np.array([0, 1], np.int32), np.empty(2, np.int64)
    state_rows.draw_prior_row(trans, edge, np.ones(2), states)
    assert states.tolist() == [1, 1]
    alpha = np.array([[0.5, 0.25, 0.0], [1.0, 0.0, 0.0]])
    state_rows.draw_row(alpha, trans, edge, np.ones(2), states)
    assert states.tolist() == [1, 0]


@given(seed=SEEDS, beta=st.sampled_from([0.3, 1.0, 2.0]), scale=st.sampled_from([1.0, 100.0, 3000.0]))
def test_row_likelihoods_keep_the_ratios_of_the_states_of_a_row(seed, beta, scale):
    sizes = (3, 2, 4)
    rng, problem, layout = make(seed, sizes, 6, scale=scale)
    log_lik = problem.log_lik
    log_lik[rng.random(log_lik.shape) < 0.3] = -np.inf
    log_lik[:, 5] = 0.0
    lik = temper(log_lik, beta)[0]
    path = rng.integers(24, size=6)
    for k, size in enumerate(sizes):
        out = np.empty((6, size))
        state_rows.row_likelihoods(lik, log_lik, beta, path, layout, k, out)
        for t in range(6):
            others = np.delete(problem.states, k, axis=1)
            same = (others == others[path[t]]).all(axis=1)  # in the order of the states of row k
            values = log_lik[t, same]
            if values.max() == -np.inf:
                values = np.zeros(size)
            expected = np.exp(beta * (values - values.max()))
            np.testing.assert_allclose(out[t] / out[t].max(), expected, rtol=1e-9, atol=1e-280)
