"""Sheets: the lines of a table, split into cells, with their line numbers; plain text or gzip, any delimiter.

What is recognised by content: compression, the delimiter, whether there is a header, and a header behind "#". Lines of
comments before the header are kept, because other programs say there what the file is.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
import select
import time
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from chiasma.errors import InvalidInput
from chiasma.limits import MOST_COLUMNS, MOST_FILE_BYTES, is_whole
from chiasma.types import Floats

DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
# Tried in this order: a semicolon before a comma, which may be a decimal one.
DELIMITERS = ("\t", ";", ",", " ")
MISSING = ("", ".", "na", "n/a", "nan")
# The usual spellings, for pandas, which compares exactly; others are found when a column is no numbers.
NA_TEXTS = ["", ".", "na", "NA", "Na", "n/a", "N/A", "nan", "NaN", "NAN", "Nan"]
# Lines before the header that genomics tools write.
COMMENTS = ("#", "@")
GZIP = b"\x1f\x8b"
MAX_BYTES = "CHIASMA_MAX_BYTES"
CHUNK = 2**20
# Seconds after which a pipe has no writer: one that is started together with the command is there by then.
NO_WRITER = 5.0
# A number with a comma: the digits before and behind it.
WITH_COMMA = re.compile(r"[+-]?(\d+),(\d+)(?:[eE][+-]?\d+)?")
# Lines that decide what the delimiter is and whether there is a header.
LOOKED_AT = 50


class Sheet:
    """The lines of a file, split into cells; column names are 1, 2, ... if it has no header.

    lines: the number of the line of every row. comments: the lines before the header that begin with # or @, as they
    are. commas: columns whose numbers have decimal commas.
    """

    def __init__(
        self,
        path: Path,
        names: list[str],
        table: _Table,
        has_header: bool,
        comments: tuple[str, ...] = (),
        commas: tuple[int, ...] = (),
        chosen: npt.NDArray[np.int64] | None = None,
    ):
        self.path, self.names, self.has_header = path, names, has_header
        self.comments, self.commas = comments, commas
        self._table, self._chosen = table, chosen

    @property
    def n_rows(self) -> int:
        return len(self.lines)

    @property
    def lines(self) -> npt.NDArray[np.int64]:
        return self._table.lines if self._chosen is None else self._table.lines[self._chosen]

    def only(self, chosen: Sequence[bool] | npt.NDArray[np.bool_]) -> Sheet:
        """The sheet with some of its rows only."""
        kept = np.flatnonzero(np.asarray(chosen, bool))
        return self._like(self.names, self.has_header, kept if self._chosen is None else self._chosen[kept])

    def called(self, names: list[str]) -> Sheet:
        """The sheet with other names of its columns."""
        return self._like(names, True, self._chosen)

    def _like(self, names: list[str], has_header: bool, chosen: npt.NDArray[np.int64] | None) -> Sheet:
        return Sheet(self.path, names, self._table, has_header, self.comments, self.commas, chosen)

    def texts(self, column: int) -> list[str]:
        """The cells of a column, without spaces around them."""
        texts = self._table.texts(column)
        return texts if self._chosen is None else [texts[row] for row in self._chosen]

    def cell(self, row: int, column: int) -> str:
        """One cell, as the file has it but for spaces around it."""
        return self._table.cell(row if self._chosen is None else int(self._chosen[row]), column)

    def numbers(self, column: int, expected: str = "numbers") -> Floats:
        """A column as floats, NaN where missing; errors name the line of a text or an infinity.

        expected : what the column may hold, in words.
        """
        parsed = self._table.parsed(column)
        if parsed is None:
            decimal = column in self.commas
            return np.array([self._number(t, column, text, expected, decimal) for t, text in self._cells(column)])
        numbers = parsed if self._chosen is None else parsed[self._chosen]
        if np.isinf(numbers).any():
            t = int(np.argmax(np.isinf(numbers)))
            self._number(t, column, self.cell(t, column), expected)
        return numbers

    def is_numeric(self, column: int) -> bool:
        """Whether the first lines hold numbers or missing values, at least one number among them."""
        cells = [self.cell(t, column) for t in range(min(self.n_rows, LOOKED_AT))]
        known = [cell for cell in cells if cell.lower() not in MISSING]
        if not known:
            later = next((cell for cell in self.texts(column) if cell.lower() not in MISSING), "")
            known = [later] if later else []
        return bool(known) and all(is_number(_pointed(cell, column in self.commas)) for cell in known)

    def error(self, row: int, message: str) -> InvalidInput:
        """An error that names the line of a row."""
        return _error(self.path, int(self.lines[row]), message)

    def _cells(self, column: int) -> Iterable[tuple[int, str]]:
        return enumerate(self.texts(column))

    def _number(self, row: int, column: int, text: str, expected: str, decimal: bool = False) -> float:
        if text.lower() in MISSING:
            return math.nan
        try:
            number = float(_pointed(text, decimal)) if "_" not in text else None
        except ValueError:
            number = None
        where = f"column {self.names[column]!r}"
        if number is None:
            other = "correct it or write NA" if expected == "numbers" else "write them in this way"
            remedy = "write decimals with a point" if WITH_COMMA.fullmatch(text) else other
            raise self.error(row, f"{where} must hold {expected}, got {text!r}; {remedy}")
        if math.isinf(number):
            raise self.error(row, f"{where} must be finite, got {text!r}; write NA for a missing value")
        return number


class _Table:
    """Cells of lines without a header, parsed by pandas: columns of numbers at once, texts where they are asked for."""

    def __init__(self, path: Path, kept: Sequence[str], lines: npt.NDArray[np.int64], sign: str, n_cells: int):
        self.path, self.kept, self.lines, self.sign, self.n_cells = path, kept, lines, sign, n_cells
        self._content = "\n".join(kept).encode()
        self._texts: dict[int, list[str]] = {}
        try:
            self._frame = self._parse(na_values=NA_TEXTS)
        except (pd.errors.ParserError, pd.errors.EmptyDataError, OverflowError) as error:
            raise self._ragged() or InvalidInput(f"{path} is not a table: {error}") from error
        if self._frame.shape != (len(kept), n_cells):
            raise self._ragged() or InvalidInput(f"{path}: a quoted cell goes over several lines; write it on one")
        # pandas completes short lines: those end with a missing value.
        short = np.flatnonzero(self._frame[n_cells - 1].isna()) if n_cells > 1 else ()
        if bad := self._ragged(short):
            raise bad

    def _parse(self, **how: Any) -> pd.DataFrame:
        # Blank lines are left out before: a blank line of one column is a missing value.
        return pd.read_csv(
            io.BytesIO(self._content),
            sep=self.sign,
            header=None,
            keep_default_na=False,
            skip_blank_lines=False,
            low_memory=False,
            **how,
        )

    def parsed(self, column: int) -> Floats | None:
        """A column that pandas knows to be numbers."""
        cells = self._frame[column]
        return cells.to_numpy(float) if cells.dtype.kind in "iuf" else None

    def texts(self, column: int) -> list[str]:
        if column not in self._texts:
            cells = self._frame[column]
            if not pd.api.types.is_string_dtype(cells) or cells.isna().any():
                cells = self._parse(usecols=[column], dtype=object, na_filter=False)[column]
            self._texts[column] = [text.strip() for text in cells.tolist()]
        return self._texts[column]

    def cell(self, row: int, column: int) -> str:
        return self._split(row)[column].strip()

    def _split(self, row: int) -> list[str]:
        line = self.kept[row]
        return next(csv.reader([line], delimiter=self.sign), [""]) if '"' in line else line.split(self.sign)

    def _ragged(self, rows: Iterable[int] | None = None) -> InvalidInput | None:
        """What is wrong with the first line whose cells differ from the others; rows: where to look."""
        for row in range(len(self.kept)) if rows is None else rows:
            line = int(self.lines[row])
            try:
                list(csv.reader([self.kept[row]], delimiter=self.sign, strict=True))
            except csv.Error as error:
                return _error(self.path, line, f"{error}; check the quotes")
            if (n := len(self._split(row))) != self.n_cells:
                return _error(
                    self.path,
                    line,
                    f"expected {self.n_cells} columns, got {n}; complete the line, or give the delimiter if this is "
                    "not how columns are separated",
                )
        return None


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a file, unpacked if it is a gzip file, whatever its name; at most `most_bytes`, or `most`."""
    limit = most_bytes() if most is None else most
    try:
        if path.exists() and not (path.is_file() or path.is_fifo() or path.is_dir()):
            raise InvalidInput(f"{path} is a device, which may never end; copy what it gives into a file")
        with _Pipe(path) if path.is_fifo() else path.open("rb") as file:
            content = _up_to(file, limit)
        if content.startswith(GZIP) and len(content) <= limit:
            try:
                with gzip.open(io.BytesIO(content)) as packed:
                    content = _up_to(packed, limit)
            except (OSError, EOFError, zlib.error) as error:
                raise InvalidInput(f"{path} is a damaged gzip file ({error}); copy it again") from error
            if content.startswith(GZIP):
                raise InvalidInput(f"{path} was compressed twice; unpack it once: gzip -dc")
    except FileNotFoundError:
        raise InvalidInput(f"{path}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory; give a file in it") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > limit:
        raise InvalidInput(
            f"{path} holds more than {limit:,} bytes (unpacked, if it is compressed); "
            + (
                f"if you trust it, raise the limit: chiasma --max-bytes N, or {MAX_BYTES}=N in the environment"
                if most is None
                else "this is not a settings file; give data as DATA"
            )
        )
    return content


