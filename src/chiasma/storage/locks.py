"""One writer: an advisory lock beside a store, STORE.lock, held while a run is written. Readers need none.

The system releases the lock of a process however it ends, so the lock file of a killed process blocks nothing.
The file names its owner, for the message, and for file systems that cannot lock.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from chiasma.atomic import make_directory, remove
from chiasma.errors import InvalidInput, StoreError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    flock = None  # type: ignore[assignment]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Errors of file systems that cannot lock.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# Stores whose lock the current call holds already, so that it may call functions that need it.
_HELD: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


class Owner(NamedTuple):
    """Who holds a lock."""

    process: int
    host: str
    since: str

    @classmethod
    def here(cls) -> Owner:
        return cls(os.getpid(), socket.gethostname(), time.strftime("%Y-%m-%d %H:%M:%S"))

    @classmethod
    def read(cls, handle: int) -> Owner | None:
        """The owner that a lock file names; None if it names none."""
        try:
            os.lseek(handle, 0, os.SEEK_SET)
            told = json.loads(os.read(handle, 4096))
            return cls(int(told["process"]), str(told["host"]), str(told["since"]))
        except (ValueError, KeyError, TypeError, OSError):
            return None

    def may_live(self) -> bool:
        """Whether the process may still run. That of another host cannot be asked."""
        if self.host != socket.gethostname() or os.name == "nt":
            return True
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return True


def lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Hold the lock of a store; raises StoreError if another process or thread writes to it."""
    path = path.absolute()
    if path in _HELD.get():
        yield
        return
    file = lock_file(path)
    handle = _lock(path, file)
    held = _HELD.set(_HELD.get() | {path})
    try:
        yield
    finally:
        _HELD.reset(held)
        # Removed while it is still held: whoever opens it now sees that the name has gone, and tries again.
        remove([file])
        os.close(handle)


def one_writer(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorator of a function with a keyword argument `store`: it holds the lock of that store while it runs."""

    @wraps(function)
    def alone(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        store = options.get("store")
        if store is None:
            return function(*args, **options)
        path = as_path("store", store)
        make_parent(path)
        with only_writer(path):
            return function(*args, **options)

    return alone


def as_path(name: str, given: Any) -> Path:
    """A path, or an error that names the argument."""
    try:
        path = Path(given)
    except TypeError:
        raise InvalidInput(f"{name} must be a path, got {type(given).__name__}; pass a str or a pathlib.Path") from None
    if "\0" in str(path):
        raise InvalidInput(f"{name} must be a path, got {str(path)!r} with a NUL character; remove it")
    return path


def make_parent(path: Path) -> None:
    """Create the directory of a store; raises StoreError if it cannot be written to, before anything is computed."""
    parent = path.parent
    try:
        if parent.exists() and not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{parent} is not a directory")
        make_directory(parent)
        if not os.access(parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise StoreError(f"cannot create {path}: {error.strerror or error}; choose another path") from error


def _lock(path: Path, file: Path) -> int:
    """The open lock file, with our name in it."""
    while True:
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"cannot create {file}: {reason}; a run needs this lock, choose another path") from error
        try:
            if not _take(handle):
                raise _taken(path, file, Owner.read(handle))
            if not _is_still(file, handle):  # removed by the owner before us
                os.close(handle)
                continue
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, json.dumps(Owner.here()._asdict()).encode())
        except OSError as error:
            os.close(handle)
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"cannot write to {file}: {error.strerror or error}; free some space there") from error
        return handle


def _take(handle: int) -> bool:
    """Lock the file; where the file system cannot, trust what the file says."""
    if flock is not None:
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        else:
            return True
    owner = Owner.read(handle)
    return owner is None or not owner.may_live()


def _is_still(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(file, follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False


def _taken(path: Path, file: Path, owner: Owner | None) -> StoreError:
    who = "another process" if owner is None else f"process {owner.process} on {owner.host} since {owner.since}"
    return StoreError(
        f"{path} is being written by {who}; wait until it ends, or stop it (open_posterior and chiasma show read the "
        f"run meanwhile). If there is no such process, delete {file}"
    )
