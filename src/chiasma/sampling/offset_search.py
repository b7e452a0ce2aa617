"""Maxima of the posterior of a model whose offset is learned.

A drift can hide as a change of states, and a whole recording hides the size of a step. So the search goes from short
stretches, on which an offset is constant, to the whole signal:

1. Every start climbs on a few stretches. The baseline of each comes from a grid of exact evidences.
2. The best climb on more stretches.
3. The baseline is carried along the signal: rival baselines of every stretch, and the best path through them. Where it
   is affordable, the baseline is also one more row, a random walk on a grid, so that stretches need not be long enough
   to tell a drift from a step.
4. Everything is polished on the whole signal. An EM step for the coefficients is one smoothing pass and one banded
   solve (`models.offsets`); L-BFGS climbs in coordinates in which the coefficients are about independent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from chiasma.errors import ImpossibleData
from chiasma.exact.gradients import evidence_slopes
from chiasma.exact.inference import map_states, probabilities
from chiasma.exact.walks import can_walk, evidence_at, likeliest, places, span, with_walk
from chiasma.models.additive import Additive, filled
from chiasma.models.arguments import shallow_copy
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.offsets import BoundOffset, Periodic, Smooth, Solved
from chiasma.models.rows import SwitchRows
from chiasma.sampling.excerpts import Excerpt, stretches
from chiasma.sampling.laplace import Peak, peak_at
from chiasma.sampling.learning import Learning
from chiasma.types import Floats, Integers

# Stretches have at most this many columns, and at least this many; hum is seen over so many periods.
LONGEST, SHORTEST, PERIODS = 3000, 100, 5
# Steps of the random walk of baselines, in medians of those of the best baselines of all stretches, doubled.
WIDTHS = (0.25, 1.0, 4.0)
# Baselines on the grid of a stretch, at most; and how many of them are rivals when the baseline is carried along.
GRID, RIVALS = 48, 4
# Times that a walk of the baseline is followed at most.
TRACKED = 3
# Iterations of a climb while it walks.
WALKED = 20
# Signals of this many columns are cut into stretches in several ways.
SHORT = 20_000
# After this many EM steps rival baselines of the whole signal are compared.
EM_STEPS = 3
# So many coefficients have a curvature by differences.
FEW = 40
# What an impossible point costs: more than any possible one.
IMPOSSIBLE = 1e100


class Place(NamedTuple):
    """Where a search is: free coordinates (n_free,), and their log density with the coefficients integrated out."""

    free: Floats
    log_density: float


def stretch_length(learning: Learning) -> int:
    """Columns on which an offset is about constant: two knots of a drift."""
    offset = learning.parameters.offset
    assert offset is not None
    data = learning.data
    knots = max((term.knots for term in offset.terms if isinstance(term, Smooth | Periodic)), default=1)
    length = int(np.clip(2 * data.n_columns / knots, SHORTEST, LONGEST))
    for term in offset.terms:
        if isinstance(term, Periodic):
            assert isinstance(term.frequency, float)
            length = max(length, int(PERIODS / (term.frequency * data.time_step)))
    return length


# ---- Steps ----------------------------------------------------------------------------------------------------------


def em_step(learning: Learning, free: Floats, smoothness: bool) -> tuple[Floats, Solved, float]:
    """The coefficients, and the smoothnesses if wanted, at the top of what is expected of them; the Gaussian of the
    coefficients; and the log density that `Place` has, at the old coordinates.
    """
    parameters, offset = learning.parameters, learning.parameters.offset
    assert offset is not None
    values = parameters.from_free(free)
    named = parameters.unpack(values)
    placed = learning.model.with_unchecked_values(named)
    assert placed.offset is not None
    assert placed.offset.curve is not None
    with np.errstate(all="ignore"):
        found = evidence_slopes(placed, learning.data, 1.0, learning.memory, (), True)
    pulls = found.by_offset + found.precisions * placed.offset.curve
    solved = offset.solve(named, found.precisions, pulls)
    named |= offset.named(solved.mean)
    if smoothness and any(own.n_smoothness for own in offset.bound):
        named |= offset.smoothness_from(solved.mean, solved.covariance())
    moved = np.concatenate([np.ravel(named[slot.name]) for slot in parameters.slots])
    height = found.log_evidence + parameters.log_prior_free(values) - 0.5 * solved.log_det
    return parameters.to_free(moved), solved, height


def climb_together(learning: Learning, free: Floats, most: int, smoothness: bool = False) -> Place:
    """An EM step, then L-BFGS over all parameters but the smoothnesses."""
    parameters, offset = learning.parameters, learning.parameters.offset
    assert offset is not None
    try:
        free, solved, _ = em_step(learning, free, smoothness)
    except (ImpossibleData, np.linalg.LinAlgError):
        return Place(free, -np.inf)
    n_own = len(parameters.of_chains) + len(parameters.of_emission)
    scale = parameters.scale[:n_own] / np.sqrt(learning.data.n_columns)
    places = coefficient_places(learning)

    def at(away: Floats) -> Floats:
        moved = free.copy()
        moved[:n_own] += scale * away[:n_own]
        moved[places] += solved.spread(away[n_own:])
        return moved

    def cost(away: Floats) -> tuple[float, Floats]:
        value, slope = learning.value_and_slope(at(away), 1.0)
        if not np.isfinite(value):
            return IMPOSSIBLE, np.zeros_like(away)
        return -value, -np.concatenate([slope[:n_own] * scale, solved.spread_transposed(slope[places])])

    found = scipy.optimize.minimize(
        cost,
        np.zeros(n_own + len(places)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-3},
    )
    return Place(at(found.x), -float(found.fun) - 0.5 * solved.log_det)


def coefficient_places(learning: Learning) -> Integers:
    """(M,) where the coefficients of the offset are among the free coordinates."""
    offset = learning.parameters.offset
    assert offset is not None
    names = {own.name for own in offset.bound}
    slots = [slot for slot in learning.parameters.slots if slot.name in names]
    return np.concatenate([np.arange(slot.free.start, slot.free.stop) for slot in slots])


# ---- Baselines of stretches -----------------------------------------------------------------------------------------


def without_hum(part: Excerpt) -> Floats:
    """(T,) a first guess of everything but the baseline: least squares on every stretch, as if rows were noise."""
    offset = part.learning.parameters.offset
    assert offset is not None
    y = part.learning.data.y
    curve = np.zeros(len(y))
    hums = [own for term, own in zip(offset.terms, offset.bound, strict=True) if isinstance(term, Periodic)]
    if not hums:
        return curve
    for a, b in zip(part.bounds[:-1], part.bounds[1:], strict=True):
        seen = ~np.isnan(y[a:b])
        waves = np.concatenate([own.value[a:b] for own in hums], axis=1)
        if seen.sum() > 2 * waves.shape[1]:
            design = np.column_stack([waves, np.ones(b - a)])[seen]
            found = np.linalg.lstsq(design, y[a:b][seen], rcond=None)[0]
            curve[a:b] = waves @ found[:-1]
    return curve


def has_baseline(offset: BoundOffset) -> bool:
    return any(isinstance(term, Smooth) for term in offset.terms)


def plain(learning: Learning, free: Floats) -> FactorialHMM:
    """The model at these coordinates, without its offset."""
    placed = learning.model.with_unchecked_values(learning.parameters.unpack(learning.parameters.from_free(free)))
    placed = shallow_copy(placed)
    placed.offset = None
    return placed


def pieces_of(part: Excerpt, curve: Floats) -> list[Observations]:
    """The stretches one by one, without a curve."""
    data = part.learning.data
    data = data.with_signal(data.y - curve)
    return [data.only(slice(a, b)) for a, b in zip(part.bounds[:-1], part.bounds[1:], strict=True)]


def grid(model: FactorialHMM, piece: Observations, memory: int) -> tuple[Floats, Floats]:
    """Baselines of a stretch and their log evidences."""
    low, high, n = span(model, piece)
    at = np.linspace(low, high, min(n, GRID)) if n > 1 else np.zeros(1)
    return at, np.array([evidence_at(model, piece, b, memory) for b in at]) if n > 1 else np.zeros(1)


def with_baselines(part: Excerpt, free: Floats, hum: Floats) -> Floats:
    """Free coordinates in which the baseline of every stretch is the best of its grid."""
    learning, offset = part.learning, part.learning.parameters.offset
    assert offset is not None
    curve = hum.copy()
    if has_baseline(offset):
        model = plain(learning, free)
        for piece, a, b in zip(pieces_of(part, hum), part.bounds[:-1], part.bounds[1:], strict=True):
            at, heights = grid(model, piece, learning.memory)
            curve[a:b] += at[int(np.argmax(heights))]
    return with_curve(learning, free, curve, free)


def with_curve(learning: Learning, own: Floats, curve: Floats, smoothness: Floats) -> Floats:
    """Free coordinates with the parameters of the rows and of the emission from `own`, smoothnesses from `smoothness`,
    and the coefficients that are closest to a curve (T,).
    """
    parameters, offset = learning.parameters, learning.parameters.offset
    assert offset is not None
    named = parameters.unpack(parameters.from_free(smoothness))
    model = learning.model.with_unchecked_values(named)
    assert isinstance(model.emission, Additive)
    y = learning.data.y
    precision = np.where(np.isnan(y), 0.0, model.emission.pull(filled(y) * 0.0, np.zeros(len(y)))[1])
    solved = offset.solve(named, precision, precision * curve)
    free = smoothness.copy()
    n_own = len(parameters.of_chains) + len(parameters.of_emission)
    free[:n_own] = own[:n_own]
    free[coefficient_places(learning)] = solved.mean
    return free


# ---- From stretches to the whole ------------------------------------------------------------------------------------


def carry(part: Excerpt, free: Floats, hum: Floats) -> list[Floats]:
    """(T,) each: curves of the offset on all stretches: rival baselines of each, and the best paths through them for
    random walks of short, middle and long steps.
    """
    learning, offset = part.learning, part.learning.parameters.offset
    assert offset is not None
    model = plain(learning, free)
    rivals, heights = [], []
    for piece in pieces_of(part, hum):
        if not has_baseline(offset):
            rivals.append(np.zeros(1))
            heights.append(np.array([evidence_at(model, piece, 0.0, learning.memory)]))
            continue
        at, found = grid(model, piece, learning.memory)
        own = [refined(model, piece, at, found, i, learning.memory) for i in peaks_of(found)]
        rivals.append(np.array([b for b, _ in own]))
        heights.append(np.array([height for _, height in own]))
    first = np.array([b[int(np.argmax(h))] for b, h in zip(rivals, heights, strict=True)])
    steps = np.abs(np.diff(first))
    width = 2.0 * float(np.median(steps)) + 1e-6 * (float(np.ptp(first)) + 1.0) if len(steps) else 1.0
    curves: list[Floats] = []
    for times in WIDTHS:
        path, _ = best_path(rivals, heights, times * width)
        curve = hum + np.repeat(path, np.diff(part.bounds))
        if not any(np.array_equal(curve, other) for other in curves):
            curves.append(curve)
    return curves


def tracked(learning: Learning, place: Place, smoothness: Floats) -> Place:
    """The place, or a higher one that is found from it with the baseline as one more row that walks at random on a
    grid. With what is learned then, once more.
    """
    for _ in range(TRACKED):
        own, curves = walked(learning, place.free)
        starts = [with_curve(learning, own, curve, smoothness) for curve in curves]
        rivals = [polish(learning, settled(learning, free), 3, 10) for free in starts]
        best = max(rivals, key=lambda rival: rival.log_density, default=place)
        if best.log_density < place.log_density + 0.1:
            break
        place = best
    return place


def walked(learning: Learning, free: Floats) -> tuple[Floats, list[Floats]]:
    """Free coordinates that climbed while the baseline walked, and (T,) each: curves of the offset with the mean and
    with the most probable path of the walk with the highest evidence. No curves if the emission has no room for such a
    row, or the filter costs too much. In a long signal stretches are long enough.
    """
    offset = learning.parameters.offset
    assert offset is not None
    model = plain(learning, free)
    if not has_baseline(offset) or not can_walk(model) or learning.data.n_columns > SHORT:
        return free, []
    coefficients = free[coefficient_places(learning)]
    for term, own in zip(offset.terms, offset.slices, strict=True):
        if isinstance(term, Smooth):
            coefficients[own] = 0.0
    rest = offset.curve(coefficients)
    data = learning.data.with_signal(learning.data.y - rest)
    at = places(model, data)
    if at is None:
        return free, []
    free = climb_walking(learning, free, data, at, likeliest(model, data, at, learning.memory))
    model = plain(learning, free)
    best = with_walk(model, at, likeliest(model, data, at, learning.memory))
    try:
        mean = at @ probabilities(best, data, best.n_rows - 1, memory=learning.memory)
        path = at[map_states(best, data, memory=learning.memory)[-1]]
    except ImpossibleData:
        return free, []
    return free, [rest + mean, rest + path]


def climb_walking(learning: Learning, free: Floats, data: Observations, at: Floats, rate: float) -> Floats:
    """Free coordinates with parameters of rows and emission at which the walk has a higher evidence."""
    if isinstance(learning.model.rows, SwitchRows) or "weights" in learning.model.emission.priors:
        return free  # the walk is a row without a parameter
    own = Learning(with_walk(learning.model, at, rate), data)
    n_own = own.parameters.n_free
    scale = own.parameters.scale / np.sqrt(data.n_columns)

    def cost(away: Floats) -> tuple[float, Floats]:
        value, slope = own.value_and_slope(free[:n_own] + scale * away, 1.0)
        return (-value, -scale * slope) if np.isfinite(value) else (IMPOSSIBLE, np.zeros_like(away))

    options = {"maxiter": WALKED, "ftol": 1e-6}
    found = scipy.optimize.minimize(cost, np.zeros(n_own), jac=True, method="L-BFGS-B", options=options)
    return np.concatenate([free[:n_own] + scale * found.x, free[n_own:]])


def peaks_of(heights: Floats) -> list[int]:
    """The highest of the places that are higher than their neighbours."""
    padded = np.concatenate([[-np.inf], heights, [-np.inf]])
    tops = np.flatnonzero((heights >= padded[:-2]) & (heights >= padded[2:]))
    return tops[np.argsort(-heights[tops])][:RIVALS].tolist()


def refined(
    model: FactorialHMM, piece: Observations, at: Floats, heights: Floats, i: int, memory: int
) -> tuple[float, float]:
    """A baseline between those of the grid, by two EM steps, and its log evidence."""
    best = float(at[i]), float(heights[i])
    if len(at) == 1 or best[1] == -np.inf:
        return best
    found = shallow_copy(model)
    b = best[0]
    for _ in range(2):
        shifted = piece.with_signal(piece.y - b)
        slopes = evidence_slopes(found, shifted, 1.0, memory, (), True)
        b += float(slopes.by_offset.sum() / max(slopes.precisions.sum(), 1e-300))
    height = evidence_at(model, piece, b, memory)
    return (b, height) if height > best[1] else best


def best_path(rivals: list[Floats], heights: list[Floats], width: float) -> tuple[Floats, float]:
    """One rival per stretch: the highest sum of heights less what steps cost, a Student-t random walk; and the sum."""
    total, back = heights[0], []
    for i in range(1, len(rivals)):
        z = (rivals[i][:, None] - rivals[i - 1]) / width
        scores = total - 2.5 * np.log1p(z * z / 4)
        back.append(scores.argmax(axis=1))
        total = scores.max(axis=1) + heights[i]
    best = int(np.argmax(total))
    score = float(total[best])
    path = [float(rivals[-1][best])]
    for i in range(len(rivals) - 2, -1, -1):
        best = int(back[i][best])
        path.append(float(rivals[i][best]))
    return np.array(path[::-1]), score


def settled(learning: Learning, free: Floats) -> Place:
    """After a few EM steps."""
    height = -np.inf
    for _ in range(EM_STEPS):
        try:
            free, _, height = em_step(learning, free, True)
        except (ImpossibleData, np.linalg.LinAlgError):
            return Place(free, -np.inf)
    return Place(free, height)


def polish(learning: Learning, place: Place, rounds: int, iterations: int) -> Place:
    """EM and L-BFGS in turns on the whole signal, until a round gains little."""
    for _ in range(rounds):
        found = climb_together(learning, place.free, iterations, smoothness=True)
        gain = found.log_density - place.log_density
        place = found
        if gain < 0.1:
            break
    return place


def peak_with_offset(learning: Learning, free: Floats) -> Peak:
    """The maximum near `free`, with the width of the offset around it.

    The curvature of the coefficients is Q + B'WB, as if the paths were known, unless they are few: then it is taken
    from differences of gradients.
    """
    parameters, offset = learning.parameters, learning.parameters.offset
    assert offset is not None
    values = parameters.from_free(free)
    own = learning.given(values)
    n_own = own.parameters.n_free
    scale = own.parameters.scale
    if n_own:
        peak = peak_at(own, free[:n_own], scale, 0.1 * scale)
    else:
        peak = Peak(np.empty(0), 0.0, np.empty((0, 0)), np.empty((0, 0)), np.empty(0), True)
    free = np.concatenate([peak.free, free[n_own:]])
    free, solved, _ = em_step(learning, free, False)
    places = coefficient_places(learning)
    widths = 1 / np.sqrt(np.maximum(np.diag(peak.data + peak.prior), 1e-300))
    roots = []
    for i in range(n_own):
        step = np.zeros(len(free))
        step[i] = 0.03 * widths[i]
        ahead, behind = (learning.value_and_slope(free + sign * step, 1.0)[1] for sign in (1, -1))
        roots.append(solved.spread_transposed(((behind - ahead) / (2 * step[i]))[places]))
    cross = np.array(roots).reshape(n_own, len(places))
    log_density = learning.log_density(free, 1.0)
    log_det = solved.log_det
    if len(places) <= FEW:
        log_det = _log_det(learning, free, places, solved) or log_det
    log_width = 0.5 * (len(places) * np.log(2 * np.pi) - log_det)
    for bound in offset.bound:
        # The log of a smoothness has a variance of about two over the number of differences that it explains.
        log_width += 0.5 * bound.n_smoothness * np.log(4 * np.pi / (bound.smoothed * bound.rank + 1))
    return peak._replace(
        log_density=log_density,
        offset=parameters.from_free(free)[parameters.n_own :],
        shared=cross @ cross.T,
        log_width=log_width,
    )


def _log_det(learning: Learning, free: Floats, places: Integers, solved: Solved) -> float | None:
    """Of the curvature of the coefficients, by differences; None where it is not a maximum."""
    roots = solved.spread(np.eye(len(places)))
    whole = np.empty((len(places), len(places)))
    for i, root in enumerate(roots.T):
        sides = []
        for sign in (1, -1):
            moved = free.copy()
            moved[places] += sign * 0.1 * root
            sides.append(learning.value_and_slope(moved, 1.0)[1][places] @ roots)
        whole[i] = (sides[1] - sides[0]) / 0.2
    sign, found = np.linalg.slogdet((whole + whole.T) / 2)
    return float(found + solved.log_det) if sign > 0 else None


def tilings(learning: Learning) -> list[list[tuple[int, int]]]:
    """The signal cut into stretches; a short signal also into shorter ones, on which a drift is closer to constant."""
    length = stretch_length(learning)
    shorter = (1, 2, 4) if learning.data.n_columns <= SHORT else (1,)
    found = [stretches(learning.data, max(length // n, SHORTEST // 4)) for n in shorter]
    return [pieces for i, pieces in enumerate(found) if pieces not in found[:i]]
