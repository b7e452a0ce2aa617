"""Model comparison: evidences of several models of the same data, and their posterior probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use
from rich.console import Group
from rich.table import Table

from chiasma.errors import InvalidInput
from chiasma.exact import log_evidence
from chiasma.exact.passes import MEMORY
from chiasma.hints import arguments_of, check_names
from chiasma.models.display import Shown
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.findings import Finding, trust_in
from chiasma.results.ladder_stats import Evidence
from chiasma.results.posterior import Posterior
from chiasma.sampling.plan import EXACT_SECONDS, as_budget, exact_cost
from chiasma.sampling.sampler import sample
from chiasma.types import Floats, as_floats, is_a, shown

# Monte Carlo draws that turn standard errors of the evidences into intervals of the probabilities.
_N_ERRORS = 20_000


@dataclass(frozen=True, kw_only=True)
class Comparison(Shown):
    """Models side by side, in the order given; `ch.compare` makes it. Print it for a table.

    Parameters
    ----------
    names : of the models.
    evidence : log p(y | model) and its standard error, 0 where it is exact.
    probabilities : (M,) p(model | y).
    low, high : (M,) a 90% interval of the probabilities for the Monte Carlo errors of the evidences. Where all
        evidences are exact, both are the probability itself, and the table says "exact".
    posteriors : those of the models that had to be sampled, by name.
    largest : name of the model with more rows than every other; empty where there is none.

    Examples
    --------
    >>> import chiasma as ch
    >>> def rows(n):
    ...     return ch.FactorialHMM(rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([1.0] * n, sd=0.3))
    >>> _, y = rows(1).simulate(100, seed=1)
    >>> ch.compare([rows(1), rows(2)], y).best
    '1 row'
    """

    names: list[str]
    evidence: list[Evidence]
    probabilities: Floats
    low: Floats
    high: Floats
    posteriors: dict[str, Posterior]
    largest: str = ""

    @property
    def best(self) -> str:
        """Name of the most probable model."""
        return self.names[int(np.argmax(self.probabilities))]

    @property
    def findings(self) -> dict[str, tuple[Finding, ...]]:
        """What the checks of the sampled models noticed, by name; models without findings are left out."""
        found = {name: posterior.findings for name, posterior in self.posteriors.items()}
        return {name: own for name, own in found.items() if own}

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Plain numbers by name."""
        columns = zip(self.names, self.evidence, self.probabilities, self.low, self.high, strict=True)
        return {
            name: {
                "log_evidence": evidence.value,
                "standard_error": evidence.standard_error,
                "probability": float(probability),
                "low": float(low),
                "high": float(high),
            }
            for name, evidence, probability, low, high in columns
        }

    def __rich__(self) -> Group:
        exact = all(one.standard_error == 0 for one in self.evidence)
        trust = {name: trust_in(own) for name, own in self.findings.items()}
        table = Table("model", "log evidence", "s.e.", "probability", "90% interval", *(["trust"] if trust else []))
        for name, row in self.to_dict().items():
            error = "exact" if row["standard_error"] == 0 else f"{row['standard_error']:.2f}"
            interval = "exact" if exact else f"{row['low']:.3f} to {row['high']:.3f}"
            trusted = [trust.get(name, "good")] if trust else []
            table.add_row(name, f"{row['log_evidence']:.2f}", error, f"{row['probability']:.3f}", interval, *trusted)
        more = ["The attribute findings says why a run is not trusted, and what to do."] if trust else []
        if self.best == self.largest:
            more.append(f"The largest model wins ({self.largest}): compare with more rows, too.")
        return Group(table, *more)


