"""Tumours that are evolved and then sequenced into files, with the truth beside them.

Nothing here comes from chiasma, and nothing follows the model that it fits. Genomes are grids of cells of 10 kb, and a
bin or a read sees the mean over the cells that it covers, whether or not a breakpoint lies inside.

Evolution: chromosomes, arms and stretches are gained or lost; a copy is lost and the other one duplicated; chromosomes
shatter; stretches are amplified many times; a third of the genomes is doubled. Subclones descend from the first clone.

Sequencing: counts are negative binomial. Their mean depends on GC content, by a curve that differs between the tumour
and its normal, on slow waves that no track explains, and on mappability, which drops out in places. Reads of the
alternative allele are lost more often than those of the reference (reference bias), a few come from another person
(contamination), some sites are artefacts, and runs of homozygosity have no heterozygous sites.

A sample is made of one of three assays:

    sites   a pileup of 30,000 to 300,000 known SNPs, homozygous ones included, of normal and tumour
    bins    3,000 to 30,000 bins and a file of allele counts at heterozygous sites
    depth   bins alone
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

CELL = 10_000
# Lengths of the autosomes and places of their centromeres in megabases (GRCh38).
LENGTHS = (
    248.96, 242.19, 198.30, 190.21, 181.54, 170.81, 159.35, 145.14, 138.39, 133.80, 135.09,
    133.28, 114.36, 107.04, 101.99, 90.34, 83.26, 80.37, 58.62, 64.44, 46.71, 50.82,
)  # fmt: skip
CENTROMERES = (
    123.4, 93.9, 90.9, 50.0, 48.8, 59.8, 60.1, 45.2, 43.0, 39.8, 53.4,
    35.5, 17.7, 17.2, 19.0, 36.8, 25.1, 18.5, 26.2, 28.1, 12.0, 15.0,
)  # fmt: skip
SIZES = np.array([round(length * 1e6) // CELL for length in LENGTHS])
FIRSTS = np.concatenate([[0], np.cumsum(SIZES)])
N_CELLS = int(FIRSTS[-1])
ASSAYS = ("sites", "bins", "depth")
ASSAY_CHANCES = (0.4, 0.4, 0.2)
EVENTS = ("chromosome", "arm", "stretch", "neutral loss", "shattering", "amplification")
EVENT_CHANCES = (0.22, 0.3, 0.3, 0.08, 0.03, 0.07)
# A genome with less than this share changed has hardly a purity to be found.
LEAST_ALTERED = 0.08
LEAST_CELLS, LEAST_DIFFERENT = 0.1, 0.02
ERROR = 0.003


@dataclass(frozen=True, kw_only=True)
class Truth:
    """copies (C, 2, N_CELLS) of both haplotypes in every clone; shares (C,) of the clones among tumour cells."""

    purity: float
    doubled: bool
    copies: Whole
    shares: Array

    @property
    def ploidy(self) -> float:
        return float(np.einsum("c,cht->t", self.shares, self.copies).mean())

    @property
    def haplotypes(self) -> Array:
        """(2, N_CELLS) mean copies per cell, normal ones included."""
        return np.asarray(1 - self.purity + self.purity * np.einsum("c,cht->ht", self.shares, self.copies))

    @property
    def altered(self) -> float:
        """Share of the genome in which the first clone is not in its most common state."""
        states = self.copies[0].max(axis=0) * 100 + self.copies[0].min(axis=0)
        return 1 - float(np.unique(states, return_counts=True)[1].max()) / N_CELLS

    @property
    def n_clones(self) -> int:
        """Clones that can be seen: a tenth of the cells or more, and other copies in 2% of the genome or more."""
        seen = [
            share * self.purity >= LEAST_CELLS and float((own != self.copies[0]).any(axis=0).mean()) >= LEAST_DIFFERENT
            for share, own in zip(self.shares[1:], self.copies[1:], strict=True)
        ]
        return 1 + int(sum(seen))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Files of a tumour and how they were made."""

    assay: str
    truth: Truth
    file: Path
    alleles: Path | None = None
    gc: Path | None = None
    mappability: Path | None = None
    facts: dict[str, float] = field(default_factory=dict)


