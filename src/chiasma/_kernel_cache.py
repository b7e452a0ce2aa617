"""Where compiled kernels are kept: in the user's cache directory, named by what they were compiled from.

A kernel's file name has a digest of its module and of all modules of the package that this one imports, because numba
inlines callees. A new checkout, environment or version of chiasma therefore finds the kernels that it shares with
another one, and never uses outdated code. numba itself adds the signature and the processor.

Damaged files count as absent: numba would fail until somebody deletes them. Processes that compile at the same time
take turns at writing, and code is written before the index that names it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
import re
import stat
import tempfile
import time
from functools import cache
from pathlib import Path

import llvmlite
import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserWideCacheLocator,
)
from numba.misc.appdirs import user_cache_dir

try:
    from fcntl import LOCK_EX, flock
except ImportError:  # Windows
    flock = None  # type: ignore[assignment]

PACKAGE = Path(__file__).parent
IMPORT = re.compile(r"^\s*from chiasma((?:\.\w+)+) import", re.MULTILINE)
# The code of a kernel ends with its digest.
DIGEST_BYTES = 16
# When a new version of a kernel is saved, versions that were saved longer ago than this are removed.
OUTDATED_SECONDS = 30 * 86400.0


def _digest(content, size=DIGEST_BYTES):
    return hashlib.blake2b(content, digest_size=size)


@cache
def _imported(file):
    """Modules of the package that a file imports; all modules of a package that it imports from."""
    found: set[Path] = set()
    for name in IMPORT.findall(file.read_text("utf-8")):
        place = PACKAGE.joinpath(*name.split(".")[1:])
        found.update(place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")])
    return frozenset(module for module in found if module.exists())


@cache
def source_digest(file):
    """Digest of a file and of all modules of the package that it imports, directly or not."""
    found, new = {file}, {file}
    while new:
        new = set().union(*map(_imported, new)) - found
        found |= new
    # Sorted by content: where the files are does not matter.
    contents = sorted(one.read_bytes() for one in found)
    return _digest(b"\0".join(contents), 8).hexdigest()


class ContentLocator(UserWideCacheLocator):
    """Names kernels by content, in NUMBA_CACHE_DIR or else the user's cache directory."""

    def __init__(self, py_func, py_file):
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        folder = numba.config.CACHE_DIR or user_cache_dir("chiasma", appauthor=False)
        self._cache_path = os.path.join(folder, f"kernels-numba-{numba.__version__}-llvmlite-{llvmlite.__version__}")

    def get_source_stamp(self):
        return source_digest(Path(self._py_file))

    def get_disambiguator(self):
        return f"{self._lineno}-{self.get_source_stamp()}"

    @classmethod
    def from_function(cls, py_func, py_file):
        locator = cls(py_func, py_file)
        try:
            locator.ensure_cache_path()
        except OSError:  # a home that cannot be written to
            return None
        return locator if os.path.exists(py_file) else None


class TemporaryLocator(ContentLocator):
    """The same in a directory of our own among the temporary files, if nothing else can be written to."""

    _folder: str | None = None

    def __init__(self, py_func, py_file):
        super().__init__(py_func, py_file)
        self._cache_path = self.folder()

    @classmethod
    def folder(cls):
        if TemporaryLocator._folder is None:
            TemporaryLocator._folder = _own_folder()
            logging.getLogger("chiasma").warning(
                "compiled kernels are kept in %s, because the user's cache directory cannot be written to; set "
                "NUMBA_CACHE_DIR to keep them elsewhere",
                TemporaryLocator._folder,
            )
        return TemporaryLocator._folder


def _own_folder():
    """A directory that only we can write to: it holds code. A new one if somebody else made it."""
    owner = os.getuid() if hasattr(os, "getuid") else 0
    path = os.path.join(tempfile.gettempdir(), f"chiasma-kernels-{owner}")
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode) and (os.name == "nt" or (found.st_uid == owner and not found.st_mode & 0o022)):
            return path
    except OSError:
        pass
    return tempfile.mkdtemp(prefix="chiasma-kernels-")


class KernelFile(IndexDataCacheFile):
    """The index and the code of one kernel."""

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:  # a pickle that is not whole, or names what no longer exists
            return {}

    def save(self, key, data):
        with self._alone():
            overloads = self._load_index()
            if not overloads:
                self._remove_outdated()
            taken = set(overloads.values())
            names = (self._data_name(number) for number in range(1, len(taken) + 2))
            name = overloads.get(key) or next(name for name in names if name not in taken)
            self._save_data(name, data)
            self._save_index(overloads | {key: name})

    def _remove_outdated(self):
        kernel = self._index_name.split("-")[0]
        for file in Path(self._cache_path).glob(f"{kernel}-*"):
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > OUTDATED_SECONDS:
                    file.unlink()

    @contextlib.contextmanager
    def _alone(self):
        """One process writes at a time, if the file system can lock."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                lock = stack.enter_context(open(os.path.join(self._cache_path, "kernels.lock"), "ab"))
                if flock is not None:
                    flock(lock, LOCK_EX)
            yield

    def _save_data(self, name, data):
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(content + _digest(content).digest())

    def _load_data(self, name):
        content = Path(self._data_path(name)).read_bytes()
        content, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
        if _digest(content).digest() != digest:
            raise OSError(f"{name} is damaged")
        return pickle.loads(content)


class KernelCacheImpl(CompileResultCacheImpl):
    """The user's cache directory, then temporary files."""

    _locator_classes = (ContentLocator, TemporaryLocator)


class KernelCache(FunctionCache):
    """The cache of one kernel; whatever goes wrong, the kernel is compiled."""

    _impl_class = KernelCacheImpl

    def __init__(self, py_func):
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = KernelFile(self._cache_path, self._impl.filename_base, stamp)

    def _load_overload(self, sig, target_context):
        try:
            return super()._load_overload(sig, target_context)
        except Exception:
            return None

    def _save_overload(self, sig, data):
        with contextlib.suppress(OSError):  # a full disk, for example
            super()._save_overload(sig, data)
