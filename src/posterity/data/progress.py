"""Telling a person how a fetch goes: a bar on a terminal, plain lines elsewhere, always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

Update = Callable[[int], None]


class Reporter:
    """Where the fetch writes; silent if `enabled` is false."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled

    def say(self, line: str) -> None:
        """Print a line, at once."""
        if self.enabled:
            print(line, file=sys.stderr, flush=True)

    @contextmanager
    def transfer(self, label: str, total: int | None) -> Iterator[Update]:
        """Yields a function to be told the bytes received so far, of `total` if that is known."""
        if not self.enabled:
            yield lambda received: None
        elif sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            with Progress(*columns, console=Console(stderr=True)) as bar:
                task = bar.add_task(label, total=total)
                yield lambda received: bar.update(task, completed=received)
        else:
            size = f" ({total / 1e6:.1f} MB)" if total else ""
            self.say(f"downloading {label}{size}")
            yield lambda received: None
