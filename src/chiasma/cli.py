"""The command line: parse, call one public function, print.

Commands import what they need when they run, so that help and completion do not wait for it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from chiasma.errors import ChiasmaError

if TYPE_CHECKING:
    from rich.table import Table

    from chiasma.experiments.study import Comparison

app = typer.Typer(
    name="chiasma",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

EXAMPLES = """
[bold]Examples[/bold]

  chiasma demo

  chiasma demo --seed 7 --sweeps 20000
"""


def main() -> None:
    """Entry point: a user's mistake is one line on stderr and exit code 2, never a traceback."""
    try:
        app()
    except ChiasmaError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        from chiasma import __version__

        typer.echo(f"chiasma {__version__}")
        raise typer.Exit


@app.callback(epilog=EXAMPLES)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bayesian inference in factorial hidden Markov models."""


@app.command(epilog=EXAMPLES)
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise and of the samplers.")] = 1,
    sweeps: Annotated[int, typer.Option(help="Sweeps of every sampler.")] = 1_000,
) -> None:
    """Simulate the paper's three-row study, solve it exactly, and sample it by every update."""
    from rich.console import Console

    from chiasma.experiments.study import compare_updates, simulation_study

    console = Console()
    study = simulation_study(seed)
    with console.status("solving and sampling (the first run compiles, which takes a little longer)"):
        comparison = compare_updates(study, sweeps, seed)
    console.print(_demo_table(comparison, seed))
    console.print(comparison.in_words())


def _demo_table(comparison: Comparison, seed: int) -> Table:
    from rich.table import Table

    table = Table(
        title="Is a block of the signal (1, 1, 0) or (0, 0, 1)?",
        caption=f"Seed {seed}, {comparison.n_sweeps:,} sweeps of every update. "
        f"Log evidence, exact: {comparison.log_evidence:.4f}",
    )
    table.add_column("method")
    for heading in ("mean error of\nthe marginals", "mean P(x3 = 1)\nin the blocks", "seconds"):
        table.add_column(heading, justify="right", vertical="bottom")
    for name, error, third_row, seconds in comparison.entries:
        table.add_row(name, f"{error:.4f}", f"{third_row:.3f}", "" if seconds is None else f"{seconds:.4f}")
    return table
