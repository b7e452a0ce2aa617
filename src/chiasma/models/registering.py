"""Emissions of a user's own, made known by name to settings files, the command line and stored runs."""

from __future__ import annotations

import inspect
import re

from chiasma.errors import InvalidInput
from chiasma.models.additive import Additive
from chiasma.models.emissions import EMISSIONS
from chiasma.types import is_a, shown

_BUILT_IN = frozenset(EMISSIONS)


def register_emission(name: str, emission: type[Additive]) -> None:
    """Make an emission of your own known by a name, as "gaussian" is.

    Settings files, `chiasma fit --emission NAME`, its options and help, --learn, and runs that are opened again then
    find it. A command is a process of its own: write class and call in a file, and give that file to
    `chiasma --plugin FILE.py`.

    Parameters
    ----------
    name : lower-case letters, digits and hyphens. A name that was registered before is replaced.
    emission : a subclass of ch.Additive that describes every argument of its `__init__` in `arguments`.

    Examples
    --------
    >>> import chiasma as ch
    >>> from laplace import Laplace  # doctest: +SKIP
    >>> ch.register_emission("laplace", Laplace)  # doctest: +SKIP
    >>> emission = ch.Gaussian  # those of chiasma are registered already
    >>> ch.register_emission("gaussian", emission)
    Traceback (most recent call last):
    chiasma.errors.InvalidInput: 'gaussian' is an emission of chiasma; choose another name
    """
    if not is_a(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise InvalidInput(
            f"the name of an emission has lower-case letters, digits and hyphens, such as 'laplace', got {shown(name)}"
        )
    if name in _BUILT_IN:
        raise InvalidInput(f"{name!r} is an emission of chiasma; choose another name")
    if not is_a(emission, type) or not issubclass(emission, Additive):
        raise InvalidInput(f"an emission is a subclass of ch.Additive, got {shown(emission)}; pass the class itself")
    if inspect.isabstract(emission):
        missing = ", ".join(sorted(emission.__abstractmethods__))
        raise InvalidInput(f"{emission.__name__} needs the methods {missing}; write them, then register it")
    taken, described = list(inspect.signature(emission).parameters), list(emission.arguments)
    if set(taken) != set(described):
        raise InvalidInput(
            f"{emission.__name__}.arguments must describe what __init__ takes, {', '.join(taken)}, got "
            f"{', '.join(described)}; write arguments = ch.Additive.arguments | {{'scale': ch.Argument('...')}}"
        )
    EMISSIONS[name] = emission
