"""Options of schedules and optimisers, given by name: checked before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from posterity.core.errors import UsageError, unknown_name


def check_options(owner: str, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse `options` that `owner` does not take, or that are of another kind than its `defaults`."""
    for name, value in options.items():
        if name not in defaults:
            if not defaults:
                raise UsageError(f"{owner} takes no options, but was given {name}")
            raise unknown_name(f"option of {owner}", name, defaults)
        default = defaults[name]
        if default is not None and _kind(value) != _kind(default):
            shown = ":".join(map(str, default)) if _kind(default) == "numbers" else str(default).lower()
            raise UsageError(f"option {name} of {owner} takes {ARTICLE[_kind(default)]} such as {shown}, not {value!r}")


ARTICLE = {"truth": "true or false,", "number": "a number", "word": "a word", "numbers": "numbers", "other": "a value"}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "word"
    if isinstance(value, Sequence) and all(_kind(part) == "number" for part in value):
        return "numbers"
    return "other"
