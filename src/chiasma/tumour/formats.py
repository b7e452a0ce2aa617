"""Read what other programs write about depth and alleles along a genome; a file is recognised by its content.

    CNVkit    .cnr, .cns, .call.cns, .cnn   chromosome start end gene log2 ...
    GATK      denoised or standardized copy ratios, allelic counts (.hets.tsv), .cr.seg, .modelFinal.seg, .igv.seg
    HATCHet   .bb                           #CHR START END SAMPLE RD #SNPS COV ALPHA BETA BAF
    PURPLE    .segment.tsv, .cnv.somatic.tsv beside its .purity.tsv
    COBALT    .cobalt.ratio.tsv             chromosome position ... tumorGCRatio ...
    PureCN    coverage                      Target total_coverage counts ...
    QDNAseq   .igv                          chromosome start end feature, one column per sample
    SEG       of CBS, PureCN, IGV, ...      sample, chromosome, start, end, (markers), mean
    ASCAT     log ratios of arrays          chrs pos, one column per sample; B-allele fractions in a file like it
    FACETS, sequenza, AMBER, VCF            reads at sites of a tumour and its normal: `chiasma.tumour.pileups`
    bedGraph, fixedStep and variableStep WIG
    any table with columns that name a chromosome, a start and values

Columns are found by their names, so that their order does not matter. A column is a sample only if its name or the user
identifies it as one. Values on a log2 scale are recognised by their name or by negative numbers and made linear, with a
note.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.io.columns import CHROMOSOME_NAMES, END_NAMES, START_NAMES, column_called, plain_name
from chiasma.io.sheets import Sheet, as_sheet, listed, read_lines, read_sheet
from chiasma.limits import is_whole
from chiasma.tumour.bins import Alleles, Bins
from chiasma.tumour.pileups import (
    NO_NORMAL,
    amber_bins,
    facets_bins,
    is_vcf,
    seqz_bins,
    vcf_bins,
    without_reference_bias,
)
from chiasma.tumour.places import (
    SAMPLE_NAMES,
    Roles,
    column_of,
    in_order,
    places_of,
    roles_of,
    sample_names,
    stated_lengths,
    stem_of,
)
from chiasma.tumour.tracks import NO_REFERENCE, RAW_COUNTS, is_wig, read_wig
from chiasma.types import Floats

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
# Kind of a file without a known format.
TABLE = "table"
# A larger share of segments that end before they begin is a mistake in the file.
MOST_EMPTY = 0.5
# Estimated fractions slightly above 1 are read as 1.
MOST_BAF = 1.02
# Names and first bytes of files that R saved.
R_SUFFIXES, R_MAGIC = (".rda", ".rdata", ".rds"), (b"RDX", b"RDA", b"X\n\0\0")


@dataclass(frozen=True, kw_only=True)
class Format:
    """A kind of file: plain names of columns that it must have, and must not have.

    depth, marks, baf, sites : plain names of columns that are not among the usual ones.
    every : whether every column of numbers that has no other meaning is a sample.
    read : a special reader. refine : postprocessing of a sample's bins.
    """

    name: str
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    segments: bool = False
    one_based: bool = False
    every: bool = False
    depth: str | None = None
    marks: str | None = None
    baf: str | None = None
    sites: str | None = None
    lacking: str = ""
    read: Callable[[Sheet], list[Bins]] | None = None
    refine: Callable[[Sheet, Bins], Bins] | None = None


# ---- What some formats need beyond their columns ---------------------------------------------------------------------


def _measured(sheet: Sheet, bins: Bins) -> Bins:
    """PURPLE's segments. Depth is missing without depth windows, and germline copy-number changes are excluded."""
    status = sheet.texts([plain_name(name) for name in sheet.names].index("germlinestatus"))
    usable = np.array([text in ("DIPLOID", "UNKNOWN") for text in status]) & (column_of(sheet, "depthwindowcount") > 0)
    alleles = bins.alleles
    if alleles is not None:
        kept = np.flatnonzero(usable[alleles.bin])
        alleles = alleles.ordered(kept, alleles.bin[kept])
    found = replace(bins, depth=np.where(usable, bins.depth, np.nan), alleles=alleles)
    return found.noted(
        f"not used, as the germline is not diploid or no window was measured: {(~usable).sum():,} segments"
    )


