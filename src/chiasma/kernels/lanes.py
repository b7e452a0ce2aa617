"""SIMD by hand: four neighbouring numbers of an array in one register.

The compiler vectorises loops whose steps are alike. The lowest axes of a tensor exchange neighbours, where no two steps
are alike, and for a column of eight or thirty-two codes the checks before a vectorised loop cost more than the loop.
Kernels that work on such columns say themselves what goes into one register: values of type `Lanes`, with +, -, *, /.

Interpreted, without the compiler, four lanes are a NumPy array of four numbers.

Also arrays that begin on a line of the cache, and loads ahead of time.
"""

import operator
from ctypes import addressof, c_char

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, register_model, type_callable

from chiasma._jit import inlined_njit, interpreted_as

REGISTER = ir.VectorType(ir.DoubleType(), 4)
INDEX = ir.IntType(32)
ORDER = ir.VectorType(INDEX, 4)


class Lanes(types.Type):
    def __init__(self):
        super().__init__(name="Lanes")


LANES = Lanes()


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    def __init__(self, manager, of):
        super().__init__(manager, of, REGISTER)


def _is_contiguous(array):
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float64 and array.ndim == 1


def _address(context, builder, signature, array, index):
    data = context.make_array(signature.args[0])(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [index]), REGISTER.as_pointer())


@interpreted_as(lambda array, first: array[first : first + 4].copy())
def load(_, array, first):
    """array[first : first + 4]."""
    if not _is_contiguous(array):
        return None

    def generate(context, builder, signature, args):
        return builder.load(_address(context, builder, signature, *args), align=8)

    return LANES(array, types.intp), generate


def _store_plain(array, first, lanes):
    array[first : first + 4] = lanes


@interpreted_as(_store_plain)
def store(_, array, first, lanes):
    """array[first : first + 4] = lanes."""
    if not _is_contiguous(array):
        return None

    def generate(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature, *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, LANES), generate


@interpreted_as(lambda a, b, c, d: np.array([a, b, c, d]))
def lanes_of(_, a, b, c, d):
    """Four numbers in the lanes of one register."""

    def generate(context, builder, signature, args):
        lanes = ir.Constant(REGISTER, ir.Undefined)
        for i, value in enumerate(args):
            lanes = builder.insert_element(lanes, value, INDEX(i))
        return lanes

    return LANES(*[types.float64] * 4), generate


@interpreted_as(lambda value: np.array([value, value, value, value]))
def spread(_, value):
    """One number in all four lanes."""

    def generate(context, builder, signature, args):
        lanes = builder.insert_element(ir.Constant(REGISTER, ir.Undefined), args[0], INDEX(0))
        return builder.shuffle_vector(lanes, lanes, ir.Constant(ORDER, [0] * 4))

    return LANES(types.float64), generate


def _shuffle(*order):
    @interpreted_as(lambda lanes: lanes[list(order)])
    def shuffle(_, lanes):
        def generate(context, builder, signature, args):
            mask = ir.Constant(ORDER, list(order))
            return builder.shuffle_vector(args[0], args[0], mask)

        return LANES(LANES), generate

    return shuffle


swap_neighbours = _shuffle(1, 0, 3, 2)
swap_pairs = _shuffle(2, 3, 0, 1)


@interpreted_as(lambda a, b, c, d: tuple(np.array([a, b, c, d]).T))
def transpose(_, a, b, c, d):
    """Four lanes as the rows of a matrix, to its columns."""

    def generate(context, builder, signature, args):
        def shuffle(left, right, *order):
            return builder.shuffle_vector(left, right, ir.Constant(ORDER, list(order)))

        (a, b, c, d), (even, odd) = args, ((0, 4, 2, 6), (1, 5, 3, 7))
        pairs = [(shuffle(a, b, *order), shuffle(c, d, *order)) for order in (even, odd)]
        columns = [shuffle(*pair, *order) for order in ((0, 1, 4, 5), (2, 3, 6, 7)) for pair in pairs]
        return context.make_tuple(builder, signature.return_type, columns)

    return types.UniTuple(LANES, 4)(LANES, LANES, LANES, LANES), generate


@interpreted_as(lambda lanes: float(lanes[0] + lanes[2]) + float(lanes[1] + lanes[3]))
def total(_, lanes):
    def generate(context, builder, signature, args):
        a, b, c, d = (builder.extract_element(args[0], INDEX(i)) for i in range(4))
        return builder.fadd(builder.fadd(a, c), builder.fadd(b, d))

    return types.float64(LANES), generate


def _choose(comparison):
    def choose(_, left, right):
        def generate(context, builder, signature, args):
            return builder.select(builder.fcmp_ordered(comparison, *args), *args)

        return LANES(LANES, LANES), generate

    return choose


# Lane by lane, for numbers: where the left one is NaN, the right one.
smaller = interpreted_as(np.fmin)(_choose("<"))
larger = interpreted_as(np.fmax)(_choose(">"))


def _define(python_operator, instruction):
    """The operator on two values of type Lanes; `contract` fuses a product with the sum that takes it."""

    @type_callable(python_operator)
    def choose(_):
        return lambda left, right: LANES if isinstance(left, Lanes) and isinstance(right, Lanes) else None

    @lower_builtin(python_operator, Lanes, Lanes)
    def generate(_, builder, __, args):
        return getattr(builder, instruction)(*args, flags=["contract"])


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")
_define(operator.truediv, "fdiv")


@inlined_njit
def sum_from(n, array, first):
    """array[first : first + n].sum(), without making the slice."""
    rest = n % 4
    tail = 0.0
    for i in range(first, first + rest):
        tail += array[i]
    sums = spread(0.0)
    for i in range(first + rest, first + n, 4):
        sums = sums + load(array, i)
    return total(sums) + tail


# ---- Arrays that begin on a line of the cache ------------------------------------------------------------------------

# NumPy starts its arrays at any multiple of 16 bytes; where that is no multiple of 32, half of the loads of four
# numbers cross a line, and the filter of ten rows takes 1.4 times as long.
PER_LINE = 8  # numbers in a line of 64 bytes


def aligned_empty(n_rows: int, n: int) -> npt.NDArray[np.float64]:
    """(n_rows, n) floats, not initialised, of which the first one begins a line."""
    room = np.empty(n_rows * n + PER_LINE)
    # NumPy takes five times as long to tell an address.
    first = -(addressof(c_char.from_buffer(room.data)) // 8) % PER_LINE
    return room[first : first + n_rows * n].reshape(n_rows, n)


# ---- Loads ahead of time ---------------------------------------------------------------------------------------------

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
