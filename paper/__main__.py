"""Run experiments of the paper by name, and write their results.

out/<name>/result.json          claims, numbers, settings, versions, the command
out/<name>/*.tsv, *.png, *.pdf  tables and figures
out/index.html                  all of it on one page, for every experiment that `out` holds
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

from chiasma.errors import InvalidInput
from chiasma.experiments.page import EXPERIMENTS, Record, in_words, read_records, write_page, write_record
from chiasma.experiments.result import ExperimentResult
from chiasma.results.provenance import versions

ALL = "all"
PAGE = "index.html"


class Experiment(Protocol):
    """A module of this package that reruns one experiment."""

    def run(self, folder: Path, quick: bool, seed: int) -> ExperimentResult: ...


def available() -> list[str]:
    """Experiments that this version has."""
    return [name for name in EXPERIMENTS if find_spec(f"chiasma.experiments.{name}") is not None]


def chosen(names: Iterable[str]) -> list[str]:
    """The selected experiments, in the order of the paper; "all" selects all of them."""
    wanted = set(names)
    unknown = sorted(wanted - {*available(), ALL})
    if unknown or not wanted:
        raise InvalidInput(
            f"experiments must be among {', '.join(available())} or {ALL}, got {', '.join(unknown) or 'none'}"
        )
    return [name for name in available() if name in wanted or ALL in wanted]


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
        experiment = cast(Experiment, import_module(f"chiasma.experiments.{name}"))
        result = experiment.run(out / name, quick, seed)
        command = f"chiasma reproduce {name}{' --quick' if quick else ''} --seed {seed} --out {out.name or 'OUT'}"
        write_record(Record(result=result, quick=quick, command=command, versions=versions()))
        records = read_records(out)
        write_page(records, out / PAGE)
        note(f"{name}: {in_words(result)}, {result.seconds:.0f} s")
    return records
