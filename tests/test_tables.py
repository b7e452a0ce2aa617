"""Data files: what is read from them, and how a malformed one is refused."""

import gzip
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from chiasma.errors import InvalidInput, StoreError
from chiasma.io.columns import Columns
from chiasma.io.regions import find_region
from chiasma.io.signal import Signal, position_text
from chiasma.io.tables import read_signal, write_table
from chiasma.io.times import time_text, times_column
from chiasma.models.observations import Observations
from chiasma.report.report import region_text

GENOME = """chrom\tstart\tdepth
chr1\t0\t1.5
chr1\t100\tNA
chr1\t250\t2
2\t0\t.
chr2\t100\t-1e1
"""
ALL = Columns(value="depth", chromosome="chrom", position="start", gap_unit=100)


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.tsv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_read__values_starts_and_gaps(write):
    signal = read_signal(write(GENOME), ALL)
    np.testing.assert_array_equal(signal.data.y, [1.5, np.nan, 2, np.nan, -10])
    assert signal.data.starts.tolist() == [0, 3]
    assert signal.data.gaps.tolist() == [1, 1.5, 1, 1]
    assert signal.chromosome == ("chr1", "chr1", "chr1", "2", "2")  # a prefix does not make another chromosome
    assert signal.position.tolist() == [0, 100, 250, 0, 100]
    assert signal.in_words() == "5 sites, 2 chromosomes, 2 missing, distances in steps of 100"


def test_read__the_median_distance_is_one_step(write):
    signal = read_signal(write(GENOME), Columns(value="depth", chromosome="chrom", position="start"))
    assert signal.gap_unit == 100


@pytest.mark.parametrize(
    ("text", "name", "columns", "expected"),
    [
        ("value\n1\n2\n", "a.csv", None, [1, 2]),
        ("1\n2\n\n", "a.csv", None, [1, 2]),
        ("1,5\n2,6\n", "a.csv", Columns(value="2"), [5, 6]),
        ("a,y\n1,5\n2,6\n", "a.csv", None, [5, 6]),
        ("a;b\n1;5\n2;6\n", "a.csv", Columns(value="b", delimiter="semicolon"), [5, 6]),
        ("a b\n1 5\n", "a.dat", Columns(value="a", delimiter=" "), [1]),
        ('"a","b"\n"1","5"\n', "a.csv", Columns(value="1"), [1]),
        ("# made by hand\n@HD\tVN:1.5\nCONTIG\tRATIO\n1\t0.5\n", "a.tsv", Columns(value="RATIO"), [0.5]),
        ("\ufeffvalue\r\n1\r\nnan\r\nNA\r\n \r\n4\r\n", "a.csv", None, [1, np.nan, np.nan, np.nan, 4]),
        ("x,y\n1,\n2,N/A\n3,7\n", "a.csv", None, [np.nan, np.nan, 7]),
    ],
)
def test_read__forms_of_a_table(write, text, name, columns, expected):
    np.testing.assert_array_equal(read_signal(write(text, name), columns).data.y, expected)


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("chr1\t100\t1.5\nchr1\t200\t2.5\n", Columns(value="3", chromosome="1"), [1.5, 2.5]),  # no line is lost
        ("a;b\n1;2.5\n", Columns(value="b"), [2.5]),
        ("a b\n1 2.5\n", Columns(value="b"), [2.5]),
        ("#CHR\tSTART\tRD\nchr1\t0\t0.5\n", Columns(value="RD"), [0.5]),
        ("WARNING: something\nname,value\nx,0.5\ny,1\n", None, [0.5, 1]),
        ("x\tvalue\nNA\t1\n.\t2\n", None, [1, 2]),
    ],
)
def test_read__recognises_delimiter_and_header(write, text, columns, expected):
    for content in (text.encode(), gzip.compress(text.encode())):
        np.testing.assert_array_equal(read_signal(write(content, "data.any"), columns).data.y, expected)


def test_read__several_value_columns(write):
    text = "chr,start,RD,BAF\n1,0,1.5,0.5\n1,100,2,NA\n"
    signal = read_signal(write(text, "a.csv"), Columns(value="RD,BAF", chromosome="chr"))
    np.testing.assert_array_equal(signal.data.y, [[1.5, 0.5], [2, np.nan]])
    assert signal.value == "RD, BAF"


