"""Our defaults against what people would use instead: tasks x methods x seeds, equal epochs.

    python benchmarks/defaults.py run --tasks digits-mlp uci-boston --methods plain ours
    python benchmarks/defaults.py table

`run` makes the cells that are not there yet, one JSON file each in OUT/task/method/seed.json; those of ours have the
run's key in their name, so that changed defaults are run anew. `table` judges what there is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from defaults_baselines import METHODS, OURS, Cell
from defaults_tasks import BATCH, TASKS, score
from peers import PeerUnavailable
from posterity.core.errors import NonFiniteError, unknown_name
from posterity.storage.atomic import read_json, write_text

PACKAGES = ("torch", "ivon-opt", "laplace-torch", "posterity")


def cell_path(cell: Cell, method: str) -> Path:
    """Where the cell of `method` is."""
    key = f"-{cell.task.run(cell.seed, cell.epochs).key}" if method in OURS else ""
    return cell.folder / method / f"{cell.seed}{key}.json"


def is_finished(cell: Cell, method: str) -> bool:
    """Whether the cell is there, for as many epochs."""
    return bool(read_json(cell_path(cell, method)).get("epochs") == cell.epochs)


def make(cell: Cell, method: str) -> dict[str, Any]:
    """Fit, score and write a cell; a training that diverges is a result, too."""
    head = {"task": cell.task.name, "method": method, "seed": cell.seed, "epochs": cell.epochs, "batch": BATCH}
    found: dict[str, Any]
    try:
        fitted = METHODS[method].fit(cell)
        found = {"scores": score(cell.problem, fitted.predict), "seconds": fitted.seconds, "chosen": fitted.chosen}
    except NonFiniteError as error:
        found = {"failed": str(error)}
    found |= {"threads": torch.get_num_threads(), "versions": versions()}
    path = cell_path(cell, method)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**head, **found}, indent=1) + "\n")
    return found


def versions() -> dict[str, str]:
    """Of the packages that decide results, where they are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def cells(args: argparse.Namespace) -> Iterator[tuple[Cell, str]]:
    """All that is asked for: by task from small to large, then by seed."""
    for name, task in TASKS.items():
        if name not in args.tasks:
            continue
        for seed in args.seeds if args.seeds is not None else range(task.seeds):
            for method in args.methods:
                yield Cell(task, seed, args.epochs or task.epochs, args.out / name), method


def cost(cell: Cell, method: str) -> float:
    """Steps in units of the smallest network's."""
    sizes = {"gap": 100, "two-moons": 400, "diabetes": 353, "digits": 1437, "mnist": 6e4, "fashion-mnist": 6e4}
    sizes |= {"uci-boston": 455, "uci-energy": 691, "uci-concrete": 927, "uci-wine": 1439}
    sizes |= {"uci-power": 8611, "uci-protein": 41157, "cifar10": 5e4}
    return METHODS[method].cost * cell.task.weight * cell.epochs * (sizes[cell.task.dataset] / BATCH + 1)


def run(args: argparse.Namespace) -> None:
    """Make what is missing, with a line for each cell."""
    torch.set_num_threads(args.threads)
    missing = [(cell, method) for cell, method in cells(args) if not is_finished(cell, method)]
    ahead, behind, begun = sum(cost(*each) for each in missing), 0.0, time.perf_counter()
    for number, (cell, method) in enumerate(missing, 1):
        try:
            text = describe(make(cell, method))
        except PeerUnavailable as error:
            text = f"left out: {error}"
        behind += cost(cell, method)
        left = (time.perf_counter() - begun) * (ahead - behind) / behind
        where = f"{cell.task.name} {method} {cell.seed}"
        print(f"[{number}/{len(missing)}, {left / 60:.0f} min left] {where}: {text}", file=sys.stderr, flush=True)


def describe(found: dict[str, Any]) -> str:
    """A cell in a line."""
    if "failed" in found:
        return f"failed: {found['failed']}"
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in found["scores"].items())
    return f"{numbers}, {found['seconds']:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help=", ".join(TASKS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help=", ".join(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, help="0 1 2 by default, of UCI sets the splits 0 to 4")
    parser.add_argument("--epochs", type=int, help="for a trial: other than the tasks' own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/defaults"))
    args = parser.parse_args()
    for kind, given, known in (("task", args.tasks, list(TASKS)), ("method", args.methods, list(METHODS))):
        for name in given:
            if name not in known:
                parser.error(str(unknown_name(kind, name, known)))
    run(args)


if __name__ == "__main__":
    main()
