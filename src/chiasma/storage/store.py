"""A run on disk: draws in a Zarr store that stays readable if the process is killed.

Every file is written atomically: to a temporary file, then renamed. A flush writes chunks of draws and a checkpoint
first, then the group's metadata. That one file holds the consolidated metadata of all arrays and the number of
committed draws, so chiasma, xarray and zarr all see the same finished part, whenever the process was killed. A chunk
that is only partly filled is padded with zeros and later replaced by a fuller one.

    codes (chain, draw, site), log_prior (chain, draw), replica_log_likelihood (chain, draw, replica)
    beta (replica,), and the data: y, starts, gaps
    checkpoints/chain-<c>-<n>.npz: replica states, random streams, tallies and running counts after draw n
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from chiasma import atomic
from chiasma.errors import StoreError
from chiasma.kernels.counting import add_counts
from chiasma.storage.trace import Chain, Draws

FORMAT = 1
KEY = "chiasma"
_AGAIN = "free some space there, then continue with resume=True: draws up to the last flush are safe"
_REMEDIES = {"create": "choose another path", "write to": _AGAIN, "read": "check the path"}
# Uncompressed size of a chunk of draws, and how long finished draws may wait for it to fill.
CHUNK_BYTES = 8 * 2**20
FLUSH_SECONDS = 10.0
# A checkpoint and a commit take as long as dozens of draws, so full chunks are committed at most this often.
COMMIT_SECONDS = 1.0
# Zstd compression level. Successive draws are similar, so the lowest level compresses them well, at about 3 GB/s.
LEVEL = 1


class Layout(NamedTuple):
    """Shapes and types of the arrays of a run."""

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
        """The arrays kept for every draw, in the order of Draws: shape, type and names of the dimensions."""
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


def draws_per_chunk(n_sites: int, n_replicas: int, dtype: npt.DTypeLike, piece: int) -> int:
    """How many draws fit into a chunk, rounded down to whole pieces; `piece` is how many draws arrive at a time.

    >>> draws_per_chunk(10_877, 1, "uint8", piece=256)
    768
    """
    fitting = max(1, CHUNK_BYTES // (n_sites * np.dtype(dtype).itemsize + 8 * (n_replicas + 1)))
    return max(fitting - fitting % piece, min(fitting, piece))


class ChainBuffer:
    """The part of one chain in memory: the Zarr chunk being filled, running counts, and how many draws are on disk."""

    def __init__(self, layout: Layout):
        self.filled = 0
        self.flushed = 0
        self.chunk: list[npt.NDArray[Any]] = [
            np.zeros((layout.chunk_draws, *last), np.dtype(dtype).newbyteorder("<"))
            for last, dtype, _ in layout.records.values()
        ]
        self.counts = np.zeros((layout.n_rows, layout.n_sites), np.int64)
        self.sizes: list[list[int]] = []  # bytes of the files of every full chunk
        self.written_at = time.monotonic()


class ZarrTrace:
    """Streams the draws of a run into a store."""

    def __init__(self, path: Path, layout: Layout, header: dict[str, Any]):
        self.path = path
        self.layout = layout
        self.header = header
        self.buffers = [ChainBuffer(layout) for _ in range(layout.n_chains)]
        self.checkpoints: list[dict[str, Any]] = [{} for _ in range(layout.n_chains)]
        self.arrays: dict[str, Any] = {}  # metadata of every array
        self._lock = Lock()

    @classmethod
    def create(
        cls,
        path: Path,
        layout: Layout,
        static: dict[str, tuple[npt.NDArray[Any], str]],
        provenance: dict[str, Any],
        log_evidence: float | None = None,
    ) -> ZarrTrace:
        """Create a new store. static: arrays of fixed size, each with the names of its dimensions."""
        check_new(path)
        header = {
            "format": FORMAT,
            "layout": layout._asdict(),
            "provenance": provenance,
            "log_evidence": log_evidence,
            "timings": {},
        }
        trace = cls(path.with_name(f"{path.name}.{uuid4().hex}.partial"), layout, header)
        with clear_errors(path, "create"):
            try:
                trace._make_arrays(static)
                trace._read_arrays([*layout.records, *static])
                trace._commit()
                trace.path.rename(path)
            except BaseException:
                shutil.rmtree(trace.path, ignore_errors=True)
                raise
        trace.path = path
        return trace

    @classmethod
    def reopen(cls, path: Path, n_draws: int) -> ZarrTrace:
        """Open an existing store to resume its run, up to n_draws."""
        header, checkpoints = read_run(path)
        most = max(header["committed"])
        if n_draws < most:
            raise StoreError(
                f"{path} holds {most} draws per chain already, got draws={n_draws}; ask for at least as many, "
                "or open it with open_posterior"
            )
        check_chunks(path, header, checkpoints)
        trace = cls(path, Layout(**header["layout"])._replace(n_draws=n_draws), header)
        header["layout"] = trace.layout._asdict()
        trace.checkpoints = checkpoints
        with clear_errors(path, "read"):
            trace._read_arrays(header["arrays"])
            for index, checkpoint in enumerate(checkpoints):
                if checkpoint:
                    trace._take_up(index, checkpoint)
        return trace

    @property
    def log_evidence(self) -> float | None:
        value: float | None = self.header["log_evidence"]
        return value

    @property
    def all_began(self) -> bool:
        return all(self.checkpoints)

    def restore(self, chains: Sequence[Chain]) -> None:
        for index, (chain, checkpoint) in enumerate(zip(chains, self.checkpoints, strict=True)):
            if checkpoint:
                chain.restore(checkpoint)
                self._check_functions(index, chain.log_densities(), checkpoint["log_densities"])

    def _check_functions(self, index: int, found: npt.NDArray[Any], stored: npt.NDArray[Any]) -> None:
        """Detect a changed user function: it cannot be compared itself, but its values at the last states can."""
        if not np.allclose(found, stored, rtol=1e-9, atol=0):
            at = np.unravel_index(np.argmin(np.isclose(found, stored, rtol=1e-9, atol=0)), found.shape)
            raise StoreError(
                f"{self.path} holds another run and cannot be resumed: for the last state of chain {index} the model "
                f"gives a {('log-likelihood', 'log prior')[at[0]]} of {found[at]}, in the store it is {stored[at]}; "
                "a function of the model has changed: restore the old one, or give another store"
            )

    @property
    def filled(self) -> list[int]:
        return [buffer.filled for buffer in self.buffers]

    def append(self, index: int, draws: Draws, chain: Chain) -> None:
        """Write full chunks, and commit them when they have waited long enough."""
        buffer = self.buffers[index]
        if not len(draws.log_prior):
            return
        if self.layout.n_rows:
            add_counts(draws.states, buffer.counts)
        with clear_errors(self.path, "write to"):
            full = self._fill(index, buffer, draws)
        waited = time.monotonic() - buffer.written_at
        if waited > FLUSH_SECONDS or (full and waited > COMMIT_SECONDS) or buffer.filled == self.layout.n_draws:
            self.flush(index, chain)

    def flush(self, index: int, chain: Chain) -> None:
        """Write all draws of a chain so far and commit them."""
        buffer = self.buffers[index]
        if buffer.filled == buffer.flushed:
            return
        with clear_errors(self.path, "write to"):
            if buffer.filled % self.layout.chunk_draws:
                self._write_partly_filled(index, buffer)
            self._write_checkpoint(index, buffer, chain)
            with self._lock:
                buffer.flushed = buffer.filled
                self._commit()
            self._drop_old_checkpoints(index, buffer)
        buffer.written_at = time.monotonic()

    def finish(self, chains: Sequence[Chain], timings: Mapping[str, float]) -> None:
        """Write the remaining draws and how long the run took."""
        for index, chain in enumerate(chains):
            self.flush(index, chain)
        for name, seconds in timings.items():
            self.header["timings"][name] = self.header["timings"].get(name, 0.0) + seconds
        with clear_errors(self.path, "write to"), self._lock:
            self._commit()

    def _make_arrays(self, static: dict[str, tuple[npt.NDArray[Any], str]]) -> None:
        import zarr
        from zarr.codecs import ZstdCodec

        group = zarr.create_group(str(self.path))
        for name, (last, dtype, dims) in self.layout.records.items():
            group.create_array(
                name,
                shape=(self.layout.n_chains, 0, *last),
                chunks=(1, self.layout.chunk_draws, *last),
                dtype=dtype,
                dimension_names=("chain", "draw", *dims),
                compressors=ZstdCodec(level=LEVEL, checksum=True),
                chunk_key_encoding={"name": "default", "separator": "."},
            )
        for name, (values, dims_of) in static.items():
            group.create_array(name, data=values, dimension_names=tuple(dims_of.split()))
        (self.path / "checkpoints").mkdir()

    def _read_arrays(self, names: list[str]) -> None:
        self.header["arrays"] = names
        self.arrays = {name: json.loads((self.path / name / "zarr.json").read_text()) for name in names}

    def _take_up(self, index: int, checkpoint: dict[str, Any]) -> None:
        """Continue after the draws on disk: read a partly filled chunk back, to replace it by a fuller one."""
        buffer = self.buffers[index]
        buffer.filled = buffer.flushed = int(checkpoint["n_draws"])
        buffer.counts = checkpoint["counts"]
        buffer.sizes = checkpoint["sizes"].tolist()
        n_full, kept = divmod(buffer.flushed, self.layout.chunk_draws)
        if kept:
            for values, name in zip(buffer.chunk, self.layout.records, strict=True):
                values[:kept] = read_chunk(self.path, self.layout, name, index, n_full)[:kept]

    def _fill(self, index: int, buffer: ChainBuffer, new: Draws) -> bool:
        """Add draws to the current chunk and write it whenever it is full; returns whether one was written."""
        first, n_new, n_chunk = 0, len(new.log_prior), self.layout.chunk_draws
        parts = [part for part in new if part.size]  # empty parts are not stored
        n_full = len(buffer.sizes)
        while first < n_new:
            at = buffer.filled % n_chunk
            n = min(n_chunk - at, n_new - first)
            for values, more in zip(buffer.chunk, parts, strict=True):
                values[at : at + n] = more[first : first + n]
            first += n
            if at + n == n_chunk:
                buffer.sizes.append(self._write_chunk(index, len(buffer.sizes), buffer.chunk))
            buffer.filled += n
        return len(buffer.sizes) > n_full

    def _write_partly_filled(self, index: int, buffer: ChainBuffer) -> None:
        for values in buffer.chunk:
            values[buffer.filled % self.layout.chunk_draws :] = 0  # clear what is left of the previous chunk
        self._write_chunk(index, len(buffer.sizes), buffer.chunk)

    def _write_chunk(self, index: int, number: int, chunk: list[npt.NDArray[Any]]) -> list[int]:
        """Write the files of one chunk; returns their sizes."""
        from numcodecs.zstd import Zstd  # type: ignore[import-untyped]  # not needed by runs in memory

        sizes = []
        for name, values in zip(self.layout.records, chunk, strict=True):
            # The checksum lets every reader detect a damaged chunk.
            content = Zstd(level=LEVEL, checksum=True).encode(values)
            atomic.write_bytes(self.path / self.layout.chunk_file(name, index, number), content)
            sizes.append(len(content))
        return sizes

    def _write_checkpoint(self, index: int, buffer: ChainBuffer, chain: Chain) -> None:
        content = io.BytesIO()
        np.savez(
            content,
            **chain.checkpoint(),
            n_draws=buffer.filled,
            counts=buffer.counts,
            sizes=np.array(buffer.sizes, np.int64).reshape(-1, len(self.layout.records)),
            log_densities=chain.log_densities(),
        )
        atomic.write_bytes(self.path / "checkpoints" / checkpoint_name(index, buffer.filled), content.getvalue())

    def _drop_old_checkpoints(self, index: int, buffer: ChainBuffer) -> None:
        keep = checkpoint_name(index, buffer.flushed)
        for file in (self.path / "checkpoints").glob(f"chain-{index}-*"):
            if file.name != keep:
                file.unlink(missing_ok=True)

    def _commit(self) -> None:
        """Replace the group's metadata, which makes the flushed draws visible to readers."""
        self.header["committed"] = [buffer.flushed for buffer in self.buffers]
        for name in self.layout.records:
            self.arrays[name]["shape"][1] = min(self.header["committed"])
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {KEY: self.header},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": self.arrays},
        }
        atomic.write_bytes(self.path / "zarr.json", as_json(group))
        # For readers that ignore consolidated metadata; they may see fewer draws, never more.
        for name in self.layout.records:
            atomic.write_bytes(self.path / name / "zarr.json", as_json(self.arrays[name]))


