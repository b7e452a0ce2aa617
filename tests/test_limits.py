"""What cannot be done is refused before work begins: absurd numbers in arguments, settings and options."""

import gzip
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import chiasma as ch
from chiasma import limits
from chiasma.cli import app
from chiasma.io import sheets
from chiasma.io.regions import find_region
from chiasma.io.settings import Settings
from chiasma.io.signal import Signal
from chiasma.limits import is_whole
from chiasma.report.page import UNKNOWN, digest_of
from chiasma.tumour.formats import read_bins
from chiasma.tumour.noise import reference

MODEL = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
LEARNED = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=ch.HalfNormal(1.0)))
Y = [0.1, 2.9, 3.2]


def rows_of(copies, n=1):
    rows = [ch.Row([0, 1], ch.Switch(0.1, 0.1), copies=copies) for _ in range(n)]
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=1.0))


CALLS = {
    "copies of a row": lambda n: rows_of(n),
    "columns to simulate": lambda n: MODEL.simulate(n),
    "exact draws": lambda n: ch.exact.draws(MODEL, Y, n=n),
    "draws": lambda n: ch.sample(MODEL, Y, draws=n, progress=False),
    "chains": lambda n: ch.sample(MODEL, Y, draws=1, chains=n, progress=False),
    "rungs": lambda n: ch.Ladder.geometric(size=n, hottest=10.0),
    "starts": lambda n: ch.optimise(LEARNED, Y, starts=n, progress=False),
    "starts of an update": lambda n: ch.Collapsed(starts=n),
    "harmonics": lambda n: ch.Periodic(50.0, harmonics=n),
}


@pytest.mark.parametrize("n", [10**9, 10**15, 2**62, 10**30])
@pytest.mark.parametrize("what", CALLS)
def test_call__refuses_what_no_machine_can_do(what, n, monkeypatch):
    """Before: hours of work, or a MemoryError of NumPy's. The machine of the test has little memory."""
    monkeypatch.setattr(limits, "machine_memory", lambda: 2**30)
    if what == "draws" and n == 10**9:
        pytest.skip("may fit into memory")
    with pytest.raises(ch.ChiasmaError):
        CALLS[what](n)


def test_whole_numbers__of_thousands_of_digits_are_none():
    """Python refuses to convert them, wherever a file or an option has one."""
    assert [is_whole(text) for text in ("0", "12", "1" * 18)] == [True] * 3
    assert [is_whole(text) for text in ("", "-1", "1.5", "\u0663", "1" * 5000)] == [False] * 5
    with pytest.raises(ch.InvalidInput, match="region"):
        find_region(Signal(data=ch.Observations([1.0, 2.0])), "1" * 5000)


@pytest.mark.parametrize(
    "wrong", [{"workers": -3}, {"workers": 0}, {"retries": -1}, {"seed": "a"}, {"draws": -4}, {"sheet": None}], ids=str
)
def test_cohort__refuses_numbers_before_anything_is_written(wrong, tmp_path):
    """Before, it waited for ever for -3 workers."""
    (tmp_path / "a.csv").write_text("value\n1\n2\n")
    sheet = [{"sample": "a", "path": str(tmp_path / "a.csv")}]
    with pytest.raises(ch.InvalidInput, match=next(iter(wrong))):
        ch.cohort(**{"sheet": sheet, "out": tmp_path / "out", "model": MODEL} | wrong)
    assert not (tmp_path / "out").exists()


def test_rows__are_counted_before_they_are_made(monkeypatch):
    """Twenty thousand rows took half a minute to be refused; a bound on the time would be a timed test."""
    names = []
    monkeypatch.setattr("chiasma.models.rows.Rows._keys", lambda self: names.append(self.names))
    for given in (lambda: rows_of(20_000), lambda: rows_of(1, 20_000)):
        with pytest.raises(ch.InvalidInput, match="20000 rows need 20000"):
            given()
    assert names == []


TOML = {
    "a text for weights": 'weights = "a"',
    "weights whose sum is no number": "weights = [1e308, 1e308]",
    "texts for weights": 'weights = ["a", "b"]',
    "an integer of 5000 digits": f"weights = [{'1' * 5000}]",
    "a row of 5000 digits": f"weights = [1, 2]\nfixed = {{{'1' * 5000} = 1}}",
    "row 10^9": "weights = [1, 2]\nfixed = {1000000000 = 1}",
    "a text of 5000 digits": f'weights = [1, 2]\nsd = "{"1" * 5000}"',
}


@pytest.mark.parametrize("what", TOML)
def test_settings__refuse_what_makes_no_sense(what, tmp_path):
    path = tmp_path / "model.toml"
    path.write_text(f"[model]\nenter = 0.1\nleave = 0.1\n{TOML[what]}\n")
    with pytest.raises(ch.InvalidInput):
        Settings.read(path).model()


def test_settings__of_a_billion_rows_are_refused(tmp_path):
    path = tmp_path / "model.toml"
    table = "values = [0, 1]\nswitch = {enter = 0.1, leave = 0.1}\ncopies = 1000000000\n"
    path.write_text(f"[model]\nsd = 1\n[[row]]\n{table}")
    with pytest.raises(ch.InvalidInput, match="63 bits"):
        Settings.read(path).model()


