"""Power cuts: after any operation of a run, what was committed is there, whatever the disk had not yet kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import chiasma as ch
import test_store
from chiasma.cli import app
from chiasma.errors import ChiasmaError, StoreError
from chiasma.storage import reading, store
from power_cut import CUTS, Recorder, write_tree


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    test_store.small_pieces(monkeypatch.setattr)


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Notes the draws of every chain at each commit."""
    for name in ("disk", "keep"):
        (tmp_path / name).mkdir()
    made = Recorder(tmp_path / "disk", tmp_path / "keep")
    commit = store.ZarrTrace._commit

    def noted(self: store.ZarrTrace) -> None:
        commit(self)
        if not self.path.name.endswith(".partial"):
            made.note = list(self.header["committed"])

    monkeypatch.setattr(store.ZarrTrace, "_commit", noted)
    return made


def survived(path: Path, kind: str) -> list[int] | None:
    """The draws of every chain, which are the right ones; None where there is no run."""
    if not path.exists():
        return None
    found: list[int] = reading.read_header(path)["committed"]
    if min(found):
        test_store.assert_prefix(ch.open_posterior(path), test_store.whole(kind))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "every"), [("exact", 1), ("compiled", 4)])
def test_power_cut__after_any_operation_of_a_run(kind, every, recorder, tmp_path):
    """Exact draws write as an ensemble does, which is tried at some operations here and at all by verification.

    Many operations leave the same files; these are read once, and compared with what was committed each time.
    """
    test_store.whole(kind)
    with recorder.recording():
        test_store.stopped(kind, recorder.root / "run", 3)
        test_store.run(kind, recorder.root / "run", resume=True)
    assert len(recorder.moments) > 100
    known: dict[frozenset[Any], list[int] | None] = {}
    for number, moment in enumerate(recorder.moments[::every]):
        for cut in CUTS:
            out, tree = tmp_path / f"{number}-{cut}", recorder.left(moment, cut)
            files = frozenset(tree.items())
            if files not in known or number % 40 == 0:
                write_tree(tree, out)
                known[files] = survived(out / "run", kind)
            found = known[files]
            if found is None:
                assert moment.note is None
            else:
                assert all(n >= m for n, m in zip(found, moment.note or [0, 0], strict=True))
            if number % 40 == 0:
                resumed = test_store.run(kind, out / "run", resume=True)
                test_store.assert_same(resumed, test_store.whole(kind))
                assert ch.check_store(out / "run").problems == ()
                assert not list(out.rglob("*.partial"))
    reached = {tuple(found or [0, 0]) for found in known.values()}
    assert {(0, 0), (test_store.DRAWS, test_store.DRAWS)} <= reached


def test_power_cut__destroys_a_run_that_is_not_durable(recorder, tmp_path):
    """The proof above can fail: without syncs nothing would survive."""
    with recorder.recording():
        test_store.run("exact", recorder.root / "run", durable=False)
    recorder.replay(recorder.moments[-1], "kept", tmp_path / "after")
    with pytest.raises(StoreError, match="is not a chiasma run"):
        ch.open_posterior(tmp_path / "after" / "run")


@pytest.mark.slow
def test_power_cut__after_any_operation_of_a_fit(recorder, tmp_path, monkeypatch):
    """Whatever is left, the same command or the same command with --resume ends with the same draws."""
    data = tmp_path / "data.csv"
    data.write_text("\n".join(map(str, np.random.default_rng(1).normal(1, 0.5, 30).round(3))))
    model = ["--weights", "1,0.5", "--sd", "0.5", "--enter", "0.1", "--seed", "1", "--draws", "12", "--chains", "2"]
    command = ["fit", str(data), *model, "--workers", "1", "-q", "--out"]
    # Tables and figures can be written again.
    monkeypatch.setattr("chiasma.report.fitting.write_report", lambda *_, **__: None)

    def fit(out: Path, *more: str) -> Any:
        return CliRunner().invoke(app, [*command, str(out), *more])

    with recorder.recording():
        assert fit(recorder.root / "run").exit_code == 0
    expected = ch.open_posterior(recorder.root / "run" / "run.zarr").draws.values
    last = next(n for n, moment in enumerate(recorder.moments) if moment.note == [12, 12])
    tried = set()
    for number, moment in enumerate(recorder.moments[:last:12]):
        for cut in CUTS:
            out, tree = tmp_path / f"{number}-{cut}", recorder.left(moment, cut)
            files = frozenset(tree.items())
            if files in tried:
                continue
            tried.add(files)
            write_tree(tree, out)
            done = fit(out / "run", "--resume")
            if done.exit_code:
                assert "drop --resume to start one" in done.output, done.output
                done = fit(out / "run")
            assert done.exit_code == 0, (moment.operation, cut, done.output)
            np.testing.assert_array_equal(ch.open_posterior(out / "run" / "run.zarr").draws, expected)


def test_sync__of_a_new_store_covers_everything_in_it(recorder):
    """Files that a library wrote for us as well."""
    with recorder.recording():
        test_store.run("exact", recorder.root / "run")
    named = next(moment for moment in recorder.moments if moment.operation.startswith("rename"))
    files = {inode for names in named.seen.values() for inode, is_folder in names.values() if not is_folder}
    locks = {inode for names in named.seen.values() for name, (inode, _) in names.items() if name.endswith(".lock")}
    assert len(files) > 8
    assert files - locks <= named.contents.keys()


def test_write__fails_where_the_disk_says_that_it_could_not_sync(tmp_path, monkeypatch):
    import os

    def fsync(handle: int) -> None:
        raise OSError(5, "Input/output error")

    test_store.run("exact", tmp_path / "run", draws=8)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ChiasmaError, match=r"cannot write to .*Input/output error"):
        test_store.run("exact", tmp_path / "run", resume=True)
    monkeypatch.undo()
    assert ch.check_store(tmp_path / "run").problems == ()
