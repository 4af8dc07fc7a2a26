"""Figure of gradient variances by kind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from posterity.core.errors import UsageError
from posterity.report.figures import COLOURS, INK, calm


def variance_bars(variances: Mapping[str, Mapping[str, float]], title: str) -> Figure:
    """The gradient's variance by kind, a bar for each group (mean, sd), on a logarithmic axis."""
    if not variances:
        raise UsageError("no variances to draw")
    groups = list(next(iter(variances.values())))
    figure = Figure(figsize=(6.4, 1.2 + 0.4 * len(variances)), layout="constrained")
    axes = figure.subplots()
    calm(axes, grid="x")
    places = np.arange(len(variances))
    height = 0.8 / len(groups)
    for number, (group, colour) in enumerate(zip(groups, COLOURS, strict=False)):
        values = [by_group[group] or np.nan for by_group in variances.values()]  # 0 is nowhere on a logarithmic axis
        axes.barh(places + (number - (len(groups) - 1) / 2) * height, values, height, color=colour, label=group)
    axes.set(yticks=places, yticklabels=list(variances), xscale="log")
    axes.set_xlabel("variance of the whole gradient, summed over its components")
    axes.invert_yaxis()
    axes.set_title(title, fontsize=11, color=INK, loc="left", pad=24)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(groups), frameon=False, fontsize=9)
    return figure
