"""Figure of a landscape: filled, with the runs as points, the best marked, failures crossed out, regions on top."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.tri import LinearTriInterpolator, Triangulation
from numpy.typing import NDArray

from posterity.experiments.landscape import RATE, Axis, Landscape
from posterity.optim import robust_rates, stable_rate
from posterity.report.compare_figure import said
from posterity.report.figures import COLOURS, INK, VERMILLION, figure_legend

RESOLUTION = 400  # points a side between which the surface is interpolated
LEVELS = 24
BRIGHT = "viridis"  # bright is good, whichever way that is

Floats = NDArray[np.float64]


def landscape_figure(
    landscapes: Mapping[str, Landscape],
    *,
    curvatures: Sequence[float] | Mapping[str, Sequence[float]] = (),
    line: bool | Collection[str] = False,
    share: bool = True,
    columns: int | None = None,
) -> Figure:
    """A panel for each, in rows of so many `columns`, by default in one.

    All `share` axes and colours, or else each has its own: for other data, other metrics. `curvatures` and
    `line` draw the regions of rate and momentum: in all panels, or those of their names.
    """
    across = min(columns or len(landscapes), len(landscapes))
    down = math.ceil(len(landscapes) / across)
    figure = Figure(figsize=(0.9 + 5.4 * across, 0.4 + 4.3 * down), layout=ConstrainedLayoutEngine(w_pad=0.08))
    grid = figure.subplots(down, across, squeeze=False, sharex=share, sharey=share).flatten().tolist()
    for spare in grid[len(landscapes) :]:
        spare.remove()
    for place, (axes, (name, each)) in enumerate(zip(grid, landscapes.items(), strict=False)):
        surface = _draw(axes, each, _common_limits(landscapes.values()) if share else each.limits)
        own = curvatures.get(name, ()) if isinstance(curvatures, Mapping) else curvatures
        lined = line if isinstance(line, bool) else name in line
        if own or lined:
            _draw_regions(axes, each, own, lined)
        axes.set_xlabel(said(each.x_axis.short))
        if not (share and place % across):
            axes.set_ylabel(said(each.y_axis.short))
        axes.set_title(f"{name}: {_best(each)}" if name else _best(each), fontsize=9, color=INK, loc="left")
        if not share:
            _colour_bar(figure, surface, [axes], each)
    if share:
        _colour_bar(figure, surface, grid[: len(landscapes)], next(iter(landscapes.values())))
    handles = {h.get_label(): h for axes in grid for h in axes.get_legend_handles_labels()[0]}
    figure_legend(figure, list(handles.values()), columns=3 if across == 1 else 2 * across)
    return figure


def _common_limits(landscapes: Iterable[Landscape]) -> tuple[float, float]:
    lows, highs = zip(*(each.limits for each in landscapes), strict=True)
    return min(lows), max(highs)


def _colour_bar(figure: Figure, surface: Any, of: list[Axes], landscape: Landscape) -> None:
    bar = figure.colorbar(surface, ax=of, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, length=0, labelsize=9)
    bar.set_label(f"{said(landscape.metric)} ({'lower' if landscape.lower_is_better else 'higher'} is better)")


def _best(landscape: Landscape) -> str:
    at = landscape.best
    places = [
        f"{axis.short} {v[at]:.3g}" for axis, v in ((landscape.x_axis, landscape.x), (landscape.y_axis, landscape.y))
    ]
    return f"best {said(landscape.metric)} {landscape.z[at]:.3g} at {', '.join(places)}"


def _draw(axes: Axes, landscape: Landscape, limits: tuple[float, float]) -> Any:
    """Surface, points, crosses, star; what the colour bar is of."""
    x, y, z = landscape.x, landscape.y, landscape.z
    colours: dict[str, Any] = {"cmap": f"{BRIGHT}_r" if landscape.lower_is_better else BRIGHT}
    if limits[0] == limits[1]:  # all alike
        limits = (limits[0] - 0.5, limits[1] + 0.5)
    for axis, scale in ((landscape.x_axis, axes.set_xscale), (landscape.y_axis, axes.set_yscale)):
        if axis.log:
            scale("log")
    if landscape.is_grid:
        _draw_cells(axes, landscape, limits, colours)
    else:
        _draw_between(axes, landscape, limits, colours)
    surface = axes.scatter(
        x,
        y,
        c=z,
        s=16,
        vmin=limits[0],
        vmax=limits[1],
        edgecolors="white",
        linewidths=0.6,
        zorder=3,
        label="run",
        **colours,
    )
    if len(landscape.failed_x):
        crosses: dict[str, Any] = {"marker": "x", "s": 26, "linewidths": 1.3, "zorder": 3}
        halo = [withStroke(linewidth=3.2, foreground="white")]  # they also stand on dark ground
        label = "diverged or failed"
        axes.scatter(landscape.failed_x, landscape.failed_y, color=INK, path_effects=halo, label=label, **crosses)
    at = landscape.best
    axes.plot(
        x[at], y[at], marker="*", markersize=15, color="white", mec=INK, mew=1, linestyle="", zorder=5, label="best"
    )
    axes.tick_params(which="both", colors=INK, length=0, labelsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)
    _fit(axes, landscape)
    return surface


def _fit(axes: Axes, landscape: Landscape) -> None:
    """The axes end a little beyond the outermost runs, or at the cells' edges: regions do not stretch them."""
    for axis, ends, limit in (
        (landscape.x_axis, (landscape.x, landscape.failed_x), axes.set_xlim),
        (landscape.y_axis, (landscape.y, landscape.failed_y), axes.set_ylim),
    ):
        places = np.unique(axis.scaled(np.concatenate(ends)))
        room = 0.03 * (places[-1] - places[0]) if len(places) > 1 else 0.5
        edges = _edges(places) if landscape.is_grid else places[[0, -1]] + np.array([-room, room])
        limit(*axis.unscaled(edges[[0, -1]]).tolist())


