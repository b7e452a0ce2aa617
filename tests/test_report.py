"""What a run leaves behind: tables that agree with the draws, their schema, a summary, figures, the page."""

import csv
import html
import json
import re
import shlex
import sys
from dataclasses import replace
from datetime import UTC, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bokeh.models import CustomJSTickFormatter

import chiasma as ch
from chiasma.io.regions import find_region
from chiasma.io.signal import Signal
from chiasma.models.observations import Observations
from chiasma.report import charts, report, report_page
from chiasma.report.answers import answers, apart_text, same_level_text
from chiasma.report.figures.sites import SiteRange
from chiasma.report.report import find, labels_of, place_text, region_text, write_figures, write_region, write_report
from chiasma.report.run_tables import explanation_columns, parameter_columns, segment_columns, state_columns
from chiasma.results.findings import Finding, Set, message
from chiasma.results.rivals import CERTAIN
from test_page import Reader

N_SITES = 24


@pytest.fixture(scope="module")
def fitted():
    """Two explanations, (1, 1, 0) and (0, 0, 1), of every block; the second sequence starts in the middle."""
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([0.2, 0.3, 0.5], depth=20.0, sd=1.0))
    y = np.repeat([0.0, 10.0, 0.0, 10.0], 6) + np.random.default_rng(5).normal(0, 1, 24).round(2)
    y[3] = np.nan
    data = Observations(y, starts=[12])
    position = np.tile(np.arange(12) * 100.0, 2)
    signal = Signal(data=data, chromosome=("chr1",) * 12 + ("chrX",) * 12, position=position, value="reads")
    return ch.sample(model, data, draws=60, chains=2, seed=1, progress=False), signal


@pytest.fixture(scope="module")
def states():
    """Rows of more than two states, and equal ones."""
    model = ch.FactorialHMM(
        rows=[
            ch.Row(name="washer", values=[0, 150, 2000], chain=ch.Sticky(renew=0.1)),
            ch.Row(name="lamp", values=[0, 100], chain=ch.Switch(enter=0.1, leave=0.1), copies=3),
        ],
        emission=ch.Gaussian(sd=20.0),
    )
    data = Observations(model.simulate(80, seed=3)[1])
    return ch.sample(model, data, draws=60, chains=2, seed=1, progress=False), Signal(data=data)


@pytest.fixture(scope="module")
def written(fitted, tmp_path_factory):
    """The directory of the first run, and its report."""
    folder = tmp_path_factory.mktemp("fitted")
    about = {"chiasma": "9.9", "settings": "depth = 20", "repeat": "chiasma fit DATA"}
    return folder, write_report(*fitted, folder, about)


@pytest.fixture(scope="module")
def written_states(states, tmp_path_factory):
    """The directory of the second."""
    folder = tmp_path_factory.mktemp("states")
    return folder, write_report(*states, folder, {})


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_report__tables_agree_with_the_draws(fitted, written):
    posterior, signal = fitted
    folder, report = written
    sites = table(folder / "states.tsv")
    marginals = posterior.marginals().values
    labels = ["site", "chromosome", "start", "end", "value", "level", "level_q05", "level_q95", "state"]
    assert list(sites[0]) == [*labels, "p_row_0", "p_row_1", "p_row_2"]
    assert [row["value"] for row in sites[2:5]] == [f"{signal.data.y[2]:g}", "NA", f"{signal.data.y[4]:g}"]
    np.testing.assert_allclose([[float(row[f"p_row_{k}"]) for row in sites] for k in range(3)], marginals, atol=1e-5)
    # The level is in the units of the data: depth times the sum of the weights.
    expected = 20 * np.array([0.2, 0.3, 0.5]) @ marginals
    np.testing.assert_allclose([float(row["level"]) for row in sites], expected, rtol=1e-5)

    segments = table(folder / "segments.tsv")
    assert sum(int(row["n_sites"]) for row in segments) == N_SITES == len(sites)
    y = signal.data.y
    for row in segments:
        first, last = int(row["first_site"]), int(row["last_site"])
        assert {one["state"] for one in sites[first : last + 1]} == {row["state"]}
        assert row["chromosome"] == signal.chromosome[first] == signal.chromosome[last]
        # The end is that of the last bin, not its start.
        assert (float(row["start"]), float(row["end"])) == (signal.position[first], signal.position[last] + 100)
        on = [f"row_{k}" for k, digit in enumerate(row["state"][1:]) if digit == "1"]
        assert row["rows_on"] == (";".join(on) or "none")
        here = y[first : last + 1]
        assert int(row["n_data"]) == (~np.isnan(here)).sum()
        assert float(row["data_mean"]) == pytest.approx(np.nanmean(here), abs=1e-5)
        weights = [w for w, digit in zip([0.2, 0.3, 0.5], row["state"][1:], strict=True) if digit == "1"]
        assert float(row["level"]) == pytest.approx(20 * sum(weights), rel=1e-5)
        if row["rival"] != "NA":
            codes = posterior.codes.values[:, :, first : last + 1][:, :, ~np.isnan(here)]
            code = sum(int(x) << k for k, x in enumerate(row["rival"][1:]))
            assert float(row["rival_probability"]) == pytest.approx((codes == code).mean(), abs=1e-5)
    assert report.n_segments == len(segments)