def _mixed_again(sheet: Sheet, bins: Bins) -> Bins:
    """Depth of the sample from PURPLE's copy numbers, which describe tumour cells only, and its purity."""
    name = sheet.path.name.removesuffix(".gz")
    beside = sheet.path.with_name(name.replace(".cnv.somatic.tsv", ".purity.tsv"))
    if beside == sheet.path or not beside.exists():
        raise InvalidInput(
            f"{sheet.path} has copy numbers of tumour cells, from which PURPLE has removed the normal ones; give its "
            f".segment.tsv, which has what was measured, or put its .purity.tsv beside the file"
        )
    table = read_sheet(beside)
    column = column_called(table, ("purity",))
    purity = table.numbers(column)[0] if column is not None else np.nan
    if not 0 < purity <= 1:
        raise table.error(0, "PURPLE's column 'purity' must hold a number above 0 and at most 1; copy the file again")
    windows = column_called(sheet, ("depthwindowcount",))
    measured = np.ones(bins.n_bins, bool) if windows is None else sheet.numbers(windows) > 0
    depth = np.where(measured, 1 - purity + purity * bins.depth / 2, np.nan)
    note = f"copy numbers are mixed again with normal cells, at purity {purity:g} of {beside.name}"
    return replace(bins, depth=depth).noted(note)


def _windows(sheet: Sheet, bins: Bins) -> Bins:
    """COBALT's windows have no ends, and -1 where nothing was measured."""
    inside = np.diff(bins.start)[np.diff(bins.start) > 0]
    width = int(inside.min()) if len(inside) else 1_000
    return replace(
        bins,
        end=bins.start + width,
        depth=np.where(column_of(sheet, "tumorgcratio") >= 0, bins.depth, np.nan),
        notes=tuple(note for note in bins.notes if "no column of ends" not in note),
    )


def _purecn_coverage(sheet: Sheet) -> list[Bins]:
    """Targets such as chr1:1222148-1222356, which count from 1 and include their ends."""
    target = column_called(sheet, ("target",))
    assert target is not None
    chromosome, start, end = [], [], []
    for row, text in enumerate(sheet.texts(target)):
        name, _, place = text.rpartition(":")
        first, _, last = place.partition("-")
        if not name or not is_whole(first) or not is_whole(last):
            raise sheet.error(row, f"column 'Target' must hold places as chr1:100-200, got {text!r}; correct the line")
        chromosome.append(name)
        start.append(int(first) - 1)
        end.append(int(last))
    begin, stop = np.array(start), np.array(end)
    labels = in_order(sheet, np.array(chromosome, dtype=str), begin, stop)
    per_base = column_called(sheet, ("averagecoverage",))
    depth = sheet.numbers(per_base) if per_base is not None else column_of(sheet, "totalcoverage") / (stop - begin)
    return [
        Bins(
            sample=stem_of(sheet.path),
            source=str(sheet.path),
            kind="PureCN coverage",
            chromosome=labels,
            start=begin,
            end=stop,
            depth=depth,
            weight=np.ones(len(depth)),
            lacking=NO_REFERENCE,
        )
    ]


