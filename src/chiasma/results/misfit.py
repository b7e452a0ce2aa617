"""Does the fitted model explain the data? Statistics of the residuals of posterior draws, see `residuals`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.errors import InvalidInput
from chiasma.models.additive import Additive, filled
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.expected import levels_with_spread, reachable
from chiasma.results.residuals import (
    Hum,
    LevelNoise,
    Shift,
    Waves,
    autocorrelation,
    noise_by_level,
    periodic,
    run_length,
    shift,
    slow_waves,
)
from chiasma.types import Floats

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior

Bools = npt.NDArray[np.bool_]

# Draws whose residuals are looked at.
DRAWS = 8
# A site is improbable where a value as extreme as its own has less than this probability.
IMPROBABLE = 0.001
# Residuals are held within this many standard deviations: beyond, probabilities are 0 in floating point.
FARTHEST = 8.0


@dataclass(frozen=True, kw_only=True)
class FitStatistics:
    """How far residuals deviate from the residuals of a correct model.

    n : values that were checked. improbable : share of values of probability below IMPROBABLE, which is their share
    under the model. run : mean length of their runs. worst_site : the most improbable one. above, below : share of
    values that are improbable above the highest, or below the lowest, reachable level. spread : standard deviation of
    the residuals, 1 under the model. autocorrelation : correlation of the residuals of neighbouring sites, 0 under the
    model. shift, waves, lines, level_noise : mean residual, slow waves, periodic residuals, and noise that depends on
    the level, of the channel that has most of each; None if there was nothing to look at, or no line. wave_sites :
    first and last site of the worst window. time_step, time_unit : those of the data.
    """

    n: int
    improbable: float
    run: float
    worst_site: int
    above: float
    below: float
    spread: float
    autocorrelation: float
    n_pairs: int
    shift: Shift | None = None
    waves: Waves | None = None
    wave_sites: tuple[int, int] | None = None
    lines: Hum | None = None
    level_noise: LevelNoise | None = None
    time_step: float = 1.0
    time_unit: str = "site"

    @property
    def text(self) -> str:
        """The residuals in one line."""
        parts = [f"{self.improbable:.2%} of the data are improbable (expected {IMPROBABLE:.1%})"]
        parts.append(f"residuals {self.spread:.2f} times as wide as expected")
        if not math.isnan(self.autocorrelation):
            parts.append(f"correlation of neighbours {self.autocorrelation:.2f}")
        if self.waves is not None:
            parts.append(f"slow waves {self.waves.sd:.2f} SD")
        return "; ".join(parts)


class Residuals(NamedTuple):
    """z, signal : (n, T, D) residuals, NaN where missing, and expected signals, of n draws."""

    z: Floats
    signal: Floats


def misfit(posterior: Posterior) -> FitStatistics | None:
    """The statistics; None where the model has no distribution function (a Table, a user's own density), or no data."""
    try:
        return _statistics(posterior)
    except InvalidInput:  # the emission does not say what is asked of it
        return None


def _statistics(posterior: Posterior) -> FitStatistics | None:
    found = residuals(posterior)
    if found is None or posterior.data is None:
        return None
    z = found.z
    seen = ~np.isnan(z[0])
    if not seen.any():
        return None
    far = scipy.special.ndtri(1 - IMPROBABLE / 2)
    low, high = _beyond(posterior)
    extreme = np.abs(z) > far
    starts = np.zeros(z.shape[1], bool)
    starts[posterior.data.starts] = True
    pairs = seen[1:] & seen[:-1] & ~starts[1:, None]
    return FitStatistics(
        n=int(seen.sum()),
        improbable=float(extreme[:, seen].mean()),
        run=max(run_length(extreme[..., d], pairs[:, d]) for d in range(z.shape[2])),
        worst_site=int(np.abs(np.nan_to_num(z)).mean(axis=0).max(axis=1).argmax()),
        above=float((extreme & high)[:, seen].mean()),
        below=float((extreme & low)[:, seen].mean()),
        spread=float(np.mean([one[seen].std() for one in z])),
        autocorrelation=autocorrelation(z, pairs),
        n_pairs=int(pairs.sum()),
        time_step=posterior.data.time_step,
        time_unit=posterior.data.unit or "site",
        **_of_channels(found, seen),
    )


def _of_channels(found: Residuals, seen: Bools) -> dict[str, Any]:
    """What is looked for in every channel, of the one that has most of it."""
    waves, lines, noise, shifts = [], [], [], []
    for d in range(seen.shape[1]):
        sites = np.flatnonzero(seen[:, d])
        z = found.z[:, sites, d]
        wave = slow_waves(z)
        moved = shift(z, 0.0 if wave is None else wave.response)
        shifts.append((-abs(moved.z), moved))
        if wave is not None:
            waves.append((wave.log_p, wave, (int(sites[wave.first]), int(sites[wave.last]))))
        if (line := periodic(z, sites, len(seen))) is not None:
            lines.append((line.log_p, line))
        if (level := noise_by_level(z[0], found.signal[0, sites, d])) is not None:
            noise.append((-level.z, level))
    worst = min(waves, default=None)
    return {
        "shift": min(shifts)[1],
        "waves": None if worst is None else worst[1],
        "wave_sites": None if worst is None else worst[2],
        "lines": min(lines)[1] if lines else None,
        "level_noise": min(noise)[1] if noise else None,
    }


def residuals(posterior: Posterior) -> Residuals | None:
    """Of a few draws; None where draws of the model have none."""
    if not isinstance(posterior.model, FactorialHMM) or not isinstance(posterior.model.emission, Additive):
        return None
    # Draws of some of the sites only cannot be set against the data.
    if posterior.data is None or posterior.data.n_columns != posterior.draws.sizes["site"]:
        return None
    found = [_of_draw(posterior, chain, draw) for chain, draw in _some_draws(posterior)]
    return Residuals(*(np.stack(part) for part in zip(*found, strict=True))) if found else None


def _some_draws(posterior: Posterior) -> list[tuple[int, int]]:
    """(chain, draw), spread evenly over chains and draws, the last ones first: they are warmed up best."""
    n_chains, n_draws = posterior.draws.sizes["chain"], posterior.draws.sizes["draw"]
    if n_draws == 0:
        return []
    return [(i % n_chains, n_draws - 1 - (i * n_draws) // (2 * DRAWS)) for i in range(min(DRAWS, n_chains * n_draws))]


def _of_draw(posterior: Posterior, chain: int, draw: int) -> tuple[Floats, Floats]:
    """(T, D) residuals and expected signals of one draw."""
    assert posterior.data is not None
    one = replace(posterior, draws=posterior.codes[chain : chain + 1, draw : draw + 1])
    level = levels_with_spread(one)[0, 0]
    model = posterior.model_at(chain, draw)
    y = _without_offset(model, posterior.data)
    seen = ~np.isnan(y)
    emission = model.emission
    assert isinstance(emission, Additive)
    upto, beyond = emission.tails(filled(y), level)
    # The same for every draw, so that residuals of draws differ by their states only.
    share = np.random.default_rng(0).random(y.shape)
    own = np.maximum(upto + beyond - 1.0, 0.0)  # P(Y = y) of a count, 0 of other values
    lower, upper = upto - share * own, beyond - (1 - share) * own
    # The smaller tail has all its digits; 1 minus the larger one would have none.
    z = np.where(lower < upper, scipy.special.ndtri(lower), -scipy.special.ndtri(upper))
    z = np.where(seen, np.clip(z, -FARTHEST, FARTHEST), np.nan)
    try:
        signal = emission.expected(level)
    except InvalidInput:  # a user's own density
        signal = level
    return z.reshape(len(y), -1), np.broadcast_to(signal, y.shape).reshape(len(y), -1)


def _without_offset(model: FactorialHMM, data: Observations) -> Floats:
    """The data, less the offset of a model without priors."""
    return data.y if model.offset is None else model.offset.subtracted(data).y


def _beyond(posterior: Posterior) -> tuple[Bools, Bools]:
    """(T, D) whether data lie below the lowest and above the highest reachable signal."""
    assert posterior.data is not None
    assert isinstance(posterior.fitted_model, FactorialHMM)
    y = _without_offset(posterior.fitted_model, posterior.data).reshape(posterior.data.n_columns, -1)
    ends = reachable(posterior)
    if ends is None:
        return np.zeros(y.shape, bool), np.zeros(y.shape, bool)
    with np.errstate(invalid="ignore"):
        return y < ends[0], y > ends[1]
