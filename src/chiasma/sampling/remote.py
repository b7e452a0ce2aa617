"""Chains on the workers of a Dask client: one task at a time for each chain, which takes it some seconds further.

A task gets a whole engine and returns it with the draws, so it depends on nothing else: if its worker is lost, another
one repeats it from the same state and makes the same draws. This process keeps the engines, adapts the ladder, and
writes the store. What all chains share, the problem, is sent to each worker once; engines refer to it.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

from chiasma import __version__
from chiasma.errors import ChiasmaError, InvalidInput
from chiasma.extras import extra
from chiasma.sampling.engines import Engine
from chiasma.sampling.problems import Problem
from chiasma.sampling.progress import Progress
from chiasma.sampling.running import Run, WorkClock
from chiasma.storage.trace import Draws, Trace
from chiasma.types import shown

# Seconds of a task, about: what is repeated when its worker is lost.
TASK_SECONDS = 2.0
# Seconds between two looks at a task that is running.
LOOK = 0.02


class WorkersLost(ChiasmaError):
    """The workers of a client were lost again and again, or its scheduler ended."""


def check_client(client: Any) -> None:
    """Raise InvalidInput for what is no client that runs tasks while we wait."""
    if not callable(getattr(client, "submit", None)):
        raise InvalidInput(f"client must be a dask.distributed.Client, got {shown(client)}; pass Client(cluster)")
    if getattr(client, "asynchronous", False):
        raise InvalidInput("client must not be asynchronous: sample() waits for its tasks; pass Client(cluster)")


class RemoteRun(Run):
    """The chains of one call on the workers of a client. A thread here waits for every chain."""

    def __init__(self, client: Any, engines: list[Engine], workers: int, display: Progress, clock: WorkClock):
        super().__init__(engines, workers, display, clock)
        self.pool = ThreadPoolExecutor(len(engines))
        self.client = client
        self.sending = Lock()
        self.problem: Any = None  # the task whose result it is

    def _advance(self, until: int, engine: Engine, chain: int) -> bool:
        return self._take_turn(until, 0, engine, chain) is None or self.engines[chain].iteration >= until

    def _record(self, until: int, thin: int, trace: Trace, engine: Engine, chain: int) -> bool:
        draws = self._take_turn(until, thin, engine, chain)
        if draws is None:
            return True
        trace.append(chain, draws, self.engines[chain])
        return self.engines[chain].iteration >= until

    def _take_turn(self, until: int, thin: int, engine: Engine, chain: int) -> Draws | None:
        """Let a worker advance a chain; None if the run was stopped."""
        before, shared = engine.iteration, engine.problem
        with self.sending:
            if self.problem is None:
                self.problem = self._submit(unpack_problem, packed(shared), __version__)
        task = self._submit(take_turn, self.problem, packed(engine, shared), until, thin)
        while not task.done():
            if self.stop.wait(LOOK):
                task.cancel()
                return None
        found, draws = result_of(task)
        self.engines[chain] = engine = unpacked(found, shared)
        self.display.advance(chain, engine.iteration - before, engine, draws if thin else None)
        return draws

    def _submit(self, function: Callable[..., Any], *given: Any) -> Any:
        return self.client.submit(function, *given, key=f"chiasma-{uuid4().hex}", pure=False)


def result_of(task: Any) -> Any:
    """What a task has returned, or its error."""
    try:
        return task.result()
    except Exception as error:
        if type(error).__name__ in ("KilledWorker", "FutureCancelledError", "CancelledError"):
            raise WorkersLost(
                f"a task of the run was given up ({type(error).__name__}: {error}); look at the logs of the workers, "
                "which may need more memory. With store=, resume=True goes on after the last draws"
            ) from error
        raise


# ---- On a worker ----------------------------------------------------------------------------------------------------


def unpack_problem(content: bytes, version: str) -> Problem:
    """The problem of a run, once per worker."""
    if version != __version__:
        raise InvalidInput(f"the workers of the client have chiasma {__version__}, this process has {version}")
    problem: Problem = pickle.loads(content)
    return problem


def take_turn(problem: Problem, content: bytes, until: int, thin: int) -> tuple[bytes, Draws]:
    """Advance an engine for some seconds, at most to an iteration; returns it, and what it has drawn."""
    engine: Engine = unpacked(content, problem)
    end = time.monotonic() + TASK_SECONDS
    parts = [engine.record(engine.empty_draws(0, thin))]
    while engine.iteration < until:
        parts.append(engine.record(engine.advance(min(engine.piece(), until - engine.iteration), thin)))
        if time.monotonic() > end:
            break
    return packed(engine, problem), Draws(*map(np.concatenate, zip(*parts, strict=True)))


# ---- Engines as bytes -----------------------------------------------------------------------------------------------


def packed(thing: Engine | Problem, shared: Problem | None = None) -> bytes:
    """An engine without its problem, or a problem; functions that cannot be imported are packed by value."""
    with extra("cohort"):
        from cloudpickle import CloudPickler

    names = _names(shared)

    class Packer(CloudPickler):  # type: ignore[misc]  # it has no annotations
        def persistent_id(self, part: object) -> str | None:
            return names.get(id(part))

    file = io.BytesIO()
    try:
        Packer(file).dump(thing)
    except Exception as error:
        raise InvalidInput(
            f"the model cannot be sent to the workers of the client ({type(error).__name__}: {error}); its functions "
            "and what they refer to must be picklable"
        ) from error
    return file.getvalue()


def unpacked(content: bytes, shared: Problem) -> Engine:
    """The engine of `packed`, with this problem."""
    parts = {name: shared if name == "problem" else vars(shared)[name] for name in _names(shared).values()}

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, name: str) -> Any:
            return parts[name]

    engine: Engine = Unpacker(io.BytesIO(content)).load()
    return engine


def _names(shared: Problem | None) -> dict[int, str]:
    """The problem and its parts, to which an engine refers, by their identity."""
    if shared is None:
        return {}
    parts = {"problem": shared} | {name: vars(shared)[name] for name in shared.parts}
    return {id(part): name for name, part in parts.items() if part is not None}
