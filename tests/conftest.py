"""Settings shared by all tests.

Hypothesis is derandomised: the same examples everywhere, every time. With NUMBA_DISABLE_JIT=1 the kernels are plain
Python and some hundred times slower, so the tests marked `jit_off` then take fewer examples and draws; what they
claim is the same.
"""

import numba
import pytest
from hypothesis import HealthCheck, settings

JIT = not numba.config.DISABLE_JIT

settings.register_profile(
    "chiasma",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60 if JIT else 12,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("chiasma")


@pytest.fixture(scope="session")
def n_draws() -> int:
    """Draws for a goodness-of-fit test."""
    return 200_000 if JIT else 4_000


@pytest.fixture(scope="session")
def n_grid() -> int:
    """Points of an equally spaced grid of uniforms, to measure the interval that leads to each outcome."""
    return 4_000 if JIT else 300
