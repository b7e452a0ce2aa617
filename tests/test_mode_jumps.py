"""Jumps between modes: their invariance with a mixture that fits badly, and what warm-up finds.

Jumps start from exact draws of their target, so every replicate keeps its law if the move is right; |z| is below 4.5,
which a correct one fails with probability 7e-6 each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chiasma as ch
from chiasma.kernels import vectors
from chiasma.sampling.mode_jumps import Modes, cluster, find_modes, packed, unpacked

MAX_Z = 4.5
N = 6000
MEANS, SDS, SHARES = np.array([[-3.0, 0.0, 1.0], [2.0, 1.0, 1.0]]), np.array([[0.7, 1, 2], [0.9, 0.5, 1]]), (0.3, 0.7)


def draws(n: int, rng: np.random.Generator) -> np.ndarray:
    which = (rng.random(n) < SHARES[1]).astype(int)
    return rng.normal(MEANS[which], SDS[which])


def log_density(x: np.ndarray) -> np.ndarray:
    squares = (((x[:, None, :] - MEANS) / SDS) ** 2).sum(axis=2)
    return np.logaddexp.reduce(np.log(SHARES) - np.log(SDS).sum(axis=1) - 0.5 * squares, axis=1)


def fitted(n: int = 60) -> list[Modes]:
    """A mixture of few draws, which fits badly; of all coordinates, and of groups of them."""
    x = draws(n, np.random.default_rng(1))
    return find_modes(x, log_density(x), np.ones(n), np.ones(2))


def jump(group: Modes, x: np.ndarray, rng: np.random.Generator, correct: Any) -> np.ndarray:
    new, gain = np.empty(x.shape), np.empty(len(x))
    for n in range(len(x)):
        gain[n], _ = vectors.propose_jump(x[n], *group[1:], rng.random(3), rng.standard_normal(x.shape[1]), new[n])
    taken = np.log(rng.random(len(x))) < log_density(new) - log_density(x) + correct(gain)
    return np.where(taken[:, None], new, x)


def worst_z(group: Modes, correct: Any = lambda gain: gain) -> float:
    """Worst z of moments after three jumps of replicates that begin with exact draws."""
    rng = np.random.default_rng(2)
    x = draws(N, rng)
    y = x
    for _ in range(3):
        y = jump(group, y, rng, correct)
    assert np.mean(np.any(y != x, axis=1)) > 0.3
    values = np.column_stack([y, y**2, y[:, 0] < -0.5])
    means = np.array(SHARES) @ MEANS, np.array(SHARES) @ (MEANS**2 + SDS**2)
    ndtr = np.array([0.999822, 0.002733])  # P(x_0 < -0.5) in each mode, by tables of the normal distribution
    exact = np.concatenate([*means, [np.array(SHARES) @ ndtr]])
    return float(np.abs((values.mean(axis=0) - exact) / (values.std(axis=0) / np.sqrt(N))).max())


@pytest.mark.parametrize("level", [0, -1])
def test_jump__keeps_its_target(level):
    assert worst_z(fitted()[level]) < MAX_Z


@pytest.mark.parametrize("wrong", [lambda gain: 0 * gain, lambda gain: -gain], ids=["none", "reversed"])
def test_jump__a_wrong_correction_is_noticed(wrong):
    assert worst_z(fitted()[0], wrong) > 1.5 * MAX_Z


def test_log_mixture__equals_the_definition():
    group, x = fitted()[0], draws(20, np.random.default_rng(3))
    terms = []
    for log_weight, mean, factor in zip(group.log_weights, group.means, group.factors, strict=True):
        covariance = factor @ factor.T
        square = ((x - mean) @ np.linalg.inv(covariance) * (x - mean)).sum(axis=1)
        terms.append(log_weight - 0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * square)
    logs = np.empty(len(group.log_weights))
    got = [vectors.log_mixture(line, *group[1:4], *group[5:7], logs) for line in x]
    np.testing.assert_allclose(got, np.logaddexp.reduce(terms, axis=0), rtol=1e-10)


def test_find_modes__weights_come_from_the_density():
    """Each mode is drawn equally often here; a tenth of the weights counts draws, nine tenths the density."""
    rng = np.random.default_rng(4)
    which = np.repeat([0, 1], 200)
    x = rng.normal(MEANS[which], SDS[which])
    group = find_modes(x, log_density(x), np.ones(len(x)), np.ones(2))[0]
    weights = np.exp(group.log_weights)
    assert abs(weights.sum() - 1) < 1e-12
    assert abs(weights[group.means[:, 0] < -0.5].sum() - (0.1 * 0.5 + 0.9 * SHARES[0])) < 0.1


def test_find_modes__hot_vectors_show_the_same_modes():
    """At beta = 1 / 4 a normal mode is twice as wide."""
    rng = np.random.default_rng(4)
    betas = np.repeat([1.0, 0.25], 300)
    x = 5 + rng.normal(size=(600, 3)) / np.sqrt(betas)[:, None]
    group = find_modes(x, -0.5 * ((x - 5) ** 2).sum(axis=1), betas, np.ones(2))[0]
    best = int(group.log_weights.argmax())
    assert np.exp(group.log_weights[best]) > 0.9
    np.testing.assert_allclose(group.factors[best] @ group.factors[best].T, np.eye(3), atol=0.25)


def test_find_modes__groups_are_correlated_coordinates():
    rng = np.random.default_rng(5)
    sign = rng.choice([-1, 1], (600, 2))
    x = 3.0 * np.repeat(sign, 2, axis=1) + 0.3 * rng.normal(size=(600, 4))
    groups = find_modes(x, np.zeros(600), np.ones(600), np.ones(2))
    assert sorted(group.sites.tolist() for group in groups[1:]) == [[0, 1], [2, 3]]
    assert [len(group.means) for group in groups] == [4, 2, 2]


@pytest.mark.parametrize("n", [0, 10])
def test_find_modes__too_few_vectors(n):
    x = np.random.default_rng(1).normal(size=(n, 3))
    assert find_modes(x, np.zeros(n), np.ones(n), np.ones(2)) == []


def test_cluster__modes_are_apart():
    x = np.random.default_rng(6).normal(size=(400, 3))
    x[200:, 1] += 10.0
    labels = cluster(x, 64)
    assert not set(labels[:200]) & set(labels[200:])
    assert labels.max() < 12


def test_cluster__one_normal_distribution_is_one():
    assert cluster(np.random.default_rng(6).normal(size=(1000, 8)), 64).max() == 0


def test_packed__gives_the_same_mixtures():
    groups = fitted()
    for one, other in zip(groups, unpacked(packed(groups)), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("update", [ch.RandomWalk, ch.Hamiltonian])
def test_jumps__join_modes_that_all_chains_share(update):
    """Two modes 14 standard deviations apart, one chain in each at first: chains change between them all the time."""

    def run(jumps: bool) -> np.ndarray:
        density = ch.Density(
            lambda x: np.logaddexp(-0.5 * ((x + 5) ** 2).sum(axis=1), np.log(2) - 0.5 * ((x - 5) ** 2).sum(axis=1)), 2,
            lambda rng: rng.choice([-5.0, 5.0]) * np.ones(2), update(jumps=jumps),
            gradient=lambda x: -x + 5 * np.tanh(5 * x.sum(axis=1) + np.log(2) / 2)[:, None],
        )  # fmt: skip
        draws = ch.sample(
            density, ladder=[1], exchange=None, draws=400, warmup=300, chains=4, seed=3, progress=False
        ).draws
        return np.asarray(draws.values.mean(axis=2) > 0)

    side = run(jumps=True)
    assert (side[:, 1:] != side[:, :-1]).mean(axis=1).min() > 0.05
    # About 400 effective draws: a false alarm in 10,000.
    assert abs(side.mean() - 2 / 3) < 0.1
    alone = run(jumps=False)
    assert (alone[:, 1:] == alone[:, :-1]).all()


@pytest.mark.parametrize("spoil", ["line", "huge", "constant"])
def test_find_modes__odd_vectors_do_no_harm(spoil):
    x = np.random.default_rng(1).normal(size=(200, 3))
    if spoil == "line":
        x[:, 1] = 1e6 * x[:, 0]
    if spoil == "huge":
        x[:5] *= 1e200
    if spoil == "constant":
        x[:, 2] = 1.0
    groups = find_modes(x, -0.5 * x[:, 0].clip(-9, 9) ** 2, np.ones(200), np.ones(2))
    assert (groups == []) == (spoil == "constant")
    assert all(np.isfinite(part).all() for group in groups for part in group)


@pytest.mark.slow
def test_jumps__calibrated_by_simulation():
    """Parameters drawn from the prior, data of their sizes only: ranks among posterior draws are uniform. chi^2 of nine
    degrees of freedom exceeds 33.7 with probability 1e-4.
    """
    rng, noise, ranks = np.random.default_rng(8), np.array([0.3, 0.4, 0.5]), []

    def fit(x: np.ndarray) -> np.ndarray:
        sizes = np.abs(x)
        sizes[:, 2] += 0.5 * x[:, 0]
        return sizes

    for seed in range(100):
        truth = rng.normal(0, 2, (1, 3))
        y = fit(truth) + noise * rng.normal(size=3)
        density = ch.Density(
            lambda x, y=y: -0.5 * (((y - fit(x)) / noise) ** 2).sum(axis=1), 3, lambda rng: rng.normal(0, 2, 3),
            log_prior=lambda x: -0.125 * (x**2).sum(axis=1), prior_draw=lambda rng: rng.normal(0, 2, 3),
        )  # fmt: skip
        ladder = ch.Ladder.geometric(4, hottest=20, prior=True)
        run = ch.sample(density, ladder=ladder, draws=19 * 25, warmup=200, chains=1, seed=seed, progress=False)
        ranks.append((run.draws.values[0, 24::25] < truth).sum(axis=0))
    for own in np.transpose(ranks):
        counts = np.bincount(own // 2, minlength=10)
        assert ((counts - 10) ** 2 / 10).sum() < 33.7
