"""Read what other programs write about depth and alleles along a genome; a file is recognised by what it holds.

    CNVkit    .cnr, .cns, .call.cns         chromosome start end gene log2 ...
    GATK      denoised or standardized copy ratios, allelic counts (.hets.tsv), .cr.seg, .modelFinal.seg, .igv.seg
    HATCHet   .bb                           #CHR START END SAMPLE RD #SNPS COV ALPHA BETA BAF
    QDNAseq   .igv                          chromosome start end feature, one column per sample
    SEG       of CBS, PureCN, IGV, ...      sample, chromosome, start, end, (markers), mean
    ASCAT     log ratios of arrays          chrs pos, one column per sample; B-allele fractions in a file like it
    bedGraph, fixedStep and variableStep WIG
    any table with columns that name a chromosome, a start and values

Columns are found by their names, so that their order does not matter. Values on a log2 scale are recognised by their
name or by negative numbers and made linear; a note says so.

A step line of a WIG says "fixedStep chrom=1 start=1 step=1000000 span=1000000" or "variableStep chrom=1 span=50";
values follow, one per line. Positions count from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.io.column_guesses import CHROMOSOME_NAMES, END_NAMES, START_NAMES
from chiasma.io.columns import column_called, plain_name, same_chromosome
from chiasma.io.sheets import MISSING, Sheet, as_sheet, listed, read_lines
from chiasma.tumour.bins import Alleles, Bins
from chiasma.types import Floats, Integers

SAMPLE_NAMES = ("sample", "id", "samplename", "sampleid", "barcode")
LOG2_NAMES = (
    "log2",
    "log2copyratio",
    "log2copyratioposterior50",
    "meanlog2copyratio",
    "log2ratio",
    "logr",
    "segmean",
    "segmentmean",
)
LINEAR_NAMES = ("rd", "ratio", "copyratio", "copynumber", "relativecopynumber", "depthratio", "value", "mean")
COUNT_NAMES = ("counts", "count", "reads", "readcount", "coverage", "depth")
MARK_NAMES = (
    "nummark",
    "numprobes",
    "probes",
    "nbrofloci",
    "nummarkers",
    "numpointscopyratio",
    "nprobes",
    "numbins",
    "bins",
)
WEIGHT_NAMES = ("weight",)
SITES_NAMES = ("snps", "nsnps", "numsnps", "numpointsallelefraction")
BAF_NAMES = ("baf", "mbaf", "maf", "minorallelefraction", "minorallelefractionposterior50")
ALLELE_NAMES = (("alpha", "beta"), ("refcount", "altcount"), ("refreads", "altreads"))
# Columns of other programs' answers, or that describe a bin: never a signal of their own.
NOT_A_SIGNAL = {
    "gc",
    "mappability",
    "map",
    "blacklist",
    "use",
    "residual",
    "bases",
    "strand",
    "width",
    "feature",
    "gene",
}
SEGMENTED = "seg"
# What a file is taken for that is of no known format.
TABLE = "table"
# A larger share of segments that end before they begin is a mistake in the file.
MOST_EMPTY = 0.5
STEPS = ("fixedStep", "variableStep")
# Bins that the correction is fitted to: mappability at least this, and counts within these quantiles.
MAPPABLE = 0.9
TRUSTED = (0.01, 0.99)
# Fewest bins per knot of a correction curve.
PER_KNOT = 50


class Format(NamedTuple):
    """A kind of file: plain names of columns that it has, and of columns that it has not."""

    name: str
    needs: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    segments: bool = False
    one_based: bool = False


# The first that fits is taken.
FORMATS = (
    Format("CNVkit .call.cns", ("chromosome", "start", "end", "gene", "log2", "cn", "probes"), segments=True),
    Format("CNVkit .cns", ("chromosome", "start", "end", "gene", "log2", "probes"), segments=True),
    Format("CNVkit .cnr", ("chromosome", "start", "end", "gene", "log2")),
    Format("HATCHet .bb", ("chr", "start", "end", "sample", "rd", "baf")),
    Format("GATK allelic counts", ("contig", "position", "refcount", "altcount"), one_based=True),
    Format(
        "GATK .modelFinal.seg",
        ("contig", "start", "end", "log2copyratioposterior50"),
        segments=True,
        one_based=True,
    ),
    Format("GATK .cr.seg", ("contig", "start", "end", "meanlog2copyratio"), segments=True, one_based=True),
    Format("GATK copy ratios", ("contig", "start", "end", "log2copyratio"), one_based=True),
    Format("QDNAseq .igv", ("chromosome", "start", "end", "feature"), one_based=True),
)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Numbers of the columns of a sheet; None: there is none."""

    chromosome: int
    start: int
    end: int | None
    sample: int | None


