"""The border of step-wise use: what a sweep, an exchange or an engine is given by hand, or from a file, is checked.

Kernels have no bounds checks: a code or a length out of range would read and write anywhere. Engines make what they
pass on themselves, and check nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import Layout
from chiasma.models.checked_target import CheckedTarget, check_codes
from chiasma.models.target import Target
from chiasma.types import is_count


def is_checked(*targets: Target) -> bool:
    """Whether somebody works with a target step by step."""
    return any(isinstance(target, CheckedTarget) for target in targets)


def check_target(target: Any) -> None:
    """Raise InvalidInput for anything but a target."""
    if not isinstance(target, Target):
        raise InvalidInput(
            f"an update or an exchange of paths needs a target, got {type(target).__name__}; model.target(data) makes "
            "one, and ch.sample(density) samples the vectors of a Density"
        )


def check_path(name: str, codes: Any, n_columns: int, layout: Layout) -> None:
    """Raise InvalidInput for anything but codes (n_columns,) of these rows that can be changed in place."""
    _check_place(name, codes, np.dtype(np.int64), n_columns, "target.sample_prior(rng) makes one")
    check_codes(name, codes, layout)


def check_two(a: Any, b: Any) -> None:
    """Raise InvalidInput for replicas that are one and the same array."""
    if np.shares_memory(a, b):
        raise InvalidInput("a and b must be two paths, got one twice; pass a copy of it")


def check_uniforms(uniforms: Any, n_uniforms: int) -> None:
    """Raise InvalidInput for anything but n_uniforms numbers in [0, 1)."""
    _check_numbers("uniforms", uniforms, n_uniforms, "rng.random(step.n_uniforms)")
    # Extremes cost a fraction of comparisons of every number, and are nan where one is.
    if n_uniforms and not (uniforms.min() >= 0 and uniforms.max() < 1):
        bad = uniforms[~((uniforms >= 0) & (uniforms < 1))]
        raise InvalidInput(f"uniforms must be in [0, 1), got {bad[0]}; rng.random() gives such numbers")


def _check_place(name: str, values: Any, dtype: np.dtype[Any], size: int, remedy: str) -> None:
    """Raise InvalidInput for anything but an array (size,) of this type that can be changed in place."""
    if not isinstance(values, np.ndarray) or values.dtype != dtype or values.shape != (size,):
        raise InvalidInput(
            f"{name} must be an array of {dtype} of shape ({size},), which is changed in place, got {_form(values)}; "
            f"{remedy}"
        )
    if not values.flags.writeable or not values.flags.c_contiguous or isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(f"{name} must be a contiguous array that can be written to; pass a copy of it")


def _check_numbers(name: str, values: Any, n: int, remedy: str) -> None:
    """Raise InvalidInput for anything but n floats."""
    is_array = isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    if not is_array or values.dtype != np.float64 or values.shape != (n,):
        raise InvalidInput(f"{name} must be {n} floats, of shape ({n},), got {_form(values)}; {remedy} has that shape")


def _form(values: Any) -> str:
    return f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__


def check_pair(first: Target, second: Target) -> None:
    """Raise InvalidInput for replicas whose paths have different forms."""
    same = first.n_columns == second.n_columns and np.array_equal(first.layout.sizes, second.layout.sizes)
    if not same:
        raise InvalidInput(
            f"an exchange needs two targets over the same columns and rows, got {first.n_columns} columns of "
            f"{first.size_text} and {second.n_columns} of {second.size_text}"
        )


def are_rows(given: Any, free: Sequence[int]) -> bool:
    """Whether something lists one or more of the free rows, each once."""
    listed = isinstance(given, Sequence) or (isinstance(given, np.ndarray) and given.ndim == 1)
    if not listed or not all(is_count(row, least=0) for row in given):
        return False
    return 0 < len(set(given)) == len(given) and set(given) <= set(free)
