"""A baseline at the edge of its prior is told, with its cause; others are not."""

import numpy as np
import pytest

import chiasma as ch

CHAINS = ch.Switches(0.05, 0.05)
QUICK = {"draws": 50, "warmup": 50, "update": ch.Collapsed(starts=4), "seed": 1, "progress": False}


def edge(posterior):
    return [one for one in posterior.findings if one.code == "prior-edge"]


@pytest.mark.parametrize(("offset", "n_found"), [(-0.6, 1), (0.6, 0)])
def test_weights__of_a_fixed_row(offset, n_found):
    truth = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian([1.8], sd=0.3))
    y = truth.simulate(300, seed=1)[1] + offset
    emission = ch.Gaussian(ch.Gamma([2, 2], [1, 4]), sd=ch.HalfNormal(1))
    posterior = ch.sample(ch.FactorialHMM(rows=CHAINS, emission=emission, fixed={1: 1}), y, **QUICK)
    assert [one.facts["names"] for one in edge(posterior)] == [["row 1"]] * n_found


def test_remedy__a_row_whose_weight_may_be_negative():
    def model(prior):
        switch = ch.Switch(0.05, 0.05)
        rows = [ch.Row([0, 1], switch, weight=ch.Gamma(2, 1)), ch.Row([0, 1], fixed=1, weight=prior, name="offset")]
        return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(1)))

    truth = ch.FactorialHMM(rows=CHAINS, emission=ch.Gaussian([1.8], sd=0.3))
    y = truth.simulate(300, seed=1)[1] - 0.6
    (found,) = edge(ch.sample(model(ch.Gamma(2, 4)), y, **QUICK))
    assert found.facts["names"] == ["offset"]
    mended = ch.sample(model(ch.Normal(0, 1)), y, **QUICK)
    assert edge(mended) == []
    assert np.abs(mended.parameters["offset.weight"].mean() + 0.6) < 0.1