def test_report__ends_and_names_are_those_of_the_file(tmp_path, fitted):
    posterior, signal = fitted
    end = signal.position + 60
    end[5] = np.nan
    given = replace(signal, end=end, value="copy ratio")
    write_report(posterior, given, tmp_path, {}, tables_only=True)
    expected = end.copy()
    expected[5] = signal.position[6]
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "states.tsv", sep="\t")["end"], expected)
    labels = labels_of(given)
    np.testing.assert_array_equal(labels.end, expected)
    assert labels.value == "copy ratio"
    assert labels_of(Signal(data=signal.data)).value == "signal"
    assert region_text(given, 12, 15) == "chrX:0-259"


def test_report__states_stay_text_in_pandas(written, written_states):
    for folder, _ in (written, written_states):
        for name, column in (("states", "state"), ("segments", "state"), ("segments", "rival")):
            read = pd.read_csv(folder / f"{name}.tsv", sep="\t")[column].dropna()
            assert all(isinstance(value, str) and re.fullmatch(r"s\d+", value) for value in read)


def test_report__explanations_are_shares_of_the_draws(fitted, written):
    posterior, signal = fitted
    folder, report = written
    assert report.regions
    rows = table(folder / "explanations.tsv")
    seen = ~signal.data.missing
    for row in rows:
        here = np.arange(int(row["first_site"]), int(row["last_site"]) + 1)
        codes = posterior.codes.values[:, :, here[seen[here]]]
        code = sum(int(x) << k for k, x in enumerate(row["state"][1:]))
        assert float(row["probability"]) == pytest.approx((codes == code).mean(), abs=1e-5)
    best = [row for row in rows if row["rank"] == "1"]
    assert len(best) == len(report.regions)
    assert all(float(row["probability"]) < CERTAIN for row in best)
    assert {"s110", "s001"} <= {row["state"] for row in rows}
    assert {row["level"] for row in rows if row["state"] in ("s110", "s001")} == {"10"}
    doubts = [region.segment.doubt for region in report.regions]
    assert doubts == sorted(doubts, reverse=True)


def test_report__rows_of_several_states_and_equal_ones(states, written_states):
    posterior, _ = states
    folder, _ = written_states
    sites = pd.read_csv(folder / "states.tsv", sep="\t")
    expected = posterior.probabilities("washer").values
    np.testing.assert_allclose(sites[["p_washer=1", "p_washer=2"]].values.T, expected[1:], atol=1e-5)
    assert "p_lamp_2" in sites
    segments = pd.read_csv(folder / "segments.tsv", sep="\t")
    for _, row in segments.iterrows():
        lamps = row["state"][2:]
        assert lamps == "".join(sorted(lamps, reverse=True))
        assert row["arrangements"] == (1, 3, 3, 1)[lamps.count("1")]
        assert ("washer=" in row["rows_on"]) == (row["state"][1] != "0")