def check_new(path: Path) -> None:
    """Raise StoreError if the path exists or cannot be written to, before anything is computed."""
    if path.exists():
        raise StoreError(f"{path} exists already; give another path, or resume=True to continue that run")
    with clear_errors(path, "create"):
        if path.parent.exists() and not path.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{path.parent} is not a directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def read_header(path: Path) -> dict[str, Any]:
    """The header of a store; raises StoreError if the path is no store, or was written in another format."""
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
    return _completed(header)


def _completed(header: dict[str, Any]) -> dict[str, Any]:
    """Convert a header written by version 0.1 to the present form."""
    about, run = header["provenance"], header["provenance"]["run"]
    if "log_evidence" not in header:
        header["log_evidence"] = about.pop("log_evidence")
        about["follows_swaps"] = run["exchange"] == "Swap(rows='all')"
        layout = header["layout"]
        about["independent"] = (
            run["update"].startswith("Exact(") and layout["n_replicas"] == 1 and not layout.get("n_values", 0)
        )
        for part in ("update", "exchange"):
            run[part] = None if run[part] == "None" else run[part]
        start = run["init"]
        run["init"] = {"states": start} if isinstance(start, str) else start or {}
    return header


def read_run(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the checkpoints that belong to it; works while a running process replaces them."""
    while True:
        header = read_header(path)
        try:
            return header, [read_checkpoint(path, header, chain) for chain in range(len(header["committed"]))]
        except StoreError:
            if read_header(path)["committed"] == header["committed"]:
                raise


def read_checkpoint(path: Path, header: dict[str, Any], chain: int) -> dict[str, Any]:
    """The checkpoint of a chain at its last flush; empty if it has none."""
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
            f"{file} cannot be read ({reason}) and the run cannot be resumed without it; restore it from a backup. "
            f"The draws are intact: read them with xarray.open_zarr({str(path)!r})"
        ) from error


def read_chunk(path: Path, layout: Layout, name: str, chain: int, chunk: int) -> npt.NDArray[Any]:
    """(chunk_draws, ...): the content of one chunk."""
    from numcodecs.zstd import Zstd

    last, dtype, _ = layout.records[name]
    content = Zstd().decode((path / layout.chunk_file(name, chain, chunk)).read_bytes())
    values = np.frombuffer(content, np.dtype(dtype).newbyteorder("<"))
    return values.reshape(layout.chunk_draws, *last).astype(dtype)


def check_chunks(path: Path, header: dict[str, Any], checkpoints: list[dict[str, Any]]) -> None:
    """Check for damage: compare file sizes of full chunks with those recorded, and decompress partly filled ones.

    The size of a partly filled chunk proves nothing: a killed process may have replaced it by a fuller one.
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
                raise _damaged(path, layout, name, chain, n_full, f"cannot be decompressed ({error})") from error


def _damaged(path: Path, layout: Layout, name: str, chain: int, chunk: int, what: str) -> StoreError:
    first = chunk * layout.chunk_draws
    before = f", or open the draws before it with open_posterior(path, draws={first})" if first else ""
    return StoreError(
        f"{path / layout.chunk_file(name, chain, chunk)} {what}: draws {first} and later of chain {chain} are damaged; "
        f"restore the file from a backup{before}"
    )


def checkpoint_name(chain: int, n_draws: int) -> str:
    return f"chain-{chain}-{n_draws}.npz"


def as_json(content: dict[str, Any]) -> bytes:
    # Settings may hold NumPy integers, which json cannot write.
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
