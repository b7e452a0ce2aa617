"""A pool of threads that Ctrl-C cannot hang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from chiasma.sampling.interrupts import WaitingInterrupts

# Seconds after which a wait looks whether it was interrupted.
LOOK = 0.1

Made = TypeVar("Made")


class Pool:
    """Threads whose locks are taken only while interrupts wait. An interrupt or an error drops the tasks that have not
    begun, and is raised when those that run have ended.

    Examples
    --------
    >>> with Pool(2) as pool:
    ...     list(pool.map(pow, [2, 3], [3, 2]))
    [8, 9]
    """

    def __init__(self, workers: int | None):
        self._threads = ThreadPoolExecutor(workers)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with WaitingInterrupts():
            self._threads.shutdown(cancel_futures=kind is not None)

    def map(self, function: Callable[..., Made], *tasks: Iterable[Any]) -> Iterator[Made]:
        """Results in the order of the tasks, which begin at once."""
        given = list(zip(*tasks, strict=True))  # they may be results of this pool: wait for these where Ctrl-C is heard
        with WaitingInterrupts():
            futures = [self._threads.submit(function, *one) for one in given]
        return (_result(future) for future in futures)


def _result(future: Future[Made]) -> Made:
    while True:
        with WaitingInterrupts():
            if wait([future], timeout=LOOK).done:
                return future.result()
