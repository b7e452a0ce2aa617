"""Read a signal along sites from CSV, TSV or NPY files; errors name the line of the file.

A table has one line per site: a value, optionally a chromosome, whose changes start new sequences, and a position,
whose differences are the gaps.
"""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma import atomic
from chiasma.errors import InvalidInput, StoreError
from chiasma.files.sheets import MISSING, Line, Sheet, is_number, listed, read_bytes, read_sheet
from chiasma.files.times import as_zone, duration_text, seconds_of, time_text, times_text, zone_of
from chiasma.models.observations import Observations
from chiasma.npy import read_npy, read_npz
from chiasma.results.spacing import Spacing, site_ends
from chiasma.types import Floats

# Written tables: the delimiter is that of the suffix.
WRITTEN = {".csv": ",", ".tsv": "\t"}
VALUE_NAMES = ("value", "y")
# How a cell begins that a spreadsheet takes for a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
# Names that say what a column is, without case, spaces and punctuation.
CHROMOSOME_NAMES = ("chromosome", "chrom", "chr", "chrs", "contig", "seqnames", "seqname")
START_NAMES = ("start", "position", "pos", "locstart", "startpos", "chromstart", "time")
# Names of time stamps. They may belong to another thing than the site: a date may be that of many lines.
STAMP_NAMES = ("timestamp", "datetime", "date")
# What a position may be, in words.
STAMPS = "numbers or time stamps such as 2024-05-01 08:00"
# Steps by which a gap may miss a whole number, because positions were rounded when they were written or read.
ROUNDING = 1e-5
END_NAMES = ("end", "stop", "locend", "endpos", "chromend")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns to read, by name or by number from 1, and how.

    value : the signal, several columns with commas between. Default: the only column there is, or the one called
        "value" or "y".
    chromosome : its changes start new sequences.
    position : its differences are the gaps. Numbers, or dates and times, which become seconds since 1970.
    end : where a site ends, for tables and exports; numbers, or dates and times, as the position.
    sample : the one of several samples in a file (`chiasma.genomics.signals`).
    gap_unit : the distance that counts as one step of the chains. Default: the median distance.
    delimiter : one character, or "tab", "comma", "semicolon", "space". Default: what all lines agree on.
    """

    value: str | None = None
    chromosome: str | None = None
    position: str | None = None
    end: str | None = None
    sample: str | None = None
    gap_unit: float | None = None
    delimiter: str | None = None

    def check(self) -> None:
        """Raise InvalidInput for a gap unit that is not positive."""
        if self.gap_unit is not None and not (math.isfinite(self.gap_unit) and self.gap_unit > 0):
            raise InvalidInput(f"the gap unit must be a positive number, got {self.gap_unit:g}")


@dataclass(frozen=True, kw_only=True)
class Signal:
    """The content of a data file: the observations, and the labels of their sites if the file has them.

    value, axis : names of the columns of the signal and of the position; None where the file gives none.
    zone : time zone of positions that were time stamps and are seconds since 1970, see `times`; None for numbers.
    notes : what was guessed or converted, one sentence each. hints : those of them that ask the reader to act.
    """

    data: Observations
    chromosome: tuple[str, ...] | None = None
    position: Floats | None = None
    end: Floats | None = None
    gap_unit: float | None = None
    value: str | None = None
    axis: str | None = None
    zone: str | None = None
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def in_words(self) -> str:
        """The shape of the data in one line.

        >>> Signal(data=Observations([1.0, float("nan"), 2.0], starts=[2])).in_words()
        '3 sites, 2 sequences, 1 missing'
        >>> Signal(data=Observations([1.0] * 4), position=np.array([0.0, 60, 120, 5580]), zone="").in_words()
        '4 sites, 1 gap of 1 h 30 min'
        """
        n_sequences, n_missing = len(self.data.starts), int(self.data.missing.sum())
        parts = [f"{self.data.n_columns:,} sites"]
        if n_sequences > 1:
            parts.append(f"{n_sequences} {'chromosomes' if self.chromosome else 'sequences'}")
        if n_missing:
            parts.append(f"{n_missing:,} missing")
        if self.spacing is not None and self.spacing.gaps.size:
            n, longest = self.spacing.gaps.size, self.distance_text(float(self.spacing.gaps.max()))
            parts.append(f"1 gap of {longest}" if n == 1 else f"{n:,} gaps of up to {longest}")
        if self.gap_unit is not None:
            unit = "" if self.zone is None else " second" if self.gap_unit == 1 else " seconds"
            parts.append(f"distances in steps of {self.gap_unit:,g}{unit}")
        return ", ".join(parts)

    @cached_property
    def ends(self) -> Floats | None:
        """(T,) where sites end: as the data file says, otherwise as `site_ends`; None without positions."""
        if self.position is None:
            return None
        usual = site_ends(self.position, self.data.starts)
        return usual if self.end is None else np.where(np.isnan(self.end), usual, self.end)

    @cached_property
    def spacing(self) -> Spacing | None:
        """How sites follow each other; None without positions."""
        if self.position is None or self.ends is None:
            return None
        return Spacing(self.position, self.ends, self.data.starts, ~self.data.missing)

    def distance_text(self, distance: float) -> str:
        """A distance between positions: a number in their unit, or a time."""
        return f"{distance:,.6g}" if self.zone is None else duration_text(distance)

    def gap_text(self, start: int, stop: int) -> str:
        """How long nothing was measured within sites start..stop-1, where that is a gap; otherwise nothing.

        >>> timed = Signal(data=Observations([1.0] * 4), position=np.array([0.0, 60, 120, 5580]), zone="")
        >>> timed.gap_text(0, 4), timed.gap_text(0, 3)
        ('1 h 30 min without data', '')
        """
        if self.spacing is None or stop == start + 1:  # one site: asked for thousands of them, and no gap
            return ""
        longest = self.spacing.longest(start, stop)
        return f"{self.distance_text(longest)} without data" if longest > self.spacing.limit else ""

    def range_text(self, first: int, last: int) -> str:
        """The positions of two sites, as --region takes them; the signal must have positions.

        >>> Signal(data=Observations([1.0, 2.0]), position=np.array([0.5, 1.5])).range_text(0, 1)
        '0.5-1.5'
        >>> Signal(data=Observations([1.0, 2.0]), position=np.array([0.0, 60.0]), zone="").range_text(0, 1)
        '1970-01-01T00:00/00:01'
        """
        assert self.position is not None
        ends = self.position[first], self.position[last]
        return "-".join(map(position_text, ends)) if self.zone is None else times_text(*ends, self.zone)

    def site_text(self, first: int, last: int) -> str:
        """Where two sites are, or one where they are the same, with chromosomes; the signal must have positions.

        >>> Signal(data=Observations([1.0]), position=np.array([0.5])).site_text(0, 0)
        '0.5'
        >>> genome = Signal(data=Observations([1.0, 2.0], starts=[1]), position=np.ones(2), chromosome=("1", "2"))
        >>> genome.site_text(0, 1), genome.site_text(1, 1)
        ('1:1 to 2:1', '2:1')
        """
        assert self.position is not None
        names = ["" if self.chromosome is None else f"{self.chromosome[t]}:" for t in (first, last)]
        ends = [position_or_time(self.position[t], self.zone) for t in (first, last)]
        if names[0] != names[1]:
            return f"{names[0]}{ends[0]} to {names[1]}{ends[1]}"
        return names[0] + (ends[0] if first == last else self.range_text(first, last))

    def save(self, path: Path) -> None:
        """Save everything without loss in an NPZ file."""
        fields = {"y": self.data.y, "starts": self.data.starts, "gaps": self.data.gaps, "position": self.position}
        labels = None if self.chromosome is None else np.array(self.chromosome)
        content: dict[str, Any] = fields | {"end": self.end, "chromosome": labels, "gap_unit": self.gap_unit}
        content |= {"value": self.value, "axis": self.axis, "zone": self.zone}
        with atomic.whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **{key: value for key, value in content.items() if value is not None})

    @classmethod
    def load(cls, path: Path) -> Signal:
        """What `save` wrote."""
        try:
            content = read_npz(path.read_bytes())
            data = Observations(content["y"], content["starts"], content.get("gaps"))
            labels, unit = content.get("chromosome"), content.get("gap_unit")
            position, end = (content.get(key) for key in ("position", "end"))
            value, axis, zone = (content.get(key) for key in ("value", "axis", "zone"))
            if zone is not None:
                as_zone(str(zone))
            if any(one is not None and one.shape != (data.n_columns,) for one in (labels, position, end)):
                raise ValueError("its labels are not one per site")
            return cls(
                data=data,
                chromosome=None if labels is None else tuple(map(str, labels.tolist())),
                position=None if position is None else position.astype(float),
                end=None if end is None else end.astype(float),
                gap_unit=None if unit is None else float(unit),
                value=None if value is None else str(value),
                axis=None if axis is None else str(axis),
                zone=None if zone is None else str(zone),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); it is written when a fit begins: restore it from a backup, or "
                "delete it and resume the fit"
            ) from error


def read_signal(path: Path, columns: Columns | None = None, guess: bool = False) -> Signal:
    """Read a data file: NPY by its suffix, anything else as a table.

    guess : also guess the columns that are not named, by their names and by what they hold; notes say how.
    """
    columns = columns or Columns()
    columns.check()
    if path.suffix.lower() == ".npy":
        return _read_array(path, columns)
    return signal_of(read_sheet(path, columns.delimiter), columns, guess)


def signal_of(sheet: Sheet, columns: Columns, guess: bool = False) -> Signal:
    """The columns of a sheet as a signal; see `read_signal`."""
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    if guess:
        columns, notes, hints = _guessed(sheet, columns)
    if columns.gap_unit is not None and columns.position is None:
        raise InvalidInput("a gap unit needs a position column; name it too, or drop the gap unit")
    if columns.position is not None and _is_dated(sheet, clock := _find(sheet, columns.position, "position")):
        zone = "read as UTC where they name no time zone"
        where = f"column {sheet.names[clock]!r}"
        if columns.end is not None:
            where = f"columns {sheet.names[clock]!r} and {sheet.names[_find(sheet, columns.end, 'end')]!r}"
        notes += (
            f"dates and times in {where} become seconds since 1970, {zone}; --region of chiasma show takes dates and "
            "times",
        )
    return replace(_from_table(sheet, columns), notes=notes + hints, hints=hints)


def write_table(path: Path, names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV or TSV file, depending on the suffix; the write is atomic."""
    delimiter = WRITTEN.get(path.suffix.lower())
    if delimiter is None:
        raise InvalidInput(f"{path}: tables are written as .tsv or .csv, got the suffix {path.suffix!r}")
    try:
        with atomic.whole_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
            writer.writerow([cell_text(name) for name in names])
            writer.writerows([cell_text(value) for value in row] for row in rows)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror or error}; choose another place") from error


