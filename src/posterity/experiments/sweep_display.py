"""One display over a whole sweep: a bar on a terminal, some lines elsewhere. Always on stderr."""

from __future__ import annotations

import time
from collections import Counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from posterity.experiments.lease import Leases
from posterity.experiments.row import RUNNING, WAITING

LINES = 20  # about so many, where there is no terminal


class SweepDisplay:
    """What is done, what is not, and the time left, by the pace since it was opened."""

    def __init__(self, name: str, leases: Leases, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.name, self.leases = name, leases
        self.began = time.monotonic()
        self.before = self.shown = self._done(self._count())
        self._bar: Progress | None = None
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[state]}"), console=self.console, expand=True)
            self._task = self._bar.add_task(name, total=len(leases.keys), completed=self.before, state="")
            self._bar.start()

    def update(self) -> None:
        """Look and show."""
        counts = self._count()
        done, total = self._done(counts), len(self.leases.keys)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, state=self._words(counts))
        elif done >= min(total, self.shown + max(1, total // LINES)) and done > self.shown:
            self.shown = done
            self.console.print(f"{self.name}: {done}/{total}  {self._words(counts)}", highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _count(self) -> Counter[str]:
        return Counter(outcome.state for outcome, _ in self.leases.outcomes().values())

    def _done(self, counts: Counter[str]) -> int:
        return counts.total() - counts[RUNNING] - counts[WAITING]

    def _words(self, counts: Counter[str]) -> str:
        """Such as: 2 diverged, 3 running, 4 min left."""
        done, total = self._done(counts), counts.total()
        parts = [f"{counts[state]} {state}" for state in ("failed", "diverged", "pruned", RUNNING) if counts[state]]
        if done > self.before and done < total:
            left = (time.monotonic() - self.began) / (done - self.before) * (total - done)
            parts.append(f"{in_words(left)} left")
        return ", ".join(parts)


def in_words(seconds: float) -> str:
    """Such as 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