def test_report__the_schema_describes_every_column_and_the_document_too(written, written_states):
    document = (Path(__file__).parent.parent / "docs" / "how-to" / "tables.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in document.splitlines()]
    documented = {(cells[0].strip("`"), cells[1], cells[2]) for cells in lines if len(cells) == 3}
    kinds = {"integer": int, "number": float, "string": str}
    for folder, _ in (written, written_states):
        package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
        assert [one["path"] for one in package["resources"]] == ["states.tsv", "segments.tsv", "explanations.tsv"]
        for resource in package["resources"]:
            rows = table(folder / resource["path"])
            fields = resource["schema"]["fields"]
            assert [field["name"] for field in fields] == list(rows[0])
            for field in fields:
                for row in rows:
                    if row[field["name"]] not in resource["schema"]["missingValues"]:
                        kinds[field["type"]](row[field["name"]])
                generic = re.sub(r"^p_[\w-]+_on=\d$", "p_ROWS_on=N", field["name"])
                generic = re.sub(r"^p_\w+$", "p_ROW", re.sub(r"^p_\w+=\d$", "p_ROW=STATE", generic))
                assert (generic, field["type"], field["description"]) in documented


def test_report__the_schema_has_the_unit_of_time_stamps():
    dated = Signal(data=ch.Observations([1.0, 2.0]), position=np.array([0.0, 60.0]), zone="")
    for signal, unit in ((dated, " In seconds since 1970, UTC."), (replace(dated, zone=None), "")):
        columns = {column.name: column.text for column in explanation_columns(signal, [], False)}
        assert columns["start"] == f"Position of the first site.{unit}"
        assert columns["end"].endswith(f"position of the next site.{unit}")
        assert ("start_time" in columns, "end_time" in columns) == (bool(unit), bool(unit))
    document = (Path(__file__).parent.parent / "docs" / "how-to" / "tables.md").read_text(encoding="utf-8")
    for column in explanation_columns(dated, [], False):
        if column.name.endswith("_time"):
            assert document.count(f"| `{column.name}` | {column.kind} | {column.text} |") == 3


def test_report__summary_is_json_with_a_version_and_figures_are_pictures(written):
    folder, report = written
    content = json.loads((folder / "summary.json").read_text())
    assert content == report.content
    assert content["summary_version"] == 1
    assert content["chiasma"] == "9.9"
    assert "settings" not in content
    assert content["run"]["seed"] == 1
    assert content["misfit"]["n"] == N_SITES - 1
    assert content["segments"] == report.n_segments
    figures = sorted(path.name for path in (folder / "figures").iterdir())
    assert figures == ["explanations.png", "level.png", "marginals.png", "states.png"]
    assert all((folder / "figures" / name).read_bytes().startswith(b"\x89PNG") for name in figures)
    assert not list(folder.rglob("*.partial"))


def test_report__without_labels_doubts_or_levels(tmp_path):
    log_lik = np.zeros((6, 4))
    log_lik[:, 1:] = -50.0
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Table(log_lik))
    data = Observations(np.zeros(6))
    posterior = ch.sample(
        model, data, update="row", ladder=[1, 5], draws=20, warmup=5, chains=2, seed=1, progress=False
    )
    report = write_report(posterior, Signal(data=data), tmp_path, {})
    assert list(table(tmp_path / "states.tsv")[0]) == ["site", "value", "state", "p_row_0", "p_row_1"]
    assert (tmp_path / "explanations.tsv").read_text() == (
        "first_site\tlast_site\tn_sites\tn_data\trank\tstate\tprobability\tarrangements\n"
    )
    assert report.regions == ()
    figures = sorted(str(path.relative_to(tmp_path / "figures")) for path in (tmp_path / "figures").rglob("*.png"))
    assert figures == ["diagnostics/ladder.png", "diagnostics/log-joint.png", "marginals.png", "states.png"]
    page = Reader((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Every segment has one explanation." in page.text
    assert "There are no rivals, given these 2 rows." in page.text
    content = json.loads((tmp_path / "summary.json").read_text())
    assert "complete" not in content  # nobody said how many draws were wanted


def test_report__of_an_interrupted_run_says_so_first(tmp_path, fitted):
    resume = "continue with: chiasma fit y.csv --out run --resume"
    write_report(*fitted, tmp_path, {"draws_wanted": 1000, "resume": resume})
    page = Reader((tmp_path / "report.html").read_text(encoding="utf-8"))
    place = page.text.index(f"The run was interrupted: 60 of 1,000 draws per chain; {resume}.")
    assert place < page.text.index("found on 2 chromosomes")
    content = json.loads((tmp_path / "summary.json").read_text())
    assert content["complete"] is False
    assert "resume" not in content
    write_report(*fitted, tmp_path, {"draws_wanted": 60, "resume": resume}, tables_only=True)
    assert json.loads((tmp_path / "summary.json").read_text())["complete"] is True


def test_report__counts_segments_of_a_single_value():
    y = np.repeat([0.0, 10.0, 0.0], [8, 1, 8]) + np.random.default_rng(1).normal(0, 1, 17)
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([10.0], sd=1.0))
    posterior = ch.sample(model, y, draws=20, chains=2, seed=1, progress=False)
    found = find(posterior, Signal(data=Observations(y)))
    told = answers(found.summary, found.regions, found.doubtful, found.where, found.command, ["row_0"], "")
    texts = [one.text for one in told]
    assert any("1 of them has a single value (n_data in segments.tsv is 1)" in text for text in texts)
    assert "There are no rivals, given this one row." in texts
    assert (
        "It is conditional on this one row; to compare other numbers of rows, compare their evidence" in told[-1].text
    )


def test_region__writes_configurations_and_level(tmp_path, fitted):
    posterior, signal = fitted
    found, figures = write_region(posterior, signal, 6, 12, tmp_path / "figures")
    assert 0 < sum(one.probability for one in found) <= 1
    assert [path.name for path in figures] == ["sites-6-11-configurations.png", "sites-6-11-level.png"]
    assert all(path.exists() for path in figures)


def test_place__can_be_typed_again(fitted):
    _, signal = fitted
    assert region_text(signal, 12, 15) == "chrX:0-299"
    assert region_text(Signal(data=signal.data, chromosome=signal.chromosome), 12, 15) == "chrX (sites 12-14)"
    assert region_text(Signal(data=signal.data), 12, 15) == "12-14"


def test_place__in_words(fitted):
    _, signal = fitted
    assert place_text(labels_of(signal), signal, 12, 15) == "chromosome X, 0.0–0.0 Mb"
    plain = Signal(data=signal.data)
    assert place_text(labels_of(plain), plain, 12, 15) == "sites 12–14"
    timed = Signal(data=signal.data, position=signal.position)
    assert place_text(labels_of(timed), timed, 12, 15) == "positions 0–300"
    dated = Signal(data=signal.data, position=signal.position + 1767225600)
    assert place_text(labels_of(dated), dated, 12, 15) == "positions 1,767,225,600–1,767,225,900"
    stamped = replace(dated, zone="")  # as --region takes them
    assert place_text(labels_of(stamped), stamped, 12, 15) == "2026-01-01T00:00/00:03:20"


# The page; test_browser.py opens it


def test_answers__say_how_many_explanations_how_sure_and_what_next(fitted):
    found = find(*fitted)
    told = answers(
        found.summary, found.regions, found.doubtful, found.where, found.command, ["a", "b", "c"], " on 2 chromosomes"
    )
    text = " ".join(f"{one.answer} {one.text}" for one in told)
    worst = found.doubtful[0]
    assert f"{sum(one.segment.n_data > 0 for one in found.regions)} segments found on 2 chromosomes." in text
    assert f"The most doubtful place is {found.where(worst.segment.start, worst.segment.stop)}" in text
    assert f"{len(worst.serious)} explanations." in text
    best = worst.explanations[0]
    on = ", ".join(name for name, state in zip("abc", best.states, strict=True) if state)
    assert f"{best.name} ({on}) with {best.probability:.0%}" in text
    doubt = sum(one.segment.doubt for one in found.regions)
    assert f"mean probability of {1 - doubt / (N_SITES - 1):.1%}" in text
    assert "The draws are exact." in text
    assert "What to do next:" in text
    assert "report all of them" in text


EVEN = np.arange(24.0)
PLACES = {
    "chromosomes": ({"chromosome": ("chr1",) * 12 + ("chrX",) * 12, "position": np.tile(EVEN[:12] * 100, 2)}, "chr"),
    "chromosomes only": ({"chromosome": ("chr1",) * 12 + ("chrX",) * 12}, ""),
    "a column": ({"position": 40000 + 50 * EVEN, "axis": "time_ms"}, "time_ms:"),
    "a column of two words": ({"position": 0.1 * EVEN - 1, "axis": "time (s)"}, "'time (s):"),
    "a column with a colon": ({"position": EVEN, "axis": "time: s"}, ""),
    "ends of the file": ({"position": 10 * EVEN, "end": 10 * EVEN + 9, "axis": "bin"}, "bin:"),
    "time stamps": ({"position": 1767225600 + 60 * EVEN, "axis": "when", "zone": ""}, "2026-01-01T"),
    "positions that repeat": ({"position": np.tile(EVEN[:12], 2), "axis": "t"}, ""),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize("name", PLACES)
def test_page__has_regions_to_copy_that_are_the_segments(fitted, tmp_path, name):
    posterior, signal = fitted
    labels, begins = PLACES[name]
    given = Signal(data=signal.data, **labels)
    found = find(posterior, given)
    # Every segment is made doubtful, so that all of them are on the page.
    found = replace(found, doubtful=found.regions)
    report_page.write_page(found, tmp_path, found.summary.to_dict(), {})
    page = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    copied = re.findall(r"<code>chiasma show RUN --region (.*?)</code>", page)
    assert len(copied) == len(found.regions) > 3
    for text, region in zip(copied, found.regions, strict=True):
        (typed,) = shlex.split(text)
        assert find_region(given, typed) == (region.segment.start, region.segment.stop)
        assert text.startswith(begins) if begins else re.fullmatch(r"\d+-\d+", text)
    worst = page.partition("The most doubtful place is")[2].partition("chiasma show RUN --region ")[2]
    assert worst.startswith(copied[0])


def test_page__says_how_far_apart_signals_are_in_units_of_the_noise(fitted, written):
    posterior, signal = fitted
    regions = find(posterior, signal).doubtful
    assert regions[0].same_level
    assert apart_text(regions[0]) == "the same"
    # The noise is 1, as the model says: found by draws of its emission.
    assert regions[0].noise == pytest.approx(1.0, rel=0.1)
    best, second, *_ = regions[0].explanations
    other = replace(regions[0], explanations=(best, replace(second, level=best.level + 0.25)), noise=6.0)
    assert apart_text(other) == "0.042 sd apart"
    far = "at one site the first two are 0.042 sd apart in units of the noise"
    assert same_level_text(other) == f"They give the signals 10, 10.25; {far}."
    assert apart_text(replace(other, noise=0.001)) == "more than 99 sd apart"
    assert apart_text(replace(other, noise=None)) == ""
    assert same_level_text(replace(other, noise=None)) == "They give the signals 10, 10.25."
    page = (written[0] / "report.html").read_text(encoding="utf-8")
    assert "<td>the same</td>" in re.sub(r"<td [^>]*>", "<td>", page)
    assert "differ</td>" not in page


def test_answers__say_what_to_distrust(fitted):
    found = find(*fitted)

    def told(**changes):
        summary = replace(found.summary, **changes)
        verdicts = answers(summary, found.regions, found.doubtful, found.where, found.command, ["a", "b", "c"], "")
        return [one for one in verdicts if one.tone == "bad"], " ".join(f"{one.answer} {one.text}" for one in verdicts)

    bad, text = told(run={"independent": False})
    assert bad == []
    assert "The chains agree. Worst R-hat" in text
    wide = Finding("noise-underestimated", "none", {"spread": 2.0})
    bad, text = told(findings=(wide,))
    assert bad[0].answer == "Trust: none."
    assert bad[1].answer == message(wide)
    assert "The model fits" not in text
    apart = Finding("chains-disagree", "limited", {"names": ["x"], "rhat": 1.02, "limit": 1.01}, (Set("draws", 2000),))
    bad, text = told(run={"independent": False}, findings=(apart,))
    assert bad == []
    assert "The chains agree" not in text
    assert "Try draws=2000." in text


def test_answers__of_a_run_that_is_not_trusted_have_no_green_mark(fitted):
    found = find(*fitted)
    bad = replace(found.summary, findings=(Finding("wrong-data", "none", {"share": 0.5}),))
    told = answers(bad, found.regions, found.doubtful, found.where, found.command, ["a", "b", "c"], "")
    assert told[0].tone == "bad"
    assert "good" not in {one.tone for one in told}


def test_page__is_one_file_with_everything_in_it(written):
    folder, _ = written
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert len(html) < 2.5e6
    html = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)
    assert not re.search(r'<(?:link|iframe|img)[^>]*(?:src|href)="(?!data:)', html)
    for part in ("depth = 20", "chiasma fit DATA", "segments.tsv", "datapackage.json", "seed", "chiasma 9.9", "reads"):
        assert part in html


def test_page__a_million_sites_keep_their_peaks(monkeypatch, tmp_path, fitted):
    """Blocks in place of sites: the one value that stands out is still on the page, and the page stays small."""
    posterior, signal = fitted
    monkeypatch.setattr(report_page, "REGION_BLOCKS", 2)
    monkeypatch.setattr(report_page, "MOST_SITES", 20)
    monkeypatch.setattr(report_page, "MOST_BLOCKS", 6)
    seen = {}
    original = charts.signal_chart
    monkeypatch.setattr(report_page, "signal_chart", lambda sites: seen.setdefault("sites", sites) and original(sites))
    y = signal.data.y.copy()
    y[8], y[20] = 25.0, 5_000.0
    changed = Signal(data=Observations(y, starts=[12]), chromosome=signal.chromosome, position=signal.position)
    found = find(posterior, changed)
    report_page.write_page(found, tmp_path, found.summary.to_dict(), {})
    stretch = seen["sites"].stretch
    assert stretch.is_thinned
    assert len(stretch.first) <= 7
    assert {25.0, 5_000.0} <= set(stretch.highest(y))
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "each mark spans the lowest to the highest of up to 4 neighbours, however far you zoom in" in html
    assert re.search(r"To see single sites: chiasma show RUN --region 12-15\b", html)
    assert "beyond the axis" in html
    region = json.loads(re.search(r'id="regions">(.*?)</script>', html)[1])[0]
    assert len(region["x"]) == len(region["y"]) <= 6


def odd_runs():
    """Models and data at the edge of what there is to show."""
    gaussian = ch.Gaussian([1.0, 2.0], sd=0.5)
    channels = ch.Gaussian([[1.0, 0.0], [2.0, 1.0]], sd=0.5)
    own = ch.Custom(lambda y, level: -np.abs(y - level) - np.log(2), weights=[1.0, 2.0])
    many = ch.Row([[0, 0], [1, 2], [3, 1]], ch.Sticky(0.2)), ch.Row([[0, 0], [1, 0]], ch.Switch(0.1, 0.1), copies=2)
    apart = {"chromosome": ("1", "2", "X"), "position": np.array([0.0, 1e6, 5.0])}
    return {
        "one site": (gaussian, Signal(data=Observations([1.0]))),
        "nothing measured": (gaussian, Signal(data=Observations(np.full(6, np.nan)))),
        "chromosomes of one site": (gaussian, Signal(data=Observations([1.0, 2.0, 3.0], starts=[1, 2]), **apart)),
        "channels": (channels, Signal(data=Observations([[1.0, 0.0], [np.nan, 1.0], [3.0, 1.0]]))),
        "states with channels": (many, Signal(data=Observations([[1.0, 2.0], [0.0, 0.0], [3.0, 1.0]]))),
        "a density of one's own": (own, Signal(data=Observations([0.0, 1.0, 3.0]))),
        "times": (gaussian, Signal(data=Observations([0.0, 1.0, 3.0]), position=np.array([0.001, 0.002, 0.009]))),
    }


@pytest.mark.parametrize("name", odd_runs())
def test_page_and_tables__of_odd_runs(tmp_path, name):
    given, signal = odd_runs()[name]
    rows = {"rows": given, "emission": ch.Gaussian(sd=0.3)}
    binary = {"rows": ch.Switches(0.1, 0.1), "emission": given}
    model = ch.FactorialHMM(**rows if isinstance(given, tuple) else binary)
    posterior = ch.sample(model, signal.data, draws=20, chains=2, seed=1, progress=False)
    found = find(posterior, signal)
    report_page.write_page(found, tmp_path, found.summary.to_dict(), {})
    assert "What to do next" in Reader((tmp_path / "report.html").read_text(encoding="utf-8")).text
    columns = state_columns(posterior, signal, found.regions, found.band)
    assert {len(list(column.values)) for column in columns} == {signal.data.n_columns}
    columns = segment_columns(posterior, signal, found.regions)
    assert {len(list(column.values)) for column in columns} == {len(found.regions)}


def test_page__parameters_and_chains(tmp_path):
    model = ch.FactorialHMM(
        rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], depth=3.0, sd=ch.HalfNormal(2.0))
    )
    data = Observations(model.at({"sd": 0.5}).simulate(60, seed=1)[1])
    posterior = ch.sample(
        model, data, update="row", exchange="swap", ladder=[1, 3], draws=50, warmup=20, chains=2, seed=1, progress=False
    )
    found = find(posterior, Signal(data=data))
    report_page.write_page(found, tmp_path, found.summary.to_dict(), {})
    page = Reader((tmp_path / "report.html").read_text(encoding="utf-8"))
    for part in ("Learned parameters", "worst R-hat", "Exchange between replicas", "Trust: "):
        assert part in page.text
    assert list(parameter_columns(found.summary)[0].values) == ["sd"]


