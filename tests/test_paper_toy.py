"""The toy target: exact laws against enumeration, runs that repeat, and the errata."""

import math
from itertools import product

import numba
import numpy as np
import pytest

import chiasma as ch
from paper import errata, schema, toy


def tiny(blocks=2, size=7, alpha=(0.2, 0.4)):
    return ch.BlockModes(blocks=blocks, size=size, alpha=alpha)


def enumerate_law(target, beta):
    vectors = np.array(list(product([0, 1], repeat=target.size)), np.int8)
    log_density, _ = target.evaluate(vectors)
    weights = np.exp(beta * log_density)
    return vectors, log_density, weights / weights.sum()


@pytest.mark.parametrize("beta", [1.0, 0.2, 0.0])
def test_block_law__is_the_count_of_ones_over_all_vectors(beta):
    target = tiny(blocks=1, size=5, alpha=0.1)
    vectors, _, law = enumerate_law(target, beta)
    counts = np.bincount(vectors.sum(axis=1), law)
    np.testing.assert_allclose(toy.block_law(5, 0.1, beta), counts, rtol=1e-12)


def test_swap_acceptance__is_the_mean_over_all_pairs_of_vectors():
    target = tiny()
    _, cold, law_cold = enumerate_law(target, 1.0)
    _, hot, law_hot = enumerate_law(target, 0.2)
    accepted = np.minimum(1, np.exp(0.8 * (hot[:, None] - cold)))
    assert toy.swap_acceptance(target, 0.2) == pytest.approx(law_hot @ accepted @ law_cold, rel=1e-9)


def test_hot_distance__is_the_mean_over_all_vectors():
    target = tiny()
    vectors, _, law = enumerate_law(target, 0.2)
    modes = target.modes
    nearest = np.abs(vectors[:, None] - modes[None]).sum(axis=2).min(axis=1)
    assert toy.hot_distance(target, 0.2) == pytest.approx(law @ nearest, rel=1e-12)


def test_swap_acceptance__agrees_with_a_run():
    target = tiny(blocks=2, size=8, alpha=(0.3, 0.5))
    posterior = ch.sample(
        target, exchange="swap", ladder=[1, 5], draws=4_000, warmup=100, chains=2, seed=1, progress=False
    )
    measured = 1 - float(posterior.exchange_stats["rejection"][0])
    assert measured == pytest.approx(toy.swap_acceptance(target, 0.2), abs=0.03)


def test_targets__are_the_same_for_every_reading():
    one, sweep = (toy.targets(5, sites, 3, seed=4) for sites in (1, None))
    assert [a.alpha.tolist() for a in one] == [b.alpha.tolist() for b in sweep]
    assert len({tuple(a.alpha) for a in one}) == 3
    assert {x for a in one for x in a.alpha} <= set(toy.ALPHAS)


def test_start__is_a_mode_of_alternating_blocks():
    target = toy.targets(10, 1, 1, seed=1)[0]
    start = target.initial(np.random.default_rng(1))
    assert target.nearest_mode(start).tolist() == [1, 0] * 5
    assert target.log_likelihood(start) == 0


def test_ordering__is_certain_of_ten_of_ten_and_of_nothing_where_all_are_equal():
    assert toy.ordering(np.arange(10) + 1, np.zeros(10)) == pytest.approx(2.0**-10)
    assert toy.ordering([3, 3], [3, 3]) == 1


def test_runs__repeat_with_the_seed():
    cell = (10, "one site", "augmented")
    first, second, other = (toy.draw_cell(cell, 40, 2, seed) for seed in (1, 1, 2))
    assert (first.first.draws.values == second.first.draws.values).all()
    assert (first.first.draws.values != other.first.draws.values).any()


def test_errata__printed_moves_are_wrong_and_corrected_ones_right():
    found = errata.errors(n_columns=4, seed=1)
    assert list(found) == list(errata.MOVES)
    for name, values in found.items():
        if name.endswith("corrected"):
            assert max(values) < errata.INVARIANT
        else:
            assert min(values) > errata.WRONG


@pytest.mark.parametrize("name", list(errata.MOVES))
def test_errata__every_matrix_is_stochastic(name):
    replicas = errata.tiny_replicas(0.1, 0.3, 2, seed=1)
    matrix = errata.MOVES[name](replicas)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)
    assert (matrix >= 0).all()
    assert replicas.pi.sum() == pytest.approx(1)


def test_errata__corrected_weights_are_those_of_the_move_that_runs():
    replicas = errata.tiny_replicas(0.1, 0.3, 3, seed=2)
    move = ch.AugmentedCrossover().prepare(replicas.target, replicas.target, *errata.BETAS)
    n = 200 if numba.config.DISABLE_JIT else 4_000
    grid = (np.arange(n) + 0.5) / n
    for pair in [(0, 7), (5, 2), (6, 3)]:
        expected = errata.augmented_matrix(replicas, errata.joint_weights, cross_auxiliary=True)[pair[0] * 8 + pair[1]]
        found = np.zeros(64)
        for first in range(6):
            for uniform in grid:
                a, b = (replicas.paths[m].copy() for m in pair)
                move(a, b, np.array([(first + 0.5) / 6, uniform]))
                found[(a @ [1, 2, 4]) * 8 + b @ [1, 2, 4]] += 1 / (6 * n)
        np.testing.assert_allclose(found, expected, atol=6 / n)


def test_crossover_figure__shows_a_two_point_crossover():
    (u, v), weights = schema.auxiliary_weights()
    best = schema._candidate(u, v, int(weights.argmax()))[0].tolist()
    one_point = [x for c in range(16) for x in schema._candidate(np.array(schema.X_I), np.array(schema.X_J), c)]
    assert weights.sum() == pytest.approx(1)
    assert not any(best == candidate.tolist() for candidate in one_point)


def test_two_configurations__have_one_level():
    first, second = schema.two_configurations()
    np.testing.assert_allclose(np.array(schema.WEIGHTS) @ first, np.array(schema.WEIGHTS) @ second, atol=1e-12)
    assert (first != second).any()
    assert math.isclose(sum(schema.WEIGHTS), 1)
