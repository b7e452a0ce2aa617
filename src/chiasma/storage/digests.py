"""Digests: what was written with one is compared with it when it is read.

A sealed file is JSON with a digest of itself, which comes before everything else that could look like one. Digests
detect accidents: flipped bits, truncated or swapped files, edits. They do not stop an author who computes them anew.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chiasma import atomic

# Stands in a sealed file while its digest is computed.
NO_DIGEST = "0" * 16


def fingerprint(content: Any) -> int:
    """64 bits that differ if any bit of the content, bytes or a contiguous array, does."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def seal(content: bytes) -> bytes:
    """The content with its digest in place of the first NO_DIGEST."""
    return content.replace(NO_DIGEST.encode(), f"{fingerprint(content):016x}".encode(), 1)


def check_seal(content: bytes, digest: Any) -> None:
    """Raise ValueError if the content is not what was sealed with this digest."""
    told = str(digest).encode(errors="replace")
    if seal(content.replace(told, NO_DIGEST.encode(), 1)) != content:
        raise ValueError("it does not match its digest")


def read_whole(path: Path) -> bytes:
    """The content of a regular file; OSError for anything else, such as a pipe, which would keep its reader waiting."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read()


def reason(error: Exception) -> str:
    """Why a file could not be read, for a message that names the file.

    >>> reason(FileNotFoundError(2, "No such file or directory")), reason(ValueError("it is empty")), reason(KeyError())
    ('it is missing', 'it is empty', 'KeyError')
    """
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file with its digest; the write is atomic."""
    # NaN is not JSON, but Python writes and reads it, and only Python needs these files.
    text = json.dumps({"digest": NO_DIGEST, **content}, indent=1, ensure_ascii=False)
    atomic.write_bytes(path, seal(f"{text}\n".encode(errors="surrogatepass")))


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_sealed` wrote, without the digest; OSError or ValueError for anything else."""
    content = read_whole(path)
    try:
        told = json.loads(content.decode(errors="surrogatepass"))
        digest = told.pop("digest")
    except Exception as error:  # not JSON, no table, nested too deeply, an integer of thousands of digits, ...
        raise ValueError(f"it does not hold what was written ({reason(error)})") from error
    check_seal(content, digest)
    return dict(told)


def digests_below(folder: Path, names: Iterable[str] = ("",)) -> dict[str, int]:
    """Digests of all files below a folder, or below some folders in it, by their path from there."""
    files = sorted(file for name in names for file in (folder / name).rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): fingerprint(read_whole(file)) for file in files}


def read_with_digest(folder: Path, file: str, digests: Mapping[str, int]) -> bytes:
    """A file whose digest is known; OSError or ValueError if it cannot be read or differs."""
    content = read_whole(folder / file)
    if fingerprint(content) != digests.get(file):
        raise ValueError("it does not match its digest")
    return content
