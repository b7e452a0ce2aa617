"""chiasma demo: simulate a tumour and solve it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chiasma.atomic import remove, write_text
from chiasma.cli.printing import Voice
from chiasma.cli.simulate import write_tumour
from chiasma.cli.tumour import Job, read_files, solve_patients
from chiasma.errors import InvalidInput

DATA, ANSWER = "tumour.bb", "answer"
PURITY = 0.65
# Lists the files that the demo made in a directory; without it nothing there is the demo's.
MARKER = ".chiasma-demo"


def demo(
    out: Annotated[
        Path, typer.Option(help="Directory for data, answer and figures; an earlier demo is replaced.")
    ] = Path("chiasma-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data.")] = 1,
    sites: Annotated[int, typer.Option(help="Bins of the genome.")] = 5_000,
) -> None:
    """Simulate a tumour, find its purity, ploidy and clones from the data alone, and compare with the truth."""
    from chiasma.datasets.tumours import simulate_tumour
    from chiasma.tumour.analysis import TumourSettings

    voice = Voice()
    _make_room(out)
    data, answer = out / DATA, out / ANSWER
    voice.note(f"$ chiasma simulate {data} --tumour --seed {seed} --sites {sites} --purity {PURITY} --clones 2")
    truth = simulate_tumour(seed, sites, purity=PURITY, clones=2)
    write_tumour(data, truth)
    voice.note(f"$ chiasma tumour {data} --out {answer}")
    settings = TumourSettings()
    (found,) = solve_patients([read_files([data], settings)], Job(settings=settings, out=answer, voice=voice))
    _mark(out, [str(path.relative_to(out)) for path in sorted(out.rglob("*")) if not path.is_dir()])
    first = found.answers[0].solutions[0]
    shares = " + ".join(f"{share:.2f}" for share in truth.fractions[1:])
    own = " + ".join(f"{share:.2f}" for share in first.best.parameters.clone_fractions[1:])
    copies = first.best.states.totals[first.best.main.argmax(axis=1)]
    right = float((copies == truth.copies[0].sum(axis=0)).mean())
    typer.echo(
        f"The truth: purity {truth.purity:.2f}, ploidy {truth.ploidy:.2f}, clones {shares}. The first solution: purity "
        f"{first.purity:.2f}, ploidy {first.ploidy:.2f}, clones {own}; the copies of its main clone are right in "
        f"{right:.1%} of bins."
    )


def _make_room(out: Path) -> None:
    """Remove an earlier demo, and nothing else; raise InvalidInput if the directory holds anything more."""
    if out.exists() and any(out.iterdir()):
        marker = out / MARKER
        if not marker.is_file():
            raise InvalidInput(f"{out} exists and holds no earlier demo; choose another --out")
        made = set(marker.read_text(encoding="utf-8", errors="replace").splitlines())
        files = [path for path in sorted(out.rglob("*")) if path.is_symlink() or not path.is_dir()]
        foreign = [path for path in files if not _is_ours(path.relative_to(out), made)]
        if foreign:
            raise InvalidInput(
                f"{out} holds more than an earlier demo: {foreign[0]}; move it away, or choose another --out"
            )
        remove([*(out / name for name in (*_data_files(), ANSWER)), marker])
    out.mkdir(parents=True, exist_ok=True)
    _mark(out, [])


def _mark(out: Path, made: list[str]) -> None:
    """Note what the demo has made; an empty list while it is at work."""
    write_text(out / MARKER, "".join(f"{name}\n" for name in made))


def _data_files() -> tuple[str, ...]:
    stem = Path(DATA).stem
    return DATA, f"{stem}.truth.tsv", f"{stem}.truth.json"


def _is_ours(path: Path, made: set[str]) -> bool:
    """Whether the demo made a file. Of one that was killed at work, whatever is in its run is."""
    if path.name == MARKER or path.name.endswith(".partial") or str(path) in made:
        return True
    return not made and (str(path) in _data_files() or path.parts[0] == ANSWER)
