"""Files of a user's own that register emissions: `chiasma --plugin FILE.py` runs them before the command is read."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Lock

from chiasma.errors import InvalidInput

_loaded: dict[Path, None] = {}  # in order
_lock = Lock()


def load_plugins(files: Iterable[str | Path]) -> None:
    """Run Python files that register emissions, each once. A file becomes a module of its name."""
    with _lock:
        for file in files:
            _load(file)


def _load(file: str | Path) -> None:
    from chiasma.models.emissions import EMISSIONS  # slow, and commands without a plugin import this file, too

    path = Path(os.path.realpath(file))  # resolve() raises another error where links lead in a circle
    if path in _loaded:
        return
    if path.suffix != ".py" or not path.is_file():
        raise InvalidInput(f"--plugin takes a Python file such as laplace.py, got {str(file)!r}, which does not exist")
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        raise InvalidInput(f"--plugin {file}: there is a module {name!r} already; rename the file")
    before = dict(EMISSIONS)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
        where = f", line {lines[-1]}" if lines else ""
        raise InvalidInput(f"--plugin {file}{where}: {type(error).__name__}: {error}") from error
    if before == EMISSIONS:
        raise InvalidInput(
            f"--plugin {file} registers no emission; write at its end: ch.register_emission('laplace', Laplace)"
        )
    _loaded[path] = None


def loaded_plugins() -> tuple[str, ...]:
    """The files that were loaded, for other processes that need them as well."""
    return tuple(str(path) for path in _loaded)


def program() -> str:
    """How a command that needs the same plugins begins.

    >>> program()
    'chiasma'
    """
    return " ".join(["chiasma", *(f"--plugin {shlex.quote(path)}" for path in loaded_plugins())])
