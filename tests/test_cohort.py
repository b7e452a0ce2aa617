"""Cohorts: the same bytes however they run, failures, resuming, what is written for all samples together."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from distributed import Client, KilledWorker, LocalCluster
from PIL import Image
from typer.testing import CliRunner

import chiasma as ch
from chiasma.cli import app
from chiasma.cli.examples import EXAMPLES
from chiasma.cohort import workers as clusters
from chiasma.cohort.api import begin_cohort, cohort, cohort_settings, merge_cohort, run_cohort_task
from chiasma.cohort.directory import CohortDirectory, Outcome, common_grid
from chiasma.cohort.page import MOST_ROWS, ROW_HEIGHT, WIDTH, in_words, write_page, write_picture
from chiasma.cohort.plan import read_samples, sample_seed
from chiasma.cohort.workers import CohortProgress, computing_alone, run_task, task_of
from chiasma.cohort.workflow import FitWorkflow
from chiasma.datasets.genome import tumour_genome
from chiasma.datasets.tumours import simulate_tumour
from chiasma.errors import InvalidInput, StoreError
from chiasma.io.settings import Settings, settings_of
from chiasma.io.tables import write_table
from chiasma.report.fitting import fit_file
from chiasma.report.run_directory import RunDirectory
from chiasma.storage.digests import write_sealed
from chiasma.tumour.bins import simulated_bins

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from compare_cohorts import differences

pytestmark = pytest.mark.usefixtures("light_pictures")

NAMES = ("a", "b.1", "c", "d")
SETTINGS = {"draws": 8, "chains": 2, "warmup": 4}
SEED = 5


def write_genome(folder, name, seed, n_bins=40):
    genome = tumour_genome(seed, n_bins)
    signal = genome.signal
    path = folder / f"{name}.tsv"
    write_table(
        path, ["chromosome", "position", "value"], zip(signal.chromosome, signal.position, signal.data.y, strict=True)
    )
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Data files, a sheet and a model file. Sample c has settings of its own."""
    folder = tmp_path_factory.mktemp("inputs")
    for i, name in enumerate(NAMES):
        write_genome(folder, name, i)
    rows = [[name, f"{name}.tsv", "15" if name == "c" else "", "sd" if name == "c" else ""] for name in NAMES]
    write_table(folder / "sheet.tsv", ["sample", "path", "sd", "learn"], rows)
    columns = {"chromosome": "chromosome", "position": "position"}
    given = settings_of(tumour_genome(0, 40).model) | {"data": columns, "sampler": SETTINGS}
    Settings(**given).write(folder / "model.toml", "Settings of a test.")
    return folder


def planned(inputs, out, sheet=None, tables_only=True, model="model.toml"):
    settings = cohort_settings(inputs / model)
    return begin_cohort(sheet or inputs / "sheet.tsv", out, settings, seed=SEED, tables_only=tables_only)


def run_serially(inputs, out, sheet=None, tables_only=True, model="model.toml"):
    directory, plan = planned(inputs, out, sheet, tables_only, model)
    for task in range(plan.n_tasks):
        run_cohort_task(out, task, lambda text: None)
    return merge_cohort(directory, plan)


@pytest.fixture(scope="module")
def serial(inputs, tmp_path_factory):
    """The cohort, one sample after the other in this process, without figures."""
    out = tmp_path_factory.mktemp("serial") / "out"
    done = run_serially(inputs, out)
    assert done.in_words == "4 of 4 samples done"
    return out


