"""What the experiments of source 003 share, where it says it, and what is filled in where it does not.

Said: the prior N(0, 1) for each weight, q = N(mean, sd^2 I) with one sd for all weights, plain steps of SGD with the
same rate for means and sd (its algorithm 1), all methods from the same start, 5 repetitions, 55,000 images of MNIST.
An averaged q has the means' average along the training and, by eq. 4, their variance along it.

Not said: the annealing constant of the KL. With 1 a q with a single sd learns nothing: for LeNet-5's 60,000 weights the
KL that a wider q saves, 60,000 log(sd ratio), is more than all the nll of 55,000 images. A tenth is taken here, for all
methods alike. Nor are the rate, the initial sd (here softplus(-5)), the batch, the number of epochs and the cycle.
With fewer rows the temperature falls with them, as in `thesis`.

Langevin dynamics moves by half its rate times the gradient of rows/temperature times the loss: so its rate is
2 lr temperature / rows, with which it drifts as SGD does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from posterity.experiments.results import Floats, Results

ROWS = {"mnist": 55_000, "cifar10": 50_000}
ANNEALING = 0.1
BBB, SGLD, HWA, RESTARTED = "BBB", "SGLD", "HWA", "HWA, going on from the average"

BASE: dict[str, Any] = {
    "batch_size": 100,
    "prior_scale": 1.0,
    "temperature": ANNEALING,
    "schedule": "constant",
    "val_samples": 4,
}


def variational(rate: float) -> dict[str, Any]:
    """Bayes by Backprop, with HWA's average beside it: the same training gives both."""
    return {
        "posterior": "tied",
        "rho": -5.0,
        "optimizer": "sgd",
        "optimizer_options": {"momentum": 0.0},
        "optimizer_sd": "sgd",
        "lr": rate,
        "lr_ratio": 1.0,
        "average": "hwa",
        "covariance": "snapshot",
    }


def langevin(rate: float, dataset: str) -> dict[str, Any]:
    """SGLD that drifts as SGD with this rate does, from the same start."""
    return {"posterior": "point", "optimizer": "sgld", "lr": 2 * rate * ANNEALING / ROWS[dataset]}


def fewer(dataset: str, rows: int, *, held: float = 0.0, **settings: Any) -> dict[str, Any]:
    """A run on `rows` rows, a share `held` of them held out, with a datum's share of the KL as with all."""
    temperature = ANNEALING * (1 - held) * rows / ROWS[dataset]
    return {"dataset": dataset, "train_rows": rows, "val_fraction": held, "temperature": temperature, **settings}


def methods(results: Results) -> dict[str, Results]:
    """Rows by method, in order of seed; HWA's are those of BBB, with the average's courses in place of the iterate's.

    A training that goes on from its average is judged by the average, too.
    """
    ordered = Results(sorted(results, key=lambda row: row.seed), results.columns)
    samplers = ordered.where(optimizer="sgld")
    beside, restarted = (ordered.where(optimizer="sgd", average_restart=restart) for restart in (False, True))
    found = {BBB: beside, HWA: of_average(beside), SGLD: samplers, RESTARTED: of_average(restarted)}
    return {name: rows for name, rows in found.items() if len(rows)}


def of_average(rows: Results) -> Results:
    """The same rows; the held-out numbers of their epochs are those of the average, as far as there is one."""

    def averaged(record: dict[str, Any]) -> dict[str, Any]:
        numbers = {name: record.get(f"val_average_{name}") for name in ("nll", "accuracy")}
        return {"epoch": record["epoch"], **{f"val_{name}": value for name, value in numbers.items()}}

    return Results([replace(row, records=[averaged(each) for each in row.history]) for row in rows], rows.columns)


def over_epochs(groups: dict[str, Results], number: str) -> dict[str, Floats]:
    """Of each group (seeds,): an epoch's number, averaged over the epochs for which there is an HWA average."""
    courses = {name: rows.histories(number)[1] for name, rows in groups.items()}
    there = ~np.isnan(courses[HWA]).any(0)
    return {name: values[:, there].mean(1) for name, values in courses.items()}