def test_guess__columns_by_their_names_and_contents(write):
    signal = read_signal(write(GENOME.replace("start", "Position")), guess=True)
    assert signal.chromosome[0] == "chr1"
    assert signal.position.tolist() == [0, 100, 250, 0, 100]
    assert signal.notes[-1] == "column 'depth' is taken as the signal"
    assert (signal.value, signal.axis) == ("depth", "Position")
    times = read_signal(write("0.1,7,1\n0.2,8.5,2\n0.4,7,2\n", "b.csv"), guess=True)
    assert times.data.y.tolist() == [7, 8.5, 7]
    assert times.gap_unit == pytest.approx(0.15)
    assert (times.value, times.axis) == (None, None)
    assert times.notes[-1] == "column '2' is taken as the signal; not used: '3' (choose with --value)"
    for columns in (Columns(), Columns(value="current")):
        clock = read_signal(write("seconds,current\n0.1,7\n0.2,8.5\n0.4,7\n", "c.csv"), columns, guess=True)
        assert clock.data.y.tolist() == [7, 8.5, 7]
        assert clock.notes[0] == "column 'seconds' is taken as the position"
    counted = read_signal(write("frame,ms,photons\n0,0,\n1,50.1,7\n2,100.2,6\n3,150.3,9\n", "e.csv"), guess=True)
    assert (counted.axis, counted.value) == ("frame", "photons")
    assert counted.notes[-1] == "column 'photons' is taken as the signal; not used: 'ms' (choose with --value)"
    even = read_signal(write("frame,ms\n0,0\n1,50\n2,100\n", "f.csv"), guess=True)  # there is nothing else
    assert (even.axis, even.value) == ("frame", "ms")
    rising = read_signal(write("depth,noise\n1,7\n2,8.5\n", "d.csv"), Columns(value="depth"), guess=True)
    assert rising.data.y.tolist() == [1, 2]
    assert rising.data.gaps is None


def test_decimal_commas__where_they_can_be_nothing_else(write):
    text = "Zeit\tFluss\tMenge\tNotiz\n0\t13,2\t1,234\tok\n1\t\t0,500\tok, gut\n2\t-4\t2,000\tok\n"
    signal = read_signal(write(text, "a.txt"), Columns(value="Fluss"), guess=True)
    np.testing.assert_array_equal(signal.data.y, [13.2, np.nan, -4])
    assert signal.notes[0] == "decimal commas in 'Fluss', 'Menge' are read as points"
    assert read_signal(write(text, "b.txt"), Columns(value="Menge")).data.y.tolist() == [1.234, 0.5, 2]  # 0,500 tells
    plain = read_signal(write("1,5;2,5e3\n2,25;1e2\n", "c.csv"), Columns(value="2"))
    assert plain.data.y.tolist() == [2500, 100]


POWER = "{},kilowatt,temperature,room\n2024-05-01 08:00,1,20,a\n2024-05-01 08:05,2,20,b\n2024-05-01 08:10,1,20,b\n"


# Sent in another order than measured: which of the two is the position?
SENT = "taken at,kilowatt,room,sent\n2024-05-01 08:00,1,a,2024-05-02 08:00\n2024-05-01 08:05,2,b,2024-05-02 07:00\n"


def test_guess__names_all_columns_that_are_not_used(write):
    signal = read_signal(write(SENT, "a.csv"), guess=True)
    assert signal.position is None
    unused = "not used: 'taken at', 'room', 'sent' (choose with --value)"
    hint = "'taken at' and 'sent' look like time stamps: use --position 'taken at' or --position sent"
    assert signal.notes == (f"column 'kilowatt' is taken as the signal; {unused}", hint)
    assert signal.hints == (hint,)


def test_guess__the_only_time_stamps_whatever_their_name(write):
    for columns in (Columns(), Columns(value="kilowatt")):
        signal = read_signal(write(POWER.format("when"), "a.csv"), columns, guess=True)
        assert (signal.axis, signal.zone, signal.gap_unit) == ("when", "", 300)
        assert signal.notes[0] == "column 'when' is taken as the position"
        assert signal.hints == ()
    late = "id,kilowatt,when\n1,5,2024-05-01\n2,7,2024-05-02\n"  # before a first column of numbers that increase
    assert read_signal(write(late, "b.csv"), guess=True).axis == "when"
    ends = read_signal(write(SENT.replace("sent", "stop"), "c.csv"), guess=True)  # the other column has a use
    assert ends.axis == "taken at"
    assert ends.end is not None
    blocks = "chr,kilowatt,when\n1,5,2024-05-01\n1,7,2024-05-02\n2,7,2024-05-01\n"
    assert read_signal(write(blocks, "d.csv"), guess=True).axis == "when"


@pytest.mark.parametrize("second", ["2024-04-30", "noon"])
def test_guess__time_stamps_that_do_not_increase_are_left_to_the_reader(write, second):
    signal = read_signal(write(f"when,kilowatt\n2024-05-01,5\n{second},7\n", "a.csv"), guess=True)
    assert signal.position is None
    assert signal.hints == ("'when' looks like time stamps: use --position when",)


@pytest.mark.parametrize("name", ["timestamp", "Date", "datetime", "date_time", "Time"])
def test_guess__time_stamps_by_their_name(write, name):
    signal = read_signal(write(POWER.format(name), "a.csv"), guess=True)
    assert signal.axis == name
    assert signal.zone == ""
    assert signal.gap_unit == 300
    assert signal.in_words() == "3 sites, distances in steps of 300 seconds"


