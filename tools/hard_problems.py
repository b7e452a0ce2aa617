"""Problems past row Gibbs, with a posterior that is known: from the exact filter, or from parts that have one.

Weights are random unless a line says otherwise. Parts are seen in separate channels, so that the posterior is a
product over them; the sampler is not told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import chiasma as ch


class Hard(NamedTuple):
    """A model, its data and the exact probabilities, one array (S_k, T) per row."""

    model: ch.FactorialHMM
    data: ch.Observations
    exact: list[np.ndarray]


def random_weights(n_rows: int, n_columns: int, sd: float, switch: float, seed: int, starts: int = 1) -> Hard:
    """Weights between 0.2 and 1; `starts` sequences of equal length."""
    weights = np.random.default_rng(seed).uniform(0.2, 1.0, n_rows)
    model = ch.FactorialHMM(rows=ch.Switches(switch, switch), emission=ch.Gaussian(weights, sd=sd))
    first = np.arange(starts) * (n_columns // starts)
    _, y = model.simulate(n_columns, seed=seed, starts=first)
    return known(model, ch.Observations(y, starts=first))


def known(model: ch.FactorialHMM, data: ch.Observations) -> Hard:
    return Hard(model, data, ch.exact.all_probabilities(model, data))


def lattice(n_columns: int, seed: int = 1) -> Hard:
    """Long segments, eight rows of about 3 and six of about 4: rival explanations need seven rows changed at once."""
    rng = np.random.default_rng(seed)
    weights = np.repeat([3.0, 4.0], [8, 6]) * (1 + rng.uniform(-0.01, 0.01, 14))
    model = ch.FactorialHMM(rows=ch.Switches(0.005, 0.005), emission=ch.Gaussian(weights, sd=0.35))
    return known(model, ch.Observations(model.simulate(n_columns, seed=seed)[1]))


def in_channels(parts: list[np.ndarray], n_columns: int, depth: float, sd: float, switch: float) -> Hard:
    """Every part (its weights) in a separate channel."""
    weights = np.zeros((sum(map(len, parts)), len(parts)))
    first = 0
    for channel, own in enumerate(parts):
        weights[first : first + len(own), channel] = own
        first += len(own)
    chains = ch.Switches(switch, switch)
    model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(weights, depth=depth, sd=sd))
    _, y = model.simulate(n_columns, seed=1)
    exact = []
    for own, channel in zip(parts, y.T, strict=True):
        part = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(own, depth=depth, sd=sd))
        exact += ch.exact.all_probabilities(part, channel)
    return Hard(model, ch.Observations(y), exact)


def random_parts(n_parts: int, n_rows: int, n_columns: int) -> Hard:
    rng = np.random.default_rng(n_parts)
    return in_channels([rng.uniform(0.2, 1.0, n_rows) for _ in range(n_parts)], n_columns, 1.0, 0.25, 0.02)


def states(sizes: list[int], n_columns: int, sd: float, seed: int) -> Hard:
    """Rows of any number of states: appliances that are off, or take some power between 0.3 and 2."""
    rng = np.random.default_rng(seed)
    rows = [ch.Row([0.0, *np.sort(rng.uniform(0.3, 2.0, size - 1))], ch.Sticky(renew=0.05)) for size in sizes]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=sd))
    return known(model, ch.Observations(model.simulate(n_columns, seed=seed)[1]))


# ---- Rival explanations that are far apart: all rows flip at once, or none, in every sequence by itself --------------


def around_a_ring(n_rows: int) -> np.ndarray:
    """(K, D): every row less its neighbour."""
    return np.eye(n_rows) - np.roll(np.eye(n_rows), 1, axis=0)


def on_a_grid(height: int, width: int) -> np.ndarray:
    """(K, D): every row less its neighbours to the right and below."""
    place = np.arange(height * width).reshape(height, width)
    pairs = [
        *zip(place[:, :-1].flat, place[:, 1:].flat, strict=True),
        *zip(place[:-1].flat, place[1:].flat, strict=True),
    ]
    return np.array([np.eye(place.size)[a] - np.eye(place.size)[b] for a, b in pairs]).T


def sums_of_three(n_rows: int, seed: int) -> np.ndarray:
    """(K, D): two neighbours and a third row with random weights and signs, as many sums as rows."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((n_rows, n_rows))
    for d in range(n_rows):
        near = [d, (d + 1) % n_rows]
        rows = [*near, rng.choice(np.delete(np.arange(n_rows), near))]
        weights[rows, d] = rng.uniform(0.5, 1.5, 3) * rng.choice([-1, 1], 3)
    return weights


def sequences_of_five(n_columns: int) -> np.ndarray:
    return np.arange(0, n_columns, 5)


FAR_CHAINS = ch.Switches(0.02, 0.025)


