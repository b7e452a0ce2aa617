"""Exact inference: evidence, marginals (forward-backward), most probable path (Viterbi), independent draws (FFBS)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.exact.passes import MEMORY, Passes, draw_paths
from chiasma.kernels.layout import unpack_codes
from chiasma.limits import check_memory
from chiasma.models.factorial import FactorialHMM, target_of
from chiasma.models.observations import Observations
from chiasma.models.target import Target
from chiasma.types import Floats, Seed, as_count, as_random, shown

Data = Observations | npt.ArrayLike


def log_evidence(model: FactorialHMM, data: Data, beta: float = 1.0, memory: int = MEMORY) -> float:
    """log sum_X p(X) p(y | X)^beta; at beta = 1 the log marginal likelihood of the data.

    Parameters
    ----------
    model : FactorialHMM without priors; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    beta : float, the power of the likelihood: 1 for the posterior, 0 for the prior.
    memory : int, bytes that the messages may take; beyond it, only checkpoints are kept and the rest is recomputed.

    Returns
    -------
    A float, in nats.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> round(ch.exact.log_evidence(model, [0.1, 2.9, 3.2]), 3)
    -4.88
    """
    return Passes(target_of(model, data), beta, memory=memory, keep=False).log_evidence


def marginals(model: FactorialHMM, data: Data, beta: float = 1.0, memory: int = MEMORY) -> Floats:
    """(K, T): P(x[k, t] = 1 | y) at the given beta, of a row of more states P(not in state 0); fixed rows included.

    Parameters
    ----------
    model : FactorialHMM without priors; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    beta : float, the power of the likelihood: 1 for the posterior, 0 for the prior.
    memory : int, bytes that the messages may take; beyond it, only checkpoints are kept and the rest is recomputed.

    Returns
    -------
    (K, T) array of probabilities.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> ch.exact.marginals(model, [0.1, 2.9, 3.2]).round(2).tolist()
    [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    target = target_of(model, data)
    if target.binary:
        found = np.zeros((model.n_rows, target.n_columns))
        for k, x in model.fixed.items():
            found[k] = x
        found[list(target.free)] = _smoothed_states(target, beta, memory)[:, 1::2].T
        return found
    smoothed = _smoothed(model, data, beta, memory)
    return np.array([states[1] if len(states) == 2 else 1 - states[0] for states in smoothed])


def probabilities(model: FactorialHMM, data: Data, row: int | str, beta: float = 1.0, memory: int = MEMORY) -> Floats:
    """(S, T): P(x[row, t] = s | y) at the given beta, for every state s of one row.

    Parameters
    ----------
    model : FactorialHMM without priors; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    row : int or str, number or name of the row.
    beta : float, the power of the likelihood: 1 for the posterior, 0 for the prior.
    memory : int, bytes that the messages may take; beyond it, only checkpoints are kept and the rest is recomputed.

    Returns
    -------
    (S, T) array whose columns sum to 1.

    Examples
    --------
    >>> import chiasma as ch
    >>> washer = ch.Row([0, 1, 2], ch.Sticky(renew=0.1), name="washer")
    >>> model = ch.FactorialHMM(rows=[washer], emission=ch.Gaussian(sd=0.3))
    >>> ch.exact.probabilities(model, [0.1, 1.9, 2.2], "washer").round(2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    return _smoothed(model, data, beta, memory)[model.row_number(row)]


def all_probabilities(model: FactorialHMM, data: Data, beta: float = 1.0, memory: int = MEMORY) -> list[Floats]:
    """(S_k, T) each: `probabilities` of every row, from one pass.

    Parameters
    ----------
    model : FactorialHMM without priors; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    beta : float, the power of the likelihood: 1 for the posterior, 0 for the prior.
    memory : int, bytes that the messages may take; beyond it, only checkpoints are kept and the rest is recomputed.

    Returns
    -------
    A list of arrays (S_k, T), one per row, fixed rows included.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> [own.round(2).tolist() for own in ch.exact.all_probabilities(model, [0.1, 2.9])]
    [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    """
    return _smoothed(model, data, beta, memory)


def count_probabilities(
    model: FactorialHMM, data: Data, row: int | str, beta: float = 1.0, memory: int = MEMORY
) -> Floats:
    """(C, T): probabilities of how many of the rows that cannot be told from `row` are in each state.

    For rows of two states, entry n of C = copies + 1 is P(n of them are on): the number of open channels, of lamps that
    are lit. For rows of more states the entries are in the order of `chiasma.models.axes.Group.counts`.

    Parameters
    ----------
    model : FactorialHMM without priors; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    row : int or str, number or name of one of the rows.
    beta : float, the power of the likelihood: 1 for the posterior, 0 for the prior.
    memory : int, bytes that the messages may take; beyond it, only checkpoints are kept and the rest is recomputed.

    Returns
    -------
    (C, T) array whose columns sum to 1.

    Examples
    --------
    >>> import chiasma as ch
    >>> channel = ch.Row([0, 1.0], ch.Switch(0.1, 0.1), copies=3)
    >>> model = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.2))
    >>> ch.exact.count_probabilities(model, [0.1, 2.1, 1.9], 0).argmax(axis=0).tolist()
    [0, 2, 2]
    """
    k = model.row_number(row)
    target = target_of(model, data)
    if k in model.fixed:
        return probabilities(model, data, row, beta, memory)
    smoothed = _smoothed_axes(target, beta, memory)
    return next(np.ascontiguousarray(own.T) for axis, own in zip(target.axes, smoothed, strict=True) if k in axis.rows)


def _smoothed_axes(target: Target, beta: float, memory: int) -> list[Floats]:
    """(T, C) probabilities of the states of every axis."""
    return np.split(_smoothed_states(target, beta, memory), np.cumsum(target.layout.sizes)[:-1], axis=1)


def _smoothed_states(target: Target, beta: float, memory: int) -> Floats:
    """The same side by side."""
    passes = Passes(target, beta, memory=memory)
    gamma = np.empty(passes.n_states)
    smoothed = np.empty((target.n_columns, int(target.layout.sizes.sum())))
    for segment in passes.backward():
        passes.kernels.smooth(segment.alpha, segment.first, gamma, smoothed)
    # Sums may be rounded to more than 1.
    return np.clip(smoothed, 0.0, 1.0, out=smoothed)


def _smoothed(model: FactorialHMM, data: Data, beta: float, memory: int) -> list[Floats]:
    """(S_k, T) probabilities of the states of every row, fixed rows included."""
    target = target_of(model, data)
    out = [np.zeros((size, target.n_columns)) for size in model.layout.sizes]
    for k, x in model.fixed.items():
        out[k][x] = 1.0
    for axis, smoothed in zip(target.axes, _smoothed_axes(target, beta, memory), strict=True):
        for k in axis.rows:
            out[k] = axis.row_probabilities(smoothed)
    return out


def map_states(model: FactorialHMM, data: Data, memory: int = MEMORY) -> npt.NDArray[np.integer]:
    """(K, T): the single most probable path (Viterbi); `log_joint` gives its log-probability.

    Parameters
    ----------
    model : FactorialHMM without priors; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    memory : int, bytes that the messages may take; beyond it, only checkpoints are kept and the rest is recomputed.

    Returns
    -------
    (K, T) array of states, fixed rows included.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> ch.exact.map_states(model, [0.1, 2.9, 3.2]).tolist()
    [[0, 1, 1], [0, 1, 1]]
    """
    target = target_of(model, data)
    passes = Passes(target, 1.0, memory=memory, best=True)
    path = np.empty(target.n_columns, np.int64)
    for segment in passes.backward():
        passes.kernels.best(segment.alpha, segment.first, path)
    codes = target.best_codes(path)
    return unpack_codes(codes, model.layout)


def draws(
    model: FactorialHMM,
    data: Data,
    n: int,
    seed: Seed | np.random.PCG64 = None,
    beta: float = 1.0,
    memory: int = MEMORY,
) -> npt.NDArray[np.unsignedinteger]:
    """(n, T) codes: independent draws of the whole path from its posterior at the given beta.

    Forward filtering-backward sampling (FFBS): the data are filtered once; a draw is one backward pass.

    Parameters
    ----------
    model : FactorialHMM without priors; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    n : int, number of draws.
    seed : int, Generator, SeedSequence or PCG64. The same seed gives the same draws for any `memory`. A bit
        generator is advanced past the last number that was used.
    beta : float, the power of the likelihood: 1 for the posterior, 0 for the prior.
    memory : int, bytes that the messages may take. Buffers for the draws take up to a quarter of it more, or 32 MiB.

    Returns
    -------
    (n, T) array of codes, in the smallest unsigned type that holds them.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> ch.exact.draws(model, [0.1, 2.9, 3.2], n=2, seed=1)
    array([[0, 3, 3],
           [0, 3, 3]], dtype=uint8)
    """
    n = as_count("n", n)
    target = target_of(model, data)
    dtype = target.record_dtype
    width = target.n_columns * (dtype.itemsize if target.binary else 8)
    check_memory(f"{n:,} draws of {target.n_columns:,} columns", n * width, "take fewer draws at a time")
    passes = Passes(target, beta, memory=memory, stay=True)
    stream = seed if isinstance(seed, np.random.PCG64) else as_random(seed).bit_generator
    if not isinstance(stream, np.random.PCG64):
        raise InvalidInput(f"seed must be a Generator of PCG64, got {shown(seed)}; pass np.random.default_rng(...)")
    # Which rows of a group are in which state is drawn from a separate stream.
    arrangements = np.random.Generator(stream.jumped()) if target.has_groups else None
    out: npt.NDArray[np.unsignedinteger] = np.empty((n, target.n_columns), dtype)
    paths = out if target.binary else np.empty(out.shape, np.int64)
    draw_paths(passes, stream, paths)
    if not target.records_codes:
        for codes, path in zip(out, paths, strict=True):
            codes[:] = target.expand(target.to_codes(path), arrangements)
    return out
