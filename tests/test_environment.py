"""The surroundings of a process: read-only places, damaged caches, forks, threads and limits of the system."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import chiasma as ch
import test_store
from chiasma import _kernel_cache as cache
from chiasma.kernels.codes import count_bits

JIT = not numba.config.DISABLE_JIT
needs_jit = pytest.mark.skipif(not JIT, reason="nothing is compiled")

KERNEL = """
from chiasma._jit import njit

@njit
def triple(x):
    return 3 * x
"""
CALL = """
import sys; sys.path.insert(0, sys.argv[1]); import kernel
print(kernel.triple(14), sum(kernel.triple.stats.cache_hits.values()))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a kernel of its own, and a cache of its own beside it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "kernel.py").write_text(KERNEL)
    return tmp_path / "place"


def loaded(place: Path) -> tuple[int, int]:
    """Answer of the kernel, loaded anew, and how often it came from the cache."""
    spec = spec_from_file_location("kernel", place / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.triple(14), sum(module.triple.stats.cache_hits.values())


def call(place: Path, **environment: str | None) -> tuple[str, str]:
    """Answer and messages of the kernel in a process of its own; None takes a variable away."""
    env = os.environ | {name: value for name, value in environment.items() if value is not None}
    for name, value in environment.items():
        if value is None:
            env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(place)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def kept(place: Path) -> dict[str, Path]:
    return {file.suffix: file for file in place.parent.glob("cache/*/kernel.triple*")}


@needs_jit
def test_cache__is_used_and_what_is_damaged_is_compiled_again(module):
    """Truncated, flipped, of a class that no longer exists, of another version: never an error, never old code."""
    assert loaded(module) == (42, 0)
    assert loaded(module) == (42, 1)
    files = kept(module)
    assert set(files) == {".nbi", ".nbc"}
    contents = {suffix: file.read_bytes() for suffix, file in files.items()}
    flipped = bytearray(contents[".nbc"])
    flipped[len(flipped) // 2] ^= 16
    # An index that names a class which no longer exists cannot be unpickled.
    renamed = pickle.dumps(numba.__version__) + b"\x80\x04\x8c\x07chiasma\x8c\x07Renamed\x93."
    half = {suffix: content[: len(content) // 2] for suffix, content in contents.items()}
    damage = [(".nbi", b""), (".nbi", half[".nbi"]), (".nbi", contents[".nbi"][:-1]), (".nbi", renamed)]
    damage += [(".nbc", b""), (".nbc", half[".nbc"]), (".nbc", contents[".nbc"][:-30]), (".nbc", bytes(flipped))]
    for suffix, content in damage:
        files[suffix].write_bytes(content)
        assert loaded(module) == (42, 0)
        assert loaded(module) == (42, 1)
        for name, file in files.items():
            file.write_bytes(contents[name])
    assert loaded(module) == (42, 1)


@needs_jit
def test_cache__names_kernels_by_content(module):
    """A copy elsewhere finds the kernel, touched or not; a change of the file or of what it imports does not."""
    assert loaded(module) == (42, 0)
    copy = module.parent / "copy"
    copy.mkdir()
    (copy / "kernel.py").write_text(KERNEL)
    assert loaded(copy) == (42, 1)
    cache.source_digest.cache_clear()
    # Of another length: Python takes a module edited within one second, and as long as before, from its bytecode.
    (copy / "kernel.py").write_text(KERNEL.replace("3 *", "20 *"))
    assert loaded(copy) == (280, 0)


@needs_jit
def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(count_bits)) is count_bits


def test_cache__digest_depends_on_imported_modules(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    inner, middle, outer = (tmp_path / f"{name}.py" for name in ("inner", "middle", "outer"))
    inner.write_text("x = 1")
    middle.write_text("from chiasma.inner import x")
    outer.write_text("from chiasma.middle import x")
    cache._imported.cache_clear()
    found = []
    for content in ("x = 1", "x = 2", "x = 1"):
        inner.write_text(content)
        cache.source_digest.cache_clear()
        found.append(cache.source_digest(outer))
    assert found[0] == found[2] != found[1]


def test_cache__removes_outdated_versions_of_a_kernel(tmp_path):
    files = [cache.KernelFile(str(tmp_path), f"kernel-{version}", version) for version in "abc"]
    files[0].save("key", ("a",))
    for file in tmp_path.glob("kernel-a*"):
        os.utime(file, (0, 0))
    files[1].save("key", ("b",))
    files[2].save("key", ("c",))
    assert [file.load("key") for file in files] == [None, ("b",), ("c",)]


def test_cache__of_many_processes_that_compile_at_once(tmp_path):
    """Each writes another kernel under the same name; none gets the code of another."""
    files = [cache.KernelFile(str(tmp_path), "kernel", b"source") for _ in range(8)]
    threads = [threading.Thread(target=file.save, args=(n, ("code", n))) for n, file in enumerate(files)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {n: files[0].load(n) for n in range(8)}
    assert found == {n: ("code", n) for n in range(8)}


def test_cache__that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.KernelFile, "save", full)
    monkeypatch.setattr(cache.KernelCacheImpl, "check_cachable", lambda *_: True)
    monkeypatch.setattr(cache.KernelCacheImpl, "reduce", lambda *_: ())
    kernel = cache.KernelCache(test_cache__that_cannot_be_written_is_no_error)
    monkeypatch.setattr(kernel, "_index_key", lambda *_: "key")

    class Made:
        codegen = None

    kernel.save_overload("signature", Made())


def test_cache__where_nothing_can_be_written(tmp_path, monkeypatch, caplog):
    """Neither the package nor a home: a directory of our own among the temporary files, and one line that says so."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(cache.TemporaryLocator, "_folder", None)
    with caplog.at_level(logging.WARNING, "chiasma"):
        for _ in range(2):
            assert Path(cache.TemporaryLocator.folder()).parent == tmp_path
    assert len(caplog.records) == 1
    assert "NUMBA_CACHE_DIR" in caplog.text
    folder = Path(cache.TemporaryLocator.folder())
    assert folder.stat().st_mode & 0o777 == 0o700
    # Code is never taken from a directory that others can write to.
    folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cache.TemporaryLocator, "_folder", None)
    assert Path(cache.TemporaryLocator.folder()) != folder


@needs_jit
def test_cache__without_a_home(module, tmp_path):
    """Being root, nothing is read-only for us: a file in the place of the directory does the same."""
    (tmp_path / "file").write_text("no home")
    surroundings = {
        "HOME": str(tmp_path / "file"),
        "XDG_CACHE_HOME": str(tmp_path / "file" / "cache"),
        "TMPDIR": str(tmp_path),
        "NUMBA_CACHE_DIR": None,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    answer, errors = call(module, **surroundings)
    assert answer.startswith("42")
    assert errors.count("\n") == 1
    assert "NUMBA_CACHE_DIR" in errors
    assert call(module, **surroundings)[0] == "42 1\n"


# ---- Forks and threads -----------------------------------------------------------------------------------------------

FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, chiasma as ch
model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
y = np.random.default_rng(1).normal(1.5, 1.0, 30)
options = dict(draws=20, chains=2, seed=1, progress=False)
expected = ch.sample(model, y, store=sys.argv[1], **options).draws.values
pid = os.fork()
if pid == 0:
    import threading
    threading.Timer(60, os._exit, (3,)).start()
    same = np.array_equal(ch.open_posterior(sys.argv[1]).draws.values, expected)
    same = same and np.array_equal(ch.sample(model, y, store=sys.argv[1] + "-2", **options).draws.values, expected)
    os._exit(0 if same else 2)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_fork__after_a_store_was_used_does_not_hang(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path / "run")], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "0\n", done.stderr


def test_threads__that_sample_at_once_get_the_draws_of_one(tmp_path):
    expected = test_store.whole("exact")
    found: dict[int, ch.Posterior] = {}

    def sample(n: int) -> None:
        found[n] = test_store.run("exact", tmp_path / f"run-{n}" if n % 2 else None)

    threads = [threading.Thread(target=sample, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for posterior in found.values():
        np.testing.assert_array_equal(posterior.draws, expected.draws)
    assert len(found) == 6


# ---- Limits ----------------------------------------------------------------------------------------------------------

LIMITS = """
import resource, sys
import numpy as np, chiasma as ch
model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
y = np.random.default_rng(1).normal(1.5, 1.0, 30)
options = dict(draws=20, chains=2, seed=1, progress=False)
ch.sample(model, y, store=sys.argv[1] + "-first", **options)
in_use = len(__import__("os").listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + int(sys.argv[2]), in_use + int(sys.argv[2])))
try:
    ch.sample(model, y, store=sys.argv[1], **options).draws.load()
    print("whole")
except ch.StoreError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(("room", "expected"), [(0, "refused: cannot"), (40, "whole")])
def test_limit__of_open_files(room, expected, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIMITS, str(tmp_path / "run"), str(room)], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(expected), done.stdout + done.stderr
