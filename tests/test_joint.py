"""Updates of parameters and paths keep their joint law with the data, and mistakes do not.

Of a correct update a score exceeds 4.5 with probability 7e-6; 8 cases look at some 15 scores each: one false alarm in
1,200 choices of the seeds, which are fixed. Batch means have heavier tails than that, for which n is large enough here.
"""

from __future__ import annotations

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.models.target import Target
from chiasma.sampling.learning import Learning
from joint import UPDATES, joint_scores, model_of

JIT = not numba.config.DISABLE_JIT
# Iterations of the chain: enough for batch means, few enough for a test.
N = {"row": 900, "block": 900, "ball": 900, "collapsed": 500}
pytestmark = pytest.mark.skipif(not JIT, reason="long runs of compiled kernels")


# Every emission, and every update at one beta or at both; verification/calibration.py has all pairs.
PAIRS = {
    1.0: [
        ("gaussian", "row"),
        ("integrated", "ball"),
        ("poisson", "collapsed"),
        ("weights", "block"),
        ("states", "block"),
    ],
    0.5: [
        ("gaussian", "collapsed"),
        ("integrated", "block"),
        ("states", "row"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "update", "beta"), [(*pair, beta) for beta, pairs in PAIRS.items() for pair in pairs])
def test_joint__is_the_same_both_ways(kind, update, beta):
    assert np.abs(joint_scores(kind, update, beta, N[update])).max() < 4.5


def test_joint__looks_at_every_update():
    """But the one by gradients, which test_gradient_engine.py looks at."""
    assert {update for pairs in PAIRS.values() for _, update in pairs} == set(UPDATES) - {"gradient"}


@pytest.mark.slow
@pytest.mark.parametrize("update", ["row", "collapsed"])
def test_joint__finds_a_prior_that_was_left_out(update, monkeypatch):
    """A mutant: slices that know nothing of the priors."""
    original = Learning.log_prior_free
    monkeypatch.setattr(Learning, "log_prior_free", lambda self, values: min(original(self, values), 0.0) * 0.0)
    assert np.abs(joint_scores("gaussian", update, 1.0, N[update])).max() > 6


@pytest.mark.slow
def test_joint__finds_equal_rows_that_are_arranged_column_by_column(monkeypatch):
    """A mutant: which of the two lamps is on is drawn anew in every column, as if it had no memory."""
    original, rng = Target.expand, np.random.default_rng(1)

    def shuffled(self, codes, given=None):
        whole = original(self, codes, given)
        first, second = self.row_layout.shifts[-2:]
        swapped = (whole >> first ^ whole >> second) & rng.integers(0, 2, whole.shape)
        return whole ^ swapped << first ^ swapped << second

    monkeypatch.setattr(Target, "expand", shuffled)
    assert np.abs(joint_scores("states", "row", 1.0, 500, n_columns=16)).max() > 6


def p_values():
    options = {"draws": 15, "update": "exact", "exchange": None, "thin": 2, "warmup": 20, "seed": 2}
    ranks = ch.calibration.calibration_ranks(model_of("gaussian"), 8, 24, **options)
    return [float(p) for found in ch.calibration.uniformity(ranks, draws=15, bins=4).values() for p in np.ravel(found)]


# A correct sampler has one of its 7 p-values below this with a probability of about 7e-4.
ALARM = 1e-4


def test_calibration__is_uniform():
    assert min(p_values()) > ALARM


def test_calibration__finds_a_prior_that_was_left_out(monkeypatch):
    original = Learning.log_prior_free
    monkeypatch.setattr(Learning, "log_prior_free", lambda self, values: min(original(self, values), 0.0) * 0.0)
    assert min(p_values()) < ALARM


def test_calibration__of_an_offset_and_of_noise_by_state():
    """A drift that restarts, a covariate, and a state that adds noise: 17 p-values, a false alarm in 600."""
    rows = [ch.Row([0, 1.0], ch.Switch(ch.Beta(2, 6), 0.3), "on", spread=[0, ch.HalfNormal(1)])]
    offset = [ch.Smooth(knots=4, scale=1.0), ch.Covariates(np.sin(np.arange(8)), scale=1.0)]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(1)), offset=offset)
    options = {"update": "exact", "exchange": None, "thin": 2, "warmup": 20, "seed": 1}
    ranks = ch.calibration.calibration_ranks(model, 8, 16, draws=15, starts=[4], **options)
    ranks["on.spread"] = ranks["on.spread"][:, 1]  # the other one is a number
    found = ch.calibration.uniformity(ranks, draws=15, bins=4)
    assert min(float(own.min()) for own in found.values()) > ALARM


def test_calibration__of_paths_alone():
    """Rows of any number of states, sampled by blocks. False alarm with the probability ALARM."""
    rows = [ch.Row([0, 1.0, 2.2], ch.Sticky(renew=0.4)), ch.Row([0, 0.9], ch.Switch(0.2, 0.3), copies=3)]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.6))
    options = {"update": "row", "exchange": "mosaic", "ladder": [1, 3], "thin": 3, "warmup": 20}
    ranks = ch.calibration.calibration_ranks(model, 8, 40, draws=15, seed=3, **options)
    assert list(ranks) == ["rows_on"]
    assert float(ch.calibration.uniformity(ranks, draws=15, bins=4)["rows_on"]) > ALARM


def test_calibration__refuses_bins_of_different_sizes():
    with pytest.raises(ch.InvalidInput, match="bins must divide draws"):
        ch.calibration.uniformity(None, draws=15, bins=5)
