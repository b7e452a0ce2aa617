"""Reads of the two alleles at single sites of a tumour and its matched normal.

    FACETS    snp-pileup    Chromosome Position Ref Alt File1R File1A File1E File1D File2R ...; the normal is first
    sequenza  .seqz         chromosome position ... depth.ratio Af Bf zygosity.normal GC.percent good.reads ...
    AMBER     .amber.baf    chromosome position tumorBAF ... tumorDepth normalBAF ... normalDepth
    VCF       AD of single-nucleotide variants of a normal and one or more tumours, or of a tumour alone

Depth is the ratio of the tumour's reads to the normal's. Only sites that are heterozygous in the normal have alleles:
homozygous ones carry no information on them. If reads of the alternative allele are rarer than those of the reference
at heterozygous sites of the normal, those of the tumour are weighted accordingly; without a normal, over all sites.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.io.columns import plain_name
from chiasma.io.sheets import Sheet, listed
from chiasma.limits import is_whole
from chiasma.tumour.bins import Alleles, Bins
from chiasma.tumour.places import Labels, NumberedLines, column_of, in_order, positions, roles_of, stem_of
from chiasma.tumour.tracks import without_trend
from chiasma.types import Floats, Integers

# With fewer reads in the normal, the genotype of a site is unknown.
FEWEST_READS = 10
# Shares of the alternative allele in the normal at which a site counts as heterozygous.
HETEROZYGOUS = (0.25, 0.75)
# The reference bias is estimated from at least this many sites, and corrected above this many standard errors.
FEWEST_SITES, SIGNIFICANT, CENTRED = 100, 3.0, 20
# Weights of a site relative to the median: a ratio to few reads is uncertain, but coverage is uneven beyond that.
WEIGHTS = (0.1, 4.0)
AMBER = "AMBER .amber.baf"
NORMAL_WORDS = {"normal", "germline", "blood", "control", "n"}
BASES = {"A", "C", "G", "T"}
GERMLINE_FILTERS = {"PASS", ".", "germline"}
NO_NORMAL = (
    "depth at the sites of a tumour alone is uneven, and sites that lost an allele may not have been called; give bins "
    "of depth as the data, and this file with --alleles"
)


@dataclass(frozen=True, kw_only=True)
class Sites:
    """Chromosomes and starts (J,) of the lines of a file."""

    path: Path
    chromosome: Labels
    start: Integers
    notes: tuple[str, ...]

    def bins(self, kind: str, sample: str, kept: Integers, depth: Floats, weight: Floats, alleles: Alleles) -> Bins:
        """Bins of one base for the sites that are kept. alleles: numbered by these."""
        return Bins(
            sample=sample,
            source=str(self.path),
            kind=kind,
            chromosome=self.chromosome[kept],
            start=self.start[kept],
            end=self.start[kept] + 1,
            depth=depth,
            weight=weight,
            alleles=alleles,
            notes=self.notes,
        )

    def taken(self, lines: Integers) -> Sites:
        return replace(self, chromosome=self.chromosome[lines], start=self.start[lines])

    def best(self, reads: Floats) -> tuple[Sites, Integers]:
        """One line for each position, that with the most reads, and the numbers of these lines."""
        place = np.append(True, (self.chromosome[1:] != self.chromosome[:-1]) | (self.start[1:] != self.start[:-1]))
        group = np.cumsum(place) - 1
        order = np.lexsort((-reads, group))
        chosen = order[np.searchsorted(group[order], np.arange(group[-1] + 1))]
        n_twice = len(group) - len(chosen)
        note = (f"{n_twice:,} lines of a position that occurs before are left out; that with the most reads is kept",)
        return replace(self.taken(chosen), notes=self.notes + (note if n_twice else ())), chosen


def _sites(sheet: Sheet) -> Sites:
    """Of a table whose sites count from 1 and may occur twice."""
    roles = roles_of(sheet)
    labels = np.array(sheet.texts(roles.chromosome), dtype=str)
    start = positions(sheet, roles.start) - 1
    if (start < 0).any():
        raise sheet.error(int(np.argmax(start < 0)), "positions count from 1 in this format, got 0; correct the line")
    return Sites(
        path=sheet.path, chromosome=in_order(sheet, labels, start, start + 1, repeats=True), start=start, notes=()
    )


def _not_negative(sheet: Sheet, name: str) -> Floats:
    values = column_of(sheet, name)
    if (bad := ~(values >= 0)).any():
        row = int(np.argmax(bad))
        column = next(given for given in sheet.names if plain_name(given) == name)
        raise sheet.error(row, f"column {column!r} must hold numbers of reads, got {values[row]:g}; correct the line")
    return values


# ---- FACETS ----------------------------------------------------------------------------------------------------------


def facets_bins(sheet: Sheet) -> list[Bins]:
    """One sample for every file after the first, which is the normal's."""
    have = {plain_name(name) for name in sheet.names}
    files = sorted(int(found[1]) for name in have if (found := re.fullmatch(r"file(\d+)r", name)))
    if len(files) < 2:
        raise InvalidInput(
            f"{sheet.path} has the reads of one BAM file only; give two to snp-pileup, the normal's first and the "
            "tumour's second"
        )
    for i in files:
        if f"file{i}a" not in have:
            raise InvalidInput(f"{sheet.path} has a column File{i}R and no File{i}A; run snp-pileup again")
    reads = [(_not_negative(sheet, f"file{i}r"), _not_negative(sheet, f"file{i}a")) for i in files]
    sites, lines = _sites(sheet).best(reads[0][0] + reads[0][1])
    reads = [(reference[lines], alternative[lines]) for reference, alternative in reads]
    stem = stem_of(sheet.path)
    names = [stem] if len(files) == 2 else [f"{stem}_File{i}" for i in files[1:]]
    return [
        _paired(sites, "FACETS snp-pileup", name, reads[0], own) for name, own in zip(names, reads[1:], strict=True)
    ]


