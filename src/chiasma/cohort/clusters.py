"""Dask clusters: a local one, or one that is running already. Only this file imports dask.distributed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from chiasma.errors import ChiasmaError, InvalidInput

# Seconds to wait for a scheduler.
PATIENCE = 30
# As the page on cohorts says it.
INSTALL = "pip install -c constraints.txt '.[cohort]'"


class SchedulerLost(ChiasmaError):
    """The scheduler of a cluster ended while it was needed."""


def distributed() -> ModuleType:
    """dask.distributed, or an error that says how to get it."""
    try:
        import distributed as found
    except ImportError as error:
        raise InvalidInput(
            f"a cohort on workers needs dask.distributed, which is not installed ({error}); install it in the "
            f"source directory: {INSTALL}, or run the samples one after the other: chiasma cohort init --help"
        ) from error
    return found


def cores() -> int:
    """Cores that this process may use, which a batch system may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """A client of worker processes on this machine, one thread each."""
    dask = distributed()
    with _without_interrupts():
        cluster = dask.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        )
    with cluster, dask.Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C: a terminal sends it to them, too, and the command ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _address_in(file: Path) -> str:
    """The address in the file of a scheduler, which may need some time to write it."""
    deadline = time.monotonic() + PATIENCE
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    address: str = json.loads(file.read_text(encoding="utf-8"))["address"]
    return address


@contextmanager
def client_of(scheduler: str | None, scheduler_file: Path | None) -> Iterator[Any]:
    """A client of a scheduler that is running, by its address or its file."""
    dask = distributed()
    where = scheduler if scheduler_file is None else str(scheduler_file)
    try:
        # A client would wait for the file for ever.
        address = scheduler if scheduler_file is None else _address_in(scheduler_file)
        client = dask.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidInput(
            f"there is no scheduler at {where} ({error}); start one with: dask scheduler, and give its address, "
            "such as tcp://127.0.0.1:8786, or the file of: dask scheduler --scheduler-file FILE"
        ) from error
    with client:
        yield client
