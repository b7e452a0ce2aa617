"""Arguments of emissions and chains, described once for settings files, the command line, its help and stored runs.

    arguments = {"weights": WEIGHTS, "scale": Argument("scale of the noise.", required=True)}

A class needs only this line: it adds the option --scale, the key `scale` in a settings file, and --learn scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.models.priors import Beta, Dirichlet, Gamma, LogNormal, Normal, Prior
from chiasma.types import Floats, as_floats

# Weights are often rounded to a few digits, so their sum may miss 1 by this much.
SUM_TOLERANCE = 1e-6


class DefaultPrior(NamedTuple):
    """The default prior of a learned parameter, made from the number x that a user gives for it."""

    formula: str
    make: Callable[[Floats], Prior]
    low: float = 0.0
    high: float = np.inf

    def centred_on(self, name: str, value: Any) -> Prior:
        """The prior for x = value, which must be between low and high and not 0.

        >>> LOG_NORMAL.centred_on("sd", 1.0)
        LogNormal(0, 0.5)
        """
        x = as_floats(name, value)
        if not np.all(np.isfinite(x) & (x > self.low) & (x < self.high) & (x != 0)):
            wanted = "between 0 and 1" if self.high == 1 else "above 0" if self.low == 0 else "other than 0"
            raise InvalidInput(
                f"the default prior of {name} needs a number {wanted}, got {x.tolist()}; give such a number, or a "
                f"prior of {name} in [priors] of the --model file"
            )
        return self.make(x)


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


class Argument(NamedTuple):
    """Description of an argument of an emission: what settings files, options and their help say about it.

    Parameters
    ----------
    help : begins in lower case and ends with a full stop; the constructor's default value is appended to it.
    key : its name in settings, if different.
    required : whether settings must give it, even where the constructor has a default.
    same_as : the key whose value is used when this one is not given.
    takes : what the option accepts: one "number", one or several "numbers" with commas between, or always a "list".
    default_prior : the prior that --learn makes from a number x. Default: LogNormal(log x, 0.5).

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Argument("scale of the noise.", required=True).takes
    'number'
    """

    help: str
    key: str = ""
    required: bool = False
    same_as: str = ""
    takes: Literal["number", "numbers", "list"] = "number"
    default_prior: DefaultPrior = LOG_NORMAL


WEIGHTS = Argument("one weight per row: 0.2,0.3,0.5.", required=True, takes="list", default_prior=WEIGHTS_PRIOR)
