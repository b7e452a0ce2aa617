"""Every update leaves its target invariant: full transition matrices of the code that runs, by enumeration.

Targets are enumerated from first principles (scipy's densities, fractional powers of 2x2 matrices) and share no code
with the package. A proof holds when max |pi M - pi| <= 1e-12; it also compares M, entry by entry, with what the update
claims to be (a product of conditional distributions), which sees errors in states of little mass as well. The same
proof must reject every mutant.

Uniforms are symbolic here (see branches.py), so the kernels have to run as plain Python: NUMBA_DISABLE_JIT=1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import fractional_matrix_power

import chiasma as ch
import mutants
from branches import Path, Proof, distribution, pair_step, path_step, prove, prove_pair, transition_matrix
from chiasma.exact.passes import Passes
from chiasma.kernels import ball, sweeps
from chiasma.models.additive import Emission
from chiasma.models.target import Target
from chiasma.sampling import updates
from chiasma.sampling.differences import Differences

pytestmark = pytest.mark.symbolic

EXACT = 1e-12
REJECTED = 1e-4
NAN = math.nan


def remember_likelihoods(target: Target) -> None:
    """A proof asks for the same few codes thousands of times; as plain Python most of its time would be theirs."""
    around, found = target.likelihood.around, {}

    def remembered(centres, offsets):
        key = centres.tobytes(), offsets.tobytes()
        if key not in found:
            found[key] = around(centres, offsets)
        return found[key].copy()

    target.likelihood.around = remembered


@dataclass(frozen=True)
class Case:
    """A tiny model, said twice: as plain numbers and functions, and as the package's objects."""

    enter: tuple[float, ...]
    leave: tuple[float, ...]
    n_columns: int
    log_density: Callable[[int, tuple[int, ...]], float]  # (t, bits of all rows); never asked for a missing column
    emission: Emission
    y: tuple[float, ...]
    initial: tuple[float, ...] | None = None
    starts: tuple[int, ...] = (0,)
    gaps: tuple[float, ...] | None = None
    fixed: dict[int, int] = field(default_factory=dict)

    @property
    def free(self) -> list[int]:
        return [k for k in range(len(self.enter)) if k not in self.fixed]

    @property
    def paths(self) -> list[Path]:
        return list(product(range(1 << len(self.free)), repeat=self.n_columns))

    def target(self, streamed: bool = False) -> Target:
        chains = ch.Switches(self.enter, self.leave, self.initial)
        model = ch.FactorialHMM(rows=chains, emission=self.emission, fixed=self.fixed)
        data = ch.Observations(self.y, starts=self.starts, gaps=self.gaps)
        if not streamed:
            return model.exact_target(data)
        target = model.exact_target(data, table_bytes=0)
        remember_likelihoods(target)
        return target

    def bits(self, code: int) -> tuple[int, ...]:
        """Settings of all rows, from a code of the free ones."""
        return tuple(
            self.fixed[k] if k in self.fixed else code >> self.free.index(k) & 1 for k in range(len(self.enter))
        )

    def prior(self, path: Path) -> float:
        total = 1.0
        for k in self.free:
            enter, leave = self.enter[k], self.leave[k]
            p_one = enter / (enter + leave) if self.initial is None else self.initial[k]
            for t, code in enumerate(path):
                x = self.bits(code)[k]
                if t in self.starts:
                    total *= p_one if x else 1 - p_one
                    continue
                matrix = np.array([[1 - enter, enter], [leave, 1 - leave]])
                if self.gaps is not None:
                    matrix = _power(enter, leave, self.gaps[t - 1])
                total *= matrix[self.bits(path[t - 1])[k], x]
        return float(total)

    def log_likelihood(self, path: Path) -> float:
        seen = [t for t in range(self.n_columns) if not math.isnan(self.y[t])]
        return sum(self.log_density(t, self.bits(path[t])) for t in seen)


@lru_cache
def _power(enter: float, leave: float, gap: float) -> np.ndarray:
    return fractional_matrix_power(np.array([[1 - enter, enter], [leave, 1 - leave]]), gap)


def gaussian(weights: Sequence[float], sd: float, y: Sequence[float]) -> dict:
    def log_density(t, bits):
        return float(stats.norm.logpdf(y[t], np.dot(weights, bits), sd))

    return {"log_density": log_density, "emission": ch.Gaussian(weights, sd=sd), "y": tuple(y), "n_columns": len(y)}


def table(log_lik: Sequence[Sequence[float]], y: Sequence[float]) -> dict:
    def log_density(t, bits):
        return log_lik[t][sum(x << k for k, x in enumerate(bits))]

    return {"log_density": log_density, "emission": ch.Table(log_lik), "y": tuple(y), "n_columns": len(y)}


def poisson(weights: Sequence[float], y: Sequence[float]) -> dict:
    def log_density(t, bits):
        return float(stats.poisson.logpmf(y[t], np.dot(weights, bits)))

    return {"log_density": log_density, "emission": ch.Poisson(weights), "y": tuple(y), "n_columns": len(y)}


