"""Atomic writes: a file is written under a temporary name and then renamed, so it appears whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to: renamed to `path` at the end of the block, removed if the block fails."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def write_bytes(path: Path, content: bytes) -> None:
    with whole_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """UTF-8."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
