"""What K4 and K5 share (source 002's experiments): test metrics against tau, and how far the optimum is from eta = 1.

    eta = tau p / N,   N the Bayesian weights, p the training data; eta = 1 is Bayes' rule, "no cooling"

The optimum is eta* with the least expected nll. How far it is, is |log10 eta*| seed by seed. What it gains over eta = 1
is measured on each seed at the eta* that the other seeds chose: the least of several noisy numbers would flatter it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from posterity.claims.claim import Table
from posterity.claims.drawing import Groups, draw_over, groups_table, legend
from posterity.claims.verdict import Check, Effect
from posterity.experiments.record import Record
from posterity.experiments.results import Results
from posterity.report.figures import VERMILLION, row

FAR = 3.0  # eta* below 1/3 or above 3 is well away from 1
NLL = "expected_nll"
METRICS = ("accuracy", NLL, "ece", "confidence")
VI, LANGEVIN = "variational inference", "Langevin dynamics"
RULE = (
    "Let eta* be the temperature with the least expected nll on test data. Over seeds, |log10 eta*| is above log10 "
    f"{FAR:g}: eta* is below 1/{FAR:g} or above {FAR:g}. At the eta* that the other seeds chose, a seed's expected nll "
    "minus that at eta = 1 is below 0, and its accuracy minus that at eta = 1 above 0. ECE and confidence are shown, "
    "not judged: a network that has fallen back to its prior is sure of nothing and has a small ECE."
)


def sizes(results: Results) -> dict[str, int]:
    """Weights N and data p of the runs: the same in all."""
    folder = results[0].folder
    assert folder is not None
    summary = Record.read(folder).summary
    return {"num_weights": summary["num_weights"], "num_data": summary["num_data"]}


def cooling_checks(results: Results) -> list[Check]:
    """The rule, applied to runs that differ in temperature and seed."""
    nll, accuracy = (_by_seed(results, metric) for metric in (NLL, "accuracy"))
    away = Effect.of(abs(math.log10(_best({seed: nll[seed]}))) for seed in nll)
    found = [Check.above("|log10 eta*|", away, math.log10(FAR))]
    chosen = {seed: _best({other: nll[other] for other in nll if other != seed} or nll) for seed in nll}
    less = Effect.of(nll[seed][chosen[seed]] - nll[seed][1.0] for seed in nll)
    more = Effect.of(accuracy[seed][chosen[seed]] - accuracy[seed][1.0] for seed in nll)
    found.append(Check.below("expected nll, at eta* minus at eta = 1", less))
    found.append(Check.above("accuracy, at eta* minus at eta = 1", more))
    return found


def _by_seed(results: Results, metric: str) -> dict[int, dict[float, float]]:
    """Values by temperature; a run that diverged has none, which is nan."""
    return {
        seed: {float(eta): each.mean(metric) for eta, each in rows.group_by("temperature").items()}
        for seed, rows in results.group_by("seed").items()
    }


def _best(nll: Mapping[int, Mapping[float, float]]) -> float:
    """The temperature with the least mean; one where a run diverged is none."""
    etas = sorted(next(iter(nll.values())))
    means = np.array([[values[eta] for eta in etas] for values in nll.values()]).mean(0)
    return etas[int(np.argmin(np.where(np.isnan(means), np.inf, means)))]


def of_samples(results: Results) -> Results:
    """Langevin runs, with the metrics of the collected samples in place of the last iterate's."""
    return Results(
        replace(r, metrics={name: r.metrics[f"average.{name}"] for name in METRICS if f"average.{name}" in r.metrics})
        for r in results
    )


def cooling_table(groups: Groups, measured: Mapping[str, Any]) -> Table:
    """A row a method and temperature."""
    share = measured["num_weights"] / measured["num_data"]
    named = {
        f"{name}, tau = {eta * share:.3g}, eta = {eta:g}": each
        for name, rows in groups.items()
        for eta, each in sorted(rows.group_by("temperature").items())
    }
    return groups_table(named, METRICS, head="tau, eta")


def cooling_figure(groups: Groups, measured: Mapping[str, Any]) -> Figure:
    """The four metrics over tau, with a red line at eta = 1, as in the source."""
    share = measured["num_weights"] / measured["num_data"]
    placed = {name: _with_tau(rows, share) for name, rows in groups.items()}
    figure, panels = row(len(METRICS), width=3.2, height=3.4)
    labels = {NLL: "expected nll (nats)", "accuracy": "test accuracy", "ece": "ECE", "confidence": "mean confidence"}
    for axes, metric in zip(panels, METRICS, strict=True):
        draw_over(axes, placed, "tau", metric, label=labels[metric])
        axes.axvline(share, color=VERMILLION, linewidth=1.2, zorder=0, label="eta = 1, no cooling")
        axes.set_xscale("log")
        axes.set_xlabel("tau = eta N / p")
    legend(figure)
    return figure


def _with_tau(rows: Results, share: float) -> Results:
    return Results(replace(r, config={**r.config, "tau": r.config["temperature"] * share}) for r in rows)
