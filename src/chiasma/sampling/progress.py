"""Progress on stderr: a live display per chain on a terminal, elsewhere (a log file, a pipe) a line now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chiasma.sampling.engines import Engine
    from chiasma.storage.trace import Draws

# Seconds to the first line of a run whose output is not a terminal, and from line to line; shorter runs say nothing.
FIRST_LINE, NEXT_LINE = 5.0, 15.0


class Progress:
    """Iterations, log joint, columns per exchange, time left: bars, one per chain, or lines for all chains."""

    def __init__(self, wanted: bool, reason: str, seed: int):
        self._bars: Any = None
        self._tasks: list[Any] = []
        self._console: Any = None
        self._total = 0
        self._reason = f"[bold]chiasma[/bold] {reason} (seed {seed})"
        if not wanted:
            return
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            console.print(self._reason, highlight=False)
            self._open(console)
        else:
            self._console = console
            self._next = time.monotonic() + FIRST_LINE
            self._said = False
            self._note = ""

    def _open(self, console: Any) -> None:
        from rich import progress

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[note]}"),
            progress.TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
        )
        self._bars.start()

    def begin(self, stage: str, total: int, n_chains: int) -> None:
        """A stage of `total` steps for each of n_chains."""
        self._stage, self._total, self._done = stage, total * n_chains, 0
        self._began = time.monotonic()
        if self._bars is None or total == 0:
            return
        for task in self._tasks:
            self._bars.remove_task(task)
        whose = [f"{stage}, chain {c}" for c in range(n_chains)] if n_chains > 1 else [stage]
        self._tasks = [self._bars.add_task(name, total=total, note="") for name in whose]

    def advance(self, chain: int, n: int, engine: Engine, draws: Draws | None) -> None:
        """Called by the chain's own thread."""
        if self._bars is None and self._console is None:
            return
        note = ""
        if draws is not None and len(draws.log_prior):
            note = f"log joint {draws.log_prior[-1] + draws.log_lik[-1, -1]:.1f}"
        n_moves = int(engine.tally.moves.sum())
        if n_moves:
            note += f"  {engine.tally.columns.sum() / n_moves:.1f} columns per exchange"
        self._step(chain, n, note)

    def tick(self, n: int) -> None:
        """n steps of a stage that is not one of chains."""
        if self._bars is not None or self._console is not None:
            self._step(0, n, "")
            self.refresh()

    def _step(self, chain: int, n: int, note: str) -> None:
        if self._bars is not None:
            self._bars.update(self._tasks[chain], advance=n, note=note)
        else:
            self._done += n
            self._note = note or self._note

    def refresh(self) -> None:
        if self._bars is not None:
            self._bars.refresh()
        elif self._console is not None and time.monotonic() >= self._next and self._total:
            self._line()

    def _line(self) -> None:
        """One line for all chains together."""
        if not self._said:
            self._console.print(self._reason, highlight=False, soft_wrap=True)
            self._said = True
        share = self._done / self._total
        spent = time.monotonic() - self._began
        left = f", about {spent * (1 - share) / share:,.0f} s left" if share > 0.02 else ""
        note = f", {self._note}" if self._note else ""
        text = f"{self._stage}: {self._done:,} of {self._total:,} ({share:.0%}){note}{left}"
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
        self._next = time.monotonic() + NEXT_LINE

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
