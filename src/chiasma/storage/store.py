"""A run on disk: draws in a Zarr store that stays readable if the process is killed or the power is cut.

Every file is written atomically and synced: to a temporary file, which is synced and renamed, then the directory is
synced. A flush writes chunks of draws and a checkpoint first, then the group's metadata. That one file holds the
consolidated metadata of all arrays and the number of committed draws, so chiasma, xarray and zarr all see the same
finished part, whenever the process was killed. It also holds the seconds of every stage up to then, added up over all
calls that worked on the run. A chunk that is only partly filled is padded with zeros and later replaced by a fuller
one. A new store is made beside its place, synced as a whole, and renamed.

    codes (chain, draw, site), log_prior (chain, draw), replica_log_likelihood (chain, draw, replica)
    beta (replica,), and the data: y, starts, gaps
    checkpoints/chain-<c>-<n>.npz: replica states, random streams, tallies and running counts after draw n
"""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma import atomic
from chiasma.errors import StoreError
from chiasma.kernels.codes import add_counts
from chiasma.kernels.layout import make_layout, on_bits
from chiasma.storage.digests import NO_DIGEST, digests_below, fingerprint, seal
from chiasma.storage.locks import as_path, make_parent, only_writer
from chiasma.storage.reading import (
    FORMAT,
    KEY,
    RunLayout,
    StoredRun,
    check_chunks,
    checkpoint_name,
    clear_errors,
    draws_fingerprint,
    read_block,
)
from chiasma.storage.trace import Chain, Draws, Elapsed, MemoryTrace

# Uncompressed size of a chunk of draws, and how long finished draws may wait for it to fill.
CHUNK_BYTES = 8 * 2**20
FLUSH_SECONDS = 10.0
# A checkpoint and a commit take as long as dozens of draws, so full chunks are committed at most this often.
COMMIT_SECONDS = 1.0
# Zstd compression level. Successive draws are similar, so the lowest level compresses them well, at about 3 GB/s.
LEVEL = 1


