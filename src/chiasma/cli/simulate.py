"""chiasma simulate: data with a known truth, and the settings to fit them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chiasma.cli.printing import Voice
from chiasma.errors import InvalidInput

if TYPE_CHECKING:
    from chiasma.files.tables import Signal
    from chiasma.models.factorial import FactorialHMM


class Preset(StrEnum):
    """What can be simulated."""

    genome = "genome"
    study = "study"


def simulate(
    out: Annotated[Path, typer.Argument(help="Data file to write, .tsv or .csv.", show_default=False)],
    preset: Annotated[
        Preset, typer.Option(help="A tumour genome of 22 chromosomes, or the paper's three-row simulation study.")
    ] = Preset.genome,
    seed: Annotated[int | None, typer.Option(min=0, help="Default: a fresh one, which is printed.")] = None,
    sites: Annotated[int | None, typer.Option(help="Sites of the genome. Default: 10877.")] = None,
    sd: Annotated[float | None, typer.Option(help="Standard deviation of the genome's noise. Default: 12.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the seed and errors.")] = False,
) -> None:
    """Write simulated data, the truth behind them, and the settings to fit them.

    For OUT.tsv, the states that made the data are in OUT.truth.tsv, the model and the columns in OUT.toml.
    """
    from chiasma.datasets.genome import N_BINS, SD, tumour_genome
    from chiasma.datasets.study import simulation_study
    from chiasma.files.settings import fresh_seed
    from chiasma.files.tables import Signal

    seed = fresh_seed() if seed is None else seed
    if preset is Preset.genome:
        model, states, signal = tumour_genome(seed, N_BINS if sites is None else sites, SD if sd is None else sd)
    elif sites is None and sd is None:
        model, states, data = simulation_study(seed)
        signal = Signal(data=data)
    else:
        raise InvalidInput("the study has its own size and noise; drop --sites and --sd, or use --preset genome")
    voice = Voice(quiet)
    voice.seed(seed)
    settings = write_simulation(out, model, states, signal, seed)
    voice.note(f"wrote {out}, {truth_file(out)} and {settings}; fit them with")
    voice.note(f"  chiasma fit {out} --model {settings} --out RUN")


def truth_file(out: Path) -> Path:
    return out.with_suffix(f".truth{out.suffix}")


def write_simulation(out: Path, model: FactorialHMM, states: Any, signal: Signal, seed: int) -> Path:
    """Data, truth and settings; returns the path of the settings."""
    from chiasma.files.settings import Settings, settings_of
    from chiasma.files.tables import write_table

    settings = out.with_suffix(".toml")
    for path in (out, truth_file(out), settings):
        if path.exists():
            raise InvalidInput(f"{path} exists already; choose another name or remove it")
    labels = {"chromosome": signal.chromosome, "position": signal.position}
    known = {name: label for name, label in labels.items() if label is not None}
    write_table(out, [*known, "value"], zip(*known.values(), signal.data.y, strict=True))
    rows = [f"row_{k}" for k in range(len(states))]
    write_table(truth_file(out), [*known, *rows], zip(*known.values(), *states, strict=True))
    columns = {name: name for name in (*known, "value")}
    Settings(data=columns, **settings_of(model)).write(settings, f"How to fit {out.name}, made with seed {seed}.")
    return settings
