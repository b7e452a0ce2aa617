"""Updates of parameters and paths keep their joint law with the data, and mistakes do not.

Of a correct update a score exceeds 4.5 with probability 7e-6; 16 cases look at some 15 scores each: one false alarm in
600 choices of the seeds, which are fixed. Batch means have heavier tails than that, for which n is large enough here.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.sampling.learning import Learning
from joint import UPDATES, joint_scores, model_of

JIT = not numba.config.DISABLE_JIT
# Iterations of the chain: enough for batch means, few enough for a test.
N = {"row": 900, "block": 900, "ball": 900, "collapsed": 500, "gradient": 900}
pytestmark = pytest.mark.skipif(not JIT, reason="long runs of compiled kernels")


@pytest.mark.slow
@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("kind", ["gaussian", "integrated", "poisson"])
def test_joint__is_the_same_both_ways(kind, update):
    assert np.abs(joint_scores(kind, update, 1.0, N[update])).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "update"), [("gaussian", "row"), ("integrated", "ball"), ("poisson", "block"), ("integrated", "collapsed")]
)
def test_joint__is_the_same_both_ways_when_tempered(kind, update):
    assert np.abs(joint_scores(kind, update, 0.5, N[update])).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("update", ["row", "collapsed"])
def test_joint__finds_a_prior_that_was_left_out(update, monkeypatch):
    """A mutant: slices that know nothing of the priors."""
    original = Learning.log_prior_free
    monkeypatch.setattr(Learning, "log_prior_free", lambda self, values: min(original(self, values), 0.0) * 0.0)
    assert np.abs(joint_scores("gaussian", update, 1.0, N[update])).max() > 6


def p_values(update, replications, **options):
    ranks = ch.calibration.calibration_ranks(
        model_of("gaussian"), 8, replications, draws=15, update=update, exchange=None, seed=2, **options
    )
    return [float(p) for found in ch.calibration.uniformity(ranks, draws=15, bins=4).values() for p in np.ravel(found)]


# A correct sampler has one of its 7 p-values below this with a probability of about 7e-4.
ALARM = 1e-4


@pytest.mark.parametrize(
    ("update", "replications", "options"),
    [
        pytest.param("row", 40, {"thin": 8, "warmup": 60}, marks=pytest.mark.slow),
        ("exact", 24, {"thin": 2, "warmup": 20}),
    ],
)
def test_calibration__is_uniform(update, replications, options):
    assert min(p_values(update, replications, **options)) > ALARM


@pytest.mark.slow
def test_calibration__finds_a_prior_that_was_left_out(monkeypatch):
    original = Learning.log_prior_free
    monkeypatch.setattr(Learning, "log_prior_free", lambda self, values: min(original(self, values), 0.0) * 0.0)
    assert min(p_values("row", 40, thin=8, warmup=60)) < ALARM


def test_calibration__refuses_a_model_without_priors():
    model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Gaussian([1.0]))
    with pytest.raises(ch.InvalidInput, match="needs a model with priors"):
        ch.calibration.calibration_ranks(model, 5, 2)
    with pytest.raises(ch.InvalidInput, match="bins must divide draws"):
        ch.calibration.uniformity(None, draws=15, bins=5)
