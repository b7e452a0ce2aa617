"""Gibbs sweeps over blocks of rows under Gaussian noise, with likelihoods computed on the fly: no table.

Row k adds steps[k, d] to the mean of channel d. With r the data less everything that rows outside the block add, z the
difference of r and the centre of the block's means, and m_s the mean of code s less the centre,

    log N(r; mean_s, 1 / p) = constant + sum_d (p_d z_d m_sd - p_d m_sd^2 / 2),        p_d = beta / sd_d^2.

The first term is a sum over the rows that are on: one exponential per row and column, and products by doubling. The
second does not depend on the column. What is taken out of a column is a bound of the largest exponent, channel by
channel: m = z, or the nearest end of the means. Columns in which this could underflow, or of which some channel is
missing, take one exponential per code.

resid (D, T): data less the means of the rows that are on, NaN where missing. steps (K, D).
"""

import math
from typing import NamedTuple

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.gaussian import PIECE, WIDEST, code_products
from chiasma.kernels.lanes import sum_from
from chiasma.kernels.logspace import exp_in_place
from chiasma.kernels.passes import draw_block, filter_block
from chiasma.kernels.sweeps import shuffle, spread_block
from chiasma.kernels.transitions import log_prior

# A column whose likelihoods add up to less is computed again, one exponential per code.
TINY_COLUMN = 1e-100


class Noise(NamedTuple):
    """Gaussian data: what all sweeps at one beta share."""

    y: np.ndarray  # (D, T) less the means of fixed rows
    steps: np.ndarray  # (K, D)
    precision: np.ndarray  # (D,) beta / sd^2
    whole: np.ndarray  # (T,) bool: no channel is missing


class Scratch(NamedTuple):
    """Arrays of a sweep with blocks of at most b rows, S = 2^b."""

    resid: np.ndarray  # (D, T)
    alpha: np.ndarray  # (T * S,)
    lik: np.ndarray  # (PIECE * S,)
    powers: np.ndarray  # (PIECE * (b + 1),)
    vectors: np.ndarray  # (3, S)
    codes: np.ndarray  # (T,) of the block


class Block(NamedTuple):
    """The means of a block of rows."""

    steps: np.ndarray  # (b, D)
    centre: np.ndarray  # (D,) of the means
    reach: np.ndarray  # (D,) largest distance of a mean from the centre
    means: np.ndarray  # (S, D) less the centre
    shape: np.ndarray  # (S,) exp(-sum_d p m^2 / 2)


class Parts(NamedTuple):
    """Rows in P parts that no channel ties together, and sets of rows of a part that belong together."""

    rows: np.ndarray  # (K,) of the first part, then of the next
    first: np.ndarray  # (P + 1,) where the rows of every part begin
    sets: np.ndarray  # (n, m) places in the part, padded with -1
    first_set: np.ndarray  # (P + 1,) where the sets of every part begin
    cumulative: np.ndarray  # (n,) probabilities of the sets of a part


def make_scratch(n_channels: int, n_columns: int, size: int) -> Scratch:
    n_states = 1 << size
    return Scratch(
        resid=np.empty((n_channels, n_columns)),
        alpha=np.empty(n_columns * n_states),
        lik=np.empty(PIECE * n_states),
        powers=np.empty(PIECE * (size + 1)),
        vectors=np.empty((3, n_states)),
        codes=np.empty(n_columns, np.int64),
    )


@njit
def make_block(steps, precision):
    n_rows, n_channels = steps.shape
    n_states = 1 << n_rows
    means = np.empty((n_states, n_channels))
    centre = np.empty(n_channels)
    reach = np.empty(n_channels)
    shape = np.zeros(n_states)
    for d in range(n_channels):
        low = high = 0.0
        for k in range(n_rows):
            low += min(steps[k, d], 0.0)
            high += max(steps[k, d], 0.0)
        centre[d] = 0.5 * (low + high)
        reach[d] = 0.5 * (high - low)
        means[0, d] = -centre[d]
        for k in range(n_rows):
            size = 1 << k
            for s in range(size):
                means[size + s, d] = means[s, d] + steps[k, d]
        for s in range(n_states):
            shape[s] -= 0.5 * precision[d] * means[s, d] * means[s, d]
    exp_in_place(shape)
    return Block(steps, centre, reach, means, shape)


