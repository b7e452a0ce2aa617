"""A run on disk: draws in a Zarr store that a killed process leaves readable.

Every file is written aside and renamed, so it is there whole or not at all. A flush writes chunks of draws and a
checkpoint first, then the group's metadata. That one file holds the consolidated metadata of all arrays, with the
number of draws that are safe: chiasma, xarray and zarr all see the same finished part, whatever instant the process
was killed at. A chunk that is only partly filled is padded with zeros and later replaced by a fuller one.

    codes (chain, draw, site), log_prior (chain, draw), replica_log_likelihood (chain, draw, replica)
    beta (replica,), and the data: y, starts, gaps
    checkpoints/chain-<c>-<n>.npz: states of the replicas, their streams and tallies after draw n, and running counts
"""

from __future__ import annotations

import io
import json
import shutil
import time
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from chiasma.errors import StoreError
from chiasma.kernels.counting import add_counts
from chiasma.sampling.engines import Chunk, Engine
from chiasma.storage.store_files import (
    FORMAT,
    KEY,
    Layout,
    as_json,
    check_chunks,
    check_new,
    checkpoint_name,
    clear_errors,
    read_chunk,
    read_run,
    replace_file,
)

# Uncompressed size of a chunk of draws, and how long finished draws may wait for it to fill.
CHUNK_BYTES = 8 * 2**20
FLUSH_SECONDS = 10.0
# A checkpoint and a commit take as long as dozens of draws, so that full chunks may wait for them, too.
COMMIT_SECONDS = 1.0
# Draws resemble each other: the lowest level packs them well, at about 3 GB/s.
LEVEL = 1


