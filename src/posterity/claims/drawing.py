"""Pieces of the claims' figures and tables: curves with bands, numbers over a setting, means with their errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from posterity.claims.claim import Table
from posterity.experiments.results import Results
from posterity.report.compare_figure import STYLES, said
from posterity.report.figures import COLOURS, calm, figure_legend

Groups = Mapping[str, Results]
PERCENT = ("accuracy", "success")
LEAST_PLAIN, MOST_PLAIN, MOST_DECIMALS = 1e-3, 1e7, 6  # of numbers that are written without an exponent


def looks(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A line style and a colour for each name, the same in all panels."""
    return dict(zip(names, itertools.product(STYLES, COLOURS), strict=False))


def draw_curves(axes: Axes, groups: Groups, number: str, *, label: str | None = None, over: str = "epoch") -> None:
    """The mean of an epoch's `number` over each group's runs, with a band of one sd to either side."""
    for (name, rows), (style, colour) in zip(groups.items(), looks(list(groups)).values(), strict=True):
        epochs, values = rows.histories(number)
        counts = np.maximum((~np.isnan(values)).sum(0), 1)
        mean = np.where(np.isnan(values).all(0), np.nan, np.nansum(values, 0) / counts)
        sd = np.sqrt(np.nansum((values - mean) ** 2, 0) / np.maximum(counts - 1, 1))
        axes.fill_between(epochs, mean - sd, mean + sd, color=colour, alpha=0.15, linewidth=0)
        axes.plot(epochs, mean, color=colour, linestyle=style, linewidth=1.8, label=name)
    axes.set(xlabel=over, ylabel=said(number) if label is None else label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def zoom(axes: Axes, *, after: float) -> None:
    """Limits by what the lines are beyond a place: a first epoch may be far from all others."""
    lines = [np.asarray(line.get_ydata())[np.asarray(line.get_xdata()) > after] for line in axes.get_lines()]
    values = np.concatenate(lines) if lines else np.array([])
    values = values[np.isfinite(values)]
    if len(values):
        room = 0.1 * float(np.ptp(values)) + 1e-9
        axes.set_ylim(values.min() - room, values.max() + room)


def draw_over(axes: Axes, groups: Groups, setting: str, metric: str, *, label: str | None = None) -> None:
    """The mean of a metric over a numerical setting, a line a group, with bars of one sd."""
    for (name, rows), (style, colour) in zip(groups.items(), looks(list(groups)).values(), strict=True):
        places = sorted(rows.group_by(setting).items())
        x = [float(place) for place, _ in places]
        mean = [each.mean(metric) for _, each in places]
        sd = np.nan_to_num([each.sd(metric) for _, each in places])
        marks: dict[str, Any] = {"marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.8, "elinewidth": 1}
        axes.errorbar(x, mean, yerr=sd, color=colour, linestyle=style, label=name, **marks)
    axes.set(xlabel=said(setting.rpartition(".")[2]), ylabel=said(metric) if label is None else label)


def panels(rows: int, columns: int, *, width: float = 4.0, height: float = 2.9) -> tuple[Figure, list[list[Axes]]]:
    """A figure of calm axes in rows, each of `width` by `height` inches."""
    size = (width * columns, height * rows + 0.4)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    grid = [list(line) for line in figure.subplots(rows, columns, squeeze=False)]
    for axes in itertools.chain(*grid):
        calm(axes)
    return figure, grid


def legend(figure: Figure, *, columns: int = 4) -> None:
    """One legend above all axes, each name once."""
    handles = {h.get_label(): h for axes in figure.axes for h in axes.get_legend_handles_labels()[0]}
    figure_legend(figure, list(handles.values()), columns=columns)


def groups_table(groups: Groups, metrics: Sequence[str], *, head: str = "") -> Table:
    """A row a group: how many runs, and each metric's mean ± standard error over them."""
    heads = [head, "runs", *(said(metric).replace("average.", "average's ").replace(".", ": ") for metric in metrics)]
    return Table(heads, [[name, str(len(rows)), *(mean_error(rows, m) for m in metrics)]
                         for name, rows in groups.items()])  # fmt: skip


def mean_error(rows: Results, metric: str) -> str:
    """Mean ± standard error; accuracies in percent; a dash where no run has the metric."""
    mean, error = rows.mean(metric), rows.standard_error(metric)
    if math.isnan(mean):
        return "-"
    if metric.rpartition(".")[2].endswith(PERCENT):
        numbers = [mean] if math.isnan(error) else [mean, error]
        return " ± ".join(f"{100 * v:.2f}" for v in numbers) + " %"
    return with_error(mean, error)


def with_error(mean: float, error: float) -> str:
    """Both to the second digit of the error, where that makes numbers that are easily read."""
    if math.isnan(error):
        return f"{mean:.4g}"
    size = max(abs(mean), error)
    if error == 0 or not LEAST_PLAIN <= size < MOST_PLAIN:
        return f"{mean:.4g} ± {error:.2g}"
    decimals = min(max(1 - math.floor(math.log10(error)), 0), MOST_DECIMALS)
    return f"{mean:.{decimals}f} ± {error:.{decimals}f}"
