"""Chains that sit in different modes are told apart from chains that mix, and from equal rows with other labels."""

from __future__ import annotations

import numpy as np
import pytest

import chiasma as ch

STUCK = {"update": "row", "exchange": None, "draws": 100, "warmup": 20, "chains": 4, "seed": 1, "progress": False}


def found_in(posterior: ch.Posterior) -> list[ch.Finding]:
    return [one for one in posterior.findings if one.code == "modes"]


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
    (found,) = found_in(posterior)
    assert {found.facts["first"], found.facts["second"]} == {"s110", "s001"}
    assert found.severity == posterior.trust == "none"
    assert [one.python() for one in found.remedies] == [
        "update='auto'",
        "update=ch.BlockGibbs(size=3)",
        "update='jumps'",
        "exchange='mosaic'",
    ]
    assert not found_in(ch.sample(rivals([1.0, 2.0, 3.0]), signal(3.0), **STUCK | {"update": "exact"}))


def test_row_gibbs__nearly_equal_rows_are_modes():
    """Two rows that can be told apart, if only just: which of them is on is an explanation."""
    assert found_in(ch.sample(rivals([1.0, 1.01]), signal(1.0), **STUCK))


def test_row_gibbs__equal_rows_are_no_modes():
    """The same with rows that cannot be told apart: chains may label them as they like."""
    assert not found_in(ch.sample(rivals([1.0, 1.0]), signal(1.0), **STUCK))


def test_row_gibbs__modes_beside_equal_rows():
    """Two equal rows of 1.5, or one of 3: the labels of the two do not hide it."""
    assert found_in(ch.sample(rivals([1.5, 1.5, 3.0]), signal(3.0), **STUCK | {"seed": 2}))


@pytest.mark.parametrize("options", [{"chains": 1}, {"draws": 10}])
def test_silent__without_chains_or_draws_to_compare(options):
    assert not found_in(ch.sample(rivals([1.0, 2.0, 3.0]), signal(3.0), **STUCK | options))


def test_silent__for_densities():
    density = ch.Density(lambda x: -(x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk(scale=1.0))
    assert not found_in(ch.sample(density, exchange=None, draws=30, warmup=0, chains=2, seed=1, progress=False))