def read_bins(path: Path | str, sample: str | None = None) -> list[Bins]:
    """Read a file of any of the formats: one `Bins` per sample, in the order of the file.

    sample : only this one.
    """
    path = Path(path)
    lines = read_lines(path)
    found = [read_wig(path, lines)] if is_wig(lines) else bins_of(as_sheet(path, lines))
    if sample is None:
        return found
    chosen = [bins for bins in found if bins.sample == sample]
    if not chosen:
        raise InvalidInput(f"{path} has no sample {sample!r}; choose one of {listed(b.sample for b in found)}")
    return chosen


def is_genomic(sheet: Sheet) -> bool:
    """Whether the columns of a sheet name a chromosome and a position."""
    chromosome, start = column_called(sheet, CHROMOSOME_NAMES), column_called(sheet, START_NAMES)
    return (chromosome is not None and start is not None) or _is_bed_graph(sheet)


def bins_of(sheet: Sheet) -> list[Bins]:
    if _is_bed_graph(sheet):
        sheet = sheet.called(["chromosome", "start", "end", "value"])
        return _bins(sheet, Format("bedGraph", ()))
    if not sheet.has_header:
        raise InvalidInput(
            f"{sheet.path} has no header that names its columns, and is no bedGraph (chromosome, start, end, value); "
            "write names above the columns: chromosome, start, end, log2 or ratio"
        )
    have = {plain_name(name) for name in sheet.names}
    for known in FORMATS:
        if have.issuperset(known.needs) and not have.intersection(known.lacks):
            return _bins(sheet, known)
    if column_called(sheet, SAMPLE_NAMES) is not None and column_called(sheet, END_NAMES) is not None:
        looks_like_seg = column_called(sheet, MARK_NAMES) is not None or have & {"segmean", "segmentmean"}
        if looks_like_seg:
            return _bins(sheet, Format("SEG", (), segments=True, one_based=True))
    return _bins(sheet, Format(TABLE, ()))


def _is_bed_graph(sheet: Sheet) -> bool:
    """chromosome, start, end, value, and no header."""
    if sheet.has_header or len(sheet.names) != 4:
        return False
    return all(sheet.is_numeric(column) for column in (1, 2, 3)) and not sheet.cell(0, 0).startswith("-")


def _bins(sheet: Sheet, known: Format) -> list[Bins]:
    roles = _roles(sheet)
    names = _sample_names(sheet, roles)
    found = []
    for name in dict.fromkeys(names):
        own = sheet.only([other == name for other in names])
        found += _one_sample(own, known, roles, name)
    return found


def _one_sample(sheet: Sheet, known: Format, roles: Roles, name: str) -> list[Bins]:
    """The lines of one sample: one Bins per column of values."""
    notes = _guessed_places(sheet, known, roles)
    if known.segments and roles.end is not None:
        sheet = _without_empty(sheet, roles.start, roles.end, notes)
    chromosome, start, end = _places(sheet, known, roles, notes)
    alleles, weight = _alleles(sheet), _weights(sheet, known)
    columns = _value_columns(sheet, roles, known, notes)
    depths = {label or name: _linear(sheet, column) for label, column in columns.items()}
    if not depths and alleles is not None and alleles.a is not None and alleles.b is not None:
        depths = {name: _depth_of_counts(alleles.a + alleles.b)}
    if not depths:
        raise InvalidInput(
            f"{sheet.path} has no column of depth or copy ratio; expected one called log2, ratio, copy_number, RD, "
            f"counts or seg.mean among {listed(sheet.names)}"
        )
    return [
        Bins(
            sample=label,
            source=str(sheet.path),
            kind=known.name,
            chromosome=chromosome,
            start=start,
            end=end,
            depth=depth,
            weight=weight,
            alleles=alleles,
            segments=known.segments,
            lengths=_lengths(sheet.comments),
            notes=(*notes, note),
        )
        for label, (depth, note) in depths.items()
    ]


