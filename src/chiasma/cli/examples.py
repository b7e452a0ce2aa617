"""Examples at the end of the help of each command. Tests run all of them."""

from __future__ import annotations

OVERVIEW = "chiasma"

EXAMPLES = {
    OVERVIEW: (
        "chiasma demo",
        "chiasma simulate genome.tsv --seed 1",
        "chiasma fit genome.tsv --model genome.toml --out run",
        "chiasma show run",
    ),
    "demo": (
        "chiasma demo",
        "chiasma demo --seed 7 --out another-tumour",
    ),
    "tumour": (
        "chiasma tumour sample.bb --out answer",
        "chiasma tumour sample.bb --purity 0.5-0.8 --clones 1 --region 8q --out bounded",
    ),
    "channels": (
        "chiasma channels recording.csv --rate 10000 --channels 1-2 --out channels",
        "chiasma channels recording.csv --rate 10000 --channels 1 --polarity down --tables-only --out down",
    ),
    "compare": (
        "chiasma compare recording.csv --model channels.toml --copies channel=1-4",
        "chiasma compare genome.tsv --model genome.toml --model other.toml --draws 500",
    ),
    "simulate": (
        "chiasma simulate genome.tsv --seed 1",
        "chiasma simulate small.tsv --sites 500 --sd 20",
        "chiasma simulate sample.bb --tumour --seed 1",
    ),
    "fit": (
        "chiasma fit genome.tsv --model genome.toml --out run",
        "chiasma fit genome.tsv --chromosome chromosome --position position --weights 0.2,0.3,0.5 --depth 180 "
        "--sd 12 --enter 0.001 --out three-rows",
        "chiasma fit genome.tsv --model genome.toml --learn weights,depth,sd --out learned",
        "chiasma fit genome.tsv --model genome.toml --update hamming-ball:3 --exchange augmented --ladder 1,5 "
        "--exchange-every 10 --out paper",
        "chiasma fit genome.tsv --out run --resume --draws 2000",
    ),
    "show": (
        "chiasma show run",
        "chiasma show run --region chr17",
        "chiasma show run --json",
    ),
    "cohort": (
        "chiasma cohort sheet.tsv --model genome.toml --seed 1 --workers 2 --out cohort",
        "chiasma cohort sheet.tsv --out cohort --resume",
        "chiasma cohort tumours.tsv --tumour --seed 1 --out tumours",
        "chiasma cohort init sheet.tsv --model genome.toml --seed 1 --tasks 2 --out jobs",
        "chiasma cohort run jobs --task 0",
        "chiasma cohort merge jobs",
    ),
}


def examples(command: str) -> str:
    """The examples of a command, formatted for the end of its help."""
    # A blank line between paragraphs keeps the lines apart; a backslash keeps rich from reading [..] as a style.
    lines = "\n\n".join(f"  {line}" for line in EXAMPLES[command])
    return f"[bold]Examples[/bold]\n\n{lines}\n"
