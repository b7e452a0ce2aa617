"""Forward filtering and the backward passes over its messages (forward-backward, FFBS, Viterbi); O(K 2^K T).

A target is filtered forwards once; the messages are then read backwards. When the messages of all columns do not fit
the memory budget, only every n-th is kept as a checkpoint, and the columns between are filtered again on the way back:
twice the time, and memory that grows with the square root of T.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from chiasma.errors import BudgetExceeded, ImpossibleData
from chiasma.kernels import log_passes, logspace, passes
from chiasma.kernels.best import filter_best, trace_best
from chiasma.kernels.expectations import count_block, log_count_block
from chiasma.kernels.lanes import aligned_empty
from chiasma.models.target import Target, check_beta
from chiasma.stopping import look
from chiasma.types import Floats, Integers, as_count


class PassKernels:
    """N joint states; alpha, stay, message and lik as in chiasma.kernels.passes, logarithms where not linear.

    best: maximise over paths where a filter sums.
    """

    def __init__(self, target: Target, linear: bool, best: bool):
        self.edge = target.edge
        self.linear = linear
        self.finds_best = best
        self.trans = target.transitions if linear else target.log_matrices(best)
        self.n_rows = target.n_axes
        self.scratch = aligned_empty(1 if target.binary and linear else 3, target.n_states).ravel()

    def filter(self, lik: Floats, first: int, message: Floats, alpha: Floats, stay: Floats) -> float:
        if self.finds_best:
            filter_best(lik, self.trans, self.edge, first, message, alpha, self.scratch)
            return 0.0
        return float(passes.filter_block(lik, self.trans, self.edge, first, message, alpha, stay, self.scratch))

    def log_filter(
        self, log_lik: Floats, beta: float, first: int, message: Floats, alpha: Floats, best: bool
    ) -> tuple[float, int]:
        return log_passes.log_filter_block(log_lik, beta, self.trans, self.edge, first, message, alpha, best)

    def stay_after(self, column: int, message: Floats, out: Floats) -> None:
        passes.stay_after(self.trans, self.edge[column], message, self.scratch, out)

    def draw(self, alpha: Floats, stay: Floats, first: int, uniforms: Floats, paths: Integers) -> None:
        """Chains draw from one filter at the same time: nothing but paths is written."""
        weights = np.empty(alpha.shape[1])
        if self.linear:
            passes.draw_blocks(alpha, stay, self.trans, self.edge, first, uniforms, paths, weights)
        else:
            for numbers, path in zip(uniforms, paths, strict=True):
                log_passes.log_draw_block(alpha, self.trans, self.edge, first, numbers, path, weights)

    def best(self, alpha: Floats, first: int, path: Integers) -> None:
        kernel = trace_best if self.linear else log_passes.best_block
        kernel(alpha, self.trans, self.edge, first, path, np.empty(alpha.shape[1]))

    def smooth(self, alpha: Floats, first: int, gamma: Floats, out: Floats) -> None:
        kernel = passes.smooth_block if self.linear else log_passes.log_smooth_block
        kernel(alpha, self.trans, self.edge, first, gamma, out, self.scratch)

    def count(self, alpha: Floats, first: int, gamma: Floats, counts: Floats) -> None:
        """Add the expected moves of all rows to counts (E, M); alpha is replaced by the smoothed distributions."""
        kernel = count_block if self.linear else log_count_block
        kernel(self.trans, alpha, self.edge, first, gamma, alpha, counts, np.empty((self.n_rows + 1, len(gamma))))


MEMORY = 512 * 2**20
# Likelihoods are evaluated for this many (column, code) pairs at a time, so that temporaries stay in cache. The fused
# filter, which needs no Python call per chunk, takes smaller chunks of at least LEAST_COLUMNS columns.
CHUNK = 2**15
SMALL_CHUNK = 2**11
LEAST_COLUMNS = 16
# At most this many pairs are filtered in one call, because Ctrl-C takes effect only between calls.
LARGE_CHUNK = 2**26
# Paths drawn side by side, so that they read the same messages while these are in cache. Long signals take fewer: codes
# and uniforms (two numbers per column) may cover COLUMNS_TOGETHER columns, or an eighth of the messages if more.
TOGETHER = 512
COLUMNS_TOGETHER = 2**21


def draw_paths(passes: Passes, stream: np.random.PCG64, out: npt.NDArray[np.integer]) -> None:
    """Fill out (n, T) with independent paths of the free rows.

    Draw i reads the numbers i * T .. i * T + T - 1 of the stream, however the columns are cut into segments.
    """
    n_columns = out.shape[1]
    most = max(1, min(TOGETHER, max(COLUMNS_TOGETHER, passes.message_size // 8) // n_columns))
    n_groups = max(1, math.ceil(len(out) / most))
    n_together = max(1, math.ceil(len(out) / n_groups))  # groups of about the same size
    codes = np.empty((n_together, n_columns), np.int64)
    uniforms = np.empty((n_together, n_columns))
    rng = np.random.Generator(stream)
    cut = passes.n_segments > 1
    start = cast(Any, stream.state if cut else None)  # read only where needed, because it is slow
    for segment in passes.backward():
        first, stop = segment.first, segment.stop
        if cut:
            stream.state = start
            stream.advance(first)
        for i in range(0, len(out), n_together):
            paths = out[i : i + n_together]
            for numbers in uniforms[: len(paths)]:
                rng.random(out=numbers[first:stop])
                if cut:
                    stream.advance(n_columns - (stop - first))
            if stop < n_columns:
                codes[: len(paths), stop] = paths[:, stop]
            passes.draw(segment, uniforms[: len(paths)], codes[: len(paths)])
            paths[:, first:stop] = codes[: len(paths), first:stop]
    if cut:
        stream.state = start
        stream.advance(len(out) * n_columns)


@dataclass(frozen=True)
class Messages:
    """Messages of columns first..stop-1: alpha (n, S), and stay (n + 1, S) if it was requested."""

    first: int
    stop: int
    alpha: Floats
    stay: Floats


class Passes:
    """Forward pass over a target at one beta; yields its messages from the last segment to the first.

    keep : keep the messages; False computes only the evidence.
    stay : also keep the probabilities of staying in a state, which speed up draws.
    best : maximise over paths instead of summing (Viterbi).
    """

    def __init__(
        self,
        target: Target,
        beta: float,
        *,
        memory: int = MEMORY,
        keep: bool = True,
        stay: bool = False,
        best: bool = False,
    ):
        self.target = target
        self.beta = check_beta(beta)
        self.best = best
        self.linear = target.linear() and (target.binary or not best)
        self.n_states = target.n_states
        self._keep = keep
        self._length = self._segment_length(memory, keep, width=2 if stay and self.linear else 1)
        self.kernels = PassKernels(target, self.linear, best)
        self._fused = target.likelihood.fused_filter(self.beta, best) if self.linear and self.beta > 0 else None
        most = max(1, CHUNK // self.n_states)
        few = max(SMALL_CHUNK // self.n_states, min(most, LEAST_COLUMNS))
        self._step = min(self._length, few if self._fused else most)
        # A linear filter needs only the previous message.
        n_alpha = self._length if keep else 2 if self.linear else self._step
        n_stay = self._length + 1 if stay and self.linear else 0
        n_lik = self._step if self.linear else 0
        # One block, so that the allocator keeps its pages for the next call: touching new pages is slow.
        block = aligned_empty(n_alpha + n_stay + n_lik, self.n_states)
        self._alpha = block[:n_alpha]
        self._stay = block[n_alpha : n_alpha + n_stay]
        self._lik = block[n_alpha + n_stay :]
        self._tops = np.zeros(n_lik)
        if self.beta == 0:
            self._lik[:] = 1.0  # the data have no effect, even impossible ones; known states do
        self._message = np.zeros(self.n_states)
        self._checkpoints: list[Floats] = []
        self.log_evidence = self._forward()
        self._loaded = len(self._checkpoints) - 1  # the segment that the buffers hold

    @property
    def n_segments(self) -> int:
        return len(self._checkpoints)

    @property
    def message_size(self) -> int:
        """How many numbers the filtered distributions of a segment hold."""
        return self._alpha.size

    def backward(self) -> Iterator[Messages]:
        """Yield segments from the last to the first; each is valid until the next one is requested."""
        last = len(self._checkpoints) - 1
        for i in range(last, -1, -1):
            first = i * self._length
            stop = min(first + self._length, self.target.n_columns)
            if i != self._loaded:
                self._message[:] = self._checkpoints[i]
                self._filter(first, stop)
                self._loaded = i
            yield Messages(first, stop, self._alpha[: stop - first], self._stay[: stop - first + 1])

    def draw(self, segment: Messages, uniforms: Floats, paths: npt.NDArray[np.int64]) -> None:
        """Backward sampling of the columns of a segment into paths (n, T), given paths[:, segment.stop] if any.

        A path is one of codes of binary rows, or of indices of rows with any number of states.
        """
        self.kernels.draw(segment.alpha, segment.stay, segment.first, uniforms, paths)

    def _forward(self) -> float:
        # Any normalised message works before column 0: a start edge does not depend on the previous state.
        if not self.linear:
            self._message[1:] = -math.inf
        else:
            self._message[0] = 1.0
        total = 0.0
        for first in range(0, self.target.n_columns, self._length):
            if self._keep:
                self._checkpoints.append(self._message.copy())
            total += self._filter(first, min(first + self._length, self.target.n_columns))
        if self.linear:
            return total
        return total + (self._message.max() if self.best else logspace.log_sum(self._message))

    def _filter(self, first: int, stop: int) -> float:
        """Filter columns first..stop-1 into the buffers; returns their contribution to the log evidence."""
        step, part = self._step, self._filter_chunk
        if self._fused:
            step, part = max(1, LARGE_CHUNK // self.n_states), self._filter_fused
        total = 0.0
        for a in range(first, stop, step):
            look()
            b = min(a + step, stop)
            alpha = self._alpha[a - first : b - first] if self._keep else self._alpha
            total += part(a, b, alpha, self._stay[a - first : b - first])
        if len(self._stay) and stop < self.target.n_columns:
            self.kernels.stay_after(stop, self._message, self._stay[stop - first])
        return total

    def _filter_fused(self, a: int, b: int, alpha: Floats, stay: Floats) -> float:
        assert self._fused is not None
        arrays = self._message, alpha, stay, self.kernels.scratch, self._lik, self._tops
        return float(self._fused(self.kernels.trans, self.target.edge, a, b, *arrays))

    def _filter_chunk(self, a: int, b: int, alpha: Floats, stay: Floats) -> float:
        """As `_filter_fused`, but evaluates the likelihoods of all these columns first."""
        likelihood, message = self.target.likelihood, self._message
        if self.linear:
            lik, tops = self._lik[: b - a], self._tops[: b - a]
            if self.beta > 0:
                likelihood.tempered(a, b, self.beta, lik, tops)
            elif self.target.known is not None:
                lik[:] = self.target.known.allowed(a, b)
            return float(tops.sum() + self.kernels.filter(lik, a, message, alpha, stay))
        log_lik, beta = np.zeros((b - a, self.n_states)), self.beta
        if beta > 0:
            log_lik = likelihood.all_codes(a, b)
        elif self.target.known is not None:
            log_lik, beta = np.where(self.target.known.allowed(a, b), 0.0, -np.inf), 1.0
        part, impossible = self.kernels.log_filter(log_lik, beta, a, message, alpha, self.best)
        if impossible >= 0:
            raise ImpossibleData(
                f"no path with positive probability reaches column {impossible}: the transitions of "
                "probability zero exclude what was observed; raise enter or leave, correct "
                "known states, or set y there to NaN"
            )
        return float(part)

    def _segment_length(self, memory: int, keep: bool, width: int) -> int:
        """Columns per segment: all if they fit, else the number that minimises checkpoints plus one segment."""
        memory = as_count("memory", memory)
        per_column = 8 * self.n_states
        n_columns = self.target.n_columns
        if not keep:
            # Two messages, a column of likelihoods, and arrays that do not grow with the columns.
            length, needed = n_columns, 7 * per_column + 8 * CHUNK
        elif n_columns * width * per_column <= memory:
            return n_columns
        else:
            length = math.ceil(math.sqrt(n_columns / width))
            needed = (length * width + math.ceil(n_columns / length)) * per_column
        if needed > memory:
            raise BudgetExceeded(
                f"exact inference over {self.target.size_text} and {n_columns} sites needs about "
                f"{needed / 2**20:,.0f} MiB even with checkpoints, and the budget is {memory / 2**20:,.0f} MiB; "
                "raise memory=, fix rows, or sample with an ensemble (ch.sample)"
            )
        return length