class _Pipe:
    """A pipe as a file. It waits for a slow writer, but not for one that never comes."""

    def __init__(self, path: Path):
        self.path, self.begun = path, False
        self.handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.handle)

    def read(self, n: int) -> bytes:
        deadline = time.monotonic() + NO_WRITER
        while True:
            try:
                part = os.read(self.handle, n)
            except BlockingIOError:  # there is a writer, and nothing to read
                self.begun = True
                select.select([self.handle], [], [])
                continue
            if part or self.begun:
                self.begun = True
                return part
            if time.monotonic() > deadline:
                raise InvalidInput(f"nothing is written to the pipe {self.path}; give a file instead")
            time.sleep(0.02)


def _up_to(file: Any, most: int) -> bytes:
    """The content of a file, or a little more than `most` bytes of it; memory is taken as it comes."""
    parts, size = [], 0
    while size <= most and (part := file.read(CHUNK)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def most_bytes() -> int:
    """The largest size of a data file, in bytes. The environment has it, so that workers know it, too."""
    given = os.environ.get(MAX_BYTES, str(MOST_FILE_BYTES))
    if not (is_whole(given) and int(given) > 0):
        raise InvalidInput(f"{MAX_BYTES} must be a whole number of bytes above 0, got {given!r}")
    return int(given)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _error(
            path,
            line,
            f"this is not UTF-8 text (byte {content[error.start]:#04x}); save it as UTF-8, and unpack it if it is "
            "compressed by something else than gzip",
        ) from error
    if (nul := text.find("\0")) >= 0:
        raise _error(path, text.count("\n", 0, nul) + 1, "null bytes are not text; give a table, or an NPY file")
    # Not str.splitlines, which takes characters such as U+2028 and form feeds for ends of lines as well.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def read_sheet(path: Path, delimiter: str | None = None) -> Sheet:
    """Read a table. delimiter: one character, or its name; default: the one that all lines agree on."""
    return as_sheet(path, read_lines(path), delimiter)


def as_sheet(path: Path, lines: Sequence[str], delimiter: str | None = None) -> Sheet:
    """`read_sheet` of lines that were read already."""
    skipped = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith(COMMENTS)), len(lines))
    comments = tuple(line for line in lines[:skipped] if line.strip())
    sign = _known_delimiter(delimiter) if delimiter is not None else _guess_delimiter(lines[skipped:])
    # A line of delimiters alone is a row of missing values.
    numbers = [i for i in range(skipped, len(lines)) if lines[i].strip() or sign in lines[i]]
    for i in numbers[:LOOKED_AT]:
        if (n_cells := lines[i].count(sign) + 1) > MOST_COLUMNS:
            raise _error(
                path,
                i + 1,
                f"a table has at most {MOST_COLUMNS:,} columns, got {n_cells:,}; write one line per site, or keep the "
                "columns that you need",
            )
    head = [_cells_of(lines[i], sign) for i in numbers[: LOOKED_AT + 6]]
    remarks = _n_remarks(head, len(numbers))
    numbers, head = numbers[remarks:], head[remarks:]
    if not numbers:
        raise InvalidInput(f"{path} has no rows; expected a header and one line per site")
    if len(head[0]) == 1:
        # In a table of one column a blank line is a missing value, but for those at the end.
        numbers = list(range(numbers[0], numbers[-1] + 1))
    commas = () if sign == "," else _decimal_commas(head)
    plain = [[_pointed(cell, column in commas) for column, cell in enumerate(row)] for row in head]
    hidden = _header_in_comment(lines[:skipped], sign, plain)
    has_header = hidden is not None or _is_header(plain)
    first = numbers[0]
    names = hidden or ([cell.strip() for cell in head[0]] if has_header else [str(i + 1) for i in range(len(head[0]))])
    if has_header and hidden is None:
        numbers = numbers[1:]
    if not numbers:
        raise _error(path, first + 1, "there is a header and nothing below it; expected one line per site")
    table = _Table(path, [lines[i] for i in numbers], np.array(numbers) + 1, sign, len(names))
    return Sheet(path, names, table, has_header, comments, commas)


