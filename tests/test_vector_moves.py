"""Updates of vectors that learn: their invariance with what they have learned frozen, and that it is frozen.

Continuous moves start from exact draws of their target, so every replicate keeps its law if the move is right; |z| is
below 4.5, which a correct one fails with probability 7e-6 each. Discrete ones are enumerated.
"""

from __future__ import annotations

import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import chiasma as ch
from branches import prove
from chiasma.errors import InvalidInput
from chiasma.kernels import vectors
from chiasma.sampling.mode_jumps import ModeJumper
from chiasma.sampling.problems import Start
from chiasma.sampling.replicas import Replicas
from chiasma.sampling.streams import Streams
from chiasma.sampling.vector_engine import VectorEngine
from chiasma.sampling.vector_problem import VectorProblem
from chiasma.sampling.vector_updates import bind_update

MAX_Z = 4.5
SHARED = ModeJumper.SHARED
N = 4000
MEANS, SDS, SHARES = np.array([[-1.5, 0.0], [1.2, 1.0]]), np.array([[0.7, 1.0], [0.9, 0.5]]), np.array([0.3, 0.7])


def parts(x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * (((x[:, None, :] - MEANS) / SDS) ** 2).sum(axis=2)) * SHARES / SDS.prod(axis=1)


def log_density(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(parts(x).sum(axis=1))


def gradient(x: np.ndarray) -> np.ndarray:
    weights = parts(x) / parts(x).sum(axis=1, keepdims=True)
    return -(weights[:, :, None] * (x[:, None, :] - MEANS) / SDS**2).sum(axis=1)


def mixture(update: Any, slope: Any = gradient) -> ch.Density:
    return ch.Density(log_density, 2, np.zeros(2), update, gradient=slope)


def worst_z(update: Any, wrong: Any = None, slope: Any = gradient, beta: float = 1.0) -> float:
    """Worst z of moments after some steps of replicates that begin with exact draws; wrong(step): breaks the step."""
    rng = np.random.default_rng(3)
    which = (rng.random(N) < SHARES[1]).astype(int)
    x = rng.normal(MEANS[which], SDS[which])
    step = bind_update(mixture(update, slope), np.full(N, beta))
    replicas = Replicas(step.density, step.betas, x.copy())
    learned = warmed_up(update).step.learned
    rungs = {name: np.repeat(values[-1:], N, axis=0) for name, values in learned.items() if name not in SHARED}
    step.take_over(learned | rungs)
    if wrong is not None:
        wrong(step)
    for _ in range(8):
        step(replicas, rng.random((N, step.n_uniforms)), rng.standard_normal((N, step.n_normals)))
    y = replicas.states
    assert np.mean(np.any(y != x, axis=1)) > 0.9
    values = np.column_stack([y, y**2, y[:, 0] * y[:, 1], y[:, 0] < 0])
    below = [0.5 * (1 + math.erf(-m / (s * math.sqrt(2)))) for m, s in zip(MEANS[:, 0], SDS[:, 0], strict=True)]
    exact = [*(SHARES @ MEANS), *(SHARES @ (MEANS**2 + SDS**2)), SHARES @ MEANS.prod(axis=1), SHARES @ below]
    return float(np.abs((values.mean(axis=0) - exact) / (values.std(axis=0) / math.sqrt(N))).max())


def warmed_up(update: Any, exchange: Any = None, **options: Any) -> VectorEngine:
    problem = VectorProblem(ch.Density(log_density, 2, np.zeros(2), update, gradient=gradient, **options), exchange)
    engine = VectorEngine(problem, [0.5, 1.0], 1, Streams(1, 0), Start())
    engine.advance(400, 0)
    engine.pool([engine], last=True)
    engine.restart()
    return engine


CONTINUOUS = {
    "walk": ch.RandomWalk(scale=0.1),
    "sites": ch.RandomWalk(scale=0.1, sites=2),
    "Langevin": ch.Hamiltonian(steps=1),
    "Hamiltonian": ch.Hamiltonian(steps=4),
    "stretch": ch.Stretch(),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_update__keeps_a_mixture_with_what_it_has_learned(name):
    assert worst_z(CONTINUOUS[name]) < MAX_Z


def reversed_correction(step: Any) -> None:
    settle = step.settle
    step.settle = lambda replicas, x, correction, uniforms: settle(replicas, x, -correction, uniforms)


@pytest.mark.parametrize("name", ["Langevin", "stretch"])
def test_update__a_wrong_correction_is_noticed(name):
    def longer(step):
        reversed_correction(step)
        if "step_size" in step.learned:
            step.learned["step_size"] *= 1.5

    assert worst_z(CONTINUOUS[name], longer) > 1.5 * MAX_Z


def test_update__at_a_wrong_temperature_is_noticed():
    assert worst_z(ch.Hamiltonian(steps=4), beta=0.4) > 1.5 * MAX_Z


def test_hamiltonian__a_wrong_gradient_costs_acceptance_only():
    assert worst_z(ch.Hamiltonian(steps=2), slope=lambda x: 0.3 * gradient(x)) < MAX_Z


@pytest.mark.parametrize("name", CONTINUOUS)
def test_learned__is_frozen_while_draws_are_kept(name):
    engine = warmed_up(CONTINUOUS[name], ch.Swap())
    before = {name: values.copy() for name, values in engine.step.learned.items()}
    start = bind_update(engine.problem.density, engine.betas).learned
    assert any(not np.array_equal(values, start[name]) for name, values in before.items())
    engine.advance(100, 1)
    assert all(np.array_equal(values, before[name]) for name, values in engine.step.learned.items())


@pytest.mark.parametrize("name", CONTINUOUS)
def test_checkpoint__continues_bit_for_bit(name):
    exchange = ch.BalancedCrossover()
    whole, first = warmed_up(CONTINUOUS[name], exchange), warmed_up(CONTINUOUS[name], exchange)
    expected = whole.advance(150, 1)
    begun = [first.advance(n, 1) for n in (30, 47)]
    second = VectorEngine(first.problem, [0.1, 0.2, 1.0], 1, Streams(1, 0), Start())
    second.restore(first.checkpoint())
    ended = second.advance(73, 1)
    for one, *others in zip(expected, *begun, ended, strict=True):
        np.testing.assert_array_equal(one, np.concatenate(others))


@pytest.mark.parametrize("size", [1, 3, 8])
def test_adapt_factors__equal_the_definition(size):
    """L L' becomes L (I + g (chance - wanted) z z' / |z|^2) L'."""
    rng = np.random.default_rng(size)
    factors, normals = np.tril(rng.normal(size=(5, size, size))) + 3 * np.eye(size), rng.normal(size=(5, size))
    chance, old = rng.random(5), factors.copy()
    vectors.adapt_factors(factors, normals, chance, 0.234, 0.9, 1)
    np.testing.assert_array_equal(factors[0], old[0])
    for r in range(1, 5):
        direction = np.outer(normals[r], normals[r]) / (normals[r] @ normals[r])
        expected = old[r] @ (np.eye(size) + 0.9 * (chance[r] - 0.234) * direction) @ old[r].T
        np.testing.assert_allclose(factors[r] @ factors[r].T, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(factors[r], np.tril(factors[r]))


def test_random_walk__learns_a_narrow_direction():
    """Standard deviations along the diagonals that are a hundred apart: so must be those of steps, at least partly."""
    narrow = ch.Density(
        lambda x: -0.5 * ((x[:, 0] + x[:, 1]) ** 2 + 1e4 * (x[:, 0] - x[:, 1]) ** 2), 2, [0.0, 0.0], ch.RandomWalk()
    )
    engine = VectorEngine(VectorProblem(narrow), [1.0], 0, Streams(2, 0), Start())
    engine.advance(3000, 0)
    factor = engine.step.learned["scale"][0]
    widths = np.sqrt(np.linalg.eigvalsh(factor @ factor.T))
    assert 15 < widths[1] / widths[0] < 400


# ---- Finite alphabets ------------------------------------------------------------------------------------------------

LETTERS = (0, 1, 3)


def table(beta: float, size: int = 2) -> tuple[Any, dict[tuple[int, ...], float]]:
    """A density over LETTERS^size, and its tempered probabilities."""
    values = np.random.default_rng(5).normal(0, 1.2, (3,) * size)
    states = list(product(LETTERS, repeat=size))
    weights = [math.exp(beta * values[tuple(map(LETTERS.index, state))]) for state in states]
    return (lambda x: values[tuple(np.searchsorted(LETTERS, x).T)]), dict(
        zip(states, np.array(weights) / sum(weights), strict=True)
    )


def informed(beta: float, wrong_beta: float | None = None) -> Any:
    values, pi = table(beta)
    density = ch.Density(values, 2, [0, 0], ch.LocallyInformed(alphabet=LETTERS))
    step = bind_update(density, [beta if wrong_beta is None else wrong_beta])

    def move(state, uniforms):
        replicas = Replicas(density, step.betas, np.array([state]))
        step(replicas, uniforms[None], np.empty((1, 0)))
        assert replicas.log_lik[0] == values(replicas.states)[0]
        fresh = step.scores(replicas.states, replicas.log_lik)
        np.testing.assert_array_equal(replicas.carried[0], fresh)
        return tuple(replicas.states[0].tolist())

    return prove(move, pi, step.n_uniforms)


@pytest.mark.symbolic
@pytest.mark.parametrize("beta", [1.0, 0.4, 0.0])
def test_locally_informed__keeps_its_target(beta):
    proof = informed(beta)
    assert proof.error <= 1e-12
    assert proof.row_error <= 1e-12
    assert proof.irreducible


@pytest.mark.symbolic
def test_locally_informed__mutants_are_rejected(monkeypatch):
    assert informed(1.0, wrong_beta=0.5).error > 1e-4
    monkeypatch.setattr(vectors, "is_accepted", lambda gain, uniform: True)
    assert informed(1.0).error > 1e-4


def ising(**options: Any) -> ch.Density:
    """A chain of six spins in a field, with its neighbourhood."""

    def energy(x):
        s = 2.0 * x - 1
        return 0.8 * (s[:, 1:] * s[:, :-1]).sum(axis=1) + 0.2 * s[:, 0]

    return ch.Density(energy, 6, np.zeros(6, int), ch.SiteGibbs(), **options)


def local(x: np.ndarray, sites: np.ndarray, values: np.ndarray) -> np.ndarray:
    s = np.pad(2.0 * x - 1, ((0, 0), (1, 1)))
    rows = np.arange(len(x))
    field = 0.8 * (s[rows, sites] + s[rows, sites + 2]) + 0.2 * (sites == 0)
    return field * 2.0 * (values - x[rows, sites])


CHAIN = [[t - 1, t + 1] for t in range(6)]
CHAIN[0], CHAIN[-1] = [1], [4]


@pytest.mark.parametrize(
    "options", [{}, {"neighbours": CHAIN}, {"neighbours": CHAIN, "local": local}], ids=["alone", "classes", "changes"]
)
def test_neighbours__and_local_changes_keep_the_law(options):
    """Every configuration's frequency against its probability; false alarms: 64 times 7e-6."""
    density = ising(**options)
    states = np.array(list(product((0, 1), repeat=6)))
    for beta in (1.0, 0.5):
        pi = np.exp(beta * density.evaluate(states)[0])
        pi /= pi.sum()
        rng = np.random.default_rng(6)
        x = states[rng.choice(64, 20000, p=pi)]
        step = bind_update(density, np.full(len(x), beta))
        replicas = Replicas(density, step.betas, x)
        for _ in range(3):
            step(replicas, rng.random((len(x), step.n_uniforms)), np.empty((len(x), 0)))
        counts = np.bincount(replicas.states @ (1 << np.arange(5, -1, -1)), minlength=64)
        z = (counts - len(x) * pi) / np.sqrt(len(x) * pi * (1 - pi))
        assert np.abs(z).max() < MAX_Z
        np.testing.assert_allclose(replicas.log_lik, density.evaluate(replicas.states)[0], atol=1e-9)


@pytest.mark.parametrize("size", [5, 6])
def test_crossovers__reach_every_pair_however_often_swaps_come_between(size):
    """Swaps come between the classes of coordinates as well, an even or an odd number of times."""
    problem = VectorProblem(ch.BlockModes(1, size, 0.5), ch.BalancedCrossover())
    engine = VectorEngine(problem, [0.2, 0.4, 0.7, 1.0], 1, Streams(1, 0), Start())
    engine.advance(20, thin=0)
    assert engine.tried.min() >= 2
    assert engine.tally.steps[0] == 20 * size


def test_neighbours__one_call_per_class_of_coordinates():
    sizes: list[int] = []
    density = ising(neighbours=CHAIN)
    energy = density._log_density

    def counted(x):
        sizes.append(len(x))
        return energy(x)

    density._log_density = counted
    step = bind_update(density, [0.5, 0.7, 1.0])
    replicas = Replicas(density, step.betas, np.zeros((3, 6), int))
    sizes.clear()
    step(replicas, np.random.default_rng(0).random((3, 6)), np.empty((3, 0)))
    assert sizes == [9, 9]


@pytest.mark.parametrize(
    "options",
    [{"neighbours": [[] for _ in range(6)]}, {"local": lambda x, sites, values: 1.1 * local(x, sites, values)}],
    ids=["forgotten neighbours", "wrong change"],
)
def test_neighbours__a_mistake_is_found(options):
    with pytest.raises(InvalidInput, match="must add up"):
        ch.sample(ising(**options), ladder=[1, 2], draws=2000, warmup=0, chains=1, seed=1, progress=False)


ERRORS: dict[str, tuple[Any, str]] = {
    "steps": (lambda: ch.Hamiltonian(steps=0), "steps must be a whole number of at least 1, got 0"),
    "step size": (lambda: ch.Hamiltonian(step_size=-1.0), "step_size must be a positive number"),
    "widest": (lambda: ch.Stretch(widest=1.0), "widest must be a number above 1"),
    "no gradient": (lambda: VectorProblem(mixture(ch.Hamiltonian(), None)), "needs the gradient"),
    "integers": (
        lambda: VectorProblem(ch.Density(log_density, 2, [0, 0], ch.Stretch())),
        "Stretch needs states of floats, got init of dtype int64",
    ),
    "gradient of the prior": (
        lambda: ch.Density(log_density, 2, np.zeros(2), gradient=gradient, log_prior=log_density),
        "prior_gradient",
    ),
    "gradient shape": (
        lambda: ch.sample(mixture(ch.Hamiltonian(), lambda x: x[:, 0]), ladder=[1], exchange=None, progress=False),
        r"gradient must map vectors of shape \(1, 2\)",
    ),
    "gradient of no number": (
        lambda: ch.sample(ch.Density(log_density, 2, np.ones(2), gradient=lambda x: x * np.nan), progress=False),
        r"gradient must be finite where a run starts, got \[nan nan\] at \[1\. 1\.\]",
    ),
    "complex": (
        lambda: ch.sample(ch.Density(lambda x: 1j * x[:, 0], 2, np.ones(2)), progress=False),
        "log_density must return real numbers, got complex128",
    ),
    "error of an update": (
        lambda: ch.sample(
            ch.Density(log_density, 2, np.ones(2), lambda x, beta, rng: float(str(x))),
            ladder=[1],
            exchange=None,
            progress=False,
        ),
        r"update fails at \[1\. 1\.\], beta = 1",
    ),
    "neighbours": (lambda: ising(neighbours=[[9]] * 6), r"neighbours must be coordinates in 0\.\.5, got 9 for 0"),
    "neighbours length": (lambda: ising(neighbours=[[1]]), "a list for each of the 6 coordinates"),
    "one vector": (
        lambda: ch.sample(ch.Density(lambda x: -float(x @ x), 2, np.zeros(2)), progress=False),
        "vectorised=False",
    ),
    "values of all vectors together": (
        lambda: ch.sample(ch.Density(lambda x: np.full(len(x), -(x**2).sum() - len(x)), 2, np.ones(2)), progress=False),
        "must give every vector its own value",
    ),
    "sum over the wrong axis": (
        lambda: ch.sample(ch.Density(lambda x: -(x**2).sum(axis=0), 1, np.ones(1)), progress=False),
        "must map vectors of shape",
    ),
    "vectorised": (lambda: ch.Density(log_density, 2, np.zeros(2), vectorised=1), "vectorised must be True or False"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input(name):
    call, message = ERRORS[name]
    # A float of a batch raises the error of NumPy, with a note that says what to do.
    with pytest.raises((InvalidInput, TypeError, ValueError)) as caught:
        call()
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert re.search(message, text), text


def test_vectorised__false_calls_functions_of_one_vector():
    one = ch.Density(lambda x: -0.5 * float(x @ x), 2, np.zeros(2), gradient=lambda x: -x, vectorised=False)
    posterior = ch.sample(one, ladder=[1, 2], draws=20, warmup=5, chains=1, seed=1, progress=False)
    assert posterior.draws.shape == (1, 20, 2)


def test_jax__derives_the_gradient():
    pytest.importorskip("jax")
    import jax.numpy as jnp

    jax_density = ch.Density.from_jax(lambda x: -0.5 * jnp.sum(x**2 * jnp.arange(1, 4)), 3, np.zeros(3))
    x = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(jax_density.evaluate(x)[0], -0.5 * (x**2 * np.arange(1, 4)).sum(axis=1))
    np.testing.assert_allclose(jax_density.slopes(x)[0], -x * np.arange(1, 4))
    assert "Hamiltonian" in repr(type(bind_update(jax_density, [1.0])))
