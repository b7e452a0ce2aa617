"""Ion channels: recordings, kinetics, the answer, its files and its page."""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
from typer.testing import CliRunner

import chiasma as ch
from chiasma import atomic
from chiasma.channels.analysis import ChannelSearch, analyse, dwells_apart
from chiasma.channels.exports import summary, write_answer
from chiasma.channels.kinetics import (
    Dwells,
    Ensemble,
    Kinetics,
    Scheme,
    log_bins,
    stationary,
    transition_slopes,
    transitions,
)
from chiasma.channels.page import histograms, page, thinned, trace, write_page
from chiasma.channels.recordings import Recording, read_recording
from chiasma.channels.summary_text import number_in_words
from chiasma.cli import app
from chiasma.models.hum import find_mains
from chiasma.sampling.learning import Learning
from chiasma.sampling.progress import Progress
from test_browser import opened

DATA = Path(os.environ.get("CHIASMA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
STEP = 1e-3


def simulated(n: int = 2, columns: int = 2000, seed: int = 1, drift: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """(T,) current and how many channels are open."""
    channel = ch.Row([0, 1.0], ch.Switch(0.02, 0.04), copies=n)
    states, y = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.25)).simulate(columns, seed=seed)
    return y + drift * np.sin(np.linspace(0, 5, columns)), states.sum(axis=0)


@pytest.fixture(scope="module")
def answer():
    y, _ = simulated()
    recording = Recording(current=y, step=STEP, unit="pA", name="simulated")
    return analyse(recording, channels=(1, 3), progress=False)


# ---- Recordings -----------------------------------------------------------------------------------------------------


def test_read__table_with_a_column_of_time(tmp_path):
    times = np.arange(200) * 0.1
    pd.DataFrame({"Time (ms)": times, "I (pA)": np.sin(times), "open": 0}).to_csv(tmp_path / "a.csv", index=False)
    found = read_recording(tmp_path / "a.csv")
    assert found.step == pytest.approx(1e-4)
    assert found.unit == "pA"
    np.testing.assert_allclose(found.current, np.sin(times))


def test_read__table_without_a_header_or_compressed(tmp_path):
    lines = "".join(f"{t * 1e-4:.4f},{t % 7}\n" for t in range(1, 300))
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write(lines)
    found = read_recording(tmp_path / "a.csv.gz")
    assert found.step == pytest.approx(1e-4)
    assert found.current[:3].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "options", "remedy"),
    [
        ("a,b\n" + "1,2\n3,1\n2,5\n" * 5, {}, "--rate"),
        ("a,b\n" + "1,2\n3,1\n2,5\n" * 5, {"rate": -1.0}, "positive"),
        ("a,b\n" + "1,x\n3,y\n2,z\n" * 5, {"rate": 1.0, "column": "b"}, "--column"),
        ("a,b\n" + "1,2\n3,1\n2,5\n" * 5, {"rate": 1.0, "column": "c"}, "it has"),
    ],
)
def test_read__refuses(tmp_path, content, options, remedy):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(ch.InvalidInput, match=remedy):
        read_recording(tmp_path / "a.csv", **options)


@pytest.mark.parametrize(
    ("names", "times", "remedy"),
    [
        ("sample,current", np.arange(60), "without a unit"),
        ("time,current", 0.1 * np.arange(60), "without a unit"),
        ("time [s],current", 1e-4 * np.arange(60) ** 2, "not evenly spaced"),
    ],
)
def test_read__times_that_give_no_rate(tmp_path, names, times, remedy):
    y = np.random.default_rng(1).normal(size=60)
    np.savetxt(tmp_path / "a.csv", np.column_stack([times, y]), delimiter=",", header=names, comments="")
    with pytest.raises(ch.InvalidInput, match=remedy):
        read_recording(tmp_path / "a.csv")
    np.testing.assert_allclose(read_recording(tmp_path / "a.csv", rate=1e4).current, y)


