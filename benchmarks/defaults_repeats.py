"""What tells whether a cell of ours is of the present code: numbers of its training that can be made again in seconds.

    whole    of tasks whose training is short: its scores
    begun    of others: the record of the epoch with which it had made BEGUN steps, or of its first

and the same of trainings that are shaken (benchmarks/shaken.py), since processors round differently. They are made with
the cells of each task's first seed, and stored in its row; tests/benchmarks/test_defaults_repeats.py makes them again.
The logarithms of densities may have either sign: they are kept as densities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
RECORDED = ("kl", "temperature", "lr")


class Enough(Exception):
    """The beginning is over."""


class Beginning(Callback):
    """Keeps the record with which a training has begun, and ends it there."""

    kept = False

    def on_epoch(self, training: Training, record: EpochRecord) -> None:
        """Once it has made its steps."""
        self.record = record
        if record["step"] + training.batches.num_batches > BEGUN:
            raise Enough


def of_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a whole training."""
    found = {name: scores[name] for name in SCORES if name in scores}
    return found | ({"density": math.exp(scores["log_likelihood"])} if "log_likelihood" in scores else {})


def of_record(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one that has begun."""
    return {name: record[name] for name in RECORDED} | {"density": math.exp(-record["nll"])}


def of_history(record: Record) -> dict[str, float]:
    """The same of one that has ended."""
    early = [line for line in record.history if line["step"] <= BEGUN]
    return of_record(early[-1] if early else record.history[0])


def again(cell: Cell, run: Run, folder: Path, shaken: int = 0) -> dict[str, float]:
    """The numbers of this cell's training, made in `folder` from weights that are `shaken` with that seed."""
    callbacks: list[Callback] = [Shaken(shaken)] if shaken else []
    if cell.task.name in WHOLE:
        net = execute(run, folder, samples=SAMPLES, callbacks=callbacks).load().net
        return of_scores(score(cell.problem, lambda x: net.predictive(x, SAMPLES, seed=cell.seed)))
    beginning = Beginning()
    with suppress(Enough):
        execute(run, folder, callbacks=[*callbacks, beginning])
    return of_record(beginning.record)


def repeatable(cell: Cell, run: Run, record: Record, scores: Mapping[str, float]) -> dict[str, list[float]]:
    """By name the number of this cell, then those of the shaken ones."""
    found = [of_scores(scores) if cell.task.name in WHOLE else of_history(record)]
    for seed in range(1, SHAKEN + 1):
        with TemporaryDirectory() as folder:
            found.append(again(cell, run, Path(folder) / "run", seed))
    return {name: [float(f"{each[name]:.6g}") for each in found] for name in found[0]}