def cell_text(value: Any) -> str:
    """A value as a cell: NA for NaN, and the shortest form that reads back as the same float.

    A text that a spreadsheet would run as a formula is quoted.

    >>> cell_text(2.0), cell_text(0.1), cell_text(float("nan")), cell_text("chr1"), cell_text("=1+1")
    ('2', '0.1', 'NA', 'chr1', "'=1+1")
    """
    if not isinstance(value, float | np.floating):
        text = str(value)
        return f"'{text}" if text.startswith(FORMULAS) and not is_number(text) else text
    if math.isnan(value):
        return "NA"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def position_text(position: float) -> str:
    """A position with all its digits and without an exponent, as --region takes it.

    >>> position_text(1767226800.0), position_text(0.1), position_text(1e-7)
    ('1767226800', '0.1', '0.0000001')
    """
    return np.format_float_positional(position, trim="-")


def position_or_time(position: float, zone: str | None) -> str:
    """A position as --region takes it: a number, or a date and time where the time stamps have a zone."""
    return position_text(position) if zone is None else time_text(position, zone)


def same_chromosome(name: str) -> str:
    """The normalised name of a chromosome: without spaces, case and a "chr" prefix.

    >>> same_chromosome("chr17") == same_chromosome("17") == same_chromosome("Chr17")
    True
    """
    plain = name.strip().lower()
    return plain.removeprefix("chr") or plain


