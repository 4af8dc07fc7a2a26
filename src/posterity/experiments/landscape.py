"""A landscape: a metric over two settings, from runs at random places or on a grid.

Runs at the same place (other seeds) are averaged; those that have no metric (diverged, failed) keep their place.
Between the places it is linear on the Delaunay triangles, in the axes' own scale: log where the axis is. The colours'
range leaves out a share `clip` of the values on either side. Over rate and momentum stand the robust regions of given
curvatures and the line of stability, fitted to the boundary between success and failure (optim.regions); success is a
metric better than a threshold, by default the middle of the colours' range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posterity.core.errors import UsageError
from posterity.experiments.results import Results, is_lower_better
from posterity.experiments.row import RUNNING, WAITING
from posterity.experiments.study import Study
from posterity.optim import fit_stable_rate

RATE, MOMENTUM = "lr", "momentum"
CLIP = 0.05
MANY_DECADES = 2  # that an axis must span to be taken for a logarithmic one

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """A setting, and whether its scale is logarithmic."""

    name: str
    log: bool = False

    @property
    def short(self) -> str:
        """The setting's name without that of its table; the first of `betas` is `beta1`."""
        head, _, last = self.name.rpartition(".")
        return f"{head.rpartition('.')[2].removesuffix('s')}{int(last) + 1}" if last.isdecimal() else last

    def scaled(self, values: Floats) -> Floats:
        """Values in the axis's own scale."""
        found: Floats = np.log10(values) if self.log else values
        return found

    def unscaled(self, values: Floats) -> Floats:
        """The inverse of `scaled`."""
        found: Floats = 10**values if self.log else values
        return found


@dataclass(frozen=True)
class Landscape:
    """Values z (n,) at places x, y (n,), and places (m,) of the runs that have none."""

    x_axis: Axis
    y_axis: Axis
    metric: str
    x: Floats
    y: Floats
    z: Floats
    failed_x: Floats
    failed_y: Floats
    clip: float = CLIP
    success: float | None = None

    @property
    def lower_is_better(self) -> bool:
        """Which way the metric is better."""
        return is_lower_better(self.metric)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Of the colours: quantiles of the values."""
        low, high = np.quantile(self.z, [self.clip, 1 - self.clip])
        return float(low), float(high)

    @property
    def best(self) -> int:
        """Where the best value is."""
        return int(self.z.argmin() if self.lower_is_better else self.z.argmax())

    @property
    def threshold(self) -> float:
        """What a success is better than."""
        return sum(self.limits) / 2 if self.success is None else self.success

    @property
    def is_grid(self) -> bool:
        """Whether there is a run at each crossing of the places' coordinates, in at least two rows and columns."""
        xs, ys = (np.union1d(a, b) for a, b in ((self.x, self.failed_x), (self.y, self.failed_y)))
        places = set(zip(self.x, self.y, strict=True)) | set(zip(self.failed_x, self.failed_y, strict=True))
        return min(len(xs), len(ys)) > 1 and len(places) == len(xs) * len(ys)

    @cached_property
    def line(self) -> float | None:
        """a of the line lr + a momentum <= a, None where no run failed above one; refused over other settings."""
        self.refuse_other_axes()
        good = self.z < self.threshold if self.lower_is_better else self.z > self.threshold
        x, y = np.concatenate([self.x, self.failed_x]), np.concatenate([self.y, self.failed_y])
        success = np.concatenate([good, np.zeros(len(self.failed_x), dtype=bool)])
        rate, momentum = (x, y) if self.x_axis.short == RATE else (y, x)
        return fit_stable_rate(rate, momentum, success)

    def refuse_other_axes(self) -> None:
        """Regions of robustness and stability are over rate and momentum."""
        names = {self.x_axis.short, self.y_axis.short}
        if names != {RATE, MOMENTUM}:
            raise UsageError(f"regions are drawn over {RATE} and {MOMENTUM}, not over {' and '.join(sorted(names))}")


