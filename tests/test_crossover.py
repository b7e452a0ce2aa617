"""Exchanges on long paths: the compiled move on tables against the one that is scored column by column."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.sampling.exchanges import StreamedPair, TabulatedPair

JIT = not numba.config.DISABLE_JIT
T = 400 if JIT else 60
MOVES = [
    ch.Swap(),
    ch.RandomCrossover(points=2),
    ch.AugmentedCrossover(),
    ch.MosaicCrossover(),
    ch.MosaicCrossover(rows=[0, 2]),
    ch.MosaicCrossover(rows="random"),
]


def target(enter: float = 0.05, sd: float = 0.6, weights=(1.0, 0.6, 0.4)):
    """Two sequences, gaps of three kinds, some columns missing and one far off, where no state fits."""
    model = ch.FactorialHMM(chains=ch.BinaryChains(enter=enter, leave=0.1), emission=ch.Gaussian(weights, sd=sd))
    y = np.random.default_rng(5).normal(1.0, 0.7, T)
    y[::11] = np.nan
    y[5] = 40.0
    return model.target(ch.Observations(y, starts=[0, T // 3], gaps=np.resize([1.0, 1.0, 1.0, 2.5], T - 1)))


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
    streamed = StreamedPair(tabulated.move, tabulated.n_uniforms, *tabulated.targets, *tabulated.betas)
    assert isinstance(tabulated, TabulatedPair)
    rng = np.random.default_rng(1)
    moved = 0
    for mean_run in (1, 3, 10, 40):
        start = paths(rng, mean_run)
        uniforms = rng.random(tabulated.n_uniforms)
        mirrored = uniforms.copy()
        if isinstance(exchange, ch.MosaicCrossover) and enter > 1e-100:
            # In linear space small uniforms exchange a column, in logarithms large ones do.
            own_uniforms = mirrored[-T:]
            own_uniforms[:] = 1 - own_uniforms
        fast, slow = start.copy(), start.copy()
        found = tabulated(fast[0], fast[1], uniforms)
        assert found == streamed(slow[0], slow[1], mirrored) == np.count_nonzero(fast[0] != start[0])
        np.testing.assert_array_equal(fast, slow)
        moved += found
    assert moved or isinstance(exchange, ch.Swap | ch.RandomCrossover)


@pytest.mark.jit_off
def test_mosaic__columns_that_fit_no_state_are_scored_in_logarithms():
    """Both ways of dealing a column underflow, and one is still far likelier than the other."""
    model = ch.FactorialHMM(chains=ch.BinaryChains(0.3, 0.3), emission=ch.Gaussian([1.0, 0.1], sd=0.01))
    own = model.target(np.array([9.0, 9.0, 9.0]))
    step = ch.MosaicCrossover().prepare(own, replace(own), 1.0, 0.5)
    a, b = np.array([2, 2, 2]), np.array([1, 1, 1])
    assert step(a, b, np.full(3, 0.5)) == 3
    assert a.tolist() == [1, 1, 1]
    assert b.tolist() == [2, 2, 2]
