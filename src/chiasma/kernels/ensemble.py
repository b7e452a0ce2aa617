"""Iterations of a whole ensemble of replicas on the tabulated path: sweeps, kept draws, exchanges.

Replica r has inverse temperature betas[r], ascending; the last one is cold (beta = 1) and its draws are kept.
Arrays of the target carry a leading axis M: 1 when all replicas share it, R when each has its own.
Iteration: every replica sweeps; log-likelihoods are recorded; then, at every `every`-th iteration, pairs exchange.
"""

import math
from typing import NamedTuple

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.crossover import count_changes
from chiasma.kernels.moves import exchange_pair, swaps_whole_paths
from chiasma.kernels.sweeps import Tables, run_program
from chiasma.kernels.transitions import log_prior, path_log_likelihood


class PathReplicas(NamedTuple):
    """Targets and states of the replicas."""

    betas: np.ndarray  # (R,)
    lik: np.ndarray  # (R, S, T)
    log_lik: np.ndarray  # (M, T, S)
    trans: np.ndarray  # (M, E, K, 4)
    log_trans: np.ndarray  # (M, E, K, 4)
    lowest: np.ndarray  # (M, K)
    edge: np.ndarray  # (T,)
    bounds: np.ndarray  # (n + 1,) as in Tables
    codes: np.ndarray  # (R, T), changed in place


class Tally(NamedTuple):
    """Running statistics of the exchanges, changed in place."""

    steps: np.ndarray  # (1,) exchange steps made
    acceptance: np.ndarray  # (R - 1,) sum over steps of the probability that a swap would be accepted
    log_lik: np.ndarray  # (R,) sum over steps of the log-likelihood
    moves: np.ndarray  # (R - 1,) moves tried
    changed: np.ndarray  # (R - 1,) moves that changed something
    columns: np.ndarray  # (R - 1,) columns exchanged
    labels: np.ndarray  # (R,) which replica is at each temperature, as swaps move them
    leg: np.ndarray  # (R,) of each label: 0 not yet hot, 1 hot last, 2 cold since it was hot
    round_trips: np.ndarray  # (1,)


class Kept(NamedTuple):
    """What is kept of every `thin`-th iteration."""

    codes: np.ndarray  # (n, T) of the cold replica
    log_lik: np.ndarray  # (n, R)
    log_prior: np.ndarray  # (n,)


def make_tally(n_replicas: int) -> Tally:
    n_pairs = max(n_replicas - 1, 0)
    return Tally(
        steps=np.zeros(1, np.int64),
        acceptance=np.zeros(n_pairs),
        log_lik=np.zeros(n_replicas),
        moves=np.zeros(n_pairs, np.int64),
        changed=np.zeros(n_pairs, np.int64),
        columns=np.zeros(n_pairs, np.int64),
        labels=np.arange(n_replicas),
        leg=np.zeros(n_replicas, np.int64),
        round_trips=np.zeros(1, np.int64),
    )


@njit
def first_pair(step, n_replicas):
    """Even-odd: steps of even and odd number take the pairs of that parity; a lone pair has no idle turns."""
    return step % 2 if n_replicas > 2 else 0


@njit
def count_turns(pair, step, n_steps, n_replicas):
    """How many of the steps step..step+n_steps-1 take this pair."""
    if n_replicas == 2:
        return n_steps
    return (n_steps + (first_pair(step, n_replicas) == pair % 2)) // 2


@njit
def swap_probability(beta_low, beta_high, log_lik_low, log_lik_high):
    """min(1, ratio) of exchanging whole paths between neighbouring rungs."""
    if log_lik_low == log_lik_high:
        return 1.0
    return math.exp(min(0.0, (beta_high - beta_low) * (log_lik_low - log_lik_high)))


@njit
def tally_log_liks(tally, betas, log_liks):
    for r in range(betas.shape[0]):
        tally.log_lik[r] += log_liks[r]
    for p in range(betas.shape[0] - 1):
        tally.acceptance[p] += swap_probability(betas[p], betas[p + 1], log_liks[p], log_liks[p + 1])