def test_settings__of_a_windows_editor_are_read_and_long_keys_refused(tmp_path):
    """Before, a byte order mark was an invalid statement, and 100 KB of dots took minutes."""
    path = tmp_path / "model.toml"
    path.write_bytes(b"\xef\xbb\xbf[model]\r\nsd = 2.0\r\n")
    assert Settings.read(path).sections["model"] == {"sd": 2.0}
    path.write_text("[model]\na" + 50_000 * ".a" + " = 1\n")
    with pytest.raises(ch.InvalidInput, match="parts"):
        Settings.read(path)


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "OUT", "--sites", 10**15],
        ["simulate", "OUT", "--tumour", "--sites", 10**15],
        ["simulate", "OUT", "--tumour", "--samples", 10**15],
        ["fit", "DATA", "--weights", "1,2", "--sd", 1, "--chains", 10**15],
        ["fit", "DATA", "--weights", "1,2", "--sd", "1" * 5000],
        ["fit", "DATA", "--weights", "1,2", "--sd", 1, "--draws", "1" * 5000],
        ["fit", "DATA", "--weights", "1,2", "--fixed-row", f"{'1' * 5000}=1"],
        ["fit", "DATA", "--weights", "1,2", "--value", "1" * 5000],
        ["channels", "DATA", "--rate", 1, "--column", "1" * 5000],
        ["channels", "DATA", "--rate", 1, "--knots", 10**9],
        ["simulate", ""],
    ],
)
def test_command__refuses_what_no_machine_can_do(words, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("value\n" + "\n".join(map(str, np.arange(20) % 3)) + "\n")
    places = {"OUT": tmp_path / "out.tsv", "DATA": data}
    result = CliRunner().invoke(app, [str(places.get(word, word)) for word in words])
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("depth", [0.0, 1.0, 1e300, 1e-300])
def test_tumour__of_depths_without_any_difference_is_refused(depth, tmp_path):
    """Before, ZeroDivisionError."""
    path = tmp_path / "tumour.tsv"
    lines = [f"chr1\t{i}000\t{i + 1}000\t{depth}" for i in range(60)]
    path.write_text("\n".join(["chromosome\tstart\tend\tdepth", *lines, ""]))
    with pytest.raises(ch.InvalidInput, match="do not show copies"):
        reference(read_bins(path)[0])
    path.write_text("\n".join(["chromosome\tstart\tend\tdepth", f"chr1\t{10**40}\t{10**41}\t1", ""]))
    with pytest.raises(ch.InvalidInput, match="line 2"):
        read_bins(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_files__that_nobody_writes_or_that_never_end_are_refused(tmp_path, monkeypatch):
    """Before, a pipe without a writer and a model from /dev/zero were read for ever."""
    monkeypatch.setattr(sheets, "NO_WRITER", 0.05)
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bins, Settings.read, sheets.read_lines):
        for path in (tmp_path / "pipe", Path("/dev/zero")):
            with pytest.raises(ch.InvalidInput):
                read(path)
    assert digest_of(tmp_path / "pipe") == UNKNOWN  # a fit asked for it once the data were read, and waited
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ch.InvalidInput, match="more than"):
        Settings.read(tmp_path / "sparse")


@pytest.mark.parametrize("command", ["tumour", "channels"])
def test_out__that_cannot_be_written_is_refused_before_the_data_are_read(command, tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "data.csv").write_text("not read\n")
    for out in (tmp_path / "dangling", tmp_path / "data.csv" / "out", tmp_path / "data.csv"):
        result = CliRunner().invoke(app, [command, str(tmp_path / "data.csv"), "--out", str(out)])
        assert result.exit_code == 2
        assert "cannot write to" in result.stderr


def test_tables__end_lines_at_line_feeds_only(tmp_path):
    """Before, a form feed or U+2028 made two lines, and so two columns of the signal, of one."""
    path = tmp_path / "data.csv"
    path.write_bytes("value\n1\r\n2\r3\u2028\n\x0c4\n5\x1c6".encode())
    assert sheets.read_lines(path) == ["value", "1", "2", "3\u2028", "\x0c4", "5\x1c6"]
    with pytest.raises(ch.InvalidInput, match="line 6: column 'value' must hold numbers"):
        sheets.read_sheet(path).numbers(0)


def test_tables__of_a_million_columns_or_packed_twice_are_refused(tmp_path):
    """Before, the first took minutes, and the second was called no UTF-8."""
    path = tmp_path / "data.csv"
    path.write_text("value" + ",1" * 10**6 + "\n" + "1" + ",1" * 10**6 + "\n")
    with pytest.raises(ch.InvalidInput, match="line 1: a table has at most 20,000 columns, got 1,000,001"):
        sheets.read_sheet(path)
    path.write_bytes(gzip.compress(gzip.compress(b"value\n1\n2\n")))
    with pytest.raises(ch.InvalidInput, match="twice"):
        sheets.read_sheet(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_files__pipes_are_read_to_their_end(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write():
        with path.open("wb", buffering=0) as file:
            for part in (b"val", b"ue\n1\n", b"2\n"):
                file.write(part)
                time.sleep(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    assert sheets.read_lines(path) == ["value", "1", "2"]
    writer.join()


def test_files__a_circle_of_links_or_an_odd_home_is_no_traceback(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    data = tmp_path / "data.csv"
    data.write_text("value\n1\n2\n")
    (tmp_path / "sheet.csv").write_text("sample,path\na,~nobody-has-this-name.csv\n")
    for words in (
        ["--plugin", tmp_path / "circle", "fit", data],
        ["cohort", "init", data, "--out", tmp_path / "circle"],
        ["cohort", "merge", tmp_path / "circle"],
        ["cohort", "init", tmp_path / "sheet.csv", "--out", tmp_path / "out"],
    ):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert isinstance(result.exception, SystemExit), words
