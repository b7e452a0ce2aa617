"""check_store: read everything that a run has on disk and compare it with its digests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chiasma.errors import StoreError
from chiasma.storage.locks import as_path
from chiasma.storage.opening import rebuild_stored, stored_betas, stored_data
from chiasma.storage.reading import (
    Run,
    check_static,
    checkpoint_name,
    only_store_errors,
    read_block,
    read_header,
    read_run,
)


@dataclass(frozen=True, kw_only=True)
class StoreCheck:
    """What `check_store` found.

    Parameters
    ----------
    n_files, n_bytes : how much was read.
    problems : what is wrong, each with the file and the remedy; empty where the store is sound.
    n_draws, draws_wanted : draws that every chain has stored, and draws per chain that were asked for.

    Examples
    --------
    >>> import chiasma as ch
    >>> found = ch.StoreCheck(n_files=12, n_bytes=4096, problems=(), n_draws=300, draws_wanted=500)
    >>> found
    StoreCheck(complete=False, problems=(), n_draws=300, draws_wanted=500, n_files=12, n_bytes=4096)
    """

    n_files: int
    n_bytes: int
    problems: tuple[str, ...]
    n_draws: int
    draws_wanted: int

    @property
    def complete(self) -> bool:
        """Whether all draws that were asked for are stored. They are sound only if there are no `problems`."""
        return self.n_draws >= self.draws_wanted

    def __repr__(self) -> str:
        names = ("complete", "problems", "n_draws", "draws_wanted", "n_files", "n_bytes")
        return f"StoreCheck({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def check_store(path: str | Path) -> StoreCheck:
    """Read every file of a stored run and compare it with its digest.

    Parameters
    ----------
    path : the store, as given to sample(store=...).

    Returns
    -------
    StoreCheck: its `problems` are empty where the store is sound; `complete` says whether all draws are there.

    Examples
    --------
    >>> import tempfile
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = ch.sample(model, [0.1, 2.9, 3.2], draws=5, seed=1, store=f"{folder}/run", progress=False)
    ...     found = ch.check_store(f"{folder}/run")
    >>> found.problems, found.complete
    ((), True)
    """
    folder = as_path("path", path)
    header = read_header(folder)  # raises an error if there is no run
    try:
        run = read_run(folder)
    except StoreError as error:
        return _found(header, 1, 0, [str(error)])
    n_files = n_bytes = 0
    problems = []
    for look in _looks(run):
        try:
            with only_store_errors(folder):
                size = look()
            n_bytes += size or 0
            n_files += size is not None
        except StoreError as error:
            problems.append(str(error))
    return _found(run.header, n_files, n_bytes, problems)


def _found(header: dict[str, Any], n_files: int, n_bytes: int, problems: list[str]) -> StoreCheck:
    return StoreCheck(
        n_files=n_files,
        n_bytes=n_bytes,
        problems=tuple(dict.fromkeys(problems)),
        n_draws=min(header["committed"]),
        draws_wanted=header["layout"]["n_draws"],
    )


def _looks(run: Run) -> Iterator[Callable[[], int | None]]:
    """Functions that each check one file and return its size, or what several hold together and return None."""
    layout = run.layout
    yield partial(_size, run, "zarr.json")
    for chain, n_draws in enumerate(run.committed):
        if n_draws:
            yield partial(_size, run, f"checkpoints/{checkpoint_name(chain, n_draws)}")
    for file in run.header.get("static", ()):
        yield partial(check_static, run, file)
    for read in (stored_data, stored_betas, rebuild_stored):
        yield partial(_read, read, run)
    for name in layout.records:
        yield partial(_check_own_metadata, run, name)
        for chain, n_draws in enumerate(run.committed):
            for chunk in range(-(-n_draws // layout.chunk_draws)):
                yield partial(_check_chunk, run, name, chain, chunk)


def _read(read: Callable[[Run], object], run: Run) -> None:
    read(run)


def _size(run: Run, file: str) -> int:
    return (run.path / file).stat().st_size


def _check_chunk(run: Run, name: str, chain: int, chunk: int) -> int:
    read_block(run, name, chain, chunk)
    return _size(run, str(run.layout.chunk_file(name, chain, chunk)))


def _check_own_metadata(run: Run, name: str) -> int:
    """An array's own metadata, which only other programs read, may lag behind in the number of draws."""
    file = run.path / name / "zarr.json"
    whole = run.header["metadata"][name]
    try:
        content = file.read_bytes()
        own = json.loads(content)
        lags = own["shape"][1] <= whole["shape"][1]
        own["shape"][1] = whole["shape"][1]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise StoreError(f"{file} cannot be read ({error}); restore it from a backup") from error
    if own != whole or not lags:
        raise StoreError(f"{file} does not match the metadata of the run; restore it from a backup")
    return len(content)
