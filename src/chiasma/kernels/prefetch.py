"""Asking for a number of a large table before it is needed."""

from llvmlite import ir
from numba import types

from chiasma._jit import interpreted_as

INT32 = ir.IntType(32)
ADDRESS = ir.IntType(8).as_pointer()
NAME = "llvm.prefetch.p0"
READ, KEEP, DATA = INT32(0), INT32(3), INT32(1)


@interpreted_as(lambda table, i, j: None)
def prefetch(_, table, i, j):
    """Bring table[i, j] (any layout, indices not checked) towards the cache; changes nothing."""
    if not isinstance(table, types.Array) or table.ndim != 2:
        return None

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, value=args[0])
        address = builder.ptrtoint(array.data, ir.IntType(64))
        for axis, index in enumerate(args[1:]):
            address = builder.add(address, builder.mul(index, builder.extract_value(array.strides, axis)))
        function = builder.module.globals.get(NAME)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [ADDRESS, INT32, INT32, INT32]), NAME)
        builder.call(function, [builder.inttoptr(address, ADDRESS), READ, KEEP, DATA])
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), generate