def _error(path: Path, line: int, message: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {line}: {message}")


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
    counts = {sign: [len(_cells_of(line, sign)) for line in shown] for sign in DELIMITERS}
    for sign, cells in counts.items():
        if shown and min(cells) > 1 and len(set(cells)) == 1:
            return sign
    # A damaged line, or a remark above the header: what most lines agree on.
    for sign, cells in counts.items():
        if sum(n > 1 for n in cells) > len(cells) / 2:
            return sign
    return ","


def _cells_of(line: str, sign: str) -> list[str]:
    if '"' not in line:
        return line.split(sign)
    try:
        return next(csv.reader([line], delimiter=sign), [""])
    except csv.Error:
        return [line]


def _n_remarks(rows: Sequence[list[str]], n_rows: int) -> int:
    """How many lines of one cell stand above a table of several columns: what another program printed."""
    for n, row in enumerate(rows[:5]):
        if len(row) > 1:
            agree = len({len(other) for other in rows[n : n + 3]}) == 1
            return n if agree and n_rows > n + 1 else 0
    return 0


def _header_in_comment(comments: Sequence[str], delimiter: str, rows: Sequence[list[str]]) -> list[str] | None:
    """The names in the last comment, "#CHR  START ...", if it has a name for every column of a table without one."""
    named = [line for line in comments if line.startswith("#")]
    if not named:
        return None
    names = [cell.strip() for cell in named[-1].lstrip("#").split(delimiter)]
    fits = len(names) > 1 and len(names) == len(rows[0]) and not any(is_number(name) for name in names)
    return names if fits and not _is_header(rows) else None


def _is_header(rows: Sequence[list[str]]) -> bool:
    """Whether the first line is one of names: it has texts in most columns that hold numbers further down.

    A column of texts, such as a chromosome, says nothing; without any column of numbers a line of texts is a header.
    """
    first, below = rows[0], rows[1 : LOOKED_AT + 1]
    if not below:
        return not any(is_number(cell) for cell in first)
    numeric = [
        column for column in range(len(first)) if all(is_number(row[column]) for row in below if column < len(row))
    ]
    texts = sum(not is_number(first[column]) for column in numeric)
    return 2 * texts > len(numeric) if numeric else not any(is_number(cell) for cell in first)


def _decimal_commas(rows: Sequence[list[str]]) -> tuple[int, ...]:
    """Columns of numbers with decimal commas that cannot be meant otherwise.

    Where every comma has three digits behind it, it may separate thousands: such a column is left to the reader.
    """
    found = []
    for column, first in enumerate(rows[0]):
        below = [row[column].strip() for row in rows[1 : LOOKED_AT + 1] if column < len(row)]
        # The first line may be a header.
        cells = [first.strip(), *below] if WITH_COMMA.fullmatch(first.strip()) else below
        matches = [match for cell in cells if (match := WITH_COMMA.fullmatch(cell))]
        others = [cell for cell in cells if not WITH_COMMA.fullmatch(cell)]
        whole = all(is_number(cell) and (cell.lower() in MISSING or "." not in cell) for cell in others)
        if whole and any(_is_decimal(match) for match in matches):
            found.append(column)
    return tuple(found)


def _is_decimal(match: re.Match[str]) -> bool:
    before, behind = match.groups()
    return len(behind) != 3 or len(before) > 3 or before.startswith("0")


def _pointed(cell: str, decimal: bool) -> str:
    """A cell with a point for its comma, if that is a decimal one."""
    return cell.replace(",", ".") if decimal and WITH_COMMA.fullmatch(cell.strip()) else cell
