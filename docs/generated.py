"""Modules that are made from the schema of a run; `python docs/tables.py` writes them anew, beside the tables.

cli/flags.py            the flags of a run and the defaults that help shows, so that help imports no torch
training/keywords.py    the settings as a TypedDict, so that editors and type checkers know the keywords of `fit`
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from posterity.experiments import Run
from posterity.experiments.landscape import CLIP
from posterity.experiments.uci_study import PUBLISHED
from posterity.experiments.variance_study import DRAWS
from posterity.prediction import DEFAULT_SAMPLES
from posterity.priors import PENALTIES
from posterity.training import CHECKPOINT_SECONDS, Settings, range_test

SOURCES = Path(__file__).parents[1] / "src" / "posterity"
MADE = "Made by docs/tables.py from the schema of a run: do not edit."
LIMITS = ("group", "low", "high", "steps")


def flags_source() -> str:
    """The flags in the order of their panels: name, type, panel and help."""
    limits = {name: inspect.signature(range_test).parameters[name].default for name in LIMITS}
    lines = [
        f'"""The flags of a run and the defaults of commands. {MADE}"""',
        "",
        "# fmt: off",
        "# ruff: noqa: E501",
        "",
        f"CHECKPOINT_SECONDS = {CHECKPOINT_SECONDS!r}",
        f"CLIP = {CLIP!r}",
        f"DRAWS = {DRAWS!r}",
        f"PENALTIES = {_tuple(PENALTIES)}",
        f"RANGE_TEST = {_table(limits)}",
        f"SAMPLES = {DEFAULT_SAMPLES!r}",
        f"UCI = {_tuple(PUBLISHED)}",
        "",
        "FLAGS: tuple[tuple[str, type, str, str], ...] = (",
    ]
    for panel, names in Run.by_panel().items():
        for name in names:
            cells = [_quoted(name), _plain(name).__name__, _quoted(panel), _quoted(_help(name))]
            lines.append(f"    ({', '.join(cells)}),")
    return "\n".join([*lines, ")"]) + "\n"


def keywords_source() -> str:
    """The settings with what each accepts."""
    lines = [
        f'"""The keywords of `fit` for editors and type checkers. {MADE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Callable, Mapping",
        "from typing import Any, TypedDict",
        "",
        "from torch.optim import Optimizer",
        "",
        "from posterity.objectives.tempering import TemperatureRule",
        "",
        "",
        "class SettingsKeywords(TypedDict, total=False):",
        '    """What `Settings` takes, all of it optional."""',
        "",
    ]
    for name, field in Settings.model_fields.items():
        extra: Any = field.json_schema_extra
        lines.append(f"    {name}: {' | '.join(_accepted(field.annotation, extra['accepts']))}")
    return "\n".join(lines) + "\n"


def _help(name: str) -> str:
    field = Run.model_fields[name]
    default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
    shown = "" if default in (None, "", {}) or default is False else f"; default {default}"
    return f"{field.description}{shown}"


def _plain(name: str) -> type:
    """What the command line reads: text, unless it is just a number or a switch."""
    annotation = Run.model_fields[name].annotation
    types = [get_origin(t) or t for t in (annotation, *get_args(annotation))]
    if {str, tuple, dict, Literal} & set(types):
        return str
    return next((t for t in (bool, int, float) if t in types), str)


def _accepted(annotation: Any, more: str) -> list[str]:
    """The types that a keyword takes, in writing."""
    union = get_origin(annotation) in (Union, UnionType)
    written = []
    for part in get_args(annotation) if union else (annotation,):
        kind = get_origin(part) or part
        written.append({dict: "Mapping[str, Any]", NoneType: "None"}.get(kind, kind.__name__))
    optional = ["None"] if "None" in written else []
    return [*(w for w in written if w != "None"), *([more] if more else []), *optional]


def _quoted(text: str) -> str:
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"' if '"' not in text else repr(text)


def _tuple(names: Any) -> str:
    return f"({', '.join(map(_quoted, names))})"


def _table(values: dict[str, Any]) -> str:
    written = (f"{_quoted(k)}: {_quoted(v) if isinstance(v, str) else repr(v)}" for k, v in values.items())
    return f"{{{', '.join(written)}}}"


FILES = {SOURCES / "cli" / "flags.py": flags_source, SOURCES / "training" / "keywords.py": keywords_source}
