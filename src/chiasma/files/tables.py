"""Read a signal along sites from CSV, TSV or NPY files; errors name the line of the file.

A table has one line per site: a value, optionally a chromosome, whose changes start new sequences, and a position,
whose differences are the gaps.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma import atomic
from chiasma.errors import InvalidInput, StoreError
from chiasma.models.observations import Observations
from chiasma.npy import read_npy, read_npz
from chiasma.types import Floats

DELIMITERS = {
    ".csv": ",",
    ".tsv": "\t",
    ".tab": "\t",
    ".txt": "\t",
    ".cnr": "\t",
    ".cns": "\t",
    ".seg": "\t",
    ".bed": "\t",
}
DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
MISSING = ("", ".", "na", "n/a", "nan")
# Lines before the header that genomics tools write.
COMMENTS = ("#", "@")
VALUE_NAMES = ("value", "y")
# How a cell begins that a spreadsheet takes for a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns to read, by name or by number from 1, and how.

    value : the signal. Default: the only column there is, or the one called "value" or "y".
    chromosome : its changes start new sequences.
    position : its differences are the gaps.
    gap_unit : the distance that counts as one step of the chains. Default: the median distance.
    delimiter : one character, or "tab", "comma", "semicolon", "space". Default: by the suffix of the file.
    """

    value: str | None = None
    chromosome: str | None = None
    position: str | None = None
    gap_unit: float | None = None
    delimiter: str | None = None


@dataclass(frozen=True, kw_only=True)
class Signal:
    """The content of a data file: the observations, and the labels of their sites if the file has them."""

    data: Observations
    chromosome: tuple[str, ...] | None = None
    position: Floats | None = None
    gap_unit: float | None = None

    def in_words(self) -> str:
        """The shape of the data in one line.

        >>> Signal(data=Observations([1.0, float("nan"), 2.0], starts=[2])).in_words()
        '3 sites, 2 sequences, 1 missing'
        """
        n_sequences, n_missing = len(self.data.starts), int(self.data.missing.sum())
        parts = [f"{self.data.n_columns:,} sites"]
        if n_sequences > 1:
            parts.append(f"{n_sequences} {'chromosomes' if self.chromosome else 'sequences'}")
        if n_missing:
            parts.append(f"{n_missing:,} missing")
        if self.gap_unit is not None:
            parts.append(f"gaps in steps of {self.gap_unit:,g}")
        return ", ".join(parts)

    def save(self, path: Path) -> None:
        """Save everything without loss in an NPZ file."""
        fields = {"y": self.data.y, "starts": self.data.starts, "gaps": self.data.gaps, "position": self.position}
        labels = None if self.chromosome is None else np.array(self.chromosome)
        content: dict[str, Any] = fields | {"chromosome": labels, "gap_unit": self.gap_unit}
        with atomic.whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **{key: value for key, value in content.items() if value is not None})

    @classmethod
    def load(cls, path: Path) -> Signal:
        """What `save` wrote."""
        try:
            content = read_npz(path.read_bytes())
            data = Observations(content["y"], content["starts"], content.get("gaps"))
            labels, unit, position = (content.get(key) for key in ("chromosome", "gap_unit", "position"))
            if any(one is not None and one.shape != (data.n_columns,) for one in (labels, position)):
                raise ValueError("its labels are not one per site")
            return cls(
                data=data,
                chromosome=None if labels is None else tuple(map(str, labels.tolist())),
                position=None if position is None else position.astype(float),
                gap_unit=None if unit is None else float(unit),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); it is written when a fit begins: restore it from a backup, or "
                "delete it and resume the fit"
            ) from error


class Line(NamedTuple):
    """A line of a table."""

    line: int
    cells: list[str]


class Sheet(NamedTuple):
    """The lines of a file, split into cells; column names are 1, 2, ... if it has no header."""

    path: Path
    names: list[str]
    rows: list[Line]
    has_header: bool

    def numbers(self, column: int) -> Floats:
        """A column as floats, NaN where missing; errors name the line of a text or an infinity."""
        return np.array([self._number(row, column) for row in self.rows])

    def _number(self, row: Line, column: int) -> float:
        text = row.cells[column].strip()
        if text.lower() in MISSING:
            return math.nan
        try:
            number = float(text) if "_" not in text else None
        except ValueError:
            number = None
        where = f"column {self.names[column]!r}"
        if number is None:
            remedy = "write decimals with a point" if _has_decimal_comma(text) else "correct it or write NA"
            raise self.error(row.line, f"{where} must hold numbers, got {text!r}; {remedy}")
        if math.isinf(number):
            raise self.error(row.line, f"{where} must be finite, got {text!r}; write NA for a missing value")
        return number

    def error(self, line: int, message: str) -> InvalidInput:
        return InvalidInput(f"{self.path}, line {line}: {message}")


def read_signal(path: Path, columns: Columns | None = None) -> Signal:
    """Read a data file: NPY by its suffix, anything else as a table."""
    columns = columns or Columns()
    if columns.gap_unit is not None and not (math.isfinite(columns.gap_unit) and columns.gap_unit > 0):
        raise InvalidInput(f"the gap unit must be a positive number, got {columns.gap_unit:g}")
    if columns.gap_unit is not None and columns.position is None:
        raise InvalidInput("a gap unit needs a position column; name it too, or drop the gap unit")
    if path.suffix.lower() == ".npy":
        return _read_array(path, columns)
    return _from_table(_read_table(path, _delimiter(path, columns.delimiter)), columns)


