"""The command line: what it prints, and how it fails."""

import re

import pytest
from typer.testing import CliRunner

import chiasma as ch
from chiasma.cli import app, main
from chiasma.experiments.study import Comparison, Entry, compare_updates, simulation_study

pytestmark = pytest.mark.jit_off


def test_demo__prints_every_update_and_the_evidence():
    result = CliRunner().invoke(app, ["demo", "--sweeps", "5", "--seed", "3"])
    assert result.exit_code == 0, result.output
    for method in ("exact solution", "row Gibbs", "block Gibbs", "Hamming ball", "exact draws"):
        assert method in result.output
    study = simulation_study(seed=3)
    assert f"{ch.exact.log_evidence(study.model, study.data):.4f}" in result.output
    assert "Seed 3, 5 sweeps" in result.output
    assert "After 5 sweeps, still near" in result.output


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"chiasma {ch.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "-h"]])
def test_help__has_examples(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "chiasma demo --seed 7 --sweeps 20000" in result.output


def test_main__a_mistake_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["chiasma", "demo", "--sweeps", "0"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert shown.err == "error: the number of sweeps must be at least 1, got 0\n"
    assert shown.out == ""


@pytest.mark.parametrize("arguments", [["demo", "--seed", "-1"], ["demo", "--sweeps", "many"], ["dance"]])
def test_usage_errors__exit_with_2(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert re.search("Invalid value|No such command", result.output)


def test_study__has_the_paper_s_shape():
    model, states, data = simulation_study(seed=1)
    assert states.shape == (3, 195)
    assert data.n_columns == 195
    assert states.sum(axis=1).tolist() == [100, 100, 0]
    assert (abs(states[:, 1:] - states[:, :-1]).sum(axis=1) == [38, 38, 0]).all()
    assert model.emission.weights.tolist() == [0.21, 0.31, 0.48]


def test_compare_updates__same_seed_same_errors():
    study = simulation_study(seed=1)
    first, second = (compare_updates(study, 3, seed=4) for _ in range(2))
    assert [entry.error for entry in first.entries] == [entry.error for entry in second.entries]
    assert first.entries[0].error == 0


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ((0.4, 0.01), "still near the explanation they started from: a; free of it: b."),
        ((0.4, 0.3), "still near the explanation they started from: a, b."),
        ((0.1, 0.01), "free of it: a, b."),
    ],
)
def test_in_words__says_who_left_the_start(errors, words):
    updates = [Entry(name, error, 0.5, 1.0) for name, error in zip("ab", errors, strict=True)]
    entries = (Entry("exact solution", 0.0, 0.9, 1.0), Entry("the start itself", 0.4, 0.0, None), *updates)
    comparison = Comparison(n_sweeps=1_000, log_evidence=-1.0, entries=entries)
    assert comparison.in_words() == f"After 1,000 sweeps, {words}"
