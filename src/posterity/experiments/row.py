"""Row: one run of a table of results, or another item of a study: what it was, what came of it, how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from posterity.experiments.record import Record
from posterity.storage import EpochRecord, read_json

FINISHED, FAILED, DIVERGED, PRUNED, RUNNING, WAITING = "finished", "failed", "diverged", "pruned", "running", "waiting"
BAD = (FAILED, DIVERGED)
PLAIN = ("key", "state", "error", "folder")
RESULT = "result.json"  # of a function, in its item's folder
PARTS = ("config", "metrics", "row")


@dataclass(frozen=True)
class Row:
    """One run, or another item of a study."""

    key: str
    config: Mapping[str, Any]
    metrics: Mapping[str, float]
    state: str = FINISHED
    error: str = ""
    folder: Path | None = None
    records: Sequence[EpochRecord] | None = None  # of a row that was stored elsewhere with its history

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.config["seed"])

    @cached_property
    def history(self) -> list[EpochRecord]:
        """A record an epoch; none where nothing is stored."""
        if self.records is not None:
            return list(self.records)
        if self.folder is None:
            return []
        if (self.folder / "config.toml").exists():
            return Record.read(self.folder).history
        found: list[EpochRecord] = read_json(self.folder / RESULT).get("history", [])
        return found

    @classmethod
    def of(cls, record: Record) -> Row:
        """A run's."""
        state = FINISHED if record.finished else RUNNING
        return cls(record.run.key, flat(record.run.as_dict()), metrics_of(record), state, folder=record.folder)

    def part(self, name: str) -> Mapping[str, Any]:
        """`config` or `metrics`; by another name what stands beside them."""
        found: Mapping[str, Any] = getattr(self, name, {})
        return found if name in ("config", "metrics") else {key: getattr(self, key) for key in PLAIN}


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with dotted names for what stands in tables, and tuples for lists."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": inner for key, inner in flat(value).items()}
        else:
            found[name] = tuple(value) if isinstance(value, (list, tuple)) else value
    return found


def metrics_of(record: Record) -> dict[str, float]:
    """Everything a run's record has in numbers, by plain names."""
    last, evaluation = record.summary.get("last", {}), record.evaluation
    average = evaluation.get("average", {})
    trained = {
        name if name.startswith("val_") or name in ("loss", "kl") else f"train_{name}": value
        for name, value in last.items()
        if name.startswith("val_") or name in ("loss", "kl", "nll", "accuracy", "rmse", "seconds")
    }
    elsewhere = flat(evaluation.get("ood", {}))
    averaged = flat({"average": {**average.get("test", {}), **average.get("ood", {})}})
    found = {**record.test, **elsewhere, **averaged, **trained}
    return {name: float(value) for name, value in found.items()}
