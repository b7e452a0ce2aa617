"""Models and results in notebooks and terminals: tables of texts as HTML (all of them escaped), and with rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from io import StringIO
from typing import Any, ClassVar

import numpy as np

from chiasma.models.arguments import MOST_NUMBERS
from chiasma.models.priors import Prior


def html_facts(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """A title, and a table of names and what they are."""
    lines = "".join(f"<tr><th {_NAME}>{escape(name)}</th><td {_LEFT}>{escape(text)}</td></tr>" for name, text in facts)
    return f"<div><strong>{escape(title)}</strong><table>{lines}</table></div>"


def html_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table with a header."""
    head = "".join(f"<th {_LEFT}>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td {_LEFT}>{escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_LEFT = 'style="text-align: left"'  # notebooks align tables to the right
_NAME = 'style="text-align: left; vertical-align: top; white-space: nowrap"'


def value_text(value: Any) -> str:
    """An argument of a model in a few words.

    >>> from chiasma.models.priors import HalfNormal
    >>> value_text(np.array([0.5, 1 / 3])), value_text(HalfNormal(2)), value_text(np.zeros((40, 3)))
    ('0.5, 0.3333', 'learned, prior HalfNormal(2)', 'array of shape (40, 3)')
    """
    if isinstance(value, Prior):
        return f"learned, prior {value}"
    if callable(value):
        return f"{getattr(value, '__name__', type(value).__name__)}()"
    numbers = np.asarray(value)
    if numbers.size > MOST_NUMBERS:
        return f"array of shape {numbers.shape}"
    if numbers.ndim < 2:
        return ", ".join(f"{number:.4g}" for number in numbers.ravel())
    return ", ".join(f"({value_text(line)})" for line in numbers)


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
