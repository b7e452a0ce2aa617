"""Numba functions on arrays: no classes, no validation, no allocation inside loops over columns.

Shared conventions
    codes      int64 (T,)        column codes: bit k is row k
    edge       int32 (T,)        kind of the edge that enters column t; kind 0 is a start
    trans      float64 (E, K, 4) A_k[x, x'] of an edge kind at index 2 * x + x'; at a start both rows of the
                                 matrix are the initial distribution, so a start needs no code of its own
    lik        float64 (T, S)    likelihood of every code at one beta, divided by its column's maximum
    log_lik    float64 (T, S)    its untempered logarithm
    uniforms   float64           random numbers in [0, 1); every kernel reads a fixed number of them

Rows with any numbers of states (`transitions`)
    trans      Matrices          a table (E, M), A_k[x, x'] at layout.first[k] + x * S_k + x', M = sum_k S_k^2
    layout     Layout            sizes, strides, shifts and masks of the rows: a column is a code (fields of bits) or an
                                 index (mixed radix, without holes); for rows of two states both are the same number

Kernels are written once for both forms of `trans` and dispatch on its type when they are compiled (`_jit.by_form`):
`transitions` has the entries of either, `step` the step of a pass. Only what is measured to need it is for rows of two
states alone: `mixing`, `rows`, `gaussian_blocks`, `side_by_side`, and the tables of `sweeps`.

Passes over columns are forward filtering-backward sampling, in linear space with rescaling against underflow. They are
safe while no product of transition probabilities over the updated rows falls below `transitions.LINEAR_FLOOR`;
`log_passes` serve the rest.
"""