def _draw_between(axes: Axes, landscape: Landscape, limits: tuple[float, float], colours: dict[str, Any]) -> None:
    """Linear between runs at random places; nothing where they span no area."""
    u, v = _unit(landscape.x_axis, landscape.x), _unit(landscape.y_axis, landscape.y)
    if len(u) < 3 or np.linalg.matrix_rank(np.column_stack([u - u[0], v - v[0]]), tol=1e-9) < 2:
        return
    side = np.linspace(0, 1, RESOLUTION)
    surface = LinearTriInterpolator(Triangulation(u, v), landscape.z)(*np.meshgrid(side, side))
    across = [_place(axis, values, side) for axis, values in
              ((landscape.x_axis, landscape.x), (landscape.y_axis, landscape.y))]  # fmt: skip
    levels = np.linspace(*limits, LEVELS + 1)
    axes.contourf(*across, surface, levels, extend="both", zorder=1, **colours)


def _draw_cells(axes: Axes, landscape: Landscape, limits: tuple[float, float], colours: dict[str, Any]) -> None:
    """A cell a run."""
    xs, ys = (np.union1d(*pair) for pair in ((landscape.x, landscape.failed_x), (landscape.y, landscape.failed_y)))
    table = np.full((len(ys), len(xs)), np.nan)
    table[np.searchsorted(ys, landscape.y), np.searchsorted(xs, landscape.x)] = landscape.z
    edges = [axis.unscaled(_edges(axis.scaled(v))) for axis, v in ((landscape.x_axis, xs), (landscape.y_axis, ys))]
    axes.pcolormesh(*edges, np.ma.masked_invalid(table), vmin=limits[0], vmax=limits[1], zorder=1, **colours)


def _edges(places: Floats) -> Floats:
    """Of cells around sorted places: halfway between them."""
    middle = (places[1:] + places[:-1]) / 2
    found: Floats = np.concatenate([[2 * places[0] - middle[0]], middle, [2 * places[-1] - middle[-1]]])
    return found


def _unit(axis: Axis, values: Floats) -> Floats:
    """In the axis's scale from 0 to 1, so that triangles are those that the eye sees."""
    scaled = axis.scaled(values)
    found: Floats = (scaled - scaled.min()) / max(np.ptp(scaled), 1e-300)
    return found


def _place(axis: Axis, values: Floats, unit: Floats) -> Floats:
    """The inverse of `_unit`."""
    scaled = axis.scaled(values)
    return axis.unscaled(scaled.min() + unit * np.ptp(scaled))


def _draw_regions(axes: Axes, landscape: Landscape, curvatures: Sequence[float], line: bool) -> None:
    landscape.refuse_other_axes()
    momentum = np.linspace(0, 1, 400)
    for curvature, colour in zip(
        curvatures, (COLOURS[3], COLOURS[1], COLOURS[4], COLOURS[2]) * len(curvatures), strict=False
    ):
        low, high = robust_rates(momentum, curvature)
        _over_momentum(axes, landscape, low, momentum, color=colour, label=f"robust region, curvature {curvature:g}")
        _over_momentum(axes, landscape, high, momentum, color=colour)
    if line and landscape.line is not None:
        label = f"line of stability, a = {landscape.line:.3g}"
        _over_momentum(
            axes,
            landscape,
            stable_rate(momentum, landscape.line),
            momentum,
            color=VERMILLION,
            label=label,
            linestyle="--",
        )


def _over_momentum(axes: Axes, landscape: Landscape, rate: Floats, momentum: Floats, **style: Any) -> None:
    """A rate for each momentum, whichever axis is which."""
    keep = rate > 0 if (landscape.x_axis if landscape.x_axis.short == RATE else landscape.y_axis).log else rate >= 0
    pair = (rate[keep], momentum[keep])
    axes.plot(*(pair if landscape.x_axis.short == RATE else pair[::-1]), linewidth=2, zorder=4, **style)
