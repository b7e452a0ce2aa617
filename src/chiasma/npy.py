"""NumPy files (.npy, .npz) from anywhere: the header must keep to what is there before memory is taken; no pickles."""

from __future__ import annotations

import io
import zipfile
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

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
        raise ValueError(f"its header cannot be read ({_reason(error)})") from error
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
        raise ValueError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