def test_read__units_in_names_and_sweeps_in_times(tmp_path):
    times = np.concatenate([np.arange(40), 500 + np.arange(60), np.arange(50)]) * 0.1
    pd.DataFrame({"t_ms": times, "current_pA": np.sin(times)}).to_csv(tmp_path / "a.csv", index=False)
    found = read_recording(tmp_path / "a.csv")
    assert found.starts.tolist() == [0, 40, 100]
    assert (found.step, found.unit) == (pytest.approx(1e-4), "pA")


def test_read__a_table_in_which_all_is_missing(tmp_path):
    (tmp_path / "a.csv").write_text("time [s],I [pA]\n" + "".join(f"{i / 1e4},NA\n" for i in range(200)))
    found = read_recording(tmp_path / "a.csv")
    assert found.unit == "pA"
    assert np.isnan(found.current).all()


@pytest.mark.parametrize(
    ("values", "told"),
    [(["a", "b"], "numbers"), ([1j, 2j], "numbers"), ([0.0, np.inf], "infinite"), (np.zeros((2, 2, 2)), "shape")],
)
def test_read__refuses_other_arrays(tmp_path, values, told):
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(ch.InvalidInput, match=told):
        read_recording(tmp_path / "a.npy", rate=1e4)


def test_read__few_values_are_not_saturation(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(1).integers(0, 2, 3000))
    found = read_recording(tmp_path / "a.npy", rate=1e4)
    assert not np.isnan(found.current).any()
    with pytest.raises(ch.InvalidInput, match="idealised"):
        analyse(found, progress=False)


def test_read__arrays_need_a_rate(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(10.0) % 3)
    assert read_recording(tmp_path / "a.npy", rate=100).step == 0.01
    with pytest.raises(ch.InvalidInput, match="--rate"):
        read_recording(tmp_path / "a.npy")


def test_read__what_is_no_abf(tmp_path):
    (tmp_path / "a.abf").write_bytes(b"not an Axon file" * 100)
    with pytest.raises(ch.InvalidInput, match="not a readable ABF file"):
        read_recording(tmp_path / "a.abf")
    with pytest.raises(ch.InvalidInput, match="no such file"):
        read_recording(tmp_path / "b.abf")


def test_read__saturated_samples_are_missing(tmp_path):
    y = np.random.default_rng(1).normal(size=5000) + 2 * np.sin(np.arange(5000) / 200)
    np.save(tmp_path / "a.npy", np.minimum(y, 2.0))
    found = read_recording(tmp_path / "a.npy", rate=1000)
    assert np.array_equal(np.isnan(found.current), y >= 2.0)
    assert any("saturated" in note for note in found.notes)
    np.save(tmp_path / "b.npy", np.minimum(y, -2.0))
    with pytest.raises(ch.InvalidInput, match="saturated"):
        read_recording(tmp_path / "b.npy", rate=1000)


@pytest.mark.parametrize("sweeps", [1, 3])
def test_read__axon_files_gap_free_and_episodic(tmp_path, sweeps):
    writer = pytest.importorskip(
        "pyabf.abfWriter", reason="pyabf is not installed: pip install 'chiasma-fhmm[channels]'"
    )
    y = np.random.default_rng(1).normal(size=(sweeps, 4000))
    writer.writeABF1(y, str(tmp_path / "a.abf"), 10_000.0, units="pA")
    found = read_recording(tmp_path / "a.abf")
    np.testing.assert_allclose(found.current, y.ravel(), atol=1e-3)
    assert found.starts.tolist() == [4000 * i for i in range(sweeps)]
    assert (found.unit, found.step) == ("pA", pytest.approx(1e-4))
    with pytest.raises(ch.InvalidInput, match=r"channels 0\.\.0"):
        read_recording(tmp_path / "a.abf", channel=1)