@njit
def add_rows(steps, rows, sign, codes, resid):
    """resid += sign * what these rows add where they are on."""
    n_columns = codes.shape[0]
    for row in rows:
        for d in range(steps.shape[1]):
            step = sign * steps[row, d]
            if step != 0.0:
                own = resid[d]
                for t in range(n_columns):
                    own[t] += step * (codes[t] >> row & 1)


@njit
def _exponents(resid, precision, block, first, n, powers):
    """powers (b + 1, n) flat: exponents of what the products of columns first..first+n-1 are made of.

    Its first row holds minus the bound of the largest exponent, and what code 0 has.
    """
    n_rows, n_channels = block.steps.shape
    powers.fill(0.0)
    base = powers[:n]
    for d in range(n_channels):
        reach, centre, p = block.reach[d], block.centre[d], precision[d]
        if reach == 0.0:
            continue  # no row of the block is seen in this channel
        own = resid[d]
        lowest = -centre
        for t in range(n):
            z = own[first + t] - centre
            m = min(max(z, -reach), reach)
            base[t] += p * (z * (lowest - m) + 0.5 * m * m)
        for k in range(n_rows):
            slope = p * block.steps[k, d]
            if slope != 0.0:
                row = powers[(k + 1) * n : (k + 2) * n]
                for t in range(n):
                    row[t] += slope * (own[first + t] - centre)


@njit
def _in_range(powers, n, t, n_rows):
    """Whether no partial product of column t can overflow or underflow."""
    low = high = powers[t]
    for k in range(1, n_rows + 1):
        low += min(powers[k * n + t], 0.0)
        high += max(powers[k * n + t], 0.0)
    return -WIDEST < low and high < WIDEST


@njit
def direct_column(resid, precision, block, t, column):
    """column (S,): likelihoods up to a factor, the largest 1; channels that are missing say nothing."""
    n_states, n_channels = block.means.shape
    column.fill(0.0)
    for d in range(n_channels):
        z = resid[d, t] - block.centre[d]
        if not math.isnan(z) and block.reach[d] > 0.0:
            for s in range(n_states):
                m = block.means[s, d]
                column[s] += precision[d] * (z - 0.5 * m) * m
    top = column.max()
    for s in range(n_states):
        column[s] -= top
    exp_in_place(column)


@njit
def block_likelihoods(resid, noise, block, first, lik, powers):
    """lik (n, S): likelihoods of all codes of the block at columns first..first+n-1, each column up to a factor.

    powers: scratch for (b + 1) n numbers or more.
    """
    n, n_states = lik.shape
    n_rows = block.steps.shape[0]
    flat = lik.ravel()
    powers = powers[: (n_rows + 1) * n]
    _exponents(resid, noise.precision, block, first, n, powers)
    usable = np.empty(n, np.bool_)
    for t in range(n):
        usable[t] = noise.whole[first + t] and _in_range(powers, n, t, n_rows)
    exp_in_place(powers)
    for t in range(n):
        if usable[t]:
            code_products(powers, t, n, flat, t * n_states, block.shape)
        # The bound of several channels together may be far from what one code can reach.
        if not usable[t] or sum_from(n_states, flat, t * n_states) < TINY_COLUMN:
            direct_column(resid, noise.precision, block, first + t, lik[t])


