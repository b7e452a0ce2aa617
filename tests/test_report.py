"""What a run leaves behind: tables that agree with the draws, a summary, figures."""

import csv
import json

import numpy as np
import pytest

import chiasma as ch
from chiasma.files.report import CERTAIN, region_text, uncertain_regions, write_region, write_report
from chiasma.files.tables import Signal
from chiasma.kernels.layout import make_layout
from chiasma.models.observations import Observations
from chiasma.results.configurations import code_text

N_SITES = 24


@pytest.fixture(scope="module")
def fitted():
    """Two explanations, (1, 1, 0) and (0, 0, 1), of every block; the second sequence starts in the middle."""
    model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Gaussian([0.2, 0.3, 0.5], depth=20.0, sd=1.0))
    y = np.repeat([0.0, 10.0, 0.0, 10.0], 6)
    y[3] = np.nan
    data = Observations(y, starts=[12])
    signal = Signal(data=data, chromosome=("chr1",) * 12 + ("chr2",) * 12, position=np.tile(np.arange(12) * 100.0, 2))
    return ch.sample(model, data, draws=60, chains=2, seed=1, progress=False), signal


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_report__tables_agree_with_the_draws(tmp_path, fitted):
    posterior, signal = fitted
    report = write_report(posterior, signal, tmp_path, {"chiasma": "x"})
    states = table(tmp_path / "states.tsv")
    marginals = posterior.marginals().values
    assert list(states[0]) == ["site", "chromosome", "position", "value", "level", "state", "p_0", "p_1", "p_2"]
    assert [row["value"] for row in states[2:5]] == ["0", "NA", "0"]
    np.testing.assert_allclose([[float(row[f"p_{k}"]) for row in states] for k in range(3)], marginals, atol=1e-5)
    np.testing.assert_allclose([float(row["level"]) for row in states], [0.2, 0.3, 0.5] @ marginals, atol=1e-5)

    segments = table(tmp_path / "segments.tsv")
    assert sum(int(row["n_sites"]) for row in segments) == N_SITES == len(states)
    for row in segments:
        first, last = int(row["first_site"]), int(row["last_site"])
        assert {one["state"] for one in states[first : last + 1]} == {row["state"]}
        assert row["chromosome"] == signal.chromosome[first] == signal.chromosome[last]
        assert float(row["first_position"]) == signal.position[first]
        assert int(row["rows_on"]) == row["state"].count("1")
    assert report.n_segments == len(segments)


def test_report__explanations_are_shares_of_the_draws(tmp_path, fitted):
    posterior, signal = fitted
    report = write_report(posterior, signal, tmp_path, {})
    assert report.regions
    rows = table(tmp_path / "explanations.tsv")
    for row in rows:
        codes = posterior.codes.values[:, :, int(row["first_site"]) : int(row["last_site"]) + 1]
        code = sum(int(x) << k for k, x in enumerate(row["state"]))
        assert float(row["probability"]) == pytest.approx((codes == code).mean(), abs=1e-5)
    best = [row for row in rows if row["rank"] == "1"]
    assert len(best) == len(report.regions)
    assert all(float(row["probability"]) < CERTAIN for row in best)
    assert {"110", "001"} <= {row["state"] for row in rows}
    assert [region.doubt for region in report.regions] == sorted((one.doubt for one in report.regions), reverse=True)


def test_report__summary_is_json_and_figures_are_pictures(tmp_path, fitted):
    posterior, signal = fitted
    report = write_report(posterior, signal, tmp_path, {"chiasma": "x"})
    content = json.loads((tmp_path / "summary.json").read_text())
    assert content == report.content
    assert content["chiasma"] == "x"
    assert content["run"]["seed"] == 1
    assert content["segments"] == report.n_segments
    figures = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert figures == ["explanations.png", "level.png", "log-joint.png", "marginals.png", "row.png"]
    assert all((tmp_path / "figures" / name).read_bytes().startswith(b"\x89PNG") for name in figures)
    assert not list(tmp_path.rglob("*.partial"))


def test_report__without_labels_doubts_or_levels(tmp_path):
    log_lik = np.zeros((6, 4))
    log_lik[:, 1:] = -50.0
    model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Table(log_lik))
    data = Observations(np.zeros(6))
    posterior = ch.sample(
        model, data, update="row", ladder=[1, 5], draws=20, warmup=5, chains=2, seed=1, progress=False
    )
    report = write_report(posterior, Signal(data=data), tmp_path, {})
    assert list(table(tmp_path / "states.tsv")[0]) == ["site", "value", "state", "p_0", "p_1"]
    assert (tmp_path / "explanations.tsv").read_text() == ("first_site\tlast_site\tn_sites\trank\tstate\tprobability\n")
    assert report.regions == ()
    assert sorted(path.stem for path in (tmp_path / "figures").iterdir()) == ["ladder", "log-joint", "marginals"]


def test_region__writes_patterns_and_level(tmp_path, fitted):
    posterior, _ = fitted
    found, figures = write_region(posterior, 6, 12, tmp_path / "figures")
    assert 0 < sum(one.probability for one in found) <= 1
    assert [path.name for path in figures] == ["sites-6-11-patterns.png", "sites-6-11-level.png"]
    assert all(path.exists() for path in figures)


def test_place__can_be_typed_again(fitted):
    _, signal = fitted
    assert region_text(signal, 12, 15) == "chr2:0-200"
    assert region_text(Signal(data=signal.data, chromosome=signal.chromosome), 12, 15) == "chr2 (sites 12-14)"
    assert region_text(Signal(data=signal.data), 12, 15) == "12-14"


def test_uncertain_regions__none_without_doubt(fitted):
    posterior, _ = fitted
    assert uncertain_regions(posterior, []) == []
    assert code_text(5, make_layout([2, 2, 2])) == "101"
