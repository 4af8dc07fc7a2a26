"""A UCI set over its standard splits: each split a run of its own, in a folder of its own, finished ones reused.

Beside it stand the published results of Monte-Carlo dropout (Gal and Ghahramani): mean RMSE and log-likelihood over all
standard splits, one hidden layer of 50 units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from posterity.core.errors import UsageError, unknown_name
from posterity.data.uci import SETS
from posterity.experiments.execute import execute
from posterity.experiments.record import Record
from posterity.experiments.run import Run

SHOWN = ("rmse", "log_likelihood", "coverage_90", "crps")
PUBLISHED = {  # RMSE and log-likelihood
    "boston": (2.90, -2.40),
    "concrete": (4.83, -2.94),
    "energy": (0.54, -1.21),
    "power": (4.01, -2.81),
    "protein": (4.27, -2.87),
    "wine": (0.62, -0.93),
}


@dataclass(frozen=True)
class UciResult:
    """The runs of a set's splits, and their scores."""

    name: str
    records: list[Record]

    def scores(self) -> dict[str, list[float]]:
        """Each metric by split."""
        return {metric: [record.test[metric] for record in self.records] for metric in SHOWN}

    def summary(self) -> dict[str, tuple[float, float]]:
        """Mean and standard error of each metric over the splits."""
        return {metric: (fmean(values), standard_error(values)) for metric, values in self.scores().items()}


def standard_error(values: list[float]) -> float:
    """Of the mean; nan for one value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def split_runs(name: str, splits: int | None, given: dict[str, Any]) -> list[Run]:
    """The runs of the first `splits` standard splits (all by default); nothing is held out unless it is asked for."""
    short = name.removeprefix("uci-")
    if short not in PUBLISHED:
        raise unknown_name("UCI set", name, PUBLISHED)
    if fixed := {"dataset", "split"} & given.keys():
        raise UsageError(f"leave out {', '.join(sorted(fixed))}: the command says which set and which splits")
    most = SETS[f"uci-{short}"].num_splits
    if splits is not None and not 1 <= splits <= most:
        raise UsageError(f"uci-{short} has {most} standard splits, so that there are no {splits}")
    return [Run.of(dataset=f"uci-{short}", split=k, **given) for k in range(splits or most)]


def study_splits(runs: list[Run], folder: Path) -> Iterator[Record]:
    """Each run in its folder `split-K`, one after the other; those that are there are only read."""
    for run in runs:
        yield execute(run, folder / f"split-{run.split}", resume=True)
