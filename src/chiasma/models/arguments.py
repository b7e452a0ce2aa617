"""Arguments of emissions and chains, described once for settings files, the command line, its help and stored runs.

    arguments = {"weights": WEIGHTS, "scale": Argument("scale of the noise.", required=True)}

A class needs only this line: it adds the option --scale, the key `scale` in a settings file, and --learn scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.hints import hinted
from chiasma.models.priors import Beta, Dirichlet, Gamma, Independent, LogNormal, Normal, Prior
from chiasma.types import Floats, as_floats, is_a, shown

# Weights are often rounded to a few digits, so their sum may miss 1 by this much.
SUM_TOLERANCE = 1e-6
# Numbers with which a user's function is tried: the help shows the prior of the first for which it makes one.
TRIED = (0.5, 2.0, 20.0)


class DefaultPrior(NamedTuple):
    """The default prior of a learned parameter, made from the number x that a user gives for it.

    fixed : the prior where it is the same for all x.
    """

    formula: str
    make: Callable[[Floats], Prior]
    low: float = 0.0
    high: float = np.inf
    takes_zero: bool = False
    fixed: Prior | None = None

    def __repr__(self) -> str:
        return self.formula

    def centred_on(self, name: str, value: Any) -> Prior:
        """The prior for x = value, of its shape. The value must be between low and high, and 0 only where it may be.

        >>> LOG_NORMAL.centred_on("sd", 1.0)
        LogNormal(0, 0.5)
        """
        x = as_floats(name, value)
        if not np.all(np.isfinite(x) & (x > self.low) & (x < self.high) & ((x != 0) | self.takes_zero)):
            wanted = "between 0 and 1" if self.high == 1 else "above 0" if self.low == 0 else "other than 0"
            wanted = "that is finite" if self.takes_zero else wanted
            raise InvalidInput(
                f"the default prior of {name} needs a number {wanted}, got {x.tolist()}; give such a number, or a "
                f"prior of {name} in [priors] of the --model file"
            )
        try:
            return _of_shape(self.make(x), x.shape)
        except InvalidInput as error:
            raise InvalidInput(
                f"{name} = {x.tolist()} makes no default prior: {error}; give another number, or a prior of {name} in "
                "[priors] of the --model file"
            ) from error


def _of_shape(prior: Prior, shape: tuple[int, ...]) -> Prior:
    """The prior for every entry, if it is a prior of one number."""
    if prior.shape == shape:
        return prior
    if prior.shape == () and isinstance(prior, Independent):
        return type(prior)(*(np.broadcast_to(getattr(prior, name), shape) for name in prior.arguments))
    raise InvalidInput(f"{prior!r} is a prior of numbers of shape {prior.shape}, got numbers of shape {shape}")


def _as_default_prior(given: Any, takes: str) -> DefaultPrior:
    """What a user gives as default_prior: a prior, or a function of x that returns one."""
    if is_a(given, DefaultPrior):
        own: DefaultPrior = given
        return own
    if is_a(given, Prior):
        return DefaultPrior(repr(given), lambda x: given, low=-np.inf, takes_zero=True, fixed=given)
    if not callable(given):
        raise InvalidInput(
            "default_prior must be a prior, such as ch.HalfNormal(0.5), or a function of the number x that returns "
            f"one, such as lambda x: ch.HalfNormal(x), got {shown(given)}"
        )
    make = _checked(given)
    refused = []
    for number in TRIED:
        try:
            prior = make(np.full(2, number) if takes == "list" else np.array(number))
        except InvalidInput as error:
            refused.append(error)
        else:
            return DefaultPrior(f"{prior!r} for x = {number:g}", make, low=-np.inf, takes_zero=True)
    raise refused[0]


def _checked(function: Callable[[Any], Any]) -> Callable[[Floats], Prior]:
    """A user's function, with errors that say what it is for."""

    def make(x: Floats) -> Prior:
        wanted = "default_prior must return a prior of the number x, such as ch.HalfNormal(x)"
        try:
            made = function(float(x) if x.ndim == 0 else x)
        except Exception as error:  # it may raise anything
            raise InvalidInput(f"{wanted}; for x = {x.tolist()} it raised {type(error).__name__}: {error}") from error
        if not isinstance(made, Prior):
            raise InvalidInput(f"{wanted}, got {shown(made)} for x = {x.tolist()}")
        return made

    return make


