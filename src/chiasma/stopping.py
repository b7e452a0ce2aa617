"""Cancellation: threads of a pool end soon after the pool is asked to stop, for example by Ctrl-C or SIGTERM.

A thread cannot be interrupted from outside. So long computations call `look` at least every second; it does nothing
elsewhere, such as in the threads of chains, which end at the next draw instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
_asked = threading.local()


class Stopped(BaseException):
    """Raised in a computation that was asked to stop; its result is no longer needed."""


def asked() -> tuple[threading.Event, ...]:
    """The events on which the computations of this thread stop."""
    found: tuple[threading.Event, ...] = getattr(_asked, "events", ())
    return found


def look() -> None:
    """Raise Stopped if the computation of this thread was told to stop."""
    if any(event.is_set() for event in asked()):
        raise Stopped


def stopping_on(events: tuple[threading.Event, ...], function: Callable[..., Made], *given: Any) -> Made:
    """Call a function that stops once one of these events is set."""
    before, _asked.events = asked(), events
    try:
        look()
        return function(*given)
    finally:
        _asked.events = before
