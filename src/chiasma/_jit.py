"""The only place with numba flags.

`contract` lets the compiler fuse multiply-adds. `vector_njit` adds `reassoc`, which lets it split a sum over
SIMD lanes; recurrences are better off without it, because it may also lengthen their critical path. Flags that
assume away infinities and NaN are never set: -inf is a legitimate log-probability here.
"""

from functools import partial

import numba

njit = partial(numba.njit, cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
vector_njit = partial(njit, fastmath={"contract", "reassoc", "nsz"})

njit, vector_njit = njit(), vector_njit()
