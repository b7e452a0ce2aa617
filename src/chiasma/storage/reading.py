"""Reading a run on disk: every byte is compared with a digest that was written with it.

The header (the group's zarr.json) holds a digest of itself, of the checkpoints and of the arrays of fixed size; a
checkpoint holds those of the chunks of draws. Whatever is damaged, missing or not ours gives a StoreError that names
the file. NumPy files (.npy, .npz) are read without pickles, and only if they hold as much as their headers claim.
"""

from __future__ import annotations

import errno
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.errors import ChiasmaError, StoreError
from chiasma.storage.digests import check_seal, fingerprint, read_whole, read_with_digest, reason

# ---- NumPy files ----------------------------------------------------------------------------------------------------


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# Deflate, which .npz files use, shrinks nothing further.
MOST_PACKED = 1100


def read_npy(content: bytes) -> npt.NDArray[Any]:
    """The array of a .npy file; raises ValueError for anything else.

    >>> file = io.BytesIO()
    >>> np.save(file, np.arange(3.0))
    >>> read_npy(file.getvalue())
    array([0., 1., 2.])
    """
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = _HEADERS[version](file)
        shape = tuple(int(n) for n in shape)
    except Exception as error:  # a hostile header is evaluated, and may fail in many ways
        raise ValueError(f"its header cannot be read ({reason(error)})") from error
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    promised, held = prod(shape) * dtype.itemsize, len(content) - file.tell()
    if any(n < 0 for n in shape) or promised != held:
        raise ValueError(f"its header promises {promised:,} bytes of shape {shape}, it has {held:,}")
    values = np.frombuffer(content, dtype, offset=file.tell()) if promised else np.empty(prod(shape), dtype)
    return values.reshape(shape, order="F" if fortran else "C").copy()


