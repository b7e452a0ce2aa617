"""Array types for annotations, and the conversion of a user's numbers to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def as_floats(name: str, values: Any) -> Floats:
    """A float array, or an error that names the argument."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} must be numbers, got {type(values).__name__}; pass a float or an array of floats"
        ) from error
