"""The chains of one run, advanced together by a pool of threads: warm-up with ladder adaptation, draws, interrupts.

Its times are those of the work: `WorkClock` stands still while kernels are compiled, which has a separate time.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event, Lock

from numba.core.event import Listener, register, unregister

from chiasma.results.ladder_stats import rejections
from chiasma.sampling.engines import Engine
from chiasma.sampling.ladder import Ladder, adapted_betas, resized
from chiasma.sampling.progress import Progress
from chiasma.sampling.threads import WaitingInterrupts
from chiasma.stopping import Stopped, stopping_on
from chiasma.storage.trace import Draws, Trace

LOG = logging.getLogger("chiasma")
# Seconds that a chain keeps its thread while others wait, so that an interrupted run has draws of all chains.
TURN = 0.2
# Seconds that an interrupted run gives its chains to complete what they are at; then it is dropped.
GRACE = 0.5


class WorkClock(Listener):  # type: ignore[misc]  # numba has no annotations
    """A clock that stands still while kernels are compiled, by any thread.

    Examples
    --------
    >>> with WorkClock() as clock:
    ...     began = clock()
    >>> clock() >= began, clock.compiling
    (True, 0.0)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._depth = 0  # a kernel compiles those that it calls
        self._since = self._before = 0.0
        self._told = False

    def __enter__(self) -> WorkClock:
        register("numba:compile", self)
        return self

    def __exit__(self, *_: object) -> None:
        unregister("numba:compile", self)

    def __call__(self) -> float:
        """Seconds since some moment, without those of compilation."""
        return time.perf_counter() - self.compiling

    @property
    def compiling(self) -> float:
        """Seconds of compilation so far."""
        with self._lock:
            return self._before + (time.perf_counter() - self._since if self._depth else 0.0)

    def on_start(self, event: object) -> None:
        """Called by numba when it begins to compile a kernel."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._since = time.perf_counter()
            first, self._told = not self._told, True
        if first:
            LOG.info("compiling kernels, once per machine")

    def on_end(self, event: object) -> None:
        """Called by numba when a kernel is compiled."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._before += time.perf_counter() - self._since