def _guessed_places(sheet: Sheet, known: Format, roles: Roles) -> list[str]:
    """A note on the columns of a table that are taken as places by names that are not exactly theirs."""
    taken = {"chromosome": roles.chromosome, "start": roles.start, "end": roles.end}
    names = {role: sheet.names[column] for role, column in taken.items() if column is not None}
    if known.name != TABLE or all(name.lower() == role for role, name in names.items()):
        return []
    return [f"columns {', '.join(map(repr, names.values()))} are taken as {', '.join(names)}"]


def _without_empty(sheet: Sheet, start: int, end: int, notes: list[str]) -> Sheet:
    """Without segments that end before they begin, which some programs write where they found nothing."""
    empty = sheet.numbers(end) < sheet.numbers(start)
    if not empty.any():
        return sheet
    if empty.mean() > MOST_EMPTY:
        first = int(np.argmax(empty))
        raise sheet.error(first, f"{empty.mean():.0%} of segments end before they begin; are start and end exchanged?")
    notes.append(f"left out, as they end before they begin: {int(empty.sum())} segments")
    return sheet.only(~empty)


def _roles(sheet: Sheet) -> Roles:
    chromosome, start = column_called(sheet, CHROMOSOME_NAMES), column_called(sheet, START_NAMES)
    if chromosome is None or start is None:
        missing = "chromosome" if chromosome is None else "start"
        raise InvalidInput(
            f"{sheet.path} has no column that names the {missing}; expected chromosome, start, end and a value, got "
            f"{listed(sheet.names)}"
        )
    sample = column_called(sheet, SAMPLE_NAMES)
    return Roles(chromosome=chromosome, start=start, end=column_called(sheet, END_NAMES), sample=sample)


def _sample_names(sheet: Sheet, roles: Roles) -> list[str]:
    """The sample of every line: from its column, from the comments of GATK, or the name of the file."""
    if roles.sample is not None:
        return sheet.texts(roles.sample)
    named = [part[3:] for line in sheet.comments for part in line.split("\t") if part.startswith("SM:")]
    stem = sheet.path.name.removesuffix(".gz")
    return [named[0] if named else stem.rsplit(".", 1)[0]] * sheet.n_rows


def _places(
    sheet: Sheet, known: Format, roles: Roles, notes: list[str]
) -> tuple[npt.NDArray[np.str_], Integers, Integers]:
    """Chromosomes, starts and ends, 0-based and half-open; refuses lines that are not sorted."""
    labels = np.array(sheet.texts(roles.chromosome), dtype=str)
    start = _positions(sheet, roles.start)
    end = start + 1 if roles.end is None else _positions(sheet, roles.end)
    if known.one_based or (roles.end is not None and _counts_from_one(start, end)):
        if not known.one_based:
            notes.append("positions count from 1 in this file")
        start = start - 1
        end = start + 1 if roles.end is None else end
    _check_order(sheet, labels, start, end)
    if roles.end is None:
        notes.append("no column of ends: a site is one base long")
    return labels, start, end


def _positions(sheet: Sheet, column: int) -> Integers:
    given = sheet.numbers(column)
    bad = ~(given >= 0) | (given != np.floor(given))
    if bad.any():
        first = int(np.argmax(bad))
        raise sheet.error(
            first,
            f"column {sheet.names[column]!r} must hold positions in bases, whole numbers >= 0, got "
            f"{sheet.cell(first, column)!r}; correct the line or drop it",
        )
    return given.astype(np.int64)


def _counts_from_one(start: Integers, end: Integers) -> bool:
    """Bins of equal width whose starts are one past a multiple of it, as R programs write them."""
    width = int(np.median(end - start)) + 1
    return width > 1 and float(np.mean((start % width == 1) & (end % width == 0))) > 0.9


