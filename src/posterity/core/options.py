"""Options given by name to what is chosen by name: optimisers, schedules, priors, models.

What there is to give stands in the signature, and only there: names, defaults, and kinds (from the annotation and the
default). Given options are checked against it before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, formatannotation, signature
from typing import Any, NamedTuple

from posterity.core.errors import UsageError, unknown_name

# Kinds of values, as they can be written on a command line or in a file, with the types that stand for them.
TYPES = {"bool": "truth", "int": "whole", "float": "number", "str": "word", "tuple": "numbers", "Sequence": "numbers"}
SAID = {
    "truth": "true or false,", "whole": "a whole number", "number": "a number", "word": "a word", "numbers": "numbers"
}  # fmt: skip


class Option(NamedTuple):
    """What may be given: its default, None where it has none, and the kinds it may be of; no kinds are any."""

    default: Any
    kinds: tuple[str, ...]


def options_of(function: Callable[..., Any], *, beside: Iterable[str] = ()) -> dict[str, Option]:
    """The options in a signature, by name, apart from those that are given otherwise (`beside`)."""
    found = {}
    for name, parameter in signature(function).parameters.items():
        if name not in beside and parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            default = None if parameter.default is Parameter.empty else parameter.default
            found[name] = Option(default, _kinds(parameter.annotation, default))
    return found


def check_options(owner: str, options: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Refuse `options` that `owner` does not take, or that are of another kind than it takes."""
    for name, value in options.items():
        if name not in known:
            if not known:
                raise UsageError(f"{owner} takes no options, but was given {name}")
            raise unknown_name(f"option of {owner}", name, known)
        default, kinds = known[name]
        kind = "number" if _kind(value) == "whole" and "number" in kinds else _kind(value)
        if kinds and kind not in kinds and not (value is None and default is None):
            said = " or ".join(SAID[kind] for kind in kinds if not (kind == "whole" and "number" in kinds))
            such = "" if default is None else f" such as {_written(default)}"
            raise UsageError(f"option {name} of {owner} takes {said}{such}, not {value!r}")


def _kinds(annotation: Any, default: Any) -> tuple[str, ...]:
    outer = re.sub(r"\[.*\]", "", annotation if isinstance(annotation, str) else formatannotation(annotation))
    kinds = [TYPES[word] for word in re.findall(r"\w+", outer) if word in TYPES]
    if default is not None and _kind(default) in SAID:
        # A default such as 0 is that of a number unless the annotation says int.
        kinds = ["number" if _kind(default) == "whole" and "whole" not in kinds else _kind(default), *kinds]
    return tuple(dict.fromkeys(kinds))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "whole" if isinstance(value, int) else "number"
    if isinstance(value, str):
        return "word"
    if isinstance(value, Sequence) and all(_kind(part) in ("whole", "number") for part in value):
        return "numbers"
    return "other"


def _written(value: Any) -> str:
    """As on a command line."""
    return ":".join(map(str, value)) if _kind(value) == "numbers" else str(value).lower()