def test_tables_only__need_no_page(fitted, tmp_path, monkeypatch):
    """Neither the page nor what it imports, which would take longer than the tables."""
    monkeypatch.setitem(sys.modules, "chiasma.report.report_page", None)
    write_report(*fitted, tmp_path, {}, tables_only=True)
    assert (tmp_path / "states.tsv").exists()
    assert not (tmp_path / "report.html").exists()


def test_figures__row_has_the_axis_of_the_others(tmp_path, monkeypatch):
    model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian([1.0, 1.2], sd=1.0))
    data = Observations(model.simulate(30, seed=1)[1])
    posterior = ch.sample(model, data, update="row", draws=20, warmup=5, chains=2, seed=1, progress=False)
    drawn, plot_row = [], ch.plots.plot_row
    monkeypatch.setattr(ch.plots, "plot_row", lambda *given, **named: drawn.append(plot_row(*given, **named)))
    signal = Signal(data=data, position=1714550400 + 60 * np.arange(30.0), axis="time", zone="")
    write_figures(find(posterior, signal), tmp_path)
    (ax,) = drawn
    assert ax.get_xlabel() == "time"
    assert "08:10" in [text.get_text() for text in ax.get_xticklabels()]


def test_charts__time_stamps_are_dates_on_the_axis():
    labels = {"position": 1714550400 + np.arange(3.0), "axis": "time"}
    for zone, ahead in ((None, None), (UTC, 0.0), (timezone(timedelta(hours=2)), 7200.0)):
        known = ch.plots.Labels(**labels, zone=zone)
        stretch = SiteRange(None, 0, 3, known)
        sites = charts.Along(
            stretch=stretch, data=Observations([1.0, 2.0, 1.0]), band=None, rows=[("row_0", np.zeros((1, 3)))],
            places=["", "", ""], states=["s0"] * 3, shares=np.ones(3), value="watts",
        )  # fmt: skip
        _, below = charts.signal_chart(sites)
        assert below.xaxis[0].formatter.args["zone"] == ahead
        assert below.xaxis[0].ticker.args["zone"] == ahead
        region = charts.region_chart("region", known)
        assert isinstance(region.xaxis[0].formatter, CustomJSTickFormatter) == (zone is not None)
        exact = charts.region_points(stretch, np.zeros(3))["x"] == [1714550400.5, 1714550401.5, 1714550402.5]
        assert exact == (zone is not None)