def test_guess__dates_that_are_no_positions_are_not_used(write):
    many = read_signal(write("date,hour,kilowatt\n2024-05-01,1,5\n2024-05-01,2,7\n", "a.csv"), guess=True)
    assert many.notes == ("column 'hour' is taken as the signal; not used: 'date', 'kilowatt' (choose with --value)",)
    other = read_signal(write("date,kilowatt\n01/05/2024,5\n02/05/2024,7\n", "b.csv"), guess=True)
    expected = "it must hold numbers or time stamps such as 2024-05-01 08:00, got '01/05/2024'"
    assert other.notes[-1] == f"'date' is not used: {expected}; write them in this way to use it"


def test_read__a_position_that_is_neither_number_nor_time_stamp(write):
    path = write("time,y\n01/05/2024 08:00,1\n01/05/2024 08:05,2\n", "a.csv")
    expected = "line 2: column 'time' must hold numbers or time stamps such as 2024-05-01 08:00, got '01/05/2024 08:00'"
    with pytest.raises(InvalidInput, match=re.escape(f"{expected}; write them in this way")):
        read_signal(path, guess=True)


def test_positions__that_are_even_but_for_rounding_are_no_gaps(write):
    """Decimal fractions are not exact in binary, and times since 1970 have few digits left for them."""
    for first in (0.0, 1_700_000_000.0):
        lines = [f"{first + t / 10:.1f},{t % 3}\n" for t in range(40)]
        signal = read_signal(write("seconds,current\n" + "".join(lines), "a.csv"), guess=True)
        assert signal.data.gaps is None
        assert signal.gap_unit == pytest.approx(0.1)
        skipped = read_signal(write("seconds,current\n" + "".join(lines[:10] + lines[12:]), "b.csv"), guess=True)
        assert skipped.data.gaps.tolist() == [1.0] * 9 + [3.0] + [1.0] * 27
        # What the page on the number of rows does in Python.
        assert np.array_equal(np.round(np.diff(skipped.position) / 0.1, 5), skipped.data.gaps)
    tiny = read_signal(write("seconds,current\n0,1\n1,2\n2,3\n2.0000001,4\n", "c.csv"), guess=True)
    assert tiny.data.gaps[2] == pytest.approx(1e-7)


def test_guess__dates_are_times(write):
    text = "Time,watts\n2013-06-01 00:00:00,5\n2013-06-01 00:01:00,6\n2013-06-01 00:03:00,7\n"
    signal = read_signal(write(text, "a.csv"), guess=True)
    assert signal.data.gaps.tolist() == pytest.approx([2 / 3, 4 / 3])
    assert signal.position.tolist() == [1370044800, 1370044860, 1370044980]
    told = (
        "dates and times in column 'Time' become seconds since 1970, read as UTC unless they name a time zone; "
        "--region of chiasma show takes dates and times"
    )
    assert signal.notes[-1] == told
    named = read_signal(write(text.replace("Time", "stamp"), "c.csv"), Columns(value="watts", position="stamp"))
    assert named.notes == (told.replace("Time", "stamp"),)
    shifted = read_signal(write(text.replace(":00,", ":00+02:00,"), "d.csv"), guess=True)
    assert shifted.position.tolist() == (signal.position - 7200).tolist()
    assert (signal.zone, shifted.zone) == ("", "+02:00")
    several = read_signal(write(text.replace("03:00,", "03:00-01:00,"), "e.csv"), guess=True)
    assert several.zone == "+00:00"
    assert read_signal(write("Time,watts\n0,5\n1,6\n", "f.csv"), guess=True).zone is None
    with pytest.raises(InvalidInput, match=r"got 2013-06-01T00:01 after 2013-06-01T00:02; sort the file by position"):
        read_signal(write(text.replace("00:00:00", "00:02:00"), "g.csv"), guess=True)
    with pytest.raises(InvalidInput, match=r"line 3: column 'Time' must hold dates and times, got 'noon'"):
        read_signal(write(text.replace("2013-06-01 00:01:00", "noon"), "b.csv"), guess=True)


SPANS = """start,end,watts
2024-05-01 08:00,2024-05-01 08:00:30,5
2024-05-01 08:01,NA,6
2024-05-01 08:02,2024-05-01 08:02:45,7
"""


