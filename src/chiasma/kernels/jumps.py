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
def jump_tables(trans, logs, edge, codes, rows, difference, tables, kinds):
    """tables (T, b + 1, 4): of rows of two states; difference: the bits that are flipped, none of the block.

    trans (E, K, 4): probabilities, or their logarithms if logs.
    """
    size = rows.shape[0]
    n_kinds = before = 0
    known_before = known_code = known_edge = -1
    for t in range(codes.shape[0]):
        code, e = codes[t] & difference, edge[t]
        if code != known_code or before != known_before or e != known_edge:
            known_before, known_code, known_edge = before, code, e
            for i in range(size):
                for x in range(4):
                    tables[n_kinds, i, x] = trans[e, rows[i], x]
            for x in range(4):
                tables[n_kinds, size, x] = 0.0 if logs else 1.0
            for k in range(trans.shape[1]):
                if difference >> k & 1:
                    stay = 2 * (before >> k & 1) + (code >> k & 1)
                    for x in range(4):
                        # Flipping before (2) and after (1) flips the bits of the move.
                        if logs:
                            tables[n_kinds, size, x] += trans[e, k, stay ^ x]
                        else:
                            tables[n_kinds, size, x] *= trans[e, k, stay ^ x]
            n_kinds += 1
        kinds[t] = n_kinds - 1
        before = code


@njit
def swap_states(code, a, b, layout):
    """The code in which every row that is in its state of a is in that of b, and the other way round."""
    swapped = code
    for k in range(layout.sizes.shape[0]):
        x = code >> layout.shifts[k] & layout.masks[k]
        y = a >> layout.shifts[k] & layout.masks[k]
        z = b >> layout.shifts[k] & layout.masks[k]
        if x == y or x == z:
            swapped ^= (y ^ z) << layout.shifts[k]
    return swapped


@njit
def state_jump_tables(trans, logs, layout, edge, codes, axes, a, b, tables, kinds):
    """tables (T, M): of rows with any numbers of states. a and b differ in no axis of the block."""
    n_kinds = before = 0
    known_before = known_code = known_edge = -1
    for t in range(codes.shape[0]):
        code, e = codes[t], edge[t]
        if code != known_code or before != known_before or e != known_edge:
            known_before, known_code, known_edge = before, code, e
            place = 0
            for axis in axes:
                for x in range(layout.sizes[axis] ** 2):
                    tables[n_kinds, place] = trans[e, layout.first[axis] + x]
                    place += 1
            for f in range(2):
                left = swap_states(before, a, b, layout) if f else before
                for g in range(2):
                    entered = swap_states(code, a, b, layout) if g else code
                    total = 0.0 if logs else 1.0
                    for k in range(layout.sizes.shape[0]):
                        if (a ^ b) >> layout.shifts[k] & layout.masks[k]:
                            x = left >> layout.shifts[k] & layout.masks[k]
                            y = entered >> layout.shifts[k] & layout.masks[k]
                            factor = trans[e, layout.first[k] + x * layout.sizes[k] + y]
                            total = total + factor if logs else total * factor
                    tables[n_kinds, place] = total
                    place += 1
            n_kinds += 1
        kinds[t] = n_kinds - 1
        before = code


@njit
def list_jumps(codes, block, a, b, layout, candidates):
    """candidates (T, 2 n): the n joint states of the axes of a block (its layout) without the difference, then with."""
    n = candidates.shape[1] // 2
    others = ~bits_of(block)
    for t in range(codes.shape[0]):
        plain = codes[t] & others
        swapped = swap_states(codes[t], a, b, layout) & others
        for j in range(n):
            own = code_of_index(j, block)
            candidates[t, j] = plain | own
            candidates[t, n + j] = swapped | own
