"""The files of `defaults.py table`: docs/benchmarks/defaults.json, and defaults.md, which is made of it alone.

    defaults.json   schema, defaults of `Run` and what becomes of them, versions, tasks, methods, a row for each cell
    defaults.md     per task a table of methods: mean ± standard error over seeds (of a UCI set: splits); the verdicts

Numbers are stored with six digits, and the page is counted from what is stored.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from defaults_verdicts import COVERAGE, OURS, PLAIN, SIGN, SINGLE, Cells, compared, difference, verdicts
from posterity.experiments.uci_study import PUBLISHED
from posterity.storage import write_text
from posterity.storage.atomic import read_json

NAME = "defaults"
COMMANDS = ("python benchmarks/defaults.py run", "python benchmarks/defaults.py table")
# By kind: what is shown of a row, its heading, the factor on it and its decimals.
SHOWN = {
    "classification": {
        "accuracy": ("accuracy, %", 100, 2),
        "nll": ("nll", 1, 4),
        "ece": ("ECE", 1, 4),
        "auroc_noise": ("AUROC, noise", 1, 4),
        "auroc_other": ("AUROC, other data", 1, 4),
        "seconds": ("seconds", 1, 1),
        "prediction": ("prediction, s", 1, 2),  # where it is known
    },
    "regression": {
        "rmse": ("RMSE", 1, 3),
        "log_likelihood": ("log-likelihood", 1, 3),
        "coverage": ("coverage, %", 100, 1),
        "auroc_noise": ("AUROC, noise", 1, 4),
        "seconds": ("seconds", 1, 1),
    },
}

HEAD = ("task", "method", "seed", "epochs", "key", "rules", "threads")  # key and rules are those of a run of ours
BESIDE = ("repeats", "rate")  # of a row, what is no number that a method is judged by


def forget(path: Path, names: Sequence[str], gone: Collection[Sequence[Any]]) -> None:
    """Take the rows with these values of `names` out of a stored table."""
    stored = read_json(path)
    rows = [row for row in stored.get("rows", []) if tuple(row[name] for name in names) not in gone]
    if len(rows) < len(stored.get("rows", [])):
        write_text(path, json.dumps({**stored, "rows": rows}, indent=1) + "\n")


def row(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's file in short."""
    head = {name: cell[name] for name in HEAD if name in cell}
    if "failed" in cell:
        return {**head, "failed": cell["failed"]}
    numbers = {**cell["scores"], "seconds": cell["seconds"]}
    if "rate" in cell.get("chosen", {}):
        numbers["rate"] = cell["chosen"]["rate"]
    repeats = {"repeats": cell["repeats"]} if "repeats" in cell else {}
    return {**head, **{name: float(f"{value:.6g}") for name, value in numbers.items()}, **repeats}


def cell_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `row`, without what it leaves out."""
    head = {name: row[name] for name in HEAD if name in row}
    if "failed" in row:
        return {**head, "failed": row["failed"]}
    scores = {name: value for name, value in row.items() if name not in (*HEAD, *BESIDE, "seconds")}
    chosen = {"rate": row["rate"]} if "rate" in row else {}
    repeats = {"repeats": row["repeats"]} if "repeats" in row else {}
    return {**head, "scores": scores, "seconds": row["seconds"], "chosen": chosen, **repeats}


def versions_of(cells: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Of all cells together, since they need not be of one day."""
    found: dict[str, set[str]] = {}
    for cell in cells:
        for name, version in cell["versions"].items():
            found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(each)) for name, each in sorted(found.items())}


TIMES = ("seconds", "prediction")


def as_text(stored: Mapping[str, Any]) -> str:
    """JSON with a line for each row, task and method."""
    parts = []
    for name, value in stored.items():
        if name == "rows":
            inner = ",\n".join(f"  {json.dumps(each)}" for each in value)
            parts.append(f' "{name}": [\n{inner}\n ]')
        elif isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items())
            parts.append(f' "{name}": {{\n{inner}\n }}')
        else:
            parts.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write(
    stored: Mapping[str, Any], folder: Path, name: str = NAME, made_of: Callable[[Mapping[str, Any]], str] | None = None
) -> str:
    """Write both files; the page, which `made_of` makes if it is another than this one."""
    folder.mkdir(parents=True, exist_ok=True)
    text = as_text(stored)
    made = (made_of or page)(json.loads(text))
    write_text(folder / f"{name}.json", text)
    write_text(folder / f"{name}.md", made)
    return made


