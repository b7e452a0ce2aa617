"""Aliases of a genome, what decides between them, how misfit tempers odds, and clones that only absorb misfit."""

import json
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from chiasma.tumour.copy_states import CopyStates
from chiasma.tumour.doubts import deciding, doubling, family, tempered
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.model import PiecePosterior, TumourParameters
from chiasma.tumour.polish import ARRAY_SPREAD, PURITY, TYPICAL_SHARE, Explanation, _overdispersion
from chiasma.tumour.search import halved_and_doubled
from chiasma.tumour.solutions import CLEARLY, MOST_TEMPERED, _simplest_first, temper_of

OWN = TumourParameters(purity=0.6, scale=1.0, slack=0.01)
DOUBLE = replace(OWN, purity=3 / 7, scale=0.7, doubled=True)


def explained(parameters, log_mass=0.0, **known):
    return SimpleNamespace(parameters=parameters, log_mass=log_mass, **known)


def test_aliases__have_the_levels_of_the_genome():
    """Twice the copies at the purity p / (2 - p), and back."""
    (only,) = halved_and_doubled([(explained(OWN),)], [Bounds(purity=(0.4, 0.7))])
    assert only[0].purity == pytest.approx(DOUBLE.purity)
    assert only[0].scale == pytest.approx(DOUBLE.scale)
    assert only[0].doubled
    copies = np.arange(5)
    levels = [p.scale * (1 - p.purity + p.purity * n / 2) for p, n in ((OWN, copies), (only[0], 2 * copies))]
    np.testing.assert_allclose(*levels)
    halved = [joint[0] for joint in halved_and_doubled([(explained(DOUBLE),)], [Bounds()])]
    assert any(one.purity == pytest.approx(OWN.purity) and not one.doubled for one in halved)


def test_aliases__that_are_known_or_out_of_bounds_are_left_out():
    found = halved_and_doubled([(explained(OWN),), (explained(DOUBLE, -3.0),)], [Bounds(purity=(0.4, 0.7))])
    assert found == []
    assert halved_and_doubled([(explained(OWN),)], [Bounds(purity=(0.5, 0.7))]) == []


def test_family__is_a_doubling_of_levels():
    assert doubling(explained(OWN), explained(DOUBLE)) == 2.0
    assert doubling(explained(DOUBLE), explained(OWN)) == 0.5
    assert doubling(explained(OWN), explained(replace(OWN, purity=0.3))) is None


@pytest.mark.parametrize(("gain", "tempered", "by"), [(7.0, 1.0, "data"), (7.0, 4.0, "neither"), (-2.0, 1.0, "prior")])
def test_family__is_of_all_samples_and_tempered(gain, tempered, by):
    """A solution that doubles one sample only is no relative; what decides is judged on the tempered scale."""
    nothing = {"fits": np.zeros(1), "log_likelihood": 0.0}
    bins = SimpleNamespace(
        chromosome=np.array(["1"]), start=np.array([0]), end=np.array([9]), starts=np.array([0]), n_bins=1
    )

    def answer(*others):
        first = explained(OWN, 4.0, fits=np.array([gain]), log_likelihood=gain)
        solutions = [SimpleNamespace(best=one) for one in (first, *(explained(o, 0.0, **nothing) for o in others))]
        data = SimpleNamespace(cuts=np.array([0]))
        return SimpleNamespace(solutions=solutions, tempered=tempered, bins=bins, data=data)

    (found,) = family([answer(OWN, DOUBLE, DOUBLE), answer(OWN, OWN, DOUBLE)])
    assert (found.rank, found.factor, found.lead.by) == (4, 2.0, by)
    entry = json.loads(json.dumps(found.entry()))
    assert (entry["fit"], entry["plausibility"]) == (gain / tempered, 4.0 - gain / tempered)
    assert entry["segments"] == [{"chromosome": "1", "start": 0, "end": 9, "fit": gain / tempered}]


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1.0, []),
        (1.5, [("odds-tempered", "note")]),
        (3.0, [("odds-tempered", "limited")]),
        (MOST_TEMPERED, [("odds-too-extreme", "none")]),
    ],
)
def test_tempering__is_a_finding(factor, expected):
    found = tempered(SimpleNamespace(tempered=factor))
    assert [(one.code, one.severity) for one in found] == expected
    assert all(one.facts == {"factor": factor} for one in found)


