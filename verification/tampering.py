"""Tampering: files of cohorts that are damaged, swapped or restored, hostile names, bombs, open ports, odd clocks.

Everything that a fault may change is read again: by `merge`, by `cohort check`, or by the command that would use it.
*Silent* is a changed result without any notice. `python verification/run.py tampering` tries all of it.
"""

from __future__ import annotations

import gzip
import os
import re
import resource
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from faults import Tally, end, fork

import chiasma as ch
from chiasma.cli import main
from chiasma.cohort.api import begin_cohort, check_cohort, cohort_settings, merge, run_cohort_task, tumour_settings
from chiasma.cohort.directory import DONE, CohortDirectory, load_summaries
from chiasma.cohort.plan import CohortPlan
from chiasma.datasets.genome import tumour_genome
from chiasma.datasets.tumours import simulate_tumour
from chiasma.errors import ChiasmaError
from chiasma.io.settings import Settings, settings_of
from chiasma.io.tables import write_table
from chiasma.tumour.bins import simulated_bins

if TYPE_CHECKING:
    from run import Report

N_DAMAGES = 250  # of each of two cohorts
N_COPIES = 10
N_CLOCKS = 10
SEED = 23
NAMES = ("a", "b", "c")
SAMPLER = {"draws": 40, "chains": 2, "warmup": 10}
PATIENCE = 300.0  # seconds after which a command counts as hanging
HANGS = -99


# ---- Cohorts --------------------------------------------------------------------------------------------------------


def fits(folder: Path, out: Path) -> None:
    """A cohort of three small genomes."""
    for i, name in enumerate(NAMES):
        signal = tumour_genome(i, 60).signal
        position, chromosome = signal.position, signal.chromosome
        assert position is not None
        assert chromosome is not None
        lines = zip(chromosome, position, signal.data.y, strict=True)
        write_table(folder / f"{name}.tsv", ["chromosome", "position", "value"], lines)
    write_table(folder / "sheet.tsv", ["sample", "path"], [[name, f"{name}.tsv"] for name in NAMES])
    columns = {"chromosome": "chromosome", "position": "position"}
    given = Settings(**settings_of(tumour_genome(0, 60).model) | {"data": columns, "sampler": SAMPLER})
    begin_cohort(folder / "sheet.tsv", out, cohort_settings(given), seed=SEED, tables_only=True)


def tumours(folder: Path, out: Path) -> None:
    """A cohort of three small tumours."""
    for i, name in enumerate(NAMES):
        bins = simulated_bins(simulate_tumour(i, n_bins=60, purity=0.7, doubled=False, clones=1, events=8))
        lines = zip(bins.chromosome, bins.start, bins.end, np.round(bins.depth, 6), strict=True)
        write_table(folder / f"{name}.tsv", ["chromosome", "start", "end", "depth"], lines)
    write_table(folder / "sheet.tsv", ["sample", "path"], [[name, f"{name}.tsv"] for name in NAMES])
    narrow = tumour_settings(purity="0.5-0.9", ploidy="1.6-2.4", clones="1")
    begin_cohort(folder / "sheet.tsv", out, narrow, workflow="tumour", seed=SEED, tables_only=True)


def carried_out(out: Path) -> None:
    """All samples, one after the other."""
    for task in range(CohortPlan.read(out / "cohort.json").n_tasks):
        run_cohort_task(out, task, lambda text: None)
    directory = CohortDirectory(out)
    merge(directory, CohortPlan.read(directory.plan))


Results = dict[str, tuple[Any, ...]]


def results(out: Path) -> tuple[Results, bool]:
    """What `merge` tells of every sample that is done, and whether it noticed that something is wrong."""
    directory = CohortDirectory(out)
    outcomes = merge(directory, CohortPlan.read(directory.plan))
    found = {}
    for one in outcomes:
        if one.status == DONE:
            summaries = load_summaries(directory, one)
            told = repr((one.evidence, one.key_results, one.parameters, one.trust, one.findings, one.seed))
            found[one.name] = told, {str(name): part.values.tobytes() for name, part in summaries.variables.items()}
    noticed = any(one.status != DONE for one in outcomes) or bool(directory.strangers(one.name for one in outcomes))
    return found, noticed


