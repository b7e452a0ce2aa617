"""Files of other programs: what they are taken for, what is read, and how wrong ones are refused."""

import gzip
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chiasma.errors import InvalidInput
from chiasma.io.columns import CHROMOSOME_NAMES, END_NAMES, START_NAMES, Columns
from chiasma.tumour import attach_alleles, formats, pileups, read_bins
from chiasma.tumour.places import SAMPLE_NAMES
from chiasma.tumour.samples import read_samples
from chiasma.tumour.signals import read_any
from chiasma.tumour.tracks import NO_REFERENCE, RAW_COUNTS, corrected, divided

DATA = Path(os.environ.get("CHIASMA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

CNR = "chromosome\tstart\tend\tgene\tlog2\tdepth\tweight\nchr1\t0\t100\tA\t-1\t5\t0.5\nchr1\t200\t300\tB\t1\t20\t0.25\n"
BB = (
    "#CHR\tSTART\tEND\tSAMPLE\tRD\t#SNPS\tCOV\tALPHA\tBETA\tBAF\n"
    "chr1\t0\t250\ta\t1.5\t2\t20\t15\t25\t0.375\nchr1\t0\t250\tb\t0.5\t1\t9\t0\t9\t0\n"
    "chrX\t0\t250\ta\t1\t0\t0\t0\t0\tNA\nchrX\t0\t250\tb\t2\t3\t9\t10\t20\t0.3333\n"
)
HETS = (
    "@HD\tVN:1.6\n@SQ\tSN:1\tLN:1000\n@RG\tID:x\tSM:patient 7\n"
    "CONTIG\tPOSITION\tREF_COUNT\tALT_COUNT\tREF_NUCLEOTIDE\tALT_NUCLEOTIDE\n1\t51\t10\t30\tA\tC\n1\t250\t7\t9\tG\tT\n"
)
SEG = (
    "ID\tchrom\tloc.start\tloc.end\tnum.mark\tseg.mean\n"
    "s1\t1\t1\t500\t10\t-1\ns1\t2\t1\t900\t20\t0\ns2\t1\t1\t400\t30\t1\n"
)


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_names__of_columns_on_the_page_are_those_that_are_read(write):
    page = (Path(__file__).parents[1] / "docs/how-to/tumour-files.md").read_text(encoding="utf-8")
    own = page.split("## A table of your own")[1]
    lines = [line.split("|") for line in own.splitlines() if line.startswith("| ")]
    told = {cells[1].strip(): re.findall(r"`(\w+)`", cells[2]) for cells in lines[2:]}
    assert {name: tuple(names) for name, names in told.items()} == {
        "chromosome": CHROMOSOME_NAMES,
        "start": START_NAMES,
        "end": END_NAMES,
        "sample, if there are several": SAMPLE_NAMES,
        "depth as log2 ratio": formats.LOG2_NAMES,
        "depth as ratio": formats.LINEAR_NAMES,
        "depth as count": formats.COUNT_NAMES,
        "weight of a bin": formats.WEIGHT_NAMES,
        "allele fraction": formats.BAF_NAMES,
        "reads of the two alleles": tuple(name for pair in formats.ALLELE_NAMES for name in pair),
        "number of SNPs": formats.SITES_NAMES,
    }
    usual = {"chromosome": "chrom", "start": "start", "end": "end", "depth as count": "depth"}
    usual |= {"allele fraction": "baf", "number of SNPs": "snps"}
    values = {"chromosome": "7", "start": "100", "end": "250", "depth as count": "40", "allele fraction": "0.25"}
    values |= {"number of SNPs": "9"}
    for column in usual:
        for name in told[column]:
            names = {**usual, column: name.upper()}
            (bins,) = read_bins(write("\t".join(names.values()) + "\n" + "\t".join(values.values()) + "\n"))
            assert (bins.chromosome[0], bins.start[0], bins.end[0], bins.depth[0]) == ("7", 100, 250, 40), name
            assert (bins.alleles.baf[0], bins.alleles.sites[0]) == (0.25, 9), name


@pytest.mark.parametrize("packed", [False, True])
def test_cnvkit__log2_is_made_linear_and_told(write, packed):
    (bins,) = read_bins(write(gzip.compress(CNR.encode()) if packed else CNR, "tumour.cnr"))
    assert bins.kind == "CNVkit .cnr"
    assert bins.depth.tolist() == [0.5, 2]
    assert (bins.start.tolist(), bins.end.tolist(), bins.weight.tolist()) == ([0, 200], [100, 300], [0.5, 0.25])
    assert bins.notes == ("column 'log2' holds log2 ratios by its name: made linear, 2^x",)
    assert bins.in_words() == "CNVkit .cnr: sample tumour, 2 bins, 1 chromosome"


def test_hatchet__samples_with_allele_counts(write):
    a, b = read_bins(write(BB))
    assert (a.sample, a.kind, a.depth.tolist()) == ("a", "HATCHet .bb", [1.5, 1])
    assert (a.alleles.bin.tolist(), a.alleles.a.tolist(), a.alleles.sites.tolist()) == ([0], [15], [2])
    assert b.alleles.fraction.tolist() == pytest.approx([0, 1 / 3])
    assert a.alleles.mirrored
    (only,) = read_bins(write(BB), "b")
    assert only.with_two_copies().chromosomes == ["chr1"]
    assert only.with_two_copies(female=True).chromosomes == ["chr1", "chrX"]
    with pytest.raises(InvalidInput, match=re.escape("has no sample 'c'; choose one of 'a', 'b'")):
        read_bins(write(BB), "c")


def test_gatk__ratios_with_allelic_counts(write):
    ratios = "@SQ\tSN:1\tLN:1000\nCONTIG\tSTART\tEND\tLOG2_COPY_RATIO\n1\t1\t100\t0\n1\t101\t200\t1\n"
    (bins,), (sites,) = read_bins(write(ratios)), read_bins(write(HETS, "b.hets.tsv"))
    assert (bins.lacking, sites.lacking) == ("", pileups.NO_NORMAL)
    assert (bins.kind, sites.kind, sites.sample) == ("GATK copy ratios", "GATK allelic counts", "patient 7")
    assert bins.start.tolist() == [0, 100]  # files of GATK count from 1
    assert bins.lengths == {"1": 1000}
    assert sites.depth.tolist() == pytest.approx([40 / 28, 16 / 28])
    both = attach_alleles(bins, sites)
    assert both.alleles.bin.tolist() == [0, 1]
    assert "2 of 2 heterozygous sites" in both.notes[-1]
    with pytest.raises(InvalidInput, match="has no allele counts"):
        attach_alleles(bins, bins)
    (other,) = read_bins(write(HETS.replace("\n1\t", "\n9\t"), "c.tsv"))
    with pytest.raises(InvalidInput, match="have no chromosome in common"):
        attach_alleles(bins, other)


def test_ascat__log_ratios_and_fractions_of_an_array(write):
    """Names of probes have no heading; the fractions come as the values of a file of their own."""
    places = [("SNP1", 10), ("SNP2", 20), ("SNP3", 30)]
    logr = write("\tchrs\tpos\tS1\n" + "".join(f"{name}\t1\t{pos}\t-0.5\n" for name, pos in places), "LogR.txt")
    text = "".join(f"{name}\t1\t{pos}\t{baf}\n" for (name, pos), baf in zip(places, (0.02, 0.55, 0.97), strict=True))
    fractions = read_bins(write("\tchrs\tpos\tS1\n" + text, "BAF.txt"))[0]
    found = attach_alleles(read_bins(logr)[0], fractions)
    np.testing.assert_allclose(found.alleles.fraction, [0.02, 0.45, 0.03])
    np.testing.assert_allclose(found.depth, 2**-0.5)
    depths = replace(fractions, depth=np.array([0.9, 1.1, 1.0]))
    with pytest.raises(InvalidInput, match="has no allele counts"):
        attach_alleles(found, depths)


def test_seg__every_sample_has_its_own_segments(write):
    one, two = read_bins(write(SEG))
    assert (one.n_bins, two.n_bins) == (2, 1)
    assert (one.depth.tolist(), one.weight.tolist(), one.start.tolist()) == ([0.5, 1], [10, 20], [0, 0])
    assert one.segments


def test_seg__sex_chromosomes_may_have_numbers(write):
    """23 and 24 are X and Y of man, unless X has a name or there are more chromosomes, as in a dog."""
    lines = "".join(f"s\t{n}\t1\t500\t10\t0.1\n" for n in (22, 23, 24))
    head = SEG.splitlines(keepends=True)[0]
    (bins,) = read_bins(write(head + lines))
    assert bins.with_two_copies().chromosomes == ["22"]
    assert bins.with_two_copies(female=True).chromosomes == ["22", "23"]
    assert bins.with_two_copies().notes[-1].endswith("may not have two copies: 23, 24")
    (dog,) = read_bins(write(head + lines + "s\t26\t1\t500\t10\t0.1\n"))
    assert len(dog.with_two_copies().chromosomes) == 4


def test_seg__junk_and_quotes_and_empty_segments(write):
    text = (
        "WARNING: ignoring environment\n"
        '"sampleName"\t"chromosome"\t"start"\t"end"\t"nbrOfLoci"\t"mean"\n"S"\t"chr1"\t11\t20\t3\t0.5\n'
        '"S"\t"chr1"\t31\t25\t0\t0.5\n"S"\t"chr1"\t31\t40\t3\t-0.5\n'
    )
    (bins,) = read_bins(write(text))
    assert bins.n_bins == 2
    assert bins.notes[0] == "left out, as they end before they begin: 1 segments"
    assert "as 50% of it is negative" in bins.notes[1]


def test_tables__wide_ones_have_a_sample_per_column(write):
    text = "chrom\tstart\tend\tn\tratio_A\tratio_B\tseg_A\n1\t0\t300\t2\t1.1\tNA\t1\n1\t300\t600\t2\t0.9\t2\t1\n"
    one, two = read_bins(write(text))
    assert (one.sample, two.sample) == ("A", "B")
    np.testing.assert_array_equal(two.depth, [np.nan, 2])
    igv = "#type=COPY_NUMBER\n#track coords=1\nchromosome\tstart\tend\tfeature\tT1\tT2\n1\t1\t30\tx\t-0.5\t0.1\n"
    one, two = read_bins(write(igv + "1\t31\t60\ty\t1.5\t-0.2\n"))
    assert (one.kind, one.sample, one.start.tolist()) == ("QDNAseq .igv", "T1", [0, 30])


TABLE = "chrom\tstart\tend\tdepth\tbaf\tsnps\n" + "".join(f"chr1\t{t}00\t{t + 1}00\t60\t0.4\t30\n" for t in range(20))
PLACES = "columns 'chrom', 'start', 'end' are taken as chromosome, start, end"
DEPTH = "column 'depth' is taken as depth on a linear scale"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "column 'baf' is taken as the allele fraction, column 'snps' as the number of SNPs"),
        (
            {"snps": "x"},
            "column 'baf' is taken as the allele fraction, of one SNP in every line, as no column has their number",
        ),
        (
            {"baf\tsnps": "ref_count\talt_count"},
            "columns 'ref_count' and 'alt_count' are taken as reads of the two alleles",
        ),
    ],
)
def test_tables__say_what_their_columns_are_taken_for(write, change, told):
    text = TABLE
    for old, new in change.items():
        text = text.replace(old, new)
    (bins,) = read_samples(write(text))
    assert bins.notes == (RAW_COUNTS, PLACES, DEPTH, told)
    # Their own names need no note.
    (plain,) = read_samples(write(text.replace("chrom", "chromosome")))
    assert plain.notes == (RAW_COUNTS, DEPTH, told)


