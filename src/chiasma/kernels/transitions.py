"""Transition probabilities between whole columns: products over rows of the 2x2 tables in `trans`."""

from chiasma._jit import njit, vector_njit

# A linear filter loses a state when its likelihood underflows. That is harmless while every state can be
# re-entered with a probability whose square still dwarfs the smallest double; below this floor, use logspace.
LINEAR_FLOOR = 1e-120


@njit
def is_linear(lowest, rows):
    """Whether linear passes over these rows are safe; lowest[k]: smallest transition probability of row k."""
    floor = 1.0
    for row in rows:
        floor *= lowest[row]
    return floor >= LINEAR_FLOOR


@njit
def stay_products(trans, e, out):
    """out[s] = probability that all rows keep their setting, for every code s; built by doubling."""
    out[0] = 1.0
    size = 1
    for k in range(trans.shape[1]):
        for s in range(size):
            out[size + s] = out[s] * trans[e, k, 3]
            out[s] *= trans[e, k, 0]
        size *= 2


@njit
def into_products(trans, e, code, out):
    """out[s] = probability of the move s -> code, for every s; built by doubling."""
    out[0] = 1.0
    size = 1
    for k in range(trans.shape[1]):
        x = code >> k & 1
        from_zero = trans[e, k, x]
        from_one = trans[e, k, 2 + x]
        for s in range(size):
            out[size + s] = out[s] * from_one
            out[s] *= from_zero
        size *= 2


@njit
def into_log_sums(log_trans, e, code, out):
    """out[s] = log-probability of the move s -> code, for every s."""
    out[0] = 0.0
    size = 1
    for k in range(log_trans.shape[1]):
        x = code >> k & 1
        from_zero = log_trans[e, k, x]
        from_one = log_trans[e, k, 2 + x]
        for s in range(size):
            out[size + s] = out[s] + from_one
            out[s] += from_zero
        size *= 2


@njit
def move(trans, e, a, b):
    """Probability of the move from code a to code b."""
    product = 1.0
    for k in range(trans.shape[1]):
        product *= trans[e, k, 2 * (a >> k & 1) + (b >> k & 1)]
    return product


@njit
def log_move(log_trans, e, a, b):
    """Log-probability of the move from code a to code b."""
    total = 0.0
    for k in range(log_trans.shape[1]):
        total += log_trans[e, k, 2 * (a >> k & 1) + (b >> k & 1)]
    return total


@njit
def log_prior(codes, log_trans, edge):
    """log p(X) of a path. Runs of one code on one kind of edge cost a comparison per column."""
    total = 0.0
    before = 0
    known_before = known_code = known_edge = -1
    known = 0.0
    for t in range(codes.shape[0]):
        code = codes[t]
        e = edge[t]
        if code != known_code or before != known_before or e != known_edge:
            known = log_move(log_trans, e, before, code)
            known_before, known_code, known_edge = before, code, e
        total += known
        before = code
    return total


@vector_njit
def path_log_likelihood(log_lik, codes):
    """Sum of the table along a path."""
    total = 0.0
    for t in range(codes.shape[0]):
        total += log_lik[t, codes[t]]
    return total
