"""Tables of a study over each other: settings over settings, a scale over the study, values of axes over the base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from posterity.core.errors import PosterityError, UsageError, unknown_name
from posterity.experiments.axes import Axis
from posterity.training.stored import NOTHING


def at_scale(values: dict[str, Any], scale: str | None) -> dict[str, Any]:
    """The study at this scale: tables are merged, an axis and the cases replaced."""
    scales = values.pop("scales", {})
    if not isinstance(scales, Mapping) or not all(isinstance(table, Mapping) for table in scales.values()):
        raise UsageError("scales are tables, such as [scales.smoke]")
    if scale is None:
        return values
    if scale not in scales:
        raise unknown_name("scale", scale, scales) if scales else UsageError("the study has no scales")
    over = dict(scales[scale])
    for name, value in over.items():
        values[name] = merge(values.get(name, {}), value) if isinstance(value, Mapping) else value
    return values


def merge(below: Any, above: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over settings; what both have as tables of options is replaced whole."""
    return {**(below if isinstance(below, Mapping) else {}), **above}


def with_values(base: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with these values; a dotted name is an entry of a table of options, or one of an entry's numbers."""
    values = dict(base)
    for name, value in chosen.items():
        head, dot, rest = name.partition(".")
        key, _, place = rest.rpartition(".")
        if place.isdecimal() and key:
            value, rest = _with_part(name, values.get(head, {}).get(key, ()), int(place), value), key
        values[head] = {**values.get(head, {}), rest: value} if dot else value
    return values


def _with_part(name: str, numbers: Any, place: int, value: Any) -> tuple[Any, ...]:
    if not isinstance(numbers, (list, tuple)) or place >= len(numbers):
        raise UsageError(f"axis {name}: the run has no such number to replace; give all of them in [run]")
    return tuple(value if number == place else each for number, each in enumerate(numbers))


def with_nothing(value: Any) -> Any:
    """For a file: TOML has nothing for None."""
    if isinstance(value, Mapping):
        return {name: with_nothing(inner) for name, inner in value.items()}
    return [with_nothing(inner) for inner in value] if isinstance(value, list) else NOTHING if value is None else value


def without_nothing(value: Any) -> Any:
    """The inverse."""
    if isinstance(value, Mapping):
        return {name: without_nothing(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nothing(inner) for inner in value]
    return None if value == NOTHING else value


def explain(error: ValidationError, schema: type[BaseModel]) -> str:
    """A study's mistakes in one line, each with its place."""
    return "; ".join(_complaint(each, schema) for each in error.errors())


def _complaint(each: Any, schema: type[BaseModel]) -> str:
    place = ".".join(map(str, each["loc"]))
    inner = each.get("ctx", {}).get("error")
    if isinstance(inner, PosterityError):
        return f"{place}: {inner}" if place else str(inner)
    if each["type"] == "extra_forbidden":
        *owner, name = map(str, each["loc"])
        known = {"axes": tuple(Axis.model_fields), "cases": ("run", "parameters", "axes")}
        names = known[owner[0]] if owner else (*schema.model_fields, "scales")
        return str(unknown_name(f"key of {'.'.join(owner) or 'a study'}", name, names))
    return f"{place}: {each['msg']} (given: {each['input']!r})"
