"""Parameters whose draws fall into two parts, and rows that the data do not need."""

import numpy as np
import pytest
import xarray as xr

import chiasma as ch
from chiasma.io.signal import Signal
from chiasma.report.answers import answers
from chiasma.report.report import find
from chiasma.results.parts import FEWEST, part_warnings, two_parts

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


def test_warning__names_the_values_and_their_parts():
    one, other = np.full((2, 100), 0.25), np.full((2, 100), 16.0)
    one[:, :50], other[:, :50] = 15.5, 28.0
    weights = np.stack([one, other, other + 10, other + 20], axis=2)
    (text,) = part_warnings(xr.Dataset({"weights": (("chain", "draw", "row"), weights)}))
    assert text.startswith(
        "the posterior of 4 learned values has two parts (weights[0]: 50% of the draws near 0.25, 50% near 15.5; "
        "weights[1]: 50% of the draws near 16, 50% near 28; weights[2]: "
    )
    assert "; and 1 more): these are rival explanations" in text
    assert part_warnings(xr.Dataset({"sd": (("chain", "draw"), np.linspace(1, 2, 200).reshape(2, 100))})) == []


def test_rows_too_many__are_told_and_not_those_that_are_needed():
    """Two molecules over a background, and models of two and of three: the third adds next to nothing, or is a twin."""

    def model(n):
        weights = ch.Gamma([2] * n, 0.1)
        chains = ch.Switches(enter=ch.Beta(1, 30), leave=ch.Beta(1, 30))
        return ch.FactorialHMM(rows=chains, emission=ch.Poisson(weights, background=ch.LogNormal(2.0, 0.5)))

    truth = {"weights": [16.0, 28.0], "background": 6.0, "enter": 0.012, "leave": 0.03}
    y = model(2).at(truth).simulate(1_000, seed=3)[1]
    told = {}
    for n in (2, 3):
        options = {"update": ch.Collapsed(starts=8), "draws": 150, "warmup": 150, "seed": 1, "progress": False}
        found = find(ch.sample(model(n), y, **options), Signal(data=ch.Observations(y)))
        told[n] = answers(
            found.summary,
            found.regions,
            found.doubtful,
            found.where,
            found.command,
            ["a", "b", "c"][:n],
            "",
            spare=found.spare,
        )
    hardly = {n: [one.answer for one in verdicts if "hardly say" in one.answer] for n, verdicts in told.items()}
    assert hardly == {2: [], 3: ["The data hardly say when row_0 is on."]}
    assert {n: "evidence of fewer rows" in verdicts[-1].text for n, verdicts in told.items()} == {2: False, 3: True}


def test_summary__tells_how_to_read_parameters_between_sampling_and_model():
    """Draws by hand: two parts, chains that disagree, and data that the model does not fit."""
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    y = np.r_[np.zeros(100), np.full(100, 30.0)]
    options = {"update": ch.Collapsed(starts=2), "draws": 60, "warmup": 20, "chains": 2, "seed": 1, "progress": False}
    posterior = ch.sample(model, y, **options)
    posterior.parameters["sd"][0] = 1.0
    summary = posterior.summary()
    (reading,) = summary.about_parameters
    assert reading.startswith("the posterior of 1 learned value has two parts (sd: 50% of the draws near 1, 50% near ")
    assert any("R-hat of sd" in text for text in summary.about_the_sampling)
    assert any("as uncertain as the draws" in text for text in summary.about_the_sampling)  # the evidence
    assert summary.about_the_model
    assert summary.about_the_sampling + summary.about_parameters + summary.about_the_model == summary.warnings
    found = find(posterior, Signal(data=ch.Observations(y)))
    verdicts = answers(found.summary, found.regions, found.doubtful, found.where, found.command, ["row"], "")
    assert [one.text[:29] for one in verdicts if one.answer == "Read the parameters with care:"] == [reading[:29]]
