"""Layout: the arrays of a run on disk, their shapes, types and chunks."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chiasma.errors import StoreError


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

    @classmethod
    def read(cls, told: Any) -> Layout:
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
        return {"beta": self.n_replicas, "y": self.n_sites, "starts": self.n_sites, "gaps": self.n_sites - 1}

    def chunk_file(self, name: str, chain: int, chunk: int) -> Path:
        return Path(name, ".".join(["c", str(chain), str(chunk), *("0" for _ in self.records[name][0])]))

    def chunk_bytes(self, name: str) -> int:
        """Uncompressed."""
        last, dtype, _ = self.records[name]
        return self.chunk_draws * prod(last) * np.dtype(dtype).itemsize


# Zstandard packs 128 KiB of zeros into 4 bytes, and no more into fewer.
MOST_PACKED = 2**16


def check_promise(file: Path, promised: int, held: int) -> None:
    """Refuse an array of more bytes than the bytes on disk can hold, before memory is taken for it."""
    if promised > MOST_PACKED * (held + 16):
        raise StoreError(
            f"{file} has {held:,} bytes, which cannot hold the {promised:,} that the run says; it is damaged or was "
            "not written by chiasma: restore it from a backup"
        )
