"""Unknown keyword arguments get an error that names the right one, also by its name in other packages."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter
from typing import ParamSpec, TypeVar

from chiasma.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")

# What users of PyMC, emcee, NumPyro, hmmlearn and scikit-learn type.
ELSEWHERE = {
    "amplitudes": "weights",
    "burn": "warmup",
    "burn_in": "warmup",
    "burnin": "warmup",
    "callback": "progress",
    "cores": "workers",
    "discard": "warmup",
    "emissions": "emission",
    "initial_distribution": "initial",
    "initial_state": "init",
    "initvals": "init",
    "likelihood": "emission",
    "means": "weights",
    "mu": "weights",
    "n_burn": "warmup",
    "n_chains": "chains",
    "n_components": "rows",
    "n_draws": "draws",
    "n_iter": "draws",
    "n_jobs": "workers",
    "n_samples": "draws",
    "n_starts": "starts",
    "n_tune": "warmup",
    "n_workers": "workers",
    "nchains": "chains",
    "nsamples": "draws",
    "nsteps": "draws",
    "nu": "df",
    "num_chains": "chains",
    "num_samples": "draws",
    "num_warmup": "warmup",
    "progress_bar": "progress",
    "progressbar": "progress",
    "random_seed": "seed",
    "random_state": "seed",
    "rng": "seed",
    "samples": "draws",
    "scale": "sd",
    "sigma": "sd",
    "startprob": "initial",
    "std": "sd",
    "thin_by": "thin",
    "transition_matrix": "transition",
    "transmat": "transition",
    "tune": "warmup",
}


class UnknownArgument(InvalidInput, TypeError):
    """A keyword argument that a function does not have; also a TypeError."""


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: an unknown keyword argument raises UnknownArgument, which names the likely one.

    >>> @hinted
    ... def sample(model, *, draws=1000, seed=None): ...
    >>> sample(None, random_seed=1)
    Traceback (most recent call last):
        ...
    chiasma.hints.UnknownArgument: sample() has no argument 'random_seed'; use seed
    """
    known = arguments_of(function)
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    by_name = kinds.count(Parameter.KEYWORD_ONLY)
    most = math.inf if Parameter.VAR_POSITIONAL in kinds or not by_name else len(kinds) - by_name

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) > most:
            names = ", ".join(f"{name}=..." for name in known[-by_name:][:2])
            raise UnknownArgument(
                f"{_called(function)}() takes these arguments by name, got them by place; use {names}"
            )
        check_names(_called(function), kwargs, known)
        return function(*args, **kwargs)

    return checked


def check_names(called: str, given: Iterable[str], known: list[str]) -> None:
    """Raise UnknownArgument for the first name that a function does not know."""
    for name in given:
        if name not in known:
            raise UnknownArgument(f"{called}() has no argument {name!r}; {_remedy(name, known)}")


def arguments_of(function: Callable[..., object]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _called(function: Callable[..., object]) -> str:
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


def _remedy(name: str, known: list[str]) -> str:
    if ELSEWHERE.get(name) in known:
        return f"use {ELSEWHERE[name]}"
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(known)}"