def test_report__subtracts_an_offset_and_shows_it(tmp_path):
    """The data of the chart are those that the levels explain; the data with their offset are a click away."""
    offset = np.linspace(-2.0, 5.0, 30)
    model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian([1.0], sd=0.2), offset=offset)
    y = model.simulate(30, seed=1)[1]
    posterior = ch.sample(model, y, draws=20, chains=2, seed=1, progress=False)
    models = {}
    report_page._signal(find(posterior, Signal(data=Observations(y))), models)
    top = models["signal"]
    shown = {item.label.value: item.renderers[0] for item in top.legend[0].items}
    np.testing.assert_allclose(shown["data less offset"].data_source.data["y"], y - offset, atol=1e-4)
    np.testing.assert_allclose(shown["offset"].data_source.data["y"], offset, atol=1e-4)
    np.testing.assert_allclose(shown["data with the offset"].data_source.data["high"], y, atol=1e-4)
    assert shown["data less offset"].visible
    assert not shown["data with the offset"].visible
    assert top.legend[0].click_policy == "hide"
    assert top.y_range.start <= offset.min()
    (points, *_) = ch.plots.plot_level(posterior).lines
    np.testing.assert_allclose(points.get_ydata(), y - offset)


def test_report__says_what_the_states_of_rows_add(written, written_states, tmp_path):
    folder, _ = written
    assert "When it is on, a row adds: row_0 4, row_1 6, row_2 10." in (folder / "report.html").read_text()
    folder, _ = written_states
    page = (folder / "report.html").read_text()
    assert "a row adds: washer 150 (state 1) or 2000 (state 2), lamp_1 100, lamp_2 100, lamp_3 100." in page
    assert "are in one order in every draw" not in page


