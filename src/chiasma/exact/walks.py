"""A baseline that is one more row: it walks at random on a grid.

    y_t = expected(level_t) + b_t + noise,    b_t on n places, to a neighbour at a rate r / 2 each per column

The states of the model and the places of the baseline are the joint states of one factorial model, so the evidence, the
probabilities and the most probable path of the baseline are exact. A spline that was learned is one of many curves; the
walk says whether another one explains the signal as well, with other states.
"""

from __future__ import annotations

import numpy as np

from chiasma.errors import ImpossibleData
from chiasma.exact.inference import probabilities
from chiasma.exact.passes import MEMORY, Passes
from chiasma.models.additive import Additive
from chiasma.models.arguments import shallow_copy
from chiasma.models.chains import Markov, Switch
from chiasma.models.emissions import Gaussian, StudentT
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.rows import Row, SwitchRows
from chiasma.types import Floats

# Distance of places on a grid, in noise SDs.
FINE = 0.7
# A walk moves at one of these rates per column, that with the highest evidence.
RATES = (0.001, 0.01, 0.1, 0.5, 2.0)
# Upper bounds for the places of a grid, the operations of a filter, and distinct gaps, each of which needs a matrix.
MOST_PLACES, MOST_OPERATIONS, MOST_GAPS = 128, 1e9, 20
# A long signal is checked on STRETCHES stretches, which together cost about OPERATIONS in one filter.
STRETCHES, OPERATIONS = 4, 1e8


def span(model: FactorialHMM, data: Observations) -> tuple[float, float, int]:
    """The lowest and the highest baseline, and how many places a grid between them needs."""
    assert isinstance(model.emission, Additive)
    seen = data.y[~np.isnan(data.y)]
    if not len(seen):
        return 0.0, 0.0, 1
    levels = model.exact_target(data).likelihood.levels  # type: ignore[attr-defined]
    expected = model.emission.expected(levels)
    low, high = np.quantile(seen, 0.02) - expected.max(), np.quantile(seen, 0.98) - expected.min()
    precision = np.median(model.emission.pull(seen, np.full(len(seen), float(levels.flat[0])))[1])
    return float(low), float(high), int(max(np.ceil((high - low) * np.sqrt(precision) / FINE), 2))


def evidence_at(model: FactorialHMM, data: Observations, baseline: float, memory: int = MEMORY) -> float:
    """Log evidence under a constant baseline."""
    try:
        with np.errstate(all="ignore"):
            target = model.exact_target(data.with_signal(data.y - baseline))
            found = Passes(target, 1.0, memory=memory, keep=False).log_evidence
    except ImpossibleData:
        return -np.inf
    return -np.inf if np.isnan(found) else found


def can_walk(model: FactorialHMM) -> bool:
    """Whether a baseline may be one more row: the noise must not depend on it."""
    return isinstance(model.emission, Gaussian | StudentT) and bool(model.emission.depth)


def places(model: FactorialHMM, data: Observations, most: float = MOST_OPERATIONS) -> Floats | None:
    """(n,) the grid of a walk; None if a filter has more than `most` operations."""
    low, high, n = span(model, data)
    too_long = n > MOST_PLACES or _operations(model, data, n) * data.n_columns > most
    return None if n < 2 or too_long or len(data.edge_kinds()[1]) > MOST_GAPS else np.linspace(low, high, n)


def _operations(model: FactorialHMM, data: Observations, n: int) -> float:
    """Of a filter, per column."""
    target = model.exact_target(data)
    return n * (target.tensor_operations + float(n) * target.n_states)