def landscape(
    results: Results,
    x: str,
    y: str,
    z: str,
    *,
    clip: float = CLIP,
    success: float | None = None,
    log: Mapping[str, bool] | None = None,
) -> Landscape:
    """The metric `z` over the settings `x` and `y`; `log` says by name which axes are logarithmic, or not."""
    if not 0 <= clip < 0.5:
        raise UsageError(f"clip is the share of values left out on either side: at least 0 and below 0.5, not {clip}")
    tried = results.filter(lambda row: row.state not in (WAITING, RUNNING))
    places = {name: _numbers(tried, name) for name in (x, y)}
    values = np.array([np.nan if v is None else v for v in tried.column(z)], dtype=np.float64)
    if not np.isfinite(values).any():
        raise UsageError(f"no run has a number for '{z}'")
    across, upward = (Axis(name, _is_log(places[name], (log or {}).get(name), name)) for name in (x, y))
    sites, which = np.unique(np.column_stack([places[x], places[y]]), axis=0, return_inverse=True)
    means = _means(values, which.reshape(-1), len(sites))
    there = np.isfinite(means)
    return Landscape(
        x_axis=across,
        y_axis=upward,
        metric=z,
        x=sites[there, 0],
        y=sites[there, 1],
        z=means[there],
        failed_x=sites[~there, 0],
        failed_y=sites[~there, 1],
        clip=clip,
        success=success,
    )


def log_axes(folder: Path, *names: str) -> dict[str, bool]:
    """By name, whether a study drew the axis log-uniformly; nothing of other folders and other axes."""
    if not (folder / "study.toml").exists():
        return {}
    study = Study.read(folder)
    axes = {key: axis for each in (study.axes, *(case.axes for case in study.cases)) for key, axis in each.items()}
    drawn = {key: axis.kind == "log_uniform" for key, axis in axes.items() if axis.kind in ("uniform", "log_uniform")}
    return {name: log for name in names for key, log in drawn.items() if key == name or key.endswith(f".{name}")}


def other_settings(results: Results, x: str, y: str) -> list[str]:
    """What varies beside the two axes and the seed, so that runs that are averaged or neighbours differ in it, too."""
    axes = tuple(re.sub(r"\.\d+$", "", name) for name in (x, y))
    return [name for name in results.varying() if name not in (*axes, "seed") and not name.endswith(_ends(axes))]


def _ends(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{name}" for name in names)


def _numbers(results: Results, name: str) -> Floats:
    """A setting's value in each run; `betas.0` is the first of a setting's numbers."""
    head, _, part = name.rpartition(".")
    column = (
        [value and value[int(part)] for value in results.column(head)] if part.isdecimal() else results.column(name)
    )
    missing = [value for value in column if isinstance(value, bool) or not isinstance(value, (int, float))]
    if missing:
        raise UsageError(f"an axis has a number in every run, but {name} is {missing[0]!r} in {len(missing)} of them")
    return np.array(column, dtype=np.float64)


def _is_log(values: Floats, said: bool | None, name: str) -> bool:
    """As said; else whether the values spread over decades, and rather evenly on a logarithmic scale."""
    positive = bool((values > 0).all())
    if said and not positive:
        raise UsageError(f"{name} has values that are not positive, for which there is no logarithmic axis")
    if said is not None or not positive:
        return bool(said)
    low, high, middle = values.min(), values.max(), np.median(values)
    if high < low * 10**MANY_DECADES:
        return False
    share = (np.log(middle) - np.log(low)) / (np.log(high) - np.log(low))
    return bool(abs(share - 0.5) < abs((middle - low) / (high - low) - 0.5))


def _means(values: Floats, which: NDArray[np.int64], count: int) -> Floats:
    """The mean value of each site, over the runs that have one."""
    has = np.isfinite(values)
    sums = np.bincount(which[has], values[has], count)
    counts = np.bincount(which[has], minlength=count)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