def _read_array(path: Path, columns: Columns) -> Signal:
    if columns != Columns():
        raise InvalidInput(f"{path}: an NPY file has no columns to choose; drop those options, or write a table")
    try:
        y = read_npy(read_bytes(path))
    except ValueError as error:
        raise InvalidInput(f"{path} is not a NumPy array file ({error}); write it with numpy.save") from error
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    try:
        return Signal(data=Observations(y))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _from_table(table: Sheet, columns: Columns) -> Signal:
    values = _find_values(table, columns.value)
    for column in values:
        if np.isnan(table.numbers(column)).all():
            raise InvalidInput(
                f"{table.path}: every value of column {table.names[column]!r} is missing; choose another one of "
                f"{listed(table.names)}"
            )
    y = np.stack([table.numbers(column) for column in values], axis=1)
    y = y[:, 0] if len(values) == 1 else y
    blocks: tuple[str, ...] | None = None
    starts = np.zeros(1, np.int64)
    if columns.chromosome is not None:
        blocks, starts = _chromosomes(table, _find(table, columns.chromosome, "chromosome"))
    finish = None if columns.end is None else _find(table, columns.end, "end")
    value = ", ".join(table.names[column] for column in values) if table.has_header else None
    if columns.position is None:
        end = None if finish is None else _ends(table, finish)
        return Signal(data=Observations(y, starts), chromosome=blocks, end=end, value=value)
    clock = _find(table, columns.position, "position")
    position, zone = _times(table, clock)
    gaps, unit = _gaps(table, clock, position, zone, starts, columns.gap_unit)
    return Signal(
        data=Observations(y, starts, gaps),
        chromosome=blocks,
        position=position,
        end=None if finish is None else _ends(table, finish, clock, position, zone),
        gap_unit=unit,
        value=value,
        axis=table.names[clock] if table.has_header else None,
        zone=zone,
    )


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