def _of_weights(x: Floats) -> Prior:
    if x.ndim == 1 and len(x) > 1 and abs(x.sum() - 1) < SUM_TOLERANCE:
        return Dirichlet(np.ones(len(x)))
    # Equal priors: rows of equal role stay exchangeable, and label switching can be undone.
    return Gamma(np.full(x.shape, 2.0), 2 / x.mean())


WEIGHTS_PRIOR = DefaultPrior(
    "Dirichlet(1, ..., 1) where they add up to 1, otherwise Gamma(2, 2/m) for each, m their mean", _of_weights
)
NORMAL = DefaultPrior("Normal(x, |x|/4)", lambda x: Normal(x, np.abs(x) / 4), low=-np.inf)
NARROW_LOG_NORMAL = DefaultPrior("LogNormal(log x, 0.25)", lambda x: LogNormal(np.log(x), 0.25))
LOG_NORMAL = DefaultPrior("LogNormal(log x, 0.5)", lambda x: LogNormal(np.log(x), 0.5))
RARE = DefaultPrior("Beta(1, 1/x - 1)", lambda x: Beta(1.0, 1 / x - 1), high=1.0)
EITHER = DefaultPrior("Beta(2x, 2 - 2x)", lambda x: Beta(2 * x, 2 * (1 - x)), high=1.0)


@dataclass(frozen=True, init=False)
class Argument:
    """Description of an argument of an emission: what settings files, options and their help say about it.

    Parameters
    ----------
    help : begins in lower case and ends with a full stop; the constructor's default value is appended to it.
    key : its name in settings, if different.
    required : whether settings must give it, even where the constructor has a default.
    same_as : the key whose value is used when this one is not given.
    takes : what the option accepts: one "number", one or several "numbers" with commas between, or always a "list".
    default_prior : the prior that --learn gives it: a prior, whatever the number x of the option is, or a function of x
        that returns a prior. A prior of one number serves every entry of a list. Default: LogNormal(log x, 0.5). With a
        function the number must be given; with a prior only that of a list, which says how many entries there are.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Argument("scale of the noise.", required=True).takes
    'number'

    The help of --learn shows the prior, or what the function makes of one number:

    >>> ch.Argument("scale of the noise.", default_prior=ch.HalfNormal(0.5)).default_prior
    HalfNormal(0.5)
    >>> ch.Argument("scale of the noise.", default_prior=lambda x: ch.HalfNormal(2 * x)).default_prior
    HalfNormal(1) for x = 0.5
    """

    help: str
    key: str
    required: bool
    same_as: str
    takes: Literal["number", "numbers", "list"]
    default_prior: DefaultPrior

    def __init__(
        self,
        help: str,
        key: str = "",
        required: bool = False,
        same_as: str = "",
        takes: Literal["number", "numbers", "list"] = "number",
        default_prior: Prior | Callable[[Any], Prior] | DefaultPrior = LOG_NORMAL,
    ):
        given = {"help": help, "key": key, "required": required, "same_as": same_as, "takes": takes}
        for name, value in (given | {"default_prior": _as_default_prior(default_prior, takes)}).items():
            object.__setattr__(self, name, value)

    @property
    def prior_without_number(self) -> Prior | None:
        """The default prior where it needs no number x: one that x does not change, nor the length of a list."""
        fixed = self.default_prior.fixed
        return None if self.takes == "list" and fixed is not None and fixed.shape == () else fixed


WEIGHTS = Argument("one weight per row: 0.2,0.3,0.5.", required=True, takes="list", default_prior=WEIGHTS_PRIOR)


# ---- Classes with such arguments -------------------------------------------------------------------------------------

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

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = hinted(cls.__init__)  # type: ignore[method-assign]

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