def draws_per_chunk(n_sites: int, n_replicas: int, dtype: npt.DTypeLike, piece: int) -> int:
    """How many draws fit into a chunk, rounded down to whole pieces; `piece` is how many draws arrive at a time.

    >>> draws_per_chunk(10_877, 1, "uint8", piece=256)
    768
    """
    fitting = max(1, CHUNK_BYTES // (n_sites * np.dtype(dtype).itemsize + 8 * (n_replicas + 1)))
    return max(fitting - fitting % piece, min(fitting, piece))


class ChainBuffer:
    """The part of one chain in memory: the Zarr chunk being filled, running counts, and how many draws are on disk."""

    def __init__(self, layout: RunLayout):
        self.filled = 0
        self.flushed = 0
        self.chunk: list[npt.NDArray[Any]] = [
            np.zeros((layout.chunk_draws, *last), np.dtype(dtype).newbyteorder("<"))
            for last, dtype, _ in layout.records.values()
        ]
        self.counts = np.zeros((layout.n_rows, layout.n_sites), np.int64)
        self.sizes: list[list[int]] = []  # bytes of the files of every full chunk
        self.digests: list[list[int]] = []  # and their digests
        self.checkpoint: Path | None = None  # the committed one
        self.written_at = time.monotonic()


class ZarrTrace:
    """Streams the draws of a run into a store."""

    def __init__(self, path: Path, layout: RunLayout, header: dict[str, Any], durable: bool = True):
        """durable: sync every write, so that a power cut loses nothing that was committed."""
        self.path = path
        self.layout = layout
        self.header = header
        self.durable = durable
        self.buffers = [ChainBuffer(layout) for _ in range(layout.n_chains)]
        self.checkpoints: list[dict[str, Any]] = [{} for _ in range(layout.n_chains)]
        self.arrays: dict[str, Any] = {}  # metadata of every array
        self.row_layout = make_layout(header["provenance"].get("row_sizes") or [2] * max(layout.n_rows, 1))
        self._lock = Lock()
        self._earlier: dict[str, float] = dict(header["timings"])  # seconds of earlier calls
        self._elapsed: Elapsed = dict
        self._stamp: tuple[int, ...] = ()  # of the metadata that we wrote last

    @classmethod
    def create(
        cls,
        path: Path,
        layout: RunLayout,
        static: dict[str, tuple[npt.NDArray[Any], str]],
        provenance: dict[str, Any],
        log_evidence: float | None = None,
        durable: bool = True,
        elapsed: Elapsed = dict,
    ) -> ZarrTrace:
        """Create a new store. static: arrays of fixed size, each with the names of its dimensions."""
        check_new(path)
        header: dict[str, Any] = {
            "format": FORMAT,
            "digest": NO_DIGEST,
            "layout": layout._asdict(),
            "provenance": provenance,
            "log_evidence": log_evidence,
            "timings": {},
        }
        trace = cls(atomic.partial_name(path), layout, header, durable=False)
        trace.time_by(elapsed)
        with clear_errors(path, "create"):
            atomic.remove(atomic.partials(path.parent, [path.name]))
            try:
                trace._make_arrays(static)
                trace._commit()
                if durable:
                    atomic.sync_tree(trace.path)
                trace.path.rename(path)
                if durable:
                    atomic.sync_directory(path.parent)
            except BaseException:
                atomic.remove([trace.path])
                raise
        trace.path, trace.durable = path, durable
        return trace

    @classmethod
    def reopen(cls, run: StoredRun, n_draws: int, durable: bool = True) -> ZarrTrace:
        """Continue a run that was read, up to n_draws."""
        most = max(run.committed)
        if n_draws < most:
            raise StoreError(
                f"{run.path} holds {most} draws per chain already, got draws={n_draws}; ask for at least as many, "
                "or open it with open_posterior"
            )
        check_chunks(run)
        header = dict(run.header)
        trace = cls(run.path, run.layout._replace(n_draws=n_draws), header, durable)
        trace.arrays = header.pop("metadata")
        trace.checkpoints = run.checkpoints
        with clear_errors(run.path, "read"):
            trace._refuse_links()
            trace._stamp = _stamp(run.path)
            for index, checkpoint in enumerate(run.checkpoints):
                if checkpoint:
                    trace._take_up(index, checkpoint, run)
            header |= {"digest": NO_DIGEST, "layout": trace.layout._asdict()}
        trace._tidy()
        return trace

    @property
    def log_evidence(self) -> float | None:
        value: float | None = self.header["log_evidence"]
        return value

    @property
    def all_began(self) -> bool:
        return all(self.checkpoints)

    def time_by(self, elapsed: Elapsed) -> None:
        self._elapsed = elapsed

    def restore(self, chains: Sequence[Chain]) -> None:
        for index, (chain, checkpoint) in enumerate(zip(chains, self.checkpoints, strict=True)):
            if checkpoint:
                try:
                    chain.restore(checkpoint)
                except Exception as error:
                    raise StoreError(
                        f"the checkpoint of chain {index} in {self.path} does not fit the run "
                        f"({type(error).__name__}: {error}); restore it from a backup"
                    ) from error
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
            add_counts(on_bits(draws.states, self.row_layout), buffer.counts)
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
            file = self.path / "checkpoints" / checkpoint_name(index, buffer.filled)
            chunk, tails = self._partly_filled(index, buffer)
            checkpoint = self._checkpoint(buffer, tails, chain)
            self._write({**chunk, file: checkpoint})
            with self._lock:
                buffer.flushed = buffer.filled
                self.header["checkpoints"][index] = fingerprint(checkpoint)
                self._commit()
            if buffer.checkpoint is not None and buffer.checkpoint != file:
                buffer.checkpoint.unlink(missing_ok=True)
            buffer.checkpoint = file
        buffer.written_at = time.monotonic()

    def finish(self, chains: Sequence[Chain]) -> None:
        """Write the remaining draws and how long the run took."""
        for index, chain in enumerate(chains):
            self.flush(index, chain)
        with clear_errors(self.path, "write to"), self._lock:
            self._commit()
            atomic.write_files(self._own_metadata(), self.durable)

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
        names = [*self.layout.records, *static]
        self.arrays = {name: json.loads((self.path / name / "zarr.json").read_text()) for name in names}
        self.header |= {"arrays": names, "checkpoints": [0] * self.layout.n_chains}
        self.header["static"] = digests_below(self.path, static)

    def _refuse_links(self) -> None:
        """Nothing is written outside the store: its folders must be its own."""
        for name in (*self.arrays, "checkpoints"):
            if (self.path / name).is_symlink():
                raise StoreError(
                    f"{self.path / name} is a symbolic link, and writing would leave the store; put the folder that it "
                    "leads to in its place"
                )

    def _tidy(self) -> None:
        """Remove what killed writers left. We hold the lock, so there is no other writer."""
        kept = {buffer.checkpoint for buffer in self.buffers}
        unused = [file for file in (self.path / "checkpoints").glob("chain-*.npz") if file not in kept]
        torn = [file for name in ("", *self.arrays, "checkpoints") for file in atomic.partials(self.path / name)]
        atomic.remove([*unused, *torn, *atomic.partials(self.path.parent, [self.path.name])])

    def _take_up(self, index: int, checkpoint: dict[str, Any], run: StoredRun) -> None:
        """Continue after the draws on disk: read a partly filled chunk back, to replace it by a fuller one."""
        buffer = self.buffers[index]
        buffer.filled = buffer.flushed = int(checkpoint["n_draws"])
        buffer.counts = checkpoint["counts"]
        buffer.sizes = checkpoint["sizes"].tolist()
        buffer.checkpoint = self.path / "checkpoints" / checkpoint_name(index, buffer.flushed)
        n_full, kept = divmod(buffer.flushed, self.layout.chunk_draws)
        buffer.digests = checkpoint["digests"].tolist()
        if kept:
            for values, name in zip(buffer.chunk, self.layout.records, strict=True):
                values[:kept] = read_block(run, name, index, n_full)

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
                packed = self._pack(index, len(buffer.sizes), buffer.chunk)
                self._write(packed)
                buffer.sizes.append([len(content) for content in packed.values()])
                buffer.digests.append([fingerprint(content) for content in packed.values()])
            buffer.filled += n
        return len(buffer.sizes) > n_full

    def _partly_filled(self, index: int, buffer: ChainBuffer) -> tuple[dict[Path, bytes], list[int]]:
        """Files of the chunk that is being filled, and digests of its draws; none if it is empty."""
        kept = buffer.filled % self.layout.chunk_draws
        if not kept:
            return {}, []
        for values in buffer.chunk:
            values[kept:] = 0  # clear what is left of the previous chunk
        return self._pack(index, len(buffer.sizes), buffer.chunk), [draws_fingerprint(v[:kept]) for v in buffer.chunk]

    def _pack(self, index: int, number: int, chunk: list[npt.NDArray[Any]]) -> dict[Path, bytes]:
        """The files of one chunk."""
        from numcodecs.zstd import Zstd  # type: ignore[import-untyped]  # not needed by runs in memory

        # The checksum lets every reader detect a damaged chunk.
        codec = Zstd(level=LEVEL, checksum=True)
        return {
            self.path / self.layout.chunk_file(name, index, number): codec.encode(values)
            for name, values in zip(self.layout.records, chunk, strict=True)
        }

    def _checkpoint(self, buffer: ChainBuffer, tails: list[int], chain: Chain) -> memoryview:
        content = io.BytesIO()
        n_records = len(self.layout.records)
        np.savez(
            content,
            **chain.checkpoint(),
            n_draws=buffer.filled,
            counts=buffer.counts,
            sizes=np.array(buffer.sizes, np.int64).reshape(-1, n_records),
            digests=np.array(buffer.digests, np.uint64).reshape(-1, n_records),
            tails=np.array(tails, np.uint64),
            log_densities=chain.log_densities(),
        )
        return content.getbuffer()  # no copy: of many columns a checkpoint is large

    def _own_metadata(self) -> dict[Path, bytes]:
        """Metadata of every array for readers that ignore the group's: they may see fewer draws, never more.

        Written when a run ends, because every sync of a file takes as long as some draws.
        """
        return {self.path / name / "zarr.json": as_json(self.arrays[name]) for name in self.layout.records}

    def _write(self, files: Mapping[Path, bytes | memoryview]) -> None:
        with self._lock:
            self._check_alone()
        atomic.write_files(files, self.durable)

    def _check_alone(self) -> None:
        """The last guard where locks do not work, or were deleted: stop before the draws of another are overwritten."""
        if self._stamp and _stamp(self.path) != self._stamp:
            raise StoreError(
                f"{self.path} was changed by another process while this one was writing to it; nothing more is "
                "written. Let one process write at a time, and continue with resume=True"
            )

    def _commit(self) -> None:
        """Replace the group's metadata, which makes the flushed draws visible to readers."""
        self.header["committed"] = [buffer.flushed for buffer in self.buffers]
        now = self._elapsed()
        # Stages of earlier calls come first, in their order.
        self.header["timings"] = {
            stage: self._earlier.get(stage, 0.0) + now.get(stage, 0.0) for stage in self._earlier | dict(now)
        }
        for name in self.layout.records:
            self.arrays[name]["shape"][1] = min(self.header["committed"])
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {KEY: self.header},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": self.arrays},
        }
        self._check_alone()
        try:
            atomic.write_bytes(self.path / "zarr.json", seal(as_json(group)), self.durable)
        finally:
            # A write may fail after it has replaced the file: then the other chains must not blame another process.
            self._stamp = _stamp(self.path)


