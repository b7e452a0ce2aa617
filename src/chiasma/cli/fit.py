"""chiasma fit: sample the hidden states behind a data file."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chiasma.cli.mistakes import INTERRUPTED, stop
from chiasma.cli.printing import Voice
from chiasma.errors import ChiasmaError
from chiasma.files.run_directory import RunDirectory

if TYPE_CHECKING:
    from chiasma.files.settings import Settings
    from chiasma.files.tables import Signal
    from chiasma.models.factorial import FactorialHMM
    from chiasma.results.posterior import Posterior

DATA, MODEL, SAMPLER, OUTPUT = "Data", "Model", "Sampler", "Output"


def _option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, **more)


def fit(
    data: Annotated[Path, typer.Argument(help="CSV, TSV or NPY file, one line per site.", show_default=False)],
    value: Annotated[str | None, _option(DATA, "Column of the signal, by name or number.")] = None,
    chromosome: Annotated[str | None, _option(DATA, "Column whose changes start a new sequence.")] = None,
    position: Annotated[str | None, _option(DATA, "Column whose differences are the gaps between sites.")] = None,
    gap_unit: Annotated[
        float | None, _option(DATA, "Distance that is one step of the chains. Default: the median distance.")
    ] = None,
    delimiter: Annotated[
        str | None, _option(DATA, "One character, or tab, comma, semicolon, space. Default: by the suffix.")
    ] = None,
    model: Annotated[
        Path | None,
        _option(MODEL, "TOML file with \\[data], \\[model], \\[priors] and \\[sampler] settings; options win over it."),
    ] = None,
    emission: Annotated[
        str | None,
        _option(MODEL, "gaussian (default), student-t, integrated-depth, poisson or negative-binomial."),
    ] = None,
    weights: Annotated[str | None, _option(MODEL, "One weight per row: 0.2,0.3,0.5.")] = None,
    depth: Annotated[float | None, _option(MODEL, "Signal of a level of 1. Default: 1.")] = None,
    sd: Annotated[float | None, _option(MODEL, "Standard deviation of the noise.")] = None,
    depth_sd: Annotated[float | None, _option(MODEL, "integrated-depth: standard deviation of the depth.")] = None,
    df: Annotated[float | None, _option(MODEL, "student-t: degrees of freedom. Default: 4.")] = None,
    dispersion: Annotated[float | None, _option(MODEL, "negative-binomial: variance is m + dispersion m².")] = None,
    background: Annotated[float | None, _option(MODEL, "Counts: mean where no row is on. Default: 0.")] = None,
    enter: Annotated[str | None, _option(MODEL, "P(0 to 1) from site to site: one number, or one per row.")] = None,
    leave: Annotated[str | None, _option(MODEL, "P(1 to 0). Default: the same as --enter.")] = None,
    initial: Annotated[str | None, _option(MODEL, "P(1) where a sequence starts. Default: stationary.")] = None,
    learn: Annotated[
        str | None,
        _option(
            MODEL,
            "Parameters to learn from the data, such as weights,sd, each with a prior around the number given: "
            "weights that add up to 1: Dirichlet(1, ..., 1), others: Gamma of shape 2 and that mean; "
            "depth: Normal(depth, depth/4), of counts: LogNormal(log depth, 0.25); "
            "sd, depth-sd, df, dispersion, background: LogNormal(log of it, 0.5); "
            "enter, leave: Beta(1, 1/p - 1); initial: Beta(2p, 2 - 2p). Other priors: \\[priors] in the --model file.",
        ),
    ] = None,
    fixed_row: Annotated[
        list[str] | None, _option(MODEL, "Hold a row at 0 or 1, e.g. 5=1 for a baseline; rows count from 0.")
    ] = None,
    draws: Annotated[int | None, _option(SAMPLER, "Draws kept per chain. Default: 1000.")] = None,
    warmup: Annotated[int | None, _option(SAMPLER, "Iterations before them. Default: 1000.")] = None,
    chains: Annotated[int | None, _option(SAMPLER, "Independent repeats. Default: 4.")] = None,
    thin: Annotated[int | None, _option(SAMPLER, "Keep every n-th iteration. Default: 1.")] = None,
    update: Annotated[
        str | None,
        _option(SAMPLER, "auto (default), exact, row, block or block:ROWS, hamming-ball or hamming-ball:RADIUS."),
    ] = None,
    exchange: Annotated[
        str | None, _option(SAMPLER, "auto (default), none, swap, random, augmented or mosaic.")
    ] = None,
    ladder: Annotated[str | None, _option(SAMPLER, "auto (default), auto:RUNGS, or temperatures: 1,5.")] = None,
    exchange_every: Annotated[int | None, _option(SAMPLER, "Iterations from exchange to exchange. Default: 1.")] = None,
    seed: Annotated[int | None, _option(SAMPLER, "Default: a fresh one, which is printed.", min=0)] = None,
    workers: Annotated[int | None, _option(SAMPLER, "Threads. Default: one per core.")] = None,
    out: Annotated[Path, _option(OUTPUT, "Directory for the run. Default: chiasma-run.")] = Path("chiasma-run"),
    resume: Annotated[
        bool, _option(OUTPUT, "Go on with the run in --out, with its settings; --draws can be raised.", "--resume")
    ] = False,
    quiet: Annotated[bool, _option(OUTPUT, "Print nothing but the seed and errors.", "--quiet", "-q")] = False,
    as_json: Annotated[
        bool, _option(OUTPUT, "Print the summary as JSON, and nothing else on stdout.", "--json")
    ] = False,
) -> None:
    """Sample the hidden states behind a signal, and the parameters that are to be learned.

    The run goes to a directory: draws in run.zarr (written while sampling, so that an interrupted run can be resumed),
    states.tsv, segments.tsv, explanations.tsv, summary.json and figures, and parameters.tsv where some are learned.
    Missing values are NA, NaN, . or empty.
    """
    from chiasma.files.settings import Settings, parse_fixed_rows, parse_ladder, parse_list, parse_names, parse_numbers

    directory = RunDirectory(out)
    if not resume:
        directory.check_new()
    settings = directory.stored_settings() if resume else Settings()
    if model is not None:
        settings = settings.merged(**Settings.read(model).sections)
    settings = settings.merged(
        data={
            "value": value,
            "chromosome": chromosome,
            "position": position,
            "gap_unit": gap_unit,
            "delimiter": delimiter,
        },
        model={
            "emission": emission,
            "weights": parse_list("weights", weights),
            "depth": depth,
            "sd": sd,
            "depth_sd": depth_sd,
            "df": df,
            "dispersion": dispersion,
            "background": background,
            "enter": parse_numbers("enter", enter),
            "leave": parse_numbers("leave", leave),
            "initial": parse_numbers("initial", initial),
            "fixed_rows": parse_fixed_rows(fixed_row),
        },
        sampler={
            "draws": draws,
            "warmup": warmup,
            "chains": chains,
            "thin": thin,
            "update": update,
            "exchange": exchange,
            "ladder": parse_ladder(ladder),
            "exchange_every": exchange_every,
            "seed": seed,
            "workers": workers,
        },
    )
    settings = settings.learning(parse_names(learn))
    run_fit(data, settings, directory, Voice(quiet, as_json), resume)


def run_fit(source: Path, settings: Settings, directory: RunDirectory, voice: Voice, resume: bool = False) -> None:
    """Read, sample into the directory, report."""
    from chiasma.files.report import write_report
    from chiasma.files.tables import read_signal

    model, signal = settings.model(), read_signal(source, settings.columns())
    settings = complete(settings)
    voice.seed(settings.sections["sampler"]["seed"])
    voice.note(f"{source}: {signal.in_words()}")
    if not resume:
        directory.begin(settings, signal, source)
    posterior = _sample(model, settings, signal, source, directory, voice, resume)
    n_draws, wanted = posterior.draws.sizes["draw"], settings.sections["sampler"]["draws"]
    if resume:
        directory.keep_settings(settings, source)
    if n_draws < wanted:
        kept = f"{n_draws:,} of {wanted:,} draws per chain are kept; look at them with: {directory.how_to_show()}"
        raise stop(f"interrupted: {kept}; {directory.how_to_resume(source)}", INTERRUPTED)
    voice.note("writing tables and figures")
    voice.report(write_report(posterior, signal, directory.path, directory.about()), signal, directory.path)


def complete(settings: Settings) -> Settings:
    """With a seed and a number of draws, so that a run can be repeated and resumed."""
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
        raise stop(f"interrupted: there are no draws yet; {directory.how_to_resume(source)}", INTERRUPTED) from None
