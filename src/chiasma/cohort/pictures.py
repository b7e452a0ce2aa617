"""The small picture of a sample: rows from top to bottom, sites from left to right, dark where a value is near 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from chiasma import atomic
from chiasma.types import Floats

WIDTH, ROW_HEIGHT, MOST_ROWS = 320, 6, 16
PALE, DARK = np.array([238.0, 242.0, 246.0]), np.array([18.0, 48.0, 79.0])


def write_picture(values: Floats, path: Path) -> None:
    """values: (rows, sites) from 0 to 1; neighbouring sites, and rows beyond MOST_ROWS, are averaged."""
    small = binned(binned(values, MOST_ROWS).T, WIDTH).T
    tall = np.repeat(small, ROW_HEIGHT, axis=0)[..., None]
    pixels = np.round(PALE + tall * (DARK - PALE)).astype(np.uint8)
    with atomic.whole_file(path) as partial:
        Image.fromarray(pixels).save(partial, format="png")


def binned(values: Floats, n: int) -> Floats:
    """Means over at most n bins of neighbouring rows.

    >>> binned(np.arange(6.0)[:, None], 3)[:, 0].tolist()
    [0.5, 2.5, 4.5]
    """
    length = len(values)
    if length <= n:
        return values
    edges = np.arange(n) * length // n
    sums: Floats = np.add.reduceat(values, edges, axis=0)
    return sums / np.diff([*edges, length])[:, None]