def test_end__time_stamps(write):
    signal = read_signal(write(SPANS, "a.csv"), guess=True)
    np.testing.assert_array_equal(signal.end - signal.position, [30, np.nan, 45])
    assert signal.zone == ""
    assert "dates and times in columns 'start' and 'end' become seconds since 1970" in signal.notes[-1]
    text = SPANS.replace("start,end", "begun,over").replace("2024-05-01 08:00:30", "")
    named = read_signal(write(text, "b.csv"), Columns(value="watts", position="begun", end="over"))
    np.testing.assert_array_equal(named.end - named.position, [np.nan, np.nan, 45])
    zoned = re.sub(r"(2024-\S+ [\d:]+)", r"\1+02:00", SPANS)
    shifted = read_signal(write(zoned, "c.csv"), guess=True)
    np.testing.assert_array_equal(shifted.end, signal.end - 7200)
    other = read_signal(write(zoned.replace("08:02:45+02:00", "07:02:45+01:00"), "d.csv"), guess=True)
    np.testing.assert_array_equal(other.end, shifted.end)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("2024-05-01 08:00:30", "30", "line 2: column 'end' must hold dates and times, as column 'start' does, got "),
        ("2024-05-01 08:02:45", "later", "line 4: column 'end' must hold dates and times, got 'later'; write "),
        ("08:02:45", "08:01", "column 'start', got 2024-05-01T08:01 and 2024-05-01T08:02; correct one of them"),
        ("08:00:30", "08:00:30Z", "'end' do, got none in column 'start'; write it there, too: 2024-05-01 08:00+02:00"),
        ("08:00,", "08:00+02:00,", "'start' do, got none in column 'end'; write it there, too: 2024-05-01 08:00"),
    ],
)
def test_end__time_stamps_that_make_no_sense(write, old, new, what):
    assert old in SPANS
    with pytest.raises(InvalidInput, match=re.escape(what)):
        read_signal(write(SPANS.replace(old, new), "a.csv"), guess=True)


@pytest.mark.parametrize(
    ("position", "what"),
    [
        (None, "column 'end' holds dates and times, '2024-05-01 08:00:30', and there is no position column; name it"),
        ("watts", "column 'end' must hold numbers, as column 'watts' does, got '2024-05-01 08:00:30'; write both in"),
    ],
)
def test_end__time_stamps_without_those_of_the_position(write, position, what):
    with pytest.raises(InvalidInput, match=re.escape(what)):
        read_signal(write(SPANS, "a.csv"), Columns(value="watts", position=position, end="end"))


def test_read__arrays(tmp_path):
    for y in (np.arange(3.0), np.arange(3.0)[:, None]):
        np.save(tmp_path / "y.npy", y)
        np.testing.assert_array_equal(read_signal(tmp_path / "y.npy").data.y, [0, 1, 2])


@pytest.mark.parametrize(
    ("text", "columns", "where", "what"),
    [
        ("a,b\n1,2\n3,high\n", Columns(value="b"), "line 3", "column 'b' must hold numbers, got 'high'; correct it or"),
        # Thousands, or decimals?
        ("a;b\n1;2,500\n", Columns(value="b", delimiter=";"), "line 2", "got '2,500'; write decimals with a point"),
        ("a;b\n1;2,5\n2;1.5\n", Columns(value="b"), "line 2", "got '2,5'; write decimals with a point"),
        ("a,b\n1,1_000\n", Columns(value="b"), "line 2", "must hold numbers, got '1_000'"),
        ("a,b\n1,2\n\n3\n", Columns(value="b"), "line 4", "expected 2 columns, got 1"),
        ("a,b\n1,2,3\n", Columns(value="b"), "line 2", "expected 2 columns, got 3"),
        ("a,b\n1,2\n1,inf\n", Columns(value="b"), "line 3", "must be finite, got 'inf'; write NA"),
        ("a,b\n1,1e999\n", Columns(value="b"), "line 2", "must be finite"),
        ("a,b\n", Columns(value="b"), "line 1", "there is a header and nothing below it"),
        ("", None, "data.csv", "has no rows; expected a header"),
        ("# nothing\n\n", None, "data.csv", "has no rows"),
        ("a,b\n1,2\n", Columns(value="c"), "data.csv", "has no column 'c' for the value; choose one of 'a', 'b'"),
        ("1,2\n3,4\n", Columns(value="3"), "data.csv", "(no header: its columns are 1..2); choose one of '1', '2'"),
        ("b,b\n1,2\n", Columns(value="b"), "data.csv", "has 2 columns called 'b'; choose one by its number"),
        ("a,b\n1,2\n", None, "data.csv", "which column holds the signal? Name the value column: one of 'a', 'b'"),
        ("a,b\n1,NA\n", Columns(value="b"), "data.csv", "every value of column 'b' is missing"),
        ("a,b\n1,2\n", Columns(value="b", chromosome="c"), "data.csv", "has no column 'c' for the chromosome"),
        (
            "c,b\nchr1,2\n2,2\n1,3\n",
            Columns(value="b", chromosome="c"),
            "line 4",
            "chromosome '1' began in line 2 and appears again after '2'; sort the file",
        ),
        ("c,b\n1,2\n,2\n", Columns(value="b", chromosome="c"), "line 3", "must name a chromosome, got ''"),
        ("p,b\n5,2\n3,2\n", Columns(value="b", position="p"), "line 3", "got 3 after 5; sort the file by position, or"),
        ("p,b\n5,2\n5,2\n", Columns(value="b", position="p"), "line 3", "got 5 after 5; merge the lines of one"),
        ("p,b\n5,2\n.,2\n", Columns(value="b", position="p"), "line 3", "has no position here"),
        ('a,b\n1,"2\n', Columns(value="b"), "line 2", "check the quotes"),
        (b"a,b\n1,2\n\xff\xfe,3\n", Columns(value="b"), "line 3", "not UTF-8 text (byte 0xff); save it as UTF-8"),
        ("a,b\n1,2\n", Columns(value="b", delimiter="tabs"), "a delimiter is one character", "got 'tabs'"),
        ("a,b\n1,2\n", Columns(value="b", gap_unit=2), "", "a gap unit needs a position column"),
        ("a,b\n1,2\n", Columns(value="b", position="a", gap_unit=-2), "", "must be a positive number, got -2"),
    ],
)
def test_read__refuses_with_file_line_and_remedy(write, text, columns, where, what):
    path = write(text, "data.csv")
    with pytest.raises(InvalidInput, match=re.escape(what)) as refusal:
        read_signal(path, columns)
    assert where in str(refusal.value)
    assert str(path) in str(refusal.value) or "line" not in where


