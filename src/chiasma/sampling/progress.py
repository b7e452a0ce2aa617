"""Progress: a live display per chain on a terminal; where output is redirected, a line every so often.

The time left follows from the pace after the first piece of work: that piece waits until its kernels are compiled.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chiasma.sampling.engines import Engine
    from chiasma.storage.trace import Draws

# Seconds before the first line of a redirected run, and between lines: each twice as long as the last, up to a limit.
FIRST_LINE, LONGEST_WAIT = 5.0, 60.0
# What may keep the first piece of work waiting; short enough for a bar on a terminal of 80 columns.
COMPILING = "kernels may be compiling"


class Pace:
    """How fast steps are made, from the moment on when each of several parts has finished its first piece.

    Parts work at the same time: the chains of a run, or as many tasks as there are threads.

    Examples
    --------
    >>> now = [0.0]
    >>> pace = Pace(parts=1, clock=lambda: now[0])
    >>> now[0] = 60.0  # kernels are compiled
    >>> pace.add(10)
    >>> pace.seconds_for(100) is None
    True
    >>> now[0] = 61.0
    >>> pace.add(10)
    >>> pace.seconds_for(100)
    10.0
    """

    def __init__(self, parts: int, clock: Callable[[], float]):
        self.parts, self.clock = parts, clock
        self.begun: set[int] = set()
        self.made = 0  # steps since the first pieces
        self.since = self.last = 0.0
        self.opened = clock()

    @property
    def is_waiting(self) -> bool:
        """Whether no part has finished anything yet, after some seconds."""
        return not self.begun and self.clock() - self.opened >= FIRST_LINE

    def add(self, n: int, part: int | None = None) -> None:
        """n steps were made by a part; None: by a separate task."""
        now = self.clock()
        if len(self.begun) < self.parts:
            self.begun.add(len(self.begun) if part is None else part)
            self.since = now
        else:
            self.made += n
        self.last = now

    def seconds_for(self, n: int) -> float | None:
        """How long n steps will take, from now on; None while that is not known."""
        if not self.made or self.last <= self.since:
            return None
        return max(n * (self.last - self.since) / self.made - (self.clock() - self.last), 0.0)


class Progress:
    """One bar per chain: iterations, log joint, sites per exchange, time left; or lines without a terminal."""

    def __init__(self, wanted: bool, reason: str, seed: int, last: str = "draws"):
        """last: the stage that no other follows. The time left is that of a stage, and of the others it says so."""
        self._last = last
        self._bars: Any = None
        self._lines: LogLines | None = None
        self._tasks: list[Any] = []
        self._paces: list[Pace] = []
        self._seed = seed
        self._untold: str | None = reason
        if not wanted:
            return
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            self._make_bars(console)
        else:
            self._lines = LogLines(reason)

    def tell(self, reason: str) -> None:
        """Say with the next stage what was chosen and why."""
        self._untold = reason
        if self._lines is not None:
            self._lines.reason = reason

    def resume(self, done: int, total: int) -> None:
        """Say how many draws per chain an earlier call has stored."""
        self.say(f"resumed: {done:,} of {total:,} draws per chain are stored")

    def say(self, text: str) -> None:
        """Print a line at once."""
        if self._bars is not None:
            self._bars.console.print(text, highlight=False)
        if self._lines is not None:
            self._lines.write(f"chiasma: {text}")

    def _make_bars(self, console: Any) -> None:
        from rich import progress
        from rich.text import Text

        class TimeLeft(progress.ProgressColumn):
            """Nothing before the pace is known, nor after the end; but where nothing happens, why that may be."""

            def render(self, task: progress.Task) -> Text:
                pace = task.fields["pace"]
                if task.remaining and pace.is_waiting:
                    return Text(COMPILING)
                left = pace.seconds_for(task.remaining) if task.remaining else None
                return Text("" if left is None else _left(left, task.fields["more"]))

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[note]}"),
            TimeLeft(),
            console=console,
            auto_refresh=False,
        )

    def open(self) -> None:
        """Show the display, and say what was chosen if that is not known yet."""
        if self._bars is not None:
            self._bars.start()
            if self._untold is not None:
                self._bars.console.print(f"[bold]chiasma[/bold] {self._untold} (seed {self._seed})", highlight=False)
                self._untold = None

    def begin(
        self, stage: str, total: int, n_chains: int = 0, done: Sequence[int] | None = None, at_once: int = 1
    ) -> None:
        """A stage of this many steps, of every chain or (n_chains = 0) of none.

        done : steps each has behind it. at_once : steps of a stage without chains that are made at the same time.
        """
        done = done or [0] * max(n_chains, 1)
        if self._lines is not None:
            unfinished = sum(own < total for own in done)
            parts = unfinished if n_chains else at_once
            self._lines.begin(stage, total * max(n_chains, 1), sum(done), parts, stage != self._last)
        self.open()
        if self._bars is None or total == 0:
            return
        for task in self._tasks:
            self._bars.remove_task(task)
        names = [f"{stage}, chain {c}" for c in range(n_chains)] if n_chains else [stage]
        self._paces = [Pace(1 if n_chains else at_once, time.monotonic) for _ in names]
        tasks = zip(names, done, self._paces, strict=True)
        more = stage != self._last
        self._tasks = [
            self._bars.add_task(name, total=total, completed=own, note="", pace=pace, more=more)
            for name, own, pace in tasks
        ]

    def advance(self, chain: int, n: int, engine: Engine, draws: Draws | None) -> None:
        """Called by the chain's own thread."""
        if self._lines is not None:
            self._lines.advance(n, chain)
        if self._bars is None:
            return
        self._paces[chain].add(n)
        note = ""
        if draws is not None and len(draws.log_prior):
            note = f"log joint {draws.log_prior[-1] + draws.log_lik[-1, -1]:.1f}"
        n_moves = int(engine.tally.moves.sum())
        if n_moves:
            places = "coordinates" if engine.problem.name == "x" else "sites"
            note += f"  {engine.tally.columns.sum() / n_moves:.1f} {places} per exchange"
        self._bars.update(self._tasks[chain], advance=n, note=note)

    def tick(self) -> None:
        """One step of a stage that is not one of chains."""
        if self._lines is not None:
            self._lines.advance(1)
        if self._bars is not None:
            self._paces[0].add(1)
            self._bars.update(self._tasks[0], advance=1)
        self.refresh()

    def refresh(self) -> None:
        if self._bars is not None:
            self._bars.refresh()
        if self._lines is not None:
            self._lines.tell_if_due()

    def close(self) -> None:
        """Until it is opened again."""
        if self._bars is not None:
            self._bars.stop()


