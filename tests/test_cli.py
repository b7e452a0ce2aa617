"""The command line: what it prints and writes, and how it fails."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import chiasma as ch
from chiasma.cli import app, main
from chiasma.cli.examples import EXAMPLES
from chiasma.cli.printing import Voice
from chiasma.datasets.genome import agreement, tumour_genome
from chiasma.io.regions import find_region
from chiasma.io.signal import Signal
from chiasma.results.configurations import Configuration
from conftest import lighten_pictures

pytestmark = pytest.mark.usefixtures("light_pictures")

SMALL = ["--draws", "20", "--warmup", "10", "--chains", "2"]
FILES = ["data.npz", "datapackage.json", "explanations.tsv", "figures", "report.html", "run.zarr", "segments.tsv"]
FILES += ["settings.toml", "states.tsv", "summary.json"]
QUIETLY = ["--tables-only", "-q"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def refused(*arguments):
    """The one line that a user's mistake gives."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("error: ")
    assert all(re.match(r"seed \d+$|\S+: [\d,]+ sites", line) for line in lines[:-1])
    return lines[-1]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A genome of 60 sites with its settings, and a fit of it: made once, copied for each test."""
    folder = tmp_path_factory.mktemp("made")
    data, settings, out = folder / "genome.tsv", folder / "genome.toml", folder / "run"
    assert run("simulate", data, "--seed", 1, "--sites", 60, "--quiet").exit_code == 0
    with pytest.MonkeyPatch.context() as patch:
        lighten_pictures(patch)
        result = run("fit", data, "--model", settings, "--out", out, "--seed", 3, *SMALL, "--quiet")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def genome(here, made):
    """The genome and its settings in the working directory."""
    for name in ("genome.tsv", "genome.toml"):
        shutil.copy(made / name, here)
    return here


@pytest.fixture
def fitted(genome, made):
    """The fit beside them."""
    shutil.copytree(made / "run", genome / "run")
    return genome


def test_simulate__writes_data_truth_and_settings(here):
    result = run("simulate", "genome.tsv", "--seed", 1, "--sites", 60)
    assert result.exit_code == 0
    assert result.stderr.startswith("seed 1\n")
    assert "chiasma fit genome.tsv --model genome.toml --out RUN" in result.stderr
    states = np.loadtxt(here / "genome.truth.tsv", skiprows=1, delimiter="\t")[:, 2:]
    model, truth, data = tumour_genome(1, 60)
    np.testing.assert_array_equal(states.T, truth)
    assert len((here / "genome.tsv").read_text().splitlines()) == 61
    assert data.data.n_columns == 60
    assert model.fixed == {5: 1}


def test_simulate__refuses(genome):
    assert refused("simulate", "genome.tsv") == "error: genome.tsv exists already; choose another name or remove it"
    assert "the number of bins must be a whole number in 22" in refused("simulate", "a.tsv", "--tumour", "--sites", 9)
    assert "purity must be above 0" in refused("simulate", "a.tsv", "--tumour", "--purity", 1.5)
    assert "clones must be 1 or 2, got 3" in refused("simulate", "a.tsv", "--tumour", "--clones", 3)
    assert "the number of sites must be a whole number in 22" in refused("simulate", "a.tsv", "--sites", 9)
    assert "tables are written as .tsv or .csv, got the suffix '.dat'" in refused("simulate", "a.dat")
    assert "cannot be written" in refused("simulate", "nowhere/a.tsv", "--sites", 60)


def test_fit__writes_everything_and_says_so(genome):
    result = run("fit", "genome.tsv", "--model", "genome.toml", "--out", "run", *SMALL)
    assert result.exit_code == 0, result.output
    seed = re.match(r"seed (\d+)\n", result.stderr)[1]
    assert "genome.tsv: 60 sites, 22 chromosomes, distances in steps of 264,000" in result.stderr
    assert seed in result.stdout
    assert "2 chains x 20 draws x 60 sites" in result.stdout
    assert "log evidence" in result.stdout
    wrote = "Wrote report.html, states.tsv, segments.tsv, explanations.tsv, datapackage.json, summary.json and figures/"
    assert f"{wrote} to run/" in result.stdout
    assert "open run/report.html in a browser" in result.stdout
    assert sorted(path.name for path in (genome / "run").iterdir()) == FILES
    assert f"seed = {seed}" in (genome / "run/settings.toml").read_text()


def test_fit__tables_only_leaves_out_the_page_and_the_figures(genome):
    options = ("--model", "genome.toml", "--out", "run", *SMALL)
    result = run("fit", "genome.tsv", *options, "--tables-only")
    assert result.exit_code == 0, result.output
    written = sorted(path.name for path in (genome / "run").iterdir())
    assert written == [name for name in FILES if name not in ("report.html", "figures")]
    wrote = "Wrote states.tsv, segments.tsv, explanations.tsv, datapackage.json and summary.json to run/"
    assert wrote in result.stdout
    assert "For report.html and figures: chiasma show run\n" in result.stdout
    assert "in a browser" not in result.stdout
    tables = {name: (genome / "run" / name).read_bytes() for name in written if name.endswith(("tsv", "json"))}
    assert run("show", "run", "-q").exit_code == 0
    assert sorted(path.name for path in (genome / "run").iterdir()) == FILES
    assert {name: (genome / "run" / name).read_bytes() for name in tables} == tables


def test_fit__resume_remembers_tables_only(genome):
    first = run("fit", "genome.tsv", "--model", "genome.toml", "--out", "run", "--tables-only", *SMALL)
    assert first.exit_code == 0, first.output
    result = run("fit", "genome.tsv", "--out", "run", "--resume", "--draws", 25)
    assert result.exit_code == 0, result.output
    assert not (genome / "run/report.html").exists()
    assert not (genome / "run/figures").exists()
    assert "For report.html and figures: chiasma show run\n" in result.stdout
    assert json.loads((genome / "run/summary.json").read_text())["run"]["draws"] == 25
    text = (genome / "run/settings.toml").read_text()
    (genome / "run/settings.toml").write_text(text.replace("tables_only = true", "tables_only = 1"))
    line = refused("fit", "genome.tsv", "--out", "run", "--resume")
    assert "settings.toml: tables_only of [output] must be true or false, got 1" in line


def test_fit__tables_only_says_that_an_earlier_page_stays(fitted):
    page = (fitted / "run/report.html").read_bytes()
    result = run("fit", "genome.tsv", "--out", "run", "--resume", "--draws", 25, "--tables-only")
    assert result.exit_code == 0, result.output
    assert "report.html and figures/ come from an earlier report and may show fewer draws" in result.stderr
    assert (fitted / "run/report.html").read_bytes() == page
    assert json.loads((fitted / "run/summary.json").read_text())["run"]["draws"] == 25


def test_show__tables_only(fitted):
    shutil.rmtree(fitted / "run/figures")
    (fitted / "run/report.html").unlink()
    (fitted / "run/segments.tsv").unlink()
    assert run("show", "run", "--tables-only", "-q").exit_code == 0
    assert (fitted / "run/segments.tsv").exists()
    result = run("show", "run", "--region", "chr2", "--tables-only")
    assert "most probable configurations" in result.stdout
    assert "Wrote" not in result.stdout
    assert sorted(path.name for path in (fitted / "run").iterdir()) == [
        name for name in FILES if name not in ("report.html", "figures")
    ]
    assert refused("show", "run", "--tables-only", "--open") == (
        "error: --open shows report.html, which --tables-only does not write; drop one of the two"
    )


def test_tables_only__is_one_option_of_four_commands():
    texts = {name: run(name, "--help").stdout for name in ("fit", "show", "cohort", "tumour")}
    for name, text in texts.items():
        assert "--tables-only" in text, name


def test_fit__is_the_call_of_the_package(fitted):
    model, _, signal = tumour_genome(1, 60)
    wanted = ch.sample(model, signal.data, draws=20, chains=2, seed=3, progress=False)
    got = ch.open_posterior("run/run.zarr")
    np.testing.assert_array_equal(got.codes.values, wanted.codes.values)
    promised, found = agreement(got, tumour_genome(1, 60).states)
    assert 0.5 <= promised <= 1
    assert 0.5 < found <= 1


def test_fit__options_say_the_same_as_a_file(fitted):
    options = (
        "--value value --chromosome chromosome --position position --gap-unit 264000 --emission gaussian "
        "--weights 0.075,0.125,0.15,0.175,0.2,0.275 --depth 180 --sd 12 --enter 0.001 --leave 0.002 --fixed-row 5=1"
    )
    options = [*options.split(), "--seed", 3, *SMALL, "--json", "--tables-only"]
    result = run("fit", "genome.tsv", *options, "--out", "other")
    assert result.exit_code == 0, result.output
    first, second = (ch.open_posterior(f"{name}/run.zarr").codes.values for name in ("run", "other"))
    np.testing.assert_array_equal(first, second)
    content = json.loads(result.stdout)
    assert content == json.loads((fitted / "other/summary.json").read_text())
    assert content["run"]["seed"] == 3


@pytest.mark.parametrize(
    "options",
    [
        "--emission student-t --df 3 --sd 1 --depth 10",
        "--emission integrated-depth --depth 10 --depth-sd 1 --sd 1",
        "--emission poisson --depth 10 --background 1",
        "--emission negative-binomial --depth 10 --dispersion 0.1",
        "--sd 1 --depth 10 --update hamming-ball:1 --exchange augmented --ladder 1,5 --exchange-every 2 --thin 2",
        "--sd 1 --depth 10 --update row --exchange none --initial 0.5 --workers 1",
        "--sd 1 --depth 10 --update block:2 --ladder auto --exchange mosaic",
    ],
)
def test_fit__every_emission_and_every_sampler_option(here, options):
    (here / "y.csv").write_text("".join(f"{y}\n" for y in (0, 1, 0, 9, 11, "NA", 10, 0, 2, 1)))
    result = run("fit", "y.csv", "--weights", "0.4,0.6", "--enter", "0.1", *options.split(), *SMALL, *QUIETLY)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"seed \d+\n", result.stderr)
    assert result.stdout == ""


def test_fit__an_array_file(here):
    np.save("y.npy", np.repeat([0.0, 10.0, 0.0], 4))
    result = run("fit", "y.npy", "--weights", "1", "--depth", 10, "--sd", 1, "--enter", "0.1", *SMALL, *QUIETLY)
    assert result.exit_code == 0, result.output
    assert (here / "chiasma-run/summary.json").exists()


def test_fit__repeats_hints_after_the_summary(here):
    lines = [f"2024-05-01 08:{t:02},{10 * (t > 5)},2024-05-02 08:{t:02}\n" for t in range(12)]
    (here / "y.csv").write_text("".join(["taken,watts,sent\n", *lines]))
    result = run("fit", "y.csv", "--weights", 10, "--sd", 1, "--enter", "0.1", *SMALL, "--tables-only")
    assert result.exit_code == 0, result.output
    hint = "'taken' and 'sent' look like time stamps: use --position taken or --position sent"
    assert f"  {hint}\n" in result.stderr
    assert f"hint: {hint}" in " ".join(result.stdout.split())


def test_fit__resume_extends_and_keeps_the_settings(fitted):
    before = ch.open_posterior("run/run.zarr").codes.values.copy()
    result = run("fit", "genome.tsv", "--out", "run", "--resume", "--draws", 30, "--tables-only")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("seed 3\n")
    after = ch.open_posterior("run/run.zarr").codes.values
    assert after.shape[1] == 30
    np.testing.assert_array_equal(after[:, :20], before)
    assert json.loads((fitted / "run/summary.json").read_text())["run"]["draws"] == 30
    assert "draws = 30" in (fitted / "run/settings.toml").read_text()


def test_fit__refuses_what_would_spoil_a_run(fitted):
    before = sorted((path, path.stat().st_mtime_ns) for path in (fitted / "run").rglob("*"))
    assert "run exists already; choose another --out, add --resume" in refused(
        "fit", "genome.tsv", "--model", "genome.toml", "--out", "run"
    )
    line = refused("fit", "genome.tsv", "--out", "run", "--resume", "--sd", 9)
    assert "sd is 12.0 in the store, got 9.0" in line
    line = refused("fit", "genome.tsv", "--out", "run", "--resume", "--draws", 5)
    assert "got draws=5; ask for at least as many" in line
    values = (fitted / "genome.tsv").read_text().splitlines()
    (fitted / "another.tsv").write_text("\n".join(values[:30]))
    line = refused("fit", "another.tsv", "--out", "run", "--resume")
    assert re.match(r"error: another.tsv holds other data than the run in run, which was made from .*genome.tsv;", line)
    assert line.endswith("; resume with the data file of the run, or choose another --out for another.tsv")
    line = refused("fit", "genome.tsv", "--out", "run", "--resume", "--gap-unit", 5)
    assert "genome.tsv holds the values of the run in run, but its positions or chromosomes are others; name" in line
    (fitted / "another.tsv").unlink()
    assert "there is no run in other to resume; drop --resume" in refused(
        "fit", "genome.tsv", "--out", "other", "--resume"
    )
    (fitted / "mine").mkdir()
    (fitted / "mine/thesis.txt").write_text("precious")
    assert refused("fit", "genome.tsv", "--out", "mine") == "error: mine exists already; choose another --out"
    assert before == sorted((path, path.stat().st_mtime_ns) for path in (fitted / "run").rglob("*"))


def test_fit__a_mistake_leaves_nothing_behind(genome):
    fit = ["fit", "genome.tsv", "--model", "genome.toml", "--out", "run"]
    assert "radius must be in 1..5" in refused(*fit, "--update", "hamming-ball:9")
    assert "draws must be a whole number of at least 1" in refused(*fit, "--draws", 0)
    assert "--df belongs to student-t" in refused(*fit, "--df", 3)
    line = refused("fit", "genome.tsv", "--weights", "100,200,60", "--fixed-row", "3=1", "--out", "run")
    assert line.startswith(
        "error: --fixed-row 3=1: there is no row 3; rows count from 0, and --weights gives rows 0..2."
    )
    assert line.endswith("A baseline needs an extra weight W: --weights 100,200,60,W --fixed-row 3=1")
    assert "has no column 'depth' for the value" in refused(*fit, "--value", "depth")
    assert "needs --weights; give" in refused("fit", "genome.tsv", "--out", "run")
    assert "none.toml: there is no such file" in refused("fit", "genome.tsv", "--model", "none.toml", "--out", "run")
    assert "none.tsv: there is no such file" in refused("fit", "none.tsv", "--model", "genome.toml", "--out", "run")
    assert not (genome / "run").exists()


def test_fit__a_malformed_file_names_its_line(genome):
    lines = (genome / "genome.tsv").read_text().splitlines()
    (genome / "bad.tsv").write_text("\n".join([*lines[:5], lines[5].rpartition("\t")[0] + "\tabout 70", *lines[6:]]))
    line = refused("fit", "bad.tsv", "--model", "genome.toml")
    assert line == "error: bad.tsv, line 6: column 'value' must hold numbers, got 'about 70'; correct it or write NA"
    assert not (genome / "chiasma-run").exists()


def test_fit__an_unwritable_place_is_one_line(genome):
    (genome / "file").write_text("")
    assert "cannot write to file/run: Not a directory" in refused(
        "fit", "genome.tsv", "--model", "genome.toml", "--out", "file/run"
    )


@pytest.mark.slow
def test_fit__ctrl_c_says_what_was_kept(genome, monkeypatch):
    from chiasma.sampling.sampler import sample

    @wraps(sample)
    def interrupted(*_, **options):
        # As after Ctrl-C: fewer draws than were asked for, or none and the interrupt itself.
        if options["draws"] == 20:
            raise KeyboardInterrupt
        return sample(*_, **options | {"draws": 5})

    monkeypatch.setattr("chiasma.report.fitting.sample", interrupted)
    fit = ["fit", "genome.tsv", "--model", "genome.toml", "--chains", "2", "--tables-only"]
    result = run(*fit, "--draws", 20, "--out", "none")
    assert result.exit_code == 130
    resume = "continue with: chiasma fit genome.tsv --out none --resume"
    assert result.stderr.endswith(f"interrupted: there are no draws yet; {resume}\n")
    result = run(*fit, "--draws", 10, "--out", "some")
    assert result.exit_code == 130
    assert "interrupted: 5 of 10 draws per chain are kept; look at them with: chiasma show some; " in result.stderr
    monkeypatch.setattr("chiasma.report.fitting.sample", sample)
    result = run("show", "some", "--tables-only")
    assert result.exit_code == 0, result.output
    assert (
        "interrupted: 5 of 10 draws per chain; continue with: chiasma fit genome.tsv --out some --resume"
        in result.stderr
    )
    content = json.loads((genome / "some/summary.json").read_text())
    assert (content["complete"], content["draws_wanted"], content["run"]["draws"]) == (False, 10, 5)
    result = run("show", "some", "--check")
    checked = result.stdout
    assert result.exit_code == 0
    assert "some/run.zarr is sound: " in checked
    assert "5 of 10 draws per chain are stored: not complete, continue with: chiasma fit genome.tsv" in checked
    for command in (["show", "none"], ["show", "none", "--check"]):
        assert "the run in none has no draws yet: the first are stored after warm-up." in (line := refused(*command))
        assert line.endswith("If it was stopped, continue with: chiasma fit genome.tsv --out none --resume")
    for name, draws in {"some": 10, "none": 20}.items():
        result = run("fit", "genome.tsv", "--out", name, "--resume", "--tables-only")
        assert result.exit_code == 0, result.output
        from_start = "nothing was stored before the run stopped: it begins from the start" in result.stderr
        assert from_start == (name == "none")
        assert ch.open_posterior(f"{name}/run.zarr").draws.sizes["draw"] == draws


def test_show__writes_the_files_again(fitted):
    for name in ("states.tsv", "summary.json"):
        (fitted / "run" / name).unlink()
    result = run("show", "run", "--json", "--tables-only")
    assert result.exit_code == 0, result.output
    assert result.stderr == "seed 3\n"
    assert json.loads(result.stdout) == json.loads((fitted / "run/summary.json").read_text())
    assert (fitted / "run/states.tsv").exists()
    quiet = run("show", "run", "--quiet", "--tables-only")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "seed 3\n")


def test_show__a_region(fitted):
    result = run("show", "run", "--region", "chr2")
    assert result.exit_code == 0, result.output
    assert re.search(r"2:0-\d+: the \d most probable configurations", result.stdout)
    assert len(list((fitted / "run/figures").glob("sites-*-configurations.png"))) == 1
    content = json.loads(run("show", "run", "--region", "0-3", "--json", "--tables-only").stdout)
    assert content["region"].startswith("1:0-")
    assert content["configurations"][0]["runs"][0]["first_site"] == 0
    assert run("show", "run", "--region", "0-3", *QUIETLY).stdout == ""
    assert "there is no chromosome 'chr99'" in run("show", "run", "--region", "chr99").stderr


def test_show__a_region_with_one_configuration(capsys):
    sure = Configuration(probability=1.0, standard_error=0.0, start=3, stop=4, states=np.array([[1], [0]]))
    Voice().region([sure], [], where="3-3")
    assert capsys.readouterr().out.startswith("3-3: the most probable configuration (100%")


def test_show__configurations_of_a_region_are_differences_from_the_first(capsys, monkeypatch):
    """JSON has all of each; a run across a gap says how long nothing was measured."""
    monkeypatch.setenv("COLUMNS", "120")
    states = np.zeros((2, 10), np.int8)
    states[0, 2:8] = 1
    other = states.copy()
    other[1, 3] = 1
    shared = {"standard_error": 0.01, "start": 0, "stop": 10}
    found = [Configuration(probability=p, states=own, **shared) for p, own in ((0.7, states), (0.3, other))]
    position = 30.0 * np.r_[np.arange(5), 185:190]
    signal = Signal(data=ch.Observations(np.zeros(10)), position=position, zone="")
    Voice().region(found, [], where="0-9", signal=signal)
    lines = [cell.strip() for line in capsys.readouterr().out.splitlines() for cell in line.split("│")[1:3]]
    assert lines[1::2] == [
        "s00 0-1 (1970-01-01T00:00/00:00:30)",
        "s10 2-7 (1970-01-01T00:01/01:33:30, 1 h 30 min without data)",
        "s00 8-9 (1970-01-01T01:34/01:34:30)",
        "s11 3-3 (1970-01-01T00:01:30), not s10",
    ]
    assert lines[0::2] == ["0.7 ± 0.01", "", "", "0.3 ± 0.01"]
    Voice(as_json=True).region(found, [], where="0-9", signal=signal)
    content = json.loads(capsys.readouterr().out)
    assert [len(one["runs"]) for one in content["configurations"]] == [3, 5]
    assert [run["gap"] for run in content["configurations"][0]["runs"]] == [0, 5400, 0]


def test_show__opens_the_page(fitted, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    assert run("show", "run", "--region", "0-3", "--open", "-q").exit_code == 0
    (fitted / "run/report.html").unlink()
    assert run("show", "run", "--region", "0-3", "--open", "-q").exit_code == 0
    assert opened == [(fitted / "run/report.html").resolve().as_uri()] * 2
    assert (fitted / "run/report.html").exists()


def test_show__refuses(here):
    assert refused("show", "nowhere") == (
        "error: there is no run in nowhere: give a directory that chiasma fit --out wrote"
    )


@pytest.mark.slow
def test_demo__does_the_main_job_again_and_again(here, monkeypatch):
    """The examples of its help, but shorter; the second replaces what the first has left."""
    first, another = (shlex.split(line)[2:] for line in EXAMPLES["demo"])
    result = run("demo", "--sites", 100, *first)
    assert result.exit_code == 0, result.output
    assert "$ chiasma simulate chiasma-demo/tumour.bb --tumour --seed 1 --sites 100" in result.stderr
    assert "$ chiasma tumour chiasma-demo/tumour.bb --out chiasma-demo/answer" in result.stderr
    assert re.search(r"The truth: purity 0.65, ploidy .* right in [\d.]+% of bins", result.stdout)
    assert (here / "chiasma-demo/answer/figures/solutions.png").exists()
    (here / "chiasma-demo").rename(here / "another-tumour")
    monkeypatch.setattr(sys.modules["chiasma.cli.demo"], "solve_patients", lambda *_, **__: 1 / 0)
    again = run("demo", "--sites", 100, *another)
    assert isinstance(again.exception, ZeroDivisionError)  # the analysis begins
    assert "$ chiasma simulate another-tumour/tumour.bb --tumour --seed 7 --sites 100" in again.stderr
    assert not (here / "another-tumour/answer").exists()
    (here / "mine").mkdir()
    (here / "mine/thesis.txt").write_text("precious")
    assert "mine exists and holds no earlier demo" in refused("demo", "--out", "mine")


@pytest.mark.slow
def test_examples__all_run(here, monkeypatch):
    """As the help shows them, but shorter: in this order each finds the files it names, and the first one of a command
    draws pictures. The demo has its own test."""
    monkeypatch.setattr("chiasma.sampling.plan.MOST_STARTS", 4)
    order = ("simulate", "chiasma", "fit", "show", "tumour")
    shorter = {"simulate": [], "fit": ["--chains", "2", "--warmup", "5"], "show": [], "tumour": []}
    done, drawn = {"chiasma demo"}, {"tumour"}  # a region of a tumour is drawn in any case
    for example in (line for command in order for line in EXAMPLES[command]):
        program, command, *arguments = shlex.split(example)
        assert program == "chiasma"
        if example in done:
            continue
        done.add(example)
        more = [] if "--resume" in arguments else [*shorter[command]]
        if command == "simulate" and "--sites" not in arguments:
            more += ["--sites", "100"]
        if command == "fit" and "--draws" not in arguments:
            more += ["--draws", "20"]
        if command == "tumour" and "--clones" not in arguments:
            more += ["--clones", "1"]
        if command in drawn and "--region" not in arguments:
            more += ["--tables-only"]
        drawn |= {command} & {"fit", "show"}
        result = run(command, *arguments, *more)
        assert result.exit_code == 0, f"{example}\n{result.output}"


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"chiasma {ch.__version__}\n"


@pytest.mark.parametrize("command", [None, *get_command(app).commands])
def test_help__has_examples(command):
    result = CliRunner().invoke(app, [command, "--help"] if command else ["--help"], env={"COLUMNS": "300"})
    assert result.exit_code == 0
    assert all(example in result.output for example in EXAMPLES[command or "chiasma"])


@pytest.mark.parametrize("command", get_command(app).commands)
def test_help__is_short_and_help_all_has_every_option(command):
    short, whole = (
        CliRunner().invoke(app, [command, flag], env={"COLUMNS": "100"}) for flag in ("--help", "--help-all")
    )
    assert short.exit_code == whole.exit_code == 0
    assert len(short.output.splitlines()) <= 70  # two screens
    assert not {"<", "{"} & set(short.output)
    for option in get_command(app).commands[command].params:
        assert all(flag in whole.output for flag in option.opts if flag.startswith("-"))


def test_help__tells_the_defaults_of_sample():
    import inspect

    shown = {option.name: option.help for option in get_command(app).commands["fit"].params}
    for name in ("draws", "warmup", "chains", "thin", "exchange_every", "exact_seconds"):
        default = inspect.signature(ch.sample).parameters[name].default
        assert shown[name].endswith(f"Default: {default}.")


def test_help__does_not_wait_for_numba():
    script = (
        "import sys; from chiasma.cli import main\n"
        "for words in ([], ['show'], ['simulate']):\n"
        "    sys.argv = ['chiasma', *words, '--help']\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code\n"
        "assert 'numba' not in sys.modules and 'numpy' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Usage: ") == 3


def test_completion__is_there():
    assert {"--install-completion", "--show-completion"} <= {
        option for parameter in get_command(app).params for option in parameter.opts
    }


def test_main__a_mistake_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["chiasma", "simulate", "x.tsv", "--sites", "0"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    shown = capsys.readouterr()
    assert re.fullmatch(r"(seed \d+\n)?error: .*got 0.*\n", shown.err)
    assert shown.out == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device", "x.tsv")])
def test_main__other_ends(here, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("chiasma.datasets.genome.tumour_genome", fail)
    result = run("simulate", "x.tsv")
    interrupt = isinstance(error, KeyboardInterrupt)
    assert result.exit_code == (130 if interrupt else 2)
    assert result.stderr == ("interrupted\n" if interrupt else "error: x.tsv: No space left on device\n")


def test_main__a_bug_keeps_its_traceback(here, monkeypatch):
    monkeypatch.setattr("chiasma.datasets.genome.tumour_genome", lambda *_: 1 / 0)
    assert isinstance(run("simulate", "x.tsv").exception, ZeroDivisionError)
    monkeypatch.setattr("chiasma.datasets.genome.tumour_genome", lambda *_: os.close(-1))
    assert isinstance(run("simulate", "x.tsv").exception, OSError)


@pytest.mark.parametrize("arguments", [["demo", "--seed", "-1"], ["demo", "--sites", "many"], ["dance"]])
def test_usage_errors__exit_with_2(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert re.search("Invalid value|No such command", result.output)


def test_fit__takes_and_shows_dates(here):
    """What is printed as the place of rivals is what --region takes; a run of an earlier version learns it again."""
    times = [f"2024-05-01 {t // 2:02}:{30 * (t % 2):02}" for t in range(30)]
    (here / "p.csv").write_text("time,y\n" + "".join(f"{time},{0.5 * (t % 7)}\n" for t, time in enumerate(times)))
    fit = ["fit", "p.csv", "--weights", "1,1.5", "--sd", 1, "--enter", 0.2, "--draws", 50, "--chains", 1, "--seed", 1]
    result = run(*fit, "--out", "run")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line.startswith("│")]
    assert lines
    stored = Signal.load(here / "run" / "data.npz")
    for line in lines:
        sites, moments = (cell.strip() for cell in line.split("│")[1:3])
        assert find_region(stored, moments) == find_region(stored, sites)
    shown = run("show", "run", "--region", "2024-05-01 08:00 - 2024-05-01 09:30", "--tables-only")
    assert "16-19 (2024-05-01T08:00/09:30): the" in shown.stdout
    assert re.search(r"s[01]{2} 16-\d+ \(2024-05-01T08:00[^)]*\)", shown.stdout)
    content = json.loads(run("show", "run", "--region", "16-19", "--tables-only", "--json").stdout)
    assert (content["region"], content["times"]) == ("16-19", "2024-05-01T08:00/09:30")
    assert content["configurations"][0]["runs"][0]["times"].startswith("2024-05-01T08:00")
    *_, look, _, _ = result.stdout.splitlines()
    assert look == f"chiasma show run --region {lines[0].split('│')[2].strip()}"
    replace(stored, zone=None).save(here / "run/data.npz")
    assert "delete its data.npz and resume the fit" in refused("show", "run", "--region", "2024-05-01")
    (here / "run/data.npz").unlink()
    assert run("fit", "p.csv", "--out", "run", "--resume", "--tables-only", "-q").exit_code == 0
    assert run("show", "run", "--region", "2024-05-01", "-q", "--tables-only").exit_code == 0


def test_fit__lists_rivals_by_sites_and_by_position(here):
    (here / "p.csv").write_text("seconds,y\n" + "".join(f"{t / 10},{0.5 * (t % 7)}\n" for t in range(30)))
    model = ["--weights", "1,1.5", "--sd", 1, "--enter", 0.2]
    result = run("fit", "p.csv", *model, "--draws", 50, "--chains", 1, "--seed", 1, "--out", "placed")
    assert result.exit_code == 0, result.output
    heading, *lines = [line for line in result.stdout.splitlines() if line.startswith(("┃", "│"))]
    assert [cell.strip() for cell in heading.split("┃")[1:5]] == [
        "sites",
        "seconds",
        "sites with data",
        "state: probability",
    ]
    for line in lines:
        sites, seconds = (cell.strip() for cell in line.split("│")[1:3])
        first, last = map(int, sites.split("-"))
        assert seconds == f"{first / 10:g}-{last / 10:g}"  # both ends are included, as --region takes them
        assert find_region(Signal.load(here / "placed" / "data.npz"), f"seconds:{seconds}") == (first, last + 1)
    assert lines
    assert re.search(r"A state such as s[01]{2} has one digit per row, row 0 first: 0 is off\.", result.stdout)
    sentence = "Probabilities are means over the sites of a segment; a rival may concern only its ends. Look with:"
    assert sentence in " ".join(result.stdout.split())
    *_, look, _, _ = result.stdout.splitlines()
    assert look == f"chiasma show placed --region {lines[0].split('│')[1].strip()}"
    shown = run(*look.split()[1:])
    assert shown.exit_code == 0, shown.output


def test_fit__prints_time_stamps_as_they_are(here):
    stamps = (f"2026-01-01 00:{t:02}:00" for t in range(30))
    lines = [f"{stamp},{0.5 * (t % 7)}\n" for t, stamp in enumerate(stamps)]
    (here / "stamps.csv").write_text("time,y\n" + "".join(lines))
    model = ["--weights", "1,1.5", "--sd", 1, "--enter", 0.2]
    result = run("fit", "stamps.csv", *model, "--draws", 50, "--chains", 1, "--seed", 1, "--out", "stamped")
    assert result.exit_code == 0, result.output
    assert "dates and times in column 'time' become seconds since 1970" in result.stderr
    cells = [line.split("│")[1:3] for line in result.stdout.splitlines() if line.startswith("│")]
    assert cells
    for sites, times in cells:
        first, last = map(int, sites.split("-"))
        assert times.strip() == "2026-01-01T" + "/".join(dict.fromkeys(f"00:{t:02}" for t in (first, last)))


def test_fit__rivals_fit_a_terminal_of_80_columns(here):
    stamps = [f"2026-01-01T{10 + t // 60}:{t % 60:02}:30" for t in range(200)]
    lines = [f"{stamp},{3 * (t // 100)}\n" for t, stamp in enumerate(stamps)]
    (here / "long.csv").write_text("when,y\n" + "".join(lines))
    model = ["--weights", "1,1.1,1.9,2", "--sd", 2, "--enter", 0.05, "--position", "when"]
    run("fit", "long.csv", *model, "--draws", 200, "--chains", 1, "--seed", 1, "--out", "r", "--tables-only")
    result = CliRunner().invoke(app, ["show", "r", "--tables-only"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    table = [line for line in result.stdout.splitlines() if line.startswith(("┃", "│"))]
    assert all(len(line) <= 80 for line in table)
    assert "…" not in "".join(table)
    assert {"with", "data"} <= set("".join(line for line in table if line.startswith("┃")).replace("┃", " ").split())
    states = [line.split("│")[4].strip() for line in table if line.startswith("│")]
    assert any(re.fullmatch(r"s[01]{4}: 0\.\d\d", text) for text in states)