def test_read__refuses_files_that_cannot_be_read(tmp_path, write):
    with pytest.raises(InvalidInput, match=r"none\.csv: there is no such file; check the path"):
        read_signal(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match="is a directory"):
        read_signal(tmp_path / "folder.csv")
    with pytest.raises(InvalidInput, match=r"a\.csv\.gz is a damaged gzip file"):
        read_signal(write(gzip.compress(b"value\n1\n")[:-9], "a.csv.gz"))
    with pytest.raises(InvalidInput, match="cannot be read: File name too long"):
        read_signal(tmp_path / f"{'a' * 300}.csv")
    with pytest.raises(InvalidInput, match="is not a NumPy array file"):
        read_signal(write("1\n", "a.npy"))
    np.save(tmp_path / "b.npy", np.array([1.0, np.inf]))
    with pytest.raises(InvalidInput, match=r"b\.npy: y must be finite or NaN, got inf at column 1"):
        read_signal(tmp_path / "b.npy")
    with pytest.raises(InvalidInput, match="an NPY file has no columns to choose"):
        read_signal(tmp_path / "b.npy", Columns(value="y"))


@pytest.mark.parametrize("columns", [ALL, Columns(value="depth")])
def test_save__load_gives_the_same(tmp_path, write, columns):
    signal = read_signal(write(GENOME), columns)
    signal.save(tmp_path / "data.npz")
    again = Signal.load(tmp_path / "data.npz")
    np.testing.assert_array_equal(again.data.y, signal.data.y)
    np.testing.assert_array_equal(again.data.starts, signal.data.starts)
    assert again.chromosome == signal.chromosome
    assert again.gap_unit == signal.gap_unit
    assert (again.value, again.axis) == (signal.value, signal.axis)
    assert (again.data.gaps is None) == (signal.data.gaps is None)


def test_load__refuses_what_is_not_one(write):
    with pytest.raises(StoreError, match=r"data\.npz cannot be read"):
        Signal.load(write("1\n", "data.npz"))


def test_write__reads_back(tmp_path):
    y = np.array([0.1, np.nan, 3.0])
    write_table(tmp_path / "a.csv", ["name", "value"], zip("ab,", y, strict=True))
    assert (tmp_path / "a.csv").read_text() == 'name,value\na,0.1\nb,NA\n",",3\n'
    np.testing.assert_array_equal(read_signal(tmp_path / "a.csv").data.y, y)
    with pytest.raises(InvalidInput, match="cannot be written: No such file or directory"):
        write_table(tmp_path / "nowhere" / "a.csv", ["a"], [])
    with pytest.raises(InvalidInput, match=r"tables are written as \.tsv or \.csv, got the suffix '\.dat'"):
        write_table(tmp_path / "a.dat", ["a"], [])


def test_region__refuses_what_is_not_there(write):
    signal = read_signal(write(GENOME), ALL)
    assert find_region(signal, "2") == (3, 5)
    assert find_region(signal, "chr1:100-1,000") == (1, 3)
    for text, what in {
        "chr3": "there is no chromosome 'chr3'; choose one of 'chr1', '2'",
        "1:300-400": "there is no site in '1:300-400'",
        "1:x": "'x' is not FIRST-LAST, nor one position",
        "3-9": "sites are FIRST-LAST, or one number, within 0-4, got '3-9'",
        "4,9": "there is no chromosome '4,9'; choose one of 'chr1', '2', or sites such as 0-99 or 7-7",
        ",-,": "there is no chromosome ',-,'",
    }.items():
        with pytest.raises(InvalidInput, match=re.escape(what)):
            find_region(signal, text)
    with pytest.raises(InvalidInput, match="this run has no positions"):
        find_region(Signal(data=signal.data, chromosome=signal.chromosome), "1:0-5")
    with pytest.raises(InvalidInput, match="this run has no chromosomes"):
        find_region(Signal(data=Observations([1.0])), "chr1")


