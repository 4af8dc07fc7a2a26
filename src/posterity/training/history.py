"""What happened, one record an epoch: a list in memory and, for a run, an append-only file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from posterity.core.errors import CorruptFileError

Record = dict[str, Any]


class History(Sequence[Record]):
    """Records in order; `offset` is the file's length, which a checkpoint remembers."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.records: list[Record] = []
        self.offset = 0

    def append(self, record: Record) -> None:
        """Add a record and write its line through to the file."""
        self.records.append(record)
        if self.path is not None:
            line = json.dumps(record) + "\n"
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
            self.offset += len(line.encode())

    def restore(self, offset: int) -> None:
        """Go back to `offset`: lines after it belong to work that a crash has lost and that is done again."""
        self.offset, self.records = offset, []
        if self.path is None:
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < offset:
            raise CorruptFileError(
                f"{self.path} has {size} bytes, but the checkpoint was written when it had {offset}: "
                "it was cut off or replaced; start again with --overwrite"
            )
        if size > offset:
            with self.path.open("r+b") as file:
                file.truncate(offset)
        self.records = read_history(self.path) if offset else []

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self.records[index]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)


def read_history(path: Path) -> list[Record]:
    """All records of a history file."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise CorruptFileError(f"{path} is not a history of JSON lines: {error}") from error
