"""A run on disk: draws in a Zarr store that a killed process leaves readable.

Chunks of draws and checkpoints are written first; then the group's own metadata file is replaced in one stroke
(write aside, rename). It holds the consolidated metadata of all arrays with the number of draws that are safe, so that
chiasma, xarray and zarr all see the same finished part, whatever instant the process was killed at. A chunk that is
only partly filled is rewritten whole, by rename as well.

    codes (chain, draw, site), log_prior (chain, draw), replica_log_likelihood (chain, draw, replica)
    beta (replica,), and the data: y, starts, gaps
    checkpoints/chain-<c>-<n>.npz: states of the replicas, their streams and tallies after draw n, and running counts
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.engine import Chunk, Engine
from chiasma.errors import StoreError
from chiasma.kernels.counting import add_counts

FORMAT = 1
KEY = "chiasma"
# Uncompressed size of a chunk of draws, and how long finished draws may wait for it to fill.
CHUNK_BYTES = 4 * 2**20
FLUSH_SECONDS = 10.0


class Layout(NamedTuple):
    """Shapes of a run."""

    name: str  # of the draws: "codes" or "x"
    n_chains: int
    n_draws: int
    n_sites: int
    n_replicas: int
    dtype: str
    n_rows: int  # 0 for plain vectors

    @property
    def chunk_draws(self) -> int:
        return max(1, CHUNK_BYTES // (self.n_sites * np.dtype(self.dtype).itemsize))


class ChainRecord:
    """What is in memory of one chain: draws since the last full chunk, counts, and how far the disk is."""

    def __init__(self, layout: Layout):
        self.filled = 0
        self.flushed = 0
        self.tail: list[Chunk] = []
        self.counts = np.zeros((layout.n_rows, layout.n_sites), np.int64)
        self.sizes: list[int] = []
        self.written_at = time.monotonic()


class ZarrTrace:
    """Streams the records of a run into a store."""

    def __init__(self, path: Path, layout: Layout, header: dict[str, Any]):
        self.path = path
        self.layout = layout
        self.header = header
        self.chains = [ChainRecord(layout) for _ in range(layout.n_chains)]
        self.checkpoints: list[dict[str, Any]] = [{} for _ in range(layout.n_chains)]
        self._lock = Lock()

    @classmethod
    def create(
        cls, path: Path, layout: Layout, static: dict[str, tuple[npt.NDArray[Any], str]], provenance: dict[str, Any]
    ) -> ZarrTrace:
        """A new store. static: arrays that do not grow, each with the names of its dimensions."""
        check_new(path)
        header = {
            "format": FORMAT,
            "layout": layout._asdict(),
            "static": sorted(static),
            "provenance": provenance,
            "timings": {},
        }
        trace = cls(path, layout, header)
        with _clear_errors(path, "create"):
            trace._make_arrays(static)
            trace._commit()
        return trace

    @classmethod
    def reopen(cls, path: Path, n_draws: int) -> ZarrTrace:
        """A store to go on with, up to n_draws."""
        header = read_header(path)
        layout = Layout(**header["layout"])
        if n_draws < max(header["committed"], default=0):
            raise StoreError(
                f"{path} holds {max(header['committed'])} draws per chain already, got draws={n_draws}; "
                "ask for at least as many, or open it with open_posterior"
            )
        trace = cls(path, layout._replace(n_draws=n_draws), header)
        header["layout"] = trace.layout._asdict()
        trace.checkpoints = [read_checkpoint(path, header, c) for c in range(layout.n_chains)]
        with _clear_errors(path, "reopen"):
            trace._resize()
            for chain, checkpoint in zip(trace.chains, trace.checkpoints, strict=True):
                trace._take_up(chain, checkpoint)
        return trace

    @property
    def all_began(self) -> bool:
        return all(self.checkpoints)

    def restore(self, engines: list[Engine]) -> None:
        for engine, checkpoint in zip(engines, self.checkpoints, strict=True):
            if checkpoint:
                engine.restore(checkpoint)

    @property
    def filled(self) -> list[int]:
        return [chain.filled for chain in self.chains]

    def append(self, index: int, chunk: Chunk, engine: Engine) -> None:
        """Take records of a chain; write when a chunk is full or draws have waited long enough."""
        chain = self.chains[index]
        if self.layout.n_rows:
            add_counts(chunk.states, chain.counts)
        chain.tail.append(chunk)
        chain.filled += len(chunk.log_prior)
        waiting = chain.filled - chain.flushed
        due = time.monotonic() - chain.written_at > FLUSH_SECONDS
        if waiting >= self.layout.chunk_draws or (due and waiting) or chain.filled == self.layout.n_draws:
            self.flush(index, engine)

    def flush(self, index: int, engine: Engine) -> None:
        """Write what a chain has and commit it."""
        chain = self.chains[index]
        if chain.filled == chain.flushed:
            return
        with _clear_errors(self.path, "write to"):
            self._write_tail(index, chain)
            self._write_checkpoint(index, chain, engine)
            with self._lock:
                chain.flushed = chain.filled
                self._commit()
            self._drop_old_checkpoints(index, chain)
        chain.written_at = time.monotonic()

    def finish(self, engines: list[Engine], timings: dict[str, float]) -> None:
        """Write what is left, and how long the run took."""
        for index, engine in enumerate(engines):
            self.flush(index, engine)
        for name, seconds in timings.items():
            self.header["timings"][name] = self.header["timings"].get(name, 0.0) + seconds
        with _clear_errors(self.path, "write to"), self._lock:
            self._commit()

    def _make_arrays(self, static: dict[str, tuple[npt.NDArray[Any], str]]) -> None:
        import zarr
        from zarr.codecs import BloscCodec

        shape = self.layout
        group = zarr.create_group(str(self.path))
        quick = BloscCodec(cname="lz4", clevel=5, shuffle="noshuffle")
        per_draw: dict[str, tuple[tuple[int, ...], str, tuple[str, ...]]] = {
            shape.name: ((shape.n_sites,), shape.dtype, ("site",)),
            "replica_log_likelihood": ((shape.n_replicas,), "float64", ("replica",)),
            "log_prior": ((), "float64", ()),
        }
        for name, (last, dtype, dims) in per_draw.items():
            group.create_array(
                name,
                shape=(shape.n_chains, shape.n_draws, *last),
                chunks=(1, shape.chunk_draws, *last),
                dtype=dtype,
                dimension_names=("chain", "draw", *dims),
                compressors=quick,
            )
        for name, (values, dims_of) in static.items():
            group.create_array(name, data=values, dimension_names=tuple(dims_of.split()))
        (self.path / "checkpoints").mkdir()

    def _resize(self) -> None:
        import zarr

        for name in (self.layout.name, "replica_log_likelihood", "log_prior"):
            array = zarr.open_array(str(self.path / name), mode="r+")
            array.resize((array.shape[0], self.layout.n_draws, *array.shape[2:]))

    def _take_up(self, chain: ChainRecord, checkpoint: dict[str, Any]) -> None:
        """Go on where the disk is: a partly filled chunk is read back, to be rewritten whole."""
        if not checkpoint:
            return
        import zarr

        chain.filled = chain.flushed = int(checkpoint["n_draws"])
        chain.counts = checkpoint["counts"]
        chain.sizes = [int(size) for size in checkpoint["sizes"]]
        first = chain.flushed - chain.flushed % self.layout.chunk_draws
        if first < chain.flushed:
            index = int(checkpoint["chain"])
            parts = [
                zarr.open_array(str(self.path / name), mode="r")[index, first : chain.flushed]
                for name in (self.layout.name, "replica_log_likelihood", "log_prior")
            ]
            chain.tail = [Chunk(*(np.asarray(part) for part in parts))]

    def _write_tail(self, index: int, chain: ChainRecord) -> None:
        import zarr

        n_chunk = self.layout.chunk_draws
        first = chain.flushed - chain.flushed % n_chunk
        tail = Chunk(*(np.concatenate(parts) for parts in zip(*chain.tail, strict=True)))
        names = (self.layout.name, "replica_log_likelihood", "log_prior")
        for name, values in zip(names, tail, strict=True):
            zarr.open_array(str(self.path / name), mode="r+")[index, first : chain.filled] = values
        del chain.sizes[first // n_chunk :]
        for chunk in range(first // n_chunk, -(-chain.filled // n_chunk)):
            chain.sizes.append(self._chunk_file(index, chunk).stat().st_size)
        kept = chain.filled % n_chunk
        chain.tail = [Chunk(*(part[len(part) - kept :] for part in tail))] if kept else []

    def _chunk_file(self, chain: int, chunk: int) -> Path:
        return self.path / self.layout.name / "c" / str(chain) / str(chunk) / "0"

    def _write_checkpoint(self, index: int, chain: ChainRecord, engine: Engine) -> None:
        content = engine.checkpoint() | {
            "chain": index,
            "n_draws": chain.filled,
            "counts": chain.counts,
            "sizes": np.array(chain.sizes, np.int64),
        }
        target = self.path / "checkpoints" / _checkpoint_name(index, chain.filled)
        aside = target.with_suffix(".partial")
        with aside.open("wb") as file:
            np.savez(file, **content)
        aside.replace(target)

    def _drop_old_checkpoints(self, index: int, chain: ChainRecord) -> None:
        keep = _checkpoint_name(index, chain.flushed)
        for file in (self.path / "checkpoints").glob(f"chain-{index}-*"):
            if file.name != keep:
                file.unlink(missing_ok=True)

    def _commit(self) -> None:
        """Replace the group's metadata: from here on the flushed draws exist."""
        committed = [chain.flushed for chain in self.chains]
        self.header["committed"] = committed
        arrays = {}
        for name in (self.layout.name, "replica_log_likelihood", "log_prior", *self.header["static"]):
            arrays[name] = json.loads((self.path / name / "zarr.json").read_text())
            if name not in self.header["static"]:
                arrays[name]["shape"][1] = min(committed)
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {KEY: self.header},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": arrays},
        }
        aside = self.path / "zarr.json.partial"
        aside.write_text(json.dumps(group, indent=1))
        aside.replace(self.path / "zarr.json")


