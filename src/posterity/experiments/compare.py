"""Groups of runs over each other: curves, success rates, means, and differences with their intervals.

    course       mean over a group's runs after each epoch, one sd to either side, and the best run's own
    success      the share of all runs whose metric is better than a threshold; the rest is then of those alone
    difference   mean over pairs of (this group - the reference), bootstrapped over pairs

Two runs are a pair where all settings agree that vary within either group: the seed, and a rate that both groups ran
through. Where there are no two such pairs, the difference is that of the means, each group resampled by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import UsageError, unknown_name
from posterity.core.randomness import derive
from posterity.experiments.results import BOOTSTRAPS, Results, is_lower_better
from posterity.experiments.row import BAD, RUNNING, WAITING

MOST_GROUPS = 20
LEVEL = 0.95
USUAL = ("accuracy", "rmse")  # what is compared where nothing is said

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """A group's metric by epoch: mean, sd (0 of one run) and the best run's, each (E,); nan where there is none."""

    epochs: NDArray[np.int64]
    mean: Floats
    sd: Floats
    best: Floats


@dataclass(frozen=True)
class Line:
    """A group in numbers; `count` runs have the metric (and succeeded), out of `tried`."""

    group: str
    tried: int
    bad: int
    success_rate: float | None
    count: int
    mean: float
    sd: float
    standard_error: float
    best: float


@dataclass(frozen=True)
class Difference:
    """A group's mean metric minus the reference's, with a bootstrap interval; `pairs` is 0 where none were paired."""

    group: str
    reference: str
    pairs: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Groups of runs by name, compared by a `metric`; with `success`, the runs that are better than that."""

    groups: Mapping[str, Results]
    metric: str
    success: float | None = None

    @property
    def lower_is_better(self) -> bool:
        """Which way the metric is better."""
        return is_lower_better(self.metric)

    @cached_property
    def chosen(self) -> dict[str, Results]:
        """The runs that numbers are of: those that have the metric and, with a threshold, are better than it."""
        return {name: group.where(**{self.metric: self._counts}) for name, group in self.groups.items()}

    def _counts(self, value: float | None) -> bool:
        if value is None or not math.isfinite(value):
            return False
        return self.success is None or (value < self.success if self.lower_is_better else value > self.success)

    def table(self) -> list[Line]:
        """A line a group, in their order."""
        found = []
        for name, group in self.groups.items():
            tried = group.filter(lambda row: row.state not in (WAITING, RUNNING))
            chosen = self.chosen[name]
            values = chosen.values(self.metric)
            best = values.min if self.lower_is_better else values.max
            found.append(
                Line(
                    group=name,
                    tried=len(tried),
                    bad=sum(row.state in BAD for row in tried),
                    success_rate=None if self.success is None or not len(tried) else len(chosen) / len(tried),
                    count=len(values),
                    mean=chosen.mean(self.metric),
                    sd=chosen.sd(self.metric),
                    standard_error=chosen.standard_error(self.metric),
                    best=float(best()) if len(values) else math.nan,
                )
            )
        return found

    def courses(self) -> tuple[str, dict[str, Course]]:
        """The number of an epoch that the metric is drawn by, and each group's course; none where none was recorded."""
        recorded = {key for group in self.chosen.values() for row in group for key in (row.history or [{}])[-1]}
        name = _recorded(self.metric, recorded)
        if name is None:
            return self.metric, {}
        return name, {group: self._course(rows, name) for group, rows in self.chosen.items() if len(rows)}

    def _course(self, rows: Results, name: str) -> Course:
        epochs, values = rows.histories(name)
        counts = np.maximum((~np.isnan(values)).sum(0), 1)
        mean = np.where(np.isnan(values).all(0), np.nan, np.nansum(values, 0) / counts)
        sd = np.sqrt(np.nansum((values - mean) ** 2, 0) / np.maximum(counts - 1, 1))
        best = list(rows).index(rows.best(self.metric))
        return Course(epochs, mean, sd, values[best])

    def differences(self, reference: str | None = None) -> list[Difference]:
        """Each other group against the `reference`, by default the one with the best mean."""
        lines = {line.group: line for line in self.table() if line.count}
        if reference is not None and reference not in lines:
            raise unknown_name("group with results", reference, lines)
        if not lines:
            return []
        down = 1 if self.lower_is_better else -1
        against = reference or min(lines, key=lambda name: down * lines[name].mean)
        return [self._difference(name, against) for name in lines if name != against]

    def _difference(self, name: str, reference: str) -> Difference:
        ours, theirs = self.chosen[name], self.chosen[reference]
        pairs = self._pairs(ours, theirs)
        if len(pairs) > 1:
            return Difference(name, reference, len(pairs), float(pairs.mean()), *_interval(pairs))
        one, other = ours.values(self.metric), theirs.values(self.metric)
        return Difference(name, reference, 0, float(one.mean() - other.mean()), *_interval(one, other))

    def _pairs(self, ours: Results, theirs: Results) -> Floats:
        """The differences of all pairs; runs that agree in all that matters count as one, by their mean."""
        names = sorted({*ours.varying(), *theirs.varying()})

        def by_key(rows: Results) -> dict[Any, float]:
            if not names:
                return {(): rows.mean(self.metric)}
            return {key: group.mean(self.metric) for key, group in rows.group_by(*names).items()}

        one, other = by_key(ours), by_key(theirs)
        return np.array([value - other[key] for key, value in one.items() if key in other], dtype=np.float64)


