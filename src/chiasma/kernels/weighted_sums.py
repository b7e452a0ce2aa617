"""Sums of features of columns, weighted by the distributions of their states."""

from chiasma._jit import vector_njit


@vector_njit
def add_weighted(weights, features, out):
    """out[f, s] += sum_t weights[t, s] * features[t, f]; weights (n, S), features (n, F), out (F, S)."""
    n_states = weights.shape[1]
    for t in range(weights.shape[0]):
        for f in range(features.shape[1]):
            factor = features[t, f]
            for s in range(n_states):
                out[f, s] += weights[t, s] * factor
