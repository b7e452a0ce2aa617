"""Exact inference against enumeration of all paths, and against models whose answer factorises."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

import chiasma as ch
import reference
from chiasma.exact import passes as exact_passes
from chiasma.kernels import passes

pytestmark = pytest.mark.jit_off

RELATIVE = 1e-9
BETAS = [0.0, 0.2, 1.0, 2.5]


def build(problem):
    """The package's model and data for a reference problem, through Table."""
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=problem.enter, leave=problem.leave, initial=problem.initial),
        emission=ch.Table(problem.log_lik),
        fixed=problem.fixed,
    )
    return model, ch.Observations(np.zeros(problem.n_columns), starts=problem.starts, gaps=problem.gaps)


def check_against_enumeration(model, data, problem):
    """Evidence and marginals at the problem's beta, and the best path at beta = 1."""
    paths, scores = reference.enumerate_paths(problem)
    evidence = ch.exact.log_evidence(model, data, beta=problem.beta)
    assert evidence == pytest.approx(logsumexp(scores), rel=RELATIVE, abs=1e-12)
    marginals = ch.exact.marginals(model, data, beta=problem.beta)
    expected = reference.path_marginals(paths, scores, problem.n_rows)
    np.testing.assert_allclose(marginals, expected, rtol=RELATIVE, atol=1e-13)
    if problem.beta == 1:
        best = ch.exact.map_states(model, data)
        assert ch.log_joint(model, data, best) == pytest.approx(scores.max(), rel=RELATIVE)
        near = scores[np.all(paths == ch_codes(best), axis=1)]
        assert near[0] == pytest.approx(scores.max(), rel=RELATIVE)


def ch_codes(states):
    return sum(states[k].astype(int) << k for k in range(len(states)))


PROBLEMS = given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1, 1), (1, 8), (2, 1), (2, 5), (3, 3)]),
    starts=st.booleans(),
    gaps=st.booleans(),
    fixed=st.booleans(),
    beta=st.sampled_from(BETAS),
)


@PROBLEMS
def test_exact_equals_enumeration_when_all_transitions_are_possible(seed, shape, starts, gaps, fixed, beta):
    rng = np.random.default_rng(seed)
    problem = reference.random_problem(rng, *shape, starts=starts, gaps=gaps, fixed=fixed)
    problem.beta = beta
    model, data = build(problem)
    assert model.target(data).linear()
    check_against_enumeration(model, data, problem)


@PROBLEMS
def test_exact_equals_enumeration_when_some_transitions_are_impossible(seed, shape, starts, gaps, fixed, beta):
    rng = np.random.default_rng(seed)
    problem = reference.random_problem(rng, *shape, starts=starts, gaps=gaps, fixed=fixed, zeros=True)
    problem.beta = beta
    model, data = build(problem)
    check_against_enumeration(model, data, problem)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_row_fixed_at_either_value_is_conditioned_on_without_a_prior_term(row, value, beta):
    problem = reference.random_problem(np.random.default_rng(row), 3, 3, starts=True, gaps=True)
    problem.fixed, problem.beta = {row: value}, beta
    model, data = build(problem)
    check_against_enumeration(model, data, problem)
    assert (ch.exact.marginals(model, data, beta=beta)[row] == value).all()
    assert (ch.exact.map_states(model, data)[row] == value).all()
    assert (ch.exact.draws(model, data, 20, seed=0, beta=beta) >> row & 1 == value).all()


def test_marginals_are_never_beyond_0_and_1_by_rounding():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0, 4.0], sd=0.3))
    for seed in range(6):
        _, y = model.simulate(300, seed=seed)
        marginals = ch.exact.marginals(model, y)
        assert np.isfinite(np.sqrt(marginals * (1.0 - marginals))).all()


def test_two_fixed_rows_leave_the_last_one_free():
    problem = reference.random_problem(np.random.default_rng(5), 3, 5)
    problem.fixed = {0: 1, 2: 0}
    check_against_enumeration(*build(problem), problem)


