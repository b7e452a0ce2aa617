"""Files of a cohort that are damaged, swapped or restored from another time: named, with the others going on."""

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from chiasma import atomic
from chiasma.cli import app
from chiasma.cohort.api import begin_cohort, changed_data, check_cohort, cohort_settings, merge_cohort, run_cohort_task
from chiasma.cohort.directory import CohortDirectory
from chiasma.cohort.plan import CohortPlan
from chiasma.datasets.genome import tumour_genome
from chiasma.errors import ChiasmaError, InvalidInput, StoreError
from chiasma.io.settings import Settings, settings_of
from chiasma.io.tables import write_table
from chiasma.storage.digests import read_sealed, write_sealed
from chiasma.storage.locks import only_writer

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from compare_cohorts import differences

NAMES = ("a", "b", "c")
SEED = 4


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    for i, name in enumerate(NAMES):
        signal = tumour_genome(i, 30).signal
        lines = zip(signal.chromosome, signal.position, signal.data.y, strict=True)
        write_table(folder / f"{name}.tsv", ["chromosome", "position", "value"], lines)
    write_table(folder / "sheet.tsv", ["sample", "path"], [[name, f"{name}.tsv"] for name in NAMES])
    columns = {"chromosome": "chromosome", "position": "position"}
    sampler = {"draws": 8, "chains": 2, "warmup": 4}
    given = settings_of(tumour_genome(0, 30).model) | {"data": columns, "sampler": sampler}
    Settings(**given).write(folder / "model.toml", "Settings of a test.")
    return folder


def begun(inputs, out, sheet=None, **options):
    settings = cohort_settings(inputs / "model.toml")
    return begin_cohort(sheet or inputs / "sheet.tsv", out, settings, seed=SEED, tables_only=True, **options)


def run(out):
    """The samples that are missing, and then what all of them have together."""
    for task in range(CohortPlan.read(out / "cohort.json").n_tasks):
        run_cohort_task(out, task, lambda text: None)
    return merge_cohort(CohortDirectory(out))


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    begun(inputs, out)
    assert run(out).in_words == "3 of 3 samples done"
    return out


@pytest.fixture
def out(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def probabilities(out):
    return xr.open_zarr(out / "cohort.zarr")["probability"].load()


def sealed(path, **changes):
    write_sealed(path, read_sealed(path) | changes)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def swap(one, other):
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def replaced_by_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def replaced_by_a_folder(path):
    path.unlink()
    path.mkdir()


WAYS = {
    "flipped": flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "empty": lambda path: path.write_bytes(b""),
    "removed": Path.unlink,
    "a pipe": replaced_by_a_pipe,
    "a folder": replaced_by_a_folder,
    "of another sample": lambda path: shutil.copy(path.parents[1] / "a" / path.name, path),
}


@pytest.mark.parametrize(
    ("name", "way"),
    [(("summaries.npz", "outcome.json", "picture.png")[n % 3], way) for n, way in enumerate(WAYS)]
    + [("outcome.json", "flipped"), ("picture.png", "flipped"), ("summaries.npz", "truncated")],
)
def test_merge__names_the_damaged_sample_and_goes_on_with_the_others(name, way, whole, out):
    """Before, changed summaries went into cohort.zarr in silence, and damaged ones stopped the merge."""
    before = probabilities(whole)
    WAYS[way](out / "samples/b" / name)
    found = merge_cohort(CohortDirectory(out))
    assert [one.status for one in found.outcomes] == ["done", "damaged", "done"]
    assert found.in_words == "2 of 3 samples done, 1 damaged"
    assert f"samples/b/{name} cannot be read" in found.outcomes[1].error
    assert "--again b" in found.outcomes[1].error
    merged = probabilities(out)
    assert np.isnan(merged.sel(sample="b")).all()
    assert merged.drop_sel(sample="b").equals(before.drop_sel(sample="b"))
    # A later job leaves the damaged sample alone, and says so.
    assert [one.status for one in run(out).outcomes] == ["done", "damaged", "done"]


@pytest.mark.parametrize("what", ["summaries.npz", "outcome.json", ""])
def test_merge__of_samples_whose_files_were_swapped(what, out):
    for name in (what,) if what else ("outcome.json", "summaries.npz", "picture.png", "run.zarr/zarr.json"):
        swap(out / "samples/a" / name, out / "samples/b" / name)
    found = merge_cohort(CohortDirectory(out))
    assert [one.status for one in found.outcomes] == ["damaged", "damaged", "done"]


def test_merge__whole_directories_swapped(out):
    (out / "samples/a").rename(out / "samples/x")
    (out / "samples/b").rename(out / "samples/a")
    (out / "samples/x").rename(out / "samples/b")
    found = merge_cohort(CohortDirectory(out))
    assert [one.status for one in found.outcomes] == ["damaged", "damaged", "done"]
    assert "it belongs to the sample 'b'" in found.outcomes[0].error


@pytest.mark.parametrize("key", ["name", "mark"])
def test_merge__an_outcome_of_another_sample_with_a_sound_digest(key, out):
    sealed(out / "samples/b/outcome.json", **{key: "d"})
    assert [one.status for one in merge_cohort(CohortDirectory(out)).outcomes] == ["done", "damaged", "done"]


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": 3},
        {"warnings": 1},
        {"unknown": 1},
        {"files": None},
        {"files": {}},
        {"status": "missing"},
        {"key_results": {"rhat": "low"}},
        {"parameters": {"sd": {"mean": 1.0}}},
    ],
)
def test_merge__an_outcome_that_is_none(change, out):
    sealed(out / "samples/b/outcome.json", **change)
    assert merge_cohort(CohortDirectory(out)).outcomes[1].status == "damaged"


