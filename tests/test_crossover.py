"""Exchanges on long paths: the compiled move on tables against the one that is scored column by column."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest

import chiasma as ch
import reference
from chiasma.errors import InvalidInput
from chiasma.kernels.crossover import filter_mosaic
from chiasma.sampling.exchanges import LoopPair, TabulatedPair

JIT = not numba.config.DISABLE_JIT
T = 400 if JIT else 60
MOVES = [
    ch.Swap(),
    ch.RandomCrossover(points=2),
    ch.AugmentedCrossover(),
    ch.MosaicCrossover(),
    ch.MosaicCrossover(rows=[0, 2]),
    ch.MosaicCrossover(rows="random"),
    ch.AugmentedCrossover(axis="rows"),
]


def target(enter: float = 0.05, sd: float = 0.6, weights=(1.0, 0.6, 0.4)):
    """Two sequences, gaps of three kinds, some columns missing and one far off, where no state fits."""
    model = ch.FactorialHMM(rows=ch.Switches(enter=enter, leave=0.1), emission=ch.Gaussian(weights, sd=sd))
    y = np.random.default_rng(5).normal(1.0, 0.7, T)
    y[::11] = np.nan
    y[5] = 40.0
    return model.exact_target(ch.Observations(y, starts=[0, T // 3], gaps=np.resize([1.0, 1.0, 1.0, 2.5], T - 1)))


def paths(rng: np.random.Generator, mean_run: int) -> np.ndarray:
    """(2, T) codes that stay for a while, alone and together."""
    changes = rng.random((2, T)) < 1 / mean_run
    codes = rng.integers(0, 8, (2, T))
    last = np.maximum.accumulate(np.where(changes, np.arange(T), 0), axis=1)
    return np.take_along_axis(codes, last, axis=1)


@pytest.mark.jit_off
@pytest.mark.parametrize("own", [False, True], ids=["one-target", "own-parameters"])
@pytest.mark.parametrize("enter", [0.05, 1e-130], ids=["linear", "logarithms"])
@pytest.mark.parametrize("exchange", MOVES, ids=repr)
def test_tables_and_streams_exchange_the_same(exchange, enter, own):
    first = target(enter)
    second = target(0.1, sd=0.8) if own else first
    tabulated = exchange.prepare(first, second, 1.0, 0.3)
    streamed = exchange.prepare(replace(first, table_bytes=0), replace(second, table_bytes=0), 1.0, 0.3)
    assert isinstance(tabulated, TabulatedPair)
    assert isinstance(streamed, LoopPair)
    rng = np.random.default_rng(1)
    moved = 0
    for mean_run in (1, 3, 10, 40):
        start = paths(rng, mean_run)
        uniforms = rng.random(tabulated.n_uniforms)
        fast, slow = start.copy(), start.copy()
        found = tabulated(fast[0], fast[1], uniforms)
        assert found == streamed(slow[0], slow[1], uniforms) == np.count_nonzero(fast[0] != start[0])
        np.testing.assert_array_equal(fast, slow)
        moved += found
    assert moved or isinstance(exchange, ch.Swap | ch.RandomCrossover)


def random_pair(rng: np.random.Generator, zeros: bool) -> tuple[list[reference.Problem], np.ndarray]:
    """Two replicas, each with its own parameters and beta, and possible paths (2, T); some likelihoods are zero."""
    shape, scale = (int(rng.integers(1, 4)), int(rng.integers(2, 6))), rng.choice([1.0, 30.0, 300.0])
    first, second = (
        reference.random_problem(rng, *shape, starts=True, gaps=True, zeros=zeros, scale=scale) for _ in range(2)
    )
    problems = [first, replace(second, starts=first.starts, gaps=first.gaps, beta=0.3)]
    start = np.array([reference.draw_path(p, rng.random(p.n_columns), lazy=False) for p in problems])
    for problem, path in zip(problems, start, strict=True):
        impossible = rng.random(problem.log_lik.shape) < 0.2
        np.put_along_axis(impossible, path[:, None], False, axis=1)
        problem.log_lik[impossible] = -np.inf
    return problems, start


def as_target(problem: reference.Problem, **changes):
    chains = ch.Switches(problem.enter, problem.leave, problem.initial)
    data = ch.Observations(np.zeros(problem.n_columns), starts=list(problem.starts), gaps=problem.gaps)
    return replace(ch.FactorialHMM(rows=chains, emission=ch.Table(problem.log_lik)).exact_target(data), **changes)


@pytest.mark.jit_off
@pytest.mark.parametrize("zeros", [False, True], ids=["linear", "logarithms"])
def test_mosaic__is_that_of_plain_enumeration_whatever_the_memory(zeros):
    """The table in linear space, in logarithms where transitions are impossible, and streamed: one draw."""
    rng = np.random.default_rng(8)
    moved = n_unsafe = 0
    for _ in range(100 if JIT else 40):
        (first, second), start = random_pair(rng, zeros)
        tabulated, streamed = (
            ch.MosaicCrossover().prepare(as_target(first, **memory), as_target(second, **memory), 1.0, 0.3)
            for memory in ({}, {"table_bytes": 0})
        )
        uniforms = rng.random(first.n_columns)
        wanted = reference.draw_mosaic(first, second, *start, uniforms)
        mask, answers = (1 << first.n_rows) - 1, tabulated.work.answers
        n_unsafe += not filter_mosaic(*start, mask, *tabulated.tables, *tabulated.betas, uniforms, answers)
        for step in (tabulated, streamed):
            codes = start.copy()
            moved += step(codes[0], codes[1], uniforms)
            np.testing.assert_array_equal(codes, wanted)
    assert moved > 0
    assert (n_unsafe > 0) == zeros


@pytest.mark.jit_off
@pytest.mark.parametrize("table_bytes", [2**20, 0], ids=["tabulated", "streamed"])
@pytest.mark.parametrize(
    ("chances", "dealt"),
    [
        ({"enter": 0.5, "initial": 0.5}, [[0, 1, 0], [1, 1, 1]]),
        ({"enter": 0.0, "initial": 0.0}, [[1, 1, 0], [0, 1, 1]]),
    ],
    ids=["impossible-column", "impossible-paths"],
)
def test_mosaic__of_a_pair_outside_the_support(chances, dealt, table_bytes):
    """A column that is impossible however it is dealt says nothing; paths that are impossible stay as they are."""
    table = np.zeros((3, 2))
    table[1, 1] = -np.inf
    model = ch.FactorialHMM(rows=ch.Switches(leave=0.5, **chances), emission=ch.Table(table))
    own = replace(model.exact_target(np.zeros(3)), table_bytes=table_bytes)
    codes = np.array([[1, 1, 0], [0, 1, 1]])
    ch.MosaicCrossover().prepare(own, own, 1.0, 0.5)(codes[0], codes[1], np.array([0.4, 0.4, 0.6]))
    assert codes.tolist() == dealt


@pytest.mark.jit_off
def test_mosaic__columns_that_fit_no_state_are_scored_in_logarithms():
    """Both ways of dealing a column underflow, and one is still far likelier than the other."""
    model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian([1.0, 0.1], sd=0.01))
    own = model.exact_target(np.array([9.0, 9.0, 9.0]))
    step = ch.MosaicCrossover().prepare(own, replace(own), 1.0, 0.5)
    a, b = np.array([2, 2, 2]), np.array([1, 1, 1])
    assert step(a, b, np.full(3, 0.5)) == 3
    assert a.tolist() == [1, 1, 1]
    assert b.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        (ch.MosaicCrossover(rows="some"), 'rows must be "all", "random" or a list of free rows, got "some"'),
        (ch.MosaicCrossover(rows=[0, 3]), r"rows must be distinct free rows, here of \[0, 1, 2\], got \[0, 3\]"),
        (ch.RandomCrossover(points=3), "points must be 1 or 2, got 3"),
    ],
)
def test_refused(exchange, message):
    own = target()
    with pytest.raises(InvalidInput, match=message):
        exchange.prepare(own, own, 1.0, 0.3)
