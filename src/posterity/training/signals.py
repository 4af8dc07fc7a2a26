"""SIGINT and SIGTERM ask the loop to stop at the next step instead of breaking in anywhere."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from posterity.core.errors import PosterityError

WATCHED = (signal.SIGINT, signal.SIGTERM)


class Interrupted(PosterityError):
    """The run was asked to stop by a signal, and did so in good order."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after step {step}; continue with --resume")
        self.exit_code = 128 + number


class SignalWatch:
    """While open, `received` is the first signal's number. A second SIGINT breaks in at once, unless `patient`.

    One of several processes is patient. When the first of them ends before its time, torchrun sends SIGTERM to the
    others, which may have a checkpoint or their reason to write: a patient watch that one of our errors closes goes on
    noting.
    """

    def __init__(self, active: bool, *, patient: bool = False) -> None:
        self.received: int | None = None
        self._patient = patient
        # Only the main thread may change handlers; elsewhere signals keep their usual meaning.
        self._active = active and threading.current_thread() is threading.main_thread()
        self._left = False  # closed, and still noting
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalWatch:
        if self._active:
            self._before = {number: self._replace(number) for number in WATCHED}
        return self

    def _replace(self, number: int) -> Any:
        """The handler that comes back afterwards: not that of an earlier watch which was left."""
        found = signal.signal(number, self._note)
        owner = getattr(found, "__self__", None)
        return owner._before[number] if isinstance(owner, SignalWatch) and owner._left else found

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = self._patient and isinstance(error, PosterityError)
        if self._left:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT and not self._patient:
            raise KeyboardInterrupt
        self.received = self.received or number
