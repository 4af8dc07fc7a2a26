"""T4: robust regions of momentum descent, and rates on a schedule        (source 000, sections 3.2 and 3.3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posterity.claims.claim import Claim, Table, claim
from posterity.claims.drawing import draw_curves, mean_error
from posterity.claims.evidence import Evidence
from posterity.claims.verdict import Check, Effect, differences
from posterity.experiments.results import Results
from posterity.experiments.row import Row
from posterity.optim.regions import robust_rates
from posterity.report.figures import INK, figure_legend, row

CURVATURES = (0.5, 1.0, 2.0)
MOMENTA = (0.1, 0.5, 0.9)
INSIDE = (0.05, 0.5, 0.95)  # places between the lowest and the highest robust rate
BELOW, ABOVE = 0.25, 1.1  # times the lowest, and times the highest
STEPS = 400
SHADES = ("#222222", "#777777", "#AAAAAA")  # of curvatures: colours are the schedules'
SAME = 0.03  # factors a step that differ by less are equal: the error swings on its way
FALLING = ("step", "cosine", "polynomial", "plateau")
SHOWN = ("cyclic", "one-cycle")


def _places(curvatures: tuple[float, ...], momenta: tuple[float, ...]) -> list[dict[str, Any]]:
    """Descents inside and outside of each region."""
    found: list[dict[str, Any]] = []
    for curvature in curvatures:
        for momentum in momenta:
            low, high = (float(edge) for edge in robust_rates(momentum, curvature))
            rates = [BELOW * low, *(low + place * (high - low) for place in INSIDE), ABOVE * high]
            place = {"curvature": curvature, "momentum": momentum}
            found += [{"parameters": {**place, "lr": round(lr, 6)}} for lr in rates]
    return found


@claim("T4", source="000, figures 3.1 and 3.2")
class RatesAndSchedules(Claim):
    """Momentum descent is robust in a region that the curvature decides, and a rate that falls serves SGD better.

    Between (1 - sqrt(mu))^2 / h and (1 + sqrt(mu))^2 / h all rates are said to converge equally fast, by sqrt(mu) a
    step, whatever the curvature h; outside it is slower. From there the source argues that a constant rate has little
    to be said for it, and shows schedules on a linear regression with SGD. Here: descents on quadratics inside and
    outside of the regions, and the excess loss of a linear regression at the end of SGD with each schedule. Schedules
    that rise again, which the source names too, are shown and not judged.
    """

    studies = {
        "descents": {
            "function": "quadratic_descent",
            "parameters": {"steps": STEPS},
            "scales": {
                "paper": {"cases": _places((0.25, *CURVATURES, 4.0), (*MOMENTA, 0.3, 0.7, 0.95))},
                "cpu": {"cases": _places(CURVATURES, MOMENTA)},
                "smoke": {"cases": _places((1.0,), (0.5,))},
            },
        },
        "regressions": {
            "function": "linear_regression_descent",
            "parameters": {"lr": 0.1, "epochs": 40},
            "axes": {"schedule": ["constant", *FALLING, *SHOWN]},
            "scales": {
                "paper": {"seeds": 50},
                "cpu": {"seeds": 10},
                "smoke": {"seeds": 2, "parameters": {"epochs": 4}},
            },
        },
    }
    curves = {"regressions": ("excess", "rate")}
    rule = (
        "The error's factor a step is sqrt(mu) within 3 % at every place inside of a region, and more than 3 % above "
        "it at every place outside. On the linear regression, paired by seed, log10 of the excess loss at the end is "
        f"lower with each falling schedule ({', '.join(FALLING)}) than with a constant rate."
    )
    departs = {
        "cpu": "The source draws the regions and shows schedules without numbers, data or settings: the places, the "
        "regression (200 rows, 10 inputs, batches of 10, rate 0.1) and the rule are ours. Ten seeds.",
        "paper": "The same with more curvatures and momenta, and fifty seeds.",
    }

    def checks(self, evidence: Evidence) -> list[Check]:
        """The regions, which are computed; then the schedules, over seeds."""
        excess = {inside: [_slower(each) for each in evidence["descents"] if _is_inside(each) is inside]
                  for inside in (True, False)}  # fmt: skip
        worst = Effect.exact(max(abs(value) for value in excess[True]))
        least = Effect.exact(min(excess[False]))
        found = [
            Check.below("inside: farthest that factor / sqrt(mu) is from 1", worst, SAME),
            Check.above("outside: least of factor / sqrt(mu) - 1", least, SAME),
        ]
        by = evidence["regressions"].group_by("schedule")
        for name in FALLING:
            gain = differences(by[name], by["constant"], "log_excess")
            found.append(Check.below(f"log10 of the excess loss, {name} minus constant", gain))
        return found

    def table(self, evidence: Evidence) -> Table:
        """A row a schedule; then a row a momentum with the factors inside and outside."""
        lines = [[f"schedule {name}", "excess loss at the end", mean_error(rows, "excess")]
                 for name, rows in evidence["regressions"].group_by("schedule").items()]  # fmt: skip
        for momentum, rows in evidence["descents"].group_by("momentum").items():
            for inside, words in ((True, "inside"), (False, "outside")):
                factors = [each.metrics["factor"] for each in rows if _is_inside(each) is inside]
                lines.append([f"momentum {momentum:g}, sqrt = {math.sqrt(momentum):.4f}", f"factors a step {words}",
                              f"{min(factors):.4f} to {max(factors):.4f}"])  # fmt: skip
        return Table(["", "what", "found"], lines)

    def figure(self, evidence: Evidence) -> Figure:
        """The regions with the descents in them, then rates and excess losses by epoch."""
        figure, axes = row(3, width=4.2, height=3.9)
        _draw_regions(axes[0], evidence["descents"])
        groups = evidence["regressions"].group_by("schedule")
        draw_curves(axes[1], groups, "rate")
        draw_curves(axes[2], groups, "excess", label="excess loss")
        axes[2].set_yscale("log")
        axes[2].set_ylim(1e-6, 10)
        for collection in (*axes[1].collections, *axes[2].collections):
            collection.set_visible(False)  # bands of one sd leave a logarithmic axis
        figure_legend(figure, axes[1].get_legend_handles_labels()[0], columns=7)
        return figure


def _is_inside(each: Row) -> bool:
    low, high = robust_rates(each.config["momentum"], each.config["curvature"])
    return bool(low <= each.config["lr"] <= high)


def _slower(each: Row) -> float:
    """By how much the error's factor is above sqrt(mu), relative to it."""
    return each.metrics["factor"] / math.sqrt(each.config["momentum"]) - 1


def _draw_regions(axes: Axes, descents: Results) -> None:
    momentum = np.linspace(0, 1, 200)
    for colour, (curvature, rows) in zip(SHADES, descents.group_by("curvature").items(), strict=False):
        low, high = robust_rates(momentum, curvature)
        axes.fill_between(momentum, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(momentum, high, color=colour, linewidth=1.5, label=f"h = {curvature:g}")
        axes.plot(momentum, low, color=colour, linewidth=1.5)
        for each in rows:
            marker = "o" if abs(_slower(each)) < SAME else "x"
            axes.plot(each.config["momentum"], each.config["lr"], marker, color=colour, markersize=5)
    axes.set(xlabel="momentum mu", ylabel="rate", yscale="log", ylim=(2e-4, 20))
    axes.set_title("o: the error falls by sqrt(mu) a step   x: it does not", fontsize=9, color=INK)
    axes.legend(loc="lower left", fontsize=9, frameon=False)
