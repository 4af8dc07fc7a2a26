"""How results and messages are printed: tables or JSON on stdout, notes on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

PERCENT = ("accuracy", "confidence", "coverage")


def note(message: str) -> None:
    """A line on stderr."""
    print(message, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Machine output."""
    print(json.dumps(value, indent=1))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people, as wide as it needs to be when it is not on a terminal."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_metrics(title: str, results: Mapping[str, Mapping[str, float]]) -> None:
    """One row a metric, one column a result."""
    names = dict.fromkeys(name for metrics in results.values() for name in metrics)
    rows = [[name, *(show(name, m.get(name)) for m in results.values())] for name in names]
    print_table(title, ["", *results], rows)


def show(name: str, value: float | None) -> str:
    """A metric's value in its usual form."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    return f"{value:.2%}" if name.startswith(PERCENT) else f"{value:.4f}"