def draws_per_chunk(n_sites: int, n_replicas: int, dtype: npt.DTypeLike, piece: int) -> int:
    """What fits a chunk, in whole pieces: draws that come so many at a time then fill chunks without a rest.

    >>> draws_per_chunk(10_877, 1, "uint8", piece=256)
    768
    """
    fitting = max(1, CHUNK_BYTES // (n_sites * np.dtype(dtype).itemsize + 8 * (n_replicas + 1)))
    return max(fitting - fitting % piece, min(fitting, piece))


class ChainRecord:
    """What is in memory of one chain: the chunk that is being filled, counts, and how far the disk is."""

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
    """Streams the records of a run into a store."""

    def __init__(self, path: Path, layout: Layout, header: dict[str, Any]):
        self.path = path
        self.layout = layout
        self.header = header
        self.chains = [ChainRecord(layout) for _ in range(layout.n_chains)]
        self.checkpoints: list[dict[str, Any]] = [{} for _ in range(layout.n_chains)]
        self.arrays: dict[str, Any] = {}  # metadata of every array
        self._lock = Lock()

    @classmethod
    def create(
        cls, path: Path, layout: Layout, static: dict[str, tuple[npt.NDArray[Any], str]], provenance: dict[str, Any]
    ) -> ZarrTrace:
        """A new store. static: arrays that do not grow, each with the names of its dimensions."""
        check_new(path)
        header = {"format": FORMAT, "layout": layout._asdict(), "provenance": provenance, "timings": {}}
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
        """A store to go on with, up to n_draws."""
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
    def all_began(self) -> bool:
        return all(self.checkpoints)

    def restore(self, engines: list[Engine]) -> None:
        for chain, (engine, checkpoint) in enumerate(zip(engines, self.checkpoints, strict=True)):
            if checkpoint:
                engine.restore(checkpoint)
                self._check_functions(chain, engine.log_densities(), checkpoint["log_densities"])

    def _check_functions(self, chain: int, found: npt.NDArray[Any], stored: npt.NDArray[Any]) -> None:
        """A user's own functions cannot be compared, but what they say of the last states can."""
        if not np.allclose(found, stored, rtol=1e-9, atol=0):
            at = np.unravel_index(np.argmin(np.isclose(found, stored, rtol=1e-9, atol=0)), found.shape)
            raise StoreError(
                f"{self.path} holds another run and cannot be resumed: for the last state of chain {chain} the model "
                f"gives a {('log-likelihood', 'log prior')[at[0]]} of {found[at]}, in the store it is {stored[at]}; "
                "a function of the model has changed: put it back, or give another store"
            )

    @property
    def filled(self) -> list[int]:
        return [chain.filled for chain in self.chains]

    def append(self, index: int, chunk: Chunk, engine: Engine) -> None:
        """Take records of a chain; write full chunks, and commit them when they have waited long enough."""
        chain = self.chains[index]
        if not len(chunk.log_prior):
            return
        if self.layout.n_rows:
            add_counts(chunk.states, chain.counts)
        with clear_errors(self.path, "write to"):
            full = self._fill(index, chain, chunk)
        waited = time.monotonic() - chain.written_at
        if waited > FLUSH_SECONDS or (full and waited > COMMIT_SECONDS) or chain.filled == self.layout.n_draws:
            self.flush(index, engine)

    def flush(self, index: int, engine: Engine) -> None:
        """Write what a chain has and commit it."""
        chain = self.chains[index]
        if chain.filled == chain.flushed:
            return
        with clear_errors(self.path, "write to"):
            if chain.filled % self.layout.chunk_draws:
                self._write_partly_filled(index, chain)
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
        """Go on where the disk is: a partly filled chunk is read back, to be replaced by a fuller one."""
        chain = self.chains[index]
        chain.filled = chain.flushed = int(checkpoint["n_draws"])
        chain.counts = checkpoint["counts"]
        chain.sizes = checkpoint["sizes"].tolist()
        n_full, kept = divmod(chain.flushed, self.layout.chunk_draws)
        if kept:
            for values, name in zip(chain.chunk, self.layout.records, strict=True):
                values[:kept] = read_chunk(self.path, self.layout, name, index, n_full)[:kept]

    def _fill(self, index: int, chain: ChainRecord, new: Chunk) -> bool:
        """Put draws into the chunk at hand, and write it whenever it is full; returns whether it was."""
        first, n_new, n_chunk = 0, len(new.log_prior), self.layout.chunk_draws
        parts = [part for part in new if part.size]  # what a run has none of is not stored
        n_full = len(chain.sizes)
        while first < n_new:
            at = chain.filled % n_chunk
            n = min(n_chunk - at, n_new - first)
            for values, more in zip(chain.chunk, parts, strict=True):
                values[at : at + n] = more[first : first + n]
            first += n
            if at + n == n_chunk:
                chain.sizes.append(self._write_chunk(index, len(chain.sizes), chain.chunk))
            chain.filled += n
        return len(chain.sizes) > n_full

    def _write_partly_filled(self, index: int, chain: ChainRecord) -> None:
        for values in chain.chunk:
            values[chain.filled % self.layout.chunk_draws :] = 0  # the chunk before left something there
        self._write_chunk(index, len(chain.sizes), chain.chunk)

    def _write_chunk(self, chain: int, number: int, chunk: list[npt.NDArray[Any]]) -> list[int]:
        """Files of one chunk; returns their sizes."""
        from numcodecs.zstd import Zstd  # type: ignore[import-untyped]  # not needed by runs in memory

        sizes = []
        for name, values in zip(self.layout.records, chunk, strict=True):
            # The checksum lets every reader find a damaged chunk.
            content = Zstd(level=LEVEL, checksum=True).encode(values)
            replace_file(self.path / self.layout.chunk_file(name, chain, number), content)
            sizes.append(len(content))
        return sizes

    def _write_checkpoint(self, index: int, chain: ChainRecord, engine: Engine) -> None:
        content = io.BytesIO()
        np.savez(
            content,
            **engine.checkpoint(),
            n_draws=chain.filled,
            counts=chain.counts,
            sizes=np.array(chain.sizes, np.int64).reshape(-1, len(self.layout.records)),
            log_densities=engine.log_densities(),
        )
        replace_file(self.path / "checkpoints" / checkpoint_name(index, chain.filled), content.getbuffer())

    def _drop_old_checkpoints(self, index: int, chain: ChainRecord) -> None:
        keep = checkpoint_name(index, chain.flushed)
        for file in (self.path / "checkpoints").glob(f"chain-{index}-*"):
            if file.name != keep:
                file.unlink(missing_ok=True)

    def _commit(self) -> None:
        """Replace the group's metadata: from here on the flushed draws exist."""
        self.header["committed"] = [chain.flushed for chain in self.chains]
        for name in self.layout.records:
            self.arrays[name]["shape"][1] = min(self.header["committed"])
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {KEY: self.header},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": self.arrays},
        }
        replace_file(self.path / "zarr.json", as_json(group))
        # For readers that do not know of consolidated metadata; they may see fewer draws, never more.
        for name in self.layout.records:
            replace_file(self.path / name / "zarr.json", as_json(self.arrays[name]))
