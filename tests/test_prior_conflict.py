"""Learned values far from their priors are told, others are not."""

import numpy as np
import xarray as xr

import chiasma as ch
from chiasma.results.parameter_checks import conflict_findings


def drawn(**values):
    return xr.Dataset({name: (("chain", "draw", "row")[: np.ndim(v)], np.asarray(v)) for name, v in values.items()})


def model(**emission):
    return ch.FactorialHMM(rows=ch.Switches(ch.Beta(1, 9), 0.1), emission=ch.Gaussian(**emission))


def test_conflict__names_the_value_and_what_the_prior_allows():
    kettle = model(weights=ch.LogNormal([7.5, 4.0], 0.2), sd=ch.HalfNormal(50))
    weights = np.tile([119.0, 55.0], (2, 50, 1))
    draws = drawn(weights=weights, sd=np.full((2, 50), 4.0), enter=np.full((2, 50), 0.05))
    (found,) = conflict_findings(kettle, draws)
    (name,) = found.facts["names"]
    assert name.startswith("weights[0] near 119 (prior ")
    draws["weights"][0, :5, 0] = 1_800.0  # 5% of the draws are where the prior is
    assert conflict_findings(kettle, draws)
    draws["weights"][0, :6, 0] = 1_800.0
    assert conflict_findings(kettle, draws) == []


def test_conflict__draws_from_the_prior_are_in_none():
    """19 of 20 draws beyond 2,000 others: a false alarm has a chance of less than 1e-40."""
    priors = model(weights=ch.Dirichlet([1, 2, 3]), sd=ch.Gamma(2, 1), depth=ch.Normal(0, 1))
    rng = np.random.default_rng(1)
    values = np.array([priors.parameters.sample(rng) for _ in range(20)])
    named = priors.parameters.unpack(values)
    assert conflict_findings(priors, drawn(**{name: array[None] for name, array in named.items()})) == []
    assert conflict_findings(None, drawn()) == []


def test_conflict__is_in_the_summary():
    truth = model(weights=[100.0], sd=5.0).at({"enter": 0.1})
    y = truth.simulate(200, seed=1)[1]
    told = model(weights=ch.LogNormal([7.5], 0.2), sd=5.0)
    options = {"update": ch.Collapsed(starts=4), "draws": 50, "warmup": 50, "seed": 1, "progress": False}
    (found,) = [one for one in ch.sample(told, y, **options).findings if one.code == "prior-conflict"]
    assert found.facts["names"][0].startswith("weights[0]")
