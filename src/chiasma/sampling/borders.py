"""The border of step-wise use: what is given by hand, or read from a file, is checked before a kernel sees it.

Kernels have no bounds checks: a code or a length out of range would read and write anywhere. Engines make what they
pass on themselves, and check nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels import ensemble
from chiasma.kernels.layout import Layout, make_layout, n_bits, unpack_codes
from chiasma.models.target import Target
from chiasma.sampling.problems import LearningProblem, Problem

if TYPE_CHECKING:
    from chiasma.sampling.engines import Engine


def check_checkpoint(engine: Engine, checkpoint: Mapping[str, Any]) -> None:
    """Raise InvalidInput where a checkpoint does not fit the problem of an engine."""
    states, betas = np.asarray(checkpoint["states"]), np.asarray(checkpoint["betas"])
    n_sites, dtype = engine.states.shape[1], engine.states.dtype
    if betas.ndim != 1 or betas.dtype != float or not np.all(np.diff(betas, prepend=-1.0, append=2.0) > 0):
        raise InvalidInput(f"betas must increase, between 0 and 1, got {betas}")
    if states.shape != (len(betas), n_sites) or states.dtype != dtype:
        raise InvalidInput(
            f"states must be {dtype} of shape ({len(betas)}, {n_sites}), got {states.dtype} of shape {states.shape}"
        )
    layout = code_layout(engine.problem)
    if layout is not None:
        check_codes("states", states.ravel(), layout)
    for name, made in ensemble.make_tally(len(betas))._asdict().items():
        found = np.asarray(checkpoint[f"tally_{name}"])
        if found.shape != made.shape or found.dtype != made.dtype:
            raise InvalidInput(f"tally_{name} must be {made.dtype} of shape {made.shape}, got {found.shape}")
    if not np.array_equal(np.sort(checkpoint["tally_labels"]), np.arange(len(betas))):
        raise InvalidInput(f"tally_labels must name every replica once, got {checkpoint['tally_labels']}")
    if int(checkpoint["iteration"]) < 0:
        raise InvalidInput(f"iteration must not be negative, got {checkpoint['iteration']}")


def code_layout(problem: Problem) -> Layout | None:
    """The rows of the codes that are the states of a problem; None for vectors."""
    target = problem.learning.typical if isinstance(problem, LearningProblem) else getattr(problem, "target", None)
    if isinstance(target, Target):
        return make_layout([2] * target.n_rows)
    return None if target is None else target.rows.layout


def check_codes(name: str, codes: Any, layout: Layout) -> None:
    """Raise InvalidInput for a code that stands for no state of the rows."""
    bad = (codes < 0) | (codes > (1 << n_bits(layout)) - 1)
    if not bad.any():
        bad = (unpack_codes(codes, layout) >= layout.sizes[:, None]).any(axis=0)
    if bad.any():
        raise InvalidInput(f"{name} must be codes of rows with {layout.sizes.tolist()} states, got {codes[bad][0]}")
