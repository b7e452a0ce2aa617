"""The border of step-wise use: what a sweep, an exchange or an engine is given by hand, or from a file, is checked.

Kernels have no bounds checks: a code or a length out of range would read and write anywhere. Engines make what they
pass on themselves, and check nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels import ensemble
from chiasma.kernels.layout import Layout
from chiasma.models.borders import CheckedStateTarget, CheckedTarget, check_codes, layout_of
from chiasma.models.state_target import AnyTarget
from chiasma.types import is_count


def is_checked(*targets: AnyTarget) -> bool:
    """Whether somebody works with a target step by step."""
    return any(isinstance(target, CheckedTarget | CheckedStateTarget) for target in targets)


def check_path(name: str, codes: Any, target: AnyTarget) -> None:
    """Raise InvalidInput for anything but codes (T,) that can be changed in place."""
    if not isinstance(codes, np.ndarray) or codes.dtype != np.int64 or codes.shape != (target.n_columns,):
        shown = f"{codes.dtype} of shape {codes.shape}" if isinstance(codes, np.ndarray) else type(codes).__name__
        raise InvalidInput(
            f"{name} must be an array of int64 of shape ({target.n_columns},), which is changed in place, got {shown}; "
            "target.sample_prior(rng) makes one"
        )
    if not codes.flags.writeable or not codes.flags.c_contiguous or isinstance(codes, np.ma.MaskedArray):
        raise InvalidInput(f"{name} must be a contiguous array that can be written to; pass a copy of it")
    check_codes(name, codes, layout_of(target))


def check_uniforms(uniforms: Any, n_uniforms: int) -> None:
    """Raise InvalidInput for anything but n_uniforms numbers in [0, 1)."""
    is_array = isinstance(uniforms, np.ndarray) and not isinstance(uniforms, np.ma.MaskedArray)
    if not is_array or uniforms.dtype != np.float64 or uniforms.shape != (n_uniforms,):
        shown = f"{uniforms.dtype} of shape {uniforms.shape}" if is_array else type(uniforms).__name__
        raise InvalidInput(
            f"uniforms must be {n_uniforms} floats, of shape ({n_uniforms},), got {shown}; rng.random(step.n_uniforms) "
            "has that shape"
        )
    bad = ~((uniforms >= 0) & (uniforms < 1))
    if bad.any():
        raise InvalidInput(f"uniforms must be in [0, 1), got {uniforms[bad][0]}; rng.random() gives such numbers")


def check_pair(first: AnyTarget, second: AnyTarget) -> None:
    """Raise InvalidInput for replicas whose paths have different forms."""
    same = first.n_columns == second.n_columns and np.array_equal(layout_of(first).sizes, layout_of(second).sizes)
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


def check_checkpoint(checkpoint: Mapping[str, Any], present: Any, layout: Layout | None) -> None:
    """Raise InvalidInput where a checkpoint does not fit an engine with these present states (R, T)."""
    states, betas = np.asarray(checkpoint["states"]), np.asarray(checkpoint["betas"])
    n_sites, dtype = present.shape[1], present.dtype
    if betas.ndim != 1 or betas.dtype != float or not np.all(np.diff(betas, prepend=-1.0, append=2.0) > 0):
        raise InvalidInput(f"betas must increase, between 0 and 1, got {betas}")
    if states.shape != (len(betas), n_sites) or states.dtype != dtype:
        raise InvalidInput(
            f"states must be {dtype} of shape ({len(betas)}, {n_sites}), got {states.dtype} of shape {states.shape}"
        )
    if layout is not None:
        check_codes("states", states, layout)
    for name, made in ensemble.make_tally(len(betas))._asdict().items():
        found = np.asarray(checkpoint[f"tally_{name}"])
        if found.shape != made.shape or found.dtype != made.dtype:
            raise InvalidInput(f"tally_{name} must be {made.dtype} of shape {made.shape}, got {found.shape}")
    if not np.array_equal(np.sort(checkpoint["tally_labels"]), np.arange(len(betas))):
        raise InvalidInput(f"tally_labels must name every replica once, got {checkpoint['tally_labels']}")
    if int(checkpoint["iteration"]) < 0:
        raise InvalidInput(f"iteration must not be negative, got {checkpoint['iteration']}")
