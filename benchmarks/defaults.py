"""Our defaults against what people would use instead: tasks x methods x seeds, equal epochs.

    python benchmarks/defaults.py run --tasks digits-mlp uci-boston --methods plain ours
    python benchmarks/defaults.py table
    python benchmarks/defaults.py restore

`run` makes the cells that are not there yet, one JSON file each in OUT/task/method/seed.json; those of ours have the
run's key and a digest of the rules' constants in their name, so that changed defaults are run anew, and of each task's
first seed numbers that tell whether they are of the present code (defaults_repeats.py); `run --anew` first forgets
the cells of ours that are asked for, for code that has changed where no constant has. `table` judges what there is:
it writes the files defaults.json and defaults.md, and prints the verdicts. `restore` makes the cells of the stored
table files again, where there are none, so that a table can be gone on with on another machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from defaults_baselines import Cell, keep_rate
from defaults_methods import METHODS, run_folder
from defaults_report import NAME, cell_of, forget, published_lines, row, versions_of, worse, write
from defaults_rules import present_defaults, rules
from defaults_tasks import ALL, BATCH, OTHERS, TASKS, Task, score
from defaults_verdicts import Cells, verdicts
from peers import PeerUnavailable
from posterity.core.errors import NonFiniteError, unknown_name
from posterity.storage.atomic import read_json, write_text

PACKAGES = ("torch", "ivon-opt", "laplace-torch", "bayesian-torch", "torch-blue", "posterity")
DOCS = Path(__file__).parents[1] / "docs" / "benchmarks"
FIRST = 0  # of a task's seeds, and of the standard splits


def key_of(cell: Cell, method: str) -> dict[str, str]:
    """The key of the run that the cell belongs to, and of the rules, if it is one of ours."""
    run_of = METHODS[method].run
    return {} if run_of is None else {"key": run_of(cell).key, "rules": rules()}


def cell_path(cell: Cell, method: str) -> Path:
    """Where the cell of `method` is."""
    name = "-".join([str(cell.seed), *key_of(cell, method).values()])
    return cell.folder / method / f"{name}.json"


def finished(cell: Cell, method: str) -> dict[str, Any]:
    """The cell, if it is there for as many epochs; else an empty one."""
    found = read_json(cell_path(cell, method))
    return found if found.get("epochs") == cell.epochs else {}


def make(cell: Cell, method: str) -> dict[str, Any]:
    """Fit, score and write a cell; a training that diverges is a result, too."""
    head = {"task": cell.task.name, "method": method, "seed": cell.seed, "epochs": cell.epochs, "batch": BATCH}
    head |= key_of(cell, method)
    found: dict[str, Any]
    try:
        fitted = METHODS[method].fit(cell)
        found = {"scores": score(cell.problem, fitted.predict), "seconds": fitted.seconds, "chosen": fitted.chosen}
    except NonFiniteError as error:
        found = {"failed": str(error)}
    repeats = METHODS[method].repeats
    first = cell.task in ALL and cell.seed == FIRST and cell.epochs == cell.task.epochs
    if repeats is not None and first and "scores" in found:
        found["repeats"] = repeats(cell, found["scores"])
    found |= {"threads": torch.get_num_threads(), "versions": versions()}
    keep(cell, method, {**head, **found})
    return found


def keep(cell: Cell, method: str, found: dict[str, Any]) -> None:
    """Write a cell."""
    path = cell_path(cell, method)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(found, indent=1) + "\n")


def restore(args: argparse.Namespace, name: str = NAME) -> None:
    """Make the cells of the table `name` again; those of ours only if the defaults are still theirs."""
    table = read_json(args.to / f"{name}.json")
    rows = {(row["task"], row["method"], row["seed"]): row for row in table.get("rows", [])}
    made = 0
    for cell, method in cells(args):
        row = rows.get((cell.task.name, method, cell.seed), {})
        own = row.get("epochs") == cell.epochs and all(row.get(k) == v for k, v in key_of(cell, method).items())
        if own and not finished(cell, method):
            keep(cell, method, {**cell_of(row), "versions": table["versions"]})
            made += 1
        trials = METHODS[method].rates
        if "rate" in row and row.get("epochs") == cell.epochs and trials is not None:
            keep_rate(cell, row["rate"], trials)
    print(f"{made} cells of {name}.json made again", file=sys.stderr)


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
        if name not in args.tasks or task.lacks:
            continue
        for seed in seeds_of(task, args):
            for method in methods_of(task, args):
                yield Cell(task, seed, args.epochs or task.epochs, args.out / name), method


def methods_of(task: Task, args: argparse.Namespace) -> list[str]:
    """Those that are asked for, can be had and know such tasks."""
    real = task.kind == "regression"
    return [name for name in args.methods if not (METHODS[name].lacks or (real and METHODS[name].classes))]


def seeds_of(task: Task, args: argparse.Namespace) -> list[int]:
    """Those that are asked for, or the task's own."""
    return list(range(task.seeds) if args.seeds is None else args.seeds)