def test_read__abf_is_the_table_of_the_same_recording():
    folder = DATA / "ion"
    if not folder.exists():
        pytest.skip(f"the recordings are not in {folder}")
    pytest.importorskip("pyabf", reason="pyabf is not installed: pip install 'chiasma-fhmm[channels]'")
    axon = read_recording(folder / "deepchannel_5ch_drift_985.abf")
    table = read_recording(folder / "deepchannel_5ch_drift_985.csv.gz")
    np.testing.assert_allclose(axon.current, table.current, atol=1e-3)
    assert axon.step == pytest.approx(table.step, rel=2e-3)


# ---- Kinetics -------------------------------------------------------------------------------------------------------


def test_ensemble__is_the_lumped_chain_of_all_channels():
    """The generator of counts and the one of n separate channels give the same distribution of counts."""
    rates = np.array([[-3.0, 2.0, 1.0], [4.0, -5.0, 1.0], [0.5, 0.5, -1.0]])
    conducts = np.array([False, False, True])
    two = Ensemble.of(rates, conducts, 2)
    joint = np.kron(rates, np.eye(3)) + np.kron(np.eye(3), rates)
    counts = [a + b for a in (0, 0, 1) for b in (0, 0, 1)]
    start = np.zeros(9)
    start[0] = 1.0
    there = np.bincount(counts, start @ scipy.linalg.expm(joint * 0.2))
    own = np.bincount(two.n_open, scipy.linalg.expm(two.generator * 0.2)[0])
    np.testing.assert_allclose(own, there, atol=1e-12)
    stationary = scipy.linalg.null_space(rates.T)[:, 0]
    assert two.open_probability == pytest.approx(float(stationary[2] / stationary.sum()))


def test_survivor__of_one_switch_is_exponential():
    one = Ensemble.of(np.array([[-20.0, 20.0], [50.0, -50.0]]), np.array([False, True]), 1)
    times = np.array([0.0, 0.01, 0.1])
    np.testing.assert_allclose(one.survivor(1, times), np.exp(-50 * times))
    np.testing.assert_allclose(one.survivor(0, times), np.exp(-20 * times))
    assert one.events_per_second == pytest.approx(2 * 20 * 50 / 70)


def test_dwells__do_not_join_sweeps():
    found = Dwells.of(np.array([0, 1, 1, 1, 0, 0]), np.zeros(6, int), np.array([0, 3]), 1.0)
    assert found.seconds.tolist() == [1, 2, 1, 2]
    assert not found.whole.any()


@pytest.mark.parametrize(
    ("text", "states", "n_moves"),
    [("C-O", ("C", "O"), 2), ("c-c-o", ("C1", "C2", "O"), 4), ("C1-C2-O, C1-O", ("C1", "C2", "O"), 6)],
)
def test_scheme__is_parsed(text, states, n_moves):
    scheme = Scheme.parse(text)
    assert scheme.states == states
    assert len(scheme.moves) == len(scheme.names) == n_moves
    rates = scheme.rates(np.arange(1.0, n_moves + 1))
    np.testing.assert_allclose(rates.sum(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("text", ["", "C", "C-C", "C-X", "O-O", "C1-C1-O", "C-C-C-C-C-C-O"])
def test_scheme__refuses(text):
    with pytest.raises(ch.InvalidInput, match=r"scheme|state"):
        Scheme.parse(text)


@pytest.mark.parametrize("text", ["C-O", "C-C-O", "C1-C2-O,C1-O", "C-S-O"])
def test_kinetics__slopes_are_differences(text):
    scheme = Scheme.parse(text)
    row = ch.Row(scheme.values, Kinetics(scheme), copies=2, weight=ch.HalfNormal(2.0).shared("unit"))
    model = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=ch.HalfNormal(1.0)))
    learning = Learning(model, ch.Observations(np.random.default_rng(1).normal(size=60), starts=[20]))
    free = learning.parameters.to_free(learning.parameters.centre) + 0.1 * np.arange(learning.parameters.n_free)
    slope = learning.value_and_slope(free, 1.0)[1]
    steps = 1e-5 * np.eye(len(free))
    found = [(learning.log_density(free + e, 1.0) - learning.log_density(free - e, 1.0)) / 2e-5 for e in steps]
    np.testing.assert_allclose(slope, found, rtol=1e-5, atol=1e-5)


