"""Figure of a comparison: courses over each other, and each run beside its group."""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from posterity.experiments.compare import Comparison, Course, Line
from posterity.report.figures import COLOURS, INK, calm, figure_legend

STYLES = ("-", "--", ":")  # once the colours are used up


def compare_figure(comparison: Comparison) -> Figure:
    """Left the mean by epoch, a band of one sd and the best run (thin); right each run's result, mean and best."""
    name, courses = comparison.courses()
    groups = len(comparison.groups)
    looks = dict(zip(comparison.groups, itertools.product(STYLES, COLOURS), strict=False))
    size = (10.4 if courses else 6.2, max(3.8, 1.4 + 0.45 * groups))
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1))
    grid = figure.subplots(1, 2 if courses else 1, squeeze=False, width_ratios=(5, 4) if courses else None)[0]
    several = any(len(group) > 1 for group in comparison.chosen.values())
    if courses:
        calm(grid[0])
        for group, course in courses.items():
            _draw_course(grid[0], course, group, looks[group])
        grid[0].set(xlabel="epoch", ylabel=said(name))
        grid[0].xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        _zoom(grid[0], list(courses.values()), most=1.0 if name.endswith("accuracy") else np.inf)
        figure_legend(figure, grid[0].get_legend_handles_labels()[0], columns=min(groups, 6))
        if several:
            _explain(grid[0], "mean, ± 1 sd (band), best run (thin)")
    calm(grid[-1], grid="x")
    _draw_runs(grid[-1], comparison, looks)
    if several:
        _explain(grid[-1], "each run, mean ± standard error (diamond), best (star)")
    return figure


def _explain(axes: Axes, text: str) -> None:
    axes.set_title(text, fontsize=9, color=INK, loc="left")


def said(name: str) -> str:
    """A metric's name for people."""
    data = {"val_average_": "of the average, ", "val_": "validation ", "train_": "training "}
    for prefix, words in data.items():
        if name.startswith(prefix):
            return words + said(name.removeprefix(prefix))
    return name.replace("_", " ").replace("ece", "ECE").replace("auroc ", "AUROC by ")


def _draw_course(axes: Axes, course: Course, group: str, look: tuple[str, str]) -> None:
    style, colour = look
    low, high = course.mean - course.sd, course.mean + course.sd
    axes.fill_between(course.epochs, low, high, color=colour, alpha=0.1, linewidth=0)
    axes.plot(course.epochs, course.best, color=colour, linewidth=0.8, alpha=0.8, linestyle=style)
    marker = "o" if len(course.epochs) <= 15 else ""
    axes.plot(
        course.epochs,
        course.mean,
        color=colour,
        linewidth=2,
        linestyle=style,
        marker=marker,
        markersize=3.5,
        label=group,
    )


def _zoom(axes: Axes, courses: list[Course], *, most: float) -> None:
    """Limits by means and best runs: a band may be as wide as a diverging run makes it."""
    lines = np.concatenate([part for course in courses for part in (course.mean, course.best)])
    lines = lines[np.isfinite(lines)]
    low, high = lines.min(), lines.max()
    room = 0.15 * (high - low) + 1e-9 * max(abs(high), 1)
    axes.set_ylim(low - room, min(high + room, max(most, high)))


def _draw_runs(axes: Axes, comparison: Comparison, looks: dict[str, tuple[str, str]]) -> None:
    """A row a group: its runs as points, the mean with its standard error, the best; success rates at the edge."""
    lines = comparison.table()
    for place, line in enumerate(lines):
        values = comparison.chosen[line.group].values(comparison.metric)
        colour = looks[line.group][1]
        # Spread in a fixed order, so that points that fall together are seen.
        spread = 0.3 * (np.arange(len(values)) * 0.618 % 1 - 0.5) * (len(values) > 1)
        size, alpha = (4.5, 0.5) if line.count > 1 else (8, 1)
        axes.plot(values, place + spread, linestyle="", marker="o", markersize=size, color=colour, alpha=alpha, mew=0)
        if line.count > 1:
            axes.errorbar(
                line.mean,
                place,
                xerr=np.nan_to_num(line.standard_error),
                color=INK,
                marker="D",
                markersize=5,
                capsize=3,
            )
            axes.plot(line.best, place, marker="*", markersize=11, color=colour, mec=INK, mew=0.6)
        elif not line.count:
            axes.text(0.5, place, "no run", transform=axes.get_yaxis_transform(), fontsize=9, color=INK, va="center")
    axes.set_yticks(range(len(lines)), [_row_label(line) for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    side = "below" if comparison.lower_is_better else "above"
    chosen = "" if comparison.success is None else f", runs {side} {comparison.success:g}"
    axes.set_xlabel(said(comparison.metric) + chosen)


def _row_label(line: Line) -> str:
    if line.success_rate is not None:
        return f"{line.group}\n{line.count} of {line.tried} runs"
    return f"{line.group}\n{line.count} run{'' if line.count == 1 else 's'}"
