"""One writer of a store: others are refused by name, readers are not; what a dead writer left stops nobody."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import chiasma as ch
import test_store
from chiasma import atomic
from chiasma.errors import InvalidInput, StoreError
from chiasma.storage import locks, store
from chiasma.storage.locks import lock_file, only_writer


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    test_store.small_pieces(monkeypatch.setattr)


# Says when it holds the lock, and holds it until it is told to end.
HOLD = """
import sys
from pathlib import Path
from chiasma.storage.locks import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read(1)
"""


def hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_lock__refuses_a_second_writer_by_the_name_of_the_first_and_no_reader(tmp_path):
    path = tmp_path / "run"
    test_store.run("exact", path, draws=8)
    first = hold(path)
    try:
        for resume in (True, False):
            with pytest.raises(
                StoreError, match=rf"being written by process {first.pid} on {socket.gethostname()} since .*wait until"
            ):
                test_store.run("exact", path, resume=resume)
        test_store.assert_prefix(ch.open_posterior(path), test_store.whole("exact"))
        assert ch.check_store(path).problems == ()
    finally:
        first.communicate("x")
    test_store.assert_same(test_store.run("exact", path, resume=True), test_store.whole("exact"))
    assert not lock_file(path).exists()


def test_lock__of_a_killed_writer_is_free(tmp_path):
    first = hold(tmp_path / "run")
    first.kill()
    first.communicate()
    assert json.loads(lock_file(tmp_path / "run").read_text())["process"] == first.pid
    test_store.assert_same(test_store.run("exact", tmp_path / "run"), test_store.whole("exact"))
    assert not lock_file(tmp_path / "run").exists()


def test_lock__holds_between_threads_as_well(tmp_path):
    refused: list[StoreError] = []

    def second() -> None:
        try:
            with only_writer(tmp_path / "run"):
                pass
        except StoreError as error:
            refused.append(error)

    with only_writer(tmp_path / "run"):
        with only_writer(tmp_path / "run"):  # the call that holds it may ask again
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()
        assert lock_file(tmp_path / "run").exists()
    assert len(refused) == 1
    assert f"process {os.getpid()}" in str(refused[0])


def test_lock__is_released_when_a_run_fails(tmp_path):
    for _ in range(2):
        with pytest.raises(InvalidInput, match="draws must be"):
            test_store.run("exact", tmp_path / "run", draws=0)
    assert list(tmp_path.iterdir()) == []


def test_lock__that_is_removed_while_we_wait_for_it_is_made_again(tmp_path, monkeypatch):
    """The owner before us removed the file between our opening and our locking it."""
    take, calls = locks._take, []

    def late(handle: int) -> bool:
        calls.append(handle)
        if len(calls) == 1:
            lock_file(tmp_path / "run").unlink()
        return take(handle)

    monkeypatch.setattr(locks, "_take", late)
    with only_writer(tmp_path / "run"):
        assert len(calls) == 2
        assert lock_file(tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("owner", "refused"),
    [
        ({"process": os.getpid(), "host": socket.gethostname(), "since": "now"}, True),
        ({"process": 2**22 + 1, "host": socket.gethostname(), "since": "now"}, False),  # no such process
        ({"process": 1, "host": "another", "since": "now"}, True),
        ({}, False),
    ],
)
def test_lock__where_the_file_system_has_none_the_owner_counts(owner, refused, tmp_path, monkeypatch):
    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(locks, "flock", flock)
    lock_file(tmp_path / "run").write_text(json.dumps(owner))
    if refused:
        message = r"being written by .* If there is no such process, delete .*run\.lock"
        with pytest.raises(StoreError, match=message), only_writer(tmp_path / "run"):
            pass
    else:
        with only_writer(tmp_path / "run"):
            pass


def test_writer__stops_when_another_one_has_written_after_all(tmp_path):
    """Where no lock helps (a lock file deleted by hand), the draws of the other are not overwritten."""
    path = tmp_path / "run"
    test_store.run("exact", path, draws=5)
    original, n_seen = store.ZarrTrace.append, 0

    def append(self: store.ZarrTrace, index: int, chunk: Any, own: Any) -> None:
        nonlocal n_seen
        n_seen += 1
        if n_seen == 2:
            lock_file(path).unlink()
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(store.ZarrTrace, "append", original)
                inner.setattr(locks, "_HELD", locks.ContextVar("held", default=frozenset()))
                test_store.run("exact", path, resume=True)
        original(self, index, chunk, own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.ZarrTrace, "append", append)
        with pytest.raises(StoreError, match="was changed by another process"):
            test_store.run("exact", path, resume=True)
    test_store.assert_same(ch.open_posterior(path), test_store.whole("exact"))
    assert ch.check_store(path).problems == ()


@pytest.mark.parametrize("given", [5, b"\xff", [], "a\0b"])
def test_store__must_be_a_path(given):
    with pytest.raises(InvalidInput, match="store must be a path"):
        test_store.run("exact", given)


def test_store__may_be_a_plain_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test_store.assert_same(test_store.run("exact", "rün ü run"), test_store.whole("exact"))  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["rün ü run"]


# ---- Leftovers -------------------------------------------------------------------------------------------------------


def test_leftovers__are_removed_by_the_next_writer_and_nothing_else_is(tmp_path):
    path = tmp_path / "run"
    test_store.run("exact", path, draws=8)
    torn = atomic.partial_name(path)
    (torn / "codes").mkdir(parents=True)
    for folder in (path, path / "codes", path / "checkpoints"):
        atomic.partial_name(folder / "zarr.json").write_bytes(b"torn")
    (path / "checkpoints" / "chain-0-5.npz").write_bytes(b"of an earlier flush")
    mine = [tmp_path / "notes.partial", tmp_path / f"other.{'0' * 32}.partial", path / "notes.txt"]
    for file in mine:
        file.write_text("mine")
    ch.open_posterior(path)
    assert torn.exists()  # readers remove nothing
    test_store.run("exact", path, resume=True)
    left = {file for file in tmp_path.rglob("*") if file.name.endswith(".partial") or file.name == "chain-0-5.npz"}
    assert left == {tmp_path / "notes.partial", tmp_path / f"other.{'0' * 32}.partial"}
    assert all(file.read_text() == "mine" for file in mine)


def test_partial_names__follow_no_link(tmp_path):
    """A name that somebody could guess would let them choose where we write."""
    (tmp_path / "victim").write_text("mine")
    for name in ("states.tsv.partial", "states.tsv"):
        (tmp_path / name).symlink_to(tmp_path / "victim")
    atomic.write_text(tmp_path / "states.tsv", "ours")
    with atomic.whole_file(tmp_path / "states.tsv") as partial:
        partial.write_text("ours again")
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "states.tsv").is_symlink()
    assert (tmp_path / "states.tsv").read_text() == "ours again"


def test_write__of_names_as_long_as_the_system_allows(tmp_path):
    for name in ("a" * 255, "ü" * 127):
        atomic.write_text(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"


@pytest.mark.parametrize("name", ["codes", "checkpoints", "y"])
def test_resume__refuses_a_store_that_leads_elsewhere(name, tmp_path):
    path = tmp_path / "run"
    test_store.run("exact", path, draws=8)
    (path / name).rename(tmp_path / "elsewhere")
    (path / name).symlink_to(tmp_path / "elsewhere")
    before = test_store.files(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=f"{name} is a symbolic link"):
        test_store.run("exact", path, resume=True)
    assert test_store.files(tmp_path / "elsewhere") == before


def test_lock__of_a_process_of_somebody_else_holds(tmp_path, monkeypatch):
    """We may not send it anything, so it runs."""

    def kill(process: int, number: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "kill", kill)
    assert locks.Owner(1, socket.gethostname(), "now").may_live()


@pytest.mark.parametrize("broken", ["open", "flock", "write"])
def test_lock__that_cannot_be_made_is_a_store_error(broken, tmp_path, monkeypatch):
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    if broken == "flock":
        monkeypatch.setattr(locks, "flock", fail)
    else:
        monkeypatch.setattr(locks.os, broken, fail)
    with pytest.raises(StoreError, match=r"cannot (create|write to) .*run\.lock: Input/output error; "):
        locks._lock(tmp_path / "run", lock_file(tmp_path / "run"))


def test_store__in_a_directory_that_cannot_be_written_to_is_refused_before_sampling(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StoreError, match=r"cannot create .*run: Permission denied; choose another path"):
        test_store.run("exact", tmp_path / "run")
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file is not a directory; choose another path"):
        test_store.run("exact", tmp_path / "file" / "run")