def sample(seed: int, folder: Path) -> Sample:
    """Evolve a tumour and write its files to a folder."""
    rng = np.random.default_rng([7, seed])
    truth = evolved(rng)
    assay = str(rng.choice(ASSAYS, p=ASSAY_CHANCES))
    return _pileup(truth, folder, rng) if assay == "sites" else _binned(truth, folder, assay, rng)


# ---- Evolution -------------------------------------------------------------------------------------------------------


def evolved(rng: np.random.Generator) -> Truth:
    """A tumour of purity 0.15-0.95; redrawn until enough of its genome is changed."""
    purity = float(rng.uniform(0.15, 0.95))
    doubled = bool(rng.random() < 1 / 3)
    n_clones = int(rng.choice([1, 2, 3], p=[0.5, 0.35, 0.15]))
    while True:
        founder = np.ones((2, N_CELLS), np.int64)
        n_events = int(np.clip(rng.lognormal(np.log(16), 0.6), 4, 70))
        if doubled:
            before = int(rng.integers(0, n_events + 1))
            _mutate(founder, before, 0.55, rng)
            founder *= 2
            _mutate(founder, n_events - before + 3, 0.7, rng)
        else:
            _mutate(founder, n_events, 0.5, rng)
        copies = [founder]
        for _ in range(n_clones - 1):
            child = copies[0].copy()
            _mutate(child, int(rng.integers(2, 12)), 0.5, rng)
            copies.append(child)
        shares = rng.dirichlet([4.0, 2.0, 1.5][:n_clones])
        found = Truth(purity=purity, doubled=doubled, copies=np.array(copies), shares=shares)
        if found.altered >= LEAST_ALTERED:
            return found


def _mutate(genome: Whole, n_events: int, loss: float, rng: np.random.Generator) -> None:
    for _ in range(n_events):
        kind = str(rng.choice(EVENTS, p=EVENT_CHANCES))
        c = int(rng.choice(len(SIZES), p=0.5 / len(SIZES) + 0.5 * SIZES / N_CELLS))
        a, b = _extent(kind, c, rng)
        own, other = (genome[h, a:b] for h in rng.permutation(2))
        if kind == "neutral loss":
            other += own
            own[:] = 0
        elif kind == "amplification":
            own[own > 0] += int(rng.integers(2, 14))
        elif kind == "shattering":
            pieces = np.sort(rng.integers(0, b - a, int(rng.integers(8, 26))))
            gone = np.searchsorted(pieces, np.arange(b - a)) % 2 == 1
            own[gone & (own > 0) & (other > 0)] -= 1
        elif rng.random() < loss:
            # Long homozygous deletions kill the cell.
            able = own > 0 if b - a < 100 else (own > 0) & (own + other > 1)
            own[able] -= 1
        else:
            own[own > 0] += 1


