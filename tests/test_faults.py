"""The command line under faults: signals, hostile names and directories, full disks, leftovers of a demo."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import chiasma as ch
import test_store
from chiasma import cli
from chiasma.cli import app
from chiasma.cli.mistakes import printable
from chiasma.cli.tumour import Job
from chiasma.io.tables import write_table
from chiasma.storage import reading

MODEL = ["--weights", "1,0.5", "--sd", "0.5", "--enter", "0.1"]


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    values = np.random.default_rng(1).normal(1, 0.5, 40).round(3)
    path.write_text("value\n" + "\n".join(map(str, values)) + "\n")
    return path


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and figures take most of the time of a small fit."""
    for module in ("fitting", "report"):
        monkeypatch.setattr(f"chiasma.report.{module}.write_report", lambda *_, **__: None)
    monkeypatch.setattr("chiasma.cli.printing.Voice.report", lambda *_: None)


def fit(data: Path, out: Path, *more: Any) -> Result:
    return call("fit", data, *MODEL, "--out", out, "--seed", 1, "--draws", 12, "--chains", 2, "-q", *more)


# ---- Signals ---------------------------------------------------------------------------------------------------------


def begun(data: Path, out: Path) -> subprocess.Popen[str]:
    """A long fit in a process of its own that has draws of all chains, and writes only every ten seconds."""
    command = ["fit", str(data), *MODEL, "--out", str(out), "--seed", "1", "--draws", "50000000", "--chains", "2"]
    command += ["--update", "row", "--exchange", "none", "--warmup", "10", "--thin", "10"]
    program = "import sys; from chiasma.cli import main; sys.argv = ['chiasma', *sys.argv[1:]]; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (out / "run.zarr").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "again"), [(signal.SIGHUP, 129, signal.SIGTERM), (signal.SIGINT, 130, None)], ids=str
)
def test_signal__keeps_every_draw_and_ends_with_its_code(number, code, again, data, tmp_path, light_pictures):
    process = begun(data, tmp_path / "run")
    process.send_signal(number)
    if again is not None:
        process.send_signal(again)  # some systems send several; the first one counts
    told, errors = process.communicate(timeout=180)
    assert process.returncode == code, errors
    assert told == ""
    assert re.search(r"interrupted: [\d,]+ of 50,000,000 draws per chain are kept; .*--resume", errors)
    assert "Traceback" not in errors
    kept = reading.read_header(tmp_path / "run" / "run.zarr")["committed"]
    assert min(kept) > 100  # far fewer than ten seconds would have written
    assert ch.check_store(tmp_path / "run" / "run.zarr").problems == ()
    if number == signal.SIGINT:
        assert call("show", tmp_path / "run", "-q").exit_code == 0


@pytest.mark.slow
def test_signal__a_second_interrupt_ends_at_once():
    """Even where Python cannot run a handler: a kernel that takes hours is running."""
    program = (
        "import numba, threading\n"
        "from chiasma.cli.signals import listen\n"
        "@numba.njit(nogil=True)\n"
        "def spin(n):\n"
        "    total = 0.0\n"
        "    for i in range(n):\n"
        "        total += 1.0 / (i + 1.0)\n"
        "    return total\n"
        "spin(1)\n"
        "listen()\n"
        "threading.Timer(0.5, print, ('spinning',), {'flush': True}).start()\n"
        "spin(2**42)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "spinning\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("cli.app = lambda: os.kill(os.getpid(), signal.SIGTERM); main()", 143),
        ("cli.listen = lambda: signal.raise_signal(signal.SIGINT); main()", 130),
        ("cli.app = lambda: (cli.signals._received.append(15), sys.exit(130)); main()", 143),
        ("cli.app = print; main(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -15),
    ],
    ids=["beginning", "importing", "reading words", "ended"],
)
def test_signal__before_and_after_a_command_is_no_traceback(body, code):
    program = f"import os, signal, sys, time; from chiasma import cli; from chiasma.__main__ import main; {body}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (code, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("word", ["--version", "--help"])
def test_main__into_a_full_disk_is_no_traceback(word):
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "chiasma", word], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.stderr == "error: No space left on device\n"
    assert ended.returncode == 2


