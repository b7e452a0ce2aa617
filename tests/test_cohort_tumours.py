"""Cohorts of tumours: `chiasma tumour` for every line of a sheet."""

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from chiasma.cli import app
from chiasma.cohort.api import begin_cohort, cohort, merge_cohort, run_cohort_task, tumour_settings
from chiasma.cohort.directory import FIRST, LAST
from chiasma.datasets.tumours import simulate_tumour
from chiasma.errors import InvalidInput
from chiasma.io.tables import write_table
from chiasma.tumour.analysis import TumourSettings
from chiasma.tumour.bins import simulated_bins

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from compare_cohorts import differences

from test_cohort import threads

# Bounds that leave little to search.
NARROW = {"purity": "0.5-0.9", "ploidy": "1.6-2.4", "clones": "1"}
SEED = 3


def write_samples(path, seeds):
    """One file with a sample per seed."""
    lines = []
    for seed in seeds:
        bins = simulated_bins(simulate_tumour(seed, n_bins=60, purity=0.7, doubled=False, clones=1, events=8))
        depth = np.round(bins.depth, 6)
        lines += zip([f"s{seed}"] * bins.n_bins, bins.chromosome, bins.start, bins.end, depth, strict=True)
    write_table(path, ["sample", "chromosome", "start", "end", "depth"], lines)


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tumours")
    write_samples(folder / "two.tsv", (1, 2))
    (folder / "damaged.tsv").write_text("chromosome\tstart\tend\tdepth\n1\t0\t10\t1.5\n1\t10\t20\tmany\n")
    rows = [
        ["first", "two.tsv", "s1", "0.7"],
        ["second", "two.tsv", "s2", ""],
        ["both", "two.tsv", "", ""],
        ["damaged", "damaged.tsv", "", ""],
    ]
    write_table(folder / "sheet.tsv", ["sample", "path", "sample_in_file", "purity"], rows)
    return folder / "sheet.tsv"


@pytest.fixture(scope="module")
def serial(sheet, tmp_path_factory):
    """As jobs of an array, one after the other."""
    out = tmp_path_factory.mktemp("serial") / "out"
    directory, plan = begin_cohort(
        sheet, out, tumour_settings(**NARROW), workflow="tumour", seed=SEED, tables_only=True
    )
    for task in range(plan.n_tasks):
        run_cohort_task(out, task, lambda text: None)
    assert merge_cohort(directory).in_words == "2 of 4 samples done, 2 failed"
    return out


def test_tumours__same_bytes_on_workers(sheet, serial, tmp_path):
    with threads(2, 1) as client:
        options = {"seed": SEED, "tables_only": True, "progress": False}
        done = cohort(sheet, tmp_path / "out", client, tumour=True, **NARROW, **options)
        assert done.count("done") == 2
        assert differences(serial, tmp_path / "out") == []
        # The settings of the cohort are known, and what failed is tried again.
        again = cohort(sheet, tmp_path / "out", client, resume=True, progress=False)
    assert [outcome.name for outcome in again.failed] == ["both", "damaged"]
    with pytest.raises(InvalidInput, match=r"begun in another way: settings\.clones"):
        cohort(sheet, tmp_path / "out", tumour=True, **NARROW | {"clones": "2"}, resume=True, progress=False)