def _check_order(sheet: Sheet, labels: npt.NDArray[np.str_], start: Integers, end: Integers) -> None:
    began: dict[str, int] = {}
    current = None
    for t in range(sheet.n_rows):
        name = str(labels[t])
        if name.lower() in MISSING:
            raise sheet.error(t, "a chromosome is missing; correct the line or drop it")
        key = same_chromosome(name)
        if key != current:
            if key in began:
                raise sheet.error(
                    t,
                    f"chromosome {name!r} began in line {began[key]} and appears again after {str(labels[t - 1])!r}; "
                    "sort the file by chromosome and position, or add a column that names the sample",
                )
            began[key], current = int(sheet.lines[t]), key
        else:
            labels[t] = labels[t - 1]  # one spelling
            if start[t] <= start[t - 1]:
                raise sheet.error(
                    t,
                    f"position {start[t]:,} comes after {start[t - 1]:,} on chromosome {name!r}; sort the file by "
                    "chromosome and position, and merge lines of one position",
                )
        if end[t] <= start[t]:
            raise sheet.error(t, f"a bin ends at {end[t]:,}, which is not after its start; correct the line")


def _value_columns(sheet: Sheet, roles: Roles, known: Format, notes: list[str]) -> dict[str, int]:
    """Columns of depth by sample name; the name is "" where a file has only one."""
    if known.name == "GATK allelic counts":
        return {}
    for names in (LOG2_NAMES, LINEAR_NAMES):
        column = column_called(sheet, names)
        if column is not None:
            return {"": column}
    taken = {roles.chromosome, roles.start, roles.end, roles.sample}
    taken |= {column_called(sheet, names) for names in (MARK_NAMES, WEIGHT_NAMES, SITES_NAMES, BAF_NAMES)}
    free = [c for c in range(len(sheet.names)) if c not in taken and sheet.is_numeric(c)]
    free = [c for c in free if plain_name(sheet.names[c]) not in NOT_A_SIGNAL]
    named = {prefix: [c for c in free if plain_name(sheet.names[c]).startswith(prefix)] for prefix in ("log2", "ratio")}
    for prefix, columns in named.items():
        if columns:
            notes.append(f"a sample is a column whose name begins with {prefix!r}")
            return {_without(sheet.names[c], prefix): c for c in columns}
    column = column_called(sheet, COUNT_NAMES)
    if column is not None and sheet.is_numeric(column):
        return {"": column}
    samples = [c for c in free if not plain_name(sheet.names[c]).startswith(SEGMENTED) and _is_signal(sheet, c)]
    if not samples and column is not None:  # a text among its numbers, which the reader will name
        return {"": column}
    if len(samples) > 1:
        notes.append(f"every column of numbers is taken as a sample: {listed(sheet.names[c] for c in samples)}")
    return {"" if len(samples) == 1 and known.name != "QDNAseq .igv" else sheet.names[c]: c for c in samples}


def _without(name: str, prefix: str) -> str:
    return name[len(prefix) :].strip(" ._-:") or name