# The first match is used.
FORMATS = (
    Format(name="FACETS snp-pileup", needs=("chromosome", "position", "file1r", "file1a"), read=facets_bins),
    Format(
        name="sequenza .seqz",
        needs=("chromosome", "position", "depthnormal", "depthratio", "bf", "zygositynormal", "goodreads"),
        read=seqz_bins,
    ),
    Format(name="AMBER .amber.baf", needs=("chromosome", "position", "tumorbaf", "tumordepth"), read=amber_bins),
    Format(name="PureCN coverage", needs=("target", "totalcoverage"), read=_purecn_coverage),
    Format(
        name="PURPLE segments",
        needs=("chromosome", "start", "end", "germlinestatus", "observedtumorratio", "observedbaf", "depthwindowcount"),
        segments=True,
        one_based=True,
        depth="observedtumorratio",
        marks="depthwindowcount",
        baf="observedbaf",
        sites="bafcount",
        refine=_measured,
    ),
    Format(
        name="PURPLE copy numbers",
        needs=("chromosome", "start", "end", "copynumber", "bafcount", "observedbaf"),
        segments=True,
        one_based=True,
        depth="copynumber",
        marks="depthwindowcount",
        baf="observedbaf",
        sites="bafcount",
        refine=_mixed_again,
    ),
    Format(
        name="sequenza segments",
        needs=("chromosome", "startpos", "endpos", "bf", "nbaf", "depthratio"),
        segments=True,
        one_based=True,
        depth="depthratio",
        marks="nratio",
        baf="bf",
        sites="nbaf",
    ),
    Format(
        name="COBALT ratios",
        needs=("chromosome", "position", "tumorgcratio"),
        one_based=True,
        depth="tumorgcratio",
        refine=_windows,
    ),
    Format(
        name="CNVkit .call.cns", needs=("chromosome", "start", "end", "gene", "log2", "cn", "probes"), segments=True
    ),
    Format(name="CNVkit .cns", needs=("chromosome", "start", "end", "gene", "log2", "probes"), segments=True),
    Format(
        name="CNVkit .cnn",
        needs=("chromosome", "start", "end", "gene", "log2", "depth"),
        lacks=("weight",),
        lacking=NO_REFERENCE,
    ),
    Format(name="CNVkit .cnr", needs=("chromosome", "start", "end", "gene", "log2")),
    Format(name="HATCHet .bb", needs=("chr", "start", "end", "sample", "rd", "baf")),
    Format(name="GATK allelic counts", needs=("contig", "position", "refcount", "altcount"), one_based=True),
    Format(
        name="GATK .modelFinal.seg",
        needs=("contig", "start", "end", "log2copyratioposterior50"),
        segments=True,
        one_based=True,
    ),
    Format(name="GATK .cr.seg", needs=("contig", "start", "end", "meanlog2copyratio"), segments=True, one_based=True),
    Format(name="GATK copy ratios", needs=("contig", "start", "end", "log2copyratio"), one_based=True),
    Format(name="QDNAseq .igv", needs=("chromosome", "start", "end", "feature"), one_based=True, every=True),
    Format(name="ASCAT", needs=("", "chrs", "pos"), lacks=("logr", "baf"), every=True),
)


# ---- Reading ---------------------------------------------------------------------------------------------------------


def read_bins(path: Path | str, sample: str | None = None) -> list[Bins]:
    """Read depths and allele counts from a file of any supported format.

    Parameters
    ----------
    path : the file; gzip is recognised.
    sample : only this sample; in a table with unknown columns, the column that has the depths.

    Returns
    -------
    One `Bins` per sample, in the order of the file.

    Examples
    --------
    >>> import chiasma as ch
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "sample.csv")
    ...     _ = file.write_text("chromosome,start,end,log2\\n1,0,50000,0.1\\n1,50000,100000,-0.4\\n")
    ...     bins = ch.tumour.read_bins(file)
    >>> bins[0].n_bins, bins[0].depth.round(2).tolist()
    (2, [1.07, 0.76])
    """
    path = Path(path)
    refuse_r_data(path)
    lines = read_lines(path)
    if is_wig(lines):
        found = [read_wig(path, lines)]
    elif is_vcf(lines):
        found = vcf_bins(path, lines, sample)
    else:
        found = bins_of(as_sheet(path, lines), sample)
    if sample is None:
        return found
    chosen = [bins for bins in found if bins.sample == sample]
    if not chosen:
        raise InvalidInput(f"{path} has no sample {sample!r}; choose one of {listed(b.sample for b in found)}")
    return chosen


