"""What benchmarks and verification write: Markdown that is printed as it comes and kept for a file."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numba
import numpy as np


class MarkdownReport:
    """folder: where the script stands and `results/NAME.md` is written. about: a sentence behind the command."""

    def __init__(self, kind: str, name: str, folder: Path, about: str):
        self.path = folder / "results" / f"{name}.md"
        self.parts: list[str] = []
        self.text(
            f"# {kind.capitalize()}: {name}\n\n"
            f"Made by `python {folder.name}/run.py {name}` ({about}). Python {platform.python_version()}, "
            f"NumPy {np.__version__}, numba {numba.__version__}, {os.cpu_count()} cores ({platform.machine()})."
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
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("\n\n".join(self.parts) + "\n", encoding="utf-8")


def chosen_names(folder: Path, description: str) -> list[str]:
    """The scripts of a folder, those with a function `run`, that the command line names; default: all of them."""
    names = sorted(path.stem for path in folder.glob("*.py") if "\ndef run(" in path.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("name", nargs="*", help=f"which ones, of: {', '.join(names)} (default: all)")
    chosen: list[str] = parser.parse_args().name or names
    if unknown := set(chosen) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    return chosen
