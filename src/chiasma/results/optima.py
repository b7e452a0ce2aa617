"""Optima: rival explanations of the data, the distinct maxima of the posterior of the parameters, best first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.models.display import Shown
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.parameters import label
from chiasma.results.findings import Finding, Set, Severity
from chiasma.types import Floats

# A table shows at most this many optima.
SHOWN = 12
# A larger parameter, such as the coefficients of an offset, is not listed.
MOST_NUMBERS = 36


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """A maximum of the posterior density of the parameters, the paths integrated out.

    Parameters
    ----------
    values, sd : the parameters by name, and their standard deviations by the curvature.
    log_density : what was maximised: log p(y | values) + log prior, both of unconstrained coordinates (logarithms of
        positive parameters, logits of probabilities, log ratios of those that add up to 1).
    log_likelihood : log p(y | values), exact.
    log_evidence : the log of the posterior mass around it before normalisation, by Laplace's approximation; rows that
        may change places count with all their orders.
    share : its part of the masses of all optima that were found.
    free, covariance : its unconstrained coordinates (d,), and the inverse of the curvature there, (d, d).
    strict : whether the density falls off in every direction. If not, the curvature was bounded, and the evidence is
        only a guess: such optima come last.
    starts : how many of the starts led to it.
    model : the model with these numbers in place of the priors.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    >>> _, y = model.at({"sd": 0.3}).simulate(100, seed=1)
    >>> best = ch.optimise(model, y, starts=2, seed=1, progress=False).best
    >>> best.text, best.model.parameters.names
    ('sd 0.28', [])
    """

    values: dict[str, Floats]
    sd: dict[str, Floats]
    log_density: float
    log_likelihood: float
    log_evidence: float
    share: float
    free: Floats
    covariance: Floats
    strict: bool
    starts: int
    model: FactorialHMM

    def __repr__(self) -> str:
        return f"Optimum({self.text}, log evidence {self.log_evidence:.2f}, share {self.share:.2f})"

    def check(self, data: Observations | npt.ArrayLike, seed: int = 0) -> tuple[Finding, ...]:
        """Does the model with these numbers fit the data? See `chiasma.check`.

        Parameters
        ----------
        data : Observations, or the signal as an array (T,) or (T, D).
        seed : int, of the exact draws whose residuals are checked.

        Returns
        -------
        A tuple of findings, the worst first; empty if the checks found no problem.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
        >>> _, y = model.at({"sd": 0.3}).simulate(100, seed=1)
        >>> ch.optimise(model, y, starts=2, seed=1, progress=False).best.check(y)
        ()
        """
        from chiasma.results.model_checks import check

        return check(self.model, data, seed)

    @property
    def text(self) -> str:
        """The values in a line."""
        return ", ".join(f"{name} {_short(value)}" for name, value in self.values.items())


@dataclass(frozen=True)
class Optima(Shown):
    """What ch.optimise found, in the order of their evidence, not of their density. Print, index, or loop over it.

    Parameters
    ----------
    found : the optima, each an Optimum.
    n_starts : from how many starts they were searched.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    >>> _, y = model.at({"sd": 0.3}).simulate(100, seed=1)
    >>> optima = ch.optimise(model, y, starts=2, seed=1, progress=False)
    >>> [round(float(one.values["sd"]), 2) for one in optima]
    [0.28]
    >>> optima.findings
    ()
    """

    width: ClassVar[int] = 120
    found: tuple[Optimum, ...]
    n_starts: int

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, i: int) -> Optimum:
        return self.found[i]

    def __iter__(self) -> Iterator[Optimum]:
        return iter(self.found)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to distrust in the search; empty if at least two starts agree on the best optimum."""
        if self.best.starts > 1:
            return ()
        return (Finding("one-start", "limited", {"starts": self.n_starts}, (Set("starts", 4 * self.n_starts),)),)

    @property
    def best(self) -> Optimum:
        """The optimum with the most posterior mass around it."""
        return self.found[0]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain numbers, ready for JSON."""
        return [
            {
                "values": {name: value.tolist() for name, value in one.values.items()},
                "sd": {name: value.tolist() for name, value in one.sd.items()},
                "log_density": one.log_density,
                "log_likelihood": one.log_likelihood,
                "log_evidence": one.log_evidence,
                "share": one.share,
                "strict": one.strict,
                "starts": one.starts,
            }
            for one in self.found
        ]

    def __rich__(self) -> Any:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(title="Optima, by evidence (Laplace)", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        for name in ("", "log density", "log evidence", "share", "starts"):
            table.add_column(name, justify="right")
        table.add_column("values")
        for i, one in enumerate(self.found[:SHOWN]):
            numbers = [f"{one.log_density:.2f}", f"{one.log_evidence:.2f}" + ("" if one.strict else " ?")]
            table.add_row(str(i + 1), *numbers, f"{one.share:.2g}", str(one.starts), one.text)
        guessed = any(not one.strict for one in self.found[:SHOWN])
        mark = ["? the density does not fall off in every direction there: its evidence is a guess, and ranks last"]
        more = [f"and {len(self.found) - SHOWN} more"] if len(self.found) > SHOWN else []
        table.caption = "\n".join([*more, *(mark if guessed else []), *map(str, self.findings)]) or None
        return table


def _short(value: Floats) -> str:
    if value.size > MOST_NUMBERS:
        return f"({value.size} values)"
    return f"{value:.3g}" if value.ndim == 0 else np.array2string(value, precision=3, separator=" ", max_line_width=200)


# An optimum with less than this share of the evidence need not be visited.
LEAST_SHARE = 0.01
# A larger one changes all probabilities.
MUCH_SHARE = 0.1
# Parameters that tell two optima apart.
MOST_DIFFERENCES = 3


def connection_findings(optima: Sequence[Mapping[str, Any]], parameters: xr.Dataset) -> list[Finding]:
    """Which of the optima that matter no chain has gone between, and how they compare. Log evidences are Laplace's
    approximations, relative to optimum 1.

    optima : as `Optima.to_dict` describes them; parameters : the draws (chain, draw, ...).
    """
    if len(optima) < 2 or not parameters:
        return []
    visited = _visits(optima, parameters)
    # Where the evidence is a guess, nothing says that an optimum should have been visited.
    matter = [
        i
        for i, one in enumerate(optima)
        if visited[:, i].any() or (one["share"] >= LEAST_SHARE and one.get("strict", True))
    ]
    connected = {i: {i} for i in matter}
    for chain in visited:
        together = {i for i in matter if chain[i]}
        for i in list(together):
            together |= connected[i]
        for i in together:
            connected[i] = together
    first = connected[matter[0]]
    apart = [i for i in matter if i not in first]
    if not apart:
        return []
    best = optima[0]["log_evidence"]
    names = [
        f"optimum {i + 1} ({_where(visited[:, i])}; log evidence {optima[i]['log_evidence'] - best:+.1f}; "
        f"{_differences(optima[i], optima[0])})"
        for i in apart
    ]
    # An improbable optimum that no chain has visited would change little.
    matters = any(visited[:, i].any() or optima[i]["share"] >= MUCH_SHARE for i in apart)
    severity: Severity = "none" if matters else "limited"
    return [Finding("optima-apart", severity, {"names": names, "optima": [i + 1 for i in apart]})]


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The parameters by which two optima differ most, in standard deviations."""
    found = []
    for name in one["values"]:
        here, there, *sds = (np.asarray(at[key][name], float) for key in ("values", "sd") for at in (one, other))
        for place in np.ndindex(here.shape):
            a, b = float(here[place]), float(there[place])
            width = max(1e-300, *(float(sd[place]) for sd in sds))
            found.append((abs(a - b) / width, f"{label(name, place)} {a:.3g} in place of {b:.3g}"))
    return ", ".join(text for _, text in sorted(found, key=lambda pair: -pair[0])[:MOST_DIFFERENCES])


def _where(visited: npt.NDArray[np.bool_]) -> str:
    chains = np.flatnonzero(visited).tolist()
    return f"visited by chain{'s' * (len(chains) > 1)} {', '.join(map(str, chains))}" if chains else "not visited"


def _visits(optima: Sequence[Mapping[str, Any]], parameters: xr.Dataset) -> npt.NDArray[np.bool_]:
    """(chain, optimum): whether a draw of the chain most likely belongs to that optimum, by normal densities around all
    of them with their masses. Without the masses and the widths, a wide optimum would claim the draws of a narrow one.
    Optima do not list the coefficients of an offset.
    """
    scores = []
    for one in optima:
        total: Any = one["log_evidence"]
        for name in one["sd"]:
            values = parameters[name].transpose("chain", "draw", ...).values
            sd = np.maximum(np.asarray(one["sd"][name]), 1e-300)
            scaled = (values - np.asarray(one["values"][name])) / sd
            total = total - (0.5 * np.square(scaled) + np.log(sd)).reshape(*values.shape[:2], -1).sum(axis=-1)
        scores.append(total)
    likeliest = np.argmax(scores, axis=0)
    return np.array([[bool((chain == i).any()) for i in range(len(optima))] for chain in likeliest])
