"""Table and figure of gap.py, made of what it has stored."""

from __future__ import annotations

import platform
import statistics
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posterity.data import Dataset
from posterity.data.synthetic import GAP, GAP_NOISE

REFERENCE = "NUTS"  # the row that the others are compared with
COLUMNS = {
    "gap": "mean epistemic sd in the middle third of the gap",
    "clusters": "the same at the test inputs, which are where the training inputs are",
    "beyond": "the same up to 0.5 outside of the outermost inputs",
    "gap / clusters": "how much it grows where there are no data",
    "of NUTS's": "that ratio over NUTS's",
    "noise": f"sd of the noise, learnt but for NUTS, which knows the true one, {GAP_NOISE:g}",
    "rmse": f"on the test data; the noise's own sd is {GAP_NOISE:g}",
    "log_likelihood": "of the test data, mean",
    "coverage_90": "share of the test targets within the central 90 % of their predictive",
    "seconds": "processor time, one thread",
}
NOT_DRAWN = ("laplace", "NUTS, the default prior at T = 1")  # each has a sister that is
BLUE, LIMITS, COLUMNS_OF_PANELS = "tab:blue", (-2.6, 2.6), 3
Row = dict[str, Any]
Rows = dict[str, list[Row]]  # by way, a row a seed


def page(rows: Rows, settings: Row) -> str:
    """The whole page."""
    truth = ratio(rows[REFERENCE][0])
    shown = [(way, [complete(row, truth) for row in found]) for way, found in rows.items()]
    lines = [
        "# Where there are no data",
        "",
        f"100 points in two clusters, a 1-{settings['hidden']}-1 tanh network, every way at the library's defaults but "
        f"for what its name says (temperature {settings['temperature']:.3g}). Means ± standard deviations over "
        f"{max(map(len, rows.values()))} seed(s) of first weights and noise, a number alone is of one; the "
        "data are the same. A rate that a name gives was set by hand for this problem, which favours that row.",
        "",
        f"{REFERENCE} has temperature 1 and the prior whose pull on the weights is the default's at its temperature: "
        "its most probable weights are those of the default's loss, with the noise known.",
        "",
        *(f"- **{column}**: {meaning}" for column, meaning in COLUMNS.items()),
        "",
        "| | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
        *(f"| {way} | " + " | ".join(cell(found, column) for column in COLUMNS) + " |" for way, found in shown),
        "",
        *(sampled(way, found[0]["convergence"]) for way, found in rows.items() if "convergence" in found[0]),
        "",
        "![Data, mean and bands of 2 sd of every way](../figures/gap.png)",
        "",
        f"torch {torch.__version__}, {platform.machine()}; `python benchmarks/gap.py`.",
    ]
    return "\n".join(lines) + "\n"


def ratio(row: Row) -> float:
    """Epistemic sd in the gap over that in the clusters."""
    return float(row["gap"] / row["clusters"])


def complete(row: Row, truth: float) -> Row:
    """With what is computed from the other numbers; `truth` is NUTS's ratio."""
    return row | {"gap / clusters": ratio(row), "of NUTS's": ratio(row) / truth}


def cell(found: list[Row], column: str) -> str:
    """Mean and, for several seeds, their standard deviation."""
    values = [row[column] for row in found]
    digits = {"gap / clusters": 1, "of NUTS's": 2, "seconds": 0, "log_likelihood": 2, "coverage_90": 2}.get(column, 3)
    text = f"{statistics.fmean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {statistics.stdev(values):.{digits}f}"


def sampled(way: str, about: Row) -> str:
    """Whether NUTS may be called the truth."""
    verdict = "converged" if about["converged"] else "NOT converged, so that its numbers are only an indication"
    return (
        f"- {way}: split R-hat of the predictions at most {about['r_hat']['max']:.3f}, effective sample size at least "
        f"{about['effective']['min']:.0f}: {verdict}."
    )


def figure(rows: Rows, x: list[float], train: Dataset) -> Figure:
    """A panel a way, of the first seed, with NUTS's band in each; titles say gap / clusters."""
    shown = {way: found[0]["curve"] for way, found in rows.items() if way not in NOT_DRAWN}
    lines = -(-len(shown) // COLUMNS_OF_PANELS)
    drawn = Figure(figsize=(10, 0.5 + 2.3 * lines), layout="constrained")
    panels = drawn.subplots(lines, COLUMNS_OF_PANELS, sharex=True, sharey=True, squeeze=False).flatten()
    for axes, (way, curve) in zip(panels, shown.items(), strict=False):
        axes.plot(train.x[:, 0], train.y[:, 0], ".", color="0.25", markersize=3, zorder=3, label="training data")
        draw_bands(axes, np.array(x), {name: np.array(values) for name, values in curve.items()})
        if way != REFERENCE:
            draw_reference(axes, np.array(x), {name: np.array(values) for name, values in shown[REFERENCE].items()})
        own = complete(rows[way][0], 1.0)["gap / clusters"]
        axes.set_title(f"{way}: × {own:.1f}", fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    panels[0].set(xlim=LIMITS, ylim=(-2.6, 2.6), yticks=(-2, 0, 2))
    handles, labels = panels[1].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    drawn.supxlabel("× is the epistemic sd in the middle of the gap (grey) over that at the data", fontsize=9)
    return drawn


def draw_bands(axes: Axes, x: Any, curve: dict[str, Any]) -> None:
    """Mean, and bands of 2 sd: epistemic dark, total light."""
    mean = curve["mean"]
    axes.axvspan(*GAP, color="0.95", zorder=0)
    for name, alpha, label in (("sd", 0.2, "± 2 sd, total"), ("epistemic_sd", 0.45, "± 2 sd, epistemic")):
        low, high = mean - 2 * curve[name], mean + 2 * curve[name]
        axes.fill_between(x, low, high, color=BLUE, alpha=alpha, linewidth=0, zorder=1, label=label)
    axes.plot(x, mean, color=BLUE, linewidth=1.4, zorder=2, label="mean")


def draw_reference(axes: Axes, x: Any, curve: dict[str, Any]) -> None:
    """The edges of NUTS's epistemic band."""
    for sign, label in ((-2, "NUTS's ± 2 sd, epistemic"), (2, None)):
        edge = curve["mean"] + sign * curve["epistemic_sd"]
        axes.plot(x, edge, color="black", linewidth=0.8, linestyle="--", zorder=4, label=label)
