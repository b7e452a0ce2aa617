"""Updates and exchanges of rows with any number of states: kernels against slow twins, tables against streams, runs.

Invariance itself is proved in test_state_invariance.py, with the kernels as plain Python.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chiasma as ch
import state_reference as twin
from chiasma.errors import BudgetExceeded, InvalidInput
from chiasma.kernels import ball, crossover, moves, passes, transitions
from chiasma.kernels import layout as layouts
from chiasma.kernels.layout import ball_offsets, ball_size, make_layout, sub_layout
from chiasma.kernels.transitions import Matrices, translate
from chiasma.sampling.exchanges import EXCHANGES, LoopPair
from chiasma.sampling.plan import block_rows
from chiasma.sampling.updates import UPDATES
from reference import invert, log, temper

JIT = not numba.config.DISABLE_JIT
TIGHT = 1e-12
NAN = float("nan")
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([(3,), (2, 3), (4, 2), (3, 2, 5), (2, 2, 3, 3)])


def make(seed, sizes, n_columns, **options):
    rng = np.random.default_rng(seed)
    return rng, twin.random_problem(rng, sizes, n_columns, **options), make_layout(sizes)


# ---- Kernels --------------------------------------------------------------------------------------------------------


@pytest.mark.jit_off
@given(seed=SEEDS, sizes=SIZES, data=st.data())
def test_a_ball_holds_the_codes_in_which_few_rows_differ(seed, sizes, data):
    _, problem, layout = make(seed, sizes, 1)
    radius = data.draw(st.integers(0, len(sizes)))
    offsets = ball_offsets(layout, radius)
    assert offsets[0] == 0
    assert ball_size(layout, radius) == len(offsets)
    centre = seed % len(problem.states)
    near = [i for i, x in enumerate(problem.states) if (x != problem.states[centre]).sum() <= radius]
    (code,) = problem.codes([centre])
    found = [translate(Matrices(problem.trans, layout), code, offset) for offset in offsets]
    assert sorted(found) == sorted(problem.codes(near).tolist())
    # u is as likely from s as s is from u: with an offset, its inverse is one.
    for other in found:
        assert code in [translate(Matrices(problem.trans, layout), other, offset) for offset in offsets]


@pytest.mark.jit_off
@given(seed=SEEDS, sizes=SIZES)
def test_centres_and_candidates_are_translations(seed, sizes):
    rng, problem, layout = make(seed, sizes, 9)
    codes, offsets = problem.codes(rng.integers(len(problem.states), size=9)), ball_offsets(layout, 1)
    uniforms, centres = rng.random(9), np.empty(9, np.int64)
    ball.draw_centres(Matrices(problem.trans, layout), codes, offsets, uniforms, centres)
    chosen = offsets[(uniforms * len(offsets)).astype(int)]
    for code, offset, centre in zip(codes, chosen, centres, strict=True):
        for k, size in enumerate(sizes):
            x, o, u = (int(c) >> layout.shifts[k] & layout.masks[k] for c in (code, offset, centre))
            assert u == (x + o) % size
    candidates = np.empty((9, len(offsets)), np.int64)
    ball.list_candidates(Matrices(problem.trans, layout), centres, offsets, candidates)
    for row, centre in zip(candidates, centres, strict=True):
        assert row.tolist() == [translate(Matrices(problem.trans, layout), centre, offset) for offset in offsets]


def restricted(problem, candidates, layout):
    """The same problem with likelihood zero outside the candidates."""
    indices = np.empty(candidates.size, np.int64)
    layouts.index_of_codes(candidates.ravel(), layout, indices)
    kept = np.full(problem.log_lik.shape, -np.inf)
    at = indices.reshape(candidates.shape)
    np.put_along_axis(kept, at, np.take_along_axis(problem.log_lik, at, axis=1), axis=1)
    problem.log_lik = kept
    return at


@pytest.mark.jit_off
@given(seed=SEEDS, sizes=SIZES, zeros=st.booleans(), n_columns=st.integers(1, 6))
def test_the_filter_and_draw_of_candidates_equal_the_dense_twin(seed, sizes, zeros, n_columns):
    rng, problem, layout = make(seed, sizes, n_columns, zeros=zeros)
    path = twin.draw_path(problem, rng.random(n_columns), lazy=False)
    offsets = ball_offsets(layout, 1)
    candidates = np.empty((n_columns, len(offsets)), np.int64)
    centres = problem.codes(path)  # the path itself is possible
    ball.list_candidates(Matrices(problem.trans, layout), centres, offsets, candidates)
    at = restricted(problem, candidates, layout)
    log_lik = np.take_along_axis(problem.log_lik, at, axis=1)
    expected, _, _ = twin.dense_filter(problem)
    expected = np.take_along_axis(expected, at, axis=1)
    uniforms, codes, weights = rng.random(n_columns), np.empty(n_columns, np.int64), np.empty(len(offsets))
    alpha = np.empty(log_lik.shape)
    arrays = centres, offsets, Matrices(log(problem.trans), layout), problem.edge
    assert ball.log_filter_ball(log_lik, *arrays, alpha) == -1
    made = np.exp(alpha)
    np.testing.assert_allclose(made / made.sum(axis=1, keepdims=True), np.exp(expected), rtol=1e-9, atol=1e-200)
    ball.log_draw_ball(alpha, *arrays, uniforms, codes, weights)
    wanted = np.empty(n_columns, np.int64)
    for t in range(n_columns - 1, -1, -1):
        column = expected[t]
        if t + 1 < n_columns:
            column = column + problem.dense[problem.edge[t + 1]][at[t], at[t + 1, wanted[t + 1]]]
        wanted[t] = invert(column, range(len(offsets)), uniforms[t])
    np.testing.assert_array_equal(codes, np.take_along_axis(candidates, wanted[:, None], axis=1)[:, 0])
    if not zeros:
        lik = temper(log_lik, 1.0)[0]
        arrays = centres, offsets, Matrices(problem.trans, layout), problem.edge
        ball.filter_ball(lik, *arrays, alpha)
        np.testing.assert_allclose(alpha, np.exp(expected), rtol=1e-9, atol=1e-200)
        again = np.empty(n_columns, np.int64)
        ball.draw_ball(alpha, *arrays, uniforms, again, weights)
        np.testing.assert_array_equal(again, codes)


@pytest.mark.jit_off
def test_candidates_that_nothing_leads_to_are_told():
    never = np.log(np.array([[1.0, 1e-300, 1e-300] * 3, [1.0, 1e-300, 1e-300] * 3]))
    never[never < -1] = -np.inf
    alpha = np.empty((2, 1))
    centres, only, edge = np.array([0, 1]), np.array([0]), np.array([0, 1], np.int32)
    logs = Matrices(never, make_layout([3]))
    assert ball.log_filter_ball(np.zeros((2, 1)), centres, only, logs, edge, alpha) == 1


@pytest.mark.jit_off
@given(seed=SEEDS, n_channels=st.integers(1, 3))
def test_levels_are_sums_over_rows(seed, n_channels):
    sizes = (3, 2, 5)
    rng, problem, layout = make(seed, sizes, 1)
    own = [rng.normal(size=(size, n_channels)) for size in sizes]
    places = np.array([0, 3, 5])
    indices = rng.integers(30, size=7)
    rows = np.array([2, 0]) if seed % 2 else np.arange(3)
    out = np.ones((7, n_channels))
    layouts.add_levels(problem.codes(indices), sub_layout(layout, rows), places[rows], np.concatenate(own), out)
    wanted = [1 + sum(own[k][problem.states[i, k]] for k in rows) for i in indices]
    np.testing.assert_allclose(out, wanted, rtol=TIGHT)


@pytest.mark.jit_off
@given(seed=SEEDS, sizes=SIZES)
def test_moves_are_the_entries_of_the_dense_matrix(seed, sizes):
    rng, problem, layout = make(seed, sizes, 1)
    a, b = rng.integers(len(problem.states), size=2)
    codes = problem.codes([a, b])
    for e in range(3):
        made = transitions.move(Matrices(problem.trans, layout), e, *codes)
        assert np.log(made) == pytest.approx(problem.dense[e, a, b], rel=TIGHT)


@pytest.mark.jit_off
@given(seed=SEEDS, sizes=SIZES, data=st.data())
def test_passes_over_some_rows_are_those_of_a_model_with_these_rows_alone(seed, sizes, data):
    """With matrices and bits of all rows, and indices of their own."""
    rng, problem, layout = make(seed, sizes, 6)
    rows = np.array(data.draw(st.permutations(range(len(sizes))))[: data.draw(st.integers(1, len(sizes)))])
    matrices = [[kind[k] for k in rows] for kind in problem.matrices]
    chosen = tuple(sizes[k] for k in rows)
    n_states = int(np.prod(chosen))
    alone = twin.StateProblem(chosen, matrices, problem.edge, rng.normal(0.0, 2.0, (6, n_states)))
    block = sub_layout(layout, rows)
    lik, alpha, scratch = temper(alone.log_lik, 1.0)[0], np.empty((6, n_states)), np.empty(3 * n_states)
    message, indices = np.eye(n_states)[0], np.empty(6, np.int64)
    passes.filter_block(lik, Matrices(problem.trans, block), problem.edge, 0, message, alpha, alpha[:0], scratch)
    expected, _, _ = twin.dense_filter(alone)
    np.testing.assert_allclose(alpha / alpha.sum(axis=1, keepdims=True), np.exp(expected), rtol=1e-10)
    uniforms = rng.random(6)
    passes.draw_block(alpha, Matrices(problem.trans, block), problem.edge, uniforms, indices, np.empty((2, n_states)))
    np.testing.assert_array_equal(indices, twin.draw_path(alone, uniforms, lazy=True))
    codes = np.empty(6, np.int64)
    layouts.codes_of_indices(indices, block, codes)
    assert not np.any(codes & ~layouts.bits_of(block))
    for i, k in enumerate(rows):
        np.testing.assert_array_equal(codes >> layout.shifts[k] & layout.masks[k], alone.states[indices, i])


@pytest.mark.jit_off
@given(seed=SEEDS, sizes=SIZES, zeros=st.booleans())
def test_scores_of_edges_and_rows_are_those_of_the_paths_exchanged(seed, sizes, zeros):
    rng, first, layout = make(seed, sizes, 6, zeros=zeros)
    second = twin.random_problem(rng, sizes, 6, zeros=zeros)
    # (replica, column, row) states that stay for a while
    states = first.states[rng.integers(len(first.states), size=(2, 6)).repeat(2, axis=1)[:, :6]]
    a, b = (first.codes(path @ layout.strides) for path in states)
    rows = np.flatnonzero(rng.random(len(sizes)) < 0.6)
    swapped = states.copy()
    swapped[:, :, rows] = states[::-1][:, :, rows]
    log_trans = [Matrices(log(own.trans), layout) for own in (first, second)]
    edges = np.empty((6, 4))
    (mask,) = moves.fields_of(np.array([sum(1 << int(k) for k in rows)]), log_trans[0])
    crossover.score_edges(a, b, mask, *log_trans, first.edge, edges)
    for t, before, here in product(range(6), (0, 1), (0, 1)):
        differ = states[0, t] != states[1, t]
        if t:
            differ = differ | (states[0, t - 1] != states[1, t - 1])
        total = 0.0
        for k in (k for k in rows if differ[k]):
            for i, own in enumerate((first, second)):
                x = (swapped if before else states)[i, t - 1, k] if t else 0
                total += log(own.matrices[first.edge[t]][k])[x, (swapped if here else states)[i, t, k]]
        assert edges[t, 2 * before + here] == pytest.approx(total, rel=1e-11, abs=1e-11)
    scores = np.empty((len(rows), 2))
    crossover.score_rows(a, b, rows, *log_trans, first.edge, scores)
    for n, k in enumerate(rows):
        alone = sub_layout(layout, np.array([k]))
        for z, paths in enumerate(((a, b), (b, a))):
            parts = zip(paths, log_trans, strict=True)
            wanted = sum(transitions.log_prior(path, own._replace(layout=alone), first.edge) for path, own in parts)
            assert scores[n, z] == pytest.approx(wanted, rel=1e-11)


# ---- Tables and streams ---------------------------------------------------------------------------------------------

SWITCH = ch.Switch(enter=0.15, leave=0.25)
STICKY = ch.Sticky(renew=0.3, probabilities=[0.5, 0.3, 0.2])
CYCLE = ch.Markov([[0.8, 0.2, 0.0, 0.0], [0.0, 0.7, 0.3, 0.0], [0.0, 0.1, 0.7, 0.2], [0.3, 0.0, 0.0, 0.7]])


def rows(scale: float = 1.0, cycle: bool = False) -> list[ch.Row]:
    """A row of three states, a group, another group around it, a fixed row, and a row with forbidden moves."""
    found = [
        ch.Row(scale * np.array([0, 1.0, 2.5]), STICKY, "washer"),
        ch.Row([0, 0.7 * scale], SWITCH, "lamp", copies=3),
        ch.Row([0, 0.3 * scale], fixed=1, name="standby"),
        ch.Row(scale * np.array([0, 0.4, 1.1]), STICKY, "heater", copies=2),
    ]
    return [*found, ch.Row(scale * np.array([0, 0.5, 0.9, 1.7]), CYCLE, "pump")] if cycle else found


def problem(name: str, n_columns: int = 24) -> tuple[ch.FactorialHMM, ch.Observations]:
    rng = np.random.default_rng(11)
    signal, counts = rng.normal(2.0, 1.0, n_columns), rng.poisson(2.0, n_columns).astype(float)
    given = rows(cycle=name == "logarithms")
    emission, y = {
        "gaussian": (ch.Gaussian(sd=0.7), signal),
        "logarithms": (ch.Gaussian(sd=0.7), signal),
        "weights": (ch.Gaussian([1.0, 0.5, 0.5, 0.5, 1.0, 0.8, 0.8], sd=0.7), signal),
        "depth": (ch.IntegratedDepth(depth_mean=1.0, depth_sd=0.1, sd=0.8), signal),
        "student": (ch.StudentT(sd=0.5, df=3.0), signal),
        "poisson": (ch.Poisson(depth=0.8), counts),
        "negative-binomial": (ch.NegativeBinomial(dispersion=0.4, background=0.1), counts),
        "custom": (ch.Custom(lambda y, level: -np.abs(y - level) / 0.4), signal),
        "channels": (ch.Gaussian([[1.0, 0.5]] * 7, sd=[0.7, 1.2]), np.stack([signal, 0.5 * signal], axis=1)),
    }[name]
    y = np.array(y)
    y[4] = NAN
    gaps = np.resize([1.0, 2.0, 1.0], n_columns - 1) if name == "logarithms" else np.resize([1.0, 2.5], n_columns - 1)
    data = ch.Observations(y, starts=[n_columns // 3, n_columns // 2], gaps=gaps)
    return ch.FactorialHMM(rows=given, emission=emission), data


PROBLEMS = [
    "gaussian",
    "logarithms",
    "weights",
    "depth",
    "student",
    "poisson",
    "negative-binomial",
    "custom",
    "channels",
]
SWEEPS = {
    "row": ch.RowGibbs(),
    "block": ch.BlockGibbs(size=2),
    "given": ch.BlockGibbs(blocks=[(5, 0), (1,)]),
    "ball": ch.HammingBall(radius=1),
    "exact": ch.Exact(),
    "compose": ch.Compose([ch.HammingBall(), ch.BlockGibbs(size=3), ch.RowGibbs()]),
}
MOVES = [
    ch.Swap(),
    ch.Swap(rows=[1]),
    ch.RandomCrossover(points=2),
    ch.RandomCrossover(axis="rows"),
    ch.AugmentedCrossover(),
    ch.AugmentedCrossover(axis="rows"),
    ch.MosaicCrossover(),
    ch.MosaicCrossover(rows=[0, 5]),
    ch.MosaicCrossover(rows="random"),
]


def use_every_move() -> None:
    """Every update and exchange, in linear space and in logarithms; tests that follow find them compiled."""
    rng = np.random.default_rng(1)
    for name in ("gaussian", "logarithms", "channels"):
        model, data = problem(name)
        for table_bytes in (2**24, 0):
            target = model.exact_target(data, table_bytes=table_bytes)
            a, b = target.sample_prior(rng), target.sample_prior(rng)
            for update in SWEEPS.values():
                update.prepare(target, 0.8).step(a, rng)
            for move in MOVES:
                move.prepare(target, target, 1.0, 0.3).step(a, b, rng)
    model, y = large()
    target = model.exact_target(y)
    ch.HammingBall().prepare(target, 1.0).step(target.sample_prior(rng), rng)


@pytest.mark.jit_off
@pytest.mark.parametrize("update", SWEEPS.values(), ids=SWEEPS)
@pytest.mark.parametrize("name", PROBLEMS if JIT else ["gaussian", "logarithms"])
def test_updates__tables_and_streams_draw_the_same(name, update):
    model, data = problem(name, 24 if JIT else 8)
    traces = []
    for table_bytes in (2**24, 0):
        target = model.exact_target(data, table_bytes=table_bytes)
        assert not target.binary
        assert target.tabulated == (table_bytes > 0)
        sweep, rng = update.prepare(target, 0.8), np.random.default_rng(3)
        codes, trace = target.sample_prior(np.random.default_rng(2)), []
        for _ in range(4):
            sweep.step(codes, rng)
            trace.append(codes.copy())
            states = layouts.unpack_codes(codes, target.layout)
            assert (states < target.layout.sizes[:, None]).all()
        traces.append(trace)
        assert np.isfinite(target.log_prior(codes) + target.log_likelihood(codes))
    np.testing.assert_array_equal(*traces)
    assert len(np.unique(traces[0], axis=0)) > 1


@pytest.mark.jit_off
@pytest.mark.parametrize("exchange", MOVES, ids=repr)
def test_exchanges__tables_and_streams_exchange_the_same(exchange):
    model, data = problem("gaussian", 24 if JIT else 8)
    own = ch.FactorialHMM(rows=rows(0.9), emission=ch.Gaussian(sd=0.9))
    pairs = []
    for table_bytes in (2**24, 0):
        first, second = (one.exact_target(data, table_bytes=table_bytes) for one in (model, own))
        step, rng = exchange.prepare(first, second, 1.0, 0.3), np.random.default_rng(1)
        assert isinstance(step, LoopPair)
        a, b = (first.sample_prior(np.random.default_rng(seed)) for seed in (2, 3))
        together = np.sort([a, b], axis=0)
        moved = 0
        for _ in range(12):
            before = a.copy()
            n_moved = step.step(a, b, rng)
            assert n_moved == np.count_nonzero(before != a)
            moved += n_moved
        pairs.append((a, b))
        if exchange.rows == "all" and getattr(exchange, "axis", "sites") == "sites":
            np.testing.assert_array_equal(np.sort([a, b], axis=0), together)  # columns change hands, and nothing else
        assert moved or isinstance(exchange, ch.Swap | ch.RandomCrossover)
    np.testing.assert_array_equal(*pairs)


def test_dense_balls_and_balls_through_all_states_are_chosen_by_their_cost():
    small, _ = problem("gaussian")
    target = small.exact_target(np.zeros(5))
    (step,) = ch.HammingBall().steps(target)
    assert step.width == target.n_states == 72
    many = ch.FactorialHMM(
        rows=[ch.Row([0, 1.0 + 0.1 * k, 2.0], STICKY) for k in range(12)], emission=ch.Gaussian(sd=0.5)
    )
    (step,) = ch.HammingBall().steps(many.exact_target(np.zeros(5)))
    assert step.width == len(step.values) == 25


# ---- Runs -----------------------------------------------------------------------------------------------------------

QUICK: dict[str, Any] = {"draws": 12, "warmup": 8, "chains": 2, "seed": 3, "progress": False}


def small() -> tuple[ch.FactorialHMM, ch.Observations]:
    """Close rivals: a washer of 1 or two lamps of 0.5 each."""
    given = [ch.Row([0, 1.0, 1.6], STICKY, "washer"), ch.Row([0, 0.5], SWITCH, "lamp", copies=2)]
    model = ch.FactorialHMM(rows=given, emission=ch.Gaussian(sd=0.4))
    y = model.simulate(30, seed=4)[1]
    y[7] = NAN
    return model, ch.Observations(y, starts=[12])


def test_every_update_and_exchange_is_run():
    updates, exchanges = (set(names) for names in zip(*RUNS, strict=True))
    # They move parameters, and rows of two states only.
    assert updates == set(UPDATES) - {"collapsed", "gaussian-blocks"}
    assert exchanges == set(EXCHANGES)


RUNS = [
    ("row", "swap"),
    ("block", "random"),
    ("hamming-ball", "augmented"),
    ("row", "mosaic"),
    ("exact", "swap"),
    ("jumps", "swap"),
]


@pytest.mark.parametrize(("update", "exchange"), RUNS)
def test_sample__marginals_and_evidence_are_the_exact_ones(update, exchange):
    """Largest error over 90 marginals of 2 x 1,000 draws: 0.07 is more than six standard errors, were half of the draws
    independent.
    """
    model, data = small()
    posterior = ch.sample(
        model, data, update=update, exchange=exchange, ladder=ch.Ladder(betas=(0.0, 0.4, 1.0)), draws=1_000, warmup=100,
        chains=2, seed=7, progress=False,
    )  # fmt: skip
    exact = ch.exact.marginals(model, data)
    assert np.abs(posterior.marginals().values - exact).max() < 0.07
    evidence = posterior.log_evidence
    assert abs(evidence.value - ch.exact.log_evidence(model, data)) < 5 * evidence.standard_error
    assert posterior.exchange_stats is not None
    joint = [ch.log_joint(model, data, codes) for codes in posterior.codes.values[0, :5]]
    np.testing.assert_allclose(posterior.log_joint.values[0, :5], joint)


@pytest.mark.parametrize("ladder", [[1, 4], "auto"], ids=["fixed", "adapted"])
def test_sample__stores_and_resumes_bit_by_bit_for_any_number_of_workers(ladder, tmp_path):
    model, data = small()
    options = QUICK | {"update": "block", "exchange": "mosaic", "ladder": ladder}
    whole = ch.sample(model, data, **options | {"draws": 20}, workers=1)
    ch.sample(model, data, **options, workers=2, store=tmp_path / "run")
    resumed = ch.sample(model, data, **options | {"draws": 20}, workers=2, store=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    np.testing.assert_array_equal(resumed.log_joint, whole.log_joint)
    np.testing.assert_array_equal(resumed.log_likelihood, whole.log_likelihood)
    opened = ch.open_posterior(tmp_path / "run")
    np.testing.assert_array_equal(opened.marginals(), whole.marginals())
    assert "MosaicCrossover exchanges" in opened.info["plan"]
    assert opened.exchange_stats.equals(whole.exchange_stats)
    assert opened.to_datatree()["paths"]["codes"].shape == (2, 20, 30)


def test_sample__refuses_blocks_that_leave_a_row_out():
    model, data = small()
    with pytest.raises(ch.InvalidInput, match="every free row"):
        ch.sample(model, data, update=ch.BlockGibbs(blocks=[(0,)]), exchange=None, **QUICK)


def test_sample__equal_rows_are_equally_often_on():
    """Draws of counts say nothing about which row it is. False alarm below 1 in 10,000: four standard errors."""
    model, data = small()
    posterior = ch.sample(model, data, update="exact", exchange="swap", ladder=[1, 3], **QUICK | {"draws": 1_000})
    first, second = (posterior.states(f"lamp_{k}").values.mean(axis=2).ravel() for k in (1, 2))
    difference = first - second
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(len(difference) / 2)


def large(n_columns: int = 60) -> tuple[ch.FactorialHMM, np.ndarray]:
    """More joint states than any exact pass can hold: 5^12 times nine counts."""
    rng = np.random.default_rng(1)
    given = [ch.Row(np.arange(5) * rng.uniform(0.5, 2.0), ch.Sticky(renew=0.05)) for _ in range(12)]
    model = ch.FactorialHMM(rows=[*given, ch.Row([0, 1.0], SWITCH, "lamp", copies=8)], emission=ch.Gaussian(sd=0.5))
    return model, model.simulate(n_columns, seed=2)[1]


def test_sample__auto_takes_blocks_where_exact_draws_are_too_expensive():
    model, y = large()
    target = model.exact_target(y)
    assert not target.tabulated
    posterior = ch.sample(model, y, exchange=None, **QUICK)
    chosen = posterior.info["plan"]
    assert "2,197,265,625 joint states (8 equal rows count as 9 states)" in chosen
    assert "blocks of 3 rows" in chosen
    assert "over the budget" in chosen
    assert posterior.codes.shape == (2, 12, 60)
    posterior = ch.sample(model, y, update=ch.HammingBall(), exchange="augmented", ladder=[1, 3], **QUICK)
    assert "AugmentedCrossover exchanges" in posterior.info["plan"]


def test_compare__samples_what_is_too_expensive_for_exact_evidence():
    """Within five standard errors of the exact value, with the default ladder and blocks."""
    model, data = small()
    found = ch.compare({"house": model}, data, exact_seconds=0, draws=200, warmup=100, chains=1, seed=5, progress=False)
    (evidence,) = found.evidence
    assert evidence.standard_error > 0
    assert abs(evidence.value - ch.exact.log_evidence(model, data)) < 5 * evidence.standard_error
    assert "ladder from the prior to the target, adapted in warm-up" in found.posteriors["house"].info["plan"]


@pytest.mark.parametrize(
    ("sizes", "n_columns", "block"),
    [((5,) * 12, 100, 2), ((3,) * 12, 100, 3), ((4,) * 12, 100, 3), ((16,) * 6, 100, 1), ((100,) * 3, 100, 1)],
)
def test_plan__blocks_have_about_sixty_four_joint_states(sizes, n_columns, block):
    given = [ch.Row(np.arange(size) + 0.1 * k, ch.Sticky(renew=0.1)) for k, size in enumerate(sizes)]
    model = ch.FactorialHMM(rows=given, emission=ch.Gaussian(sd=1.0))
    assert block_rows(model.exact_target(np.zeros(n_columns))) == block


def test_plan__long_signals_take_smaller_blocks():
    given = [ch.Row([0, 1.0, 2.0 + 0.1 * k], STICKY) for k in range(9)]
    model = ch.FactorialHMM(rows=[*given, ch.Row([0, 1.0], SWITCH, copies=40)], emission=ch.Gaussian(sd=1.0))
    assert [block_rows(model.exact_target(np.zeros(n))) for n in (100, 10_000, 1_000_000)] == [3, 2, 1]


@pytest.mark.parametrize(
    ("update", "exchange", "message"),
    [
        (ch.BlockGibbs(size=4), None, r"size must be in 1..3 \(free rows, equal ones counted as one\), got 4"),
        (ch.BlockGibbs(blocks=[(4,)]), None, r"distinct free rows, here of \[0, 1, 2, 3, 5, 6\], got \(4,\)"),
        (ch.HammingBall(radius=4), None, r"radius must be in 1..3 \(free rows, equal ones counted as one\), got 4"),
        (ch.RowGibbs(), ch.Swap(rows=[4]), r"distinct free rows, here of \[0, 1, 2, 3, 5, 6\], got \[4\]"),
    ],
)
def test_refused(update, exchange, message):
    model, data = problem("gaussian", 6)
    with pytest.raises(InvalidInput, match=message):
        ch.sample(model, data, update=update, exchange=exchange, ladder=[1, 2] if exchange else "auto", **QUICK)


def test_refused__blocks_of_too_many_joint_states():
    model, y = large()
    with pytest.raises(BudgetExceeded, match="an update with 439,453,125 candidates at each of 60 sites needs"):
        ch.sample(model, y, update=ch.BlockGibbs(size=12), **QUICK)