def test_region__positions_typed_as_sites_are_told_how_they_are_written():
    many = Observations(np.zeros(30))
    frames = Signal(data=many, position=40000 + 50 * np.arange(30.0), axis="time_ms")
    told = "within 0-29, got '40000-41000'; positions have the name of their column before them: time_ms:40000-41000"
    with pytest.raises(InvalidInput, match=re.escape(told)):
        find_region(frames, "40000-41000")
    assert find_region(frames, "time_ms:40000-41000") == (0, 21)
    for text in ("90000-91000", "41000-40000"):  # not within the positions, or in the wrong order
        with pytest.raises(InvalidInput, match=f"got '{text}'$"):
            find_region(frames, text)
    genome = Signal(
        data=Observations(np.zeros(30), starts=[10]),
        position=np.concatenate([np.arange(10.0), 1000 + np.arange(20.0)]),
        chromosome=("1",) * 10 + ("2",) * 20,
    )
    with pytest.raises(InvalidInput, match=r"the name of their chromosome before them: 2:1003-1005$"):
        find_region(genome, "1003-1005")
    with pytest.raises(InvalidInput, match=r"got '35-40'$"):
        find_region(Signal(data=many), "35-40")


def test_region__dates_of_a_run_without_positions():
    with pytest.raises(
        InvalidInput, match=r"this run has no positions \(time stamps\); .* with --position COLUMN; got"
    ):
        find_region(Signal(data=Observations([1.0])), "2024-05-01")


def test_region__by_the_name_of_the_position():
    signal = Signal(data=Observations([1.0, 2.0, 3.0]), position=np.array([-0.5, 0.0, 0.5]), axis="seconds")
    assert find_region(signal, "seconds:-0.7-0") == (0, 2)
    assert find_region(signal, "1-2") == (1, 3)
    how = "sites, which are whole numbers such as 0-99, or by its seconds, such as seconds:-0.5-0.5; got '0.5-2'"
    with pytest.raises(InvalidInput, match=re.escape(how)):
        find_region(signal, "0.5-2")
    with pytest.raises(InvalidInput, match="there is no site in 'seconds:3-4'; widen it"):
        find_region(signal, "seconds:3-4")
    stamps = Signal(data=signal.data, position=1767226800 + np.array([0.0, 1.5, 3.0]), axis="Time")
    with pytest.raises(InvalidInput, match=re.escape("such as Time:1767226800-1767226803; got")):
        find_region(stamps, "0.5-2")


@pytest.mark.parametrize("position", [0.0, -0.5, 1e-7, 1 / 3, 1767226800.0, 1767226800.123456, 1e22])
def test_position_text__has_all_digits_and_is_what_region_takes(position):
    text = position_text(position)
    assert float(text) == position
    assert "e" not in text
    signal = Signal(data=Observations([1.0]), position=np.array([position]), axis="seconds")
    assert find_region(signal, f"seconds:{text}-{text}") == (0, 1)


def test_region__one_site_or_position():
    """A position is that of the site whose stretch holds it, by the ends of the file or the usual distance."""
    timed = Signal(data=Observations([1.0] * 4), position=np.array([-0.5, 0.0, 0.5, 3.0]), axis="seconds")
    sites = {"seconds:-0.5": 0, "seconds:0.49": 1, "seconds:0.5": 2, "seconds:3.25": 3, "0": 0, " 3 ": 3}
    assert {text: find_region(timed, text) for text in sites} == {text: (t, t + 1) for text, t in sites.items()}
    for text in ("seconds:-0.6", "seconds:2", "seconds:3.6"):
        with pytest.raises(InvalidInput, match=f"there is no site in '{text}'; widen it"):
            find_region(timed, text)
    with pytest.raises(InvalidInput, match="sites are FIRST-LAST, or one number, within 0-3, got '4'"):
        find_region(timed, "4")
    with pytest.raises(InvalidInput, match="give the region as sites, which are whole numbers"):
        find_region(timed, "1.5")


STAMPED = "time,watts\n" + "".join(
    f"2024-05-0{day} {hour:02}:{minute:02},{hour}\n" for day in (1, 2) for hour in range(24) for minute in (0, 30)
)


@pytest.fixture
def stamped(write):
    """Two days, a site every half hour."""
    return read_signal(write(STAMPED, "stamped.csv"), guess=True)


@pytest.mark.parametrize(
    ("text", "sites"),
    [
        ("2024-05-01", (0, 48)),
        ("2024-05-02", (48, 96)),
        ("2024-05-01/2024-05-02", (0, 96)),
        ("2024-05-01T08:00/2024-05-01T09:30", (16, 20)),
        ("2024-05-01 08:00 - 2024-05-01 09:30", (16, 20)),
        ("2024-05-01 08:00 to 2024-05-01 09:30", (16, 20)),
        ("2024-05-01T08:00/09:30", (16, 20)),
        ("2024-05-01T08:00Z/09:30", (16, 20)),
        ("time:2024-05-01T08:00/2024-05-01T09:30", (16, 20)),
        ("2024-05-01T07:31/2024-05-01T09:29:59.5", (16, 19)),
        ("2024-05-01T23:00/2024-05-02", (46, 96)),
        ("2024-05-01T10:00+02:00/2024-05-01T11:30+02:00", (16, 20)),
        ("2024-05-01T08:10", (16, 17)),
        ("time:1714550400-1714555800", (16, 20)),
        ("16-19", (16, 20)),
    ],
)
def test_region__by_date_and_time(stamped, text, sites):
    assert find_region(stamped, text) == sites


