"""Run by test_faults_kill.py: imports torch once, then trains in forked children that are killed with SIGKILL.

    python kill_worker.py DIRECTORY SEED random COUNT | points

Prints what was done as JSON; the test compares the directories.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from posterity.experiments import Run, train, train_run
from posterity.training import checkpoint, history

RUN = Run(
    dataset="digits", model="mlp", hidden=(16,), epochs=4, batch_size=200, patience=50,
    average="hwa", average_every=3, average_start=0.2, covariance="low_rank", average_rank=4,
)  # fmt: skip
FAILED = 77


def child(out: Path, point: tuple[object, str, int] | None = None) -> int:
    """Start the run in `out`, or go on with it, in a forked process; returns its id."""
    begun = (out / "config.toml").exists()
    identity = os.fork()
    if identity:
        return identity
    try:
        if point:
            die_at(*point)
        train_run(RUN, out, resume=begun, overwrite=not begun, checkpoint_seconds=0)
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


def finish(identity: int) -> str:
    """What became of a child."""
    _, status = os.waitpid(identity, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return {0: "finished", FAILED: "failed"}.get(os.WEXITSTATUS(status), "strange")


def at_random(folder: Path, seed: int, count: int) -> list[str]:
    """`count` kills at random moments; a run that comes to its end is followed by another one."""
    choose = random.Random(seed)
    began = time.monotonic()
    outcomes = [finish(child(folder / "whole"))]
    duration, number = time.monotonic() - began, 0
    while outcomes.count("SIGKILL") < count:
        identity = child(folder / f"random-{number}")
        time.sleep(choose.uniform(0, 0.5) * duration)
        os.kill(identity, signal.SIGKILL)  # not yet waited for, so that the id cannot be another's
        outcomes.append(finish(identity))
        number += outcomes[-1] == "finished"
    outcomes.append(finish(child(folder / f"random-{number}")))
    return outcomes


def at_points(folder: Path) -> list[str]:
    """A kill before or after each of the calls that touch the disk."""
    points = [
        (owner, name, call)
        for owner, name, calls in (
            (checkpoint, "save_file", (1, 2, 3, 20)),
            (checkpoint, "_sha256", (2,)),
            (checkpoint, "_flush", (2, 5, 6, 7, 8)),
            (checkpoint.shutil, "rmtree", (5, 6, 7, 8)),
            (Path, "rename", (2, 3)),
            (history.History, "append", (1, 2, 4)),
            (os, "replace", (1, 2)),
        )
        for call in calls
    ]
    outcomes = []
    for number, point in enumerate(points):
        out = folder / f"point-{number}"
        outcomes.append(finish(child(out, point)))
        if not (out / "summary.json").exists():
            outcomes.append(finish(child(out)))
    return outcomes


if __name__ == "__main__":
    torch.optim.Adam([torch.zeros(1)])  # imports much on first use
    parts = train.build_data(RUN)
    train.build_data = lambda run: parts
    place, start = Path(sys.argv[1]), int(sys.argv[2])
    result = at_points(place) if sys.argv[3] == "points" else at_random(place, start, int(sys.argv[4]))
    print(json.dumps(result))
