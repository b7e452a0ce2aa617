"""How commands fail: one line on stderr and an exit code, never a traceback for a user's mistake."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from chiasma.cli.signals import exit_code
from chiasma.errors import ChiasmaError, InvalidInput

MISTAKE = 2
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Commands(TyperGroup):
    """The commands, with exceptions turned into messages and exit codes."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        for flag, value in (("--plugin", "FILE.py"), ("--max-bytes", "N")):
            if any(arg.partition("=")[0] == flag for arg in args):
                raise InvalidInput(f"{flag} comes before the command: chiasma {flag} {value} {args[0]} ...")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ChiasmaError as error:
            raise stop(f"error: {error}", MISTAKE) from error
        except KeyboardInterrupt:
            raise stop("interrupted", exit_code()) from None
        except MemoryError as error:
            raise stop(
                "error: there is not enough memory; take fewer draws, chains or rows, or a machine with more", MISTAKE
            ) from error
        except OSError as error:
            if error.errno in _FULL and error.filename is None:
                again = "free some space, then repeat the command; of a run that has its draws, chiasma show is enough"
                raise stop(f"error: {error.strerror}; {again}", MISTAKE) from error
            if error.errno == errno.EPIPE or error.filename is None:
                raise
            # A file that cannot be renamed has a temporary name, and the one that it should have.
            raise stop(f"error: {error.filename2 or error.filename}: {error.strerror}", MISTAKE) from error


def check_out(out: Path, *answers: str) -> None:
    """Raise InvalidInput if an answer cannot be written to a directory, before anything is computed.

    answers : patterns of files that an earlier answer has, which may be overwritten.
    """
    place = out
    while not os.path.lexists(place):
        place = place.parent
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise InvalidInput(
            f"cannot write to {out}: {place} is no directory that can be written to; choose another --out"
        )
    if out.exists() and any(out.iterdir()) and not any(any(out.glob(answer)) for answer in answers):
        raise InvalidInput(f"{out} exists and holds no earlier answer; choose another --out")


def stop(message: str, code: int) -> typer.Exit:
    """Print the message on stderr; returns the exception to raise."""
    typer.echo(printable(" ".join(message.split())), err=True)
    return typer.Exit(code)


def printable(text: str) -> str:
    r"""The text with control characters spelled out: a name from a data file must not steer the terminal.

    >>> printable("chr1\x1b[31m")
    'chr1\\x1b[31m'
    """
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)
