"""Where the lines of a table are on the genome, checked: chromosomes, starts and ends, 0-based and half-open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.io.columns import CHROMOSOME_NAMES, END_NAMES, START_NAMES, column_called, same_chromosome
from chiasma.io.sheets import MISSING, Sheet, listed
from chiasma.limits import is_whole
from chiasma.types import Floats, Integers

# Below which a float has whole numbers without gaps.
LAST = 2.0**53
SAMPLE_NAMES = ("sample", "id", "samplename", "sampleid", "barcode")

Labels = npt.NDArray[np.str_]


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Column indices of a sheet; None if absent."""

    chromosome: int
    start: int
    end: int | None
    sample: int | None


def roles_of(sheet: Sheet) -> Roles:
    chromosome, start = column_called(sheet, CHROMOSOME_NAMES), column_called(sheet, START_NAMES)
    if chromosome is None or start is None:
        missing = "chromosome" if chromosome is None else "start"
        raise InvalidInput(
            f"{sheet.path} has no column that names the {missing}; expected chromosome, start, end and a value, got "
            f"{listed(sheet.names)}"
        )
    sample = column_called(sheet, SAMPLE_NAMES)
    return Roles(chromosome=chromosome, start=start, end=column_called(sheet, END_NAMES), sample=sample)


def places_of(sheet: Sheet, roles: Roles, one_based: bool, notes: list[str]) -> tuple[Labels, Integers, Integers]:
    """Chromosomes, starts and ends; refuses lines that are not sorted. one_based: the format counts from 1."""
    labels = np.array(sheet.texts(roles.chromosome), dtype=str)
    start = positions(sheet, roles.start)
    end = start + 1 if roles.end is None else positions(sheet, roles.end)
    if one_based or (roles.end is not None and _counts_from_one(start, end)):
        if not one_based:
            notes.append("positions count from 1 in this file")
        start = start - 1
        end = start + 1 if roles.end is None else end
    labels = in_order(sheet, labels, start, end)
    if roles.end is None:
        notes.append("no column of ends: a site is one base long")
    return labels, start, end


def positions(sheet: Sheet, column: int) -> Integers:
    given = sheet.numbers(column)
    bad = ~((given >= 0) & (given < LAST)) | (given != np.floor(given))
    if bad.any():
        first = int(np.argmax(bad))
        raise sheet.error(
            first,
            f"column {sheet.names[column]!r} must hold positions in bases, whole numbers >= 0, got "
            f"{sheet.cell(first, column)!r}; correct the line or drop it",
        )
    return given.astype(np.int64)


def _counts_from_one(start: Integers, end: Integers) -> bool:
    """Whether bins of equal width begin at 1, W+1, 2W+1, ..., and end at W, 2W, ..."""
    width = int(np.median(end - start)) + 1
    return width > 1 and float(np.mean((start % width == 1) & (end % width == 0))) > 0.9


class LocatedLines(Protocol):
    """Something that knows the numbers of its lines, and names them in errors."""

    @property
    def lines(self) -> Integers: ...

    def error(self, row: int, message: str) -> InvalidInput: ...


class NumberedLines(NamedTuple):
    """Lines of a file that is not a table."""

    path: Path
    lines: Integers

    def error(self, row: int, message: str) -> InvalidInput:
        return InvalidInput(f"{self.path}, line {self.lines[row]}: {message}")


def in_order(sheet: LocatedLines, labels: Labels, start: Integers, end: Integers, repeats: bool = False) -> Labels:
    """The chromosomes, each in one spelling. Raises InvalidInput if lines are not sorted.

    repeats : whether lines may have the position of the one before.
    """
    names, codes = np.unique(labels, return_inverse=True)
    for name in names:
        if str(name).lower() in MISSING:
            raise sheet.error(int(np.argmax(labels == name)), "a chromosome is missing; correct the line or drop it")
    keys = np.array([same_chromosome(str(name)) for name in names])[codes]
    new = np.append(True, keys[1:] != keys[:-1])
    firsts = np.flatnonzero(new)
    began: dict[str, int] = {}
    for t in firsts.tolist():
        if keys[t] in began:
            raise sheet.error(
                t,
                f"chromosome {str(labels[t])!r} began in line {began[keys[t]]} and appears again after "
                f"{str(labels[t - 1])!r}; sort the file by chromosome and position, or add a column that names the "
                "sample",
            )
        began[keys[t]] = int(sheet.lines[t])
    step = np.append(1, np.diff(start))
    back = ~new & (step < 0 if repeats else step <= 0)
    if back.any():
        t = int(np.argmax(back))
        raise sheet.error(
            t,
            f"position {start[t]:,} comes after {start[t - 1]:,} on chromosome {str(labels[t])!r}; sort the file by "
            "chromosome and position, and merge lines of one position",
        )
    if (empty := end <= start).any():
        t = int(np.argmax(empty))
        raise sheet.error(t, f"a bin ends at {end[t]:,}, which is not after its start; correct the line")
    return labels[firsts][np.cumsum(new) - 1]


def sample_names(sheet: Sheet, roles: Roles) -> list[str]:
    """The sample of every line: from its column, from the comments of GATK, or the name of the file."""
    if roles.sample is not None:
        return sheet.texts(roles.sample)
    named = [part[3:] for line in sheet.comments for part in line.split("\t") if part.startswith("SM:")]
    return [named[0] if named else stem_of(sheet.path)] * sheet.n_rows


def stem_of(path: Path) -> str:
    """The name of a file without what its format adds.

    >>> stem_of(Path("patient.7.cnr.gz"))
    'patient.7'
    """
    return path.name.removesuffix(".gz").rsplit(".", 1)[0]


def stated_lengths(comments: Iterable[str]) -> dict[str, int]:
    """Lengths of chromosomes from lines such as "@SQ  SN:20  LN:63025520"."""
    found = {}
    for line in comments:
        parts = dict(part.split(":", 1) for part in line.split("\t") if ":" in part)
        if line.startswith("@SQ") and is_whole(parts.get("LN", "")):
            found[parts["SN"]] = int(parts["LN"])
    return found


def column_of(sheet: Sheet, name: str) -> Floats:
    """The numbers of a column that is known to be there, by its plain name."""
    column = column_called(sheet, (name,))
    assert column is not None
    return sheet.numbers(column)
