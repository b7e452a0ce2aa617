"""Arrays that begin on a line of the cache.

Kernels load and store four numbers at a time. NumPy starts its arrays at any multiple of 16 bytes; where that is no
multiple of 32, half of these loads cross a line, and the filter of ten rows takes 1.4 times as long.
"""

import numpy as np
import numpy.typing as npt

from chiasma._jit import njit

PER_LINE = 8  # numbers in a line of 64 bytes


@njit
def _numbers_to_line(array):
    # A kernel, because NumPy takes five times as long to tell an address.
    return -(array.ctypes.data // 8) % PER_LINE


def aligned_empty(n_rows: int, n: int) -> npt.NDArray[np.float64]:
    """(n_rows, n) floats, not initialised, of which the first one begins a line."""
    room = np.empty(n_rows * n + PER_LINE)
    first = _numbers_to_line(room)
    return room[first : first + n_rows * n].reshape(n_rows, n)
