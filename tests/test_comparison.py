"""Evidence of several models side by side."""

from __future__ import annotations

import json

import numba
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import chiasma as ch
from chiasma.cli import app
from chiasma.results.ladder_stats import Evidence

JIT = not numba.config.DISABLE_JIT


def rows(n: int, sd: object = 0.5) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian([1.0] * n, sd=sd))


def test_compare__exact_models():
    """Probabilities by hand, with a prior."""
    _, y = rows(2).simulate(12, seed=1)
    models = [rows(1), rows(2)]
    found = ch.compare(models, y, prior=[3, 1])
    log = np.array([ch.exact.log_evidence(model, y) for model in models]) + np.log([0.75, 0.25])
    np.testing.assert_allclose(found.probabilities, np.exp(log) / np.exp(log).sum(), rtol=1e-12)
    assert found.names == ["1 row", "2 rows"]
    assert [one.standard_error for one in found.evidence] == [0.0, 0.0]
    np.testing.assert_array_equal(found.low, found.high)
    assert found.best == found.names[int(np.argmax(log))]
    assert not found.posteriors
    assert "trust" not in str(found)
    assert str(found).count("exact") == 4  # the errors and the intervals
    assert found.to_dict()["2 rows"]["log_evidence"] == pytest.approx(ch.exact.log_evidence(models[1], y))


def test_compare__samples_where_it_must():
    """A model with a prior, and one too large for the budget of the exact evidence (made so small here)."""
    _, y = rows(2).simulate(6, seed=1)
    options = {
        "draws": 40,
        "warmup": 20,
        "chains": 1,
        "seed": 1,
        "progress": False,
        "ladder": ch.Ladder.adapted(size=4),
    }
    found = ch.compare({"known": rows(2), "unknown": rows(2, ch.HalfNormal(1))}, y, **options)
    assert list(found.posteriors) == ["unknown"]
    assert found.evidence[0].standard_error == 0
    assert found.evidence[1] == found.posteriors["unknown"].log_evidence
    assert found.low[0] < found.probabilities[0] < found.high[0]
    text = Console(width=100)
    with text.capture() as captured:
        text.print(found)
    assert "known" in captured.get()
    assert "exact" in captured.get()
    # One chain of 40 draws has findings, and the table marks the model.
    unknown = found.posteriors["unknown"]
    assert found.findings == {"unknown": unknown.findings}
    assert "one-chain" in {one.code for one in unknown.findings}
    marks = {line.split("│")[1].strip(): line.split("│")[6].strip() for line in str(found).splitlines() if "│" in line}
    assert marks == {"known": "good", "unknown": unknown.trust}
    assert "attribute findings" in str(found)


def test_compare__shows_an_interval_that_rounds_to_nothing():
    found = ch.Comparison(
        names=["a", "b"],
        evidence=[Evidence(-900.0, 0.1), Evidence(-3.0, 0.1)],
        probabilities=np.array([0.0, 1.0]),
        low=np.array([0.0, 1.0]),
        high=np.array([0.0, 1.0]),
        posteriors={},
    )
    assert "0.000 to 0.000" in str(found)
    assert "1.000 to 1.000" in str(found)


def test_compare__names_equal_sizes_by_number():
    _, y = rows(1).simulate(5, seed=1)
    assert ch.compare([rows(1), rows(1, 0.7)], y).names == ["model 0", "model 1"]


def test_compare__says_nothing_where_an_error_is_unknown(monkeypatch):
    _, y = rows(1).simulate(5, seed=1)
    posterior = type("Posterior", (), {"log_evidence": Evidence(-3.0, float("nan"))})()
    monkeypatch.setattr("chiasma.sampling.comparison.sample", lambda *_, **__: posterior)
    found = ch.compare([rows(1), rows(2, ch.HalfNormal(1))], y)
    assert found.low.tolist() == [0, 0]
    assert found.high.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ([], {}, "at least one model"),
        ({"a": 3}, {}, "models must be FactorialHMMs, got int for 'a'"),
        ([rows(1), rows(2)], {"prior": [1.0]}, "prior must be 2 positive numbers"),
        ([rows(1), rows(2)], {"prior": [1.0, 0.0]}, "prior must be 2 positive numbers"),
        (
            {"a": rows(1, ch.HalfNormal(1))},
            {"ladder": [1, 2], "draws": 2, "warmup": 0, "chains": 1, "progress": False},
            "the run of 'a' gives no evidence.*ladder='auto'",
        ),
    ],
)
def test_compare__refuses(models, options, message):
    with pytest.raises(ch.InvalidInput, match=message):
        ch.compare(models, [0.1, 1.2, 0.8], **options)


def test_table__says_that_the_largest_model_wins():
    def rows(n):
        return ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0] * n, sd=0.2))

    _, y = rows(2).simulate(100, seed=1)
    told = "The largest model wins (2 rows): compare with more rows, too."
    assert told in str(ch.compare([rows(1), rows(2)], y))
    assert "largest" not in str(ch.compare([rows(1), rows(2), rows(3)], y))
    assert ch.compare({"a": rows(2), "b": rows(2)}, y).largest == ""
    assert ch.compare({"a": rows(2)}, y).largest == ""


CHANNELS = """
[model]
sd = {sd}
[[row]]
name = "channel"
values = [0, 1]
switch = {{enter = 0.2, leave = 0.2}}
"""


@pytest.fixture
def recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, y = rows(2).simulate(60, seed=1)
    (tmp_path / "y.csv").write_text("y\n" + "".join(f"{value:.4f}\n" for value in y))
    for sd in (0.5, 0.9):
        (tmp_path / f"{sd}.toml").write_text(CHANNELS.format(sd=sd))
    return np.loadtxt(tmp_path / "y.csv", skiprows=1)


def test_command__compares_numbers_of_copies(recording):
    done = CliRunner().invoke(app, ["compare", "y.csv", "--model", "0.5.toml", "--copies", "channel=1-3", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    expected = ch.compare([rows(n) for n in (1, 2, 3)], recording)
    values = [one["log_evidence"] for one in told["models"].values()]
    np.testing.assert_allclose(values, [one.value for one in expected.evidence])
    assert list(told["models"])[1] == told["best"] == "0.5.toml, 2 x channel"


def test_command__compares_settings(recording):
    done = CliRunner().invoke(app, ["compare", "y.csv", "--model", "0.5.toml", "--model", "0.9.toml"])
    assert done.exit_code == 0, done.output
    assert "0.9.toml" in done.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "0.5.toml"], "needs two models"),
        (["--model", "0.5.toml", "--model", "0.5.toml"], "given twice"),
        (["--model", "0.5.toml", "--copies", "lamp=1-2"], "no [[row]] named 'lamp'"),
        (["--model", "0.5.toml", "--copies", "channel=3-1"], "such as channel=1-4"),
    ],
)
def test_command__refuses(recording, options, told):
    done = CliRunner().invoke(app, ["compare", "y.csv", *options])
    assert done.exit_code == 2
    assert told in done.stderr
