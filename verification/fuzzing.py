"""Anything as input of every public call, many times; once with kernels that check their bounds.

`python verification/fuzzing.py N` tries N calls and prints what was neither an answer nor a ChiasmaError, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings

if TYPE_CHECKING:
    from run import Report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

N_CALLS = 10_000
N_BOUNDS = 1_500


def tried(n_calls: int) -> list[str]:
    """What went wrong, each kind once."""
    from fuzz import attempt, attempts, in_words

    found: dict[tuple[str, str, str], str] = {}

    @settings(
        max_examples=n_calls,
        phases=[Phase.generate],
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(attempts())
    def probe(one: tuple[str, dict[str, Any]]) -> None:
        try:
            told = attempt(*one)
            assert in_words(told), told
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)
            place = next((frame for frame in reversed(last) if "chiasma" in frame.filename), last[-1])
            key = one[0], type(error).__name__, f"{Path(place.filename).name}:{place.lineno}"
            found.setdefault(key, f"{' '.join(key)}: {str(error)[:100]} for {str(one[1])[:150]}")

    probe()
    return list(found.values())


def in_a_process(n_calls: int, **environment: str) -> tuple[list[str], int]:
    """What went wrong, and the code with which the process ended: a crash would be negative."""
    done = subprocess.run(
        [sys.executable, __file__, str(n_calls)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    return (json.loads(done.stdout) if done.returncode == 0 else [done.stderr[-500:]]), done.returncode


def run(report: Report) -> None:
    from run import on_all_cores

    from fuzz import CALLS

    report.text(
        f"{len(CALLS)} public calls with valid arguments, of which one or two are replaced by anything: numbers of "
        "every size, NaN, infinities, texts, bytes, times, complex numbers, arrays of fourteen types (masked, "
        "big-endian, Fortran order, strided, read-only, pandas, xarray), lists, ragged lists, objects."
    )
    with tempfile.TemporaryDirectory() as folder:
        tasks: list[tuple[str, int, dict[str, str]]] = [
            ("as it runs", N_CALLS, {}),
            ("kernels check their bounds", N_BOUNDS, {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": folder}),
        ]
        found = on_all_cores(lambda task: in_a_process(task[1], **task[2]), tasks)
    rows = []
    for (name, n_calls, _), (wrong, code) in zip(tasks, found, strict=True):
        rows.append([name, f"{n_calls:,}", str(len(wrong)), str(code)])
        report.goal(f"{name}: an answer or an error of chiasma's own, and no crash", not wrong and code == 0)
        for one in wrong:
            report.text(f"`{one}`")
    report.table(["process", "calls", "foreign exceptions", "exit code"], rows)


if __name__ == "__main__":
    print(json.dumps(tried(int(sys.argv[1]))))
