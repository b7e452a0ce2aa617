"""Threads that Ctrl-C cannot hang: interrupts that wait for a safe moment, and pools.

Python runs a signal handler between any two steps of the main thread, also between taking a lock and the first line
that the lock protects. A KeyboardInterrupt there leaves the lock taken for good: the threads of a pool would wait for
it, and the main thread for them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import FrameType
from typing import Any, TypeVar

from chiasma.stopping import asked, stopping_on

# Seconds after which a wait looks whether it was interrupted.
LOOK = 0.1

Made = TypeVar("Made")

_ENDING = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


class WaitingInterrupts:
    """While entered, Ctrl-C and signals to end are noted, and take effect at `raise_noted` or at the end.

    Signals that Python does not handle (the default of SIGTERM, what nohup ignores) and other threads, which hear of no
    signal, are left alone.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._noted: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> WaitingInterrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is None:  # an error that is on its way is told first
            self.raise_noted()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.append((number, frame))

    def raise_noted(self) -> None:
        """Call the handlers of what was noted: that of Ctrl-C raises KeyboardInterrupt."""
        while self._noted:
            number, frame = self._noted.pop(0)
            self._handlers[number](number, frame)


class Pool:
    """Threads whose locks are taken only while interrupts wait. An interrupt or an error drops the tasks that have not
    begun, stops those that run where they look (`chiasma.stopping`), and is raised when they have ended.

    Examples
    --------
    >>> with Pool(2) as pool:
    ...     list(pool.map(pow, [2, 3], [3, 2]))
    [8, 9]
    """

    def __init__(self, workers: int | None):
        self._threads = ThreadPoolExecutor(workers)
        self._stop = threading.Event()
        self._events = (*asked(), self._stop)  # a task of another pool stops with that one

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stop.set()
        with WaitingInterrupts():
            self._threads.shutdown(cancel_futures=kind is not None)

    def map(self, function: Callable[..., Made], *tasks: Iterable[Any]) -> Iterator[Made]:
        """Results in the order of the tasks, which begin at once."""
        given = list(zip(*tasks, strict=True))  # they may be results of this pool: wait for these where Ctrl-C is heard
        with WaitingInterrupts():
            futures = [self._threads.submit(stopping_on, self._events, function, *one) for one in given]
        return (_result(future) for future in futures)


def _result(future: Future[Made]) -> Made:
    while True:
        with WaitingInterrupts():
            if wait([future], timeout=LOOK).done:
                return future.result()