def test_fit__says_that_it_uses_the_depth_only(write):
    notes = read_any(write(TABLE)).notes
    assert notes == (
        "table: sample data, 20 bins, 1 chromosome",
        PLACES,
        DEPTH,
        "only the depth is used, not the columns of alleles, 'baf', 'snps'; chiasma tumour uses all",
    )
    assert not any("only the depth" in note for note in read_any(write(CNR)).notes)


def test_bedgraph_and_wig(write):
    (bins,) = read_bins(write("chr1\t0\t50\t1.5\nchr1\t50\t100\t2\n"))
    assert (bins.kind, bins.depth.tolist()) == ("bedGraph", [1.5, 2])
    text = (
        "track type=wiggle_0\nfixedStep chrom=1 start=1 step=100 span=100\n10\n20\nvariableStep chrom=2 span=5\n11 7\n"
    )
    (bins,) = read_bins(write(text))
    assert (bins.chromosome.tolist(), bins.start.tolist(), bins.end.tolist()) == (
        ["1", "1", "2"],
        [0, 100, 10],
        [100, 200, 15],
    )
    assert bins.depth.tolist() == [10, 20, 7]


def test_wig__correction_removes_what_gc_explains(write):
    rng = np.random.default_rng(1)
    gc = rng.uniform(0.3, 0.6, 600)
    reads = rng.poisson(200 * (0.4 + 1.5 * gc))
    head = "fixedStep chrom=1 start=1 step=100 span=100\n"
    (counts,), (content,), (mappable,) = (
        read_bins(write(head + "\n".join(map(str, values)), name))
        for name, values in (("a.wig", reads), ("gc.wig", gc), ("map.wig", [0.5, *[1.0] * 599]))
    )
    after = corrected(counts, content, mappable)
    assert np.isnan(after.depth[0])
    before, now = (np.corrcoef(gc[1:], x[1:])[0, 1] for x in (counts.depth, after.depth))
    assert before > 0.7
    assert abs(now) < 0.1
    with pytest.raises(InvalidInput, match="or other positions; make both with the same bin size"):
        corrected(counts, counts.chosen(np.arange(600) > 99))
    # A track that has more bins, or a few less, serves as well.
    np.testing.assert_array_equal(
        corrected(counts.chosen(np.arange(600) > 99), content, mappable).start, counts.start[100:]
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (CNR.replace("200\t300", "200\t150"), "line 3: a bin ends at 150, which is not after its start"),
        (CNR.replace("200\t300", "0\t150"), "line 3: position 0 comes after 0 on chromosome 'chr1'; sort the file"),
        (CNR.replace("200", "x"), "line 3: column 'start' must hold numbers, got 'x'"),
        (CNR.replace("200", "2.5"), "line 3: column 'start' must hold positions in bases"),
        (CNR + "chr2\t0\t9\t\t0\t1\t1\nchr1\t400\t500\t\t0\t1\t1\n", "line 5: chromosome 'chr1' began in line 2"),
        (CNR + "\t400\t500\t\t0\t1\t1\n", "line 4: a chromosome is missing"),
        (CNR + "chr1\t400\t500\n", "line 4: expected 7 columns"),
        (
            BB.replace("0.375", "1.4").replace("ALPHA", "A").replace("BETA", "B"),
            "must hold fractions in 0..1, got '1.4'",
        ),
        (
            SEG.replace("500", "0").replace("900", "0"),
            "of segments end before they begin; are start and end exchanged?",
        ),
        ("name\tstart\tend\tratio\nx\t0\t5\t1\n", "has no column that names the chromosome"),
        (
            "chrom\tstart\tend\tstrand\n1\t0\t5\t+\n",
            "no column is known to hold depth or copy ratios. Expected log2, ratio",
        ),
        ("1\t2\t3\n4\t5\t6\n", "has no header that names its columns, and is no bedGraph"),
        ("chrom\tstart\tend\tratio\n1\t0\t5\tNA\n", "every value of column 'ratio' is missing"),
        ("fixedStep chrom=1 start=1\n5\n", "line 1: a fixedStep line needs chrom, start, step"),
        ("fixedStep chrom=1 start=1 step=5\n5 6\n", "line 2: expected a value, got '5 6'"),
        ("fixedStep chrom=1 start=1 step=5\nfive\n", "line 2: expected numbers, got 'five'"),
        ("variableStep chrom=1 span=9\n5 1\n6 1\n", "line 3: position 6 comes after a bin that ends at 13"),
        ("fixedStep chrom=1 start=1 step=5\n", "has step lines and no values"),
    ],
)
def test_refused__with_file_line_and_remedy(write, text, what):
    with pytest.raises(InvalidInput, match=re.escape(what)) as refusal:
        read_bins(write(text))
    assert "data.txt" in str(refusal.value)


