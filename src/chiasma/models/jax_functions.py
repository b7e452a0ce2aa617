"""Functions of one vector in JAX as functions of many, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chiasma.extras import extra

Function = Callable[[Any], Any]


def batched(function: Function) -> tuple[Function, Function]:
    """The values (n,) and the gradients (n, size) of vectors (n, size)."""
    with extra("jax"):
        import jax
    if not jax.config.jax_enable_x64:
        jax.config.update("jax_enable_x64", True)  # log-densities in single precision are too coarse for exchanges

    def padded(compiled: Function) -> Function:
        def call(x: Any) -> Any:
            # A new number of vectors would compile once more: there are few powers of two.
            n = 1 << (len(x) - 1).bit_length()
            return np.asarray(compiled(np.concatenate([x, np.repeat(x[-1:], n - len(x), axis=0)])))[: len(x)]

        return call

    return padded(jax.jit(jax.vmap(function))), padded(jax.jit(jax.vmap(jax.grad(function))))