@pytest.mark.parametrize(("enter", "leave", "initial"), [(0.0, 0.3, 0.4), (0.3, 0.0, 0.4), (0.0, 0.0, 0.4)])
@pytest.mark.parametrize("start", [None, 0.0, 1.0])
def test_absorbing_frozen_and_certain_rows_equal_enumeration(enter, leave, initial, start):
    problem = reference.random_problem(np.random.default_rng(1), 2, 5, starts=True, gaps=True)
    problem.enter[0], problem.leave[0] = enter, leave
    problem.initial[0] = initial if start is None else start
    model, data = build(problem)
    assert not model.target(data).linear()
    check_against_enumeration(model, data, problem)


def test_rows_that_switch_at_every_column_equal_enumeration():
    problem = reference.random_problem(np.random.default_rng(2), 2, 5)
    problem.enter[:], problem.leave[:] = [1.0, 0.9], [1.0, 0.7]
    check_against_enumeration(*build(problem), problem)


def test_impossible_codes_in_the_table_equal_enumeration():
    rng = np.random.default_rng(3)
    problem = reference.random_problem(rng, 2, 5)
    problem.log_lik[rng.random((5, 4)) < 0.5] = -np.inf
    problem.log_lik[:, 1] = -1.0
    model, data = build(problem)
    check_against_enumeration(model, data, problem)
    codes = ch.exact.draws(model, data, 300, seed=4)
    assert np.isfinite(problem.log_lik[np.arange(5), codes]).all()


def test_a_scalar_probability_means_the_same_for_every_row_and_the_default_start_is_stationary():
    rng = np.random.default_rng(4)
    problem = reference.random_problem(rng, 2, 4, starts=True)
    problem.enter[:], problem.leave[:], problem.initial[:] = 0.1, 0.3, 0.25
    _, data = build(problem)
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.3), emission=ch.Table(problem.log_lik))
    check_against_enumeration(model, data, problem)


# ---- Every emission, with missing sites -----------------------------------------------------------------------------


def normal(y, mean, sd):
    return stats.norm.logpdf(y, mean, sd)


def poisson(y, mean):
    return stats.poisson.logpmf(y, mean) if mean > 0 else (0.0 if y == 0 else -np.inf)


W = [0.7, 1.9]
CHANNELS = [[0.7, 1.0], [1.9, -0.4]]
EMISSIONS = {
    "Gaussian": (
        ch.Gaussian(W, depth=2.0, sd=0.8),
        W,
        [0.1, np.nan, 3.5, 5.0, np.nan],
        lambda y, m, d: normal(y, 2.0 * m, 0.8),
    ),
    "Gaussian with channels": (
        ch.Gaussian(CHANNELS, depth=[2.0, 1.0], sd=[0.8, 0.5]),
        CHANNELS,
        [[0.1, 0.3], [np.nan, 1.0], [3.5, np.nan], [np.nan, np.nan], [5.0, 0.7]],
        lambda y, m, d: normal(y, [2.0, 1.0][d] * m, [0.8, 0.5][d]),
    ),
    "IntegratedDepth": (
        ch.IntegratedDepth(W, depth_mean=2.0, depth_sd=0.6, sd=0.8),
        W,
        [0.1, 4.0, np.nan, 3.5, 5.0],
        lambda y, m, d: normal(y, 2.0 * m, np.hypot(0.8, 0.6 * m)),
    ),
    "Poisson without background": (
        ch.Poisson(W, depth=3.0),
        W,
        [0.0, 4.0, np.nan, 9.0, 0.0],
        lambda y, m, d: poisson(y, 3.0 * m),
    ),
    "Poisson with background": (
        ch.Poisson(W, depth=3.0, background=0.4),
        W,
        [0.0, 4.0, np.nan, 9.0, 1.0],
        lambda y, m, d: poisson(y, 3.0 * m + 0.4),
    ),
    "NegativeBinomial": (
        ch.NegativeBinomial(W, depth=3.0, dispersion=0.3, background=0.4),
        W,
        [0.0, 4.0, np.nan, 9.0, 1.0],
        lambda y, m, d: stats.nbinom.logpmf(y, 1 / 0.3, 1 / (1 + 0.3 * (3.0 * m + 0.4))),
    ),
    "StudentT": (
        ch.StudentT(W, depth=2.0, sd=0.8, df=3.5),
        W,
        [0.1, 30.0, np.nan, 3.5, 5.0],
        lambda y, m, d: stats.t.logpdf(y, 3.5, 2.0 * m, 0.8),
    ),
    "Custom": (
        ch.Custom(lambda y, level: -np.abs(y - 2 * level) - np.log(2), W),
        W,
        [0.1, 4.0, np.nan, 3.5, 5.0],
        lambda y, m, d: stats.laplace.logpdf(y, 2 * m),
    ),
}


