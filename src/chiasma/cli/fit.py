"""chiasma fit: sample the hidden states behind a data file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chiasma.cli.mistakes import stop
from chiasma.cli.printing import Voice
from chiasma.cli.setting_options import (
    TABLES_ONLY,
    TABLES_ONLY_HELP,
    SettingsCommand,
    argument,
    option,
    setting_options,
    with_options,
)
from chiasma.cli.signals import exit_code
from chiasma.report.run_directory import RunDirectory

if TYPE_CHECKING:
    from chiasma.io.settings import Settings

OUT = Path("chiasma-run")


def fit() -> None:
    """Sample the hidden states behind a signal, and unknown parameters.

    The run goes to a directory: draws in run.zarr (written while sampling, so that an interrupted run can be resumed),
    report.html to read it all, states.tsv, segments.tsv, explanations.tsv, summary.json and figures, and parameters.tsv
    if parameters are learned. --tables-only leaves out report.html and the figures. Missing values are NA, NaN, . or
    empty.
    """
    # Only the name and the help of the command: FitCommand adds the options, and `_fit` does the work.


class FitCommand(SettingsCommand):
    """`fit` with its options."""

    def function(self) -> Callable[..., None]:
        resume = "Resume the run in --out with its settings, and --tables-only if it had it; --draws can be raised."
        quiet = "Print nothing but the seed and errors."
        as_json = "Print the summary as JSON, and nothing else on stdout."
        parameters = [
            argument("data", Path, "CSV, TSV or NPY file, one line per site."),
            *setting_options(),
            option("out", Path, "Output", f"Directory for the run. Default: {OUT}.", default=OUT),
            option("tables_only", bool, "Output", TABLES_ONLY_HELP, TABLES_ONLY, default=False),
            option("resume", bool, "Output", resume, "--resume", default=False),
            option("quiet", bool, "Output", quiet, "--quiet", "-q", default=False),
            option("as_json", bool, "Output", as_json, "--json", default=False),
        ]
        return with_options(_fit, parameters)


def _fit(
    data: Path,
    model: Path | None,
    learn: str | None,
    out: Path,
    tables_only: bool,
    resume: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """options: the value given for every setting, by key."""
    from chiasma.io.options import as_sections, flag, parse_names
    from chiasma.io.settings import Settings

    directory = RunDirectory(out)
    if not resume:
        directory.check_new()
    settings = directory.stored_settings() if resume else Settings()
    if model is not None:
        file = Settings.read(model)
        settings = settings.merged(**file.sections, row=file.row, output=file.output)
    learned, voice = parse_names(learn), Voice(quiet, as_json)
    priors = settings.sections["priors"]
    settings = settings.merged(**as_sections(options), learn=learned)
    for key in () if resume else sorted(priors.keys() - settings.sections["priors"].keys()):
        voice.note(f"{flag(key)} replaces the prior of {key}, so it is not learned; add --learn {key} to learn it")
    run_fit(data, settings, directory, voice, resume, learned, tables_only=tables_only)


def run_fit(
    source: Path,
    settings: Settings,
    directory: RunDirectory,
    voice: Voice,
    resume: bool = False,
    learn: Sequence[str] = (),
    *,
    tables_only: bool = False,
) -> None:
    """Fit the file into the directory and print. learn: parameters to learn."""
    from chiasma.report.fitting import FitInterrupted, completed, fit_file
    from chiasma.tumour.signals import read_any

    settings = completed(settings)
    try:
        done = fit_file(
            source,
            settings,
            directory,
            learn=learn,
            resume=resume,
            tables_only=tables_only,
            progress=voice.progress,
            read=read_any,
            begun=lambda: voice.seed(settings.sections["sampler"]["seed"]),
            note=voice.note,
            detail=voice.detail,
        )
    except FitInterrupted as interrupt:
        n_draws, wanted = interrupt.n_draws, interrupt.wanted
        kept = f"{n_draws:,} of {wanted:,} draws per chain are kept; look at them with: {directory.how_to_show()}"
        what = kept if n_draws else "there are no draws yet"
        raise stop(f"interrupted: {what}; {directory.how_to_resume(source)}", exit_code()) from None
    voice.report(done.report, done.signal, directory.path)
