"""Run experiments of the paper by name, and write their results: python -m paper toy errata --quick

out/<name>/result.json          claims, numbers, settings, versions, the command
out/<name>/*.tsv, *.png, *.pdf  tables and figures
out/index.html                  all of it on one page, for every experiment that `out` holds
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from chiasma.errors import InvalidInput
from chiasma.results.provenance import versions
from paper.page import EXPERIMENTS, Record, in_words, read_records, refresh, write_page, write_record
from paper.result import ExperimentResult

ALL = "all"
PAGE = "index.html"


class Experiment(Protocol):
    """A module of this package that reruns one experiment."""

    def run(self, folder: Path, quick: bool, seed: int) -> ExperimentResult: ...


def chosen(names: Iterable[str]) -> list[str]:
    """The selected experiments, in the order of the paper; "all" selects all of them."""
    wanted = set(names)
    unknown = sorted(wanted - {*EXPERIMENTS, ALL})
    if unknown or not wanted:
        raise InvalidInput(
            f"experiments must be among {', '.join(EXPERIMENTS)} or {ALL}, got {', '.join(unknown) or 'none'}"
        )
    return [name for name in EXPERIMENTS if name in wanted or ALL in wanted]


def reproduce(
    names: Iterable[str], out: Path, *, quick: bool = False, seed: int = 1, note: Callable[[str], None] = print
) -> list[Record]:
    """Run experiments one after the other; returns all results in `out`, including earlier ones.

    The page is written after each experiment, so that an interrupt keeps the finished ones.
    """
    wanted = chosen(names)
    records: list[Record] = []
    for name in wanted:
        note(f"{name}: running{' (quick)' if quick else ''}")
        experiment = cast(Experiment, import_module(f"paper.{name}"))
        result = experiment.run(out / name, quick, seed)
        command = f"python -m paper {name}{' --quick' if quick else ''} --seed {seed}"
        write_record(Record(result=result, quick=quick, command=command, versions=versions()))
        records = read_records(out)
        write_page(records, out / PAGE)
        note(f"{name}: {in_words(result)}, {result.seconds:.0f} s")
    return records


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run, and print where the page is; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m paper", description="Rerun experiments of the paper and compare.")
    parser.add_argument("experiments", nargs="+", help=f"{', '.join(EXPERIMENTS)}, or {ALL}")
    parser.add_argument("--out", type=Path, default=Path("build/paper"), help="directory of the page and its files")
    parser.add_argument("--quick", action="store_true", help="small sizes: only checks that everything runs")
    parser.add_argument("--seed", type=int, default=1, help="seed of data and samplers (default: 1)")
    parser.add_argument("--docs", type=Path, help="also refresh paper.md and results/ in this directory")
    options = parser.parse_args(arguments)
    try:
        names = chosen(options.experiments)
        records = reproduce(names, options.out, quick=options.quick, seed=options.seed, note=_note)
        if options.docs is not None:
            refresh(options.docs, [record for record in records if record.result.name in names])
    except InvalidInput as error:
        _note(f"error: {error}")
        return 2
    print(options.out / PAGE)
    return 0


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
