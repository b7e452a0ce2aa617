"""Shown: things that rich can draw as a table, as plain text for print and as HTML for notebooks."""

from __future__ import annotations

from io import StringIO

WIDTH = 100


class Shown:
    """Base of classes with a method `__rich__`."""

    def __str__(self) -> str:
        from rich.console import Console

        out = StringIO()
        Console(file=out, width=WIDTH, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())

    def _repr_html_(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=WIDTH, record=True, color_system=None)
        console.print(self)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
