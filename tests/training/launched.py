"""What a worker has started that reads requests, lines of JSON (tests/faults/command_worker.py, spread_worker.py)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

LIMIT = 120  # seconds that anything is waited for


class Launched:
    """A process that the worker has started; `files` are what it prints."""

    def __init__(self, worker: Popen[str], request: dict[str, Any], *files: Path) -> None:
        self.worker, self.files = worker, files
        self.pid = self.tell(request)

    def tell(self, request: dict[str, Any]) -> Any:
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        self.worker.stdin.write(json.dumps(request) + "\n")
        self.worker.stdin.flush()
        return json.loads(self.worker.stdout.readline())

    @property
    def code(self) -> int | None:
        """None while it lives."""
        found: int | None = self.tell({"ask": self.pid})
        return found

    def wait_until(self, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + LIMIT
        while not condition():
            assert self.code is None, self.read()
            assert time.monotonic() < limit
            time.sleep(0.002)

    def finish(self) -> int | None:
        limit = time.monotonic() + LIMIT
        while self.code is None and time.monotonic() < limit:
            time.sleep(0.002)
        return self.code

    def read(self) -> list[str]:
        return [file.read_text() for file in self.files]
