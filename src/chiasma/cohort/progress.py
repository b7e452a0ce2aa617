"""Progress of a cohort: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from chiasma.cohort.outcome import DONE, FAILED, Outcome
from chiasma.results.warnings import count

# Seconds between two lines, and between two versions of cohort.tsv while a cohort runs.
EVERY = 30.0


class Progress:
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
        >>> progress = Progress(30, print, show=False)
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

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