def test_plan__that_was_edited_is_refused(out):
    content = json.loads((out / "cohort.json").read_text())
    content["samples"][1]["name"] = "d"
    (out / "cohort.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match=r"cohort\.json cannot be read \(it does not match its digest\)"):
        merge_cohort(CohortDirectory(out))


def test_plan__of_an_earlier_time_leaves_no_sample_out_in_silence(inputs, out):
    kept = (out / "cohort.json").read_bytes()
    records = [{"sample": name, "path": str(inputs / f"{name[0]}.tsv")} for name in (*NAMES, "a2")]
    begun(inputs, out, records, resume=True)
    assert run(out).in_words == "4 of 4 samples done"
    (out / "cohort.json").write_bytes(kept)
    assert merge_cohort(CohortDirectory(out)).strangers == ("a2",)
    assert any("samples/a2 is not in the sheet" in text for text in check_cohort(out).problems)


def test_results__of_an_earlier_time_or_of_other_settings_are_noticed(inputs, out):
    shutil.copytree(out / "samples/b", out.parent / "b")
    begun(inputs, out, resume=True, again=["b"])
    assert not (out / "samples/b").exists()
    assert run(out).in_words == "3 of 3 samples done"
    shutil.rmtree(out / "samples/b")
    (out.parent / "b").rename(out / "samples/b")
    assert "were others when it was made" in merge_cohort(CohortDirectory(out)).outcomes[1].error


def test_again__does_a_damaged_sample_anew_and_nothing_else(inputs, whole, out):
    flip(out / "samples/b/summaries.npz")
    untouched = (out / "samples/a/outcome.json").stat().st_mtime_ns
    begun(inputs, out, resume=True, again=["b"])
    assert run(out).in_words == "3 of 3 samples done"
    assert (out / "samples/a/outcome.json").stat().st_mtime_ns == untouched
    assert differences(whole / "samples/b", out / "samples/b") == ["outcome.json"]  # by its mark
    assert not check_cohort(out).problems
    with pytest.raises(InvalidInput, match="got 'd'"):
        begun(inputs, out, resume=True, again=["d"])
    with pytest.raises(InvalidInput, match="needs an existing cohort"):
        begun(inputs, out.parent / "new", resume=True, again=["a"])


def test_check__every_file(whole, out):
    """Every file of a cohort is covered, also those that merge does not read."""
    assert check_cohort(out).problems == ()
    files = [path.relative_to(out) for path in sorted(out.rglob("*")) if path.is_file()]
    assert check_cohort(out).n_files >= len(files) - len(NAMES) - 2  # JSON files with a digest of their own
    ways = ["flipped", "truncated", "removed", "a pipe", "a folder"]
    for n, file in enumerate(files):
        way = ways[n % len(ways)] if file.name != "cohort.json" else "flipped"
        WAYS[way](out / file)
        try:
            problems = check_cohort(out).problems
        except StoreError as error:
            problems = (str(error),)
        assert any(str(out / file) in text for text in problems), file
        if (out / file).is_dir():
            (out / file).rmdir()
        (out / file).unlink(missing_ok=True)
        shutil.copy(whole / file, out / file)


def test_check__changes_nothing_and_is_a_command(out):
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}

    def command(*words):
        return CliRunner().invoke(app, ["cohort", *map(str, words)])

    sound = command("check", out)
    assert (sound.exit_code, sound.stderr) == (0, "")
    assert "is sound" in sound.stdout
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    flip(out / "samples/c/run.zarr/zarr.json")
    result = command("check", out)
    assert result.exit_code == 1
    assert "samples/c/run.zarr/zarr.json" in result.stderr
    assert "--again c" in result.stderr
    flip(out / "samples/a/picture.png")
    result = command("merge", out)
    assert result.exit_code == 1
    assert result.stderr.startswith("a is damaged: ")
    assert command("merge", out, "--again", "a").exit_code == 2


