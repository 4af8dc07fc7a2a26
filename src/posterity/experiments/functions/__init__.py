"""Items of a study that are no runs: functions by name, of numbers and words, that return numbers. One file each.

A function has keyword arguments alone, a `seed` among them, and depends on nothing else. It may return a `history`,
too: a list of records with a number `epoch` each (a step, a width, whatever the curve is over), as a run has one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from posterity.core.errors import UsageError, unknown_name
from posterity.core.options import check_options, options_of

HISTORY = "history"


def _find() -> dict[str, Callable[..., Mapping[str, Any]]]:
    """A module a function, both of the same name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: getattr(importlib.import_module(f"{__name__}.{name}"), name) for name in names}


FUNCTIONS = _find()


def check_function(name: str, parameters: Mapping[str, Any]) -> None:
    """Refuse an unknown function, or parameters that it does not take."""
    if name not in FUNCTIONS:
        raise unknown_name("function", name, FUNCTIONS)
    check_options(f"function {name}", parameters, options_of(FUNCTIONS[name]))
    try:
        signature(FUNCTIONS[name]).bind(**parameters)
    except TypeError as error:
        raise UsageError(f"function {name}: {error}; give it among [parameters] or as an axis") from error
