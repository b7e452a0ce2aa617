"""Fit one data file into a run directory: settings and a path in; data, draws, tables and figures out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from chiasma.errors import ChiasmaError
from chiasma.io.columns import Columns
from chiasma.io.estimates import estimated, in_words
from chiasma.io.settings import Settings, fresh_seed
from chiasma.io.signal import Signal
from chiasma.io.tables import read_signal
from chiasma.report.page import digest_of
from chiasma.report.report import Report, Say, write_report
from chiasma.report.run_directory import RunDirectory
from chiasma.results.posterior import Posterior
from chiasma.sampling.sampler import sample

# Matplotlib is not safe to use in several threads at once; a report is Python code anyway, one thread at a time.
_REPORTING = Lock()


class FitInterrupted(KeyboardInterrupt):
    """Ctrl-C while sampling: the run directory holds `n_draws` of the `wanted` draws per chain and can be resumed."""

    def __init__(self, n_draws: int, wanted: int):
        super().__init__(f"{n_draws} of {wanted} draws per chain are kept")
        self.n_draws = n_draws
        self.wanted = wanted


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A finished fit: its draws, the data with their site labels, and what was written."""

    posterior: Posterior
    signal: Signal
    report: Report


def fit_file(
    source: Path,
    settings: Settings,
    directory: RunDirectory,
    *,
    learn: Sequence[str] = (),
    resume: bool = False,
    workers: int | None = None,
    tables_only: bool = False,
    progress: bool = False,
    read: Callable[[Path, Columns], Signal] = read_signal,
    begun: Callable[[], None] = lambda: None,
    note: Say = lambda text: None,
    detail: Say = lambda text: None,
) -> Fit:
    """Read the file, estimate what the settings leave out, sample into the directory, write the report.

    Raises FitInterrupted after Ctrl-C. A mistake in the settings or in the file leaves nothing in a new directory.

    Parameters
    ----------
    source : the data file.
    settings : `completed`, for a run that can be repeated.
    directory : where the run goes; begun here, unless it is resumed.
    learn : parameters to learn, with default priors where the settings have none.
    resume : continue the run in the directory up to the draws of the settings.
    workers : threads of the sampler, where the settings name no number; it does not change the draws.
    tables_only : leave out report.html and the figures, which take most of the time of a short run; `chiasma show`
        can write them later. Kept with the settings of the run, which may ask for it, too.
    progress : show the display of `chiasma.sample`.
    read : reads the data file; `chiasma.tumour.signals.read_any` knows more formats.
    begun : is called once the file and the settings have proved sound.
    note, detail : called with a line about what happens; detail: what took long in the report.
    """
    settings = settings.merged(output={"tables_only": True} if tables_only else {})
    tables_only = settings.tables_only()
    settings.check_learned(learn)
    signal = replace(read(source, settings.columns()), digest=digest_of(source))
    given = settings
    settings, numbers = estimated(given, signal.data, learn)
    settings = completed(settings.learning(learn))
    model = settings.model(signal.covariates)
    begun()
    note(f"{source}: {signal.in_words()}")
    for text in signal.notes:
        note(f"  {text}")
    if numbers:
        note(in_words(numbers, given))
    wanted = settings.sections["sampler"]["draws"]
    arguments = {"workers": workers} | settings.sampler()
    with directory.writing():
        if resume and not directory.store.exists():
            note("nothing was stored before the run stopped: it begins from the start")
        directory.begin(settings, signal, source, resume)
        try:
            posterior = sample(model, signal.data, **arguments, store=directory.store, resume=resume, progress=progress)
        except ChiasmaError:
            if not resume:
                directory.abandon()
            raise
        except KeyboardInterrupt:
            raise FitInterrupted(0, wanted) from None
        directory.keep_data(signal)
        if resume:
            directory.keep_settings(settings, source)
    n_draws = posterior.draws.sizes["draw"]
    if n_draws < wanted:
        raise FitInterrupted(n_draws, wanted)
    note("writing tables" if tables_only else "writing report.html, tables and figures")
    with _REPORTING:
        report = write_report(posterior, signal, directory.path, directory.about(), detail, tables_only=tables_only)
    return Fit(posterior=posterior, signal=signal, report=report)


def completed(settings: Settings) -> Settings:
    """Settings with a seed and a number of draws filled in, so that a run can be repeated and resumed."""
    sampler = settings.sections["sampler"]
    draws = sampler.get("draws", inspect.signature(sample).parameters["draws"].default)
    return settings.merged(sampler={"draws": draws, "seed": sampler.get("seed", fresh_seed())})