def gather(
    paths: Sequence[Path],
    *,
    by: Sequence[str] = (),
    where: Sequence[str] = (),
    metric: str | None = None,
    success: float | None = None,
    storage: str | None = None,
) -> Comparison:
    """Runs in folders, grouped `by` settings; without, each folder is a group, or of a single one what varies there."""
    found = {path: chosen(Results.read(path, storage=storage), where) for path in paths}
    together = Results(row for results in found.values() for row in results)
    name = metric or next((each for each in USUAL if each in together.columns["metrics"]), USUAL[0])
    together.column(name)  # refuses a name that is none
    if not by and len(paths) > 1:
        groups = {label: Results(found[path], together.columns) for label, path in _labels(paths).items()}
    else:
        by = by or [each for each in together.varying() if each != "seed"]
        groups = {", ".join(key): rows for key, rows in _named(together, by).items()} if by else {"all": together}
    if len(groups) > MOST_GROUPS:
        raise UsageError(f"{len(groups)} groups are too many to compare: say by which setting, such as --by optimizer")
    return Comparison(groups, name, success)


def chosen(results: Results, where: Sequence[str]) -> Results:
    """The rows where each `name=value` holds, a value as it is written."""
    for given in where:
        name, equals, value = given.partition("=")
        if not equals:
            raise UsageError(f"runs are chosen by name=value, such as optimizer=adam, not by '{given}'")
        found = results.where(**{name: lambda each, value=value: str(each) == value})
        if not len(found):
            there = ", ".join(sorted({str(each) for each in results.column(name)})[:MOST_GROUPS])
            raise UsageError(f"no run has {name} {value}; there are {there}")
        results = found
    return results


def _named(rows: Results, names: Sequence[str]) -> dict[tuple[str, ...], Results]:
    groups = rows.group_by(*names)
    return {
        tuple(map(str, key if isinstance(key, tuple) and len(names) > 1 else (key,))): g for key, g in groups.items()
    }


def _labels(paths: Sequence[Path]) -> dict[str, Path]:
    """Paths by their last parts, as many as tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            return dict(zip(names, paths, strict=True))
    raise UsageError(f"the same folder was given twice: {', '.join(map(str, paths))}")


def _recorded(metric: str, recorded: set[str]) -> str | None:
    """What an epoch's record has of a metric: itself, or of one on test data that on validation or training data."""
    plain = metric.removeprefix("metrics.")
    wanted = [plain.removeprefix("train_")] if plain.startswith("train_") else [f"val_{plain}", plain]
    return next((name for name in wanted if name in recorded), None)


def _interval(values: Floats, others: Floats | None = None) -> tuple[float, float]:
    """Percentiles of the mean (minus that of `others`) over resampled values; nan where one value is all there is."""
    generator = np.random.default_rng(derive(0, "differences"))
    samples = [part for part in (values, others) if part is not None]
    if min(map(len, samples)) < 2:
        return math.nan, math.nan
    means = [part[generator.integers(len(part), size=(BOOTSTRAPS, len(part)))].mean(1) for part in samples]
    low, high = np.quantile(means[0] - (means[1] if len(means) > 1 else 0.0), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