def flip(rng: np.random.Generator, file: Path, others: list[Path]) -> None:
    content = bytearray(file.read_bytes())
    if content:
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    file.write_bytes(bytes(content))


def truncate(rng: np.random.Generator, file: Path, others: list[Path]) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: rng.integers(max(1, len(content)))])


def remove(rng: np.random.Generator, file: Path, others: list[Path]) -> None:
    file.unlink()


def swap(rng: np.random.Generator, file: Path, others: list[Path]) -> None:
    """With the file of this name of another sample, or with any other."""
    alike = [one for one in others if one.name == file.name and one != file] or others
    other = alike[rng.integers(len(alike))]
    kept = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def edit(rng: np.random.Generator, file: Path, others: list[Path]) -> None:
    """Change a digit, as a person would who edits a result or a setting."""
    content = file.read_bytes()
    places = [match.start() for match in re.finditer(rb"[0-9]", content)]
    if places:
        at = places[rng.integers(len(places))]
        new = b"%d" % ((int(content[at : at + 1]) + 1) % 10)
        file.write_bytes(content[:at] + new + content[at + 1 :])


WAYS = (flip, truncate, remove, swap, edit)


def cohort_damages(
    make: Callable[[Path, Path], None], name: str
) -> Callable[[Path, np.random.Generator], tuple[Tally, Tally]]:
    """Damage to any file of a cohort; `merge`, and then `check`, tell."""

    def tried(folder: Path, rng: np.random.Generator) -> tuple[Tally, Tally]:
        merged, checked = Tally(f"damage to a cohort of {name}: merge"), Tally(f"damage to a cohort of {name}: check")
        whole, out, before = folder / "whole", folder / "out", folder / "before"
        make(folder, whole)
        carried_out(whole)
        expected, _ = results(whole)
        # Of an earlier time: one sample less, and one sample before it was done again.
        shutil.copytree(whole, before)
        older = plan_again(whole, "b")
        carried_out(whole)
        expected, _ = results(whole)
        names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
        read = [path for path in names if path.name in ("outcome.json", "summaries.npz", "picture.png", "cohort.json")]
        n = 0
        while merged.tried < N_DAMAGES:
            n += 1
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(whole, out)
            pool = read if n % 2 else names
            file, way = out / pool[rng.integers(len(pool))], WAYS[n % len(WAYS)]
            if n % 10 == 9:
                restore(rng, before, out, older)
            else:
                way(rng, file, [out / path for path in names])
            changed = {
                path
                for path in names
                if not (out / path).exists() or (out / path).read_bytes() != (whole / path).read_bytes()
            }
            if not changed:
                continue
            judge_check(checked, out)
            judge_merge(merged, out, expected)
        return merged, checked

    tried.__name__ = make.__name__
    return tried


def plan_again(out: Path, name: str) -> str:
    directory = CohortDirectory(out)
    plan = CohortPlan.read(directory.plan).with_again([name])
    plan.write(directory.plan)
    directory.forget(name)
    return name


def restore(rng: np.random.Generator, before: Path, out: Path, name: str) -> None:
    """An older version of a sample's directory, of one of its files, or of the plan."""
    own = Path("samples") / name
    files = [Path("cohort.json"), own, *(own / one for one in ("outcome.json",))]
    chosen = files[rng.integers(len(files))]
    if (before / chosen).is_dir():
        shutil.rmtree(out / chosen)
        shutil.copytree(before / chosen, out / chosen)
    else:
        shutil.copy(before / chosen, out / chosen)


def judge_check(tally: Tally, out: Path) -> None:
    """Every changed file must be told: files of all samples have digests."""
    tally.tried += 1
    try:
        noticed = bool(check_cohort(out).problems)
        tally.refused += noticed
        tally.silent += not noticed
    except ChiasmaError:
        tally.refused += 1
    except Exception:
        tally.tracebacks += 1


def judge_merge(tally: Tally, out: Path, expected: Results) -> None:
    """Samples that are done have their results; a fault that `merge` does not meet changes none."""
    tally.tried += 1
    try:
        found, noticed = results(out)
        tally.silent += any(found[name] != expected[name] for name in found)
        tally.silent += len(found) < len(expected) and not noticed
        tally.refused += noticed
        tally.whole += not noticed
    except ChiasmaError:
        tally.refused += 1
    except Exception:
        tally.tracebacks += 1