@pytest.mark.parametrize("fixed", [{}, {0: 1}, {1: 0}], ids=str)
@pytest.mark.parametrize("name", EMISSIONS)
def test_every_emission_with_missing_sites_equals_enumeration(name, fixed):
    emission, weights, y, log_density = EMISSIONS[name]
    if name == "Poisson without background" and fixed == {1: 0}:
        y = [0.0, 4.0, np.nan, 2.0, 0.0]
    enter, leave, initial = np.array([0.2, 0.1]), np.array([0.3, 0.4]), np.array([0.5, 0.2])
    model = ch.FactorialHMM(rows=ch.Switches(enter, leave, initial), emission=emission, fixed=fixed)
    table = reference.level_table(y, weights, log_density)
    gaps = [1.0, 2.0, 0.5, 3.0]
    for beta in BETAS:
        problem = reference.Problem(table, enter, leave, initial, (3,), gaps, fixed, beta)
        check_against_enumeration(model, ch.Observations(y, starts=[3], gaps=gaps), problem)


def test_a_missing_site_of_a_table_says_nothing():
    problem = reference.random_problem(np.random.default_rng(6), 2, 5)
    model, _ = build(problem)
    problem.log_lik[2] = 0.0
    check_against_enumeration(model, [0.0, 0.0, np.nan, 0.0, 0.0], problem)


def test_log_joint_equals_first_principles_for_states_and_codes():
    rng = np.random.default_rng(7)
    for fixed in ({}, {1: 1}):
        problem = reference.random_problem(rng, 3, 3, starts=True, gaps=True)
        problem.fixed = fixed
        model, data = build(problem)
        for beta in BETAS:
            problem.beta = beta
            paths, scores = reference.enumerate_paths(problem)
            for i in rng.integers(len(paths), size=5):
                assert ch.log_joint(model, data, paths[i], beta) == pytest.approx(scores[i], rel=RELATIVE)
                states = [[reference.bit(s, k) for s in paths[i]] for k in range(3)]
                assert ch.log_joint(model, data, states, beta) == pytest.approx(scores[i], rel=RELATIVE)
                assert reference.log_joint(problem, paths[i]) == pytest.approx(scores[i], rel=RELATIVE)


# ---- Draws ----------------------------------------------------------------------------------------------------------


def goodness_of_fit(codes, paths, scores):
    """p-value of the chi-square test of path frequencies against exact probabilities; rare paths are pooled."""
    chance = np.exp(scores - logsumexp(scores))
    place = np.array([1 << 6 * t for t in range(paths.shape[1])])
    order = np.argsort(paths @ place)
    where = order[np.searchsorted((paths @ place)[order], codes.astype(int) @ place)]
    assert (paths[where] == codes).all()
    assert chance[where].min() > 0
    counts = np.bincount(where, minlength=len(paths))
    common = chance * len(codes) >= 10
    expected = np.append(chance[common], chance[~common].sum()) * len(codes)
    observed = np.append(counts[common], counts[~common].sum())
    keep = expected > 0
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    return stats.chi2.sf(statistic, keep.sum() - 1)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("zeros", [False, True], ids=["linear", "logspace"])
@pytest.mark.parametrize("fixed", [False, True], ids=["free", "fixed"])
def test_draws_have_the_exact_distribution_of_whole_paths(beta, zeros, fixed, n_draws):
    rng = np.random.default_rng(8)
    problem = reference.random_problem(rng, 3, 4, gaps=True, scale=1.0)
    problem.starts, problem.fixed, problem.beta = (2,), {2: 1} if fixed else {}, beta
    if zeros:
        problem.enter[1] = 0.0
    model, data = build(problem)
    assert model.target(data).linear() is not zeros
    codes = ch.exact.draws(model, data, n_draws, seed=9, beta=beta)
    # The seed is fixed; for a new one the false-alarm rate is 1e-6 per case.
    assert goodness_of_fit(codes, *reference.enumerate_paths(problem)) > 1e-6


