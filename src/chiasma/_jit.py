"""The only place with numba flags.

`contract` lets the compiler fuse multiply-adds. `vector_njit` adds `reassoc`, which lets it split a sum over
SIMD lanes; recurrences are better off without it, because it may also lengthen their critical path. Flags that
assume away infinities and NaN are never set: -inf is a legitimate log-probability here. `inlined_njit` is for small
functions in the innermost loops of others. Compiled kernels are kept in the cache of `chiasma._kernel_cache`.
"""

from functools import partial
from importlib import import_module

import numba
from numba.extending import intrinsic

# Imported by name: mypy would count kernels to the cycle of the whole package and lose the types of their constants.
KernelCache = import_module("chiasma._kernel_cache").KernelCache
_FLAGS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


def _compiled(flags, function):
    kernel = numba.njit(**_FLAGS | flags)(function)
    if not numba.config.DISABLE_JIT:
        kernel._cache = KernelCache(function)
    return kernel


njit = partial(_compiled, {})
vector_njit = partial(_compiled, {"fastmath": {"contract", "reassoc", "nsz"}})
inlined_njit = partial(_compiled, {"forceinline": True})


def interpreted_as(plain):
    """Decorator of a numba intrinsic: `plain` replaces it when kernels are not compiled (NUMBA_DISABLE_JIT=1)."""
    return lambda generator: plain if numba.config.DISABLE_JIT else intrinsic(generator)