def check_new(path: Path) -> None:
    """Refuse a path that is taken or cannot be written to, before anything is computed."""
    if path.exists():
        raise StoreError(f"{path} exists already; give another path, or resume=True to go on with that run")
    with _clear_errors(path, "create"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def read_header(path: Path) -> dict[str, Any]:
    """The header of a store; refuses what is not one, or is of another version."""
    file = path / "zarr.json"
    if not file.exists():
        raise StoreError(f"{path} is not a chiasma run: it has no zarr.json; check the path")
    try:
        header = json.loads(file.read_text())["attributes"][KEY]
    except (json.JSONDecodeError, KeyError) as error:
        raise StoreError(f"{path} is not a chiasma run: its zarr.json has no chiasma entry; check the path") from error
    if header.get("format") != FORMAT:
        raise StoreError(
            f"{path} was written in format {header.get('format')}, this version reads format {FORMAT}; "
            "open it with the version of chiasma that wrote it"
        )
    return dict(header)


def read_checkpoint(path: Path, header: dict[str, Any], chain: int) -> dict[str, Any]:
    """What a chain left at its last flush; empty if it had not come so far."""
    n_draws = header["committed"][chain]
    if n_draws == 0:
        return {}
    file = path / "checkpoints" / _checkpoint_name(chain, n_draws)
    try:
        with np.load(file, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(f"{file} cannot be read ({error}); the draws of {path} are intact, resuming is not") from error


def check_chunks(path: Path, header: dict[str, Any], chain: int, checkpoint: dict[str, Any]) -> None:
    """Compare the chunk files of a chain with the sizes that were written."""
    name = header["layout"]["name"]
    for i, size in enumerate(checkpoint.get("sizes", ())):
        file = path / name / "c" / str(chain) / str(i) / "0"
        found = file.stat().st_size if file.exists() else None
        if found != size:
            what = "is missing" if found is None else f"has {found} bytes and was written with {size}"
            n_chunk = Layout(**header["layout"]).chunk_draws
            raise StoreError(
                f"{file} {what}: draws {i * n_chunk} and later of chain {chain} are damaged; restore the file from a "
                f"copy, or open the draws before it with open_posterior(path, draws={i * n_chunk})"
            )


def _checkpoint_name(chain: int, n_draws: int) -> str:
    return f"chain-{chain}-{n_draws}.npz"


@contextlib.contextmanager
def _clear_errors(path: Path, doing: str) -> Any:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StoreError(
            f"cannot {doing} {path}: {reason}; free space or choose another path, then go on with resume=True "
            "(draws up to the last flush are safe)"
        ) from error