def test_the_goodness_of_fit_test_rejects_draws_at_another_beta(n_draws):
    problem = reference.random_problem(np.random.default_rng(8), 3, 3, scale=1.0)
    model, data = build(problem)
    codes = ch.exact.draws(model, data, n_draws, seed=9, beta=0.8)
    assert goodness_of_fit(codes, *reference.enumerate_paths(problem)) < 1e-6


@pytest.mark.parametrize("zeros", [False, True], ids=["linear", "logspace"])
def test_draws_by_one_long_path_follow_the_inverse_of_the_lazy_order(zeros):
    rng = np.random.default_rng(10)
    problem = reference.random_problem(rng, 3, 12, starts=True, gaps=True)
    if zeros:
        problem.leave[2] = 0.0
    model, data = build(problem)
    codes = ch.exact.draws(model, data, 8, seed=11)
    uniforms = np.random.default_rng(11).random((8, 12))
    for path, row in zip(codes, uniforms, strict=True):
        np.testing.assert_array_equal(path, reference.draw_path(problem, row, lazy=not zeros))


def test_draws_repeat_with_a_seed_and_differ_with_another():
    problem = reference.random_problem(np.random.default_rng(12), 2, 30, scale=0.5)
    model, data = build(problem)
    first = ch.exact.draws(model, data, 3, seed=1)
    np.testing.assert_array_equal(first, ch.exact.draws(model, data, 3, seed=1))
    np.testing.assert_array_equal(first, ch.exact.draws(model, data, 5, seed=1)[:3])
    assert (first != ch.exact.draws(model, data, 3, seed=2)).any()
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(first, ch.exact.draws(model, data, 3, seed=np.random.SeedSequence(1)))


def test_draws_of_more_columns_than_a_tile_follow_the_same_order():
    problem = reference.random_problem(np.random.default_rng(16), 2, 2 * passes.LONGEST_TILE + 7, scale=0.5)
    model, data = build(problem)
    codes = ch.exact.draws(model, data, 2, seed=17)
    for path, uniforms in zip(codes, np.random.default_rng(17).random(codes.shape), strict=True):
        np.testing.assert_array_equal(path, reference.draw_path(problem, uniforms, lazy=True))


@pytest.mark.parametrize("memory", [exact_passes.MEMORY, 20 * 32], ids=["whole", "cut"])
def test_draws_by_a_bit_generator_go_on_where_it_stands(memory):
    problem = reference.random_problem(np.random.default_rng(12), 2, 30, scale=0.5)
    model, data = build(problem)
    stream = np.random.PCG64(1)
    parts = [ch.exact.draws(model, data, n, seed=stream, memory=memory) for n in (2, 35, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), ch.exact.draws(model, data, 40, seed=1))


@pytest.mark.parametrize(("n_rows", "dtype"), [(1, np.uint8), (8, np.uint8), (9, np.uint16)])
def test_draws_come_in_the_smallest_type_that_holds_the_codes(n_rows, dtype):
    model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian(np.ones(n_rows)))
    codes = ch.exact.draws(model, [1.0, 2.0], 4, seed=0)
    assert codes.dtype == dtype
    assert codes.shape == (4, 2)


