"""Codes, priors of paths and single rows with any numbers of states, against their slow twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import state_reference as twin
from chiasma.kernels import layout as layouts
from chiasma.kernels import state_rows, transitions
from chiasma.kernels.layout import make_layout
from reference import invert, log

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
    indices += (states - problem.states[indices, k]) * layout.strides[k]
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
    made = transitions.log_prior(codes, transitions.Matrices(log(problem.trans), layout), problem.edge)
    assert made == pytest.approx(twin.log_joint(problem, path), rel=TIGHT)
    counts = np.ones(problem.trans.shape, np.int64)
    transitions.count_moves(codes, problem.edge, transitions.Matrices(counts, layout))
    expected = np.ones_like(counts)
    before = 0
    for t, index in enumerate(path):
        for k in range(len(sizes)):
            place = problem.place(k, problem.states[before, k], problem.states[index, k])
            expected[problem.edge[t], place] += 1
        before = index
    np.testing.assert_array_equal(counts, expected)


# ---- One row --------------------------------------------------------------------------------------------------------


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