# ---- Commands -------------------------------------------------------------------------------------------------------


def command(folder: Path, *words: object, memory: int = 0) -> tuple[int, str]:
    """Exit code and stderr of a command; HANGS if it does not end. It is a fork: nothing is imported or compiled."""
    errors = folder / "stderr"

    def work() -> None:
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        with errors.open("w") as file:
            os.dup2(file.fileno(), 2)
            sys.stderr = sys.__stderr__
        # As Python decodes what a shell passes on.
        sys.argv = ["chiasma", *(os.fsdecode(one) if isinstance(one, bytes) else str(one) for one in words)]
        main()

    child = fork(work)
    deadline = time.monotonic() + PATIENCE
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            end(child)
            return HANGS, ""
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1]), errors.read_text(errors="replace")


def count(tally: Tally, code: int, errors: str) -> None:
    tally.tried += 1
    tally.tracebacks += "Traceback" in errors
    tally.hangs += code == HANGS
    tally.whole += code == 0
    tally.refused += code == 2 and "Traceback" not in errors
    tally.silent += code not in (0, 2, HANGS)


MODEL = ("--weights", "1,0.6", "--sd", "0.6", "--enter", "0.05", "--leave", "0.05")
SHORT = ("--draws", "20", "--chains", "2", "--warmup", "10", "--seed", "1", "--tables-only", "-q")


def write_data(path: Path | bytes) -> None:
    with open(path, "w", encoding="utf-8") as file:  # a name that is not UTF-8 is bytes
        file.write("value\n" + "\n".join(f"{x % 3}" for x in range(60)) + "\n")


def names(folder: Path, rng: np.random.Generator) -> tuple[Tally, ...]:
    """Data files with names that hold anything a file system allows: fit, then resume from what was written."""
    tally = Tally("names of data files, fit and resume")
    given = [b"a\nb.csv", b"\x1b[31mred.csv", b"a\n[sampler]\ndraws = 7\n.csv", b'"quoted".csv', b"\xff\xfe.csv"]
    given += [b"\\n.csv", b"a\tb.csv", b"x" * 251 + b".csv", "\u202egnp.csv".encode(), b"'''.csv", b"-rf.csv"]
    for n, name in enumerate(given):
        path, out = os.path.join(os.fsencode(folder), name), folder / f"out-{n}"
        write_data(path)
        code, errors = command(folder, "fit", path, *MODEL, *SHORT, "--out", out)
        count(tally, code, errors)
        if code == 0:
            again, errors = command(folder, "fit", path, "--out", out, "--resume", "-q")
            count(tally, again, errors)
            tally.silent += ch.open_posterior(out / "run.zarr").draws.sizes["draw"] != 20
            tally.tracebacks += "\x1b[31m" in errors
    return (tally,)


def bombs(folder: Path, rng: np.random.Generator) -> tuple[Tally, ...]:
    """Small files that unpack to gigabytes, and streams that never end, with little memory to spare."""
    tally = Tally("compressed bombs and endless streams")
    packed = folder / "bomb.csv.gz"
    with gzip.open(packed, "wb", compresslevel=9) as file:
        file.write(b"value\n")
        for _ in range(1_100):
            file.write(b"1\n" * 2**19)
    for given in (packed, "/dev/zero", "/dev/urandom", "/proc/self/mem"):
        for kind in (("fit", given, *MODEL), ("tumour", given)):
            code, errors = command(folder, *kind, "--out", folder / "out", memory=6 * 2**30)
            count(tally, code, errors)
            tally.silent += code == 0  # none of them holds data
    code, errors = command(folder, "--max-bytes", "1000", "fit", packed, *MODEL, "--out", folder / "out")
    count(tally, code, errors)
    return (tally,)