# ---- Memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [False, True], ids=["linear", "logspace"])
@pytest.mark.parametrize("fixed", [False, True], ids=["free", "fixed"])
def test_checkpointed_results_are_the_same_for_every_budget(zeros, fixed, monkeypatch):
    n_rows, n_columns = 3, 40
    rng = np.random.default_rng(13)
    problem = reference.random_problem(rng, n_rows, n_columns, starts=True, gaps=True, fixed=fixed, scale=1.0)
    if zeros:
        problem.enter[:] = 0.0
    model, data = build(problem)
    column = 8 << len(model.free_rows)
    n = 19
    whole = ch.exact.draws(model, data, n, seed=14)
    monkeypatch.setattr(exact_passes, "TOGETHER", 8)
    cut = 0
    for n_kept in (18, 20, 30, 39, 79, 80):
        memory = n_kept * column
        passes = exact_passes.Passes(model.target(data), 1.0, memory=memory, stay=True)
        cut += passes.n_segments > 1
        np.testing.assert_array_equal(ch.exact.draws(model, data, n, seed=14, memory=memory), whole)
        np.testing.assert_array_equal(
            ch.exact.marginals(model, data, memory=memory), ch.exact.marginals(model, data), strict=True
        )
        np.testing.assert_array_equal(
            ch.exact.map_states(model, data, memory=memory), ch.exact.map_states(model, data), strict=True
        )
    assert cut >= 4


def test_as_many_paths_are_drawn_side_by_side_as_take_an_eighth_of_the_messages(monkeypatch):
    problem = reference.random_problem(np.random.default_rng(15), 5, 20)
    model, data = build(problem)
    whole = ch.exact.draws(model, data, 10, seed=1)
    sizes = []
    draw = exact_passes.Passes.draw

    def counted(self, segment, uniforms, *rest):
        sizes.append(len(uniforms))
        draw(self, segment, uniforms, *rest)

    monkeypatch.setattr(exact_passes.Passes, "draw", counted)
    monkeypatch.setattr(exact_passes, "COLUMNS_TOGETHER", 1)
    np.testing.assert_array_equal(ch.exact.draws(model, data, 10, seed=1), whole)
    assert sizes == [4, 4, 2]  # 20 columns of 32 numbers


def test_passes_can_be_walked_backwards_again():
    problem = reference.random_problem(np.random.default_rng(15), 2, 20)
    model, data = build(problem)
    passes = exact_passes.Passes(model.target(data), 1.0, memory=14 * 32, stay=True)
    first = [(segment.first, segment.alpha.copy()) for segment in passes.backward()]
    again = [(segment.first, segment.alpha.copy()) for segment in passes.backward()]
    assert len(first) > 1
    for (a, alpha), (b, beta) in zip(first, again, strict=True):
        assert a == b
        np.testing.assert_array_equal(alpha, beta)


def test_messages_of_three_rows_or_more_begin_a_line_of_the_cache():
    kept = []  # so that every pass has a place of its own
    for n_rows, stay in product((3, 4, 6), (False, True)):
        model, data = build(reference.random_problem(np.random.default_rng(16), n_rows, 5))
        kept.append(exact_passes.Passes(model.target(data), 1.0, stay=stay))
        assert kept[-1].kernels.scratch.ctypes.data % 64 == 0
        for segment in kept[-1].backward():
            assert segment.alpha.ctypes.data % 64 == 0
            assert segment.stay.ctypes.data % 64 == 0


def test_a_budget_that_even_checkpoints_exceed_is_refused_with_the_estimate():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(np.ones(20)))
    y = np.zeros(10_000)
    # 71 columns with stay probabilities and 141 checkpoints of 8 MiB each.
    message = r"20 free rows and 10000 sites needs about 2,264 MiB even with checkpoints, and the budget is 512 MiB"
    with pytest.raises(ch.BudgetExceeded, match=message):
        ch.exact.draws(model, y, 1)
    with pytest.raises(ch.BudgetExceeded, match=r"needs about 1,600 MiB .* raise memory="):
        ch.exact.marginals(model, y)
    with pytest.raises(ch.BudgetExceeded, match=r"needs about 1,600 MiB"):
        ch.exact.map_states(model, y)


def test_the_evidence_alone_takes_no_more_memory_than_it_says():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(np.linspace(0.1, 1.0, 12)))
    estimate = 7 * 8 * 2**12 + 8 * exact_passes.CHUNK
    with pytest.raises(ch.BudgetExceeded, match="12 free rows"):
        ch.exact.log_evidence(model, [0.0, 5.0], memory=estimate - 1)
    ch.exact.log_evidence(model, [0.0], memory=estimate)  # loads compiled code, which takes memory of its own
    tracemalloc.start()
    try:
        ch.exact.log_evidence(model, [0.0, 5.0], memory=estimate)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert estimate / 4 < peak <= estimate


