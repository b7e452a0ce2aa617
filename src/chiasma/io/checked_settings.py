"""The content of a settings file, checked by pydantic against the table of settings: sections, keys, values."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from chiasma.errors import InvalidInput
from chiasma.io.options import all_settings, keys

STRICT = ConfigDict(extra="forbid", strict=True)
EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}
SECTIONS = "[data], [model], [priors], [sampler] and [output], and [[row]] tables"


def check_content(path: Path, content: dict[str, Any]) -> None:
    """Raise InvalidInput, which names the file and the setting, for anything that no setting takes."""
    kinds = _kinds()
    sections: dict[str, Any] = {name: (_section(name, own), None) for name, own in kinds.items()}
    file = create_model("Settings", __config__=STRICT, row=(list[dict[str, Any]], None), **sections)
    try:
        file.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidInput(f"{path}: {_message(first['type'], first['loc'], first['input'], kinds)}") from None


def _kinds() -> dict[str, dict[str, Any]]:
    """The type of every key of every section."""
    found: dict[str, dict[str, Any]] = {name: {} for name in keys()}
    for setting in all_settings():
        found[setting.section][setting.key] = setting.value
    found["priors"] = dict.fromkeys(keys()["priors"], dict[str, Any] | list[Any])
    return found | {"output": {"tables_only": bool}}


def _section(name: str, kinds: dict[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {key: (kind, None) for key, kind in kinds.items()}
    return create_model(name.title(), __config__=STRICT, **fields)


def _message(kind: str, place: tuple[int | str, ...], given: Any, kinds: dict[str, dict[str, Any]]) -> str:
    section, *key = (str(one) for one in place)
    if section not in kinds:
        if section == "row":
            return f"rows must be [[row]] tables, got {given!r}"
        return f"there are the sections {SECTIONS}, got {section!r}{_hint(section, list(kinds))}"
    if not key:
        return f"[{section}] must be a section, got {given!r}"
    if kind == "extra_forbidden":
        return f"section [{section}] has no setting {key[0]!r}{_hint(key[0], list(kinds[section]))}"
    expected = EXPECTED.get(kinds[section][key[0]], "numbers" if section == "model" else "a table")
    expected = "a text or temperatures" if key[0] == "ladder" else expected
    return f"{key[0]} of [{section}] must be {expected}, got {given!r}"


def _hint(word: str, known: list[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it knows {', '.join(known)}"