def refuse_r_data(path: Path) -> None:
    """Raise InvalidInput for a file that R saved, with the line of R that exports it."""
    starts = []
    if path.is_file():  # a pipe cannot be read twice
        for opened in (gzip.open, open):
            with suppress(OSError, EOFError, zlib.error), opened(path, "rb") as file:
                starts.append(file.read(4))
    if not path.name.lower().endswith(R_SUFFIXES) and not any(start.startswith(R_MAGIC) for start in starts):
        return
    if path.name.lower().endswith(".rds"):
        export = f'write.table(readRDS("{path.name}"), "{path.stem}.tsv", sep="\\t", quote=FALSE, row.names=FALSE)'
    else:
        export = (
            f'for (n in load("{path.name}")) write.table(get(n), paste0(n, ".tsv"), sep="\\t", quote=FALSE, '
            "row.names=FALSE)"
        )
    raise InvalidInput(f"{path} is a file of R, which only R reads; export its tables with R: {export}")


def is_genomic(sheet: Sheet) -> bool:
    """Whether the columns of a sheet are those of a format, or name a chromosome, a position and a signal."""
    if _is_bed_graph(sheet) or known_format(sheet).name != TABLE:
        return True
    chromosome, start = column_called(sheet, CHROMOSOME_NAMES), column_called(sheet, START_NAMES)
    return chromosome is not None and start is not None and bool(_named_depths(sheet))


def bins_of(sheet: Sheet, sample: str | None = None) -> list[Bins]:
    if _is_bed_graph(sheet):
        return _bins(sheet.called(["chromosome", "start", "end", "value"]), Format(name="bedGraph"), sample)
    if not sheet.has_header:
        raise InvalidInput(
            f"{sheet.path} has no header that names its columns, and is no bedGraph (chromosome, start, end, value); "
            "write names above the columns: chromosome, start, end, log2 or ratio"
        )
    known = known_format(sheet)
    return _bins(sheet, known, sample) if known.read is None else known.read(sheet)


def known_format(sheet: Sheet) -> Format:
    have = {plain_name(name) for name in sheet.names} if sheet.has_header else set()
    for known in FORMATS:
        if have.issuperset(known.needs) and not have.intersection(known.lacks):
            return known
    if column_called(sheet, SAMPLE_NAMES) is not None and column_called(sheet, END_NAMES) is not None:
        looks_like_seg = column_called(sheet, MARK_NAMES) is not None or have & {"segmean", "segmentmean"}
        if looks_like_seg:
            return Format(name="SEG", segments=True, one_based=True)
    return Format(name=TABLE)


def _is_bed_graph(sheet: Sheet) -> bool:
    """chromosome, start, end, value, and no header."""
    if sheet.has_header or len(sheet.names) != 4:
        return False
    return all(sheet.is_numeric(column) for column in (1, 2, 3)) and not sheet.cell(0, 0).startswith("-")


def _bins(sheet: Sheet, known: Format, sample: str | None) -> list[Bins]:
    roles = roles_of(sheet)
    names = sample_names(sheet, roles)
    found = []
    for name in dict.fromkeys(names):
        own = sheet if roles.sample is None else sheet.only([other == name for other in names])
        found += _one_sample(own, known, roles, name, sample)
    return found