def test_sixty_three_rows_are_refused_by_exact_inference_before_memory_is_touched():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(np.ones(63)))
    with pytest.raises(ch.BudgetExceeded, match="63 free rows"):
        ch.exact.log_evidence(model, [1.0])
    assert ch.log_joint(model, [1.0], np.ones((63, 1))) == pytest.approx(63 * np.log(0.5) + normal(1, 63, 1))
    assert ch.log_joint(model, [1.0], [2**63 - 1]) == ch.log_joint(model, [1.0], np.ones((63, 1)))


def test_sixty_three_rows_of_which_three_are_free_equal_the_small_model():
    weights = np.linspace(0.1, 2.0, 63)
    fixed = {k: k % 2 for k in range(63) if k not in (0, 31, 62)}
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian(weights), fixed=fixed)
    base = sum(weights[k] for k, x in fixed.items() if x)
    y = base + np.array([0.3, 2.0, 3.0, 1.1])
    small = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian(weights[[0, 31, 62]]))
    assert ch.exact.log_evidence(model, y) == pytest.approx(ch.exact.log_evidence(small, y - base), rel=RELATIVE)
    np.testing.assert_allclose(
        ch.exact.marginals(model, y)[[0, 31, 62]], ch.exact.marginals(small, y - base), rtol=RELATIVE
    )
    codes = ch.exact.draws(model, y, 50, seed=3)
    assert codes.dtype == np.uint64
    small_codes = ch.exact.draws(small, y - base, 50, seed=3).astype(np.uint64)
    for i, k in enumerate((0, 31, 62)):
        np.testing.assert_array_equal(codes >> np.uint64(k) & np.uint64(1), small_codes >> np.uint64(i) & np.uint64(1))


# ---- Large models that factorise ------------------------------------------------------------------------------------


def factorising_table(rng, n_rows, n_columns):
    """Scores (T, K) of a row being on, and the table (T, 2^K) of their sums: rows are independent a posteriori."""
    scores = rng.normal(0.0, 2.0, (n_columns, n_rows))
    table = np.zeros((n_columns, 1))
    for k in range(n_rows):
        table = np.concatenate([table, table + scores[:, k : k + 1]], axis=1)
    return scores, table


@pytest.mark.parametrize(
    ("n_rows", "zeros"),
    [
        (7, False),
        (7, True),
        *(pytest.param(*case, marks=pytest.mark.large) for case in ((12, False), (12, True), (14, False))),
    ],
)
def test_a_table_that_factorises_gives_the_product_of_its_rows(n_rows, zeros):
    rng = np.random.default_rng(16)
    n_columns = 6 if n_rows > 7 else 20
    scores, table = factorising_table(rng, n_rows, n_columns)
    problem = reference.random_problem(rng, n_rows, n_columns, starts=True, gaps=True)
    problem.log_lik = table
    if zeros:
        problem.enter[:3] = 0.0
    model, data = build(problem)
    assert model.target(data).linear() is not zeros
    evidence, marginals = 0.0, []
    best = []
    for k in range(n_rows):
        row = reference.Problem(
            np.stack([np.zeros(n_columns), scores[:, k]], axis=1),
            problem.enter[k : k + 1],
            problem.leave[k : k + 1],
            problem.initial[k : k + 1],
            problem.starts,
            problem.gaps,
        )
        evidence += reference.dense_filter(row)[2]
        marginals.append(reference.dense_marginals(row)[0])
        best.append(reference.dense_viterbi(row)[0])
    assert ch.exact.log_evidence(model, data) == pytest.approx(evidence, rel=RELATIVE)
    np.testing.assert_allclose(ch.exact.marginals(model, data), marginals, rtol=RELATIVE, atol=1e-13)
    np.testing.assert_array_equal(ch.exact.map_states(model, data), best)


