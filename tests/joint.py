"""Geweke's joint test: two ways to the joint law of parameters, paths and data.

Drawn from the prior, and by a chain that alternates between an update of (theta, X) given y and a draw of y given
(theta, X). At beta < 1 the law is p(theta) p(X | theta) p(y | X, theta)^beta: data come from the normalised power of
the density, and draws from the prior count with its mass.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

import chiasma as ch
from chiasma.kernels.layout import pack_states, unpack_codes
from chiasma.models.additive import Additive
from chiasma.models.observations import Observations
from chiasma.results.ladder_stats import batch_error
from chiasma.sampling.gradient_engine import GradientEngine
from chiasma.sampling.learning import Learning
from chiasma.sampling.learning_engines import CollapsedEngine, ConditionalEngine
from chiasma.sampling.problems import LearningProblem, Start
from chiasma.sampling.streams import Streams

UPDATES = {
    "row": ch.RowGibbs(),
    "block": ch.BlockGibbs(size=2),
    "ball": ch.HammingBall(radius=1),
    "collapsed": ch.Exact(),
    "gradient": ch.Collapsed(starts=4),
}
ENGINES = {"collapsed": CollapsedEngine, "gradient": GradientEngine}
COUNTS = np.arange(120)
LOG_FACTORIALS = gammaln(COUNTS + 1)


def states_model() -> ch.FactorialHMM:
    """A row of three states with any matrix, which starts from its stationary distribution, and two equal lamps."""
    rows = [
        ch.Row(
            ch.Normal([0, 1.5, 4], 0.4), ch.Markov([ch.Dirichlet(own) for own in ([4, 1, 1], [1, 4, 1], [2, 1, 3])])
        ),
        ch.Row([0, 1], ch.Switch(ch.Beta(2, 6), 0.4), "lamp", copies=2, weight=ch.Gamma(4, 2)),
    ]
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(1)))


def model_of(kind: str, initial: float | None = 0.4, **chains) -> ch.FactorialHMM:
    if kind == "states":
        return states_model()
    emission = {
        "gaussian": lambda: ch.Gaussian(ch.Dirichlet([2, 2]), depth=ch.Normal(3, 1), sd=ch.HalfNormal(1)),
        "weights": lambda: ch.Gaussian(ch.Normal([1, 2], 0.5), depth=2.0, sd=ch.LogNormal(0, 0.3)),
        "integrated": lambda: ch.IntegratedDepth(ch.Gamma([3, 3], 3), ch.Normal(3, 0.5), 0.3, ch.HalfNormal(1)),
        "poisson": lambda: ch.Poisson(ch.Dirichlet([2, 2]), ch.Gamma(4, 1), ch.HalfNormal(0.5)),
        "student": lambda: ch.StudentT(ch.Gamma([3, 3], 3), 2.0, ch.HalfNormal(1), ch.Gamma(4, 1)),
        "negative": lambda: ch.NegativeBinomial(ch.Dirichlet([2, 2]), ch.Gamma(4, 1), ch.LogNormal(-1, 0.3), 0.2),
    }[kind]()
    chains = {"enter": ch.Beta(2, 6), "leave": ch.Beta([2, 3], 5)} | chains
    return ch.FactorialHMM(rows=ch.Switches(**chains, initial=initial), emission=emission)


def draw_data(
    model: ch.FactorialHMM, states: np.ndarray, beta: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """y (T,) from a density proportional to p(y | states)^beta, and the log of its mass."""
    emission = model.emission
    assert isinstance(emission, Additive)
    level = sum(own[path] for own, path in zip(model.rows.contributions(emission.weights), states, strict=True))
    if isinstance(emission, ch.Poisson):
        mean = (emission.depth * level + emission.background)[:, None]
        powers = beta * (COUNTS * np.log(mean) - mean - LOG_FACTORIALS)
        masses = np.logaddexp.reduce(powers, axis=1)
        below = np.exp(powers - masses[:, None]).cumsum(axis=1)
        y = (below < rng.random(len(level))[:, None] * below[:, -1:]).sum(axis=1)
        return y.astype(float), float(masses.sum())
    if isinstance(emission, ch.IntegratedDepth):
        centre, variance = emission._normal(level)
    else:
        assert isinstance(emission, ch.Gaussian)
        centre, variance = emission.depth * level, np.full(len(level), emission.sd**2)
    mass = 0.5 * np.sum((1 - beta) * np.log(2 * np.pi * variance) - np.log(beta))
    return rng.normal(centre, np.sqrt(variance / beta)), float(mass)


def features(values: np.ndarray, states: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.concatenate([values, values**2, [states.mean(), (states[:, 1:] != states[:, :-1]).mean(), y.mean()]])


def joint_scores(kind: str, update: str, beta: float, n: int, n_columns: int = 6, seed: int = 1) -> np.ndarray:
    """Differences of the means of both ways in standard errors, feature by feature."""
    model = model_of(kind)
    parameters = model.parameters
    rng = np.random.default_rng(seed)
    forward, masses = [], []
    for _ in range(2 * n):
        values = parameters.sample(rng)
        placed = model.at(parameters.unpack(values))
        states = placed.simulate(n_columns, rng)[0]
        y, mass = draw_data(placed, states, beta, rng)
        forward.append(features(values, states, y))
        masses.append(mass)
    learning = Learning(model, Observations(y))
    engine = ENGINES.get(update, ConditionalEngine)(
        LearningProblem(learning, UPDATES[update], None),
        [1.0],
        0,
        Streams(seed, 0),
        Start(pack_states(states.astype(np.int64), model.layout), parameters.unpack(values)),
    )
    engine.betas = np.array([beta])
    chain = np.empty((n, len(forward[0])))
    for i in range(n):
        engine._bind()  # the data have changed
        codes = engine.advance(1, thin=1).states[0]
        values = engine.values[0]
        states = unpack_codes(codes, model.layout)
        learning.data.y[:], _ = draw_data(model.at(parameters.unpack(values)), states, beta, rng)
        chain[i] = features(values, states, learning.data.y)
    ahead = np.array(forward)
    weights = np.exp(np.array(masses) - np.max(masses))
    weights /= weights.mean()
    mean = (weights[:, None] * ahead).mean(axis=0)
    errors = np.sqrt(((weights[:, None] * (ahead - mean)) ** 2).mean(axis=0) / len(ahead))
    return (chain.mean(axis=0) - mean) / np.hypot(errors, [batch_error(column[None]) for column in chain.T])