def test_fit__reads_the_same_files(write):
    signal = read_any(write(BB), Columns(sample="b"))
    assert signal.data.y.tolist() == [0.5, 2]
    assert signal.end.tolist() == [250, 250]
    assert signal.notes[0].startswith("HATCHet .bb: sample b")
    assert read_any(write(BB)).notes[1].startswith("the first of 2 samples is taken: a; choose with --sample")
    both = read_any(write(BB), Columns(value="RD,BAF", sample="b"))
    np.testing.assert_allclose(both.data.y, [[0.5, 0], [2, 0.3333]])
    with pytest.raises(InvalidInput, match="has no sample 'c'"):
        read_any(write(BB), Columns(value="RD", sample="c"))
    assert read_any(write("value\n1\n2\n", "a.csv")).data.y.tolist() == [1, 2]


# ---- Sites of a tumour and its normal --------------------------------------------------------------------------------

FACETS = (
    "Chromosome,Position,Ref,Alt,File1R,File1A,File1E,File1D,File2R,File2A,File2E,File2D\n"
    "1,101,A,G,20,20,0,0,30,10,0,0\n1,201,A,G,40,0,0,0,40,0,1,0\n1,301,A,G,3,4,0,0,9,9,0,0\n"
    "2,50,C,T,10,10,0,0,0,20,0,0\n2,50,C,.,20,20,0,0,0,44,0,0\n"
)
SEQZ = (
    "chromosome\tposition\tbase.ref\tdepth.normal\tdepth.tumor\tdepth.ratio\tAf\tBf\tzygosity.normal\tGC.percent\t"
    "good.reads\tAB.normal\tAB.tumor\ttumor.strand\n"
    "1\t866\tC\t40\t20\t0.5\t0.75\t0.25\thet\t50\t20\tCT\t.\t0\n1\t866\tT\t30\t18\t0.6\t0.8\t0.2\thet\t50\t18\tCT\t.\t0\n"
    "1\t978\tT\t20\t30\t1.5\t1\t0\thom\t50\t30\tT\t.\t0\n2\t10\tG\t30\t30\t1\t0.5\t0.5\thet\t50\t10\tAG\t.\t0\n"
)
AMBER = (
    "chromosome\tposition\ttumorBAF\ttumorModifiedBAF\ttumorDepth\tnormalBAF\tnormalModifiedBAF\tnormalDepth\n"
    "1\t100\t0.75\t0.75\t40\t0.5\t0.5\t20\n1\t200\t0.2\t0.8\t20\t0.5\t0.5\t20\n"
)
VCF = (
    "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tP7\tP7_normal\n"
    "1\t11\t.\tA\tG\t9\tPASS\t.\tGT:AD\t0/1:30,10\t0/1:10,10\n1\t21\t.\tA\tG\t9\tPASS\t.\tGT:AD\t0/0:20,0\t0/0:20,0\n"
    "1\t31\t.\tA\tG\t9\tPASS\tSOMATIC\tGT:AD\t0/1:20,9\t0/0:20,0\n1\t41\t.\tAT\tG\t9\tPASS\t.\tGT:AD\t0/1:1,2\t0/1:9,9\n"
    "1\t51\t.\tA\tG\t9\tlow\t.\tGT:AD\t0/1:30,10\t0/1:10,10\n1\t61\t.\tA\tG\t9\tPASS\t.\tGT:AD\t0/1:8,8\t./.:.\n"
)


