"""Flags from the schema of a run, so that flags, config file and Python agree.

The schema knows every optimiser and prior, and so imports torch: help is made from `flags`, which is made from it.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin

import typer

from posterity.cli.flags import FLAGS
from posterity.core.errors import UsageError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Extra = dict[str, tuple[Any, Any]]  # a command's own options: annotation and default by name
JSON: Extra = {"json": (Annotated[bool, typer.Option("--json", help="results as JSON on stdout")], False)}


def run_command(command: Callable[..., None], extra: Extra) -> Callable[..., None]:
    """`command(given, **extra)` with the flags of a run beside its own; `given` are those of the run that were used."""

    def call(**options: Any) -> None:
        own = {name: options.pop(name) for name in extra}
        given = {name: parse(name, value) for name, value in options.items() if value is not None}
        command(given, **own)

    kind = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(n, kind, default=value, annotation=a) for n, (a, value) in extra.items()]
    parameters = [*_flags(), *own]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = command.__doc__
    return call


def parse(name: str, value: Any) -> Any:
    """A flag's text in the field's type."""
    from posterity.experiments import Run

    field = Run.model_fields[name]
    flag = f"--{name.replace('_', '-')}"
    if _holds(field, tuple):
        parts = tuple(part.strip() for part in value.split(",") if part.strip())
        if not _of_numbers(field):
            return parts
        if not all(part.isdecimal() for part in parts):
            raise UsageError(f"{flag} takes whole numbers such as 400,400, not '{value}'")
        return tuple(int(part) for part in parts)
    if _holds(field, dict):
        return dict(_option(flag, part) for part in value.split(",") if part.strip())
    if isinstance(value, str) and _holds(field, float):
        with contextlib.suppress(ValueError):
            return float(value)
    return value


def _flags() -> list[inspect.Parameter]:
    """A flag for each field of a run, by panel."""
    parameters = []
    for name, kind, panel, text in FLAGS:
        option = typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=False, rich_help_panel=panel)
        annotation = Annotated[Optional[kind], option]  # type: ignore[valid-type]  # noqa: UP045
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return parameters


def _types(field: FieldInfo) -> list[Any]:
    """The plain types and containers of a field's annotation, whatever their order."""
    return [get_origin(t) or t for t in (field.annotation, *get_args(field.annotation))]


def _holds(field: FieldInfo, kind: type) -> bool:
    return kind in _types(field)


def _of_numbers(field: FieldInfo) -> bool:
    return "int" in str(field.annotation)


def _option(flag: str, text: str) -> tuple[str, Any]:
    """key=value, where the value is a number, true, false, numbers with colons between them, or a word."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise UsageError(f"{flag} takes options such as key=value,key=value, not '{text}'")
    if value in ("true", "false"):
        return key, value == "true"
    for read in (int, float, lambda parts: tuple(float(part) for part in parts.split(":"))):
        with contextlib.suppress(ValueError):
            return key, read(value)
    return key, value
