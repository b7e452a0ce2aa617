"""The filter of `passes` on Gaussian columns: likelihoods are computed a few columns at a time, to stay in cache."""

from chiasma._jit import njit
from chiasma.kernels.gaussian import gaussian_columns
from chiasma.kernels.passes import filter_block


@njit
def filter_gaussian(y, factors, trans, edge, first, stop, message, alpha, stay, diagonal, lik, tops):
    """passes.filter_block for columns first..stop-1 of y (T,), with its arguments.

    lik (n, S) and tops (n,) are scratch for n columns at a time. Returns the share of the log evidence, what was taken
    out of the likelihoods included.
    """
    n_together = lik.shape[0]
    keep_alpha = alpha.shape[0] >= stop - first
    total = 0.0
    for a in range(first, stop, n_together):
        b = min(a + n_together, stop)
        gaussian_columns(y[a:b], factors, lik[: b - a], tops[: b - a])
        kept = alpha[a - first : b - first] if keep_alpha else alpha
        total += filter_block(lik[: b - a], trans, edge, a, message, kept, stay[a - first : b - first], diagonal)
        for i in range(b - a):
            total += tops[i]
    return total
