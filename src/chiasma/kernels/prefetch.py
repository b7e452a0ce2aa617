"""Prefetching: a number of a large table is brought into the cache before it is needed."""

from llvmlite import ir
from numba import types

from chiasma._jit import interpreted_as

INT32 = ir.IntType(32)
ADDRESS = ir.IntType(8).as_pointer()
NAME = "llvm.prefetch.p0"
READ, KEEP, DATA = INT32(0), INT32(3), INT32(1)


@interpreted_as(lambda table, i: None)
def prefetch(_, table, i):
    """Bring table[i] (the index is not checked) towards the cache; changes nothing."""
    if not isinstance(table, types.Array) or table.ndim != 1 or table.layout != "C":
        return None

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, value=args[0])
        function = builder.module.globals.get(NAME)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [ADDRESS, INT32, INT32, INT32]), NAME)
        builder.call(function, [builder.bitcast(builder.gep(array.data, [args[1]]), ADDRESS), READ, KEEP, DATA])
        return context.get_dummy_value()

    return types.void(table, types.intp), generate
