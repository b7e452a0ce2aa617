"""Every update and exchange of rows with any number of states leaves its target invariant, by enumeration.

As test_invariance.py: full transition matrices of the code that runs, from symbolic uniforms. Targets are enumerated
over the paths of all rows one by one (fractional powers of their matrices, scipy's densities); equal rows are counted
together only at the end. So a proof speaks of the model that was asked for, and not of what the package makes of it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, permutations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm, fractional_matrix_power

import chiasma as ch
from branches import Path, Proof, distribution, pair_step, path_step, prove, prove_pair
from chiasma.kernels import ball, crossover, jumps, passes, sweeps
from chiasma.kernels import layout as layouts
from chiasma.models.axes import Group
from chiasma.models.target import Target
from chiasma.sampling import loop_sweeps, updates
from chiasma.sampling.differences import Differences
from chiasma.sampling.exchanges import EXCHANGES
from chiasma.sampling.updates import UPDATES, Update

pytestmark = pytest.mark.symbolic

EXACT = 1e-12
REJECTED = 1e-4
BETA = 0.6
NAN = math.nan


class Plain(NamedTuple):
    """A row said twice: as an object of the package, and as its matrix of one step and initial distribution."""

    row: ch.Row
    step: np.ndarray
    initial: np.ndarray

    def over(self, gap: float) -> np.ndarray:
        power = fractional_matrix_power(self.step, gap)
        assert np.abs(np.imag(power)).max() < 1e-14
        return np.real(power)


def switch(values: Any, enter: float, leave: float, **options: Any) -> Plain:
    step = np.array([[1 - enter, enter], [leave, 1 - leave]])
    return Plain(ch.Row(values, ch.Switch(enter, leave), **options), step, np.array([leave, enter]) / (enter + leave))


def sticky(values: Any, renew: float, probabilities: Sequence[float], **options: Any) -> Plain:
    step = (1 - renew) * np.eye(len(probabilities)) + renew * np.tile(probabilities, (len(probabilities), 1))
    return Plain(ch.Row(values, ch.Sticky(renew, probabilities), **options), step, np.array(probabilities))


def markov(values: Any, transition: Any, initial: Sequence[float], **options: Any) -> Plain:
    chain = ch.Markov(transition, initial)
    return Plain(ch.Row(values, chain, **options), np.array(transition, float), np.array(initial))


def rates(values: Any, flows: Any, initial: Sequence[float], **options: Any) -> Plain:
    return Plain(ch.Row(values, ch.Markov(rates=flows, initial=initial), **options), expm(flows), np.array(initial))


@dataclass(frozen=True)
class Case:
    """A tiny model; groups: rows that are equal, by their numbers, in the order in which they first appear."""

    plain: tuple[Plain, ...]
    y: tuple[Any, ...]
    groups: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...] = (0,)
    gaps: tuple[float, ...] | None = None
    sd: float | None = 0.8  # None: counts

    @cached_property
    def rows(self) -> list[Plain]:
        """One by one."""
        return [row for row in self.plain for _ in range(row.row.copies)]

    def target(self, streamed: bool = False) -> Target:
        emission = ch.Poisson() if self.sd is None else ch.Gaussian(sd=self.sd)
        model = ch.FactorialHMM(rows=[row.row for row in self.plain], emission=emission)
        data = ch.Observations(self.y, starts=self.starts, gaps=self.gaps)
        return model.exact_target(data, table_bytes=0) if streamed else model.exact_target(data)

    @cached_property
    def sizes(self) -> list[int]:
        """Numbers of states of the axes."""
        return [len(self.arrangements(g)) for g in range(len(self.groups))]

    def arrangements(self, g: int) -> list[tuple[int, ...]]:
        """What a group can be, rows not told apart."""
        rows = self.groups[g]
        return list(combinations_with_replacement(range(self.rows[rows[0]].row.n_states), len(rows)))

    def code(self, states: Sequence[int]) -> int:
        """Of the axes, from the states of all rows."""
        code = shift = 0
        for g, rows in enumerate(self.groups):
            code |= self.arrangements(g).index(tuple(sorted(states[k] for k in rows))) << shift
            shift += (self.sizes[g] - 1).bit_length()
        return code

    def axis_states(self, code: int) -> tuple[int, ...]:
        found = []
        for size in self.sizes:
            width = (size - 1).bit_length()
            found.append(code & (1 << width) - 1)
            code >>= width
        return tuple(found)

    @cached_property
    def columns(self) -> list[tuple[int, ...]]:
        """All states of all rows."""
        ranges = [range(row.row.n_states) if row.row.fixed is None else [row.row.fixed] for row in self.rows]
        return list(product(*ranges))

    def prior(self, states: Sequence[Sequence[int]]) -> float:
        """states: columns of all rows."""
        total = 1.0
        for k, row in enumerate(self.rows):
            if row.row.fixed is not None:
                continue
            for t, column in enumerate(states):
                if t in self.starts:
                    total *= row.initial[column[k]]
                else:
                    gap = 1.0 if self.gaps is None else self.gaps[t - 1]
                    total *= _over(row, gap)[states[t - 1][k], column[k]]
        return float(total)

    def log_likelihood(self, states: Sequence[Sequence[int]]) -> float:
        total = 0.0
        for y, column in zip(self.y, states, strict=True):
            level = sum(row.row.values[x] for row, x in zip(self.rows, column, strict=True))
            for value, mean in zip(np.atleast_1d(y), np.atleast_1d(level), strict=True):
                if not math.isnan(value):
                    total += (
                        stats.poisson.logpmf(value, mean)
                        if self.sd is None
                        else stats.norm.logpdf(value, mean, self.sd)
                    )
        return float(total)


_POWERS: dict[tuple[int, float], np.ndarray] = {}


def _over(row: Plain, gap: float) -> np.ndarray:
    key = id(row.step), gap
    if key not in _POWERS:
        _POWERS[key] = row.over(gap)
    return _POWERS[key]


THREE = sticky([0.0, 0.7, 1.5], 0.4, [0.5, 0.3, 0.2])
LAMP = switch([0.0, 1.0], 0.2, 0.3)
CASES = {
    "two-and-three": Case((LAMP, THREE), (0.9, 1.4), ((0,), (1,)), gaps=(1.5,)),
    # Two kinds of gaps, a missing column and a start.
    "lamps": Case((switch([0.1, 0.9], 0.2, 0.3, copies=2),), (0.3, NAN, 1.1), ((0, 1),), starts=(0, 2), gaps=(2.5, 1)),
    "equal-threes": Case((sticky([0.0, 0.7, 1.5], 0.4, [0.5, 0.3, 0.2], copies=2),), (0.9, 1.4), ((0, 1),)),
    # Equal though declared apart, around another one, and a row that is fixed.
    "apart": Case(
        (LAMP, THREE, LAMP, Plain(ch.Row([0.3, 0.4, 0.5], fixed=2), np.eye(3), np.ones(3))),
        (1.6, 1.9),
        ((0, 2), (1,)),
        gaps=(0.5,),
    ),
    "four": Case(
        (
            markov(
                [0.0, 0.5, 1.1, 1.6],
                [[0.7, 0.1, 0.1, 0.1], [0.2, 0.6, 0.1, 0.1], [0.1, 0.2, 0.5, 0.2], [0.2, 0.2, 0.2, 0.4]],
                [0.4, 0.3, 0.2, 0.1],
            ),
        ),
        (0.9, 1.4),
        ((0,),),
        gaps=(3,),
    ),
    "rates": Case(
        (
            rates([0.0, 0.7, 1.5], np.array([[-0.5, 0.3, 0.2], [0.1, -0.4, 0.3], [0.6, 0.0, -0.6]]), [0.2, 0.5, 0.3]),
            LAMP,
        ),
        (0.9, 1.4),
        ((0,), (1,)),
        gaps=(0.7,),
    ),
    # Never back: logarithms, and a support that is not everything.
    "frozen": Case(
        (markov([0.0, 0.7, 1.5], [[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]], [0.5, 0.5, 0.0]), LAMP),
        (0.9, 1.4),
        ((0,), (1,)),
    ),
    # With everything in state 0, a count above zero is impossible.
    "counts": Case((LAMP, sticky([0.0, 1.0, 2.0], 0.4, [0.5, 0.3, 0.2])), (0.0, 2.0), ((0,), (1,)), sd=None),
    "channels": Case(
        (
            switch([[0.0, 0.2], [1.0, 0.1]], 0.2, 0.3),
            sticky([[0.0, 0.0], [0.7, -0.2], [0.2, 1.5]], 0.4, [0.5, 0.3, 0.2]),
        ),
        ((0.9, 0.4), (NAN, 1.4)),
        ((0,), (1,)),
    ),
    "once": Case((LAMP, THREE), (0.9,), ((0,), (1,))),
    "three-axes": Case((switch([0.0, 0.6], 0.2, 0.3, copies=2), LAMP, THREE), (1.4,), ((0, 1), (2,), (3,))),
    # Three axes in two columns: what a difference swaps in two of them is a product.
    "three-axes-twice": Case((LAMP, switch([0.0, 0.4], 0.3, 0.1), THREE), (1.4, 0.3), ((0,), (1,), (2,)), gaps=(1.5,)),
    "frozen-axes": Case(
        (
            LAMP,
            switch([0.0, 0.4], 0.3, 0.1),
            markov([0.0, 0.7, 1.5], [[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]], [0.5, 0.5, 0.0]),
        ),
        (0.9, 1.4),
        ((0,), (1,), (2,)),
    ),
    "two-and-four": Case(
        (
            LAMP,
            markov(
                [0.0, 0.5, 1.1, 1.6],
                [[0.7, 0.1, 0.1, 0.1], [0.2, 0.6, 0.1, 0.1], [0.1, 0.2, 0.5, 0.2], [0.2, 0.2, 0.2, 0.4]],
                [0.4, 0.3, 0.2, 0.1],
            ),
        ),
        (0.9,),
        ((0,), (1,)),
    ),
    # Targets of pairs, in which few paths are possible; "-own" has parameters of its own.
    "three": Case((THREE,), (0.9, 1.4), ((0,),), gaps=(1.5,)),
    "three-own": Case((sticky([0.1, 0.9, 1.2], 0.3, [0.2, 0.3, 0.5]),), (0.9, 1.4), ((0,),), gaps=(1.5,), sd=0.6),
    "pair": Case((switch([0.0, 1.0], 0.2, 0.3, copies=2),), (NAN, 0.9), ((0, 1),)),
    "pair-own": Case((switch([0.1, 0.8], 0.4, 0.1, copies=2),), (NAN, 0.9), ((0, 1),), sd=0.6),
    "start": Case((THREE,), (0.9, 1.4), ((0,),), starts=(0, 1)),
    "start-own": Case((sticky([0.1, 0.9, 1.2], 0.3, [0.2, 0.3, 0.5]),), (0.9, 1.4), ((0,),), starts=(0, 1), sd=0.6),
    "frozen-row": Case(
        (markov([0.0, 0.7, 1.5], [[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]], [0.5, 0.5, 0.0]),),
        (0.9, 1.4),
        ((0,),),
    ),
    "cycle": Case(
        (markov([0.0, 0.7, 1.5], [[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.2, 0.0, 0.8]], [0.0, 0.5, 0.5]), LAMP),
        (0.9, 1.4),
        ((0,), (1,)),
    ),
    "cycle-own": Case(
        (
            markov([0.0, 0.8, 1.2], [[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [0.7, 0.0, 0.3]], [0.0, 0.8, 0.2]),
            switch([0.0, 0.8], 0.4, 0.1),
        ),
        (0.9, 1.4),
        ((0,), (1,)),
        sd=0.6,
    ),
}


@lru_cache
def row_weights(name: str, beta: float) -> dict[tuple[tuple[int, ...], ...], float]:
    """p(X) p(y | X)^beta of every path of all rows, a tuple of columns, of positive probability."""
    case = CASES[name]
    weights = {}
    for states in product(case.columns, repeat=len(case.y)):
        prior, log_lik = case.prior(states), case.log_likelihood(states) if beta > 0 else 0.0
        if prior > 0 and log_lik > -math.inf:
            weights[states] = prior * math.exp(beta * log_lik)
    return weights


@lru_cache
def posterior(name: str, beta: float) -> dict[Path, float]:
    """The same for codes of the axes, summed over all arrangements, and normalised."""
    case = CASES[name]
    masses: dict[Path, float] = {}
    for states, weight in row_weights(name, beta).items():
        path = tuple(case.code(column) for column in states)
        masses[path] = masses.get(path, 0.0) + weight
    total = math.fsum(masses.values())
    return {path: mass / total for path, mass in masses.items()}


@pytest.mark.parametrize("name", CASES)
def test_cases__are_what_the_package_was_given(name):
    """The two descriptions of a case are one model; else a proof would speak of something else."""
    case = CASES[name]
    for streamed in (False, True):
        target = case.target(streamed)
        assert [axis.size for axis in target.axes] == case.sizes
        assert target.tabulated != streamed
        masses = {}
        for path in posterior(name, BETA):
            codes = np.array(path)
            masses[path] = math.exp(target.log_prior(codes) + BETA * target.log_likelihood(codes))
            seen = target.candidates.at(codes[:, None]).sum()
            assert seen == pytest.approx(target.log_likelihood(codes), rel=1e-12)
        total = math.fsum(masses.values())
        assert {path: mass / total for path, mass in masses.items()} == pytest.approx(posterior(name, BETA), rel=1e-11)


# What each update claims to be, as a matrix over the support.


@lru_cache
def block_matrix(name: str, beta: float, axes: tuple[int, ...]) -> np.ndarray:
    """P[a, b] = pi(b | other axes of a)."""
    case, pi = CASES[name], posterior(name, beta)
    masses = np.array(list(pi.values()))
    kept = [tuple(x for code in path for g, x in enumerate(case.axis_states(code)) if g not in axes) for path in pi]
    matrix = np.array([[(a == b) * mass for b, mass in zip(kept, masses, strict=True)] for a in kept])
    return matrix / matrix.sum(axis=1, keepdims=True)


def blocks_matrix(name: str, beta: float, blocks: Sequence[Sequence[int]]) -> np.ndarray:
    matrix = np.eye(len(posterior(name, beta)))
    for axes in blocks:
        matrix = matrix @ block_matrix(name, beta, tuple(axes))
    return matrix


@lru_cache
def ball_matrix(name: str, beta: float, radius: int) -> np.ndarray:
    """Uniform centres among the columns in which at most `radius` axes differ, then pi restricted around them."""
    case, pi = CASES[name], posterior(name, beta)
    masses = np.array(list(pi.values()))
    states = [[case.axis_states(code) for code in path] for path in pi]
    columns = list(product(*(range(size) for size in case.sizes)))
    size = sum(differ(column, columns[0]) <= radius for column in columns) ** len(case.y)
    matrix = np.zeros((len(pi), len(pi)))
    for centres in product(columns, repeat=len(case.y)):
        near = [i for i, path in enumerate(states) if all(map(lambda s, u: differ(s, u) <= radius, path, centres))]
        if near:
            matrix[np.ix_(near, near)] += masses[near] / masses[near].sum() / size
    return matrix


def differ(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


# Proofs of the sweeps.


def sweep_proof(name: str, update: Update, target: Target, beta: float = BETA) -> Proof:
    sweep = update.prepare(target, beta)
    return prove(path_step(sweep), posterior(name, beta), sweep.n_uniforms)


def accept(proof: Proof, expected: np.ndarray) -> None:
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    np.testing.assert_allclose(proof.matrix, expected, rtol=0, atol=EXACT)


PATHS = pytest.mark.parametrize("streamed", [False, True], ids=["tabulated", "streamed"])
SWEPT = ("two-and-three", "lamps", "equal-threes", "apart", "four", "rates", "frozen", "counts", "channels")


@dataclass(frozen=True, kw_only=True)
class Ball(ch.HammingBall):
    """A ball whose kind of step is given and not counted."""

    dense: bool = False

    def steps(self, target: Any) -> list[updates.Step]:
        (step,) = super().steps(target)
        kind = sweeps.BALL_DENSE if self.dense else sweeps.BALL_TENSOR
        return [step._replace(kind=kind, width=len(step.values) if self.dense else target.n_states)]


@dataclass(frozen=True, kw_only=True)
class OnlyJump(ch.Jumps):
    """Without the blocks that follow."""

    in_settings = False

    def steps(self, target: Any) -> list[updates.Step]:
        return super().steps(target)[:1]


def swaps(name: str, pairs: dict[int, tuple[int, int]]) -> Differences:
    """One difference: the two states that are swapped, by axis."""
    shifts = layouts.make_layout(CASES[name].sizes).shifts
    a, b = (sum(states[i] << int(shifts[g]) for g, states in pairs.items()) for i in (0, 1))
    return Differences(a=(a,), b=(b,), weights=(1,))


@lru_cache
def jump_matrix(name: str, axes: tuple[int, ...], pairs: tuple[tuple[int, tuple[int, int]], ...]) -> np.ndarray:
    """pi restricted to paths whose columns are those of a, swapped in all or none of the pairs, but for some axes."""
    case, pi = CASES[name], posterior(name, BETA)

    def others(code: int, swapped: bool) -> tuple[int, ...]:
        states = list(case.axis_states(code))
        for g, (x, y) in pairs:
            states[g] = {x: y, y: x}.get(states[g], states[g]) if swapped else states[g]
        return tuple(x for g, x in enumerate(states) if g not in axes)

    matrix = np.zeros((len(pi), len(pi)))
    for i, a in enumerate(pi):
        allowed = [{others(code, False), others(code, True)} for code in a]
        for j, (b, mass) in enumerate(pi.items()):
            matrix[i, j] = mass * all(others(code, False) in near for code, near in zip(b, allowed, strict=True))
    return matrix / matrix.sum(axis=1, keepdims=True)


class Claim(NamedTuple):
    """An update on a case, and the matrix that it claims to be."""

    update: Update
    name: str
    streamed: bool
    matrix: Callable[[], np.ndarray]


def row_claim(name: str, streamed: bool) -> Claim:
    axes = [(g,) for g in range(len(CASES[name].groups))]
    return Claim(ch.RowGibbs(), name, streamed, lambda: blocks_matrix(name, BETA, axes))


def all_claim(update: Update, name: str, streamed: bool = False) -> Claim:
    """All axes at once: every row of M is pi."""
    return Claim(update, name, streamed, lambda: block_matrix(name, BETA, tuple(range(len(CASES[name].groups)))))


FREE = {name: case.target().free for name, case in CASES.items()}
CLAIMS = [
    *(row_claim(name, streamed=name in ("frozen", "channels")) for name in SWEPT if name != "apart"),
    row_claim("three", streamed=True),
    all_claim(ch.BlockGibbs(blocks=[FREE["counts"][::-1]]), "counts", streamed=True),
    all_claim(ch.BlockGibbs(blocks=[FREE["frozen"]]), "frozen"),
    *(all_claim(ch.Exact(), name) for name in SWEPT),
    Claim(
        ch.Compose([ch.BlockGibbs(blocks=[(1,)]), ch.RowGibbs()]),
        "once",
        False,
        lambda: blocks_matrix("once", BETA, [(1,), (0,), (1,)]),
    ),
    # All orders of three axes in blocks of two, and one of them stands for both of the equal rows.
    Claim(ch.BlockGibbs(size=2), "three-axes", True, lambda: random_blocks_matrix("three-axes", 2)),
    Claim(ch.BlockGibbs(blocks=[(3, 0)]), "three-axes", False, lambda: block_matrix("three-axes", BETA, (0, 2))),
    Claim(ch.BlockGibbs(blocks=[(0, 2)]), "apart", True, lambda: block_matrix("apart", BETA, (0,))),
    # Either row alone, or with the swap of two of the three states of the other; then the blocks.
    Claim(
        ch.Jumps(size=1, differences=swaps("once", {0: (0, 1), 1: (0, 2)})),
        "once",
        True,
        lambda: (
            (jump_matrix("once", (0,), ((1, (0, 2)),)) + jump_matrix("once", (1,), ((0, (0, 1)),)))
            / 2
            @ random_blocks_matrix("once", 1)
        ),
    ),
    # The auxiliary draw and the path in one go.
    Claim(Ball(dense=False), "once", False, lambda: ball_matrix("once", BETA, 1)),
    Claim(Ball(dense=True), "once", True, lambda: ball_matrix("once", BETA, 1)),
]


def random_blocks_matrix(name: str, size: int) -> np.ndarray:
    n_axes = len(CASES[name].groups)
    orders = list(permutations(range(n_axes)))
    dealt = [[order[i : i + size] for i in range(0, n_axes, size)] for order in orders]
    return sum(blocks_matrix(name, BETA, blocks) for blocks in dealt) / len(orders)


JUMPS = {
    "three-axes-twice": ((1, (0, 1)), (2, (2, 0))),
    "frozen-axes": ((1, (0, 1)), (2, (1, 2))),
    "apart": ((0, (0, 2)), (1, (0, 1))),
    "counts": ((1, (0, 2)),),
}


def in_order(uniforms: np.ndarray, order: np.ndarray) -> None:
    """In the place of the shuffle, which has a proof of its own: fewer branches."""
    order[:] = np.arange(len(order))


def jump_proof(name: str, streamed: bool = False) -> Proof:
    differences = swaps(name, dict(JUMPS[name]))
    return sweep_proof(name, OnlyJump(size=1, differences=differences), CASES[name].target(streamed))


@pytest.mark.parametrize("name", JUMPS)
def test_jumps__of_several_rows(name, monkeypatch):
    """The first axis, and a swap of states in others; what it says of the first axis is ignored."""
    monkeypatch.setattr(sweeps, "shuffle", in_order)
    expected = jump_matrix(name, (0,), tuple(pair for pair in JUMPS[name] if pair[0] > 0))
    accept(jump_proof(name, streamed=name == "apart"), expected)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: f"{type(c.update).__name__}-{c.name}-{c.streamed}")
def test_updates(claim):
    accept(sweep_proof(claim.name, claim.update, CASES[claim.name].target(claim.streamed)), claim.matrix())


def ball_proof(name: str, update: Ball, target: Target, patch: pytest.MonkeyPatch) -> Proof:
    """In two halves, path to centres and centres to path, as in test_invariance.py."""
    sweep = update.prepare(target, BETA)
    offsets = update.steps(target)[0].values

    def centres(path: Path) -> dict[Path, float]:
        def draw(uniforms: np.ndarray) -> Path:
            out = np.empty(len(path), np.int64)
            ball.draw_centres(target.transitions, np.array(path), offsets, uniforms, out)
            return tuple(out.tolist())

        return distribution(draw, len(path))

    def keep(trans: Any, codes: Any, offsets: Any, uniforms: Any, out: Any) -> None:
        out[:] = codes

    pi = posterior(name, BETA)
    index = {path: i for i, path in enumerate(pi)}
    first = {path: centres(path) for path in pi}
    second = {}
    with patch.context() as patched:
        patched.setattr(ball, "draw_centres", keep)
        for around in {u for found in first.values() for u in found}:
            second[around] = distribution(lambda uniforms, u=around: path_step(sweep)(u, uniforms), sweep.n_uniforms)
    matrix = np.zeros((len(pi), len(pi)))
    for path, found in first.items():
        for around, chance in found.items():
            for result, share in second[around].items():
                assert result in index, f"{path} -> {result}, outside the support"
                matrix[index[path], index[result]] += chance * share
    return Proof(matrix, np.array(list(pi.values())))


@pytest.mark.parametrize(
    ("name", "radius", "dense", "streamed"),
    [
        ("two-and-three", 1, False, False),
        ("two-and-three", 1, True, True),
        ("two-and-four", 1, False, True),
        ("frozen", 1, True, False),
        ("frozen", 1, False, False),
        ("counts", 1, True, True),
        ("three-axes", 2, False, False),
        ("three-axes", 2, True, True),
    ],
)
def test_hamming_ball(name, radius, dense, streamed, monkeypatch):
    """Rows that differ, whatever their states: from any state of a row to any other is one step."""
    proof = ball_proof(name, Ball(radius=radius, dense=dense), CASES[name].target(streamed), monkeypatch)
    accept(proof, ball_matrix(name, BETA, radius))


@pytest.mark.parametrize("name", ["apart", "lamps"])
@pytest.mark.parametrize("update", [ch.RowGibbs(), ch.Exact()], ids=repr)
def test_beta_zero__is_the_prior(update, name):
    sweep = update.prepare(CASES[name].target(streamed=True), 0.0)
    found = distribution(
        lambda uniforms: path_step(sweep)(next(iter(posterior(name, 0.0))), uniforms), sweep.n_uniforms
    )
    assert found == pytest.approx(posterior(name, 0.0), abs=EXACT)


class Script:
    """A generator that hands out symbolic uniforms."""

    def __init__(self, uniforms: np.ndarray):
        self.uniforms = uniforms

    def random(self, shape: Any) -> np.ndarray:
        n = math.prod(np.atleast_1d(shape))
        given, self.uniforms = self.uniforms[:n], self.uniforms[n:]
        return given.reshape(shape)


def recorded(name: str) -> dict[tuple[tuple[int, ...], ...], float]:
    """Distribution of the recorded paths of all rows, where the codes of the axes are drawn from their target."""
    case, target = CASES[name], CASES[name].target()
    layout = target.row_layout
    out: dict[tuple[tuple[int, ...], ...], float] = {}
    for path, mass in posterior(name, BETA).items():

        def expand(uniforms: np.ndarray, path: Path = path) -> tuple[tuple[int, ...], ...]:
            codes = target.expand(np.array(path), Script(uniforms))
            return tuple(
                tuple(int(code >> s & m) for s, m in zip(layout.shifts, layout.masks, strict=True)) for code in codes
            )

        for states, share in distribution(expand, len(path) * (1 + len(case.rows))).items():
            out[states] = out.get(states, 0.0) + mass * share
    return out


def rows_posterior(name: str) -> dict[tuple[tuple[int, ...], ...], float]:
    weights = row_weights(name, BETA)
    total = math.fsum(weights.values())
    return {states: weight / total for states, weight in weights.items()}


@pytest.mark.parametrize("name", ["apart", "pair"])
def test_recorded_paths__are_those_of_the_rows_one_by_one(name):
    assert recorded(name) == pytest.approx(rows_posterior(name), abs=EXACT)


# Pairs of replicas.

MOVES = {
    "swap": ch.Swap(),
    "random": ch.RandomCrossover(),
    "random-two-points": ch.RandomCrossover(points=2),
    "augmented": ch.AugmentedCrossover(),
    "augmented-prefixes": ch.AugmentedCrossover(flipped=False),
    "mosaic": ch.MosaicCrossover(),
}
ROW_MOVES = {
    "swap-subset": ch.Swap(rows="random"),
    "random-one-row": ch.RandomCrossover(rows=[0]),
    "augmented-one-row": ch.AugmentedCrossover(rows=[0]),
    "mosaic-one-row": ch.MosaicCrossover(rows=[0]),
    "mosaic-subset": ch.MosaicCrossover(rows="random"),
    "random-across": ch.RandomCrossover(axis="rows"),
    "augmented-across": ch.AugmentedCrossover(axis="rows"),
}


def exchange_proof(exchange, name_i, name_j, beta_i=1.0, beta_j=0.2, streamed=False, second=None) -> Proof:
    first = CASES[name_i].target(streamed)
    step = exchange.prepare(first, second or CASES[name_j].target(streamed), beta_i, beta_j)
    return prove_pair(pair_step(step), posterior(name_i, beta_i), posterior(name_j, beta_j), step.n_uniforms)


def accept_exchange(proof: Proof) -> None:
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    assert np.trace(proof.matrix) < len(proof.pi) - 1, "nothing was ever exchanged"


@pytest.mark.parametrize(
    ("name_i", "name_j", "beta_j", "streamed"),
    [
        ("three", "three-own", 0.2, False),
        ("pair", "pair-own", 0.2, True),
        ("start", "start-own", 0.0, False),
        ("frozen-row", "frozen-row", 0.2, False),
    ],
    ids=["own-parameters", "equal-rows", "prior", "logarithms"],
)
@pytest.mark.parametrize("exchange", MOVES.values(), ids=MOVES)
def test_exchanges(exchange, name_i, name_j, beta_j, streamed):
    accept_exchange(exchange_proof(exchange, name_i, name_j, 1.0, beta_j, streamed))


@pytest.mark.parametrize("exchange", ROW_MOVES.values(), ids=ROW_MOVES)
def test_exchanges__of_some_rows(exchange):
    accept_exchange(exchange_proof(exchange, "cycle", "cycle-own"))


def test_every_update_and_exchange_is_proved():
    """A new line in a registry needs its proof here."""
    # test_hamming_ball; Collapsed moves parameters, and draws paths exactly; GaussianBlocks is for rows of two states.
    elsewhere = {ch.HammingBall, ch.Collapsed, ch.GaussianBlocks}
    assert {type(claim.update) for claim in CLAIMS} | elsewhere >= set(UPDATES.values())
    assert {type(move) for move in MOVES.values()} == set(EXCHANGES.values())


# The proofs can fail.


def changed(target: Target, **attributes: Any) -> Target:
    other = copy.copy(target)
    other.__dict__.update(attributes)
    return other


def forgotten_multiplicities(patch: pytest.MonkeyPatch) -> None:
    """Every count as if it could be had in one way: the best assignment of rows where the chance takes all."""

    def lump(self: Group, matrices: np.ndarray) -> np.ndarray:
        best = np.exp(self.log_best(matrices))
        return best / best.sum(axis=-1, keepdims=True)

    patch.setattr(Group, "lump", lump)


def bits_for_rows(patch: pytest.MonkeyPatch) -> None:
    """A ball of codes with few bits, not few rows."""

    def offsets(layout: Any, radius: int) -> np.ndarray:
        codes = np.array([layouts.code_of_index(i, layout) for i in range(math.prod(layout.sizes.tolist()))])
        return codes[np.bitwise_count(codes) <= radius]

    patch.setattr(updates, "ball_offsets", offsets)
    patch.setattr(updates, "ball_size", lambda layout, radius: len(offsets(layout, radius)))


def flipped_bits(patch: pytest.MonkeyPatch) -> None:
    """Offsets that flip bits, as those of binary rows do: a row of three states gets a fourth."""
    patch.setattr(ball, "translate", lambda trans, code, offset: code ^ offset)


def padded_block(patch: pytest.MonkeyPatch) -> None:
    """Blocks over all settings of their bits, the last state of a row standing in for those that it does not have."""

    def codes(indices: Any, layout: Any, out: Any) -> None:
        real(indices, layout, out)
        for t, k in product(range(len(out)), range(len(layout.sizes))):
            if out[t] >> layout.shifts[k] & layout.masks[k] == layout.sizes[k] - 1:
                out[t] |= layout.masks[k] << layout.shifts[k]

    real = loop_sweeps.codes_of_indices
    patch.setattr(loop_sweeps, "codes_of_indices", codes)


def uneven_rows(patch: pytest.MonkeyPatch) -> None:
    """The first rows of a group are always the first to be on."""
    patch.setattr(Script, "random", lambda self, shape: real(self, shape) * (0.3 if np.ndim(shape) else 1.0))


real = Script.random


def forgotten_beta(patch: pytest.MonkeyPatch) -> None:
    scale = ball.scale_columns
    patch.setattr(ball, "scale_columns", lambda columns, beta: scale(columns, 1.0))


def wrong_edge(patch: pytest.MonkeyPatch) -> None:
    """The backward draw with the edge that enters column t in place of the one that leaves it."""
    draw = passes.draw_block

    def broken(alpha: Any, trans: Any, edge: Any, *rest: Any) -> None:
        draw(alpha, trans, np.concatenate([edge[:1], edge[:-1]]), *rest)

    patch.setattr(loop_sweeps, "draw_block", broken)


def wrong_swap(patch: pytest.MonkeyPatch) -> None:
    """The rows of a difference go to its states, wherever they were: there is no way back."""

    def broken(code: int, a: int, b: int, trans: Any) -> int:
        layout = trans.layout
        fields = sum(int(m) << int(s) for m, s in zip(layout.masks, layout.shifts, strict=True) if (a ^ b) >> s & m)
        return code & ~fields | b

    patch.setattr(jumps, "swap_states", broken)


def jump_without_transitions(patch: pytest.MonkeyPatch) -> None:
    """Swaps that cost nothing at the borders of a segment."""
    real = loop_sweeps.jump_tables

    def broken(*args: Any) -> None:
        real(*args)
        args[-2][:, -4:] = args[-2][:, -4:-3]

    patch.setattr(loop_sweeps, "jump_tables", broken)


def kept_others(patch: pytest.MonkeyPatch) -> None:
    """The likelihood of a block as if all other axes were in state 0."""
    around = Target.candidates.func

    class Alone:
        def __init__(self, source: Any):
            self.source = source

        def around(self, centres: Any, axes: Any) -> Any:
            return self.source.around(np.zeros_like(centres), axes)

    patch.setattr(Target, "candidates", property(lambda self: Alone(around(self))))


@pytest.mark.parametrize(
    ("mutant", "name", "update"),
    [
        (forgotten_multiplicities, "pair", ch.RowGibbs()),
        (forgotten_multiplicities, "pair", ch.Exact()),
        (forgotten_beta, "two-and-three", ch.RowGibbs()),
        (wrong_edge, "three", ch.RowGibbs()),
        (kept_others, "once", ch.RowGibbs()),
    ],
)
def test_mutants__are_rejected(mutant, name, update, monkeypatch):
    mutant(monkeypatch)
    assert sweep_proof(name, update, CASES[name].target()).error > REJECTED


@pytest.mark.parametrize(
    ("mutant", "name"), [(wrong_swap, "counts"), (jump_without_transitions, "apart"), (forgotten_beta, "counts")]
)
def test_mutants__of_jumps_are_rejected(mutant, name, monkeypatch):
    monkeypatch.setattr(sweeps, "shuffle", in_order)
    mutant(monkeypatch)
    assert jump_proof(name).error > REJECTED


def test_mutants__a_ball_that_counts_bits(monkeypatch):
    bits_for_rows(monkeypatch)
    assert ball_proof("two-and-four", Ball(), CASES["two-and-four"].target(), monkeypatch).error > REJECTED


def test_mutants__padded_states_are_seen(monkeypatch):
    """No branch, however improbable, may leave the support."""
    with monkeypatch.context() as patch:
        padded_block(patch)
        with pytest.raises(AssertionError, match="outside the support"):
            sweep_proof("three", ch.RowGibbs(), CASES["three"].target())
    flipped_bits(monkeypatch)
    with pytest.raises((AssertionError, IndexError), match=r"outside the support|out of bounds"):
        sweep_proof("once", Ball(dense=True), CASES["once"].target())


def test_mutants__rows_of_a_group_that_are_not_chosen_uniformly(monkeypatch):
    uneven_rows(monkeypatch)
    assert recorded("pair") != pytest.approx(rows_posterior("pair"), abs=REJECTED)


@pytest.mark.parametrize("exchange", [move for name, move in MOVES.items() if name != "swap"], ids=repr)
def test_mutants__forgotten_junction(exchange, monkeypatch):
    monkeypatch.setattr(crossover, "edge_table", lambda *args: (0.0,) * 4)
    assert exchange_proof(exchange, "three", "three").error > REJECTED


@pytest.mark.parametrize("exchange", MOVES.values(), ids=MOVES)
def test_mutants__borrowed_transitions_and_forgotten_multiplicities(exchange, monkeypatch):
    """The first replica's transitions in the place of the second's own; counts that are not counted."""
    first, second = CASES["three"].target(), CASES["three-own"].target()
    borrowed = changed(second, log_trans=first.log_trans)
    assert exchange_proof(exchange, "three", "three-own", second=borrowed).error > REJECTED
    if not isinstance(exchange, ch.Swap):  # which sees the prior of whole paths, the same on both sides
        forgotten_multiplicities(monkeypatch)
        assert exchange_proof(exchange, "pair", "pair").error > REJECTED