def test_report__of_rows_with_one_prior_says_that_they_are_in_order(tmp_path):
    """The levels of its states are those of the data: 0, 90, 250 and their sum, above a baseline."""
    chain = ch.Switch(0.1, 0.1)
    model = ch.FactorialHMM(
        rows=[
            *(ch.Row([0, 1], chain, f"unknown {i}", weight=ch.Gamma(2, 0.01)) for i in (1, 2)),
            ch.Row([10, 20, 30], fixed=1, name="standby"),
        ],
        emission=ch.Gaussian(sd=5.0),
    )
    _, y = model.at({"unknown 1.weight": 250, "unknown 2.weight": 90}).simulate(80, seed=3)
    data = Observations(y)
    posterior = ch.sample(model, data, update=ch.Collapsed(starts=6), draws=100, chains=2, seed=1, progress=False)
    write_report(posterior, Signal(data=data), tmp_path, {})
    page = (tmp_path / "report.html").read_text()
    assert "(unknown 1, unknown 2) are sorted in every draw by their learned weights" in page
    adds = re.search(r"a row adds: unknown 1 (\S+), unknown 2 (\S+), standby 20 \(held at 1\)\.", page)
    np.testing.assert_allclose([float(one) for one in adds.groups()], [90, 250], atol=4)
    levels = {float(row["level"]) for row in table(tmp_path / "segments.tsv")}
    assert all(min(abs(level - truth) for truth in (20, 110, 270, 360)) < 5 for level in levels)