def _is_signal(sheet: Sheet, column: int) -> bool:
    """Whether numbers vary and have decimals, or are counts that vary much: not a flag, an index or a state."""
    values = sheet.numbers(column)
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return False
    return bool(np.any(values != np.floor(values))) or len(np.unique(values)) > max(20, len(values) // 50)


def _linear(sheet: Sheet, column: int) -> tuple[Floats, str]:
    """(T,) depth on a linear scale, NaN where missing, and how it was made."""
    values = sheet.numbers(column)
    name = sheet.names[column]
    if np.isnan(values).all():
        raise InvalidInput(f"{sheet.path}: every value of column {name!r} is missing; choose another file or sample")
    negative = float(np.mean(values[~np.isnan(values)] < 0))
    plain = plain_name(name)
    if plain in LOG2_NAMES or plain.startswith("log2"):
        return np.exp2(np.clip(values, -20, 20)), f"column {name!r} holds log2 ratios by its name: made linear, 2^x"
    if negative > 0.02:
        told = f"column {name!r} holds log2 ratios, as {negative:.0%} of it is negative: made linear, 2^x"
        return np.exp2(np.clip(values, -20, 20)), told
    return np.maximum(values, 0.0), f"column {name!r} is taken as depth on a linear scale"


def _depth_of_counts(total: Floats) -> tuple[Floats, str]:
    told = "depth is the number of reads of both alleles, as there is no column of depth"
    return np.asarray(total / np.median(total)), told


def _weights(sheet: Sheet, known: Format) -> Floats:
    """(T,) precision of a bin: its markers if it is a segment, its weight if there is such a column, else 1."""
    column = column_called(sheet, MARK_NAMES if known.segments else WEIGHT_NAMES)
    if column is None or not sheet.is_numeric(column):
        return np.ones(sheet.n_rows)
    weight = sheet.numbers(column)
    return np.where(weight > 0, weight, np.nanmin(weight[weight > 0], initial=1.0) if np.any(weight > 0) else 1.0)


def _alleles(sheet: Sheet) -> Alleles | None:
    sites_column = column_called(sheet, SITES_NAMES)
    sites = np.ones(sheet.n_rows) if sites_column is None else sheet.numbers(sites_column)
    sites_name = None if sites_column is None else sheet.names[sites_column]
    for names in ALLELE_NAMES:
        columns = [column for name in names if (column := column_called(sheet, (name,))) is not None]
        if len(columns) == len(names):
            a, b = (sheet.numbers(column) for column in columns)
            seen = np.flatnonzero((a + b > 0) & (sites > 0))
            mirrored = bool(np.all(a[seen] <= b[seen]) or np.all(b[seen] <= a[seen]))
            return Alleles(
                bin=seen,
                a=a[seen],
                b=b[seen],
                sites=sites[seen],
                mirrored=mirrored,
                columns=tuple(sheet.names[column] for column in columns),
                sites_column=sites_name,
            )
    column = column_called(sheet, BAF_NAMES)
    if column is None or not sheet.is_numeric(column):
        return None
    baf = sheet.numbers(column)
    bad = (baf < 0) | (baf > 1)
    if bad.any():
        first = int(np.argmax(bad))
        raise sheet.error(
            first, f"column {sheet.names[column]!r} must hold fractions in 0..1, got {sheet.cell(first, column)!r}"
        )
    seen = np.flatnonzero(~np.isnan(baf) & (sites > 0))
    return Alleles(
        bin=seen,
        baf=baf[seen],
        sites=sites[seen],
        mirrored=bool(np.all(baf[seen] <= 0.5)),
        columns=(sheet.names[column],),
        sites_column=sites_name,
    )


def _lengths(comments: Iterable[str]) -> dict[str, int]:
    """Lengths of chromosomes from lines such as "@SQ  SN:20  LN:63025520"."""
    found = {}
    for line in comments:
        parts = dict(part.split(":", 1) for part in line.split("\t") if ":" in part)
        if line.startswith("@SQ") and parts.get("LN", "").isdecimal():
            found[parts["SN"]] = int(parts["LN"])
    return found


# ---- WIG, and the correction of counts for GC content and mappability ------------------------------------------------


def is_wig(lines: Sequence[str]) -> bool:
    first = next((line for line in lines if line.strip() and not line.startswith(("#", "track", "browser"))), "")
    return first.startswith(STEPS)


def read_wig(path: Path, lines: Sequence[str]) -> Bins:
    """One sample of counts, or of any other value per bin."""
    chromosome: list[str] = []
    start: list[int] = []
    end: list[int] = []
    values: list[float] = []
    step: dict[str, str] = {}
    fixed, place = False, 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(("#", "track", "browser")):
            continue
        if text.startswith(STEPS):
            fixed = text.startswith("fixedStep")
            step = dict(part.split("=", 1) for part in text.split()[1:] if "=" in part)
            needed = ("chrom", "start", "step") if fixed else ("chrom",)
            missing = [name for name in needed if name not in step]
            if missing or not all(step[name].isdecimal() for name in ("start", "step", "span") if name in step):
                raise _wig_error(path, number, f"a {text.split()[0]} line needs {', '.join(needed)}, got {text!r}")
            place = int(step.get("start", "1")) - 1
            continue
        cells = text.split()
        if len(cells) != (1 if fixed else 2):
            raise _wig_error(path, number, f"expected {'a value' if fixed else 'a position and a value'}, got {text!r}")
        try:
            value = np.nan if cells[-1].lower() in MISSING else float(cells[-1])
            place = place if fixed else int(cells[0]) - 1
        except ValueError:
            raise _wig_error(path, number, f"expected numbers, got {text!r}") from None
        width = int(step.get("span", step.get("step", "1")))
        if chromosome and chromosome[-1] == step["chrom"] and place < end[-1]:
            raise _wig_error(path, number, f"position {place + 1:,} comes after a bin that ends at {end[-1]:,}")
        chromosome.append(step["chrom"])
        start.append(place)
        end.append(place + width)
        values.append(value)
        place += int(step["step"]) if fixed else 0
    if not values:
        raise InvalidInput(f"{path} has step lines and no values; expected one value per bin")
    depth = np.array(values)
    return Bins(
        sample=path.name.removesuffix(".gz").rsplit(".", 1)[0],
        source=str(path),
        kind=f"WIG ({'fixedStep' if fixed else 'variableStep'})",
        chromosome=np.array(chromosome, dtype=str),
        start=np.array(start),
        end=np.array(end),
        depth=np.where(np.isfinite(depth), depth, np.nan),
        weight=np.ones(len(depth)),
        notes=("values are taken as counts",) if np.all(depth[np.isfinite(depth)] % 1 == 0) else (),
    )


def corrected(bins: Bins, gc: Bins | None = None, mappability: Bins | None = None) -> Bins:
    """Counts divided by what GC content and mappability let expect; bins of low mappability are set missing.

    The expected count is a curve through medians of bins with about the same GC content, then of those with about the
    same mappability.
    """
    depth = np.where(bins.depth > 0, bins.depth, np.nan)
    notes = []
    usable = ~np.isnan(depth)
    if mappability is not None:
        _check_same_bins(bins, mappability)
        usable &= mappability.depth >= MAPPABLE
        depth = np.where(usable, depth, np.nan)
        notes.append(f"bins with mappability below {MAPPABLE:g} are set missing")
    low, high = np.nanquantile(depth, TRUSTED)
    for other, name in ((gc, "GC content"), (mappability, "mappability")):
        if other is not None:
            _check_same_bins(bins, other)
            covariate = np.where(other.depth >= 0, other.depth, np.nan)
            trusted = usable & (depth >= low) & (depth <= high) & ~np.isnan(covariate)
            depth = depth / _median_curve(covariate, depth, trusted)
            low, high = np.nanquantile(depth, TRUSTED)
            notes.append(f"counts are corrected for {name} ({other.source})")
    return replace(bins, depth=depth / np.nanmedian(depth), notes=(*bins.notes, *notes))


def _median_curve(x: Floats, y: Floats, trusted: np.ndarray) -> Floats:
    """(T,) a curve through the medians of y in groups of about equal x, relative to the overall median."""
    known_x, known_y = x[trusted], y[trusted]
    n_knots = int(np.clip(len(known_x) // PER_KNOT, 2, 40))
    order = np.argsort(known_x, kind="stable")
    groups = np.array_split(order, n_knots)
    knots = np.array([np.median(known_x[group]) for group in groups])
    medians = np.array([np.median(known_y[group]) for group in groups])
    knots, first = np.unique(knots, return_index=True)
    curve = np.interp(x, knots, medians[first])
    return np.where(np.isnan(x), np.nan, curve / np.median(known_y))


def _check_same_bins(bins: Bins, other: Bins) -> None:
    same = bins.n_bins == other.n_bins and np.array_equal(bins.start, other.start)
    if not same:
        raise InvalidInput(
            f"{other.source} has {other.n_bins:,} bins and {bins.source} {bins.n_bins:,}, or other positions; make "
            "both with the same bin size and chromosomes"
        )


def _wig_error(path: Path, line: int, message: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {line}: {message}; correct the line, or give another file")
