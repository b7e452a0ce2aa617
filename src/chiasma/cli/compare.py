"""chiasma compare: the evidence of several models of one data file, and their probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chiasma.cli.printing import Voice
from chiasma.errors import InvalidInput
from chiasma.limits import is_whole

if TYPE_CHECKING:
    from chiasma.io.settings import Settings
    from chiasma.models.factorial import FactorialHMM


def compare(
    data: Annotated[Path, typer.Argument(help="CSV, TSV or NPY file, one line per site.", show_default=False)],
    model: Annotated[
        list[Path], typer.Option(help="TOML file with settings; repeat it to compare several.", show_default=False)
    ],
    copies: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=LOW-HIGH",
            help="Compare these numbers of copies of a [[row]], such as channel=1-4.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws per chain of a model that has to be sampled.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON, and nothing else.")] = False,
) -> None:
    """Compare models of one data file by their evidence: several settings files, or several numbers of rows.

    A model without priors has an exact evidence; others are sampled. Give priors that do not depend on the model.
    The first settings file also names the columns of the data file and has the settings of the sampler.
    """
    from chiasma.io.settings import Settings
    from chiasma.sampling.comparison import compare as compare_models
    from chiasma.tumour.signals import read_any

    settings = [Settings.read(path) for path in model]
    models: dict[str, FactorialHMM] = {}
    for path, own in zip(model, settings, strict=True):
        for name, one in _numbers(path, own, copies).items():
            if name in models:
                raise InvalidInput(f"{path} is given twice; name different settings files")
            models[name] = one.model()
    if len(models) < 2:
        raise InvalidInput("a comparison needs two models; give --model twice, or --copies NAME=LOW-HIGH")
    signal = read_any(data, settings[0].columns())
    voice = Voice(quiet, as_json)
    voice.note(f"{data}: {signal.in_words()}")
    options = settings[0].sampler() | {"draws": draws, "seed": seed, "progress": voice.progress}
    found = compare_models(models, signal.data, **options)
    if as_json:
        trust = {name: [finding.to_dict() for finding in own] for name, own in found.findings.items()}
        typer.echo(json.dumps({"models": found.to_dict(), "best": found.best, "findings": trust}, indent=2))
    elif not quiet:
        typer.echo(str(found))


def _numbers(path: Path, settings: Settings, copies: str | None) -> dict[str, Settings]:
    """The settings by name, with each of the numbers of copies."""
    if copies is None:
        return {str(path): settings}
    name, _, limits = copies.partition("=")
    low, _, high = limits.partition("-")
    if not (is_whole(low) and is_whole(high or low) and 1 <= int(low) <= int(high or low) <= 63):
        raise InvalidInput(f"--copies takes a row and numbers such as channel=1-4, got {copies!r}")
    names = [row.get("name") for row in settings.row]
    if name not in names:
        raise InvalidInput(f"{path} has no [[row]] named {name!r}; it has {', '.join(map(str, names)) or 'none'}")
    found = {}
    for n in range(int(low), int(high or low) + 1):
        rows = [row | {"copies": n} if row.get("name") == name else row for row in settings.row]
        found[f"{path}, {n} x {name}"] = settings.merged(row=rows)
    return found