class Run:
    """The chains of one call, advanced together by a pool of threads."""

    def __init__(self, engines: list[Engine], workers: int, display: Progress, clock: WorkClock):
        self.engines = engines
        self.display = display
        self.workers = workers
        self.stop = Event()  # no more pieces
        self.drop = Event()  # not even what is left of this one
        self.took = [math.inf] * len(engines)  # seconds of the last piece of every chain
        self.pool = ThreadPoolExecutor(workers)
        self.clock = clock
        self.timings: dict[str, float] = {}
        self.drawing_since: float | None = None

    def __enter__(self) -> Run:
        self.display.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        with WaitingInterrupts():
            self.pool.shutdown()
        self.display.close()

    def prepare(self) -> float | None:
        """Compute once what all chains share, such as an exact filter; returns the log evidence if that yields it."""
        began = self.clock()
        log_evidence = self.engines[0].prepare()
        if log_evidence is not None:
            self.timings["filter"] = self.clock() - began
        return log_evidence

    def warm_up(self, n: int, ladder: Ladder) -> None:
        """Warm up in rounds of doubling length. The ladder adapts between rounds and is fixed in the last."""
        began = self.clock()
        for engine in self.engines:
            engine.begin(self.display, self.workers)
        rounds = warmup_rounds(n) if ladder.adapt or self.engines[0].pools else [n]
        self.display.begin("warm-up", n, len(self.engines))
        for i, length in enumerate(rounds):
            self._all(partial(self._advance, self.engines[0].iteration + length))
            if i >= len(rounds) - 2:
                self.engines[0].pool(self.engines, last=i == len(rounds) - 1)
            if ladder.adapt and i < len(rounds) - 1:
                # The number of rungs changes only in the first half, so that new replicas have time to warm up.
                self._adapt(resize=ladder.resize and i < len(rounds) // 2)
        for engine in self.engines:
            engine.restart()
        self.timings["warmup"] = self.clock() - began

    def _adapt(self, resize: bool) -> None:
        if not self.engines[0].tally.steps[0]:
            return  # no exchange yet, so there are no rejections to adapt to
        betas = self.engines[0].betas
        _, lengths = rejections([engine.tally for engine in self.engines], betas)
        adapted = adapted_betas(betas, lengths, resized(lengths) if resize else len(betas))
        for engine in self.engines:
            engine.set_betas(adapted)

    def keep(self, trace: Trace, n_draws: int, thin: int) -> None:
        self.drawing_since = self.clock()
        done = [engine.iteration for engine in self.engines]
        self.display.begin("draws", n_draws * thin, len(self.engines), done)
        try:
            self._all(partial(self._record, n_draws * thin, thin, trace))
        except KeyboardInterrupt:
            if min(trace.filled) == 0:
                raise
        self.timings["draws"] = self.clock() - self.drawing_since
        self.drawing_since = None

    def elapsed(self) -> dict[str, float]:
        """Seconds of every stage so far; that of the draws while they are being made."""
        since = self.drawing_since
        timings = self.timings | ({} if since is None else {"draws": self.clock() - since})
        return timings | ({"compilation": self.clock.compiling} if self.clock.compiling else {})

    def _all(self, task: Callable[[Engine, int], bool]) -> None:
        """Run chains in turns until each is done; an interrupt or an error stops all after the current piece."""
        turns: dict[Future[bool], int] = {}
        with WaitingInterrupts() as interrupts:
            try:
                for chain, engine in enumerate(self.engines):
                    turns[self.pool.submit(task, engine, chain)] = chain
                while turns:
                    ended, _ = wait(turns, timeout=0.1, return_when=FIRST_COMPLETED)
                    self.display.refresh()
                    for future in ended:
                        chain = turns.pop(future)
                        if not future.result():
                            turns[self.pool.submit(task, self.engines[chain], chain)] = chain
                    interrupts.raise_noted()
            except BaseException:
                self.stop.set()
                wait(turns, timeout=GRACE)
                self.drop.set()
                wait(turns)
                raise

    def _pieces(self, until: int, engine: Engine) -> Iterator[int]:
        """Lengths of the pieces of one turn on the way to iteration `until`."""
        end = time.monotonic() + TURN
        while engine.iteration < until and not self.stop.is_set():
            yield min(engine.piece(), until - engine.iteration)
            if time.monotonic() > end:
                return

    def _advance(self, until: int, engine: Engine, chain: int) -> bool:
        for step in self._pieces(until, engine):
            stopping_on((self.drop,), engine.advance, step, 0)
            self.display.advance(chain, step, engine, None)
        return engine.iteration >= until

    def _record(self, until: int, thin: int, trace: Trace, engine: Engine, chain: int) -> bool:
        for step in self._pieces(until, engine):
            draws = self._draw(step, thin, engine, chain)
            if draws is None:
                return False
            trace.append(chain, engine.record(draws), engine)
            self.display.advance(chain, step, engine, draws)
        return engine.iteration >= until

    def _draw(self, n: int, thin: int, engine: Engine, chain: int) -> Draws | None:
        """The next draws; None if they were dropped, and the chain is in the state before them."""
        slow = self.took[chain] > GRACE / 2
        before = copy.deepcopy(engine.checkpoint()) if slow else {}
        began = time.monotonic()
        try:
            return stopping_on((self.drop,) if slow else (), engine.advance, n, thin)
        except Stopped:
            engine.restore(before)
            return None
        finally:
            self.took[chain] = time.monotonic() - began


def warmup_rounds(n: int) -> list[int]:
    """Lengths of the warm-up rounds: they double and add up to n; the last one is at least half of n.

    >>> warmup_rounds(1000)
    [31, 62, 124, 248, 535]
    """
    lengths: list[int] = []
    length = max(4, n // 32)
    while 2 * length <= n - sum(lengths) - length:
        lengths.append(length)
        length *= 2
    return [*lengths, n - sum(lengths)]
