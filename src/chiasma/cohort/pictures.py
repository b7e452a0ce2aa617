"""The small picture of a sample: bands from top to bottom, sites from left to right, dark where a value is near 1.

It is transparent where there are no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from chiasma import atomic
from chiasma.types import Floats

WIDTH, ROW_HEIGHT, MOST_ROWS = 200, 8, 16
PALE, DARK = np.array([238.0, 242.0, 246.0]), np.array([18.0, 48.0, 79.0])


def write_picture(values: Floats, path: Path) -> None:
    """values: (bands, sites) from 0 to 1; neighbouring sites, and bands beyond MOST_ROWS, are averaged.

    NaN is no data: it counts in no average.
    """
    small = binned(binned(values, MOST_ROWS).T, WIDTH).T
    tall = np.repeat(small, ROW_HEIGHT, axis=0)[..., None]
    seen = ~np.isnan(tall)
    colours = np.round(PALE + np.where(seen, tall, 0.0) * (DARK - PALE))
    pixels = np.concatenate([colours * seen, 255 * seen], axis=-1).astype(np.uint8)
    with atomic.whole_file(path) as partial:
        Image.fromarray(pixels).save(partial, format="png")


def binned(values: Floats, n: int) -> Floats:
    """Means over at most n bins of neighbouring rows, without NaN; NaN where a bin has nothing else.

    >>> binned(np.arange(6.0)[:, None], 3)[:, 0].tolist()
    [0.5, 2.5, 4.5]
    >>> binned(np.array([[1.0], [np.nan], [np.nan], [np.nan]]), 2)[:, 0].tolist()
    [1.0, nan]
    """
    length = len(values)
    if length <= n:
        return values
    edges = np.arange(n) * length // n
    known = ~np.isnan(values)
    sums: Floats = np.add.reduceat(np.where(known, values, 0.0), edges, axis=0)
    counts = np.add.reduceat(known.astype(float), edges, axis=0)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def in_words(name: str, bands: Sequence[str], span: str) -> str:
    """What the picture of a sample shows.

    >>> in_words("monday", ["lamp", "kettle"], "0-399")
    'monday, 0-399; bands from above: lamp, kettle'
    """
    rows = ", ".join(bands)
    if len(bands) > MOST_ROWS:
        rows += f" (averaged to {MOST_ROWS} bands)"
    return f"{name}{span and f', {span}'}{rows and f'; bands from above: {rows}'}"
