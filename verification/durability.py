"""What durability costs: runs that sync every write and runs that do not, in turns, with one flush per second."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from faults import sample

from chiasma.storage import store

if TYPE_CHECKING:
    from run import Report

N_TURNS = 7
DRAWS = 300_000
MOST = 1.05


@contextmanager
def timed_syncs() -> Iterator[list[float]]:
    """Seconds of every sync."""
    sync, lasted = os.fsync, []

    def fsync(handle: int) -> None:
        began = time.perf_counter()
        sync(handle)
        lasted.append(time.perf_counter() - began)

    os.fsync = fsync  # type: ignore[assignment]
    try:
        yield lasted
    finally:
        os.fsync = sync


def run(report: Report) -> None:
    """Seconds of runs that flush once per second, with and without syncs, in turns."""
    warnings.simplefilter("ignore")
    store.FLUSH_SECONDS = 1.0
    rows: list[list[str]] = []
    lasted: dict[bool, list[float]] = {True: [], False: []}
    for n in range(N_TURNS):
        for durable in (True, False) if n % 2 else (False, True):
            with tempfile.TemporaryDirectory() as folder, timed_syncs() as syncs:
                began = time.perf_counter()
                sample(Path(folder, "run"), "exact", draws=DRAWS, durable=durable)
                lasted[durable].append(time.perf_counter() - began)
            if durable:
                waited = [f"{len(syncs)}", f"{sum(syncs):.3f}"]
        pair = lasted[True][-1], lasted[False][-1]
        rows.append([f"{pair[0]:.2f}", f"{pair[1]:.2f}", f"{pair[0] / pair[1]:.3f}", *waited])
    report.text(
        f"{DRAWS:,} exact draws per chain with one flush per second and chain, stored "
        "with durable=True and durable=False in turns. Wall-clock seconds on the file system of temporary files, which "
        "other programs use as well; seconds in syncs are summed over two chains, which wait independently."
    )
    report.table(["durable, s", "not durable, s", "ratio", "syncs", "s in syncs"], rows)
    ratio = float(np.median(np.divide(lasted[True], lasted[False])))
    report.goal(f"syncing costs at most 5% with one flush per second (median ratio {ratio:.3f})", ratio <= MOST)
