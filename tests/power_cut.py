"""What a power cut leaves: records every sync and every change of names of a run, and replays any prefix of them.

A file has the content that it had when it was last synced, and is empty if it never was. A directory has the names that
it had when it was last synced ("lost"), those of the running system, as a journal may have written them already
("kept"), or, each directory for itself, one or the other ("mixed").
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

CUTS = ("lost", "kept", "mixed")
Names = dict[str, tuple[int, bool]]  # in one directory: inode, and whether it is a directory
Tree = dict[Path, bytes | None]  # contents of files, None for folders, which come before what they hold


class Moment(NamedTuple):
    """Everything after one operation. Directories and files by inode."""

    operation: str
    seen: dict[int, Names]  # names as the running system has them
    synced: dict[int, Names]  # and as they were last synced
    contents: dict[int, bytes]  # of files, as they were last synced
    note: Any


class Recorder:
    """Records what happens below a folder; `note` is kept with every moment."""

    def __init__(self, root: Path, keep: Path):
        """keep: a folder elsewhere, on the same disk."""
        self.root, self.keep = root, keep
        self.moments: list[Moment] = []
        self.contents: dict[int, bytes] = {}
        self.note: Any = None
        self.lock = threading.RLock()
        self.synced: dict[int, Names] = self._names()

    @contextmanager
    def recording(self) -> Iterator[None]:
        originals = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir")}
        for name, original in originals.items():
            setattr(os, name, self._around(name, original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(os, name, original)

    def _around(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(first: Any, *rest: Any, **options: Any) -> Any:
            with self.lock:
                out = self._sync(first) if name == "fsync" else original(first, *rest, **options)
                names = self._names()
                self.moments.append(Moment(f"{name} {first}", names, dict(self.synced), dict(self.contents), self.note))
                return out

        return operation

    def _sync(self, handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_dir():
            names = self._names().get(path.stat().st_ino)
            if names is not None:
                self.synced[path.stat().st_ino] = names
        elif self.root in path.parents:
            self.contents[path.stat().st_ino] = path.read_bytes()

    def _names(self) -> dict[int, Names]:
        found: dict[int, Names] = {}
        folders = [self.root]
        while folders:
            folder = folders.pop()
            own: Names = {}
            for entry in os.scandir(folder):
                own[entry.name] = entry.inode(), entry.is_dir(follow_symlinks=False)
                if own[entry.name][1]:
                    folders.append(Path(entry.path))
                elif not (self.keep / str(entry.inode())).exists():
                    os.link(entry.path, self.keep / str(entry.inode()))  # else its number would be used again
            found[folder.stat().st_ino] = own
        return found

    def replay(self, moment: Moment, cut: str, out: Path) -> None:
        """Write into a new folder what is there after a power cut."""
        write_tree(self.left(moment, cut), out)

    def left(self, moment: Moment, cut: str) -> Tree:
        """What is there after a power cut."""
        rng = random.Random(f"{moment.operation}{len(moment.contents)}")
        return dict(self._walk(moment, cut, rng, self.root.stat().st_ino, Path()))

    def _walk(
        self, moment: Moment, cut: str, rng: random.Random, folder: int, at: Path
    ) -> Iterator[tuple[Path, bytes | None]]:
        yield at, None
        is_lost = cut == "lost" or (cut == "mixed" and rng.random() < 0.5)
        for name, (inode, is_folder) in (moment.synced if is_lost else moment.seen).get(folder, {}).items():
            if is_folder:
                yield from self._walk(moment, cut, rng, inode, at / name)
            else:
                yield at / name, moment.contents.get(inode, b"")


def write_tree(tree: Tree, out: Path) -> None:
    for path, content in tree.items():
        if content is None:
            (out / path).mkdir(parents=True)
        else:
            (out / path).write_bytes(content)