def left_out(args: argparse.Namespace) -> dict[str, str]:
    """The methods and tasks that cannot be had, with the reason."""
    found = {name: method.lacks for name, method in METHODS.items() if name in args.methods}
    found |= {name: task.lacks for name, task in TASKS.items() if name in args.tasks}
    return {name: why for name, why in found.items() if why}


def cost(cell: Cell, method: str) -> float:
    """Steps in units of the smallest network's."""
    sizes = {"gap": 100, "two-moons": 400, "diabetes": 353, "digits": 1437, "mnist": 6e4, "fashion-mnist": 6e4}
    sizes |= {"uci-boston": 455, "uci-energy": 691, "uci-concrete": 927, "uci-wine": 1439}
    sizes |= {"uci-power": 8611, "uci-protein": 41157, "cifar10": 5e4}
    rows = cell.task.train_rows or sizes[cell.task.dataset]
    return METHODS[method].cost * cell.task.weight * cell.epochs * (rows / BATCH + 1)


def forget_ours(args: argparse.Namespace) -> None:
    """Forget what is asked for of ours: cells, runs, and rows of the stored tables."""
    gone = set()
    for cell, method in cells(args):
        run_of = METHODS[method].run
        if run_of is not None:
            cell_path(cell, method).unlink(missing_ok=True)
            shutil.rmtree(run_folder(cell, run_of(cell), method), ignore_errors=True)
            gone.add((cell.task.name, method, cell.seed))
    for path in (args.to / f"{NAME}.json", args.to / "quality.json"):
        forget(path, ["task", "method", "seed"], gone)


def run(args: argparse.Namespace) -> None:
    """Make what is missing, with a line for each cell."""
    if args.anew:
        forget_ours(args)
    torch.set_num_threads(args.threads)
    for name, why in left_out(args).items():
        print(f"{name} is left out: {why}", file=sys.stderr)
    missing = [(cell, method) for cell, method in cells(args) if not finished(cell, method)]
    ahead, behind, begun = sum(cost(*each) for each in missing), 0.0, time.perf_counter()
    for number, (cell, method) in enumerate(missing, 1):
        try:
            text = describe(finished(cell, method) or make(cell, method))  # or by another process meanwhile
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


def collected(args: argparse.Namespace) -> dict[str, Any]:
    """What `defaults.json` holds: the cells that there are, and what there should be."""
    found = [cell for cell in (finished(*each) for each in cells(args)) if cell]
    tasks = {
        name: {
            "kind": task.kind,
            "network": task.network,
            "epochs": args.epochs or task.epochs,
            "splits": task.splits,
            "seeds": seeds_of(task, args),
            "other": task.dataset in OTHERS,
            "methods": methods_of(task, args),
        }
        for name, task in TASKS.items()
        if name in args.tasks and not task.lacks
    }
    return {
        **present_defaults(),
        "versions": versions_of(found),
        "tasks": tasks,
        "methods": {name: method.about for name, method in METHODS.items() if name in args.methods},
        "left_out": left_out(args),
        "rows": [row(cell) for cell in found],
    }


def table(args: argparse.Namespace) -> None:
    """Write the files, and print the verdicts."""
    stored = collected(args)
    write(stored, args.to)
    judged = Cells(stored["tasks"], stored["rows"])
    lines = [f"{len(stored['rows'])} of {sum(1 for _ in cells(args))} cells"]
    lines += [verdict.line() for verdict in verdicts(judged)]
    lines += [f"worse on {task}: {text}" for task in judged.tasks if (text := worse(judged, task))]
    lines += published_lines(judged) if args.published else []
    print(*lines, sep="\n")
    print(f"written: {args.to / 'defaults.json'}, {args.to / 'defaults.md'}")


def asked(parser: argparse.ArgumentParser, tasks: list[str], methods: list[str]) -> argparse.Namespace:
    """What the command line asks for; `tasks` and `methods` where it names none."""
    parser.add_argument("--tasks", nargs="+", default=tasks, help=", ".join(TASKS))
    parser.add_argument("--methods", nargs="+", default=methods, help=", ".join(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, help="the task's own by default, of UCI sets the splits 0 to 4")
    parser.add_argument("--epochs", type=int, help="for a trial: other than the tasks' own")
    parser.add_argument("--anew", action="store_true", help="first forget the cells of ours that are asked for")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/defaults"), help="folder of the cells")
    parser.add_argument("--to", type=Path, default=DOCS, help="folder of the table's files")
    args = parser.parse_args()
    for kind, given, known in (("task", args.tasks, list(TASKS)), ("method", args.methods, list(METHODS))):
        for name in given:
            if name not in known:
                parser.error(str(unknown_name(kind, name, known)))
    return args


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table", "restore"])
    parser.add_argument("--published", action="store_true", help="also print ours beside published results (UCI sets)")
    args = asked(parser, [task.name for task in ALL], [name for name in METHODS if not METHODS[name].peer])
    {"run": run, "table": table, "restore": restore}[args.command](args)


if __name__ == "__main__":
    main()
