"""The page docs/benchmarks/quality.md, which is made of quality.json alone; `quality.py table` writes both.

quality.json   as defaults.json, with the threads of each cell and, by task and method, the time of a prediction
quality.md     per task a table of methods: mean ± standard error over seeds; who is better than ours, and in what
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from defaults_report import SHOWN, task_table
from defaults_verdicts import OURS, SIGN, Cells, compared

NAME = "quality"
COMMANDS = ("python benchmarks/quality.py run", "python benchmarks/quality.py table")


def with_prediction(
    rows: Iterable[Mapping[str, Any]], times: Mapping[str, Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Rows with the time of a prediction, which a method has once for a task: in the first row of each."""
    found, seen = [], set()
    for row in rows:
        place = (row["task"], row["method"])
        known = times.get(row["task"], {}).get(row["method"])
        first = place not in seen and known is not None and "failed" not in row
        found.append({**row, "prediction": known["seconds"]} if first and known else row)
        seen |= {place} if first else set()
    return found


def better(cells: Cells, task: str, methods: Iterable[str]) -> list[str]:
    """By column the methods whose mean is better than that of ours, all seeds of both being there."""
    lines = []
    for column in (name for name in SHOWN[cells.tasks[task]["kind"]] if name in SIGN):
        names = [m for m in methods if m != OURS and compared(cells, task, column, OURS, m) == -1]
        lines += [f"{SHOWN[cells.tasks[task]['kind']][column][0].split(', %')[0]}: {', '.join(names)}"] if names else []
    return lines


def threads_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """In words: those of all cells, and of how many they are not known."""
    counts = [row.get("threads") for row in rows]
    words = [str(count) for count in sorted({count for count in counts if count})]
    words += [f"not recorded of {counts.count(None)} of {len(counts)} cells"] * (None in counts)
    return f"threads of the trainings: {', '.join(words)}" if words else ""


def page(stored: Mapping[str, Any]) -> str:
    """The whole page."""
    cells = Cells(stored["tasks"], with_prediction(stored["rows"], stored["prediction"]))
    asked = {name: about for name, about in stored["methods"].items() if name not in stored["left_out"]}
    lines = _introduction(stored, asked)
    for name, task in cells.tasks.items():
        seeds = " ".join(map(str, task["seeds"]))
        lines += ["", f"## {name}: {task['network']}, {task['epochs']} epochs, seeds {seeds}", ""]
        lines += task_table(cells, name, list(asked))
        if not cells.here(name, OURS):
            continue
        found = better(cells, name, asked)
        lines += ["", "Better than ours: " + ("; ".join(found) or "none, of what is complete") + "."]
    versions = ", ".join(f"{name} {version}" for name, version in stored["versions"].items())
    last = [f"Schema {stored['schema']} of `Run`", versions, threads_of(stored["rows"])]
    return "\n".join([*lines, "", "; ".join(filter(None, last)) + ".", ""])


def _introduction(stored: Mapping[str, Any], asked: Mapping[str, str]) -> list[str]:
    return [
        "# Predictions beside those of other methods and libraries",
        "",
        *(f"    {command}" for command in COMMANDS),
        "",
        "Both by `make predictions`, in the environment with the other libraries.",
        "",
        "Same data, same network, equal epochs and batches of 100 for all. Mean ± standard error over seeds; the best "
        "mean in bold, but for times. AUROC tells "
        "test data from normal noise, and from another set's images, by the predictive's entropy. "
        "Seconds of training include no search of a rate and are those of a shared machine, good "
        "for an order of magnitude; those of an ensemble are of all members one after the other. The prediction is of "
        "the test set with a network of that kind without training, all methods in turn in one run: its time "
        "does not depend on the weights. Cells that are those of [defaults](defaults.md) are the same cells. "
        "ResNet-20 is trained on 5000 of the images and judged by the first 1000 test images and 500 rows of noise "
        "and of other data; its rates are tried for one epoch, and its dropout (0.1) stands before each layer with "
        "weights but the first.",
        "",
        *(f"- **{name}**: {about}" for name, about in asked.items()),
        *(f"- **{name}** is left out: {why}" for name, why in stored["left_out"].items()),
    ]
