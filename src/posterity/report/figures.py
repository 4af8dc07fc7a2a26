"""Figures of a report: training, YellowFin's tuning, reliability, confidence on known and unknown inputs, regression.

Each function returns a `matplotlib.figure.Figure` that belongs to nobody else (pyplot's global state is
not touched, so no display is needed), and `save` writes it as a PNG. Colours are Okabe and Ito's, which
the colour-blind tell apart; legends stand above the data, never on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray
from torch import Tensor

from posterity.core.errors import UsageError
from posterity.metrics import Reliability

DPI = 150
BLUE, ORANGE, SKY, VERMILLION = "#0072B2", "#E69F00", "#56B4E9", "#D55E00"
INK, FAINT = "#333333", "#D9D9D9"
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", SKY, VERMILLION)
HISTOGRAM_BINS = 20
BAND_SDS = 2.0

Array = NDArray[np.float64]
AVERAGE = "average"
# A panel of `training_curves`: its label and the keys that it draws, with their names in the legend.
Panel = tuple[str, dict[str, str]]
NLL: Panel = ("nll per datum (nats)", {"nll": "train", "val_nll": "validation", "val_average_nll": AVERAGE})
KL: Panel = ("kl, all weights (nats)", {"kl": "kl"})
ACCURACY: Panel = ("accuracy", {"accuracy": "train", "val_accuracy": "validation", "val_average_accuracy": AVERAGE})
RMSE: Panel = ("rmse", {"rmse": "train", "val_rmse": "validation", "val_average_rmse": AVERAGE})
MOMENTUM = "momentum mu"
TUNING: tuple[Panel, ...] = (
    ("squared gradient norm", {"h_max": "h_max", "h_min": "h_min"}),
    ("variance of the gradient C", {"C": "C"}),
    ("distance to the optimum D", {"D": "D"}),
    (MOMENTUM, {"mu": "mu"}),
    ("rate lr", {"lr": "lr"}),
)


def training_curves(
    history: Sequence[Mapping[str, float]], *, standardised: bool = False, point: bool = False
) -> Figure:
    """nll, kl, and accuracy or rmse, by epoch (or step); keys missing from records are skipped.

    The labels say so where nll and rmse are of `standardised` targets, and where a `point` has no kl but a -log prior.
    """
    recorded = {key for record in history for key in record}
    names = {KL[0]: "-log prior, all weights (nats)"} if point else {}
    if standardised:
        names |= {NLL[0]: "nll per standardised datum (nats)", RMSE[0]: "rmse (standardised)"}
    panels = [(names.get(label, label), keys) for label, keys in (NLL, KL, ACCURACY, RMSE) if recorded & keys.keys()]
    if not panels:
        raise UsageError(
            f"history has {len(history)} records with keys {sorted(recorded)}: nothing to draw; "
            "expected at least one of nll, kl, accuracy, rmse, or their val_ forms."
        )
    axis = next((key for key in ("epoch", "step") if key in recorded), "record")
    return _curves(history, panels, axis, width=3.9)


def tuning_curves(history: Sequence[Mapping[str, float]]) -> Figure:
    """What YellowFin measured (h_min, h_max, C, D) and chose (mu, lr), by epoch."""
    _require({"records": history} if history else {}, "history")
    figure = _curves(history, TUNING, "epoch", width=2.9)
    for axes in figure.axes:
        if axes.get_ylabel() == MOMENTUM:
            axes.set_ylim(0, 1)
        else:
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            decades = LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,))
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5) if high < 6 * low else decades)
            axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    return figure


def _curves(history: Sequence[Mapping[str, float]], panels: Sequence[Panel], axis: str, *, width: float) -> Figure:
    """A panel for each, with a line for each of its keys over `axis`."""
    figure, all_axes = row(len(panels), width=width, height=3.1)
    for axes, (label, keys) in zip(all_axes, panels, strict=True):
        for colour, (key, name) in zip(COLOURS, keys.items(), strict=False):
            places = [(record.get(axis, i), record) for i, record in enumerate(history, 1) if key in record]
            # A line for each member of an ensemble, whose epochs begin anew.
            for number, (_, each) in enumerate(itertools.groupby(places, lambda place: place[1].get("member"))):
                x, y = zip(*((where, record[key]) for where, record in each), strict=True)
                marker = "o" if len(x) <= 30 else ""
                legend = "" if number else name
                axes.plot(x, y, color=colour, label=legend, linewidth=1.8, marker=marker, markersize=3.5)
        axes.set(xlabel=axis, ylabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
        if len(keys) > 1:
            legend_above(axes)
        else:
            # 190k, not 190000: a kl is summed over all weights.
            axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    return figure


def reliability_diagram(networks: Mapping[str, Reliability]) -> Figure:
    """Accuracy by confidence for each label, a panel each, over the counts; the gap shaded."""
    _require(networks, "networks")
    columns = len(networks)
    figure = Figure(figsize=(0.8 + 3.1 * columns, 4.4), layout="constrained")
    grid = figure.subplots(2, columns, squeeze=False, sharex=True, sharey="row", height_ratios=(5, 1))
    for column, (label, table) in enumerate(networks.items()):
        upper, lower = grid[:, column]
        calm(upper)
        calm(lower)
        _draw_reliability(upper, table)
        upper.set_title(label, fontsize=11, color=INK)
        edges, counts = _numbers(table.edges), _numbers(table.counts)
        lower.bar(edges[:-1], counts / counts.sum(), width=np.diff(edges), align="edge", color=INK, alpha=0.55)
        lower.yaxis.set_major_locator(MaxNLocator(nbins=2))
        lower.yaxis.set_major_formatter(_percent)
        lower.set_xlabel("confidence (max probability)")
        _unit_axis(lower)
    grid[0, 0].set_ylabel("accuracy")
    grid[1, 0].set_ylabel("data")
    figure_legend(figure, _reliability_key(), columns=2 if columns == 1 else 4)
    return figure


def confidence_histograms(networks: Mapping[str, Mapping[str, Tensor]]) -> Figure:
    """How confident each network is on each set of inputs, say test data and noise: confidences (n,) each."""
    _require(networks, "networks")
    figure, all_axes = row(len(networks), width=3.4, height=3.4, share=True)
    edges = np.linspace(0, 1, HISTOGRAM_BINS + 1)
    names = dict.fromkeys(name for given in networks.values() for name in given)
    colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
    for axes, (label, given) in zip(all_axes, networks.items(), strict=True):
        _require(given, f"networks[{label!r}]")
        means = []
        for name, confidence in given.items():
            values = _numbers(confidence)
            # The slack is rounding, as in an average of probabilities.
            if len(values) == 0 or not ((values >= 0) & (values <= 1 + 1e-6)).all():
                raise UsageError(f"confidences of {label!r} on {name!r} must be in [0, 1] and not empty.")
            share = np.histogram(values.clip(0, 1), edges)[0] / len(values)
            axes.stairs(share, edges, fill=True, color=colours[name], alpha=0.35)
            axes.stairs(share, edges, color=colours[name], linewidth=1.6, label=name)
            means.append(f"{name} {values.mean():.2f}")
        axes.set_xlabel("confidence (max probability)")
        axes.yaxis.set_major_formatter(_percent)
        _unit_axis(axes)
        axes.set_title(label, fontsize=11, color=INK, pad=20)
        subtitle = "mean: " + ", ".join(means)
        axes.text(0.5, 1.02, subtitle, transform=axes.transAxes, ha="center", fontsize=9, color=INK)
    all_axes[0].set_ylabel("share of inputs")
    figure_legend(figure, [Patch(color=colours[name], alpha=0.7, label=name) for name in names], columns=4)
    return figure


def regression_band(
    x: Tensor, y: Tensor, grid: Tensor, mean: Tensor, aleatoric_sd: Tensor, epistemic_sd: Tensor
) -> Figure:
    """Data `x`, `y` (n,) and, on a `grid` (g,), the `mean` (g,) with its epistemic and total bands."""
    points = _same_length(x=x, y=y)
    line = _same_length(grid=grid, mean=mean, aleatoric_sd=aleatoric_sd, epistemic_sd=epistemic_sd)
    at, centre, aleatoric, epistemic = (values[np.argsort(line[0])] for values in line)
    figure, (axes,) = row(1, width=6.2, height=3.8)
    bands = (("total", np.hypot(aleatoric, epistemic), SKY, 0.3), ("epistemic", epistemic, BLUE, 0.4))
    for name, sd, colour, alpha in bands:
        half = BAND_SDS * sd
        label = f"{name}, ±{BAND_SDS:g} sd"
        axes.fill_between(at, centre - half, centre + half, color=colour, alpha=alpha, linewidth=0, label=label)
    axes.plot(at, centre, color=BLUE, linewidth=1.8, label="mean")
    axes.plot(*points, linestyle="", marker="o", markersize=3, color=INK, alpha=0.7, label="data")
    axes.set(xlabel="x", ylabel="y")
    axes.margins(x=0)
    legend_above(axes)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` as a PNG of 150 dots an inch, making the folder if need be."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, format="png", facecolor="white")


def _draw_reliability(axes: Axes, table: Reliability) -> None:
    edges, accuracy, confidence = (_numbers(t) for t in (table.edges, table.accuracy, table.confidence))
    filled = _numbers(table.counts) > 0
    # White lines between the bars, so that neighbours of equal height stay apart.
    style: dict[str, Any] = {"align": "edge", "edgecolor": "white", "linewidth": 0.8}
    left, width, gap = edges[:-1], np.diff(edges), confidence - accuracy
    axes.bar(left[filled], accuracy[filled], width[filled], color=BLUE, label="accuracy", **style)
    for name, colour, chosen in (
        ("overconfident", ORANGE, filled & (gap > 0)),
        ("underconfident", SKY, filled & (gap < 0)),
    ):
        bottom = accuracy[chosen]
        axes.bar(left[chosen], gap[chosen], width[chosen], bottom=bottom, color=colour, label=name, **style)
    axes.plot((0, 1), (0, 1), color=INK, linewidth=1, linestyle="--", label="calibrated")
    axes.text(0.04, 0.95, f"ECE {table.ece:.3f}", transform=axes.transAxes, va="top", fontsize=11, color=INK)
    axes.set_ylim(0, 1)


def _reliability_key() -> list[Artist]:
    return [
        Patch(color=BLUE, label="accuracy"),
        Patch(color=ORANGE, label="gap: overconfident"),
        Patch(color=SKY, label="gap: underconfident"),
        Line2D((), (), color=INK, linewidth=1, linestyle="--", label="calibrated"),
    ]


def figure_legend(figure: Figure, handles: list[Artist], *, columns: int) -> None:
    """A legend above all axes."""
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False, fontsize=9)


def _unit_axis(axes: Axes) -> None:
    """Confidence from 0 to 1, with ticks so short that neighbouring panels do not touch."""
    axes.set_xlim(0, 1)
    axes.set_xticks((0, 0.25, 0.5, 0.75, 1), ("0", "0.25", "0.5", "0.75", "1"))


def row(columns: int, *, width: float, height: float, share: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure of `columns` calm axes side by side, each of `width` by `height` inches."""
    figure = Figure(figsize=(width * columns, height), layout=ConstrainedLayoutEngine(w_pad=0.12))
    grid = figure.subplots(1, columns, squeeze=False, sharex=share, sharey=share)
    all_axes = list(grid[0])
    for axes in all_axes:
        calm(axes)
    return figure, all_axes


def calm(axes: Axes, *, grid: Literal["x", "y"] = "y") -> None:
    """No box, a faint grid behind the data across the `grid` axis, quiet ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.grid(axis=grid, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0, labelsize=9)


def legend_above(axes: Axes) -> None:
    """A legend above the data."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        frameon=False,
        fontsize=9,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.2,
    )


def _percent(share: float, _position: float | None) -> str:
    return f"{100 * share:g}%"


def _numbers(values: Tensor) -> Array:
    """The values as a flat float64 array, wherever they live."""
    array: Array = values.detach().double().cpu().reshape(-1).numpy()
    return array


def _same_length(**given: Tensor) -> list[Array]:
    arrays = {name: _numbers(values) for name, values in given.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise UsageError(f"lengths {lengths} differ or are zero; expected one value of each per point.")
    return list(arrays.values())


def _require(given: Mapping[str, object], name: str) -> None:
    if not given:
        raise UsageError(f"{name} is empty: expected at least one labelled entry to draw.")