def mean_and_error(values: list[float], factor: float, decimals: int) -> str:
    """Mean ± standard error."""
    mean = f"{factor * statistics.fmean(values):.{decimals}f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {factor * statistics.stdev(values) / math.sqrt(len(values)):.{decimals}f}"


def _label(cells: Cells, task: str, method: str) -> str:
    """The method's name, and what there is not of it."""
    rows, asked = cells.here(task, method), len(cells.tasks[task]["seeds"])
    diverged = sum("failed" in row for row in rows)
    notes = [f"{asked - len(rows)} of {asked} missing"] * (0 < len(rows) < asked)
    notes += [f"{diverged} of {asked} diverged"] * (diverged > 0)
    return method + (f" ({', '.join(notes)})" if notes else "")


def _best(cells: Cells, task: str, column: str, methods: Iterable[str]) -> set[str]:
    """The methods with the best mean, as it is stored, among those with all cells."""
    found = {method: cells.values(task, method, column) for method in methods}
    means = {method: statistics.fmean(values) for method, values in found.items() if values is not None}
    losses = {m: abs(v - 0.9) if column == "coverage" else SIGN.get(column, 1) * v for m, v in means.items()}
    least = min(losses.values(), default=math.inf)
    return {method for method, loss in losses.items() if loss == least and math.isfinite(loss)}