def ports(folder: Path, rng: np.random.Generator) -> tuple[Tally, ...]:
    """Who listens where, and what another user of the machine gets."""
    import test_cohort_ports as own
    from chiasma.cohort.workers import local_client

    listening, intruders = Tally("ports of local clusters"), Tally("intruders, as another user")
    before = own.listeners()
    with local_client(2) as client:
        for address, _ in own.listeners() - before:
            listening.tried += 1
            listening.whole += address == own.LOOPBACK
            listening.silent += address != own.LOOPBACK
        address = client.scheduler.address
        workers = list(client.scheduler_info()["workers"])
        doors = (address, *workers, *(one.replace("tls", "tcp") for one in (address, *workers)))
        for found in own.intrude(*doors):
            intruders.tried += 1
            intruders.refused += found != "inside"
            intruders.silent += found == "inside"
    return listening, intruders


# ---- Runs -----------------------------------------------------------------------------------------------------------


def clocks(folder: Path, rng: np.random.Generator) -> tuple[Tally, ...]:
    """The clock of the system jumps back while runs are sampled and resumed."""
    from faults import expected, is_prefix, sample

    tally, now = Tally("clock going backwards"), time.time
    for n in range(N_CLOCKS):
        path = folder / f"run-{n}"
        begun = now()
        time.time = lambda begun=begun: begun - 3_600.0 * (now() - begun)  # type: ignore[assignment,misc]
        try:
            sample(path, "exact", draws=500)
            resumed = sample(path, "exact", resume=True)
            tally.whole += is_prefix(resumed, expected("exact")) and not ch.check_store(path).problems
        except ChiasmaError:
            tally.refused += 1
        except Exception:
            tally.tracebacks += 1
        finally:
            time.time = now
        tally.tried += 1
    return (tally,)


def copies(folder: Path, rng: np.random.Generator) -> tuple[Tally, ...]:
    """A run is copied while it is written: the copy opens with sound draws, or its damage is told."""
    from faults import expected, is_prefix, sample

    from chiasma.storage import store
    from chiasma.storage.reading import read_header

    tally, path, seconds = Tally("run copied while it is written"), folder / "run", store.FLUSH_SECONDS
    whole = expected("ladder")
    try:
        for n in range(N_COPIES):
            shutil.rmtree(path, ignore_errors=True)
            # Such runs end before their first flush; those that commit after every piece are torn by most copies.
            store.FLUSH_SECONDS = -1.0 if n % 2 else 0.2
            writer = threading.Thread(target=sample, args=(path, "ladder"))
            writer.start()
            while not (path.exists() and min(read_header(path)["committed"])):
                time.sleep(0.001)
            time.sleep(0.3 * float(rng.random()))
            copy = folder / f"copy-{n}"
            ignored = shutil.ignore_patterns("*.partial")
            with suppress(shutil.Error):  # files that were replaced meanwhile are missing
                shutil.copytree(path, copy, ignore=ignored)
            writer.join()
            tally.tried += 1
            try:
                tally.silent += not is_prefix(ch.open_posterior(copy), whole)
                tally.whole += 1
            except ChiasmaError:
                tally.refused += 1
            except Exception:
                tally.tracebacks += 1
    finally:
        store.FLUSH_SECONDS = seconds
    return (tally,)


CAMPAIGN = (cohort_damages(fits, "fits"), cohort_damages(tumours, "tumours"), names, bombs, ports, clocks, copies)


def run(report: Report) -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(24)
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory() as name:
        for fault in CAMPAIGN:
            folder = Path(name, fault.__name__)
            folder.mkdir()
            tallies += fault(folder, rng)
            shutil.rmtree(folder)
            print(*(" ".join(one.row()) for one in tallies[-2:]), sep="\n", flush=True)
    report.text(
        "Cohorts of three samples: damages are flipped bits, truncated, removed, swapped, edited and restored older "
        "files; half of them hit files that `merge` reads. *Went on* counts answers that the fault did not touch, "
        "*refused* messages with the file and the remedy, *silent* changed results without notice (for `check`: any "
        "changed file that it does not name), *tracebacks* exceptions that are not chiasma's own."
    )
    report.table(
        ["fault", "tried", "went on", "refused", "lost", "silent", "tracebacks", "hangs"],
        [one.row() for one in tallies],
    )
    report.goal("nothing lost", not any(one.lost for one in tallies))
    report.goal("nothing silent", not any(one.silent for one in tallies))
    report.goal("no traceback", not any(one.tracebacks for one in tallies))
    report.goal("nothing hangs", not any(one.hangs for one in tallies))
