"""From a recording to an answer: how many channels, their current and rates, and an idealised trace.

For every number of channels there is one model: n equal channels, collapsed into a count, Gaussian noise, a smooth
drift and mains hum if the recording has any. Laplace's evidence compares them. Everything else is read off the best
model: rates from its optimum and the curvature there, the trace from the exact posterior of every sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy  # submodules load on first use

from chiasma import exact
from chiasma.channels.kinetics import Dwells, Ensemble, rates_of_switch
from chiasma.channels.recordings import Recording
from chiasma.errors import InvalidInput
from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.offsets import Periodic, Smooth
from chiasma.models.parameters import Parameters
from chiasma.models.priors import Beta, HalfNormal
from chiasma.models.row_chains import Switch
from chiasma.models.rows import Row
from chiasma.results.findings import Finding, Trust, trust_in
from chiasma.results.optima import Optimum
from chiasma.sampling.optimise import optimise
from chiasma.types import Floats, Integers, shown

Polarity = Literal["up", "down"]
MOST_CHANNELS = 8
# A long recording is scanned with every number of channels on this many samples first.
SCANNED = 15_000
# Coefficients of the drift per second of recording, within these limits.
KNOTS_PER_SECOND, KNOTS = 6.0, (8, 240)
# Draws from the normal approximation around the optimum, for intervals of rates.
N_DRAWS = 4000
STARTS = 12


@dataclass(frozen=True, kw_only=True)
class ChannelFit:
    """The best optimum for one number of channels."""

    n_channels: int
    log_evidence: float
    optimum: Optimum
    parameters: Parameters


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A quantity with a 90% interval."""

    name: str
    value: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True, kw_only=True)
