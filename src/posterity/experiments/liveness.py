"""Signs of life of a worker, and whether a process of this machine is still there."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.storages import RDBStorage


class Heartbeat:
    """A sign of life now and then for the trial that is worked on."""

    def __init__(self, storage: RDBStorage, seconds: int) -> None:
        self._storage, self._seconds = storage, seconds
        self._trial: int | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None  # none before the first trial: who only looks has none

    def of(self, trial: int | None) -> None:
        """Whose signs to give."""
        self._trial = trial
        if self._thread is None and trial is not None:
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """No more of them."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._stopped.wait(self._seconds):
            trial = self._trial
            if trial is not None:
                with contextlib.suppress(Exception):  # the next one may get through
                    self._storage.record_heartbeat(trial)
        self._storage.remove_session()


def machine() -> str:
    """Names this machine and its space of process ids; empty where that cannot be known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def began(process: int) -> str:
    """When a process began, in ticks; empty if it is no more."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def is_dead(worker: str) -> bool:
    """Whether it was a process of this machine that is no more."""
    where, _, rest = worker.partition(" ")
    process, _, since = rest.partition(" ")
    return bool(where) and where == machine() and began(int(process)) != since


def this_worker() -> str:
    """Names this process."""
    return f"{machine()} {os.getpid()} {began(os.getpid())}"
