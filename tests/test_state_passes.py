"""Passes over rows with any numbers of states, against their dense twins."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

import state_reference as twin
from chiasma.kernels import axes, expectations, log_passes, logspace, passes, step
from chiasma.kernels.layout import make_layout
from chiasma.kernels.step import TINY_STAY
from chiasma.kernels.transitions import Matrices, into_products, stay_products
from reference import log, temper

pytestmark = pytest.mark.jit_off

TIGHT = 1e-12
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([(2,), (3,), (4,), (7,), (3, 2), (2, 3), (3, 3), (5, 4), (2, 2, 3), (3, 2, 2, 2), (9, 3)])
WIDE = [(21,), (5, 5, 5), (16, 16), (4, 4, 4), (3, 21), (21, 3), (8, 9), (2, 2, 2, 2, 3, 3), (3, 3, 2, 2, 2), (6, 7, 2)]


def make(seed, sizes, n_columns, **options):
    rng = np.random.default_rng(seed)
    return rng, twin.random_problem(rng, sizes, n_columns, **options), make_layout(sizes)


# ---- One step -------------------------------------------------------------------------------------------------------


def along_each_axis(problem, e, message, back):
    """One step as NumPy does it, axis by axis."""
    tensor_form = message.reshape(problem.sizes[::-1])
    for k, matrix in enumerate(problem.matrices[e]):
        axis = len(problem.sizes) - 1 - k
        tensor_form = np.moveaxis(np.tensordot(tensor_form, matrix, axes=(axis, 1 if back else 0)), -1, axis)
    return tensor_form.ravel()


@pytest.mark.parametrize("sizes", [*WIDE, (2,), (3,), (2, 2), (2, 3)])
@pytest.mark.parametrize("back", [False, True], ids=["ahead", "back"])
def test_one_step_is_a_product_with_one_matrix_per_row(sizes, back):
    rng, problem, layout = make(1, sizes, 1)
    n_states = len(problem.log_lik[0])
    plan = axes.plan_axes(layout.sizes)
    matrices, scratch = axes.make_step(plan), np.empty(2 * n_states)
    message = rng.random(n_states + 3)
    for e in (1, 0):
        axes.load_step(problem.trans, e, layout, plan, back, matrices)
        here = axes.mix(plan, n_states, matrices, message, 3, scratch)
        expected = along_each_axis(problem, e, message[3:], back)
        np.testing.assert_allclose(scratch[here : here + n_states], expected, rtol=TIGHT)
        # Axis by axis into one array, with room that must stay as it is between and after them.
        places = np.full(((len(plan) + 1), n_states + 5), np.nan)
        places[0, :n_states] = message[3:]
        flat = places.ravel()
        for g in range(len(plan)):
            axes.mix_one(plan, g, n_states, matrices, flat, g * (n_states + 5), flat, (g + 1) * (n_states + 5))
        np.testing.assert_allclose(places[-1, :n_states], expected, rtol=TIGHT)
        assert np.isnan(places[:, n_states:]).all()


@pytest.mark.parametrize("sizes", [*WIDE, (2,), (3,), (2, 2), (2,) * 7])
def test_axes_take_all_rows_in_turn_in_the_cheapest_way(sizes):
    plan = axes.plan_axes(np.array(sizes))
    n_states = int(np.prod(sizes))
    assert plan[0, axes.FIRST_ROW] == 0
    assert plan[-1, axes.STOP_ROW] == len(sizes)
    np.testing.assert_array_equal(plan[1:, axes.FIRST_ROW], plan[:-1, axes.STOP_ROW])

    def cost(bounds):
        return sum(
            axes._axis_cost(int(np.prod(sizes[a:b])), int(np.prod(sizes[:a])), n_states) for a, b in pairwise(bounds)
        )

    ways = [
        [0, *(k for k, cut in enumerate(cuts, 1) if cut), len(sizes)]
        for cuts in product([False, True], repeat=len(sizes) - 1)
    ]
    assert cost([0, *plan[:, axes.STOP_ROW]]) == pytest.approx(min(map(cost, ways)), rel=TIGHT)
    for size, stride, first, a, b in plan:
        assert size == np.prod(sizes[a:b])
        assert stride == np.prod(sizes[:a])
        assert n_states < 4 or (size if stride == 1 else stride) >= 4
        assert first == sum(plan[plan[:, axes.FIRST_ROW] < a, axes.SIZE] ** 2)


@given(seed=SEEDS, sizes=SIZES, zeros=st.booleans())
def test_products_over_rows_are_entries_of_the_dense_matrix(seed, sizes, zeros):
    _, problem, layout = make(seed, sizes, 1, zeros=zeros)
    n_states = len(problem.states)
    out = np.empty(n_states)
    for e in range(3):
        stay_products(Matrices(problem.trans, layout), e, out)
        np.testing.assert_allclose(out, np.exp(np.diag(problem.dense[e])), rtol=TIGHT)
        for index in {0, seed % n_states, n_states - 1}:
            into_products(Matrices(problem.trans, layout), e, index, out)
            np.testing.assert_allclose(out, np.exp(problem.dense[e][:, index]), rtol=TIGHT)
            log_passes.into_log_sums(Matrices(log(problem.trans), layout), e, index, out)
            np.testing.assert_allclose(out, problem.dense[e][:, index], rtol=TIGHT)


@given(seed=SEEDS, sizes=SIZES)
def test_row_marginals_are_the_masses_of_single_states(seed, sizes):
    rng, problem, layout = make(seed, sizes, 1)
    weights = rng.random(len(problem.states))
    before = weights.copy()
    out = np.empty(sum(sizes))
    step.row_marginals(Matrices(problem.trans, layout), weights, out, np.empty_like(weights))
    np.testing.assert_allclose(out, twin.marginals(problem, weights[None])[0], rtol=TIGHT)
    np.testing.assert_array_equal(weights, before)


# ---- The twin itself ------------------------------------------------------------------------------------------------


@given(seed=SEEDS, sizes=st.sampled_from([(3,), (2, 2), (3, 2)]), zeros=st.booleans())
def test_the_dense_twin_agrees_with_all_paths(seed, sizes, zeros):
    _, problem, _ = make(seed, sizes, 3, zeros=zeros)
    paths, scores = twin.enumerate_paths(problem)
    alpha, _, evidence = twin.dense_filter(problem)
    assert evidence == pytest.approx(logsumexp(scores), rel=TIGHT, abs=TIGHT)
    assert twin.viterbi_score(problem) == pytest.approx(scores.max(), rel=TIGHT, abs=TIGHT)
    chance = np.exp(scores - logsumexp(scores))
    pairs = np.zeros((3, len(problem.states), len(problem.states)))
    for path, weight in zip(paths, chance, strict=True):
        for t in range(3):
            pairs[t, path[t - 1] if t else 0, path[t]] += weight
    np.testing.assert_allclose(twin.dense_pairs(problem), pairs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.exp(alpha[-1]), pairs[-1].sum(axis=0), rtol=1e-9, atol=1e-12)


# ---- Linear passes --------------------------------------------------------------------------------------------------


def linear_messages(problem, layout, cut):
    """alpha and stay (one row more than columns) from filter_block in two calls, and the evidence."""
    n_columns, n_states = problem.log_lik.shape
    lik, top = temper(problem.log_lik, problem.beta)
    message, scratch = np.zeros(n_states), np.empty(3 * n_states)
    message[0] = 1.0
    alpha, stay = np.empty((n_columns, n_states)), np.empty((n_columns + 1, n_states))
    total = top.sum()
    for a, b in ((0, cut), (cut, n_columns)):
        arrays = message, alpha[a:b], stay[a:b], scratch
        total += passes.filter_block(lik[a:b], Matrices(problem.trans, layout), problem.edge, a, *arrays)
    np.testing.assert_allclose(message / message.sum(), alpha[-1] / alpha[-1].sum(), rtol=TIGHT)
    return alpha, stay, total


def normalised(weights):
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.slow
@given(seed=SEEDS, sizes=SIZES, n_columns=st.integers(1, 6), beta=st.sampled_from([0.0, 0.4, 1.0, 3.0]), data=st.data())
def test_linear_passes_equal_the_dense_twin(seed, sizes, n_columns, beta, data):
    rng, problem, layout = make(seed, sizes, n_columns)
    problem.beta = beta
    n_states = len(problem.states)
    trans, edge = Matrices(problem.trans, layout), problem.edge
    cut = data.draw(st.integers(0, n_columns - 1))
    pieces = ((cut, n_columns), (0, cut))
    alpha, stay, total = linear_messages(problem, layout, cut)
    expected, ahead, evidence = twin.dense_filter(problem)
    assert total == pytest.approx(evidence, rel=TIGHT, abs=TIGHT)
    np.testing.assert_allclose(normalised(alpha), np.exp(expected), rtol=1e-10)
    for t in range(1, n_columns):
        staying = np.diag(problem.dense[edge[t]])
        np.testing.assert_allclose(stay[t], np.exp(expected[t - 1] + staying - ahead[t]), rtol=1e-10)
    # The edge that leaves the first piece: the same numbers as from the filter of the second.
    if cut:
        after = np.empty(n_states)
        passes.stay_after(trans, edge[cut], alpha[cut - 1], np.empty(3 * n_states), after)
        np.testing.assert_allclose(after, stay[cut], rtol=TIGHT)
    uniforms = rng.random((2, n_columns))
    paths, weights = np.empty((2, n_columns), np.int64), np.empty(n_states)
    for a, b in pieces:
        rows = stay[a : b + 1]
        passes.draw_blocks(alpha[a:b], rows, trans, edge, a, uniforms, paths, weights)
    once = np.empty_like(paths)
    for n in range(2):
        np.testing.assert_array_equal(paths[n], twin.draw_path(problem, uniforms[n], lazy=True))
        passes.draw_block(alpha, trans, edge, uniforms[n], once[n], np.empty((2, n_states)))
    np.testing.assert_array_equal(once, paths)
    smoothed = twin.dense_smoother(problem)
    gamma, marginals = np.empty(n_states), np.empty((n_columns, sum(sizes)))
    for a, b in pieces:
        passes.smooth_block(alpha[a:b], trans, edge, a, gamma, marginals, np.empty(2 * n_states))
    np.testing.assert_allclose(marginals, twin.marginals(problem, smoothed), rtol=1e-10)
    np.testing.assert_allclose(gamma, smoothed[0], rtol=1e-10)
    counts, scratch = np.ones_like(problem.trans), np.empty((len(sizes) + 1, n_states))
    for a, b in pieces:
        expectations.count_block(trans, alpha[a:b], edge, a, gamma, alpha[:0], counts, scratch)
    np.testing.assert_allclose(counts - 1.0, twin.expected_counts(problem), rtol=1e-9, atol=TIGHT)
    expectations.count_block(trans, alpha, edge, 0, gamma, alpha, counts, scratch)
    np.testing.assert_allclose(alpha, smoothed, rtol=1e-10)


@pytest.mark.parametrize("sizes", [(3,), (5, 3), (3, 3, 2)])
def test_messages_do_not_depend_on_where_a_pass_is_cut_nor_on_what_is_kept(sizes):
    _, problem, layout = make(2, sizes, 40, scale=40.0)
    whole, stay, total = linear_messages(problem, layout, 0)
    assert (whole.sum(axis=1) < 2.0**-32).any()  # rescaled before the next
    for cut in (1, 13, 26, 39):
        alpha, again, part = linear_messages(problem, layout, cut)
        np.testing.assert_array_equal(normalised(alpha), normalised(whole))
        np.testing.assert_array_equal(again[1:40], stay[1:40])
        assert part == pytest.approx(total, rel=TIGHT)
    lik, top = temper(problem.log_lik, 1.0)
    for n_kept in (1, 2):
        message = np.eye(len(problem.states))[0]
        kept, scratch = np.empty((n_kept, len(message))), np.empty(3 * len(message))
        part = passes.filter_block(
            lik, Matrices(problem.trans, layout), problem.edge, 0, message, kept, kept[:0], scratch
        )
        assert part + top.sum() == total
        np.testing.assert_array_equal(kept[39 % n_kept], whole[39])


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (3, 2, 2)])
@pytest.mark.parametrize("log_space", [False, True], ids=["linear", "logspace"])
def test_each_index_is_drawn_over_an_interval_as_long_as_its_probability(sizes, log_space, n_grid):
    _, problem, layout = make(4, sizes, 2, scale=1.0, starts=0.0)
    n_states = len(problem.states)
    alpha, stay, _ = linear_messages(problem, layout, 0)
    log_alpha, log_trans = np.log(alpha), Matrices(np.log(problem.trans), layout)
    trans = Matrices(problem.trans, layout)
    weights, uniforms = np.empty(n_states), np.zeros(2)
    for last in range(n_states):
        counts = np.zeros(n_states)
        for uniforms[0] in (np.arange(n_grid) + 0.5) / n_grid:
            path = np.array([-1, last])  # column 1 is given
            if log_space:
                log_passes.log_draw_block(log_alpha[:1], log_trans, problem.edge, 0, uniforms, path, weights)
            else:
                passes.draw_blocks(alpha[:1], stay[:2], trans, problem.edge, 0, uniforms[None], path[None], weights)
            counts[path[0]] += 1
        chance = alpha[0] * np.exp(problem.dense[problem.edge[1]][:, last])
        # One interval per index, so that a grid of n points misses its length by at most 1 / n.
        np.testing.assert_allclose(counts / n_grid, chance / chance.sum(), rtol=0, atol=1 / n_grid + TIGHT)


@pytest.mark.parametrize("least", [1e-300, 1.5e-323], ids=["tiny", "subnormal"])
def test_a_state_that_is_all_but_impossible_to_stay_in_is_left_with_the_right_probabilities(least, n_grid):
    # The stay probability of index 0 is too small to serve as a normaliser, or not even precise.
    _, problem, layout = make(3, (3, 2), 2, starts=0.0)
    alpha, stay = np.array([[least, 0.3, 0.2, 0.25, 0.1, 0.15]]), np.empty((2, 6))
    passes.stay_after(Matrices(problem.trans, layout), problem.edge[1], alpha[0], np.empty(18), stay[1])
    assert 0.0 < stay[1, 0] < TINY_STAY
    counts, weights, uniforms = np.zeros(6), np.empty(6), np.zeros(2)
    for uniforms[0] in (np.arange(n_grid) + 0.5) / n_grid:
        path = np.array([-1, 0])
        passes.draw_blocks(
            alpha, stay, Matrices(problem.trans, layout), problem.edge, 0, uniforms[None], path[None], weights
        )
        counts[path[0]] += 1
    chance = alpha[0] * np.exp(problem.dense[problem.edge[1]][:, 0])
    np.testing.assert_allclose(counts / n_grid, chance / chance.sum(), rtol=0, atol=1 / n_grid + TIGHT)


@pytest.mark.parametrize(
    ("alpha", "drawn"),
    [([0.3, 0.2, 0.1, 0.1, 0.2, 0.1], 5), ([0.3, 0.2, 0.1, 0.1, 0.3, 0.0], 4), ([0.5, 0.2, 0.0, 0.3, 0.0, 0.0], 3)],
)
def test_a_uniform_that_rounding_has_put_at_the_very_end_picks_the_last_possible_index(alpha, drawn):
    _, problem, layout = make(6, (3, 2), 2, starts=0.0)
    alpha, stay = np.array([alpha]), np.empty((2, 6))
    passes.stay_after(Matrices(problem.trans, layout), problem.edge[1], alpha[0], np.empty(18), stay[1])
    path = np.array([-1, 0])
    uniforms = np.array([[1.0, 0.0]])
    passes.draw_blocks(alpha, stay, Matrices(problem.trans, layout), problem.edge, 0, uniforms, path[None], np.empty(6))
    assert path[0] == drawn


def test_a_uniform_where_staying_ends_does_not_pick_a_neighbour_of_no_weight():
    _, problem, layout = make(6, (3, 2), 2, starts=0.0)
    alpha, stay = np.array([[0.5, 0.0, 0.3, 0.2, 0.0, 0.0]]), np.empty((2, 6))
    passes.stay_after(Matrices(problem.trans, layout), problem.edge[1], alpha[0], np.empty(18), stay[1])
    path = np.array([-1, 0])
    uniforms = np.array([[stay[1, 0], 0.0]])
    passes.draw_blocks(alpha, stay, Matrices(problem.trans, layout), problem.edge, 0, uniforms, path[None], np.empty(6))
    assert path[0] == 2


@given(seed=SEEDS, scale=st.sampled_from([30.0, 300.0]))
def test_extreme_likelihoods_neither_vanish_nor_overflow(seed, scale):
    """Most states underflow to zero at every column, and come back by their transitions."""
    rng, problem, layout = make(seed, (3, 2, 2), 12, scale=scale)
    alpha, stay, total = linear_messages(problem, layout, 5)
    expected, _, evidence = twin.dense_filter(problem)
    assert total == pytest.approx(evidence, rel=1e-11)
    np.testing.assert_allclose(normalised(alpha), np.exp(expected), rtol=1e-9, atol=1e-290)
    uniforms, paths = rng.random((1, 12)), np.empty((1, 12), np.int64)
    passes.draw_blocks(alpha, stay, Matrices(problem.trans, layout), problem.edge, 0, uniforms, paths, np.empty(12))
    assert np.isfinite(twin.log_joint(problem, paths[0]))
    gamma, marginals = np.empty(12), np.empty((12, 7))
    passes.smooth_block(alpha, Matrices(problem.trans, layout), problem.edge, 0, gamma, marginals, np.empty(24))
    np.testing.assert_allclose(marginals, twin.marginals(problem, twin.dense_smoother(problem)), rtol=1e-9, atol=1e-200)


@given(seed=SEEDS, n_rows=st.integers(1, 5))
def test_rows_of_two_states_give_what_the_binary_kernels_give(seed, n_rows):
    _, problem, layout = make(seed, (2,) * n_rows, 5)
    n_states = 2**n_rows
    alpha, stay, total = linear_messages(problem, layout, 0)
    lik, top = temper(problem.log_lik, 1.0)
    trans = problem.trans.reshape(3, n_rows, 4)
    message, plain, plain_stay = np.eye(n_states)[0], np.empty((5, n_states)), np.empty((5, n_states))
    evidence = passes.filter_block(lik, trans, problem.edge, 0, message, plain, plain_stay, np.empty(n_states))
    assert total == pytest.approx(evidence + top.sum(), rel=TIGHT, abs=TIGHT)
    np.testing.assert_allclose(normalised(alpha), normalised(plain), rtol=1e-11)
    np.testing.assert_allclose(stay[1:5], plain_stay[1:], rtol=1e-11)


# ---- In logarithms --------------------------------------------------------------------------------------------------


@given(
    seed=SEEDS,
    sizes=SIZES,
    n_columns=st.integers(1, 5),
    zeros=st.booleans(),
    scale=st.sampled_from([2.0, 1000.0]),
    beta=st.sampled_from([0.0, 0.4, 1.0, 3.0]),
    data=st.data(),
)
def test_log_passes_equal_the_dense_twin(seed, sizes, n_columns, zeros, scale, beta, data):
    rng, problem, layout = make(seed, sizes, n_columns, zeros=zeros, scale=scale)
    problem.beta = beta
    n_states = len(problem.states)
    log_trans, edge = Matrices(log(problem.trans), layout), problem.edge
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
    expected, _, evidence = twin.dense_filter(problem)
    assert totals[0] + logspace.log_sum(alpha[-1]) == pytest.approx(evidence, rel=1e-11, abs=TIGHT)
    possible = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(alpha), possible)
    made = alpha - logsumexp(alpha, axis=1, keepdims=True)
    np.testing.assert_allclose(made[possible], expected[possible], rtol=1e-10, atol=1e-11)
    score = twin.viterbi_score(problem)
    assert totals[1] == pytest.approx(score, rel=1e-11, abs=TIGHT)
    path, weights = np.empty(n_columns, np.int64), np.empty(n_states)
    for a, b in reversed(pieces):
        log_passes.best_block(best[a:b], log_trans, edge, a, path, weights)
    assert twin.log_joint(problem, path) == pytest.approx(score, rel=1e-11, abs=TIGHT)
    uniforms = rng.random(n_columns)
    for a, b in reversed(pieces):
        log_passes.log_draw_block(alpha[a:b], log_trans, edge, a, uniforms, path, weights)
    np.testing.assert_array_equal(path, twin.draw_path(problem, uniforms, lazy=False))
    gamma, marginals = np.empty(n_states), np.empty((n_columns, sum(sizes)))
    for a, b in reversed(pieces):
        log_passes.log_smooth_block(alpha[a:b], log_trans, edge, a, gamma, marginals, np.empty(2 * n_states))
    expected = twin.marginals(problem, twin.dense_smoother(problem))
    np.testing.assert_allclose(marginals, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("depth", [300.0, 735.0, 2000.0])
def test_a_state_far_below_the_others_survives_where_they_cannot_go(depth):
    """State 2 is reached only from state 1, whose weight is e^-depth of that of state 0: at 735 a number that is not
    precise, at 2000 none.
    """
    matrix = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    log_lik = np.array([[0.0, -depth, -np.inf], [0.0, 0.0, 0.0]])
    start = np.array([[0.5, 0.5, 0.0]] * 3)
    problem = twin.StateProblem((3,), [[start], [matrix]], np.array([0, 1], np.int32), log_lik)
    alpha = np.empty((2, 3))
    message = np.array([0.0, -np.inf, -np.inf])
    log_passes.log_filter_block(
        log_lik, 1.0, Matrices(log(problem.trans), make_layout([3])), problem.edge, 0, message, alpha, False
    )
    assert alpha[1, 2] == pytest.approx(-depth, rel=TIGHT)


def test_the_log_filter_names_the_first_column_that_no_path_reaches():
    matrix = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    trans = np.array([[1.0, 0.0, 0.0] * 3, matrix.ravel()])
    log_lik = np.zeros((4, 3))
    log_lik[2, 0] = -np.inf
    message = np.array([0.0, -np.inf, -np.inf])
    edge = np.array([0, 1, 1, 1], np.int32)
    _, impossible = log_passes.log_filter_block(
        log_lik, 1.0, Matrices(log(trans), make_layout([3])), edge, 0, message, np.empty((4, 3)), False
    )
    assert impossible == 2