@njit
def update_block(noise, rows, trans, edge, uniforms, codes, scratch):
    """Draw the paths of some rows jointly given the others, codes and scratch.resid in place. Reads T uniforms."""
    n_columns = codes.shape[0]
    n_rows = rows.shape[0]
    n_states = 1 << n_rows
    resid = scratch.resid
    own_trans = np.empty((trans.shape[0], n_rows, 4))
    own_steps = np.empty((n_rows, noise.steps.shape[1]))
    mask = 0
    for i in range(n_rows):
        own_trans[:, i] = trans[:, rows[i]]
        own_steps[i] = noise.steps[rows[i]]
        mask |= 1 << rows[i]
    add_rows(noise.steps, rows, 1.0, codes, resid)
    block = make_block(own_steps, noise.precision)
    alpha = scratch.alpha[: n_columns * n_states].reshape(n_columns, n_states)
    message, diagonal = scratch.vectors[0, :n_states], scratch.vectors[1, :n_states]
    message.fill(0.0)
    message[0] = 1.0
    # A few columns at a time: their likelihoods are still in the cache when they are filtered.
    for first in range(0, n_columns, PIECE):
        stop = min(first + PIECE, n_columns)
        lik = scratch.lik[: (stop - first) * n_states].reshape(stop - first, n_states)
        block_likelihoods(resid, noise, block, first, lik, scratch.powers)
        filter_block(lik, own_trans, edge, first, message, alpha[first:stop], alpha[:0], diagonal)
    draw_block(alpha, own_trans, edge, uniforms, scratch.codes, scratch.vectors)
    spread = np.empty(n_states, np.int64)
    spread_block(rows, spread)
    for t in range(n_columns):
        codes[t] = codes[t] & ~mask | spread[scratch.codes[t]]
    add_rows(noise.steps, rows, -1.0, codes, resid)


@njit
def order_rows(sets, cumulative, size, uniforms, order):
    """Rows 0..K-1 in a random order, to be cut into blocks of `size`. Reads 1 + 2 K uniforms.

    Half of the orders are uniformly random. The other half begins with sets of rows that belong together: sets
    (n, m), padded with -1, drawn with the cumulative probabilities (n,), none of which is cut by the end of a block.
    """
    n_rows = order.shape[0]
    shuffled = np.empty(n_rows, np.int64)
    shuffle(uniforms[1 : 1 + n_rows], shuffled)
    used = np.zeros(n_rows, np.bool_)
    count = 0
    if sets.shape[0] > 0 and uniforms[0] < 0.5:
        for n in range(n_rows):
            chosen = 0
            while chosen < sets.shape[0] - 1 and not uniforms[1 + n_rows + n] < cumulative[chosen]:
                chosen += 1
            length, fits = 0, True
            for row in sets[chosen]:
                if row >= 0:
                    length += 1
                    fits = fits and not used[row]
            if fits and length <= size - count % size:
                for i in range(length):
                    order[count] = sets[chosen, i]
                    used[sets[chosen, i]] = True
                    count += 1
    for row in shuffled:
        if not used[row]:
            order[count] = row
            count += 1


@njit
def gaussian_sweep(noise, parts, size, trans, edge, uniforms, codes, scratch):
    """All rows once, in blocks that hold rows of one part. For K rows of a part it reads
    1 + 2 K + ceil(K / size) T uniforms.
    """
    n_columns = codes.shape[0]
    for d in range(noise.y.shape[0]):
        for t in range(n_columns):
            scratch.resid[d, t] = noise.y[d, t]
    # From the codes alone, every time: a resumed run and an uninterrupted one round alike.
    add_rows(noise.steps, np.arange(noise.steps.shape[0]), -1.0, codes, scratch.resid)
    used = 0
    for part in range(parts.first.shape[0] - 1):
        members = parts.rows[parts.first[part] : parts.first[part + 1]]
        own = slice(parts.first_set[part], parts.first_set[part + 1])
        order = np.empty(members.shape[0], np.int64)
        order_rows(parts.sets[own], parts.cumulative[own], size, uniforms[used:], order)
        used += 1 + 2 * members.shape[0]
        for start in range(0, members.shape[0], size):
            rows = members[order[start : start + size]]
            update_block(noise, rows, trans, edge, uniforms[used : used + n_columns], codes, scratch)
            used += n_columns


# ---- Many sweeps in one call: on short signals a call takes as long as a sweep ---------------------------------------


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