def test_transitions__are_those_of_scipy():
    """Slow and fast rates, on their own and together."""
    rng = np.random.default_rng(1)
    for size in (2, 4):
        for scale in (1e-6, 0.1, 300.0):
            rates = rng.exponential(scale, (size, size)) * rng.choice([1e-3, 1.0], (size, size))
            np.fill_diagonal(rates, 0)
            np.fill_diagonal(rates, -rates.sum(axis=1))
            slope = rng.normal(size=(size, size))
            np.testing.assert_allclose(transitions(rates), scipy.linalg.expm(rates), rtol=1e-9)
            expected = scipy.linalg.expm_frechet(rates.T, slope, compute_expm=False)
            np.testing.assert_allclose(transition_slopes(rates, slope), expected, atol=1e-9 * np.abs(expected).max())
            np.testing.assert_allclose(stationary(rates) @ rates, 0, atol=1e-12 * scale)


def test_survivor__in_samples_is_that_of_the_sampled_chain():
    """By hand for one channel: a dwell goes on with the probability of staying."""
    rates = np.array([[-20.0, 20.0], [50.0, -50.0]])
    one = Ensemble.of(rates, np.array([False, True]), 1)
    stay = scipy.linalg.expm(rates * 0.01)[1, 1]
    np.testing.assert_allclose(one.survivor_in_samples(1, 4, 0.01), stay ** np.arange(5))


def test_dwells__tell_a_wrong_scheme():
    """False alarms: fewer than one in ten thousand by construction."""
    right = Scheme.parse("C-C-O")
    rates = np.array([0.01, 0.02, 0.3, 0.2])
    row = ch.Row([0, 0, 1.0], Kinetics(right, rates), name="channel", copies=2)
    model = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=0.2))
    _, y = model.simulate(4000, seed=1)
    data = ch.Observations(y)
    assert dwells_apart(model, data, Ensemble.of(right.rates(rates), right.conducts, 2), right, 1.0) is None
    wrong = Scheme.parse("C-O")
    other = ch.FactorialHMM(
        rows=[ch.Row([0, 1.0], Kinetics(wrong, np.array([0.08, 0.2])), name="channel", copies=2)],
        emission=ch.Gaussian(sd=0.2),
    )
    ensemble = Ensemble.of(wrong.rates(np.array([0.08, 0.2])), wrong.conducts, 2)
    assert dwells_apart(other, data, ensemble, wrong, 1.0) is not None


def test_bins__hold_every_dwell_and_at_least_one_length():
    edges = log_bins(1e-3, 2.5)
    assert edges[0] < 1e-3
    assert edges[-1] > 2.5
    np.testing.assert_allclose(edges / 1e-3 % 1, 0.5)  # between whole samples
    np.testing.assert_allclose(np.diff(np.log10(edges[-8:])), 1 / 8, rtol=0.01)


# ---- The answer -----------------------------------------------------------------------------------------------------


def test_analyse__finds_the_channels_under_a_drift(answer):
    _, truth = simulated()
    assert answer.n_channels == 2
    assert answer.probabilities[2] > 0.9
    accuracy = np.mean(answer.n_open == truth)
    assert accuracy > 0.97
    assert answer.promised_accuracy == pytest.approx(accuracy, abs=0.015)
    known = {one.name: one for one in answer.estimates}
    assert known["unit current"].low < 1.0 < known["unit current"].high
    opening = scipy.linalg.logm(np.array([[0.98, 0.02], [0.04, 0.96]]))[0, 1] / STEP
    assert known["opening rate"].low < opening < known["opening rate"].high
    assert answer.trust != "none"