def save_run(
    layout: RunLayout,
    static: dict[str, tuple[npt.NDArray[Any], str]],
    provenance: dict[str, Any],
    trace: MemoryTrace,
    timings: Mapping[str, float],
    path: str | Path,
) -> None:
    """Write a run in memory to a new store: the one that sample(store=path) would have written."""
    place = as_path("path", path)
    make_parent(place)
    with only_writer(place):
        store = ZarrTrace.create(place, layout, static, provenance, trace.log_evidence, elapsed=lambda: timings)
        for index, (n, chain) in enumerate(zip(trace.filled, trace.snapshots, strict=True)):
            store.append(index, Draws(*(part[index, :n] for part in trace.whole)), chain)
        store.finish(trace.snapshots)


def copy_store(stored: Path, path: str | Path) -> None:
    """Copy a store to a new path, which has all of it or nothing."""
    place = as_path("path", path)
    check_new(place)
    partial = atomic.partial_name(place)
    with only_writer(place), clear_errors(place, "create"):
        try:
            shutil.copytree(stored, partial)
            atomic.sync_tree(partial)
            partial.rename(place)
        except BaseException:
            atomic.remove([partial])
            raise


def _stamp(path: Path) -> tuple[int, ...]:
    """Differs if anybody has replaced the metadata of the store."""
    found = (path / "zarr.json").stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_new(path: Path) -> None:
    """Raise StoreError if the path exists or cannot be written to, before anything is computed."""
    if os.path.lexists(path):
        raise StoreError(f"{path} exists already; give another path, or resume=True to continue that run")
    make_parent(path)


def as_json(content: dict[str, Any]) -> bytes:
    # Settings may hold NumPy integers, which json cannot write.
    return json.dumps(content, indent=1, default=np.generic.item).encode()
