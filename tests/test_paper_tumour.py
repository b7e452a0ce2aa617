"""The tumour analysis: the ambiguous genome, the real profile, a quick run, configurations against exact inference.

A mean over independent exact draws must lie within five standard errors of the exact value: it fails by chance less
than once in a million.
"""

from itertools import pairwise

import numpy as np
import pytest

from chiasma import exact
from chiasma.datasets import genome
from paper import tumour
from paper import tumour_cases as cases
from paper.timings import EXACT
from test_paper_simulation import check

LEVELS = np.array(genome.WEIGHTS)


def test_ambiguous_genome__has_the_rivals_it_promises():
    case = cases.ambiguous_genome(1, genome.N_BINS)
    assert case.states.shape == (6, 10_877)
    assert len(case.data.starts) == 22
    assert case.states[5].all()
    first, stop = case.span(17)
    assert case.states[4, first:stop].all()
    assert np.count_nonzero(np.diff(case.states[2, first:stop])) == 4
    assert case.states[2, slice(*case.span(21))].all()
    assert case.states[[2, 3], slice(*case.span(22))].all()
    # 17: rows 0 and 1 in place of row 4; 22: rows 1 and 4 in place of rows 2 and 3.
    assert LEVELS[0] + LEVELS[1] == pytest.approx(LEVELS[4])
    assert LEVELS[1] + LEVELS[4] == pytest.approx(LEVELS[2] + LEVELS[3])


def test_ambiguous_genome__signal_follows_the_states():
    case = cases.ambiguous_genome(2, genome.N_BINS)
    first, stop = case.span(22)
    y = case.data.y[first:stop]
    level = LEVELS[[2, 3, 5]].sum()
    sd = np.hypot(cases.SD, cases.DEPTH_SD * level)
    assert y.mean() == pytest.approx(cases.DEPTH_MEAN * level, abs=5 * sd / np.sqrt(len(y)))


def test_span__covers_the_genome_in_order():
    case = cases.ambiguous_genome(1, 500)
    spans = [case.span(c) for c in range(1, 23)]
    assert spans[0][0] == 0
    assert spans[-1][1] == 500
    assert all(a[1] == b[0] for a, b in pairwise(spans))


def test_only__keeps_the_chosen_chromosomes():
    whole = cases.ambiguous_genome(1, 500)
    part = whole.only((17, 22))
    for chromosome in (17, 22):
        np.testing.assert_array_equal(
            part.data.y[slice(*part.span(chromosome))], whole.data.y[slice(*whole.span(chromosome))]
        )
        np.testing.assert_array_equal(
            part.states[:, slice(*part.span(chromosome))], whole.states[:, slice(*whole.span(chromosome))]
        )
    assert part.data.n_columns == part.span(22)[1]


def test_ahead__needs_every_chain():
    values = {
        "alone": [3.0, 4.0],
        "swap": [5.0, 6.0],
        "random": [3.0, 9.0],
        "augmented": [1.0, 2.0],
        "mosaic": [0.0, 0.0],
    }
    assert tumour.ahead(values, ["augmented"])
    assert not tumour.ahead(values | {"augmented": [1.0, 3.5]}, ["augmented"])
    assert not tumour.ahead(values, ["swap", "augmented"])


def test_errors__are_those_of_each_chain():
    hits = {EXACT: np.array([[True, False]]), "swap": np.array([[True, True], [True, False]])}
    share = cases.Share.of("17", "a", hits)
    assert share.exact == 0.5
    assert cases.errors([share, share], "swap") == [0.5, 0.0]


@pytest.fixture(scope="module")
def outcome():
    return cases.examine(cases.ambiguous_genome(3, 600), n_iterations=40, thin=2, n_exact=2_000, seed=1)


