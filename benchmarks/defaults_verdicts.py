"""What is counted for and against our defaults, from the rows of `defaults.json` alone.

A comparison is of means over all seeds of a task; where a cell of either method is missing the task counts as missing,
never as won, and a training that diverged has the worst value there is. With W won of N comparisons and M missing, what
asks for a share p of all is

    met  where W >= p N,    not met  where W + M < p N,    else open

so that no missing cell can change what is met or not met. Accuracy and RMSE are worse where

    mean(d) > sd(d) / sqrt(S),    d = loss of ours - loss of plain, seed by seed

that is by more than one standard error of the paired difference: of a UCI set both have the same split.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

# 1: lower is better, -1: higher is.
SIGN = {"accuracy": -1, "nll": 1, "ece": 1, "rmse": 1, "log_likelihood": -1, "auroc_noise": -1, "auroc_other": -1}
OURS, PLAIN = "ours", "plain"
SINGLE = ("plain-muon", "map", "dropout", "scaled", "ivon-opt", "laplace-torch")  # of one network, beside plain
TWINS = {"ours-ensemble": "ensemble", "ours-laplace": "laplace-torch"}
COVERAGE = (0.85, 0.95)
TARGETS = {
    "mnist-lenet5": {"accuracy": 0.991, "nll": 0.023},
    "cifar10-lenet5": {"accuracy": 0.695, "nll": 0.87, "ece": 0.015},
}
ALL, MOST, MANY, HALF = Fraction(1), Fraction(9, 10), Fraction(8, 10), Fraction(1, 2)


@dataclass(frozen=True)
class Cells:
    """The rows of a table; `tasks` says of each its kind and the seeds that there should be."""

    tasks: Mapping[str, Mapping[str, Any]]
    rows: Iterable[Mapping[str, Any]]

    @cached_property
    def _found(self) -> dict[tuple[str, str, int], Mapping[str, Any]]:
        return {(row["task"], row["method"], row["seed"]): row for row in self.rows}

    def of_kind(self, kind: str) -> list[str]:
        """The names of the tasks that are classifications, or regressions."""
        return [name for name, task in self.tasks.items() if task["kind"] == kind]

    def knows(self, task: str, method: str) -> bool:
        """Whether the method is one for the task."""
        return method in self.tasks[task].get("methods", (method,))

    def here(self, task: str, method: str) -> list[Mapping[str, Any]]:
        """The rows that there are, by seed."""
        found = (self._found.get((task, method, seed)) for seed in self.tasks[task]["seeds"])
        return [row for row in found if row is not None]

    def values(self, task: str, method: str, column: str) -> list[float] | None:
        """By seed, or None unless all are there."""
        rows, worst = self.here(task, method), SIGN.get(column, 1) * math.inf
        values = [worst if "failed" in row else row.get(column) for row in rows]
        complete = len(rows) == len(self.tasks[task]["seeds"]) and all(value is not None for value in values)
        return [float(value) for value in values if value is not None] if complete else None

    def nll(self, task: str) -> str:
        """The name of its nll, or of what has the other sign."""
        return "log_likelihood" if self.tasks[task]["kind"] == "regression" else "nll"

    def error(self, task: str) -> str:
        """The name of what counts errors."""
        return "rmse" if self.tasks[task]["kind"] == "regression" else "accuracy"


@dataclass(frozen=True)
class Verdict:
    """A claim and its count; `needed` is the share of all, to be surpassed if `strictly`; None is for information."""

    claim: str
    needed: Fraction | None
    won: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    strictly: bool = False

    @property
    def total(self) -> int:
        """N, with what is missing."""
        return len(self.won) + len(self.lost) + len(self.equal) + len(self.missing)

    @property
    def least(self) -> int:
        """The number that must be won."""
        needed = (self.needed or 0) * self.total
        return math.floor(needed) + 1 if self.strictly else math.ceil(needed)

    @property
    def outcome(self) -> str:
        """Met, not met, open; empty where nothing is asked for."""
        if self.needed is None:
            return ""
        if self.total and len(self.won) >= self.least:
            return "met"
        return "not met" if len(self.won) + len(self.missing) < self.least else "open"

    def line(self) -> str:
        """The count in words."""
        text = f"{self.claim}: {len(self.won)} of {self.total}"
        text += "" if self.needed is None else f" ({self.least} needed)"
        missing = ("all",) if len(self.missing) == self.total else self.missing
        named = {"not on": self.lost, "equal on": self.equal, "missing": missing}
        parts = [text, *(f"{word} {', '.join(names)}" for word, names in named.items() if names)]
        return (f"**{self.outcome}**: " if self.outcome else "") + "; ".join(parts)


def count(claim: str, needed: Fraction | None, found: Mapping[str, int | None], *, strictly: bool = False) -> Verdict:
    """Of comparisons by name: 1 won, -1 lost, 0 equal, None missing."""
    by = {key: tuple(name for name, value in found.items() if value == key) for key in (1, -1, 0, None)}
    return Verdict(claim, needed, by[1], by[-1], by[0], by[None], strictly)


def compared(cells: Cells, task: str, column: str, ours: str, other: str) -> int | None:
    """1 where the mean of `ours` is the better one, -1 where it is the worse one, None where cells are missing."""
    own, their = cells.values(task, ours, column), cells.values(task, other, column)
    if own is None or their is None:
        return None
    a, b = (SIGN[column] * statistics.fmean(values) for values in (own, their))
    if a == b:
        return -1 if math.isinf(a) else 0
    return 1 if a < b else -1


def difference(cells: Cells, task: str, column: str) -> tuple[float, float] | None:
    """Mean and standard error of the loss of ours over plain's, seed by seed; None unless there are two."""
    own, their = cells.values(task, OURS, column), cells.values(task, PLAIN, column)
    if own is None or their is None or len(own) < 2:
        return None
    if any(map(math.isinf, own)):
        return math.inf, 0.0
    if any(map(math.isinf, their)):
        return -math.inf, 0.0
    each = [SIGN[column] * (a - b) for a, b in zip(own, their, strict=True)]
    return statistics.fmean(each), statistics.stdev(each) / math.sqrt(len(each))


