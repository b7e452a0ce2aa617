"""The prior and the levels of a path of rows with any numbers of states. Paths are paths of codes (see `layout`)."""

from chiasma._jit import njit


@njit
def move(trans, e, layout, a, b):
    """Probability of the move from code a to code b."""
    product = 1.0
    for k in range(layout.sizes.shape[0]):
        x = a >> layout.shifts[k] & layout.masks[k]
        y = b >> layout.shifts[k] & layout.masks[k]
        product *= trans[e, layout.first[k] + x * layout.sizes[k] + y]
    return product


@njit
def log_move(log_trans, e, layout, a, b):
    """Log-probability of the move from code a to code b."""
    total = 0.0
    for k in range(layout.sizes.shape[0]):
        x = a >> layout.shifts[k] & layout.masks[k]
        y = b >> layout.shifts[k] & layout.masks[k]
        total += log_trans[e, layout.first[k] + x * layout.sizes[k] + y]
    return total


@njit
def log_prior(codes, log_trans, layout, edge):
    """log p(X) of a path of codes (T,). Runs of one code on one kind of edge cost a comparison per column."""
    total = 0.0
    before = 0
    known_before = known_code = known_edge = -1
    known = 0.0
    for t in range(codes.shape[0]):
        code = codes[t]
        e = edge[t]
        if code != known_code or before != known_before or e != known_edge:
            known = log_move(log_trans, e, layout, before, code)
            known_before, known_code, known_edge = before, code, e
        total += known
        before = code
    return total


@njit
def count_moves(codes, layout, edge, counts):
    """Add to counts (E, M) how often every row of a path of codes (T,) made each of its moves, by kind of edge.

    Then log p(X) is the sum of counts * log_trans, for any transition probabilities. Column 0 is entered from state 0.
    """
    before = 0
    for t in range(codes.shape[0]):
        code = codes[t]
        for k in range(layout.sizes.shape[0]):
            x = before >> layout.shifts[k] & layout.masks[k]
            y = code >> layout.shifts[k] & layout.masks[k]
            counts[edge[t], layout.first[k] + x * layout.sizes[k] + y] += 1
        before = code


@njit
def add_levels(codes, layout, places, adds, out):
    """out[n, d] += what the states of all rows in codes[n] add to channel d.

    adds (A, D): one line per state of every row; those of row k begin at places[k]. Rows are added in their order, and
    nothing is ever taken away: a level of 0 stays 0, where counts may be impossible.
    """
    n_channels = adds.shape[1]
    for n in range(codes.shape[0]):
        for k in range(layout.sizes.shape[0]):
            state = places[k] + (codes[n] >> layout.shifts[k] & layout.masks[k])
            for d in range(n_channels):
                out[n, d] += adds[state, d]
