"""Run parts of the verification by name, default all: python verification/run.py [NAME ...].

A part is a file beside this one with a function `run(report)`. What it reports is printed and, when it is done,
written to verification/results/NAME.md together with the command. A goal that is missed makes the command fail.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import TypeVar

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from markdown_report import MarkdownReport, chosen_names  # noqa: E402

Task = TypeVar("Task")
Result = TypeVar("Result")


class Report(MarkdownReport):
    """The report of a part; goals are counted."""

    def __init__(self, name: str):
        super().__init__("verification", name, HERE, "`make verify` runs every part")
        self.text("Seeds are fixed: another run gives the same numbers except for the times.")
        self.missed = 0
        self.began = perf_counter()

    def goal(self, what: str, reached: bool) -> None:
        self.missed += not reached
        self.text(f"**{'Reached' if reached else 'Missed'}:** {what}.")

    def write(self) -> None:
        self.text(f"This part took {perf_counter() - self.began:.0f} s.")
        super().write()


def on_all_cores(function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Results in the order of the tasks. Threads are enough: kernels release the GIL."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, tasks))


def main() -> None:
    missed = 0
    for name in chosen_names(HERE, "Run the long statistical verification and write its results."):
        report = Report(name)
        importlib.import_module(name).run(report)
        report.write()
        missed += report.missed
    if missed:
        sys.exit(f"{missed} goal(s) missed")


if __name__ == "__main__":
    main()
