"""chiasma fit: sample the hidden states behind a data file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from chiasma.cli.mistakes import stop
from chiasma.cli.printing import Voice
from chiasma.cli.signals import exit_code
from chiasma.errors import ChiasmaError
from chiasma.files.run_directory import RunDirectory

if TYPE_CHECKING:
    from chiasma.files.settings import Settings
    from chiasma.files.tables import Signal
    from chiasma.models.factorial import FactorialHMM
    from chiasma.results.posterior import Posterior

OUT = Path("chiasma-run")


def fit() -> None:
    """Sample the hidden states behind a signal, and the parameters that are to be learned.

    The run goes to a directory: draws in run.zarr (written while sampling, so that an interrupted run can be resumed),
    states.tsv, segments.tsv, explanations.tsv, summary.json and figures, and parameters.tsv where some are learned.
    Missing values are NA, NaN, . or empty.
    """
    # Only the name and the help of the command: FitCommand adds the options, and `_fit` does the work.


class FitCommand(TyperCommand):
    """`fit` with its options, most of which come from the table of settings.

    The table imports the models, the samplers and numba, which is slow. It is therefore read only when the options of
    `fit` are needed, and not for the list of commands or for another command.
    """

    def __init__(self, **attributes: Any):
        super().__init__(**attributes)
        del self.params, self.callback

    def __getattr__(self, name: str) -> Any:
        if name not in ("params", "callback"):
            raise AttributeError(name)
        app = typer.Typer(add_completion=False)
        app.command()(_with_options(_fit))
        made = get_command(app)
        self.params, self.callback = made.params, made.callback
        return getattr(self, name)


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function with a signature for typer: its own options, and one option per setting."""
    from chiasma.files.options import all_settings, learn_help

    settings: dict[str, list[inspect.Parameter]] = {}
    for one in all_settings():
        option = _option(one.key, one.kind | None, one.section.title(), one.help, one.flag, min=one.least)
        settings.setdefault(one.section, []).append(option)
    file = "TOML file with \\[data], \\[model], \\[priors] and \\[sampler] settings; options override it."
    resume = "Resume the run in --out with its settings; --draws can be raised."
    parameters = [
        _parameter("data", Path, typer.Argument(help="CSV, TSV or NPY file, one line per site.", show_default=False)),
        *settings["data"],
        _option("model", Path | None, "Model", file),
        *settings["model"],
        _option("learn", str | None, "Model", learn_help()),
        *settings["sampler"],
        _option("out", Path, "Output", f"Directory for the run. Default: {OUT}.", default=OUT),
        _option("resume", bool, "Output", resume, "--resume", default=False),
        _option("quiet", bool, "Output", "Print nothing but the seed and errors.", "--quiet", "-q", default=False),
        _option(
            "as_json", bool, "Output", "Print the summary as JSON, and nothing else on stdout.", "--json", default=False
        ),
    ]

    def command(**given: Any) -> None:
        function(**given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _option(
    name: str, kind: Any, panel: str, text: str, *flags: str, default: Any = None, **more: Any
) -> inspect.Parameter:
    option = typer.Option(*flags, help=text, rich_help_panel=panel, show_default=False, **more)
    return _parameter(name, kind, option, default)


def _parameter(name: str, kind: Any, info: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default)


def _fit(
    data: Path,
    model: Path | None,
    learn: str | None,
    out: Path,
    resume: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """options: the value given for every setting, by key."""
    from chiasma.files.options import as_sections, parse_names
    from chiasma.files.settings import Settings

    directory = RunDirectory(out)
    if not resume:
        directory.check_new()
    settings = directory.stored_settings() if resume else Settings()
    if model is not None:
        file = Settings.read(model)
        settings = settings.merged(**file.sections, row=file.row)
    settings = settings.merged(**as_sections(options)).learning(parse_names(learn))
    run_fit(data, settings, directory, Voice(quiet, as_json), resume)


def run_fit(source: Path, settings: Settings, directory: RunDirectory, voice: Voice, resume: bool = False) -> None:
    """Read, sample into the directory, report."""
    from chiasma.files.report import write_report
    from chiasma.files.tables import read_signal

    model, signal = settings.model(), read_signal(source, settings.columns())
    settings = complete(settings)
    voice.seed(settings.sections["sampler"]["seed"])
    voice.note(f"{source}: {signal.in_words()}")
    with directory.writing():
        directory.begin(settings, signal, source, resume)
        posterior = _sample(model, settings, signal, source, directory, voice, resume)
        directory.keep_data(signal)
        if resume:
            directory.keep_settings(settings, source)
    n_draws, wanted = posterior.draws.sizes["draw"], settings.sections["sampler"]["draws"]
    if n_draws < wanted:
        kept = f"{n_draws:,} of {wanted:,} draws per chain are kept; look at them with: {directory.how_to_show()}"
        raise stop(f"interrupted: {kept}; {directory.how_to_resume(source)}", exit_code())
    voice.note("writing tables and figures")
    voice.report(write_report(posterior, signal, directory.path, directory.about()), signal, directory.path)


def complete(settings: Settings) -> Settings:
    """Settings with a seed and a number of draws filled in, so that a run can be repeated and resumed."""
    from chiasma.files.settings import fresh_seed
    from chiasma.sampling.sampler import sample

    sampler = settings.sections["sampler"]
    draws = sampler.get("draws", inspect.signature(sample).parameters["draws"].default)
    return settings.merged(sampler={"draws": draws, "seed": sampler.get("seed", fresh_seed())})


def _sample(
    model: FactorialHMM,
    settings: Settings,
    signal: Signal,
    source: Path,
    directory: RunDirectory,
    voice: Voice,
    resume: bool,
) -> Posterior:
    from chiasma.sampling.sampler import sample

    arguments = settings.sampler()
    try:
        return sample(model, signal.data, **arguments, store=directory.store, resume=resume, progress=voice.progress)
    except ChiasmaError:
        if not resume:
            directory.abandon()
        raise
    except KeyboardInterrupt:
        raise stop(f"interrupted: there are no draws yet; {directory.how_to_resume(source)}", exit_code()) from None
