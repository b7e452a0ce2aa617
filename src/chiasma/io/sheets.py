"""Sheets: the lines of a table, split into cells, with their line numbers; plain text or gzip, any delimiter.

What is recognised by content: compression, the delimiter, whether there is a header, and a header behind "#". Lines of
comments before the header are kept, because other programs say there what the file is.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.types import Floats

DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
# Tried in this order: a semicolon before a comma, which may be a decimal one.
DELIMITERS = ("\t", ";", ",", " ")
MISSING = ("", ".", "na", "n/a", "nan")
# Lines before the header that genomics tools write.
COMMENTS = ("#", "@")
GZIP = b"\x1f\x8b"
MOST_UNPACKED = 16 * 2**30
# A number with a comma: the digits before and behind it.
WITH_COMMA = re.compile(r"[+-]?(\d+),(\d+)(?:[eE][+-]?\d+)?")
# Lines that decide what the delimiter is and whether there is a header.
LOOKED_AT = 50


class Line(NamedTuple):
    """A line of a table."""

    line: int
    cells: list[str]


class Sheet(NamedTuple):
    """The lines of a file, split into cells; column names are 1, 2, ... if it has no header.

    comments: the lines before the header that begin with # or @, as they are. commas: columns whose numbers had decimal
    commas, which are points now.
    """

    path: Path
    names: list[str]
    rows: list[Line]
    has_header: bool
    comments: tuple[str, ...] = ()
    commas: tuple[int, ...] = ()

    def texts(self, column: int) -> list[str]:
        return [row.cells[column].strip() for row in self.rows]

    def numbers(self, column: int, expected: str = "numbers") -> Floats:
        """A column as floats, NaN where missing; errors name the line of a text or an infinity.

        expected : what the column may hold, in words.
        """
        return np.array([self._number(row, column, expected) for row in self.rows])

    def is_numeric(self, column: int) -> bool:
        """Whether the first lines hold numbers or missing values, at least one number among them."""
        cells = [row.cells[column] for row in self.rows[:LOOKED_AT]]
        known = [cell for cell in cells if cell.strip().lower() not in MISSING]
        if not known:
            later = next((cell for cell in self.texts(column) if cell.lower() not in MISSING), "")
            return bool(later) and is_number(later)
        return all(is_number(cell) for cell in known)

    def _number(self, row: Line, column: int, expected: str) -> float:
        text = row.cells[column].strip()
        if text.lower() in MISSING:
            return math.nan
        try:
            number = float(text) if "_" not in text else None
        except ValueError:
            number = None
        where = f"column {self.names[column]!r}"
        if number is None:
            other = "correct it or write NA" if expected == "numbers" else "write them in this way"
            remedy = "write decimals with a point" if WITH_COMMA.fullmatch(text) else other
            raise self.error(row.line, f"{where} must hold {expected}, got {text!r}; {remedy}")
        if math.isinf(number):
            raise self.error(row.line, f"{where} must be finite, got {text!r}; write NA for a missing value")
        return number

    def error(self, line: int, message: str) -> InvalidInput:
        return InvalidInput(f"{self.path}, line {line}: {message}")


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is a gzip file, whatever its name."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory; give a file in it") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
    if not content.startswith(GZIP):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            unpacked = file.read(MOST_UNPACKED + 1)
        if len(unpacked) > MOST_UNPACKED:
            raise OSError(f"it unpacks to more than {MOST_UNPACKED // 2**30} GiB")
        return unpacked
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path} is a damaged gzip file ({error}); copy it again") from error


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{path}, line {line}: this is not UTF-8 text (byte {content[error.start]:#04x}); "
            "save it as UTF-8, and unpack it if it is compressed by something else than gzip"
        ) from error
    return text.splitlines()


def read_sheet(path: Path, delimiter: str | None = None) -> Sheet:
    """Read a table. delimiter: one character, or its name; default: the one that all lines agree on."""
    return as_sheet(path, read_lines(path), delimiter)


def as_sheet(path: Path, lines: Sequence[str], delimiter: str | None = None) -> Sheet:
    """`read_sheet` of lines that were read already."""
    skipped = 0
    for line in lines:
        if line.strip() and not line.startswith(COMMENTS):
            break
        skipped += 1
    comments = tuple(line for line in lines[:skipped] if line.strip())
    sign = _known_delimiter(delimiter) if delimiter is not None else _guess_delimiter(lines[skipped:])
    rows = _split(path, lines, skipped, sign)
    rows = rows[_n_remarks(rows) :]
    if not rows:
        raise InvalidInput(f"{path} has no rows; expected a header and one line per site")
    commas = () if sign == "," else _make_points(rows)
    first = rows[0]
    hidden = _header_in_comment(lines[:skipped], sign, rows)
    if hidden is not None:
        names, body, has_header = hidden, rows, True
    else:
        has_header = _is_header(rows)
        names = [cell.strip() for cell in first.cells] if has_header else [str(i + 1) for i in range(len(first.cells))]
        body = rows[1:] if has_header else rows
    sheet = Sheet(path, names, body, has_header, comments, commas)
    if not body:
        raise sheet.error(first.line, "there is a header and nothing below it; expected one line per site")
    for row in body:
        if len(row.cells) != len(names):
            raise sheet.error(
                row.line,
                f"expected {len(names)} columns as in line {first.line}, got {len(row.cells)}; complete the line, "
                "or give the delimiter if this is not how columns are separated",
            )
    return sheet


def is_number(cell: str) -> bool:
    """Whether a cell is a number or missing."""
    if cell.strip().lower() in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def listed(names: Iterable[str]) -> str:
    """Names as text for a message, shortened if there are many."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")


