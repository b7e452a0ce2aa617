"""A learned Student-t that takes a missing row for outliers is told."""

import numpy as np
import pytest

import chiasma as ch


@pytest.mark.parametrize("with_kettle", [False, True])
def test_tails__that_swallow_a_row(with_kettle):
    """A fridge, and a kettle that is rarely on; a model of the fridge alone, or of both."""
    chains = ch.Switches([0.1, 0.02], [0.1, 0.3])
    truth = ch.FactorialHMM(rows=chains, emission=ch.Gaussian([80.0, 3000.0], sd=3.0))
    y = truth.simulate(600, seed=2)[1]
    assert np.mean(y > 1_000) > 0.01
    weights = [80.0, 3000.0] if with_kettle else [80.0]
    enter = [0.1, 0.02][: len(weights)]
    emission = ch.StudentT(weights, sd=ch.HalfNormal(10), df=ch.Gamma(2, 0.1))
    model = ch.FactorialHMM(rows=ch.Switches(enter, 0.2), emission=emission)
    options = {"update": ch.Collapsed(starts=4), "draws": 50, "warmup": 50, "seed": 1, "progress": False}
    found = {one.code for one in ch.sample(model, y, **options).findings}
    assert ("heavy-tails" in found) == (not with_kettle)
