"""What tells whether a cell of ours is of the present code: numbers of its training that can be made again in seconds.

    begun    the record of the epoch with which it had made BEGUN steps, or of its first
    whole    of tasks whose training is short: its scores, too

and the same of trainings that are shaken (benchmarks/shaken.py), since processors round differently. They are made with
the cells of each task's first seed, and stored in its row; tests/benchmarks/test_defaults_repeats.py makes them again.
The logarithms of densities may have either sign: they are kept as densities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from defaults_baselines import Cell
from defaults_tasks import SAMPLES, score
from posterity.experiments import Record, Run, execute
from posterity.storage import EpochRecord
from posterity.training import Callback
from posterity.training.loop import Training
from shaken import SHAKEN, Shaken

WHOLE = ("gap", "two-moons", "diabetes", "digits-mlp", "digits-lenet5", "uci-boston")
BEGUN = 600  # steps
SCORES = ("rmse", "sd", "accuracy", "nll", "brier")
SCHEDULED = ("temperature", "lr")  # of a record, what rounding hardly changes


class Enough(Exception):
    """The beginning is over."""


class Beginning(Callback):
    """Keeps the record with which a training has begun, and ends it there unless it is to go on."""

    kept = False

    def __init__(self, *, goes_on: bool) -> None:
        self.goes_on, self.records = goes_on, list[EpochRecord]()

    def on_epoch(self, training: Training, record: EpochRecord) -> None:
        """Once it has made its steps."""
        self.records.append(record)
        if record["step"] + training.batches.num_batches > BEGUN and not self.goes_on:
            raise Enough


def of_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a whole training."""
    found = {name: scores[name] for name in SCORES if name in scores}
    return found | ({"density": math.exp(scores["log_likelihood"])} if "log_likelihood" in scores else {})


def of_records(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The numbers of one that has begun."""
    early = [record for record in records if record["step"] <= BEGUN]
    record = early[-1] if early else records[0]
    return {name: record[name] for name in ("kl", *SCHEDULED)} | {"early density": math.exp(-record["nll"])}


def again(cell: Cell, run: Run, folder: Path, shaken: int = 0) -> dict[str, float]:
    """The numbers of this cell's training, made in `folder` from weights that are `shaken` with that seed."""
    whole = cell.task.name in WHOLE
    beginning = Beginning(goes_on=whole)
    callbacks = [*([Shaken(shaken)] if shaken else []), beginning]
    with suppress(Enough):
        record = execute(run, folder, samples=SAMPLES, callbacks=callbacks)
    found = of_records(beginning.records)
    if whole:
        net = record.load().net
        found |= of_scores(score(cell.problem, lambda x: net.predictive(x, SAMPLES, seed=cell.seed)))
    return found


def repeatable(cell: Cell, run: Run, record: Record, scores: Mapping[str, float]) -> dict[str, list[float]]:
    """By name the number of this cell, then those of the shaken ones."""
    found = [of_records(record.history) | (of_scores(scores) if cell.task.name in WHOLE else {})]
    for seed in range(1, SHAKEN + 1):
        with TemporaryDirectory() as folder:
            found.append(again(cell, run, Path(folder) / "run", seed))
    return {name: [float(f"{each[name]:.6g}") for each in found] for name in found[0]}