def _one_sample(sheet: Sheet, known: Format, roles: Roles, name: str, wanted: str | None) -> list[Bins]:
    """The lines of one sample: one Bins per column of values."""
    notes = _guessed_places(sheet, known, roles)
    if known.segments and roles.end is not None:
        sheet = _without_empty(sheet, roles, notes)
    columns = _depth_columns(sheet, roles, known, wanted, notes)
    chromosome, start, end = places_of(sheet, roles, known.one_based, notes)
    alleles, weight = _alleles(sheet, known), _weights(sheet, known)
    if alleles is not None and _is_reference(alleles) and roles.end is None and not alleles.mirrored:
        alleles = without_reference_bias(alleles)
    depths = {label or name: _linear(sheet, column, known) for label, column in columns.items()}
    if not depths and alleles is not None and alleles.a is not None and alleles.b is not None:
        depths = {name: _depth_of_counts(alleles.a + alleles.b)}
    lacking = RAW_COUNTS if any(_counts(sheet, column) for column in columns.values()) else ""
    if not columns and roles.end is None:
        lacking = NO_NORMAL
    found = [
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
            lengths=stated_lengths(sheet.comments),
            notes=(*notes, note),
            lacking=known.lacking or lacking,
        )
        for label, (depth, note) in depths.items()
    ]
    return found if known.refine is None else [known.refine(sheet, bins) for bins in found]


def _guessed_places(sheet: Sheet, known: Format, roles: Roles) -> list[str]:
    """A note on the columns of a table that are taken as places by names that are not exactly theirs."""
    taken = {"chromosome": roles.chromosome, "start": roles.start, "end": roles.end}
    names = {role: sheet.names[column] for role, column in taken.items() if column is not None}
    if known.name != TABLE or all(name.lower() == role for role, name in names.items()):
        return []
    return [f"columns {', '.join(map(repr, names.values()))} are taken as {', '.join(names)}"]


def _without_empty(sheet: Sheet, roles: Roles, notes: list[str]) -> Sheet:
    """Without segments that end before they begin; some programs write these for empty regions."""
    assert roles.end is not None
    start, end = sheet.numbers(roles.start), sheet.numbers(roles.end)
    empty = end < start
    if not empty.any():
        return sheet
    if empty.mean() > MOST_EMPTY:
        first = int(np.argmax(empty))
        raise sheet.error(first, f"{empty.mean():.0%} of segments end before they begin; are start and end exchanged?")
    notes.append(f"left out, as they end before they begin: {int(empty.sum())} segments")
    return sheet.only(~empty)


# ---- Depth -----------------------------------------------------------------------------------------------------------


def _depth_columns(sheet: Sheet, roles: Roles, known: Format, wanted: str | None, notes: list[str]) -> dict[str, int]:
    """Columns of depth by sample name; the name is "" where a file has only one."""
    if known.name == "GATK allelic counts":
        return {}
    if known.depth is not None:
        return {"": [plain_name(name) for name in sheet.names].index(known.depth)}
    taken = {roles.chromosome, roles.start, roles.end, roles.sample}
    taken |= {column_called(sheet, names) for names in (MARK_NAMES, WEIGHT_NAMES, SITES_NAMES, BAF_NAMES)}
    free = [c for c in range(len(sheet.names)) if c not in taken and sheet.is_numeric(c)]
    if known.every:
        return {sheet.names[c]: c for c in free}
    if wanted in (named := {sheet.names[c]: c for c in free}):
        return {wanted: named[wanted]}
    if found := _named_depths(sheet):
        if "" not in found:
            notes.append("every column whose name begins with log2, or with ratio, is a sample")
        return found
    if any(column_called(sheet, (name,)) is not None for pair in ALLELE_NAMES for name in pair):
        return {}
    raise InvalidInput(
        f"{sheet.path}: no column is known to hold depth or copy ratios. "
        + (
            f"Candidates are {listed(named)}: name the one to take with --sample, or rename it to log2, ratio or counts"
            if named
            else f"Expected log2, ratio, copy_number, RD, counts or seg.mean among {listed(sheet.names)}"
        )
    )


def _named_depths(sheet: Sheet) -> dict[str, int]:
    """Depth columns by name: one with a known name, or samples such as ratio_A and ratio_B."""
    for names in (LOG2_NAMES, LINEAR_NAMES):
        column = column_called(sheet, names)
        if column is not None:
            return {"": column}
    for prefix in ("log2", "ratio") if sheet.has_header else ():
        columns = [c for c, name in enumerate(sheet.names) if plain_name(name).startswith(prefix)]
        columns = [c for c in columns if sheet.is_numeric(c)]
        if columns:
            return {_without(sheet.names[c], prefix): c for c in columns}
    column = column_called(sheet, COUNT_NAMES)
    return {} if column is None else {"": column}