def test_facets__sites_of_the_normal_and_the_tumour(write):
    (bins,) = read_bins(write(gzip.compress(FACETS.encode()), "t.csv.gz"))
    assert (bins.kind, bins.sample, bins.start.tolist(), bins.end.tolist()) == (
        "FACETS snp-pileup",
        "t",
        [100, 200, 49],
        [101, 201, 50],
    )
    np.testing.assert_allclose(bins.depth, [1, 1, 1.1])  # relative to the median ratio; the better of two lines is kept
    assert bins.alleles.bin.tolist() == [0, 2]  # 40:0 is homozygous, 3:4 too few
    np.testing.assert_allclose(bins.alleles.a, [30, 0])
    assert any(note.startswith("1 sites with fewer than 10 reads") for note in bins.notes)
    assert any(note.startswith("1 lines of a position") for note in bins.notes)
    three = "\n".join(
        line + (",File3R,File3A,File3E,File3D" if not i else ",5,15,0,0") for i, line in enumerate(FACETS.splitlines())
    )
    assert [bins.sample for bins in read_bins(write(three, "t.csv"))] == ["t_File2", "t_File3"]


def test_facets__reference_bias_of_the_normal_is_undone(write):
    lines = [f"1,{100 * t},A,G,60,40,0,0,60,40,0,0" for t in range(1, 9)]
    (bins,) = read_bins(write(FACETS.splitlines()[0] + "\n" + "\n".join(lines) + "\n"))
    np.testing.assert_allclose(bins.alleles.a, 50)
    np.testing.assert_allclose(bins.alleles.a + bins.alleles.b, 100)