def test_failures__whose_record_is_damaged_still_failed(inputs, tmp_path):
    records = [{"sample": name, "path": "none.tsv"} for name in "ab"]
    out = tmp_path / "out"
    begun(inputs, out, records)
    assert run(out).in_words == "0 of 2 samples done, 2 failed"
    swap(out / "failures/a.json", out / "failures/b.json")
    found = merge_cohort(CohortDirectory(out))
    assert [one.status for one in found.outcomes] == ["failed", "failed"]
    assert "failures/a.json cannot be read" in found.outcomes[0].error
    assert "failures/a.json cannot be read" in check_cohort(out).problems[0]


def test_data__that_changed_since_are_told_by_check_and_resume(inputs, out, tmp_path):
    copy = tmp_path / "inputs"
    shutil.copytree(inputs, copy)
    plan = CohortPlan.read(out / "cohort.json")
    samples = [one._replace(path=str(copy / f"{one.name}.tsv")) for one in plan.samples]
    outcomes = check_cohort(out).cohort.outcomes
    moved = replace(plan, samples=samples)
    assert changed_data(moved, outcomes) == []
    (copy / "a.tsv").write_text("value\n1\n")
    (copy / "b.tsv").unlink()  # after it was done, it is not needed
    (text,) = changed_data(moved, outcomes)
    assert str(copy / "a.tsv") in text
    assert "--again a" in text


def test_summaries__of_a_store_that_was_damaged_since_it_was_merged(out):
    found = merge_cohort(CohortDirectory(out))
    assert found.summaries().sizes["sample"] == len(NAMES)
    chunk = next(path for path in (out / "cohort.zarr/probability/c").rglob("*") if path.is_file())
    kept = chunk.read_bytes()
    chunk.unlink()  # zarr alone would read it as missing values
    with pytest.raises(StoreError, match="chiasma cohort merge"):
        found.summaries()
    chunk.write_bytes(kept)
    (out / "cohort.zarr/probability/c/9").mkdir()
    shutil.copy(chunk, out / "cohort.zarr/probability/c/9/added")  # where values are missing, there is no chunk
    with pytest.raises(StoreError, match="it was not there"):
        found.summaries()


def test_merge__removes_the_temporary_files_of_a_killed_one(out):
    for name in ("cohort.json", "cohort.tsv", "index.html", "merged.json", "failures/a.json"):
        atomic.partial_name(out / name).write_text("half")
    atomic.partial_name(out / "cohort.zarr").mkdir()
    merge_cohort(CohortDirectory(out))
    assert list(out.rglob("*.partial")) == []


def test_merge__is_refused_while_another_process_merges(out):
    """Before, each removed what the other was writing."""
    with ThreadPoolExecutor(1) as pool, only_writer(out / "merged.json"):
        other = pool.submit(merge_cohort, CohortDirectory(out))
        with pytest.raises(StoreError, match="is being written by process"):
            other.result()
    assert merge_cohort(CohortDirectory(out)).in_words == "3 of 3 samples done"
    assert not (out / "merged.json.lock").exists()


@pytest.mark.parametrize("name", ["cohort.tsv", "cohort.zarr", "index.html", "merged.json"])
def test_merge__where_something_else_has_the_name_of_a_file(name, out):
    elsewhere = out.parent / "elsewhere"
    elsewhere.mkdir()
    if (out / name).is_dir():
        shutil.rmtree(out / name)
        (out / name).symlink_to(elsewhere)
    else:
        (out / name).unlink()
        (out / name).mkdir()
    if name == "cohort.zarr":
        merge_cohort(CohortDirectory(out))
    else:
        with pytest.raises(ChiasmaError, match=name):
            merge_cohort(CohortDirectory(out))
    assert list(elsewhere.iterdir()) == []
    assert list(out.glob("*.partial")) == []
