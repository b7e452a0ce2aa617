"""Run benchmarks by name, default all: python benchmarks/run.py [NAME ...].

A benchmark is a file beside this one with a function `run(report)`. What it reports is printed and, when it is
done, written to benchmarks/results/NAME.md together with the command.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from markdown_report import MarkdownReport, chosen_names  # noqa: E402


class Report(MarkdownReport):
    """The report of a benchmark."""

    def __init__(self, name: str):
        super().__init__("benchmark", name, HERE, "`make bench` runs every benchmark")


def main() -> None:
    for name in chosen_names(HERE, "Run benchmarks and write their results."):
        report = Report(name)
        importlib.import_module(name).run(report)
        report.write()


if __name__ == "__main__":
    main()