def write_table(path: Path, names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV or TSV file, depending on the suffix; the write is atomic."""
    delimiter = _delimiter(path, None)
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
        return f"'{text}" if text.startswith(FORMULAS) and not _is_number(text) else text
    if math.isnan(value):
        return "NA"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def same_chromosome(name: str) -> str:
    """The normalised name of a chromosome: without spaces, case and a "chr" prefix.

    >>> same_chromosome("chr17") == same_chromosome("17") == same_chromosome("Chr17")
    True
    """
    plain = name.strip().lower()
    return plain.removeprefix("chr") or plain


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory; give a file in it") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error


def _read_array(path: Path, columns: Columns) -> Signal:
    if columns != Columns():
        raise InvalidInput(f"{path}: an NPY file has no columns to choose; drop those options, or write a table")
    try:
        y = read_npy(_read_bytes(path))
    except ValueError as error:
        raise InvalidInput(f"{path} is not a NumPy array file ({error}); write it with numpy.save") from error
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    try:
        return Signal(data=Observations(y))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _delimiter(path: Path, given: str | None) -> str:
    if given is None:
        suffix = path.suffix.lower()
        if suffix not in DELIMITERS:
            raise InvalidInput(
                f"{path}: the suffix {path.suffix!r} does not say how columns are separated; give a delimiter "
                "(tab, comma, ...), or use .csv, .tsv or .npy"
            )
        return DELIMITERS[suffix]
    delimiter = DELIMITER_NAMES.get(given.lower(), given)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidInput(f"a delimiter is one character, or {', '.join(DELIMITER_NAMES)}; got {given!r}")
    return delimiter


def _read_table(path: Path, delimiter: str) -> Sheet:
    content = _read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{path}, line {line}: this is not UTF-8 text (byte {content[error.start]:#04x}); "
            "save it as UTF-8, and unpack it if it is compressed"
        ) from error
    rows = _split(path, text.splitlines(), delimiter)
    if not rows:
        raise InvalidInput(f"{path} has no rows; expected a header and one line per site")
    has_header = any(not _is_number(cell) for cell in rows[0].cells)
    names = [cell.strip() for cell in rows[0].cells] if has_header else [str(i + 1) for i in range(len(rows[0].cells))]
    table = Sheet(path, names, rows[1:] if has_header else rows, has_header)
    if not table.rows:
        raise table.error(rows[0].line, "there is a header and nothing below it; expected one line per site")
    for row in table.rows:
        if len(row.cells) != len(names):
            raise table.error(
                row.line,
                f"expected {len(names)} columns as in line {rows[0].line}, got {len(row.cells)}; complete the line, "
                "or give the delimiter if this is not how columns are separated",
            )
    return table


def _split(path: Path, lines: Sequence[str], delimiter: str) -> list[Line]:
    """Rows with their line numbers, without comments before the header and blank lines after the last row.

    In a table of one column a blank line is a row whose value is missing; in others it is none.
    """
    skipped = 0
    for line in lines:
        if line.strip() and not line.startswith(COMMENTS):
            break
        skipped += 1
    reader = csv.reader((f"{line}\n" for line in lines[skipped:]), delimiter=delimiter, strict=True)
    rows = []
    try:
        for cells in reader:
            is_blank = len(cells) < 2 and not any(cell.strip() for cell in cells)
            rows.append(Line(skipped + reader.line_num, [""] if is_blank else cells))
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {skipped + reader.line_num}: {error}; check the quotes") from error
    while rows and rows[-1].cells == [""]:
        rows.pop()
    return rows if rows and len(rows[0].cells) == 1 else [row for row in rows if row.cells != [""]]


def _from_table(table: Sheet, columns: Columns) -> Signal:
    value = _find_value(table, columns.value)
    y = table.numbers(value)
    if np.isnan(y).all():
        raise InvalidInput(
            f"{table.path}: every value of column {table.names[value]!r} is missing; choose another one of "
            f"{listed(table.names)}"
        )
    blocks: tuple[str, ...] | None = None
    starts = np.zeros(1, np.int64)
    if columns.chromosome is not None:
        blocks, starts = _chromosomes(table, _find(table, columns.chromosome, "chromosome"))
    if columns.position is None:
        return Signal(data=Observations(y, starts), chromosome=blocks)
    position, gaps, unit = _gaps(table, _find(table, columns.position, "position"), starts, columns.gap_unit)
    return Signal(data=Observations(y, starts, gaps), chromosome=blocks, position=position, gap_unit=unit)


def _find_value(table: Sheet, wanted: str | None) -> int:
    if wanted is not None:
        return _find(table, wanted, "value")
    if len(table.names) == 1:
        return 0
    for name in VALUE_NAMES:
        if name in table.names:
            return _find(table, name, "value")
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


def _gaps(table: Sheet, column: int, starts: npt.NDArray[np.int64], unit: float | None) -> tuple[Floats, Floats, float]:
    """Positions (T,), gaps (T-1,) in units of one step, and that unit."""
    position = table.numbers(column)
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
            f"column {name!r} must increase within a chromosome, got {position[t]:g} after {position[t - 1]:g}; "
            f"{how}{more}",
        )
    known = distance[inside[1:]]
    unit = unit or (float(np.median(known)) if known.size else 1.0)
    return position, np.where(inside[1:], distance / unit, 1.0), unit


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _has_decimal_comma(text: str) -> bool:
    return text.count(",") == 1 and _is_number(text.replace(",", "."))


def listed(names: Iterable[str]) -> str:
    """Names as text for a message, shortened if there are many."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")
