"""Running the samples of a cohort: clusters, the task of one sample, and all tasks on a Dask client.

Only this file imports dask.distributed. A failure of a sample is an outcome like another one. Only an interrupt, or the
end of the process, leaves a sample unfinished.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import perf_counter
from types import ModuleType, TracebackType
from typing import Any, NamedTuple
from uuid import uuid4

from dask import config

from chiasma.cohort.directory import DONE, FAILED, PICTURE, SUMMARIES, CohortDirectory, Outcome, grid_of, save_summaries
from chiasma.cohort.page import write_picture
from chiasma.cohort.plan import WORKFLOWS, CohortPlan, Sample
from chiasma.cohort.workflow import Result
from chiasma.errors import ChiasmaError, InvalidInput
from chiasma.io.plugins import load_plugins, loaded_plugins
from chiasma.io.sheets import read_bytes
from chiasma.limits import MOST_SETTINGS_BYTES
from chiasma.report.page import digest_of
from chiasma.types import count

# ---- Clusters -------------------------------------------------------------------------------------------------------

# Seconds to wait for a scheduler.
PATIENCE = 30
# As the page on cohorts says it.
INSTALL = "pip install 'chiasma-fhmm[cohort]'"


class SchedulerLost(ChiasmaError):
    """The scheduler of a cluster ended while it was needed."""


def distributed() -> ModuleType:
    """dask.distributed, or an error that says how to get it."""
    try:
        import distributed as found
    except ImportError as error:
        raise InvalidInput(
            f"a cohort on workers needs dask.distributed, which is not installed ({error}); install it "
            f"with: {INSTALL}, or run the samples one after the other: chiasma cohort init --help"
        ) from error
    return found


def cores() -> int:
    """Cores that this process may use, which a batch system may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """A client of worker processes on this machine, one thread each."""
    dask = distributed()
    if find_spec("cryptography") is None:  # makes the certificate
        raise InvalidInput(f"workers on this machine need the package cryptography; install it: {INSTALL}")
    # Dask opens web servers without encryption even if it has no dashboard: without routes, they serve nothing.
    served: dict[str, Any] = {f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")}
    # Workers load again what they spill there, so no other user may write to it.
    with TemporaryDirectory(prefix="chiasma-", ignore_cleanup_errors=True) as scratch:
        with _without_interrupts(), config.set(served):
            # A scheduler runs whatever it is sent: only this machine may reach it, and only who holds the certificate.
            # The default host of LocalCluster is loopback, but a user's configuration may change it.
            cluster = dask.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol="tls",
                security=dask.Security.temporary(),
                # Any free port: two cohorts on one machine would both take 8787.
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                local_directory=scratch,
                silence_logs=50,
                config=served,
            )
        with cluster, dask.Client(cluster, security=cluster.security, set_as_default=False) as client:
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
    address: str = json.loads(read_bytes(file, MOST_SETTINGS_BYTES))["address"]
    return address


def unencrypted(address: str) -> str:
    """What to say of a cluster that is reached without encryption; empty if it is encrypted or in this process.

    >>> unencrypted("tls://10.0.0.1:8786"), unencrypted("tcp://10.0.0.1:8786").split(":")[0]
    ('', 'the connection to tcp')
    """
    if address.partition("://")[0] in ("tls", "wss", "inproc"):
        return ""
    return (
        f"the connection to {address} is not encrypted, and whoever reaches it can run code as its owner; see the "
        "section on ports of docs/threat-model.md"
    )


@contextmanager
def client_of(scheduler: str | None, scheduler_file: Path | None) -> Iterator[Any]:
    """A client of a scheduler that is running, by its address or its file."""
    dask = distributed()
    where = scheduler if scheduler_file is None else str(scheduler_file)
    try:
        # A client would wait for the file for ever.
        address = scheduler if scheduler_file is None else _address_in(scheduler_file)
        client = dask.Client(address, timeout=PATIENCE, set_as_default=False)
    # TypeError: not a table, or it asks for a certificate; RecursionError: nested too deeply.
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput(
            f"there is no scheduler at {where} ({error}); start one with: dask scheduler, and give its address, "
            "such as tcp://127.0.0.1:8786, or the file of: dask scheduler --scheduler-file FILE"
        ) from error
    with client:
        yield client


