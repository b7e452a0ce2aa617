"""Interrupts that wait for a safe moment.

Python runs a signal handler between any two steps of the main thread, also between taking a lock and the first line
that the lock protects. A KeyboardInterrupt there leaves the lock taken for good: the threads of a pool would wait for
it, and the main thread for them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

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
