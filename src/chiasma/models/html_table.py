"""HTML of models and results in notebooks: tables of texts, all of them escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from chiasma.models.learnable import MOST_NUMBERS
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