def read_npz(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a .npz file by name; raises ValueError for anything else."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > MOST_PACKED * (len(content) + 1):
                raise ValueError("it promises more than it can hold")
            return {member.filename.removesuffix(".npy"): read_npy(archive.read(member)) for member in members}
    except Exception as error:
        raise ValueError(reason(error)) from error


# ---- The layout of a run --------------------------------------------------------------------------------------------


class RunLayout(NamedTuple):
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

    @classmethod
    def read(cls, told: Any) -> RunLayout:
        """The layout in a header; raises ValueError where it cannot be one."""
        layout = cls(**told)
        counts = (layout.n_chains, layout.n_draws, layout.n_sites, layout.n_replicas, layout.chunk_draws)
        more = (layout.n_rows, layout.n_values, layout.n_pairs)
        if not all(type(n) is int for n in counts + more) or min(counts) < 1 or min(more) < 0:
            raise ValueError(f"sizes must be whole numbers, got {told}")
        if layout.name not in ("codes", "x") or np.dtype(layout.dtype).kind not in "biuf":
            raise ValueError(f"draws must be codes or x, of numbers, got {layout.name} of {layout.dtype}")
        return layout

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

    @property
    def static(self) -> dict[str, int]:
        """How long the arrays of fixed size are at most; `starts` may be shorter."""
        n = self.n_sites
        return {"beta": self.n_replicas, "y": n, "starts": n, "gaps": n - 1, "known": n}

    def chunk_file(self, name: str, chain: int, chunk: int) -> Path:
        return Path(name, ".".join(["c", str(chain), str(chunk), *("0" for _ in self.records[name][0])]))

    def chunk_bytes(self, name: str) -> int:
        """Uncompressed."""
        last, dtype, _ = self.records[name]
        return self.chunk_draws * prod(last) * np.dtype(dtype).itemsize


# Zstandard packs 128 KiB of zeros into 4 bytes, and no more into fewer.
MOST_PACKED_ZSTD = 2**16


def check_promise(file: Path, promised: int, held: int) -> None:
    """Refuse an array of more bytes than the bytes on disk can hold, before memory is taken for it."""
    if promised > MOST_PACKED_ZSTD * (held + 16):
        raise StoreError(
            f"{file} has {held:,} bytes, which cannot hold the {promised:,} that the run says; it is damaged or was "
            "not written by chiasma: restore it from a backup"
        )


FORMAT = 1
KEY = "chiasma"
_REMEDIES = {
    "create": "choose another path",
    "write to": "free some space there, then continue with resume=True: draws up to the last flush are safe",
    "read": "check the path",
}
_GONE = (
    "it, or a part of it, was moved or removed while the run was written: put it back and continue with resume=True, "
    "or begin again"
)
_RESTORE = "it is damaged or was changed by another program: restore it from a backup"


class StoredRun(NamedTuple):
    """One committed state of a run: its header, and the checkpoint of every chain, empty where it has none."""

    path: Path
    header: dict[str, Any]
    checkpoints: list[dict[str, npt.NDArray[Any]]]

    @property
    def layout(self) -> RunLayout:
        return RunLayout(**self.header["layout"])

    @property
    def committed(self) -> list[int]:
        """Draws of every chain."""
        return list(self.header["committed"])


@contextmanager
def clear_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of the system into StoreErrors."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        is_gone = doing == "write to" and error.errno == errno.ENOENT
        raise StoreError(
            f"cannot {doing} {path}: {error.strerror or error}; {_GONE if is_gone else _REMEDIES[doing]}"
        ) from error


@contextmanager
def only_store_errors(path: Path) -> Iterator[None]:
    """Turn whatever other packages raise while they read a store into a StoreError."""
    try:
        yield
    except (ChiasmaError, MemoryError):
        raise
    except Exception as error:
        raise StoreError(f"{path} cannot be read ({type(error).__name__}: {error}); {_RESTORE}") from error


# ---- The header -----------------------------------------------------------------------------------------------------


def read_header(path: Path) -> dict[str, Any]:
    """The header of a store; raises StoreError if the path is not a store, is damaged, or has another format."""
    file = path / "zarr.json"
    if not file.exists():
        raise StoreError(f"{path} is not a chiasma run: it has no zarr.json; check the path")
    with clear_errors(file, "read"):
        content = read_whole(file)
    try:
        group = json.loads(content)
        header = dict(group["attributes"][KEY])
        found = header.get("format")
    except Exception as error:
        raise StoreError(
            f"{path} is not a chiasma run: its zarr.json has no chiasma entry; check the path, or restore the file "
            "from a backup"
        ) from error
    if found != FORMAT:
        raise StoreError(
            f"{path} was written in format {found}, this version reads format {FORMAT}; open it with the version of "
            "chiasma that wrote it"
        )
    try:
        check_seal(content, header.get("digest"))
    except ValueError:
        raise StoreError(f"{file} does not match its digest; {_RESTORE}") from None
    try:
        header["metadata"] = group["consolidated_metadata"]["metadata"]
        return _checked(header)
    except Exception as error:
        raise StoreError(f"{file} does not describe a run ({type(error).__name__}: {error}); {_RESTORE}") from error


def _checked(header: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError, KeyError or TypeError where a part is missing or cannot be right."""
    layout, committed = RunLayout.read(header["layout"]), header["committed"]
    if len(committed) != layout.n_chains or not all(type(n) is int and n >= 0 for n in committed):
        raise ValueError(f"committed draws must be one count per chain, got {committed}")
    if len(header["checkpoints"]) != layout.n_chains:
        raise ValueError("digests of checkpoints must be one per chain")
    for name in layout.records:
        if len(header["metadata"][name]["shape"]) < 2:
            raise ValueError(f"{name} must have a chain and a draw axis")
    if not all(isinstance(name, str) for name in header["arrays"]) or not isinstance(header["static"], dict):
        raise ValueError("arrays must be names, and static files a table")
    about = header["provenance"]
    for part in ("model", "data", "run"):
        dict(about[part])
    int(about["run"]["seed"])
    if not all(isinstance(seconds, int | float) for seconds in dict(header["timings"]).values()):
        raise ValueError(f"timings must be seconds, got {header['timings']}")
    return header


# ---- Checkpoints ----------------------------------------------------------------------------------------------------


def checkpoint_name(chain: int, n_draws: int) -> str:
    return f"chain-{chain}-{n_draws}.npz"


def read_run(path: Path) -> StoredRun:
    """The header and the checkpoints that belong to it; works while a running process replaces them."""
    while True:
        header = read_header(path)
        try:
            return StoredRun(path, header, [read_checkpoint(path, header, c) for c in range(len(header["committed"]))])
        except StoreError:
            if read_header(path)["committed"] == header["committed"]:
                raise


def read_checkpoint(path: Path, header: dict[str, Any], chain: int) -> dict[str, npt.NDArray[Any]]:
    """The checkpoint of a chain at its last flush; empty if it has none."""
    n_draws = header["committed"][chain]
    if n_draws == 0:
        return {}
    file = path / "checkpoints" / checkpoint_name(chain, n_draws)
    try:
        content = read_with_digest(file.parent, file.name, {file.name: header["checkpoints"][chain]})
        return _checked_checkpoint(read_npz(content), RunLayout(**header["layout"]), n_draws)
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"{file} cannot be read ({reason(error)}) and the run cannot be resumed without it; restore it from a "
            f"backup. The draws may be intact: look at them with xarray.open_zarr({str(path)!r})"
        ) from error


def _checked_checkpoint(
    found: dict[str, npt.NDArray[Any]], layout: RunLayout, n_draws: int
) -> dict[str, npt.NDArray[Any]]:
    """Raise ValueError or KeyError where a part is missing or has another shape than the run needs."""
    if int(found["n_draws"]) != n_draws:
        raise ValueError(f"it belongs to draw {found['n_draws']}, not {n_draws}")
    shapes = {
        "states": (layout.n_replicas, layout.n_sites),
        "betas": (layout.n_replicas,),
        "counts": (layout.n_rows, layout.n_sites),
        "sizes": (n_draws // layout.chunk_draws, len(layout.records)),
        "digests": (n_draws // layout.chunk_draws, len(layout.records)),
        "tails": (len(layout.records) if n_draws % layout.chunk_draws else 0,),
        "log_densities": (2, layout.n_replicas),
    }
    for name, shape in shapes.items():
        if found[name].shape != shape or found[name].dtype.kind not in "biuf":
            raise ValueError(f"{name} must be numbers of shape {shape}, it has {found[name].shape}")
    return found


# ---- Chunks of draws ------------------------------------------------------------------------------------------------


def unpack_chunk(file: Path, layout: RunLayout, name: str, content: bytes) -> npt.NDArray[Any]:
    """(chunk_draws, ...): the content of one chunk."""
    from numcodecs.zstd import Zstd  # type: ignore[import-untyped]  # not needed by runs in memory

    last, dtype, _ = layout.records[name]
    size = layout.chunk_bytes(name)
    check_promise(file, size, len(content))
    # Room for what must be there and no more, whatever the file says about itself.
    room = np.empty(size, np.uint8)
    n_bytes = _unpacked_bytes(content)
    if n_bytes != size:  # of fewer, the rest of the room would be read as draws
        raise ValueError(f"{n_bytes} bytes instead of {size}")
    Zstd().decode(content, out=room)
    return room.view(np.dtype(dtype).newbyteorder("<")).reshape(layout.chunk_draws, *last).astype(dtype)


def _unpacked_bytes(frame: bytes) -> int | None:
    """The size that the header of a Zstandard frame states (RFC 8878, 3.1.1.1); None without one.

    >>> from numcodecs.zstd import Zstd
    >>> [_unpacked_bytes(Zstd().encode(bytes(n))) for n in (0, 255, 256, 100_000)]
    [0, 255, 256, 100000]
    """
    if len(frame) < 5:
        return None
    flag, is_single_segment, dictionary = frame[4] >> 6, frame[4] >> 5 & 1, frame[4] & 3
    n_bytes = (is_single_segment, 2, 4, 8)[flag]
    first = 5 + (1 - is_single_segment) + (0, 1, 2, 4)[dictionary]
    stated = int.from_bytes(frame[first : first + n_bytes], "little") + (256 if flag == 1 else 0)
    return stated if n_bytes else None


def read_block(run: StoredRun, name: str, chain: int, chunk: int) -> npt.NDArray[Any]:
    """(n, ...): the committed draws of one chunk, compared with their digest."""
    layout, column = run.layout, list(run.layout.records).index(name)
    checkpoint, n_draws = run.checkpoints[chain], run.committed[chain]
    file = run.path / layout.chunk_file(name, chain, chunk)
    n_kept = min(layout.chunk_draws, n_draws - chunk * layout.chunk_draws)
    is_full = n_kept == layout.chunk_draws
    try:
        content = read_whole(file)
        if is_full and fingerprint(content) != checkpoint["digests"][chunk, column]:
            raise ValueError("it does not match its digest")
        values = unpack_chunk(file, layout, name, content)[:n_kept]
        # A partly filled chunk may have become fuller since: only what was committed is compared.
        if not is_full and draws_fingerprint(values) != checkpoint["tails"][column]:
            raise ValueError("it does not match its digest")
    except FileNotFoundError:
        raise damaged(run.path, layout, name, chain, chunk, "is missing") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise damaged(run.path, layout, name, chain, chunk, f"cannot be decompressed ({error})") from error
    return values


def draws_fingerprint(values: npt.NDArray[Any]) -> int:
    """The digest of draws as they are stored, little-endian."""
    return fingerprint(np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False)))


def read_draws(run: StoredRun, name: str, n_draws: int) -> npt.NDArray[Any]:
    """(chain, n_draws, ...): the first draws of every chain."""
    layout = run.layout
    last, dtype, _ = layout.records[name]
    out = np.empty((layout.n_chains, n_draws, *last), dtype)
    for chain in range(layout.n_chains):
        for chunk, first in enumerate(range(0, n_draws, layout.chunk_draws)):
            part = out[chain, first : first + layout.chunk_draws]
            part[:] = read_block(run, name, chain, chunk)[: len(part)]
    return out


def check_chunks(run: StoredRun) -> None:
    """Look for damage without reading everything: sizes of full chunks, and the content of partly filled ones.

    The size of a partly filled chunk proves nothing: a killed process may have replaced it by a fuller one.
    """
    layout = run.layout
    for chain, checkpoint in enumerate(run.checkpoints):
        for chunk, sizes in enumerate(checkpoint.get("sizes", ())):
            for name, size in zip(layout.records, sizes, strict=True):
                file = run.path / layout.chunk_file(name, chain, chunk)
                found = file.stat().st_size if file.exists() else None
                if found != size:
                    what = "is missing" if found is None else f"has {found} bytes and was written with {size}"
                    raise damaged(run.path, layout, name, chain, chunk, what)
        n_full, kept = divmod(run.committed[chain], layout.chunk_draws)
        for name in layout.records if kept else ():
            read_block(run, name, chain, n_full)


def damaged(path: Path, layout: RunLayout, name: str, chain: int, chunk: int, what: str) -> StoreError:
    first = chunk * layout.chunk_draws
    before = f", or open the draws before it with open_posterior(path, draws={first})" if first else ""
    return StoreError(
        f"{path / layout.chunk_file(name, chain, chunk)} {what}: draws {first} and later of chain {chain} are damaged; "
        f"restore the file from a backup{before}"
    )


# ---- Arrays of fixed size -------------------------------------------------------------------------------------------


def check_static(run: StoredRun, file: str) -> int:
    """Compare a file with its digest in the header; returns its size."""
    try:
        return len(read_with_digest(run.path, file, run.header["static"]))
    except (OSError, ValueError) as error:
        raise StoreError(f"{run.path / file} cannot be read ({reason(error)}); {_RESTORE}") from error


def read_static(run: StoredRun, name: str) -> npt.NDArray[Any]:
    """An array of fixed size: beta, y, starts, gaps or known."""
    import zarr

    for file in run.header["static"]:
        if file.startswith(f"{name}/"):
            check_static(run, file)
    folder, length = run.path / name, run.layout.static[name]
    try:
        stored = zarr.open_array(folder, mode="r", zarr_format=3)
        fits = stored.shape[0] == length or (name == "starts" and 1 <= stored.shape[0] <= length)
        if stored.ndim > 2 or not fits or stored.dtype.kind not in "iuf":
            raise StoreError(
                f"{folder / 'zarr.json'} says shape {stored.shape} of {stored.dtype}, expected {length} numbers; "
                f"{_RESTORE}"
            )
        held = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        check_promise(folder, stored.nbytes, held)
        return np.asarray(stored[...])
    except StoreError:
        raise
    except Exception as error:  # zarr and its codecs raise whatever they like
        raise StoreError(f"{folder} cannot be read ({type(error).__name__}: {error}); {_RESTORE}") from error
