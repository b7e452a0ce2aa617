"""Read a signal along sites from CSV, TSV or NPY files, and write tables; errors name the line of the file.

A table has one line per site: a value, optionally a chromosome, whose changes start new sequences, and a position,
whose differences are the gaps.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from chiasma import atomic
from chiasma.errors import InvalidInput
from chiasma.io.columns import (
    Columns,
    chromosomes_of,
    ends_of,
    find_column,
    find_several,
    find_values,
    gaps_of,
    guessed,
    is_dated,
    seconds_per_unit,
    times_of,
)
from chiasma.io.sheets import Sheet, is_number, listed, read_bytes, read_sheet
from chiasma.io.signal import Signal, row_of
from chiasma.models.observations import Observations
from chiasma.models.offsets import Covariates
from chiasma.storage.reading import read_npy

# Written tables: the suffix decides the delimiter.
WRITTEN = {".csv": ",", ".tsv": "\t"}
# How a cell begins that a spreadsheet takes for a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


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
    commas = [sheet.names[column] for column in sheet.commas]
    notes: tuple[str, ...] = (f"decimal commas in {listed(commas)} are read as points",) if commas else ()
    hints: tuple[str, ...] = ()
    if guess:
        columns, guesses, hints = guessed(sheet, columns)
        notes += guesses
    if columns.gap_unit is not None and columns.position is None:
        raise InvalidInput("a gap unit needs a position column; name it too, or drop the gap unit")
    if columns.position is not None and is_dated(sheet, clock := find_column(sheet, columns.position, "position")):
        zone = "read as UTC unless they name a time zone"
        where = f"column {sheet.names[clock]!r}"
        if columns.end is not None:
            where = f"columns {sheet.names[clock]!r} and {sheet.names[find_column(sheet, columns.end, 'end')]!r}"
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
        signal = Signal(data=Observations(y))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    if np.isnan(signal.data.y).all():
        raise InvalidInput(f"{path}: every value is missing; give another file")
    return signal


def _from_table(table: Sheet, columns: Columns) -> Signal:
    values = find_values(table, columns.value)
    for column in values:
        if np.isnan(table.numbers(column)).all():
            remedy = f"choose another one of {listed(table.names)}" if len(table.names) > 1 else "give another file"
            raise InvalidInput(f"{table.path}: every value of column {table.names[column]!r} is missing; {remedy}")
    y = np.stack([table.numbers(column) for column in values], axis=1)
    y = y[:, 0] if len(values) == 1 else y
    blocks: tuple[str, ...] | None = None
    starts = np.zeros(1, np.int64)
    if columns.chromosome is not None:
        blocks, starts = chromosomes_of(table, find_column(table, columns.chromosome, "chromosome"))
    finish = None if columns.end is None else find_column(table, columns.end, "end")
    series = [] if columns.covariate is None else find_several(table, columns.covariate, "covariate")
    covariates = None
    if series:
        names = [table.names[column] for column in series]
        covariates = Covariates(np.stack([table.numbers(column) for column in series], axis=1), names)
    known = {row_of(row): table.numbers(find_column(table, name, "known states")) for row, name in columns.known}
    value = ", ".join(table.names[column] for column in values) if table.has_header else None
    if columns.position is None:
        end = None if finish is None else ends_of(table, finish)
        data = Observations(y, starts, known=known)
        return Signal(data=data, chromosome=blocks, end=end, value=value, covariates=covariates)
    clock = find_column(table, columns.position, "position")
    position, zone = times_of(table, clock)
    gaps, unit = gaps_of(table, clock, position, zone, starts, columns.gap_unit)
    seconds = 1.0 if zone is not None else seconds_per_unit(table.names[clock])
    time = {} if seconds is None else {"step": unit * seconds, "unit": "s"}
    return Signal(
        data=Observations(y, starts, gaps, known=known, **time),  # type: ignore[arg-type]
        covariates=covariates,
        chromosome=blocks,
        position=position,
        end=None if finish is None else ends_of(table, finish, clock, position, zone),
        gap_unit=unit,
        value=value,
        axis=table.names[clock] if table.has_header else None,
        zone=zone,
    )
