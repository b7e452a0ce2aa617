"""Run parts of the verification by name, default all: python verification/run.py [NAME ...].

A part is a file beside this one with a function `run(report)`. What it reports is printed and, when it is done,
written to verification/results/NAME.md together with the command. A goal that is missed makes the command fail.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numba
import numpy as np

HERE = Path(__file__).resolve().parent

Task = TypeVar("Task")
Result = TypeVar("Result")


class Report:
    """Markdown that is printed as it comes and kept for the file; goals are counted."""

    def __init__(self, name: str):
        self.name = name
        self.parts: list[str] = []
        self.missed = 0
        self.began = perf_counter()
        self.text(
            f"# Verification: {name}\n\n"
            f"Made by `python verification/run.py {name}` (`make verify` runs every part). Python "
            f"{platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}, {os.cpu_count()} cores "
            f"({platform.machine()}). Seeds are fixed: another run gives the same numbers except for the times."
        )

    def text(self, part: str) -> None:
        print(part, end="\n\n", flush=True)
        self.parts.append(part)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A Markdown table with aligned columns, all but the first to the right."""
        width = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        rule = ["-" * n if i == 0 else "-" * (n - 1) + ":" for i, n in enumerate(width)]
        aligned = [
            [cell.ljust(n) if i == 0 else cell.rjust(n) for i, (cell, n) in enumerate(zip(row, width, strict=True))]
            for row in (header, *rows)
        ]
        self.text("\n".join(f"| {' | '.join(row)} |" for row in (aligned[0], rule, *aligned[1:])))

    def goal(self, what: str, reached: bool) -> None:
        self.missed += not reached
        self.text(f"**{'Reached' if reached else 'Missed'}:** {what}.")

    def write(self) -> None:
        self.text(f"This part took {perf_counter() - self.began:.0f} s.")
        path = HERE / "results" / f"{self.name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n\n".join(self.parts) + "\n", encoding="utf-8")


def on_all_cores(function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Results in the order of the tasks. Threads are enough: kernels release the GIL."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, tasks))


def main() -> None:
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "run")
    parser = argparse.ArgumentParser(description="Run the long statistical verification and write its results.")
    parser.add_argument("name", nargs="*", help=f"which parts, of: {', '.join(names)} (default: all)")
    chosen = parser.parse_args().name or names
    if unknown := set(chosen) - set(names):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    missed = 0
    for name in chosen:
        report = Report(name)
        importlib.import_module(name).run(report)
        report.write()
        missed += report.missed
    if missed:
        sys.exit(f"{missed} goal(s) missed")


if __name__ == "__main__":
    main()
