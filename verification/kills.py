"""Runs killed with SIGKILL at random instants: does the store reopen with all that was committed, and go on bit by bit?

`python verification/kills.py KIND PATH` is the run that gets killed: it says when it begins to sample, and notes every
commit in a file beside the store.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import chiasma as ch
from chiasma.datasets.genome import tumour_genome
from chiasma.storage import store
from chiasma.storage.reading import read_header

if TYPE_CHECKING:
    from run import Report

INSTANTS = 10  # per kind of run
COMMON: dict[str, Any] = {"chains": 2, "workers": 2, "seed": 1, "progress": False}
KINDS: dict[str, dict[str, Any]] = {
    "exact": {"update": "exact", "draws": 6_000},
    "replicas": {"update": "row", "exchange": "mosaic", "ladder": [1, 5], "warmup": 50, "draws": 600},
}


class Outcome(NamedTuple):
    after: float  # seconds from the beginning of sampling to the kill
    noted: list[int]  # draws of each chain at the last commit that the killed run noted
    found: list[int]  # in the store
    torn: int  # files that the kill left half-written, beside those that they were to replace
    reopened: bool
    resumed: bool

    @property
    def lost(self) -> int:
        return sum(max(0, m - n) for m, n in zip(self.noted, self.found, strict=True))


def sample(kind: str, path: Path | None, **more: Any) -> ch.Posterior:
    genome = tumour_genome(seed=1)
    return ch.sample(genome.model, genome.signal.data, store=path, **COMMON | KINDS[kind] | more)


def to_be_killed(kind: str, path: Path) -> None:
    """A run that commits after every piece, so that much of its time goes into writing."""
    sample(kind, None, draws=2)  # loads compiled code
    store.FLUSH_SECONDS = -1.0
    commit = store.ZarrTrace._commit
    log = os.open(f"{path}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def noted(trace: store.ZarrTrace) -> None:
        commit(trace)
        os.write(log, f"{json.dumps(trace.header['committed'])}\n".encode())

    store.ZarrTrace._commit = noted  # type: ignore[assignment,method-assign]
    print("sampling", flush=True)
    sample(kind, path)


def start(kind: str, path: Path) -> subprocess.Popen[str]:
    """The run in a process of its own, which has just begun to sample."""
    process = subprocess.Popen([sys.executable, __file__, kind, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "sampling\n":
        raise RuntimeError(f"the {kind} run failed before it began")
    return process


def equal(found: ch.Posterior, expected: ch.Posterior) -> bool:
    """Bitwise, as far as the draws that were found go."""
    n = found.draws.sizes["draw"]
    pairs = [
        (getattr(found, name).values, getattr(expected, name).values[:, :n])
        for name in ("draws", "log_joint", "replica_log_likelihood")
    ]
    return all(np.array_equal(one, other) for one, other in pairs)


def kill(kind: str, path: Path, after: float, expected: ch.Posterior) -> Outcome:
    process = start(kind, path)
    time.sleep(after)
    process.kill()
    process.wait()
    log = Path(f"{path}.log")
    commits = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    noted = commits[-1] if commits else [0, 0]
    torn = sum(1 for _ in path.rglob("*.partial"))
    found = read_header(path)["committed"] if path.exists() else [0, 0]
    # Without draws of both chains there is nothing to open yet, and nothing to lose either.
    reopened = equal(ch.open_posterior(path), expected) if min(found) else True
    resumed = sample(kind, path, resume=True)
    same = equal(resumed, expected) and resumed.draws.shape == expected.draws.shape
    same = same and np.array_equal(resumed.marginals(), expected.marginals())
    return Outcome(after, noted, found, torn, reopened, same)


def run(report: Report) -> None:
    rng = np.random.default_rng(20)
    outcomes: list[tuple[str, Outcome]] = []
    lasted = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            expected = sample(kind, None)
            process = start(kind, Path(folder, kind))
            began = time.perf_counter()
            process.wait()
            lasted[kind] = time.perf_counter() - began
            for share in np.sort(rng.random(INSTANTS)):
                path = Path(folder, f"{kind}-{share:.4f}")
                outcomes.append((kind, kill(kind, path, share * lasted[kind], expected)))
    report.text(
        "The simulated tumour genome of the demonstration (K = 6, T = 10,877), two chains on two workers. Every run is "
        "a separate process and commits after every piece of draws. It is killed with SIGKILL after a uniformly random "
        f"fraction of the time that an uninterrupted run takes ({lasted['exact']:.1f} s for exact draws, "
        f"{lasted['replicas']:.1f} s for replicas). What is in the store at the kill depends on the machine. Then the "
        "store is opened and compared with an uninterrupted run, resumed, and compared again: draws, log joint, "
        "log-likelihoods of every replica and, after resuming, marginals must be equal bit for bit."
    )
    report.table(
        ["run", "killed after, s", "draws at last commit", "draws in the store", "partial files", "opens", "resumes"],
        [
            [
                kind,
                f"{one.after:.2f}",
                " + ".join(f"{n:,}" for n in one.noted),
                " + ".join(f"{n:,}" for n in one.found),
                str(one.torn),
                "equal" if one.reopened else "DIFFERENT",
                "equal" if one.resumed else "DIFFERENT",
            ]
            for kind, one in outcomes
        ],
    )
    n = len(outcomes)
    report.text(
        f"In {sum(one.torn > 0 for _, one in outcomes)} of {n} kills a file was being written. Writes are atomic: the "
        "new content goes to a temporary file, which is then renamed, so the old file stays intact."
    )
    report.goal(
        f"all {n} stores open, with the draws of an uninterrupted run", all(one.reopened for _, one in outcomes)
    )
    report.goal("no committed draw is lost", not any(one.lost for _, one in outcomes))
    report.goal(
        f"all {n} runs resume and end bitwise equal to an uninterrupted run", all(o.resumed for _, o in outcomes)
    )


if __name__ == "__main__":
    to_be_killed(sys.argv[1], Path(sys.argv[2]))