def _paired(sites: Sites, kind: str, sample: str, normal: tuple[Floats, Floats], tumour: tuple[Floats, Floats]) -> Bins:
    """Ratios of a tumour to its normal, each given as reads of the reference and of the alternative allele."""
    n_normal, n_tumour = sum(normal), sum(tumour)
    assert isinstance(n_normal, np.ndarray)
    assert isinstance(n_tumour, np.ndarray)
    kept = np.flatnonzero(n_normal >= FEWEST_READS)
    if not len(kept) or not n_tumour[kept].any():
        raise InvalidInput(
            f"{sites.path} has no site with {FEWEST_READS} reads in the normal and one in the tumour; is the normal "
            "the first sample, and the tumour the second?"
        )
    depth = n_tumour[kept] / n_normal[kept]
    share = normal[1][kept] / n_normal[kept]
    het = np.flatnonzero((share > HETEROZYGOUS[0]) & (share < HETEROZYGOUS[1]) & (n_tumour[kept] > 0))
    usual = float(share[het].mean()) if len(het) else 0.5
    a, b = _unbiased(tumour[0][kept][het], tumour[1][kept][het], usual)
    found = sites.bins(
        kind,
        sample,
        kept,
        depth / np.median(depth[depth > 0]),
        np.clip(n_normal[kept] / np.median(n_normal[kept]), *WEIGHTS),
        Alleles(bin=het, a=a, b=b, sites=np.ones(len(het)), usual=usual),
    )
    n_left = len(n_normal) - len(kept)
    told = [f"depth is the tumour's reads relative to the normal's; {len(het):,} sites are heterozygous in the normal"]
    if n_left:
        told.append(f"{n_left:,} sites with fewer than {FEWEST_READS} reads in the normal are left out")
    return found.noted(*told)


def without_reference_bias(alleles: Alleles) -> Alleles:
    """Reads of heterozygous sites as if the reference, a, were seen no more often than b.

    Which haplotype has the reference differs from site to site, so log odds of the two are symmetric around zero,
    regardless of gains and losses in the tumour. The centre is estimated in a window of width 2, which excludes lost
    alleles.
    """
    a, b = alleles.a, alleles.b
    assert a is not None
    assert b is not None
    log_odds = np.log((b + 0.5) / (a + 0.5))
    centre, error = 0.0, np.inf
    for _ in range(CENTRED):
        near = log_odds[np.abs(log_odds - centre) < 1]
        if len(near) < FEWEST_SITES:
            return alleles
        centre, error = float(near.mean()), float(near.std() / np.sqrt(len(near)))
    if abs(centre) < SIGNIFICANT * error:
        return alleles
    usual = 1 / (1 + np.exp(-centre))
    a, b = _unbiased(a, b, usual)
    return replace(alleles, a=a, b=b, usual=usual)


def _unbiased(a: Floats, b: Floats, usual: float) -> tuple[Floats, Floats]:
    """Reads of two alleles as if b were seen as often as a. usual: the share of b where there is one copy of each."""
    total = a + b
    weighted = b * (1 - usual)
    share = weighted / (weighted + a * usual)
    return total * (1 - share), total * share


# ---- sequenza --------------------------------------------------------------------------------------------------------


