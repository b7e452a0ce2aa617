"""The command line: parse, call one public function, print.

Results go to stdout; progress, notes and errors go to stderr. Commands import what they need when they run, so that
help and completion are fast. Exit codes: 0, 1 if a sample of a cohort failed, 2 for a user's mistake, 130 after Ctrl-C,
143 after SIGTERM and 129 after SIGHUP.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from chiasma.cli.channels import channels
from chiasma.cli.cohort import CohortCommand, cohort
from chiasma.cli.compare import compare
from chiasma.cli.demo import demo
from chiasma.cli.examples import OVERVIEW, examples
from chiasma.cli.fit import FitCommand, fit
from chiasma.cli.help import Command
from chiasma.cli.mistakes import MISTAKE, Commands, printable
from chiasma.cli.show import show
from chiasma.cli.signals import INTERRUPTED, exit_code, leave, listen
from chiasma.cli.simulate import simulate
from chiasma.cli.tumour import tumour
from chiasma.io.plugins import load_plugins

app = typer.Typer(
    name="chiasma",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command in sys.argv."""
    # Starts and chains have their own threads. Those of BLAS wait for each other on a busy machine: a search then
    # took three times as long. To be set before NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale such as C cannot show every character
    try:
        listen()
        app()
    except OSError as error:  # stdout is full, or a library cannot be loaded
        with suppress(OSError):
            typer.echo(f"error: {printable(error.strerror or str(error))}", err=True)
        raise SystemExit(MISTAKE) from None
    except KeyboardInterrupt:  # before a command began
        raise SystemExit(exit_code()) from None
    except SystemExit as end:
        # Typer says 130 of any signal that comes while it reads the words.
        raise SystemExit(exit_code() if end.code == INTERRUPTED else end.code) from None
    finally:
        leave()


def _show_version(wanted: bool) -> None:
    if wanted:
        from chiasma import __version__

        typer.echo(f"chiasma {__version__}")
        raise typer.Exit


@app.callback(epilog=examples(OVERVIEW))
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.py",
            envvar="CHIASMA_PLUGIN",
            help="Python file with an emission of your own, registered by ch.register_emission; can be repeated.",
            show_default=False,
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(min=1, help="Largest data file, unpacked, in bytes. Default: 1 GiB.", show_default=False),
    ] = None,
) -> None:
    """Bayesian inference in factorial hidden Markov models."""
    if max_bytes is not None:
        os.environ["CHIASMA_MAX_BYTES"] = str(max_bytes)  # workers inherit it
    load_plugins(plugin or ())  # before the options of the command are read: an emission has its own


OWN_OPTIONS: dict[object, type[Command]] = {fit: FitCommand, cohort: CohortCommand}

for command in (demo, tumour, channels, simulate, fit, show, compare, cohort):
    app.command(cls=OWN_OPTIONS.get(command, Command))(command)