def not_worse(cells: Cells, task: str) -> int | None:
    """Whether accuracy or RMSE is not worse than plain's by more than a standard error."""
    found = difference(cells, task, cells.error(task))
    return None if found is None else (1 if found[0] <= found[1] else -1)


def mean_within(cells: Cells, task: str, column: str, good: Callable[[float], bool]) -> int | None:
    """Whether the mean of ours is `good`."""
    values = cells.values(task, OURS, column)
    return None if values is None else (1 if good(statistics.fmean(values)) else -1)


def _nll(cells: Cells, ours: str, other: str) -> dict[str, int | None]:
    return {
        task: compared(cells, task, cells.nll(task), ours, other) for task in cells.tasks if cells.knows(task, other)
    }


def _auroc(cells: Cells, kind: str) -> dict[str, int | None]:
    found = {}
    for task in cells.of_kind(kind):
        for column in ("auroc_noise", "auroc_other")[: 2 if cells.tasks[task]["other"] else 1]:
            against = column.removeprefix("auroc_")
            found[f"{task} ({against})"] = compared(cells, task, column, OURS, PLAIN)
    return found


def _target(column: str, bound: float) -> Callable[[float], bool]:
    return lambda mean: SIGN[column] * mean <= SIGN[column] * bound


def verdicts(cells: Cells) -> list[Verdict]:
    """All that is asked of our defaults, then what is only told."""
    classes, reals = cells.of_kind("classification"), cells.of_kind("regression")
    ece = {task: compared(cells, task, "ece", OURS, PLAIN) for task in classes}
    auroc = {kind: _auroc(cells, kind) for kind in ("classification", "regression")}
    coverage = {t: mean_within(cells, t, "coverage", lambda c: COVERAGE[0] <= c <= COVERAGE[1]) for t in reals}
    found = [
        count(
            "accuracy or RMSE not worse than plain's by more than a standard error",
            ALL,
            {task: not_worse(cells, task) for task in cells.tasks},
        ),
        count("nll lower than plain's", MOST, _nll(cells, OURS, PLAIN)),
        count("ECE lower than plain's", MANY, ece),
        count("AUROC higher than plain's, all", MANY, auroc["classification"] | auroc["regression"]),
        *(count(f"AUROC higher than plain's, {kind} alone", MANY, own) for kind, own in auroc.items()),
        *(count(f"nll lower than that of {other}", HALF, _nll(cells, OURS, other), strictly=True) for other in SINGLE),
        count("coverage of 90 % intervals between 85 and 95 %", ALL, coverage),
    ]
    for task in TARGETS:
        if task in cells.tasks:
            goals = TARGETS[task].items()
            named = {f"{c} {bound:g}": mean_within(cells, task, c, _target(c, bound)) for c, bound in goals}
            found.append(count(f"targets of {task}", ALL, named))
    return found + [
        count(f"for information, nll of {own} lower than that of {other}", None, _nll(cells, own, other))
        for own, other in TWINS.items()
    ]
