"""The columns of a table: which to read, how to find them by name or number, and how to read those that say where sites
are. Errors name the line of the file.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.io.sheets import MISSING, Sheet, listed
from chiasma.io.signal import position_or_time
from chiasma.io.times import seconds_of, time_text, zone_of
from chiasma.limits import is_whole
from chiasma.types import Floats

VALUE_NAMES = ("value", "y")
# What a position may be, in words.
STAMPS = "numbers or time stamps such as 2024-05-01 08:00"
# Steps by which a gap may miss a whole number, because positions were rounded when they were written or read.
ROUNDING = 1e-5


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns to read, by name or by number from 1, and how.

    value : the signal, several columns with commas between. Default: the only column there is, or the one called
        "value" or "y".
    chromosome : its changes start new sequences.
    position : its differences are the gaps. Numbers, or dates and times, which become seconds since 1970.
    end : where a site ends, for tables and exports; numbers, or dates and times, as the position.
    sample : the one of several samples in a file (`chiasma.tumour.signals`).
    known : rows, and the columns of their known states: 0, 1, 2, ..., or NA where a state is not known.
    covariate : series that the signal depends on, such as GC content; several with commas between.
    gap_unit : the distance that counts as one step of the chains. Default: the median distance.
    delimiter : one character, or "tab", "comma", "semicolon", "space". Default: what all lines agree on.
    """

    value: str | None = None
    chromosome: str | None = None
    position: str | None = None
    end: str | None = None
    sample: str | None = None
    known: tuple[tuple[str, str], ...] = ()
    covariate: str | None = None
    gap_unit: float | None = None
    delimiter: str | None = None

    def check(self) -> None:
        """Raise InvalidInput for a gap unit that is not positive."""
        if self.gap_unit is not None and not (math.isfinite(self.gap_unit) and self.gap_unit > 0):
            raise InvalidInput(f"the gap unit must be a positive number, got {self.gap_unit:g}")


def plain_name(name: str) -> str:
    """A name without case, spaces and punctuation.

    >>> plain_name("loc.start"), plain_name("#CHR"), plain_name("LOG2_COPY_RATIO")
    ('locstart', 'chr', 'log2copyratio')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def column_called(sheet: Sheet, names: Iterable[str]) -> int | None:
    """The number of the first column with one of these plain names, in the order of the names."""
    have = [plain_name(name) for name in sheet.names] if sheet.has_header else []
    return next((have.index(name) for name in names if name in have), None)


def same_chromosome(name: str) -> str:
    """The normalised name of a chromosome: without spaces, case and a "chr" prefix.

    >>> same_chromosome("chr17") == same_chromosome("17") == same_chromosome("Chr17")
    True
    """
    plain = name.strip().lower()
    return plain.removeprefix("chr") or plain


def find_values(table: Sheet, wanted: str | None) -> list[int]:
    if wanted is not None:
        return find_several(table, wanted, "value")
    if len(table.names) == 1:
        return [0]
    for name in VALUE_NAMES:
        if name in table.names:
            return [find_column(table, name, "value")]
    raise InvalidInput(
        f"{table.path}: which column holds the signal? Name the value column: one of {listed(table.names)}"
    )


def find_several(table: Sheet, wanted: str, role: str) -> list[int]:
    """Columns whose names have commas between."""
    whole = wanted in table.names or "," not in wanted
    return [find_column(table, name.strip(), role) for name in ([wanted] if whole else wanted.split(","))]


def find_column(table: Sheet, wanted: str, role: str) -> int:
    if table.names.count(wanted) > 1:
        raise InvalidInput(
            f"{table.path} has {table.names.count(wanted)} columns called {wanted!r}; choose one by its number"
        )
    if wanted in table.names:
        return table.names.index(wanted)
    if is_whole(wanted) and 1 <= int(wanted) <= len(table.names):
        return int(wanted) - 1
    kind = "" if table.has_header else f" (no header: its columns are 1..{len(table.names)})"
    raise InvalidInput(
        f"{table.path} has no column {wanted!r} for the {role}{kind}; choose one of {listed(table.names)}"
    )


def named_values(table: Sheet, columns: Columns) -> list[int]:
    """Columns of the signal where they are named, by the reader or by the file."""
    named = columns.value is not None or set(VALUE_NAMES) & set(table.names)
    return find_values(table, columns.value) if named else []


def chromosomes_of(table: Sheet, column: int) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The label of every site, spelled as in the first line of its block, and where blocks start."""
    labels: list[str] = []
    starts: list[int] = []
    seen: dict[str, int] = {}
    current = None
    previous = None
    for t, name in enumerate(table.texts(column)):
        if name == previous:
            labels.append(labels[-1])
            continue
        previous = name
        if name.lower() in MISSING:
            raise table.error(t, f"column {table.names[column]!r} must name a chromosome, got {name!r}")
        if not name.isprintable():
            raise table.error(
                t, f"column {table.names[column]!r} holds control characters, {name!r}; write a plain name"
            )
        key = same_chromosome(name)
        if key != current:
            if key in seen:
                raise table.error(
                    t,
                    f"chromosome {name!r} began in line {seen[key]} and appears again after {labels[-1]!r}; "
                    "sort the file by chromosome and position",
                )
            seen[key], current = int(table.lines[t]), key
            starts.append(t)
            labels.append(name)
        else:
            labels.append(labels[-1])
    return tuple(labels), np.array(starts)


