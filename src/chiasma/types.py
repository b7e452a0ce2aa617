"""Array types for annotations, and the conversion of a user's numbers to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.limits import MOST_COUNT

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Seed = int | np.random.Generator | np.random.SeedSequence | None


def as_floats(name: str, values: Any) -> Floats:
    """A float array, or an error that names the argument. Masked entries become NaN."""
    try:
        if isinstance(values, list | tuple) and any(isinstance(one, np.ma.MaskedArray) for one in values):
            values = np.ma.array(values)
        given = values if isinstance(values, np.ndarray) else np.asarray(values)
        if given.dtype.kind in "cmMV":  # complex numbers, times and records, which NumPy would convert
            raise TypeError(f"an array of {given.dtype}")
        if isinstance(given, np.ma.MaskedArray):
            given = np.ma.filled(given.astype(np.float64), np.nan)
        return np.array(given, dtype=np.float64)
    except Exception as error:  # values may be anything, and so may what their conversion raises
        what = f"an array of {given.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
        raise InvalidInput(f"{name} must be numbers, got {what}; pass a float or an array of floats") from error


def is_count(value: Any, least: int = 1, most: int = MOST_COUNT) -> bool:
    """Whether a value is a whole number from `least` to `most`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    return is_whole and least <= int(value) <= most


def is_a(value: Any, *kinds: type) -> bool:
    """isinstance, for values whose annotations promise it and whose givers may not keep it."""
    return isinstance(value, kinds)


def as_count(name: str, value: Any, least: int = 1, most: int = MOST_COUNT) -> int:
    """A whole number, or an error that names the argument."""
    if not is_count(value, least, most):
        bounds = f"of at least {least}" if most == MOST_COUNT else f"in {least}..{most:,}"
        raise InvalidInput(f"{name} must be a whole number {bounds}, got {shown(value)}")
    return int(value)


def as_random(seed: Any) -> np.random.Generator:
    """A generator from a seed, or from itself."""
    try:
        if isinstance(seed, bool):
            raise TypeError("a truth value")
        return np.random.default_rng(seed)
    except Exception as error:
        raise InvalidInput(
            f"seed must be a whole number of at least 0, a NumPy Generator or SeedSequence, or None, got {shown(seed)}"
        ) from error


def count(n: int, noun: str) -> str:
    """
    >>> count(1, "chain"), count(2_000, "draw")
    ('1 chain', '2,000 draws')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def shown(value: Any) -> str:
    """Any value in a message, abridged."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """An array of any type without masked entries, or an error that names the argument."""
    try:
        given = np.asanyarray(values)
    except Exception as error:  # values may be anything, and so may what their conversion raises
        raise InvalidInput(f"{name} must be an array, got {type(values).__name__}; pass numbers") from error
    if np.ma.is_masked(given):
        raise InvalidInput(f"{name} must have a value everywhere, got masked ones; fill them in")
    return np.asarray(given)
