"""Priors in a TOML file:

    sd = {half_normal = 20}
    depth = {normal = [180, 30]}              # the arguments in order,
    depth = {normal = {mean = 180, sd = 30}}  # or by name
    weights = {dirichlet = [1, 1, 1]}
    enter = {beta = [[1, 1, 1], 99]}          # one value per row
    weights = [{normal = [0, 1]}, 2.0]        # numbers among priors stay as they are

The name of a prior is that of its class in snake case.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from chiasma.errors import InvalidInput
from chiasma.models.priors import PRIORS, Mixed, Prior, mixed


def prior_names() -> dict[str, type[Prior]]:
    """Prior classes by their names in a file."""
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind for name, kind in PRIORS.items()}


def read_prior(key: str, given: Any) -> Prior:
    """The prior of a parameter, from its table in [priors].

    >>> read_prior("depth", {"normal": [180, 30]})
    Normal(180, 30)
    """
    if isinstance(given, dict) and len(given) == 2 and "shared" in given:
        return read_prior(key, {name: value for name, value in given.items() if name != "shared"}).shared(
            given["shared"]
        )
    if not isinstance(given, dict) or len(given) != 1:
        raise InvalidInput(
            f"the prior of {key} must be a table with one name, such as {{half_normal = 20}}, got {given!r}; put a "
            "number that is not learned into [model]"
        )
    ((name, arguments),) = given.items()
    known = prior_names()
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
        raise InvalidInput(f"the prior of {key}: there is no {name!r}; {hint}")
    return known[name](**_by_name(key, name, known[name].arguments, arguments))


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


def read_numbers(key: str, given: Any) -> Any:
    """Numbers or a prior, or a list of both, as a file has them.

    >>> read_numbers("values", [0, {"normal": [150, 30]}, 2000])
    [0, Normal(150, 30), 2000]
    """
    if isinstance(given, list):
        return mixed(key, [read_numbers(key, one) for one in given])
    return read_prior(key, given) if isinstance(given, dict) else given


def write_prior(prior: Prior) -> Any:
    """The table from which `read_prior` rebuilds the prior; of numbers and priors, the list for `read_numbers`."""
    if isinstance(prior, Mixed):
        return prior.described(write_prior)
    name = next(name for name, kind in prior_names().items() if kind is type(prior))
    arguments = [getattr(prior, argument).tolist() for argument in prior.arguments]
    table = {name: arguments[0] if len(arguments) == 1 else arguments}
    return table if prior.shared_as is None else table | {"shared": prior.shared_as}