def test_region__time_without_a_zone_is_that_of_the_file(write):
    shifted = read_signal(write(re.sub(r"(:\d\d),", r"\1+02:00,", STAMPED), "b.csv"), guess=True)
    assert find_region(shifted, "2024-05-01") == (0, 48)
    assert find_region(shifted, "2024-05-01T08:00/2024-05-01T09:30") == (16, 20)
    assert find_region(shifted, "2024-05-01T06:00Z/2024-05-01T07:30Z") == (16, 20)
    assert shifted.range_text(16, 19) == "2024-05-01T08:00+02:00/09:30"


@pytest.mark.parametrize("zone", ["", "+02:00", "-03:30", "+00:00"])
def test_region__takes_the_ranges_that_are_shown(zone):
    position = 1714550400 + np.cumsum(np.random.default_rng(1).uniform(0.001, 4000, 50)).round(6)
    signal = Signal(data=Observations(np.zeros(50)), position=position, axis="time", zone=zone)
    for first, last in [(0, 49), (3, 3), (7, 20)]:
        assert find_region(signal, signal.range_text(first, last)) == (first, last + 1)


@pytest.mark.parametrize("zone", ["", "+00:00", "-03:30"])
def test_times_column__is_the_text_that_is_shown_in_one_format(zone):
    moments = np.array([1738562400.0, 1738562430.0, -30.0])
    for shift, digits in ((0.0, "seconds"), (0.25, "microseconds")):
        expected = [datetime.fromisoformat(time_text(one, zone)).isoformat(timespec=digits) for one in moments + shift]
        assert times_column(moments + shift, zone) == expected


def test_region__dates_of_a_sequence(write):
    text = "house,time,watts\n" + "".join(f"{house},2024-05-0{day},1\n" for house in "ab" for day in (1, 2, 3))
    signal = read_signal(write(text, "c.csv"), Columns(value="watts", chromosome="house", position="time"))
    assert find_region(signal, "b:2024-05-02/2024-05-03") == (4, 6)
    assert find_region(signal, "a:2024-05-02") == (1, 2)
    assert region_text(signal, 4, 6) == "b:2024-05-02T00:00/2024-05-03T00:00"
    assert find_region(signal, region_text(signal, 4, 6)) == (4, 6)
    how = "give dates with the name of a sequence before them, such as a:2024-05-02, got '2024-05-02'; choose one of"
    with pytest.raises(InvalidInput, match=re.escape(how)):
        find_region(signal, "2024-05-02")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("2024-13-01", "expected dates and times such as 2024-05-01, 2024-05-01T08:00 or 2024-05-01T08:00/2024-05-01T"),
        ("2024-05-01/soon", "got 'soon' in '2024-05-01/soon'; write them in this way"),
        ("2024-05-01T08:00/25:00", "got '25:00' in"),
        ("2024-05-01/2024-05-02/2024-05-03", "got '2024-05-01/2024-05-02/2024-05-03'; write"),
        ("2023-01-01", "no site in '2023-01-01'; widen it: the time stamps are 2024-05-01T00:00/2024-05-02T23:30"),
        ("2024-05", "got '2024-05'; dates and times are written as 2024-05-01T00:00/2024-05-02T23:30"),
        ("noon", "or by its time, such as 2024-05-01T00:00/2024-05-02T23:30; got 'noon'"),
    ],
)
def test_region__refuses_what_is_no_time(stamped, text, what):
    with pytest.raises(InvalidInput, match=re.escape(what)):
        find_region(stamped, text)


def test_region__of_a_run_that_forgot_that_positions_are_times(stamped):
    """Runs of earlier versions: the message has the region that they take."""
    old = replace(stamped, zone=None)
    with pytest.raises(
        InvalidInput, match=r"are numbers, 1714521600-1714692600, got dates: '2024-05-01T08:00/"
    ) as error:
        find_region(old, "2024-05-01T08:00/2024-05-01T09:30")
    assert "delete its data.npz and resume the fit, which reads the file again" in str(error.value)
    (how,) = re.findall(r"if these numbers are seconds since 1970, give (\S+)\. ", str(error.value))
    assert find_region(old, how) == (16, 20)
    with pytest.raises(InvalidInput) as error:
        find_region(old, "2024-05-02")
    (how,) = re.findall(r"give (\S+)\. ", str(error.value))
    assert find_region(old, how) == (48, 96)


