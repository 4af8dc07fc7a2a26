"""A worker of a sweep: takes items, does them, tells what came of them, until there are none.

It is one process: torch is imported once, data sets are read once. Each run is carried out by `execute` in the item's
folder, so that what another worker began is gone on with, and what is finished is only read.
"""

from __future__ import annotations

import fnmatch
import math
import re
import time
from collections.abc import Callable
from pathlib import Path

from posterity.core.errors import InUseError, NonFiniteError, PosterityError
from posterity.experiments.database import patiently
from posterity.experiments.execute import execute
from posterity.experiments.functions import FUNCTIONS, HISTORY
from posterity.experiments.kept_data import keep_data
from posterity.experiments.lease import Lease, Leases, Outcome
from posterity.experiments.row import DIVERGED, FAILED, FINISHED, PRUNED, RESULT, metrics_of
from posterity.experiments.study import Item, Study
from posterity.storage import EpochRecord, merge_json, read_json
from posterity.training import CHECKPOINT_SECONDS, Callback, Training
from posterity.training.signals import Interrupted, SignalWatch

POLL_SECONDS = 0.2  # between looks for what others may have left
EACH_EPOCH = re.compile(r"val_\w+|loss|kl")  # metrics of a run that was given up on


class Stopped(PosterityError):
    """The sweep was asked to stop by a signal, and did so in good order."""

    def __init__(self, number: int) -> None:
        super().__init__("the sweep was stopped; the same command goes on with it")
        self.exit_code = 128 + number


class Pruned(Exception):
    """A search gave up on a run."""


def work(
    study: Study,
    out: Path,
    leases: Leases,
    *,
    seen: Callable[[], None] = lambda: None,
    go_on: Callable[[], bool] = lambda: True,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> None:
    """Do items until all are done, by this worker or by others, or `go_on` says no; `seen` is called after each."""
    with SignalWatch(True) as watch, keep_data():
        while go_on():
            lease = leases.take()
            if lease is not None:
                try:
                    _do(study, out, leases, lease, checkpoint_seconds)
                except InUseError:  # by a worker that was taken for dead; it may come to its end
                    leases.give_back(lease)
                    time.sleep(POLL_SECONDS)
                except Interrupted as error:
                    leases.give_back(lease)
                    raise Stopped(error.exit_code - 128) from error
                except BaseException:
                    leases.give_back(lease)
                    raise
            elif leases.is_over():
                return
            else:
                time.sleep(POLL_SECONDS)
            seen()
            if watch.received is not None:
                raise Stopped(watch.received)


def folder_of(out: Path, key: str) -> Path:
    """Where an item's files are."""
    return out / "items" / key


def _do(study: Study, out: Path, leases: Leases, lease: Lease, checkpoint_seconds: float) -> None:
    item = patiently(lambda: study.suggest(lease.trial)) if study.adaptive else study.items[lease.key]
    callback = _Report(study, lease)
    outcome = _outcome(study, item, folder_of(out, item.key), callback, checkpoint_seconds)
    value = outcome.metrics.get(study.metric) if study.metric else None
    if study.adaptive and outcome.state == FINISHED and (value is None or not math.isfinite(value)):
        known = ", ".join(sorted(outcome.metrics))
        outcome = Outcome(FAILED, outcome.metrics, f"the metric '{study.metric}' is {value}; there are: {known}")
    leases.tell(lease, outcome, value)


def _outcome(study: Study, item: Item, folder: Path, callback: _Report, checkpoint_seconds: float) -> Outcome:
    """Do the item; whatever is wrong with it is its own outcome."""
    try:
        metrics = _run(study, item, folder, callback, checkpoint_seconds) if item.run else _call(item, folder)
        return Outcome(FINISHED, _chosen(study, metrics))
    except Pruned:
        return Outcome(PRUNED, _chosen(study, callback.metrics))
    except NonFiniteError as error:
        return Outcome(DIVERGED, {}, str(error))
    except (InUseError, Interrupted):
        raise
    except Exception as error:
        return Outcome(
            FAILED, {}, str(error) if isinstance(error, PosterityError) else f"{type(error).__name__}: {error}"
        )


def _run(study: Study, item: Item, folder: Path, callback: _Report, checkpoint_seconds: float) -> dict[str, float]:
    assert item.run is not None
    record = execute(
        item.run,
        folder,
        resume=True,
        samples=study.samples,
        ood=study.ood,
        checkpoint_seconds=checkpoint_seconds,
        callbacks=[callback] if study.adaptive else [],
    )
    return metrics_of(record)


def _call(item: Item, folder: Path) -> dict[str, float]:
    """A function's numbers, which are kept as a run's are."""
    path = folder / RESULT
    if not path.exists():
        parameters = {name: value for name, value in item.config.items() if name != "function"}
        found = FUNCTIONS[item.function](**parameters)
        folder.mkdir(parents=True, exist_ok=True)
        merge_json(path, dict(found))
    return {name: float(value) for name, value in read_json(path).items() if name != HISTORY}


def _chosen(study: Study, metrics: dict[str, float]) -> dict[str, float]:
    """What the study records; what it searches by is recorded always."""
    wanted = [*study.record, study.metric or ""] if study.record else ["*"]
    return {name: v for name, v in metrics.items() if any(fnmatch.fnmatchcase(name, each) for each in wanted)}


class _Report(Callback):
    """Tells a search the metric after each epoch, and ends a run that it gives up on."""

    kept = False

    def __init__(self, study: Study, lease: Lease) -> None:
        self.study, self.trial = study, lease.trial
        self.metrics: dict[str, float] = {}
        self.reported = 0

    def on_start(self, training: Training) -> None:
        """What was before a checkpoint is told again: the trial is another."""
        for record in training.history:
            self._tell(record)

    def on_epoch(self, training: Training, record: EpochRecord) -> None:
        """The next one; but for the last, which ends anyway."""
        self._tell(record)
        if not training.stopped and self.study.prune and self.trial.should_prune():
            raise Pruned

    def _tell(self, record: EpochRecord) -> None:
        self.metrics = {name: value for name, value in record.items() if EACH_EPOCH.fullmatch(name)}
        value = record.get(self.study.metric or "", math.nan)
        if self.study.prune and math.isfinite(value) and record["epoch"] > self.reported:
            self.reported = record["epoch"]
            patiently(lambda: self.trial.report(float(value), self.reported))
