"""Run by test_faults_kill.py: imports torch once, then trains in forked children that are killed with SIGKILL.

    python kill_worker.py DIRECTORY SEED COUNT

Prints what was done as JSON; the test compares the directories.
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path

import torch

from posterity.experiments import Run, execute
from posterity.storage import checkpoint, history
from posterity.training import ProlongedWarning

RUN = Run(
    dataset="digits", model="mlp", hidden=(8,), train_rows=600, epochs=4, batch_size=150, patience=50,
    val_fraction=0.1,
    average="hwa", average_every=3, average_start=0.2, covariance="low_rank", average_rank=4, samples=2,
)  # fmt: skip
SHORT = RUN.model_copy(update={"epochs": 2})
FAILED = 77

Point = tuple[object, str, int]


def child(run: Run, out: Path, point: Point | None = None) -> int:
    """Start `run` in `out`, or go on with it, in a forked process; returns its id."""
    identity = os.fork()
    if identity:
        return identity
    try:
        if point:
            die_at(*point)
        execute(run, out, resume=True, checkpoint_seconds=0, samples=2)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(FAILED)
    os._exit(0)


def die_at(owner: object, name: str, call: int) -> None:
    """Kill this process when `owner.name` is called the `call`-th time, half of the time after it has run."""
    original, count = getattr(owner, name), 0

    def wrapped(*arguments: object, **options: object) -> object:
        nonlocal count
        count += 1
        if count == call and call % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **options)
        if count == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, wrapped)


def finish(identity: int, out: Path) -> str:
    """What became of a child, which has left the history and its table in agreement."""
    _, status = os.waitpid(identity, 0)
    if (out / "history.csv").exists():
        with (out / "history.csv").open(newline="") as file:
            epochs = [int(row["epoch"]) for row in csv.DictReader(file)]
        if epochs != [record["epoch"] for record in history.read_history(out / "history.jsonl")]:
            return "two histories"
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return {0: "finished", FAILED: "failed"}.get(os.WEXITSTATUS(status), "strange")


def at_random(folder: Path, seed: int, count: int) -> list[str]:
    """`count` kills at random moments; a run that comes to its end is followed by another one."""
    choose = random.Random(seed)
    began = time.monotonic()
    outcomes = [finish(child(RUN, folder / "whole"), folder / "whole")]
    duration, number = time.monotonic() - began, 0
    while outcomes.count("SIGKILL") < count:
        identity = child(RUN, folder / f"random-{number}")
        time.sleep(choose.uniform(0, 0.5) * duration)
        os.kill(identity, signal.SIGKILL)  # not yet waited for, so that the id cannot be another's
        outcomes.append(finish(identity, folder / f"random-{number}"))
        number += outcomes[-1] == "finished"
    outcomes.append(finish(child(RUN, folder / f"random-{number}"), folder / f"random-{number}"))
    return outcomes


def at_points(folder: Path) -> list[str]:
    """A kill before or after each of the calls that touch the disk."""
    points = points_of(
        (checkpoint, "save_file", (1, 2, 3, 14)),
        (checkpoint, "sha256", (2,)),
        (checkpoint, "flush", (2, 5, 6, 7, 8)),
        (checkpoint.shutil, "rmtree", (5, 6, 7, 8)),
        (Path, "rename", (2, 3)),
        (history.History, "append", (1, 2, 4)),
        (os, "replace", (4, 3, 2, 1)),
        (sys.modules["posterity.experiments.execute"], "merge_json", (1,)),
    )
    outcomes = []
    for number, point in enumerate(points):
        out = folder / f"point-{number}"
        outcomes.append(finish(child(RUN, out, point), out))
        if not (out / "summary.json").exists():
            outcomes.append(finish(child(RUN, out), out))
    return outcomes


def prolonged(folder: Path) -> list[str]:
    """Finished runs that are prolonged, and killed meanwhile."""
    points = points_of(
        (checkpoint, "save_file", (1, 4)),
        (Path, "rename", (1, 2)),
        (history.History, "append", (1, 2)),
        (os, "replace", (1, 2, 3, 4)),
    )
    begun = folder / "prolonged"
    outcomes = [finish(child(SHORT, begun), begun)]
    for number in range(len(points)):
        shutil.copytree(begun, folder / f"prolonged-{number}")
    outcomes.append(finish(child(RUN, begun), begun))
    for number, point in enumerate(points):
        out = folder / f"prolonged-{number}"
        outcomes += [finish(child(RUN, out, point), out), finish(child(RUN, out), out)]
    return outcomes


def points_of(*calls: tuple[object, str, tuple[int, ...]]) -> list[Point]:
    return [(owner, name, number) for owner, name, numbers in calls for number in numbers]


def prepare(run: Run) -> None:
    """What every child would do anew: imports on first use, reading the data."""
    torch.optim.Adam([torch.zeros(1)])
    for name, function in (("execute", "build_data"), ("evaluate", "load_test")):
        module = sys.modules[f"posterity.experiments.{name}"]
        found = getattr(module, function)(run)
        setattr(module, function, lambda run, found=found: found)


if __name__ == "__main__":
    warnings.simplefilter("ignore", ProlongedWarning)
    prepare(RUN)
    place, start, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(
        json.dumps({"random": at_random(place, start, number), "points": at_points(place), "longer": prolonged(place)})
    )
