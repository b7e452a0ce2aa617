"""How kernels are compiled; the only place with numba flags.

`contract` lets the compiler fuse multiply-adds. `vector_njit` adds `reassoc`, which lets it split a sum over
SIMD lanes; recurrences are better off without it, because it may also lengthen their critical path. Flags that
assume away infinities and NaN are never set: -inf is a legitimate log-probability here. `inlined_njit` is for small
functions in the innermost loops of others. Compiled kernels are kept in the cache of `chiasma._kernel_cache`.

By itself numba optimises every function and emits its machine code, and does both again wherever the function is
inlined. Here a kernel has two forms. What Python calls is compiled as usual. What kernels call is a `Helper`: it ends
as intermediate code, which is linked into its callers and optimised there. This halves the time of compilation.
"""

import contextlib
import gc
from functools import cached_property, partial
from importlib import import_module

import numba
from llvmlite.binding import parse_bitcode
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, compile_result
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

# Imported by name: mypy would count kernels to the cycle of the whole package and lose the types of their constants.
cache = import_module("chiasma._kernel_cache")
_FLAGS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


class LinkedCode(JITCodeLibrary):
    """Intermediate code of a function and its callees, as it was generated."""

    def finalize(self):
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def as_bitcode(self):
        return self._get_module_for_linking().as_bitcode()

    @classmethod
    def of_bitcode(cls, codegen, bitcode):
        library = cls(codegen, "helper")
        library._final_module = parse_bitcode(bitcode)
        library._finalized = True
        return library


class HelperCompiler(Compiler):
    """numba's pipeline, without an entry point for Python and without machine code."""

    def __init__(self, typing_context, target_context, library, args, return_type, flags, local_types):
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = LinkedCode(target_context.codegen(), "helper")
        super().__init__(typing_context, target_context, library, args, return_type, flags, local_types)


class HelperCacheImpl(cache.KernelCacheImpl):  # type: ignore[name-defined]
    """Keeps the intermediate code of a helper and its types."""

    def get_filename_base(self, fullname, abiflags):
        return super().get_filename_base(f"helper.{fullname}", abiflags)

    def reduce(self, compiled):
        # Neither can be pickled, and callers need neither.
        compiled.fndesc.typemap = compiled.fndesc.calltypes = None
        return compiled.library.as_bitcode(), compiled.fndesc, compiled.signature

    def rebuild(self, target_context, reduced):
        bitcode, description, signature = reduced
        library = LinkedCode.of_bitcode(target_context.codegen(), bitcode)
        return compile_result(
            library=library, entry_point=library, fndesc=description, signature=signature, objectmode=False
        )


class HelperCache(cache.KernelCache):  # type: ignore[name-defined]
    _impl_class = HelperCacheImpl


class _Cached(CPUDispatcher):
    def __init__(self, function, flags, kind, **options):
        super().__init__(function, targetoptions={"nopython": True, **_FLAGS, **flags}, **options)
        with contextlib.suppress(RuntimeError):  # without a source file there is nothing to name the code by
            self._cache = kind(function)

    def compile(self, signature):
        # Compiling makes many objects that stay: looking for cycles among them takes a tenth of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile(signature)
        finally:
            if collecting:
                gc.enable()

    def __reduce__(self):
        return self.py_func.__qualname__  # by name: numba would send the function, to be compiled again


class Helper(_Cached):
    """A function that only kernels call."""

    def __init__(self, function, flags):
        super().__init__(function, flags, HelperCache, pipeline_class=HelperCompiler)

    def add_overload(self, compiled):
        if compiled.entry_point is None:  # it was compiled now, and is not from the cache
            compiled = compiled._replace(entry_point=compiled.library)
            self.targetctx.insert_user_function(compiled.entry_point, compiled.fndesc, [compiled.library])
        self.overloads[tuple(compiled.signature.args)] = compiled


class Kernel(_Cached):
    """A function that Python calls; kernels call its helper."""

    def __init__(self, function, flags):
        super().__init__(function, flags, cache.KernelCache)
        self.flags = flags

    @cached_property
    def helper(self):
        return Helper(self.py_func, self.flags)

    def get_call_template(self, args, kws):
        # A constant number is one number like another: otherwise every one would be compiled for.
        args = [types.unliteral(one) if isinstance(one, types.IntegerLiteral) else one for one in args]
        return self.helper.get_call_template(args, kws)

    def get_overload(self, signature):
        return self.helper.get_overload(signature)


class Choice:
    """One of two helpers by the type of the first argument: an array, or a named tuple."""

    is_compiling = False  # asked by numba

    def __init__(self, choose, binary, general):
        self._choose, self._binary, self._general = choose, binary, general
        self._numba_type_ = types.Dispatcher(self)

    def __call__(self, *args):
        return self._choose(*args)

    def _of(self, form):
        return self._general if isinstance(form, types.BaseTuple) else self._binary

    def get_call_template(self, args, kws):
        return self._of(args[0]).get_call_template([types.unliteral(one) for one in args], kws)

    def get_overload(self, args):
        return self._of(args[0]).get_overload(args)


def _compiled(flags, function):
    return function if numba.config.DISABLE_JIT else Kernel(function, flags)


njit = partial(_compiled, {})
vector_njit = partial(_compiled, {"fastmath": {"contract", "reassoc", "nsz"}})
inlined_njit = partial(_compiled, {"forceinline": True})


def by_form(binary, general, inlined=True):
    """One function of two with the same arguments: `binary` where the first one is an array, `general` where it is a
    named tuple (see `chiasma.kernels.transitions`).

    Which of them it is, is decided when a caller is compiled, so that kernels are written once for both and lose
    nothing. A function passed as an argument would do the same, but numba never keeps kernels that take one.

    inlined : whether it always is; otherwise the compiler decides.
    """

    def choose(form, *args):
        return (general if isinstance(form, tuple) else binary)(form, *args)

    if numba.config.DISABLE_JIT:
        return choose
    return Choice(
        choose, *(Helper(getattr(one, "py_func", one), {"forceinline": inlined}) for one in (binary, general))
    )


def interpreted_as(plain):
    """Decorator of a numba intrinsic: `plain` replaces it when kernels are not compiled (NUMBA_DISABLE_JIT=1)."""
    return lambda generator: plain if numba.config.DISABLE_JIT else intrinsic(generator)
