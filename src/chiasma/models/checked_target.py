"""Step-wise use: what a target, a sweep, an exchange or an engine is given by hand is checked before a kernel sees it.

Kernels have no bounds checks: a code or a length out of range would read and write anywhere. `model.target` makes a
checked target; `sample` and `ch.exact` make what they pass on themselves, use `model.exact_target`, and check nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import Layout, n_bits, unpack_codes
from chiasma.models.target import Target
from chiasma.types import Integers, as_array, is_a, is_count


def check_codes(name: str, codes: Any, layout: Layout) -> None:
    """Raise InvalidInput for a code without a state of the rows."""
    most = (1 << n_bits(layout)) - 1
    in_range = codes.size == 0 or (codes.min() >= 0 and codes.max() <= most)
    every_code = not np.any(layout.sizes & (layout.sizes - 1))  # of so many bits is one
    if in_range and every_code:
        return
    bad = (codes < 0) | (codes > most)
    if in_range:
        bad = (unpack_codes(codes, layout) >= layout.sizes[:, None]).any(axis=-2)
    if bad.any():
        raise InvalidInput(f"{name} must be codes of rows with {layout.sizes.tolist()} states, got {codes[bad][0]}")


def as_codes(name: str, given: Any, layout: Layout, n_columns: int | None) -> Integers:
    """Codes of some rows as int64, (T,) or where n_columns is None of any shape; raises InvalidInput for others."""
    codes = as_array(name, given)
    if codes.dtype.kind not in "iu" or (n_columns is not None and codes.shape != (n_columns,)):
        wanted = "whole numbers" if n_columns is None else f"whole numbers of shape ({n_columns},)"
        raise InvalidInput(
            f"{name} must be {wanted}, one code per column, got {codes.dtype} of shape {codes.shape}; "
            "target.sample_prior(rng) makes some"
        )
    check_codes(name, codes, layout)
    return np.ascontiguousarray(codes, np.int64)


def check_generator(rng: Any) -> None:
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy.random.Generator, got {type(rng).__name__}; np.random.default_rng(1)")


class CheckedTarget(Target):
    """A target whose methods check what they are given."""

    checks = True

    def _own(self, codes: Any, any_shape: bool = False) -> Integers:
        return as_codes("codes", codes, self.layout, None if any_shape else self.n_columns)

    def _whole(self, codes: Any, any_shape: bool = False) -> Integers:
        return as_codes("codes", codes, self.row_layout, None if any_shape else self.n_columns)

    def expand(self, codes: Any, rng: np.random.Generator | None = None) -> Integers:
        if self.has_groups:
            check_generator(rng)
        return super().expand(self._own(codes, any_shape=not self.has_groups), rng)

    def reduce(self, codes: Any) -> Integers:
        return super().reduce(self._whole(codes, any_shape=True))

    def sample_prior(self, rng: np.random.Generator) -> Integers:
        check_generator(rng)
        return super().sample_prior(rng)

    def log_prior(self, codes: Any) -> float:
        return super().log_prior(self._own(codes))

    def log_row_prior(self, codes: Any) -> float:
        return super().log_row_prior(self._whole(codes))

    def log_likelihood(self, codes: Any) -> float:
        return super().log_likelihood(self._own(codes))

    def log_parts(self, codes: Any) -> tuple[float, float]:
        return super().log_parts(self._whole(codes))


def checked(target: Target) -> Target:
    """The same target with methods that check."""
    return CheckedTarget(**{field.name: getattr(target, field.name) for field in fields(target)})


# ---- Checks of sweeps and exchanges ----------------------------------------------------------------------------------


def is_checked(*targets: Target) -> bool:
    """Whether somebody works with a target step by step."""
    return any(target.checks for target in targets)


def check_target(target: Any) -> None:
    """Raise InvalidInput for anything but a target."""
    if not is_a(target, Target):
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
