"""The help of a command: usage, what it does, examples, then its options by topic.

`--help` leaves out rare options; `--help-all` has everything.
"""

from __future__ import annotations

from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from chiasma.cli.examples import EXAMPLES

ALL = "--help-all"
# Options that only --help-all shows, of any command.
RARE = frozenset(
    (
        *("delimiter", "end", "sample", "gap_unit", "df", "depth_sd", "background", "dispersion", "initial", "leave"),
        *("thin", "exchange_every", "exact_seconds", "ladder", "evidence", "exchange"),
        *("max_copies", "normal", "mappability", "assembly", "female"),
        *("retries", "scheduler_file", "tasks", "task", "again"),
    )
)
# Of a cohort, the settings of its fits as well: chiasma fit --help has them.
RARE_PANELS = {"cohort": ("Data", "Model", "Sampler", "Tumours")}
KEPT = frozenset({"model", "learn", "tumour"})
# Placeholders for the values of options, by type.
PLACEHOLDERS = {"int": "N", "float": "X", "path": "FILE"}
LONG = 110  # characters of a text after which --help shows its first sentence only


class Command(TyperCommand):
    """A command with this help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ALL in args:
            show_help(self, ctx, everything=True)
            raise typer.Exit
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        show_help(self, ctx, everything=False)


def show_help(command: TyperCommand, ctx: Any, everything: bool) -> None:
    """Print the help of a command."""
    console = Console(highlight=False)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.get_params(ctx) if one.param_type_name == "option"]
    names = " ".join(_argument(one) for one in arguments)
    console.print(Text.assemble("Usage: ", (f"{ctx.command_path} {names}".rstrip(), "bold"), " [OPTIONS]"))
    console.print()
    about = (command.help or "").strip().split("\n\n")
    for paragraph in about if everything else about[:1]:
        console.print(" ".join(paragraph.split()), markup=False)
        console.print()
    console.print("Examples", style="bold")
    for example in EXAMPLES.get(str(ctx.info_name), ()):
        console.print(f"  {example}", markup=False, soft_wrap=True)
    _table(console, "Arguments", [(_argument(one), getattr(one, "help", "") or "") for one in arguments], everything)
    panels: dict[str, list[tuple[str, str]]] = {}
    left_out = 0
    for one in options:
        panel = str(getattr(one, "rich_help_panel", None) or "Options")
        if not everything and _is_rare(one, panel, str(ctx.info_name)):
            left_out += 1
            continue
        panels.setdefault(panel, []).append((_option(one), getattr(one, "help", "") or ""))
    general = panels.pop("Options", [])
    if left_out:
        general.append((ALL, f"Show {left_out} more options."))
    for panel, lines in [*panels.items(), ("Options", general)]:
        _table(console, panel, lines, everything)


def _is_rare(option: Any, panel: str, command: str) -> bool:
    name = str(option.name)
    return name in RARE or (panel in RARE_PANELS.get(command, ()) and name not in KEPT)


def _argument(one: Any) -> str:
    return one.metavar or str(one.name).upper()


def _option(one: Any) -> str:
    flags = ", ".join(sorted([*one.opts, *one.secondary_opts], key=len))
    if getattr(one, "is_flag", False):
        return flags
    # Versions of typer keep the type of an option in different attributes.
    kept = getattr(one, "type_descriptor", None) or getattr(one, "type", None)
    kind = str(getattr(kept, "annotation", kept)).lower()
    usual = next((text for name, text in PLACEHOLDERS.items() if name in kind), "TEXT")
    return f"{flags} {one.metavar or usual}"


def _table(console: Console, title: str, lines: list[tuple[str, str]], everything: bool) -> None:
    if not lines:
        return
    console.print()
    console.print(title, style="bold")
    table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column()
    for flags, text in lines:
        text = " ".join(text.replace("\\[", "[").split())
        if not everything and len(text) > LONG:
            text = text.partition(". ")[0].rstrip(".") + "."
        table.add_row(f"  {escape(flags)}", escape(text))
    console.print(table)