@njit
def tally_move(tally, pair, moved, swapped):
    """One move: in how many columns the lower path changed, and whether whole paths changed places."""
    tally.moves[pair] += 1
    tally.columns[pair] += moved
    if moved > 0:
        tally.changed[pair] += 1
    if swapped:
        tally.labels[pair], tally.labels[pair + 1] = tally.labels[pair + 1], tally.labels[pair]


@njit
def tally_step(tally):
    """The end of an exchange step. A round trip is hot -> cold -> hot."""
    tally.steps[0] += 1
    hot, cold = tally.labels[0], tally.labels[-1]
    if tally.leg[hot] == 2:
        tally.round_trips[0] += 1
    tally.leg[hot] = 1
    if tally.leg[cold] == 1:
        tally.leg[cold] = 2


@njit
def tables_of(replicas, r):
    m = r if replicas.log_lik.shape[0] > 1 else 0
    return Tables(
        replicas.lik[r].T,
        replicas.log_lik[m],
        replicas.trans[m],
        replicas.log_trans[m],
        replicas.edge,
        replicas.bounds,
        replicas.lowest[m],
    )


@njit
def exchange_step(replicas, move, log_liks, uniforms, used, n_uniforms, tally, work):
    """Exchange the pairs of the current parity. uniforms (R - 1, ...): pair p reads on from used[p]."""
    n_replicas = replicas.betas.shape[0]
    followed = swaps_whole_paths(move, replicas.trans.shape[2])
    tally_log_liks(tally, replicas.betas, log_liks)
    for p in range(first_pair(tally.steps[0], n_replicas), n_replicas - 1, 2):
        moved = exchange_pair(
            move,
            tables_of(replicas, p),
            tables_of(replicas, p + 1),
            replicas.betas[p],
            replicas.betas[p + 1],
            uniforms[p, used[p] : used[p] + n_uniforms],
            replicas.codes[p],
            replicas.codes[p + 1],
            work,
        )
        used[p] += n_uniforms
        swapped = followed and (moved > 0 or count_changes(replicas.codes[p], replicas.codes[p + 1]) == 0)
        tally_move(tally, p, moved, swapped)
    tally_step(tally)


@njit
def run_iterations(
    replicas,
    program,
    sweep_uniforms,
    n_sweep_uniforms,
    move,
    pair_uniforms,
    n_pair_uniforms,
    start,
    stop,
    every,
    thin,
    tally,
    kept,
    work,
    pair_work,
):
    """Iterations start..stop-1 (numbered from 0 for `every` and `thin`; 0 switches either off).

    sweep_uniforms (R, ...): replica r reads n_sweep_uniforms[r] per iteration. Returns the number of kept iterations.
    """
    n_replicas = replicas.betas.shape[0]
    every = every if n_replicas > 1 else 0
    used = np.zeros(n_replicas, np.int64)
    log_liks = np.empty(n_replicas)
    i = start
    while i < stop:
        # Up to the next exchange replicas are independent: one after the other, each keeps its table in the caches.
        end = min(stop, (i // every + 1) * every) if every > 0 else stop
        exchange = every > 0 and end % every == 0
        for r in range(n_replicas):
            tables = tables_of(replicas, r)
            codes = replicas.codes[r]
            n_used = n_sweep_uniforms[r]
            for j in range(i, end):
                first = (j - start) * n_used
                run_program(program, tables, replicas.betas[r], sweep_uniforms[r, first : first + n_used], codes, work)
                record = thin > 0 and (j + 1) % thin == 0
                if record or (exchange and j + 1 == end):
                    log_liks[r] = path_log_likelihood(tables.log_lik, codes)
                if record:
                    n = (j + 1) // thin - start // thin - 1
                    kept.log_lik[n, r] = log_liks[r]
                    if r == n_replicas - 1:
                        for t in range(codes.shape[0]):
                            kept.codes[n, t] = codes[t]
                        kept.log_prior[n] = log_prior(codes, tables.log_trans, replicas.edge)
        if exchange:
            exchange_step(replicas, move, log_liks, pair_uniforms, used, n_pair_uniforms, tally, pair_work)
        i = end
    return stop // thin - start // thin if thin > 0 else 0