INF = math.inf
CASES = {
    "two-rows": Case(enter=(0.2, 0.35), leave=(0.3, 0.15), **gaussian((1.0, 0.6), 0.8, (0.3, 1.1, 0.7))),
    "three-rows": Case(
        enter=(0.2, 0.35, 0.1), leave=(0.3, 0.15, 0.4), **gaussian((1.0, 0.6, -0.7), 0.8, (0.3, 1.1)), gaps=(1.5,)
    ),
    "one-row": Case(
        enter=(0.2,),
        leave=(0.3,),
        initial=(0.75,),
        starts=(0, 2),
        gaps=(2.5, 1, 0.5),
        **gaussian((1.0,), 0.7, (0.3, NAN, 0.9, 0.2)),
    ),
    # A gap, a missing column, and a start whose distribution is far from stationary.
    "structure": Case(
        enter=(0.1, 0.35),
        leave=(0.2, 0.15),
        initial=(0.9, 0.15),
        starts=(0, 2),
        gaps=(2.5, 1),
        **gaussian((1.0, 0.6), 0.8, (0.3, NAN, 0.7)),
    ),
    # Two kinds of edges inside one sequence.
    "gaps": Case(enter=(0.1, 0.35), leave=(0.2, 0.15), gaps=(3, 0.5), **gaussian((1.0, 0.6), 0.8, (0.3, 1.2, 0.7))),
    "fixed": Case(
        enter=(0.2, 0.5, 0.35),
        leave=(0.3, 0.5, 0.15),
        starts=(0, 1),
        fixed={1: 1},
        **gaussian((1.0, 0.5, 0.6), 0.8, (0.9, 1.1, 1.4)),
    ),
    # Row 0 never turns on inside a sequence: logarithms, and a support that is not everything.
    "frozen": Case(
        enter=(0.0, 0.35), leave=(0.3, 0.15), initial=(0.6, 0.2), **gaussian((1.0, 0.6), 0.8, (1.3, NAN, 0.7))
    ),
    "never-leaves": Case(
        enter=(0.0, 0.1),
        leave=(0.0, 0.0),
        initial=(0.6, 0.2),
        starts=(0, 2),
        **gaussian((1.0, 0.6), 0.8, (1.3, 0.2, 0.7)),
    ),
    # Not additive, with impossible codes.
    "table": Case(
        enter=(0.2, 0.35),
        leave=(0.3, 0.15),
        **table([[-1.0, 0.5, -INF, -0.3], [2.0, -1.5, 0.0, -INF], [0.3, -0.8, -0.1, 1.1]], (0.0, 0.0, NAN)),
    ),
    # Ratios that underflow: impossible stays, and conditionals that the scaled table has lost.
    "extreme": Case(
        enter=(0.2, 0.35),
        leave=(0.3, 0.15),
        **table(
            [[0.0, -900.0, -900.4, -901.0], [-1500.0, -1499.2, 0.0, -1.0], [-800.3, -800.0, -800.9, 0.0]], (0, 0, 0)
        ),
    ),
    "three-rows-frozen": Case(
        enter=(0.2, 0.0, 0.1),
        leave=(0.3, 0.15, 0.4),
        initial=(0.5, 0.6, 0.2),
        **gaussian((1.0, 0.6, -0.7), 0.8, (0.3, 1.1)),
    ),
    "three-rows-start": Case(
        enter=(0.2, 0.35, 0.1),
        leave=(0.3, 0.15, 0.4),
        initial=(0.9, 0.6, 0.2),
        starts=(0, 1),
        **gaussian((1.0, 0.6, -0.7), 0.8, (0.3, NAN)),
    ),
    "three-rows-once": Case(enter=(0.2, 0.35, 0.1), leave=(0.3, 0.15, 0.4), **gaussian((1.0, 0.6, -0.7), 0.8, (0.3,))),
    "two-rows-once": Case(enter=(0.2, 0.35), leave=(0.3, 0.15), **gaussian((1.0, 0.6), 0.8, (0.3,))),
    "five-rows": Case(
        enter=(0.2, 0.35, 0.1, 0.4, 0.25),
        leave=(0.3, 0.15, 0.4, 0.2, 0.25),
        **gaussian((1.0, 0.6, -0.7, 0.3, 0.2), 0.8, (0.5,)),
    ),
    # No background: with every row off, a count above zero is impossible.
    "counts": Case(enter=(0.2, 0.35), leave=(0.3, 0.15), **poisson((1.5, 0.8), (0.0, 2.0, 1.0))),
    # The same shape as "one-row", and nothing else in common: a replica with parameters of its own.
    "other-row": Case(
        enter=(0.4,), leave=(0.1,), starts=(0, 2), gaps=(1, 1, 2), **gaussian((1.4,), 0.9, (0.1, 1.3, NAN, 0.6))
    ),
    "printed": Case(enter=(0.2,), leave=(0.2,), **gaussian((1.0,), 0.5, (0.1, 0.9, 1.2, -0.2))),
    # Targets of pairs: a gap, a missing column and a start in three columns; "-own" has parameters of its own.
    "short": Case(
        enter=(0.2,),
        leave=(0.3,),
        initial=(0.75,),
        starts=(0, 2),
        gaps=(2.5, 1),
        **gaussian((1.0,), 0.7, (0.3, NAN, 0.9)),
    ),
    "short-own": Case(
        enter=(0.4,),
        leave=(0.1,),
        initial=(0.2,),
        starts=(0, 2),
        gaps=(2.5, 1),
        **gaussian((1.4,), 0.9, (0.3, NAN, 0.9)),
    ),
    "short-frozen": Case(enter=(0.0,), leave=(0.3,), initial=(0.6,), **gaussian((1.0,), 0.7, (0.3, 0.8, 0.1))),
    "tiny-own": Case(enter=(0.4, 0.1), leave=(0.1, 0.3), **gaussian((0.5, 1.2), 0.6, (0.3, 1.1))),
    "tiny-fixed": Case(
        enter=(0.2, 0.5, 0.35), leave=(0.3, 0.5, 0.15), fixed={1: 1}, **gaussian((1.0, 0.5, 0.6), 0.8, (0.9, 1.4))
    ),
    "tiny": Case(enter=(0.2, 0.35), leave=(0.3, 0.15), **gaussian((1.0, 0.6), 0.8, (0.3, 1.1))),
}


