"""Jumps: a block of rows drawn jointly with one more choice at every column, whether a whole difference is applied.

A difference swaps two states, a_k and b_k, of each of some rows at once; of a row with two states it is a flip. Done
twice it does nothing, so that the candidates of a column (with and without it, the rows of the block in any state) are
the same seen from each of them. A difference that was chosen without a look at the path therefore makes a Gibbs update:
forward filtering-backward sampling among the candidates.

Whether the difference is applied is one more axis, f = 0 or 1, of the tensor of the block. Rows move independently, so
its matrix is a product over the rows of the difference that are not in the block,

    B_t[f, g] = prod_k A_k(f applied to x[k, t-1], g applied to x[k, t]),

which depends on the present path. Columns in a row with the same codes and the same kind of edge share a matrix: they
are a new kind of edge.

tables (n, ...): matrices of the axes of the block, then B, of every new kind; kinds (T,): which one enters a column.
"""

from chiasma._jit import njit
from chiasma.kernels.layout import bits_of, code_of_index
from chiasma.kernels.transitions import entry, field, n_axes, n_states_of, state, with_state


@njit
def pick_difference(values, uniform):
    """Index of one of n differences. values (3 n,): their states a, their states b, and cumulative weights."""
    n = values.shape[0] // 3
    target = uniform * values[3 * n - 1]
    chosen = 0
    while chosen < n - 1 and not target < values[2 * n + chosen]:
        chosen += 1
    return chosen


@njit
def swap_states(code, a, b, trans):
    """The code in which every row that is in its state of a is in that of b, and the other way round."""
    swapped = code
    for k in range(n_axes(trans)):
        if (a ^ b) & field(trans, k):
            x, y, z = state(trans, k, code), state(trans, k, a), state(trans, k, b)
            if x == y:
                swapped = with_state(trans, k, swapped, z)
            elif x == z:
                swapped = with_state(trans, k, swapped, y)
    return swapped


@njit
def jump_tables(trans, logs, edge, codes, axes, a, b, tables, kinds):
    """tables (T, M): transition probabilities of the axes of the block, then B; or their logarithms if `trans` are and
    `logs`. a and b differ in no axis of the block.
    """
    moved = 0
    for k in range(n_axes(trans)):
        if (a ^ b) & field(trans, k):
            moved |= field(trans, k)
    n_kinds = before = 0
    known_before = known_code = known_edge = -1
    for t in range(codes.shape[0]):
        code, e = codes[t] & moved, edge[t]
        if code != known_code or before != known_before or e != known_edge:
            known_before, known_code, known_edge = before, code, e
            place = 0
            for k in axes:
                for x in range(n_states_of(trans, k)):
                    for y in range(n_states_of(trans, k)):
                        tables[n_kinds, place] = entry(trans, e, k, x, y)
                        place += 1
            for f in range(2):
                left = swap_states(before, a, b, trans) if f else before
                for g in range(2):
                    entered = swap_states(code, a, b, trans) if g else code
                    total = 0.0 if logs else 1.0
                    for k in range(n_axes(trans)):
                        if moved & field(trans, k):
                            factor = entry(trans, e, k, state(trans, k, left), state(trans, k, entered))
                            total = total + factor if logs else total * factor
                    tables[n_kinds, place] = total
                    place += 1
            n_kinds += 1
        kinds[t] = n_kinds - 1
        before = code


@njit
def list_jumps(codes, block, a, b, trans, candidates):
    """candidates (T, 2 n): the n joint states of the axes of a block (its layout) without the difference, then with."""
    n = candidates.shape[1] // 2
    others = ~bits_of(block)
    for t in range(codes.shape[0]):
        plain = codes[t] & others
        swapped = swap_states(codes[t], a, b, trans) & others
        for j in range(n):
            own = code_of_index(j, block)
            candidates[t, j] = plain | own
            candidates[t, n + j] = swapped | own