def task_table(cells: Cells, task: str, methods: list[str]) -> list[str]:
    """A row a method; the best of a column in bold, but for the seconds."""
    shown = SHOWN[cells.tasks[task]["kind"]]
    timed = any("prediction" in row for method in methods for row in cells.here(task, method))
    absent_columns = {"auroc_other": not cells.tasks[task]["other"], "prediction": not timed}
    columns = [name for name in shown if not absent_columns.get(name)]
    best = {column: _best(cells, task, column, methods) for column in columns if column not in TIMES}
    lines = ["| | " + " | ".join(shown[c][0] for c in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for method in methods:
        fields, absent = [], "" if cells.here(task, method) else "missing"
        for column in columns:
            values = [row[column] for row in cells.here(task, method) if column in row]
            text = mean_and_error(values, *shown[column][1:]) if values else absent
            fields.append(f"**{text}**" if method in best.get(column, ()) else text)
        lines.append(f"| {_label(cells, task, method)} | " + " | ".join(fields) + " |")
    return lines + published_row(task, columns)


def published(task: str) -> dict[str, float]:
    """RMSE and log-likelihood of Monte-Carlo dropout; none but for UCI sets."""
    found = PUBLISHED.get(task.removeprefix("uci-"))
    return {} if found is None else dict(zip(("rmse", "log_likelihood"), found, strict=True))


def published_row(task: str, columns: Iterable[str]) -> list[str]:
    """Monte-Carlo dropout as it was published; none but for UCI sets."""
    found = published(task)
    if not found:
        return []
    fields = [f"{found[c]:.2f}" if c in found else "" for c in columns]
    return ["| *dropout, published* | " + " | ".join(fields) + " |"]


def published_lines(cells: Cells) -> list[str]:
    """Ours and the dropout of this table beside the published one, a line a UCI set."""
    lines = []
    for task in filter(published, cells.tasks):
        parts = []
        for column, value in published(task).items():
            heading, *digits = SHOWN["regression"][column]
            parts.append(f"{heading} {value:.2f}")
            for method in (OURS, "dropout"):
                values = cells.values(task, method, column)
                parts.append(f"{method} {'missing' if values is None else mean_and_error(values, *digits)}")
        lines.append(f"{task}: published {', '.join(parts)}")
    return lines


def worse(cells: Cells, task: str) -> str:
    """In which columns ours is worse than plain, and whose nll is lower; empty if nowhere."""
    shown, parts = SHOWN[cells.tasks[task]["kind"]], []
    for column in (name for name in shown if name in SIGN):
        if compared(cells, task, column, OURS, PLAIN) == -1:
            pair = [mean_and_error(cells.values(task, m, column) or [], *shown[column][1:]) for m in (OURS, PLAIN)]
            found = difference(cells, task, column) if column == cells.error(task) else None
            far = ", within a standard error" if found is not None and found[0] <= found[1] else ""
            parts.append(f"{shown[column][0]} than plain's ({pair[0]} against {pair[1]}{far})")
    coverage = cells.values(task, OURS, "coverage") if "coverage" in shown else None
    if coverage and not COVERAGE[0] <= statistics.fmean(coverage) <= COVERAGE[1]:
        parts.append(f"coverage ({mean_and_error(coverage, 100, 1)} %)")
    behind = [m for m in SINGLE if compared(cells, task, cells.nll(task), OURS, m) == -1]
    return "; ".join(parts + ([f"nll than that of {', '.join(behind)}"] if behind else []))


def times_of_plain(cells: Cells) -> list[str]:
    """How long a training of ours takes, in those of plain: medians over the seeds, where all are there."""
    both = {task: [cells.values(task, method, "seconds") for method in (OURS, PLAIN)] for task in cells.tasks}
    found = {t: statistics.median(a) / statistics.median(b) for t, (a, b) in both.items() if a and b and all(b)}
    told = ", ".join(f"{task} {ratio:.1f}" for task, ratio in found.items())
    return [f"- a training takes, in those of plain: {told}"] if told else []


def page(stored: Mapping[str, Any]) -> str:
    """The whole page."""
    cells = Cells(stored["tasks"], stored["rows"])
    asked = {name: about for name, about in stored["methods"].items() if name not in stored["left_out"]}
    lines = [*_introduction(stored, asked)]
    for name, task in cells.tasks.items():
        seeds = f"{'splits' if task['splits'] else 'seeds'} {' '.join(map(str, task['seeds']))}"
        lines += ["", f"## {name}: {task['network']}, {task['epochs']} epochs, {seeds}", ""]
        lines += task_table(cells, name, [method for method in asked if cells.knows(name, method)])
    lines += ["", "## Verdicts", "", *_rules(), ""]
    lines += [f"- {verdict.line()}" for verdict in verdicts(cells)]
    lines += ["", "## Where ours is worse", ""]
    found = {task: worse(cells, task) for task in cells.tasks}
    lines += [f"- {task}: {text}" for task, text in found.items() if text] or ["Nowhere, of what is there."]
    lines += times_of_plain(cells)
    absent = [task for task in cells.tasks if not cells.here(task, OURS)]
    lines += ["", f"Ours is missing on {', '.join(absent)}."] if absent else []
    versions = ", ".join(f"{name} {version}" for name, version in stored["versions"].items())
    return "\n".join([*lines, "", f"Schema {stored['schema']} of `Run`; {versions}.", ""])


def _introduction(stored: Mapping[str, Any], asked: Mapping[str, str]) -> list[str]:
    left = [f"- **{name}** is left out: {why}" for name, why in stored["left_out"].items()]
    return [
        "# Our defaults against what people would use instead",
        "",
        *(f"    {command}" for command in COMMANDS),
        "",
        "Equal epochs and batches of 100 for all, the same standardised data; scores of a regression are in its own "
        "units. Mean ± standard error over seeds, of UCI sets over standard splits; the best mean in bold (of "
        "coverage: the nearest to 90 %). AUROC tells test data from normal noise, and from another set's images, by "
        "the predictive's entropy, of a regression by its sd: a network with one noise for all inputs has 0.5. Seconds "
        "are those of the training on a shared machine, good for an order of magnitude. Of ours only the cells of the "
        "present defaults count.",
        "",
        *(f"- **{name}**: {about}" for name, about in asked.items()),
        *left,
        "- **dropout, published**: Monte-Carlo dropout as its authors have it, over all standard splits, where these "
        "tables have the first ones",
    ]


def _rules() -> list[str]:
    return [
        "Means over all seeds are compared; equal means are not won. A standard error is that of the difference seed "
        "by seed. A comparison that lacks a cell is missing: a verdict is open where the missing ones could still "
        "change it. A training that diverged has lost."
    ]
