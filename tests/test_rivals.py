"""Equal rows and rival explanations, against plain computations on draws made by hand."""

from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import chiasma as ch
from chiasma.kernels.layout import make_layout, pack_states, unpack_codes
from chiasma.results import rivals
from chiasma.results import row_groups as module
from chiasma.results.expected import noise_of_codes
from chiasma.results.rivals import explain, uncertain
from chiasma.results.row_groups import Merging, equal_rows, fixed_text, names_of_rows, row_probabilities
from test_configurations import by_hand


def lamps(copies=3):
    return ch.FactorialHMM(
        rows=[
            ch.Row(name="oven", values=[0, 5, 9], chain=ch.Sticky(0.1)),
            ch.Row(name="lamp", values=[0, 1], chain=ch.Switch(0.1, 0.1), copies=copies),
            ch.Row(name="standby", values=[0, 1], chain=ch.Switch(0.1, 0.1), fixed=1),
        ],
        emission=ch.Gaussian(sd=0.5),
    )


@pytest.mark.parametrize(
    ("emission", "noise"),
    [
        (ch.Gaussian([10.0, 30.0], sd=2.0), [2.0, 2.0, 2.0]),
        (ch.IntegratedDepth([10.0, 30.0], depth_sd=0.1, sd=2.0), [2.0, 5**0.5, 13**0.5]),
        (ch.Poisson([10.0, 30.0], background=6.0), [6**0.5, 4.0, 6.0]),
        (ch.NegativeBinomial([10.0, 30.0], background=6.0, dispersion=0.1), [9.6**0.5, 41.6**0.5, 165.6**0.5]),
        # Mean distances: those of Student's t with 4 degrees of freedom are those of a normal with 1.25 times its sd.
        (ch.StudentT([10.0, 30.0], sd=2.0, df=4.0), [2.5, 2.5, 2.5]),
    ],
)
def test_noise_of_codes__is_that_of_the_emission(emission, noise):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission)
    posterior = by_hand(np.zeros((2, 4, 6), np.uint8), [10.0, 30.0], model=model)
    found = noise_of_codes(posterior, [0, 1, 2])
    np.testing.assert_allclose(found[:, 0], noise, rtol=0.08)


def test_apart__is_unknown_where_nothing_is_to_be_compared():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 3.0], sd=2.0))
    codes = np.array([[[0] * 6, [0] * 6, [2] * 6, [2] * 6, [2] * 6]], np.uint8)
    (region,) = explain(by_hand(codes, [1.0, 3.0], model=model), by_hand(codes, [1.0, 3.0], model=model).segments())
    assert region.apart == pytest.approx(3 / 2, rel=0.1)
    assert replace(region, explanations=region.explanations[:1]).apart is None
    own = ch.Custom(lambda y, level: -np.abs(y - level), weights=[1.0, 3.0])
    custom = by_hand(codes, [1.0, 3.0], model=ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=own))
    assert noise_of_codes(custom, [0]) is None
    (certain,) = explain(
        by_hand(codes[:, :2], [1.0, 3.0], model=model), by_hand(codes[:, :2], [1.0, 3.0], model=model).segments()
    )
    assert certain.noise is None


def test_equal_rows__by_weight_values_and_chain():
    assert equal_rows(lamps()) == [[1, 2, 3]]
    binary = ch.Switches(0.1, [0.1, 0.1, 0.1, 0.2, 0.1])
    model = ch.FactorialHMM(rows=binary, emission=ch.Gaussian([1.0, 1.0, 2.0, 1.0, 1.0]), fixed={4: 0})
    assert equal_rows(model) == [[0, 1]]
    channels = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([[1.0, 2.0], [1.0, 3.0]]))
    assert equal_rows(channels) == []


def test_equal_rows__learned_rows_have_an_order_and_models_without_levels_none():
    learned = ch.Gaussian(ch.Dirichlet([1, 1]))
    assert equal_rows(ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=learned)) == []
    own = ch.Switches(ch.Beta([1, 1], 9), 0.1)
    assert equal_rows(ch.FactorialHMM(rows=own, emission=ch.Gaussian([1.0, 1.0]))) == []
    shared = ch.Switches(ch.Beta(1, 9), 0.1)
    assert equal_rows(ch.FactorialHMM(rows=shared, emission=ch.Gaussian([1.0, 1.0]))) == [[0, 1]]
    table = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Table(np.zeros((3, 4))))
    assert equal_rows(table) == []
    assert equal_rows(None) == []