def _guessed(table: Sheet, columns: Columns) -> tuple[Columns, tuple[str, ...], tuple[str, ...]]:
    """The columns with those filled in that names and contents give away, notes on them, and hints.

    The position is the first of these that the table has: a column with one of START_NAMES; one with one of STAMP_NAMES
    that could be positions; the only column of time stamps, if they increase; and, where there is no chromosome, a
    first column of numbers that only increase.
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
    if len(table.names) > 1 and numeric and not _named_values(table, columns):
        found["value"] = str(numeric[0] + 1)
        free.remove(numeric[0])
        more = f"; not used: {listed(table.names[c] for c in free)} (choose with --value)" if free else ""
        notes.append(f"column {table.names[numeric[0]]!r} is taken as the signal{more}")
    has_position = columns.position is not None or "position" in found
    hints = () if has_position else _unused_stamps(table, free)
    return replace(columns, **found), tuple(notes), hints  # type: ignore[arg-type]


def _taken(table: Sheet, columns: Columns, found: Mapping[str, str]) -> set[int]:
    """Columns that have a use, because they were named or found."""
    taken = {int(number) - 1 for number in found.values()}
    taken |= {_find(table, name, "") for name in (columns.chromosome, columns.position, columns.end) if name}
    return taken | set(_named_values(table, columns))


def _lone_stamps(table: Sheet, columns: Columns, found: Mapping[str, str]) -> int | None:
    """The only column of time stamps without another use, if they increase along every chromosome."""
    dated = _stamps(table, sorted(set(range(len(table.names))) - _taken(table, columns, found)))
    if len(dated) != 1:
        return None
    try:
        steps = np.diff(_times(table, dated[0])[0])
    except InvalidInput:  # a cell that is no time stamp
        return None
    chromosome = found.get("chromosome", columns.chromosome)
    if chromosome is not None:
        names = [same_chromosome(name) for name in table.texts(_find(table, chromosome, "chromosome"))]
        steps = steps[[a == b for a, b in pairwise(names)]]
    return dated[0] if np.all(steps > 0) else None


def _stamps(table: Sheet, among: Iterable[int]) -> list[int]:
    """The columns of time stamps that could be positions."""
    return [column for column in among if _is_dated(table, column) and _could_be_positions(table, column)]


def _unused_stamps(table: Sheet, free: Sequence[int]) -> tuple[str, ...]:
    """What to do about columns that could be the position, or that their names promise to be."""
    dated = [table.names[column] for column in _stamps(table, free)]
    if dated:
        looks = "looks" if len(dated) == 1 else "look"
        options = " or ".join(f"--position {shlex.quote(name)}" for name in dated)
        return (f"{' and '.join(map(repr, dated))} {looks} like time stamps: use {options}",)
    for column in free:
        name, first = table.names[column], table.rows[0].cells[column].strip()
        if plain_name(name) in STAMP_NAMES and not (_is_dated(table, column) or table.is_numeric(column)):
            return (f"{name!r} is not used: it must hold {STAMPS}, got {first!r}; write them in this way to use it",)
    return ()


def _could_be_positions(table: Sheet, column: int) -> bool:
    """Whether these are numbers or time stamps, and no two neighbours are the same."""
    known = table.is_numeric(column) or _is_dated(table, column)
    return known and all(a != b for a, b in pairwise(table.texts(column)))


def _is_clock(table: Sheet, columns: Columns) -> bool:
    """Whether the first of several columns holds numbers that only increase, such as times, and is not the signal."""
    if len(table.names) == 1 or not table.is_numeric(0) or 0 in _named_values(table, columns):
        return False
    others = any(table.is_numeric(c) for c in range(1, len(table.names)))
    return others and bool(np.all(np.diff(table.numbers(0)) > 0))


def _named_values(table: Sheet, columns: Columns) -> list[int]:
    """Columns of the signal where they are named, by the reader or by the file."""
    named = columns.value is not None or set(VALUE_NAMES) & set(table.names)
    return _find_values(table, columns.value) if named else []


def _find_values(table: Sheet, wanted: str | None) -> list[int]:
    if wanted is not None:
        whole = wanted in table.names or "," not in wanted
        return [_find(table, name.strip(), "value") for name in ([wanted] if whole else wanted.split(","))]
    if len(table.names) == 1:
        return [0]
    for name in VALUE_NAMES:
        if name in table.names:
            return [_find(table, name, "value")]
    raise InvalidInput(
        f"{table.path}: which column holds the signal? Name the value column: one of {listed(table.names)}"
    )


def _find(table: Sheet, wanted: str, role: str) -> int:
    if table.names.count(wanted) > 1:
        raise InvalidInput(
            f"{table.path} has {table.names.count(wanted)} columns called {wanted!r}; choose one by its number"
        )
    if wanted in table.names:
        return table.names.index(wanted)
    if wanted.isdecimal() and 1 <= int(wanted) <= len(table.names):
        return int(wanted) - 1
    kind = "" if table.has_header else f" (no header: its columns are 1..{len(table.names)})"
    raise InvalidInput(
        f"{table.path} has no column {wanted!r} for the {role}{kind}; choose one of {listed(table.names)}"
    )


def _chromosomes(table: Sheet, column: int) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The label of every site, spelled as in the first line of its block, and where blocks start."""
    labels: list[str] = []
    starts: list[int] = []
    seen: dict[str, int] = {}
    current = None
    for t, row in enumerate(table.rows):
        name = row.cells[column].strip()
        if name.lower() in MISSING:
            raise table.error(row.line, f"column {table.names[column]!r} must name a chromosome, got {name!r}")
        if not name.isprintable():
            raise table.error(
                row.line, f"column {table.names[column]!r} holds control characters, {name!r}; write a plain name"
            )
        key = same_chromosome(name)
        if key != current:
            if key in seen:
                raise table.error(
                    row.line,
                    f"chromosome {name!r} began in line {seen[key]} and appears again after {labels[-1]!r}; "
                    "sort the file by chromosome and position",
                )
            seen[key], current = row.line, key
            starts.append(t)
            labels.append(name)
        else:
            labels.append(labels[-1])
    return tuple(labels), np.array(starts)