def compare(
    models: Mapping[str, FactorialHMM] | Sequence[FactorialHMM],
    data: Observations | npt.ArrayLike,
    *,
    prior: npt.ArrayLike | None = None,
    **options: Any,
) -> Comparison:
    """Evidence of every model and their probabilities given the data.

    Parameters
    ----------
    models : a dict by name, or a list, whose models are named by their number of free rows.
    data : the observations, the same for all models.
    prior : prior probability of every model; default: equal.
    options : arguments of ch.sample, used for models that have priors or are too large for the exact evidence;
        exact_seconds is the budget of the latter too.

    Returns
    -------
    Comparison: print it for a table.

    Examples
    --------
    >>> import chiasma as ch
    >>> def rows(n):
    ...     return ch.FactorialHMM(rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([1.0] * n, sd=0.3))
    >>> _, y = rows(2).simulate(100, seed=1)
    >>> found = ch.compare([rows(1), rows(2), rows(3)], y)
    >>> found.best, found.probabilities.round(2).tolist()
    ('2 rows', [0.0, 0.88, 0.12])
    """
    check_names("compare", options, ["prior", *arguments_of(sample)[2:]])
    named = dict(models) if isinstance(models, Mapping) else _by_rows(models)
    if not named:
        raise InvalidInput("compare needs at least one model, got none")
    weights = _weights(prior, len(named))
    seen = Observations.of(data)
    budget = as_budget(options.get("exact_seconds", EXACT_SECONDS))
    evidence: list[Evidence] = []
    posteriors: dict[str, Posterior] = {}
    for name, model in named.items():
        if not isinstance(model, FactorialHMM):
            raise InvalidInput(f"models must be FactorialHMMs, got {type(model).__name__} for {name!r}")
        if not model.parameters and _affordable(model, seen, budget):
            evidence.append(Evidence(log_evidence(model, seen), 0.0))
            continue
        posteriors[name] = sample(model, seen, **{"evidence": True} | options)
        found = posteriors[name].log_evidence
        if found is None:
            raise InvalidInput(
                f"the run of {name!r} gives no evidence: its ladder does not reach the prior; leave ladder='auto', or "
                "use ladder=ch.Ladder.adapted()"
            )
        evidence.append(found)
    values = np.array([one.value for one in evidence]) + np.log(weights)
    errors = np.nan_to_num([one.standard_error for one in evidence], nan=np.inf)
    finite = np.where(np.isfinite(errors), errors, 0.0)
    noise = np.random.default_rng(0).standard_normal((_N_ERRORS, len(values))) * finite
    low, high = np.quantile(scipy.special.softmax(values + noise, axis=1), [0.05, 0.95], axis=0)
    unknown = not np.isfinite(errors).all()
    return Comparison(
        names=list(named),
        evidence=evidence,
        probabilities=scipy.special.softmax(values),
        low=np.zeros_like(low) if unknown else low,
        high=np.ones_like(high) if unknown else high,
        posteriors=posteriors,
        largest=_largest(named),
    )


def _largest(models: Mapping[str, FactorialHMM]) -> str:
    """The name of the model that has more rows than every other, if there is one."""
    *_, second, first = [0, *sorted(model.n_rows for model in models.values())]
    return next(name for name, model in models.items() if model.n_rows == first) if first > second > 0 else ""


def _by_rows(models: Sequence[FactorialHMM]) -> dict[str, FactorialHMM]:
    if not is_a(models, Sequence) or not all(isinstance(model, FactorialHMM) for model in models):
        raise InvalidInput(f"models must be a dictionary or a list of FactorialHMM, got {shown(models)}")
    counts = [len(model.free_rows) for model in models]
    if len(set(counts)) < len(counts):
        return {f"model {i}": model for i, model in enumerate(models)}
    return {f"{n} row{'s' * (n != 1)}": model for n, model in zip(counts, models, strict=True)}


def _weights(prior: npt.ArrayLike | None, n: int) -> Floats:
    weights = np.ones(n) if prior is None else as_floats("prior", prior)
    if weights.shape != (n,) or not np.all(np.isfinite(weights) & (weights > 0)):
        raise InvalidInput(f"prior must be {n} positive numbers, one per model, got {shown(prior)}")
    return np.asarray(weights / weights.sum())


def _affordable(model: FactorialHMM, data: Observations, exact_seconds: float) -> bool:
    seconds, memory = exact_cost(model.target(data))
    return seconds <= exact_seconds and memory <= MEMORY
