"""What happened, one record an epoch: a list in memory and, for a run, an append-only file of JSON lines.

Beside it is the same as a table, history.csv: written when a training ends, also by a signal or an error, and removed
when it is gone on with. A kill leaves none, or one that says what the lines say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from posterity.core.errors import CorruptFileError
from posterity.storage.atomic import flush
from posterity.storage.table import write_table

EpochRecord = dict[str, Any]


class History(Sequence[EpochRecord]):
    """Records in order; a checkpoint remembers how many. `confirm` is as for checkpoints."""

    def __init__(self, path: Path | None = None, confirm: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self.table = None if path is None else path.with_suffix(".csv")
        self._confirm = confirm
        self.records: list[EpochRecord] = []

    def append(self, record: EpochRecord) -> None:
        """Add a record and write its line through to the file."""
        self.records.append(record)
        if self.path is not None:
            self._confirm()
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def flush(self) -> None:
        """Force the file to the disk: a checkpoint that counts on its lines must not outlive them."""
        if self.path is not None and self.path.exists():
            flush(self.path)

    def tabulate(self) -> None:
        """Write the table."""
        if self.table is not None:
            self._confirm()
            write_table(self.table, self.records)

    def restore(self, count: int) -> None:
        """Go back to `count` records: lines after them belong to work that a crash has lost and that is done again."""
        self.records = []
        if self.path is None or self.table is None:
            return
        if self.table.exists():
            self._confirm()
            self.table.unlink()
        content = self.path.read_bytes() if self.path.exists() else b""
        lines = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
        if len(lines) < count:
            raise CorruptFileError(
                f"{self.path} has {len(lines)} lines, but the checkpoint was written when it had {count}: "
                "it was cut off or replaced; start again with --overwrite"
            )
        size = sum(map(len, lines[:count]))
        if len(content) > size:
            self._confirm()
            with self.path.open("r+b") as file:
                file.truncate(size)
        self.records = read_history(self.path) if count else []

    @overload
    def __getitem__(self, index: int) -> EpochRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[EpochRecord]: ...
    def __getitem__(self, index: int | slice) -> EpochRecord | list[EpochRecord]:
        return self.records[index]

    def __repr__(self) -> str:
        return f"History({len(self)} records" + (f", the last: {in_short(self[-1])})" if self else ")")

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[EpochRecord]:
        return iter(self.records)


def in_short(record: EpochRecord) -> str:
    """A record's scores in one line: of the training data, and of the validation data if there are some."""
    shown = {"nll": "nll {:.4g}", "accuracy": "accuracy {:.2%}", "rmse": "rmse {:.4g}", "noise": "noise {:.3g}"}
    parts = []
    for prefix, name in (("", "training"), ("val_", "validation"), ("val_average_", "average")):
        found = [
            form.format(record[prefix + key])
            for key, form in shown.items()
            if isinstance(record.get(prefix + key), float)
        ]
        if found:
            parts.append(f"{name}: {', '.join(found)}")
    return "  ".join(parts)


def read_history(path: Path) -> list[EpochRecord]:
    """All records of a history file."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise CorruptFileError(f"{path} is not a history of JSON lines: {error}") from error
