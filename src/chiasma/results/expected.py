"""The expected signal, in the units of the data: its posterior along the sites, and for a given state.

The level of a column is a sum of weights; the emission says what signal a level is expected to give.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import unpack_codes
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results import configurations
from chiasma.results.parameters import adds_of_draws
from chiasma.types import Floats, Integers

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior

# Draws that a band is computed from; more would make no visible difference.
BAND_DRAWS = 400
# Values that are drawn of an emission to see how far they are from their mean, to within some per cent; fewer where
# there are very many levels.
NOISE_DRAWS, FEWEST_NOISE_DRAWS = 1_000, 100
# Values (draws times sites) that are held in memory at once.
BLOCK_VALUES = 8_000_000


class Band(NamedTuple):
    """Mean, 5% and 95% of the expected signal, (T,) each."""

    mean: Floats
    low: Floats
    high: Floats


def expected_signal(posterior: Posterior, start: int = 0, stop: int | None = None, channel: int = 0) -> Band:
    """The band of sites start..stop-1, over at most BAND_DRAWS draws spread evenly over the run."""
    sizes = posterior.draws.sizes
    stop = sizes["site"] if stop is None else stop
    every = draws_apart(posterior)
    n_draws = sizes["chain"] * -(-sizes["draw"] // every)
    width = max(1, BLOCK_VALUES // n_draws)
    parts = [_band(posterior, every, first, min(first + width, stop), channel) for first in range(start, stop, width)]
    return Band(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _band(posterior: Posterior, every: int, start: int, stop: int, channel: int) -> Band:
    drawn = replace(posterior, draws=posterior.codes[:, ::every, start:stop])
    levels = levels_with_spread(drawn)
    learned = bool(posterior.parameters.sizes)
    emission = None if learned else _emission(posterior, 0, 0)
    signal = np.concatenate(
        [
            (emission or _emission(posterior, chain, every * i))
            .expected(level)
            .reshape(1, stop - start, -1)[..., channel]
            for chain, several in enumerate(levels)
            for i, level in enumerate(several)
        ]
    )
    # Quantiles without interpolation: a level that was drawn, not a value between two of them.
    low, high = np.quantile(signal, [0.05, 0.95], axis=0, method="inverted_cdf")
    return Band(signal.mean(axis=0), low, high)


def levels_with_spread(posterior: Posterior) -> Floats:
    """(C, n, T) or (C, n, T, D) levels of all draws as the emission takes them: with the variances that states add."""
    model = posterior.model
    if not isinstance(model, FactorialHMM) or not model.rows.spreads:
        return np.asarray(posterior.levels().values)
    codes, layout = posterior.codes, posterior.layout
    if not model.parameters:
        assert isinstance(model.emission, Additive)
        found = configurations.levels_of_rows(codes, layout, model.rows.contributions(model.emission.weights))
    else:
        own = posterior.parameters.sel(chain=codes["chain"], draw=codes["draw"])
        found = configurations.levels_of_draws(codes, layout, adds_of_draws(model, own))
    return np.asarray(found.values)


def _emission(posterior: Posterior, chain: int, draw: int) -> Additive:
    emission = posterior.model_at(chain, draw).emission
    assert isinstance(emission, Additive)
    return emission


def mean_offset(posterior: Posterior) -> Floats | None:
    """(T,) or (T, D) the posterior mean of what is added to the signal beside the rows; None without an offset."""
    if not isinstance(posterior.model, FactorialHMM) or posterior.model.offset is None:
        return None
    return np.asarray(posterior.offset()["mean"].values)


def less_offset(posterior: Posterior, data: Observations) -> Observations:
    """The data without the posterior mean of the offset: what levels are compared with."""
    offset = mean_offset(posterior)
    return data if offset is None or offset.shape != data.y.shape else data.with_signal(data.y - offset)


def has_levels(posterior: Posterior) -> bool:
    """Whether the model says what signal to expect."""
    return _reference(posterior) is not None and _expected(posterior, np.zeros(1, np.int64)) is not None


def signal_of_codes(posterior: Posterior, codes: npt.ArrayLike) -> Floats | None:
    """(n, D) the expected signal of n column codes, at the posterior mean of learned parameters.

    None where the model has no levels. D is 1 where the data have one channel.
    """
    return _expected(posterior, np.asarray(codes, np.int64))


def signal_at_draw(posterior: Posterior, codes: Integers, chain: int, draw: int) -> Floats:
    """(n,) the expected signal of n column codes at the parameters of one draw; of channels, the first."""
    model = posterior.model_at(chain, draw)
    found = _signal(model, _level_of_codes(model, codes, posterior))
    assert found is not None  # as the same model at the posterior mean
    return found[:, 0]


def draws_apart(posterior: Posterior) -> int:
    """Every how many draws of a chain suffice for a mean: those are at most BAND_DRAWS."""
    sizes = posterior.draws.sizes
    return -(-sizes["chain"] * sizes["draw"] // BAND_DRAWS)


def noise_of_codes(posterior: Posterior, codes: npt.ArrayLike) -> Floats | None:
    """(n, D) how far a value is from the expected signal of n column codes, as a standard deviation, at the posterior
    mean of learned parameters; None where the model has no levels, or cannot simulate.

    It is made of the mean distance, which heavy tails have too, and is the standard deviation of normal noise.
    """
    given = np.asarray(codes, np.int64)
    model, level = _reference(posterior), _levels(posterior, given)
    if model is None or level is None:
        return None
    emission = model.emission
    assert isinstance(emission, Additive)
    n = max(FEWEST_NOISE_DRAWS, min(NOISE_DRAWS, BLOCK_VALUES // max(level.size, 1)))
    try:
        mean = emission.expected(level)
        y = emission.sample(np.concatenate([level] * n), np.random.default_rng(0)).reshape(n, *mean.shape)
        distance = np.abs(y - mean).mean(axis=0)
    except (InvalidInput, NotImplementedError):  # a user's own density
        return None
    return np.asarray(math.sqrt(math.pi / 2) * distance).reshape(len(given), -1)


def signal_of_rows(posterior: Posterior) -> list[Floats] | None:
    """For every row, (S_k,) what its states add to the expected signal; None without levels, or with channels."""
    model = _reference(posterior)
    if model is None:
        return None
    emission = model.emission
    assert isinstance(emission, Additive)
    if emission.n_channels is not None and not emission.spreads:
        return None
    try:
        return [np.asarray(emission.expected(adds) - emission.expected(0 * adds)) for adds in _contributions(model)]
    except InvalidInput:  # a user's own density
        return None


def reachable(posterior: Posterior) -> tuple[Floats, Floats] | None:
    """(D,) the lowest and the highest signal that any state is expected to give; None without levels."""
    model = _reference(posterior)
    if model is None:
        return None
    emission = model.emission
    assert isinstance(emission, Additive)
    ends = []
    for best in (np.min, np.max):
        level = np.zeros(() if emission.n_channels is None else emission.n_channels)
        for k, adds in enumerate(_contributions(model)):
            level = level + (adds[model.fixed[k]] if k in model.fixed else best(adds, axis=0))
        ends.append(level)
    try:
        signals = [np.atleast_1d(emission.expected(level)) for level in ends]
    except InvalidInput:
        return None
    return np.minimum(*signals), np.maximum(*signals)


def _levels(posterior: Posterior, codes: Integers) -> Floats | None:
    """(n,) or (n, D) levels of column codes, at the posterior mean of learned parameters."""
    model = _reference(posterior)
    return None if model is None else _level_of_codes(model, codes, posterior)


def _level_of_codes(model: FactorialHMM, codes: Integers, posterior: Posterior) -> Floats:
    """(n,) or (n, D) levels of column codes of a model without priors."""
    emission = model.emission
    assert isinstance(emission, Additive)
    states = unpack_codes(codes, posterior.layout)
    level = np.zeros((len(codes),) if emission.n_channels is None else (len(codes), emission.n_channels))
    for adds, own in zip(_contributions(model), states, strict=True):
        level += adds[own]
    return level


def _expected(posterior: Posterior, codes: Integers) -> Floats | None:
    model, level = _reference(posterior), _levels(posterior, codes)
    return None if model is None or level is None else _signal(model, level)


def _signal(model: FactorialHMM, level: Floats) -> Floats | None:
    emission = model.emission
    assert isinstance(emission, Additive)
    try:
        return np.asarray(emission.expected(level)).reshape(len(level), -1)
    except InvalidInput:  # a user's own density
        return None


def _contributions(model: FactorialHMM) -> list[Floats]:
    """(S_k,) or (S_k, D) what each state of every row adds to the level."""
    emission = model.emission
    assert isinstance(emission, Additive)
    return model.rows.contributions(emission.weights)


def _reference(posterior: Posterior) -> FactorialHMM | None:
    model = posterior.fitted_model
    return model if isinstance(model, FactorialHMM) and isinstance(model.emission, Additive) else None
