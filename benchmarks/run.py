"""Run benchmarks by name, default all: python benchmarks/run.py [NAME ...].

A benchmark is a file beside this one with a function `run(report)`. What it reports is printed and, when it is
done, written to benchmarks/results/NAME.md together with the command.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numba
import numpy as np

HERE = Path(__file__).resolve().parent


class Report:
    """Markdown that is printed as it comes and kept for the file."""

    def __init__(self, name: str):
        self.name = name
        self.parts: list[str] = []
        self.text(
            f"# Benchmark: {name}\n\n"
            f"Made by `python benchmarks/run.py {name}` (`make bench` runs every benchmark). Python "
            f"{platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}, {os.cpu_count()} cores "
            f"({platform.machine()})."
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

    def write(self) -> None:
        path = HERE / "results" / f"{self.name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n\n".join(self.parts) + "\n", encoding="utf-8")


def main() -> None:
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "run")
    parser = argparse.ArgumentParser(description="Run benchmarks and write their results.")
    parser.add_argument("name", nargs="*", help=f"which ones, of: {', '.join(names)} (default: all)")
    chosen = parser.parse_args().name or names
    if unknown := set(chosen) - set(names):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    for name in chosen:
        report = Report(name)
        importlib.import_module(name).run(report)
        report.write()


if __name__ == "__main__":
    main()