def test_rows_of_weight_zero_leave_the_evidence_alone_and_keep_their_prior():
    y = np.array([0.1, 1.0, 2.7, 3.1])
    small = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian([1.0, 2.0]))
    weights = np.zeros(12)
    weights[[3, 8]] = 1.0, 2.0
    large = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian(weights))
    assert ch.exact.log_evidence(large, y) == pytest.approx(ch.exact.log_evidence(small, y), rel=RELATIVE)
    marginals = ch.exact.marginals(large, y)
    np.testing.assert_allclose(marginals[[3, 8]], ch.exact.marginals(small, y), rtol=RELATIVE)
    np.testing.assert_allclose(np.delete(marginals, [3, 8], axis=0), 0.4, rtol=RELATIVE)


@pytest.mark.parametrize("n_rows", [3, 5, pytest.param(9, marks=pytest.mark.large)])
def test_gaussian_columns_in_several_calls_and_pieces_are_a_table_of_their_densities(n_rows, monkeypatch):
    """More columns than are made, drawn or filtered at a time, with missing ones, outliers, starts and gaps."""
    rng = np.random.default_rng(n_rows)
    n_columns = 2 * (exact_passes.SMALL_CHUNK >> n_rows) + 601
    monkeypatch.setattr(exact_passes, "LARGE_CHUNK", 500 << n_rows)
    chains = ch.Switches(0.02, rng.uniform(0.01, 0.05, n_rows))
    emission = ch.Gaussian(rng.uniform(0.2, 1.0, n_rows), depth=3.0, sd=0.5)
    model = ch.FactorialHMM(rows=chains, emission=emission)
    _, y = model.simulate(n_columns, seed=1)
    y[[5, 300]] = np.nan
    y[400] = 1e3
    data = ch.Observations(y, starts=[257], gaps=rng.choice([1.0, 2.5], n_columns - 1))
    table = model.target(data).log_lik
    same = ch.FactorialHMM(rows=chains, emission=ch.Table(table))
    other = ch.Observations(np.where(np.isnan(y), np.nan, 0.0), starts=data.starts, gaps=data.gaps)
    assert ch.exact.log_evidence(model, data) == pytest.approx(ch.exact.log_evidence(same, other), rel=1e-12)
    np.testing.assert_allclose(ch.exact.marginals(model, data), ch.exact.marginals(same, other), atol=1e-10)
    drawn = ch.exact.draws(model, data, 3, seed=2)
    np.testing.assert_array_equal(drawn, ch.exact.draws(same, other, 3, seed=2))
    few = 8 * 200 << n_rows
    np.testing.assert_array_equal(drawn, ch.exact.draws(model, data, 3, seed=2, memory=few))


@pytest.mark.parametrize("enter", [0.4, 0.0])  # filtered in linear space, and in logarithms
@pytest.mark.parametrize("states", [2, 3])
def test_draws_write_to_nothing_that_chains_share(enter, states):
    """Chains draw from one filter in threads of their own: a scratch array that they shared would mix their draws."""
    chain = (
        ch.Switch(enter, 0.4, 0.5)
        if states == 2
        else ch.Markov([[1 - enter, enter, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]], [0.5, 0.3, 0.2])
    )
    row = ch.Row(np.arange(float(states)), chain)
    others = [ch.Row([0.0, value], ch.Switch(0.4, 0.5)) for value in (0.7, 0.9, 1.3)]  # so that several change at once
    model = ch.FactorialHMM(rows=[row, *others], emission=ch.Gaussian(sd=2.0))
    passes = exact_passes.Passes(model.exact_target(model.simulate(30, seed=1)[1]), 1.0, stay=True)

    def arrays():
        found = [*vars(passes).values(), *vars(passes.kernels).values()]
        return [value for value in found if isinstance(value, np.ndarray) and value.size]

    before = [array.copy() for array in arrays()]
    exact_passes.draw_paths(passes, np.random.PCG64(1), np.empty((4, 30), np.int64))
    for array, old in zip(arrays(), before, strict=True):
        np.testing.assert_array_equal(array.view(np.uint8), old.view(np.uint8))
