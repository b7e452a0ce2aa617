"""Every random branch of a function of uniforms, each with its probability.

Sweeps are deterministic functions of (codes, uniforms). Run as plain Python, they also accept an object array of
symbolic uniforms: `Uniform` stands for scale * u + shift, with a hidden u uniform on an interval. A comparison that
cuts the interval is a branch; each side has its share of the interval as probability, and the interval narrows to the
side taken. `explore` replays the function, depth first, until every branch was taken, so a transition matrix is a
finite sum over the code that really runs and no sampling error is left.

    proof = prove(step, pi, n_uniforms)           # step(state, uniforms) -> new state; pi: state -> probability
    proof = prove_pair(step, pi_i, pi_j, n)       # step((state_i, state_j), uniforms) -> (state_i', state_j')
    assert proof.error <= 1e-12                   # max |pi M - pi|
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

Path = tuple[int, ...]


class Run:
    """Passes through a function: decisions are read from a script as far as it goes, then the first is taken.

    script : [taken, number of outcomes] of every branch met so far.
    """

    def __init__(self, n_uniforms: int):
        self.script: list[list[int]] = []
        self.hidden = [Hidden(self) for _ in range(n_uniforms)]
        self.uniforms = np.array([Uniform(hidden) for hidden in self.hidden], object)
        self.depth = 0
        self.probability = 1.0

    def start(self) -> np.ndarray:
        """Uniforms of another pass; nothing is known of them."""
        self.depth = 0
        self.probability = 1.0
        for hidden in self.hidden:
            hidden.low, hidden.high = 0.0, 1.0
        return self.uniforms.copy()  # the function may write to it

    def branch(self, shares: Sequence[float]) -> int:
        """Index of the outcome taken; outcomes without probability are no branch."""
        possible = [i for i, share in enumerate(shares) if share > 0]
        if len(possible) == 1:
            return possible[0]
        if self.depth == len(self.script):
            self.script.append([0, len(possible)])
        taken = possible[self.script[self.depth][0]]
        self.depth += 1
        self.probability *= shares[taken]
        return taken


class Hidden:
    """A number known to lie in [low, high), uniformly."""

    __slots__ = ("high", "low", "run")

    def __init__(self, run: Run):
        self.run = run
        self.low = 0.0
        self.high = 1.0

    def cut(self, cuts: Sequence[float]) -> int:
        """Which of the pieces between increasing cuts the number is in; narrows to that piece."""
        ends = [self.low, *(min(max(cut, self.low), self.high) for cut in cuts), self.high]
        width = self.high - self.low
        piece = self.run.branch([(b - a) / width for a, b in pairwise(ends)])
        self.low, self.high = ends[piece], ends[piece + 1]
        return piece

    def is_below(self, cut: float) -> bool:
        """cut([cut]) == 0, written out: a proof spends much of its time here."""
        low, high = self.low, self.high
        if cut >= high:
            return True
        if not cut > low:
            return False
        run = self.run
        if run.depth == len(run.script):
            run.script.append([0, 2])
        is_first = run.script[run.depth][0] == 0
        run.depth += 1
        if is_first:
            run.probability *= (cut - low) / (high - low)
            self.high = cut
        else:
            run.probability *= (high - cut) / (high - low)
            self.low = cut
        return is_first


class Uniform:
    """scale * u + shift of a hidden u. Arithmetic with numbers, order and int() only: anything else would need the
    value itself, and raises TypeError.
    """

    __slots__ = ("hidden", "scale", "shift")
    __array_ufunc__ = None  # so that NumPy scalars on the left leave the operation to the methods below
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, hidden: Hidden, scale: float = 1.0, shift: float = 0.0):
        self.hidden = hidden
        self.scale = scale
        self.shift = shift

    def __mul__(self, other: float) -> Uniform:
        factor = float(other)
        return Uniform(self.hidden, self.scale * factor, self.shift * factor)

    def __truediv__(self, other: float) -> Uniform:
        return Uniform(self.hidden, self.scale / float(other), self.shift / float(other))

    def __add__(self, other: float) -> Uniform:
        return Uniform(self.hidden, self.scale, self.shift + float(other))

    def __sub__(self, other: float) -> Uniform:
        return Uniform(self.hidden, self.scale, self.shift - float(other))

    def __rsub__(self, other: float) -> Uniform:
        return Uniform(self.hidden, -self.scale, float(other) - self.shift)

    __rmul__ = __mul__
    __radd__ = __add__

    def __lt__(self, other: float) -> Event:
        return Event(self, float(other), operator.lt)

    def __le__(self, other: float) -> Event:
        return Event(self, float(other), operator.le)

    def __gt__(self, other: float) -> Event:
        return Event(self, float(other), operator.gt)

    def __ge__(self, other: float) -> Event:
        return Event(self, float(other), operator.ge)

    def __int__(self) -> int:
        low, high = sorted(self.scale * u + self.shift for u in (self.hidden.low, self.hidden.high))
        first, last = math.floor(low), max(math.floor(low), math.ceil(high) - 1)
        if first < 0 or self.scale <= 0:
            raise TypeError(f"int() of a uniform is known for rising, non-negative values, here {low:g} to {high:g}")
        return first + self.hidden.cut([(n - self.shift) / self.scale for n in range(first + 1, last + 1)])

    def __eq__(self, other: object) -> bool:
        raise TypeError("equality with a uniform has probability zero")

    def __bool__(self) -> bool:
        raise TypeError("a uniform is no truth value; compare it with a number")

    def __float__(self) -> float:
        raise TypeError("a symbolic uniform has no value; it can be shifted, scaled and compared with numbers")


class Event(NamedTuple):
    """A comparison of a uniform with a threshold. It branches when its truth is asked for, and not before: a
    comparison that is computed and never looked at costs nothing.
    """

    uniform: Uniform
    threshold: float
    order: Callable[[float, float], bool]

    def __bool__(self) -> bool:
        uniform, threshold, order = self
        scale, shift = uniform.scale, uniform.shift
        assert not math.isnan(scale + shift + threshold), "a uniform met a NaN"
        if scale == 0:
            return order(shift, threshold)
        below = uniform.hidden.is_below((threshold - shift) / scale) == (scale > 0)
        return below == (order is operator.lt or order is operator.le)


def explore(function: Callable[[np.ndarray], Any], n_uniforms: int) -> Iterator[tuple[Any, float]]:
    """Yield (result, probability) of every branch of function(uniforms)."""
    run = Run(n_uniforms)
    script = run.script
    probabilities = []
    while True:
        result = function(run.start())
        assert run.depth == len(script), "the function took another course with the same decisions"
        probabilities.append(run.probability)
        yield result, run.probability
        while script and script[-1][0] == script[-1][1] - 1:
            script.pop()
        if not script:
            break
        script[-1][0] += 1
    total = math.fsum(probabilities)
    assert abs(total - 1) <= 1e-12, f"the probabilities of all branches sum to {total!r}"


def distribution(function: Callable[[np.ndarray], Any], n_uniforms: int) -> dict[Any, float]:
    """Probability of every result of function(uniforms)."""
    out: dict[Any, float] = {}
    for result, probability in explore(function, n_uniforms):
        out[result] = out.get(result, 0.0) + probability
    return out


def transition_matrix(step: Callable[[Any, np.ndarray], Any], states: Sequence[Any], n_uniforms: int) -> np.ndarray:
    """M[a, b] = P(step(states[a]) = states[b]). No branch, however improbable, may leave the states."""
    index = {state: i for i, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for a, state in enumerate(states):
        for result, probability in explore(lambda uniforms, state=state: step(state, uniforms), n_uniforms):
            assert result in index, f"{state} -> {result}, outside the support, with probability {probability:g}"
            matrix[a, index[result]] += probability
    return matrix


class Proof(NamedTuple):
    matrix: np.ndarray
    pi: np.ndarray

    @property
    def error(self) -> float:
        """max |pi M - pi|."""
        return float(np.abs(self.pi @ self.matrix - self.pi).max())

    @property
    def row_error(self) -> float:
        """How far the rows are from summing to 1."""
        return float(np.abs(self.matrix.sum(axis=1) - 1).max())

    @property
    def irreducible(self) -> bool:
        """Whether every state is reached from every other one."""
        n_classes, _ = connected_components(self.matrix > 0, connection="strong")
        return n_classes == 1


def prove(step: Callable[[Any, np.ndarray], Any], pi: Mapping[Any, float], n_uniforms: int) -> Proof:
    """Transition matrix of a step over the keys of pi, which are its support, and in their order."""
    return Proof(transition_matrix(step, list(pi), n_uniforms), np.array(list(pi.values())))


def prove_pair(
    step: Callable[[tuple[Any, Any], np.ndarray], tuple[Any, Any]],
    pi_i: Mapping[Hashable, float],
    pi_j: Mapping[Hashable, float],
    n_uniforms: int,
) -> Proof:
    """As prove, for a move between two replicas with their own targets (betas, arrays): pi = pi_i x pi_j."""
    return prove(step, {(a, b): pi_i[a] * pi_j[b] for a, b in product(pi_i, pi_j)}, n_uniforms)


def path_step(sweep: Callable[[np.ndarray, np.ndarray], Any]) -> Callable[[Path, np.ndarray], Path]:
    """A step on tuples of codes, from sweep(codes, uniforms) that changes int64 codes in place."""

    def step(path: Path, uniforms: np.ndarray) -> Path:
        codes = np.array(path, np.int64)
        sweep(codes, uniforms)
        return tuple(codes.tolist())

    return step


def pair_step(
    move: Callable[[np.ndarray, np.ndarray, np.ndarray], Any],
) -> Callable[[tuple[Path, Path], np.ndarray], tuple[Path, Path]]:
    """A step on pairs of tuples, from move(codes_i, codes_j, uniforms) that changes both in place."""

    def step(pair: tuple[Path, Path], uniforms: np.ndarray) -> tuple[Path, Path]:
        a, b = (np.array(path, np.int64) for path in pair)
        move(a, b, uniforms)
        return tuple(a.tolist()), tuple(b.tolist())

    return step