def test_deciding__segments_are_neighbours_that_favour_the_same():
    bins = SimpleNamespace(
        chromosome=np.array(["1", "1", "1", "2"]),
        start=np.array([0, 10, 20, 0]),
        end=np.array([10, 20, 30, 10]),
        starts=np.array([0, 3]),
        n_bins=4,
    )
    answer = SimpleNamespace(bins=bins, data=SimpleNamespace(cuts=np.arange(4)))
    one, other = (SimpleNamespace(fits=np.array(fits)) for fits in ([1.0, 2.0, -1.0, -4.0], np.zeros(4)))
    told = [(s.chromosome, s.start, s.end, s.fit) for s in deciding(answer, one, other)]
    assert told == [("2", 0, 10, -4.0), ("1", 0, 20, 3.0), ("1", 20, 30, -1.0)]


@pytest.mark.parametrize(("n_odd", "expected"), [(0, 1.0), (30, 10.0)])
def test_temper__is_the_ratio_of_unexplained_segments_to_expected_ones(n_odd, expected):
    n = 100
    main = np.zeros((n, 2))
    main[np.arange(n), np.arange(n) % 2] = 1.0
    outside = (np.arange(n) < n_odd) * 1.0
    nothing = np.zeros(1)
    found = PiecePosterior(main, main, np.zeros(n), nothing, nothing.astype(int), nothing.astype(int), np.zeros(n))
    pieces = SimpleNamespace(starts=np.array([0]), short=None)
    ratio = _overdispersion(pieces, found, outside)
    assert ratio == pytest.approx((n_odd + 1) / (TYPICAL_SHARE * n + 1))
    best, worse = explained(OWN, 0.0, overdispersion=10 * ratio), explained(OWN, -9.0, overdispersion=1.0)
    assert temper_of([(worse,), (best,)]) == pytest.approx(min(max(10 * ratio, 1.0), 10.0))


def test_tempering__leaves_the_prior_of_ploidy_and_doubling():
    """A ploidy of 7 is as rare in a tumour that the model fits badly as in any other. Intervals widen."""
    one = Explanation(**dict.fromkeys((field.name for field in fields(Explanation)), None))
    one = replace(one, log_mass=-108.0, log_usual=-8.0, covariance=0.5 * np.eye(PURITY + 1))
    wide, array = one.tempered(4.0), one.tempered(4.0, array=True)
    assert (wide.log_mass, wide.log_usual) == (-33.0, -8.0)
    np.testing.assert_allclose(wide.covariance, 2.0 * np.eye(PURITY + 1))
    assert array.covariance[PURITY, PURITY] == pytest.approx(2.0 + ARRAY_SPREAD**2)


def test_clones__one_more_must_be_clearly_better():
    one = (explained(OWN, 0.0),)
    two = (explained(replace(OWN, fractions=(0.2,)), 0.9 * CLEARLY),)
    assert _simplest_first([two, one]) == [one, two]
    clearly = (explained(two[0].parameters, 1.1 * CLEARLY),)
    assert _simplest_first([clearly, one]) == [clearly, one]


@pytest.mark.parametrize("alleles", [True, False])
def test_states__about_a_level_have_it_as_their_mean(alleles):
    states = CopyStates(most=6, alleles=alleles)
    for major, minor in ((1.5, 1.5), (2.3, 0.4), (1.0, 1.0)) if alleles else ((2.7, 0.0), (3.0, 0.0)):
        weights = states.about(major, minor)
        assert weights.sum() == pytest.approx(1.0)
        assert weights @ states.totals == pytest.approx(major + minor)
    assert states.about(9.0, 3.0 if alleles else 0.0)[-1] == 1.0
