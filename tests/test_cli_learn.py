"""Learning on the command line: --learn and [priors], parameters.tsv, pictures, and how a run goes on."""

import csv
import json

import numpy as np
import pytest
from typer.main import get_command

import chiasma as ch
from chiasma.cli import app
from chiasma.io.signal import Signal
from chiasma.report.report import write_report
from test_cli import FILES, refused, run
from test_learned import learned

pytestmark = pytest.mark.usefixtures("light_pictures")

MODEL = ["--weights", "0.4,0.6", "--depth", 10, "--sd", 1, "--enter", 0.1]
SAMPLER = ["--update", "row", "--exchange", "none", "--draws", 6, "--warmup", 4, "--chains", 2, "--seed", 1]
FIT = ["fit", "y.csv", *MODEL, *SAMPLER]
QUIETLY = ["--tables-only", "-q"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y.csv").write_text("".join(f"{y}\n" for y in (0, 1, 0, 9, 11, "NA", 10, 0, 2, 1)))
    return tmp_path


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_learn__writes_parameters_and_shows_them(here):
    result = run(*FIT, "--learn", "weights,sd", "--out", "run")
    assert result.exit_code == 0, result.output
    assert "Learned parameters" in result.stdout
    assert "weights[1]" in result.stdout
    assert "explanations.tsv, parameters.tsv, datapackage.json, summary.json and figures/ to run/" in (
        " ".join(result.stdout.split())
    )
    posterior = ch.open_posterior("run/run.zarr")
    assert list(posterior.parameters) == ["weights", "sd"]
    assert sorted(path.name for path in (here / "run").iterdir()) == sorted([*FILES, "parameters.tsv"])
    rows = {row["parameter"]: row for row in table(here / "run/parameters.tsv")}
    assert list(rows) == ["weights[0]", "weights[1]", "sd"]
    sd = posterior.parameters["sd"].values
    assert float(rows["sd"]["mean"]) == pytest.approx(sd.mean(), rel=1e-5)
    assert [float(rows["sd"][name]) for name in ("q05", "q95")] == pytest.approx(
        np.quantile(sd, [0.05, 0.95]), rel=1e-5
    )
    content = json.loads((here / "run/summary.json").read_text())
    assert [one["name"] for one in content["parameters"]] == list(rows)
    assert {"parameters.png", "pairs.png"} <= {path.name for path in (here / "run/figures").rglob("*.png")}
    states = table(here / "run/states.tsv")
    signal = 10 * posterior.levels().values.mean(axis=(0, 1))  # in the units of the data, by the depth
    np.testing.assert_allclose([float(row["level"]) for row in states], signal, atol=1e-4)
    shown = run("show", "run")
    assert shown.exit_code == 0
    assert "Learned parameters" in shown.stdout
    assert json.loads(run("show", "run", "--json").stdout) == content


def test_learn__settings_say_which_priors_and_repeat_the_run(here):
    assert run(*FIT, "--learn", "weights,depth", "--out", "run", *QUIETLY).exit_code == 0
    text = (here / "run/settings.toml").read_text()
    assert "[priors]\nweights = {dirichlet = [1.0, 1.0]}\ndepth = {normal = [10.0, 2.5]}\n" in text
    first = ch.open_posterior("run/run.zarr").parameters["depth"].values.copy()
    assert run("fit", "y.csv", "--model", "run/settings.toml", "--out", "again", *QUIETLY).exit_code == 0
    np.testing.assert_array_equal(ch.open_posterior("again/run.zarr").parameters["depth"].values, first)
    result = run("fit", "y.csv", "--out", "run", "--resume", "--draws", 9, "-q")
    assert result.exit_code == 0, result.output
    longer = ch.open_posterior("run/run.zarr").parameters["depth"].values
    assert longer.shape == (2, 9)
    np.testing.assert_array_equal(longer[:, :6], first)
    assert "model.parameters.depth is" in refused("fit", "y.csv", "--out", "run", "--resume", "--depth", 9)


def test_priors__of_a_file_need_no_numbers_and_options_win_over_them(here):
    (here / "m.toml").write_text(
        "[model]\ndepth = 10\nenter = 0.1\n\n[priors]\nweights = {dirichlet = [2, 2]}\nsd = {half_normal = 2}\n"
    )
    fit = ["fit", "y.csv", "--model", "m.toml", *SAMPLER, *QUIETLY]
    assert run(*fit, "--out", "a").exit_code == 0
    assert list(ch.open_posterior("a/run.zarr").parameters) == ["weights", "sd"]
    assert run(*fit, "--sd", 1, "--out", "b").exit_code == 0
    assert list(ch.open_posterior("b/run.zarr").parameters) == ["weights"]


def test_learn__refuses(here):
    assert "--learn takes parameters of the model, got 'sigma'" in refused(*FIT, "--learn", "sigma", "--out", "run")
    (here / "m.toml").write_text("[priors]\nsd = {half_normal = -2}\n")
    without_sd = ["fit", "y.csv", "--weights", "0.4,0.6", "--enter", 0.1, "--model", "m.toml"]
    assert "sd of HalfNormal must be positive, got -2" in refused(*without_sd, "--out", "run")
    (here / "m.toml").write_text("[priors]\ndf = {gamma = [2, 1]}\n")
    assert "the prior of df belongs to student-t" in refused(*FIT, "--model", "m.toml", "--out", "run")
    assert not (here / "run").exists()


def test_help__tells_the_default_priors():
    (option,) = [option for option in get_command(app).commands["fit"].params if option.name == "learn"]
    for text in (
        "weights: Dirichlet(1, ..., 1) where they add up to 1, otherwise Gamma(2, 2/m) for each, m their mean; ",
        "; depth (gaussian, student-t, integrated-depth): Normal(x, |x|/4); ",
        "; depth (poisson, negative-binomial): LogNormal(log x, 0.25); ",
        "; sd, df, depth-sd, background, dispersion: LogNormal(log x, 0.5); ",
        "; enter, leave: Beta(1, 1/x - 1); initial: Beta(2x, 2 - 2x).",
    ):
        assert text in option.help


def test_report__many_values_have_marginals_and_no_pairs(tmp_path):
    """A posterior of 12 values, of one chain: R-hat is not known."""
    model = ch.FactorialHMM(
        rows=ch.Switches(*(ch.Beta([1, 1, 1], 20) for _ in range(3))),
        emission=ch.Gaussian(ch.Normal([1, 2, 3], 1), sd=0.5),
    )
    posterior = learned(model, n_draws=20, n_chains=1)
    report = write_report(posterior, Signal(data=posterior.data), tmp_path, {})
    assert "parameters.tsv" in report.files
    rows = table(tmp_path / "parameters.tsv")
    assert len(rows) == 12
    assert {row["rhat"] for row in rows} == {"NA"}
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert "parameters.png" in names
    assert "pairs.png" not in names


def test_numbers__that_nobody_knows_are_estimated(tmp_path, monkeypatch):
    """Without --sd, --enter and --depth: the noise, the switching and the scale of the signal, and it says so."""
    monkeypatch.chdir(tmp_path)
    model = ch.FactorialHMM(rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([0.3, 0.7], depth=8.0, sd=0.5))
    y = model.simulate(150, seed=3)[1]
    (tmp_path / "y.csv").write_text("".join(f"{value}\n" for value in y))
    fit = ["fit", "y.csv", "--weights", "0.3,0.7", "--draws", 4, "--chains", 1, "--seed", 1, "--tables-only"]
    result = run(*fit, "--out", "run")
    assert result.exit_code == 0, result.output
    assert "estimated from the signal: --depth " in result.stderr
    assert " (and --leave)\n" in result.stderr
    found = ch.open_posterior("run/run.zarr").model
    assert found.emission.depth == pytest.approx(8.0, rel=0.1)
    assert found.emission.sd == pytest.approx(0.5, rel=0.25)
    assert found.rows.chains.enter == pytest.approx(0.05, rel=0.8)
    text = (tmp_path / "run/settings.toml").read_text()
    assert f"sd = {float(found.emission.sd)}" in text  # a run can be repeated without looking again
    learned = run(*fit, "--learn", "sd,depth", "--update", "collapsed:2", "--warmup", 4, "--out", "learned")
    assert learned.exit_code == 0, learned.output
    assert list(ch.open_posterior("learned/run.zarr").parameters) == ["depth", "sd"]


def test_priors__of_the_file_are_kept_by_learn_and_replaced_by_a_number(here):
    (here / "model.toml").write_text("[priors]\nsd = {half_normal = 1}\n")
    given = [*FIT, "--model", "model.toml", "--tables-only"]
    learned = run(*given, "--learn", "sd", "--out", "learned")
    assert learned.exit_code == 0, learned.output
    assert "half_normal = 1" in (here / "learned/settings.toml").read_text()
    assert "replaces the prior" not in learned.stderr
    fixed = run(*given, "--out", "fixed")
    assert fixed.exit_code == 0, fixed.output
    assert "--sd replaces the prior of sd, so it is not learned; add --learn sd to learn it" in fixed.stderr
    assert "half_normal" not in (here / "fixed/settings.toml").read_text()


def test_fit__remedies_of_counts_can_be_typed(here):
    """What the finding of a Poisson fit names is an option that this fit takes, and it helps."""

    def found(out):
        return json.loads((here / out / "summary.json").read_text())["findings"]

    emission = ch.NegativeBinomial([20.0, 40.0], dispersion=0.15, background=8.0)
    model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=emission)
    (here / "photons.csv").write_text("".join(f"{y:g}\n" for y in model.simulate(600, seed=3)[1]))
    counts = ["fit", "photons.csv", "--weights", "20,40", "--background", 8, "--enter", 0.02, "--seed", 1]
    counts += ["--draws", 40, "--warmup", 40, "--chains", 2, "--tables-only"]
    first = run(*counts, "--emission", "poisson", "--out", "first")
    assert first.exit_code == 0
    assert "--emission negative-binomial" in " ".join(first.stdout.split())
    assert "noise-underestimated" in {one["code"] for one in found("first")}
    options = ["--emission", "negative-binomial", "--learn", "dispersion"]
    result = run(*counts, *options, "--update", "exact", "--exchange", "none", "--out", "second")
    assert result.exit_code == 0, result.output
    assert "noise-underestimated" not in {one["code"] for one in found("second")}
