"""Posterior: the draws of a run and quantities computed from them, as xarray objects.

codes (chain, draw, site) for a factorial HMM, x (chain, draw, site) for any other density. The `model` of a model with
priors holds typical values only; quantities that depend on learned parameters use the values of each draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.kernels.counting import add_counts
from chiasma.kernels.layout import Layout, make_layout, on_bits
from chiasma.models.additive import Additive
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results import configurations, export, misfit, segments, summary
from chiasma.results.arrays import labelled
from chiasma.results.configurations import Configuration
from chiasma.results.equal_rows import Merging, equal_rows
from chiasma.results.evidence import Evidence
from chiasma.results.label_switching import label_warnings
from chiasma.results.optima import connection_warnings
from chiasma.results.parameters import adds_of_draws, model_at_draw, model_at_mean, summarise_parameters
from chiasma.results.run_info import RunInfo
from chiasma.results.segments import RowSegment, Segment
from chiasma.results.summary import Summary
from chiasma.types import Floats, Integers

Made = TypeVar("Made", xr.DataArray, xr.Dataset)


class Lazy(Generic[Made]):
    """A field that may be given as a function, which is called when the field is first read.

    Building an xarray object takes longer than a hundred sweeps of a short path.
    """

    def __init__(self, default: Callable[[], Made] | None = None):
        self.default: Callable[[], Made] | None = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object | None, owner: type) -> Made:
        if instance is None:
            if self.default is None:
                raise AttributeError(self.name)  # tells dataclass() that there is no default
            return self.default  # type: ignore[return-value]  # dataclass() passes it to __set__
        given: Made | Callable[[], Made] = vars(instance)[self.name]
        if isinstance(given, xr.DataArray | xr.Dataset):
            return given
        made: Made = given()
        vars(instance)[self.name] = made
        return made

    def __set__(self, instance: object, given: Made | Callable[[], Made]) -> None:
        vars(instance)[self.name] = given


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Draws of the target, and how the run went.

    draws : codes (or vectors) of the cold replica, (chain, draw, site).
    log_joint, log_likelihood : (chain, draw).
    replica_log_likelihood : (chain, draw, replica), of every rung.
    betas : (replica,), ascending.
    exchange_stats : per pair of neighbouring rungs: rejection, barrier, moves, changed, columns moved.
    parameters : learned parameters, (chain, draw) or (chain, draw, row); empty where all were given.
    log_evidence : value and standard error, or None if the ladder does not reach the prior.
    model, data : the model and its data; None if a stored run could not keep them (a user's own functions).
    row_counts : (K, T) number of draws with each row on, if a stored run has counted them already.
    info : seed, plan, timings, round trips, warnings.
    """

    draws: Lazy[xr.DataArray] = Lazy()
    log_joint: Lazy[xr.DataArray] = Lazy()
    log_likelihood: Lazy[xr.DataArray] = Lazy()
    replica_log_likelihood: Lazy[xr.DataArray] = Lazy()
    betas: Floats
    exchange_stats: Lazy[xr.Dataset] = Lazy()
    parameters: Lazy[xr.Dataset] = Lazy(xr.Dataset)
    log_evidence: Evidence | None
    model: FactorialHMM | Density | None = None
    data: Observations | None = None
    row_counts: Integers | None = None
    info: RunInfo = field(default_factory=RunInfo)

    @property
    def codes(self) -> xr.DataArray:
        """(chain, draw, site) column codes: row k has a field of bits (`layout`), one bit if it has two states."""
        self._rows()
        return self.draws

    @cached_property
    def layout(self) -> Layout:
        """Numbers of states of the rows, and their bits in a code."""
        return make_layout(self.info.get("row_sizes") or [2] * self._rows())

    def states(self, row: int | str) -> xr.DataArray:
        """(chain, draw, site) states 0, 1, ... of one row, by its number or name."""
        k = self._row(row)
        shift, mask = (self.draws.dtype.type(part[k]) for part in (self.layout.shifts, self.layout.masks))
        return (self.draws >> shift & mask).astype(np.int8 if mask <= 127 else np.int64).rename("states")

    def probabilities(self, row: int | str) -> xr.DataArray:
        """(state, site): share of draws with one row, by its number or name, in each of its states."""
        k = self._row(row)
        shift, mask, size = (int(part[k]) for part in (self.layout.shifts, self.layout.masks, self.layout.sizes))
        counts = np.zeros((size, self.draws.sizes["site"]), np.int64)
        for _, _, codes in configurations.pieces(self.codes):
            states = codes.astype(np.int64) >> shift & mask
            for state in range(size):
                counts[state] += (states == state).sum(axis=0)
        n_draws = self.draws.sizes["chain"] * self.draws.sizes["draw"]
        return labelled("probabilities", counts / n_draws, "state", "site")

    def marginals(self) -> xr.DataArray:
        """(row, site): share of draws with the row on, that is in another state than 0.

        A stored run counts them while sampling. `probabilities` has every state of a row.
        """
        counts = self.row_counts
        if counts is None:
            counts = np.zeros((self._rows(), self.draws.sizes["site"]), np.int64)
            for _, _, codes in configurations.pieces(self.codes):
                add_counts(on_bits(codes, self.layout), counts)
        n_draws = self.draws.sizes["chain"] * self.draws.sizes["draw"]
        return self._by_row("marginals", counts / n_draws)

    def marginals_error(self) -> xr.DataArray:
        """(row, site): Monte Carlo standard error of the marginals, by batch means."""
        return self._by_row("marginals_error", segments.marginals_error(self.codes, self.layout))

    def _by_row(self, name: str, values: Floats) -> xr.DataArray:
        """(row, site) values; rows by their names, where they have some."""
        names = self.info.get("row_names")
        found = labelled(name, values, "row", "site")
        return found if names is None else found.assign_coords(row=names)

    @property
    def fitted_model(self) -> FactorialHMM | Density | None:
        """The model with the posterior means of its learned parameters in place of their priors.

        If no parameters are learned it is the model itself. The mean of a multimodal posterior may be far from every
        mode: `model_at` gives the model at one draw.
        """
        if isinstance(self.model, FactorialHMM) and self.model.parameters:
            return model_at_mean(self.model, self.parameters)
        return self.model

    def model_at(self, chain: int, draw: int) -> FactorialHMM:
        """The model with the parameters of one draw; chain and draw count from 0."""
        sizes = self.draws.sizes
        for name, given in (("chain", chain), ("draw", draw)):
            if not 0 <= given < sizes[name]:
                raise InvalidInput(f"{name} must be in 0..{sizes[name] - 1}, got {given}")
        if not isinstance(self.model, FactorialHMM):
            raise InvalidInput(
                "this posterior holds no FactorialHMM; if a stored run could not keep it, pass it: "
                "ch.open_posterior(path, model=model)"
            )
        return model_at_draw(self.model, self.parameters, chain, draw)

    def levels(self) -> xr.DataArray:
        """(chain, draw, site): sum over rows of weight times value of the state. With channels, a last axis.

        Learned weights are those of each draw. The result is lazy if the draws are, or if it would be large.
        """
        self._rows()
        weights = self._weights()
        if weights is None:
            raise InvalidInput(
                "levels need the weights of an additive emission, and this posterior has none (a Table, or a model "
                "that was not kept); rows_on() counts the rows that are on"
            )
        return self._levels(self.codes, weights)

    def _levels(self, codes: xr.DataArray, weights: Floats | xr.DataArray) -> xr.DataArray:
        rows = self.model.rows if isinstance(self.model, FactorialHMM) else None
        if rows is None:
            return configurations.levels(codes, weights)
        if rows.learns_levels or not isinstance(weights, np.ndarray):
            assert isinstance(self.model, FactorialHMM)
            own = self.parameters.sel(chain=codes["chain"], draw=codes["draw"])
            return configurations.levels_of_draws(codes, self.layout, adds_of_draws(self.model, own))
        return configurations.levels_of_rows(codes, self.layout, rows.contributions(weights))

    @cached_property
    def merging(self) -> Merging:
        """Sorts the states of rows that cannot be told apart."""
        return Merging(self.layout, equal_rows(self.model))

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """(T,) sites with data; all of them where the data were not kept."""
        return np.ones(self.draws.sizes["site"], bool) if self.data is None else ~self.data.missing

    def rows_on(self) -> xr.DataArray:
        """(chain, draw, site): number of rows in another state than 0, fixed ones included."""
        return configurations.rows_on(self.codes, self.layout)

    def top_configurations(self, start: int, stop: int, n: int = 5) -> list[Configuration]:
        """The n most probable patterns of columns start..stop-1, the most probable first.

        Columns that differ only by exchanging equal rows count as one.
        """
        return configurations.top_configurations(self.codes, self.layout, start, stop, n, self.merging)

    def segments(self, min_probability: float = 0.0) -> list[Segment]:
        """Runs of sites with the same most probable code; no run crosses a sequence start.

        Columns that differ only by exchanging equal rows count as one. Runs whose mean probability is below
        min_probability are left out.
        """
        return segments.segments(self.codes, self.merging, self._starts(), self.seen, min_probability)

    def row_segments(self, row: int | str) -> list[RowSegment]:
        """Runs of sites where P(row is on) > 0.5; no run crosses a sequence start."""
        return segments.row_segments(self.codes, self.layout, self._row(row), self._starts())

    def summary(self) -> Summary:
        """What was run, R-hat and effective sample sizes, learned parameters, health of the ladder, evidence, whether
        the model fits the data, and warnings with remedies.

        Print it, or use its to_dict(). Diagnostics use the cold replica only, at no more than 200 sites.
        """
        series, weights = summary.some_sites(self.draws), self._weights()
        if weights is not None:
            series = summary.tied(self._levels(series, weights))
        elif self.n_rows is not None:
            series = configurations.rows_on(series, self.layout)
        learned = connection_warnings(self.info.get("optima", []), self.parameters)
        learned += label_warnings(self.model, self.parameters)
        return summary.summarise(
            draws=self.draws,
            log_joint=self.log_joint,
            series=series,
            parameters=summarise_parameters(self.parameters),
            betas=self.betas,
            exchange_stats=self.exchange_stats,
            log_evidence=self.log_evidence,
            misfit=None if self.n_rows is None else misfit.misfit(self),
            info={**self.info, "warnings": [*self.info.get("warnings", ()), *learned]},
        )

    def to_datatree(self) -> xr.DataTree:
        """A DataTree for ArviZ: groups posterior, sample_stats, observed_data and constant_data.

        Learned parameters are variables of the group posterior. Lazy draws stay lazy; ArviZ needs its input in memory:
        `tree.sel(site=[10, 20]).load()`.
        """
        variables = [self.draws, *self.parameters.data_vars.values()]
        weights = self._weights()
        if self.n_rows is not None:
            variables += [self.levels()] if weights is not None else []
            variables.append(self.rows_on())
        return export.to_datatree(
            variables=variables,
            log_joint=self.log_joint,
            log_likelihood=self.log_likelihood,
            data=self.data,
            weights=weights if isinstance(weights, np.ndarray) else None,
            info=self.info,
        )

    def _weights(self) -> Floats | xr.DataArray | None:
        """The weights of the emission, or of every draw if they are learned."""
        emission = self.model.emission if isinstance(self.model, FactorialHMM) else None
        if not isinstance(emission, Additive):
            return None
        return self.parameters.get("weights", emission.weights)

    def _starts(self) -> Integers:
        return np.zeros(1, np.int64) if self.data is None else self.data.starts

    def _row(self, row: int | str) -> int:
        """The number of a row given by its number or name."""
        names = self.info.get("row_names") or []
        if isinstance(row, str):
            if row not in names:
                known = ", ".join(map(repr, names)) or f"numbers 0..{self._rows() - 1} only"
                raise InvalidInput(f"there is no row {row!r}; this posterior has {known}")
            return names.index(row)
        if not 0 <= row < self._rows():
            raise InvalidInput(f"row must be in 0..{self._rows() - 1}, got {row}")
        return row

    @property
    def n_rows(self) -> int | None:
        """Rows of a path; None for plain vectors."""
        return self.info.get("n_rows")

    def _rows(self) -> int:
        if self.n_rows is None:
            raise InvalidInput("this posterior is over plain vectors and has no rows; its draws are in .draws")
        return self.n_rows

    def __repr__(self) -> str:
        sizes = dict(self.draws.sizes)
        evidence = f", log evidence {self.log_evidence.value:.3f}" if self.log_evidence else ""
        return (
            f"Posterior({sizes['chain']} chains x {sizes['draw']} draws x {sizes['site']} sites, "
            f"{len(self.betas)} replica(s){evidence})"
        )