class LogLines:
    """Lines on stderr for logs: how far a stage is and how long it may take. A short run says nothing.

    Examples
    --------
    >>> now = [0.0]
    >>> lines = LogLines("exact draws", clock=lambda: now[0], write=print)
    >>> lines.begin("draws", 400)
    >>> now[0] = 5.0
    >>> lines.tell_if_due()
    chiasma: exact draws
    chiasma: draws 0 of 400 (0%), 5 s, kernels may be compiling (once per machine)
    >>> now[0] = 20.0
    >>> lines.advance(50)
    >>> lines.tell_if_due()
    chiasma: draws 50 of 400 (12%), 20 s, time left not known yet
    >>> now[0] = 40.0
    >>> lines.advance(50)
    >>> lines.tell_if_due()
    chiasma: draws 100 of 400 (25%), 40 s, about 2 min 0 s left
    """

    def __init__(
        self,
        reason: str,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ):
        self.reason: str | None = reason
        self.clock, self.write = clock, write
        self.lock = Lock()
        self.stage, self.done, self.total, self.wait = "", 0, 0, FIRST_LINE
        self.next = clock() + self.wait
        self.began, self.before, self.more = 0.0, 0, False
        self.pace = Pace(1, clock)

    def begin(self, stage: str, total: int, done: int = 0, parts: int = 1, more: bool = False) -> None:
        """done: steps of the total that were done before, which say nothing about the pace; parts: see `Pace`.

        more : other stages follow.
        """
        with self.lock:
            self.more = more
            self.stage, self.total, self.began = stage, total, self.clock()
            self.done = self.before = done
            self.pace = Pace(parts, self.clock)
            self.next = min(self.next, self.began + FIRST_LINE)  # that a stage has begun is news

    def advance(self, n: int, part: int | None = None) -> None:
        with self.lock:
            self.done += n
            self.pace.add(n, part)

    def tell_if_due(self) -> None:
        """Write a line if the last one is long ago."""
        if self.clock() < self.next or not self.total:
            return
        now = self.clock()
        with self.lock:
            done, total, spent = self.done, self.total, now - self.began
            made, seconds = done - self.before, self.pace.seconds_for(total - done)
            unknown = f"{COMPILING} (once per machine)" if self.pace.is_waiting else "time left not known yet"
        if not made and spent < FIRST_LINE:
            return  # the stage has only begun
        if self.reason is not None:
            self.write(f"chiasma: {self.reason}")
            self.reason = None
        left = unknown if seconds is None else _left(seconds, self.more)
        self.write(f"chiasma: {self.stage} {done:,} of {total:,} ({done / total:.0%}), {_time(spent)}, {left}")
        self.wait = min(2 * self.wait, LONGEST_WAIT)
        self.next = now + self.wait


def _left(seconds: float, more: bool) -> str:
    """The time left; more: of a stage that others follow."""
    return f"about {_time(seconds)} left{' of this stage' if more else ''}"


def _time(seconds: float) -> str:
    """Seconds, minutes or hours, in words.

    >>> _time(59.4), _time(90), _time(7260)
    ('59 s', '1 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
