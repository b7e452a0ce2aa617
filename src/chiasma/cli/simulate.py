"""chiasma simulate: data with a known truth, and the settings to fit them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chiasma.cli.printing import Voice
from chiasma.errors import InvalidInput

if TYPE_CHECKING:
    from chiasma.datasets.tumours import Tumour
    from chiasma.io.signal import Signal
    from chiasma.models.factorial import FactorialHMM


def simulate(
    out: Annotated[Path, typer.Argument(help="Data file to write, .tsv or .csv; of a tumour .bb.", show_default=False)],
    tumour: Annotated[
        bool, typer.Option("--tumour", help="A tumour with depth and allele counts, for chiasma tumour.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Default: a fresh one, which is printed.")] = None,
    sites: Annotated[int | None, typer.Option(help="Sites of the genome. Default: 10877; of a tumour 5000.")] = None,
    sd: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the genome's noise. Default: 12; of a tumour 0.08 of the mean depth."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="With --tumour: samples of one patient with the same clones. Default: 1."),
    ] = None,
    purity: Annotated[
        str | None,
        typer.Option(help="With --tumour; of several samples one for each, 0.8,0.3. Default: drawn from 0.2-0.9."),
    ] = None,
    clones: Annotated[int | None, typer.Option(help="With --tumour, 1 or 2. Default: drawn.")] = None,
    doubled: Annotated[
        bool | None, typer.Option("--doubled/--not-doubled", help="With --tumour. Default: drawn.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the seed and errors.")] = False,
) -> None:
    """Write simulated data, the truth behind them, and the settings to fit them.

    For OUT.tsv, the states that made the data are in OUT.truth.tsv, the model and the columns in OUT.toml. For a tumour
    OUT.bb the copies of its clones are in OUT.truth.tsv, and purity, ploidy and fractions in OUT.truth.json.
    """
    from chiasma.datasets.genome import N_BINS, SD, tumour_genome
    from chiasma.io.settings import fresh_seed

    if not out.name:
        raise InvalidInput("OUT must be a data file to write, such as data.tsv, got no name")
    seed = fresh_seed() if seed is None else seed
    if tumour:
        _simulate_tumour(out, Voice(quiet), seed, sites, sd, samples or 1, _purities(purity), clones, doubled)
        return
    if (samples, purity, clones, doubled) != (None, None, None, None):
        raise InvalidInput("--samples, --purity, --clones and --doubled describe a tumour; add --tumour, or drop them")
    model, states, signal = tumour_genome(seed, N_BINS if sites is None else sites, SD if sd is None else sd)
    voice = Voice(quiet)
    voice.seed(seed)
    settings = write_simulation(out, model, states, signal, seed)
    voice.note(f"wrote {out}, {truth_file(out)} and {settings}; fit them with")
    voice.note(f"  chiasma fit {out} --model {settings} --out RUN")


def _purities(text: str | None) -> list[float] | None:
    """The purities of samples: "0.8,0.3"."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"--purity takes a number, or one for every sample as 0.8,0.3, got {text!r}") from None


def _simulate_tumour(
    out: Path,
    voice: Voice,
    seed: int,
    sites: int | None,
    sd: float | None,
    samples: int,
    purities: list[float] | None,
    clones: int | None,
    doubled: bool | None,
) -> None:
    from chiasma.datasets.tumours import N_BINS, NOISE, simulate_patient

    found = simulate_patient(
        seed,
        samples,
        N_BINS if sites is None else sites,
        purities=purities,
        doubled=doubled,
        clones=clones,
        noise=NOISE if sd is None else sd,
    )
    voice.seed(seed)
    written = write_tumour(out, *found)
    voice.note(f"wrote {', '.join(map(str, written))}; solve it with")
    voice.note(f"  chiasma tumour {out} {'--one-patient ' if samples > 1 else ''}--out ANSWER")


def write_tumour(out: Path, *samples: Tumour) -> list[Path]:
    """The data as HATCHet's .bb, the copies of the clones as a table, and the rest of the truth as JSON.

    samples : one, or several of one patient, which are named OUT_1, OUT_2, ...
    """
    import json

    from chiasma import atomic
    from chiasma.io.tables import write_table

    paths = [out, out.with_suffix(".truth.tsv"), out.with_suffix(".truth.json")]
    for path in paths:
        if path.exists():
            raise InvalidInput(f"{path} exists already; choose another name or remove it")
    several = len(samples) > 1
    names = [f"{out.stem}_{i}" if several else out.stem for i in range(1, len(samples) + 1)]
    lines = ["#CHR\tSTART\tEND\tSAMPLE\tRD\t#SNPS\tCOV\tALPHA\tBETA\tBAF"]
    for name, tumour in zip(names, samples, strict=True):
        lines += _bb_lines(name, tumour)
    atomic.write_text(out, "\n".join(lines) + "\n")
    first = samples[0]
    heads = [f"{clone}_{haplotype}" for clone in _clone_names(first) for haplotype in ("a", "b")]
    copies = first.copies.reshape(-1, len(first.depth))
    places = (first.chromosome, first.start, first.end)
    write_table(paths[1], ["chromosome", "start", "end", *heads], zip(*places, *copies, strict=True))
    truths = {name: _truth(tumour) for name, tumour in zip(names, samples, strict=True)}
    truth = {"samples": truths} if several else truths[names[0]]
    atomic.write_text(paths[2], json.dumps(truth, indent=2) + "\n")
    return paths


def _bb_lines(name: str, tumour: Tumour) -> list[str]:
    lines = []
    reads = tumour.alpha + tumour.beta
    for t in range(len(tumour.depth)):
        n = int(reads[t])
        share = min(tumour.alpha[t], tumour.beta[t]) / n if n else 0.5
        cells = [tumour.chromosome[t], tumour.start[t], tumour.end[t], name, f"{tumour.depth[t]:.5f}"]
        cells += [
            tumour.sites[t],
            f"{n / max(1, tumour.sites[t]):.1f}",
            tumour.alpha[t],
            tumour.beta[t],
            f"{share:.6f}",
        ]
        lines.append("\t".join(map(str, cells)))
    return lines


def _truth(tumour: Tumour) -> dict[str, Any]:
    return {
        "purity": tumour.purity,
        "ploidy": tumour.ploidy,
        "doubled": tumour.doubled,
        "fractions": dict(zip(["normal", *_clone_names(tumour)], tumour.fractions.tolist(), strict=True)),
    }


def _clone_names(tumour: Tumour) -> list[str]:
    return ["main", *(f"subclone_{j}" for j in range(1, len(tumour.copies)))]


def truth_file(out: Path) -> Path:
    return out.with_suffix(f".truth{out.suffix}")


def write_simulation(out: Path, model: FactorialHMM, states: Any, signal: Signal, seed: int) -> Path:
    """Data, truth and settings; returns the path of the settings."""
    from chiasma.io.settings import Settings, settings_of
    from chiasma.io.tables import write_table

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
