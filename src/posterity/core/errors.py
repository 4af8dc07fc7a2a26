"""What can go wrong, in one place, each with the exit code the command line gives it.

A message names the value, what was expected, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PosterityError(Exception):
    """Anything this library refuses or fails at; `exit_code` is what the command line returns."""

    exit_code = 1


class UsageError(PosterityError, ValueError):
    """A value the caller gave is wrong."""

    exit_code = 2


class DataError(UsageError):
    """Data that cannot be trained on or predicted from: shape, dtype, labels, NaN, emptiness."""


class UnknownNameError(UsageError):
    """A name that is not registered."""


class InUseError(UsageError):
    """A folder that another process is writing in."""


class CorruptFileError(PosterityError):
    """A file that is truncated, altered, of another version, or not trusted."""

    exit_code = 4


class NonFiniteError(PosterityError):
    """A loss or gradient became NaN or infinite."""


class FetchError(PosterityError):
    """A data set could not be obtained by any of the known ways."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, hint: str = "") -> UnknownNameError:
    """An error that lists the known names and says the `hint`, or suggests the nearest."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    if hint or near:
        hint = f" {hint}" if hint else f" Did you mean '{near[0]}'?"
    return UnknownNameError(f"unknown {kind} '{name}'.{hint} Known: {', '.join(names)}.")
