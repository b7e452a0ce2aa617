"""A campaign of faults against runs on disk: kills, power cuts, damage, full disks, two writers, signals, bad files.

After every fault the run must be there: each committed draw, or a message that names the file and the remedy. Counted
are faults tried, runs that went on bit for bit, draws lost, wrong answers without notice, and tracebacks.

`python verification/faults.py PATH KIND RESUME` is a run in a separate process, which notes every commit beside it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import chiasma as ch
from chiasma.errors import ChiasmaError, StoreError
from chiasma.storage import reading, store
from chiasma.storage.reading import read_npy, read_npz

if TYPE_CHECKING:
    from run import Report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

N_KILLS = 40
N_FLIPS = 500
N_PAIRS = 20
N_SIGNALS = 12
N_SITES = 400
DRAWS = 2_000
# A campaign in the background, or under nohup, passes on that SIGINT or SIGHUP is ignored, and chiasma keeps to it.
LISTENING = (
    "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
)
PROGRAM = "import sys; from chiasma.cli import main; sys.argv = ['chiasma', *sys.argv[1:]]; main()"
KINDS: dict[str, dict[str, Any]] = {
    "exact": {"update": "exact"},
    "ladder": {"update": "row", "exchange": "mosaic", "ladder": ch.Ladder.adapted(size=4), "warmup": 60},
}


def problem() -> tuple[ch.FactorialHMM, ch.Observations]:
    model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.03), emission=ch.Gaussian([1.0, 0.6, 0.4], sd=0.6))
    return model, ch.Observations(model.simulate(N_SITES, seed=1)[1], starts=[150])


def sample(path: Path | None, kind: str = "exact", **more: Any) -> ch.Posterior:
    common = {"draws": DRAWS, "chains": 2, "workers": 2, "seed": 1, "progress": False}
    return ch.sample(*problem(), store=path, **common | KINDS[kind] | more)


class Tally:
    """Outcomes of one kind of fault."""

    def __init__(self, name: str):
        self.name = name
        self.tried = self.whole = self.refused = self.lost = self.silent = self.tracebacks = self.hangs = 0

    def row(self) -> list[str]:
        counts = (self.tried, self.whole, self.refused, self.lost, self.silent, self.tracebacks, self.hangs)
        return [self.name, *(f"{n:,}" for n in counts)]


_WHOLE: dict[str, ch.Posterior] = {}


def expected(kind: str) -> ch.Posterior:
    if kind not in _WHOLE:
        _WHOLE[kind] = sample(None, kind)
    return _WHOLE[kind]


def is_prefix(found: ch.Posterior, whole: ch.Posterior) -> bool:
    n = found.draws.sizes["draw"]
    names = ("draws", "log_joint", "replica_log_likelihood")
    return all(np.array_equal(getattr(found, name).values, getattr(whole, name).values[:, :n]) for name in names)


def judge(tally: Tally, path: Path, noted: list[int], kind: str) -> None:
    """Open, compare, resume, compare."""
    tally.tried += 1
    try:
        committed = reading.read_header(path)["committed"] if path.exists() else [0, 0]
        tally.lost += sum(max(0, n - m) for n, m in zip(noted, committed, strict=True))
        if min(committed) and not is_prefix(ch.open_posterior(path), expected(kind)):
            tally.silent += 1
        resumed = sample(path, kind, resume=True)
        same = is_prefix(resumed, expected(kind)) and resumed.draws.sizes["draw"] == DRAWS
        tally.whole += same
        tally.silent += not same
    except ChiasmaError:
        tally.refused += 1
    except Exception:
        tally.tracebacks += 1


def fork(work: Callable[[], None]) -> int:
    """Do something in a child process, which ends with it; returns its number."""
    child = os.fork()
    if child:
        return child
    code = 0
    try:
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            work()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except Exception:
        code = 1
        traceback.print_exc()
    finally:
        os._exit(code)


def end(child: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):  # it ended before
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def commits(path: Path) -> list[int]:
    log = Path(f"{path}.log")
    lines = log.read_text().splitlines() if log.exists() else []
    return list(json.loads(lines[-1])) if lines else [0, 0]


def to_be_hit(path: Path, kind: str, resume: bool) -> None:
    """A run that commits after every piece, and notes each commit."""
    sample(None, kind, draws=2)  # loads compiled code
    store.FLUSH_SECONDS = -1.0
    commit = store.ZarrTrace._commit
    log = os.open(f"{path}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def noted(trace: store.ZarrTrace) -> None:
        commit(trace)
        if trace.path == path:
            os.write(log, f"{json.dumps(trace.header['committed'])}\n".encode())

    store.ZarrTrace._commit = noted  # type: ignore[method-assign]
    print("sampling", flush=True)
    sample(path, kind, resume=resume)


def begin(path: Path, kind: str, resume: bool = False) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, str(path), kind, str(int(resume))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def kills(folder: Path, rng: np.random.Generator) -> Tally:
    """SIGKILL at random instants of a run, and again of the run that resumes it."""
    tally = Tally("SIGKILL of a run and of its resumption")
    for kind in KINDS:
        process = begin(folder / f"{kind}-whole", kind)
        began = time.perf_counter()
        process.communicate()
        lasted = time.perf_counter() - began
        for n in range(N_KILLS // 2):
            path = folder / f"{kind}-{n}"
            for resume in (False, True):
                process = begin(path, kind, resume)
                time.sleep(float(rng.random()) * lasted)
                process.kill()
                process.communicate()
            judge(tally, path, commits(path), kind)
    return tally


def report_kills(folder: Path, rng: np.random.Generator) -> Tally:
    """SIGKILL of `chiasma fit` anywhere, tables and figures included; the same command ends what it began."""
    tally = Tally("SIGKILL of chiasma fit, its report included")
    data = folder / "data.csv"
    data.write_text("value\n" + "\n".join(map(repr, problem()[1].y.tolist())) + "\n")
    command = ["fit", str(data), "--weights", "1,0.6,0.4", "--sd", "0.6", "--enter", "0.02", "--seed", "1"]
    command += ["--draws", "300", "--chains", "2", "-q", "--out"]

    def fit(out: Path, *more: str, after: float | None = None) -> tuple[int, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command, str(out), *more], stderr=subprocess.PIPE, text=True
        )
        try:
            _, errors = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
        return process.returncode, errors

    began = time.perf_counter()
    fit(folder / "whole")
    lasted = time.perf_counter() - began
    whole = ch.open_posterior(folder / "whole" / "run.zarr").draws.values
    for n in range(N_KILLS // 2):
        out = folder / f"fit-{n}"
        fit(out, after=(0.3 + 0.7 * float(rng.random())) * lasted)
        tally.tried += 1
        code, errors = fit(out, "--resume") if (out / "settings.toml").exists() else fit(out)
        tally.tracebacks += "Traceback" in errors
        if code == 0 and np.array_equal(ch.open_posterior(out / "run.zarr").draws.values, whole):
            tally.whole += 1
        elif code == 2:
            tally.refused += 1
        else:
            tally.silent += 1
    return tally


def power_cuts(folder: Path, rng: np.random.Generator) -> Tally:
    """Every operation of a run, stopped and resumed, is followed by a power cut of three kinds."""
    import test_store
    from power_cut import CUTS, Recorder

    tally = Tally("power cut after every operation, by replay")
    for kind in ("exact", "compiled", "steps"):
        for name in ("disk", "keep"):
            (folder / kind / name).mkdir(parents=True)
        recorder = Recorder(folder / kind / "disk", folder / kind / "keep")
        commit = store.ZarrTrace._commit

        def noted(trace: store.ZarrTrace, commit: Callable[..., None] = commit, recorder: Recorder = recorder) -> None:
            commit(trace)
            if not trace.path.name.endswith(".partial"):
                recorder.note = list(trace.header["committed"])

        store.ZarrTrace._commit = noted  # type: ignore[method-assign]
        with recorder.recording():
            test_store.run(kind, recorder.root / "run", draws=9)
            test_store.run(kind, recorder.root / "run", resume=True)
        store.ZarrTrace._commit = commit  # type: ignore[method-assign]
        whole = test_store.whole(kind)
        for number, moment in enumerate(recorder.moments):
            for cut in CUTS:
                path = folder / kind / f"{number}-{cut}" / "run"
                recorder.replay(moment, cut, path.parent)
                tally.tried += 1
                try:
                    found = reading.read_header(path)["committed"] if path.exists() else [0, 0]
                    tally.lost += sum(max(0, m - n) for n, m in zip(found, moment.note or [0, 0], strict=True))
                    if min(found):
                        tally.silent += not is_prefix(ch.open_posterior(path), whole)
                    if number % 5 == 0:
                        tally.silent += not is_prefix(test_store.run(kind, path, resume=True), whole)
                    tally.whole += 1
                except ChiasmaError:
                    tally.refused += 1
                except Exception:
                    tally.tracebacks += 1
                shutil.rmtree(path.parent)
    return tally


def flips(folder: Path, rng: np.random.Generator) -> Tally:
    """One bit of one file; everything is read again."""
    import test_integrity

    tally = Tally("one flipped bit")
    path = folder / "run"
    sample(path, "ladder")
    whole = test_integrity.everything(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    # Large and small files alike, for most of the bits are in the draws.
    for _ in range(N_FLIPS):
        file = files[rng.integers(len(files))]
        kept = file.read_bytes()
        content = bytearray(kept)
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(content))
        tally.tried += 1
        try:
            same = test_integrity.same(test_integrity.everything(path), whole)
            tally.whole += same
            tally.silent += not same
        except StoreError:
            tally.refused += 1
        except Exception:
            tally.tracebacks += 1
        file.write_bytes(kept)
    return tally


@contextmanager
def full_after(room: int) -> Iterator[None]:
    """A disk with room for some more writes or syncs."""
    write, sync, left = Path.write_bytes, os.fsync, [room]

    def spend() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_bytes(path: Path, content: Any) -> int:
        if left[0] <= 0:
            write(path, bytes(content)[: len(content) // 2])
        spend()
        return write(path, content)

    def fsync(handle: int) -> None:
        spend()
        sync(handle)

    Path.write_bytes, os.fsync = write_bytes, fsync  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Path.write_bytes, os.fsync = write, sync  # type: ignore[method-assign]


def full_disks(folder: Path, rng: np.random.Generator) -> Tally:
    """The disk is full at the n-th write or sync, for every n."""
    import test_store

    tally = Tally("disk full at every write and every sync")
    whole = test_store.whole("exact")
    for room in range(10_000):
        path = folder / str(room)
        with full_after(room):
            try:
                test_store.run("exact", path)
                break
            except Exception as error:
                tally.tracebacks += not (isinstance(error, StoreError) and "No space left" in str(error))
        tally.tried += 1
        try:
            resumed = test_store.run("exact", path, resume=True)
            tally.whole += is_prefix(resumed, whole) and resumed.draws.shape == whole.draws.shape
        except ChiasmaError:
            tally.refused += 1
    return tally


def two_writers(folder: Path, rng: np.random.Generator) -> Tally:
    """Two processes at one store, the first stopped for a while and continued; then both are killed."""
    tally = Tally("two writers, one stopped and continued, then killed")
    for n in range(N_PAIRS):
        path = folder / f"run-{n}"
        sample(path, "exact", draws=100)
        first, second = begin(path, "exact", resume=True), begin(path, "exact", resume=True)
        time.sleep(0.3 * float(rng.random()))
        first.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        first.send_signal(signal.SIGCONT)
        time.sleep(0.5 * float(rng.random()))
        for process in (first, second):
            process.kill()
            _, errors = process.communicate()
            # The one that was refused says so, in its last line.
            tally.tracebacks += "Traceback" in errors and "StoreError" not in errors
        judge(tally, path, commits(path), "exact")
    return tally


def signals(folder: Path, rng: np.random.Generator) -> Tally:
    """SIGTERM, SIGHUP and SIGINT: everything drawn is kept, the code says which it was."""
    tally = Tally("SIGTERM, SIGHUP, SIGINT of chiasma fit")
    data = folder / "data.csv"
    data.write_text("value\n" + "\n".join(map(repr, problem()[1].y.tolist())) + "\n")
    command = ["fit", str(data), "--weights", "1,0.6,0.4", "--sd", "0.6", "--enter", "0.02", "--seed", "1", "--draws"]
    command += ["5000000", "--chains", "2", "--update", "row", "--exchange", "none", "--warmup", "10", "--out"]
    codes = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}
    for n in range(N_SIGNALS):
        number = list(codes)[n % 3]
        out = folder / f"run-{n}"
        process = subprocess.Popen(
            [sys.executable, "-c", LISTENING + PROGRAM, *command, str(out)], stderr=subprocess.PIPE, text=True
        )
        while not (out / "run.zarr").exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.2 + float(rng.random()))
        process.send_signal(number)
        _, errors = process.communicate()
        tally.tried += 1
        tally.tracebacks += "Traceback" in errors
        found = ch.check_store(out / "run.zarr")
        kept = min(reading.read_header(out / "run.zarr")["committed"])
        tally.whole += process.returncode == codes[number] and not found.problems and kept > 0
    return tally


def hostile_files(folder: Path, rng: np.random.Generator) -> Tally:
    """Files that promise terabytes, lie about their content or hold objects: refused, in words and in little memory."""
    import test_integrity

    tally = Tally("hostile files and headers")
    path = folder / "run"
    sample(path, "ladder", draws=200)
    npy = [test_integrity.npy(shape) for shape in ("(1000000000000,)", "(-1,)", "(3,)", "(" * 80, "()", "(True,)")]
    npy += [test_integrity.npy("(1,)", dtype) for dtype in ("'|O'", "'<M9'", "None", "[('a', '|O')]", "'<f8', 'x'")]
    npy += [bytes(rng.integers(0, 256, 80, np.uint8)) for _ in range(50)]
    for content in npy:
        for read in (read_npy, read_npz):
            tally.tried += 1
            try:
                read(content)
                tally.whole += 1  # an array like any other
            except ValueError:
                tally.refused += 1
            except Exception:
                tally.tracebacks += 1
    kept = (path / "zarr.json").read_bytes()
    header = json.loads(kept)["attributes"]["chiasma"]
    places = [[key] for key in header] + [["layout", key] for key in header["layout"]]
    places += [["provenance", key] for key in header["provenance"]]
    places += [["provenance", "run", key] for key in header["provenance"]["run"]]
    places += [["provenance", "model", key] for key in header["provenance"]["model"]]
    for place in places:
        for value in (None, -1, 10**12, 0.5, "x", [], {}, [10**12], True):

            def change(part: dict[str, Any], place: list[str] = place, value: Any = value) -> None:
                for key in place[:-1]:
                    part = part[key]
                part[place[-1]] = value

            test_integrity.hostile(path, change)
            tally.tried += 1
            try:
                ch.open_posterior(path).draws.load()
                tally.whole += 1  # what it says of itself, such as a plan or a version, is no promise
            except ChiasmaError:
                tally.refused += 1
            except Exception:
                tally.tracebacks += 1
            (path / "zarr.json").write_bytes(kept)
    return tally


CAMPAIGN = (kills, report_kills, power_cuts, flips, full_disks, two_writers, signals, hostile_files)
# Faults at every operation: their runs write in many small pieces, as those of the tests do.
IN_SMALL_PIECES = (power_cuts, full_disks)


def run(report: Report) -> None:
    import pytest

    import test_store

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(21)
    tallies = []
    with tempfile.TemporaryDirectory() as folder:
        for fault in CAMPAIGN:
            place = Path(folder, fault.__name__)
            place.mkdir()
            with pytest.MonkeyPatch.context() as patch:
                if fault in IN_SMALL_PIECES:
                    test_store.small_pieces(patch.setattr)
                tallies.append(fault(place, rng))
            shutil.rmtree(place)
            print(" ".join(tallies[-1].row()), flush=True)  # the whole campaign takes a while
    report.text(
        f"Runs of K = 3 rows, T = {N_SITES} columns, two chains. After every fault the store is opened and compared "
        "with an uninterrupted run, resumed, and compared again. *Went on* counts runs that were equal in the end, bit "
        "for bit; *refused* those that ended in a message with the file and the remedy; *lost* draws that had been "
        "committed; *silent* wrong answers without notice; *tracebacks* any exception that is not chiasma's own."
    )
    report.table(
        ["fault", "tried", "went on", "refused", "lost", "silent", "tracebacks", "hangs"],
        [tally.row() for tally in tallies],
    )
    report.goal("no committed draw is lost", not any(tally.lost for tally in tallies))
    report.goal("no answer is wrong without notice", not any(tally.silent for tally in tallies))
    report.goal("no foreign exception", not any(tally.tracebacks for tally in tallies))
    unharmed = [tally for tally in tallies if tally.name not in ("one flipped bit", "hostile files and headers")]
    report.goal(
        "after every kill, power cut, full disk, second writer and signal the run goes on",
        all(tally.whole == tally.tried for tally in unharmed),
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    to_be_hit(Path(sys.argv[1]), sys.argv[2], bool(int(sys.argv[3])))