def test_gatk__reference_bias_is_undone_however_many_alleles_are_lost(write):
    rng = np.random.default_rng(4)
    head = "CONTIG\tPOSITION\tREF_COUNT\tALT_COUNT\n"
    share = np.where(np.arange(4000) < 2000, rng.permutation([0.9, 0.1] * 2000), 0.5)  # of the alternative allele
    seen = 0.9 * share / (0.9 * share + 1 - share)
    reads = rng.binomial(60, seen)
    lines = [f"1\t{10 * t + 1}\t{60 - b}\t{b}\n" for t, b in enumerate(reads)]
    (bins,) = read_bins(write(head + "".join(lines)))
    found = bins.alleles.b / 60
    assert np.mean(reads[2000:] / 60) < 0.48
    assert np.mean(found[2000:]) == pytest.approx(0.5, abs=0.005)  # 3.4 standard errors
    assert np.mean(found[:2000][share[:2000] > 0.5]) == pytest.approx(0.9, abs=0.005)
    even = "".join(f"1\t{10 * t + 1}\t{30 + t % 2}\t{31 - t % 2}\n" for t in range(200))
    assert read_bins(write(head + even))[0].alleles.a.tolist() == [30, 31] * 100


def test_seqz__heterozygous_sites_and_duplicates(write):
    (bins,) = read_bins(write(SEQZ))
    assert (bins.kind, bins.start.tolist()) == ("sequenza .seqz", [865, 977, 9])
    assert (bins.alleles.bin.tolist(), bins.alleles.a.tolist(), bins.alleles.b.tolist()) == ([0, 2], [5, 5], [15, 5])
    assert bins.alleles.mirrored
    assert bins.notes[0].startswith("1 lines of a position that occurs before are left out")


