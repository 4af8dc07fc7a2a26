"""sweep(study): a study's items, done by workers, as a table of results.

OUT/study.toml      the study, at its scale
OUT/study.db        who works on what, and what came of it: Optuna's storage, unless another is given
OUT/storage.txt     the address of that other one, without its password
OUT/items/KEY/      a folder an item: a run's own, or a function's result.json
OUT/logs/           what workers had to say

One worker works in this process; several are forked by `posterity sweep` and share the threads of the machine
(experiments.pool). What was begun is gone on with, and what is finished is not done again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from posterity.core.errors import PosterityError, UsageError
from posterity.experiments.database import storage_url
from posterity.experiments.lease import Leases
from posterity.experiments.pool import run_pool
from posterity.experiments.results import Results
from posterity.experiments.row import Row
from posterity.experiments.study import Item, Study
from posterity.experiments.sweep_display import SweepDisplay
from posterity.experiments.worker import Stopped, folder_of, work
from posterity.storage import write_text
from posterity.training.signals import SignalWatch

POLL_SECONDS = 0.2  # between looks for signals
SOME_FAILED = 3  # the exit code of a sweep that came to its end
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
    if workers > 1:
        _command(place, storage, workers, progress)
        return read_sweep(place, storage=storage)
    leases = Leases(study, url)
    display = SweepDisplay(study.name, leases) if progress else None
    try:
        work(study, place, leases, seen=display.update if display else lambda: None)
        return results_of(study, place, leases)
    finally:
        if display:
            display.close()
        leases.close()


def _command(out: Path, storage: str | None, workers: int, progress: bool) -> None:
    """`posterity sweep`, as workers are forked: nobody knows which threads and connections this process has."""
    command = [sys.executable, "-m", "posterity", "sweep", "run", str(out), "--out", str(out)]
    command += ["--workers", str(workers), *([] if progress else ["--quiet"])]
    environment = {**os.environ, **({} if storage is None else {STORAGE: storage})}
    # In a session of its own: a terminal's Ctrl-C reaches this process alone, which passes it on once.
    streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": None if progress else subprocess.PIPE}
    with (
        SignalWatch(True) as watch,
        subprocess.Popen(command, env=environment, start_new_session=True, **streams) as process,
    ):
        said: bytes | None = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                said = process.communicate(timeout=POLL_SECONDS)[1]
                break
            if watch.received is not None:
                process.send_signal(watch.received)
                process.communicate()
                raise Stopped(watch.received)
    if process.returncode not in (0, SOME_FAILED):
        reason = (said or b"").decode(errors="replace").strip().splitlines()[-1:] or ["see above"]
        raise PosterityError(f"the sweep ended with code {process.returncode}: {reason[0].removeprefix('error: ')}")


def sweep_with_pool(study: Study, out: Path, url: str, workers: int, *, progress: bool) -> Results:
    """For a process that has neither threads nor connections: `sweep` with workers that are forked from it."""
    opened: list[Leases] = []
    display: list[SweepDisplay] = []

    def seen() -> Callable[[], None]:
        opened.append(Leases(study, url))
        display.extend([SweepDisplay(study.name, opened[0])] if progress else [])
        return display[0].update if display else lambda: None

    try:
        run_pool(study, out, url, workers, seen)
        if display:
            display[0].update()
        return results_of(study, out, opened[0])
    finally:
        for shown in display:
            shown.close()
        for leases in opened:
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