def seqz_bins(sheet: Sheet) -> list[Bins]:
    """Alleles of sites called heterozygous; A is the more frequent allele, so the fraction of B is mirrored."""
    reads = _not_negative(sheet, "goodreads")
    sites, lines = _sites(sheet).best(_not_negative(sheet, "depthnormal"))
    depth, share = (column_of(sheet, name)[lines] for name in ("depthratio", "bf"))
    zygosity = np.array(sheet.texts([plain_name(name) for name in sheet.names].index("zygositynormal")))[lines]
    unknown = ~np.isin(zygosity, ("het", "hom"))
    if unknown.any():
        row = int(lines[int(np.argmax(unknown))])
        raise sheet.error(row, "column 'zygosity.normal' must be het or hom; write the file with sequenza-utils again")
    if (bad := (share < 0) | (share > 1)).any():
        raise sheet.error(int(lines[int(np.argmax(bad))]), "column 'Bf' must hold fractions in 0..1; correct the line")
    normal = _not_negative(sheet, "depthnormal")[lines]
    het = np.flatnonzero((zygosity == "het") & (reads[lines] > 0) & ~np.isnan(share))
    b = np.rint(share[het] * reads[lines][het])
    ratio = np.where(depth > 0, depth, np.nan)
    notes = [f"{len(het):,} sites are heterozygous in the normal"]
    if "gcpercent" in {plain_name(name) for name in sheet.names}:
        ratio = without_trend(ratio, column_of(sheet, "gcpercent")[lines])
        notes.append("depth.ratio is corrected for GC.percent")
    found = sites.bins(
        "sequenza .seqz",
        stem_of(sheet.path),
        np.arange(len(lines)),
        ratio / np.nanmedian(ratio),
        np.clip(normal / max(float(np.median(normal)), 1.0), *WEIGHTS),
        Alleles(bin=het, a=b, b=reads[lines][het] - b, sites=np.ones(len(het)), mirrored=True),
    )
    return [found.noted(*notes)]


# ---- AMBER -----------------------------------------------------------------------------------------------------------


def amber_bins(sheet: Sheet) -> list[Bins]:
    """Sites that AMBER found to be heterozygous, with their depth relative to the normal's if there is one."""
    tumour, total = column_of(sheet, "tumorbaf"), _not_negative(sheet, "tumordepth")
    if (bad := ~((tumour >= 0) & (tumour <= 1))).any():
        raise sheet.error(int(np.argmax(bad)), "column 'tumorBAF' must hold fractions in 0..1; correct the line")
    own = np.rint(tumour * total)
    sites, lines = _sites(sheet).best(total)
    name = stem_of(sheet.path).removesuffix(".baf").removesuffix(".amber")
    have = {plain_name(name) for name in sheet.names}
    if {"normalbaf", "normaldepth"} <= have and (normal := _not_negative(sheet, "normaldepth")).any():
        b = np.rint(column_of(sheet, "normalbaf") * normal)
        return [
            _paired(
                sites,
                AMBER,
                name,
                ((normal - b)[lines], b[lines]),
                ((total - own)[lines], own[lines]),
            )
        ]
    return [_alone(sites, (total - own)[lines], own[lines], name, AMBER)]


def _alone(sites: Sites, reference: Floats, alternative: Floats, sample: str, kind: str = "VCF") -> Bins:
    """Heterozygous sites of a tumour without a normal."""
    total = reference + alternative
    kept = np.flatnonzero(total > 0)
    if not len(kept):
        raise InvalidInput(f"{sites.path} has no site with reads of sample {sample!r}; give another sample or file")
    alleles = Alleles(bin=np.arange(len(kept)), a=reference[kept], b=alternative[kept], sites=np.ones(len(kept)))
    alleles = without_reference_bias(alleles)
    depth = total[kept] / np.median(total[kept])
    found = sites.bins(kind, sample, kept, depth, np.ones(len(kept)), alleles)
    return replace(found, lacking=NO_NORMAL)


# ---- VCF -------------------------------------------------------------------------------------------------------------


def is_vcf(lines: Sequence[str]) -> bool:
    return bool(lines) and lines[0].startswith("##fileformat=VCF")


def vcf_bins(path: Path, lines: Sequence[str], wanted: str | None = None) -> list[Bins]:
    """Every tumour of a VCF. wanted: the one that the user asks for; of two samples the other is then the normal."""
    head = next((i for i, line in enumerate(lines) if line.startswith("#CHROM")), None)
    if head is None:
        raise InvalidInput(f"{path} is a VCF without a line #CHROM; write it again, for instance with bcftools view")
    names = lines[head].rstrip("\n").split("\t")[9:]
    if not names:
        raise InvalidInput(
            f"{path}, line {head + 1}: the VCF has no samples; call the normal and the tumour together, with AD in "
            "FORMAT"
        )
    normal = _normal_of(path, lines[:head], names, wanted)
    found = _records(path, lines, head, len(names))
    if normal is None:
        return [_alone(*found.heterozygous(i), names[i]) for i in range(len(names))]
    known = found.of_normal(normal)
    return [known.paired(normal, i, names[i]) for i in range(len(names)) if i != normal]