def test_analyse__prior_of_the_number_is_one_over_n(answer):
    masses = {
        fit.n_channels: np.exp(fit.log_evidence - answer.best.log_evidence) / fit.n_channels for fit in answer.fits
    }
    for n, share in answer.probabilities.items():
        assert share == pytest.approx(masses[n] / sum(masses.values()))


def test_search__finds_weak_hum_in_what_the_channels_leave(answer):
    times = np.arange(len(answer.recording.current)) * STEP
    hum = 0.08 * np.sin(2 * np.pi * 50 * times)
    recording = replace(answer.recording, current=answer.recording.current + hum)
    none = find_mains(recording.data)
    assert none.frequency is None  # the channels hide it
    search = ChannelSearch(recording, answer.scheme, none, False, 1.0, None, 0, 1, Progress(False, "", 0))
    assert search.mains_beside(answer.best).frequency == 50.0
    quiet = replace(search, recording=answer.recording)
    assert quiet.mains_beside(answer.best) is none


def test_search__does_not_support_a_baseline_one_channel_too_low(answer):
    """All three are surely open at once, but they are never all closed, and dwell times contradict the scheme."""
    recording, scheme = answer.recording, answer.scheme
    search = ChannelSearch(recording, scheme, answer.mains, False, 1.0, None, 0, 1, Progress(False, "", 0))
    assert search.is_supported(answer.best)
    placed = answer.best.optimum.model
    curve = placed.offset.curve - answer.estimates[0].value
    row = ch.Row([0, 1.0], Kinetics(scheme, np.array([0.2, 0.01])), name="channel", copies=3)
    lower = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=0.25), offset=curve)
    values = answer.best.optimum.values | {"rates": np.array([0.2, 0.01])}
    optimum = replace(answer.best.optimum, model=lower, values=values)
    assert not search.is_supported(replace(answer.best, n_channels=3, optimum=optimum))


def test_answer__names_numbers_that_do_not_count(answer):
    more = replace(answer.fits[-1], n_channels=9, counts=False)
    found = replace(answer, fits=(*answer.fits, more))
    assert found.not_counted == (9,)
    assert found.n_channels == 2
    assert summary(found, 0)["channels"]["not_counted"] == [9]
    assert "9" in number_in_words(found)
    assert "does not count" in page(found)


def test_analyse__a_long_recording_by_excerpts(monkeypatch):
    """Numbers are judged on 500 samples, compared on 800, and the best is fitted to all."""
    monkeypatch.setattr("chiasma.channels.analysis.SCANNED", 500)
    monkeypatch.setattr("chiasma.channels.analysis.COMPARED", 800)
    y, truth = simulated(columns=1600)
    found = analyse(Recording(current=y, step=STEP), channels=(1, 3), progress=False)
    assert found.n_channels == 2
    assert len(found.n_open) == 1600
    assert np.mean(found.n_open == truth) > 0.95


def test_analyse__learns_the_noise_of_open_channels():
    channel = ch.Row([0, 1.0], ch.Switch(0.02, 0.04), spread=[0, 0.3])
    _, y = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.15)).simulate(1500, seed=1)
    found = analyse(Recording(current=-y, step=STEP), channels=(1, 1), open_noise=True, polarity="down", progress=False)
    known = {one.name: one for one in found.estimates}
    assert known["noise sd of O"].value == pytest.approx(0.3, rel=0.15)
    assert known["unit current"].value == pytest.approx(1.0, rel=0.1)
    assert found.level.min() < -0.8


def test_analyse__noise_alone_has_no_channels():
    y = np.random.default_rng(3).normal(size=500)
    found = analyse(Recording(current=y, step=STEP), channels=(0, 1), progress=False)
    assert found.n_channels == 0


