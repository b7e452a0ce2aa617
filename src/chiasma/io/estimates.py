"""Numbers that settings leave out, estimated from the signal: its noise, how often it jumps, the scale of its levels.

First from the signal alone (`sampling.starts`); then, where exact filters are cheap, by the largest exact evidence
around that guess. They are starting points and defaults, not results: --learn gives a posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chiasma.errors import ChiasmaError
from chiasma.io.options import chain_parameters, flag, parameters_of
from chiasma.io.settings import Settings, write_prior
from chiasma.models.arguments import SUM_TOLERANCE
from chiasma.models.observations import Observations
from chiasma.models.priors import Beta, LogNormal
from chiasma.sampling.optimise import optimise
from chiasma.sampling.plan import exact_cost
from chiasma.sampling.starts import look_at
from chiasma.types import Floats, as_floats

# Spread of the priors around a first guess, in logarithms, and starts of the search.
SPREAD, STARTS = 1.0, 6
# An exact filter that takes longer than this is not repeated hundreds of times: the first guess has to do.
FILTER_SECONDS = 0.02


def estimated(settings: Settings, data: Observations, learn: Sequence[str]) -> tuple[Settings, dict[str, float]]:
    """Settings with numbers for what they leave out, and these numbers by key; nothing where all is given.

    learn : parameters that are to be learned: they need a number, too, to make a prior from.
    """
    guesses = _first_guesses(settings, data, learn)
    if not guesses:
        return settings, {}
    filled = settings.merged(model=guesses)
    found = guesses | _by_evidence(settings, filled, data, guesses)
    rounded = {key: float(f"{value:.4g}") for key, value in found.items()}
    return settings.merged(model=rounded), rounded


def in_words(found: dict[str, float], settings: Settings) -> str:
    """The numbers, and which other parameters have the same number because they were not given.

    >>> in_words({"sd": 0.5, "enter": 0.01}, Settings())
    'estimated from the signal: --sd 0.5, --enter 0.01 (and --leave)'
    """
    given = settings.sections["model"] | settings.sections["priors"]
    tied = {one.about.same_as: f" (and {flag(key)})" for key, one in chain_parameters().items() if key not in given}
    numbers = [f"{flag(key)} {value:g}{tied.get(key, '')}" for key, value in found.items()]
    return f"estimated from the signal: {', '.join(numbers)}"


def left_out(settings: Settings, learn: Sequence[str]) -> list[str]:
    """Keys of the numbers that are to be estimated from the signal."""
    given = settings.sections["model"] | settings.sections["priors"]
    emission = parameters_of(settings.emission_class())
    own = emission if settings.row else emission | chain_parameters()
    weights = _weights(given)
    wanted = {key for key, one in own.items() if one.about.required and key != "weights" and key not in given}
    wanted |= {key for key in learn if key in own and key not in given and key not in ("weights", "leave")}
    # A depth of 1 is meant if weights have a scale; shares of a whole have none.
    if "depth" in emission and "depth" not in given and len(weights) > 1 and abs(weights.sum() - 1) < SUM_TOLERANCE:
        wanted.add("depth")
    return [key for key in own if key in wanted]


def _weights(given: dict[str, Any]) -> Floats:
    """The weights that are given as numbers; none if they have a prior."""
    weights = given.get("weights", [])
    return np.ones(0) if isinstance(weights, dict) else np.atleast_1d(as_floats("weights", weights))


def _first_guesses(settings: Settings, data: Observations, learn: Sequence[str]) -> dict[str, float]:
    wanted = left_out(settings, learn)
    if not wanted:
        return {}
    given = settings.sections["model"] | settings.sections["priors"]
    weights = _weights(given)
    signal = look_at(data)
    total = float(np.abs(weights).sum()) or 1.0
    depth = float(given["depth"]) if isinstance(given.get("depth"), int | float) else None
    scale = max(signal.high, signal.high - signal.low, signal.noise) / total
    guesses = {
        "sd": signal.noise,
        "depth": scale,
        "depth_sd": 0.1 * (scale if depth is None else depth),
        "dispersion": 0.1,
        "df": 4.0,
        "background": max(signal.low, 0.1),
        "enter": min(max(signal.switching / max(len(weights), 1), 1e-6), 0.4),
        "initial": 0.5,
    }
    return {key: guesses[key] for key in wanted if key in guesses}


def _by_evidence(
    settings: Settings, filled: Settings, data: Observations, guesses: dict[str, float]
) -> dict[str, float]:
    """The numbers with the largest exact evidence around the guesses; nothing where that is too much work."""
    priors: dict[str, Any] = {}
    for key, guess in guesses.items():
        rare = key in chain_parameters()
        priors[key] = write_prior(Beta(1.0, max(1 / guess - 1, 1.0)) if rare else LogNormal(np.log(guess), SPREAD))
    names = {key: (parameters_of(settings.emission_class()) | chain_parameters())[key].name for key in guesses}
    try:
        seconds, _ = exact_cost(filled.model().target(data))
        if seconds > FILTER_SECONDS:
            return {}
        best = optimise(filled.merged(priors=priors).model(), data, STARTS, seed=0, progress=False).best
    except ChiasmaError:
        return {}  # priors of other parameters, or data that do not fit: the fit itself says what is wrong
    return {key: float(best.values[name]) for key, name in names.items() if name in best.values}
