"""Temporary files: those of killed writers are removed, those of writers that live are not."""

import subprocess
import sys

import numpy as np
import pytest

from chiasma import atomic
from chiasma.io.settings import Settings
from chiasma.report.fitting import fit_file
from chiasma.report.run_directory import RunDirectory

WRITER = """
import sys, time
from pathlib import Path
from chiasma import atomic
with atomic.whole_file(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    print("writing", flush=True)
    time.sleep(600)
"""


def writer(path):
    """Begin to write a file in another process; returns the process."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "writing\n"
    return process


def test_tidy__removes_what_a_killed_writer_left_and_nothing_else(tmp_path):
    alive = writer(tmp_path / "alive.png")
    dead = writer(tmp_path / "dead.png")
    try:
        dead.kill()
        dead.communicate()
        (tmp_path / "notes.partial").write_text("mine")
        assert len(atomic.partials(tmp_path)) == 2
        atomic.tidy(tmp_path, tmp_path / "nowhere")
        assert [path.name[:5] for path in atomic.partials(tmp_path)] == ["alive"]
        with atomic.whole_file(tmp_path / "own.txt") as partial:
            partial.write_text("whole")
            atomic.tidy(tmp_path)
        assert (tmp_path / "own.txt").read_text() == "whole"
    finally:
        alive.kill()
        alive.communicate()
    atomic.tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.partial", "own.txt"]


@pytest.mark.parametrize("age", [0.0, 2 * atomic.OLD])
def test_tidy__without_locks_age_tells(age, tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_flock", None)
    path = atomic.partial_name(tmp_path / "level.png")
    path.write_text("half")
    monkeypatch.setattr(atomic.time, "time", lambda: path.stat().st_mtime + age)
    atomic.tidy(tmp_path)
    assert path.exists() == (age == 0.0)


def test_report__removes_what_killed_writers_of_reports_left(tmp_path):
    """Before, only files that were an hour old were removed, and none of figures/diagnostics."""
    data = tmp_path / "data.csv"
    data.write_text("value\n" + "\n".join(map(str, np.arange(30) % 3)) + "\n")
    run = RunDirectory(tmp_path / "out")
    model = {"weights": [1.0, 1.0], "enter": 0.1, "leave": 0.1, "sd": 1.0}
    settings = Settings(model=model, sampler={"draws": 4, "chains": 2, "seed": 1})
    fit_file(data, settings, run, tables_only=True)
    folders = [run.path, run.path / "figures", run.path / "figures" / "diagnostics"]
    for folder in folders:
        folder.mkdir(exist_ok=True)
        process = writer(folder / "level.png")
        process.kill()
        process.communicate()
    fit_file(data, settings, run, tables_only=True, resume=True)
    assert [path for folder in folders for path in atomic.partials(folder)] == []
