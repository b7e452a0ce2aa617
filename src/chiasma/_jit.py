"""The only place with numba flags.

`contract` lets the compiler fuse multiply-adds. `vector_njit` adds `reassoc`, which lets it split a sum over
SIMD lanes; recurrences are better off without it, because it may also lengthen their critical path. Flags that
assume away infinities and NaN are never set: -inf is a legitimate log-probability here. `inlined_njit` is for small
functions in the innermost loops of others.
"""

from functools import partial

import numba
from numba.extending import intrinsic

njit = partial(numba.njit, cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
vector_njit = partial(njit, fastmath={"contract", "reassoc", "nsz"})
inlined_njit = partial(njit, forceinline=True)

njit, vector_njit, inlined_njit = njit(), vector_njit(), inlined_njit()


def interpreted_as(plain):
    """Decorator of a numba intrinsic: `plain` replaces it when kernels are not compiled (NUMBA_DISABLE_JIT=1)."""
    return lambda generator: plain if numba.config.DISABLE_JIT else intrinsic(generator)