@given(st.data(), st.booleans())
def test_merging__is_the_smallest_of_all_exchanges(data, by_table):
    """Against a loop over all permutations of the rows of each group."""
    sizes = [3, 2, 3, 2, 2, 3]
    groups = [[0, 2, 5], [1, 4]]
    layout = make_layout(sizes)
    states = [data.draw(st.integers(0, size - 1)) for size in sizes]
    code = pack_states(np.array(states)[:, None], layout)[0]
    found = set()
    for first in permutations(groups[0]):
        for second in permutations(groups[1]):
            moved = list(states)
            for place, row in zip(groups[0] + groups[1], first + second, strict=True):
                moved[place] = states[row]
            found.add(tuple(moved))
    merging = Merging(layout, groups)
    before = module.TABLE_BITS
    module.TABLE_BITS = 16 if by_table else 0
    try:
        merged = merging(np.array([[code]], np.uint16))
    finally:
        module.TABLE_BITS = before
    assert merged.dtype == np.uint16
    assert tuple(unpack_codes(merged[0], layout)[:, 0].tolist()) in found
    assert [merging(np.array([pack_states(np.array(one)[:, None], layout)[0]]))[0] for one in found] == [
        merged[0, 0]
    ] * len(found)
    assert merging.arrangements(int(code)) == len(found)


def test_merging__of_63_rows():
    merging = Merging(make_layout([2] * 63), [list(range(63))])
    assert merging(np.array([1 << 62, 5 << 40])).tolist() == [1, 3]
    assert merging.arrangements(1 << 62) == 63


def test_segments__equal_rows_are_one_explanation():
    """Three equal rows, of which any one is on: raw codes have three rivals, the merged ones none."""
    rng = np.random.default_rng(1)
    codes = 1 << rng.integers(0, 3, (2, 200, 12))
    found = by_hand(codes, [1.0, 1.0, 1.0]).segments()
    assert [(one.start, one.stop, one.state, one.probability) for one in found] == [(0, 12, "100", 1.0)]
    apart = by_hand(codes, [1.0, 1.1, 1.2]).segments()
    assert max(one.probability for one in apart) < 0.5
    (only,) = by_hand(codes, [1.0, 1.0, 1.0]).top_configurations(0, 12)
    assert only.probability == 1
    assert only.state_at(0) == "100"


def a_posterior(missing=(), weights=(0.2, 0.3, 0.5)):
    """Sites 0-5 are certain; 6-11 are 110 in 60% of the draws and 001 in 40%."""
    codes = np.zeros((2, 100, 12), np.int64)
    codes[:, :60, 6:] = 3
    codes[:, 60:, 6:] = 4
    y = np.r_[np.zeros(6), np.full(6, 0.5)]
    y[list(missing)] = np.nan
    return by_hand(codes, np.array(weights), data=ch.Observations(y))


@pytest.mark.parametrize("table_size", [2**24, 0])
def test_explain__shares_levels_and_same_level(monkeypatch, table_size):
    monkeypatch.setattr(rivals, "TABLE_SIZE", table_size)
    posterior = a_posterior()
    certain, doubtful = explain(posterior, posterior.segments())
    assert [(one.name, one.probability, one.level) for one in doubtful.explanations] == [
        ("s110", pytest.approx(0.6), pytest.approx(0.5)),
        ("s001", pytest.approx(0.4), pytest.approx(0.5)),
    ]
    assert doubtful.same_level
    assert doubtful.level_probability == pytest.approx(1)
    assert doubtful.rival.name == "s001"
    assert certain.explanations[0].probability == 1
    assert certain.rival is None
    assert uncertain([certain, doubtful]) == [doubtful]
    assert doubtful.segment.doubt == pytest.approx(6 * 0.4)
    other = explain(a_posterior(weights=[0.2, 0.31, 0.5]), posterior.segments())[1]
    assert not other.same_level
    assert other.level_probability == pytest.approx(0.6)


def test_explain__random_draws_against_counts():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 8, (2, 30, 20))
    posterior = by_hand(codes, data=ch.Observations(np.where(np.arange(20) % 3, 1.0, np.nan)))
    segments = posterior.segments()
    seen = np.arange(20) % 3 != 0
    for segment, region in zip(segments, explain(posterior, segments), strict=True):
        here = np.arange(segment.start, segment.stop)
        kept = here[seen[here]] if seen[here].any() else here
        counts = Counter(codes[:, :, kept].ravel().tolist())
        for one in region.explanations:
            assert one.probability == pytest.approx(counts[one.code] / counts.total())
        assert region.explanations[0].probability == pytest.approx(max(counts.values()) / counts.total())