class ChannelAnswer:
    """What a recording says about its channels.

    Parameters
    ----------
    recording : the recording.
    fits : the best fit for every number of channels that was tried, from 0.
    probabilities : of these numbers, with equal prior probabilities.
    n_channels : the most probable number.
    n_open, probability : (T,) the number of open channels at every sample, and its posterior probability.
    estimates : unit current, noise, rates, open probability.
    dwells : stretches of the idealised trace.
    ensemble : the kinetics of all channels together; None without channels.

    Examples
    --------
    >>> import chiasma as ch
    >>> channel = ch.Row([0, 1.0], ch.Switch(0.02, 0.04))
    >>> _, y = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.2)).simulate(1000, seed=1)
    >>> answer = ch.channels.analyse(ch.channels.Recording(current=y, step=1e-3), channels=(1, 1), progress=False)
    >>> [one.name for one in answer.estimates][:2], answer.promised_accuracy > 0.98
    (['unit current', 'noise sd'], True)
    """

    recording: Recording
    fits: tuple[ChannelFit, ...]
    probabilities: dict[int, float]
    n_channels: int
    n_open: Integers
    probability: Floats
    estimates: tuple[Estimate, ...]
    dwells: Dwells
    ensemble: Ensemble | None

    @property
    def best(self) -> ChannelFit:
        """The fit with the most probable number of channels."""
        return next(fit for fit in self.fits if fit.n_channels == self.n_channels)

    @property
    def promised_accuracy(self) -> float:
        """Mean posterior probability of the reported numbers of open channels."""
        return float(self.probability.mean())

    @cached_property
    def offset(self) -> Floats:
        """(T,) drift and hum that were found."""
        found = self.best.optimum.model.offset
        return np.zeros(len(self.n_open)) if found is None or found.curve is None else found.curve

    @property
    def found(self) -> tuple[str, ...]:
        """What was found besides channels, in words: the mains hum."""
        offset = self.best.optimum.model.offset
        return () if offset is None or offset.bound is None else offset.bound.found

    @property
    def missed_events(self) -> float:
        """Events that were too short to be seen: those that the fit expects, less those in the idealised trace."""
        if self.ensemble is None:
            return 0.0
        return max(self.ensemble.events_per_second * self.recording.seconds - self.dwells.n_events, 0.0)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Whether the best model fits the recording, the worst finding first."""
        return self.best.optimum.check(self.recording.data)

    @property
    def trust(self) -> Trust:
        """Whether its probabilities can be trusted: "good", "limited" or "none"; `findings` say why."""
        return trust_in(self.findings)

    @property
    def never_all_open(self) -> bool:
        """Whether fewer than all channels were ever open at once, so that more may exist."""
        return int(self.n_open.max(initial=0)) < self.n_channels


def analyse(
    recording: Recording,
    *,
    channels: tuple[int, int] = (0, MOST_CHANNELS),
    polarity: Polarity = "up",
    knots: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> ChannelAnswer:
    """Find the number of channels of a recording, their current and rates, and an idealised trace.

    Parameters
    ----------
    recording : ch.channels.read_recording(path) makes it.
    channels : the smallest and the largest number of channels to try.
    polarity : whether openings go "up" or "down". With a baseline that drifts the data cannot tell.
    knots : coefficients of the drift. Default: six per second.
    seed : of the starts of the search.
    workers : threads; default: one per core.
    progress : say how far it is, on stderr.

    Returns
    -------
    ChannelAnswer.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> channel = ch.Row([0, 1.0], ch.Switch(0.02, 0.04), copies=2)
    >>> _, y = ch.FactorialHMM(rows=[channel], emission=ch.Gaussian(sd=0.2)).simulate(1500, seed=1)
    >>> answer = ch.channels.analyse(ch.channels.Recording(current=y, step=1e-3), channels=(1, 2), progress=False)
    >>> answer.n_channels
    2
    """
    least, most = _limits(channels)
    if polarity not in ("up", "down"):
        raise InvalidInput(f"polarity must be 'up' or 'down', got {shown(polarity)}")
    seen = recording.current[~np.isnan(recording.current)]
    if not len(seen):
        raise InvalidInput(f"{recording.name} has no samples that are not missing; check how it was read")
    if np.ptp(seen) == 0:
        raise InvalidInput(f"{recording.name} is constant ({seen[0]:g}): there is no channel activity in it")
    sign = 1.0 if polarity == "up" else -1.0
    search = ChannelSearch(recording, sign, knots, seed, workers, progress)
    first = search.guess(least, most) if len(recording.current) > 2 * SCANNED else least
    return _answer(recording, search.around(first, least, most))


def _limits(channels: tuple[int, int]) -> tuple[int, int]:
    least, most = channels
    if not 0 <= least <= most or most > 63 or most < 1:
        raise InvalidInput(f"channels must be two numbers such as (1, 8), got {shown(channels)}")
    return least, most


@dataclass(frozen=True)
class ChannelSearch:
    """Fits of one recording with any number of channels."""

    recording: Recording
    sign: float
    knots: int | None
    seed: int
    workers: int | None
    progress: bool

    def fit(self, n: int) -> ChannelFit:
        model = model_of(self.recording, n, self.sign, self.knots).for_data(self.recording.data)
        starts = STARTS if n else 4
        best = optimise(
            model, self.recording.data, starts=starts, seed=self.seed, workers=self.workers, progress=self.progress
        ).best
        return ChannelFit(n_channels=n, log_evidence=best.log_evidence, optimum=best, parameters=model.parameters)

    def guess(self, least: int, most: int) -> int:
        """The most probable number on an excerpt: rather too small, because all channels are rarely open in it."""
        part = replace(self, recording=_excerpt(self.recording, SCANNED))
        return max(_rising(part.fit, least, most), key=lambda fit: fit.log_evidence).n_channels

    def around(self, first: int, least: int, most: int) -> list[ChannelFit]:
        """From one less than `first` upwards until more channels explain no more; downwards if that was too many."""
        fits = _rising(self.fit, max(first - 1, least), most)
        while fits[0].n_channels > least and fits[0].log_evidence >= max(fit.log_evidence for fit in fits):
            fits.insert(0, self.fit(fits[0].n_channels - 1))
        return fits


def _rising(fit: Callable[[int], ChannelFit], first: int, most: int) -> list[ChannelFit]:
    """Fits with more and more channels, until the evidence has fallen twice."""
    fits = [fit(first)]
    falls = 0
    while fits[-1].n_channels < most and falls < 2:
        fits.append(fit(fits[-1].n_channels + 1))
        # A channel that is never open costs little: only the second fall says that more will not help.
        falls = falls + 1 if fits[-1].log_evidence < fits[-2].log_evidence else 0
    return fits


def _excerpt(recording: Recording, n: int) -> Recording:
    """The samples in the middle, as one sweep."""
    first = (len(recording.current) - n) // 2
    return replace(recording, current=recording.current[first : first + n], starts=np.zeros(1, np.int64))


def model_of(recording: Recording, n: int, sign: float, knots: int | None = None) -> FactorialHMM:
    """n equal channels with drift and hum; with none, a row that changes nothing."""
    seen = recording.current[~np.isnan(recording.current)]
    low, high = np.quantile(seen, [0.005, 0.995])
    width = float(high - low) or float(np.std(seen))
    noise = float(np.median(np.abs(np.diff(seen)))) or width
    if n == 0:
        rows = [Row([0, 0], Switch(0.5, 0.5), name="nothing")]
    else:
        chain = Switch(Beta(1, 9).shared("opening"), Beta(1, 9).shared("closing"))
        unit = HalfNormal(width).shared("unit_current")
        rows = [Row([0, sign], chain, name="channel", copies=n, weight=unit)]
    wanted = knots or int(np.clip(KNOTS_PER_SECOND * recording.seconds, *KNOTS))
    wanted = min(wanted, len(recording.current))
    offset: list[Smooth | Periodic] = [Smooth(knots=wanted)]
    if recording.step < 1 / 120:
        offset.append(Periodic("mains", knots=max(wanted * 2 // 3, 1)))
    return FactorialHMM(rows=rows, emission=Gaussian(sd=HalfNormal(3 * noise)), offset=offset)


def _answer(recording: Recording, fits: list[ChannelFit]) -> ChannelAnswer:
    evidences = np.array([fit.log_evidence for fit in fits])
    shares = scipy.special.softmax(evidences)
    best = fits[int(np.argmax(evidences))]
    n = best.n_channels
    data = recording.data
    if n == 0:
        n_open, probability = np.zeros(data.n_columns, np.int64), np.ones(data.n_columns)
    else:
        counts = exact.count_probabilities(best.optimum.model, data, 0)
        n_open, probability = counts.argmax(axis=0), counts.max(axis=0)
    estimates = tuple(_estimates(best, recording))
    known = {one.name: one.value for one in estimates}
    ensemble = None
    if n:
        opening, closing = known["opening rate"], known["closing rate"]
        rates = np.array([[-opening, opening], [closing, -closing]])
        ensemble = Ensemble.of(rates, np.array([False, True]), n)
    return ChannelAnswer(
        recording=recording,
        fits=tuple(fits),
        probabilities={fit.n_channels: float(share) for fit, share in zip(fits, shares, strict=True)},
        n_channels=n,
        n_open=n_open,
        probability=probability,
        estimates=estimates,
        dwells=Dwells.of(n_open, data.starts, recording.step),
        ensemble=ensemble,
    )


def _estimates(fit: ChannelFit, recording: Recording) -> Iterator[Estimate]:
    """At the optimum, with intervals from the normal approximation around it."""
    drawn, top = _draws(fit)
    unit = recording.unit
    if fit.n_channels:
        yield _estimate("unit current", top["unit_current"], drawn["unit_current"], unit)
    yield _estimate("noise sd", top["sd"], drawn["sd"], unit)
    if not fit.n_channels:
        return
    pairs = zip(drawn["opening"], drawn["closing"], strict=True)
    rates = np.array([rates_of_switch(float(a), float(b), recording.step) for a, b in pairs])
    opening, closing = rates_of_switch(float(top["opening"]), float(top["closing"]), recording.step)
    yield _estimate("opening rate", opening, rates[:, 0], "per second")
    yield _estimate("closing rate", closing, rates[:, 1], "per second")
    yield _estimate("open probability", opening / (opening + closing), rates[:, 0] / rates.sum(axis=1), "")


def _estimate(name: str, value: float | Floats, drawn: Floats, unit: str) -> Estimate:
    low, high = np.quantile(drawn, [0.05, 0.95])
    return Estimate(name=name, value=float(value), low=float(low), high=float(high), unit=unit)


def _draws(fit: ChannelFit) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Parameters of rows and noise drawn around the optimum, and at it, by name."""
    optimum, parameters = fit.optimum, fit.parameters
    n_own = len(optimum.covariance)
    whole = parameters.to_free(parameters.centre)
    rng = np.random.default_rng(0)
    free = rng.multivariate_normal(optimum.free[:n_own], optimum.covariance, size=N_DRAWS, method="eigh")
    names = [slot.name for slot in parameters.slots if slot.free.stop <= n_own]
    drawn: dict[str, list[Floats]] = {name: [] for name in names}
    for one in free:
        whole[:n_own] = one
        values = parameters.unpack(parameters.from_free(whole))
        for name in names:
            drawn[name].append(values[name])
    return {name: np.array(values) for name, values in drawn.items()}, {name: optimum.values[name] for name in names}
