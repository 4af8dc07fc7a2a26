"""Run by test_faults_ensemble.py: as kill_worker.py, but the run is an ensemble's.

    python ensemble_worker.py DIRECTORY

Prints what was done as JSON; the test compares the directories.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kill_worker import child, finish, points_of, prepare

from posterity.experiments import Run
from posterity.storage import checkpoint, history

# Members of 8 steps, each with 10 checkpoints: before the first step, after each, and after the last epoch's end.
RUN = Run(
    dataset="digits", model="mlp", hidden=(8,), train_rows=600, epochs=2, batch_size=150, ensemble=3, average="swa",
    average_every=2,
)  # fmt: skip


def killed(folder: Path) -> list[list[str]]:
    """What became of runs that are killed in the first, in the second, in the third member, and after them all."""
    points = points_of(
        (checkpoint, "save_file", (1, 10, 11, 12, 15, 20, 28)),
        (Path, "rename", (10, 14)),
        (history.History, "append", (1, 3, 4, 7, 8)),
    )
    outcomes = []
    for number, point in enumerate(points):
        out = folder / f"point-{number}"
        outcomes.append([finish(child(RUN, out, point), out), finish(child(RUN, out), out)])
    return outcomes


if __name__ == "__main__":
    prepare(RUN)
    place = Path(sys.argv[1])
    print(json.dumps({"whole": finish(child(RUN, place / "whole"), place / "whole"), "killed": killed(place)}))