@contextmanager
def threads(n_workers, n_threads):
    """A client of workers in threads of this process."""
    with (
        LocalCluster(n_workers, threads_per_worker=n_threads, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with threads(2, 1) as client:
        yield client


def run(inputs, out, client, sheet=None, **options):
    """A cohort with the model of the inputs, without figures."""
    given = {"model": inputs / "model.toml", "seed": SEED, "tables_only": True, "progress": False}
    return cohort(sheet or inputs / "sheet.tsv", out, client, **given | options)


def table(path):
    with path.open(newline="") as file:
        return {row["sample"]: row for row in csv.DictReader(file, delimiter="\t")}


# ---- The same bytes ------------------------------------------------------------------------------------------------


def test_cohort__same_bytes_on_any_number_of_workers(inputs, serial, tmp_path):
    """Four here; one and two below, and in processes."""
    with threads(4, 1) as client:
        done = run(inputs, tmp_path / "out", client)
    assert not done.failed
    assert differences(serial, tmp_path / "out") == []


@pytest.mark.slow
def test_cohort__same_bytes_in_threads_of_one_worker__with_reports(inputs, tmp_path):
    records = [{"sample": name, "path": str(inputs / f"{name}.tsv")} for name in ("a", "d")]
    run_serially(inputs, tmp_path / "serial", records, tables_only=False)
    with threads(1, 2) as client:
        run(inputs, tmp_path / "out", client, records, tables_only=False)
    assert {"report.html", "figures"} <= {path.name for path in (tmp_path / "out/samples/a").iterdir()}
    assert differences(tmp_path / "serial", tmp_path / "out") == []


def test_cohort__same_bytes_in_another_order_and_company(inputs, serial, tmp_path, client):
    records = [{"sample": name, "path": str(inputs / f"{name}.tsv")} for name in ("d", "new", "a")]
    write_genome(inputs, "new", 9)
    run(inputs, tmp_path / "out", client, records)
    for name in ("a", "d"):
        assert differences(serial / "samples" / name, tmp_path / "out/samples" / name) == []


def test_compare__sees_what_differs(serial, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(serial, other)
    assert differences(serial, other) == []
    outcome = json.loads((other / "samples/a/outcome.json").read_text())
    (other / "samples/a/outcome.json").write_text(json.dumps(outcome | {"seconds": 1e9}))
    assert differences(serial, other) == []
    (other / "samples/a/outcome.json").write_text(json.dumps(outcome | {"seed": 1}))
    (other / "samples/d/states.tsv").unlink()
    assert differences(serial, other) == ["samples/d/states.tsv", "samples/a/outcome.json"]


def test_sample_seed__depends_on_seed_and_name_only():
    seeds = {sample_seed(seed, name) for seed in range(20) for name in ("a", "b", "1", "11")}
    assert len(seeds) == 80
    assert all(0 <= seed < 2**53 for seed in seeds)
    # Known values: a change would change every cohort.
    assert sample_seed(1, "tumour-7") == 5659223719790493


def test_run_directory__is_that_of_a_fit(inputs, serial, tmp_path):
    seed = sample_seed(SEED, "a")
    command = f"fit {inputs}/a.tsv --model {inputs}/model.toml --seed {seed} --out {tmp_path}/run --quiet"
    assert CliRunner().invoke(app, [*command.split(), "--tables-only"]).exit_code == 0
    extra = ["outcome.json", "picture.png", "summaries.npz"]
    assert differences(tmp_path / "run", serial / "samples/a") == extra


# ---- Failures and resuming -----------------------------------------------------------------------------------------


@pytest.fixture
def damaged(inputs, tmp_path):
    """A sheet of three samples: the data file of the second is cut off, that of the third is missing."""
    lines = (inputs / "a.tsv").read_text()
    (tmp_path / "good.tsv").write_text(lines)
    (tmp_path / "cut.tsv").write_text(lines[: len(lines) // 2].rpartition("\t")[0])
    rows = [[name, f"{name}.tsv"] for name in ("good", "cut", "none")]
    write_table(tmp_path / "sheet.tsv", ["sample", "path"], rows)
    return tmp_path


def test_failure__is_recorded_and_the_others_finish(inputs, damaged, client):
    done = run(inputs, damaged / "out", client, damaged / "sheet.tsv")
    assert done.in_words == "1 of 3 samples done, 2 failed"
    rows = table(damaged / "out/cohort.tsv")
    assert [row["status"] for row in rows.values()] == ["done", "failed", "failed"]
    assert "cut.tsv, line 20: expected 3 columns" in rows["cut"]["error"]
    assert "none.tsv: there is no such file" in rows["none"]["error"]
    assert rows["good"]["error"] == ""
    assert list((damaged / "out/unfinished").iterdir()) == []
    stored = xr.open_zarr(damaged / "out/cohort.zarr")
    assert stored["status"].values.tolist() == ["done", "failed", "failed"]
    assert np.isnan(stored["probability"].values[1:]).all()


def test_resume__does_what_is_missing_and_failed_and_new(inputs, damaged, client):
    out = damaged / "out"
    run(inputs, out, client, damaged / "sheet.tsv")
    kept = (out / "samples/good/outcome.json").stat().st_mtime_ns
    for name in ("cut", "none"):
        (damaged / f"{name}.tsv").write_text((inputs / "d.tsv").read_text())
    with (damaged / "sheet.tsv").open("a") as sheet:
        sheet.write(f"a\t{inputs}/a.tsv\n")
    done = cohort(damaged / "sheet.tsv", out, client, resume=True, progress=False)
    assert done.in_words == "4 of 4 samples done"
    assert list((out / "failures").iterdir()) == []
    assert (out / "samples/good/outcome.json").stat().st_mtime_ns == kept
    again = cohort(damaged / "sheet.tsv", out, resume=True, progress=False)
    assert again.outcomes == done.outcomes


def test_resume__refuses_other_settings(inputs, serial):
    def refused(match, **changed):
        given = {"sheet": inputs / "sheet.tsv", "out": serial, "model": inputs / "model.toml", "resume": True}
        with pytest.raises(InvalidInput, match=match):
            cohort(**given | changed)

    refused("was begun in another way: seed is 5 in the store, got 6", seed=6)
    refused(r"settings.sampler.draws is 8 in the store, got 9", draws=9)
    refused(
        r"sample a: settings.sd is None in the store, got 3.0",
        sheet=[{"sample": "a", "path": str(inputs / "a.tsv"), "sd": 3.0}],
    )
    refused("exists already; choose another directory, or add resume=True", resume=False)


def test_task__takes_over_what_a_killed_worker_left(inputs, serial, tmp_path, monkeypatch):
    """A run that stopped in the middle goes on, and ends with the bytes of one that never stopped."""
    directory, plan = planned(inputs, tmp_path / "out")
    task = task_of(directory, plan, plan.samples[0])
    with directory.attempt("a") as left:
        pass
    half = Settings(**task.settings).merged(sampler={"draws": 4})
    fit_file(Path(task.path), half, RunDirectory(left), tables_only=True)
    for name in ("states.tsv", "settings.toml"):
        (left / name).unlink()  # a kill may come before any of them is written
    (left / "states.tsv.0.partial").write_text("half")
    (left / "run.zarr.0.partial").mkdir()
    outcome = run_task(task)
    assert outcome.status == "done"
    assert not left.exists()
    assert differences(serial / "samples/a", directory.samples / "a") == []


def test_task__what_is_left_of_other_data_is_dropped(inputs, serial, tmp_path):
    directory, plan = planned(inputs, tmp_path / "out")
    task = task_of(directory, plan, plan.samples[0])
    with directory.attempt("a") as left:
        pass
    fit_file(inputs / "d.tsv", Settings(**task.settings), RunDirectory(left), tables_only=True)
    assert run_task(task).status == "done"
    assert list(directory.unfinished.iterdir()) == []
    assert differences(serial / "samples/a", directory.samples / "a") == []


def test_task__that_was_given_up_does_no_harm(inputs, serial, tmp_path):
    """A worker that lost its scheduler runs a sample that another one runs as well, and ends later."""
    directory, plan = planned(inputs, tmp_path / "out")
    task = task_of(directory, plan, plan.samples[0])
    with directory.attempt("a") as slow:
        (slow / "data.npz").write_text("half")
        with ThreadPoolExecutor(1) as elsewhere:
            assert elsewhere.submit(run_task, task).result().status == "done"
        assert (slow / "data.npz").read_text() == "half"
        kept = directory.complete(slow, Outcome(name="a", status="done", seed=0, mark=task.mark))
    assert kept.seed == plan.seed_of(plan.samples[0])
    assert directory.fail(Outcome(name="a", status="failed", seed=0, error="late", mark=task.mark)).status == "done"
    assert list(directory.unfinished.iterdir()) == []
    assert differences(serial / "samples/a", directory.samples / "a") == []


def test_merge__removes_what_killed_attempts_left(inputs, tmp_path):
    """A worker killed just after its sample was done leaves its lock; one that was slower, a run directory as well."""
    directory, plan = planned(inputs, tmp_path / "out")
    assert run_task(task_of(directory, plan, plan.samples[0])).status == "done"
    begun = {directory.unfinished / f"d@{i}" for i in (3, 5)}
    with directory.attempt("a") as alive:
        for left in (directory.unfinished / "a@1", *begun):
            left.mkdir()
        for left in ("a@1", "a@2", "d@3", "d@4"):
            (directory.unfinished / f"{left}.lock").write_text(json.dumps({"process": -1, "host": "", "since": ""}))
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(merge_cohort, directory).result()
        locks = {one for one in directory.unfinished.iterdir() if one.suffix == ".lock"}
        assert {one.name for one in locks} == {f"{alive.name}.lock", "d@3.lock"}
        assert set(directory.unfinished.iterdir()) - locks == {*begun, alive}


def test_task__a_bug_has_a_traceback(inputs, tmp_path, monkeypatch):
    directory, plan = planned(inputs, tmp_path / "out")
    monkeypatch.setattr("chiasma.cohort.workflow.fit_file", lambda *_, **__: 1 / 0)
    outcome = run_task(task_of(directory, plan, plan.samples[0]))
    assert outcome.error == "ZeroDivisionError: division by zero"
    assert "fit_file" in outcome.traceback
    assert directory.outcome("a", 0, plan.mark(plan.samples[0])) == outcome


def test_task__an_interrupt_leaves_it_unfinished(inputs, tmp_path, monkeypatch):
    directory, plan = planned(inputs, tmp_path / "out")

    @wraps(ch.sample)
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("chiasma.report.fitting.sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_task(task_of(directory, plan, plan.samples[0]))
    assert len(list(directory.unfinished.glob("a@*"))) == 1
    assert directory.outcome("a", 3, plan.mark(plan.samples[0])).status == "missing"


def test_lost_workers__are_tried_again_and_then_a_failure(inputs, tmp_path, client, monkeypatch):
    """What Dask raises when it gives a sample up: for sample a always, for sample d the first time."""
    tried = Counter()

    def lost(task):
        tried[task.name] += 1
        if task.name == "a" or (task.name == "d" and tried["d"] == 1):
            raise KilledWorker(task.name, SimpleNamespace(address="tcp://nowhere"), 3)
        return run_task(task)

    monkeypatch.setattr("chiasma.cohort.workers.run_task", lost)
    records = [{"sample": name, "path": str(inputs / f"{name}.tsv")} for name in ("a", "d")]
    done = run(inputs, tmp_path / "out", client, records, retries=1)
    assert [outcome.status for outcome in done.outcomes] == ["failed", "done"]
    assert "its worker was lost 8 times while it ran" in done.outcomes[0].error


def test_computing_alone__is_taken_back_by_the_last():
    import dask

    before = dask.config.get("scheduler", None)
    with computing_alone():
        with computing_alone():
            assert dask.config.get("scheduler") == "synchronous"
        assert dask.config.get("scheduler") == "synchronous"
    assert dask.config.get("scheduler", None) == before


# ---- Sheets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("sample\tfile\na\ta.tsv\n", "needs the columns 'sample' and 'path', and it has no 'path'"),
        ("sample\tpath\tsd\tsd\na\ta.tsv\t1\t2\n", "the column 'sd' is there 2 times"),
        ("sample\tpath\tpurity\na\ta.tsv\t1\n", "there is no setting 'purity'"),
        ("sample\tpath\na\t\n", r"line 2: the column 'path' is empty"),
        ("sample\tpath\na\ta.tsv\n../b\tb.tsv\n", r"line 3: the sample '../b' cannot name a directory"),
        ("sample\tpath\na\ta.tsv\nA\tb.tsv\n", r"line 3: the sample 'A' is there twice, first in .*line 2"),
        ("sample\tpath\tdraws\na\ta.tsv\t1.5\n", r"line 2: draws must be a whole number, got '1.5'"),
        ("sample\tpath\tsd\na\ta.tsv\tbig\n", r"line 2: --sd must be numbers"),
        ("sample\tpath\tdf\na\ta.tsv\t3\n", r"sample a: --df belongs to student-t"),
    ],
)
def test_sheet__mistakes_name_their_line(inputs, tmp_path, text, match):
    (tmp_path / "sheet.tsv").write_text(text)
    with pytest.raises(InvalidInput, match=match):
        begin_cohort(tmp_path / "sheet.tsv", tmp_path / "out", cohort_settings(inputs / "model.toml"))
    assert not (tmp_path / "out").exists()


def test_sheet__cells_are_settings(inputs, tmp_path):
    (tmp_path / "sheet.csv").write_text(
        'sample,path,weights,fixed,ladder,seed,learn\na,a.tsv,"0.1,0.9","1=1","1,5",7,"sd, weights"\n'
    )
    _, plan = begin_cohort(tmp_path / "sheet.csv", tmp_path / "out", cohort_settings(inputs / "model.toml"))
    (sample,) = plan.samples
    assert sample.path == str(tmp_path / "a.tsv")
    settings = plan.settings_of(sample)
    assert settings["model"]["weights"] == [0.1, 0.9]
    assert settings["model"]["fixed"] == {"1": 1}
    assert settings["sampler"] == {**SETTINGS, "ladder": [1.0, 5.0], "seed": 7}
    assert settings["learn"] == ["sd", "weights"]


def test_records__of_pandas_and_a_model_in_python(inputs, tmp_path, client):
    import pandas as pd

    sheet = pd.DataFrame({"sample": ["a", "b"], "path": [str(inputs / "a.tsv")] * 2, "sd": [None, 20.0]})
    model = tumour_genome(0, 40).model
    options = {"chromosome": "chromosome", "position": "position", **SETTINGS}
    options |= {"tables_only": True, "progress": False}
    done = ch.cohort(sheet.to_dict("records"), tmp_path / "out", client, model=model, **options)
    assert not done.failed
    written = [(tmp_path / f"out/samples/{name}/settings.toml").read_text() for name in "ab"]
    assert ["sd = 20.0" in text for text in written] == [False, True]
    with pytest.raises(InvalidInput, match="no records"):
        ch.cohort([], tmp_path / "other")


# ---- What is written for all samples together ----------------------------------------------------------------------


def test_store__holds_the_marginals_of_every_sample(serial):
    stored = xr.open_zarr(serial / "cohort.zarr")
    assert stored["sample"].values.tolist() == list(NAMES)
    signal = tumour_genome(0, 40).signal
    assert stored["chromosome"].values.tolist() == list(signal.chromosome)
    np.testing.assert_array_equal(stored["position"], signal.position)
    for name in NAMES:
        posterior = ch.open_posterior(serial / f"samples/{name}/run.zarr")
        expected = posterior.marginals().values.astype(np.float32)
        np.testing.assert_array_equal(stored["probability"].sel(sample=name), expected)
        evidence = float(stored["log_evidence"].sel(sample=name))
        assert np.isnan(evidence) if posterior.log_evidence is None else evidence == posterior.log_evidence.value
    assert stored["parameter"].values.tolist() == ["sd"]
    learned = ch.open_posterior(serial / "samples/c/run.zarr").parameters["sd"].values
    assert float(stored["parameter_mean"].sel(sample="c", parameter="sd")) == pytest.approx(learned.mean())
    assert np.isnan(stored["parameter_mean"].sel(sample="a")).all()
    assert float(table(serial / "cohort.tsv")["c"]["sd"]) == pytest.approx(learned.mean())


def test_table__has_the_intervals_of_learned_parameters(serial):
    rows, stored = table(serial / "cohort.tsv"), xr.open_zarr(serial / "cohort.zarr")
    for statistic, column in (("mean", "sd"), ("q05", "sd_q05"), ("q95", "sd_q95")):
        kept = float(stored[f"parameter_{statistic}"].sel(sample="c", parameter="sd"))
        assert float(rows["c"][column]) == pytest.approx(kept)
        assert rows["a"][column] == "NA"


def test_sheet__one_of_several_samples_in_a_file(inputs, tmp_path):
    header, *lines = (inputs / "a.tsv").read_text().splitlines()
    both = [f"{header}\tsample", *(f"{line}\t{name}" for name in "xy" for line in lines)]
    (tmp_path / "both.tsv").write_text("\n".join(both).replace("chromosome", "chrom").replace("position", "start"))
    text = (inputs / "model.toml").read_text()
    (tmp_path / "model.toml").write_text(text.replace('"chromosome"', '"chrom"').replace('"position"', '"start"'))
    sheet = [{"sample": f"s-{name}", "path": str(tmp_path / "both.tsv"), "sample_in_file": name} for name in "xy"]
    samples = read_samples(sheet, FitWorkflow())
    assert [one.settings for one in samples] == [{"sample": "x"}, {"sample": "y"}]
    done = run_serially(tmp_path, tmp_path / "out", sheet)
    assert done.in_words == "2 of 2 samples done"
    assert table(tmp_path / "out/cohort.tsv")["s-y"]["sites"] == str(len(lines))


LAMPS = """
[model]
sd = 0.1
[sampler]
draws = 20
warmup = 20
chains = 2
[[row]]
name = "lamp"
copies = {copies}
values = [0, 1]
switch = {{enter = {{beta = [1, 20]}}, leave = 0.1}}
"""


@pytest.mark.parametrize("copies", [2, 3])
def test_findings__of_a_sample_with_fewer_equal_rows_than_its_model(tmp_path, copies):
    """Two lamps, and a model of two or of three."""
    lamp = ch.Row([0, 1], ch.Switch(0.1, 0.1), copies=2)
    y = ch.FactorialHMM(rows=[lamp], emission=ch.Gaussian(sd=0.1)).simulate(100, seed=1)[1]
    write_table(tmp_path / "lamps.tsv", ["value"], [[value] for value in y])
    (tmp_path / "lamps.toml").write_text(LAMPS.format(copies=copies))
    sheet = [{"sample": "room", "path": str(tmp_path / "lamps.tsv")}]
    run_serially(tmp_path, tmp_path / "out", sheet, model="lamps.toml")
    row = table(tmp_path / "out/cohort.tsv")["room"]
    assert ("rows-never-all-on" in row["findings"].split()) == (copies == 3)
    assert row["trust"] in ("good", "limited", "none")


def test_store__samples_on_other_sites_have_nan(inputs, tmp_path, client, monkeypatch):
    write_genome(tmp_path, "short", 3, n_bins=30)
    records = [{"sample": "short", "path": str(tmp_path / "short.tsv")}]
    records += [{"sample": name, "path": str(inputs / f"{name}.tsv")} for name in ("a", "d")]
    # Chunks of one sample: the regions of a large cohort.
    monkeypatch.setattr("chiasma.cohort.directory.CHUNK_BYTES", 1)
    done = run(inputs, tmp_path / "out", client, records)
    assert done.on_other_sites == ("short",)
    stored = done.summaries()
    assert stored["probability"].shape == (3, 6, 40)
    assert stored["probability"].chunks[0] == (1, 1, 1)
    assert np.isnan(stored["probability"]).all(("row", "site")).values.tolist() == [True, False, False]
    assert len(set(stored["grid"].values.tolist())) == 2


def test_store__without_any_sample_done(tmp_path):
    records = [{"sample": "a", "path": str(tmp_path / "none.tsv")}]
    model = {"weights": [1.0], "sd": 1.0, "enter": 0.1}
    directory, _ = begin_cohort(records, tmp_path / "out", cohort_settings(**model), n_tasks=1)
    done = merge_cohort(directory)
    assert done.in_words == "0 of 1 sample done, 1 missing"
    assert "probability" not in done.summaries()
    assert common_grid(done.outcomes) == ""


class Page(HTMLParser):
    """Links, pictures, headings and rows of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.n_rows, self.columns = [], 0, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[name] for name in ("href", "src") if name in given]
        self.n_rows += tag == "tr"
        self.columns += [given["data-key"]] if tag == "td" else []


def test_page__lists_links_and_shows_every_sample(serial):
    page = Page((serial / "index.html").read_text())
    assert page.n_rows == 1 + len(NAMES)
    assert len(page.columns) % len(NAMES) == 0
    assert all((serial / link).exists() for link in page.links)
    assert sum(link.endswith("picture.png") for link in page.links) == len(NAMES)
    text = (serial / "index.html").read_text()
    assert 'title="a, 1:' in text
    assert "bands from above: row_0, row_1, " in text


def outcome_of_many_words(name):
    """As many key results as a tumour has, and many findings."""
    results = ("probability", "purity", "ploidy", "clones", "doubled", "altered", "unexplained", "solutions", "bins")
    return Outcome(
        name=name,
        status="done",
        seed=1,
        seconds=27.018,
        evidence=(-106.66437, 0.0074),
        trust="limited",
        findings=("chains-disagree", "noise-underestimated", "rows-never-all-on") * 3,
        key_results=dict.fromkeys(results, 0.12345),
        parameters={f"weights[{k}]": {"mean": k + 0.25, "q05": k + 0.125, "q95": k + 0.5} for k in range(4)},
        bands=("lamp", "<kettle>"),
        span="0-399",
    )


def test_page__says_what_a_picture_shows(tmp_path):
    directory = CohortDirectory(tmp_path)
    older = Outcome(name="tuesday", status="done", seed=1)  # of a version that did not keep it
    write_page(directory, [outcome_of_many_words("monday"), older], "bands")
    text = directory.page.read_text()
    shown = "monday, 0-399; bands from above: lamp, &lt;kettle&gt;"
    assert f'alt="{shown}" title="{shown}"' in text
    assert 'alt="tuesday" title="tuesday"' in text


def test_page__fits_a_screen_and_shows_parameters_on_demand(tmp_path, browser):
    directory = CohortDirectory(tmp_path)
    write_page(directory, [outcome_of_many_words(f"patient-{i}-of-the-north") for i in range(3)], "bands")
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.goto(directory.page.as_uri())

    def widths():
        return page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")

    def shown():
        return page.locator("th:visible").all_inner_texts()

    assert widths()[0] <= widths()[1]
    assert "purity" in shown()
    assert "weights[0]" not in shown()
    page.check("input")
    assert widths()[0] <= widths()[1]
    assert "purity" not in shown()
    assert "weights[3]" in shown()
    assert "2.25\n2.125 to 2.5" in page.locator("tbody tr").first.inner_text()
    page.close()


def test_picture__is_blank_where_there_are_no_data(tmp_path):
    values = np.zeros((20, 450))
    values[:, 200:250] = np.nan
    values[:, 0] = np.nan  # shares its pixel with sites that have data
    write_picture(values, tmp_path / "a.png")
    alpha = np.asarray(Image.open(tmp_path / "a.png"))[..., 3]
    assert alpha.shape == (MOST_ROWS * ROW_HEIGHT, WIDTH)
    middle = (np.arange(WIDTH) * 450 // WIDTH + 1) / 450
    inside = (middle > 202 / 450) & (middle < 247 / 450)
    assert not alpha[:, inside].any()
    assert (alpha[:, :80] == 255).all()
    words = in_words("a", [f"row_{k}" for k in range(20)], "")
    assert words.startswith("a; bands from above: row_0, ")
    assert words.endswith("row_19 (averaged to 16 bands)")


def test_page__escapes_what_users_write(inputs, tmp_path):
    records = [{"sample": "a", "path": "<b>&.tsv"}]
    directory, _ = begin_cohort(records, tmp_path / "out", cohort_settings(inputs / "model.toml"), n_tasks=1)
    run_cohort_task(directory.path, 0, lambda text: None)
    merge_cohort(directory)
    text = directory.page.read_text()
    assert "&lt;b&gt;&amp;.tsv: there is no such file" in text
    assert "<b>" not in text


def test_files__that_are_damaged(serial, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(serial, out)
    for content in ("{}", '{"format": 99}', "[]", "[" * 100_000, '{"digest": ' + "1" * 5000 + "}", ""):
        (out / "cohort.json").write_text(content)
        with pytest.raises(StoreError, match=r"cohort\.json cannot be read"):
            merge_cohort(CohortDirectory(out))
    write_sealed(out / "cohort.json", {"format": 99, "chiasma": "9.9"})
    with pytest.raises(StoreError, match="in another format"):
        merge_cohort(CohortDirectory(out))
    with pytest.raises(InvalidInput, match="there is no cohort in"):
        merge_cohort(CohortDirectory(tmp_path / "none"))


# ---- The command line ----------------------------------------------------------------------------------------------


def command(*arguments):
    return CliRunner().invoke(app, ["cohort", *map(str, arguments)], env={"COLUMNS": "120"})


def refused(*arguments):
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr.splitlines()[-1]


def test_jobs__init_run_merge(inputs, serial, tmp_path):
    out = tmp_path / "out"
    result = command(
        "init",
        inputs / "sheet.tsv",
        "--model",
        inputs / "model.toml",
        "--seed",
        SEED,
        "--tasks",
        3,
        "--tables-only",
        "--out",
        out,
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "3\n", f"seed {SEED}\n")
    for task in (2, 0, 1, 1):
        result = command("run", out, "--task", task)
        assert result.exit_code == 0, result.output
    assert result.stderr == "b.1: done\n"
    result = command("merge", out)
    assert result.exit_code == 0
    assert result.stdout == f"4 of 4 samples done. Wrote cohort.tsv, cohort.zarr and index.html to {out}\n"
    assert [name for name in differences(serial, out) if name != "cohort.json"] == []
    assert "the task must be in 0..2, got 3" in refused("run", out, "--task", 3)


def test_jobs__a_failure_is_the_exit_code(inputs, damaged):
    result = command(
        "init", damaged / "sheet.tsv", "--model", inputs / "model.toml", "--tables-only", "--out", damaged / "out"
    )
    assert result.stdout == "3\n"
    assert [command("run", damaged / "out", "--task", task).exit_code for task in range(3)] == [0, 1, 1]
    result = command("merge", damaged / "out", "--quiet")
    assert (result.exit_code, result.stdout) == (1, "")
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["cut failed", "none failed"]


def test_command__refuses(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", 0.1)
    sheet = inputs / "sheet.tsv"
    assert "expected SHEET, init SHEET, run DIR, merge DIR or check DIR, got 'start x'" in refused("start", "x")
    assert "got 'a b c'" in refused("a", "b", "c")
    assert "--task says which task to run" in refused(sheet, "--task", 1)
    assert "--task says which task to run" in refused("run", tmp_path)
    assert "--tasks belongs to chiasma cohort init" in refused(sheet, "--tasks", 2)
    assert "give one of --workers, --scheduler" in refused(sheet, "--workers", 2, "--scheduler", "tcp://x:1")
    assert "init only prepares tasks" in refused("init", sheet, "--workers", 2)
    assert "the number of tasks must be in 1..4" in refused("init", sheet, "--tasks", 9, "--out", tmp_path / "o")
    assert "there is no cohort in" in refused("merge", tmp_path / "none")
    assert "there is no scheduler at nowhere.json" in refused(sheet, "--scheduler-file", "nowhere.json")
    (tmp_path / "file").write_text("")
    model = ["--model", inputs / "model.toml"]
    assert "cannot write to" in refused("init", sheet, *model, "--out", tmp_path / "file/out")


def test_command__takes_a_scheduler_by_address_or_file(inputs, serial, tmp_path, client):
    """In this process; other processes are below."""
    address = client.scheduler.address
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": address}))
    options = ["--model", inputs / "model.toml", "--seed", SEED, "--tables-only", "--out", tmp_path / "out"]
    write_table(tmp_path / "one.tsv", ["sample", "path"], [["a", inputs / "a.tsv"]])
    result = command(tmp_path / "one.tsv", "--scheduler", address, *options)
    assert result.exit_code == 0, result.output
    assert re.search(
        r"1 sample, seed 5\ndashboard: http.*\n1 of 1 sample, .* per minute, 0:00:00 left\n", result.stderr
    )
    resumed = ["--scheduler-file", tmp_path / "scheduler.json", "--resume", "--quiet"]
    result = command(inputs / "sheet.tsv", *resumed, *options[4:])
    assert (result.exit_code, result.output) == (0, "")
    assert differences(serial, tmp_path / "out") == []


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted: 0 of 4 samples done, 4 missing"),
        (CancelledError("gone"), 1, "error: the scheduler was lost (gone): 0 of 4 samples done, 4 missing"),
    ],
)
def test_command__says_how_to_go_on(inputs, tmp_path, client, monkeypatch, error, code, text):
    def stopped(*_, **__):
        raise error

    monkeypatch.setattr("distributed.as_completed", stopped)
    out, sheet = tmp_path / "out", inputs / "sheet.tsv"
    options = ["--model", inputs / "model.toml", "--tables-only", "--scheduler", client.scheduler.address]
    result = command(sheet, *options, "--out", out)
    assert result.exit_code == code
    assert result.stderr.splitlines()[-1] == f"{text}; continue with: chiasma cohort {sheet} --out {out} --resume"
    assert [row["status"] for row in table(out / "cohort.tsv").values()] == ["missing"] * 4


def test_progress__is_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setenv("COLUMNS", "200")
    told = []
    with CohortProgress(2, told.append, show=True) as display:
        assert not display.add(Outcome(name="a", status="failed", seed=1))
        assert display.add(Outcome(name="b", status="done", seed=1))
    assert told == []
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert re.search(r"samples .* 2/2 1 failed, .* per minute, 0:00:00 left", shown)


def test_progress__counts_from_when_samples_begin():
    """Kernels are compiled before; that time says nothing about the samples."""
    display = CohortProgress(30, print, show=False)
    display.n_done, display.began = 10, display.began - 3600
    display.restart()
    display.began -= 60
    assert display.rate() == ", 10.0 per minute, 0:02:00 left"


def test_command__says_how_to_get_dask(inputs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = refused(inputs / "sheet.tsv", "--model", inputs / "model.toml", "--out", tmp_path / "out")
    assert "needs dask.distributed, which is not installed" in line
    assert clusters.INSTALL in line
    assert clusters.INSTALL in (Path(__file__).parents[1] / "docs/cohort-laptop.md").read_text(encoding="utf-8")
    assert not (tmp_path / "out").exists()


def test_cores__are_those_of_the_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5, 7}, raising=False)
    assert clusters.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert clusters.cores() == os.cpu_count()


# ---- Clusters of other processes -----------------------------------------------------------------------------------


def dask_process(*arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    program = [sys.executable, "-m", "dask", *map(str, arguments)]
    return subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and a worker, each a process started from the command line; the file tells the address."""
    file = tmp_path / "scheduler.json"
    processes = [
        dask_process("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
    ]
    worker = ["worker", "--scheduler-file", file, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    processes.append(dask_process(*worker, "--local-directory", tmp_path))
    try:
        yield file, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def n_done(out):
    return len(list((out / "samples").glob("*")))


@pytest.mark.slow
def test_scheduler__by_address_and_by_file__and_killed(inputs, tmp_path, cluster, client):
    """Two samples by address; more by file, until the scheduler is killed; the rest elsewhere."""
    file, (scheduler, _) = cluster
    out, model = tmp_path / "out", inputs / "model.toml"
    rows = [[f"s{i}", inputs / f"{NAMES[i % 4]}.tsv"] for i in range(8)]
    write_table(tmp_path / "sheet.tsv", ["sample", "path"], rows)
    write_table(tmp_path / "two.tsv", ["sample", "path"], rows[:2])
    until(lambda: file.exists() and file.read_text().endswith("}"))  # not the empty file that the scheduler begins with
    address = json.loads(file.read_text())["address"]
    result = command(
        tmp_path / "two.tsv", "--scheduler", address, "--model", model, "--seed", SEED, "--tables-only", "--out", out
    )
    assert result.exit_code == 0, result.output
    assert n_done(out) == 2

    def kill():
        until(lambda: n_done(out) >= 3)
        scheduler.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    result = command(tmp_path / "sheet.tsv", "--scheduler-file", file, "--out", out, "--resume")
    killer.join()
    assert result.exit_code == 1, result.output
    assert "the scheduler was lost" in result.stderr
    assert f"continue with: chiasma cohort {tmp_path}/sheet.tsv --out {out} --resume" in result.stderr
    assert 3 <= n_done(out) < 8
    done = cohort(tmp_path / "sheet.tsv", out, client, resume=True, progress=False)
    assert done.in_words == "8 of 8 samples done", done.failed
    run_serially(inputs, tmp_path / "serial", tmp_path / "sheet.tsv")
    # The worker that is left without a scheduler may still run a sample that the others have done.
    until(lambda: not any((out / "unfinished").iterdir()))
    assert differences(tmp_path / "serial", out) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_local_workers__ctrl_c_then_resume(inputs, serial, tmp_path, client):
    """A worker on this machine. A terminal interrupts it as well as the command."""
    out = tmp_path / "out"
    options = f"--model {inputs}/model.toml --seed {SEED} --workers 1 --tables-only --out {out}"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from chiasma.cli import main; main()",
            "cohort",
            f"{inputs}/sheet.tsv",
            *options.split(),
        ],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: n_done(out) >= 1)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=180)
    # All samples may have been done before the interrupt arrived.
    assert process.returncode in (0, 130), told
    assert "Traceback" not in told
    if process.returncode == 130:
        assert re.search(
            r"interrupted: \d of 4 samples done, \d missing; continue with: chiasma cohort .* --resume", told
        )
    cohort(inputs / "sheet.tsv", out, client, resume=True, progress=False)
    assert differences(serial, out) == []


def test_examples__run(inputs, tmp_path, monkeypatch):
    """Those of the help; workers are threads here, and there are no figures."""
    monkeypatch.chdir(tmp_path)

    def in_threads(config, **given):
        return LocalCluster(**given | {"processes": False})

    monkeypatch.setattr("distributed.LocalCluster", in_threads)
    shutil.copy(inputs / "model.toml", "genome.toml")
    write_table(Path("sheet.tsv"), ["sample", "path"], [[name, inputs / f"{name}.tsv"] for name in ("a", "d")])
    tumour = simulated_bins(simulate_tumour(1, n_bins=60, purity=0.7, doubled=False, clones=1))
    places = zip(tumour.chromosome, tumour.start, tumour.end, tumour.depth, strict=True)
    write_table(Path("tumour.tsv"), ["chromosome", "start", "end", "depth"], places)
    write_table(Path("tumours.tsv"), ["sample", "path"], [["a", "tumour.tsv"]])
    for example in EXAMPLES["cohort"]:
        program, _, *arguments = example.split()
        assert program == "chiasma"
        more = [] if arguments[0] in ("run", "merge") else ["--tables-only"]
        more += ["--purity", "0.6-0.8", "--ploidy", "1.8-2.2", "--clones", "1"] if "--tumour" in arguments else []
        result = command(*arguments, *more)
        expected = 1 if arguments[0] == "merge" else 0  # the examples leave one of two tasks to others
        assert result.exit_code == expected, f"{example}\n{result.output}"
