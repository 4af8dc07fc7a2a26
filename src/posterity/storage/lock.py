"""A file that one process holds at a time.

The lock goes with the file, and the file with its directory: somebody may remove the directory and make it anew, and
another process lock the new file. `held` tells: the file under the name must still be the one that is open here.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import IO

try:
    import fcntl

    def _take(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _give_back(file: IO[str]) -> None:
        # A process that was forked meanwhile, a loader's worker say, has the file open as well: closing is not enough.
        fcntl.flock(file, fcntl.LOCK_UN)

except ImportError:  # Windows
    import msvcrt

    def _take(file: IO[str]) -> None:
        # A byte far behind the text: what is locked there cannot be read, and the owner's id must be.
        file.seek(2**30)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]

    def _give_back(file: IO[str]) -> None:
        """Closing does it: nothing is inherited."""


class FileLock:
    """The lock on the file at `path`, which is made if need be, and stays: removing it would race with the next one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Hold it, or raise BlockingIOError with the id of the process that does."""
        file = self.path.open("a+", encoding="utf-8")
        try:
            _take(file)
        except OSError as error:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            file.close()
            raise BlockingIOError(owner) from error
        self._file = file

    def sign(self) -> None:
        """Write this process's id into it, for others to read."""
        assert self._file is not None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Let another have it."""
        if self._file is not None:
            _give_back(self._file)
            self._file.close()
            self._file = None

    @property
    def held(self) -> bool:
        """Whether it is still this process that holds the file under the name."""
        if self._file is None:
            return False
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        return False
