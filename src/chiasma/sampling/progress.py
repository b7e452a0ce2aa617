"""Progress: a live display per chain on a terminal; prints nothing elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chiasma.sampling.engines import Engine
    from chiasma.storage.trace import Draws


class Progress:
    """One bar per chain: iterations, log joint, columns per exchange, time left."""

    def __init__(self, wanted: bool, reason: str, seed: int):
        self._bars: Any = None
        self._tasks: list[Any] = []
        if not wanted:
            return
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            console.print(f"[bold]chiasma[/bold] {reason} (seed {seed})", highlight=False)
            self._open(console)

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
        if self._bars is None or total == 0:
            return
        for task in self._tasks:
            self._bars.remove_task(task)
        self._tasks = [self._bars.add_task(f"{stage}, chain {c}", total=total, note="") for c in range(n_chains)]

    def advance(self, chain: int, n: int, engine: Engine, draws: Draws | None) -> None:
        """Called by the chain's own thread."""
        if self._bars is None:
            return
        note = ""
        if draws is not None and len(draws.log_prior):
            note = f"log joint {draws.log_prior[-1] + draws.log_lik[-1, -1]:.1f}"
        n_moves = int(engine.tally.moves.sum())
        if n_moves:
            note += f"  {engine.tally.columns.sum() / n_moves:.1f} columns per exchange"
        self._bars.update(self._tasks[chain], advance=n, note=note)

    def refresh(self) -> None:
        if self._bars is not None:
            self._bars.refresh()

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
