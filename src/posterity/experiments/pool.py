"""The workers of one machine: a process that imports and reads the data once, and forks them from there.

The pool itself is forked first of all, before anything is open that a fork must not take along (a connection to the
storage, threads): it has none, and uses one thread itself. Who dies is replaced; a signal is passed on; when the
process that wanted the pool is no more, nothing new is begun.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch

from posterity.core.errors import PosterityError, UsageError
from posterity.experiments.build import build_data
from posterity.experiments.kept_data import keep_data
from posterity.experiments.lease import DEATHS, Leases
from posterity.experiments.study import Study
from posterity.experiments.worker import Stopped, work
from posterity.training.signals import SignalWatch

POLL_SECONDS = 0.2  # between looks at the workers
LOOKS = 5  # of them for one at the storage, which costs more
BROKEN = 1


def run_pool(study: Study, out: Path, url: str, workers: int, seen: Callable[[], Callable[[], None]]) -> None:
    """Let so many workers do the study; `seen()` is called once they are under way, and what it gives now and then."""
    if not hasattr(os, "fork"):
        raise UsageError("workers are forked, which this system cannot: start `posterity sweep worker` several times")
    (out / "logs").mkdir(exist_ok=True)
    parent = os.getpid()
    pool = os.fork()
    if pool == 0:
        os.setsid()  # a terminal's Ctrl-C reaches the parent alone, which passes it on once
        _leave(lambda: _Pool(study, out, url, workers, parent).watch())
    try:
        with SignalWatch(True) as watch:
            look, looked = seen(), 0
            while (code := _ended(pool)) is None:
                time.sleep(POLL_SECONDS)
                if watch.received is not None:
                    raise Stopped(watch.received)
                looked += 1
                if looked % LOOKS == 0:
                    look()
    except BaseException as error:
        os.kill(pool, error.exit_code - 128 if isinstance(error, Stopped) else signal.SIGTERM)
        os.waitpid(pool, 0)
        raise
    if code:
        said = (out / "logs" / "pool.log").read_text(errors="replace").strip().splitlines()[-1:]
        raise PosterityError("".join(said) if code > 0 else f"the workers' process was killed (signal {-code})")


def _ended(process: int) -> int | None:
    """The code with which a child ended, negative for a signal; None while it lives."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _leave(work: Callable[[], None]) -> NoReturn:
    """Do it and end this process, without what the one it was forked from would do at its end."""
    code = BROKEN
    try:
        work()
        code = 0
    except Stopped as error:
        code = error.exit_code
    except PosterityError as error:
        print(error, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _write_to(log: Path) -> None:
    """What this process prints goes there."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)
    sys.stdout = sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)


class _Pool:
    """Runs in the process from which workers are forked."""

    def __init__(self, study: Study, out: Path, url: str, count: int, parent: int) -> None:
        self.study, self.out, self.url, self.parent = study, out, url, parent
        self.threads = max(1, torch.get_num_threads() // count)
        self.count, self.deaths, self.done = count, 0, 0
        self.workers: dict[int, int] = {}  # their numbers by process

    def watch(self) -> None:
        """Until all have come to their end."""
        _write_to(self.out / "logs" / "pool.log")
        torch.set_num_threads(1)  # threads that were in use would not survive a fork
        with SignalWatch(True) as watch, keep_data():
            self._prepare()
            for number in range(1, self.count + 1):
                self._start(number)
            try:
                while self.workers and watch.received is None and os.getppid() == self.parent:
                    time.sleep(POLL_SECONDS)
                    self._heed_ends()
            finally:
                self._stop(watch.received or signal.SIGTERM)
            if watch.received is not None:
                raise Stopped(watch.received)

    def _prepare(self) -> None:
        """What each worker would import and read anew; what is wrong with it, its item will say."""
        import optuna.storages  # noqa: F401

        torch.optim.Adam([torch.zeros(1)])
        run = next(iter(self.study.items.values())).run
        if run is not None:
            with contextlib.suppress(Exception):
                build_data(run)

    def _start(self, number: int) -> None:
        process = os.fork()
        if process:
            self.workers[process] = number
            return
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        pool = os.getppid()
        _write_to(self.out / "logs" / f"worker-{number}.log")
        _leave(lambda: self._work(pool))

    def _work(self, pool: int) -> None:
        torch.set_num_threads(self.threads)
        leases = Leases(self.study, self.url)
        work(self.study, self.out, leases, go_on=lambda: os.getppid() == pool)
        leases.close()

    def _heed_ends(self) -> None:
        for process, number in list(self.workers.items()):
            code = _ended(process)
            if code is None:
                continue
            del self.workers[process]
            if code > 0:
                log = self.out / "logs" / f"worker-{number}.log"
                said = "".join(log.read_text(errors="replace").strip().splitlines()[-1:])
                raise PosterityError(f"worker {number} ended with code {code}: {said} ({log})")
            if code < 0:
                self._replace(number, -code)

    def _replace(self, number: int, cause: int) -> None:
        done = sum(1 for _ in (self.out / "items").glob("*/*.json"))
        self.deaths = self.deaths + 1 if done == self.done else 1
        self.done = done
        if self.deaths > DEATHS * self.count:
            raise PosterityError(f"workers are killed again and again (signal {cause}), and no item is finished")
        self._start(number)

    def _stop(self, number: int) -> None:
        """Tell those that are left, and wait for their checkpoints."""
        for process in self.workers:
            os.kill(process, number)  # not yet waited for, so that the id cannot be another's
        for process in self.workers:
            os.waitpid(process, 0)
        self.workers.clear()
