"""Where compiled kernels are kept: numba's cache, which here survives kills, upgrades, other processes and read-only
places.

What numba cannot read (a truncated file, a class that an upgrade has renamed) counts as absent and is compiled again;
numba itself would fail until the file is deleted. Processes that compile at the same time take turns at writing, and
code is written before the index that names it. Kernels of another version of chiasma are never used: they may have
inlined others that have changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
import stat
import tempfile
from importlib import import_module
from pathlib import Path

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserWideCacheLocator,
)

try:
    from fcntl import LOCK_EX, flock
except ImportError:  # Windows
    flock = None  # type: ignore[assignment]

# Behind the code of a kernel stand this mark and a digest.
_MARK = b"chiasma1"
_DIGEST_BYTES = 16


class KernelFile(IndexDataCacheFile):
    """The index and the code of one kernel."""

    def __init__(self, cache_path, filename_base, source_stamp):
        # Named by a text: to those who read types, the package imports everything, and kernels nothing.
        version = import_module("chiasma").__version__
        super().__init__(cache_path, filename_base, (source_stamp, version))
        # Kernels that were compiled before this file existed have no version.
        self._stamps = self._source_stamp, source_stamp

    def _load_index(self):
        try:
            with open(self._index_path, "rb") as file:
                if pickle.load(file) != self._version:
                    return {}
                stamp, overloads = pickle.load(file)
        except Exception:  # a pickle that is not whole, or names what no longer exists
            return {}
        return overloads if stamp in self._stamps else {}

    def save(self, key, data):
        with self._alone():
            overloads = self._load_index()
            taken = set(overloads.values())
            names = (self._data_name(number) for number in range(1, len(taken) + 2))
            name = overloads.get(key) or next(name for name in names if name not in taken)
            self._save_data(name, data)
            self._save_index(overloads | {key: name})

    @contextlib.contextmanager
    def _alone(self):
        """One process writes at a time, where the file system can lock."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                lock = stack.enter_context(open(os.path.join(self._cache_path, "kernels.lock"), "ab"))
                if flock is not None:
                    flock(lock, LOCK_EX)
            yield

    def _save_data(self, name, data):
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(content + _MARK + _digest(content))

    def _load_data(self, name):
        content = Path(self._data_path(name)).read_bytes()
        end = len(content) - _DIGEST_BYTES
        start = end - len(_MARK)
        if content[start:end] == _MARK and _digest(content[:start]) != content[end:]:
            raise OSError(f"{name} is damaged")
        return pickle.loads(content)


def _digest(content):
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


class TemporaryLocator(UserWideCacheLocator):
    """A directory of our own among the temporary files, where nothing else can be written to."""

    _folder: str | None = None

    def __init__(self, py_func, py_file):
        super().__init__(py_func, py_file)
        self._cache_path = os.path.join(self.folder(), self.get_suitable_cache_subpath(py_file))

    @classmethod
    def folder(cls):
        if TemporaryLocator._folder is None:
            TemporaryLocator._folder = _own_folder()
            logging.getLogger("chiasma").warning(
                "chiasma keeps compiled kernels in %s: neither its own directory nor a home directory can be written "
                "to; set NUMBA_CACHE_DIR to keep them elsewhere",
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


class KernelCacheImpl(CompileResultCacheImpl):
    """numba's places, then temporary files."""

    _locator_classes = (*CompileResultCacheImpl._locator_classes, TemporaryLocator)


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
