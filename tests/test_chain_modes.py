"""Chains that sit in different modes are told apart from chains that mix, and from equal rows with other labels."""

from __future__ import annotations

import numpy as np
import pytest

import chiasma as ch

WARNING = "the chains sit in different modes"
STUCK = {"update": "row", "exchange": None, "draws": 100, "warmup": 20, "chains": 4, "seed": 1, "progress": False}


def warnings_of(posterior: ch.Posterior) -> list[str]:
    return [text for text in posterior.summary().warnings if text.startswith(WARNING)]


def signal(level: float, n: int = 60) -> np.ndarray:
    """One segment at a level, and silence around it."""
    y = np.zeros(n)
    y[n // 3 : 2 * n // 3] = level
    return y + np.random.default_rng(2).normal(0, 0.1, n)


def rivals(weights: list[float]) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=ch.Gaussian(weights, sd=0.1))


def test_row_gibbs__stuck_in_modes_of_the_same_level():
    """1 + 2 or 3: row Gibbs cannot go from one to the other, and their levels are the same."""
    posterior = ch.sample(rivals([1.0, 2.0, 3.0]), signal(3.0), **STUCK)
    (found,) = warnings_of(posterior)
    assert "110" in found
    assert "001" in found
    assert found.endswith("; each may be right, but how probable they are is not known")
    assert posterior.summary().remedies[:4] == (
        "let update='auto' choose",
        "take larger blocks (update=ch.BlockGibbs(size=3), exchange=None)",
        "let jumps be learned (update='jumps', exchange=None)",
        "add a ladder with crossovers (exchange='mosaic', ladder='auto')",
    )
    assert not warnings_of(ch.sample(rivals([1.0, 2.0, 3.0]), signal(3.0), **STUCK | {"update": "exact"}))


def test_row_gibbs__nearly_equal_rows_are_modes():
    """Two rows that can be told apart, if only just: which of them is on is an explanation."""
    assert warnings_of(ch.sample(rivals([1.0, 1.01]), signal(1.0), **STUCK))


def test_row_gibbs__equal_rows_are_no_modes():
    """The same with rows that cannot be told apart: chains may label them as they like."""
    assert not warnings_of(ch.sample(rivals([1.0, 1.0]), signal(1.0), **STUCK))


def test_row_gibbs__modes_beside_equal_rows():
    """Two equal rows of 1.5, or one of 3: the labels of the two do not hide it."""
    assert warnings_of(ch.sample(rivals([1.5, 1.5, 3.0]), signal(3.0), **STUCK | {"seed": 2}))


@pytest.mark.parametrize("options", [{"chains": 1}, {"draws": 10}])
def test_silent__without_chains_or_draws_to_compare(options):
    assert not warnings_of(ch.sample(rivals([1.0, 2.0, 3.0]), signal(3.0), **STUCK | options))


def test_silent__for_densities():
    density = ch.Density(lambda x: -(x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk(scale=1.0))
    assert not warnings_of(ch.sample(density, exchange=None, draws=30, warmup=0, chains=2, seed=1, progress=False))