def _normal_of(path: Path, header: Sequence[str], names: Sequence[str], wanted: str | None) -> int | None:
    """Index of the normal sample: from the header, from the names, or the one that is not requested."""
    if len(names) == 1:
        return None
    for line in header:
        name = line.removeprefix("##normal_sample=").strip()
        if name != line.strip() and name in names:
            return names.index(name)
    normal = [i for i, name in enumerate(names) if NORMAL_WORDS & set(re.split(r"[^a-z]+", name.lower()))]
    if len(normal) == 1:
        return normal[0]
    if len(names) == 2 and wanted in names:
        return 1 - names.index(wanted)
    raise InvalidInput(
        f"{path}: which of the samples {listed(names)} is the normal? Add a line ##normal_sample=NAME to the header"
        + (", or choose the tumour with --sample" if len(names) == 2 else "")
    )


@dataclass(frozen=True, kw_only=True)
class VariantReads:
    """Single-nucleotide variants (J,): reads (J, N, 2) of both alleles in every sample, NaN where unknown, and whether
    the genotype (J, N) is heterozygous.
    """

    sites: Sites
    reads: Floats
    het: npt.NDArray[np.bool_]

    def heterozygous(self, sample: int) -> tuple[Sites, Floats, Floats]:
        chosen = np.flatnonzero(self.het[:, sample] & ~np.isnan(self.reads[:, sample]).any(axis=1))
        return self.sites.taken(chosen), self.reads[chosen, sample, 0], self.reads[chosen, sample, 1]

    def of_normal(self, normal: int) -> VariantReads:
        """The variants at which the reads of the normal are known, one for each position."""
        known = np.flatnonzero(~np.isnan(self.reads[:, normal]).any(axis=1))
        if not len(known):
            raise InvalidInput(f"{self.sites.path} has no AD of the normal sample; call both samples together, with AD")
        sites, lines = self.sites.taken(known).best(self.reads[known, normal].sum(axis=1))
        return VariantReads(sites=sites, reads=self.reads[known][lines], het=self.het[known][lines])

    def paired(self, normal: int, tumour: int, name: str) -> Bins:
        own, other = np.nan_to_num(self.reads[:, tumour]), self.reads[:, normal]
        return _paired(self.sites, "VCF", name, (other[:, 0], other[:, 1]), (own[:, 0], own[:, 1]))


def _records(path: Path, lines: Sequence[str], head: int, n_samples: int) -> VariantReads:
    """Germline variants of one base that no filter removed."""
    chromosome: list[str] = []
    start: list[int] = []
    numbers: list[int] = []
    reads: list[list[tuple[float, float]]] = []
    het: list[list[bool]] = []
    n_records = 0
    for number, line in enumerate(lines[head + 1 :], start=head + 2):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != 9 + n_samples:
            raise _vcf_error(path, number, f"expected {9 + n_samples} columns separated by tabs, got {len(cells)}")
        n_records += 1
        if len(cells[3]) != 1 or cells[4] not in BASES or cells[6] not in GERMLINE_FILTERS:
            continue
        keys = cells[8].split(":")
        if "SOMATIC" in cells[7].split(";") or "AD" not in keys:
            continue
        if not is_whole(cells[1]) or int(cells[1]) < 1:
            raise _vcf_error(path, number, f"POS must be a whole number from 1, got {cells[1]!r}")
        samples = [dict(zip(keys, cell.split(":"), strict=False)) for cell in cells[9:]]
        reads.append([_read_pair(path, number, sample.get("AD", ".")) for sample in samples])
        het.append([set(re.split(r"[/|]", sample.get("GT", "0/1"))) == {"0", "1"} for sample in samples])
        chromosome.append(cells[0])
        start.append(int(cells[1]) - 1)
        numbers.append(number)
    if not reads:
        raise InvalidInput(
            f"{path}: none of {n_records:,} records is a germline variant of one base with AD in FORMAT; call them "
            "with bcftools mpileup -a AD,DP and bcftools call -m, or with GATK's HaplotypeCaller"
        )
    places = NumberedLines(path, np.array(numbers))
    begin = np.array(start)
    labels = in_order(places, np.array(chromosome, dtype=str), begin, begin + 1, repeats=True)
    notes = (f"{len(reads):,} of {n_records:,} records are germline variants of one base with AD",)
    return VariantReads(
        sites=Sites(path=path, chromosome=labels, start=begin, notes=notes), reads=np.array(reads), het=np.array(het)
    )


def _read_pair(path: Path, number: int, text: str) -> tuple[float, float]:
    parts = text.split(",")
    if "." in parts:
        return np.nan, np.nan
    if len(parts) != 2 or not all(is_whole(part) for part in parts):
        raise _vcf_error(path, number, f"AD must hold the reads of two alleles, got {text!r}")
    return float(parts[0]), float(parts[1])


def _vcf_error(path: Path, line: int, message: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {line}: {message}; correct the line, or write the file again with bcftools view")
