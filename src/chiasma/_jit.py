"""The only place with numba flags.

`contract` lets the compiler fuse multiply-adds. `vector_njit` adds `reassoc`, which lets it split a sum over
SIMD lanes; recurrences are better off without it, because it may also lengthen their critical path. Flags that
assume away infinities and NaN are never set: -inf is a legitimate log-probability here. `inlined_njit` is for small
functions in the innermost loops of others. Compiled kernels are kept in the cache of `chiasma._kernel_cache`.
"""

import contextlib
from functools import partial
from importlib import import_module

import numba
from numba import types
from numba.extending import intrinsic, overload

# Imported by name: mypy would count kernels to the cycle of the whole package and lose the types of their constants.
KernelCache = import_module("chiasma._kernel_cache").KernelCache
_FLAGS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


def _compiled(flags, function):
    kernel = numba.njit(**_FLAGS | flags)(function)
    if not numba.config.DISABLE_JIT:
        with contextlib.suppress(RuntimeError):  # without a source file there is nothing to name the code by
            kernel._cache = KernelCache(function)
    return kernel


njit = partial(_compiled, {})
vector_njit = partial(_compiled, {"fastmath": {"contract", "reassoc", "nsz"}})
inlined_njit = partial(_compiled, {"forceinline": True})


def by_form(binary, general, flags=None):
    """One function of two with the same arguments: `binary` where the first one is an array, `general` where it is a
    named tuple (see `chiasma.kernels.transitions`).

    Which of them it is, is decided when a caller is compiled, so that kernels are written once for both and lose
    nothing. By default they are inlined. A function passed as an argument would do the same, but numba never keeps
    kernels that take one.
    """

    def choose(form, *args):
        return (general if isinstance(form, tuple) else binary)(form, *args)

    if not numba.config.DISABLE_JIT:

        @overload(choose, strict=False, jit_options=_FLAGS | ({"forceinline": True} if flags is None else flags))
        def _choose(form, *args):
            chosen = general if isinstance(form, types.BaseTuple) else binary
            return getattr(chosen, "py_func", chosen)

    return choose


def interpreted_as(plain):
    """Decorator of a numba intrinsic: `plain` replaces it when kernels are not compiled (NUMBA_DISABLE_JIT=1)."""
    return lambda generator: plain if numba.config.DISABLE_JIT else intrinsic(generator)
