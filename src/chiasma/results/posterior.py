"""Posterior: the draws of a run and quantities computed from them, as xarray objects.

codes (chain, draw, site) for a factorial HMM, x (chain, draw, site) for any other density. The `model` of a model with
priors holds typical values only; quantities that depend on learned parameters use the values of each draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.kernels.codes import add_counts
from chiasma.kernels.layout import Layout, make_layout, on_bits
from chiasma.models.additive import Additive
from chiasma.models.density import Density
from chiasma.models.display import html_facts, value_text
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.rows import SwitchRows
from chiasma.results import configurations, export, misfit, segments, summary
from chiasma.results.arrays import labelled
from chiasma.results.configurations import Configuration
from chiasma.results.convergence import convergence
from chiasma.results.findings import Finding, Trust, in_order
from chiasma.results.fit_checks import Traits, fit_findings, offset_findings
from chiasma.results.ladder_stats import Evidence
from chiasma.results.optima import connection_findings
from chiasma.results.parameter_checks import (
    conflict_findings,
    edge_findings,
    label_findings,
    part_findings,
    tail_findings,
)
from chiasma.results.parameters import (
    adds_of_draws,
    model_at_draw,
    model_at_mean,
    offset_bands,
    signal_level,
    summarise_parameters,
)
from chiasma.results.provenance import RunInfo
from chiasma.results.row_checks import chains_apart, mode_findings, spare_rows
from chiasma.results.row_groups import Merging, equal_rows
from chiasma.results.run_checks import (
    better_moves,
    chain_findings,
    evidence_findings,
    init_findings,
    ladder_findings,
    wanted_rungs,
)
from chiasma.results.segments import Segment
from chiasma.results.summary import Summary
from chiasma.types import Floats, Integers, count

Made = TypeVar("Made", xr.DataArray, xr.Dataset)
# A run keeps no functions of its user: how such a posterior says so.
NO_MODEL = "model not stored: ch.open_posterior(path, model=model)"


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
    """Draws of the target, and how the run went; `ch.sample` and `ch.open_posterior` make it.

    Parameters
    ----------
    draws : codes (or vectors) of the cold replica, (chain, draw, site).
    log_joint, log_likelihood : (chain, draw).
    replica_log_likelihood : (chain, draw, replica), of every rung.
    betas : (replica,), ascending.
    exchange_stats : per pair of neighbouring rungs: rejection, barrier, moves, changed, columns moved.
    parameters : learned parameters, (chain, draw) or (chain, draw, row); empty where all were given.
    log_evidence : value and standard error, or None if the ladder does not reach the prior.
    model, data : the model and its data; None if a stored run could not keep them (a user's own functions).
    row_counts : (K, T) number of draws with each row on, if a stored run has counted them already.
    info : seed, plan, timings, round trips.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
    >>> posterior
    Posterior(4 chains x 100 draws x 4 sites, 1 replica, log evidence -7.736)
    >>> posterior.marginals().values.round(1).tolist()
    [[0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]]
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
    _save: Callable[[str | Path], None] | None = field(default=None, repr=False)

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
        """States 0, 1, ... of one row in every draw.

        Parameters
        ----------
        row : int or str, number or name of the row.

        Returns
        -------
        DataArray (chain, draw, site).

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> posterior.states(1)[0, 0].values.tolist()
        [0, 1, 1, 0]
        """
        k = self._one_row(row)
        shift, mask = (self.draws.dtype.type(part[k]) for part in (self.layout.shifts, self.layout.masks))
        return (self.draws >> shift & mask).astype(np.int8 if mask <= 127 else np.int64).rename("states")

    def probabilities(self, row: int | str) -> xr.DataArray:
        """Share of draws with one row in each of its states.

        Parameters
        ----------
        row : int or str, number or name of the row.

        Returns
        -------
        DataArray (state, site); every column sums to 1.

        Examples
        --------
        >>> import chiasma as ch
        >>> fridge = ch.Row([0, 1, 2], ch.Sticky(0.1), name="fridge")
        >>> model = ch.FactorialHMM(rows=[fridge], emission=ch.Gaussian(sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 1.9, 2.2], draws=100, seed=1, progress=False)
        >>> posterior.probabilities("fridge").values.round(1).tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
        """
        k = self._one_row(row)
        shift, mask, size = (int(part[k]) for part in (self.layout.shifts, self.layout.masks, self.layout.sizes))
        counts = np.zeros((size, self.draws.sizes["site"]), np.int64)
        for _, _, codes in configurations.pieces(self.codes):
            states = codes.astype(np.int64) >> shift & mask
            for state in range(size):
                counts[state] += (states == state).sum(axis=0)
        n_draws = self.draws.sizes["chain"] * self.draws.sizes["draw"]
        return labelled("probabilities", counts / n_draws, "state", "site")

    def marginals(self) -> xr.DataArray:
        """Share of draws with each row on, that is in another state than 0.

        A stored run counts them while sampling. `probabilities` has every state of a row.

        Returns
        -------
        DataArray (row, site).

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> posterior.marginals().sel(row=0).values.round(1).tolist()
        [0.0, 1.0, 1.0, 1.0]
        """
        counts = self.row_counts
        if counts is None:
            counts = np.zeros((self._rows(), self.draws.sizes["site"]), np.int64)
            for _, _, codes in configurations.pieces(self.codes):
                add_counts(on_bits(codes, self.layout), counts)
        n_draws = self.draws.sizes["chain"] * self.draws.sizes["draw"]
        return self._by_row("marginals", counts / n_draws)

    def marginals_error(self) -> xr.DataArray:
        """Monte Carlo standard error of the marginals, by batch means.

        Returns
        -------
        DataArray (row, site).

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> bool((posterior.marginals_error() < 0.02).all())
        True
        """
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
        """The model with the parameters of one draw.

        Parameters
        ----------
        chain, draw : int, counted from 0.

        Returns
        -------
        FactorialHMM without priors.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
        >>> options = {"update": "exact", "exchange": None, "draws": 20, "warmup": 20, "seed": 1, "progress": False}
        >>> posterior = ch.sample(model, [0.1, 1.2, 0.9], **options)
        >>> bool(posterior.model_at(chain=0, draw=5).emission.sd == posterior.parameters["sd"][0, 5])
        True
        """
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

    def offset(self, term: str | None = None) -> xr.Dataset:
        """What is added to the signal beside the rows: its mean, and bands of quantiles.

        Parameters
        ----------
        term : the name of one term, such as "smooth" or "periodic_50"; default: all together.

        Returns
        -------
        Dataset (site) of mean, low (5%) and high (95%).

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(
        ...     rows=ch.Switches(0.05, 0.05), emission=ch.Gaussian([1.0], sd=0.2), offset=[ch.Smooth(knots=4)]
        ... )
        >>> y = [0.01 * t for t in range(100)]
        >>> posterior = ch.sample(model, y, draws=50, warmup=50, chains=2, seed=1, progress=False)
        >>> mean = posterior.offset()["mean"].values
        >>> round(float(mean[99] - mean[0]), 1)
        1.0
        """
        return offset_bands(self.model, self.parameters, term)

    def levels(self) -> xr.DataArray:
        """Sum over rows of weight times value of the state, in every draw.

        Each draw has its own learned weights. The result is lazy if the draws are, or if it would be large.

        Returns
        -------
        DataArray (chain, draw, site); with channels, a last axis.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> posterior.levels().mean(("chain", "draw")).values.round(1).tolist()
        [0.0, 3.0, 3.0, 1.0]
        """
        self._rows()
        weights = self._weights()
        if weights is None:
            raise InvalidInput(
                "levels need the weights of an additive emission, and this posterior has none: its emission is a "
                "Table, or its model was not stored (then give it: ch.open_posterior(path, model=model)); rows_on() "
                "counts the rows that are on"
            )
        return signal_level(self.model, self._levels(self.codes, weights))

    def _levels(self, codes: xr.DataArray, weights: Floats | xr.DataArray) -> xr.DataArray:
        assert isinstance(self.model, FactorialHMM)
        rows = self.model.rows
        if isinstance(rows, SwitchRows):
            return configurations.levels(codes, weights)
        if rows.learns_levels or not isinstance(weights, np.ndarray):
            own = self.parameters.sel(chain=codes["chain"], draw=codes["draw"])
            return configurations.levels_of_draws(codes, self.layout, adds_of_draws(self.model, own))
        return configurations.levels_of_rows(codes, self.layout, rows.contributions(weights))

    @cached_property
    def merging(self) -> Merging:
        """Sorts the states of rows that cannot be told apart."""
        return Merging(self.layout, equal_rows(self.model))

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """(T,) sites with data; all sites if the data were not kept, or do not belong to the draws."""
        n_sites = self.draws.sizes["site"]
        if self.data is None or self.data.n_columns != n_sites:
            return np.ones(n_sites, bool)
        return ~self.data.missing

    def rows_on(self, row: int | str | None = None) -> xr.DataArray:
        """Number of rows in another state than 0, in every draw.

        Parameters
        ----------
        row : int or str, count only the rows that cannot be told from this one: a number, a name, or the name that
            copies have in common. Default: all rows, fixed ones included.

        Returns
        -------
        DataArray (chain, draw, site).

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> posterior.rows_on()[0, 0].values.tolist()
        [0, 2, 2, 1]

        How many of three equal channels are open:

        >>> channel, leak = ch.Row([0, 1], ch.Switch(0.1, 0.1), "channel", copies=3), ch.Row([0, 0.5], fixed=1)
        >>> model = ch.FactorialHMM(rows=[channel, leak], emission=ch.Gaussian(sd=0.2))
        >>> posterior = ch.sample(model, [0.6, 2.4, 2.6, 1.5], draws=100, seed=1, progress=False)
        >>> posterior.rows_on("channel")[0, 0].values.tolist()
        [0, 2, 2, 1]
        """
        counted = None if row is None else self._counted_with(row)
        return configurations.rows_on(self.codes, self.layout, counted)

    def count_probabilities(self, row: int | str) -> xr.DataArray:
        """Share of draws with 0, 1, 2, ... of the rows on that cannot be told from this one.

        Which of several equal rows is on means nothing; how many are on does.

        Parameters
        ----------
        row : int or str, number or name of one of the rows, or the name that copies have in common.

        Returns
        -------
        DataArray (count, site); every column sums to 1.

        Examples
        --------
        >>> import chiasma as ch
        >>> channel = ch.Row([0, 1], ch.Switch(0.1, 0.1), "channel", copies=3)
        >>> model = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.2))
        >>> posterior = ch.sample(model, [0.1, 1.9, 2.1, 1.0], draws=100, seed=1, progress=False)
        >>> posterior.count_probabilities("channel").argmax("count").values.tolist()
        [0, 2, 2, 1]
        """
        shares = configurations.count_shares(self.codes, self.layout, self._counted_with(row))
        return labelled("count_probabilities", shares, "count", "site")

    def _counted_with(self, row: int | str) -> list[int]:
        """The rows that cannot be told from this one, and the row itself; the copies of a name, if they are more."""
        k, copies = self._row(row), self._copies(row)
        group = next((group for group in self.merging.groups if k in group), [k])
        return group if set(copies) <= set(group) else copies

    def top_configurations(self, start: int, stop: int, n: int = 5) -> list[Configuration]:
        """The most probable configurations of a region: its rival explanations.

        Columns that differ only by exchanging equal rows count as one.

        Parameters
        ----------
        start, stop : int, the region is columns start..stop-1.
        n : int, how many configurations.

        Returns
        -------
        A list, the most probable first. Each has `probability`, `standard_error`, `states` (K, stop - start), `codes`.

        Examples
        --------
        One switch of weight 2 and two of weight 1 explain a level of 2:

        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.4, 0.4), emission=ch.Gaussian([1.0, 1.1, 2.0], sd=0.2))
        >>> posterior = ch.sample(model, [0.1, 2.0, 2.1, 0.0], draws=500, seed=1, progress=False)
        >>> for found in posterior.top_configurations(1, 3, n=2):
        ...     print(found.states.tolist())
        [[0, 0], [0, 0], [1, 1]]
        [[1, 1], [1, 1], [0, 0]]
        """
        return configurations.top_configurations(self.codes, self.layout, start, stop, n, self.merging)

    def segments(self, min_probability: float = 0.0) -> list[Segment]:
        """Runs of sites with the same most probable code; no run crosses a sequence start.

        Columns that differ only by exchanging equal rows count as one.

        Parameters
        ----------
        min_probability : float, leave out runs whose mean probability is below it.

        Returns
        -------
        A list. Each has `start`, `stop`, `states` (one per row), `probability` (the mean over its sites), `minimum`.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> [(found.start, found.stop, found.states) for found in posterior.segments()]
        [(0, 1, (0, 0)), (1, 3, (1, 1)), (3, 4, (1, 0))]
        """
        return segments.segments(*self._modes, self.layout, self._starts(), self.seen, min_probability)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks of the run noticed, the worst first; empty if they found no problem.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> posterior.findings
        ()
        """
        return self._summary.findings

    @property
    def trust(self) -> Trust:
        """How far the results can be trusted: "good", "limited" or "none". `findings` says why.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> posterior.trust
        'good'
        """
        return self._summary.trust

    @property
    def accuracy(self) -> float | None:
        """Mean probability of the most probable states at the sites with data: the accuracy that the model promises.

        None for vectors. Rows that cannot be told apart count by how many are on.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> round(posterior.accuracy, 2)
        1.0
        """
        if self.n_rows is None or not self.draws.size:
            return None
        share = self._modes[1]
        return float(share[self.seen].mean() if self.seen.any() else share.mean())

    @cached_property
    def _modes(self) -> tuple[Integers, Floats]:
        """(T,) most probable code of every site, and its probability."""
        return segments.modal_codes(self.codes, self.merging)

    def summary(self) -> Summary:
        """Whether to trust the run and why not, what was run, R-hat and effective sample sizes, learned parameters,
        health of the ladder, evidence, and whether the model fits the data.

        Diagnostics use the cold replica only, at no more than 200 sites.

        Returns
        -------
        Summary: print it, or use its to_dict(). Its first line says whether to trust the results.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> posterior.summary().headline
        'Trust: good. The reported states are right with a mean probability of 97.1%.'
        """
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        at_some = summary.some_sites(self.draws)
        series, weights = at_some, self._weights()
        if weights is not None:
            series = summary.tied(signal_level(self.model, self._levels(at_some, weights)))
        elif self.n_rows is not None:
            series = configurations.rows_on(at_some, self.layout)
        judged = (convergence(self.log_joint), convergence(series))
        parameters = summarise_parameters(self.parameters)
        found = None if self.n_rows is None else misfit.misfit(self)
        n_chains, n_draws, _ = self.draws.shape
        stats = self.exchange_stats
        moves = better_moves(self.info, self.betas, bool(parameters), wanted_rungs(stats))
        findings: list[Finding] = []
        if not self.info.get("independent"):
            findings += chain_findings(judged, parameters, n_chains, n_draws, moves)
        if self.n_rows is not None:
            findings += mode_findings(chains_apart(at_some, self.merging), self.layout, moves)
        findings += init_findings(self.info, n_chains)
        findings += connection_findings(self.info.get("optima", []), self.parameters)
        findings += ladder_findings(bool(self.info.get("follows_swaps")), stats)
        findings += evidence_findings(self.log_evidence, n_draws, self.betas, stats)
        findings += fit_findings(found, Traits.of(self.model))
        if isinstance(self.model, FactorialHMM) and self.model.offset is not None:
            findings += offset_findings(self.fitted_model, self.data)
        findings += spare_rows(self)
        findings += label_findings(self.model, self.parameters) or part_findings(self.parameters)
        findings += edge_findings(self.model, self.parameters)
        findings += conflict_findings(self.model, self.parameters)
        findings += tail_findings(self.model, self.parameters)
        return summary.summarise(
            draws=self.draws,
            convergences=judged,
            parameters=parameters,
            betas=self.betas,
            exchange_stats=stats,
            log_evidence=self.log_evidence,
            misfit=found,
            info=self.info,
            findings=in_order(findings),
            accuracy=self.accuracy,
        )

    def to_datatree(self) -> xr.DataTree:
        """The posterior for ArviZ and other packages.

        Lazy draws stay lazy; ArviZ needs its input in memory: `tree.sel(site=[10, 20]).load()`.

        Returns
        -------
        DataTree with the groups posterior (learned parameters, and the share of columns that each row is on), paths,
        log_likelihood (of every column given its states), posterior_predictive, sample_stats, observed_data and
        constant_data.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=100, seed=1, progress=False)
        >>> tree = posterior.to_datatree()
        >>> tree["posterior"]["time_on"].mean(("chain", "draw")).values.round(1).tolist()
        [0.8, 0.5]
        >>> sorted(tree["paths"].data_vars)
        ['codes', 'level', 'rows_on']
        """
        return export.to_datatree(self, self._weights() if self.n_rows is not None else None)

    def save(self, path: str | Path) -> None:
        """Write the run to a new Zarr store, the one that `ch.sample(..., store=path)` would have written.

        `ch.open_posterior(path)` reads it, and sampling can continue with `store=path, resume=True`. A posterior that
        was opened from a store is copied with all its draws.

        Parameters
        ----------
        path : a directory that does not exist yet.

        Examples
        --------
        >>> import tempfile
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
        >>> posterior = ch.sample(model, [0.1, 2.9, 3.2], draws=5, seed=1, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posterior.save(f"{folder}/run.zarr")
        ...     ch.open_posterior(f"{folder}/run.zarr")
        Posterior(4 chains x 5 draws x 3 sites, 1 replica, log evidence -5.891)
        """
        if self._save is None:
            raise InvalidInput("only a posterior of ch.sample or ch.open_posterior can be saved; pickle this one")
        self._save(path)

    def _weights(self) -> Floats | xr.DataArray | None:
        """The weights of the emission, or of every draw if they are learned."""
        emission = self.model.emission if isinstance(self.model, FactorialHMM) else None
        if not isinstance(emission, Additive):
            return None
        return self.parameters.get("weights", emission.weights)

    def _starts(self) -> Integers:
        return np.zeros(1, np.int64) if self.data is None else self.data.starts

    def _one_row(self, row: int | str) -> int:
        """The number of a row given by its number or its own name: copies are equal, and none represents all."""
        copies = self._copies(row)
        if copies:
            names = self._names
            first, last = names[copies[0]], names[copies[-1]]
            raise InvalidInput(
                f"{row!r} is the name of {len(copies)} rows, {first} to {last}: give the name of one, or ask how many "
                f"of them are on: rows_on({row!r}) in every draw, count_probabilities({row!r}) of all draws"
            )
        return self._row(row)

    def _copies(self, row: int | str) -> list[int]:
        """The rows NAME_1, NAME_2, ... where NAME is given, and no row has that name itself."""
        names = self._names
        return [] if row in names else [k for k, name in enumerate(names) if name.removeprefix(f"{row}_").isdigit()]

    def _row(self, row: int | str) -> int:
        """The number of a row given by its number or name; a common name of copies means the first."""
        names = self._names
        if isinstance(row, str):
            found = [names.index(row)] if row in names else self._copies(row)
            if not found:
                raise InvalidInput(f"there is no row {row!r}; this posterior has {', '.join(map(repr, names))}")
            return found[0]
        if not 0 <= row < self._rows():
            raise InvalidInput(f"row must be in 0..{self._rows() - 1}, got {row}")
        return row

    @property
    def n_rows(self) -> int | None:
        """Rows of a path; None for plain vectors."""
        return self.info.get("n_rows")

    @property
    def _names(self) -> list[str]:
        """Names of the rows as tables print them."""
        return self.info.get("row_names") or [f"row_{k}" for k in range(self._rows())]

    def _rows(self) -> int:
        if self.n_rows is None:
            raise InvalidInput("this posterior is over plain vectors and has no rows; its draws are in .draws")
        return self.n_rows

    def __repr__(self) -> str:
        evidence = f", log evidence {self.log_evidence.value:.3f}" if self.log_evidence else ""
        lacks = "" if self.model is not None else f", {NO_MODEL}"
        return f"Posterior({' x '.join(self._sizes())}, {count(len(self.betas), 'replica')}{evidence}{lacks})"

    def _sizes(self) -> list[str]:
        """Numbers of chains, draws and sites in words; vectors have coordinates in place of sites."""
        n_chains, n_draws, n_sites = self.draws.shape
        place = "coordinate" if self.n_rows is None else "site"
        return [count(n_chains, "chain"), count(n_draws, "draw"), count(n_sites, place)]

    def _repr_html_(self) -> str:
        """What was run and learned. Nothing large is read: `summary()` says whether to trust it."""
        rows = "" if self.n_rows is None else f", {count(self.n_rows, 'row')}"
        facts = [
            ("draws", f"{' × '.join(self._sizes())}{rows}"),
            ("plan", self.info.get("plan", "")),
            ("replicas", f"{len(self.betas)} per chain"),
            ("seed", str(self.info.get("seed", ""))),
        ]
        if self.log_evidence is not None:
            value, error = self.log_evidence
            facts.append(("log evidence", f"{value:.3f} ({f'± {error:.2g}' if error else 'exact'})"))
        if self.model is None:
            facts.append(("model", NO_MODEL))
        for name, drawn in self.parameters.items():
            mean, sd = (function(("chain", "draw")).values for function in (drawn.mean, drawn.std))
            facts.append((str(name), f"{value_text(mean)} (posterior mean), {value_text(sd)} (sd)"))
        return html_facts("Posterior", facts)
