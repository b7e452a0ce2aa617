"""Atomic and durable writes: a file appears whole or not at all, also after a power cut.

It is written under a unique temporary name, synced to the disk (fsync), renamed, and then its directory is synced:
without the first sync a power cut leaves an empty file under the right name, without the second the old one. Temporary
names end in .partial and are never guessed or shared, so simultaneous writers do not meet and a link that somebody put
there is not followed. They are locked while their writer lives: what a killed one leaves behind, the next one removes.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_flock: Any = getattr(fcntl, "flock", None)
_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")
# Seconds after which a temporary file has certainly been abandoned, on file systems without locks.
OLD = 3600.0
# Some file systems cannot sync a directory, and say so with one of these.
_NO_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


@contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[Path]:
    """A temporary path to write to: renamed to `path` at the end of the block, removed if the block fails."""
    with _begun(path) as partial:
        yield partial
        if durable:
            sync_file(partial)
        partial.replace(path)
        if durable:
            sync_directory(path.parent)


@contextmanager
def _begun(path: Path) -> Iterator[Path]:
    """A new temporary file beside `path`, locked while its writer lives; removed if the block fails."""
    partial = partial_name(path)
    # Created here and only here, so that the name cannot be a link to somewhere else.
    handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    if _flock is None:
        os.close(handle)  # Windows renames no open file
    try:
        if _flock is not None:
            with suppress(OSError):  # some file systems have no locks
                _flock(handle, fcntl.LOCK_EX)
        yield partial
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    finally:
        if _flock is not None:
            os.close(handle)


def write_bytes(path: Path, content: bytes, durable: bool = True) -> None:
    write_files({path: content}, durable)


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """UTF-8."""
    write_bytes(path, text.encode(), durable)


def write_files(contents: Mapping[Path, bytes | memoryview], durable: bool = True) -> None:
    """Several files, each atomic; syncing them together costs little more than syncing one."""
    with ExitStack() as begun:
        partials = {path: begun.enter_context(_begun(path)) for path in contents}
        for path, content in contents.items():
            partials[path].write_bytes(content)
        if durable:
            for partial in partials.values():
                sync_file(partial)
        for path, partial in partials.items():
            partial.replace(path)
        if durable:
            for folder in dict.fromkeys(path.parent for path in contents):
                sync_directory(folder)


def partial_name(path: Path) -> Path:
    """A new temporary name beside `path`."""
    # A name may have 255 bytes, and a letter up to four.
    return path.with_name(f"{path.name[:50]}.{uuid4().hex}.partial")


def partials(folder: Path, names: Iterable[str] | None = None) -> list[Path]:
    """Temporary files and directories in a folder: of files with these names, default any."""
    wanted = None if names is None else {name[:50] for name in names}
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            name, n_matches = _PARTIAL.subn("", path.name)
            if n_matches and (wanted is None or name in wanted):
                found.append(path)
    return found


def tidy(*folders: Path) -> None:
    """Remove temporary files of killed writers; files of running writers are locked."""
    remove(path for folder in folders for path in partials(folder) if _is_abandoned(path))


def _is_abandoned(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        if _flock is None:
            raise OSError
        _flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # without locks, age tells
        return time.time() - os.fstat(handle).st_mtime >= OLD
    finally:
        os.close(handle)
    return True


def remove(paths: Iterable[Path]) -> None:
    """Remove files and directories, as far as possible. A link is removed, not what it leads to."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def make_directory(path: Path, durable: bool = True) -> None:
    """Create a directory and those above it that are missing."""
    missing = []
    while not path.exists():
        if path.is_symlink():
            raise OSError(errno.ENOENT, "it is a link that leads nowhere", str(path))
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        if durable:
            sync_directory(folder.parent)


def sync_tree(path: Path) -> None:
    """Sync every file and directory below `path`, and `path` itself."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            sync_file(Path(folder, name))
        sync_directory(Path(folder))


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    # Windows syncs only what is open for writing.
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        _sync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk, where the system can do that."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        _sync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    whole = getattr(fcntl, "F_FULLFSYNC", None)  # macOS, whose fsync stops at the cache of the drive
    if whole is None:
        os.fsync(handle)
    else:
        fcntl.fcntl(handle, whole)
