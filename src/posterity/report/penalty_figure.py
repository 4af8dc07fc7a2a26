"""The figure of a penalty: what it charges, the prior it stands for, and whether it is a KL divergence."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posterity.experiments.penalty import PenaltyStudy
from posterity.report.figures import BLUE, COLOURS, INK, ORANGE, VERMILLION, legend_above, row

GREEN = COLOURS[2]


def penalty_figure(study: PenaltyStudy) -> Figure:
    """Left the penalty, or for a family with spread the A_nu that must coincide; right the prior."""
    figure, (left, right) = row(2, width=5.3, height=4.0)
    if study.completed is None:
        left.plot(study.weights, study.penalty, color=BLUE, linewidth=2, label="lambda r(w)")
        left.set_ylabel("penalty (nats)")
        _title(left, "Penalty of one weight", study.alone.is_kl)
    else:
        _draw_candidates(left, study)
        _title(left, "Penalty of the mean alone", study.alone.is_kl)
    _draw_prior(right, study)
    if study.completed is not None:
        _title(right, "Its expectation minus the entropy", study.completed.is_kl)
    else:
        right.set_title("Prior of one weight", fontsize=12, color=INK, pad=28)
    for axes in (left, right):
        axes.set_xlabel("weight w")
        axes.set_xlim(study.weights[0], study.weights[-1])
        legend_above(axes)
    group = f", groups of {study.group_size}" if study.group_size > 1 else ""
    figure.suptitle(f"{study.name}, {study.inputs} inputs{group}: lambda = {study.factor:.4g}", fontsize=13, color=INK)
    return figure


def _draw_candidates(axes: Axes, study: PenaltyStudy) -> None:
    grid, shown = study.alone.grid, np.abs(study.alone.grid) <= study.weights[-1]
    for colour, (nu, values) in zip((BLUE, ORANGE, GREEN), study.alone.candidates.items(), strict=False):
        axes.plot(grid[shown], values[shown], color=colour, linewidth=1.8, label=f"nu = {nu / study.sd:.2g} sd")
    axes.set_ylabel("A_nu: log prior, if all are equal")


def _draw_prior(axes: Axes, study: PenaltyStudy) -> None:
    normal = np.exp(-0.5 * (study.weights / study.sd) ** 2) / (study.sd * math.sqrt(2 * math.pi))
    axes.fill_between(study.weights, study.density, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(study.weights, study.density, color=BLUE, linewidth=2, label="prior")
    axes.plot(study.weights, normal, color=INK, linewidth=1.2, linestyle="--", label="N(0, 1/n), the same variance")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("density")


def _title(axes: Axes, text: str, is_kl: bool) -> None:
    verdict, colour = ("a KL divergence", GREEN) if is_kl else ("not a KL divergence", VERMILLION)
    axes.set_title(f"{text}: {verdict}", fontsize=12, color=colour, pad=28)
