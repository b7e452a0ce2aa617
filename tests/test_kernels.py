"""Every kernel against its slow twin, on random inputs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

import reference
from chiasma.kernels import (
    ball,
    codes,
    gaussian,
    log_passes,
    logspace,
    mixing,
    passes,
    picking,
    rows,
    side_by_side,
    step,
    sweeps,
    transitions,
)
from chiasma.kernels.lanes import aligned_empty
from chiasma.kernels.layout import ball_offsets, make_layout
from chiasma.kernels.logspace import LOWEST, exp_in_place, temper_columns
from chiasma.models.target import tempered_table

pytestmark = pytest.mark.jit_off

TIGHT = 1e-12

SEEDS = st.integers(0, 2**32 - 1)
SHAPES = st.sampled_from([(1, 1), (1, 6), (2, 5), (3, 4), (4, 3)])


def make(seed, shape, **options):
    """A random problem, and its kernel arrays."""
    rng = np.random.default_rng(seed)
    problem = reference.random_problem(rng, *shape, starts=True, gaps=True, **options)
    edge, trans = reference.kernel_arrays(problem)
    return rng, problem, edge, trans


def matrices(table):
    """Transition probabilities of rows of two states in the other form."""
    return transitions.Matrices(table.reshape(len(table), -1), make_layout([2] * table.shape[1]))


def binary_ball(n_rows, radius):
    return ball_offsets(make_layout([2] * n_rows), radius)


# ---- arrays ---------------------------------------------------------------------------------------------------------


def test_aligned_arrays_begin_a_line_of_the_cache_and_share_no_number():
    # Kept, so that each has a place of its own; NumPy begins one in four at a line.
    made = [aligned_empty(n_rows, n) for n_rows in (1, 2, 7, 300) for n in (1, 2, 3, 8, 64, 100)]
    for i, array in enumerate(made):
        array[:] = i
    for i, array in enumerate(made):
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous
        assert np.all(array == i)
    assert [array.shape for array in made[-6:]] == [(300, n) for n in (1, 2, 3, 8, 64, 100)]


# ---- codes ----------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_rows=st.integers(1, 63), n_columns=st.integers(1, 7), n_batch=st.integers(0, 3))
def test_pack_and_unpack_are_inverse_and_bit_k_is_row_k(seed, n_rows, n_columns, n_batch):
    states = np.random.default_rng(seed).integers(2, size=(n_batch, n_rows, n_columns))
    packed = codes.pack(states)
    for i, t in np.ndindex(n_batch, n_columns):
        assert packed[i, t] == sum(int(states[i, k, t]) * 2**k for k in range(n_rows))
    np.testing.assert_array_equal(codes.unpack(packed, n_rows), states)
    np.testing.assert_array_equal(codes.unpack(packed.astype(codes.smallest_dtype(n_rows)), n_rows), states)


@given(seed=SEEDS, n_rows=st.integers(1, 63))
def test_move_bits_sends_each_bit_to_its_place_and_drops_the_others(seed, n_rows):
    rng = np.random.default_rng(seed)
    n_moved = int(rng.integers(1, n_rows + 1))
    source, destination = (rng.permutation(n_rows)[:n_moved] for _ in range(2))
    given_codes = rng.integers(0, 2**n_rows, size=5, dtype=np.int64)
    moved = codes.move_bits(given_codes, source, destination)
    for before, after in zip(given_codes, moved, strict=True):
        expected = sum(reference.bit(before, a) * 2 ** int(b) for a, b in zip(source, destination, strict=True))
        assert after == expected


@given(seed=SEEDS, n_rows=st.integers(1, 6), channels=st.sampled_from([(), (1,), (3,)]))
def test_subset_sums_are_the_levels_of_all_codes(seed, n_rows, channels):
    weights = np.random.default_rng(seed).normal(size=(n_rows, *channels))
    expected = [reference.level(s, weights) for s in range(2**n_rows)]
    np.testing.assert_allclose(codes.subset_sums(weights), expected, rtol=TIGHT, atol=TIGHT)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 7])
def test_ball_offsets_are_the_codes_of_few_bits_each_once_and_zero_first(n_rows):
    for radius in range(n_rows + 1):
        offsets = binary_ball(n_rows, radius).tolist()
        assert offsets[0] == 0
        assert sorted(offsets) == [s for s in range(2**n_rows) if bin(s).count("1") <= radius]
        sizes = [bin(s).count("1") for s in offsets]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("n_rows", "dtype"),
    [(1, np.uint8), (8, np.uint8), (9, np.uint16), (16, np.uint16), (17, np.uint32), (33, np.uint64), (63, np.uint64)],
)
def test_smallest_dtype_holds_the_highest_code_and_no_smaller_one_does(n_rows, dtype):
    assert codes.smallest_dtype(n_rows) == dtype


@given(code=st.integers(0, 2**63 - 1))
def test_count_bits_counts_the_bits(code):
    assert codes.count_bits(code) == bin(code).count("1")


# ---- transitions ----------------------------------------------------------------------------------------------------


@given(seed=SEEDS, shape=SHAPES, zeros=st.booleans())
def test_products_over_rows_are_the_entries_of_the_dense_matrix(seed, shape, zeros):
    _, problem, edge, trans = make(seed, shape, zeros=zeros)
    log_trans = matrices(reference.log(trans))
    n_states = 2**problem.n_rows
    out = np.empty(n_states)
    for t in range(problem.n_columns):
        e = edge[t]
        dense = np.exp(problem.log_column_matrix(t))
        transitions.stay_products(trans, e, out)
        np.testing.assert_allclose(out, np.diag(dense), rtol=TIGHT)
        for code in range(n_states):
            transitions.into_products(trans, e, code, out)
            np.testing.assert_allclose(out, dense[:, code], rtol=TIGHT)
            log_passes.into_log_sums(log_trans, e, code, out)
            np.testing.assert_allclose(out, problem.log_column_matrix(t)[:, code], rtol=TIGHT)
        a, b = seed % n_states, seed // 7 % n_states
        assert transitions.move(trans, e, a, b) == pytest.approx(dense[a, b], rel=TIGHT)
        for form in (reference.log(trans), log_trans):
            assert transitions.log_move(form, e, a, b) == pytest.approx(problem.log_column_matrix(t)[a, b], rel=TIGHT)


@given(seed=SEEDS, shape=SHAPES, zeros=st.booleans(), constant=st.booleans())
def test_log_prior_and_path_likelihood_add_up_along_the_path(seed, shape, zeros, constant):
    rng, problem, edge, trans = make(seed, shape, zeros=zeros)
    path = rng.integers(2**problem.n_rows, size=problem.n_columns)
    if constant:
        path[:] = path[0]
    expected = transitions.path_log_likelihood(problem.log_lik, path)
    assert expected == pytest.approx(sum(problem.log_lik[t, s] for t, s in enumerate(path)), rel=TIGHT)
    problem.beta = 0.0
    made = transitions.log_prior(path, reference.log(trans), edge)
    assert made == pytest.approx(reference.log_joint(problem, path), rel=TIGHT)


def test_passes_over_rows_are_linear_while_their_smallest_product_reaches_the_floor():
    lowest = np.array([1e-60, 1e-59, 0.0, 1.0])
    assert transitions.is_linear(lowest, np.array([0, 1]))
    assert not transitions.is_linear(lowest, np.array([0, 0, 1]))
    assert not transitions.is_linear(lowest, np.array([2]))
    assert transitions.is_linear(lowest, np.array([3]))
    assert transitions.is_linear(np.array([transitions.LINEAR_FLOOR]), np.array([0]))


# ---- rows -----------------------------------------------------------------------------------------------------------


def bounds_of(edge):
    return np.array([t for t in range(len(edge)) if t == 0 or edge[t] != edge[t - 1]] + [len(edge)])


def normalised(weights):
    return weights / weights.sum(axis=1, keepdims=True)


@given(seed=SEEDS, n_columns=st.integers(1, 30), scale=st.sampled_from([1.0, 30.0, 300.0]))
def test_the_row_filter_and_draw_equal_the_dense_twin(seed, n_columns, scale):
    rng, problem, edge, trans = make(seed, (1, n_columns), scale=scale)
    lik = tempered_table(problem.log_lik, 1.0).T
    alpha = np.empty((2, n_columns))
    any_path, bounds = rng.integers(2, size=n_columns), bounds_of(edge)
    rows.filter_row(lik, problem.log_lik, 1.0, any_path, 1, trans, edge, bounds, 0, alpha)
    expected, _, _ = reference.dense_filter(problem)
    np.testing.assert_allclose(normalised(alpha.T), np.exp(expected), rtol=1e-10, atol=1e-200)
    uniforms = rng.random(n_columns)
    others = rng.integers(16, size=n_columns)
    path = others.copy()
    rows.draw_row(alpha, trans, edge, bounds, 0, uniforms, 4, path, np.empty(n_columns, np.int64))
    np.testing.assert_array_equal(path & ~4, others & ~4)
    # The twin looks at 1 before 0, as the kernel does.
    want = np.empty(n_columns, int)
    for t in range(n_columns - 1, -1, -1):
        log_weights = expected[t] + (problem.log_column_matrix(t + 1)[:, want[t + 1]] if t + 1 < n_columns else 0.0)
        want[t] = reference.invert(log_weights, [1, 0], uniforms[t])
    np.testing.assert_array_equal(path >> 2 & 1, want)


@pytest.mark.slow
def test_the_row_filter_of_a_long_signal_never_vanishes():
    n_columns = 3000
    lik = np.tile([[1e-19], [1e-20]], n_columns).T
    trans = np.array([[[0.5, 0.5, 0.5, 0.5]], [[0.9, 0.1, 0.2, 0.8]]])
    edge = np.ones(n_columns, np.int32)
    edge[0] = 0
    alpha = np.empty((2, n_columns))
    rows.filter_row(lik, np.log(lik), 1.0, np.zeros(n_columns, np.int64), 1, trans, edge, bounds_of(edge), 0, alpha)
    # Every second column is rescaled, and the one between may be smaller by its likelihood.
    assert (alpha.sum(axis=0) >= rows.RESCALE_BELOW * 1e-21).all()
    problem = reference.Problem(np.log(lik), *np.array([[0.1], [0.2], [0.5]]))
    np.testing.assert_allclose(normalised(alpha.T), np.exp(reference.dense_filter(problem)[0]), rtol=1e-9)


@given(seed=SEEDS, beta=st.sampled_from([0.3, 1.0, 2.0]), scale=st.sampled_from([1.0, 100.0, 3000.0]))
def test_the_row_filter_keeps_the_ratio_of_the_two_settings(seed, beta, scale):
    """Rows without memory: what is filtered is the likelihood."""
    rng = np.random.default_rng(seed)
    log_lik = rng.normal(0.0, scale, (6, 8))
    log_lik[rng.random((6, 8)) < 0.2] = -np.inf
    log_lik[:, 5] = 0.0
    lik = tempered_table(log_lik, beta).T
    path = rng.integers(8, size=6)
    alpha = np.empty((2, 6))
    trans, edge = np.full((1, 3, 4), 0.5), np.zeros(6, np.int32)
    for k in range(3):
        rows.filter_row(lik, log_lik, beta, path, 1 << k, trans, edge, bounds_of(edge), k, alpha)
        for t in range(6):
            both = [log_lik[t, path[t] & ~(1 << k)], log_lik[t, path[t] | 1 << k]]
            if max(both) == -np.inf:
                both = [0.0, 0.0]  # impossible either way: the data say nothing about this row
            expected = np.exp(beta * (np.array(both) - max(both)))
            np.testing.assert_allclose(alpha[:, t] / alpha[:, t].max(), expected, rtol=1e-9, atol=1e-280)


@given(seed=SEEDS, shape=SHAPES)
def test_prior_rows_follow_the_inverse_of_their_transition(seed, shape):
    rng, problem, edge, trans = make(seed, shape)
    n_rows, n_columns = shape
    uniforms = rng.random((n_rows, n_columns))
    path = np.full(n_columns, 2**n_rows, np.int64)
    sweeps.prior_sweep(trans, edge, uniforms.ravel(), path)
    for k in range(n_rows):
        x = 0
        for t in range(n_columns):
            x = int(uniforms[k, t] < problem.row_matrix(k, t)[x, 1])
            assert reference.bit(path[t], k) == x
    assert (path >> n_rows == 1).all()


# ---- tensor and logspace --------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_rows=st.integers(1, 9))
def test_one_step_of_a_message_is_the_product_with_the_dense_matrix(seed, n_rows):
    rng, problem, edge, trans = make(seed, (n_rows, 2))
    log_trans = matrices(reference.log(trans))
    log_dense = problem.log_column_matrix(1)
    dense = np.exp(log_dense)
    message = rng.random(2**n_rows)
    ratios, diagonal = np.empty((2, n_rows)), np.empty(2**n_rows)
    mixing.load_edge(trans, edge[1], ratios, diagonal)
    forward, backward = np.empty(2**n_rows), diagonal * message
    mixing.mix(message, 0, ratios[0], ratios[1], forward, 0)
    mixing.mix(backward, 0, ratios[1], ratios[0], backward, 0)
    np.testing.assert_allclose(forward * diagonal, message @ dense, rtol=TIGHT)
    np.testing.assert_allclose(backward, dense @ message, rtol=TIGHT)
    for best, fold in ((False, logsumexp), (True, np.max)):
        out = np.log(message)
        kept = np.empty((1, len(out)))
        top, _ = log_passes.log_filter_block(np.zeros_like(kept), 0.0, log_trans, edge[1:2], 0, out, kept, best)
        out += top
        np.testing.assert_allclose(out, fold(np.log(message)[:, None] + log_dense, axis=0), rtol=TIGHT, atol=TIGHT)


def linear_messages(problem, edge, trans, cut):
    """alpha and stay (one row more than columns) from filter_block in two calls, and the evidence."""
    n_columns, n_states = problem.log_lik.shape
    lik, top = reference.temper(problem.log_lik, problem.beta)
    message, diagonal = np.zeros((2, n_states))
    message[0] = 1.0
    alpha, stay = np.empty((n_columns, n_states)), np.empty((n_columns + 1, n_states))
    total = top.sum()
    for a, b in ((0, cut), (cut, n_columns)):
        total += passes.filter_block(lik[a:b], trans, edge, a, message, alpha[a:b], stay[a:b], diagonal)
    np.testing.assert_allclose(message / message.sum(), alpha[-1] / alpha[-1].sum(), rtol=TIGHT)
    return alpha, stay, total


@given(seed=SEEDS, shape=SHAPES, beta=st.sampled_from([0.0, 0.4, 1.0, 3.0]), data=st.data())
def test_linear_passes_equal_the_dense_twin(seed, shape, beta, data):
    rng, problem, edge, trans = make(seed, shape)
    problem.beta = beta
    n_rows, n_columns = shape
    n_states = 2**n_rows
    cut = data.draw(st.integers(0, n_columns - 1))
    alpha, stay, total = linear_messages(problem, edge, trans, cut)
    expected, ahead, evidence = reference.dense_filter(problem)
    assert total == pytest.approx(evidence, rel=TIGHT, abs=TIGHT)
    np.testing.assert_allclose(normalised(alpha), np.exp(expected), rtol=1e-10)
    for t in range(1, n_columns):
        step = np.diag(problem.log_column_matrix(t))
        np.testing.assert_allclose(stay[t], np.exp(expected[t - 1] + step - ahead[t]), rtol=1e-10)
    # The edge that leaves the first piece: the same numbers as from the filter of the second.
    if cut:
        after = np.empty(n_states)
        passes.stay_after(trans, edge[cut], alpha[cut - 1], np.empty(n_states), after)
        np.testing.assert_array_equal(after, stay[cut])
    uniforms = rng.random(n_columns)
    path, weights = np.empty(n_columns, np.int64), np.empty(n_states)
    passes.draw_blocks(alpha[cut:], stay[cut:], trans, edge, cut, uniforms[None], path[None], weights)
    if cut:
        passes.draw_blocks(alpha[:cut], stay[: cut + 1], trans, edge, 0, uniforms[None], path[None], weights)
    np.testing.assert_array_equal(path, reference.draw_path(problem, uniforms, lazy=True))
    once = np.empty_like(path)
    passes.draw_block(alpha, trans, edge, uniforms, once, np.empty((2, n_states)))
    np.testing.assert_array_equal(once, path)
    gamma, marginals = np.empty(n_states), np.empty((n_columns, 2 * n_rows))
    for a, b in ((cut, n_columns), (0, cut)):
        passes.smooth_block(alpha[a:b], trans, edge, a, gamma, marginals, np.empty(2 * n_states))
    np.testing.assert_allclose(marginals[:, 1::2].T, reference.dense_marginals(problem), rtol=1e-10)
    np.testing.assert_allclose(gamma, reference.dense_smoother(problem)[0], rtol=1e-10)


def test_a_filter_that_is_not_asked_for_stay_probabilities_gives_the_same_messages():
    _, problem, edge, trans = make(1, (3, 4))
    alpha, _, total = linear_messages(problem, edge, trans, 0)
    lik, top = reference.temper(problem.log_lik, 1.0)
    message, diagonal = np.eye(8)[0], np.empty(8)
    plain = np.empty((4, 8))
    again = top.sum() + passes.filter_block(lik, trans, edge, 0, message, plain, np.empty((0, 8)), diagonal)
    assert again == total
    np.testing.assert_array_equal(plain, alpha)


@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("log_space", [False, True], ids=["linear", "logspace"])
def test_each_code_is_drawn_over_an_interval_as_long_as_its_probability(n_rows, log_space, n_grid):
    _, problem, edge, trans = make(n_rows, (n_rows, 2), scale=1.0)
    n_states = 2**n_rows
    log_trans = matrices(reference.log(trans))
    grid = (np.arange(n_grid) + 0.5) / n_grid
    alpha, stay, _ = linear_messages(problem, edge, trans, 0)
    weights = np.empty(n_states)
    uniforms = np.empty(2)
    for last in range(n_states):
        counts = np.zeros(n_states)
        uniforms[1] = 0.0
        for uniforms[0] in grid:
            # Column 1 is given: the kernel draws column 0 alone.
            path = np.array([-1, last])
            if log_space:
                log_passes.log_draw_block(np.log(alpha[:1]), log_trans, edge, 0, uniforms, path, weights)
            else:
                passes.draw_blocks(alpha[:1], stay[:2], trans, edge, 0, uniforms[None], path[None], weights)
            counts[path[0]] += 1
        chance = alpha[0] * np.exp(problem.log_column_matrix(1))[:, last]
        # One interval per code, so that a grid of n points misses its length by at most 1 / n.
        np.testing.assert_allclose(counts / n_grid, chance / chance.sum(), rtol=0, atol=1 / n_grid + 1e-12)


def test_a_state_that_is_all_but_impossible_to_stay_in_is_left_with_the_right_probabilities(n_grid):
    # alpha of code 0 is 1e-300, so that the stay probability is too small to serve as a normaliser.
    _, problem, edge, trans = make(3, (2, 2))
    problem.log_lik[0] = [-690.0, 0.0, -1.0, -0.5]
    alpha, stay, _ = linear_messages(problem, edge, trans, 0)
    assert stay[1, 0] < step.TINY_STAY
    counts, weights, uniforms = np.zeros(4), np.empty(4), np.zeros(2)
    for uniforms[0] in (np.arange(n_grid) + 0.5) / n_grid:
        path = np.array([-1, 0])
        passes.draw_blocks(alpha[:1], stay[:2], trans, edge, 0, uniforms[None], path[None], weights)
        counts[path[0]] += 1
    chance = alpha[0] * np.exp(problem.log_column_matrix(1))[:, 0]
    np.testing.assert_allclose(counts / n_grid, chance / chance.sum(), rtol=0, atol=1 / n_grid + 1e-12)


@given(seed=SEEDS, shape=SHAPES, zeros=st.booleans(), beta=st.sampled_from([0.0, 0.4, 1.0, 3.0]), data=st.data())
def test_log_passes_equal_the_dense_twin(seed, shape, zeros, beta, data):
    rng, problem, edge, trans = make(seed, shape, zeros=zeros)
    problem.beta = beta
    n_rows, n_columns = shape
    n_states = 2**n_rows
    log_trans = matrices(reference.log(trans))
    cut = data.draw(st.integers(0, n_columns - 1))
    pieces = ((0, cut), (cut, n_columns))
    alpha, best = np.empty((2, n_columns, n_states))
    totals = []
    for out, maximise in ((alpha, False), (best, True)):
        message = np.full(n_states, -np.inf)
        message[0] = 0.0
        total = 0.0
        for a, b in pieces:
            part, impossible = log_passes.log_filter_block(
                problem.log_lik[a:b], beta, log_trans, edge, a, message, out[a:b], maximise
            )
            assert impossible == -1
            total += part
        assert (out.max(axis=1) == 0).all()
        totals.append(total)
    expected, _, evidence = reference.dense_filter(problem)
    assert totals[0] + logspace.log_sum(alpha[-1]) == pytest.approx(evidence, rel=1e-11, abs=TIGHT)
    possible = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(alpha), possible)
    made = alpha - logsumexp(alpha, axis=1, keepdims=True)
    np.testing.assert_allclose(made[possible], expected[possible], rtol=1e-10, atol=1e-11)
    _, score = reference.dense_viterbi(problem)
    assert totals[1] == pytest.approx(score, rel=1e-11, abs=TIGHT)
    path, weights = np.empty(n_columns, np.int64), np.empty(n_states)
    for a, b in reversed(pieces):
        log_passes.best_block(best[a:b], log_trans, edge, a, path, weights)
    assert reference.log_joint(problem, path) == pytest.approx(score, rel=1e-11, abs=TIGHT)
    uniforms = rng.random(n_columns)
    for a, b in reversed(pieces):
        log_passes.log_draw_block(alpha[a:b], log_trans, edge, a, uniforms, path, weights)
    np.testing.assert_array_equal(path, reference.draw_path(problem, uniforms, lazy=False))
    gamma, marginals = np.empty(n_states), np.empty((n_columns, 2 * n_rows))
    for a, b in reversed(pieces):
        log_passes.log_smooth_block(alpha[a:b], log_trans, edge, a, gamma, marginals, np.empty(2 * n_states))
    np.testing.assert_allclose(marginals[:, 1::2].T, reference.dense_marginals(problem), rtol=1e-10, atol=1e-15)


def test_the_log_filter_names_the_first_column_that_no_path_reaches():
    log_trans = matrices(reference.log(np.array([[[1.0, 0.0, 1.0, 0.0]], [[1.0, 0.0, 0.5, 0.5]]])))
    log_lik = np.zeros((4, 2))
    log_lik[2, 0] = -np.inf
    message = np.array([0.0, -np.inf])
    _, impossible = log_passes.log_filter_block(
        log_lik, 1.0, log_trans, np.array([0, 1, 1, 1], np.int32), 0, message, np.empty((4, 2)), False
    )
    assert impossible == 2


@given(seed=SEEDS, size=st.integers(1, 9), zeros=st.booleans())
def test_sums_and_picks_by_one_uniform_follow_the_cumulative_weights(seed, size, zeros):
    rng = np.random.default_rng(seed)
    weights = rng.random(size) * 10.0 ** rng.integers(-3, 3)
    if zeros:
        weights[rng.random(size) < 0.5] = 0.0
        weights[rng.integers(size)] = 1.0
    log_weights = reference.log(weights)
    assert logspace.log_sum(log_weights) == pytest.approx(np.log(weights.sum()), rel=TIGHT, abs=TIGHT)
    assert logspace.log_add(log_weights[0], log_weights[-1]) == pytest.approx(
        np.logaddexp(log_weights[0], log_weights[-1]), rel=TIGHT, abs=TIGHT
    )
    for uniform in (0.0, *rng.random(5), np.nextafter(1.0, 0.0)):
        expected = reference.invert(log_weights, range(size), uniform)
        assert weights[expected] > 0
        assert picking.pick(weights, uniform) == expected
        assert picking.pick_log(log_weights.copy(), uniform) == expected


def test_a_uniform_that_rounding_has_put_at_the_very_end_picks_the_last_possible_code():
    weights = np.array([0.2, 0.5, 0.3, 0.0])
    assert picking.pick(weights, 1.0) == 2
    assert picking.pick_log(reference.log(weights), 1.0) == 2
    # Given code 3 at column 1, column 0 is code 3 (stay), 2 or 1 (one bit), or 0, which is the only one left.
    trans = np.tile([0.75, 0.25, 0.25, 0.75], (2, 2, 1))
    alpha, edge = np.full((1, 4), 0.25), np.array([0, 1], np.int32)
    stay = np.empty((2, 4))
    passes.stay_after(trans, 1, alpha[0], np.empty(4), stay[1])
    path = np.array([-1, 3])
    passes.draw_blocks(alpha, stay, trans, edge, 0, np.array([[1.0, 0.0]]), path[None], np.empty(4))
    assert path.tolist() == [0, 3]


def test_a_uniform_where_staying_ends_does_not_pick_a_neighbour_of_no_weight():
    trans = np.tile([0.75, 0.25, 0.25, 0.75], (2, 2, 1))
    alpha, edge = np.array([[0.5, 0.0, 0.3, 0.2]]), np.array([0, 1], np.int32)
    stay = np.empty((2, 4))
    passes.stay_after(trans, 1, alpha[0], np.empty(4), stay[1])
    path = np.array([-1, 0])
    passes.draw_blocks(alpha, stay, trans, edge, 0, np.array([[stay[1, 0], 0.0]]), path[None], np.empty(4))
    assert path.tolist() == [2, 0]


def test_nothing_and_nothing_is_nothing():
    assert logspace.log_add(-np.inf, -np.inf) == -np.inf
    assert logspace.log_sum(np.full(3, -np.inf)) == -np.inf


@given(seed=SEEDS, n_rows=st.integers(1, 6))
def test_row_marginals_are_the_mass_of_the_codes_with_the_bit(seed, n_rows):
    weights = np.random.default_rng(seed).random(2**n_rows)
    out = np.empty(n_rows)
    step.masses_on(weights, out, np.empty(2**n_rows))
    expected = [sum(w for s, w in enumerate(weights) if reference.bit(s, k)) for k in range(n_rows)]
    np.testing.assert_allclose(out, expected, rtol=TIGHT)


# ---- ball -----------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_rows=st.integers(1, 5), data=st.data())
def test_centres_are_uniform_in_the_ball(seed, n_rows, data):
    offsets = binary_ball(n_rows, data.draw(st.integers(1, n_rows)))
    path = np.random.default_rng(seed).integers(2**n_rows, size=len(offsets) * 3)
    # Three uniforms from each of as many equal intervals as there are offsets.
    uniforms = (np.arange(len(path)) + 0.5) / len(path)
    centres = np.empty_like(path)
    ball.draw_centres(np.zeros((1, n_rows, 4)), path, offsets, uniforms, centres)
    np.testing.assert_array_equal(centres ^ path, np.repeat(offsets, 3))


@given(seed=SEEDS, beta=st.sampled_from([0.3, 1.0, 2.0]), scale=st.sampled_from([1.0, 100.0, 3000.0]))
def test_gathered_candidates_keep_the_ratios_of_their_likelihoods(seed, beta, scale):
    rng = np.random.default_rng(seed)
    log_lik = rng.normal(0.0, scale, (6, 8))
    log_lik[rng.random((6, 8)) < 0.3] = -np.inf
    log_lik[:, 5] = 0.0
    lik, _ = reference.temper(log_lik, beta)
    offsets = binary_ball(3, 1)
    centres = rng.integers(8, size=6)
    made, logs = np.empty((2, 6, len(offsets)))
    ball.gather_candidates(lik, log_lik, beta, centres, offsets, made)
    sweeps.gather_log(log_lik, centres, offsets, logs)
    columns = logs.copy()
    ball.scale_columns(columns, beta)
    for t, j in product(range(6), range(len(offsets))):
        assert logs[t, j] == log_lik[t, centres[t] ^ offsets[j]]
        top = logs[t].max()
        expected = np.exp(beta * (logs[t, j] - top)) if top > -np.inf else 1.0
        assert columns[t, j] == pytest.approx(expected, rel=TIGHT, abs=1e-300)
        assert made[t, j] / made[t].max() == pytest.approx(expected, rel=1e-9, abs=1e-280)


@given(seed=SEEDS, shape=SHAPES, data=st.data())
def test_the_filter_and_draw_of_a_ball_equal_the_dense_twin_on_its_candidates(seed, shape, data):
    rng, problem, edge, trans = make(seed, shape)
    n_rows, n_columns = shape
    offsets = binary_ball(n_rows, data.draw(st.integers(1, n_rows)))
    centres = rng.integers(2**n_rows, size=n_columns)
    inside = reference.restricted(problem, centres, offsets)
    filtered, _, _ = reference.dense_filter(inside)
    expected = np.exp(np.take_along_axis(filtered, centres[:, None] ^ offsets, 1))
    uniforms = rng.random(n_columns)
    want = reference.draw_in_ball(problem, centres, offsets, uniforms)
    log_lik = np.take_along_axis(problem.log_lik, centres[:, None] ^ offsets, 1)
    lik, _ = reference.temper(log_lik, 1.0)
    alpha, weights = np.empty(lik.shape), np.empty(len(offsets))
    path = np.empty(n_columns, np.int64)
    ball.filter_ball(lik, centres, offsets, trans, edge, alpha)
    np.testing.assert_allclose(alpha, expected, rtol=1e-10)
    ball.draw_ball(alpha, centres, offsets, trans, edge, uniforms, path, weights)
    np.testing.assert_array_equal(path, want)
    whole = np.empty((n_columns, 2**n_rows))
    table, _ = reference.temper(problem.log_lik, 1.0)
    vectors, piece = np.empty((3, 2**n_rows)), np.empty(ball.piece_size(1 << n_rows))
    ball.filter_ball_tensor(
        np.asfortranarray(table), problem.log_lik, 1.0, centres, offsets, trans, edge, whole, vectors, piece
    )
    np.testing.assert_allclose(normalised(whole), np.exp(filtered), rtol=1e-10)
    passes.draw_block(whole, trans, edge, uniforms, path, vectors)
    np.testing.assert_array_equal(path, reference.draw_path(inside, uniforms, lazy=True))
    ball.log_filter_ball(log_lik, centres, offsets, reference.log(trans), edge, alpha)
    np.testing.assert_allclose(normalised(np.exp(alpha)), expected, rtol=1e-10)
    ball.log_draw_ball(alpha, centres, offsets, reference.log(trans), edge, uniforms, path, weights)
    np.testing.assert_array_equal(path, want)


@pytest.mark.parametrize("first", [0, 64])
@pytest.mark.parametrize("n_columns", [1, 3, 4, 7, 30])
@given(seed=SEEDS, n_rows=st.integers(1, 5), data=st.data())
def test_columns_of_a_ball_are_its_likelihoods_and_zeros(first, n_columns, seed, n_rows, data):
    rng = np.random.default_rng(seed)
    offsets = binary_ball(n_rows, data.draw(st.integers(1, n_rows)))
    n_all, n_states = first + n_columns + 5, 2**n_rows
    centres = rng.integers(n_states, size=n_all)
    log_lik = rng.normal(0.0, 3.0, (n_all, n_states))
    far = first + rng.integers(n_columns)  # nothing in the ball is anywhere near the best code
    inside_far = np.isin(np.arange(n_states), centres[far] ^ offsets)
    log_lik[far, inside_far] -= 2000.0
    lik = np.asfortranarray(reference.temper(log_lik, 1.0)[0])
    inside = np.empty(4 * max(4, n_states))
    ball.spread_inside(offsets, max(4, n_states), inside)
    out = np.full((n_columns, n_states), np.nan)
    ball.gather_inside(lik, log_lik, 1.0, centres, offsets, inside, first, out)
    for i, column in enumerate(out):
        t = first + i
        among = np.isin(np.arange(n_states), centres[t] ^ offsets)
        assert (column[~among] == 0.0).all()
        wanted = np.exp(log_lik[t, among] - log_lik[t, among].max())
        np.testing.assert_allclose(column[among] / column[among].max(), wanted, rtol=1e-11, atol=1e-290)


# ---- sweeps: the pieces ---------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_rows=st.integers(1, 8))
def test_a_block_is_spread_over_its_rows_and_cleared_from_them(seed, n_rows):
    rng = np.random.default_rng(seed)
    block = rng.permutation(n_rows)[: rng.integers(1, n_rows + 1)]
    spread = np.empty(2 ** len(block), np.int64)
    sweeps.spread_block(block, spread)
    for j, code in enumerate(spread):
        assert code == sum(reference.bit(j, i) * 2 ** int(row) for i, row in enumerate(block))
    path = rng.integers(2**n_rows, size=6)
    centres = np.empty_like(path)
    sweeps.clear_block(path, block, centres)
    for before, after in zip(path, centres, strict=True):
        kept = [k for k in range(n_rows) if k not in block]
        assert after == sum(reference.bit(before, k) * 2**k for k in kept)


def test_the_shuffle_reaches_every_order_equally_often():
    n_rows = 4
    counts = {}
    order = np.empty(n_rows, np.int64)
    # The midpoints of every branch: 2 for i = 1, 3 for i = 2, 4 for i = 3.
    for branch in product(range(2), range(3), range(4)):
        uniforms = np.array([0.0, *((b + 0.5) / (i + 2) for i, b in enumerate(branch))])
        sweeps.shuffle(uniforms, order)
        counts[tuple(order)] = counts.get(tuple(order), 0) + 1
    assert len(counts) == 24
    assert set(counts.values()) == {1}


# ---- Gaussian factors -----------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_rows=st.integers(1, 6), beta=st.sampled_from([0.2, 1.0, 2.0]), far=st.sampled_from([1.0, 1e3]))
def test_gaussian_columns_are_the_densities_of_all_codes(seed, n_rows, beta, far):
    rng = np.random.default_rng(seed)
    weights, base = rng.normal(size=n_rows), rng.normal()
    depth, sd = rng.uniform(-5.0, 5.0), rng.uniform(0.5, 2.0)
    y = far * rng.normal(0.0, 10.0, 5)  # far away, products would underflow
    y[2] = np.nan
    lik, tops = np.empty((5, 2**n_rows)), np.empty(5)
    gaussian.gaussian_columns(y, gaussian.make_factors(weights, base, depth, sd, beta), lik, tops)
    means = np.array([depth * (base + reference.level(s, weights)) for s in range(2**n_rows)])
    for t in range(5):
        if np.isnan(y[t]):
            assert (lik[t] == 1.0).all()
            assert tops[t] == 0.0
            continue
        expected = beta * norm.logpdf(y[t], means, sd)
        assert lik[t].max() <= 1 + 1e-12
        assert tops[t] + np.log(lik[t].max()) == pytest.approx(expected.max(), rel=1e-12)
        # Relative to the best code, and from differences of means: far away, the densities themselves cancel.
        best = means[np.argmax(expected)]
        exponent = beta * (means - best) * (y[t] - (means + best) / 2) / sd**2
        np.testing.assert_allclose(lik[t] / lik[t].max(), np.exp(exponent), rtol=1e-9, atol=1e-280)


@given(
    seed=SEEDS,
    n_rows=st.integers(1, 5),
    n_columns=st.sampled_from([1, 5, side_by_side.PIECE + 3]),
    beta=st.sampled_from([0.2, 1.0]),
    far=st.sampled_from([1.0, 1e3]),
)
def test_four_models_have_the_evidences_of_dense_filters(seed, n_rows, n_columns, beta, far):
    """With sequences, gaps and missing columns, and columns so far out that products underflow in some of the models,
    in whichever lane a model is.
    """
    rng = np.random.default_rng(seed)
    first = reference.random_problem(rng, n_rows, n_columns, starts=True, gaps=True)
    y = rng.normal(0.0, 5.0, n_columns)
    y[rng.random(n_columns) < 0.1] *= far
    y[rng.random(n_columns) < 0.1] = np.nan
    factors, trans, expected = [], [], []
    for _ in range(4):
        weights, base = rng.normal(size=n_rows), rng.normal()
        depth, sd = rng.uniform(-5.0, 5.0), rng.uniform(0.5, 2.0)
        means = np.array([depth * (base + reference.level(s, weights)) for s in range(2**n_rows)])
        log_lik = np.where(np.isnan(y)[:, None], 0.0, norm.logpdf(y[:, None], means, sd))
        enter, leave = rng.uniform(0.02, 0.48, (2, n_rows))
        initial = rng.uniform(0.1, 0.9, n_rows)
        own = replace(first, log_lik=log_lik, beta=beta, enter=enter, leave=leave, initial=initial)
        factors.append(gaussian.make_factors(weights, base, depth, sd, beta))
        trans.append(reference.kernel_arrays(own)[1])
        expected.append(reference.dense_filter(own)[2])
    edge = reference.kernel_arrays(first)[0]
    found, turned = np.empty((2, 4))
    side_by_side.log_evidences(y, tuple(factors), np.array(trans), edge, found)
    # The evidence of no data is 1; its logarithm has no relative precision.
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    order = [2, 0, 3, 1]
    side_by_side.log_evidences(y, tuple(factors[i] for i in order), np.array(trans)[order], edge, turned)
    np.testing.assert_array_equal(turned, found[order])


def test_exponentials_over_the_range_that_they_promise():
    x = np.concatenate([np.linspace(LOWEST, 700.0, 20_001), [-0.0, 1e-300, -1e-300, LOWEST - 1.0, -np.inf, np.nan]])
    made = x.copy()
    exp_in_place(made)
    wanted = np.where(x >= LOWEST, np.exp(x), 0.0)
    assert np.all(np.abs(made - wanted) <= 2 * np.spacing(wanted))


# ---- temper ---------------------------------------------------------------------------------------------------------


@given(seed=SEEDS, beta=st.sampled_from([0.0, 0.3, 1.0, 4.0]))
def test_a_tempered_table_is_the_likelihood_over_its_maximum_and_columns_also_give_the_log_of_that(seed, beta):
    rng = np.random.default_rng(seed)
    log_lik = rng.normal(0.0, 15.0, (5, 8))  # even times beta within the range of doubles
    log_lik[rng.random((5, 8)) < 0.3] = -np.inf
    log_lik[:, 2] = 1.0
    before = log_lik.copy()
    expected, expected_tops = reference.temper(log_lik, beta)
    table = tempered_table(log_lik, beta).T
    assert (table.max(axis=1) == 1).all()
    np.testing.assert_allclose(table, expected, rtol=TIGHT)
    if beta > 0:
        lik, tops = np.empty_like(log_lik), np.empty(5)
        temper_columns(log_lik, beta, lik, tops)
        np.testing.assert_array_equal(lik, table)
        np.testing.assert_allclose(tops, expected_tops, rtol=TIGHT)
    np.testing.assert_array_equal(log_lik, before)
    # What is put back together is the tempered likelihood.
    problem = reference.Problem(log_lik, *np.full((3, 3), 0.5), beta=beta)
    np.testing.assert_allclose(reference.log(table) + expected_tops[:, None], problem.tempered, rtol=1e-11, atol=1e-10)


@given(values=st.lists(st.floats(-800.0, 0.0), min_size=1, max_size=40), beta=st.floats(0.01, 3.0))
def test_tempered_columns_are_exponentials_to_two_units_in_the_last_place(values, beta):
    log_lik = np.array([values, values[::-1]])
    lik, tops = np.empty_like(log_lik), np.empty(2)
    temper_columns(log_lik, beta, lik, tops)
    exponent = beta * (log_lik - log_lik.max(axis=1, keepdims=True))
    wanted = np.where(exponent >= LOWEST, np.exp(exponent), 0.0)
    assert np.all(np.abs(lik - wanted) <= 2 * np.spacing(wanted))
    np.testing.assert_array_equal(tops, beta * log_lik.max(axis=1))
