"""Many sweeps of `gaussian_blocks` over one path, in one call: on short signals a call takes as long as a sweep."""

from chiasma._jit import njit
from chiasma.kernels.gaussian_blocks import gaussian_sweep
from chiasma.kernels.transitions import log_prior


@njit
def log_density(resid, halves, constant):
    """constant - sum_dt halves_d resid_dt^2, without what is missing (NaN); halves (D,): 1 / (2 sd_d^2)."""
    total = constant
    for d in range(resid.shape[0]):
        own = resid[d]
        squares = 0.0
        for t in range(own.shape[0]):
            if own[t] == own[t]:
                squares += own[t] * own[t]
        total -= halves[d] * squares
    return total


@njit
def gaussian_run(sweep, halves, constant, log_trans, uniforms, start, thin, codes, states, log_lik, prior):
    """A sweep for every row of uniforms (n, m); codes (T,) in place. Returns how many were kept.

    sweep: noise, parts, size, trans, edge and scratch of a GaussianSweep. Of the iterations start + 1, start + 2, ...
    every thin-th is kept (0: none) in states (n, T), log_lik (n, 1) and prior (n,).
    """
    noise, parts, size, trans, edge, scratch = sweep
    kept = 0
    for i in range(uniforms.shape[0]):
        gaussian_sweep(noise, parts, size, trans, edge, uniforms[i], codes, scratch)
        if thin > 0 and (start + i + 1) % thin == 0:
            for t in range(codes.shape[0]):
                states[kept, t] = codes[t]
            log_lik[kept, 0] = log_density(scratch.resid, halves, constant)
            prior[kept] = log_prior(codes, log_trans, edge)
            kept += 1
    return kept