def test_sequenza__segments(write):
    head = "chromosome\tstart.pos\tend.pos\tBf\tN.BAF\tsd.BAF\tdepth.ratio\tN.ratio\tsd.ratio\n"
    (bins,) = read_bins(write(head + "1\t1\t90\t0.3\t7\t1\t0.8\t50\t1\n"))
    assert (bins.kind, bins.segments, bins.start[0], bins.end[0], bins.depth[0]) == (
        "sequenza segments",
        True,
        0,
        90,
        0.8,
    )
    assert (bins.weight[0], bins.alleles.baf[0], bins.alleles.sites[0]) == (50, 0.3, 7)


def test_amber__reads_of_a_fraction(write):
    (bins,) = read_bins(write(AMBER, "P7.amber.baf.tsv"))
    assert (bins.kind, bins.sample) == ("AMBER .amber.baf", "P7")
    assert (bins.alleles.a.tolist(), bins.alleles.b.tolist()) == ([10, 16], [30, 4])
    np.testing.assert_allclose(bins.depth, np.array([2, 1]) / 1.5)
    alone = AMBER.replace("0.5\t0.5\t20", "0\t0\t0")
    (bins,) = read_bins(write(alone))
    assert bins.lacking == pileups.NO_NORMAL


def test_vcf__reads_of_germline_variants(write):
    (bins,) = read_bins(write(VCF, "P7.vcf"))
    assert (bins.kind, bins.sample, bins.start.tolist()) == ("VCF", "P7", [10, 20])
    assert (bins.alleles.bin.tolist(), bins.alleles.a.tolist()) == ([0], [30])
    unnamed = VCF.replace("P7_normal", "P8")
    (bins,) = read_bins(write(unnamed), "P7")  # of two samples the other is the normal
    assert bins.alleles.b.tolist() == [10]
    (bins,) = read_bins(write(unnamed.replace("#CHROM", "##normal_sample=P7\n#CHROM")))
    assert bins.sample == "P8"
    alone = "".join(line.rsplit("\t", 1)[0] + "\n" if "\t" in line else line + "\n" for line in VCF.splitlines())
    (bins,) = read_bins(write(alone))
    assert (bins.start.tolist(), bins.lacking) == ([10, 60], pileups.NO_NORMAL)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (re.sub(r",File2.*", "", FACETS), "line 2: expected 8 columns"),
        (
            "\n".join(",".join(line.split(",")[:8]) for line in FACETS.splitlines()),
            "has the reads of one BAM file only",
        ),
        (FACETS.replace("File2A", "Alt2"), "has a column File2R and no File2A"),
        (FACETS.replace("30,10", "-30,10"), "line 2: column 'File2R' must hold numbers of reads, got -30"),
        (FACETS.replace("20,20", "2,2").replace("40,0", "4,0").replace("10,10", "1,1"), "no site with 10 reads in the"),
        (FACETS.replace("1,201", "1,91"), "line 3: position 90 comes after 100"),
        (FACETS.replace("1,101", "1,0"), "line 2: positions count from 1 in this format, got 0"),
        (SEQZ.replace("hom", "homo"), "line 4: column 'zygosity.normal' must be het or hom"),
        (SEQZ.replace("0.5\t0.5\thet", "0.5\t1.5\thet"), "line 5: column 'Bf' must hold fractions in 0..1"),
        (AMBER.replace("0.75\t0.75", "75\t0.75"), "line 2: column 'tumorBAF' must hold fractions in 0..1"),
        (VCF.replace("30,10", "30,1O"), "line 3: AD must hold the reads of two alleles, got '30,1O'"),
        (VCF.replace("1\t21\t", "1\tx\t"), "line 4: POS must be a whole number from 1, got 'x'"),
        (VCF.replace("\t0/0:20,0\n1\t31", "\n1\t31"), "line 4: expected 11 columns separated by tabs, got 10"),
        (VCF.replace("1\t21\t", "1\t2\t"), "line 4: position 1 comes after 10"),
        (VCF.replace("GT:AD", "GT:DP"), "none of 6 records is a germline variant of one base with AD"),
        (VCF.replace("P7_normal", "P8"), "which of the samples 'P7', 'P8' is the normal?"),
        (VCF.replace("#CHROM", "CHROM"), "is a VCF without a line #CHROM"),
        (VCF.splitlines()[0] + "\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n", "the VCF has no samples"),
    ],
)
def test_sites__refused_with_file_line_and_remedy(write, text, what):
    with pytest.raises(InvalidInput, match=re.escape(what)) as refusal:
        read_bins(write(text))
    assert "data.txt" in str(refusal.value)


# ---- PURPLE, COBALT and PureCN ---------------------------------------------------------------------------------------

