"""chiasma demo: the main job on a simulated tumour genome; with --study, the paper's updates compared."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chiasma.cli.fit import run_fit
from chiasma.cli.printing import Voice
from chiasma.cli.run import REPORT, RunDirectory
from chiasma.cli.simulate import truth_file, write_simulation
from chiasma.errors import InvalidInput

if TYPE_CHECKING:
    from rich.table import Table

    from chiasma.experiments.study import Comparison

DATA = "genome.tsv"


def demo(
    out: Annotated[Path, typer.Option(help="Directory for data, run and figures; an earlier demo is replaced.")] = Path(
        "chiasma-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of the sampler.")] = 1,
    sites: Annotated[int, typer.Option(help="Sites of the genome.")] = 10_877,
    study: Annotated[
        bool, typer.Option("--study", help="Compare the updates on the paper's three-row study instead.")
    ] = False,
    sweeps: Annotated[int, typer.Option(help="Sweeps of every update, with --study.")] = 1_000,
) -> None:
    """Simulate a tumour genome, fit it, and compare with the truth."""
    if study:
        _compare(sweeps, seed)
        return
    from chiasma.experiments.genome import tumour_genome
    from chiasma.settings import Settings

    voice = Voice()
    _make_room(out)
    genome = tumour_genome(seed, sites)
    data = out / DATA
    settings = write_simulation(data, genome.model, genome.states, genome.signal, seed)
    voice.note(
        f"simulated a tumour genome: {genome.signal.in_words()}, {genome.model.n_rows} rows "
        f"(row {next(iter(genome.model.fixed_rows))} is the baseline), in {out}/"
    )
    voice.note(f"$ chiasma fit {data} --model {settings} --seed {seed} --out {out}")
    directory = RunDirectory(out)
    run_fit(data, Settings.read(settings).merged(sampler={"seed": seed}), directory, voice)
    _compare_with_truth(directory, genome.states)


def _make_room(out: Path) -> None:
    """Remove an earlier demo, and nothing else."""
    directory = RunDirectory(out)
    files = [out / DATA, truth_file(out / DATA), (out / DATA).with_suffix(".toml")]
    if out.exists() and any(out.iterdir()):
        if not all(path.exists() for path in files):
            raise InvalidInput(f"{out} exists and holds no earlier demo; choose another --out")
        for folder in (directory.store, out / "figures"):
            shutil.rmtree(folder, ignore_errors=True)
        for path in (*files, directory.settings_file, directory.data_file, *(out / name for name in REPORT)):
            path.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
