"""Learnable: what emissions and Markov chains share, whose arguments may be numbers or priors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from chiasma.models.arguments import Argument
from chiasma.models.priors import Prior

Thing = TypeVar("Thing")
# Longer arrays are shown by their shape.
MOST_NUMBERS = 12


def shallow_copy(thing: Thing) -> Thing:
    """copy.copy of an object with plain attributes, in a tenth of the time: every value of a parameter needs three."""
    other = object.__new__(type(thing))
    vars(other).update(vars(thing))
    return other


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"array of shape {value.shape}" if value.size > MOST_NUMBERS else repr(value.tolist())


class Learnable:
    """Arguments of a constructor, each an attribute as well. A prior is kept in `priors`, and the attribute is then a
    typical value of it.
    """

    arguments: ClassVar[Mapping[str, Argument]] = {}
    priors: Mapping[str, Prior] = {}  # of the parameters that are learned

    def __repr__(self) -> str:
        given = {name: self.given(name) for name in self.arguments}
        parts = [f"{name}={_shown(value)}" for name, value in given.items() if value is not None]
        return f"{type(self).__name__}({', '.join(parts)})"

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """The same with other values for some arguments."""
        own = {name: self.given(name) for name in self.arguments}
        return type(self)(**(own | {name: values[name] for name in self.arguments if name in values}))

    def given(self, name: str) -> Any:
        """An argument as the constructor takes it: a prior, or a value."""
        return self.priors.get(name, getattr(self, name))

    def with_unchecked_values(self, values: Mapping[str, Any]) -> Self:
        """`with_values` without checks: values must cover all priors and lie inside their supports."""
        other = shallow_copy(self)
        vars(other).update({name: values[name] for name in self.priors})
        other.priors = {}
        return other

    def _learned(self, name: str, prior: Prior) -> Any:
        """Remember a prior; returns its typical value."""
        self.priors = {**self.priors, name: prior}
        return prior.centre