@pytest.mark.parametrize(
    ("current", "told"),
    [(np.ones(200), "no channel activity"), (np.full(200, np.nan), "missing"), (np.arange(50.0), "at least")],
)
def test_analyse__refuses_what_has_no_activity(current, told):
    with pytest.raises(ch.InvalidInput, match=told):
        analyse(Recording(current=current, step=STEP), progress=False)


@pytest.mark.parametrize(
    "options", [{"channels": (3, 2)}, {"channels": (0, 0)}, {"polarity": "sideways"}, {"scheme": "C-Q"}]
)
def test_analyse__refuses(options):
    y, _ = simulated(columns=100)
    with pytest.raises(ch.InvalidInput):
        analyse(Recording(current=y, step=STEP), progress=False, **options)


# ---- Files and page -------------------------------------------------------------------------------------------------


def test_files__agree_with_the_answer(answer, tmp_path):
    atomic.partial_name(tmp_path / "dwells.tsv").write_text("half")  # a killed command left it
    write_answer(answer, tmp_path, seed=0)
    assert atomic.partials(tmp_path) == []
    table = pd.read_csv(tmp_path / "idealised.tsv", sep="\t")
    assert list(table.columns) == ["time", "open", "probability"]
    assert np.array_equal(table["open"], answer.n_open)
    dwells = pd.read_csv(tmp_path / "dwells.tsv", sep="\t")
    assert dwells["seconds"].sum() == pytest.approx(answer.recording.seconds)
    told = json.loads((tmp_path / "summary.json").read_text())
    assert told["channels"]["most_probable"] == 2
    assert told["estimates"]["unit_current"]["unit"] == "pA"
    assert told["trust"] == answer.trust


def test_page__holds_the_samples_and_the_dwells(answer):
    text = page(answer, "chiasma channels recording.csv")
    assert len(text) < 2_000_000
    assert "chiasma channels recording.csv" in text
    assert len(histograms(answer)) == 3
    content = trace(answer)
    codes = np.frombuffer(b64decode(content["y"]), "<u2")
    back = content["low"] + codes / 65_000 * (content["high"] - content["low"])
    np.testing.assert_allclose(back, answer.recording.current, atol=1e-3)


def test_thinned__keeps_the_extremes():
    y = np.random.default_rng(1).normal(size=3_000_000)
    y[1234567], y[7] = 50.0, -50.0
    places = thinned(y)
    assert len(places) <= 1_000_000
    assert {7, 1234567} <= set(places.tolist())


def test_command__answers_in_files_and_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y, _ = simulated(n=1, columns=600, drift=0.0)
    np.save("a.npy", y)
    options = ["--rate", "1000", "--channels", "1", "--tables-only", "--json"]
    done = CliRunner().invoke(app, ["channels", "a.npy", *options, "--out", "answer"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["channels"]["most_probable"] == 1
    assert sorted(path.name for path in Path("answer").iterdir()) == [
        *("dwells.tsv", "idealised.tsv", "rates.tsv", "summary.json")
    ]
    refused = CliRunner().invoke(app, ["channels", "a.npy", "--out", "other"])
    assert refused.exit_code == 2
    assert "--rate" in refused.stderr


def test_page__zooms_to_single_samples_and_reads_dwells(browser, answer, tmp_path):
    write_page(answer, tmp_path, "chiasma channels", {"seed": "1"})
    with opened(browser, tmp_path / "report.html") as page:
        shown = page.locator(".tools output").first
        for _ in range(12):
            page.get_by_role("button", name="Zoom in").click()
        page.wait_for_function("document.querySelector('.tools output').textContent.startsWith('10 samples')")
        box = page.locator("canvas.detail").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        first = float(shown.text_content().split(", ")[1].split(" ")[0])
        sample = int((first + 5 * STEP) / STEP + 1e-6)
        begin = answer.dwells.begin.searchsorted(sample * STEP + 1e-9) - 1
        read = page.locator(".reading").text_content()
        assert f"{answer.dwells.n_open[begin]} open for {answer.dwells.seconds[begin] * 1e3:.4g} ms" in read