def _gaps(
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
        row = table.rows[int(np.argmax(np.isnan(position)))]
        raise table.error(row.line, f"column {name!r} has no position here; fill it in or drop the line")
    distance = np.diff(position)
    inside = np.ones(len(position), bool)
    inside[starts] = False
    wrong = inside[1:] & (distance <= 0)
    if wrong.any():
        t = int(np.argmax(wrong)) + 1
        how = "sort the file by position" if distance[t - 1] < 0 else "merge the lines of one position"
        more = "" if len(starts) > 1 else ", or name the chromosome column if a new one starts here"
        raise table.error(
            table.rows[t].line,
            f"column {name!r} must increase within a chromosome, got {position_or_time(position[t], zone)} after "
            f"{position_or_time(position[t - 1], zone)}; {how}{more}",
        )
    known = distance[inside[1:]]
    unit = unit or (float(np.median(known)) if known.size else 1.0)
    gaps = whole_steps(np.where(inside[1:], distance / unit, 1.0))
    return None if np.all(gaps == 1) else gaps, unit


def whole_steps(gaps: Floats) -> Floats:
    """Gaps that are whole numbers but for rounding become whole: 0.3 - 0.2 is not quite 0.2 - 0.1.

    Every distinct gap needs transition matrices of its own, and even spacing needs one.

    >>> whole_steps(np.diff([0.0, 0.1, 0.2, 0.3, 0.45]) / 0.1).tolist()
    [1.0, 1.0, 1.0, 1.5000000000000002]
    """
    whole = np.rint(gaps)
    return np.where((whole > 0) & (np.abs(gaps - whole) < ROUNDING), whole, gaps)


def _is_dated(table: Sheet, column: int) -> bool:
    """Whether the first cell is a date or a time stamp, such as 2026-01-31 12:00, and the column no numbers."""
    return _is_stamp(table.rows[0].cells[column].strip()) and not table.is_numeric(column)


def _is_stamp(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _times(table: Sheet, column: int) -> tuple[Floats, str | None]:
    """(T,) numbers as they are; dates and times in seconds since 1970, and their time zone."""
    if not _is_dated(table, column):
        return table.numbers(column, STAMPS), None
    moments = [_moment(table, row, column) for row in table.rows]
    return np.array([seconds_of(moment) for moment in moments]), zone_of(moments)


def _moment(table: Sheet, row: Line, column: int) -> datetime:
    text = row.cells[column].strip()
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise table.error(
            row.line,
            f"column {table.names[column]!r} must hold dates and times, got {text!r}; write 2026-01-31 12:00",
        ) from None


def _ends(
    table: Sheet, column: int, clock: int | None = None, position: Floats | None = None, zone: str | None = None
) -> Floats:
    """(T,) where sites end, NaN where missing: in the units of the positions in column `clock`, and read as these are.

    zone : that of positions that are time stamps, None of numbers.
    """
    known = [t for t, row in enumerate(table.rows) if row.cells[column].strip().lower() not in MISSING]
    first = table.rows[known[0]] if known else None
    text = "" if first is None else first.cells[column].strip()
    stamped = _is_stamp(text) and not table.is_numeric(column)
    if first is None or (zone is None and not stamped):
        return table.numbers(column)
    what = f"column {table.names[column]!r}"
    if clock is None or position is None:
        raise table.error(
            first.line,
            f"{what} holds dates and times, {text!r}, and there is no position column; name it, or leave out the end",
        )
    start = table.names[clock]
    if not stamped or zone is None:
        kind = "numbers" if zone is None else "dates and times"
        raise table.error(
            first.line, f"{what} must hold {kind}, as column {start!r} does, got {text!r}; write both in the same way"
        )
    moments = [_moment(table, table.rows[t], column) for t in known]
    own = zone_of(moments)
    if (own == "") != (zone == ""):
        with_zone, without = (start, table.names[column]) if zone else (table.names[column], start)
        raise table.error(
            first.line,
            f"dates and times of one site must all name a time zone, or none: those in column {with_zone!r} do, got "
            f"none in column {without!r}; write it there, too: 2024-05-01 08:00+02:00",
        )
    end = np.full(len(table.rows), np.nan)
    end[known] = [seconds_of(moment) for moment in moments]
    if (wrong := end < position).any():
        t = int(np.argmax(wrong))
        raise table.error(
            table.rows[t].line,
            f"{what} must not be before column {start!r}, got {time_text(end[t], own)} and "
            f"{time_text(position[t], zone)}; correct one of them",
        )
    return end
