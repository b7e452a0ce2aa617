"""Signals: Ctrl-C, SIGTERM and SIGHUP end a command after a flush, with exit codes 130, 143 and 129.

A second Ctrl-C ends it at once. A handler in Python would wait until the kernel that is running returns; a thread that
the system wakes does not. What is on disk stays readable either way.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

INTERRUPTED = 130
_ENDING = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
_received: list[int] = []


def exit_code() -> int:
    """The code with which an interrupted command ends."""
    return 128 + _received[0] if _received else INTERRUPTED


def listen() -> None:
    """Called once, before a command runs. A signal that is ignored, as under nohup, stays ignored."""
    for number in _ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), daemon=True).start()


def leave() -> None:
    """The command has ended: the first signal from here on ends the process, not with a traceback of its shutdown."""
    if not _received:
        for number in _ENDING:
            if signal.getsignal(number) is _interrupt:
                signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once is enough: a second SIGTERM, which some systems send, must not break off the flush.
    if not _received:
        _received.append(number)
        raise KeyboardInterrupt


def _watch(reader: int) -> None:
    """The system writes the number of every signal into the pipe, whatever Python is doing."""
    n_seen = 0
    while content := os.read(reader, 64):
        for number in content:
            if number == signal.SIGINT and n_seen:
                os._exit(INTERRUPTED)
            n_seen += number in _ENDING