def test_shares__of_exact_draws_are_exact_probabilities(outcome):
    listed = cases.shares(outcome)
    assert {share.place for share in listed} == {"17", "21 and 22"}
    for share in listed:
        assert set(share.by_chain) == set(cases.SAMPLERS)
        assert share.probability("swap") == pytest.approx(np.mean(share.by_chain["swap"]))
        assert all(0 <= p <= 1 for chains in share.by_chain.values() for p in chains)
    # Row 2 in the middle of 22: summed over all configurations it is the marginal.
    case, column = outcome.case, sum(outcome.case.span(22)) // 2
    on = float((outcome.posteriors[EXACT].codes[..., column].values >> 2 & 1).mean())
    marginal = exact.marginals(case.model, case.data)[2, column]
    assert on == pytest.approx(marginal, abs=5 * np.sqrt(marginal * (1 - marginal) / 4_000))


def test_the_rivals_of_22_are_equally_probable_where_the_signal_cannot_tell_them_apart(outcome):
    codes = cases.late(outcome.posteriors[EXACT].codes[..., sum(outcome.case.span(22)) // 2]).values & 31
    truth, rival = np.mean(codes == 0b01100), np.mean(codes == 0b10010)
    assert truth > 0.005
    assert abs(truth - rival) < 5 * np.sqrt((truth + rival) / codes.size)


def test_exact_band__is_where_the_exact_draws_are(outcome):
    mean, low, high = outcome.band
    assert low < mean < high
    assert abs(np.mean(cases.from_exact(outcome)[EXACT])) < 2


def test_switches__counts_rows_that_change():
    codes = np.array([[[0b00, 0b11, 0b11, 0b01], [0b10, 0b10, 0b10, 0b10]]], np.uint8)
    assert cases.switches(codes) == [1.5]


def test_totals__are_taken_from_observed_bins(outcome):
    listed = cases.totals(outcome)
    assert {share.place.split(",")[0] for share in listed} == {"21", "22"}
    for place in {share.place for share in listed}:
        assert sum(s.exact for s in listed if s.place == place) == pytest.approx(1)


def write_profile(folder, sizes):
    """A file in the shape of the real profile; returns its path."""
    rng = np.random.default_rng(1)
    lines = ["chrom\tstart\tend\tn30kb\tratio_X17222\tratio_Y17204\tseg_X17222\tseg_Y17204"]
    for name, n in sizes.items():
        for i in range(n):
            level = 1.02 if i < n // 2 else 0.82
            value = "NA" if i % 11 == 0 else f"{0.9 * rng.normal(level, 0.07):.3f}"
            lines.append(f"{name}\t{300_000 * i}\t{300_000 * (i + 1)}\t10\t1\t{value}\t1\t0.9")
    folder.mkdir()
    path = folder / cases.DATA_FILE
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def profile(tmp_path, monkeypatch):
    path = write_profile(tmp_path / "data", {"18": 30, "20": 40, "21": 50, "22": 60, "X": 20})
    monkeypatch.setenv(cases.DATA_VARIABLE, str(path.parent))
    return path


def test_real_profile__is_scaled_clipped_and_cut_at_chromosomes(profile):
    assert cases.real_path() == profile
    case = cases.real_profile(profile, 20)
    assert case.data.n_columns == 150
    assert case.data.starts.tolist() == [0, 40, 90]
    assert case.span(22) == (90, 150)
    assert case.data.missing.sum() == 4 + 5 + 6
    assert np.nanmedian(case.data.y[:20]) == pytest.approx(102, abs=6)
    assert np.nanmax(case.data.y) <= cases.CLIP[1]


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_real_path__is_none_where_the_file_is_not(folder, monkeypatch, tmp_path):
    monkeypatch.setenv(cases.DATA_VARIABLE, folder and str(tmp_path / folder))
    assert cases.real_path() is None


@pytest.mark.slow
def test_run__with_a_profile_reports_it_too(tmp_path, profile, monkeypatch):
    monkeypatch.setattr(tumour, "QUICK", tumour.QUICK._replace(n_bins=400, n_iterations=30, n_alone=30))
    result = tumour.run(tmp_path / "tumour", quick=True, seed=2)
    check(result, tmp_path / "tumour")
    assert result.settings["real"] == cases.SAMPLE
    assert "real tumour Y17204" in result.findings[-1].claim
    assert len(result.figures) == 8
    assert "tumour-real-configurations" in {table.stem for table in result.tables}
