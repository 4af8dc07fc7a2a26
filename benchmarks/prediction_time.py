"""The seconds that a method of `quality.py` takes to predict the test set.

They do not depend on the training, so that networks are taken that have none: of every method one, all of them in one
run and in turn (`interleave.py`), each predicting the first rows of the test set.

    seconds = median over rounds * rows of the test set / rows predicted

Every method predicts in parts of at most `timed_rows` of the task, so that its time is in proportion to the rows.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from defaults_baselines import Cell
from defaults_methods import METHODS
from defaults_tasks import SAMPLES, Predict, Task, problem
from interleave import measure
from peers import PeerUnavailable
from posterity.experiments.build import build_network
from posterity.storage.atomic import read_json, write_text

ROUNDS = 3


def untrained(cell: Cell, method: str) -> Predict:
    """The predictive of a network of `method` after no epochs."""
    run_of = METHODS[method].run
    if run_of is None:
        return METHODS[method].fit(replace(cell, epochs=0)).predict
    net = build_network(run_of(cell), cell.problem.train)
    return lambda x: net.predictive(x, SAMPLES, seed=cell.seed)


def seconds_of(predictives: Mapping[str, Predict], x: Tensor, *, rows: int, rounds: int) -> dict[str, float]:
    """By name, for all rows of `x`."""

    def call(predict: Predict) -> None:
        predict(x[:rows])

    calls: dict[str, Callable[[], None]] = {name: partial(call, predict) for name, predict in predictives.items()}
    scale = len(x) / len(x[:rows])
    return {name: scale * statistics.median(times) for name, times in measure(calls, rounds, 1).items()}


def times_path(folder: Path) -> Path:
    """Where the times of a task are kept, whose cells are in `folder`."""
    return folder / "prediction.json"


def times(folder: Path, methods: Iterable[str]) -> dict[str, Any]:
    """What is known of these methods: by name the seconds, with the rows, rounds and threads."""
    found = read_json(times_path(folder)).get("methods", {})
    return {name: found[name] for name in methods if name in found}


def time_all(
    task: Task, folder: Path, methods: list[str], *, rows: int | None = None, rounds: int = ROUNDS
) -> list[str]:
    """Time all `methods` in one run, unless all are known; words on those that cannot be had."""
    if set(times(folder, methods)) == set(methods):
        return []
    predictives, told = {}, []
    with TemporaryDirectory() as scratch:  # networks without training must not be taken for others
        for name in methods:
            try:
                predictives[name] = untrained(Cell(task, 0, task.epochs, Path(scratch)), name)
            except PeerUnavailable as error:
                told.append(f"{name} is not timed: {error}")
    if set(predictives) <= set(times(folder, methods)):
        return told
    rows = rows or task.timed_rows
    found = seconds_of(predictives, problem(task, 0).x, rows=rows, rounds=rounds)
    how = {"rows": rows, "rounds": rounds, "threads": torch.get_num_threads()}
    folder.mkdir(parents=True, exist_ok=True)
    kept = times(folder, METHODS) | {name: {"seconds": seconds, **how} for name, seconds in found.items()}
    write_text(times_path(folder), json.dumps({"methods": kept}, indent=1) + "\n")
    return told
