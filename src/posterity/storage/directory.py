"""A run's directory: who may write in it, and where its files are.

config.toml        the complete description of the run
history.jsonl      a line an epoch; history.csv the same as a table, once the training has ended
checkpoint/        the last two
summary.json       the results
predictions.npz    what figures and reports are drawn from
figures/
tensorboard/       if it was asked for
member-1/ ...      histories and checkpoints of an ensemble's members; its own are written when all are trained
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import TracebackType

from posterity.core.errors import InUseError, PosterityError, UsageError
from posterity.storage.checkpoint import Checkpoints
from posterity.storage.lock import FileLock

CONFIG, HISTORY, CHECKPOINT, SUMMARY = "config.toml", "history.jsonl", "checkpoint", "summary.json"
PREDICTIONS, FIGURES, TENSORBOARD = "predictions.npz", "figures", "tensorboard"
MEMBER = "member"
LOCK = ".lock"
BEGUN = re.compile(r"\.config\.\d+\.toml")  # what a process leaves that is killed while it writes its first file


class RunDirectory:
    """A run's directory, locked while it is open: `with RunDirectory(path): ...`."""

    def __init__(self, path: str | Path, *, resume: bool = False, overwrite: bool = False) -> None:
        if resume and overwrite:
            raise UsageError("give either resume or overwrite, not both")
        self.path = Path(path)
        self.resume, self.overwrite = resume, overwrite
        self.config, self.summary = self.path / CONFIG, self.path / SUMMARY
        self.history, self.predictions = self.path / HISTORY, self.path / PREDICTIONS
        self.figures, self.tensorboard = self.path / FIGURES, self.path / TENSORBOARD
        self.checkpoints = Checkpoints(self.path / CHECKPOINT, self.confirm)
        self._lock = FileLock(self.path / LOCK)

    def confirm(self) -> None:
        """Refuse to write once the directory was removed, or made anew and taken by another process."""
        if not self._lock.held:
            raise PosterityError(
                f"{self.path} is no longer this run's: it was removed, or made anew by another process; "
                "nothing more is written there"
            )

    def member(self, number: int) -> RunDirectory:
        """The directory of an ensemble's member, from 1; what is there is gone on with."""
        path = self.path / f"{MEMBER}-{number}"
        return RunDirectory(path, resume=path.is_dir())

    def __enter__(self) -> RunDirectory:
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file; give a directory for the run")
        if self.resume and not self.path.is_dir():
            raise UsageError(f"there is no run to resume in {self.path}")
        if not (self.path / LOCK).exists():
            self._refuse_used()  # before a lock is left in somebody's directory
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.take()
            self._refuse_used()
            self._lock.sign()
            if self.overwrite:
                self._clear()
        except BlockingIOError as error:
            raise InUseError(f"{self.path} is in use by another process (id {error})") from error
        except OSError as error:
            self._lock.release()
            raise UsageError(f"cannot write in {self.path}: {error.strerror or error}") from error
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _clear(self) -> None:
        for path in (self.config, self.history, self.history.with_suffix(".csv"), self.summary, self.predictions):
            path.unlink(missing_ok=True)
        for folder in (self.checkpoints.folder, self.figures, self.tensorboard, *self.path.glob(f"{MEMBER}-*")):
            if folder.exists():
                shutil.rmtree(folder)

    def _refuse_used(self) -> None:
        names = [p.name for p in self.path.iterdir()] if self.path.is_dir() else []
        present = [name for name in names if name != LOCK and not BEGUN.fullmatch(name)]
        if present and not (self.resume or self.overwrite):
            raise UsageError(
                f"{self.path} is not empty; continue that run with --resume, start it anew with --overwrite, "
                "or give another directory"
            )
