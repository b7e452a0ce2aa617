"""Files of other programs: what they are taken for, what is read, and how wrong ones are refused."""

import gzip
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chiasma.errors import InvalidInput
from chiasma.io.column_guesses import CHROMOSOME_NAMES, END_NAMES, START_NAMES
from chiasma.io.columns import Columns
from chiasma.tumour import attach_alleles, formats, read_bins
from chiasma.tumour.analysis import read_samples
from chiasma.tumour.formats import corrected
from chiasma.tumour.signals import read_any

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

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
    page = (Path(__file__).parents[1] / "docs/examples/tumour.md").read_text(encoding="utf-8")
    lines = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    told = {cells[1].strip(): re.findall(r"`(\w+)`", cells[2]) for cells in lines[2:]}
    assert {name: tuple(names) for name, names in told.items()} == {
        "chromosome": CHROMOSOME_NAMES,
        "start": START_NAMES,
        "end": END_NAMES,
        "sample, if there are several": formats.SAMPLE_NAMES,
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
    assert bins.notes == (PLACES, DEPTH, told)
    # Their own names need no note.
    (plain,) = read_samples(write(text.replace("chrom", "chromosome")))
    assert plain.notes == (DEPTH, told)


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
        corrected(counts, counts.chosen(np.arange(600) > 3))


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
        ("chrom\tstart\tend\tstrand\n1\t0\t5\t+\n", "has no column of depth or copy ratio"),
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
    ],
)
def test_public_files__open_without_options(name, kind, n_samples, n_bins):
    found = read_bins(DATA / name)
    assert (found[0].kind, len(found), found[0].n_bins) == (kind, n_samples, n_bins)
