"""How commands fail: one line on stderr and an exit code, never a traceback for a user's mistake."""

from __future__ import annotations

import errno
from typing import Any

import typer
from typer.core import TyperGroup

from chiasma.errors import ChiasmaError

MISTAKE = 2
INTERRUPTED = 130


class Commands(TyperGroup):
    """The commands, with exceptions turned into messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ChiasmaError as error:
            raise stop(f"error: {error}", MISTAKE) from error
        except KeyboardInterrupt:
            raise stop("interrupted", INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE or error.filename is None:
                raise
            raise stop(f"error: {error.filename}: {error.strerror}", MISTAKE) from error


def stop(message: str, code: int) -> typer.Exit:
    """Print the message on stderr; returns the exception to raise."""
    typer.echo(" ".join(message.split()), err=True)
    return typer.Exit(code)