def sizes_only(weights: np.ndarray, n_columns: int, sd: float, seed: int) -> tuple[ch.FactorialHMM, ch.Observations]:
    """Sensors that read the size of a sum and not its sign; rows count as -1/2 and 1/2: flipping all changes nothing.

    In differences, that is the same as 0 and 1.
    """
    centre = weights.sum(axis=0) / 2

    def sizes(y: np.ndarray, level: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum((y - np.abs(level - centre)) ** 2, axis=-1) / sd**2

    starts = sequences_of_five(n_columns)
    noiseless = ch.FactorialHMM(rows=FAR_CHAINS, emission=ch.Gaussian(weights, sd=sd))
    states, _ = noiseless.simulate(n_columns, seed=seed, starts=starts)
    rng = np.random.default_rng(seed)
    y = np.abs(states.T @ weights - centre) + rng.normal(0, sd, (n_columns, weights.shape[1]))
    model = ch.FactorialHMM(rows=FAR_CHAINS, emission=ch.Custom(sizes, weights))
    return model, ch.Observations(y, starts=starts)


def going_together(n_rows: int, n_columns: int, sd: float, seed: int) -> Hard:
    """Rows that are on and off together, seen through differences around a ring, with their signs: Gaussian noise."""
    model = ch.FactorialHMM(rows=FAR_CHAINS, emission=ch.Gaussian(around_a_ring(n_rows), sd=sd))
    y = np.random.default_rng(seed).normal(0, sd, (n_columns, n_rows))
    return known(model, ch.Observations(y, starts=sequences_of_five(n_columns)))


# ---- The same, with other rows in every sequence: no difference between explanations serves another sequence ---------


def along_a_line(n_rows: int) -> np.ndarray:
    """(K, K - 1): every row less the one before."""
    return around_a_ring(n_rows)[:, 1:]


def down_a_tree(n_rows: int) -> np.ndarray:
    """(K, K - 1): every row but the root less its parent in a binary tree."""
    weights = np.eye(n_rows)[:, 1:]
    weights[(np.arange(1, n_rows) - 1) // 2, np.arange(n_rows - 1)] = -1
    return weights


def wired_anew(
    wiring: Callable[[int], np.ndarray], n_rows: int, n_columns: int, length: int, sd: float, seed: int
) -> Hard:
    """Sequences of `length` columns, each with its own sensors.

    Most rows, from five less than all to three less, are on together or off together: sensors read their differences
    along a wiring, the rows in random order. Every other row has its own sensor. With many short sequences there
    are about as many sets of rows as sequences, each unlike the others.
    """
    rng = np.random.default_rng(seed)
    codes = np.arange(1 << n_rows)
    states = np.asarray(codes[:, None] >> np.arange(n_rows) & 1, float)
    log_lik = np.empty((n_columns, len(codes)))
    starts = np.arange(0, n_columns, length)
    initial = FAR_CHAINS.enter / (FAR_CHAINS.enter + FAR_CHAINS.leave)
    for start in starts:
        order = rng.permutation(n_rows)
        truth = np.asarray(rng.random(n_rows) < initial, float)
        together = order[: rng.integers(n_rows - 5, n_rows - 2)]
        truth[together] = truth[together[0]]
        weights = np.eye(n_rows)[:, order[len(together) :]]
        edges = np.zeros((n_rows, wiring(len(together)).shape[1]))
        edges[together] = wiring(len(together))
        weights = np.concatenate([edges, weights], axis=1)
        for t in range(start, min(start + length, n_columns)):
            y = truth @ weights + rng.normal(0, sd, weights.shape[1])
            log_lik[t] = -0.5 * np.sum((y - states @ weights) ** 2, axis=1) / sd**2
    model = ch.FactorialHMM(rows=FAR_CHAINS, emission=ch.Table(log_lik))
    return known(model, ch.Observations(np.arange(n_columns), starts=starts))


SIX: dict[str, Callable[[], Hard]] = {
    "K = 8, T = 2,000": lambda: random_weights(8, 2000, 0.3, 0.02, 1),
    "K = 10, T = 1,000": lambda: random_weights(10, 1000, 0.2, 0.02, 2),
    "K = 12, T = 1,000": lambda: random_weights(12, 1000, 0.4, 0.05, 3),
    "K = 12, T = 300": lambda: random_weights(12, 300, 0.4, 0.05, 4),
    "K = 14, T = 600, sharp and sticky": lambda: random_weights(14, 600, 0.1, 0.01, 5),
    "K = 16, T = 500": lambda: random_weights(16, 500, 0.5, 0.05, 6),
}
MORE: dict[str, Callable[[], Hard]] = {
    "K = 14, T = 600, seven rows at once": lambda: lattice(600),
    "K = 12, T = 1,000, ten sequences": lambda: random_weights(12, 1000, 0.3, 0.03, 7, starts=10),
    "K = 24, T = 2,000, 8 groups of 3": lambda: in_channels([np.array([0.21, 0.31, 0.48])] * 8, 2000, 15.0, 1.0, 0.01),
    "K = 40, T = 500, 5 parts of 8": lambda: random_parts(5, 8, 500),
    "K = 60, T = 500, 10 parts of 6": lambda: random_parts(10, 6, 500),
}
STATES: dict[str, Callable[[], Hard]] = {
    "7 rows of 3 states, T = 300": lambda: states([3] * 7, 300, 0.3, 1),
    "12 appliances of 2 to 4 states, T = 200": lambda: states([2] * 6 + [3] * 3 + [4] * 3, 200, 0.3, 2),
}
FAR: dict[str, Callable[[], Hard]] = {
    "K = 12, T = 60, sizes of differences in a ring": lambda: known(*sizes_only(around_a_ring(12), 60, 0.5, 1)),
    "K = 12, T = 60, sizes of differences on a grid": lambda: known(*sizes_only(on_a_grid(3, 4), 60, 0.6, 2)),
    "K = 14, T = 60, sizes of sums of three": lambda: known(*sizes_only(sums_of_three(14, 1), 60, 0.5, 1)),
    "K = 12, T = 60, rows that go together": lambda: going_together(12, 60, 0.5, 1),
}
ANEW: dict[str, Callable[[], Hard]] = {
    "K = 13, T = 1,000, differences along lines": lambda: wired_anew(along_a_line, 13, 1000, 2, 0.28, 1),
    "K = 13, T = 1,000, differences around rings": lambda: wired_anew(around_a_ring, 13, 1000, 2, 0.33, 1),
    "K = 13, T = 1,000, differences down trees": lambda: wired_anew(down_a_tree, 13, 1000, 2, 0.28, 1),
}
