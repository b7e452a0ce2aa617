"""Figures drawn once, coarsely and without a layout: it takes most of the time of a command that writes many.

Processes that a test starts import this file to draw as the test does; `dask worker --preload light_pictures` does.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_save = Figure.savefig


def lightly(figure: Figure, path: Path, **options: Any) -> None:
    if path.suffix == ".pdf":
        path.write_bytes(b"%PDF")
        return
    figure.set_layout_engine("none")
    _save(figure, path, **options | {"dpi": 20})


def dask_setup(worker: Any) -> None:
    """What Dask calls when a worker has loaded this file."""
    Figure.savefig = lightly  # type: ignore[method-assign,assignment]
