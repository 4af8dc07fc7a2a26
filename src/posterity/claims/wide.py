"""What the claims on wide networks share (source 002, K1 to K3): optima over the width, slopes, and their panels.

    f(x) = (1/N) sum_j a_j relu(b_j . x),   prior N(0, 1/5)      N neurons, p data
    a slope s over log N:   the number goes as N^s

A number that goes as N is what tempering is there to cure, so a slope of a tenth of that counts as none (NONE).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from posterity.claims.drawing import Groups, draw_over
from posterity.claims.verdict import Effect
from posterity.experiments.results import Results
from posterity.models.mean_field_net import INIT_VARIANCE
from posterity.report.figures import INK

NEURONS = "neurons N"
NONE = 0.1
TAU = 0.02  # by neurons: the tempered optimum follows the data

# One hidden layer on MNIST by Bayes by Backprop. Means and sds start from the prior's law, so that nothing has to be
# unlearnt. A network that averages its neurons has gradients of order 1/N, while its weights must move by their prior's
# sd at every width: hence Adam, whose steps do not depend on the gradient's scale, at a high rate and with a tiny eps.
TRAINED: dict[str, Any] = {
    "dataset": "mnist",
    "model": "mean-field",
    "prior_scale": INIT_VARIANCE**0.5,
    "relative_sd": 1.0,
    "optimizer": "adam",
    "lr": 0.05,
    "optimizer_sd": "adam",
    "lr_sd": 0.05,
    "optimizer_options": {"eps": 1e-12},
    "optimizer_sd_options": {"eps": 1e-12},
    "batch_size": 200,
}


def by_width(starts: Mapping[int, int], **parameters: Any) -> list[dict[str, Any]]:
    """Cases of a study of optima by width, with their starts: narrow networks have local optima, so they get more."""
    return [{"parameters": {"width": width, "starts": count, **parameters}} for width, count in starts.items()]


def slopes(results: Results, setting: str, metric: str) -> Effect:
    """How a metric goes with a setting: the slope of one logarithm over the other, a value a seed."""
    return Effect.of(_slope(rows, setting, metric) for rows in results.group_by("seed").values())


def _slope(rows: Results, setting: str, metric: str) -> float:
    places = rows.group_by(setting)
    over = np.log([float(place) for place in places])
    values = np.array([each.mean(metric) for each in places.values()], dtype=np.float64)
    if not (values > 0).all():
        return float("nan")
    return float(np.polyfit(over, np.log(values), 1)[0])


def at(results: Results, setting: str, value: Any, metric: str) -> Effect:
    """A metric where a setting has this value, a value a seed."""
    return Effect.of(results.where(**{setting: value}).column(metric))


def draw_widths(
    axes: Axes, groups: Groups, metric: str, label: str, *, over: tuple[str, str] = ("width", NEURONS), log: bool = True
) -> None:
    """A metric over the width, or another number, which is logarithmic; with `log` the metric is, too."""
    draw_over(axes, groups, over[0], metric, label=label)
    places = sorted({int(place) for rows in groups.values() for place in rows.column(over[0])})
    axes.set_xscale("log")
    axes.set_xticks(places, [str(place) for place in places])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(over[1])
    if log:
        axes.set_yscale("log")
        axes.tick_params(which="minor", length=0, labelsize=8, labelcolor=INK)


def draw_rings(axes: Axes, name: str, rows: Results, setting: str, metric: str) -> None:
    """Means over a setting as rings, around a line that they may coincide with."""
    places = sorted(rows.group_by(setting).items())
    mean = [each.mean(metric) for _, each in places]
    axes.plot([place for place, _ in places], mean, "o", color=INK, markersize=9, markerfacecolor="none", label=name)