@lru_cache
def log_weights(name: str, beta: float) -> dict[Path, float]:
    """log p(X) + beta log p(y | X) of every path of positive probability."""
    case = CASES[name]
    weights = {}
    for path in case.paths:
        prior, log_likelihood = case.prior(path), case.log_likelihood(path) if beta > 0 else 0.0
        if prior > 0 and log_likelihood > -INF:
            weights[path] = math.log(prior) + beta * log_likelihood
    return weights


def normalised(log_weight: np.ndarray) -> np.ndarray:
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def posterior(name: str, beta: float) -> dict[Path, float]:
    """pi_beta(X) ∝ p(X) p(y | X)^beta by enumeration. Its keys are its support, though a mass may underflow."""
    weights = log_weights(name, beta)
    return dict(zip(weights, normalised(np.array(list(weights.values()))), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_cases__are_what_the_package_was_given(name):
    """The two descriptions of a case are one model; else a proof would speak of something else."""
    target = CASES[name].target()
    for path, log_weight in log_weights(name, 0.6).items():
        codes = np.array(path)
        assert log_weight == pytest.approx(target.log_prior(codes) + 0.6 * target.log_likelihood(codes), rel=1e-12)


# What each update claims to be, as a matrix over the support.


@lru_cache
def block_matrix(name: str, beta: float, rows: tuple[int, ...]) -> np.ndarray:
    """Rows (numbered among the free ones) jointly, given the others: P[a, b] = pi(b | other rows of a)."""
    mask = sum(1 << row for row in rows)
    log_pi = np.array(list(log_weights(name, beta).values()))
    kept = [tuple(code & ~mask for code in path) for path in log_weights(name, beta)]
    matrix = np.zeros((len(kept), len(kept)))
    for a, others in enumerate(kept):
        mates = [b for b, mate in enumerate(kept) if mate == others]
        matrix[a, mates] = normalised(log_pi[mates])
    return matrix


def blocks_matrix(name: str, beta: float, blocks: Sequence[Sequence[int]]) -> np.ndarray:
    """Blocks one after the other."""
    matrix = np.eye(len(log_weights(name, beta)))
    for rows in blocks:
        matrix = matrix @ block_matrix(name, beta, tuple(rows))
    return matrix


def random_blocks_matrix(name: str, beta: float, size: int) -> np.ndarray:
    n_rows = len(CASES[name].free)
    orders = list(permutations(range(n_rows)))
    dealt = [[order[i : i + size] for i in range(0, n_rows, size)] for order in orders]
    return sum(blocks_matrix(name, beta, blocks) for blocks in dealt) / len(orders)


@lru_cache
def ball_matrix(name: str, beta: float, radius: int) -> np.ndarray:
    """Uniform centres in the ball around a path, then pi restricted to the ball around the centres."""
    case = CASES[name]
    support = list(log_weights(name, beta))
    log_pi = np.array(list(log_weights(name, beta).values()))
    size = sum(math.comb(len(case.free), n) for n in range(radius + 1)) ** case.n_columns
    matrix = np.zeros((len(support), len(support)))
    for centres in case.paths:
        near = [i for i, path in enumerate(support) if is_near(path, centres, radius)]
        if near:
            matrix[np.ix_(near, near)] += normalised(log_pi[near]) / size
    return matrix


def is_near(path: Path, centres: Path, radius: int) -> bool:
    return all((s ^ u).bit_count() <= radius for s, u in zip(path, centres, strict=True))


# Proofs of the real sweeps.


def sweep_proof(name: str, update: updates.Update, beta: float, target: Target) -> Proof:
    sweep = update.prepare(target, beta)
    return prove(path_step(sweep), posterior(name, beta), sweep.n_uniforms)


def accept(proof: Proof, expected: np.ndarray, irreducible: bool = True) -> None:
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    assert proof.irreducible or not irreducible
    np.testing.assert_allclose(proof.matrix, expected, rtol=0, atol=EXACT)


PATHS = pytest.mark.parametrize("streamed", [False, True], ids=["tabulated", "streamed"])
STEPS = pytest.mark.parametrize("dense", [False, True], ids=["tensor", "dense"])
SMALL = ("two-rows", "one-row", "structure", "gaps", "fixed", "frozen", "never-leaves", "table", "extreme", "counts")
# In "extreme" some moves are so improbable that their share of a uniform is lost in rounding.
CONNECTED = {name: name != "extreme" for name in CASES}


@PATHS
@pytest.mark.parametrize("name", [*SMALL, "three-rows"])
def test_row_gibbs(name, streamed):
    proof = sweep_proof(name, ch.RowGibbs(), 0.6, CASES[name].target(streamed))
    rows = range(len(CASES[name].free))
    accept(proof, blocks_matrix(name, 0.6, [(k,) for k in rows]), CONNECTED[name])


@pytest.mark.parametrize(
    ("name", "streamed"),
    [("one-row", False), ("structure", False), ("frozen", False), ("table", False), ("tiny", True), ("frozen", True)],
)
def test_block_gibbs__random(name, streamed):
    proof = sweep_proof(name, ch.BlockGibbs(size=1), 0.6, CASES[name].target(streamed))
    accept(proof, random_blocks_matrix(name, 0.6, 1), CONNECTED[name])


def test_block_gibbs__random_uneven():
    """Three rows in blocks of two: every order, and a last block of one. One column, so that it stays small."""
    proof = sweep_proof("three-rows-once", ch.BlockGibbs(size=2), 0.6, CASES["three-rows-once"].target())
    accept(proof, random_blocks_matrix("three-rows-once", 0.6, 2))


@pytest.mark.parametrize(
    ("name", "streamed"),
    [*((name, False) for name in SMALL), ("five-rows", True), ("one-row", True), ("table", True), ("frozen", True)],
)
def test_block_gibbs__all_rows(name, streamed):
    proof = sweep_proof(name, ch.BlockGibbs(blocks=[CASES[name].free]), 0.6, CASES[name].target(streamed))
    accept(proof, np.tile(proof.pi, (len(proof.pi), 1)), CONNECTED[name])


@PATHS
@pytest.mark.parametrize(("name", "second"), [("three-rows", (1,)), ("three-rows-once", (1, 2))])
def test_block_gibbs__given_in_any_order(name, second, streamed):
    """A block's rows need not be sorted, nor its blocks disjoint."""
    update = ch.BlockGibbs(blocks=[(2, 0), second])
    proof = sweep_proof(name, update, 0.6, CASES[name].target(streamed))
    accept(proof, blocks_matrix(name, 0.6, [(0, 2), second]))


@PATHS
def test_block_gibbs__names_rows_of_the_model(streamed):
    """Row 2 of "fixed" is row 1 of its free rows; the row in no block stays as it is."""
    proof = sweep_proof("fixed", ch.BlockGibbs(blocks=[(2,)]), 0.6, CASES["fixed"].target(streamed))
    accept(proof, block_matrix("fixed", 0.6, (1,)), irreducible=False)
    assert not proof.irreducible


def test_shuffle__every_order_has_the_same_chance():
    def shuffle(uniforms):
        order = np.empty(4, np.int64)
        sweeps.shuffle(uniforms, order)
        return tuple(order.tolist())

    expected = dict.fromkeys(permutations(range(4)), 1 / 24)
    assert distribution(shuffle, 4) == pytest.approx(expected, abs=1e-15)


@dataclass(frozen=True, kw_only=True)
class Ball(ch.HammingBall):
    """A Hamming ball whose kind of step is given and not counted: at these sizes it would always be the tensor."""

    dense: bool = False

    def steps(self, target: Target) -> list[updates.Step]:
        (step,) = super().steps(target)
        kind = sweeps.BALL_DENSE if self.dense else sweeps.BALL_TENSOR
        return [step._replace(kind=kind, width=step.width if self.dense else 1 << target.n_axes)]


@STEPS
@PATHS
def test_hamming_ball__whole(streamed, dense):
    """Auxiliary draw and path in one go."""
    proof = sweep_proof("tiny", Ball(dense=dense), 0.6, CASES["tiny"].target(streamed))
    accept(proof, ball_matrix("tiny", 0.6, 1))


def test_hamming_ball__dense_on_many_rows():
    """One column, so that it stays small."""
    proof = sweep_proof("five-rows", Ball(dense=True), 0.6, CASES["five-rows"].target())
    accept(proof, ball_matrix("five-rows", 0.6, 1))


def ball_proof(name: str, update: Ball, beta: float, target: Target, patch: pytest.MonkeyPatch) -> Proof:
    """As sweep_proof, in two halves: path to centres, and centres to path.

    A ball sweep needs its path for the centres alone, so its second half runs with the centres for a path. The
    product of two matrices takes the place of very many joint branches; `test_hamming_ball__whole` does without.
    """
    sweep = update.prepare(target, beta)
    offsets = update.steps(target)[0].values

    def centres(path: Path, uniforms: np.ndarray) -> Path:
        out = np.empty(len(path), np.int64)
        ball.draw_centres(target.transitions, np.array(path), offsets, uniforms, out)
        return tuple(out.tolist())

    def keep(trans: np.ndarray, codes: np.ndarray, offsets: np.ndarray, uniforms: np.ndarray, out: np.ndarray) -> None:
        out[:] = codes

    pi = posterior(name, beta)
    index = {path: i for i, path in enumerate(pi)}
    every = CASES[name].paths
    first = transition_matrix(centres, every, target.n_columns)[[every.index(path) for path in pi]]
    second = np.zeros((len(every), len(pi)))
    with patch.context() as patched:
        patched.setattr(sweeps, "draw_centres", keep)
        patched.setattr(ball, "draw_centres", keep)
        for u in np.flatnonzero(first.any(axis=0)):
            step = lambda uniforms, u=u: path_step(sweep)(every[u], uniforms)  # noqa: E731
            for path, chance in distribution(step, sweep.n_uniforms).items():
                second[u, index[path]] = chance
    return Proof(first @ second, np.array(list(pi.values())))


@pytest.mark.parametrize(
    ("streamed", "dense"), [(False, False), (False, True), (True, False)], ids=["tensor", "dense", "streamed"]
)
@pytest.mark.parametrize(
    ("name", "radius"),
    [*((name, 1) for name in SMALL), ("three-rows", 1), ("three-rows", 2), ("frozen", 2), ("counts", 2)],
)
def test_hamming_ball(name, radius, streamed, dense, monkeypatch):
    proof = ball_proof(name, Ball(radius=radius, dense=dense), 0.6, CASES[name].target(streamed), monkeypatch)
    accept(proof, ball_matrix(name, 0.6, radius), CONNECTED[name])


@lru_cache
def jump_matrix(name: str, beta: float, rows: tuple[int, ...], difference: int) -> np.ndarray:
    """pi restricted to the paths whose columns differ from those of a in the block's rows, and by all or none of the
    difference's other rows.
    """
    block = sum(1 << row for row in rows)
    support, log_pi = list(log_weights(name, beta)), np.array(list(log_weights(name, beta).values()))
    allowed = {0, difference & ~block}
    matrix = np.zeros((len(support), len(support)))
    for i, a in enumerate(support):
        mates = [
            j for j, b in enumerate(support) if all((s ^ u) & ~block in allowed for s, u in zip(a, b, strict=True))
        ]
        matrix[i, mates] = normalised(log_pi[mates])
    return matrix


@dataclass(frozen=True, kw_only=True)
class OnlyJump(ch.Jumps):
    """Without the blocks that follow."""

    in_settings = False

    def steps(self, target: Target) -> list[updates.Step]:
        return super().steps(target)[:1]


def flips(*differences: int) -> Differences:
    """The first one weighs 1, the next 2, and so on."""
    return Differences(a=(0,) * len(differences), b=differences, weights=tuple(range(1, len(differences) + 1)))


def in_order(uniforms: np.ndarray, order: np.ndarray) -> None:
    """In the place of the shuffle, which has a proof of its own: fewer branches."""
    order[:] = np.arange(len(order))


@pytest.mark.parametrize(
    ("name", "streamed"),
    [
        ("three-rows", False),
        ("three-rows", True),
        ("three-rows-frozen", False),
        ("three-rows-frozen", True),
        ("three-rows-start", False),
        ("tiny-fixed", True),
        ("table", False),
        ("extreme", True),
    ],
)
def test_jumps__of_several_rows(name, streamed, monkeypatch):
    """The first row and a flip of all the others."""
    monkeypatch.setattr(sweeps, "shuffle", in_order)
    whole = (1 << len(CASES[name].free)) - 1
    update = OnlyJump(size=1, differences=flips(whole))
    proof = sweep_proof(name, update, 0.6, CASES[name].target(streamed))
    accept(proof, jump_matrix(name, 0.6, (0,), whole), irreducible=False)


@PATHS
def test_jumps__whole(streamed):
    """Every order of the rows, every difference, and the blocks that follow. One column, so that it stays small."""
    name = "two-rows-once"
    proof = sweep_proof(name, ch.Jumps(size=1, differences=flips(0b11, 0b10)), 0.6, CASES[name].target(streamed))
    jumps = [
        weight / 6 * jump_matrix(name, 0.6, (row,), difference)
        for row in (0, 1)
        for weight, difference in ((1, 0b11), (2, 0b10))
    ]
    accept(proof, sum(jumps) @ random_blocks_matrix(name, 0.6, 1))


def test_jumps__larger_block_than_rows():
    """All rows in the block: nothing is left of the difference, and the flip says nothing."""
    proof = sweep_proof(
        "three-rows-once", OnlyJump(size=9, differences=flips(0b111)), 0.6, CASES["three-rows-once"].target()
    )
    accept(proof, np.tile(proof.pi, (len(proof.pi), 1)))


@pytest.mark.parametrize("name", [*SMALL, "three-rows"])
def test_exact(name):
    """Every row of M is pi: the next path does not depend on the last."""
    proof = sweep_proof(name, ch.Exact(), 0.6, CASES[name].target())
    accept(proof, np.tile(proof.pi, (len(proof.pi), 1)), CONNECTED[name])


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("name", ["one-row", "structure", "frozen", "extreme"])
def test_exact__columns_in_segments(name, length, monkeypatch):
    monkeypatch.setattr(Passes, "_segment_length", lambda *args, **kwargs: length)
    sweep = ch.Exact().prepare(CASES[name].target(), 0.6)
    step = path_step(sweep)
    found = distribution(lambda uniforms: step(CASES[name].paths[5], uniforms), sweep.n_uniforms)
    pi = posterior(name, 0.6)
    assert found.keys() <= pi.keys()
    assert [found.get(path, 0.0) for path in pi] == pytest.approx(list(pi.values()), abs=EXACT)


@PATHS
def test_compose(streamed):
    target = CASES["tiny"].target(streamed)
    rows, block = blocks_matrix("tiny", 0.6, [(0,), (1,)]), block_matrix("tiny", 0.6, (1,))
    update = ch.Compose([ch.BlockGibbs(blocks=[(1,)]), ch.RowGibbs()])
    accept(sweep_proof("tiny", update, 0.6, target), block @ rows)
    update = ch.Compose([ch.HammingBall(), ch.BlockGibbs(blocks=[(1,)])])
    accept(sweep_proof("tiny", update, 0.6, target), ball_matrix("tiny", 0.6, 1) @ block)


@pytest.mark.parametrize(
    ("name", "beta"), [("structure", 1.0), ("structure", 0.05), ("frozen", 2.5), ("extreme", 0.01)]
)
def test_any_beta(name, beta, monkeypatch):
    target = CASES[name].target()
    connected = CONNECTED[name]
    both = block_matrix(name, beta, (0, 1))
    accept(sweep_proof(name, ch.RowGibbs(), beta, target), blocks_matrix(name, beta, [(0,), (1,)]), connected)
    accept(sweep_proof(name, ch.BlockGibbs(blocks=[(0, 1)]), beta, target), both, connected)
    accept(sweep_proof(name, ch.Exact(), beta, target), both, connected)
    accept(ball_proof(name, Ball(), beta, target, monkeypatch), ball_matrix(name, beta, 1), connected)


@PATHS
@pytest.mark.parametrize("name", ["structure", "frozen", "counts"])
@pytest.mark.parametrize("update", [ch.RowGibbs(), ch.BlockGibbs(size=1), ch.HammingBall(), ch.Exact()], ids=repr)
def test_beta_zero__is_the_prior(update, name, streamed):
    """Independent draws that ignore the data, even where they are impossible."""
    sweep = update.prepare(CASES[name].target(streamed), 0.0)
    step = path_step(sweep)
    found = distribution(lambda uniforms: step(CASES[name].paths[5], uniforms), sweep.n_uniforms)
    pi = posterior(name, 0.0)
    assert found.keys() == pi.keys()
    assert [found[path] for path in pi] == pytest.approx(list(pi.values()), abs=EXACT)


# The proof can fail.

MUTANTS = [
    (mutants.forgotten_beta, "tiny", ch.RowGibbs(), False),
    (mutants.forgotten_beta, "tiny", ch.BlockGibbs(size=1), False),
    (mutants.forgotten_beta, "tiny", ch.HammingBall(), False),
    (mutants.forgotten_beta_streamed, "tiny", ch.RowGibbs(), True),
    (mutants.forgotten_beta_streamed, "tiny", ch.HammingBall(), True),
    (mutants.forgotten_beta_log, "frozen", ch.RowGibbs(), False),
    (mutants.ignored_start, "structure", ch.RowGibbs(), False),
    (mutants.ignored_start, "structure", ch.BlockGibbs(blocks=[(0, 1)]), True),
    (mutants.ignored_start, "one-row", ch.HammingBall(), False),
    (mutants.ignored_start, "structure", ch.Exact(), False),
    (mutants.ignored_first_start, "structure", ch.RowGibbs(), False),
    (mutants.ignored_first_start, "tiny", ch.HammingBall(), False),
    (mutants.ignored_first_start, "structure", ch.Exact(), False),
    (mutants.ignored_gap, "gaps", ch.RowGibbs(), False),
    (mutants.ignored_gap, "gaps", ch.BlockGibbs(blocks=[(0, 1)]), False),
    (mutants.ignored_gap, "one-row", ch.HammingBall(), False),
    (mutants.ignored_gap, "gaps", ch.Exact(), False),
    (mutants.forgotten_missing, "structure", ch.RowGibbs(), False),
    (mutants.wrong_edge_row, "structure", ch.RowGibbs(), False),
    (mutants.wrong_edge_block, "structure", ch.BlockGibbs(blocks=[(0, 1)]), False),
    (mutants.wrong_edge_ball, "one-row", ch.HammingBall(), False),
    (mutants.wrong_edge_exact, "structure", ch.Exact(), False),
    (mutants.kept_centre, "tiny", ch.HammingBall(), False),
    (mutants.lopsided_centre, "tiny", ch.HammingBall(), False),
    (mutants.epsilon_row, "tiny", ch.RowGibbs(), False),
    (mutants.epsilon_pick, "tiny", ch.BlockGibbs(blocks=[(0, 1)]), False),
    (mutants.epsilon_pick, "two-rows", ch.Exact(), False),
    (mutants.epsilon_pick, "tiny", ch.HammingBall(), False),
    (mutants.forgotten_others_row, "tiny", ch.RowGibbs(), False),
    (mutants.forgotten_others_block, "tiny", ch.BlockGibbs(size=1), False),
    (mutants.whole_uniform_elsewhere, "two-rows", ch.BlockGibbs(blocks=[(0, 1)]), False),
    (mutants.whole_uniform_elsewhere, "two-rows", ch.Exact(), False),
    (mutants.stay_without_diagonal, "two-rows", ch.Exact(), False),
    (mutants.shared_uniform, "tiny", ch.RowGibbs(), False),
]


@pytest.mark.parametrize(
    ("mutant", "name", "update", "streamed"),
    MUTANTS,
    ids=[f"{mutant.__name__}-{type(update).__name__}" for mutant, _, update, _ in MUTANTS],
)
def test_mutants__are_rejected(mutant, name, update, streamed, monkeypatch):
    target = mutant(monkeypatch, CASES[name].target(streamed))
    proof = sweep_proof(name, update, 0.6, target)
    assert proof.row_error <= EXACT
    assert proof.error > REJECTED


@pytest.mark.parametrize(
    ("mutant", "name", "streamed"),
    [
        (mutants.forgotten_beta, "tiny", False),
        (mutants.forgotten_beta_streamed, "tiny", True),
        (mutants.forgotten_beta_log, "three-rows-frozen", False),
        (mutants.ignored_start, "structure", False),
        (mutants.wrong_edge_block, "three-rows", False),
        (mutants.one_row_of_a_jump, "three-rows", False),
        (mutants.jump_without_a_past, "tiny", False),
        (mutants.jump_of_rows_that_are_on, "three-rows-start", False),
    ],
)
def test_mutants__of_jumps_are_rejected(mutant, name, streamed, monkeypatch):
    target = mutant(monkeypatch, CASES[name].target(streamed))
    monkeypatch.setattr(sweeps, "shuffle", in_order)
    update = OnlyJump(size=1, differences=flips((1 << len(CASES[name].free)) - 1))
    proof = sweep_proof(name, update, 0.6, target)
    assert proof.row_error <= EXACT
    assert proof.error > REJECTED


def test_mutants__squared_beta_hides_in_states_of_little_mass(monkeypatch):
    """pi M = pi alone is blind to states of mass 1e-200; the comparison with the expected matrix is not."""
    target = mutants.squared_beta(monkeypatch, CASES["extreme"].target())
    proof = sweep_proof("extreme", ch.RowGibbs(), 0.6, target)
    assert proof.error <= EXACT
    assert np.abs(proof.matrix - blocks_matrix("extreme", 0.6, [(0,), (1,)])).max() > REJECTED


# Pairs of replicas: plain moves, right and wrong.

PAIRS = pytest.mark.parametrize(
    ("name_i", "name_j", "beta_i", "beta_j"),
    [("one-row", "one-row", 1.0, 0.2), ("one-row", "other-row", 1.0, 0.2), ("tiny", "tiny", 0.7, 0.0)],
    ids=["one-target", "two-targets", "prior"],
)


def pair_proof(name_i: str, name_j: str, beta_i: float, beta_j: float, make: Callable, **options: bool) -> Proof:
    step = make(log_weights(name_i, beta_i).__getitem__, log_weights(name_j, beta_j).__getitem__, **options)
    return prove_pair(step, posterior(name_i, beta_i), posterior(name_j, beta_j), 2)


@PAIRS
@pytest.mark.parametrize("make", [mutants.swap, mutants.random_crossover, mutants.augmented_crossover])
def test_pairs__plain_moves_are_invariant(make, name_i, name_j, beta_i, beta_j):
    proof = pair_proof(name_i, name_j, beta_i, beta_j, make)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT


@PAIRS
def test_pairs__prefixes_alone_are_invariant(name_i, name_j, beta_i, beta_j):
    assert pair_proof(name_i, name_j, beta_i, beta_j, mutants.augmented_crossover, flipped=False).error <= EXACT


def test_pairs__algorithm_as_printed_is_rejected():
    proof = pair_proof("printed", "printed", 1.0, 0.2, mutants.augmented_crossover, as_printed=True)
    assert proof.error > 1e-2
    assert pair_proof("printed", "printed", 1.0, 0.2, mutants.augmented_crossover).error <= 1e-15


def test_pairs__forgotten_likelihood_is_rejected():
    """The random crossover of the authors' code, which looks at the likelihood of one replica only."""
    log_i, log_j = log_weights("one-row", 1.0), log_weights("one-row", 0.0)
    step = mutants.random_crossover(log_i.__getitem__, log_j.__getitem__)
    proof = prove_pair(step, posterior("one-row", 1.0), posterior("one-row", 0.2), 2)
    assert proof.error > REJECTED


def test_pairs__forgotten_beta_is_rejected():
    log_i = log_weights("one-row", 1.0).__getitem__
    for make in (mutants.swap, mutants.random_crossover, mutants.augmented_crossover):
        proof = prove_pair(make(log_i, log_i), posterior("one-row", 1.0), posterior("one-row", 0.2), 2)
        assert proof.error > REJECTED


# The package's exchange moves.

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


def exchange_proof(exchange, name_i, name_j, beta_i, beta_j, streamed=False) -> Proof:
    step = exchange.prepare(CASES[name_i].target(streamed), CASES[name_j].target(streamed), beta_i, beta_j)
    return prove_pair(pair_step(step), posterior(name_i, beta_i), posterior(name_j, beta_j), step.n_uniforms)


@pytest.mark.parametrize(
    ("name_i", "name_j", "beta_i", "beta_j", "streamed"),
    [
        ("short", "short", 1.0, 0.2, False),
        ("short", "short-own", 1.0, 0.2, False),
        ("short", "short-own", 1.0, 0.2, True),
        ("short", "short", 0.5, 0.0, False),
        ("short-frozen", "short-frozen", 1.0, 0.2, False),
    ],
    ids=["one-target", "own-parameters", "streamed", "prior", "logarithms"],
)
@pytest.mark.parametrize("exchange", MOVES.values(), ids=MOVES)
def test_exchanges(exchange, name_i, name_j, beta_i, beta_j, streamed):
    proof = exchange_proof(exchange, name_i, name_j, beta_i, beta_j, streamed)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    assert np.trace(proof.matrix) < len(proof.pi) - 1, "nothing was ever exchanged"


@pytest.mark.parametrize(("name_i", "name_j"), [("tiny", "tiny-own"), ("tiny-fixed", "tiny-fixed")])
@pytest.mark.parametrize("exchange", ROW_MOVES.values(), ids=ROW_MOVES)
def test_exchanges__of_some_rows(exchange, name_i, name_j):
    proof = exchange_proof(exchange, name_i, name_j, 1.0, 0.2)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT
    assert np.trace(proof.matrix) < len(proof.pi) - 1, "nothing was ever exchanged"


def test_exchanges__mosaic_is_a_gibbs_step():
    """It draws from pi_i x pi_j given the unordered pair of codes at every column."""
    proof = exchange_proof(ch.MosaicCrossover(), "short", "short-own", 1.0, 0.2)
    pi_i, pi_j = posterior("short", 1.0), posterior("short-own", 0.2)
    pairs = list(product(pi_i, pi_j))
    kept = [tuple(frozenset(codes) for codes in zip(*pair, strict=True)) for pair in pairs]
    expected = np.array([[(k == other) * mass for other, mass in zip(kept, proof.pi, strict=True)] for k in kept])
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(proof.matrix, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("exchange", [move for name, move in MOVES.items() if name != "swap"], ids=repr)
def test_exchanges__forgotten_junction_is_rejected(exchange, monkeypatch):
    mutants.forgotten_junction(monkeypatch)
    assert exchange_proof(exchange, "short", "short", 1.0, 0.2).error > REJECTED


@pytest.mark.parametrize("exchange", MOVES.values(), ids=MOVES)
def test_exchanges__forgotten_beta_is_rejected(exchange, monkeypatch):
    """Both replicas scored at the beta of the first."""
    step = exchange.prepare(CASES["short"].target(), CASES["short"].target(), 1.0, 1.0)
    proof = prove_pair(pair_step(step), posterior("short", 1.0), posterior("short", 0.2), step.n_uniforms)
    assert proof.error > REJECTED


@pytest.mark.parametrize("exchange", MOVES.values(), ids=MOVES)
def test_exchanges__borrowed_transitions_are_rejected(exchange):
    """The first replica's transitions in the place of the second's own."""
    first, second = CASES["short"].target(), CASES["short-own"].target()
    step = exchange.prepare(first, replace(second, trans=first.trans), 1.0, 0.2)
    proof = prove_pair(pair_step(step), posterior("short", 1.0), posterior("short-own", 0.2), step.n_uniforms)
    assert proof.error > REJECTED