SEGMENT = (
    "chromosome\tstart\tend\tgermlineStatus\tbafCount\tobservedBAF\tobservedTumorRatio\tdepthWindowCount\n"
    "1\t1\t1000\tDIPLOID\t30\t0.7\t0.9\t10\n1\t1001\t1001\tDIPLOID\t0\t0\t0\t0\n"
    "1\t1002\t2000\tHET_DELETION\t4\t0.9\t0.4\t8\n1\t2001\t3000\tUNKNOWN\t9\t1.005\t0.5\t5\n"
)
SOMATIC = (
    "chromosome\tstart\tend\tcopyNumber\tbafCount\tobservedBAF\tbaf\tdepthWindowCount\n"
    "1\t1\t1000\t3\t30\t0.7\t0.8\t10\n1\t1001\t2000\t1\t20\t1\t1.005\t8\n"
)


def test_purple__segments_as_they_were_measured(write):
    (bins,) = read_bins(write(SEGMENT))
    assert (bins.kind, bins.segments, bins.start.tolist(), bins.end.tolist()) == (
        "PURPLE segments",
        True,
        [0, 1000, 1001, 2000],
        [1000, 1001, 2000, 3000],
    )
    np.testing.assert_array_equal(bins.depth, [0.9, np.nan, np.nan, 0.5])
    assert (bins.alleles.bin.tolist(), bins.alleles.baf.tolist()) == ([0, 3], [0.7, 1])
    assert (bins.alleles.sites.tolist(), bins.alleles.mirrored) == ([30, 9], True)


def test_purple__copy_numbers_need_the_purity(write):
    path = write(SOMATIC, "P7.cnv.somatic.tsv")
    with pytest.raises(InvalidInput, match="from which PURPLE has removed the normal ones; give its"):
        read_bins(path)
    beside = write("purity\tploidy\n0.5\t2\n", "P7.purity.tsv")
    (bins,) = read_bins(path)
    np.testing.assert_allclose(bins.depth, [1.25, 0.75])
    assert "at purity 0.5 of P7.purity.tsv" in bins.notes[-1]
    beside.write_text("purity\tploidy\n1.5\t2\n")
    with pytest.raises(InvalidInput, match=re.escape("P7.purity.tsv, line 2: PURPLE's column 'purity' must hold")):
        read_bins(path)


def test_cobalt__windows(write):
    text = "chromosome\tposition\treferenceReadCount\ttumorReadCount\ttumorGCRatio\n"
    (bins,) = read_bins(write(text + "1\t1\t9\t9\t-1\n1\t1001\t9\t9\t0.8\n1\t3001\t9\t9\t1.2\n"))
    assert (bins.kind, bins.start.tolist(), bins.end.tolist()) == ("COBALT ratios", [0, 1000, 3000], [1000, 2000, 4000])
    np.testing.assert_array_equal(bins.depth, [np.nan, 0.8, 1.2])


def test_purecn__coverage_needs_a_normal(write):
    head = "Target total_coverage counts on_target duplication_rate\n"
    rows = [f"chr1:{1000 * t + 1}-{1000 * t + 100} {{}} 1 TRUE NA" for t in range(40)]
    own = write(head + "\n".join(row.format(100 * (1 + t % 3)) for t, row in enumerate(rows)) + "\n", "t.txt")
    (bins,) = read_bins(own)
    assert (bins.kind, bins.start[1], bins.end[1], bins.depth[1]) == ("PureCN coverage", 1000, 1100, 2)
    assert read_samples(own)[0].notes[0] == NO_REFERENCE
    (found,) = read_samples(own, normal=own)
    np.testing.assert_allclose(found.depth, 1)
    assert not found.lacking
    (less,) = read_bins(write(head + "\n".join(row.format(1) for row in rows[:5]) + "\n", "n.txt"))
    with pytest.raises(InvalidInput, match="make both with the same bin size"):
        divided(bins, less)
    with pytest.raises(InvalidInput, match=re.escape("line 2: column 'Target' must hold places as chr1:100-200, got")):
        read_bins(write(own.read_text().replace("1:1-100", "1:1:100")))


# ---- What is not known -----------------------------------------------------------------------------------------------


def test_tables__with_unknown_columns_are_refused_with_candidates(write):
    path = write(
        "chrom\tstart\tend\tgcContent\tT1\tT2\n" + "".join(f"1\t{t}00\t{t}99\t0.4\t1\t2\n" for t in range(1, 30))
    )
    with pytest.raises(InvalidInput, match=re.escape("Candidates are 'gcContent', 'T1', 'T2': name the one to take")):
        read_bins(path)
    (bins,) = read_bins(path, "T2")
    assert (bins.sample, bins.depth[0]) == ("T2", 2)


