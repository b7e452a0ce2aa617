"""From a recording to an answer: how many channels, their current and rates, and an idealised trace.

For every number of channels there is one model: n equal channels, collapsed into a count, Gaussian noise, a smooth
drift and mains hum if the recording has any. Laplace's evidence compares them. Everything else is read off the best
model: rates from its optimum and the curvature there, the trace from the exact posterior of every sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy  # submodules load on first use

from chiasma import exact
from chiasma.channels.kinetics import Dwells, Ensemble, Kinetics, Scheme, stationary
from chiasma.channels.recordings import Recording
from chiasma.errors import InvalidInput
from chiasma.models.chains import Switch
from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.hum import Mains, find_mains
from chiasma.models.observations import Observations
from chiasma.models.offsets import Periodic, Smooth
from chiasma.models.priors import HalfNormal, mixed
from chiasma.models.rows import Row
from chiasma.results.findings import Finding, Set, Trust, in_order, trust_in
from chiasma.results.optima import Optimum
from chiasma.sampling.excerpts import excerpt, stretches
from chiasma.sampling.learning import Learning
from chiasma.sampling.offset_search import (
    Place,
    carry,
    climb_together,
    peak_with_offset,
    polish,
    settled,
    tilings,
    with_curve,
    without_hum,
)
from chiasma.sampling.optimise import as_optima, optimise
from chiasma.sampling.progress import Progress
from chiasma.types import Floats, Integers, shown

Polarity = Literal["up", "down"]
MOST_CHANNELS = 8
# Samples, and different values among them, at least.
FEWEST, FEWEST_VALUES = 100, 10
# A recording that is half as long again is scanned with every number of channels on this many samples first: the
# stretches that change most over so many samples.
SCANNED, PIECES, LAG = 24_000, 4, 10
# Numbers of channels are compared on so many samples, at most half as many again.
COMPARED = 200_000
# Coefficients of the drift per second of recording, within these limits.
KNOTS_PER_SECOND, KNOTS = 6.0, (8, 240)
# Draws from the normal approximation around the optimum, for intervals of rates.
N_DRAWS = 4000
# Starts of a search from nowhere; iterations of a climb from the fit with another number of channels.
STARTS, NEARBY = 12, 10
# Rounds and iterations of the last climb. Smoothnesses settle slowly: after four rounds under strong hum, 34 nats were
# missing, more than there are between two numbers of channels.
POLISH = 12, 20
# Below this probability the number of channels is not settled.
SETTLED = 0.9
# All channels count as open (or closed) at once if at least FEW samples give that a probability above SURELY.
SURELY, FEW = 0.99, 3
# Dwell times differ from those of the scheme by this much in distribution, with a probability below RARE.
APART, RARE = 0.05, 1e-4


@dataclass(frozen=True, kw_only=True)
class ChannelFit:
    """The best optimum for one number of channels.

    counts : whether the number can be the answer; see `ChannelSearch.is_supported`.
    """

    n_channels: int
    log_evidence: float
    optimum: Optimum
    model: FactorialHMM
    counts: bool = True

    @property
    def log_mass(self) -> float:
        """Evidence times prior. The prior of a count is 1/n: with equal ones, many channels that hardly ever open
        would often be more probable than the few that were seen.
        """
        return self.log_evidence - float(np.log(max(self.n_channels, 1)))

    def residual(self, data: Observations, scheme: Scheme) -> Floats:
        """(T,) what the offset and the expected current of the channels leave."""
        placed = self.optimum.model
        assert placed.offset is not None
        assert placed.offset.curve is not None
        left = data.y - placed.offset.curve
        if not self.n_channels:
            return left
        values = self.optimum.values
        each = exact.count_probabilities(placed, data, 0)
        shares = Ensemble.compositions_of(len(scheme.states), self.n_channels) @ values.get(
            "channel.values", scheme.conducts
        )
        return np.asarray(left - float(values["unit_current"]) * (shares @ each))


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
    probabilities : of these numbers n, whose prior is proportional to 1/n (0 has that of 1). Those that do not count
        are left out: their channels were never all open, or never all closed, and dwell times contradict the scheme.
    n_channels : the most probable number.
    n_open, n_sub, probability : (T,) how many channels conduct at every sample, how many of these only partly (in a
        subconductance state), and the posterior probability of both.
    scheme : the states of one channel.
    mains : the hum that was found.
    estimates : unit current, noise, rates, open probability.
    dwells : stretches of the idealised trace.
    ensemble : the kinetics of all channels together; None without channels.
    sign : 1 if openings go up, -1 if they go down.

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
    scheme: Scheme
    mains: Mains
    n_open: Integers
    n_sub: Integers
    probability: Floats
    estimates: tuple[Estimate, ...]
    dwells: Dwells
    ensemble: Ensemble | None
    sign: float = 1.0

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
        assert found is not None
        assert found.curve is not None
        return self.sign * found.curve

    @cached_property
    def level(self) -> Floats:
        """(T,) the idealised current, drift and hum included."""
        if not self.n_channels:
            return self.offset
        values = self.best.optimum.values
        unit, partly = float(values["unit_current"]), values.get("channel.values", np.ones(1))
        share = float(next((v for v in np.ravel(partly) if 0 < v < 1), 1.0))
        return self.offset + self.sign * unit * (self.n_open - (1 - share) * self.n_sub)

    @property
    def missed_events(self) -> float:
        """Events that were too short to be seen: those that the fit expects, less those in the idealised trace."""
        if self.ensemble is None:
            return 0.0
        return max(self.ensemble.events_per_second * self.recording.seconds - self.dwells.n_events, 0.0)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Whether the best model fits the recording, and how sure the number of channels is, the worst first."""
        data = oriented(self.recording, self.sign)
        # General remedies are no options here, but one is: a more flexible drift.
        found = [replace(one, remedies=()) for one in self.best.optimum.check(data)]
        for i, one in enumerate(found):
            if one.code == "drift":
                knots = min(4 * data.n_columns // one.facts["length"], 3 * KNOTS[1])
                found[i] = replace(one, remedies=(Set("knots", knots),))
            elif one.code == "noise-by-level" and "channel.spread" not in self.best.optimum.values:
                found[i] = replace(one, remedies=(Set("open_noise", True),))
        share = self.probabilities[self.n_channels]
        if share < SETTLED:
            found.append(Finding("number-unsure", "limited", {"n": self.n_channels, "share": share}))
        if self.ensemble is not None:
            if self.never_all_open:
                found.append(
                    Finding(
                        "never-all-open", "limited", {"most": int(self.n_open.max(initial=0)), "n": self.n_channels}
                    )
                )
            away = dwells_apart(self.best.optimum.model, data, self.ensemble, self.scheme, self.recording.step)
            if away is not None:
                facts = {"k": away[0], "distance": away[1], "scheme": str(self.scheme)}
                found.append(Finding("dwell-times", "limited", facts, (Set("scheme", "C-C-O"),)))
        return in_order(found)

    @property
    def trust(self) -> Trust:
        """Whether its probabilities can be trusted: "good", "limited" or "none"; `findings` say why."""
        return trust_in(self.findings)

    @property
    def not_counted(self) -> tuple[int, ...]:
        """Numbers that explain the recording better but do not count."""
        return tuple(fit.n_channels for fit in self.fits if not fit.counts)

    @property
    def never_all_open(self) -> bool:
        """Whether fewer than all channels were ever open at once, so that more may exist."""
        return int(self.n_open.max(initial=0)) < self.n_channels


def analyse(
    recording: Recording,
    *,
    channels: tuple[int, int] = (0, MOST_CHANNELS),
    scheme: str = "C-O",
    open_noise: bool = False,
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
    scheme : the states of one channel and the moves between them: C closed, O open, S a subconductance, joined by
        dashes. "C-C-O" has two closed states; "C1-C2-O,C1-O" a loop.
    open_noise : whether open channels add noise, which is then learned.
    polarity : whether openings go "up" or "down". A drifting baseline hides the direction.
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
    if len(seen) < FEWEST:
        raise InvalidInput(f"{recording.name} has {len(seen)} samples; channels need at least {FEWEST}")
    if (n_values := len(np.unique(seen))) < FEWEST_VALUES:
        raise InvalidInput(
            f"{recording.name} has only {n_values} different values: it is idealised already, or digitised too "
            "coarsely to show its noise; give the current as it was recorded"
        )
    sign = 1.0 if polarity == "up" else -1.0
    display = Progress(progress, "channels", seed)
    search = ChannelSearch(
        recording, Scheme.parse(scheme), find_mains(recording.data), open_noise, sign, knots, seed, workers, display
    )
    try:
        return _answer(*search.fits(least, most))
    finally:
        display.close()


def _limits(channels: tuple[int, int]) -> tuple[int, int]:
    least, most = channels
    if not 0 <= least <= most or most > 63 or most < 1:
        raise InvalidInput(f"channels must be two numbers such as (1, 8), got {shown(channels)}")
    return least, most


def oriented(recording: Recording, sign: float) -> Observations:
    """The data with openings upwards."""
    data = recording.data
    return data if sign > 0 else data.with_signal(-data.y)


@dataclass(frozen=True)
class ChannelSearch:
    """Fits of one recording with any number of channels."""

    recording: Recording
    scheme: Scheme
    mains: Mains
    open_noise: bool
    sign: float
    knots: int | None
    seed: int
    workers: int | None
    display: Progress

    @cached_property
    def data(self) -> Observations:
        return oriented(self.recording, self.sign)

    def model(self, n: int) -> FactorialHMM:
        return model_of(self.recording, self.data, n, self.scheme, self.mains, self.open_noise, self.knots).for_data(
            self.data
        )

    def fit(self, n: int) -> ChannelFit:
        """The best optimum that several starts lead to."""
        model = self.model(n)
        starts = STARTS if n else 2
        found = optimise(model, self.data, starts=starts, seed=self.seed, workers=self.workers, progress=False)
        return self._said(n, model, found.best)

    def near(self, n: int, other: ChannelFit) -> ChannelFit:
        """The best optimum near the fit with another number of channels."""
        learning = Learning(self.model(n), self.data)
        climbs = [climb_together(learning, free, NEARBY, smoothness=True) for free in _guesses(learning, n, other)]
        return self._polished(n, learning, climbs)

    def carried(self, n: int, other: ChannelFit) -> ChannelFit:
        """The best optimum near the current, noise and rates of a fit of an excerpt, whatever its drift was."""
        learning = Learning(self.model(n), self.data)
        whole = excerpt(learning, tilings(learning)[0])
        own = _with_values(whole.learning, other)
        centre = _with_values(learning, other)
        curves = carry(whole, own, without_hum(whole))
        places = [settled(learning, with_curve(learning, own, curve, centre)) for curve in curves]
        return self._polished(n, learning, places)

    def _polished(self, n: int, learning: Learning, places: list[Place]) -> ChannelFit:
        best = polish(learning, max(places, key=lambda place: place.log_density), *POLISH)
        peak = peak_with_offset(learning, best.free)
        return self._said(n, learning.model, as_optima(learning, [(peak, 1)], 1).best)

    def _said(self, n: int, model: FactorialHMM, optimum: Optimum) -> ChannelFit:
        samples, height = len(self.recording.current), optimum.log_evidence
        self.display.say(f"{n} channel{'s' * (n != 1)}, {samples:,} samples: log evidence {height:,.1f}")
        return ChannelFit(n_channels=n, log_evidence=height, optimum=optimum, model=model)

    def fits(self, least: int, most: int) -> tuple[ChannelSearch, list[ChannelFit]]:
        """For the numbers of channels around the most probable one, in order; and the search, with hum that it found.

        An excerpt says rather too small a number, because all channels are rarely open in it. So the search goes on
        from there on the whole recording, upwards until more channels explain no more. Of a very long one, an excerpt
        decides, and only the best number is fitted to all of it.
        """
        samples = len(self.recording.current)
        if samples > 1.5 * COMPARED:
            part, fits = replace(self, recording=_excerpt(self.recording, COMPARED)).fits(least, most)
            best = _best({fit.n_channels: fit for fit in fits})
            search = replace(self, mains=part.mains)
            whole = search.carried(best.n_channels, best) if best.n_channels else search.fit(0)
            return search, [replace(whole, log_evidence=fit.log_evidence) if fit is best else fit for fit in fits]
        is_long = samples > 1.5 * SCANNED
        part = replace(self, recording=_excerpt(self.recording, SCANNED)) if is_long else self
        found = part.scan(least, most)
        while (best := _best(found)).n_channels > min(found) and not part.is_supported(best):
            found = {n: replace(fit, counts=fit.counts and n < best.n_channels) for n, fit in found.items()}
        search = replace(self, mains=part.mains_beside(best))
        return search, search.around(best, least, most) if is_long or search.mains != self.mains else _in_order(found)

    def mains_beside(self, fit: ChannelFit) -> Mains:
        """The hum of the recording, or else what is left of it by a fit: channels may hide a weak one."""
        if self.mains.frequency is not None:
            return self.mains
        left = find_mains(self.data.with_signal(fit.residual(self.data, self.scheme)))
        if left.frequency is None:
            return self.mains
        self.display.say(f"{left.text}, in what the channels leave")
        return left

    def scan(self, least: int, most: int) -> dict[int, ChannelFit]:
        """More and more channels, until the evidence has fallen twice. One is searched from many starts, because
        nothing is known; others begin with what one fewer found.
        """
        found = {n: self.fit(n) for n in range(min(least, 1), min(most, 1) + 1)}
        n = max(found)
        while n < most and not _fell_twice(found, n + 1):
            n += 1
            found[n] = self.near(n, found[n - 1])
        return {n: fit for n, fit in found.items() if n >= least}

    def around(self, first: ChannelFit, least: int, most: int) -> list[ChannelFit]:
        """Fits on either side of the best one, each from its neighbour; whatever becomes the best is carried anew."""
        n = first.n_channels
        found, carried = {n: self.carried(n, first) if n else self.fit(0)}, {n}
        left_out: list[ChannelFit] = []
        while True:
            while max(found) < most and not _fell_twice(found, max(found) + 1):
                n = max(found) + 1
                fit = self.near(n, found[n - 1]) if n > 1 else self.fit(1)
                if fit.log_mass > _best(found).log_mass and not self.is_supported(fit):
                    most = n - 1
                    left_out.append(replace(fit, counts=False))
                else:
                    found[n] = fit
            best = _best(found).n_channels
            if best == min(found) > least:
                found[best - 1] = self.near(best - 1, found[best]) if best > 1 else self.fit(0)
            elif best in carried or not best:
                return [*_in_order(found), *left_out]
            else:
                carried.add(best)
                found[best] = max(found[best], self.carried(best, found[best]), key=lambda fit: fit.log_evidence)

    def is_supported(self, fit: ChannelFit) -> bool:
        """Whether all channels were surely open at once, and all closed, or the kinetics, from which their number
        follows otherwise, are those of the scheme. Bursts, or openings that crowd in parts of a recording, would pass
        for more channels; so would a baseline that is one channel too low, as if that one never closed.
        """
        n = fit.n_channels
        if not n:
            return True
        ensemble = _ensemble(fit, self.scheme, self.recording.step)
        each = exact.count_probabilities(fit.optimum.model, self.data, 0)
        extremes = [each[ensemble.n_open == k].sum(axis=0) for k in (0, n)]
        if all(np.count_nonzero(one > SURELY) >= FEW for one in extremes):
            return True
        return dwells_apart(fit.optimum.model, self.data, ensemble, self.scheme, self.recording.step) is None


def _best(found: dict[int, ChannelFit]) -> ChannelFit:
    return max((fit for fit in found.values() if fit.counts), key=lambda fit: fit.log_mass)


def _in_order(found: dict[int, ChannelFit]) -> list[ChannelFit]:
    return [found[n] for n in sorted(found)]


def _ensemble(fit: ChannelFit, scheme: Scheme, step: float) -> Ensemble:
    return Ensemble.of(scheme.rates(fit.optimum.values["rates"] / step), scheme.conducts, fit.n_channels)


def _fell_twice(found: dict[int, ChannelFit], n: int) -> bool:
    """Whether fewer channels than n explained more, twice: one that is never open costs little."""
    three = [found[m].log_evidence for m in range(n - 3, n) if m in found]
    return len(three) == 3 and three[0] > three[1] > three[2]


def _guesses(learning: Learning, n: int, other: ChannelFit) -> list[Floats]:
    """Free coordinates for n channels, from a fit with m others: further channels are nearly always closed, or nearly
    always open below a lower baseline, or all have smaller steps.
    """
    parameters, m = learning.parameters, other.n_channels
    named = parameters.unpack(parameters.from_free(_with_values(learning, other)))
    chain = other.model.rows.given[0].chain
    assert isinstance(chain, Kinetics)
    conducts = chain.scheme.conducts
    opens = np.array([not conducts[a] and conducts[b] for a, b in chain.scheme.moves])
    closes = np.array([conducts[a] and not conducts[b] for a, b in chain.scheme.moves])
    unit, rates, drift = named["unit_current"], named["rates"], named["smooth"]
    changes = [
        {"rates": np.where(opens, rates * m / n, rates)},
        {"rates": np.where(closes, rates * m / n, rates), "smooth": drift - (n - m) * unit},
        {"unit_current": unit * m / n},
    ]
    told = [named | change for change in changes]
    return [parameters.to_free(np.concatenate([np.ravel(own[slot.name]) for slot in parameters.slots])) for own in told]


def _with_values(learning: Learning, other: ChannelFit) -> Floats:
    """Free coordinates with the values of another fit, as far as they have the same shape."""
    parameters = learning.parameters
    named = parameters.unpack(parameters.centre)
    for name, value in other.optimum.values.items():
        if name in named and np.shape(value) == np.shape(named[name]):
            named[name] = value
    return parameters.to_free(np.concatenate([np.ravel(named[slot.name]) for slot in parameters.slots]))


def _excerpt(recording: Recording, n: int) -> Recording:
    """The stretches in which the current changes most within a millisecond or so, as sweeps: n samples in all."""
    pieces = stretches(recording.data, n // PIECES)
    y = recording.current
    changes = [np.nan_to_num(np.nanmean(np.square(y[a + LAG : b] - y[a : b - LAG]))) for a, b in pieces]
    chosen = [pieces[i] for i in sorted(np.argsort(changes)[-PIECES:])]
    starts = np.cumsum([0, *(b - a for a, b in chosen[:-1])])
    return replace(recording, current=np.concatenate([y[a:b] for a, b in chosen]), starts=starts)


def model_of(
    recording: Recording,
    data: Observations,
    n: int,
    scheme: Scheme,
    mains: Mains,
    open_noise: bool,
    knots: int | None = None,
) -> FactorialHMM:
    """n equal channels with drift and hum; with none, a row that changes nothing."""
    seen = data.y[~np.isnan(data.y)]
    low, high = np.quantile(seen, [0.005, 0.995])
    width = float(high - low) or float(np.std(seen))
    noise = float(np.median(np.abs(np.diff(seen)))) or width
    if n == 0:
        rows = [Row([0, 0], Switch(0.5, 0.5), name="nothing")]
    else:
        unit = HalfNormal(width).shared("unit_current")
        spread = None
        if open_noise:
            spread = mixed("spread", [HalfNormal(2 * noise) if one else 0.0 for one in scheme.conducts])
        rows = [Row(scheme.values, Kinetics(scheme), name="channel", copies=n, weight=unit, spread=spread)]
    wanted = knots or int(np.clip(KNOTS_PER_SECOND * recording.seconds, *KNOTS))
    wanted = min(wanted, len(data.y))
    offset: list[Smooth | Periodic] = [Smooth(knots=wanted)]
    if mains.frequency is not None:
        offset.append(Periodic(mains.frequency, knots=max(wanted * 2 // 3, 1), harmonics=mains.harmonics))
    return FactorialHMM(rows=rows, emission=Gaussian(sd=HalfNormal(3 * noise)), offset=offset)


def _answer(search: ChannelSearch, fits: list[ChannelFit]) -> ChannelAnswer:
    recording, scheme, data = search.recording, search.scheme, search.data
    counted = [fit for fit in fits if fit.counts]
    masses = np.array([fit.log_mass for fit in counted])
    shares = scipy.special.softmax(masses)
    best = counted[int(np.argmax(masses))]
    n = best.n_channels
    n_open, n_sub = np.zeros((2, data.n_columns), np.int64)
    probability = np.ones(data.n_columns)
    ensemble = None
    if n:
        ensemble = _ensemble(best, scheme, recording.step)
        partly = np.array([one.startswith("S") for one in scheme.states])
        kinds, kind = np.unique(
            np.column_stack([ensemble.n_open, ensemble.compositions @ partly]), axis=0, return_inverse=True
        )
        each = exact.count_probabilities(best.optimum.model, data, 0)
        shared = np.zeros((len(kinds), data.n_columns))
        np.add.at(shared, np.ravel(kind), each)
        likeliest = shared.argmax(axis=0)
        n_open, n_sub = kinds[likeliest].T
        probability = shared.max(axis=0)
    return ChannelAnswer(
        recording=recording,
        fits=tuple(fits),
        probabilities={fit.n_channels: float(share) for fit, share in zip(counted, shares, strict=True)},
        n_channels=n,
        scheme=scheme,
        mains=search.mains,
        n_open=n_open,
        n_sub=n_sub,
        probability=probability,
        estimates=tuple(_estimates(best, recording, scheme)),
        dwells=Dwells.of(n_open, n_sub, data.starts, recording.step),
        ensemble=ensemble,
        sign=search.sign,
    )


def _estimates(fit: ChannelFit, recording: Recording, scheme: Scheme) -> Iterator[Estimate]:
    """At the optimum, with intervals from the normal approximation around it."""
    drawn, top = _draws(fit)
    unit = recording.unit
    if fit.n_channels:
        yield _estimate("unit current", top["unit_current"], drawn["unit_current"], unit)
    yield _estimate("noise sd", top["sd"], drawn["sd"], unit)
    if not fit.n_channels:
        return
    for state, name in enumerate(scheme.states):
        if name.startswith("S"):
            share = top["channel.values"][state]
            yield _estimate(f"share of {name}", share, drawn["channel.values"][:, state], "of the unit current")
    for state, name in enumerate(scheme.states):
        if "channel.spread" in top and scheme.conducts[state]:
            own = drawn["channel.spread"][:, state]
            yield _estimate(f"noise sd of {name}", top["channel.spread"][state], own, unit)
    rates, best = drawn["rates"] / recording.step, top["rates"] / recording.step
    for i, name in enumerate(scheme.names):
        yield _estimate(name, best[i], rates[:, i], "per second")
    shares = np.array([open_probability(scheme, own) for own in rates])
    yield _estimate("open probability", open_probability(scheme, best), shares, "")


def open_probability(scheme: Scheme, rates: Floats) -> float:
    """Of one channel, from the rates of its moves."""
    return float(stationary(scheme.rates(rates)) @ scheme.conducts)


def _estimate(name: str, value: float | Floats, drawn: Floats, unit: str) -> Estimate:
    low, high = np.quantile(drawn, [0.05, 0.95])
    return Estimate(name=name, value=float(value), low=float(low), high=float(high), unit=unit)


def _draws(fit: ChannelFit) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Parameters of rows and noise drawn around the optimum, and at it, by name."""
    optimum, parameters = fit.optimum, fit.model.parameters
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


def dwells_apart(
    model: FactorialHMM, data: Observations, ensemble: Ensemble, scheme: Scheme, step: float
) -> tuple[int, float] | None:
    """The number of open channels whose dwell times in a posterior draw of the paths contradict the scheme most, and
    the largest distance between their distributions; None if the scheme is fine.

    If the model is right, the draw comes from its prior: events that are too short to be seen are in it as often as
    they should be, and no correction for missed events is needed (see `results.residuals`).
    """
    codes = exact.draws(model, data, 1, seed=0)[0]
    shifts, masks = model.layout.shifts, model.layout.masks
    n_open = np.zeros(len(codes), np.int64)
    for k in range(model.n_rows):
        n_open += scheme.conducts[codes >> shifts[k] & masks[k]]
    dwells = Dwells.of(n_open, np.zeros_like(n_open), data.starts, 1.0)
    found = []
    for k in range(model.n_rows + 1):
        lengths = np.sort(dwells.of_level(k)).astype(np.int64)
        if len(lengths) < 50:
            continue
        expected = 1 - ensemble.survivor_in_samples(k, int(lengths[-1]), step)[lengths]
        seen = np.searchsorted(lengths, lengths, side="right") / len(lengths)
        away = float(np.abs(seen - expected).max())
        # Kolmogorov-Smirnov, conservative for whole numbers and learned rates.
        if away > APART and scipy.stats.kstwobign.sf(away * np.sqrt(len(lengths))) < RARE:
            found.append((away, k))
    return None if not found else (max(found)[1], max(found)[0])