# ---- One sample -----------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """Everything a worker needs to know of a sample; small, since a scheduler holds thousands of them.

    tables_only : leave out report.html and figures.
    threads : of the sampler, where the settings name no number.
    mark : what its outcome is bound to, see `CohortPlan.mark`.
    plugins : files that register the emissions of the cohort.
    """

    cohort: str
    workflow: str
    name: str
    path: str
    settings: Mapping[str, Any]
    seed: int
    tables_only: bool
    threads: int
    mark: str
    plugins: tuple[str, ...] = ()


def task_of(directory: CohortDirectory, plan: CohortPlan, sample: Sample, threads: int = 1) -> Task:
    return Task(
        cohort=str(directory.path),
        workflow=plan.workflow,
        name=sample.name,
        path=sample.path,
        settings=plan.settings_of(sample),
        seed=plan.seed_of(sample),
        tables_only=plan.tables_only,
        threads=threads,
        mark=plan.mark(sample),
        plugins=loaded_plugins(),
    )


def run_task(task: Task) -> Outcome:
    """Run the sample, unless it is done; one that is damaged is left alone as well."""
    directory = CohortDirectory(task.cohort)
    if directory.is_done(task.name):
        return directory.outcome(task.name, task.seed, task.mark)
    began = perf_counter()
    with directory.attempt(task.name) as own:
        try:
            load_plugins(task.plugins)
            data = digest_of(Path(task.path))
            result = _run_or_start_again(task, directory, own)
            seconds = perf_counter() - began
            save_summaries(result.summaries, own / SUMMARIES)
            write_picture(result.picture, own / PICTURE)
            outcome = Outcome(
                name=task.name,
                status=DONE,
                seed=task.seed,
                seconds=seconds,
                evidence=result.evidence,
                trust=result.trust,
                findings=tuple(result.findings),
                key_results=result.key_results,
                parameters=result.parameters,
                bands=tuple(result.bands),
                span=result.span,
                grid=grid_of(result.summaries),
                mark=task.mark,
                data=data,
            )
            return directory.complete(own, outcome)
        except Exception as error:
            directory.discard(own)
            known = isinstance(error, ChiasmaError)
            return directory.fail(
                Outcome(
                    name=task.name,
                    status=FAILED,
                    seed=task.seed,
                    seconds=perf_counter() - began,
                    error=str(error) if known else f"{type(error).__name__}: {error}",
                    traceback="" if known else traceback.format_exc(),
                    mark=task.mark,
                )
            )


def _run_or_start_again(task: Task, directory: CohortDirectory, own: Path) -> Result:
    left = any(own.iterdir())
    try:
        return _run(task, own)
    except ChiasmaError:
        if not left:
            raise
        # What an earlier attempt left is of other data, or damaged.
        directory.empty(own)
        return _run(task, own)


def _run(task: Task, own: Path) -> Result:
    with computing_alone():
        return WORKFLOWS[task.workflow].run(
            Path(task.path), task.settings, own, workers=task.threads, tables_only=task.tables_only
        )


def compile_kernels(task: Task) -> None:
    """Compile once, before many processes begin: each would compile for itself, and their code might round otherwise.

    An unreadable sample does not stop the cohort; it is reported as an outcome.
    """
    with suppress(ChiasmaError):
        load_plugins(task.plugins)
        WORKFLOWS[task.workflow].compile(Path(task.path), task.settings)


_computing = 0
_before: dict[str, Any] = {}
_lock = Lock()


@contextmanager
def computing_alone() -> Iterator[None]:
    """Dask arrays, such as the draws of a stored run, are computed by the thread that needs them.

    A worker of Dask would hand them to its own scheduler and wait for an answer while it holds the only thread that
    could give one; other processes would start more threads than there are cores. The setting belongs to the whole
    process: the first sample makes it, and the last one that runs takes it back.
    """
    global _computing
    with _lock:
        if _computing == 0:
            _before["scheduler"] = config.get("scheduler", None)
            config.set(scheduler="synchronous")
        _computing += 1
    try:
        yield
    finally:
        with _lock:
            _computing -= 1
            if _computing == 0:
                config.set(scheduler=_before["scheduler"])


# ---- All samples ----------------------------------------------------------------------------------------------------

Note = Callable[[str], None]


def run_on(
    client: Any, tasks: Sequence[Task], retries: int, note: Note, begun: Callable[[], None] = lambda: None
) -> Iterator[Outcome]:
    """Outcomes in the order in which samples end.

    Dask starts a sample again when its worker is lost, until it suspects the sample itself; it is then submitted again
    `retries` times. Only small outcomes come back: draws stay on the workers' disk. begun : is called once kernels are
    compiled and the samples begin.
    """
    dask = distributed()
    if not client.scheduler_info()["workers"]:
        note("there are no workers yet; waiting for the first one")
    # A key that was never used before: a scheduler that runs for weeks remembers results by their keys.
    run = uuid4().hex
    lost: Counter[str] = Counter()
    by_key: dict[str, Task] = {}

    def submit(task: Task) -> Any:
        key = f"sample-{task.name}-{lost[task.name]}-{run}"
        by_key[key] = task
        return client.submit(run_task, task, key=key, retries=retries, pure=False)

    pending: set[Any] = set()
    try:
        client.submit(compile_kernels, tasks[0], key=f"compile-{run}", pure=False).result()
        begun()
        pending = {submit(task) for task in tasks}
        ended = dask.as_completed(pending, loop=client.loop)
        for future in ended:
            pending.discard(future)
            task = by_key.pop(future.key)
            try:
                outcome: Outcome = future.result()
            except dask.KilledWorker as error:
                lost[task.name] += 1
                if lost[task.name] <= retries:
                    again = submit(task)
                    pending.add(again)
                    ended.add(again)
                    continue
                outcome = _lost(task, lost[task.name] * (error.allowed_failures + 1))
            yield outcome
    except (CancelledError, OSError) as error:
        pending = set()
        raise SchedulerLost(f"the scheduler was lost ({error})") from error
    finally:
        # What runs already goes on to its end, and is then done; the rest is taken back.
        if pending:
            client.cancel(list(pending))


def _lost(task: Task, times: int) -> Outcome:
    told = (
        f"its worker was lost {times} times while it ran; if workers ran out of memory, start fewer or give each more, "
        "then resume"
    )
    return CohortDirectory(task.cohort).fail(
        Outcome(name=task.name, status=FAILED, seed=task.seed, error=told, mark=task.mark)
    )


# ---- Progress -------------------------------------------------------------------------------------------------------

# Seconds between two lines, and between two versions of cohort.tsv while a cohort runs.
EVERY = 30.0


class CohortProgress:
    """Counts outcomes; says how many samples per minute end, and how long the others will take."""

    def __init__(self, total: int, note: Callable[[str], None], show: bool):
        self.total = total
        self.note = note
        self.n_done = self.n_failed = 0
        self.began = self.told_at = time.monotonic()
        self._bar: Any = None
        if show:
            self._open()

    def _open(self) -> None:
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            self._bar = progress.Progress(
                progress.TextColumn("samples"),
                progress.BarColumn(bar_width=40),
                progress.MofNCompleteColumn(),
                progress.TextColumn("{task.fields[note]}"),
                console=console,
            )
            self._line = self._bar.add_task("samples", total=self.total, note="")
            self._bar.start()

    def restart(self) -> None:
        """Samples begin only now: the time before says nothing about their pace."""
        self.began = time.monotonic()

    def add(self, outcome: Outcome) -> bool:
        """Count an outcome; returns whether it is time to save what is known."""
        self.n_done += outcome.status == DONE
        self.n_failed += outcome.status == FAILED
        n = self.n_done + self.n_failed
        if self._bar is not None:
            self._bar.update(self._line, completed=n, note=self.rate().removeprefix(", "))
        now = time.monotonic()
        if now - self.told_at > EVERY or n == self.total:
            self.told_at = now
            if self._bar is None:
                self.note(f"{n:,} of {count(self.total, 'sample')}{self.rate()}")
            return True
        return False

    def rate(self) -> str:
        """
        >>> progress = CohortProgress(30, print, show=False)
        >>> progress.n_done, progress.began = 10, progress.began - 60
        >>> progress.rate()
        ', 10.0 per minute, 0:02:00 left'
        """
        n = self.n_done + self.n_failed
        minutes = (time.monotonic() - self.began) / 60
        left = round((self.total - n) * minutes * 60 / n) if n else 0
        clock = f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"
        failed = f", {self.n_failed:,} failed" if self.n_failed else ""
        return f"{failed}, {n / minutes:.1f} per minute, {clock} left"

    def __enter__(self) -> CohortProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