@pytest.mark.parametrize(("name", "export"), [("a.rda", "load("), ("a.RData", "load("), ("a.rds", "readRDS(")])
def test_files_of_r__are_refused_with_the_line_that_exports_them(write, name, export):
    with pytest.raises(InvalidInput, match=re.escape(export)) as refusal:
        read_bins(write(gzip.compress(b"RDX3\nX\n"), name))
    assert name in str(refusal.value)
    with pytest.raises(InvalidInput, match="only R reads"):
        read_any(write(gzip.compress(b"RDX3\nX\n"), "a.gz"))
    with pytest.raises(InvalidInput, match="only R reads"):
        read_bins(write(b"RDX3\nX\n", "a.tsv"))


# ---- Tracks that are at hand -----------------------------------------------------------------------------------------


def wig(values, step, chromosomes=(1, 2)):
    each = np.array_split(np.asarray(values), len(chromosomes))
    return "".join(
        f"fixedStep chrom={name} start=1 step={step} span={step}\n" + "\n".join(map(str, part)) + "\n"
        for name, part in zip(chromosomes, each, strict=True)
    )


def test_tracks__are_found_by_their_bins(write, tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    gc = rng.uniform(0.3, 0.6, 400)
    data = write(wig(rng.poisson(200 * (0.4 + 1.5 * gc)), 500), "tumour.wig")
    (bins,) = read_samples(data)
    assert (bins.lacking, bins.notes[0]) == (RAW_COUNTS, RAW_COUNTS)
    folder = tmp_path / "genome"
    folder.mkdir()
    for name, values, step in (
        ("gc_hg19_50.wig", gc, 50),
        ("gc_other_500.wig", gc[:-8], 500),
        ("map_hg19_500.wig", np.ones(400), 500),
    ):
        (folder / name).write_text(wig(values, step))
    monkeypatch.setenv("CHIASMA_GENOME", str(folder))
    assert read_samples(data)[0].lacking
    (folder / "gc_hg19_500.wig.gz").write_bytes(gzip.compress(wig(gc, 500, ("chr1", "chr2")).encode()))
    (bins,) = read_samples(data)
    assert not bins.lacking
    assert abs(np.corrcoef(gc, bins.depth)[0, 1]) < 0.15
    assert any("gc_hg19_500.wig.gz" in note for note in bins.notes)
    assert any("map_hg19_500.wig" in note for note in bins.notes)
    monkeypatch.setenv("CHIASMA_GENOME", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="CHIASMA_GENOME must name a folder with WIG files"):
        read_samples(data)
    monkeypatch.delenv("CHIASMA_GENOME")
    write(wig(gc, 500), "own.gc.wig")
    assert not read_samples(data)[0].lacking


@pytest.mark.skipif(not DATA.exists(), reason="the public example files are not at hand")
@pytest.mark.parametrize(
    ("name", "kind", "n_samples", "n_bins"),
    [
        ("formats/cnvkit_amplicon.cnr", "CNVkit .cnr", 1, 1433),
        ("formats/cnvkit_amplicon.cns", "CNVkit .cns", 1, 80),
        ("formats/cnvkit_cw-tr-log2.seg", "SEG", 41, 38),
        ("formats/cnvkit_p2-9_2.call.cns", "CNVkit .call.cns", 1, 313),
        ("formats/cnvkit_tr95t.cns", "CNVkit .cns", 1, 124),
        ("formats/cnvkit_warning.seg", "SEG", 1, 11),
        ("formats/gatk_plotting-copy-ratios.tsv", "GATK copy ratios", 1, 6811),
        ("formats/gatk_single-sample-cr-ac-nac.cr.igv.seg", "SEG", 1, 8),
        ("formats/gatk_single-sample-cr-ac-nac.cr.seg", "GATK .cr.seg", 1, 8),
        ("formats/gatk_single-sample-cr-ac-nac.hets.tsv", "GATK allelic counts", 1, 715),
        ("formats/gatk_single-sample-cr-ac-nac.modelFinal.seg", "GATK .modelFinal.seg", 1, 8),
        ("formats/purecn_example.seg", "SEG", 1, 54),
        ("rascal_hgsoc_300kb.tsv", "table", 2, 10332),
        ("tumour/hatchet_demo-wes.bb", "HATCHet .bb", 2, 6504),
        ("tumour/sequenza_example.seqz.gz", "sequenza .seqz", 1, 53883),
        ("tumour/purple_tumor_sample.segment.tsv.gz", "PURPLE segments", 1, 3565),
        ("tumour/purple_tumor_sample.cnv.somatic.tsv", "PURPLE copy numbers", 1, 222),
    ],
)
def test_public_files__open_without_options(name, kind, n_samples, n_bins):
    found = read_bins(DATA / name)
    assert (found[0].kind, len(found), found[0].n_bins) == (kind, n_samples, n_bins)
