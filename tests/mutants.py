"""Broken versions that the invariance proofs must reject, and plain pair moves, right and wrong.

A mutant of an update patches one real kernel, or the arrays that it is given, and leaves the rest as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chiasma.kernels import ball, crossover, jumps, log_passes, mixing, passes, picking, rows, step, sweeps
from chiasma.models.target import Target, tempered_table
from chiasma.sampling import loop_sweeps, updates

EPSILON = 1e-3


def forgotten_beta(patch: Any, target: Target) -> Target:
    """Likelihoods at beta = 1, whatever beta is asked for."""
    patch.setattr(updates, "tempered_table", lambda log_lik, beta: tempered_table(log_lik, 1.0))
    return target


def forgotten_beta_streamed(patch: Any, target: Target) -> Target:
    real = ball.scale_columns
    patch.setattr(loop_sweeps.ball, "scale_columns", lambda columns, beta: real(columns, 1.0))
    return target


def forgotten_beta_log(patch: Any, target: Target) -> Target:
    real = log_passes.log_filter_block
    patch.setattr(sweeps, "log_filter_block", lambda log_lik, beta, *rest: real(log_lik, 1.0, *rest))
    return target


def squared_beta(patch: Any, target: Target) -> Target:
    """A column in logarithms whose beta was applied before, and is applied once more."""
    real = rows.filter_row
    patch.setattr(sweeps, "filter_row", lambda lik, log_lik, beta, *rest: real(lik, log_lik, beta**2, *rest))
    return target


def ignored_start(patch: Any, target: Target) -> Target:
    """The transition where the initial distribution belongs, at every start but the first."""
    edge = target.edge.copy()
    edge[1:][edge[1:] == 0] = 1
    return replace(target, edge=edge)


def ignored_first_start(patch: Any, target: Target) -> Target:
    """Column 0 entered by a transition from code 0."""
    edge = target.edge.copy()
    edge[0] = 1
    return replace(target, edge=edge)


def ignored_gap(patch: Any, target: Target) -> Target:
    """Every gap as the last one."""
    trans = target.trans.copy()
    trans[1:] = trans[-1]
    return replace(target, trans=trans)


def forgotten_missing(patch: Any, target: Target) -> Target:
    """A missing column takes the likelihoods of its neighbour."""
    table = target.log_lik.copy()
    t = int(np.flatnonzero(np.ptp(table, axis=1) == 0)[0])
    table[t] = table[t - 1]
    out = replace(target)
    out.__dict__["log_lik"] = table
    return out


def wrong_edge(draw: Callable[..., None], n_before: int) -> Callable[..., None]:
    """The backward draw with the edge that enters column t in place of the one that leaves it."""

    def broken(*args: Any) -> None:
        edge = args[n_before]
        shifted = np.concatenate([edge[:1], edge[:-1]])
        draw(*args[:n_before], shifted, *args[n_before + 1 :])

    return broken


def wrong_edge_row(patch: Any, target: Target) -> Target:
    patch.setattr(sweeps, "draw_row", wrong_edge(rows.draw_row, 2))
    return target


def wrong_edge_block(patch: Any, target: Target) -> Target:
    patch.setattr(sweeps, "draw_block", wrong_edge(passes.draw_block, 2))
    return target


def wrong_edge_ball(patch: Any, target: Target) -> Target:
    patch.setattr(sweeps, "draw_ball", wrong_edge(ball.draw_ball, 4))
    patch.setattr(sweeps, "draw_block", wrong_edge(passes.draw_block, 2))
    return target


def wrong_edge_exact(patch: Any, target: Target) -> Target:
    patch.setattr(passes, "draw_blocks", wrong_edge(passes.draw_blocks, 3))
    return target


def kept_centre(patch: Any, target: Target) -> Target:
    """A Hamming ball around the path itself: no auxiliary draw."""

    def stay(trans: Any, codes: Any, offsets: Any, uniforms: Any, centres: Any) -> None:
        centres[:] = codes

    patch.setattr(sweeps, "draw_centres", stay)
    return target


def lopsided_centre(patch: Any, target: Target) -> Target:
    """An auxiliary draw that never flips a row from 1 to 0: u is near s, but s is not as near to u."""

    def draw(trans: Any, codes: Any, offsets: Any, uniforms: Any, centres: Any) -> None:
        for t in range(len(codes)):
            centres[t] = codes[t] | offsets[int(uniforms[t] * len(offsets))]

    patch.setattr(sweeps, "draw_centres", draw)
    return target


def one_row_of_a_jump(patch: Any, target: Target) -> Target:
    """The transitions of the first row that a difference flips, and not those of the others."""

    def broken(trans: Any, logs: Any, edge: Any, codes: Any, rows: Any, a: int, b: int, *out: Any) -> None:
        first = (a ^ b) & -(a ^ b)
        jumps.jump_tables(trans, logs, edge, codes, rows, a & first, b & first, *out)

    patch.setattr(sweeps, "jump_tables", broken)
    return target


def jump_without_a_past(patch: Any, target: Target) -> Target:
    """The flip enters every column as if the one before had not been flipped."""

    def broken(*args: Any) -> None:
        jumps.jump_tables(*args)
        tables = args[-2]
        tables[:, -2:] = tables[:, -4:-2]

    patch.setattr(sweeps, "jump_tables", broken)
    return target


def jump_of_rows_that_are_on(patch: Any, target: Target) -> Target:
    """A difference chosen by a look at the path: of its rows, those that are on in the first column."""

    def broken(
        tables: Any, beta: Any, linear: Any, values: Any, size: Any, uniforms: Any, codes: Any, work: Any
    ) -> None:
        real(tables, beta, linear, np.array([0, values[1] & codes[0], 1]), size, uniforms, codes, work)

    real = sweeps.jump_sweep
    patch.setattr(sweeps, "jump_sweep", broken)
    return target


def epsilon_row(patch: Any, target: Target) -> Target:
    """A small number added to every filtered weight, as code does that fears a division by zero."""
    patch.setattr(sweeps, "draw_row", lambda alpha, *rest: rows.draw_row(alpha + EPSILON, *rest))
    return target


def epsilon_pick(patch: Any, target: Target) -> Target:
    real = picking.pick
    for module in (passes, step, ball):
        patch.setattr(module, "pick", lambda weights, uniform: real(weights / sum(weights) + EPSILON, uniform))
    return target


def forgotten_others_row(patch: Any, target: Target) -> Target:
    """The likelihood of a row as if all others were off."""
    real = rows.filter_row

    def alone(lik: Any, log_lik: Any, beta: Any, codes: Any, bit: Any, *rest: Any) -> None:
        real(lik, log_lik, beta, codes & bit, bit, *rest)

    patch.setattr(sweeps, "filter_row", alone)
    return target


def forgotten_others_block(patch: Any, target: Target) -> Target:
    real = ball.gather_candidates

    def gather(lik: Any, log_lik: Any, beta: Any, centres: Any, *rest: Any) -> None:
        real(lik, log_lik, beta, np.zeros_like(centres), *rest)

    patch.setattr(sweeps, "gather_candidates", gather)
    return target


def whole_uniform_elsewhere(patch: Any, target: Target) -> Target:
    """The uniform of a column that moves is read as if it were fresh, though it failed the stay test."""
    real = passes.pick_near

    def pick(*given: Any) -> Any:
        *before, chance, uniform = given
        return real(*before, chance, uniform + chance)

    patch.setattr(passes, "pick_near", pick)
    return target


def stay_without_diagonal(patch: Any, target: Target) -> Target:
    """Stay probabilities that forget that staying has a probability."""

    def ones(trans: Any, e: Any, out: Any) -> None:
        out[:] = 1.0

    patch.setattr(mixing, "stay_products", ones)
    return target


def shared_uniform(patch: Any, target: Target) -> Target:
    """Two columns that read the same uniform."""
    real = rows.draw_row

    def draw(alpha: Any, trans: Any, edge: Any, bounds: Any, k: Any, uniforms: Any, *rest: Any) -> None:
        again = uniforms.copy()
        again[-2] = again[-1]
        real(alpha, trans, edge, bounds, k, again, *rest)

    patch.setattr(sweeps, "draw_row", draw)
    return target


def forgotten_junction(patch: Any) -> None:
    """Edges that score the same whether one side is exchanged, both, or neither."""

    def flat(*args: Any) -> tuple[float, float, float, float]:
        log = args[-1]
        return (0.0,) * 4 if log else (1.0,) * 4

    patch.setattr(crossover, "edge_table", flat)


# Moves between two replicas, on pairs of tuples and with plain log-densities of whole paths: nothing is incremental.

Pair = tuple[tuple[int, ...], tuple[int, ...]]
LogDensity = Callable[[tuple[int, ...]], float]


def cross(pair: Pair, candidate: int) -> Pair:
    """Candidates 0..T-1 exchange columns 0..t, candidates T..2T-1 columns t+1..T-1."""
    a, b = pair
    t = candidate % len(a) + 1
    prefix = b[:t] + a[t:], a[:t] + b[t:]
    return prefix if candidate < len(a) else prefix[::-1]


def swap(log_i: LogDensity, log_j: LogDensity) -> Callable[[Pair, Any], Pair]:
    def step(pair: Pair, uniforms: Any) -> Pair:
        a, b = pair
        gain = log_i(b) + log_j(a) - log_i(a) - log_j(b)
        return (b, a) if uniforms[0] < math.exp(gain) else pair

    return step


def random_crossover(log_i: LogDensity, log_j: LogDensity) -> Callable[[Pair, Any], Pair]:
    """One uniform cut, Metropolis. With one replica's likelihood forgotten in log_j: the authors' published code."""

    def step(pair: Pair, uniforms: Any) -> Pair:
        new = cross(pair, int(uniforms[0] * len(pair[0])))
        gain = log_i(new[0]) + log_j(new[1]) - log_i(pair[0]) - log_j(pair[1])
        return new if uniforms[1] < math.exp(gain) else pair

    return step


def augmented_crossover(
    log_i: LogDensity, log_j: LogDensity, *, as_printed: bool = False, flipped: bool = True
) -> Callable[[Pair, Any], Pair]:
    """An auxiliary pair among the 2T crossovers, then a draw among the 2T crossovers of the auxiliary pair.

    as_printed : Algorithm 2 of the paper, which in its last step crosses the first pair and not the auxiliary one.
    flipped : False takes the T prefixes alone. Each undoes itself, so this is as right as all 2T.
    """

    def step(pair: Pair, uniforms: Any) -> Pair:
        n = len(pair[0]) * (2 if flipped else 1)
        auxiliary = cross(pair, int(uniforms[0] * n))
        candidates = [cross(auxiliary, c) for c in range(n)]
        weights = [math.exp(log_i(a) + log_j(b)) for a, b in candidates]
        left = uniforms[1] * sum(weights)
        chosen = n - 1
        for c, weight in enumerate(weights):
            left -= weight
            if left < 0:
                chosen = c
                break
        return cross(pair, chosen) if as_printed else candidates[chosen]

    return step