@pytest.mark.parametrize("copies", [2, 3])
def test_answers__equal_rows_that_are_never_all_on(copies):
    """Two lamps, and a model of two or of three."""

    def model(n, **known):
        lamp = ch.Row([0, 1], ch.Switch(known.get("enter", ch.Beta(1, 20)), 0.1), copies=n, weight=1.0)
        return ch.FactorialHMM(rows=[lamp], emission=ch.Gaussian(sd=0.1))

    y = model(2, enter=0.1).simulate(200, seed=1)[1]
    signal = Signal(data=ch.Observations(y))
    options = {"draws": 50, "warmup": 50, "update": ch.Collapsed(starts=4), "seed": 1, "progress": False}
    found = find(ch.sample(model(copies), y, **options), signal)
    rows = [f"lamp {i}" for i in range(copies)]
    told = answers(found.summary, found.regions, found.doubtful, found.where, found.command, rows, "")
    assert told[0].answer.startswith("Trust: ")
    by_code = {one.code: one for one in found.summary.findings}
    assert ("rows-never-all-on" in by_code) == (copies == 3)
    assert "rows-unknown" not in by_code
    if copies == 3:
        assert by_code["rows-never-all-on"].facts == {"names": ["row_0 to row_2"], "n": 3, "most": 2}
    assert report._most_doubtful_row(found.posterior, found.regions[0]) is None  # a figure of one of them says nothing
