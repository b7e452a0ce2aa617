"""The walk: which files of chiasma a call leads through, and how often it changes from one file to another.

    PYTHONPATH=src python tools/walk.py          # ch.sample on the README example, and chiasma fit --learn

Functions are followed with sys.setprofile in the main thread and in those that it starts. Everything runs once before,
so that imports and the compilation of kernels are not counted. A change of file is a call from a function in one file
of src/chiasma to a function in another one, counted once for every pair of functions. Generated methods and code of
other packages are passed over.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import chiasma as ch

ROOT = Path(ch.__file__).parent


class Walk:
    """Files that were visited, in the order of the first visit, and calls from file to file."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}  # functions by file
        self.functions: set[tuple[str, str]] = set()
        self.changes: set[tuple[tuple[str, str], tuple[str, str]]] = set()

    def _place(self, frame: FrameType) -> tuple[str, str] | None:
        code = frame.f_code
        if not code.co_filename.startswith(f"{ROOT}{os.sep}"):
            return None
        return str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call":
            return
        here = self._place(frame)
        if here is None:
            return
        if here not in self.functions:
            self.functions.add(here)
            self.files[here[0]] = self.files.get(here[0], 0) + 1
        caller = frame.f_back
        while caller is not None and (there := self._place(caller)) is None:
            caller = caller.f_back
        if caller is not None and there is not None and there[0] != here[0]:
            self.changes.add((there, here))

    def follow(self, call: Callable[[], object]) -> None:
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def show(self, title: str) -> None:
        print(f"{title}: {len(self.files)} files, {len(self.changes)} changes of file")
        for name, count in self.files.items():
            print(f"  {name}: {count}")


def sample() -> None:
    """The example of the README."""
    chain = {"enter": 0.2, "leave": 0.2}
    new = hasattr(ch, "Switches")
    given = {"rows": ch.Switches(**chain)} if new else {"chains": ch.BinaryChains(**chain)}
    model = ch.FactorialHMM(emission=ch.Gaussian(weights=[0.21, 0.31, 0.48], depth=15.0, sd=1.0), **given)
    y = [0.4, -0.7, 8.1, 8.9, float("nan"), 7.9, 8.8, 0.2, -0.3]
    WALKS["sample"].follow(lambda: ch.sample(model, y, seed=1, progress=False))


def fit() -> None:
    from chiasma.cli import main

    rng = np.random.default_rng(1)
    y = 15 * (np.arange(200) // 40 % 2) * 0.48 + rng.standard_normal(200)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.tsv"
        data.write_text("\n".join(["value", *(f"{x:.4f}" for x in y)]) + "\n")
        sys.argv = ["chiasma", "fit", str(data), "--weights", "0.21,0.31,0.48", "--depth", "15", "--sd", "1"]
        sys.argv += ["--enter", "0.05", "--learn", "sd,weights", "--draws", "50", "--warmup", "50", "--seed", "1"]
        sys.argv += ["--quiet", "--out", str(Path(folder) / "run")]

        def run() -> None:
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise

        WALKS["fit"].follow(run)


WALKS: dict[str, Walk] = {}

if __name__ == "__main__":
    for _ in range(2):  # the first time, modules are imported and kernels compiled
        WALKS.update(sample=Walk(), fit=Walk())
        sample()
        fit()
    WALKS["sample"].show("ch.sample(model, y)")
    WALKS["fit"].show("chiasma fit --learn")