def test_signal__keeps_the_time_zone(stamped, tmp_path):
    for zone in ("", "+02:00", None):
        replace(stamped, zone=zone).save(tmp_path / "data.npz")
        assert Signal.load(tmp_path / "data.npz").zone == zone
    replace(stamped, zone="noon").save(tmp_path / "data.npz")
    with pytest.raises(StoreError, match="cannot be read"):
        Signal.load(tmp_path / "data.npz")


def test_region__in_megabases(write):
    text = "".join(f"chr1\t{t}00000\t1\n" for t in range(3, 20)) + "chr2\t300000\t1\n"
    signal = read_signal(write("chrom\tstart\tvalue\n" + text), Columns(chromosome="chrom", position="start"))
    assert find_region(signal, "chr1:0.5-1.2Mb") == find_region(signal, "chr1:500000-1200000") == (2, 10)
    assert find_region(signal, "1:500-1200kb") == (2, 10)
    assert find_region(signal, "2:0.3mb") == (17, 18)
    told = "give the region as 1, 1:300000-1900000 (in Mb with this unit behind it), or sites such as 0-99"
    with pytest.raises(InvalidInput, match=re.escape(told)):
        find_region(signal, "1:from here")
    timed = Signal(data=Observations([1.0, 2.0]), position=np.array([0.0, 1e6]), axis="seconds")
    with pytest.raises(InvalidInput, match="got 'seconds:0-1Mb'"):  # seconds are no bases
        find_region(timed, "seconds:0-1Mb")


def test_region__one_position_of_a_chromosome(write):
    """One number is a chromosome here: it was before a site could be given alone."""
    signal = read_signal(write(GENOME), ALL)
    assert find_region(signal, "chr1:120") == (1, 2)
    assert find_region(signal, "2:0") == find_region(signal, "2:99") == (3, 4)
    assert find_region(signal, "2") == (3, 5)
    assert find_region(signal, "2-2") == (2, 3)
    included = replace(signal, position=signal.position + 1, end=np.array([100.0, 200.0, 350.0, 100.0, 200.0]))
    assert find_region(included, "1:100") == (0, 1)
    assert find_region(included, "1:101") == (1, 2)


def test_read__a_column_that_begins_with_many_missing_values(write):
    """Looked at further down, for the first lines say nothing."""
    lines = [f"{t},NA" for t in range(1, 400)] + ["400,1.5", "401,2.5"]
    y = read_signal(write("time,value\n" + "\n".join(lines) + "\n", "late.csv"), Columns(value="value")).data.y
    assert np.isnan(y[:399]).all()
    np.testing.assert_array_equal(y[399:], [1.5, 2.5])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_read__refuses_more_than_the_limit(write, monkeypatch, pack):
    path = write(pack(b"value\n" + b"1\n" * 5000), "a.csv.gz")
    assert read_signal(path).data.n_columns == 5000
    monkeypatch.setenv("CHIASMA_MAX_BYTES", "10005")
    with pytest.raises(InvalidInput, match=r"10,005 bytes.*--max-bytes"):
        read_signal(path)
    for wrong in ("0", "many", "9" * 5000):
        monkeypatch.setenv("CHIASMA_MAX_BYTES", wrong)
        with pytest.raises(InvalidInput, match="CHIASMA_MAX_BYTES"):
            read_signal(path)


def test_read__refuses_devices():
    with pytest.raises(InvalidInput, match="device"):
        read_signal(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x,value\n,\n1,2\n", [np.nan, 2]),  # a line of delimiters is a row
        ("value\tx\n\t\n1\t2\n", [np.nan, 1]),
        ("value\n1\n\n2\n\n", [1, np.nan, 2]),
        ('name,value\n"a,b",1\n"c ""d""",2\n', [1, 2]),
        ("x,value\n1, NA \n2,nAn\n3,1e5\n", [np.nan, np.nan, 1e5]),  # spellings that pandas does not know
        ("x,value\n1,123456789012345678901234567890\n2,1\n", [123456789012345678901234567890.0, 1]),
        ("x,value\n1,9007199254740993\n2,0.1\n", [9007199254740992.0, 0.1]),
    ],
)
def test_read__cells_as_python_reads_them(write, text, expected):
    np.testing.assert_array_equal(read_signal(write(text, "a.csv"), Columns(value="value")).data.y, expected)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('x,value\n1,2\n"3,4\n5,6\n', 3),  # a quote that is not closed
        ("x,value\n1,2\n3\n4,\n", 3),  # a short line among missing values
        ("x,value\n1,2\n3,4,5\n", 3),
        ("x,value\n1,2\n3,1_000\n", 3),
        ("x,value\n1,True\n3,False\n", 2),
        ("x,value\n1,2\n3,-inf\n", 3),
        ("x,value\n1,2\n\n3,4\0\n", 4),
    ],
)
def test_read__names_the_line(write, text, line):
    with pytest.raises(InvalidInput, match=rf"a\.csv, line {line}: "):
        read_signal(write(text, "a.csv"), Columns(value="value"))