def test_tumours__table_store_and_directories(serial):
    with (serial / "cohort.tsv").open(newline="") as file:
        rows = {row["sample"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert float(rows["first"]["purity"]) == pytest.approx(0.7)  # given in the sheet
    assert 0.5 <= float(rows["second"]["purity"]) <= 0.9
    assert "two.tsv has 2 samples: 's1', 's2'; give each a line" in rows["both"]["error"]
    assert "damaged.tsv, line 3" in rows["damaged"]["error"]
    told = json.loads((serial / "samples/second/summary.json").read_text())
    assert told["solutions"][0]["ploidy"] == pytest.approx(float(rows["second"]["ploidy"]))
    assert (serial / "samples/second/solution_1/segments.tsv").exists()
    assert not (serial / "samples/second/figures").exists()
    with xr.open_zarr(serial / "cohort.zarr") as found:
        copies = found["copies"].sel(sample=["first", "second"]).values
        assert copies.shape == (2, 60)
        assert np.all((copies >= 0) & (copies <= 7))
        assert found["copies"].sel(sample="both").isnull().all()
        assert found["chromosome"].values[0] == "1"
        np.testing.assert_array_less(found["parameter_q05"].values[:2], found["parameter_q95"].values[:2] + 1e-12)
    assert "dark above where copies are gained" in (serial / "index.html").read_text()


def test_tumours__every_column_is_on_the_page(serial):
    page = (Path(__file__).parents[1] / "docs/cohort-laptop.md").read_text(encoding="utf-8")
    section = page.partition("\n## Tumours\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    told = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    with (serial / "cohort.tsv").open(newline="") as file:
        rows = {row["sample"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert list(rows["first"]) == [*FIRST, *told, *LAST]
    for name in ("first", "second"):
        with (serial / "samples" / name / "solutions.tsv").open(newline="") as file:
            probable = [float(row["probability"]) >= 0.01 for row in csv.DictReader(file, delimiter="\t")]
        assert float(rows[name]["solutions"]) == sum(probable)
    assert "have a probability of at least 1%" in section


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"female": "maybe"}, "female must be yes or no, got 'maybe'"),
        ({"max_copies": "many"}, "max_copies must be a whole number, got 'many'"),
        ({"max_copies": "99"}, r"max_copies must be in 3\.\.12, got 99"),
        ({"purity": "high"}, r"--purity takes a number or LOW-HIGH within 0\.05-1, got 'high'"),
        ({"clones": "3-1"}, "--clones takes a number or LOW-HIGH within 1-3"),
        ({"assembly": "hg99"}, "hg99"),
        ({"sd": "1"}, "there is no setting 'sd' of a tumour"),
    ],
)
def test_sheet__mistakes_of_tumours(cells, message, tmp_path):
    record = {"sample": "a", "path": "a.tsv", **cells}
    with pytest.raises(InvalidInput, match=message):
        cohort([record], tmp_path / "out", tumour=True, progress=False)


def test_sheet__files_start_at_its_folder_and_cells_are_settings(tmp_path):
    write_table(
        tmp_path / "sheet.csv",
        ["sample", "path", "alleles", "female", "region", "max_copies"],
        [["a", "a.tsv", "sub/a.hets.tsv", "yes", "8q;9p", 8]],
    )
    _, plan = begin_cohort(tmp_path / "sheet.csv", tmp_path / "out", {}, workflow="tumour", seed=1)
    (sample,) = plan.samples
    assert sample.settings == {
        "alleles": str(tmp_path / "sub/a.hets.tsv"),
        "female": True,
        "region": ["8q;9p"],
        "max_copies": 8,
    }


def test_settings__a_ploidy_is_known_to_a_tenth():
    bounds = TumourSettings(ploidy="2.1").bounds
    assert bounds.ploidy == pytest.approx((2.0, 2.2))


def test_command__options_of_the_other_workflow_are_refused(sheet, tmp_path):
    def refused(*arguments):
        result = CliRunner().invoke(app, ["cohort", str(sheet), "--out", str(tmp_path / "out"), *arguments])
        assert result.exit_code == 2
        return " ".join(result.stderr.split())

    assert "--sd, --draws belongs to chiasma fit" in refused("--tumour", "--sd", "1", "--draws", "5")
    assert "--clones belongs to chiasma tumour; add --tumour" in refused("--clones", "1")
    with pytest.raises(InvalidInput, match="a cohort of tumours has its own model"):
        tumour_settings("model.toml")


def test_command__begins_a_cohort_of_tumours(sheet, tmp_path):
    command = ["cohort", "init", str(sheet), "--out", str(tmp_path / "out"), "--seed", "1", "--tumour", "--female"]
    result = CliRunner().invoke(app, [*command, "--region", "8q", "--region", "9p"])
    assert result.exit_code == 0, result.output
    plan = json.loads((tmp_path / "out/cohort.json").read_text())
    assert plan["workflow"] == "tumour"
    assert plan["settings"] == {"female": True, "region": ["8q", "9p"]}
