"""Every public name says in its docstring what it is, what it takes and returns, and shows an example.

Examples are run by doctest, with the rest of the suite. Public names are those that the reference page lists, and the
methods of their classes that have an example: methods without one are for the package's own modules.
"""

import importlib
import inspect
import re
from functools import cached_property, reduce
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import chiasma as ch

REFERENCE = Path(__file__).parents[1] / "docs/reference/index.md"
NAMES = re.findall(r"^   ~chiasma\.([\w.]+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
# An example is copied as it stands: it imports what it uses.
IMPORTS = {"import numpy as np": "np.", "import chiasma as ch": ""}
SECTION = re.compile(r"^(\w+)\n-{3,}$", re.MULTILINE)


def public(name: str) -> Any:
    """What a name of the reference stands for."""
    importlib.import_module("chiasma.cohort.api")
    return reduce(getattr, name.split("."), ch)


def sections(doc: str) -> dict[str, str]:
    """Text of a docstring by heading; what is above the first heading under ""."""
    parts = SECTION.split(doc)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def described(section: str) -> set[str]:
    """Names that a section of parameters describes: its lines `a, b : text`."""
    lines = re.findall(r"^([\w*]+(?:, [\w*]+)*) :", section, re.MULTILINE)
    return {name.strip("*") for line in lines for name in line.split(", ")}


def unnamed(section: str) -> list[str]:
    """Lines of a section of parameters that the site would show as the name of a parameter, and are none."""
    lines = [line for line in section.splitlines() if line and not line.startswith(" ")]
    return [line for line in lines if not re.match(r"[\w*]+(, [\w*]+)* :", line)]


def taken(thing: object) -> set[str]:
    """Public arguments of a function or class."""
    if isinstance(thing, type) and issubclass(thing, Exception):
        return set()
    return {name for name in inspect.signature(thing).parameters if not name.startswith("_")} - {"self", "cls"}


def methods(kind: type) -> dict[str, object]:
    """Own public functions of a class: methods, class methods and static methods."""
    functions = FunctionType | classmethod | staticmethod
    own = {name for name, thing in vars(kind).items() if not name.startswith("_") and isinstance(thing, functions)}
    return {name: getattr(kind, name) for name in own}


def faults(name: str, thing: object) -> list[str]:
    """What the docstring of a function or class lacks."""
    found = sections(inspect.getdoc(thing) or "")
    lacks = [] if found[""].split("\n\n")[0].rstrip().endswith((".", ":")) else ["a summary that is a sentence"]
    lacks += [f"{argument} among its Parameters" for argument in taken(thing) - described(found.get("Parameters", ""))]
    lacks += [f"a name before {line!r}" for line in unnamed(found.get("Parameters", ""))]
    lacks += [f"an argument {argument}" for argument in described(found.get("Parameters", "")) - taken(thing)]
    if not isinstance(thing, type) and inspect.signature(thing).return_annotation not in (None, "None"):
        lacks += [] if "Returns" in found else ["Returns"]
    example = found.get("Examples", "")
    lacks += [] if ">>> " in example else ["Examples"]
    lacks += [f"{line!r} in its example" for line in IMPORTS if IMPORTS[line] in example and line not in example]
    return [f"{name} lacks {what}" for what in lacks]


@pytest.mark.parametrize("name", NAMES)
def test_public_names__are_documented(name):
    thing = public(name)
    found = faults(name, thing)
    if isinstance(thing, type):
        for own, method in methods(thing).items():
            if ">>> " in (method.__doc__ or "") or thing is ch.Posterior:
                found += faults(f"{name}.{own}", method)
    assert found == []


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(public(name), type)])
def test_properties__say_what_they_are(name):
    kind = public(name)
    own = {key: thing for key, thing in vars(kind).items() if isinstance(thing, property | cached_property)}
    assert [key for key in own if not key.startswith("_") and not inspect.getdoc(own[key])] == []