def _extent(kind: str, c: int, rng: np.random.Generator) -> tuple[int, int]:
    first, stop = int(FIRSTS[c]), int(FIRSTS[c + 1])
    centre = first + round(CENTROMERES[c] * 1e6) // CELL
    if kind in ("chromosome", "shattering"):
        return first, stop
    if kind == "arm" or (kind == "neutral loss" and rng.random() < 0.6):
        return (first, centre) if rng.random() < 0.4 else (centre, stop)
    typical = 1.5e6 if kind == "amplification" else 8e6
    length = int(np.clip(rng.lognormal(np.log(typical), 1.2) / CELL, 3, (stop - first) // 2))
    begin = int(rng.integers(first, stop - length))
    return begin, begin + length


# ---- What makes coverage uneven, per cell ----------------------------------------------------------------------------


def _wave(length: float, rng: np.random.Generator) -> Array:
    """(N_CELLS,) a smooth curve of standard deviation 1 whose bumps have about this length in bases."""
    n_knots = max(int(N_CELLS * CELL / length), 4)
    knots = rng.standard_normal(n_knots + 4)
    x = np.linspace(0, n_knots, N_CELLS)
    i = np.minimum(x.astype(int), n_knots - 1) + 1
    t = x - (i - 1)
    smooth = t * t * (3 - 2 * t)
    curve = knots[i] * (1 - smooth) + knots[i + 1] * smooth
    return np.asarray((curve - curve.mean()) / curve.std())


def _gc_content(rng: np.random.Generator) -> Array:
    """(N_CELLS,) isochores with finer structure; skewed, as that of man is."""
    rough = 0.7 * _wave(6e6, rng) + 0.55 * _wave(6e5, rng) + 0.45 * _wave(6e4, rng)
    return np.asarray(np.clip(0.33 + 0.065 * np.exp(0.55 * rough), 0.3, 0.68))


def _gc_bias(gc: Array, size: float, rng: np.random.Generator) -> Array:
    """Relative coverage: a slope and a bend of random sign and size."""
    z = (gc - 0.41) / 0.05
    return np.asarray(np.exp(size * rng.normal() * z - 0.4 * size * abs(rng.normal()) * z**2).clip(0.05, 5))


def _mappability(rng: np.random.Generator) -> tuple[Array, Array]:
    """(N_CELLS,) mappability, and coverage relative to what it lets expect: duplications attract reads of others."""
    mappable = np.clip(1.01 - rng.exponential(0.012, N_CELLS), 0, 1)
    surplus = np.ones(N_CELLS)
    for _ in range(int(rng.integers(150, 500))):
        begin = int(rng.integers(0, N_CELLS))
        here = slice(begin, begin + 1 + int(rng.lognormal(np.log(12), 1.0)))
        mappable[here] *= rng.uniform(0, 0.95)
        surplus[here] = rng.lognormal(0, 0.5)
    for c, centre in enumerate(CENTROMERES):
        middle = int(FIRSTS[c]) + round(centre * 1e6) // CELL
        mappable[middle - 120 : middle + 120] *= rng.uniform(0, 0.3)
    return mappable, surplus


def _counts(mean: Array, dispersion: float, rng: np.random.Generator) -> Whole:
    """Negative binomial: variance mean + dispersion mean^2."""
    return np.asarray(rng.poisson(mean * rng.gamma(1 / dispersion, dispersion, mean.shape)))


def _log_uniform(low: float, high: float, rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


# ---- Germline sites --------------------------------------------------------------------------------------------------


def _homozygous_runs(rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """(N_CELLS,) whether both haplotypes are the same: a few short runs, or many long ones after a cousin marriage."""
    inside = np.zeros(N_CELLS, bool)
    related = rng.random() < 0.15
    for _ in range(int(rng.integers(10, 30) if related else rng.integers(0, 12))):
        length = int(rng.lognormal(np.log(8e6 if related else 1.5e6), 0.7) / CELL)
        begin = int(rng.integers(0, N_CELLS - 1))
        inside[begin : begin + length] = True
    return inside


def _alternative_reads(
    depth: Whole, share: Array, genotype: Whole, other: Whole, facts: dict[str, float], rng: np.random.Generator
) -> Whole:
    """Reads of the alternative allele. share: of the haplotype that has it, at heterozygous sites."""
    own = np.where(genotype == 1, share, genotype / 2)
    mixed = (1 - facts["contamination"]) * own + facts["contamination"] * other / 2
    seen = facts["reference_bias"] * mixed / (facts["reference_bias"] * mixed + 1 - mixed)
    p = np.clip(ERROR + (1 - 2 * ERROR) * seen, 1e-6, 1 - 1e-6)
    artefact = rng.random(len(p)) < facts["artefacts"]
    p[artefact] = rng.uniform(0.02, 0.98, int(artefact.sum()))
    wide = facts["allele_precision"]
    return np.asarray(rng.binomial(depth, rng.beta(wide * p, wide * (1 - p))))


def _allele_facts(rng: np.random.Generator) -> dict[str, float]:
    return {
        "reference_bias": float(rng.uniform(0.9, 1.0)),
        "contamination": float(rng.choice([0.0, rng.uniform(0, 0.03)])),
        "artefacts": float(rng.uniform(0, 0.01)),
        "allele_precision": _log_uniform(60, 1000, rng),
    }


def _shares(truth: Truth, cells: Whole, rng: np.random.Generator) -> Array:
    """Share of the alternative allele's haplotype, which one of the two is, at sites in these cells."""
    first, second = truth.haplotypes[:, cells]
    phase = rng.random(len(cells)) < 0.5
    return np.where(phase, first, second) / np.maximum(first + second, 1e-9)


# ---- Assays ----------------------------------------------------------------------------------------------------------


def _pileup(truth: Truth, folder: Path, rng: np.random.Generator) -> Sample:
    """Read counts of normal and tumour at known SNPs, as FACETS' snp-pileup writes them."""
    n = round(_log_uniform(30_000, 300_000, rng))
    mappable, surplus = _mappability(rng)
    exome = rng.random() < 0.6
    places = _targets(n, rng) if exome else rng.random(n) * N_CELLS * CELL
    position = np.unique(places.astype(np.int64))
    cells = position // CELL
    seen = rng.random(len(cells)) < mappable[cells]
    position, cells = position[seen], cells[seen]
    frequency = rng.beta(0.25, 0.6, len(cells))
    genotype = rng.binomial(1, frequency) + rng.binomial(1, frequency)
    runs = _homozygous_runs(rng)[cells]
    genotype[runs] = 2 * (genotype[runs] > rng.integers(0, 2, int(runs.sum())))
    stranger = rng.binomial(2, frequency)
    facts = _allele_facts(rng) | {
        "sites": float(len(cells)),
        "exome": float(exome),
        "gc_size": _log_uniform(0.01, 0.12, rng),
        "wave": _log_uniform(0.003, 0.03, rng),
        "dispersion": _log_uniform(0.002, 0.05, rng),
        "depth": _log_uniform(30, 150, rng),
    }
    gc = _gc_content(rng)
    capture = rng.lognormal(0, 0.35 if exome else 0.05, len(cells)) * (mappable * surplus)[cells]
    total = truth.haplotypes.sum(axis=0)
    columns = []
    for level, share, depth in (
        (np.ones(len(cells)), np.full(len(cells), 0.5), facts["depth"] * rng.uniform(0.5, 1.0)),
        ((total / total.mean())[cells], _shares(truth, cells, rng), facts["depth"]),
    ):
        uneven = _gc_bias(gc, facts["gc_size"], rng) * np.exp(facts["wave"] * _wave(4e6, rng))
        reads = _counts(depth * capture * level * uneven[cells], facts["dispersion"], rng)
        alternative = _alternative_reads(reads, share, genotype, stranger, facts, rng)
        columns += [reads - alternative, alternative, np.zeros_like(reads), np.zeros_like(reads)]
    chromosome = np.searchsorted(FIRSTS, cells, side="right")
    local = position - FIRSTS[chromosome - 1] * CELL + 1
    kept = columns[0] + columns[1] >= 10  # as snp-pileup's users ask for
    name = [f"File{i}{what}" for i in (1, 2) for what in "RAED"]
    lines = ["Chromosome,Position,Ref,Alt," + ",".join(name)]
    table = np.column_stack([chromosome, local, *columns])[kept]
    lines += [f"{row[0]},{row[1]},A,G," + ",".join(map(str, row[2:])) for row in table.tolist()]
    file = folder / "tumour.csv.gz"
    file.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 1))
    return Sample(assay="sites", truth=truth, file=file, facts=facts)


def _targets(n: int, rng: np.random.Generator) -> Array:
    """Places in genes: clusters of exons."""
    n_genes = 18_000
    gene = rng.random(n_genes) * N_CELLS * CELL
    own = rng.integers(0, n_genes, n)
    return np.asarray(np.clip(gene[own] + rng.exponential(20_000, n), 0, N_CELLS * CELL - 1))


def _binned(truth: Truth, folder: Path, assay: str, rng: np.random.Generator) -> Sample:
    """Counts in bins: raw ones with tracks of GC content and mappability, or log2 ratios to a normal sample."""
    per_bin = max(round(N_CELLS / _log_uniform(3_000, 30_000, rng)), 9)
    sizes = SIZES // per_bin  # the last, shorter bin of a chromosome is dropped
    first = np.concatenate([FIRSTS[c] + np.arange(n) * per_bin for c, n in enumerate(sizes)])
    raw = rng.random() < 0.5
    facts = _allele_facts(rng) | {
        "bins": float(len(first)),
        "raw": float(raw),
        "gc_size": _log_uniform(0.02, 0.2, rng) if raw else _log_uniform(0.005, 0.05, rng),
        "wave": _log_uniform(0.003, 0.03, rng),
        "dispersion": _log_uniform(0.0003, 0.01, rng),
        "reads": _log_uniform(150, 8_000, rng),
    }
    gc = _gc_content(rng)
    mappable, surplus = _mappability(rng)
    total = truth.haplotypes.sum(axis=0)

    def counted(level: Array) -> Whole:
        uneven = _gc_bias(gc, facts["gc_size"], rng) * np.exp(facts["wave"] * _wave(4e6, rng))
        return _counts(
            facts["reads"] * _means(level * uneven * mappable * surplus, first, per_bin), facts["dispersion"], rng
        )

    reads = counted(total / total.mean())
    chromosome = np.repeat(np.arange(1, 23), sizes)
    start = (first - FIRSTS[chromosome - 1]) * CELL
    tracks: dict[str, Path] = {}
    if raw:
        step = per_bin * CELL
        file = _write_wig(folder / "counts.wig", chromosome, step, [str(x) for x in reads])
        content, mapped = (_means(x, first, per_bin) for x in (gc, mappable))
        tracks["gc"] = _write_wig(folder / "gc.wig", chromosome, step, [f"{x:.4f}" for x in content])
        tracks["mappability"] = _write_wig(folder / "map.wig", chromosome, step, [f"{x:.4f}" for x in mapped])
    else:
        normal = counted(np.ones(N_CELLS))
        used = (normal > 0.1 * np.median(normal)) & (reads > 0)
        ratio = np.log2(reads[used] / normal[used])
        ratio -= np.median(ratio)
        lines = ["chromosome\tstart\tend\tgene\tlog2"]
        rows = zip(chromosome[used].tolist(), start[used].tolist(), ratio.tolist(), strict=True)
        lines += [f"{c}\t{a}\t{a + per_bin * CELL}\t-\t{y:.5f}" for c, a, y in rows]
        file = folder / "tumour.cnr"
        file.write_text("\n".join(lines) + "\n")
    if assay == "bins":
        tracks["alleles"] = _write_hets(truth, folder / "tumour.hets.tsv", mappable, facts, rng)
    return Sample(assay=assay, truth=truth, file=file, facts=facts, **tracks)


def _means(values: Array, first: Whole, width: int) -> Array:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray((sums[first + width] - sums[first]) / width)


def _write_wig(file: Path, chromosome: Whole, step: int, values: list[str]) -> Path:
    lines: list[str] = []
    for t, value in enumerate(values):
        if not t or chromosome[t] != chromosome[t - 1]:
            lines.append(f"fixedStep chrom={chromosome[t]} start=1 step={step} span={step}")
        lines.append(value)
    file.write_text("\n".join(lines) + "\n")
    return file


def _write_hets(truth: Truth, file: Path, mappable: Array, facts: dict[str, float], rng: np.random.Generator) -> Path:
    """Allele counts at sites that a caller found to be heterozygous in the normal sample; a few are not."""
    n = round(_log_uniform(15_000, 120_000, rng))
    depth = _log_uniform(20, 100, rng)
    facts |= {"sites": float(n), "depth": depth}
    position = np.unique(rng.integers(0, N_CELLS * CELL, n))
    cells = position // CELL
    kept = (rng.random(len(cells)) < mappable[cells]) & ~_homozygous_runs(rng)[cells]
    position, cells = position[kept], cells[kept]
    total = truth.haplotypes.sum(axis=0)
    reads = _counts(depth * (total / total.mean())[cells], 0.02, rng)
    genotype = np.where(rng.random(len(cells)) < 0.003, 2 * rng.integers(0, 2, len(cells)), 1)
    alternative = _alternative_reads(
        reads, _shares(truth, cells, rng), genotype, rng.binomial(2, 0.3, len(cells)), facts, rng
    )
    chromosome = np.searchsorted(FIRSTS, cells, side="right")
    local = position - FIRSTS[chromosome - 1] * CELL + 1
    lines = ["CONTIG\tPOSITION\tREF_COUNT\tALT_COUNT\tREF_NUCLEOTIDE\tALT_NUCLEOTIDE"]
    rows = np.column_stack([chromosome, local, reads - alternative, alternative])[reads > 0]
    lines += [f"{c}\t{p}\t{r}\t{a}\tA\tG" for c, p, r, a in rows.tolist()]
    file.write_text("\n".join(lines) + "\n")
    return file
