"""sweep(study): a study's items, done by workers, as a table of results.

OUT/study.toml      the study, at its scale
OUT/study.db        who works on what, and what came of it: Optuna's storage, unless another is given
OUT/storage.txt     the address of that other one, without its password
OUT/items/KEY/      a folder an item: a run's own, or a function's result.json
OUT/logs/           what workers had to say

One worker works in this process; several are processes of their own (`posterity sweep worker`) that share the threads
of the machine. What was begun is gone on with, and what is finished is not done again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posterity.core.errors import PosterityError, UsageError
from posterity.experiments.database import storage_url
from posterity.experiments.lease import DEATHS, Leases
from posterity.experiments.results import Results
from posterity.experiments.row import Row
from posterity.experiments.study import Item, Study
from posterity.experiments.sweep_display import SweepDisplay
from posterity.experiments.worker import Stopped, folder_of, work
from posterity.storage import write_text
from posterity.training.signals import SignalWatch

POLL_SECONDS = 0.5  # between looks at the workers
STUDY, ADDRESS = "study.toml", "storage.txt"
STORAGE = "POSTERITY_STORAGE"  # the variable that tells workers the address, with its password


def sweep(
    study: Study | str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    workers: int = 1,
    scale: str | None = None,
    storage: str | None = None,
    progress: bool = False,
) -> Results:
    """Do all items of `study` (a file, a mapping or a Study) in folder `out`; bad ones are rows with their error."""
    if workers < 1:
        raise UsageError(f"a sweep needs a worker at least, not {workers}")
    study, place, url = prepare(study, out=out, scale=scale, storage=storage)
    leases = Leases(study, url)
    display = SweepDisplay(study.name, leases) if progress else None
    seen = display.update if display else lambda: None
    try:
        if workers == 1:
            work(study, place, leases, seen=seen)
        else:
            _Workers(place, url, workers).watch(seen)
        return results_of(study, place, leases)
    finally:
        if display:
            display.close()
        leases.close()


def prepare(
    study: Study | str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    scale: str | None = None,
    storage: str | None = None,
) -> tuple[Study, Path, str]:
    """The study, its folder with the study in it, and the address of its storage."""
    study = Study.of(study, scale=scale)
    place = Path("runs") / study.name if out is None else Path(out)
    if place.exists() and not place.is_dir():
        raise UsageError(f"{place} is a file; give a directory for the study")
    place.mkdir(parents=True, exist_ok=True)
    url = address(place, storage)
    if not (place / STUDY).exists() or Study.read(place) != study:
        study.write(place / STUDY)
    return study, place, url


def address(out: Path, storage: str | None) -> str:
    """Where the study in `out` is stored: as given, as it was last time, or there; what is given is remembered."""
    file = out / ADDRESS
    if storage is None and file.exists():
        storage = file.read_text(encoding="utf-8").strip()
    url = storage_url(storage, out)
    if storage is not None:
        from sqlalchemy import make_url

        write_text(file, make_url(url).set(password=None).render_as_string(hide_password=False) + "\n")
    return url


def read_sweep(folder: str | Path, *, storage: str | None = None) -> Results:
    """The results so far of the study in `folder`."""
    out = Path(folder)
    study, url = Study.read(out), address(out, storage)
    if url.startswith("sqlite") and storage is None and not (out / "study.db").exists():
        raise UsageError(f"the study in {folder} was not begun: there is no study.db")
    leases = Leases(study, url)
    try:
        return results_of(study, out, leases)
    finally:
        leases.close()


def results_of(study: Study, out: Path, leases: Leases) -> Results:
    """A row an item, in the study's order."""
    rows = []
    for key, (outcome, values) in leases.outcomes().items():
        item = study.items[key]
        if study.adaptive:
            item = study.suggest(leases.fixed(values)) if values else Item(key, {})
        folder = folder_of(out, item.key)
        there = folder if folder.exists() else None
        rows.append(Row(item.key, item.config, outcome.metrics, outcome.state, outcome.error, there))
    return Results(rows)


class _Workers:
    """So many processes; one that dies is replaced, and what it had is taken up again."""

    def __init__(self, out: Path, url: str, count: int) -> None:
        self.out = out
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        given = int(os.environ.get("OMP_NUM_THREADS") or cores)
        threads = str(max(1, min(given, cores) // count))
        self.environment = {**os.environ, STORAGE: url, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        (out / "logs").mkdir(exist_ok=True)
        self.deaths, self.done = 0, 0
        self.processes = {number: self._start(number) for number in range(1, count + 1)}

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "posterity", "sweep", "worker", str(self.out / STUDY)]
        command += ["--out", str(self.out), "--parent", str(os.getpid())]
        with self._log(number).open("ab") as log:
            # In a session of its own: a terminal's Ctrl-C reaches this process alone, which passes it on once.
            return subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _log(self, number: int) -> Path:
        return self.out / "logs" / f"worker-{number}.log"

    def watch(self, seen: Any) -> None:
        """Until all have come to their end; a signal is passed on to them."""
        with SignalWatch(True) as watch:
            try:
                while self.processes:
                    time.sleep(POLL_SECONDS)
                    seen()
                    if watch.received is not None:
                        self._stop(watch.received)
                        raise Stopped(watch.received)
                    self._heed_ends()
            finally:
                self._stop(None)

    def _heed_ends(self) -> None:
        for number, process in list(self.processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self.processes[number]
            if code > 0:
                said = self._log(number).read_text(errors="replace").strip().splitlines()[-1:]
                raise PosterityError(f"worker {number} ended with code {code}: {''.join(said)} ({self._log(number)})")
            if code < 0:
                self._replace(number, -code)

    def _replace(self, number: int, signal: int) -> None:
        done = sum(1 for _ in (self.out / "items").glob("*/summary.json"))
        self.deaths = self.deaths + 1 if done == self.done else 1
        self.done = done
        if self.deaths > DEATHS * (1 + len(self.processes)):
            raise PosterityError(f"workers are killed again and again (signal {signal}), and no item is finished")
        self.processes[number] = self._start(number)

    def _stop(self, signal: int | None) -> None:
        """Tell those that are left, wait for their checkpoints; None is for those that nobody needs any more."""
        for process in self.processes.values():
            process.terminate() if signal is None else process.send_signal(signal)
        for process in self.processes.values():
            process.wait()
        self.processes.clear()
