"""Guess which columns of a table hold the signal and the places of its sites, by their names and by what they hold."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.io.columns import (
    ROUNDING,
    STAMPS,
    Columns,
    column_called,
    find_column,
    find_several,
    is_dated,
    named_values,
    plain_name,
    same_chromosome,
    times_of,
)
from chiasma.io.sheets import Sheet, listed

# Names that say what a column is, without case, spaces and punctuation.
CHROMOSOME_NAMES = ("chromosome", "chrom", "chr", "chrs", "contig", "seqnames", "seqname")
START_NAMES = ("start", "position", "pos", "locstart", "startpos", "chromstart", "time")
END_NAMES = ("end", "stop", "locend", "endpos", "chromend")
# Names of time stamps. They may belong to another thing than the site: a date may be that of many lines.
STAMP_NAMES = ("timestamp", "datetime", "date")


def guessed(table: Sheet, columns: Columns) -> tuple[Columns, tuple[str, ...], tuple[str, ...]]:
    """The columns with those filled in that names and contents give away, notes on them, and hints.

    The position is the first of these that the table has: a column with one of START_NAMES; one with one of STAMP_NAMES
    that could be positions; the only column of time stamps, if they increase; and, where there is no chromosome, a
    first column of numbers that only increase. The signal is the first column of numbers left, but not one that counts
    lines or time where there is another.
    """
    notes = []
    found: dict[str, str] = {}
    for field, names in (("chromosome", CHROMOSOME_NAMES), ("position", START_NAMES), ("end", END_NAMES)):
        column = column_called(table, names)
        if column is not None and getattr(columns, field) is None:
            found[field] = str(column + 1)
    if columns.position is None and "position" not in found:
        stamps = column_called(table, STAMP_NAMES)
        if stamps is not None and _could_be_positions(table, stamps):
            found["position"] = str(stamps + 1)
        elif (lone := _lone_stamps(table, columns, found)) is not None:
            found["position"] = str(lone + 1)
    placed = found.keys() & {"position", "chromosome"} or columns.position or columns.chromosome
    if not placed and _is_clock(table, columns):
        found["position"] = "1"
    if "end" in found and columns.position is None and "position" not in found:
        del found["end"]
    for field, number in found.items():
        notes.append(f"column {table.names[int(number) - 1]!r} is taken as the {field}")
    taken = _taken(table, columns, found)
    free = [c for c in range(len(table.names)) if c not in taken]
    numeric = [c for c in free if table.is_numeric(c)]
    if len(table.names) > 1 and numeric and not named_values(table, columns):
        signal = next((c for c in numeric if not _counts_evenly(table, c)), numeric[0])
        found["value"] = str(signal + 1)
        free.remove(signal)
        more = f"; not used: {listed(table.names[c] for c in free)} (choose with --value)" if free else ""
        notes.append(f"column {table.names[signal]!r} is taken as the signal{more}")
    has_position = columns.position is not None or "position" in found
    hints = () if has_position else _unused_stamps(table, free)
    return replace(columns, **found), tuple(notes), hints  # type: ignore[arg-type]


def _taken(table: Sheet, columns: Columns, found: Mapping[str, str]) -> set[int]:
    """Columns that have a use, because they were named or found."""
    taken = {int(number) - 1 for number in found.values()}
    taken |= {find_column(table, name, "") for name in (columns.chromosome, columns.position, columns.end) if name}
    taken |= {find_column(table, name, "known states") for _, name in columns.known}
    taken |= set(find_several(table, columns.covariate, "covariate")) if columns.covariate else set()
    return taken | set(named_values(table, columns))


def _lone_stamps(table: Sheet, columns: Columns, found: Mapping[str, str]) -> int | None:
    """The only column of time stamps without another use, if they increase along every chromosome."""
    dated = _stamps(table, sorted(set(range(len(table.names))) - _taken(table, columns, found)))
    if len(dated) != 1:
        return None
    try:
        steps = np.diff(times_of(table, dated[0])[0])
    except InvalidInput:  # a cell that is no time stamp
        return None
    chromosome = found.get("chromosome", columns.chromosome)
    if chromosome is not None:
        names = [same_chromosome(name) for name in table.texts(find_column(table, chromosome, "chromosome"))]
        steps = steps[[a == b for a, b in pairwise(names)]]
    return dated[0] if np.all(steps > 0) else None


def _stamps(table: Sheet, among: Iterable[int]) -> list[int]:
    """The columns of time stamps that could be positions."""
    return [column for column in among if is_dated(table, column) and _could_be_positions(table, column)]


def _unused_stamps(table: Sheet, free: Sequence[int]) -> tuple[str, ...]:
    """What to do about columns that could be the position, or that their names promise to be."""
    dated = [table.names[column] for column in _stamps(table, free)]
    if dated:
        looks = "looks" if len(dated) == 1 else "look"
        options = " or ".join(f"--position {shlex.quote(name)}" for name in dated)
        return (f"{' and '.join(map(repr, dated))} {looks} like time stamps: use {options}",)
    for column in free:
        name, first = table.names[column], table.cell(0, column)
        if plain_name(name) in STAMP_NAMES and not (is_dated(table, column) or table.is_numeric(column)):
            return (f"{name!r} is not used: it must hold {STAMPS}, got {first!r}; write them in this way to use it",)
    return ()


def _could_be_positions(table: Sheet, column: int) -> bool:
    """Whether these are numbers or time stamps, and no two neighbours are the same."""
    known = table.is_numeric(column) or is_dated(table, column)
    return known and all(a != b for a, b in pairwise(table.texts(column)))


def _counts_evenly(table: Sheet, column: int) -> bool:
    """Whether the numbers of a column increase by one step throughout, as numbers of lines and times do."""
    steps = np.diff(table.numbers(column))
    return bool(steps.size > 1 and steps[0] > 0 and np.all(np.abs(steps / steps[0] - 1) < ROUNDING))


def _is_clock(table: Sheet, columns: Columns) -> bool:
    """Whether the first of several columns holds numbers that only increase, such as times, and is not the signal."""
    if len(table.names) == 1 or not table.is_numeric(0) or 0 in named_values(table, columns):
        return False
    others = any(table.is_numeric(c) for c in range(1, len(table.names)))
    return others and bool(np.all(np.diff(table.numbers(0)) > 0))