def with_walk(model: FactorialHMM, at: Floats, rate: float) -> FactorialHMM:
    """The model, without an offset, with one more row, the last: a baseline that walks between the places `at`."""
    rows, emission = model.rows, shallow_copy(model.emission)
    assert isinstance(emission, Gaussian | StudentT)
    own = list(rows.given)
    if isinstance(rows, SwitchRows):
        chains, n = rows.chains, rows.n_rows
        enter, leave = (np.broadcast_to(given, n) for given in (chains.enter, chains.leave))
        first = [None] * n if chains.initial is None else np.broadcast_to(chains.initial, n)
        switches = [Switch(*numbers) for numbers in zip(enter, leave, first, strict=True)]
        own = [Row([0, 1], switch, fixed=rows.fixed.get(k)) for k, switch in enumerate(switches)]
    if not emission.default_weights:
        emission.weights, emission.n_rows = np.append(emission.weights, 1.0), emission.n_rows + 1
    emission.spreads, emission.n_channels = False, None  # the rows say whether they add noise
    moves = rate / 2 * (np.eye(len(at), k=1) + np.eye(len(at), k=-1))
    chain = Markov(rates=moves - np.diag(moves.sum(axis=1)), initial=np.full(len(at), 1 / len(at)))
    return FactorialHMM(rows=[*own, Row(at / float(emission.depth), chain)], emission=emission)


def likeliest(model: FactorialHMM, data: Observations, at: Floats, memory: int = MEMORY) -> float:
    """The rate of the walk with the highest evidence."""
    return max(RATES, key=lambda rate: evidence_at(with_walk(model, at, rate), data, 0.0, memory))


def baseline_doubt(model: FactorialHMM, data: Observations, curve: Floats) -> float | None:
    """The mean probability that the baseline is not at `curve` (T,) but further from it than half of the smallest step
    of a row; None if it cannot be computed. `model` has neither priors nor an offset.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([1.0], sd=0.2))
    >>> data = Observations(model.simulate(500, seed=1)[1])
    >>> baseline_doubt(model, data, np.zeros(500)) < 0.001, baseline_doubt(model, data, np.ones(500)) > 0.9
    (True, True)
    """
    if not can_walk(model) or data.y.ndim > 1:
        return None
    n = span(model, data)[2]
    n_columns = max(int(OPERATIONS / _operations(model, data, n)), 1)
    cuts = [(0, data.n_columns)]
    if n_columns < data.n_columns:
        length = max(n_columns // STRETCHES, 1)
        firsts = np.linspace(0, data.n_columns - length, STRETCHES).astype(int).tolist()
        cuts = [(a, a + length) for a in firsts]
    found = [_doubt(model, _stretch(data, a, b), curve[a:b]) for a, b in cuts]
    known = [doubt for doubt in found if doubt is not None]
    return float(np.mean(known)) if known else None


def _doubt(model: FactorialHMM, data: Observations, curve: Floats) -> float | None:
    at = places(model, data)
    if at is None:
        return None
    walk = with_walk(model, at, likeliest(model, data, at))
    try:
        shares = probabilities(walk, data, walk.n_rows - 1)
    except ImpossibleData:
        return None
    # Nearer than two places of the grid, the walk cannot tell baselines apart.
    least = max(_least_step(model) / 2, 2 * (at[1] - at[0]))
    return float((shares * (np.abs(at[:, None] - curve) > least)).sum(axis=0).mean())


def _least_step(model: FactorialHMM) -> float:
    """The smallest change of the expected signal when one row changes its state; infinite if there is none."""
    emission = model.emission
    assert isinstance(emission, Gaussian | StudentT)
    own = [adds for k, adds in enumerate(model.rows.contributions(emission.weights)) if k not in model.fixed]
    steps = [np.diff(np.unique(adds if adds.ndim == 1 else adds[:, 0])) for adds in own]
    return float(abs(float(emission.depth)) * np.concatenate(steps).min(initial=np.inf))


def _stretch(data: Observations, a: int, b: int) -> Observations:
    """Columns a..b-1 with the starts among them."""
    starts = data.starts[(data.starts > a) & (data.starts < b)] - a
    gaps = None if data.gaps is None else data.gaps[a : b - 1]
    known = {row: states[a:b] for row, states in data.known.items()}
    return Observations(data.y[a:b], starts, gaps, data.step, data.unit, known)