def _counts(sheet: Sheet, column: int) -> bool:
    """Whether these are numbers of reads, by their name and because they are whole."""
    values = sheet.numbers(column)
    return plain_name(sheet.names[column]) in COUNT_NAMES and bool(np.all(values[~np.isnan(values)] % 1 == 0))


def _without(name: str, prefix: str) -> str:
    return name[len(prefix) :].strip(" ._-:") or name


def _linear(sheet: Sheet, column: int, known: Format) -> tuple[Floats, str]:
    """(T,) depth on a linear scale, NaN where missing, and how it was made."""
    values = sheet.numbers(column)
    name = sheet.names[column]
    if np.isnan(values).all():
        raise InvalidInput(f"{sheet.path}: every value of column {name!r} is missing; choose another file or sample")
    negative = float(np.mean(values[~np.isnan(values)] < 0))
    plain = plain_name(name)
    if plain in LOG2_NAMES or plain.startswith("log2"):
        return np.exp2(np.clip(values, -20, 20)), f"column {name!r} holds log2 ratios by its name: made linear, 2^x"
    if negative > 0.02 and known.depth is None:
        told = f"column {name!r} holds log2 ratios, as {negative:.0%} of it is negative: made linear, 2^x"
        return np.exp2(np.clip(values, -20, 20)), told
    return np.maximum(values, 0.0), f"column {name!r} is taken as depth on a linear scale"


def _depth_of_counts(total: Floats) -> tuple[Floats, str]:
    told = "depth is the number of reads of both alleles, as there is no column of depth"
    return np.asarray(total / np.median(total)), told


def _weights(sheet: Sheet, known: Format) -> Floats:
    """(T,) precision of a bin: its markers if it is a segment, its weight if there is such a column, else 1."""
    usual = MARK_NAMES if known.segments else WEIGHT_NAMES
    column = column_called(sheet, usual if known.marks is None else (known.marks,))
    if column is None or not sheet.is_numeric(column):
        return np.ones(sheet.n_rows)
    weight = sheet.numbers(column)
    return np.where(weight > 0, weight, np.nanmin(weight[weight > 0], initial=1.0) if np.any(weight > 0) else 1.0)


# ---- Alleles ---------------------------------------------------------------------------------------------------------


def _alleles(sheet: Sheet, known: Format) -> Alleles | None:
    sites_column = column_called(sheet, SITES_NAMES if known.sites is None else (known.sites,))
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
    column = column_called(sheet, BAF_NAMES if known.baf is None else (known.baf,))
    if column is None or not sheet.is_numeric(column):
        return None
    baf = sheet.numbers(column)
    baf = np.where((baf > 1) & (baf <= MOST_BAF), 1.0, baf)
    bad = (baf < 0) | (baf > 1)
    if bad.any():
        first = int(np.argmax(bad))
        raise sheet.error(
            first,
            f"column {sheet.names[column]!r} must hold fractions in 0..1, got {sheet.cell(first, column)!r}; "
            "correct it or write NA",
        )
    seen = np.flatnonzero(~np.isnan(baf) & (sites > 0))
    low, high = bool(np.all(baf[seen] <= 0.5)), bool(np.all(baf[seen] >= 0.5))
    return Alleles(
        bin=seen,
        baf=baf[seen],
        sites=sites[seen],
        mirrored=low or high,
        columns=(sheet.names[column],),
        sites_column=sites_name,
    )


def _is_reference(alleles: Alleles) -> bool:
    """Whether the first of two counts is that of the reference."""
    return alleles.a is not None and plain_name(alleles.columns[0]).startswith("ref")
