"""Exact inference: evidence, marginals (forward-backward), most probable path (Viterbi), independent draws (FFBS)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.exact.passes import MEMORY, Passes, draw_paths
from chiasma.kernels import logspace, tensor
from chiasma.kernels.codes import smallest_dtype, unpack
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.types import Floats

Data = Observations | npt.ArrayLike


def log_evidence(model: FactorialHMM, data: Data, beta: float = 1.0, memory: int = MEMORY) -> float:
    """log sum_X p(X) p(y | X)^beta; at beta = 1 the log marginal likelihood of the data.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> round(ch.exact.log_evidence(model, [0.1, 2.9, 3.2]), 3)
    -4.88
    """
    return Passes(model.target(data), beta, memory=memory, keep=False).log_evidence


def marginals(model: FactorialHMM, data: Data, beta: float = 1.0, memory: int = MEMORY) -> Floats:
    """(K, T): P(x[k, t] = 1 | y) at the given beta; fixed rows included.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> ch.exact.marginals(model, [0.1, 2.9, 3.2]).round(2).tolist()
    [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    target = model.target(data)
    passes = Passes(target, beta, memory=memory)
    smooth = tensor.smooth_block if passes.linear else logspace.log_smooth_block
    gamma, predicted, scratch = np.empty((3, passes.n_states))
    free = np.empty((target.n_columns, target.n_rows))
    for segment in passes.backward():
        smooth(segment.alpha, passes.trans, target.edge, segment.first, gamma, free, predicted, scratch)
    out = np.empty((model.n_rows, target.n_columns))
    out[list(target.free)] = free.T
    for k, x in model.fixed_rows.items():
        out[k] = x
    return out


def map_states(model: FactorialHMM, data: Data, memory: int = MEMORY) -> npt.NDArray[np.int8]:
    """(K, T): the single most probable path (Viterbi); `log_joint` gives its log-probability.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> ch.exact.map_states(model, [0.1, 2.9, 3.2]).tolist()
    [[0, 1, 1], [0, 1, 1]]
    """
    target = model.target(data)
    passes = Passes(target, 1.0, memory=memory, best=True)
    codes = np.empty(target.n_columns, np.int64)
    scratch = np.empty(passes.n_states)
    for segment in passes.backward():
        logspace.best_block(segment.alpha, passes.trans, target.edge, segment.first, codes, scratch)
    return unpack(target.expand(codes), model.n_rows)


def draws(
    model: FactorialHMM,
    data: Data,
    n: int,
    seed: int | np.random.SeedSequence | np.random.PCG64 | None = None,
    beta: float = 1.0,
    memory: int = MEMORY,
) -> npt.NDArray[np.unsignedinteger]:
    """(n, T) codes: independent draws of the whole path from its posterior at the given beta.

    Forward filtering-backward sampling (FFBS): the data are filtered once; a draw is one backward pass. `memory` limits
    the bytes of the messages; buffers for the draws take up to a quarter of it more, or 32 MiB. The same seed gives the
    same draws for any `memory`. A bit generator given as seed is advanced past the last number that was used.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(chains=ch.BinaryChains(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.2))
    >>> ch.exact.draws(model, [0.1, 2.9, 3.2], n=2, seed=1)
    array([[0, 3, 3],
           [0, 3, 3]], dtype=uint8)
    """
    if n < 1:
        raise InvalidInput(f"n must be at least 1 draw, got {n}")
    target = model.target(data)
    passes = Passes(target, beta, memory=memory, stay=True)
    out: npt.NDArray[np.unsignedinteger] = np.empty((n, target.n_columns), smallest_dtype(model.n_rows))
    draw_paths(passes, seed if isinstance(seed, np.random.PCG64) else np.random.PCG64(seed), out)
    if target.n_rows < model.n_rows:
        for row in out:
            row[:] = target.expand(row)
    return out
