"""Weight tensors by patterns of their names: the first pattern that matches a name decides."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

from posterity.core.errors import UsageError


def first_matches(patterns: Iterable[str], names: Sequence[str]) -> list[str | None]:
    """For each name the first pattern that matches it, or None; a pattern that no name is left for is refused."""
    patterns = list(patterns)
    chosen = [next((p for p in patterns if fnmatch.fnmatchcase(name, p)), None) for name in names]
    for pattern in patterns:
        if pattern not in chosen:
            taken = fnmatch.filter(names, pattern)
            why = f"only what an earlier pattern took ({', '.join(taken)})" if taken else "none of the weights"
            raise UsageError(f"the pattern '{pattern}' matches {why}; their names are {', '.join(names)}")
    return chosen