def _known_delimiter(given: str) -> str:
    delimiter = DELIMITER_NAMES.get(given.lower(), given)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidInput(f"a delimiter is one character, or {', '.join(DELIMITER_NAMES)}; got {given!r}")
    return delimiter


def _guess_delimiter(lines: Sequence[str]) -> str:
    """The first of DELIMITERS that splits the first lines into equally many cells; else the one that splits most."""
    shown = [line for line in lines if line.strip()][:LOOKED_AT]
    counts = {sign: [_n_cells(line, sign) for line in shown] for sign in DELIMITERS}
    for sign, cells in counts.items():
        if shown and min(cells) > 1 and len(set(cells)) == 1:
            return sign
    # A damaged line, or a remark above the header: what most lines agree on.
    for sign, cells in counts.items():
        if sum(n > 1 for n in cells) > len(cells) / 2:
            return sign
    return ","


def _n_cells(line: str, sign: str) -> int:
    if sign == " ":
        return len(line.split(" "))
    try:
        return len(next(csv.reader([line], delimiter=sign)))
    except (csv.Error, StopIteration):
        return 1


def _split(path: Path, lines: Sequence[str], skipped: int, delimiter: str) -> list[Line]:
    """Rows with their line numbers, without blank lines after the last one.

    In a table of one column a blank line is a row whose value is missing; in others it is none.
    """
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
    one_column = all(len(row.cells) == 1 for row in rows)
    return rows if one_column else [row for row in rows if row.cells != [""]]


def _n_remarks(rows: Sequence[Line]) -> int:
    """How many lines of one cell stand above a table of several columns: what another program printed."""
    for n, row in enumerate(rows[:5]):
        if len(row.cells) > 1:
            agree = len({len(other.cells) for other in rows[n : n + 3]}) == 1
            return n if agree and len(rows) > n + 1 else 0
    return 0


def _header_in_comment(comments: Sequence[str], delimiter: str, rows: Sequence[Line]) -> list[str] | None:
    """The names in the last comment, "#CHR  START ...", if it has a name for every column of a table without one."""
    named = [line for line in comments if line.startswith("#")]
    if not named:
        return None
    names = [cell.strip() for cell in named[-1].lstrip("#").split(delimiter)]
    fits = len(names) > 1 and len(names) == len(rows[0].cells) and not any(is_number(name) for name in names)
    return names if fits and not _is_header(rows) else None


def _is_header(rows: Sequence[Line]) -> bool:
    """Whether the first line is one of names: it has texts in most columns that hold numbers further down.

    A column of texts, such as a chromosome, says nothing; without any column of numbers a line of texts is a header.
    """
    first, below = rows[0].cells, rows[1 : LOOKED_AT + 1]
    if not below:
        return not any(is_number(cell) for cell in first)
    numeric = [
        column
        for column in range(len(first))
        if all(is_number(row.cells[column]) for row in below if column < len(row.cells))
    ]
    texts = sum(not is_number(first[column]) for column in numeric)
    return 2 * texts > len(numeric) if numeric else not any(is_number(cell) for cell in first)


def _make_points(rows: Sequence[Line]) -> tuple[int, ...]:
    """Replace decimal commas by points, in columns of numbers that cannot be meant otherwise; returns these columns.

    Where every comma has three digits behind it, it may separate thousands: such a column is left to the reader.
    """
    found = []
    for column, first in enumerate(rows[0].cells):
        below = [row.cells[column].strip() for row in rows[1 : LOOKED_AT + 1] if column < len(row.cells)]
        # The first line may be a header.
        cells = [first.strip(), *below] if WITH_COMMA.fullmatch(first.strip()) else below
        matches = [match for cell in cells if (match := WITH_COMMA.fullmatch(cell))]
        others = [cell for cell in cells if not WITH_COMMA.fullmatch(cell)]
        whole = all(is_number(cell) and (cell.lower() in MISSING or "." not in cell) for cell in others)
        if whole and any(_is_decimal(match) for match in matches):
            found.append(column)
    for row in rows if found else ():
        for column in found:
            if column < len(row.cells) and WITH_COMMA.fullmatch(row.cells[column].strip()):
                row.cells[column] = row.cells[column].replace(",", ".")
    return tuple(found)


def _is_decimal(match: re.Match[str]) -> bool:
    before, behind = match.groups()
    return len(behind) != 3 or len(before) > 3 or before.startswith("0")