def test_signal__that_is_ignored_stays_ignored():
    """As under nohup."""
    program = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from chiasma.cli.signals import listen; listen()\n"
        "assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN\n"
        "assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_IGN, signal.SIG_DFL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- Leftovers -------------------------------------------------------------------------------------------------------


def solved(samples: Any, job: Job) -> list[Any]:
    """An answer in no time, in place of that of `chiasma tumour`."""
    job.out.mkdir(exist_ok=True)
    (job.out / "solutions.tsv").write_text("rank")
    states = SimpleNamespace(totals=np.array([2]))
    best = SimpleNamespace(
        parameters=SimpleNamespace(clone_fractions=[0.4, 0.6]), states=states, main=np.ones((300, 1))
    )
    answer = SimpleNamespace(solutions=[SimpleNamespace(best=best, purity=0.6, ploidy=2.0)])
    return [SimpleNamespace(answers=[answer])]


def test_demo__never_touches_files_that_it_did_not_make(tmp_path, monkeypatch):
    """A file of its own name, and a directory of the name of its answer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tumour.bb").write_text("mine")
    (tmp_path / "answer").mkdir()
    (tmp_path / "answer" / "solutions.tsv").write_text("mine")
    before = test_store.files(tmp_path)
    done = call("demo", "--out", ".", "--sites", 300)
    assert done.exit_code == 2
    assert "holds no earlier demo; choose another --out" in done.output
    assert test_store.files(tmp_path) == before


def test_demo__replaces_its_own_and_refuses_what_was_added(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["chiasma.cli.demo"], "solve_patients", solved)
    out = tmp_path / "demo"
    for _ in range(2):
        assert call("demo", "--out", out, "--sites", 300).exit_code == 0
    (out / "answer" / "notes.txt").write_text("mine")
    before = test_store.files(out)
    done = call("demo", "--out", out, "--sites", 300)
    assert done.exit_code == 2
    assert "notes.txt; move it away, or choose another --out" in done.output.replace("\n", " ")
    assert test_store.files(out) == before


def test_demo__that_was_killed_begins_anew(tmp_path, monkeypatch):
    out = tmp_path / "demo"

    def killed(samples: Any, job: Job) -> None:
        solved(samples, job)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["chiasma.cli.demo"], "solve_patients", killed)
    assert call("demo", "--out", out, "--sites", 300).exit_code == 130
    monkeypatch.setattr(sys.modules["chiasma.cli.demo"], "solve_patients", solved)
    assert call("demo", "--out", out, "--sites", 300).exit_code == 0


def test_resume__of_a_run_that_was_killed_while_it_was_extended(data, tmp_path, monkeypatch, no_report):
    """Its settings still ask for fewer draws than it has."""
    out = tmp_path / "run"
    assert fit(data, out).exit_code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chiasma.report.run_directory.RunDirectory.keep_settings", None)
        assert isinstance(fit(data, out, "--resume", "--draws", 20).exception, TypeError)
    done = call("fit", data, "--out", out, "--resume", "-q")
    assert done.exit_code == 0, done.output
    assert ch.open_posterior(out / "run.zarr").draws.sizes["draw"] == 20


@pytest.mark.parametrize("left", ["nothing", "partial", "lock", "settings", "settings and data"])
def test_fit__goes_on_from_whatever_a_kill_left_before_there_were_draws(left, data, tmp_path, no_report):
    out = tmp_path / "run"
    assert fit(data, tmp_path / "whole").exit_code == 0
    out.mkdir()
    if left == "partial":
        for name in ("settings.toml", "data.npz", "run.zarr"):
            (out / f"{name}.{'0' * 32}.partial").write_text("torn")
    elif left == "lock":
        (out / "run.zarr.lock").write_text('{"process": 4194305, "host": "here", "since": "now"}')
    elif left.startswith("settings"):
        names = ["settings.toml", "data.npz"] if left.endswith("data") else ["settings.toml"]
        for name in names:
            (out / name).write_bytes((tmp_path / "whole" / name).read_bytes())
    done = fit(data, out, *(["--resume"] if left.startswith("settings") else []))
    assert done.exit_code == 0, done.output
    assert call("show", out, "-q").exit_code == 0
    assert call("show", out, "--check").exit_code == 0
    assert not list(out.rglob("*.partial"))
    expected = ch.open_posterior(tmp_path / "whole" / "run.zarr")
    np.testing.assert_array_equal(ch.open_posterior(out / "run.zarr").draws, expected.draws)


def test_fit__overwrites_no_settings_of_the_user(data, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "settings.toml").write_text("[sampler]\ndraws = 5\n")
    before = test_store.files(out)
    done = fit(data, out)
    assert done.exit_code == 2
    assert "exists already" in done.output
    assert test_store.files(out) == before


# ---- Damage ----------------------------------------------------------------------------------------------------------


def test_show__checks_a_run(data, tmp_path, no_report):
    out = tmp_path / "run"
    assert fit(data, out).exit_code == 0
    done = call("show", out, "--check")
    assert done.exit_code == 0
    assert "run.zarr is sound: " in done.output
    assert "12 of 12 draws per chain are stored: complete" in done.output.replace("\n", " ")
    chunk = next((out / "run.zarr" / "codes").glob("c.0.*"))
    content = bytearray(chunk.read_bytes())
    content[-6] ^= 1
    chunk.write_bytes(bytes(content))
    done = call("show", out, "--check")
    assert done.exit_code == 2
    assert "restore the file from a backup" in done.output.replace("\n", " ")


@pytest.mark.parametrize("how", ["empty", "half", "flipped", "other data", "not an archive"])
def test_show__names_damaged_data(how, data, tmp_path, no_report):
    out = tmp_path / "run"
    assert fit(data, out).exit_code == 0
    file = out / "data.npz"
    content = bytearray(file.read_bytes())
    if how == "other data":
        np.savez(file, y=np.zeros(40), starts=np.zeros(1, int))
    else:
        content[len(content) // 2] ^= 1
        written = {"empty": b"", "half": content[: len(content) // 2], "flipped": content, "not an archive": b"PK"}
        file.write_bytes(bytes(written[how]))
    done = call("show", out)
    assert done.exit_code == 2, done.output
    assert "data.npz" in done.output
    assert "restore it from a backup" in done.output.replace("\n", " ")


def test_show__names_settings_that_were_changed_or_are_missing(data, tmp_path, no_report):
    """Before, the report of a run printed whatever settings.toml said by then."""
    out = tmp_path / "run"
    assert fit(data, out).exit_code == 0
    settings = (out / "settings.toml").read_text()
    assert call("show", out).exit_code == 0
    for old, new, what in (("sd = 0.5", "sd = 0.25", "model.parameters.sd"), ("seed = 1", "seed = 2", "seed is 1")):
        assert old in settings
        (out / "settings.toml").write_text(settings.replace(old, new))
        for options in ((), ("--check",)):
            done = call("show", out, *options)
            assert done.exit_code == 2
            assert what in done.output
    (out / "settings.toml").unlink()
    assert "settings.toml is missing" in fit(data, out, "--resume").output


# ---- Hostile names and places ----------------------------------------------------------------------------------------


ESCAPE = "\x1b]0;title\x07"
NAMES = ["[/bold]", "[red]x", "../../x", "<script>", "$\\frac$", "=1+1", "%s{0}", "a\\b"]


def test_names__from_a_data_file_are_only_names(tmp_path, light_pictures):
    """As chromosomes: no markup, no escape sequence, no path, no formula."""
    path, out = tmp_path / "data.tsv", tmp_path / "run"
    y = np.random.default_rng(2).normal(0.7, 0.9, (len(NAMES), 8))
    rows = [f"{name}\t{i}\t{y[n, i]:.2f}" for n, name in enumerate(NAMES) for i in range(8)]
    path.write_text("chromosome\tposition\tvalue\n" + "\n".join(rows) + "\n")
    columns = ["--value", "value", "--chromosome", "chromosome", "--position", "position"]
    outputs = [call("fit", path, *MODEL, *columns, "--out", out, "--seed", 1, "--draws", 5, "--chains", 2)]
    outputs += [call("show", out, "--region", name) for name in NAMES[:4]]
    for done in outputs:
        assert done.exit_code == 0, done.output
    outputs.append(call("show", out, "--region", f"{ESCAPE}:zz"))
    path.write_text(f"chromosome\tvalue\n{ESCAPE}\t1\n")
    outputs.append(call("fit", path, *MODEL, "--chromosome", "chromosome", "--out", tmp_path / "other"))
    assert [done.exit_code for done in outputs[-2:]] == [2, 2]
    assert "control characters" in outputs[-1].output
    assert not any(one in done.output for one in "\x1b\x07" for done in outputs)
    assert not (tmp_path / "x").exists()
    tables = [file.read_text().splitlines() for file in out.glob("*.tsv")]
    assert len(tables) > 2
    assert not any(cell.startswith("=") for table in tables for line in table for cell in line.split("\t"))


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["cohort", "--help"], ["show", "r\u00e4ume"]])
def test_main__prints_in_any_locale(words, monkeypatch):
    """Before, LC_ALL=C on a narrow terminal ended in a UnicodeEncodeError."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys, "argv", ["chiasma", *words])
    monkeypatch.setattr(cli, "listen", lambda: None)
    streams = [TextIOWrapper(BytesIO(), encoding="ascii") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    with pytest.raises(SystemExit):
        cli.main()
    assert sum(stream.buffer.tell() for stream in streams)


def test_printable__spells_out_control_characters():
    assert printable("a\x1b[31mb\x00c\nd ü") == "a\\x1b[31mb\\x00c\nd ü"


def test_tables__quote_what_a_spreadsheet_would_run(tmp_path):
    rows = [["=1+1", -1.5], ["+x", "-2.5e-03"], ["-cmd", 3], ["@sum", "NA"], ["chr1", "010"]]
    write_table(tmp_path / "table.csv", ["=name", "value"], rows)
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines == ["'=name,value", "'=1+1,-1.5", "'+x,-2.5e-03", "'-cmd,3", "'@sum,NA", "chr1,010"]


@pytest.mark.parametrize("name", ["figures", "run.zarr"])
def test_links__inside_a_run_lead_nowhere(name, data, tmp_path, light_pictures):
    out = tmp_path / "run"
    assert fit(data, out).exit_code == 0
    (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    before = test_store.files(tmp_path / "elsewhere")
    for done in (call("show", out), fit(data, out, "--resume", "--draws", 20)):
        assert done.exit_code == 2
        assert "is a symbolic link" in done.output.replace("\n", " ")
    assert test_store.files(tmp_path / "elsewhere") == before


def test_links__in_place_of_tables_are_replaced(data, tmp_path, light_pictures):
    out = tmp_path / "run"
    assert fit(data, out).exit_code == 0
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("states.tsv", "states.tsv.partial", "summary.json", "figures/level.png"):
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(victim)
    assert call("show", out, "-q").exit_code == 0
    assert victim.read_text() == "mine"
    assert not (out / "states.tsv").is_symlink()


def test_fit__in_a_place_with_an_odd_name(data, tmp_path, no_report):
    out = tmp_path / "a b'c" / "ü–[x] $HOME"
    assert fit(data, out).exit_code == 0
    assert call("show", out, "-q").exit_code == 0
    assert call("show", out, "--check").exit_code == 0


# ---- Full disks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["table", "summary", "figure"])
def test_full_disk__while_the_report_is_written(what, data, tmp_path, monkeypatch, light_pictures):
    out = tmp_path / "run"
    assert fit(data, out).exit_code == 0
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*_: Any, **__: Any) -> None:
        raise full

    names = {
        "table": "csv.writer",
        "summary": "chiasma.atomic.write_text",
        "figure": "matplotlib.figure.Figure.savefig",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names[what], fail)
        done = call("show", out)
    assert done.exit_code == 2, done.output
    assert "No space left on device; " in done.output.replace("\n", " ")
    assert not list(out.rglob("*.partial"))
    assert call("show", out, "-q").exit_code == 0
