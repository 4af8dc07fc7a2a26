"""A run's directory: who may write in it, and where its files are.

config.toml  history.jsonl  checkpoint/  summary.json  figures/
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import IO

from posterity.core.errors import UsageError
from posterity.training.checkpoint import Checkpoints

FILES = ("config.toml", "history.jsonl", "summary.json", "predictions.csv", "model.safetensors")
FOLDERS = ("checkpoint", "figures")
LOCK = ".lock"


class RunDirectory:
    """A run's directory, locked while it is open: `with RunDirectory(path): ...`."""

    def __init__(self, path: str | Path, *, resume: bool = False, overwrite: bool = False) -> None:
        if resume and overwrite:
            raise UsageError("give either resume or overwrite, not both")
        self.path = Path(path)
        self.resume = resume
        self.overwrite = overwrite
        self.checkpoints = Checkpoints(self.path / "checkpoint")
        self._lock: IO[str] | None = None

    @property
    def config(self) -> Path:
        """The complete configuration."""
        return self.path / "config.toml"

    @property
    def history(self) -> Path:
        """One JSON line an epoch."""
        return self.path / "history.jsonl"

    @property
    def summary(self) -> Path:
        """The results."""
        return self.path / "summary.json"

    @property
    def figures(self) -> Path:
        """PNG files."""
        return self.path / "figures"

    def __enter__(self) -> RunDirectory:
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file; give a directory for the run")
        if self.resume and not self.path.is_dir():
            raise UsageError(f"there is no run to resume in {self.path}")
        if LOCK not in self._present(lock=True):
            self._refuse_used()  # before a lock is left in somebody's directory
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / LOCK).open("a+")
        except OSError as error:
            raise UsageError(f"cannot write in {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise UsageError(f"{self.path} is in use by another process (id {owner})") from error
        try:
            self._claim()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None
        self._lock.close()  # which releases it; the file stays, as removing it would race with the next owner

    def _claim(self) -> None:
        assert self._lock is not None
        self._refuse_used()
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        if self.overwrite:
            try:
                for name in FILES:
                    (self.path / name).unlink(missing_ok=True)
                for name in FOLDERS:
                    if (self.path / name).exists():
                        shutil.rmtree(self.path / name)
            except OSError as error:
                raise UsageError(f"cannot clear {self.path}: {error}") from error

    def _present(self, *, lock: bool = False) -> list[str]:
        found = [p.name for p in self.path.iterdir()] if self.path.is_dir() else []
        return [name for name in found if lock or name != LOCK]

    def _refuse_used(self) -> None:
        if self._present() and not (self.resume or self.overwrite):
            raise UsageError(
                f"{self.path} is not empty; continue that run with --resume, start it anew with --overwrite, "
                "or give another directory"
            )
