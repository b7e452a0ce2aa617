"""Any data file as a signal for `chiasma fit`: genomic formats through `read_bins`, other tables by guessing.

A column named by the user is used unchanged. Otherwise a genomic file yields its depth, on a linear scale.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.io.columns import Columns, column_called
from chiasma.io.sheets import Sheet, as_sheet, listed, read_lines
from chiasma.io.signal import Signal
from chiasma.io.tables import read_signal, signal_of
from chiasma.models.observations import Observations
from chiasma.tumour.bins import Bins
from chiasma.tumour.formats import bins_of, is_genomic, refuse_r_data
from chiasma.tumour.pileups import is_vcf, vcf_bins
from chiasma.tumour.places import SAMPLE_NAMES
from chiasma.tumour.tracks import is_wig, read_wig


def read_any(path: Path, columns: Columns | None = None) -> Signal:
    """Read a file of any format; `notes` report the recognised format and guesses."""
    columns = columns or Columns()
    columns.check()
    if path.suffix.lower() == ".npy":
        return read_signal(path, columns)
    refuse_r_data(path)
    lines = read_lines(path)
    if is_wig(lines):
        return _signal(read_wig(path, lines), columns)
    if is_vcf(lines):
        return _signal(_chosen(path, vcf_bins(path, lines, columns.sample), columns.sample), columns)
    sheet = as_sheet(path, lines, columns.delimiter)
    named = (columns.value, columns.chromosome, columns.position)
    if named == (None, None, None) and is_genomic(sheet) and not _has_plain_value(sheet):
        return _signal(_chosen(path, bins_of(sheet, columns.sample), columns.sample), columns)
    sheet, notes = _of_sample(sheet, columns.sample)
    signal = signal_of(sheet, columns, guess=True)
    return replace(signal, notes=notes + signal.notes)


def _has_plain_value(sheet: Sheet) -> bool:
    """A table that this program wrote, or one like it: its signal is called value or y."""
    return column_called(sheet, ("value", "y")) is not None


def _chosen(path: Path, found: list[Bins], sample: str | None) -> Bins:
    name, notes = _sample(path, [bins.sample for bins in found], sample)
    chosen = next(bins for bins in found if bins.sample == name)
    return replace(chosen, notes=(*notes, *chosen.notes))


def _sample(path: Path, names: list[str], wanted: str | None) -> tuple[str, tuple[str, ...]]:
    """The requested sample, or the first one with a note if there are others."""
    if wanted is not None:
        if wanted not in names:
            raise InvalidInput(f"{path} has no sample {wanted!r}; choose one of {listed(names)}")
        return wanted, ()
    others = f"the first of {len(names)} samples is taken: {names[0]}; choose with --sample: {listed(names)}"
    return names[0], (others,) if len(names) > 1 else ()


def _of_sample(sheet: Sheet, sample: str | None) -> tuple[Sheet, tuple[str, ...]]:
    """The lines of one sample, if a column names samples."""
    column = column_called(sheet, SAMPLE_NAMES) if is_genomic(sheet) else None
    if column is None:
        return sheet, ()
    name, notes = _sample(sheet.path, list(dict.fromkeys(sheet.texts(column))), sample)
    return sheet.only([text == name for text in sheet.texts(column)]), notes


def _signal(bins: Bins, columns: Columns) -> Signal:
    distance = np.diff(bins.middle)
    inside = np.ones(bins.n_bins, bool)
    inside[bins.starts] = False
    known = distance[inside[1:]]
    unit = columns.gap_unit or (float(np.median(known)) if len(known) else 1.0)
    gaps = np.where(inside[1:], np.maximum(distance, 1.0) / unit, 1.0)
    notes = bins.notes
    if bins.alleles is not None and bins.alleles.columns:
        names = [*bins.alleles.columns, *([bins.alleles.sites_column] if bins.alleles.sites_column else [])]
        notes += (f"only the depth is used, not the columns of alleles, {listed(names)}; chiasma tumour uses all",)
    return Signal(
        data=Observations(bins.depth, bins.starts, gaps),
        chromosome=tuple(str(name) for name in bins.chromosome),
        position=bins.start.astype(float),
        end=bins.end.astype(float),
        gap_unit=unit,
        value="depth",
        notes=(replace(bins, alleles=None).in_words(), *notes),
    )
