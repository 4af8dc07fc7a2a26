"""Our defaults against other methods and libraries: same data, same network, same epochs.

    python benchmarks/quality.py run --tasks mnist-lenet5 --methods plain swag ours
    python benchmarks/quality.py table

The cells are those of `defaults.py`, in the same folder: what either of them has made the other takes, and what stands
in the tables defaults.json and quality.json is not made again either. `run` makes the cells that are missing and times
a prediction of each method. `table` writes quality.json and quality.md of what there is.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch

import defaults
from defaults_methods import METHODS
from defaults_report import NAME as DEFAULTS
from defaults_report import write
from defaults_tasks import TASKS
from posterity.storage.atomic import read_json
from prediction_time import time_all, times
from quality_page import NAME, page

COMPARED_ON = ("mnist-lenet5", "cifar10-lenet5", "cifar10-resnet20")
COMPARED = (
    "plain",
    "dropout",
    "ensemble",
    "bayesian-torch",
    "torch_blue",
    "ivon-opt",
    "laplace-torch",
    "swag",
    "ours",
)


def run(args: argparse.Namespace) -> None:
    """Time predictions, which takes minutes, then make the cells that are missing."""
    torch.set_num_threads(args.threads)
    for name in _tasks(args):
        for line in time_all(TASKS[name], args.out / name, defaults.methods_of(TASKS[name], args)):
            print(f"{name}: {line}", file=sys.stderr)
    defaults.run(args)


def _tasks(args: argparse.Namespace) -> list[str]:
    return [name for name, task in TASKS.items() if name in args.tasks and not task.lacks]


def collected(args: argparse.Namespace) -> dict[str, Any]:
    """What quality.json holds; a time that this machine does not have stays as it was stored."""
    stored = defaults.collected(args)
    before = read_json(args.to / f"{NAME}.json").get("prediction", {})
    methods = list(stored["methods"])
    prediction = {
        name: {
            m: known for m, known in (before.get(name, {}) | times(args.out / name, METHODS)).items() if m in methods
        }
        for name in _tasks(args)
    }
    rows = stored.pop("rows")
    return {**stored, "prediction": prediction, "rows": rows}


def table(args: argparse.Namespace) -> None:
    """Write the files."""
    stored = collected(args)
    write(stored, args.to, NAME, page)
    print(f"{len(stored['rows'])} of {sum(1 for _ in defaults.cells(args))} cells")
    print(f"written: {args.to / NAME}.json, {args.to / NAME}.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    args = defaults.asked(parser, list(COMPARED_ON), list(COMPARED))
    for name in (DEFAULTS, NAME):
        defaults.restore(args, name)
    {"run": run, "table": table}[args.command](args)


if __name__ == "__main__":
    main()
