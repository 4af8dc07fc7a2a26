"""A live display on a terminal; plain lines, one an epoch, elsewhere. Always on stderr."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from posterity.objectives import Loss
from posterity.storage import EpochRecord, in_short
from posterity.training.callbacks import Callback
from posterity.training.loop import Training
from posterity.training.words import in_words

REFRESH_SECONDS = 0.25
MANY, LINES = 50, 20  # more epochs than so many have about so many lines


class ProgressDisplay(Callback):
    """Shows nll, accuracy or error, and the time left; at the end, what was used and why."""

    kept = False

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._shown = 0.0
        self._warned: set[str] = set()

    def on_start(self, training: Training) -> None:
        """Open the bar on a terminal."""
        if training.step:
            self.console.print(f"resumed after step {training.step} (epoch {training.epoch})")
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[state]}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self.console, expand=True)
            self._task = self._bar.add_task("training", total=training.total_steps, completed=training.step, state="")
            self._bar.start()

    def on_step(self, training: Training, loss: Loss) -> None:
        """Refresh a few times a second."""
        if self._bar is None or time.monotonic() - self._shown < REFRESH_SECONDS:
            return
        self._shown = time.monotonic()
        sums = training.sums
        state, score = f"nll {sums['nll'] / sums['rows']:.4f}", sums["score"] / sums["rows"]
        state += f"  rmse {score**0.5:.4g}" if training.train.task == "regression" else f"  accuracy {score:.2%}"
        label = f"epoch {training.epoch + 1}/{training.settings.length}"
        self._bar.update(self._task, description=label, completed=training.step, state=state)

    def on_epoch(self, training: Training, record: EpochRecord) -> None:
        """One line; of a long training only some have one."""
        epochs = training.settings.length
        every = 1 if epochs <= MANY else -(-epochs // LINES)
        if training.stopped or record["epoch"] == 1 or record["epoch"] % every == 0:
            place = f"epoch {record['epoch']:>{len(str(epochs))}}/{epochs}"
            self._say(f"{place}  {in_short(record)}  {record['seconds']:.1f} s")
        for warning in record["warnings"]:
            if warning.split(" (")[0] not in self._warned:
                self._warned.add(warning.split(" (")[0])
                self._say(f"warning: {warning}")

    def on_end(self, training: Training) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=training.step)
            self._bar.stop()
            self._bar = None
        if training.ending and training.history:
            self._say(in_words(training.plan, training.history[-1], training.ending))
            for warning in training.ending["warnings"]:
                self._say(f"warning: {warning}")

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)
