"""Jumps: kernels against slow twins, the differences that scouts learn, and runs in which blocks alone are stuck.

The proofs that a jump is a Gibbs update are in test_invariance.py and test_state_invariance.py.
"""

from __future__ import annotations

import numpy as np
import pytest

import chiasma as ch
from chiasma.kernels.jumps import jump_tables, list_jumps, swap_states
from chiasma.kernels.layout import make_layout, sub_layout
from chiasma.kernels.transitions import Matrices
from chiasma.sampling.differences import Differences, count_pairs, find_differences, parts_of
from reference import applied, jump_matrices

QUICK = {"exchange": None, "draws": 40, "warmup": 40, "chains": 2, "seed": 3, "progress": False}
RING = np.eye(6) - np.roll(np.eye(6), 1, axis=0)  # every row less its neighbour


def ring(n_sequences: int = 4) -> tuple[ch.FactorialHMM, ch.Observations]:
    """Six rows that are all on or all off, in every sequence by itself."""
    model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.03), emission=ch.Gaussian(RING, sd=0.25))
    y = np.random.default_rng(1).normal(0, 0.25, (3 * n_sequences, 6))
    return model, ch.Observations(y, starts=np.arange(n_sequences) * 3)


def appliances() -> tuple[ch.FactorialHMM, ch.Observations]:
    """Rows of three and of two states, two of them equal."""
    rows = [
        ch.Row([0.0, 1.0, 2.0], ch.Sticky(0.2)),
        ch.Row([0.0, 1.0], ch.Switch(0.1, 0.2), copies=2),
        ch.Row([0.0, 1.1, 3.0], ch.Sticky(0.3, [0.5, 0.3, 0.2])),
        ch.Row([0.4, 0.5], fixed=1),
    ]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.5))
    return model, ch.Observations(model.simulate(20, seed=2)[1], starts=[8])


# ---- Kernels and their slow twins ------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("logs", [False, True])
def test_jump_tables(logs):
    rng = np.random.default_rng(5)
    trans = rng.uniform(0.1, 0.9, (3, 5, 4))
    edge = np.array([0, 1, 1, 1, 2, 0, 1, 1], np.int32)
    codes = np.array([3, 3, 3, 3, 17, 17, 30, 1])
    rows = np.array([3, 0])
    tables, kinds = np.empty((8, 3, 4)), np.empty(8, np.int32)
    jump_tables(
        np.log(trans) if logs else trans, logs, edge, codes, rows, 0b00100, 0b10010, tables.reshape(8, 12), kinds
    )
    found = np.exp(tables[kinds]) if logs else tables[kinds]
    np.testing.assert_allclose(found[:, :2], trans[edge][:, rows])
    matrices = trans.reshape(3, 5, 2, 2)
    expected = jump_matrices(
        matrices, edge, [[c >> k & 1 for k in range(5)] for c in codes], {1: (0, 1), 2: (0, 1), 4: (0, 1)}
    )
    np.testing.assert_allclose(found[:, 2].reshape(-1, 2, 2), expected, rtol=1e-12)
    assert kinds[-1] < 7  # columns that stay where they are share a matrix


