"""Record: a run's folder read back. The only way stored results are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from posterity.experiments.predictions import Stored, read_stored
from posterity.experiments.run import Run
from posterity.experiments.trained import Trained, load_run
from posterity.storage import EpochRecord, RunDirectory, read_history, read_json


@dataclass(frozen=True)
class Record:
    """What a run was and what came of it; the larger parts are read when they are asked for."""

    folder: Path
    run: Run
    summary: dict[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> Record:
        """The run in `folder`, finished or not."""
        directory = RunDirectory(folder)
        return cls(directory.path, Run.read(directory.config), read_json(directory.summary))

    @property
    def finished(self) -> bool:
        """Whether the training has come to its end and was evaluated."""
        whole = bool(self.summary.get("stopped")) and "evaluation" in self.summary
        return whole and bool(self.summary.get("key") == self.run.key)  # or it is being prolonged

    def was_evaluated(self, samples: int, ood: Iterable[str]) -> bool:
        """Whether it is finished, and was evaluated with its seed, these samples, on these data sets at least."""
        found = self.evaluation
        evaluated = self.finished and (found["samples"], found["seed"]) == (samples, self.run.seed)
        return evaluated and set(ood) <= found.get("ood", {}).keys()

    @property
    def evaluation(self) -> dict[str, Any]:
        """The numbers on the test data, `ood` and of the `average`; empty before the end."""
        found: dict[str, Any] = self.summary.get("evaluation", {})
        return found

    @property
    def test(self) -> dict[str, float]:
        """The metrics on the test data; empty before the end."""
        found: dict[str, float] = self.evaluation.get("test", {})
        return found

    def numbers(self) -> dict[str, Any]:
        """The evaluation's numbers alone."""
        return {
            name: value for name, value in self.evaluation.items() if name in ("test", "ood", "by_class", "average")
        }

    @property
    def warnings(self) -> list[str]:
        """Those of the last epoch, and of what was found at the end."""
        parts = (self.summary.get("last", {}), self.summary.get("ending", {}))
        return [warning for part in parts for warning in part.get("warnings", [])]

    @cached_property
    def history(self) -> list[EpochRecord]:
        """A record an epoch."""
        path = RunDirectory(self.folder).history
        return read_history(path) if path.exists() else []

    @cached_property
    def predictions(self) -> Stored:
        """Stored predictions by network (`last`, `average`) and data (`test`, and those of `ood`)."""
        return read_stored(RunDirectory(self.folder).predictions)

    def load(self) -> Trained:
        """The trained network."""
        return load_run(self.folder)

    @property
    def by_class(self) -> dict[str, dict[str, float]]:
        """Of the test data by the class's name, where classes have names."""
        found: dict[str, dict[str, float]] = self.evaluation.get("by_class", {})
        return found

    def columns(self) -> dict[str, dict[str, float]]:
        """The metrics as columns of a table: the test data, data from elsewhere; the average's beside the last's."""
        average = self.evaluation.get("average")
        if average is None:
            return {"test": self.test, **self.evaluation.get("ood", {})}
        found: dict[str, dict[str, float]] = {}
        for name, one in {"last": self.evaluation, "average": average}.items():
            found |= {name: one["test"], **{f"{name}, {k}": v for k, v in one.get("ood", {}).items()}}
        return found
