"""Priors as settings: how a TOML file writes them, and those that stand around a number by default.

    sd = {half_normal = 20}
    depth = {normal = [180, 30]}              # the arguments in order,
    depth = {normal = {mean = 180, sd = 30}}  # or by name
    weights = {dirichlet = [1, 1, 1]}
    enter = {beta = [[1, 1, 1], 99]}          # one value per row

A prior has one name, that of its class in snake case.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.models.priors import PRIORS, Prior
from chiasma.types import as_floats

KINDS: dict[str, type[Prior]] = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind for name, kind in PRIORS.items()}
# Spread of the logarithm in the default priors, of scales and of the depth of counts.
SCALE_SPREAD, DEPTH_SPREAD = 0.5, 0.25
# Weights of a mixture are often written with a few digits.
SUM_TOLERANCE = 1e-6


def make_prior(key: str, given: Any) -> Prior:
    """The prior of a parameter, from what stands in its place in [priors].

    >>> make_prior("depth", {"normal": [180, 30]})
    Normal(180, 30)
    """
    if not isinstance(given, dict) or len(given) != 1:
        raise InvalidInput(
            f"the prior of {key} must be a table with one name, such as {{half_normal = 20}}, got {given!r}; a number "
            "that is not learned belongs in [model]"
        )
    ((name, arguments),) = given.items()
    if name not in KINDS:
        close = get_close_matches(name, KINDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(KINDS)}"
        raise InvalidInput(f"the prior of {key}: there is no {name!r}; {hint}")
    kind = KINDS[name]
    return kind(**_by_name(key, name, kind.arguments, arguments))


def _by_name(key: str, name: str, wanted: tuple[str, ...], given: Any) -> dict[str, Any]:
    several = f"{{{name} = [{', '.join(wanted)}]}}" if len(wanted) > 1 else f"{{{name} = {wanted[0]}}}"
    by_name = f"{{{name} = {{{', '.join(f'{argument} = ...' for argument in wanted)}}}}}"
    if isinstance(given, dict):
        if set(given) == set(wanted):
            return given
    elif len(wanted) == 1:
        return {wanted[0]: given}
    elif isinstance(given, list) and len(given) == len(wanted):
        return dict(zip(wanted, given, strict=True))
    raise InvalidInput(
        f"the prior of {key}: {name} takes {' and '.join(wanted)}, got {given!r}; write {several} or {by_name}"
    )


def prior_setting(prior: Prior) -> dict[str, Any]:
    """What `make_prior` takes to make it again."""
    name = next(name for name, kind in KINDS.items() if kind is type(prior))
    arguments = [getattr(prior, argument).tolist() for argument in prior.arguments]
    return {name: arguments[0] if len(arguments) == 1 else arguments}


def default_prior(key: str, value: Any, counts: bool = False) -> dict[str, Any]:
    """A prior around a number, as a setting. counts: the emission is one of counts, whose depth is positive.

    >>> default_prior("weights", [0.2, 0.8]), default_prior("depth", 180.0)
    ({'dirichlet': [1.0, 1.0]}, {'normal': [180.0, 45.0]})
    """
    given = as_floats(key, value)
    probability = key in ("enter", "leave", "initial")
    fits = np.isfinite(given) & (given > 0) & ((given < 1) | (not probability))
    if key == "depth" and not counts:
        fits = np.isfinite(given) & (given != 0)
    if not np.all(fits):
        bounds = "between 0 and 1" if probability else "other than 0" if key == "depth" and not counts else "above 0"
        raise InvalidInput(
            f"a default prior of {key} stands around a number {bounds}, got {given.tolist()}; give such a number, or a "
            f"prior of {key} in [priors] of the --model file"
        )
    if key == "weights":
        if given.ndim == 1 and len(given) > 1 and abs(given.sum() - 1) < SUM_TOLERANCE:
            return {"dirichlet": [1.0] * len(given)}
        return {"gamma": [2.0, (2 / given).tolist()]}
    if key == "initial":
        return {"beta": [(2 * given).tolist(), (2 * (1 - given)).tolist()]}
    if probability:
        return {"beta": [1.0, (1 / given - 1).tolist()]}
    if key == "depth" and not counts:
        return {"normal": [given.tolist(), (np.abs(given) / 4).tolist()]}
    return {"log_normal": [np.log(given).tolist(), DEPTH_SPREAD if key == "depth" else SCALE_SPREAD]}