@pytest.mark.jit_off
@pytest.mark.parametrize("logs", [False, True])
def test_state_jump_tables(logs):
    rng = np.random.default_rng(6)
    layout = make_layout([3, 2, 4, 3])
    states = np.array([[0, 1, 3, 2], [0, 1, 3, 2], [2, 0, 1, 1], [2, 0, 0, 1], [2, 0, 0, 1]])
    codes = np.array([sum(x << int(s) for x, s in zip(row, layout.shifts, strict=True)) for row in states])
    edge = np.array([0, 1, 1, 0, 1], np.int32)
    matrices = [[rng.uniform(0.1, 0.9, (size, size)) for size in layout.sizes] for _ in range(2)]
    trans = np.array([np.concatenate([matrix.ravel() for matrix in own]) for own in matrices])
    pairs = {0: (2, 0), 2: (1, 3)}
    a, b = (sum(pair[i] << int(layout.shifts[k]) for k, pair in pairs.items()) for i in (0, 1))
    axes = np.array([3, 1])
    tables, kinds = np.empty((5, 9 + 4 + 4)), np.empty(5, np.int32)
    given = Matrices(np.log(trans) if logs else trans, layout)
    jump_tables(given, logs, edge, codes, axes, a, b, tables, kinds)
    found = np.exp(tables[kinds]) if logs else tables[kinds]
    for t in range(5):
        np.testing.assert_allclose(found[t, :9], matrices[edge[t]][3].ravel())
        np.testing.assert_allclose(found[t, 9:13], matrices[edge[t]][1].ravel())
    np.testing.assert_allclose(
        found[:, 13:].reshape(-1, 2, 2), jump_matrices(matrices, edge, states, pairs), rtol=1e-12
    )
    candidates = np.empty((5, 12), np.int64)
    block = sub_layout(layout, axes)
    list_jumps(codes, block, a, b, given, candidates)
    for t in range(5):
        assert swap_states(swap_states(codes[t], a, b, given), a, b, given) == codes[t]
        plain, swapped = list(states[t]), applied(pairs, states[t])
        expected = [
            sum(x << int(s) for x, s in zip((own[0], j // 3, own[2], j % 3), layout.shifts, strict=True))
            for own in (plain, swapped)
            for j in range(6)
        ]
        assert candidates[t].tolist() == expected


# ---- Differences -----------------------------------------------------------------------------------------------------


def test_find_differences__the_most_frequent_first_and_none_that_blocks_do():
    layout = make_layout([2] * 5)
    seen = np.zeros((2, 1, 10), np.int64)
    seen[0, 0, :6] = 0b11110
    seen[1, 0, 6:8] = 0b00111
    seen[0, 0, 8] = 0b11000
    found = find_differences(seen, layout, 2, np.random.default_rng(1))
    assert found.a == (0, 0)
    assert found.b == (0b11110, 0b00111)
    assert found.weights[0] > 2 * found.weights[1]
    assert find_differences(seen[:, :, 8:], layout, 2, np.random.default_rng(1)) == Differences()


@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_count_pairs__as_numpy_counts_them(n):
    pairs = np.random.default_rng(n).integers(0, 7, (n, 2))
    found, counts = count_pairs(pairs)
    expected, expected_counts = np.unique(pairs, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(counts, expected_counts)


def test_find_differences__of_rows_with_more_states():
    """Which of the two states comes first does not matter, nor what the other rows are in."""
    layout = make_layout([3, 2, 3])
    one, other = (x | y << 2 | z << 3 for x, y, z in ((1, 1, 2), (2, 1, 0)))
    seen = np.array([[[one, other]], [[other, one]]])
    found = find_differences(seen, layout, 1, np.random.default_rng(1))
    assert set(zip(found.a, found.b, strict=True)) == {(2, 1 | 2 << 3)}


def test_find_differences__of_independent_parts_by_themselves():
    """Two rings, each in channels of its own: flips of both at once teach the flip of either."""
    weights = np.zeros((8, 8))
    weights[:4, :4] = weights[4:, 4:] = np.eye(4) - np.roll(np.eye(4), 1, axis=0)
    model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.03), emission=ch.Gaussian(weights, sd=0.25))
    parts = parts_of(model.exact_target(np.zeros((3, 8))))
    seen = np.array([[[255, 0, 240]], [[0, 255, 255]]])
    found = find_differences(seen, make_layout([2] * 8), 3, np.random.default_rng(1), parts)
    assert set(found.b) == {0b1111, 0b11110000}
    assert len(parts_of(appliances()[0].exact_target(appliances()[1]))) == 1


def test_differences__say_in_short_which_they_are():
    one, other = Differences(a=(0,), b=(7,), weights=(2,)), Differences(a=(0,), b=(7,), weights=(3,))
    assert repr(one).startswith("<1 differences ")
    assert repr(one) != repr(other)


# ---- Runs ------------------------------------------------------------------------------------------------------------


def test_sample__reaches_the_exact_marginals_where_blocks_are_stuck():
    model, data = ring()
    exact = ch.exact.marginals(model, data)
    options = QUICK | {"draws": 2000, "warmup": 200, "chains": 1}
    jumps = ch.sample(model, data, update=ch.Jumps(size=2), **options)
    blocks = ch.sample(model, data, update=ch.BlockGibbs(size=2), **options)
    errors = [np.abs(run.marginals().values - exact).mean() for run in (jumps, blocks)]
    assert errors[0] < 0.03
    assert errors[1] > 0.15
    assert "differences" in jumps.info["plan"]


@pytest.mark.parametrize("problem", [ring, appliances])
def test_sample__the_same_for_any_workers_and_resumed(problem, tmp_path):
    model, data = problem()
    options = QUICK | {"update": ch.Jumps(size=1), "exchange": "mosaic", "ladder": [1, 4]}
    whole = ch.sample(model, data, **options, workers=1)
    ch.sample(model, data, **options | {"draws": 15}, workers=2, store=tmp_path / "run", durable=False)
    resumed = ch.sample(model, data, **options, store=tmp_path / "run", resume=True, durable=False)
    np.testing.assert_array_equal(whole.codes.values, resumed.codes.values)
    assert "differences" in whole.info["update"]


def test_sample__a_store_with_other_differences_is_not_continued(tmp_path, monkeypatch):
    model, data = ring()
    options = QUICK | {"update": ch.Jumps(size=1), "store": tmp_path / "run", "durable": False}
    ch.sample(model, data, **options)
    monkeypatch.setattr("chiasma.sampling.differences.MOST", 1)
    with pytest.raises(ch.StoreError, match=r"run.update is Jumps\(size=1, differences=<\d+ differences"):
        ch.sample(model, data, **options | {"draws": 50}, resume=True)


def test_sample__rows_with_more_states_have_the_exact_marginals():
    model, data = appliances()
    posterior = ch.sample(model, data, update=ch.Jumps(size=1), **QUICK | {"draws": 2000})
    assert np.abs(posterior.marginals().values - ch.exact.marginals(model, data)).max() < 0.08


def test_sample__starts_where_it_is_told():
    model, data = ring()
    options = QUICK | {"update": ch.Jumps(size=1), "warmup": 0, "draws": 1}
    ends = [ch.sample(model, data, **options, init=init).codes.values for init in (None, np.full((6, 12), 1))]
    assert not np.array_equal(*ends)


# ---- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (ch.Jumps(), "Jumps.. has no differences yet; ch.sample.* learns them"),
        (ch.Jumps(size=0), "size must be a whole number of at least 1, got 0"),
        (ch.Jumps(differences=Differences(a=(0,), b=(64,), weights=(1,))), "do not fit this model of 6 free rows"),
        (ch.Jumps(differences=Differences(a=(0,), b=(3,), weights=(0,))), "do not fit this model of 6 free rows"),
        (ch.Jumps(differences=Differences(a=(0,), b=(3, 5), weights=(1,))), "do not fit this model of 6 free rows"),
    ],
)
def test_prepare__errors(update, message):
    model, data = ring()
    with pytest.raises(ch.InvalidInput, match=message):
        update.prepare(model.exact_target(data), 1.0)


def test_sample__models_with_priors_are_refused():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=ch.HalfNormal(1)))
    with pytest.raises(ch.InvalidInput, match=r"Jumps\(\) learns differences between paths of a model without priors"):
        ch.sample(model, [0.0, 1.0, 3.0], update="jumps", **QUICK)
