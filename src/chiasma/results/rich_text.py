"""Shown: things that rich can draw as a table, as plain text for print and as HTML for notebooks."""

from __future__ import annotations

from io import StringIO
from typing import ClassVar


class Shown:
    """Base of classes with a method `__rich__`."""

    width: ClassVar[int] = 100

    def __str__(self) -> str:
        from rich.console import Console

        out = StringIO()
        # In a notebook rich would otherwise display the table, and write nothing.
        Console(file=out, width=self.width, color_system=None, markup=False, force_jupyter=False).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())

    def _repr_html_(self) -> str:
        from rich.console import Console

        console = Console(
            file=StringIO(), width=self.width, record=True, color_system=None, markup=False, force_jupyter=False
        )
        console.print(self)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