def gaps_of(
    table: Sheet,
    column: int,
    position: Floats,
    zone: str | None,
    starts: npt.NDArray[np.int64],
    unit: float | None,
) -> tuple[Floats | None, float]:
    """Gaps (T-1,) in units of one step, None where all are 1, and that unit."""
    name = table.names[column]
    if np.isnan(position).any():
        raise table.error(
            int(np.argmax(np.isnan(position))), f"column {name!r} has no position here; fill it in or drop the line"
        )
    distance = np.diff(position)
    inside = np.ones(len(position), bool)
    inside[starts] = False
    wrong = inside[1:] & (distance <= 0)
    if wrong.any():
        t = int(np.argmax(wrong)) + 1
        how = "sort the file by position" if distance[t - 1] < 0 else "merge the lines of one position"
        more = "" if len(starts) > 1 else ", or name the chromosome column if a new one starts here"
        raise table.error(
            t,
            f"column {name!r} must increase within a chromosome, got {position_or_time(position[t], zone)} after "
            f"{position_or_time(position[t - 1], zone)}; {how}{more}",
        )
    known = distance[inside[1:]]
    unit = unit or (float(np.median(known)) if known.size else 1.0)
    gaps = whole_steps(np.where(inside[1:], distance / unit, 1.0))
    return None if np.all(gaps == 1) else gaps, unit


def whole_steps(gaps: Floats) -> Floats:
    """Gaps that are whole numbers but for rounding become whole: 0.3 - 0.2 is not quite 0.2 - 0.1.

    Every distinct gap needs its own transition matrices, and even spacing needs one.

    >>> whole_steps(np.diff([0.0, 0.1, 0.2, 0.3, 0.45]) / 0.1).tolist()
    [1.0, 1.0, 1.0, 1.5000000000000002]
    """
    whole = np.rint(gaps)
    return np.where((whole > 0) & (np.abs(gaps - whole) < ROUNDING), whole, gaps)


def is_dated(table: Sheet, column: int) -> bool:
    """Whether the first cell is a date or a time stamp, such as 2026-01-31 12:00, and the column no numbers."""
    return _is_stamp(table.cell(0, column)) and not table.is_numeric(column)


def _is_stamp(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def seconds_per_unit(name: str) -> float | None:
    """How many seconds one unit of a column is, if its name ends with a unit of time; None for other columns.

    >>> seconds_per_unit("t_ms"), seconds_per_unit("Time (s)"), seconds_per_unit("time"), seconds_per_unit("start")
    (0.001, 1.0, None, None)
    """
    found = re.search(r"[\W_](us|ms|s|min|h)\W?$", name.lower())
    return SECONDS[found.group(1)] if found else None


def times_of(table: Sheet, column: int) -> tuple[Floats, str | None]:
    """(T,) numbers as they are; dates and times in seconds since 1970, and their time zone."""
    if not is_dated(table, column):
        return table.numbers(column, STAMPS), None
    moments = [_moment(table, t, text, column) for t, text in enumerate(table.texts(column))]
    return np.array([seconds_of(moment) for moment in moments]), zone_of(moments)


def _moment(table: Sheet, row: int, text: str, column: int) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise table.error(
            row,
            f"column {table.names[column]!r} must hold dates and times, got {text!r}; write 2026-01-31 12:00",
        ) from None


def ends_of(
    table: Sheet, column: int, clock: int | None = None, position: Floats | None = None, zone: str | None = None
) -> Floats:
    """(T,) where sites end, NaN where missing: in the units of the positions in column `clock`, and read as these are.

    zone : of positions that are time stamps, None for numbers.
    """
    texts = table.texts(column)
    known = [t for t, text in enumerate(texts) if text.lower() not in MISSING]
    first = known[0] if known else None
    text = "" if first is None else texts[first]
    stamped = _is_stamp(text) and not table.is_numeric(column)
    if first is None or (zone is None and not stamped):
        return table.numbers(column)
    what = f"column {table.names[column]!r}"
    if clock is None or position is None:
        raise table.error(
            first,
            f"{what} holds dates and times, {text!r}, and there is no position column; name it, or leave out the end",
        )
    start = table.names[clock]
    if not stamped or zone is None:
        kind = "numbers" if zone is None else "dates and times"
        raise table.error(
            first, f"{what} must hold {kind}, as column {start!r} does, got {text!r}; write both in the same way"
        )
    moments = [_moment(table, t, texts[t], column) for t in known]
    own = zone_of(moments)
    if (own == "") != (zone == ""):
        with_zone, without = (start, table.names[column]) if zone else (table.names[column], start)
        raise table.error(
            first,
            f"dates and times of one site must all name a time zone, or none: those in column {with_zone!r} do, got "
            f"none in column {without!r}; write it there, too: 2024-05-01 08:00+02:00",
        )
    end = np.full(table.n_rows, np.nan)
    end[known] = [seconds_of(moment) for moment in moments]
    if (wrong := end < position).any():
        t = int(np.argmax(wrong))
        raise table.error(
            t,
            f"{what} must not be before column {start!r}, got {time_text(end[t], own)} and "
            f"{time_text(position[t], zone)}; correct one of them",
        )
    return end


# ---- What a file does not say ---------------------------------------------------------------------------------------


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
