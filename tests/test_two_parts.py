"""Parameters whose draws fall into two parts, and rows that the data do not need."""

import numpy as np
import pytest
import xarray as xr

import chiasma as ch
from chiasma.results.parameter_checks import FEWEST, part_findings, two_parts

N = 1_200


@pytest.mark.parametrize("share", [0.02, 0.5, 0.985])
def test_two_parts__are_found_whatever_their_shares(share):
    rng = np.random.default_rng(1)
    n_low = round(share * N)
    low, high = rng.gamma(2, 0.2, n_low), rng.normal(15.8, 0.3, N - n_low)
    found = two_parts(rng.permutation(np.concatenate([low, high])))
    assert found.share == pytest.approx(share, abs=1e-3)
    assert (found.low, found.high) == pytest.approx((np.median(low), np.median(high)))


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.standard_normal(N),
        lambda rng: rng.exponential(size=N),
        lambda rng: rng.lognormal(sigma=1.0, size=N),
        lambda rng: rng.standard_t(2, N),
        lambda rng: rng.beta(0.5, 0.5, N),
        lambda rng: rng.normal(3 * rng.integers(2, size=N), 1.0),  # two parts that meet
    ],
    ids=["normal", "exponential", "log-normal", "heavy tails", "at both ends", "overlapping"],
)
def test_two_parts__are_not_found_in_one(draw):
    """500 samples each and no alarm: at a false-alarm rate of 1% that would have a chance of 0.7%."""
    rng = np.random.default_rng(2)
    assert [two_parts(draw(rng)) for _ in range(500)] == [None] * 500


def test_two_parts__a_few_draws_on_the_way_between_them_do_not_hide_them():
    rng = np.random.default_rng(3)
    low, high = rng.normal(0.53, 0.012, 3_540), rng.normal(0.69, 0.008, 420)
    found = two_parts(np.concatenate([low, high, np.linspace(0.56, 0.66, 40)]))
    assert found.text == "89% of the draws near 0.53, 11% near 0.689"


def test_two_parts__few_draws_and_single_outliers_say_nothing():
    near = np.linspace(0, 1, FEWEST - 1)
    assert two_parts(np.r_[near[:-2], 50.0, 51.0]) is None
    assert two_parts(np.r_[np.linspace(0, 1, 300), np.full(9, 50.0)]) is None
    assert two_parts(np.r_[np.linspace(0, 1, N - 9), np.full(9, 50.0)]) is None  # less than 1% of them
    assert two_parts(np.zeros(N)) is None


def test_finding__names_the_values_and_their_parts():
    one, other = np.full((2, 100), 0.25), np.full((2, 100), 16.0)
    one[:, :50], other[:, :50] = 15.5, 28.0
    weights = np.stack([one, other], axis=2)
    (found,) = part_findings(xr.Dataset({"weights": (("chain", "draw", "row"), weights)}))
    assert (found.code, found.severity) == ("two-parts", "limited")
    assert found.facts["names"] == [
        "weights[0] (50% of the draws near 0.25, 50% near 15.5)",
        "weights[1] (50% of the draws near 16, 50% near 28)",
    ]
    assert part_findings(xr.Dataset({"sd": (("chain", "draw"), np.linspace(1, 2, 200).reshape(2, 100))})) == []


def test_rows_too_many__are_found_and_not_those_that_are_needed():
    """Two molecules over a background, and models of two and of three: the third adds next to nothing, or is a twin."""

    def model(n):
        weights = ch.Gamma([2] * n, 0.1)
        chains = ch.Switches(enter=ch.Beta(1, 30), leave=ch.Beta(1, 30))
        return ch.FactorialHMM(rows=chains, emission=ch.Poisson(weights, background=ch.LogNormal(2.0, 0.5)))

    truth = {"weights": [16.0, 28.0], "background": 6.0, "enter": 0.012, "leave": 0.03}
    y = model(2).at(truth).simulate(1_000, seed=3)[1]
    unknown = {}
    for n in (2, 3):
        options = {"update": ch.Collapsed(starts=8), "draws": 150, "warmup": 150, "seed": 1, "progress": False}
        found = ch.sample(model(n), y, **options).findings
        unknown[n] = [one.facts["names"] for one in found if one.code == "rows-unknown"]
    assert unknown == {2: [], 3: [["row_0"]]}


def test_posterior__of_draws_by_hand_in_two_parts():
    """Chains that disagree, and data that the model does not fit: the worst comes first."""
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    y = np.r_[np.zeros(100), np.full(100, 30.0)]
    options = {"update": ch.Collapsed(starts=2), "draws": 60, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
    posterior = ch.sample(model, y, **options)
    posterior.parameters["sd"][0] = 1.0
    found = {one.code: one for one in posterior.findings}
    assert {"two-parts", "chains-disagree", "baseline"} <= set(found)
    assert "sd" in found["chains-disagree"].facts["names"]
    severities = [one.severity for one in posterior.findings]
    assert severities == sorted(severities, key=["none", "limited", "note"].index)
    assert posterior.trust == "none"