def test_regions_are_chosen_by_wrong_sites_with_data():
    """A long segment without data is no rival, however unsure; a short one with data comes first."""
    codes = np.zeros((1, 100, 100), np.int64)
    codes[0, :45, 10:90] = 1  # 80 sites, of which 2 have data
    codes[0, 40:, 90:] = 2  # 10 sites with data
    y = np.zeros(100)
    y[12:90] = np.nan
    posterior = by_hand(codes, data=ch.Observations(y, starts=[10, 90]))
    found = uncertain(explain(posterior, posterior.segments()))
    assert [(one.segment.start, one.segment.n_data) for one in found] == [(90, 10), (10, 2)]
    y[10:12] = np.nan
    posterior = by_hand(codes, data=ch.Observations(y, starts=[10, 90]))
    assert [one.segment.start for one in uncertain(explain(posterior, posterior.segments()))] == [90]


def test_row_probabilities__equal_rows_by_how_many_are_on():
    model = lamps()
    posterior = ch.sample(model, model.simulate(40, seed=2)[1], draws=50, chains=2, seed=1, progress=False)
    oven, lamp = row_probabilities(posterior)
    assert (oven.name, lamp.name, fixed_text(posterior)) == ("oven", "lamp_1-3", "standby = 1")
    np.testing.assert_array_equal(oven.probabilities, posterior.probabilities("oven").values[1:])
    on = sum(posterior.states(f"lamp_{i}").values for i in (1, 2, 3))
    for n in (1, 2, 3):
        np.testing.assert_allclose(lamp.probabilities[n - 1], (on == n).mean(axis=(0, 1)))
    assert (oven.is_count, lamp.is_count) == (False, True)
    assert [row.name for row in row_probabilities(posterior, together=False)] == names_of_rows(posterior)[:-1]


def test_explanations__have_the_signals_of_the_draws_that_have_them():
    """Two modes: with a weight of 1 the row is on, with one of 3 it is off. At their mean, neither signal is right."""
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(ch.Gamma([2, 2], 1), sd=1.0), fixed={1: 1})
    codes = np.full((2, 50, 8), 0b11)
    codes[1] = 0b10
    weights = np.where(codes[:, :, :1] == 0b11, [1.0, 2.0], [3.0, 2.5])
    parameters = xr.Dataset({"weights": (("chain", "draw", "row"), weights)})
    posterior = by_hand(
        codes, model=model, data=ch.Observations(np.zeros(8)), parameters=parameters, info={"n_rows": 2}
    )
    (region,) = explain(posterior, posterior.segments())
    assert {one.name: one.level for one in region.explanations} == {"s11": 3.0, "s01": 2.5}


def test_counts__of_equal_rows_by_the_name_of_copies_or_of_one():
    model = lamps()
    posterior = ch.sample(model, model.simulate(40, seed=2)[1], draws=50, chains=2, seed=1, progress=False)
    on = sum(posterior.states(f"lamp_{i}").values for i in (1, 2, 3))
    for row in ("lamp", "lamp_2", 3):
        np.testing.assert_array_equal(posterior.rows_on(row), on)
        shares = [(on == n).mean(axis=(0, 1)) for n in range(4)]
        np.testing.assert_allclose(posterior.count_probabilities(row), shares)
    # A row of more states is on in all of them but the first, and nothing is equal to it.
    np.testing.assert_array_equal(posterior.rows_on("oven"), posterior.states("oven") > 0)
    assert posterior.count_probabilities("oven").sizes == {"count": 2, "site": 40}
    without = replace(posterior, model=None)
    np.testing.assert_array_equal(without.rows_on("lamp"), on)  # by their names alone
    for method in (posterior.states, posterior.probabilities):
        with pytest.raises(ch.InvalidInput, match=r"'lamp' is the name of 3 rows, lamp_1 to lamp_3.*rows_on\('lamp'\)"):
            method("lamp")
    with pytest.raises(ch.InvalidInput, match="there is no row 'standb'; this posterior has 'oven', 'lamp_1'"):
        posterior.rows_on("standb")


def test_counts__agree_with_the_exact_ones():
    """Independent draws: by chance, a share of 2,000 is 0.07 off at one of 40 sites less than once in 10,000 runs."""
    model = lamps()
    y = model.simulate(10, seed=2)[1]
    posterior = ch.sample(model, y, update="exact", draws=500, chains=4, seed=1, progress=False)
    exact = ch.exact.count_probabilities(model, y, "lamp")
    np.testing.assert_allclose(posterior.count_probabilities("lamp"), exact, atol=0.07)


def test_lamps__a_real_run_counts_arrangements():
    model = lamps()
    y = model.simulate(80, seed=2)[1]
    posterior = ch.sample(model, y, draws=100, chains=2, seed=1, progress=False)
    regions = explain(posterior, posterior.segments())
    for region in regions:
        for one in region.explanations:
            on = sum(one.states[1:4])
            assert one.states[1:4] == (1,) * on + (0,) * (3 - on)
            assert one.arrangements == (1, 3, 3, 1)[on]
