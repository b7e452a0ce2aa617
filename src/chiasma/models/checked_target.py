"""Targets for step-wise use: what a method is given by hand is checked before a kernel sees it.

Kernels have no bounds checks: a code or a length out of range would read anywhere. `model.target` makes a checked
target; `sample` and `ch.exact` make what they pass on themselves, use `model.exact_target`, and check nothing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import Layout, n_bits, unpack_codes
from chiasma.models.target import Target
from chiasma.types import Integers, as_array


def check_codes(name: str, codes: Any, layout: Layout) -> None:
    """Raise InvalidInput for a code that stands for no state of the rows."""
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
