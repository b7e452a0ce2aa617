"""The files of a store: their shapes and names, how they are put in place, and how they are read back.

The layout of a run is described in chiasma.storage.store, which writes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.errors import StoreError

FORMAT = 1
KEY = "chiasma"
_AGAIN = "make room there, then go on with resume=True: draws up to the last flush are safe"
_REMEDIES = {"create": "choose another path", "write to": _AGAIN, "read": "check the path"}


class Layout(NamedTuple):
    """Shapes of a run."""

    name: str  # of the draws: "codes" or "x"
    n_chains: int
    n_draws: int
    n_sites: int
    n_replicas: int
    dtype: str
    n_rows: int  # 0 for plain vectors
    chunk_draws: int
    n_values: int = 0  # learned parameters
    n_pairs: int = 0  # pairs of rungs whose work is kept

    @property
    def records(self) -> dict[str, tuple[tuple[int, ...], str, tuple[str, ...]]]:
        """What is kept of every draw, in the order of a Chunk: shape, type and names of its dimensions."""
        kept: dict[str, tuple[tuple[int, ...], str, tuple[str, ...]]] = {
            self.name: ((self.n_sites,), self.dtype, ("site",)),
            "replica_log_likelihood": ((self.n_replicas,), "float64", ("replica",)),
            "log_prior": ((), "float64", ()),
        }
        if self.n_values:
            kept["parameters"] = ((self.n_values,), "float64", ("parameter",))
        if self.n_pairs:
            kept["work"] = ((self.n_pairs, 2), "float64", ("pair", "side"))
        return kept

    def chunk_file(self, name: str, chain: int, chunk: int) -> Path:
        return Path(name, ".".join(["c", str(chain), str(chunk), *("0" for _ in self.records[name][0])]))


def replace_file(path: Path, content: bytes | memoryview) -> None:
    """Put a file in place whole: a process that is killed leaves the old one or the new one."""
    aside = path.with_name(f"{path.name}.partial")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


def check_new(path: Path) -> None:
    """Refuse a path that is taken or cannot be written to, before anything is computed."""
    if path.exists():
        raise StoreError(f"{path} exists already; give another path, or resume=True to go on with that run")
    with clear_errors(path, "create"):
        if path.parent.exists() and not path.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{path.parent} is not a directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def read_header(path: Path) -> dict[str, Any]:
    """The header of a store; refuses what is not one, or is of another version."""
    file = path / "zarr.json"
    if not file.exists():
        raise StoreError(f"{path} is not a chiasma run: it has no zarr.json; check the path")
    try:
        with clear_errors(path, "read"):
            header = dict(json.loads(file.read_text(encoding="utf-8"))["attributes"][KEY])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is not a chiasma run: its zarr.json has no chiasma entry; check the path") from error
    if header.get("format") != FORMAT:
        raise StoreError(
            f"{path} was written in format {header.get('format')}, this version reads format {FORMAT}; "
            "open it with the version of chiasma that wrote it"
        )
    return header


def read_run(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the checkpoints that belong to it, also while the run goes on and replaces them."""
    while True:
        header = read_header(path)
        try:
            return header, [read_checkpoint(path, header, chain) for chain in range(len(header["committed"]))]
        except StoreError:
            if read_header(path)["committed"] == header["committed"]:
                raise


def read_checkpoint(path: Path, header: dict[str, Any], chain: int) -> dict[str, Any]:
    """What a chain left at its last flush; empty if it had not come so far."""
    n_draws = header["committed"][chain]
    if n_draws == 0:
        return {}
    file = path / "checkpoints" / checkpoint_name(chain, n_draws)
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else str(error)
        raise StoreError(
            f"{file} cannot be read ({reason}) and the run cannot go on without it; restore the file from a copy. "
            f"The draws are intact: read them with xarray.open_zarr({str(path)!r})"
        ) from error


def read_chunk(path: Path, layout: Layout, name: str, chain: int, chunk: int) -> npt.NDArray[Any]:
    """(chunk_draws, ...): a chunk as it was written."""
    from numcodecs.zstd import Zstd  # type: ignore[import-untyped]

    last, dtype, _ = layout.records[name]
    content = Zstd().decode((path / layout.chunk_file(name, chain, chunk)).read_bytes())
    values = np.frombuffer(content, np.dtype(dtype).newbyteorder("<"))
    return values.reshape(layout.chunk_draws, *last).astype(dtype)


def check_chunks(path: Path, header: dict[str, Any], checkpoints: list[dict[str, Any]]) -> None:
    """Compare full chunks with the sizes that were written, and unpack partly filled ones.

    A kill may have left a fuller one than was committed, so its size says nothing.
    """
    layout = Layout(**header["layout"])
    for chain, checkpoint in enumerate(checkpoints):
        for chunk, sizes in enumerate(checkpoint.get("sizes", ())):
            for name, size in zip(layout.records, sizes, strict=True):
                file = path / layout.chunk_file(name, chain, chunk)
                found = file.stat().st_size if file.exists() else None
                if found != size:
                    what = "is missing" if found is None else f"has {found} bytes and was written with {size}"
                    raise _damaged(path, layout, name, chain, chunk, what)
        n_full, kept = divmod(header["committed"][chain], layout.chunk_draws)
        for name in layout.records if kept else ():
            try:
                read_chunk(path, layout, name, chain, n_full)
            except FileNotFoundError:
                raise _damaged(path, layout, name, chain, n_full, "is missing") from None
            except (OSError, ValueError, RuntimeError) as error:
                raise _damaged(path, layout, name, chain, n_full, f"cannot be unpacked ({error})") from error


def _damaged(path: Path, layout: Layout, name: str, chain: int, chunk: int, what: str) -> StoreError:
    first = chunk * layout.chunk_draws
    before = f", or open the draws before it with open_posterior(path, draws={first})" if first else ""
    return StoreError(
        f"{path / layout.chunk_file(name, chain, chunk)} {what}: draws {first} and later of chain {chain} are damaged; "
        f"restore the file from a copy{before}"
    )


def checkpoint_name(chain: int, n_draws: int) -> str:
    return f"chain-{chain}-{n_draws}.npz"


def as_json(content: dict[str, Any]) -> bytes:
    # Settings may be NumPy's integers.
    return json.dumps(content, indent=1, default=np.generic.item).encode()


@contextlib.contextmanager
def clear_errors(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot {doing} {path}: {reason}; {_REMEDIES[doing]}") from error
